/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the log on disk, shared by wal*.c only.
 *
 *     wal.c           append, reset, seal; change to the next segment
 *     wal_segments.c  files: create, zero, rename, recycle, remove
 *     wal_recover.c   read everything at start; distinguish a torn tail from damage
 *     wal_read.c      read old entries, from any thread
 *
 * Invariants:
 * 1. A file named *.seg has a valid head on disk, and its name is durable before any record
 *    contains its number. A bad head is damage, never the result of a crash.
 * 2. The last record of every segment but the current one is a seal that names the next segment.
 *    The seal is durable before the next segment gets its first record. So segments after the
 *    current segment are unused.
 * 3. Released segments lose their names oldest first, and each removal is durable before the next.
 *    So a segment that is missing between two others is damage, too.
 * 4. `synced` is raised only after the sync of the records it covers has succeeded. So an
 *    unreadable record is damage if a later record covers it. An unreadable record that no record
 *    covers was never acknowledged, or is the very last acknowledged record.
 * 5. Serials never restart, because the segment of the last record is never released. So the serial
 *    in log/DURABLE stays a lower bound for the end of the log, whatever happens later. */
#ifndef LOG_WAL_INTERNAL_H
#define LOG_WAL_INTERNAL_H
#include <inttypes.h>

#include "log/wal.h"

enum {
    WAL_SPARES_MAX = 16,
    WAL_BATCH_KEEP = 4 << 20,
    WAL_BATCH_MAX = 8 << 20, /* largest write; the largest record must fit */
    WAL_SLICE = 1 << 20,
    WAL_NAME_CAP = 64,
};
#define WAL_DURABLE         "DURABLE" /* the file with the serial of a durable record */
#define WAL_SEGMENT_DEFAULT (64ull << 20)
#define WAL_SEGMENT_MIN     (64ull << 10)
#define WAL_SEGMENT_MAX     (1ull << 30)

struct wal_segment {
    uint64_t sequence, salt;
    uint64_t size;
};
struct wal {
    struct fs *fs;
    struct entropy *entropy;
    char dir[FS_PATH_CAP - WAL_NAME_CAP]; /* "<data directory>/log" */
    uint64_t cluster_id, replica_id, segment_bytes;
    uint32_t spares_max;
    bool read_only, no_space;
    bool scarce; /* short of disk space: prepare no spares */
    enum err failed;

    struct wal_segment *used; /* ordered by sequence; the last one is the current segment */
    size_t used_count, used_cap;
    struct wal_segment spares[WAL_SPARES_MAX];
    size_t spare_count;
    uint64_t last_sequence;  /* highest sequence ever used, also of spares */
    uint64_t release_before; /* segments below can be removed */

    struct fs_file *file; /* the current segment */
    uint64_t offset;      /* where the next record is written */
    uint64_t serial;      /* serial of the last record written or gathered */
    uint64_t synced;      /* serial of the last durable record */
    uint64_t published;   /* serial in log/DURABLE; 0 without the file */
    uint64_t next_index;  /* index of the next entry; 0: any index is accepted */
    bool sealed;          /* the last record states that all records before it are durable */

    struct buf batch; /* records gathered for one write at `offset - batch.len` */

    struct fs_file *making; /* a spare being zeroed under a temporary name */
    char making_path[FS_PATH_CAP];
    uint64_t made;

    uint64_t appends, syncs, bytes;
};

/* Stores the first failure and returns it now and later. The caller's note has the place. */
enum err wal_fail(struct wal *wal, enum err err);
enum err wal_check(const struct wal *wal, struct note *note); /* returns the stored failure */

static inline struct wal_segment *wal_in_use(const struct wal *wal)
{
    assert(wal->used_count > 0);
    return &wal->used[wal->used_count - 1];
}

/* -- wal_segments.c -- */
void wal_segment_path(const char *dir, uint64_t sequence, char path[FS_PATH_CAP]);
uint64_t wal_segment_parse(struct str name);                          /* 0: no name of a segment */
enum err wal_use(struct wal *wal, const struct wal_segment *segment); /* ERR_NOMEM */
/* Makes a spare segment whose name is durable, if there is none. */
enum err wal_ensure_spare(struct wal *wal, struct note *note);
enum err wal_open_segment(struct wal *wal, const struct wal_segment *segment, uint32_t flags,
                          struct fs_file **ret_file, struct note *note);
/* Checks the head. ERR_CORRUPT, ERR_VERSION, ERR_IO. */
enum err wal_read_head(struct fs *fs, struct fs_file *file, uint64_t sequence,
                       struct segment_head *ret_head);

void wal_drop_making(struct wal *wal); /* drops a spare that is being zeroed */

/* -- wal.c -- */
enum err wal_sync(struct wal *wal, struct note *note);

/* -- wal_recover.c -- */
enum err wal_recover(struct wal *wal, bool create, wal_found_fn *each, void *context,
                     struct wal_report *ret_report, struct note *note);
#endif
