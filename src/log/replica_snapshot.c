/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a snapshot while the replica keeps working.
 *
 * All machines open a view in one turn, so that the file has the state after one index. Each
 * turn takes one slice: a machine writes about snapshot_chunk_bytes to a buffer, and the bulk
 * thread writes the buffer to the file. When the file is durable the engine is notified, and the
 * log before the snapshot may be dropped. A crash leaves the old snapshot with its log, or the
 * new snapshot.
 *
 *     idle -> taking -> finishing -> durable -> idle
 *               |           |
 *               +-----------+--> giving up (no space, no memory, an install began) -> idle
 *
 * Without space or memory the next check of the policy tries again. Other disk errors stop the
 * replica. */
#include <stdlib.h>

#include "log/replica_internal.h"
#include "log/sections.h"

enum {
    SLICE_MAX = 64 << 20,
    FORGET_ENTRIES = 4096, /* entries dropped per turn, because there can be millions */
};

enum taking { IDLE, REPLICA_SNAPSHOT_TAKING, FINISHING, DURABLE, GIVING_UP };
enum file_work { FILE_WRITE, FILE_FINISH, FILE_ABANDON };

struct replica_snapshots {
    struct replica *replica;
    struct timer timer;
    bool wanted;
    enum taking state;
    struct snap_head head;
    struct sections sections;
    mono_time began;

    struct replica_job job; /* the bulk thread's job; owns the fields below */
    enum file_work work;
    struct snap_writer *writer; /* NULL: not created yet, or freed */
    uint64_t unique;
    struct buf slice;
    size_t slice_section;
    uint64_t file_bytes;

    uint64_t forget_to; /* log entries up to here can be dropped; 0: none */

    /* Removal of older files. */
    bool tidy_due;
    struct replica_job tidy;
    struct snapshot_mark tidy_keep;
};

/* -- the file, on the bulk thread -- */

static enum err write_slice(struct replica_snapshots *s)
{
    struct replica *replica = s->replica;
    struct str rest = buf_peek(&s->slice);
    enum err err = ERR_OK;

    if (!s->writer)
        err = snap_create(replica->io->fs, replica->dir, &s->head, s->unique, &s->writer,
                          &s->job.note);
    while (!err && rest.len > 0) {
        size_t piece = min_size(rest.len, SNAP_CHUNK_MAX);
        err =
            snap_write(s->writer, (uint32_t)s->slice_section, str_of(rest.at, piece), &s->job.note);
        rest = str_tail(rest, piece);
    }
    return err;
}

static enum err replica_snapshot_run(struct replica_job *job)
{
    struct replica_snapshots *s = CONTAINER_OF(job, struct replica_snapshots, job);
    enum err err = ERR_OK;

    switch (s->work) {
    case FILE_WRITE: err = write_slice(s); break;
    case FILE_FINISH:
        err = write_slice(s); /* without content, creates the file */
        if (err) break;
        err = snap_finish(s->writer, &s->file_bytes, &job->note);
        s->writer = NULL;
        break;
    case FILE_ABANDON:
        snap_abandon(s->writer);
        s->writer = NULL;
        break;
    }
    return err;
}

static void replica_snapshot_done(struct replica_job *job)
{
    replica_wake(job->replica);
}

static void replica_snapshot_submit(struct replica_snapshots *s, enum file_work work)
{
    s->work = work;
    s->job.err = ERR_OK;
    /* The bulk thread's queue is full: try again later. */
    if (replica_job_start(&s->job, s->replica->bulk_worker)) {
        s->job.err = ERR_BUSY;
        replica_again(s->replica);
    }
}

void replica_snapshot_give_up(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;

    s->wanted = false;
    if (s->state == IDLE) return;
    sections_end(&s->sections);
    s->state = GIVING_UP;
    replica_wake(replica);
}

static void failed(struct replica *replica, enum err err, struct note *note)
{
    replica_count(replica, COUNT_SNAPSHOTS_FAILED);
    LOG_WARN(&replica->log, "snapshot failed: the log is not compacted", log_err("err", err),
             log_text("why", note->text), log_u64("index", replica->snapshots->head.mark.index));
    replica_snapshot_give_up(replica);
}

bool replica_snapshot_is_passing(enum err err)
{
    return err == ERR_NO_SPACE || err == ERR_NOMEM || err == ERR_FULL || err == ERR_EXISTS;
}

/* -- beginning -- */

/* True if entries were applied since the last snapshot. Index 1 does not count (guard 21). */
static bool is_worth_it(const struct replica *replica)
{
    return replica->applied > max_u64(replica->snapshot.index, 1);
}

static bool policy_says(const struct replica *replica)
{
    uint64_t since = replica->applied - replica->snapshot.index;

    /* A few entries do not justify rewriting a large state. */
    return since >= replica->limits.snapshot_entries_min &&
           entries_log_bytes_since(replica->entries, replica->snapshot.index) >=
               replica->snapshot_bytes;
}

static void replica_snapshot_on_timer(struct timer *timer)
{
    struct replica_snapshots *s = CONTAINER_OF(timer, struct replica_snapshots, timer);
    struct replica *replica = s->replica;

    timer_start_in(timer, replica->limits.snapshot_every_ms);
    if (s->state != IDLE || !policy_says(replica)) return;
    s->wanted = true;
    replica_wake(replica);
}

enum err replica_snapshot(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;

    if (replica->stopped || replica->closing) return ERR_CLOSED;
    if (s->state != IDLE || s->wanted || engine_installing(replica->engine)) return ERR_BUSY;
    if (!is_worth_it(replica)) return ERR_NOT_READY;
    s->wanted = true;
    replica_wake(replica);
    return ERR_OK;
}

/* The configuration at the applied index. False: the engine's committed configuration is not
 * applied here yet. */
static bool find_members(const struct replica *replica, struct snapshot_mark *mark)
{
    mark->members_index = engine_members_committed(replica->engine, &mark->members);
    return mark->members_index <= mark->index && mark->members.count > 0;
}

/* A machine that the cluster level does not include is empty. Its section is left out, because a
 * replica that does not know the machine would stop. */
static bool has_section(const struct replica *replica, uint32_t id)
{
    const struct state_machine *machine = &replica->machines[id];

    return machine->ops && (machine->version <= replica->meta.level ||
                            machine->ops->hash(machine->state) != replica->empty_hash[id]);
}

static bool compact(struct replica *replica);

static void replica_snapshot_begin(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;
    struct snap_head head = {
        .mark = {.index = replica->applied, .term = replica->applied_term},
        .cluster_id = replica->cluster_id,
        .level = replica->meta.level,
        .clock_ns = replica->meta.clock_ns,
    };
    enum err err = ERR_OK;

    if (!s->wanted || engine_installing(replica->engine) || replica->apply.part) return;
    /* A snapshot may replace durable entries only. */
    if (replica->applied > replica->disk.durable) return;
    if (!find_members(replica, &head.mark)) return;
    s->wanted = false;
    if (!is_worth_it(replica)) return;
    s->head = head;
    s->state = REPLICA_SNAPSHOT_TAKING;
    s->sections =
        (struct sections){.machines = replica->machines, .count = REPLICA_MACHINES_MAX + 1};
    s->job.err = ERR_OK;
    s->unique = entropy_u64(replica->io->entropy);
    s->began = replica_now(replica);
    for (uint32_t id = 1; !err && id <= REPLICA_MACHINES_MAX; id++)
        if (has_section(replica, id)) err = sections_add(&s->sections, id, replica->applied);
    if (err == ERR_FULL) { /* other readers (a backup) use all views */
        sections_end(&s->sections);
        s->state = IDLE;
        LOG_DEBUG(&replica->log, "snapshot postponed: a backup is reading the state");
        return;
    }
    if (err) failed(replica, err, &(struct note){"begin"});
}

/* -- a slice -- */

static void take_slice(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;
    enum err err;

    /* The slice still waits: the bulk thread's queue was full. */
    if (s->job.err == ERR_BUSY) {
        replica_snapshot_submit(s, s->work);
        return;
    }
    if (s->job.err) {
        if (replica_snapshot_is_passing(s->job.err)) {
            failed(replica, s->job.err, &s->job.note);
        } else {
            note_prefix(&s->job.note, "write a snapshot");
            replica_fail(replica, s->job.err, &s->job.note);
        }
        return;
    }
    buf_clear(&s->slice);
    err = sections_next(&s->sections, replica->limits.snapshot_chunk_bytes, &s->slice,
                        &s->slice_section);
    if (err) {
        failed(replica, err, &(struct note){"read a machine"});
        return;
    }
    if (s->slice.len > 0) {
        replica_snapshot_submit(s, FILE_WRITE);
        return;
    }
    s->state = FINISHING;
    replica_snapshot_submit(s, FILE_FINISH);
}

/* -- completion -- */

/* Entries added after a log reset are newer. */
static void replica_snapshot_forget(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;
    uint64_t to = min_u64(s->forget_to, entries_first(replica->entries) + (FORGET_ENTRIES - 1));

    if (s->forget_to == 0) return;
    entries_forget_to(replica->entries, to);
    replica_disk_release(replica);
    if (to == s->forget_to)
        s->forget_to = 0;
    else
        replica_again(replica);
}

/* Compacts the log. False: not possible now, or no longer needed. */
static bool compact(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;
    const struct snapshot_mark *mark = &s->head.mark;
    uint32_t trailing = replica->limits.trailing_entries;
    struct engine_effects effects = {0};
    enum err err;

    if (!replica_may_step(replica)) return false;
    err = engine_compacted(replica->engine, replica_now(replica), mark, trailing, &effects);
    if (err == ERR_CONFLICT) { /* a newer snapshot exists: remove this one */
        replica_snapshot_give_up(replica);
        return false;
    }
    replica_effects(replica, err, &effects);
    if (replica->stopped) return false;
    replica_snapshot_took_over(replica, mark, s->file_bytes);
    s->forget_to = mark->index > trailing ? mark->index - trailing : 0;
    replica_disk_release(replica);
    return true;
}

static void replica_snapshot_settle(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;

    if (s->head.mark.index > replica->snapshot.index && !compact(replica)) return;
    LOG_INFO(&replica->log, "snapshot taken", log_u64("index", s->head.mark.index),
             log_u64("bytes", s->file_bytes),
             log_u64("took_ms", mono_elapsed_ms(s->began, replica_now(replica))));
    replica_count(replica, COUNT_SNAPSHOTS_TAKEN);
    s->state = IDLE;
    buf_deinit(&s->slice); /* the next snapshot is far away */
    buf_init(&s->slice, SLICE_MAX);
}

void replica_snapshot_took_over(struct replica *replica, const struct snapshot_mark *mark,
                                uint64_t bytes)
{
    /* Transfers of the previous snapshot continue; older transfers are stopped. */
    (void)replica_install_sends_older(replica, replica->snapshot.index, true);
    replica->snapshot = *mark;
    replica->snapshot_bytes = bytes;
    replica->snapshots->tidy_due = true;
    replica_changed(replica);
}

/* -- removing older files -- */

static enum err run_tidy(struct replica_job *job)
{
    struct replica *replica = job->replica;

    return snap_remove_older(replica->io->fs, replica->dir, &replica->snapshots->tidy_keep,
                             &job->note);
}

static void tidy_done(struct replica_job *job)
{
    if (job->err)
        LOG_WARN(&job->replica->log, "older snapshots could not be removed",
                 log_err("err", job->err), log_text("why", job->note.text));
}

static void tidy(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;

    if (!s->tidy_due || s->tidy.busy) return;
    if (replica_install_sends_older(replica, replica->snapshot.index, false)) return;
    s->tidy_keep = replica->snapshot;
    s->tidy_due = replica_job_start(&s->tidy, replica->bulk_worker) != ERR_OK;
}

/* -- life cycle -- */

void replica_snapshot_pump(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;

    if (replica->stopped) return;
    if (!s->job.busy && s->state == GIVING_UP) {
        if (s->writer)
            replica_snapshot_submit(s, FILE_ABANDON);
        else {
            s->state = IDLE;
            s->tidy_due = true; /* the file may already have its final name */
        }
    }
    if (s->state == IDLE) replica_snapshot_begin(replica);
    if (!s->job.busy && s->state == REPLICA_SNAPSHOT_TAKING) take_slice(replica);
    if (!s->job.busy && s->state == FINISHING) {
        if (s->job.err)
            take_slice(replica); /* handles the job's error: retry or give up */
        else
            s->state = DURABLE;
    }
    if (s->state == DURABLE && !replica->stopped) replica_snapshot_settle(replica);
    if (!replica->stopped) replica_snapshot_forget(replica);
    if (!replica->stopped) tidy(replica);
}

enum err replica_snapshot_open(struct replica *replica)
{
    struct replica_snapshots *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    err = timer_init(&s->timer, replica->io->loop, replica_snapshot_on_timer);
    if (err) {
        free(s);
        return err;
    }
    s->replica = replica;
    replica_job_init(&s->job, replica, replica_snapshot_run, replica_snapshot_done);
    replica_job_init(&s->tidy, replica, run_tidy, tidy_done);
    buf_init(&s->slice, SLICE_MAX);
    timer_start_in(&s->timer, replica->limits.snapshot_every_ms);
    replica->snapshots = s;
    return ERR_OK;
}

void replica_snapshot_stop(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;

    if (!s) return;
    timer_stop(&s->timer);
    sections_end(&s->sections);
}

void replica_snapshot_close(struct replica *replica)
{
    struct replica_snapshots *s = replica->snapshots;

    if (!s) return;
    assert(!s->job.busy && !s->tidy.busy);
    timer_deinit(&s->timer);
    snap_abandon(s->writer);
    buf_deinit(&s->slice);
    free(s);
    replica->snapshots = NULL;
}
