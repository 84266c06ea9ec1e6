/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON into a buffer, one line per record, fast: for events, logs and `--json` output.
 *
 *     struct ndjson line;
 *     ndjson_begin(&line, &out, NDJSON_LINE);
 *     ndjson_string(&line, STR("kind"), STR("election"));
 *     ndjson_u64(&line, STR("term"), 7);
 *     err = ndjson_end(&line);
 *
 * A line is all or nothing: after the first failure the calls do nothing, and ndjson_end() returns
 * it with the buffer cut back to what it was before the line. No call needs its own check. Nothing
 * is allocated but the buffer's own growth.
 *
 * Whatever bytes a string holds, the line is valid JSON in UTF-8 on one line: each byte that is
 * not part of well-formed UTF-8 becomes U+FFFD. Characters that steer a terminal or turn the
 * direction of writing are written as \uXXXX: such lines are read on terminals too. Numbers that
 * JSON cannot say (not a number, infinity) become null. The writer does not look for the same key
 * twice. */
#ifndef TEXT_NDJSON_H
#define TEXT_NDJSON_H
#include "base/buf.h"
#include "base/str.h"

enum { NDJSON_DEPTH_MAX = 128 }; /* open objects and arrays at once; more is ERR_TOO_LARGE */

enum ndjson_style {
    NDJSON_LINE,   /* no blanks at all */
    NDJSON_PRETTY, /* two spaces per level, one field per line, for people */
};

/* In place of a key, inside an array and for a lone value. */
#define NDJSON_ITEM ((struct str){NULL, 0})

/* The caller's storage, to be used through the calls below only. Not needed after ndjson_end(). */
struct ndjson {
    struct buf *out;
    size_t start;                  /* bytes in `out` before the line: what a failure cuts back to */
    bool arrays[NDJSON_DEPTH_MAX]; /* per open level: an array, else an object */
    uint32_t depth;
    enum err err; /* the first failure */
    bool pretty, root_object;
    bool comma; /* there is a value before the next one on this level */
};

/* Begins a record that is an object. `out` stays the caller's and must not change in between. */
void ndjson_begin(struct ndjson *w, struct buf *out, enum ndjson_style style);
/* Begins a record that is any one value, put with NDJSON_ITEM as its key. */
void ndjson_begin_value(struct ndjson *w, struct buf *out, enum ndjson_style style);
/* Closes the object and the line ('\n'). ERR_FULL at the buffer's ceiling, ERR_NOMEM,
 * ERR_TOO_LARGE past NDJSON_DEPTH_MAX, ERR_INVALID for a bad raw value. */
enum err ndjson_end(struct ndjson *w);

void ndjson_string(struct ndjson *w, struct str key, struct str value);
void ndjson_c_string(struct ndjson *w, struct str key, const char *value); /* NULL: null */
void ndjson_u64(struct ndjson *w, struct str key, uint64_t value);
/* 16 hexadecimal digits as a text, for ids and hashes: other readers take a number past 53 bits for
 * a double. */
void ndjson_hex(struct ndjson *w, struct str key, uint64_t value);
void ndjson_i64(struct ndjson *w, struct str key, int64_t value);
void ndjson_double(struct ndjson *w, struct str key, double value);
void ndjson_bool(struct ndjson *w, struct str key, bool value);
void ndjson_null(struct ndjson *w, struct str key);
/* JSON text as it is; the caller vouches for it. Empty, or with a line break in it, is
 * ERR_INVALID. */
void ndjson_raw(struct ndjson *w, struct str key, struct str json);
void ndjson_open_object(struct ndjson *w, struct str key);
void ndjson_close_object(struct ndjson *w);
void ndjson_open_array(struct ndjson *w, struct str key);
void ndjson_close_array(struct ndjson *w);
#endif
