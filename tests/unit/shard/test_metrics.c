/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c: the names and labels that dashboards know (shard.md 18), each above zero. */
#include "shard/metrics.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

enum { WORDS_MAX = 28 };
static const char *const kinds[] = {"Bootstrap", "Provision", "Reclaim", "Preempt", "Delete", NULL};
static const char *const outcomes[] = {"success",
                                       "ctx_canceled",
                                       "fenced",
                                       "no_session",
                                       "transition_raced_to_idle",
                                       "transition_error",
                                       "blob_error",
                                       "provider_error",
                                       "stale_state",
                                       "inventory_miss",
                                       "missing_profile",
                                       "other",
                                       NULL};
static const char *const buckets[] = {
    "unspecified", "0",       "0.5",     "1",      "2",      "4",      "8",      "16",
    "32",          "64",      "128",     "256",    "512",    "1024",   "2048",   "4096",
    "8192",        "16384",   "32768",   "65536",  "131072", "262144", "524288", "1048576",
    "2097152",     "4194304", "8388608", "pinned", NULL};

/* One label of each, and all its values. */
static const struct {
    const char *name, *label;
    const char *values[WORDS_MAX + 1];
} labelled[] = {
    {"actions_total", "kind", {"Bootstrap", "Provision", "Reclaim", "Preempt", "Delete"}},
    {"actions_suppressed_total",
     "kind",
     {"Bootstrap", "Provision", "Reclaim", "Preempt", "Delete"}},
    {"actions_dryrun_total", "kind", {"Bootstrap", "Provision", "Reclaim", "Preempt", "Delete"}},
    {"cycle_phase_duration_seconds_count",
     "phase",
     {"reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute"}},
    {"machines_rejected_total", "reason", {"structural", "interruption_probability", "price"}},
    {"shortfalls_aged", "bucket", {"1-9", "10-59", "60-299", "300+"}},
    {"shortfalls_by_priority", "priority_class", {"batch", "service", "critical", "other"}},
    {"session_lifecycle_total", "event", {"installed", "removed", "replaced"}},
    {"rollup_quarantined", "cluster", {"cluster-a"}},
    {"rollups_rejected_total", "cluster", {"cluster-a"}},
};
static const char *const plain[] = {
    "cycle_duration_seconds_count",
    "provisioning_latency_seconds_count",
    "configure_phase_seconds_count",
    "request_bootstrap_seconds_count",
    "drain_phase_seconds_count",
    "actions_deferred_total",
    "actions_dropped_total",
    "actions_deduped_total",
    "action_queue_depth",
    "execute_inflight",
    "idle_releases_total",
    "reclaims_capped_total",
    "actuation_paused",
    "shortfalls",
    "active_sessions",
    "session_identity_rejected_total",
};

static struct buf text;

static void write_text(struct metrics *metrics)
{
    buf_init(&text, 4 << 20);
    CHECK_OK("written", metrics_write(metrics, &text));
    CHECK_OK("as a C string", buf_append_byte(&text, '\0'));
}

static void shown(const char *series)
{
    char line[256];
    int len = snprintf(line, sizeof line, "\nbigfleet_shard_%s ", series);
    const char *at = strstr(text.data, line);

    CHECK(series, at != NULL);
    CHECK(series, at && at[len] >= '1' && at[len] <= '9');
}

/* Everything there is to count was counted once. */
static void count_all(struct shard_metrics *m)
{
    static struct core_counts counts;
    struct cluster_counts cluster = {STR("cluster-a"), .holds = 1, .rejected = 1};
    struct sessions_stats stats = {
        .active = 1, .installed = 1, .replaced = 1, .removed = 1, .identity_rejected = 1};

    memset(&counts, 1, sizeof counts); /* any number but zero */
    shard_metrics_take(m, &counts);
    shard_metrics_cycle_end(m, &counts, &cluster, 1);
    for (unsigned i = 0; i < SHARD_HISTOGRAMS; i++) shard_metrics_observe(m, i, 1);
    for (enum cycle_phase i = 0; i < PHASE_COUNT; i++) shard_metrics_phase(m, i, 1);
    shard_metrics_hold(m, true, false);
    shard_metrics_sessions(m, &stats, 0, 0);
}

TEST(every_metric_has_the_names_and_labels_of_the_specification)
{
    static const char *const states[] = {"Speculative", "Creating", "Idle",     "Configuring",
                                         "Configured",  "Draining", "Deleting", "Failed"};
    static const char *const types[] = {"CapacityType(0)", "BareMetal", "Reserved", "OnDemand",
                                        "Spot"};
    struct metrics *metrics;
    struct shard_metrics *m;
    struct note note = {""};
    char series[200];

    CHECK_OK("registry", metrics_open(&metrics));
    CHECK_OK(note.text, shard_metrics_open(metrics, &m, &note));
    count_all(m);
    write_text(metrics);
    for (size_t i = 0; i < ARRAY_LEN(plain); i++) shown(plain[i]);
    for (size_t i = 0; i < ARRAY_LEN(labelled); i++)
        for (size_t j = 0; labelled[i].values[j]; j++) {
            (void)snprintf(series, sizeof series, "%s{%s=\"%s\"}", labelled[i].name,
                           labelled[i].label, labelled[i].values[j]);
            shown(series);
        }
    for (size_t i = 0; kinds[i]; i++)
        for (size_t j = 0; outcomes[j]; j++) {
            (void)snprintf(series, sizeof series,
                           "action_execute_outcomes_total{kind=\"%s\",outcome=\"%s\"}", kinds[i],
                           outcomes[j]);
            shown(series);
        }
    for (size_t i = 0; buckets[i]; i++) {
        (void)snprintf(series, sizeof series, "demand_machines{interruption_penalty_bucket=\"%s\"}",
                       buckets[i]);
        shown(series);
        for (size_t j = 0; j < ARRAY_LEN(states); j++)
            for (size_t k = 0; k < ARRAY_LEN(types); k++) {
                (void)snprintf(series, sizeof series,
                               "inventory_machines{state=\"%s\",capacity_type=\"%s\","
                               "interruption_penalty_bucket=\"%s\"}",
                               states[j], types[k], buckets[i]);
                shown(series);
            }
    }
    buf_deinit(&text);
    shard_metrics_close(m);
    metrics_close(metrics);
}

TEST(what_is_gone_keeps_no_last_value)
{
    static struct core_counts counts;
    struct metrics *metrics;
    struct shard_metrics *m;
    struct note note = {""};
    struct cluster_counts cluster = {STR("cluster-a"), .holds = 2};

    CHECK_OK("registry", metrics_open(&metrics));
    CHECK_OK(note.text, shard_metrics_open(metrics, &m, &note));
    counts.inventory_by_bucket[MACHINE_IDLE][CAPACITY_SPOT][PENALTY_ZERO] = 3;
    shard_metrics_cycle_end(m, &counts, &cluster, 1);
    counts.inventory_by_bucket[MACHINE_IDLE][CAPACITY_SPOT][PENALTY_ZERO] = 0;
    shard_metrics_cycle_end(m, &counts, NULL, 0);
    write_text(metrics);
    CHECK("machines", !strstr(text.data, "state=\"Idle\""));
    CHECK("a cluster", !strstr(text.data, "cluster-a"));
    buf_deinit(&text);
    shard_metrics_close(m);
    metrics_close(metrics);
}
