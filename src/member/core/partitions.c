/* SPDX-License-Identifier: Apache-2.0 */
/* The owners of partitions: the target of the ring, and the moves towards it (workers.md 12).
 *
 *   FREE ------grant------> OWNED --target differs--> REVOKING --ack--> FREE
 *    ^                       |  ^----target is the owner again----|
 *    |--left, dead by deadline--|
 *    |--fence over-- FENCING <--evicted, restarted--'
 *
 * Only a FREE partition is granted. A partition becomes FREE only if its owner released it, left,
 * or has fenced itself: by the deadline of its death, or because the fence time is over. */
#include <stdlib.h>
#include <string.h>

#include "member/core/internal.h"

static struct ring_options options_of(const struct member_rules *rules)
{
    return (struct ring_options){.virtual_nodes = rules->virtual_nodes,
                                 .bounded = rules->placement == MEMBER_RING_BOUNDED,
                                 .rendezvous = rules->placement == MEMBER_RENDEZVOUS,
                                 .epsilon = rules->epsilon_ppm / 1e6};
}

/* -- the table of partitions -- */
enum err partitions_make(struct membership *m, uint32_t total)
{
    struct ring_options options = options_of(&m->head.rules);

    m->partitions = calloc(total, sizeof *m->partitions);
    if (!m->partitions || ring_open(&options, &m->ring)) return ERR_NOMEM;
    m->bytes += (uint64_t)total * PARTITION_COST;
    for (uint32_t i = 0; i < total; i++) {
        struct partition *p = &m->partitions[i];

        p->number = i;
        p->since_ns = m->clock_ns;
        list_init(&p->held);
        row_born(m, &p->row, ROW_PARTITION);
    }
    m->of_partition[MEMBER_FREE] = total;
    return ERR_OK;
}

void partitions_free(struct membership *m)
{
    for (uint32_t i = 0; m->partitions && i < m->head.rules.total_partitions; i++)
        free(m->partitions[i].checkpoint);
    free(m->partitions);
    m->partitions = NULL;
}

static bool table_in_use(const struct membership *m)
{
    for (uint32_t i = 0; m->partitions && i < m->head.rules.total_partitions; i++)
        if (m->partitions[i].state != MEMBER_FREE || m->partitions[i].grant_epoch) return true;
    return false;
}

static void table_drop(struct membership *m)
{
    uint32_t total = m->partitions ? m->head.rules.total_partitions : 0;

    for (uint32_t i = 0; i < total; i++) row_gone(m, &m->partitions[i].row);
    m->bytes -= (uint64_t)total * PARTITION_COST;
    partitions_free(m);
    m->of_partition[MEMBER_FREE] = 0;
    ring_close(m->ring);
    m->ring = NULL;
}

/* `places`: recomputes the target of every partition. `who`: recomputes the eligibility of every
 * worker. Also recomputes the end of every retention. */
static void look_again(struct membership *m, bool places, bool who)
{
    struct order_place place = order_begin(&m->workers);
    struct worker *worker;

    while ((worker = order_next(&place)) != NULL) {
        if (places && worker->on_ring) {
            row_edit(m, &worker->row);
            worker->on_ring = false;
            worker->ring_weight = 0;
        }
        if ((places || who) && list_empty(&worker->ring_changed))
            list_append(&m->ring_changed, &worker->ring_changed);
        worker_end_set(m, worker);
    }
}

static void mark_dirty(struct membership *m, enum ring_cause cause)
{
    if (!m->head.dirty) m->head.dirty_ns = m->clock_ns;
    m->head.dirty_cause =
        (uint8_t)(m->head.dirty && m->head.dirty_cause != cause ? RING_SEVERAL : cause);
    m->head.dirty = true;
}

struct member_result partitions_configure(struct membership *m, const struct member_op *op,
                                          struct worker *)
{
    const struct member_rules *now = &m->head.rules, *then = op->rules;
    bool table = !m->head.configured || then->total_partitions != now->total_partitions;
    bool ring = table || then->virtual_nodes != now->virtual_nodes ||
                then->placement != now->placement || then->epsilon_ppm != now->epsilon_ppm;
    bool who = then->ring_on_register != now->ring_on_register ||
               then->grant_to_legacy != now->grant_to_legacy;
    bool anybody = m->workers.count > 0;

    if (m->head.configured && member_rules_fingerprint(now) == member_rules_fingerprint(then))
        return answer(MEMBER_S_SAME, NULL);
    if (table && table_in_use(m)) return answer(MEMBER_S_IN_USE, NULL);
    if (table && !member_has_room(m, (uint64_t)then->total_partitions * PARTITION_COST))
        return answer(MEMBER_S_FULL, NULL);
    if (table) table_drop(m);
    m->head.rules = *then;
    m->head.configured = true;
    if (table && partitions_make(m, then->total_partitions)) (void)member_must(NULL);
    if (ring && !table) {
        struct ring_options options = options_of(then);

        ring_close(m->ring);
        m->ring = NULL;
        if (ring_open(&options, &m->ring)) (void)member_must(NULL);
    }
    look_again(m, ring, who);
    if ((ring || who) && anybody) mark_dirty(m, RING_CONFIG);
    if (ring) m->place_now = true;
    return answer(MEMBER_S_DONE, NULL);
}

/* -- eligible workers -- */
struct eligibility eligibility_of(const struct membership *m, const struct worker *worker)
{
    return (struct eligibility){worker_eligible(m, worker), worker->incarnation, worker->weight};
}

void eligibility_changed(struct membership *m, struct worker *worker, struct eligibility before,
                         enum ring_cause cause)
{
    bool is = worker_eligible(m, worker);

    if (!is && !before.was) return;
    if (is && before.was && worker->incarnation == before.incarnation) {
        if (worker->weight == before.weight) return;
        cause = RING_WEIGHT;
    }
    if (list_empty(&worker->ring_changed)) list_append(&m->ring_changed, &worker->ring_changed);
    mark_dirty(m, cause);
}

uint64_t partitions_window_ns(const struct membership *m)
{
    if (!m->head.dirty) return UINT64_MAX;
    return m->head.dirty_ns + m->head.rules.rebalance_window_ms * MEMBER_NS_PER_MS;
}

/* -- placement -- */
static const char *const cause_names[] = {
    [RING_JOIN] = "join",     [RING_LEAVE] = "leave",   [RING_DRAIN] = "drain",
    [RING_RESUME] = "resume", [RING_DEATH] = "death",   [RING_RESTART] = "restart",
    [RING_WEIGHT] = "weight", [RING_CONFIG] = "config", [RING_SEVERAL] = "several",
};

enum err partitions_target(struct membership *m, uint32_t *ret_moved)
{
    uint32_t total = m->head.rules.total_partitions, *owners = malloc(total * sizeof *owners);
    size_t count = ring_workers(m->ring);
    struct worker **rows = calloc(count + 1, sizeof(void *));
    enum err err = owners && rows ? ring_place(m->ring, total, owners) : ERR_NOMEM;

    *ret_moved = 0;
    for (uint32_t i = 0; !err && i < count; i++) rows[i] = worker_find(m, ring_worker(m->ring, i));
    for (uint32_t i = 0; !err && i < total; i++) {
        struct worker *target = owners[i] == RING_NOBODY ? NULL : rows[owners[i]];

        if (target != m->partitions[i].target) ++*ret_moved;
        m->partitions[i].target = target;
    }
    m->work += total / 16;
    free(owners);
    free(rows);
    return err;
}

void partitions_place(struct membership *m)
{
    struct member_event event;
    struct list *node;
    uint32_t moved;

    m->head.dirty = false;
    if (!m->partitions) return; /* no partition is placed before the first CONFIGURE */
    while ((node = list_pop(&m->ring_changed)) != NULL) {
        struct worker *worker = CONTAINER_OF(node, struct worker, ring_changed);
        bool is = worker_eligible(m, worker);

        if (is == worker->on_ring && (!is || worker->weight == worker->ring_weight)) continue;
        row_edit(m, &worker->row);
        if (is && !worker->on_ring && ring_add(m->ring, worker_id(worker))) (void)member_must(NULL);
        if (is) (void)ring_weigh(m->ring, worker_id(worker), worker->weight);
        if (!is) (void)ring_remove(m->ring, worker_id(worker));
        worker->on_ring = is;
        worker->ring_weight = is ? worker->weight : 0;
    }
    m->head.assignment_epoch++;
    if (partitions_target(m, &moved)) (void)member_must(NULL);
    member_event_begin(m, MEMBER_EV_ASSIGNMENT_CHANGED, NULL, &event);
    event.text = str_from(cause_names[m->head.dirty_cause]);
    event.epoch = m->head.assignment_epoch;
    event.count = moved;
    member_event_add(m, &event);
    m->unsettled = true;
}

/* -- moves -- */
void partition_hold(struct partition *p)
{
    list_append(&p->owner->partitions, &p->held);
    p->owner->partition_count++;
}

void partition_due(struct membership *m, struct partition *p)
{
    if (p->state != MEMBER_REVOKING && p->state != MEMBER_FENCING)
        heap_remove(&m->dues, &p->due);
    else if (heap_put(&m->dues, &p->due, p->deadline_ns))
        (void)member_must(NULL);
}

static void take_away(struct membership *m, struct partition *p)
{
    if (p->state == MEMBER_FENCING) {
        p->owner->fencing_count--;
        worker_end_set(m, p->owner);
    } else if (p->owner) {
        list_remove(&p->held);
        p->owner->partition_count--;
    }
}

static void set_state(struct membership *m, struct partition *p, enum member_partition_state state,
                      uint64_t deadline_ns)
{
    m->of_partition[p->state]--;
    m->of_partition[state]++;
    p->state = state;
    p->since_ns = m->clock_ns;
    p->deadline_ns = deadline_ns;
    p->timeouts = 0;
    partition_due(m, p);
    if (p->owner) member_touch(m, p->owner);
    m->unsettled = true;
}

static void set_free(struct membership *m, struct partition *p)
{
    row_edit(m, &p->row);
    take_away(m, p);
    set_state(m, p, MEMBER_FREE, 0);
    p->owner = NULL;
    p->owner_incarnation = 0;
}

static void set_fencing(struct membership *m, struct partition *p, uint64_t until_ns)
{
    row_edit(m, &p->row);
    take_away(m, p);
    p->owner->fencing_count++;
    set_state(m, p, MEMBER_FENCING, until_ns);
}

static void partitions_notify(struct membership *m, const struct partition *p,
                              enum member_topic topic, uint64_t waited_ms)
{
    struct member_event event;

    member_event_begin(m, topic, p->owner, &event);
    event.partition = p->number;
    event.epoch = p->grant_epoch;
    event.extra = waited_ms;
    member_event_add(m, &event);
}

/* Every grant increases the token, even a grant to the same owner. */
static void grant(struct membership *m, struct partition *p, struct worker *worker)
{
    row_edit(m, &p->row);
    if (p->grant_epoch >= m->head.assignment_epoch) m->head.assignment_epoch = p->grant_epoch + 1;
    p->grant_epoch = m->head.assignment_epoch;
    if (p->owner != worker) {
        assert(p->state == MEMBER_FREE);
        p->owner = worker;
        p->owner_incarnation = worker->incarnation;
        partition_hold(p);
    }
    set_state(m, p, MEMBER_OWNED, 0);
    partitions_notify(m, p, MEMBER_EV_PARTITION_GRANTED, 0);
}

static void partitions_revoke(struct membership *m, struct partition *p)
{
    row_edit(m, &p->row);
    set_state(m, p, MEMBER_REVOKING,
              m->clock_ns + m->head.rules.revoke_timeout_ms * MEMBER_NS_PER_MS);
    partitions_notify(m, p, MEMBER_EV_PARTITION_REVOKING, 0);
}

void partitions_let_go(struct membership *m, struct worker *worker, uint64_t fence_ns)
{
    LIST_EACH_SAFE(&worker->partitions, node, next)
    {
        struct partition *p = CONTAINER_OF(node, struct partition, held);

        if (fence_ns)
            set_fencing(m, p, m->clock_ns + fence_ns);
        else
            set_free(m, p);
    }
}

static bool is_suspected(const struct membership *m, const struct worker *worker)
{
    return m->all_suspected || worker->suspected_at == m->command;
}

static bool may_receive(const struct membership *m, const struct worker *worker)
{
    return worker_eligible(m, worker) && !is_suspected(m, worker);
}

/* Moves a partition by one step. True: the move is complete or waits for a worker. */
static bool partitions_step(struct membership *m, struct partition *p)
{
    const struct member_rules *rules = &m->head.rules;

    switch (p->state) {
    case MEMBER_FREE:
        if (!p->target) return true;
        if (!may_receive(m, p->target)) return false;
        grant(m, p, p->target);
        return true;
    case MEMBER_OWNED:
        if (p->target == p->owner) return true;
        if (is_suspected(m, p->owner)) return false; /* a suspected worker loses no partition */
        if (m->of_partition[MEMBER_REVOKING] >=
            max_u64((uint64_t)rules->total_partitions * rules->move_limit_ppm / 1000000, 1))
            return false;
        partitions_revoke(m, p);
        return true;
    case MEMBER_REVOKING:
        if (p->target != p->owner) return true;
        if (!may_receive(m, p->owner)) return false;
        grant(m, p, p->owner);
        return true;
    case MEMBER_FENCING: return true;
    }
    return true;
}

void partitions_settle(struct membership *m)
{
    uint32_t total = m->partitions ? m->head.rules.total_partitions : 0;

    if (!m->unsettled) return;
    m->unsettled = false;
    m->work += total / 64;
    for (uint32_t i = 0; i < total; i++)
        if (!partitions_step(m, &m->partitions[i])) m->unsettled = true;
}

/* -- deadlines -- */
static int by_number(const void *a, const void *b)
{
    uint32_t left = CONTAINER_OF(*(struct heap_node *const *)a, struct partition, due)->number,
             right = CONTAINER_OF(*(struct heap_node *const *)b, struct partition, due)->number;

    return (left > right) - (left < right);
}

void partitions_expire(struct membership *m)
{
    struct heap_node **due;
    size_t count = member_take_due(m, &m->dues, by_number, &due);

    for (size_t i = 0; i < count; i++) {
        struct partition *p = CONTAINER_OF(due[i], struct partition, due);

        if (p->state == MEMBER_FENCING) {
            set_free(m, p);
            continue;
        }
        row_edit(m, &p->row); /* the owner is alive and does not release the partition */
        p->timeouts++;
        p->deadline_ns = m->clock_ns + m->head.rules.revoke_timeout_ms * MEMBER_NS_PER_MS;
        partition_due(m, p);
        partitions_notify(m, p, MEMBER_EV_REVOKE_TIMEOUT,
                          (m->clock_ns - p->since_ns) / MEMBER_NS_PER_MS);
        member_touch(m, p->owner);
    }
    free(due);
}

/* -- acknowledgements of owners -- */
static void keep_reference(struct membership *m, struct partition *p, const struct member_op *op)
{
    member_text(m, &p->checkpoint, &p->checkpoint_len, op->text);
    p->checkpoint_epoch = op->epoch;
    p->checkpoint_ms = op->wall_ms;
}

/* OK only if the operation names the partition's current grant. */
static enum member_status held_by(const struct membership *m, const struct member_op *op,
                                  const struct worker *worker, struct partition **ret_partition)
{
    struct partition *p;

    if (!m->partitions || op->partition >= m->head.rules.total_partitions) return MEMBER_S_INVALID;
    p = *ret_partition = &m->partitions[op->partition];
    return p->owner == worker && p->owner_incarnation == op->incarnation &&
                   p->grant_epoch == op->epoch && p->state != MEMBER_FENCING
               ? MEMBER_S_DONE
               : MEMBER_S_STALE_EPOCH;
}

struct member_result partition_ack(struct membership *m, const struct member_op *op,
                                   struct worker *worker)
{
    struct partition *p;
    enum member_status status = held_by(m, op, worker, &p);

    if (!status && p->state != MEMBER_REVOKING) status = MEMBER_S_STALE_EPOCH;
    if (status) return answer(status, worker);
    row_edit(m, &p->row);
    if (op->text.len) keep_reference(m, p, op);
    set_free(m, p);
    return answer(MEMBER_S_DONE, worker);
}

struct member_result partition_checkpoint(struct membership *m, const struct member_op *op,
                                          struct worker *worker)
{
    struct partition *p;
    enum member_status status = held_by(m, op, worker, &p);

    if (status) return answer(status, worker);
    if (op->text.len > p->checkpoint_len && !member_has_room(m, op->text.len - p->checkpoint_len))
        return answer(MEMBER_S_FULL, worker);
    row_edit(m, &p->row);
    keep_reference(m, p, op);
    return answer(MEMBER_S_DONE, worker);
}
