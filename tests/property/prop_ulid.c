/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs there and back, made under a clock that jumps. */
#include <string.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "base/ulid.h"
#include "lib/test.h"

enum { ROUNDS = 100000 };

TEST(every_value_prints_and_reads_back)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        struct ulid ulid, back;
        char text[ULID_TEXT_CAP];
        prng_fill(&p, ulid.bytes, sizeof ulid.bytes);
        if (prng_chance(&p, 300000))
            ulid.bytes[prng_below(&p, 16)] = prng_chance(&p, 500000) ? 0 : 255;
        ulid_text(&ulid, text);
        CHECK_SIZE("26 characters", strlen(text), ULID_LEN);
        for (size_t k = 0; k < ULID_LEN; k++)
            if (text[k] >= 'A' && prng_chance(&p, 300000)) text[k] = (char)(text[k] + ('a' - 'A'));
        CHECK_OK(text, ulid_parse(str_from(text), &back, NULL));
        CHECK("the same value", ulid_compare(&ulid, &back) == 0);
    }
}

/* Decoding a second way: a 130-bit number built digit by digit, as two 65-bit halves. */
static bool oracle_parse(const char text[26], uint64_t *high_65_low_64, uint64_t *low_65_low_64)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    uint64_t half[2] = {0, 0};

    for (int i = 0; i < 26; i++) {
        char c = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
        const char *at = c ? strchr(digits, c) : NULL;
        if (!at) return false;
        half[i / 13] = half[i / 13] << 5 | (uint64_t)(at - digits); /* the top bit may fall out */
    }
    *high_65_low_64 = half[0];
    *low_65_low_64 = half[1];
    return text[0] <= '7';
}

TEST(random_text_is_read_as_a_second_decoder_reads_it)
{
    static const char pool[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz";
    struct prng p;
    int good = 0;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        char text[26];
        struct ulid ulid;
        uint64_t high, low;
        for (int k = 0; k < 26; k++) text[k] = pool[prng_below(&p, sizeof pool - 1)];
        text[0] = (char)('0' + prng_below(&p, 10));
        if (prng_chance(&p, 300000)) text[prng_below(&p, 26)] = (char)prng_below(&p, 256);
        bool want = oracle_parse(text, &high, &low);
        CHECK_ERR("accepted alike", ulid_parse(str_of(text, 26), &ulid, NULL),
                  want ? ERR_OK : ERR_PARSE);
        if (!want) continue;
        good++;
        uint64_t low_64 = 0, high_63 = 0; /* the value's low 64 bits, and the low 63 above bit 65 */
        for (int k = 8; k < 16; k++) low_64 = low_64 << 8 | ulid.bytes[k];
        for (int k = 0; k < 8; k++) high_63 = high_63 << 8 | ulid.bytes[k];
        CHECK_U64("low half", low_64, low);
        CHECK_U64("high half", high_63 >> 1, high & (UINT64_MAX >> 1));
    }
    CHECK("both kinds were tried", good > ROUNDS / 4 && good < ROUNDS * 9 / 10);
}

TEST(made_ids_only_grow_and_text_sorts_alike)
{
    struct prng p;
    struct ulid_maker maker = {0};
    struct ulid last = {{0}};
    char last_text[ULID_TEXT_CAP] = "";
    uint64_t clock = 1700000000000, top = 0;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        struct ulid ulid;
        char text[ULID_TEXT_CAP];
        uint8_t random[10];
        prng_fill(&p, random, sizeof random);
        random[0] &= 0x7F; /* leaves room to count up: full is the unit test's matter */
        if (prng_chance(&p, 500000)) clock += prng_below(&p, 3);
        if (prng_chance(&p, 10000)) clock -= prng_below(&p, 5000);
        CHECK_OK("made", ulid_next(&maker, (wall_time){clock}, random, &ulid));
        ulid_text(&ulid, text);
        CHECK("grows", i == 0 || ulid_compare(&ulid, &last) > 0);
        CHECK("so does the text", i == 0 || strcmp(text, last_text) > 0);
        top = max_u64(top, clock);
        CHECK_U64("its time is the latest seen", __builtin_bswap64(load_le64(ulid.bytes)) >> 16,
                  top);
        last = ulid;
        memcpy(last_text, text, sizeof text);
    }
}
