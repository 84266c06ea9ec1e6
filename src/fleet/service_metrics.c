/* SPDX-License-Identifier: Apache-2.0 */
/* The service's metrics, listed in docs/observability.md. Values derived from state are computed
 * when metrics are written, on the event loop's thread. Three metrics have the original's names and
 * labels for its dashboards (coordinator.md 16). */
#include "fleet/service_internal.h"

const char *const service_ack_names[ACK_OUTCOMES] = {
    "unspecified", "accepted", "rejected_stale", "rejected_invalid",
    "failed",      "other",    "not_waiting"};

#define SERVICE_METRICS_NUMBER(kind, member)                                                       \
    METRIC_##kind, METRIC_FIELD(struct service_numbers, member)
#define SERIES(name, help, kind, by, is, member)                                                   \
    {                                                                                              \
        name, help, SERVICE_METRICS_NUMBER(kind, member), .label = by, .value = is                 \
    }
#define APPLY(is, n)                                                                               \
    SERIES("bigfleet_coordinator_apply_total",                                                     \
           "Fleet commands proposed by this replica, by outcome.", COUNTER, "outcome", is,         \
           apply[n])
#define REPORTS(is, n)                                                                             \
    SERIES("muster_coordinator_reports_total", "Reports of shards by result.", COUNTER, "result",  \
           is, reports[n])
#define ACKS(is, n)                                                                                \
    SERIES("muster_coordinator_instruction_acks_total",                                            \
           "Acknowledgements of instructions, by the outcome that the shard reported.", COUNTER,   \
           "outcome", is, acks[n])
#define DROPPED(is, n)                                                                             \
    SERIES("muster_coordinator_instructions_dropped_total",                                        \
           "Instructions removed before a shard executed them, by reason.", COUNTER, "reason", is, \
           dropped[n])
#define ROWS(is, n)                                                                                \
    SERIES("muster_coordinator_rows", "Rows in each replicated table, on every replica.", GAUGE,   \
           "table", is, counts.of[n])

static const struct metric_field service_metrics_number_rows[] = {
    {"bigfleet_coordinator_raft_term", "Current term of this replica.",
     SERVICE_METRICS_NUMBER(GAUGE, term)},
    {"muster_coordinator_is_leader", "1 while this replica leads and answers requests.",
     SERVICE_METRICS_NUMBER(GAUGE, is_leader)},
    {"muster_coordinator_shards_silent",
     "Shards whose last report is older than shard-silent-after, on the leader.",
     SERVICE_METRICS_NUMBER(GAUGE, shards_silent)},
    {"muster_coordinator_shard_id_conflicts",
     "Shard ids under which two processes report, on the leader.",
     SERVICE_METRICS_NUMBER(GAUGE, shard_id_conflicts)},
    {"muster_coordinator_shards_unscoped",
     "Shards without domains that share a provider with another shard, on the leader.",
     SERVICE_METRICS_NUMBER(GAUGE, shards_unscoped)},
    {"muster_coordinator_domain_conflicts",
     "Domains that one shard owns and another shard acts on, on the leader.",
     SERVICE_METRICS_NUMBER(GAUGE, domain_conflicts)},
    {"muster_coordinator_soft_state_bytes",
     "Memory used by reports and instructions, on the leader.",
     SERVICE_METRICS_NUMBER(GAUGE, soft_bytes)},
    {"muster_coordinator_requests", "Coordinator calls in progress.",
     SERVICE_METRICS_NUMBER(GAUGE, requests)},
    {"muster_coordinator_instructions_queued_total", "Instructions queued for shards.",
     SERVICE_METRICS_NUMBER(COUNTER, queued)},
    APPLY("success", APPLY_SUCCESS),
    APPLY("error", APPLY_ERROR),
    APPLY("fsm_error", APPLY_FSM_ERROR),
    REPORTS("taken", REPORT_TAKEN),
    REPORTS("late", REPORT_LATE),
    REPORTS("refused", REPORT_REFUSED),
    ACKS("unspecified", 0),
    ACKS("accepted", 1),
    ACKS("rejected_stale", 2),
    ACKS("rejected_invalid", 3),
    ACKS("failed", 4),
    ACKS("other", ACK_OTHER),
    ACKS("not_waiting", ACK_UNKNOWN),
    DROPPED("full", DROP_FULL),
    DROPPED("shard_removed", DROP_SHARD),
    DROPPED("term", DROP_TERM),
    ROWS("shards", FLEET_SHARDS),
    ROWS("clusters", FLEET_CLUSTERS),
    ROWS("domains", FLEET_DOMAINS),
    ROWS("quotas", FLEET_QUOTAS),
    ROWS("providers", FLEET_PROVIDERS),
    ROWS("leaving", FLEET_LEAVING),
};

/* Rebuilds the metric family, so that removed shards have no value. */
static void metrics_collect_pending(struct fleet_service *service)
{
    const struct reported_shard *shard;
    size_t cursor = 0;

    metric_round_begin(service->pending);
    while ((shard = reports_next(service->reports, &cursor)))
        if (shard->reported || reports_pending(shard))
            gauge_set(metric_gauge(service->pending, &shard->id), (double)reports_pending(shard));
    metric_round_end(service->pending);
}

static void metrics_collect(void *context)
{
    struct fleet_service *service = context;
    struct service_numbers *numbers = &service->numbers;

    numbers->term = service->leader.term;
    numbers->is_leader = service->leader.ready;
    numbers->shards_silent = service->reports->silent_count;
    numbers->shard_id_conflicts = service->reports->conflict_count;
    numbers->domain_conflicts = service->reports->stray_count;
    numbers->shards_unscoped = service->leader.led ? service->unscoped : 0;
    numbers->soft_bytes = service->reports->bytes;
    numbers->requests = service->leader.request_count;
    numbers->counts = fleet_counts(service->fleet);
    metrics_set_fields(service->fields, numbers);
    metrics_collect_pending(service);
}

enum err service_metrics_open(struct fleet_service *service, struct note *note)
{
    struct metric_options pending = {
        .name = "bigfleet_coordinator_pending_instructions",
        .help = "Instructions that the shard has not acknowledged, on the leader.",
        .kind = METRIC_GAUGE,
        .labels = {"shard"},
        .series_max = METRIC_SERIES_MAX,
    };
    enum err err = metrics_add(service->options.metrics, &pending, &service->pending, note);

    if (!err)
        err = metrics_add_fields(service->options.metrics, service_metrics_number_rows,
                                 ARRAY_LEN(service_metrics_number_rows), &service->fields, note);
    return err ? err : metrics_on_write(service->options.metrics, metrics_collect, service);
}

void service_metrics_close(struct fleet_service *service)
{
    metrics_off_write(service->options.metrics, metrics_collect, service);
}
