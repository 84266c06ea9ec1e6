/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the state as one line of JSON, from a view. */
#include <stdlib.h>

#include "fleet/format/shapes.h"
#include "fleet/format/state.h"

struct fleet_state_writer {
    struct fleet_view *view;
    struct fleet_state_style style;
    enum fleet_table table; /* the table being written */
    bool begun, any, done;  /* set after any byte, a row of this table, the last byte */
};

enum err fleet_state_write_open(struct fleet *fleet, struct fleet_state_style style,
                                struct fleet_state_writer **ret_writer)
{
    struct fleet_state_writer *writer = malloc(sizeof *writer);
    enum err err;

    if (!writer) return ERR_NOMEM;
    *writer = (struct fleet_state_writer){.style = style};
    err = fleet_view_open(fleet, &writer->view);
    if (err)
        free(writer);
    else
        *ret_writer = writer;
    return err;
}

void fleet_state_write_close(void *opaque)
{
    struct fleet_state_writer *writer = opaque;

    if (!writer) return;
    fleet_view_close(writer->view);
    free(writer);
}

static bool any_leaving(const struct fleet_state_writer *writer)
{
    return fleet_view_counts(writer->view).of[FLEET_LEAVING] > 0;
}

static enum fleet_table tables_end(const struct fleet_state_writer *writer)
{
    return any_leaving(writer) ? FLEET_TABLES : FLEET_LEAVING;
}

/* Writes the text before the rows of `table`. A table without rows is null or {}. */
static enum err tables_until(struct fleet_state_writer *writer, enum fleet_table table,
                             struct buf *into)
{
    enum err err = ERR_OK;

    if (!writer->begun) err = json_name_put(into, '{', fleet_members[0].name);
    if (!err) writer->begun = true;
    for (; !err && writer->table < table; writer->table++) {
        bool list = fleet_members[writer->table].shape != NULL;
        if (writer->any)
            err = buf_append_byte(into, list ? ']' : '}');
        else
            err = buf_append_c(into, list ? "null" : "{}");
        if (!err && writer->table + 1 < tables_end(writer))
            err = json_name_put(into, ',', fleet_members[writer->table + 1].name);
        writer->any = false;
    }
    return err;
}

static enum err row_put(struct fleet_state_writer *writer, struct fleet_row *row, struct buf *into)
{
    const struct record_shape *shape = fleet_members[row->table].shape;
    char before = ',';
    enum err err;

    if (!writer->any) before = shape ? '[' : '{';
    err = buf_append_byte(into, before);
    writer->any = true;
    if (err) return err;
    if (row->table == FLEET_SHARDS && !writer->style.heartbeats)
        row->shard.last_heartbeat = (struct fleet_time){0};
    if (shape) return shape_put(into, shape, row, false);
    err = json_text_put(into, row->cluster.id);
    if (!err) err = buf_append_byte(into, ':');
    return err ? err : json_text_put(into, row->cluster.shard);
}

static enum err end_put(struct fleet_state_writer *writer, struct buf *into)
{
    enum err err = tables_until(writer, tables_end(writer), into);

    if (!err && writer->style.sealed)
        err = buf_appendf(into, ",\"muster\":{\"format\":%d,\"index\":%llu,\"hash\":\"%016llx\"}",
                          any_leaving(writer) ? 2 : 1, (unsigned long long)writer->style.index,
                          (unsigned long long)fleet_view_hash(writer->view));
    if (!err) err = buf_append_byte(into, '}');
    writer->done = !err;
    return err;
}

enum err fleet_state_write_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct fleet_state_writer *writer = opaque;
    size_t start = into->len;
    struct fleet_row row;
    enum err err = ERR_OK;
    bool more;

    assert(budget > 0);
    while (!err && !writer->done && into->len - start < budget) {
        err = fleet_view_next(writer->view, &row, &more);
        if (err) break;
        if (more && row.table < tables_end(writer)) {
            err = tables_until(writer, row.table, into);
            if (!err) err = row_put(writer, &row, into);
        } else if (!more) {
            err = end_put(writer, into);
        }
    }
    if (!err) *ret_done = writer->done;
    return err;
}
