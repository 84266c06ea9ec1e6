/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1: level by level, everyone is first credited with its own, then served with the rest. */
#include "shard/decide/decider.h"

const enum machine_state own_states[OWN_STATES] = {MACHINE_CONFIGURED, MACHINE_CONFIGURING,
                                                   MACHINE_CREATING};

enum err own_add(struct decider *e, const struct want *w, enum machine_state state,
                 struct supply_pool *pool)
{
    enum err err = ERR_OK;

    if (w->gang) return w->key ? pool_add_bag(e, w, &w->key->cohorts, state, pool) : ERR_OK;
    for (uint32_t i = 0; !err && w->family && i < w->family->count; i++) {
        err = pool_add_bag(e, w, &w->family->keys[i]->cohorts, state, pool);
    }
    return err;
}

enum err own_claim(struct decider *e, struct want *w)
{
    struct supply_pool *pool = &e->own_pool;
    enum err err = want_start(e, w);

    for (int i = 0; !err && i < OWN_STATES && w->live; i++) {
        pool->count = pool->head = 0;
        err = own_add(e, w, own_states[i], pool);
        if (err) return err;
        pool_sort(pool);
        err = pool_take_all(e, w, pool, want_claim);
    }
    return err;
}

/* Its own machines are one key's, and nobody has taken of them in this decision. */
static const struct key *untouched(const struct decider *e, const struct want *w)
{
    uint32_t slot = want_memory(e, w)->key;

    if (slot == KEY_NONE || key_touched(e, slot)) return NULL;
    return rooms_held(&e->inventory->key_slots, slot);
}

/* Did it just take all of them, and lacks nothing? Then it will, until they change. */
static void remember_all(struct row_memory *m, const struct want *w, const struct key *key)
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

static enum err own_first(struct decider *e, struct want *w)
{
    const struct key *key;
    enum err err;

    if (!w->live) return ERR_OK;
    key = untouched(e, w);
    err = w->gang ? gang_own_first(e, w) : own_claim(e, w);
    if (!err && key && !e->options.forget) remember_all(want_memory(e, w), w, key);
    return err;
}

static enum err claim_kind(struct decider *e, struct want *w, enum pool_kind kind)
{
    struct supply_pool *pool;
    enum err err;

    if (!w->live) return ERR_OK;
    err = pool_of(e, kind, w, &pool);
    if (!err) err = pool_take_all(e, w, pool, want_claim);
    return err;
}

/* Machines of its cluster, bound or being bound, whosever they are; and what is being created for
 * nobody. */
enum err credit(struct decider *e, struct want *w)
{
    struct supply_pool *pool = &e->own_pool;
    enum err err = ERR_OK;

    if (w->live && w->cluster &&
        w->cluster->machines[MACHINE_CONFIGURED] > e->claimed[w->cluster->slot]) {
        err = lanes_credit(e, w, LANE_CONFIGURED);
    }
    if (!err && w->live && w->cluster && w->cluster->machines[MACHINE_CONFIGURING]) {
        err = lanes_credit(e, w, LANE_CONFIGURING);
    }
    if (err || !w->live || !e->inventory->nobodys.count) return err;
    pool->count = pool->head = 0;
    err = pool_add_bag(e, w, &e->inventory->nobodys, MACHINE_CREATING, pool);
    return err ? err : pool_take_all(e, w, pool, want_claim);
}

enum err acquire(struct decider *e, struct want *w)
{
    enum err err = claim_kind(e, w, POOL_OF_IDLE);

    if (!err) err = claim_kind(e, w, POOL_OF_SPECULATIVE);
    return err;
}

static enum err the_rest(struct decider *e, struct want *w)
{
    enum err err;

    if (!w->live) return ERR_OK;
    err = want_start(e, w);
    if (err) return err;
    if (w->gang) return gang_assign(e, w);
    err = credit(e, w);
    if (!err && w->live) err = w->demand->kind->spread ? spread_acquire(e, w) : acquire(e, w);
    return err;
}

/* It stood, or is likely to take what it took. */
static bool is_light(const struct decider *e, uint32_t row)
{
    const struct course *c = &e->row.courses[row];

    return c->kind == COURSE_STOOD || (c->kind == COURSE_TOOK && c->settled);
}

/* The rows of a level that will be decided in full, told by the last decision, read what they took
 * then: asked for together beforehand, all of it comes while one of them would wait. */
static void level_fetch(const struct decider *e, uint32_t from, uint32_t end)
{
    for (uint32_t row = from; row < end; row++) {
        replay_fetch(e, row, false);
        if (is_light(e, row)) continue;
        __builtin_prefetch(&e->wants[row], 1);
        __builtin_prefetch(&e->rows[row]->profile);
        __builtin_prefetch(&e->rows[row]->kind);
        __builtin_prefetch(&e->memory[e->row.standing[row].memory]);
    }
    for (uint32_t row = from; row < end; row++) {
        if (!is_light(e, row)) __builtin_prefetch(&e->rows[row]->kind->set);
    }
}

static enum err turn_add(struct decider *e, uint32_t row, uint32_t own_from)
{
    enum err err = decider_grow(e, &e->turns, e->turn_count, &e->turn_cap, sizeof *e->turns);

    if (!err) e->turns[e->turn_count++] = (struct turn){row, own_from, e->log.count};
    return err;
}

/* A: those that stand take their key, others what they took last time; the rest is decided in
 * full. */
static enum err own_turn(struct decider *e, uint32_t row)
{
    struct want *w = &e->wants[row];
    uint32_t from = e->log.count;
    bool again;
    enum err err = replay_own(e, row, &again);

    if (err) return err;
    if (!again && standing_takes(e, row)) {
        err = replay_stood(e, row);
        again = true;
    }
    if (err) return err;
    if (again) return e->row.courses[row].again ? turn_add(e, row, from) : ERR_OK;
    err = want_begin(e, row);
    if (err) return err;
    w->own_from = from;
    err = own_first(e, w);
    w->own_to = e->log.count;
    if (!err) err = replay_owned(e, w);
    return err ? err : turn_add(e, row, from);
}

/* B, likewise. */
static enum err rest_turn(struct decider *e, const struct turn *turn)
{
    struct want *w = &e->wants[turn->row];
    bool again;
    enum err err = replay_rest(e, turn, &again);

    if (err || again) return err;
    err = decider_grow(e, &e->restless, e->restless_count, &e->restless_cap, sizeof *e->restless);
    if (err) return err;
    e->restless[e->restless_count++] = turn->row;
    w->rest_from = e->log.count;
    err = the_rest(e, w);
    w->rest_to = e->log.count;
    return err ? err : replay_rested(e, w);
}

enum err assign(struct decider *e)
{
    enum err err = ERR_OK;

    for (uint32_t level = 0, row = 0; !err && level < e->level_count; level++) {
        level_fetch(e, row, e->levels[level]);
        e->turn_count = 0;
        for (; !err && row < e->levels[level]; row++) err = own_turn(e, row);
        if (!err) lanes_fetch(e);
        for (uint32_t i = 0; !err && i < e->turn_count; i++) err = rest_turn(e, &e->turns[i]);
    }
    return err;
}
