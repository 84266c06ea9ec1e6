/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a segment file: records one after the other, each with its own checksum. Pure.
 *
 * docs/formats/log.md has the bytes. A record is a head, the entry's bytes, and zeros up to the
 * next multiple of 8. Its CRC-32C covers everything but itself and is salted with the segment's
 * random identity, so that what a recycled file held before is never taken for a record.
 *
 * The log is append-only. A record with an index that was there before replaces that entry and all
 * after it; that is the whole of truncation. RECORD_RESET says that the log goes on after a
 * snapshot. RECORD_SEAL carries no entry: it says how much was durable, and as the last record of a
 * segment in which segment the log goes on.
 *
 * `serial` counts records without gap over all segments, and `synced` is the highest serial that
 * was durable when this record was written: with it a reader distinguishes a torn tail (never
 * acknowledged, cut) from damage (below some later record's `synced`, stop). */
#ifndef LOG_RECORD_H
#define LOG_RECORD_H
#include "base/str.h"
#include "log/entry.h"

enum record_kind {
    RECORD_COMMAND = ENTRY_COMMAND,
    RECORD_BARRIER = ENTRY_BARRIER,
    RECORD_CHANGE = ENTRY_CHANGE,
    RECORD_RESET = 16, /* index, term: of the snapshot the log goes on from; no bytes */
    RECORD_SEAL = 17,  /* index: sequence of the next segment, 0: the log goes on in this one */
};
enum { RECORD_HEAD = 48, SEGMENT_HEAD = 4096, RECORD_ALIGN = 8 };
struct log_record {
    enum record_kind kind;
    uint64_t serial, synced, index, term;
    struct str bytes;
};
size_t record_size(size_t bytes); /* on disk, padding included */
/* `room` holds record_size(record->bytes.len). */
void record_write(const struct log_record *record, uint64_t salt, void *room);
/* Looks at the start of `bytes`. ERR_OK and the record with *ret_size; ERR_CORRUPT: no valid record
 * of this segment starts here; ERR_TOO_LARGE: its head is valid and more bytes than given are
 * needed (*ret_size says how many). */
enum err record_read(struct str bytes, uint64_t salt, struct log_record *ret_record,
                     size_t *ret_size);
/* Only the head, which has a checksum of its own: what it claims is true even if its bytes are torn
 * or damaged. `bytes` is empty in *ret_record. ERR_CORRUPT, ERR_TOO_LARGE as above. */
enum err record_read_head(struct str bytes, uint64_t salt, struct log_record *ret_record,
                          size_t *ret_size);

struct segment_head {
    uint64_t sequence; /* also the file's name */
    uint64_t salt;
    uint64_t cluster_id, replica_id; /* the cluster's for people only: it may change later */
};
void segment_head_write(const struct segment_head *head, char room[SEGMENT_HEAD]);
enum err segment_head_read(struct str bytes, struct segment_head *ret_head); /* CORRUPT, VERSION */
#endif
