/* SPDX-License-Identifier: Apache-2.0 */
/* muster_log_*: the metrics of one replica (docs/observability.md). Without a registry nothing
 * is counted. Gauges are updated at most every UPDATE_MS. */
#include "log/replica_internal.h"

#include <stdlib.h>

enum { UPDATE_MS = 100 };

/* clang-format off */
/* Gauges and their values. */
#define GAUGES(X)                                                                                 \
    X("muster_log_term",               "Current Raft term of this replica.",              status.term)      \
    X("muster_log_is_leader",          "1 while this replica leads.",                             \
      status.role == REPLICA_LEADER)                                                              \
    X("muster_log_has_leader",         "1 while a leader is known.",                              \
      status.leader_id != 0)                                                                      \
    X("muster_log_is_voter",           "1 while this replica is a voter.",      status.voter)     \
    X("muster_log_members",            "Replicas in the newest configuration.",                    \
      replica->change.newest.count)                                                               \
    X("muster_log_cluster_level",      "Cluster level.",                        status.level)     \
    X("muster_log_last_index",         "Index of the last entry of the log.",                status.last)      \
    X("muster_log_durable_index",      "Index of the last entry synced to this disk.",              status.durable)   \
    X("muster_log_commit_index",       "Index of the last entry known to be committed.",     status.commit)    \
    X("muster_log_applied_index",      "Index of the last applied entry.",                   status.applied)   \
    X("muster_log_apply_lag_entries",  "Committed entries that are not applied yet.",                          \
      status.commit - min_u64(status.applied, status.commit))                                     \
    X("muster_log_snapshot_index",     "Index of the last entry in the newest snapshot.",    status.snapshot)  \
    X("muster_log_in_flight_entries",  "Proposals that are not applied yet.",                           \
      replica->propose.used_entries)                                                              \
    X("muster_log_in_flight_bytes",    "Bytes of proposals that are not applied yet.",         in_flight)        \
    X("muster_log_cache_bytes",        "Bytes of log entries kept in memory.",                                 \
      entries_bytes(replica->entries))                                                            \
    X("muster_log_disk_bytes",         "Bytes of log segments on disk, spare segments included.",    status.log_bytes) \
    X("muster_log_disk_free_bytes",    "Free bytes of the file system that has the log.",          status.disk_free) \
    X("muster_log_disk_full",          "1 while proposals are refused because the disk is full.", status.disk_full)
#define COUNTERS(X)                                                                               \
    X(ELECTIONS,           "muster_log_elections_total",   "Elections that this replica started.")        \
    X(LEADERSHIPS,         "muster_log_leaderships_total", "Elections this replica won.")         \
    X(READ_ROUNDS,         "muster_log_read_rounds_total", "Rounds that confirmed leadership for linearizable reads.")        \
    X(READS,               "muster_log_reads_total",       "Linearizable reads answered, refusals included.")  \
    X(SYNCS,               "muster_log_syncs_total",       "Appends that were synced to disk.")            \
    X(SNAPSHOTS_TAKEN,     "muster_log_snapshots_taken_total",     "Snapshots taken.")            \
    X(SNAPSHOTS_SENT,      "muster_log_snapshots_sent_total",      "Snapshots sent completely to another replica.")       \
    X(SNAPSHOTS_INSTALLED, "muster_log_snapshots_installed_total", "Snapshots installed.")        \
    X(SNAPSHOTS_FAILED,    "muster_log_snapshots_failed_total",                                   \
      "Snapshots that failed: taken, sent or installed.")                                                         \
    X(OLD_READS,           "muster_log_old_reads_total",                                          \
      "Reads of entries from segments, because the entries were no longer in memory.")                                         \
    X(MESSAGES_DROPPED,    "muster_log_messages_dropped_total",                                   \
      "Raft messages dropped because there was no connection or the queue was full.")
/* clang-format on */

#define X(text, help, value) {text, help},
static const struct {
    const char *name, *help;
} gauge_names[] = {GAUGES(X)};
#undef X
struct replica_metrics {
    bool on;
    struct counter *counters[REPLICA_COUNTERS];
    struct gauge *gauges[ARRAY_LEN(gauge_names)];
    struct counter *proposals[ERR_COUNT]; /* by result of the proposal */
    struct metric_family *results;
    struct histogram *sync_seconds, *batch_entries;
    mono_time updated_at;
};

static const struct {
    const char *name, *help;
} counter_names[REPLICA_COUNTERS] = {
#define X(name, text, help) [COUNT_##name] = {text, help},
    COUNTERS(X)
#undef X
};

static const double sync_buckets[] = {.0001, .00025, .0005, .001, .0025, .005, .01,
                                      .025,  .05,    .1,    .25,  .5,    1,    5};
static const double batch_buckets[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384};

static enum err add_all(struct metrics *metrics, struct replica_metrics *m, struct note *note)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(gauge_names); i++)
        err = metrics_add_gauge(metrics, gauge_names[i].name, gauge_names[i].help, &m->gauges[i],
                                note);
    for (size_t i = 0; !err && i < REPLICA_COUNTERS; i++)
        err = metrics_add_counter(metrics, counter_names[i].name, counter_names[i].help,
                                  &m->counters[i], note);
    if (err) return err;
    err = metrics_add(metrics,
                      &(struct metric_options){.name = "muster_log_proposals_total",
                                               .help = "Proposals by result.",
                                               .kind = METRIC_COUNTER,
                                               .labels = {"result"}},
                      &m->results, note);
    if (!err)
        err = metrics_add_histogram(metrics, "muster_log_sync_seconds",
                                    "Duration of an append with its sync.", sync_buckets,
                                    ARRAY_LEN(sync_buckets), &m->sync_seconds, note);
    if (!err)
        err =
            metrics_add_histogram(metrics, "muster_log_batch_entries", "Entries per append.",
                                  batch_buckets, ARRAY_LEN(batch_buckets), &m->batch_entries, note);
    return err;
}

enum err replica_metrics_open(struct metrics *metrics, struct replica_metrics **ret_metrics,
                              struct note *note)
{
    struct replica_metrics *m = calloc(1, sizeof *m);
    enum err err = m ? ERR_OK : ERR_NOMEM;

    if (!err && metrics) {
        err = add_all(metrics, m, note);
        m->on = !err;
    }
    if (err)
        free(m);
    else
        *ret_metrics = m;
    return err;
}

void replica_metrics_close(struct replica_metrics *metrics)
{
    free(metrics);
}

void replica_count(struct replica *replica, enum replica_counter counter)
{
    struct replica_metrics *m = replica->metrics;

    if (m->on) counter_inc(m->counters[counter]);
}

void replica_count_proposal(struct replica *replica, enum err err)
{
    struct replica_metrics *m = replica->metrics;

    if (!m || !m->on) return;
    if (!m->proposals[err]) {
        struct str result = str_from(err ? err_name(err) : "OK");
        m->proposals[err] = metric_counter(m->results, &result);
    }
    counter_inc(m->proposals[err]);
}

void replica_observe_sync(struct replica *replica, uint64_t ns, size_t batch)
{
    struct replica_metrics *m = replica->metrics;

    if (!m->on) return;
    counter_inc(m->counters[COUNT_SYNCS]);
    histogram_observe(m->sync_seconds, (double)ns / 1e9);
    histogram_observe(m->batch_entries, (double)batch);
}

void replica_metrics_pump(struct replica *replica)
{
    struct replica_metrics *m = replica->metrics;
    struct replica_status status;
    uint64_t in_flight = 0;
    size_t at = 0;

    if (!m->on || mono_elapsed_ms(m->updated_at, replica_now(replica)) < UPDATE_MS) return;
    m->updated_at = replica_now(replica);
    status = replica_status(replica);
    for (size_t i = 0; i < ARRAY_LEN(replica->propose.used_bytes); i++)
        in_flight += replica->propose.used_bytes[i];
#define X(text, help, value) gauge_set(m->gauges[at++], (double)(value));
    GAUGES(X)
#undef X
}
