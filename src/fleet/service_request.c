/* From a call to its answer: who leads, wait until the leader may be asked, read or write, give up
 * after wait_ms. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fleet/format/command.h"
#include "fleet/service_internal.h"

enum { TEXT_MAX = 1024 };

/* -- ends -- */

static void request_free(struct request *request)
{
    struct fleet_service *service = request->service;

    list_remove(&request->link);
    if (request->call) rpc_call_set_data(request->call, NULL);
    assert(service->request_count > 0);
    service->request_count--;
    if (list_empty(&service->requests)) timer_stop(&service->overdue);
    free(request);
}

static void finish(struct request *request, enum grpc_status status, bool applied_no,
                   const char *format, va_list args)
{
    char text[TEXT_MAX];

    if (applied_no && request->acted) { /* RESOURCE_EXHAUSTED alone says "not applied" already */
        applied_no = false;
        status = GRPC_UNAVAILABLE;
    }
    vsnprintf(text, sizeof text, format, args);
    if (request->call) {
        if (applied_no) (void)rpc_add_trailer(request->call, STR(RPC_APPLIED_TRAILER), STR("no"));
        rpc_finish(request->call, status, str_from(text), STR_EMPTY);
    }
    request_free(request);
}

void service_fail(struct request *request, enum grpc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    finish(request, status, false, format, args);
    va_end(args);
}

void service_refuse(struct request *request, enum grpc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    finish(request, status, true, format, args);
    va_end(args);
}

void service_reply(struct request *request, struct str message)
{
    if (request->call) rpc_reply_bytes(request->call, message);
    request_free(request);
}

void service_replied(struct request *request)
{
    request_free(request);
}

void service_reply_packed(struct request *request, const struct pack *pack)
{
    if (pack->err)
        service_refuse(request, err_grpc_status(pack->err), "%s: the answer: %s",
                       request->method->name, err_text(pack->err));
    else
        service_reply(request, buf_peek(pack->into));
}

static void not_leader(struct request *request)
{
    struct fleet_service *service = request->service;

    if (request->call)
        rpc_fail_not_leader(request->call,
                            service->leader_address ? service->leader_address(service->owner) : "");
    request_free(request);
}

/* What the log said instead of doing it. Only ERR_UNKNOWN leaves open whether it was done. */
static void log_failed(struct request *request, enum err err)
{
    const char *name = request->method->name;

    switch (err) {
    case ERR_NOT_LEADER: not_leader(request); return;
    case ERR_UNKNOWN:
        service_fail(request, GRPC_UNAVAILABLE,
                     "%s: no majority confirmed it: it may or may not have been applied", name);
        return;
    case ERR_FULL:
        service_refuse(request, GRPC_UNAVAILABLE, "%s: too much is under way; try again", name);
        return;
    case ERR_NO_SPACE:
        service_refuse(request, GRPC_UNAVAILABLE, "%s: the leader's disk is full", name);
        return;
    default: service_refuse(request, GRPC_UNAVAILABLE, "%s: %s", name, err_text(err)); return;
    }
}

/* -- reading -- */

/* The news of a lost term may still be on its way. */
bool service_leads(const struct fleet_service *service)
{
    return service->ready && replica_status(service->replica).term == service->term;
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct request *request = CONTAINER_OF(ticket, struct request, ticket);

    if (err) {
        log_failed(request, err);
        return;
    }
    rpc_call_mark(request->call, "leads");
    if (!service_leads(request->service))
        service_refuse(request, GRPC_UNAVAILABLE, "%s: leadership is changing",
                       request->method->name);
    else
        request->method->read(request);
}

static void begin_read(struct request *request)
{
    request->step = REQUEST_READS;
    request->ticket.done = on_read;
    replica_read(request->service->replica, &request->ticket);
}

/* -- writing -- */

void service_answer_write(struct request *request, const struct fleet_result *result)
{
    struct fleet_command command;
    struct buf text;
    enum err err;

    if (result->status == FLEET_DONE) {
        service_reply(request, STR_EMPTY); /* every write's answer is an empty message */
        return;
    }
    buf_init(&text, TEXT_MAX);
    err = request->method->command(request, &command);
    if (!err) err = fleet_result_text(&command, result, &text);
    if (err) { /* too long to be quoted: the short text does */
        buf_clear(&text);
        (void)buf_append_c(&text, fleet_status_text(result->status));
    }
    service_fail(request, err_grpc_status(fleet_status_err(result->status)), "%s: %.*s",
                 request->method->name, (int)text.len, text.data ? text.data : "");
    buf_deinit(&text);
}

static void count_apply(struct fleet_service *service, enum err err, bool refused)
{
    enum apply_outcome outcome = err ? APPLY_ERROR : refused ? APPLY_FSM_ERROR : APPLY_SUCCESS;

    service_count(service->metrics.apply[outcome]);
}

static void on_write(struct proposal *proposal, enum err err, struct str reply)
{
    struct request *request = CONTAINER_OF(proposal, struct request, proposal);
    struct fleet_result result = {.status = FLEET_UNREADABLE};

    /* No memory for the answer: it was applied, but how it went is not known. */
    if (!err && fleet_reply_parse(reply, &result)) err = ERR_UNKNOWN;
    count_apply(request->service, err, result.status != FLEET_DONE);
    request->acted = !err && result.status == FLEET_DONE;
    if (!request->call) {
        request_free(request);
        return;
    }
    rpc_call_mark(request->call, "applied");
    if (err)
        log_failed(request, err);
    else if (request->method->done)
        request->method->done(request, &result);
    else
        service_answer_write(request, &result);
}

void service_write(struct request *request)
{
    struct fleet_service *service = request->service;
    struct proposal *proposal = &request->proposal;
    struct fleet_command command;
    struct str request_id = STR_EMPTY;
    char actor[FLEET_ACTOR_CAP];
    enum err err = request->method->command(request, &command);

    buf_clear(&service->command);
    if (!err) err = fleet_command_encode(&command, &service->command);
    if (err) {
        count_apply(service, err, false);
        service_refuse(request, err_grpc_status(err), "%s: the command: %s", request->method->name,
                       err_text(err));
        return;
    }
    (void)rpc_call_metadata(request->call, STR(RPC_REQUEST_ID), &request_id);
    fleet_actor(request->call, actor);
    request->step = REQUEST_WRITES;
    *proposal = (struct proposal){
        .machine = FLEET_MACHINE_ID,
        .version = FLEET_MACHINE_VERSION,
        .flags = command.kind == FLEET_REMOVE_SHARD || command.kind == FLEET_UNASSIGN_DOMAIN
                     ? PROPOSE_FREES
                     : 0,
        .actor = str_from(actor),
        .request_id = request_id,
        .command = buf_peek(&service->command),
        .done = on_write,
    };
    rpc_call_mark(request->call, "proposed");
    replica_propose(service->replica, (struct proposal *const[]){proposal}, 1);
}

/* -- waiting -- */

static void begin(struct request *request)
{
    if (request->method->read)
        begin_read(request);
    else
        service_write(request);
}

void service_requests_resume(struct fleet_service *service)
{
    LIST_EACH_SAFE(&service->requests, node, next)
    {
        struct request *request = CONTAINER_OF(node, struct request, link);

        if (request->step != REQUEST_WAITS) continue;
        if (service->ready)
            begin(request);
        else if (!service->led)
            not_leader(request);
    }
}

static void start_overdue_timer(struct fleet_service *service)
{
    if (list_empty(&service->requests)) return;
    timer_start(&service->overdue,
                mono_after(CONTAINER_OF(service->requests.next, struct request, link)->since,
                           service->limits.wait_ms));
}

static void give_up(struct request *request)
{
    struct replica *replica = request->service->replica;

    switch (request->step) {
    case REQUEST_WAITS:
        service_refuse(request, GRPC_UNAVAILABLE, "%s: the leader is not ready yet",
                       request->method->name);
        break;
    case REQUEST_READS:
        replica_read_cancel(replica, &request->ticket);
        service_refuse(request, GRPC_UNAVAILABLE, "%s: no majority answered within %llu ms",
                       request->method->name, (unsigned long long)request->service->limits.wait_ms);
        break;
    case REQUEST_WRITES: /* ends by its done(), in this turn */
        list_remove(&request->link);
        replica_abandon(replica, &request->proposal);
        break;
    case REQUEST_LISTS: assert(false); /* not among those that can be overdue */
    }
}

void service_request_overdue(struct timer *timer)
{
    struct fleet_service *service = CONTAINER_OF(timer, struct fleet_service, overdue);
    mono_time now = loop_now(service->io->loop);

    LIST_EACH_SAFE(&service->requests, node, next)
    {
        struct request *request = CONTAINER_OF(node, struct request, link);

        if (!mono_due(mono_after(request->since, service->limits.wait_ms), now)) break;
        give_up(request);
    }
    start_overdue_timer(service);
}

/* -- the server's side -- */

static bool admit(struct request *request)
{
    struct fleet_service *service = request->service;
    struct str id;

    if (!service->replica || replica_status(service->replica).role != REPLICA_LEADER) {
        not_leader(request);
        return false;
    }
    if (service->request_count > service->limits.requests_max) {
        service_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: %u calls are under way; try again",
                       request->method->name, service->limits.requests_max);
        return false;
    }
    if (rpc_call_metadata(request->call, STR(RPC_REQUEST_ID), &id) &&
        id.len > REPLICA_REQUEST_ID_MAX) {
        service_refuse(request, GRPC_INVALID_ARGUMENT, "%s: %s is longer than %d bytes",
                       request->method->name, RPC_REQUEST_ID, REPLICA_REQUEST_ID_MAX);
        return false;
    }
    return !request->method->admit || request->method->admit(request);
}

static void on_message(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    struct service_binding *binding = owner;
    struct fleet_service *service = binding->service;
    struct request *request = calloc(1, sizeof *request);

    (void)bytes;
    if (!request) {
        (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    request->service = service;
    request->method = binding->method;
    request->call = call;
    request->message = message;
    request->since = loop_now(service->io->loop);
    list_init(&request->link);
    list_append(&service->requests, &request->link);
    service->request_count++;
    rpc_call_set_data(call, request);
    if (!timer_running(&service->overdue)) start_overdue_timer(service);
    if (!admit(request)) return;
    if (service->ready) begin(request);
}

static void on_done(void *owner, struct rpc_call *call)
{
    struct request *request = rpc_call_data(call);

    (void)owner;
    if (!request) return; /* answered */
    request->call = NULL;
    request->message = NULL;
    if (request->step == REQUEST_WRITES) return;
    if (request->step == REQUEST_READS)
        replica_read_cancel(request->service->replica, &request->ticket);
    request_free(request);
}

const struct rpc_handler service_handler = {.on_message = on_message, .on_done = on_done};
