/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of snapshots: names, the newest snapshot, removal. Names sort by index and term.
 * Calls block and may run on any thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "log/snapfile_internal.h"

enum { NAMES_MAX = 1024 }; /* muster never makes more files in a directory */

void snap_name(const struct snapshot_mark *mark, char name[SNAP_NAME_CAP])
{
    snprintf(name, SNAP_NAME_CAP, "%016" PRIx64 "-%016" PRIx64 ".snap", mark->index, mark->term);
}

static bool is_snap_name(struct str name, enum fs_kind kind)
{
    uint64_t index, term;
    return kind == FS_REGULAR && name.len == SNAP_NAME_SIZE - 1 && name.at[16] == '-' &&
           str_ends(name, STR(".snap")) && hex_read(str_of(name.at, 16), &index) &&
           hex_read(str_of(name.at + 17, 16), &term);
}

enum err snap_dir_path(const char *dir, const char *name, char path[FS_PATH_CAP], struct note *note)
{
    char below[FS_NAME_MAX + 8];
    snprintf(below, sizeof below, "snap%s%s", name[0] ? "/" : "", name);
    return fs_path(dir, below, path, note);
}

enum err snap_sync_names(struct fs *fs, const char *dir, struct note *note)
{
    char path[FS_PATH_CAP];
    enum err err = snap_dir_path(dir, "", path, note);
    return err ? err : fs_noted(fs_sync_dir(fs, path), "sync", path, note);
}

static int newest_first(const void *a, const void *b)
{
    return memcmp(b, a, SNAP_NAME_SIZE);
}

enum err snap_list(struct fs *fs, const char *dir, struct buf *ret_names, struct note *note)
{
    char path[FS_PATH_CAP];
    buf_init(ret_names, NAMES_MAX * SNAP_NAME_SIZE);
    enum err err = snap_dir_path(dir, "", path, note);
    if (!err) err = fs_names(fs, path, is_snap_name, ret_names, note);
    if (err)
        buf_deinit(ret_names);
    else if (ret_names->len > 0)
        qsort(ret_names->data, ret_names->len / SNAP_NAME_SIZE, SNAP_NAME_SIZE, newest_first);
    return err;
}

enum err snap_newest(struct fs *fs, const char *dir, char name[SNAP_NAME_CAP],
                     struct snap_head *ret_head, struct note *note)
{
    struct buf names;
    struct snap_reader *reader;
    struct snap_head head;
    char path[FS_PATH_CAP], want[SNAP_NAME_CAP];
    enum err err = snap_list(fs, dir, &names, note);
    if (err) return err;
    bool any = names.len > 0;
    if (any) memcpy(name, names.data, SNAP_NAME_SIZE);
    buf_deinit(&names);
    if (!any) return ERR_NOT_FOUND;
    err = snap_dir_path(dir, name, path, note);
    if (!err) err = snap_open(fs, path, &reader, &head, note);
    if (err) return err;
    snap_close(reader);
    snap_name(&head.mark, want);
    if (strcmp(name, want) != 0)
        return note_fail(note, ERR_CORRUPT,
                         "%s: offset 0: is of index %" PRIu64 " and term %" PRIu64, path,
                         head.mark.index, head.mark.term);
    *ret_head = head;
    return ERR_OK;
}

/* Keeps the first `keep` snapshots of the list. Frees the list. */
static enum err remove_rest(struct fs *fs, const char *dir, struct buf *own_names, size_t keep,
                            struct note *note)
{
    enum err err = ERR_OK;
    for (size_t at = keep * SNAP_NAME_SIZE; !err && at < own_names->len; at += SNAP_NAME_SIZE) {
        char path[FS_PATH_CAP];
        err = snap_dir_path(dir, own_names->data + at, path, note);
        if (!err) err = fs_noted(fs_remove(fs, path), "remove", path, note);
    }
    buf_deinit(own_names);
    return err;
}

enum err snap_sweep(struct fs *fs, const char *dir, struct note *note)
{
    struct buf names;
    char path[FS_PATH_CAP];
    /* Makes the names durable first, because the newest file's name may not be durable yet. */
    enum err err = snap_sync_names(fs, dir, note);
    if (!err) err = snap_list(fs, dir, &names, note);
    if (!err) err = remove_rest(fs, dir, &names, 1, note);
    if (!err) err = snap_dir_path(dir, "", path, note);
    return err ? err : fs_noted(fs_sweep_temps(fs, path), "sweep", path, note);
}

enum err snap_remove_older(struct fs *fs, const char *dir, const struct snapshot_mark *keep,
                           struct note *note)
{
    struct buf names;
    char kept[SNAP_NAME_CAP];
    size_t newer = 0;
    enum err err = snap_list(fs, dir, &names, note);
    if (err) return err;
    snap_name(keep, kept);
    while (newer * SNAP_NAME_SIZE < names.len &&
           strcmp(names.data + newer * SNAP_NAME_SIZE, kept) >= 0)
        newer++;
    return remove_rest(fs, dir, &names, newer, note);
}
