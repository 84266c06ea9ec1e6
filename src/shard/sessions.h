/* SPDX-License-Identifier: Apache-2.0 */
/* The operators' streams: /bigfleet.v1alpha1.Shard/Session on a gRPC server. A cluster has one
 * session; a new session replaces and closes the old one. Loop's thread. Functions may call
 * on_close and on_blob before they return.
 *
 * Receiving: the owner processes one roll-up per session at a time. One more roll-up may wait, and
 * a newer roll-up replaces it. All roll-ups share one budget of bytes. A message that does not fit
 * is not read from its peer.
 *
 * Sending: waiting frames are bounded in number and bytes (outbox.h). If the peer does not read,
 * its session is closed, and the resync of the next session repairs the loss. A resync sends only
 * the machines that are bound to the cluster. So the last state of a machine that left the cluster
 * is kept, and sent once after the resync. */
#ifndef SHARD_SESSIONS_H
#define SHARD_SESSIONS_H
#include "obs/log.h"
#include "rpc/server.h"
#include "shard/core/core.h"

struct sessions;

/* Valid until sessions_rollup_done(). Any thread may read the bytes. */
struct rollup {
    struct str cluster; /* cluster of the session, from the certificate */
    struct str bytes;   /* an encoded ClusterCapacityNeeds, for rollup_read() */
};
enum rollup_end {
    ROLLUP_ACKNOWLEDGED, /* applied, or quarantined until confirmed */
    ROLLUP_REFUSED,      /* not acknowledged; the last good demand stays */
};

/* The key points to `action`. */
static inline struct str action_key(const uint64_t *action)
{
    return str_of((const char *)action, sizeof *action);
}

struct session_blob { /* allocated by the owner; used by the sessions until on_blob */
    uint64_t action;  /* unique among the open requests */
    struct sessions *sessions;
    struct session *session; /* on which the request was sent */
    struct list link;        /* in session.blobs */
    struct timer timer;
};

struct sessions_events { /* all functions are required */
    /* A session was installed. The owner must send the state of each machine bound to the cluster,
     * then call sessions_resynced(). An on_close follows each on_open. */
    void (*on_open)(void *owner, struct str cluster, enum operator_link link);
    void (*on_close)(void *owner, struct str cluster);
    void (*on_rollup)(void *owner, struct rollup *rollup);
    /* Called exactly once per sessions_ask_blob(); returns the request to the owner. `content`
     * (borrowed): the blob (READY) or the reason (ERROR). */
    void (*on_blob)(void *owner, struct session_blob *request, enum blob_end end,
                    struct str content);
    /* A report of an operator that announced drain reports. `report` is borrowed. */
    void (*on_drain_report)(void *owner, const struct drain_report *report);
};

struct sessions_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    const struct sessions_events *events;
    void *owner;
    int64_t epoch; /* sent in acknowledgements */
    /* 0 selects the default in the comment: */
    uint32_t sessions_max;      /* 10,000; more get RESOURCE_EXHAUSTED */
    uint32_t blobs_max;         /* 100,000 open blob requests */
    size_t rollup_max;          /* 256 MiB for one roll-up */
    size_t rollup_budget;       /* 1 GiB for all roll-ups; at least rollup_max */
    size_t outbox_frames_max;   /* 524,288 per session */
    size_t outbox_bytes_max;    /* 256 MiB per session */
    size_t outboxes_bytes_max;  /* 512 MiB; beyond, the session with the longest outbox is closed */
    size_t departed_frames_max; /* 4,096 per cluster; beyond, the oldest frame is dropped */
    size_t departed_bytes_max;  /* 64 MiB for all clusters; beyond, the new frame is dropped */
    size_t blob_max;            /* 1 MiB */
    uint64_t hello_timeout_ms;  /* 30 s from the start of a stream to its first frame */
    /* 60 s to send a roll-up while others wait for memory, plus 1 s per MiB. */
    uint64_t rollup_timeout_ms;
};
enum err sessions_open(const struct sessions_options *options,
                       struct sessions **ret_sessions); /* ERR_NOMEM */
/* Call after the server is closed. NULL is fine. */
void sessions_close(struct sessions *s);
void sessions_server_limits(const struct sessions *s, struct rpc_server_limits *limits);
/* The server must be closed before the sessions. Errors of rpc_server_add. */
enum err sessions_serve(struct sessions *s, struct rpc_server *server, struct note *note);
/* Ends every session with UNAVAILABLE and accepts no new ones. */
void sessions_drain(struct sessions *s);

/* -- functions for one cluster; without a session they do nothing unless stated otherwise -- */
void sessions_set_term(struct sessions *s, int64_t term); /* for acknowledgements */
/* Frees the roll-up, and passes the next one to on_rollup. */
void sessions_rollup_done(struct sessions *s, struct rollup *rollup, enum rollup_end end);
/* Without a session calls on_blob inside this function. After ERR_FULL or ERR_NOMEM on_blob is
 * never called. */
enum err sessions_ask_blob(struct sessions *s, struct str cluster, struct session_blob *request,
                           const struct profile *profile, uint64_t timeout_ms);
/* False: no session. Drain reports about the instruction contain the action. */
bool sessions_reclaim(struct sessions *s, struct str cluster, uint64_t action, struct str machine,
                      uint64_t grace_ms, int32_t preemptor_priority);
/* `frame` is from frame_write_node_state(). `departed`: the machine is no longer bound to the
 * cluster. */
void sessions_node_state(struct sessions *s, struct str cluster, struct str machine, bool departed,
                         struct str frame);
void sessions_resynced(struct sessions *s, struct str cluster);
void sessions_capacity(struct sessions *s, struct str cluster, const struct capacity_offer *offer);
void sessions_need_status(struct sessions *s, struct str cluster, const struct need_status *status);

struct sessions_stats {
    uint32_t active, streams; /* active: after Hello; streams: all */
    uint64_t installed, replaced, removed, identity_rejected;
    uint64_t superseded;
    uint64_t refused; /* streams ended because of invalid messages */
    uint64_t unset;   /* frames without a payload */
    uint64_t rollups, rollups_superseded, rollups_paused;
    uint64_t blobs_stray; /* blobs that are late, duplicates, or unrequested */
    uint64_t reclaim_acks, drain_reports;
    uint64_t unread; /* sessions closed because the peer did not read */
    uint64_t stalled;
    uint64_t departed_dropped;
    uint32_t departed, blobs_waiting; /* now, not since the start */
    size_t rollup_bytes, outbox_bytes;
};
struct sessions_stats sessions_stats(const struct sessions *s);
#endif
