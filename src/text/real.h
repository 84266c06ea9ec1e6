/* SPDX-License-Identifier: Apache-2.0 */
/* Converts doubles to text and back without loss, independent of the locale.
 *
 * The text always looks like a real number: "3.0", "1e+100". */
#ifndef TEXT_REAL_H
#define TEXT_REAL_H
#include "base/str.h"

enum { REAL_TEXT_CAP = 32 }; /* the longest is -1.2345678901234567e-308 */

/* Writes a finite double without a NUL and returns the length. */
size_t real_print(double value, char text[REAL_TEXT_CAP]);
/* Reads the whole text as a decimal number, correctly rounded. Numbers too small for a double
 * become 0. ERR_TOO_LARGE: too large for a double. ERR_PARSE. */
enum err real_read(const char *text, double *ret_value);
#endif
