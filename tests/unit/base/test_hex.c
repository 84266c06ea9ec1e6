/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"

#include "lib/test.h"

TEST(digits_of_either_case_and_nothing_else)
{
    static const char digits[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    int known = 0;

    for (int i = 0; i < 16; i++) {
        CHECK_I64(&digits[i], hex_value(digits[i]), i);
        CHECK_I64(&upper[i], hex_value(upper[i]), i);
        CHECK_I64(&digits[i], hex_value_lower(digits[i]), i);
        CHECK_I64(&upper[i], hex_value_lower(upper[i]), i < 10 ? i : -1);
    }
    for (int c = 0; c < 256; c++) known += hex_value((char)c) >= 0;
    CHECK_I64("and no other byte", known, 22);
}

TEST(numbers)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},
        {"ff", true, 255},
        {"0123456789abcdef", true, 0x0123456789abcdef},
        {"ffffffffffffffff", true, UINT64_MAX},
        {"", false, 0},
        {"00000000000000000", false, 0}, /* 17 */
        {"FF", false, 0},
        {"f ", false, 0},
        {"-1", false, 0},
        {"0x1", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t value = 42;

        CHECK_I64(cases[i].text, hex_read(str_from(cases[i].text), &value), cases[i].good);
        CHECK_U64(cases[i].text, value, cases[i].good ? cases[i].value : 42);
    }
}

TEST(ids)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"00112233445566778899aabbccddeeff", true},
        {"00112233-4455-6677-8899-aabbccddeeff", true},
        {"00112233445566778899aabbccddeef", false},
        {"00112233445566778899aabbccddeeff0", false},
        {"00112233445566778899AABBCCDDEEFF", false},
        {"00112233445566778899aabbccddeefg", false},
        {"00112233445566778899aabbccddeeff\n", false},
        {"", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t id[16] = {42};

        CHECK_I64(cases[i].text, hex_read_id(str_from(cases[i].text), id), cases[i].good);
        for (int at = 0; at < 16; at++)
            CHECK_U64(cases[i].text, id[at], cases[i].good ? 0x11 * at : at ? 0 : 42);
    }
}

TEST(bytes_are_written_as_two_digits_each)
{
    char text[9] = "xxxxxxxx";

    hex_write("\x00\x1f\xa0\xff", 4, text);
    CHECK_TEXT("lower case", text, "001fa0ff");
    hex_write("", 0, text);
    CHECK_TEXT("of none", text, "");
}
