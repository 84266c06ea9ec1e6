/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 2: who gives way. First what comes back anyway, then what Phase 3 frees anyway, and only
 * then machines of Needs that matter less. */
#include "shard/decide/victims.h"

static uint64_t grace_ms(int64_t gap)
{
    if (gap > 900000) return 10 * MS_PER_SECOND;
    if (gap > 500000) return 30 * MS_PER_SECOND;
    if (gap > 100000) return 120 * MS_PER_SECOND;
    return 600 * MS_PER_SECOND;
}

/* --- what there is to take from --- */

/* What is left of a cohort. */
static enum err tail_add(struct decider *e, const struct cohort *c, uint32_t type)
{
    const struct supply_source *s = source_of(e, c);
    struct runs *tails = &e->tails;
    uint32_t left = source_left(e, s);
    enum err err;

    if (!left) return ERR_OK;
    err = decider_grow(e, &tails->at, tails->count, &tails->cap, sizeof *tails->at);
    if (!err) err = decider_grow(e, &tails->types, tails->count, &tails->type_cap, sizeof type);
    if (err) return err;
    tails->types[tails->count] = type;
    tails->at[tails->count++] = (struct supply_source){
        .cohort = c, .first = s->taken, .count = left, .log = LOG_NONE, .key = KEY_NONE};
    return ERR_OK;
}

static enum err tails_make(struct decider *e)
{
    const struct rooms *clusters = &e->inventory->cluster_slots;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < clusters->used; i++) {
        const struct cohort_cluster *cluster = rooms_get(clusters, i);
        if (!cluster || !e->ready[i]) continue;
        if (cluster->machines[MACHINE_CONFIGURED] == e->claimed[i]) continue; /* none is left */
        e->decision.excess += cluster->machines[MACHINE_CONFIGURED] - e->claimed[i];
        for (uint32_t k = 0; k < cluster->configured.count; k++) {
            const struct bag *bag = &cluster->configured.at[k].bag;
            for (uint32_t m = 0; !err && m < bag->count; m++) {
                err = tail_add(e, bag->at[m].cohort, cluster->configured.at[k].type);
            }
        }
    }
    return err;
}

/* A look without it is not in the domain whose mark it is; one with it may be. */
static bool carries_mark(const struct decider *e, const struct cohort *c, uint64_t mark)
{
    return (e->inventory->look_briefs[c->traits.look->slot].marks & mark) == mark;
}

enum err tails_add(struct decider *e, const struct want *w, struct set_memory *memory,
                   struct supply_pool *pool)
{
    uint64_t mark = w->has_domain ? posting_mark(w->domain) : 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; !err && i < e->tails.count; i++) {
        struct supply_source *tail = &e->tails.at[i];
        if (!set_names_type(memory, e->tails.types[i])) continue;
        if (!carries_mark(e, tail->cohort, mark)) continue;
        if (tail->taken == tail->count || !cohort_fits(tail->cohort, w->demand->unit)) continue;
        if (!set_matches(e, memory, tail->cohort->traits.look->slot)) continue;
        err = pool_add_in_order(e, pool, POOL_OF_EXCESS, w, tail);
    }
    return err;
}

/* A victim is claimed by a row, or nobody's in a cluster that has not reported. */
static int32_t victims_floor(const struct decider *e)
{
    const struct rooms *clusters = &e->inventory->cluster_slots;

    for (uint32_t i = 0; i < clusters->used; i++) {
        const struct cohort_cluster *cluster = rooms_get(clusters, i);
        if (cluster && !e->ready[i] && cluster->machines[MACHINE_CONFIGURED]) return INT32_MIN;
    }
    return e->row_count ? e->rows[e->row_count - 1]->profile->priority : INT32_MAX;
}

/* --- one Need --- */

static enum err take_from(struct decider *e, struct want *w, struct supply_pool *pool)
{
    enum err err;

    if (!w->spread) return pool_take_all(e, w, pool, source_take);
    err = pool_fetch(e, pool);
    return err ? err : spread_take(e, w, pool);
}

/* What is drained for it, then what is drained for nobody. */
static enum err coming_back(struct decider *e, struct want *w)
{
    struct supply_pool *pool = &e->own_pool;
    enum err err;

    pool->count = pool->head = 0;
    err = own_add(e, w, MACHINE_DRAINING, pool);
    if (!err) err = take_from(e, w, pool);
    if (err || !w->live || !e->inventory->nobodys.count) return err;
    pool->count = pool->head = 0;
    err = pool_add_bag(e, w, &e->inventory->nobodys, MACHINE_DRAINING, pool);
    return err ? err : take_from(e, w, pool);
}

/* A gang's: of its domain only, and for it alone. */
static enum err pool_there(struct decider *e, const struct want *w, enum pool_kind kind,
                           struct supply_pool **ret_pool)
{
    struct supply_pool *pool = &e->own_pool;
    struct set_memory *memory;
    enum err err = set_recall(e, w->demand->kind->set, &memory);

    pool->count = pool->head = 0;
    if (!err && kind == POOL_OF_EXCESS) err = tails_add(e, w, memory, pool);
    for (uint32_t i = 0; !err && kind == POOL_OF_VICTIMS && i < w->domain->count; i++) {
        const struct look *look = posting_look(e->inventory, w->domain, i);
        if (set_matches(e, memory, look->slot)) err = victims_of_look(e, w, look, pool);
    }
    pool_sort(pool);
    *ret_pool = pool;
    return err;
}

static enum err take_kind(struct decider *e, struct want *w, enum pool_kind kind)
{
    struct supply_pool *pool;
    enum err err;

    if (!w->live) return ERR_OK;
    if (kind == POOL_OF_EXCESS && !e->tails.count) return ERR_OK;
    err = w->gang ? pool_there(e, w, kind, &pool) : pool_of(e, kind, w, &pool);
    if (!err) err = take_from(e, w, pool);
    return err;
}

void action_for(struct action *action, const struct want *w)
{
    const struct profile *p = w->demand->profile;

    action->key = w->demand->key;
    action->priority = p->priority;
    action->interruption_dollars = penalty_dollars(p->interruption_bucket);
    action->reclamation_dollars = penalty_dollars(p->reclamation_bucket);
}

static enum err emit_victim(struct decider *e, struct want *w, const struct log_entry *entry)
{
    const struct traits *t = &entry->source->cohort->traits;
    struct action action = {
        .kind = ACTION_PREEMPT,
        .cluster = cluster_text(t->cluster),
        .grace_ms = grace_ms((int64_t)w->demand->profile->priority - entry->source->priority)};
    struct resource_sum sum, more;
    enum err err = ERR_OK;

    action_for(&action, w);
    for (uint32_t k = 0; !err && k < entry->count; k++) {
        action.machine = row_id(source_at(entry->source, entry->from + k));
        err = action_add(e, &action);
    }
    if (err) return err;
    amounts_sum(&w->shortage->freed, &sum);
    resource_sum_scale(&more, t->shape->alloc, entry->count);
    resource_sum_add_sum(&sum, &more);
    w->shortage->victims += entry->count;
    return amounts_keep(&e->arena, &sum, &w->shortage->freed);
}

/* After all of Phase 2: of each run what one Need took follows what the one before it took, so its
 * machines are read once, from the front. */
static enum err emit_victims(struct decider *e)
{
    enum err err = ERR_OK;

    for (uint32_t i = e->phase1_log; !err && i < e->log.count; i++) {
        const struct log_entry *entry = &e->log.at[i];
        if (entry->source->victim) err = emit_victim(e, &e->wants[entry->want], entry);
    }
    return err;
}

static enum err give_way(struct decider *e, struct want *w)
{
    enum err err = coming_back(e, w);

    if (!err) err = take_kind(e, w, POOL_OF_EXCESS);
    if (err || !w->live || w->demand->profile->priority <= e->victims_floor) return err;
    return take_kind(e, w, POOL_OF_VICTIMS);
}

enum err preempt(struct decider *e)
{
    enum err err = tails_make(e);

    e->phase1_log = e->log.count;
    e->victims_floor = victims_floor(e);
    for (uint32_t i = 0; !err && i < e->restless_count; i++) {
        struct want *w = &e->wants[e->restless[i]];
        if (!w->live) continue;
        err = shortage_start(e, w);
        if (err || w->parked || (w->gang && !w->has_domain)) continue;
        err = give_way(e, w);
    }
    if (!err) err = emit_victims(e);
    return err;
}
