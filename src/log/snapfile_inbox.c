/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot that arrives from a peer: kept under a temporary name until all of it was checked and
 * somebody wants it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log/snapfile_internal.h"

struct snap_inbox {
    struct fs *fs;
    struct fs_file *file;
    char *dir;
    char temp[FS_PATH_CAP];
    uint64_t size, synced;
    struct snap_head head;
    bool checked;
};

enum err snap_inbox_open(struct fs *fs, const char *dir, uint64_t unique,
                         struct snap_inbox **ret_inbox, struct note *note)
{
    char name[SNAP_NAME_CAP];
    struct snap_inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox) inbox->dir = str_dup(str_from(dir));
    if (!inbox || !inbox->dir) {
        free(inbox);
        return note_fail(note, ERR_NOMEM, "receive a snapshot in %s: %s", dir, err_text(ERR_NOMEM));
    }
    inbox->fs = fs;
    snprintf(name, sizeof name, ".incoming.%08" PRIx32 ".tmp", (uint32_t)unique);
    enum err err = snap_dir_path(dir, name, inbox->temp, note);
    if (!err) {
        err = fs_open(fs, inbox->temp, FS_READ | FS_WRITE | FS_CREATE | FS_EXCLUSIVE, 0600,
                      &inbox->file);
        if (err) note_set(note, "make %s: %s", inbox->temp, err_text(err));
    }
    if (err) {
        snap_inbox_drop(inbox);
        return err;
    }
    *ret_inbox = inbox;
    return ERR_OK;
}

enum err snap_inbox_write(struct snap_inbox *inbox, uint64_t offset, struct str bytes,
                          struct note *note)
{
    assert(!inbox->checked);
    if (offset != inbox->size)
        return note_fail(note, ERR_INVALID, "%s: bytes for offset %" PRIu64 ", %" PRIu64 " is due",
                         inbox->temp, offset, inbox->size);
    enum err err = fs_write_at(inbox->fs, inbox->file, offset, bytes);
    if (err)
        return note_fail(note, err, "write %s at %" PRIu64 ": %s", inbox->temp, offset,
                         err_text(err));
    inbox->size += bytes.len;
    if (inbox->size - inbox->synced < SNAP_SYNC_BYTES) return ERR_OK;
    err = fs_sync(inbox->fs, inbox->file); /* in pieces, as a writer does */
    if (err) note_set(note, "sync %s: %s", inbox->temp, err_text(err));
    inbox->synced = inbox->size;
    return err;
}

enum err snap_inbox_check(struct snap_inbox *inbox, struct snap_head *ret_head, struct note *note)
{
    uint64_t bytes;
    enum err err = fs_sync(inbox->fs, inbox->file);
    if (err)
        note_set(note, "sync %s: %s", inbox->temp, err_text(err));
    else
        err = snap_verify(inbox->fs, inbox->temp, &inbox->head, &bytes, note);
    if (err) return err;
    inbox->checked = true;
    *ret_head = inbox->head;
    return ERR_OK;
}

enum err snap_inbox_keep(struct snap_inbox *own_inbox, struct note *note)
{
    struct snap_inbox *inbox = own_inbox;
    char name[SNAP_NAME_CAP], path[FS_PATH_CAP];
    assert(inbox->checked);
    snap_name(&inbox->head.mark, name);
    enum err err = snap_dir_path(inbox->dir, name, path, note);
    if (!err && (err = fs_rename(inbox->fs, inbox->temp, path)))
        note_set(note, "name %s: %s", path, err_text(err));
    if (!err) {
        inbox->temp[0] = '\0'; /* has its name: nothing to remove */
        err = snap_sync_names(inbox->fs, inbox->dir, note);
    }
    snap_inbox_drop(inbox);
    return err;
}

void snap_inbox_drop(struct snap_inbox *own_inbox)
{
    if (!own_inbox) return;
    if (own_inbox->file) {
        fs_close(own_inbox->fs, own_inbox->file);
        if (own_inbox->temp[0]) fs_remove(own_inbox->fs, own_inbox->temp); /* or swept later */
    }
    free(own_inbox->dir);
    free(own_inbox);
}
