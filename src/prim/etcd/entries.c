/* SPDX-License-Identifier: Apache-2.0 */
/* Entries: create, compare and set, delete, get. Each is one transaction of the table in spec B3;
 * its Else answer says what was in the way.
 *
 * Doubt. A transaction that was sent and not answered may have been applied, or be applied later.
 * The entry is read again: our request id in it makes it done (OK/replayed), another's makes it not
 * done, and what says neither is given back as UNAVAILABLE + MAYBE_APPLIED, to be repeated with the
 * same request id. A lease that was granted for it is left alone then, because the repeat will use
 * it; it is revoked only with an answer that is final. */
#include <stdio.h>
#include <stdlib.h>

#include "prim/etcd/internal.h"

enum { VALUE_MAX = 2 * 1024 * 1024 };

enum err etcd_value(const struct etcd_backend *b, const struct envelope *envelope, struct buf *out)
{
    struct envelope dated = *envelope;

    buf_init(out, VALUE_MAX);
    if (b->space.raw) return buf_append(out, envelope->value);
    dated.wall_ms = prim_wall_ms();
    return envelope_encode(&dated, out);
}

coord_result etcd_in_the_way(int code, int reason, const struct etcd_entry *entry)
{
    coord_result result;

    if (entry->owner.len > 0)
        result = prim_answer(code, reason, "%.*s is held by %.*s", STR_ARG(entry->key),
                             STR_ARG(entry->owner));
    else
        result = prim_answer(code, reason, "%.*s is there with revision %llu", STR_ARG(entry->key),
                             (unsigned long long)entry->revision);
    result.revision = entry->revision;
    result.token = entry->token;
    prim_answer_owner(&result, entry->owner);
    return result;
}

bool etcd_is_own(const struct etcd_backend *b, const struct prim_call *call,
                 const coord_id *lease_id, const struct etcd_entry *entry)
{
    if (!b->space.raw) return prim_id_equal(&entry->request_id, &call->request_id);
    return lease_id && entry->lease && entry->lease == etcd_lease_number(lease_id);
}

coord_result etcd_replayed(struct etcd_backend *b, const struct prim_call *call,
                           const struct etcd_entry *entry, struct prim_grant *ret_grant)
{
    coord_result result = prim_ok(COORD_R_REPLAYED);
    struct etcd_beat beat;

    result.revision = entry->revision;
    result.token = entry->token;
    ret_grant->lease_id = entry->lease_id;
    ret_grant->token = entry->token;
    ret_grant->create_revision = entry->create_revision;
    if (!entry->lease) return result;
    /* Its age is not known here: make it whole, and count from there. */
    etcd_beat_start(b, &beat, entry->lease, call->deadline_ns);
    etcd_beat_wait(&beat);
    if (beat.result.code == COORD_EXPIRED)
        return etcd_in_the_way(COORD_EXISTS, COORD_R_HELD, entry); /* and about to vanish */
    if (beat.result.code != COORD_OK) {
        beat.result.flags |= COORD_F_MAYBE_APPLIED;
        return beat.result;
    }
    ret_grant->sent_ns = beat.sent_ns;
    ret_grant->granted_ttl_ms = beat.result.granted_ttl_ms;
    result.granted_ttl_ms = beat.result.granted_ttl_ms;
    return result;
}

/* -- create -- */

struct absent { /* what is to stand where nothing does */
    struct str key, value, owner;
    int64_t ttl_ms;
    const coord_id *lease_id;
    const struct prim_claim *under;
    int code, reason; /* when something does */
};

/* A live entry is there: is it what this very request made? */
static coord_result judge_present(struct etcd_backend *b, const struct prim_call *call,
                                  const struct absent *in, const struct etcd_entry *entry,
                                  struct prim_grant *ret_grant)
{
    const coord_id *lease_id =
        in->under ? (call->attempt > 0 ? &in->under->lease_id : NULL) : in->lease_id;
    int64_t lease = in->under        ? etcd_lease_number(&in->under->lease_id)
                    : in->ttl_ms > 0 ? entry->lease
                                     : 0;
    struct etcd_entry own = *entry;

    /* With another lease than this call could have given it, another call made it by this id. */
    if (!etcd_is_own(b, call, lease_id, entry) || entry->lease != lease ||
        (in->ttl_ms > 0 && !entry->lease))
        return etcd_in_the_way(in->code, in->reason, entry);
    if (b->space.raw && lease_id) own.lease_id = *lease_id;
    if (in->under) own.lease = 0; /* no lease was made by it */
    return etcd_replayed(b, call, &own, ret_grant);
}

static coord_result put_absent_once(struct etcd_backend *b, const struct prim_call *call,
                                    const struct absent *in, int64_t lease,
                                    struct prim_grant *ret_grant)
{
    const struct envelope envelope = {
        .flags = lease ? ENVELOPE_LEASED : 0,
        .lease_id = in->under ? in->under->lease_id
                    : lease   ? *in->lease_id
                              : (coord_id){0},
        .request_id = call->request_id,
        .ttl_ms = in->under ? in->under->ttl_ms : ret_grant->granted_ttl_ms,
        .owner = in->under ? str_from(in->under->owner)
                 : lease   ? in->owner
                           : STR_EMPTY,
        .value = in->value,
    };
    Etcdserverpb__TxnResponse *response;
    struct etcd_entry entry;
    struct etcd_key stored;
    struct arena arena;
    struct etcd_txn txn;
    struct buf value;
    coord_result result;
    int found = 1;

    etcd_key_make(&b->space, in->key, &stored);
    if (etcd_value(b, &envelope, &value)) {
        buf_deinit(&value);
        return prim_no_memory();
    }
    etcd_txn_init(&txn);
    etcd_if_created(&txn, str_of(stored.text, stored.len), 0);
    etcd_put(&txn.then, str_of(stored.text, stored.len), buf_peek(&value), lease);
    etcd_range(&txn.otherwise, str_of(stored.text, stored.len));
    result = etcd_txn_run(b, call, &txn, &arena, &response);
    buf_deinit(&value);
    if (result.code == COORD_OK && response->succeeded) {
        result = prim_ok(COORD_R_CREATED);
        result.revision = (uint64_t)response->header->revision;
        result.token = lease ? result.revision : 0;
        result.granted_ttl_ms = ret_grant->granted_ttl_ms;
        ret_grant->token = result.token;
        ret_grant->create_revision = result.revision;
        if (lease) ret_grant->lease_id = envelope.lease_id;
    } else if (result.code == COORD_OK) {
        found = etcd_range_one(&b->space, etcd_txn_range(response, 0), in->key, &entry);
        result = found == 1 ? judge_present(b, call, in, &entry, ret_grant)
                            : etcd_corrupt("what stands there is no entry of ours");
    } else if (result.flags & COORD_F_MAYBE_APPLIED) {
        coord_result read;
        arena_deinit(&arena);
        read = etcd_read(b, call, in->key, false, &arena, &found, &entry);
        if (read.code == COORD_OK && found == 1)
            result = judge_present(b, call, in, &entry, ret_grant);
        else if (read.code == COORD_OK && result.reason == COORD_R_QUOTA)
            result.flags = 0; /* answered, and it is not there: refused */
    }
    arena_deinit(&arena);
    return result;
}

static coord_result put_absent(struct etcd_backend *b, const struct prim_call *call,
                               const struct absent *in, struct prim_grant *ret_grant)
{
    bool leased = in->ttl_ms > 0 && !in->under;
    int64_t lease = in->under ? etcd_lease_number(&in->under->lease_id)
                    : leased  ? etcd_lease_number(in->lease_id)
                              : 0;
    struct etcd_entry entry;
    struct arena arena;
    coord_result result;
    int found;

    if (leased) {
        /* A look first: a key that is held must not cost a lease to be granted and revoked. */
        result = etcd_read(b, call, in->key, false, &arena, &found, &entry);
        if (result.code == COORD_OK && found == 1)
            result = judge_present(b, call, in, &entry, ret_grant);
        else if (result.code == COORD_OK)
            found = 0;
        arena_deinit(&arena);
        if (result.code != COORD_OK || found == 1) return result;
        result = etcd_lease_obtain(b, call, in->lease_id, in->ttl_ms, &ret_grant->granted_ttl_ms,
                                   &ret_grant->sent_ns);
        if (result.code != COORD_OK) return result;
    }
    result = put_absent_once(b, call, in, lease, ret_grant);
    if (!leased) return result;
    if (result.code == COORD_EXPIRED) /* it took longer than the lease */
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                           "etcd: the lease ended before it could be used");
    if (result.code != COORD_UNAVAILABLE &&
        (result.code != COORD_OK || !prim_id_equal(&ret_grant->lease_id, in->lease_id)))
        etcd_lease_revoke_now(b, lease);
    return result;
}

coord_result etcd_create(struct prim_backend *base, const struct prim_call *call,
                         const struct prim_create *in, struct prim_grant *ret_grant)
{
    return put_absent(etcd_of(base), call,
                      &(struct absent){in->key, in->value, in->owner, in->ttl_ms, &in->lease_id,
                                       in->under, COORD_EXISTS, COORD_R_HELD},
                      ret_grant);
}

/* -- compare and set -- */

static bool is_claims(const struct prim_claim *claim, const struct prim_held *held,
                      const struct etcd_entry *entry)
{
    return held && entry->lease == etcd_lease_number(&claim->lease_id) &&
           entry->create_revision == held->create_revision;
}

static coord_result conflict(const struct prim_claim *claim, const struct prim_held *held,
                             const struct etcd_entry *entry)
{
    int reason =
        entry->lease && !is_claims(claim, held, entry) ? COORD_R_NOT_OWNER : COORD_R_REVISION;

    return etcd_in_the_way(COORD_CONFLICT, reason, entry);
}

static coord_result absent_conflict(struct str key)
{
    return prim_answer(COORD_CONFLICT, COORD_R_ABSENT, "%.*s is absent", STR_ARG(key));
}

struct change { /* an update of a live entry */
    const struct prim_cas *in;
    const struct prim_held *held;
    int64_t new_lease;
};

static coord_result judge_change(struct etcd_backend *b, const struct prim_call *call,
                                 const struct change *change, const struct etcd_entry *entry,
                                 struct prim_grant *ret_grant)
{
    struct etcd_entry own = *entry;

    if (!etcd_is_own(b, call, change->new_lease ? &change->in->lease_id : NULL, entry) ||
        (change->new_lease && !entry->lease))
        return conflict(change->in->claim, change->held, entry);
    if (!change->new_lease) own.lease = 0;
    return etcd_replayed(b, call, &own, ret_grant);
}

static enum err change_value(struct etcd_backend *b, const struct prim_call *call,
                             const struct change *change, int64_t ttl_ms, struct buf *out)
{
    const struct prim_cas *in = change->in;
    struct envelope envelope = {.request_id = call->request_id, .value = in->value};

    if (change->new_lease || (change->held && in->ttl_ms == COORD_TTL_KEEP)) {
        envelope.flags = ENVELOPE_LEASED;
        if (change->held && change->held->slot != COORD_NO_SLOT) envelope.flags |= ENVELOPE_SLOT;
        envelope.owner = str_from(in->claim->owner);
        envelope.lease_id = change->new_lease ? in->lease_id : in->claim->lease_id;
        envelope.token = change->new_lease ? 0 : change->held->token;
        envelope.ttl_ms = change->new_lease ? ttl_ms : in->claim->ttl_ms;
    }
    return etcd_value(b, &envelope, out);
}

static void change_txn(struct etcd_txn *txn, const struct change *change, struct str key,
                       struct str value)
{
    const struct prim_cas *in = change->in;

    etcd_txn_init(txn);
    etcd_if_modified(txn, key, in->expected);
    if (change->held) {
        etcd_if_created(txn, key, change->held->create_revision);
        etcd_if_leased(txn, key, etcd_lease_number(&in->claim->lease_id));
    } else {
        etcd_if_leased(txn, key, 0);
    }
    if (change->held && in->ttl_ms == COORD_TTL_KEEP)
        etcd_put_same_lease(&txn->then, key, value);
    else
        etcd_put(&txn->then, key, value, change->new_lease);
    etcd_range(&txn->otherwise, key);
}

static coord_result changed(const struct change *change, uint64_t revision,
                            struct prim_grant *ret_grant)
{
    coord_result result = prim_ok(COORD_R_UPDATED);
    bool keeps = change->held && change->in->ttl_ms == COORD_TTL_KEEP;

    result.revision = revision;
    result.token = keeps ? change->held->token : change->new_lease ? revision : 0;
    result.granted_ttl_ms = ret_grant->granted_ttl_ms;
    ret_grant->token = result.token;
    if (change->held) ret_grant->create_revision = change->held->create_revision;
    if (change->new_lease) ret_grant->lease_id = change->in->lease_id;
    return result;
}

static coord_result change_once(struct etcd_backend *b, const struct prim_call *call,
                                const struct change *change, struct prim_grant *ret_grant)
{
    Etcdserverpb__TxnResponse *response;
    struct str key = change->in->key;
    struct etcd_entry entry;
    struct etcd_key stored;
    struct arena arena;
    struct etcd_txn txn;
    struct buf value;
    coord_result result;
    int found;

    etcd_key_make(&b->space, key, &stored);
    if (change_value(b, call, change, ret_grant->granted_ttl_ms, &value)) {
        buf_deinit(&value);
        return prim_no_memory();
    }
    change_txn(&txn, change, str_of(stored.text, stored.len), buf_peek(&value));
    result = etcd_txn_run(b, call, &txn, &arena, &response);
    buf_deinit(&value);
    if (result.code == COORD_OK && response->succeeded) {
        result = changed(change, (uint64_t)response->header->revision, ret_grant);
    } else if (result.code == COORD_OK) {
        found = etcd_range_one(&b->space, etcd_txn_range(response, 0), key, &entry);
        result = found == 1   ? judge_change(b, call, change, &entry, ret_grant)
                 : found == 0 ? absent_conflict(key)
                              : etcd_corrupt("what stands there is no entry of ours");
    } else if (result.flags & COORD_F_MAYBE_APPLIED) {
        coord_result read;
        arena_deinit(&arena);
        read = etcd_read(b, call, key, false, &arena, &found, &entry);
        /* Still as expected: not applied, or not yet. */
        if (read.code == COORD_OK && found == 1 && entry.revision != change->in->expected)
            result = judge_change(b, call, change, &entry, ret_grant);
        else if (read.code == COORD_OK && result.reason == COORD_R_QUOTA)
            result.flags = 0;
    }
    arena_deinit(&arena);
    return result;
}

coord_result etcd_cas(struct prim_backend *base, const struct prim_call *call,
                      const struct prim_cas *in, struct prim_grant *ret_grant)
{
    struct etcd_backend *b = etcd_of(base);
    struct change change = {.in = in, .held = prim_held_of(in->claim, in->key)};
    coord_result result;

    if (in->expected == 0)
        return put_absent(b, call,
                          &(struct absent){in->key, in->value, in->owner,
                                           in->ttl_ms > 0 ? in->ttl_ms : 0, &in->lease_id, NULL,
                                           COORD_CONFLICT, COORD_R_PRESENT},
                          ret_grant);
    if (in->ttl_ms > 0 && !change.held)
        return prim_answer(COORD_CONFLICT, COORD_R_NOT_OWNER,
                           "a new lease on a live entry needs the lease it has");
    if (in->ttl_ms > 0 && b->space.raw)
        return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                           "raw=1: no room for the token of a second lease on one entry");
    if (in->ttl_ms > 0) {
        result = etcd_lease_obtain(b, call, &in->lease_id, in->ttl_ms, &ret_grant->granted_ttl_ms,
                                   &ret_grant->sent_ns);
        if (result.code != COORD_OK) return result;
        change.new_lease = etcd_lease_number(&in->lease_id);
    }
    result = change_once(b, call, &change, ret_grant);
    if (change.new_lease && result.code != COORD_UNAVAILABLE &&
        (result.code != COORD_OK || !prim_id_equal(&ret_grant->lease_id, &in->lease_id)))
        etcd_lease_revoke_now(b, change.new_lease);
    return result;
}

/* -- delete -- */

static coord_result gone(const struct prim_call *call, bool doubt, struct str key)
{
    if (call->attempt > 0 || doubt) return prim_ok(COORD_R_ALREADY);
    return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "%.*s is absent", STR_ARG(key));
}

static int64_t deleted_by(const Etcdserverpb__TxnResponse *response)
{
    if (response->n_responses != 1 || response->responses[0]->response_case !=
                                          ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE)
        return -1;
    return response->responses[0]->response_delete_range->deleted;
}

static coord_result removed(const struct prim_call *call, const struct prim_delete *in,
                            const Etcdserverpb__TxnResponse *response)
{
    int64_t deleted = deleted_by(response);
    coord_result result;

    if (deleted < 0) {
        result = etcd_corrupt("an answer to something else");
        result.flags = COORD_F_MAYBE_APPLIED;
        return result;
    }
    if (deleted == 0) return gone(call, false, in->key);
    result = prim_ok(COORD_R_DELETED);
    result.revision = (uint64_t)response->header->revision;
    return result;
}

coord_result etcd_remove(struct prim_backend *base, const struct prim_call *call,
                         const struct prim_delete *in)
{
    struct etcd_backend *b = etcd_of(base);
    const struct prim_held *held = prim_held_of(in->claim, in->key);
    bool exact = in->expected != COORD_ANY && in->expected != COORD_FORCE;
    Etcdserverpb__TxnResponse *response;
    struct etcd_entry entry;
    struct etcd_key stored;
    struct arena arena;
    struct etcd_txn txn;
    struct str key;
    coord_result result;
    int found;

    etcd_key_make(&b->space, in->key, &stored);
    key = str_of(stored.text, stored.len);
    etcd_txn_init(&txn);
    if (exact) etcd_if_modified(&txn, key, in->expected);
    if (in->expected != COORD_FORCE && held) {
        etcd_if_created(&txn, key, held->create_revision);
        etcd_if_leased(&txn, key, etcd_lease_number(&in->claim->lease_id));
    } else if (in->expected != COORD_FORCE) {
        etcd_if_leased(&txn, key, 0);
    }
    etcd_delete(&txn.then, key);
    etcd_range(&txn.otherwise, key);
    result = etcd_txn_run(b, call, &txn, &arena, &response);
    if (result.code == COORD_OK && response->succeeded) {
        result = removed(call, in, response);
    } else if (result.code == COORD_OK) {
        found = etcd_range_one(&b->space, etcd_txn_range(response, 0), in->key, &entry);
        result = found == 1   ? conflict(in->claim, held, &entry)
                 : found == 0 ? gone(call, false, in->key)
                              : etcd_corrupt("what stands there is no entry of ours");
    } else if (result.flags & COORD_F_MAYBE_APPLIED) {
        coord_result read;
        arena_deinit(&arena);
        read = etcd_read(b, call, in->key, false, &arena, &found, &entry);
        if (read.code == COORD_OK && found == 0)
            result = gone(call, true, in->key);
        else if (read.code == COORD_OK && exact && entry.revision != in->expected)
            result = conflict(in->claim, held, &entry);
    }
    arena_deinit(&arena);
    return result;
}

/* -- get -- */

coord_result etcd_get(struct prim_backend *base, const struct prim_call *call, struct str key,
                      int consistency, coord_entry **ret_entry)
{
    struct etcd_backend *b = etcd_of(base);
    struct etcd_entry entry;
    struct arena arena;
    coord_result result;
    int found;

    result = etcd_read(b, call, key, consistency == COORD_STALE_OK, &arena, &found, &entry);
    if (result.code == COORD_OK && found == 0) {
        result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "%.*s is absent", STR_ARG(key));
    } else if (result.code == COORD_OK) {
        *ret_entry = prim_entry_make(&(coord_entry){.lease_id = entry.lease_id,
                                                    .revision = entry.revision,
                                                    .create_revision = entry.create_revision,
                                                    .token = entry.token,
                                                    .ttl_ms = entry.ttl_ms,
                                                    .remaining_ms = -1},
                                     entry.key, entry.value, entry.owner);
        result.revision = entry.revision;
        result.token = entry.token;
        if (!*ret_entry) result = prim_no_memory();
    }
    arena_deinit(&arena);
    return result;
}
