/* SPDX-License-Identifier: Apache-2.0 */
/* Handles an Acquire that waits, from the entry that queues it to the entry that grants a slot.
 *
 * While the call is open, the service renews the request's lease. The event of a later entry grants
 * the slot and answers the call. A call that ends early proposes CANCEL_WAIT, which also frees a
 * slot granted meanwhile.
 *
 * A retry with the same request id takes over the place of the first attempt when the retry is
 * proposed. The first attempt then proposes no CANCEL_WAIT, which could free a slot granted to the
 * retry. */
#include "store/service_internal.h"

static void wait_refuse_repeated(struct store_request *wait)
{
    request_refuse(&wait->base, GRPC_ABORTED, "%s: asked again by another call",
                   wait->base.method->name);
}

static void wait_refuse_lost(struct store_request *wait)
{
    request_refuse(&wait->base, GRPC_UNAVAILABLE, "%s: its place in the queue was lost; ask again",
                   wait->base.method->name);
}

void wait_forget(struct store_request *wait)
{
    if (!wait->in_waits) return;
    (void)map_remove(&service_of(&wait->base)->waits, store_id_text(&wait->lease));
    wait->in_waits = false;
}

static struct str attempt_text(const struct store_request *wait)
{
    return str_of(wait->wait_id, sizeof wait->wait_id);
}

static bool wait_is_overtaken(const struct store_request *wait)
{
    const struct store_request *newest =
        map_get(&service_of(&wait->base)->attempts, attempt_text(wait));

    return newest && newest != wait;
}

void wait_attempt_over(struct store_request *wait)
{
    if (map_get(&service_of(&wait->base)->attempts, attempt_text(wait)) == wait)
        (void)map_remove(&service_of(&wait->base)->attempts, attempt_text(wait));
}

/* Without memory, the end of an earlier attempt may remove this attempt from the queue. The client
 * then gets an error. */
static void attempt_register(struct store_request *wait)
{
    if (store_id_none(&wait->wait_client)) return;
    memcpy(wait->wait_id, wait->wait_client.b, sizeof wait->wait_client.b);
    memcpy(wait->wait_id + sizeof wait->wait_client.b, &wait->wait_sequence,
           sizeof wait->wait_sequence);
    (void)map_remove(&service_of(&wait->base)->attempts, attempt_text(wait));
    (void)map_put(&service_of(&wait->base)->attempts, attempt_text(wait), wait);
}

static void wait_register(struct store_request *wait)
{
    struct store_service *service = service_of(&wait->base);
    struct store_request *other = map_get(&service->waits, store_id_text(&wait->lease));

    if (other) {
        wait_forget(other);
        if (other->kept == KEPT_QUEUES) wait_refuse_repeated(other);
    }
    wait->in_waits = map_put(&service->waits, store_id_text(&wait->lease), wait) == ERR_OK;
}

void wait_propose(struct store_request *wait, const struct store_command *command)
{
    wait->lease = command->lease;
    wait->ttl_ms = command->ttl_ms;
    wait->wait_client = command->client;
    wait->wait_sequence = command->sequence;
    wait->wait_group = command->key;
    attempt_register(wait);
    wait_register(wait);
}

static struct store_command wait_cancel(const struct store_request *wait)
{
    return (struct store_command){.kind = STORE_CANCEL_WAIT,
                                  .lease = wait->lease,
                                  .client = wait->wait_client,
                                  .sequence = wait->wait_sequence};
}

void wait_gone(struct store_request *wait)
{
    const struct store_request *other =
        map_get(&service_of(&wait->base)->waits, store_id_text(&wait->lease));
    struct store_command command = wait_cancel(wait);

    /* a retry of the request has taken over the place in the queue */
    if ((other && other != wait) || wait_is_overtaken(wait)) return;
    /* If the proposal fails, the lease expires because no renewals follow. */
    if (leader_leads(wait->base.leader)) (void)own_propose(service_of(&wait->base), &command);
}

static void slot_wait_on_left(struct proposal *proposal, enum err err, struct str reply)
{
    struct store_request *wait = CONTAINER_OF(proposal, struct store_request, base.proposal);
    struct store_result result = {.code = COORD_EXISTS, .reason = COORD_R_FULL, .hint_ms = -1};
    struct store_group group;
    struct store_reply answer;

    if (!err && store_reply_parse(reply, &answer)) err = ERR_UNKNOWN;
    if (!wait->base.call) {
        request_free(&wait->base);
        return;
    }
    if (err) {
        request_log_failed(&wait->base, err);
        return;
    }
    if (store_group_of(service_store(service_of(&wait->base)), wait->wait_group, &group)) {
        result.live = group.live;
        result.slot_count = group.slot_count;
    }
    store_reply_result(&wait->base, &result, STR("the time to wait is over"));
}

static void slot_wait_leave(struct store_request *wait)
{
    struct store_service *service = service_of(&wait->base);
    struct store_command command = wait_cancel(wait);

    command.prefer_slot = STORE_NO_SLOT;
    timer_stop(&wait->timer);
    wait_forget(wait);
    if (wait_is_overtaken(wait)) {
        wait_refuse_repeated(wait);
        return;
    }
    wait->kept = KEPT_LEAVES;
    buf_clear(&service->command);
    if (store_command_write(&command, &service->command)) {
        request_fail(&wait->base, GRPC_UNKNOWN, "%s: out of memory", wait->base.method->name);
        return;
    }
    wait->base.proposal = store_proposal(service, STORE_CANCEL_WAIT, slot_wait_on_left);
    replica_propose(service->leader.replica, (struct proposal *const[]){&wait->base.proposal}, 1);
}

static void wait_start_timer(struct store_request *wait)
{
    timer_start(&wait->timer, mono_min(wait->renew_at, wait->wait_until));
}

static void wait_on_timer(struct timer *timer)
{
    struct store_request *wait = CONTAINER_OF(timer, struct store_request, timer);
    mono_time now = loop_now(service_of(&wait->base)->io->loop);

    if (mono_due(wait->wait_until, now)) {
        slot_wait_leave(wait);
        return;
    }
    (void)renew_add(service_of(&wait->base), &wait->lease, 1, NULL);
    wait->renew_at = mono_after(now, (uint64_t)wait->ttl_ms / 3);
    wait_start_timer(wait);
}

void wait_begin(struct store_request *wait, const struct store_id *lease)
{
    struct store_service *service = service_of(&wait->base);
    const Muster__V1__AcquireRequest *m = (const Muster__V1__AcquireRequest *)wait->base.message;
    mono_time now = loop_now(service->io->loop);

    if (!store_id_equal(lease, &wait->lease)) { /* the first attempt used another lease id */
        wait_forget(wait);
        wait->lease = *lease;
        wait_register(wait);
    }
    if (!wait->in_waits && map_get(&service->waits, store_id_text(lease))) {
        wait_refuse_repeated(wait);
        return;
    }
    if (wait->lost_early) {
        wait_refuse_lost(wait);
        return;
    }
    if (!wait->in_waits || timer_init(&wait->timer, service->io->loop, wait_on_timer)) {
        wait_gone(wait);
        request_refuse(&wait->base, GRPC_RESOURCE_EXHAUSTED, "%s: out of memory",
                       wait->base.method->name);
        return;
    }
    wait->kept = KEPT_QUEUES;
    rpc_call_set_waiting(wait->base.call);
    wait->wait_until = mono_after(wait->base.since, (uint64_t)m->wait_ms);
    wait->renew_at = mono_after(now, (uint64_t)wait->ttl_ms / 3);
    request_keep(&wait->base, &service->kept);
    if (wait->has_early) {
        struct store_result early = wait->early;
        store_reply_result(&wait->base, &early, STR_EMPTY);
        return;
    }
    wait_start_timer(wait);
}

/* True for an event of an entry before this request's own entry. An earlier attempt caused that
 * event, and its CANCEL_WAIT may still undo it. */
static bool is_of_earlier_attempt(const struct store_service *service,
                                  const struct store_request *wait)
{
    const struct proposal *own = &wait->base.proposal;

    return own->term == 0 || store_machine_index(service->machine) <= own->index;
}

void wait_event(struct store_service *service, const struct store_event *event)
{
    struct store_request *wait;

    if (event->kind == STORE_LEASE_ENDED) {
        service->numbers.expired += event->reason == COORD_R_DEADLINE;
        return;
    }
    wait = map_get(&service->waits, store_id_text(&event->lease));
    if (!wait) return;
    if (wait->base.step == REQUEST_WRITES) { /* the reply to this request has not arrived */
        if (is_of_earlier_attempt(service, wait)) return;
        wait->has_early = event->kind == STORE_GRANTED;
        wait->lost_early = !wait->has_early;
        wait->early = event->result;
    } else if (event->kind == STORE_GRANTED) {
        store_reply_result(&wait->base, &event->result, STR_EMPTY);
    } else {
        wait_refuse_lost(wait);
    }
}

void waits_end(struct store_service *service)
{
    LIST_EACH_SAFE(&service->kept, node, next)
    {
        struct store_request *wait = CONTAINER_OF(node, struct store_request, base.link);

        /* The request stays in the queue, and a retry with the same id takes over its place. */
        if (wait->kept == KEPT_QUEUES)
            request_fail(&wait->base, GRPC_UNAVAILABLE,
                         "%s: leadership was lost while it waited; ask again with the same request",
                         wait->base.method->name);
    }
}
