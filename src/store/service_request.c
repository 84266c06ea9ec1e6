/* From a call to its answer: limits, who leads, wait until the leader may be asked, read or write,
 * give up after wait_ms. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/service_internal.h"

enum { TEXT_MAX = 512 };

/* -- ends -- */

void store_request_free(struct request *request)
{
    struct store_service *service = request->service;

    wait_forget(request);
    wait_attempt_over(request);
    list_remove(&request->link);
    timer_deinit(&request->timer);
    if (request->call) rpc_call_set_data(request->call, NULL);
    assert(service->request_count > 0);
    service->request_count--;
    if (list_empty(&service->requests)) timer_stop(&service->overdue);
    free(request);
}

__attribute__((format(printf, 4, 0))) static void finish(struct request *request,
                                                         enum grpc_status status, bool applied_no,
                                                         const char *format, va_list args)
{
    char text[TEXT_MAX];

    vsnprintf(text, sizeof text, format, args);
    if (request->call) {
        if (applied_no) (void)rpc_add_trailer(request->call, STR(RPC_APPLIED_TRAILER), STR("no"));
        rpc_finish(request->call, status, str_from(text), STR_EMPTY);
    }
    store_request_free(request);
}

void store_fail(struct request *request, enum grpc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    finish(request, status, false, format, args);
    va_end(args);
}

void store_refuse(struct request *request, enum grpc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    finish(request, status, true, format, args);
    va_end(args);
}

void store_reply(struct request *request, struct str message)
{
    if (request->call) rpc_reply_bytes(request->call, message);
    store_request_free(request);
}

void store_reply_packed(struct request *request, const struct pack *pack)
{
    if (pack->err)
        store_refuse(request, err_grpc_status(pack->err), "%s: the answer: %s",
                     request->method->name, err_text(pack->err));
    else
        store_reply(request, buf_peek(pack->into));
}

void store_reply_result(struct request *request, const struct store_result *result, struct str text)
{
    struct store_service *service = request->service;
    struct pack pack = {&service->answer, ERR_OK};

    buf_clear(&service->answer);
    pack.err = store_outcome_write(result, text, &service->answer);
    if (result->code >= 0 && result->code < STORE_CODES)
        store_count(service->metrics.outcomes[result->code], 1);
    store_reply_packed(request, &pack);
}

void store_not_leader(struct request *request)
{
    struct store_service *service = request->service;

    if (request->call)
        rpc_fail_not_leader(request->call,
                            service->leader_address ? service->leader_address(service->owner) : "");
    store_request_free(request);
}

/* What the log said instead of doing it. Only ERR_UNKNOWN leaves open whether it was done. */
void store_log_failed(struct request *request, enum err err)
{
    const char *name = request->method->name;

    switch (err) {
    case ERR_NOT_LEADER: store_not_leader(request); return;
    case ERR_UNKNOWN:
        store_fail(request, GRPC_UNKNOWN,
                   "%s: no majority confirmed it: it may or may not have been applied", name);
        return;
    case ERR_FULL:
        store_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: too much is under way; try again",
                     name);
        return;
    case ERR_NO_SPACE:
        store_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: the leader's disk is full", name);
        return;
    default: store_refuse(request, GRPC_UNAVAILABLE, "%s: %s", name, err_text(err)); return;
    }
}

void store_actor(const struct rpc_call *call, char actor[REPLICA_ACTOR_MAX + 1])
{
    const struct tls_identity *identity = rpc_call_identity(call);
    struct str who;

    if (!identity) {
        actor[0] = '\0'; /* plaintext: nobody said who it is */
        return;
    }
    if (tls_identity_uri(identity, STR("bigfleet"), &who)) who = identity->common_name;
    snprintf(actor, REPLICA_ACTOR_MAX + 1, "%.*s", STR_ARG(who));
}

/* -- reading -- */

/* The news of a lost term may still be on its way. */
bool store_leads(const struct store_service *service)
{
    return service->ready && replica_status(service->replica).term == service->term;
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct request *request = CONTAINER_OF(ticket, struct request, ticket);

    if (err)
        store_log_failed(request, err);
    else if (store_machine_restoring(request->service->machine))
        store_refuse(request, GRPC_UNAVAILABLE, "%s: a snapshot is being restored",
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

static void on_write(struct proposal *proposal, enum err err, struct str reply)
{
    struct request *request = CONTAINER_OF(proposal, struct request, proposal);
    struct store_reply answer;

    /* No memory for the answer: it was applied, but how it went is not known. */
    if (!err && store_reply_parse(reply, &answer)) err = ERR_UNKNOWN;
    if (!request->call) {
        if (!err && answer.waiting) {
            wait_forget(request);
            request->lease = answer.lease;
            wait_gone(request);
        }
        store_request_free(request);
        return;
    }
    rpc_call_mark(request->call, "applied");
    if (err) {
        store_log_failed(request, err);
    } else if (answer.waiting) {
        wait_begin(request, &answer.lease);
    } else {
        if (answer.code < STORE_CODES)
            store_count(request->service->metrics.outcomes[answer.code], 1);
        store_reply(request, answer.outcome);
    }
}

void store_write(struct request *request)
{
    struct store_service *service = request->service;
    struct proposal *proposal = &request->proposal;
    struct store_command command = {.prefer_slot = STORE_NO_SLOT};
    char actor[REPLICA_ACTOR_MAX + 1];
    enum err err = request->method->command(request, &command);

    buf_clear(&service->command);
    if (!err) err = store_command_write(&command, &service->command);
    if (err) {
        store_refuse(request, err_grpc_status(err), "%s: the command: %s", request->method->name,
                     err_text(err));
        return;
    }
    store_actor(request->call, actor);
    if (command.kind == STORE_DELETE && command.expected == STORE_FORCE)
        LOG_INFO(&service->log, "a claim is deleted by force", log_str("key", command.key),
                 log_text("actor", actor));
    request->step = REQUEST_WRITES;
    if (command.kind == STORE_ACQUIRE && command.wait) {
        request->lease = command.lease;
        wait_propose(request);
    }
    *proposal = (struct proposal){
        .machine = STORE_MACHINE_ID,
        .version = STORE_MACHINE_VERSION,
        .actor = str_from(actor),
        .request_id = STR_EMPTY,
        .command = buf_peek(&service->command),
        .done = on_write,
    };
    rpc_call_mark(request->call, "proposed");
    replica_propose(service->replica, (struct proposal *const[]){proposal}, 1);
}

/* -- waiting until the leader is ready -- */

static void begin(struct request *request)
{
    if (request->method->read)
        begin_read(request);
    else if (request->method->begin)
        request->method->begin(request);
    else
        store_write(request);
}

void store_requests_resume(struct store_service *service)
{
    LIST_EACH_SAFE(&service->requests, node, next)
    {
        struct request *request = CONTAINER_OF(node, struct request, link);

        if (request->step != REQUEST_PAUSES) continue;
        if (service->ready)
            begin(request);
        else if (!service->led)
            store_not_leader(request);
    }
}

static void start_overdue_timer(struct store_service *service)
{
    if (list_empty(&service->requests)) return;
    timer_start(&service->overdue,
                mono_after(CONTAINER_OF(service->requests.next, struct request, link)->since,
                           service->limits.wait_ms));
}

static void give_up(struct request *request)
{
    struct store_service *service = request->service;

    switch (request->step) {
    case REQUEST_PAUSES:
        store_refuse(request, GRPC_UNAVAILABLE, "%s: the leader is not ready yet",
                     request->method->name);
        break;
    case REQUEST_READS:
        replica_read_cancel(service->replica, &request->ticket);
        store_refuse(request, GRPC_UNAVAILABLE, "%s: no majority answered within %llu ms",
                     request->method->name, (unsigned long long)service->limits.wait_ms);
        break;
    case REQUEST_WRITES: /* ends by its done(), in this turn */
        list_remove(&request->link);
        replica_abandon(service->replica, &request->proposal);
        break;
    case REQUEST_RENEWS:
    case REQUEST_QUEUES:
    case REQUEST_LEAVES: assert(false); /* not among those that can be overdue */
    }
}

void store_request_overdue(struct timer *timer)
{
    struct store_service *service = CONTAINER_OF(timer, struct store_service, overdue);
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

/* A call whose answer is an Outcome says INVALID there; the others have no place for it. */
static void refuse_invalid(struct request *request, int reason, const struct note *note)
{
    struct store_result result = {.code = COORD_INVALID, .reason = reason, .hint_ms = -1};

    if (request->method->output == &muster__v1__outcome__descriptor)
        store_reply_result(request, &result, str_from(note->text));
    else
        store_refuse(request, GRPC_INVALID_ARGUMENT, "%s: %s", request->method->name, note->text);
}

/* Answered already when false. */
static bool admit(struct request *request)
{
    struct store_service *service = request->service;
    const struct store_method *method = request->method;
    struct note note = {""};
    int reason = method->check ? method->check(request->message, &note) : 0;

    if (reason) {
        refuse_invalid(request, reason, &note);
        return false;
    }
    if (service->request_count > service->limits.requests_max) {
        store_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: %u calls are under way; try again",
                     method->name, service->limits.requests_max);
        return false;
    }
    if (method->read && method->serializable && method->serializable(request->message)) {
        if (store_machine_restoring(service->machine))
            store_refuse(request, GRPC_UNAVAILABLE, "%s: a snapshot is being restored",
                         method->name);
        else
            method->read(request);
        return false;
    }
    if (!service->replica || replica_status(service->replica).role != REPLICA_LEADER) {
        store_not_leader(request);
        return false;
    }
    return true;
}

static void on_message(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    struct store_binding *binding = owner;
    struct store_service *service = binding->service;
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
    switch (request->step) {
    case REQUEST_WRITES:
    case REQUEST_RENEWS:
    case REQUEST_LEAVES: return; /* ends by itself */
    case REQUEST_READS: replica_read_cancel(request->service->replica, &request->ticket); break;
    case REQUEST_QUEUES: wait_gone(request); break;
    case REQUEST_PAUSES: break;
    }
    store_request_free(request);
}

/* Who waits is answered by nobody who stops; its place stands in the queue. */
static void on_drain(void *owner, struct rpc_call *call)
{
    struct request *request = rpc_call_data(call);

    (void)owner;
    if (request && request->step == REQUEST_QUEUES)
        store_fail(request, GRPC_UNAVAILABLE,
                   "%s: this replica stops; ask again with the same request",
                   request->method->name);
}

const struct rpc_handler store_handler = {
    .on_message = on_message, .on_drain = on_drain, .on_done = on_done};
