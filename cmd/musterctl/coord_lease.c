/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord renew and release: a claim whose handle is in a file between two commands. */
#include <inttypes.h>
#include <stdlib.h>

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
    /* 0600: every reader of it holds the claim. */
    if (!err)
        err = fs_publish(fs_real(), path, str_of(blob, len), 0600, entropy_u64(entropy_real()));
    free(blob);
    if (err) note_set(&coord->ctl->note, "write the handle to %s: %s", path, err_text(err));
    return err;
}

enum err coord_ctl_load_lease(struct coord_ctl *coord, const char *path, coord_lease **ret_lease)
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

enum err coord_ctl_renew(struct coord_ctl *coord)
{
    const char *path = conf_text(coord->ctl->conf, "lease");
    coord_lease *lease;
    enum err err = coord_ctl_load_lease(coord, path, &lease);

    if (err) return err;
    coord_result result = coord_renew(lease, &coord->call);
    err =
        coord_ctl_say(coord, &result, path, path, "renewed for %" PRId64 " ms (token %" PRIu64 ")",
                      coord_lease_ttl_ms(lease), coord_lease_token(lease));
    /* The state that is stored beside the keys may have changed with the renewal. */
    if (!err) err = coord_ctl_keep_lease(coord, lease, path);
    coord_lease_unref(lease);
    return err;
}

enum err coord_ctl_release(struct coord_ctl *coord)
{
    const char *path = conf_text(coord->ctl->conf, "lease");
    const char *key = conf_text(coord->ctl->conf, "key");
    coord_lease *lease;
    enum err err = coord_ctl_load_lease(coord, path, &lease);

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
