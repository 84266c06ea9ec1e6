/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which machines to bootstrap, provision, preempt, reclaim and delete. docs/decision.md
 * contains the rules and defines the terms of this folder.
 *
 * The engine is pure: the same input gives the same bytes, whatever was decided before. Between
 * calls the engine keeps only scratch memory and caches.
 *
 * A decision changes nothing. The caller must record the actions that it queues in the inventory
 * (inventory_plan). The next decision then treats these actions as started. */
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
    REASON_NONE, /* the Need is satisfied */
    REASON_TOPOLOGY_UNSATISFIABLE,
    REASON_NO_MATCHING_SUPPLY,
    REASON_PREEMPTION_EXHAUSTED,
    REASON_PRIORITY_STARVED,
    REASON_SOLD_OUT,
};
enum {
    VERDICT_COUNT_MOST = 256,      /* matching and fitting machines are counted up to this number */
    VERDICT_DOMAINS_MOST = 6,      /* number of best covered domains that a gang's verdict lists */
    SHIELD_MS = 60 * 1000,         /* how long a drained machine is kept for its Need */
    RECLAIM_GRACE_MS = 600 * 1000, /* grace period of a Reclaim */
};

struct action {
    enum action_kind kind;
    struct str machine;
    struct str cluster; /* Preempt, Reclaim: present cluster; Delete: empty; else: new cluster */
    /* Bootstrap, Provision: the Need that gets the machine. Preempt, Reclaim: the Need for which
     * the machine is drained; an empty cluster means none. */
    struct need_key key;
    int32_t priority;                                 /* priority of the Need in `key`, or 0 */
    double interruption_dollars, reclamation_dollars; /* the Need's penalties in dollars, or 0 */
    uint64_t grace_ms;                                /* for Preempt and Reclaim; else 0 */
};

struct domain_coverage {
    struct str value;
    uint32_t per_mille; /* covered part of the gang; 1000: the whole gang */
};

/* All machines with one instance type, zone and capacity type. */
struct capacity_pool {
    struct str instance_type, zone;
    enum capacity_type capacity_type;
};

struct shortage {
    struct amounts deficit; /* what the Need lacks after Phase 1 */
    /* numbers of machines that match and fit, including claimed machines */
    uint32_t idle_count, speculative_count, configured_count;
    uint32_t sold_out_count; /* Speculative machines of sold-out pools; not in speculative_count */
    struct capacity_pool sold_out; /* the cheapest of these pools, if there is one */
    struct domain_coverage domains[VERDICT_DOMAINS_MOST]; /* gang: best domain first */
    uint32_t domain_count;
    uint32_t victims;
    struct amounts freed;      /* amounts of the victims */
    struct amounts unresolved; /* what the Need lacks after Phase 2 */
    enum verdict_reason reason;
};
struct need_verdict {
    const struct demand *need; /* normalised row, see demand.h */
    bool parked, satisfied;
    bool satisfiable;                         /* satisfied, or a gang whose domain could cover it */
    bool has_domain;                          /* gang: a domain was chosen */
    struct str domain;                        /* value of the gang's topology key; may be empty */
    uint32_t claimed, bootstraps, provisions; /* claimed includes bootstraps and provisions */
    const struct shortage *shortage;          /* NULL if the Need is satisfied */
};

struct decision { /* borrowed; valid until the next decide() or change of inventory or needs */
    const struct need_verdict *verdicts; /* in the order of Needs */
    size_t verdict_count;
    const struct action *actions;
    size_t action_count;
    uint32_t claimed, excess, folded; /* numbers of machines (claimed, excess) and gangs */
};

enum decide_part { DECIDE_READ, DECIDE_PHASE1, DECIDE_PHASE2, DECIDE_PHASE3, DECIDE_PARTS };

/* Weights of the score that orders victims (decision.md, section 3): finite, at least 0. */
struct victim_weights {
    double priority;                  /* multiplied by the difference of the priorities */
    double drain;                     /* divided by the expected seconds of a drain (drain_ms) */
    double interruption, reclamation; /* divided by the victim's penalty in dollars */
    uint64_t drain_ms;
};

struct decide_input {
    const struct need_key *parked; /* gangs that may not acquire machines; in any order */
    size_t parked_count;
    const struct capacity_pool *sold_out; /* pools whose Speculative machines are ignored */
    size_t sold_out_count;
    mono_time now; /* on the clock of the inventory's idle_since */
    /* How long Idle machines are kept. 0 or IDLE_HOLD_FOREVER: for ever. */
    uint64_t idle_hold_ms[CAPACITY_TYPE_COUNT];
    struct victim_weights weights;
    /* Called at the end of each part of the decision; may be NULL. */
    void (*mark)(void *context, enum decide_part part);
    void *mark_context;
};
/* Sets the defaults of decision.md. */
void decide_input_init(struct decide_input *input, mono_time now);

struct decider; /* scratch memory and caches; used by one thread */
struct decider_options {
    const struct inventory *inventory;   /* read only; must outlive the engine, like `needs` */
    struct needs *needs;                 /* the engine may sort the table */
    const struct dimensions *dimensions; /* inventory and needs were built with this table */
    size_t scratch_max;                  /* bytes for one decision; 0: no limit */
};
enum err decider_open(const struct decider_options *options, struct decider **ret_engine);
void decider_close(struct decider *engine); /* NULL is allowed */

/* ERR_FULL: scratch_max is too small. ERR_NOMEM. After an error no decision is valid, not even the
 * previous one, but the engine stays usable. */
enum err decide(struct decider *engine, const struct decide_input *input,
                const struct decision **ret_decision);

const char *action_kind_name(enum action_kind kind); /* for example "bootstrap" */
const char *action_reason(enum action_kind kind);    /* for example "phase1.idle" */
/* for example "PRIORITY_STARVED"; "" for REASON_NONE */
const char *verdict_reason_name(enum verdict_reason reason);

/* Writing stops at the first error, which is kept. */
struct printed {
    struct buf *out;
    const struct dimensions *dimensions;
    enum err err;
};
void printed_add(struct printed *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void printed_text(struct printed *p, struct str text, const char *escaped);

/* Prints the transcript: a line per verdict in the order of Needs, then a line per action. Tests
 * compare it bytewise with the transcript of the oracle.
 *
 *   need C F G agg=V unit=V arrival=N parked=B satisfied=B deficit=V claimed=N bootstraps=N
 *        provisions=N domain=D satisfiable=B
 *   and, on the same line, when satisfied=0:
 *        idle=N speculative=N soldout=N configured=N domains=L victims=N freed=V unresolved=V
 *        reason=R
 *
 *   KIND M C for C F G prio=N grace=N REASON
 *   KIND M C for - prio=0 grace=N REASON         when the action is for no Need
 *
 *   C F G M  cluster, fingerprint, group, machine id, as T; C after M is "" for delete
 *   T        text in double quotes; a byte outside 0x20..0x7E, '"' and '\' is written \xHH (lower
 *            case)
 *   V        resource_sum_key(): "cpu=16000,memory=34359738368000", without zeroes; "-" when empty
 *   N        decimal; arrival in unix nanoseconds, grace in milliseconds
 *   B        0 or 1
 *   D        T, or "-" for a Need without a domain
 *   L        T:PERMILLE joined with ',', best first; "-" when empty
 *   R        the reason's name, for example NO_MATCHING_SUPPLY
 *   KIND     bootstrap provision preempt reclaim delete
 *   REASON   for example phase1.idle
 *   agg unit of the normalised row
 *
 * Returns ERR_FULL or ERR_NOMEM from `out`. */
enum err decision_print(const struct decision *decision, const struct dimensions *dimensions,
                        struct buf *out);
#endif
