/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: connects its state machines, calls to the coordinator, plugins, checkpoints and input.
 *
 * The event loop sends heartbeats, receives assignments, and gives one job at a time to the
 * processing thread. That thread reads input, calls plugins and writes checkpoints. Just before a
 * write the job checks the boot-time clock against its deadline (life.h). So a process that was
 * stopped for long writes nothing when it resumes. */
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
    const char *const *coordinators;
    const char *worker_id, *run_id;
    uint64_t heartbeat_interval_ms, self_fence_timeout_ms, drain_deadline_ms;
    struct checkpoint_store *store; /* borrowed; NULL: partitions start without a checkpoint */
    const char *input;              /* NULL: the worker holds partitions, but reads nothing */
    bool use_plugin;
    uint64_t rate;
    struct plugins *plugins; /* borrowed; may be NULL */
    /* The worker was fenced and has stopped working. */
    void (*on_fenced)(void *owner);
    /* Called after worker_host_drain. `in_time`: all partitions were returned in time. */
    void (*on_drained)(void *owner, bool in_time);
    void *owner;
};
/* Opens the worker and sends its first heartbeat. Errors with a note: ERR_NOMEM, ERR_INVALID
 * (addresses), ERR_UNAVAILABLE (no thread). */
enum err worker_host_open(const struct worker_host_options *options, struct worker_host **ret_host,
                          struct note *note);
/* Starts no new work, writes finished work, returns all partitions, leaves, calls on_drained. */
void worker_host_drain(struct worker_host *host);
void worker_host_plugins_changed(struct worker_host *host); /* plugins_ready may have changed */
/* Waits for the running job, then calls done(), and no other callback. NULL is fine. */
void worker_host_close(struct worker_host *host, void (*done)(void *owner), void *owner);
#endif
