/* SPDX-License-Identifier: Apache-2.0 */
/* A view of bytes that another object owns. Any byte is allowed; there is no closing NUL. */
#ifndef BASE_STR_H
#define BASE_STR_H
#include <string.h>

#include "base/err.h"

struct str {
    const char *at;
    size_t len;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_EMPTY    ((struct str){"", 0})
#define STR_ARG(s)   (int)(s).len, (s).at /* for "%.*s" of printf() */

struct str str_from(const char *c_string); /* NULL gives the empty view */
static inline struct str str_of(const void *bytes, size_t len)
{
    return (struct str){bytes, len};
}
/* Inline, because mostly the lengths differ. */
static inline bool str_equal(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}
bool str_equal_nocase(struct str a, struct str b); /* folds only ASCII letters */
int str_compare(struct str a, struct str b);       /* bytewise, a prefix is smaller; <0, 0, >0 */
int str_order(const void *a, const void *b);       /* for qsort() and bsearch() of struct str */
/* The empty view if `from` is past the end. */
static inline struct str str_tail(struct str s, size_t from)
{
    return from < s.len ? (struct str){s.at + from, s.len - from} : STR_EMPTY;
}
static inline bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_equal(str_of(s.at, prefix.len), prefix);
}
static inline bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && str_equal(str_tail(s, s.len - suffix.len), suffix);
}
/* Copies the bytes to *at and moves *at behind the copy. */
static inline struct str str_put(char **at, struct str s)
{
    struct str copy = {*at, s.len};

    if (s.len > 0) memcpy(*at, s.at, s.len);
    *at += s.len;
    return copy;
}
struct str str_trim(struct str s);     /* spaces, tabs, CR and LF at both ends */
size_t str_find(struct str s, char c); /* the index, or s.len if absent */
bool str_has(struct str s, char c);
size_t str_count(struct str s, char c); /* how often `c` occurs */
/* Returns the part before the first `separator`, and leaves the part behind it in *rest. Returns
 * false at the end. "a,,b" gives "a", "", "b". */
bool str_split(struct str *rest, char separator, struct str *ret_part);
/* Reads a decimal integer without sign or blanks. ERR_PARSE, or ERR_TOO_LARGE above 64 bits. */
enum err str_to_u64(struct str s, uint64_t *ret_value);
/* Like str_to_u64(), with an optional '-'. */
enum err str_to_i64(struct str s, int64_t *ret_value);
/* Returns a NUL-terminated copy for free(), or NULL. */
char *str_dup(struct str s);
/* True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool str_is_utf8(struct str s);
/* Returns the length, 1 to 4, of the well-formed sequence at `at`, or 0. `left` must be above 0. */
size_t utf8_step(const char *at, size_t left);
/* SipHash-1-3 with a key from the seed, the same on every machine. Without the seed nobody can
 * construct colliding strings. */
uint64_t str_hash(struct str s, uint64_t seed);
#endif
