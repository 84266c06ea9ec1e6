/* SPDX-License-Identifier: Apache-2.0 */
/* Splits JSON into tokens, from bytes that arrive in pieces. For documents that are too large for
 * memory, and for input from programs that write invalid text.
 *
 * The scanner checks the grammar and knows no schema. It returns duplicate keys, and every text and
 * number as written. Bytes that are not well-formed UTF-8, and unpaired surrogates, become U+FFFD.
 * Memory is bounded: one text of text_max bytes, and JSON_SCAN_DEPTH levels. To read a whole
 * document strictly see text/json.h. */
#ifndef TEXT_JSON_SCAN_H
#define TEXT_JSON_SCAN_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

enum { JSON_SCAN_DEPTH = 128 };

enum json_token {
    TOKEN_NEED, /* all bytes were read, and more are needed */
    TOKEN_OBJECT,
    TOKEN_OBJECT_END,
    TOKEN_ARRAY,
    TOKEN_ARRAY_END,
    TOKEN_KEY,    /* text: the unescaped key */
    TOKEN_STRING, /* text: the unescaped string */
    TOKEN_NUMBER, /* text: the number as written; its grammar was checked */
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
};
struct json_scan {   /* in the caller's storage; use only the functions below */
    uint64_t offset; /* number of bytes read so far */
    struct buf raw;  /* the beginning of a token that continues in the next piece */
    struct buf text; /* the last text that was unescaped */
    size_t text_max;
    bool arrays[JSON_SCAN_DEPTH]; /* indexed by level: true for an array, false for an object */
    uint32_t depth;
    uint8_t expect, word; /* values of enum expect and enum word of json_scan.c */
    bool escape, rewrite; /* escape: the next byte is escaped; rewrite: unescape the token */
};

void json_scan_init(struct json_scan *scan, size_t text_max); /* allocates nothing */
void json_scan_deinit(struct json_scan *scan); /* a zeroed scanner and a second call are fine */
/* Reads one token and removes its bytes from *bytes. *ret_text is set for keys, texts and numbers.
 * It points into `bytes` or into the scanner, and is valid until the next call. ERR_PARSE,
 * ERR_TOO_LARGE (text, depth), ERR_NOMEM, with "offset 17: ..." in the note; the scanner cannot be
 * used after an error. */
enum err json_scan_next(struct json_scan *scan, struct str *bytes, enum json_token *ret_token,
                        struct str *ret_text, struct note *note);
/* Returns true if a whole value was read, followed by blanks only. If the document is just a
 * number, a blank must follow. */
bool json_scan_whole(const struct json_scan *scan);
#endif
