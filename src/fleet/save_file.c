/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/save_file.h"

#include <stdlib.h>
#include <string.h>

#include "fleet/format/archive.h"
#include "fleet/format/backup.h"
#include "fleet/format/state.h"

enum { FILE_MODE = 0600, HEAD_MAX = FLEET_META_BYTES_MAX + 4 * TAR_BLOCK };

struct save_file {
    struct fs *fs;
    struct fs_file *file;
    enum save_kind kind;
    char path[FS_PATH_CAP], temp[FS_PATH_CAP], dir[FS_PATH_CAP];
    uint64_t at; /* bytes in the file */
    bool has_meta;
    /* SAVE_SNAPSHOT; what comes is checked */
    struct buf meta_json;
    struct fleet_archive_reader *archive;
    struct fleet_state_reader *state;
    /* SAVE_BACKUP */
    struct backup_reader *backup;
};

static enum err say(const struct save_file *file, enum err err, const char *what, struct note *note)
{
    if (err) note_set(note, "%s %s: %s", what, file->temp, err_text(err));
    return err;
}

static enum err checks_open(struct save_file *file)
{
    struct fleet_state_options check = {.fleet = NULL};
    struct backup_events nothing = {0};
    enum err err;

    if (file->kind == SAVE_BACKUP) return backup_read_open(&nothing, &file->backup);
    err = fleet_state_read_begin(&check, &file->state);
    return err ? err : fleet_archive_open(fleet_state_read_next, file->state, &file->archive);
}

enum err save_open(struct fs *fs, const char *path, enum save_kind kind, uint64_t unique,
                   struct save_file **ret_file, struct note *note)
{
    struct save_file *file = calloc(1, sizeof *file);
    struct fs_info info;
    enum err err;

    if (!file) {
        note_set(note, "save %.200s: %s", path, err_text(ERR_NOMEM));
        return ERR_NOMEM;
    }
    file->fs = fs;
    file->kind = kind;
    buf_init(&file->meta_json, FLEET_META_BYTES_MAX);
    err = fs_temp_for(path, unique, file->dir, file->temp);
    if (err)
        note_set(note, "%.200s: not the name of a file", path);
    else if (fs_stat(fs, path, &info) == ERR_OK && info.kind != FS_REGULAR) {
        note_set(note, "%s: is there, and is not a file", path);
        err = ERR_EXISTS;
    }
    if (!err) {
        err = checks_open(file);
        if (!err)
            err = fs_open(fs, file->temp, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, FILE_MODE,
                          &file->file);
        say(file, err, "make", note);
    }
    if (err) {
        file->temp[0] = '\0'; /* not ours */
        save_abandon(file);
        return err;
    }
    memcpy(file->path, path, strlen(path) + 1); /* the temporary's is longer, and fits */
    *ret_file = file;
    return ERR_OK;
}

static enum err put(struct save_file *file, struct str bytes, struct note *note)
{
    enum err err = fs_write_at(file->fs, file->file, file->at, bytes);

    if (!err) file->at += bytes.len;
    return say(file, err, "write", note);
}

enum err save_meta(struct save_file *file, struct str meta_json, struct note *note)
{
    struct buf head;
    enum err err;

    if (file->has_meta) {
        note_set(note, "the stream has two beginnings");
        return ERR_PARSE;
    }
    file->has_meta = true;
    if (file->kind == SAVE_BACKUP) return ERR_OK; /* it is in the bytes as well */
    err = fleet_archive_meta(file->archive, meta_json, note);
    if (!err) err = buf_append(&file->meta_json, meta_json);
    if (err) {
        note_prefix(note, "meta");
        return err;
    }
    buf_init(&head, HEAD_MAX); /* of the right length: the size of the state comes later */
    err = say(file, fleet_archive_head(meta_json, 0, &head), "write", note);
    if (!err) err = put(file, buf_peek(&head), note);
    buf_deinit(&head);
    return err;
}

enum err save_data(struct save_file *file, struct str bytes, struct note *note)
{
    enum err err;

    if (!file->has_meta) {
        note_set(note, "the stream does not begin with its meta");
        return ERR_PARSE;
    }
    if (file->kind == SAVE_SNAPSHOT)
        err = fleet_archive_state(file->archive, bytes, note);
    else
        err = backup_read(file->backup, bytes, note);
    if (err) {
        note_prefix(note, "what came");
        return err;
    }
    return put(file, bytes, note);
}

static enum err finish_snapshot(struct save_file *file, struct save_facts *facts, struct note *note)
{
    struct fleet_state_summary summary;
    struct fleet_meta meta;
    struct buf bytes;
    uint64_t size;
    enum err err = fleet_state_read_end(file->state, &summary, note);

    if (!err) err = fleet_archive_end(file->archive, &meta, &size, note);
    if (err) {
        note_prefix(note, "what came");
        return err;
    }
    buf_init(&bytes, HEAD_MAX);
    err = say(file, fleet_archive_tail(size, &bytes), "write", note);
    if (!err) err = put(file, buf_peek(&bytes), note);
    buf_clear(&bytes);
    if (!err)
        err =
            say(file, fleet_archive_head(buf_peek(&file->meta_json), size, &bytes), "write", note);
    if (!err)
        err = say(file, fs_write_at(file->fs, file->file, 0, buf_peek(&bytes)), "write", note);
    buf_deinit(&bytes);
    facts->index = meta.index;
    facts->term = meta.term;
    return err;
}

static enum err finish_backup(struct save_file *file, struct save_facts *facts, struct note *note)
{
    struct backup_head head;
    enum err err = backup_read_end(file->backup, &head, note);

    if (err) {
        note_prefix(note, "what came");
        return err;
    }
    facts->index = head.index;
    facts->term = head.term;
    return ERR_OK;
}

enum err save_finish(struct save_file *own_file, struct save_facts *ret_facts, struct note *note)
{
    struct save_file *file = own_file;
    struct save_facts facts = {0};
    enum err err = ERR_OK;

    if (!file->has_meta) {
        note_set(note, "nothing came");
        err = ERR_PARSE;
    }
    if (!err)
        err = file->kind == SAVE_SNAPSHOT ? finish_snapshot(file, &facts, note)
                                          : finish_backup(file, &facts, note);
    if (!err) err = say(file, fs_sync(file->fs, file->file), "sync", note);
    if (!err) err = say(file, fs_rename(file->fs, file->temp, file->path), "name", note);
    if (err) {
        save_abandon(file);
        return err;
    }
    facts.bytes = file->at;
    if (fs_sync_dir(file->fs, file->dir)) {
        note_set(note, "%s: in place, but its directory cannot be synced", file->path);
        err = ERR_UNKNOWN;
    }
    file->temp[0] = '\0'; /* has its name: nothing to remove */
    save_abandon(file);
    if (!err) *ret_facts = facts;
    return err;
}

void save_abandon(struct save_file *own_file)
{
    if (!own_file) return;
    fs_close(own_file->fs, own_file->file);
    if (own_file->temp[0]) fs_remove(own_file->fs, own_file->temp);
    fleet_archive_close(own_file->archive);
    fleet_state_read_close(own_file->state);
    backup_read_close(own_file->backup);
    buf_deinit(&own_file->meta_json);
    free(own_file);
}
