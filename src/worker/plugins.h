/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of a worker: loaded in the order of their manifests, watched, reloaded and called.
 *
 * Everything runs on the event loop's thread, except plugins_call, which runs on the processing
 * thread. While a job that calls plugins runs (plugins_busy), no plugin is reloaded. A reload waits
 * for the job's end, and the next job waits for the new instance (plugins_ready). */
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
    const char *const *manifests; /* paths of manifests; ends with NULL */
    bool hot_reload;
    uint64_t bind_ms;               /* timeout for a sidecar's first connection; 0: the default */
    const char *storage_path;       /* stores the manifests as plugins/<name> (database.h) */
    void (*on_change)(void *owner); /* called when plugins_ready may have changed */
    /* Called when a plugin's first start failed. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Loads all plugins; sidecars may still be starting. ERR_INVALID has a note that begins with the
 * manifest's path: no file, a directory, no manifest, or an unsupported mode. ERR_NOMEM. On an
 * error *ret_plugins is set, and plugins_close closes the plugins loaded before. */
enum err plugins_open(const struct plugins_options *options, struct plugins **ret_plugins,
                      struct note *note);
bool plugins_ready(const struct plugins *plugins); /* every plugin accepts calls */
/* Reports that a job which may call plugins is about to run, or has ended. */
void plugins_busy(struct plugins *plugins, bool busy);
void plugins_reload(struct plugins *plugins); /* SIGHUP: reloads all plugins, even unchanged ones */
void plugins_halt(struct plugins *plugins);   /* kills the sidecars of a fenced worker */
void plugins_resume(struct plugins *plugins);
void plugins_close(struct plugins *plugins, void (*done)(void *owner), void *owner);

/* Calls the first plugin on the processing thread, and appends its answer. ERR_UNAVAILABLE: the
 * plugin is not available now. ERR_INVALID: the plugin reported an error. Further errors as in
 * sidecar_call.h and cdylib.h. */
enum err plugins_call(struct plugins *plugins, struct str method, struct str payload,
                      struct buf *answer, struct note *note);
#endif
