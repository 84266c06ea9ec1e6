/* SPDX-License-Identifier: Apache-2.0 */
/* Splits JSON that arrives in pieces into tokens, for documents that are too large for memory.
 *
 * The scanner checks the grammar, but returns duplicate keys and large numbers as written. Bad
 * UTF-8 and unpaired surrogates become U+FFFD. Memory is bounded: text_max bytes for a text, and
 * JSON_SCAN_DEPTH levels. */
#ifndef TEXT_JSON_SCAN_H
#define TEXT_JSON_SCAN_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

enum { JSON_SCAN_DEPTH = 128 };

enum json_token {
    TOKEN_NEED, /* all input was read */
    TOKEN_OBJECT,
    TOKEN_OBJECT_END,
    TOKEN_ARRAY,
    TOKEN_ARRAY_END,
    TOKEN_KEY,    /* text: the unescaped key */
    TOKEN_STRING, /* text: the unescaped string */
    TOKEN_NUMBER, /* text: the number as written, which is valid JSON */
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
};
struct json_scan {   /* use only the functions below */
    uint64_t offset; /* number of bytes read so far */
    struct buf raw;  /* the beginning of an incomplete token */
    struct buf text; /* the last unescaped text */
    size_t text_max;
    bool arrays[JSON_SCAN_DEPTH]; /* by level; false: an object */
    uint32_t depth;
    uint8_t expect, word; /* enum expect and enum word of json_scan.c */
    bool escape, rewrite; /* escape: the next byte is escaped; rewrite: the token has escapes */
};

void json_scan_init(struct json_scan *scan, size_t text_max); /* allocates nothing */
void json_scan_deinit(struct json_scan *scan); /* a zeroed scanner is allowed, and a second call */
/* Reads one token and removes its bytes from *bytes. *ret_text is the text of a key, string or
 * number, and is valid until the next call. ERR_PARSE, ERR_TOO_LARGE and ERR_NOMEM have the note
 * "offset 17: ...". The scanner cannot be used after an error. */
enum err json_scan_next(struct json_scan *scan, struct str *bytes, enum json_token *ret_token,
                        struct str *ret_text, struct note *note);
/* True if a whole value was read, followed by blanks only. If the document is just a number, a
 * blank must follow. */
bool json_scan_whole(const struct json_scan *scan);
#endif
