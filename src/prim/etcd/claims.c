/* SPDX-License-Identifier: Apache-2.0 */
/* What a holder does with its claim: renew, release, take up elsewhere.
 *
 * A renewal is a keep-alive of the lease and a look at every key, side by side: the lease may live
 * while the entry is gone (deleted by hand, taken over), and then the claim is over. */
#include "prim/change.h"
#include "prim/etcd/internal.h"

enum { RELEASE_ROUNDS = 3 };

/* One key as its claim must find it, or why not. */
static coord_result judge(struct etcd_backend *b, const Etcdserverpb__RangeResponse *range,
                          int64_t lease, const struct prim_held *held)
{
    const Mvccpb__KeyValue *kv;
    struct etcd_entry entry;
    coord_result result;

    if (!range || range->n_kvs > 1) return etcd_corrupt("an answer to something else");
    if (range->n_kvs == 0)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "%s was deleted", held->key);
    kv = range->kvs[0];
    if (kv->lease == lease && (uint64_t)kv->create_revision == held->create_revision)
        return prim_ok(COORD_R_NONE);
    if (etcd_entry_read(&b->space, kv, &entry) || !entry.lease)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "%s was overwritten", held->key);
    result = prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED, "%s is held by %.*s", held->key,
                         STR_ARG(entry.owner));
    result.token = entry.token;
    result.revision = entry.revision;
    prim_answer_owner(&result, entry.owner);
    return result;
}

/* Up to ETCD_TXN_KEYS keys in one step: OK when all are the claim's, and then they go if `deletes`.
 * A release may be repeated, since it deletes the claim's own entries or nothing. */
static coord_result step(struct etcd_backend *b, const struct prim_call *call,
                         const struct prim_held *held, size_t count, int64_t lease, bool deletes,
                         bool *ret_doubt)
{
    struct etcd_key key;
    Etcdserverpb__TxnResponse *response;
    coord_result result;
    struct arena arena;
    struct etcd_txn txn;

    etcd_txn_init(&txn);
    txn.reads_only = !deletes;
    for (size_t i = 0; i < count; i++) {
        etcd_key_make(&b->space, str_from(held[i].key), &key);
        etcd_if(&txn, etcd_key_str(&key), ETCD_CREATED, (int64_t)held[i].create_revision);
        etcd_if(&txn, etcd_key_str(&key), ETCD_LEASED, lease);
        if (deletes) etcd_delete(&txn, etcd_key_str(&key));
        etcd_range(&txn, true, etcd_key_str(&key), STR_EMPTY);
    }
    result = etcd_txn_run(b, call, &txn, &arena, &response);
    for (int round = 1; round < RELEASE_ROUNDS && result.flags & COORD_F_MAYBE_APPLIED; round++) {
        *ret_doubt = true;
        arena_deinit(&arena);
        result = etcd_txn_run(b, call, &txn, &arena, &response);
    }
    etcd_txn_deinit(&txn);
    if (result.code == COORD_OK && !response->succeeded) {
        for (size_t i = 0; i < count && result.code == COORD_OK; i++)
            result = judge(b, etcd_txn_range(response, i), lease, &held[i]);
        if (result.code == COORD_OK) result = etcd_corrupt("a refusal without a reason");
    }
    arena_deinit(&arena);
    return result;
}

static coord_result verify(struct etcd_backend *b, const struct prim_call *call,
                           const struct prim_claim *claim)
{
    coord_result result = prim_ok(COORD_R_NONE);
    int64_t lease = etcd_lease_number(&claim->lease_id);

    for (size_t at = 0; at < claim->count && result.code == COORD_OK; at += ETCD_TXN_KEYS)
        result = step(b, call, claim->held + at, min_size(ETCD_TXN_KEYS, claim->count - at), lease,
                      false, NULL);
    return result;
}

coord_result etcd_renew(struct prim_backend *base, const struct prim_call *call,
                        const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct etcd_backend *b = etcd_of(base);
    coord_result keys;
    struct etcd_beat beat;

    etcd_beat_start(b, &beat, etcd_lease_number(&claim->lease_id), call->deadline_ns);
    keys = verify(b, call, claim);
    etcd_beat_wait(&beat);
    if (keys.code == COORD_EXPIRED) {
        /* Gone with its lease, or gone alone. */
        if (beat.result.code == COORD_EXPIRED && keys.reason == COORD_R_REVOKED) return beat.result;
        return keys;
    }
    if (beat.result.code != COORD_OK) return beat.result;
    if (keys.code != COORD_OK) return keys;
    if (beat.result.granted_ttl_ms < claim->ttl_ms)
        return etcd_corrupt("kept alive for less than was granted");
    *ret_sent_ns = beat.sent_ns;
    beat.result.revision = claim->count ? claim->held[0].token : 0;
    beat.result.token = claim->count ? claim->held[0].token : 0;
    return beat.result;
}

coord_result etcd_adopt(struct prim_backend *base, const struct prim_call *call,
                        const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct etcd_backend *b = etcd_of(base);
    int64_t lease = etcd_lease_number(&claim->lease_id);
    coord_result left = etcd_lease_left(b, call, lease, ret_left_ms);
    coord_result keys = verify(b, call, claim);

    if (keys.code == COORD_EXPIRED && keys.reason == COORD_R_SUPERSEDED) return keys;
    if (left.code != COORD_OK) return left;
    if (keys.code == COORD_EXPIRED) {
        /* Gone alone, or with a lease that ended between the two questions. */
        left = etcd_lease_left(b, call, lease, ret_left_ms);
        if (left.code == COORD_EXPIRED) return left;
    }
    return keys;
}

/* -- release -- */

/* All or none in one step; one key that is lost does not hide the others. */
static coord_result release_keys(struct etcd_backend *b, const struct prim_call *call,
                                 const struct prim_held *held, size_t count, int64_t lease)
{
    bool doubt = call->attempt > 0;
    coord_result all = step(b, call, held, count, lease, true, &doubt), left;
    int64_t left_ms;

    if (all.code == COORD_OK) return prim_ok(COORD_R_RELEASED);
    if (all.code != COORD_EXPIRED) return all;
    for (size_t i = 0; count > 1 && i < count; i++) {
        coord_result one = release_keys(b, call, &held[i], 1, lease);
        if (i == 0 || prim_release_rank(&one) > prim_release_rank(&all)) all = one;
    }
    if (count > 1 || all.reason != COORD_R_REVOKED) return all;
    if (doubt) return prim_ok(COORD_R_ALREADY);
    left = etcd_lease_left(b, call, lease, &left_ms);
    return left.code == COORD_EXPIRED ? left : all;
}

coord_result etcd_release(struct prim_backend *base, const struct prim_call *call,
                          const struct prim_claim *claim, const char *key)
{
    struct etcd_backend *b = etcd_of(base);
    const struct prim_held *one = key ? prim_held_of(claim, str_from(key)) : NULL;
    int64_t lease = etcd_lease_number(&claim->lease_id);
    coord_result all = prim_ok(COORD_R_ALREADY), some;

    if (one) all = release_keys(b, call, one, 1, lease);
    for (size_t at = 0; !key && at < claim->count; at += ETCD_TXN_KEYS) {
        some = release_keys(b, call, claim->held + at, min_size(ETCD_TXN_KEYS, claim->count - at),
                            lease);
        if (at == 0 || prim_release_rank(&some) > prim_release_rank(&all)) all = some;
    }
    /* After the entries, never before: a revoke deletes whatever hangs on the lease, unasked. */
    if (all.code != COORD_UNAVAILABLE && (!key || claim->count <= 1)) etcd_lease_revoke(b, lease);
    return all;
}
