/* SPDX-License-Identifier: Apache-2.0 */
/* The operators' streams: /bigfleet.v1alpha1.Shard/Session on a gRPC server.
 *
 * A cluster has one session: a new session replaces and closes the old one. Sessions know nothing
 * of demand or machines. They pass received messages to their owner, the shard, and send what the
 * owner asks for. Functions run on the loop's thread. A function may call back before it returns:
 * on_close and on_blob if it ends the session, on_rollup from sessions_rollup_done.
 *
 * Receiving: a roll-up's bytes are passed to the owner undecoded, one roll-up at a time per
 * session. One more roll-up may wait; a newer roll-up replaces the waiting one. All roll-ups that
 * are partly received, waiting or being processed share one budget of bytes. A message that does
 * not fit is not read from its peer (rpc_pause when its size is announced). Therefore no message is
 * lost and no other session waits. Small messages always fit.
 *
 * Sending: waiting frames are bounded in number and bytes, and may be superseded (outbox.h). If the
 * peer does not read, its session is closed with RESOURCE_EXHAUSTED, and the resync of the next
 * session repairs the loss. A resync sends only the machines that are bound to the cluster. So the
 * last state of a machine that left the cluster is kept for an operator that is away or slow. It is
 * sent once, after the resync (sessions_resynced), and the network may lose it. */
#ifndef SHARD_SESSIONS_H
#define SHARD_SESSIONS_H
#include "obs/log.h"
#include "rpc/server.h"
#include "shard/core/core.h"

struct sessions;

/* A roll-up that the owner processes until sessions_rollup_done(). Any thread may read its bytes.
 * The decoder compares the cluster in the roll-up with `cluster`. */
struct rollup {
    struct str cluster; /* cluster of the session, taken from the certificate */
    struct str bytes;   /* an encoded ClusterCapacityNeeds, which rollup_read() decodes */
};
enum rollup_end {
    ROLLUP_ACKNOWLEDGED, /* the roll-up was applied, or quarantined until confirmed */
    ROLLUP_REFUSED,      /* the roll-up is not acknowledged; the last good demand stays in use */
};

/* Returns the action number as a map key, which points to `action`. */
static inline struct str action_key(const uint64_t *action)
{
    return str_of((const char *)action, sizeof *action);
}

struct session_blob { /* allocated by the owner; the sessions use the struct until on_blob */
    uint64_t action;  /* number of the owner's action; unique among the open requests */
    struct sessions *sessions;
    struct session *session; /* the session that the request was sent on */
    struct list link;        /* in the list of its session's blob requests */
    struct timer timer;
};

struct sessions_events { /* all functions are required */
    /* A session was installed and its Hello acknowledged. The owner must now send the state of each
     * machine bound to the cluster, then call sessions_resynced(). Each on_open of a cluster is
     * followed by an on_close. */
    void (*on_open)(void *owner, struct str cluster, bool reports_drains);
    void (*on_close)(void *owner, struct str cluster);
    void (*on_rollup)(void *owner, struct rollup *rollup);
    /* Called exactly once per sessions_ask_blob(); returns the request to the owner. `content` is
     * the blob for READY and the reason for ERROR, and is borrowed. */
    void (*on_blob)(void *owner, struct session_blob *request, enum blob_end end,
                    struct str content);
    /* Passes a drain report from an operator that announced such reports. `report` is borrowed. */
    void (*on_drain_report)(void *owner, const struct drain_report *report);
};

struct sessions_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    const struct sessions_events *events;
    void *owner;
    int64_t epoch; /* epoch of the shard, sent in acknowledgements */
    /* In each of these fields 0 selects the default in its comment. */
    uint32_t sessions_max;      /* 10,000; further sessions get RESOURCE_EXHAUSTED */
    uint32_t blobs_max;         /* 100,000 open blob requests */
    size_t rollup_max;          /* 256 MiB for one roll-up message */
    size_t rollup_budget;       /* 1 GiB for all roll-ups; at least rollup_max */
    size_t outbox_frames_max;   /* 524,288 per session, one for each machine */
    size_t outbox_bytes_max;    /* 256 MiB per session */
    size_t outboxes_bytes_max;  /* 512 MiB in total; then the longest outbox's session is closed */
    size_t departed_frames_max; /* 4,096 per cluster; at the bound the oldest frame is dropped */
    size_t departed_bytes_max;  /* 64 MiB for all clusters; at the bound the new frame is dropped */
    size_t blob_max;            /* 1 MiB for one blob */
    uint64_t hello_timeout_ms;  /* 30 s from the start of a stream to its first frame */
    /* Time to send one roll-up while other messages wait for memory: 60 s, plus 1 s per MiB. */
    uint64_t rollup_timeout_ms;
};
enum err sessions_open(const struct sessions_options *options,
                       struct sessions **ret_sessions); /* ERR_NOMEM */
/* Call after the server is closed. NULL is fine. */
void sessions_close(struct sessions *s);
/* Raises the server's limits to those that the sessions need. */
void sessions_server_limits(const struct sessions *s, struct rpc_server_limits *limits);
/* Returns errors of rpc_server_add. The server must be closed before the sessions. */
enum err sessions_serve(struct sessions *s, struct rpc_server *server, struct note *note);
/* Ends every session with UNAVAILABLE and accepts no new ones. */
void sessions_drain(struct sessions *s);

/* -- functions for one cluster; without a session they do nothing unless stated otherwise -- */
void sessions_set_term(struct sessions *s, int64_t term); /* term for acknowledgements */
/* Frees the roll-up, and passes the session's next roll-up to on_rollup. */
void sessions_rollup_done(struct sessions *s, struct rollup *rollup, enum rollup_end end);
/* Calls on_blob at once if there is no session, and never after ERR_FULL or ERR_NOMEM. */
enum err sessions_ask_blob(struct sessions *s, struct str cluster, struct session_blob *request,
                           const struct profile *profile, uint64_t timeout_ms);
/* Sends a reclaim instruction, or returns false without a session. An action always has the same
 * instruction id. Drain reports about the instruction contain the action. */
bool sessions_reclaim(struct sessions *s, struct str cluster, uint64_t action, struct str machine,
                      uint64_t grace_ms, int32_t preemptor_priority);
/* Sends a machine's state. `frame` was written with frame_write_node_state() by the thread that
 * owns the resource names. `departed`: the machine is no longer bound to the cluster. */
void sessions_node_state(struct sessions *s, struct str cluster, struct str machine, bool departed,
                         struct str frame);
void sessions_resynced(struct sessions *s, struct str cluster);
void sessions_capacity(struct sessions *s, struct str cluster, const struct capacity_offer *offer);

struct sessions_stats {
    uint32_t active, streams; /* active: sessions after Hello; streams: also those before Hello */
    uint64_t installed, replaced, removed, identity_rejected;
    uint64_t superseded;
    uint64_t refused; /* streams ended because of invalid messages: no Hello, malformed frames */
    uint64_t unset;   /* frames without a payload */
    uint64_t rollups, rollups_superseded, rollups_paused;
    uint64_t blobs_stray; /* blobs that came late, twice or without a request */
    uint64_t reclaim_acks, drain_reports;
    uint64_t unread; /* sessions closed because their peer did not read */
    uint64_t stalled;
    uint64_t departed_dropped;
    uint32_t departed, blobs_waiting; /* the numbers now, not since the start */
    size_t rollup_bytes, outbox_bytes;
};
struct sessions_stats sessions_stats(const struct sessions *s);
#endif
