/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a damaged replica a new identity and moves its log and snapshots aside. A replica that
 * lost acknowledged data must not vote under its old identity (rule R1). The new identity has no
 * cluster id until a cluster adds the replica. */
#include <inttypes.h>
#include <stdio.h>

#include "log/datadir_internal.h"

/* Moves log/ or snap/ into `aside`, durably. An existing target means that an earlier run moved
 * the directory. */
static enum err put_aside(struct fs *fs, const char *dir, const char *aside, const char *name,
                          struct note *note)
{
    char from[FS_PATH_CAP], to[FS_PATH_CAP];
    bool moved = false;
    enum err err = fs_path(dir, name, from, note);
    if (!err) err = fs_path(aside, name, to, note);
    if (!err) err = datadir_has(fs, aside, name, &moved, note);
    if (err) return err;
    if (moved) return datadir_empty_subdir(fs, dir, name, note);
    err = fs_rename(fs, from, to);
    if (err == ERR_NOT_FOUND) return ERR_OK;
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
    if (!err && next.cluster_id) { /* an older release began the rejoin */
        next.cluster_id = 0;
        err = datadir_mark_write(fs, dir, DATADIR_NEXT, &next, unique + 1, note);
    }
    if (err) return err;
    snprintf(name, sizeof name, "damaged-%016" PRIx64, old.replica_id);
    err = fs_path(dir, name, aside, note);
    if (!err) err = fs_noted(fs_make_dirs(fs, aside, 0700), "make", aside, note);
    if (!err) err = put_aside(fs, dir, aside, "log", note);
    if (!err) err = put_aside(fs, dir, aside, "snap", note);
    if (!err) err = datadir_make_subdirs(fs, dir, unique, note);
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
