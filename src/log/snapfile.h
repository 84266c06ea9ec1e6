/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshot files: a head, then chunks of sections, each with its checksum, then an end mark.
 *
 * A file is written under a temporary name, synced and renamed, and its directory is synced. A
 * snapshot's final name is snap/<index, 16 hex>-<term, 16 hex>.snap. Calls block; they run on the
 * bulk thread and at start. The newest snapshot is kept, and its predecessor until the next
 * snapshot is durable. docs/formats/log.md has the bytes. A section belongs to a machine; section 0
 * is the log's own (clock, level). */
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
    uint32_t level; /* programs that know only lower levels cannot read the file */
    uint64_t clock_ns;
};
/* -- encoding, appended to `into`; also used for streamed snapshots -- */
struct snap_stream { /* allocated by the caller */
    uint32_t head_crc, section;
    uint64_t chunks, bytes;
};
enum err snap_stream_begin(struct snap_stream *stream, const struct snap_head *head,
                           struct buf *into);
/* Encodes a chunk of at most SNAP_CHUNK_MAX bytes. Sections must be in ascending order. */
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
/* Ends the file, syncs it, renames it and syncs the directory. Frees the writer also on error. */
enum err snap_finish(struct snap_writer *own_writer, uint64_t *ret_bytes, struct note *note);
void snap_abandon(struct snap_writer *own_writer); /* removes the temporary file; accepts NULL */

struct snap_reader;
/* Opens a file and checks its head. ERR_CORRUPT (the note says where), ERR_VERSION,
 * ERR_NOT_FOUND. */
enum err snap_open(struct fs *fs, const char *path, struct snap_reader **ret_reader,
                   struct snap_head *ret_head, struct note *note);
/* Reads the next chunk and replaces the content of `into`. At the end of the file *ret_section is
 * UINT32_MAX, and all checks have passed. */
enum err snap_read(struct snap_reader *reader, struct buf *into, uint32_t *ret_section,
                   struct note *note);
void snap_close(struct snap_reader *reader); /* accepts NULL */
enum err snap_verify(struct fs *fs, const char *path, struct snap_head *ret_head,
                     uint64_t *ret_bytes, struct note *note); /* reads the whole file */

/* Finds the newest snapshot that is not temporary. Returns ERR_NOT_FOUND if there is none. Returns
 * ERR_CORRUPT if the newest snapshot is unreadable. An older snapshot is never returned, because
 * the log entries after it may be removed. */
enum err snap_newest(struct fs *fs, const char *dir, char name[SNAP_NAME_CAP],
                     struct snap_head *ret_head, struct note *note);
/* Called at start, before anything is written or received. Makes the newest snapshot's name
 * durable, then removes all other snapshots and temporary files of dead processes. */
enum err snap_sweep(struct fs *fs, const char *dir, struct note *note);
/* Called while running: removes complete snapshots older than `keep`, which must be durable. Keeps
 * temporary files. */
enum err snap_remove_older(struct fs *fs, const char *dir, const struct snapshot_mark *keep,
                           struct note *note);
void snap_name(const struct snapshot_mark *mark, char name[SNAP_NAME_CAP]);

/* A snapshot received from a peer: raw bytes are written in order to a temporary file, which is
 * verified and stays temporary until the engine asks to install the snapshot. */
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
