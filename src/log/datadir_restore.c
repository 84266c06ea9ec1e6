/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a replica from a backup: the only voter of a new cluster, with a snapshot and an empty
 * log.
 *
 * The new content is built in restoring/ and is durable before the file RESTORE is written. Then
 * the old content is removed, the new content is moved in, and RESTORE is removed last. RESTORE
 * prevents a start. So after a crash the directory is the complete old directory, or cannot
 * start. A repeated restore begins again. */
#include <inttypes.h>
#include <string.h>

#include "log/datadir_internal.h"

enum { DATADIR_RESTORE_FILE_MODE = 0600 };
#define STAGE "restoring"
/* Limit of a restored index or term: near 2^64 a log soon runs out. */
#define INDEX_MAX ((uint64_t)1 << 62)

struct datadir_restore_work {
    const struct datadir_restore *restore;
    struct datadir next;
    char stage[FS_PATH_CAP];
    struct note *note;
};

enum err datadir_not_restoring(struct fs *fs, const char *dir, struct note *note)
{
    bool begun = false;
    enum err err = datadir_has(fs, dir, DATADIR_RESTORE, &begun, note);
    if (err || !begun) return err;
    return note_fail(note, ERR_NOT_READY,
                     "%s/" DATADIR_RESTORE ": a restore was interrupted: run it again", dir);
}

static enum err remove_one(struct datadir_restore_work *work, const char *dir, const char *name)
{
    return datadir_remove(work->restore->fs, dir, name, work->note);
}

static enum err remove_room(struct datadir_restore_work *work, const char *dir, const char *name)
{
    enum err err = datadir_empty_subdir(work->restore->fs, dir, name, work->note);
    return err ? err : remove_one(work, dir, name);
}

static enum err clear_stage(struct datadir_restore_work *work)
{
    struct fs *fs = work->restore->fs;
    bool left = false;
    enum err err = datadir_has(fs, work->restore->dir, STAGE, &left, work->note);
    if (!err && left)
        err = fs_noted(fs_sweep_temps(fs, work->stage), "sweep", work->stage, work->note);
    if (err || !left) return err;
    err = remove_room(work, work->stage, "log");
    if (!err) err = remove_room(work, work->stage, "snap");
    if (!err) err = remove_one(work, work->stage, DATADIR_FORMAT);
    return err ? err : remove_one(work, work->restore->dir, STAGE);
}

/* -- building, in restoring/ -- */

static enum err write_sections(struct datadir_restore_work *work, struct snap_writer *writer)
{
    const struct datadir_restore *restore = work->restore;
    struct buf chunk;
    uint32_t section = 0;
    enum err err = ERR_OK;
    buf_init(&chunk, SNAP_CHUNK_MAX);
    while (!err) {
        buf_clear(&chunk);
        err = restore->next(restore->owner, &section, &chunk, work->note);
        if (err || section == DATADIR_SECTIONS_END) break;
        err = snap_write(writer, section, buf_peek(&chunk), work->note);
    }
    buf_deinit(&chunk);
    return err;
}

static enum err write_snapshot(struct datadir_restore_work *work)
{
    const struct datadir_restore *restore = work->restore;
    struct snap_writer *writer;
    struct snap_head head = {
        .mark = {.index = restore->index,
                 .term = restore->term,
                 .members_index = restore->index,
                 .members = {.count = 1,
                             .at = {{.id = work->next.replica_id, .role = MEMBER_VOTER}}}},
        .cluster_id = work->next.cluster_id,
        .level = restore->level,
        .clock_ns = restore->clock_ns,
    };
    uint64_t bytes;
    memcpy(head.mark.members.at[0].address, restore->address, strlen(restore->address) + 1);
    enum err err = snap_create(restore->fs, work->stage, &head, entropy_u64(restore->entropy),
                               &writer, work->note);
    if (err) return err;
    err = write_sections(work, writer);
    if (!err) return snap_finish(writer, &bytes, work->note);
    snap_abandon(writer);
    return err;
}

static enum err build(struct datadir_restore_work *work)
{
    struct fs *fs = work->restore->fs;
    uint64_t unique = entropy_u64(work->restore->entropy);
    struct datadir_first first = {.fs = fs,
                                  .entropy = work->restore->entropy,
                                  .dir = work->stage,
                                  .datadir = work->next,
                                  .term = work->restore->term,
                                  .index = work->restore->index};
    enum err err = fs_noted(fs_make_dirs(fs, work->stage, 0700), "make", work->stage, work->note);
    if (!err) err = datadir_make_subdirs(fs, work->stage, unique, work->note);
    if (!err) err = write_snapshot(work);
    if (!err) err = datadir_write_first(&first, work->note);
    if (!err)
        err = datadir_mark_write(fs, work->stage, DATADIR_FORMAT, &work->next, unique, work->note);
    return err;
}

/* -- replacing the old content -- */

static enum err move_in(struct datadir_restore_work *work, const char *name)
{
    struct fs *fs = work->restore->fs;
    char from[FS_PATH_CAP], to[FS_PATH_CAP];
    enum err err = fs_path(work->stage, name, from, work->note);
    if (!err) err = fs_path(work->restore->dir, name, to, work->note);
    return err ? err : fs_noted(fs_rename(fs, from, to), "move in", from, work->note);
}

static enum err take_place(struct datadir_restore_work *work)
{
    const struct datadir_restore *restore = work->restore;
    const char *dir = restore->dir;
    char path[FS_PATH_CAP];
    enum err err = fs_path(dir, DATADIR_RESTORE, path, work->note);
    if (err) return err;
    err = fs_publish(restore->fs, path, STR("muster-restore 1\n"), DATADIR_RESTORE_FILE_MODE,
                     entropy_u64(restore->entropy));
    if (err) return fs_noted(err, "write", path, work->note);
    err = remove_one(work, dir, DATADIR_FORMAT);
    if (!err) err = remove_one(work, dir, DATADIR_NEXT);
    if (!err) err = remove_room(work, dir, "log");
    if (!err) err = remove_room(work, dir, "snap");
    if (!err) err = move_in(work, "log");
    if (!err) err = move_in(work, "snap");
    if (!err) err = move_in(work, DATADIR_FORMAT);
    if (!err)
        err = fs_noted(fs_sync_dir(restore->fs, work->stage), "sync", work->stage, work->note);
    if (!err) err = fs_noted(fs_sync_dir(restore->fs, dir), "sync", dir, work->note);
    if (!err) err = remove_one(work, dir, DATADIR_RESTORE);
    if (!err) err = remove_one(work, dir, STAGE);
    return err ? err : fs_noted(fs_sync_dir(restore->fs, dir), "sync", dir, work->note);
}

static enum err restore_locked(struct datadir_restore_work *work)
{
    const struct datadir_restore *restore = work->restore;
    enum err err =
        fs_noted(fs_sweep_temps(restore->fs, restore->dir), "sweep", restore->dir, work->note);
    if (!err) err = clear_stage(work);
    if (!err) err = build(work);
    return err ? err : take_place(work);
}

static enum err datadir_restore_check_options(const struct datadir_restore *restore,
                                              struct note *note)
{
    size_t len = restore->address ? strlen(restore->address) : 0;
    if (restore->index == 0)
        return note_fail(note, ERR_INVALID, "index 0: not a valid coordinator snapshot");
    if (restore->index > INDEX_MAX || restore->term > INDEX_MAX || restore->term == 0)
        return note_fail(note, ERR_INVALID, "index %" PRIu64 ", term %" PRIu64 ": out of range",
                         restore->index, restore->term);
    if (len == 0 || len > REPLICA_ADDRESS_MAX)
        return note_fail(note, ERR_INVALID, "the replica needs an address of at most %d bytes",
                         REPLICA_ADDRESS_MAX);
    return ERR_OK;
}

enum err datadir_restore(const struct datadir_restore *restore, struct datadir *ret_datadir,
                         struct note *note)
{
    struct fs_lock *lock;
    struct datadir_restore_work work = {.restore = restore, .note = note};
    enum err err = datadir_restore_check_options(restore, note);
    if (!err) err = fs_path(restore->dir, STAGE, work.stage, note);
    if (!err)
        err = fs_noted(fs_make_dirs(restore->fs, restore->dir, 0700), "make", restore->dir, note);
    if (!err) err = fs_lock_dir(restore->fs, restore->dir, &lock, note);
    if (err) return err;
    work.next = datadir_draw(restore->entropy);
    err = restore_locked(&work);
    fs_unlock(restore->fs, lock);
    if (!err) *ret_datadir = work.next;
    return err;
}
