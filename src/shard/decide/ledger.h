/* SPDX-License-Identifier: Apache-2.0 */
/* The shortfall of each profile, and for how many consecutive cycles the profile has had one.
 *
 * A shortfall is the sum of resources that all Needs with one fingerprint lack after Phase 2.
 * Shards report shortfalls to the coordinator. Pure. */
#ifndef SHARD_DECIDE_LEDGER_H
#define SHARD_DECIDE_LEDGER_H
#include "shard/decide/decide.h"

enum { LEDGER_TOP = 100 }; /* number of shortfalls that are reported */

struct shortfall {
    struct profile profile; /* includes its fingerprint */
    struct resource_sum lacking;
    uint32_t age; /* consecutive cycles with this shortfall */
};

struct ledger;                                                   /* opaque; one owner */
enum err ledger_open(uint64_t seed, struct ledger **ret_ledger); /* seed: for its hash table */
void ledger_close(struct ledger *ledger);                        /* NULL is allowed */

/* Known profiles age by one, new profiles start at 1, absent profiles are removed. ERR_NOMEM:
 * nothing changed. */
enum err ledger_note(struct ledger *ledger, const struct decision *decision);
/* Sorted by priority and age descending, then by fingerprint. Valid until the next
 * ledger_note(). */
const struct shortfall *const *ledger_shortfalls(const struct ledger *ledger, size_t *ret_count);
uint32_t ledger_age(const struct ledger *ledger, struct str fingerprint); /* 0: no shortfall */

/* Labels of metrics: classes of shortfalls by age and by priority. */
enum { SHORTFALL_AGES = 4, SHORTFALL_CLASSES = 4 };
extern const char *const shortfall_age_names[SHORTFALL_AGES]; /* for example "1-9", "10-59" */
/* for example "critical", "service" */
extern const char *const shortfall_class_names[SHORTFALL_CLASSES];
size_t shortfall_age_index(uint32_t age);
size_t shortfall_class_index(int32_t priority);
#endif
