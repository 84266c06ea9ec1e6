/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of etcd: granted under a number we choose, kept alive, revoked when done.
 *
 * A keep-alive is a stream of one request and one answer, which is a call like any other, with its
 * own time of sending. It is sent once: its caller repeats it, after a pause, while the lease is
 * safe. */
#include <stdlib.h>

#include "prim/etcd/internal.h"

enum {
    REVOKE_LIMIT_MS = 3000,
    DRAIN_LIMIT_MS = 1000,
};

struct revoke {
    struct list link;
    struct etcd_backend *backend;
    int64_t lease;
    struct timer due;
    struct courier_op op;
    struct post post;
};

/* -- keep alive -- */

static void on_beat(struct courier_op *op)
{
    latch_open(&CONTAINER_OF(op, struct etcd_beat, op)->wait);
}

void etcd_beat_start(struct etcd_backend *b, struct etcd_beat *beat, int64_t lease,
                     int64_t deadline_ns)
{
    Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;

    *beat = (struct etcd_beat){
        .backend = b, .lease = lease, .sent_ns = courier_now(&b->client.courier)};
    latch_init(&beat->wait);
    request.id = lease;
    etcd_op_init(&beat->op, "/etcdserverpb.Lease/LeaseKeepAlive", deadline_ns);
    beat->op.done = on_beat;
    if (message_write(&request.base, &beat->op.request, NULL))
        courier_op_fail(&beat->op, ERR_NOMEM, "no memory");
    else
        courier_op_start(&b->client.courier, &beat->op);
}

static coord_result judge_beat(const struct etcd_beat *beat, struct arena *arena)
{
    const Etcdserverpb__LeaseKeepAliveResponse *answer;
    ProtobufCMessage *message;

    if (beat->op.err) return etcd_failure(&beat->op, true);
    if (etcd_reply(&beat->op, &etcdserverpb__lease_keep_alive_response__descriptor, arena,
                   &message))
        return etcd_corrupt("an answer that cannot be read");
    answer = (const Etcdserverpb__LeaseKeepAliveResponse *)message;
    if (!etcd_header_fits(beat->backend, answer->header) || answer->id != beat->lease)
        return etcd_corrupt("an answer about another lease");
    if (answer->ttl <= 0 || answer->ttl > PRIM_TTL_MAX_MS)
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "etcd: the lease has ended");
    coord_result result = prim_ok(COORD_R_RENEWED);
    result.granted_ttl_ms = answer->ttl * 1000;
    return result;
}

void etcd_beat_wait(struct etcd_beat *beat)
{
    struct arena arena;

    latch_wait(&beat->wait);
    arena_init(&arena, 1);
    beat->result = judge_beat(beat, &arena);
    arena_deinit(&arena);
    courier_op_deinit(&beat->op);
}

/* -- grant -- */

/* EXISTS: an earlier attempt made it. */
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
    /* The number is ours, so that a repeat does no harm. */
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
    coord_result result;
    struct etcd_beat beat;

    for (int round = 0; round < 2; round++) {
        *ret_sent_ns = courier_now(&b->client.courier);
        result = grant(b, call, lease, seconds);
        if (result.code != COORD_OK && result.code != COORD_EXISTS) return result;
        if (result.code == COORD_EXISTS) {
            /* An earlier attempt's, of unknown age: make it whole, and learn its length. */
            etcd_beat_start(b, &beat, lease, call->deadline_ns);
            etcd_beat_wait(&beat);
            if (beat.result.code == COORD_EXPIRED) continue;
            if (beat.result.code != COORD_OK) return beat.result;
            *ret_sent_ns = beat.sent_ns;
            result.granted_ttl_ms = beat.result.granted_ttl_ms / 1000;
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

coord_result etcd_lease_left(struct etcd_backend *b, const struct prim_call *call, int64_t lease,
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

/* -- revoke: nobody waits for it, and a lease that is left over ends by itself -- */

static void drained(struct etcd_backend *b)
{
    struct latch *wait = b->revokes.drained;

    if (!wait || b->revokes.count > 0) return;
    b->revokes.drained = NULL;
    latch_open(wait);
}

static void on_revoked(struct courier_op *op)
{
    struct revoke *r = CONTAINER_OF(op, struct revoke, op);
    struct etcd_backend *b = r->backend;

    b->revokes.count--;
    timer_deinit(&r->due);
    courier_op_deinit(op);
    free(r);
    drained(b);
}

static void start_revoke(struct revoke *r, int64_t limit_ms)
{
    Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    struct courier *courier = &r->backend->client.courier;

    list_remove(&r->link);
    timer_stop(&r->due);
    request.id = r->lease;
    etcd_op_init(&r->op, "/etcdserverpb.Lease/LeaseRevoke",
                 courier_now(courier) + limit_ms * (int64_t)NS_PER_MS);
    r->op.idempotent = true;
    r->op.done = on_revoked;
    if (message_write(&request.base, &r->op.request, NULL))
        on_revoked(&r->op);
    else
        courier_op_start(courier, &r->op);
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
        timer_init(&r->due, courier_loop(&r->backend->client.courier), on_due)) {
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
    loop_post(courier_loop(&b->client.courier), &r->post);
}

struct drain {
    struct etcd_backend *backend;
    struct latch wait;
};

static void on_drain(void *owner)
{
    struct drain *drain = owner;
    struct etcd_backend *b = drain->backend;

    b->revokes.drained = &drain->wait;
    LIST_EACH_SAFE(&b->revokes.waiting, node, following)
    {
        start_revoke(CONTAINER_OF(node, struct revoke, link), DRAIN_LIMIT_MS);
    }
    drained(b);
}

void etcd_lease_drain(struct etcd_backend *b)
{
    struct drain drain = {.backend = b};

    latch_init(&drain.wait);
    courier_do(&b->client.courier, on_drain, &drain);
    latch_wait(&drain.wait);
}
