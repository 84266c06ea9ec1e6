/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the file of --bootstrap-state as rows (fleet/format/shapes.h) and makes a command of each
 * row. Blocks; runs at the start of the process. */
#include "fleet/seed.h"

#include <stdlib.h>

#include "fleet/format/shapes.h"

enum { SEED_ARENA_MAX = 64 << 20 };

struct seed_reader {
    struct fleet_seed seed;
    struct format_record record;
    size_t cap;
};

/* The texts that each row must contain. A quota row's texts may be empty. */
static const char *const needed[FLEET_TABLES][FLEET_TEXTS_MAX] = {
    [FLEET_PROVIDERS] = {"name"}, [FLEET_QUOTAS] = {"provider", "region"}};

static enum err seed_grow(struct seed_reader *reader, struct note *note)
{
    struct fleet_seed *seed = &reader->seed;
    size_t cap = reader->cap ? 2 * reader->cap : 64;
    struct fleet_command *commands;

    if (seed->count < reader->cap) return ERR_OK;
    if (seed->count >= FLEET_SEED_ROWS_MAX)
        return note_fail(note, ERR_TOO_LARGE, "more than %d rows", FLEET_SEED_ROWS_MAX);
    commands = realloc(seed->commands, cap * sizeof *commands);
    if (!commands) return ERR_NOMEM;
    seed->commands = commands;
    reader->cap = cap;
    return ERR_OK;
}

static enum err seed_row(void *owner, uint8_t slot, struct note *note)
{
    struct seed_reader *reader = owner;
    const struct format_record *record = &reader->record;
    struct fleet_row row;
    enum err err;

    for (size_t i = 0; i < FLEET_TEXTS_MAX && needed[slot][i]; i++) {
        struct str text = record->texts[0][i];
        if (!text.at) return note_fail(note, ERR_INVALID, "field '%s': missing", needed[slot][i]);
        if (slot == FLEET_PROVIDERS && !text.len)
            return note_fail(note, ERR_INVALID, "field '%s': empty", needed[slot][i]);
    }
    if (record->slice_count > FLEET_SLICES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "per_shard: %zu shards, at most %d",
                         record->slice_count, FLEET_SLICES_MAX);
    err = seed_grow(reader, note);
    if (!err) err = record_row(record, 0, (enum fleet_table)slot, &row, note);
    if (!err) reader->seed.commands[reader->seed.count++] = fleet_row_command(&row);
    return err;
}

/* The note then begins like "line 7: providers.3". */
static void seed_name_place(const struct seed_reader *reader, struct str text, struct note *note)
{
    const struct shape_field *table = reader->record.levels[0].field;
    size_t row = 0, line = 1 + str_count(str_of(text.at, reader->record.offset), '\n');

    for (size_t i = 0; i < reader->seed.count; i++)
        row += table && fleet_kind_table(reader->seed.commands[i].kind) == table->slot;
    if (table && reader->record.depth > 1) note_prefix(note, "%.*s.%zu", STR_ARG(table->name), row);
    note_prefix(note, "line %zu", line);
}

enum err fleet_seed_parse(struct str text, struct fleet_seed *ret_seed, struct note *note)
{
    struct seed_reader reader = {
        .record = {.arena = &reader.seed.arena, .strict = true, .row = seed_row, .owner = &reader}};
    enum err err;

    arena_init(&reader.seed.arena, SEED_ARENA_MAX);
    record_begin(&reader.record, &fleet_seed_shape);
    err = record_parse(&reader.record, text, FLEET_SEED_BYTES_MAX, note);
    if (err) {
        seed_name_place(&reader, text, note);
        fleet_seed_deinit(&reader.seed);
    } else {
        *ret_seed = reader.seed;
    }
    return err;
}

enum err fleet_seed_read(struct fs *fs, const char *path, struct fleet_seed *ret_seed,
                         struct note *note)
{
    struct buf text;
    enum err err;

    buf_init(&text, FLEET_SEED_BYTES_MAX);
    err = fs_read_whole(fs, path, FLEET_SEED_BYTES_MAX, &text);
    if (err) note_set(note, "%s", err_text(err));
    if (!err) err = fleet_seed_parse(buf_peek(&text), ret_seed, note);
    if (err) note_prefix(note, "bootstrap state %s", path);
    buf_deinit(&text);
    return err;
}

void fleet_seed_deinit(struct fleet_seed *seed)
{
    arena_deinit(&seed->arena);
    free(seed->commands);
    *seed = (struct fleet_seed){.count = 0};
}
