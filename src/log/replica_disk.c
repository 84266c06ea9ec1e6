/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs for the disk thread and their results.
 *
 * Group commit: one append job runs at a time. Entries that the engine returns meanwhile become
 * the next job. A job owns a copy of the bytes, because entries may be replaced while it runs.
 * Votes are queued first, so a vote is on disk before the entries of the same step.
 *
 * Upkeep (spare segments, release, the seal of an idle log, free space) is one job at a time,
 * after an append job. A failed write or sync stops the replica, because the kernel may report
 * lost data as written at the next attempt. */
#include "log/replica_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEAL_AFTER_MS = 250, /* ms without an append, then seal the log */
    PAUSE_MS = 10,       /* ms without an append, then zero a slice of a spare segment */
    SPARE_EVERY = 256 << 10,
    LOOK_EVERY_MS = 1000, /* ms between checks of the free space */
    LOOK_SHARE = 8,       /* also check after writing 1/8 of the reserve */
    REPLICA_DISK_RESERVE_BYTES = 256 << 20,
    RESERVE_SHARE = 20, /* the default reserve is at most 1/20 of the space at start */
};

static void disk_failed(struct replica *replica, enum err err, struct note *note, const char *what)
{
    note_prefix(note, "%s", what);
    replica_fail(replica, err, note);
}

/* -- appending -- */

static enum err run_append(struct replica_job *job)
{
    struct replica *replica = job->replica;
    struct replica_disk *disk = &replica->disk;
    uint64_t began = clock_mono_ns(replica->io->clock).ns;
    enum err err;

    /* The vote was queued first. Without its term on disk, entries would be invalid at the next
     * start. */
    if (disk->vote.err) {
        job->note = disk->vote.note;
        return disk->vote.err;
    }
    err = wal_append(replica->wal, disk->entries, disk->count, disk->places, &job->note);
    disk->append_ns = clock_mono_ns(replica->io->clock).ns - began;
    disk->job_stats = wal_stats(replica->wal);
    disk->job_wants_spare = wal_wants_spare(replica->wal);
    return err;
}

static void append_done(struct replica_job *job)
{
    struct replica *replica = job->replica;
    struct replica_disk *disk = &replica->disk;
    uint64_t last = disk->first + disk->count - 1;

    if (job->err) {
        disk_failed(replica, job->err, &job->note, "append to the log");
        return;
    }
    disk->stats = disk->job_stats;
    disk->wants_spare = disk->job_wants_spare;
    last = min_u64(last, disk->valid_to);
    for (uint64_t index = disk->first; index <= last; index++)
        entries_placed(replica->entries, index, &disk->places[index - disk->first]);
    /* Entries that were replaced during the job are not durable. */
    if (last >= disk->first) disk->durable = max_u64(disk->durable, last);
    replica_observe_sync(replica, disk->append_ns, disk->count);
    buf_clear(&disk->bytes);
    replica_resume(replica); /* a sender may wait for room in the queue */
    replica_wake(replica);
}

static enum err replica_disk_gather(struct replica *replica)
{
    struct replica_disk *disk = &replica->disk;
    uint64_t last = entries_last(replica->entries);
    size_t at = 0;

    buf_clear(&disk->bytes);
    for (disk->count = 0; disk->count < REPLICA_DISK_ENTRIES; disk->count++) {
        struct entry *entry = &disk->entries[disk->count];
        struct wal_place place;
        enum err err;

        if (disk->next + disk->count > last || disk->bytes.len >= REPLICA_DISK_BYTES) break;
        if (!entries_get(replica->entries, disk->next + disk->count, entry, &place)) break;
        assert(entry->bytes.at); /* bytes leave memory only when durable */
        err = buf_append(&disk->bytes, entry->bytes);
        if (err) return err;
    }
    for (size_t i = 0; i < disk->count; i++) { /* the buffer no longer moves: set the pointers */
        disk->entries[i].bytes.at = disk->bytes.data ? disk->bytes.data + at : "";
        at += disk->entries[i].bytes.len;
    }
    return ERR_OK;
}

static void start_append(struct replica *replica)
{
    struct replica_disk *disk = &replica->disk;
    enum err err = replica_disk_gather(replica);

    if (!err && disk->count > 0) {
        disk->first = disk->next;
        disk->valid_to = disk->first + disk->count - 1;
        err = replica_job_start(&disk->append, replica->disk_worker);
    }
    if (err) disk_failed(replica, err, &(struct note){""}, "hand entries to the disk");
    if (err || disk->count == 0) return;
    disk->sealed = false;
    disk->appended_at = replica_now(replica);
    disk->next += disk->count;
}

void replica_disk_replaced(struct replica *replica, uint64_t from)
{
    struct replica_disk *disk = &replica->disk;

    assert(from > 0);
    disk->next = min_u64(disk->next, from);
    /* Replaced entries are not durable, not reported, and not valid in the running append job. */
    disk->durable = min_u64(disk->durable, from - 1);
    disk->reported = min_u64(disk->reported, from - 1);
    disk->valid_to = min_u64(disk->valid_to, from - 1);
}

void replica_disk_reset(struct replica *replica, uint64_t index)
{
    struct replica_disk *disk = &replica->disk;

    entries_reset(replica->entries, index);
    disk->next = index + 1;
    disk->durable = disk->reported = index;
    disk->valid_to = 0;
}

/* -- term and vote -- */

static enum err run_vote(struct replica_job *job)
{
    return vote_write(job->replica->vote_file, job->replica->disk.vote_value, &job->note);
}

static void vote_done(struct replica_job *job)
{
    if (job->err)
        disk_failed(job->replica, job->err, &job->note, "write term and vote");
    else
        replica_gate_opened(job->replica);
}

void replica_disk_vote(struct replica *replica, struct vote vote)
{
    struct replica_disk *disk = &replica->disk;
    enum err err;

    assert(!replica->gate.vote_pending);
    replica->gate.vote_pending = true;
    disk->vote_value = vote;
    err = replica_job_start(&disk->vote, replica->disk_worker);
    if (err) disk_failed(replica, err, &(struct note){""}, "hand a vote to the disk");
}

/* -- upkeep -- */

static enum err run_upkeep(struct replica_job *job)
{
    struct replica *replica = job->replica;
    struct replica_disk *disk = &replica->disk;
    enum err err = ERR_OK;

    disk->upkeep_free_known = false;
    wal_save_space(replica->wal, disk->upkeep_full); /* on a full disk no spare is zeroed */
    switch (disk->upkeep_kind) {
    case UPKEEP_RELEASE: err = wal_release(replica->wal, disk->upkeep_release, &job->note); break;
    case UPKEEP_SPARE: err = wal_prepare(replica->wal, &job->note); break;
    case UPKEEP_SEAL: err = wal_seal(replica->wal, &job->note); break;
    case UPKEEP_LOOK:
        disk->upkeep_free_known =
            fs_free_bytes(replica->io->fs, replica->dir, &disk->upkeep_free) == ERR_OK;
        err = wal_publish(replica->wal, &job->note);
        break;
    }
    disk->upkeep_stats = wal_stats(replica->wal);
    disk->upkeep_wants_spare = wal_wants_spare(replica->wal);
    return err;
}

static void judge_space(struct replica *replica, uint64_t free_bytes)
{
    struct replica_disk *disk = &replica->disk;
    bool full = free_bytes < disk->reserve_bytes;

    disk->free_bytes = free_bytes;
    if (full == disk->full) return;
    disk->full = full;
    if (full)
        LOG_WARN(&replica->log, "disk space is below its reserve: writes are rejected",
                 log_u64("free_bytes", free_bytes), log_u64("reserve_bytes", disk->reserve_bytes));
    else
        LOG_INFO(&replica->log, "disk space is above its reserve again",
                 log_u64("free_bytes", free_bytes));
    replica_changed(replica);
}

static void upkeep_done(struct replica_job *job)
{
    struct replica *replica = job->replica;
    struct replica_disk *disk = &replica->disk;

    if (job->err == ERR_NO_SPACE && disk->upkeep_kind == UPKEEP_SPARE) {
        LOG_WARN(&replica->log, "no space for a spare segment", log_text("why", job->note.text));
    } else if (job->err) {
        disk_failed(replica, job->err, &job->note, "upkeep of the log");
        return;
    }
    if (disk->upkeep_kind == UPKEEP_SEAL) disk->sealed = !disk->append.busy;
    if (disk->upkeep_kind == UPKEEP_RELEASE) disk->released = disk->upkeep_release;
    if (disk->upkeep_free_known) judge_space(replica, disk->upkeep_free);
    disk->stats = disk->upkeep_stats;
    disk->wants_spare = disk->upkeep_wants_spare;
    replica_wake(replica);
}

/* When to zero the next slice of a spare segment. A slice delays the next append, so slices wait
 * for a pause. Under steady load a slice runs per SPARE_EVERY bytes. */
static mono_time spare_due(const struct replica *replica)
{
    const struct replica_disk *disk = &replica->disk;

    if (disk->stats.bytes - disk->sliced_at >= SPARE_EVERY) return replica_now(replica);
    return mono_after(disk->appended_at, PAUSE_MS);
}

/* True once a second, and earlier after many writes. A full disk stops the replica, but a used-up
 * reserve only refuses proposals. */
static bool look_due(const struct replica *replica, mono_time now)
{
    const struct replica_disk *disk = &replica->disk;

    return mono_due(mono_after(disk->looked_at, LOOK_EVERY_MS), now) ||
           disk->stats.bytes - disk->looked_bytes >= max_u64(1, disk->reserve_bytes / LOOK_SHARE);
}

/* The most urgent upkeep. False: none is due. */
static bool choose_upkeep(struct replica *replica, enum replica_upkeep *ret_kind)
{
    struct replica_disk *disk = &replica->disk;
    mono_time now = replica_now(replica);

    if (disk->release_wanted > disk->released)
        *ret_kind = UPKEEP_RELEASE;
    else if (look_due(replica, now))
        *ret_kind = UPKEEP_LOOK;
    else if (disk->wants_spare && mono_due(spare_due(replica), now))
        *ret_kind = UPKEEP_SPARE;
    else if (!disk->sealed && !disk->append.busy &&
             mono_due(mono_after(disk->appended_at, SEAL_AFTER_MS), now))
        *ret_kind = UPKEEP_SEAL;
    else
        return false;
    return true;
}

static void start_upkeep(struct replica *replica)
{
    struct replica_disk *disk = &replica->disk;

    if (disk->upkeep.busy || !choose_upkeep(replica, &disk->upkeep_kind)) return;
    if (disk->upkeep_kind == UPKEEP_LOOK) {
        disk->looked_at = replica_now(replica);
        disk->looked_bytes = disk->stats.bytes;
    }
    if (disk->upkeep_kind == UPKEEP_SPARE) disk->sliced_at = disk->stats.bytes;
    disk->upkeep_release = disk->release_wanted;
    disk->upkeep_full = disk->full;
    /* On failure the next pump retries. */
    (void)replica_job_start(&disk->upkeep, replica->disk_worker);
}

static void replica_disk_on_timer(struct timer *timer)
{
    struct replica_disk *disk = CONTAINER_OF(timer, struct replica_disk, timer);

    replica_wake(CONTAINER_OF(disk, struct replica, disk));
}

void replica_disk_pump(struct replica *replica)
{
    struct replica_disk *disk = &replica->disk;
    mono_time due;

    if (replica->stopped) return;
    if (!disk->append.busy && disk->next <= entries_last(replica->entries)) start_append(replica);
    start_upkeep(replica);
    due = mono_after(disk->looked_at, LOOK_EVERY_MS);
    if (!disk->sealed && !disk->append.busy)
        due = mono_min(due, mono_after(disk->appended_at, SEAL_AFTER_MS));
    if (disk->wants_spare) due = mono_min(due, spare_due(replica));
    /* Appends postpone most upkeep, so only an earlier time moves the timer. */
    if (disk->upkeep.busy || (timer_running(&disk->timer) && disk->timer_due.ms <= due.ms)) return;
    disk->timer_due = due;
    timer_start(&disk->timer, due);
}

void replica_disk_release(struct replica *replica)
{
    struct wal_place place = {0};
    struct entry entry;

    if (!entries_get(replica->entries, entries_first(replica->entries), &entry, &place)) return;
    if (entry.index > replica->disk.durable) return; /* the entry has no place on disk yet */
    if (place.sequence <= replica->disk.release_wanted) return;
    replica->disk.release_wanted = place.sequence;
    replica_wake(replica);
}

/* -- life cycle -- */

enum err replica_disk_open(struct replica *replica)
{
    struct replica_disk *disk = &replica->disk;
    enum err err = timer_init(&disk->timer, replica->io->loop, replica_disk_on_timer);

    if (err) return err;
    replica_job_init(&disk->append, replica, run_append, append_done);
    replica_job_init(&disk->vote, replica, run_vote, vote_done);
    replica_job_init(&disk->upkeep, replica, run_upkeep, upkeep_done);
    buf_init(&disk->bytes, REPLICA_DISK_BYTES + ENTRY_BYTES_MAX);
    disk->entries = calloc(REPLICA_DISK_ENTRIES, sizeof *disk->entries);
    disk->places = calloc(REPLICA_DISK_ENTRIES, sizeof *disk->places);
    if (!disk->entries || !disk->places) return ERR_NOMEM;
    disk->durable = disk->reported = entries_last(replica->entries);
    disk->next = disk->durable + 1;
    disk->stats = wal_stats(replica->wal);
    disk->appended_at = disk->looked_at = replica_now(replica);
    disk->reserve_bytes = replica->limits.disk_reserve_bytes;
    err = fs_free_bytes(replica->io->fs, replica->dir, &disk->free_bytes);
    if (err) return err;
    if (disk->reserve_bytes == 0)
        disk->reserve_bytes = min_u64(REPLICA_DISK_RESERVE_BYTES,
                                      (disk->free_bytes + disk->stats.disk_bytes) / RESERVE_SHARE);
    judge_space(replica, disk->free_bytes);
    wal_save_space(replica->wal, disk->full); /* before the disk thread uses the log */
    disk->wants_spare = wal_wants_spare(replica->wal);
    return ERR_OK;
}

void replica_disk_close(struct replica *replica)
{
    struct replica_disk *disk = &replica->disk;

    timer_deinit(&disk->timer);
    buf_deinit(&disk->bytes);
    free(disk->entries);
    free(disk->places);
}
