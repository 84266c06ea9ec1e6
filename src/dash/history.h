/* SPDX-License-Identifier: Apache-2.0 */
/* The last half hour as numbers: a ring of samples. Pure: the time comes with the sample. */
#ifndef DASH_HISTORY_H
#define DASH_HISTORY_H
#include "base/time.h"
#include "text/ndjson.h"

enum { HISTORY_SAMPLES = 900 };
enum series {
    SERIES_COMMIT, /* index of the log that a majority has */
    SERIES_LAG,    /* entries that the slowest voter lacks */
    SERIES_TERM,
    SERIES_MACHINES,
    SERIES_CONFIGURED, /* machines that serve a cluster */
    SERIES_COST,       /* dollars an hour of all that are paid for */
    SERIES_SHORTFALLS,
    SERIES_NEEDS,
    SERIES_UNMET,
    SERIES_ACTIONS,  /* ever */
    SERIES_CYCLES,   /* of all shards, ever */
    SERIES_CYCLE_MS, /* the slowest shard's last cycle */
    SERIES_REVISION,
    SERIES_KEYS,
    SERIES_LEASES,
    SERIES_WORKERS,
    SERIES_COUNT
};

struct sample {
    wall_time at;
    double values[SERIES_COUNT]; /* NAN: not known then */
};
struct history {
    struct sample ring[HISTORY_SAMPLES];
    size_t count, next;
};
void sample_clear(struct sample *sample, wall_time at); /* nothing is known */
void history_add(struct history *history, const struct sample *sample);
/* Names, then rows from the oldest to the newest: the time, then the values in the order of the
 * names; null: not known. */
enum err history_write(const struct history *history, uint64_t every_ms, struct buf *into);
enum err sample_write(const struct sample *sample, struct buf *into); /* one row */
#endif
