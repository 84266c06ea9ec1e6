/* Makes this replica the only voter: a configuration of one behind everything its log holds, in a
 * term of its own, under a new cluster identity. What others may have committed without it is lost,
 * which is why a person must ask for it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log/datadir_internal.h"
#include "log/members.h"

struct work {
    const struct datadir_force *force;
    struct datadir next;
    struct datadir_scan scan;
    struct buf configuration;
    struct note *note;
};

/* The configuration of one, with the address that was asked for or the one it had. */
static enum err alone(struct work *work, uint64_t self)
{
    const char *address = work->force->address;
    struct members members = {.count = 1};
    if (!address) address = datadir_scan_address(&work->scan);
    if (!address || !address[0] || strlen(address) > REPLICA_ADDRESS_MAX) {
        note_set(work->note, "%s: no address is known for this replica: give one",
                 work->force->dir);
        return ERR_INVALID;
    }
    if (work->force->address && members_check_address(str_from(address), work->note))
        return ERR_INVALID;
    members.at[0].id = self;
    members.at[0].role = MEMBER_VOTER;
    memcpy(members.at[0].address, address, strlen(address) + 1);
    enum err err = members_encode(&members, &work->configuration);
    if (err) note_set(work->note, "configuration: %s", err_text(err));
    return err;
}

/* Reads everything and changes nothing: what cannot be done is said before anything is begun. */
static enum err look(struct work *work, uint64_t self)
{
    const struct datadir_force *force = work->force;
    struct wal *wal;
    struct wal_options options = {.fs = force->fs, .dir = force->dir, .replica_id = self};
    enum err err = datadir_scan_snapshot(&work->scan, force->fs, force->dir, work->note);
    if (!err)
        err = wal_open(&options, true, datadir_scan_found, &work->scan, &wal, NULL, work->note);
    if (err) return err;
    wal_close(wal);
    if (datadir_scan_join(&work->scan) == DATADIR_GAP) {
        note_set(work->note, "%s: entries between the snapshot and the log are missing",
                 force->dir);
        return ERR_CORRUPT;
    }
    return alone(work, self);
}

static enum err append_alone(struct work *work, struct wal *wal, struct vote_file *vote_file,
                             struct vote vote)
{
    const struct snapshot_mark *mark = &work->scan.snapshot.mark;
    struct wal_place place;
    uint64_t last = work->scan.last, last_term = work->scan.last_term;
    enum err err = ERR_OK;
    if (datadir_scan_join(&work->scan) == DATADIR_STALE) {
        err = wal_reset(wal, mark->index, mark->term, work->note);
        last = mark->index;
        last_term = mark->term;
    }
    /* A term nobody else has: the vote in it is our own, and durable before the entry. */
    vote.term = max_u64(vote.term, last_term) + 1;
    vote.candidate = work->next.replica_id;
    if (!err) err = vote_write(vote_file, vote, work->note);
    if (!err) {
        struct entry entry = {.index = last + 1,
                              .term = vote.term,
                              .kind = ENTRY_CHANGE,
                              .bytes = buf_peek(&work->configuration)};
        err = wal_append(wal, &entry, 1, &place, work->note);
    }
    if (!err) err = wal_seal(wal, work->note);
    return err;
}

static enum err write_log(struct work *work)
{
    const struct datadir_force *force = work->force;
    struct vote_file *vote_file;
    struct vote vote;
    struct wal *wal;
    struct wal_options options = {
        .fs = force->fs,
        .entropy = force->entropy,
        .dir = force->dir,
        .cluster_id = work->next.cluster_id,
        .replica_id = work->next.replica_id,
    };
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

static enum err force_locked(struct work *work)
{
    const struct datadir_force *force = work->force;
    struct datadir now;
    enum err err = datadir_read_file(force->fs, force->dir, DATADIR_FORMAT, &now, work->note);
    if (!err) err = datadir_may_begin(force->fs, force->dir, &now, false, work->note);
    if (err) return err;
    work->scan.self = now.replica_id;
    err = look(work, now.replica_id);
    if (err) return err;
    struct datadir next = {.replica_id = now.replica_id,
                           .cluster_id = datadir_draw_id(force->entropy)};
    err = datadir_begin(force->fs, force->dir, &now, &next, entropy_u64(force->entropy),
                        &work->next, work->note);
    if (!err) err = write_log(work);
    return err ? err : datadir_commit(force->fs, force->dir, work->note);
}

enum err datadir_force_config(const struct datadir_force *force, struct datadir *ret_datadir,
                              struct note *note)
{
    struct fs_lock *lock;
    struct work work = {.force = force, .note = note};
    enum err err = fs_lock_dir(force->fs, force->dir, &lock, note);
    if (err) return err;
    datadir_scan_init(&work.scan, 0);
    buf_init(&work.configuration, ENTRY_BYTES_MAX);
    err = force_locked(&work);
    buf_deinit(&work.configuration);
    datadir_scan_deinit(&work.scan);
    fs_unlock(force->fs, lock);
    if (!err) *ret_datadir = work.next;
    return err;
}
