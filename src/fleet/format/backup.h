/* SPDX-License-Identifier: Apache-2.0 */
/* A backup: every section of the replicated state at one index, written and read as bytes in, bytes
 * out. docs/formats/backup.md explains it to whoever has to read one without us.
 *
 *     head    0 "musterbk"  8 format (4), length (4)  16 JSON of that length
 *             .. crc32c (4) of all before it
 *     piece   0 section (4), length (4), crc32c (4)  12 bytes of that length
 *     end     a piece of section 0xffffffff: JSON with the length and CRC-32C of each section;
 *             nothing follows
 * Little-endian. A piece's checksum covers the head's checksum, the piece's number (8), its
 * section, length and bytes, so that no piece can be moved, left out or taken from another backup.
 *
 * The head says which sections follow, in growing order of their ids; what a section means is its
 * state machine's. Lengths come last because the state is read while the cluster goes on, and
 * nobody knows them before. */
#ifndef FLEET_FORMAT_BACKUP_H
#define FLEET_FORMAT_BACKUP_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

enum {
    BACKUP_FORMAT = 1,
    BACKUP_MAGIC_BYTES = 8,
    BACKUP_SECTIONS_MAX = 8,
    BACKUP_NAME_MAX = 31, /* of a section, and of a node */
    BACKUP_PIECE_MAX = 1 << 20,
    BACKUP_JSON_MAX = 64 << 10,
    BACKUP_PIECE_HEAD = 12,
};
struct backup_section {
    uint32_t id, version; /* of the machine */
    char name[BACKUP_NAME_MAX + 1];
    uint64_t hash;  /* of its state: what a restored one must have */
    uint64_t bytes; /* from here on known at the end only */
    uint32_t crc;
};
struct backup_head {
    uint64_t index, term; /* of the last entry contained */
    uint64_t cluster_id, replica_id;
    uint64_t clock_ns, created_ms; /* replicated clock; wall time since 1970 */
    uint32_t level;
    size_t section_count;
    struct backup_section sections[BACKUP_SECTIONS_MAX];
};
bool backup_is(struct str first_bytes); /* by its first BACKUP_MAGIC_BYTES */

/* -- writing: head, pieces, end -- */
struct backup_writer { /* the caller's storage */
    struct backup_head head;
    uint32_t head_crc;
    uint64_t pieces;
    size_t section; /* that was written last */
};
/* The head's JSON alone, one line without its end. ERR_FULL, ERR_NOMEM. */
enum err backup_head_json(const struct backup_head *head, struct buf *into);
enum err backup_write_head(struct backup_writer *writer, const struct backup_head *head,
                           struct buf *into); /* ERR_FULL, ERR_NOMEM: nothing was written */
/* `section` is a place in head.sections, not before the last one; at most BACKUP_PIECE_MAX bytes,
 * at least one. */
enum err backup_write_piece(struct backup_writer *writer, size_t section, struct str bytes,
                            struct buf *into);
enum err backup_write_end(struct backup_writer *writer, struct buf *into);

/* -- reading -- */
struct backup_events {
    /* Either may be NULL. What they return but ERR_OK ends the reading. */
    enum err (*on_head)(void *owner, const struct backup_head *head, struct note *note);
    enum err (*on_piece)(void *owner, const struct backup_section *section, struct str bytes,
                         struct note *note);
    void *owner;
};
struct backup_reader;
enum err backup_read_open(const struct backup_events *events,
                          struct backup_reader **ret_reader); /* ERR_NOMEM */
/* Bytes in order, cut anywhere. ERR_CORRUPT (with the offset in the note), ERR_VERSION, ERR_NOMEM,
 * and what the events answer; final. */
enum err backup_read(void *reader, struct str bytes, struct note *note);
/* After the last byte. ERR_CORRUPT: cut short. */
enum err backup_read_end(struct backup_reader *reader, struct backup_head *ret_head,
                         struct note *note);
void backup_read_close(struct backup_reader *reader); /* NULL is fine */
#endif
