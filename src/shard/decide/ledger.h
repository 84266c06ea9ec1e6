/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, by profile, what the shard cannot serve, and for how many consecutive cycles.
 *
 * A shortfall is a resource vector, not a number of machines: what all rows of one fingerprint lack
 * after Phase 2, summed over clusters and groups. Shards report shortfalls to the coordinator, and
 * alerts are based on them. Pure; bounded by the number of profiles in a decision. */
#ifndef SHARD_DECIDE_LEDGER_H
#define SHARD_DECIDE_LEDGER_H
#include "shard/decide/decide.h"

enum { LEDGER_TOP = 100 }; /* number of shortfalls that are reported */

struct shortfall {
    struct profile profile; /* includes its fingerprint */
    struct resource_sum lacking;
    uint32_t age; /* cycles in a row with this shortfall, including this cycle */
};

struct ledger;                                                   /* opaque; one owner */
enum err ledger_open(uint64_t seed, struct ledger **ret_ledger); /* seed: for its hash table */
void ledger_close(struct ledger *ledger);                        /* NULL is allowed */

/* Updates the ledger with what a decision left unresolved. Known profiles age by one, new profiles
 * start at 1, absent profiles are removed. ERR_NOMEM leaves the ledger unchanged. */
enum err ledger_note(struct ledger *ledger, const struct decision *decision);
/* Returns all shortfalls by priority descending, age descending, fingerprint ascending; valid until
 * the next ledger_note(). Reports contain the first LEDGER_TOP. */
const struct shortfall *const *ledger_shortfalls(const struct ledger *ledger, size_t *ret_count);
uint32_t ledger_age(const struct ledger *ledger, struct str fingerprint); /* 0: no shortfall */

/* Labels of metrics: the classes of shortfalls by age and by priority, with their names. */
enum { SHORTFALL_AGES = 4, SHORTFALL_CLASSES = 4 };
extern const char *const shortfall_age_names[SHORTFALL_AGES]; /* for example "1-9", "10-59" */
/* for example "critical", "service" */
extern const char *const shortfall_class_names[SHORTFALL_CLASSES];
size_t shortfall_age_index(uint32_t age);
size_t shortfall_class_index(int32_t priority);
#endif
