/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's metrics. Rows map counters to metrics. Metrics with labels are added and removed as
 * label values appear and disappear. Loop's thread. */
#include "shard/metrics.h"

#include <stdlib.h>

#include "model/penalty.h"

#define PREFIX "bigfleet_shard_"
enum {
    KINDS = ACTION_DELETE + 1,
    BUCKETS = PENALTY_BUCKET_COUNT,
    FAULTS = MACHINE_FAULT_PRICE + 1,
    CLUSTERS_SHOWN = 4096,
    ARRAY_ROWS =
        3 * KINDS + FAULTS + DRAIN_WAIT_COUNT + BUCKETS + SHORTFALL_AGES + SHORTFALL_CLASSES,
};

struct own_counts {
    uint64_t lists, lists_failed, listed;
    uint32_t paused, fenced;
    uint64_t blobs_refused;
    size_t blob_bytes;
};

struct shard_metrics {
    struct own_counts counts;
    struct metric_field arrays[ARRAY_ROWS]; /* one row per element of core_counts' arrays */
    size_t array_count;
    struct metric_fields *core, *core_arrays, *sessions, *own;
    struct counter *outcomes[KINDS][OUTCOME_COUNT];
    struct histogram *histograms[SHARD_HISTOGRAMS], *phases[PHASE_COUNT];
    struct metric_family *inventory, *quarantined, *rollups_rejected;
};

/* -- rows -- */

const char *audit_kind_name(enum action_kind kind)
{
    static const char *const names[] = {
        [ACTION_BOOTSTRAP] = "Bootstrap", [ACTION_PROVISION] = "Provision",
        [ACTION_PREEMPT] = "Preempt",     [ACTION_RECLAIM] = "Reclaim",
        [ACTION_DELETE] = "Delete",
    };
    return names[kind];
}

#define COUNTER(type, member) METRIC_COUNTER, METRIC_FIELD(struct type, member)
#define GAUGE(type, member)   METRIC_GAUGE, METRIC_FIELD(struct type, member)

static const struct metric_field core_rows[] = {
    {PREFIX "actions_deferred_total", "held back by max-actions-per-cycle",
     COUNTER(core_counts, deferred)},
    {PREFIX "actions_dropped_total", "no room in the queue; derived again",
     COUNTER(core_counts, dropped)},
    {PREFIX "actions_deduped_total",
     "the machine had an action already, or was not in the state any more",
     COUNTER(core_counts, deduped)},
    {PREFIX "reclaims_capped_total", "held back by the reclaim cap", COUNTER(core_counts, capped)},
    {PREFIX "idle_releases_total", "Idle machines given back", COUNTER(core_counts, idle_releases)},
    {"muster_shard_calls_again_total", "made again because a machine stayed in a passing state",
     COUNTER(core_counts, called_again)},
    {"muster_shard_failed_released_total",
     "Delete was tried on a machine that the provider calls Failed",
     COUNTER(core_counts, given_back)},
    {"muster_shard_delete_unsupported_total",
     "Delete was asked of a provider that does not offer it",
     COUNTER(core_counts, delete_unsupported)},
    {"muster_shard_lists_held_total", "whole Lists that would have removed too many machines",
     COUNTER(core_counts, lists_held)},
    {"muster_shard_observed_transitions_total",
     "changes the provider reported that we did not order", COUNTER(core_counts, observed_edges)},
    {"muster_shard_foreign_transitions_total", "changes that somebody else must have ordered",
     COUNTER(core_counts, foreign_edges)},
    {PREFIX "action_queue_depth", "actions that wait for their turn", GAUGE(core_counts, queued)},
    {PREFIX "execute_inflight", "actions under way", GAUGE(core_counts, inflight)},
    {"muster_shard_drains_waiting",
     "machines that their operator drains; the provider was not asked to drain them yet",
     GAUGE(core_counts, drains_waiting)},
    {"muster_shard_blobs_waiting", "actions that wait for an operator's bootstrap blob",
     GAUGE(core_counts, blobs_waiting)},
    {"muster_shard_machines_in_doubt",
     "machines whose last call was not answered; the provider is being asked",
     GAUGE(core_counts, in_doubt)},
    {PREFIX "shortfalls", "profiles that are short of machines", GAUGE(core_counts, shortfalls)},
};
static const struct metric_field session_rows[] = {
    {PREFIX "active_sessions", "operators connected", GAUGE(sessions_stats, active)},
    {PREFIX "session_lifecycle_total", "sessions that came and went",
     COUNTER(sessions_stats, installed), .label = "event", .value = "installed"},
    {PREFIX "session_lifecycle_total", "", COUNTER(sessions_stats, replaced), .label = "event",
     .value = "replaced"},
    {PREFIX "session_lifecycle_total", "", COUNTER(sessions_stats, removed), .label = "event",
     .value = "removed"},
    {PREFIX "session_identity_rejected_total",
     "certificates that do not fit the cluster they speak for: a security event",
     COUNTER(sessions_stats, identity_rejected)},
    {"muster_shard_sessions_unread_total", "sessions closed because their operator does not read",
     COUNTER(sessions_stats, unread)},
    {"muster_shard_sessions_refused_total", "streams ended for what they sent",
     COUNTER(sessions_stats, refused)},
    {"muster_shard_frames_superseded_total",
     "frames that a newer one of the same key replaced before they were sent",
     COUNTER(sessions_stats, superseded)},
    {"muster_shard_rollups_total", "roll-ups that came", COUNTER(sessions_stats, rollups)},
    {"muster_shard_rollups_superseded_total",
     "roll-ups that a newer one replaced before they were read",
     COUNTER(sessions_stats, rollups_superseded)},
    {"muster_shard_blobs_stray_total", "bootstrap answers that were late, unknown or given twice",
     COUNTER(sessions_stats, blobs_stray)},
    {"muster_shard_rollup_bytes", "roll-ups held, of the budget of all sessions",
     GAUGE(sessions_stats, rollup_bytes)},
    {"muster_shard_outbox_bytes", "frames that wait for their operators to read",
     GAUGE(sessions_stats, outbox_bytes)},
};
static const struct metric_field own_rows[] = {
    {"muster_shard_blobs_refused_total", "bootstrap answers for which there was no room",
     COUNTER(own_counts, blobs_refused)},
    {"muster_shard_blob_bytes",
     "bootstrap answers that wait for their Configure, of the budget of all sessions",
     GAUGE(own_counts, blob_bytes)},
    {"muster_shard_lists_total", "Lists of the provider that were whole",
     COUNTER(own_counts, lists)},
    {"muster_shard_lists_failed_total", "Lists that failed or were cut",
     COUNTER(own_counts, lists_failed)},
    {"muster_shard_listed_machines_total", "records read from Lists", COUNTER(own_counts, listed)},
    {PREFIX "actuation_paused", "1: the kill switch is on", GAUGE(own_counts, paused)},
    {"muster_shard_fenced",
     "1: the provider has seen a newer process of this shard, and this one does not act",
     GAUGE(own_counts, fenced)},
};

enum values { BY_KIND, BY_WAIT, BY_FAULT, BY_BUCKET, BY_AGE, BY_CLASS, VALUES_COUNT };
static const struct {
    enum values values;
    struct metric_field row; /* row of the first element */
} array_rows[] = {
    {BY_KIND,
     {PREFIX "actions_total", "actions queued for execution", COUNTER(core_counts, actions[0]),
      .label = "kind"}},
    {BY_KIND,
     {PREFIX "actions_suppressed_total",
      "actions that the kill switch or a newer process of this shard held",
      COUNTER(core_counts, suppressed[0]), .label = "kind"}},
    {BY_KIND,
     {PREFIX "actions_dryrun_total", "actions that shadow mode logged and did not start",
      COUNTER(core_counts, dryrun[0]), .label = "kind"}},
    {BY_WAIT,
     {"muster_shard_drain_waits_total", "how the wait of a drain for its operator ended",
      COUNTER(core_counts, drain_waits[0]), .label = "result"}},
    {BY_FAULT,
     {PREFIX "machines_rejected_total", "provider records refused",
      COUNTER(core_counts, machines_rejected[0]), .label = "reason"}},
    {BY_BUCKET,
     {PREFIX "demand_machines", "rows of demand", GAUGE(core_counts, demand_rows[0]),
      .label = "interruption_penalty_bucket"}},
    {BY_AGE,
     {PREFIX "shortfalls_aged", "by cycles in a row", GAUGE(core_counts, shortfalls_aged[0]),
      .label = "bucket"}},
    {BY_CLASS,
     {PREFIX "shortfalls_by_priority", "by class of priority",
      GAUGE(core_counts, shortfalls_by_class[0]), .label = "priority_class"}},
};

static size_t values_of(enum values values, const char *ret_names[BUCKETS])
{
    static const uint8_t counts[VALUES_COUNT] = {KINDS,   DRAIN_WAIT_COUNT, FAULTS,
                                                 BUCKETS, SHORTFALL_AGES,   SHORTFALL_CLASSES};

    for (uint8_t i = 0; i < counts[values]; i++) switch (values) {
        case BY_KIND: ret_names[i] = audit_kind_name((enum action_kind)i); break;
        case BY_WAIT: ret_names[i] = drain_wait_name((enum drain_wait)i); break;
        case BY_FAULT: ret_names[i] = machine_fault_name((enum machine_fault)i); break;
        case BY_BUCKET: ret_names[i] = penalty_label(i); break;
        case BY_AGE: ret_names[i] = shortfall_age_names[i]; break;
        case BY_CLASS: ret_names[i] = shortfall_class_names[i]; break;
        case VALUES_COUNT: break;
        }
    return counts[values];
}

static void arrays_make(struct shard_metrics *m)
{
    const char *names[BUCKETS];

    for (size_t i = 0; i < ARRAY_LEN(array_rows); i++) {
        struct metric_field row = array_rows[i].row;
        size_t count = values_of(array_rows[i].values, names);
        for (size_t at = 0; at < count; at++, row.at += row.size) {
            row.value = names[at];
            if (names[at][0]) m->arrays[m->array_count++] = row;
        }
    }
}

/* -- families -- */

static const double fast[] = {0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064,
                              0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192};
static const double slow[] = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64,   1.28,
                              2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68};

static const struct {
    const char *name, *help;
} histograms[SHARD_HISTOGRAMS] = {
    [OBSERVE_PROVISIONING_LATENCY] =
        {PREFIX "provisioning_latency_seconds",
         "from the first roll-up that names a profile to a machine for it"},
    [OBSERVE_CONFIGURE] = {PREFIX "configure_phase_seconds", "Configuring to Configured"},
    [OBSERVE_BLOB] = {PREFIX "request_bootstrap_seconds",
                      "until an operator gave a bootstrap blob"},
    [OBSERVE_DRAIN] = {PREFIX "drain_phase_seconds", "Draining to Idle"},
    [OBSERVE_LIST] = {"muster_shard_list_seconds", "from List asked to List read"},
    [OBSERVE_CYCLE] = {PREFIX "cycle_duration_seconds", "one whole cycle"},
};

struct opening {
    struct metrics *metrics;
    struct note *note;
    enum err err; /* the first error */
};

static struct metric_family *family_add(struct opening *o, struct metric_options options)
{
    struct metric_family *family = NULL;

    if (!o->err) o->err = metrics_add(o->metrics, &options, &family, o->note);
    return o->err ? NULL : family;
}

static void add_outcomes(struct opening *o, struct shard_metrics *m)
{
    struct metric_family *family =
        family_add(o, (struct metric_options){.name = PREFIX "action_execute_outcomes_total",
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

static void add_histograms(struct opening *o, struct shard_metrics *m)
{
    struct metric_options options = {
        .kind = METRIC_HISTOGRAM, .buckets = slow, .bucket_count = ARRAY_LEN(slow)};
    struct metric_family *family;

    for (int i = 0; i < SHARD_HISTOGRAMS; i++) {
        options.name = histograms[i].name;
        options.help = histograms[i].help;
        if (i == OBSERVE_CYCLE) {
            options.buckets = fast;
            options.bucket_count = ARRAY_LEN(fast);
        }
        family = family_add(o, options);
        if (family) m->histograms[i] = metric_histogram(family, NULL);
    }
    options.name = PREFIX "cycle_phase_duration_seconds";
    options.help = "its parts";
    options.labels[0] = "phase";
    options.series_max = PHASE_COUNT;
    family = family_add(o, options);
    for (size_t i = 0; family && i < PHASE_COUNT; i++)
        m->phases[i] = metric_histogram(
            family, (const struct str[]){str_from(cycle_phase_name((enum cycle_phase)i))});
}

static void add_families(struct opening *o, struct shard_metrics *m)
{
    m->inventory = family_add(
        o,
        (struct metric_options){.name = PREFIX "inventory_machines",
                                .help = "machines by what they are",
                                .kind = METRIC_GAUGE,
                                .labels = {"state", "capacity_type", "interruption_penalty_bucket"},
                                .series_max = MACHINE_STATE_COUNT * CAPACITY_TYPE_COUNT * BUCKETS});
    m->quarantined = family_add(o, (struct metric_options){.name = PREFIX "rollup_quarantined",
                                                           .help = "roll-ups held in a row",
                                                           .kind = METRIC_GAUGE,
                                                           .labels = {"cluster"},
                                                           .series_max = CLUSTERS_SHOWN});
    m->rollups_rejected =
        family_add(o, (struct metric_options){.name = PREFIX "rollups_rejected_total",
                                              .help = "roll-ups that were refused",
                                              .kind = METRIC_COUNTER,
                                              .labels = {"cluster"},
                                              .series_max = CLUSTERS_SHOWN});
}

static void rows_add(struct opening *o, const struct metric_field *rows, size_t count,
                     struct metric_fields **ret_fields)
{
    if (!o->err) o->err = metrics_add_fields(o->metrics, rows, count, ret_fields, o->note);
}

enum err shard_metrics_open(struct metrics *metrics, struct shard_metrics **ret_metrics,
                            struct note *note)
{
    struct opening o = {.metrics = metrics, .note = note};
    struct shard_metrics *m = calloc(1, sizeof *m);

    if (!m) return ERR_NOMEM;
    arrays_make(m);
    rows_add(&o, core_rows, ARRAY_LEN(core_rows), &m->core);
    rows_add(&o, m->arrays, m->array_count, &m->core_arrays);
    rows_add(&o, session_rows, ARRAY_LEN(session_rows), &m->sessions);
    rows_add(&o, own_rows, ARRAY_LEN(own_rows), &m->own);
    add_outcomes(&o, m);
    add_histograms(&o, m);
    add_families(&o, m);
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

/* -- updating -- */

/* Removes the gauges of vanished label sets, which would keep their last value. */
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
    metrics_set_fields(m->core, counts);
    metrics_set_fields(m->core_arrays, counts);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < OUTCOME_SUPPRESSED; i++)
            counter_raise_to(m->outcomes[kind][i], counts->outcomes[kind][i]);
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

void shard_metrics_observe(struct shard_metrics *m, unsigned histogram, double seconds)
{
    histogram_observe(m->histograms[histogram], seconds);
}

void shard_metrics_phase(struct shard_metrics *m, enum cycle_phase phase, double seconds)
{
    histogram_observe(m->phases[phase], seconds);
}

void shard_metrics_hold(struct shard_metrics *m, bool paused, bool fenced)
{
    m->counts.paused = paused;
    m->counts.fenced = fenced;
    metrics_set_fields(m->own, &m->counts);
}

void shard_metrics_sessions(struct shard_metrics *m, const struct sessions_stats *stats,
                            size_t blob_bytes, uint64_t blobs_refused)
{
    metrics_set_fields(m->sessions, stats);
    m->counts.blob_bytes = blob_bytes;
    m->counts.blobs_refused = blobs_refused;
    metrics_set_fields(m->own, &m->counts);
}

void shard_metrics_list(struct shard_metrics *m, bool whole, uint64_t machines, double seconds)
{
    ++*(whole ? &m->counts.lists : &m->counts.lists_failed);
    m->counts.listed += machines;
    metrics_set_fields(m->own, &m->counts);
    shard_metrics_observe(m, OBSERVE_LIST, seconds);
}
