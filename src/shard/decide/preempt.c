/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 2: serves unsatisfied Needs from machines that come back from a drain, then from excess,
 * then from victims. */
#include "shard/decide/victims.h"

static uint64_t preempt_grace_ms(int64_t gap)
{
    if (gap > 900000) return 10 * MS_PER_SECOND;
    if (gap > 500000) return 30 * MS_PER_SECOND;
    if (gap > 100000) return 120 * MS_PER_SECOND;
    return 600 * MS_PER_SECOND;
}

/* --- excess machines --- */

static void tail_add(struct decider *e, const struct cohort *c, uint32_t type)
{
    const struct supply_source *s = source_of(e, c);
    struct runs *tails = &e->tails;
    uint32_t left = source_left(e, s);

    if (!left || c->traits.occupancy == OCCUPANCY_HELD) return;
    e->decision.excess += left;
    decider_grow(e, &tails->at, tails->count, &tails->cap, sizeof *tails->at);
    decider_grow(e, &tails->types, tails->count, &tails->type_cap, sizeof type);
    if (e->err) return;
    tails->types[tails->count] = type;
    tails->at[tails->count++] = (struct supply_source){
        .cohort = c, .first = s->taken, .count = left, .log = LOG_NONE, .key = KEY_NONE};
}

static void tails_make(struct decider *e)
{
    const struct slot_map *clusters = &e->inventory->cluster_slots;

    for (uint32_t i = 0; i < clusters->used; i++) {
        const struct cohort_cluster *cluster = slot_map_get(clusters, i);
        if (!cluster || !e->ready[i]) continue;
        if (cluster->machines[MACHINE_CONFIGURED] == e->claimed[i]) continue; /* none are left */
        for (uint32_t k = 0; k < cluster->configured.count; k++) {
            const struct bag *bag = &cluster->configured.at[k].bag;
            for (uint32_t m = 0; m < bag->count; m++) {
                tail_add(e, bag->at[m].cohort, cluster->configured.at[k].type);
            }
        }
    }
}

void tails_add(struct decider *e, const struct want *w, const struct set_memory *memory,
               struct supply_pool *pool)
{
    uint64_t mark = w->has_domain ? posting_mark(w->domain) : 0;

    for (uint32_t i = 0; i < e->tails.count; i++) {
        struct supply_source *tail = &e->tails.at[i];
        if (tail->cohort->traits.cordon) continue;
        if (!set_names_type(memory, e->tails.types[i])) continue;
        /* skip looks that cannot be in the gang's domain */
        if (mark & ~e->inventory->look_briefs[tail->cohort->traits.look->slot].marks) continue;
        if (tail->taken == tail->count || !cohort_fits(tail->cohort, w->demand->unit)) continue;
        if (!set_matches(e, memory, tail->cohort->traits.look->slot)) continue;
        pool_add_in_order(e, pool, POOL_OF_EXCESS, w, tail);
    }
}

/* --- one Need --- */

static void preempt_take(struct decider *e, struct want *w, struct supply_pool *pool)
{
    if (w->spread) {
        pool_fetch(e, pool);
        spread_take(e, w, pool);
    } else {
        pool_take_all(e, w, pool, source_take);
    }
}

/* Counts machines that are drained for the Need, then machines that are drained for no Need. */
static void preempt_coming_back(struct decider *e, struct want *w)
{
    struct supply_pool *pool = own_pool_begin(e);

    own_add(e, w, MACHINE_DRAINING, pool);
    preempt_take(e, w, pool);
    if (!w->live || !e->inventory->nobodys.count) return;
    pool = pool_of(e, POOL_OF_DRAINING, w);
    if (pool) preempt_take(e, w, pool);
}

/* A gang has a pool of its own, with machines of its domain only. */
static struct supply_pool *preempt_gang_pool(struct decider *e, const struct want *w,
                                             enum pool_kind kind)
{
    const struct set_memory *memory = set_recall(e, w->demand->kind->set);
    struct supply_pool *pool = own_pool_begin(e);

    if (kind == POOL_OF_EXCESS) tails_add(e, w, memory, pool);
    for (uint32_t i = 0; kind == POOL_OF_VICTIMS && i < w->domain->count; i++) {
        const struct look *look = posting_look(e->inventory, w->domain, i);
        if (set_matches(e, memory, look->slot)) victims_of_look(e, w, look, pool);
    }
    pool_sort(pool, 0);
    return pool;
}

static void preempt_take_kind(struct decider *e, struct want *w, enum pool_kind kind)
{
    struct supply_pool *pool;

    if (!w->live) return;
    if (kind == POOL_OF_EXCESS && !e->tails.count) return;
    pool = w->gang ? preempt_gang_pool(e, w, kind) : pool_of(e, kind, w);
    if (pool) preempt_take(e, w, pool);
}

void action_for(struct action *action, const struct want *w)
{
    const struct profile *p = w->demand->profile;

    action->key = w->demand->key;
    action->priority = p->priority;
    action->interruption_dollars = penalty_dollars(p->interruption_bucket);
    action->reclamation_dollars = penalty_dollars(p->reclamation_bucket);
}

static void emit_preempts(struct decider *e, const struct want *w, const struct log_entry *entry,
                          int32_t priority)
{
    struct action action = {.kind = ACTION_PREEMPT,
                            .cluster = cluster_text(entry->source->cohort->traits.cluster),
                            .grace_ms =
                                preempt_grace_ms((int64_t)w->demand->profile->priority - priority)};

    action_for(&action, w);
    for (uint32_t k = 0; k < entry->count; k++) {
        action.machine = row_id(source_at(entry->source, entry->from + k));
        action_add(e, &action);
    }
}

static void emit_victim(struct decider *e, struct want *w, const struct log_entry *entry)
{
    const struct traits *t = &entry->source->cohort->traits;
    struct resource_sum sum, more;

    emit_preempts(e, w, entry, entry->source->priority);
    amounts_sum(&w->shortage->freed, &sum);
    resource_sum_scale(&more, t->shape->alloc, entry->count);
    resource_sum_add_sum(&sum, &more);
    w->shortage->victims += entry->count;
    decider_note(e, amounts_keep(&e->arena, &sum, &w->shortage->freed));
}

bool excess_is_preempted(const struct want *w, const struct cohort *c)
{
    return cohort_stamped_priority(c) < w->demand->profile->priority;
}

/* In each range, the machines of one Need follow those of the previous Need, so each range is read
 * once, from the front. */
static void emit_victims(struct decider *e)
{
    for (uint32_t i = e->phase1_log; i < e->log.count; i++) {
        const struct log_entry *entry = &e->log.at[i];
        const struct cohort *c = entry->source->cohort;
        struct want *w = &e->wants[entry->want];

        if (entry->source->victim)
            emit_victim(e, w, entry);
        else if (c->traits.state == MACHINE_CONFIGURED && excess_is_preempted(w, c))
            emit_preempts(e, w, entry, cohort_stamped_priority(c));
    }
}

static void preempt_need(struct decider *e, struct want *w)
{
    if (w->spread) spread_coming_begin(w);
    preempt_coming_back(e, w);
    if (w->spread) spread_coming_end(w);
    preempt_take_kind(e, w, POOL_OF_EXCESS);
    preempt_take_kind(e, w, POOL_OF_VICTIMS);
}

void preempt(struct decider *e)
{
    tails_make(e);
    e->phase1_log = e->log.count;
    for (uint32_t i = 0; !e->err && i < e->restless_count; i++) {
        struct want *w = &e->wants[e->restless[i]];
        if (!w->live) continue;
        shortage_start(e, w);
        if (e->err || w->parked || (w->gang && !w->has_domain)) continue;
        preempt_need(e, w);
    }
    if (!e->err) emit_victims(e);
}
