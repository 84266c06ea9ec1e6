/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, gauges and histograms, and their text for Prometheus (format 0.0.4).
 *
 * A family is declared once with its name, help, labels and the most series it may have; a series
 * is a handle, found once and then updated from any thread with one atomic instruction. Label
 * values come from outside, so their number is bounded: past series_max every further set of values
 * shares one series whose values all read "other", and muster_metrics_overflow_total{metric} says
 * how often that was asked for. Everything lives until metrics_close.
 *
 * The text is the same for the same values: families by name, series by label values. */
#ifndef OBS_METRICS_H
#define OBS_METRICS_H
#include <stdatomic.h>

#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

struct metrics;
struct metric_family;

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum {
    METRIC_FAMILIES_MAX = 1024,
    METRIC_LABELS_MAX = 4,
    METRIC_LABEL_MAX = 128,   /* bytes of a label value; more is cut */
    METRIC_SERIES_MAX = 4096, /* of one family */
    METRIC_BUCKETS_MAX = 32,
};
struct metric_options { /* its texts and buckets outlive the registry */
    const char *name, *help;
    enum metric_kind kind;
    const char *labels[METRIC_LABELS_MAX + 1]; /* NULL ends the list */
    uint32_t series_max;                       /* 0: 64; without labels it is 1 */
    /* Counters hold whole numbers. With per_unit 1e9 a counter of nanoseconds is shown in
     * seconds. */
    double per_unit;       /* 0: 1 */
    const double *buckets; /* histogram: upper bounds, growing, without +Inf */
    size_t bucket_count;
};

struct counter {
    atomic_uint_fast64_t value;
};
struct gauge {
    _Atomic uint64_t bits;
}; /* of a double */
struct histogram;

enum err metrics_open(struct metrics **ret_metrics); /* ERR_NOMEM */
void metrics_close(struct metrics *metrics);         /* every handle dies; NULL is fine */
/* Any thread. ERR_EXISTS with a note, ERR_FULL, ERR_NOMEM. A family without labels has its one series at once, so that 0 is shown. */
enum err metrics_add(struct metrics *metrics, const struct metric_options *options,
                     struct metric_family **ret_family, struct note *note);
/* One without labels, at once with its one series. Errors as metrics_add. */
enum err metrics_add_counter(struct metrics *metrics, const char *name, const char *help,
                             struct counter **ret_counter, struct note *note);
enum err metrics_add_gauge(struct metrics *metrics, const char *name, const char *help,
                           struct gauge **ret_gauge, struct note *note);

/* Numbers of a struct that somebody else counts, each shown as a counter or a gauge. Rows of one
 * name are next to each other: series of one family, by `label`. */
struct metric_field {
    const char *name, *help;
    enum metric_kind kind;
    size_t at, size;           /* METRIC_FIELD(): of the number, unsigned, of 4 or 8 bytes */
    double per_unit;           /* 0: 1; the number is divided by it */
    const char *label, *value; /* NULL: without a label */
};
#define METRIC_FIELD(type, member) .at = offsetof(type, member), .size = sizeof(((type *)0)->member)
struct metric_fields;
/* The rows must outlive the registry, which frees *ret_fields. Errors as metrics_add. */
enum err metrics_add_fields(struct metrics *metrics, const struct metric_field *rows, size_t count,
                            struct metric_fields **ret_fields, struct note *note);
/* Takes the numbers out of `from`; counters never fall. NULL fields are fine. */
void metrics_set_fields(const struct metric_fields *fields, const void *from);

/* The series with these label values (as many as the family has labels; NULL for none). Any thread;
 * it takes a lock and hashes, so keep the handle. Never NULL: out of room or memory it is "other",
 * which was made with the family. */
struct counter *metric_counter(struct metric_family *family, const struct str *values);
struct gauge *metric_gauge(struct metric_family *family, const struct str *values);
struct histogram *metric_histogram(struct metric_family *family, const struct str *values);
/* For gauges recomputed in rounds: series not asked for between begin and end are removed, so that
 * a cluster that is gone does not keep its last value. Handles from before `begin` die at `end`.
 * One round at a time per family, and no update of it from other threads meanwhile. */
void metric_round_begin(struct metric_family *family);
void metric_round_end(struct metric_family *family);

static inline void counter_add(struct counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}
static inline void counter_inc(struct counter *counter)
{
    counter_add(counter, 1);
}
/* For a number counted elsewhere, from a start of 0: never lowers it. */
void counter_raise_to(struct counter *counter, uint64_t value);
uint64_t counter_value(const struct counter *counter);
void gauge_set(struct gauge *gauge, double value);
void gauge_add(struct gauge *gauge, double by);
double gauge_value(const struct gauge *gauge);
void histogram_observe(struct histogram *histogram, double value); /* NaN is ignored */

/* Called at the start of each metrics_write, on its thread, to refresh values that are read and not
 * counted (memory, open files). At most METRIC_COLLECTORS_MAX. ERR_FULL. */
enum { METRIC_COLLECTORS_MAX = 16 };
typedef void metrics_collect_fn(void *context);
enum err metrics_on_write(struct metrics *metrics, metrics_collect_fn *fn, void *context);
/* No metrics_write may be under way. Nothing happens when it is not there. */
void metrics_off_write(struct metrics *metrics, metrics_collect_fn *fn, void *context);

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
/* Appends the whole text. Any thread. ERR_FULL, ERR_NOMEM: `into` is then as before. */
enum err metrics_write(struct metrics *metrics, struct buf *into);

/* process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
 * process_open_fds, process_max_fds, process_start_time_seconds, process_threads, and
 * muster_build_info{version,commit,compiler} 1. Real processes only. Errors as metrics_add. */
struct metrics_build {
    const char *version, *commit;
};
enum err metrics_add_process(struct metrics *metrics, const struct metrics_build *build,
                             struct note *note);
#endif
