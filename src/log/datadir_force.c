/* SPDX-License-Identifier: Apache-2.0 */
/* Makes this replica the only voter: appends a configuration with one member, in a new term and
 * under a new cluster identity. Entries that other replicas committed without this replica are
 * lost.
 *
 * The other replicas may have handed out revisions, tokens and epochs that this replica does not
 * know. The META_RECOVER entry raises the numbers of every state machine above those, before the
 * replica can serve. Both entries are durable before FORMAT.new becomes FORMAT. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/recovery.h"
#include "log/datadir_internal.h"
#include "log/envelope.h"
#include "log/members.h"
#include "log/meta.h"

struct datadir_force_work {
    const struct datadir_force *force;
    struct datadir next;
    struct datadir_scan scan;
    struct buf configuration, recovery;
    struct note *note;
};

static enum err recovery_entry(struct datadir_force_work *work)
{
    struct machine_recovery recovery = {.floor = recovery_floor(work->force->wall_ms)};
    struct log_envelope envelope = {.machine = ENVELOPE_MACHINE_META,
                                    .version = 1,
                                    .level = CLUSTER_LEVEL,
                                    .actor = STR_EMPTY,
                                    .request_id = STR_EMPTY};
    struct buf command;
    enum err err;

    entropy_fill(work->force->entropy, recovery.identity, sizeof recovery.identity);
    buf_init(&command, 64);
    err = meta_recover_command(CLUSTER_LEVEL, &recovery, &command);
    envelope.command = buf_peek(&command);
    if (!err) err = envelope_append(&envelope, &work->recovery);
    buf_deinit(&command);
    if (err) note_set(work->note, "recovery entry: %s", err_text(err));
    return err;
}

static enum err alone(struct datadir_force_work *work, uint64_t self)
{
    const char *address = work->force->address;
    struct members members = {.count = 1};
    if (!address) address = datadir_scan_address(&work->scan);
    if (!address || !address[0] || strlen(address) > REPLICA_ADDRESS_MAX)
        return note_fail(work->note, ERR_INVALID,
                         "%s: no address is known for this replica: give one", work->force->dir);
    if (work->force->address && members_check_address(str_from(address), work->note))
        return ERR_INVALID;
    members.at[0].id = self;
    members.at[0].role = MEMBER_VOTER;
    memcpy(members.at[0].address, address, strlen(address) + 1);
    enum err err = members_encode(&members, &work->configuration);
    if (err) note_set(work->note, "configuration: %s", err_text(err));
    return err;
}

/* Changes nothing, so that an impossible request fails early. */
static enum err datadir_force_check(struct datadir_force_work *work, uint64_t self)
{
    const struct datadir_force *force = work->force;
    struct wal *wal;
    struct wal_options options = {.fs = force->fs, .dir = force->dir, .replica_id = self};
    enum err err = datadir_scan_snapshot(&work->scan, force->fs, force->dir, work->note);
    if (!err)
        err = wal_open(&options, true, datadir_scan_found, &work->scan, &wal, NULL, work->note);
    if (err) return err;
    wal_close(wal);
    if (datadir_scan_join(&work->scan) == DATADIR_GAP)
        return note_fail(work->note, ERR_CORRUPT,
                         "%s: entries between the snapshot and the log are missing", force->dir);
    return alone(work, self);
}

static enum err append_alone(struct datadir_force_work *work, struct wal *wal,
                             struct vote_file *vote_file, struct vote vote)
{
    const struct snapshot_mark *mark = &work->scan.snapshot.mark;
    struct wal_place places[2];
    uint64_t last = work->scan.last, last_term = work->scan.last_term;
    enum err err = ERR_OK;
    if (datadir_scan_join(&work->scan) == DATADIR_STALE) {
        err = wal_reset(wal, mark->index, mark->term, work->note);
        last = mark->index;
        last_term = mark->term;
    }
    /* The new term is above every term in use, because shards and workers ignore lower terms.
     * The vote is durable before the entry. */
    vote.term = recovery_above(max_u64(vote.term, last_term), recovery_floor(work->force->wall_ms));
    vote.candidate = work->next.replica_id;
    if (!err) err = vote_write(vote_file, vote, work->note);
    if (!err) {
        struct entry entries[2] = {{.index = last + 1,
                                    .term = vote.term,
                                    .kind = ENTRY_CHANGE,
                                    .bytes = buf_peek(&work->configuration)},
                                   {.index = last + 2,
                                    .term = vote.term,
                                    .kind = ENTRY_COMMAND,
                                    .bytes = buf_peek(&work->recovery)}};
        err = wal_append(wal, entries, 2, places, work->note);
    }
    if (!err) err = wal_seal(wal, work->note);
    return err;
}

static enum err datadir_force_write_log(struct datadir_force_work *work)
{
    const struct datadir_force *force = work->force;
    struct vote_file *vote_file;
    struct vote vote;
    struct wal *wal;
    struct wal_options options = datadir_wal(force->fs, force->entropy, force->dir, &work->next);
    enum err err = wal_open(&options, false, NULL, NULL, &wal, NULL, work->note);
    if (err) return err;
    err = vote_open(force->fs, force->dir, false, &vote_file, &vote, work->note);
    if (!err) {
        err = append_alone(work, wal, vote_file, vote);
        vote_close(vote_file);
    }
    wal_close(wal);
    return err;
}

static enum err force_locked(struct datadir_force_work *work)
{
    const struct datadir_force *force = work->force;
    struct datadir now;
    enum err err = datadir_read_file(force->fs, force->dir, DATADIR_FORMAT, &now, work->note);
    if (!err) err = datadir_may_begin(force->fs, force->dir, &now, false, work->note);
    if (err) return err;
    work->scan.self = now.replica_id;
    err = datadir_force_check(work, now.replica_id);
    if (!err) err = recovery_entry(work);
    if (err) return err;
    struct datadir next = {.replica_id = now.replica_id,
                           .cluster_id = datadir_draw_id(force->entropy)};
    err = datadir_begin(force->fs, force->dir, &now, &next, entropy_u64(force->entropy),
                        &work->next, work->note);
    if (!err) err = datadir_force_write_log(work);
    return err ? err : datadir_commit(force->fs, force->dir, work->note);
}

enum err datadir_force_config(const struct datadir_force *force, struct datadir *ret_datadir,
                              struct note *note)
{
    struct fs_lock *lock;
    struct datadir_force_work work = {.force = force, .note = note};
    enum err err = fs_lock_dir(force->fs, force->dir, &lock, note);
    if (err) return err;
    datadir_scan_init(&work.scan, 0);
    buf_init(&work.configuration, ENTRY_BYTES_MAX);
    buf_init(&work.recovery, ENTRY_BYTES_MAX);
    err = force_locked(&work);
    buf_deinit(&work.configuration);
    buf_deinit(&work.recovery);
    datadir_scan_deinit(&work.scan);
    fs_unlock(force->fs, lock);
    if (!err) *ret_datadir = work.next;
    return err;
}
