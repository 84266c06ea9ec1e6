/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

TEST(deadlines)
{
    mono_time now = {1000};

    CHECK_U64("after", mono_after(now, 500).ms, 1500);
    CHECK_U64("for ever stays for ever", mono_after(now, UINT64_MAX).ms, MONO_NEVER.ms);
    CHECK_U64("never, and later", mono_after(MONO_NEVER, 1).ms, MONO_NEVER.ms);
    CHECK("due at its moment", mono_due(now, now));
    CHECK("due after it", mono_due((mono_time){999}, now));
    CHECK("not before it", !mono_due((mono_time){1001}, now));
    CHECK("never", !mono_due(MONO_NEVER, now));
    CHECK_U64("elapsed", mono_elapsed_ms((mono_time){400}, now), 600);
    CHECK_U64("backwards counts as nothing", mono_elapsed_ms(now, (mono_time){400}), 0);
    CHECK_U64("the earlier", mono_min(now, MONO_NEVER).ms, 1000);
    CHECK_U64("either way", mono_min(MONO_NEVER, now).ms, 1000);
}

/* The numbers are from Python's datetime. */
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
        char text[WALL_TEXT_CAP];
        memset(text, 'x', sizeof text);
        wall_text((wall_time){cases[i].ms}, text);
        CHECK_TEXT("as printed elsewhere", text, cases[i].want);
    }
}

/* Every day of four centuries, with a calendar kept by counting. */
TEST(every_day_of_a_full_cycle)
{
    static const unsigned lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year = 1970, month = 1, day = 1;

    for (uint64_t days = 0; year < 2371; days++) {
        char text[WALL_TEXT_CAP], want[WALL_TEXT_CAP];
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
