/* SPDX-License-Identifier: Apache-2.0 */
/* Parser of HTTP/1.1 requests: the head, chunked bodies, percent-decoding, safe paths. Pure.
 *
 * The parser is strict wherever two implementations could differ, so that a proxy agrees where a
 * request ends. A line ends with CR LF, and a colon directly follows a header name. A request has
 * one Host header and either one length or the coding "chunked". */
#ifndef IO_HTTP_HEAD_H
#define IO_HTTP_HEAD_H
#include "base/str.h"

enum http_field {
    FIELD_HOST,
    FIELD_CONTENT_LENGTH,
    FIELD_TRANSFER_ENCODING,
    FIELD_CONNECTION,
    FIELD_EXPECT,
    FIELD_CONTENT_TYPE,
    FIELD_AUTHORIZATION,
    FIELD_IF_NONE_MATCH,
    FIELD_ORIGIN,
    FIELD_LAST_EVENT_ID,
    FIELD_COUNT
};

/* Views into the head. */
struct http_head {
    struct str method, target;
    struct str fields[FIELD_COUNT]; /* first occurrence of each header, trimmed; empty if absent */
    bool old;                       /* HTTP/1.0 */
    bool chunked;
    bool close;        /* the connection closes after this request */
    bool continues;    /* waits for "100 Continue" */
    uint64_t body_len; /* Content-Length; above 64 bits: UINT64_MAX; chunked: 0 */
};

/* The length of the head, with its final empty line. 0: incomplete. SIZE_MAX: a line does not end
 * with CR LF. Empty lines before the request line count. */
size_t http_head_len(struct str input);
/* Returns 0, or status 400 or 505; *ret_head is then undefined. */
int http_head_read(struct str head, struct http_head *ret_head);

/* State of the parser of a chunked body. A chunk is a line with its size, the bytes, and CR LF. The
 * chunk of size 0 is followed by trailers, which are dropped, and an empty line. */
struct http_chunks {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILERS, CHUNK_DONE } state;
    uint64_t left;
    size_t trailer_bytes;
};
enum { HTTP_CHUNK_LINE_MAX = 1024, HTTP_TRAILERS_MAX = 8 * 1024 };
/* Takes bytes of *input. *ret_data is a piece of the body, maybe empty. Call until nothing is
 * taken. False: malformed. */
bool http_chunks_take(struct http_chunks *chunks, struct str *input, struct str *ret_data);

const char *http_reason(int status); /* "Not Found" for 404; "Unknown" for an unused status */
/* Percent-decodes once. ERR_PARSE for "%" without two hex digits and for an encoded NUL. `into`
 * must have room for text.len bytes. */
enum err http_decode(struct str text, bool plus_is_space, char *into, size_t *ret_len);
/* True for an absolute path in UTF-8 without control bytes and without segments "." and "..". */
bool http_path_is_safe(struct str path);
#endif
