/* SPDX-License-Identifier: Apache-2.0 */
/* Life cycle of a replica: opening, the pump that runs every part in order, status, fail-stop,
 * closing. Only opening waits for the disk on the loop's thread.
 *
 * A log that does not continue the snapshot belongs to an interrupted snapshot install. Opening
 * discards the log, as the install would have done. */
#include "log/replica_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* -- the pump -- */

static void replica_on_wake(struct task *task)
{
    (void)task; /* the task makes the turn's hooks run */
}

void replica_wake(struct replica *replica)
{
    if (replica->woken || replica->closing) return;
    replica->woken = true;
    loop_defer(replica->io->loop, &replica->wake_task);
}

static void replica_on_timer(struct timer *timer)
{
    replica_wake(CONTAINER_OF(timer, struct replica, timer));
}

static void on_again(struct timer *timer)
{
    struct replica *replica = CONTAINER_OF(timer, struct replica, again);

    replica->apply.sliced = false;
    replica_wake(replica);
}

void replica_again(struct replica *replica)
{
    if (!timer_running(&replica->again)) timer_start(&replica->again, replica_now(replica));
}

/* Ignores the engine's time-out while the gate is closed, because no step may run then. */
static void arm(struct replica *replica)
{
    mono_time due = mono_min(replica_propose_due(replica), replica_read_due(replica));

    due = mono_min(due, replica_change_due(replica));
    due = mono_min(due, replica_dial_due(replica));
    if (replica_may_step(replica)) due = mono_min(due, engine_due(replica->engine));
    if (due.ms == MONO_NEVER.ms)
        timer_stop(&replica->timer);
    else
        timer_start(&replica->timer, due);
}

static bool same_for_owner(const struct replica_status *a, const struct replica_status *b)
{
    return a->role == b->role && a->ready == b->ready && a->member == b->member &&
           a->voter == b->voter && a->term == b->term && a->leader_id == b->leader_id;
}

static void report_change(struct replica *replica)
{
    struct replica_status status;
    bool always = replica->change_due;

    status = replica_status(replica);
    if (!always && same_for_owner(&status, &replica->reported)) return;
    replica->change_due = false;
    replica->reported = status;
    if (replica->events.on_change) replica->events.on_change(replica->events.owner, &status);
}

/* Repeats, because a done() may make a new call, which is refused. */
static void end_all(struct replica *replica)
{
    do {
        replica_propose_close(replica);
        replica_read_close(replica, ERR_CLOSED);
        replica_change_close(replica);
    } while (!list_empty(&replica->propose.refused) || !list_empty(&replica->reads.refused) ||
             !list_empty(&replica->change.asked) || !list_empty(&replica->change.transfers_asked));
}

static void pump(struct turn_hook *hook)
{
    struct replica *replica = CONTAINER_OF(hook, struct replica, hook);

    if (!replica->woken || replica->closing) return;
    replica->woken = false;
    if (replica->stopped) {
        end_all(replica);
        return;
    }
    replica_step_pump(replica);
    replica_install_pump(replica);
    replica_change_pump(replica);
    replica_propose_pump(replica);
    replica_send_pump(replica);
    replica_disk_pump(replica); /* before apply, so that disk and apply work in parallel */
    replica_apply_pump(replica);
    replica_read_pump(replica);
    replica_snapshot_pump(replica);
    replica_metrics_pump(replica);
    if (replica->stopped) return;
    report_change(replica);
    arm(replica);
}

void replica_changed(struct replica *replica)
{
    replica->change_due = true;
    replica_wake(replica);
}

/* -- jobs -- */

static void replica_job_run(struct job *base)
{
    struct replica_job *job = CONTAINER_OF(base, struct replica_job, job);

    job->err = job->run(job);
}

static void replica_job_done(struct job *base, enum err err)
{
    struct replica_job *job = CONTAINER_OF(base, struct replica_job, job);

    job->busy = false;
    if (!err && !job->replica->closing && !job->replica->stopped) job->done(job);
}

void replica_job_init(struct replica_job *job, struct replica *replica,
                      enum err (*run)(struct replica_job *job),
                      void (*done)(struct replica_job *job))
{
    *job = (struct replica_job){.replica = replica, .run = run, .done = done};
    job_init(&job->job, replica_job_run, replica_job_done);
}

enum err replica_job_start(struct replica_job *job, struct loop_worker *worker)
{
    enum err err;

    assert(!job->busy);
    job->note.text[0] = '\0';
    job->busy = true; /* before worker_submit, which may run the job before it returns */
    err = worker_submit(worker, &job->job);
    if (err) job->busy = false;
    return err;
}

/* -- fail-stop -- */

static void on_stop(struct task *task)
{
    struct replica *replica = CONTAINER_OF(task, struct replica, stop_task);

    /* Nothing that this replica sends can be trusted. */
    peers_close(replica->peers);
    replica->peers = NULL;
    replica_snapshot_stop(replica);
    replica_install_stop(replica);
    timer_stop(&replica->timer);
    timer_stop(&replica->again);
    timer_stop(&replica->disk.timer);
    end_all(replica);
    if (replica->events.on_stopped)
        replica->events.on_stopped(replica->events.owner, replica->stopped, &replica->stopped_note);
}

void replica_fail(struct replica *replica, enum err why, const struct note *note)
{
    assert(why != ERR_OK);
    if (replica->stopped || replica->closing) return;
    replica->stopped = why;
    replica->stopped_note = *note;
    LOG_ERROR(&replica->log, "this replica stopped: it can no longer trust its log or disk",
              log_err("err", why), log_text("why", note->text), log_u64("term", replica->role_term),
              log_u64("applied", replica->applied));
    loop_defer(replica->io->loop, &replica->stop_task);
}

/* -- status -- */

bool replica_ready(const struct replica *replica)
{
    return !replica->stopped && engine_role(replica->engine) == REPLICA_LEADER &&
           replica->applied_term == engine_term(replica->engine);
}

struct replica_status replica_status(const struct replica *replica)
{
    const struct members *members = &replica->change.newest;
    const struct member *self = members_find(members, replica->id);
    struct replica_status status = {
        .id = replica->id,
        /* Reported before it is durable, because the replica can join no other cluster. */
        .cluster_id = replica->adopt.busy ? replica->adopt_id : replica->cluster_id,
        .role = REPLICA_FOLLOWER,
        .member = self != NULL,
        .voter = self && self->role == MEMBER_VOTER,
        .term = replica->role_term,
        .leader_address = "",
        .first = entries_first(replica->entries),
        .last = entries_last(replica->entries),
        .durable = replica->disk.durable,
        .commit = replica->applied,
        .applied = replica->applied,
        .snapshot = replica->snapshot.index,
        .level = replica->meta.level,
        .log_bytes = replica->disk.stats.disk_bytes,
        .disk_free = replica->disk.free_bytes,
        .disk_full = replica->disk.full,
        .clock_ns = replica->meta.clock_ns,
    };

    if (replica->stopped) return status; /* the failed engine must not be called */
    status.role = engine_role(replica->engine);
    status.ready = replica_ready(replica);
    status.term = engine_term(replica->engine);
    status.leader_id = engine_leader(replica->engine);
    status.commit = engine_commit(replica->engine);
    status.installing = replica_install_busy(replica) || engine_installing(replica->engine);
    if (status.leader_id)
        status.leader_address = status.leader_id == replica->id
                                    ? peers_address(replica->peers)
                                    : replica_dial_address(replica, status.leader_id);
    return status;
}

const char *replica_address(const struct replica *replica)
{
    return replica->peers ? peers_address(replica->peers) : "";
}

/* -- clusters reported by peers -- */

static void on_foreign(void *owner, uint64_t cluster_id, uint64_t to)
{
    struct replica *replica = owner;

    if (!replica->stopped && replica->events.on_foreign)
        replica->events.on_foreign(replica->events.owner, cluster_id, to);
}

static enum err run_adopt(struct replica_job *job)
{
    struct replica *replica = job->replica;

    return datadir_adopt(replica->io->fs, replica->dir, replica->adopt_id, replica->adopt_unique,
                         &job->note);
}

static void adopt_done(struct replica_job *job)
{
    struct replica *replica = job->replica;
    char cluster[17];

    if (job->err) {
        note_prefix(&job->note, "write down the cluster");
        replica_fail(replica, job->err, &job->note);
        return;
    }
    replica->cluster_id = replica->adopt_id;
    snprintf(cluster, sizeof cluster, "%016" PRIx64, replica->cluster_id);
    LOG_INFO(&replica->log, "stored the id of the cluster that this replica joins",
             log_text("cluster", cluster));
    replica_changed(replica);
}

/* The bulk thread writes the id. Until the id is durable, the peer is refused and dials again. */
static bool on_cluster(void *owner, uint64_t cluster_id)
{
    struct replica *replica = owner;

    if (replica->cluster_id) return replica->cluster_id == cluster_id;
    if (replica->stopped || replica->adopt.busy) return false;
    replica->adopt_id = cluster_id;
    replica->adopt_unique = entropy_u64(replica->io->entropy);
    replica_job_init(&replica->adopt, replica, run_adopt, adopt_done);
    (void)replica_job_start(&replica->adopt, replica->bulk_worker);
    return false;
}

/* -- opening -- */

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    return value ? value : otherwise;
}

static enum err take_limits(struct replica *replica, const struct replica_options *options,
                            struct note *note)
{
    const struct replica_timing *timing = &options->timing;
    const struct replica_limits *given = &options->limits;
    uint64_t scale = or_default(timing->scale_percent, 100);

    replica->election_ms = (uint32_t)max_u64(or_default(timing->election_ms, 250) * scale / 100, 2);
    replica->heartbeat_ms =
        (uint32_t)max_u64(or_default(timing->heartbeat_ms, 50) * scale / 100, 1);
    replica->limits = (struct replica_limits){
        .in_flight_bytes = or_default(given->in_flight_bytes, 64 << 20),
        .in_flight_entries = (uint32_t)or_default(given->in_flight_entries, 65536),
        .cache_bytes = or_default(given->cache_bytes, 64 << 20),
        .segment_bytes = or_default(given->segment_bytes, 64 << 20),
        .disk_reserve_bytes = given->disk_reserve_bytes, /* 0: computed from the size of the disk */
        .snapshot_entries_min = (uint32_t)or_default(given->snapshot_entries_min, 1024),
        .snapshot_every_ms = or_default(given->snapshot_every_ms, 30000),
        .snapshot_chunk_bytes = or_default(given->snapshot_chunk_bytes, 256 << 10),
        .trailing_entries = (uint32_t)or_default(given->trailing_entries, 4096),
        .hash_every = (uint32_t)or_default(given->hash_every, 4096),
        .peer_queue_bytes = or_default(given->peer_queue_bytes, 32 << 20),
    };
    if (replica->heartbeat_ms < replica->election_ms) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "a heartbeat every %u ms is too rare for an election time-out of %u ms",
                     replica->heartbeat_ms, replica->election_ms);
}

static enum err take_machines(struct replica *replica, const struct replica_options *options,
                              struct note *note)
{
    uint64_t reserved = 0;

    for (size_t i = 0; i < options->machine_count; i++) {
        const struct state_machine *machine = &options->machines[i];

        if (machine->id < 1 || machine->id > REPLICA_MACHINES_MAX || !machine->ops ||
            machine->version < 1 || !machine->name)
            return note_fail(note, ERR_INVALID, "machine %u is not well described", machine->id);
        if (replica->machines[machine->id].ops)
            return note_fail(note, ERR_INVALID, "two machines have the id %u", machine->id);
        replica->machines[machine->id] = *machine;
        reserved += machine->in_flight_share;
    }
    if (reserved > replica->limits.in_flight_bytes)
        return note_fail(note, ERR_INVALID, "machines reserve more than all bytes in flight");
    replica->propose.shared_bytes = replica->limits.in_flight_bytes - reserved;
    return ERR_OK;
}

static enum err replica_check_options(const struct replica_options *options, struct note *note)
{
    const char *missing = !options->io       ? "io"
                          : !options->dir    ? "directory"
                          : !options->listen ? "address to listen on"
                                             : NULL;

    if (missing)
        note_set(note, "a replica needs its %s", missing);
    else if (!options->tls_server != !options->tls_client)
        note_set(note, "TLS is for both directions or for none");
    else if (options->machine_count > REPLICA_MACHINES_MAX)
        note_set(note, "more than %d machines", REPLICA_MACHINES_MAX);
    else if (options->name && strlen(options->name) > REPLICA_NAME_MAX)
        note_set(note, "a name has at most %d bytes", REPLICA_NAME_MAX);
    else
        return options->address ? members_check_address(str_from(options->address), note) : ERR_OK;
    return ERR_INVALID;
}

static enum err join_log(struct replica *replica, struct note *note)
{
    uint64_t first = entries_first(replica->entries), last = entries_last(replica->entries);
    const struct snapshot_mark *mark = &replica->snapshot;

    switch (datadir_join(mark, first, last, entries_term(replica->entries, mark->index))) {
    case DATADIR_JOINS: return ERR_OK;
    case DATADIR_STALE: break;
    case DATADIR_GAP:
        return note_fail(note, ERR_CORRUPT,
                         "%s/log: begins at entry %" PRIu64 ", but the snapshot ends at %" PRIu64
                         ": " WAL_LOST,
                         replica->dir, first, mark->index);
    }
    LOG_WARN(&replica->log, "discarded the log: it ends before the snapshot begins",
             log_u64("last", last), log_u64("snapshot", mark->index));
    entries_reset(replica->entries, mark->index);
    return wal_reset(replica->wal, mark->index, mark->term, note);
}

static enum err replica_recover(struct replica *replica, struct note *note)
{
    struct wal_options wal = {
        .fs = replica->io->fs,
        .entropy = replica->io->entropy,
        .dir = replica->dir,
        .cluster_id = replica->cluster_id,
        .replica_id = replica->id,
        .segment_bytes = replica->limits.segment_bytes,
    };
    struct wal_report report;
    struct snap_head head;
    enum err err = replica_snapshot_load(replica, &head, note);

    if (err) return err;
    err = entries_open(replica->limits.cache_bytes, 1, &replica->entries);
    if (!err)
        err = wal_open(&wal, false, entries_found, replica->entries, &replica->wal, &report, note);
    if (!err) err = join_log(replica, note);
    if (err) return err;
    err = vote_open(replica->io->fs, replica->dir, false, &replica->vote_file, &replica->start_vote,
                    note);
    if (err) return err;
    LOG_INFO(&replica->log, "log recovered", log_u64("first", entries_first(replica->entries)),
             log_u64("last", entries_last(replica->entries)),
             log_u64("snapshot", replica->snapshot.index), log_u64("segments", report.segments),
             log_u64("bytes", report.bytes), log_u64("torn_bytes", report.torn_bytes),
             log_u64("term", replica->start_vote.term));
    return ERR_OK;
}

/* Reads a configuration that is not in the cache. The engine needs all configurations. */
static enum err read_change(struct replica *replica, struct entry *entry,
                            const struct wal_place *place, struct buf *bytes, size_t *ret_offset,
                            struct note *note)
{
    struct entry read;
    size_t at = bytes->len;
    enum err err = wal_read(replica->io->fs, replica->dir, place, 1, bytes, &read, note);

    if (err) return err;
    /* The buffer can move, so the caller sets entry->bytes.at after the last read. */
    *ret_offset = at;
    entry->bytes.len = bytes->len - at;
    return ERR_OK;
}

static enum err begin_engine(struct replica *replica, struct note *note)
{
    uint64_t first = entries_first(replica->entries), last = entries_last(replica->entries);
    size_t count = (size_t)(last + 1 - first);
    struct entry *all = calloc(count ? count : 1, sizeof *all);
    /* Per entry: offset in `bytes` plus 1; 0: bytes in memory. */
    size_t *offsets = calloc(count ? count : 1, sizeof *offsets);
    struct engine_effects effects;
    struct buf bytes;
    enum err err = all && offsets ? ERR_OK : ERR_NOMEM;

    buf_init(&bytes, SIZE_MAX / 2);
    for (size_t i = 0; !err && i < count; i++) {
        struct wal_place place;
        bool there = entries_get(replica->entries, first + i, &all[i], &place);

        assert(there);
        if (all[i].kind != ENTRY_CHANGE || all[i].bytes.at) continue;
        err = read_change(replica, &all[i], &place, &bytes, &offsets[i], note);
        offsets[i]++;
    }
    for (size_t i = 0; !err && i < count; i++)
        if (offsets[i] > 0) all[i].bytes.at = bytes.data + (offsets[i] - 1);
    if (!err) {
        err = engine_begin(replica->engine, replica_now(replica),
                           &(struct engine_start){
                               .term = replica->start_vote.term,
                               .vote = replica->start_vote.candidate,
                               .snapshot = replica->snapshot.index ? &replica->snapshot : NULL,
                               .start_index = first,
                               .entries = all,
                               .entry_count = count,
                           },
                           &effects);
        if (err)
            note_set(note, "start the engine: %s", err_text(err));
        else
            replica_effects(replica, ERR_OK, &effects);
    }
    buf_deinit(&bytes);
    free(offsets);
    free(all);
    return err;
}

static enum err open_workers(struct replica *replica)
{
    struct loop *loop = replica->io->loop;
    enum err err = worker_open(
        loop, &(struct worker_options){.name = "log-disk", .jobs_max = REPLICA_DISK_JOBS},
        &replica->disk_worker);

    if (err) return err;
    return worker_open(loop,
                       &(struct worker_options){.name = "log-bulk", .jobs_max = REPLICA_BULK_JOBS},
                       &replica->bulk_worker);
}

static enum err open_peers(struct replica *replica, const struct replica_options *options,
                           struct note *note)
{
    return peers_open(
        &(struct peers_options){
            .io = replica->io,
            .log = &replica->log,
            .metrics = options->metrics,
            .listen = options->listen,
            .address = options->address,
            .name = options->name ? options->name : "",
            .tls_server = options->tls_server,
            .tls_client = options->tls_client,
            .id = replica->id,
            .cluster_id = replica->cluster_id,
            .level = replica->speaks,
            .queue_bytes = replica->limits.peer_queue_bytes,
            .idle_ms = max_u64(1000, 4 * (uint64_t)replica->election_ms),
            .events = {replica_on_frame, replica_install_on_snap, replica_install_on_lost,
                       on_cluster, replica_dial_hello, on_foreign, replica_install_on_sent,
                       replica},
        },
        &replica->peers, note);
}

static enum err open_engine(struct replica *replica)
{
    return engine_open(
        &(struct engine_options){
            .id = replica->id,
            .address = peers_address(replica->peers),
            .election_ms = replica->election_ms,
            .heartbeat_ms = replica->heartbeat_ms,
            .in_flight_entries = replica->limits.in_flight_entries,
            .seed = (uint32_t)entropy_u64(replica->io->entropy),
        },
        &replica->engine);
}

static enum err open_parts(struct replica *replica, const struct replica_options *options,
                           struct note *note)
{
    struct datadir datadir;
    enum err err = timer_init(&replica->timer, replica->io->loop, replica_on_timer);

    if (!err) err = timer_init(&replica->again, replica->io->loop, on_again);
    if (!err) err = replica_metrics_open(options->metrics, &replica->metrics, note);
    if (!err) err = fs_lock_dir(replica->io->fs, replica->dir, &replica->lock, note);
    if (!err) err = datadir_read(replica->io->fs, replica->dir, &datadir, note);
    if (err) return err;
    replica->id = datadir.replica_id;
    replica->cluster_id = datadir.cluster_id;
    err = replica_recover(replica, note);
    if (!err) err = open_workers(replica);
    if (!err) err = replica_disk_open(replica);
    if (!err) err = replica_apply_open(replica);
    if (!err) err = replica_snapshot_open(replica);
    if (!err) err = replica_install_open(replica);
    if (err) return err;
    /* This hook runs before the peers' hook, so that messages are sent in the same turn. */
    turn_hook_add(replica->io->loop, &replica->hook, pump);
    err = open_peers(replica, options, note);
    if (!err) err = open_engine(replica);
    if (!err) err = begin_engine(replica, note);
    return err;
}

enum err replica_open(const struct replica_options *options, struct replica **ret_replica,
                      struct note *note)
{
    struct note fallback = {""};
    struct replica *replica;
    enum err err;

    if (!note) note = &fallback;
    err = replica_check_options(options, note);
    if (err) return err;
    replica = calloc(1, sizeof *replica);
    if (!replica) return ERR_NOMEM;
    replica->io = options->io;
    if (options->log) replica->log = *options->log;
    replica->events = options->events;
    replica->speaks = options->level ? options->level : 1;
    task_init(&replica->wake_task, replica_on_wake);
    task_init(&replica->stop_task, on_stop);
    meta_init(&replica->meta);
    replica_propose_open(replica);
    replica_read_open(replica);
    replica_change_open(replica);
    replica_dial_open(replica);
    err = take_limits(replica, options, note);
    if (!err) err = take_machines(replica, options, note);
    if (!err && !(replica->dir = str_dup(str_from(options->dir)))) err = ERR_NOMEM;
    if (!err) err = open_parts(replica, options, note);
    if (err) {
        replica_close(replica);
        return err;
    }
    replica_changed(replica);
    *ret_replica = replica;
    return ERR_OK;
}

void replica_close(struct replica *replica)
{
    if (!replica) return;
    replica->closing = true;
    turn_hook_remove(&replica->hook);
    task_cancel(&replica->wake_task);
    task_cancel(&replica->stop_task);
    timer_deinit(&replica->timer);
    timer_deinit(&replica->again);
    peers_close(replica->peers);
    replica->peers = NULL;
    replica_snapshot_stop(replica);
    replica_install_stop(replica);
    if (replica->disk_worker) worker_close(replica->disk_worker);
    if (replica->bulk_worker) worker_close(replica->bulk_worker);
    end_all(replica);
    replica_install_close(replica);
    replica_snapshot_close(replica);
    replica_apply_close(replica);
    replica_send_close(replica);
    replica_step_close(replica);
    replica_disk_close(replica);
    engine_close(replica->engine);
    entries_close(replica->entries);
    wal_close(replica->wal);
    vote_close(replica->vote_file);
    fs_unlock(replica->io->fs, replica->lock);
    replica_metrics_close(replica->metrics);
    free(replica->dir);
    free(replica);
}
