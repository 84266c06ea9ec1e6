/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles to text and back without loss, whatever locale the process runs under.
 *
 * The printed form reads back as the same double. It always shows that it is a real number ("3.0",
 * "1e+100"), so that a reader which keeps integers and reals apart sees the same kind again. */
#ifndef TEXT_REAL_H
#define TEXT_REAL_H
#include "base/str.h"

enum { REAL_TEXT_CAP = 32 }; /* the longest is -1.2345678901234567e-308 */

/* Writes a finite double, no closing NUL, and returns the length. */
size_t real_print(double value, char text[REAL_TEXT_CAP]);
/* Reads the whole NUL-terminated text as a decimal floating-point number, correctly rounded.
 * ERR_TOO_LARGE past the range of a double (what is too small becomes 0), ERR_PARSE. */
enum err real_read(const char *text, double *ret_value);
#endif
