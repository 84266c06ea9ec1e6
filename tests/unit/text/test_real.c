/* SPDX-License-Identifier: Apache-2.0 */
#include "text/real.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "lib/comma_locale.h"
#include "lib/test.h"

static const struct {
    double value;
    const char *want;
} printed[] = {
    {0, "0.0"},
    {-0.0, "-0.0"},
    {1, "1.0"},
    {-1, "-1.0"},
    {0.1, "0.1"},
    {0.5, "0.5"},
    {12.345, "12.345"},
    {-0.001, "-0.001"},
    {0.000001, "0.000001"},
    {0.0000001, "1e-07"},
    {1.0 / 3, "0.3333333333333333"},
    {123456789012.5, "123456789012.5"},
    {900719925474099.1, "900719925474099.1"},
    {9007199254740992.0, "9007199254740992.0"},
    {9007199254740994.0, "9007199254740994.0"},
    {1e14, "100000000000000.0"},
    {1e15, "1e+15"},
    {1e22, "1e+22"},
    {1e100, "1e+100"},
    {DBL_MAX, "1.7976931348623157e+308"},
    {-DBL_MIN, "-2.2250738585072014e-308"},
    {5e-324, "4.94065645841247e-324"},
    {0.1 + 0.2, "0.30000000000000004"},
};

static void check_prints(double value, const char *want)
{
    char text[REAL_TEXT_CAP + 1];
    double back = 0;
    size_t len = real_print(value, text);

    text[len] = '\0';
    if (want) CHECK_TEXT("printed", text, want);
    CHECK_OK(text, real_read(text, &back));
    CHECK_U64(text, memcmp(&back, &value, sizeof value) == 0, 1);
    CHECK("shows that it is a real", strpbrk(text, ".e") != NULL);
}

TEST(a_double_is_printed_so_that_it_reads_back_the_same)
{
    for (size_t i = 0; i < ARRAY_LEN(printed); i++) check_prints(printed[i].value, printed[i].want);
}

TEST(random_doubles_read_back_the_same)
{
    struct prng prng;

    prng_seed(&prng, test_seed());
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = prng_u64(&prng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) check_prints(value, NULL);
        check_prints((double)(int64_t)prng_below(&prng, 1u << 30) / 1000, NULL);
        check_prints(-(double)prng_u64(&prng) / 64, NULL);
    }
}

static const struct {
    const char *text;
    enum err want;
} texts[] = {
    {"1", ERR_OK},
    {"-1.5e3", ERR_OK},
    {"1e-999", ERR_OK},
    {"", ERR_PARSE},
    {" 1", ERR_PARSE},
    {"1 ", ERR_PARSE},
    {"1,5", ERR_PARSE},
    {"inf", ERR_PARSE},
    {"nan", ERR_PARSE},
    {"0x10", ERR_PARSE},
    {"1e", ERR_PARSE},
    {"--1", ERR_PARSE},
    {"1e309", ERR_TOO_LARGE},
    {"-1e309", ERR_TOO_LARGE},
    {"1.2.3", ERR_PARSE},
};

TEST(only_a_whole_decimal_number_is_read)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        double value = 42;
        CHECK_ERR(texts[i].text, real_read(texts[i].text, &value), texts[i].want);
        if (texts[i].want) CHECK("untouched", value == 42);
    }
}

TEST(a_locale_with_a_comma_changes_nothing)
{
    double value = 0;

    comma_locale_enter();
    for (size_t i = 0; i < ARRAY_LEN(printed); i++) check_prints(printed[i].value, printed[i].want);
    CHECK_ERR("a comma is still no point", real_read("1,5", &value), ERR_PARSE);
    comma_locale_leave();
}
