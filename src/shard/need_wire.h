/* SPDX-License-Identifier: Apache-2.0 */
/* Converts demand: the bytes of a roll-up to rows, and rows to the frames of the inspection.
 *
 * A roll-up is accepted or refused as a whole. An error names the row and the field as on the wire
 * ("needs[3].aggregate_resources[cpu]: ..."). The roll-up is decoded row by row, because protobuf-c
 * would decode all rows at once into up to 256 MiB. Runs on the thread that owns `dimensions`. */
#ifndef SHARD_NEED_WIRE_H
#define SHARD_NEED_WIRE_H
#include "model/need.h"
#include "model/wire/demand_wire.h"
#include "shard/core/core.h"

enum {
    ROLLUP_ROWS_MAX = 200000,       /* rows of one roll-up; reading a row takes about 1.4 KiB */
    ROLLUP_ROW_BYTES_MAX = 1 << 18, /* bytes of an encoded row; every valid row is smaller */
    /* Resource names in the shard's table that demand must leave free, so that a cluster with
     * invented names cannot use up the names for machines. */
    ROLLUP_DIMENSIONS_SPARED = 16,
};

struct rollup_rows { /* allocated in the arena */
    const struct need *rows;
    size_t count;
    size_t contradictions; /* Rows left out because no machine can ever satisfy them. One careless
                            * pod must not cost its cluster the whole roll-up. */
    struct note contradiction; /* describes the first row left out */
};
/* Decodes a ClusterCapacityNeeds that must name `cluster`. A `rows_max` of 0 means ROLLUP_ROWS_MAX.
 * After ERR_PARSE, ERR_INVALID, ERR_TOO_LARGE, ERR_FULL (too many resource names) and ERR_NOMEM the
 * roll-up is refused and `dimensions` is unchanged. */
enum err rollup_read(struct str bytes, struct str cluster, size_t rows_max, struct arena *arena,
                     struct dimensions *dimensions, struct rollup_rows *ret_rows,
                     struct note *note);

/* Decodes a roll-up and passes it to the core. If decoding or the core fails, returns the error and
 * the last good demand stays. The core counts and logs the error. Decoding sets `ret_rows`. */
enum err rollup_apply(struct core *core, struct str cluster, struct str bytes,
                      struct arena *scratch, mono_time now, enum rollup_verdict *ret_verdict,
                      struct rollup_rows *ret_rows, struct effects *out);

/* -- encoding -- */

/* Reusable buffers for frames. `frame` holds the last frame. */
struct frame_writer {
    struct buf frame, body, part, piece;
};
void frame_writer_init(struct frame_writer *writer);
void frame_writer_deinit(struct frame_writer *writer);
/* Writes an InspectNeedsResponse (docs/spec/wire.md § 7). ERR_FULL beyond 8 MiB, ERR_NOMEM. */
enum err need_write_header(struct frame_writer *writer, const struct needs_view *view);
enum err need_write_view(struct frame_writer *writer, const struct need_view *view,
                         const struct dimensions *dimensions);
#endif
