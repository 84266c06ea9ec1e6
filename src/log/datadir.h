/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's data directory: its identity, its format version, and the offline tools.
 * docs/formats/data-directory.md has the layout.
 *
 * The identity is drawn at random when the directory is made and never changes. A replica with a
 * wiped or replaced disk is a new replica (rule R1), because a replica that forgot its votes must
 * not vote. */
#ifndef LOG_DATADIR_H
#define LOG_DATADIR_H
#include "base/buf.h"
#include "base/note.h"
#include "io/clock.h"
#include "io/fs.h"
#include "log/engine.h"

struct datadir {
    uint64_t replica_id, cluster_id; /* cluster_id: 0 before the replica has joined a cluster */
};
struct datadir_format_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir; /* created if absent; ERR_EXISTS if the directory holds a replica */
    /* The founding voters of a bootstrap, including this replica: the log begins with their
     * configuration at index 1, term 1. A single founder may have id 0: this replica. NULL: an
     * empty directory, which joins a cluster later. */
    const struct members *founders;
    uint64_t cluster_id; /* 0 with founders: drawn at random; all founders need the same id */
    uint64_t replica_id; /* 0: drawn at random */
};
/* After an interrupted call datadir_read returns ERR_NOT_FOUND. A new call starts again. */
enum err datadir_format(const struct datadir_format_options *options, struct datadir *ret_datadir,
                        struct note *note);
/* ERR_EXISTS: there is a FORMAT, or log/ or snap/ has files. */
enum err datadir_must_be_free(struct fs *fs, const char *dir, struct note *note);
/* ERR_NOT_FOUND, ERR_CORRUPT, ERR_VERSION (unknown format), or ERR_NOT_READY: an offline tool
 * was interrupted and must be run again. */
enum err datadir_read(struct fs *fs, const char *dir, struct datadir *ret_datadir,
                      struct note *note);
/* Stores the cluster id that a joining replica receives. ERR_CONFLICT: another cluster id is
 * stored. The caller holds the directory's lock. */
enum err datadir_adopt(struct fs *fs, const char *dir, uint64_t cluster_id, uint64_t unique,
                       struct note *note);

/* Small files of FORMAT's syntax. A write is durable after ERR_OK. Reads: ERR_NOT_FOUND,
 * ERR_CORRUPT, ERR_VERSION. Removing a missing file is no error. */
#define DATADIR_BOOTSTRAP "BOOTSTRAP"
#define DATADIR_PROMISE   "PROMISE"
#define DATADIR_CONFLICT  "CONFLICT"
enum err datadir_mark_read(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note);
enum err datadir_mark_write(struct fs *fs, const char *dir, const char *name,
                            const struct datadir *datadir, uint64_t unique, struct note *note);
enum err datadir_mark_remove(struct fs *fs, const char *dir, const char *name, struct note *note);
struct datadir datadir_draw(struct entropy *entropy); /* draws both identities */

/* Does the log continue the newest snapshot? */
enum datadir_join {
    DATADIR_JOINS,
    /* the log is too short or has another history, because a snapshot install was interrupted:
     * the caller must discard the log */
    DATADIR_STALE,
    DATADIR_GAP,
};
/* `first` and `last` are indexes of the log; for an empty log, the next index and the index
 * before. `term_at_mark` is the term of the log entry at the snapshot's index, 0 if absent.
 * Without a snapshot the mark is zero. */
enum datadir_join datadir_join(const struct snapshot_mark *mark, uint64_t first, uint64_t last,
                               uint64_t term_at_mark);

/* -- offline tools; each takes the directory's lock -- */
/* Verifies FORMAT, the vote, every record and every snapshot chunk, and changes nothing. Appends
 * a line per finding to `report`, then a summary. ERR_CORRUPT: findings. ERR_BUSY: a process
 * uses the directory. */
enum err datadir_check(struct fs *fs, const char *dir, struct buf *report, struct note *note);
/* Makes this replica the only voter, after the permanent loss of a majority. State and log stay.
 *
 * The cluster gets a new identity, so that the lost replicas are refused if they return. The
 * lost majority may have used terms, revisions and tokens that this replica does not know.
 * Therefore the new term and the META_RECOVER entry go above all of them (base/recovery.h). */
struct datadir_force {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;
    const char *address; /* NULL: keeps the configuration's address */
    uint64_t wall_ms;    /* current wall-clock time; 0: unknown */
};
enum err datadir_force_config(const struct datadir_force *force, struct datadir *ret_datadir,
                              struct note *note);
/* Repairs a damaged replica, or a replica of a cluster that was restored or forced. Moves log
 * and snapshots to DIR/damaged-<old id>/ and draws a new identity without a cluster. */
enum err datadir_rejoin(struct fs *fs, struct entropy *entropy, const char *dir,
                        struct datadir *ret_old, struct datadir *ret_new, struct note *note);
/* Makes a replica from a backup, as the only voter of a new cluster with new identities. The old
 * content is removed after the new state is durable. After an interruption the directory is
 * unchanged, or datadir_read returns ERR_NOT_READY until a restore completes. */
enum { DATADIR_SECTION_BYTES_MAX = 1 << 20 };
#define DATADIR_SECTIONS_END UINT32_MAX
struct datadir_restore {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir; /* created if absent */
    const char *address;
    uint64_t index, term; /* last entry that the state contains; index 0 is ERR_INVALID */
    uint64_t clock_ns;
    uint32_t level;
    /* Appends at most DATADIR_SECTION_BYTES_MAX bytes of the state to `into`. *ret_section: a
     * machine id that never decreases, or DATADIR_SECTIONS_END after the state. */
    enum err (*next)(void *owner, uint32_t *ret_section, struct buf *into, struct note *note);
    void *owner;
};
enum err datadir_restore(const struct datadir_restore *restore, struct datadir *ret_datadir,
                         struct note *note);
#endif
