/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/etcd/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    /* etcd counts pings closer than 5 s as abuse. */
    PING_AFTER_MS = 6000,
    PING_TIMEOUT_MS = 3000,
    DIAL_TIMEOUT_MS = 1000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000,
    AUTHENTICATE_MS = 3000,
    TOKEN_MAX = 16 * 1024,
    TOKEN_ARENA_MAX = 1024 * 1024,
    STREAM_MESSAGE_MAX = 64 * 1024 * 1024,
};

struct etcd_client {
    struct courier courier;
    char *user, *password;
    /* loop thread */
    struct buf token;
    bool tokenless; /* the server has no authentication: go without */
    bool authenticating;
    struct courier_op authenticate;
    struct list waiters; /* ops that wait for a token */
    struct metadata {
        struct h2_header fields[2];
        size_t count;
    } metadata; /* of the call that is being begun */
};

static struct etcd_client *client_of(struct courier *courier)
{
    return CONTAINER_OF(courier, struct etcd_client, courier);
}

/* -- metadata of every request -- */

static void add_metadata(struct etcd_client *c, bool bare, struct rpc_call_options *options)
{
    struct str token = buf_peek(&c->token);
    struct metadata *m = &c->metadata;

    m->count = 0;
    m->fields[m->count++] = (struct h2_header){.name = STR("hasleader"), .value = STR("true")};
    if (!bare && token.len > 0)
        m->fields[m->count++] = (struct h2_header){.name = STR("token"), .value = token};
    options->metadata = m->fields;
    options->metadata_count = m->count;
    options->untraced = true;
}

/* -- trouble -- */

uint32_t etcd_client_generation(const struct etcd_client *c)
{
    return c->courier.generation;
}

void etcd_client_trouble(struct etcd_client *c, uint32_t generation)
{
    courier_trouble(&c->courier, generation);
}

/* -- authentication -- */

static void token_done(struct courier_op *op)
{
    struct etcd_client *c = client_of(op->courier);
    struct arena arena;
    ProtobufCMessage *message;
    struct list waiters;

    c->authenticating = false;
    arena_init(&arena, TOKEN_ARENA_MAX);
    if (!op->err)
        op->err = message_read(&etcdserverpb__authenticate_response__descriptor,
                               buf_peek(&op->response), NULL, &arena, &message, NULL);
    buf_clear(&c->token);
    if (!op->err)
        op->err = buf_append_c(&c->token, ((Etcdserverpb__AuthenticateResponse *)message)->token);
    else if (op->answered && strstr(op->text, "authentication is not enabled"))
        c->tokenless = true;
    arena_deinit(&arena);

    list_init(&waiters);
    list_splice(&waiters, &c->waiters);
    for (struct list *node = list_pop(&waiters); node; node = list_pop(&waiters)) {
        struct courier_op *waiter = CONTAINER_OF(node, struct courier_op, link);
        if (!op->err || c->tokenless) {
            courier_op_begin(&c->courier, waiter);
            continue;
        }
        waiter->err = op->err;
        waiter->status = op->status;
        waiter->answered = op->answered;
        (void)snprintf(waiter->text, sizeof waiter->text, "%s", op->text);
        waiter->done(waiter);
    }
    courier_op_deinit(op);
}

static void authenticate(struct etcd_client *c)
{
    Etcdserverpb__AuthenticateRequest request = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;
    struct courier_op *op = &c->authenticate;

    if (c->authenticating) return;
    c->authenticating = true;
    buf_clear(&c->token);
    etcd_op_init(op, "/etcdserverpb.Auth/Authenticate",
                 etcd_client_now(c) + AUTHENTICATE_MS * (int64_t)NS_PER_MS);
    request.name = c->user;
    request.password = c->password;
    (void)message_write(&request.base, &op->request, NULL); /* fails as an empty name would */
    op->bare = op->idempotent = true;
    op->done = token_done;
    courier_op_begin(&c->courier, op);
}

static bool lacks_token(const struct etcd_client *c)
{
    return c->user && !c->tokenless && buf_peek(&c->token).len == 0;
}

static void authenticate_for(struct etcd_client *c, struct courier_op *op)
{
    list_append(&c->waiters, &op->link);
    authenticate(c);
}

/* The server has forgotten it, or users were changed since it was given. Nothing was done then. */
static bool token_is_stale(const struct rpc_outcome *outcome)
{
    char text[128];

    if (!outcome->answered || outcome->status == GRPC_OK) return false;
    if (outcome->status == GRPC_UNAUTHENTICATED) return true;
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(outcome->text));
    return strstr(text, "auth") && (strstr(text, "revision") || strstr(text, "token"));
}

static bool prepare(struct courier_op *op, struct rpc_call_options *options)
{
    struct etcd_client *c = client_of(op->courier);

    if (!op->bare && lacks_token(c)) {
        authenticate_for(c, op);
        return false;
    }
    add_metadata(c, op->bare, options);
    return true;
}

static bool refused(struct courier_op *op, const struct rpc_outcome *outcome)
{
    struct etcd_client *c = client_of(op->courier);

    if (!token_is_stale(outcome) || !c->user || op->bare || op->refused) return false;
    op->refused = true;
    buf_clear(&c->token);
    authenticate_for(c, op);
    return true;
}

static bool prepare_stream(struct courier *courier, struct rpc_call_options *options)
{
    struct etcd_client *c = client_of(courier);

    if (lacks_token(c)) {
        authenticate(c);
        return false;
    }
    add_metadata(c, false, options);
    return true;
}

static void stream_ended(struct courier *courier, const struct rpc_outcome *outcome)
{
    if (token_is_stale(outcome)) buf_clear(&client_of(courier)->token);
}

bool etcd_client_forget_token(struct etcd_client *c)
{
    buf_clear(&c->token);
    return c->user && !c->tokenless;
}

/* -- unary calls -- */

void etcd_op_init(struct courier_op *op, const char *path, int64_t deadline_ns)
{
    courier_op_init(op, path, deadline_ns, ETCD_REQUEST_MAX, ETCD_RESPONSE_MAX);
}

void etcd_op_start(struct etcd_client *c, struct courier_op *op)
{
    courier_op_start(&c->courier, op);
}

void etcd_op_run(struct etcd_client *c, struct courier_op *op)
{
    courier_op_run(&c->courier, op);
}

int64_t etcd_client_now(const struct etcd_client *c)
{
    return prim_clock_now(&c->courier.clock);
}

struct courier *etcd_client_courier(struct etcd_client *c)
{
    return &c->courier;
}

struct loop *etcd_client_loop(struct etcd_client *c)
{
    return c->courier.io->loop;
}

void etcd_client_do(struct etcd_client *c, void (*fn)(void *owner), void *owner)
{
    courier_do(&c->courier, fn, owner);
}

/* -- life -- */

static const struct courier_ways ways = {
    .thread_name = "muster-etcd",
    .attempts_max = 4,
    .prepare = prepare,
    .refused = refused,
    .stream = {.response_max = STREAM_MESSAGE_MAX, .attempts_max = 1},
    .prepare_stream = prepare_stream,
    .stream_ended = stream_ended};

enum err etcd_client_open(const struct etcd_client_options *o, struct etcd_client **ret_client,
                          struct note *note)
{
    struct etcd_client *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    buf_init(&c->token, TOKEN_MAX);
    list_init(&c->waiters);
    if (o->user) {
        c->user = str_dup(str_from(o->user));
        c->password = str_dup(str_from(o->password ? o->password : ""));
    }
    err = o->user && (!c->user || !c->password) ? ERR_NOMEM : ERR_OK;
    if (!err)
        err = courier_open(&c->courier, &ways, o->servers, o->clock,
                           &(struct rpc_channel_options){.backoff_first_ms = BACKOFF_FIRST_MS,
                                                         .backoff_max_ms = BACKOFF_MAX_MS,
                                                         .dial_timeout_ms = DIAL_TIMEOUT_MS,
                                                         .ping_after_ms = PING_AFTER_MS,
                                                         .ping_timeout_ms = PING_TIMEOUT_MS},
                           note);
    if (!err) {
        *ret_client = c;
        return ERR_OK;
    }
    free(c->user);
    free(c->password);
    free(c);
    return err;
}

static void leave_all(void *owner)
{
    struct etcd_client *c = owner;
    struct list waiters;

    list_init(&waiters);
    list_splice(&waiters, &c->waiters);
    for (struct list *node = list_pop(&waiters); node; node = list_pop(&waiters))
        courier_op_fail(CONTAINER_OF(node, struct courier_op, link), ERR_CANCELLED,
                        "the store is closed");
}

void etcd_client_close(struct etcd_client *c)
{
    if (!c) return;
    courier_close(&c->courier, leave_all, c);
    buf_deinit(&c->token);
    free(c->user);
    if (c->password) explicit_bzero(c->password, strlen(c->password));
    free(c->password);
    free(c);
}
