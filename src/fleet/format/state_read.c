/* SPDX-License-Identifier: Apache-2.0 */
/* The state's JSON, in pieces, into the tables.
 *
 * Rows are written as they come, by the rules of commands. Clusters and domains need their shards:
 * those that come before them (a tool that sorts keys puts "shards" last) are for a second reading.
 * A table that comes twice is refused: the last of duplicates counts, and the first is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "fleet/format/shapes.h"
#include "fleet/format/state.h"

enum {
    TEXT_MAX = 1 << 20,
    ROW_BYTES_MAX = 64 << 20, /* what one row may take in memory: a quota row of long names */
    SEAL_FORMAT_MAX = 2,      /* 1: without leaving domains */
};

static const struct shape_field seal_fields[] = {FIELD("format", NUMBER, 0, NULL),
                                                 FIELD("index", NUMBER, 1, NULL),
                                                 FIELD("hash", TEXT, 0, NULL)};
static const struct record_shape seal_shape = SHAPE(seal_fields);

enum place {
    PLACE_START,  /* the object itself is to come */
    PLACE_MEMBER, /* a key, or the end */
    PLACE_TABLE,  /* the value of a table's member is to come */
    PLACE_ROWS,   /* inside of it, between rows */
    PLACE_ROW,    /* inside a row, or the seal */
    PLACE_CLUSTER_VALUE,
    PLACE_SKIP, /* the value of a member nobody knows */
    PLACE_END,
};
struct fleet_state_reader {
    struct fleet_state_options options;
    struct json_scan scan;
    struct arena arena;
    struct format_record record;
    enum place place;
    enum fleet_table table; /* of PLACE_TABLE to PLACE_CLUSTER_VALUE; FLEET_TABLES: the seal */
    uint32_t seen;          /* bit per table */
    uint32_t skipped;       /* levels open in PLACE_SKIP */
    struct str cluster;
    struct fleet_state_summary summary;
    enum err failed;
};

enum err fleet_state_read_begin(const struct fleet_state_options *options,
                                struct fleet_state_reader **ret_reader)
{
    struct fleet_state_reader *reader = calloc(1, sizeof *reader);

    if (!reader) return ERR_NOMEM;
    reader->options = *options;
    json_scan_init(&reader->scan, TEXT_MAX);
    arena_init(&reader->arena, ROW_BYTES_MAX);
    reader->record.arena = &reader->arena;
    *ret_reader = reader;
    return ERR_OK;
}

void fleet_state_read_close(struct fleet_state_reader *reader)
{
    if (!reader) return;
    json_scan_deinit(&reader->scan);
    arena_deinit(&reader->arena);
    free(reader);
}

/* -- rows -- */
static enum err row_dropped(struct fleet_state_reader *reader, const struct fleet_row *row,
                            const struct fleet_result *why, struct note *note)
{
    struct fleet_command command;
    char room[160];
    struct buf text;

    if (why->status == FLEET_NO_MEMORY) return ERR_NOMEM;
    reader->summary.dropped.of[row->table]++;
    if (reader->options.dropped) reader->options.dropped(reader->options.owner, row, why);
    if (!reader->options.strict) return ERR_OK;
    buf_init(&text, NOTE_CAP);
    if (row->table != FLEET_LEAVING) command = fleet_row_command(row);
    if (fleet_result_text(row->table != FLEET_LEAVING ? &command : NULL, why, &text))
        buf_clear(&text); /* too long for a note anyway */
    snprintf(room, sizeof room, "%.*s", STR_ARG(buf_peek(&text)));
    buf_deinit(&text);
    return note_fail(note, ERR_CORRUPT, "a row of %.*s is refused: %s",
                     STR_ARG(fleet_members[row->table].name),
                     room[0] ? room : fleet_status_text(why->status));
}

static enum err row_write(struct fleet_state_reader *reader, const struct fleet_row *row,
                          struct note *note)
{
    struct fleet_result result;

    if (!reader->options.fleet) {
        reader->summary.taken.of[row->table]++;
        return ERR_OK;
    }
    result = fleet_put(reader->options.fleet, row);
    if (result.status != FLEET_DONE) return row_dropped(reader, row, &result, note);
    if (row->table == FLEET_SHARDS && fleet_time_is_set(row->shard.last_heartbeat))
        fleet_heartbeat(reader->options.fleet, row->shard.id, row->shard.last_heartbeat);
    reader->summary.taken.of[row->table]++;
    return ERR_OK;
}

static enum err row_take(struct fleet_state_reader *reader, const struct fleet_row *row,
                         struct note *note)
{
    const struct fleet_state_options *options = &reader->options;
    bool needs_shards = row->table == FLEET_CLUSTERS || row->table == FLEET_DOMAINS;

    if (options->only && !(options->only & BIT(row->table))) return ERR_OK;
    if (!options->only && !options->strict && needs_shards && !(reader->seen & BIT(FLEET_SHARDS))) {
        reader->summary.again |= BIT(row->table);
        return ERR_OK;
    }
    return row_write(reader, row, note);
}

/* -- records -- */
static enum err seal_end(struct fleet_state_reader *reader, struct note *note)
{
    struct str text = reader->record.texts[0][0];
    uint64_t hash;

    if (reader->record.numbers[0] < 1 || reader->record.numbers[0] > SEAL_FORMAT_MAX)
        return note_fail(note, ERR_VERSION, "sealed in format %llu",
                         (unsigned long long)reader->record.numbers[0]);
    if (text.len != 16 || !hex_read(text, &hash))
        return note_fail(note, ERR_PARSE, "the seal's hash is no hash");
    reader->summary.sealed = true;
    reader->summary.index = reader->record.numbers[1];
    reader->summary.hash = hash;
    return ERR_OK;
}

static enum err record_end(struct fleet_state_reader *reader, struct note *note)
{
    struct fleet_row row;
    enum err err;

    reader->place = reader->table == FLEET_TABLES ? PLACE_MEMBER : PLACE_ROWS;
    if (reader->table == FLEET_TABLES) return seal_end(reader, note);
    err = record_row(&reader->record, 0, reader->table, &row, note);
    return err ? err : row_take(reader, &row, note);
}

static enum err record_go(struct fleet_state_reader *reader, enum json_token token, struct str text,
                          struct note *note)
{
    bool done;
    enum err err = record_token(&reader->record, token, text, &done, note);

    if (!err && done) err = record_end(reader, note);
    return err;
}

static enum err record_start(struct fleet_state_reader *reader, const struct record_shape *shape,
                             enum json_token token, struct note *note)
{
    arena_reset(&reader->arena);
    record_begin(&reader->record, shape);
    reader->place = PLACE_ROW;
    return record_go(reader, token, STR_EMPTY, note);
}

/* -- places -- */
static enum err unexpected(struct str member, const char *expected, struct note *note)
{
    return note_fail(note, ERR_PARSE, "member '%.*s': expected %s", STR_ARG(member), expected);
}

static enum err member_key(struct fleet_state_reader *reader, struct str key, struct note *note)
{
    reader->place = PLACE_SKIP;
    reader->skipped = 0;
    if (str_equal_nocase(key, STR("muster"))) {
        reader->place = PLACE_TABLE;
        reader->table = FLEET_TABLES;
        return ERR_OK;
    }
    for (unsigned t = 0; t < FLEET_TABLES; t++) {
        if (!str_equal_nocase(key, fleet_members[t].name)) continue;
        if (reader->seen & BIT(t)) return unexpected(fleet_members[t].name, "it once", note);
        reader->place = PLACE_TABLE;
        reader->table = (enum fleet_table)t;
        reader->seen |= BIT(t);
    }
    return ERR_OK;
}

static enum err table_begin(struct fleet_state_reader *reader, enum json_token token,
                            struct note *note)
{
    const struct fleet_member *member = &fleet_members[reader->table];

    if (reader->table == FLEET_TABLES) return record_start(reader, &seal_shape, token, note);
    if (token == JSON_NULL) {
        reader->place = PLACE_MEMBER;
        return ERR_OK;
    }
    if (token != (member->shape ? JSON_ARRAY : JSON_OBJECT))
        return unexpected(member->name, member->shape ? "a list" : "an object", note);
    reader->place = PLACE_ROWS;
    return ERR_OK;
}

static enum err rows_token(struct fleet_state_reader *reader, enum json_token token,
                           struct str text, struct note *note)
{
    if (token == JSON_ARRAY_END || token == JSON_OBJECT_END) {
        reader->place = PLACE_MEMBER;
        return ERR_OK;
    }
    if (reader->table != FLEET_CLUSTERS)
        return record_start(reader, fleet_members[reader->table].shape, token, note);
    assert(token == JSON_KEY);
    arena_reset(&reader->arena);
    reader->place = PLACE_CLUSTER_VALUE;
    return record_keep(&reader->record, text, &reader->cluster);
}

static enum err cluster_value(struct fleet_state_reader *reader, enum json_token token,
                              struct str text, struct note *note)
{
    struct fleet_row row = {.table = FLEET_CLUSTERS, .cluster = {reader->cluster, STR_EMPTY}};

    reader->place = PLACE_ROWS;
    if (token == JSON_STRING)
        row.cluster.shard = text;
    else if (token != JSON_NULL)
        return unexpected(fleet_members[FLEET_CLUSTERS].name, "texts", note);
    return row_take(reader, &row, note);
}

static enum err take_token(struct fleet_state_reader *reader, enum json_token token,
                           struct str text, struct note *note)
{
    switch (reader->place) {
    case PLACE_START:
        reader->place = PLACE_MEMBER;
        return token == JSON_OBJECT ? ERR_OK : unexpected(STR_EMPTY, "an object", note);
    case PLACE_MEMBER:
        if (token == JSON_KEY) return member_key(reader, text, note);
        assert(token == JSON_OBJECT_END);
        reader->place = PLACE_END;
        return ERR_OK;
    case PLACE_TABLE: return table_begin(reader, token, note);
    case PLACE_ROWS: return rows_token(reader, token, text, note);
    case PLACE_ROW: return record_go(reader, token, text, note);
    case PLACE_CLUSTER_VALUE: return cluster_value(reader, token, text, note);
    case PLACE_SKIP:
        if (token == JSON_OBJECT || token == JSON_ARRAY) reader->skipped++;
        if (token == JSON_OBJECT_END || token == JSON_ARRAY_END) reader->skipped--;
        if (reader->skipped == 0) reader->place = PLACE_MEMBER;
        return ERR_OK;
    case PLACE_END: break;
    }
    return ERR_INTERNAL; /* the scanner gives nothing behind the value */
}

enum err fleet_state_read_next(void *opaque, struct str bytes, struct note *note)
{
    struct fleet_state_reader *reader = opaque;
    enum json_token token = JSON_NEED;
    struct str text = STR_EMPTY;
    enum err err = reader->failed;

    if (err) return err;
    do {
        err = json_scan_next(&reader->scan, &bytes, &token, &text, note);
        if (err || token == JSON_NEED) break;
        err = take_token(reader, token, text, note);
        if (err) note_prefix(note, "offset %llu", (unsigned long long)reader->scan.offset);
    } while (!err);
    if (err) note_prefix(note, "state");
    reader->failed = err;
    return err;
}

enum err fleet_state_read_end(struct fleet_state_reader *reader,
                              struct fleet_state_summary *ret_summary, struct note *note)
{
    enum err err = reader->failed;

    if (!err && !json_scan_whole(&reader->scan)) {
        note_set(note, "state: offset %llu: it ends early",
                 (unsigned long long)reader->scan.offset);
        err = ERR_PARSE;
    }
    if (!err && reader->options.strict && !reader->summary.sealed) {
        note_set(note, "state: it has no seal");
        err = ERR_CORRUPT;
    }
    if (!err && reader->options.strict && reader->options.fleet &&
        reader->summary.hash != fleet_hash(reader->options.fleet)) {
        note_set(note, "state: sealed with another hash");
        err = ERR_CORRUPT;
    }
    reader->failed = err;
    if (!err) *ret_summary = reader->summary;
    return err;
}
