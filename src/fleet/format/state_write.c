/* SPDX-License-Identifier: Apache-2.0 */
/* The state as one line of JSON, from a view. */
#include <stdlib.h>

#include "fleet/format/shapes.h"
#include "fleet/format/state.h"

struct fleet_state_writer {
    struct fleet_view *view;
    struct fleet_state_style style;
    enum fleet_table table; /* being written */
    bool begun, any, done;  /* anything at all; a row of this table; the last byte */
};
static const struct {
    const char *name;
    const char *empty;
    char open, close;
} members[FLEET_TABLES] = {
    [FLEET_SHARDS] = {"shards", "null", '[', ']'},
    [FLEET_CLUSTERS] = {"cluster_to_shard", "{}", '{', '}'},
    [FLEET_DOMAINS] = {"domain_to_shard", "null", '[', ']'},
    [FLEET_QUOTAS] = {"quotas", "null", '[', ']'},
    [FLEET_PROVIDERS] = {"providers", "null", '[', ']'},
    [FLEET_LEAVING] = {"domains_leaving", "null", '[', ']'},
};

enum err fleet_state_write_open(struct fleet *fleet, struct fleet_state_style style,
                                struct fleet_state_writer **ret_writer)
{
    struct fleet_state_writer *writer = malloc(sizeof *writer);
    enum err err;

    /* A seal is of all tables. */
    assert(!style.sealed || !style.generation_new);
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
    if (writer->style.generation_new) return FLEET_QUOTAS;
    return any_leaving(writer) ? FLEET_TABLES : FLEET_LEAVING;
}

/* Up to where rows of `table` may stand: what lies between is empty. */
static enum err tables_until(struct fleet_state_writer *writer, enum fleet_table table,
                             struct buf *into)
{
    enum err err = ERR_OK;

    if (!writer->begun) err = buf_appendf(into, "{\"%s\":", members[0].name);
    if (!err) writer->begun = true;
    for (; !err && writer->table < table; writer->table++) {
        err = writer->any ? buf_append_byte(into, members[writer->table].close)
                          : buf_append_c(into, members[writer->table].empty);
        if (!err && writer->table + 1 < tables_end(writer))
            err = buf_appendf(into, ",\"%s\":", members[writer->table + 1].name);
        writer->any = false;
    }
    return err;
}

static enum err row_put(struct fleet_state_writer *writer, const struct fleet_row *row,
                        struct buf *into)
{
    char before = ',';
    enum err err;

    if (!writer->any) before = members[row->table].open;
    err = buf_append_byte(into, before);

    writer->any = true;
    if (err) return err;
    switch (row->table) {
    case FLEET_SHARDS: return shard_put(into, &row->shard, writer->style.heartbeats);
    case FLEET_CLUSTERS:
        err = json_text_put(into, row->cluster.id);
        return err ? err : json_field_put(into, ":", row->cluster.shard);
    case FLEET_DOMAINS:
        err = buf_append_c(into, "{\"domain\":");
        if (!err) err = domain_put(into, &row->domain);
        if (!err) err = json_field_put(into, ",\"shard\":", row->domain.shard);
        return err ? err : buf_append_byte(into, '}');
    case FLEET_QUOTAS: return quota_put(into, &row->quota);
    case FLEET_PROVIDERS: return provider_put(into, &row->provider);
    case FLEET_LEAVING: return leaving_put(into, &row->leaving);
    case FLEET_TABLES: break;
    }
    return ERR_INTERNAL;
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
