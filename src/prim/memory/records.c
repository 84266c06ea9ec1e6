/* SPDX-License-Identifier: Apache-2.0 */
/* Records and leases of a memory store for prim/change.h, and operations on leases with several
 * keys. Runs inside a step (shared.h).
 *
 * Invariants: a write that runs out of memory changes nothing, and ending a lease needs no
 * memory. The newest GONE_MAX records without a live entry are kept, so that a repeated request
 * finds its own request id. */
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/memory/shared.h"
#include "prim/names.h"

enum { GONE_MAX = 8192, NS_IN_MS = 1000000 };

/* -- records -- */

static struct order_key place_of(struct str key)
{
    return (struct order_key){prim_bucket_of(key), prim_leaf_of(key)};
}

static struct order_key record_place(const void *row)
{
    return ((const struct memory_record *)row)->place;
}

struct memory_record *memory_record_of(const struct memory_shared *s, struct str key)
{
    return order_find(&s->records, place_of(key));
}

static struct memory_record *record_make(struct str key)
{
    struct memory_record *record = calloc(1, sizeof *record + key.len);

    if (!record) return NULL;
    memcpy(record->key_bytes, key.at, key.len);
    record->key = str_of(record->key_bytes, key.len);
    record->place = place_of(record->key);
    list_init(&record->link);
    return record;
}

static void record_free(struct memory_record *record)
{
    free(record->bytes);
    free(record);
}

void memory_records_init(struct memory_shared *s)
{
    s->order_kind = (struct order_kind){.key = record_place, .bytes = &s->order_bytes};
    s->records.kind = &s->order_kind;
    heap_init(&s->deadlines, SIZE_MAX);
    list_init(&s->gone);
}

void memory_records_deinit(struct memory_shared *s)
{
    struct order_place place = order_begin(&s->records);
    struct heap_node *due;

    for (void *row; (row = order_next(&place));) record_free(row);
    order_clear(&s->records);
    while ((due = heap_pop_due(&s->deadlines, UINT64_MAX)))
        free(CONTAINER_OF(due, struct memory_lease, due));
    heap_deinit(&s->deadlines);
}

/* -- leases -- */

static void lease_extend(struct memory_shared *s, struct memory_lease *lease)
{
    lease->deadline_ns = s->now_ns + lease->ttl_ms * NS_IN_MS;
    enum err err = heap_put(&s->deadlines, &lease->due, (uint64_t)lease->deadline_ns);
    assert(!err); /* lease_make reserved the room */
}

/* The caller adds the first record. NULL: out of memory. */
static struct memory_lease *lease_make(struct memory_shared *s, int64_t ttl_ms)
{
    struct memory_lease *lease = calloc(1, sizeof *lease);

    if (!lease || heap_reserve(&s->deadlines, s->deadlines.count + 1)) {
        free(lease);
        return NULL;
    }
    lease->ttl_ms = ttl_ms;
    list_init(&lease->records);
    lease_extend(s, lease);
    return lease;
}

static void lease_leave(struct memory_shared *s, struct memory_record *record)
{
    struct memory_lease *lease = record->lease;

    if (!lease) return;
    record->lease = NULL;
    list_remove(&record->link);
    if (!list_empty(&lease->records)) return;
    heap_remove(&s->deadlines, &lease->due);
    free(lease);
}

/* -- ends -- */

static int64_t cooldown_ms(const struct memory_shared *s, struct str group)
{
    const struct memory_record *record =
        order_find(&s->records, (struct order_key){group, STR(".group")});
    struct envelope_group rules;

    if (!record || envelope_group_read(&record->envelope, &rules)) return 0;
    return rules.cooldown_ms;
}

/* Ends the entry and leaves a record of the given kind. */
static void record_end(struct memory_shared *s, struct memory_record *record,
                       enum prim_seen_kind kind, const struct claim_envelope *left)
{
    lease_leave(s, record);
    s->count--;
    s->bytes -= record->envelope.value.len;
    record->kind = kind;
    record->revision = ++s->revision;
    memory_publish(
        s, &(struct prim_event){.type = kind == PRIM_SEEN_EXPIRED ? COORD_EXPIRE : COORD_DELETE,
                                .revision = record->revision,
                                .token = record->token,
                                .key = record->key});
    free(record->bytes);
    record->bytes = NULL;
    record->envelope = *left;
    list_append(&s->gone, &record->link);
    if (++s->gone_count <= GONE_MAX) return;
    record = CONTAINER_OF(list_pop(&s->gone), struct memory_record, link);
    order_remove(&s->records, record);
    record_free(record);
    s->gone_count--;
}

void memory_expire(struct memory_shared *s)
{
    struct heap_node *due;

    while ((due = heap_pop_due(&s->deadlines, (uint64_t)s->now_ns))) {
        struct memory_lease *lease = CONTAINER_OF(due, struct memory_lease, due);
        int64_t deadline_ns = lease->deadline_ns;
        for (bool last = false; !last;) { /* the last record frees the lease */
            struct memory_record *record =
                CONTAINER_OF(lease->records.next, struct memory_record, link);
            last = record->link.next == &lease->records;
            if (record->envelope.flags & ENVELOPE_SLOT)
                record->rests_until_ns =
                    deadline_ns + cooldown_ms(s, record->place.first) * NS_IN_MS;
            record_end(s, record, PRIM_SEEN_EXPIRED,
                       &(struct claim_envelope){.lease_id = record->envelope.lease_id,
                                                .owner = STR_EMPTY,
                                                .value = STR_EMPTY});
        }
    }
}

/* -- functions for prim/change.h -- */

static int64_t records_left_ms(const struct memory_shared *s, int64_t until_ns)
{
    return (until_ns - s->now_ns + NS_IN_MS - 1) / NS_IN_MS;
}

static void records_record(const struct memory_shared *s, const struct memory_record *record,
                           struct prim_seen *seen)
{
    *seen = (struct prim_seen){.kind = PRIM_SEEN_NOTHING, .left_ms = -1, .record = record};
    if (!record) return;
    seen->kind = record->kind;
    seen->envelope = record->envelope;
    seen->revision = record->revision;
    seen->create_revision = record->create_revision;
    if (record->lease) {
        seen->token = record->token;
        seen->ttl_ms = record->lease->ttl_ms;
        seen->left_ms = records_left_ms(s, record->lease->deadline_ns);
    } else if (record->rests_until_ns > s->now_ns) {
        seen->left_ms = records_left_ms(s, record->rests_until_ns);
    }
}

static void *records_begin(struct prim_change *c)
{
    struct memory_shared *s = memory_shared_of(c->backend);

    memory_enter(s);
    return s;
}

static void records_end(struct prim_change *c, const coord_result *)
{
    memory_leave(c->own);
}

static coord_result records_read_key(struct prim_change *c)
{
    records_record(c->own, memory_record_of(c->own, c->key), &c->seen);
    return prim_ok(COORD_R_NONE);
}

static bool has_room(const struct memory_shared *s, const struct memory_record *record,
                     size_t value_len, coord_result *ret_why)
{
    bool live = record && record->kind == PRIM_SEEN_LIVE;
    size_t old_len = live ? record->envelope.value.len : 0;
    bool many = !live && s->count >= s->limits.entries;
    bool large = value_len > old_len && s->bytes - old_len + value_len > s->limits.bytes;

    if (many)
        *ret_why = prim_answer(COORD_UNAVAILABLE, COORD_R_QUOTA, "the store is full: %zu entries",
                               s->limits.entries);
    else if (large)
        *ret_why = prim_answer(COORD_UNAVAILABLE, COORD_R_QUOTA,
                               "the store is full: %zu bytes of values", (size_t)s->limits.bytes);
    return !many && !large;
}

/* NULL: out of memory. */
static struct memory_lease *lease_for(struct memory_shared *s, const struct prim_change *c,
                                      const struct prim_plan *plan, struct memory_record *record)
{
    if (plan->act == PRIM_ACT_UPDATE) return record->lease;
    if (c->under) return memory_record_of(s, str_from(c->under->held[0].key))->lease;
    return lease_make(s, plan->envelope.ttl_ms);
}

/* Takes over `own_bytes`, which has room for value and owner. */
static void record_set(struct memory_shared *s, struct memory_record *record,
                       const struct prim_plan *plan, char *own_bytes, struct memory_lease *lease)
{
    const struct claim_envelope *to = &plan->envelope;
    bool live = record->kind == PRIM_SEEN_LIVE;
    char *at = own_bytes;
    struct str value = str_put(&at, to->value), owner = str_put(&at, to->owner);

    s->bytes += to->value.len - (live ? record->envelope.value.len : 0);
    s->count += !live;
    if (record->kind == PRIM_SEEN_TOMBSTONE || record->kind == PRIM_SEEN_EXPIRED) {
        list_remove(&record->link);
        s->gone_count--;
    }
    free(record->bytes);
    record->bytes = own_bytes;
    record->envelope = *to;
    record->envelope.value = value;
    record->envelope.owner = owner;
    record->kind = PRIM_SEEN_LIVE;
    record->rests_until_ns = 0;
    record->revision = ++s->revision;
    if (plan->act == PRIM_ACT_MAKE) record->create_revision = record->revision;
    if (lease && record->lease == lease) return; /* the same grant */
    lease_leave(s, record);
    record->lease = lease;
    record->token = lease ? record->revision : 0;
    if (lease) list_append(&lease->records, &record->link);
}

/* *ret_record: the key's old record before the call, its new record after the call. */
static enum prim_wrote records_put(struct memory_shared *s, const struct prim_change *c,
                                   const struct prim_plan *plan, struct memory_record **ret_record,
                                   coord_result *ret_why)
{
    const struct claim_envelope *to = &plan->envelope;
    struct memory_record *old = *ret_record, *record = old;
    struct memory_lease *lease = NULL;
    char *bytes;

    if (!has_room(s, old, to->value.len, ret_why)) return PRIM_WROTE_NOT;
    bytes = malloc(to->value.len + to->owner.len + 1);
    if (!old) record = record_make(c->key);
    if (!bytes || !record) goto no_memory;
    if (!old && order_insert(&s->records, record)) goto no_memory;
    if (to->flags & ENVELOPE_LEASED && !(lease = lease_for(s, c, plan, record))) {
        if (!old) order_remove(&s->records, record);
        goto no_memory;
    }
    record_set(s, record, plan, bytes, lease);
    memory_publish(s, &(struct prim_event){.type = COORD_PUT,
                                           .revision = record->revision,
                                           .token = record->token,
                                           .key = record->key,
                                           .value = record->envelope.value,
                                           .owner = record->envelope.owner});
    *ret_record = record;
    return PRIM_WROTE;

no_memory:
    free(bytes);
    if (!old) free(record);
    *ret_why = prim_no_memory();
    return PRIM_WROTE_NOT;
}

static enum prim_wrote records_write_key(struct prim_change *c, const struct prim_plan *plan,
                                         coord_result *ret_why)
{
    struct memory_shared *s = c->own;
    struct memory_record *record = (struct memory_record *)c->seen.record; /* this step read it */

    if (!record) record = memory_record_of(s, c->key);
    c->sent_ns = s->now_ns;
    if (plan->act == PRIM_ACT_RENEW)
        lease_extend(s, record->lease);
    else if (plan->act == PRIM_ACT_BURY)
        record_end(s, record, PRIM_SEEN_TOMBSTONE, &plan->envelope);
    else if (records_put(s, c, plan, &record, ret_why) == PRIM_WROTE_NOT)
        return PRIM_WROTE_NOT;
    records_record(s, record, &c->seen);
    return PRIM_WROTE;
}

/* Returns the next slot that is held or cools down. */
static struct memory_record *next_slot(const struct memory_shared *s, struct order_place *place,
                                       struct str group, uint32_t *ret_slot)
{
    struct memory_record *record;

    while ((record = order_next(place)) && str_equal(record->place.first, group))
        if ((record->kind == PRIM_SEEN_LIVE || record->rests_until_ns > s->now_ns) &&
            claim_slot_number(record->place.second, ret_slot))
            return record;
    return NULL;
}

/* Lists the whole group, whatever number of slots is wanted. */
static coord_result records_list(struct prim_change *c, struct str group, uint32_t,
                                 struct prim_slots *slots)
{
    const struct memory_shared *s = c->own;
    const struct order_place first =
        order_behind(&s->records, (struct order_key){group, STR_EMPTY});
    struct order_place place = first;
    struct memory_record *record;
    struct prim_seen seen;
    uint32_t slot;

    while (next_slot(s, &place, group, &slot))
        if (slot >= slots->room) slots->room = slot + 1;
    records_record(s, memory_record_of(s, c->key), &seen);
    coord_result result = prim_slots_begin(slots, &seen);
    place = first;
    while (result.code == COORD_OK && (record = next_slot(s, &place, group, &slot)))
        records_record(s, record, &slots->at[slot]);
    return result;
}

const struct prim_ways memory_ways = {.begin = records_begin,
                                      .end = records_end,
                                      .read = records_read_key,
                                      .write = records_write_key,
                                      .list = records_list};

/* -- leases of several keys -- */

/* OK: the claim holds every key. Else EXPIRED. */
static coord_result check_claim(const struct memory_shared *s, const struct prim_claim *claim)
{
    if (claim->count == 0)
        return prim_answer(COORD_EXPIRED, COORD_R_RELEASED, "the lease holds nothing");
    for (size_t i = 0; i < claim->count; i++) {
        struct str key = str_from(claim->held[i].key);
        struct prim_seen seen;
        records_record(s, memory_record_of(s, key), &seen);
        if (!prim_seen_is_claims(&seen, claim, key)) return prim_seen_lost(&seen, &claim->lease_id);
    }
    return prim_ok(COORD_R_RENEWED);
}

static struct memory_record *first_record(const struct memory_shared *s,
                                          const struct prim_claim *claim)
{
    return memory_record_of(s, str_from(claim->held[0].key));
}

coord_result memory_create(struct prim_backend *backend, const struct prim_call *call,
                           const struct prim_create *in, struct prim_grant *ret_grant)
{
    struct memory_shared *s = memory_shared_of(backend);
    coord_result result = prim_ok(COORD_R_NONE);

    memory_enter(s);
    if (in->under) result = check_claim(s, in->under);
    if (result.code == COORD_OK) result = prim_change_create(backend, call, in, ret_grant);
    memory_leave(s);
    return result;
}

coord_result memory_renew(struct prim_backend *backend, const struct prim_call *,
                          const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct memory_shared *s = memory_shared_of(backend);

    memory_enter(s);
    coord_result result = check_claim(s, claim);
    if (result.code == COORD_OK) {
        const struct memory_record *record = first_record(s, claim);
        lease_extend(s, record->lease);
        result.granted_ttl_ms = record->lease->ttl_ms;
        result.token = record->token;
        result.revision = record->revision;
        *ret_sent_ns = s->now_ns; /* sent and answered at the same instant */
    }
    memory_leave(s);
    return result;
}

coord_result memory_adopt(struct prim_backend *backend, const struct prim_call *,
                          const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct memory_shared *s = memory_shared_of(backend);

    memory_enter(s);
    coord_result result = check_claim(s, claim);
    /* Rounds down: the remaining time must not be overstated. */
    if (result.code == COORD_OK)
        *ret_left_ms = (first_record(s, claim)->lease->deadline_ns - s->now_ns) / NS_IN_MS;
    memory_leave(s);
    return result;
}

/* Also releases keys that another handle has put under the same lease. */
static void release_others(struct memory_shared *s, const struct prim_call *call,
                           const struct prim_claim *claim, struct memory_lease *lease)
{
    const struct claim_envelope left = {.flags = ENVELOPE_TOMBSTONE,
                                        .lease_id = claim->lease_id,
                                        .request_id = call->request_id,
                                        .owner = STR_EMPTY,
                                        .value = STR_EMPTY};

    LIST_EACH_SAFE(&lease->records, node, following)
    {
        struct memory_record *record = CONTAINER_OF(node, struct memory_record, link);
        if (!prim_held_of(claim, record->key)) record_end(s, record, PRIM_SEEN_TOMBSTONE, &left);
    }
}

coord_result memory_release(struct prim_backend *backend, const struct prim_call *call,
                            const struct prim_claim *claim, const char *key)
{
    struct memory_shared *s = memory_shared_of(backend);

    memory_enter(s);
    if (!key && check_claim(s, claim).code == COORD_OK)
        release_others(s, call, claim, first_record(s, claim)->lease);
    coord_result result = prim_change_release(backend, call, claim, key);
    memory_leave(s);
    return result;
}
