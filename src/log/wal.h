/* SPDX-License-Identifier: Apache-2.0 */
/* The log on disk: segment files, append and sync, recovery. Blocking; after wal_open the loop's
 * thread gives it to the disk thread, and from then on one job at a time touches it.
 *
 * Promises: what wal_append returned ERR_OK for is there after any crash; after any other answer
 * the process must stop (fail-stop: every later call answers the same error). Entries are appended
 * as they come; one that repeats an index replaces it and what followed. A segment is prepared
 * ahead (pre-zeroed, or an old one recycled), so that an append is one write and one fdatasync and
 * touches no metadata. A segment that was not prepared in time grows as it is written.
 *
 * Files: log/<sequence, 16 hex>.seg, log/VOTE, log/FORMAT. See docs/formats/log.md. */
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
    struct entropy *entropy; /* salts */
    const char *dir;         /* the data directory; "log" below it must exist */
    uint64_t cluster_id, replica_id;
    uint64_t segment_bytes; /* 0: 64 MiB; 64 KiB to 1 GiB, more for a record that needs it */
    uint32_t spares;        /* prepared ahead, at most; 0: 2, at most 16 */
    bool create;            /* a log without any segment is begun; else it is ERR_CORRUPT */
};
struct wal_place {         /* of an entry */
    uint64_t sequence;     /* of the segment */
    uint32_t offset, size; /* of the record */
};
/* Called for every entry that survives recovery, in order of the file: an index that comes again
 * replaces that one and all after it. `reset`: forget all, the log goes on after `index`. Bytes are
 * valid during the call. */
struct wal_found {
    struct entry entry;
    struct wal_place place;
    bool reset;
};
typedef enum err wal_found_fn(void *context, const struct wal_found *found);
struct wal_report { /* what recovery met, for the log and for `muster check` */
    uint64_t segments, records, bytes;
    uint64_t torn_bytes; /* cut from the tail; never acknowledged */
    uint64_t torn_segment, torn_offset;
};
/* Reads everything, cuts a torn tail, gets ready to append. ERR_CORRUPT names file and offset of a
 * bad record below what was acknowledged. With `read_only` nothing on disk is changed, and only
 * wal_close may follow. */
enum err wal_open(const struct wal_options *options, bool read_only, wal_found_fn *each,
                  void *context, struct wal **ret_wal, struct wal_report *ret_report,
                  struct note *note);
void wal_close(struct wal *wal); /* seals if it can; NULL is fine */
/* Appends and syncs all of them: one write and one fdatasync unless a segment ends in between.
 * Fills places[i] for each. ERR_NO_SPACE, ERR_IO, ...: final. */
enum err wal_append(struct wal *wal, const struct entry *entries, size_t count,
                    struct wal_place *places, struct note *note);
/* The log goes on after `index` of `term`: a snapshot up to there is durable. Synced. */
enum err wal_reset(struct wal *wal, uint64_t index, uint64_t term, struct note *note);
/* Says durably that everything so far was durable; when nothing was appended for a while. Does
 * nothing if the last record says so already. */
enum err wal_seal(struct wal *wal, struct note *note);
/* Segments before `sequence` hold nothing that is needed (the one in use always stays). Only notes
 * it: wal_prepare recycles or removes them, one a call. */
enum err wal_release(struct wal *wal, uint64_t sequence, struct note *note);
/* One small slice of upkeep (at most about 1 MiB written, and synced, so that an append that waits
 * is not late): a released segment, zeros ahead in the segment in use, or part of a spare. Call it
 * between appends while wal_wants_spare. ERR_NO_SPACE is not final here: wal_wants_spare is then
 * false until something was released or a segment was filled. */
bool wal_wants_spare(const struct wal *wal);
/* While space is scarce nothing is made ahead; what is released goes on. */
void wal_save_space(struct wal *wal, bool scarce);
enum err wal_prepare(struct wal *wal, struct note *note);
struct wal_stats {
    uint64_t appends, syncs, bytes, segments, spares, disk_bytes;
    uint64_t last_sequence;
};
struct wal_stats wal_stats(const struct wal *wal);

/* Reads `count` records at these places, from any thread, beside wal_append: appends
 * their entries' bytes to `into` and fills entries[] with views into it once all are read.
 * ERR_CORRUPT with file and offset, ERR_NOT_FOUND (segment released), ERR_FULL, ERR_NOMEM. */
enum err wal_read(struct fs *fs, const char *dir, const struct wal_place *places, size_t count,
                  struct buf *into, struct entry *entries, struct note *note);

/* -- term and vote: two equal copies written one after the other, each with its own checksum and
 * sync, so that neither a torn write nor damage to one of them loses what was promised -- */
struct vote {
    uint64_t term, candidate;
};
struct vote_file;
/* Absent: made, with term 0. ERR_CORRUPT when neither copy can be read though the file is there. */
enum err vote_open(struct fs *fs, const char *dir, bool read_only, struct vote_file **ret_file,
                   struct vote *ret_vote, struct note *note);
enum err vote_write(struct vote_file *file, struct vote vote, struct note *note); /* and syncs */
void vote_close(struct vote_file *file);                                          /* NULL is fine */
/* Which of the two copies in `bytes`, the file's content, was promised last. ERR_CORRUPT: neither
 * can be read; ERR_VERSION: one was written by a newer program. */
enum err vote_decode(struct str bytes, struct vote *ret_vote, uint64_t *ret_serial, int *ret_slot);
#endif
