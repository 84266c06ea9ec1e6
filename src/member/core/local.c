/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's own state: watches each worker, processes its heartbeats, and turns verdicts of the
 * failure detector into operations. Pure; runs on the loop's thread of a leader. */
#include "member/core/local.h"

#include <stdlib.h>
#include <string.h>

#include "member/core/local_internal.h"

/* time until a proposal that was not applied is repeated */
#define AGAIN_NS (1000 * MEMBER_NS_PER_MS)
enum {
    BATCH_OPS = 4096,    /* operations per scan */
    SUSPECTS_MAX = 2048, /* suspects named in a batch; if there are more, no partition moves */
    VERDICTS = 256,
    LOAD_SECONDS = 60,   /* the mean load covers this time */
    EVENTS_MAX = 100000, /* unread leader-only events; above this the oldest are dropped */
};

void member_local_defaults(struct member_local_options *ret_options)
{
    *ret_options = (struct member_local_options){
        .self_fence_ns = 4000 * MEMBER_NS_PER_MS,
        .beat_budget = 20000,
        .unknown_beat = MEMBER_UNKNOWN_REGISTER,
        .checkpoint_interval_ns = 10000 * MEMBER_NS_PER_MS,
        .checkpoint_ack_timeout_ns = 60000 * MEMBER_NS_PER_MS,
        .checkpoint_flush_ns = 5000 * MEMBER_NS_PER_MS,
    };
    detect_defaults(&ret_options->detect);
}

bool batch_put(struct batch *batch, const struct member_op *op)
{
    enum err err;

    if (batch->full || batch->err) return false;
    if (batch->count == BATCH_OPS)
        err = ERR_FULL;
    else
        err = member_batch_add(batch->into, op);
    batch->full = err == ERR_FULL;
    if (err && !batch->full) batch->err = err;
    if (!err) batch->count++;
    return !err;
}

/* -- leader-only events -- */
static struct local_event *take_event(struct member_local *local)
{
    struct list *node = list_pop(&local->events);

    if (!node) return NULL;
    local->counts.events--;
    return CONTAINER_OF(node, struct local_event, link);
}

void local_report(struct member_local *local, enum member_topic topic, const struct worker *worker,
                  int64_t wall_ms, const struct member_event *with)
{
    struct str id = worker ? worker_id(worker) : STR_EMPTY;
    struct local_event *row = malloc(sizeof *row + id.len);
    char *at = row ? row->worker : NULL;

    if (!row) return; /* observations may be lost, because decisions are replicated */
    if (local->counts.events == EVENTS_MAX) free(take_event(local)); /* drops the oldest */
    row->event = *with;
    row->event.topic = topic;
    row->event.wall_ms = wall_ms;
    row->event.text = STR_EMPTY;
    row->event.incarnation = worker ? worker->incarnation : 0;
    row->event.worker = str_put(&at, id);
    list_init(&row->link);
    list_append(&local->events, &row->link);
    local->counts.events++;
}

bool member_local_next_event(struct member_local *local, struct member_event *ret_event)
{
    free(local->taken);
    local->taken = take_event(local);
    if (local->taken) *ret_event = local->taken->event;
    return local->taken;
}

/* -- intervals, leases and fences -- */
/* The longest interval a worker may use: the last or the previous advised interval. */
static uint64_t advised_ns(const struct member_local *local)
{
    const struct member_head *head = &local->m->head;
    uint64_t ms = head->advised_ms;

    if (head->advised_before_until_ns > local->m->clock_ns)
        ms = max_u64(ms, head->advised_before_ms);
    return max_u64(ms * MEMBER_NS_PER_MS, local->options.detect.heartbeat_interval_ns);
}

/* At least two intervals: with a shorter lease, workers would fail before they fence themselves. */
static uint64_t local_lease_of(const struct member_local *local, const struct worker *worker)
{
    return max_u64(worker->lease_ms * MEMBER_NS_PER_MS,
                   2 * local->options.detect.heartbeat_interval_ns);
}

/* How long the worker may still run after its last heartbeat; 0: it has fenced itself. */
static uint64_t fence_left(const struct member_local *local, const struct local_worker *l,
                           uint64_t now_ns)
{
    const struct detect_options *d = &local->options.detect;
    uint64_t until = l->heard_ns + local->options.self_fence_ns + d->clock_skew_budget_ns +
                     2 * (advised_ns(local) - d->heartbeat_interval_ns);

    return until > now_ns ? until - now_ns : 0;
}

/* -- watched workers -- */
static void unsuspect(struct local_worker *l)
{
    if (!list_empty(&l->suspected)) l->local->counts.suspected--;
    list_remove(&l->suspected);
}

void local_forget(struct local_worker *l)
{
    if (!l) return;
    detect_forget(l->local->detect, &l->watched);
    unsuspect(l);
    list_remove(&l->sentenced);
    list_remove(&l->changed);
    list_remove(&l->ready);
    list_remove(&l->ask);
    l->worker->local = NULL;
    l->local->counts.watched--;
    free(l);
}

static struct local_worker *watch(struct member_local *local, struct worker *worker,
                                  uint64_t now_ns)
{
    struct local_worker *l = member_must(calloc(1, sizeof *l));

    local_forget(worker->local);
    l->local = local;
    l->worker = worker;
    l->incarnation = worker->incarnation;
    l->phase = worker->ready ? MEMBER_READY : MEMBER_INIT;
    l->heard_ns = now_ns;
    l->watched.owner = l;
    list_init(&l->suspected);
    list_init(&l->changed);
    list_init(&l->ready);
    list_init(&l->sentenced);
    list_init(&l->ask);
    worker->local = l;
    local->counts.watched++;
    detect_watch(local->detect, &l->watched,
                 max_u64(local_lease_of(local, worker), 2 * advised_ns(local)), now_ns);
    return l;
}

static bool owes(const struct worker *worker)
{
    LIST_EACH(&worker->partitions, node)
    {
        const struct partition *p = CONTAINER_OF(node, const struct partition, held);

        if (p->state == MEMBER_REVOKING && p->timeouts) return true;
    }
    return false;
}

/* True if missing heartbeats may be the leader's fault: the leader was slow, or has just begun to
 * lead. */
static bool is_slow(const struct member_local *local, uint64_t now_ns)
{
    return now_ns - local->scanned_ns >
           detect_cadence_ns(local->detect) + local->options.detect.failure_timeout_ns / 2;
}

/* True if a missing release is the worker's fault: the leader was fast for the whole revoke
 * timeout. */
static bool had_its_time(const struct member_local *local, uint64_t now_ns)
{
    return !is_slow(local, now_ns) &&
           now_ns - local->fair_ns >= local->m->head.rules.revoke_timeout_ms * MEMBER_NS_PER_MS;
}

static void sentence(struct member_local *local, struct local_worker *l, enum sentence what,
                     uint64_t now_ns)
{
    l->sentence = what;
    l->sentence_ns = now_ns;
    if (list_empty(&l->sentenced)) list_append(&local->sentenced, &l->sentenced);
}

static void local_check(const struct member_local *local)
{
    assert(!local->counts.suspected == list_empty(&local->suspected)); /* invariant L2 */
}

static void look_at(struct member_local *local, struct worker *worker, uint64_t now_ns)
{
    struct local_worker *l = worker->local;

    if (worker->standing != MEMBER_ACTIVE) {
        local_forget(l);
        worker->local = NULL;
        return;
    }
    if (!l || l->incarnation != worker->incarnation) l = watch(local, worker, now_ns);
    l->version = local->m->index;
    if (list_empty(&l->changed)) list_append(&local->changed, &l->changed);
    if (local->m->head.rules.evict_on_revoke_timeout && !l->sentence && owes(worker) &&
        had_its_time(local, now_ns)) {
        sentence(local, l, SENTENCE_EVICT, now_ns);
        l->sentence_ns = 0; /* the next scan proposes the sentence again */
    }
}

enum err member_local_open(struct membership *m, const struct member_local_options *options,
                           uint64_t now_ns, struct member_local **ret_local)
{
    struct member_local *local = calloc(1, sizeof *local);
    struct order_place place = order_begin(&m->workers);
    struct worker *worker;
    enum err err;

    assert(!m->local);
    if (!local) return ERR_NOMEM;
    local->m = m;
    local->options = *options;
    list_init(&local->suspected);
    list_init(&local->changed);
    list_init(&local->ready);
    list_init(&local->sentenced);
    list_init(&local->asks);
    list_init(&local->fresh);
    list_init(&local->events);
    err = options->beat_budget && options->checkpoint_interval_ns
              ? detect_open(&options->detect, now_ns, &local->detect)
              : ERR_INVALID;
    if (err) {
        free(local);
        return err;
    }
    local->round_ns = local->flushed_ns = local->timed_ns = local->scanned_ns = now_ns;
    local->fair_ns = now_ns;
    local->counts.round = m->head.round;
    m->local = local;
    while ((worker = order_next(&place)) != NULL) look_at(local, worker, now_ns);
    *ret_local = local;
    return ERR_OK;
}

void member_local_close(struct member_local *local)
{
    struct membership *m = local ? local->m : NULL;
    struct order_place place;
    struct worker *worker;

    if (!local) return;
    place = order_begin(&m->workers);
    while ((worker = order_next(&place)) != NULL) local_forget(worker->local);
    while (!list_empty(&m->touched)) (void)list_pop(&m->touched);
    do free(local->taken);
    while ((local->taken = take_event(local)));
    rounds_close(local);
    detect_close(local->detect);
    m->local = NULL;
    free(local);
}

void member_local_options_take(struct member_local_options *options,
                               const struct member_local_options *next)
{
    struct detect_options *detect = &options->detect, was = *detect;

    *detect = next->detect;
    detect->kind = was.kind;
    detect->heartbeat_interval_ns = was.heartbeat_interval_ns;
    detect->clock_skew_budget_ns = was.clock_skew_budget_ns;
    detect->failure_timeout_ns = was.failure_timeout_ns;
    options->checkpoint_interval_ns = next->checkpoint_interval_ns;
    options->checkpoint_ack_timeout_ns = next->checkpoint_ack_timeout_ns;
    options->checkpoint_min_pause_ns = next->checkpoint_min_pause_ns;
    options->checkpoint_max_failures = next->checkpoint_max_failures;
}

enum err member_local_reload(struct member_local *local, const struct member_local_options *next)
{
    struct member_local_options options = local->options;
    enum err err;

    member_local_options_take(&options, next);
    err = options.checkpoint_interval_ns ? detect_reload(local->detect, &options.detect)
                                         : ERR_INVALID;
    if (!err) local->options = options;
    return err;
}

void member_local_sync(struct member_local *local, uint64_t now_ns)
{
    struct list *node;

    while ((node = list_pop(&local->m->touched)) != NULL)
        look_at(local, CONTAINER_OF(node, struct worker, touched), now_ns);
    local_check(local);
    assert(local->counts.watched == local->m->of_standing[MEMBER_ACTIVE]); /* invariant L1 */
}

struct local_worker *local_find(const struct member_local *local, struct str id)
{
    const struct worker *worker = worker_find(local->m, id);

    return worker ? worker->local : NULL;
}

/* -- heartbeats -- */
static void take_load(struct member_local *local, struct local_worker *l,
                      const struct member_beat *beat, uint64_t now_ns)
{
    double seconds = (double)(now_ns - l->load_ns) / 1e9, weight = seconds / LOAD_SECONDS;

    if (!beat->has_load) return;
    if (!(beat->load >= 0 && beat->load <= 1)) {
        local->counts.bad_loads++;
        return;
    }
    if (!l->has_load || weight > 1) weight = 1;
    l->load_mean += weight * (beat->load - l->load_mean);
    l->load = beat->load;
    l->load_ns = now_ns;
    l->has_load = true;
}

/* A worker may not have received the longer interval that it was sent. The worker's due time shows
 * which interval it uses. */
static void hear(struct member_local *local, struct local_worker *l, const struct member_beat *beat,
                 uint64_t now_ns, int64_t wall_ms, struct member_heard *heard)
{
    uint64_t short_ns = local_lease_of(local, l->worker), long_ns = 2 * advised_ns(local);
    int64_t lead_ms = beat->due.has_due ? beat->due.due_wall_ms - wall_ms : 0;
    bool took =
        long_ns > short_ns && lead_ms > (int64_t)((short_ns + long_ns) / 2 / MEMBER_NS_PER_MS);
    struct beat_heard was;
    struct member_event event = {0};

    detect_lease(local->detect, &l->watched, took ? long_ns : short_ns);
    was = detect_beat(local->detect, &l->watched, &beat->due, now_ns, wall_ms);
    if (long_ns > short_ns) detect_extend(local->detect, &l->watched, now_ns + long_ns);
    l->heard = true;
    l->heard_ns = now_ns;
    l->received_ms = wall_ms;
    l->due_ms = beat->due.has_due ? beat->due.due_wall_ms : wall_ms;
    l->phase = beat->phase;
    take_load(local, l, beat, now_ns);
    local->counts.beats++;
    if (was.skewed) {
        event.due_ms = was.skew_ms;
        local->counts.skews++;
        local_report(local, MEMBER_EV_CLOCK_SKEW, l->worker, wall_ms, &event);
    }
    if (was.recovered && !list_empty(&l->suspected)) {
        heard->recovered = true;
        local->counts.recoveries++;
        local->lifted = true;
        unsuspect(l);
        event.due_ms = (int64_t)(was.late_ns / MEMBER_NS_PER_MS);
        local_report(local, MEMBER_EV_RECOVERED, l->worker, wall_ms, &event);
    }
}

static struct member_op admission(const struct member_beat *beat, const struct worker *worker)
{
    return (struct member_op){.kind = MEMBER_OP_REGISTER,
                              .worker = beat->worker,
                              .instance = beat->instance,
                              .expect = worker ? worker->incarnation : 0,
                              .by_beat = true};
}

static struct member_op of_worker(enum member_kind kind, const struct worker *worker)
{
    return (struct member_op){
        .kind = kind, .worker = worker_id(worker), .incarnation = worker->incarnation};
}

static enum member_beat_verdict of_stranger(const struct member_local *local,
                                            const struct member_beat *beat,
                                            const struct worker *worker, struct member_op *ret_op)
{
    /* the last heartbeat of a stopping process must not register a worker */
    if (beat->phase == MEMBER_DRAINING) return MEMBER_BEAT_IGNORE;
    if (!worker && local->options.unknown_beat == MEMBER_UNKNOWN_IGNORE) return MEMBER_BEAT_IGNORE;
    if (!worker && local->options.unknown_beat == MEMBER_UNKNOWN_REJECT) return MEMBER_BEAT_UNKNOWN;
    *ret_op = admission(beat, worker);
    return MEMBER_BEAT_PROPOSE;
}

enum process { THIS_PROCESS, NEW_PROCESS, OLD_PROCESS };

/* Compares instances if both sides have one. Otherwise the phase INIT shows a restart. */
static enum process process_of(const struct local_worker *l, const struct member_beat *beat)
{
    const struct worker *worker = l->worker;
    bool said = instance_known(&beat->instance), known = instance_known(&worker->instance);

    if (said && known) {
        if (instance_same(&beat->instance, &worker->instance)) return THIS_PROCESS;
        return beat->incarnation && beat->incarnation < worker->incarnation ? OLD_PROCESS
                                                                            : NEW_PROCESS;
    }
    if (beat->incarnation && beat->incarnation < worker->incarnation && !said) return OLD_PROCESS;
    if (said || known || beat->phase != MEMBER_INIT) return THIS_PROCESS;
    return l->phase > MEMBER_INIT || worker->ready || worker->draining ? NEW_PROCESS : THIS_PROCESS;
}

/* True if the process that has this id may be alive. A second process must not take over the id,
 * because the two would evict each other. If the worker's restart is proposed, the worker was
 * silent, and its id is free. */
static bool in_use(struct member_local *local, const struct local_worker *l, uint64_t now_ns,
                   struct member_in_use *ret_in_use)
{
    uint64_t lease_ns = max_u64(local_lease_of(local, l->worker), 2 * advised_ns(local));
    uint64_t silent_ns = now_ns - l->heard_ns;

    if (l->sentence || silent_ns > lease_ns) return false;
    *ret_in_use = (struct member_in_use){.heard = l->heard || l->admitted,
                                         .silent_ms = silent_ns / MEMBER_NS_PER_MS};
    local->counts.in_use++;
    return true;
}

static enum member_beat_verdict restarted(struct member_local *local, struct local_worker *l,
                                          const struct member_beat *beat, uint64_t now_ns,
                                          struct member_heard *heard, struct member_op *ret_op)
{
    if (l->sentence && l->sentence != SENTENCE_RESTART) return MEMBER_BEAT_WAIT;
    if (instance_known(&beat->instance) && in_use(local, l, now_ns, &heard->in_use))
        return MEMBER_BEAT_IN_USE;
    *ret_op = admission(beat, l->worker);
    ret_op->restart = !instance_known(&beat->instance);
    ret_op->fence_ns = fence_left(local, l, now_ns);
    l->next_instance = beat->instance;
    sentence(local, l, SENTENCE_RESTART, now_ns);
    return MEMBER_BEAT_PROPOSE;
}

static enum member_beat_verdict of_member(struct member_local *local, struct local_worker *l,
                                          const struct member_beat *beat, uint64_t now_ns,
                                          int64_t wall_ms, struct member_heard *heard,
                                          struct member_op *ret_op)
{
    const struct worker *worker = l->worker;
    enum process process = process_of(l, beat);
    bool drains = beat->phase == MEMBER_DRAINING;
    bool works = beat->phase == MEMBER_READY || beat->phase == MEMBER_RUNNING;

    if (process == OLD_PROCESS) return MEMBER_BEAT_RESET;
    if (process == NEW_PROCESS) return restarted(local, l, beat, now_ns, heard, ret_op);
    if (l->sentence) return MEMBER_BEAT_WAIT;
    hear(local, l, beat, now_ns, wall_ms, heard);
    if (instance_known(&beat->instance) && !instance_known(&worker->instance)) {
        *ret_op = admission(beat, worker);
        return MEMBER_BEAT_PROPOSE;
    }
    if ((drains && !worker->drain_said) || (works && worker->drain_said)) {
        *ret_op = of_worker(MEMBER_OP_DRAIN, worker);
        ret_op->flag = drains;
        ret_op->by_beat = true;
        return MEMBER_BEAT_PROPOSE;
    }
    if (works && !worker->ready && list_empty(&l->ready)) list_append(&local->ready, &l->ready);
    return MEMBER_BEAT_ACK;
}

struct member_heard member_local_beat(struct member_local *local, const struct member_beat *beat,
                                      uint64_t now_ns, int64_t wall_ms, struct member_op *ret_op)
{
    const struct member_head *head = &local->m->head;
    struct worker *worker = worker_find(local->m, beat->worker);
    struct local_worker *l = worker ? worker->local : NULL;
    struct member_heard heard = {0};

    heard.verdict = l ? of_member(local, l, beat, now_ns, wall_ms, &heard, ret_op)
                      : of_stranger(local, beat, worker, ret_op);
    heard.incarnation = worker ? worker->incarnation : 0;
    heard.assignment_epoch = head->assignment_epoch;
    heard.assignment_version = l ? l->version : 0;
    heard.coord_epoch = head->coord_epoch;
    local_check(local);
    assert(heard.verdict != MEMBER_BEAT_ACK || !l->sentence); /* invariant L3 */
    return heard;
}

void member_local_admitted(struct member_local *local, struct str worker, enum member_phase phase,
                           uint64_t now_ns)
{
    struct local_worker *l = local_find(local, worker);

    if (!l || l->sentence) return;
    l->phase = phase;
    l->admitted = true;
    l->heard_ns = max_u64(l->heard_ns, now_ns);
    if ((phase == MEMBER_READY || phase == MEMBER_RUNNING) && !l->worker->ready &&
        list_empty(&l->ready))
        list_append(&local->ready, &l->ready);
}

bool member_local_register(struct member_local *local, struct member_op *op, uint64_t now_ns,
                           struct member_in_use *ret_in_use)
{
    struct worker *worker = worker_find(local->m, op->worker);
    struct local_worker *l = worker ? worker->local : NULL;

    op->kind = MEMBER_OP_REGISTER;
    op->expect = worker ? worker->incarnation : 0;
    op->by_beat = op->restart = false;
    op->fence_ns = 0;
    if (!l || !instance_known(&op->instance) || !instance_known(&worker->instance) ||
        instance_same(&op->instance, &worker->instance))
        return true;
    if (in_use(local, l, now_ns, ret_in_use)) return false;
    op->fence_ns = fence_left(local, l, now_ns);
    /* another end of the incarnation is already proposed */
    if (l->sentence && l->sentence != SENTENCE_RESTART) return true;
    l->next_instance = op->instance;
    sentence(local, l, SENTENCE_RESTART, now_ns);
    return true;
}

static struct member_op eviction(const struct member_local *local, const struct local_worker *l,
                                 uint64_t now_ns)
{
    struct member_op op = of_worker(MEMBER_OP_DEAD, l->worker);

    op.cause = MEMBER_EVICTED;
    op.due_ms = l->due_ms;
    op.fence_ns = fence_left(local, l, now_ns);
    return op;
}

bool member_local_evict(struct member_local *local, struct str worker, uint64_t now_ns,
                        struct member_op *ret_op)
{
    struct local_worker *l = local_find(local, worker);

    if (!l) return false;
    sentence(local, l, SENTENCE_EVICT, now_ns);
    *ret_op = eviction(local, l, now_ns);
    return true;
}

bool member_local_judged(const struct member_local *local, struct str worker)
{
    const struct local_worker *l = local_find(local, worker);

    return l && l->sentence;
}

/* -- scans and proposals -- */
enum err member_local_context(struct member_local *local, struct buf *batch)
{
    struct member_op op = {.kind = MEMBER_OP_SUSPECT, .worker = STR_EMPTY};
    enum err err = ERR_OK;

    op.all = local->counts.suspected > SUSPECTS_MAX;
    if (op.all) return member_batch_add(batch, &op);
    for (struct list *node = local->suspected.next; !err && node != &local->suspected;
         node = node->next) {
        op.worker = worker_id(CONTAINER_OF(node, struct local_worker, suspected)->worker);
        err = member_batch_add(batch, &op);
    }
    return err;
}

static struct member_op sentence_op(const struct member_local *local, const struct local_worker *l,
                                    uint64_t now_ns)
{
    struct member_op op;

    switch (l->sentence) {
    case SENTENCE_EVICT: return eviction(local, l, now_ns);
    case SENTENCE_LEFT:
        op = of_worker(MEMBER_OP_LEAVE, l->worker);
        op.flag = true;
        return op;
    case SENTENCE_RESTART:
        op = of_worker(MEMBER_OP_REGISTER, l->worker);
        op.instance = l->next_instance;
        op.expect = l->incarnation;
        op.by_beat = true;
        op.restart = !instance_known(&l->next_instance);
        op.fence_ns = fence_left(local, l, now_ns);
        return op;
    case SENTENCE_DEAD:
    case NO_SENTENCE: break;
    }
    op = of_worker(MEMBER_OP_DEAD, l->worker);
    op.cause = MEMBER_FAILED;
    op.due_ms = l->sentence_due_ms;
    /* 0 if the deadline is after the fence. With DETECT_WORKER or a short silence, some fence time
     * remains. */
    op.fence_ns = fence_left(local, l, now_ns);
    return op;
}

static void local_judge(struct member_local *local, const struct failure_verdict *verdict,
                        uint64_t now_ns, int64_t wall_ms)
{
    struct local_worker *l = verdict->worker ? verdict->worker->owner : NULL;
    struct member_event event = {0};

    if (verdict->kind == VERDICT_MASS_HOLD) {
        event.count = local->counts.suspected;
        event.extra = local->counts.watched - local->counts.suspected;
        local_report(local, MEMBER_EV_MASS_FAILURE_HOLD, NULL, wall_ms, &event);
        return;
    }
    assert(l);
    event.due_ms = (int64_t)(verdict->late_ns / MEMBER_NS_PER_MS);
    if (verdict->kind == VERDICT_SUSPECTED) {
        /* A draining worker without partitions that becomes silent has left. */
        if (l->worker->draining && !l->worker->partition_count && !l->sentence) {
            detect_forget(local->detect, &l->watched);
            sentence(local, l, SENTENCE_LEFT, now_ns);
            l->sentence_ns = 0;
            return;
        }
        if (!list_empty(&l->suspected)) return;
        list_append(&local->suspected, &l->suspected);
        local->counts.suspected++;
        local->counts.suspicions++;
        local_report(local, MEMBER_EV_SUSPECTED, l->worker, wall_ms, &event);
        return;
    }
    /* A restart that could not be applied becomes a death, because the old process has fenced by
     * now. */
    if (l->sentence && l->sentence != SENTENCE_RESTART) return;
    l->sentence_due_ms = l->heard && local->options.detect.kind == DETECT_DEADLINE
                             ? l->due_ms
                             : wall_ms - event.due_ms;
    sentence(local, l, SENTENCE_DEAD, now_ns);
    l->sentence_ns = 0;
}

static void propose_sentences(struct member_local *local, uint64_t now_ns, struct batch *batch)
{
    LIST_EACH(&local->sentenced, node)
    {
        struct local_worker *l = CONTAINER_OF(node, struct local_worker, sentenced);
        struct member_op op;

        if (l->sentence_ns && now_ns - l->sentence_ns < AGAIN_NS) continue;
        /* The worker now holds a partition, so its silence means death, as for any worker. */
        if (l->sentence == SENTENCE_LEFT && l->worker->partition_count)
            l->sentence = SENTENCE_DEAD, l->sentence_due_ms = l->due_ms;
        op = sentence_op(local, l, now_ns);
        if (!batch_put(batch, &op)) return;
        l->sentence_ns = now_ns;
    }
}

static void propose_ready(struct member_local *local, struct batch *batch)
{
    while (!list_empty(&local->ready)) {
        struct local_worker *l = CONTAINER_OF(local->ready.next, struct local_worker, ready);
        struct member_op op = of_worker(MEMBER_OP_READY, l->worker);

        if (!l->worker->ready && !batch_put(batch, &op)) return;
        list_remove(&l->ready); /* if this proposal is lost, the next heartbeat repeats it */
    }
}

/* The advised interval keeps the heartbeats per second within the budget. It is lowered only when a
 * much shorter interval suffices. */
static void propose_advice(const struct member_local *local, struct batch *batch)
{
    uint64_t most = local->options.detect.heartbeat_interval_ns / MEMBER_NS_PER_MS;
    uint64_t want = (uint64_t)local->counts.watched * 1000 / local->options.beat_budget;
    uint64_t now = local->m->head.advised_ms;
    struct member_op op = {.kind = MEMBER_OP_ADVISE};

    want = min_u64(want, MEMBER_ADVISE_MAX_MS);
    op.number = want > most ? want : 0;
    if (op.number <= now && op.number >= now / 2) return;
    (void)batch_put(batch, &op);
}

/* True if something is due, or if moves that waited for a suspect may continue. */
static bool is_due(const struct member_local *local, uint64_t clock_ns)
{
    return member_next_due(local->m) <= clock_ns || (local->lifted && local->m->unsettled);
}

enum err member_local_scan(struct member_local *local, uint64_t now_ns, uint64_t clock_ns,
                           int64_t wall_ms, struct buf *into, size_t *ret_ops, bool *ret_more)
{
    uint64_t cadence = detect_cadence_ns(local->detect), since = now_ns - local->scanned_ns;
    struct batch batch = {.into = into};
    struct failure_verdict verdicts[VERDICTS];
    bool more = true;

    local->counts.scan_late_ns = since > cadence ? since - cadence : 0;
    if (is_slow(local, now_ns)) local->fair_ns = now_ns;
    local->scanned_ns = now_ns;
    while (more) {
        size_t count = detect_scan(local->detect, now_ns, verdicts, VERDICTS, &more);

        for (size_t i = 0; i < count; i++) local_judge(local, &verdicts[i], now_ns, wall_ms);
    }
    propose_sentences(local, now_ns, &batch);
    propose_ready(local, &batch);
    propose_advice(local, &batch);
    rounds_scan(local, now_ns, wall_ms, &batch);
    if (!batch.count && (is_due(local, clock_ns) ||
                         (local->m->unsettled && now_ns - local->proposed_ns >= AGAIN_NS)))
        (void)batch_put(&batch, &(struct member_op){.kind = MEMBER_OP_TICK});
    if (batch.count) {
        local->lifted = false;
        local->proposed_ns = now_ns;
    }
    *ret_ops = batch.count;
    *ret_more = batch.full;
    local_check(local);
    return batch.err;
}

uint64_t member_local_cadence_ns(const struct member_local *local)
{
    return detect_cadence_ns(local->detect);
}

bool member_local_wants(const struct member_local *local, uint64_t clock_ns)
{
    return !list_empty(&local->ready) || is_due(local, clock_ns);
}

void member_local_release_hold(struct member_local *local)
{
    detect_release(local->detect);
}

bool member_local_holds(const struct member_local *local, uint64_t now_ns)
{
    return detect_holds(local->detect, now_ns);
}

/* -- queries -- */
bool member_local_next_changed(struct member_local *local, struct str *ret_worker)
{
    struct list *node = list_pop(&local->changed);

    if (!node) return false;
    *ret_worker = worker_id(CONTAINER_OF(node, struct local_worker, changed)->worker);
    return true;
}

uint64_t member_local_version(const struct member_local *local, struct str worker)
{
    const struct local_worker *l = local_find(local, worker);

    return l ? l->version : 0;
}

bool member_local_heartbeat(const struct member_local *local, struct str worker,
                            struct member_heartbeat *ret_heartbeat)
{
    const struct local_worker *l = local_find(local, worker);

    if (!l) return false;
    *ret_heartbeat = (struct member_heartbeat){
        .suspected = !list_empty(&l->suspected),
        .held = l->watched.held,
        .phase = l->phase,
        .has_load = l->has_load,
        .load = l->load,
        .load_mean = l->load_mean,
        .received_ms = l->received_ms,
        .due_ms = l->due_ms,
    };
    return true;
}

struct member_local_counts member_local_counts(const struct member_local *local)
{
    return local->counts;
}
