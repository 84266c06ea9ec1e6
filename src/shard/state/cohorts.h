/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a machine's cohort, changes the members of a cohort, and finds its bags. */
#ifndef SHARD_STATE_COHORTS_H
#define SHARD_STATE_COHORTS_H
#include "shard/state/vocabulary.h"

/* Returns a machine's traits with a reference to each shared object. Leaves out a stamp,
 * destination or promise without meaning in the machine's state. ERR_NOMEM. */
enum err traits_take(struct inventory *inv, const struct machine *machine, mono_time idle_since,
                     struct traits *ret_traits);
void traits_give(struct inventory *inv, struct traits *traits);
void traits_share(const struct traits *traits);

/* Finds or creates the cohort and takes a reference to it. Takes over the references of
 * `own_traits`, even on failure. ERR_NOMEM. */
enum err cohort_take(struct inventory *inv, const struct traits *own_traits,
                     struct cohort **ret_cohort);
void cohort_give(struct inventory *inv, struct cohort *cohort); /* NULL is allowed */

/* ERR_NOMEM: nothing was added. */
enum err cohort_add(struct inventory *inv, struct cohort *cohort, struct machine_row *row);
void cohort_remove(struct inventory *inv, struct cohort *cohort, struct machine_row *row);
/* `row` has the same id as `old`. */
void cohort_replace(struct cohort *cohort, struct machine_row *old, struct machine_row *row);

/* NULL: the cohort is in no bag of this kind. */
struct bag *cohort_bag_of(const struct inventory *inv, const struct cohort *cohort,
                          enum cohort_bag kind);
uint32_t *cohort_place(struct cohort *cohort, enum cohort_bag kind); /* index in that bag */
static inline struct key *cohort_key(const struct inventory *inv, const struct cohort *cohort)
{
    return cohort->own == SLOT_NONE ? NULL : slot_map_held(&inv->key_slots, cohort->own);
}
struct order_key row_order_key(const void *row);

size_t row_size(const struct machine_row *row);
/* Frees a row that is in no table and no cohort, once no List order refers to the row. */
void row_bury(struct inventory *inv, struct machine_row *row);
void list_orders_free(struct inventory *inv); /* also frees the buried rows */
#endif
