/* SPDX-License-Identifier: Apache-2.0 */
/* Text of HTTP/1.1 requests: the head, the pieces of a chunked body, percent-decoding, safe paths.
 * Pure: no state, no I/O. For the files of the HTTP server and for tests.
 *
 * Strict where two readers could differ, so that a proxy in front of us and we agree where a
 * request ends: a line ends with CR LF; a name is a token with its colon behind it; one length or
 * the coding "chunked", never both; one Host. Anything else is 400. */
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
    struct str fields[FIELD_COUNT]; /* the first of each name, trimmed; empty when absent */
    bool old;                       /* HTTP/1.0 */
    bool chunked;
    bool close;        /* nothing follows this request on its connection */
    bool continues;    /* waits for "100 Continue" before it sends its body */
    uint64_t body_len; /* announced; UINT64_MAX for more than 64 bits; 0 when chunked */
};

/* Bytes of the head at the start of `input`, its empty line included; 0 while its end is not there,
 * SIZE_MAX for a line that does not end with CR LF. Empty lines before the request line are part of
 * it. */
size_t http_head_len(struct str input);
/* 0, or the status to refuse it with: 400, 505. The head is then not to be used. */
int http_head_read(struct str head, struct http_head *ret_head);

/* A chunked body, in order: the line of a size, that many bytes and CR LF; after the size 0,
 * trailers (which are dropped) and an empty line. */
struct http_chunks {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILERS, CHUNK_DONE } state;
    uint64_t left;        /* of the data */
    size_t trailer_bytes; /* so far */
};
enum { HTTP_CHUNK_LINE_MAX = 1024, HTTP_TRAILERS_MAX = 8 * 1024 };
/* Takes what it can from the front of *input; *ret_data is body, or empty. Call it until it takes
 * nothing. False: no such body. */
bool http_chunks_take(struct http_chunks *chunks, struct str *input, struct str *ret_data);

const char *http_reason(int status); /* "Not Found"; "Unknown" for one we never send */
/* Percent-decoding in one pass. '+' becomes a space when `plus_is_space`. ERR_PARSE for "%" without
 * two hex digits and for an encoded NUL. `into` must have room for text.len bytes. */
enum err http_decode(struct str text, bool plus_is_space, char *into, size_t *ret_len);
/* What may be handed to a handler: absolute, UTF-8, no control byte, no "." or ".." segment. */
bool http_path_is_safe(struct str path);
#endif
