/* SPDX-License-Identifier: Apache-2.0 */
/* Requests between the server, the log and the service. A request is on the list of its leader, by
 * age, or on a list of the service once it is kept. Everything runs on the loop's thread. */
#include "leader/leader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpc/forward.h"

enum { TEXT_MAX = 1024 };

/* -- who leads -- */

bool leader_here(const struct leader *leader)
{
    return leader->replica && replica_status(leader->replica).role == REPLICA_LEADER;
}

/* The replica may have lost the term already, before the service hears of it. */
bool leader_leads(const struct leader *leader)
{
    return leader->ready && replica_status(leader->replica).term == leader->term;
}

void leader_redirect(const struct leader *leader, struct rpc_call *call)
{
    rpc_fail_not_leader(call, leader->address ? leader->address(leader->owner) : "");
}

/* -- ends -- */

void request_free(struct leader_request *request)
{
    struct leader *leader = request->leader;

    if (leader->rules->freed) leader->rules->freed(request);
    list_remove(&request->link);
    if (request->call) rpc_call_set_data(request->call, NULL);
    assert(request->streams || leader->request_count > 0);
    leader->request_count -= !request->streams;
    if (list_empty(&leader->requests)) timer_stop(&leader->overdue);
    free(request);
}

static void request_answer(struct leader_request *request, enum grpc_status status, struct str text,
                           struct str message)
{
    struct leader_caller *caller = request->caller;

    if (request->call && status)
        rpc_finish(request->call, status, text, STR_EMPTY);
    else if (request->call)
        rpc_reply_bytes(request->call, message);
    request_free(request);
    if (caller) caller->answered(caller, status, text, message);
}

__attribute__((format(printf, 4, 0))) static void request_finish(struct leader_request *request,
                                                                 enum grpc_status status,
                                                                 bool applied_no,
                                                                 const char *format, va_list args)
{
    char text[TEXT_MAX];

    if (applied_no && request->acted) { /* RESOURCE_EXHAUSTED alone says "not applied" already */
        applied_no = false;
        status = GRPC_UNAVAILABLE;
    }
    vsnprintf(text, sizeof text, format, args);
    if (request->call && applied_no)
        (void)rpc_add_trailer(request->call, STR(RPC_APPLIED_TRAILER), STR("no"));
    request_answer(request, status, str_from(text), STR_EMPTY);
}

void request_fail(struct leader_request *request, enum grpc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    request_finish(request, status, false, format, args);
    va_end(args);
}

void request_refuse(struct leader_request *request, enum grpc_status status, const char *format,
                    ...)
{
    va_list args;

    va_start(args, format);
    request_finish(request, status, true, format, args);
    va_end(args);
}

void request_refuse_as(struct leader_request *request, enum leader_refusal why)
{
    const struct leader_text *word = &request->leader->rules->words[why];

    if (why == LEADER_UNKNOWN)
        request_fail(request, word->status, "%s", word->text);
    else
        request_refuse(request, word->status, "%s", word->text);
}

/* With the service's own text, if it has one. */
static bool refused_in_words(struct leader_request *request, enum leader_refusal why)
{
    if (!request->leader->rules->words) return false;
    request_refuse_as(request, why);
    return true;
}

void request_reply(struct leader_request *request, struct str message)
{
    request_answer(request, GRPC_OK, STR_EMPTY, message);
}

void request_reply_packed(struct leader_request *request, const struct pack *pack)
{
    if (pack->err)
        request_refuse(request, err_grpc_status(pack->err), "%s: the answer: %s",
                       request->method->name, err_text(pack->err));
    else
        request_reply(request, buf_peek(pack->into));
}

void request_redirect(struct leader_request *request)
{
    if (refused_in_words(request, LEADER_NOT_LEADER)) return;
    assert(!request->caller);
    if (request->call) leader_redirect(request->leader, request->call);
    request_free(request);
}

void request_log_failed(struct leader_request *request, enum err err)
{
    const struct leader_rules *rules = request->leader->rules;
    const char *name = request->method->name;

    switch (err) {
    case ERR_NOT_LEADER: request_redirect(request); return;
    case ERR_UNKNOWN:
        if (refused_in_words(request, LEADER_UNKNOWN)) return;
        request_fail(request, rules->doubt,
                     "%s: no majority confirmed it: it may or may not have been applied", name);
        return;
    case ERR_FULL:
        if (refused_in_words(request, LEADER_LOG_FULL)) return;
        request_refuse(request, rules->full, "%s: too much is under way; try again", name);
        return;
    case ERR_VERSION:
        if (refused_in_words(request, LEADER_OLD_LEVEL)) return;
        request_refuse(request, GRPC_UNAVAILABLE,
                       "%s: the cluster is at level %u until every replica is upgraded", name,
                       replica_status(request->leader->replica).level);
        return;
    case ERR_NO_SPACE:
        if (refused_in_words(request, LEADER_DISK_FULL)) return;
        request_refuse(request, rules->full, "%s: the leader's disk is full", name);
        return;
    default:
        if (refused_in_words(request, LEADER_FAILED)) return;
        request_refuse(request, GRPC_UNAVAILABLE, "%s: %s", name, err_text(err));
        return;
    }
}

/* -- reading, writing, being kept -- */

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct leader_request *request = CONTAINER_OF(ticket, struct leader_request, ticket);

    if (err) {
        request_log_failed(request, err);
        return;
    }
    if (request->call) rpc_call_mark(request->call, "leads");
    request->leader->rules->read(request);
}

void request_read(struct leader_request *request)
{
    request->step = REQUEST_READS;
    request->ticket.done = on_read;
    replica_read(request->leader->replica, &request->ticket);
}

static void on_written(struct proposal *proposal, enum err err, struct str reply)
{
    struct leader_request *request = CONTAINER_OF(proposal, struct leader_request, proposal);

    if (request->call) rpc_call_mark(request->call, "applied");
    request->leader->rules->written(request, err, reply);
}

void request_propose(struct leader_request *request, const struct proposal *proposal)
{
    request->step = REQUEST_WRITES;
    request->proposal = *proposal;
    request->proposal.done = on_written;
    if (request->call) rpc_call_mark(request->call, "proposed");
    replica_propose(request->leader->replica, (struct proposal *const[]){&request->proposal}, 1);
}

void request_keep(struct leader_request *request, struct list *list)
{
    struct leader *leader = request->leader;

    request->step = REQUEST_KEPT;
    request->streams = request->method->kind == RPC_SERVER_STREAM;
    leader->request_count -= request->streams;
    list_remove(&request->link);
    list_append(list, &request->link);
    if (list_empty(&leader->requests)) timer_stop(&leader->overdue);
}

/* -- the replica's changes -- */

bool leader_term_ended(struct leader *leader, const struct replica_status *status)
{
    if (!leader->led || (status->role == REPLICA_LEADER && status->term == leader->term))
        return false;
    leader->led = leader->ready = false;
    return true;
}

bool leader_term_began(struct leader *leader, const struct replica_status *status)
{
    bool led = leader->led;

    leader->term = status->term;
    leader->led = status->role == REPLICA_LEADER;
    return leader->led && !led;
}

bool leader_ready(struct leader *leader, const struct replica_status *status)
{
    bool ready = leader->ready;

    leader->ready = leader->led && status->ready;
    return leader->ready && !ready;
}

void leader_resume(struct leader *leader)
{
    LIST_EACH_SAFE(&leader->requests, node, next)
    {
        struct leader_request *request = CONTAINER_OF(node, struct leader_request, link);

        if (request->step != REQUEST_WAITS) continue;
        if (leader->ready)
            leader->rules->begin(request);
        else if (!leader->led)
            request_redirect(request);
    }
}

void leader_follow(struct leader *leader, const struct replica_status *status)
{
    (void)leader_term_ended(leader, status);
    (void)leader_term_began(leader, status);
    (void)leader_ready(leader, status);
    leader_resume(leader);
}

/* -- too late -- */

static void start_overdue_timer(struct leader *leader)
{
    if (list_empty(&leader->requests)) return;
    timer_start(&leader->overdue,
                mono_after(CONTAINER_OF(leader->requests.next, struct leader_request, link)->since,
                           leader->wait_ms));
}

static void request_give_up(struct leader_request *request)
{
    struct leader *leader = request->leader;

    switch (request->step) {
    case REQUEST_WAITS:
        if (refused_in_words(request, LEADER_NOT_READY)) break;
        request_refuse(request, GRPC_UNAVAILABLE, "%s: the leader is not ready yet",
                       request->method->name);
        break;
    case REQUEST_READS:
        replica_read_cancel(leader->replica, &request->ticket);
        if (refused_in_words(request, LEADER_NO_MAJORITY)) break;
        request_refuse(request, GRPC_UNAVAILABLE, "%s: no majority answered within %llu ms",
                       request->method->name, (unsigned long long)leader->wait_ms);
        break;
    case REQUEST_WRITES: /* ends by its done(), in this turn */
        list_remove(&request->link);
        replica_abandon(leader->replica, &request->proposal);
        break;
    case REQUEST_KEPT: assert(false); /* not among those that can be overdue */
    }
}

static void on_overdue(struct timer *timer)
{
    struct leader *leader = CONTAINER_OF(timer, struct leader, overdue);
    mono_time now = loop_now(leader->loop);

    LIST_EACH_SAFE(&leader->requests, node, next)
    {
        struct leader_request *request = CONTAINER_OF(node, struct leader_request, link);

        if (!mono_due(mono_after(request->since, leader->wait_ms), now)) break;
        request_give_up(request);
    }
    start_overdue_timer(leader);
}

/* -- new requests -- */

/* NULL: no memory. */
static struct leader_request *request_new(struct leader *leader, const struct leader_method *method,
                                          const ProtobufCMessage *message)
{
    struct leader_request *request = calloc(1, leader->rules->request_size);

    if (!request) return NULL;
    request->leader = leader;
    request->method = method;
    request->message = message;
    request->since = loop_now(leader->loop);
    list_init(&request->link);
    list_append(&leader->requests, &request->link);
    leader->request_count++;
    if (!timer_running(&leader->overdue)) start_overdue_timer(leader);
    return request;
}

static void request_admit(struct leader_request *request)
{
    struct leader *leader = request->leader;

    if (leader->request_count <= leader->requests_max) {
        if (leader->rules->admit(request) && leader->ready) leader->rules->begin(request);
    } else if (!refused_in_words(request, LEADER_TOO_MANY)) {
        request_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: %u calls are under way; try again",
                       request->method->name, leader->requests_max);
    }
}

enum err leader_ask(struct leader *leader, const struct leader_method *method,
                    const ProtobufCMessage *message, struct leader_caller *caller)
{
    struct leader_request *request = request_new(leader, method, message);

    if (!request) return ERR_NOMEM;
    request->caller = caller;
    request_admit(request);
    return ERR_OK;
}

static void on_message(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str)
{
    const struct leader_binding *binding = owner;
    struct leader_request *request = request_new(binding->leader, binding->method, message);

    if (!request) {
        (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    request->call = call;
    rpc_call_set_data(call, request);
    request_admit(request);
}

static void on_done(void *owner, struct rpc_call *call)
{
    const struct leader_binding *binding = owner;
    const struct leader_rules *rules = binding->leader->rules;
    struct leader_request *request = rpc_call_data(call);

    if (!request) return; /* answered */
    request->call = NULL;
    request->message = NULL;
    if (request->step == REQUEST_WRITES) return;
    if (request->step == REQUEST_KEPT && rules->gone) {
        rules->gone(request);
        return;
    }
    if (request->step == REQUEST_READS)
        replica_read_cancel(request->leader->replica, &request->ticket);
    request_free(request);
}

static void on_drain(void *owner, struct rpc_call *call)
{
    const struct leader_binding *binding = owner;
    const struct leader_rules *rules = binding->leader->rules;
    struct leader_request *request = rpc_call_data(call);

    if (request && request->step == REQUEST_KEPT && rules->drain) rules->drain(request);
}

static void on_writable(void *owner, struct rpc_call *call)
{
    const struct leader_binding *binding = owner;
    const struct leader_rules *rules = binding->leader->rules;
    struct leader_request *request = rpc_call_data(call);

    if (request && request->step == REQUEST_KEPT && rules->writable) rules->writable(request);
}

const struct rpc_handler leader_handler = {
    .on_message = on_message, .on_writable = on_writable, .on_drain = on_drain, .on_done = on_done};

/* -- life -- */

enum err leader_open(struct leader *leader, const struct leader_options *options)
{
    *leader = (struct leader){.rules = options->rules,
                              .loop = options->loop,
                              .address = options->address,
                              .owner = options->owner,
                              .wait_ms = options->wait_ms,
                              .requests_max = options->requests_max};
    list_init(&leader->requests);
    return timer_init(&leader->overdue, options->loop, on_overdue);
}

void leader_close(struct leader *leader)
{
    assert(leader->request_count == 0);
    timer_deinit(&leader->overdue);
}

struct leader_binding *leader_bind(struct leader *leader, const struct leader_method *method)
{
    struct leader_binding *binding;

    for (size_t i = 0; i < leader->binding_count; i++)
        if (leader->bindings[i].method == method) return &leader->bindings[i];
    binding = &leader->bindings[leader->binding_count++];
    assert(leader->binding_count <= LEADER_METHODS_MAX);
    *binding = (struct leader_binding){leader, method};
    return binding;
}

enum err leader_add(struct leader *leader, struct rpc_server *server,
                    const struct leader_method *method, struct note *note)
{
    return rpc_server_add(server,
                          &(struct rpc_method){.path = method->path,
                                               .kind = method->kind,
                                               .input = method->input,
                                               .output = method->output,
                                               .request_max = method->request_max,
                                               .response_max = method->response_max,
                                               .handler = &leader_handler,
                                               .service = leader_bind(leader, method)},
                          note);
}
