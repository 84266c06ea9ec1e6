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

struct datadir {                     /* the content of the file FORMAT */
    uint64_t replica_id, cluster_id; /* cluster_id is 0 until the replica has joined a cluster */
};
struct datadir_format_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir; /* created if absent; ERR_EXISTS if the directory already holds a replica */
    /* The founding voters of a bootstrap, including this replica. NULL makes an empty directory
     * that joins a cluster later. All founders use the same list and cluster id. With founders, the
     * log begins with term 1 and a configuration at index 1. A single founder may have id 0, which
     * means this replica, whose identity is drawn here. */
    const struct members *founders;
    uint64_t cluster_id; /* with founders, 0: drawn at random; all founders must use the same id */
    uint64_t replica_id; /* 0: drawn at random */
};
/* A half-made directory reads as ERR_NOT_FOUND, and the next datadir_format makes it anew. */
enum err datadir_format(const struct datadir_format_options *options, struct datadir *ret_datadir,
                        struct note *note);
/* ERR_EXISTS with a note if the directory has a FORMAT, or files in log/ or snap/ without one. */
enum err datadir_must_be_free(struct fs *fs, const char *dir, struct note *note);
/* Reads FORMAT. Returns ERR_NOT_FOUND, ERR_CORRUPT, ERR_VERSION (unknown format) or ERR_NOT_READY
 * (an offline tool was interrupted and must be run again). */
enum err datadir_read(struct fs *fs, const char *dir, struct datadir *ret_datadir,
                      struct note *note);
/* Stores the cluster id that a joiner learns from the first replica that contacts it. ERR_CONFLICT
 * if another cluster id is stored. The caller holds the directory's lock. */
enum err datadir_adopt(struct fs *fs, const char *dir, uint64_t cluster_id, uint64_t unique,
                       struct note *note);

/* Small files beside FORMAT with the same syntax. A write replaces the file, durably if ERR_OK. A
 * read returns ERR_NOT_FOUND, ERR_CORRUPT or ERR_VERSION. A missing file can be removed. */
#define DATADIR_BOOTSTRAP "BOOTSTRAP"
#define DATADIR_PROMISE   "PROMISE"
#define DATADIR_CONFLICT  "CONFLICT"
enum err datadir_mark_read(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note);
enum err datadir_mark_write(struct fs *fs, const char *dir, const char *name,
                            const struct datadir *datadir, uint64_t unique, struct note *note);
enum err datadir_mark_remove(struct fs *fs, const char *dir, const char *name, struct note *note);
struct datadir datadir_draw(struct entropy *entropy); /* draws both identities */

/* Whether the log continues the newest snapshot. */
enum datadir_join {
    DATADIR_JOINS,
    DATADIR_STALE, /* an interrupted snapshot install left a log that is too short or has another
                      history; the caller must discard the log */
    DATADIR_GAP,   /* entries between snapshot and log are missing */
};
/* `first` and `last` are the indexes of the log's entries. For an empty log, `first` is the next
 * index and `last` the index before. `term_at_mark` is the term of the log entry at the snapshot's
 * index, 0 if the log has no such entry. Without a snapshot the mark is zero. */
enum datadir_join datadir_join(const struct snapshot_mark *mark, uint64_t first, uint64_t last,
                               uint64_t term_at_mark);

/* -- offline tools; each tool takes the directory's lock -- */
/* Verifies FORMAT, the vote, every record, every snapshot chunk, and that the log continues the
 * snapshot. Appends one line per finding to `report`, then a summary. Changes nothing. Returns
 * ERR_CORRUPT for any finding, ERR_BUSY while a process uses the directory. */
enum err datadir_check(struct fs *fs, const char *dir, struct buf *report, struct note *note);
/* Makes this replica the only voter, after the permanent loss of a majority. State and log stay.
 * The cluster gets a new identity, so that the lost replicas are refused if they return. The lost
 * majority may have committed entries and handed out revisions and tokens that this replica does
 * not know. Therefore the new term is above every term that may have been used. A META_RECOVER
 * entry raises the numbers of all state machines in the same way (base/recovery.h). */
struct datadir_force {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;
    const char *address; /* NULL keeps the address of the configuration */
    uint64_t wall_ms;    /* current wall-clock time; 0: unknown */
};
enum err datadir_force_config(const struct datadir_force *force, struct datadir *ret_datadir,
                              struct note *note);
/* Repairs a damaged replica, or a replica whose cluster was restored or forced. Moves log and
 * snapshots to DIR/damaged-<old id>/ and draws a new identity without a cluster, so that the
 * replica can be added to any cluster. */
enum err datadir_rejoin(struct fs *fs, struct entropy *entropy, const char *dir,
                        struct datadir *ret_old, struct datadir *ret_new, struct note *note);
/* Makes a replica from a backup, as the only voter of a new cluster. Replica and cluster get new
 * identities, so that old members and old votes do not count. The directory's old content is
 * removed after the new state is durable. An interrupted restore leaves the old directory, or a
 * directory that answers ERR_NOT_READY until a restore completes. */
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
    /* Appends at most DATADIR_SECTION_BYTES_MAX bytes of the state to `into`. *ret_section is a
     * machine id that never decreases; DATADIR_SECTIONS_END ends the state. */
    enum err (*next)(void *owner, uint32_t *ret_section, struct buf *into, struct note *note);
    void *owner;
};
enum err datadir_restore(const struct datadir_restore *restore, struct datadir *ret_datadir,
                         struct note *note);
#endif
