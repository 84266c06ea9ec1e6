/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and prints quantities as 128-bit integers, never as doubles. Pure. */
#include "model/quantity.h"

#define NANO_MAX ((uint128)QUANTITY_UNITS_MAX * (uint128)NANO_PER_UNIT)

static const struct suffix {
    struct str text;
    enum quantity_format format;
    int power; /* of 10, or of 2 for QUANTITY_BINARY_SI */
} suffixes[] = {
    {{"n", 1}, QUANTITY_DECIMAL_SI, -9}, {{"u", 1}, QUANTITY_DECIMAL_SI, -6},
    {{"m", 1}, QUANTITY_DECIMAL_SI, -3}, {{"", 0}, QUANTITY_DECIMAL_SI, 0},
    {{"k", 1}, QUANTITY_DECIMAL_SI, 3},  {{"M", 1}, QUANTITY_DECIMAL_SI, 6},
    {{"G", 1}, QUANTITY_DECIMAL_SI, 9},  {{"T", 1}, QUANTITY_DECIMAL_SI, 12},
    {{"P", 1}, QUANTITY_DECIMAL_SI, 15}, {{"E", 1}, QUANTITY_DECIMAL_SI, 18},
    {{"Ki", 2}, QUANTITY_BINARY_SI, 10}, {{"Mi", 2}, QUANTITY_BINARY_SI, 20},
    {{"Gi", 2}, QUANTITY_BINARY_SI, 30}, {{"Ti", 2}, QUANTITY_BINARY_SI, 40},
    {{"Pi", 2}, QUANTITY_BINARY_SI, 50}, {{"Ei", 2}, QUANTITY_BINARY_SI, 60},
};
enum { DECIMAL_POWER_MAX = 18, BINARY_POWER_MAX = 60 };

/* value = whole.fraction x (10 or 2)^power */
struct parts {
    bool negative;
    struct str whole, fraction;
    enum quantity_format format;
    int64_t power;
};

static struct str take_digits(struct str *rest)
{
    size_t len = 0;
    struct str digits;

    while (len < rest->len && rest->at[len] >= '0' && rest->at[len] <= '9') len++;
    digits = str_of(rest->at, len);
    *rest = str_tail(*rest, len);
    return digits;
}

static bool read_suffix(struct str text, struct parts *parts)
{
    int64_t power;

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        if (!str_equal(suffixes[i].text, text)) continue;
        parts->format = suffixes[i].format;
        parts->power = suffixes[i].power;
        return true;
    }
    if (text.at[0] != 'e' && text.at[0] != 'E') return false;
    text = str_tail(text, 1);
    if (text.len > 0 && text.at[0] == '+') {
        text = str_tail(text, 1);
        if (text.len > 0 && text.at[0] == '-') return false;
    }
    if (str_to_i64(text, &power)) return false;
    parts->format = QUANTITY_DECIMAL_EXPONENT;
    parts->power = power;
    return true;
}

static enum err take_apart(struct str text, struct parts *parts, struct note *note)
{
    struct str rest = text;

    *parts = (struct parts){.whole = STR_EMPTY, .fraction = STR_EMPTY};
    if (text.len > QUANTITY_TEXT_MAX)
        return note_fail(note, ERR_PARSE, "quantity of %zu bytes", text.len);
    if (rest.len > 0 && (rest.at[0] == '-' || rest.at[0] == '+')) {
        parts->negative = rest.at[0] == '-';
        rest = str_tail(rest, 1);
    }
    parts->whole = take_digits(&rest);
    if (rest.len > 0 && rest.at[0] == '.') {
        rest = str_tail(rest, 1);
        parts->fraction = take_digits(&rest);
    }
    if (parts->whole.len + parts->fraction.len == 0)
        return note_fail(note, ERR_PARSE, "quantity without a digit");
    if (!read_suffix(rest, parts))
        return note_fail(note, ERR_PARSE, "quantity with an unknown suffix");
    return ERR_OK;
}

/* Rounds up. False above NANO_MAX. A digit's weight is its power of ten in nano-units; digits with
 * a weight below 0 only decide whether to round. */
static bool decimal_nano(const struct parts *parts, uint128 *ret_nano)
{
    static const int64_t far = 1 << 20; /* larger than any weight that matters */
    size_t count = parts->whole.len + parts->fraction.len;
    int64_t power = parts->power > far ? far : parts->power < -far ? -far : parts->power;
    int64_t weight = (int64_t)parts->whole.len - 1 + power + 9; /* a unit has 10^9 nano-units */
    uint128 nano = 0;
    bool round = false;

    for (size_t i = 0; i < count; i++, weight--) {
        const char *c =
            i < parts->whole.len ? &parts->whole.at[i] : &parts->fraction.at[i - parts->whole.len];
        if (weight < 0) {
            round |= *c != '0';
            continue;
        }
        nano = nano * 10 + (unsigned)(*c - '0');
        if (nano > NANO_MAX) return false;
    }
    for (weight++; weight > 0 && nano > 0; weight--) { /* zeroes that were not written */
        nano *= 10;
        if (nano > NANO_MAX) return false;
    }
    *ret_nano = nano + round;
    return *ret_nano <= NANO_MAX;
}

/* Rounds up. The fraction is summed from its last digit on, divided by ten at each digit. */
static bool binary_nano(const struct parts *parts, uint128 *ret_nano)
{
    uint128 whole = 0, fraction = 0, scale = (uint128)NANO_PER_UNIT << parts->power;
    bool round = false;

    for (size_t i = 0; i < parts->whole.len; i++) {
        whole = whole * 10 + (unsigned)(parts->whole.at[i] - '0');
        if (whole > QUANTITY_UNITS_MAX) return false;
    }
    if (whole > (uint128)QUANTITY_UNITS_MAX >> parts->power) return false;
    for (size_t i = parts->fraction.len; i-- > 0;) {
        fraction += (unsigned)(parts->fraction.at[i] - '0') * scale;
        round |= fraction % 10 != 0;
        fraction /= 10;
    }
    *ret_nano = whole * scale + fraction + round;
    return *ret_nano <= NANO_MAX;
}

enum err quantity_parse(struct str text, struct quantity *ret_quantity, struct note *note)
{
    struct parts parts;
    uint128 nano;
    enum err err = take_apart(text, &parts, note);

    if (err) return err;
    if (parts.format == QUANTITY_BINARY_SI ? !binary_nano(&parts, &nano)
                                           : !decimal_nano(&parts, &nano))
        return note_fail(note, ERR_TOO_LARGE, "quantity of 2^63 or more");
    if (parts.format == QUANTITY_BINARY_SI && nano > 0 && nano < (uint128)NANO_PER_UNIT)
        parts.format = QUANTITY_DECIMAL_SI;
    ret_quantity->nano = parts.negative ? -(int128)nano : (int128)nano;
    ret_quantity->format = parts.format;
    return ERR_OK;
}

static const struct suffix *suffix_of(enum quantity_format format, int power)
{
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (suffixes[i].format == format && suffixes[i].power == power) return &suffixes[i];
    assert(power == 0); /* 2^0 has no suffix */
    return &suffixes[3];
}

size_t int128_text(int128 value, char text[QUANTITY_TEXT_CAP])
{
    uint128 left = value < 0 ? -(uint128)value : (uint128)value;
    char reversed[QUANTITY_TEXT_CAP];
    size_t count = 0, len = 0;

    do {
        reversed[count++] = (char)('0' + (int)(left % 10));
        left /= 10;
    } while (left > 0);
    if (value < 0) text[len++] = '-';
    while (count > 0) text[len++] = reversed[--count];
    text[len] = '\0';
    return len;
}

size_t quantity_text(const struct quantity *q, char text[QUANTITY_TEXT_CAP])
{
    static const int128 kilo = 1024 * NANO_PER_UNIT;
    int128 number = q->nano;
    int power = -9;
    struct str suffix;
    size_t len;

    if (number == 0) return int128_text(0, text);
    if (q->format == QUANTITY_BINARY_SI && (number <= -kilo || number >= kilo) &&
        number % NANO_PER_UNIT == 0) {
        number /= NANO_PER_UNIT;
        for (power = 0; number % 1024 == 0 && power < BINARY_POWER_MAX; power += 10) number /= 1024;
        suffix = suffix_of(QUANTITY_BINARY_SI, power)->text;
    } else { /* decimal; or binary, but below 1Ki or no integer */
        bool exponent = q->format == QUANTITY_DECIMAL_EXPONENT;
        for (; number % 1000 == 0 && (exponent || power < DECIMAL_POWER_MAX); power += 3)
            number /= 1000;
        if (exponent && power != 0) {
            len = int128_text(number, text);
            text[len++] = 'e';
            return len + int128_text(power, text + len);
        }
        suffix = suffix_of(QUANTITY_DECIMAL_SI, power)->text;
    }
    len = int128_text(number, text);
    memcpy(text + len, suffix.at, suffix.len + 1);
    return len + suffix.len;
}

int quantity_compare(const struct quantity *a, const struct quantity *b)
{
    return (a->nano > b->nano) - (a->nano < b->nano);
}

enum err quantity_add(struct quantity *a, const struct quantity *b)
{
    int128 nano;

    if (__builtin_add_overflow(a->nano, b->nano, &nano) || nano > (int128)NANO_MAX ||
        nano < -(int128)NANO_MAX)
        return ERR_TOO_LARGE;
    if (a->nano == 0) a->format = b->format;
    a->nano = nano;
    return ERR_OK;
}

int128 quantity_milli(const struct quantity *q)
{
    int128 milli = q->nano / NANO_PER_MILLI, rest = q->nano % NANO_PER_MILLI;

    return milli + (rest > 0) - (rest < 0);
}

struct quantity quantity_from_milli(int128 milli, enum quantity_format format)
{
    assert(milli <= QUANTITY_MILLI_MAX && milli >= -QUANTITY_MILLI_MAX);
    return (struct quantity){milli * NANO_PER_MILLI, format};
}
