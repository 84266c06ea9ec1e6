/* SPDX-License-Identifier: Apache-2.0 */
/* Roll-ups: any input gives rows or a reason; accepted rows are written and read again as the same
 * rows. */
#include <stddef.h>
#include <stdint.h>

#include "lib/need_view_make.h"
#include "shard/need_wire.h"
#include "wire/field.h"

enum { ROWS = 1000 };

/* Reads the row from a frame of the inspection into a roll-up of its own. */
static void check_again(const struct need *need, const struct dimensions *dimensions)
{
    struct view_made made;
    struct need_view view = need_view_make(&made, need);
    struct frame_writer writer;
    struct rollup_rows rows;
    struct dimensions names;
    struct arena arena;
    struct buf bytes;
    struct pack pack;
    struct fields fields;
    struct field field;

    frame_writer_init(&writer);
    buf_init(&bytes, 1 << 20);
    arena_init(&arena, 64 << 20);
    dimensions_init(&names);
    assert(!need_write_view(&writer, &view, dimensions));
    fields = fields_of(buf_peek(&writer.frame));
    assert(fields_next(&fields, &field) && field.number == 2); /* the view */
    fields = fields_of(field.bytes);
    assert(fields_next(&fields, &field) && field.number == 1); /* its need */
    pack = (struct pack){&bytes, ERR_OK};
    pack_text(&pack, 1, need->cluster);
    pack_bytes(&pack, 3, field.bytes);
    assert(!pack.err);
    assert(!rollup_read(buf_peek(&bytes), need->cluster, 1, &arena, &names, &rows, NULL));
    assert(rows.count == 1);
    assert(str_equal(rows.rows[0].profile.fingerprint, need->profile.fingerprint));
    assert(str_equal(rows.rows[0].group, need->group));
    assert(resource_bits(rows.rows[0].aggregate.mask) == resource_bits(need->aggregate.mask));
    dimensions_deinit(&names);
    arena_deinit(&arena);
    buf_deinit(&bytes);
    frame_writer_deinit(&writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct note note = {""};
    struct dimensions dimensions;
    struct rollup_rows rows;
    struct arena arena;
    enum err err;

    arena_init(&arena, 64 << 20);
    dimensions_init(&dimensions);
    err = rollup_read(str_of(data, size), STR("a"), ROWS, &arena, &dimensions, &rows, &note);
    if (err) {
        assert(note.text[0] || err == ERR_NOMEM);
        assert(dimensions.count == 0);
    } else {
        assert(rows.count + rows.contradictions <= ROWS);
        for (size_t i = 0; i < rows.count; i++) check_again(&rows.rows[i], &dimensions);
    }
    dimensions_deinit(&dimensions);
    arena_deinit(&arena);
    return 0;
}
