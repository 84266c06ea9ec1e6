/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the sessions share. Nothing outside them includes this.
 *
 *   sessions.c       opening, verbs, what is told to the owner and when
 *   session.c        the life of one stream: Hello, identity, replacement, frames in and out
 *   session_lane.c   roll-ups: the budget, one at work, one that waits
 *   session_blobs.c  requests for a blob and who waits for their answers
 *
 * A session has two ends: its call (on_done) and its cluster (session_over). Either may come first;
 * its memory goes when both have come and the owner was told. What is to be told from inside a verb
 * waits in `due` and `answered` and is told by the task, later in the same turn. */
#ifndef SHARD_SESSIONS_INTERNAL_H
#define SHARD_SESSIONS_INTERNAL_H
#include "shard/outbox.h"
#include "shard/session_frame.h"
#include "shard/sessions.h"

struct session;

/* Everything of one cluster that outlives a session. Goes when it has neither a session nor
 * anything to say to the next one. */
struct session_cluster {
    struct session *session; /* the installed one, or NULL */
    struct outbox departed;
    uint32_t sessions; /* that point here, the replaced ones that are not gone yet included */
    struct str id;
    char text[];
};

struct own_rollup {
    struct rollup rollup;    /* what the owner sees */
    struct session *session; /* NULL: it is over */
    struct buf message;
    char cluster[];
};

struct rollup_lane {
    struct own_rollup *working, *waiting;
    size_t reserved; /* for the message that is being read */
    mono_time reserved_at;
    size_t wanted;     /* it waits for this much */
    struct list queue; /* in sessions.starved, or alone */
};

struct session {
    struct list link; /* in sessions.all */
    struct list due;  /* in sessions.due, or alone */
    struct sessions *sessions;
    struct rpc_call *call;           /* NULL once it is done */
    struct session_cluster *cluster; /* NULL before Hello */
    struct outbox outbox;
    struct rollup_lane lane;
    struct list blobs;  /* that wait for its answers */
    struct timer timer; /* Hello is awaited */
    bool opened;        /* the owner knows of it */
    bool reports_drains;
    bool over;
    bool closed_told; /* ... and that it is over */
};

struct blob_waiter {
    char id[REQUEST_ID_LEN];
    struct list link; /* in its session's blobs, or in sessions.answered */
    struct sessions *sessions;
    struct session *session;
    struct timer timer;
    uint64_t action;
    enum blob_end end; /* once it is in `answered` */
};

struct sessions {
    struct io *io;
    struct log_source log;
    const struct sessions_events *events;
    void *owner;
    struct sessions_options limits; /* settled */
    int64_t term;
    struct map clusters, waiters;
    struct list all, due, starved, answered;
    struct task task;
    struct timer stall;
    struct frame_writer writer;
    struct buf key; /* of the frame that is being put */
    struct sessions_stats stats;
    uint64_t seed;
    uint64_t first_instruction; /* its id is this and the action, so that no two processes of a
                                   shard give the same one */
    size_t departed_bytes;
    bool draining;
};

/* -- sessions.c -- */
void sessions_wake(struct sessions *s);
/* Tells the owner what waits to be told. Not from inside a verb. */
void sessions_tell(struct sessions *s);
struct session_cluster *cluster_find(const struct sessions *s, struct str id);
struct session_cluster *known_cluster(struct sessions *s,
                                      struct str id); /* finds or makes; NULL: no room */
void cluster_settle(struct sessions *s,
                    struct session_cluster *cluster); /* frees it if nothing needs it */
/* For an operator who is away: supersedes what is kept under the key. */
void cluster_keep_departed(struct sessions *s, struct session_cluster *cluster, struct str key,
                           struct str frame);

/* -- session.c -- */
extern const struct rpc_handler session_handler;
/* Queues or sends. `err` of the writer: a frame that could not be made ends the session. */
void session_send(struct session *session, struct str key, bool departed, struct str frame);
/* The frame in the sessions' writer. */
void session_send_written(struct session *session, struct str key, enum err err);
void session_end(struct session *session, enum grpc_status status, const char *text);
/* Ends it for what it sent, which is counted and logged. */
void session_refuse(struct session *session, enum grpc_status status, const char *why);
void session_look(struct session *session); /* its turn in `due` */
void session_due(struct session *session);

/* -- session_lane.c -- */
void lane_init(struct rollup_lane *lane);
void lane_announced(struct session *session, size_t bytes);
/* The message that was read is not kept. */
void lane_release(struct session *session);
void lane_rollup(struct session *session, const struct operator_frame *frame);
void lane_next(struct session *session); /* hands the waiting one over if none is at work */
void lane_over(struct session *session);
void lane_on_stall(struct timer *timer);

/* -- session_blobs.c -- */
void blobs_answer(struct session *session, const struct operator_frame *frame);
void blobs_over(struct session *session);
void blobs_tell(struct sessions *s);
void blobs_close(struct sessions *s);
/* 16 hex digits, drawn anew. */
void draw_id(struct sessions *s, char out[REQUEST_ID_LEN + 1]);
#endif
