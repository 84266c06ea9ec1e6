/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader does for a call: its limits, a read of the tables, or a command of the log and
 * what it was answered. */
#include "store/service_internal.h"

static const struct store_method *method_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->method, struct store_method, base);
}

void store_reply_result(struct leader_request *request, const struct store_result *result,
                        struct str text)
{
    struct store_service *service = service_of(request);
    struct pack pack = pack_begin(&service->answer);

    pack.err = store_outcome_write(result, text, &service->answer);
    if (result->code >= 0 && result->code < STORE_CODES)
        store_count(service->metrics.outcomes[result->code], 1);
    request_reply_packed(request, &pack);
}

/* -- may it be asked at all -- */

/* A call whose answer is an Outcome says INVALID there; the others have no place for it. */
static void refuse_invalid(struct leader_request *request, int reason, const struct note *note)
{
    struct store_result result = {.code = COORD_INVALID, .reason = reason, .hint_ms = -1};

    if (request->method->output == &muster__v1__outcome__descriptor)
        store_reply_result(request, &result, str_from(note->text));
    else
        request_refuse(request, GRPC_INVALID_ARGUMENT, "%s: %s", request->method->name, note->text);
}

/* R5: who was told of another store must not go on here as if it were that one. */
enum whose { WHOSE_OURS, WHOSE_ANOTHERS, WHOSE_UNKNOWN };

static enum whose whose(const struct store_service *service, const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(message->descriptor, STORE_ID_FIELD);
    struct store_id ours = store_identity(service_store(service)), none = {{0}};
    ProtobufCBinaryData meant = {0, NULL};

    if (field) memcpy(&meant, (const char *)message + field->offset, sizeof meant);
    if (meant.len == 0) return WHOSE_OURS;
    if (memcmp(&ours, &none, sizeof ours) == 0) return WHOSE_UNKNOWN;
    return meant.len == sizeof ours.b && memcmp(meant.data, ours.b, sizeof ours.b) == 0
               ? WHOSE_OURS
               : WHOSE_ANOTHERS;
}

bool store_is_meant(const struct store_service *service, const ProtobufCMessage *message,
                    enum grpc_status *ret_status, const char **ret_text)
{
    enum whose of = whose(service, message);

    if (of == WHOSE_OURS) return true;
    /* The first leader of a new store names it; who follows does not judge before it knows. */
    if (of == WHOSE_UNKNOWN && !service->leader.ready) return true;
    *ret_status = of == WHOSE_UNKNOWN ? GRPC_UNAVAILABLE : GRPC_NOT_FOUND;
    *ret_text = of == WHOSE_UNKNOWN
                    ? "the store has no identity yet"
                    : "another store is here: it was restored from a copy, or replaced";
    return false;
}

static void refuse_other(struct leader_request *request, enum grpc_status status, const char *text)
{
    struct note note;

    note_set(&note, "%s", text);
    if (status == GRPC_NOT_FOUND && request->method->output == &muster__v1__outcome__descriptor)
        refuse_invalid(request, COORD_R_OTHER_STORE, &note);
    else
        request_refuse(request, status, "%s: %s", request->method->name, text);
}

static void read(struct leader_request *request)
{
    if (store_machine_restoring(service_of(request)->machine))
        request_refuse(request, GRPC_UNAVAILABLE, "%s: a snapshot is being restored",
                       request->method->name);
    else
        method_of(request)->read(request);
}

static bool admit(struct leader_request *request)
{
    const struct store_method *method = method_of(request);
    struct note note = {""};
    int reason = method->check ? method->check(request->message, &note) : 0;
    enum grpc_status status;
    const char *text;

    if (reason)
        refuse_invalid(request, reason, &note);
    else if (!store_is_meant(service_of(request), request->message, &status, &text))
        refuse_other(request, status, text);
    else if (method->serializable && method->serializable(request->message))
        read(request);
    else if (!leader_here(request->leader))
        request_redirect(request);
    else
        return true;
    return false;
}

/* -- writing -- */

static void written(struct leader_request *request, enum err err, struct str reply)
{
    struct store_request *mine = store_request_of(request);
    struct store_reply answer;

    /* No memory for the answer: it was applied, but how it went is not known. */
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
        if (answer.code < STORE_CODES)
            store_count(service_of(request)->metrics.outcomes[answer.code], 1);
        request_reply(request, answer.outcome);
    }
}

static void propose(struct leader_request *request)
{
    struct store_service *service = service_of(request);
    struct store_request *mine = store_request_of(request);
    struct proposal proposal;
    struct store_command command = {.prefer_slot = STORE_NO_SLOT};
    struct str actor = rpc_access_name(rpc_call_identity(request->call)); /* plaintext: nobody */
    enum err err = method_of(request)->command(request, &command);

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
        LOG_INFO(&service->log, "a claim is deleted by force", log_str("key", command.key),
                 log_str("actor", actor));
    if (command.kind == STORE_ACQUIRE && command.wait) {
        mine->lease = command.lease;
        wait_propose(mine);
    }
    proposal = store_proposal(service, command.kind, NULL);
    proposal.version = store_command_version(&command);
    proposal.actor = actor;
    request_propose(request, &proposal);
}

static void begin(struct leader_request *request)
{
    const struct store_method *method = method_of(request);

    if (method->read)
        request_read(request);
    else if (method->begin)
        method->begin(request);
    else
        propose(request);
}

/* -- those that are kept -- */

static void gone(struct leader_request *request)
{
    struct store_request *mine = store_request_of(request);

    if (mine->kept != KEPT_QUEUES) return; /* ends by itself */
    wait_gone(mine);
    request_free(request);
}

/* Who waits is answered by nobody who stops; its place stands in the queue. */
static void drain(struct leader_request *request)
{
    if (store_request_of(request)->kept == KEPT_QUEUES)
        request_fail(request, GRPC_UNAVAILABLE,
                     "%s: this replica stops; ask again with the same request",
                     request->method->name);
}

static void freed(struct leader_request *request)
{
    struct store_request *mine = store_request_of(request);

    wait_forget(mine);
    wait_attempt_over(mine);
    timer_deinit(&mine->timer);
}

const struct leader_rules store_rules = {
    .request_size = sizeof(struct store_request),
    .full = GRPC_RESOURCE_EXHAUSTED,
    .doubt = GRPC_UNKNOWN,
    .admit = admit,
    .begin = begin,
    .read = read,
    .written = written,
    .gone = gone,
    .drain = drain,
    .freed = freed,
};
