/* SPDX-License-Identifier: Apache-2.0 */
/* The log on disk: segment files log/<sequence, 16 hex>.seg, append and sync, recovery
 * (docs/formats/log.md). Calls block. After wal_open the loop's thread passes the log to the
 * disk thread.
 *
 * Guarantee: entries for which wal_append returned ERR_OK survive any crash. After any other result
 * the process must stop (fail-stop: every later call returns the same error). An entry that repeats
 * an index replaces the earlier entry and all entries after it. Segments are prepared in advance
 * (zeroed, or recycled), so that an append is one write and one fdatasync and changes no metadata.
 * A segment that was not prepared in time grows with each write.
 *
 * Files: log/<sequence, 16 hex>.seg, log/DURABLE, log/VOTE, log/FORMAT. See docs/formats/log.md. */
#ifndef LOG_WAL_H
#define LOG_WAL_H
#include "base/buf.h"
#include "base/note.h"
#include "io/clock.h"
#include "io/fs.h"
#include "log/entry.h"
#include "log/record.h"

struct wal;
struct wal_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir; /* the data directory; "log" in it must exist */
    uint64_t cluster_id, replica_id;
    uint64_t segment_bytes; /* 64 KiB to 1 GiB; 0: 64 MiB; grows for a larger record */
    uint32_t spares;        /* maximum of prepared segments, up to 16; 0 means 2 */
    bool create;            /* creates an empty log's first segment; else ERR_CORRUPT */
};
/* The end of each message about a log that lost records. */
#define WAL_LOST                                                                                   \
    "segments are missing or were cut; bring them back, or run `muster coordinator rejoin`"
struct wal_place {         /* where an entry is on disk */
    uint64_t sequence;     /* number of the segment that contains the entry */
    uint32_t offset, size; /* position and size of the entry's record */
};
/* Called for every entry that survives recovery, in file order. An entry replaces the earlier entry
 * with its index and all later entries. `reset` drops all entries: the log continues after `index`.
 * Bytes are valid during the call. */
struct wal_found {
    struct entry entry;
    struct wal_place place;
    bool reset;
};
typedef enum err wal_found_fn(void *context, const struct wal_found *found);
struct wal_report {
    uint64_t segments, records, bytes;
    uint64_t torn_bytes; /* removed from the tail; never acknowledged */
    uint64_t torn_segment, torn_offset;
};
/* Reads the whole log, cuts a torn tail, and prepares for appends. Returns ERR_CORRUPT, with file
 * and offset in `note`, for a bad record that was acknowledged. `read_only` changes nothing on
 * disk; then only wal_close may follow. */
enum err wal_open(const struct wal_options *options, bool read_only, wal_found_fn *each,
                  void *context, struct wal **ret_wal, struct wal_report *ret_report,
                  struct note *note);
void wal_close(struct wal *wal); /* tries to seal and publish the log; accepts NULL */
/* Appends and syncs all entries: one write and one fdatasync unless a segment ends in between. Sets
 * places[i] for each entry. Any error (ERR_NO_SPACE, ERR_IO, ...) is final. */
enum err wal_append(struct wal *wal, const struct entry *entries, size_t count,
                    struct wal_place *places, struct note *note);
/* The log continues after a durable snapshot up to `index` in `term`. Syncs the log. */
enum err wal_reset(struct wal *wal, uint64_t index, uint64_t term, struct note *note);
/* Appends a durable seal: a record that says that all earlier records are durable. For a pause
 * without appends. No effect after a seal. */
enum err wal_seal(struct wal *wal, struct note *note);
/* Writes the serial of the last durable record to log/DURABLE, if it rose. A log that ends before
 * that record is damaged. A full disk is no error, because an older serial is right, too. */
enum err wal_publish(struct wal *wal, struct note *note);
/* Marks segments before `sequence` as no longer needed; the current segment and that of the last
 * record always stay. wal_prepare then recycles or removes one segment per call. */
enum err wal_release(struct wal *wal, uint64_t sequence, struct note *note);
/* A step of upkeep between appends, while wal_wants_spare is true: handles a released segment,
 * writes zeros ahead, or writes part of a spare segment. Writes at most about 1 MiB, so that an
 * append does not wait long. ERR_NO_SPACE is not final here. */
bool wal_wants_spare(const struct wal *wal);
/* While space is scarce, no segment is prepared. Released segments are still removed. */
void wal_save_space(struct wal *wal, bool scarce);
enum err wal_prepare(struct wal *wal, struct note *note);
struct wal_stats {
    uint64_t appends, syncs, bytes, segments, spares, disk_bytes;
    uint64_t last_sequence;
};
struct wal_stats wal_stats(const struct wal *wal);

/* Reads `count` records from any thread, concurrently with wal_append. Appends the bytes to
 * `into` and sets entries[] to views of them. ERR_CORRUPT with file and offset, ERR_NOT_FOUND
 * (segment released), ERR_FULL, ERR_NOMEM. */
enum err wal_read(struct fs *fs, const char *dir, const struct wal_place *places, size_t count,
                  struct buf *into, struct entry *entries, struct note *note);

/* -- term and vote: two copies, each with its own checksum and sync, so damage to one loses no
 * vote -- */
struct vote {
    uint64_t term, candidate;
};
struct vote_file;
/* Creates an absent file with term 0. ERR_CORRUPT: no copy is readable. */
enum err vote_open(struct fs *fs, const char *dir, bool read_only, struct vote_file **ret_file,
                   struct vote *ret_vote, struct note *note);
/* Writes and syncs. */
enum err vote_write(struct vote_file *file, struct vote vote, struct note *note);
void vote_close(struct vote_file *file); /* accepts NULL */
/* Finds the newer valid copy in the file's content. ERR_CORRUPT: no valid copy. ERR_VERSION: a
 * newer program wrote a copy. */
enum err vote_decode(struct str bytes, struct vote *ret_vote, uint64_t *ret_serial, int *ret_slot);
#endif
