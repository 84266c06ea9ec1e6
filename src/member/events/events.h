/* SPDX-License-Identifier: Apache-2.0 */
/* Events about workers, partitions, checkpoints and work items, in rollout's format: one JSON
 * object per line, keys in a fixed order, absent values null (workers.md § 9). Any thread.
 *
 * A heartbeat event may be sampled, suppressed or dropped, and each case is counted. Every other
 * event is accepted or refused with ERR_FULL; after a refusal the caller stops admitting workers,
 * so that no event is lost. */
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
    /* rollout's topics, with their attributes */
    TOPIC_WORKER_REGISTERED,
    TOPIC_WORKER_HEARTBEAT,
    TOPIC_WORKER_DEREGISTERED,
    TOPIC_WORKER_FAILED,      /* attribute due_at_ms; also one warn line in the log */
    TOPIC_COORDINATOR_FENCED, /* observed_epoch, stale_epoch; has a message */
    TOPIC_WORK_DISPATCHED,    /* work_id */
    TOPIC_WORK_COMPLETED,     /* work_id */
    TOPIC_WORK_STOLEN,        /* thief, work_id */
    TOPIC_RUN_DONE,           /* done, items, stolen */
    /* muster's own topics */
    TOPIC_WORK_FAILED,              /* reason, work_id: the item was given up */
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
    bool rollout;           /* rollout has this topic */
    const char *attributes; /* attributes of rollout's topic, separated by blanks; NULL: none */
};
extern const struct event_topic_info event_topic_infos[TOPIC_COUNT];

enum { EVENT_FIELDS_MAX = 12, EVENT_LINE_MAX = 8 << 10 };

struct event_line {
    enum event_topic topic;
    wall_time at;         /* 0: the present time */
    struct str run_id;    /* empty: the service's own run; for a failure the run of the heartbeat */
    struct str worker_id; /* empty: written as null */
    struct str message;   /* empty: written as null */
    /* The topic's attributes in any order, each key once, at most EVENT_FIELDS_MAX, ended by
     * LOG_END. May be NULL. */
    const struct log_field *fields;
    /* The event's id, written only with `ids`: "<log index>.<n>". 0: the event has no id. */
    uint64_t entry_index;
    uint32_t entry_place;
    uint64_t incarnation; /* 0: not written, unless `fields` contains it */
    bool replayed;        /* a new leader writes the event again */
};

enum member_events_heartbeat {
    HEARTBEAT_EVENTS_ALL,     /* all up to heartbeat_limit per second, then one in N */
    HEARTBEAT_EVENTS_SAMPLED, /* one in HEARTBEAT_EVENTS_ONE_IN, up to heartbeat_limit */
    HEARTBEAT_EVENTS_NONE
};
enum { HEARTBEAT_EVENTS_ONE_IN = 100 };

struct member_events_options {
    struct events *sink; /* borrowed; NULL: events are not written anywhere */
    struct clock *clock;
    const struct log_source *log; /* for the warning about each failure; may be NULL */
    struct str run_id;            /* copied */
    enum member_events_heartbeat heartbeat;
    uint64_t heartbeat_limit; /* lines per second; 0: 5,000 */
    bool ids;                 /* write event_id, incarnation and replayed */
    bool rollout_only;        /* write only rollout's topics, with rollout's attributes */
    uint64_t seed;
};
struct member_events_stats {
    uint64_t written[TOPIC_COUNT]; /* by topic: events that the sink accepted */
    uint64_t suppressed;           /* heartbeats not written because of sampling or the setting */
    uint64_t dropped;              /* heartbeats for which the sink had no room */
    uint64_t refused; /* other events for which the sink had no room; the caller keeps them */
};

struct member_events;
enum err member_events_open(const struct member_events_options *options,
                            struct member_events **ret_events); /* ERR_NOMEM, ERR_INVALID */
void member_events_close(struct member_events *events);         /* NULL is allowed */
/* the settings that SIGHUP may change */
void member_events_set(struct member_events *events, enum member_events_heartbeat heartbeat,
                       uint64_t heartbeat_limit, bool ids, bool rollout_only);

/* `events` NULL: accepted and not written. ERR_FULL, ERR_NOMEM, ERR_TOO_LARGE. */
enum err member_events_emit(struct member_events *events, const struct event_line *event);
/* Never fails: a line that cannot be written is counted. */
void member_events_heartbeat(struct member_events *events, struct str worker_id);
struct member_events_stats member_events_stats(struct member_events *events);

/* Appends the line with its newline: for tests and `test-fence`. ERR_FULL, ERR_NOMEM. */
enum err event_line_write(const struct event_line *event, struct str run_id, bool ids,
                          bool rollout_only, struct buf *out);
#endif
