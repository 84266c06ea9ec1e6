/* SPDX-License-Identifier: Apache-2.0 */
/* A running shard: reconciles with its provider, hears its operators, decides, acts.
 *
 *   provider --List--> jobs --> core (decide thread) --> effects --> provider calls, operators
 *   operators -roll-ups, blobs-->
 *
 * It needs nobody's permission: no coordinator is known here. A cycle runs every interval and, when
 * demand changed, soon after; never two at once. A cycle asks the provider for its machines first
 * (List), unless demand woke it and the last List is younger than the interval. A List that fails
 * leaves the inventory as it was, and the cycle goes on.
 *
 * One per process; all on the loop's thread but for what decide_thread.h says. */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H
#include "obs/events.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "provider/client.h"
#include "rpc/server.h"
#include "shard/core/core.h"
#include "shard/domains.h"
#include "shard/view.h"

enum { SHARD_CYCLE_MS = 10 * 1000 };

struct shard;
struct shard_fence {
    int64_t newest;  /* the epoch that the provider has seen; 0: it names none */
    struct str text; /* the provider's */
};
struct shard_options {
    struct io *io;
    const struct log_source *log; /* copied */
    struct metrics *metrics;
    struct events *audit; /* NULL: not kept */
    const char *id;       /* copied */
    uint64_t epoch;
    struct provider *provider;    /* lives longer */
    const char *provider_address; /* for the report; copied */
    struct domains *domains;      /* lives longer; this shard's to change */
    struct core_options core;
    uint64_t cycle_ms;      /* 0: SHARD_CYCLE_MS */
    bool incremental;       /* ask for what changed, of a provider that reports removals too */
    size_t blob_bytes_max;  /* of all bootstrap blobs that wait for their Configure; 0: 256 MiB */
    uint32_t warmup_cycles; /* whose durations are not observed */
    /* The first List was whole: it may be given work. Once. */
    void (*on_ready)(void *owner);
    /* An operator reports its drains, and core.operators_reported was not set. Once. */
    void (*on_reports_drains)(void *owner);
    /* After each cycle the page /rests (rests.c), borrowed. NULL: it is not made. */
    void (*on_rests)(void *owner, struct str json);
    /* The provider refused a token because a newer process of this shard acts: this one has stopped
     * acting. Once; its texts are borrowed. */
    void (*on_fenced)(void *owner, const struct shard_fence *fence);
    void *owner;
};
enum err shard_open(const struct shard_options *options, struct shard **ret_shard,
                    struct note *note);
/* The methods of both services; before the server listens. What rpc_server_add answers. */
enum err shard_serve(struct shard *shard, struct rpc_server *server, struct note *note);
/* Raises the server's limits to what the sessions need. */
void shard_server_limits(const struct shard *shard, struct rpc_server_limits *limits);
void shard_start(struct shard *shard); /* the first cycle, at once */
/* The kill switch: no call that changes a machine leaves after this, those under way end. The rest
 * goes on. There is no way back but another process. */
void shard_pause(struct shard *shard);
/* No new cycle and no new action; sessions end with UNAVAILABLE; calls under way are not waited
 * for: their machines are found again by the next List. done() when the server may be drained. */
void shard_stop(struct shard *shard);
/* After the server is closed and the provider's calls have ended. */
void shard_close(struct shard *shard); /* NULL is fine */

struct shard_view shard_view(struct shard *shard);
#endif
