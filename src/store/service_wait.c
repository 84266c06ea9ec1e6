/* Acquire that waits: from the entry that put it in the queue to the entry that gives it a slot.
 *
 * While the call is open its lease is renewed here, so that its place does not run out; the slot is
 * then held for the whole TTL from the moment it is given. The answer comes as an event of another
 * entry. A call that ends (cancelled, connection lost, time up) leaves the queue by an entry of its
 * own, which frees a slot that was given meanwhile: nobody was told of it.
 *
 * A repeat under the same request id finds the place of the first, and takes over from it: then the
 * first's end takes nothing away. That holds from the moment the repeat is proposed, and also when
 * it drew another lease id: the first's CANCEL would stand behind it in the log, and free a slot
 * that the repeat was told of meanwhile. */
#include "store/service_internal.h"

static struct str lease_text(const struct store_id *id)
{
    return str_of(id->b, sizeof id->b);
}

void wait_forget(struct request *request)
{
    if (!request->in_waits) return;
    (void)map_remove(&request->service->waits, lease_text(&request->lease));
    request->in_waits = false;
}

static struct str attempt_text(const struct request *request)
{
    return str_of(request->wait_id, sizeof request->wait_id);
}

/* Another attempt of the same request came after it. */
static bool is_overtaken(const struct request *request)
{
    const struct request *newest = map_get(&request->service->attempts, attempt_text(request));

    return newest && newest != request;
}

void wait_attempt_over(struct request *request)
{
    if (map_get(&request->service->attempts, attempt_text(request)) == request)
        (void)map_remove(&request->service->attempts, attempt_text(request));
}

/* Without memory for it the place is not taken over: the first's end may cost the repeat its place,
 * as it would be told. */
static void attempt_register(struct request *request)
{
    static const struct store_id nobody;

    if (memcmp(&request->wait_client, &nobody, sizeof nobody) == 0) return;
    memcpy(request->wait_id, request->wait_client.b, sizeof request->wait_client.b);
    memcpy(request->wait_id + sizeof request->wait_client.b, &request->wait_sequence,
           sizeof request->wait_sequence);
    (void)map_remove(&request->service->attempts, attempt_text(request));
    (void)map_put(&request->service->attempts, attempt_text(request), request);
}

void wait_propose(struct request *request)
{
    attempt_register(request);
    wait_register(request);
}

void wait_register(struct request *request)
{
    struct store_service *service = request->service;
    struct request *other = map_get(&service->waits, lease_text(&request->lease));

    if (other) { /* it is this one's business from now on */
        wait_forget(other);
        if (other->step == REQUEST_QUEUES)
            store_refuse(other, GRPC_ABORTED, "%s: asked again by another call",
                         other->method->name);
    }
    request->in_waits = map_put(&service->waits, lease_text(&request->lease), request) == ERR_OK;
}

static void cancel(struct request *request)
{
    struct store_command command = {.kind = STORE_CANCEL_WAIT,
                                    .lease = request->lease,
                                    .client = request->wait_client,
                                    .sequence = request->wait_sequence};

    /* Not taken: its lease is renewed by nobody any more and ends by itself. */
    (void)own_propose(request->service, &command);
}

void wait_gone(struct request *request)
{
    const struct request *other = map_get(&request->service->waits, lease_text(&request->lease));

    if ((other && other != request) || is_overtaken(request)) return; /* a repeat of it waits */
    if (store_leads(request->service)) cancel(request);
}

static void on_left(struct proposal *proposal, enum err err, struct str reply)
{
    struct request *request = CONTAINER_OF(proposal, struct request, proposal);
    struct store_result result = {.code = COORD_EXISTS, .reason = COORD_R_FULL, .hint_ms = -1};
    struct store_group group;
    struct store_reply answer;

    if (!err && store_reply_parse(reply, &answer)) err = ERR_UNKNOWN;
    if (!request->call) {
        store_request_free(request);
        return;
    }
    if (err) {
        store_log_failed(request, err);
        return;
    }
    if (store_group_of(service_store(request->service), request->wait_group, &group)) {
        result.live = group.live;
        result.slot_count = group.slot_count;
    }
    store_reply_result(request, &result, STR("the time to wait is over"));
}

static void leave(struct request *request)
{
    struct store_service *service = request->service;
    struct store_command command = {.kind = STORE_CANCEL_WAIT,
                                    .lease = request->lease,
                                    .client = request->wait_client,
                                    .sequence = request->wait_sequence,
                                    .prefer_slot = STORE_NO_SLOT};

    timer_stop(&request->timer);
    wait_forget(request);
    if (is_overtaken(request)) {
        store_refuse(request, GRPC_ABORTED, "%s: asked again by another call",
                     request->method->name);
        return;
    }
    request->step = REQUEST_LEAVES;
    buf_clear(&service->command);
    if (store_command_write(&command, &service->command)) {
        store_fail(request, GRPC_UNKNOWN, "%s: out of memory", request->method->name);
        return;
    }
    request->proposal = (struct proposal){.machine = STORE_MACHINE_ID,
                                          .version = STORE_MACHINE_VERSION,
                                          .actor = STR_EMPTY,
                                          .request_id = STR_EMPTY,
                                          .command = buf_peek(&service->command),
                                          .done = on_left};
    replica_propose(service->replica, (struct proposal *const[]){&request->proposal}, 1);
}

static void start_timer(struct request *request)
{
    timer_start(&request->timer, mono_min(request->renew_at, request->wait_until));
}

static void on_timer(struct timer *timer)
{
    struct request *request = CONTAINER_OF(timer, struct request, timer);
    mono_time now = loop_now(request->service->io->loop);

    if (mono_due(request->wait_until, now)) {
        leave(request);
        return;
    }
    renew_add(request->service, &request->lease);
    request->renew_at = mono_after(now, (uint64_t)request->ttl_ms / 3);
    start_timer(request);
}

void wait_begin(struct request *request, const struct store_id *lease)
{
    struct store_service *service = request->service;
    const Muster__V1__AcquireRequest *m = (const Muster__V1__AcquireRequest *)request->message;
    mono_time now = loop_now(service->io->loop);

    if (memcmp(lease, &request->lease, sizeof *lease) != 0) { /* the first of its id drew another */
        wait_forget(request);
        request->lease = *lease;
        wait_register(request);
    }
    if (!request->in_waits && map_get(&service->waits, lease_text(lease))) {
        store_refuse(request, GRPC_ABORTED, "%s: asked again by another call",
                     request->method->name);
        return;
    }
    if (request->lost_early) {
        store_refuse(request, GRPC_UNAVAILABLE, "%s: its place in the queue was lost; ask again",
                     request->method->name);
        return;
    }
    if (!request->in_waits || timer_init(&request->timer, service->io->loop, on_timer)) {
        wait_gone(request);
        store_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: out of memory", request->method->name);
        return;
    }
    request->step = REQUEST_QUEUES;
    rpc_call_waits(request->call);
    request->wait_until = mono_after(request->since, (uint64_t)m->wait_ms);
    request->renew_at = mono_after(now, (uint64_t)request->ttl_ms / 3);
    list_remove(&request->link);
    list_append(&service->waiting, &request->link);
    if (list_empty(&service->requests)) timer_stop(&service->overdue);
    if (request->has_early) {
        struct store_result early = request->early;
        store_reply_result(request, &early, STR_EMPTY);
        return;
    }
    start_timer(request);
}

void wait_event(struct store_service *service, const struct store_event *event)
{
    struct request *request;

    if (event->kind == STORE_LEASE_ENDED) {
        if (event->reason == COORD_R_DEADLINE) store_count(service->metrics.expired, 1);
        return;
    }
    request = map_get(&service->waits, lease_text(&event->lease));
    if (!request) return;
    if (request->step == REQUEST_WRITES) { /* its own reply is still on its way */
        request->has_early = event->kind == STORE_GRANTED;
        request->lost_early = !request->has_early;
        request->early = event->result;
    } else if (event->kind == STORE_GRANTED) {
        store_reply_result(request, &event->result, STR_EMPTY);
    } else {
        store_refuse(request, GRPC_UNAVAILABLE, "%s: its place in the queue was lost; ask again",
                     request->method->name);
    }
}

void waits_end(struct store_service *service)
{
    LIST_EACH_SAFE(&service->waiting, node, next)
    {
        struct request *request = CONTAINER_OF(node, struct request, link);

        /* Its place stands in the queue, and its id finds it. */
        if (request->step == REQUEST_QUEUES)
            store_fail(request, GRPC_UNAVAILABLE,
                       "%s: leadership was lost while it waited; ask again with the same request",
                       request->method->name);
    }
}
