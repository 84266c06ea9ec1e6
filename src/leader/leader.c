/* SPDX-License-Identifier: Apache-2.0 */
/* Passes requests between the RPC server, the log and the service. leader.requests is sorted by
 * age. Loop's thread only. */
#include "leader/leader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 1024 };

/* -- leadership -- */

bool leader_here(const struct leader *leader)
{
    return leader->replica && replica_status(leader->replica).role == REPLICA_LEADER;
}

/* The service may not know yet that the replica lost the term, so this reads the replica's
 * status. */
bool leader_leads(const struct leader *leader)
{
    return leader->ready && replica_status(leader->replica).term == leader->term;
}

void leader_redirect(const struct leader *leader, struct rpc_call *call)
{
    rpc_fail_not_leader(
        call, leader->options.address ? leader->options.address(leader->options.owner) : "");
}

/* -- ends of requests -- */

void request_free(struct leader_request *request)
{
    struct leader *leader = request->leader;

    if (leader->options.rules->freed) leader->options.rules->freed(request);
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

void request_end(struct leader_request *request, enum grpc_status status, bool applied_no,
                 const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;

    if (applied_no && request->acted) { /* RESOURCE_EXHAUSTED already implies "not applied" */
        applied_no = false;
        status = GRPC_UNAVAILABLE;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (request->call && applied_no)
        (void)rpc_add_trailer(request->call, STR(RPC_APPLIED_TRAILER), STR("no"));
    request_answer(request, status, str_from(text), STR_EMPTY);
}

static void request_refuse_with(struct leader_request *request, enum leader_refusal why,
                                uint64_t number)
{
    static const struct {
        /* text before and after `number`; behind is NULL if the text has no number */
        const char *text, *behind;
    } own[LEADER_REFUSALS] = {
        [LEADER_TOO_MANY] = {"", " calls are under way; try again"},
        [LEADER_NOT_READY] = {"the leader is not ready yet", NULL},
        [LEADER_NO_MAJORITY] = {"no majority answered within ", " ms"},
        [LEADER_UNKNOWN] = {"no majority confirmed it: it may or may not have been applied", NULL},
        [LEADER_LOG_FULL] = {"too much is under way; try again", NULL},
        [LEADER_DISK_FULL] = {"the leader's disk is full", NULL},
        [LEADER_OLD_LEVEL] = {"the cluster is at level ", " until every replica is upgraded"},
    };
    const struct leader_rules *rules = request->leader->options.rules;
    enum grpc_status status = why == LEADER_TOO_MANY  ? GRPC_RESOURCE_EXHAUSTED
                              : why == LEADER_UNKNOWN ? rules->doubt
                              : why == LEADER_LOG_FULL || why == LEADER_DISK_FULL
                                  ? rules->full
                                  : GRPC_UNAVAILABLE;
    const char *text = why == LEADER_FAILED ? err_text((enum err)number) : own[why].text;
    bool nothing_done = why != LEADER_UNKNOWN;

    if (rules->words)
        request_end(request, rules->words[why].status, nothing_done, "%s", rules->words[why].text);
    else if (own[why].behind)
        request_end(request, status, nothing_done, "%s: %s%llu%s", request->method->name, text,
                    (unsigned long long)number, own[why].behind);
    else
        request_end(request, status, nothing_done, "%s: %s", request->method->name, text);
}

void request_refuse_as(struct leader_request *request, enum leader_refusal why)
{
    request_refuse_with(request, why, 0);
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
    if (request->leader->options.rules->words) {
        request_refuse_as(request, LEADER_NOT_LEADER);
        return;
    }
    assert(!request->caller);
    if (request->call) leader_redirect(request->leader, request->call);
    request_free(request);
}

void request_log_failed(struct leader_request *request, enum err err)
{
    switch (err) {
    case ERR_NOT_LEADER: request_redirect(request); return;
    case ERR_UNKNOWN: request_refuse_as(request, LEADER_UNKNOWN); return;
    case ERR_FULL: request_refuse_as(request, LEADER_LOG_FULL); return;
    case ERR_NO_SPACE: request_refuse_as(request, LEADER_DISK_FULL); return;
    case ERR_VERSION:
        request_refuse_with(request, LEADER_OLD_LEVEL,
                            replica_status(request->leader->replica).level);
        return;
    default: request_refuse_with(request, LEADER_FAILED, err); return;
    }
}

/* -- reading, writing, keeping -- */

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct leader_request *request = CONTAINER_OF(ticket, struct leader_request, ticket);

    if (err) {
        request_log_failed(request, err);
        return;
    }
    if (request->call) rpc_call_mark(request->call, "leads");
    request->leader->options.rules->read(request);
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
    request->leader->options.rules->written(request, err, reply);
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

/* -- changes of the replica's status -- */

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
            leader->options.rules->begin(request);
        else if (!leader->led)
            request_redirect(request);
    }
}

/* -- age limit -- */

static void start_overdue_timer(struct leader *leader)
{
    if (list_empty(&leader->requests)) return;
    timer_start(&leader->overdue,
                mono_after(CONTAINER_OF(leader->requests.next, struct leader_request, link)->since,
                           leader->options.wait_ms));
}

static void request_give_up(struct leader_request *request)
{
    struct leader *leader = request->leader;

    switch (request->step) {
    case REQUEST_WAITS: request_refuse_as(request, LEADER_NOT_READY); break;
    case REQUEST_READS:
        replica_read_cancel(leader->replica, &request->ticket);
        request_refuse_with(request, LEADER_NO_MAJORITY, leader->options.wait_ms);
        break;
    case REQUEST_WRITES: /* replica_abandon calls done() in this turn */
        list_remove(&request->link);
        replica_abandon(leader->replica, &request->proposal);
        break;
    case REQUEST_KEPT: assert(false); /* request_keep removed kept requests from leader.requests */
    }
}

static void on_overdue(struct timer *timer)
{
    struct leader *leader = CONTAINER_OF(timer, struct leader, overdue);
    mono_time now = loop_now(leader->options.loop);

    LIST_EACH_SAFE(&leader->requests, node, next)
    {
        struct leader_request *request = CONTAINER_OF(node, struct leader_request, link);

        if (!mono_due(mono_after(request->since, leader->options.wait_ms), now)) break;
        request_give_up(request);
    }
    start_overdue_timer(leader);
}

/* -- new requests -- */

static struct leader_request *request_new(struct leader *leader, const struct leader_method *method,
                                          const ProtobufCMessage *message)
{
    struct leader_request *request = calloc(1, leader->options.rules->request_size);

    if (!request) return NULL;
    request->leader = leader;
    request->method = method;
    request->message = message;
    request->since = loop_now(leader->options.loop);
    list_init(&request->link);
    list_append(&leader->requests, &request->link);
    leader->request_count++;
    if (!timer_running(&leader->overdue)) start_overdue_timer(leader);
    return request;
}

static void request_admit(struct leader_request *request)
{
    struct leader *leader = request->leader;

    if (leader->request_count <= leader->options.requests_max) {
        if (leader->options.rules->admit(request) && leader->ready)
            leader->options.rules->begin(request);
    } else {
        request_refuse_with(request, LEADER_TOO_MANY, leader->options.requests_max);
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

static void on_done(void *, struct rpc_call *call)
{
    struct leader_request *request = rpc_call_data(call);

    if (!request) return; /* already answered */
    request->call = NULL;
    request->message = NULL;
    if (request->step == REQUEST_WRITES) return;
    if (request->step == REQUEST_KEPT && request->leader->options.rules->gone) {
        request->leader->options.rules->gone(request);
        return;
    }
    if (request->step == REQUEST_READS)
        replica_read_cancel(request->leader->replica, &request->ticket);
    request_free(request);
}

static void on_drain(void *, struct rpc_call *call)
{
    struct leader_request *request = rpc_call_data(call);

    if (request && request->step == REQUEST_KEPT && request->leader->options.rules->drain)
        request->leader->options.rules->drain(request);
}

static void on_writable(void *, struct rpc_call *call)
{
    struct leader_request *request = rpc_call_data(call);

    if (request && request->step == REQUEST_KEPT && request->leader->options.rules->writable)
        request->leader->options.rules->writable(request);
}

static const struct rpc_handler leader_handler = {
    .on_message = on_message, .on_writable = on_writable, .on_drain = on_drain, .on_done = on_done};

/* -- open and close -- */

enum err leader_open(struct leader *leader, const struct leader_options *options)
{
    *leader = (struct leader){.options = *options};
    list_init(&leader->requests);
    return timer_init(&leader->overdue, options->loop, on_overdue);
}

void leader_close(struct leader *leader)
{
    assert(leader->request_count == 0);
    timer_deinit(&leader->overdue);
}

static struct leader_binding *leader_bind(struct leader *leader, const struct leader_method *method)
{
    struct leader_binding *binding;

    for (size_t i = 0; i < leader->binding_count; i++)
        if (leader->bindings[i].method == method) return &leader->bindings[i];
    binding = &leader->bindings[leader->binding_count++];
    assert(leader->binding_count <= LEADER_METHODS_MAX);
    *binding = (struct leader_binding){leader, method};
    return binding;
}

enum err leader_add_gated(struct leader *leader, struct rpc_server *server,
                          const struct rpc_method *method, const struct rpc_forward_gate *gate,
                          struct note *note)
{
    struct rpc_forward_gate *own = &leader->gates[leader->gate_count++];
    struct rpc_method gated = *method;

    assert(leader->gate_count <= LEADER_GATES_MAX);
    *own = *gate;
    own->forwarder = leader->forwarder;
    own->handler = method->handler;
    own->service = method->service;
    own->response_max = method->response_max;
    gated.handler = &rpc_forward_handler;
    gated.service = own;
    return rpc_server_add(server, &gated, note);
}

enum err leader_add(struct leader *leader, struct rpc_server *server,
                    const struct leader_method *method, struct note *note)
{
    const struct leader_options *o = &leader->options;
    const struct rpc_method added = {
        .path = method->path,
        .kind = method->kind,
        .input = method->input,
        .output = method->output,
        .request_max = method->request_max ? method->request_max : o->request_max,
        .response_max = method->response_max ? method->response_max : o->response_max,
        .arena_max = o->arena_max,
        .handler = &leader_handler,
        .service = leader_bind(leader, method)};

    return o->gate.stays ? leader_add_gated(leader, server, &added, &o->gate, note)
                         : rpc_server_add(server, &added, note);
}
