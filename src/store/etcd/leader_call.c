/* SPDX-License-Identifier: Apache-2.0 */
/* Makes leader calls: on this replica while it leads, otherwise by RPC to the leader. Loop's
 * thread.
 *
 * Invariant: a busy call is on the list of its step; any other call is on no list. */
#include "store/etcd/leader_call.h"

#include <stdlib.h>

#include "rpc/retry.h"

enum {
    AGAIN_MS = 100,
    CLIENT_MAX = 16 * 1024,
    LEADER_CALL_ARENA_MAX = 16 << 20,
    RESPONSE_MAX = 64 * 1024, /* two keys without values, and the fields around them */
};

/* -- ends -- */

/* `done` may begin the call again, or free it. */
static void call_finish(struct leader_call *call, const struct leader_answer *answer)
{
    list_remove(&call->link);
    call->busy = false;
    call->done(call, answer);
}

static void call_refuse(struct leader_call *call, enum etcd_error error)
{
    call_finish(call, &(struct leader_answer){.status = etcd_errors[error].status,
                                              .text = str_from(etcd_errors[error].text)});
}

static void call_move(struct leader_call *call, struct list *to)
{
    call->busy = true;
    list_remove(&call->link);
    list_append(to, &call->link);
}

/* Retries after a pause, unless the deadline has passed. */
static void call_try_later(struct leader_call *call)
{
    struct etcd_leader_calls *calls = &call->api->leader_calls;

    if (calls->stopped) {
        call_refuse(call, ETCD_STOPPED);
    } else if (mono_due(call->until, loop_now(call->api->options.io->loop))) {
        call_refuse(call, ETCD_TIMEOUT);
    } else {
        call_move(call, &calls->pausing);
        if (!timer_running(&calls->again)) timer_start_in(&calls->again, AGAIN_MS);
    }
}

static void call_wait_applied(struct leader_call *call)
{
    uint64_t revision = keys_revision(api_keys(call->api));

    if (revision >= call->revision && !store_machine_restoring(call->api->service->machine))
        call_finish(call, &(struct leader_answer){.status = GRPC_OK, .revision = revision});
    else if (call->api->leader_calls.stopped)
        call_refuse(call, ETCD_STOPPED); /* the API began to stop before this response */
    else
        call_move(call, &call->api->leader_calls.behind);
}

static void call_answered(struct leader_call *call, enum grpc_status status, struct str text,
                          struct str response)
{
    uint64_t revision = status ? 0 : etcd_answer_revision(response);
    /* When the leader is overloaded, catching up is retried, and other calls fail. */
    bool crowded = call->catches_up && status == GRPC_RESOURCE_EXHAUSTED;

    if (status && (crowded || retry_status_is_doubtful(status))) {
        call_try_later(call);
    } else if (status || !call->catches_up) {
        call_finish(call, &(struct leader_answer){status, text, revision, response});
    } else {
        call->revision = revision;
        call_wait_applied(call);
    }
}

/* -- attempts -- */

static void call_on_answered_here(struct leader_caller *caller, enum grpc_status status,
                                  struct str text, struct str response)
{
    struct leader_call *call = CONTAINER_OF(caller, struct leader_call, caller);

    arena_deinit(&call->arena);
    call_answered(call, status, text, response);
}

static void call_here(struct leader_call *call)
{
    const struct leader_method *method = etcd_method_at(call->path);
    ProtobufCMessage *request;
    struct note note;
    enum err err;

    call_move(call, &call->api->leader_calls.running);
    arena_init(&call->arena, LEADER_CALL_ARENA_MAX);
    err =
        message_read(method->input, buf_peek(&call->request), NULL, &call->arena, &request, &note);
    if (!err) err = leader_ask(&call->api->leader, method, request, &call->caller);
    if (!err) return;
    arena_deinit(&call->arena);
    call_refuse(call, ETCD_TOO_MANY_REQUESTS);
}

static void call_on_answer(void *owner, const struct rpc_client_call *,
                           const struct rpc_outcome *outcome, struct str response)
{
    struct leader_call *call = owner;

    if (!outcome->err) etcd_passed(call->api, response);
    if (!outcome->err || outcome->answered)
        call_answered(call, outcome->status, outcome->text, response);
    else
        call_try_later(call);
}

/* false: no connection to the leader can be made */
static bool call_elsewhere(struct leader_call *call)
{
    struct etcd_api *api = call->api;
    struct rpc_channel *channel = etcd_leader_channel(api);
    struct h2_header metadata[] = {{STR(RPC_HOPS_HEADER), STR("1")},
                                   {STR(RPC_CALLER_HEADER), buf_peek(&call->client)}};
    struct rpc_call_options options = {.path = call->path,
                                       .timeout_ms = api->leader.options.wait_ms + ETCD_FORWARD_MS,
                                       .metadata = metadata,
                                       .metadata_count = api->options.tls ? 2 : 1,
                                       .response_max = RESPONSE_MAX,
                                       .attempts_max = 1};

    if (!channel ||
        rpc_unary(channel, &options, buf_peek(&call->request), call_on_answer, call, NULL))
        return false;
    call_move(call, &api->leader_calls.running);
    return true;
}

static void call_try(struct leader_call *call)
{
    const struct leader *leader = &call->api->leader;

    if (leader_here(leader) && leader->ready)
        call_here(call);
    else if (leader_here(leader) || !call_elsewhere(call))
        call_try_later(call);
}

static void calls_each(struct list *list, void (*each)(struct leader_call *call))
{
    struct list batch, *node;

    list_init(&batch);
    list_splice(&batch, list);
    while ((node = list_pop(&batch))) each(CONTAINER_OF(node, struct leader_call, link));
}

static void calls_on_now(struct task *task)
{
    struct etcd_leader_calls *calls = CONTAINER_OF(task, struct etcd_leader_calls, now);

    calls_each(&calls->fresh, call_try);
    calls_each(&calls->behind, call_wait_applied);
}

static void calls_on_again(struct timer *timer)
{
    calls_each(&CONTAINER_OF(timer, struct etcd_leader_calls, again)->pausing, call_try);
}

static void calls_changed(struct etcd_api *api, const struct replica_status *)
{
    struct etcd_leader_calls *calls = &api->leader_calls;

    if (list_empty(&calls->pausing) && list_empty(&calls->running)) return;
    /* ends the calls at the former leader */
    if (!leader_here(&api->leader)) (void)etcd_leader_channel(api);
    calls_each(&calls->pausing, call_try);
}

static void calls_applied(struct etcd_api *api)
{
    calls_each(&api->leader_calls.behind, call_wait_applied);
}

/* -- calls of an owner -- */

enum err leader_call_init(struct leader_call *call, struct etcd_api *api,
                          const struct rpc_call *from)
{
    struct str actor = rpc_access_name(rpc_call_identity(from));

    call->api = api;
    list_init(&call->link);
    buf_init(&call->request, ETCD_MESSAGE_MAX);
    buf_init(&call->client, CLIENT_MAX);
    actor.len = min_size(actor.len, sizeof call->actor);
    if (actor.len) memcpy(call->actor, actor.at, actor.len);
    call->caller = (struct leader_caller){.arena = &call->arena,
                                          .actor = str_of(call->actor, actor.len),
                                          .answered = call_on_answered_here};
    return rpc_forward_caller_text(rpc_call_identity(from), &call->client);
}

void leader_call_deinit(struct leader_call *call)
{
    assert(!call->busy);
    buf_deinit(&call->request);
    buf_deinit(&call->client);
}

enum err leader_call_begin(struct leader_call *call, const char *path,
                           const ProtobufCMessage *request, uint64_t wait_ms, leader_call_fn *done)
{
    struct etcd_leader_calls *calls = &call->api->leader_calls;
    struct loop *loop = call->api->options.io->loop;
    enum err err;

    assert(!call->busy);
    if (calls->stopped) return ERR_CLOSED;
    buf_clear(&call->request);
    err = message_write(request, &call->request, NULL);
    if (err) return err;
    call->path = path;
    call->catches_up = false;
    call->done = done;
    call->until = wait_ms ? mono_after(loop_now(loop), wait_ms) : MONO_NEVER;
    call_move(call, &calls->fresh);
    loop_defer(loop, &calls->now);
    return ERR_OK;
}

enum err leader_call_catch_up(struct leader_call *call, struct str key, uint64_t wait_ms,
                              leader_call_fn *done)
{
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    enum err err;

    range.key = (ProtobufCBinaryData){key.len, (uint8_t *)(uintptr_t)key.at};
    range.count_only = true;
    err = leader_call_begin(call, "/etcdserverpb.KV/Range", &range.base, wait_ms, done);
    call->catches_up = true;
    return err;
}

enum err leader_call_wait(struct leader_call *call, uint64_t revision, leader_call_fn *done)
{
    struct etcd_leader_calls *calls = &call->api->leader_calls;

    assert(!call->busy);
    if (calls->stopped) return ERR_CLOSED;
    call->done = done;
    call->revision = revision;
    call_move(call, &calls->behind);
    loop_defer(call->api->options.io->loop, &calls->now); /* the revision may be applied already */
    return ERR_OK;
}

/* -- the part -- */

static enum err calls_open(struct etcd_api *api)
{
    struct etcd_leader_calls *calls = &api->leader_calls;

    list_init(&calls->fresh);
    list_init(&calls->pausing);
    list_init(&calls->running);
    list_init(&calls->behind);
    task_init(&calls->now, calls_on_now);
    return timer_init(&calls->again, api->options.io->loop, calls_on_again);
}

static void call_stop(struct leader_call *call)
{
    call_refuse(call, ETCD_STOPPED);
}

void leader_calls_stop(struct etcd_api *api)
{
    struct etcd_leader_calls *calls = &api->leader_calls;

    calls->stopped = true;
    if (!calls->now.fn) return; /* never opened */
    task_cancel(&calls->now);
    timer_stop(&calls->again);
    calls_each(&calls->fresh, call_stop);
    calls_each(&calls->pausing, call_stop);
    calls_each(&calls->behind, call_stop);
}

static void calls_close(struct etcd_api *api)
{
    if (!api->leader_calls.now.fn) return;
    assert(list_empty(&api->leader_calls.running));
    timer_deinit(&api->leader_calls.again);
}

const struct etcd_part etcd_leader_call_part = {.open = calls_open,
                                                .close = calls_close,
                                                .applied = calls_applied,
                                                .restored = calls_applied,
                                                .changed = calls_changed};
