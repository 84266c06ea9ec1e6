/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: joins the core, the link, the plugins, the checkpoints and the input.
 *
 * The loop beats, registers, receives assignments and submits jobs, one at a time, to one
 * processing thread, which reads input, calls plugins and writes checkpoints. A job takes along
 * until when it may write (life.h); it looks at the boot-time clock just before it does. So
 * neither a slow plugin nor a slow disk delays a beat, and a process that was stopped writes
 * nothing when it goes on. */
#ifndef WORKER_HOST_H
#define WORKER_HOST_H
#include "io/io.h"
#include "io/tls.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/client.h"
#include "worker/checkpoint.h"
#include "worker/plugins.h"

struct worker_host;
struct worker_host_options {
    struct io *io;
    struct clock *boot; /* the boot-time clock */
    const struct log_source *log;
    struct metrics *metrics;                /* may be NULL */
    struct rpc_client_metrics *rpc_metrics; /* may be NULL */
    struct tls_context *tls;
    const char *tls_name;
    const char *const *coordinators; /* ends with NULL */
    const char *worker_id, *run_id;
    uint64_t heartbeat_interval_ms, self_fence_timeout_ms, drain_deadline_ms;
    struct checkpoint_store *store; /* NULL: partitions begin at their start; borrowed */
    const char *input;              /* the input directory; NULL: partitions are held, and idle */
    bool use_plugin;                /* call the first plugin for each record */
    uint64_t rate;                  /* records a second at most; 0: as many as there are */
    struct plugins *plugins;        /* borrowed; may be NULL */
    /* The fence fell: work has stopped. */
    void (*on_fenced)(void *owner);
    /* After worker_host_drain: all was given back (true), or the deadline came first. */
    void (*on_drained)(void *owner, bool in_time);
    void *owner;
};
/* Beats at once. ERR_NOMEM, ERR_INVALID (addresses), ERR_UNAVAILABLE (no thread), with a note. */
enum err worker_host_open(const struct worker_host_options *options, struct worker_host **ret_host,
                          struct note *note);
/* Stop taking work, write what was begun, give all back, leave; then on_drained. */
void worker_host_drain(struct worker_host *host);
void worker_host_plugins_changed(struct worker_host *host); /* they may be ready now */
/* Waits for the job that runs; then done(). No event from here on. NULL is fine. */
void worker_host_close(struct worker_host *host, void (*done)(void *owner), void *owner);
#endif
