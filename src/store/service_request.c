/* SPDX-License-Identifier: Apache-2.0 */
/* Handles a call on the leader: checks the limits, then reads the store's state, or proposes a
 * command and answers with the command's result. */
#include "store/service_internal.h"

static const struct store_method *store_method_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->method, struct store_method, base);
}

void store_reply_result(struct leader_request *request, const struct store_result *result,
                        struct str text)
{
    struct store_service *service = service_of(request);
    struct pack pack = pack_begin(&service->answer);

    pack.err = store_outcome_write(result, text, &service->answer);
    if (result->code >= 0 && result->code < STORE_CODES) service->numbers.outcomes[result->code]++;
    request_reply_packed(request, &pack);
}

/* -- refusals -- */

/* An Outcome carries the code INVALID; other responses have no field for a code. */
static void refuse_invalid(struct leader_request *request, int reason, enum grpc_status status,
                           const struct note *note)
{
    struct store_result result = {.code = COORD_INVALID, .reason = reason, .hint_ms = -1};

    if (request->method->output == &muster__v1__outcome__descriptor)
        store_reply_result(request, &result, str_from(note->text));
    else
        request_refuse(request, status, "%s: %s", request->method->name, note->text);
}

/* Rule R5. True: the request names another store, and was refused. */
static bool refuse_other_store(struct leader_request *request)
{
    const struct store_service *service = service_of(request);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(request->message->descriptor, STORE_ID_FIELD);
    struct store_id ours = store_identity(service_store(service));
    ProtobufCBinaryData meant = {0, NULL};
    struct note note;

    if (field) memcpy(&meant, (const char *)request->message + field->offset, sizeof meant);
    if (meant.len == 0 || str_equal(bytes_str(meant), store_id_text(&ours))) return false;
    note_set(&note, "another store is here: it was restored from a copy, or replaced");
    if (!store_id_none(&ours)) {
        refuse_invalid(request, COORD_R_OTHER_STORE, GRPC_NOT_FOUND, &note);
        return true;
    }
    /* The first leader of a new store sets its identity. Until then a follower cannot compare. */
    if (!service->leader.ready) return false;
    request_refuse(request, GRPC_UNAVAILABLE, "%s: the store has no identity yet",
                   request->method->name);
    return true;
}

static void store_read_now(struct leader_request *request)
{
    if (store_machine_restoring(service_of(request)->machine))
        request_refuse(request, GRPC_UNAVAILABLE, "%s: a snapshot is being restored",
                       request->method->name);
    else
        store_method_of(request)->read(request);
}

static bool store_admit(struct leader_request *request)
{
    const struct store_method *method = store_method_of(request);
    struct note note = {""};
    int reason = store_check_request(request->message, &note);

    if (!reason && method->check) reason = method->check(request->message, &note);
    if (reason)
        refuse_invalid(request, reason, GRPC_INVALID_ARGUMENT, &note);
    else if (refuse_other_store(request))
        return false;
    else if (method->serializable && method->serializable(request->message))
        store_read_now(request);
    else if (!leader_here(request->leader))
        request_redirect(request);
    else
        return true;
    return false;
}

/* -- writing -- */

static void store_written(struct leader_request *request, enum err err, struct str reply)
{
    struct store_request *mine = store_request_of(request);
    struct store_reply answer;

    /* The reply is unreadable only without memory, after the command was applied. */
    if (!err && store_reply_parse(reply, &answer)) err = ERR_UNKNOWN;
    if (!request->call) {
        if (!err && answer.waiting) {
            wait_forget(mine);
            mine->lease = answer.lease;
            wait_gone(mine);
        }
        request_free(request);
    } else if (err) {
        request_log_failed(request, err);
    } else if (answer.waiting) {
        wait_begin(mine, &answer.lease);
    } else {
        if (answer.code < STORE_CODES) service_of(request)->numbers.outcomes[answer.code]++;
        request_reply(request, answer.outcome);
    }
}

static void store_propose(struct leader_request *request)
{
    struct store_service *service = service_of(request);
    struct store_request *mine = store_request_of(request);
    struct proposal proposal;
    struct store_command command;
    struct str actor = rpc_access_name(rpc_call_identity(request->call)); /* plaintext: "" */
    enum err err = store_write_command(store_method_of(request), request->message,
                                       rpc_call_arena(request->call), &command);

    buf_clear(&service->command);
    if (!store_checks_tokens(service)) command.token = 0;
    if (!err) err = store_command_write(&command, &service->command);
    if (err) {
        request_refuse(request, err_grpc_status(err), "%s: the command: %s", request->method->name,
                       err_text(err));
        return;
    }
    actor.len = min_size(actor.len, REPLICA_ACTOR_MAX);
    if (command.kind == STORE_DELETE && command.expected == STORE_FORCE)
        LOG_INFO(&service->log, "deleting a claim by force", log_str("key", command.key),
                 log_str("actor", actor));
    if (command.wait) wait_propose(mine, &command);
    proposal = store_proposal(service, command.kind, NULL);
    proposal.version = store_command_version(&command);
    proposal.actor = actor;
    request_propose(request, &proposal);
}

static void store_begin(struct leader_request *request)
{
    const struct store_method *method = store_method_of(request);

    if (method->read)
        request_read(request);
    else if (method->begin)
        method->begin(request);
    else
        store_propose(request);
}

/* -- kept requests -- */

static void store_gone(struct leader_request *request)
{
    struct store_request *mine = store_request_of(request);

    if (mine->kept == KEPT_RENEWS || mine->kept == KEPT_LEAVES) return; /* both end without help */
    if (mine->kept == KEPT_QUEUES) wait_gone(mine);
    request_free(request);
}

/* On a drain, a waiting Acquire keeps its place in the queue. */
static void store_drain(struct leader_request *request)
{
    if (store_request_of(request)->kept == KEPT_WATCHES)
        request_fail(request, GRPC_UNAVAILABLE, "Watch: this replica stops");
    else if (store_request_of(request)->kept == KEPT_QUEUES)
        request_fail(request, GRPC_UNAVAILABLE,
                     "%s: this replica stops; ask again with the same request",
                     request->method->name);
}

static void store_writable(struct leader_request *request)
{
    if (store_request_of(request)->watcher) watcher_writable(store_request_of(request)->watcher);
}

static void store_freed(struct leader_request *request)
{
    struct store_request *mine = store_request_of(request);

    watcher_free(mine->watcher);
    wait_forget(mine);
    wait_attempt_over(mine);
    timer_deinit(&mine->timer);
}

const struct leader_rules store_rules = {
    .request_size = sizeof(struct store_request),
    .full = GRPC_RESOURCE_EXHAUSTED,
    .doubt = GRPC_UNKNOWN,
    .admit = store_admit,
    .begin = store_begin,
    .read = store_read_now,
    .written = store_written,
    .gone = store_gone,
    .drain = store_drain,
    .writable = store_writable,
    .freed = store_freed,
};
