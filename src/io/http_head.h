/* SPDX-License-Identifier: Apache-2.0 */
/* Parser of HTTP/1.1 requests: the head, chunked bodies, percent-decoding, safe paths. Pure: no
 * state, no I/O. Used by the HTTP server and by tests.
 *
 * The parser is strict wherever two implementations could differ, so a proxy before the server
 * agrees where a request ends. A line ends with CR LF. A colon directly follows a header name. A
 * request has one Host header and either one length or the coding "chunked". All else is 400. */
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

/* The parts of a request head; views into the head. */
struct http_head {
    struct str method, target;
    struct str fields[FIELD_COUNT]; /* first occurrence of each header, trimmed; empty if absent */
    bool old;                       /* the request uses HTTP/1.0 */
    bool chunked;
    bool close;        /* the connection closes after this request */
    bool continues;    /* the client waits for "100 Continue" before it sends the body */
    uint64_t body_len; /* Content-Length; UINT64_MAX if it exceeds 64 bits; 0 for a chunked body */
};

/* Returns the length of the head at the start of `input`, with the final empty line and any empty
 * lines before the request line. Returns 0 if the head is incomplete, and SIZE_MAX if a line does
 * not end with CR LF. */
size_t http_head_len(struct str input);
/* Parses a head. Returns 0, or status 400 or 505; *ret_head is then undefined. */
int http_head_read(struct str head, struct http_head *ret_head);

/* State of the parser of a chunked body. A chunk is a line with its size, that many bytes, and CR
 * LF. After a chunk of size 0 follow trailers, which are dropped, and an empty line. */
struct http_chunks {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILERS, CHUNK_DONE } state;
    uint64_t left;        /* remaining bytes of the current chunk */
    size_t trailer_bytes; /* bytes of trailers received so far */
};
enum { HTTP_CHUNK_LINE_MAX = 1024, HTTP_TRAILERS_MAX = 8 * 1024 };
/* Consumes bytes from the start of *input, and sets *ret_data to a piece of the body or to an empty
 * text. Call until nothing is consumed. Returns false if the body is malformed. */
bool http_chunks_take(struct http_chunks *chunks, struct str *input, struct str *ret_data);

const char *http_reason(int status); /* for 404 "Not Found"; "Unknown" for an unused status */
/* Percent-decodes in one pass. '+' becomes a space if `plus_is_space`. ERR_PARSE for "%" without
 * two hex digits and for an encoded NUL. `into` must have room for text.len bytes. */
enum err http_decode(struct str text, bool plus_is_space, char *into, size_t *ret_len);
/* True for a path that may reach a handler: absolute, UTF-8, no control byte, no "." or "..". */
bool http_path_is_safe(struct str path);
#endif
