/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a snapshot under a temporary name: this replica's state, or a peer's bytes, which are
 * checked.
 *
 * Invariant: a file is renamed only when all of it is durable, and then the rename is made
 * durable. Calls block; one thread at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log/snapfile_internal.h"

/* -- the temporary file -- */

struct snap_temp {
    struct fs *fs;
    struct fs_file *file;
    char dir[FS_PATH_CAP];
    char path[FS_PATH_CAP]; /* empty once the file has its final name */
    uint64_t at, synced;
    enum err failed; /* after a failure the file must not be finished */
};

static enum err temp_open(struct snap_temp *temp, struct fs *fs, const char *dir, const char *stem,
                          uint64_t unique, struct note *note)
{
    char name[SNAP_NAME_CAP + 32];
    temp->fs = fs;
    snprintf(name, sizeof name, ".%s.%08" PRIx32 ".tmp", stem, (uint32_t)unique);
    enum err err = snap_dir_path(dir, name, temp->path, note);
    if (err) return err;
    snprintf(temp->dir, sizeof temp->dir, "%s", dir);
    return fs_noted(
        fs_open(fs, temp->path, FS_READ | FS_WRITE | FS_CREATE | FS_EXCLUSIVE, 0600, &temp->file),
        "make", temp->path, note);
}

static enum err temp_sync(struct snap_temp *temp, struct note *note)
{
    enum err err = fs_sync(temp->fs, temp->file);
    temp->synced = temp->at;
    temp->failed = err;
    return fs_noted(err, "sync", temp->path, note);
}

static enum err temp_put(struct snap_temp *temp, struct str bytes, struct note *note)
{
    enum err err = fs_write_at(temp->fs, temp->file, temp->at, bytes);
    if (err) {
        note_set(note, "write %s at %" PRIu64 ": %s", temp->path, temp->at, err_text(err));
        return temp->failed = err;
    }
    temp->at += bytes.len;
    if (temp->at - temp->synced < SNAP_SYNC_BYTES) return ERR_OK;
    /* In steps, because one long sync would delay the log's syncs. */
    return temp_sync(temp, note);
}

static enum err temp_name(struct snap_temp *temp, const struct snapshot_mark *mark,
                          struct note *note)
{
    char name[SNAP_NAME_CAP], path[FS_PATH_CAP];
    snap_name(mark, name);
    enum err err = snap_dir_path(temp->dir, name, path, note);
    if (!err) err = fs_noted(fs_rename(temp->fs, temp->path, path), "name", path, note);
    if (err) return err;
    temp->path[0] = '\0';
    return snap_sync_names(temp->fs, temp->dir, note);
}

static void temp_close(struct snap_temp *temp)
{
    if (!temp->file) return;
    fs_close(temp->fs, temp->file);
    if (temp->path[0]) fs_remove(temp->fs, temp->path); /* the next start removes a leftover */
}

/* -- writing -- */

struct snap_writer {
    struct snap_temp temp;
    struct snapshot_mark mark;
    struct snap_stream stream;
    struct buf room;
};

static enum err put_made(struct snap_writer *writer, enum err err, struct note *note)
{
    if (!err) return temp_put(&writer->temp, buf_peek(&writer->room), note);
    writer->temp.failed = err;
    return fs_noted(err, "write", writer->temp.path, note);
}

static enum err writer_check(struct snap_writer *writer, struct note *note)
{
    buf_clear(&writer->room);
    if (writer->temp.failed)
        note_set(note, "%s: failed before: %s", writer->temp.path, err_text(writer->temp.failed));
    return writer->temp.failed;
}

enum err snap_create(struct fs *fs, const char *dir, const struct snap_head *head, uint64_t unique,
                     struct snap_writer **ret_writer, struct note *note)
{
    char name[SNAP_NAME_CAP];
    struct snap_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return note_fail(note, ERR_NOMEM, "make a snapshot in %s: %s", dir, err_text(ERR_NOMEM));
    writer->mark = head->mark;
    buf_init(&writer->room, SNAP_CHUNK_MAX + SNAP_CHUNK_HEAD + SNAP_ALIGN);
    snap_name(&head->mark, name);
    enum err err = temp_open(&writer->temp, fs, dir, name, unique, note);
    if (!err) err = put_made(writer, snap_stream_begin(&writer->stream, head, &writer->room), note);
    if (err)
        snap_abandon(writer);
    else
        *ret_writer = writer;
    return err;
}

enum err snap_write(struct snap_writer *writer, uint32_t section, struct str bytes,
                    struct note *note)
{
    enum err err = writer_check(writer, note);
    if (err) return err;
    return put_made(writer, snap_stream_chunk(&writer->stream, section, bytes, &writer->room),
                    note);
}

enum err snap_finish(struct snap_writer *own_writer, uint64_t *ret_bytes, struct note *note)
{
    struct snap_writer *writer = own_writer;
    enum err err = writer_check(writer, note);
    if (!err) err = put_made(writer, snap_stream_end(&writer->stream, &writer->room), note);
    if (!err) err = temp_sync(&writer->temp, note);
    if (!err) err = temp_name(&writer->temp, &writer->mark, note);
    if (!err) *ret_bytes = writer->temp.at;
    snap_abandon(writer);
    return err;
}

void snap_abandon(struct snap_writer *own_writer)
{
    if (!own_writer) return;
    temp_close(&own_writer->temp);
    buf_deinit(&own_writer->room);
    free(own_writer);
}

/* -- receiving -- */

struct snap_inbox {
    struct snap_temp temp;
    struct snap_head head;
    bool checked;
};

enum err snap_inbox_open(struct fs *fs, const char *dir, uint64_t unique,
                         struct snap_inbox **ret_inbox, struct note *note)
{
    struct snap_inbox *inbox = calloc(1, sizeof *inbox);
    if (!inbox)
        return note_fail(note, ERR_NOMEM, "receive a snapshot in %s: %s", dir, err_text(ERR_NOMEM));
    enum err err = temp_open(&inbox->temp, fs, dir, "incoming", unique, note);
    if (err)
        snap_inbox_drop(inbox);
    else
        *ret_inbox = inbox;
    return err;
}

enum err snap_inbox_write(struct snap_inbox *inbox, uint64_t offset, struct str bytes,
                          struct note *note)
{
    assert(!inbox->checked);
    if (offset == inbox->temp.at) return temp_put(&inbox->temp, bytes, note);
    return note_fail(note, ERR_INVALID, "%s: bytes for offset %" PRIu64 ", %" PRIu64 " is due",
                     inbox->temp.path, offset, inbox->temp.at);
}

enum err snap_inbox_check(struct snap_inbox *inbox, struct snap_head *ret_head, struct note *note)
{
    uint64_t bytes;
    enum err err = temp_sync(&inbox->temp, note);
    if (!err) err = snap_verify(inbox->temp.fs, inbox->temp.path, &inbox->head, &bytes, note);
    if (err) return err;
    inbox->checked = true;
    *ret_head = inbox->head;
    return ERR_OK;
}

enum err snap_inbox_keep(struct snap_inbox *own_inbox, struct note *note)
{
    assert(own_inbox->checked);
    enum err err = temp_name(&own_inbox->temp, &own_inbox->head.mark, note);
    snap_inbox_drop(own_inbox);
    return err;
}

void snap_inbox_drop(struct snap_inbox *own_inbox)
{
    if (!own_inbox) return;
    temp_close(&own_inbox->temp);
    free(own_inbox);
}
