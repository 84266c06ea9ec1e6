/* SPDX-License-Identifier: Apache-2.0 */
/* One step of UTF-8, for the readers and writers of this module.
 *
 * Knows code points and nothing else: no normal forms, no widths, no classes. Only the shortest
 * form of a scalar value is well formed: no overlong form, no surrogate, nothing past U+10FFFF. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H
#include "base/str.h"

enum { UTF8_LEN_MAX = 4 };

/* utf8_step(), with the scalar value. `s` is not empty. */
size_t utf8_read(struct str s, uint32_t *ret_scalar);
/* True for a character that can steer a terminal, end a line, or turn the direction of writing:
 * C0, DEL, C1, line and paragraph separators, marks without width, embeddings and isolates. */
bool utf8_is_control(uint32_t scalar);
/* True for a number that UTF-8 can carry: up to U+10FFFF and no surrogate. */
bool utf8_is_scalar(uint32_t code_point);
/* Writes a scalar value and returns its length, 1..4. */
size_t utf8_write(uint32_t scalar, char out[UTF8_LEN_MAX]);
/* Code points in well-formed text: the bytes that do not continue a sequence. */
size_t utf8_count(struct str s);
/* The longest beginning of `s` that has at most `len_max` bytes and cuts no sequence in two. */
struct str utf8_clip(struct str s, size_t len_max);
#endif
