/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/errand.h"

#include <stdlib.h>

#include "rpc/retry.h"
#include "store/etcd/asks.h"

enum {
    AGAIN_MS = 100,
    CALLER_MAX = 16 * 1024,
    ARENA_MAX = 16 << 20,
    TXN_ANSWER_MAX = 64 * 1024, /* two keys without values, and what is around them */
};

/* -- ends -- */

/* The owner may begin it again, or free it. */
static void finish(struct leader_call *errand, const struct errand_answer *answer)
{
    list_remove(&errand->link);
    errand->step = ERRAND_RESTS;
    errand->done(errand, answer);
}

static void refuse(struct leader_call *errand, enum etcd_error error)
{
    finish(errand, &(struct errand_answer){.status = etcd_errors[error].status,
                                           .text = str_from(etcd_errors[error].text)});
}

static void move(struct leader_call *errand, enum errand_step step, struct list *to)
{
    errand->step = step;
    list_remove(&errand->link);
    list_append(to, &errand->link);
}

/* Nobody to ask, or no answer: another time, or never. */
static void put_off(struct leader_call *errand)
{
    struct etcd_errands *errands = &errand->api->errands;

    if (errands->stopped) {
        refuse(errand, ETCD_STOPPED);
    } else if (mono_due(errand->until, loop_now(errand->api->options.io->loop))) {
        refuse(errand, ETCD_TIMEOUT);
    } else {
        move(errand, ERRAND_PAUSES, &errands->pausing);
        if (!timer_running(&errands->again)) timer_start_in(&errands->again, AGAIN_MS);
    }
}

/* What it waits for is applied here, or will be. */
static void wait_here(struct leader_call *errand)
{
    uint64_t revision = keys_revision(api_keys(errand->api));

    if (revision >= errand->revision && !store_machine_restoring(errand->api->service->machine))
        finish(errand, &(struct errand_answer){.status = GRPC_OK, .revision = revision});
    else if (errand->api->errands.stopped)
        refuse(errand, ETCD_STOPPED); /* an answer that came as all were sent away */
    else
        move(errand, ERRAND_BEHIND, &errand->api->errands.behind);
}

/* `response` is fields of a TxnResponse, with its header or without. */
static void finish_txn(struct leader_call *errand, struct str response, uint64_t revision)
{
    struct arena arena;
    ProtobufCMessage *message = NULL;
    const Etcdserverpb__TxnResponse *txn;
    struct note note;

    arena_init(&arena, ARENA_MAX);
    if (message_read(&etcdserverpb__txn_response__descriptor, response, NULL, &arena, &message,
                     &note)) {
        refuse(errand, ETCD_UNHEALTHY); /* it was done, and what came of it is lost */
    } else {
        txn = (const Etcdserverpb__TxnResponse *)message;
        if (txn->header) revision = (uint64_t)txn->header->revision;
        finish(errand,
               &(struct errand_answer){.status = GRPC_OK, .revision = revision, .txn = txn});
    }
    arena_deinit(&arena);
}

/* -- on the leader -- */

static void on_proposed(struct proposal *proposal, enum err err, struct str reply)
{
    struct leader_call *errand = CONTAINER_OF(proposal, struct leader_call, proposal);
    struct store_txn_reply told;
    struct store_reply granted;

    if (err == ERR_FULL)
        refuse(errand, ETCD_TOO_MANY_REQUESTS);
    else if (err == ERR_NO_SPACE)
        refuse(errand, ETCD_NO_SPACE);
    else if (err == ERR_TOO_LARGE)
        refuse(errand, ETCD_TOO_LARGE);
    else if (err)
        put_off(errand);
    else if (errand->kind == ERRAND_GRANT && !store_reply_parse(reply, &granted))
        if (granted.code == COORD_OK || granted.code == COORD_EXISTS)
            finish(errand, &(struct errand_answer){.status = GRPC_OK});
        else
            refuse(errand, ETCD_NO_SPACE);
    else if (errand->kind == ERRAND_TXN && !store_txn_parse(reply, &told))
        if (told.refusal)
            refuse(errand, etcd_error_of(told.refusal));
        else
            finish_txn(errand, told.response, told.revision);
    else
        refuse(errand, ETCD_UNHEALTHY);
}

static void propose(struct leader_call *errand)
{
    struct etcd_api *api = errand->api;
    bool txn = errand->kind == ERRAND_TXN;
    struct store_command grant = ask_grant(&errand->grant, 0);
    enum err err;

    buf_clear(&api->command);
    err = txn ? store_txn_wrap(buf_peek(&errand->request), &api->command)
              : store_command_write(&grant, &api->command);
    if (err) {
        refuse(errand, err == ERR_NOMEM ? ETCD_TOO_MANY_REQUESTS : ETCD_TOO_LARGE);
        return;
    }
    move(errand, ERRAND_PROPOSED, &api->errands.running);
    errand->proposal =
        store_proposal(api->service, txn ? STORE_TXN : STORE_LEASE_GRANT, on_proposed);
    errand->proposal.command = buf_peek(&api->command);
    errand->proposal.actor = str_of(errand->actor, errand->actor_len);
    replica_propose(api->options.replica, (struct proposal *const[]){&errand->proposal}, 1);
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct leader_call *errand = CONTAINER_OF(ticket, struct leader_call, ticket);

    if (err)
        put_off(errand);
    else
        wait_here(errand);
}

/* -- elsewhere -- */

static bool is_final(const struct leader_call *errand, const struct rpc_outcome *outcome)
{
    if (!outcome->answered || retry_status_is_doubtful(outcome->status)) return false;
    /* Who only waits has no reason to end because others ask for much. */
    return errand->kind != ERRAND_CATCH_UP || outcome->status != GRPC_RESOURCE_EXHAUSTED;
}

static void answered(struct leader_call *errand, struct str message)
{
    struct arena arena;
    ProtobufCMessage *range;
    const Etcdserverpb__ResponseHeader *header;
    struct note note;

    etcd_passed(errand->api, message);
    if (errand->kind == ERRAND_TXN) {
        finish_txn(errand, message, 0);
        return;
    }
    if (errand->kind == ERRAND_GRANT) {
        finish(errand, &(struct errand_answer){.status = GRPC_OK});
        return;
    }
    arena_init(&arena, ARENA_MAX);
    if (message_read(&etcdserverpb__range_response__descriptor, message, NULL, &arena, &range,
                     &note)) {
        put_off(errand);
    } else {
        header = ((const Etcdserverpb__RangeResponse *)range)->header;
        errand->revision = header ? (uint64_t)header->revision : 0;
        wait_here(errand);
    }
    arena_deinit(&arena);
}

static void on_answer(void *owner, const struct rpc_client_call *,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct leader_call *errand = owner;

    if (!outcome->err)
        answered(errand, message);
    else if (errand->kind == ERRAND_GRANT && outcome->status == GRPC_FAILED_PRECONDITION)
        finish(errand, &(struct errand_answer){.status = GRPC_OK}); /* it was granted before */
    else if (is_final(errand, outcome))
        finish(errand, &(struct errand_answer){.status = outcome->status, .text = outcome->text});
    else
        put_off(errand);
}

static bool ask_leader(struct leader_call *errand)
{
    static const char *const paths[] = {[ERRAND_TXN] = "/etcdserverpb.KV/Txn",
                                        [ERRAND_GRANT] = "/etcdserverpb.Lease/LeaseGrant",
                                        [ERRAND_CATCH_UP] = "/etcdserverpb.KV/Range"};
    struct etcd_api *api = errand->api;
    struct rpc_channel *channel = etcd_leader_channel(api);
    struct h2_header metadata[] = {{STR(RPC_HOPS_HEADER), STR("1")},
                                   {STR(RPC_CALLER_HEADER), buf_peek(&errand->caller)}};
    struct rpc_call_options options = {.path = paths[errand->kind],
                                       .timeout_ms = api->leader.wait_ms + ETCD_FORWARD_MS,
                                       .metadata = metadata,
                                       .metadata_count = api->options.tls ? 2 : 1,
                                       .response_max = TXN_ANSWER_MAX,
                                       .attempts_max = 1};

    return channel &&
           !rpc_unary(channel, &options, buf_peek(&errand->request), on_answer, errand, NULL);
}

/* -- from one try to the next -- */

static void try_it(struct leader_call *errand)
{
    struct etcd_api *api = errand->api;

    if (leader_here(&api->leader) && api->leader.ready && errand->kind == ERRAND_CATCH_UP) {
        move(errand, ERRAND_READS, &api->errands.running);
        errand->revision = 0;
        errand->ticket.done = on_read;
        replica_read(api->options.replica, &errand->ticket);
    } else if (leader_here(&api->leader) && api->leader.ready) {
        propose(errand);
    } else if (!leader_here(&api->leader) && ask_leader(errand)) {
        move(errand, ERRAND_ASKED, &api->errands.running);
    } else {
        put_off(errand);
    }
}

static void try_all(struct list *which)
{
    struct list batch, *node;

    list_init(&batch);
    list_splice(&batch, which);
    while ((node = list_pop(&batch))) try_it(CONTAINER_OF(node, struct leader_call, link));
}

static void catch_up(struct etcd_api *api)
{
    struct list batch, *node;

    if (list_empty(&api->errands.behind)) return;
    list_init(&batch);
    list_splice(&batch, &api->errands.behind);
    while ((node = list_pop(&batch))) wait_here(CONTAINER_OF(node, struct leader_call, link));
}

static void on_now(struct task *task)
{
    struct etcd_api *api = CONTAINER_OF(task, struct etcd_api, errands.now);

    try_all(&api->errands.fresh);
    catch_up(api);
}

static void on_again(struct timer *timer)
{
    struct etcd_api *api = CONTAINER_OF(timer, struct etcd_api, errands.again);

    try_all(&api->errands.pausing);
}

static void changed(struct etcd_api *api, const struct replica_status *)
{
    if (list_empty(&api->errands.pausing) && list_empty(&api->errands.running)) return;
    if (!leader_here(&api->leader)) (void)etcd_leader_channel(api); /* the old one's calls end */
    try_all(&api->errands.pausing);
}

static void applied(struct etcd_api *api, const struct store_applied *)
{
    catch_up(api);
}

/* What no majority takes is not waited for longer than its time. */
static void second(struct etcd_api *api)
{
    mono_time now = loop_now(api->options.io->loop);

    LIST_EACH_SAFE(&api->errands.running, node, next)
    {
        struct leader_call *errand = CONTAINER_OF(node, struct leader_call, link);

        if (errand->step == ERRAND_PROPOSED && mono_due(errand->until, now))
            replica_abandon(api->options.replica, &errand->proposal);
    }
}

/* -- of an owner -- */

enum err errand_init(struct leader_call *errand, struct etcd_api *api, const struct rpc_call *call)
{
    struct str actor = rpc_access_name(rpc_call_identity(call));

    errand->api = api;
    list_init(&errand->link);
    buf_init(&errand->request, ETCD_MESSAGE_MAX);
    buf_init(&errand->caller, CALLER_MAX);
    errand->actor_len = min_size(actor.len, sizeof errand->actor);
    if (actor.len) memcpy(errand->actor, actor.at, errand->actor_len);
    return rpc_forward_caller_text(rpc_call_identity(call), &errand->caller);
}

void errand_deinit(struct leader_call *errand)
{
    assert(errand->step == ERRAND_RESTS);
    buf_deinit(&errand->request);
    buf_deinit(&errand->caller);
}

enum err errand_begin(struct leader_call *errand, enum errand_kind kind,
                      const ProtobufCMessage *message, uint64_t wait_ms, errand_fn *done)
{
    struct etcd_errands *errands = &errand->api->errands;
    enum err err;

    assert(errand->step == ERRAND_RESTS);
    if (errands->stopped) return ERR_CLOSED;
    buf_clear(&errand->request);
    err = message_write(message, &errand->request, NULL);
    if (err) return err;
    if (kind == ERRAND_GRANT) errand->grant = *(const Etcdserverpb__LeaseGrantRequest *)message;
    errand->kind = kind;
    errand->done = done;
    errand->revision = 0;
    errand->until =
        wait_ms ? mono_after(loop_now(errand->api->options.io->loop), wait_ms) : MONO_NEVER;
    move(errand, ERRAND_PAUSES, &errands->fresh);
    loop_defer(errand->api->options.io->loop, &errands->now);
    return ERR_OK;
}

enum err errand_wait_for(struct leader_call *errand, uint64_t revision, errand_fn *done)
{
    assert(errand->step == ERRAND_RESTS);
    if (errand->api->errands.stopped) return ERR_CLOSED;
    errand->done = done;
    errand->revision = revision;
    move(errand, ERRAND_BEHIND, &errand->api->errands.behind);
    /* It may be there already. */
    loop_defer(errand->api->options.io->loop, &errand->api->errands.now);
    return ERR_OK;
}

/* -- the API's -- */

static enum err open_part(struct etcd_api *api)
{
    struct etcd_errands *errands = &api->errands;

    list_init(&errands->fresh);
    list_init(&errands->pausing);
    list_init(&errands->running);
    list_init(&errands->behind);
    task_init(&errands->now, on_now);
    return timer_init(&errands->again, api->options.io->loop, on_again);
}

void errands_stop(struct etcd_api *api)
{
    struct etcd_errands *errands = &api->errands;
    struct list *const waiting[] = {&errands->fresh, &errands->pausing, &errands->behind};
    struct list *node;

    errands->stopped = true;
    if (!errands->now.fn) return; /* it was never opened */
    task_cancel(&errands->now);
    timer_stop(&errands->again);
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
        while ((node = list_pop(waiting[i])))
            refuse(CONTAINER_OF(node, struct leader_call, link), ETCD_STOPPED);
}

static void close_part(struct etcd_api *api)
{
    if (!api->errands.now.fn) return;
    assert(list_empty(&api->errands.running));
    timer_deinit(&api->errands.again);
}

const struct etcd_part etcd_errand_part = {.open = open_part,
                                           .close = close_part,
                                           .applied = applied,
                                           .restored = catch_up,
                                           .changed = changed,
                                           .second = second};
