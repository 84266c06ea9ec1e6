/* SPDX-License-Identifier: Apache-2.0 */
/* meta.json. */
#include "fleet/format/meta.h"

#include <stdio.h>
#include <string.h>

#include "fleet/format/record.h"
#include "text/ndjson.h"

enum { TEXT_ID, TEXT_SERVER_ID, TEXT_SERVER_ADDRESS }; /* slots */
enum {
    NUMBER_VERSION,
    NUMBER_INDEX,
    NUMBER_TERM,
    NUMBER_CONFIGURATION,
    NUMBER_SIZE,
    NUMBER_SUFFRAGE
};
enum { ARENA_MAX = 4 * FLEET_META_BYTES_MAX };

static const struct shape_field server_fields[] = {
    FIELD("Suffrage", NUMBER, NUMBER_SUFFRAGE, NULL),
    FIELD("ID", TEXT, TEXT_SERVER_ID, NULL),
    FIELD("Address", TEXT, TEXT_SERVER_ADDRESS, NULL),
};
static const struct shape server_shape = SHAPE(server_fields);
static const struct shape_field configuration_fields[] = {FIELD("Servers", LIST, 0, &server_shape)};
static const struct shape configuration_shape = SHAPE(configuration_fields);
static const struct shape_field meta_fields[] = {
    FIELD("Version", NUMBER, NUMBER_VERSION, NULL),
    FIELD("ID", TEXT, TEXT_ID, NULL),
    FIELD("Index", NUMBER, NUMBER_INDEX, NULL),
    FIELD("Term", NUMBER, NUMBER_TERM, NULL),
    FIELD("Configuration", OBJECT, 0, &configuration_shape),
    FIELD("ConfigurationIndex", NUMBER, NUMBER_CONFIGURATION, NULL),
    FIELD("Size", NUMBER, NUMBER_SIZE, NULL),
};
static const struct shape meta_shape = SHAPE(meta_fields);

void fleet_meta_name(struct fleet_meta *meta, uint64_t unix_ms)
{
    snprintf(meta->id, sizeof meta->id, "%llu-%llu-%llu", (unsigned long long)meta->term,
             (unsigned long long)meta->index, (unsigned long long)unix_ms);
}

/* -- writing -- */
struct layout {
    struct ndjson line;
    struct buf text; /* one value, escaped as the original does */
    enum err err;    /* of a text; the first stays */
};

static void text_put(struct layout *out, struct str key, const char *value)
{
    enum err err;

    buf_clear(&out->text);
    err = json_text_put(&out->text, str_from(value));
    if (err && !out->err) out->err = err;
    if (!err) ndjson_raw(&out->line, key, buf_peek(&out->text));
}

static void servers_put(struct layout *out, const struct fleet_meta *meta)
{
    if (meta->server_count == 0) {
        ndjson_null(&out->line, STR("Servers"));
        return;
    }
    ndjson_open_array(&out->line, STR("Servers"));
    for (size_t i = 0; i < meta->server_count; i++) {
        ndjson_open_object(&out->line, NDJSON_ITEM);
        ndjson_u64(&out->line, STR("Suffrage"), meta->servers[i].suffrage);
        text_put(out, STR("ID"), meta->servers[i].id);
        text_put(out, STR("Address"), meta->servers[i].address);
        ndjson_close_object(&out->line);
    }
    ndjson_close_array(&out->line);
}

enum err fleet_meta_write(const struct fleet_meta *meta, bool indented, struct buf *into)
{
    struct layout out = {.err = ERR_OK};
    size_t start = into->len;
    enum err err;

    assert(meta->server_count <= FLEET_META_SERVERS_MAX);
    buf_init(&out.text, FLEET_META_BYTES_MAX);
    ndjson_begin(&out.line, into, indented ? NDJSON_PRETTY : NDJSON_LINE);
    ndjson_u64(&out.line, STR("Version"), meta->version);
    text_put(&out, STR("ID"), meta->id);
    ndjson_u64(&out.line, STR("Index"), meta->index);
    ndjson_u64(&out.line, STR("Term"), meta->term);
    ndjson_null(&out.line, STR("Peers"));
    ndjson_open_object(&out.line, STR("Configuration"));
    servers_put(&out, meta);
    ndjson_close_object(&out.line);
    ndjson_u64(&out.line, STR("ConfigurationIndex"), meta->configuration_index);
    ndjson_u64(&out.line, STR("Size"), meta->size);
    err = ndjson_end(&out.line);
    if (!err && out.err) err = out.err;
    into->len = err ? start : into->len - 1; /* no line end */
    buf_deinit(&out.text);
    return err;
}

/* -- reading -- */
static void copy_text(char out[FLEET_META_TEXT_MAX + 1], struct str from)
{
    size_t len = min_size(from.len, FLEET_META_TEXT_MAX);

    memcpy(out, from.at, len);
    out[len] = '\0';
}

static void server_item(void *owner, struct record *record)
{
    struct fleet_meta *meta = owner;
    struct fleet_meta_server *server = &meta->servers[meta->server_count];

    if (meta->server_count < FLEET_META_SERVERS_MAX) { /* nobody restores by the others */
        meta->server_count++;
        server->suffrage = (enum fleet_suffrage)min_u64(record->numbers[NUMBER_SUFFRAGE], 2);
        copy_text(server->id, record->texts[0][TEXT_SERVER_ID]);
        copy_text(server->address, record->texts[0][TEXT_SERVER_ADDRESS]);
    }
    record->numbers[NUMBER_SUFFRAGE] = 0;
    record->texts[0][TEXT_SERVER_ID] = record->texts[0][TEXT_SERVER_ADDRESS] = STR_EMPTY;
}

static enum err meta_of(const struct record *record, struct fleet_meta *meta, struct note *note)
{
    copy_text(meta->id, record->texts[0][TEXT_ID]);
    meta->version = record->numbers[NUMBER_VERSION];
    meta->index = record->numbers[NUMBER_INDEX];
    meta->term = record->numbers[NUMBER_TERM];
    meta->configuration_index = record->numbers[NUMBER_CONFIGURATION];
    meta->size = record->numbers[NUMBER_SIZE];
    if (meta->index > 0) return ERR_OK;
    note_set(note, "index 0: not a valid coordinator snapshot");
    return ERR_INVALID;
}

enum err fleet_meta_read(struct str bytes, struct fleet_meta *ret_meta, struct note *note)
{
    struct fleet_meta meta = {0};
    struct record record = {.stable = bytes, .item = server_item, .owner = &meta};
    struct arena arena;
    enum err err = ERR_TOO_LARGE;

    if (bytes.len > FLEET_META_BYTES_MAX) {
        note_set(note, "meta.json: %zu bytes: %s", bytes.len, err_text(err));
        return err;
    }
    arena_init(&arena, ARENA_MAX);
    record.arena = &arena;
    record_begin(&record, &meta_shape);
    err = record_parse(&record, bytes, FLEET_META_BYTES_MAX, note);
    if (!err) err = meta_of(&record, &meta, note);
    if (err) note_prefix(note, "meta.json");
    if (!err) *ret_meta = meta;
    arena_deinit(&arena);
    return err;
}
