/* SPDX-License-Identifier: Apache-2.0 */
/* Making a data directory. The identity is written to FORMAT.new first and becomes FORMAT last, so
 * that nobody takes a half made directory for a replica; one that is found half made is emptied of
 * what was made, and made anew. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log/datadir_internal.h"
#include "log/members.h"

enum { DATADIR_FORMAT_FILE_MODE = 0600, LEFT_MAX = 64 * 1024 };

/* -- rooms -- */

static enum err datadir_format_make_room(struct fs *fs, const char *dir, const char *name,
                                         const char *format_name, struct str line, uint64_t unique,
                                         struct note *note)
{
    char path[FS_PATH_CAP];
    struct fs_info info;
    enum err err = datadir_path(dir, name, path, note);
    if (err) return err;
    err = datadir_make(fs, path, note);
    if (!err) err = datadir_path(dir, format_name, path, note);
    if (err) return err;
    if ((err = fs_stat(fs, path, &info)) == ERR_NOT_FOUND)
        err = fs_publish(fs, path, line, DATADIR_FORMAT_FILE_MODE, unique);
    if (err) note_set(note, "make %s: %s", path, err_text(err));
    return err;
}

enum err datadir_make_rooms(struct fs *fs, const char *dir, uint64_t unique, struct note *note)
{
    enum err err =
        datadir_format_make_room(fs, dir, "log", "log/FORMAT", STR("muster-log 1\n"), unique, note);
    if (!err)
        err = datadir_format_make_room(fs, dir, "snap", "snap/FORMAT", STR("muster-snap 1\n"),
                                       unique, note);
    return err;
}

/* -- what is there already -- */

struct left { /* names found in log/ or snap/ */
    struct buf names;
    enum err err;
};

static void datadir_format_gather(void *context, const char *name, enum fs_kind)
{
    struct left *left = context;
    if (!left->err) left->err = buf_append(&left->names, str_of(name, strlen(name) + 1));
}

static enum err left_in(struct fs *fs, const char *path, struct left *left, struct note *note)
{
    buf_init(&left->names, LEFT_MAX);
    left->err = ERR_OK;
    enum err err = fs_list(fs, path, datadir_format_gather, left);
    if (!err) err = left->err;
    if (err == ERR_NOT_FOUND) err = ERR_OK;
    if (err) {
        note_set(note, "list %s: %s", path, err_text(err));
        buf_deinit(&left->names);
    }
    return err;
}

enum err datadir_empty_room(struct fs *fs, const char *dir, const char *name, struct note *note)
{
    char path[FS_PATH_CAP], file[FS_PATH_CAP];
    struct left left;
    enum err err = datadir_path(dir, name, path, note);
    if (!err) err = left_in(fs, path, &left, note);
    if (err) return err;
    for (size_t at = 0; !err && at < left.names.len; at += strlen(left.names.data + at) + 1) {
        err = datadir_path(path, left.names.data + at, file, note);
        if (!err) err = fs_remove(fs, file);
    }
    if (!err && left.names.len > 0) err = fs_sync_dir(fs, path);
    if (err) note_set(note, "empty %s: %s", path, err_text(err));
    buf_deinit(&left.names);
    return err;
}

static enum err room_must_be_empty(struct fs *fs, const char *dir, const char *name,
                                   struct note *note)
{
    char path[FS_PATH_CAP];
    struct left left;
    enum err err = datadir_path(dir, name, path, note);
    if (!err) err = left_in(fs, path, &left, note);
    if (err) return err;
    if (left.names.len > 0) {
        note_set(note, "%s: holds %s, but %s has no " DATADIR_FORMAT, path, left.names.data, dir);
        err = ERR_EXISTS;
    }
    buf_deinit(&left.names);
    return err;
}

static enum err must_be_free(struct fs *fs, const char *dir, struct note *note)
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
        half_made ? datadir_empty_room : room_must_be_empty;
    err = look(fs, dir, "log", note);
    return err ? err : look(fs, dir, "snap", note);
}

/* -- making -- */

/* The founders with our own identity filled in. */
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
    struct wal_options options = {
        .fs = first->fs,
        .entropy = first->entropy,
        .dir = first->dir,
        .cluster_id = first->datadir.cluster_id,
        .replica_id = first->datadir.replica_id,
        .create = true,
    };
    err = wal_open(&options, false, NULL, NULL, &wal, NULL, note);
    if (err) return err;
    if (first->configuration.len > 0) {
        struct entry entry = {
            .index = 1, .term = first->term, .kind = ENTRY_CHANGE, .bytes = first->configuration};
        struct wal_place place;
        err = wal_append(wal, &entry, 1, &place, note);
        if (!err) err = wal_seal(wal, note);
    }
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

    enum err err = must_be_free(fs, dir, note);
    if (!err && options->founders) err = founders_check(options, &datadir, &founders, note);
    if (!err) err = datadir_sweep(fs, dir, note);
    if (err) return err;
    buf_init(&configuration, ENTRY_BYTES_MAX);
    if (options->founders && (err = members_encode(&founders, &configuration)))
        note_set(note, "configuration: %s", err_text(err));
    if (!err) err = datadir_write_file(fs, dir, DATADIR_NEXT, &datadir, unique, note);
    if (!err) err = datadir_make_rooms(fs, dir, unique, note);
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
    enum err err = datadir_make(options->fs, options->dir, note);
    if (!err) err = fs_lock_dir(options->fs, options->dir, &lock, note);
    if (err) return err;
    err = format_locked(options, ret_datadir, note);
    fs_unlock(options->fs, lock);
    return err;
}
