/* SPDX-License-Identifier: Apache-2.0 */
/* The calendar for all timestamps that are read or written.
 *
 * Years begin on the first of March, so that the leap day is a year's last day. Then five months
 * always have 153 days, and 400 years have 146097. Days are counted from 0000-03-01. */
#include "text/rfc3339.h"

enum {
    DAY_S = 86400,
    DAYS_TO_1970 = 719468,
    FRACTION_AT = 20,
};

/* -- the calendar -- */

static int64_t days_of(const struct rfc3339_fields *f)
{
    bool early = f->month <= 2; /* these months belong to the year that began last March */
    int64_t year = f->year - early, month = f->month + (early ? 9 : -3);

    assert(f->year > 0);
    return 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + f->day - 1;
}

static void date_of(uint64_t days, struct rfc3339_fields *f)
{
    uint64_t era = days / 146097, day_of_era = days % 146097;
    uint64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t month = (5 * day_of_year + 2) / 153; /* month 0 is March */

    f->day = (uint8_t)(day_of_year - (153 * month + 2) / 5 + 1);
    f->month = (uint8_t)(month < 10 ? month + 3 : month - 9);
    f->year = (uint16_t)(era * 400 + year_of_era + (f->month <= 2));
}

static unsigned days_in(unsigned year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

/* -- reading -- */

static bool rfc3339_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool rfc3339_has_shape(struct str s, const char *shape)
{
    size_t i = 0;

    for (; shape[i]; i++)
        if (i >= s.len || (shape[i] == '0' ? !rfc3339_is_digit(s.at[i]) : s.at[i] != shape[i]))
            return false;
    return true;
}

static unsigned number(struct str s, size_t from, size_t len)
{
    unsigned value = 0;

    for (size_t i = from; i < from + len; i++) value = value * 10 + (unsigned)(s.at[i] - '0');
    return value;
}

const char *rfc3339_read_date(struct str *rest, struct rfc3339_fields *fields)
{
    unsigned year, month, day;

    if (!rfc3339_has_shape(*rest, "0000-00-00")) return "a date is written YYYY-MM-DD";
    year = number(*rest, 0, 4);
    month = number(*rest, 5, 2);
    day = number(*rest, 8, 2);
    if (month < 1 || month > 12) return "there is no such month";
    if (day < 1 || day > days_in(year, month)) return "that month has no such day";
    fields->year = (uint16_t)year;
    fields->month = (uint8_t)month;
    fields->day = (uint8_t)day;
    *rest = str_tail(*rest, 10);
    return NULL;
}

static const char *read_fraction(struct str *rest, struct rfc3339_fields *fields)
{
    uint32_t unit = 100000000;
    size_t len = 1;

    for (; len < rest->len && rfc3339_is_digit(rest->at[len]); len++, unit /= 10)
        fields->nanosecond += unit * (uint32_t)(rest->at[len] - '0');
    if (len == 1) return "a digit must follow the point";
    *rest = str_tail(*rest, len);
    return NULL;
}

const char *rfc3339_read_time(struct str *rest, struct rfc3339_fields *fields)
{
    unsigned hour, minute, second;

    if (!rfc3339_has_shape(*rest, "00:00:00")) return "a time is written HH:MM:SS";
    hour = number(*rest, 0, 2);
    minute = number(*rest, 3, 2);
    second = number(*rest, 6, 2);
    if (hour > 23) return "hours end at 23";
    if (minute > 59) return "minutes end at 59";
    if (second > 60) return "seconds end at 59";
    fields->hour = (uint8_t)hour;
    fields->minute = (uint8_t)minute;
    fields->second = (uint8_t)second;
    *rest = str_tail(*rest, 8);
    return rest->len > 0 && rest->at[0] == '.' ? read_fraction(rest, fields) : NULL;
}

const char *rfc3339_read_offset(struct str *rest, struct rfc3339_fields *fields)
{
    unsigned minutes;

    if (rest->len > 0 && (rest->at[0] | 0x20) == 'z') {
        *rest = str_tail(*rest, 1);
        return NULL;
    }
    if (!rfc3339_has_shape(*rest, "+00:00") && !rfc3339_has_shape(*rest, "-00:00"))
        return "an offset is written Z, +HH:MM or -HH:MM";
    if (number(*rest, 1, 2) > 23 || number(*rest, 4, 2) > 59) return "there is no such offset";
    minutes = number(*rest, 1, 2) * 60 + number(*rest, 4, 2);
    fields->offset_minutes = (int16_t)(rest->at[0] == '-' ? -(int)minutes : (int)minutes);
    *rest = str_tail(*rest, 6);
    return NULL;
}

enum err rfc3339_parse(struct str text, int64_t *ret_unix_s, uint32_t *ret_nanos)
{
    struct rfc3339_fields f = {0};
    struct str rest = text;
    int64_t seconds;

    if (rfc3339_read_date(&rest, &f) || f.year == 0 || !str_starts(rest, STR("T")))
        return ERR_PARSE;
    rest = str_tail(rest, 1);
    if (rfc3339_read_time(&rest, &f) || f.second > 59 || str_starts(rest, STR("z")) ||
        rfc3339_read_offset(&rest, &f) || rest.len > 0)
        return ERR_PARSE;
    seconds = (days_of(&f) - DAYS_TO_1970) * DAY_S + f.hour * 3600 + f.minute * 60 + f.second -
              f.offset_minutes * 60;
    if (seconds < RFC3339_FIRST_S || seconds > RFC3339_LAST_S) return ERR_PARSE;
    *ret_unix_s = seconds;
    *ret_nanos = f.nanosecond;
    return ERR_OK;
}

/* -- writing -- */

static char *put_digits(char *at, uint64_t value, int digits, char after)
{
    for (int i = digits - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
    at[digits] = after;
    return at + digits + 1;
}

/* snprintf() would cost more than all other work for a log line. */
void rfc3339_text(int64_t unix_s, uint32_t nanos, unsigned digits, char text[RFC3339_CAP])
{
    struct rfc3339_fields f;
    size_t end = FRACTION_AT + (digits == RFC3339_SHORTEST ? 9 : digits);
    uint64_t second;
    char *at = text;

    assert(nanos < 1000000000u && digits <= RFC3339_SHORTEST);
    if (unix_s < RFC3339_FIRST_S) unix_s = RFC3339_FIRST_S, nanos = 0;
    if (unix_s > RFC3339_LAST_S) unix_s = RFC3339_LAST_S, nanos = 999999999;
    second = (uint64_t)(unix_s + (int64_t)DAYS_TO_1970 * DAY_S);
    date_of(second / DAY_S, &f);
    second %= DAY_S;
    at = put_digits(at, f.year, 4, '-');
    at = put_digits(at, f.month, 2, '-');
    at = put_digits(at, f.day, 2, 'T');
    at = put_digits(at, second / 3600, 2, ':');
    at = put_digits(at, second / 60 % 60, 2, ':');
    at = put_digits(at, second % 60, 2, '.');
    (void)put_digits(at, nanos, 9, 'Z');
    while (digits == RFC3339_SHORTEST && end > FRACTION_AT && text[end - 1] == '0') end--;
    if (end == FRACTION_AT) end--; /* removes the decimal point, too */
    text[end] = 'Z';
    text[end + 1] = '\0';
}

void wall_text(wall_time time, char text[RFC3339_CAP])
{
    rfc3339_text((int64_t)(time.ms / MS_PER_SECOND),
                 (uint32_t)(time.ms % MS_PER_SECOND * NS_PER_MS), 3, text);
}
