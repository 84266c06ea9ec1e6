/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies all parts of a data directory offline. A bad part does not stop the check. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log/datadir_internal.h"
#include "log/snapfile_internal.h"

struct check {
    struct fs *fs;
    const char *dir;
    struct buf *report;
    struct datadir datadir;
    struct datadir_scan scan;
    bool log_read; /* `scan` has the log's results */
    uint64_t findings;
    enum err err; /* the report or the disk failed: the check is incomplete */
};

__attribute__((format(printf, 2, 3))) static unsigned say(struct check *check, const char *format,
                                                          ...)
{
    va_list args;
    va_start(args, format);
    enum err err = buf_vappendf(check->report, format, args);
    va_end(args);
    if (!err) err = buf_append_byte(check->report, '\n');
    if (err && !check->err) check->err = err;
    return 1;
}

/* Bad content is a finding. Any other error ends the check. */
static bool passed(struct check *check, enum err err, const struct note *note)
{
    if (!err) return true;
    bool finding = err == ERR_CORRUPT || err == ERR_VERSION || err == ERR_NOT_READY;
    say(check, "%s: %s", finding ? "bad" : "cannot check", note->text);
    if (finding)
        check->findings++;
    else if (!check->err)
        check->err = err;
    return false;
}

static void check_vote(struct check *check)
{
    struct note note = {""};
    struct vote_file *file;
    struct vote vote;
    if (!passed(check, vote_open(check->fs, check->dir, true, &file, &vote, &note), &note)) return;
    vote_close(file);
    say(check, "vote: term %" PRIu64 ", for %016" PRIx64, vote.term, vote.candidate);
    if (check->log_read && check->scan.last_term > vote.term)
        check->findings +=
            say(check, "bad: %s/log/VOTE: term %" PRIu64 ", but the log has term %" PRIu64,
                check->dir, vote.term, check->scan.last_term);
}

static void check_log(struct check *check)
{
    struct note note = {""};
    struct wal *wal;
    struct wal_report report;
    struct wal_options options = datadir_wal(check->fs, NULL, check->dir, &check->datadir);
    enum err err = wal_open(&options, true, datadir_scan_found, &check->scan, &wal, &report, &note);
    if (err && !note.text[0])
        note_set(&note, "%s/log: a configuration: %s", check->dir, err_text(err));
    if (!passed(check, err, &note)) return;
    struct wal_stats stats = wal_stats(wal);
    wal_close(wal);
    check->log_read = true;
    say(check,
        "log: entries %" PRIu64 " to %" PRIu64 ", %" PRIu64 " records in %" PRIu64
        " segments, %" PRIu64 " spare",
        check->scan.first, check->scan.last, report.records, report.segments, stats.spares);
    if (report.torn_bytes > 0)
        say(check,
            "log: %" PRIu64 " bytes of a torn tail in %016" PRIx64 ".seg at %" PRIu64
            " were never acknowledged and will be cut",
            report.torn_bytes, report.torn_segment, report.torn_offset);
    if (check->scan.term_back)
        check->findings +=
            say(check, "bad: %s/log: entry %" PRIu64 " has a lower term than the one before",
                check->dir, check->scan.term_back);
}

static void check_snapshot(struct check *check, const char *name)
{
    struct note note = {""};
    char path[FS_PATH_CAP], want[SNAP_NAME_CAP];
    struct snap_head head = {.level = 0};
    uint64_t bytes = 0;
    enum err err = snap_dir_path(check->dir, name, path, &note);
    if (!err) err = snap_verify(check->fs, path, &head, &bytes, &note);
    if (!passed(check, err, &note)) return;
    snap_name(&head.mark, want);
    if (strcmp(name, want) != 0)
        check->findings += say(check, "bad: %s: offset 0: its head belongs to %s", path, want);
    say(check, "snapshot: index %" PRIu64 ", term %" PRIu64 ", %" PRIu64 " bytes", head.mark.index,
        head.mark.term, bytes);
}

static void check_snapshots(struct check *check)
{
    struct note note = {""};
    struct buf names;
    enum err err = snap_list(check->fs, check->dir, &names, &note);
    if (!passed(check, err == ERR_NOT_FOUND ? ERR_CORRUPT : err, &note)) return;
    for (size_t at = 0; at < names.len; at += SNAP_NAME_SIZE)
        check_snapshot(check, names.data + at);
    buf_deinit(&names);
}

static void check_join(struct check *check)
{
    const struct datadir_scan *scan = &check->scan;
    uint64_t index = scan->snapshot.mark.index;
    if (!check->log_read) return;
    enum datadir_join join = datadir_scan_join(scan);
    if (join == DATADIR_STALE)
        say(check, "log: is older than the snapshot at %" PRIu64 " and will be dropped", index);
    else if (join == DATADIR_GAP)
        check->findings +=
            say(check, "bad: %s: the snapshot ends at %" PRIu64 ", the log begins at %" PRIu64,
                check->dir, index, scan->first ? scan->first : scan->last + 1);
}

static enum err check_locked(struct check *check, struct note *note)
{
    struct note own = {""};
    enum err err = datadir_read(check->fs, check->dir, &check->datadir, &own);
    if (err == ERR_NOT_FOUND) {
        if (note) *note = own;
        return err;
    }
    bool known = passed(check, err, &own);
    if (!known) /* the directory is bad, but its FORMAT may be readable */
        known = datadir_read_file(check->fs, check->dir, DATADIR_FORMAT, &check->datadir, &own) ==
                ERR_OK;
    if (known)
        say(check, "replica %016" PRIx64 " of cluster %016" PRIx64, check->datadir.replica_id,
            check->datadir.cluster_id);
    datadir_scan_init(&check->scan, check->datadir.replica_id);
    own.text[0] = '\0';
    /* check_snapshots reports this error. */
    (void)datadir_scan_snapshot(&check->scan, check->fs, check->dir, &own);
    if (known) check_log(check);
    check_vote(check);
    check_snapshots(check);
    check_join(check);
    datadir_scan_deinit(&check->scan);
    if (check->err) {
        note_set(note, "check %s: not complete: %s", check->dir, err_text(check->err));
        return check->err;
    }
    if (check->findings == 0) {
        say(check, "all of it is well");
        return check->err;
    }
    return note_fail(note, ERR_CORRUPT, "check %s: %" PRIu64 " findings", check->dir,
                     check->findings);
}

enum err datadir_check(struct fs *fs, const char *dir, struct buf *report, struct note *note)
{
    struct check check = {.fs = fs, .dir = dir, .report = report};
    struct fs_lock *lock;
    enum err err = fs_lock_dir(fs, dir, &lock, note);
    if (err) return err;
    err = check_locked(&check, note);
    fs_unlock(fs, lock);
    return err;
}
