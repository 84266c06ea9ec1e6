/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/host_metrics.h"

#include "provider/host/operation.h"

#define PREFIX "muster_provider_"

struct family { /* of counters with one label whose values are known */
    const char *name, *help, *label;
    const char *const *values;
    size_t count;
    struct counter **counters;
};

static enum err add_families(struct metrics *metrics, struct host_metrics *m, struct note *note)
{
    static const char *const ends[] = {"done", "failed"}, *const lists[] = {"full", "delta"},
                             *const published[] = {"given_up", "published"},
                             *const seen[] = {"offered", "failed", "reclaimed", "removed"};
    const struct family families[] = {
        {PREFIX "operations_total", "Operations that ended.", "end", ends, 2, m->ended},
        {PREFIX "sightings_total", "What the backend saw by itself.", "what", seen, SIGHTINGS,
         m->seen},
        {PREFIX "state_rewrites_total", "New state files, to be smaller.", "end", published, 2,
         m->compacted},
        {PREFIX "lists_total", "Lists answered.", "kind", lists, 2, m->lists},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(families); i++) {
        const struct family *f = &families[i];
        const struct metric_options options = {
            .name = f->name, .help = f->help, .kind = METRIC_COUNTER, .labels = {f->label}};
        struct metric_family *family;

        err = metrics_add(metrics, &options, &family, note);
        for (size_t k = 0; !err && k < f->count; k++) {
            struct str value = str_from(f->values[k]);
            f->counters[k] = metric_counter(family, &value);
        }
    }
    return err;
}

static enum err add_machines(struct metrics *metrics, struct host_metrics *m, struct note *note)
{
    static const struct metric_options options = {.name = PREFIX "machines",
                                                  .help = "Machines in the book, by state.",
                                                  .kind = METRIC_GAUGE,
                                                  .labels = {"state"}};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    for (uint32_t i = MACHINE_SPECULATIVE; !err && i < MACHINE_STATE_COUNT; i++) {
        char name[MACHINE_NAME_CAP];
        struct str value = str_from(machine_state_name(i, name));
        m->machines[i] = metric_gauge(family, &value);
    }
    return err;
}

static enum err add_asked(struct metrics *metrics, struct host_metrics *m, struct note *note)
{
    static const struct metric_options options = {
        .name = PREFIX "requests_total",
        .help = "Mutating calls by what became of them; wrong_state and fenced are refusals.",
        .kind = METRIC_COUNTER,
        .labels = {"call", "outcome"}};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    for (enum operation_kind kind = 0; !err && kind < OPERATION_KINDS; kind++)
        for (enum book_outcome outcome = 0; outcome < BOOK_OUTCOMES; outcome++) {
            const struct str values[] = {str_from(operation_kind_name(kind)),
                                         str_from(book_outcome_name(outcome))};
            m->asked[kind][outcome] = metric_counter(family, values);
        }
    return err;
}

static enum err add_plain(struct metrics *metrics, struct host_metrics *m, struct note *note)
{
    static const double buckets[] = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
                                     0.01,   0.02,   0.05,   0.1,   0.5,   2};
    static const struct metric_options syncs = {
        .name = PREFIX "state_sync_seconds",
        .help = "Appending to the state file and syncing it; answers wait for it.",
        .kind = METRIC_HISTOGRAM,
        .buckets = buckets,
        .bucket_count = ARRAY_LEN(buckets)};
    const struct {
        const char *name, *help;
        struct gauge **gauge;
    } gauges[] = {
        {PREFIX "operations", "Operations under way.", &m->under_way},
        {PREFIX "revision", "Changes since the book began.", &m->revision},
        {PREFIX "state_bytes", "Size of the state file.", &m->state_bytes},
        {PREFIX "list_bytes", "Size of a full List.", &m->list_bytes},
    };
    struct metric_family *family;
    enum err err = metrics_add(metrics, &syncs, &family, note);

    if (!err) m->sync_seconds = metric_histogram(family, NULL);
    for (size_t i = 0; !err && i < ARRAY_LEN(gauges); i++)
        err = metrics_add_gauge(metrics, gauges[i].name, gauges[i].help, gauges[i].gauge, note);
    if (!err)
        err = metrics_add_counter(metrics, PREFIX "state_written_bytes_total",
                                  "Bytes of changes written to the state file.", &m->written_bytes,
                                  note);
    return err ? err
               : metrics_add_counter(metrics, PREFIX "listed_bytes_total", "Bytes of Lists.",
                                     &m->listed_bytes, note);
}

enum err host_metrics_open(struct metrics *metrics, struct host_metrics *ret_metrics,
                           struct note *note)
{
    enum err err;

    if (!metrics) return ERR_OK;
    err = add_machines(metrics, ret_metrics, note);
    if (!err) err = add_asked(metrics, ret_metrics, note);
    if (!err) err = add_families(metrics, ret_metrics, note);
    return err ? err : add_plain(metrics, ret_metrics, note);
}

void host_metrics_refresh(const struct host_metrics *m, const struct book *book)
{
    struct book_stats stats;

    if (!m->revision) return;
    stats = book_stats(book);
    for (int i = MACHINE_SPECULATIVE; i < MACHINE_STATE_COUNT; i++)
        gauge_set(m->machines[i], (double)stats.machines[i]);
    gauge_set(m->under_way, (double)stats.operations);
    gauge_set(m->revision, (double)stats.revision);
    gauge_set(m->list_bytes, (double)stats.list_bytes);
}
