/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which machines to bootstrap, provision, preempt, reclaim and delete. docs/decision.md
 * contains the rules and defines the terms of this folder.
 *
 * The engine is pure: inventory, needs, parked gangs and the time go in, a decision comes out. The
 * same input gives the same bytes, whatever was decided before and in whatever order the machines
 * arrived. Between calls the engine keeps only scratch memory and caches that cannot change an
 * answer.
 *
 * A decision changes nothing. The caller passes the actions through the safety limits and queues
 * the rest. Then the caller records the queued actions in the inventory (inventory_plan), so that
 * the next decision treats them as started. */
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
};
enum {
    VERDICT_COUNT_MOST = 256,      /* matching and fitting machines are counted up to this number */
    VERDICT_DOMAINS_MOST = 6,      /* number of best covered domains that a gang's verdict lists */
    SHIELD_MS = 60 * 1000,         /* how long an Idle machine drained for a Need is kept for it */
    RECLAIM_GRACE_MS = 600 * 1000, /* grace period of a Reclaim; long, because no Need waits */
};

struct action {
    enum action_kind kind;
    struct str machine;
    struct str cluster; /* the machine's next cluster (Preempt, Reclaim: its last; Delete: empty) */
    /* Bootstrap, Provision: the Need that the machine is bought for. Preempt, Reclaim: the Need
     * that the machine is drained for; an empty cluster means no Need. */
    struct need_key key;
    int32_t priority;                                 /* priority of the Need in `key`, or 0 */
    double interruption_dollars, reclamation_dollars; /* the Need's penalties in dollars, or 0 */
    uint64_t grace_ms;                                /* for Preempt and Reclaim; else 0 */
};

struct domain_coverage {
    struct str value;
    uint32_t per_mille; /* part of the gang that the domain covers; 1000: the whole gang */
};

/* Why a Need got less than it asked for. */
struct shortage {
    struct amounts deficit; /* what the Need lacks after Phase 1 */
    /* numbers of machines that match and fit, claimed or not */
    uint32_t idle_count, speculative_count, configured_count;
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
    bool satisfiable;                         /* satisfied, or a gang that its domain could cover */
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
    uint32_t claimed, excess, folded; /* for metrics: claimed and excess machines, folded gangs */
};

/* Parts of a decision, for measuring their durations. */
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
    mono_time now; /* same clock as the inventory's idle_since */
    /* How long Idle machines are kept before they are deleted. 0 or IDLE_HOLD_FOREVER: for ever. */
    uint64_t idle_hold_ms[CAPACITY_TYPE_COUNT];
    struct victim_weights weights;
    /* Called at the end of each part; may be NULL. */
    void (*mark)(void *context, enum decide_part part);
    void *mark_context;
};
/* Sets the defaults: holds and weights of decision.md, no parked gangs. */
void decide_input_init(struct decide_input *input, mono_time now);

struct decider; /* opaque scratch memory and caches; used by one thread */
struct decider_options {
    const struct inventory *inventory; /* read only; inventory and needs must outlive the engine */
    struct needs *needs; /* the engine sorts the table when it is not in the order of Needs */
    const struct dimensions *dimensions; /* the table that inventory and needs were built with */
    size_t scratch_max; /* limit in bytes for one decision; ERR_FULL above it. 0: no limit */
};
enum err decider_open(const struct decider_options *options, struct decider **ret_engine);
void decider_close(struct decider *engine); /* NULL is allowed */

/* Returns ERR_FULL if the scratch memory would exceed scratch_max, ERR_NOMEM if memory ran out.
 * After an error no decision is valid, not even the previous one, but the engine stays usable. */
enum err decide(struct decider *engine, const struct decide_input *input,
                const struct decision **ret_decision);

const char *action_kind_name(enum action_kind kind); /* for example "bootstrap" */
const char *action_reason(enum action_kind kind);    /* for example "phase1.idle" */
/* for example "PRIORITY_STARVED"; "" for REASON_NONE */
const char *verdict_reason_name(enum verdict_reason reason);

/* A text written in pieces. The first error is kept, and later writes do nothing. */
struct printed {
    struct buf *out;
    const struct dimensions *dimensions;
    enum err err;
};
void printed_add(struct printed *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes bytes outside 0x20..0x7E and the bytes in `escaped` as \xHH. */
void printed_text(struct printed *p, struct str text, const char *escaped);

/* Prints the transcript: one line per verdict in the order of Needs, then one line per action. Each
 * line ends with a newline. Fields are separated by one blank. Tests compare the transcript
 * bytewise with the oracle's.
 *
 *   need C F G agg=V unit=V arrival=N parked=B satisfied=B deficit=V claimed=N bootstraps=N
 *        provisions=N domain=D satisfiable=B
 *   and, on the same line, when satisfied=0:
 *        idle=N speculative=N configured=N domains=L victims=N freed=V unresolved=V reason=R
 *
 *   KIND M C for C F G prio=N grace=N REASON
 *   KIND M C for - prio=0 grace=N REASON         when the action is for no Need
 *
 *   C F G M  cluster, fingerprint, group, machine id, as T
 *   T        text in double quotes; a byte outside 0x20..0x7E, '"' and '\' is written \xHH (lower
 *            case)
 *   V        resource_sum_key(): "cpu=16000,memory=34359738368000", without zeroes; "-" when empty
 *   N        decimal; arrival in unix nanoseconds, grace in milliseconds
 *   B        0 or 1
 *   D        T, or "-" for a Need without a domain
 *   L        T:PERMILLE joined with ',', best first; "-" when there is none
 *   R        the reason's name, for example NO_MATCHING_SUPPLY
 *   KIND     bootstrap provision preempt reclaim delete; REASON phase1.idle and so on
 *   agg, unit  of the normalised row. C after M is "" for delete.
 *
 * Returns ERR_FULL or ERR_NOMEM from `out`. */
enum err decision_print(const struct decision *decision, const struct dimensions *dimensions,
                        struct buf *out);
#endif
