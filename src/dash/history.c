/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps samples in a ring, and writes them as JSON. Callers hold the lock of `struct dash`. */
#include "dash/history.h"

#include <math.h>

static const char *const series_names[SERIES_COUNT] = {
#define X(series, name) name,
    SERIES_MAP(X)
#undef X
};

void sample_clear(struct sample *sample, wall_time at)
{
    sample->at = at;
    for (size_t i = 0; i < SERIES_COUNT; i++) sample->values[i] = NAN;
}

void history_add(struct history *history, const struct sample *sample)
{
    history->ring[history->next] = *sample;
    history->next = (history->next + 1) % HISTORY_SAMPLES;
    if (history->count < HISTORY_SAMPLES) history->count++;
}

static void write_row(struct ndjson *json, const struct sample *sample)
{
    ndjson_u64(json, NDJSON_ITEM, sample->at.ms);
    for (size_t i = 0; i < SERIES_COUNT; i++) ndjson_double(json, NDJSON_ITEM, sample->values[i]);
}

enum err history_write(const struct history *history, uint64_t every_ms, struct buf *into)
{
    size_t oldest = (history->next + HISTORY_SAMPLES - history->count) % HISTORY_SAMPLES;
    struct ndjson json;

    ndjson_begin(&json, into, NDJSON_LINE);
    ndjson_u64(&json, STR("every_ms"), every_ms);
    ndjson_open_array(&json, STR("names"));
    for (size_t i = 0; i < SERIES_COUNT; i++) ndjson_c_string(&json, NDJSON_ITEM, series_names[i]);
    ndjson_close_array(&json);
    ndjson_open_array(&json, STR("rows"));
    for (size_t i = 0; i < history->count; i++) {
        ndjson_open_array(&json, NDJSON_ITEM);
        write_row(&json, &history->ring[(oldest + i) % HISTORY_SAMPLES]);
        ndjson_close_array(&json);
    }
    ndjson_close_array(&json);
    return ndjson_end(&json);
}

enum err sample_write(const struct sample *sample, struct buf *into)
{
    struct ndjson json;

    ndjson_begin_value(&json, into, NDJSON_LINE);
    ndjson_open_array(&json, NDJSON_ITEM);
    write_row(&json, sample);
    ndjson_close_array(&json);
    return ndjson_end(&json);
}
