/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, closes and registers the parts of the membership service, and follows leadership changes.
 * Loop's thread. */
#include "member/service.h"

#include <stdio.h>
#include <stdlib.h>

#include "member/service_internal.h"

enum { REQUESTS_MAX = 65536, SECOND_MS = 250, WATCHES_MAX = 200000 };

/* -- finding the leader for forwarded calls -- */

static void look_for_leader(struct member_service *service)
{
    const char *address = "";

    if (!service->leader.led && service->options.leader_address)
        address = service->options.leader_address(service->options.owner);
    (void)rpc_forwarder_set_leader(service->leader.forwarder, address);
}

/* Without a leader, streams are answered UNAVAILABLE here: from "not the leader" a worker would
 * conclude that its incarnation is over. */
static bool stream_stays(void *owner, struct rpc_call *call)
{
    const struct member_service *service = owner;
    struct str hops;

    return service->leader.led || !rpc_forwarder_leader(service->leader.forwarder)[0] ||
           rpc_call_metadata(call, STR(RPC_HOPS_HEADER), &hops);
}

static bool stays(void *owner, struct rpc_call *call)
{
    const struct leader_binding *binding = owner;

    return stream_stays(CONTAINER_OF(binding->leader, struct member_service, leader), call);
}

/* -- callbacks of the state machine -- */

static void on_restored(void *owner)
{
    struct member_service *service = owner;

    assert(!service->local); /* a leader never installs a snapshot */
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

/* -- open and close -- */

static enum err open_parts(struct member_service *service, struct note *note)
{
    const struct member_service_options *options = &service->options;
    struct member_machine_options machine = {.member = options->member,
                                             .applied = lead_applied,
                                             .restored = on_restored,
                                             .owner = service};
    struct loop *loop = service->io->loop;
    enum err err =
        leader_open(&service->leader, &(struct leader_options){.rules = &member_rules_of_calls,
                                                               .loop = loop,
                                                               .address = options->leader_address,
                                                               .owner = options->owner,
                                                               .wait_ms = LEADER_WAIT_MS,
                                                               .requests_max = REQUESTS_MAX,
                                                               .gate = {.stays = stays}});

    if (!err) err = member_machine_open(&machine, &service->machine);
    if (!err) err = timer_init(&service->batch_due, loop, batch_overdue);
    if (!err) err = timer_init(&service->scan, loop, lead_scan);
    if (!err) err = timer_init(&service->events_due, loop, lead_events_due);
    if (!err) err = timer_init(&service->second, loop, on_second);
    if (!err)
        err = rpc_forwarder_open(
            &(struct rpc_forwarder_options){.io = service->io, .tls = options->tls},
            &service->leader.forwarder);
    if (!err) err = beats_open(&service->beats, service);
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
    map_init(&service->control, WATCHES_MAX, entropy_u64(options->io->entropy));
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

    if (service->beats.service) beats_close(&service->beats);
    if (service->done) service->done(service->done_owner);
}

void member_service_stop(struct member_service *service, void (*done)(void *owner), void *owner)
{
    struct rpc_forwarder *forwarder = service->leader.forwarder;

    service->done = done;
    service->done_owner = owner;
    timer_stop(&service->second);
    if (service->leader.led) lead_end(service);
    service->leader.led = service->leader.ready = false;
    if (service->beats.service) beats_stop(&service->beats);
    if (forwarder) /* closing the forwarder ends the heartbeats passed to the leader */
        rpc_forwarder_close(forwarder, stopped, service);
    else
        stopped(service);
}

void member_service_close(struct member_service *service)
{
    if (!service) return;
    assert(!service->batch && service->batches_running == 0);
    assert(!service->local && service->control_streams == 0);
    task_cancel(&service->batch_task);
    task_cancel(&service->after);
    leader_close(&service->leader);
    timer_deinit(&service->batch_due);
    timer_deinit(&service->scan);
    timer_deinit(&service->events_due);
    timer_deinit(&service->second);
    control_end(service, "");
    map_deinit(&service->control);
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

#define OTHER(gate, of_tools, its_path, of_kind, package, in, out, its_handler, its_service)       \
    {                                                                                              \
        .gated = (gate), .tools = (of_tools), .method = {                                          \
            .path = (its_path),                                                                    \
            .kind = RPC_##of_kind,                                                                 \
            .input = &package##__##in##__descriptor,                                               \
            .output = &package##__##out##__descriptor,                                             \
            .handler = (its_handler),                                                              \
            .service = (its_service)                                                               \
        }                                                                                          \
    }
/* Heartbeats are not gated, because beats.c passes them to the leader. */
static enum err add_others(struct member_service *service, struct rpc_server *server, bool workers,
                           struct note *note)
{
    const struct {
        bool gated, tools; /* `tools`: not served on the workers' listener */
        struct rpc_method method;
    } others[] = {
        OTHER(false, false, "/rollout.transport.v1.Heartbeat/Beat", UNARY, rollout__transport__v1,
              beat_request, beat_response, &beats_handler, &service->beats),
        OTHER(false, true, "/muster.v1.Membership/PassBeats", UNARY, muster__v1, pass_beats_request,
              pass_beats_response, &beats_pass_handler, &service->beats),
        OTHER(true, false, "/muster.v1.Membership/WatchAssignment", SERVER_STREAM, muster__v1,
              assignment_request, assignment_response, &member_watch_handler, service),
        OTHER(true, false, "/rollout.transport.v1.Control/Subscribe", SERVER_STREAM,
              rollout__transport__v1, control_subscribe_request, control_push,
              &member_control_handler, service),
        OTHER(true, false, "/rollout.transport.v1.Work/Stream", BIDI, rollout__transport__v1,
              work_up, work_down, &member_stream_handler, service),
        OTHER(true, true, "/muster.v1.Membership/WatchChanges", SERVER_STREAM, muster__v1,
              watch_changes_request, watch_changes_response, &member_look_handler, service),
    };
    static const struct rpc_forward_gate gate = {.stays = stream_stays};
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(others); i++) {
        if (workers && others[i].tools) continue;
        err = others[i].gated
                  ? leader_add_gated(&service->leader, server, &others[i].method, &gate, note)
                  : rpc_server_add(server, &others[i].method, note);
    }
    return err;
}

enum err member_service_methods(struct member_service *service, struct rpc_server *server,
                                bool workers, struct note *note)
{
    static const struct member_method *const tables[] = {member_worker_methods, member_work_methods,
                                                         member_read_methods};
    enum err err = add_others(service, server, workers, note);

    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        for (const struct member_method *m = tables[i]; !err && m->base.path; m++)
            if (!workers || !m->tools) err = leader_add(&service->leader, server, &m->base, note);
    return err;
}
