/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the JSON of commands and rows, for reading and writing. Private to fleet/format. */
#ifndef FLEET_FORMAT_SHAPES_H
#define FLEET_FORMAT_SHAPES_H
#include "fleet/format/record.h"

extern const struct record_shape fleet_command_shape; /* field n: the payload of kind n */
enum { RECORD_KIND, RECORD_FORCE, RECORD_SINCE };     /* slots in numbers[] */
/* The members of the state's JSON: the rows of each table, then the seal. */
extern const struct shape_field fleet_members[FLEET_TABLES + 1];
extern const struct record_shape fleet_state_shape;
/* For --bootstrap-state: only quotas and providers. A quota may have provider and region directly,
 * without an object "key". */
extern const struct record_shape fleet_seed_shape;

/* Makes a row from the texts of `payload`. ERR_PARSE: a time is invalid. */
enum err record_row(const struct format_record *record, size_t payload, enum fleet_table table,
                    struct fleet_row *ret_row, struct note *note);
/* Appends the row, with its members in the specification's order. `flag` is the value of the
 * shape's FLAG. ERR_INVALID: not UTF-8, or a time out of range. */
enum err shape_put(struct buf *into, const struct record_shape *shape, const struct fleet_row *row,
                   bool flag);
#endif
