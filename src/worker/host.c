/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/host_internal.h"

enum {
    BEAT_TIMEOUT_MAX_MS = 1000,
    FENCE_LOOK_MS = 1, /* past the last good moment */
    REFUSALS_USUAL = 2,
    JOBS_MAX = 2,
    BEHIND_MAX = 4,
};

/* -- time -- */

boot_time host_now(const struct worker_host *h)
{
    return (boot_time){clock_mono(h->options.boot).ms};
}

void host_pump_soon(struct worker_host *h)
{
    if (!h->closing) loop_defer(h->options.io->loop, &h->pump);
}

static void new_instance(struct worker_host *h)
{
    uint64_t high = entropy_u64(h->options.io->entropy), low = entropy_u64(h->options.io->entropy);

    snprintf(h->self.instance, sizeof h->self.instance, "%016" PRIx64 "%016" PRIx64, high, low);
    h->self.incarnation = h->self.assignment_epoch = 0;
}

/* All that was ours under the registration there was. */
static void drop_all(struct worker_host *h)
{
    parts_drop_all(h);
    acks_forget(h);
    link_unwatch(h->link);
    h->round = h->round_acked = h->round_told = 0;
    h->self.incarnation = h->self.assignment_epoch = 0;
    h->counts.partitions = 0;
}

static void let_go(struct worker_host *h)
{
    drop_all(h);
    new_instance(h);
}

bool host_look(struct worker_host *h)
{
    boot_time now = host_now(h);

    if (!life_fence_falls(&h->life, now)) return true;
    LOG_WARN(h->options.log, "fenced: no coordinator answered in time, and all work has stopped",
             log_u64("timeout_ms", h->life.fence_ms),
             log_u64("partitions", tenures_held(&h->tenures)));
    h->counts.fences++;
    let_go(h);
    if (h->options.plugins) plugins_halt(h->options.plugins);
    h->options.on_fenced(h->options.owner);
    host_drain_on(h);
    return false;
}

static void schedule(struct worker_host *h)
{
    uint64_t now = host_now(h).ms, next = life_next_beat(&h->life).ms;
    uint64_t good_until = life_good_until(&h->life).ms;

    if (link_beating(h->link)) next = UINT64_MAX; /* its answer, or its time limit, comes first */
    if (good_until) next = min_u64(next, good_until + FENCE_LOOK_MS);
    if (next == UINT64_MAX) next = now + BEAT_TIMEOUT_MAX_MS;
    timer_start_in(&h->tick, next > now ? next - now : 0);
}

/* -- beats -- */

static double load_of(struct worker_host *h)
{
    mono_time now = loop_now(h->options.io->loop);
    uint64_t whole = mono_elapsed_ms(h->load_since, now), busy = h->busy_ms;

    if (h->job_runs)
        busy +=
            mono_elapsed_ms(h->job_began.ms > h->load_since.ms ? h->job_began : h->load_since, now);
    h->load_since = now;
    h->busy_ms = 0;
    return whole ? (double)min_u64(busy, whole) / (double)whole : 0;
}

/* Several beats must fit into the fence in force. */
static uint64_t beat_timeout_ms(const struct worker_host *h)
{
    return min_u64(BEAT_TIMEOUT_MAX_MS, max_u64(h->life.fence_ms / 4, 1));
}

static void beat(struct worker_host *h)
{
    boot_time now = host_now(h);
    enum life_phase phase = life_phase(&h->life);

    if (link_beating(h->link)) return;
    h->self.coord_epoch = h->life.coord_epoch;
    life_beat_sent(&h->life, now);
    if (!link_beat(h->link, &h->self, phase, now, life_lease_ms(&h->life), beat_timeout_ms(h),
                   load_of(h)))
        return;
    h->beat_phase = phase;
    h->counts.beats++;
}

static void on_tick(struct timer *timer)
{
    struct worker_host *h = CONTAINER_OF(timer, struct worker_host, tick);

    (void)host_look(h);
    if (h->closing) return;
    if (host_now(h).ms >= life_next_beat(&h->life).ms) beat(h);
    acks_send(h);
    rounds_look(h);
    metrics_set_fields(h->metrics, &h->counts);
    schedule(h);
}

static void register_now(struct worker_host *h, uint64_t interval_ms)
{
    h->self.coord_epoch = h->life.coord_epoch;
    (void)link_register(h->link, &h->self, 2 * interval_ms);
}

/* The stream tells of changes, and one that broke comes back by itself. One that stays behind
 * what the beats say hangs at a coordinator that hears nothing: another is asked. */
static void look_at_stream(struct worker_host *h, const struct link_beat_answer *a)
{
    if (h->legacy || !h->life.registered || !h->self.incarnation) return;
    h->beats_behind = a->assignment_epoch > h->self.assignment_epoch ? h->beats_behind + 1 : 0;
    if (h->beats_behind >= BEHIND_MAX) {
        h->beats_behind = 0;
        link_unwatch(h->link);
    }
    link_watch(h->link, &h->self);
}

static void take_answer(struct worker_host *h, boot_time sent, uint64_t lease_ms,
                        const struct link_beat_answer *a)
{
    uint64_t epoch = a->has_epoch ? a->coord_epoch : h->life.coord_epoch;
    enum life_answer verdict = life_answered(&h->life, sent, lease_ms, epoch, h->life.seen);

    if (verdict == LIFE_STALE) {
        LOG_WARN(h->options.log, "an answer does not count: it is too old, or its coordinator is",
                 log_u64("coord_epoch", a->coord_epoch), log_u64("seen", h->life.coord_epoch));
        return;
    }
    if (a->reset && h->life.registered) { /* else there is nothing to drop */
        LOG_WARN(h->options.log, "the service says reset: all is dropped, and we register again");
        bool admitted = a->incarnation > h->self.incarnation;

        life_reset(&h->life);
        drop_all(h);
        /* Admitted anew under the instance that we sent: another one would be a second process. */
        if (!admitted) new_instance(h);
        verdict = h->drain ? LIFE_KEPT : LIFE_REGISTER;
    }
    if (verdict == LIFE_REGISTER) register_now(h, h->life.interval_ms);
    if (verdict == LIFE_KEPT && a->fence_ms && life_fence_changed(&h->life, a->fence_ms)) {
        LOG_WARN(h->options.log,
                 "the coordinators' worker_self_fence_timeout changed; registering again",
                 log_u64("coordinator_ms", a->fence_ms), log_u64("in_force_ms", h->life.fence_ms));
        register_now(h, h->life.interval_ms);
    }
    if (verdict == LIFE_KEPT && a->next_beat_ms && life_advised(&h->life, a->next_beat_ms))
        register_now(h, a->next_beat_ms);
    if (a->checkpoint_round) rounds_begin(h, a->checkpoint_round);
    look_at_stream(h, a);
    if (a->drain) worker_host_drain(h);
}

/* Another process has our id: whatever we hold is not ours to work on, and we ask more rarely. */
static void id_in_use(struct worker_host *h, struct str why)
{
    /* After a restart the first refusals are usual: the process before was heard a moment ago. */
    bool usual = h->life.refusals < REFUSALS_USUAL;
    uint64_t pause_ms = life_refused(&h->life);

    LOG_AT(h->options.log, usual ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
           "not registered: the worker id is in use by another process; trying again",
           log_str("why", why), log_u64("after_ms", pause_ms), LOG_END);
    if (!h->life.registered) return;
    life_reset(&h->life);
    let_go(h);
}

void host_beat_answered(struct worker_host *h, boot_time sent, uint64_t lease_ms,
                        const struct link_beat_answer *answer)
{
    bool draining = h->beat_phase == LIFE_DRAINING;

    (void)host_look(h);
    if (h->closing) return;
    if (answer->in_use) {
        id_in_use(h, answer->text);
    } else if (answer->err) {
        LOG_WARN(h->options.log, "a beat was not acknowledged", log_i64("status", answer->status),
                 log_str("why", answer->text));
        h->counts.beats_failed++;
        if (answer->reset) { /* not acknowledged, because of what we are */
            life_reset(&h->life);
            let_go(h);
        }
    } else {
        take_answer(h, sent, lease_ms, answer);
    }
    if (draining && h->drain) {
        h->drain_beat_over = true;
        h->drain_beat_ok = !answer->err;
    }
    host_drain_on(h);
    host_pump_soon(h);
    if (!h->closing) schedule(h);
}

/* Refuses terms that the worker cannot keep, and says which keys contradict each other. */
static bool terms_fit(struct worker_host *h, const struct life_terms *terms)
{
    const struct worker_host_options *o = &h->options;
    uint64_t fence_ms = life_fence_ms(&h->life, terms);

    if (!life_terms_fit(&h->life, terms)) {
        LOG_ERROR(o->log,
                  "not registered: heartbeat_interval must be shorter than "
                  "worker_self_fence_timeout, and that shorter than coordinator_failure_timeout; "
                  "the coordinator's file and this worker's contradict each other",
                  log_u64("heartbeat_interval_ms", o->heartbeat_interval_ms),
                  log_u64("worker_self_fence_timeout_ms", fence_ms),
                  log_u64("coordinator_failure_timeout_ms", terms->failure_ms));
        return false;
    }
    if (fence_ms < o->self_fence_timeout_ms && fence_ms != h->life.fence_ms)
        LOG_WARN(o->log,
                 "the coordinator's worker_self_fence_timeout is shorter than this worker's, and "
                 "is used",
                 log_u64("coordinator_ms", fence_ms), log_u64("own_ms", o->self_fence_timeout_ms));
    return true;
}

/* The service believes that we are registered: leave again, unless work of an earlier registration
 * may still be under way. Then silence under the old instance lets its fence time pass. */
static void refuse_terms(struct worker_host *h, const struct link_registration *a)
{
    bool worked = h->life.registered || h->job_runs;

    life_reset(&h->life);
    let_go(h);
    if (!worked) {
        struct link_self gone = h->self;

        gone.incarnation = a->incarnation;
        (void)link_leave(h->link, &gone, "times contradict the coordinator's");
    }
    (void)life_refused(&h->life);
    schedule(h);
}

void host_registered(struct worker_host *h, uint64_t lease_ms, const struct link_registration *a)
{
    bool foreign = a->err && a->status == GRPC_UNIMPLEMENTED;

    (void)host_look(h);
    if (h->closing || h->drain) return;
    if (a->err && a->status == GRPC_ALREADY_EXISTS) {
        id_in_use(h, a->text);
        schedule(h);
        return;
    }
    if (a->err && !foreign) {
        LOG_WARN(h->options.log, "not registered", log_i64("status", a->status),
                 log_str("why", a->text));
        return; /* the next answer to a beat asks again */
    }
    if (!foreign && a->coord_epoch < h->life.coord_epoch) return;
    if (!terms_fit(h, &a->terms)) {
        refuse_terms(h, a);
        return;
    }
    h->legacy = foreign;
    life_registered(&h->life, lease_ms / 2, &a->terms);
    if (!h->life.registered) return; /* fenced meanwhile */
    if (!foreign && a->incarnation != h->self.incarnation) {
        parts_drop_all(h);
        h->self.incarnation = a->incarnation;
        h->self.assignment_epoch = 0;
    }
    LOG_INFO(h->options.log, "registered", log_u64("incarnation", a->incarnation),
             log_u64("assignment_epoch", a->assignment_epoch), log_bool("beats_only", foreign),
             log_text("coordinator", link_peer(h->link)));
    if (h->options.plugins) plugins_resume(h->options.plugins);
    if (!foreign) link_watch(h->link, &h->self);
    schedule(h);
}

void host_assigned(struct worker_host *h, const struct link_assignment *a)
{
    if (!host_look(h) || h->closing) return;
    if (!h->life.registered || a->incarnation != h->self.incarnation ||
        a->coord_epoch < h->life.coord_epoch)
        return;
    if (a->reset) {
        life_reset(&h->life);
        let_go(h);
        life_beat_now(&h->life);
        schedule(h);
        return;
    }
    parts_assign(h, a);
    rounds_begin(h, a->checkpoint_round);
    link_watch(h->link, &h->self);
}

/* -- draining -- */

static void drained(struct worker_host *h, bool in_time)
{
    if (h->drain == DRAIN_DONE) return;
    h->drain = DRAIN_DONE;
    timer_stop(&h->drain_timer);
    h->options.on_drained(h->options.owner, in_time);
}

/* Leave says all that an AckRevoke did not. */
void host_answered(struct worker_host *h, enum link_call call, enum err err)
{
    if (call == LINK_LEAVE && err)
        LOG_WARN(h->options.log, "our leave was not answered", log_err("err", err));
    if (call != LINK_LEAVE) (void)host_look(h);
    if (h->closing) return;
    if (call == LINK_LEAVE && h->drain == DRAIN_LEAVE) drained(h, true);
    if (call == LINK_ACK_CHECKPOINT) rounds_acked(h, err);
    if (call != LINK_ACK_REVOKE) return;
    acks_answered(h, err);
    if (err && h->drain == DRAIN_ACK) acks_forget(h);
    host_drain_on(h);
}

static void on_drain_deadline(struct timer *timer)
{
    drained(CONTAINER_OF(timer, struct worker_host, drain_timer), false);
}

void host_drain_on(struct worker_host *h)
{
    if (h->closing || h->drain == DRAIN_NO || h->drain == DRAIN_DONE) return;
    if (h->drain == DRAIN_WORK) {
        if (!h->drain_beat_over || tenures_held(&h->tenures) || h->job_runs) return;
        if (!h->drain_beat_ok || !h->self.incarnation) { /* nobody there, or nobody to leave */
            drained(h, true);
            return;
        }
        h->drain = DRAIN_ACK;
        acks_send(h);
    }
    if (h->drain == DRAIN_ACK) {
        if (h->ack_count) return;
        h->drain = DRAIN_LEAVE;
        if (!link_leave(h->link, &h->self, "drained")) drained(h, true);
    }
}

void worker_host_drain(struct worker_host *h)
{
    (void)host_look(h);
    if (h->drain) return;
    LOG_INFO(h->options.log, "draining", log_u64("partitions", tenures_held(&h->tenures)));
    h->drain = DRAIN_WORK;
    life_drain(&h->life);
    tenures_leave_all(&h->tenures);
    timer_start_in(&h->drain_timer, h->options.drain_deadline_ms);
    host_pump_soon(h);
    schedule(h);
}

void worker_host_plugins_changed(struct worker_host *h)
{
    host_pump_soon(h);
}

/* -- life -- */

#define COUNTER(member) METRIC_COUNTER, METRIC_FIELD(struct host_counts, member)
static const struct metric_field metric_rows[] = {
    {"muster_worker_records_total", "input records that were read", COUNTER(records)},
    {"muster_worker_checkpoints_total", "checkpoints that were written", COUNTER(checkpoints)},
    {"muster_worker_checkpoints_failed_total", "checkpoints that could not be written",
     COUNTER(checkpoints_failed)},
    {"muster_worker_claims_total", "partitions that were taken over", COUNTER(claims)},
    {"muster_worker_fences_total", "how often the worker fenced itself", COUNTER(fences)},
    {"muster_worker_beats_total", "beats that were sent", COUNTER(beats)},
    {"muster_worker_beats_failed_total", "beats that were not acknowledged", COUNTER(beats_failed)},
    {"muster_worker_partitions", "partitions that are held", METRIC_GAUGE,
     METRIC_FIELD(struct host_counts, partitions)},
};

static enum err open_link(struct worker_host *h, struct note *note)
{
    const struct worker_host_options *o = &h->options;
    struct link_options options = {.io = o->io,
                                   .addresses = o->coordinators,
                                   .tls = o->tls,
                                   .tls_name = o->tls_name,
                                   .metrics = o->rpc_metrics,
                                   .worker_id = o->worker_id,
                                   .run_id = o->run_id,
                                   .host = h};

    return link_open(&options, &h->link, note);
}

static void set_free(void *owner)
{
    struct worker_host *h = owner;
    void (*done)(void *) = h->done;
    void *done_owner = h->done_owner;

    task_cancel(&h->pump);
    timer_deinit(&h->tick);
    timer_deinit(&h->idle);
    timer_deinit(&h->drain_timer);
    free(h->acks);
    free(h);
    if (done) done(done_owner);
}

enum err worker_host_open(const struct worker_host_options *options, struct worker_host **ret_host,
                          struct note *note)
{
    struct worker_host *h = calloc(1, sizeof *h);
    struct worker_options thread = {.name = "process", .jobs_max = JOBS_MAX};
    struct life_options life = {.interval_ms = options->heartbeat_interval_ms,
                                .fence_ms = options->self_fence_timeout_ms};
    struct loop *loop = options->io->loop;
    enum err err;

    if (!h) return ERR_NOMEM;
    h->options = *options;
    life.seed = entropy_u64(options->io->entropy);
    life_init(&h->life, &life, host_now(h));
    tenures_init(&h->tenures);
    task_init(&h->pump, parts_pump);
    new_instance(h);
    err = timer_init(&h->tick, loop, on_tick);
    if (!err) err = timer_init(&h->idle, loop, parts_idle_over);
    if (!err) err = timer_init(&h->drain_timer, loop, on_drain_deadline);
    if (!err && options->metrics)
        err = metrics_add_fields(options->metrics, metric_rows, ARRAY_LEN(metric_rows), &h->metrics,
                                 note);
    if (!err) err = worker_open(loop, &thread, &h->thread);
    if (!err) err = open_link(h, note);
    if (err) {
        h->closing = true;
        worker_close(h->thread);
        set_free(h);
        return err;
    }
    schedule(h); /* the first beat, at once */
    *ret_host = h;
    return ERR_OK;
}

void worker_host_close(struct worker_host *h, void (*done)(void *owner), void *owner)
{
    if (!h) {
        if (done) done(owner);
        return;
    }
    h->closing = true;
    h->done = done;
    h->done_owner = owner;
    timer_stop(&h->tick);
    timer_stop(&h->idle);
    timer_stop(&h->drain_timer);
    worker_close(h->thread); /* waits for the job; its end frees what it had */
    parts_drop_all(h);
    link_close(h->link, set_free, h);
}
