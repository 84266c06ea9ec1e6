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
    ARRAY_ROWS = 3 * KINDS + FAULTS + DRAIN_WAIT_COUNT + BUCKETS + SHORTFALL_AGES +
                 SHORTFALL_CLASSES + CORDON_COUNT,
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
    {PREFIX "actions_deferred_total", "Actions left to a later cycle by max-actions-per-cycle.",
     COUNTER(core_counts, deferred)},
    {PREFIX "actions_dropped_total",
     "Actions dropped because the queue was full. A later cycle decides them again.",
     COUNTER(core_counts, dropped)},
    {PREFIX "actions_deduped_total",
     "Actions dropped because the machine already had an action or had changed its state.",
     COUNTER(core_counts, deduped)},
    {PREFIX "reclaims_capped_total", "Reclaims left to a later cycle by the reclaim cap.",
     COUNTER(core_counts, capped)},
    {PREFIX "idle_releases_total", "Idle machines that the shard deleted.",
     COUNTER(core_counts, idle_releases)},
    {"muster_shard_calls_again_total",
     "Provider calls repeated because a machine stayed in a passing state.",
     COUNTER(core_counts, called_again)},
    {"muster_shard_failed_released_total",
     "Delete calls for machines that the provider reports as Failed.",
     COUNTER(core_counts, given_back)},
    {"muster_shard_delete_unsupported_total", "Delete calls that the provider does not support.",
     COUNTER(core_counts, delete_unsupported)},
    {"muster_shard_lists_held_total",
     "List answers held because they would remove too many machines.",
     COUNTER(core_counts, lists_held)},
    {"muster_shard_observed_transitions_total",
     "Machine changes that the provider reported and this shard did not order.",
     COUNTER(core_counts, observed_edges)},
    {"muster_shard_foreign_transitions_total",
     "Machine changes that another program must have ordered.",
     COUNTER(core_counts, foreign_edges)},
    {PREFIX "action_queue_depth", "Queued actions.", GAUGE(core_counts, queued)},
    {PREFIX "execute_inflight", "Actions being executed.", GAUGE(core_counts, inflight)},
    {"muster_shard_drains_waiting",
     "Machines that an operator drains before the provider is called.",
     GAUGE(core_counts, drains_waiting)},
    {"muster_shard_blobs_waiting", "Actions that wait for an operator's bootstrap blob.",
     GAUGE(core_counts, blobs_waiting)},
    {"muster_shard_machines_in_doubt",
     "Machines whose last call has an unknown outcome. The shard asks the provider by Get.",
     GAUGE(core_counts, in_doubt)},
    {PREFIX "shortfalls", "Profiles that lack machines.", GAUGE(core_counts, shortfalls)},
};
static const struct metric_field session_rows[] = {
    {PREFIX "active_sessions", "Connected operators.", GAUGE(sessions_stats, active)},
    {PREFIX "session_lifecycle_total", "Operator sessions installed, replaced and removed.",
     COUNTER(sessions_stats, installed), .label = "event", .value = "installed"},
    {PREFIX "session_lifecycle_total", "", COUNTER(sessions_stats, replaced), .label = "event",
     .value = "replaced"},
    {PREFIX "session_lifecycle_total", "", COUNTER(sessions_stats, removed), .label = "event",
     .value = "removed"},
    {PREFIX "session_identity_rejected_total",
     "Sessions rejected because the certificate names another cluster. This is a security event.",
     COUNTER(sessions_stats, identity_rejected)},
    {"muster_shard_sessions_unread_total",
     "Sessions closed because the operator did not read its messages.",
     COUNTER(sessions_stats, unread)},
    {"muster_shard_sessions_refused_total", "Sessions ended because of an invalid message.",
     COUNTER(sessions_stats, refused)},
    {"muster_shard_frames_superseded_total",
     "Frames to operators replaced by a newer frame before sending.",
     COUNTER(sessions_stats, superseded)},
    {"muster_shard_rollups_total", "Roll-ups received.", COUNTER(sessions_stats, rollups)},
    {"muster_shard_rollups_superseded_total",
     "Roll-ups replaced by a newer roll-up before the shard read them.",
     COUNTER(sessions_stats, rollups_superseded)},
    {"muster_shard_blobs_stray_total", "Bootstrap blobs that were late, unknown or duplicate.",
     COUNTER(sessions_stats, blobs_stray)},
    {"muster_shard_rollup_bytes", "Bytes of received roll-ups. All sessions share one limit.",
     GAUGE(sessions_stats, rollup_bytes)},
    {"muster_shard_outbox_bytes", "Bytes of frames queued for operators.",
     GAUGE(sessions_stats, outbox_bytes)},
};
static const struct metric_field own_rows[] = {
    {"muster_shard_blobs_refused_total",
     "Bootstrap blobs refused because the limit for blobs was reached.",
     COUNTER(own_counts, blobs_refused)},
    {"muster_shard_blob_bytes",
     "Bytes of bootstrap blobs that wait for their Configure call. All sessions share one limit.",
     GAUGE(own_counts, blob_bytes)},
    {"muster_shard_lists_total", "Complete List answers.", COUNTER(own_counts, lists)},
    {"muster_shard_lists_failed_total", "List calls that failed or ended early.",
     COUNTER(own_counts, lists_failed)},
    {"muster_shard_listed_machines_total", "Machine records read from List answers.",
     COUNTER(own_counts, listed)},
    {PREFIX "actuation_paused", "1 while the kill switch is on.", GAUGE(own_counts, paused)},
    {"muster_shard_fenced",
     "1 while the provider refuses this process because a newer process of this shard exists.",
     GAUGE(own_counts, fenced)},
};

enum values { BY_KIND, BY_WAIT, BY_FAULT, BY_BUCKET, BY_AGE, BY_CLASS, BY_CORDON, VALUES_COUNT };
static const struct {
    enum values values;
    struct metric_field row; /* row of the first element */
} array_rows[] = {
    {BY_KIND,
     {PREFIX "actions_total", "Actions queued for execution, by kind.",
      COUNTER(core_counts, actions[0]), .label = "kind"}},
    {BY_KIND,
     {PREFIX "actions_suppressed_total",
      "Actions not executed because of the kill switch or a newer process of this shard, by kind.",
      COUNTER(core_counts, suppressed[0]), .label = "kind"}},
    {BY_KIND,
     {PREFIX "actions_dryrun_total", "Actions that dry-run logged and did not start, by kind.",
      COUNTER(core_counts, dryrun[0]), .label = "kind"}},
    {BY_WAIT,
     {"muster_shard_drain_waits_total", "Ended waits of a drain for its operator, by result.",
      COUNTER(core_counts, drain_waits[0]), .label = "result"}},
    {BY_FAULT,
     {PREFIX "machines_rejected_total",
      "Machine records of the provider that the shard rejected, by reason.",
      COUNTER(core_counts, machines_rejected[0]), .label = "reason"}},
    {BY_BUCKET,
     {PREFIX "demand_machines", "Rows of demand by interruption penalty bucket.",
      GAUGE(core_counts, demand_rows[0]), .label = "interruption_penalty_bucket"}},
    {BY_AGE,
     {PREFIX "shortfalls_aged",
      "Profiles that lack machines, by consecutive cycles without enough machines.",
      GAUGE(core_counts, shortfalls_aged[0]), .label = "bucket"}},
    {BY_CLASS,
     {PREFIX "shortfalls_by_priority", "Profiles that lack machines, by priority class.",
      GAUGE(core_counts, shortfalls_by_class[0]), .label = "priority_class"}},
    {BY_CORDON,
     {"muster_shard_cordoned_machines",
      "Machines that an operator of the shard took out of use, by order.",
      GAUGE(core_counts, inventory.cordoned[0]), .label = "order"}},
};

static size_t values_of(enum values values, const char *ret_names[BUCKETS])
{
    static const uint8_t counts[VALUES_COUNT] = {
        KINDS, DRAIN_WAIT_COUNT, FAULTS, BUCKETS, SHORTFALL_AGES, SHORTFALL_CLASSES, CORDON_COUNT};

    for (uint8_t i = 0; i < counts[values]; i++) switch (values) {
        case BY_KIND: ret_names[i] = audit_kind_name((enum action_kind)i); break;
        case BY_WAIT: ret_names[i] = drain_wait_name((enum drain_wait)i); break;
        case BY_FAULT: ret_names[i] = machine_fault_name((enum machine_fault)i); break;
        case BY_BUCKET: ret_names[i] = penalty_label(i); break;
        case BY_AGE: ret_names[i] = shortfall_age_names[i]; break;
        case BY_CLASS: ret_names[i] = shortfall_class_names[i]; break;
        case BY_CORDON: ret_names[i] = machine_cordon_name((enum machine_cordon)i); break;
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
    [OBSERVE_PROVISIONING_LATENCY] = {PREFIX "provisioning_latency_seconds",
                                      "Time from the first roll-up with a profile until a machine "
                                      "is Configured for the profile."},
    [OBSERVE_CONFIGURE] = {PREFIX "configure_phase_seconds",
                           "Time from Configuring to Configured."},
    [OBSERVE_BLOB] = {PREFIX "request_bootstrap_seconds",
                      "Time until an operator answered a bootstrap request."},
    [OBSERVE_DRAIN] = {PREFIX "drain_phase_seconds", "Time from Draining to Idle."},
    [OBSERVE_LIST] = {"muster_shard_list_seconds", "Duration of a List call."},
    [OBSERVE_CYCLE] = {PREFIX "cycle_duration_seconds", "Duration of a cycle."},
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
                                              .help = "Ended actions by kind and outcome.",
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
    options.help = "Duration of each phase of a cycle.";
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
        o, (struct metric_options){
               .name = PREFIX "inventory_machines",
               .help = "Machines by state, capacity type and interruption penalty bucket.",
               .kind = METRIC_GAUGE,
               .labels = {"state", "capacity_type", "interruption_penalty_bucket"},
               .series_max = MACHINE_STATE_COUNT * CAPACITY_TYPE_COUNT * BUCKETS});
    m->quarantined = family_add(
        o, (struct metric_options){
               .name = PREFIX "rollup_quarantined",
               .help = "Consecutive roll-ups of the cluster that the shard holds in quarantine.",
               .kind = METRIC_GAUGE,
               .labels = {"cluster"},
               .series_max = CLUSTERS_SHOWN});
    m->rollups_rejected = family_add(
        o, (struct metric_options){.name = PREFIX "rollups_rejected_total",
                                   .help = "Roll-ups that the shard rejected, by cluster.",
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
