/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a snapshot: under a temporary name, chunk by chunk; named once all of it is durable. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/snapfile_internal.h"

struct snap_writer {
    struct fs *fs;
    struct fs_file *file;
    char *dir;
    char name[SNAP_NAME_CAP];
    char temp[FS_PATH_CAP];
    uint64_t at, synced;
    struct snap_stream stream;
    struct buf room; /* made by the stream */
    enum err failed; /* nothing may be finished after it */
};

static enum err snapfile_write_put(struct snap_writer *writer, struct str bytes, struct note *note)
{
    enum err err = fs_write_at(writer->fs, writer->file, writer->at, bytes);
    if (err) {
        note_set(note, "write %s at %" PRIu64 ": %s", writer->temp, writer->at, err_text(err));
        writer->failed = err;
        return err;
    }
    writer->at += bytes.len;
    if (writer->at - writer->synced < SNAP_SYNC_BYTES) return ERR_OK;
    /* A whole snapshot at the end would be one long sync; the log's own would wait behind it. */
    err = fs_sync(writer->fs, writer->file);
    if (err) {
        note_set(note, "sync %s: %s", writer->temp, err_text(err));
        writer->failed = err;
    }
    writer->synced = writer->at;
    return err;
}

/* What the stream made, or why it made nothing. */
static enum err put_made(struct snap_writer *writer, enum err err, struct note *note)
{
    if (!err) return snapfile_write_put(writer, buf_peek(&writer->room), note);
    note_set(note, "write %s: %s", writer->temp, err_text(err));
    writer->failed = err;
    return err;
}

enum err snap_create(struct fs *fs, const char *dir, const struct snap_head *head, uint64_t unique,
                     struct snap_writer **ret_writer, struct note *note)
{
    char temp[SNAP_NAME_CAP + 32];
    struct snap_writer *writer = calloc(1, sizeof *writer);
    if (writer) writer->dir = str_dup(str_from(dir));
    if (!writer || !writer->dir) {
        free(writer);
        return note_fail(note, ERR_NOMEM, "make a snapshot in %s: %s", dir, err_text(ERR_NOMEM));
    }
    writer->fs = fs;
    buf_init(&writer->room, SNAP_CHUNK_MAX + SNAP_CHUNK_HEAD + SNAP_ALIGN);
    snap_name(&head->mark, writer->name);
    snprintf(temp, sizeof temp, ".%s.%08" PRIx32 ".tmp", writer->name, (uint32_t)unique);
    enum err err = snap_dir_path(dir, temp, writer->temp, note);
    if (!err) {
        err = fs_open(fs, writer->temp, FS_READ | FS_WRITE | FS_CREATE | FS_EXCLUSIVE, 0600,
                      &writer->file);
        if (err) note_set(note, "make %s: %s", writer->temp, err_text(err));
    }
    if (!err) err = put_made(writer, snap_stream_begin(&writer->stream, head, &writer->room), note);
    if (err) {
        snap_abandon(writer);
        return err;
    }
    *ret_writer = writer;
    return ERR_OK;
}

enum err snap_write(struct snap_writer *writer, uint32_t section, struct str bytes,
                    struct note *note)
{
    if (writer->failed) {
        note_set(note, "%s: failed before: %s", writer->temp, err_text(writer->failed));
        return writer->failed;
    }
    buf_clear(&writer->room);
    return put_made(writer, snap_stream_chunk(&writer->stream, section, bytes, &writer->room),
                    note);
}

enum err snap_finish(struct snap_writer *own_writer, uint64_t *ret_bytes, struct note *note)
{
    struct snap_writer *writer = own_writer;
    char path[FS_PATH_CAP];
    enum err err = writer->failed;
    buf_clear(&writer->room);
    if (err)
        note_set(note, "%s: failed before: %s", writer->temp, err_text(err));
    else
        err = put_made(writer, snap_stream_end(&writer->stream, &writer->room), note);
    if (!err && (err = fs_sync(writer->fs, writer->file)))
        note_set(note, "sync %s: %s", writer->temp, err_text(err));
    if (!err) err = snap_dir_path(writer->dir, writer->name, path, note);
    if (!err && (err = fs_rename(writer->fs, writer->temp, path)))
        note_set(note, "name %s: %s", path, err_text(err));
    if (err) {
        snap_abandon(writer);
        return err;
    }
    err = snap_sync_names(writer->fs, writer->dir, note);
    if (!err) *ret_bytes = writer->at;
    writer->temp[0] = '\0'; /* has its name: nothing to remove */
    snap_abandon(writer);
    return err;
}

void snap_abandon(struct snap_writer *own_writer)
{
    if (!own_writer) return;
    if (own_writer->file) {
        fs_close(own_writer->fs, own_writer->file);
        if (own_writer->temp[0]) fs_remove(own_writer->fs, own_writer->temp); /* or swept later */
    }
    buf_deinit(&own_writer->room);
    free(own_writer->dir);
    free(own_writer);
}
