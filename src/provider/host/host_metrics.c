/* SPDX-License-Identifier: Apache-2.0 */
/* The names and help texts of the provider's metrics. */
#include "provider/host/host_metrics.h"

#include "provider/host/operation.h"

#define PREFIX                   "muster_provider_"
#define COUNTER(member)          METRIC_COUNTER, METRIC_FIELD(struct provider_counts, member)
#define GAUGE(member)            METRIC_GAUGE, METRIC_FIELD(struct provider_counts, member)
#define BY(its_label, its_value) .label = its_label, .value = its_value
#define MACHINES(state, name)                                                                      \
    {                                                                                              \
        PREFIX "machines", "Machines by state.", GAUGE(book.machines[state]), BY("state", name)    \
    }

static const struct metric_field rows[] = {
    MACHINES(MACHINE_SPECULATIVE, "Speculative"),
    MACHINES(MACHINE_CREATING, "Creating"),
    MACHINES(MACHINE_IDLE, "Idle"),
    MACHINES(MACHINE_CONFIGURING, "Configuring"),
    MACHINES(MACHINE_CONFIGURED, "Configured"),
    MACHINES(MACHINE_DRAINING, "Draining"),
    MACHINES(MACHINE_DELETING, "Deleting"),
    MACHINES(MACHINE_FAILED, "Failed"),
    {PREFIX "operations_total", "Ended operations by result.", COUNTER(ended[0]),
     BY("end", "done")},
    {PREFIX "operations_total", "", COUNTER(ended[1]), BY("end", "failed")},
    {PREFIX "sightings_total", "Changes of machines that the backend reported by itself.",
     COUNTER(seen[SEEN_OFFERED]), BY("what", "offered")},
    {PREFIX "sightings_total", "", COUNTER(seen[SEEN_FAILED]), BY("what", "failed")},
    {PREFIX "sightings_total", "", COUNTER(seen[SEEN_RECLAIMED]), BY("what", "reclaimed")},
    {PREFIX "sightings_total", "", COUNTER(seen[SEEN_REMOVED]), BY("what", "removed")},
    {PREFIX "state_rewrites_total", "Compactions of the state file by result.",
     COUNTER(rewritten[0]), BY("end", "given_up")},
    {PREFIX "state_rewrites_total", "", COUNTER(rewritten[1]), BY("end", "published")},
    {PREFIX "lists_total", "List calls answered, by kind.", COUNTER(lists[0]), BY("kind", "full")},
    {PREFIX "lists_total", "", COUNTER(lists[1]), BY("kind", "delta")},
    {PREFIX "operations", "Operations in progress.", GAUGE(book.operations)},
    {PREFIX "revision", "Changes of machines since the state file was created.",
     GAUGE(book.revision)},
    {PREFIX "list_bytes", "Size of a full List.", GAUGE(book.list_bytes)},
    {PREFIX "state_bytes", "Size of the state file.", GAUGE(state_bytes)},
    {PREFIX "state_written_bytes_total", "Bytes of changes written to the state file.",
     COUNTER(written_bytes)},
    {PREFIX "listed_bytes_total", "Bytes of List answers.", COUNTER(listed_bytes)},
};
static const double sync_buckets[] = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
                                      0.01,   0.02,   0.05,   0.1,   0.5,   2};
static const struct metric_options syncs = {
    .name = PREFIX "state_sync_seconds",
    .help = "Duration of an append to the state file with its sync. Answers wait for the sync.",
    .kind = METRIC_HISTOGRAM,
    .buckets = sync_buckets,
    .bucket_count = ARRAY_LEN(sync_buckets)};
static const struct metric_options requests = {
    .name = PREFIX "requests_total",
    .help = "Create, Configure, Drain and Delete calls by outcome.",
    .kind = METRIC_COUNTER,
    .labels = {"call", "outcome"}};

enum err host_metrics_open(struct metrics *metrics, struct host_metrics *ret_metrics,
                           struct note *note)
{
    struct host_metrics m;
    struct metric_family *sync_family, *request_family;
    enum err err;

    if (!metrics) return ERR_OK;
    err = metrics_add_fields(metrics, rows, ARRAY_LEN(rows), &m.rows, note);
    if (!err) err = metrics_add(metrics, &syncs, &sync_family, note);
    if (!err) err = metrics_add(metrics, &requests, &request_family, note);
    if (err) return err;
    m.sync_seconds = metric_histogram(sync_family, NULL);
    for (enum operation_kind kind = 0; kind < OPERATION_KINDS; kind++)
        for (enum book_outcome outcome = 0; outcome < BOOK_OUTCOMES; outcome++) {
            const struct str values[] = {str_from(operation_kind_name(kind)),
                                         str_from(book_outcome_name(outcome))};
            m.asked[kind][outcome] = metric_counter(request_family, values);
        }
    *ret_metrics = m;
    return ERR_OK;
}
