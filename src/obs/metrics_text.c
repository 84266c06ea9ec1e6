/* SPDX-License-Identifier: Apache-2.0 */
/* Writes text format 0.0.4: "# HELP", "# TYPE", then samples. Histogram buckets are cumulative. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "obs/line.h"
#include "obs/metrics_impl.h"

#define OVERFLOW_NAME "muster_metrics_overflow_total"

struct page {
    struct buf *out;
    enum err err; /* the first failure; later calls do nothing */
};

static void page_add(struct page *page, struct str text)
{
    if (!page->err) page->err = buf_append(page->out, text);
}

__attribute__((format(printf, 2, 3))) static void page_format(struct page *page, const char *format,
                                                              ...)
{
    va_list args;

    if (page->err) return;
    va_start(args, format);
    page->err = buf_vappendf(page->out, format, args);
    va_end(args);
}

/* Escapes backslash and line end; `quoted`: also quotes. The text is UTF-8 already. */
static void page_escaped(struct page *page, struct str text, bool quoted)
{
    for (size_t i = 0; i < text.len && !page->err; i++) {
        char c = text.at[i];
        if (c == '\\' || (c == '"' && quoted)) page_add(page, STR("\\"));
        page_add(page, c == '\n' ? STR("\\n") : str_of(&text.at[i], 1));
    }
}

static void page_double(struct page *page, double value)
{
    char room[48];
    struct log_line line;
    if (isnan(value)) {
        page_add(page, STR("NaN"));
    } else if (isinf(value)) {
        page_add(page, value > 0 ? STR("+Inf") : STR("-Inf"));
    } else {
        line_init(&line, room, sizeof room);
        line_add_double(&line, value);
        page_add(page, line_peek(&line));
    }
}

/* Writes NAME{a="x",b="y"} and a blank. `bound` adds the label le. Without labels there are no
 * braces. */
static void page_sample(struct page *page, const struct metric_family *family, const char *suffix,
                        const struct metric_series *series, const double *bound)
{
    struct str rest = series->key, value;
    bool labels = family->label_count > 0 || bound;

    page_format(page, "%s%s%s", family->options.name, suffix, labels ? "{" : "");
    for (size_t i = 0; i < family->label_count; i++) {
        (void)str_split(&rest, '\0', &value);
        page_format(page, "%s%s=\"", i ? "," : "", family->options.labels[i]);
        page_escaped(page, value, true);
        page_add(page, STR("\""));
    }
    if (bound) {
        page_format(page, "%sle=\"", family->label_count ? "," : "");
        page_double(page, *bound);
        page_add(page, STR("\""));
    }
    page_add(page, labels ? STR("} ") : STR(" "));
}

static void page_histogram(struct page *page, const struct metric_family *family,
                           const struct metric_series *series)
{
    const struct histogram *histogram = series->value.histogram;
    uint64_t count = 0, sum_bits;
    double sum;

    for (size_t i = 0; i <= family->options.bucket_count; i++) {
        double bound = i < family->options.bucket_count ? family->options.buckets[i] : INFINITY;
        count += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        page_sample(page, family, "_bucket", series, &bound);
        page_format(page, "%" PRIu64 "\n", count);
    }
    sum_bits = atomic_load_explicit(&histogram->sum_bits, memory_order_relaxed);
    memcpy(&sum, &sum_bits, sizeof sum);
    page_sample(page, family, "_sum", series, NULL);
    page_double(page, sum);
    page_add(page, STR("\n"));
    page_sample(page, family, "_count", series, NULL);
    page_format(page, "%" PRIu64 "\n", count); /* always equals the +Inf bucket */
}

static void page_series(struct page *page, const struct metric_family *family,
                        const struct metric_series *series)
{
    if (family->options.kind == METRIC_HISTOGRAM) {
        page_histogram(page, family, series);
        return;
    }
    page_sample(page, family, "", series, NULL);
    if (family->options.kind == METRIC_GAUGE)
        page_double(page, gauge_value(&series->value.gauge));
    else if (family->options.per_unit == 1)
        page_format(page, "%" PRIu64, counter_value(&series->value.counter));
    else
        page_double(page, (double)counter_value(&series->value.counter) / family->options.per_unit);
    page_add(page, STR("\n"));
}

static void page_head(struct page *page, const char *name, const char *help, enum metric_kind kind)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    page_format(page, "# HELP %s ", name);
    page_escaped(page, str_from(help), false);
    page_format(page, "\n# TYPE %s %s\n", name, kinds[kind]);
}

static int by_key(const void *a, const void *b)
{
    const struct metric_series *const *left = a, *const *right = b;
    return str_compare((*left)->key, (*right)->key);
}

static void page_family(struct page *page, struct metric_family *family,
                        const struct metric_series **room)
{
    struct map_entry *entry;
    size_t cursor = 0, count = 0;

    while ((entry = map_next(&family->series, &cursor)))
        if (entry->value != family->other || family->other_used) room[count++] = entry->value;
    page_head(page, family->options.name, family->options.help, family->options.kind);
    qsort(room, count, sizeof(void *), by_key);
    for (size_t i = 0; i < count; i++) page_series(page, family, room[i]);
}

static void page_overflows(struct page *page, const struct metrics *metrics)
{
    page_head(page, OVERFLOW_NAME,
              "Updates counted under the label \"other\" because a metric had too many series.",
              METRIC_COUNTER);
    for (size_t i = 0; i < metrics->family_count; i++) {
        uint64_t count = atomic_load(&metrics->families[i]->overflows);
        if (count == 0) continue;
        page_format(page, OVERFLOW_NAME "{metric=\"%s\"} %" PRIu64 "\n",
                    metrics->families[i]->options.name, count);
    }
}

enum err metrics_write(struct metrics *metrics, struct buf *into)
{
    struct page page = {.out = into};
    size_t before = into->len, count;
    bool overflows_written = false;
    const struct metric_series **room = malloc((METRIC_SERIES_MAX + 1) * sizeof(void *));

    if (!room) return ERR_NOMEM;
    pthread_mutex_lock(&metrics->lock);
    count = metrics->collector_count; /* metrics_off_write() must not run meanwhile */
    pthread_mutex_unlock(&metrics->lock);
    for (size_t i = 0; i < count; i++) metrics->collectors[i].fn(metrics->collectors[i].context);
    pthread_mutex_lock(&metrics->lock);
    for (size_t i = 0; i < metrics->family_count && !page.err; i++) {
        if (!overflows_written && strcmp(metrics->families[i]->options.name, OVERFLOW_NAME) > 0) {
            page_overflows(&page, metrics);
            overflows_written = true;
        }
        page_family(&page, metrics->families[i], room);
    }
    if (!overflows_written) page_overflows(&page, metrics);
    pthread_mutex_unlock(&metrics->lock);
    free(room);
    if (page.err) into->len = before;
    return page.err;
}
