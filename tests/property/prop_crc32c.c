/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction and the table against the definition bit by bit, over random cuts. */
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/prng.h"
#include "lib/test.h"

static uint32_t bit_by_bit(uint32_t crc, const unsigned char *at, size_t len)
{
    crc = ~crc;
    for (; len > 0; at++, len--) {
        crc ^= *at;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

TEST(all_three_agree_and_continue_each_other)
{
    enum { ROUNDS = 1000, LONGEST = 20000 };
    unsigned char *bytes = malloc(LONGEST);
    struct prng p;

    CHECK("memory", bytes != NULL);
    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        size_t len = prng_below(&p, prng_chance(&p, 500000) ? 64 : LONGEST);
        size_t from = prng_between(&p, 0, len), cut = prng_between(&p, from, len);
        uint32_t start = (uint32_t)prng_u64(&p), want;
        prng_fill(&p, bytes, len);
        want = bit_by_bit(start, bytes + from, len - from);
        CHECK_U32("instruction", crc32c(start, bytes + from, len - from), want);
        CHECK_U32("table", crc32c_portable(start, bytes + from, len - from), want);
        CHECK_U32("cut in two",
                  crc32c(crc32c(start, bytes + from, cut - from), bytes + cut, len - cut), want);
        CHECK_U32("cut in two, mixed",
                  crc32c(crc32c_portable(start, bytes + from, cut - from), bytes + cut, len - cut),
                  want);
    }
    free(bytes);
}
