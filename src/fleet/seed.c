/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/seed.h"

#include <stdlib.h>

enum { ARENA_MAX = 64 << 20 };

static const struct seed_table {
    const char *name;
    enum fleet_kind kind;
    size_t needed;                      /* so many of the texts */
    const char *texts[FLEET_TEXTS_MAX]; /* the names of the texts of the command */
} tables[] = {
    {"providers", FLEET_UPSERT_PROVIDER, 1, {"name", "address", "region"}},
    {"quotas", FLEET_SET_QUOTA, 2, {"provider", "region"}},
};

static enum err not_known(struct str key, struct note *note)
{
    return note_fail(note, ERR_INVALID, "field '%.*s': not known here", STR_ARG(key));
}

/* -- rows -- */

static enum err read_slices(const struct json *map, struct arena *arena, struct fleet_quota *quota,
                            struct note *note)
{
    size_t count = json_kind(map) != JSON_KIND_NULL ? json_count(map) : 0;
    const struct json *value;
    struct fleet_slice *slices;
    void *cursor = NULL;
    struct str key;

    if (!count) return ERR_OK;
    if (json_get_object(map, "", &map, note)) {
        note_prefix(note, "per_shard");
        return ERR_INVALID;
    }
    if (count > FLEET_SLICES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "per_shard: %zu shards, at most %d", count,
                         FLEET_SLICES_MAX);
    slices = arena_calloc(arena, count, sizeof *slices);
    if (!slices) return ERR_NOMEM;
    for (size_t i = 0; json_next(map, &cursor, &key, &value); i++) {
        int64_t number;

        if (json_get_i64(value, "", &number, note) || number < INT32_MIN || number > INT32_MAX)
            return note_fail(note, ERR_INVALID, "per_shard.%.*s: not a whole number of 32 bits",
                             STR_ARG(key));
        slices[i] = (struct fleet_slice){key, (int32_t)number};
    }
    quota->slices = slices;
    quota->slice_count = count;
    return ERR_OK;
}

/* The texts of the table's command; of a quota also `per_shard`, and an object `key` with texts. */
static enum err read_fields(const struct json *row, const struct seed_table *table, bool is_key,
                            struct arena *arena, struct fleet_command *command, struct note *note)
{
    bool quota = table->kind == FLEET_SET_QUOTA && !is_key;
    const struct json *value;
    void *cursor = NULL;
    struct str key;
    enum err err = json_get_object(row, "", &row, note);

    while (!err && json_next(row, &cursor, &key, &value)) {
        size_t n = 0, count = fleet_kind_texts(table->kind);

        while (n < count && !str_equal_nocase(key, str_from(table->texts[n]))) n++;
        if (n < count && (err = json_get_string(value, "", &command->texts[n], note)))
            note_prefix(note, "%s", table->texts[n]);
        else if (n < count)
            continue;
        else if (quota && str_equal(key, STR("per_shard")))
            err = read_slices(value, arena, &command->set_quota, note);
        else if (quota && str_equal(key, STR("key")))
            err = read_fields(value, table, true, arena, command, note);
        else
            err = not_known(key, note);
    }
    return err;
}

static enum err read_row(const struct json *row, const struct seed_table *table,
                         struct arena *arena, struct fleet_command *command, struct note *note)
{
    enum err err;

    *command = (struct fleet_command){.kind = table->kind};
    for (size_t i = 0; i < FLEET_TEXTS_MAX; i++) command->texts[i] = (struct str){NULL, 0};
    err = read_fields(row, table, false, arena, command, note);
    for (size_t i = 0; !err && i < table->needed; i++) {
        bool is_missing = !command->texts[i].at;

        if (!is_missing && (command->texts[i].len || table->kind == FLEET_SET_QUOTA)) continue;
        note_set(note, "field '%s': %s", table->texts[i], is_missing ? "missing" : "empty");
        err = ERR_INVALID;
    }
    for (size_t i = 0; i < fleet_kind_texts(table->kind); i++)
        if (!command->texts[i].at) command->texts[i] = STR_EMPTY;
    return err;
}

static enum err read_table(const struct json *rows, const struct seed_table *table,
                           struct fleet_seed *seed, struct note *note)
{
    size_t count = json_count(rows);
    struct fleet_command *commands;
    enum err err = ERR_OK;

    if (json_kind(rows) == JSON_KIND_NULL) return ERR_OK;
    if (json_get_array(rows, "", &rows, note)) {
        note_prefix(note, "%s", table->name);
        return ERR_INVALID;
    }
    if (count > FLEET_SEED_ROWS_MAX - seed->count)
        return note_fail(note, ERR_TOO_LARGE, "%zu rows, at most %d", seed->count + count,
                         FLEET_SEED_ROWS_MAX);
    commands = realloc(seed->commands, (seed->count + count + 1) * sizeof *commands);
    if (!commands) return ERR_NOMEM;
    seed->commands = commands;
    for (size_t i = 0; !err && i < count; i++) {
        err = read_row(json_item(rows, i), table, &seed->arena, &commands[seed->count], note);
        if (err)
            note_prefix(note, "%s.%zu", table->name, i);
        else
            seed->count++;
    }
    return err;
}

/* -- the whole -- */

static enum err check_names(const struct json *root, struct note *note)
{
    static const char *const known[] = {
        "quotas",          "providers",       "shards", "cluster_to_shard",
        "domain_to_shard", "domains_leaving", "muster"};
    const struct json *value;
    void *cursor = NULL;
    struct str key;

    while (json_next(root, &cursor, &key, &value)) {
        size_t i = 0;

        while (i < ARRAY_LEN(known) && !str_equal(key, str_from(known[i]))) i++;
        if (i == ARRAY_LEN(known)) return not_known(key, note);
    }
    return ERR_OK;
}

enum err fleet_seed_parse(struct str text, struct fleet_seed *ret_seed, struct note *note)
{
    struct fleet_seed seed = {.count = 0};
    const struct json *root, *rows;
    enum err err = json_open(text, FLEET_SEED_BYTES_MAX, &seed.document, note);

    if (err) return err;
    arena_init(&seed.arena, ARENA_MAX);
    err = json_get_object(seed.document, "", &root, note);
    if (!err) err = check_names(root, note);
    for (size_t i = 0; !err && i < ARRAY_LEN(tables); i++) {
        rows = json_member(root, str_from(tables[i].name));
        if (rows) err = read_table(rows, &tables[i], &seed, note);
    }
    if (err)
        fleet_seed_deinit(&seed);
    else
        *ret_seed = seed;
    return err;
}

enum err fleet_seed_read(struct fs *fs, const char *path, struct fleet_seed *ret_seed,
                         struct note *note)
{
    struct buf text;
    enum err err;

    buf_init(&text, FLEET_SEED_BYTES_MAX);
    err = fs_read_whole(fs, path, FLEET_SEED_BYTES_MAX, &text);
    if (err)
        note_set(note, "%s", err_text(err));
    else
        err = fleet_seed_parse(buf_peek(&text), ret_seed, note);
    if (err) note_prefix(note, "bootstrap state %s", path);
    buf_deinit(&text);
    return err;
}

void fleet_seed_deinit(struct fleet_seed *seed)
{
    arena_deinit(&seed->arena);
    json_close(seed->document);
    free(seed->commands);
    *seed = (struct fleet_seed){.count = 0};
}
