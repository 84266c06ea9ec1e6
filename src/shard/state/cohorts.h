/* SPDX-License-Identifier: Apache-2.0 */
/* Internal functions of cohorts: find a machine's cohort, change its members, find its bags. */
#ifndef SHARD_STATE_COHORTS_H
#define SHARD_STATE_COHORTS_H
#include "shard/state/vocabulary.h"

/* Extracts a machine's traits, with a reference to each shared object. Leaves out a stamp,
 * destination or promise that has no meaning in the machine's state. Returns ERR_NOMEM. */
enum err traits_take(struct inventory *inv, const struct machine *machine, mono_time idle_since,
                     struct traits *ret_traits);
void traits_give(struct inventory *inv, struct traits *traits);
/* Takes another reference to each object of the traits. */
void traits_share(const struct traits *traits);

/* Finds or creates the cohort with these traits and takes a reference to it. Takes over the
 * references of `own_traits`, even on failure. Returns ERR_NOMEM. */
enum err cohort_take(struct inventory *inv, const struct traits *own_traits,
                     struct cohort **ret_cohort);
void cohort_give(struct inventory *inv, struct cohort *cohort); /* NULL is allowed */

/* Adds a row as a member. The caller sets the row's own fields. ERR_NOMEM: nothing was added. */
enum err cohort_add(struct inventory *inv, struct cohort *cohort, struct machine_row *row);
void cohort_remove(struct inventory *inv, struct cohort *cohort, struct machine_row *row);
/* Replaces `old` by `row`, which has the same id. */
void cohort_replace(struct cohort *cohort, struct machine_row *old, struct machine_row *row);

/* Returns the bag of this kind that contains the cohort, or NULL. */
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
