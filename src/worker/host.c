/* SPDX-License-Identifier: Apache-2.0 */
/* Sends heartbeats, registers, and implements the fence and the drain. Every event first checks the
 * fence. Runs on the event loop's thread. */
#include "worker/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/host_internal.h"

enum {
    BEAT_TIMEOUT_MAX_MS = 1000,
    FENCE_LOOK_MS = 1, /* the fence is checked this long after good_until */
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

static void host_new_instance(struct worker_host *h)
{
    uint64_t high = entropy_u64(h->options.io->entropy), low = entropy_u64(h->options.io->entropy);

    snprintf(h->self.instance, sizeof h->self.instance, "%016" PRIx64 "%016" PRIx64, high, low);
}

static void host_drop_all(struct worker_host *h)
{
    parts_drop_all(h);
    watch_end(h);
    h->round = h->round_acked = h->round_sent = 0;
    h->self.incarnation = h->self.assignment_epoch = 0;
    h->counts.partitions = 0;
}

static void host_forget(struct worker_host *h)
{
    life_reset(&h->life);
    host_drop_all(h);
    host_new_instance(h);
}

bool host_check_fence(struct worker_host *h)
{
    boot_time now = host_now(h);

    if (!life_fence_falls(&h->life, now)) return true;
    LOG_WARN(h->options.log, "fenced: no coordinator answered in time, so all work has stopped",
             log_u64("timeout_ms", h->life.fence_ms),
             log_u64("partitions", tenures_held(&h->tenures)));
    h->counts.fences++;
    host_forget(h);
    if (h->options.plugins) plugins_halt(h->options.plugins);
    h->options.on_fenced(h->options.owner);
    host_drain_step(h);
    return false;
}

static void host_schedule(struct worker_host *h)
{
    uint64_t now = host_now(h).ms, next = h->life.next_beat.ms;
    uint64_t good_until = life_good_until(&h->life).ms;

    if (h->beating) next = UINT64_MAX; /* the heartbeat's answer or timeout is the next event */
    if (good_until) next = min_u64(next, good_until + FENCE_LOOK_MS);
    if (next == UINT64_MAX) next = now + BEAT_TIMEOUT_MAX_MS;
    timer_start_in(&h->tick, next > now ? next - now : 0);
}

/* -- heartbeats -- */

static double host_load(struct worker_host *h)
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

static void host_beat(struct worker_host *h)
{
    /* The timeout is short, so that several heartbeats fit into the fence time. */
    uint64_t timeout_ms = min_u64(BEAT_TIMEOUT_MAX_MS, max_u64(h->life.fence_ms / 4, 1));

    if (h->beating) return;
    life_beat_sent(&h->life, host_now(h));
    h->counts.beats += beat_send(h, life_phase(&h->life), timeout_ms, host_load(h));
}

static void host_on_tick(struct timer *timer)
{
    struct worker_host *h = CONTAINER_OF(timer, struct worker_host, tick);

    (void)host_check_fence(h);
    if (h->closing) return;
    if (host_now(h).ms >= h->life.next_beat.ms) host_beat(h);
    acks_send(h);
    rounds_check(h);
    metrics_set_fields(h->metrics, &h->counts);
    host_schedule(h);
}

/* If the stream stays behind the assignments in heartbeat answers, it is opened at another
 * coordinator. */
static void host_check_stream(struct worker_host *h, const struct beat_answer *a)
{
    if (h->legacy || !h->life.registered || !h->self.incarnation) return;
    h->beats_behind = a->assignment_epoch > h->self.assignment_epoch ? h->beats_behind + 1 : 0;
    if (h->beats_behind >= BEHIND_MAX) {
        h->beats_behind = 0;
        watch_end(h);
    }
    watch_keep(h);
}

static void host_take_answer(struct worker_host *h, const struct beat_answer *a)
{
    uint64_t epoch = a->has_epoch ? a->coord_epoch : h->life.coord_epoch;
    enum life_answer verdict =
        life_answered(&h->life, h->beat_sent, h->beat_lease_ms, epoch, h->life.seen);

    if (verdict == LIFE_STALE) {
        LOG_WARN(h->options.log, "ignored an outdated answer of a coordinator",
                 log_u64("coord_epoch", a->coord_epoch), log_u64("seen", h->life.coord_epoch));
        return;
    }
    if (a->reset && h->life.registered) { /* otherwise the worker holds nothing to drop */
        LOG_WARN(h->options.log,
                 "the coordinators reset this worker: it drops all partitions and registers again");
        bool admitted = a->incarnation > h->self.incarnation;

        life_reset(&h->life);
        host_drop_all(h);
        /* A coordinator that admitted the instance would take a new instance for a second
         * process. */
        if (!admitted) host_new_instance(h);
        verdict = h->drain ? LIFE_KEPT : LIFE_REGISTER;
    }
    if (verdict == LIFE_REGISTER) call_register(h, h->life.interval_ms);
    if (verdict == LIFE_KEPT && a->fence_ms && life_fence_changed(&h->life, a->fence_ms)) {
        LOG_WARN(h->options.log,
                 "worker_self_fence_timeout of the coordinators changed: registering again",
                 log_u64("coordinator_ms", a->fence_ms), log_u64("in_force_ms", h->life.fence_ms));
        call_register(h, h->life.interval_ms);
    }
    if (verdict == LIFE_KEPT && a->next_beat_ms && life_advised(&h->life, a->next_beat_ms))
        call_register(h, a->next_beat_ms);
    if (a->checkpoint_round) rounds_begin(h, a->checkpoint_round);
    host_check_stream(h, a);
    if (a->drain) worker_host_drain(h);
}

static void host_id_in_use(struct worker_host *h, struct str why)
{
    /* After a restart a few refusals are normal, because the previous process was just active. */
    bool usual = h->life.refusals < REFUSALS_USUAL;
    uint64_t pause_ms = life_refused(&h->life);

    LOG_AT(h->options.log, usual ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
           "not registered: the worker id is in use by another process; retrying",
           log_str("why", why), log_u64("after_ms", pause_ms), LOG_END);
    if (!h->life.registered) return;
    host_forget(h);
}

void host_beat_answered(struct worker_host *h, const struct beat_answer *answer)
{
    bool draining = h->beat_phase == LIFE_DRAINING;

    (void)host_check_fence(h);
    if (h->closing) return;
    if (answer->in_use) {
        host_id_in_use(h, answer->text);
    } else if (answer->err) {
        LOG_WARN(h->options.log, "heartbeat was not acknowledged",
                 log_i64("status", answer->status), log_str("why", answer->text));
        h->counts.beats_failed++;
        if (answer->reset) host_forget(h); /* the coordinator refuses this registration */
    } else {
        host_take_answer(h, answer);
    }
    if (draining && h->drain) {
        h->drain_beat_over = true;
        h->drain_beat_ok = !answer->err;
    }
    host_drain_step(h);
    host_pump_soon(h);
    if (!h->closing) host_schedule(h);
}

static bool host_terms_fit(struct worker_host *h, const struct life_terms *terms)
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
                 "worker_self_fence_timeout of the coordinators is shorter than this worker's and "
                 "is used",
                 log_u64("coordinator_ms", fence_ms), log_u64("own_ms", o->self_fence_timeout_ms));
    return true;
}

/* Refuses a registration's terms. Leave ends the registration, but is not sent while a job of an
 * earlier registration may still run. */
static void host_refuse_terms(struct worker_host *h, uint64_t incarnation)
{
    bool worked = h->life.registered || h->job_runs;

    host_forget(h);
    if (!worked) (void)call_leave(h, incarnation, "times contradict the coordinator's");
    (void)life_refused(&h->life);
    host_schedule(h);
}

/* If the coordinator sends no terms, the worker uses its own. */
void host_registered(struct worker_host *h, const struct rpc_outcome *outcome,
                     const Muster__V1__RegisterResponse *response)
{
    static const Muster__V1__RegisterResponse none = MUSTER__V1__REGISTER_RESPONSE__INIT;
    bool foreign = !response && outcome->status == GRPC_UNIMPLEMENTED;
    const Muster__V1__RegisterResponse *a = response ? response : &none;
    struct life_terms terms = {.fence_ms = a->self_fence_timeout_ms,
                               .failure_ms = a->failure_timeout_ms,
                               .interval_ms = a->base_interval_ms};

    (void)host_check_fence(h);
    if (h->closing || h->drain) return;
    if (!response && outcome->status == GRPC_ALREADY_EXISTS) {
        host_id_in_use(h, outcome->text);
        host_schedule(h);
        return;
    }
    if (!response && !foreign) {
        LOG_WARN(h->options.log, "registration failed: retrying",
                 log_i64("status", outcome->status), log_str("why", outcome->text));
        return; /* the next heartbeat's answer requests a registration again */
    }
    if (!foreign && a->coord_epoch < h->life.coord_epoch) return;
    if (!host_terms_fit(h, &terms)) {
        host_refuse_terms(h, a->incarnation);
        return;
    }
    h->legacy = foreign;
    life_registered(&h->life, h->register_interval_ms, &terms);
    if (!h->life.registered) return; /* fenced in the meantime */
    if (!foreign && a->incarnation != h->self.incarnation) {
        parts_drop_all(h);
        h->self.incarnation = a->incarnation;
        h->self.assignment_epoch = 0;
    }
    LOG_INFO(h->options.log, "worker registered with the coordinator",
             log_u64("incarnation", a->incarnation),
             log_u64("assignment_epoch", a->assignment_epoch), log_bool("beats_only", foreign),
             log_text("coordinator", rpc_channel_peer(h->channel)));
    if (h->options.plugins) plugins_resume(h->options.plugins);
    if (!foreign) watch_keep(h);
    host_schedule(h);
}

void host_assigned(struct worker_host *h, const Muster__V1__AssignmentResponse *response,
                   struct grant *grants, size_t count)
{
    if (!host_check_fence(h) || h->closing) return;
    if (!h->life.registered || response->incarnation != h->self.incarnation ||
        response->coord_epoch < h->life.coord_epoch)
        return;
    if (response->reset) {
        host_forget(h);
        life_beat_now(&h->life);
        host_schedule(h);
        return;
    }
    parts_assign(h, response->assignment_epoch, grants, count);
    rounds_begin(h, response->checkpoint_round);
    watch_keep(h);
}

/* -- draining -- */

static void host_drained(struct worker_host *h, bool in_time)
{
    if (h->drain == DRAIN_DONE) return;
    h->drain = DRAIN_DONE;
    timer_stop(&h->drain_timer);
    h->options.on_drained(h->options.owner, in_time);
}

void host_answered(struct worker_host *h, enum host_call call, enum err err)
{
    if (call == CALL_LEAVE && err)
        LOG_WARN(h->options.log, "no coordinator confirmed that this worker left",
                 log_err("err", err));
    if (call != CALL_LEAVE) (void)host_check_fence(h);
    if (h->closing) return;
    if (call == CALL_LEAVE && h->drain == DRAIN_LEAVE) host_drained(h, true);
    if (call == CALL_ACK_CHECKPOINT) rounds_acked(h, err);
    if (call != CALL_ACK_REVOKE) return;
    /* A refused acknowledgement came too late and is not repeated. While draining none is repeated,
     * because Leave has the same effect. */
    if (h->drain == DRAIN_ACK) err = ERR_OK;
    tenures_acked(&h->tenures, !err);
    if (!err) acks_send(h); /* after an error, the next heartbeat sends them again */
    host_drain_step(h);
}

static void host_on_drain_deadline(struct timer *timer)
{
    host_drained(CONTAINER_OF(timer, struct worker_host, drain_timer), false);
}

void host_drain_step(struct worker_host *h)
{
    if (h->closing || h->drain == DRAIN_NO || h->drain == DRAIN_DONE) return;
    if (h->drain == DRAIN_WORK) {
        if (!h->drain_beat_over || tenures_held(&h->tenures) || h->job_runs) return;
        if (!h->drain_beat_ok || !h->self.incarnation) {
            host_drained(h, true);
            return;
        }
        h->drain = DRAIN_ACK;
        acks_send(h);
    }
    if (h->drain == DRAIN_ACK) {
        if (tenures_unacked(&h->tenures)) return;
        h->drain = DRAIN_LEAVE;
        if (!call_leave(h, h->self.incarnation, "drained")) host_drained(h, true);
    }
}

void worker_host_drain(struct worker_host *h)
{
    (void)host_check_fence(h);
    if (h->drain) return;
    LOG_INFO(h->options.log, "draining: partitions are given back",
             log_u64("partitions", tenures_held(&h->tenures)));
    h->drain = DRAIN_WORK;
    life_drain(&h->life);
    tenures_leave_all(&h->tenures);
    timer_start_in(&h->drain_timer, h->options.drain_deadline_ms);
    host_pump_soon(h);
    host_schedule(h);
}

void worker_host_plugins_changed(struct worker_host *h)
{
    host_pump_soon(h);
}

/* -- open and close -- */

#define COUNTER(member) METRIC_COUNTER, METRIC_FIELD(struct host_counts, member)
static const struct metric_field metric_rows[] = {
    {"muster_worker_records_total", "Input records read.", COUNTER(records)},
    {"muster_worker_checkpoints_total", "Checkpoints written.", COUNTER(checkpoints)},
    {"muster_worker_checkpoints_failed_total", "Checkpoints that could not be written.",
     COUNTER(checkpoints_failed)},
    {"muster_worker_claims_total", "Partitions that the worker took over.", COUNTER(claims)},
    {"muster_worker_fences_total", "Times that the worker fenced itself.", COUNTER(fences)},
    {"muster_worker_beats_total", "Heartbeats sent.", COUNTER(beats)},
    {"muster_worker_beats_failed_total", "Heartbeats that were not acknowledged.",
     COUNTER(beats_failed)},
    {"muster_worker_partitions", "Partitions that the worker holds.", METRIC_GAUGE,
     METRIC_FIELD(struct host_counts, partitions)},
};

static void host_free(void *owner)
{
    struct worker_host *h = owner;
    void (*done)(void *) = h->done;
    void *done_owner = h->done_owner;

    task_cancel(&h->pump);
    timer_deinit(&h->tick);
    timer_deinit(&h->idle);
    timer_deinit(&h->drain_timer);
    timer_deinit(&h->watch_again);
    buf_deinit(&h->request);
    buf_deinit(&h->row);
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
    host_new_instance(h);
    err = timer_init(&h->tick, loop, host_on_tick);
    if (!err) err = timer_init(&h->idle, loop, parts_idle_over);
    if (!err) err = timer_init(&h->drain_timer, loop, host_on_drain_deadline);
    if (!err && options->metrics)
        err = metrics_add_fields(options->metrics, metric_rows, ARRAY_LEN(metric_rows), &h->metrics,
                                 note);
    if (!err) err = worker_open(loop, &thread, &h->thread);
    if (!err) err = calls_open(h, note);
    if (err) {
        h->closing = true;
        worker_close(h->thread);
        host_free(h);
        return err;
    }
    host_schedule(h); /* sends the first heartbeat immediately */
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
    timer_stop(&h->watch_again);
    worker_close(h->thread);
    parts_drop_all(h);
    rpc_channel_close(h->channel, host_free, h);
}
