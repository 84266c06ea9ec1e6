/* SPDX-License-Identifier: Apache-2.0 */
#include "text/utf8.h"

#include "lib/test.h"

static const struct {
    const char *why, *bytes;
    size_t len, want;
} steps[] = {
    {"ASCII", "a", 1, 1},
    {"NUL is a character", "\0", 1, 1},
    {"DEL", "\x7f", 1, 1},
    {"least of two bytes", "\xc2\x80", 2, 2},
    {"most of two bytes", "\xdf\xbf", 2, 2},
    {"least of three", "\xe0\xa0\x80", 3, 3},
    {"before the surrogates", "\xed\x9f\xbf", 3, 3},
    {"after the surrogates", "\xee\x80\x80", 3, 3},
    {"most of three", "\xef\xbf\xbf", 3, 3},
    {"least of four", "\xf0\x90\x80\x80", 4, 4},
    {"the last code point", "\xf4\x8f\xbf\xbf", 4, 4},
    {"only the first sequence counts", "\xc3\xa9\xff", 3, 2},
    {"a continuation alone", "\x80", 1, 0},
    {"overlong NUL", "\xc0\x80", 2, 0},
    {"overlong of two bytes", "\xc1\xbf", 2, 0},
    {"overlong of three", "\xe0\x9f\xbf", 3, 0},
    {"overlong of four", "\xf0\x8f\xbf\xbf", 4, 0},
    {"the first surrogate", "\xed\xa0\x80", 3, 0},
    {"the last surrogate", "\xed\xbf\xbf", 3, 0},
    {"past the last code point", "\xf4\x90\x80\x80", 4, 0},
    {"a first byte that never occurs", "\xf5\x80\x80\x80", 4, 0},
    {"cut after one", "\xe2", 1, 0},
    {"cut after two", "\xe2\x82", 2, 0},
    {"cut after three", "\xf0\x9f\x98", 3, 0},
    {"second byte wrong", "\xe2(\xa1", 3, 0},
    {"third byte wrong", "\xe2\x82(", 3, 0},
    {"fourth byte wrong", "\xf0\x9f\x98(", 4, 0},
};

TEST(a_step_takes_exactly_one_well_formed_sequence)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        CHECK_SIZE(steps[i].why, utf8_step(steps[i].bytes, steps[i].len), steps[i].want);
}

TEST(every_scalar_value_is_written_and_read_back)
{
    for (uint32_t code_point = 0; code_point <= 0x110000; code_point++) {
        char bytes[UTF8_LEN_MAX];
        size_t len;
        if (!utf8_is_scalar(code_point)) {
            CHECK("only surrogates and the end are left out",
                  (code_point >= 0xd800 && code_point <= 0xdfff) || code_point == 0x110000);
            continue;
        }
        len = utf8_write(code_point, bytes);
        uint32_t read = 0;
        CHECK_SIZE("read back whole", utf8_step(bytes, len), len);
        CHECK_SIZE("with its value", utf8_read(str_of(bytes, len), &read), len);
        CHECK("the same", read == code_point);
        CHECK("base agrees", str_is_utf8(str_of(bytes, len)));
        CHECK_SIZE("one code point", utf8_count(str_of(bytes, len)), 1);
    }
}

TEST(every_pair_of_bytes_is_judged_as_base_judges_it)
{
    for (unsigned pair = 0; pair <= 0xffff; pair++) {
        const char bytes[] = {(char)(pair >> 8), (char)(pair & 0xff)};
        size_t step = utf8_step(bytes, 2);
        bool whole = step == 2 || (step == 1 && utf8_step(bytes + 1, 1) == 1);
        CHECK("the same verdict", whole == str_is_utf8(str_of(bytes, 2)));
    }
}

TEST(clipping_cuts_no_sequence)
{
    struct str text = STR("a\xc3\xa9\xf0\x9f\x98\x80z");
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 3, 7, 8, 8};

    for (size_t max = 0; max < ARRAY_LEN(want); max++)
        CHECK_SIZE("the longest that fits", utf8_clip(text, max).len, want[max]);
}

TEST(terminal_and_bidi_controls_count_as_controls)
{
    static const uint32_t controls[] = {0,      '\n',   0x1f,   0x7f,   0x9b,  0x61c,
                                        0x200e, 0x2028, 0x202e, 0x2069, 0xfeff};
    static const uint32_t others[] = {' ', '~', 0xa0, 0x20ac, 0x2010, 0x1f433};

    for (size_t i = 0; i < ARRAY_LEN(controls); i++)
        CHECK("a control", utf8_is_control(controls[i]));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) CHECK("none", !utf8_is_control(others[i]));
}
