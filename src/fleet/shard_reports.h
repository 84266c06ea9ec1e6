/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's soft state about shards: their last reports, their pending instructions, and when
 * each was last heard.
 *
 * This module decides which report is newer, the order of instructions, and when a shard counts as
 * silent. Pure: time and ids are arguments, and messages are opaque bytes that the service encodes.
 * The state is cleared when a term begins (reports_begin) and rebuilt from the following reports.
 * It is never replicated or written to disk.
 *
 * The surprising rules. A late report loses only its summary and shortfalls: its acks count, and
 * the shard was heard. An instruction with a topic replaces a pending instruction of the same
 * topic, because of two instructions about one domain only the newer matters. A shard that is away
 * for a week therefore has at most one pending instruction per domain. Every ack removes the
 * instruction, also a refusal: the request is planned again from the tables, or repeated by a
 * person.
 *
 * Two processes with one shard id. A process is identified by (process id, epoch, address), and if
 * all three are equal, by its cycles, which only increase. A process that reports after another one
 * was not replaced by it. One such report may have been delayed in the network. REPORTS_OVERLAPS of
 * them within the silence time are a conflict, until only one process has reported for that long.
 *
 * One owner, one thread. The structs belong to this module; callers only read them. A pointer to a
 * shard is valid until the shard is removed or a term begins, a pointer to an instruction until it
 * is acked or replaced. */
#ifndef FLEET_SHARD_REPORTS_H
#define FLEET_SHARD_REPORTS_H
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/time.h"

enum {
    REPORTS_SHARDS_MAX = 65536,          /* the limit of the tables */
    REPORTS_SHORTFALLS_MAX = 100,        /* kept of a report: the first, which are the worst */
    REPORTS_PENDING_MAX = 16384,         /* pending instructions of one shard */
    REPORTS_INSTRUCTION_MAX = 256 << 10, /* bytes of an instruction */
    REPORTS_ID_MAX = 128,                /* bytes of an instruction's id */
    REPORTS_TOPIC_MAX = 1100,            /* bytes: two labels and a separator */
    REPORTS_REASON_MAX = 320,            /* bytes kept of a refusal's reason */
    REPORTS_REPORT_MAX = 1 << 20,        /* bytes of a summary; also of all shortfalls together */
    REPORTS_PROCESSES_MAX = 4,           /* processes tracked per shard id */
    REPORTS_OVERLAPS = 3,
};
#define REPORTS_BYTES_MAX ((size_t)1 << 30) /* bytes of all texts together */

struct instruction {
    struct list link;        /* in reported_shard.queue */
    struct str id;           /* not empty; unique per shard */
    struct str topic;        /* empty: replaces no other instruction */
    struct str bytes;        /* opaque; sent to the shard */
    uint64_t term, sequence; /* position in the queue */
    uint64_t tag;            /* set by the caller; 0: none */
    bool stray;              /* set by the caller: about a domain that another shard owns */
    bool unsent_before;      /* set by the caller: the assignment was never sent */
    bool refused;
    uint32_t deliveries; /* counted by the caller: how often it was sent */
    struct str reason;   /* reason of the last refusal, truncated; empty: not refused */
    char texts[];
};
struct shard_process { /* a process that reported within the silence time */
    bool used;
    uint64_t id, order; /* order: number of its last report among the shard's reports */
    int64_t epoch, cycle, received_at_ns;
    mono_time heard_at;
    uint32_t overlaps; /* reports received after one of another process */
    struct str address;
};
enum report_scope { SCOPE_UNKNOWN, SCOPE_EVERYTHING, SCOPE_DOMAINS };
struct reported_shard {
    struct list heard; /* in shard_reports.heard, by heard_at; detached while the shard is silent */
    struct str id;
    mono_time heard_at;  /* time of the last report; initially when the shard was added */
    mono_time newest_at; /* time of the last report that was not late */
    bool reported;       /* reported in this term */
    bool silent, has_summary;
    bool conflict;                  /* two or more processes report with this id */
    int64_t epoch, cycle;           /* epoch and cycle of the newest report */
    int64_t summary_cycle;          /* cycle of the report with the summary; 0 without a summary */
    int64_t received_at_ns;         /* arrival of the report with the summary */
    struct str summary, shortfalls; /* opaque */
    size_t shortfall_count;         /* number of kept shortfalls */
    struct str provider;            /* from the last report with a summary; empty: none */
    enum report_scope scope;
    struct shard_process processes[REPORTS_PROCESSES_MAX];
    uint64_t process_order;
    struct list queue;     /* instructions by (term, sequence) */
    size_t tagged, strays; /* number with a tag; number about other shards' domains */
    uint64_t asked;        /* number of the last reports_may_queue call that named this shard */
    struct map by_id, by_topic;
};
struct reports_options {      /* 0 selects the default given behind each field */
    uint64_t silent_after_ms; /* 60,000: six reports at the usual interval */
    uint32_t shards_max;      /* REPORTS_SHARDS_MAX */
    uint32_t pending_max;     /* REPORTS_PENDING_MAX */
    size_t bytes_max;         /* REPORTS_BYTES_MAX */
    uint64_t seed;            /* for hashing ids, which come from outside */
};
struct shard_reports {
    struct reports_options options; /* with the defaults filled in */
    uint64_t term;
    uint64_t sequence; /* last number used; continues across terms */
    uint64_t asked;    /* number of reports_may_queue calls */
    struct map shards;
    struct list heard; /* longest silence first */
    size_t silent_count, conflict_count, stray_count;
    size_t bytes;  /* total size of the texts */
    mono_time now; /* latest time passed by a caller; never decreases */
};
enum err reports_open(const struct reports_options *options,
                      struct shard_reports **ret_reports); /* ERR_NOMEM */
void reports_close(struct shard_reports *reports);         /* NULL is fine */
/* Clears everything. Instructions queued from now on get this term. */
void reports_begin(struct shard_reports *reports, uint64_t term);

/* -- shards -- */
/* Starts to measure how long a shard sends no report. No effect if known. ERR_FULL, ERR_NOMEM. */
enum err reports_add(struct shard_reports *reports, struct str shard, mono_time now);
/* also removes its reports and instructions */
void reports_remove(struct shard_reports *reports, struct str shard);
struct reported_shard *reports_find(const struct shard_reports *reports, struct str shard);
/* Iterates in order of insertion: start with *cursor 0; NULL at the end. */
struct reported_shard *reports_next(const struct shard_reports *reports, size_t *cursor);

/* -- reports -- */
struct shard_report {
    struct str shard;
    struct str address; /* address of the process, as reported */
    uint64_t process;   /* process id; 0: none */
    struct str provider;
    enum report_scope scope;
    int64_t epoch, cycle;
    int64_t received_at_ns; /* wall clock, only for display */
    bool has_summary;
    struct str summary;     /* opaque */
    size_t shortfall_count; /* as reported; `shortfalls` contains at most REPORTS_SHORTFALLS_MAX */
    struct str shortfalls;  /* opaque */
};
struct report_taken {
    bool first;     /* first report of this shard in this term */
    bool back;      /* the shard was silent before */
    bool late;      /* older than the kept report: summary and shortfalls were dropped */
    bool restarted; /* not late, and the epoch differs from that of the report before */
    bool conflict;  /* a conflict begins: two processes report with this id */
};
/* Takes a report. The shard must be known: ERR_NOT_FOUND. A summary replaces the kept summary and
 * the shortfalls, even by an empty list. Shortfalls without a summary replace only the shortfalls.
 * Reports are ordered by epoch, then cycle; the same pair replaces. Any report replaces if the
 * newest has had no successor for silent_after_ms, because a shard that lost its disk counts from 1
 * again. ERR_TOO_LARGE (REPORTS_REPORT_MAX), ERR_FULL (bytes), ERR_NOMEM: after an error the shard
 * does not count as heard. */
enum err reports_take(struct shard_reports *reports, const struct shard_report *report,
                      mono_time now, struct report_taken *ret_taken);
/* Return a shard whose conflict has ended, or a shard that became silent, longest silence first.
 * Each shard is returned once per change. NULL: none is left. */
struct reported_shard *reports_conflict_over(struct shard_reports *reports, mono_time now);
struct reported_shard *reports_silent(struct shard_reports *reports, mono_time now);

/* -- instructions -- */
/* Number of pending instructions. */
static inline size_t reports_pending(const struct reported_shard *shard)
{
    return map_count(&shard->by_id);
}
struct instruction *reports_instruction(const struct reported_shard *shard, struct str id);
struct instruction *reports_about(const struct reported_shard *shard, struct str topic);
/* Queues a copy of `from` (id, topic, bytes, term, sequence, tag, stray, unsent_before) at its
 * place by (term, sequence). Replaces the instruction with the same id and the one with the same
 * topic. ERR_NOT_FOUND (no shard), ERR_INVALID (no id), ERR_TOO_LARGE, ERR_FULL (queue or bytes):
 * the queue is unchanged. ERR_NOMEM: only the instructions to be replaced may be gone. */
enum err reports_queue(struct shard_reports *reports, struct reported_shard *shard,
                       const struct instruction *from);
/* Whether an instruction without a topic can be queued for each of these shards in turn. Returns
 * the error of reports_queue, except ERR_NOMEM, and the shard's index in *ret_at. */
enum err reports_may_queue(struct shard_reports *reports, const struct str *shards, size_t count,
                           const struct instruction *from, size_t *ret_at);
void reports_ack(struct shard_reports *reports, struct reported_shard *shard,
                 struct instruction *own_instruction);
/* Records a refusal; the instruction stays pending. True if this is its first refusal. */
bool reports_refused(struct shard_reports *reports, struct instruction *instruction,
                     struct str reason);
#endif
