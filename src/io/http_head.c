/* SPDX-License-Identifier: Apache-2.0 */
/* Parser of HTTP/1.1 requests: heads, chunks, targets, queries. Stateless; any thread. */
#include "io/http_head.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "io/http.h"

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_HOST] = "host",
    [FIELD_CONTENT_LENGTH] = "content-length",
    [FIELD_TRANSFER_ENCODING] = "transfer-encoding",
    [FIELD_CONNECTION] = "connection",
    [FIELD_EXPECT] = "expect",
    [FIELD_CONTENT_TYPE] = "content-type",
    [FIELD_AUTHORIZATION] = "authorization",
    [FIELD_IF_NONE_MATCH] = "if-none-match",
    [FIELD_ORIGIN] = "origin",
    [FIELD_LAST_EVENT_ID] = "last-event-id",
};

/* -- the head ---------------------------------------------------------------------------------- */

static size_t head_empty_lines(struct str input)
{
    size_t at = 0;

    while (input.len - at >= 2 && input.at[at] == '\r' && input.at[at + 1] == '\n') at += 2;
    return at;
}

size_t http_head_len(struct str input)
{
    bool begun = false; /* a line that is not empty was found */
    const char *feed;

    for (size_t line = 0; (feed = memchr(input.at + line, '\n', input.len - line));) {
        size_t end = (size_t)(feed - input.at) + 1;
        if (end - line < 2 || feed[-1] != '\r') return SIZE_MAX;
        if (end - line > 2)
            begun = true;
        else if (begun)
            return end;
        line = end;
    }
    return 0;
}

static bool is_token(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))) return false;
    }
    return text.len > 0;
}

static bool is_digits(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9') return false;
    return text.len > 0;
}

/* Control bytes other than tabs are refused. */
static bool is_clean(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

/* *rest must contain CR LF. */
static struct str head_take_line(struct str *rest)
{
    const char *end = memmem(rest->at, rest->len, "\r\n", 2);
    struct str line = str_of(rest->at, (size_t)(end - rest->at));

    *rest = str_of(end + 2, rest->len - line.len - 2);
    return line;
}

/* Parses "GET /path HTTP/1.1". */
static int head_read_request_line(struct str line, struct http_head *head)
{
    struct str rest = line, version;

    if (!is_clean(line) || !str_split(&rest, ' ', &head->method) ||
        !str_split(&rest, ' ', &head->target) || !str_split(&rest, '\0', &version) ||
        !is_token(head->method) || head->target.len == 0 || str_has(head->target, '\t'))
        return 400;
    if (version.len != 8 || !str_starts(version, STR("HTTP/")) || version.at[6] != '.' ||
        !is_digits(str_of(version.at + 5, 1)) || !is_digits(str_of(version.at + 7, 1)))
        return 400;
    head->old = str_equal(version, STR("HTTP/1.0"));
    return version.at[5] == '1' ? 0 : 505;
}

static bool head_read_field(struct str line, struct http_head *head, unsigned counts[FIELD_COUNT])
{
    size_t colon = str_find(line, ':');
    struct str name = str_of(line.at, colon);

    if (colon == line.len || !is_token(name) || !is_clean(line)) return false;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!str_equal_nocase(name, str_from(field_names[i]))) continue;
        if (counts[i]++ == 0) head->fields[i] = str_trim(str_tail(line, colon + 1));
    }
    return true;
}

/* `list` is comma-separated. */
static bool head_list_has(struct str list, struct str word)
{
    struct str rest = list, item;

    while (list.len > 0 && str_split(&rest, ',', &item))
        if (str_equal_nocase(str_trim(item), word)) return true;
    return false;
}

/* Determines where the body ends. */
static bool head_read_framing(struct http_head *head, const unsigned counts[FIELD_COUNT])
{
    struct str length = head->fields[FIELD_CONTENT_LENGTH];

    if (counts[FIELD_CONTENT_LENGTH] + counts[FIELD_TRANSFER_ENCODING] > 1) return false;
    if (counts[FIELD_HOST] > 1 || (counts[FIELD_HOST] == 0 && !head->old)) return false;
    if (counts[FIELD_TRANSFER_ENCODING] > 0) {
        if (head->old || !str_equal_nocase(head->fields[FIELD_TRANSFER_ENCODING], STR("chunked")))
            return false;
        head->chunked = true;
    }
    if (counts[FIELD_CONTENT_LENGTH] > 0) {
        if (!is_digits(length)) return false;
        if (str_to_u64(length, &head->body_len)) head->body_len = UINT64_MAX;
    }
    return true;
}

int http_head_read(struct str text, struct http_head *ret_head)
{
    struct str rest = str_tail(text, head_empty_lines(text)), line;
    struct http_head head = {0};
    unsigned counts[FIELD_COUNT] = {0};
    int refuse;

    for (size_t i = 0; i < FIELD_COUNT; i++) head.fields[i] = STR_EMPTY;
    refuse = head_read_request_line(head_take_line(&rest), &head);
    if (refuse) return refuse;
    while ((line = head_take_line(&rest)).len > 0)
        if (!head_read_field(line, &head, counts)) return 400;
    if (!head_read_framing(&head, counts)) return 400;
    head.close = head_list_has(head.fields[FIELD_CONNECTION], STR("close")) ||
                 (head.old && !head_list_has(head.fields[FIELD_CONNECTION], STR("keep-alive")));
    head.continues = !head.old && str_equal_nocase(head.fields[FIELD_EXPECT], STR("100-continue"));
    *ret_head = head;
    return 0;
}

/* -- chunks ------------------------------------------------------------------------------------ */

/* Drops an extension after ';'. */
static bool chunks_size(struct str line, uint64_t *ret_size)
{
    struct str digits = str_trim(str_of(line.at, str_find(line, ';')));
    uint64_t size = 0;

    if (!is_clean(line) || digits.len == 0 || digits.len > 15) return false;
    for (size_t i = 0; i < digits.len; i++) {
        int digit = hex_value(digits.at[i]);
        if (digit < 0) return false;
        size = size * 16 + (unsigned)digit;
    }
    *ret_size = size;
    return true;
}

/* False if the line is too long. *ret_there: the line is complete. */
static bool chunks_line(struct str *input, struct str *ret_line, bool *ret_there)
{
    const char *end = memmem(input->at, input->len, "\r\n", 2);

    *ret_there = end != NULL;
    if (!end) return input->len <= HTTP_CHUNK_LINE_MAX;
    *ret_line = head_take_line(input);
    return ret_line->len <= HTTP_CHUNK_LINE_MAX;
}

bool http_chunks_take(struct http_chunks *chunks, struct str *input, struct str *ret_data)
{
    struct str line;
    bool there;

    *ret_data = STR_EMPTY;
    if (chunks->state == CHUNK_DATA) {
        *ret_data = str_of(input->at, (size_t)min_u64(input->len, chunks->left));
        *input = str_of(input->at + ret_data->len, input->len - ret_data->len);
        chunks->left -= ret_data->len;
        if (chunks->left == 0) chunks->state = CHUNK_DATA_END;
        return true;
    }
    if (chunks->state == CHUNK_DONE) return true;
    if (!chunks_line(input, &line, &there)) return false;
    if (!there) return true;
    switch (chunks->state) {
    case CHUNK_SIZE:
        if (!chunks_size(line, &chunks->left)) return false;
        chunks->state = chunks->left > 0 ? CHUNK_DATA : CHUNK_TRAILERS;
        return true;
    case CHUNK_DATA_END: chunks->state = CHUNK_SIZE; return line.len == 0;
    default:
        chunks->trailer_bytes += line.len;
        if (line.len == 0) chunks->state = CHUNK_DONE;
        return is_clean(line) && chunks->trailer_bytes <= HTTP_TRAILERS_MAX;
    }
}

/* -- targets ----------------------------------------------------------------------------------- */

enum err http_decode(struct str text, bool plus_is_space, char *into, size_t *ret_len)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '%') {
            if (text.len - i < 3) return ERR_PARSE;
            int high = hex_value(text.at[i + 1]), low = hex_value(text.at[i + 2]);
            if (high < 0 || low < 0) return ERR_PARSE;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c == '\0') return ERR_PARSE; /* a NUL would cut the text after its checks */
        into[len++] = c;
    }
    *ret_len = len;
    return ERR_OK;
}

bool http_path_is_safe(struct str path)
{
    struct str rest, segment;

    if (!str_starts(path, STR("/")) || !str_is_utf8(path) || !is_clean(path)) return false;
    if (str_has(path, '\t')) return false;
    rest = path;
    while (str_split(&rest, '/', &segment))
        if (str_equal(segment, STR(".")) || str_equal(segment, STR(".."))) return false;
    return true;
}

enum err http_query(struct str query, struct str key, struct buf *into)
{
    struct str rest = query, pair;
    enum err err = ERR_NOT_FOUND;
    char *scratch;

    if (query.len == 0) return ERR_NOT_FOUND;
    scratch = malloc(query.len);
    if (!scratch) return ERR_NOMEM;
    while (str_split(&rest, '&', &pair)) {
        size_t equals = str_find(pair, '='), len;
        struct str name = str_of(pair.at, equals), value = str_tail(pair, equals + 1);
        err = http_decode(name, true, scratch, &len);
        if (err) break;
        err = ERR_NOT_FOUND;
        if (!str_equal(str_of(scratch, len), key)) continue;
        err = http_decode(value, true, scratch, &len);
        if (!err) err = buf_append(into, str_of(scratch, len));
        break;
    }
    free(scratch);
    return err;
}
