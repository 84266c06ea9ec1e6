/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes and decimals as people write them.
 *
 * A duration is one or more whole numbers with units, largest first: 250ms, 10s, 1m30s, 1m 30s, 2d.
 * Only "0" needs no unit. A size is one whole number with B, KiB, MiB, GiB or TiB; without a unit
 * it is bytes. KB and MB are refused: they mean two things. A decimal has up to six digits behind
 * its point and is kept in millionths, so that what is written is exactly what is meant. */
#ifndef CONF_UNITS_H
#define CONF_UNITS_H
#include "base/note.h"
#include "base/str.h"

enum { UNITS_TEXT_CAP = 64 };

/* ERR_PARSE, ERR_TOO_LARGE past 64 bits; the note says what would be right. */
enum err units_parse_duration(struct str text, uint64_t *ret_ms, struct note *note);
enum err units_parse_size(struct str text, uint64_t *ret_bytes, struct note *note);
enum err units_parse_decimal(struct str text, uint64_t *ret_millionths, struct note *note);
/* The shortest exact form; what it prints, the reader above reads back. */
void units_duration_text(uint64_t ms, char text[UNITS_TEXT_CAP]);
void units_size_text(uint64_t bytes, char text[UNITS_TEXT_CAP]);
void units_decimal_text(uint64_t millionths, char text[UNITS_TEXT_CAP]);
#endif
