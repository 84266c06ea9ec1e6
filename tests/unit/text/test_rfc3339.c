/* SPDX-License-Identifier: Apache-2.0 */
#include "text/rfc3339.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

static const struct {
    const char *why, *text;
    int64_t unix_seconds;
    uint32_t nanos;
    const char *again; /* NULL: the same text */
} times[] = {
    {"the epoch", "1970-01-01T00:00:00Z", 0, 0, NULL},
    {"nine digits", "2026-06-01T12:00:00.123456789Z", 1780315200, 123456789, NULL},
    {"trailing zeros go", "2026-06-01T12:00:00.100000000Z", 1780315200, 100000000,
     "2026-06-01T12:00:00.1Z"},
    {"the smallest part", "2026-06-01T12:00:00.000000001Z", 1780315200, 1, NULL},
    {"a tenth digit is cut", "2026-06-01T12:00:00.1234567899Z", 1780315200, 123456789,
     "2026-06-01T12:00:00.123456789Z"},
    {"leap day", "2024-02-29T23:59:59Z", 1709251199, 0, NULL},
    {"day after", "2024-03-01T00:00:00Z", 1709251200, 0, NULL},
    {"leap century", "2000-02-29T00:00:00Z", 951782400, 0, NULL},
    {"before 1970", "1969-12-31T23:59:59.5Z", -1, 500000000, NULL},
    {"east", "2026-06-01T14:30:00+02:30", 1780315200, 0, "2026-06-01T12:00:00Z"},
    {"west", "2026-05-31T23:00:00-13:00", 1780315200, 0, "2026-06-01T12:00:00Z"},
    {"the last", "9999-12-31T23:59:59.999999999Z", 253402300799, 999999999, NULL},
    {"the first", "0001-01-01T00:00:00Z", -62135596800, 0, NULL},
};

TEST(times_are_read_and_written)
{
    char text[RFC3339_CAP];
    uint32_t nanos;
    int64_t seconds;

    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        CHECK_OK(times[i].why, rfc3339_parse(str_from(times[i].text), &seconds, &nanos));
        CHECK_I64(times[i].why, seconds, times[i].unix_seconds);
        CHECK_U32(times[i].why, nanos, times[i].nanos);
        rfc3339_text(seconds, nanos, RFC3339_SHORTEST, text);
        CHECK_TEXT(times[i].why, text, times[i].again ? times[i].again : times[i].text);
    }
}

TEST(every_day_of_ten_thousand_years_is_the_next_of_the_one_before)
{
    char text[RFC3339_CAP], last[RFC3339_CAP] = "";

    for (int64_t day = RFC3339_FIRST_S; day <= RFC3339_LAST_S; day += 86400) {
        int64_t seconds = 0;
        uint32_t nanos;
        rfc3339_text(day + 3723, 0, 0, text);
        CHECK("ascending", strcmp(last, text) < 0);
        CHECK_OK("read", rfc3339_parse(str_from(text), &seconds, &nanos));
        CHECK_I64(text, seconds, day + 3723);
        memcpy(last, text, sizeof last);
    }
    CHECK_TEXT("the last day", last, "9999-12-31T01:02:03Z");
}

TEST(a_fraction_is_cut_to_the_digits_asked_for)
{
    static const struct {
        int64_t seconds;
        uint32_t nanos;
        unsigned digits;
        const char *want;
    } cases[] = {
        {1, 999999999, 0, "1970-01-01T00:00:01Z"},
        {1, 999999999, 3, "1970-01-01T00:00:01.999Z"},
        {1, 2000, 6, "1970-01-01T00:00:01.000002Z"},
        {1, 120, 9, "1970-01-01T00:00:01.000000120Z"},
        {-1, 1, 9, "1969-12-31T23:59:59.000000001Z"},
        {RFC3339_FIRST_S - 1, 5, RFC3339_SHORTEST, "0001-01-01T00:00:00Z"},
        {RFC3339_LAST_S + 1, 5, 9, "9999-12-31T23:59:59.999999999Z"},
    };
    char text[RFC3339_CAP];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        rfc3339_text(cases[i].seconds, cases[i].nanos, cases[i].digits, text);
        CHECK_TEXT("cut", text, cases[i].want);
    }
}

TEST(an_invalid_time_is_refused)
{
    static const char *const bad[] = {"",
                                      "2026-06-01",
                                      "2026-06-01 12:00:00Z",
                                      "2026-06-01T12:00:00",
                                      "2026-13-01T12:00:00Z",
                                      "2026-00-01T12:00:00Z",
                                      "2026-02-29T12:00:00Z",
                                      "1900-02-29T12:00:00Z",
                                      "2026-06-00T12:00:00Z",
                                      "2026-06-31T12:00:00Z",
                                      "2026-06-01T24:00:00Z",
                                      "2026-06-01T12:60:00Z",
                                      "2026-06-01T12:00:60Z",
                                      "2026-06-01T12:00:00.Z",
                                      "2026-06-01T12:00:00,5Z",
                                      "2026-06-01t12:00:00Z",
                                      "2026-06-01T12:00:00z",
                                      "2026-06-01T12:00:00+0200",
                                      "2026-06-01T12:00:00+24:00",
                                      "2026-06-01T12:00:00Zx",
                                      "0000-01-01T00:00:00Z",
                                      "0000-12-31T23:59:59-00:01",
                                      "0001-01-01T00:00:00+00:01",
                                      "9999-12-31T23:59:59-00:01",
                                      "+026-06-01T12:00:00Z",
                                      "20260601T120000Z"};
    int64_t seconds;
    uint32_t nanos;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_ERR(bad[i], rfc3339_parse(str_from(bad[i]), &seconds, &nanos), ERR_PARSE);
}

/* -- wall time -- */

/* The numbers come from Python's datetime. */
TEST(wall_time_prints_as_rfc_3339)
{
    static const struct {
        uint64_t ms;
        const char *want;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {31535999999, "1970-12-31T23:59:59.999Z"},
        {68169600000, "1972-02-29T00:00:00.000Z"},
        {946684799999, "1999-12-31T23:59:59.999Z"},
        {951825600000, "2000-02-29T12:00:00.000Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {1794740058123, "2026-11-15T10:54:18.123Z"},
        {2147483648000, "2038-01-19T03:14:08.000Z"},
        {4107542399999, "2100-02-28T23:59:59.999Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {13574563200007, "2400-02-29T00:00:00.007Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {253402300800000, "9999-12-31T23:59:59.999Z"},
        {UINT64_MAX, "9999-12-31T23:59:59.999Z"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[RFC3339_CAP];
        memset(text, 'x', sizeof text);
        wall_text((wall_time){cases[i].ms}, text);
        CHECK_TEXT("as printed elsewhere", text, cases[i].want);
    }
}

/* Every day of four centuries; the test counts its own calendar. */
TEST(every_day_of_a_full_cycle)
{
    static const unsigned lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year = 1970, month = 1, day = 1;

    for (uint64_t days = 0; year < 2371; days++) {
        char text[RFC3339_CAP], want[RFC3339_CAP];
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        snprintf(want, sizeof want, "%04u-%02u-%02uT23:59:59.999Z", year % 10000, month % 100,
                 day % 100);
        wall_text((wall_time){days * 86400000 + 86399999}, text);
        if (strcmp(text, want) != 0) CHECK_TEXT("by counting", text, want);
        if (++day > lengths[month - 1] + (month == 2 && leap ? 1 : 0)) {
            day = 1;
            if (++month > 12) {
                month = 1;
                year++;
            }
        }
    }
}
