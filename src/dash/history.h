/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of the last half hour, as a ring of samples. Pure: each sample contains its time. */
#ifndef DASH_HISTORY_H
#define DASH_HISTORY_H
#include "base/time.h"
#include "text/ndjson.h"

enum { HISTORY_SAMPLES = 900 };
/* clang-format off */
#define SERIES_MAP(X)                                                                              \
    X(COMMIT,     "commit")     /* log index that a majority has stored */                         \
    X(LAG,        "lag")        /* log entries that the slowest voter lacks */                     \
    X(TERM,       "term")                                                                          \
    X(MACHINES,   "machines")                                                                      \
    X(CONFIGURED, "configured") /* machines that serve a cluster */                                \
    X(COST,       "cost")       /* dollars per hour of all paid machines */                        \
    X(SHORTFALLS, "shortfalls")                                                                    \
    X(NEEDS,      "needs")                                                                         \
    X(UNMET,      "unmet")                                                                         \
    X(ACTIONS,    "actions")    /* total so far */                                                 \
    X(CYCLES,     "cycles")     /* of all shards, so far */                                        \
    X(CYCLE_MS,   "cycle_ms")   /* the slowest shard's last cycle */                               \
    X(REVISION,   "revision")                                                                      \
    X(KEYS,       "keys")                                                                          \
    X(LEASES,     "leases")                                                                        \
    X(WORKERS,    "workers")
/* clang-format on */
enum series {
#define X(series, name) SERIES_##series,
    SERIES_MAP(X)
#undef X
        SERIES_COUNT
};

struct sample {
    wall_time at;
    double values[SERIES_COUNT]; /* NAN: unknown */
};
struct history {
    struct sample ring[HISTORY_SAMPLES];
    size_t count, next;
};
void sample_clear(struct sample *sample, wall_time at); /* sets all values to unknown */
void history_add(struct history *history, const struct sample *sample);
/* Writes the names, then the samples from old to new: time and values in the order of the names. An
 * unknown value is null. */
enum err history_write(const struct history *history, uint64_t every_ms, struct buf *into);
enum err sample_write(const struct sample *sample, struct buf *into);
#endif
