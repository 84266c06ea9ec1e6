/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers against printf, UTF-8 against a loose decoder with the rules written out, splits against
 * joining again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/str.h"
#include "lib/test.h"

enum { ROUNDS = 100000 };

TEST(numbers_read_back_as_printed)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t value = prng_u64(&p) >> prng_below(&p, 64), got = 0;
        int64_t signed_value = (int64_t)value, signed_got = 0;
        char text[32];
        if (prng_chance(&p, 500000) && signed_value != INT64_MIN) signed_value = -signed_value;
        snprintf(text, sizeof text, "%" PRIu64, value);
        CHECK_OK(text, str_to_u64(str_from(text), &got));
        CHECK_U64("unsigned", got, value);
        snprintf(text, sizeof text, "%" PRIi64, signed_value);
        CHECK_OK(text, str_to_i64(str_from(text), &signed_got));
        CHECK_I64("signed", signed_got, signed_value);
    }
}

/* By the definition: decodes by the lead byte's length, then refuses longer forms, surrogates and
 * numbers past the last code point. */
static bool oracle_utf8(const unsigned char *at, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

    while (left > 0) {
        size_t len = *at < 0x80       ? 1
                     : *at >> 5 == 6  ? 2
                     : *at >> 4 == 14 ? 3
                     : *at >> 3 == 30 ? 4
                                      : 0;
        uint32_t point;
        if (len == 0 || len > left) return false;
        point = len == 1 ? *at : *at & (0x7Fu >> len);
        for (size_t i = 1; i < len; i++) {
            if (at[i] >> 6 != 2) return false;
            point = point << 6 | (at[i] & 63u);
        }
        if (point < least[len] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
            return false;
        at += len;
        left -= len;
    }
    return true;
}

/* Text of random characters, well-formed or nearly so. */
static size_t random_text(struct prng *p, unsigned char *out, size_t characters)
{
    static const uint32_t tops[] = {0x80, 0x800, 0x10000, 0x110000, 0x200000};
    size_t len = 0;

    for (size_t i = 0; i < characters; i++) {
        uint32_t c = (uint32_t)prng_below(p, tops[prng_below(p, prng_chance(p, 20000) ? 5 : 4)]);
        if (c >= 0xD800 && c <= 0xDFFF && prng_chance(p, 950000)) c = 'x';
        if (c < 0x80)
            out[len++] = (unsigned char)c;
        else if (c < 0x800) {
            out[len++] = (unsigned char)(0xC0 | c >> 6);
            out[len++] = (unsigned char)(0x80 | (c & 63));
        } else if (c < 0x10000) {
            out[len++] = (unsigned char)(0xE0 | c >> 12);
            out[len++] = (unsigned char)(0x80 | (c >> 6 & 63));
            out[len++] = (unsigned char)(0x80 | (c & 63));
        } else {
            out[len++] = (unsigned char)(0xF0 | c >> 18);
            out[len++] = (unsigned char)(0x80 | (c >> 12 & 63));
            out[len++] = (unsigned char)(0x80 | (c >> 6 & 63));
            out[len++] = (unsigned char)(0x80 | (c & 63));
        }
    }
    return len;
}

TEST(utf8_agrees_with_the_definition)
{
    struct prng p;
    int good = 0;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char text[40 * 4];
        size_t len = random_text(&p, text, prng_below(&p, 40));
        uint64_t die = prng_below(&p, 3);
        if (die == 0 && len > 0) text[prng_below(&p, len)] ^= (unsigned char)BIT(prng_below(&p, 8));
        if (die == 1 && len > 0) len -= prng_below(&p, min_size(len, 4) + 1);
        bool want = oracle_utf8(text, len);
        CHECK("agrees", str_is_utf8(str_of(text, len)) == want);
        good += want ? 1 : 0;
    }
    CHECK("both kinds were tried", good > ROUNDS / 10 && good < ROUNDS * 9 / 10);
}

TEST(parts_joined_again_are_the_whole)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        char text[30], joined[31];
        size_t len = prng_below(&p, sizeof text), out = 0, separators = 0, parts = 0;
        struct str rest = str_of(text, len), part;
        for (size_t k = 0; k < len; k++) {
            text[k] = "ab,"[prng_below(&p, 3)];
            separators += text[k] == ',' ? 1 : 0;
        }
        while (str_split(&rest, ',', &part)) {
            CHECK("no separator in a part", !str_has(part, ','));
            if (parts++ > 0) joined[out++] = ',';
            if (part.len > 0) memcpy(joined + out, part.at, part.len);
            out += part.len;
        }
        CHECK_SIZE("one more than separators", parts, separators + 1);
        CHECK_STR("the whole", str_of(joined, out), str_of(text, len));
    }
}

TEST(compare_is_an_order)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        char bytes[3][4];
        struct str s[3];
        for (int k = 0; k < 3; k++) {
            for (int n = 0; n < 4; n++) bytes[k][n] = (char)("\0a\xFF"[prng_below(&p, 3)]);
            s[k] = str_of(bytes[k], prng_below(&p, 5));
        }
        CHECK("equal is 0", (str_compare(s[0], s[1]) == 0) == str_equal(s[0], s[1]));
        CHECK("the other way round is the other way",
              (str_compare(s[0], s[1]) < 0) == (str_compare(s[1], s[0]) > 0));
        if (str_compare(s[0], s[1]) <= 0 && str_compare(s[1], s[2]) <= 0)
            CHECK("carries over", str_compare(s[0], s[2]) <= 0);
        if (str_equal(s[0], s[1]))
            CHECK_U64("equal keys, equal hash", str_hash(s[0], 7), str_hash(s[1], 7));
    }
}
