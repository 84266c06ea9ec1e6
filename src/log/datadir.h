/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's data directory: its identity, its format version, and the offline tools.
 * docs/formats/data-directory.md has the layout.
 *
 *     FORMAT          muster-data 1
 *                     replica 8c1f0e5b7a3d2240
 *                     cluster 19d2c07be4aa6f31
 *                     check 5a0c93d1
 *     FORMAT.new      exists while a directory is being made or an offline tool runs
 *     RESTORE         exists while a restore replaces the old content; restoring/ before that
 *     BOOTSTRAP       the identities with which a replica is about to bootstrap a cluster
 *     PROMISE         the identities of a bootstrap that this replica promised not to join
 *     CONFLICT        the FORMAT that must not be served: another cluster lists this replica
 *     LOCK  log/FORMAT  log/VOTE  log/<n>.seg  snap/FORMAT  snap/<n>.snap
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

struct datadir {                     /* the content of FORMAT */
    uint64_t replica_id, cluster_id; /* cluster_id 0: made to join a cluster, has not joined yet */
};
struct datadir_format_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir; /* created if absent; ERR_EXISTS if it holds files of a replica */
    /* Bootstrap: the founding voters, including this replica. List and cluster id are the same on
     * each founder. Writes term 1 and a configuration at index 1. NULL: the directory is empty and
     * made to join a cluster. A founder with id 0 means this replica, whose identity is drawn here;
     * allowed only for a single founder. */
    const struct members *founders;
    uint64_t cluster_id; /* 0 with founders: random; several founders need the same id */
    uint64_t replica_id; /* 0: drawn at random */
};
/* Crash-safe: a half-made directory is ERR_NOT_FOUND, and the next call makes it anew. */
enum err datadir_format(const struct datadir_format_options *options, struct datadir *ret_datadir,
                        struct note *note);
/* ERR_NOT_FOUND, ERR_CORRUPT, ERR_VERSION (unknown format), ERR_NOT_READY (an offline tool was
 * interrupted: run the tool again). */
enum err datadir_read(struct fs *fs, const char *dir, struct datadir *ret_datadir,
                      struct note *note);
/* Stores the cluster id that a joiner learns from the first replica that contacts it. Written once.
 * ERR_CONFLICT: the replica belongs to another cluster. The caller holds the directory's lock. */
enum err datadir_adopt(struct fs *fs, const char *dir, uint64_t cluster_id, uint64_t unique,
                       struct note *note);

/* Small files beside FORMAT with the same syntax. Write replaces the file, durably if ERR_OK. Read
 * returns ERR_NOT_FOUND, ERR_CORRUPT or ERR_VERSION. Remove accepts a missing file. */
#define DATADIR_BOOTSTRAP "BOOTSTRAP"
#define DATADIR_PROMISE   "PROMISE"
#define DATADIR_CONFLICT  "CONFLICT"
enum err datadir_mark_read(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note);
enum err datadir_mark_write(struct fs *fs, struct entropy *entropy, const char *dir,
                            const char *name, const struct datadir *datadir, struct note *note);
enum err datadir_mark_remove(struct fs *fs, const char *dir, const char *name, struct note *note);
struct datadir datadir_draw(struct entropy *entropy); /* draws both identities */

/* Whether the log continues the newest snapshot. */
enum datadir_join {
    DATADIR_JOINS,
    DATADIR_STALE, /* the log is shorter than the snapshot or differs from its history, because an
                      install was cut short; the log is discarded, as the install would have done */
    DATADIR_GAP,   /* entries between snapshot and log are missing */
};
/* `first` and `last` are the indexes of the log's entries. For an empty log, `first` is the next
 * index and `last` the index before. `term_at_mark` is the term of the log entry at the snapshot's
 * index, 0 if the log has no such entry. Without a snapshot the mark is zero. */
enum datadir_join datadir_join(const struct snapshot_mark *mark, uint64_t first, uint64_t last,
                               uint64_t term_at_mark);

/* -- offline tools; each tool takes the directory's lock -- */
/* Verifies FORMAT, the vote, every record, every snapshot chunk, and that log and snapshot join.
 * Appends one line per finding to `report`, then a summary. Changes nothing. ERR_OK; ERR_CORRUPT if
 * anything is wrong; ERR_BUSY while a process uses the directory. */
enum err datadir_check(struct fs *fs, const char *dir, struct buf *report, struct note *note);
/* For the permanent loss of a majority: makes this replica the only voter, under a new cluster
 * identity, so that the lost replicas are refused if they return. State and log stay. The lost
 * majority may have committed entries and handed out numbers that this replica does not know.
 * Therefore the term, and by a META_RECOVER entry at the end of the log every number of the state
 * machines, rise above everything that may have been used (base/recovery.h). */
struct datadir_force {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;
    const char *address; /* NULL: keep the address of the configuration */
    uint64_t wall_ms;    /* current time; 0: unknown */
};
enum err datadir_force_config(const struct datadir_force *force, struct datadir *ret_datadir,
                              struct note *note);
/* For a damaged replica, or a replica of a cluster that was restored or forced since. Moves log and
 * snapshots to DIR/damaged-<old id>/ and draws a new identity without a cluster, so that the
 * replica can be added to any cluster. */
enum err datadir_rejoin(struct fs *fs, struct entropy *entropy, const char *dir,
                        struct datadir *ret_old, struct datadir *ret_new, struct note *note);
/* Makes a replica from a backup. The old content of the directory is removed once the new state is
 * durable beside it. The replica is the only voter of a new cluster; replica and cluster get new
 * identities, so that neither old members nor old votes count for it. An interrupted restore leaves
 * the old directory, or a directory that answers ERR_NOT_READY until a restore has completed. */
enum { DATADIR_SECTION_BYTES_MAX = 1 << 20 };
#define DATADIR_SECTIONS_END UINT32_MAX
struct datadir_restore {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;      /* created if absent */
    const char *address;  /* address of the Raft port, as other replicas reach it */
    uint64_t index, term; /* last entry that the state contains; index 0 is ERR_INVALID */
    uint64_t clock_ns;
    uint32_t level;
    /* Appends the next bytes of the state, at most DATADIR_SECTION_BYTES_MAX. Sections come in
     * ascending order of machine id; DATADIR_SECTIONS_END ends the state. */
    enum err (*next)(void *owner, uint32_t *ret_section, struct buf *into, struct note *note);
    void *owner;
};
enum err datadir_restore(const struct datadir_restore *restore, struct datadir *ret_datadir,
                         struct note *note);
#endif
