/* SPDX-License-Identifier: Apache-2.0 */
/* Converts doubles and text by the rules of the locale "C", whatever the process's locale is. */
#include "text/real.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If n and 10^k are exact doubles, n / 10^k is correctly rounded. Such numbers are printed as the
 * digits of n, ten times faster than with printf(). */
/* index: number of decimal places - 1 */
static const double powers[] = {1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
#define EXACT_MAX 9007199254740992.0 /* 2^53 */

/* The C locale is part of libc: newlocale() allocates nothing and needs no freelocale(). */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static size_t print_scaled(bool negative, uint64_t scaled, size_t places, char *text)
{
    char reversed[REAL_TEXT_CAP];
    size_t len = 0, count = 0;

    for (size_t i = 0; i < places; i++, scaled /= 10) reversed[count++] = (char)('0' + scaled % 10);
    reversed[count++] = '.';
    do {
        reversed[count++] = (char)('0' + scaled % 10);
        scaled /= 10;
    } while (scaled > 0);
    if (negative) text[len++] = '-';
    while (count > 0) text[len++] = reversed[--count];
    return len;
}

static size_t print_short_decimal(double value, char text[REAL_TEXT_CAP])
{
    bool negative = signbit(value);
    double magnitude = fabs(value);

    for (size_t i = 0; i < ARRAY_LEN(powers); i++) {
        double scaled = magnitude * powers[i];
        if (scaled >= EXACT_MAX) return 0;
        scaled = rint(scaled);
        if (scaled / powers[i] == magnitude)
            return print_scaled(negative, (uint64_t)scaled, i + 1, text);
    }
    return 0;
}

size_t real_print(double value, char text[REAL_TEXT_CAP])
{
    char tried[REAL_TEXT_CAP + 8];
    locale_t before;
    size_t len;

    assert(isfinite(value));
    len = print_short_decimal(value, text);
    if (len > 0) return len;
    before = uselocale(c_locale());
    for (int digits = 15; digits <= 17; digits++) { /* 17 digits always identify a double */
        len = (size_t)snprintf(tried, sizeof tried, "%.*g", digits, value);
        if (strtod(tried, NULL) == value) break;
    }
    uselocale(before);
    if (strspn(tried, "-0123456789") == len) { /* an integer above 2^53 */
        tried[len++] = '.';
        tried[len++] = '0';
    }
    assert(len <= REAL_TEXT_CAP);
    memcpy(text, tried, len);
    return len;
}

enum err real_read(const char *text, double *ret_value)
{
    char *end;
    double value;
    int saved = errno;
    bool overflow;

    /* strtod() also accepts blanks, hexadecimal numbers, infinity and NaN. */
    if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0') return ERR_PARSE;
    errno = 0;
    value = strtod_l(text, &end, c_locale());
    overflow = errno == ERANGE && isinf(value);
    errno = saved;
    if (*end != '\0') return ERR_PARSE;
    if (overflow) return ERR_TOO_LARGE;
    *ret_value = value;
    return ERR_OK;
}
