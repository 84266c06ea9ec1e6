/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes quantities ("100m", "1.5Gi", "12e6"), exact.
 *
 * A quantity is a whole number of nano-units in 128 bits, and the family of suffixes it was written
 * in, which decides how it is printed. What Kubernetes does is done here: finer than a nano-unit
 * rounds away from zero, a binary quantity below 1 becomes decimal, and the canonical text has the
 * largest suffix that leaves a whole number.
 *
 * Two rules are stricter than there. No quantity reaches 2^63 units: Kubernetes caps a binary one
 * silently and lets a decimal one grow without end; here both are refused. And a text without a
 * digit ("k", ".", "-"), which its code reads as zero against its own grammar, is refused. */
#ifndef MODEL_QUANTITY_H
#define MODEL_QUANTITY_H
#include "base/note.h"
#include "base/str.h"

enum quantity_format {
    QUANTITY_DECIMAL_SI,       /* n u m "" k M G T P E */
    QUANTITY_BINARY_SI,        /* Ki Mi Gi Ti Pi Ei */
    QUANTITY_DECIMAL_EXPONENT, /* e3, e-6 */
};
struct quantity {
    int128 nano;
    enum quantity_format format;
};

#define NANO_PER_UNIT      ((int128)1000000000)
#define NANO_PER_MILLI     ((int128)1000000)
#define QUANTITY_UNITS_MAX INT64_MAX /* in either direction */
enum {
    QUANTITY_TEXT_MAX = 128, /* longer input is refused */
    QUANTITY_TEXT_CAP = 48,  /* canonical text with its NUL; 128 bits of milli-units fit too */
};

/* Sign, digits with an optional point, one suffix; no blanks. ERR_PARSE, ERR_TOO_LARGE; the note
 * says why, without the field, which the caller puts before it. */
enum err quantity_parse(struct str text, struct quantity *ret_quantity, struct note *note);
/* Canonical, with a closing NUL; returns the length. Takes any nano value, also a sum past 2^63
 * units: its number grows, the suffix stays at E or Ei. */
size_t quantity_text(const struct quantity *q, char text[QUANTITY_TEXT_CAP]);

int quantity_compare(const struct quantity *a, const struct quantity *b); /* <0, 0, >0 */
/* *a += b. The format stays a's, but a zero takes b's. ERR_TOO_LARGE leaves *a alone. */
enum err quantity_add(struct quantity *a, const struct quantity *b);
/* In thousandths, rounded away from zero, as Kubernetes does. */
int128 quantity_milli(const struct quantity *q);
/* |milli| <= QUANTITY_MILLI_MAX: the most whose nano-units still fit 128 bits. */
#define QUANTITY_MILLI_MAX (((int128)1 << 107) - 1)
struct quantity quantity_from_milli(int128 milli, enum quantity_format format);
/* Decimal, with a closing NUL; returns the length. printf knows no 128 bits. */
size_t int128_text(int128 value, char text[QUANTITY_TEXT_CAP]);
#endif
