/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint rounds (workers.md 13): asks workers, collects answers, and reports timeouts. Never
 * blocks. */
#include <stdlib.h>
#include <string.h>

#include "member/core/local_internal.h"

#define TIME_OUT_EVERY_NS (1000 * MEMBER_NS_PER_MS)

/* -- references that are not in the log yet -- */
static void fresh_drop(struct member_local *local, uint32_t partition)
{
    struct fresh *fresh = local->fresh_of[partition];

    if (!fresh) return;
    local->fresh_of[partition] = NULL;
    list_remove(&fresh->link);
    free(fresh);
}

void rounds_close(struct member_local *local)
{
    for (uint32_t i = 0; i < local->fresh_total; i++) fresh_drop(local, i);
    free(local->fresh_of);
    local->fresh_of = NULL;
    local->fresh_total = 0;
}

/* Makes room for one element per partition. False: no memory. */
static bool fresh_room(struct member_local *local)
{
    uint32_t total = local->m->head.rules.total_partitions;

    if (local->fresh_total == total) return true;
    rounds_close(local);
    local->fresh_of = calloc(total, sizeof(void *));
    local->fresh_total = local->fresh_of ? total : 0;
    return local->fresh_of != NULL;
}

enum member_status member_local_checkpoint(struct member_local *local, struct str worker,
                                           uint64_t incarnation, uint32_t partition,
                                           uint64_t grant_epoch, struct str reference,
                                           int64_t wall_ms)
{
    const struct local_worker *l = local_find(local, worker);
    struct member_partition now;
    struct fresh *fresh;
    char *at;

    if (!l) return MEMBER_S_UNKNOWN;
    if (reference.len > MEMBER_REFERENCE_MAX || !member_find_partition(local->m, partition, &now))
        return MEMBER_S_INVALID;
    if (l->incarnation != incarnation) return MEMBER_S_STALE;
    if (!str_equal(now.owner, worker) || now.owner_incarnation != incarnation ||
        now.grant_epoch != grant_epoch || now.state == MEMBER_FENCING) {
        local->counts.stale_acks++;
        return MEMBER_S_STALE_EPOCH;
    }
    if (!fresh_room(local)) return MEMBER_S_FULL;
    fresh_drop(local, partition);
    fresh = malloc(sizeof *fresh + reference.len + worker.len);
    if (!fresh) return MEMBER_S_FULL;
    at = fresh->texts;
    *fresh = (struct fresh){.partition = partition,
                            .epoch = grant_epoch,
                            .incarnation = incarnation,
                            .wall_ms = wall_ms};
    fresh->reference = str_put(&at, reference);
    fresh->worker = str_put(&at, worker);
    list_init(&fresh->link);
    list_append(&local->fresh, &fresh->link);
    local->fresh_of[partition] = fresh;
    return MEMBER_S_DONE;
}

static void flush(struct member_local *local, uint64_t now_ns, struct batch *batch)
{
    if (list_empty(&local->fresh) ||
        now_ns - local->flushed_ns < local->options.checkpoint_flush_ns)
        return;
    while (!list_empty(&local->fresh)) {
        struct fresh *fresh = CONTAINER_OF(local->fresh.next, struct fresh, link);
        struct member_op op = {.kind = MEMBER_OP_CHECKPOINT,
                               .worker = fresh->worker,
                               .incarnation = fresh->incarnation,
                               .partition = fresh->partition,
                               .epoch = fresh->epoch,
                               .text = fresh->reference,
                               .wall_ms = fresh->wall_ms};

        /* A lost reference does no harm, because the next round collects a newer reference. */
        if (!batch_put(batch, &op)) return;
        fresh_drop(local, op.partition);
    }
    local->flushed_ns = now_ns;
}

/* -- rounds -- */
enum member_status member_local_checkpoint_done(struct member_local *local, struct str worker,
                                                uint64_t incarnation, uint64_t round, bool failed,
                                                uint64_t now_ns)
{
    struct local_worker *l = local_find(local, worker);

    if (!l) return MEMBER_S_UNKNOWN;
    if (l->incarnation != incarnation) return MEMBER_S_STALE;
    if (round == 0 || round > l->asked) return MEMBER_S_INVALID;
    if (round <= l->answered) return MEMBER_S_SAME;
    l->answered = round;
    l->answered_ns = now_ns;
    l->misses = failed ? l->misses + 1 : 0;
    return MEMBER_S_DONE;
}

void member_local_checkpoint_now(struct member_local *local)
{
    local->round_now = true;
}

bool member_local_next_ask(struct member_local *local, struct str *ret_worker, uint64_t *ret_round)
{
    struct list *node = list_pop(&local->asks);
    struct local_worker *l;

    if (!node) return false;
    l = CONTAINER_OF(node, struct local_worker, ask);
    *ret_worker = worker_id(l->worker);
    *ret_round = l->asked;
    return true;
}

static bool waits(const struct local_worker *l)
{
    return l->asked > l->answered && !l->timeout_reported;
}

/* True for a worker past INIT that holds a partition and is neither suspected nor ending. */
static bool is_asked(const struct local_worker *l)
{
    return l->worker->partition_count && list_empty(&l->suspected) && !l->sentence &&
           l->phase > MEMBER_INIT;
}

static void rounds_drain(const struct local_worker *l, struct batch *batch)
{
    (void)batch_put(batch, &(struct member_op){.kind = MEMBER_OP_DRAIN,
                                               .worker = worker_id(l->worker),
                                               .incarnation = l->incarnation,
                                               .flag = true});
}

static void miss(struct member_local *local, struct local_worker *l, struct batch *batch)
{
    uint32_t most = local->options.checkpoint_max_failures;

    l->misses++;
    local->counts.missed_rounds++;
    if (most && l->misses >= most && !l->worker->draining) rounds_drain(l, batch);
}

static uint64_t ask_all(struct member_local *local, uint64_t round, uint64_t now_ns,
                        struct batch *batch)
{
    struct order_place place = order_begin(&local->m->workers);
    struct worker *worker;
    uint64_t asked = 0;

    while ((worker = order_next(&place)) != NULL) {
        struct local_worker *l = worker->local;

        if (!l || !is_asked(l) ||
            (l->answered && now_ns - l->answered_ns < local->options.checkpoint_min_pause_ns))
            continue;
        if (waits(l)) { /* busy with the previous round, so this round does not ask the worker */
            miss(local, l, batch);
            continue;
        }
        l->asked = round;
        l->asked_ns = now_ns;
        l->timeout_reported = false;
        if (list_empty(&l->ask)) list_append(&local->asks, &l->ask);
        asked++;
    }
    return asked;
}

static void time_out(struct member_local *local, uint64_t now_ns, int64_t wall_ms)
{
    struct order_place place = order_begin(&local->m->workers);
    struct worker *worker;

    while ((worker = order_next(&place)) != NULL) {
        struct local_worker *l = worker->local;
        struct member_event event = {0};

        if (!l || !waits(l) || now_ns - l->asked_ns < local->options.checkpoint_ack_timeout_ns)
            continue;
        l->timeout_reported = true;
        event.count = l->asked;
        event.extra = (now_ns - l->asked_ns) / MEMBER_NS_PER_MS;
        local_report(local, MEMBER_EV_CHECKPOINT_TIMEOUT, worker, wall_ms, &event);
    }
}

void rounds_scan(struct member_local *local, uint64_t now_ns, int64_t wall_ms, struct batch *batch)
{
    struct member_event event = {0};

    flush(local, now_ns, batch);
    if (now_ns - local->timed_ns >= TIME_OUT_EVERY_NS) {
        local->timed_ns = now_ns;
        time_out(local, now_ns, wall_ms);
    }
    if (!local->round_now && now_ns - local->round_ns < local->options.checkpoint_interval_ns)
        return;
    local->round_now = false;
    local->round_ns = now_ns; /* a late tick starts one round, not several */
    event.count = max_u64(local->counts.round, local->m->head.round) + 1;
    event.extra = ask_all(local, event.count, now_ns, batch);
    if (!event.extra) return; /* no worker holds a partition: an idle cluster writes no entries */
    local->counts.round = event.count;
    (void)batch_put(batch, &(struct member_op){.kind = MEMBER_OP_ROUND, .number = event.count});
    local_report(local, MEMBER_EV_CHECKPOINT_TRIGGERED, NULL, wall_ms, &event);
}
