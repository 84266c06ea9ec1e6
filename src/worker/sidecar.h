/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that is a process: started with the path of a Unix socket as its last word, watched,
 * started again with growing pauses when it ends, and gone when the worker is, however that ends.
 *
 * The loop's half. It counts as ready once it takes a connection on its socket; calls are made
 * elsewhere (sidecar_call.h), and only while it is ready. */
#ifndef WORKER_SIDECAR_H
#define WORKER_SIDECAR_H
#include "io/io.h"
#include "obs/log.h"

enum {
    SIDECAR_BIND_MS = 5000,
    SIDECAR_LOOK_MS = 50,
    SIDECAR_STOP_MS = 2000, /* then it is killed */
    SIDECAR_PAUSE_FIRST_MS = 200,
    SIDECAR_PAUSE_MAX_MS = 30000,
    SIDECAR_LASTED_MS = 30000, /* after which the pause is small again */
    SIDECAR_WORDS_MAX = 64,
};
struct sidecar;
struct sidecar_options { /* texts are copied, the command's words borrowed */
    struct io *io;
    const struct log_source *log;
    const char *name;
    const char *const *command; /* ends with NULL */
    const char *socket_path;
    uint64_t bind_ms; /* until it must take a connection; 0: SIDECAR_BIND_MS */
    /* sidecar_ready changed. Never from inside a call of this header. */
    void (*on_change)(void *owner);
    /* The very first start came to nothing; it is not tried again. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Starts it. What process_start answers, with a note: no such program, for one. */
enum err sidecar_open(const struct sidecar_options *options, struct sidecar **ret_sidecar,
                      struct note *note);
bool sidecar_ready(const struct sidecar *sidecar);
int sidecar_pid(const struct sidecar *sidecar); /* 0: there is none now */
/* SIGTERM, SIGKILL after a while, and a new one on the same socket. No call may be under way. */
void sidecar_reload(struct sidecar *sidecar);
/* Killed at once, and not started again until sidecar_resume. */
void sidecar_halt(struct sidecar *sidecar);
void sidecar_resume(struct sidecar *sidecar);
/* Asks it to shut down, then kills it; removes the socket; then done(), at once where there is no
 * process. No event from here on. NULL is fine. */
void sidecar_close(struct sidecar *sidecar, void (*done)(void *owner), void *owner);
#endif
