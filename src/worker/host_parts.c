/* SPDX-License-Identifier: Apache-2.0 */
/* The partitions that a worker holds, their acknowledgements, and the job. One job runs at a time,
 * for one partition, on the processing thread. Other code runs on the loop. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpc/retry.h"
#include "worker/host_internal.h"

enum {
    IDLE_MS = 500, /* pause after the input had no new data */
    AGAIN_FIRST_MS = 100,
    AGAIN_MAX_MS = 5000,
    RATE_SLICES = 10, /* slices of reading per second */
    ACKS_AT_ONCE_MAX = 65536,
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
        part->dropped = true;
    else
        part_free(part);
}

static void parts_on_drop(void *owner, struct tenure *row)
{
    struct worker_host *h = owner;

    if (!h->closing && row->state != TENURE_GONE)
        LOG_INFO(h->options.log, "stopped a partition that this worker no longer owns",
                 log_u64("partition", row->partition), log_u64("grant_epoch", row->token));
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

    if (err == ERR_CONFLICT) return; /* the assignment is an old message */
    if (err) {
        LOG_WARN(h->options.log, "could not apply the new list of partitions", log_err("err", err));
        return;
    }
    h->self.assignment_epoch = assignment_epoch;
    if (h->drain) tenures_leave_all(&h->tenures);
    parts_count_held(h);
    host_pump_soon(h);
}

/* -- acknowledgements: sent until answered, because the coordinator recognises repeats -- */

/* The reference of the checkpoint under the row's own token, or "". */
static void row_reference(const struct worker_host *h, const struct tenure *row,
                          char text[CHECKPOINT_REFERENCE_CAP])
{
    const struct held_partition *part = row->data;

    text[0] = '\0';
    if (h->options.store && row->begun && part && part->token == row->token)
        checkpoint_reference(h->options.store, &part->checkpoint, text);
}

void acks_send(struct worker_host *h)
{
    struct pack request = host_call_begin(h, h->self.incarnation);
    char reference[CHECKPOINT_REFERENCE_CAP];
    size_t count = 0;

    if (h->calls[CALL_ACK_REVOKE].running) return;
    for (size_t i = 0; i < h->tenures.count && count < ACKS_AT_ONCE_MAX; i++) {
        struct tenure *row = &h->tenures.rows[i];
        if (row->ack != ACK_DUE) continue;
        row_reference(h, row, reference);
        call_pack_checkpoint(h, &request, 3, row, reference);
        row->ack = ACK_SENT;
        count++;
    }
    pack_u64(&request, 4, h->life.coord_epoch);
    if (count && !call_send(h, CALL_ACK_REVOKE, &request))
        tenures_acked(&h->tenures, false); /* the next heartbeat sends them again */
}

/* -- checkpoint rounds -- */

void rounds_begin(struct worker_host *h, uint64_t round)
{
    if (round == 0 || round <= h->round_acked) return;
    if (round == h->round) {
        rounds_check(h); /* the coordinator lost the acknowledgement */
        return;
    }
    h->round = round;
    h->round_error[0] = '\0';
    for (size_t i = 0; i < h->tenures.count; i++)
        if (h->tenures.rows[i].state == TENURE_WORK) h->tenures.rows[i].want_write = true;
    rounds_check(h);
    host_pump_soon(h);
}

static void rounds_failed(struct worker_host *h, const struct note *note)
{
    if (!h->round_error[0]) snprintf(h->round_error, sizeof h->round_error, "%s", note->text);
}

void rounds_check(struct worker_host *h)
{
    char reference[CHECKPOINT_REFERENCE_CAP];
    struct pack request;

    if (h->round <= h->round_acked || h->round_sent) return;
    for (size_t i = 0; i < h->tenures.count; i++)
        if (h->tenures.rows[i].want_write) return;
    request = host_call_begin(h, h->self.incarnation);
    pack_u64(&request, 3, h->round);
    for (size_t i = 0; i < h->tenures.count; i++) {
        const struct tenure *row = &h->tenures.rows[i];
        const struct held_partition *part = row->data;
        if (row->state != TENURE_WORK || (part && part->busy)) continue;
        row_reference(h, row, reference);
        if (reference[0]) call_pack_checkpoint(h, &request, 4, row, reference);
    }
    pack_text(&request, 5, str_from(h->round_error));
    pack_u64(&request, 6, h->life.coord_epoch);
    if (call_send(h, CALL_ACK_CHECKPOINT, &request)) h->round_sent = h->round;
}

void rounds_acked(struct worker_host *h, enum err err)
{
    if (!err) h->round_acked = max_u64(h->round_acked, h->round_sent);
    h->round_sent = 0;
    if (!err) rounds_check(h); /* the coordinator may have ordered another round */
}

/* -- called on the processing thread -- */

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

    if (job->state == TENURE_CLAIM) job->err = job_claim(job);
    if (job->records_max)
        job->err = intake_batch(&intake, job->part->partition, job->part->tally, job->records_max,
                                &job->lines, &job->note);
    if (!job->err && job->lines) job->part->dirty = true;
    if (!job->err && job->write) job->err = job_write(job);
    if (job->wrote) job->part->dirty = false;
}

/* -- called on the event loop's thread again -- */

static void part_back_off(struct worker_host *h, struct held_partition *part)
{
    struct backoff backoff = {AGAIN_FIRST_MS, AGAIN_MAX_MS};

    part->failures++;
    part->again =
        mono_after(loop_now(h->options.io->loop), backoff_bound_ms(backoff, part->failures));
}

/* Handles a failed job. If the partition's state in memory may be wrong, it is claimed again. */
static void job_failed(struct worker_host *h, struct tenure *row, const struct part_job *job)
{
    struct held_partition *part = job->part;

    LOG_WARN(h->options.log, "partition cannot start yet: retrying",
             log_u64("partition", part->partition), log_u64("grant_epoch", part->token),
             log_err("err", job->err), log_text("why", job->note.text));
    h->counts.checkpoints_failed += job->write;
    if (job->write && !job->late) rounds_failed(h, &job->note);
    part_back_off(h, part);
    if (job->late) return; /* the job was slow, but the worker may be healthy */
    row->want_write = false;
    if (job->err == ERR_FENCED && row->token == part->token) {
        row->state = TENURE_GONE; /* the next assignment says who owns the partition */
        return;
    }
    if (job->err != ERR_UNKNOWN && job->err != ERR_NOMEM && job->err != ERR_FULL)
        return; /* the state is unchanged, so the job is repeated later */
    if (row->state == TENURE_WORK) row->state = TENURE_CLAIM;
    row->begun = false;
}

static void job_ended_well(struct worker_host *h, struct tenure *row, const struct part_job *job)
{
    struct held_partition *part = job->part;

    part->failures = 0;
    part->again = job->state == TENURE_WORK && job->records_max && job->lines == 0
                      ? mono_after(loop_now(h->options.io->loop), IDLE_MS)
                      : (mono_time){0};
    h->counts.records += job->lines;
    h->counts.checkpoints += job->wrote;
    if (job->state == TENURE_CLAIM) {
        LOG_INFO(h->options.log, "a partition is claimed", log_u64("partition", part->partition),
                 log_u64("grant_epoch", part->token), log_text("checkpoint", part->checkpoint.id),
                 log_u64("records", part->tally->records));
        h->counts.claims++;
        if (row->token == part->token && row->state != TENURE_GONE) tenure_claimed(row);
    }
    if (job->write) row->want_write = false;
    if (job->state == TENURE_LEAVE && row->state == TENURE_LEAVE && row->token == part->token) {
        LOG_INFO(h->options.log, "partition released", log_u64("partition", part->partition),
                 log_u64("grant_epoch", part->token), log_text("checkpoint", part->checkpoint.id),
                 log_u64("records", part->tally->records));
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
    if (!h->closing) (void)host_check_fence(h); /* check before using the job's result */
    part->busy = false;
    if (h->closing || err) {
        if (part->dropped) part_free(part);
        return;
    }
    row = part->dropped ? NULL : tenures_find(&h->tenures, part->partition);
    if (!row)
        part_free(part);
    else if (job->err)
        job_failed(h, row, job);
    else
        job_ended_well(h, row, job);
    parts_count_held(h);
    acks_send(h);
    rounds_check(h);
    host_drain_step(h);
    host_pump_soon(h);
}

/* -- choosing the next job to run -- */

static bool parts_may_read(const struct worker_host *h, mono_time now)
{
    const struct worker_host_options *o = &h->options;

    return o->input && mono_due(h->rate_next, now) &&
           (!o->use_plugin || (o->plugins && plugins_ready(o->plugins)));
}

static bool parts_has_work(const struct worker_host *h, const struct tenure *row, mono_time now)
{
    const struct held_partition *part = row->data;

    if (part && !mono_due(part->again, now)) return false;
    return row->state != TENURE_WORK || row->want_write || parts_may_read(h, now);
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

static void parts_submit(struct worker_host *h, struct tenure *row, mono_time now)
{
    struct held_partition *part = row->data;
    bool work = row->state == TENURE_WORK;

    assert(row->state != TENURE_GONE && part && !part->busy && part->token == row->token);
    h->job = (struct part_job){.host = h,
                               .part = part,
                               .state = row->state,
                               .good_until = life_good_until(&h->life),
                               .write = row->state == TENURE_LEAVE || (work && row->want_write)};
    /* Reading may take long, so a job that must write does not read. */
    if (work && !row->want_write) h->job.records_max = records_max(h, now);
    job_init(&h->job.job, job_run, job_done);
    if (worker_submit(h->thread, &h->job.job)) return; /* fails only when closing */
    part->busy = true;
    h->job_runs = true;
    h->job_began = now;
    if (h->options.plugins) plugins_busy(h->options.plugins, true);
}

/* A partition that was never claimed under its token has nothing to write. */
static bool part_leave_at_once(struct tenure *row)
{
    const struct held_partition *part = row->data;

    if (row->begun && part && part->token == row->token) return false;
    tenure_left(row);
    return true;
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
        if (row->state == TENURE_CLAIM && part_renew(row)) continue;
        parts_submit(h, row, now);
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
