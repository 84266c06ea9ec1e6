/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as bytes: the same for the state's hash and for a snapshot. */
#include "member/core/codec.h"
#include "member/core/internal.h"

/* -- writing -- */
static void write_worker(struct pen *pen, const struct worker *w)
{
    pen_text(pen, worker_id(w));
    pen_u8(pen, w->standing);
    pen_u8(pen, w->removal);
    pen_u8(pen, w->cause);
    pen_u8(pen, w->capable);
    pen_u8(pen, w->ready);
    pen_u8(pen, w->draining);
    pen_u8(pen, w->drain_said);
    pen_u8(pen, w->on_ring);
    pen_u8(pen, w->failed_told);
    pen_u64(pen, w->incarnation);
    pen_bytes(pen, w->instance.b, sizeof w->instance.b);
    pen_u32(pen, w->lease_ms);
    pen_u32(pen, w->weight);
    pen_u32(pen, w->ring_weight);
    pen_u64(pen, (uint64_t)w->registered_ms);
    pen_u64(pen, (uint64_t)w->ended_ms);
    pen_u64(pen, w->ended_ns);
    pen_u32(pen, w->flips);
    pen_u64(pen, w->flips_ns);
    pen_text(pen, str_of(w->labels, w->labels_len));
}

static void write_partition(struct pen *pen, const struct partition *p)
{
    pen_u32(pen, p->number);
    pen_u8(pen, p->state);
    pen_u32(pen, p->timeouts);
    pen_text(pen, p->owner ? worker_id(p->owner) : STR_EMPTY);
    pen_u64(pen, p->owner_incarnation);
    pen_u64(pen, p->grant_epoch);
    pen_u64(pen, p->since_ns);
    pen_u64(pen, p->deadline_ns);
    pen_text(pen, str_of(p->checkpoint, p->checkpoint_len));
    pen_u64(pen, p->checkpoint_epoch);
    pen_u64(pen, (uint64_t)p->checkpoint_ms);
}

/* The id stands for the payload. */
static void write_item(struct pen *pen, const struct item *item, bool whole)
{
    pen_bytes(pen, item->id.b, sizeof item->id.b);
    pen_u8(pen, item->state);
    pen_u64(pen, item->place);
    pen_text(pen, item->worker ? worker_id(item->worker) : STR_EMPTY);
    pen_u64(pen, item->incarnation);
    pen_u8(pen, item->started);
    pen_u32(pen, item->attempts);
    pen_u64(pen, (uint64_t)item->enqueued_ms);
    pen_u64(pen, (uint64_t)item->changed_ms);
    pen_text(pen, str_of(item->result, item->result_len));
    if (whole)
        pen_text(pen, str_of(item->payload, item->payload_len));
    else
        pen_u32(pen, item->payload_len);
}

static void write_event(struct pen *pen, const struct member_event *e)
{
    pen_u64(pen, e->number);
    pen_u8(pen, e->topic);
    pen_u64(pen, e->index);
    pen_u32(pen, e->n);
    pen_u64(pen, (uint64_t)e->wall_ms);
    pen_text(pen, e->worker);
    pen_u64(pen, e->incarnation);
    pen_text(pen, e->text);
    pen_u64(pen, (uint64_t)e->due_ms);
    pen_u64(pen, e->epoch);
    pen_u32(pen, e->partition);
    pen_u64(pen, e->count);
    pen_u64(pen, e->extra);
    pen_bytes(pen, e->item.b, sizeof e->item.b);
}

void row_write(struct pen *pen, const struct row *row, bool whole)
{
    switch ((enum row_kind)row->kind) {
    case ROW_WORKER: write_worker(pen, CONTAINER_OF(row, const struct worker, row)); return;
    case ROW_PARTITION:
        write_partition(pen, CONTAINER_OF(row, const struct partition, row));
        return;
    case ROW_ITEM: write_item(pen, CONTAINER_OF(row, const struct item, row), whole); return;
    case ROW_EVENT:
        write_event(pen, &CONTAINER_OF(row, const struct event_row, row)->event);
        return;
    case ROW_KINDS: break;
    }
    assert(row->kind < ROW_KINDS);
}

void member_head_write(struct pen *pen, const struct member_head *h)
{
    pen_rules(pen, &h->rules);
    pen_u8(pen, h->configured);
    pen_u8(pen, h->led);
    pen_u8(pen, h->dirty);
    pen_u8(pen, h->dirty_cause);
    pen_u64(pen, h->dirty_ns);
    pen_u64(pen, h->coord_epoch);
    pen_u64(pen, h->term);
    pen_u64(pen, h->assignment_epoch);
    pen_u64(pen, h->round);
    pen_u64(pen, h->advised_ms);
    pen_u64(pen, h->advised_before_ms);
    pen_u64(pen, h->advised_before_until_ns);
    pen_u64(pen, h->event_number);
    pen_u64(pen, h->emitted);
    pen_u64(pen, h->places);
    pen_text(pen, str_of(h->leader, h->leader_len));
}

bool member_head_read(struct eye *eye, struct member_head *h)
{
    struct str leader;

    memset(h, 0, sizeof *h);
    if (!eye_rules(eye, &h->rules)) return false;
    h->configured = eye_bool(eye);
    h->led = eye_bool(eye);
    h->dirty = eye_bool(eye);
    h->dirty_cause = (uint8_t)eye_u8(eye);
    h->dirty_ns = eye_u64(eye);
    h->coord_epoch = eye_u64(eye);
    h->term = eye_u64(eye);
    h->assignment_epoch = eye_u64(eye);
    h->round = eye_u64(eye);
    h->advised_ms = eye_u64(eye);
    h->advised_before_ms = eye_u64(eye);
    h->advised_before_until_ns = eye_u64(eye);
    h->event_number = eye_u64(eye);
    h->emitted = eye_u64(eye);
    h->places = eye_u64(eye);
    leader = eye_text(eye, MEMBER_ID_MAX);
    if (!eye->good || h->dirty_cause > RING_SEVERAL || h->emitted > h->event_number ||
        h->advised_ms > MEMBER_ADVISE_MAX_MS || h->advised_before_ms > MEMBER_ADVISE_MAX_MS)
        return false;
    h->leader_len = (uint32_t)leader.len;
    if (leader.len) memcpy(h->leader, leader.at, leader.len);
    return true;
}

/* -- the hash -- */
static uint64_t row_hash(struct membership *m, const struct row *row)
{
    struct pen pen = {&m->scratch, ERR_OK};

    buf_clear(&m->scratch);
    row_write(&pen, row, false);
    if (pen.err) (void)member_must(NULL);
    m->work++;
    return str_hash(buf_peek(&m->scratch), 0x40d5 + row->kind);
}

uint64_t member_hash(const struct membership *m)
{
    struct buf bytes;
    struct pen pen = {&bytes, ERR_OK};
    uint64_t hash;

    assert(list_empty(&m->edited));
    buf_init(&bytes, 4096);
    member_head_write(&pen, &m->head);
    if (pen.err) (void)member_must(NULL);
    hash = m->hash ^ str_hash(buf_peek(&bytes), 0x4ead);
    buf_deinit(&bytes);
    return hash;
}

static void mark(struct membership *m, struct row *row)
{
    row->is_edited = true;
    list_append(&m->edited, &row->edited);
}

void row_born(struct membership *m, struct row *row, enum row_kind kind)
{
    *row = (struct row){.stamp = m->view_stamp, .kind = (uint8_t)kind};
    list_init(&row->told);
    list_init(&row->edited);
    list_append(&m->told[kind], &row->told);
    mark(m, row);
}

void row_edit(struct membership *m, struct row *row)
{
    if (row->is_edited) return;
    view_keep(m, row);
    m->hash ^= row_hash(m, row);
    mark(m, row);
}

void row_gone(struct membership *m, struct row *row)
{
    row_edit(m, row);
    list_remove(&row->edited);
    list_remove(&row->told);
}

void rows_settle(struct membership *m)
{
    struct list *node;

    while ((node = list_pop(&m->edited)) != NULL) {
        struct row *row = CONTAINER_OF(node, struct row, edited);

        row->is_edited = false;
        m->hash ^= row_hash(m, row);
    }
}
