/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, increments and stores the shard's epoch before any provider call carries it. Runs on the
 * main thread before the event loop starts. */
#include "shard/epoch.h"

#include <inttypes.h>
#include <stdio.h>

enum { EPOCH_FILE_MAX = 64, EPOCH_MODE = 0600 };
#define EPOCH_LAST     ((uint64_t)INT64_MAX) /* the wire uses int64 */
#define EPOCH_SET_MOST (EPOCH_LAST / 2)

static enum err read_text(struct str text, void *ret_epoch)
{
    uint64_t *epoch = ret_epoch;
    enum err err = str_to_u64(str_trim(text), epoch);

    return !err && *epoch >= EPOCH_LAST ? ERR_TOO_LARGE : err;
}

/* *ret_epoch is 0 if no start was counted yet. */
static enum err epoch_read(struct fs *fs, const char *path, uint64_t *ret_epoch, struct note *note)
{
    enum err err;

    *ret_epoch = 0;
    err = fs_read_judged(fs, path, EPOCH_FILE_MAX, read_text, ret_epoch);
    if (!err || err == ERR_NOT_FOUND) return ERR_OK;
    return note_fail(note, err, "%s: %s; a shard must not guess its epoch", path, err_text(err));
}

static enum err epoch_write(struct fs *fs, const char *path, uint64_t epoch, uint64_t unique,
                            struct note *note)
{
    char text[EPOCH_FILE_MAX];
    enum err err;

    snprintf(text, sizeof text, "%" PRIu64 "\n", epoch);
    err = fs_publish(fs, path, str_from(text), EPOCH_MODE, unique);
    if (err) note_set(note, "%s: %s", path, err_text(err));
    return err;
}

enum err epoch_next(struct fs *fs, const char *dir, uint64_t unique, uint64_t *ret_epoch,
                    struct note *note)
{
    char path[FS_PATH_CAP], newest_path[FS_PATH_CAP];
    uint64_t epoch, newest;
    enum err err = fs_path(dir, "epoch", path, note);

    if (!err) err = fs_path(dir, "epoch.newest", newest_path, note);
    if (!err) err = epoch_read(fs, path, &epoch, note);
    if (!err) err = epoch_read(fs, newest_path, &newest, note);
    if (!err && epoch < newest)
        return note_fail(note, ERR_PRECONDITION,
                         "%s went back from %" PRIu64 " to %" PRIu64
                         ": run `muster shard set-epoch --data-dir %s %" PRIu64 "`",
                         path, newest, epoch, dir, newest);
    if (!err) err = epoch_write(fs, path, epoch + 1, unique, note);
    if (!err) err = epoch_write(fs, newest_path, epoch + 1, unique + 1, note);
    if (!err) *ret_epoch = epoch + 1;
    return err;
}

enum err epoch_set(struct fs *fs, const char *dir, uint64_t at_least, uint64_t unique,
                   struct note *note)
{
    char path[FS_PATH_CAP];
    uint64_t epoch;
    enum err err = fs_path(dir, "epoch", path, note);

    if (!err) err = epoch_read(fs, path, &epoch, note);
    if (err) return err;
    if (at_least > EPOCH_SET_MOST)
        return note_fail(note, ERR_INVALID,
                         "epoch %" PRIu64 ": must be at most %" PRIu64
                         ", so that starts can go on counting",
                         at_least, EPOCH_SET_MOST);
    if (epoch > at_least)
        return note_fail(note, ERR_PRECONDITION,
                         "%s holds %" PRIu64 ", which is above %" PRIu64
                         "; an epoch never goes back",
                         path, epoch, at_least);
    return epoch_write(fs, path, at_least, unique, note);
}
