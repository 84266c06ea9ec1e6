/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of workers: admissions, incarnations, drains, deaths (workers.md 3.1). */
#include <stdlib.h>
#include <string.h>

#include "member/core/internal.h"

/* -- rows of workers -- */
struct worker *worker_find(const struct membership *m, struct str id)
{
    return map_get(&m->by_id, id);
}

struct worker *worker_new(struct membership *m, struct str id)
{
    struct worker *worker = member_must(calloc(1, sizeof *worker + id.len));

    worker->id_len = (uint32_t)id.len;
    memcpy(worker->id, id.at, id.len);
    worker->weight = 1;
    worker->running.kind = &m->item_kind;
    list_init(&worker->partitions);
    list_init(&worker->busy);
    list_init(&worker->ring_changed);
    list_init(&worker->touched);
    row_born(m, &worker->row, ROW_WORKER);
    if (order_insert(&m->workers, worker) || map_put(&m->by_id, worker_id(worker), worker))
        (void)member_must(NULL);
    m->bytes += WORKER_COST + id.len;
    return worker;
}

static void worker_free(struct membership *m, struct worker *worker)
{
    assert(!worker->on_ring && !worker->partition_count && !worker->fencing_count &&
           !worker->running.count);
    member_text(m, &worker->labels, &worker->labels_len, STR_EMPTY);
    local_forget(worker->local);
    row_gone(m, &worker->row);
    list_remove(&worker->touched);
    list_remove(&worker->ring_changed);
    heap_remove(&m->ends, &worker->due);
    (void)map_remove(&m->by_id, worker_id(worker));
    order_remove(&m->workers, worker);
    m->of_standing[worker->standing]--;
    m->bytes -= WORKER_COST + worker->id_len;
    order_clear(&worker->running);
    free(worker);
}

static void set_standing(struct membership *m, struct worker *worker, enum member_standing standing)
{
    if (worker->standing) m->of_standing[worker->standing]--;
    worker->standing = standing;
    m->of_standing[standing]++;
}

static void set_draining(struct membership *m, struct worker *worker, bool draining)
{
    m->draining += (uint32_t)draining - (uint32_t)worker->draining;
    worker->draining = draining;
}

bool worker_eligible(const struct membership *m, const struct worker *worker)
{
    const struct member_rules *rules = &m->head.rules;

    return worker->standing == MEMBER_ACTIVE && !worker->draining &&
           (worker->ready || rules->ring_on_register) &&
           (worker->capable || rules->grant_to_legacy);
}

/* Sets when the retention of a dead worker, or of a tombstone that no partition names, ends. The
 * time depends on rows alone, so that a replica restored from a snapshot computes the same time. */
void worker_end_set(struct membership *m, struct worker *worker)
{
    uint64_t keep_ms = worker->standing == MEMBER_DEAD ? m->head.rules.dead_retention_ms
                                                       : m->head.rules.tombstone_retention_ms;

    if (worker->standing == MEMBER_ACTIVE ||
        (worker->standing == MEMBER_REMOVED && worker->fencing_count))
        heap_remove(&m->ends, &worker->due);
    else if (heap_put(&m->ends, &worker->due, worker->ended_ns + keep_ms * MEMBER_NS_PER_MS))
        (void)member_must(NULL);
}

/* -- end of an incarnation -- */
static void workers_let_go(struct membership *m, struct worker *worker, uint64_t fence_ns,
                           bool died)
{
    partitions_let_go(m, worker, fence_ns);
    work_let_go(m, worker, died);
}

static void end(struct membership *m, struct worker *worker, enum member_standing standing)
{
    set_standing(m, worker, standing);
    set_draining(m, worker, false);
    worker->ready = worker->drain_said = false;
    worker->ended_ms = m->wall_ms;
    worker->ended_ns = m->clock_ns;
    worker_end_set(m, worker);
    member_touch(m, worker);
}

static const char *const cause_texts[] = {
    [MEMBER_FAILED] = "", [MEMBER_EVICTED] = "evicted", [MEMBER_CONFLICT] = "identity_conflict"};

static void condemn(struct membership *m, struct worker *worker, enum member_cause cause,
                    uint64_t fence_ns, int64_t due_ms)
{
    struct eligibility before = eligibility_of(m, worker);
    struct member_event event;

    row_edit(m, &worker->row);
    member_event_begin(m, MEMBER_EV_FAILED, worker, &event);
    event.text = str_from(cause_texts[cause]);
    event.due_ms = due_ms;
    if (!m->head.rules.failure_per_worker || !worker->failed_reported) member_event_add(m, &event);
    worker->failed_reported = true;
    worker->cause = cause;
    workers_let_go(m, worker, fence_ns, true);
    end(m, worker, MEMBER_DEAD);
    eligibility_changed(m, worker, before, RING_DEATH);
    if (before.was) m->place_now = true; /* a death does not wait for the rebalance window */
}

static void leave_behind(struct membership *m, struct worker *worker, enum member_removal removal)
{
    row_edit(m, &worker->row);
    worker->removal = removal;
    worker->failed_reported = false; /* a later incarnation reports its own failure */
    memset(&worker->instance, 0, sizeof worker->instance);
    member_text(m, &worker->labels, &worker->labels_len, STR_EMPTY);
}

static int by_id(const void *a, const void *b)
{
    return str_compare(worker_id(CONTAINER_OF(*(struct heap_node *const *)a, struct worker, due)),
                       worker_id(CONTAINER_OF(*(struct heap_node *const *)b, struct worker, due)));
}

void workers_expire(struct membership *m)
{
    struct heap_node **due;
    size_t count = member_take_due(m, &m->ends, by_id, &due);

    for (size_t i = 0; i < count; i++) {
        struct worker *worker = CONTAINER_OF(due[i], struct worker, due);

        if (worker->standing == MEMBER_DEAD) {
            leave_behind(m, worker,
                         worker->cause == MEMBER_FAILED ? MEMBER_REMOVED_DEAD
                                                        : MEMBER_REMOVED_EVICTED);
            end(m, worker, MEMBER_REMOVED);
        } else {
            /* a change of the worker still waits in the rebalance window */
            if (worker->on_ring) partitions_place(m);
            worker_free(m, worker);
        }
    }
    free(due);
}

/* -- registration -- */
static void take_terms(struct membership *m, struct worker *worker, const struct member_op *op)
{
    if (op->by_beat) return;
    worker->capable = op->capable;
    worker->lease_ms = op->lease_ms;
    worker->weight = op->weight ? op->weight : 1;
    member_text(m, &worker->labels, &worker->labels_len, op->labels);
}

static void workers_admit(struct membership *m, struct worker *worker, const struct member_op *op)
{
    set_standing(m, worker, MEMBER_ACTIVE);
    set_draining(m, worker, false);
    worker->removal = MEMBER_NOT_REMOVED;
    worker->incarnation++;
    worker->instance = op->instance;
    worker->capable = worker->ready = worker->drain_said = false;
    worker->lease_ms = 0;
    worker->weight = 1;
    worker->registered_ms = m->wall_ms;
    worker->ended_ms = 0;
    worker->ended_ns = 0;
    worker_end_set(m, worker);
    take_terms(m, worker, op);
    member_touch(m, worker);
}

static struct member_result enter(struct membership *m, struct worker *worker,
                                  const struct member_op *op)
{
    bool was_dead = worker && worker->standing == MEMBER_DEAD;
    struct eligibility before = {0};
    struct member_result result;
    struct member_event event;

    if (m->event_count >= MEMBER_EVENTS_MAX) return answer(MEMBER_S_BUSY, worker);
    if (!member_has_room(m, WORKER_COST + EVENT_COST + 2 * op->worker.len + op->labels.len))
        return answer(MEMBER_S_FULL, worker);
    if (worker)
        row_edit(m, &worker->row);
    else
        worker = worker_new(m, op->worker);
    worker->flips = 0;
    workers_admit(m, worker, op);
    member_event_begin(m, MEMBER_EV_REGISTERED, worker, &event);
    if (worker->incarnation > 1) event.text = was_dead ? STR("dead") : STR("removed");
    member_event_add(m, &event);
    eligibility_changed(m, worker, before, RING_JOIN);
    result = answer(MEMBER_S_DONE, worker);
    result.admitted = true;
    return result;
}

/* Two processes that share an id replace each other repeatedly, which shows as many restarts. */
static bool too_many_flips(struct membership *m, struct worker *worker)
{
    if (!worker->flips || m->clock_ns - worker->flips_ns > MEMBER_FLIPS_NS) {
        worker->flips = 0;
        worker->flips_ns = m->clock_ns;
    }
    return ++worker->flips > MEMBER_FLIPS_MAX;
}

static struct member_result restart(struct membership *m, struct worker *worker,
                                    const struct member_op *op)
{
    struct eligibility before = eligibility_of(m, worker);
    struct member_result result;
    struct member_event event;

    if (m->event_count >= MEMBER_EVENTS_MAX) return answer(MEMBER_S_BUSY, worker);
    if (!member_has_room(m, EVENT_COST + op->worker.len + op->labels.len))
        return answer(MEMBER_S_FULL, worker);
    row_edit(m, &worker->row);
    if (too_many_flips(m, worker)) {
        member_event_add(m, member_event_begin(m, MEMBER_EV_IDENTITY_CONFLICT, worker, &event));
        condemn(m, worker, MEMBER_CONFLICT, op->fence_ns, m->wall_ms);
        return answer(MEMBER_S_CONFLICTED, worker);
    }
    workers_let_go(m, worker, op->fence_ns, true);
    workers_admit(m, worker, op);
    member_event_add(m, member_event_begin(m, MEMBER_EV_RESTARTED, worker, &event));
    eligibility_changed(m, worker, before, RING_RESTART);
    result = answer(MEMBER_S_DONE, worker);
    result.admitted = true;
    return result;
}

/* Handles a repeated registration of the same process, which changes only its own settings. */
static struct member_result again(struct membership *m, struct worker *worker,
                                  const struct member_op *op)
{
    struct eligibility before = eligibility_of(m, worker);
    bool adopts = !instance_known(&worker->instance) && instance_known(&op->instance);
    bool same =
        op->by_beat || (worker->capable == op->capable && worker->lease_ms == op->lease_ms &&
                        worker->weight == (op->weight ? op->weight : 1) &&
                        str_equal(str_of(worker->labels, worker->labels_len), op->labels));

    if (same && !adopts) return answer(MEMBER_S_SAME, worker);
    if (!member_has_room(m, op->labels.len)) return answer(MEMBER_S_FULL, worker);
    row_edit(m, &worker->row);
    if (adopts) worker->instance = op->instance;
    take_terms(m, worker, op);
    eligibility_changed(m, worker, before, RING_JOIN);
    member_touch(m, worker);
    return answer(MEMBER_S_DONE, worker);
}

struct member_result worker_register(struct membership *m, const struct member_op *op,
                                     struct worker *worker)
{
    bool known = instance_known(&op->instance), other;

    worker = worker_find(m, op->worker);
    if (!worker || worker->standing != MEMBER_ACTIVE) return enter(m, worker, op);
    other = known && instance_known(&worker->instance) &&
            !instance_same(&op->instance, &worker->instance);
    if (!other && !(op->by_beat && !known && op->restart && op->expect == worker->incarnation))
        return again(m, worker, op);
    /* The fence time was computed for another incarnation, not for the present grants. */
    if (op->expect != worker->incarnation) return answer(MEMBER_S_STALE, worker);
    return restart(m, worker, op);
}

/* -- operations on one incarnation -- */
struct member_result worker_ready(struct membership *m, const struct member_op *,
                                  struct worker *worker)
{
    struct eligibility before;

    if (worker->ready) return answer(MEMBER_S_SAME, worker);
    before = eligibility_of(m, worker);
    row_edit(m, &worker->row);
    worker->ready = true;
    eligibility_changed(m, worker, before, RING_JOIN);
    member_touch(m, worker);
    return answer(MEMBER_S_DONE, worker);
}

struct member_result worker_drain(struct membership *m, const struct member_op *op,
                                  struct worker *worker)
{
    bool said = op->flag && op->by_beat;
    struct eligibility before;

    /* a drain by an operator does not undo a drain that the worker reported */
    said = said || (op->flag && worker->drain_said);
    if (worker->draining == op->flag && worker->drain_said == said)
        return answer(MEMBER_S_SAME, worker);
    before = eligibility_of(m, worker);
    row_edit(m, &worker->row);
    set_draining(m, worker, op->flag);
    worker->drain_said = said;
    eligibility_changed(m, worker, before, op->flag ? RING_DRAIN : RING_RESUME);
    member_touch(m, worker);
    return answer(MEMBER_S_DONE, worker);
}

struct member_result worker_dead(struct membership *m, const struct member_op *op,
                                 struct worker *worker)
{
    condemn(m, worker, op->cause, op->fence_ns, op->due_ms);
    return answer(MEMBER_S_DONE, worker);
}

struct member_result worker_leave(struct membership *m, const struct member_op *op,
                                  struct worker *worker)
{
    struct eligibility before;
    struct member_event event;

    if (op->flag && worker->partition_count) return answer(MEMBER_S_HOLDS, worker);
    before = eligibility_of(m, worker);
    row_edit(m, &worker->row);
    member_event_add(m, member_event_begin(m, MEMBER_EV_DEREGISTERED, worker, &event));
    workers_let_go(m, worker, 0, false);
    leave_behind(m, worker, MEMBER_LEFT);
    end(m, worker, MEMBER_REMOVED);
    eligibility_changed(m, worker, before, RING_LEAVE);
    /* The worker reported that it stopped, so other workers take over immediately. */
    if (before.was || worker->on_ring) m->place_now = true;
    return answer(MEMBER_S_DONE, worker);
}
