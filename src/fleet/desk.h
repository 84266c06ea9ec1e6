/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader alone knows of the shards: their last reports, what they still have to be told,
 * and how long ago each was heard of.
 *
 * It decides which report is newer, in which order instructions go out, and when a shard counts as
 * silent. Pure: the time is an argument, ids are the caller's, bytes are opaque (the service gives
 * encoded messages and gets them back). It is soft state: cleared when a term begins (desk_begin),
 * re-made by the reports that follow, never replicated and never written to disk.
 *
 * The surprising rules. A late report loses its summary and its shortfalls, and nothing else: its
 * acks count and the shard was heard of. An instruction with a topic replaces a waiting one of the
 * same topic: of two words about one domain only the newer matters, so a shard that is away for a
 * week owes at most one word per domain. Any ack takes an instruction off, a refusal too: what it
 * asked for is planned anew from the tables, or asked again by a person.
 *
 * Two processes under one shard id. A process is identified by (process id, epoch, address), and
 * when all three are equal by its cycles, which only grow. A process that reports again after
 * another one did has not been replaced by it. One such report may have been delayed on its way;
 * DESK_OVERLAPS of them within the silence time are a conflict, until only one process has reported
 * for that long.
 *
 * One owner, one thread. Views are borrowed until the next call that changes the desk. */
#ifndef FLEET_DESK_H
#define FLEET_DESK_H
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"

enum {
    DESK_SHARDS_MAX = 65536,          /* as many as the tables hold */
    DESK_SHORTFALLS_MAX = 100,        /* kept of a report: the first, which are the worst */
    DESK_PENDING_MAX = 16384,         /* instructions waiting for one shard */
    DESK_INSTRUCTION_MAX = 256 << 10, /* bytes of one */
    DESK_ID_MAX = 128,                /* bytes of an instruction's id */
    DESK_TOPIC_MAX = 1100,            /* bytes: two labels and a mark */
    DESK_REASON_MAX = 320,            /* bytes kept of a refusal */
    DESK_REPORT_MAX = 1 << 20,        /* bytes of a summary, and of all shortfalls, each */
    DESK_PROCESSES_MAX = 4,           /* told apart under one shard id */
    DESK_OVERLAPS = 3,
};
#define DESK_BYTES_MAX ((size_t)1 << 30) /* of all texts together */

struct desk;
struct desk_options {         /* 0: the default behind it */
    uint64_t silent_after_ms; /* 60,000: six reports of a shard at its usual pace */
    uint32_t shards_max;      /* DESK_SHARDS_MAX */
    uint32_t pending_max;     /* DESK_PENDING_MAX */
    size_t bytes_max;         /* DESK_BYTES_MAX */
    uint64_t seed;            /* of the hash of ids, which come from outside */
};
enum err desk_open(const struct desk_options *options, struct desk **ret_desk); /* ERR_NOMEM */
void desk_close(struct desk *desk);                                             /* NULL is fine */

/* -- terms -- */
/* Forgets everything; what is queued from here on bears this term. The sequence goes on: it never
 * gives a number twice in the life of a desk. */
void desk_begin(struct desk *desk, uint64_t term);
uint64_t desk_term(const struct desk *desk);
uint64_t desk_sequence(struct desk *desk); /* the next number: 1, 2, 3, ... */

/* -- shards -- */
/* It stands in the tables: from now on its silence is counted. Nothing happens when it is known.
 * ERR_FULL, ERR_NOMEM. */
enum err desk_add(struct desk *desk, struct str shard, mono_time now);
void desk_remove(struct desk *desk, struct str shard); /* with all that is kept of it */
size_t desk_count(const struct desk *desk);

/* -- reports -- */
enum desk_scope { DESK_SCOPE_UNKNOWN, DESK_SCOPE_EVERYTHING, DESK_SCOPE_DOMAINS };
struct desk_report {
    struct str shard;
    struct str address; /* of the process, as reported */
    uint64_t process;   /* its id; 0: it has none */
    struct str provider;
    enum desk_scope scope;
    int64_t epoch, cycle;
    int64_t received_at_ns; /* wall clock, for readers only */
    bool has_summary;
    struct str summary;     /* opaque */
    size_t shortfall_count; /* as reported; at most DESK_SHORTFALLS_MAX stand in the bytes */
    struct str shortfalls;  /* opaque */
};
struct desk_taken {
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
 * (DESK_REPORT_MAX), ERR_FULL (bytes), ERR_NOMEM: then the shard was not even heard of. */
enum err desk_take(struct desk *desk, const struct desk_report *report, mono_time now,
                   struct desk_taken *ret_taken);

struct desk_shard { /* a reader's view */
    struct str id;
    bool reported; /* in this term */
    bool silent;
    mono_time heard_at; /* when it was added, until it reports */
    bool has_summary, has_shortfalls;
    int64_t epoch, cycle, received_at_ns; /* of the summary; 0 without one */
    struct str summary, shortfalls;
    size_t shortfall_count; /* that are kept */
    size_t pending;
    size_t strays; /* of them: domains that another shard owns */
    bool conflict; /* two or more processes report under this id */
    enum desk_scope scope;
    struct str provider; /* of the last report with a summary; empty: none */
};
bool desk_find(const struct desk *desk, struct str shard, struct desk_shard *ret_shard);
/* A walk in order of insertion: start with *cursor 0. Any change ends it. */
bool desk_next(const struct desk *desk, size_t *cursor, struct desk_shard *ret_shard);

struct desk_process { /* that reported within the silence time */
    struct str address;
    int64_t epoch, cycle, received_at_ns;
};
/* In no order; at most DESK_PROCESSES_MAX. Returns how many. */
size_t desk_processes(const struct desk *desk, struct str shard,
                      struct desk_process ret_processes[DESK_PROCESSES_MAX]);
size_t desk_conflict_count(const struct desk *desk);
/* A conflict that is over, each reported once. False when there is none (left). */
bool desk_conflict_over(struct desk *desk, mono_time now, struct desk_shard *ret_shard);

/* -- silence -- */
/* Shards not heard of for silent_after_ms, longest silence first, each told once until it reports
 * again. False when there is none (left). */
bool desk_silent(struct desk *desk, mono_time now, struct desk_shard *ret_shard);
size_t desk_silent_count(const struct desk *desk);
uint64_t desk_silent_after_ms(const struct desk *desk);
mono_time desk_next_due(const struct desk *desk); /* when to ask again; MONO_NEVER */

/* -- instructions -- */
struct desk_instruction {
    struct str id;           /* not empty; unique per shard */
    struct str topic;        /* may be empty: replaces nothing */
    uint64_t term, sequence; /* the place in the queue */
    struct str bytes;        /* opaque; what the shard is sent */
    uint32_t deliveries;
    uint64_t tag;      /* the caller's; 0: none */
    bool stray;        /* the caller's: of a domain that another shard owns */
    bool untold;       /* the caller's: the shard was never sent what this one takes back */
    struct str reason; /* of the last refusal, clipped; empty: it was not refused */
};
/* To the end of the shard's queue, or to where (term, sequence) belongs. Replaces the one with the
 * same id, and the one with the same topic. ERR_NOT_FOUND (shard), ERR_INVALID (no id),
 * ERR_TOO_LARGE, ERR_FULL (queue or bytes): the queue is as it was. ERR_NOMEM: so it is, but for
 * what would have been replaced. */
enum err desk_queue(struct desk *desk, struct str shard,
                    const struct desk_instruction *instruction);
/* Whether all of these shards can be told, one after the other: what desk_queue would answer but
 * for ERR_NOMEM, and of which (*ret_at, if not NULL). */
enum err desk_may_queue(struct desk *desk, const struct str *shards, size_t count,
                        const struct desk_instruction *instruction, size_t *ret_at);
/* True: it was waiting and is gone. */
bool desk_ack(struct desk *desk, struct str shard_id, struct str instruction_id);
/* The shard refused it, and it goes on waiting. True: for the first time. */
bool desk_refused(struct desk *desk, struct str shard_id, struct str instruction_id,
                  struct str reason);
size_t desk_pending(const struct desk *desk, struct str shard);
size_t desk_tagged(const struct desk *desk, struct str shard); /* of them, with a tag */
/* A waiting one by its id; false: it is not waiting. */
bool desk_find_instruction(const struct desk *desk, struct str shard_id, struct str instruction_id,
                           struct desk_instruction *ret_instruction);
/* The waiting one with this topic; ret_instruction may be NULL. */
bool desk_find_topic(const struct desk *desk, struct str shard_id, struct str topic,
                     struct desk_instruction *ret_instruction);
size_t desk_stray_count(const struct desk *desk); /* of all shards */
/* The waiting ones in order of (term, sequence): start with *cursor NULL. `deliver` counts it as
 * sent once more. Any other change ends the walk. */
bool desk_next_instruction(struct desk *desk, struct str shard, bool deliver, const void **cursor,
                           struct desk_instruction *ret_instruction);

size_t desk_bytes(const struct desk *desk); /* of texts held */
void desk_check(const struct desk *desk);   /* asserts what must hold; for tests */
#endif
