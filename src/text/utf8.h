/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 by code points. Well formed means the shortest form of a scalar value: no surrogates,
 * nothing above U+10FFFF. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H
#include "base/str.h"

enum { UTF8_LEN_MAX = 4 };

/* Reads the first character of `s`, which must not be empty. Returns its length: see
 * utf8_step(). */
size_t utf8_read(struct str s, uint32_t *ret_scalar);
/* True for characters that control a terminal, end a line or change the writing direction. */
bool utf8_is_control(uint32_t scalar);
/* True for a code point up to U+10FFFF that is no surrogate. */
bool utf8_is_scalar(uint32_t code_point);
size_t utf8_write(uint32_t scalar, char out[UTF8_LEN_MAX]);
size_t utf8_count(struct str s);
/* Cuts `s` to at most `len_max` bytes, between two characters. */
struct str utf8_clip(struct str s, size_t len_max);
#endif
