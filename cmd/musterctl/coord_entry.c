/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord create, cas, get and delete work on one entry. renew and release work on a claim
 * whose handle is kept in a file between two commands. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/fs.h"
#include "musterctl/coord.h"

enum { LEASE_FILE_MAX = 4 * 1024 * 1024 };

enum err coord_ctl_keep_lease(struct coord_ctl *coord, const coord_lease *lease, const char *path)
{
    size_t len = coord_lease_export(lease, NULL, 0);
    char *blob = len > 0 ? malloc(len) : NULL;
    enum err err = blob == NULL ? ERR_NOMEM : ERR_OK;

    if (!err && coord_lease_export(lease, blob, len) != len) err = ERR_FENCED;
    /* Mode 0600: who can read the file has the claim. */
    if (!err)
        err = fs_publish(fs_real(), path, str_of(blob, len), 0600, entropy_u64(entropy_real()));
    free(blob);
    if (err) note_set(&coord->ctl->note, "write the handle to %s: %s", path, err_text(err));
    return err;
}

static enum err entry_load_lease(struct coord_ctl *coord, const char *path, coord_lease **ret_lease)
{
    struct buf blob;
    enum err err;

    buf_init(&blob, LEASE_FILE_MAX + 1);
    err = fs_read_whole(fs_real(), path, LEASE_FILE_MAX, &blob);
    if (err) {
        note_set(&coord->ctl->note, "handle %s: %s", path, err_text(err));
    } else {
        coord_result result =
            coord_lease_import(coord->store, &coord->call, blob.data, blob.len, ret_lease);
        err = coord_ctl_error(coord->ctl, &result);
        if (err) note_prefix(&coord->ctl->note, "handle %s", path);
    }
    buf_deinit(&blob);
    return err;
}

/* Writes the handle to the file of --lease. Without a file the claim will expire. */
static enum err entry_keep_lease(struct coord_ctl *coord, const coord_result *result,
                                 coord_lease *lease)
{
    const char *path = conf_text(coord->ctl->conf, "lease");
    enum err err = ERR_OK;

    if (lease == NULL) return ERR_OK;
    if (path != NULL) err = coord_ctl_keep_lease(coord, lease, path);
    if (err) (void)coord_release(lease, &coord->call); /* no handle was saved */
    if (!err && path == NULL && !coord->ctl->json)
        ctl_line(coord->ctl, "no --lease: the claim ends by itself in %" PRId64 " ms",
                 result->granted_ttl_ms);
    coord_lease_unref(lease);
    return err;
}

enum err coord_ctl_create(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_str key = coord_ctl_argument(ctl, 0), value;
    int64_t ttl = (int64_t)conf_number(ctl->conf, "ttl");
    coord_lease *lease = NULL;
    char memory[132];
    enum err err = coord_ctl_value(ctl, 1, &value);

    if (!err && ttl == 0 && conf_text(ctl->conf, "lease") != NULL)
        err = ctl_fail(ctl, ERR_INVALID, "--lease needs --ttl: an entry without one has no handle");
    if (err) return err;
    coord_result result =
        coord_create_if_absent(coord->store, &coord->call, key, value, ttl,
                               ttl > 0 ? coord_ctl_owner(ctl, memory) : NULL, &lease);
    err = coord_ctl_say(coord, &result, key.at, conf_text(ctl->conf, "lease"),
                        "created %.*s at revision %" PRIu64, STR_ARG(key), result.revision);
    return err ? err : entry_keep_lease(coord, &result, lease);
}

enum err coord_ctl_cas(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_str key = coord_ctl_argument(ctl, 0), value;
    const char *path = conf_text(ctl->conf, "lease");
    int64_t ttl = (int64_t)conf_number(ctl->conf, "ttl");
    coord_lease *mine = NULL, *made = NULL;
    uint64_t expected;
    char memory[132];
    enum err err = str_to_u64(str_from(conf_argument(ctl->conf, 1)), &expected);

    if (err) note_set(&ctl->note, "REVISION: %s", err_text(err));
    if (!err) err = coord_ctl_value(ctl, 2, &value);
    if (!err && path != NULL && expected > 0) err = entry_load_lease(coord, path, &mine);
    if (err) return err;
    if (ttl == 0 && expected > 0 && !conf_bool(ctl->conf, "drop-lease")) ttl = COORD_TTL_KEEP;
    coord_result result = coord_compare_and_set(
        coord->store, &coord->call, key, expected, value, ttl,
        ttl > 0 && mine == NULL ? coord_ctl_owner(ctl, memory) : NULL, mine, &made);
    err = coord_ctl_say(coord, &result, key.at, path, "%s %.*s at revision %" PRIu64,
                        coord_reason_name(result.reason), STR_ARG(key), result.revision);
    coord_lease_unref(mine);
    return err ? err : entry_keep_lease(coord, &result, made);
}

/* Prints the raw bytes into a pipe, but escapes control characters on a terminal. */
static void entry_print_value(struct ctl *ctl, coord_str value)
{
    struct str bytes = str_of(value.at, value.len);

    (isatty(STDOUT_FILENO) ? ctl_append_shown : ctl_append)(ctl, bytes);
    ctl_append(ctl, STR("\n"));
}

static void entry_print(struct ctl *ctl, const coord_entry *entry)
{
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_string(json, STR("key"), str_of(entry->key.at, entry->key.len));
    ndjson_string(json, STR("value"), str_of(entry->value.at, entry->value.len));
    ndjson_u64(json, STR("revision"), entry->revision);
    ndjson_u64(json, STR("create_revision"), entry->create_revision);
    ndjson_c_string(json, STR("owner"), entry->ttl_ms > 0 ? entry->owner : NULL);
    ndjson_u64(json, STR("token"), entry->token);
    ndjson_i64(json, STR("ttl_ms"), entry->ttl_ms);
    ndjson_i64(json, STR("remaining_ms"), entry->remaining_ms);
    ctl_json_end(ctl);
}

enum err coord_ctl_get(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_entry *entry = NULL;
    coord_result result =
        coord_get(coord->store, &coord->call, coord_ctl_argument(ctl, 0),
                  conf_bool(ctl->conf, "stale") ? COORD_STALE_OK : COORD_LATEST, &entry);
    enum err err = coord_ctl_error(ctl, &result);

    if (!err && ctl->json) entry_print(ctl, entry);
    if (!err && !ctl->json) entry_print_value(ctl, entry->value);
    coord_entry_free(entry);
    return err;
}

enum err coord_ctl_delete(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_str key = coord_ctl_argument(ctl, 0);
    const char *path = conf_text(ctl->conf, "lease");
    uint64_t revision = conf_number(ctl->conf, "revision");
    bool force = conf_bool(ctl->conf, "force");
    coord_lease *mine = NULL;
    enum err err = ERR_OK;

    if (force && (revision > 0 || path != NULL))
        return ctl_fail(ctl, ERR_INVALID, "--force takes neither --revision nor --lease");
    if (path != NULL) err = entry_load_lease(coord, path, &mine);
    if (!err && force) err = ctl_confirm(ctl, "The holder loses its claim.");
    if (err) return err;
    coord_result result =
        coord_delete(coord->store, &coord->call, key,
                     force ? COORD_FORCE : (revision > 0 ? revision : COORD_ANY), mine);
    coord_lease_unref(mine);
    return coord_ctl_say(coord, &result, key.at, NULL, "deleted %.*s", STR_ARG(key));
}

enum err coord_ctl_renew(struct coord_ctl *coord)
{
    const char *path = conf_text(coord->ctl->conf, "lease");
    coord_lease *lease;
    enum err err = entry_load_lease(coord, path, &lease);

    if (err) return err;
    coord_result result = coord_renew(lease, &coord->call);
    err =
        coord_ctl_say(coord, &result, path, path, "renewed for %" PRId64 " ms (token %" PRIu64 ")",
                      coord_lease_ttl_ms(lease), coord_lease_token(lease));
    /* The renewal may have changed the handle's state. */
    if (!err) err = coord_ctl_keep_lease(coord, lease, path);
    coord_lease_unref(lease);
    return err;
}

enum err coord_ctl_release(struct coord_ctl *coord)
{
    const char *path = conf_text(coord->ctl->conf, "lease");
    const char *key = conf_text(coord->ctl->conf, "key");
    coord_lease *lease;
    enum err err = entry_load_lease(coord, path, &lease);

    if (err) return err;
    struct str name = str_from(key);
    coord_result result =
        key == NULL ? coord_release(lease, &coord->call)
                    : coord_release_key(lease, &coord->call, (coord_str){name.at, name.len});
    err = coord_ctl_say(coord, &result, key != NULL ? key : path, path, "released %s",
                        key != NULL ? key : path);
    if (!err && key == NULL) (void)fs_remove(fs_real(), path);
    if (!err && key != NULL) err = coord_ctl_keep_lease(coord, lease, path);
    coord_lease_unref(lease);
    return err;
}
