/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/seed.h"

#include <stdlib.h>

#include "text/json.h"

enum { ARENA_MAX = 64 << 20 };

static const struct seed_table {
    const char *name;
    enum fleet_kind kind;
    size_t needed;                              /* so many of the texts */
    const char *texts[FLEET_TEXTS_MAX + 1];     /* the names of the texts of the command */
    const char *archived[FLEET_TEXTS_MAX + 1];  /* and in the state of an archive */
    const char *known[2 * FLEET_TEXTS_MAX + 1]; /* of the keys of a row */
} tables[] = {
    {"providers",
     FLEET_UPSERT_PROVIDER,
     1,
     {"name", "address", "region"},
     {"Name", "Address", "Region"},
     {"name", "Name", "address", "Address", "region", "Region"}},
    {"quotas",
     FLEET_SET_QUOTA,
     2,
     {"provider", "region"},
     {"Provider", "Region"},
     {"provider", "region", "per_shard", "key"}},
};

static enum err keep(struct str text, struct arena *arena, struct str *ret_text)
{
    char *copy = arena_dup(arena, text);

    if (copy) *ret_text = str_of(copy, text.len);
    return copy ? ERR_OK : ERR_NOMEM;
}

/* Text n of the table's command, under either of its names. */
static enum err text_field(const struct json *object, const struct seed_table *table, size_t n,
                           struct arena *arena, struct str *ret_text, struct note *note)
{
    const struct json *found = json_member(object, str_from(table->texts[n]));
    struct str text;
    enum err err;

    if (!found) found = json_member(object, str_from(table->archived[n]));
    *ret_text = STR_EMPTY;
    if (!found && n < table->needed) {
        note_set(note, "field '%s': missing", table->texts[n]);
        return ERR_INVALID;
    }
    if (!found) return ERR_OK;
    err = json_get_string(found, "", &text, note);
    if (err) note_prefix(note, "%s", table->texts[n]);
    return err ? err : keep(text, arena, ret_text);
}

/* Every key is one of `known`, which ends with NULL. */
static enum err only_known(const struct json *object, const char *const *known, struct note *note)
{
    const struct json *value;
    void *cursor = NULL;
    struct str key;

    while (json_next(object, &cursor, &key, &value)) {
        const char *const *name = known;
        while (*name && !str_equal(key, str_from(*name))) name++;
        if (*name) continue;
        note_set(note, "field '%.*s': not known here", STR_ARG(key));
        return ERR_INVALID;
    }
    return ERR_OK;
}

/* -- rows -- */

static enum err read_slices(const struct json *map, struct arena *arena, struct fleet_quota *quota,
                            struct note *note)
{
    size_t count = map && json_kind(map) != JSON_KIND_NULL ? json_count(map) : 0;
    const struct json *value, *object;
    struct fleet_slice *slices;
    void *cursor = NULL;
    struct str key;

    if (!count) return ERR_OK;
    if (json_get_object(map, "", &object, note)) {
        note_prefix(note, "per_shard");
        return ERR_INVALID;
    }
    if (count > FLEET_SLICES_MAX) {
        note_set(note, "per_shard: %zu shards, at most %d", count, FLEET_SLICES_MAX);
        return ERR_TOO_LARGE;
    }
    slices = arena_calloc(arena, count, sizeof *slices);
    if (!slices) return ERR_NOMEM;
    for (size_t i = 0; json_next(object, &cursor, &key, &value); i++) {
        int64_t number;

        if (json_get_i64(value, "", &number, note) || number < INT32_MIN || number > INT32_MAX) {
            note_set(note, "per_shard.%.*s: not a whole number of 32 bits", STR_ARG(key));
            return ERR_INVALID;
        }
        slices[i].slice = (int32_t)number;
        if (keep(key, arena, &slices[i].shard)) return ERR_NOMEM;
    }
    quota->slices = slices;
    quota->slice_count = count;
    return ERR_OK;
}

static enum err read_row(const struct json *row, const struct seed_table *table,
                         struct arena *arena, struct fleet_command *ret_command, struct note *note)
{
    struct fleet_command command = {.kind = table->kind};
    bool quota = table->kind == FLEET_SET_QUOTA;
    const struct json *key = quota ? json_member(row, STR("key")) : NULL;
    enum err err = only_known(row, table->known, note);

    if (!err && key) err = json_get_object(key, "", &key, note);
    if (!err && key) err = only_known(key, table->archived, note);
    for (size_t i = 0; !err && table->texts[i]; i++)
        err = text_field(key ? key : row, table, i, arena, &command.texts[i], note);
    if (!err && quota)
        err = read_slices(json_member(row, STR("per_shard")), arena, &command.set_quota, note);
    if (!err && !quota && !command.upsert_provider.name.len) {
        note_set(note, "field 'name': empty");
        err = ERR_INVALID;
    }
    if (!err) *ret_command = command;
    return err;
}

static enum err read_table(const struct json *root, const struct seed_table *table,
                           struct fleet_seed *seed, struct note *note)
{
    const struct json *rows = json_member(root, str_from(table->name)), *object;

    if (!rows || json_kind(rows) == JSON_KIND_NULL) return ERR_OK;
    if (json_get_array(rows, "", &rows, note)) {
        note_prefix(note, "%s", table->name);
        return ERR_INVALID;
    }
    for (size_t i = 0; i < json_count(rows); i++) {
        enum err err = json_get_object(json_item(rows, i), "", &object, note);

        if (!err) err = read_row(object, table, &seed->arena, &seed->commands[seed->count], note);
        if (err) {
            note_prefix(note, "%s.%zu", table->name, i);
            return err;
        }
        seed->count++;
    }
    return ERR_OK;
}

static enum err read_root(const struct json *root, struct fleet_seed *seed, struct note *note)
{
    static const char *const known[] = {
        "quotas",          "providers",       "shards", "cluster_to_shard",
        "domain_to_shard", "domains_leaving", "muster", NULL};
    const struct json *object;
    size_t rows;
    enum err err = json_get_object(root, "", &object, note);

    if (!err) err = only_known(object, known, note);
    if (err) return err;
    rows = json_count(json_find(object, "quotas")) + json_count(json_find(object, "providers"));
    if (rows > FLEET_SEED_ROWS_MAX) {
        note_set(note, "%zu rows, at most %d", rows, FLEET_SEED_ROWS_MAX);
        return ERR_TOO_LARGE;
    }
    seed->commands = calloc(rows + 1, sizeof *seed->commands);
    if (!seed->commands) return ERR_NOMEM;
    for (size_t i = 0; !err && i < ARRAY_LEN(tables); i++)
        err = read_table(object, &tables[i], seed, note);
    return err;
}

enum err fleet_seed_parse(struct str text, struct fleet_seed *ret_seed, struct note *note)
{
    struct fleet_seed seed = {.count = 0};
    struct json *root;
    enum err err = json_open(text, FLEET_SEED_BYTES_MAX, &root, note);

    if (err) return err;
    arena_init(&seed.arena, ARENA_MAX);
    err = read_root(root, &seed, note);
    json_close(root);
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
    free(seed->commands);
    *seed = (struct fleet_seed){.count = 0};
}
