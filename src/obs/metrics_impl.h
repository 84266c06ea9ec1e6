/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the metrics. Only metrics*.c include this header. */
#ifndef OBS_METRICS_IMPL_H
#define OBS_METRICS_IMPL_H
#include <pthread.h>

#include "base/map.h"
#include "obs/metrics.h"

enum { METRIC_SERIES_DEFAULT = 64, METRIC_KEY_MAX = METRIC_LABELS_MAX * (METRIC_LABEL_MAX + 1) };

struct histogram {
    const struct metric_family *family;
    _Atomic uint64_t sum_bits;
    atomic_uint_fast64_t buckets[]; /* bucket_count + 1 counts; the last one is +Inf */
};
union metric_value {
    struct counter counter;
    struct gauge gauge;
    struct histogram *histogram;
};
struct metric_series {
    struct str key; /* label values, each followed by NUL, so that keys sort like the values */
    union metric_value value;
    bool touched; /* looked up since metric_round_begin */
};
struct metric_family {
    struct metrics *metrics;
    struct metric_options options; /* with defaults filled in; series_max does not count "other" */
    size_t label_count;
    struct map series; /* by key; guarded by the registry's lock */
    /* For values beyond series_max; without labels, the only series. */
    struct metric_series *other;
    bool other_used;
    atomic_uint_fast64_t overflows;
};
struct metric_fields {
    struct metric_fields *next;
    const struct metric_field *rows;
    size_t count;
    union metric_value *values[];
};
struct metrics {
    pthread_mutex_t lock;
    struct metric_family **families; /* sorted by name */
    size_t family_count, family_cap;
    struct {
        metrics_collect_fn *fn;
        void *context;
    } collectors[METRIC_COLLECTORS_MAX];
    size_t collector_count;
    struct metric_fields *fields;
};
#endif
