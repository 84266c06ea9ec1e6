/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1: level by level, everyone is first credited with its own, then served with the rest. */
#include "shard/decide/decider.h"

static enum err own_put(struct decider *e, const struct cohort *c, enum own_state state,
                        struct pool *pool)
{
    bool by_id = state == OWN_CREATING;

    return pool_add(e, pool, source_of(e, c), by_id ? 0 : c->traits.price,
                    by_id ? 0 : -cohort_reclamation_dollars(c));
}

static enum err own_add_key(struct decider *e, const struct want *w, const struct key *key,
                            enum own_state state, struct pool *pool)
{
    const struct requirement_set *set = w->demand->kind->set;
    const struct bag *bag = &key->cohorts;
    struct set_memory *memory;
    enum err err = bag->count ? set_recall(e, set, &memory) : ERR_OK;

    for (uint32_t i = 0; !err && i < bag->count; i++) {
        const struct bag_item *item = &bag->at[i];
        const struct cohort *c = item->cohort;
        if (item->state != own_machine_state(state)) continue;
        if (!set_matches(e, memory, item->look) || !cohort_fits(c, w->demand->unit)) continue;
        err = own_put(e, c, state, pool);
    }
    return err;
}

enum err own_add(struct decider *e, const struct want *w, enum own_state state, struct pool *pool)
{
    enum err err = ERR_OK;

    if (w->gang) return w->key ? own_add_key(e, w, w->key, state, pool) : ERR_OK;
    for (uint32_t i = 0; !err && w->family && i < w->family->count; i++) {
        err = own_add_key(e, w, w->family->keys[i], state, pool);
    }
    return err;
}

/* Lists its own machines as it takes them, all three states, for as long as they stay. */
static enum err own_list(struct decider *e, const struct want *w, struct row_memory *m)
{
    struct pool *pool = &e->own_pool;

    m->own_count = 0;
    m->own = OWN_LISTED;
    for (int state = 0; state < OWN_COUNT; state++) {
        enum err err;
        pool->count = pool->head = 0;
        err = own_add(e, w, (enum own_state)state, pool);
        if (err) {
            m->own = OWN_UNKNOWN;
            return err;
        }
        pool_sort(pool);
        for (uint32_t i = 0; i < pool->count; i++) {
            const struct cohort *c = pool->at[i].source->cohort;
            if (!c->count) continue; /* it may go without a word */
            if (m->own_count == OWN_LISTED_MOST) {
                m->own = OWN_TOO_MANY;
                return ERR_OK;
            }
            m->owns[m->own_count++] = (struct own_cohort){c->slot, 0};
        }
    }
    return ERR_OK;
}

static enum err own_add_listed(struct decider *e, const struct row_memory *m, enum own_state state,
                               struct pool *pool)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; !err && i < m->own_count; i++) {
        const struct cohort *c = rooms_held(&e->inventory->cohort_slots, m->owns[i].cohort);
        if (c->traits.state == own_machine_state(state)) err = own_put(e, c, state, pool);
    }
    return err;
}

enum err own_claim(struct decider *e, struct want *w)
{
    struct row_memory *m = want_memory(e, w);
    struct pool *pool = &e->own_pool;
    enum err err = want_start(e, w);

    if (!err && m->own == OWN_UNKNOWN && !e->options.forget) err = own_list(e, w, m);
    for (int state = 0; !err && state < OWN_COUNT && w->live; state++) {
        bool listed = m->own == OWN_LISTED;
        pool->count = pool->head = 0;
        err = listed ? own_add_listed(e, m, (enum own_state)state, pool)
                     : own_add(e, w, (enum own_state)state, pool);
        if (err) return err;
        if (!listed) pool_sort(pool);
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

/* And what it took of each. */
static void remember_claims(const struct decider *e, const struct want *w, struct row_memory *m)
{
    m->claims_known = m->own == OWN_LISTED;
    for (uint32_t k = 0; k < m->own_count; k++) m->owns[k].claimed = 0;
    for (uint32_t i = w->own_from; m->claims_known && i < e->log.count; i++) {
        const struct log_entry *entry = &e->log.at[i];
        for (uint32_t k = 0; k < m->own_count; k++) {
            if (m->owns[k].cohort == entry->source->cohort->slot)
                m->owns[k].claimed += entry->count;
        }
    }
}

/* As it was: its own machines are the same, and nobody has taken of them. */
static enum err own_again(struct decider *e, struct want *w)
{
    const struct row_memory *m = want_memory(e, w);
    enum err err = want_start(e, w);

    w->has_domain = w->satisfiable = w->gang && m->domain;
    w->domain = w->gang ? m->domain : NULL;
    for (uint32_t i = 0; !err && i < m->own_count; i++) {
        const struct cohort *c = rooms_held(&e->inventory->cohort_slots, m->owns[i].cohort);
        if (m->owns[i].claimed) err = want_claim(e, w, source_of(e, c), m->owns[i].claimed);
    }
    return err;
}

static enum err own_first(struct decider *e, struct want *w)
{
    const struct key *key;
    enum err err;

    if (!w->live) return ERR_OK;
    key = untouched(e, w);
    if (key && want_memory(e, w)->claims_known) return own_again(e, w);
    err = w->gang ? gang_own_first(e, w) : own_claim(e, w);
    if (!err && key && !e->options.forget) {
        remember_all(want_memory(e, w), w, key);
        remember_claims(e, w, want_memory(e, w));
    }
    return err;
}

static enum err claim_kind(struct decider *e, struct want *w, enum pool_kind kind)
{
    struct pool *pool;
    enum err err;

    if (!w->live) return ERR_OK;
    err = pool_of(e, kind, w, &pool);
    if (!err) err = pool_take_all(e, w, pool, want_claim);
    return err;
}

/* A gang has a pool of them already: it had to look at all domains. */
static enum err credit_state(struct decider *e, struct want *w, enum lane_state state)
{
    if (!w->live) return ERR_OK;
    if (!w->gang) return lanes_credit(e, w, state);
    return claim_kind(e, w, state == LANE_CONFIGURED ? POOL_OF_CONFIGURED : POOL_OF_CONFIGURING);
}

/* Machines of its cluster, bound or being bound, whosever they are; and what is being created for
 * nobody. */
enum err credit(struct decider *e, struct want *w)
{
    enum err err = ERR_OK;

    if (w->cluster && w->cluster->machines[MACHINE_CONFIGURED] > e->claimed[w->cluster->slot]) {
        err = credit_state(e, w, LANE_CONFIGURED);
    }
    if (!err && w->cluster && w->cluster->machines[MACHINE_CONFIGURING]) {
        err = credit_state(e, w, LANE_CONFIGURING);
    }
    if (!err && e->inventory->nobodys.count) err = claim_kind(e, w, POOL_OF_CREATING);
    return err;
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
    const struct course *c = &e->courses[row];

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
        __builtin_prefetch(&e->memory[e->standing[row].memory]);
        __builtin_prefetch(&e->memory[e->standing[row].memory].owns);
    }
    for (uint32_t row = from; row < end; row++) {
        const struct row_memory *m = &e->memory[e->standing[row].memory];
        if (is_light(e, row)) continue;
        __builtin_prefetch(&e->rows[row]->kind->set);
        for (uint32_t i = 0; i < m->own_count; i++) {
            __builtin_prefetch(&e->sources[m->owns[i].cohort], 1);
            __builtin_prefetch(e->inventory->cohort_slots.at[m->owns[i].cohort]);
        }
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
    if (again) return e->courses[row].again ? turn_add(e, row, from) : ERR_OK;
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
