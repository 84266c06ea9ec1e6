/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/seed.h"

#include <stdlib.h>

#include "text/json.h"

enum { ARENA_MAX = 64 << 20 };

/* -- one field under either of its names -- */

static const struct json *either(const struct json *object, const char *name, const char *archive)
{
    const struct json *found = json_member(object, str_from(name));

    return found ? found : json_member(object, str_from(archive));
}

static enum err text_field(const struct json *object, const char *name, const char *archive,
                           bool needed, struct arena *arena, struct str *ret_text,
                           struct note *note)
{
    const struct json *found = either(object, name, archive);
    struct str text;
    char *copy;
    enum err err;

    if (!found && needed) {
        note_set(note, "field '%s': missing", name);
        return ERR_INVALID;
    }
    if (!found) {
        *ret_text = STR_EMPTY;
        return ERR_OK;
    }
    err = json_get_string(found, "", &text, note);
    if (err) {
        note_prefix(note, "%s", name);
        return err;
    }
    copy = arena_dup(arena, text);
    if (!copy) return ERR_NOMEM;
    *ret_text = str_of(copy, text.len);
    return ERR_OK;
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

static enum err read_provider(const struct json *row, struct arena *arena,
                              struct fleet_command *ret_command, struct note *note)
{
    static const char *const known[] = {"name",   "Name",   "address", "Address",
                                        "region", "Region", NULL};
    struct fleet_command command = {.kind = FLEET_UPSERT_PROVIDER};
    enum err err = only_known(row, known, note);

    if (!err)
        err = text_field(row, "name", "Name", true, arena, &command.upsert_provider.name, note);
    if (!err)
        err = text_field(row, "address", "Address", false, arena, &command.upsert_provider.address,
                         note);
    if (!err)
        err = text_field(row, "region", "Region", false, arena, &command.upsert_provider.region,
                         note);
    if (!err && !command.upsert_provider.name.len) {
        note_set(note, "field 'name': empty");
        err = ERR_INVALID;
    }
    if (!err) *ret_command = command;
    return err;
}

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
        char *copy = arena_dup(arena, key);
        int64_t number;

        if (!copy) return ERR_NOMEM;
        if (json_get_i64(value, "", &number, note) || number < INT32_MIN || number > INT32_MAX) {
            note_set(note, "per_shard.%.*s: not a whole number of 32 bits", STR_ARG(key));
            return ERR_INVALID;
        }
        slices[i] = (struct fleet_slice){str_of(copy, key.len), (int32_t)number};
    }
    quota->slices = slices;
    quota->slice_count = count;
    return ERR_OK;
}

static enum err read_quota(const struct json *row, struct arena *arena,
                           struct fleet_command *ret_command, struct note *note)
{
    static const char *const known[] = {"provider", "region", "per_shard", "key", NULL};
    static const char *const known_key[] = {"Provider", "Region", NULL};
    struct fleet_command command = {.kind = FLEET_SET_QUOTA};
    const struct json *key = json_member(row, STR("key"));
    enum err err = only_known(row, known, note);

    if (!err && key) err = json_get_object(key, "", &key, note);
    if (!err && key) err = only_known(key, known_key, note);
    if (!key) key = row;
    if (!err)
        err =
            text_field(key, "provider", "Provider", true, arena, &command.set_quota.provider, note);
    if (!err)
        err = text_field(key, "region", "Region", true, arena, &command.set_quota.region, note);
    if (!err)
        err = read_slices(json_member(row, STR("per_shard")), arena, &command.set_quota, note);
    if (!err) *ret_command = command;
    return err;
}

typedef enum err read_row_fn(const struct json *row, struct arena *arena,
                             struct fleet_command *ret_command, struct note *note);

static enum err read_table(const struct json *root, const char *name, read_row_fn *read_row,
                           struct fleet_seed *seed, struct note *note)
{
    const struct json *table = json_member(root, str_from(name)), *object;

    if (!table || json_kind(table) == JSON_KIND_NULL) return ERR_OK;
    if (json_get_array(table, "", &table, note)) {
        note_prefix(note, "%s", name);
        return ERR_INVALID;
    }
    for (size_t i = 0; i < json_count(table); i++) {
        enum err err = json_get_object(json_item(table, i), "", &object, note);

        if (!err) err = read_row(object, &seed->arena, &seed->commands[seed->count], note);
        if (err) {
            note_prefix(note, "%s.%zu", name, i);
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
    err = read_table(object, "providers", read_provider, seed, note);
    return err ? err : read_table(object, "quotas", read_quota, seed, note);
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
