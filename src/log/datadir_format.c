/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a data directory. FORMAT.new is written first and renamed to FORMAT last, so that an
 * unfinished directory is never a replica. The next run empties an unfinished directory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log/datadir_internal.h"
#include "log/members.h"

enum { DATADIR_FORMAT_FILE_MODE = 0600, LEFT_MAX = 64 * 1024 };

/* -- log/ and snap/ -- */

static enum err datadir_format_make_room(struct fs *fs, const char *dir, const char *name,
                                         struct str line, uint64_t unique, struct note *note)
{
    char room[FS_PATH_CAP], path[FS_PATH_CAP];
    bool made = false;
    enum err err = fs_path(dir, name, room, note);
    if (!err) err = fs_noted(fs_make_dirs(fs, room, 0700), "make", room, note);
    if (!err) err = datadir_has(fs, room, DATADIR_FORMAT, &made, note);
    if (!err) err = fs_path(room, DATADIR_FORMAT, path, note);
    if (err || made) return err;
    return fs_noted(fs_publish(fs, path, line, DATADIR_FORMAT_FILE_MODE, unique), "make", path,
                    note);
}

enum err datadir_make_subdirs(struct fs *fs, const char *dir, uint64_t unique, struct note *note)
{
    enum err err = datadir_format_make_room(fs, dir, "log", STR("muster-log 1\n"), unique, note);
    return err ? err
               : datadir_format_make_room(fs, dir, "snap", STR("muster-snap 1\n"), unique, note);
}

/* -- existing content -- */

static bool any_name(struct str, enum fs_kind)
{
    return true;
}

static enum err left_in(struct fs *fs, const char *dir, const char *name, char path[FS_PATH_CAP],
                        struct buf *ret_names, struct note *note)
{
    buf_init(ret_names, LEFT_MAX);
    enum err err = fs_path(dir, name, path, note);
    if (!err) err = fs_names(fs, path, any_name, ret_names, note);
    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (err) buf_deinit(ret_names);
    return err;
}

enum err datadir_empty_subdir(struct fs *fs, const char *dir, const char *name, struct note *note)
{
    char path[FS_PATH_CAP], file[FS_PATH_CAP];
    struct buf left;
    enum err err = left_in(fs, dir, name, path, &left, note);
    if (err) return err;
    for (size_t at = 0; !err && at < left.len; at += strlen(left.data + at) + 1) {
        err = fs_path(path, left.data + at, file, note);
        if (!err) err = fs_remove(fs, file);
    }
    if (!err && left.len > 0) err = fs_sync_dir(fs, path);
    buf_deinit(&left);
    return fs_noted(err, "empty", path, note);
}

static enum err subdir_must_be_empty(struct fs *fs, const char *dir, const char *name,
                                     struct note *note)
{
    char path[FS_PATH_CAP];
    struct buf left;
    enum err err = left_in(fs, dir, name, path, &left, note);
    if (err) return err;
    if (left.len > 0)
        err = note_fail(note, ERR_EXISTS, "%s: holds %s, but %s has no " DATADIR_FORMAT, path,
                        left.data, dir);
    buf_deinit(&left);
    return err;
}

enum err datadir_must_be_free(struct fs *fs, const char *dir, struct note *note)
{
    bool made = false, half_made = false;
    enum err err = datadir_not_restoring(fs, dir, note);
    if (!err) err = datadir_has(fs, dir, DATADIR_FORMAT, &made, note);
    if (!err && made) {
        note_set(note, "%s/" DATADIR_FORMAT ": exists already", dir);
        err = ERR_EXISTS;
    }
    if (!err) err = datadir_has(fs, dir, DATADIR_NEXT, &half_made, note);
    if (err) return err;
    enum err (*look)(struct fs *, const char *, const char *, struct note *) =
        half_made ? datadir_empty_subdir : subdir_must_be_empty;
    err = look(fs, dir, "log", note);
    return err ? err : look(fs, dir, "snap", note);
}

/* -- making -- */

static enum err founders_check(const struct datadir_format_options *options,
                               const struct datadir *datadir, struct members *ret_founders,
                               struct note *note)
{
    struct members founders = *options->founders;
    size_t self = 0;
    for (size_t i = 0; i < founders.count; i++) {
        struct member *member = &founders.at[i];
        if (member->id == 0 && founders.count == 1) member->id = datadir->replica_id;
        if (member->id == datadir->replica_id) self++;
        if (member->id == 0 || member->role != MEMBER_VOTER)
            return note_fail(note, ERR_INVALID, "founder %zu: needs an id, and to be a voter",
                             i + 1);
        if (members_check_address(str_from(member->address), note)) {
            note_prefix(note, "founder %zu", i + 1);
            return ERR_INVALID;
        }
    }
    if (self != 1 || founders.count > REPLICA_VOTERS_MAX)
        return note_fail(note, ERR_INVALID,
                         "%zu founders: this replica must be among them once, and at most %d",
                         founders.count, REPLICA_VOTERS_MAX);
    *ret_founders = founders;
    return ERR_OK;
}

enum err datadir_write_first(const struct datadir_first *first, struct note *note)
{
    struct vote_file *vote_file;
    struct vote vote;
    struct wal *wal;
    enum err err = vote_open(first->fs, first->dir, false, &vote_file, &vote, note);
    if (err) return err;
    err = vote_write(vote_file, (struct vote){.term = first->term}, note);
    vote_close(vote_file);
    if (err) return err;
    struct wal_options options =
        datadir_wal(first->fs, first->entropy, first->dir, &first->datadir);
    options.create = true;
    err = wal_open(&options, false, NULL, NULL, &wal, NULL, note);
    if (err) return err;
    if (first->index > 0) err = wal_reset(wal, first->index, first->term, note);
    if (first->configuration.len > 0) {
        struct entry entry = {
            .index = 1, .term = first->term, .kind = ENTRY_CHANGE, .bytes = first->configuration};
        struct wal_place place;
        err = wal_append(wal, &entry, 1, &place, note);
    }
    if (!err) err = wal_seal(wal, note);
    wal_close(wal);
    return err;
}

static enum err format_locked(const struct datadir_format_options *options,
                              struct datadir *ret_datadir, struct note *note)
{
    struct fs *fs = options->fs;
    const char *dir = options->dir;
    struct members founders = {.count = 0};
    struct buf configuration;
    struct datadir datadir = {.replica_id = options->replica_id, .cluster_id = options->cluster_id};
    if (datadir.replica_id == 0) datadir.replica_id = datadir_draw_id(options->entropy);
    if (options->founders && datadir.cluster_id == 0)
        datadir.cluster_id = datadir_draw_id(options->entropy);
    uint64_t unique = entropy_u64(options->entropy);

    enum err err = datadir_must_be_free(fs, dir, note);
    if (!err && options->founders) err = founders_check(options, &datadir, &founders, note);
    if (!err) err = fs_noted(fs_sweep_temps(fs, dir), "sweep", dir, note);
    if (err) return err;
    buf_init(&configuration, ENTRY_BYTES_MAX);
    if (options->founders && (err = members_encode(&founders, &configuration)))
        note_set(note, "configuration: %s", err_text(err));
    if (!err) err = datadir_mark_write(fs, dir, DATADIR_NEXT, &datadir, unique, note);
    if (!err) err = datadir_make_subdirs(fs, dir, unique, note);
    if (!err) {
        struct datadir_first first = {
            .fs = fs,
            .entropy = options->entropy,
            .dir = dir,
            .datadir = datadir,
            .term = options->founders ? 1 : 0,
            .configuration = buf_peek(&configuration),
        };
        err = datadir_write_first(&first, note);
    }
    if (!err) err = datadir_commit(fs, dir, note);
    buf_deinit(&configuration);
    if (!err) *ret_datadir = datadir;
    return err;
}

enum err datadir_format(const struct datadir_format_options *options, struct datadir *ret_datadir,
                        struct note *note)
{
    struct fs_lock *lock;
    enum err err =
        fs_noted(fs_make_dirs(options->fs, options->dir, 0700), "make", options->dir, note);
    if (!err) err = fs_lock_dir(options->fs, options->dir, &lock, note);
    if (err) return err;
    err = format_locked(options, ret_datadir, note);
    fs_unlock(options->fs, lock);
    return err;
}
