/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots between replicas: sending this replica's, receiving and installing a peer's.
 *
 * Receiving. One snapshot at a time. Bytes go to a temporary file through two buffers of at most
 * INBOX_BYTES; the sender waits when both are full. The file is verified, then offered to the
 * engine:
 *
 *     none -> taking -> checking -> offered -> keeping -> restoring -> restored -> none
 *      bytes arrive   whole, valid  wanted    gets its    log reset,   engine notified
 *                                             name        machines filled
 *
 *   1. The file is renamed durably. A restart would now find a log that does not continue the
 *      snapshot, and discard that log (replica.c).
 *   2. The log is reset to continue after the snapshot, while the machines are filled.
 *   3. The engine is notified and acknowledges.
 *
 * A failure before step 1 drops the file; the leader sends again. A later failure stops the
 * replica, because engine and machines have given up their old state.
 *
 * Sending. The engine repeats its request at every heartbeat, which does not start a new
 * transfer. After a complete transfer the follower gets time to restore, longer each time. A
 * broken transfer is retried soon, and more slowly when it breaks again. */
#include <stdlib.h>

#include "log/replica_internal.h"

enum { INBOX_BYTES = 1 << 20, PEACE_DOUBLINGS_MAX = 3, BROKEN_DOUBLINGS_MAX = 4 };
static_assert((int)FRAME_CHUNK_MAX <= (int)INBOX_BYTES, "a chunk finds room in an empty buffer");

enum receiving { NONE, REPLICA_INSTALL_TAKING, CHECKING, OFFERED, KEEPING, RESTORING, RESTORED };
enum inbox_work { INBOX_NOTHING, INBOX_WRITE, INBOX_CHECK, INBOX_DROP, INBOX_KEEP, INBOX_READ };

struct send {
    uint64_t to; /* receiver; 0: unused */
    uint64_t id, index, term;
    bool wanted, running;
    uint32_t whole;  /* complete transfers that left the follower behind */
    uint32_t broken; /* consecutive broken transfers */
    mono_time began, not_before;
};
struct replica_installs {
    struct replica *replica;
    struct timer timer;
    uint64_t next_id;
    struct send sends[REPLICA_MEMBERS_MAX];

    enum receiving state;
    bool doomed;  /* drop the transfer when the bulk thread has finished */
    bool refused; /* a frame was refused: both buffers are full */
    bool ended;
    bool wanted;
    uint64_t from, taken;
    struct frame_snap_begin begin;
    struct buf filling;
    mono_time began;

    struct replica_job job; /* the bulk thread's job; owns the fields below */
    enum inbox_work work;
    struct snap_inbox *inbox;
    uint64_t unique, writing_at;
    struct buf writing; /* bytes to write; later, bytes that were read */
    struct snap_head head;
    struct snap_reader *reader;
    uint32_t section;

    struct replica_job reset;
    bool reset_done;
};

/* -- sending -- */

static struct send *find_send(struct replica_installs *in, uint64_t to)
{
    struct send *vacant = NULL;

    for (size_t i = 0; i < ARRAY_LEN(in->sends); i++) {
        if (in->sends[i].to == to) return &in->sends[i];
        if (!in->sends[i].to && !vacant) vacant = &in->sends[i];
    }
    if (vacant) *vacant = (struct send){.to = to};
    return vacant;
}

void replica_install_send(struct replica *replica, const struct raft_message *message)
{
    struct send *send = find_send(replica->installs, message->server_id);

    if (!send) return; /* all slots are in use: the engine asks again */
    send->wanted = true;
    replica_wake(replica);
}

/* True if the follower still lacks the snapshot that it was sent. A newer snapshot is no reason to
 * send again. */
static bool still_wanted(const struct replica *replica, const struct send *send)
{
    uint64_t index = send->index ? send->index : replica->snapshot.index;

    return send->wanted && engine_role(replica->engine) == REPLICA_LEADER &&
           engine_match(replica->engine, send->to) < index;
}

static void start_send(struct replica *replica, struct send *send)
{
    struct frame_snap_begin begin = {
        .term = engine_term(replica->engine),
        .index = replica->snapshot.index,
        .index_term = replica->snapshot.term,
        .bytes = replica->snapshot_bytes,
        .id = ++replica->installs->next_id,
    };
    char path[FS_PATH_CAP];
    enum err err = replica_snapshot_path(replica, &replica->snapshot, path, NULL);

    if (!err) err = peers_send_file(replica->peers, send->to, &begin, path, replica->bulk_worker);
    if (err == ERR_NOT_FOUND) { /* the receiver is no longer a member */
        send->wanted = false;
        return;
    }
    if (err) {
        send->not_before = mono_after(replica_now(replica), replica->election_ms);
        return;
    }
    if (send->index != begin.index || send->term != begin.term) send->whole = send->broken = 0;
    send->running = true;
    send->id = begin.id;
    send->index = begin.index;
    send->term = begin.term;
    send->began = replica_now(replica);
    LOG_INFO(&replica->log, "sending a snapshot to a replica", log_u64("peer", send->to),
             log_u64("index", begin.index), log_u64("bytes", begin.bytes));
}

void replica_install_on_sent(void *owner, uint64_t to, uint64_t id, enum err err)
{
    struct replica *replica = owner;
    struct send *send = find_send(replica->installs, to);
    mono_time now = replica_now(replica);

    if (!send || !send->running || send->id != id || replica->stopped) return;
    send->running = false;
    replica_wake(replica);
    if (err) {
        send->not_before = mono_after(now, (uint64_t)replica->election_ms << send->broken);
        if (send->broken < BROKEN_DOUBLINGS_MAX) send->broken++;
        if (err != ERR_CANCELLED) {
            replica_count(replica, COUNT_SNAPSHOTS_FAILED);
            LOG_WARN(&replica->log, "sending a snapshot failed: retrying", log_u64("peer", to),
                     log_err("err", err), log_u64("index", send->index));
        }
        return;
    }
    replica_count(replica, COUNT_SNAPSHOTS_SENT);
    /* The follower now verifies and restores, which takes about as long as the transfer. */
    uint64_t peace = 10 * (uint64_t)replica->election_ms + 2 * mono_elapsed_ms(send->began, now);
    send->not_before = mono_after(now, peace << send->whole);
    if (send->whole < PEACE_DOUBLINGS_MAX) send->whole++;
}

static void pump_sends(struct replica *replica)
{
    struct replica_installs *in = replica->installs;
    mono_time now = replica_now(replica), due = MONO_NEVER;

    for (size_t i = 0; i < ARRAY_LEN(in->sends); i++) {
        struct send *send = &in->sends[i];

        if (send->running) {
            /* Without leadership no replica would accept the snapshot. */
            if (engine_role(replica->engine) != REPLICA_LEADER ||
                engine_term(replica->engine) != send->term)
                peers_stop_file(replica->peers, send->to);
            continue;
        }
        if (!still_wanted(replica, send)) {
            *send = (struct send){0};
            continue;
        }
        if (mono_due(send->not_before, now)) start_send(replica, send);
        if (send->wanted && !send->running) due = mono_min(due, send->not_before);
    }
    if (due.ms == MONO_NEVER.ms)
        timer_stop(&in->timer);
    else
        timer_start(&in->timer, due);
}

static void replica_install_on_timer(struct timer *timer)
{
    replica_wake(CONTAINER_OF(timer, struct replica_installs, timer)->replica);
}

bool replica_install_sends_older(struct replica *replica, uint64_t index, bool stop)
{
    struct replica_installs *in = replica->installs;
    bool any = false;

    for (size_t i = 0; i < ARRAY_LEN(in->sends); i++) {
        if (!in->sends[i].running || in->sends[i].index >= index) continue;
        if (stop) peers_stop_file(replica->peers, in->sends[i].to);
        any = true;
    }
    return any;
}

/* -- writing the received file, on the bulk thread -- */

static enum err write_inbox(struct replica_installs *in)
{
    struct replica *replica = in->replica;
    enum err err = ERR_OK;

    if (!in->inbox)
        err = snap_inbox_open(replica->io->fs, replica->dir, in->unique, &in->inbox, &in->job.note);
    if (!err)
        err = snap_inbox_write(in->inbox, in->writing_at, buf_peek(&in->writing), &in->job.note);
    return err;
}

static enum err read_kept(struct replica_installs *in)
{
    struct replica *replica = in->replica;
    char path[FS_PATH_CAP];
    struct snap_head head;
    enum err err = ERR_OK;

    if (!in->reader) {
        err = replica_snapshot_path(replica, &in->head.mark, path, &in->job.note);
        if (!err) err = snap_open(replica->io->fs, path, &in->reader, &head, &in->job.note);
    }
    if (!err) err = snap_read(in->reader, &in->writing, &in->section, &in->job.note);
    return err;
}

static enum err replica_install_run(struct replica_job *job)
{
    struct replica_installs *in = CONTAINER_OF(job, struct replica_installs, job);
    enum err err = ERR_OK;

    switch (in->work) {
    case INBOX_NOTHING: break;
    case INBOX_WRITE: err = write_inbox(in); break;
    case INBOX_CHECK: err = snap_inbox_check(in->inbox, &in->head, &job->note); break;
    case INBOX_READ: err = read_kept(in); break;
    case INBOX_KEEP:
        err = snap_inbox_keep(in->inbox, &job->note);
        in->inbox = NULL;
        break;
    case INBOX_DROP:
        snap_inbox_drop(in->inbox);
        in->inbox = NULL;
        break;
    }
    return err;
}

static void replica_install_done(struct replica_job *job)
{
    replica_wake(job->replica);
}

/* False: the bulk thread's queue is full. The pump then retries. */
static bool replica_install_submit(struct replica_installs *in, enum inbox_work work)
{
    in->work = work;
    if (!replica_job_start(&in->job, in->replica->bulk_worker)) return true;
    in->work = INBOX_NOTHING;
    replica_again(in->replica);
    return false;
}

/* -- receiving -- */

static void resume(struct replica_installs *in)
{
    if (in->refused) peers_resume(in->replica->peers);
    in->refused = false;
}

static void doom(struct replica_installs *in, enum err err, const char *why)
{
    struct replica *replica = in->replica;

    in->doomed = true;
    replica_wake(replica);
    if (!err) return;
    replica_count(replica, COUNT_SNAPSHOTS_FAILED);
    LOG_WARN(&replica->log, "dropped an incomplete snapshot from the leader",
             log_u64("peer", in->from), log_u64("index", in->begin.index), log_err("err", err),
             log_text("why", why));
}

static bool is_current(const struct replica_installs *in, uint64_t from, uint64_t id)
{
    return in->state == REPLICA_INSTALL_TAKING && !in->doomed && !in->ended && in->from == from &&
           in->begin.id == id;
}

/* Closes the connection, so that the sender stops sending. */
static bool replica_install_refuse(struct replica *replica, uint64_t from)
{
    peers_refuse_snap(replica->peers, from);
    return true;
}

static bool on_begin(struct replica *replica, uint64_t from, const struct frame_snap_begin *begin)
{
    struct replica_installs *in = replica->installs;
    uint64_t free_bytes = replica->disk.free_bytes;

    /* The same sender or a newer leader begins a transfer. Cancels the current transfer, unless
     * the snapshot is complete. */
    if (in->state == REPLICA_INSTALL_TAKING &&
        (in->doomed || begin->term > in->begin.term || (from == in->from && !in->ended))) {
        if (!in->doomed) doom(in, ERR_OK, NULL);
        in->refused = true;
        return false;
    }
    if (in->state != NONE)
        return replica_install_refuse(replica, from); /* guard 9: one install at a time */
    if (begin->term < engine_term(replica->engine) || begin->index <= replica->applied ||
        begin->bytes == 0)
        return replica_install_refuse(replica, from); /* heartbeat replies show our position */
    if (begin->bytes > free_bytes || free_bytes - begin->bytes < replica->disk.reserve_bytes) {
        replica_count(replica, COUNT_SNAPSHOTS_FAILED);
        LOG_WARN(&replica->log, "no disk space for a snapshot from the leader",
                 log_u64("peer", from), log_u64("bytes", begin->bytes),
                 log_u64("free_bytes", free_bytes));
        return replica_install_refuse(replica, from);
    }
    in->state = REPLICA_INSTALL_TAKING;
    in->doomed = in->ended = in->wanted = in->reset_done = false;
    in->from = from;
    in->begin = *begin;
    in->taken = in->writing_at = 0;
    in->work = INBOX_NOTHING;
    in->unique = entropy_u64(replica->io->entropy);
    in->began = replica_now(replica);
    LOG_INFO(&replica->log, "receiving a snapshot from the leader", log_u64("peer", from),
             log_u64("index", begin->index), log_u64("bytes", begin->bytes));
    replica_changed(replica);
    return true;
}

static bool on_chunk(struct replica *replica, uint64_t from, const struct frame_snap_chunk *chunk)
{
    struct replica_installs *in = replica->installs;
    enum err err;

    if (!is_current(in, from, chunk->id)) return replica_install_refuse(replica, from);
    if (in->begin.index <= replica->applied) { /* entries arrived faster than the snapshot */
        doom(in, ERR_OK, NULL);
        return replica_install_refuse(replica, from);
    }
    if (chunk->offset != in->taken || chunk->bytes.len > in->begin.bytes - in->taken) {
        doom(in, ERR_INVALID, "its bytes are out of order or too many");
        return true;
    }
    if (in->filling.len > 0 && in->filling.len + chunk->bytes.len > INBOX_BYTES) {
        in->refused = true;
        return false;
    }
    err = buf_append(&in->filling, chunk->bytes);
    if (err) {
        doom(in, err, "no memory for its bytes");
        return true;
    }
    in->taken += chunk->bytes.len;
    replica_wake(replica);
    return true;
}

static void replica_install_on_end(struct replica *replica, uint64_t from, uint64_t id)
{
    struct replica_installs *in = replica->installs;

    if (!is_current(in, from, id)) {
        replica_install_refuse(replica, from); /* a reply would count as acceptance */
        return;
    }
    if (in->taken != in->begin.bytes) {
        doom(in, ERR_INVALID, "it ended before all its bytes were there");
        return;
    }
    in->ended = true;
    replica_wake(replica);
}

bool replica_install_on_snap(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct replica *replica = owner;

    if (replica->stopped || replica->closing) return true;
    switch (frame->kind) {
    case FRAME_SNAP_BEGIN: return on_begin(replica, from, &frame->u.snap_begin);
    case FRAME_SNAP_CHUNK: return on_chunk(replica, from, &frame->u.snap_chunk);
    case FRAME_SNAP_END: replica_install_on_end(replica, from, frame->u.snap_end.id); return true;
    default: assert(false); /* the peers module checks the lane's frames */
    }
    return true;
}

void replica_install_on_lost(void *owner, uint64_t from)
{
    struct replica *replica = owner;
    struct replica_installs *in = replica->installs;

    if (is_current(in, from, in->begin.id) && !replica->stopped)
        doom(in, ERR_CLOSED, "its connection broke");
}

bool replica_install_busy(const struct replica *replica)
{
    return replica->installs && replica->installs->state != NONE;
}

/* -- from received bytes to restored state -- */

/* The bulk thread must have finished. */
static void replica_install_forget(struct replica_installs *in)
{
    assert(!in->job.busy && !in->inbox && !in->reset.busy);
    snap_close(in->reader); /* needs no disk access */
    in->reader = NULL;
    buf_deinit(&in->filling);
    buf_init(&in->filling, INBOX_BYTES);
    buf_deinit(&in->writing);
    buf_init(&in->writing, INBOX_BYTES);
    in->state = NONE;
    in->doomed = false;
    resume(in);
    replica_changed(in->replica);
}

static void stop_for(struct replica_installs *in, enum err err, struct note *note)
{
    note_prefix(note, "install a snapshot of index %llu", (unsigned long long)in->begin.index);
    replica_fail(in->replica, err, note);
}

/* True for an error that a retry can cure, because no state depends on the received file yet. */
static bool replica_install_is_passing(enum err err)
{
    return replica_snapshot_is_passing(err) || err == ERR_CORRUPT;
}

static void replica_install_take(struct replica_installs *in)
{
    if (in->work == INBOX_WRITE) {
        if (in->job.err) {
            if (replica_install_is_passing(in->job.err))
                doom(in, in->job.err, in->job.note.text);
            else
                stop_for(in, in->job.err, &in->job.note);
            return;
        }
        in->writing_at += in->writing.len;
        buf_clear(&in->writing);
        in->work = INBOX_NOTHING;
    }
    if (in->filling.len > 0) {
        struct buf swap = in->writing;
        in->writing = in->filling;
        in->filling = swap;
        if (replica_install_submit(in, INBOX_WRITE)) {
            resume(in);
        } else { /* the job did not start: swap the buffers back */
            in->filling = in->writing;
            in->writing = swap;
        }
    } else if (in->ended && replica_install_submit(in, INBOX_CHECK)) {
        in->state = CHECKING;
    }
}

static void check(struct replica_installs *in)
{
    const struct snapshot_mark *mark = &in->head.mark;

    if (in->job.err && replica_install_is_passing(in->job.err)) {
        doom(in, in->job.err, in->job.note.text);
    } else if (in->job.err) {
        stop_for(in, in->job.err, &in->job.note);
    } else if (mark->index != in->begin.index || mark->term != in->begin.index_term) {
        doom(in, ERR_INVALID, "it is another than was announced");
    } else if (in->head.level > in->replica->speaks) {
        note_set(&in->job.note, "it is of cluster level %u, this program speaks %u", in->head.level,
                 in->replica->speaks);
        stop_for(in, ERR_VERSION, &in->job.note);
    } else {
        in->state = OFFERED;
    }
}

static void offer(struct replica_installs *in)
{
    struct replica *replica = in->replica;
    struct engine_effects effects = {0};
    enum err err;

    if (!replica_may_step(replica)) return;
    err = engine_offer(replica->engine, replica_now(replica), in->from, in->begin.term,
                       &in->head.mark, &effects);
    if (err == ERR_INVALID) {
        doom(in, err, "no sound replica sends it");
        return;
    }
    replica_effects(replica, err, &effects);
    if (!in->wanted && !replica->stopped) doom(in, ERR_OK, NULL);
}

void replica_install_begin(struct replica *replica, const struct snapshot_mark *mark)
{
    struct replica_installs *in = replica->installs;

    assert(in->state == OFFERED && mark->index == in->head.mark.index);
    in->wanted = true;
    in->state = KEEPING;
    in->work = INBOX_NOTHING;
    replica_snapshot_give_up(replica);
    replica_disk_reset(replica, mark->index);
}

static enum err run_reset(struct replica_job *job)
{
    struct replica_installs *in = CONTAINER_OF(job, struct replica_installs, reset);

    return wal_reset(in->replica->wal, in->head.mark.index, in->head.mark.term, &job->note);
}

static void reset_done(struct replica_job *job)
{
    struct replica_installs *in = CONTAINER_OF(job, struct replica_installs, reset);

    in->reset_done = true;
    if (job->err) stop_for(in, job->err, &job->note);
    replica_wake(in->replica);
}

static void start_restore(struct replica_installs *in)
{
    struct replica *replica = in->replica;
    enum err err;

    in->state = RESTORING;
    in->work = INBOX_NOTHING;
    err = replica_job_start(&in->reset, replica->disk_worker);
    if (err) note_set(&in->job.note, "hand the reset to the disk: %s", err_text(err));
    if (!err) err = replica_restore_begin(replica, &in->head, &in->job.note);
    if (err) stop_for(in, err, &in->job.note);
}

static void replica_install_keep(struct replica_installs *in)
{
    /* The gate may be closed for the vote of the step that wanted the snapshot. */
    if (in->work == INBOX_NOTHING) {
        if (replica_may_step(in->replica)) replica_install_submit(in, INBOX_KEEP);
    } else if (in->job.err) {
        stop_for(in, in->job.err, &in->job.note);
    } else {
        start_restore(in);
    }
}

static void restore(struct replica_installs *in)
{
    enum err err = in->work == INBOX_READ ? in->job.err : ERR_OK;
    bool is_last = !err && in->work == INBOX_READ && in->section == UINT32_MAX;

    if (!err && in->work == INBOX_READ) {
        if (is_last)
            err = replica_restore_end(in->replica, &in->head, &in->job.note);
        else
            err = replica_restore_chunk(in->replica, in->section, buf_peek(&in->writing),
                                        &in->job.note);
        in->work = INBOX_NOTHING;
    }
    if (err) {
        stop_for(in, err, &in->job.note);
        return;
    }
    if (is_last)
        in->state = RESTORED;
    else
        replica_install_submit(in, INBOX_READ);
}

static void replica_install_finish(struct replica_installs *in)
{
    struct replica *replica = in->replica;
    struct engine_effects effects = {0};
    const struct snapshot_mark mark = in->head.mark;
    enum err err;

    /* A running read of old entries must not be applied to the new state. */
    if (!in->reset_done || !replica_may_step(replica) || replica->apply.old.job.busy) return;
    replica_snapshot_took_over(replica, &mark, in->begin.bytes);
    replica_apply_jump(replica, mark.index, mark.term);
    err = engine_installed(replica->engine, replica_now(replica), &mark, &effects);
    replica_effects(replica, err, &effects);
    if (replica->stopped) return;
    replica_count(replica, COUNT_SNAPSHOTS_INSTALLED);
    LOG_INFO(&replica->log, "snapshot installed", log_u64("peer", in->from),
             log_u64("index", mark.index), log_u64("bytes", in->begin.bytes),
             log_u64("took_ms", mono_elapsed_ms(in->began, replica_now(replica))));
    replica_install_forget(in);
}

static void pump_receiving(struct replica_installs *in)
{
    if (in->job.busy || in->replica->stopped) return;
    if (in->doomed) {
        if (!in->inbox)
            replica_install_forget(in);
        else
            replica_install_submit(in, INBOX_DROP);
        return;
    }
    switch (in->state) {
    case NONE: break;
    case REPLICA_INSTALL_TAKING: replica_install_take(in); break;
    case CHECKING: check(in); break;
    case OFFERED: break;
    case KEEPING: replica_install_keep(in); break;
    case RESTORING: restore(in); break;
    case RESTORED: break;
    }
    if (in->replica->stopped || in->job.busy || in->doomed) return;
    if (in->state == OFFERED) offer(in);
    if (in->state == KEEPING && in->work == INBOX_NOTHING) replica_install_keep(in);
    if (in->replica->stopped || in->job.busy) return;
    if (in->state == RESTORING && in->work == INBOX_NOTHING) restore(in);
    if (in->replica->stopped || in->job.busy) return;
    if (in->state == RESTORED) replica_install_finish(in);
}

void replica_install_pump(struct replica *replica)
{
    struct replica_installs *in = replica->installs;

    pump_receiving(in);
    if (!replica->stopped) pump_sends(replica);
}

/* -- life cycle -- */

enum err replica_install_open(struct replica *replica)
{
    struct replica_installs *in = calloc(1, sizeof *in);
    enum err err;

    if (!in) return ERR_NOMEM;
    err = timer_init(&in->timer, replica->io->loop, replica_install_on_timer);
    if (err) {
        free(in);
        return err;
    }
    in->replica = replica;
    replica_job_init(&in->job, replica, replica_install_run, replica_install_done);
    replica_job_init(&in->reset, replica, run_reset, reset_done);
    in->next_id = entropy_u64(replica->io->entropy) >> 1; /* ids differ after a restart */
    buf_init(&in->filling, INBOX_BYTES);
    buf_init(&in->writing, INBOX_BYTES);
    replica->installs = in;
    return ERR_OK;
}

void replica_install_stop(struct replica *replica)
{
    if (replica->installs) timer_stop(&replica->installs->timer);
}

void replica_install_close(struct replica *replica)
{
    struct replica_installs *in = replica->installs;

    if (!in) return;
    assert(!in->job.busy && !in->reset.busy);
    timer_deinit(&in->timer);
    snap_close(in->reader);
    snap_inbox_drop(in->inbox);
    buf_deinit(&in->filling);
    buf_deinit(&in->writing);
    free(in);
    replica->installs = NULL;
}
