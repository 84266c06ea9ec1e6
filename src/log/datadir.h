/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's data directory: its owner, whether this program can read it, and the offline
 * tools. docs/formats/data-directory.md has the layout.
 *
 *     FORMAT          muster-data 1
 *                     replica 8c1f0e5b7a3d2240
 *                     cluster 19d2c07be4aa6f31
 *                     check 5a0c93d1
 *     FORMAT.new      while a directory is being made, or an offline tool is at work
 *     RESTORE         while a restore takes the place of what was there; restoring/ before that
 *     BOOTSTRAP       the identities a replica is about to bootstrap a cluster with
 *     PROMISE         those of the bootstrap that this replica promised to stay out of
 *     CONFLICT        the FORMAT that must not be served: another cluster lists this replica
 *     LOCK  log/FORMAT  log/VOTE  log/<n>.seg  snap/FORMAT  snap/<n>.snap
 *
 * The identity is drawn at random when the directory is made and never changes: a wiped or replaced
 * disk is another replica (rule R1), because one that forgot its votes must not vote. */
#ifndef LOG_DATADIR_H
#define LOG_DATADIR_H
#include "base/buf.h"
#include "base/note.h"
#include "io/clock.h"
#include "io/fs.h"
#include "log/engine.h"

struct datadir {                     /* what FORMAT says */
    uint64_t replica_id, cluster_id; /* cluster 0: made to join, not yet in any */
};
struct datadir_format_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir; /* made if absent; must hold nothing of ours: ERR_EXISTS */
    /* Bootstrap: the founding voters, this one among them, the same list and cluster id on each.
     * Writes term 1 and a configuration at index 1. NULL: made to join a cluster, empty. A founder
     * with id 0 is this one, when its identity is drawn; only when it founds alone. */
    const struct members *founders;
    uint64_t cluster_id; /* 0 with founders: drawn; the same must be given to all of several */
    uint64_t replica_id; /* 0: drawn */
};
/* Crash-safe: a directory that is half made is ERR_NOT_FOUND to everybody and is made anew. */
enum err datadir_format(const struct datadir_format_options *options, struct datadir *ret_datadir,
                        struct note *note);
/* ERR_NOT_FOUND, ERR_CORRUPT, ERR_VERSION (another format), ERR_NOT_READY (an offline tool was
 * interrupted: run it again). */
enum err datadir_read(struct fs *fs, const char *dir, struct datadir *ret_datadir,
                      struct note *note);
/* A joiner learns its cluster from the first replica that speaks to it; written once. ERR_CONFLICT:
 * it is in another. The caller holds the directory's lock. */
enum err datadir_adopt(struct fs *fs, const char *dir, uint64_t cluster_id, uint64_t unique,
                       struct note *note);

/* Small files beside FORMAT, of the same form. Write: durable once it returns ERR_OK, and replaces
 * what was there. Read: ERR_NOT_FOUND, ERR_CORRUPT, ERR_VERSION. Remove: fine when there is none. */
#define DATADIR_BOOTSTRAP "BOOTSTRAP"
#define DATADIR_PROMISE   "PROMISE"
#define DATADIR_CONFLICT  "CONFLICT"
enum err datadir_mark_read(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note);
enum err datadir_mark_write(struct fs *fs, struct entropy *entropy, const char *dir,
                            const char *name, const struct datadir *datadir, struct note *note);
enum err datadir_mark_remove(struct fs *fs, const char *dir, const char *name, struct note *note);
struct datadir datadir_draw(struct entropy *entropy); /* two new identities */

/* Whether a log and the newest snapshot join. */
enum datadir_join {
    DATADIR_JOINS,
    DATADIR_STALE, /* shorter than the snapshot, or of another history up to it: an install was cut
                      short, and the log is discarded as that would have done */
    DATADIR_GAP,   /* entries between them are missing */
};
/* `first` and `last`: of the log's entries; of an empty one, `first` is where it goes on and `last`
 * the index before. `term_at_mark`: of its entry at the snapshot's index, 0: not there. Without a
 * snapshot the mark is zero. */
enum datadir_join datadir_join(const struct snapshot_mark *mark, uint64_t first, uint64_t last,
                               uint64_t term_at_mark);

/* -- offline tools; each takes the directory's lock -- */
/* Verifies FORMAT, vote, every record and every snapshot chunk, and that they join. Appends one
 * line per finding to `report`, and a summary. ERR_OK, or ERR_CORRUPT when something is wrong,
 * ERR_BUSY while a process has it. Changes nothing. */
enum err datadir_check(struct fs *fs, const char *dir, struct buf *report, struct note *note);
/* The day when a majority is gone: makes this replica the only voter, under a new cluster identity
 * so that the others, should they come back, are refused. Its state and log stay. The lost majority
 * may have committed and handed out more than this replica knows: the term, and by a META_RECOVER
 * entry behind everything the log holds every number of the machines, go on above all of that
 * (base/recovery.h). */
struct datadir_force {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;
    const char *address; /* NULL: as it was in the configuration */
    uint64_t wall_ms;    /* now; 0: not known */
};
enum err datadir_force_config(const struct datadir_force *force, struct datadir *ret_datadir,
                              struct note *note);
/* A damaged replica, or one of a cluster that was restored or forced since: puts log and snapshots
 * aside (DIR/damaged-<old id>/) and draws a new identity of no cluster, ready to be added to any. */
enum err datadir_rejoin(struct fs *fs, struct entropy *entropy, const char *dir,
                        struct datadir *ret_old, struct datadir *ret_new, struct note *note);
/* A replica out of a backup: what the directory holds, if anything, is removed once the new state
 * is durable beside it, and the replica is the only voter of a cluster of its own, both under new
 * identities: neither those of the old cluster nor an old vote can be taken for it. Interrupted, it
 * leaves the old directory, or one that answers ERR_NOT_READY to everybody until a restore has run
 * again. */
enum { DATADIR_SECTION_BYTES_MAX = 1 << 20 };
#define DATADIR_SECTIONS_END UINT32_MAX
struct datadir_restore {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;      /* made if absent */
    const char *address;  /* as others reach its Raft port */
    uint64_t index, term; /* of the last entry the state contains; an index of 0 is ERR_INVALID */
    uint64_t clock_ns;
    uint32_t level;
    /* The next bytes of the state, at most DATADIR_SECTION_BYTES_MAX appended: machine by machine
     * in growing order of their ids; DATADIR_SECTIONS_END ends it. */
    enum err (*next)(void *owner, uint32_t *ret_section, struct buf *into, struct note *note);
    void *owner;
};
enum err datadir_restore(const struct datadir_restore *restore, struct datadir *ret_datadir,
                         struct note *note);
#endif
