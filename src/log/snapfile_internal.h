/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a snapshot file, shared by snapfile*.c and the tests that damage them.
 * docs/formats/log.md has the tables. */
#ifndef LOG_SNAPFILE_INTERNAL_H
#define LOG_SNAPFILE_INTERNAL_H
#include "log/snapfile.h"

enum {
    SNAP_HEAD_FIXED = 72, /* before the members */
    SNAP_HEAD_MAX = 8192, /* with REPLICA_MEMBERS_MAX of the longest addresses */
    SNAP_CHUNK_HEAD = 24, /* before its bytes */
    SNAP_END_BYTES = 16,  /* in the end mark: chunks, bytes */
    SNAP_ALIGN = 8,
    SNAP_NAME_SIZE = 16 + 1 + 16 + 5 + 1, /* "<index>-<term>.snap" and its NUL */
    SNAP_SYNC_BYTES = 4 << 20,            /* written at most between two syncs */
};
#define SNAP_SECTION_END UINT32_MAX

/* The head with its checksum; the size is a multiple of 8. `room` holds SNAP_HEAD_MAX. */
size_t snap_head_write(const struct snap_head *head, char *room, uint32_t *ret_crc);
/* ERR_CORRUPT, ERR_VERSION; ERR_TOO_LARGE: *ret_size says how many bytes it takes. */
enum err snap_head_read(struct str bytes, struct snap_head *ret_head, size_t *ret_size,
                        uint32_t *ret_crc);
struct snap_chunk {
    uint32_t section;
    uint64_t number; /* from 0, without gap */
    struct str bytes;
};
size_t snap_chunk_size(size_t bytes); /* in the file */
/* Every chunk is salted with its file's head, so that one of another file is not taken for it. */
void snap_chunk_write(const struct snap_chunk *chunk, uint32_t head_crc, char *room);
/* As record_read. */
enum err snap_chunk_read(struct str bytes, uint32_t head_crc, struct snap_chunk *ret_chunk,
                         size_t *ret_size);

/* The names of all snapshots, newest first, each in SNAP_NAME_SIZE bytes with its NUL. For
 * buf_deinit after ERR_OK. ERR_FULL: more than there can be. */
enum err snap_list(struct fs *fs, const char *dir, struct buf *ret_names, struct note *note);
enum err snap_dir_path(const char *dir, const char *name, char path[FS_PATH_CAP],
                       struct note *note); /* "<dir>/snap/<name>" */
enum err snap_sync_names(struct fs *fs, const char *dir, struct note *note);
#endif
