/* SPDX-License-Identifier: Apache-2.0 */
/* The text format 0.0.4: "# HELP", "# TYPE", then samples; histogram buckets cumulative. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "obs/line.h"
#include "obs/metrics_impl.h"

#define OVERFLOW_NAME "muster_metrics_overflow_total"

struct writer {
    struct buf *out;
    enum err err; /* the first failure; later calls do nothing */
};

static void put(struct writer *w, struct str text)
{
    if (!w->err) w->err = buf_append(w->out, text);
}

static void put_c(struct writer *w, const char *text)
{
    put(w, str_from(text));
}

/* Backslash and line end are escaped, quotes where quotes stand around. The text is UTF-8: a
 * scraper would drop the whole page, so help texts are refused and values made so when they come
 * in. */
static void put_escaped(struct writer *w, struct str text, bool quoted)
{
    for (size_t i = 0; i < text.len && !w->err; i++) {
        char c = text.at[i];
        if (c == '\\')
            put(w, STR("\\\\"));
        else if (c == '\n')
            put(w, STR("\\n"));
        else if (c == '"' && quoted)
            put(w, STR("\\\""));
        else
            put(w, str_of(&text.at[i], 1));
    }
}

static void put_double(struct writer *w, double value)
{
    char room[48];
    struct log_line line;
    if (isnan(value)) {
        put(w, STR("NaN"));
    } else if (isinf(value)) {
        put_c(w, value > 0 ? "+Inf" : "-Inf");
    } else {
        line_init(&line, room, sizeof room);
        line_add_double(&line, value);
        put(w, line_peek(&line));
    }
}

static void put_u64(struct writer *w, uint64_t value)
{
    if (!w->err) w->err = buf_appendf(w->out, "%" PRIu64, value);
}

static void put_counter(struct writer *w, const struct metric_family *family, uint64_t value)
{
    if (family->per_unit == 1)
        put_u64(w, value);
    else
        put_double(w, (double)value / family->per_unit);
}

/* "{a="x",b="y"}"; `bound` adds le, and nothing at all is written without labels. */
static void put_labels(struct writer *w, const struct metric_family *family,
                       const struct metric_series *series, const double *bound)
{
    struct str rest = str_of(series->key, series->key_len), value;
    if (family->label_count == 0 && !bound) return;
    put_c(w, "{");
    for (size_t i = 0; i < family->label_count; i++) {
        (void)str_split(&rest, '\0', &value);
        put_c(w, i ? "," : "");
        put_c(w, family->labels[i]);
        put_c(w, "=\"");
        put_escaped(w, value, true);
        put_c(w, "\"");
    }
    if (bound) {
        put_c(w, family->label_count ? ",le=\"" : "le=\"");
        put_double(w, *bound);
        put_c(w, "\"");
    }
    put_c(w, "}");
}

static void put_histogram(struct writer *w, const struct metric_family *family,
                          const struct metric_series *series)
{
    const struct histogram *histogram = series->value.histogram;
    uint64_t count = 0, sum_bits;
    double sum;

    for (size_t i = 0; i <= family->bound_count; i++) {
        double bound = i < family->bound_count ? family->bounds[i] : INFINITY;
        count += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        put_c(w, family->name);
        put_c(w, "_bucket");
        put_labels(w, family, series, &bound);
        put_c(w, " ");
        put_u64(w, count);
        put_c(w, "\n");
    }
    sum_bits = atomic_load_explicit(&histogram->sum_bits, memory_order_relaxed);
    memcpy(&sum, &sum_bits, sizeof sum);
    put_c(w, family->name);
    put_c(w, "_sum");
    put_labels(w, family, series, NULL);
    put_c(w, " ");
    put_double(w, sum);
    put_c(w, "\n");
    put_c(w, family->name);
    put_c(w, "_count");
    put_labels(w, family, series, NULL);
    put_c(w, " ");
    put_u64(w, count); /* the same as +Inf, whatever other threads add meanwhile */
    put_c(w, "\n");
}

static void put_series(struct writer *w, const struct metric_family *family,
                       const struct metric_series *series)
{
    if (family->kind == METRIC_HISTOGRAM) {
        put_histogram(w, family, series);
        return;
    }
    put_c(w, family->name);
    put_labels(w, family, series, NULL);
    put_c(w, " ");
    if (family->kind == METRIC_COUNTER)
        put_counter(w, family, counter_value(&series->value.counter));
    else
        put_double(w, gauge_value(&series->value.gauge));
    put_c(w, "\n");
}

static void put_head(struct writer *w, const char *name, const char *help, enum metric_kind kind)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    put_c(w, "# HELP ");
    put_c(w, name);
    put_c(w, " ");
    put_escaped(w, str_from(help), false);
    put_c(w, "\n# TYPE ");
    put_c(w, name);
    put_c(w, " ");
    put_c(w, kinds[kind]);
    put_c(w, "\n");
}

static int by_key(const void *a, const void *b)
{
    const struct metric_series *const *left = a, *const *right = b;
    return str_compare(str_of((*left)->key, (*left)->key_len),
                       str_of((*right)->key, (*right)->key_len));
}

static void put_family(struct writer *w, struct metric_family *family,
                       const struct metric_series **room)
{
    struct map_entry *entry;
    size_t cursor = 0, count = 0;

    while ((entry = map_next(&family->series, &cursor))) room[count++] = entry->value;
    if (family->other_used) room[count++] = family->other;
    put_head(w, family->name, family->help, family->kind);
    qsort(room, count, sizeof(void *), by_key);
    for (size_t i = 0; i < count; i++) put_series(w, family, room[i]);
}

static void put_overflows(struct writer *w, const struct metrics *metrics)
{
    put_head(w, OVERFLOW_NAME,
             "Uses of the series \"other\" because a metric had no room for more.", METRIC_COUNTER);
    for (size_t i = 0; i < metrics->family_count; i++) {
        uint64_t count = atomic_load(&metrics->families[i]->overflows);
        if (count == 0) continue;
        put_c(w, OVERFLOW_NAME "{metric=\"");
        put_c(w, metrics->families[i]->name);
        put_c(w, "\"} ");
        put_u64(w, count);
        put_c(w, "\n");
    }
}

static void collect(struct metrics *metrics)
{
    size_t count;
    pthread_mutex_lock(&metrics->lock);
    count = metrics->collector_count; /* only ever added to */
    pthread_mutex_unlock(&metrics->lock);
    for (size_t i = 0; i < count; i++) metrics->collectors[i].fn(metrics->collectors[i].context);
}

enum err metrics_write(struct metrics *metrics, struct buf *into)
{
    struct writer w = {.out = into};
    size_t before = into->len;
    bool told = false;
    const struct metric_series **room = malloc((METRIC_SERIES_MAX + 1) * sizeof(void *));

    if (!room) return ERR_NOMEM;
    collect(metrics);
    pthread_mutex_lock(&metrics->lock);
    for (size_t i = 0; i < metrics->family_count && !w.err; i++) {
        if (!told && strcmp(metrics->families[i]->name, OVERFLOW_NAME) > 0) {
            put_overflows(&w, metrics);
            told = true;
        }
        put_family(&w, metrics->families[i], room);
    }
    if (!told) put_overflows(&w, metrics);
    pthread_mutex_unlock(&metrics->lock);
    free(room);
    if (w.err) into->len = before;
    return w.err;
}
