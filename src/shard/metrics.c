/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/metrics.h"

#include <stdlib.h>

#include "model/penalty.h"
#include "shard/audit.h"

#define PREFIX "bigfleet_shard_"
enum {
    KINDS = ACTION_DELETE + 1,
    BUCKETS = PENALTY_BUCKET_COUNT,
    FAULTS = MACHINE_FAULT_PRICE + 1,
    CLUSTERS_SHOWN = 4096,
};

static const char *const phase_names[SHARD_PHASES] = {"reconcile", "snapread", "phase1", "phase2",
                                                      "phase3",    "emit",     "execute"};

const char *shard_phase_name(enum shard_phase phase)
{
    return phase_names[phase];
}
enum { SESSION_INSTALLED, SESSION_REPLACED, SESSION_REMOVED, SESSION_EVENTS };
static const char *const session_names[SESSION_EVENTS] = {"installed", "replaced", "removed"};

struct shard_metrics {
    struct counter *actions[KINDS], *outcomes[KINDS][OUTCOME_COUNT];
    struct counter *suppressed[KINDS], *dryrun[KINDS];
    struct counter *deferred, *dropped, *deduped, *capped, *idle_releases, *identity_rejected;
    struct counter *rejected[FAULTS], *sessions[SESSION_EVENTS];
    struct counter *called_again, *given_back, *delete_unsupported;
    struct counter *observed, *foreign, *lists_held, *lists, *lists_failed, *listed;
    struct counter *unread, *refused, *superseded, *rollups, *rollups_superseded, *blobs_stray,
        *blobs_refused;
    struct gauge *rollup_bytes, *outbox_bytes, *blob_bytes;
    struct counter *drain_waits[DRAIN_WAIT_COUNT];
    struct gauge *drains_waiting, *blobs_waiting;
    struct gauge *queue_depth, *inflight, *paused, *fenced, *shortfalls, *active_sessions,
        *in_doubt;
    struct gauge *aged[SHORTFALL_AGES], *by_class[SHORTFALL_CLASSES];
    struct gauge *demand[BUCKETS];
    struct histogram *cycle, *phases[SHARD_PHASES], *observes[OBSERVE_COUNT], *list_seconds;
    struct metric_family *inventory, *quarantined, *rollups_rejected;
};

/* -- opening: families as tables -- */

static const double fast[] = {0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064,
                              0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192};
static const double slow[] = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64,   1.28,
                              2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68};

struct opening {
    struct metrics *metrics;
    struct note *note;
    enum err err; /* the first */
};

static struct metric_family *add(struct opening *o, struct metric_options options)
{
    struct metric_family *family = NULL;

    if (!o->err) o->err = metrics_add(o->metrics, &options, &family, o->note);
    return o->err ? NULL : family;
}

static void add_counter(struct opening *o, const char *name, const char *help,
                        struct counter **ret_counter)
{
    if (!o->err) o->err = metrics_add_counter(o->metrics, name, help, ret_counter, o->note);
}

static void add_gauge(struct opening *o, const char *name, const char *help,
                      struct gauge **ret_gauge)
{
    if (!o->err) o->err = metrics_add_gauge(o->metrics, name, help, ret_gauge, o->note);
}

/* One label whose values are known: every series is there from the start, at 0. */
static void add_counters(struct opening *o, const char *name, const char *help, const char *label,
                         const char *const *values, size_t count, struct counter **ret_counters)
{
    struct metric_family *family = add(o, (struct metric_options){.name = name,
                                                                  .help = help,
                                                                  .kind = METRIC_COUNTER,
                                                                  .labels = {label},
                                                                  .series_max = (uint32_t)count});

    for (size_t i = 0; family && i < count; i++)
        if (values[i][0])
            ret_counters[i] = metric_counter(family, (const struct str[]){str_from(values[i])});
}

static void add_gauges(struct opening *o, const char *name, const char *help, const char *label,
                       const char *const *values, size_t count, struct gauge **ret_gauges)
{
    struct metric_family *family = add(o, (struct metric_options){.name = name,
                                                                  .help = help,
                                                                  .kind = METRIC_GAUGE,
                                                                  .labels = {label},
                                                                  .series_max = (uint32_t)count});

    for (size_t i = 0; family && i < count; i++)
        ret_gauges[i] = metric_gauge(family, (const struct str[]){str_from(values[i])});
}

static struct histogram *add_histogram(struct opening *o, const char *name, const char *help,
                                       const double *buckets, size_t count)
{
    struct metric_family *family = add(o, (struct metric_options){.name = name,
                                                                  .help = help,
                                                                  .kind = METRIC_HISTOGRAM,
                                                                  .buckets = buckets,
                                                                  .bucket_count = count});

    return family ? metric_histogram(family, NULL) : NULL;
}

static void add_outcomes(struct opening *o, struct shard_metrics *m)
{
    struct metric_family *family =
        add(o, (struct metric_options){.name = PREFIX "action_execute_outcomes_total",
                                       .help = "actions that ended, by how",
                                       .kind = METRIC_COUNTER,
                                       .labels = {"kind", "outcome"},
                                       .series_max = KINDS * OUTCOME_COUNT});

    for (size_t kind = 0; family && kind < KINDS; kind++)
        for (enum action_outcome outcome = 0; outcome < OUTCOME_SUPPRESSED; outcome++)
            m->outcomes[kind][outcome] = metric_counter(
                family, (const struct str[]){str_from(audit_kind_name((enum action_kind)kind)),
                                             str_from(action_outcome_name(outcome))});
}

static void add_actions(struct opening *o, struct shard_metrics *m)
{
    const char *kind_names[KINDS], *wait_names[DRAIN_WAIT_COUNT];

    for (int kind = 0; kind < KINDS; kind++)
        kind_names[kind] = audit_kind_name((enum action_kind)kind);
    add_counters(o, PREFIX "actions_total", "actions queued for execution", "kind", kind_names,
                 KINDS, m->actions);
    add_counters(o, PREFIX "actions_suppressed_total",
                 "actions that the kill switch or a newer process of this shard held", "kind",
                 kind_names, KINDS, m->suppressed);
    add_counters(o, PREFIX "actions_dryrun_total", "actions told and not done (shadow mode)",
                 "kind", kind_names, KINDS, m->dryrun);
    add_outcomes(o, m);
    add_counter(o, PREFIX "actions_deferred_total", "held back by max-actions-per-cycle",
                &m->deferred);
    add_counter(o, PREFIX "actions_dropped_total", "no room in the queue; derived again",
                &m->dropped);
    add_counter(o, PREFIX "actions_deduped_total",
                "the machine had an action already, or was not in the state any more", &m->deduped);
    add_counter(o, PREFIX "reclaims_capped_total", "held back by the reclaim cap", &m->capped);
    add_counter(o, PREFIX "idle_releases_total", "Idle machines given back", &m->idle_releases);
    add_counter(o, "muster_shard_calls_again_total",
                "made again because a machine stayed in a passing state", &m->called_again);
    add_counter(o, "muster_shard_failed_released_total",
                "Delete was tried on a machine that the provider calls Failed", &m->given_back);
    add_counter(o, "muster_shard_delete_unsupported_total",
                "Delete was asked of a provider that does not offer it", &m->delete_unsupported);
    add_gauge(o, PREFIX "action_queue_depth", "actions that wait for their turn", &m->queue_depth);
    add_gauge(o, PREFIX "execute_inflight", "actions under way", &m->inflight);
    add_gauge(o, PREFIX "actuation_paused", "1: the kill switch is on", &m->paused);
    add_gauge(o, "muster_shard_fenced",
              "1: the provider has seen a newer process of this shard, and this one does not act",
              &m->fenced);
    for (int wait = 0; wait < DRAIN_WAIT_COUNT; wait++)
        wait_names[wait] = drain_wait_name((enum drain_wait)wait);
    add_counters(o, "muster_shard_drain_waits_total",
                 "how the wait of a drain for its operator ended", "result", wait_names,
                 DRAIN_WAIT_COUNT, m->drain_waits);
    add_gauge(o, "muster_shard_drains_waiting",
              "machines that their operator drains; the provider was not asked to drain them yet",
              &m->drains_waiting);
    add_gauge(o, "muster_shard_blobs_waiting", "actions that wait for an operator's bootstrap blob",
              &m->blobs_waiting);
    add_gauge(o, "muster_shard_machines_in_doubt",
              "machines whose last call was not answered; the provider is being asked",
              &m->in_doubt);
}

static void add_cycle(struct opening *o, struct shard_metrics *m)
{
    struct metric_family *family;

    m->cycle =
        add_histogram(o, PREFIX "cycle_duration_seconds", "one whole cycle", fast, ARRAY_LEN(fast));
    family = add(o, (struct metric_options){.name = PREFIX "cycle_phase_duration_seconds",
                                            .help = "its parts",
                                            .kind = METRIC_HISTOGRAM,
                                            .labels = {"phase"},
                                            .series_max = SHARD_PHASES,
                                            .buckets = fast,
                                            .bucket_count = ARRAY_LEN(fast)});
    for (size_t i = 0; family && i < SHARD_PHASES; i++)
        m->phases[i] = metric_histogram(family, (const struct str[]){str_from(phase_names[i])});
    m->observes[OBSERVE_PROVISIONING_LATENCY] = add_histogram(
        o, PREFIX "provisioning_latency_seconds",
        "from the first roll-up that names a profile to a machine for it", slow, ARRAY_LEN(slow));
    m->observes[OBSERVE_CONFIGURE] = add_histogram(
        o, PREFIX "configure_phase_seconds", "Configuring to Configured", slow, ARRAY_LEN(slow));
    m->observes[OBSERVE_BLOB] =
        add_histogram(o, PREFIX "request_bootstrap_seconds",
                      "until an operator gave a bootstrap blob", slow, ARRAY_LEN(slow));
    m->observes[OBSERVE_DRAIN] =
        add_histogram(o, PREFIX "drain_phase_seconds", "Draining to Idle", slow, ARRAY_LEN(slow));
    add_counter(o, "muster_shard_lists_total", "Lists of the provider that were whole", &m->lists);
    add_counter(o, "muster_shard_lists_failed_total", "Lists that failed or were cut",
                &m->lists_failed);
    add_counter(o, "muster_shard_lists_held_total",
                "whole Lists that would have removed too many machines", &m->lists_held);
    add_counter(o, "muster_shard_listed_machines_total", "records read from Lists", &m->listed);
    m->list_seconds = add_histogram(o, "muster_shard_list_seconds", "from List asked to List read",
                                    slow, ARRAY_LEN(slow));
}

static void add_state(struct opening *o, struct shard_metrics *m)
{
    const char *fault_names[FAULTS], *bucket_names[BUCKETS];

    for (int fault = 0; fault < FAULTS; fault++)
        fault_names[fault] = machine_fault_name((enum machine_fault)fault);
    for (uint32_t i = 0; i < BUCKETS; i++) bucket_names[i] = penalty_label((uint8_t)i);
    add_counters(o, PREFIX "machines_rejected_total", "provider records refused", "reason",
                 fault_names, FAULTS, m->rejected);
    m->inventory = add(o, (struct metric_options){
                              .name = PREFIX "inventory_machines",
                              .help = "machines by what they are",
                              .kind = METRIC_GAUGE,
                              .labels = {"state", "capacity_type", "interruption_penalty_bucket"},
                              .series_max = MACHINE_STATE_COUNT * CAPACITY_TYPE_COUNT * BUCKETS});
    add_gauges(o, PREFIX "demand_machines", "rows of demand", "interruption_penalty_bucket",
               bucket_names, BUCKETS, m->demand);
    add_gauge(o, PREFIX "shortfalls", "profiles that are short of machines", &m->shortfalls);
    add_gauges(o, PREFIX "shortfalls_aged", "by cycles in a row", "bucket", shortfall_age_names,
               SHORTFALL_AGES, m->aged);
    add_gauges(o, PREFIX "shortfalls_by_priority", "by class of priority", "priority_class",
               shortfall_class_names, SHORTFALL_CLASSES, m->by_class);
    add_counter(o, "muster_shard_observed_transitions_total",
                "changes the provider reported that we did not order", &m->observed);
    add_counter(o, "muster_shard_foreign_transitions_total",
                "changes that somebody else must have ordered", &m->foreign);
}

static void add_sessions(struct opening *o, struct shard_metrics *m)
{
    m->quarantined = add(o, (struct metric_options){.name = PREFIX "rollup_quarantined",
                                                    .help = "roll-ups held in a row",
                                                    .kind = METRIC_GAUGE,
                                                    .labels = {"cluster"},
                                                    .series_max = CLUSTERS_SHOWN});
    m->rollups_rejected = add(o, (struct metric_options){.name = PREFIX "rollups_rejected_total",
                                                         .help = "roll-ups that were refused",
                                                         .kind = METRIC_COUNTER,
                                                         .labels = {"cluster"},
                                                         .series_max = CLUSTERS_SHOWN});
    add_gauge(o, PREFIX "active_sessions", "operators connected", &m->active_sessions);
    add_counters(o, PREFIX "session_lifecycle_total", "sessions that came and went", "event",
                 session_names, SESSION_EVENTS, m->sessions);
    add_counter(o, PREFIX "session_identity_rejected_total",
                "certificates that do not fit the cluster they speak for: a security event",
                &m->identity_rejected);
    add_counter(o, "muster_shard_sessions_unread_total",
                "sessions closed because their operator does not read", &m->unread);
    add_counter(o, "muster_shard_sessions_refused_total", "streams ended for what they sent",
                &m->refused);
    add_counter(o, "muster_shard_frames_superseded_total",
                "frames that a newer one of the same key replaced before they were sent",
                &m->superseded);
    add_counter(o, "muster_shard_rollups_total", "roll-ups that came", &m->rollups);
    add_counter(o, "muster_shard_rollups_superseded_total",
                "roll-ups that a newer one replaced before they were read", &m->rollups_superseded);
    add_counter(o, "muster_shard_blobs_stray_total",
                "bootstrap answers that were late, unknown or given twice", &m->blobs_stray);
    add_counter(o, "muster_shard_blobs_refused_total",
                "bootstrap answers for which there was no room", &m->blobs_refused);
    add_gauge(o, "muster_shard_blob_bytes",
              "bootstrap answers that wait for their Configure, of the budget of all sessions",
              &m->blob_bytes);
    add_gauge(o, "muster_shard_rollup_bytes", "roll-ups held, of the budget of all sessions",
              &m->rollup_bytes);
    add_gauge(o, "muster_shard_outbox_bytes", "frames that wait for their operators to read",
              &m->outbox_bytes);
}

enum err shard_metrics_open(struct metrics *metrics, struct shard_metrics **ret_metrics,
                            struct note *note)
{
    struct opening o = {.metrics = metrics, .note = note};
    struct shard_metrics *m = calloc(1, sizeof *m);

    if (!m) return ERR_NOMEM;
    add_actions(&o, m);
    add_cycle(&o, m);
    add_state(&o, m);
    add_sessions(&o, m);
    if (o.err)
        free(m);
    else
        *ret_metrics = m;
    return o.err;
}

void shard_metrics_close(struct shard_metrics *m)
{
    free(m);
}

/* -- taking -- */

static void raise_all(struct counter *const *counters, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (counters[i]) counter_raise_to(counters[i], values[i]);
}

static void set_all(struct gauge *const *gauges, const uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) gauge_set(gauges[i], values[i]);
}

/* A set of labels that became empty goes: it must not keep its last value. */
static void take_inventory(struct shard_metrics *m, const struct core_counts *counts)
{
    char state_text[MACHINE_NAME_CAP], type_text[MACHINE_NAME_CAP];

    metric_round_begin(m->inventory);
    for (uint32_t state = 1; state < MACHINE_STATE_COUNT; state++)
        for (uint32_t type = 0; type < CAPACITY_TYPE_COUNT; type++)
            for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
                uint32_t machines = counts->inventory_by_bucket[state][type][bucket];

                if (!machines) continue;
                gauge_set(metric_gauge(
                              m->inventory,
                              (const struct str[]){str_from(machine_state_name(state, state_text)),
                                                   str_from(capacity_type_name(type, type_text)),
                                                   str_from(penalty_label((uint8_t)bucket))}),
                          machines);
            }
    metric_round_end(m->inventory);
}

void shard_metrics_take(struct shard_metrics *m, const struct core_counts *counts)
{
    raise_all(m->actions, counts->actions, KINDS);
    raise_all(m->suppressed, counts->suppressed, KINDS);
    raise_all(m->dryrun, counts->dryrun, KINDS);
    for (size_t kind = 0; kind < KINDS; kind++)
        raise_all(m->outcomes[kind], counts->outcomes[kind], OUTCOME_COUNT);
    raise_all(m->rejected, counts->machines_rejected, FAULTS);
    counter_raise_to(m->deferred, counts->deferred);
    counter_raise_to(m->dropped, counts->dropped);
    counter_raise_to(m->deduped, counts->deduped);
    counter_raise_to(m->capped, counts->capped);
    counter_raise_to(m->idle_releases, counts->idle_releases);
    counter_raise_to(m->observed, counts->observed_edges);
    counter_raise_to(m->foreign, counts->foreign_edges);
    counter_raise_to(m->lists_held, counts->lists_held);
    counter_raise_to(m->called_again, counts->called_again);
    counter_raise_to(m->given_back, counts->given_back);
    counter_raise_to(m->delete_unsupported, counts->delete_unsupported);
    gauge_set(m->in_doubt, counts->in_doubt);
    gauge_set(m->drains_waiting, counts->drains_waiting);
    gauge_set(m->blobs_waiting, counts->blobs_waiting);
    raise_all(m->drain_waits, counts->drain_waits, DRAIN_WAIT_COUNT);
    gauge_set(m->queue_depth, counts->queued);
    gauge_set(m->inflight, counts->inflight);
    gauge_set(m->shortfalls, counts->shortfalls);
    set_all(m->aged, counts->shortfalls_aged, SHORTFALL_AGES);
    set_all(m->by_class, counts->shortfalls_by_class, SHORTFALL_CLASSES);
    set_all(m->demand, counts->demand_rows, BUCKETS);
}

void shard_metrics_cycle_end(struct shard_metrics *m, const struct core_counts *counts,
                             const struct cluster_counts *clusters, size_t count)
{
    take_inventory(m, counts);
    metric_round_begin(m->quarantined);
    for (size_t i = 0; i < count; i++) {
        gauge_set(metric_gauge(m->quarantined, &clusters[i].cluster), clusters[i].holds);
        if (clusters[i].rejected)
            counter_raise_to(metric_counter(m->rollups_rejected, &clusters[i].cluster),
                             clusters[i].rejected);
    }
    metric_round_end(m->quarantined);
}

void shard_metrics_observe(struct shard_metrics *m, enum core_histogram which, double seconds)
{
    histogram_observe(m->observes[which], seconds);
}

void shard_metrics_phase(struct shard_metrics *m, enum shard_phase phase, double seconds)
{
    histogram_observe(m->phases[phase], seconds);
}

void shard_metrics_cycle(struct shard_metrics *m, double seconds)
{
    histogram_observe(m->cycle, seconds);
}

void shard_metrics_paused(struct shard_metrics *m, bool paused)
{
    gauge_set(m->paused, paused);
}

void shard_metrics_fenced(struct shard_metrics *m)
{
    gauge_set(m->fenced, 1);
}

void shard_metrics_sessions(struct shard_metrics *m, const struct sessions_stats *stats)
{
    counter_raise_to(m->sessions[SESSION_INSTALLED], stats->installed);
    counter_raise_to(m->sessions[SESSION_REPLACED], stats->replaced);
    counter_raise_to(m->sessions[SESSION_REMOVED], stats->removed);
    counter_raise_to(m->identity_rejected, stats->identity_rejected);
    counter_raise_to(m->unread, stats->unread);
    counter_raise_to(m->refused, stats->refused);
    counter_raise_to(m->superseded, stats->superseded);
    counter_raise_to(m->rollups, stats->rollups);
    counter_raise_to(m->rollups_superseded, stats->rollups_superseded);
    counter_raise_to(m->blobs_stray, stats->blobs_stray);
    gauge_set(m->active_sessions, stats->active);
    gauge_set(m->rollup_bytes, (double)stats->rollup_bytes);
    gauge_set(m->outbox_bytes, (double)stats->outbox_bytes);
}

void shard_metrics_blobs(struct shard_metrics *m, const struct blob_stats *stats)
{
    counter_raise_to(m->blobs_refused, stats->refused);
    gauge_set(m->blob_bytes, (double)stats->bytes);
}

void shard_metrics_list(struct shard_metrics *m, bool whole, uint64_t machines, double seconds)
{
    counter_inc(whole ? m->lists : m->lists_failed);
    counter_add(m->listed, machines);
    histogram_observe(m->list_seconds, seconds);
}
