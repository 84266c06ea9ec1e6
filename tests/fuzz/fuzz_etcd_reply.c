/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile etcd against all of prim/etcd: every reply of every call and every message of its
 * streams comes from the input. Calls and streams (prim/grpc_thread) are replaced by ones that
 * answer from the input instead of a network; waits run the virtual loop.
 *
 *   byte 0   bit 0: also the replies at open come from here
 *   byte 1   how many keys the claim has
 *   rest     acts: one byte says what, then its arguments (see act()); a call that is made takes
 *            its replies from what follows (see reply())
 *
 * Invariants: a grant has a token and a TTL, only a guarded key can be lost, every call ends, a
 * closed watch gets no event, and the closed store has freed everything. */
#include <stdlib.h>
#include <string.h>

#include "prim/envelope.h"
#include "prim/etcd/client.h"
#include "prim/etcd/reply.h"
#include "prim/guard.h"
#include "prim/stores.h"
#include "prim/url.h"
#include "sim/sim.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ACTS_MAX = 64,
    KVS_MAX = 6,
    HELD_MAX = 40,
    CLUSTER = 7,
    STREAMS_MAX = HELD_MAX + 2,
    ROUNDS_MAX = 4000
};

static void must(bool holds)
{
    if (!holds) abort();
}

/* -- the input -- */

static const uint8_t *at;
static size_t left;

static uint8_t take(void)
{
    if (left == 0) return 0;
    left--;
    return *at++;
}

static struct str take_bytes(void)
{
    uint8_t wanted = take();
    size_t len = min_size(wanted, left);
    struct str bytes = str_of(at, len);

    at += len;
    left -= len;
    return bytes;
}

static int64_t take_number(void)
{
    uint8_t byte = take();

    if (byte < 200) return byte;
    return byte < 250 ? (int64_t)1 << (byte - 200) : byte == 250 ? INT64_MIN : -(int64_t)byte;
}

/* -- the world around prim/etcd -- */

static struct sim *sim;
static struct sim_host *sim_host_of_test;
static struct grpc_stream *streams[STREAMS_MAX];
static size_t stream_count;
static int64_t leases[4] = {1, 2, 3, 4}; /* numbers a reply may name */

static int64_t test_now(void *unused)
{
    (void)unused;
    return (int64_t)sim_now(sim).ns + 1;
}

enum err etcd_client_open(struct etcd_client *client, const struct etcd_client_options *options,
                          struct note *note)
{
    (void)options, (void)note;
    *client = (struct etcd_client){
        .grpc_thread = {.io = sim_host_io(sim_host_of_test), .clock = {.now = test_now}}};
    return ERR_OK;
}

void etcd_client_close(struct etcd_client *client)
{
    (void)client;
    sim_run_for(sim, 100000); /* all that was started ends */
}

bool etcd_client_forget_token(struct etcd_client *client)
{
    (void)client;
    return take() & 1;
}

void latch_init(struct latch *wait)
{
    wait->open = false;
}

void latch_wait(struct latch *wait)
{
    for (int i = 0; !wait->open; i++) {
        must(i < ROUNDS_MAX);
        sim_run_for(sim, 10);
    }
}

void latch_open(struct latch *wait)
{
    wait->open = true;
}

/* -- replies -- */

static bool opening; /* the server answers correctly until the store is open */

static const char *const keys[] = {
    "muster/k",           "muster/l",   "muster/g/.group", "muster/g/slot-0000",
    "muster/g/slot-0001", "muster/b/x", "other/k",         "muster/g/slot-9999"};

/* An entry: of ours and whole, or a value from the input. */
static Mvccpb__KeyValue *make_kv(struct arena *arena)
{
    Mvccpb__KeyValue *kv = ARENA_NEW(arena, Mvccpb__KeyValue);
    uint8_t what = take();
    struct claim_envelope envelope = {.ttl_ms = 2000};
    struct buf value;

    mvccpb__key_value__init(kv);
    kv->key = grpc_bytes(str_from(keys[what & 7]));
    kv->create_revision = take_number();
    kv->mod_revision = take_number();
    kv->lease = what & 8 ? leases[what >> 4 & 3] : 0;
    if (what & 64) {
        kv->value = grpc_bytes(take_bytes());
        return kv;
    }
    envelope.flags = (kv->lease ? ENVELOPE_LEASED : 0u) | ((what & 7) == 2 ? ENVELOPE_GROUP : 0u);
    for (size_t i = 0; i < 8; i++) envelope.lease_id.b[i] = (uint8_t)(kv->lease >> (56 - 8 * i));
    if (!kv->lease) memset(&envelope.lease_id, 0, sizeof envelope.lease_id);
    envelope.request_id.b[0] = what & 128 ? 9 : 1; /* 9: that of every call here */
    envelope.token = envelope.flags & ENVELOPE_LEASED ? (uint64_t)take() : 0;
    envelope.owner = kv->lease ? STR("me") : STR_EMPTY;
    envelope.value = (what & 7) == 2 ? str_of((char[12]){(char)(take() % 5)}, 12) : STR("v");
    buf_init(&value, 4096);
    if (!envelope_encode(&envelope, &value)) {
        struct str bytes = buf_peek(&value);
        kv->value = grpc_bytes(str_of(arena_dup(arena, bytes), bytes.len));
    }
    buf_deinit(&value);
    return kv;
}

static Etcdserverpb__ResponseHeader *make_header(struct arena *arena)
{
    Etcdserverpb__ResponseHeader *header = ARENA_NEW(arena, Etcdserverpb__ResponseHeader);
    uint8_t what = opening ? 0 : take();

    etcdserverpb__response_header__init(header);
    header->cluster_id = what == 255 ? 8 : CLUSTER;
    header->revision = what < 200 ? what + 1 : take_number();
    return what == 254 ? NULL : header;
}

static Etcdserverpb__RangeResponse *make_range(struct arena *arena)
{
    Etcdserverpb__RangeResponse *range = ARENA_NEW(arena, Etcdserverpb__RangeResponse);
    uint8_t what = opening ? 0 : take();

    etcdserverpb__range_response__init(range);
    range->header = make_header(arena);
    range->more = what & 128;
    range->n_kvs = (size_t)(what & 127) % KVS_MAX;
    range->kvs = arena_calloc(arena, KVS_MAX, sizeof *range->kvs);
    for (size_t i = 0; i < range->n_kvs; i++) range->kvs[i] = make_kv(arena);
    return range;
}

static ProtobufCMessage *make_txn(struct arena *arena)
{
    Etcdserverpb__TxnResponse *txn = ARENA_NEW(arena, Etcdserverpb__TxnResponse);
    uint8_t what = take();

    etcdserverpb__txn_response__init(txn);
    txn->header = make_header(arena);
    txn->succeeded = what & 1;
    txn->n_responses = (size_t)(what >> 1) % KVS_MAX;
    txn->responses = arena_calloc(arena, KVS_MAX, sizeof *txn->responses);
    for (size_t i = 0; i < txn->n_responses; i++) {
        Etcdserverpb__ResponseOp *op = ARENA_NEW(arena, Etcdserverpb__ResponseOp);
        etcdserverpb__response_op__init(op);
        if (what & 128) {
            op->response_delete_range = ARENA_NEW(arena, Etcdserverpb__DeleteRangeResponse);
            etcdserverpb__delete_range_response__init(op->response_delete_range);
            op->response_delete_range->deleted = take_number();
            op->response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
        } else {
            op->response_range = make_range(arena);
            op->response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        }
        txn->responses[i] = op;
    }
    return &txn->base;
}

/* Numbers that mostly fit the request, so that the later code is reached. */
static ProtobufCMessage *make_lease(struct arena *arena, const struct grpc_thread_op *op)
{
    Etcdserverpb__LeaseGrantRequest *asked = etcdserverpb__lease_grant_request__unpack(
        NULL, op->request.len, (const uint8_t *)op->request.data);
    Etcdserverpb__LeaseGrantResponse *grant = ARENA_NEW(arena, Etcdserverpb__LeaseGrantResponse);
    uint8_t what = take();

    etcdserverpb__lease_grant_response__init(grant);
    grant->header = make_header(arena);
    grant->id = asked && !(what & 1) ? asked->id : take_number();
    grant->ttl = asked && !(what & 2) ? asked->ttl : take_number();
    if (asked) leases[0] = asked->id;
    if (asked) etcdserverpb__lease_grant_request__free_unpacked(asked, NULL);
    return &grant->base;
}

static ProtobufCMessage *make_status(struct arena *arena)
{
    Etcdserverpb__StatusResponse *status = ARENA_NEW(arena, Etcdserverpb__StatusResponse);

    etcdserverpb__status_response__init(status);
    status->header = make_header(arena);
    if (status->header) status->header->cluster_id = CLUSTER;
    status->version = "3.4.23";
    return &status->base;
}

static ProtobufCMessage *make_left(struct arena *arena)
{
    Etcdserverpb__LeaseTimeToLiveResponse *reply =
        ARENA_NEW(arena, Etcdserverpb__LeaseTimeToLiveResponse);

    etcdserverpb__lease_time_to_live_response__init(reply);
    reply->ttl = take_number();
    return &reply->base;
}

static ProtobufCMessage *make_beat(struct arena *arena, const struct grpc_thread_op *op)
{
    Etcdserverpb__LeaseKeepAliveRequest *asked = etcdserverpb__lease_keep_alive_request__unpack(
        NULL, op->request.len, (const uint8_t *)op->request.data);
    Etcdserverpb__LeaseKeepAliveResponse *beat =
        ARENA_NEW(arena, Etcdserverpb__LeaseKeepAliveResponse);
    uint8_t what = take();

    must(asked);
    leases[1] = asked->id;
    etcdserverpb__lease_keep_alive_request__free_unpacked(asked, NULL);
    etcdserverpb__lease_keep_alive_response__init(beat);
    beat->header = make_header(arena);
    beat->id = what & 1 ? take_number() : leases[1];
    beat->ttl = what & 2 ? take_number() : 2;
    return &beat->base;
}

static ProtobufCMessage *make_reply(struct arena *arena, const struct grpc_thread_op *op)
{
    if (strstr(op->path, "/LeaseKeepAlive")) return make_beat(arena, op);
    if (strstr(op->path, "/Txn")) return make_txn(arena);
    if (strstr(op->path, "/Range")) return &make_range(arena)->base;
    if (strstr(op->path, "/LeaseGrant")) return make_lease(arena, op);
    if (strstr(op->path, "/LeaseTimeToLive")) return make_left(arena);
    return make_status(arena);
}

static void refuse(struct grpc_thread_op *op, uint8_t what)
{
    static const struct {
        enum grpc_status status;
        const char *text;
    } refusals[] = {
        {GRPC_UNAVAILABLE, "etcdserver: no leader"},
        {GRPC_FAILED_PRECONDITION, "etcdserver: lease already exists"},
        {GRPC_NOT_FOUND, "etcdserver: requested lease not found"},
        {GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"},
        {GRPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted"},
        {GRPC_PERMISSION_DENIED, "etcdserver: permission denied"},
        {GRPC_UNKNOWN, "?"},
        {GRPC_DEADLINE_EXCEEDED, ""},
    };

    op->status = refusals[what & 7].status;
    op->answered = what & 8;
    op->err = what & 16 ? ERR_UNKNOWN : ERR_UNAVAILABLE;
    memcpy(op->text, refusals[what & 7].text, strlen(refusals[what & 7].text) + 1);
}

static void reply(struct grpc_thread_op *op)
{
    uint8_t what = opening ? 64 : take();
    struct arena arena;

    op->err = ERR_OK;
    op->status = GRPC_OK;
    op->answered = true;
    arena_init(&arena, 1 << 20);
    if (op->deadline_ns <= test_now(NULL) && !opening)
        op->err = ERR_TIMEOUT, op->answered = false;
    else if (what < 32)
        refuse(op, what);
    else if (what < 64)
        must(!buf_append(&op->response, take_bytes()));
    else
        must(!message_write(make_reply(&arena, op), &op->response, NULL));
    arena_deinit(&arena);
}

void grpc_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns,
                  size_t request_max, size_t response_max)
{
    *op = (struct grpc_thread_op){.path = path, .deadline_ns = deadline_ns};
    buf_init(&op->request, request_max);
    buf_init(&op->response, response_max);
    list_init(&op->link);
}

void grpc_op_deinit(struct grpc_thread_op *op)
{
    buf_deinit(&op->request);
    buf_deinit(&op->response);
}

void etcd_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns)
{
    grpc_op_init(op, path, deadline_ns, ETCD_REQUEST_MAX, ETCD_RESPONSE_MAX);
}

int grpc_op_silence(const struct grpc_thread_op *op)
{
    return op->err == ERR_TIMEOUT ? COORD_R_TIMEOUT : COORD_R_CONNECTION;
}

void grpc_op_fail(struct grpc_thread_op *op, enum err err, const char *text)
{
    (void)op, (void)err, (void)text;
    must(false); /* every message can be encoded */
}

bool grpc_worth_another_probe(const coord_result *result)
{
    (void)result;
    return false;
}

void grpc_op_run(struct grpc_thread *grpc_thread, struct grpc_thread_op *op)
{
    (void)grpc_thread;
    reply(op);
}

static void wake(struct grpc_thread_op *op)
{
    latch_open(&op->wait);
}

void grpc_op_will_wait(struct grpc_thread_op *op)
{
    latch_init(&op->wait);
    op->done = wake;
}

static void on_start(struct post *post)
{
    struct grpc_thread_op *op = CONTAINER_OF(post, struct grpc_thread_op, post);

    reply(op);
    op->done(op);
}

void grpc_op_start(struct grpc_thread *grpc_thread, struct grpc_thread_op *op)
{
    post_init(&op->post, on_start);
    loop_post(grpc_loop(grpc_thread), &op->post);
}

/* -- streams -- */

static char open_mark; /* used as the call of an open stream; never dereferenced */

static void on_again(struct timer *timer)
{
    struct grpc_stream *s = CONTAINER_OF(timer, struct grpc_stream, again);

    if (!s->wanted || s->call) return;
    s->call = (struct grpc_thread_call *)&open_mark;
    s->on_open(s);
}

enum err grpc_stream_init(struct grpc_stream *s, struct grpc_thread *grpc_thread, const char *path)
{
    s->path = path;
    s->grpc_thread = grpc_thread;
    must(stream_count < STREAMS_MAX);
    streams[stream_count++] = s;
    return timer_init(&s->again, grpc_loop(grpc_thread), on_again);
}

void grpc_stream_deinit(struct grpc_stream *s)
{
    grpc_stream_leave(s);
    timer_deinit(&s->again);
    for (size_t i = 0; i < stream_count; i++)
        if (streams[i] == s) streams[i] = streams[--stream_count];
}

void grpc_stream_want(struct grpc_stream *s)
{
    s->wanted = true;
    if (!s->call && !timer_running(&s->again)) timer_start_in(&s->again, 1);
}

void grpc_stream_leave(struct grpc_stream *s)
{
    s->wanted = false;
    s->call = NULL;
    timer_stop(&s->again);
}

void grpc_stream_reset(struct grpc_stream *s)
{
    if (!s->call) return;
    s->call = NULL;
    if (s->on_broken) s->on_broken(s, GRPC_UNAVAILABLE, STR_EMPTY);
    if (s->wanted) timer_start_in(&s->again, 50);
}

/* No gRPC thread runs here. */
void grpc_streams_reset(struct grpc_thread *grpc_thread)
{
    must(!grpc_thread);
}

void grpc_streams_leave(struct grpc_thread *grpc_thread)
{
    must(!grpc_thread);
}

enum err grpc_stream_send(struct grpc_stream *s, struct str message)
{
    (void)message;
    if (!s->call) return ERR_CLOSED;
    return take() == 255 ? ERR_FULL : ERR_OK;
}

static ProtobufCMessage *make_watched(struct arena *arena)
{
    Etcdserverpb__WatchResponse *watch = ARENA_NEW(arena, Etcdserverpb__WatchResponse);
    uint8_t what = take();

    etcdserverpb__watch_response__init(watch);
    watch->header = make_header(arena);
    watch->watch_id = what & 128 ? take_number() : 1 + take() % 4;
    watch->created = what & 1;
    watch->canceled = what & 2;
    watch->fragment = what & 4;
    watch->compact_revision = what & 8 ? take_number() : 0;
    watch->cancel_reason = what & 16 ? "etcdserver: permission denied" : "";
    watch->n_events = (size_t)(what >> 5) % KVS_MAX;
    watch->events = arena_calloc(arena, KVS_MAX, sizeof *watch->events);
    for (size_t i = 0; i < watch->n_events; i++) {
        Mvccpb__Event *event = ARENA_NEW(arena, Mvccpb__Event);
        uint8_t kind = take();
        mvccpb__event__init(event);
        event->type = kind & 1 ? MVCCPB__EVENT__EVENT_TYPE__DELETE : MVCCPB__EVENT__EVENT_TYPE__PUT;
        event->kv = kind & 4 ? NULL : make_kv(arena);
        if (kind & 2) event->prev_kv = make_kv(arena);
        watch->events[i] = event;
    }
    return &watch->base;
}

static void hear(struct grpc_stream *s)
{
    uint8_t what = take();
    struct arena arena;
    struct buf bytes;

    if (what == 255) {
        grpc_stream_reset(s);
        return;
    }
    buf_init(&bytes, 1 << 20);
    arena_init(&arena, 1 << 20);
    if (what < 32)
        must(!buf_append(&bytes, take_bytes()));
    else
        must(!message_write(make_watched(&arena), &bytes, NULL));
    s->on_message(s, buf_peek(&bytes));
    arena_deinit(&arena);
    buf_deinit(&bytes);
}

/* -- the store's user -- */

static bool guarded;

static void on_lost(struct prim_host *host, const coord_id *lease_id, int reason, uint64_t token)
{
    (void)host, (void)lease_id, (void)token;
    must(guarded && (reason == COORD_R_REVOKED || reason == COORD_R_SUPERSEDED));
}

static void on_degraded(struct prim_host *host, const char *why)
{
    (void)host;
    must(why[0]);
}

/* -- guards: as prim/guard.c, but without a thread -- */

static struct {
    struct prim_backend *backend;
    struct prim_feed *feeds[HELD_MAX];
    void *watches[HELD_MAX];
    size_t count;
} guards;

static void on_event(void *owner, const struct prim_event *event)
{
    coord_id lease_id = {{0}};

    (void)owner;
    must(event->type >= COORD_SNAPSHOT_BEGIN && event->type <= COORD_CLOSED);
    must(event->type !=
         COORD_EXPIRE); /* a guard reports a deletion at once, in any state of the lease */
    if (event->type == COORD_DELETE)
        guards.backend->host->lost(guards.backend->host, &lease_id, COORD_R_REVOKED, 0);
}

static void guards_drop(void)
{
    while (guards.count > 0) {
        guards.count--;
        guards.backend->ops->unwatch(guards.backend, guards.watches[guards.count]);
        prim_feed_close(guards.feeds[guards.count]);
    }
}

static void guards_add(struct prim_backend *backend, const struct prim_claim *claim)
{
    struct prim_call call = {.deadline_ns = INT64_MAX};

    guards_drop();
    guards.backend = backend;
    for (size_t i = 0; i < claim->count; i++) {
        struct prim_feed *feed =
            prim_feed_open_direct((struct prim_scope){str_from(claim->held[i].key), false},
                                  claim->held[i].token + 1, on_event, NULL);
        must(feed);
        coord_result result =
            backend->ops->watch(backend, &call, feed, &guards.watches[guards.count]);
        must(result.code == COORD_OK);
        guards.feeds[guards.count++] = feed;
    }
}

static struct prim_call call_of(void)
{
    return (struct prim_call){
        .deadline_ns = test_now(NULL) + 5000000000, .request_id = {{9}}, .attempt = take() & 1};
}

static void judge(const coord_result *result)
{
    must(result->code >= COORD_OK && result->code <= COORD_UNAVAILABLE);
    must(!(result->flags & COORD_F_MAYBE_APPLIED) || result->code == COORD_UNAVAILABLE);
    must(memchr(result->text, '\0', sizeof result->text));
    must(memchr(result->owner, '\0', sizeof result->owner));
}

static void judge_grant(const coord_result *result, const struct prim_grant *grant, bool leased)
{
    judge(result);
    if (result->code != COORD_OK || !leased) return;
    must(grant->token > 0 && grant->create_revision > 0 && grant->granted_ttl_ms > 0);
    must(grant->sent_ns > 0 && grant->sent_ns <= test_now(NULL));
    must(grant->token >= grant->create_revision);
}

static void entries(struct prim_backend *b, uint8_t what, const struct prim_claim *claim)
{
    const struct prim_backend_ops *ops = b->ops;
    struct prim_call call = call_of();
    struct prim_grant grant = {.slot = COORD_NO_SLOT};
    struct str key = STR("k"), owner = STR("me"), value = STR("v");
    coord_id lease_id = {{0, 0, 0, 0, 0, 0, 0, 1}};
    bool leased = what & 16;
    coord_entry *entry = NULL;
    coord_result result;

    switch (what & 3) {
    case 0:
        result = ops->create(b, &call,
                             &(struct prim_create){.key = key,
                                                   .value = value,
                                                   .owner = owner,
                                                   .ttl_ms = leased ? 2000 : 0,
                                                   .lease_id = lease_id,
                                                   .under = what & 32 ? claim : NULL},
                             &grant);
        judge_grant(&result, &grant, leased && !(what & 32));
        break;
    case 1:
        result = ops->cas(b, &call,
                          &(struct prim_cas){.key = key,
                                             .value = value,
                                             .owner = owner,
                                             .expected = what & 32 ? 5 : 0,
                                             .ttl_ms = leased      ? 2000
                                                       : what & 64 ? COORD_TTL_KEEP
                                                                   : 0,
                                             .lease_id = lease_id,
                                             .claim = what & 128 ? claim : NULL},
                          &grant);
        judge(&result);
        break;
    case 2:
        result = ops->remove(b, &call,
                             &(struct prim_delete){.key = key,
                                                   .expected = what & 32   ? COORD_ANY
                                                               : what & 64 ? COORD_FORCE
                                                                           : 5,
                                                   .claim = what & 128 ? claim : NULL});
        judge(&result);
        break;
    default:
        result = ops->get(b, &call, key, COORD_LATEST, &entry);
        judge(&result);
        must((result.code == COORD_OK) == (entry != NULL));
        coord_entry_free(entry);
        break;
    }
}

static void slots(struct prim_backend *b, uint8_t what)
{
    struct prim_call call = call_of();
    struct prim_grant grant = {.slot = COORD_NO_SLOT};
    coord_holders *holders = NULL;
    coord_result result;

    if (what & 16) {
        result = b->ops->acquire(b, &call,
                                 &(struct prim_acquire){.group = STR("g"),
                                                        .owner = STR("me"),
                                                        .value = STR("v"),
                                                        .slot_count = 1 + (what >> 6),
                                                        .flags = what >> 5 & 1,
                                                        .prefer_slot = COORD_NO_SLOT,
                                                        .ttl_ms = 2000,
                                                        .lease_id = {{0, 0, 0, 0, 0, 0, 0, 2}}},
                                 &grant);
        judge_grant(&result, &grant, true);
        if (result.code == COORD_OK) must(grant.slot < 1024);
    } else if (what & 32) {
        result = b->ops->resize(b, &call, STR("g"), 5, 2);
        judge(&result);
    } else {
        result = b->ops->holders(b, &call, STR("g"), &holders);
        judge(&result);
        must((result.code == COORD_OK) == (holders != NULL));
        coord_holders_free(holders);
    }
}

static void claims(struct prim_backend *b, uint8_t what, const struct prim_claim *claim)
{
    struct prim_call call = call_of();
    int64_t sent_ns = 0, left_ms = -1;
    coord_result result;

    switch (what >> 4 & 3) {
    case 0:
        result = b->ops->renew(b, &call, claim, &sent_ns);
        if (result.code == COORD_OK) must(sent_ns > 0 && result.granted_ttl_ms >= claim->ttl_ms);
        break;
    case 1: result = b->ops->release(b, &call, claim, what & 64 ? claim->held[0].key : NULL); break;
    case 2: result = b->ops->adopt(b, &call, claim, &left_ms); break;
    default:
        guarded = true;
        if (what & 64)
            guards_drop();
        else
            guards_add(b, claim);
        return;
    }
    judge(&result);
}

struct reader {
    struct prim_feed *feed;
    void *watch;
};

static void watch(struct prim_backend *b, uint8_t what, struct reader *reader)
{
    struct prim_call call = call_of();
    coord_event event;
    coord_result result;

    if (reader->feed && what & 16) {
        while (prim_feed_next(reader->feed, 0, &event)) must(event.type >= COORD_SNAPSHOT_BEGIN);
        return;
    }
    if (reader->watch) b->ops->unwatch(b, reader->watch);
    if (reader->feed) prim_feed_close(reader->feed);
    *reader = (struct reader){
        .feed = prim_feed_open((struct prim_scope){what & 32 ? STR("b") : STR("k"), what & 32})};
    must(reader->feed);
    result = b->ops->watch(b, &call, reader->feed, &reader->watch);
    judge(&result);
    if (result.code == COORD_OK) return;
    prim_feed_close(reader->feed);
    *reader = (struct reader){0};
}

static void act(struct prim_backend *b, const struct prim_claim *claim, struct reader *reader)
{
    uint8_t what = take();

    switch (what >> 2 & 3) {
    case 0: entries(b, what, claim); break;
    case 1: (what & 3 ? slots(b, what) : claims(b, what, claim)); break;
    case 2: watch(b, what, reader); break;
    default:
        if (what & 64)
            sim_run_for(sim, take());
        else if (stream_count > 0 && streams[(what >> 4) % stream_count]->call)
            hear(streams[(what >> 4) % stream_count]);
        break;
    }
}

static void use(struct prim_backend *b)
{
    static struct prim_held held[HELD_MAX];
    struct prim_claim claim = {.lease_id = {{0, 0, 0, 0, 0, 0, 0, 3}},
                               .owner = "me",
                               .ttl_ms = 2000,
                               .held = held,
                               .count = 1 + take() % HELD_MAX};
    struct reader reader = {0};

    for (size_t i = 0; i < HELD_MAX; i++)
        held[i] = (struct prim_held){
            .key = i ? "l" : "k", .token = 4, .create_revision = 3, .slot = COORD_NO_SLOT};
    for (int i = 0; i < ACTS_MAX && left > 0; i++) act(b, &claim, &reader);
    if (reader.watch) b->ops->unwatch(b, reader.watch);
    if (reader.feed) prim_feed_close(reader.feed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const coord_options options;
    struct prim_host host = {.lost = on_lost, .degraded = on_degraded};
    struct prim_backend *backend = NULL;
    struct prim_url url;
    coord_result result;

    at = data;
    left = size;
    stream_count = 0;
    guarded = false;
    must(!sim_open(&(struct sim_options){.seed = 1}, &sim));
    must(!sim_host_add(sim, &(struct sim_host_options){.name = "c"}, &sim_host_of_test));
    result = prim_url_parse(size & 1 ? "etcd://h" : "etcd://h?raw=1", &url);
    must(result.code == COORD_OK);
    opening = !(take() & 1);
    result = prim_etcd_open(&(struct prim_open){.url = &url,
                                                .options = &options,
                                                .clock = {.now = test_now},
                                                .host = &host,
                                                .deadline_ns = 1},
                            &backend);
    opening = false;
    judge(&result);
    must((result.code == COORD_OK) == (backend != NULL));
    if (backend) {
        use(backend);
        left = 0;
        guards_drop();
        backend->ops->close(backend);
    }
    prim_url_deinit(&url);
    sim_close(sim);
    return 0;
}
