/* SPDX-License-Identifier: Apache-2.0 */
/* The partitions that a worker holds, and the one job that runs for them at a time.
 *
 * A job runs on the processing thread and owns its partition meanwhile; everything else is the
 * loop's thread. */
#include <inttypes.h>
#include <stdlib.h>

#include "rpc/retry.h"
#include "worker/host_internal.h"

enum {
    IDLE_MS = 500, /* input that had nothing new is looked at again */
    AGAIN_FIRST_MS = 100,
    AGAIN_MAX_MS = 5000,
    RATE_SLICES = 10, /* of a second */
};

/* -- parts -- */

static void part_free(struct held_partition *part)
{
    tally_close(part->tally);
    free(part);
}

static void part_release(struct held_partition *part)
{
    if (!part) return;
    if (part->busy)
        part->dropped = true; /* the job's end frees it */
    else
        part_free(part);
}

static void parts_on_drop(void *owner, struct tenure *row)
{
    struct worker_host *h = owner;

    if (!h->closing && row->state != TENURE_GONE)
        LOG_INFO(h->options.log, "partition dropped", log_u64("partition", row->partition),
                 log_u64("grant_epoch", row->token));
    part_release(row->data);
}

void parts_drop_all(struct worker_host *h)
{
    tenures_drop_all(&h->tenures, parts_on_drop, h);
}

static void parts_count_held(struct worker_host *h)
{
    size_t held = tenures_held(&h->tenures);

    life_set_holding(&h->life, held > 0);
    h->counts.partitions = held;
}

void parts_assign(struct worker_host *h, uint64_t assignment_epoch, struct grant *grants,
                  size_t count)
{
    enum err err = tenures_assign(&h->tenures, assignment_epoch, grants, count, parts_on_drop, h);

    if (err == ERR_CONFLICT) return; /* an old message */
    if (err) {
        LOG_WARN(h->options.log, "an assignment was not taken", log_err("err", err));
        return;
    }
    h->self.assignment_epoch = assignment_epoch;
    if (h->drain) tenures_leave_all(&h->tenures);
    parts_count_held(h);
    host_pump_soon(h);
}

/* -- on the processing thread -- */

static bool job_may_write(void *owner)
{
    struct part_job *job = owner;

    job->late = host_now(job->host).ms > job->good_until.ms;
    return !job->late;
}

static enum err job_call_plugin(void *owner, struct str line, struct buf *out, struct note *note)
{
    struct part_job *job = owner;

    return plugins_call(job->host->options.plugins, STR("map"), line, out, note);
}

static enum err job_claim(struct part_job *job)
{
    const struct worker_host_options *o = &job->host->options;
    struct held_partition *part = job->part;

    if (!job_may_write(job)) return ERR_FENCED;
    if (!o->store) return ERR_OK;
    return checkpoint_claim(o->store, part->partition, part->token, o->worker_id,
                            clock_wall(o->io->clock), part->tally, &part->checkpoint, &job->note);
}

static enum err job_write(struct part_job *job)
{
    const struct worker_host_options *o = &job->host->options;
    struct held_partition *part = job->part;
    enum err err;

    if (!o->store || !part->dirty) return ERR_OK;
    err = checkpoint_commit(o->store, &part->checkpoint, o->worker_id, clock_wall(o->io->clock),
                            part->tally, job_may_write, job, &job->note);
    job->wrote = !err;
    return err;
}

static void job_run(struct job *base)
{
    struct part_job *job = CONTAINER_OF(base, struct part_job, job);
    const struct worker_host_options *o = &job->host->options;
    struct intake_options intake = {.fs = o->io->fs,
                                    .dir = o->input,
                                    .map = o->use_plugin ? job_call_plugin : NULL,
                                    .owner = job};

    if (job->kind == JOB_CLAIM) job->err = job_claim(job);
    if (job->records_max)
        job->err = intake_batch(&intake, job->part->partition, job->part->tally, job->records_max,
                                &job->lines, &job->note);
    if (!job->err && job->lines) job->part->dirty = true;
    if (!job->err && job->write) job->err = job_write(job);
    if (job->wrote) job->part->dirty = false;
}

/* -- back on the loop -- */

static void part_back_off(struct worker_host *h, struct held_partition *part)
{
    struct backoff backoff = {AGAIN_FIRST_MS, AGAIN_MAX_MS};

    part->failures++;
    part->again =
        mono_after(loop_now(h->options.io->loop), backoff_bound_ms(backoff, part->failures));
}

/* The partition is claimed anew from the store where what is held of it may be wrong. */
static void job_failed(struct worker_host *h, struct tenure *row, const struct part_job *job)
{
    struct held_partition *part = job->part;

    LOG_WARN(h->options.log, "partition cannot start yet: retrying",
             log_u64("partition", part->partition), log_u64("grant_epoch", part->token),
             log_err("err", job->err), log_text("why", job->note.text));
    h->counts.checkpoints_failed += job->write;
    if (job->write && !job->late) rounds_failed(h, &job->note);
    part_back_off(h, part);
    if (job->late) return; /* it took so long; the worker itself may be well */
    row->want_write = false;
    if (job->err == ERR_FENCED && row->token == part->token) {
        row->state = TENURE_GONE; /* the next assignment says which worker has it */
        return;
    }
    if (job->err != ERR_UNKNOWN && job->err != ERR_NOMEM && job->err != ERR_FULL)
        return; /* nothing changed: the same again, later */
    if (row->state == TENURE_WORK) row->state = TENURE_CLAIM;
    row->begun = false;
}

static void job_ended_well(struct worker_host *h, struct tenure *row, const struct part_job *job)
{
    struct held_partition *part = job->part;

    part->failures = 0;
    part->again = job->kind == JOB_WORK && job->records_max && job->lines == 0
                      ? mono_after(loop_now(h->options.io->loop), IDLE_MS)
                      : (mono_time){0};
    h->counts.records += job->lines;
    h->counts.checkpoints += job->wrote;
    if (job->kind == JOB_CLAIM) {
        LOG_INFO(h->options.log, "a partition is claimed", log_u64("partition", part->partition),
                 log_u64("grant_epoch", part->token), log_text("checkpoint", part->checkpoint.id),
                 log_u64("records", tally_records(part->tally)));
        h->counts.claims++;
        if (row->token == part->token && row->state != TENURE_GONE) tenure_claimed(row);
    }
    if (job->write) row->want_write = false;
    if (job->kind == JOB_LEAVE && row->state == TENURE_LEAVE && row->token == part->token) {
        LOG_INFO(h->options.log, "partition released", log_u64("partition", part->partition),
                 log_u64("grant_epoch", part->token), log_text("checkpoint", part->checkpoint.id),
                 log_u64("records", tally_records(part->tally)));
        tenure_left(row);
    }
}

static void job_done(struct job *base, enum err err)
{
    struct part_job *job = CONTAINER_OF(base, struct part_job, job);
    struct worker_host *h = job->host;
    mono_time now = loop_now(h->options.io->loop);
    struct held_partition *part = job->part;
    struct tenure *row;

    h->job_runs = false;
    h->busy_ms += mono_elapsed_ms(h->job_began, now);
    if (h->options.plugins) plugins_busy(h->options.plugins, false);
    if (!h->closing)
        (void)host_check_fence(h); /* before anything is made of it; the part is still ours */
    part->busy = false;
    if (h->closing || err) {
        if (part->dropped) part_free(part); /* else its row has it */
        return;
    }
    row = part->dropped ? NULL : tenures_find(&h->tenures, part->partition);
    if (row) row->busy = false;
    if (!row) {
        part_free(part);
    } else if (job->err) {
        job_failed(h, row, job);
    } else {
        job_ended_well(h, row, job);
    }
    parts_count_held(h);
    acks_send(h);
    rounds_check(h);
    host_drain_step(h);
    host_pump_soon(h);
}

/* -- what to do next -- */

static bool parts_may_read(const struct worker_host *h, mono_time now)
{
    const struct worker_host_options *o = &h->options;

    return o->input && mono_due(h->rate_next, now) &&
           (!o->use_plugin || (o->plugins && plugins_ready(o->plugins)));
}

/* Is there something to be done for the row now? */
static bool parts_has_work(const struct worker_host *h, const struct tenure *row, mono_time now)
{
    const struct held_partition *part = row->data;

    if (part && !mono_due(part->again, now)) return false;
    switch (row->state) {
    case TENURE_CLAIM:
    case TENURE_LEAVE: return true;
    case TENURE_WORK: return row->want_write || parts_may_read(h, now);
    case TENURE_GONE: break;
    }
    return false;
}

static enum err part_renew(struct tenure *row)
{
    struct held_partition *part = row->data, *next = calloc(1, sizeof *next);
    enum err err = next ? tally_open(&next->tally) : ERR_NOMEM;

    if (err) {
        free(next);
        return err;
    }
    next->partition = row->partition;
    next->token = row->token;
    if (part) next->failures = part->failures;
    part_release(part);
    row->data = next;
    return ERR_OK;
}

static size_t records_max(struct worker_host *h, mono_time now)
{
    uint64_t rate = h->options.rate;

    if (!parts_may_read(h, now)) return 0;
    if (!rate) return INTAKE_BATCH;
    h->rate_next = mono_after(now, MS_PER_SECOND / RATE_SLICES);
    return (size_t)max_u64(rate / RATE_SLICES, 1);
}

static void parts_submit(struct worker_host *h, struct tenure *row, enum job_kind kind,
                         mono_time now)
{
    struct held_partition *part = row->data;

    h->job = (struct part_job){.host = h,
                               .part = part,
                               .kind = kind,
                               .good_until = life_good_until(&h->life),
                               .write = kind == JOB_LEAVE || (kind == JOB_WORK && row->want_write)};
    /* Reading may take long; a write starts with all the time there is. */
    if (kind == JOB_WORK && !row->want_write) h->job.records_max = records_max(h, now);
    job_init(&h->job.job, job_run, job_done);
    if (worker_submit(h->thread, &h->job.job)) return; /* full is not possible; closed is the end */
    row->busy = part->busy = true;
    h->job_runs = true;
    h->job_began = now;
    if (h->options.plugins) plugins_busy(h->options.plugins, true);
}

/* One that was never claimed under its token has nothing to write. */
static bool part_leave_at_once(struct tenure *row)
{
    const struct held_partition *part = row->data;

    if (row->begun && part && part->token == row->token) return false;
    tenure_left(row);
    return true;
}

static void parts_start(struct worker_host *h, struct tenure *row, mono_time now)
{
    switch (row->state) {
    case TENURE_CLAIM:
        if (part_renew(row) == ERR_OK) parts_submit(h, row, JOB_CLAIM, now);
        break;
    case TENURE_WORK: parts_submit(h, row, JOB_WORK, now); break;
    case TENURE_LEAVE: parts_submit(h, row, JOB_LEAVE, now); break;
    case TENURE_GONE: break;
    }
}

void parts_pump(struct task *task)
{
    struct worker_host *h = CONTAINER_OF(task, struct worker_host, pump);
    mono_time now = loop_now(h->options.io->loop);

    if (h->closing || !host_check_fence(h)) return;
    for (size_t i = 0; i < h->tenures.count && !h->job_runs; i++) {
        struct tenure *row = tenures_next(&h->tenures);
        if (!row) break;
        if (row->state == TENURE_LEAVE && part_leave_at_once(row)) continue;
        if (!life_may_act(&h->life, host_now(h)) || !parts_has_work(h, row, now)) continue;
        parts_start(h, row, now);
    }
    acks_send(h);
    host_drain_step(h);
    if (!h->job_runs && h->tenures.count) timer_start_in(&h->idle, IDLE_MS / 5);
}

void parts_idle_over(struct timer *timer)
{
    struct worker_host *h = CONTAINER_OF(timer, struct worker_host, idle);

    host_pump_soon(h);
}
