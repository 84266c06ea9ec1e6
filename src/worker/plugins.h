/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of a worker: loaded in the order of their manifests, watched, reloaded and called.
 *
 * Everything runs on the event loop's thread, except plugins_call. A reload waits until the running
 * job ends (plugins_busy). The next job waits for the new instance (plugins_ready). */
#ifndef WORKER_PLUGINS_H
#define WORKER_PLUGINS_H
#include "base/buf.h"
#include "io/io.h"
#include "obs/log.h"

enum { PLUGINS_MAX = 16, PLUGINS_QUIET_MS = 200 };

struct plugins;
struct plugins_options {
    struct io *io;
    const struct log_source *log;
    const char *const *manifests; /* paths; ends with NULL */
    bool hot_reload;
    uint64_t bind_ms;               /* limit for a sidecar's first connection; 0: the default */
    const char *storage_path;       /* file for the manifests (database.h) */
    void (*on_change)(void *owner); /* called when plugins_ready may have changed */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Loads all plugins; sidecars may still be starting. ERR_INVALID has a note that begins with the
 * manifest's path. ERR_NOMEM. Also after an error, *ret_plugins must be closed. */
enum err plugins_open(const struct plugins_options *options, struct plugins **ret_plugins,
                      struct note *note);
bool plugins_ready(const struct plugins *plugins); /* every plugin accepts calls */
/* Call with true before a job that may call plugins runs, and with false after the job. */
void plugins_busy(struct plugins *plugins, bool busy);
void plugins_reload(struct plugins *plugins); /* SIGHUP: reloads all plugins, even unchanged ones */
void plugins_halt(struct plugins *plugins);   /* kills the sidecars of a fenced worker */
void plugins_resume(struct plugins *plugins);
void plugins_close(struct plugins *plugins, void (*done)(void *owner), void *owner);

/* Calls the first plugin on the processing thread, and appends its answer. Other errors as in
 * sidecar_call.h and cdylib.h.
 *   ERR_UNAVAILABLE   the plugin is not available now
 *   ERR_INVALID       the plugin reported an error */
enum err plugins_call(struct plugins *plugins, struct str method, struct str payload,
                      struct buf *answer, struct note *note);
#endif
