/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON lines. A field is measured first and then written into memory that is reserved once.
 * ndjson_end() returns the first failure. */
#include "text/ndjson.h"

#include <math.h>
#include <string.h>

#include "text/real.h"
#include "text/utf8.h"

enum {
    INDENT = 2,
    U64_DIGITS = 20,
    WORD = 8, /* bytes tested at a time */
};

/* ---- escaping ---- */

static const char replacement[] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */

enum { UNIT = 6 }; /* \uXXXX */

/* True if one of eight bytes may be a control character, '"', '\\' or not ASCII. May also be true
 * for clean bytes. */
static bool word_is_suspect(const char *at)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t word, quotes, slashes;

    memcpy(&word, at, sizeof word);
    quotes = word ^ (ones * '"');
    slashes = word ^ (ones * '\\');
    return ((word | (word - ones * 0x20) | (quotes - ones) | (slashes - ones)) & tops) != 0;
}

static size_t plain_span(struct str s)
{
    size_t i = 0;

    while (i + WORD <= s.len && !word_is_suspect(s.at + i)) i += WORD;
    while (i < s.len && (signed char)s.at[i] >= 0x20 && s.at[i] != '"' && s.at[i] != '\\') i++;
    return i;
}

/* Writes the escape sequence for the first character of `s`. */
static size_t escape_next(struct str s, char out[UNIT], size_t *ret_step)
{
    static const char bytes[] = "\b\t\n\f\r\"\\", names[] = "btnfr\"\\", hex[] = "0123456789abcdef";
    uint32_t code;
    size_t step = utf8_read(s, &code);
    const char *known = step == 1 ? memchr(bytes, (int)code, sizeof bytes - 1) : NULL;

    *ret_step = max_size(step, 1);
    memcpy(out, "\\u", 2);
    if (known) {
        out[1] = names[known - bytes];
        return 2;
    }
    if (step == 0) {
        memcpy(out, replacement, sizeof replacement);
        return sizeof replacement;
    }
    if (!utf8_is_control(code)) {
        memcpy(out, s.at, step);
        return step;
    }
    for (int i = 0; i < 4; i++) out[2 + i] = hex[code >> (12 - 4 * i) & 15];
    return UNIT;
}

/* Returns the exact length of the escaped text. If `at` is NULL, nothing is written. */
static size_t put_escaped(char *at, struct str s)
{
    size_t size = 0;

    for (;;) {
        size_t plain = plain_span(s), len, step;
        char escaped[UNIT];
        if (at && plain > 0) memcpy(at + size, s.at, plain);
        size += plain;
        s = str_tail(s, plain);
        if (s.len == 0) return size;
        len = escape_next(s, escaped, &step);
        if (at) memcpy(at + size, escaped, len);
        size += len;
        s = str_tail(s, step);
    }
}

static char *put_u64(char *at, uint64_t value)
{
    char digits[U64_DIGITS];
    size_t from = sizeof digits;

    do digits[--from] = (char)('0' + value % 10);
    while (value /= 10);
    memcpy(at, digits + from, sizeof digits - from);
    return at + (sizeof digits - from);
}

/* ---- structure ---- */

static bool ndjson_in_array(const struct ndjson *w)
{
    return w->arrays[w->depth - 1];
}

static size_t indent_size(const struct ndjson *w)
{
    return w->pretty ? 1 + (size_t)w->depth * INDENT : 0;
}

static char *put_indent(const struct ndjson *w, char *at)
{
    if (!w->pretty) return at;
    *at++ = '\n';
    memset(at, ' ', (size_t)w->depth * INDENT);
    return at + (size_t)w->depth * INDENT;
}

/* Writes comma, line break, indent and key. Returns where the value's `size` bytes go, or NULL
 * after a failure. */
static char *begin_field(struct ndjson *w, struct str key, size_t size)
{
    size_t before = w->comma ? 1 : 0;
    char *at;

    if (w->err) return NULL;
    if (w->depth > 0) {
        assert((key.at == NULL) == ndjson_in_array(w)); /* only objects have keys */
        before += indent_size(w);
        if (key.at) before += put_escaped(NULL, key) + 3 + (w->pretty ? 1 : 0);
    } else {
        assert(!key.at && !w->comma); /* the record is one value, without a key */
    }
    w->err = buf_reserve(w->out, before + size, &at);
    if (w->err) return NULL;
    if (w->comma) *at++ = ',';
    if (w->depth > 0) at = put_indent(w, at);
    if (key.at) {
        *at++ = '"';
        at += put_escaped(at, key);
        *at++ = '"';
        *at++ = ':';
        if (w->pretty) *at++ = ' ';
    }
    w->comma = true;
    return at;
}

static void end_field(struct ndjson *w, const char *at)
{
    buf_commit(w->out, (size_t)(at - (w->out->data + w->out->len)));
}

static void put_field(struct ndjson *w, struct str key, struct str text)
{
    char *at = begin_field(w, key, text.len);

    if (!at) return;
    memcpy(at, text.at, text.len);
    end_field(w, at + text.len);
}

static void ndjson_open_level(struct ndjson *w, struct str key, bool array)
{
    if (!w->err && w->depth == NDJSON_DEPTH_MAX) w->err = ERR_TOO_LARGE;
    put_field(w, key, array ? STR("[") : STR("{"));
    if (w->err) return;
    w->arrays[w->depth++] = array;
    w->comma = false;
}

static void close_level(struct ndjson *w, bool array)
{
    bool empty = !w->comma;
    char *at;

    if (w->err) return;
    assert(w->depth > 0 && ndjson_in_array(w) == array); /* levels are closed innermost first */
    w->depth--;
    w->err = buf_reserve(w->out, 1 + indent_size(w), &at);
    if (w->err) return;
    if (!empty) at = put_indent(w, at);
    *at++ = array ? ']' : '}';
    end_field(w, at);
    w->comma = true;
}

void ndjson_begin_value(struct ndjson *w, struct buf *out, enum ndjson_style style)
{
    *w = (struct ndjson){.out = out, .start = out->len, .pretty = style == NDJSON_PRETTY};
}

void ndjson_begin(struct ndjson *w, struct buf *out, enum ndjson_style style)
{
    ndjson_begin_value(w, out, style);
    w->root_object = true;
    ndjson_open_level(w, NDJSON_ITEM, false);
}

enum err ndjson_end(struct ndjson *w)
{
    if (!w->err) {
        assert(w->depth == (w->root_object ? 1 : 0)); /* every opened level is closed */
        if (w->root_object) close_level(w, false);
        assert(w->err || w->comma); /* a single value was written */
    }
    if (!w->err) w->err = buf_append_byte(w->out, '\n');
    if (w->err) w->out->len = w->start;
    return w->err;
}

/* ---- values ---- */

void ndjson_string(struct ndjson *w, struct str key, struct str value)
{
    char *at = begin_field(w, key, put_escaped(NULL, value) + 2);

    if (!at) return;
    *at++ = '"';
    at += put_escaped(at, value);
    *at++ = '"';
    end_field(w, at);
}

void ndjson_c_string(struct ndjson *w, struct str key, const char *value)
{
    if (value)
        ndjson_string(w, key, str_from(value));
    else
        ndjson_null(w, key);
}

void ndjson_u64(struct ndjson *w, struct str key, uint64_t value)
{
    char digits[U64_DIGITS];
    put_field(w, key, (struct str){digits, (size_t)(put_u64(digits, value) - digits)});
}

void ndjson_hex(struct ndjson *w, struct str key, uint64_t value)
{
    static const char hex[] = "0123456789abcdef";
    char digits[16];

    for (size_t i = sizeof digits; i-- > 0; value >>= 4) digits[i] = hex[value & 15];
    ndjson_string(w, key, str_of(digits, sizeof digits));
}

void ndjson_i64(struct ndjson *w, struct str key, int64_t value)
{
    char digits[1 + U64_DIGITS] = "-";
    /* -INT64_MIN does not fit into int64_t. */
    char *end =
        value < 0 ? put_u64(digits + 1, -(uint64_t)value) : put_u64(digits, (uint64_t)value);
    put_field(w, key, (struct str){digits, (size_t)(end - digits)});
}

void ndjson_double(struct ndjson *w, struct str key, double value)
{
    char text[REAL_TEXT_CAP];

    if (isfinite(value))
        put_field(w, key, (struct str){text, real_print(value, text)});
    else
        ndjson_null(w, key);
}

void ndjson_bool(struct ndjson *w, struct str key, bool value)
{
    put_field(w, key, value ? STR("true") : STR("false"));
}

void ndjson_null(struct ndjson *w, struct str key)
{
    put_field(w, key, STR("null"));
}

void ndjson_raw(struct ndjson *w, struct str key, struct str json)
{
    if (!w->err && (json.len == 0 || str_has(json, '\n') || str_has(json, '\r')))
        w->err = ERR_INVALID;
    put_field(w, key, json);
}

void ndjson_open_object(struct ndjson *w, struct str key)
{
    ndjson_open_level(w, key, false);
}

void ndjson_close_object(struct ndjson *w)
{
    close_level(w, false);
}

void ndjson_open_array(struct ndjson *w, struct str key)
{
    ndjson_open_level(w, key, true);
}

void ndjson_close_array(struct ndjson *w)
{
    close_level(w, true);
}
