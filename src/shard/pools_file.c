/* SPDX-License-Identifier: Apache-2.0 */
/* The sold-out pools as lines of text. Writing: decide thread. Reading: before it starts. */
#include "shard/pools_file.h"

#define POOLS_FIRST_LINE "muster shard sold-out pools 1\n"
enum { POOL_FIELDS = 5 };

enum err pools_file_write(const struct core *core, mono_time now, wall_time wall,
                          struct arena *arena, struct buf *into)
{
    struct sold_out_pool *pools;
    size_t count;
    enum err err = core_pools(core, now, wall, arena, &pools, &count);

    if (!err) err = buf_append_c(into, POOLS_FIRST_LINE);
    for (size_t i = 0; i < count && !err; i++)
        err = buf_appendf(into, "%u\t%llu\t%d\t%.*s\t%.*s\n", (unsigned)pools[i].refusals,
                          (unsigned long long)pools[i].until.ms, (int)pools[i].pool.capacity_type,
                          STR_ARG(pools[i].pool.instance_type), STR_ARG(pools[i].pool.zone));
    return err;
}

static bool pool_read(struct str line, wall_time wall, struct sold_out_pool *ret_hint)
{
    struct str fields[POOL_FIELDS];
    uint64_t refusals, until, type;

    for (int i = 0; i < POOL_FIELDS - 1; i++)
        if (!str_split(&line, '\t', &fields[i]) || !line.at) return false;
    fields[POOL_FIELDS - 1] = line;
    if (str_to_u64(fields[0], &refusals) || str_to_u64(fields[1], &until) ||
        str_to_u64(fields[2], &type) || type >= CAPACITY_TYPE_COUNT || fields[3].len > ID_MAX ||
        fields[4].len > ID_MAX)
        return false;
    *ret_hint = (struct sold_out_pool){
        .pool = {fields[3], fields[4], (enum capacity_type)type},
        .refusals = (uint32_t)min_u64(refusals, UINT8_MAX),
        .left_ms = until > wall.ms ? until - wall.ms : 0,
    };
    return true;
}

void pools_file_read(struct core *core, struct str text, mono_time now, wall_time wall)
{
    struct sold_out_pool hint;
    struct str line;

    if (!str_starts(text, STR(POOLS_FIRST_LINE))) return;
    text = str_tail(text, sizeof POOLS_FIRST_LINE - 1);
    while (str_split(&text, '\n', &line) && text.at)
        if (pool_read(line, wall, &hint)) core_pool_restore(core, &hint, now);
}
