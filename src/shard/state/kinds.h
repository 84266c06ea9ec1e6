/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles, requirement sets and units, which rows share by reference counts. */
#ifndef SHARD_STATE_KINDS_H
#define SHARD_STATE_KINDS_H
#include "shard/state/demand.h"
#include "shard/state/shared.h"

/* Arguments for shared_give(). */
extern const struct shared_kind kind_kind, unit_kind;

/* Finds or copies a canonical profile. ERR_NOMEM. */
enum err kind_take(struct needs *needs, const struct profile *profile, struct kind **ret_kind);

/* Keeps a profile for a running action, until kind_release(). ERR_NOMEM. */
enum err kind_hold(struct needs *needs, const struct profile *profile, struct kind **ret_kind);
void kind_release(struct needs *needs, struct kind *kind); /* NULL is allowed */
/* NULL: no row has the profile, and no action holds it. */
const struct kind *kind_find(const struct needs *needs, struct str fingerprint);

/* ERR_TOO_LARGE if no machine has that much, ERR_NOMEM. */
enum err unit_take(struct needs *needs, const struct resource_sum *sum,
                   struct demand_unit **ret_unit);
#endif
