/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, gauges and histograms, and their text for Prometheus (format 0.0.4).
 *
 * A family has a name, help, labels and a maximum number of series. A series is a handle that is
 * looked up once and updated by any thread with one atomic instruction. Label values come from
 * outside: beyond series_max, further values share one series with the value "other", and
 * muster_metrics_overflow_total{metric} counts their lookups. Everything stays allocated until
 * metrics_close.
 *
 * The order of the text is fixed: families by name, series by label values. */
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
    METRIC_LABEL_MAX = 128,   /* bytes of a label value; longer values are truncated */
    METRIC_SERIES_MAX = 4096, /* series of one family */
    METRIC_BUCKETS_MAX = 32,
};
struct metric_options { /* texts and buckets must outlive the registry */
    const char *name, *help;
    enum metric_kind kind;
    const char *labels[METRIC_LABELS_MAX + 1]; /* NULL ends the list */
    uint32_t series_max;                       /* 0: 64; always 1 without labels */
    /* Raw units per shown unit: 1e9 shows a counter of nanoseconds in seconds. */
    double per_unit;       /* 0: 1 */
    const double *buckets; /* histogram: upper bounds, ascending, without +Inf */
    size_t bucket_count;
};

struct counter {
    atomic_uint_fast64_t value;
};
struct gauge {
    _Atomic uint64_t bits;
}; /* bits of a double */
struct histogram;

enum err metrics_open(struct metrics **ret_metrics); /* ERR_NOMEM */
void metrics_close(struct metrics *metrics);         /* frees every handle; NULL is allowed */
/* Any thread. A family without labels shows its single series, with 0, from the start. ERR_EXISTS
 * with a note, ERR_FULL, ERR_NOMEM. */
enum err metrics_add(struct metrics *metrics, const struct metric_options *options,
                     struct metric_family **ret_family, struct note *note);
/* Adds a family without labels and returns its single series. Errors of metrics_add. */
enum err metrics_add_counter(struct metrics *metrics, const char *name, const char *help,
                             struct counter **ret_counter, struct note *note);
enum err metrics_add_gauge(struct metrics *metrics, const char *name, const char *help,
                           struct gauge **ret_gauge, struct note *note);
enum err metrics_add_histogram(struct metrics *metrics, const char *name, const char *help,
                               const double *buckets, size_t bucket_count,
                               struct histogram **ret_histogram, struct note *note);

/* A field of a struct that other code counts, shown as a counter or a gauge. Adjacent rows with the
 * same name are the series of one family, distinguished by `label`. */
struct metric_field {
    const char *name, *help;
    enum metric_kind kind;
    size_t at, size;           /* an unsigned number of 4 or 8 bytes, from METRIC_FIELD() */
    double per_unit;           /* the number is divided by per_unit; 0: 1 */
    const char *label, *value; /* NULL: no label */
};
#define METRIC_FIELD(type, member) .at = offsetof(type, member), .size = sizeof(((type *)0)->member)
struct metric_fields;
/* `rows` must outlive the registry. The registry frees *ret_fields. Errors of metrics_add. */
enum err metrics_add_fields(struct metrics *metrics, const struct metric_field *rows, size_t count,
                            struct metric_fields **ret_fields, struct note *note);
/* Copies the numbers from the struct at `from`. Counters never decrease. `fields` may be NULL. */
void metrics_set_fields(const struct metric_fields *fields, const void *from);

/* Returns the series with these label values, one per label; `values` NULL: no labels. Any thread.
 * Locks and hashes, so keep the handle. Never NULL: without room or memory the result is the
 * "other" series. */
struct counter *metric_counter(struct metric_family *family, const struct str *values);
struct gauge *metric_gauge(struct metric_family *family, const struct str *values);
struct histogram *metric_histogram(struct metric_family *family, const struct str *values);
/* For gauges that are recomputed in rounds: series not looked up between begin and end are removed.
 * Handles from before `begin` are invalid after `end`. One round per family at a time, and no
 * updates from other threads during a round. */
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
/* Sets a counter to a number that is counted elsewhere from 0. Never decreases the counter. */
void counter_raise_to(struct counter *counter, uint64_t value);
uint64_t counter_value(const struct counter *counter);
void gauge_set(struct gauge *gauge, double value);
void gauge_add(struct gauge *gauge, double by);
double gauge_value(const struct gauge *gauge);
void histogram_observe(struct histogram *histogram, double value); /* NaN is ignored */

/* Each metrics_write first calls `fn`, on its own thread, to refresh values that are read instead
 * of counted (memory, open files). At most METRIC_COLLECTORS_MAX. ERR_FULL. */
enum { METRIC_COLLECTORS_MAX = 16 };
typedef void metrics_collect_fn(void *context);
enum err metrics_on_write(struct metrics *metrics, metrics_collect_fn *fn, void *context);
/* Must not run during a metrics_write. An unknown collector is ignored. */
void metrics_off_write(struct metrics *metrics, metrics_collect_fn *fn, void *context);

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
/* Any thread. On ERR_FULL and ERR_NOMEM `into` is unchanged. */
enum err metrics_write(struct metrics *metrics, struct buf *into);

/* Adds process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
 * process_open_fds, process_max_fds, process_start_time_seconds, process_threads, and
 * muster_build_info{version,commit,compiler} 1. Real processes only. Errors of metrics_add. */
struct metrics_build {
    const char *version, *commit;
};
enum err metrics_add_process(struct metrics *metrics, const struct metrics_build *build,
                             struct note *note);
#endif
