/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-random numbers that are repeatable from a seed (xoshiro256**). Not for secrets. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H
#include "base/base.h"

struct prng {
    uint64_t s[4];
};

void prng_seed(struct prng *p, uint64_t seed); /* any seed is valid, also 0 */
uint64_t prng_u64(struct prng *p);
uint64_t prng_below(struct prng *p, uint64_t bound); /* 0 to bound-1, without bias; bound > 0 */
uint64_t prng_between(struct prng *p, uint64_t low, uint64_t high); /* low <= result <= high */
/* True with the given probability: never for 0, always for 1,000,000. */
bool prng_chance(struct prng *p, uint32_t per_million);
void prng_fill(struct prng *p, void *out, size_t len);
/* Creates an independent generator: its draws do not change the draws of `p`. */
void prng_fork(struct prng *p, struct prng *ret_child);
#endif
