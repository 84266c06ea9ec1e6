/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines to bootstrap, provision, preempt, reclaim and delete, and why: docs/decision.md is
 * the rule book, and the words of this folder are its words.
 *
 * Pure: (inventory, needs, parked, now) in, decision out; the same input gives the same bytes,
 * whatever was decided before and in whatever order the machines came in. The engine only keeps
 * scratch memory and what it may remember without changing an answer.
 *
 * A decision changes nothing. The caller passes actions through the rails, queues what is left and
 * records it in the inventory (inventory_plan), so that the next decision counts it as begun. */
#ifndef SHARD_DECIDE_DECIDE_H
#define SHARD_DECIDE_DECIDE_H
#include "base/buf.h"
#include "shard/state/demand.h"
#include "shard/state/inventory.h"

enum action_kind {
    ACTION_BOOTSTRAP,
    ACTION_PROVISION,
    ACTION_PREEMPT,
    ACTION_RECLAIM,
    ACTION_DELETE
};
enum verdict_reason {
    REASON_NONE, /* satisfied */
    REASON_TOPOLOGY_UNSATISFIABLE,
    REASON_NO_MATCHING_SUPPLY,
    REASON_PREEMPTION_EXHAUSTED,
    REASON_PRIORITY_STARVED,
};
enum {
    VERDICT_COUNT_MOST = 256,      /* machines that match and fit are counted up to this */
    VERDICT_DOMAINS_MOST = 6,      /* best covered domains of a gang that are named */
    SHIELD_MS = 60 * 1000,         /* a machine drained for a Need is kept for it, once Idle */
    RECLAIM_GRACE_MS = 600 * 1000, /* no Need waits */
};

struct action {
    enum action_kind kind;
    struct str machine;
    struct str cluster; /* the destination; of Preempt and Reclaim the source; Delete: empty */
    /* Bootstrap, Provision: the Need it is bought for. Preempt, Reclaim: the Need it is drained
     * for; cluster empty: nobody. */
    struct need_key key;
    int32_t priority;                                 /* of that Need; 0: none */
    double interruption_dollars, reclamation_dollars; /* of that Need's buckets; 0: none */
    uint64_t grace_ms;                                /* Preempt, Reclaim; else 0 */
};

struct domain_coverage {
    struct str value;
    uint32_t per_mille; /* 1000: it could cover the gang */
};

/* Why a Need got less than it asked for. */
struct shortage {
    struct amounts deficit;                                   /* after Phase 1 */
    uint32_t idle_count, speculative_count, configured_count; /* match and fit, claims ignored */
    struct domain_coverage domains[VERDICT_DOMAINS_MOST];     /* gang: best first */
    uint32_t domain_count;
    uint32_t victims;
    struct amounts freed;      /* by the victims */
    struct amounts unresolved; /* after Phase 2 */
    enum verdict_reason reason;
};
struct need_verdict {
    const struct demand *need; /* the normalised row: demand.h */
    bool parked, satisfied;
    bool satisfiable;                         /* satisfied, or a gang whose domain could cover it */
    bool has_domain;                          /* gang */
    struct str domain;                        /* its value of K; may be empty though there is one */
    uint32_t claimed, bootstraps, provisions; /* claimed: all, the other two included */
    const struct shortage *shortage;          /* NULL when satisfied */
};

struct decision { /* borrowed: valid until the next decide() or a change of inventory or needs */
    const struct need_verdict *verdicts; /* in the order of Needs */
    size_t verdict_count;
    const struct action *actions;
    size_t action_count;
    uint32_t claimed, excess, folded; /* machines, machines, rows: for metrics */
};

/* Parts of a decision, for measuring them. */
enum decide_part { DECIDE_READ, DECIDE_PHASE1, DECIDE_PHASE2, DECIDE_PHASE3, DECIDE_PARTS };

/* The order of victims (section 3 of the rule book): each weight is at least 0 and finite. */
struct victim_weights {
    double priority;                  /* times the gap of priorities */
    double drain;                     /* through the seconds a drain is thought to take */
    double interruption, reclamation; /* through the dollars that it costs the victim */
    uint64_t drain_ms;
};

struct decide_input {
    const struct need_key *parked; /* gangs that acquire nothing; any order */
    size_t parked_count;
    mono_time now; /* the clock of the inventory's "idle since" */
    /* How long Idle machines are held; 0 and IDLE_HOLD_FOREVER: never let go. */
    uint64_t idle_hold_ms[CAPACITY_TYPE_COUNT];
    struct victim_weights weights;
    /* Called at the end of each part; may be NULL. */
    void (*mark)(void *context, enum decide_part part);
    void *mark_context;
};
/* Fills in what a shard starts from: holds and weights of the rule book, nothing parked. */
void decide_input_init(struct decide_input *input, mono_time now);

struct decider; /* scratch and memory between cycles; opaque, one thread */
struct decider_options {
    const struct inventory *inventory;   /* the engine's for its whole life; both outlive it */
    struct needs *needs;                 /* put in order when it is not */
    const struct dimensions *dimensions; /* the table both were built with */
    size_t scratch_max; /* bytes of one decision; past it decide() answers ERR_FULL. 0: no limit */
};
enum err decider_open(const struct decider_options *options, struct decider **ret_engine);
void decider_close(struct decider *engine); /* NULL is fine */

/* ERR_FULL: the scratch could not grow, by scratch_max or for want of memory; ERR_NOMEM. There is
 * no decision then, the last one is gone, and the engine stays usable. */
enum err decide(struct decider *engine, const struct decide_input *input,
                const struct decision **ret_decision);

const char *action_kind_name(enum action_kind kind);         /* "bootstrap" */
const char *action_reason(enum action_kind kind);            /* "phase1.idle" */
const char *verdict_reason_name(enum verdict_reason reason); /* "PRIORITY_STARVED"; "" for none */

/* A text in pieces: the first error is kept, and nothing is written after it. */
struct printed {
    struct buf *out;
    const struct dimensions *dimensions;
    enum err err;
};
void printed_add(struct printed *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Bytes outside 0x20..0x7E, and those in `escaped`, as \xHH. */
void printed_text(struct printed *p, struct str text, const char *escaped);

/* The transcript: one line per verdict, in the order of Needs, then one per action, each closed by
 * a newline; compared bytewise with the oracle's. Fields are separated by one blank.
 *
 *   need C F G agg=V unit=V arrival=N parked=B satisfied=B deficit=V claimed=N bootstraps=N
 *        provisions=N domain=D satisfiable=B
 *   and, on the same line, when satisfied=0:
 *        idle=N speculative=N configured=N domains=L victims=N freed=V unresolved=V reason=R
 *
 *   KIND M C for C F G prio=N grace=N REASON
 *   KIND M C for - prio=0 grace=N REASON         when it is for no Need
 *
 *   C F G M  cluster, fingerprint, group, machine id, as T
 *   T        text in double quotes; a byte outside 0x20..0x7E, '"' and '\' is written \xHH (lower
 *            case)
 *   V        resource_sum_key(): "cpu=16000,memory=34359738368000", zeroes left out; "-" when empty
 *   N        decimal; arrival in unix nanoseconds, grace in milliseconds
 *   B        0 or 1
 *   D        T, or "-" for a Need without a domain
 *   L        T:PERMILLE joined with ',', best first; "-" when there is none
 *   R        the word, NO_MATCHING_SUPPLY and so on
 *   KIND     bootstrap provision preempt reclaim delete; REASON phase1.idle and so on
 *   agg, unit  of the normalised row. C after M is "" for delete.
 *
 * ERR_FULL, ERR_NOMEM of `out`. */
enum err decision_print(const struct decision *decision, const struct dimensions *dimensions,
                        struct buf *out);
#endif
