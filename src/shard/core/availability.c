/* SPDX-License-Identifier: Apache-2.0 */
/* The table of capacity pools without stock: a linear search, because few pools are sold out at a
 * time. Decide thread. */
#include "shard/core/availability.h"

#include <stdlib.h>

#include "shard/core/effects.h"

void availability_init(struct availability *a, uint64_t first_ms, uint64_t most_ms)
{
    *a = (struct availability){.first_ms = first_ms, .most_ms = most_ms};
}

void availability_deinit(struct availability *a)
{
    for (uint32_t i = 0; i < a->count; i++) free(a->at[i]);
    a->count = 0;
}

static uint32_t pool_hash(const struct capacity_pool *pool)
{
    uint64_t hash = str_hash(pool->instance_type, (uint64_t)pool->capacity_type);

    return (uint32_t)str_hash(pool->zone, hash);
}

struct pool_memory *availability_find(const struct availability *a,
                                      const struct capacity_pool *pool)
{
    uint32_t hash = a->count ? pool_hash(pool) : 0;

    for (uint32_t i = 0; i < a->count; i++) {
        struct pool_memory *m = a->at[i];
        if (m->hash == hash && m->pool.capacity_type == pool->capacity_type &&
            str_equal(m->pool.instance_type, pool->instance_type) &&
            str_equal(m->pool.zone, pool->zone))
            return m;
    }
    return NULL;
}

static void probe_end(struct availability *a, struct pool_memory *m)
{
    if (m->probe) a->probes--;
    m->probe = 0;
}

static void pool_forget(struct availability *a, uint32_t index)
{
    probe_end(a, a->at[index]);
    free(a->at[index]);
    a->at[index] = a->at[--a->count];
}

static uint32_t pool_index(const struct availability *a, const struct pool_memory *m)
{
    uint32_t i = 0;

    while (a->at[i] != m) i++;
    return i;
}

static void pool_make_room(struct availability *a)
{
    uint32_t first = 0;

    if (a->count < POOLS_MAX) return;
    for (uint32_t i = 1; i < a->count; i++)
        if (a->at[i]->until.ms < a->at[first]->until.ms) first = i;
    pool_forget(a, first);
    a->forgotten++;
}

static struct pool_memory *pool_make(struct availability *a, const struct capacity_pool *pool)
{
    struct pool_memory *m = availability_find(a, pool);
    char *at;

    if (m) return m;
    m = calloc(1, sizeof *m + pool->instance_type.len + pool->zone.len);
    if (!m) return NULL;
    pool_make_room(a);
    at = m->texts;
    m->pool.instance_type = text_put(&at, pool->instance_type);
    m->pool.zone = text_put(&at, pool->zone);
    m->pool.capacity_type = pool->capacity_type;
    m->hash = pool_hash(pool);
    a->at[a->count++] = m;
    return m;
}

bool availability_barred(const struct availability *a, const struct pool_memory *m, mono_time now)
{
    if (!m->sold_out) return false;
    return m->probe || !mono_due(m->until, now) || a->probes >= PROBES_MOST;
}

void availability_probe(struct availability *a, struct pool_memory *m, uint64_t action)
{
    assert(m->sold_out && !m->probe && action);
    m->probe = action;
    a->probes++;
}

void availability_over(struct availability *a, uint64_t action, mono_time now)
{
    for (uint32_t i = 0; a->probes && i < a->count; i++) {
        if (a->at[i]->probe != action) continue;
        probe_end(a, a->at[i]);
        a->at[i]->until = mono_after(now, a->first_ms);
    }
}

static void pool_pause(const struct availability *a, struct pool_memory *m, mono_time now)
{
    uint64_t ms = a->first_ms;

    if (m->refusals < UINT8_MAX) m->refusals++;
    for (uint8_t i = 1; i < m->refusals && ms < a->most_ms; i++) ms *= 2;
    m->sold_out = true;
    m->until = mono_after(now, min_u64(ms, a->most_ms));
}

/* Cuts the text between two characters. */
static void pool_keep_why(struct pool_memory *m, struct str text)
{
    size_t len = min_size(text.len, POOL_WHY_MAX);

    while (len && len < text.len && (text.at[len] & 0xC0) == 0x80) len--;
    if (len) memcpy(m->why, text.at, len);
    m->why_len = (uint32_t)len;
}

struct pool_memory *availability_refused(struct availability *a, const struct capacity_pool *pool,
                                         uint64_t action, enum pool_refusal why, struct str text,
                                         mono_time now)
{
    struct pool_memory *m = pool_make(a, pool);

    if (!m) return NULL;
    if (m->sold_out && m->probe != action) return NULL; /* sent before the pool was sold out */
    m->since = now;
    pool_keep_why(m, text);
    if (!m->sold_out) {
        if (why == REFUSED_OTHER && ++m->refusals < POOL_REFUSALS) return NULL;
        m->refusals = 0;
    }
    probe_end(a, m);
    pool_pause(a, m, now);
    return m;
}

bool availability_accepted(struct availability *a, const struct capacity_pool *pool,
                           uint64_t action)
{
    struct pool_memory *m = availability_find(a, pool);
    bool sold_out;

    if (!m || (m->sold_out && m->probe != action)) return false;
    sold_out = m->sold_out;
    pool_forget(a, pool_index(a, m));
    return sold_out;
}

void availability_restore(struct availability *a, const struct capacity_pool *pool,
                          uint8_t refusals, mono_time until, mono_time now)
{
    struct pool_memory *m = a->count < POOLS_MAX ? pool_make(a, pool) : NULL;

    if (!m) return;
    m->sold_out = true;
    m->refusals = refusals;
    m->since = now;
    m->until = (mono_time){min_u64(until.ms, mono_after(now, a->most_ms).ms)};
}

void availability_sweep(struct availability *a, mono_time now)
{
    for (uint32_t i = a->count; i-- > 0;) {
        const struct pool_memory *m = a->at[i];
        mono_time last = m->sold_out ? m->until : m->since;
        if (!m->probe && mono_due(mono_after(last, a->most_ms), now)) pool_forget(a, i);
    }
}
