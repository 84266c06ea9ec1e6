/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1: Check answers at once, Watch tells now and at every change.
 *
 * A watcher that does not read misses states in between but never the last one: what it was last
 * told is kept, and what it should be told is looked up when it can be written to again. */
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
    struct str name;
    serving_status status;
    char text[];
};
struct watcher {
    struct list link;
    struct rpc_call *call;
    bool told_any;
    serving_status told;
    struct str name;
    char text[RPC_HEALTH_NAME_MAX];
};
struct rpc_health {
    struct map services;
    struct list watchers;
    bool draining;
};

static bool find(const struct rpc_health *h, struct str name, serving_status *ret_status)
{
    const struct service *service = map_get(&h->services, name);

    if (!service) return false;
    *ret_status = h->draining ? STATUS(NOT_SERVING) : service->status;
    return true;
}

/* -- Check -- */

static void on_check(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str)
{
    const check_request *request = (const check_request *)message;
    check_response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    if (find(owner, str_from(request->service), &response.status))
        rpc_reply(call, &response.base);
    else
        rpc_finish(call, GRPC_NOT_FOUND, STR("unknown service"), STR_EMPTY);
}

static const struct rpc_handler check_handler = {.on_message = on_check};

/* -- Watch -- */

/* Nothing to do when it knows already, and when it cannot be told now: on_writable comes back. */
static void tell(const struct rpc_health *h, struct watcher *w)
{
    check_response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    if (!find(h, w->name, &response.status)) response.status = STATUS(SERVICE_UNKNOWN);
    if (w->told_any && w->told == response.status) return;
    if (rpc_send(w->call, &response.base)) return;
    w->told_any = true;
    w->told = response.status;
}

static void on_watch(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str)
{
    struct rpc_health *h = owner;
    struct str name = str_from(((const check_request *)message)->service);
    struct watcher *w;

    if (name.len > RPC_HEALTH_NAME_MAX) {
        rpc_fail(call, ERR_INVALID, &(struct note){"service name is too long"});
        return;
    }
    w = calloc(1, sizeof *w);
    if (!w) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    w->call = call;
    if (name.len > 0) memcpy(w->text, name.at, name.len);
    w->name = str_of(w->text, name.len);
    list_init(&w->link);
    list_append(&h->watchers, &w->link);
    rpc_call_set_data(call, w);
    tell(h, w);
}

static void on_watch_writable(void *owner, struct rpc_call *call)
{
    tell(owner, rpc_call_data(call));
}

static void on_watch_drain(void *owner, struct rpc_call *call)
{
    struct rpc_health *h = owner;

    h->draining = true;
    tell(h, rpc_call_data(call));
    rpc_finish(call, GRPC_UNAVAILABLE, STR("the server is stopping"), STR_EMPTY);
}

static void on_watch_done(void *, struct rpc_call *call)
{
    struct watcher *w = rpc_call_data(call);

    if (!w) return; /* it was refused */
    list_remove(&w->link);
    free(w);
}

static const struct rpc_handler watch_handler = {
    .on_message = on_watch,
    .on_writable = on_watch_writable,
    .on_drain = on_watch_drain,
    .on_done = on_watch_done,
};

/* -- the service -- */

enum err rpc_health_set(struct rpc_health *health, struct str service, enum rpc_serving state)
{
    struct service *s = map_get(&health->services, service);
    enum err err;

    if (service.len > RPC_HEALTH_NAME_MAX) return ERR_TOO_LARGE;
    if (!s) {
        s = malloc(sizeof *s + service.len);
        if (!s) return ERR_NOMEM;
        if (service.len > 0) memcpy(s->text, service.at, service.len);
        s->name = str_of(s->text, service.len);
        err = map_put(&health->services, s->name, s);
        if (err) {
            free(s);
            return err;
        }
    }
    s->status = (serving_status)state;
    LIST_EACH(&health->watchers, node)
    {
        struct watcher *w = CONTAINER_OF(node, struct watcher, link);
        if (str_equal(w->name, service)) tell(health, w);
    }
    return ERR_OK;
}

static enum err add_methods(struct rpc_server *server, struct rpc_health *h, struct note *note)
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
    map_init(&h->services, RPC_HEALTH_SERVICES_MAX, 0); /* its keys are ours */
    list_init(&h->watchers);
    err = rpc_health_set(h, STR_EMPTY, RPC_NOT_SERVING);
    if (!err) err = add_methods(server, h, note);
    if (err) {
        rpc_health_close(h);
        return err;
    }
    *ret_health = h;
    return ERR_OK;
}

void rpc_health_close(struct rpc_health *health)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!health) return;
    assert(list_empty(&health->watchers)); /* the server is gone, and with it every call */
    while ((entry = map_next(&health->services, &cursor)) != NULL) free(entry->value);
    map_deinit(&health->services);
    free(health);
}
