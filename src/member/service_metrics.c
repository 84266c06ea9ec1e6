/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of membership; docs/observability.md lists all of them. */
#include "member/events/events.h"
#include "member/ledger/ledger.h"
#include "member/service_internal.h"

#define COUNTER(type, member)    METRIC_COUNTER, METRIC_FIELD(struct type, member)
#define GAUGE(type, member)      METRIC_GAUGE, METRIC_FIELD(struct type, member)
#define BY(its_label, its_value) .label = its_label, .value = its_value

static const struct metric_field cluster_rows[] = {
    {"muster_member_assignment_epoch", "Epoch of the partition assignment.",
     GAUGE(cluster_numbers, counts.assignment_epoch)},
    {"muster_member_coord_epoch", "Coordinator epoch: increases with every change of leadership.",
     GAUGE(cluster_numbers, counts.coord_epoch)},
    {"muster_member_streams", "Control streams of workers, on the leader.",
     GAUGE(cluster_numbers, streams)},
    {"muster_member_workers", "Workers by standing.", GAUGE(cluster_numbers, active),
     BY("standing", "active")},
    {"muster_member_workers", "", GAUGE(cluster_numbers, suspected), BY("standing", "suspected")},
    {"muster_member_workers", "", GAUGE(cluster_numbers, dead), BY("standing", "dead")},
    {"muster_member_workers", "", GAUGE(cluster_numbers, counts.tombstones),
     BY("standing", "removed")},
    {"muster_member_partitions", "Partitions by state.",
     GAUGE(cluster_numbers, counts.of_state[MEMBER_FREE]), BY("state", "free")},
    {"muster_member_partitions", "", GAUGE(cluster_numbers, counts.of_state[MEMBER_OWNED]),
     BY("state", "owned")},
    {"muster_member_partitions", "", GAUGE(cluster_numbers, counts.of_state[MEMBER_REVOKING]),
     BY("state", "revoking")},
    {"muster_member_partitions", "", GAUGE(cluster_numbers, counts.of_state[MEMBER_FENCING]),
     BY("state", "fencing")},
    {"muster_member_replicated_entries_total",
     "Entries of the log with worker operations, on the leader.",
     COUNTER(cluster_numbers, entries)},
    {"muster_member_operations_total", "Worker operations in replicated entries, on the leader.",
     COUNTER(cluster_numbers, operations)},
};
static const struct metric_field beat_rows[] = {
    {"muster_member_beats_total", "Heartbeats received by this replica.",
     COUNTER(beats_stats, came)},
    {"muster_member_beat_errors_total", "Heartbeats that were refused.",
     COUNTER(beats_stats, refused)},
    {"muster_member_beats_overdue_total", "Heartbeats without an answer within beat_reply_max.",
     COUNTER(beats_stats, overdue)},
    {"muster_member_beat_rounds_total", "Leadership rounds that acknowledged heartbeats.",
     COUNTER(beats_stats, rounds)},
    {"muster_member_beats_passed_total", "Heartbeats forwarded to the leader.",
     COUNTER(beats_stats, passed)},
    {"muster_member_beats_waiting", "Heartbeats that this replica has not answered yet.",
     GAUGE(beats_stats, waiting)},
};
/* Counters that restart with each leadership. The exported counters never decrease. */
static const struct metric_field local_rows[] = {
    {"muster_member_suspicions_total", "Workers suspected, on the leader.",
     COUNTER(member_local_counts, suspicions)},
    {"muster_member_recoveries_total", "Suspected workers that sent a heartbeat again.",
     COUNTER(member_local_counts, recoveries)},
    {"muster_member_clock_skew_total",
     "Heartbeats whose timestamp differs too much from the leader's clock.",
     COUNTER(member_local_counts, skews)},
    {"muster_member_ids_in_use_total",
     "Heartbeats and registrations refused because another process uses the worker id.",
     COUNTER(member_local_counts, in_use)},
    {"muster_member_bad_loads_total", "Heartbeats with an invalid load value.",
     COUNTER(member_local_counts, bad_loads)},
    {"muster_member_checkpoint_rounds_total", "Checkpoint rounds, on the leader.",
     COUNTER(member_local_counts, round)},
    {"muster_member_checkpoint_stale_total",
     "Checkpoint acknowledgements for a grant that had ended.",
     COUNTER(member_local_counts, stale_acks)},
    {"muster_member_checkpoint_missed_total", "Workers left out of a checkpoint round.",
     COUNTER(member_local_counts, missed_rounds)},
    {"muster_member_scan_lag_seconds", "Delay of the last scan for silent workers.",
     GAUGE(member_local_counts, scan_late_ns), .per_unit = 1e9},
};
static const struct metric_field event_rows[] = {
    {"muster_member_events_suppressed_total", "Heartbeat event lines left out by sampling.",
     COUNTER(member_events_stats, suppressed)},
    {"muster_member_events_dropped_total",
     "Heartbeat event lines dropped because the queue was full.",
     COUNTER(member_events_stats, dropped)},
};
static const struct metric_field ledger_rows[] = {
    {"muster_member_ledger_rows_total", "Rows written to the heartbeat ledger.",
     COUNTER(member_ledger_stats, rows)},
    {"muster_member_ledger_failures_total", "Failed writes of the heartbeat ledger.",
     COUNTER(member_ledger_stats, failures)},
    {"muster_member_ledger_skipped_total",
     "Writes of the heartbeat ledger skipped while the log's sync was slow.",
     COUNTER(member_ledger_stats, skipped)},
    {"muster_member_ledger_dropped_total",
     "Rows of the heartbeat ledger dropped because the queue was full.",
     COUNTER(member_ledger_stats, dropped)},
};

static const double seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1};

static enum err add_by_reason(struct member_metrics *m, struct metrics *metrics, struct note *note)
{
    enum err err = metrics_add(metrics,
                               &(struct metric_options){.name = "muster_member_failures_total",
                                                        .help = "Workers declared dead.",
                                                        .kind = METRIC_COUNTER,
                                                        .labels = {"reason"}},
                               &m->failures, note);

    return err ? err
               : metrics_add(
                     metrics,
                     &(struct metric_options){.name = "muster_member_partition_moves_total",
                                              .help = "Partitions assigned to another worker.",
                                              .kind = METRIC_COUNTER,
                                              .labels = {"cause"}},
                     &m->moves, note);
}

#define ADD(which) metrics_add_fields(metrics, which, ARRAY_LEN(which), &m->which, note)
enum err member_metrics_open(struct member_metrics *m, struct metrics *metrics, struct note *note)
{
    enum err err;

    *m = (struct member_metrics){0};
    if (!metrics) return ERR_OK;
    err = ADD(cluster_rows);
    if (!err) err = ADD(beat_rows);
    if (!err) err = ADD(local_rows);
    if (!err) err = ADD(event_rows);
    if (!err) err = ADD(ledger_rows);
    if (!err) err = add_by_reason(m, metrics, note);
    if (!err)
        err = metrics_add_histogram(metrics, "muster_member_beat_reply_seconds",
                                    "Time from the arrival of a heartbeat to its answer.", seconds,
                                    ARRAY_LEN(seconds), &m->reply, note);
    return err ? err
               : metrics_add_histogram(metrics, "muster_member_scan_seconds",
                                       "Duration of a scan for silent workers.", seconds,
                                       ARRAY_LEN(seconds), &m->scan, note);
}

void member_gauges(struct member_service *service)
{
    struct member_metrics *m = &service->metrics;
    struct beats_stats beats = service->beats.stats;
    struct member_events_stats events = member_events_stats(service->options.events);
    struct member_ledger_stats ledger = member_ledger_stats(service->options.ledger);
    struct cluster_numbers cluster;

    if (!m->cluster_rows) return;
    cluster = cluster_numbers(service);
    cluster.streams = service->control_streams;
    cluster.entries = m->entries;
    cluster.operations = m->operations;
    metrics_set_fields(m->cluster_rows, &cluster);
    metrics_set_fields(m->beat_rows, &beats);
    metrics_set_fields(m->event_rows, &events);
    metrics_set_fields(m->ledger_rows, &ledger);
    if (service->local) {
        struct member_local_counts counts = member_local_counts(service->local);

        metrics_set_fields(m->local_rows, &counts);
    }
}

void member_counted(struct member_service *service, const struct member_event *event)
{
    struct member_metrics *m = &service->metrics;
    struct str text = event->text;

    if (!m->failures) return;
    if (event->topic == MEMBER_EV_FAILED)
        counter_inc(
            metric_counter(m->failures, (const struct str[]){text.len ? text : STR("deadline")}));
    if (event->topic == MEMBER_EV_ASSIGNMENT_CHANGED && event->count)
        counter_add(metric_counter(m->moves, &text), event->count);
}
