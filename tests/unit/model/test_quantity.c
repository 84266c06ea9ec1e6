/* SPDX-License-Identifier: Apache-2.0 */
#include "model/quantity.h"

#include <stdio.h>

#include "lib/test.h"

TEST(every_suffix_is_read_and_printed_as_kubernetes_does)
{
    static const struct {
        const char *text, *nano, *canonical;
        enum quantity_format format;
    } cases[] = {
        {"0", "0", "0", QUANTITY_DECIMAL_SI},
        {"-0", "0", "0", QUANTITY_DECIMAL_SI},
        {"0Ki", "0", "0", QUANTITY_BINARY_SI},
        {"1", "1000000000", "1", QUANTITY_DECIMAL_SI},
        {"+1", "1000000000", "1", QUANTITY_DECIMAL_SI},
        {"-1", "-1000000000", "-1", QUANTITY_DECIMAL_SI},
        {"1n", "1", "1n", QUANTITY_DECIMAL_SI},
        {"1u", "1000", "1u", QUANTITY_DECIMAL_SI},
        {"100m", "100000000", "100m", QUANTITY_DECIMAL_SI},
        {"0.1", "100000000", "100m", QUANTITY_DECIMAL_SI},
        {"1500m", "1500000000", "1500m", QUANTITY_DECIMAL_SI},
        {"1.5", "1500000000", "1500m", QUANTITY_DECIMAL_SI},
        {"1000m", "1000000000", "1", QUANTITY_DECIMAL_SI},
        {"1k", "1000000000000", "1k", QUANTITY_DECIMAL_SI},
        {"1000", "1000000000000", "1k", QUANTITY_DECIMAL_SI},
        {"1100", "1100000000000", "1100", QUANTITY_DECIMAL_SI},
        {"1M", "1000000000000000", "1M", QUANTITY_DECIMAL_SI},
        {"1G", "1000000000000000000", "1G", QUANTITY_DECIMAL_SI},
        {"1T", "1000000000000000000000", "1T", QUANTITY_DECIMAL_SI},
        {"1P", "1000000000000000000000000", "1P", QUANTITY_DECIMAL_SI},
        {"1E", "1000000000000000000000000000", "1E", QUANTITY_DECIMAL_SI},
        {"1Ki", "1024000000000", "1Ki", QUANTITY_BINARY_SI},
        {"1Mi", "1048576000000000", "1Mi", QUANTITY_BINARY_SI},
        {"1Gi", "1073741824000000000", "1Gi", QUANTITY_BINARY_SI},
        {"1Ti", "1099511627776000000000", "1Ti", QUANTITY_BINARY_SI},
        {"1Pi", "1125899906842624000000000", "1Pi", QUANTITY_BINARY_SI},
        {"1Ei", "1152921504606846976000000000", "1Ei", QUANTITY_BINARY_SI},
        {"1024Ki", "1048576000000000", "1Mi", QUANTITY_BINARY_SI},
        {"1536Mi", "1610612736000000000", "1536Mi", QUANTITY_BINARY_SI},
        {"1.5Gi", "1610612736000000000", "1536Mi", QUANTITY_BINARY_SI},
        {"17179869184", "17179869184000000000", "17179869184", QUANTITY_DECIMAL_SI},
        {"12e6", "12000000000000000", "12e6", QUANTITY_DECIMAL_EXPONENT},
        {"12E6", "12000000000000000", "12e6", QUANTITY_DECIMAL_EXPONENT},
        {"1e4", "10000000000000", "10e3", QUANTITY_DECIMAL_EXPONENT},
        {"1e0", "1000000000", "1", QUANTITY_DECIMAL_EXPONENT},
        {"5e-3", "5000000", "5e-3", QUANTITY_DECIMAL_EXPONENT},
        {"5e+3", "5000000000000", "5e3", QUANTITY_DECIMAL_EXPONENT},
        {".5", "500000000", "500m", QUANTITY_DECIMAL_SI},
        {"1.", "1000000000", "1", QUANTITY_DECIMAL_SI},
        {"1.G", "1000000000000000000", "1G", QUANTITY_DECIMAL_SI},
        {"007", "7000000000", "7", QUANTITY_DECIMAL_SI},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quantity q = {0};
        char text[QUANTITY_TEXT_CAP];
        CHECK_OK(cases[i].text, quantity_parse(str_from(cases[i].text), &q, NULL));
        int128_text(q.nano, text);
        CHECK_TEXT(cases[i].text, text, cases[i].nano);
        CHECK_U64(cases[i].text, q.format, cases[i].format);
        CHECK_SIZE("the length is returned", quantity_text(&q, text), strlen(cases[i].canonical));
        CHECK_TEXT(cases[i].text, text, cases[i].canonical);
    }
}

TEST(values_without_a_binary_suffix_are_printed_in_decimal)
{
    static const struct {
        const char *text, *canonical;
        enum quantity_format format;
    } cases[] = {
        {"0.5Ki", "512", QUANTITY_BINARY_SI},            /* below 1Ki */
        {"-0.5Ki", "-512", QUANTITY_BINARY_SI},          /**/
        {"-1Ki", "-1Ki", QUANTITY_BINARY_SI},            /**/
        {"62.5Ki", "64000", QUANTITY_BINARY_SI},         /* no multiple of 1024 */
        {"1.0001Ki", "1024102400u", QUANTITY_BINARY_SI}, /* not whole */
        {"0.0001Ki", "102400u", QUANTITY_DECIMAL_SI},    /* below 1 */
        {"-0.0001Ki", "-102400u", QUANTITY_DECIMAL_SI},  /**/
        {"0.0009765625Ki", "1", QUANTITY_BINARY_SI},     /* just 1 */
        {"0.001Ki", "1024m", QUANTITY_BINARY_SI},        /**/
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quantity q = {0};
        char text[QUANTITY_TEXT_CAP];
        CHECK_OK(cases[i].text, quantity_parse(str_from(cases[i].text), &q, NULL));
        CHECK_U64(cases[i].text, q.format, cases[i].format);
        quantity_text(&q, text);
        CHECK_TEXT(cases[i].text, text, cases[i].canonical);
    }
}

TEST(finer_than_nano_rounds_away_from_zero)
{
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"0.1n", "1n"},
        {"1.1n", "2n"},
        {"-1.1n", "-2n"},
        {"1.0000000000n", "1n"},
        {"0.0000000001", "1n"},
        {"1e-400", "1e-9"},
        {"0e-400", "0"},
        {"0e400", "0"},
        {"1e-9223372036854775808", "1e-9"},
        {"0.00000000000000000000000000000001Ei", "1n"},
        {"0.0000000000000000001Ei", "115292151n"}, /* 115292150.46n */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quantity q = {0};
        char text[QUANTITY_TEXT_CAP];
        CHECK_OK(cases[i].text, quantity_parse(str_from(cases[i].text), &q, NULL));
        quantity_text(&q, text);
        CHECK_TEXT(cases[i].text, text, cases[i].canonical);
    }
}

TEST(no_quantity_reaches_two_to_the_63)
{
    static const char *const largest[] = {
        "9223372036854775807",   "-9223372036854775807",    "9223372036854775.807k",
        "9.223372036854775807E", "9.223372036854775807e18", "7Ei",
        "7.99999999Ei"};
    static const char *const larger[] = {
        "9223372036854775808",
        "-9223372036854775808",
        "9223372036854775807.1",
        "10E",
        "4611686018427387904Ei",
        "8Ei",
        "9000000Ei",
        "1e19",
        "1e400",
        "1e9223372036854775807",
        "99999999999999999999999999999999999999999999",
        "99999999999999999999999999999999999999999999Ki",
        "9007199254740992Ki",
        "7.9999999999999999999999Ei",
    };
    struct quantity q;
    struct note note;

    for (size_t i = 0; i < ARRAY_LEN(largest); i++)
        CHECK_OK(largest[i], quantity_parse(str_from(largest[i]), &q, NULL));
    for (size_t i = 0; i < ARRAY_LEN(larger); i++) {
        note = (struct note){""};
        CHECK_ERR(larger[i], quantity_parse(str_from(larger[i]), &q, &note), ERR_TOO_LARGE);
        CHECK_TEXT(larger[i], note.text, "quantity of 2^63 or more");
    }
}

TEST(invalid_quantities_are_refused)
{
    static const struct {
        const char *text, *note;
    } cases[] = {
        {"", "quantity without a digit"},
        {"-", "quantity without a digit"},
        {"+", "quantity without a digit"},
        {".", "quantity without a digit"},
        {"k", "quantity without a digit"},
        {"Ki", "quantity without a digit"},
        {"e3", "quantity without a digit"},
        {"-.M", "quantity without a digit"},
        {"--1", "quantity without a digit"},
        {" 1", "quantity without a digit"},
        {"NaN", "quantity without a digit"},
        {"Inf", "quantity without a digit"},
        {"1 ", "quantity with an unknown suffix"},
        {"1K", "quantity with an unknown suffix"},
        {"1ki", "quantity with an unknown suffix"},
        {"1mi", "quantity with an unknown suffix"},
        {"1i", "quantity with an unknown suffix"},
        {"1e", "quantity with an unknown suffix"},
        {"1e+", "quantity with an unknown suffix"},
        {"1e+-3", "quantity with an unknown suffix"},
        {"1e1.5", "quantity with an unknown suffix"},
        {"1e99999999999999999999", "quantity with an unknown suffix"},
        {"1.1.M", "quantity with an unknown suffix"},
        {"1+1", "quantity with an unknown suffix"},
        {"0x10", "quantity with an unknown suffix"},
        {"1_000", "quantity with an unknown suffix"},
        {"1,5", "quantity with an unknown suffix"},
        {"1Kin", "quantity with an unknown suffix"},
    };
    char endless[QUANTITY_TEXT_MAX + 2];
    struct quantity q = {.nano = 77, .format = QUANTITY_BINARY_SI};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        CHECK_ERR(cases[i].text, quantity_parse(str_from(cases[i].text), &q, &note), ERR_PARSE);
        CHECK_TEXT(cases[i].text, note.text, cases[i].note);
        CHECK("untouched", q.nano == 77 && q.format == QUANTITY_BINARY_SI);
    }
    CHECK_ERR("a NUL is a byte", quantity_parse(STR("1\0"), &q, NULL), ERR_PARSE);
    memset(endless, '0', sizeof endless);
    CHECK_OK("128 bytes", quantity_parse(str_of(endless, QUANTITY_TEXT_MAX), &q, NULL));
    CHECK_ERR("129", quantity_parse(str_of(endless, QUANTITY_TEXT_MAX + 1), &q, NULL), ERR_PARSE);
}

static struct quantity read_quantity(const char *text)
{
    struct quantity q = {0};

    CHECK_OK(text, quantity_parse(str_from(text), &q, NULL));
    return q;
}

TEST(sums)
{
    static const struct {
        const char *a, *b, *sum;
    } cases[] = {
        {"40Gi", "32Gi", "72Gi"},    {"1", "500m", "1500m"},
        {"0", "1Gi", "1Gi"}, /* a zero takes the other operand's suffixes */
        {"0Ki", "1k", "1k"},         {"1Gi", "0", "1Gi"},
        {"1Gi", "1G", "2073741824"}, {"1Gi", "-1G", "73741824"},
        {"1e3", "1", "1001"},        {"100m", "-100m", "0"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quantity a = read_quantity(cases[i].a), b = read_quantity(cases[i].b);
        char text[QUANTITY_TEXT_CAP];
        CHECK_OK(cases[i].a, quantity_add(&a, &b));
        quantity_text(&a, text);
        CHECK_TEXT(cases[i].a, text, cases[i].sum);
    }
    struct quantity most = read_quantity("9223372036854775807"), nano = read_quantity("1n");
    struct quantity least = read_quantity("-9223372036854775807"), less = read_quantity("-1n");
    CHECK_ERR("past the top", quantity_add(&most, &nano), ERR_TOO_LARGE);
    CHECK_ERR("past the bottom", quantity_add(&least, &less), ERR_TOO_LARGE);
    CHECK("both untouched", quantity_compare(&most, &least) > 0 && most.nano == -least.nano);
}

TEST(order_is_by_value_not_by_text)
{
    struct quantity gib = read_quantity("16Gi"), bytes = read_quantity("17179869184");
    struct quantity less = read_quantity("17179869183"), negative = read_quantity("-1Ei");

    CHECK("16Gi is 17179869184", quantity_compare(&gib, &bytes) == 0);
    CHECK("less", quantity_compare(&less, &gib) < 0);
    CHECK("more", quantity_compare(&gib, &less) > 0);
    CHECK("negative", quantity_compare(&negative, &less) < 0);
}

TEST(thousandths_round_away_from_zero)
{
    static const struct {
        const char *text;
        int64_t milli;
    } cases[] = {
        {"0", 0},
        {"1", 1000},
        {"1m", 1},
        {"1u", 1},
        {"1n", 1},
        {"1001u", 2},
        {"-1n", -1},
        {"-1001u", -2},
        {"1.0005", 1001},
        {"1Gi", 1073741824000},
        {"128Gi", 137438953472000},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quantity q = read_quantity(cases[i].text);
        CHECK_I64(cases[i].text, (int64_t)quantity_milli(&q), cases[i].milli);
    }
    struct quantity back = quantity_from_milli(1500, QUANTITY_DECIMAL_SI);
    char text[QUANTITY_TEXT_CAP];
    quantity_text(&back, text);
    CHECK_TEXT("and back", text, "1500m");
}

TEST(sums_past_every_suffix_still_print)
{
    static const struct {
        int128 milli;
        enum quantity_format format;
        const char *text;
    } cases[] = {
        {(int128)1000000000000000000 * 1000 * 1000, QUANTITY_DECIMAL_SI, "1000E"},
        {((int128)1 << 70) * 1000, QUANTITY_BINARY_SI, "1024Ei"},
        {(int128)1000000000000000000 * 1000 * 1000, QUANTITY_DECIMAL_EXPONENT, "1e21"},
        {QUANTITY_MILLI_MAX, QUANTITY_DECIMAL_SI, "162259276829213363391578010288127m"},
        {-QUANTITY_MILLI_MAX, QUANTITY_BINARY_SI, "-162259276829213363391578010288127m"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quantity q = quantity_from_milli(cases[i].milli, cases[i].format);
        char text[QUANTITY_TEXT_CAP];
        CHECK_SIZE(cases[i].text, quantity_text(&q, text), strlen(cases[i].text));
        CHECK_TEXT(cases[i].text, text, cases[i].text);
    }
    char text[QUANTITY_TEXT_CAP];
    int128 least = (int128)1 << 126;
    least = -least - least;
    int128_text(least, text);
    CHECK_TEXT("the least of 128 bits", text, "-170141183460469231731687303715884105728");
}
