/* SPDX-License-Identifier: Apache-2.0 */
/* TOML dates and times, read by the functions of rfc3339.h. */
#include "text/toml_impl.h"

/* TOML allows RFC 3339 timestamps, timestamps without an offset, dates, and times. Seconds may be
 * 60. */

bool toml_looks_like_date(struct str token)
{
    return token.len == 10 && rfc3339_has_shape(token, "0000-00-00");
}

bool toml_looks_like_datetime(struct str token)
{
    return rfc3339_has_shape(token, "0000-") || rfc3339_has_shape(token, "00:");
}

static const char *read_all(struct str *rest, struct rfc3339_fields *out, enum toml_type *ret_type)
{
    const char *problem;

    if (rfc3339_has_shape(*rest, "00:")) {
        *ret_type = TOML_LOCAL_TIME;
        return rfc3339_read_time(rest, out);
    }
    *ret_type = TOML_LOCAL_DATE;
    problem = rfc3339_read_date(rest, out);
    if (problem || rest->len == 0) return problem;
    if ((rest->at[0] | 0x20) != 't' && rest->at[0] != ' ')
        return "T or a space must separate date and time";
    *ret_type = TOML_LOCAL_DATETIME;
    *rest = str_tail(*rest, 1);
    problem = rfc3339_read_time(rest, out);
    if (problem || rest->len == 0) return problem;
    *ret_type = TOML_OFFSET_DATETIME;
    return rfc3339_read_offset(rest, out);
}

enum err toml_parse_datetime(struct toml_parser *p, struct str token, struct toml_position at,
                             struct toml_value *value)
{
    struct rfc3339_fields time = {0};
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
