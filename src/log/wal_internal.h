/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the log on disk, shared by wal*.c only.
 *
 *     wal.c           append, reset, seal; rolling into the next segment
 *     wal_segments.c  files: made, zeroed, named, recycled, removed
 *     wal_recover.c   reading everything at start; torn tail or damage
 *     wal_read.c      old entries, from any thread
 *
 * Invariants:
 * 1. A file named *.seg has a valid head on disk, and its name is durable before its number is in
 *    any record. So a bad head is damage, never a crash.
 * 2. The last record of every segment but the one in use is a seal that names the next one, and it
 *    is durable before that one has its first record. So what follows the segment in use is unused.
 * 3. Names of released segments go oldest first, each durable before the next. So a segment that
 *    is missing between two others is damage, too.
 * 4. `synced` is raised only after the sync of what it covers has succeeded. So a record that is
 *    unreadable though a later one covers it is damage, and one that nobody covers was never
 *    acknowledged, or is the very last that was. */
#ifndef LOG_WAL_INTERNAL_H
#define LOG_WAL_INTERNAL_H
#include <inttypes.h>

#include "log/wal.h"

enum {
    WAL_SPARES_MAX = 16,
    WAL_BATCH_KEEP = 4 << 20, /* memory for gathering that is kept between appends */
    WAL_BATCH_MAX = 8 << 20,  /* gathered at most for one write; holds the largest record */
    WAL_SLICE = 1 << 20,      /* written by one wal_prepare */
    WAL_NAME_CAP = 64,
};
#define WAL_SEGMENT_DEFAULT (64ull << 20)
#define WAL_SEGMENT_MIN     (64ull << 10)
#define WAL_SEGMENT_MAX     (1ull << 30)

struct wal_segment {
    uint64_t sequence, salt;
    uint64_t size; /* of the file */
};
struct wal {
    struct fs *fs;
    struct entropy *entropy;
    char dir[FS_PATH_CAP - WAL_NAME_CAP]; /* "<data directory>/log" */
    uint64_t cluster_id, replica_id, segment_bytes;
    uint32_t spares_max;
    bool read_only, no_space;
    bool scarce;     /* wal_save_space */
    enum err failed; /* final */

    struct wal_segment *used; /* by sequence; the last one is in use */
    size_t used_count, used_cap;
    struct wal_segment spares[WAL_SPARES_MAX];
    size_t spare_count;
    uint64_t last_sequence;  /* ever given, spares too */
    uint64_t release_before; /* wal_release */

    struct fs_file *file; /* of the segment in use */
    uint64_t offset;      /* where the next record goes */
    uint64_t serial;      /* of the last record written or gathered */
    uint64_t synced;      /* of the last one that is durable */
    uint64_t next_index;  /* 0: any */
    bool sealed;          /* the last record says that all before it are durable */

    char *batch; /* records gathered for one write, at `offset - batch_len` */
    size_t batch_len, batch_cap;

    struct fs_file *making; /* a spare that is being zeroed, under a temporary name */
    char making_path[FS_PATH_CAP];
    uint64_t made;

    uint64_t appends, syncs, bytes;
};

/* Keeps the first failure; every later call answers it. Answers `err`; the caller says where. */
enum err wal_fail(struct wal *wal, enum err err);
enum err wal_check(const struct wal *wal, struct note *note); /* the failure, if there was one */

static inline struct wal_segment *wal_in_use(const struct wal *wal)
{
    assert(wal->used_count > 0);
    return &wal->used[wal->used_count - 1];
}

/* -- wal_segments.c -- */
void wal_segment_path(const char *dir, uint64_t sequence, char path[FS_PATH_CAP]);
uint64_t wal_segment_parse(struct str name); /* 0: the name of no segment */
enum err wal_use(struct wal *wal, const struct wal_segment *segment); /* ERR_NOMEM */
/* At least one spare, with a durable name. */
enum err wal_ensure_spare(struct wal *wal, struct note *note);
enum err wal_open_segment(struct wal *wal, const struct wal_segment *segment, uint32_t flags,
                          struct fs_file **ret_file, struct note *note);
/* Reads and checks the head of the segment `sequence`. ERR_CORRUPT, ERR_VERSION, ERR_IO. */
enum err wal_read_head(struct fs *fs, struct fs_file *file, uint64_t sequence,
                       struct segment_head *ret_head);

void wal_drop_making(struct wal *wal); /* the spare that is being zeroed, if there is one */

/* -- wal.c -- */
enum err wal_sync(struct wal *wal, struct note *note); /* the segment in use */

/* -- wal_recover.c -- */
enum err wal_recover(struct wal *wal, bool create, wal_found_fn *each, void *context,
                     struct wal_report *ret_report, struct note *note);
#endif
