/* SPDX-License-Identifier: Apache-2.0 */
/* What the shard cannot serve, by profile, and for how many cycles in a row.
 *
 * A shortfall is a resource vector, not a count of machines: what all rows of one fingerprint still
 * lack after Phase 2, summed over clusters and groups. It is what a shard reports upwards and what
 * a person is paged for. Pure; bounded by the profiles of one decision. */
#ifndef SHARD_DECIDE_LEDGER_H
#define SHARD_DECIDE_LEDGER_H
#include "shard/decide/decide.h"

enum { LEDGER_TOP = 100 }; /* shortfalls that are reported */

struct shortfall {
    struct profile profile; /* with its fingerprint */
    struct resource_sum lacking;
    uint32_t age; /* cycles in a row, this one included */
};

struct ledger;                                                   /* opaque, one owner */
enum err ledger_open(uint64_t seed, struct ledger **ret_ledger); /* seed: of its hash table */
void ledger_close(struct ledger *ledger);                        /* NULL is fine */

/* Takes a decision's unresolved rest: known profiles age, new ones begin at 1, absent ones go.
 * ERR_NOMEM: the ledger is what it was. */
enum err ledger_note(struct ledger *ledger, const struct decision *decision);
/* All of them by priority descending, age descending, fingerprint ascending; valid until the next
 * ledger_note(). Reports take the first LEDGER_TOP. */
const struct shortfall *const *ledger_shortfalls(const struct ledger *ledger, size_t *ret_count);
uint32_t ledger_age(const struct ledger *ledger, struct str fingerprint); /* 0: none */

/* Labels of metrics: in which of so many a shortfall is counted, and what that one is called. */
enum { SHORTFALL_AGES = 4, SHORTFALL_CLASSES = 4 };
extern const char *const shortfall_age_names[SHORTFALL_AGES];      /* "1-9", "10-59" ... */
extern const char *const shortfall_class_names[SHORTFALL_CLASSES]; /* "critical", "service" ... */
size_t shortfall_age_index(uint32_t age);
size_t shortfall_class_index(int32_t priority);
#endif
