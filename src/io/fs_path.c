/* SPDX-License-Identifier: Apache-2.0 */
#include "io/fs_path.h"

#include <stdio.h>
#include <string.h>

enum err fs_make_parent(struct fs *fs, const char *path, uint32_t mode, struct note *note)
{
    char dir[FS_PATH_CAP];
    const char *slash = strrchr(path, '/');
    enum err err;

    if (!slash || slash == path) return ERR_OK;
    if (snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path) >= (int)sizeof dir)
        return note_fail(note, ERR_INVALID, "%.100s...: path too long", path);
    err = fs_make_dirs(fs, dir, mode);
    if (err == ERR_UNKNOWN) err = ERR_OK;
    if (err) note_set(note, "make %s: %s", dir, err_text(err));
    return err;
}
