/* SPDX-License-Identifier: Apache-2.0 */
/* Handles a call on the leader: the method's own checks, then a read of the tables or reports, or a
 * proposal to the log and its result. Runs on the event loop's thread. */
#include <stdlib.h>

#include "fleet/format/command.h"
#include "fleet/service_internal.h"

static bool call_admit(struct leader_request *request)
{
    const struct service_method *method = service_method_of(request);
    struct str id;

    if (method->anywhere) return method->admit(request);
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

static void call_begin(struct leader_request *request)
{
    const struct service_method *method = service_method_of(request);

    if (method->begin) {
        service_actor(request->call, fleet_request_of(request)->actor);
        method->begin(request);
    } else if (method->read)
        request_read(request);
    else if (!method->judge || method->judge(request))
        service_write(request);
}

/* Reads only while this replica is the leader, because reports belong to one leader's term. */
static void call_read(struct leader_request *request)
{
    if (leader_leads(request->leader))
        service_method_of(request)->read(request);
    else
        request_refuse(request, GRPC_UNAVAILABLE, "%s: leadership is changing",
                       request->method->name);
}

/* -- writing -- */

static void call_answer(struct leader_request *request, const struct fleet_result *result)
{
    struct fleet_command command;
    struct note text;

    if (result->status == FLEET_DONE) {
        request_reply(request, STR_EMPTY); /* every write method responds with an empty message */
        return;
    }
    fleet_result_text(service_method_of(request)->command(request, &command) ? NULL : &command,
                      result, &text);
    request_fail(request, err_grpc_status(fleet_status_err(result->status)), "%s: %s",
                 request->method->name, text.text);
}

static enum err service_proposed(struct fleet_service *service, enum err err, struct str reply,
                                 struct fleet_result *ret_result)
{
    /* If memory ran out for the reply, the command was applied, but its result is unknown. */
    if (!err && fleet_reply_parse(reply, ret_result)) err = ERR_UNKNOWN;
    service->numbers.apply[err                                ? APPLY_ERROR
                           : ret_result->status != FLEET_DONE ? APPLY_FSM_ERROR
                                                              : APPLY_SUCCESS]++;
    return err;
}

static void call_written(struct leader_request *request, enum err err, struct str reply)
{
    const struct service_method *method = service_method_of(request);
    struct fleet_result result = {.status = FLEET_UNREADABLE};

    if (method->written) {
        method->written(request, err, reply);
        return;
    }
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
        call_answer(request, &result);
}

/* service->command gets the encoded bytes of `command`. */
static enum err proposal_of(struct fleet_service *service, const struct fleet_command *command,
                            struct str actor, struct proposal *ret_proposal)
{
    bool frees = command->kind == FLEET_REMOVE_SHARD || command->kind == FLEET_UNASSIGN_DOMAIN ||
                 command->kind == FLEET_CLEAR_LEAVING;
    enum err err;

    buf_clear(&service->command);
    err = fleet_command_encode(command, &service->command);
    *ret_proposal = (struct proposal){.machine = FLEET_MACHINE_ID,
                                      .version = fleet_command_version(command),
                                      .flags = frees ? PROPOSE_FREES : 0,
                                      .actor = actor,
                                      .command = buf_peek(&service->command)};
    return err;
}

void service_write(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    struct fleet_command command;
    struct proposal proposal;
    char actor[SERVICE_ACTOR_CAP];
    enum err err = service_method_of(request)->command(request, &command);

    service_actor(request->call, actor);
    if (!err) err = proposal_of(service, &command, str_from(actor), &proposal);
    if (err) {
        service->numbers.apply[APPLY_ERROR]++;
        request_refuse(request, err_grpc_status(err), "%s: the command: %s", request->method->name,
                       err_text(err));
        return;
    }
    proposal.request_id = STR_EMPTY;
    (void)rpc_call_metadata(request->call, STR(RPC_REQUEST_ID), &proposal.request_id);
    request_propose(request, &proposal);
}

/* -- proposals that no client requested -- */

struct own_proposal {
    struct fleet_service *service;
    struct proposal proposal;
    service_done_fn *done;
};

static void own_proposed(struct proposal *proposal, enum err err, struct str reply)
{
    struct own_proposal *own = CONTAINER_OF(proposal, struct own_proposal, proposal);
    struct fleet_result result = {.status = FLEET_UNREADABLE};

    err = service_proposed(own->service, err, reply, &result);
    own->done(own->service, err, &result);
    free(own);
}

enum err service_propose(struct fleet_service *service, const struct fleet_command *command,
                         struct str actor, service_done_fn *done)
{
    struct own_proposal *own = calloc(1, sizeof *own);
    enum err err = own ? proposal_of(service, command, actor, &own->proposal) : ERR_NOMEM;

    if (err) {
        free(own);
        return err;
    }
    own->service = service;
    own->done = done;
    own->proposal.done = own_proposed;
    replica_propose(service->leader.replica, (struct proposal *const[]){&own->proposal}, 1);
    return ERR_OK;
}

static void call_freed(struct leader_request *request)
{
    timer_deinit(&fleet_request_of(request)->again);
    if (request->method->kind == RPC_SERVER_STREAM) service_stream_freed(request);
}

const struct leader_rules service_rules = {
    .request_size = sizeof(struct fleet_request),
    .full = GRPC_UNAVAILABLE,
    .doubt = GRPC_UNAVAILABLE,
    .admit = call_admit,
    .begin = call_begin,
    .read = call_read,
    .written = call_written,
    .gone = service_request_gone,
    .writable = service_stream_writable,
    .freed = call_freed,
};
