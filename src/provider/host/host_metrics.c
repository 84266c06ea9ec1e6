/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/host_metrics.h"

#include <stdlib.h>

#include "provider/host/operation.h"

#define PREFIX "muster_provider_"

enum { SIGHTINGS = SEEN_REMOVED + 1 };

struct host_metrics {
    const struct book *book;
    struct gauge *machines[MACHINE_STATE_COUNT];
    struct gauge *under_way, *revision, *state_bytes, *list_bytes;
    struct counter *asked[OPERATION_KINDS][BOOK_OUTCOMES];
    struct counter *ended[2], *seen[SIGHTINGS], *compacted[2], *lists[2];
    struct counter *written_bytes, *listed_bytes;
    struct histogram *sync_seconds;
};

struct opening {
    struct metrics *metrics;
    struct note *note;
    enum err err; /* the first */
};

static struct metric_family *add(struct opening *o, struct metric_options options)
{
    struct metric_family *family = NULL;

    if (!o->err) o->err = metrics_add(o->metrics, &options, &family, o->note);
    return family;
}

static void add_gauge(struct opening *o, const char *name, const char *help,
                      struct gauge **ret_gauge)
{
    if (!o->err) o->err = metrics_add_gauge(o->metrics, name, help, ret_gauge, o->note);
}

static void add_counter(struct opening *o, const char *name, const char *help,
                        struct counter **ret_counter)
{
    if (!o->err) o->err = metrics_add_counter(o->metrics, name, help, ret_counter, o->note);
}

/* One label whose values are known. */
static void add_counters(struct opening *o, const char *name, const char *help, const char *label,
                         const char *const *values, size_t count, struct counter **ret_counters)
{
    struct metric_family *family =
        add(o, (struct metric_options){
                   .name = name, .help = help, .kind = METRIC_COUNTER, .labels = {label}});

    for (size_t i = 0; family && i < count; i++) {
        struct str value = str_from(values[i]);
        ret_counters[i] = metric_counter(family, &value);
    }
}

static void add_machines(struct opening *o, struct host_metrics *m)
{
    struct metric_family *family =
        add(o, (struct metric_options){.name = PREFIX "machines",
                                       .help = "Machines in the book, by state.",
                                       .kind = METRIC_GAUGE,
                                       .labels = {"state"}});

    for (uint32_t i = MACHINE_SPECULATIVE; family && i < MACHINE_STATE_COUNT; i++) {
        char name[MACHINE_NAME_CAP];
        struct str value = str_from(machine_state_name(i, name));
        m->machines[i] = metric_gauge(family, &value);
    }
}

static void add_asked(struct opening *o, struct host_metrics *m)
{
    struct metric_family *family =
        add(o, (struct metric_options){
                   .name = PREFIX "requests_total",
                   .help = "Mutating calls by what became of them; wrong_state and fenced are "
                           "refusals.",
                   .kind = METRIC_COUNTER,
                   .labels = {"call", "outcome"}});

    for (int kind = 0; family && kind < OPERATION_KINDS; kind++)
        for (int outcome = 0; outcome < BOOK_OUTCOMES; outcome++) {
            const struct str values[] = {str_from(operation_kind_name((enum operation_kind)kind)),
                                         str_from(book_outcome_name((enum book_outcome)outcome))};
            m->asked[kind][outcome] = metric_counter(family, values);
        }
}

static void add_rest(struct opening *o, struct host_metrics *m)
{
    static const char *const ends[] = {"done", "failed"}, *const lists[] = {"full", "delta"};
    static const char *const sightings[SIGHTINGS] = {"offered", "failed", "reclaimed", "removed"};
    static const char *const published[] = {"given_up", "published"};
    static const double buckets[] = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
                                     0.01,   0.02,   0.05,   0.1,   0.5,   2};
    struct metric_family *syncs;

    add_counters(o, PREFIX "operations_total", "Operations that ended.", "end", ends, 2, m->ended);
    add_counters(o, PREFIX "sightings_total", "What the backend saw by itself.", "what", sightings,
                 SIGHTINGS, m->seen);
    add_counters(o, PREFIX "state_rewrites_total", "New state files, to be smaller.", "end",
                 published, 2, m->compacted);
    add_counters(o, PREFIX "lists_total", "Lists answered.", "kind", lists, 2, m->lists);
    syncs = add(o, (struct metric_options){
                       .name = PREFIX "state_sync_seconds",
                       .help = "Appending to the state file and syncing it; answers wait for it.",
                       .kind = METRIC_HISTOGRAM,
                       .buckets = buckets,
                       .bucket_count = ARRAY_LEN(buckets)});
    if (syncs) m->sync_seconds = metric_histogram(syncs, NULL);
}

enum err host_metrics_open(struct metrics *metrics, const struct book *book,
                           struct host_metrics **ret_metrics, struct note *note)
{
    struct opening o = {.metrics = metrics, .note = note};
    struct host_metrics *m;

    *ret_metrics = NULL;
    if (!metrics) return ERR_OK;
    m = calloc(1, sizeof *m);
    if (!m) return ERR_NOMEM;
    m->book = book;
    add_machines(&o, m);
    add_asked(&o, m);
    add_rest(&o, m);
    add_gauge(&o, PREFIX "operations", "Operations under way.", &m->under_way);
    add_gauge(&o, PREFIX "revision", "Changes since the book began.", &m->revision);
    add_gauge(&o, PREFIX "state_bytes", "Size of the state file.", &m->state_bytes);
    add_gauge(&o, PREFIX "list_bytes", "Size of a full List.", &m->list_bytes);
    add_counter(&o, PREFIX "state_written_bytes_total",
                "Bytes of changes written to the state file.", &m->written_bytes);
    add_counter(&o, PREFIX "listed_bytes_total", "Bytes of Lists.", &m->listed_bytes);
    if (o.err) {
        free(m);
        return o.err;
    }
    *ret_metrics = m;
    host_metrics_refresh(m);
    return ERR_OK;
}

void host_metrics_close(struct host_metrics *m)
{
    free(m);
}

void host_metrics_refresh(struct host_metrics *m)
{
    struct book_stats stats;

    if (!m) return;
    stats = book_stats(m->book);
    for (int i = MACHINE_SPECULATIVE; i < MACHINE_STATE_COUNT; i++)
        gauge_set(m->machines[i], (double)stats.machines[i]);
    gauge_set(m->under_way, (double)stats.operations);
    gauge_set(m->revision, (double)stats.revision);
    gauge_set(m->list_bytes, (double)stats.list_bytes);
}

void host_metrics_asked(struct host_metrics *m, enum operation_kind kind, enum book_outcome outcome)
{
    if (m) counter_inc(m->asked[kind][outcome]);
}

void host_metrics_ended(struct host_metrics *m, bool failed)
{
    if (m) counter_inc(m->ended[failed]);
}

void host_metrics_seen(struct host_metrics *m, enum sighting what)
{
    if (m) counter_inc(m->seen[what]);
}

void host_metrics_written(struct host_metrics *m, size_t bytes, uint64_t size, uint64_t sync_ns)
{
    if (!m) return;
    counter_add(m->written_bytes, bytes);
    gauge_set(m->state_bytes, (double)size);
    if (bytes > 0) histogram_observe(m->sync_seconds, (double)sync_ns / 1e9);
}

void host_metrics_compacted(struct host_metrics *m, bool published)
{
    if (m) counter_inc(m->compacted[published]);
}

void host_metrics_listed(struct host_metrics *m, uint64_t bytes, bool delta)
{
    if (!m) return;
    counter_inc(m->lists[delta]);
    counter_add(m->listed_bytes, bytes);
}
