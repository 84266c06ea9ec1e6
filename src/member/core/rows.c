/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes rows, in the same way for the state's hash and for a snapshot. */
#include "member/core/fields.h"
#include "member/core/internal.h"

/* -- fields; texts are written between these groups -- */
static const struct member_field worker_fields[] = {
    ENUM(worker, standing),     ENUM(worker, removal),      ENUM(worker, cause),
    FIELD(worker, capable),     FIELD(worker, ready),       FIELD(worker, draining),
    FIELD(worker, drain_said),  FIELD(worker, on_ring),     FIELD(worker, failed_reported),
    FIELD(worker, incarnation), FIELD(worker, instance),    FIELD(worker, lease_ms),
    FIELD(worker, weight),      FIELD(worker, ring_weight), FIELD(worker, registered_ms),
    FIELD(worker, ended_ms),    FIELD(worker, ended_ns),    FIELD(worker, flips),
    FIELD(worker, flips_ns),
};
static const struct member_field partition_now[] = {
    FIELD(partition, number), ENUM(partition, state), FIELD(partition, timeouts)};
static const struct member_field partition_grant[] = {
    FIELD(partition, owner_incarnation), FIELD(partition, grant_epoch), FIELD(partition, since_ns),
    FIELD(partition, deadline_ns)};
static const struct member_field partition_kept[] = {FIELD(partition, checkpoint_epoch),
                                                     FIELD(partition, checkpoint_ms)};
static const struct member_field item_state[] = {FIELD(item, id), ENUM(item, state),
                                                 FIELD(item, place)};
static const struct member_field item_run[] = {FIELD(item, incarnation), FIELD(item, started),
                                               FIELD(item, attempts), FIELD(item, enqueued_ms),
                                               FIELD(item, changed_ms)};
static const struct member_field event_fields[] = {
    FIELD(member_event, number),      ENUM(member_event, topic),
    FIELD(member_event, index),       FIELD(member_event, n),
    FIELD(member_event, wall_ms),     TEXT(member_event, worker, MEMBER_ID_MAX),
    FIELD(member_event, incarnation), TEXT(member_event, text, MEMBER_REASON_MAX),
    FIELD(member_event, due_ms),      FIELD(member_event, epoch),
    FIELD(member_event, partition),   FIELD(member_event, count),
    FIELD(member_event, extra),       FIELD(member_event, item),
};
static const struct member_field head_fields[] = {
    FIELD(member_head, configured),
    FIELD(member_head, led),
    FIELD(member_head, dirty),
    FIELD(member_head, dirty_cause),
    FIELD(member_head, dirty_ns),
    FIELD(member_head, coord_epoch),
    FIELD(member_head, term),
    FIELD(member_head, assignment_epoch),
    FIELD(member_head, round),
    FIELD(member_head, advised_ms),
    FIELD(member_head, advised_before_ms),
    FIELD(member_head, advised_before_until_ns),
    FIELD(member_head, event_number),
    FIELD(member_head, emitted),
    FIELD(member_head, places),
};

/* -- encoding -- */
static void write_worker(struct encoder *out, const struct worker *w)
{
    encode_text(out, worker_id(w));
    FIELDS_WRITE(out, worker_fields, w);
    encode_text(out, str_of(w->labels, w->labels_len));
}

static void write_partition(struct encoder *out, const struct partition *p)
{
    FIELDS_WRITE(out, partition_now, p);
    encode_text(out, p->owner ? worker_id(p->owner) : STR_EMPTY);
    FIELDS_WRITE(out, partition_grant, p);
    encode_text(out, str_of(p->checkpoint, p->checkpoint_len));
    FIELDS_WRITE(out, partition_kept, p);
}

/* The hash uses the id, not the payload, because the id identifies the payload. */
static void write_item(struct encoder *out, const struct item *item, bool whole)
{
    FIELDS_WRITE(out, item_state, item);
    encode_text(out, item->worker ? worker_id(item->worker) : STR_EMPTY);
    FIELDS_WRITE(out, item_run, item);
    encode_text(out, str_of(item->result, item->result_len));
    if (whole)
        encode_text(out, str_of(item->payload, item->payload_len));
    else
        encode_u32(out, item->payload_len);
}

static void row_write(struct encoder *out, const struct member_row *row, bool whole)
{
    switch ((enum row_kind)row->section.kind) {
    case ROW_WORKER: write_worker(out, CONTAINER_OF(row, const struct worker, row)); return;
    case ROW_PARTITION:
        write_partition(out, CONTAINER_OF(row, const struct partition, row));
        return;
    case ROW_ITEM: write_item(out, CONTAINER_OF(row, const struct item, row), whole); return;
    case ROW_EVENT:
        FIELDS_WRITE(out, event_fields, &CONTAINER_OF(row, const struct event_row, row)->event);
        return;
    case ROW_KINDS: break;
    }
    assert(row->section.kind < ROW_KINDS);
}

static void head_write(struct encoder *out, const struct member_head *h)
{
    member_rules_write(out, &h->rules);
    FIELDS_WRITE(out, head_fields, h);
    encode_text(out, str_of(h->leader, h->leader_len));
}

/* -- reading; the caller checks whether the values are consistent -- */
struct str worker_read(struct decoder *in, struct worker *w)
{
    FIELDS_READ(in, worker_fields, w);
    return decode_text(in, MEMBER_LABELS_MAX);
}

void partition_read(struct decoder *in, struct partition *p, struct str *ret_owner,
                    struct str *ret_reference)
{
    FIELDS_READ(in, partition_now, p);
    *ret_owner = decode_text(in, MEMBER_ID_MAX);
    FIELDS_READ(in, partition_grant, p);
    *ret_reference = decode_text(in, MEMBER_REFERENCE_MAX);
    FIELDS_READ(in, partition_kept, p);
}

void item_read(struct decoder *in, struct item *item, struct str *ret_owner, struct str *ret_result,
               struct str *ret_payload)
{
    FIELDS_READ(in, item_state, item);
    *ret_owner = decode_text(in, MEMBER_ID_MAX);
    FIELDS_READ(in, item_run, item);
    *ret_result = decode_text(in, MEMBER_WORK_RESULT_MAX);
    *ret_payload = decode_text(in, MEMBER_PAYLOAD_MAX);
}

void event_read(struct decoder *in, struct member_event *event)
{
    FIELDS_READ(in, event_fields, event);
}

bool member_head_read(struct decoder *in, struct member_head *h)
{
    struct str leader;

    memset(h, 0, sizeof *h);
    if (!member_rules_read(in, &h->rules)) return false;
    FIELDS_READ(in, head_fields, h);
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
    row_write(out, CONTAINER_OF(section, const struct member_row, section), true);
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

/* -- the hash of the state -- */
static uint64_t row_hash(struct membership *m, const struct member_row *row)
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

    buf_init(&bytes, 4096);
    head_write(&out, &m->head);
    if (out.err) (void)member_must(NULL);
    hash = m->hash ^ str_hash(buf_peek(&bytes), 0x4ead);
    buf_deinit(&bytes);
    return hash;
}

static void mark(struct membership *m, struct member_row *row)
{
    row->is_edited = true;
    list_append(&m->edited, &row->edited);
}

void row_born(struct membership *m, struct member_row *row, enum row_kind kind)
{
    *row = (struct member_row){.is_edited = false};
    list_init(&row->edited);
    section_row_born(&m->section, &row->section, kind);
    mark(m, row);
}

void row_edit(struct membership *m, struct member_row *row)
{
    if (row->is_edited) return;
    section_row_keep(&m->section, &row->section);
    m->hash ^= row_hash(m, row);
    mark(m, row);
}

void row_gone(struct membership *m, struct member_row *row)
{
    row_edit(m, row);
    list_remove(&row->edited);
    section_row_gone(&row->section);
}

void rows_settle(struct membership *m)
{
    struct list *node;

    while ((node = list_pop(&m->edited)) != NULL) {
        struct member_row *row = CONTAINER_OF(node, struct member_row, edited);

        row->is_edited = false;
        m->hash ^= row_hash(m, row);
    }
}
