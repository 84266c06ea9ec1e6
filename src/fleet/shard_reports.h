/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's soft state about shards: last reports, pending instructions, and when each shard was
 * last heard. Pure: time and ids are arguments, and messages are opaque bytes. The state is cleared
 * when a term begins (reports_begin), and never replicated or written to disk.
 *
 * - A late report loses only its summary and shortfalls: its acks count, and the shard was heard.
 * - An instruction replaces a pending instruction with the same topic: only the newer of two
 *   instructions about one domain matters.
 * - Every ack removes its instruction, even a refusal. The leader then repeats the request from the
 *   tables, or an administrator does.
 *
 * Two processes may share a shard id by mistake. A process is identified by process id, epoch and
 * address, and then by its cycles, which only increase. If process A reports after process B, then
 * B has not replaced A. One such report may be a late message of the network; REPORTS_OVERLAPS
 * within the silence time are a conflict, until only one process has reported for that time.
 *
 * One owner, one thread. Callers must not change the structs. A pointer to a shard is valid until
 * the shard is removed or a term begins, a pointer to an instruction until it is acked or
 * replaced. */
#ifndef FLEET_SHARD_REPORTS_H
#define FLEET_SHARD_REPORTS_H
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/time.h"

enum {
    REPORTS_SHARDS_MAX = 65536,          /* the fleet tables' limit of shards */
    REPORTS_SHORTFALLS_MAX = 100,        /* kept per report; the worst come first */
    REPORTS_PENDING_MAX = 16384,         /* pending instructions of one shard */
    REPORTS_INSTRUCTION_MAX = 256 << 10, /* bytes of an instruction */
    REPORTS_ID_MAX = 128,                /* of an instruction's id */
    REPORTS_TOPIC_MAX = 1100,            /* two labels and a separator */
    REPORTS_REASON_MAX = 320,            /* bytes of a refusal's reason that are kept */
    REPORTS_REPORT_MAX = 1 << 20,        /* bytes of a summary, or of a report's shortfalls */
    REPORTS_PROCESSES_MAX = 4,           /* processes tracked per shard id */
    REPORTS_OVERLAPS = 3,
};
#define REPORTS_BYTES_MAX ((size_t)1 << 30) /* bytes of all texts together */

struct instruction {
    struct list link;        /* link in reported_shard.queue */
    struct str id;           /* not empty; unique per shard */
    struct str topic;        /* empty: replaces no other instruction */
    struct str bytes;        /* encoded instruction for the shard */
    uint64_t term, sequence; /* order of instructions in the queue */
    uint64_t tag;            /* chosen by the caller; 0: no tag */
    bool stray;              /* set by the caller: another shard owns the domain */
    bool unsent_before;      /* set by the caller: the AssignDomain was never sent */
    bool refused;
    uint32_t deliveries; /* how often the instruction was sent; counted by the caller */
    struct str reason;   /* of the last refusal, truncated; "": not refused */
    char texts[];
};
struct shard_process { /* a process that reported within the silence time */
    bool used;
    uint64_t id, order; /* order: number of the last report among the shard's reports */
    int64_t epoch, cycle, received_at_ns;
    mono_time heard_at;
    uint32_t overlaps; /* reports of this process after another process's report */
    struct str address;
};
enum report_scope { SCOPE_UNKNOWN, SCOPE_EVERYTHING, SCOPE_DOMAINS };
struct reported_shard {
    struct list heard; /* link in shard_reports.heard; not linked while silent */
    struct str id;
    mono_time heard_at;  /* time of the last report, or of reports_add */
    mono_time newest_at; /* time of the last report that was not late */
    bool reported;       /* the shard reported in this term */
    bool silent, has_summary;
    bool conflict;                  /* two or more processes report with this id */
    int64_t epoch, cycle;           /* of the newest report */
    int64_t summary_cycle;          /* 0: no summary */
    int64_t received_at_ns;         /* of the report with the summary */
    struct str summary, shortfalls; /* opaque */
    size_t shortfall_count;
    struct str provider; /* in the last report with a summary; may be empty */
    enum report_scope scope;
    struct shard_process processes[REPORTS_PROCESSES_MAX];
    uint64_t process_order;
    struct list queue;     /* instructions, ordered by (term, sequence) */
    size_t tagged, strays; /* pending instructions with a tag, and with `stray` */
    uint64_t asked;        /* shard_reports.asked at the last call for this shard */
    struct map by_id, by_topic;
};
struct reports_options {      /* 0 selects the default */
    uint64_t silent_after_ms; /* default 60,000: six times the usual report interval */
    uint32_t shards_max;      /* default REPORTS_SHARDS_MAX */
    uint32_t pending_max;     /* REPORTS_PENDING_MAX */
    size_t bytes_max;         /* default REPORTS_BYTES_MAX */
    uint64_t seed;            /* hash seed: shards choose their ids */
};
struct shard_reports {
    struct reports_options options; /* with the defaults filled in */
    uint64_t term;
    uint64_t sequence; /* last sequence number; continues in the next term */
    uint64_t asked;    /* number of reports_may_queue calls */
    struct map shards;
    struct list heard; /* shards that are not silent; oldest report first */
    size_t silent_count, conflict_count, stray_count;
    size_t bytes;  /* total size of the texts */
    mono_time now; /* the latest time that a caller passed */
};
enum err reports_open(const struct reports_options *options,
                      struct shard_reports **ret_reports); /* ERR_NOMEM */
void reports_close(struct shard_reports *reports);         /* NULL is fine */
/* Instructions queued from now on get this term. */
void reports_begin(struct shard_reports *reports, uint64_t term);

/* -- shards -- */
/* Starts to measure the shard's silence, unless it is known. ERR_FULL, ERR_NOMEM. */
enum err reports_add(struct shard_reports *reports, struct str shard, mono_time now);
void reports_remove(struct shard_reports *reports, struct str shard);
struct reported_shard *reports_find(const struct shard_reports *reports, struct str shard);
/* The next shard in the order of reports_add, or NULL. Start with *cursor 0. */
struct reported_shard *reports_next(const struct shard_reports *reports, size_t *cursor);

/* -- reports -- */
struct shard_report {
    struct str shard;
    struct str address; /* of the process, from the report */
    uint64_t process;   /* process id; 0: none */
    struct str provider;
    enum report_scope scope;
    int64_t epoch, cycle;
    int64_t received_at_ns; /* wall-clock time, only for display */
    bool has_summary;
    struct str summary;     /* opaque */
    size_t shortfall_count; /* number reported, which may exceed REPORTS_SHORTFALLS_MAX */
    struct str shortfalls;  /* opaque */
};
struct report_taken {
    bool first;     /* the shard's first report in this term */
    bool back;      /* the shard was silent before */
    bool late;      /* the report is older than the kept one: summary and shortfalls dropped */
    bool restarted; /* the epoch differs from that of the last report; never if `late` */
    bool conflict;  /* two processes now report with this shard id */
};
/* Stores a report. A summary also replaces the shortfalls, even by none. Shortfalls without a
 * summary replace only the shortfalls. Reports are ordered by epoch, then cycle; the later of two
 * equal ones is kept. After silent_after_ms without a newer report, any report counts as newer,
 * because a shard that lost its disk counts from 1 again.
 * ERR_NOT_FOUND (no shard), ERR_TOO_LARGE (REPORTS_REPORT_MAX), ERR_FULL (bytes), ERR_NOMEM: the
 * shard does not count as heard. */
enum err reports_take(struct shard_reports *reports, const struct shard_report *report,
                      mono_time now, struct report_taken *ret_taken);
/* Return a shard whose conflict has ended, and a shard that became silent. Both return each shard
 * once per change, and then NULL. The longest silence comes first. */
struct reported_shard *reports_conflict_over(struct shard_reports *reports, mono_time now);
struct reported_shard *reports_silent(struct shard_reports *reports, mono_time now);

/* -- instructions -- */
static inline size_t reports_pending(const struct reported_shard *shard)
{
    return map_count(&shard->by_id);
}
struct instruction *reports_instruction(const struct reported_shard *shard, struct str id);
struct instruction *reports_about(const struct reported_shard *shard, struct str topic);
/* Queues a copy of `from`, ordered by term and sequence, in place of the instructions with the same
 * id or topic. ERR_NOT_FOUND (no shard), ERR_INVALID (no id), ERR_TOO_LARGE, ERR_FULL (queue or
 * bytes): the queue is unchanged. ERR_NOMEM: the instructions to be replaced may be lost. */
enum err reports_queue(struct shard_reports *reports, struct reported_shard *shard,
                       const struct instruction *from);
/* Checks whether an instruction without a topic can be queued for each of the shards. Errors of
 * reports_queue, except ERR_NOMEM, with the index of the shard in *ret_at. */
enum err reports_may_queue(struct shard_reports *reports, const struct str *shards, size_t count,
                           const struct instruction *from, size_t *ret_at);
void reports_ack(struct shard_reports *reports, struct reported_shard *shard,
                 struct instruction *own_instruction);
/* The instruction stays pending. True for its first refusal. */
bool reports_refused(struct shard_reports *reports, struct instruction *instruction,
                     struct str reason);
#endif
