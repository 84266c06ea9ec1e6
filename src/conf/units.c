/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes and decimals are stored as integers of the smallest unit. An overflow is
 * ERR_TOO_LARGE. Pure; any thread may call. */
#include "conf/units.h"

#include <stdio.h>

struct unit {
    struct str name;
    uint64_t factor;
};

static const struct unit durations[] = {
    {{"d", 1}, 24ull * 60 * 60 * 1000},
    {{"h", 1}, 60ull * 60 * 1000},
    {{"m", 1}, 60ull * 1000},
    {{"s", 1}, 1000},
    {{"ms", 2}, 1},
};
static const struct unit sizes[] = {
    {{"TiB", 3}, 1ull << 40},
    {{"GiB", 3}, 1ull << 30},
    {{"MiB", 3}, 1ull << 20},
    {{"KiB", 3}, 1ull << 10},
    {{"B", 1}, 1},
};

static bool units_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Removes the digits at the beginning of *rest, and the letters that follow them. */
static enum err take_number_and_unit(struct str *rest, uint64_t *ret_number, struct str *ret_unit)
{
    size_t digits = 0, end;
    uint64_t number;
    enum err err;

    while (digits < rest->len && units_is_digit(rest->at[digits])) digits++;
    for (end = digits; end < rest->len && !units_is_digit(rest->at[end]);) end++;
    err = str_to_u64(str_of(rest->at, digits), &number);
    if (err) return err;
    *ret_number = number;
    *ret_unit = str_of(rest->at + digits, end - digits);
    *rest = str_tail(*rest, end);
    return ERR_OK;
}

static size_t find_unit(const struct unit *units, size_t count, struct str name)
{
    size_t i = 0;
    while (i < count && !str_equal(units[i].name, name)) i++;
    return i;
}

static enum err units_too_large(struct note *note)
{
    return note_fail(note, ERR_TOO_LARGE, "does not fit in 64 bits");
}

enum err units_parse_duration(struct str text, uint64_t *ret_ms, struct note *note)
{
    struct str rest = text, name = STR_EMPTY;
    uint64_t total = 0, number = 0, part;
    size_t allowed_from = 0; /* index of the first unit allowed: 1m30s, but not 30s1m */

    if (str_equal(text, STR("0"))) {
        *ret_ms = 0;
        return ERR_OK;
    }
    do {
        enum err err = take_number_and_unit(&rest, &number, &name);
        if (err == ERR_TOO_LARGE) return units_too_large(note);
        if (rest.len > 0 && str_ends(name, STR(" "))) name.len--; /* accepts 1m 30s */
        size_t unit = find_unit(durations, ARRAY_LEN(durations), name);
        if (!err && name.len == 0)
            return note_fail(note, ERR_PARSE, "needs a unit, such as %llums, %llus or %llum",
                             (unsigned long long)number, (unsigned long long)number,
                             (unsigned long long)number);
        if (err || unit == ARRAY_LEN(durations) || unit < allowed_from)
            return note_fail(note, ERR_PARSE,
                             "needs a duration, such as 250ms, 10s, 5m, 1h or 1m30s");
        if (__builtin_mul_overflow(number, durations[unit].factor, &part) ||
            __builtin_add_overflow(total, part, &total)) {
            return units_too_large(note);
        }
        allowed_from = unit + 1;
    } while (rest.len > 0);
    *ret_ms = total;
    return ERR_OK;
}

enum err units_parse_size(struct str text, uint64_t *ret_bytes, struct note *note)
{
    struct str rest = text, name = STR_EMPTY;
    uint64_t number = 0, bytes;
    enum err err = take_number_and_unit(&rest, &number, &name);

    if (err == ERR_TOO_LARGE) return units_too_large(note);
    size_t unit = name.len == 0 ? ARRAY_LEN(sizes) - 1 : find_unit(sizes, ARRAY_LEN(sizes), name);
    if (err || rest.len > 0 || unit == ARRAY_LEN(sizes)) {
        if (!err && rest.len == 0 && name.len <= 3 && str_has(STR("kKmMgGtT"), name.at[0])) {
            char letter = (char)(name.at[0] >= 'a' ? name.at[0] - 'a' + 'A' : name.at[0]);
            note_set(note, "'%.*s' is not a unit here (did you mean %llu%ciB?)", STR_ARG(name),
                     (unsigned long long)number, letter);
        } else {
            note_set(note, "needs a size, such as 512, 64KiB, 16MiB or 2GiB");
        }
        return ERR_PARSE;
    }
    if (__builtin_mul_overflow(number, sizes[unit].factor, &bytes)) return units_too_large(note);
    *ret_bytes = bytes;
    return ERR_OK;
}

void units_duration_text(uint64_t ms, char text[UNITS_TEXT_CAP])
{
    size_t used = 0;
    uint64_t left = ms;

    for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
        uint64_t number = left / durations[i].factor;
        if (number == 0) continue;
        left -= number * durations[i].factor;
        used += (size_t)snprintf(text + used, UNITS_TEXT_CAP - used, "%llu%s",
                                 (unsigned long long)number, durations[i].name.at);
        assert(used < UNITS_TEXT_CAP); /* five numbers of at most 12 digits and six letters */
    }
    if (used == 0) snprintf(text, UNITS_TEXT_CAP, "0s");
}

void units_size_text(uint64_t bytes, char text[UNITS_TEXT_CAP])
{
    size_t unit = 0;
    while (unit + 1 < ARRAY_LEN(sizes) && (bytes == 0 || bytes % sizes[unit].factor != 0)) unit++;
    snprintf(text, UNITS_TEXT_CAP, "%llu%s", (unsigned long long)(bytes / sizes[unit].factor),
             sizes[unit].name.at);
}

enum { MILLION = 1000000, DECIMALS = 6 };

enum err units_parse_decimal(struct str text, uint64_t *ret_millionths, struct note *note)
{
    uint64_t whole = 0, part = 0;
    size_t point = 0;
    enum err err;

    while (point < text.len && text.at[point] != '.') point++;
    err = str_to_u64(str_of(text.at, point), &whole);
    if (!err && point < text.len) {
        struct str digits = str_tail(text, point + 1);

        err = digits.len <= DECIMALS ? str_to_u64(digits, &part) : ERR_PARSE;
        for (size_t i = digits.len; i < DECIMALS; i++) part *= 10;
    }
    if (!err && whole > (UINT64_MAX - part) / MILLION) err = ERR_TOO_LARGE;
    if (err == ERR_TOO_LARGE) return units_too_large(note);
    if (err)
        return note_fail(
            note, ERR_PARSE,
            "needs a number such as 0.05, at most six digits behind the point, got '%.*s'",
            STR_ARG(text));
    *ret_millionths = whole * MILLION + part;
    return ERR_OK;
}

void units_decimal_text(uint64_t millionths, char text[UNITS_TEXT_CAP])
{
    int len =
        snprintf(text, UNITS_TEXT_CAP, "%llu.%06llu", (unsigned long long)(millionths / MILLION),
                 (unsigned long long)(millionths % MILLION));

    while (text[len - 1] == '0' && text[len - 2] != '.') text[--len] = '\0';
}
