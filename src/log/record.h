/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of a segment file, a sequence of records (docs/formats/log.md). Pure.
 *
 * docs/formats/log.md has the bytes, and says what a reader concludes from `serial` and `synced`.
 * The checksums are salted with the segment's random identity, so that old content of a recycled
 * file is never mistaken for a record. */
#ifndef LOG_RECORD_H
#define LOG_RECORD_H
#include "base/str.h"
#include "log/entry.h"

enum record_kind {
    RECORD_COMMAND = ENTRY_COMMAND,
    RECORD_BARRIER = ENTRY_BARRIER,
    RECORD_CHANGE = ENTRY_CHANGE,
    RECORD_RESET = 16, /* index and term of the snapshot before the log; no bytes */
    RECORD_SEAL = 17,  /* `index`: next segment's sequence, or 0: the log continues here */
};
enum { RECORD_HEAD = 48, SEGMENT_HEAD = 4096, RECORD_ALIGN = 8 };
struct log_record {
    enum record_kind kind;
    uint64_t serial, synced, index, term;
    struct str bytes;
};
size_t record_size(size_t bytes); /* size on disk, including padding */
/* `room` must have record_size(record->bytes.len) bytes. */
void record_write(const struct log_record *record, uint64_t salt, void *room);
/* Decodes the record at the start of `bytes`. ERR_CORRUPT: no valid record of this segment.
 * ERR_TOO_LARGE: the head is valid, but the record needs *ret_size bytes. */
enum err record_read(struct str bytes, uint64_t salt, struct log_record *ret_record,
                     size_t *ret_size);
/* Decodes the head only; ret_record->bytes is empty. The head's checksum makes its values valid
 * even if the record is torn. Errors as for record_read. */
enum err record_read_head(struct str bytes, uint64_t salt, struct log_record *ret_record,
                          size_t *ret_size);

struct segment_head {
    uint64_t sequence; /* the number in the file name */
    uint64_t salt;
    uint64_t cluster_id, replica_id; /* cluster_id: informational, can be outdated */
};
void segment_head_write(const struct segment_head *head, char room[SEGMENT_HEAD]);
/* ERR_CORRUPT, ERR_VERSION. */
enum err segment_head_read(struct str bytes, struct segment_head *ret_head);
#endif
