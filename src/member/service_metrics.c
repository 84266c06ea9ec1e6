/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of membership; docs/observability.md lists all of them. */
#include "member/events/events.h"
#include "member/ledger/ledger.h"
#include "member/service_internal.h"

#define COUNTER(type, member)    METRIC_COUNTER, METRIC_FIELD(struct type, member)
#define GAUGE(type, member)      METRIC_GAUGE, METRIC_FIELD(struct type, member)
#define BY(its_label, its_value) .label = its_label, .value = its_value

static const struct metric_field cluster_rows[] = {
    {"muster_member_assignment_epoch", "Changes of who may own partitions.",
     GAUGE(cluster_numbers, counts.assignment_epoch)},
    {"muster_member_coord_epoch", "Leaderships so far.",
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
    {"muster_member_replicated_entries_total", "Entries of the log, on the leader.",
     COUNTER(cluster_numbers, entries)},
    {"muster_member_operations_total", "Operations that they carried.",
     COUNTER(cluster_numbers, operations)},
};
static const struct metric_field beat_rows[] = {
    {"muster_member_beats_total", "Beats that came to this replica.", COUNTER(beats_stats, came)},
    {"muster_member_beat_errors_total", "Beats that were refused.", COUNTER(beats_stats, refused)},
    {"muster_member_beats_overdue_total", "Of them: no answer within beat_reply_max.",
     COUNTER(beats_stats, overdue)},
    {"muster_member_beat_rounds_total", "Leadership rounds beats were acknowledged behind.",
     COUNTER(beats_stats, rounds)},
    {"muster_member_beats_passed_total", "Beats passed on to the leader.",
     COUNTER(beats_stats, passed)},
    {"muster_member_beats_waiting", "Beats not yet answered on this replica.",
     GAUGE(beats_stats, waiting)},
};
/* Counters that restart with each leadership. The exported counters never decrease. */
static const struct metric_field local_rows[] = {
    {"muster_member_suspicions_total", "Workers suspected, on the leader.",
     COUNTER(member_local_counts, suspicions)},
    {"muster_member_recoveries_total", "Of them: that beat again.",
     COUNTER(member_local_counts, recoveries)},
    {"muster_member_clock_skew_total", "Beats whose clock was off.",
     COUNTER(member_local_counts, skews)},
    {"muster_member_ids_in_use_total",
     "Beats and registrations refused: another process has the worker id.",
     COUNTER(member_local_counts, in_use)},
    {"muster_member_bad_loads_total", "Loads that were none.",
     COUNTER(member_local_counts, bad_loads)},
    {"muster_member_checkpoint_rounds_total", "Checkpoint rounds, on the leader.",
     COUNTER(member_local_counts, round)},
    {"muster_member_checkpoint_stale_total", "Acknowledgements of a grant that was over.",
     COUNTER(member_local_counts, stale_acks)},
    {"muster_member_checkpoint_missed_total", "Rounds a worker was left out of.",
     COUNTER(member_local_counts, missed_rounds)},
    {"muster_member_scan_lag_seconds", "How late the last scan came.",
     GAUGE(member_local_counts, scan_late_ns), .per_unit = 1e9},
};
static const struct metric_field event_rows[] = {
    {"muster_member_events_suppressed_total", "Heartbeat lines not written.",
     COUNTER(member_events_stats, suppressed)},
    {"muster_member_events_dropped_total", "Heartbeat lines without room.",
     COUNTER(member_events_stats, dropped)},
};
static const struct metric_field ledger_rows[] = {
    {"muster_member_ledger_rows_total", "Rows written to the heartbeat ledger.",
     COUNTER(member_ledger_stats, rows)},
    {"muster_member_ledger_failures_total", "Rounds of the ledger that could not be written.",
     COUNTER(member_ledger_stats, failures)},
    {"muster_member_ledger_skipped_total", "Rounds left out while the log's sync was slow.",
     COUNTER(member_ledger_stats, skipped)},
    {"muster_member_ledger_dropped_total", "Rows that found no room.",
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
               : metrics_add(metrics,
                             &(struct metric_options){.name = "muster_member_partition_moves_total",
                                                      .help = "Partitions that were to move.",
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
                                    "From a beat's coming to its answer.", seconds,
                                    ARRAY_LEN(seconds), &m->reply, note);
    return err ? err
               : metrics_add_histogram(metrics, "muster_member_scan_seconds",
                                       "What looking for silent workers took.", seconds,
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
