/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of membership; docs/observability.md has them all. */
#include "member/events/events.h"
#include "member/ledger/ledger.h"
#include "member/service_internal.h"

static enum err add_gauges(struct member_metrics *m, struct metrics *metrics, struct note *note)
{
    const struct {
        const char *name, *help;
        struct gauge **gauge;
    } gauges[] = {
        {"muster_member_assignment_epoch", "Changes of who may own partitions.",
         &m->assignment_epoch},
        {"muster_member_coord_epoch", "Leaderships so far.", &m->coord_epoch},
        {"muster_member_streams", "Control streams of workers, on the leader.", &m->streams},
        {"muster_member_beats_waiting", "Beats not yet answered on this replica.", &m->waiting},
        {"muster_member_scan_lag_seconds", "How late the last scan came.", &m->scan_lag},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(gauges); i++)
        err = metrics_add_gauge(metrics, gauges[i].name, gauges[i].help, gauges[i].gauge, note);
    return err;
}

static enum err add_counters(struct member_metrics *m, struct metrics *metrics, struct note *note)
{
    const struct {
        const char *name, *help;
        struct counter **counter;
    } counters[] = {
        {"muster_member_beats_total", "Beats that came to this replica.", &m->beats},
        {"muster_member_beat_errors_total", "Beats that were refused.", &m->refused},
        {"muster_member_beats_overdue_total", "Of them: no answer within beat_reply_max.",
         &m->overdue},
        {"muster_member_beat_rounds_total", "Leadership rounds beats were acknowledged behind.",
         &m->rounds},
        {"muster_member_beats_passed_total", "Beats passed on to the leader.", &m->passed},
        {"muster_member_suspicions_total", "Workers suspected, on the leader.", &m->suspicions},
        {"muster_member_recoveries_total", "Of them: that beat again.", &m->recoveries},
        {"muster_member_clock_skew_total", "Beats whose clock was off.", &m->skews},
        {"muster_member_ids_in_use_total",
         "Beats and registrations refused: another process has the worker id.", &m->in_use},
        {"muster_member_bad_loads_total", "Loads that were none.", &m->bad_loads},
        {"muster_member_checkpoint_rounds_total", "Checkpoint rounds, on the leader.",
         &m->checkpoint_rounds},
        {"muster_member_checkpoint_stale_total", "Acknowledgements of a grant that was over.",
         &m->stale_acks},
        {"muster_member_checkpoint_missed_total", "Rounds a worker was left out of.",
         &m->missed_rounds},
        {"muster_member_replicated_entries_total", "Entries of the log, on the leader.",
         &m->entries},
        {"muster_member_operations_total", "Operations that they carried.", &m->operations},
        {"muster_member_events_suppressed_total", "Heartbeat lines not written.", &m->suppressed},
        {"muster_member_events_dropped_total", "Heartbeat lines without room.", &m->dropped},
        {"muster_member_ledger_rows_total", "Rows written to the heartbeat ledger.",
         &m->ledger_rows},
        {"muster_member_ledger_failures_total", "Rounds of the ledger that could not be written.",
         &m->ledger_failures},
        {"muster_member_ledger_skipped_total", "Rounds left out while the log's sync was slow.",
         &m->ledger_skipped},
        {"muster_member_ledger_dropped_total", "Rows that found no room.", &m->ledger_dropped},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(counters); i++)
        err = metrics_add_counter(metrics, counters[i].name, counters[i].help, counters[i].counter,
                                  note);
    return err;
}

static enum err add_labelled(struct metrics *metrics, const char *name, const char *help,
                             const char *label, const char *const *values, struct gauge **gauges,
                             struct note *note)
{
    struct metric_options options = {
        .name = name, .help = help, .kind = METRIC_GAUGE, .labels = {label}};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    for (size_t i = 0; !err && i < 4; i++)
        gauges[i] = metric_gauge(family, (const struct str[]){str_from(values[i])});
    return err;
}

static enum err add_histogram(struct metrics *metrics, const char *name, const char *help,
                              struct histogram **ret_histogram, struct note *note)
{
    static const double buckets[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                     0.05,   0.1,   0.2,    0.5,   1};
    struct metric_options options = {.name = name,
                                     .help = help,
                                     .kind = METRIC_HISTOGRAM,
                                     .buckets = buckets,
                                     .bucket_count = ARRAY_LEN(buckets)};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    if (!err) *ret_histogram = metric_histogram(family, NULL);
    return err;
}

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

enum err member_metrics_open(struct member_metrics *m, struct metrics *metrics, struct note *note)
{
    static const char *const standings[] = {"active", "suspected", "dead", "removed"};
    static const char *const states[] = {"free", "owned", "revoking", "fencing"};
    enum err err;

    *m = (struct member_metrics){0};
    if (!metrics) return ERR_OK;
    err = add_gauges(m, metrics, note);
    if (!err) err = add_counters(m, metrics, note);
    if (!err) err = add_by_reason(m, metrics, note);
    if (!err)
        err = add_labelled(metrics, "muster_member_workers", "Workers by standing.", "standing",
                           standings, m->standing, note);
    if (!err)
        err = add_labelled(metrics, "muster_member_partitions", "Partitions by state.", "state",
                           states, m->partitions, note);
    if (!err)
        err = add_histogram(metrics, "muster_member_beat_reply_seconds",
                            "From a beat's coming to its answer.", &m->reply, note);
    return err ? err
               : add_histogram(metrics, "muster_member_scan_seconds",
                               "What looking for silent workers took.", &m->scan, note);
}

static void count_local(struct member_service *service)
{
    struct member_metrics *m = &service->metrics;
    struct member_local_counts counts;

    if (!service->local) return;
    counts = member_local_counts(service->local);
    /* Of this leadership: they begin anew with each, and a counter never falls. */
    counter_raise_to(m->suspicions, counts.suspicions);
    counter_raise_to(m->recoveries, counts.recoveries);
    counter_raise_to(m->skews, counts.skews);
    counter_raise_to(m->in_use, counts.in_use);
    counter_raise_to(m->bad_loads, counts.bad_loads);
    counter_raise_to(m->stale_acks, counts.stale_acks);
    counter_raise_to(m->missed_rounds, counts.missed_rounds);
    counter_raise_to(m->checkpoint_rounds, counts.round);
    gauge_set(m->scan_lag, (double)counts.scan_late_ns / 1e9);
}

void member_gauges(struct member_service *service)
{
    struct member_metrics *m = &service->metrics;
    struct beats_stats stats = beats_stats(service->beats);
    struct cluster_numbers n;

    if (!m->beats) return;
    n = cluster_numbers(service);
    gauge_set(m->standing[SHOWN_ACTIVE], (double)n.active);
    gauge_set(m->standing[SHOWN_SUSPECTED], (double)n.suspected);
    gauge_set(m->standing[SHOWN_DEAD], (double)n.dead);
    gauge_set(m->standing[SHOWN_REMOVED], n.counts.tombstones);
    for (size_t i = 0; i < ARRAY_LEN(m->partitions); i++)
        gauge_set(m->partitions[i], n.counts.of_state[i]);
    gauge_set(m->assignment_epoch, (double)n.counts.assignment_epoch);
    gauge_set(m->coord_epoch, (double)n.counts.coord_epoch);
    gauge_set(m->streams, (double)control_streams(service->control));
    gauge_set(m->waiting, (double)stats.waiting);
    counter_raise_to(m->beats, stats.beats + stats.passed);
    counter_raise_to(m->refused, stats.refused);
    counter_raise_to(m->overdue, stats.overdue);
    counter_raise_to(m->rounds, stats.rounds);
    counter_raise_to(m->passed, stats.passed);
    if (service->options.events) {
        struct member_events_stats events = member_events_stats(service->options.events);

        counter_raise_to(m->suppressed, events.suppressed);
        counter_raise_to(m->dropped, events.dropped);
    }
    if (service->options.ledger) {
        struct member_ledger_stats ledger = member_ledger_stats(service->options.ledger);

        counter_raise_to(m->ledger_rows, ledger.rows);
        counter_raise_to(m->ledger_failures, ledger.failures);
        counter_raise_to(m->ledger_skipped, ledger.skipped);
        counter_raise_to(m->ledger_dropped, ledger.dropped);
    }
    count_local(service);
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
