/* SPDX-License-Identifier: Apache-2.0 */
/* The text of requests: heads that are read or refused, chunked bodies in any pieces. */
#include "io/http_head.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lib/test.h"

static int status_of(struct str text, struct http_head *head)
{
    size_t len = http_head_len(text);

    if (len == SIZE_MAX) return 400;
    CHECK_SIZE("the whole text is the head", len, text.len);
    return http_head_read(text, head);
}

TEST(a_head_is_read_into_its_parts)
{
    struct http_head head;
    CHECK_I64("read",
              status_of(STR("\r\nPOST /a?b=c HTTP/1.1\r\nhost: x:1\r\nContent-Length:  12 \r\n"
                            "Authorization: a\tb\r\nauthorization: second\r\nX: \r\nExpect: "
                            "100-Continue\r\n\r\n"),
                        &head),
              0);
    CHECK_STR("method", head.method, STR("POST"));
    CHECK_STR("target", head.target, STR("/a?b=c"));
    CHECK_STR("host", head.fields[FIELD_HOST], STR("x:1"));
    CHECK_STR("the first of a name", head.fields[FIELD_AUTHORIZATION], STR("a\tb"));
    CHECK_STR("absent", head.fields[FIELD_ORIGIN], STR_EMPTY);
    CHECK_U64("length", head.body_len, 12);
    CHECK("expects", head.continues && !head.chunked && !head.close && !head.old);
}

static const struct {
    const char *why, *lines; /* after the request line */
    bool close, old;
} close_cases[] = {
    {"kept by default", "HTTP/1.1\r\nHost: x\r\n", false, false},
    {"asked to close", "HTTP/1.1\r\nHost: x\r\nConnection: upgrade, Close\r\n", true, false},
    {"another word", "HTTP/1.1\r\nHost: x\r\nConnection: closed\r\n", false, false},
    {"the old protocol closes", "HTTP/1.0\r\n", true, true},
    {"unless asked to keep", "HTTP/1.0\r\nConnection: Keep-Alive\r\n", false, true},
    {"a later 1.x is read as 1.1", "HTTP/1.7\r\nHost: x\r\n", false, false},
};

TEST(the_closing_side_follows_from_version_and_connection_header)
{
    for (size_t i = 0; i < ARRAY_LEN(close_cases); i++) {
        struct http_head head;
        struct buf text;
        buf_init(&text, 1024);
        CHECK_OK("text", buf_appendf(&text, "GET / %s\r\n", close_cases[i].lines));
        CHECK_I64(close_cases[i].why, status_of(buf_peek(&text), &head), 0);
        CHECK_I64(close_cases[i].why, head.close, close_cases[i].close);
        CHECK_I64(close_cases[i].why, head.old, close_cases[i].old);
        buf_deinit(&text);
    }
}

#define HEAD(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
static const struct {
    const char *why;
    struct str head;
    int status;
} refusals[] = {
    {"no version", HEAD("GET /\r\n\r\n"), 400},
    {"HTTP/2", HEAD("PRI * HTTP/2.0\r\n\r\n"), 505},
    {"HTTP/0.9", HEAD("GET / HTTP/0.9\r\n\r\n"), 505},
    {"a version that is none", HEAD("GET / HTTP/1.x\r\nHost: x\r\n\r\n"), 400},
    {"two digits", HEAD("GET / HTTP/1.11\r\nHost: x\r\n\r\n"), 400},
    {"lower case", HEAD("GET / http/1.1\r\nHost: x\r\n\r\n"), 400},
    {"two spaces", HEAD("GET  / HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a space in the target", HEAD("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a tab for a space", HEAD("GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a space in front", HEAD(" GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a space behind", HEAD("GET / HTTP/1.1 \r\nHost: x\r\n\r\n"), 400},
    {"a method that is no token", HEAD("G{T / HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"no host", HEAD("GET / HTTP/1.1\r\n\r\n"), 400},
    {"two hosts", HEAD("GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n"), 400},
    {"a line that ends with LF", HEAD("GET / HTTP/1.1\nHost: x\r\n\r\n"), 400},
    {"an empty line that ends with LF", HEAD("GET / HTTP/1.1\r\nHost: x\r\n\n"), 400},
    {"a CR inside a line", HEAD("GET / HTTP/1.1\r\nHost: x\rY: z\r\n\r\n"), 400},
    {"a NUL inside a value", HEAD("GET / HTTP/1.1\r\nHost: x\0y\r\n\r\n"), 400},
    {"a NUL inside a target", HEAD("GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a folded line", HEAD("GET / HTTP/1.1\r\nHost: x\r\n y: z\r\n\r\n"), 400},
    {"no colon", HEAD("GET / HTTP/1.1\r\nHost: x\r\nY\r\n\r\n"), 400},
    {"no name", HEAD("GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n"), 400},
    {"a space before the colon", HEAD("GET / HTTP/1.1\r\nHost : x\r\n\r\n"), 400},
    {"a length and a coding",
     HEAD("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
     400},
    {"two lengths",
     HEAD("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"), 400},
    {"an empty length", HEAD("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n"), 400},
    {"a negative length", HEAD("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"), 400},
    {"a coding in the old protocol", HEAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
     400},
    {"a second coding",
     HEAD("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"), 400},
};

TEST(ambiguous_requests_are_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        struct http_head head;
        CHECK_I64(refusals[i].why, status_of(refusals[i].head, &head), refusals[i].status);
    }
}

TEST(a_head_that_is_not_whole_is_waited_for)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    for (size_t len = 0; len + 1 < sizeof text - 1; len++)
        CHECK_SIZE("not yet", http_head_len(str_of(text, len)), 0);
    CHECK_SIZE("now", http_head_len(STR("GET / HTTP/1.1\r\nHost: x\r\n\r\nmore")), sizeof text - 1);
    CHECK_SIZE("empty lines alone are no head", http_head_len(STR("\r\n\r\n\r\n")), 0);
}

TEST(a_length_of_more_than_64_bits_is_as_large_as_can_be)
{
    struct http_head head;
    CHECK_I64("read",
              status_of(STR("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "
                            "18446744073709551616\r\n\r\n"),
                        &head),
              0);
    CHECK("larger than any bound", head.body_len == UINT64_MAX);
}

/* -- chunks -- */

/* Feeds `text` in pieces of `step` bytes. Returns the body, or NULL when it was refused. */
static char *unchunked(struct str text, size_t step, bool *ret_done)
{
    struct http_chunks chunks = {.state = CHUNK_SIZE};
    struct buf waiting, body;
    char *result = NULL;
    bool good = true;

    buf_init(&waiting, 64 * 1024);
    buf_init(&body, 64 * 1024);
    for (size_t at = 0; good && at < text.len; at += step) {
        struct str rest, data;
        CHECK_OK("input",
                 buf_append(&waiting, str_of(text.at + at, min_size(step, text.len - at))));
        rest = buf_peek(&waiting);
        for (size_t before = SIZE_MAX; good && rest.len != before && chunks.state != CHUNK_DONE;) {
            before = rest.len;
            good = http_chunks_take(&chunks, &rest, &data);
            if (good) CHECK_OK("body", buf_append(&body, data));
        }
        buf_consume(&waiting, waiting.len - rest.len);
    }
    *ret_done = chunks.state == CHUNK_DONE;
    if (good) CHECK_OK("text", buf_detach(&body, &result));
    buf_deinit(&waiting);
    buf_deinit(&body);
    return result;
}

static const struct {
    const char *why;
    struct str text;
    const char *body; /* NULL: refused */
} chunk_cases[] = {
    {"one", HEAD("3\r\nabc\r\n0\r\n\r\n"), "abc"},
    {"none", HEAD("0\r\n\r\n"), ""},
    {"several", HEAD("1\r\na\r\n0A\r\nbcdefghijk\r\n0\r\n\r\n"), "abcdefghijk"},
    {"an extension", HEAD("3;name=\"v\"\r\nabc\r\n0;x\r\n\r\n"), "abc"},
    {"trailers", HEAD("1\r\na\r\n0\r\nDate: x\r\nY: z\r\n\r\n"), "a"},
    {"line ends inside data", HEAD("4\r\n\r\n\r\n\r\n0\r\n\r\n"), "\r\n\r\n"},
    {"no size", HEAD("\r\nabc\r\n0\r\n\r\n"), NULL},
    {"a sign", HEAD("+3\r\nabc\r\n0\r\n\r\n"), NULL},
    {"0x", HEAD("0x3\r\nabc\r\n0\r\n\r\n"), NULL},
    {"more than 60 bits", HEAD("1000000000000000\r\nabc\r\n0\r\n\r\n"), NULL},
    {"data longer than its size", HEAD("3\r\nabcd\r\n0\r\n\r\n"), NULL},
    {"data that ends with LF", HEAD("3\r\nabc\n0\r\n\r\n"), NULL},
    {"a size that ends with LF", HEAD("3\nabc\r\n0\r\n\r\n"), NULL},
};

TEST(chunks_are_joined_whatever_the_pieces)
{
    for (size_t i = 0; i < ARRAY_LEN(chunk_cases); i++) {
        for (size_t step = 1; step <= chunk_cases[i].text.len; step++) {
            bool done;
            char *body = unchunked(chunk_cases[i].text, step, &done);
            CHECK(chunk_cases[i].why, !body == !chunk_cases[i].body);
            if (body) CHECK_TEXT(chunk_cases[i].why, body, chunk_cases[i].body);
            CHECK(chunk_cases[i].why, done || !body);
            free(body);
        }
    }
}

TEST(lines_and_trailers_of_chunks_are_bounded)
{
    static char text[HTTP_TRAILERS_MAX * 2];
    bool done;
    char *body;

    memset(text, '1', sizeof text);
    CHECK("a size without end", !unchunked(str_of(text, HTTP_CHUNK_LINE_MAX + 2), 7, &done));
    strcpy(text, "0\r\n");
    for (size_t at = 3; at + 100 < sizeof text; at += 100) {
        memset(text + at, 'a', 98);
        text[at + 1] = ':';
        memcpy(text + at + 98, "\r\n", 2);
    }
    CHECK("trailers without end", !unchunked(str_of(text, sizeof text - 100), 500, &done));
    body = unchunked(str_of(text, 3 + 500), 500, &done);
    CHECK("some are fine", body && !done);
    free(body);
}
