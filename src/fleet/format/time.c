/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 3339, both ways. The calendar is the proleptic Gregorian one, as the original's. */
#include <stdio.h>

#include "fleet/format/command.h"

enum { DAY_SECONDS = 86400 };

/* Days from 0001-01-01 to the first of a month, months counted from March so that the leap day is
 * the last day of its year. */
static int64_t days_before(int64_t year, unsigned month, unsigned day)
{
    int64_t y = month > 2 ? year : year - 1;
    unsigned from_march = month > 2 ? month - 3 : month + 9;

    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * from_march + 2) / 5 + day - 307;
}

static void date_of(int64_t days, unsigned *ret_year, unsigned *ret_month, unsigned *ret_day)
{
    int64_t d = days + 306; /* since 0000-03-01 */
    int64_t era = d / 146097, of_era = d % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = (unsigned)(of_era - (365 * year + year / 4 - year / 100));
    unsigned from_march = (5 * of_year + 2) / 153;

    *ret_day = of_year - (153 * from_march + 2) / 5 + 1;
    *ret_month = from_march < 10 ? from_march + 3 : from_march - 9;
    *ret_year = (unsigned)(era * 400 + year + (*ret_month <= 2));
}

void fleet_time_text(struct fleet_time time, char text[FLEET_TIME_CAP])
{
    unsigned year, month, day, second;
    size_t len;

    assert(time.seconds >= 0 && time.seconds <= FLEET_TIME_SECONDS_MAX && time.nanos < 1000000000u);
    date_of(time.seconds / DAY_SECONDS, &year, &month, &day);
    second = (unsigned)(time.seconds % DAY_SECONDS);
    len = (size_t)snprintf(text, FLEET_TIME_CAP, "%04u-%02u-%02uT%02u:%02u:%02u.%09u", year, month,
                           day, second / 3600, second / 60 % 60, second % 60, time.nanos);
    while (text[len - 1] == '0' && len > 20) len--;
    if (time.nanos == 0) len = 19; /* the point goes, too */
    text[len] = 'Z';
    text[len + 1] = '\0';
}

static bool two_digits(struct str s, size_t at, unsigned max, unsigned *ret_number)
{
    if (s.len < at + 2 || s.at[at] < '0' || s.at[at] > '9' || s.at[at + 1] < '0' ||
        s.at[at + 1] > '9')
        return false;
    *ret_number = (unsigned)(s.at[at] - '0') * 10 + (unsigned)(s.at[at + 1] - '0');
    return *ret_number <= max;
}

static unsigned month_days(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return month == 2 && leap ? 29 : days[month - 1];
}

/* ".123" at *at, if there; false: a point without digits. */
static bool fraction(struct str s, size_t *at, uint32_t *ret_nanos)
{
    uint32_t nanos = 0, digits = 0;

    *ret_nanos = 0;
    if (*at >= s.len || s.at[*at] != '.') return true;
    for (++*at; *at < s.len && s.at[*at] >= '0' && s.at[*at] <= '9'; ++*at, digits++)
        if (digits < 9) nanos = nanos * 10 + (uint32_t)(s.at[*at] - '0');
    if (digits == 0) return false;
    for (; digits < 9; digits++) nanos *= 10;
    *ret_nanos = nanos;
    return true;
}

/* "Z" or "+hh:mm", the last of the text, in seconds. */
static bool offset_of(struct str s, size_t at, int64_t *ret_seconds)
{
    unsigned hours, minutes;
    int64_t seconds;

    *ret_seconds = 0;
    if (s.len == at + 1 && s.at[at] == 'Z') return true;
    if (s.len != at + 6 || (s.at[at] != '+' && s.at[at] != '-') || s.at[at + 3] != ':')
        return false;
    if (!two_digits(s, at + 1, 23, &hours) || !two_digits(s, at + 4, 59, &minutes)) return false;
    seconds = (int64_t)hours * 3600 + (int64_t)minutes * 60;
    *ret_seconds = s.at[at] == '-' ? -seconds : seconds;
    return true;
}

enum err fleet_time_parse(struct str s, struct fleet_time *ret_time)
{
    unsigned century, year, month, day, hour, minute, second;
    uint32_t nanos;
    int64_t offset, seconds;
    size_t at = 19;

    if (!two_digits(s, 0, 99, &century) || !two_digits(s, 2, 99, &year) ||
        !two_digits(s, 5, 12, &month) || !two_digits(s, 8, 31, &day) ||
        !two_digits(s, 11, 23, &hour) || !two_digits(s, 14, 59, &minute) ||
        !two_digits(s, 17, 59, &second))
        return ERR_PARSE;
    if (s.at[4] != '-' || s.at[7] != '-' || s.at[10] != 'T' || s.at[13] != ':' || s.at[16] != ':')
        return ERR_PARSE;
    year += century * 100;
    if (year == 0 || month == 0 || day == 0 || day > month_days(year, month)) return ERR_PARSE;
    if (!fraction(s, &at, &nanos) || !offset_of(s, at, &offset)) return ERR_PARSE;
    seconds = days_before(year, month, day) * DAY_SECONDS + (int64_t)hour * 3600 +
              (int64_t)minute * 60 + second - offset;
    if (seconds < 0 || seconds > FLEET_TIME_SECONDS_MAX) return ERR_PARSE;
    *ret_time = (struct fleet_time){seconds, nanos};
    return ERR_OK;
}
