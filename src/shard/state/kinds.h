/* SPDX-License-Identifier: Apache-2.0 */
/* Reference-counted profiles, requirement sets and units, shared because most rows are equal. */
#ifndef SHARD_STATE_KINDS_H
#define SHARD_STATE_KINDS_H
#include "shard/state/demand.h"
#include "shard/state/shared.h"

/* Arguments for shared_give(). */
extern const struct shared_kind kind_kind, unit_kind;

/* Finds or copies the profile, which must be canonical. ERR_NOMEM. */
enum err kind_take(struct needs *needs, const struct profile *profile, struct kind **ret_kind);

/* Keeps a profile for a running action, even without rows. Must be released once. ERR_NOMEM. */
enum err kind_hold(struct needs *needs, const struct profile *profile, struct kind **ret_kind);
void kind_release(struct needs *needs, struct kind *kind); /* NULL is allowed */
/* Returns the kind of a profile that some row has or that is held, or NULL. */
const struct kind *kind_find(const struct needs *needs, struct str fingerprint);

/* Finds or creates a unit. Returns ERR_TOO_LARGE if no machine has that much, or ERR_NOMEM. */
enum err unit_take(struct needs *needs, const struct resource_sum *sum,
                   struct demand_unit **ret_unit);
#endif
