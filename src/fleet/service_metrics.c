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

static enum err add_counters(struct metrics *metrics, const char *name, const char *help,
                             const char *label, const char *const *values, size_t count,
                             struct counter **ret_counters, struct note *note)
{
    struct metric_options options = {
        .name = name, .help = help, .kind = METRIC_COUNTER, .labels = {label}};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    for (size_t i = 0; !err && i < count; i++)
        ret_counters[i] = metric_counter(family, (const struct str[]){str_from(values[i])});
    return err;
}

static enum err add_rows(struct service_metrics *m, struct metrics *metrics, struct note *note)
{
    static const char *const tables[] = {"shards", "clusters",  "domains",
                                         "quotas", "providers", "leaving"};
    struct metric_options options = {
        .name = "muster_coordinator_rows",
        .help = "Rows in each replicated table, on every replica.",
        .kind = METRIC_GAUGE,
        .labels = {"table"},
    };
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    static_assert(ARRAY_LEN(tables) == FLEET_TABLES, "a name per table");
    for (size_t i = 0; !err && i < FLEET_TABLES; i++)
        m->rows[i] = metric_gauge(family, (const struct str[]){str_from(tables[i])});
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

static enum err add_all_counters(struct service_metrics *m, struct metrics *metrics,
                                 struct note *note)
{
    static const char *const outcomes[] = {"success", "error", "fsm_error"};
    static const char *const results[] = {"taken", "late", "refused"};
    static const char *const acks[] = {"unspecified",      "accepted", "rejected_stale",
                                       "rejected_invalid", "failed",   "other",
                                       "not_waiting"};
    static const char *const reasons[] = {"full", "shard_removed", "term"};
    enum err err = add_counters(metrics, "bigfleet_coordinator_apply_total",
                                "Writes proposed here, by how they ended.", "outcome", outcomes,
                                ARRAY_LEN(outcomes), m->apply, note);

    static_assert(ARRAY_LEN(outcomes) == APPLY_OUTCOMES, "");
    static_assert(ARRAY_LEN(results) == REPORT_RESULTS, "");
    static_assert(ARRAY_LEN(acks) == ACK_OUTCOMES, "");
    static_assert(ARRAY_LEN(reasons) == DROP_REASONS, "");
    if (!err)
        err = add_counters(metrics, "muster_coordinator_reports_total",
                           "Reports of shards, by what became of them.", "result", results,
                           ARRAY_LEN(results), m->reports, note);
    if (!err)
        err = add_counters(metrics, "muster_coordinator_instruction_acks_total",
                           "Acks of instructions, by what the shard said.", "outcome", acks,
                           ARRAY_LEN(acks), m->acks, note);
    if (!err)
        err = add_counters(metrics, "muster_coordinator_instructions_dropped_total",
                           "Instructions that no shard will carry out, by why.", "reason", reasons,
                           ARRAY_LEN(reasons), m->dropped, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_coordinator_instructions_queued_total",
                                  "Instructions queued for shards.", &m->queued, note);
    return err;
}

enum err service_metrics_open(struct service_metrics *m, struct metrics *metrics, struct note *note)
{
    enum err err;

    *m = (struct service_metrics){0};
    if (!metrics) return ERR_OK;
    err = metrics_add_gauge(metrics, "bigfleet_coordinator_raft_term",
                            "Current term of this replica.", &m->term, note);
    if (!err)
        err =
            metrics_add_gauge(metrics, "muster_coordinator_is_leader",
                              "1 on the replica that leads and may be asked.", &m->is_leader, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_coordinator_shards_silent",
                                "Shards that have not reported for too long, on the leader.",
                                &m->shards_silent, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_coordinator_shard_id_conflicts",
                                "Shard ids under which two processes report, on the leader.",
                                &m->shard_id_conflicts, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_coordinator_shards_unscoped",
                                "Shards without domains that share a provider with another shard, "
                                "on the leader.",
                                &m->shards_unscoped, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_coordinator_domain_conflicts",
                                "Domains that one shard owns and another shard acts on, on the "
                                "leader.",
                                &m->domain_conflicts, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_coordinator_soft_state_bytes",
                                "Reports and instructions held in memory, on the leader.",
                                &m->soft_bytes, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_coordinator_requests",
                                "Calls of the coordinator under way.", &m->requests, note);
    if (!err) err = add_rows(m, metrics, note);
    if (!err) err = add_pending(m, metrics, note);
    return err ? err : add_all_counters(m, metrics, note);
}

/* -- setting -- */

static void set_pending(struct fleet_service *service, struct str shard, size_t pending)
{
    gauge_set(metric_gauge(service->metrics.pending, &shard), (double)pending);
}

void service_pending_gauge(struct fleet_service *service, struct str shard)
{
    if (service->metrics.pending) set_pending(service, shard, desk_pending(service->desk, shard));
}

void service_pending_gauges(struct fleet_service *service)
{
    struct desk_shard shard;
    size_t cursor = 0;

    if (!service->metrics.pending) return;
    metric_round_begin(service->metrics.pending);
    while (desk_next(service->desk, &cursor, &shard))
        if (shard.reported || shard.pending) set_pending(service, shard.id, shard.pending);
    metric_round_end(service->metrics.pending);
}

void service_gauges(struct fleet_service *service)
{
    struct service_metrics *m = &service->metrics;
    struct fleet_counts counts = fleet_counts(service->fleet);

    service_gauge(m->term, (double)service->leader.term);
    service_gauge(m->is_leader, service->leader.ready ? 1 : 0);
    service_gauge(m->shards_silent, (double)desk_silent_count(service->desk));
    service_gauge(m->shard_id_conflicts, (double)desk_conflict_count(service->desk));
    service_gauge(m->domain_conflicts, (double)desk_stray_count(service->desk));
    service_gauge(m->shards_unscoped, service->leader.led ? (double)service->unscoped : 0);
    service_gauge(m->soft_bytes, (double)desk_bytes(service->desk));
    service_gauge(m->requests, service->leader.request_count);
    for (size_t i = 0; i < FLEET_TABLES; i++) service_gauge(m->rows[i], counts.of[i]);
}
