/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a membership from the bytes of a view (rows.c), in portions of any size. Every number is
 * checked: a snapshot must not build a state that no commands could build. */
#include <stdlib.h>
#include <string.h>

#include "member/core/internal.h"

enum { EVENTS_MOST = 1 << 24 };

struct member_restore {
    struct membership *m;
    struct section_reader reader;
    uint32_t partitions;
    bool *seen; /* by partition: already read */
};

static enum err header(struct member_restore *restore, struct decoder *in)
{
    struct membership *m = restore->m;

    if (decode_u32(in) != MEMBER_FORMAT) return in->good ? ERR_VERSION : ERR_CORRUPT;
    m->clock_ns = decode_u64(in);
    if (!member_head_read(in, &m->head) || !decode_done(in) ||
        (m->head.dirty && m->head.dirty_ns > m->clock_ns))
        return ERR_CORRUPT;
    if (m->head.event_number - m->head.emitted > EVENTS_MOST) return ERR_CORRUPT;
    if (!m->head.configured) return ERR_OK;
    restore->seen = calloc(m->head.rules.total_partitions, sizeof(bool));
    return restore->seen ? partitions_make(m, m->head.rules.total_partitions) : ERR_NOMEM;
}

static bool worker_fits(const struct membership *m, const struct worker *w)
{
    bool ended = w->standing == MEMBER_DEAD || w->standing == MEMBER_REMOVED;

    return (w->standing == MEMBER_ACTIVE || ended) && w->removal <= MEMBER_REMOVED_EVICTED &&
           (w->standing == MEMBER_REMOVED) == (w->removal != MEMBER_NOT_REMOVED) &&
           w->cause <= MEMBER_CONFLICT && w->incarnation > 0 && w->weight > 0 &&
           w->weight <= MEMBER_WEIGHT_MAX && w->ended_ns <= m->clock_ns &&
           w->flips_ns <= m->clock_ns && w->flips <= MEMBER_FLIPS_MAX + 1 &&
           !(ended && (w->ready || w->draining || w->drain_said)) &&
           (w->draining || !w->drain_said) && w->ring_weight <= MEMBER_WEIGHT_MAX &&
           w->on_ring == (w->ring_weight > 0);
}

static enum err worker(struct member_restore *restore, struct decoder *in)
{
    struct membership *m = restore->m;
    struct str id = decode_text(in, MEMBER_ID_MAX), labels;
    struct worker *w;

    if (!in->good || !member_is_id(id) || worker_find(m, id)) return ERR_CORRUPT;
    w = worker_new(m, id);
    labels = worker_read(in, w);
    if (!decode_done(in) || !worker_fits(m, w) || (w->on_ring && !m->ring)) {
        w->standing = MEMBER_REMOVED; /* a valid index, because freeing uses of_standing[] */
        return ERR_CORRUPT;
    }
    member_text(m, &w->labels, &w->labels_len, labels);
    m->of_standing[w->standing]++;
    m->draining += w->draining;
    worker_end_set(m, w);
    if (!w->on_ring) return ERR_OK;
    if (ring_add(m->ring, id)) return ERR_NOMEM;
    (void)ring_weigh(m->ring, id, w->ring_weight);
    return ERR_OK;
}

static bool owner_fits(const struct partition *p)
{
    switch (p->state) {
    case MEMBER_FREE: return !p->owner && !p->owner_incarnation;
    case MEMBER_OWNED:
    case MEMBER_REVOKING:
        return p->owner && p->owner->standing == MEMBER_ACTIVE &&
               p->owner_incarnation == p->owner->incarnation;
    case MEMBER_FENCING: return p->owner && p->owner_incarnation <= p->owner->incarnation;
    }
    return false;
}

static enum err partition(struct member_restore *restore, struct decoder *in)
{
    struct membership *m = restore->m;
    struct decoder ahead = *in;
    uint32_t number = decode_u32(&ahead);
    struct str owner, reference;
    struct partition *p;

    if (!ahead.good || !m->partitions || number >= m->head.rules.total_partitions ||
        restore->seen[number])
        return ERR_CORRUPT;
    restore->seen[number] = true;
    restore->partitions++;
    p = &m->partitions[number];
    partition_read(in, p, &owner, &reference);
    p->owner = owner.len ? worker_find(m, owner) : NULL;
    if (!decode_done(in) || (owner.len && !p->owner) || !owner_fits(p) ||
        p->grant_epoch > m->head.assignment_epoch || p->since_ns > m->clock_ns)
        return ERR_CORRUPT;
    member_text(m, &p->checkpoint, &p->checkpoint_len, reference);
    m->of_partition[MEMBER_FREE]--;
    m->of_partition[p->state]++;
    if (p->state == MEMBER_FENCING) {
        p->owner->fencing_count++;
        worker_end_set(m, p->owner);
    } else if (p->owner) {
        partition_hold(p);
    }
    partition_due(m, p);
    return ERR_OK;
}

static bool item_fits(const struct membership *m, const struct item *item)
{
    bool final = item->state == MEMBER_ITEM_DONE || item->state == MEMBER_ITEM_FAILED;

    if (item->state == MEMBER_ITEM_RUNNING)
        return item->worker && item->worker->standing == MEMBER_ACTIVE &&
               item->incarnation == item->worker->incarnation && item->place &&
               item->place <= m->head.places;
    return (final || item->state == MEMBER_ITEM_PENDING) && !item->worker && !item->incarnation &&
           !item->started && item->place && item->place <= m->head.places;
}

static bool place_is_free(const struct membership *m, uint64_t place)
{
    uint8_t key[8];

    for (int i = 0; i < 8; i++) key[i] = (uint8_t)(place >> (56 - 8 * i));
    return !order_find(&m->pending, (struct order_key){.first = str_of(key, sizeof key)});
}

static enum err item(struct member_restore *restore, struct decoder *in)
{
    struct membership *m = restore->m;
    struct decoder ahead = *in;
    struct member_digest id = {{0}};
    struct str owner, result, payload;
    struct item *made;

    decode_copy(&ahead, id.b, sizeof id.b);
    if (!ahead.good || item_find(m, &id)) return ERR_CORRUPT;
    made = item_new(m, &id);
    item_read(in, made, &owner, &result, &payload);
    made->worker = owner.len ? worker_find(m, owner) : NULL;
    if (!decode_done(in) || (owner.len && !made->worker) || !item_fits(m, made) ||
        (made->state == MEMBER_ITEM_PENDING && !place_is_free(m, made->place)))
        return ERR_CORRUPT;
    member_text(m, &made->payload, &made->payload_len, payload);
    member_text(m, &made->result, &made->result_len, result);
    item_file(m, made);
    return ERR_OK;
}

static enum err event(struct member_restore *restore, struct decoder *in)
{
    struct member_event e = {.number = 0};

    event_read(in, &e);
    if (!decode_done(in) || e.topic < MEMBER_EV_REGISTERED || e.topic > MEMBER_EV_WORK_STOLEN)
        return ERR_CORRUPT;
    return member_event_put(restore->m, &e) ? ERR_OK : ERR_CORRUPT;
}

static enum err take_record(void *restore, char kind, struct decoder *in)
{
    switch ((enum member_record)kind) {
    case RECORD_HEAD: return header(restore, in);
    case RECORD_WORKER: return worker(restore, in);
    case RECORD_PARTITION: return partition(restore, in);
    case RECORD_ITEM: return item(restore, in);
    case RECORD_EVENT: return event(restore, in);
    case RECORD_HASH: break; /* the snapshot reader handles this record */
    }
    return ERR_CORRUPT;
}

struct member_restore *member_restore_open(const struct member_options *options)
{
    struct member_restore *restore = calloc(1, sizeof *restore);

    if (!restore || !(restore->m = member_open(options))) {
        free(restore);
        return NULL;
    }
    section_read_begin(&restore->reader, "member", member_records, take_record, restore);
    return restore;
}

void member_restore_close(struct member_restore *restore)
{
    if (!restore) return;
    member_close(restore->m);
    section_read_close(&restore->reader);
    free(restore->seen);
    free(restore);
}

enum err member_restore_feed(struct member_restore *restore, struct str bytes, struct note *note)
{
    return section_read(&restore->reader, bytes, note);
}

static enum err restore_follow(struct membership *m)
{
    struct order_place place = order_begin(&m->workers);
    struct worker *w;
    uint32_t moved;

    while ((w = order_next(&place)) != NULL)
        if (worker_eligible(m, w) != w->on_ring || (w->on_ring && w->weight != w->ring_weight))
            list_append(&m->ring_changed, &w->ring_changed);
    m->unsettled = true;
    return m->partitions ? partitions_target(m, &moved) : ERR_OK;
}

static enum err restore_whole(struct member_restore *restore)
{
    struct membership *m = restore->m;
    bool whole = m->event_count == m->head.event_number - m->head.emitted &&
                 (!m->partitions || restore->partitions == m->head.rules.total_partitions);
    enum err err = whole ? section_read_end(&restore->reader) : ERR_CORRUPT;

    if (!err) err = restore_follow(m);
    rows_settle(m);
    return !err && member_hash(m) != restore->reader.hash ? ERR_CORRUPT : err;
}

enum err member_restore_done(struct member_restore *restore, struct membership **ret_membership,
                             struct note *note)
{
    enum err err = section_read_any(&restore->reader) ? restore_whole(restore) : ERR_OK;

    if (err) return section_read_failed(&restore->reader, err, note);
    *ret_membership = restore->m;
    restore->m = NULL;
    return ERR_OK;
}
