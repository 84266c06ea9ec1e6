/* SPDX-License-Identifier: Apache-2.0 */
#include "text/toml_impl.h"

/* Reads what RFC 3339 allows, and its parts: a date, a time, a date with a time, all three with an
 * offset. Seconds are required; 60 is let through for leap seconds, which a file may well hold. */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool has_shape(struct str s, const char *shape) /* '0' stands for any digit */
{
    size_t i = 0;

    for (; shape[i]; i++)
        if (i >= s.len || (shape[i] == '0' ? !is_digit(s.at[i]) : s.at[i] != shape[i]))
            return false;
    return true;
}

bool toml_looks_like_date(struct str token)
{
    return token.len == 10 && has_shape(token, "0000-00-00");
}

bool toml_looks_like_datetime(struct str token)
{
    return has_shape(token, "0000-") || has_shape(token, "00:");
}

static unsigned number(struct str s, size_t from, size_t len)
{
    unsigned value = 0;

    for (size_t i = from; i < from + len; i++) value = value * 10 + (unsigned)(s.at[i] - '0');
    return value;
}

static unsigned days_in(unsigned year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

/* Each reads its part from the front of *rest, or returns what is wrong with it. */
static const char *read_date(struct str *rest, struct toml_datetime *out)
{
    unsigned year, month, day;

    if (!has_shape(*rest, "0000-00-00")) return "a date is written YYYY-MM-DD";
    year = number(*rest, 0, 4);
    month = number(*rest, 5, 2);
    day = number(*rest, 8, 2);
    if (month < 1 || month > 12) return "there is no such month";
    if (day < 1 || day > days_in(year, month)) return "that month has no such day";
    out->year = (uint16_t)year;
    out->month = (uint8_t)month;
    out->day = (uint8_t)day;
    *rest = str_tail(*rest, 10);
    return NULL;
}

static const char *read_fraction(struct str *rest, struct toml_datetime *out)
{
    uint32_t unit = 100000000;
    size_t len = 1;

    for (; len < rest->len && is_digit(rest->at[len]); len++, unit /= 10)
        out->nanosecond += unit * (uint32_t)(rest->at[len] - '0');
    if (len == 1) return "a digit must follow the point";
    *rest = str_tail(*rest, len);
    return NULL;
}

static const char *read_time(struct str *rest, struct toml_datetime *out)
{
    unsigned hour, minute, second;

    if (!has_shape(*rest, "00:00:00")) return "a time is written HH:MM:SS";
    hour = number(*rest, 0, 2);
    minute = number(*rest, 3, 2);
    second = number(*rest, 6, 2);
    if (hour > 23) return "hours end at 23";
    if (minute > 59) return "minutes end at 59";
    if (second > 60) return "seconds end at 59";
    out->hour = (uint8_t)hour;
    out->minute = (uint8_t)minute;
    out->second = (uint8_t)second;
    *rest = str_tail(*rest, 8);
    return rest->len > 0 && rest->at[0] == '.' ? read_fraction(rest, out) : NULL;
}

static const char *read_offset(struct str *rest, struct toml_datetime *out)
{
    unsigned minutes;

    if ((rest->at[0] | 0x20) == 'z') {
        *rest = str_tail(*rest, 1);
        return NULL;
    }
    if (!has_shape(*rest, "+00:00") && !has_shape(*rest, "-00:00"))
        return "an offset is written Z, +HH:MM or -HH:MM";
    if (number(*rest, 1, 2) > 23 || number(*rest, 4, 2) > 59) return "there is no such offset";
    minutes = number(*rest, 1, 2) * 60 + number(*rest, 4, 2);
    out->offset_minutes = (int16_t)(rest->at[0] == '-' ? -(int)minutes : (int)minutes);
    *rest = str_tail(*rest, 6);
    return NULL;
}

static const char *read_all(struct str *rest, struct toml_datetime *out, enum toml_type *ret_type)
{
    const char *problem;

    if (has_shape(*rest, "00:")) {
        *ret_type = TOML_LOCAL_TIME;
        return read_time(rest, out);
    }
    *ret_type = TOML_LOCAL_DATE;
    problem = read_date(rest, out);
    if (problem || rest->len == 0) return problem;
    if ((rest->at[0] | 0x20) != 't' && rest->at[0] != ' ')
        return "T or a space stands between date and time";
    *ret_type = TOML_LOCAL_DATETIME;
    *rest = str_tail(*rest, 1);
    problem = read_time(rest, out);
    if (problem || rest->len == 0) return problem;
    *ret_type = TOML_OFFSET_DATETIME;
    return read_offset(rest, out);
}

enum err toml_parse_datetime(struct toml_parser *p, struct str token, struct toml_position at,
                             struct toml_value *value)
{
    struct toml_datetime time = {0};
    struct str rest = token;
    enum toml_type type;
    const char *problem = read_all(&rest, &time, &type);

    if (!problem && rest.len > 0) problem = "something follows that does not belong to it";
    if (problem)
        return toml_fail(p, at, ERR_PARSE, "'%s' is not a date or time: %s", toml_quote(token).text,
                         problem);
    value->type = (uint8_t)type;
    value->datetime = time;
    return ERR_OK;
}
