/* SPDX-License-Identifier: Apache-2.0 */
/* The method ReportShard, in the steps of coordinator.md 9: register the shard, record the time,
 * store the report, process acknowledgements, respond with the pending instructions.
 *
 * All steps after the registration happen in one turn after leadership was confirmed, so that a
 * deposed leader stores no report and sends no instruction. */
#include "fleet/service_internal.h"

typedef Bigfleet__V1alpha1__ShardReport report_message;
typedef Bigfleet__V1alpha1__Shortfall shortfall_message;

enum {
    REQUEST_BYTES_MAX = 16 << 20,
    /* gRPC clients accept 4 MiB by default. Further instructions are sent with the next report. */
    ANSWER_BYTES_MAX = 3 << 20,
    FIELD_REPORTED_SHORTFALLS = 5, /* in a ShardReportSnapshot of ListShardReports */
    FIELD_ANSWERED_TERM = 1,
    FIELD_ANSWERED_ACKNOWLEDGED = 2,
    FIELD_ANSWERED_INSTRUCTIONS = 3,
};

static const report_message *report_of(const struct leader_request *request)
{
    return (const report_message *)request->message;
}

static struct str report_shard(const struct leader_request *request)
{
    return str_from(report_of(request)->shard_id);
}

/* Refuses a report that the tables would refuse, so that it proposes nothing. */
static bool report_is_registrable(struct leader_request *request)
{
    bool long_id = report_shard(request).len > FLEET_ID_MAX;

    if (!long_id && strlen(report_of(request)->shard_address) <= FLEET_ADDRESS_MAX) return true;
    service_of(request)->numbers.reports[REPORT_REFUSED]++;
    request_refuse(request, GRPC_INVALID_ARGUMENT, "%s: at most %d bytes",
                   long_id ? "shard_id" : "shard_address",
                   long_id ? FLEET_ID_MAX : FLEET_ADDRESS_MAX);
    return false;
}

static bool report_admit(struct leader_request *request)
{
    const struct tls_identity *identity = rpc_call_identity(request->call);
    struct note note = {""};

    if (!report_shard(request).len) {
        request_refuse(request, GRPC_INVALID_ARGUMENT, "shard_id required");
        return false;
    }
    if (rpc_access_is(identity, STR("bigfleet://shard/"), report_shard(request), &note)) {
        char actor[SERVICE_ACTOR_CAP];

        service_actor(request->call, actor);
        LOG_ERROR(&service_of(request)->log, "certificate identity rejected",
                  log_text("rpc", "ReportShard"), log_text("presented", actor),
                  log_str("shard", report_shard(request)));
        request_refuse(request, GRPC_PERMISSION_DENIED, "ReportShard: %s", note.text);
        return false;
    }
    return report_is_registrable(request);
}

/* -- registering -- */

static enum err report_add_shard(struct leader_request *request, struct fleet_command *ret_command)
{
    const report_message *report = report_of(request);

    *ret_command = (struct fleet_command){
        .kind = FLEET_ADD_SHARD,
        .add_shard = {.id = str_from(report->shard_id),
                      .address = str_from(report->shard_address),
                      .registered_at =
                          fleet_time_from_unix_ns(service_wall_ns(service_of(request)))},
    };
    return ERR_OK;
}

/* -- acks -- */

static void report_take_ack(struct fleet_service *service, struct reported_shard *shard,
                            const Bigfleet__V1alpha1__InstructAck *ack)
{
    size_t outcome = (size_t)ack->outcome < ACK_NUMBERS ? (size_t)ack->outcome : ACK_OTHER;
    const char *name = service_ack_names[outcome];
    struct instruction *it = reports_instruction(shard, str_from(ack->instruction_id));
    bool first = true;

    if (!it) {
        service->numbers.acks[ACK_UNKNOWN]++;
        return;
    }
    service->numbers.acks[outcome]++;
    if (outcome == BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_ACCEPTED)
        service_take_unassign_ack(service, shard, it);
    /* A newer leader instructs the shard, so a stale instruction is removed, too. */
    if (outcome == BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_ACCEPTED ||
        outcome == BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_REJECTED_STALE ||
        !service_take_unassign_refusal(service, shard, it, str_from(ack->reason), &first))
        reports_ack(service->reports, shard, it);
    if (outcome == 1 || !first) return; /* accepted, or not the first refusal */
    SERVICE_LOG_EVENT(service, WARN, "instruction not carried out", "instruction-refused",
                      log_str("shard", shard->id), log_text("instruction", ack->instruction_id),
                      log_text("outcome", name), log_text("reason", ack->reason));
}

/* -- storing -- */

/* Packs the shortfalls for ListShardReports: with a deficit, but without requirements. */
static enum err pack_shortfalls(struct fleet_service *service, const report_message *report)
{
    Bigfleet__V1alpha1__Resources none = BIGFLEET__V1ALPHA1__RESOURCES__INIT;
    size_t count = min_size(report->n_shortfalls, REPORTS_SHORTFALLS_MAX);
    struct pack pack = {&service->answer, ERR_OK};

    for (size_t i = 0; i < count && !pack.err; i++) {
        shortfall_message kept = *report->shortfalls[i];

        kept.n_requirements = 0;
        kept.requirements = NULL;
        if (!kept.deficit) kept.deficit = &none;
        buf_clear(&service->row);
        pack.err = message_write(&kept.base, &service->row, NULL);
        if (!pack.err) pack_bytes(&pack, FIELD_REPORTED_SHORTFALLS, buf_peek(&service->row));
    }
    return pack.err;
}

static enum report_scope report_scope_of(const report_message *report)
{
    switch ((int)report->scope) {
    case BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_EVERYTHING: return SCOPE_EVERYTHING;
    case BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_DOMAINS: return SCOPE_DOMAINS;
    default: return SCOPE_UNKNOWN;
    }
}

static enum err report_keep(struct fleet_service *service, const report_message *report,
                            struct report_taken *ret_taken)
{
    struct str shard = str_from(report->shard_id);
    mono_time now = loop_now(service->io->loop);
    struct shard_report kept = {
        .shard = shard,
        .address = str_from(report->shard_address),
        .process = report->process_id,
        .provider = str_from(report->summary ? report->summary->provider_address : ""),
        .scope = report_scope_of(report),
        .epoch = report->shard_epoch,
        .cycle = report->cycle,
        .received_at_ns = service_wall_ns(service),
        .has_summary = report->summary != NULL,
        .shortfall_count = report->n_shortfalls,
    };
    enum err err;

    buf_clear(&service->answer);
    buf_clear(&service->row);
    err = pack_shortfalls(service, report);
    kept.shortfalls = buf_peek(&service->answer);
    buf_clear(&service->row);
    if (!err && report->summary) err = message_write(&report->summary->base, &service->row, NULL);
    kept.summary = buf_peek(&service->row);
    if (!err) err = reports_take(service->reports, &kept, now, ret_taken);
    /* The shard is in the tables, but earlier there was no room to record its reports. */
    if (err == ERR_NOT_FOUND) {
        err = reports_add(service->reports, shard, now);
        if (!err) err = reports_take(service->reports, &kept, now, ret_taken);
    }
    return err;
}

/* -- responding -- */

static void report_answer(struct leader_request *request, const struct reported_shard *shard)
{
    struct fleet_service *service = service_of(request);
    struct pack pack = {&service->answer, ERR_OK};
    uint64_t term = service->reports->term;

    buf_clear(&service->answer);
    pack_u64(&pack, FIELD_ANSWERED_TERM, term);
    pack_u64(&pack, FIELD_ANSWERED_ACKNOWLEDGED, true);
    LIST_EACH(&shard->queue, node)
    {
        struct instruction *it = CONTAINER_OF(node, struct instruction, link);

        if (service->answer.len >= ANSWER_BYTES_MAX) break;
        if (it->deliveries < UINT32_MAX) it->deliveries++;
        pack_bytes(&pack, FIELD_ANSWERED_INSTRUCTIONS, it->bytes);
    }
    request_reply_packed(request, &pack);
}

static void report_take(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    const report_message *report = report_of(request);
    struct reported_shard *shard;
    struct report_taken taken;
    enum err err = report_keep(service, report, &taken);

    if (err) {
        service->numbers.reports[REPORT_REFUSED]++;
        request_refuse(request, err_grpc_status(err), "ReportShard: the report of %.*s: %s",
                       STR_ARG(report_shard(request)), err_text(err));
        return;
    }
    shard = reports_find(service->reports, report_shard(request));
    request->acted = true;
    service->numbers.reports[taken.late ? REPORT_LATE : REPORT_TAKEN]++;
    if (taken.back)
        SERVICE_LOG_EVENT(service, INFO, "shard reports again", "shard-back",
                          log_str("shard", shard->id));
    if (taken.conflict) service_conflict_begun(service, shard);
    service_queue_unassigns(service, shard);
    if (taken.first || taken.restarted) service_instruct_domains(service, shard);
    if (!taken.late) service_compare_domains(service, shard, report);
    fleet_heartbeat(service->fleet, shard->id, fleet_time_from_unix_ns(service_wall_ns(service)));
    for (size_t i = 0; i < report->n_instruction_acks; i++)
        report_take_ack(service, shard, report->instruction_acks[i]);
    report_answer(request, shard);
}

static void report_registered(struct leader_request *request, const struct fleet_result *result)
{
    struct fleet_service *service = service_of(request);
    struct fleet_row there;

    if (result->status != FLEET_DONE && result->status != FLEET_SHARD_EXISTS) {
        struct fleet_command command;
        struct note text;

        (void)report_add_shard(request, &command);
        fleet_result_text(&command, result, &text);
        service->numbers.reports[REPORT_REFUSED]++;
        request_refuse(request, GRPC_UNAVAILABLE, "coordinator: register shard: %s", text.text);
    } else if (!leader_leads(&service->leader) ||
               !fleet_find(service->fleet, FLEET_SHARDS, report_shard(request), STR_EMPTY,
                           &there)) {
        request_refuse(request, GRPC_UNAVAILABLE,
                       "coordinator: register shard: it was removed, or leadership lost, "
                       "meanwhile");
    } else {
        report_take(request);
    }
}

/* Without this check, every report would propose a refused command. */
static bool report_tables_are_full(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);

    if (fleet_counts(service->fleet).of[FLEET_SHARDS] < service->options.limits.shards_max)
        return false;
    service->numbers.reports[REPORT_REFUSED]++;
    request_refuse(request, GRPC_UNAVAILABLE,
                   "coordinator: register shard: there are %u already; remove those that are gone",
                   service->options.limits.shards_max);
    return true;
}

static void report_read(struct leader_request *request)
{
    struct fleet_row there;

    if (fleet_find(service_of(request)->fleet, FLEET_SHARDS, report_shard(request), STR_EMPTY,
                   &there))
        report_take(request);
    else if (!report_tables_are_full(request))
        service_write(request);
}

const struct service_method service_report_methods[] = {
    {.base = {.path = "/bigfleet.v1alpha1.Coordinator/ReportShard",
              .name = "ReportShard",
              .input = &bigfleet__v1alpha1__shard_report__descriptor,
              .output = &bigfleet__v1alpha1__report_ack__descriptor,
              .request_max = REQUEST_BYTES_MAX,
              .response_max = REQUEST_BYTES_MAX},
     .admit = report_admit,
     .read = report_read,
     .command = report_add_shard,
     .done = report_registered},
    {.base = {.path = NULL}},
};
