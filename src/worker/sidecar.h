/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that runs as a child process, with the path of a Unix socket as its last argument. A
 * process that ends is restarted with growing pauses. It always ends with the worker, even after a
 * crash.
 *
 * Runs on the event loop's thread. sidecar_call.h may call a sidecar once it accepts a connection
 * on its socket (sidecar_ready). */
#ifndef WORKER_SIDECAR_H
#define WORKER_SIDECAR_H
#include "io/io.h"
#include "obs/log.h"

enum {
    SIDECAR_BIND_MS = 5000,
    SIDECAR_LOOK_MS = 50,
    SIDECAR_STOP_MS = 2000,
    SIDECAR_PAUSE_FIRST_MS = 200,
    SIDECAR_PAUSE_MAX_MS = 30000,
    SIDECAR_LASTED_MS = 30000, /* after a run this long, the pause is short again */
    SIDECAR_WORDS_MAX = 64,
};
struct sidecar;
struct sidecar_options { /* texts are copied; command words are borrowed */
    struct io *io;
    const struct log_source *log;
    const char *name;
    const char *const *command; /* ends with NULL */
    const char *socket_path;
    uint64_t bind_ms; /* limit for the first connection; 0: SIDECAR_BIND_MS */
    /* Called in a later turn of the loop after a change of sidecar_ready. */
    void (*on_change)(void *owner);
    /* Called if the first start failed. The start is not repeated. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Errors of process_start with a note, for example for a missing program. */
enum err sidecar_open(const struct sidecar_options *options, struct sidecar **ret_sidecar,
                      struct note *note);
bool sidecar_ready(const struct sidecar *sidecar);
int sidecar_pid(const struct sidecar *sidecar);
/* Sends SIGTERM, later SIGKILL, and starts a new process. No call to the sidecar may be running. */
void sidecar_reload(struct sidecar *sidecar);
/* Kills the process with SIGKILL. Only sidecar_resume allows a new process. */
void sidecar_halt(struct sidecar *sidecar);
void sidecar_resume(struct sidecar *sidecar);
/* Asks the process to shut down, kills it later, removes the socket, and calls done(). Without a
 * process, calls done() inside this function. No other callback follows. NULL is fine. */
void sidecar_close(struct sidecar *sidecar, void (*done)(void *owner), void *owner);
#endif
