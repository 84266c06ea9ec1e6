/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the sessions share. Nothing outside them includes this.
 *
 *   sessions.c       opening, verbs, what is kept of a cluster between its sessions
 *   session.c        the life of one stream: Hello, identity, replacement, frames in and out
 *   session_lane.c   roll-ups: the budget, one at work, one that waits
 *   session_blobs.c  requests for a blob
 *
 * A session has two ends: its cluster's (session_over), which the owner hears of at once, and its
 * call's (on_done), after which it waits in `ended` and is freed later in the same turn. */
#ifndef SHARD_SESSIONS_INTERNAL_H
#define SHARD_SESSIONS_INTERNAL_H
#include "shard/outbox.h"
#include "shard/session_frame.h"
#include "shard/sessions.h"

struct session;

/* Everything of one cluster that outlives a session. Goes when it has neither a session nor
 * anything to say to the next one. */
struct session_cluster {     /* behind it its id: map_make() */
    struct session *session; /* the installed one, or NULL */
    struct outbox departed;
    uint32_t sessions; /* that point here, the replaced ones that are not gone yet included */
    struct str id;
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
    struct list link; /* in sessions.all; once its call is done, in sessions.ended */
    struct sessions *sessions;
    struct rpc_call *call;           /* NULL once it is done */
    struct session_cluster *cluster; /* NULL before Hello */
    struct outbox outbox;
    struct rollup_lane lane;
    struct list blobs;  /* its requests that are not answered yet */
    struct timer timer; /* Hello is awaited */
    bool opened;        /* the owner knows of it */
    bool reports_drains;
    bool over;
};

struct sessions {
    struct io *io;
    struct log_source log;
    const struct sessions_events *events;
    void *owner;
    struct sessions_options limits; /* settled */
    int64_t term;
    struct map clusters;
    struct map requests; /* for blobs, by action */
    struct list all, ended, starved;
    struct task free_ended;
    struct timer stall;
    struct frame_writer writer;
    struct buf key; /* of the frame that is being put */
    struct sessions_stats stats;
    uint64_t seed;
    uint64_t first_instruction; /* its id is this and the action, so that no two processes of a
                                   shard give the same one */
    struct outbox_totals outboxes, departed;
    bool draining;
};

/* -- sessions.c -- */
struct session *session_of(const struct sessions *s, struct str cluster); /* NULL: none */
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
void session_free(struct session *session);
/* The id of an instruction or a blob request: 16 hex digits, the action added to the first one. Of
 * any other text action_of() is a number that no action has. */
struct str action_id(const struct sessions *s, uint64_t action, char id[REQUEST_ID_LEN + 1]);
uint64_t action_of(const struct sessions *s, struct str id);

/* -- session_lane.c -- */
void lane_init(struct rollup_lane *lane);
void lane_announced(struct session *session, size_t bytes);
/* The message that was read is not kept. */
void lane_release(struct session *session);
void lane_rollup(struct session *session, const struct operator_frame *frame);
void lane_over(struct session *session);
void lane_on_stall(struct timer *timer);

/* -- session_blobs.c -- */
void blobs_answer(struct session *session, const struct operator_frame *frame);
void blobs_over(struct session *session);
#endif
