/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes shard metadata: one table with the key, kind and field of each entry. */
#include "model/metadata.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/profile.h"

/* --- reals, printed like Go's strconv with format 'g' and the shortest precision ---
 *
 * The code here places the decimal point, because libc's decimal point depends on the locale. */

enum { REAL_DIGITS_MAX = 17, REAL_CAP = 32, REAL_TEXT_MAX = 64, VALUE_CAP = 48 };

struct decimal { /* 0.d1d2d3... x 10^point */
    char digits[REAL_DIGITS_MAX + 1];
    int count, point;
};

static double decimal_value(const struct decimal *d)
{
    char text[REAL_CAP];

    snprintf(text, sizeof text, "%.*se%d", d->count, d->digits, d->point - d->count);
    return strtod(text, NULL);
}

static void nearest(double value, int count, struct decimal *d)
{
    char text[REAL_CAP];
    const char *at = text;
    bool negative;
    int exponent = 0;

    snprintf(text, sizeof text, "%.*e", count - 1, value); /* some locales print "1,25e-07" */
    for (d->count = 0; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') d->digits[d->count++] = *at;
    d->digits[d->count] = '\0';
    negative = at[1] == '-';
    for (at += 2; *at; at++) exponent = exponent * 10 + (*at - '0');
    d->point = (negative ? -exponent : exponent) + 1;
}

static void step_up(struct decimal *d)
{
    int i = d->count - 1;

    while (i >= 0 && d->digits[i] == '9') d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
    } else {
        d->digits[0] = '1';
        d->point++;
    }
}

/* The shortest decimal that reads back as the value; of several, the nearest. At a power of two the
 * nearest decimal may not read back, but the next larger one does. */
static void shortest(double value, struct decimal *d)
{
    for (int count = 1;; count++) { /* 17 digits always read back as the value */
        assert(count <= REAL_DIGITS_MAX);
        nearest(value, count, d);
        if (decimal_value(d) == value) return;
        step_up(d);
        if (decimal_value(d) == value) return;
    }
}

static size_t real_text(double value, char text[VALUE_CAP])
{
    struct decimal d = {.digits = "0", .count = 1, .point = 1};
    int exponent;

    assert(value >= 0);
    if (isinf(value)) return (size_t)snprintf(text, VALUE_CAP, "+Inf");
    if (value > 0) shortest(value, &d);
    exponent = d.point - 1;
    if (exponent < -4 || exponent >= 6) /* for example 1.25e-07 */
        return (size_t)snprintf(text, VALUE_CAP, "%c%s%.*se%c%02d", d.digits[0],
                                d.count > 1 ? "." : "", d.count - 1, d.digits + 1,
                                exponent < 0 ? '-' : '+', abs(exponent));
    if (d.point <= 0) /* for example 0.00012 */
        return (size_t)snprintf(text, VALUE_CAP, "0.%.*s%.*s", -d.point, "000", d.count, d.digits);
    if (d.count <= d.point) /* for example 120 */
        return (size_t)snprintf(text, VALUE_CAP, "%.*s%.*s", d.count, d.digits, d.point - d.count,
                                "00000");
    return (size_t)snprintf(text, VALUE_CAP, "%.*s.%.*s", d.point, d.digits, d.count - d.point,
                            d.digits + d.point);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Negative numbers and NaN are rejected, because they are no penalties. */
static bool read_real(struct str text, double *ret_value)
{
    char plain[2 * REAL_TEXT_MAX]; /* `text` without its decimal point */
    size_t len = 0, at = 0, digits = 0, places = 0;
    int64_t exponent = 0;
    bool point = false;
    double value;

    if (text.len > REAL_TEXT_MAX) return false;
    if (text.len > 0 && text.at[0] == '+') at = 1;
    if (str_equal_nocase(str_tail(text, at), STR("inf")) ||
        str_equal_nocase(str_tail(text, at), STR("infinity"))) {
        *ret_value = (double)INFINITY;
        return true;
    }
    for (; at < text.len && (is_digit(text.at[at]) || (text.at[at] == '.' && !point)); at++) {
        if (text.at[at] == '.') {
            point = true;
            continue;
        }
        plain[len++] = text.at[at];
        digits++;
        places += point;
    }
    if (digits == 0) return false;
    if (at < text.len) {
        if (text.at[at] != 'e' && text.at[at] != 'E') return false;
        at++;
        if (at + 1 < text.len && text.at[at] == '+' && is_digit(text.at[at + 1])) at++;
        if (str_to_i64(str_tail(text, at), &exponent) || exponent > 9999 || exponent < -9999)
            return false;
    }
    snprintf(plain + len, sizeof plain - len, "e%" PRIi64, exponent - (int64_t)places);
    value = strtod(plain, NULL);
    if (isinf(value)) return false; /* outside the range of a double */
    *ret_value = value;
    return true;
}

/* --- entries --- */

#define ORIGINAL "bigfleet.lucy.sh/assigned-"
#define OURS     "muster/"

enum kind { PRIORITY, DOLLARS, WORD, BYTES, TIME };
/* Sorted bytewise by key, the order on the wire. */
static const struct entry {
    struct str key;
    enum kind kind;
    size_t offset; /* in struct machine_metadata */
    size_t max;    /* bytes of a text */
} entries[METADATA_MAX] = {
#define ENTRY(key, kind, field, max)                                                               \
    {                                                                                              \
        {"" key, sizeof(key) - 1}, kind, offsetof(struct machine_metadata, field), max             \
    }
    ENTRY(ORIGINAL "group", BYTES, stamp.group, GROUP_MAX),
    ENTRY(ORIGINAL "interruption-penalty-dollars", DOLLARS, stamp.interruption_dollars, 0),
    ENTRY(ORIGINAL "need-fingerprint", WORD, stamp.fingerprint, FINGERPRINT_MAX),
    ENTRY(ORIGINAL "priority", PRIORITY, stamp.priority, 0),
    ENTRY(ORIGINAL "reclamation-penalty-dollars", DOLLARS, stamp.reclamation_dollars, 0),
    ENTRY(OURS "destination-cluster", WORD, destination, ID_MAX),
    ENTRY(OURS "promised-at-unix-ms", TIME, promised.at, 0),
    ENTRY(OURS "promised-cluster", WORD, promised.cluster, ID_MAX),
    ENTRY(OURS "promised-fingerprint", WORD, promised.fingerprint, FINGERPRINT_MAX),
    ENTRY(OURS "promised-group", BYTES, promised.group, GROUP_MAX),
    ENTRY(OURS "promised-priority", PRIORITY, promised.priority, 0),
#undef ENTRY
};
enum { ENTRY_DESTINATION = 5, ENTRY_PROMISED = 6 };

static bool is_written(const struct machine_metadata *m, size_t entry)
{
    if (entry < ENTRY_DESTINATION) return true;
    return entry == ENTRY_DESTINATION ? m->destination.len > 0 : m->promised.cluster.len > 0;
}

static bool encode_field(struct arena *arena, const struct entry *e, const void *field,
                         struct str *ret_value)
{
    char text[VALUE_CAP], *copy;
    size_t len = 0;

    switch (e->kind) {
    case WORD:
    case BYTES: *ret_value = *(const struct str *)field; return true;
    case PRIORITY:
        len = (size_t)snprintf(text, sizeof text, "%" PRIi32, *(const int32_t *)field);
        break;
    case TIME:
        len = (size_t)snprintf(text, sizeof text, "%" PRIu64, ((const wall_time *)field)->ms);
        break;
    case DOLLARS: len = real_text(*(const double *)field, text); break;
    }
    copy = arena_dup(arena, str_of(text, len));
    if (copy) *ret_value = str_of(copy, len);
    return copy != NULL;
}

enum err metadata_encode(struct arena *arena, const struct machine_metadata *m,
                         struct label ret_pairs[METADATA_MAX], size_t *ret_count)
{
    struct label pairs[METADATA_MAX];
    size_t count = 0;

    for (size_t i = 0; i < METADATA_MAX; i++) {
        const char *field = (const char *)m + entries[i].offset;
        if (!is_written(m, i)) continue;
        pairs[count].key = entries[i].key;
        if (!encode_field(arena, &entries[i], field, &pairs[count++].value)) return ERR_NOMEM;
    }
    memcpy(ret_pairs, pairs, count * sizeof pairs[0]);
    *ret_count = count;
    return ERR_OK;
}

static bool decode_priority(struct str text, int32_t *ret_priority)
{
    int64_t value;

    if (text.len > 1 && text.at[0] == '+' && text.at[1] != '-') text = str_tail(text, 1);
    if (str_to_i64(text, &value) || value < INT32_MIN || value > INT32_MAX) return false;
    *ret_priority = (int32_t)value;
    return true;
}

/* Returns false for a malformed text, and leaves the field unchanged. */
static bool decode_field(const struct entry *e, struct str text, void *field)
{
    switch (e->kind) {
    case PRIORITY: return decode_priority(text, field);
    case DOLLARS: return read_real(text, field);
    case TIME: return str_to_u64(text, &((wall_time *)field)->ms) == ERR_OK;
    case WORD:
        if (text_check("", text, e->max, NULL)) return false;
        break;
    case BYTES:
        if (text.len > e->max) return false;
        break;
    }
    *(struct str *)field = text;
    return true;
}

static void append(struct note *note, struct str key, const char *why)
{
    size_t len;

    if (!note) return;
    len = strlen(note->text);
    snprintf(note->text + len, sizeof note->text - len, "%s%.*s: %s", len ? "; " : "", STR_ARG(key),
             why);
}

enum err metadata_decode(const struct label *pairs, size_t count, struct machine_metadata *m,
                         struct note *note)
{
    enum err err = ERR_OK;

    if (count > METADATA_READ_MAX)
        return note_fail(note, ERR_TOO_LARGE, "shard_metadata: %zu entries, at most %d are allowed",
                         count, METADATA_READ_MAX);
    note_set(note, "%s", "");
    for (size_t i = 0; i < METADATA_MAX; i++) {
        bool seen = false;
        for (size_t p = 0; p < count; p++) {
            const char *why = seen ? "given twice" : NULL;
            if (!str_equal(pairs[p].key, entries[i].key)) continue;
            seen = true;
            if (!why && !decode_field(&entries[i], pairs[p].value, (char *)m + entries[i].offset))
                why = "unreadable";
            if (!why) continue;
            append(note, entries[i].key, why);
            err = ERR_PARSE;
        }
    }
    return err;
}
