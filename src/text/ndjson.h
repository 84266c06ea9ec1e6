/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON into a buffer, one line per record: for events, logs and `--json` output.
 *
 *     struct ndjson line;
 *     ndjson_begin(&line, &out, NDJSON_LINE);
 *     ndjson_string(&line, STR("kind"), STR("election"));
 *     ndjson_u64(&line, STR("term"), 7);
 *     err = ndjson_end(&line);
 *
 * A record is written completely or not at all. After a failure all calls do nothing, and
 * ndjson_end() restores the buffer and returns the error. Only the buffer allocates memory.
 *
 * The output is valid JSON in UTF-8:
 * - bytes of a string that are not UTF-8 become U+FFFD
 * - characters that control a terminal or the direction of writing become \uXXXX
 * - NaN and infinity become null
 * Duplicate keys are not detected. */
#ifndef TEXT_NDJSON_H
#define TEXT_NDJSON_H
#include "base/buf.h"
#include "base/str.h"

enum { NDJSON_DEPTH_MAX = 128 }; /* open objects and arrays; more are ERR_TOO_LARGE */

enum ndjson_style {
    NDJSON_LINE,   /* no blanks */
    NDJSON_PRETTY, /* for people: two spaces per level, one field per line */
};

/* The key of an array's item, and of a record that is a single value. */
#define NDJSON_ITEM ((struct str){NULL, 0})

/* In the caller's storage. Use only the functions below. */
struct ndjson {
    struct buf *out;
    size_t start;                  /* length of `out` before the record */
    bool arrays[NDJSON_DEPTH_MAX]; /* by level; false: an object */
    uint32_t depth;
    enum err err; /* the first error */
    bool pretty, root_object;
    bool comma; /* the next value of this level needs a comma */
};

/* `out` must not change until ndjson_end(). */
void ndjson_begin(struct ndjson *w, struct buf *out, enum ndjson_style style);
/* Starts a record that is one value with the key NDJSON_ITEM. */
void ndjson_begin_value(struct ndjson *w, struct buf *out, enum ndjson_style style);
/* Ends the record and its line ('\n'). ERR_FULL at the buffer's limit, ERR_NOMEM, ERR_TOO_LARGE
 * above NDJSON_DEPTH_MAX, ERR_INVALID for a bad raw value. */
enum err ndjson_end(struct ndjson *w);

void ndjson_string(struct ndjson *w, struct str key, struct str value);
/* NULL is written as null */
void ndjson_c_string(struct ndjson *w, struct str key, const char *value);
void ndjson_u64(struct ndjson *w, struct str key, uint64_t value);
/* Writes 16 hexadecimal digits as a string: many readers convert JSON numbers to double, which has
 * 53 bits. */
void ndjson_hex(struct ndjson *w, struct str key, uint64_t value);
void ndjson_i64(struct ndjson *w, struct str key, int64_t value);
void ndjson_double(struct ndjson *w, struct str key, double value);
void ndjson_bool(struct ndjson *w, struct str key, bool value);
void ndjson_null(struct ndjson *w, struct str key);
/* Writes JSON text unchanged and unchecked. ERR_INVALID if the text is empty or has a line
 * break. */
void ndjson_raw(struct ndjson *w, struct str key, struct str json);
void ndjson_open_object(struct ndjson *w, struct str key);
void ndjson_close_object(struct ndjson *w);
void ndjson_open_array(struct ndjson *w, struct str key);
void ndjson_close_array(struct ndjson *w);
#endif
