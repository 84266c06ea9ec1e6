/* SPDX-License-Identifier: Apache-2.0 */
/* Splits JSON into tokens, from bytes that arrive in pieces. Used for documents that are too large
 * for memory, and for input from writers that are not strict.
 *
 * The scanner checks the grammar and knows no schema: duplicate keys, any text and any number are
 * passed on as written. Bytes that are not well-formed UTF-8 and unpaired surrogates become U+FFFD.
 * Memory is bounded: one text of text_max bytes, and JSON_SCAN_DEPTH levels. To read a whole
 * document strictly see text/json.h. */
#ifndef TEXT_JSON_SCAN_H
#define TEXT_JSON_SCAN_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

enum { JSON_SCAN_DEPTH = 128 };

enum json_token {
    TOKEN_NEED, /* all bytes are used up; more are needed */
    TOKEN_OBJECT,
    TOKEN_OBJECT_END,
    TOKEN_ARRAY,
    TOKEN_ARRAY_END,
    TOKEN_KEY,    /* text: unescaped */
    TOKEN_STRING, /* text: unescaped */
    TOKEN_NUMBER, /* text: as written; matches the grammar */
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
};
struct json_scan {   /* storage of the caller; use only through the functions below */
    uint64_t offset; /* bytes read so far */
    struct buf raw;  /* a token that continues in the next piece */
    struct buf text; /* a text that was unescaped */
    size_t text_max;
    bool arrays[JSON_SCAN_DEPTH]; /* per open level: true for an array, false for an object */
    uint32_t depth;
    uint8_t expect, word; /* enum expect and enum word of json_scan.c */
    bool escape, rewrite; /* present token: after a backslash; has an escape or a high byte */
};

void json_scan_init(struct json_scan *scan, size_t text_max); /* allocates nothing */
void json_scan_deinit(struct json_scan *scan); /* allowed on a zeroed scanner, and twice */
/* Reads one token and removes its bytes from *bytes. *ret_text is set for keys, texts and numbers;
 * it points into `bytes` or into the scanner and is valid until the next call. ERR_PARSE,
 * ERR_TOO_LARGE (text, depth), ERR_NOMEM, with "offset 17: ..." in the note; the scanner cannot be
 * used after an error. */
enum err json_scan_next(struct json_scan *scan, struct str *bytes, enum json_token *ret_token,
                        struct str *ret_text, struct note *note);
/* True if a whole value was read and only blanks followed it. A number that is the whole document
 * needs a blank after it. */
bool json_scan_whole(const struct json_scan *scan);
#endif
