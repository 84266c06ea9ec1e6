/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

/* RFC 3720, appendix B.4, and the usual check value of this checksum. */
TEST(known_values)
{
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    const struct {
        const char *why;
        const void *bytes;
        size_t len;
        uint32_t want;
    } cases[] = {
        {"nothing", "", 0, 0},
        {"no address, no bytes", NULL, 0, 0},
        {"the check value", "123456789", 9, 0xE3069283u},
        {"one letter", "a", 1, 0xC1D04330u},
        {"32 zero bytes", zeros, 32, 0x8A9136AAu},
        {"32 bytes of ones", ones, 32, 0x62A8AB43u},
        {"0 to 31", up, 32, 0x46DD794Eu},
        {"31 to 0", down, 32, 0x113FDB5Cu},
    };

    memset(ones, 0xFF, sizeof ones);
    for (unsigned char i = 0; i < 32; i++) {
        up[i] = i;
        down[i] = (unsigned char)(31 - i);
    }
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_U32(cases[i].why, crc32c_portable(0, cases[i].bytes, cases[i].len), cases[i].want);
        CHECK_U32(cases[i].why, crc32c(0, cases[i].bytes, cases[i].len), cases[i].want);
    }
}

static uint32_t bit_by_bit(uint32_t crc, const unsigned char *at, size_t len)
{
    crc = ~crc;
    for (; len > 0; at++, len--) {
        crc ^= *at;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

static unsigned char bytes[6000];

static void fill(void)
{
    uint32_t x = 12345;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
}

/* Lengths around one word and around the stride of the fast implementation, at every alignment. */
TEST(both_ways_agree_with_the_definition_at_every_length_and_alignment)
{
    static const size_t around[] = {0, 3 * 256, 2 * 3 * 256, 5 * 3 * 256};

    fill();
    for (size_t i = 0; i < ARRAY_LEN(around); i++)
        for (size_t len = around[i] > 20 ? around[i] - 20 : 0; len < around[i] + 20; len++)
            for (size_t shift = 0; shift < 8; shift++) {
                uint32_t want = bit_by_bit(7, bytes + shift, len);
                CHECK_U32("by table", crc32c_portable(7, bytes + shift, len), want);
                CHECK_U32("by instruction", crc32c(7, bytes + shift, len), want);
            }
}

TEST(a_checksum_continues_where_another_stopped)
{
    fill();
    for (size_t cut = 0; cut <= 6000; cut += 61) {
        uint32_t whole = crc32c(0, bytes, 6000);
        CHECK_U32("cut anywhere", crc32c(crc32c(0, bytes, cut), bytes + cut, 6000 - cut), whole);
        CHECK_U32("the two ways may be mixed",
                  crc32c_portable(crc32c(0, bytes, cut), bytes + cut, 6000 - cut), whole);
    }
}

TEST(one_flipped_bit_is_always_seen)
{
    uint32_t whole;

    fill();
    whole = crc32c(0, bytes, 4000);
    for (size_t bit = 0; bit < 4000 * 8; bit += 13) {
        bytes[bit / 8] ^= (unsigned char)BIT(bit % 8);
        CHECK("differs", crc32c(0, bytes, 4000) != whole);
        bytes[bit / 8] ^= (unsigned char)BIT(bit % 8);
    }
}

TEST(the_kind_names_the_implementation_in_use)
{
    const char *kind = crc32c_kind();

    CHECK("one of three", strcmp(kind, "sse4.2") == 0 || strcmp(kind, "armv8") == 0 ||
                              strcmp(kind, "portable") == 0);
    fprintf(stderr, "crc32c here: %s\n", kind);
}
