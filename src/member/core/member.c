/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a membership, applies commands, and implements the small operations. Pure: runs
 * inside apply, on one thread. */
#include "member/core/member.h"

#include <stdlib.h>
#include <string.h>

#include "base/recovery.h"
#include "member/core/internal.h"

#define QUOTA (512ull << 20)

void *member_must(void *memory)
{
    assert(memory && "out of memory while applying: the replica ends rather than differ");
    return memory;
}

void member_text(struct membership *m, char **held, uint32_t *held_len, struct str text)
{
    char *copy = text.len ? member_must(malloc(text.len)) : NULL;

    if (copy) memcpy(copy, text.at, text.len);
    m->bytes += text.len;
    m->bytes -= *held_len;
    free(*held);
    *held = copy;
    *held_len = (uint32_t)text.len;
}

size_t member_take_due(struct membership *m, struct heap *heap,
                       int (*compare)(const void *a, const void *b), struct heap_node ***ret_due)
{
    struct heap_node **due = NULL, *node;
    size_t count = 0, cap = 0;

    while ((node = heap_pop_due(heap, m->clock_ns)) != NULL) {
        if (count == cap) {
            cap = cap ? 2 * cap : 64;
            due = member_must(realloc(due, cap * sizeof(void *)));
        }
        due[count++] = node;
    }
    if (count > 1) qsort(due, count, sizeof(void *), compare);
    *ret_due = due;
    return count;
}

/* -- names of statuses -- */
static const struct {
    const char *text;
    enum err err;
} member_statuses[MEMBER_STATUS_COUNT] = {
#define X(name, text, err) {text, ERR_##err},
    MEMBER_STATUS_MAP(X)
#undef X
};

const char *member_status_text(enum member_status status)
{
    return status < MEMBER_STATUS_COUNT ? member_statuses[status].text : "?";
}

enum err member_status_err(enum member_status status)
{
    return status < MEMBER_STATUS_COUNT ? member_statuses[status].err : ERR_INTERNAL;
}

/* -- open and close -- */
static struct order_key key_of_worker(const void *row)
{
    return (struct order_key){.first = worker_id(row)};
}

static struct order_key key_of_item(const void *row)
{
    const struct item *item = row;

    return (struct order_key){.first = str_of(item->id.b, sizeof item->id.b)};
}

static struct order_key key_of_place(const void *row)
{
    const struct item *item = row;

    return (struct order_key){.first = str_of(item->place_key, sizeof item->place_key)};
}

struct membership *member_open(const struct member_options *options)
{
    struct membership *m = calloc(1, sizeof *m);

    if (!m) return NULL;
    m->options = *options;
    if (!m->options.quota_bytes) m->options.quota_bytes = QUOTA;
    member_rules_defaults(&m->head.rules);
    m->worker_kind = (struct order_kind){key_of_worker, &m->order_bytes};
    m->item_kind = (struct order_kind){key_of_item, &m->order_bytes};
    m->pending_kind = (struct order_kind){key_of_place, &m->order_bytes};
    m->workers.kind = &m->worker_kind;
    m->items.kind = &m->item_kind;
    m->pending.kind = &m->pending_kind;
    map_init(&m->by_id, MAP_MOST, 0);
    heap_init(&m->dues, SIZE_MAX / 64);
    heap_init(&m->ends, SIZE_MAX / 64);
    list_init(&m->edited);
    list_init(&m->busy);
    list_init(&m->ring_changed);
    list_init(&m->touched);
    section_init(&m->section, member_kinds, row_record);
    buf_init(&m->scratch, SIZE_MAX / 4);
    return m;
}

void member_close(struct membership *m)
{
    struct order_place place;
    void *row;

    if (!m) return;
    assert(!m->local);
    section_close(&m->section);
    heap_deinit(&m->dues);
    heap_deinit(&m->ends);
    partitions_free(m);
    for (place = order_begin(&m->items); (row = order_next(&place)) != NULL;) {
        struct item *item = row;

        free(item->payload);
        free(item->result);
        free(item);
    }
    for (place = order_begin(&m->workers); (row = order_next(&place)) != NULL;) {
        struct worker *worker = row;

        order_clear(&worker->running);
        free(worker->labels);
        free(worker);
    }
    for (size_t i = 0; i < m->events_cap; i++) free(m->events[i]);
    free(m->events);
    order_clear(&m->items);
    order_clear(&m->pending);
    order_clear(&m->workers);
    map_deinit(&m->by_id);
    ring_close(m->ring);
    buf_deinit(&m->scratch);
    free(m->assigned);
    free(m);
}

/* -- the quota -- */
bool member_has_room(const struct membership *m, uint64_t bytes)
{
    return m->bytes <= m->options.quota_bytes && bytes <= m->options.quota_bytes - m->bytes;
}

uint64_t member_bytes(const struct membership *m)
{
    return m->bytes;
}

uint64_t member_work(const struct membership *m)
{
    return m->work;
}

uint64_t member_clock_ns(const struct membership *m)
{
    return m->clock_ns;
}

/* -- events -- */
struct member_event *member_event_begin(const struct membership *m, enum member_topic topic,
                                        const struct worker *worker, struct member_event *ret_event)
{
    *ret_event = (struct member_event){
        .topic = topic,
        .wall_ms = m->wall_ms,
        .worker = worker ? worker_id(worker) : STR_EMPTY,
        .incarnation = worker ? worker->incarnation : 0,
        .text = STR_EMPTY,
    };
    return ret_event;
}

void member_event_add(struct membership *m, const struct member_event *event)
{
    struct member_event numbered = *event;

    numbered.number = ++m->head.event_number;
    numbered.index = m->index;
    numbered.n = m->event_n++;
    (void)member_event_put(m, &numbered);
}

static struct member_result emitted(struct membership *m, const struct member_op *op,
                                    struct worker *)
{
    uint64_t through = min_u64(op->number, m->head.event_number);

    if (through <= m->head.emitted) return answer(MEMBER_S_SAME, NULL);
    member_events_drop(m, through);
    return answer(MEMBER_S_DONE, NULL);
}

/* -- small operations -- */
static struct member_result lead(struct membership *m, const struct member_op *op, struct worker *)
{
    struct member_head *head = &m->head;
    struct member_event event;

    if (head->led && op->number <= head->term) return answer(MEMBER_S_SAME, NULL);
    if (head->led) head->coord_epoch++; /* the first leader has epoch 0 */
    head->led = true;
    head->term = op->number;
    head->leader_len = (uint32_t)op->worker.len;
    memcpy(head->leader, op->worker.at, op->worker.len);
    member_event_begin(m, MEMBER_EV_LEADER_CHANGED, NULL, &event);
    event.worker = op->worker;
    event.epoch = head->coord_epoch;
    member_event_add(m, &event);
    return answer(MEMBER_S_DONE, NULL);
}

static struct member_result advise(struct membership *m, const struct member_op *op,
                                   struct worker *)
{
    struct member_head *head = &m->head;

    if (op->number == head->advised_ms) return answer(MEMBER_S_SAME, NULL);
    /* Until the next heartbeat a worker uses the longer interval that it was sent. A shorter limit
     * would make the worker fail. */
    if (op->number < head->advised_ms) {
        head->advised_before_ms =
            max_u64(head->advised_ms,
                    head->advised_before_until_ns > m->clock_ns ? head->advised_before_ms : 0);
        head->advised_before_until_ns =
            m->clock_ns + 4 * head->advised_before_ms * MEMBER_NS_PER_MS;
    }
    head->advised_ms = op->number;
    return answer(MEMBER_S_DONE, NULL);
}

static struct member_result suspect(struct membership *m, const struct member_op *op,
                                    struct worker *)
{
    struct worker *worker = op->all ? NULL : worker_find(m, op->worker);

    if (op->all)
        m->all_suspected = true;
    else if (worker)
        worker->suspected_at = m->command;
    return answer(MEMBER_S_DONE, NULL);
}

static struct member_result begin_round(struct membership *m, const struct member_op *op,
                                        struct worker *)
{
    if (op->number <= m->head.round) return answer(MEMBER_S_SAME, NULL);
    m->head.round = op->number;
    return answer(MEMBER_S_DONE, NULL);
}

/* -- apply -- */
static struct member_result tick(struct membership *, const struct member_op *, struct worker *)
{
    return answer(MEMBER_S_DONE, NULL);
}

static const struct {
    member_op_fn *apply;
    bool of_worker; /* names one incarnation */
} operations[MEMBER_OP_LAST + 1] = {
    [MEMBER_OP_TICK] = {tick},
    [MEMBER_OP_LEAD] = {lead},
    [MEMBER_OP_CONFIGURE] = {partitions_configure},
    [MEMBER_OP_SUSPECT] = {suspect},
    [MEMBER_OP_REGISTER] = {worker_register},
    [MEMBER_OP_READY] = {worker_ready, true},
    [MEMBER_OP_DRAIN] = {worker_drain, true},
    [MEMBER_OP_DEAD] = {worker_dead, true},
    [MEMBER_OP_LEAVE] = {worker_leave, true},
    [MEMBER_OP_ACK_REVOKE] = {partition_ack, true},
    [MEMBER_OP_CHECKPOINT] = {partition_checkpoint, true},
    [MEMBER_OP_ROUND] = {begin_round},
    [MEMBER_OP_EMITTED] = {emitted},
    [MEMBER_OP_ADVISE] = {advise},
    [MEMBER_OP_ENQUEUE] = {work_enqueue},
    [MEMBER_OP_PULL] = {work_pull, true},
    [MEMBER_OP_WORK_START] = {work_item, true},
    [MEMBER_OP_SUBMIT] = {work_item, true},
    [MEMBER_OP_RELEASE] = {work_item, true},
    [MEMBER_OP_STEAL] = {work_steal, true},
};

static enum member_status worker_current(const struct worker *worker, uint64_t incarnation)
{
    if (!worker) return MEMBER_S_UNKNOWN;
    if (worker->incarnation != incarnation) return MEMBER_S_STALE;
    return worker->standing == MEMBER_ACTIVE ? MEMBER_S_DONE : MEMBER_S_DEAD_NOW;
}

static struct member_result apply_op(struct membership *m, const struct member_op *op)
{
    struct worker *worker = NULL;
    enum member_status status = MEMBER_S_DONE;

    if (operations[op->kind].of_worker) {
        worker = worker_find(m, op->worker);
        status = worker_current(worker, op->incarnation);
    }
    return status ? answer(status, worker) : operations[op->kind].apply(m, op, worker);
}

static void member_check(const struct membership *m)
{
    const uint32_t *of = m->of_partition, *w = m->of_standing;
    uint32_t total = m->partitions ? m->head.rules.total_partitions : 0;
    uint32_t moving = of[MEMBER_REVOKING] + of[MEMBER_FENCING];
    const struct partition *p = total ? &m->partitions[m->command % total] : NULL;

    assert(of[MEMBER_FREE] + of[MEMBER_OWNED] + moving == total &&
           m->dues.count == moving); /* I1 */
    /* invariant I2 */
    assert(!p || (p->grant_epoch <= m->head.assignment_epoch && !p->owner == !p->state));
    /* invariant I3 */
    assert(w[MEMBER_ACTIVE] + w[MEMBER_DEAD] + w[MEMBER_REMOVED] == m->workers.count);
    assert(m->workers.count == map_count(&m->by_id));                 /* invariant I3 */
    assert(m->of_item[MEMBER_ITEM_PENDING] == m->pending.count);      /* invariant I4 */
    assert(m->head.event_number - m->head.emitted == m->event_count); /* invariant I5 */
    assert(list_empty(&m->edited));                                   /* invariant I6 */
}

void member_apply(struct membership *m, uint64_t index, uint64_t clock_ns,
                  const struct member_command *command, struct member_result *results)
{
    bool closes;

    member_check(m);
    m->clock_ns = max_u64(m->clock_ns, clock_ns);
    m->index = index;
    m->command++;
    m->wall_ms = command->wall_ms;
    m->event_n = 0;
    m->place_now = m->all_suspected = false;
    m->assigned_count = 0;
    m->work++;
    closes = partitions_window_ns(m) <= m->clock_ns;
    workers_expire(m);
    partitions_expire(m);
    for (size_t i = 0; i < command->op_count; i++) {
        m->op_number = i;
        results[i] = apply_op(m, &command->ops[i]);
        if (!m->head.rules.rebalance_window_ms && m->head.dirty) partitions_place(m);
    }
    if (m->head.dirty && (closes || m->place_now)) partitions_place(m);
    partitions_settle(m);
    rows_settle(m);
    member_check(m);
}

static void recover_worker(struct membership *m, struct worker *worker, uint64_t floor,
                           const struct member_instance *instance)
{
    struct order_place place = order_begin(&worker->running);
    struct item *item;

    row_edit(m, &worker->row);
    worker->incarnation = recovery_above(worker->incarnation, floor);
    if (worker->standing == MEMBER_ACTIVE && instance_known(&worker->instance))
        worker->instance = *instance;
    LIST_EACH(&worker->partitions, node)
    {
        struct partition *p = CONTAINER_OF(node, struct partition, held);

        row_edit(m, &p->row);
        p->owner_incarnation = worker->incarnation;
    }
    while ((item = order_next(&place)) != NULL) {
        row_edit(m, &item->row);
        item->incarnation = worker->incarnation;
    }
}

void member_recover(struct membership *m, uint64_t index, uint64_t clock_ns, uint64_t floor,
                    const struct member_instance *instance)
{
    struct order_place place = order_begin(&m->workers);
    struct member_head *head = &m->head;
    struct worker *worker;

    assert(!m->local); /* recovery is applied before this replica can lead */
    m->clock_ns = max_u64(m->clock_ns, clock_ns);
    m->index = index;
    m->command++;
    m->work++;
    head->coord_epoch = recovery_above(head->coord_epoch, floor);
    head->assignment_epoch = recovery_above(head->assignment_epoch, floor);
    head->round = recovery_above(head->round, floor);
    while ((worker = order_next(&place)) != NULL) recover_worker(m, worker, floor, instance);
    rows_settle(m);
    member_check(m);
}

uint64_t member_next_due(const struct membership *m)
{
    const struct heap_node *due = heap_peek(&m->dues), *end = heap_peek(&m->ends);
    uint64_t at = partitions_window_ns(m);

    if (due) at = min_u64(at, due->due);
    return end ? min_u64(at, end->due) : at;
}

void member_touch(struct membership *m, struct worker *worker)
{
    if (m->local && list_empty(&worker->touched)) list_append(&m->touched, &worker->touched);
}
