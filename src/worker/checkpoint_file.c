/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in a directory shared by all workers: DIR/<8 digits>/<20 digits>.ckpt, one file per
 * version of a partition. The highest number is the current version.
 *
 * A version is written to a temporary file, synced, and then named by link(2), which fails if the
 * name exists. So one of two concurrent writers succeeds, without a lock that a stopped worker
 * could keep. A damaged newest version is skipped. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/clock.h"
#include "worker/checkpoint.h"

enum { KEEP = 3, DIGITS = 20, NAME_LEN = DIGITS + 5, DIR_MODE = 0755, FILE_MODE = 0644 };

struct file_store {
    struct checkpoint_store base;
    struct fs *fs;
    char dir[FS_PATH_CAP / 2];
    uint64_t unique;
};

static void partition_dir(const struct file_store *s, uint32_t partition, char path[FS_PATH_CAP])
{
    snprintf(path, FS_PATH_CAP, "%s/%08" PRIu32, s->dir, partition);
}

static void version_path(const struct file_store *s, uint32_t partition, uint64_t number,
                         char path[FS_PATH_CAP])
{
    snprintf(path, FS_PATH_CAP, "%s/%08" PRIu32 "/%020" PRIu64 ".ckpt", s->dir, partition, number);
}

/* -- the existing versions -- */

struct versions {
    uint64_t newest[KEEP + 1]; /* descending; the version after KEEP is removed */
    size_t count;
};

static void note_version(void *context, const char *name, enum fs_kind kind)
{
    struct versions *v = context;
    struct str text = str_from(name);
    uint64_t number;
    size_t at;

    if (kind != FS_REGULAR || text.len != NAME_LEN || !str_ends(text, STR(".ckpt"))) return;
    if (str_to_u64(str_of(text.at, DIGITS), &number) || number == 0) return;
    for (at = 0; at < v->count && v->newest[at] > number; at++) continue;
    if (at == ARRAY_LEN(v->newest)) return;
    if (v->count < ARRAY_LEN(v->newest)) v->count++;
    for (size_t i = v->count - 1; i > at; i--) v->newest[i] = v->newest[i - 1];
    v->newest[at] = number;
}

static enum err list_versions(const struct file_store *s, uint32_t partition, struct versions *ret)
{
    char dir[FS_PATH_CAP];
    enum err err;

    *ret = (struct versions){0};
    partition_dir(s, partition, dir);
    err = fs_list(s->fs, dir, note_version, ret);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void set_version(struct checkpoint_version *version, uint64_t number)
{
    version->text[0] = '\0';
    if (number) snprintf(version->text, sizeof version->text, "%" PRIu64, number);
}

/* -- the two calls -- */

static enum err file_read(struct checkpoint_store *store, uint32_t partition, struct buf *into,
                          struct checkpoint_version *ret_version, struct note *note)
{
    struct file_store *s = CONTAINER_OF(store, struct file_store, base);
    char path[FS_PATH_CAP];
    struct versions v;
    enum err err = list_versions(s, partition, &v);

    if (err) return note_fail(note, err, "%s: %s", s->dir, err_text(err));
    set_version(ret_version, v.count ? v.newest[0] : 0);
    for (size_t i = 0; i < v.count; i++) {
        buf_clear(into);
        version_path(s, partition, v.newest[i], path);
        err = fs_read_whole(s->fs, path, CHECKPOINT_BYTES_MAX, into);
        if (!err && checkpoint_complete(buf_peek(into))) return ERR_OK;
        if (err && err != ERR_NOT_FOUND) break; /* ERR_NOT_FOUND: another worker removed the file */
        note_set(note, "%s is damaged", path);
    }
    if (!err && v.count) return ERR_CORRUPT; /* all versions are damaged */
    if (err && err != ERR_NOT_FOUND) note_set(note, "%s: %s", path, err_text(err));
    return err && err != ERR_NOT_FOUND ? err : v.count ? ERR_CONFLICT : ERR_NOT_FOUND;
}

static enum err link_error(int number)
{
    switch (number) {
    case EEXIST: return ERR_CONFLICT;
    case EACCES:
    case EPERM: return ERR_DENIED;
    case ENOSPC:
    case EDQUOT: return ERR_NO_SPACE;
    default: return ERR_IO;
    }
}

static enum err write_beside(struct file_store *s, const char *temp, struct str content)
{
    struct fs_file *file;
    enum err err = fs_open(s->fs, temp, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, FILE_MODE, &file);

    if (err) return err;
    err = fs_write_at(s->fs, file, 0, content);
    if (!err) err = fs_sync(s->fs, file);
    fs_close(s->fs, file);
    return err;
}

static enum err publish(struct file_store *s, uint32_t partition, uint64_t number,
                        struct str content, struct note *note)
{
    char path[FS_PATH_CAP], dir[FS_PATH_CAP], temp[FS_PATH_CAP];
    enum err err;

    version_path(s, partition, number, path);
    err = fs_temp_for(path, s->unique++, dir, temp);
    if (!err) err = fs_make_dirs(s->fs, dir, DIR_MODE);
    if (!err) err = write_beside(s, temp, content);
    if (!err && link(temp, path)) err = link_error(errno);
    if (err != ERR_EXISTS) (void)fs_remove(s->fs, temp);
    if (err && err != ERR_CONFLICT) note_set(note, "%s: %s", path, err_text(err));
    if (err) return err;
    return fs_sync_dir(s->fs, dir) ? ERR_UNKNOWN : ERR_OK; /* visible, but possibly not durable */
}

static enum err file_write(struct checkpoint_store *store, uint32_t partition,
                           const struct checkpoint_version *expected, struct str content,
                           struct checkpoint_version *ret_version, struct note *note)
{
    struct file_store *s = CONTAINER_OF(store, struct file_store, base);
    uint64_t seen = 0, number;
    char path[FS_PATH_CAP];
    struct versions v;
    enum err err;

    if (expected->text[0] && str_to_u64(str_from(expected->text), &seen)) return ERR_INVALID;
    number = seen + 1;
    err = publish(s, partition, number, content, note);
    if (err && err != ERR_UNKNOWN) return err;
    /* A removed version frees its number. So check that no higher number exists. */
    if (list_versions(s, partition, &v)) return ERR_UNKNOWN;
    if (v.count == 0 || v.newest[0] != number) {
        version_path(s, partition, number, path);
        (void)fs_remove(s->fs, path);
        return ERR_CONFLICT;
    }
    if (!err) set_version(ret_version, number);
    if (!err && v.count > KEEP) {
        version_path(s, partition, v.newest[KEEP], path);
        (void)fs_remove(s->fs, path); /* if the removal fails, the next write repeats it */
    }
    return err;
}

static void file_close(struct checkpoint_store *store)
{
    free(CONTAINER_OF(store, struct file_store, base));
}

enum err checkpoint_file_open(struct fs *fs, const char *dir, struct checkpoint_store **ret_store,
                              struct note *note)
{
    static const struct checkpoint_store_ops ops = {file_read, file_write, file_close};
    struct file_store *s = calloc(1, sizeof *s);

    if (!s) return ERR_NOMEM;
    s->base.ops = &ops;
    s->fs = fs;
    s->unique = entropy_u64(entropy_real());
    if (snprintf(s->dir, sizeof s->dir, "%s", dir) >= (int)sizeof s->dir) {
        note_set(note, "the path is too long");
        free(s);
        return ERR_INVALID;
    }
    *ret_store = &s->base;
    return ERR_OK;
}
