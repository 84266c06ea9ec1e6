/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes quantities ("100m", "1.5Gi", "12e6"), exact.
 *
 * A quantity is an integer of nano-units in 128 bits, with the family of suffixes it was written
 * with. The rules are those of Kubernetes, for example:
 * - amounts finer than a nano-unit are rounded away from zero
 * - a binary quantity below 1 becomes decimal
 * - the canonical text has the largest suffix that leaves an integer
 *
 * Two rules are stricter than in Kubernetes: 2^63 units and more are rejected, and so is a text
 * without a digit ("k", ".", "-"). */
#ifndef MODEL_QUANTITY_H
#define MODEL_QUANTITY_H
#include "base/note.h"
#include "base/str.h"

enum quantity_format {
    QUANTITY_DECIMAL_SI,       /* suffixes n u m "" k M G T P E */
    QUANTITY_BINARY_SI,        /* suffixes Ki Mi Gi Ti Pi Ei */
    QUANTITY_DECIMAL_EXPONENT, /* suffixes such as e3 and e-6 */
};
struct quantity {
    int128 nano;
    enum quantity_format format;
};

#define NANO_PER_UNIT      ((int128)1000000000)
#define NANO_PER_MILLI     ((int128)1000000)
#define QUANTITY_UNITS_MAX INT64_MAX /* largest absolute value */
enum {
    QUANTITY_TEXT_MAX = 128, /* bytes; longer input is rejected */
    QUANTITY_TEXT_CAP = 48,  /* canonical text with its NUL; fits 128 bits of milli-units */
};

/* Reads a sign, digits with an optional point, and one suffix; no blanks. ERR_PARSE, ERR_TOO_LARGE.
 * The caller adds the field's name to the note. */
enum err quantity_parse(struct str text, struct quantity *ret_quantity, struct note *note);
/* Writes the canonical text with a NUL and returns its length. A sum may exceed 2^63 units: the
 * number gets longer, the suffix stays at E or Ei. */
size_t quantity_text(const struct quantity *q, char text[QUANTITY_TEXT_CAP]);

int quantity_compare(const struct quantity *a, const struct quantity *b); /* <0, 0 or >0 */
/* Adds *b to *a, in the format of *a, or of *b if *a is 0. ERR_TOO_LARGE leaves *a unchanged. */
enum err quantity_add(struct quantity *a, const struct quantity *b);
/* Thousandths, rounded away from zero like in Kubernetes. */
int128 quantity_milli(const struct quantity *q);
/* The largest |milli| whose nano-units fit into 128 bits. */
#define QUANTITY_MILLI_MAX (((int128)1 << 107) - 1)
struct quantity quantity_from_milli(int128 milli, enum quantity_format format);
/* Writes a decimal with a NUL and returns its length; printf() cannot print 128 bits. */
size_t int128_text(int128 value, char text[QUANTITY_TEXT_CAP]);
#endif
