/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of one code point in UTF-8, for the readers and writers of this module.
 *
 * Handles code points only: no normal forms, widths or classes. Only the shortest form of a scalar
 * value is well formed: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H
#include "base/str.h"

enum { UTF8_LEN_MAX = 4 };

/* Reads a character like utf8_step(), and returns its scalar value. `s` must not be empty. */
size_t utf8_read(struct str s, uint32_t *ret_scalar);
/* Returns true for characters that can control a terminal, end a line, or change the writing
 * direction: C0, DEL, C1, line and paragraph separators, zero-width marks, embeddings, isolates. */
bool utf8_is_control(uint32_t scalar);
/* Returns true for a code point that UTF-8 can encode: up to U+10FFFF, but not a surrogate. */
bool utf8_is_scalar(uint32_t code_point);
/* Writes a scalar value. Returns its length, 1 to 4 bytes. */
size_t utf8_write(uint32_t scalar, char out[UTF8_LEN_MAX]);
/* Returns the number of code points in well-formed text. */
size_t utf8_count(struct str s);
/* Returns the longest prefix of `s` with at most `len_max` bytes that does not cut a character. */
struct str utf8_clip(struct str s, size_t len_max);
#endif
