/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes meta.json. Pure. */
#include "fleet/format/meta.h"

#include <stdio.h>

#include "fleet/format/record.h"
#include "text/ndjson.h"

enum { NUMBER_INDEX, NUMBER_TERM, NUMBER_SIZE }; /* slots */
enum { ARENA_MAX = 4 * FLEET_META_BYTES_MAX };

static const struct shape_field meta_fields[] = {
    FIELD("Index", NUMBER, NUMBER_INDEX, NULL),
    FIELD("Term", NUMBER, NUMBER_TERM, NULL),
    FIELD("Size", NUMBER, NUMBER_SIZE, NULL),
};
static const struct record_shape meta_shape = SHAPE(meta_fields);

void fleet_meta_id(const struct fleet_meta *meta, char id[FLEET_META_TEXT_MAX + 1])
{
    snprintf(id, FLEET_META_TEXT_MAX + 1, "%llu-%llu-%llu", (unsigned long long)meta->term,
             (unsigned long long)meta->index, (unsigned long long)meta->created_ms);
}

/* -- writing -- */
static void servers_put(struct ndjson *line, const struct fleet_meta *meta)
{
    if (meta->server_count == 0) {
        ndjson_null(line, STR("Servers"));
        return;
    }
    ndjson_open_array(line, STR("Servers"));
    for (size_t i = 0; i < meta->server_count; i++) {
        ndjson_open_object(line, NDJSON_ITEM);
        ndjson_u64(line, STR("Suffrage"), meta->servers[i].suffrage);
        ndjson_c_string(line, STR("ID"), meta->servers[i].id);
        ndjson_c_string(line, STR("Address"), meta->servers[i].address);
        ndjson_close_object(line);
    }
    ndjson_close_array(line);
}

enum err fleet_meta_write(const struct fleet_meta *meta, bool indented, struct buf *into)
{
    char id[FLEET_META_TEXT_MAX + 1];
    size_t start = into->len;
    struct ndjson line;
    enum err err;

    assert(meta->server_count <= FLEET_META_SERVERS_MAX);
    fleet_meta_id(meta, id);
    ndjson_begin(&line, into, indented ? NDJSON_PRETTY : NDJSON_LINE);
    ndjson_u64(&line, STR("Version"), 1);
    ndjson_c_string(&line, STR("ID"), id);
    ndjson_u64(&line, STR("Index"), meta->index);
    ndjson_u64(&line, STR("Term"), meta->term);
    ndjson_null(&line, STR("Peers"));
    ndjson_open_object(&line, STR("Configuration"));
    servers_put(&line, meta);
    ndjson_close_object(&line);
    ndjson_u64(&line, STR("ConfigurationIndex"), meta->configuration_index);
    ndjson_u64(&line, STR("Size"), meta->size);
    err = ndjson_end(&line);
    into->len = err ? start : into->len - 1; /* without the line end */
    return err;
}

/* -- reading -- */
static enum err meta_read(struct str bytes, struct format_record *record, struct note *note)
{
    enum err err = ERR_TOO_LARGE;

    if (bytes.len > FLEET_META_BYTES_MAX)
        return note_fail(note, err, "%zu bytes: %s", bytes.len, err_text(err));
    record_begin(record, &meta_shape);
    err = record_parse(record, bytes, FLEET_META_BYTES_MAX, note);
    if (err || record->numbers[NUMBER_INDEX] > 0) return err;
    return note_fail(note, ERR_INVALID, "index 0: not a valid coordinator snapshot");
}

enum err fleet_meta_read(struct str bytes, struct fleet_meta *ret_meta, struct note *note)
{
    struct arena arena;
    struct format_record record = {.arena = &arena, .stable = bytes};
    enum err err;

    arena_init(&arena, ARENA_MAX);
    err = meta_read(bytes, &record, note);
    if (err)
        note_prefix(note, "meta.json");
    else
        *ret_meta = (struct fleet_meta){.index = record.numbers[NUMBER_INDEX],
                                        .term = record.numbers[NUMBER_TERM],
                                        .size = record.numbers[NUMBER_SIZE]};
    arena_deinit(&arena);
    return err;
}
