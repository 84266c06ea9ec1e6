/* SPDX-License-Identifier: Apache-2.0 */
/* Slot groups: "g/.group" says how many, "g/slot-0000" and on are the slots.
 *
 * The picture of a group is its record and its slots at one revision. A slot is taken by a
 * transaction that compares both, so whatever the search does, a slot has one holder and a resize
 * in between is seen. The Else answer is the next picture; it holds the record and the slots and
 * not all of "g/", where deeper buckets may lie. */
#include <stdlib.h>

#include "prim/etcd/internal.h"
#include "prim/group.h"

enum { ROUNDS_MORE = 8 };

struct slot {
    uint32_t number;
    struct etcd_entry entry;
};
struct picture {
    struct arena arena; /* everything below points into it */
    bool exists;
    uint64_t group_revision;
    coord_id group_request;
    uint32_t slot_count;
    struct slot *slots; /* live, by number */
    size_t live;
};
struct names {        /* keys of one group, as stored */
    struct str group; /* ours */
    struct etcd_key record, first, end;
};

static struct str stored(const struct etcd_key *key)
{
    return str_of(key->text, key->len);
}

static void names_make(struct etcd_backend *b, struct str group, struct names *names)
{
    char key[PRIM_SLOT_KEY_CAP];

    names->group = group;
    prim_group_key(group, key);
    etcd_key_make(&b->space, str_from(key), &names->record);
    prim_slot_key(group, 0, key);
    key[strlen(key) - 4] = '\0'; /* "g/slot-" */
    etcd_key_make(&b->space, str_from(key), &names->first);
    names->end = names->first;
    names->end.text[names->end.len - 1]++;
}

static void ask_picture(struct etcd_ops *ops, const struct names *names)
{
    etcd_range(ops, stored(&names->record));
    etcd_range_to(ops, stored(&names->first), stored(&names->end));
}

/* -- reading -- */

static bool slot_of(const struct names *names, struct str key, uint32_t *ret_slot)
{
    struct str leaf = str_tail(key, names->group.len + 1);

    return !str_has(leaf, '/') && prim_slot_number(leaf, ret_slot);
}

/* The answers at `at` and `at + 1`; the arena is filled already. */
static coord_result picture_read(struct etcd_backend *b, const struct names *names,
                                 const Etcdserverpb__TxnResponse *response, struct picture *p)
{
    const Etcdserverpb__RangeResponse *record = etcd_txn_range(response, 0);
    const Etcdserverpb__RangeResponse *slots = etcd_txn_range(response, 1);
    struct str key = etcd_key_ours(&b->space, stored(&names->record));
    struct etcd_entry entry;
    int found = etcd_range_one(&b->space, record, key, &entry);

    if (found < 0 || !slots || slots->more) return etcd_corrupt("the group's record is none");
    p->exists = found == 1;
    p->live = 0;
    p->slot_count = 0;
    if (p->exists) {
        const struct envelope envelope = {.flags = entry.flags, .value = entry.value};
        struct envelope_group group;
        if (envelope_group_read(&envelope, &group))
            return etcd_corrupt("the group's record is none");
        p->slot_count = group.slot_count;
    }
    if (p->exists) {
        p->group_revision = entry.revision;
        p->group_request = entry.request_id;
    }
    p->slots = arena_calloc(&p->arena, slots->n_kvs + 1, sizeof *p->slots);
    if (!p->slots) return prim_no_memory();
    for (size_t i = 0; i < slots->n_kvs; i++) {
        struct slot *slot = &p->slots[p->live];
        struct str there = etcd_key_ours(&b->space, etcd_str(slots->kvs[i]->key));
        if (!slot_of(names, there, &slot->number)) continue; /* of a deeper bucket */
        if (slot->number >= PRIM_SLOTS_MAX ||
            etcd_entry_read(&b->space, slots->kvs[i], &slot->entry) || !slot->entry.lease)
            return etcd_corrupt("a slot's entry is none of ours");
        p->live++;
    }
    return prim_ok(COORD_R_NONE);
}

static coord_result picture_take(struct etcd_backend *b, const struct prim_call *call,
                                 const struct names *names, struct picture *p)
{
    Etcdserverpb__TxnResponse *response;
    struct etcd_txn txn;
    coord_result result;

    etcd_txn_init(&txn);
    txn.reads_only = true;
    ask_picture(&txn.then, names);
    result = etcd_txn_run(b, call, &txn, &p->arena, &response);
    if (result.code != COORD_OK) return result;
    return picture_read(b, names, response, p);
}

static const struct slot *slot_at(const struct picture *p, uint32_t number)
{
    for (size_t i = 0; i < p->live; i++)
        if (p->slots[i].number == number) return &p->slots[i];
    return NULL;
}

/* -- acquire -- */

struct search {
    struct etcd_backend *b;
    const struct prim_call *call;
    const struct prim_acquire *in;
    struct names names;
    struct picture picture;
    struct prim_grant *grant;
    bool leased;        /* the lease has been granted */
    bool contended;     /* the last transaction failed: choose at random */
    bool doubted;       /* one may have been applied: stay with its slot */
    int64_t taken_from; /* the lease a failed takeover saw; 0: none was tried */
};

static enum prim_group_choice choose(const struct search *s, uint32_t *ret_slot)
{
    const struct picture *p = &s->picture;
    struct prim_group group;
    uint32_t spread = 0;

    prim_group_begin(&group, s->call, s->in, p->slot_count);
    for (size_t i = 0; i < p->live; i++)
        prim_group_held(&group, p->slots[i].number, &p->slots[i].entry.request_id,
                        p->slots[i].entry.owner, -1);
    if (s->contended && !s->doubted) spread = (uint32_t)prim_random();
    return prim_group_choose(&group, spread, ret_slot);
}

static coord_result full(const struct search *s)
{
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_FULL, "%.*s: all %u slots are held",
                                      STR_ARG(s->in->group), s->picture.slot_count);

    result.live = (uint32_t)s->picture.live;
    result.slot_count = s->picture.slot_count;
    return result;
}

static coord_result wrong_count(const struct search *s)
{
    coord_result result =
        prim_answer(COORD_CONFLICT, COORD_R_SLOT_COUNT, "%.*s has %u slots, not %u",
                    STR_ARG(s->in->group), s->picture.slot_count, s->in->slot_count);

    result.slot_count = s->picture.slot_count;
    result.revision = s->picture.group_revision;
    return result;
}

static coord_result with_slot(coord_result result, const struct search *s, uint32_t slot)
{
    result.slot = slot;
    result.live = (uint32_t)s->picture.live;
    result.slot_count = s->picture.slot_count;
    return result;
}

static coord_result replayed(struct search *s, const struct slot *slot)
{
    coord_result result = etcd_replayed(s->b, s->call, &slot->entry, s->grant);

    s->grant->slot = slot->number;
    return with_slot(result, s, slot->number);
}

static enum err count_value(struct search *s, uint32_t slot_count, struct buf *out)
{
    char bytes[ENVELOPE_GROUP_VALUE];
    const struct envelope envelope = {.flags = ENVELOPE_GROUP,
                                      .request_id = s->call->request_id,
                                      .value = str_of(bytes, sizeof bytes)};

    envelope_group_value(&(struct envelope_group){.slot_count = slot_count}, bytes);
    return etcd_value(s->b, &envelope, out);
}

/* Writes the record when `compare_revision` is still the group's (0: absent); the picture is of
 * after. *ret_done: by this transaction. */
static coord_result write_group(struct search *s, uint64_t compare_revision, uint32_t slot_count,
                                bool *ret_done)
{
    struct str record = stored(&s->names.record);
    Etcdserverpb__TxnResponse *response;
    struct etcd_txn txn;
    struct buf value;
    coord_result result;

    *ret_done = false;
    if (count_value(s, slot_count, &value)) {
        buf_deinit(&value);
        return prim_no_memory();
    }
    etcd_txn_init(&txn);
    if (compare_revision)
        etcd_if_modified(&txn, record, compare_revision);
    else
        etcd_if_created(&txn, record, 0);
    etcd_put(&txn.then, record, buf_peek(&value), 0);
    ask_picture(&txn.otherwise, &s->names);
    arena_deinit(&s->picture.arena);
    result = etcd_txn_run(s->b, s->call, &txn, &s->picture.arena, &response);
    buf_deinit(&value);
    if (result.code != COORD_OK) return result;
    *ret_done = response->succeeded;
    if (!response->succeeded) return picture_read(s->b, &s->names, response, &s->picture);
    s->picture.exists = true;
    s->picture.slots = NULL; /* a slot that is there nevertheless shows in the next Else */
    s->picture.live = 0;
    s->picture.group_revision = (uint64_t)response->header->revision;
    s->picture.slot_count = slot_count;
    return result;
}

static coord_result need_lease(struct search *s)
{
    coord_result result;

    if (s->leased) return prim_ok(COORD_R_NONE);
    result = etcd_lease_obtain(s->b, s->call, &s->in->lease_id, s->in->ttl_ms,
                               &s->grant->granted_ttl_ms, &s->grant->sent_ns);
    s->leased = result.code == COORD_OK;
    return result;
}

/* One transaction on slot `number`: into a free one, or over `over`, the same owner's. Sets
 * *ret_done, or the picture is new. */
static coord_result transact(struct search *s, uint32_t number, const struct slot *over,
                             bool *ret_done)
{
    const struct envelope envelope = {.flags = ENVELOPE_LEASED | ENVELOPE_SLOT,
                                      .lease_id = s->in->lease_id,
                                      .request_id = s->call->request_id,
                                      .ttl_ms = s->grant->granted_ttl_ms,
                                      .owner = s->in->owner,
                                      .value = s->in->value};
    uint64_t created = over ? over->entry.create_revision : 0;
    Etcdserverpb__TxnResponse *response;
    char name[PRIM_SLOT_KEY_CAP];
    struct etcd_key key;
    struct etcd_txn txn;
    struct buf value;
    coord_result result;

    *ret_done = false;
    prim_slot_key(s->in->group, number, name);
    etcd_key_make(&s->b->space, str_from(name), &key);
    if (etcd_value(s->b, &envelope, &value)) {
        buf_deinit(&value);
        return prim_no_memory();
    }
    etcd_txn_init(&txn);
    if (over) {
        etcd_if_modified(&txn, stored(&key), over->entry.revision);
        etcd_if_leased(&txn, stored(&key), over->entry.lease);
    } else {
        etcd_if_modified(&txn, stored(&s->names.record), s->picture.group_revision);
        etcd_if_created(&txn, stored(&key), 0);
    }
    etcd_put(&txn.then, stored(&key), buf_peek(&value), etcd_lease_number(&s->in->lease_id));
    ask_picture(&txn.otherwise, &s->names);
    arena_deinit(&s->picture.arena);
    result = etcd_txn_run(s->b, s->call, &txn, &s->picture.arena, &response);
    buf_deinit(&value);
    if (result.code != COORD_OK) return result;
    if (!response->succeeded) return picture_read(s->b, &s->names, response, &s->picture);
    *ret_done = true;
    result = prim_ok(COORD_R_ACQUIRED);
    result.revision = result.token = (uint64_t)response->header->revision;
    result.granted_ttl_ms = s->grant->granted_ttl_ms;
    s->grant->lease_id = s->in->lease_id;
    s->grant->token = result.token;
    s->grant->create_revision = over ? created : result.revision;
    s->grant->slot = number;
    s->picture.live += over ? 0 : 1;
    return with_slot(result, s, number);
}

/* A round that ended in doubt: the new picture will tell. The doubt stays in `unclear`. */
static coord_result look_again(struct search *s, coord_result unclear)
{
    coord_result result;
    uint32_t number;

    s->doubted = true;
    arena_deinit(&s->picture.arena);
    result = picture_take(s->b, s->call, &s->names, &s->picture);
    if (result.code != COORD_OK) return unclear;
    if (choose(s, &number) == PRIM_GROUP_REPLAY) return prim_ok(COORD_R_NONE);
    if (unclear.reason == COORD_R_QUOTA) unclear.flags = 0;
    return unclear;
}

/* True: *ret_result is the answer. False: the picture is new, go on. */
static bool round_of(struct search *s, coord_result *ret_result)
{
    uint32_t number;
    enum prim_group_choice choice = choose(s, &number);
    const struct slot *holder = slot_at(&s->picture, number);
    bool done;

    /* Two restarted at once: the other was first. */
    if (choice == PRIM_GROUP_TAKEOVER && s->taken_from && holder->entry.lease != s->taken_from)
        choice = PRIM_GROUP_ALREADY;
    switch (choice) {
    case PRIM_GROUP_REPLAY: *ret_result = replayed(s, holder); return true;
    case PRIM_GROUP_ABSENT:
        *ret_result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "%.*s: no such group",
                                  STR_ARG(s->in->group));
        return true;
    case PRIM_GROUP_CREATE:
        *ret_result = write_group(s, 0, s->in->slot_count, &done);
        if (ret_result->reason == COORD_R_QUOTA) ret_result->flags = 0; /* no claim by itself */
        return ret_result->code != COORD_OK;
    case PRIM_GROUP_CONFLICT: *ret_result = wrong_count(s); return true;
    case PRIM_GROUP_ALREADY:
        *ret_result = with_slot(
            etcd_in_the_way(COORD_EXISTS, COORD_R_ALREADY_HOLDER, &holder->entry), s, number);
        return true;
    case PRIM_GROUP_FULL: *ret_result = full(s); return true;
    case PRIM_GROUP_TAKEOVER:
    case PRIM_GROUP_TAKE: break;
    }
    *ret_result = need_lease(s);
    if (ret_result->code != COORD_OK) return true;
    if (holder) s->taken_from = holder->entry.lease;
    *ret_result = transact(s, number, holder, &done);
    if (ret_result->code != COORD_OK && ret_result->flags & COORD_F_MAYBE_APPLIED)
        *ret_result = look_again(s, *ret_result);
    s->contended = true;
    return done || ret_result->code != COORD_OK;
}

coord_result etcd_acquire(struct prim_backend *base, const struct prim_call *call,
                          const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    struct search s = {.b = etcd_of(base), .call = call, .in = in, .grant = ret_grant};
    coord_result result;
    bool over = false;

    names_make(s.b, in->group, &s.names);
    s.doubted = call->attempt > 0;
    result = picture_take(s.b, call, &s.names, &s.picture);
    if (result.code == COORD_OK) {
        for (uint32_t round = 0; !over && round < in->slot_count + ROUNDS_MORE; round++)
            over = round_of(&s, &result);
        if (!over)
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED,
                                 "%.*s: too many contend for its slots", STR_ARG(in->group));
    }
    arena_deinit(&s.picture.arena);
    if (result.code == COORD_EXPIRED)
        result = prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                             "etcd: the lease ended before it could be used");
    if (s.leased && result.code != COORD_UNAVAILABLE &&
        (result.code != COORD_OK || !prim_id_equal(&ret_grant->lease_id, &in->lease_id)))
        etcd_lease_revoke_now(s.b, etcd_lease_number(&in->lease_id));
    return result;
}

/* -- resize -- */

coord_result etcd_resize(struct prim_backend *base, const struct prim_call *call, struct str group,
                         uint64_t expected, uint32_t slot_count)
{
    struct search s = {.b = etcd_of(base), .call = call};
    struct picture *p = &s.picture;
    coord_result result;
    bool done = false;

    names_make(s.b, group, &s.names);
    result = picture_take(s.b, call, &s.names, p);
    if (result.code == COORD_OK && p->exists && p->group_revision == expected) {
        result = write_group(&s, expected, slot_count, &done);
        if (result.code != COORD_OK && result.flags & COORD_F_MAYBE_APPLIED) {
            coord_result unclear = result;
            arena_deinit(&p->arena);
            result = picture_take(s.b, call, &s.names, p);
            if (result.code != COORD_OK || (p->exists && p->group_revision == expected))
                result = unclear;
        }
    }
    if (result.code == COORD_OK && done) {
        result = prim_ok(COORD_R_RESIZED);
    } else if (result.code == COORD_OK && !p->exists) {
        result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "%.*s: no such group", STR_ARG(group));
    } else if (result.code == COORD_OK && prim_id_equal(&p->group_request, &call->request_id)) {
        result = prim_ok(COORD_R_REPLAYED);
    } else if (result.code == COORD_OK) {
        result = prim_answer(COORD_CONFLICT, COORD_R_REVISION, "%.*s has revision %llu",
                             STR_ARG(group), (unsigned long long)p->group_revision);
    }
    if (result.code == COORD_OK || result.code == COORD_CONFLICT) {
        result.revision = p->group_revision;
        result.slot_count = p->slot_count;
    }
    arena_deinit(&p->arena);
    return result;
}

/* -- list -- */

coord_result etcd_holders(struct prim_backend *base, const struct prim_call *call, struct str group,
                          coord_holders **ret_holders)
{
    struct etcd_backend *b = etcd_of(base);
    struct picture p = {0};
    coord_holders *holders;
    struct names names;
    coord_result result;

    names_make(b, group, &names);
    result = picture_take(b, call, &names, &p);
    if (result.code == COORD_OK && !p.exists)
        result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "%.*s: no such group", STR_ARG(group));
    if (result.code != COORD_OK) goto done;
    holders = prim_holders_make(p.live);
    if (!holders) goto no_memory;
    for (size_t i = 0; i < p.live; i++) {
        const struct etcd_entry *entry = &p.slots[i].entry;
        coord_holder like = {.slot = p.slots[i].number,
                             .token = entry->token,
                             .revision = entry->revision,
                             .remaining_ms = -1};
        memcpy(like.lease_id_prefix, entry->lease_id.b, sizeof like.lease_id_prefix);
        if (prim_holders_add(holders, &like, entry->owner, entry->value)) continue;
        coord_holders_free(holders);
        goto no_memory;
    }
    holders->slot_count = p.slot_count;
    holders->revision = p.group_revision;
    holders->atomic = 1;
    holders->certainty = COORD_BY_AUTHORITY;
    *ret_holders = holders;
    goto done;

no_memory:
    result = prim_no_memory();
done:
    arena_deinit(&p.arena);
    return result;
}
