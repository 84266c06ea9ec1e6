/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as a row of tokens, from bytes that come in pieces: for documents too large to hold, and for
 * writers that are not strict.
 *
 * It knows the grammar and no schema: duplicate keys, any text and any number come as written.
 * A byte that is not part of well-formed UTF-8, and a surrogate without its other half, becomes U+FFFD.
 * Memory is bounded: one text of text_max bytes, JSON_SCAN_DEPTH levels. To read a whole document
 * strictly see text/json.h. */
#ifndef TEXT_JSON_SCAN_H
#define TEXT_JSON_SCAN_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

enum { JSON_SCAN_DEPTH = 128 };

enum json_token {
    TOKEN_NEED, /* the bytes are used up */
    TOKEN_OBJECT,
    TOKEN_OBJECT_END,
    TOKEN_ARRAY,
    TOKEN_ARRAY_END,
    TOKEN_KEY,    /* text: unescaped */
    TOKEN_STRING, /* text: unescaped */
    TOKEN_NUMBER, /* text: as written, checked against the grammar */
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
};
struct json_scan {   /* the caller's storage, to be used through the calls below only */
    uint64_t offset; /* bytes read so far */
    struct buf raw;  /* a word that the end of a piece cut */
    struct buf text; /* a text that had to be rewritten */
    size_t text_max;
    bool arrays[JSON_SCAN_DEPTH]; /* per open level: an array, else an object */
    uint32_t depth;
    uint8_t expect, word; /* json_scan.c */
    bool escape, rewrite; /* of the word: behind a backslash; holds an escape or a high byte */
};

void json_scan_init(struct json_scan *scan, size_t text_max); /* takes no memory yet */
void json_scan_deinit(struct json_scan *scan);                /* fine on a zeroed one, and twice */
/* Takes from *bytes what it needs for one token. *ret_text is set for keys, texts and numbers: in
 * `bytes` or the scanner's own, valid until the next call. ERR_PARSE, ERR_TOO_LARGE (text, depth),
 * ERR_NOMEM, with "offset 17: ..." in the note; final. */
enum err json_scan_next(struct json_scan *scan, struct str *bytes, enum json_token *ret_token,
                        struct str *ret_text, struct note *note);
/* Whether a whole value was read and nothing but blanks came after it. A number that is all of the
 * document is whole only with a blank behind it. */
bool json_scan_whole(const struct json_scan *scan);
#endif
