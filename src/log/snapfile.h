/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshot files: a head, chunks of sections with checksums, an end mark (docs/formats/log.md).
 * A section belongs to a machine; section 0 is the log's own (clock, level).
 *
 * A file is written under a temporary name, synced, renamed to snap/<index, 16 hex>-<term, 16
 * hex>.snap, and its directory is synced.  Calls block; they run on the bulk thread and at
 * start. */
#ifndef LOG_SNAPFILE_H
#define LOG_SNAPFILE_H
#include "base/buf.h"
#include "base/note.h"
#include "io/fs.h"
#include "log/engine.h"

enum {
    SNAP_CHUNK_MAX = 1 << 20,
    SNAP_NAME_CAP = 48, /* file name without directory */
    SNAP_MAGIC_BYTES = 8,
};
struct snap_head {
    struct snapshot_mark mark;
    uint64_t cluster_id;
    uint32_t level; /* programs of lower levels cannot read the file */
    uint64_t clock_ns;
};
/* -- encoding, appended to `into` -- */
struct snap_stream { /* allocated by the caller */
    uint32_t head_crc, section;
    uint64_t chunks, bytes;
};
enum err snap_stream_begin(struct snap_stream *stream, const struct snap_head *head,
                           struct buf *into);
/* At most SNAP_CHUNK_MAX bytes. Sections must ascend. */
enum err snap_stream_chunk(struct snap_stream *stream, uint32_t section, struct str bytes,
                           struct buf *into);
enum err snap_stream_end(const struct snap_stream *stream, struct buf *into);
bool snap_is(struct str first_bytes); /* decides by the first SNAP_MAGIC_BYTES */

struct snap_writer;
/* Creates "snap/.<name>.<8 hex>.tmp". snap_finish renames the file. */
enum err snap_create(struct fs *fs, const char *dir, const struct snap_head *head, uint64_t unique,
                     struct snap_writer **ret_writer, struct note *note);
enum err snap_write(struct snap_writer *writer, uint32_t section, struct str bytes,
                    struct note *note); /* up to SNAP_CHUNK_MAX bytes; sections must ascend */
/* Makes the file and its name durable. Frees the writer also on error. */
enum err snap_finish(struct snap_writer *own_writer, uint64_t *ret_bytes, struct note *note);
void snap_abandon(struct snap_writer *own_writer); /* removes the temporary file; accepts NULL */

struct snap_reader;
/* Checks the head. ERR_CORRUPT (the note says where), ERR_VERSION, ERR_NOT_FOUND. */
enum err snap_open(struct fs *fs, const char *path, struct snap_reader **ret_reader,
                   struct snap_head *ret_head, struct note *note);
/* Replaces the content of `into` by the next chunk. *ret_section is UINT32_MAX at the end of the
 * file, when all checks have passed. */
enum err snap_read(struct snap_reader *reader, struct buf *into, uint32_t *ret_section,
                   struct note *note);
void snap_close(struct snap_reader *reader); /* accepts NULL */
enum err snap_verify(struct fs *fs, const char *path, struct snap_head *ret_head,
                     uint64_t *ret_bytes, struct note *note); /* reads the whole file */

/* Newest snapshot that is not temporary. ERR_NOT_FOUND: none. ERR_CORRUPT: unreadable; an older
 * snapshot is never returned, because the log entries after it may be removed. */
enum err snap_newest(struct fs *fs, const char *dir, char name[SNAP_NAME_CAP],
                     struct snap_head *ret_head, struct note *note);
/* For the start, before anything is written. Makes the newest snapshot's name durable, then
 * removes other snapshots and temporary files. */
enum err snap_sweep(struct fs *fs, const char *dir, struct note *note);
/* Removes snapshots older than `keep`, which must be durable. Keeps temporary files. */
enum err snap_remove_older(struct fs *fs, const char *dir, const struct snapshot_mark *keep,
                           struct note *note);
void snap_name(const struct snapshot_mark *mark, char name[SNAP_NAME_CAP]);

/* A peer's snapshot: a temporary file until the engine asks to install it. */
struct snap_inbox;
enum err snap_inbox_open(struct fs *fs, const char *dir, uint64_t unique,
                         struct snap_inbox **ret_inbox, struct note *note);
enum err snap_inbox_write(struct snap_inbox *inbox, uint64_t offset, struct str bytes,
                          struct note *note);
/* Syncs and verifies the whole file, which keeps its temporary name. */
enum err snap_inbox_check(struct snap_inbox *inbox, struct snap_head *ret_head, struct note *note);
/* Renames the file durably. Frees the inbox. */
enum err snap_inbox_keep(struct snap_inbox *own_inbox, struct note *note);
void snap_inbox_drop(struct snap_inbox *own_inbox); /* removes the temporary file; accepts NULL */
#endif
