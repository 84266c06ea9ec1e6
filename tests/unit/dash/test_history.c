/* SPDX-License-Identifier: Apache-2.0 */
/* dash/history.h: the ring keeps the newest values in order, and marks unknown values. */
#include <math.h>
#include <stdlib.h>

#include "dash/history.h"
#include "lib/test.h"
#include "text/json.h"

static struct json *written(const struct history *history)
{
    struct json *json = NULL;
    struct note note = {""};
    struct buf text;

    buf_init(&text, 16 << 20);
    CHECK_OK("written", history_write(history, 2000, &text));
    CHECK_OK(note.text, json_open(buf_peek(&text), text.len, &json, &note));
    buf_deinit(&text);
    return json;
}

static uint64_t time_of(const struct json *json, size_t row)
{
    uint64_t ms = 0;

    CHECK_OK("a time", json_get_u64(json_item(json_find(json, "rows"), row), "0", &ms, NULL));
    return ms;
}

TEST(an_empty_one_has_names_and_no_rows)
{
    struct history *history = calloc(1, sizeof *history);
    struct json *json = written(history);

    CHECK_SIZE("names", json_count(json_find(json, "names")), SERIES_COUNT);
    CHECK_SIZE("rows", json_count(json_find(json, "rows")), 0);
    json_close(json);
    free(history);
}

TEST(the_newest_stay_in_order_and_what_is_not_known_is_null)
{
    struct history *history = calloc(1, sizeof *history);
    const struct json *last;
    struct sample sample;
    struct json *json;

    for (uint64_t i = 0; i < HISTORY_SAMPLES + 5; i++) {
        sample_clear(&sample, (wall_time){i});
        sample.values[SERIES_KEYS] = (double)i;
        history_add(history, &sample);
    }
    json = written(history);
    CHECK_SIZE("as many as it holds", json_count(json_find(json, "rows")), HISTORY_SAMPLES);
    CHECK_U64("the oldest", time_of(json, 0), 5);
    CHECK_U64("the newest", time_of(json, HISTORY_SAMPLES - 1), HISTORY_SAMPLES + 4);
    last = json_item(json_find(json, "rows"), HISTORY_SAMPLES - 1);
    CHECK_SIZE("time and values", json_count(last), SERIES_COUNT + 1);
    CHECK_U64("known", json_kind(json_item(last, 1 + SERIES_KEYS)), JSON_KIND_REAL);
    CHECK_U64("not known", json_kind(json_item(last, 1 + SERIES_COST)), JSON_KIND_NULL);
    json_close(json);
    free(history);
}
