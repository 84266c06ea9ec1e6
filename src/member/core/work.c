/* SPDX-License-Identifier: Apache-2.0 */
/* Work items: each content is stored once and completed once (workers.md 20).
 *
 *   PENDING -> RUNNING -> DONE          back to PENDING: released, or the owner is gone
 *                  `----> FAILED        DONE and FAILED are final */
#include <stdlib.h>
#include <string.h>

#include "member/core/internal.h"

enum { WORKERS_SHARE = 8 }; /* one eighth of the quota is reserved for workers */

/* -- rows of items -- */
struct item *item_find(const struct membership *m, const struct member_digest *id)
{
    return order_find(&m->items, (struct order_key){.first = str_of(id->b, sizeof id->b)});
}

struct item *item_new(struct membership *m, const struct member_digest *id)
{
    struct item *item = member_must(calloc(1, sizeof *item));

    item->id = *id;
    row_born(m, &item->row, ROW_ITEM);
    if (order_insert(&m->items, item)) (void)member_must(NULL);
    m->bytes += ITEM_COST;
    return item;
}

static void insert(struct order *order, void *row)
{
    if (order_insert(order, row)) (void)member_must(NULL);
}

void item_file(struct membership *m, struct item *item)
{
    m->of_item[item->state]++;
    for (int i = 0; i < 8; i++) item->place_key[i] = (uint8_t)(item->place >> (56 - 8 * i));
    if (item->state == MEMBER_ITEM_PENDING) insert(&m->pending, item);
    if (item->state != MEMBER_ITEM_RUNNING) return;
    insert(&item->worker->running, item);
    if (list_empty(&item->worker->busy)) list_append(&m->busy, &item->worker->busy);
}

static void unfile(struct membership *m, struct item *item)
{
    m->of_item[item->state]--;
    if (item->state == MEMBER_ITEM_PENDING) order_remove(&m->pending, item);
    if (item->state != MEMBER_ITEM_RUNNING) return;
    order_remove(&item->worker->running, item);
    if (!item->worker->running.count) list_remove(&item->worker->busy);
}

static void move(struct membership *m, struct item *item, enum member_item_state state,
                 struct worker *worker)
{
    row_edit(m, &item->row);
    unfile(m, item);
    item->state = state;
    item->worker = worker;
    item->incarnation = worker ? worker->incarnation : 0;
    item->started = false;
    item->changed_ms = m->wall_ms;
    item_file(m, item);
}

static void work_notify(struct membership *m, const struct item *item, enum member_topic topic,
                        const struct worker *worker, struct str text)
{
    struct member_event event;

    member_event_begin(m, topic, worker, &event);
    event.item = item->id;
    event.text = text;
    member_event_add(m, &event);
}

/* also frees the item's payload */
static void finish(struct membership *m, struct item *item, enum member_item_state state,
                   struct worker *by, struct str result)
{
    move(m, item, state, NULL);
    member_text(m, &item->payload, &item->payload_len, STR_EMPTY);
    member_text(m, &item->result, &item->result_len, result);
    if (state == MEMBER_ITEM_DONE)
        work_notify(m, item, MEMBER_EV_WORK_COMPLETED, by, STR_EMPTY);
    else
        work_notify(m, item, MEMBER_EV_WORK_FAILED, by, result);
}

/* -- operations -- */
/* Done items are kept, so they could fill the quota: a part is reserved for workers and their
 * events. */
static bool work_has_room(const struct membership *m, uint64_t bytes)
{
    return member_has_room(m, bytes + m->options.quota_bytes / WORKERS_SHARE);
}

struct member_result work_enqueue(struct membership *m, const struct member_op *op, struct worker *)
{
    struct item *item = item_find(m, &op->item);
    bool anew = item && item->state == MEMBER_ITEM_FAILED && m->head.rules.work_requeue_failed;

    if (item && !anew)
        return answer(item->state == MEMBER_ITEM_DONE || item->state == MEMBER_ITEM_FAILED
                          ? MEMBER_S_FINAL
                          : MEMBER_S_JOINED,
                      NULL);
    if (m->event_count >= MEMBER_EVENTS_MAX) return answer(MEMBER_S_BUSY, NULL);
    if (!work_has_room(m, (anew ? 0 : ITEM_COST) + op->bytes.len))
        return answer(MEMBER_S_FULL, NULL);
    if (anew) {
        row_edit(m, &item->row);
        member_text(m, &item->result, &item->result_len, STR_EMPTY);
        unfile(m, item);
    } else {
        item = item_new(m, &op->item);
    }
    item->state = MEMBER_ITEM_PENDING;
    item->place = ++m->head.places;
    item->attempts = 0;
    item->enqueued_ms = item->changed_ms = m->wall_ms;
    member_text(m, &item->payload, &item->payload_len, op->bytes);
    item_file(m, item);
    return answer(MEMBER_S_DONE, NULL);
}

static void assign(struct membership *m, struct item *item)
{
    if (m->assigned_count == m->assigned_cap) {
        m->assigned_cap = m->assigned_cap ? 2 * m->assigned_cap : 16;
        m->assigned = member_must(realloc(m->assigned, m->assigned_cap * sizeof *m->assigned));
    }
    m->assigned[m->assigned_count++] = (struct assigned){m->op_number, item};
}

struct member_result work_pull(struct membership *m, const struct member_op *op,
                               struct worker *worker)
{
    struct member_result result = answer(MEMBER_S_DONE, worker);
    uint64_t bytes = 0;

    if (m->event_count >= MEMBER_EVENTS_MAX) return answer(MEMBER_S_BUSY, worker);
    while (!worker->draining && result.items < op->number) {
        struct order_place place = order_begin(&m->pending);
        struct item *item = order_next(&place);

        if (!item) break;
        bytes += item->payload_len;
        if (op->limit && bytes > op->limit && result.items) break;
        move(m, item, MEMBER_ITEM_RUNNING, worker);
        work_notify(m, item, MEMBER_EV_WORK_DISPATCHED, worker, STR_EMPTY);
        assign(m, item);
        result.items++;
    }
    return result;
}

/* the worker with the most items, except `but`; on a tie, the greatest id */
static struct worker *busiest(const struct membership *m, const struct worker *but)
{
    struct worker *most = NULL;

    for (const struct list *node = m->busy.next; node && node != &m->busy; node = node->next) {
        struct worker *worker = CONTAINER_OF(node, struct worker, busy);

        if (worker == but) continue;
        if (!most || worker->running.count > most->running.count ||
            (worker->running.count == most->running.count &&
             str_compare(worker_id(worker), worker_id(most)) > 0))
            most = worker;
    }
    return most;
}

/* up to `room` items, by id */
static uint32_t choose(const struct worker *victim, bool started, struct item **ret_items,
                       uint32_t room)
{
    struct order_place place = order_begin(&victim->running);
    uint32_t count = 0;
    struct item *item;

    while (count < room && (item = order_next(&place)) != NULL)
        if (item->started == started) ret_items[count++] = item;
    return count;
}

struct member_result work_steal(struct membership *m, const struct member_op *,
                                struct worker *thief)
{
    struct member_result result = answer(MEMBER_S_DONE, thief);
    struct worker *victim = busiest(m, thief);
    struct item *items[MEMBER_PULL_MAX];
    uint32_t count, want;

    if (m->event_count >= MEMBER_EVENTS_MAX) return answer(MEMBER_S_BUSY, thief);
    if (thief->draining || thief->running.count || !victim) return result;
    want = (uint32_t)min_u64((victim->running.count + 1u) / 2, m->head.rules.work_max_steal);
    count = choose(victim, false, items, want);
    if (m->head.rules.work_steal_started)
        count += choose(victim, true, items + count, want - count);
    for (uint32_t i = 0; i < count; i++) {
        move(m, items[i], MEMBER_ITEM_RUNNING, thief);
        work_notify(m, items[i], MEMBER_EV_WORK_STOLEN, thief, STR_EMPTY);
        assign(m, items[i]);
    }
    result.items = count;
    return result;
}

static struct member_result submit(struct membership *m, const struct member_op *op,
                                   struct item *item, struct worker *worker)
{
    if (!work_has_room(m, op->bytes.len) && op->bytes.len > item->payload_len)
        return answer(MEMBER_S_FULL, worker);
    if (op->flag)
        finish(m, item, MEMBER_ITEM_FAILED, worker, op->text.len ? op->text : STR("failed"));
    else
        finish(m, item, MEMBER_ITEM_DONE, worker, op->bytes);
    return answer(MEMBER_S_DONE, worker);
}

struct member_result work_item(struct membership *m, const struct member_op *op,
                               struct worker *worker)
{
    struct item *item = item_find(m, &op->item);

    if (!item) return answer(MEMBER_S_NO_ITEM, worker);
    if (item->state == MEMBER_ITEM_DONE || item->state == MEMBER_ITEM_FAILED)
        return answer(MEMBER_S_FINAL, worker);
    if (item->state != MEMBER_ITEM_RUNNING || item->worker != worker ||
        item->incarnation != op->incarnation)
        return answer(MEMBER_S_NOT_OWNER, worker);
    if (op->kind == MEMBER_OP_SUBMIT) return submit(m, op, item, worker);
    if (op->kind == MEMBER_OP_RELEASE) {
        move(m, item, MEMBER_ITEM_PENDING, NULL);
        return answer(MEMBER_S_DONE, worker);
    }
    if (item->started) return answer(MEMBER_S_SAME, worker);
    row_edit(m, &item->row);
    item->started = true;
    return answer(MEMBER_S_DONE, worker);
}

void work_let_go(struct membership *m, struct worker *worker, bool died)
{
    while (worker->running.count) {
        struct order_place place = order_begin(&worker->running);
        struct item *item = order_next(&place);

        row_edit(m, &item->row);
        if (died) item->attempts++;
        if (item->attempts >= m->head.rules.work_max_attempts)
            finish(m, item, MEMBER_ITEM_FAILED, worker, STR("poison"));
        else
            move(m, item, MEMBER_ITEM_PENDING, NULL);
    }
}
