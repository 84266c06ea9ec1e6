/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: connects its state machines, calls to the coordinator, plugins, checkpoints and input.
 *
 * The event loop sends heartbeats, registers, receives assignments, and submits one job at a time
 * to one processing thread. That thread reads input, calls plugins and writes checkpoints. A job
 * has a time until which it may write (life.h), and checks the boot-time clock just before writing.
 * Therefore neither a slow plugin nor a slow disk delays a heartbeat, and a process that was
 * stopped writes nothing when it resumes. */
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
    const char *const *coordinators; /* addresses; ends with NULL */
    const char *worker_id, *run_id;
    uint64_t heartbeat_interval_ms, self_fence_timeout_ms, drain_deadline_ms;
    struct checkpoint_store *store; /* borrowed; NULL: partitions start without a checkpoint */
    const char *input;              /* NULL: the worker holds partitions, but reads nothing */
    bool use_plugin;                /* call the first plugin for every record */
    uint64_t rate;                  /* limit of records per second; 0: no limit */
    struct plugins *plugins;        /* borrowed; may be NULL */
    /* Called when the worker was fenced and has stopped working. */
    void (*on_fenced)(void *owner);
    /* Called after worker_host_drain. `in_time`: all partitions were returned in time. */
    void (*on_drained)(void *owner, bool in_time);
    void *owner;
};
/* Opens the worker and sends its first heartbeat. Errors have a note: ERR_NOMEM, ERR_INVALID
 * (addresses), ERR_UNAVAILABLE (no thread). */
enum err worker_host_open(const struct worker_host_options *options, struct worker_host **ret_host,
                          struct note *note);
/* Starts no new work, writes finished work, returns all partitions, leaves, calls on_drained. */
void worker_host_drain(struct worker_host *host);
void worker_host_plugins_changed(struct worker_host *host); /* if plugins_ready may have changed */
/* Waits for the running job, then calls done(), and no other callback. NULL is fine. */
void worker_host_close(struct worker_host *host, void (*done)(void *owner), void *owner);
#endif
