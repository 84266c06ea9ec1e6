/* SPDX-License-Identifier: Apache-2.0 */
/* Demand between the wire and the model: a roll-up's bytes to rows, rows to the frames of the
 * inspection.
 *
 * A roll-up is taken whole or not at all, and a refusal names the row and the field as the wire
 * calls them ("needs[3].aggregate_resources[cpu]: ..."). It is read row by row: memory follows the
 * rows, not what protobuf-c makes of 256 MiB. Runs on the thread that owns `dimensions`. */
#ifndef SHARD_NEED_WIRE_H
#define SHARD_NEED_WIRE_H
#include "model/need.h"
#include "model/wire/demand_wire.h"
#include "shard/core/core.h"

enum {
    ROLLUP_ROWS_MAX = 200000,       /* of one roll-up; a row takes about 1.4 KiB while it is read */
    ROLLUP_ROW_BYTES_MAX = 1 << 18, /* encoded; what passes the checks of the model is smaller */
    /* Resource names that demand leaves free in the shard's table: a cluster that invents names
     * must not take those of the machines. */
    ROLLUP_DIMENSIONS_SPARED = 16,
};

struct rollup_rows { /* in the arena */
    const struct need *rows;
    size_t count;
    size_t contradictions; /* rows left out: no machine can ever satisfy them, and one careless pod
                              must not cost its cluster the roll-up */
    struct note contradiction; /* the first of them, with its row */
};
/* Reads a ClusterCapacityNeeds that must name `cluster`. `rows_max` 0: ROLLUP_ROWS_MAX. ERR_PARSE,
 * ERR_INVALID, ERR_TOO_LARGE, ERR_FULL (resource names), ERR_NOMEM: refused, and `dimensions` is
 * what it was. */
enum err rollup_read(struct str bytes, struct str cluster, size_t rows_max, struct arena *arena,
                     struct dimensions *dimensions, struct rollup_rows *ret_rows,
                     struct note *note);

/* Reads it and gives it to the core. Refused by either: ERR_*, the last good demand stays, and it
 * is counted and logged once, by the core. `ret_rows` is set as soon as it was read. */
enum err rollup_apply(struct core *core, struct str cluster, struct str bytes,
                      struct arena *scratch, mono_time now, enum rollup_verdict *ret_verdict,
                      struct rollup_rows *ret_rows, struct effects *out);

/* -- the other direction -- */

/* Memory for one frame after the other: the last one is in `frame`. */
struct frame_writer {
    struct buf frame, body, part, piece;
};
void frame_writer_init(struct frame_writer *writer);
void frame_writer_deinit(struct frame_writer *writer);
/* InspectNeedsResponse. Presence as wire.md § 7 says. ERR_FULL (8 MiB), ERR_NOMEM. */
enum err need_write_header(struct frame_writer *writer, const struct needs_view *view);
enum err need_write_view(struct frame_writer *writer, const struct need_view *view,
                         const struct dimensions *dimensions);
#endif
