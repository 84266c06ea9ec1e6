/* SPDX-License-Identifier: Apache-2.0 */
/* Internals shared by the files of the sessions.
 *
 *   sessions.c       open, functions for a cluster, data kept between a cluster's sessions
 *   session.c        one stream: Hello, identity, replacement, frames in and out
 *   session_lane.c   roll-ups: the budget, one being processed, one waiting
 *   session_blobs.c  requests for a blob
 *
 * A session ends in two steps: first for its cluster (session_over), then its call ends (on_done).
 * The session is then moved to `ended` and freed later in the same turn. */
#ifndef SHARD_SESSIONS_INTERNAL_H
#define SHARD_SESSIONS_INTERNAL_H
#include "shard/outbox.h"
#include "shard/session_frame.h"
#include "shard/sessions.h"

struct session;

/* Freed when the cluster has no session and no frames are kept for its next session. */
struct session_cluster {     /* map_make() stores the id behind this struct */
    struct session *session; /* the installed session, or NULL */
    struct outbox departed;
    uint32_t sessions; /* sessions that point to this struct, including replaced ones */
    struct str id;
};

struct own_rollup {
    struct rollup rollup;    /* the part visible to the owner */
    struct session *session; /* NULL: the session is over */
    struct buf message;
    char cluster[];
};

struct rollup_lane {
    struct own_rollup *working, *waiting;
    size_t reserved; /* bytes of the message being received */
    mono_time reserved_at;
    size_t wanted;     /* bytes of the budget that the session waits for */
    struct list queue; /* in sessions.starved, or detached */
};

struct session {
    struct list link; /* in sessions.all, then in sessions.ended */
    struct sessions *sessions;
    struct rpc_call *call;           /* NULL: the call is done */
    struct session_cluster *cluster; /* NULL before Hello */
    struct outbox outbox;
    struct rollup_lane lane;
    struct list blobs;  /* open blob requests of the session */
    struct timer timer; /* runs until Hello arrives */
    bool opened;        /* on_open was called */
    bool reports_drains, reports_occupancy, takes_status;
    bool over;
};

struct sessions {
    struct io *io;
    struct log_source log;
    const struct sessions_events *events;
    void *owner;
    struct sessions_options limits; /* with defaults applied */
    int64_t term;
    struct map clusters;
    struct map requests; /* open blob requests, by action number */
    struct list all, ended, starved;
    struct task free_ended;
    struct timer stall;
    struct frame_writer writer;
    struct buf key; /* key of the frame being added */
    struct sessions_stats stats;
    uint64_t seed;
    uint64_t first_instruction; /* random; an instruction id is this number plus the action */
    struct outbox_totals outboxes, departed;
    bool draining;
};

/* -- sessions.c -- */
struct session *session_of(const struct sessions *s, struct str cluster); /* NULL: none */
/* Finds or creates the cluster. NULL: out of memory. */
struct session_cluster *known_cluster(struct sessions *s, struct str id);
/* Frees the cluster if it has no session and no kept frames. */
void cluster_settle(struct sessions *s, struct session_cluster *cluster);
/* Replaces a kept frame with the same key. */
void cluster_keep_departed(struct sessions *s, struct session_cluster *cluster, struct str key,
                           struct str frame);

/* -- session.c -- */
extern const struct rpc_handler session_handler;
/* Sends or queues a frame. */
void session_send(struct session *session, struct str key, bool departed, struct str frame);
/* Sends the frame in the sessions' writer. If `err` is set, ends the session. */
void session_send_written(struct session *session, struct str key, enum err err);
void session_end(struct session *session, enum grpc_status status, const char *text);
/* Ends the session because of an invalid message, and counts and logs it. */
void session_refuse(struct session *session, enum grpc_status status, const char *why);
void session_free(struct session *session);
/* 16 hex digits: first_instruction plus the action. For any other text action_of() returns a number
 * that no action has. */
struct str action_id(const struct sessions *s, uint64_t action, char id[REQUEST_ID_LEN + 1]);
uint64_t action_of(const struct sessions *s, struct str id);

/* -- session_lane.c -- */
void lane_init(struct rollup_lane *lane);
void lane_announced(struct session *session, size_t bytes);
/* Releases the bytes of a message that is not kept. */
void lane_release(struct session *session);
void lane_rollup(struct session *session, const struct operator_frame *frame);
void lane_over(struct session *session);
void lane_on_stall(struct timer *timer);

/* -- session_blobs.c -- */
void blobs_answer(struct session *session, const struct operator_frame *frame);
void blobs_over(struct session *session);
#endif
