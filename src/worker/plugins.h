/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's plugins: loaded in the order of their manifests, watched, reloaded, called.
 *
 * All of it is the loop's, but for plugins_call, which belongs to the processing thread. The two
 * never meet: while a job that calls plugins runs (plugins_busy), nothing is reloaded; it waits for
 * the job's end, and the next job waits for the new instance (plugins_ready). */
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
    const char *const *manifests; /* ends with NULL; paths */
    bool hot_reload;
    uint64_t bind_ms;               /* of a sidecar; 0: its usual */
    const char *storage_path;       /* manifests are kept there as plugins/<name>: database.h */
    void (*on_change)(void *owner); /* plugins_ready may say something else now */
    /* One could not be started at all. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Loads all of them; sidecars are not there yet. ERR_INVALID with a note that begins with the
 * manifest's path: no file, a directory, no manifest, a mode this worker does not run; ERR_NOMEM.
 * On error what was loaded before is closed: *ret_plugins is set, and plugins_close it. */
enum err plugins_open(const struct plugins_options *options, struct plugins **ret_plugins,
                      struct note *note);
bool plugins_ready(const struct plugins *plugins); /* all of them take calls; no plugin, true */
/* A job that may call is about to run, or has ended. */
void plugins_busy(struct plugins *plugins, bool busy);
void plugins_reload(struct plugins *plugins); /* all, as if they had changed; SIGHUP */
void plugins_halt(struct plugins *plugins);   /* fenced: sidecars are killed */
void plugins_resume(struct plugins *plugins);
void plugins_close(struct plugins *plugins, void (*done)(void *owner), void *owner);

/* The processing thread's: calls the first plugin and appends its answer. ERR_UNAVAILABLE: it is
 * not there now; ERR_INVALID: it refused; others as sidecar_call.h and cdylib.h. */
enum err plugins_call(struct plugins *plugins, struct str method, struct str payload,
                      struct buf *answer, struct note *note);
#endif
