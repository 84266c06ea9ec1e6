/* SPDX-License-Identifier: Apache-2.0 */
/* v3electionpb.Election.Observe: sends every leader of an election and every value of the leader,
 * from any replica. Loop's thread.
 *
 * An observer watches the leader's key or, while there is no leader, all keys of the election. An
 * observer begins when this replica has caught up with the Raft leader. If the client did not read
 * in time, only the newest value is sent. */
#include <stdlib.h>

#include "store/etcd/leader_call.h"
#include "store/etcd/queue.h"
#include "store/keyvalue.h"
#include "wire/pb/etcd_election.pb-c.h"

struct observer {
    struct leader_call leader;
    struct list link, changed;
    struct looker looker; /* joins at the start; leaves while the stream has no room */
    struct etcd_api *api;
    struct rpc_call *call;  /* NULL: the call has ended */
    struct key_range range; /* keys of the election */
    uint64_t create, mod;   /* revisions of the value sent last */
    bool follows, needs_leader;
    char room[]; /* memory of `range` */
};

static void observer_unwatch(struct observer *observer)
{
    interest_leave(&observer->api->service->watches->interest, &observer->looker);
    list_remove(&observer->changed);
}

static void observer_free(struct observer *observer)
{
    observer_unwatch(observer);
    list_remove(&observer->link);
    assert(observer->api->observers.count > 0);
    observer->api->observers.count--;
    leader_call_deinit(&observer->leader);
    free(observer);
}

/* on_done frees the observer */
static void observer_end(struct observer *observer, enum grpc_status status, struct str text)
{
    observer_unwatch(observer);
    observer->follows = false;
    rpc_finish(observer->call, etcd_inner_status(status), text, STR_EMPTY);
}

static void observer_refuse(struct observer *observer, enum etcd_error error)
{
    observer_end(observer, etcd_errors[error].status, str_from(etcd_errors[error].text));
}

/* -- changes -- */

static void observer_send(struct observer *observer, const struct key_value *leader)
{
    struct etcd_api *api = observer->api;
    struct pack pack;
    enum err err;

    if (leader->create == observer->create && leader->mod == observer->mod) return;
    pack = etcd_answer(api);
    keyvalue_pack(&pack, 2, leader);
    err = pack.err ? pack.err : rpc_send_bytes(observer->call, buf_peek(&api->answer));
    if (err && err != ERR_FULL && err != ERR_CLOSED)
        observer_refuse(observer, ETCD_TOO_MANY_REQUESTS);
    if (err) return;
    observer->create = leader->create;
    observer->mod = leader->mod;
    api->service->numbers.watch_events++;
}

/* True if the election's leader still leads: all other entries are newer than the leader's key. */
static bool observer_leader_stays(const struct observer *observer, struct key_value *ret_leader)
{
    const struct interest_scope *scope = observer->looker.scope;

    return scope && scope->name &&
           keys_get(api_keys(observer->api), str_of(scope->text, scope->len), 0, ret_leader) &&
           ret_leader->create == observer->create;
}

static void observer_check(struct observer *observer)
{
    struct interest *interest = &observer->api->service->watches->interest;
    struct key_range range = observer->range;
    struct key_value leader;
    enum err err;

    if (!observer->follows || rpc_reply_waits(observer->call)) return;
    if (observer_leader_stays(observer, &leader)) {
        observer_send(observer, &leader);
        return;
    }
    observer_unwatch(observer);
    err = queue_first(api_keys(observer->api), range, &leader);
    if (err == ERR_TOO_LARGE) {
        observer_refuse(observer, ETCD_TOO_LARGE);
    } else if (!err) {
        observer_send(observer, &leader);
        range = (struct key_range){leader.key, STR_EMPTY};
    }
    if (!observer->follows) return; /* the observer has ended */
    if (interest_join(interest, range, &observer->looker))
        observer_refuse(observer, ETCD_TOO_MANY_REQUESTS);
}

/* -- the call -- */

static void observer_on_caught_up(struct leader_call *call, const struct leader_answer *answer)
{
    struct observer *observer = CONTAINER_OF(call, struct observer, leader);

    if (!observer->call) {
        observer_free(observer);
    } else if (answer->status) {
        observer_end(observer, answer->status, answer->text);
    } else {
        observer->follows = true;
        observer_check(observer);
    }
}

static enum etcd_error observer_begin(struct observer *observer)
{
    enum err err = leader_call_init(&observer->leader, observer->api, observer->call);

    if (err) return ETCD_TOO_MANY_REQUESTS;
    /* A longer key cannot exist. The check also bounds memory: the name is kept for the whole
     * call. */
    if (observer->range.from.len > STORE_KEY_MAX) return ETCD_TOO_LARGE;
    if (!etcd_may(observer->api, observer->call, observer->range, ETCD_READ)) return ETCD_DENIED;
    err = leader_call_catch_up(&observer->leader, observer->range.from,
                               observer->api->leader.options.wait_ms, observer_on_caught_up);
    if (err) return err == ERR_CLOSED ? ETCD_STOPPED : ETCD_TOO_MANY_REQUESTS;
    return ETCD_OK;
}

static void observer_on_changed(struct looker *looker, uint64_t, const struct key_value *)
{
    struct observer *observer = CONTAINER_OF(looker, struct observer, looker);

    if (list_empty(&observer->changed))
        list_append(&observer->api->observers.changed, &observer->changed);
}

static struct observer *observer_new(struct etcd_api *api, struct rpc_call *call, struct str name)
{
    struct observer *observer = calloc(1, sizeof *observer + 2 * (name.len + 1));

    if (!observer) return NULL;
    observer->api = api;
    observer->call = call;
    observer->needs_leader = etcd_wants_leader(call);
    observer->range = queue_range(name, observer->room);
    list_init(&observer->link);
    list_init(&observer->changed);
    observer->looker.seen = observer_on_changed;
    list_append(&api->observers.all, &observer->link);
    api->observers.count++;
    rpc_call_set_data(call, observer);
    rpc_call_set_waiting(call);
    return observer;
}

static void observer_on_message(void *service, struct rpc_call *call,
                                const ProtobufCMessage *message, struct str)
{
    struct etcd_api *api = service;
    struct str name = bytes_str(((const V3electionpb__LeaderRequest *)message)->name);
    bool full = api->observers.count >= api->service->limits.watchers_max;
    enum etcd_error error = etcd_keep_refusal(api, call, full);
    struct observer *observer = NULL;

    rpc_call_set_data(call, NULL);
    if (!error) observer = observer_new(api, call, name);
    if (!observer) {
        etcd_finish(call, error ? error : ETCD_TOO_MANY_REQUESTS);
        return;
    }
    error = observer_begin(observer);
    if (error) observer_refuse(observer, error);
}

static void observer_on_writable(void *, struct rpc_call *call)
{
    struct observer *observer = rpc_call_data(call);

    if (observer && !store_machine_restoring(observer->api->service->machine))
        observer_check(observer);
}

static void observer_on_drain(void *, struct rpc_call *call)
{
    struct observer *observer = rpc_call_data(call);

    if (observer) observer_refuse(observer, ETCD_STOPPED);
}

static void observer_on_done(void *, struct rpc_call *call)
{
    struct observer *observer = rpc_call_data(call);

    if (!observer) return;
    observer->call = NULL;
    observer->follows = false;
    if (!observer->leader.busy) observer_free(observer);
}

static const struct rpc_handler observe_handler = {.on_message = observer_on_message,
                                                   .on_writable = observer_on_writable,
                                                   .on_drain = observer_on_drain,
                                                   .on_done = observer_on_done};

/* -- the part -- */

/* Called during apply, not in a later turn, so that no value is missed. */
static void observers_check(struct etcd_api *api)
{
    struct list *node;

    while ((node = list_pop(&api->observers.changed)))
        observer_check(CONTAINER_OF(node, struct observer, changed));
}

void etcd_observers_end(struct etcd_api *api, enum etcd_error error, bool needs_leader)
{
    LIST_EACH(&api->observers.all, node)
    {
        struct observer *observer = CONTAINER_OF(node, struct observer, link);

        if (observer->call && (observer->needs_leader || !needs_leader))
            observer_refuse(observer, error);
    }
}

static enum err observers_open(struct etcd_api *api)
{
    list_init(&api->observers.all);
    list_init(&api->observers.changed);
    return ERR_OK;
}

static void observers_close(struct etcd_api *api)
{
    assert(api->observers.count == 0);
}

static const struct etcd_raw observe_raws[] = {
    {ETCD_RAW("Observe", v3electionpb, Election, leader, leader, RPC_SERVER_STREAM,
              observe_handler)},
    {.rpc = {.path = NULL}},
};

const struct etcd_part etcd_observe_part = {.raws = observe_raws,
                                            .open = observers_open,
                                            .close = observers_close,
                                            .applied = observers_check,
                                            .restored = observers_check};
