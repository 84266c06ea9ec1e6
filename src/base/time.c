/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <string.h>

/* 9999-12-31T23:59:59.999Z, the last moment four digits of a year can name. */
static const uint64_t wall_text_last_ms = 253402300799999u;

static char *put_digits(char *at, uint64_t value, int digits, char after)
{
    for (int i = digits - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
    at[digits] = after;
    return at + digits + 1;
}

void wall_text(wall_time time, char text[WALL_TEXT_CAP])
{
    uint64_t ms = min_u64(time.ms, wall_text_last_ms);
    uint64_t seconds = ms / 1000, minutes = seconds / 60, hours = minutes / 60;
    /* Years here begin on the first of March, so that the leap day is a year's last day and every
     * month but the last has its fixed length: 31 30 31 30 31 | 31 30 31 30 31 | 31 and the rest.
     * Five months are 153 days. 719468 days lie between 0000-03-01 and 1970-01-01. */
    uint64_t days = hours / 24 + 719468;
    uint64_t era = days / 146097, day_of_era = days % 146097; /* 400 years */
    uint64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t march_month = (5 * day_of_year + 2) / 153; /* 0 is March */
    uint64_t day = day_of_year - (153 * march_month + 2) / 5 + 1;
    uint64_t month = march_month < 10 ? march_month + 3 : march_month - 9;
    uint64_t year = era * 400 + year_of_era + (month <= 2 ? 1 : 0);
    char *at = text;

    assert(year <= 9999 && month >= 1 && month <= 12 && day >= 1 && day <= 31);
    at = put_digits(at, year, 4, '-');
    at = put_digits(at, month, 2, '-');
    at = put_digits(at, day, 2, 'T');
    at = put_digits(at, hours % 24, 2, ':');
    at = put_digits(at, minutes % 60, 2, ':');
    at = put_digits(at, seconds % 60, 2, '.');
    at = put_digits(at, ms % 1000, 3, 'Z');
    *at = '\0';
}
