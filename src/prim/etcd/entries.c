/* SPDX-License-Identifier: Apache-2.0 */
/* Keys for prim/change.h. Each write is one transaction of the table in coordination.md B3, whose
 * Else branch returns the entry that prevents the write.
 *
 * A lease is granted before the transaction that uses it, and kept for all attempts of a call. A
 * lease that the final answer does not use is revoked, unless the outcome is in doubt, because a
 * repeat then uses the lease. */
#include <stdlib.h>

#include "prim/change.h"
#include "prim/etcd/internal.h"

enum { VALUE_MAX = 2 * 1024 * 1024 };

/* A change of a slot uses the lease of its group's change. */
struct own {
    struct arena arena;
    bool leased;
    bool used; /* a transaction that may be applied uses the lease */
    int64_t lease, ttl_ms, sent_ns;
};

static struct own *entries_lease_of(const struct prim_change *c)
{
    return c->record ? c->record->own : c->own;
}

static void *etcd_entries_begin(struct prim_change *)
{
    struct own *own = calloc(1, sizeof *own);

    if (own) arena_init(&own->arena, 1);
    return own;
}

static void etcd_entries_end(struct prim_change *c, const coord_result *result)
{
    struct own *own = c->own;

    if (own->leased && result->code != COORD_UNAVAILABLE &&
        (result->code != COORD_OK || !own->used))
        etcd_lease_revoke(etcd_of(c->backend), own->lease);
    arena_deinit(&own->arena);
    free(own);
}

/* -- reading -- */

/* A plain entry (raw=1) names no lease and no request. The number of its etcd lease shows
 * whether the entry belongs to the claim, or to this request's new lease. */
static void see_raw(const struct prim_change *c, struct prim_seen *seen)
{
    const struct prim_claim *held = c->held ? c->held : c->claim;
    bool again = c->under && c->call->attempt > 0;
    const coord_id *drawn = again ? &c->under->lease_id : c->lease_id;
    int64_t lease = (int64_t)seen->sequence;

    if (!lease || !etcd_of(c->backend)->space.raw) return;
    if (held && lease == etcd_lease_number(&held->lease_id))
        seen->envelope.lease_id = held->lease_id;
    if (!drawn || lease != etcd_lease_number(drawn)) return;
    seen->envelope.lease_id = *drawn;
    seen->envelope.request_id = c->call->request_id;
    seen->ttl_ms = entries_lease_of(c)->ttl_ms;
}

static coord_result etcd_entries_read_key(struct prim_change *c)
{
    struct own *own = c->own;
    struct prim_seen seen;

    arena_deinit(&own->arena);
    coord_result result =
        etcd_read(etcd_of(c->backend), c->call, c->key, c->stale, &own->arena, &seen);
    if (result.code != COORD_OK) return result;
    see_raw(c, &seen);
    c->seen = seen;
    return result;
}

/* Sets c->seen to the entry that the caller expects. False: no guess, so the key is read before a
 * lease is granted, and a held key costs no grant. */
static bool etcd_entries_guess(struct prim_change *c)
{
    const struct prim_held *held = prim_held_of(c->held, c->key);

    c->seen = (struct prim_seen){.kind = PRIM_SEEN_NOTHING, .left_ms = -1};
    if (c->expected == 0) return !c->lease_id && !c->claim;
    c->seen.kind = PRIM_SEEN_LIVE;
    c->seen.revision = c->expected;
    if (!held) return true;
    c->seen.create_revision = held->create_revision;
    c->seen.token = held->token;
    c->seen.ttl_ms = c->held->ttl_ms;
    c->seen.sequence = (uint64_t)etcd_lease_number(&c->held->lease_id);
    c->seen.envelope = (struct claim_envelope){.flags = ENVELOPE_LEASED,
                                               .lease_id = c->held->lease_id,
                                               .ttl_ms = c->held->ttl_ms,
                                               .owner = str_from(c->held->owner)};
    return true;
}

/* -- writing -- */

static coord_result obtain(struct prim_change *c, const struct prim_plan *plan)
{
    struct etcd_backend *b = etcd_of(c->backend);
    const struct claim_envelope *to = &plan->envelope;
    struct own *own = entries_lease_of(c);
    bool makes = plan->act == PRIM_ACT_MAKE || plan->act == PRIM_ACT_GRANT;

    c->sent_ns = grpc_now(&b->client.grpc_thread);
    if (!makes || !(to->flags & ENVELOPE_LEASED) || c->under) return prim_ok(COORD_R_NONE);
    if (!own->leased) {
        coord_result result =
            etcd_lease_obtain(b, c->call, &to->lease_id, to->ttl_ms, &own->ttl_ms, &own->sent_ns);
        if (result.code != COORD_OK) return result;
        own->lease = etcd_lease_number(&to->lease_id);
        own->leased = true;
    }
    c->sent_ns = own->sent_ns;
    return prim_ok(COORD_R_NONE);
}

static enum err entries_encode(const struct prim_change *c, const struct prim_plan *plan,
                               struct buf *out)
{
    struct claim_envelope to = plan->envelope;

    buf_init(out, VALUE_MAX);
    if (plan->act == PRIM_ACT_BURY) return ERR_OK;
    if (etcd_of(c->backend)->space.raw) return buf_append(out, to.value);
    if (plan->act == PRIM_ACT_UPDATE && to.flags & ENVELOPE_LEASED) to.token = c->seen.token;
    return envelope_encode(&to, out);
}

static void build(struct etcd_txn *txn, const struct prim_change *c, const struct prim_plan *plan,
                  struct str key, struct str value)
{
    const struct prim_seen *seen = &c->seen;
    bool leased = plan->envelope.flags & ENVELOPE_LEASED;

    if (seen->kind == PRIM_SEEN_LIVE) {
        etcd_if(txn, key, ETCD_MODIFIED, (int64_t)seen->revision);
        /* Compares the revision, too, because the caller's claim may be wrong. */
        if (c->held && seen->token) etcd_if(txn, key, ETCD_CREATED, (int64_t)seen->create_revision);
        etcd_if(txn, key, ETCD_LEASED, (int64_t)seen->sequence);
    } else {
        etcd_if(txn, key, ETCD_CREATED, 0);
    }
    if (plan->act == PRIM_ACT_BURY)
        etcd_delete(txn, key);
    else if (plan->act == PRIM_ACT_UPDATE && leased)
        etcd_put(txn, key, value, ETCD_SAME_LEASE);
    else
        etcd_put(txn, key, value, leased ? etcd_lease_number(&plan->envelope.lease_id) : 0);
    etcd_range(txn, true, key, STR_EMPTY);
}

static void entries_applied(struct prim_change *c, const struct prim_plan *plan, uint64_t revision)
{
    const struct prim_seen old = c->seen;
    bool makes = plan->act == PRIM_ACT_MAKE || plan->act == PRIM_ACT_GRANT;

    c->seen = (struct prim_seen){.kind = PRIM_SEEN_TOMBSTONE, .revision = revision, .left_ms = -1};
    if (plan->act == PRIM_ACT_BURY) return;
    c->seen.kind = PRIM_SEEN_LIVE;
    c->seen.envelope = plan->envelope;
    c->seen.create_revision = old.kind == PRIM_SEEN_LIVE ? old.create_revision : revision;
    if (!(plan->envelope.flags & ENVELOPE_LEASED)) return;
    c->seen.token = makes ? revision : old.token;
    c->seen.ttl_ms = makes && !c->under ? entries_lease_of(c)->ttl_ms : plan->envelope.ttl_ms;
    entries_lease_of(c)->used |= makes;
}

static enum prim_wrote entries_refused(struct prim_change *c,
                                       const Etcdserverpb__TxnResponse *response,
                                       coord_result *ret_why)
{
    if (etcd_range_one(&etcd_of(c->backend)->space, etcd_txn_range(response, 0), c->key, &c->seen) <
        0) {
        *ret_why = etcd_corrupt("the value of the key is no entry of ours");
        return PRIM_WROTE_NOT;
    }
    see_raw(c, &c->seen);
    c->fresh = true;
    return PRIM_WROTE_RACE;
}

/* Reads whether the transaction was applied. If the key has not changed, the transaction may
 * still arrive. etcd reports an exceeded quota after applying the write. */
static enum prim_wrote unclear(struct prim_change *c, coord_result *ret_why)
{
    const struct prim_seen before = c->seen;
    coord_result look = etcd_entries_read_key(c);
    bool same = c->seen.kind == before.kind && c->seen.revision == before.revision;

    if (look.code == COORD_OK && same && ret_why->reason == COORD_R_QUOTA) {
        ret_why->flags = 0;
        return PRIM_WROTE_NOT;
    }
    entries_lease_of(c)->used = true;
    prim_change_doubt(c, c->sent_ns);
    c->fresh = look.code == COORD_OK && !same;
    return c->fresh ? PRIM_WROTE_RACE : PRIM_WROTE_NOT;
}

static enum prim_wrote renew(struct prim_change *c, coord_result *ret_why)
{
    *ret_why = etcd_keep_alive(etcd_of(c->backend), (int64_t)c->seen.sequence, c->call->deadline_ns,
                               &c->sent_ns);
    if (ret_why->code == COORD_OK) {
        c->seen.ttl_ms = ret_why->granted_ttl_ms;
        return PRIM_WROTE;
    }
    if (ret_why->code == COORD_EXPIRED) {
        *ret_why = prim_answer(COORD_EXISTS, COORD_R_HELD, "a live entry is about to vanish");
        prim_seen_answer(&c->seen, ret_why);
    } else {
        ret_why->flags |= COORD_F_MAYBE_APPLIED;
    }
    return PRIM_WROTE_NOT;
}

static enum prim_wrote etcd_entries_write_key(struct prim_change *c, const struct prim_plan *plan,
                                              coord_result *ret_why)
{
    struct etcd_backend *b = etcd_of(c->backend);
    struct own *own = c->own;
    Etcdserverpb__TxnResponse *response;
    struct etcd_key key, record;
    struct etcd_txn txn;
    struct buf value;

    if (plan->act == PRIM_ACT_RENEW) return renew(c, ret_why);
    *ret_why = obtain(c, plan);
    if (ret_why->code != COORD_OK) return PRIM_WROTE_NOT;
    etcd_key_make(&b->space, c->key, &key);
    if (entries_encode(c, plan, &value)) {
        buf_deinit(&value);
        *ret_why = prim_no_memory();
        return PRIM_WROTE_NOT;
    }
    etcd_txn_init(&txn);
    if (c->record && c->lease_id && c->seen.kind == PRIM_SEEN_NOTHING) {
        /* For a slot, the transaction also detects a resize of its group. */
        etcd_key_make(&b->space, c->record->key, &record);
        etcd_if(&txn, etcd_key_str(&record), ETCD_MODIFIED, (int64_t)c->record->seen.revision);
    }
    build(&txn, c, plan, etcd_key_str(&key), buf_peek(&value));
    arena_deinit(&own->arena);
    *ret_why = etcd_txn_run(b, c->call, &txn, &own->arena, &response);
    etcd_txn_deinit(&txn);
    buf_deinit(&value);
    if (ret_why->code == COORD_OK && !response->succeeded)
        return entries_refused(c, response, ret_why);
    if (ret_why->code == COORD_OK) {
        entries_applied(c, plan, (uint64_t)response->header->revision);
        return PRIM_WROTE;
    }
    if (ret_why->flags & COORD_F_MAYBE_APPLIED) return unclear(c, ret_why);
    if (ret_why->code == COORD_EXPIRED && !c->under)
        *ret_why = prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                               "etcd: the lease ended before it could be used");
    return PRIM_WROTE_NOT;
}

/* -- groups -- */

static bool slot_of(const struct etcd_space *space, struct str group, const Mvccpb__KeyValue *kv,
                    uint32_t *ret_slot)
{
    struct str leaf = str_tail(etcd_key_ours(space, grpc_str(kv->key)), group.len + 1);

    return !str_has(leaf, '/') && claim_slot_number(leaf, ret_slot);
}

/* Requests record and slots at one revision, but not deeper buckets below "g/". */
static coord_result ask_list(struct prim_change *c, struct str group,
                             Etcdserverpb__TxnResponse **ret_response)
{
    struct etcd_backend *b = etcd_of(c->backend);
    struct own *own = c->own;
    char text[PRIM_SLOT_KEY_CAP];
    struct etcd_key record, first, last;
    struct etcd_txn txn;

    etcd_key_make(&b->space, c->key, &record);
    prim_slot_key(group, 0, text);
    etcd_key_make(&b->space, str_of(text, strlen(text) - 4), &first);
    last = first;
    last.text[last.len - 1]++;
    etcd_txn_init(&txn);
    txn.reads_only = true;
    etcd_range(&txn, false, etcd_key_str(&record), STR_EMPTY);
    etcd_range(&txn, false, etcd_key_str(&first), etcd_key_str(&last));
    arena_deinit(&own->arena);
    coord_result result = etcd_txn_run(b, c->call, &txn, &own->arena, ret_response);
    etcd_txn_deinit(&txn);
    return result;
}

/* Lists the whole group, whatever number of slots is wanted. */
static coord_result etcd_entries_list(struct prim_change *c, struct str group, uint32_t,
                                      struct prim_slots *slots)
{
    const struct etcd_space *space = &etcd_of(c->backend)->space;
    Etcdserverpb__TxnResponse *response;
    const Etcdserverpb__RangeResponse *range;
    struct prim_seen record;
    coord_result result = ask_list(c, group, &response);
    uint32_t slot;

    if (result.code != COORD_OK) return result;
    range = etcd_txn_range(response, 1);
    if (etcd_range_one(space, etcd_txn_range(response, 0), c->key, &record) < 0 || !range ||
        range->more)
        return etcd_corrupt("the group's record is none");
    for (size_t i = 0; i < range->n_kvs; i++) {
        if (!slot_of(space, group, range->kvs[i], &slot)) continue;
        if (slot >= PRIM_SLOTS_MAX) return etcd_corrupt("a slot that cannot be");
        if (slot >= slots->room) slots->room = slot + 1;
    }
    result = prim_slots_begin(slots, &record);
    for (size_t i = 0; i < range->n_kvs && result.code == COORD_OK; i++) {
        if (!slot_of(space, group, range->kvs[i], &slot)) continue;
        if (etcd_entry_read(space, range->kvs[i], &slots->at[slot]) || !range->kvs[i]->lease)
            return etcd_corrupt("a slot's entry is none of ours");
    }
    return result;
}

const struct prim_ways etcd_ways = {.traceless = true,
                                    .expects = true,
                                    .begin = etcd_entries_begin,
                                    .end = etcd_entries_end,
                                    .guess = etcd_entries_guess,
                                    .read = etcd_entries_read_key,
                                    .write = etcd_entries_write_key,
                                    .list = etcd_entries_list};

coord_result etcd_cas(struct prim_backend *base, const struct prim_call *call,
                      const struct prim_cas *in, struct prim_grant *ret_grant)
{
    if (etcd_of(base)->space.raw && in->expected && in->ttl_ms > 0)
        return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                           "raw=1: no room for the token of a second lease on one entry");
    return prim_change_cas(base, call, in, ret_grant);
}
