/* SPDX-License-Identifier: Apache-2.0 */
/* The operators' streams: /bigfleet.v1alpha1.Shard/Session on a gRPC server.
 *
 * One session per cluster: a new one replaces and closes the old one. The sessions know nothing of
 * demand or machines: they report to their owner (the driver) what operators send, and send what it
 * asks them to. All on the loop's thread. A verb may call back before it returns: on_close and
 * on_blob when the session ends by it, on_rollup from sessions_rollup_done.
 *
 * Reading is split from the work on roll-ups. A roll-up is never decoded here: its bytes are handed
 * to the owner, one at a time per session; one more may wait, and a newer one takes its place. All
 * roll-ups that are half read, waiting or being worked on share one budget of bytes. A message
 * that does not fit waits at its peer (rpc_pause on its announced size): nothing is lost, and
 * nobody else waits for it. Small messages always fit.
 *
 * Writing is bounded by frames and bytes. What may be superseded is (outbox.h); a peer that still
 * does not read is closed with RESOURCE_EXHAUSTED, and the resync of its next session repairs it.
 * A resync sends the machines that are bound to the cluster and no others, so the last state of a
 * machine that has left the cluster is kept for an operator who was away or behind, and follows the
 * resync (sessions_resynced). It is sent once: what the network lost on its way is lost. */
#ifndef SHARD_SESSIONS_H
#define SHARD_SESSIONS_H
#include "obs/log.h"
#include "rpc/server.h"
#include "shard/core/core.h"

struct sessions;

/* A roll-up that is the owner's to work on until sessions_rollup_done. Its memory may be read on
 * any thread. Its decoder compares the cluster that it names. */
struct rollup {
    struct str cluster; /* the session's, which is the certificate's */
    struct str bytes;   /* an encoded ClusterCapacityNeeds, for rollup_read() (need_wire.h) */
};
enum rollup_end {
    ROLLUP_ACKNOWLEDGED, /* applied or held: both are acknowledged */
    ROLLUP_REFUSED,      /* no acknowledgement; the last good demand stays */
};

/* The action as the key of a map; borrowed. */
static inline struct str action_key(const uint64_t *action)
{
    return str_of((const char *)action, sizeof *action);
}

struct session_blob { /* the owner's memory, and the sessions' until on_blob */
    uint64_t action;  /* the owner's; no two requests at once have the same */
    struct sessions *sessions;
    struct session *session; /* it was sent on */
    struct list link;        /* in its session's blobs */
    struct timer timer;
};

struct sessions_events { /* all of them are set */
    /* Installed, and its Hello is acknowledged: the state of each machine bound to the cluster is
     * due, then sessions_resynced. on_open and on_close of a cluster take turns. */
    void (*on_open)(void *owner, struct str cluster, bool reports_drains);
    void (*on_close)(void *owner, struct str cluster);
    void (*on_rollup)(void *owner, struct rollup *rollup);
    /* Exactly once per sessions_ask_blob; the request is the owner's again. READY: `content` is the
     * blob; ERROR: why there is none. Borrowed. */
    void (*on_blob)(void *owner, struct session_blob *request, enum blob_end end,
                    struct str content);
    /* From an operator that announced it. Borrowed. */
    void (*on_drain_report)(void *owner, const struct drain_report *report);
};

struct sessions_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    const struct sessions_events *events;
    void *owner;
    int64_t epoch; /* of the shard, for acknowledgements */
    /* 0: the default behind it */
    uint32_t sessions_max;      /* 10,000; more get RESOURCE_EXHAUSTED */
    uint32_t blobs_max;         /* 100,000 requests under way */
    size_t rollup_max;          /* 256 MiB, of one message */
    size_t rollup_budget;       /* 1 GiB for all; at least rollup_max */
    size_t outbox_frames_max;   /* 524,288 of one session: a machine each */
    size_t outbox_bytes_max;    /* 256 MiB of one session */
    size_t outboxes_bytes_max;  /* 512 MiB of all: at the bound the longest is closed */
    size_t departed_frames_max; /* 4,096 of one cluster; the oldest goes */
    size_t departed_bytes_max;  /* 64 MiB of all clusters; the newest goes */
    size_t blob_max;            /* 1 MiB */
    uint64_t hello_timeout_ms;  /* 30 s for the first frame */
    /* 60 s, and 1 s for each MiB, to send a message that others wait behind */
    uint64_t rollup_timeout_ms;
};
enum err sessions_open(const struct sessions_options *options,
                       struct sessions **ret_sessions); /* ERR_NOMEM */
/* After the server is closed. NULL is fine. */
void sessions_close(struct sessions *s);
/* What a server needs so that its own limits are not below these. */
void sessions_server_limits(const struct sessions *s, struct rpc_server_limits *limits);
/* Errors as rpc_server_add. The server is closed before the sessions are. */
enum err sessions_serve(struct sessions *s, struct rpc_server *server, struct note *note);
/* Ends every session with UNAVAILABLE and takes no more. */
void sessions_drain(struct sessions *s);

/* -- verbs; for a cluster without a session they do nothing unless they say otherwise -- */
void sessions_set_term(struct sessions *s, int64_t term); /* of the coordinator, for acks */
/* Frees the roll-up. The next one of its session follows by on_rollup. */
void sessions_rollup_done(struct sessions *s, struct rollup *rollup, enum rollup_end end);
/* Without a session on_blob says so at once. ERR_FULL, ERR_NOMEM: on_blob never comes. */
enum err sessions_ask_blob(struct sessions *s, struct str cluster, struct session_blob *request,
                           const struct profile *profile, uint64_t timeout_ms);
/* False: there is no session. The same action has the same instruction id, and the drain
 * reports of it carry the action back. */
bool sessions_reclaim(struct sessions *s, struct str cluster, uint64_t action, struct str machine,
                      uint64_t grace_ms, int32_t preemptor_priority);
/* `frame` is a whole ShardMessage from frame_write_node_state() (session_frame.h), written by the
 * thread that owns the resource names. `departed`: the machine is not bound to the cluster any
 * more. */
void sessions_node_state(struct sessions *s, struct str cluster, struct str machine, bool departed,
                         struct str frame);
void sessions_resynced(struct sessions *s, struct str cluster);
void sessions_capacity(struct sessions *s, struct str cluster, const struct capacity_offer *offer);

struct sessions_stats {
    uint32_t active, streams; /* streams: also those that have not said Hello */
    uint64_t installed, replaced, removed, identity_rejected;
    uint64_t superseded;
    uint64_t refused; /* streams that were ended for what they sent: no Hello, garbage */
    uint64_t unset;   /* frames without payload */
    uint64_t rollups, rollups_superseded, rollups_paused;
    uint64_t blobs_stray; /* answers that were late, unknown or given twice */
    uint64_t reclaim_acks, drain_reports;
    uint64_t unread; /* sessions that were closed because their peer does not read */
    uint64_t stalled;
    uint64_t departed_dropped;
    uint32_t departed, blobs_waiting; /* now */
    size_t rollup_bytes, outbox_bytes;
};
struct sessions_stats sessions_stats(const struct sessions *s);
#endif
