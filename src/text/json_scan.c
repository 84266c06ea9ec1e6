/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner is a state machine: `expect` is what the grammar allows next, and `word` is the kind
 * of the token being read. A token that spans two pieces of the input is copied. */
#include "text/json_scan.h"

#include <string.h>

#include "base/hex.h"
#include "text/utf8.h"

enum expect {
    EXPECT_VALUE,
    EXPECT_ITEM_OR_END, /* follows [ */
    EXPECT_KEY_OR_END,  /* follows { */
    EXPECT_KEY,         /* follows a comma in an object */
    EXPECT_COLON,
    EXPECT_COMMA_OR_END,
    EXPECT_NOTHING, /* the document is complete */
};
enum word { WORD_NONE, WORD_KEY, WORD_STRING, WORD_NUMBER, WORD_NAME };
enum { ESCAPED_MAX = 6 }; /* bytes of the longest escape sequence: \u0041 */

void json_scan_init(struct json_scan *scan, size_t text_max)
{
    *scan = (struct json_scan){.text_max = text_max};
    buf_init(&scan->raw, text_max * ESCAPED_MAX + 1);
    buf_init(&scan->text, text_max);
}

void json_scan_deinit(struct json_scan *scan)
{
    buf_deinit(&scan->raw);
    buf_deinit(&scan->text);
}

bool json_scan_whole(const struct json_scan *scan)
{
    return scan->expect == EXPECT_NOTHING && scan->word == WORD_NONE;
}

static enum err wrong(const struct json_scan *scan, enum err err, const char *what,
                      struct note *note)
{
    return note_fail(note, err, "offset %llu: %s", (unsigned long long)scan->offset, what);
}

/* -- texts -- */
/* -1 unless there are four hexadecimal digits. */
static int32_t hex_unit(struct str raw, size_t at)
{
    int32_t unit = 0;

    if (raw.len < at + 4) return -1;
    for (size_t i = at; i < at + 4; i++) {
        int value = hex_value(raw.at[i]);
        if (value < 0) return -1;
        unit = unit * 16 + value;
    }
    return unit;
}

/* Reads \uXXXX, or two of them that are a surrogate pair. Returns false for invalid escapes. */
static bool unescape_unit(struct str raw, size_t *at, uint32_t *ret_scalar)
{
    int32_t unit = hex_unit(raw, *at + 2), low = -1;

    if (unit < 0) return false;
    *at += 6;
    *ret_scalar = utf8_is_scalar((uint32_t)unit) ? (uint32_t)unit : 0xfffd;
    if (unit < 0xd800 || unit > 0xdbff) return true;
    if (raw.len >= *at + 6 && raw.at[*at] == '\\' && raw.at[*at + 1] == 'u')
        low = hex_unit(raw, *at + 2);
    if (low >= 0xdc00 && low <= 0xdfff) {
        *ret_scalar = 0x10000 + (((uint32_t)unit & 0x3ff) << 10) + ((uint32_t)low & 0x3ff);
        *at += 6;
    }
    return true;
}

/* Returns the number of bytes written, or 0 for an invalid escape. */
static size_t unescape(struct str raw, size_t *at, char out[UTF8_LEN_MAX])
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name;
    uint32_t scalar;

    assert(raw.at[*at] == '\\' && *at + 1 < raw.len);
    if (raw.at[*at + 1] == 'u') {
        return unescape_unit(raw, at, &scalar) ? utf8_write(scalar, out) : 0;
    }
    name = memchr(names, raw.at[*at + 1], sizeof names - 1);
    if (!name) return 0;
    *at += 2;
    out[0] = values[name - names];
    return 1;
}

static enum err text_rewrite(struct json_scan *scan, struct str raw, struct str *ret_text,
                             struct note *note)
{
    char room[UTF8_LEN_MAX];
    enum err err = ERR_OK;
    size_t at = 0, len;

    buf_clear(&scan->text);
    while (!err && at < raw.len) {
        size_t plain = at;
        while (plain < raw.len && raw.at[plain] != '\\' && (unsigned char)raw.at[plain] < 0x80)
            plain++;
        if (plain > at) {
            err = buf_append(&scan->text, str_of(raw.at + at, plain - at));
            at = plain;
        } else if (raw.at[at] == '\\') {
            len = unescape(raw, &at, room);
            if (len == 0) return wrong(scan, ERR_PARSE, "no such escape", note);
            err = buf_append(&scan->text, str_of(room, len));
        } else {
            len = utf8_step(raw.at + at, raw.len - at);
            err = len ? buf_append(&scan->text, str_of(raw.at + at, len))
                      : buf_append(&scan->text, STR("\xef\xbf\xbd"));
            at += len ? len : 1;
        }
    }
    if (err == ERR_FULL) return wrong(scan, ERR_TOO_LARGE, "text longer than the limit", note);
    *ret_text = buf_peek(&scan->text);
    return err;
}

static enum err text_run(struct json_scan *scan, struct str bytes, size_t *ret_len, bool *ret_end,
                         struct note *note)
{
    bool escape = scan->escape, rewrite = scan->rewrite;
    size_t i = 0;

    *ret_end = false;
    for (; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.at[i];
        if (c < 0x20) return wrong(scan, ERR_PARSE, "control character in a text", note);
        if (escape) {
            escape = false;
        } else if (c == '"') {
            *ret_end = true;
            break;
        } else if (c == '\\') {
            escape = rewrite = true;
        } else if (c >= 0x80) {
            rewrite = true;
        }
    }
    scan->escape = escape;
    scan->rewrite = rewrite;
    *ret_len = i;
    return ERR_OK;
}

/* -- numbers and names -- */
static size_t digits(struct str s, size_t at)
{
    while (at < s.len && s.at[at] >= '0' && s.at[at] <= '9') at++;
    return at;
}

static bool is_number(struct str s)
{
    size_t at = s.len > 0 && s.at[0] == '-', from = at;

    at = digits(s, at);
    if (at == from || (s.at[from] == '0' && at > from + 1)) return false;
    if (at < s.len && s.at[at] == '.') {
        from = at + 1;
        at = digits(s, from);
        if (at == from) return false;
    }
    if (at < s.len && (s.at[at] == 'e' || s.at[at] == 'E')) {
        from = at + 1;
        if (from < s.len && (s.at[from] == '+' || s.at[from] == '-')) from++;
        at = digits(s, from);
        if (at == from) return false;
    }
    return at == s.len;
}

static bool is_word_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

/* -- structure -- */
static bool json_scan_in_array(const struct json_scan *scan)
{
    return scan->arrays[scan->depth - 1];
}

static void value_ended(struct json_scan *scan)
{
    scan->expect = scan->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static enum err json_scan_open_level(struct json_scan *scan, bool is_array, struct note *note)
{
    if (scan->depth == JSON_SCAN_DEPTH) return wrong(scan, ERR_TOO_LARGE, "nested too deep", note);
    scan->arrays[scan->depth++] = is_array;
    scan->expect = is_array ? EXPECT_ITEM_OR_END : EXPECT_KEY_OR_END;
    return ERR_OK;
}

/* -- tokens -- */
static enum err word_close(struct json_scan *scan, struct str word, enum json_token *ret_token,
                           struct str *ret_text, struct note *note)
{
    enum word kind = scan->word;
    bool rewrite = scan->rewrite;

    scan->word = WORD_NONE;
    scan->rewrite = scan->escape = false;
    if (kind == WORD_KEY)
        scan->expect = EXPECT_COLON;
    else
        value_ended(scan);
    switch (kind) {
    case WORD_KEY:
    case WORD_STRING:
        *ret_token = kind == WORD_KEY ? TOKEN_KEY : TOKEN_STRING;
        if (rewrite) return text_rewrite(scan, word, ret_text, note);
        if (word.len > scan->text_max)
            return wrong(scan, ERR_TOO_LARGE, "text longer than the limit", note);
        *ret_text = word;
        return ERR_OK;
    case WORD_NUMBER:
        if (!is_number(word)) return wrong(scan, ERR_PARSE, "not a number", note);
        *ret_token = TOKEN_NUMBER;
        *ret_text = word;
        return ERR_OK;
    default: break;
    }
    if (str_equal(word, STR("null")))
        *ret_token = TOKEN_NULL;
    else if (str_equal(word, STR("true")))
        *ret_token = TOKEN_TRUE;
    else if (str_equal(word, STR("false")))
        *ret_token = TOKEN_FALSE;
    else
        return wrong(scan, ERR_PARSE, "not a value", note);
    return ERR_OK;
}

static void take(struct json_scan *scan, struct str *bytes, size_t len)
{
    *bytes = (struct str){bytes->at + len, bytes->len - len};
    scan->offset += len;
}

static enum err word_go_on(struct json_scan *scan, struct str *bytes, enum json_token *ret_token,
                           struct str *ret_text, struct note *note)
{
    bool quoted = scan->word == WORD_KEY || scan->word == WORD_STRING, end = false;
    struct str word;
    size_t len = 0;
    enum err err = ERR_OK;

    if (quoted) {
        err = text_run(scan, *bytes, &len, &end, note);
    } else {
        while (len < bytes->len && is_word_byte(bytes->at[len])) len++;
        end = len < bytes->len;
    }
    if (err) return err;
    word = str_of(bytes->at, len);
    if (!end || scan->raw.len > 0) {
        err = buf_append(&scan->raw, word);
        if (err == ERR_FULL) return wrong(scan, ERR_TOO_LARGE, "text longer than the limit", note);
        if (err) return err;
        word = buf_peek(&scan->raw);
    }
    take(scan, bytes, len + (end && quoted));
    *ret_token = TOKEN_NEED;
    if (end) err = word_close(scan, word, ret_token, ret_text, note);
    return err;
}

static void word_begin(struct json_scan *scan, enum word word, struct str *bytes, size_t skip)
{
    buf_clear(&scan->raw);
    scan->word = (uint8_t)word;
    take(scan, bytes, skip);
}

/* TOKEN_NEED: a token was started, and the caller must read it. */
static enum err value_begin(struct json_scan *scan, struct str *bytes, enum json_token *ret_token,
                            struct note *note)
{
    char c = bytes->at[0];
    enum err err;

    *ret_token = TOKEN_NEED;
    if (c == '"') {
        word_begin(scan, WORD_STRING, bytes, 1);
    } else if (c == '{' || c == '[') {
        err = json_scan_open_level(scan, c == '[', note);
        if (err) return err;
        take(scan, bytes, 1);
        *ret_token = c == '[' ? TOKEN_ARRAY : TOKEN_OBJECT;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        word_begin(scan, WORD_NUMBER, bytes, 0);
    } else if (is_word_byte(c)) {
        word_begin(scan, WORD_NAME, bytes, 0);
    } else {
        return wrong(scan, ERR_PARSE, "expected a value", note);
    }
    return ERR_OK;
}

static bool level_may_close(const struct json_scan *scan, char c)
{
    return (scan->expect == EXPECT_ITEM_OR_END || scan->expect == EXPECT_KEY_OR_END ||
            scan->expect == EXPECT_COMMA_OR_END) &&
           c == (json_scan_in_array(scan) ? ']' : '}');
}

static enum err json_scan_step(struct json_scan *scan, struct str *bytes,
                               enum json_token *ret_token, struct note *note)
{
    char c = bytes->at[0];

    *ret_token = TOKEN_NEED;
    if (level_may_close(scan, c)) {
        *ret_token = c == ']' ? TOKEN_ARRAY_END : TOKEN_OBJECT_END;
        scan->depth--;
        value_ended(scan);
        take(scan, bytes, 1);
        return ERR_OK;
    }
    switch ((enum expect)scan->expect) {
    case EXPECT_ITEM_OR_END:
    case EXPECT_VALUE: return value_begin(scan, bytes, ret_token, note);
    case EXPECT_KEY_OR_END:
    case EXPECT_KEY:
        if (c != '"') return wrong(scan, ERR_PARSE, "expected a key", note);
        word_begin(scan, WORD_KEY, bytes, 1);
        return ERR_OK;
    case EXPECT_COLON:
        if (c != ':') return wrong(scan, ERR_PARSE, "expected ':'", note);
        scan->expect = EXPECT_VALUE;
        break;
    case EXPECT_COMMA_OR_END:
        if (c != ',') return wrong(scan, ERR_PARSE, "expected ',' or the end", note);
        scan->expect = json_scan_in_array(scan) ? EXPECT_VALUE : EXPECT_KEY;
        break;
    case EXPECT_NOTHING: return wrong(scan, ERR_PARSE, "bytes after the value", note);
    }
    take(scan, bytes, 1);
    return ERR_OK;
}

enum err json_scan_next(struct json_scan *scan, struct str *bytes, enum json_token *ret_token,
                        struct str *ret_text, struct note *note)
{
    enum json_token token = TOKEN_NEED;
    enum err err = ERR_OK;

    while (!err && token == TOKEN_NEED && bytes->len > 0) {
        char c = bytes->at[0];
        if (scan->word != WORD_NONE)
            err = word_go_on(scan, bytes, &token, ret_text, note);
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            take(scan, bytes, 1);
        else
            err = json_scan_step(scan, bytes, &token, note);
    }
    if (!err) *ret_token = token;
    return err;
}
