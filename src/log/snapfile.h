/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshot files: one head, then chunks of sections, each with its checksum, then an end mark.
 *
 * A file is written under a temporary name, synced, renamed, and its directory synced; only then is
 * it a snapshot. snap/<index, 16 hex>-<term, 16 hex>.snap. Blocking; used from the bulk thread, and
 * at start. One is kept (and the one before it until the next is durable). docs/formats/log.md has
 * the bytes. A section belongs to a machine; section 0 is the log's own (clock, level). */
#ifndef LOG_SNAPFILE_H
#define LOG_SNAPFILE_H
#include "base/buf.h"
#include "base/note.h"
#include "io/fs.h"
#include "log/engine.h"

enum {
    SNAP_CHUNK_MAX = 1 << 20,
    SNAP_NAME_CAP = 48, /* of a file, without its directory */
    SNAP_MAGIC_BYTES = 8,
};
struct snap_head {
    struct snapshot_mark mark;
    uint64_t cluster_id;
    uint32_t level; /* a program that speaks less cannot read it */
    uint64_t clock_ns;
};
/* -- the bytes of a file, appended to `into`; of a snapshot that is streamed, too -- */
struct snap_stream { /* the caller's storage */
    uint32_t head_crc, section;
    uint64_t chunks, bytes;
};
enum err snap_stream_begin(struct snap_stream *stream, const struct snap_head *head,
                           struct buf *into);
/* At most SNAP_CHUNK_MAX bytes; sections in growing order. */
enum err snap_stream_chunk(struct snap_stream *stream, uint32_t section, struct str bytes,
                           struct buf *into);
enum err snap_stream_end(const struct snap_stream *stream, struct buf *into);
bool snap_is(struct str first_bytes); /* by its first SNAP_MAGIC_BYTES */

struct snap_writer;
/* "snap/.<name>.<8 hex>.tmp" until finished. */
enum err snap_create(struct fs *fs, const char *dir, const struct snap_head *head, uint64_t unique,
                     struct snap_writer **ret_writer, struct note *note);
enum err snap_write(struct snap_writer *writer, uint32_t section, struct str bytes,
                    struct note *note); /* at most SNAP_CHUNK_MAX; sections in growing order */
/* Ends the file, syncs it, gives it its name, syncs the name. The writer is gone, whatever it
 * answers. */
enum err snap_finish(struct snap_writer *own_writer, uint64_t *ret_bytes, struct note *note);
void snap_abandon(struct snap_writer *own_writer); /* removes the temporary; NULL is fine */

struct snap_reader;
/* Opens and checks the head. ERR_CORRUPT naming file and offset, ERR_VERSION, ERR_NOT_FOUND. */
enum err snap_open(struct fs *fs, const char *path, struct snap_reader **ret_reader,
                   struct snap_head *ret_head, struct note *note);
/* The next chunk into `into` (replacing what it holds). *ret_section UINT32_MAX: the end was
 * reached and everything added up. */
enum err snap_read(struct snap_reader *reader, struct buf *into, uint32_t *ret_section,
                   struct note *note);
void snap_close(struct snap_reader *reader); /* NULL is fine */
enum err snap_verify(struct fs *fs, const char *path, struct snap_head *ret_head,
                     uint64_t *ret_bytes, struct note *note); /* reads it all */

/* The newest whole one; others are not looked into. ERR_NOT_FOUND: none. A newest one that cannot
 * be read is ERR_CORRUPT, never passed over: the log behind it may be gone. */
enum err snap_newest(struct fs *fs, const char *dir, char name[SNAP_NAME_CAP],
                     struct snap_head *ret_head, struct note *note);
/* At start, before anything is written or received: makes the newest one's name durable, then
 * removes all others and the temporaries of dead processes. */
enum err snap_sweep(struct fs *fs, const char *dir, struct note *note);
/* While running: removes whole ones older than `keep`, which must be durable. Temporaries stay. */
enum err snap_remove_older(struct fs *fs, const char *dir, const struct snapshot_mark *keep,
                           struct note *note);
void snap_name(const struct snapshot_mark *mark, char name[SNAP_NAME_CAP]);

/* A file that arrives from a peer: raw bytes in order into a temporary, then verified and kept
 * apart until the engine wants it. */
struct snap_inbox;
enum err snap_inbox_open(struct fs *fs, const char *dir, uint64_t unique,
                         struct snap_inbox **ret_inbox, struct note *note);
enum err snap_inbox_write(struct snap_inbox *inbox, uint64_t offset, struct str bytes,
                          struct note *note);
/* Syncs and verifies the whole; it stays under its temporary name. */
enum err snap_inbox_check(struct snap_inbox *inbox, struct snap_head *ret_head, struct note *note);
/* Gives it its name, durably. The inbox is gone. */
enum err snap_inbox_keep(struct snap_inbox *own_inbox, struct note *note);
void snap_inbox_drop(struct snap_inbox *own_inbox); /* removes the temporary; NULL is fine */
#endif
