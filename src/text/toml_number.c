/* SPDX-License-Identifier: Apache-2.0 */
/* TOML integers and floats. The functions get a whole token. Errors say what TOML allows. */
#include "text/toml_impl.h"

#include <math.h>

#include "text/real.h"

/* bytes; longer floats are copied into the arena */
enum { FLOAT_SHORT_CAP = 64 };

static bool toml_number_is_digit(char c, int base)
{
    if (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return true;
    return c >= '0' && c < '0' + (base < 10 ? base : 10);
}

/* Returns the length of the digits at the start of `s`. Single underscores between digits count. */
static size_t digits_span(struct str s, int base)
{
    size_t len = 0;

    while (len < s.len && toml_number_is_digit(s.at[len], base)) {
        len++;
        if (len + 1 < s.len && s.at[len] == '_' && toml_number_is_digit(s.at[len + 1], base)) len++;
    }
    return len;
}

static enum err refuse(struct toml_parser *p, struct toml_position at, struct str token,
                       const char *why)
{
    return toml_fail(p, at, ERR_PARSE, "'%s' is not a number%s", toml_quote(token).text, why);
}

/* Negative numbers are computed by subtraction, because -INT64_MIN does not fit. */
static enum err sum_digits(struct toml_parser *p, struct str token, struct toml_position at,
                           struct str digits, int base, bool negative, int64_t *ret_number)
{
    int64_t number = 0;

    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.at[i];
        int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        if (c == '_') continue;
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, negative ? -digit : digit, &number))
            return toml_fail(p, at, ERR_PARSE, "integer %s does not fit 64 bits with a sign",
                             toml_quote(token).text);
    }
    *ret_number = number;
    return ERR_OK;
}

static bool has_prefix(struct str number)
{
    return str_starts(number, STR("0x")) || str_starts(number, STR("0o")) ||
           str_starts(number, STR("0b"));
}

static enum err parse_based(struct toml_parser *p, struct str token, struct toml_position at,
                            struct toml_value *value)
{
    int base = token.at[1] == 'x' ? 16 : token.at[1] == 'o' ? 8 : 2;
    struct str digits = str_tail(token, 2);

    if (digits.len == 0 || digits_span(digits, base) != digits.len)
        return refuse(p, at, token,
                      base == 16  ? ": 0x takes hexadecimal digits"
                      : base == 8 ? ": 0o takes the digits 0 to 7"
                                  : ": 0b takes the digits 0 and 1");
    value->type = TOML_INTEGER;
    return sum_digits(p, token, at, digits, base, false, &value->integer);
}

static enum err convert_float(struct toml_parser *p, struct str token, struct toml_position at,
                              struct toml_value *value)
{
    char room[FLOAT_SHORT_CAP];
    char *text = room;
    size_t len = 0;
    void *memory = NULL;
    enum err err;

    if (token.len >= sizeof room) {
        err = toml_alloc(p, token.len + 1, &memory);
        if (err) return err;
        text = memory;
    }
    for (size_t i = 0; i < token.len; i++)
        if (token.at[i] != '_') text[len++] = token.at[i];
    text[len] = '\0';
    err = real_read(text, &value->real);
    if (err == ERR_TOO_LARGE)
        return toml_fail(p, at, ERR_PARSE, "float %s is too large", toml_quote(token).text);
    assert(!err); /* the token was checked by stricter rules than strtod()'s */
    value->type = TOML_FLOAT;
    return ERR_OK;
}

static bool parse_special(struct str unsigned_token, bool negative, struct toml_value *value)
{
    bool infinite = str_equal(unsigned_token, STR("inf"));

    if (!infinite && !str_equal(unsigned_token, STR("nan"))) return false;
    value->type = TOML_FLOAT;
    value->real = infinite ? (double)INFINITY : (double)NAN;
    if (negative) value->real = -value->real;
    return true;
}

/* `rest` follows the integer part of a float: ".digits", "e+digits", both, or nothing. */
static bool rest_is_float(struct str rest)
{
    size_t len;

    if (rest.len > 0 && rest.at[0] == '.') {
        len = digits_span(str_tail(rest, 1), 10);
        if (len == 0) return false;
        rest = str_tail(rest, 1 + len);
    }
    if (rest.len > 0 && (rest.at[0] | 0x20) == 'e') {
        rest = str_tail(rest, 1);
        if (rest.len > 0 && (rest.at[0] == '+' || rest.at[0] == '-')) rest = str_tail(rest, 1);
        len = digits_span(rest, 10);
        if (len == 0) return false;
        rest = str_tail(rest, len);
    }
    return rest.len == 0;
}

enum err toml_parse_number(struct toml_parser *p, struct str token, struct toml_position at,
                           struct toml_value *value)
{
    bool signed_token = token.len > 0 && (token.at[0] == '+' || token.at[0] == '-');
    bool negative = signed_token && token.at[0] == '-';
    struct str number = str_tail(token, signed_token ? 1 : 0);
    size_t whole = digits_span(number, 10);

    if (parse_special(number, negative, value)) return ERR_OK;
    if (has_prefix(number)) {
        if (signed_token) return refuse(p, at, token, ": 0x, 0o and 0b take no sign");
        return parse_based(p, number, at, value);
    }
    if (whole == 0)
        return refuse(p, at, token,
                      number.len > 0 && number.at[0] == '.' ? ": a digit must come before the point"
                                                            : "");
    if (whole > 1 && number.at[0] == '0')
        return refuse(p, at, token, ": a leading zero is not allowed");
    if (whole == number.len) {
        value->type = TOML_INTEGER;
        return sum_digits(p, token, at, number, 10, negative, &value->integer);
    }
    if (!rest_is_float(str_tail(number, whole))) return refuse(p, at, token, "");
    return convert_float(p, token, at, value);
}
