/* SPDX-License-Identifier: Apache-2.0 */
/* What many files do with a path, on top of io/fs.h. */
#ifndef IO_FS_PATH_H
#define IO_FS_PATH_H
#include "io/fs.h"

/* The directory that `path` stands in, with its parents. ERR_INVALID (longer than FS_PATH_CAP), what
 * fs_make_dirs returns, with a note; a directory that is there and perhaps not durable is ERR_OK. */
enum err fs_make_parent(struct fs *fs, const char *path, uint32_t mode, struct note *note);
/* Nobody has written the file or put another in its place between the two looks. */
static inline bool fs_same(const struct fs_info *a, const struct fs_info *b)
{
    return a->size == b->size && a->inode == b->inode && a->modified_ns == b->modified_ns;
}
#endif
