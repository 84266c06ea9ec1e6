#include "shard/epoch.h"

#include <inttypes.h>
#include <stdio.h>

enum { EPOCH_FILE_MAX = 64, EPOCH_MODE = 0600 };
#define EPOCH_LAST ((uint64_t)INT64_MAX) /* of the wire's int64 */

static enum err read_text(struct str text, uint64_t *ret_epoch)
{
    enum err err = str_to_u64(str_trim(text), ret_epoch);

    return !err && *ret_epoch >= EPOCH_LAST ? ERR_TOO_LARGE : err;
}

enum err epoch_next(struct fs *fs, const char *dir, uint64_t unique, uint64_t *ret_epoch,
                    struct note *note)
{
    char path[FS_PATH_CAP], text[EPOCH_FILE_MAX];
    uint64_t epoch = 0;
    struct buf held;
    enum err err;

    if (snprintf(path, sizeof path, "%s/epoch", dir) >= (int)sizeof path) {
        note_set(note, "data-dir: too long a path");
        return ERR_INVALID;
    }
    buf_init(&held, EPOCH_FILE_MAX);
    err = fs_read_whole(fs, path, EPOCH_FILE_MAX, &held);
    if (!err)
        err = read_text(buf_peek(&held), &epoch);
    else if (err == ERR_NOT_FOUND)
        err = ERR_OK;
    buf_deinit(&held);
    if (err) {
        note_set(note, "%s: %s; a shard must not guess its epoch", path, err_text(err));
        return err;
    }
    snprintf(text, sizeof text, "%" PRIu64 "\n", ++epoch);
    err = fs_publish(fs, path, str_from(text), EPOCH_MODE, unique);
    if (err) {
        note_set(note, "%s: %s", path, err_text(err));
        return err;
    }
    *ret_epoch = epoch;
    return ERR_OK;
}
