/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of a snapshot file (docs/formats/log.md), for snapfile*.c and tests that damage
 * files. */
#ifndef LOG_SNAPFILE_INTERNAL_H
#define LOG_SNAPFILE_INTERNAL_H
#include "log/snapfile.h"

enum {
    SNAP_HEAD_FIXED = 72, /* bytes before the members */
    SNAP_HEAD_MAX = 8192, /* size with REPLICA_MEMBERS_MAX longest addresses */
    SNAP_CHUNK_HEAD = 24, /* bytes before the chunk's data */
    SNAP_END_BYTES = 16,  /* counts of chunks and bytes */
    SNAP_ALIGN = 8,
    SNAP_NAME_SIZE = 16 + 1 + 16 + 5 + 1, /* "<index>-<term>.snap" and its NUL */
    SNAP_SYNC_BYTES = 4 << 20,            /* most bytes between two syncs */
};
#define SNAP_SECTION_END UINT32_MAX

/* Writes the head to `room` (SNAP_HEAD_MAX bytes). Returns a multiple of 8. */
size_t snap_head_write(const struct snap_head *head, char *room, uint32_t *ret_crc);
/* ERR_CORRUPT, ERR_VERSION, or ERR_TOO_LARGE: the head needs *ret_size bytes. */
enum err snap_head_read(struct str bytes, struct snap_head *ret_head, size_t *ret_size,
                        uint32_t *ret_crc);
struct snap_chunk {
    uint32_t section;
    uint64_t number; /* starts at 0, without gaps */
    struct str bytes;
};
size_t snap_chunk_size(size_t bytes); /* size in the file */
/* The head's checksum salts the chunk's, so that a chunk of another file is refused. */
void snap_chunk_write(const struct snap_chunk *chunk, uint32_t head_crc, char *room);
enum err snap_chunk_read(struct str bytes, uint32_t head_crc, struct snap_chunk *ret_chunk,
                         size_t *ret_size);

/* Names of all snapshots, newest first, SNAP_NAME_SIZE bytes each. Call buf_deinit after ERR_OK.
 * ERR_FULL: more files than allowed. */
enum err snap_list(struct fs *fs, const char *dir, struct buf *ret_names, struct note *note);
enum err snap_dir_path(const char *dir, const char *name, char path[FS_PATH_CAP],
                       struct note *note);
enum err snap_sync_names(struct fs *fs, const char *dir, struct note *note);
#endif
