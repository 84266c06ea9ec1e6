/* SPDX-License-Identifier: Apache-2.0 */
/* A client of etcd's API: one request at a time, at any replica, never repeated.
 *
 * A write that was answered as done is in the log at that revision; a refused one never will be; a
 * write without an answer is ignored. A list shows the state at the revision of its header, in one
 * response or page by page. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/client.h"
#include "store_story.h"
#include "store_txns.h"
#include "wire/message.h"

enum {
    THINK_MS_MAX = 50,
    TIMEOUT_MS = 6000,
    ARENA_MAX = 8 << 20,
    BYTES_MAX = 1 << 20,
    LIST_MAX = 32,
    PAGE = 2,
};
enum want { WANT_TXN, WANT_PUT, WANT_DELETE, WANT_LIST };

struct client {
    struct store_actor *actor;
    struct io *io;
    struct rpc_channel *channel;
    struct timer think;
    struct prng prng;
    struct arena arena, answer;
    struct buf bytes;
    enum want want;
    const ProtobufCMessage *request; /* in the arena until the answer */
    uint64_t acked; /* newest revision that any client had received at the request */
    /* a list, page by page */
    struct store_seen_key listed[LIST_MAX];
    size_t listed_count;
    uint64_t listed_at;
    bool serializable;
    struct str next; /* in the arena */
    bool dying;
};

static void draw_value(void *owner, char value[TXNS_VALUE_CAP])
{
    struct client *c = owner;

    (void)snprintf(value, TXNS_VALUE_CAP, "E%" PRIu64, c->actor->story->witness.values++);
}

static struct str bytes_of(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* -- written values -- */
static void wrote(struct client *c, const Etcdserverpb__PutRequest *put, int64_t revision)
{
    struct store_story *story = c->actor->story;

    if (put->key.len > 2 && put->key.data[2] == 'u')
        store_witness_wrote(story, c->acked, bytes_of(put->key), bytes_of(put->value),
                            (uint64_t)revision);
}

static void denied_put(struct client *c, const Etcdserverpb__PutRequest *put)
{
    if (put->value.len && put->value.data[0] == 'E')
        store_witness_denied(c->actor->story, bytes_of(put->value));
}

static void denied_txn(struct client *c, const Etcdserverpb__TxnRequest *txn);

static void denied_ops(struct client *c, Etcdserverpb__RequestOp *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT)
            denied_put(c, ops[i]->request_put);
        if (ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN)
            denied_txn(c, ops[i]->request_txn);
    }
}

static void denied_txn(struct client *c, const Etcdserverpb__TxnRequest *txn)
{
    denied_ops(c, txn->success, txn->n_success);
    denied_ops(c, txn->failure, txn->n_failure);
}

/* The branch that was taken was done; the other branch never will be. */
static void done_txn(struct client *c, const Etcdserverpb__TxnRequest *txn,
                     const Etcdserverpb__TxnResponse *answer, int64_t revision)
{
    Etcdserverpb__RequestOp *const *ops = answer->succeeded ? txn->success : txn->failure;
    size_t count = answer->succeeded ? txn->n_success : txn->n_failure;

    if (answer->n_responses != count) {
        store_wrong(c->actor->story, "e%zu: %zu answers to %zu operations", c->actor->number,
                    answer->n_responses, count);
        return;
    }
    if (answer->succeeded)
        denied_ops(c, txn->failure, txn->n_failure);
    else
        denied_ops(c, txn->success, txn->n_success);
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT)
            wrote(c, ops[i]->request_put, revision);
        if (ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN &&
            answer->responses[i]->response_txn)
            done_txn(c, ops[i]->request_txn, answer->responses[i]->response_txn, revision);
    }
}

/* -- lists -- */
static void think(struct client *c)
{
    timer_start_in(&c->think, 1 + prng_below(&c->prng, THINK_MS_MAX));
}

static void ask(struct client *c, const char *path, const ProtobufCMessage *message);

static void ask_page(struct client *c)
{
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;

    range.key = (ProtobufCBinaryData){c->next.len, (uint8_t *)c->next.at};
    range.range_end = (ProtobufCBinaryData){2, (uint8_t *)"e0"};
    range.limit = PAGE;
    range.revision = (int64_t)c->listed_at;
    range.serializable = c->serializable;
    ask(c, "/etcdserverpb.KV/Range", &range.base);
}

static void listed(struct client *c, const Etcdserverpb__RangeResponse *page)
{
    struct store_story *story = c->actor->story;
    const Mvccpb__KeyValue *last;
    char *next;

    if (!c->listed_at) c->listed_at = (uint64_t)page->header->revision;
    if (!c->serializable && !c->listed_count && c->listed_at < c->acked)
        store_wrong(story, "e%zu: a list of revision %" PRIu64 " after %" PRIu64 " was seen",
                    c->actor->number, c->listed_at, c->acked);
    for (size_t i = 0; i < page->n_kvs && c->listed_count < LIST_MAX; i++)
        c->listed[c->listed_count++] = (struct store_seen_key){
            store_hash_of_key(bytes_of(page->kvs[i]->key)), (uint64_t)page->kvs[i]->mod_revision};
    if (page->more && page->n_kvs) {
        last = page->kvs[page->n_kvs - 1];
        next = arena_alloc(&c->arena, last->key.len + 1);
        if (!next) return;
        memcpy(next, last->key.data, last->key.len);
        next[last->key.len] = '\0';
        c->next = str_of(next, last->key.len + 1);
        ask_page(c);
        return;
    }
    store_witness_snapshot(story, store_hash_of_bucket(STR("e")), c->listed_at, c->listed,
                           c->listed_count);
    if (!c->serializable) story->witness.acked = max_u64(story->witness.acked, c->listed_at);
    story->witness.etcd_lists++;
    think(c);
}

/* -- answers -- */
static void answered(struct client *c, struct str message)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        [WANT_TXN] = &etcdserverpb__txn_response__descriptor,
        [WANT_PUT] = &etcdserverpb__put_response__descriptor,
        [WANT_DELETE] = &etcdserverpb__delete_range_response__descriptor,
        [WANT_LIST] = &etcdserverpb__range_response__descriptor};
    struct store_story *story = c->actor->story;
    ProtobufCMessage *read;
    struct note note = {""};

    arena_reset(&c->answer);
    if (message_read(types[c->want], message, NULL, &c->answer, &read, &note)) {
        store_wrong(story, "e%zu: an answer that cannot be read: %s", c->actor->number, note.text);
        return;
    }
    story->witness.etcd_done[c->actor->number]++;
    if (c->want == WANT_TXN) {
        const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)read;

        done_txn(c, (const Etcdserverpb__TxnRequest *)c->request, txn, txn->header->revision);
    } else if (c->want == WANT_PUT) {
        wrote(c, (const Etcdserverpb__PutRequest *)c->request,
              ((const Etcdserverpb__PutResponse *)read)->header->revision);
    } else if (c->want == WANT_LIST) {
        listed(c, (const Etcdserverpb__RangeResponse *)read);
        return;
    }
    think(c);
}

/* Refused for its content: it was not done and never will be. */
static bool is_refusal(const struct rpc_outcome *outcome)
{
    return outcome->answered && outcome->err != ERR_UNKNOWN &&
           (outcome->status == GRPC_INVALID_ARGUMENT || outcome->status == GRPC_NOT_FOUND ||
            outcome->status == GRPC_PERMISSION_DENIED || outcome->status == GRPC_OUT_OF_RANGE);
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct client *c = owner;
    struct store_witness *w = &c->actor->story->witness;

    (void)call;
    if (c->dying) return;
    if (!outcome->err) {
        answered(c, message);
        return;
    }
    if (is_refusal(outcome)) {
        w->etcd_refused++;
        if (c->want == WANT_TXN) denied_txn(c, (const Etcdserverpb__TxnRequest *)c->request);
        if (c->want == WANT_PUT) denied_put(c, (const Etcdserverpb__PutRequest *)c->request);
    } else {
        w->etcd_doubts++;
        rpc_channel_next_address(c->channel);
    }
    think(c);
}

static void ask(struct client *c, const char *path, const ProtobufCMessage *message)
{
    struct rpc_call_options options = {
        .path = path, .timeout_ms = TIMEOUT_MS, .wait_for_ready = true, .attempts_max = 1};

    buf_clear(&c->bytes);
    if (message_write(message, &c->bytes, NULL) ||
        rpc_unary(c->channel, &options, buf_peek(&c->bytes), on_answer, c, NULL))
        think(c);
}

static void on_think(struct timer *timer)
{
    struct client *c = CONTAINER_OF(timer, struct client, think);
    struct store_story *story = c->actor->story;
    uint64_t die = prng_below(&c->prng, 10);
    struct txns draw = {&c->prng, &c->arena, draw_value, c, story->witness.acked};

    if (story->quiet) return;
    arena_reset(&c->arena);
    c->acked = story->witness.acked;
    if (die < 6) {
        Etcdserverpb__TxnRequest *txn = txns_draw(&draw);
        c->want = WANT_TXN;
        c->request = &txn->base;
        ask(c, "/etcdserverpb.KV/Txn", c->request);
    } else if (die < 8) {
        Etcdserverpb__PutRequest *put = txns_draw_put(&draw);
        c->want = WANT_PUT;
        c->request = &put->base;
        ask(c, "/etcdserverpb.KV/Put", c->request);
    } else if (die < 9) {
        Etcdserverpb__DeleteRangeRequest *del = txns_draw_delete(&draw);
        c->want = WANT_DELETE;
        c->request = &del->base;
        ask(c, "/etcdserverpb.KV/DeleteRange", c->request);
    } else {
        c->want = WANT_LIST;
        c->listed_count = 0;
        c->listed_at = 0;
        c->serializable = prng_below(&c->prng, 3) == 0;
        c->next = STR("e/");
        ask_page(c);
    }
}

/* -- life -- */
static void gone(void *owner)
{
    struct client *c = owner;

    timer_deinit(&c->think);
    arena_deinit(&c->arena);
    arena_deinit(&c->answer);
    buf_deinit(&c->bytes);
    free(c);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct client *c = calloc(1, sizeof *c);
    struct rpc_channel_options options = store_channel(io);
    enum err err;

    if (!c) return ERR_NOMEM;
    c->actor = context;
    c->io = io;
    prng_seed(&c->prng, entropy_u64(io->entropy));
    arena_init(&c->arena, ARENA_MAX);
    arena_init(&c->answer, ARENA_MAX);
    buf_init(&c->bytes, BYTES_MAX);
    err = timer_init(&c->think, io->loop, on_think);
    if (!err) err = rpc_channel_open(&options, &c->channel, NULL);
    if (err) {
        gone(c);
        return err;
    }
    think(c);
    *ret_state = c;
    return ERR_OK;
}

static void destroy(void *state)
{
    struct client *c = state;

    c->dying = true;
    rpc_channel_close(c->channel, gone, c);
}

const struct sim_process_ops store_etcd_ops = {start, NULL, destroy};
