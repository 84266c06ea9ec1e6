/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the datadir*.c files share.
 *
 *     datadir.c         read FORMAT, adopt a cluster
 *     datadir_format.c  make a directory
 *     datadir_check.c   verify a directory
 *     datadir_force.c   force-config after the loss of a majority
 *     datadir_rejoin.c  new identity for a damaged replica
 *     datadir_restore.c make a replica from a backup
 *     datadir_scan.c    compare log and snapshot
 *
 * FORMAT.new is the next FORMAT and the intent record of a change: durable before the first
 * step, renamed to FORMAT by the last. FORMAT.new alone means an unfinished directory. Both files
 * mean an interrupted offline tool. */
#ifndef LOG_DATADIR_INTERNAL_H
#define LOG_DATADIR_INTERNAL_H
#include "log/datadir.h"
#include "log/snapfile.h"
#include "log/wal.h"

enum { DATADIR_TEXT_CAP = 128 };
#define DATADIR_FORMAT  "FORMAT"
#define DATADIR_NEXT    "FORMAT.new"
#define DATADIR_RESTORE "RESTORE"

size_t datadir_text(const struct datadir *datadir, char text[DATADIR_TEXT_CAP]);
enum err datadir_parse(struct str text, struct datadir *ret_datadir); /* ERR_CORRUPT, ERR_VERSION */

/* Errors: ERR_NOT_FOUND, ERR_CORRUPT, ERR_VERSION. */
enum err datadir_read_file(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note);
/* Returns ERR_NOT_READY after an interrupted restore: another restore must complete first. */
enum err datadir_not_restoring(struct fs *fs, const char *dir, struct note *note);
/* The last step of a change: renames FORMAT.new to FORMAT, durably. */
enum err datadir_commit(struct fs *fs, const char *dir, struct note *note);
/* Creates log/ and snap/ with their FORMAT files. Keeps existing directories. */
enum err datadir_make_subdirs(struct fs *fs, const char *dir, uint64_t unique, struct note *note);
/* Removes a file or an empty directory, if it exists. Durable only after fs_sync_dir. */
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
enum err datadir_empty_subdir(struct fs *fs, const char *dir, const char *name, struct note *note);
/* The content of a new log: a vote in term `term` for no candidate, and no entries. A
 * configuration, if given, becomes the entry at index 1. With `index`, the log continues after a
 * snapshot of that index and term. */
struct datadir_first {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;
    struct datadir datadir;
    uint64_t term, index;
    struct str configuration;
};
enum err datadir_write_first(const struct datadir_first *first, struct note *note);
/* Begins an offline tool's change: makes FORMAT.new durable, or continues with the FORMAT.new of
 * the same tool. ERR_NOT_READY: another tool was interrupted. datadir_may_begin only checks. */
enum err datadir_may_begin(struct fs *fs, const char *dir, const struct datadir *now, bool rejoin,
                           struct note *note);
enum err datadir_begin(struct fs *fs, const char *dir, const struct datadir *now,
                       const struct datadir *next, uint64_t unique, struct datadir *ret_next,
                       struct note *note);

/* -- comparison of log and snapshot -- */
struct datadir_scan {
    struct snap_head snapshot; /* mark.index is 0 without a snapshot */
    uint64_t first, last;      /* of the log; 0 if the log is empty */
    uint64_t last_term;
    uint64_t term_at_snapshot; /* term of the log entry at the snapshot's index, or 0 */
    uint64_t term_back;        /* index of an entry with a lower term than its predecessor, or 0 */
    uint64_t self;             /* the replica whose addresses are collected */
    struct buf addresses;      /* array of struct datadir_address, sorted by index */
};
struct datadir_address {
    uint64_t index;
    char address[REPLICA_ADDRESS_MAX + 1]; /* empty if the configuration lacks `self` */
};
void datadir_scan_init(struct datadir_scan *scan, uint64_t self);
void datadir_scan_deinit(struct datadir_scan *scan);
/* Reads the newest snapshot's head. Call before the log is read. */
enum err datadir_scan_snapshot(struct datadir_scan *scan, struct fs *fs, const char *dir,
                               struct note *note);
enum err datadir_scan_found(void *scan, const struct wal_found *found);
enum datadir_join datadir_scan_join(const struct datadir_scan *scan);
const char *datadir_scan_address(const struct datadir_scan *scan); /* NULL: unknown */
#endif
