/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC thread to etcd and the headers of every request. With the header hasleader, a member
 * without majority refuses the call immediately. If the URL has a user, requests carry a token. */
#include <stdio.h>
#include <stdlib.h>

#include "prim/etcd/client.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    /* etcd treats pings more often than every 5 s as abuse. */
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

static struct etcd_client *client_of(struct grpc_thread *grpc_thread)
{
    return CONTAINER_OF(grpc_thread, struct etcd_client, grpc_thread);
}

/* -- metadata of every request -- */

static void add_metadata(struct etcd_client *c, bool bare, struct rpc_call_options *options)
{
    struct str token = buf_peek(&c->token);

    c->fields[0] = (struct h2_header){.name = STR("hasleader"), .value = STR("true")};
    c->fields[1] = (struct h2_header){.name = STR("token"), .value = token};
    options->metadata = c->fields;
    options->metadata_count = !bare && token.len > 0 ? 2 : 1;
    options->untraced = true;
}

/* -- authentication -- */

static void token_done(struct grpc_thread_op *op)
{
    struct etcd_client *c = client_of(op->grpc_thread);
    struct arena arena;
    ProtobufCMessage *message;
    struct list waiters, *node;

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
    while ((node = list_pop(&waiters))) {
        struct grpc_thread_op *waiter = CONTAINER_OF(node, struct grpc_thread_op, link);
        if (!op->err || c->tokenless) {
            grpc_op_begin(op->grpc_thread, waiter);
            continue;
        }
        waiter->err = op->err;
        waiter->status = op->status;
        waiter->answered = op->answered;
        (void)snprintf(waiter->text, sizeof waiter->text, "%s", op->text);
        waiter->done(waiter);
    }
    grpc_op_deinit(op);
}

static void authenticate(struct grpc_thread *grpc_thread)
{
    struct etcd_client *c = client_of(grpc_thread);
    Etcdserverpb__AuthenticateRequest request = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;
    struct grpc_thread_op *op = &c->authenticate;

    if (c->authenticating) return;
    c->authenticating = true;
    buf_clear(&c->token);
    etcd_op_init(op, "/etcdserverpb.Auth/Authenticate",
                 grpc_now(grpc_thread) + AUTHENTICATE_MS * (int64_t)NS_PER_MS);
    request.name = c->user;
    request.password = c->password;
    (void)message_write(&request.base, &op->request, NULL); /* out of memory: the login fails */
    op->bare = op->idempotent = true;
    op->done = token_done;
    grpc_op_begin(grpc_thread, op);
}

static bool lacks_token(const struct etcd_client *c)
{
    return c->user && !c->tokenless && buf_peek(&c->token).len == 0;
}

static void authenticate_for(struct grpc_thread_op *op)
{
    list_append(&client_of(op->grpc_thread)->waiters, &op->link);
    authenticate(op->grpc_thread);
}

/* True if the server forgot the token, or if users have changed. Such a call was not applied. */
static bool token_is_stale(const struct rpc_outcome *outcome)
{
    char text[128];

    if (!outcome->answered || outcome->status == GRPC_OK) return false;
    if (outcome->status == GRPC_UNAUTHENTICATED) return true;
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(outcome->text));
    return strstr(text, "auth") && (strstr(text, "revision") || strstr(text, "token"));
}

static bool prepare(struct grpc_thread_op *op, struct rpc_call_options *options)
{
    struct etcd_client *c = client_of(op->grpc_thread);

    if (!op->bare && lacks_token(c)) {
        authenticate_for(op);
        return false;
    }
    add_metadata(c, op->bare, options);
    return true;
}

static bool client_refused(struct grpc_thread_op *op, const struct rpc_outcome *outcome)
{
    struct etcd_client *c = client_of(op->grpc_thread);

    if (!token_is_stale(outcome) || !c->user || op->bare || op->refused) return false;
    op->refused = true;
    buf_clear(&c->token);
    authenticate_for(op);
    return true;
}

static bool prepare_stream(struct grpc_thread *grpc_thread, struct rpc_call_options *options)
{
    struct etcd_client *c = client_of(grpc_thread);

    if (lacks_token(c)) {
        authenticate(grpc_thread);
        return false;
    }
    add_metadata(c, false, options);
    return true;
}

static void client_stream_ended(struct grpc_thread *grpc_thread, const struct rpc_outcome *outcome)
{
    if (token_is_stale(outcome)) buf_clear(&client_of(grpc_thread)->token);
}

bool etcd_client_forget_token(struct etcd_client *c)
{
    buf_clear(&c->token);
    return c->user && !c->tokenless;
}

/* -- open and close -- */

void etcd_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns)
{
    grpc_op_init(op, path, deadline_ns, ETCD_REQUEST_MAX, ETCD_RESPONSE_MAX);
}

static void client_free(struct etcd_client *c)
{
    buf_deinit(&c->token);
    free(c->user);
    if (c->password) explicit_bzero(c->password, strlen(c->password));
    free(c->password);
}

static void client_leave(struct grpc_thread *grpc_thread)
{
    struct list *node;

    while ((node = list_pop(&client_of(grpc_thread)->waiters)))
        grpc_op_fail(CONTAINER_OF(node, struct grpc_thread_op, link), ERR_CANCELLED,
                     "the store is closed");
}

enum err etcd_client_open(struct etcd_client *c, const struct etcd_client_options *o,
                          struct note *note)
{
    static const struct grpc_hooks ways = {
        .thread_name = "muster-etcd",
        .attempts_max = 4,
        .prepare = prepare,
        .refused = client_refused,
        .stream = {.response_max = STREAM_MESSAGE_MAX, .attempts_max = 1},
        .prepare_stream = prepare_stream,
        .stream_ended = client_stream_ended,
        .leave = client_leave};
    const struct rpc_channel_options channel = {.backoff_first_ms = BACKOFF_FIRST_MS,
                                                .backoff_max_ms = BACKOFF_MAX_MS,
                                                .dial_timeout_ms = DIAL_TIMEOUT_MS,
                                                .ping_after_ms = PING_AFTER_MS,
                                                .ping_timeout_ms = PING_TIMEOUT_MS};
    enum err err = ERR_OK;

    *c = (struct etcd_client){.tokenless = false};
    buf_init(&c->token, TOKEN_MAX);
    list_init(&c->waiters);
    if (o->user) {
        c->user = str_dup(str_from(o->user));
        c->password = str_dup(str_from(o->password ? o->password : ""));
        if (!c->user || !c->password) err = ERR_NOMEM;
    }
    if (!err) err = grpc_open(&c->grpc_thread, &ways, o->servers, o->clock, &channel, note);
    if (err) client_free(c);
    return err;
}

void etcd_client_close(struct etcd_client *c)
{
    grpc_close(&c->grpc_thread);
    client_free(c);
}
