/* SPDX-License-Identifier: Apache-2.0 */
/* Families, their series, and struct fields shown as metrics. The registry's lock guards families
 * and series. Values are atomic. */
#include "obs/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "obs/metrics_impl.h"
#include "text/utf8.h"

/* -- values -- */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void add_double(_Atomic uint64_t *bits, double by)
{
    uint64_t old = atomic_load_explicit(bits, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(bits, &old, bits_of(of_bits(old) + by),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    } /* the loop ends: in each round some thread succeeds */
}

void counter_raise_to(struct counter *counter, uint64_t value)
{
    uint_fast64_t old = atomic_load_explicit(&counter->value, memory_order_relaxed);
    while (old < value &&
           !atomic_compare_exchange_weak_explicit(&counter->value, &old, value,
                                                  memory_order_relaxed, memory_order_relaxed)) {}
}

uint64_t counter_value(const struct counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

void gauge_set(struct gauge *gauge, double value)
{
    atomic_store_explicit(&gauge->bits, bits_of(value), memory_order_relaxed);
}

void gauge_add(struct gauge *gauge, double by)
{
    add_double(&gauge->bits, by);
}

double gauge_value(const struct gauge *gauge)
{
    return of_bits(atomic_load_explicit(&gauge->bits, memory_order_relaxed));
}

void histogram_observe(struct histogram *histogram, double value)
{
    const struct metric_family *family = histogram->family;
    size_t low = 0, high = family->options.bucket_count;

    if (isnan(value)) return;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (value <= family->options.buckets[middle])
            high = middle;
        else
            low = middle + 1;
    }
    atomic_fetch_add_explicit(&histogram->buckets[low], 1, memory_order_relaxed);
    add_double(&histogram->sum_bits, value);
}

/* -- series, under lock -- */

/* Makes the series if missing. NULL: no room or no memory. */
static struct metric_series *series_make(struct metric_family *family, struct str key)
{
    size_t buckets = (family->options.bucket_count + 1) * sizeof(atomic_uint_fast64_t), size;
    struct metric_series *series;

    size = sizeof *series +
           (family->options.kind == METRIC_HISTOGRAM ? sizeof(struct histogram) + buckets : 0);
    series = map_make(&family->series, key, size);
    if (!series || series->key.at) return series;
    series->key = str_of((char *)series + size, key.len);
    if (family->options.kind == METRIC_HISTOGRAM) {
        series->value.histogram = (void *)(series + 1);
        series->value.histogram->family = family;
    }
    return series;
}

/* Writes valid UTF-8 of at most METRIC_LABEL_MAX bytes; other bytes become U+FFFD. Call before the
 * lookup, so that values with the same printed form are one series. */
static size_t value_put(struct str value, char *into)
{
    static const char unknown[] = "\xef\xbf\xbd";
    size_t len = 0;
    if (str_is_utf8(value)) {
        len = utf8_clip(value, METRIC_LABEL_MAX).len;
        if (len > 0) memcpy(into, value.at, len);
        return len;
    }
    for (size_t i = 0; i < value.len; i++) {
        bool plain = (unsigned char)value.at[i] < 0x80;
        size_t size = plain ? 1 : sizeof unknown - 1;
        if (len + size > METRIC_LABEL_MAX) break;
        memcpy(into + len, plain ? &value.at[i] : unknown, size);
        len += size;
    }
    return len;
}

/* A NUL inside a value ends the value, because the text format cannot show the bytes after the
 * NUL. */
static struct str key_make(const struct metric_family *family, const struct str *values,
                           char key[METRIC_KEY_MAX])
{
    size_t len = 0;
    for (size_t i = 0; i < family->label_count; i++) {
        len += value_put(str_of(values[i].at, str_find(values[i], '\0')), key + len);
        key[len++] = '\0';
    }
    return str_of(key, len);
}

static union metric_value *value_of(struct metric_family *family, enum metric_kind kind,
                                    const struct str *values)
{
    char room[METRIC_KEY_MAX];
    struct metric_series *series;
    assert(family->options.kind == kind);
    assert(values || family->label_count == 0);
    (void)kind;
    pthread_mutex_lock(&family->metrics->lock);
    series = series_make(family, key_make(family, values, room));
    if (!series) {
        series = family->other;
        atomic_fetch_add(&family->overflows, 1);
    }
    if (series == family->other) family->other_used = true; /* even if a value is "other" */
    series->touched = true;
    pthread_mutex_unlock(&family->metrics->lock);
    return &series->value;
}

struct counter *metric_counter(struct metric_family *family, const struct str *values)
{
    return &value_of(family, METRIC_COUNTER, values)->counter;
}

struct gauge *metric_gauge(struct metric_family *family, const struct str *values)
{
    return &value_of(family, METRIC_GAUGE, values)->gauge;
}

struct histogram *metric_histogram(struct metric_family *family, const struct str *values)
{
    return value_of(family, METRIC_HISTOGRAM, values)->histogram;
}

enum err metrics_add_counter(struct metrics *metrics, const char *name, const char *help,
                             struct counter **ret_counter, struct note *note)
{
    struct metric_options options = {.name = name, .help = help, .kind = METRIC_COUNTER};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    if (!err) *ret_counter = metric_counter(family, NULL);
    return err;
}

enum err metrics_add_gauge(struct metrics *metrics, const char *name, const char *help,
                           struct gauge **ret_gauge, struct note *note)
{
    struct metric_options options = {.name = name, .help = help, .kind = METRIC_GAUGE};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    if (!err) *ret_gauge = metric_gauge(family, NULL);
    return err;
}

enum err metrics_add_histogram(struct metrics *metrics, const char *name, const char *help,
                               const double *buckets, size_t bucket_count,
                               struct histogram **ret_histogram, struct note *note)
{
    struct metric_options options = {.name = name,
                                     .help = help,
                                     .kind = METRIC_HISTOGRAM,
                                     .buckets = buckets,
                                     .bucket_count = bucket_count};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    if (!err) *ret_histogram = metric_histogram(family, NULL);
    return err;
}

/* -- struct fields -- */

enum err metrics_add_fields(struct metrics *metrics, const struct metric_field *rows, size_t count,
                            struct metric_fields **ret_fields, struct note *note)
{
    struct metric_fields *fields = calloc(1, sizeof *fields + count * sizeof fields->values[0]);
    struct metric_family *family = NULL;
    enum err err = ERR_OK;

    if (!fields) return ERR_NOMEM;
    fields->rows = rows;
    fields->count = count;
    for (size_t i = 0; !err && i < count; i++) {
        assert(rows[i].size == sizeof(uint32_t) || rows[i].size == sizeof(uint64_t));
        if (i == 0 || strcmp(rows[i].name, rows[i - 1].name) != 0)
            err =
                metrics_add(metrics,
                            &(struct metric_options){
                                .name = rows[i].name,
                                .help = rows[i].help,
                                .kind = rows[i].kind,
                                .labels = {rows[i].label},
                                .per_unit = rows[i].kind == METRIC_COUNTER ? rows[i].per_unit : 0},
                            &family, note);
        if (!err)
            fields->values[i] =
                value_of(family, rows[i].kind,
                         rows[i].label ? (const struct str[]){str_from(rows[i].value)} : NULL);
    }
    if (err) {
        free(fields);
        return err;
    }
    pthread_mutex_lock(&metrics->lock);
    fields->next = metrics->fields;
    metrics->fields = fields;
    pthread_mutex_unlock(&metrics->lock);
    *ret_fields = fields;
    return ERR_OK;
}

void metrics_set_fields(const struct metric_fields *fields, const void *from)
{
    for (size_t i = 0; fields && i < fields->count; i++) {
        const struct metric_field *row = &fields->rows[i];
        const char *at = (const char *)from + row->at;
        uint64_t number = 0;
        uint32_t small;

        if (row->size == sizeof small) {
            memcpy(&small, at, sizeof small);
            number = small;
        } else {
            memcpy(&number, at, sizeof number);
        }
        if (row->kind == METRIC_COUNTER)
            counter_raise_to(&fields->values[i]->counter, number);
        else
            gauge_set(&fields->values[i]->gauge,
                      (double)number / (row->per_unit > 0 ? row->per_unit : 1));
    }
}

void metric_round_begin(struct metric_family *family)
{
    struct map_entry *entry;
    size_t cursor = 0;
    pthread_mutex_lock(&family->metrics->lock);
    while ((entry = map_next(&family->series, &cursor)))
        ((struct metric_series *)entry->value)->touched = family->label_count == 0;
    pthread_mutex_unlock(&family->metrics->lock);
}

void metric_round_end(struct metric_family *family)
{
    struct map_entry *entry;
    size_t cursor = 0;
    pthread_mutex_lock(&family->metrics->lock);
    while ((entry = map_next(&family->series, &cursor))) {
        struct metric_series *series = entry->value;
        if (series->touched) continue;
        if (series == family->other)
            family->other_used = false;
        else
            free(map_remove(&family->series, series->key));
    }
    pthread_mutex_unlock(&family->metrics->lock);
}

/* -- families -- */

/* Checks the constant that describes a metric. Tests of the metrics page check the names. */
static bool metric_is_sound(const struct metric_options *options)
{
    return options->name && options->help && !options->labels[METRIC_LABELS_MAX] &&
           options->series_max <= METRIC_SERIES_MAX &&
           options->bucket_count <= METRIC_BUCKETS_MAX &&
           (options->kind == METRIC_HISTOGRAM) == (options->bucket_count > 0);
}

static void family_free(struct metric_family *family)
{
    map_free(&family->series);
    free(family);
}

static struct metric_family *family_make(struct metrics *metrics,
                                         const struct metric_options *options)
{
    const struct str others[METRIC_LABELS_MAX] = {STR("other"), STR("other"), STR("other"),
                                                  STR("other")};
    struct metric_family *family = calloc(1, sizeof *family);
    char room[METRIC_KEY_MAX];

    if (!family) return NULL;
    family->metrics = metrics;
    family->options = *options;
    if (!options->series_max) family->options.series_max = METRIC_SERIES_DEFAULT;
    if (!(options->per_unit > 0)) family->options.per_unit = 1;
    while (options->labels[family->label_count]) family->label_count++;
    map_init(&family->series, family->options.series_max + 1u, 0);
    family->other = series_make(family, key_make(family, others, room));
    family->other_used = family->label_count == 0;
    if (family->other) return family;
    family_free(family);
    return NULL;
}

/* Keeps families sorted by name. */
static enum err family_insert(struct metrics *metrics, struct metric_family *own_family)
{
    size_t place = 0;
    while (place < metrics->family_count) {
        int order = strcmp(metrics->families[place]->options.name, own_family->options.name);
        if (order == 0) return ERR_EXISTS;
        if (order > 0) break;
        place++;
    }
    if (metrics->family_count == METRIC_FAMILIES_MAX) return ERR_FULL;
    if (metrics->family_count == metrics->family_cap) {
        size_t cap = metrics->family_cap ? metrics->family_cap * 2 : 32;
        struct metric_family **grown = realloc(metrics->families, cap * sizeof(void *));
        if (!grown) return ERR_NOMEM;
        metrics->families = grown;
        metrics->family_cap = cap;
    }
    memmove(metrics->families + place + 1, metrics->families + place,
            (metrics->family_count - place) * sizeof(void *));
    metrics->families[place] = own_family;
    metrics->family_count++;
    return ERR_OK;
}

enum err metrics_add(struct metrics *metrics, const struct metric_options *options,
                     struct metric_family **ret_family, struct note *note)
{
    struct metric_family *family;
    enum err err;

    assert(metric_is_sound(options));
    family = family_make(metrics, options);
    if (!family) return ERR_NOMEM;
    pthread_mutex_lock(&metrics->lock);
    err = family_insert(metrics, family);
    pthread_mutex_unlock(&metrics->lock);
    if (err) {
        note_set(note, "metric %s: %s", options->name, err_text(err));
        family_free(family);
        return err;
    }
    *ret_family = family;
    return ERR_OK;
}

enum err metrics_on_write(struct metrics *metrics, metrics_collect_fn *fn, void *context)
{
    enum err err = ERR_FULL;
    pthread_mutex_lock(&metrics->lock);
    if (metrics->collector_count < METRIC_COLLECTORS_MAX) {
        metrics->collectors[metrics->collector_count].fn = fn;
        metrics->collectors[metrics->collector_count++].context = context;
        err = ERR_OK;
    }
    pthread_mutex_unlock(&metrics->lock);
    return err;
}

void metrics_off_write(struct metrics *metrics, metrics_collect_fn *fn, void *context)
{
    pthread_mutex_lock(&metrics->lock);
    for (size_t i = 0; i < metrics->collector_count; i++) {
        if (metrics->collectors[i].fn != fn || metrics->collectors[i].context != context) continue;
        metrics->collectors[i] = metrics->collectors[--metrics->collector_count];
        break;
    }
    pthread_mutex_unlock(&metrics->lock);
}

enum err metrics_open(struct metrics **ret_metrics)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics) return ERR_NOMEM;
    pthread_mutex_init(&metrics->lock, NULL);
    *ret_metrics = metrics;
    return ERR_OK;
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics) return;
    for (size_t i = 0; i < metrics->family_count; i++) family_free(metrics->families[i]);
    free(metrics->families);
    while (metrics->fields) {
        struct metric_fields *fields = metrics->fields;

        metrics->fields = fields->next;
        free(fields);
    }
    pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}
