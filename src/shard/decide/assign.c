/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1. For each priority level, all Needs are first credited with their own machines (part A),
 * and then served from other machines (part B). */
#include "shard/decide/decider.h"

const enum machine_state own_states[OWN_STATES] = {MACHINE_CONFIGURED, MACHINE_CONFIGURING,
                                                   MACHINE_CREATING};

void own_add(struct decider *e, const struct want *w, enum machine_state state,
             struct supply_pool *pool)
{
    if (w->gang && w->key) pool_add_bag(e, w, &w->key->cohorts, state, pool);
    for (uint32_t i = 0; !w->gang && w->family && i < w->family->count; i++) {
        pool_add_bag(e, w, &w->family->keys[i]->cohorts, state, pool);
    }
}

struct supply_pool *own_pool_begin(struct decider *e)
{
    e->own_pool.count = e->own_pool.head = 0;
    return &e->own_pool;
}

void own_claim(struct decider *e, struct want *w)
{
    want_start(e, w);
    for (int i = 0; i < OWN_STATES && w->live; i++) {
        struct supply_pool *pool = own_pool_begin(e);
        own_add(e, w, own_states[i], pool);
        pool_sort(pool, 0);
        pool_take_all(e, w, pool, want_claim);
    }
}

/* Returns the key that has all of the Need's own machines, if none of them was taken yet; else
 * NULL. */
static const struct key *assign_untouched_key(const struct decider *e, const struct want *w)
{
    uint32_t slot = want_memory(e, w)->key;

    if (slot == KEY_NONE || key_touched(e, slot)) return NULL;
    return slot_map_held(&e->inventory->key_slots, slot);
}

/* Stores that the Need takes all its own machines and lacks nothing. Valid until these machines
 * change. */
static void assign_remember(struct row_memory *m, const struct want *w, const struct key *key)
{
    m->machines = m->configured = 0;
    for (uint32_t i = 0; i < key->cohorts.count; i++) {
        const struct bag_item *item = &key->cohorts.at[i];
        if (item->state == MACHINE_DRAINING) continue;
        m->machines += item->cohort->count;
        if (item->state == MACHINE_CONFIGURED) m->configured += item->cohort->count;
    }
    m->takes_all = !w->live && w->claimed == m->machines && m->machines > 0;
    if (!w->gang) return;
    m->domain = w->has_domain ? w->domain : NULL;
    m->domain_known = true;
}

static void assign_own(struct decider *e, struct want *w)
{
    const struct key *key;

    if (!w->live) return;
    key = assign_untouched_key(e, w);
    if (w->gang)
        gang_own_first(e, w);
    else
        own_claim(e, w);
    if (key && !e->err) assign_remember(want_memory(e, w), w, key);
}

static void assign_claim(struct decider *e, struct want *w, enum pool_kind kind)
{
    struct supply_pool *pool = w->live ? pool_of(e, kind, w) : NULL;

    if (pool) pool_take_all(e, w, pool, want_claim);
}

/* Claims the cluster's Configured and Configuring machines, whichever Need they were bought for,
 * then Creating machines without a destination. */
void credit(struct decider *e, struct want *w)
{
    if (w->live && w->cluster &&
        w->cluster->machines[MACHINE_CONFIGURED] > e->claimed[w->cluster->slot]) {
        keep_order_credit(e, w, KEEP_CONFIGURED);
    }
    if (w->live && w->cluster && w->cluster->machines[MACHINE_CONFIGURING]) {
        keep_order_credit(e, w, KEEP_CONFIGURING);
    }
    if (e->inventory->nobodys.count) assign_claim(e, w, POOL_OF_CREATING);
}

static void assign_rest(struct decider *e, struct want *w)
{
    if (!w->live) return;
    want_start(e, w);
    if (w->gang) {
        gang_assign(e, w);
        return;
    }
    credit(e, w);
    if (w->live && w->demand->kind->spread) {
        spread_acquire(e, w);
        return;
    }
    assign_claim(e, w, POOL_OF_IDLE);
    assign_claim(e, w, POOL_OF_SPECULATIVE);
}

static bool assign_is_light(const struct course *c)
{
    return c->kind == COURSE_STEADY || (c->kind == COURSE_TOOK && c->settled);
}

/* Prefetches what the next rows will read, so that the cache misses overlap. */
static void assign_fetch(const struct decider *e, uint32_t from, uint32_t end)
{
    uint32_t heavy = end; /* the first row that will probably be decided in full */

    for (uint32_t row = from; row < end; row++) {
        const struct course *c = &row_at(e, row)->course;
        replay_fetch(e, c, false);
        if (assign_is_light(c)) continue;
        if (row < heavy) heavy = row;
        __builtin_prefetch(&e->wants[row], 1);
        __builtin_prefetch(&e->rows[row]->profile);
        __builtin_prefetch(&e->rows[row]->kind);
    }
    for (uint32_t row = heavy; row < end; row++) {
        if (!assign_is_light(&row_at(e, row)->course)) __builtin_prefetch(&e->rows[row]->kind->set);
    }
}

static void assign_turn_add(struct decider *e, uint32_t row, uint32_t own_from)
{
    if (!decider_grow(e, &e->turns, e->turn_count, &e->turn_cap, sizeof *e->turns)) return;
    e->turns[e->turn_count++] = (struct turn){row, own_from, e->log.count};
}

static void assign_own_turn(struct decider *e, uint32_t row)
{
    struct row_state *state = row_at(e, row);
    struct course *c = &state->course;
    struct want *w = &e->wants[row];
    uint32_t from = e->log.count;
    bool again = replay_own(e, row, c);

    if (!again && steady_takes(e, row, state)) {
        replay_steady(e, row, c);
        again = true;
    }
    if (again) {
        if (c->again) assign_turn_add(e, row, from);
        return;
    }
    want_begin(e, row);
    w->own_from = from;
    assign_own(e, w);
    w->own_to = e->log.count;
    replay_owned(e, w);
    assign_turn_add(e, row, from);
}

static void assign_rest_turn(struct decider *e, const struct turn *turn)
{
    struct want *w = &e->wants[turn->row];

    if (replay_rest(e, turn) || e->err) return;
    if (!decider_grow(e, &e->restless, e->restless_count, &e->restless_cap, sizeof *e->restless)) {
        return;
    }
    e->restless[e->restless_count++] = turn->row;
    w->rest_from = e->log.count;
    assign_rest(e, w);
    w->rest_to = e->log.count;
    replay_rested(e, w);
}

void assign(struct decider *e)
{
    for (uint32_t level = 0, row = 0; !e->err && level < e->level_count; level++) {
        assign_fetch(e, row, e->levels[level]);
        e->turn_count = 0;
        for (; !e->err && row < e->levels[level]; row++) assign_own_turn(e, row);
        keep_order_fetch(e);
        for (uint32_t i = 0; !e->err && i < e->turn_count; i++) assign_rest_turn(e, &e->turns[i]);
    }
}
