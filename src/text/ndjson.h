/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON into a buffer, one line per record, fast: for events, logs and `--json` output.
 *
 *     struct ndjson line;
 *     ndjson_begin(&line, &out, NDJSON_LINE);
 *     ndjson_string(&line, STR("kind"), STR("election"));
 *     ndjson_u64(&line, STR("term"), 7);
 *     err = ndjson_end(&line);
 *
 * A line is all or nothing: after the first failure the calls do nothing. Then ndjson_end()
 * restores the buffer to its length before the line and returns the error, so other calls need no
 * check. Only the buffer itself allocates memory.
 *
 * The output is always valid JSON in UTF-8, on one line: each byte of a string that is not part of
 * well-formed UTF-8 becomes U+FFFD. Characters that control a terminal or change the direction of
 * writing are written as \uXXXX, because people read such lines on terminals. NaN and infinity
 * become null. The writer does not detect duplicate keys. */
#ifndef TEXT_NDJSON_H
#define TEXT_NDJSON_H
#include "base/buf.h"
#include "base/str.h"

enum { NDJSON_DEPTH_MAX = 128 }; /* open objects and arrays; more are ERR_TOO_LARGE */

enum ndjson_style {
    NDJSON_LINE,   /* no blanks */
    NDJSON_PRETTY, /* for people: two spaces per level, one field per line */
};

/* The key of an array's item, or of a record that is a single value. */
#define NDJSON_ITEM ((struct str){NULL, 0})

/* A writer in the caller's storage; use only the functions below. Not needed after ndjson_end(). */
struct ndjson {
    struct buf *out;
    size_t start;                  /* length of `out` before the record; restored after a failure */
    bool arrays[NDJSON_DEPTH_MAX]; /* indexed by level: true for an array, false for an object */
    uint32_t depth;
    enum err err; /* the first error */
    bool pretty, root_object;
    bool comma; /* a comma must precede the next value of the level */
};

/* Starts a record that is an object. `out` must not change until ndjson_end(). */
void ndjson_begin(struct ndjson *w, struct buf *out, enum ndjson_style style);
/* Starts a record that is a single value of any kind. Its key is NDJSON_ITEM. */
void ndjson_begin_value(struct ndjson *w, struct buf *out, enum ndjson_style style);
/* Closes the record's object and ends the line ('\n'). ERR_FULL at the buffer's limit, ERR_NOMEM,
 * ERR_TOO_LARGE above NDJSON_DEPTH_MAX, ERR_INVALID for a bad raw value. */
enum err ndjson_end(struct ndjson *w);

void ndjson_string(struct ndjson *w, struct str key, struct str value);
/* NULL is written as null */
void ndjson_c_string(struct ndjson *w, struct str key, const char *value);
void ndjson_u64(struct ndjson *w, struct str key, uint64_t value);
/* Writes 16 hexadecimal digits as a string, for ids and hashes, because many readers convert
 * numbers to double, which has 53 bits. */
void ndjson_hex(struct ndjson *w, struct str key, uint64_t value);
void ndjson_i64(struct ndjson *w, struct str key, int64_t value);
void ndjson_double(struct ndjson *w, struct str key, double value);
void ndjson_bool(struct ndjson *w, struct str key, bool value);
void ndjson_null(struct ndjson *w, struct str key);
/* Writes JSON text unchanged. The caller must ensure that the text is valid. ERR_INVALID if the
 * text is empty or contains a line break. */
void ndjson_raw(struct ndjson *w, struct str key, struct str json);
void ndjson_open_object(struct ndjson *w, struct str key);
void ndjson_close_object(struct ndjson *w);
void ndjson_open_array(struct ndjson *w, struct str key);
void ndjson_close_array(struct ndjson *w);
#endif
