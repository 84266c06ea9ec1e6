/* SPDX-License-Identifier: Apache-2.0 */
/* A packed resource_sum: only the dimensions above zero. The struct does not own its amounts. A
 * zeroed struct is an empty sum. */
#ifndef SHARD_STATE_AMOUNTS_H
#define SHARD_STATE_AMOUNTS_H
#include "base/arena.h"
#include "model/resource.h"

struct amounts {
    uint64_t mask;
    struct resource_formats formats;
    const int128 *milli; /* in milli-units, one for each dimension in the mask, ascending */
};

static inline void amounts_sum(const struct amounts *a, struct resource_sum *ret_sum)
{
    resource_sum_unpack(ret_sum, a->mask, a->formats, a->milli);
}
/* `milli` must have room for all dimensions above zero. */
void amounts_pack(const struct resource_sum *sum, int128 *milli, struct amounts *ret_amounts);
/* ERR_NOMEM if the arena is full. */
enum err amounts_keep(struct arena *arena, const struct resource_sum *sum,
                      struct amounts *ret_amounts);
/* True if the packed sum would equal `a`. */
bool amounts_are(const struct amounts *a, const struct resource_sum *sum);
#endif
