/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1: Check answers immediately; Watch sends the current state and every change. Loop's
 * thread.
 *
 * A watcher that does not read may miss intermediate states but never the last state. */
#include "rpc/health.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "wire/pb/grpc_health_v1_health.pb-c.h"

typedef Grpc__Health__V1__HealthCheckRequest check_request;
typedef Grpc__Health__V1__HealthCheckResponse check_response;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name
static_assert((int)STATUS(SERVING) == (int)RPC_SERVING, "the numbers of the contract");
static_assert((int)STATUS(NOT_SERVING) == (int)RPC_NOT_SERVING, "the numbers of the contract");

struct service {
    serving_status status;
};
struct watcher {
    struct list link;
    struct rpc_call *call;
    serving_status sent; /* the state sent last; UNKNOWN: none */
    struct str name;     /* points into the request, which is valid as long as the call */
};
struct rpc_health {
    struct map services;
    struct list watchers;
    bool draining;
};

static bool health_find(const struct rpc_health *h, struct str name, serving_status *ret_status)
{
    const struct service *service = map_get(&h->services, name);

    if (!service) return false;
    *ret_status = h->draining ? STATUS(NOT_SERVING) : service->status;
    return true;
}

/* -- Check -- */

static void health_on_check(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                            struct str)
{
    const check_request *request = (const check_request *)message;
    check_response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    if (health_find(owner, str_from(request->service), &response.status))
        rpc_reply(call, &response.base);
    else
        rpc_finish(call, GRPC_NOT_FOUND, STR("unknown service"), STR_EMPTY);
}

static const struct rpc_handler check_handler = {.on_message = health_on_check};

/* -- Watch -- */

/* A blocked watcher gets the state in on_writable. */
static void watcher_send(const struct rpc_health *h, struct watcher *w)
{
    check_response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    if (!health_find(h, w->name, &response.status)) response.status = STATUS(SERVICE_UNKNOWN);
    if (w->sent == response.status || rpc_send(w->call, &response.base)) return;
    w->sent = response.status;
}

static void health_on_watch(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                            struct str)
{
    struct rpc_health *h = owner;
    struct watcher *w = calloc(1, sizeof *w);

    if (!w) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    w->call = call;
    w->name = str_from(((const check_request *)message)->service);
    list_init(&w->link);
    list_append(&h->watchers, &w->link);
    rpc_call_set_data(call, w);
    watcher_send(h, w);
}

static void health_on_watch_writable(void *owner, struct rpc_call *call)
{
    watcher_send(owner, rpc_call_data(call));
}

static void health_on_watch_drain(void *owner, struct rpc_call *call)
{
    struct rpc_health *h = owner;

    h->draining = true;
    watcher_send(h, rpc_call_data(call));
    rpc_finish(call, GRPC_UNAVAILABLE, STR("the server is stopping"), STR_EMPTY);
}

static void health_on_watch_done(void *, struct rpc_call *call)
{
    struct watcher *w = rpc_call_data(call);

    if (!w) return; /* on_start refused the call */
    list_remove(&w->link);
    free(w);
}

static const struct rpc_handler watch_handler = {
    .on_message = health_on_watch,
    .on_writable = health_on_watch_writable,
    .on_drain = health_on_watch_drain,
    .on_done = health_on_watch_done,
};

/* -- the service -- */

enum err rpc_health_set(struct rpc_health *health, struct str service, enum rpc_serving state)
{
    struct service *s = map_get(&health->services, service);

    if (service.len > RPC_HEALTH_NAME_MAX) return ERR_TOO_LARGE;
    if (!s && map_count(&health->services) == RPC_HEALTH_SERVICES_MAX) return ERR_FULL;
    s = map_make(&health->services, service, sizeof *s);
    if (!s) return ERR_NOMEM;
    s->status = (serving_status)state;
    LIST_EACH(&health->watchers, node)
    {
        struct watcher *w = CONTAINER_OF(node, struct watcher, link);
        if (str_equal(w->name, service)) watcher_send(health, w);
    }
    return ERR_OK;
}

static enum err health_add_methods(struct rpc_server *server, struct rpc_health *h,
                                   struct note *note)
{
    struct rpc_method check = {
        .path = "/grpc.health.v1.Health/Check",
        .kind = RPC_UNARY,
        .input = &grpc__health__v1__health_check_request__descriptor,
        .output = &grpc__health__v1__health_check_response__descriptor,
        .handler = &check_handler,
        .service = h,
    };
    struct rpc_method watch = check;
    enum err err;

    watch.path = "/grpc.health.v1.Health/Watch";
    watch.kind = RPC_SERVER_STREAM;
    watch.handler = &watch_handler;
    err = rpc_server_add(server, &check, note);
    if (!err) err = rpc_server_add(server, &watch, note);
    return err;
}

enum err rpc_health_open(struct rpc_server *server, struct rpc_health **ret_health,
                         struct note *note)
{
    struct rpc_health *h = calloc(1, sizeof *h);
    enum err err;

    if (!h) return ERR_NOMEM;
    /* keys are chosen by us, so a fixed seed is safe */
    map_init(&h->services, RPC_HEALTH_SERVICES_MAX, 0);
    list_init(&h->watchers);
    err = rpc_health_set(h, STR_EMPTY, RPC_NOT_SERVING);
    if (!err) err = health_add_methods(server, h, note);
    if (err) {
        rpc_health_close(h);
        return err;
    }
    *ret_health = h;
    return ERR_OK;
}

void rpc_health_close(struct rpc_health *health)
{
    if (!health) return;
    assert(list_empty(&health->watchers)); /* the server was closed, which ends all calls */
    map_free(&health->services);
    free(health);
}
