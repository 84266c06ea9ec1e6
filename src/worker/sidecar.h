/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that runs as a child process. The process is started with the path of a Unix socket as
 * its last argument. It is watched, restarted with growing pauses when it ends, and ends with the
 * worker, however the worker ends.
 *
 * This is the loop's part. A sidecar is ready once it accepts a connection on its socket. Calls are
 * made only while it is ready, in sidecar_call.h. */
#ifndef WORKER_SIDECAR_H
#define WORKER_SIDECAR_H
#include "io/io.h"
#include "obs/log.h"

enum {
    SIDECAR_BIND_MS = 5000,
    SIDECAR_LOOK_MS = 50,
    SIDECAR_STOP_MS = 2000, /* time between SIGTERM and SIGKILL */
    SIDECAR_PAUSE_FIRST_MS = 200,
    SIDECAR_PAUSE_MAX_MS = 30000,
    SIDECAR_LASTED_MS = 30000, /* after this running time the pause is short again */
    SIDECAR_WORDS_MAX = 64,
};
struct sidecar;
struct sidecar_options { /* texts are copied; the words of the command are borrowed */
    struct io *io;
    const struct log_source *log;
    const char *name;
    const char *const *command; /* ends with NULL */
    const char *socket_path;
    uint64_t bind_ms; /* time until the process must accept a connection; 0: SIDECAR_BIND_MS */
    /* sidecar_ready changed. Never called from inside a function of this header. */
    void (*on_change)(void *owner);
    /* The very first start failed and is not repeated. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Starts the process. Errors of process_start with a note, for example a missing program. */
enum err sidecar_open(const struct sidecar_options *options, struct sidecar **ret_sidecar,
                      struct note *note);
bool sidecar_ready(const struct sidecar *sidecar);
int sidecar_pid(const struct sidecar *sidecar); /* 0: no process now */
/* Sends SIGTERM, later SIGKILL, starts a new process on the socket. No call may be under way. */
void sidecar_reload(struct sidecar *sidecar);
/* Kills the process at once. No process is started until sidecar_resume. */
void sidecar_halt(struct sidecar *sidecar);
void sidecar_resume(struct sidecar *sidecar);
/* Asks the process to shut down, later kills it, removes the socket, and calls done(). Without a
 * process done() is called at once. No other callback follows this call. NULL is fine. */
void sidecar_close(struct sidecar *sidecar, void (*done)(void *owner), void *owner);
#endif
