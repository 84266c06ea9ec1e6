/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and the rows of the tables as JSON: one description, by which they are read and written.
 * Inside of fleet/format. */
#ifndef FLEET_FORMAT_SHAPES_H
#define FLEET_FORMAT_SHAPES_H
#include "fleet/format/record.h"

extern const struct record_shape fleet_command_shape; /* its field n is the payload of kind n */
enum { RECORD_KIND, RECORD_FORCE, RECORD_SINCE };     /* slots of its numbers */
/* The members of a state: rows by table, then its seal. */
extern const struct shape_field fleet_members[FLEET_TABLES + 1];
extern const struct record_shape fleet_state_shape;
/* Of --bootstrap-state: a quota's key may be outside of "key"; tables that are no seed are passed
 * over. */
extern const struct record_shape fleet_seed_shape;

/* What was read, from the texts of `payload`. ERR_PARSE: a time that is none. */
enum err record_row(const struct format_record *record, size_t payload, enum fleet_table table,
                    struct fleet_row *ret_row, struct note *note);
/* Appends the row, in the order of the specification; `flag` is the value of the shape's FLAG.
 * ERR_INVALID: not UTF-8, or a time out of range. */
enum err shape_put(struct buf *into, const struct record_shape *shape, const struct fleet_row *row,
                   bool flag);
#endif
