/* SPDX-License-Identifier: Apache-2.0 */
/* meta.json. */
#include "fleet/format/meta.h"

#include <stdio.h>
#include <string.h>

#include "fleet/format/record.h"

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
    {"Suffrage", SHAPE_NUMBER, NUMBER_SUFFRAGE, NULL},
    {"ID", SHAPE_TEXT, TEXT_SERVER_ID, NULL},
    {"Address", SHAPE_TEXT, TEXT_SERVER_ADDRESS, NULL},
};
static const struct shape server_shape = SHAPE(server_fields);
static const struct shape_field configuration_fields[] = {
    {"Servers", SHAPE_LIST, 0, &server_shape}};
static const struct shape configuration_shape = SHAPE(configuration_fields);
static const struct shape_field meta_fields[] = {
    {"Version", SHAPE_NUMBER, NUMBER_VERSION, NULL},
    {"ID", SHAPE_TEXT, TEXT_ID, NULL},
    {"Index", SHAPE_NUMBER, NUMBER_INDEX, NULL},
    {"Term", SHAPE_NUMBER, NUMBER_TERM, NULL},
    {"Configuration", SHAPE_OBJECT, 0, &configuration_shape},
    {"ConfigurationIndex", SHAPE_NUMBER, NUMBER_CONFIGURATION, NULL},
    {"Size", SHAPE_NUMBER, NUMBER_SIZE, NULL},
};
static const struct shape meta_shape = SHAPE(meta_fields);

void fleet_meta_name(struct fleet_meta *meta, uint64_t unix_ms)
{
    snprintf(meta->id, sizeof meta->id, "%llu-%llu-%llu", (unsigned long long)meta->term,
             (unsigned long long)meta->index, (unsigned long long)unix_ms);
}

/* -- writing -- */
struct layout { /* the same members, with or without lines */
    struct buf *into;
    bool indented;
    unsigned depth;
    enum err err; /* the first failure: then nothing is written any more */
};

static void put(struct layout *out, const char *text)
{
    if (!out->err) out->err = buf_append_c(out->into, text);
}

static void line(struct layout *out)
{
    if (!out->indented) return;
    put(out, "\n");
    for (unsigned i = 0; i < out->depth; i++) put(out, "  ");
}

static void begin(struct layout *out, const char *bracket)
{
    put(out, bracket);
    out->depth++;
}

static void end(struct layout *out, const char *bracket)
{
    out->depth--;
    line(out);
    put(out, bracket);
}

/* A comma but before the first, and the name. */
static void name(struct layout *out, bool first, const char *text)
{
    if (!first) put(out, ",");
    line(out);
    put(out, "\"");
    put(out, text);
    put(out, out->indented ? "\": " : "\":");
}

static void number(struct layout *out, bool first, const char *label, uint64_t value)
{
    name(out, first, label);
    if (!out->err) out->err = buf_appendf(out->into, "%llu", (unsigned long long)value);
}

static void text(struct layout *out, bool first, const char *label, const char *value)
{
    name(out, first, label);
    if (!out->err) out->err = json_text_put(out->into, str_from(value));
}

static void servers(struct layout *out, const struct fleet_meta *meta)
{
    name(out, true, "Servers");
    if (meta->server_count == 0) {
        put(out, "null");
        return;
    }
    begin(out, "[");
    for (size_t i = 0; i < meta->server_count; i++) {
        if (i > 0) put(out, ",");
        line(out);
        begin(out, "{");
        number(out, true, "Suffrage", meta->servers[i].suffrage);
        text(out, false, "ID", meta->servers[i].id);
        text(out, false, "Address", meta->servers[i].address);
        end(out, "}");
    }
    end(out, "]");
}

enum err fleet_meta_write(const struct fleet_meta *meta, bool indented, struct buf *into)
{
    struct layout out = {.into = into, .indented = indented};
    size_t start = into->len;

    assert(meta->server_count <= FLEET_META_SERVERS_MAX);
    begin(&out, "{");
    number(&out, true, "Version", meta->version);
    text(&out, false, "ID", meta->id);
    number(&out, false, "Index", meta->index);
    number(&out, false, "Term", meta->term);
    name(&out, false, "Peers");
    put(&out, "null");
    name(&out, false, "Configuration");
    begin(&out, "{");
    servers(&out, meta);
    end(&out, "}");
    number(&out, false, "ConfigurationIndex", meta->configuration_index);
    number(&out, false, "Size", meta->size);
    end(&out, "}");
    if (out.err) into->len = start;
    return out.err;
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
        copy_text(server->id, record->texts[TEXT_SERVER_ID]);
        copy_text(server->address, record->texts[TEXT_SERVER_ADDRESS]);
    }
    record->numbers[NUMBER_SUFFRAGE] = 0;
    record->texts[TEXT_SERVER_ID] = record->texts[TEXT_SERVER_ADDRESS] = STR_EMPTY;
}

static enum err tokens_read(struct json_scan *scan, struct record *record, struct str bytes,
                            struct note *note)
{
    struct str word = STR_EMPTY;
    enum json_token token = JSON_NEED;
    bool done = false;
    enum err err;

    do {
        err = json_scan_next(scan, &bytes, &token, &word, note);
        if (!err && token != JSON_NEED && !done)
            err = record_token(record, token, word, &done, note);
    } while (!err && token != JSON_NEED);
    if (!err && !json_scan_whole(scan)) {
        note_set(note, "it ends early");
        err = ERR_PARSE;
    }
    return err;
}

static enum err meta_of(const struct record *record, struct fleet_meta *meta, struct note *note)
{
    copy_text(meta->id, record->texts[TEXT_ID]);
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
    struct json_scan scan;
    struct arena arena;
    enum err err = ERR_TOO_LARGE;

    if (bytes.len > FLEET_META_BYTES_MAX) {
        note_set(note, "meta.json: %zu bytes: %s", bytes.len, err_text(err));
        return err;
    }
    arena_init(&arena, ARENA_MAX);
    json_scan_init(&scan, FLEET_META_BYTES_MAX);
    record.arena = &arena;
    record_begin(&record, &meta_shape);
    err = tokens_read(&scan, &record, bytes, note);
    if (!err) err = meta_of(&record, &meta, note);
    if (err) note_prefix(note, "meta.json");
    if (!err) *ret_meta = meta;
    json_scan_deinit(&scan);
    arena_deinit(&arena);
    return err;
}
