/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a data directory that its files share: datadir*.c only.
 *
 *     datadir.c         FORMAT: read, adopt
 *     datadir_format.c  made
 *     datadir_check.c   verified
 *     datadir_force.c   the day when a majority is gone
 *     datadir_rejoin.c  a damaged replica
 *     datadir_restore.c a replica out of a backup
 *     datadir_scan.c    what log and snapshot hold together
 *
 * FORMAT.new is the intent of a change in several steps: it holds the FORMAT that is to be, is made
 * durable before the first step, and becomes FORMAT by the last. Without a FORMAT beside it the
 * directory is half made; with one, an offline tool was interrupted. */
#ifndef LOG_DATADIR_INTERNAL_H
#define LOG_DATADIR_INTERNAL_H
#include "log/datadir.h"
#include "log/snapfile.h"
#include "log/wal.h"

enum { DATADIR_TEXT_CAP = 128 };
#define DATADIR_FORMAT  "FORMAT"
#define DATADIR_NEXT    "FORMAT.new"
#define DATADIR_RESTORE "RESTORE"

size_t datadir_text(const struct datadir *datadir, char text[DATADIR_TEXT_CAP]); /* its length */
enum err datadir_parse(struct str text, struct datadir *ret_datadir); /* CORRUPT, VERSION */

/* Reads one of the two files. ERR_NOT_FOUND, ERR_CORRUPT, ERR_VERSION. */
enum err datadir_read_file(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note);
enum err datadir_write_file(struct fs *fs, const char *dir, const char *name,
                            const struct datadir *datadir, uint64_t unique, struct note *note);
/* ERR_NOT_READY: a restore was interrupted, and nothing else may be done here. */
enum err datadir_not_restoring(struct fs *fs, const char *dir, struct note *note);
/* The last step: FORMAT.new becomes FORMAT, durably. */
enum err datadir_commit(struct fs *fs, const char *dir, struct note *note);
/* log/ and snap/ with their FORMAT lines; fine when there. */
enum err datadir_make_rooms(struct fs *fs, const char *dir, uint64_t unique, struct note *note);
/* These note what failed, and where. */
enum err datadir_sync(struct fs *fs, const char *dir, struct note *note);
enum err datadir_sweep(struct fs *fs, const char *dir, struct note *note); /* temporaries */
enum err datadir_make(struct fs *fs, const char *dir, struct note *note);
/* A file, or an empty directory; fine when there is none. Not durable before datadir_sync. */
enum err datadir_remove(struct fs *fs, const char *dir, const char *name, struct note *note);
enum err datadir_has(struct fs *fs, const char *dir, const char *name, bool *ret_there,
                     struct note *note);
uint64_t datadir_draw_id(struct entropy *entropy); /* never 0 */
static inline struct wal_options datadir_wal(struct fs *fs, struct entropy *entropy,
                                             const char *dir, const struct datadir *datadir)
{
    return (struct wal_options){.fs = fs,
                                .entropy = entropy,
                                .dir = dir,
                                .cluster_id = datadir->cluster_id,
                                .replica_id = datadir->replica_id};
}
/* Removes every file in a room; fine when there is none. */
enum err datadir_empty_room(struct fs *fs, const char *dir, const char *name, struct note *note);
/* An empty log, and a vote of term `term` for nobody. With a configuration: that at index 1. */
struct datadir_first {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;
    struct datadir datadir;
    uint64_t term;
    struct str configuration;
};
enum err datadir_write_first(const struct datadir_first *first, struct note *note);
/* For a tool: what FORMAT.new says if the same tool was interrupted, else writes `next` there;
 * durable either way. ERR_NOT_READY: another tool was interrupted (a rejoin changes the replica's
 * identity, the other does not). The first only looks. */
enum err datadir_may_begin(struct fs *fs, const char *dir, const struct datadir *now, bool rejoin,
                           struct note *note);
enum err datadir_begin(struct fs *fs, const char *dir, const struct datadir *now,
                       const struct datadir *next, uint64_t unique, struct datadir *ret_next,
                       struct note *note);

/* -- what log and snapshot hold together -- */
struct datadir_scan {
    struct snap_head snapshot; /* mark.index 0: none */
    uint64_t first, last;      /* entries of the log, 0: none */
    uint64_t last_term;
    uint64_t term_at_snapshot; /* of the log's entry at the snapshot's index; 0: none there */
    uint64_t term_back;        /* index of an entry whose term is less than the one before; 0 */
    uint64_t self;             /* whose address is looked for */
    struct buf addresses;      /* struct datadir_address, by index */
};
struct datadir_address {
    uint64_t index;
    char address[REPLICA_ADDRESS_MAX + 1]; /* "": not in this configuration */
};
void datadir_scan_init(struct datadir_scan *scan, uint64_t self);
void datadir_scan_deinit(struct datadir_scan *scan);
/* The newest snapshot's head; call it before the log is read. */
enum err datadir_scan_snapshot(struct datadir_scan *scan, struct fs *fs, const char *dir,
                               struct note *note);
enum err datadir_scan_found(void *scan, const struct wal_found *found); /* a wal_found_fn */
enum datadir_join datadir_scan_join(const struct datadir_scan *scan);
const char *datadir_scan_address(const struct datadir_scan *scan); /* of self; NULL: unknown */
#endif
