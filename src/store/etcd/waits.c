/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/waits.h"

#include <stdlib.h>

#include "store/etcd/errand.h"
#include "store/etcd/turns.h"

enum {
    LEASE_S = 60,        /* of a lease that nobody named, as etcd has it */
    LOOKS_A_TURN = 32,   /* each walks over all who want the same */
    LEAVE_WAIT_MS = 5000 /* then the key is left to its lease */
};

enum wait_step { WAIT_GRANTS, WAIT_ENTERS, WAIT_FOLLOWS, WAIT_WAITS, WAIT_CONFIRMS, WAIT_LEAVES };
struct wait { /* lives until nobody waits and nothing of it is on its way */
    struct leader_call errand;
    struct list link;  /* waits.all */
    struct list dirty; /* waits.dirty: a key that it looks at has changed */
    struct etcd_api *api;
    struct rpc_call *call; /* NULL: gone, or answered */
    const struct wait_kind *kind;
    enum wait_step step;
    struct wait_turn turn; /* its key is in `key` */
    struct turn_entered as;
    struct str value;
    struct buf key, end;       /* end: of the range of those who want the same */
    struct looker own, before; /* at these keys */
    bool stays;                /* the key does, though nobody waits here any more */
    bool named;                /* its caller knows the lease, and can ask another replica with it */
};

/* -- looking -- */

static void look_away(struct wait *wait)
{
    struct interest *interest = watch_engine_interest(wait->api->service->watches);

    interest_leave(interest, &wait->own);
    interest_leave(interest, &wait->before);
    list_remove(&wait->dirty);
}

static bool look_at(struct wait *wait, struct looker *looker, struct str key)
{
    return !interest_join(watch_engine_interest(wait->api->service->watches),
                          (struct key_range){key, STR_EMPTY}, looker);
}

static void mark(struct wait *wait, const struct key_value *change)
{
    struct etcd_waits *waits = &wait->api->waits;

    if ((change && change->version) || !list_empty(&wait->dirty)) return;
    list_append(&waits->dirty, &wait->dirty);
    loop_defer(wait->api->options.io->loop, &waits->look);
}

static void on_own_seen(struct looker *looker, uint64_t, const struct key_value *change)
{
    mark(CONTAINER_OF(looker, struct wait, own), change);
}

static void on_before_seen(struct looker *looker, uint64_t, const struct key_value *change)
{
    mark(CONTAINER_OF(looker, struct wait, before), change);
}

static struct key_range range_of(const struct wait *wait)
{
    struct str prefix = buf_peek(&wait->key);

    prefix.len = wait->turn.name.len + 1;
    return (struct key_range){prefix, buf_peek(&wait->end)};
}

/* -- ends -- */

static void wait_free(struct wait *wait)
{
    look_away(wait);
    list_remove(&wait->link);
    assert(wait->api->waits.count > 0);
    wait->api->waits.count--;
    if (wait->call) rpc_call_set_data(wait->call, NULL);
    errand_deinit(&wait->errand);
    buf_deinit(&wait->key);
    buf_deinit(&wait->end);
    free(wait);
}

static void on_left(struct leader_call *errand, const struct errand_answer *)
{
    wait_free(CONTAINER_OF(errand, struct wait, errand));
}

static void leave(struct wait *wait)
{
    struct turn_txn txn;

    look_away(wait);
    wait->step = WAIT_LEAVES;
    turn_leave(&txn, buf_peek(&wait->key), &wait->as, range_of(wait));
    if (errand_begin(&wait->errand, ERRAND_TXN, &txn.txn.base, LEAVE_WAIT_MS, on_left))
        wait_free(wait);
}

/* Something of it was on its way when its caller went. */
static void gone(struct wait *wait)
{
    if (wait->stays)
        wait_free(wait);
    else
        leave(wait);
}

static void fail(struct wait *wait, enum grpc_status status, struct str text)
{
    rpc_finish(wait->call, etcd_inner_status(status), text, STR_EMPTY);
    wait_free(wait);
}

static void refuse(struct wait *wait, enum etcd_error error)
{
    fail(wait, etcd_errors[error].status, str_from(etcd_errors[error].text));
}

/* What an errand that cannot begin is refused with. */
static enum etcd_error refusal_of(enum err err)
{
    return err == ERR_CLOSED ? ETCD_STOPPED : ETCD_TOO_MANY_REQUESTS;
}

/* -- its turn -- */

/* Its key goes with it: what is left behind would hold up all who come after. */
static void give_up(struct wait *wait, enum etcd_error error)
{
    rpc_finish(wait->call, etcd_inner_status(etcd_errors[error].status),
               str_from(etcd_errors[error].text), STR_EMPTY);
    rpc_call_set_data(wait->call, NULL);
    wait->call = NULL;
    leave(wait);
}

static void reply(struct wait *wait)
{
    struct etcd_api *api = wait->api;
    struct pack pack = pack_begin(&api->answer);

    wait->turn.key = buf_peek(&wait->key);
    wait->kind->pack(api, &pack, &wait->turn);
    if (pack.err) { /* it has its turn, and cannot be told */
        give_up(wait, ETCD_TIMEOUT);
        return;
    }
    rpc_reply_bytes(wait->call, buf_peek(&api->answer));
    store_count(api->service->metrics.lock_grants, 1);
    wait_free(wait);
}

static bool has_key(const struct wait *wait)
{
    struct key_value own;

    return keys_get(api_keys(wait->api), buf_peek(&wait->key), 0, &own) &&
           own.create == wait->turn.create;
}

static void on_confirmed(struct leader_call *errand, const struct errand_answer *answer)
{
    struct wait *wait = CONTAINER_OF(errand, struct wait, errand);

    if (!wait->call) {
        gone(wait);
    } else if (answer->status) {
        fail(wait, answer->status, answer->text);
    } else if (!has_key(wait)) {
        refuse(wait, wait->kind->lost);
    } else {
        wait->turn.revision = answer->revision;
        reply(wait);
    }
}

/* Nobody is before it, as far as this replica has come: is it still there where the leader is? */
static void confirm(struct wait *wait)
{
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct str key = buf_peek(&wait->key);
    enum err err;

    wait->step = WAIT_CONFIRMS;
    range.key = (ProtobufCBinaryData){key.len, (uint8_t *)(uintptr_t)key.at};
    range.count_only = true;
    err = errand_begin(&wait->errand, ERRAND_CATCH_UP, &range.base, 0, on_confirmed);
    if (err) give_up(wait, refusal_of(err));
}

static void look(struct wait *wait)
{
    struct key_value before;

    look_away(wait);
    if (!has_key(wait)) {
        refuse(wait, wait->kind->lost);
    } else if (!turn_before(api_keys(wait->api), range_of(wait), wait->turn.create, &before)) {
        confirm(wait);
    } else if (!look_at(wait, &wait->own, buf_peek(&wait->key)) ||
               !look_at(wait, &wait->before, before.key)) {
        give_up(wait, ETCD_TOO_MANY_REQUESTS);
    }
}

static void on_followed(struct leader_call *errand, const struct errand_answer *answer)
{
    struct wait *wait = CONTAINER_OF(errand, struct wait, errand);

    if (!wait->call) {
        gone(wait);
    } else if (answer->status) {
        fail(wait, answer->status, answer->text);
    } else {
        wait->step = WAIT_WAITS;
        look(wait);
    }
}

/* -- coming in -- */

static void on_entered(struct leader_call *errand, const struct errand_answer *answer)
{
    struct wait *wait = CONTAINER_OF(errand, struct wait, errand);

    if (answer->status || !turn_entered(answer->txn, answer->revision, &wait->as)) {
        if (wait->call && answer->status)
            fail(wait, answer->status, answer->text);
        else if (wait->call)
            refuse(wait, ETCD_UNHEALTHY);
        else
            wait_free(wait);
        return;
    }
    /* Of a lease that nobody else knows the key is ours, also when the answer that said so was lost
     * with a leader and the second try found it there. */
    if (!wait->named) wait->as.made = true;
    wait->turn.create = wait->as.create;
    wait->turn.entered = wait->turn.revision = answer->revision;
    if (!wait->call) {
        gone(wait);
    } else if (wait->as.first) {
        reply(wait);
    } else {
        rpc_call_waits(wait->call);
        wait->step = WAIT_FOLLOWS;
        if (errand_wait_for(&wait->errand, answer->revision, on_followed))
            refuse(wait, ETCD_STOPPED);
    }
}

/* What could be wrong with the transaction itself: the rest of it is ours. */
static bool is_large(const struct turn_txn *message)
{
    return protobuf_c_message_get_packed_size(&message->txn.base) > ETCD_REQUEST_MAX;
}

static void enter(struct wait *wait)
{
    struct etcd_api *api = wait->api;
    struct turn_txn txn;
    enum err err;

    wait->step = WAIT_ENTERS;
    turn_enter(&txn, buf_peek(&wait->key), wait->turn.lease, wait->value, wait->kind->says,
               range_of(wait));
    if (is_large(&txn)) {
        refuse(wait, ETCD_TOO_LARGE);
        return;
    }
    err = errand_begin(&wait->errand, ERRAND_TXN, &txn.txn.base, api->leader.wait_ms, on_entered);
    if (err) refuse(wait, refusal_of(err));
}

static void on_granted(struct leader_call *errand, const struct errand_answer *answer)
{
    struct wait *wait = CONTAINER_OF(errand, struct wait, errand);

    if (!wait->call)
        wait_free(wait);
    else if (answer->status)
        fail(wait, answer->status, answer->text);
    else
        enter(wait);
}

static void grant(struct wait *wait)
{
    Etcdserverpb__LeaseGrantRequest grant = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    struct etcd_api *api = wait->api;
    enum err err;

    wait->step = WAIT_GRANTS;
    grant.id = wait->turn.lease;
    grant.ttl = LEASE_S;
    err = errand_begin(&wait->errand, ERRAND_GRANT, &grant.base, api->leader.wait_ms, on_granted);
    if (err) refuse(wait, refusal_of(err));
}

static enum err name_keys(struct wait *wait)
{
    struct key_range range;
    char *room;
    enum err err = turn_key(wait->turn.name, wait->turn.lease, &wait->key);

    if (!err) err = buf_reserve(&wait->end, wait->turn.name.len + 1, &room);
    if (err) return err;
    range = range_of(wait);
    buf_commit(&wait->end, key_range_of_prefix(range.from, room).end.len);
    return ERR_OK;
}

static enum err wait_new(struct etcd_api *api, struct rpc_call *call, const struct wait_kind *kind,
                         const struct wait_ask *ask, struct wait **ret_wait)
{
    struct wait *wait = calloc(1, sizeof *wait);
    enum err err;

    if (!wait) return ERR_NOMEM;
    wait->api = api;
    wait->call = call;
    wait->kind = kind;
    wait->value = ask->value;
    wait->turn.name = ask->name;
    wait->turn.lease = ask->lease;
    wait->named = ask->lease != 0;
    while (wait->turn.lease == 0) /* ends: one of 2^63 is zero */
        wait->turn.lease = (int64_t)(entropy_u64(api->options.io->entropy) & INT64_MAX);
    buf_init(&wait->key, ETCD_MESSAGE_MAX);
    buf_init(&wait->end, ETCD_MESSAGE_MAX);
    list_init(&wait->link);
    list_init(&wait->dirty);
    wait->own.seen = on_own_seen;
    wait->before.seen = on_before_seen;
    list_append(&api->waits.all, &wait->link);
    api->waits.count++;
    rpc_call_set_data(call, wait);
    err = errand_init(&wait->errand, api, call);
    if (!err) err = name_keys(wait);
    *ret_wait = wait;
    return err;
}

static bool may(const struct wait *wait)
{
    return etcd_may(wait->api, wait->call, range_of(wait), ETCD_READ) &&
           etcd_may(wait->api, wait->call, (struct key_range){buf_peek(&wait->key), STR_EMPTY},
                    ETCD_WRITE);
}

void waits_begin(struct etcd_api *api, struct rpc_call *call, const struct wait_kind *kind,
                 const struct wait_ask *ask)
{
    bool full = api->waits.count >= api->service->limits.requests_max;
    enum etcd_error error = etcd_keep_refusal(api, call, full);
    struct wait *wait = NULL;
    enum err err = ERR_OK;

    rpc_call_set_data(call, NULL);
    if (!error) err = wait_new(api, call, kind, ask, &wait);
    if (!wait)
        etcd_finish(call, error ? error : ETCD_TOO_MANY_REQUESTS);
    else if (err)
        refuse(wait, err == ERR_NOMEM ? ETCD_TOO_MANY_REQUESTS : ETCD_TOO_LARGE);
    else if (!may(wait))
        refuse(wait, ETCD_DENIED);
    else if (wait->key.len > STORE_KEY_MAX) /* before a lease is granted for it */
        refuse(wait, ETCD_TOO_LARGE);
    else if (ask->lease == 0)
        grant(wait);
    else
        enter(wait);
}

/* Its key stays where it is: the place in the queue is good at another replica, for who knows its
 * lease. Anybody else could not come back to it, and would only hold up the queue for a minute. */
static void send_away(struct wait *wait, enum etcd_error error)
{
    etcd_finish(wait->call, error);
    rpc_call_set_data(wait->call, NULL);
    wait->call = NULL;
    wait->stays = wait->named;
    if (wait->step == WAIT_WAITS) gone(wait);
}

void waits_drain(void *, struct rpc_call *call)
{
    struct wait *wait = rpc_call_data(call);

    if (wait) send_away(wait, ETCD_STOPPED);
}

void etcd_waits_end(struct etcd_api *api, enum etcd_error error)
{
    LIST_EACH_SAFE(&api->waits.all, node, next)
    {
        struct wait *wait = CONTAINER_OF(node, struct wait, link);

        if (wait->call) send_away(wait, error);
    }
}

void waits_gone(void *, struct rpc_call *call)
{
    struct wait *wait = rpc_call_data(call);

    if (!wait) return;
    wait->call = NULL;
    if (wait->step == WAIT_WAITS) leave(wait);
}

/* -- what is applied -- */

static void on_look(struct task *task)
{
    struct etcd_api *api = CONTAINER_OF(task, struct etcd_api, waits.look);
    struct list *node;

    if (store_machine_restoring(api->service->machine)) return; /* restored() comes */
    for (int i = 0; i < LOOKS_A_TURN && (node = list_pop(&api->waits.dirty)); i++)
        look(CONTAINER_OF(node, struct wait, dirty));
    if (!list_empty(&api->waits.dirty)) loop_defer(api->options.io->loop, task);
}

/* Turns that came while it was restoring looked at nothing. */
static void restored(struct etcd_api *api)
{
    if (!list_empty(&api->waits.dirty)) loop_defer(api->options.io->loop, &api->waits.look);
}

static void second(struct etcd_api *api)
{
    struct gauge *waiters = api->service->metrics.lock_waiters;

    if (waiters) gauge_set(waiters, (double)api->waits.count);
}

static enum err open_part(struct etcd_api *api)
{
    list_init(&api->waits.all);
    list_init(&api->waits.dirty);
    task_init(&api->waits.look, on_look);
    return ERR_OK;
}

static void close_part(struct etcd_api *api)
{
    if (!api->waits.look.fn) return;
    assert(api->waits.count == 0);
    task_cancel(&api->waits.look);
}

const struct etcd_part etcd_wait_part = {
    .open = open_part, .close = close_part, .restored = restored, .second = second};
