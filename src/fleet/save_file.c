/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a stream to a temporary file, and verifies the file before renaming it. Calls block. */
#include "fleet/save_file.h"

#include <stdlib.h>
#include <string.h>

#include "fleet/format/meta.h"
#include "fleet/format/tar.h"
#include "fleet/snapshot_read.h"
#include "log/snapfile.h"

enum { SAVE_FILE_FILE_MODE = 0600, HEAD_MAX = FLEET_META_BYTES_MAX + 4 * TAR_BLOCK };

struct save_file {
    struct fs *fs;
    struct fs_file *file;
    enum save_kind kind;
    char path[FS_PATH_CAP], temp[FS_PATH_CAP], dir[FS_PATH_CAP];
    uint64_t begin, at; /* file offsets of the data's first byte and of its end so far */
    bool has_meta;
    struct buf meta_json; /* used by SAVE_SNAPSHOT */
};

static enum err save_say(const struct save_file *file, enum err err, const char *what,
                         struct note *note)
{
    if (err) note_set(note, "%s %s: %s", what, file->temp, err_text(err));
    return err;
}

/* Refuses to replace a file that does not begin like a backup or a snapshot. */
static enum err save_check_target(struct fs *fs, const char *path, struct note *note)
{
    char bytes[TAR_BLOCK];
    struct tar_entry entry;
    struct fs_file *file;
    size_t len = 0;
    enum err err = fs_open(fs, path, FS_READ, 0, &file);

    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (!err) {
        err = fs_read_at(fs, file, 0, bytes, sizeof bytes, &len);
        fs_close(fs, file);
    }
    if (err) return fs_noted(err, "read", path, note);
    if (len == 0 || snap_is(str_of(bytes, len))) return ERR_OK;
    if (len == sizeof bytes && !tar_entry_read(bytes, &entry)) return ERR_OK;
    return note_fail(note, ERR_EXISTS, "%s: is no backup; remove it first", path);
}

enum err save_open(struct fs *fs, const char *path, enum save_kind kind, uint64_t unique,
                   struct save_file **ret_file, struct note *note)
{
    struct save_file *file = calloc(1, sizeof *file);
    struct fs_info info;
    enum err err;

    if (!file) return note_fail(note, ERR_NOMEM, "save %.200s: %s", path, err_text(ERR_NOMEM));
    file->fs = fs;
    file->kind = kind;
    buf_init(&file->meta_json, FLEET_META_BYTES_MAX);
    err = fs_temp_for(path, unique, file->dir, file->temp);
    if (err)
        note_set(note, "%.200s: not the name of a file", path);
    else if (fs_stat(fs, path, &info) == ERR_OK && info.kind != FS_REGULAR)
        err = note_fail(note, ERR_EXISTS, "%s: is there, and is not a file", path);
    else
        err = save_check_target(fs, path, note);
    if (!err)
        err = save_say(file,
                       fs_open(fs, file->temp, FS_READ | FS_WRITE | FS_CREATE | FS_EXCLUSIVE,
                               SAVE_FILE_FILE_MODE, &file->file),
                       "make", note);
    if (err) {
        file->temp[0] = '\0'; /* another process may have made the file */
        save_abandon(file);
        return err;
    }
    memcpy(file->path, path, strlen(path) + 1); /* the temporary name is longer, and fits */
    *ret_file = file;
    return ERR_OK;
}

enum err save_meta(struct save_file *file, struct str meta_json, struct note *note)
{
    if (file->has_meta) return note_fail(note, ERR_PARSE, "the stream has two beginnings");
    file->has_meta = true;
    if (file->kind == SAVE_BACKUP) return ERR_OK; /* the stream contains its own header */
    file->begin = file->at = 2 * TAR_BLOCK + meta_json.len + tar_padding(meta_json.len);
    return save_say(file, buf_append(&file->meta_json, meta_json), "write", note);
}

static enum err save_put(struct save_file *file, uint64_t at, struct str bytes, struct note *note)
{
    return save_say(file, fs_write_at(file->fs, file->file, at, bytes), "write", note);
}

enum err save_data(struct save_file *file, struct str bytes, struct note *note)
{
    enum err err;

    if (!file->has_meta)
        return note_fail(note, ERR_PARSE, "the stream does not begin with its meta");
    err = save_put(file, file->at, bytes, note);
    if (!err) file->at += bytes.len;
    return err;
}

/* -- finishing -- */

static enum err tar_finish(struct save_file *file, struct note *note)
{
    static const char zeros[TAR_BLOCK + TAR_END_BYTES];
    uint64_t size = file->at - file->begin;
    size_t tail = tar_padding(size) + TAR_END_BYTES;
    struct str json = buf_peek(&file->meta_json);
    char block[TAR_BLOCK];
    enum err err = tar_header("meta.json", json.len, block);

    if (!err) err = save_put(file, 0, str_of(block, TAR_BLOCK), note);
    if (!err) err = save_put(file, TAR_BLOCK, json, note);
    if (!err) err = save_say(file, tar_header("state", size, block), "write", note);
    if (!err) err = save_put(file, file->begin - TAR_BLOCK, str_of(block, TAR_BLOCK), note);
    if (!err) err = save_put(file, file->at, str_of(zeros, tail), note);
    file->at += tail;
    return err;
}

/* Reads the whole file like a restore. */
static enum err save_check(const struct save_file *file, struct save_facts *facts,
                           struct note *note)
{
    struct snapshot_facts snapshot = {0};
    struct snap_head head = {.level = 0};
    enum err err;

    if (file->kind == SAVE_BACKUP) {
        err = snap_verify(file->fs, file->temp, &head, &facts->bytes, note);
        facts->index = head.mark.index;
        facts->term = head.mark.term;
    } else {
        err = snapshot_read(file->fs, file->temp, false, NULL, &snapshot, note);
        facts->index = snapshot.index;
        facts->term = snapshot.term;
        facts->bytes = file->at;
    }
    if (err) note_prefix(note, "what came");
    return err;
}

enum err save_finish(struct save_file *own_file, struct save_facts *ret_facts, struct note *note)
{
    struct save_file *file = own_file;
    struct save_facts facts = {0};
    enum err err = ERR_OK;

    if (!file->has_meta) err = note_fail(note, ERR_PARSE, "nothing came");
    if (!err && file->kind == SAVE_SNAPSHOT) err = tar_finish(file, note);
    if (!err) err = save_check(file, &facts, note);
    if (!err) err = save_say(file, fs_sync(file->fs, file->file), "sync", note);
    if (!err) err = save_say(file, fs_rename(file->fs, file->temp, file->path), "name", note);
    if (err) {
        save_abandon(file);
        return err;
    }
    if (fs_sync_dir(file->fs, file->dir))
        err = note_fail(note, ERR_UNKNOWN, "%s: in place, but its directory cannot be synced",
                        file->path);
    file->temp[0] = '\0'; /* renamed: nothing to remove */
    save_abandon(file);
    if (!err) *ret_facts = facts;
    return err;
}

void save_abandon(struct save_file *own_file)
{
    if (!own_file) return;
    fs_close(own_file->fs, own_file->file);
    if (own_file->temp[0]) fs_remove(own_file->fs, own_file->temp);
    buf_deinit(&own_file->meta_json);
    free(own_file);
}
