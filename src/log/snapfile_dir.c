/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of snapshots: names, which one is the newest, what may go. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "log/snapfile_internal.h"

enum { NAMES_MAX = 1024 }; /* more than that in one directory is not our doing */

void snap_name(const struct snapshot_mark *mark, char name[SNAP_NAME_CAP])
{
    snprintf(name, SNAP_NAME_CAP, "%016" PRIx64 "-%016" PRIx64 ".snap", mark->index, mark->term);
}

bool snap_name_parse(struct str name, uint64_t *ret_index, uint64_t *ret_term)
{
    return name.len == 16 + 1 + 16 + 5 && name.at[16] == '-' && str_ends(name, STR(".snap")) &&
           hex_read(str_of(name.at, 16), ret_index) && hex_read(str_of(name.at + 17, 16), ret_term);
}

enum err snap_dir_path(const char *dir, const char *name, char path[FS_PATH_CAP], struct note *note)
{
    int len = snprintf(path, FS_PATH_CAP, "%s/snap%s%s", dir, name[0] ? "/" : "", name);
    if (len > 0 && len < FS_PATH_CAP) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%.64s...: path is too long", dir);
}

enum err snap_sync_names(struct fs *fs, const char *dir, struct note *note)
{
    char path[FS_PATH_CAP];
    enum err err = snap_dir_path(dir, "", path, note);
    if (err) return err;
    err = fs_sync_dir(fs, path);
    if (err) note_set(note, "sync %s: %s", path, err_text(err));
    return err;
}

/* -- which ones are there -- */

struct listed {
    uint64_t index, term;
};
struct listing {
    struct listed *at;
    size_t count;
    enum err err;
};

static void snapfile_dir_gather(void *context, const char *name, enum fs_kind kind)
{
    struct listing *listing = context;
    uint64_t index, term;
    if (kind != FS_REGULAR || listing->err || !snap_name_parse(str_from(name), &index, &term))
        return;
    if (listing->count == NAMES_MAX) {
        listing->err = ERR_FULL;
        return;
    }
    listing->at[listing->count].index = index;
    listing->at[listing->count++].term = term;
}

static int newest_first(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->index != y->index) return x->index > y->index ? -1 : 1;
    return x->term > y->term ? -1 : x->term < y->term;
}

/* Newest first. The caller frees `at`. */
static enum err list_snapshots(struct fs *fs, const char *dir, struct listing *ret_listing,
                               struct note *note)
{
    char path[FS_PATH_CAP];
    struct listing listing = {.at = malloc(NAMES_MAX * sizeof *listing.at)};
    enum err err = listing.at ? snap_dir_path(dir, "", path, note) : ERR_NOMEM;
    if (!err) err = fs_list(fs, path, snapfile_dir_gather, &listing);
    if (!err) err = listing.err;
    if (err) {
        free(listing.at);
        return note_fail(note, err, "list %s/snap: %s", dir, err_text(err));
    }
    qsort(listing.at, listing.count, sizeof *listing.at, newest_first);
    *ret_listing = listing;
    return ERR_OK;
}

enum err snap_newest(struct fs *fs, const char *dir, char name[SNAP_NAME_CAP],
                     struct snap_head *ret_head, struct note *note)
{
    struct listing listing;
    struct snap_reader *reader;
    struct snap_head head;
    char path[FS_PATH_CAP];
    enum err err = list_snapshots(fs, dir, &listing, note);
    if (err) return err;
    struct snapshot_mark mark = {0};
    bool any = listing.count > 0;
    if (any) {
        mark.index = listing.at[0].index;
        mark.term = listing.at[0].term;
    }
    free(listing.at);
    if (!any) return ERR_NOT_FOUND;
    snap_name(&mark, name);
    err = snap_dir_path(dir, name, path, note);
    if (!err) err = snap_open(fs, path, &reader, &head, note);
    if (err) return err;
    snap_close(reader);
    if (head.mark.index != mark.index || head.mark.term != mark.term)
        return note_fail(note, ERR_CORRUPT,
                         "%s: offset 0: is of index %" PRIu64 " and term %" PRIu64, path,
                         head.mark.index, head.mark.term);
    *ret_head = head;
    return ERR_OK;
}

/* Removes what stands behind the first `keep` of the listing. */
static enum err remove_rest(struct fs *fs, const char *dir, const struct listing *listing,
                            size_t keep, struct note *note)
{
    for (size_t i = keep; i < listing->count; i++) {
        char path[FS_PATH_CAP], name[SNAP_NAME_CAP];
        struct snapshot_mark mark = {.index = listing->at[i].index, .term = listing->at[i].term};
        snap_name(&mark, name);
        enum err err = snap_dir_path(dir, name, path, note);
        if (err) return err;
        err = fs_remove(fs, path);
        if (err) return note_fail(note, err, "remove %s: %s", path, err_text(err));
    }
    return ERR_OK;
}

enum err snap_sweep(struct fs *fs, const char *dir, struct note *note)
{
    struct listing listing;
    char path[FS_PATH_CAP];
    /* First: the newest may have its name in the kernel's memory only. */
    enum err err = snap_sync_names(fs, dir, note);
    if (!err) err = list_snapshots(fs, dir, &listing, note);
    if (err) return err;
    err = remove_rest(fs, dir, &listing, 1, note);
    free(listing.at);
    if (!err) err = snap_dir_path(dir, "", path, note);
    if (!err && (err = fs_sweep_temps(fs, path)))
        note_set(note, "sweep %s: %s", path, err_text(err));
    return err;
}

enum err snap_remove_older(struct fs *fs, const char *dir, const struct snapshot_mark *keep,
                           struct note *note)
{
    struct listing listing;
    size_t newer = 0;
    enum err err = list_snapshots(fs, dir, &listing, note);
    if (err) return err;
    while (newer < listing.count &&
           (listing.at[newer].index > keep->index ||
            (listing.at[newer].index == keep->index && listing.at[newer].term >= keep->term)))
        newer++;
    err = remove_rest(fs, dir, &listing, newer, note);
    free(listing.at);
    return err;
}
