/* SPDX-License-Identifier: Apache-2.0 */
/* Converts demand: the bytes of a roll-up to rows, and rows to the frames of the inspection.
 *
 * A roll-up is accepted or refused as a whole. Errors name the row and the field
 * ("needs[3].aggregate_resources[cpu]: ..."). Rows are decoded one by one, because protobuf-c would
 * need up to 256 MiB for all rows. Runs on the thread that owns `dimensions`. */
#ifndef SHARD_NEED_WIRE_H
#define SHARD_NEED_WIRE_H
#include "model/need.h"
#include "model/wire/demand_wire.h"
#include "shard/core/core.h"

enum {
    ROLLUP_ROWS_MAX = 200000,       /* in one roll-up; reading a row takes about 1.4 KiB */
    ROLLUP_ROW_BYTES_MAX = 1 << 18, /* bytes of an encoded row */
    /* Resource names that demand must leave free for machines. */
    ROLLUP_DIMENSIONS_SPARED = 16,
    ROLLUP_OCCUPANCY_MAX = 65536, /* machines whose occupancy one roll-up reports */
};

struct rollup_rows { /* allocated in the arena */
    const struct need *rows;
    size_t count;
    size_t contradictions;     /* rows left out, because no machine can ever satisfy them */
    struct note contradiction; /* about the first of these rows */
    const struct machine_occupancy *occupancy;
    size_t occupancy_count;
    bool occupancy_pending; /* see core_occupancy() */
};
/* Decodes a ClusterCapacityNeeds that must name `cluster`. `rows_max` 0: ROLLUP_ROWS_MAX.
 * ERR_PARSE, ERR_INVALID, ERR_TOO_LARGE, ERR_FULL (too many resource names), ERR_NOMEM: the roll-up
 * is refused and `dimensions` is unchanged. */
enum err rollup_read(struct str bytes, struct str cluster, size_t rows_max, struct arena *arena,
                     struct dimensions *dimensions, struct rollup_rows *ret_rows,
                     struct note *note);

/* Decodes a roll-up and passes it to the core. After an error the last good demand stays; the core
 * counts and logs the error. */
enum err rollup_apply(struct core *core, struct str cluster, struct str bytes,
                      struct arena *scratch, mono_time now, enum rollup_verdict *ret_verdict,
                      struct rollup_rows *ret_rows, struct effects *out);

/* -- encoding -- */

/* Reusable buffers. `frame` holds the last frame. */
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
