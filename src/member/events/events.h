/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to workers, partitions, checkpoints and work items, as rollout's consumers read it:
 * one JSON object a line, keys in a fixed order, absent values null (workers.md § 9).
 *
 * Where lines go, how a file rotates and what waits when nobody reads is obs/events.h; this module
 * knows the topics, their levels, the shape of a line and which heartbeats are written. It decides
 * nothing about workers. Safe from any thread.
 *
 * The surprising rule: a heartbeat may be sampled, suppressed or dropped, each counted; anything
 * else is either taken or refused with ERR_FULL, and then the caller stops admitting rather than
 * lose it. */
#ifndef MEMBER_EVENTS_EVENTS_H
#define MEMBER_EVENTS_EVENTS_H
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "io/clock.h"
#include "obs/events.h"
#include "obs/log.h"

enum event_topic {
    /* rollout's */
    TOPIC_WORKER_REGISTERED,
    TOPIC_WORKER_HEARTBEAT,
    TOPIC_WORKER_DEREGISTERED,
    TOPIC_WORKER_FAILED,      /* due_at_ms; also one warn line in the log */
    TOPIC_COORDINATOR_FENCED, /* observed_epoch, stale_epoch; with a message */
    TOPIC_WORK_DISPATCHED,    /* work_id */
    TOPIC_WORK_COMPLETED,     /* work_id */
    TOPIC_WORK_STOLEN,        /* thief, work_id */
    TOPIC_RUN_DONE,           /* done, items, stolen */
    /* ours */
    TOPIC_WORK_FAILED,              /* reason, work_id: given up */
    TOPIC_WORKER_SUSPECTED,         /* late_ms */
    TOPIC_WORKER_RECOVERED,         /* late_ms */
    TOPIC_WORKER_RESTARTED,         /* incarnation */
    TOPIC_WORKER_IDENTITY_CONFLICT, /* incarnation */
    TOPIC_CLOCK_SKEW,               /* skew_ms */
    TOPIC_MASS_FAILURE_HOLD,        /* active, would_fail */
    TOPIC_ASSIGNMENT_CHANGED,       /* assignment_epoch, moved, cause */
    TOPIC_PARTITION_REVOKING,       /* grant_epoch, partition */
    TOPIC_PARTITION_GRANTED,        /* grant_epoch, partition */
    TOPIC_REVOKE_TIMEOUT,           /* partition, waited_ms */
    TOPIC_CHECKPOINT_TRIGGERED,     /* round, workers */
    TOPIC_CHECKPOINT_TIMEOUT,       /* round, waited_ms */
    TOPIC_PARTITION_OVERFULL,       /* keys, partition */
    TOPIC_LEADER_CHANGED,           /* coord_epoch */
    TOPIC_COUNT
};
struct event_topic_info {
    const char *name; /* "worker_failed" */
    const char *level;
    bool rollout;           /* one of the topics the original has */
    const char *attributes; /* that it has there, blank-separated; NULL: none */
};
extern const struct event_topic_info event_topic_infos[TOPIC_COUNT];

enum { EVENT_FIELDS_MAX = 12, EVENT_LINE_MAX = 8 << 10 };

struct event_line {
    enum event_topic topic;
    wall_time at;         /* 0: now */
    struct str run_id;    /* empty: the service's own run; of a failure the run of the beat */
    struct str worker_id; /* empty: null */
    struct str message;   /* empty: null */
    /* What the table above lists; up to EVENT_FIELDS_MAX, in any order, ended by LOG_END,
     * each key once; NULL: none. They are written in ascending byte order. */
    const struct log_field *fields;
    /* Who it is among all events, written only with `ids`: "<log index>.<n>". 0: it has none. */
    uint64_t entry_index;
    uint32_t entry_place;
    uint64_t incarnation; /* 0: not written, unless it is among `fields` */
    bool replayed;        /* a new leader writes it again */
};

enum member_events_heartbeat {
    HEARTBEAT_EVENTS_ALL,     /* up to the limit a second; beyond it one in N */
    HEARTBEAT_EVENTS_SAMPLED, /* one in HEARTBEAT_EVENTS_ONE_IN, within the limit too */
    HEARTBEAT_EVENTS_NONE
};
enum { HEARTBEAT_EVENTS_ONE_IN = 100 };

struct member_events_options {
    struct events *sink; /* borrowed; NULL: nowhere */
    struct clock *clock;
    const struct log_source *log; /* for the warn line of a failure; NULL: none */
    struct str run_id;            /* copied */
    enum member_events_heartbeat heartbeat;
    uint64_t heartbeat_limit; /* lines a second; 0: 5,000 */
    bool ids;                 /* event_id, incarnation, replayed */
    bool rollout_only;        /* rollout's topics with rollout's attributes, and no others */
    uint64_t seed;            /* of the draw of sampled heartbeats */
};
struct member_events_stats {
    uint64_t written[TOPIC_COUNT]; /* taken by the sink */
    uint64_t suppressed;           /* heartbeats not written: sampled away or switched off */
    uint64_t dropped;              /* heartbeats the sink had no room for */
    uint64_t refused;              /* others; each was its caller's again */
};

struct member_events;
enum err member_events_open(const struct member_events_options *options,
                            struct member_events **ret_events); /* ERR_NOMEM, ERR_INVALID */
void member_events_close(struct member_events *events);         /* NULL is fine */
/* What SIGHUP may change. */
void member_events_set(struct member_events *events, enum member_events_heartbeat heartbeat,
                       uint64_t heartbeat_limit, bool ids, bool rollout_only);

/* ERR_FULL, ERR_NOMEM, ERR_TOO_LARGE; a NULL `events` takes everything and writes nothing. */
enum err member_events_emit(struct member_events *events, const struct event_line *event);
/* A beat that was accepted. Never fails: a line that cannot be written is counted. */
void member_events_heartbeat(struct member_events *events, struct str worker_id);
struct member_events_stats member_events_stats(struct member_events *events);

/* The line itself, with its end, appended to `out`: for tests and `test-fence`. ERR_FULL,
 * ERR_NOMEM. */
enum err event_line_write(const struct event_line *event, struct str run_id, bool ids,
                          bool rollout_only, struct buf *out);
#endif
