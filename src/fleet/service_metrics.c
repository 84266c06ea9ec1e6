/* SPDX-License-Identifier: Apache-2.0 */
/* The service's numbers. Three names and their labels are the original's, so that its dashboards
 * work (coordinator.md 16); docs/observability.md has them all. */
#include "fleet/service_internal.h"

enum { PENDING_SERIES = METRIC_SERIES_MAX };

void service_count(struct counter *counter)
{
    service_count_many(counter, 1);
}

void service_count_many(struct counter *counter, uint64_t n)
{
    if (counter) counter_add(counter, n);
}

void service_gauge(struct gauge *gauge, double value)
{
    if (gauge) gauge_set(gauge, value);
}

/* A family with one label and a series for each value: of counters, or else of gauges. */
struct labelled {
    const char *name, *help, *label;
    const char *const *values;
    size_t count;
    struct counter **counters;
    struct gauge **gauges;
};

static enum err add_labelled(struct metrics *metrics, const struct labelled *row, struct note *note)
{
    struct metric_options options = {.name = row->name,
                                     .help = row->help,
                                     .kind = row->gauges ? METRIC_GAUGE : METRIC_COUNTER,
                                     .labels = {row->label}};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    for (size_t i = 0; !err && i < row->count; i++) {
        struct str value = str_from(row->values[i]);
        if (row->gauges) row->gauges[i] = metric_gauge(family, &value);
        if (row->counters) row->counters[i] = metric_counter(family, &value);
    }
    return err;
}

const char *const service_ack_names[ACK_OUTCOMES] = {
    "unspecified", "accepted", "rejected_stale", "rejected_invalid",
    "failed",      "other",    "not_waiting"};

static enum err add_all_labelled(struct service_metrics *m, struct metrics *metrics,
                                 struct note *note)
{
    static const char *const tables[FLEET_TABLES] = {"shards", "clusters",  "domains",
                                                     "quotas", "providers", "leaving"};
    static const char *const outcomes[APPLY_OUTCOMES] = {"success", "error", "fsm_error"};
    static const char *const results[REPORT_RESULTS] = {"taken", "late", "refused"};
    static const char *const reasons[DROP_REASONS] = {"full", "shard_removed", "term"};
    const struct labelled rows[] = {
        {"muster_coordinator_rows", "Rows in each replicated table, on every replica.", "table",
         tables, FLEET_TABLES, NULL, m->rows},
        {"bigfleet_coordinator_apply_total", "Writes proposed here, by how they ended.", "outcome",
         outcomes, APPLY_OUTCOMES, m->apply, NULL},
        {"muster_coordinator_reports_total", "Reports of shards, by what became of them.", "result",
         results, REPORT_RESULTS, m->reports, NULL},
        {"muster_coordinator_instruction_acks_total",
         "Acks of instructions, by what the shard said.", "outcome", service_ack_names,
         ACK_OUTCOMES, m->acks, NULL},
        {"muster_coordinator_instructions_dropped_total",
         "Instructions that no shard will carry out, by why.", "reason", reasons, DROP_REASONS,
         m->dropped, NULL},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(rows); i++)
        err = add_labelled(metrics, &rows[i], note);
    return err;
}

static enum err add_pending(struct service_metrics *m, struct metrics *metrics, struct note *note)
{
    struct metric_options options = {
        .name = "bigfleet_coordinator_pending_instructions",
        .help = "Instructions waiting for a shard's ack, on the leader.",
        .kind = METRIC_GAUGE,
        .labels = {"shard"},
        .series_max = PENDING_SERIES,
    };

    return metrics_add(metrics, &options, &m->pending, note);
}

enum err service_metrics_open(struct service_metrics *m, struct metrics *metrics, struct note *note)
{
    const struct {
        const char *name, *help;
        struct gauge **gauge;
    } gauges[] = {
        {"bigfleet_coordinator_raft_term", "Current term of this replica.", &m->term},
        {"muster_coordinator_is_leader", "1 on the replica that leads and may be asked.",
         &m->is_leader},
        {"muster_coordinator_shards_silent",
         "Shards that have not reported for too long, on the leader.", &m->shards_silent},
        {"muster_coordinator_shard_id_conflicts",
         "Shard ids under which two processes report, on the leader.", &m->shard_id_conflicts},
        {"muster_coordinator_shards_unscoped",
         "Shards without domains that share a provider with another shard, on the leader.",
         &m->shards_unscoped},
        {"muster_coordinator_domain_conflicts",
         "Domains that one shard owns and another shard acts on, on the leader.",
         &m->domain_conflicts},
        {"muster_coordinator_soft_state_bytes",
         "Reports and instructions held in memory, on the leader.", &m->soft_bytes},
        {"muster_coordinator_requests", "Calls of the coordinator under way.", &m->requests},
    };
    enum err err = ERR_OK;

    *m = (struct service_metrics){0};
    if (!metrics) return ERR_OK;
    for (size_t i = 0; !err && i < ARRAY_LEN(gauges); i++)
        err = metrics_add_gauge(metrics, gauges[i].name, gauges[i].help, gauges[i].gauge, note);
    if (!err) err = add_pending(m, metrics, note);
    if (!err) err = add_all_labelled(m, metrics, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_coordinator_instructions_queued_total",
                                  "Instructions queued for shards.", &m->queued, note);
    return err;
}

/* -- setting -- */

void service_pending_gauge(struct fleet_service *service, const struct reported_shard *shard)
{
    if (service->metrics.pending)
        gauge_set(metric_gauge(service->metrics.pending, &shard->id),
                  (double)reports_pending(shard));
}

void service_pending_gauges(struct fleet_service *service)
{
    const struct reported_shard *shard;
    size_t cursor = 0;

    if (!service->metrics.pending) return;
    metric_round_begin(service->metrics.pending);
    while ((shard = reports_next(service->reports, &cursor)))
        if (shard->reported || reports_pending(shard)) service_pending_gauge(service, shard);
    metric_round_end(service->metrics.pending);
}

void service_gauges(struct fleet_service *service)
{
    struct service_metrics *m = &service->metrics;
    struct fleet_counts counts = fleet_counts(service->fleet);

    service_gauge(m->term, (double)service->leader.term);
    service_gauge(m->is_leader, service->leader.ready ? 1 : 0);
    service_gauge(m->shards_silent, (double)service->reports->silent_count);
    service_gauge(m->shard_id_conflicts, (double)service->reports->conflict_count);
    service_gauge(m->domain_conflicts, (double)service->reports->stray_count);
    service_gauge(m->shards_unscoped, service->leader.led ? (double)service->unscoped : 0);
    service_gauge(m->soft_bytes, (double)service->reports->bytes);
    service_gauge(m->requests, service->leader.request_count);
    for (size_t i = 0; i < FLEET_TABLES; i++) service_gauge(m->rows[i], counts.of[i]);
}
