/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as bytes: the same for the state's hash and for a snapshot. */
#include "member/core/internal.h"

/* -- writing -- */
static void write_worker(struct encoder *out, const struct worker *w)
{
    encode_text(out, worker_id(w));
    encode_u8(out, w->standing);
    encode_u8(out, w->removal);
    encode_u8(out, w->cause);
    encode_u8(out, w->capable);
    encode_u8(out, w->ready);
    encode_u8(out, w->draining);
    encode_u8(out, w->drain_said);
    encode_u8(out, w->on_ring);
    encode_u8(out, w->failed_told);
    encode_u64(out, w->incarnation);
    encode_bytes(out, w->instance.b, sizeof w->instance.b);
    encode_u32(out, w->lease_ms);
    encode_u32(out, w->weight);
    encode_u32(out, w->ring_weight);
    encode_u64(out, (uint64_t)w->registered_ms);
    encode_u64(out, (uint64_t)w->ended_ms);
    encode_u64(out, w->ended_ns);
    encode_u32(out, w->flips);
    encode_u64(out, w->flips_ns);
    encode_text(out, str_of(w->labels, w->labels_len));
}

static void write_partition(struct encoder *out, const struct partition *p)
{
    encode_u32(out, p->number);
    encode_u8(out, p->state);
    encode_u32(out, p->timeouts);
    encode_text(out, p->owner ? worker_id(p->owner) : STR_EMPTY);
    encode_u64(out, p->owner_incarnation);
    encode_u64(out, p->grant_epoch);
    encode_u64(out, p->since_ns);
    encode_u64(out, p->deadline_ns);
    encode_text(out, str_of(p->checkpoint, p->checkpoint_len));
    encode_u64(out, p->checkpoint_epoch);
    encode_u64(out, (uint64_t)p->checkpoint_ms);
}

/* The id stands for the payload. */
static void write_item(struct encoder *out, const struct item *item, bool whole)
{
    encode_bytes(out, item->id.b, sizeof item->id.b);
    encode_u8(out, item->state);
    encode_u64(out, item->place);
    encode_text(out, item->worker ? worker_id(item->worker) : STR_EMPTY);
    encode_u64(out, item->incarnation);
    encode_u8(out, item->started);
    encode_u32(out, item->attempts);
    encode_u64(out, (uint64_t)item->enqueued_ms);
    encode_u64(out, (uint64_t)item->changed_ms);
    encode_text(out, str_of(item->result, item->result_len));
    if (whole)
        encode_text(out, str_of(item->payload, item->payload_len));
    else
        encode_u32(out, item->payload_len);
}

static void write_event(struct encoder *out, const struct member_event *e)
{
    encode_u64(out, e->number);
    encode_u8(out, e->topic);
    encode_u64(out, e->index);
    encode_u32(out, e->n);
    encode_u64(out, (uint64_t)e->wall_ms);
    encode_text(out, e->worker);
    encode_u64(out, e->incarnation);
    encode_text(out, e->text);
    encode_u64(out, (uint64_t)e->due_ms);
    encode_u64(out, e->epoch);
    encode_u32(out, e->partition);
    encode_u64(out, e->count);
    encode_u64(out, e->extra);
    encode_bytes(out, e->item.b, sizeof e->item.b);
}

static void row_write(struct encoder *out, const struct row *row, bool whole)
{
    switch ((enum row_kind)row->section.kind) {
    case ROW_WORKER: write_worker(out, CONTAINER_OF(row, const struct worker, row)); return;
    case ROW_PARTITION:
        write_partition(out, CONTAINER_OF(row, const struct partition, row));
        return;
    case ROW_ITEM: write_item(out, CONTAINER_OF(row, const struct item, row), whole); return;
    case ROW_EVENT:
        write_event(out, &CONTAINER_OF(row, const struct event_row, row)->event);
        return;
    case ROW_KINDS: break;
    }
    assert(row->section.kind < ROW_KINDS);
}

static void head_write(struct encoder *out, const struct member_head *h)
{
    member_rules_write(out, &h->rules);
    encode_u8(out, h->configured);
    encode_u8(out, h->led);
    encode_u8(out, h->dirty);
    encode_u8(out, h->dirty_cause);
    encode_u64(out, h->dirty_ns);
    encode_u64(out, h->coord_epoch);
    encode_u64(out, h->term);
    encode_u64(out, h->assignment_epoch);
    encode_u64(out, h->round);
    encode_u64(out, h->advised_ms);
    encode_u64(out, h->advised_before_ms);
    encode_u64(out, h->advised_before_until_ns);
    encode_u64(out, h->event_number);
    encode_u64(out, h->emitted);
    encode_u64(out, h->places);
    encode_text(out, str_of(h->leader, h->leader_len));
}

bool member_head_read(struct decoder *in, struct member_head *h)
{
    struct str leader;

    memset(h, 0, sizeof *h);
    if (!member_rules_read(in, &h->rules)) return false;
    h->configured = decode_bool(in);
    h->led = decode_bool(in);
    h->dirty = decode_bool(in);
    h->dirty_cause = (uint8_t)decode_u8(in);
    h->dirty_ns = decode_u64(in);
    h->coord_epoch = decode_u64(in);
    h->term = decode_u64(in);
    h->assignment_epoch = decode_u64(in);
    h->round = decode_u64(in);
    h->advised_ms = decode_u64(in);
    h->advised_before_ms = decode_u64(in);
    h->advised_before_until_ns = decode_u64(in);
    h->event_number = decode_u64(in);
    h->emitted = decode_u64(in);
    h->places = decode_u64(in);
    leader = decode_text(in, MEMBER_ID_MAX);
    if (!in->good || h->dirty_cause > RING_SEVERAL || h->emitted > h->event_number ||
        h->advised_ms > MEMBER_ADVISE_MAX_MS || h->advised_before_ms > MEMBER_ADVISE_MAX_MS)
        return false;
    h->leader_len = (uint32_t)leader.len;
    if (leader.len) memcpy(h->leader, leader.at, leader.len);
    return true;
}

/* -- a snapshot (docs/formats/member.md); restore.c reads it back -- */
const char member_records[] = {
    RECORD_HEAD, RECORD_WORKER, RECORD_PARTITION, RECORD_ITEM, RECORD_EVENT, RECORD_HASH, '\0'};
const char member_kinds[] = {[ROW_WORKER] = RECORD_WORKER,
                             [ROW_PARTITION] = RECORD_PARTITION,
                             [ROW_ITEM] = RECORD_ITEM,
                             [ROW_EVENT] = RECORD_EVENT,
                             '\0'};

void row_record(const struct section_row *section, struct encoder *out)
{
    row_write(out, CONTAINER_OF(section, const struct row, section), true);
}

enum err member_view_open(struct membership *m, void **ret_view)
{
    struct section_view *view;
    struct encoder *out;
    size_t start;
    enum err err = section_view_open(&m->section, &view);

    if (err) return err;
    out = section_view_encoder(view);
    start = section_record_begin(out, RECORD_HEAD);
    encode_u32(out, MEMBER_FORMAT);
    encode_u64(out, m->clock_ns);
    head_write(out, &m->head);
    section_record_end(out, start);
    section_view_rows(view);
    section_view_hash(view, RECORD_HASH, member_hash(m));
    return section_view_ready(view, ERR_OK, ret_view);
}

/* -- the hash -- */
static uint64_t row_hash(struct membership *m, const struct row *row)
{
    struct encoder out = {&m->scratch, ERR_OK};

    buf_clear(&m->scratch);
    row_write(&out, row, false);
    if (out.err) (void)member_must(NULL);
    m->work++;
    return str_hash(buf_peek(&m->scratch), 0x40d5 + row->section.kind);
}

uint64_t member_hash(const struct membership *m)
{
    struct buf bytes;
    struct encoder out = {&bytes, ERR_OK};
    uint64_t hash;

    assert(list_empty(&m->edited));
    buf_init(&bytes, 4096);
    head_write(&out, &m->head);
    if (out.err) (void)member_must(NULL);
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
    *row = (struct row){.is_edited = false};
    list_init(&row->edited);
    section_row_born(&m->section, &row->section, kind);
    mark(m, row);
}

void row_edit(struct membership *m, struct row *row)
{
    if (row->is_edited) return;
    section_row_keep(&m->section, &row->section);
    m->hash ^= row_hash(m, row);
    mark(m, row);
}

void row_gone(struct membership *m, struct row *row)
{
    row_edit(m, row);
    list_remove(&row->edited);
    section_row_gone(&row->section);
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
