/* SPDX-License-Identifier: Apache-2.0 */
/* v3electionpb.Election.Observe: every leader, and every word of it, from any replica.
 *
 * An observer looks at the leader's key; while there is no leader, at all keys of the election. It
 * begins when this replica is as new as the leader of the log was when it was asked, and is told
 * what is applied, change by change. One that does not read is told the newest when it does. */
#include <stdlib.h>

#include "store/etcd/errand.h"
#include "store/etcd/turns.h"
#include "store/keyvalue.h"
#include "wire/pb/etcd_election.pb-c.h"

struct observer {
    struct leader_call errand;
    struct list link, dirty;
    struct looker looker; /* at nothing: it has not begun, or there is no room for what it saw */
    struct etcd_api *api;
    struct rpc_call *call; /* NULL: gone */
    struct buf prefix, end;
    uint64_t create, mod; /* what it was told last */
    bool follows, blocked, needs_leader;
};

static void look_away(struct observer *observer)
{
    interest_leave(watch_engine_interest(observer->api->service->watches), &observer->looker);
    list_remove(&observer->dirty);
}

static void observer_free(struct observer *observer)
{
    look_away(observer);
    list_remove(&observer->link);
    assert(observer->api->observers.count > 0);
    observer->api->observers.count--;
    errand_deinit(&observer->errand);
    buf_deinit(&observer->prefix);
    buf_deinit(&observer->end);
    free(observer);
}

/* on_done frees it. */
static void end(struct observer *observer, enum grpc_status status, struct str text)
{
    look_away(observer);
    observer->follows = false;
    rpc_finish(observer->call, etcd_inner_status(status), text, STR_EMPTY);
}

static void end_with(struct observer *observer, enum etcd_error error)
{
    end(observer, etcd_errors[error].status, str_from(etcd_errors[error].text));
}

/* -- what it sees -- */

static void tell(struct observer *observer, const struct key_value *leader)
{
    struct etcd_api *api = observer->api;
    struct pack pack;
    enum err err;

    if (leader->create == observer->create && leader->mod == observer->mod) return;
    pack = etcd_answer(api);
    keyvalue_pack(&pack, 2, leader);
    err = pack.err ? pack.err : rpc_send_bytes(observer->call, buf_peek(&api->answer));
    observer->blocked = err == ERR_FULL;
    if (err && err != ERR_FULL && err != ERR_CLOSED) end_with(observer, ETCD_TOO_MANY_REQUESTS);
    if (err) return;
    observer->create = leader->create;
    observer->mod = leader->mod;
    store_count(api->service->metrics.watch_events, 1);
}

static struct key_range range_of(const struct observer *observer)
{
    return (struct key_range){buf_peek(&observer->prefix), buf_peek(&observer->end)};
}

/* Whoever is after it came later: the leader is the leader for as long as its key is there. */
static bool leads_still(const struct observer *observer, struct key_value *ret_leader)
{
    const struct interest_scope *scope = observer->looker.scope;

    return scope && scope->name &&
           keys_get(api_keys(observer->api), str_of(scope->text, scope->len), 0, ret_leader) &&
           ret_leader->create == observer->create;
}

static void look(struct observer *observer)
{
    struct interest *interest = watch_engine_interest(observer->api->service->watches);
    struct key_range range = range_of(observer);
    struct key_value leader;
    enum err err;

    if (observer->blocked || !observer->follows) return;
    if (leads_still(observer, &leader)) {
        tell(observer, &leader);
        return;
    }
    look_away(observer);
    err = turn_first(api_keys(observer->api), range, &leader);
    if (err == ERR_TOO_LARGE) {
        end_with(observer, ETCD_TOO_LARGE);
    } else if (!err) {
        tell(observer, &leader);
        range = (struct key_range){leader.key, STR_EMPTY};
    }
    if (!observer->follows) return; /* it ended */
    if (interest_join(interest, range, &observer->looker))
        end_with(observer, ETCD_TOO_MANY_REQUESTS);
}

/* -- the call -- */

static void on_caught_up(struct leader_call *errand, const struct errand_answer *answer)
{
    struct observer *observer = CONTAINER_OF(errand, struct observer, errand);

    if (!observer->call) {
        observer_free(observer);
    } else if (answer->status) {
        end(observer, answer->status, answer->text);
    } else {
        observer->follows = true;
        look(observer);
    }
}

static enum err begin(struct observer *observer, struct str name)
{
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct str prefix;
    char *room;
    enum err err = errand_init(&observer->errand, observer->api, observer->call);

    /* Nobody can lead there: no key is so long. And it is kept for as long as the call. */
    if (!err && name.len >= STORE_KEY_MAX) err = ERR_TOO_LARGE;
    if (!err) err = turn_prefix(name, &observer->prefix);
    if (!err) err = buf_reserve(&observer->end, name.len + 1, &room);
    if (err) return err;
    prefix = buf_peek(&observer->prefix);
    buf_commit(&observer->end, key_range_of_prefix(prefix, room).end.len);
    if (!etcd_may(observer->api, observer->call, range_of(observer), ETCD_READ)) return ERR_DENIED;
    range.key = (ProtobufCBinaryData){prefix.len, (uint8_t *)(uintptr_t)prefix.at};
    range.count_only = true;
    return errand_begin(&observer->errand, ERRAND_CATCH_UP, &range.base,
                        observer->api->leader.wait_ms, on_caught_up);
}

static void on_seen(struct looker *looker, uint64_t number, const struct key_value *change)
{
    struct observer *observer = CONTAINER_OF(looker, struct observer, looker);

    (void)number, (void)change;
    if (list_empty(&observer->dirty))
        list_append(&observer->api->observers.dirty, &observer->dirty);
}

static struct observer *observer_new(struct etcd_api *api, struct rpc_call *call)
{
    struct observer *observer = calloc(1, sizeof *observer);

    if (!observer) return NULL;
    observer->api = api;
    observer->call = call;
    observer->needs_leader = etcd_wants_leader(call);
    buf_init(&observer->prefix, ETCD_MESSAGE_MAX);
    buf_init(&observer->end, ETCD_MESSAGE_MAX);
    list_init(&observer->link);
    list_init(&observer->dirty);
    observer->looker.seen = on_seen;
    list_append(&api->observers.all, &observer->link);
    api->observers.count++;
    rpc_call_set_data(call, observer);
    rpc_call_waits(call);
    return observer;
}

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str)
{
    struct etcd_api *api = service;
    bool full = api->observers.count >= api->service->limits.watchers_max;
    enum etcd_error error = etcd_keep_refusal(api, call, full);
    struct observer *observer = NULL;
    enum err err;

    rpc_call_set_data(call, NULL);
    if (!error) observer = observer_new(api, call);
    if (!observer) {
        etcd_finish(call, error ? error : ETCD_TOO_MANY_REQUESTS);
        return;
    }
    err = begin(observer, bytes_str(((const V3electionpb__LeaderRequest *)message)->name));
    if (err)
        end_with(observer, err == ERR_DENIED      ? ETCD_DENIED
                           : err == ERR_CLOSED    ? ETCD_STOPPED
                           : err == ERR_TOO_LARGE ? ETCD_TOO_LARGE
                                                  : ETCD_TOO_MANY_REQUESTS);
}

static void on_writable(void *service, struct rpc_call *call)
{
    struct observer *observer = rpc_call_data(call);

    (void)service;
    if (!observer) return;
    observer->blocked = false;
    if (!store_machine_restoring(observer->api->service->machine)) look(observer);
}

static void on_drain(void *, struct rpc_call *call)
{
    struct observer *observer = rpc_call_data(call);

    if (observer) end_with(observer, ETCD_STOPPED);
}

static void on_done(void *, struct rpc_call *call)
{
    struct observer *observer = rpc_call_data(call);

    if (!observer) return;
    observer->call = NULL;
    observer->follows = false;
    if (observer->errand.step == ERRAND_RESTS) observer_free(observer);
}

static const struct rpc_handler handler = {
    .on_message = on_message, .on_writable = on_writable, .on_drain = on_drain, .on_done = on_done};

/* -- the part -- */

static void look_all(struct etcd_api *api)
{
    struct list *node;

    while ((node = list_pop(&api->observers.dirty)))
        look(CONTAINER_OF(node, struct observer, dirty));
}

/* Here, and not in a later turn: then every change was seen. */
static void applied(struct etcd_api *api, const struct store_applied *)
{
    look_all(api);
}

void etcd_observers_end(struct etcd_api *api, enum etcd_error error, bool needs_leader)
{
    LIST_EACH(&api->observers.all, node)
    {
        struct observer *observer = CONTAINER_OF(node, struct observer, link);

        if (observer->call && (observer->needs_leader || !needs_leader)) end_with(observer, error);
    }
}

static enum err open_part(struct etcd_api *api)
{
    list_init(&api->observers.all);
    list_init(&api->observers.dirty);
    return ERR_OK;
}

static void close_part(struct etcd_api *api)
{
    assert(api->observers.count == 0);
}

static enum err add(struct etcd_api *api, struct rpc_server *server, struct note *note)
{
    return etcd_add(api, server,
                    &(struct rpc_method){.path = "/v3electionpb.Election/Observe",
                                         .kind = RPC_SERVER_STREAM,
                                         .input = &v3electionpb__leader_request__descriptor,
                                         .output = &v3electionpb__leader_response__descriptor,
                                         .request_max = ETCD_MESSAGE_MAX,
                                         .response_max = ETCD_ANSWER_MAX,
                                         .handler = &handler,
                                         .service = api},
                    NULL, note);
}

const struct etcd_part etcd_observe_part = {
    .open = open_part, .close = close_part, .add = add, .applied = applied, .restored = look_all};
