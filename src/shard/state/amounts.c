/* SPDX-License-Identifier: Apache-2.0 */
/* Packs resource amounts: keeps only the dimensions above zero, by ascending dimension. */
#include "shard/state/amounts.h"

static uint64_t positive(const struct resource_sum *sum)
{
    uint64_t mask = 0;

    for (uint64_t left = sum->mask; left; left &= left - 1)
        if (sum->milli[__builtin_ctzll(left)]) mask |= left & -left;
    return mask;
}

void amounts_pack(const struct resource_sum *sum, int128 *milli, struct amounts *ret_amounts)
{
    *ret_amounts = (struct amounts){.formats = sum->formats, .mask = positive(sum), .milli = milli};
    for (uint64_t left = ret_amounts->mask; left; left &= left - 1)
        *milli++ = sum->milli[__builtin_ctzll(left)];
}

enum err amounts_keep(struct arena *arena, const struct resource_sum *sum,
                      struct amounts *ret_amounts)
{
    int128 *milli = arena_alloc(arena, resource_bits(positive(sum)) * sizeof *milli);

    if (!milli) return ERR_NOMEM;
    amounts_pack(sum, milli, ret_amounts);
    return ERR_OK;
}

bool amounts_are(const struct amounts *a, const struct resource_sum *sum)
{
    const int128 *milli = a->milli;

    if (a->mask != positive(sum) || a->formats.binary != sum->formats.binary ||
        a->formats.exponent != sum->formats.exponent)
        return false;
    for (uint64_t left = a->mask; left; left &= left - 1)
        if (*milli++ != sum->milli[__builtin_ctzll(left)]) return false;
    return true;
}
