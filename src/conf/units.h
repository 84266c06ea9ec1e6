/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes and decimals in the form that people write.
 *
 *   duration  integers with units, the largest first: 250ms, 10s, 1m30s, 1m 30s, 2d; only "0" needs
 *             no unit
 *   size      an integer with B, KiB, MiB, GiB or TiB; without unit: bytes; KB and MB are refused,
 *             because they have two meanings
 *   decimal   at most six decimal places; stored in millionths, so that its value is exact */
#ifndef CONF_UNITS_H
#define CONF_UNITS_H
#include "base/note.h"
#include "base/str.h"

enum { UNITS_TEXT_CAP = 64 };

/* ERR_PARSE, ERR_TOO_LARGE (over 64 bits); the note says what would be valid. */
enum err units_parse_duration(struct str text, uint64_t *ret_ms, struct note *note);
enum err units_parse_size(struct str text, uint64_t *ret_bytes, struct note *note);
enum err units_parse_decimal(struct str text, uint64_t *ret_millionths, struct note *note);
/* Write the shortest exact form, which the functions above read back. */
void units_duration_text(uint64_t ms, char text[UNITS_TEXT_CAP]);
void units_size_text(uint64_t bytes, char text[UNITS_TEXT_CAP]);
void units_decimal_text(uint64_t millionths, char text[UNITS_TEXT_CAP]);
#endif
