/* SPDX-License-Identifier: Apache-2.0 */
/* The decision, the slow way: docs/decision.md written down with plain loops and no index.
 *
 * It judges src/shard/decide and so includes nothing of it, nor of shard/state or model: its fleet
 * is a plain table with texts and small fixed arrays, and it compares texts where the engine
 * compares numbers. Quadratic on purpose; meant for some dozens of machines and rows. */
#ifndef TESTS_DECIDE_ORACLE_H
#define TESTS_DECIDE_ORACLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ORACLE_DIMS = 4,
    ORACLE_LABELS = 4,
    ORACLE_REQUIREMENTS = 5,
    ORACLE_VALUES = 4,
    ORACLE_SPREADS = 2,
    ORACLE_TEXT = 48,
    ORACLE_FINGERPRINT = 512,
    ORACLE_CANDIDATES = 6,
    ORACLE_POOLS = 4,
    ORACLE_COUNT_MAX = 256,
};

/* Amounts in milli-units; the fleet names the dimensions, in byte order. */
struct oracle_amounts {
    int64_t of[ORACLE_DIMS];
};
struct oracle_label {
    char key[ORACLE_TEXT], value[ORACLE_TEXT];
};
/* numbers of the wire */
enum oracle_state {
    ORACLE_SPECULATIVE = 1,
    ORACLE_CREATING,
    ORACLE_IDLE,
    ORACLE_CONFIGURING,
    ORACLE_CONFIGURED,
    ORACLE_DRAINING,
    ORACLE_DELETING,
    ORACLE_FAILED,
};
enum oracle_occupancy { ORACLE_UNKNOWN, ORACLE_EMPTY, ORACLE_EVICTABLE, ORACLE_HELD };
enum oracle_capacity { ORACLE_BARE_METAL = 1, ORACLE_RESERVED, ORACLE_ON_DEMAND, ORACLE_SPOT };
enum oracle_kind {
    ORACLE_NOTHING,
    ORACLE_BOOTSTRAP,
    ORACLE_PROVISION,
    ORACLE_PREEMPT,
    ORACLE_RECLAIM,
    ORACLE_DELETE,
};
/* For whom a machine was bought, or is drained. An empty cluster: for nobody. */
struct oracle_stamp {
    char cluster[ORACLE_TEXT], fingerprint[ORACLE_FINGERPRINT], group[ORACLE_TEXT];
    int32_t priority;
    double interruption_dollars, reclamation_dollars;
};
struct oracle_machine {
    char id[ORACLE_TEXT], cluster[ORACLE_TEXT], type[ORACLE_TEXT], zone[ORACLE_TEXT];
    enum oracle_state state;
    enum oracle_capacity capacity;
    struct oracle_label labels[ORACLE_LABELS]; /* an empty key ends them */
    struct oracle_amounts alloc;
    double price, probability;
    struct oracle_stamp stamp, drained_for;
    uint64_t idle_since_ms;
    enum oracle_occupancy occupancy; /* of a Configured machine */
    uint8_t disruption;              /* penalty bucket of an evictable machine */
    int cordon;                      /* 1 cordoned, 2 being emptied */
    /* An action that waits or runs: planned on as if it had begun. */
    enum oracle_kind queued;
    struct oracle_stamp queued_stamp; /* what it will stamp, or whom it is drained for */
};

enum oracle_operator {
    ORACLE_IN = 1,
    ORACLE_NOT_IN,
    ORACLE_EXISTS,
    ORACLE_DOES_NOT_EXIST,
    ORACLE_SAME,
};
struct oracle_requirement {
    char key[ORACLE_TEXT]; /* empty: ends the list */
    enum oracle_operator operator;
    char values[ORACLE_VALUES][ORACLE_TEXT]; /* an empty one ends them */
};
struct oracle_spread {
    char key[ORACLE_TEXT];
    int32_t skew;
    int when; /* 1 DoNotSchedule, 2 ScheduleAnyway */
};
struct oracle_profile {
    struct oracle_requirement requirements[ORACLE_REQUIREMENTS];
    struct oracle_spread spreads[ORACLE_SPREADS];
    int32_t priority;
    uint8_t interruption_bucket, reclamation_bucket;
};
struct oracle_need {
    char cluster[ORACLE_TEXT], group[ORACLE_TEXT];
    struct oracle_profile profile;
    struct oracle_amounts aggregate, min_unit;
    uint64_t arrival;
    bool parked;
};
struct oracle_pool {
    char type[ORACLE_TEXT], zone[ORACLE_TEXT];
    enum oracle_capacity capacity;
};
struct oracle_weights { /* of a victim's score */
    double priority, drain, interruption, reclamation, drain_seconds;
};

struct oracle_fleet {
    const char *dimensions[ORACLE_DIMS]; /* in byte order; NULL ends them */
    struct oracle_machine *machines;
    size_t machine_count;
    struct oracle_need *needs; /* in the order of the input */
    size_t need_count;
    const char *const *ready; /* clusters that reported; NULL: all */
    size_t ready_count;
    uint64_t now_ms;
    struct oracle_pool sold_out[ORACLE_POOLS];
    size_t sold_out_count;
    const struct oracle_weights *weights; /* NULL: 1, 0.1, 0.1, 0.1 and 30 s */
};

__extension__ typedef __int128 oracle_wide;
struct oracle_sum {
    oracle_wide of[ORACLE_DIMS];
};
struct oracle_candidate {
    char value[ORACLE_TEXT];
    int per_mille;
    bool satisfiable;
};
/* A row of the normalised demand and what became of it. */
struct oracle_row {
    char cluster[ORACLE_TEXT], group[ORACLE_TEXT], fingerprint[ORACLE_FINGERPRINT];
    struct oracle_profile profile;
    struct oracle_sum aggregate, min_unit, rem, unresolved, freed;
    uint64_t arrival;
    bool parked, gang, has_domain, satisfiable, satisfied, resolved;
    char domain[ORACLE_TEXT];
    size_t place, claimed, bootstraps, provisions, victims;
    struct oracle_candidate candidates[ORACLE_CANDIDATES];
    size_t candidate_count;
    int idle_matching, speculative_matching, sold_out_matching, configured_matching;
    const char *reason; /* "" when satisfied */
};
struct oracle_action {
    enum oracle_kind kind;
    size_t machine;
    char cluster[ORACLE_TEXT];
    struct oracle_stamp for_whom; /* its cluster empty: nobody */
    uint64_t grace_ms;
    int32_t preemptor;
    const char *reason;
};
struct oracle_decision {
    struct oracle_row *rows; /* in the order of Needs */
    size_t row_count;
    struct oracle_action *actions;
    size_t action_count;
    long *claimed_by; /* per machine: a row, or -1; NULL: not reported */
    size_t *claims;   /* machines in the order they were claimed; NULL: not reported */
    size_t claim_count;
};

/* Canonical text of a profile, as shard.md 2.8 prints it. */
void oracle_fingerprint(const struct oracle_profile *profile, char out[ORACLE_FINGERPRINT]);
/* What a machine bought for this row is stamped with. */
struct oracle_stamp oracle_stamp_of(const struct oracle_need *need);
/* Aborts when it has no memory. */
void oracle_decide(const struct oracle_fleet *fleet, struct oracle_decision *ret_decision);
void oracle_decision_free(struct oracle_decision *decision);

/* Pieces the property tests ask too. An attribute is NULL when the machine has none. */
bool oracle_matches(const struct oracle_profile *profile, const struct oracle_machine *machine);
bool oracle_fits(const struct oracle_machine *machine, const struct oracle_sum *min_unit);
const char *oracle_attribute(const struct oracle_machine *machine, const char *key);
#endif
