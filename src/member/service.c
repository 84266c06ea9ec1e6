/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, closes and registers the parts of the membership service, and follows who leads. Loop
 * thread. */
#include "member/service.h"

#include <stdio.h>
#include <stdlib.h>

#include "member/service_internal.h"

enum { REQUESTS_MAX = 65536, SECOND_MS = 250, WATCHES_MAX = 200000 };

/* -- who leads, for those that pass calls on -- */

static void look_for_leader(struct member_service *service)
{
    const char *address = "";

    if (!service->leader.led && service->options.leader_address)
        address = service->options.leader_address(service->options.owner);
    (void)rpc_forwarder_set_leader(service->forwarder, address);
}

/* Where nobody leads we say so ourselves, as UNAVAILABLE: to a worker "not the leader" would mean
 * that its incarnation is over. */
static bool is_answered_here(const struct member_service *service, const struct rpc_call *call)
{
    struct str hops;

    return service->leader.led || !rpc_forwarder_leader(service->forwarder)[0] ||
           rpc_call_metadata(call, STR(RPC_HOPS_HEADER), &hops);
}

static bool stays(void *owner, struct rpc_call *call)
{
    const struct leader_binding *binding = owner;

    return is_answered_here(CONTAINER_OF(binding->leader, struct member_service, leader), call);
}

static bool stream_stays(void *owner, struct rpc_call *call)
{
    return is_answered_here(owner, call);
}

/* -- what the log says -- */

static void on_applied(void *owner)
{
    lead_applied(owner);
}

static void on_restored(void *owner)
{
    struct member_service *service = owner;

    assert(!service->local); /* who leads has no snapshot put upon it */
    service->changes++;
}

void member_service_on_change(struct member_service *service, const struct replica_status *status)
{
    struct leader *leader = &service->leader;

    if (leader_term_ended(leader, status)) lead_end(service);
    (void)leader_term_began(leader, status);
    if (leader_ready(leader, status)) lead_begin(service);
    look_for_leader(service);
    leader_resume(leader);
}

enum err member_service_reload(struct member_service *service,
                               const struct member_local_options *local)
{
    enum err err = service->local ? member_local_reload(service->local, local) : ERR_OK;

    if (!err) member_local_options_take(&service->options.local, local);
    return err;
}

static void on_second(struct timer *timer)
{
    struct member_service *service = CONTAINER_OF(timer, struct member_service, second);

    if (service->leader.replica) look_for_leader(service);
    member_gauges(service);
    timer_start_in(timer, SECOND_MS);
}

/* -- life -- */

static enum err open_parts(struct member_service *service, struct note *note)
{
    const struct member_service_options *options = &service->options;
    struct member_machine_options machine = {.member = options->member,
                                             .applied = on_applied,
                                             .restored = on_restored,
                                             .owner = service};
    struct loop *loop = service->io->loop;
    uint64_t seed = entropy_u64(service->io->entropy);
    enum err err =
        leader_open(&service->leader, &(struct leader_options){.rules = &member_rules_of_calls,
                                                               .loop = loop,
                                                               .address = options->leader_address,
                                                               .owner = options->owner,
                                                               .wait_ms = LEADER_WAIT_MS,
                                                               .requests_max = REQUESTS_MAX});

    if (!err) err = member_machine_open(&machine, &service->machine);
    if (!err) err = timer_init(&service->batch_due, loop, batch_overdue);
    if (!err) err = timer_init(&service->scan, loop, lead_scan);
    if (!err) err = timer_init(&service->tell, loop, lead_tell);
    if (!err) err = timer_init(&service->second, loop, on_second);
    if (!err) err = control_open(seed, WATCHES_MAX, &service->control);
    if (!err)
        err = rpc_forwarder_open(
            &(struct rpc_forwarder_options){.io = service->io, .tls = options->tls},
            &service->forwarder);
    if (!err) err = beats_open(service, &service->beats);
    if (!err) err = member_metrics_open(&service->metrics, options->metrics, note);
    return err;
}

enum err member_service_open(const struct member_service_options *options,
                             struct member_service **ret_service, struct note *note)
{
    struct member_service *service = calloc(1, sizeof *service);
    enum err err;

    if (!service) return ERR_NOMEM;
    service->io = options->io;
    service->options = *options;
    if (options->log)
        service->log = *options->log;
    else
        log_source_init(&service->log, NULL, "member", NULL);
    snprintf(service->name, sizeof service->name, "%s", options->name ? options->name : "");
    ulid_text(&options->run, service->run);
    list_init(&service->batches);
    list_init(&service->kept);
    list_init(&service->pullers);
    list_init(&service->lookers);
    list_init(&service->streams);
    map_init(&service->watches, WATCHES_MAX, entropy_u64(options->io->entropy));
    task_init(&service->batch_task, batch_now);
    task_init(&service->after, lead_after);
    buf_init(&service->answer, MEMBER_ANSWER_MAX);
    buf_init(&service->row, MEMBER_ANSWER_MAX);
    buf_init(&service->inner, MEMBER_ANSWER_MAX);
    service->opened_at = loop_now(service->io->loop);
    service->changes = 1;
    err = open_parts(service, note);
    if (err) {
        member_service_stop(service, NULL, NULL);
        member_service_close(service);
        return err;
    }
    timer_start_in(&service->second, SECOND_MS);
    *ret_service = service;
    return ERR_OK;
}

static void stopped(void *owner)
{
    struct member_service *service = owner;

    beats_close(service->beats);
    service->beats = NULL;
    if (service->done) service->done(service->done_owner);
}

void member_service_stop(struct member_service *service, void (*done)(void *owner), void *owner)
{
    struct rpc_forwarder *forwarder = service->forwarder;

    service->done = done;
    service->done_owner = owner;
    timer_stop(&service->second);
    if (service->leader.led) lead_end(service);
    service->leader.led = service->leader.ready = false;
    if (service->beats) beats_stop(service->beats);
    if (forwarder)
        rpc_forwarder_close(forwarder, stopped, service); /* ends the beats that are passed on */
    else
        stopped(service);
}

void member_service_close(struct member_service *service)
{
    if (!service) return;
    assert(!service->batch && service->batches_running == 0);
    assert(!service->local);
    task_cancel(&service->batch_task);
    task_cancel(&service->after);
    leader_close(&service->leader);
    timer_deinit(&service->batch_due);
    timer_deinit(&service->scan);
    timer_deinit(&service->tell);
    timer_deinit(&service->second);
    control_close(service->control);
    member_machine_close(service->machine);
    map_deinit(&service->watches);
    buf_deinit(&service->answer);
    buf_deinit(&service->row);
    buf_deinit(&service->inner);
    free(service);
}

struct member_machine *member_service_machine(struct member_service *service)
{
    return service->machine;
}

void member_service_attach(struct member_service *service, struct replica *replica)
{
    struct replica_status status = replica_status(replica);

    assert(!service->leader.replica);
    service->leader.replica = replica;
    member_service_on_change(service, &status);
}

/* -- methods -- */

/* Each stands behind a gate that passes it on to the leader; the second server has the same. */
static enum err add_gated(struct member_service *service, struct rpc_server *server,
                          const struct rpc_method *method,
                          bool (*stays_here)(void *service, struct rpc_call *call),
                          struct note *note)
{
    struct rpc_method gated = *method;
    struct rpc_forward_gate *gate = &service->gates[service->gate_count++];

    assert(service->gate_count <= ARRAY_LEN(service->gates));
    *gate = (struct rpc_forward_gate){.forwarder = service->forwarder,
                                      .handler = method->handler,
                                      .service = method->service,
                                      .response_max = method->response_max,
                                      .stays = stays_here};
    gated.handler = &rpc_forward_handler;
    gated.service = gate;
    return rpc_server_add(server, &gated, note);
}

static enum err add_calls(struct member_service *service, struct rpc_server *server,
                          const struct member_method *methods, bool workers, struct note *note)
{
    enum err err = ERR_OK;

    for (const struct member_method *m = methods; !err && m->base.path; m++) {
        if (workers && m->tools) continue;
        err = add_gated(service, server,
                        &(struct rpc_method){.path = m->base.path,
                                             .kind = RPC_UNARY,
                                             .input = m->base.input,
                                             .output = m->base.output,
                                             .request_max = m->base.request_max,
                                             .response_max = m->base.response_max,
                                             .handler = &leader_handler,
                                             .service = leader_bind(&service->leader, &m->base)},
                        stays, note);
    }
    return err;
}

static enum err add_streams(struct member_service *service, struct rpc_server *server, bool workers,
                            struct note *note)
{
    const struct rpc_method streams[] = {
        {.path = "/muster.v1.Membership/WatchAssignment",
         .kind = RPC_SERVER_STREAM,
         .input = &muster__v1__assignment_request__descriptor,
         .output = &muster__v1__assignment_response__descriptor,
         .handler = &member_watch_handler,
         .service = service},
        {.path = "/rollout.transport.v1.Control/Subscribe",
         .kind = RPC_SERVER_STREAM,
         .input = &rollout__transport__v1__control_subscribe_request__descriptor,
         .output = &rollout__transport__v1__control_push__descriptor,
         .handler = &member_control_handler,
         .service = service},
        {.path = "/rollout.transport.v1.Work/Stream",
         .kind = RPC_BIDI,
         .input = &rollout__transport__v1__work_up__descriptor,
         .output = &rollout__transport__v1__work_down__descriptor,
         .handler = &member_stream_handler,
         .service = service},
        {.path = "/muster.v1.Membership/WatchChanges",
         .kind = RPC_SERVER_STREAM,
         .input = &muster__v1__watch_changes_request__descriptor,
         .output = &muster__v1__watch_changes_response__descriptor,
         .handler = &member_look_handler,
         .service = service},
    };
    size_t count = workers ? ARRAY_LEN(streams) - 1 : ARRAY_LEN(streams);
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < count; i++)
        err = add_gated(service, server, &streams[i], stream_stays, note);
    return err;
}

static enum err add_beats(struct member_service *service, struct rpc_server *server, bool workers,
                          struct note *note)
{
    enum err err = rpc_server_add(
        server,
        &(struct rpc_method){.path = "/rollout.transport.v1.Heartbeat/Beat",
                             .kind = RPC_UNARY,
                             .input = &rollout__transport__v1__beat_request__descriptor,
                             .output = &rollout__transport__v1__beat_response__descriptor,
                             .handler = &beats_handler,
                             .service = service->beats},
        note);

    if (err || workers) return err;
    return rpc_server_add(
        server,
        &(struct rpc_method){.path = "/muster.v1.Membership/PassBeats",
                             .kind = RPC_UNARY,
                             .input = &muster__v1__pass_beats_request__descriptor,
                             .output = &muster__v1__pass_beats_response__descriptor,
                             .handler = &beats_pass_handler,
                             .service = service->beats},
        note);
}

enum err member_service_methods(struct member_service *service, struct rpc_server *server,
                                bool workers, struct note *note)
{
    enum err err = add_beats(service, server, workers, note);

    if (!err) err = add_calls(service, server, member_worker_methods, workers, note);
    if (!err) err = add_calls(service, server, member_work_methods, workers, note);
    if (!err) err = add_calls(service, server, member_read_methods, workers, note);
    return err ? err : add_streams(service, server, workers, note);
}
