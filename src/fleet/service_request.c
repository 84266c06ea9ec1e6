/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader does for a call: the method's own checks, a read of the tables or of the shards' reports, or a
 * command of the log and what the tables said to it. */
#include "fleet/format/command.h"
#include "fleet/service_internal.h"

enum { TEXT_MAX = 1024 };

static bool admit(struct leader_request *request)
{
    const struct service_method *method = service_method_of(request);
    struct str id;

    if (!leader_here(request->leader)) {
        request_redirect(request);
        return false;
    }
    if (rpc_call_metadata(request->call, STR(RPC_REQUEST_ID), &id) &&
        id.len > REPLICA_REQUEST_ID_MAX) {
        request_refuse(request, GRPC_INVALID_ARGUMENT, "%s: %s is longer than %d bytes",
                       request->method->name, RPC_REQUEST_ID, REPLICA_REQUEST_ID_MAX);
        return false;
    }
    return !method->admit || method->admit(request);
}

static void begin(struct leader_request *request)
{
    const struct service_method *method = service_method_of(request);

    if (method->read)
        request_read(request);
    else if (!method->judge || method->judge(request))
        service_write(request);
}

/* The reports are of one term. */
static void read(struct leader_request *request)
{
    if (leader_leads(request->leader))
        service_method_of(request)->read(request);
    else
        request_refuse(request, GRPC_UNAVAILABLE, "%s: leadership is changing",
                       request->method->name);
}

/* -- writing -- */

static void answer_write(struct leader_request *request, const struct fleet_result *result)
{
    struct fleet_command command;
    struct buf text;
    enum err err;

    if (result->status == FLEET_DONE) {
        request_reply(request, STR_EMPTY); /* every write's answer is an empty message */
        return;
    }
    buf_init(&text, TEXT_MAX);
    err = service_method_of(request)->command(request, &command);
    if (!err) err = fleet_result_text(&command, result, &text);
    if (err) { /* too long to be quoted: the short text does */
        buf_clear(&text);
        (void)buf_append_c(&text, fleet_status_text(result->status));
    }
    request_fail(request, err_grpc_status(fleet_status_err(result->status)), "%s: %.*s",
                 request->method->name, (int)text.len, text.data ? text.data : "");
    buf_deinit(&text);
}

enum err service_proposed(struct fleet_service *service, enum err err, struct str reply,
                          struct fleet_result *ret_result)
{
    /* No memory for the answer: it was applied, but how it went is not known. */
    if (!err && fleet_reply_parse(reply, ret_result)) err = ERR_UNKNOWN;
    service->numbers.apply[err                                ? APPLY_ERROR
                           : ret_result->status != FLEET_DONE ? APPLY_FSM_ERROR
                                                              : APPLY_SUCCESS]++;
    return err;
}

static void written(struct leader_request *request, enum err err, struct str reply)
{
    const struct service_method *method = service_method_of(request);
    struct fleet_result result = {.status = FLEET_UNREADABLE};

    err = service_proposed(service_of(request), err, reply, &result);
    request->acted = !err && result.status == FLEET_DONE;
    if (!request->call) {
        request_free(request);
        return;
    }
    if (err)
        request_log_failed(request, err);
    else if (method->done)
        method->done(request, &result);
    else
        answer_write(request, &result);
}

void service_write(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    struct fleet_command command;
    struct str request_id = STR_EMPTY;
    char actor[FLEET_ACTOR_CAP];
    enum err err = service_method_of(request)->command(request, &command);

    buf_clear(&service->command);
    if (!err) err = fleet_command_encode(&command, &service->command);
    if (err) {
        service->numbers.apply[APPLY_ERROR]++;
        request_refuse(request, err_grpc_status(err), "%s: the command: %s", request->method->name,
                       err_text(err));
        return;
    }
    (void)rpc_call_metadata(request->call, STR(RPC_REQUEST_ID), &request_id);
    fleet_actor(request->call, actor);
    request_propose(request, &(struct proposal){
                                 .machine = FLEET_MACHINE_ID,
                                 .version = fleet_command_version(&command),
                                 .flags = command.kind == FLEET_REMOVE_SHARD ||
                                                  command.kind == FLEET_UNASSIGN_DOMAIN
                                              ? PROPOSE_FREES
                                              : 0,
                                 .actor = str_from(actor),
                                 .request_id = request_id,
                                 .command = buf_peek(&service->command),
                             });
}

const struct leader_rules service_rules = {
    .request_size = sizeof(struct fleet_request),
    .full = GRPC_UNAVAILABLE,
    .doubt = GRPC_UNAVAILABLE,
    .admit = admit,
    .begin = begin,
    .read = read,
    .written = written,
};
