/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader alone knows of the shards: their last reports, the instructions that wait for
 * them, and how long ago each was heard of.
 *
 * It decides which report is newer, in which order instructions go out, and when a shard counts as
 * silent. Pure: the time is an argument, ids are the caller's, bytes are opaque (the service gives
 * encoded messages and gets them back). It is soft state: cleared when a term begins
 * (reports_begin), re-made by the reports that follow, never replicated and never written to disk.
 *
 * The surprising rules. A late report loses its summary and its shortfalls, and nothing else: its
 * acks count and the shard was heard of. An instruction with a topic replaces a waiting one of the
 * same topic: of two instructions about one domain only the newer matters, so a shard that is away
 * for a week has at most one per domain. Any ack takes an instruction off, a refusal too: what it
 * asked for is planned anew from the tables, or asked again by a person.
 *
 * Two processes under one shard id. A process is identified by (process id, epoch, address), and
 * when all three are equal by its cycles, which only grow. A process that reports again after
 * another one did has not been replaced by it. One such report may have been delayed on its way;
 * REPORTS_OVERLAPS of them within the silence time are a conflict, until only one process has
 * reported for that long.
 *
 * One owner, one thread. Structs below are the module's: callers read them, and hold a shard until
 * it is removed or a term begins, an instruction until it is acked or replaced. */
#ifndef FLEET_SHARD_REPORTS_H
#define FLEET_SHARD_REPORTS_H
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/time.h"

enum {
    REPORTS_SHARDS_MAX = 65536,          /* as many as the tables hold */
    REPORTS_SHORTFALLS_MAX = 100,        /* kept of a report: the first, which are the worst */
    REPORTS_PENDING_MAX = 16384,         /* instructions waiting for one shard */
    REPORTS_INSTRUCTION_MAX = 256 << 10, /* bytes of one */
    REPORTS_ID_MAX = 128,                /* bytes of an instruction's id */
    REPORTS_TOPIC_MAX = 1100,            /* bytes: two labels and a mark */
    REPORTS_REASON_MAX = 320,            /* bytes kept of a refusal */
    REPORTS_REPORT_MAX = 1 << 20,        /* bytes of a summary, and of all shortfalls, each */
    REPORTS_PROCESSES_MAX = 4,           /* distinguished under one shard id */
    REPORTS_OVERLAPS = 3,
};
#define REPORTS_BYTES_MAX ((size_t)1 << 30) /* of all texts together */

struct instruction {
    struct list link;        /* in reported_shard.queue */
    struct str id;           /* not empty; unique per shard */
    struct str topic;        /* may be empty: replaces nothing */
    struct str bytes;        /* opaque; what the shard is sent */
    uint64_t term, sequence; /* the place in the queue */
    uint64_t tag;            /* the caller's; 0: none */
    bool stray;              /* the caller's: of a domain that another shard owns */
    bool unsent_before;      /* the caller's: the shard was never sent what this one takes back */
    bool refused;
    uint32_t deliveries; /* the caller's: how often it was sent */
    struct str reason;   /* of the last refusal, clipped; empty: it was not refused */
    char texts[];
};
struct shard_process { /* that reported within the silence time */
    bool used;
    uint64_t id, order; /* order: of its last report among those of the shard */
    int64_t epoch, cycle, received_at_ns;
    mono_time heard_at;
    uint32_t overlaps; /* reports that came after one of another process */
    struct str address;
};
enum report_scope { SCOPE_UNKNOWN, SCOPE_EVERYTHING, SCOPE_DOMAINS };
struct reported_shard {
    struct list heard; /* in shard_reports.heard, by heard_at; detached once it is called silent */
    struct str id;
    mono_time heard_at;  /* when it was added, until it reports */
    mono_time newest_at; /* when it last sent one that was not late */
    bool reported;       /* in this term */
    bool silent, has_summary;
    bool conflict;                  /* two or more processes report under this id */
    int64_t epoch, cycle;           /* of the newest report */
    int64_t summary_cycle;          /* of the one the summary came with; 0 without one */
    int64_t received_at_ns;         /* likewise */
    struct str summary, shortfalls; /* opaque */
    size_t shortfall_count;         /* that are kept */
    struct str provider;            /* of the last report with a summary; empty: none */
    enum report_scope scope;
    struct shard_process processes[REPORTS_PROCESSES_MAX];
    uint64_t process_order;
    struct list queue;     /* of instructions, by (term, sequence) */
    size_t tagged, strays; /* of them, with a tag; of domains that another shard owns */
    uint64_t asked;        /* the reports_may_queue that named it last */
    struct map by_id, by_topic;
};
struct reports_options {      /* 0: the default behind it */
    uint64_t silent_after_ms; /* 60,000: six reports of a shard at its usual pace */
    uint32_t shards_max;      /* REPORTS_SHARDS_MAX */
    uint32_t pending_max;     /* REPORTS_PENDING_MAX */
    size_t bytes_max;         /* REPORTS_BYTES_MAX */
    uint64_t seed;            /* of the hash of ids, which come from outside */
};
struct shard_reports {
    struct reports_options options; /* filled in */
    uint64_t term;
    uint64_t sequence; /* the last one given out: it goes on over terms */
    uint64_t asked;    /* how often reports_may_queue was */
    struct map shards;
    struct list heard; /* longest silence first */
    size_t silent_count, conflict_count, stray_count;
    size_t bytes;  /* of texts held */
    mono_time now; /* the latest that a caller passed: it never runs back */
};
enum err reports_open(const struct reports_options *options,
                      struct shard_reports **ret_reports); /* ERR_NOMEM */
void reports_close(struct shard_reports *reports);         /* NULL is fine */
/* Forgets everything; what is queued from here on bears this term. */
void reports_begin(struct shard_reports *reports, uint64_t term);

/* -- shards -- */
/* It is in the tables: from now on its silence is counted. Nothing happens when it is known.
 * ERR_FULL, ERR_NOMEM. */
enum err reports_add(struct shard_reports *reports, struct str shard, mono_time now);
void reports_remove(struct shard_reports *reports, struct str shard); /* with all kept of it */
struct reported_shard *reports_find(const struct shard_reports *reports, struct str shard);
/* In order of insertion: start with *cursor 0; NULL at the end. */
struct reported_shard *reports_next(const struct shard_reports *reports, size_t *cursor);

/* -- reports -- */
struct shard_report {
    struct str shard;
    struct str address; /* of the process, as reported */
    uint64_t process;   /* its id; 0: it has none */
    struct str provider;
    enum report_scope scope;
    int64_t epoch, cycle;
    int64_t received_at_ns; /* wall clock, for readers only */
    bool has_summary;
    struct str summary;     /* opaque */
    size_t shortfall_count; /* as reported; at most REPORTS_SHORTFALLS_MAX are in the bytes */
    struct str shortfalls;  /* opaque */
};
struct report_taken {
    bool first;     /* of this shard in this term */
    bool back;      /* it had been called silent */
    bool late;      /* older than what is kept: summary and shortfalls were dropped */
    bool restarted; /* not late, and of another epoch than the one before it */
    bool conflict;  /* from here on two processes report under this id */
};
/* The shard must be known: ERR_NOT_FOUND. Heard of in any case. A summary replaces the kept one
 * and the shortfalls, an empty list of these too; shortfalls alone replace shortfalls. Order is by
 * epoch, then cycle; the same pair again replaces, and so does any when the newest has had no
 * successor for silent_after_ms: a shard that lost its disk counts from 1 again. ERR_TOO_LARGE
 * (REPORTS_REPORT_MAX), ERR_FULL (bytes), ERR_NOMEM: then the shard was not even heard of. */
enum err reports_take(struct shard_reports *reports, const struct shard_report *report,
                      mono_time now, struct report_taken *ret_taken);
/* A conflict that is over, or a shard not heard of for silent_after_ms, longest silence first: each
 * once until it is so again. NULL: there is none (left). */
struct reported_shard *reports_conflict_over(struct shard_reports *reports, mono_time now);
struct reported_shard *reports_silent(struct shard_reports *reports, mono_time now);

/* -- instructions -- */
static inline size_t reports_pending(const struct reported_shard *shard) /* waiting for it */
{
    return map_count(&shard->by_id);
}
struct instruction *reports_instruction(const struct reported_shard *shard, struct str id);
struct instruction *reports_about(const struct reported_shard *shard, struct str topic);
/* A copy of `from` (id, topic, bytes, term, sequence, tag, stray, unsent_before) to the end of the queue,
 * or to where (term, sequence) belongs. Replaces the one with the same id, and the one with the same
 * topic. ERR_NOT_FOUND (no shard), ERR_INVALID (no id), ERR_TOO_LARGE, ERR_FULL (queue or bytes):
 * the queue is as it was. ERR_NOMEM: so it is, but for what would have been replaced. */
enum err reports_queue(struct shard_reports *reports, struct reported_shard *shard,
                       const struct instruction *from);
/* Whether each of these shards can be given it (without a topic), one after the other: what
 * reports_queue would answer but for ERR_NOMEM, and of which (*ret_at). */
enum err reports_may_queue(struct shard_reports *reports, const struct str *shards, size_t count,
                           const struct instruction *from, size_t *ret_at);
void reports_ack(struct shard_reports *reports, struct reported_shard *shard,
                 struct instruction *own_instruction);
/* The shard refused it, and it goes on waiting. True: for the first time. */
bool reports_refused(struct shard_reports *reports, struct instruction *instruction,
                     struct str reason);
#endif
