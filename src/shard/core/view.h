/* SPDX-License-Identifier: Apache-2.0 */
/* The last cycle as people read it. Rows point into the needs table, which keeps them where they
 * are until the next cycle (needs_keep); only what the engine made is copied. */
#ifndef SHARD_CORE_VIEW_H
#define SHARD_CORE_VIEW_H
#include "shard/core/core.h"

struct views {
    struct arena arena;
    struct need_verdict *rows; /* in the order of Needs */
    size_t count;
    uint32_t by_bucket[PENALTY_BUCKET_COUNT]; /* rows by interruption bucket */
    uint64_t cycle;
    wall_time at;
};
void views_deinit(struct views *views);
#endif
