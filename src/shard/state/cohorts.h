/* SPDX-License-Identifier: Apache-2.0 */
/* Cohorts from the inside: finding the one a machine belongs to, its members, its bags. */
#ifndef SHARD_STATE_COHORTS_H
#define SHARD_STATE_COHORTS_H
#include "shard/state/vocabulary.h"

/* What the engine looks at in a record; each shared object counted once. What has no meaning in the
 * state is left out (machine_state_keeps_stamp, destination, promise). ERR_NOMEM. */
enum err traits_take(struct inventory *inv, const struct machine *machine, mono_time idle_since,
                     struct traits *ret_traits);
void traits_give(struct inventory *inv, struct traits *traits);
/* Another count of everything in it. */
void traits_share(const struct traits *traits);

/* The cohort with these traits, counted once more; takes over the counts of `own_traits` whatever
 * the answer. ERR_NOMEM. */
enum err cohort_take(struct inventory *inv, const struct traits *own_traits,
                     struct cohort **ret_cohort);
void cohort_give(struct inventory *inv, struct cohort *cohort); /* NULL is fine */

/* Membership (members.c); the row's own pointers are the caller's. ERR_NOMEM: not in. */
enum err cohort_add(struct inventory *inv, struct cohort *cohort, struct machine_row *row);
void cohort_remove(struct inventory *inv, struct cohort *cohort, struct machine_row *row);
/* Puts `row`, of the same id, in the place of `old`. */
void cohort_replace(struct cohort *cohort, struct machine_row *old, struct machine_row *row);

/* Which bags a cohort of these traits is in, NULL where none; for the check too. */
struct bag *cohort_bag_of(const struct inventory *inv, const struct cohort *cohort,
                          enum cohort_bag kind);
uint32_t *cohort_place(struct cohort *cohort, enum cohort_bag kind); /* in that bag */
static inline struct key *cohort_key(const struct inventory *inv, const struct cohort *cohort)
{
    return cohort->own == SLOT_NONE ? NULL : rooms_held(&inv->key_slots, cohort->own);
}
struct order_key row_order_key(const void *row);

size_t row_size(const struct machine_row *row);
/* listing.c: frees a row that is in no table and no cohort, at once or when no order of Lists can
 * name it any more. */
void row_bury(struct inventory *inv, struct machine_row *row);
void list_orders_free(struct inventory *inv); /* and the rows that were buried */
#endif
