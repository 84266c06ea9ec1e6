/* SPDX-License-Identifier: Apache-2.0 */
/* Queries for status pages and lists. */
#include <stdlib.h>
#include <string.h>

#include "member/core/internal.h"

/* -- workers -- */
static void show_worker(const struct worker *w, struct member_worker *ret_worker)
{
    *ret_worker = (struct member_worker){
        .id = worker_id(w),
        .labels = w->labels ? str_of(w->labels, w->labels_len) : STR_EMPTY,
        .standing = w->standing,
        .removal = w->removal,
        .cause = w->cause,
        .incarnation = w->incarnation,
        .instance = w->instance,
        .has_instance = instance_known(&w->instance),
        .capable = w->capable,
        .ready = w->ready,
        .draining = w->draining,
        .on_ring = w->on_ring,
        .lease_ms = w->lease_ms,
        .weight = w->weight,
        .registered_ms = w->registered_ms,
        .ended_ms = w->ended_ms,
        .partitions = w->partition_count,
        .items = w->running.count,
    };
}

bool member_find_worker(const struct membership *m, struct str id, struct member_worker *ret_worker)
{
    const struct worker *worker = worker_find(m, id);

    if (worker) show_worker(worker, ret_worker);
    return worker != NULL;
}

bool member_next_worker(const struct membership *m, struct str after,
                        struct member_worker *ret_worker)
{
    struct order_place place = order_behind(&m->workers, (struct order_key){.first = after});
    const struct worker *worker = order_next(&place);

    if (worker) show_worker(worker, ret_worker);
    return worker != NULL;
}

/* -- partitions -- */
bool member_find_partition(const struct membership *m, uint32_t number,
                           struct member_partition *ret_partition)
{
    const struct partition *p;

    if (!m->partitions || number >= m->head.rules.total_partitions) return false;
    p = &m->partitions[number];
    *ret_partition = (struct member_partition){
        .number = number,
        .state = p->state,
        .owner = p->owner ? worker_id(p->owner) : STR_EMPTY,
        .owner_incarnation = p->owner_incarnation,
        .grant_epoch = p->grant_epoch,
        .target = p->target ? worker_id(p->target) : STR_EMPTY,
        .deadline_ns = p->state == MEMBER_FREE ? p->since_ns : p->deadline_ns,
        .checkpoint = p->checkpoint ? str_of(p->checkpoint, p->checkpoint_len) : STR_EMPTY,
        .checkpoint_epoch = p->checkpoint_epoch,
        .checkpoint_ms = p->checkpoint_ms,
    };
    return true;
}

static int ascending(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

size_t member_grants(const struct membership *m, struct str id, uint32_t *ret_numbers, size_t room)
{
    const struct worker *worker = worker_find(m, id);
    size_t count = 0;

    if (!worker) return 0;
    LIST_EACH(&worker->partitions, node)
    {
        if (count == room) break;
        ret_numbers[count++] = CONTAINER_OF(node, const struct partition, held)->number;
    }
    if (count > 1) qsort(ret_numbers, count, sizeof *ret_numbers, ascending);
    return worker->partition_count;
}

/* -- items -- */
static void show_item(const struct item *item, struct member_item *ret_item)
{
    *ret_item = (struct member_item){
        .id = item->id,
        .state = item->state,
        .place = item->place,
        .worker = item->worker ? worker_id(item->worker) : STR_EMPTY,
        .incarnation = item->incarnation,
        .started = item->started,
        .attempts = item->attempts,
        .enqueued_ms = item->enqueued_ms,
        .changed_ms = item->changed_ms,
        .payload = item->payload ? str_of(item->payload, item->payload_len) : STR_EMPTY,
        .result = item->result ? str_of(item->result, item->result_len) : STR_EMPTY,
    };
}

bool member_find_item(const struct membership *m, const struct member_digest *id,
                      struct member_item *ret_item)
{
    const struct item *item = item_find(m, id);

    if (item) show_item(item, ret_item);
    return item != NULL;
}

bool member_next_item(const struct membership *m, const struct member_digest *after,
                      struct member_item *ret_item)
{
    struct order_place place =
        after ? order_behind(&m->items,
                             (struct order_key){.first = str_of(after->b, sizeof after->b)})
              : order_begin(&m->items);
    const struct item *item = order_next(&place);

    if (item) show_item(item, ret_item);
    return item != NULL;
}

bool member_assigned(const struct membership *m, size_t number, size_t *ret_op,
                     struct member_item *ret_item)
{
    if (number >= m->assigned_count) return false;
    *ret_op = m->assigned[number].op;
    show_item(m->assigned[number].item, ret_item);
    return true;
}

/* -- totals of the status -- */
static uint64_t oldest_free(const struct membership *m)
{
    uint64_t oldest = UINT64_MAX;

    for (uint32_t i = 0; m->of_partition[MEMBER_FREE] && i < m->head.rules.total_partitions; i++)
        if (m->partitions[i].state == MEMBER_FREE)
            oldest = min_u64(oldest, m->partitions[i].since_ns);
    return oldest;
}

struct member_status_counts member_counts(const struct membership *m)
{
    struct member_status_counts counts = {
        .coord_epoch = m->head.coord_epoch,
        .assignment_epoch = m->head.assignment_epoch,
        .checkpoint_round = m->head.round,
        .term = m->head.term,
        .leader = str_of(m->head.leader, m->head.leader_len),
        .advised_ms = m->head.advised_ms,
        .active = m->of_standing[MEMBER_ACTIVE],
        .draining = m->draining,
        .dead = m->of_standing[MEMBER_DEAD],
        .tombstones = m->of_standing[MEMBER_REMOVED],
        .total_partitions = m->head.rules.total_partitions,
        .oldest_free_ns = oldest_free(m),
        .pending = m->of_item[MEMBER_ITEM_PENDING],
        .running = m->of_item[MEMBER_ITEM_RUNNING],
        .done = m->of_item[MEMBER_ITEM_DONE],
        .failed = m->of_item[MEMBER_ITEM_FAILED],
        .bytes = m->bytes,
        .quota = m->options.quota_bytes,
        .events = m->event_count,
        .configured = m->head.configured,
    };

    memcpy(counts.of_state, m->of_partition, sizeof counts.of_state);
    return counts;
}

const struct member_rules *member_rules(const struct membership *m)
{
    return &m->head.rules;
}
