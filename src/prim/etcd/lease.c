/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: granted under an id chosen by the client, kept alive, released, imported, revoked.
 *
 * A keep-alive is a stream with one request and one answer, so each has its own send time. A
 * renewal is a keep-alive and, in parallel, a read of every key. If an entry was deleted or
 * taken over, the claim is over although the lease may be alive. */
#include <stdlib.h>

#include "prim/change.h"
#include "prim/etcd/internal.h"

enum {
    RELEASE_ROUNDS = 3,
    REVOKE_LIMIT_MS = 3000,
    DRAIN_LIMIT_MS = 1000,
};

struct revoke {
    struct list link;
    struct etcd_backend *backend;
    int64_t lease;
    struct timer due;
    struct grpc_thread_op op;
    struct post post;
};

/* -- keep alive -- */

struct keep_alive {
    struct etcd_backend *backend;
    int64_t lease, sent_ns;
    coord_result result; /* if OK, with granted_ttl_ms */
    struct grpc_thread_op op;
};

/* Takes the send time before anything is sent. */
static void keep_alive_start(struct etcd_backend *b, struct keep_alive *alive, int64_t lease,
                             int64_t deadline_ns)
{
    Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;

    *alive = (struct keep_alive){
        .backend = b, .lease = lease, .sent_ns = grpc_now(&b->client.grpc_thread)};
    request.id = lease;
    etcd_op_init(&alive->op, "/etcdserverpb.Lease/LeaseKeepAlive", deadline_ns);
    grpc_op_will_wait(&alive->op);
    if (message_write(&request.base, &alive->op.request, NULL))
        grpc_op_fail(&alive->op, ERR_NOMEM, "no memory");
    else
        grpc_op_start(&b->client.grpc_thread, &alive->op);
}

static coord_result keep_alive_read(const struct keep_alive *alive, struct arena *arena)
{
    const Etcdserverpb__LeaseKeepAliveResponse *answer;
    ProtobufCMessage *message;

    if (alive->op.err) return etcd_failure(&alive->op, true);
    if (grpc_read(buf_peek(&alive->op.response),
                  &etcdserverpb__lease_keep_alive_response__descriptor, arena, &message))
        return etcd_corrupt("an answer that cannot be read");
    answer = (const Etcdserverpb__LeaseKeepAliveResponse *)message;
    if (!etcd_header_fits(alive->backend, answer->header) || answer->id != alive->lease)
        return etcd_corrupt("an answer about another lease");
    if (answer->ttl <= 0 || answer->ttl > PRIM_TTL_MAX_MS)
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "etcd: the lease has ended");
    coord_result result = prim_ok(COORD_R_RENEWED);
    result.granted_ttl_ms = answer->ttl * 1000;
    return result;
}

static void keep_alive_wait(struct keep_alive *alive)
{
    struct arena arena;

    latch_wait(&alive->op.wait);
    arena_init(&arena, 1);
    alive->result = keep_alive_read(alive, &arena);
    arena_deinit(&arena);
    grpc_op_deinit(&alive->op);
}

coord_result etcd_keep_alive(struct etcd_backend *b, int64_t lease, int64_t deadline_ns,
                             int64_t *ret_sent_ns)
{
    struct keep_alive alive;

    keep_alive_start(b, &alive, lease, deadline_ns);
    keep_alive_wait(&alive);
    *ret_sent_ns = alive.sent_ns;
    return alive.result;
}

/* -- grant -- */

static coord_result grant(struct etcd_backend *b, const struct prim_call *call, int64_t lease,
                          int64_t seconds)
{
    Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    const Etcdserverpb__LeaseGrantResponse *answer;
    ProtobufCMessage *message;
    coord_result result;
    struct arena arena;

    request.id = lease;
    request.ttl = seconds;
    /* The client chose the id, so a repeat is harmless. */
    result = etcd_ask(b, call->deadline_ns,
                      &(struct etcd_ask){.path = "/etcdserverpb.Lease/LeaseGrant",
                                         .request = &request.base,
                                         .type = &etcdserverpb__lease_grant_response__descriptor},
                      &arena, &message);
    if (result.code == COORD_OK) {
        answer = (const Etcdserverpb__LeaseGrantResponse *)message;
        result.granted_ttl_ms = answer->ttl;
        if (answer->error && answer->error[0])
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "etcd: lease grant refused");
        else if (answer->id != lease)
            result = etcd_corrupt("another lease was granted than asked for");
    }
    arena_deinit(&arena);
    return result;
}

coord_result etcd_lease_obtain(struct etcd_backend *b, const struct prim_call *call,
                               const coord_id *lease_id, int64_t ttl_ms, int64_t *ret_ttl_ms,
                               int64_t *ret_sent_ns)
{
    int64_t lease = etcd_lease_number(lease_id), seconds = (ttl_ms + 999) / 1000;
    coord_result result, alive;

    for (int round = 0; round < 2; round++) {
        *ret_sent_ns = grpc_now(&b->client.grpc_thread);
        result = grant(b, call, lease, seconds);
        if (result.code != COORD_OK && result.code != COORD_EXISTS) return result;
        if (result.code == COORD_EXISTS) {
            /* An earlier attempt granted this lease, whose age is unknown. A renewal shows its
             * TTL. */
            alive = etcd_keep_alive(b, lease, call->deadline_ns, ret_sent_ns);
            if (alive.code == COORD_EXPIRED) continue;
            if (alive.code != COORD_OK) return alive;
            result.granted_ttl_ms = alive.granted_ttl_ms / 1000;
        }
        if (result.granted_ttl_ms != seconds) {
            etcd_lease_revoke(b, lease);
            return prim_answer(COORD_UNSUPPORTED, COORD_R_SERVER,
                               "asked for a lease of %lld s, the server grants %lld s",
                               (long long)seconds, (long long)result.granted_ttl_ms);
        }
        *ret_ttl_ms = seconds * 1000;
        return prim_ok(COORD_R_NONE);
    }
    return prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED,
                       "etcd: the lease ended while it was being granted");
}

/* *ret_left_ms: a lower bound of the time left. EXPIRED/deadline: no such lease. */
static coord_result lease_left(struct etcd_backend *b, const struct prim_call *call, int64_t lease,
                               int64_t *ret_left_ms)
{
    Etcdserverpb__LeaseTimeToLiveRequest request = ETCDSERVERPB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    ProtobufCMessage *message;
    coord_result result;
    struct arena arena;
    int64_t ttl;

    request.id = lease;
    result =
        etcd_ask(b, call->deadline_ns,
                 &(struct etcd_ask){.path = "/etcdserverpb.Lease/LeaseTimeToLive",
                                    .request = &request.base,
                                    .type = &etcdserverpb__lease_time_to_live_response__descriptor},
                 &arena, &message);
    if (result.code == COORD_OK) {
        ttl = ((const Etcdserverpb__LeaseTimeToLiveResponse *)message)->ttl;
        if (ttl < 0)
            result = prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "etcd: the lease has ended");
        else
            *ret_left_ms = (ttl < PRIM_TTL_MAX_MS ? ttl : PRIM_TTL_MAX_MS) * 1000;
    }
    arena_deinit(&arena);
    return result;
}

/* -- revoke, in the background; a lease that is not revoked expires -- */

static void drained(struct etcd_backend *b)
{
    if (!b->revokes.draining || b->revokes.count > 0) return;
    b->revokes.draining = false;
    latch_open(&b->revokes.drained);
}

static void on_revoked(struct grpc_thread_op *op)
{
    struct revoke *r = CONTAINER_OF(op, struct revoke, op);
    struct etcd_backend *b = r->backend;

    b->revokes.count--;
    timer_deinit(&r->due);
    grpc_op_deinit(op);
    free(r);
    drained(b);
}

static void start_revoke(struct revoke *r, int64_t limit_ms)
{
    Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    struct grpc_thread *grpc_thread = &r->backend->client.grpc_thread;

    list_remove(&r->link);
    timer_stop(&r->due);
    request.id = r->lease;
    etcd_op_init(&r->op, "/etcdserverpb.Lease/LeaseRevoke",
                 grpc_now(grpc_thread) + limit_ms * (int64_t)NS_PER_MS);
    r->op.idempotent = true;
    r->op.done = on_revoked;
    if (message_write(&request.base, &r->op.request, NULL))
        on_revoked(&r->op);
    else
        grpc_op_start(grpc_thread, &r->op);
}

static void on_due(struct timer *timer)
{
    start_revoke(CONTAINER_OF(timer, struct revoke, due), REVOKE_LIMIT_MS);
}

static void on_revoke(struct post *post)
{
    struct revoke *r = CONTAINER_OF(post, struct revoke, post);
    struct etcd_revokes *revokes = &r->backend->revokes;

    if (revokes->count >= ETCD_REVOKES_MAX ||
        timer_init(&r->due, grpc_loop(&r->backend->client.grpc_thread), on_due)) {
        free(r);
        return;
    }
    revokes->count++;
    list_append(&revokes->waiting, &r->link);
    timer_start_in(&r->due, ETCD_REVOKE_AFTER_MS);
}

void etcd_lease_revoke(struct etcd_backend *b, int64_t lease)
{
    struct revoke *r = calloc(1, sizeof *r);

    if (!r) return;
    r->backend = b;
    r->lease = lease;
    list_init(&r->link);
    post_init(&r->post, on_revoke);
    loop_post(grpc_loop(&b->client.grpc_thread), &r->post);
}

static void on_drain(void *owner)
{
    struct etcd_backend *b = owner;

    b->revokes.draining = true;
    LIST_EACH_SAFE(&b->revokes.waiting, node, following)
    {
        start_revoke(CONTAINER_OF(node, struct revoke, link), DRAIN_LIMIT_MS);
    }
    drained(b);
}

void etcd_lease_drain(struct etcd_backend *b)
{
    latch_init(&b->revokes.drained);
    grpc_loop_call(&b->client.grpc_thread, on_drain, b);
    latch_wait(&b->revokes.drained);
}

/* -- renew and import -- */

static coord_result key_judge(struct etcd_backend *b, const Etcdserverpb__RangeResponse *range,
                              int64_t lease, const struct prim_held *held)
{
    const Mvccpb__KeyValue *kv;
    struct prim_seen seen;
    coord_result result;

    if (!range || range->n_kvs > 1) return etcd_corrupt("an answer to something else");
    if (range->n_kvs == 0)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "%s was deleted", held->key);
    kv = range->kvs[0];
    if (kv->lease == lease && (uint64_t)kv->create_revision == held->create_revision)
        return prim_ok(COORD_R_NONE);
    if (etcd_entry_read(&b->space, kv, &seen) || !kv->lease)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "%s was overwritten", held->key);
    result = prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED, "%s is held by %.*s", held->key,
                         STR_ARG(seen.envelope.owner));
    prim_seen_answer(&seen, &result);
    return result;
}

/* Checks up to ETCD_TXN_KEYS keys in one step. OK: the claim holds all. `deletes` then removes
 * them. A release may be repeated, because it deletes only the claim's own entries. */
static coord_result claim_txn(struct etcd_backend *b, const struct prim_call *call,
                              const struct prim_held *held, size_t count, int64_t lease,
                              bool deletes, bool *ret_doubt)
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
            result = key_judge(b, etcd_txn_range(response, i), lease, &held[i]);
        if (result.code == COORD_OK) result = etcd_corrupt("a refusal without a reason");
    }
    arena_deinit(&arena);
    return result;
}

static coord_result claim_verify(struct etcd_backend *b, const struct prim_call *call,
                                 const struct prim_claim *claim)
{
    coord_result result = prim_ok(COORD_R_NONE);
    int64_t lease = etcd_lease_number(&claim->lease_id);

    for (size_t at = 0; at < claim->count && result.code == COORD_OK; at += ETCD_TXN_KEYS)
        result = claim_txn(b, call, claim->held + at, min_size(ETCD_TXN_KEYS, claim->count - at),
                           lease, false, NULL);
    return result;
}

coord_result etcd_renew(struct prim_backend *base, const struct prim_call *call,
                        const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct etcd_backend *b = etcd_of(base);
    coord_result keys;
    struct keep_alive alive;

    keep_alive_start(b, &alive, etcd_lease_number(&claim->lease_id), call->deadline_ns);
    keys = claim_verify(b, call, claim);
    keep_alive_wait(&alive);
    if (keys.code == COORD_EXPIRED) {
        /* A key that was removed with its lease has expired. */
        if (alive.result.code == COORD_EXPIRED && keys.reason == COORD_R_REVOKED)
            return alive.result;
        return keys;
    }
    if (alive.result.code != COORD_OK) return alive.result;
    if (keys.code != COORD_OK) return keys;
    if (alive.result.granted_ttl_ms < claim->ttl_ms)
        return etcd_corrupt("kept alive for less than was granted");
    *ret_sent_ns = alive.sent_ns;
    alive.result.revision = claim->count ? claim->held[0].token : 0;
    alive.result.token = claim->count ? claim->held[0].token : 0;
    return alive.result;
}

coord_result etcd_adopt(struct prim_backend *base, const struct prim_call *call,
                        const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct etcd_backend *b = etcd_of(base);
    int64_t lease = etcd_lease_number(&claim->lease_id);
    coord_result left = lease_left(b, call, lease, ret_left_ms);
    coord_result keys = claim_verify(b, call, claim);

    if (keys.code == COORD_EXPIRED && keys.reason == COORD_R_SUPERSEDED) return keys;
    if (left.code != COORD_OK) return left;
    if (keys.code == COORD_EXPIRED) {
        /* The key was removed alone, or its lease ended between the two requests. */
        left = lease_left(b, call, lease, ret_left_ms);
        if (left.code == COORD_EXPIRED) return left;
    }
    return keys;
}

/* -- release -- */

/* Deletes all keys in one transaction. If a key is lost, deletes each other key alone. */
static coord_result release_keys(struct etcd_backend *b, const struct prim_call *call,
                                 const struct prim_held *held, size_t count, int64_t lease)
{
    bool doubt = call->attempt > 0;
    coord_result all = claim_txn(b, call, held, count, lease, true, &doubt), left;
    int64_t left_ms;

    if (all.code == COORD_OK) return prim_ok(COORD_R_RELEASED);
    if (all.code != COORD_EXPIRED) return all;
    for (size_t i = 0; count > 1 && i < count; i++) {
        coord_result one = release_keys(b, call, &held[i], 1, lease);
        if (i == 0 || prim_release_rank(&one) > prim_release_rank(&all)) all = one;
    }
    if (count > 1 || all.reason != COORD_R_REVOKED) return all;
    if (doubt) return prim_ok(COORD_R_ALREADY);
    left = lease_left(b, call, lease, &left_ms);
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
    /* The revoke comes after the entries are released, because a revoke deletes every key of the
     * lease. */
    if (all.code != COORD_UNAVAILABLE && (!key || claim->count <= 1)) etcd_lease_revoke(b, lease);
    return all;
}
