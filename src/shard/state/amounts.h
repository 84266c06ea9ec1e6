/* SPDX-License-Identifier: Apache-2.0 */
/* A resource_sum as it is kept: packed, a few dozen bytes instead of a thousand.
 *
 * A view: the amounts belong to its maker. Zeroed is the empty one. */
#ifndef SHARD_STATE_AMOUNTS_H
#define SHARD_STATE_AMOUNTS_H
#include "base/arena.h"
#include "model/resource.h"

struct amounts {
    uint64_t mask;
    struct resource_formats formats;
    const int128 *milli; /* by ascending dimension of the mask */
};

static inline void amounts_sum(const struct amounts *a, struct resource_sum *ret_sum)
{
    resource_sum_unpack(ret_sum, a->mask, a->formats, a->milli);
}
/* Dimensions that are zero are left out; `milli` has room for the others. */
void amounts_pack(const struct resource_sum *sum, int128 *milli, struct amounts *ret_amounts);
/* In the arena. ERR_NOMEM when the arena is full. */
enum err amounts_keep(struct arena *arena, const struct resource_sum *sum,
                      struct amounts *ret_amounts);
/* amounts_keep() of it would give the same. */
bool amounts_are(const struct amounts *a, const struct resource_sum *sum);
#endif
