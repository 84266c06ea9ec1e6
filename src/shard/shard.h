/* SPDX-License-Identifier: Apache-2.0 */
/* A running shard: reconciles with its provider, serves its operators, decides and acts.
 *
 *   provider --List--> jobs --> core (decide thread) --> effects --> provider calls, operators
 *   operators -roll-ups, blobs-->
 *
 * A cycle runs every interval, and soon after demand changed. It begins with a List, unless demand
 * triggered it and the last List is younger than the interval. If a List fails, the cycle continues
 * with the known inventory. The shard works without a coordinator. Its code runs on the loop's
 * thread, except jobs (decide_thread.h). */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H
#include "obs/events.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "provider/client.h"
#include "rpc/server.h"
#include "shard/cordon_file.h"
#include "shard/core/core.h"
#include "shard/domains.h"
#include "shard/view.h"

enum { SHARD_CYCLE_MS = 10 * 1000 };

struct shard;
struct shard_fence {
    int64_t newest;  /* newest epoch that the provider has seen; 0: not named */
    struct str text; /* error text of the provider */
};
struct shard_options {
    struct io *io;
    const struct log_source *log; /* copied */
    struct metrics *metrics;
    struct events *audit; /* the audit log; NULL: none */
    const char *id;       /* copied */
    uint64_t epoch;
    struct provider *provider;    /* must outlive the shard */
    const char *provider_address; /* for the report; copied */
    struct domains *domains;      /* must outlive the shard; only the shard changes them */
    struct cordon_file *cordons;  /* the same; NULL: the shard takes no orders of operators */
    struct core_options core;
    uint64_t cycle_ms;      /* 0: SHARD_CYCLE_MS */
    bool incremental;       /* request deltas, if the provider also reports removals */
    size_t blob_bytes_max;  /* bytes of all blobs that wait for Configure; 0: 256 MiB */
    uint32_t warmup_cycles; /* first cycles whose durations are not recorded */
    /* Called once, when the first List was complete. */
    void (*on_ready)(void *owner);
    /* Called once, when an operator reports drains although core.operators_reported was not set. */
    void (*on_reports_drains)(void *owner);
    /* Called after each cycle with the page /rests (rests.c), which is borrowed. May be NULL. */
    void (*on_rests)(void *owner, struct str json);
    /* Called once, after a newer process of this shard became active and this process stopped
     * acting. The texts are borrowed. */
    void (*on_fenced)(void *owner, const struct shard_fence *fence);
    void *owner;
};
enum err shard_open(const struct shard_options *options, struct shard **ret_shard,
                    struct note *note);
/* Call before the server listens. Errors of rpc_server_add. */
enum err shard_serve(struct shard *shard, struct rpc_server *server, struct note *note);
void shard_server_limits(const struct shard *shard, struct rpc_server_limits *limits);
void shard_start(struct shard *shard); /* starts the first cycle at once */
/* Turns on the kill switch: no further call that changes a machine is sent. Calls under way end
 * normally, and everything else continues. Only a new process acts again. */
void shard_pause(struct shard *shard);
/* Starts no new cycle or action and ends sessions with UNAVAILABLE. Does not wait for calls under
 * way. Calls done() when the server may be drained. */
void shard_stop(struct shard *shard);
/* Call after the server is closed and the provider's calls have ended. */
void shard_close(struct shard *shard); /* NULL is fine */

struct shard_view shard_view(struct shard *shard);

/* An operator's order: cordons machines, empties them, or takes that back (CORDON_NONE). */
struct shard_order {
    struct cordon_entry entry; /* copied; the shard sets the time */
    /* Called once on the loop. `machines`: how many the order is about. ERR_UNKNOWN: in effect, but
     * a restart may undo it. After ERR_NOMEM the order may be on disk, and is then in effect
     * later. */
    void (*done)(void *context, enum err err, uint32_t machines, struct str why);
    void *context;
};
/* ERR_BUSY (another order is being written), ERR_UNSUPPORTED, ERR_NOMEM: done() is not called. */
enum err shard_order(struct shard *shard, const struct shard_order *order);
#endif
