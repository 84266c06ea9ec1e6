/* SPDX-License-Identifier: Apache-2.0 */
/* A damaged replica begins anew: its log and snapshots are put aside, and it becomes another
 * replica, because one that lost what it promised must not vote under the old identity (rule R1).
 * It belongs to no cluster until one takes it in: after a restore or a force-config the cluster at
 * its addresses has another identity than the one it left. */
#include <inttypes.h>
#include <stdio.h>

#include "log/datadir_internal.h"

/* Moves one room aside, durably. When it is there already, an earlier run moved it, and the room in
 * its place is that run's beginning. */
static enum err put_aside(struct fs *fs, const char *dir, const char *aside, const char *name,
                          struct note *note)
{
    char from[FS_PATH_CAP], to[FS_PATH_CAP];
    bool moved = false;
    enum err err = fs_path(dir, name, from, note);
    if (!err) err = fs_path(aside, name, to, note);
    if (!err) err = datadir_has(fs, aside, name, &moved, note);
    if (err) return err;
    if (moved) return datadir_empty_room(fs, dir, name, note);
    err = fs_rename(fs, from, to);
    if (err == ERR_NOT_FOUND) return ERR_OK; /* a room that is missing is no loss now */
    if (!err) err = fs_sync_dir(fs, aside);
    if (!err) err = fs_sync_dir(fs, dir);
    if (err) note_set(note, "put %s aside as %s: %s", from, to, err_text(err));
    return err;
}

static enum err rejoin_locked(struct fs *fs, struct entropy *entropy, const char *dir,
                              struct datadir *ret_old, struct datadir *ret_new, struct note *note)
{
    char name[64], aside[FS_PATH_CAP];
    struct datadir old, next = {0};
    enum err err = datadir_read_file(fs, dir, DATADIR_FORMAT, &old, note);
    if (err) return err;
    struct datadir drawn = {.replica_id = datadir_draw_id(entropy)};
    uint64_t unique = entropy_u64(entropy);
    err = datadir_begin(fs, dir, &old, &drawn, unique, &next, note);
    if (!err && next.cluster_id) { /* an older release began it */
        next.cluster_id = 0;
        err = datadir_write_file(fs, dir, DATADIR_NEXT, &next, unique + 1, note);
    }
    if (err) return err;
    snprintf(name, sizeof name, "damaged-%016" PRIx64, old.replica_id);
    err = fs_path(dir, name, aside, note);
    if (!err) err = datadir_make(fs, aside, note);
    if (!err) err = put_aside(fs, dir, aside, "log", note);
    if (!err) err = put_aside(fs, dir, aside, "snap", note);
    if (!err) err = datadir_make_rooms(fs, dir, unique, note);
    if (!err) {
        struct datadir_first first = {.fs = fs, .entropy = entropy, .dir = dir, .datadir = next};
        err = datadir_write_first(&first, note);
    }
    if (!err) err = datadir_commit(fs, dir, note);
    if (err) return err;
    *ret_old = old;
    *ret_new = next;
    return ERR_OK;
}

enum err datadir_rejoin(struct fs *fs, struct entropy *entropy, const char *dir,
                        struct datadir *ret_old, struct datadir *ret_new, struct note *note)
{
    struct fs_lock *lock;
    enum err err = fs_lock_dir(fs, dir, &lock, note);
    if (err) return err;
    err = rejoin_locked(fs, entropy, dir, ret_old, ret_new, note);
    fs_unlock(fs, lock);
    return err;
}
