/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of a worker: loaded in the order of their manifests, watched, reloaded and called.
 *
 * Everything runs on the loop's thread, except plugins_call, which runs on the processing thread.
 * The two do not overlap: while a job that calls plugins runs (plugins_busy), no plugin is
 * reloaded. The reload waits for the job, and the next job for the new instance (plugins_ready). */
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
    uint64_t bind_ms;               /* time until a sidecar must accept connections; 0: default */
    const char *storage_path;       /* file with the manifests as plugins/<name>: database.h */
    void (*on_change)(void *owner); /* the result of plugins_ready may have changed */
    /* A plugin could not be started at all. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Loads all plugins; sidecars may still be starting. ERR_INVALID with a note that begins with the
 * manifest's path: no file, a directory, no manifest, or an unsupported mode. ERR_NOMEM. On an
 * error *ret_plugins is set, and plugins_close closes the plugins loaded so far. */
enum err plugins_open(const struct plugins_options *options, struct plugins **ret_plugins,
                      struct note *note);
bool plugins_ready(const struct plugins *plugins); /* all plugins accept calls, or there is none */
/* A job that may call plugins is about to run, or has ended. */
void plugins_busy(struct plugins *plugins, bool busy);
void plugins_reload(struct plugins *plugins); /* reloads all plugins, changed or not; SIGHUP */
void plugins_halt(struct plugins *plugins);   /* the worker is fenced: kills the sidecars */
void plugins_resume(struct plugins *plugins);
void plugins_close(struct plugins *plugins, void (*done)(void *owner), void *owner);

/* On the processing thread: calls the first plugin and appends its answer. ERR_UNAVAILABLE: the
 * plugin is not available now. ERR_INVALID: the plugin reported an error. Others as sidecar_call.h
 * and cdylib.h. */
enum err plugins_call(struct plugins *plugins, struct str method, struct str payload,
                      struct buf *answer, struct note *note);
#endif
