/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of etcd: granted under a number we choose, kept alive over one stream, revoked when done.
 *
 * Keep-alives are pipelined: the server answers a stream's requests in order, so the first request
 * that waits is the one an answer belongs to, and each keeps its own time of sending. A request
 * whose waiter has gone keeps its place, or later answers would be counted from the wrong send. */
#include <stdlib.h>

#include "prim/etcd/internal.h"

enum {
    BEAT_TROUBLE_MS = 250,
    REVOKE_LIMIT_MS = 3000,
    DRAIN_LIMIT_MS = 1000,
};

struct beat_slot {
    struct list link;
    int64_t lease;
    struct etcd_beat *beat; /* NULL: its waiter has gone */
    uint64_t answers;       /* of the stream when this was sent */
    uint32_t generation;
    mono_time sent;
};
struct revoke {
    struct list link;
    struct etcd_backend *backend;
    int64_t lease;
    uint64_t after_ms;
    mono_time due;
    struct courier_op op;
    struct post post;
};

/* -- keep alive -- */

static void finish(struct etcd_beat *beat, coord_result result)
{
    if (beat->slot) beat->slot->beat = NULL;
    beat->slot = NULL;
    beat->result = result;
    timer_deinit(&beat->timer);
    latch_open(&beat->wait);
}

static void free_slot(struct beat_slot *slot)
{
    list_remove(&slot->link);
    if (slot->beat) slot->beat->slot = NULL;
    free(slot);
}

static void pump(struct etcd_backend *b)
{
    struct etcd_beats *beats = &b->beats;

    while (!list_empty(&beats->fresh) && beats->stream.call) {
        struct beat_slot *slot = CONTAINER_OF(beats->fresh.next, struct beat_slot, link);
        Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
        char room[32];
        size_t len;

        request.id = slot->lease;
        len = etcdserverpb__lease_keep_alive_request__get_packed_size(&request);
        assert(len <= sizeof room);
        etcdserverpb__lease_keep_alive_request__pack(&request, (uint8_t *)room);
        if (courier_stream_send(&beats->stream, str_of(room, len)))
            return; /* on_writable, on_open */
        slot->answers = beats->answers;
        slot->generation = etcd_client_generation(b->client);
        slot->sent = loop_now(etcd_client_loop(b->client));
        list_remove(&slot->link);
        list_append(&beats->sent, &slot->link);
    }
}

static struct etcd_backend *of_stream(struct courier_stream *stream)
{
    return CONTAINER_OF(stream, struct etcd_backend, beats.stream);
}

static void on_stream(struct courier_stream *stream)
{
    pump(of_stream(stream));
}

static void on_answer(struct courier_stream *stream, struct str message)
{
    struct etcd_backend *b = of_stream(stream);
    struct beat_slot *slot = list_empty(&b->beats.sent)
                                 ? NULL
                                 : CONTAINER_OF(b->beats.sent.next, struct beat_slot, link);
    Etcdserverpb__LeaseKeepAliveResponse *answer;
    ProtobufCMessage *decoded;
    struct arena arena;
    coord_result result;

    etcd_arena_init(&arena, message.len);
    if (!slot ||
        message_read(&etcdserverpb__lease_keep_alive_response__descriptor, message, NULL, &arena,
                     &decoded, NULL) ||
        (answer = (Etcdserverpb__LeaseKeepAliveResponse *)decoded)->id != slot->lease ||
        !etcd_header_fits(b, answer->header)) {
        arena_deinit(&arena);
        courier_stream_reset(stream); /* not the answer to what was asked: begin anew */
        return;
    }
    b->beats.answers++;
    if (answer->ttl > 0 && answer->ttl <= PRIM_TTL_MAX_MS) {
        result = prim_ok(COORD_R_RENEWED);
        result.granted_ttl_ms = answer->ttl * 1000;
    } else {
        result = prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "etcd: the lease has ended");
    }
    if (slot->beat) finish(slot->beat, result);
    free_slot(slot);
    arena_deinit(&arena);
}

/* Renewing twice does no harm: what was sent is sent again, and counts from its first sending. */
static void on_broken(struct courier_stream *stream, enum grpc_status status, struct str text)
{
    struct etcd_beats *beats = &of_stream(stream)->beats;

    (void)status, (void)text;
    LIST_EACH_SAFE(&beats->sent, node, following)
    {
        struct beat_slot *slot = CONTAINER_OF(node, struct beat_slot, link);
        if (!slot->beat) {
            free_slot(slot);
            continue;
        }
        slot->sent = (mono_time){0};
        list_remove(&slot->link);
        list_append(&beats->fresh, &slot->link);
    }
}

static void on_beat_deadline(struct timer *timer)
{
    struct etcd_beat *beat = CONTAINER_OF(timer, struct etcd_beat, timer);
    struct etcd_backend *b = beat->backend;
    struct beat_slot *slot = beat->slot;
    bool sent = slot && slot->sent.ms != 0;
    bool stuck =
        sent && slot->answers == b->beats.answers && b->beats.stream.call &&
        mono_elapsed_ms(slot->sent, loop_now(etcd_client_loop(b->client))) >= BEAT_TROUBLE_MS;
    uint32_t generation = slot ? slot->generation : 0;

    finish(beat, prim_unclear(COORD_R_TIMEOUT, "etcd: no answer to a keep-alive in time"));
    if (slot && !sent) free_slot(slot);
    if (!stuck) return;
    etcd_client_trouble(b->client, generation);
    if (generation == etcd_client_generation(b->client)) courier_stream_reset(&b->beats.stream);
}

static void on_beat(struct post *post)
{
    struct etcd_beat *beat = CONTAINER_OF(post, struct etcd_beat, post);
    struct etcd_backend *b = beat->backend;
    struct beat_slot *slot = calloc(1, sizeof *slot);
    int64_t left = (beat->deadline_ns - etcd_client_now(b->client)) / (int64_t)NS_PER_MS;

    beat->timer = (struct timer){0};
    if (!slot || timer_init(&beat->timer, etcd_client_loop(b->client), on_beat_deadline)) {
        free(slot);
        finish(beat, prim_no_memory());
        return;
    }
    slot->lease = beat->lease;
    slot->beat = beat;
    beat->slot = slot;
    list_init(&slot->link);
    list_append(&b->beats.fresh, &slot->link);
    timer_start_in(&beat->timer, left > 0 ? (uint64_t)left : 0);
    courier_stream_want(&b->beats.stream);
    pump(b);
}

void etcd_beat_start(struct etcd_backend *b, struct etcd_beat *beat, int64_t lease,
                     int64_t deadline_ns)
{
    *beat =
        (struct etcd_beat){.lease = lease, .deadline_ns = deadline_ns, .backend = b, .sent_ns = 0};
    latch_init(&beat->wait);
    beat->sent_ns = etcd_client_now(b->client);
    post_init(&beat->post, on_beat);
    loop_post(etcd_client_loop(b->client), &beat->post);
}

void etcd_beat_wait(struct etcd_beat *beat)
{
    latch_wait(&beat->wait);
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
        *ret_sent_ns = etcd_client_now(b->client);
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
            etcd_lease_revoke_now(b, lease);
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

    if (!wait || b->revokes.running > 0) return;
    b->revokes.drained = NULL;
    latch_open(wait);
}

static void on_revoked(struct courier_op *op)
{
    struct revoke *r = CONTAINER_OF(op, struct revoke, op);
    struct etcd_backend *b = r->backend;

    b->revokes.running--;
    b->revokes.count--;
    courier_op_deinit(op);
    free(r);
    drained(b);
}

static void start_revoke(struct revoke *r, int64_t limit_ms)
{
    Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    struct etcd_backend *b = r->backend;

    list_remove(&r->link);
    b->revokes.running++;
    request.id = r->lease;
    etcd_op_init(&r->op, "/etcdserverpb.Lease/LeaseRevoke",
                 etcd_client_now(b->client) + limit_ms * (int64_t)NS_PER_MS);
    r->op.idempotent = true;
    r->op.done = on_revoked;
    if (message_write(&request.base, &r->op.request, NULL))
        on_revoked(&r->op);
    else
        etcd_op_start(b->client, &r->op);
}

static void on_due(struct timer *timer)
{
    struct etcd_backend *b = CONTAINER_OF(timer, struct etcd_backend, revokes.timer);
    mono_time now = loop_now(etcd_client_loop(b->client));

    /* All wait equally long but for those that are due at once: the list is in order. */
    while (!list_empty(&b->revokes.waiting)) {
        struct revoke *r = CONTAINER_OF(b->revokes.waiting.next, struct revoke, link);
        if (r->due.ms > now.ms) {
            timer_start(timer, r->due);
            return;
        }
        (void)list_pop(&b->revokes.waiting);
        assert(b->revokes.waiting.next != &r->link);
        start_revoke(r, REVOKE_LIMIT_MS);
    }
}

static void on_revoke(struct post *post)
{
    struct revoke *r = CONTAINER_OF(post, struct revoke, post);
    struct etcd_backend *b = r->backend;

    if (b->revokes.count >= ETCD_REVOKES_MAX) {
        free(r);
        return;
    }
    b->revokes.count++;
    r->due = (mono_time){loop_now(etcd_client_loop(b->client)).ms + r->after_ms};
    if (r->after_ms == 0) {
        list_prepend(&b->revokes.waiting, &r->link);
        start_revoke(r, REVOKE_LIMIT_MS);
        return;
    }
    list_append(&b->revokes.waiting, &r->link);
    if (!timer_running(&b->revokes.timer)) timer_start(&b->revokes.timer, r->due);
}

static void revoke(struct etcd_backend *b, int64_t lease, uint64_t after_ms)
{
    struct revoke *r = calloc(1, sizeof *r);

    if (!r) return; /* it ends by itself */
    r->backend = b;
    r->lease = lease;
    r->after_ms = after_ms;
    list_init(&r->link);
    post_init(&r->post, on_revoke);
    loop_post(etcd_client_loop(b->client), &r->post);
}

void etcd_lease_revoke_later(struct etcd_backend *b, int64_t lease)
{
    revoke(b, lease, ETCD_REVOKE_AFTER_MS);
}

void etcd_lease_revoke_now(struct etcd_backend *b, int64_t lease)
{
    revoke(b, lease, 0);
}

struct drain {
    struct etcd_backend *backend;
    struct latch wait;
    struct post post;
};

static void on_drain(struct post *post)
{
    struct drain *drain = CONTAINER_OF(post, struct drain, post);
    struct etcd_backend *b = drain->backend;

    b->revokes.drained = &drain->wait;
    timer_stop(&b->revokes.timer);
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
    post_init(&drain.post, on_drain);
    loop_post(etcd_client_loop(b->client), &drain.post);
    latch_wait(&drain.wait);
}

void etcd_lease_teardown(struct etcd_backend *b)
{
    struct list *node;

    courier_stream_deinit(&b->beats.stream);
    timer_deinit(&b->revokes.timer);
    list_splice(&b->beats.sent, &b->beats.fresh);
    while ((node = list_pop(&b->beats.sent))) {
        assert(b->beats.sent.next != node);
        free_slot(CONTAINER_OF(node, struct beat_slot, link));
    }
}

enum err etcd_lease_setup(struct etcd_backend *b)
{
    struct etcd_beats *beats = &b->beats;
    enum err err;

    list_init(&beats->sent);
    list_init(&beats->fresh);
    list_init(&b->revokes.waiting);
    beats->stream.on_open = beats->stream.on_writable = on_stream;
    beats->stream.on_message = on_answer;
    beats->stream.on_broken = on_broken;
    err = courier_stream_init(&beats->stream, etcd_client_courier(b->client),
                              "/etcdserverpb.Lease/LeaseKeepAlive");
    if (!err) err = timer_init(&b->revokes.timer, etcd_client_loop(b->client), on_due);
    return err;
}
