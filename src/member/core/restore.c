/* SPDX-License-Identifier: Apache-2.0 */
/* A membership from the bytes of a view (view.c), in any portions. Every number is checked against
 * what it must fit: bytes from outside build nothing that a command could not have built. */
#include <stdlib.h>
#include <string.h>

#include "member/core/codec.h"
#include "member/core/internal.h"

enum { RECORD_HEAD = 5, RECORD_MAX = 4 << 20, EVENTS_MOST = 1 << 24 };
static const char stages[] = "HWPIEZ";

struct member_restore {
    struct membership *m;
    struct buf rest; /* the record that is not whole yet */
    uint64_t at, hash;
    uint32_t partitions;
    bool *seen; /* partitions that have come */
    char stage;
    bool ended;
};

static enum err header(struct member_restore *restore, struct eye *eye)
{
    struct membership *m = restore->m;

    if (eye_u32(eye) != MEMBER_FORMAT) return eye->good ? ERR_VERSION : ERR_CORRUPT;
    m->clock_ns = eye_u64(eye);
    if (!member_head_read(eye, &m->head) || !eye_done(eye) ||
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

static enum err worker(struct member_restore *restore, struct eye *eye)
{
    struct membership *m = restore->m;
    struct str id = eye_text(eye, MEMBER_ID_MAX), labels;
    struct worker *w;

    if (!eye->good || !member_is_id(id) || worker_find(m, id)) return ERR_CORRUPT;
    w = worker_new(m, id);
    w->standing = (enum member_standing)eye_u8(eye);
    w->removal = (enum member_removal)eye_u8(eye);
    w->cause = (enum member_cause)eye_u8(eye);
    w->capable = eye_bool(eye);
    w->ready = eye_bool(eye);
    w->draining = eye_bool(eye);
    w->drain_said = eye_bool(eye);
    w->on_ring = eye_bool(eye);
    w->failed_told = eye_bool(eye);
    w->incarnation = eye_u64(eye);
    eye_copy(eye, w->instance.b, sizeof w->instance.b);
    w->lease_ms = eye_u32(eye);
    w->weight = eye_u32(eye);
    w->ring_weight = eye_u32(eye);
    w->registered_ms = (int64_t)eye_u64(eye);
    w->ended_ms = (int64_t)eye_u64(eye);
    w->ended_ns = eye_u64(eye);
    w->flips = eye_u32(eye);
    w->flips_ns = eye_u64(eye);
    labels = eye_text(eye, MEMBER_LABELS_MAX);
    if (!eye_done(eye) || !worker_fits(m, w) || (w->on_ring && !m->ring)) {
        w->standing = MEMBER_REMOVED; /* a count has to be given back when it is freed */
        return ERR_CORRUPT;
    }
    worker_labels(m, w, labels);
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

static enum err partition(struct member_restore *restore, struct eye *eye)
{
    struct membership *m = restore->m;
    uint32_t number = eye_u32(eye);
    struct str owner, reference;
    struct partition *p;

    if (!eye->good || !m->partitions || number >= m->head.rules.total_partitions ||
        restore->seen[number])
        return ERR_CORRUPT;
    restore->seen[number] = true;
    restore->partitions++;
    p = &m->partitions[number];
    p->state = (enum member_partition_state)eye_u8(eye);
    p->timeouts = eye_u32(eye);
    owner = eye_text(eye, MEMBER_ID_MAX);
    p->owner_incarnation = eye_u64(eye);
    p->grant_epoch = eye_u64(eye);
    p->since_ns = eye_u64(eye);
    p->deadline_ns = eye_u64(eye);
    reference = eye_text(eye, MEMBER_REFERENCE_MAX);
    p->checkpoint_epoch = eye_u64(eye);
    p->checkpoint_ms = (int64_t)eye_u64(eye);
    p->owner = owner.len ? worker_find(m, owner) : NULL;
    if (!eye_done(eye) || (owner.len && !p->owner) || !owner_fits(p) ||
        p->grant_epoch > m->head.assignment_epoch || p->since_ns > m->clock_ns)
        return ERR_CORRUPT;
    partition_reference(m, p, reference);
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

static enum err item(struct member_restore *restore, struct eye *eye)
{
    struct membership *m = restore->m;
    struct member_digest id = {{0}};
    struct str owner, result, payload;
    struct item *made;

    eye_copy(eye, id.b, sizeof id.b);
    if (!eye->good || item_find(m, &id)) return ERR_CORRUPT;
    made = item_new(m, &id);
    made->state = (enum member_item_state)eye_u8(eye);
    made->place = eye_u64(eye);
    owner = eye_text(eye, MEMBER_ID_MAX);
    made->incarnation = eye_u64(eye);
    made->started = eye_bool(eye);
    made->attempts = eye_u32(eye);
    made->enqueued_ms = (int64_t)eye_u64(eye);
    made->changed_ms = (int64_t)eye_u64(eye);
    result = eye_text(eye, MEMBER_WORK_RESULT_MAX);
    payload = eye_text(eye, MEMBER_PAYLOAD_MAX);
    made->worker = owner.len ? worker_find(m, owner) : NULL;
    if (!eye_done(eye) || (owner.len && !made->worker) || !item_fits(m, made) ||
        (made->state == MEMBER_ITEM_PENDING && !place_is_free(m, made->place)))
        return ERR_CORRUPT;
    item_texts(m, made, payload, result);
    item_file(m, made);
    return ERR_OK;
}

static enum err event(struct member_restore *restore, struct eye *eye)
{
    struct member_event e = {.number = eye_u64(eye)};

    e.topic = (enum member_topic)eye_u8(eye);
    e.index = eye_u64(eye);
    e.n = eye_u32(eye);
    e.wall_ms = (int64_t)eye_u64(eye);
    e.worker = eye_text(eye, MEMBER_ID_MAX);
    e.incarnation = eye_u64(eye);
    e.text = eye_text(eye, MEMBER_REASON_MAX);
    e.due_ms = (int64_t)eye_u64(eye);
    e.epoch = eye_u64(eye);
    e.partition = eye_u32(eye);
    e.count = eye_u64(eye);
    e.extra = eye_u64(eye);
    eye_copy(eye, e.item.b, sizeof e.item.b);
    if (!eye_done(eye) || e.topic < MEMBER_EV_REGISTERED || e.topic > MEMBER_EV_WORK_STOLEN)
        return ERR_CORRUPT;
    return member_event_put(restore->m, &e) ? ERR_OK : ERR_CORRUPT;
}

static enum err take_record(struct member_restore *restore, char kind, struct str content)
{
    struct eye eye = {content, true};
    const char *now = strchr(stages, restore->stage), *then = kind ? strchr(stages, kind) : NULL;

    if (!then || then < now || restore->ended || (kind == 'H') != (restore->at == 0))
        return ERR_CORRUPT;
    restore->stage = kind;
    switch (kind) {
    case 'H': return header(restore, &eye);
    case 'W': return worker(restore, &eye);
    case 'P': return partition(restore, &eye);
    case 'I': return item(restore, &eye);
    case 'E': return event(restore, &eye);
    default:
        restore->hash = eye_u64(&eye);
        restore->ended = true;
        return eye_done(&eye) ? ERR_OK : ERR_CORRUPT;
    }
}

struct member_restore *member_restore_open(const struct member_options *options)
{
    struct member_restore *restore = calloc(1, sizeof *restore);

    if (!restore || !(restore->m = member_open(options))) {
        free(restore);
        return NULL;
    }
    restore->stage = 'H';
    buf_init(&restore->rest, RECORD_MAX + RECORD_HEAD);
    return restore;
}

void member_restore_close(struct member_restore *restore)
{
    if (!restore) return;
    member_close(restore->m);
    buf_deinit(&restore->rest);
    free(restore->seen);
    free(restore);
}

static enum err say(const struct member_restore *restore, enum err err, struct note *note)
{
    if (err)
        note_set(note, "member section: record '%c' at byte %llu: %s", restore->stage,
                 (unsigned long long)restore->at, err_text(err));
    return err;
}

enum err member_restore_feed(struct member_restore *restore, struct str bytes, struct note *note)
{
    struct str left = bytes;

    while (left.len > 0) {
        struct str have = buf_peek(&restore->rest);
        size_t want =
            have.len < RECORD_HEAD ? RECORD_HEAD : RECORD_HEAD + (size_t)load_le32(have.at + 1);
        size_t part = min_size(left.len, want - have.len);
        enum err err;

        if (want > RECORD_MAX + RECORD_HEAD) return say(restore, ERR_CORRUPT, note);
        if ((err = buf_append(&restore->rest, str_of(left.at, part))))
            return say(restore, err, note);
        left = str_tail(left, part);
        have = buf_peek(&restore->rest);
        if (have.len < RECORD_HEAD || have.len < RECORD_HEAD + (size_t)load_le32(have.at + 1))
            continue;
        if ((err = take_record(restore, have.at[0], str_tail(have, RECORD_HEAD))))
            return say(restore, err, note);
        restore->at += have.len;
        buf_clear(&restore->rest);
    }
    return ERR_OK;
}

/* What follows from the rows. */
static enum err follow(struct membership *m)
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

enum err member_restore_done(struct member_restore *restore, struct membership **ret_membership,
                             struct note *note)
{
    struct membership *m = restore->m;
    bool whole = restore->ended && restore->rest.len == 0 &&
                 m->event_count == m->head.event_number - m->head.emitted &&
                 (!m->partitions || restore->partitions == m->head.rules.total_partitions);
    enum err err = whole ? follow(m) : ERR_CORRUPT;

    rows_settle(m);
    if (!err && member_hash(m) != restore->hash) err = ERR_CORRUPT;
    if (err) return say(restore, err, note);
    *ret_membership = m;
    restore->m = NULL;
    return ERR_OK;
}
