/* SPDX-License-Identifier: Apache-2.0 */
/* Single steps of UTF-8, for the readers and writers of this module.
 *
 * Handles code points only: no normal forms, widths or classes. Only the shortest form of a scalar
 * value is well formed: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H
#include "base/str.h"

enum { UTF8_LEN_MAX = 4 };

/* Like utf8_step(), and returns the scalar value. `s` must not be empty. */
size_t utf8_read(struct str s, uint32_t *ret_scalar);
/* True for characters that can control a terminal, end a line, or change the direction of writing:
 * C0, DEL, C1, line and paragraph separators, zero-width marks, embeddings and isolates. */
bool utf8_is_control(uint32_t scalar);
/* True for a code point that UTF-8 can encode: up to U+10FFFF, but not a surrogate. */
bool utf8_is_scalar(uint32_t code_point);
/* Writes a scalar value and returns its length, 1..4. */
size_t utf8_write(uint32_t scalar, char out[UTF8_LEN_MAX]);
/* Counts the code points of well-formed text. */
size_t utf8_count(struct str s);
/* Returns the longest prefix of `s` of at most `len_max` bytes that ends between two sequences. */
struct str utf8_clip(struct str s, size_t len_max);
#endif
