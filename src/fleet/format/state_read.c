/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the state's JSON in pieces into the tables.
 *
 * Rows are applied as they arrive, by the rules of commands. Clusters and domains need their
 * shards: if shards come last, because a tool has sorted the keys, a second pass reads clusters and
 * domains. A table that appears twice is refused, because the first table's rows were already
 * applied. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "fleet/format/shapes.h"
#include "fleet/format/state.h"

enum {
    STATE_READ_TEXT_MAX = 1 << 20,
    ROW_BYTES_MAX = 64 << 20, /* memory of one row: a quota with long names */
    SEAL_FORMAT_MAX = 2,      /* format 1 has no leaving domains */
};

struct fleet_state_reader {
    struct fleet_state_options options;
    struct json_scan scan;
    struct arena arena;
    struct format_record record;
    struct fleet_state_summary summary;
    enum err failed;
};

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
    struct note text;

    if (why->status == FLEET_NO_MEMORY) return ERR_NOMEM;
    reader->summary.dropped.of[row->table]++;
    if (reader->options.dropped) reader->options.dropped(reader->options.owner, row, why);
    if (!reader->options.strict) return ERR_OK;
    if (row->table != FLEET_LEAVING) command = fleet_row_command(row);
    fleet_result_text(row->table != FLEET_LEAVING ? &command : NULL, why, &text);
    return note_fail(note, ERR_CORRUPT, "a row of %.*s is refused: %s",
                     STR_ARG(fleet_members[row->table].name), text.text);
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
    if (!options->only && !options->strict && needs_shards &&
        !(reader->record.present & BIT(FLEET_SHARDS))) {
        reader->summary.again |= BIT(row->table);
        return ERR_OK;
    }
    return row_write(reader, row, note);
}

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

static enum err state_row(void *owner, uint8_t slot, struct note *note)
{
    struct fleet_state_reader *reader = owner;
    struct fleet_row row;
    enum err err;

    if (slot == FLEET_TABLES) return seal_end(reader, note);
    err = record_row(&reader->record, 0, (enum fleet_table)slot, &row, note);
    if (!err) err = row_take(reader, &row, note);
    arena_reset(&reader->arena);
    return err;
}

enum err fleet_state_read_begin(const struct fleet_state_options *options,
                                struct fleet_state_reader **ret_reader)
{
    struct fleet_state_reader *reader = calloc(1, sizeof *reader);

    if (!reader) return ERR_NOMEM;
    reader->options = *options;
    json_scan_init(&reader->scan, STATE_READ_TEXT_MAX);
    arena_init(&reader->arena, ROW_BYTES_MAX);
    reader->record.arena = &reader->arena;
    reader->record.row = state_row;
    reader->record.owner = reader;
    record_begin(&reader->record, &fleet_state_shape);
    *ret_reader = reader;
    return ERR_OK;
}

enum err fleet_state_read_next(void *opaque, struct str bytes, struct note *note)
{
    struct fleet_state_reader *reader = opaque;
    enum json_token token = TOKEN_NEED;
    struct str text = STR_EMPTY;
    enum err err = reader->failed;
    bool done;

    if (err) return err;
    do {
        err = json_scan_next(&reader->scan, &bytes, &token, &text, note);
        if (err || token == TOKEN_NEED) break;
        if (reader->record.depth == 0 && token == TOKEN_NULL)
            err = note_fail(note, ERR_PARSE, "expected an object");
        else
            err = record_token(&reader->record, token, text, &done, note);
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

    if (!err && !json_scan_whole(&reader->scan))
        err = note_fail(note, ERR_PARSE, "state: offset %llu: it ends early",
                        (unsigned long long)reader->scan.offset);
    if (!err && reader->options.strict && !reader->summary.sealed)
        err = note_fail(note, ERR_CORRUPT, "state: it has no seal");
    if (!err && reader->options.strict && reader->options.fleet &&
        reader->summary.hash != fleet_hash(reader->options.fleet))
        err = note_fail(note, ERR_CORRUPT, "state: sealed with another hash");
    reader->failed = err;
    if (!err) *ret_summary = reader->summary;
    return err;
}
