/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the service. Handles its tick and changes of the replica's role and term. */
#include "fleet/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fleet/service_internal.h"

enum {
    REQUESTS_MAX = 16384,
    TICK_MS = 1000,
    LIST_ROWS_MAX = 8192,
    STALL_MS = 60000,
    LINE_MAX_BYTES = 16 << 10, /* longest line of the event log and of the audit log */
    MEMBERS_BYTES_MAX = 8 << 10,
    SCRATCH_KEPT = 1 << 20, /* a larger scratch buffer is freed after use */
};

int64_t service_wall_ns(const struct fleet_service *service)
{
    return (int64_t)(clock_wall(service->io->clock).ms * NS_PER_MS);
}

/* -- changes of the replica's role and term -- */

static void service_log_leadership(struct fleet_service *service, const char *event, uint64_t term)
{
    service_event(service, event, (const struct log_field[]){log_u64("term", term), LOG_END});
}

static void service_log_leader(struct fleet_service *service, const struct replica_status *status)
{
    char id[INSTRUCTION_ID_CAP];

    snprintf(id, sizeof id, "%016" PRIx64, status->leader_id);
    LOG_INFO(&service->log, "the leader changed",
             log_text("leader", status->leader_id ? id : "none"),
             log_text("raft_address", status->leader_address), log_u64("term", status->term));
    service_event(service, status->leader_id ? "leader-changed" : "leader-unknown",
                  (const struct log_field[]){log_text("leader", id),
                                             log_text("raft_address", status->leader_address),
                                             log_u64("term", status->term), LOG_END});
}

static void service_log_members(struct fleet_service *service)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(service->leader.replica, members), voters = 0;
    struct buf text;

    buf_init(&text, MEMBERS_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        voters += members[i].role == MEMBER_VOTER;
        (void)buf_appendf(&text, "%s%016" PRIx64 "@%s%s", i ? " " : "", members[i].id,
                          members[i].address, members[i].role == MEMBER_VOTER ? "" : "(learner)");
    }
    if (!str_equal(buf_peek(&text), buf_peek(&service->members)))
        SERVICE_LOG_EVENT(service, INFO, "the members changed", "members-changed",
                          log_u64("voters", voters), log_u64("members", count),
                          log_str("list", buf_peek(&text)));
    buf_deinit(&service->members);
    service->members = text;
}

void fleet_service_on_change(struct fleet_service *service, const struct replica_status *status)
{
    struct leader *leader = &service->leader;

    if (service->quorum) quorum_on_change(service->quorum, status);
    if (leader_term_ended(leader, status)) {
        service_log_leadership(service, "leadership-lost", leader->term);
        service_end_term(service);
    }
    if (status->leader_id != service->leader_id) service_log_leader(service, status);
    service->leader_id = status->leader_id;
    if (leader_term_began(leader, status)) {
        service_begin_term(service, status->term);
        service_log_leadership(service, "leadership-gained", status->term);
    }
    if (leader->replica) service_log_members(service);
    if (leader_ready(leader, status)) service_seed_begin(service);
    leader_resume(leader);
}

static void scratch_trim(struct buf *scratch)
{
    size_t max = scratch->max;

    if (scratch->cap <= SCRATCH_KEPT) return;
    buf_deinit(scratch);
    buf_init(scratch, max);
}

static void service_on_tick(struct timer *timer)
{
    struct fleet_service *service = CONTAINER_OF(timer, struct fleet_service, tick);

    scratch_trim(&service->answer);
    scratch_trim(&service->row);
    if (service->leader.led) {
        service_check_silence(service);
        service_check_conflicts(service);
    }
    timer_start_in(timer, TICK_MS);
}

/* -- life -- */

static enum err service_open_parts(struct fleet_service *service,
                                   const struct fleet_service_options *options, struct note *note)
{
    struct fleet_machine_options machine = {
        .applied = service_applied, .restored = service_restored, .owner = service};
    struct reports_options reports = {.silent_after_ms = options->limits.silent_after_ms,
                                      .pending_max = service->options.limits.pending_max,
                                      .bytes_max = service->options.limits.soft_bytes_max,
                                      .seed = entropy_u64(options->io->entropy)};
    enum err err =
        leader_open(&service->leader,
                    &(struct leader_options){.rules = &service_rules,
                                             .loop = options->io->loop,
                                             .address = options->leader_address,
                                             .owner = options->owner,
                                             .wait_ms = service->options.limits.wait_ms,
                                             .requests_max = service->options.limits.requests_max});

    if (!err) err = timer_init(&service->tick, options->io->loop, service_on_tick);
    if (!err) err = service_lister_init(&service->listers[0], service, FLEET_DOMAINS);
    if (!err) err = service_lister_init(&service->listers[1], service, FLEET_CLUSTERS);
    if (!err) err = fleet_machine_open(&machine, &service->machine);
    if (!err) err = reports_open(&reports, &service->reports);
    if (!err) err = service_streams_open(service, note);
    if (!err) err = export_loop_open(service, note);
    return err || !service->options.metrics ? err : service_metrics_open(service, note);
}

enum err fleet_service_open(const struct fleet_service_options *options,
                            struct fleet_service **ret_service, struct note *note)
{
    struct fleet_service *service = calloc(1, sizeof *service);
    struct fleet_service_limits *limits;
    enum err err;

    if (!service) return ERR_NOMEM;
    service->options = *options;
    limits = &service->options.limits;
    service->io = options->io;
    if (options->log)
        service->log = *options->log;
    else
        log_source_init(&service->log, NULL, "fleet", NULL);
    list_init(&service->kept);
    if (!limits->wait_ms) limits->wait_ms = LEADER_WAIT_MS;
    if (!limits->requests_max) limits->requests_max = REQUESTS_MAX;
    if (!limits->pending_max) limits->pending_max = REPORTS_PENDING_MAX;
    if (!limits->shards_max) limits->shards_max = FLEET_SHARDS_MAX;
    if (!limits->list_rows_max) limits->list_rows_max = LIST_ROWS_MAX;
    if (!limits->stall_ms) limits->stall_ms = STALL_MS;
    buf_init(&service->answer, SERVICE_ANSWER_MAX);
    buf_init(&service->row, SERVICE_ANSWER_MAX);
    buf_init(&service->command, REPLICA_COMMAND_MAX);
    buf_init(&service->line, LINE_MAX_BYTES);
    err = service_open_parts(service, options, note);
    if (err) {
        fleet_service_close(service);
        return err;
    }
    service->fleet = fleet_machine_fleet(service->machine);
    timer_start_in(&service->tick, TICK_MS);
    *ret_service = service;
    return ERR_OK;
}

void fleet_service_stop(struct fleet_service *service, void (*done)(void *owner), void *owner)
{
    export_loop_close(service->exports);
    service->exports = NULL;
    quorum_stop(service->quorum, done, owner);
}

void fleet_service_close(struct fleet_service *service)
{
    if (!service) return;
    fleet_service_stop(service, NULL, NULL); /* needed if opening failed */
    assert(service->seed_running == 0 && service->clears == 0 && !service->stream.request);
    if (service->options.metrics) service_metrics_close(service);
    leader_close(&service->leader);
    timer_deinit(&service->tick);
    timer_deinit(&service->stream_timer);
    service_lister_deinit(&service->listers[0]);
    service_lister_deinit(&service->listers[1]);
    quorum_close(service->quorum);
    reports_close(service->reports);
    fleet_machine_close(service->machine);
    buf_deinit(&service->answer);
    buf_deinit(&service->row);
    buf_deinit(&service->command);
    buf_deinit(&service->line);
    buf_deinit(&service->members);
    free(service);
}

struct fleet_machine *fleet_service_machine(struct fleet_service *service)
{
    return service->machine;
}

void fleet_service_attach(struct fleet_service *service, struct replica *replica,
                          const struct state_machine *machines, size_t machine_count)
{
    struct replica_status status = replica_status(replica);

    assert(!service->leader.replica);
    service->leader.replica = replica;
    service->machines = machines;
    service->machine_count = machine_count;
    fleet_service_on_change(service, &status);
}

enum err fleet_service_methods(struct fleet_service *service, struct rpc_server *server,
                               struct note *note)
{
    static const struct service_method *const tables[] = {
        service_report_methods,   service_admin_methods,     service_read_methods,
        service_instruct_methods, service_ownership_methods, service_stream_methods,
        service_replica_methods};
    enum err err = ERR_OK;

    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        for (const struct service_method *m = tables[i]; !err && m->base.path; m++)
            err = leader_add(&service->leader, server, &m->base, note);
    return err;
}
