/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait until their queue entry is first: Lock.Lock and Election.Campaign. Loop's thread.
 *
 *     grant a lease, if the request names none -> enter the queue -> first? reply
 *     -> else watch the key before this entry until it is deleted -> no key is left before it
 *     -> this replica has caught up with the leader, and the entry's key exists: reply
 *
 * The replica that got the call keeps it. Only the steps go to the leader (leader_call.h), so a
 * change of leaders does not end a waiting call. When the client disconnects, its key is deleted,
 * as with etcd. A call whose key is deleted while it waits is refused, and never holds the lock.
 *
 * Invariant: a wait exists while its client waits or one of its leader calls is running. */
#include <stdlib.h>

#include "store/etcd/leader_call.h"
#include "store/etcd/queue.h"
#include "store/keyvalue.h"
#include "wire/pb/etcd_election.pb-c.h"
#include "wire/pb/etcd_lock.pb-c.h"

enum {
    LEASE_S = 60,         /* TTL of a lease granted by the call, as in etcd */
    CHECKS_PER_PASS = 32, /* few, because each check may read the whole queue */
    LEAVE_WAIT_MS = 5000, /* limit for deleting the key; later its lease ends the key */
    QUEUE_WAIT_ARENA_MAX = 1 << 20,
};

struct queue_place {
    struct str key;
    struct str name; /* valid as long as the call */
    int64_t lease;
    uint64_t create; /* create revision of the key */
    uint64_t entered;
    uint64_t revision; /* revision at which the entry was first */
};
struct queue_wait_kind {
    bool sets; /* an existing key gets the call's value */
    enum etcd_error lost;
    void (*pack)(const struct etcd_api *api, struct pack *pack, const struct queue_place *place);
};
struct queue_wait {
    struct leader_call leader;
    struct list link;    /* in queue_waits.all */
    struct list changed; /* in queue_waits.changed, after a watched key was deleted */
    struct etcd_api *api;
    struct rpc_call *call; /* NULL: the client disconnected or was answered */
    const struct queue_wait_kind *kind;
    struct queue_place place;
    struct queue_entry entry; /* zero until the call has entered the queue */
    struct str value;
    struct key_range range;    /* keys of the queue */
    struct looker own, before; /* watch the call's key, and the key before */
    bool stays;                /* the key is kept when the wait ends */
    bool named;                /* the client knows the lease and can use another replica */
    char room[];
};

/* -- watched keys -- */

static void wait_unwatch(struct queue_wait *wait)
{
    struct interest *interest = &wait->api->service->watches->interest;

    interest_leave(interest, &wait->own);
    interest_leave(interest, &wait->before);
    list_remove(&wait->changed);
}

static bool wait_watch(struct queue_wait *wait, struct looker *looker, struct str key)
{
    return !interest_join(&wait->api->service->watches->interest,
                          (struct key_range){key, STR_EMPTY}, looker);
}

static void wait_changed(struct queue_wait *wait, const struct key_value *change)
{
    struct etcd_queue_waits *waits = &wait->api->queue_waits;

    if ((change && change->version) || !list_empty(&wait->changed)) return;
    list_append(&waits->changed, &wait->changed);
    loop_defer(wait->api->options.io->loop, &waits->check);
}

static void wait_on_own_changed(struct looker *looker, uint64_t, const struct key_value *change)
{
    wait_changed(CONTAINER_OF(looker, struct queue_wait, own), change);
}

static void wait_on_before_changed(struct looker *looker, uint64_t, const struct key_value *change)
{
    wait_changed(CONTAINER_OF(looker, struct queue_wait, before), change);
}

/* -- ends -- */

static void wait_free(struct queue_wait *wait)
{
    wait_unwatch(wait);
    list_remove(&wait->link);
    assert(wait->api->queue_waits.count > 0);
    wait->api->queue_waits.count--;
    if (wait->call) rpc_call_set_data(wait->call, NULL);
    leader_call_deinit(&wait->leader);
    free(wait);
}

static void queue_wait_on_left(struct leader_call *call, const struct leader_answer *)
{
    wait_free(CONTAINER_OF(call, struct queue_wait, leader));
}

static void queue_wait_leave(struct queue_wait *wait)
{
    struct queue_txn txn;

    wait_unwatch(wait);
    queue_leave(&txn, wait->place.key, &wait->entry, wait->range);
    if (!wait->entry.create || wait->stays ||
        leader_call_begin(&wait->leader, "/etcdserverpb.KV/Txn", &txn.txn.base, LEAVE_WAIT_MS,
                          queue_wait_on_left))
        wait_free(wait);
}

static void wait_finish(struct queue_wait *wait, enum grpc_status status, struct str text)
{
    rpc_finish(wait->call, etcd_inner_status(status), text, STR_EMPTY);
    rpc_call_set_data(wait->call, NULL);
    wait->call = NULL;
}

static void wait_refuse(struct queue_wait *wait, enum etcd_error error)
{
    wait_finish(wait, etcd_errors[error].status, str_from(etcd_errors[error].text));
    wait_free(wait);
}

/* Deletes the call's key, because the key would block every later entry. */
static void wait_give_up(struct queue_wait *wait, enum etcd_error error)
{
    wait_finish(wait, etcd_errors[error].status, str_from(etcd_errors[error].text));
    queue_wait_leave(wait);
}

static enum etcd_error wait_refusal(enum err err)
{
    return err == ERR_CLOSED ? ETCD_STOPPED : ETCD_TOO_MANY_REQUESTS;
}

/* False: the wait has ended, because the step failed or the client disconnected. */
static bool wait_continues(struct queue_wait *wait, const struct leader_answer *answer)
{
    if (!wait->call) {
        queue_wait_leave(wait);
        return false;
    }
    if (!answer->status) return true;
    wait_finish(wait, answer->status, answer->text);
    wait_free(wait);
    return false;
}

static void wait_reply(struct queue_wait *wait, uint64_t revision)
{
    struct etcd_api *api = wait->api;
    struct buf *scratch = &api->service->answer; /* api->answer may contain the last response */
    struct pack pack = pack_begin(scratch);

    wait->place.revision = revision;
    wait->kind->pack(api, &pack, &wait->place);
    if (pack.err) { /* the response cannot be encoded */
        wait_give_up(wait, ETCD_TIMEOUT);
        return;
    }
    rpc_reply_bytes(wait->call, buf_peek(scratch));
    api->service->numbers.lock_grants++;
    wait_free(wait);
}

/* -- in the queue -- */

static bool wait_has_key(const struct queue_wait *wait)
{
    struct key_value own;

    return keys_get(api_keys(wait->api), wait->place.key, 0, &own) &&
           own.create == wait->place.create;
}

static void wait_on_confirmed(struct leader_call *call, const struct leader_answer *answer)
{
    struct queue_wait *wait = CONTAINER_OF(call, struct queue_wait, leader);

    if (!wait_continues(wait, answer)) return;
    if (wait_has_key(wait))
        wait_reply(wait, answer->revision);
    else
        wait_refuse(wait, wait->kind->lost);
}

static void wait_check(struct queue_wait *wait)
{
    struct str key = wait->place.key;
    struct key_value before;
    enum err err;

    wait_unwatch(wait);
    if (!wait_has_key(wait)) {
        wait_refuse(wait, wait->kind->lost);
    } else if (!queue_before(api_keys(wait->api), wait->range, wait->place.create, &before)) {
        /* In this replica's applied state the entry is first. The leader must confirm this. */
        err = leader_call_catch_up(&wait->leader, key, 0, wait_on_confirmed);
        if (err) wait_give_up(wait, wait_refusal(err));
    } else if (!wait_watch(wait, &wait->own, key) || !wait_watch(wait, &wait->before, before.key)) {
        wait_give_up(wait, ETCD_TOO_MANY_REQUESTS);
    }
}

static void wait_on_entry_applied(struct leader_call *call, const struct leader_answer *answer)
{
    struct queue_wait *wait = CONTAINER_OF(call, struct queue_wait, leader);

    if (wait_continues(wait, answer)) wait_check(wait);
}

/* -- entering -- */

static bool wait_take_entry(struct queue_wait *wait, const struct leader_answer *answer)
{
    ProtobufCMessage *txn;
    struct arena arena;
    struct note note;
    bool entered;

    arena_init(&arena, QUEUE_WAIT_ARENA_MAX);
    entered = !message_read(&etcdserverpb__txn_response__descriptor, answer->response, NULL, &arena,
                            &txn, &note) &&
              queue_entered((const Etcdserverpb__TxnResponse *)txn, answer->revision, &wait->entry);
    arena_deinit(&arena);
    /* The lease was granted by this call, so the key belongs to this call, even if a repeated
     * attempt found the key. */
    if (!wait->named) wait->entry.created = true;
    wait->place.create = wait->entry.create;
    wait->place.entered = answer->revision;
    return entered;
}

static void wait_on_entered(struct leader_call *call, const struct leader_answer *answer)
{
    struct queue_wait *wait = CONTAINER_OF(call, struct queue_wait, leader);
    bool entered = !answer->status && wait_take_entry(wait, answer);

    if (!wait_continues(wait, answer)) return;
    if (!entered) {
        wait_refuse(wait, ETCD_UNHEALTHY);
    } else if (wait->entry.first) {
        wait_reply(wait, answer->revision);
    } else {
        rpc_call_set_waiting(wait->call);
        if (leader_call_wait(&wait->leader, answer->revision, wait_on_entry_applied))
            wait_refuse(wait, ETCD_STOPPED);
    }
}

static void wait_enter(struct queue_wait *wait)
{
    struct etcd_api *api = wait->api;
    struct queue_txn txn;
    enum err err;

    queue_enter(&txn, wait->place.key, wait->place.lease, wait->value, wait->kind->sets,
                wait->range);
    if (protobuf_c_message_get_packed_size(&txn.txn.base) > ETCD_REQUEST_MAX) {
        wait_refuse(wait, ETCD_TOO_LARGE);
        return;
    }
    err = leader_call_begin(&wait->leader, "/etcdserverpb.KV/Txn", &txn.txn.base,
                            api->leader.options.wait_ms, wait_on_entered);
    if (err) wait_refuse(wait, wait_refusal(err));
}

static void wait_on_granted(struct leader_call *call, const struct leader_answer *answer)
{
    struct queue_wait *wait = CONTAINER_OF(call, struct queue_wait, leader);
    struct leader_answer granted = *answer;

    /* An earlier attempt of this call was applied, so the lease already exists. */
    if (granted.status == GRPC_FAILED_PRECONDITION) granted.status = GRPC_OK;
    if (wait_continues(wait, &granted)) wait_enter(wait);
}

static void wait_grant(struct queue_wait *wait)
{
    Etcdserverpb__LeaseGrantRequest grant = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    enum err err;

    grant.id = wait->place.lease;
    grant.ttl = LEASE_S;
    err = leader_call_begin(&wait->leader, "/etcdserverpb.Lease/LeaseGrant", &grant.base,
                            wait->api->leader.options.wait_ms, wait_on_granted);
    if (err) wait_refuse(wait, wait_refusal(err));
}

/* -- the call -- */

static struct queue_wait *wait_new(struct etcd_api *api, struct rpc_call *call,
                                   const struct queue_wait_kind *kind, struct str name,
                                   int64_t lease)
{
    size_t key_room = name.len + QUEUE_LEASE_MAX;
    struct queue_wait *wait = calloc(1, sizeof *wait + key_room + 2 * (name.len + 1));

    if (!wait) return NULL;
    wait->api = api;
    wait->call = call;
    wait->kind = kind;
    wait->named = lease != 0;
    while (lease == 0) /* ends: zero is one of 2^63 possible numbers */
        lease = (int64_t)(entropy_u64(api->options.io->entropy) & INT64_MAX);
    wait->place = (struct queue_place){
        .name = name, .lease = lease, .key = queue_key(name, lease, wait->room)};
    wait->range = queue_range(name, wait->room + key_room);
    list_init(&wait->link);
    list_init(&wait->changed);
    wait->own.seen = wait_on_own_changed;
    wait->before.seen = wait_on_before_changed;
    list_append(&api->queue_waits.all, &wait->link);
    api->queue_waits.count++;
    rpc_call_set_data(call, wait);
    return wait;
}

static bool wait_is_allowed(const struct queue_wait *wait)
{
    return etcd_may(wait->api, wait->call, wait->range, ETCD_READ) &&
           etcd_may(wait->api, wait->call, (struct key_range){wait->place.key, STR_EMPTY},
                    ETCD_WRITE);
}

/* `name` and `value` must outlive the call. `lease` 0 requests a lease of LEASE_S. */
static void queue_wait_begin(struct etcd_api *api, struct rpc_call *call,
                             const struct queue_wait_kind *kind, struct str name, struct str value,
                             int64_t lease)
{
    bool full = api->queue_waits.count >= api->service->limits.requests_max;
    enum etcd_error error = etcd_keep_refusal(api, call, full);
    struct queue_wait *wait = NULL;
    enum err err;

    rpc_call_set_data(call, NULL);
    if (!error) wait = wait_new(api, call, kind, name, lease);
    if (!wait) {
        etcd_finish(call, error ? error : ETCD_TOO_MANY_REQUESTS);
        return;
    }
    wait->value = value;
    err = leader_call_init(&wait->leader, api, call);
    if (err)
        wait_refuse(wait, err == ERR_NOMEM ? ETCD_TOO_MANY_REQUESTS : ETCD_TOO_LARGE);
    else if (!wait_is_allowed(wait))
        wait_refuse(wait, ETCD_DENIED);
    else if (wait->place.key.len > STORE_KEY_MAX) /* checked before a lease is granted */
        wait_refuse(wait, ETCD_TOO_LARGE);
    else if (!wait->named)
        wait_grant(wait);
    else
        wait_enter(wait);
}

/* While the replica stops: if the request named the lease, the key stays, because the client can
 * continue at another replica. Otherwise the key is deleted, because it would only block the
 * queue. */
static void wait_send_away(struct queue_wait *wait, enum etcd_error error)
{
    etcd_finish(wait->call, error);
    rpc_call_set_data(wait->call, NULL);
    wait->call = NULL;
    wait->stays = wait->named;
    if (!wait->leader.busy) queue_wait_leave(wait);
}

static void queue_wait_drain(void *, struct rpc_call *call)
{
    struct queue_wait *wait = rpc_call_data(call);

    if (wait) wait_send_away(wait, ETCD_STOPPED);
}

void etcd_queue_waits_end(struct etcd_api *api, enum etcd_error error)
{
    LIST_EACH_SAFE(&api->queue_waits.all, node, next)
    {
        struct queue_wait *wait = CONTAINER_OF(node, struct queue_wait, link);

        if (wait->call) wait_send_away(wait, error);
    }
}

static void queue_wait_gone(void *, struct rpc_call *call)
{
    struct queue_wait *wait = rpc_call_data(call);

    if (!wait) return;
    wait->call = NULL;
    if (!wait->leader.busy) queue_wait_leave(wait);
}

/* -- Lock, Campaign -- */

static void lock_pack(const struct etcd_api *api, struct pack *pack,
                      const struct queue_place *place)
{
    etcd_header(api, pack, place->revision);
    pack_text(pack, 2, place->key);
}

static void on_lock(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str)
{
    static const struct queue_wait_kind kind = {.lost = ETCD_SESSION_EXPIRED, .pack = lock_pack};
    const V3lockpb__LockRequest *m = (const V3lockpb__LockRequest *)message;

    queue_wait_begin(service, call, &kind, bytes_str(m->name), STR_EMPTY, m->lease);
}

static void campaign_pack(const struct etcd_api *api, struct pack *pack,
                          const struct queue_place *place)
{
    size_t size = keyvalue_text(place->name) + keyvalue_text(place->key) +
                  keyvalue_number(place->create) + keyvalue_number((uint64_t)place->lease);

    etcd_header(api, pack, place->entered);
    pack_varint(pack, 2 << 3 | 2);
    pack_varint(pack, size);
    pack_text(pack, 1, place->name);
    pack_text(pack, 2, place->key);
    pack_u64(pack, 3, place->create);
    pack_i64(pack, 4, place->lease);
}

static void on_campaign(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                        struct str)
{
    static const struct queue_wait_kind kind = {
        .sets = true, .lost = ETCD_ELECTION_NOT_LEADER, .pack = campaign_pack};
    const V3electionpb__CampaignRequest *m = (const V3electionpb__CampaignRequest *)message;

    queue_wait_begin(service, call, &kind, bytes_str(m->name), bytes_str(m->value), m->lease);
}

static const struct rpc_handler lock_handler = {
    .on_message = on_lock, .on_drain = queue_wait_drain, .on_done = queue_wait_gone};
static const struct rpc_handler campaign_handler = {
    .on_message = on_campaign, .on_drain = queue_wait_drain, .on_done = queue_wait_gone};

static const struct etcd_raw queue_raws[] = {
    {ETCD_RAW("Lock", v3lockpb, Lock, lock, lock, RPC_UNARY, lock_handler)},
    {ETCD_RAW("Campaign", v3electionpb, Election, campaign, campaign, RPC_UNARY, campaign_handler)},
    {.rpc = {.path = NULL}},
};

/* -- the part -- */

static void waits_on_check(struct task *task)
{
    struct etcd_api *api = CONTAINER_OF(task, struct etcd_api, queue_waits.check);
    struct list *node;

    if (store_machine_restoring(api->service->machine)) return; /* waits_restored() follows */
    for (int i = 0; i < CHECKS_PER_PASS && (node = list_pop(&api->queue_waits.changed)); i++)
        wait_check(CONTAINER_OF(node, struct queue_wait, changed));
    if (!list_empty(&api->queue_waits.changed)) loop_defer(api->options.io->loop, task);
}

/* Checks during the restore were skipped, so all waits are checked. */
static void waits_restored(struct etcd_api *api)
{
    if (!list_empty(&api->queue_waits.changed))
        loop_defer(api->options.io->loop, &api->queue_waits.check);
}

static enum err waits_open(struct etcd_api *api)
{
    list_init(&api->queue_waits.all);
    list_init(&api->queue_waits.changed);
    task_init(&api->queue_waits.check, waits_on_check);
    return ERR_OK;
}

static void waits_close(struct etcd_api *api)
{
    if (!api->queue_waits.check.fn) return;
    assert(api->queue_waits.count == 0);
    task_cancel(&api->queue_waits.check);
}

const struct etcd_part etcd_queue_wait_part = {
    .raws = queue_raws, .open = waits_open, .close = waits_close, .restored = waits_restored};
