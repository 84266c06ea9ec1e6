/* SPDX-License-Identifier: Apache-2.0 */
/* What a replica that waits to bootstrap a cluster answers on its gRPC port. Loop's thread. */
#include <stdio.h>
#include <string.h>

#include "fleet/bootstrap_internal.h"
#include "rpc/client.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

/* -- PromiseBootstrap -- */

static void promise_bootstrap(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                              struct str bytes)
{
    struct bootstrap *b = service;
    const Muster__V1__PromiseBootstrapRequest *from =
        (const Muster__V1__PromiseBootstrapRequest *)message;
    Muster__V1__PromiseBootstrapResponse response = MUSTER__V1__PROMISE_BOOTSTRAP_RESPONSE__INIT;
    struct promise_facts facts = {.replica_id = b->identity.replica_id,
                                  .waits = true,
                                  .asked = {from->cluster_id, from->replica_id}};
    struct note note = {""};

    (void)bytes;
    response.replica_id = b->identity.replica_id;
    response.name = b->name;
    switch (promise_decide(&facts)) {
    case PROMISE_INVALID:
        note_set(&note, "cluster_id and replica_id are required");
        rpc_fail(call, ERR_INVALID, &note);
        return;
    case PROMISE_SELF: break;
    default:
        response.reason = "it waits to bootstrap a cluster, too: only one replica may have "
                          "ordinal 0";
    }
    rpc_reply(call, &response.base);
}

/* -- BootstrapReplica -- */

void bootstrap_answer_order(struct bootstrap *bootstrap, bool done, const char *reason)
{
    Muster__V1__BootstrapReplicaResponse response = MUSTER__V1__BOOTSTRAP_REPLICA_RESPONSE__INIT;
    struct rpc_call *call = bootstrap->order;
    struct note note = {""};

    bootstrap->order = NULL;
    if (done) {
        response.cluster_id = bootstrap->identity.cluster_id;
        response.replica_id = bootstrap->identity.replica_id;
        rpc_reply(call, &response.base);
        return;
    }
    note_set(&note, "not bootstrapped: %s", reason);
    (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
    rpc_fail(call, ERR_PRECONDITION, &note);
}

static void bootstrap_replica(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                              struct str bytes)
{
    struct bootstrap *b = service;

    (void)message;
    (void)bytes;
    if (b->order || b->decided || b->stopped) {
        (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
        rpc_fail(call, ERR_UNAVAILABLE, NULL);
        return;
    }
    LOG_WARN(&b->log, "an administrator ordered this replica to bootstrap a cluster",
             log_text("caller", rpc_call_peer(call)));
    b->order = call;
    bootstrap_hurry(b);
}

static void order_gone(void *service, struct rpc_call *call)
{
    struct bootstrap *b = service;
    if (b->order == call) b->order = NULL;
}

/* -- StateHash: empty, and an older release sees so, too -- */

static void state_hash(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    struct bootstrap *b = service;
    Muster__V1__StateHashResponse response = MUSTER__V1__STATE_HASH_RESPONSE__INIT;

    (void)message;
    (void)bytes;
    response.replica_id = b->identity.replica_id;
    response.name = b->name;
    rpc_reply(call, &response.base);
}

/* -- everything else -- */

static void not_yet(const struct bootstrap *b, struct rpc_call *call)
{
    char text[BOOTSTRAP_TEXT_CAP + 64];

    snprintf(text, sizeof text, "this replica waits to bootstrap a cluster: %s", b->text);
    (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
    rpc_finish(call, GRPC_UNAVAILABLE, str_from(text), STR_EMPTY);
}

static void other_start(void *service, struct rpc_call *call)
{
    not_yet(service, call);
}

static void other_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                          struct str bytes)
{
    (void)message;
    (void)bytes;
    not_yet(service, call);
}

#define METHOD(path_of, fn, gone, in, out)                                                         \
    {                                                                                              \
        {.on_message = (fn), .on_done = (gone)},                                                   \
        {                                                                                          \
            .path = (path_of), .kind = RPC_UNARY, .input = &(in), .output = &(out)                 \
        }                                                                                          \
    }
static const struct {
    struct rpc_handler handler;
    struct rpc_method method;
} methods[] = {
    METHOD("/muster.v1.Fleet/PromiseBootstrap", promise_bootstrap, NULL,
           muster__v1__promise_bootstrap_request__descriptor,
           muster__v1__promise_bootstrap_response__descriptor),
    METHOD("/muster.v1.Fleet/BootstrapReplica", bootstrap_replica, order_gone,
           muster__v1__bootstrap_replica_request__descriptor,
           muster__v1__bootstrap_replica_response__descriptor),
    METHOD("/muster.v1.Fleet/StateHash", state_hash, NULL,
           muster__v1__state_hash_request__descriptor, muster__v1__state_hash_response__descriptor),
};

static bool is_own_method(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(methods[i].method.path, path) == 0) return true;
    return false;
}

enum err bootstrap_methods(struct bootstrap *bootstrap, struct rpc_server *server,
                           struct note *note)
{
    static const struct rpc_handler other = {.on_start = other_start, .on_message = other_message};
    const struct rpc_access_row *rows;
    size_t count = rpc_access_table(&rows);
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(methods); i++) {
        struct rpc_method method = methods[i].method;
        method.handler = &methods[i].handler;
        method.service = bootstrap;
        err = rpc_server_add(server, &method, note);
    }
    for (size_t i = 0; !err && i < count; i++) { /* as streams: refused before any message */
        struct rpc_method method = {
            .path = rows[i].path, .kind = RPC_BIDI, .handler = &other, .service = bootstrap};
        if (is_own_method(rows[i].path)) continue;
        err = rpc_server_add(server, &method, note);
    }
    return err;
}
