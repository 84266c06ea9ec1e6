/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256**, seeded by splitmix64. */
#include "base/prng.h"

#include <string.h>

#include "base/bytes.h"

static uint64_t prng_rotate_left(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

/* splitmix64 spreads one word over the state, as the authors of xoshiro advise. The state is then
 * never all zero, which xoshiro does not allow. */
void prng_seed(struct prng *p, uint64_t seed)
{
    for (size_t i = 0; i < ARRAY_LEN(p->s); i++) {
        uint64_t z = seed += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        p->s[i] = z ^ z >> 31;
    }
}

uint64_t prng_u64(struct prng *p)
{
    uint64_t *s = p->s;
    uint64_t result = prng_rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;

    assert(s[0] | s[1] | s[2] | s[3]); /* all zero: never seeded */
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = prng_rotate_left(s[3], 45);
    return result;
}

/* The result is the high word of draw * bound. Draws in the incomplete last interval are repeated;
 * without this, small results would be slightly more frequent. */
uint64_t prng_below(struct prng *p, uint64_t bound)
{
    uint128 product;

    assert(bound > 0);
    product = (uint128)prng_u64(p) * bound;
    if ((uint64_t)product < bound) {
        uint64_t surplus = (0 - bound) % bound; /* equals 2^64 mod bound */
        while ((uint64_t)product < surplus) product = (uint128)prng_u64(p) * bound;
    }
    return (uint64_t)(product >> 64);
}

uint64_t prng_between(struct prng *p, uint64_t low, uint64_t high)
{
    uint64_t span = high - low;

    assert(low <= high);
    return span == UINT64_MAX ? prng_u64(p) : low + prng_below(p, span + 1);
}

bool prng_chance(struct prng *p, uint32_t per_million)
{
    return prng_below(p, 1000000) < per_million;
}

void prng_fill(struct prng *p, void *out, size_t len)
{
    char *at = out, word[8];

    for (; len >= sizeof word; at += sizeof word, len -= sizeof word) store_le64(at, prng_u64(p));
    if (len == 0) return;
    store_le64(word, prng_u64(p));
    memcpy(at, word, len);
}

void prng_fork(struct prng *p, struct prng *ret_child)
{
    prng_seed(ret_child, prng_u64(p));
}
