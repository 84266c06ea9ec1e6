/* SPDX-License-Identifier: Apache-2.0 */
/* Possible victims: Configured machines that are not excess, one list per instance type and shape.
 *
 * A victim's score is the sum of its key and a part that depends only on the preemptor's priority.
 * So the order of the keys serves every preemptor, except for rounding. Victims whose order
 * rounding could change are read together and sorted by their exact scores. */
#include "shard/decide/victims.h"

#include <math.h>

#include "base/sift.h"

double victim_score(const struct victim_weights *weights, int32_t preemptor,
                    const struct supply_source *victim)
{
    const struct stamp *stamp = victim->cohort->traits.stamp;
    int64_t gap = (int64_t)preemptor - victim->priority;
    double interruption = stamp ? stamp->interruption_dollars : 0;
    double reclamation = stamp ? stamp->reclamation_dollars : 0;
    double seconds = (double)weights->drain_ms / (double)MS_PER_SECOND;

    return (double)(gap > 0 ? gap : 0) * weights->priority +
           weights->drain / (seconds > 1 ? seconds : 1) +
           weights->interruption / (interruption > 0.01 ? interruption : 0.01) +
           weights->reclamation / (reclamation > 0.01 ? reclamation : 0.01);
}

/* --- candidates --- */

/* `by_shape`, indexed by shape: number of the type's list + 1. NULL: out of memory. */
static struct victim_list *victim_list_of(struct decider *e, uint32_t type, uint32_t shape,
                                          uint32_t *by_shape)
{
    struct victim_lists *all = &e->victim_lists;
    struct victim_list *list;

    if (by_shape[shape]) return all->at[by_shape[shape] - 1];
    list = decider_alloc(e, 1, sizeof *list);
    if (!decider_grow(e, &all->at, all->count, &all->cap, sizeof list) || !list) return NULL;
    *list = (struct victim_list){.type = type, .shape = shape};
    all->at[all->count] = list;
    by_shape[shape] = ++all->count;
    return list;
}

static double victim_key(const struct decider *e, const struct supply_source *run)
{
    const struct victim_weights *weights = &e->input.weights;

    /* the victim serves as the preemptor, so that the priority difference is 0 */
    return victim_score(weights, run->priority, run) - (double)run->priority * weights->priority;
}

static void victim_put(struct decider *e, struct victim_list *list, const struct cohort *c,
                       uint32_t first, uint32_t count, int32_t priority)
{
    uint32_t look = c->traits.look->slot;
    struct victims_at *same = &e->victims[look];
    struct victim *victim;

    if (!count) return;
    victim = decider_alloc(e, 1, sizeof *victim);
    if (!decider_grow(e, &list->at, list->count, &list->cap, sizeof *list->at) || !victim) return;
    victim->run = (struct supply_source){.cohort = c,
                                         .first = first,
                                         .count = count,
                                         .priority = priority,
                                         .victim = true,
                                         .log = LOG_NONE,
                                         .key = KEY_NONE};
    victim->other = same->decision == e->number ? same->first : NULL;
    *same = (struct victims_at){victim, e->number};
    list->at[list->count++] =
        (struct victim_entry){victim_key(e, &victim->run), victim, look, priority};
}

/* A victim has the higher priority of its stamp and of the Need that claimed it. */
static void victim_put_claimed(struct decider *e, struct victim_list *list, const struct cohort *c,
                               uint32_t first, uint32_t count, uint32_t claimer)
{
    int32_t stamped = cohort_stamped_priority(c), claimed = e->rows[claimer]->profile->priority;

    victim_put(e, list, c, first, count, claimed > stamped ? claimed : stamped);
}

static void victims_add(struct decider *e, struct victim_list *list, const struct bag_item *item)
{
    const struct cohort *c = item->cohort;
    const struct supply_source *s;

    if (c->traits.cordon) return; /* no Need could use the machine afterwards */
    if (item->key != SLOT_NONE && key_all(e, item->key)) {
        victim_put_claimed(e, list, c, 0, c->count, e->keys[item->key].steady_row);
        return;
    }
    s = source_of(e, c);
    for (uint32_t i = s->log; i != LOG_NONE; i = e->log.at[i].earlier) {
        const struct log_entry *entry = &e->log.at[i];
        victim_put_claimed(e, list, c, entry->from, entry->count, entry->want);
    }
    /* Unclaimed machines are victims if they are not excess: held machines, and those of a cluster
     * that sent no roll-up yet. */
    if (!e->ready[c->traits.cluster->slot] || c->traits.occupancy == OCCUPANCY_HELD) {
        victim_put(e, list, c, s->taken, source_left(e, s), cohort_stamped_priority(c));
    }
}

/* --- lists --- */

static bool victim_entry_before(const void *, const void *a, const void *b)
{
    return ((const struct victim_entry *)a)->key > ((const struct victim_entry *)b)->key;
}

/* Returns entry `number` after sorting as far as needed. NULL: fewer entries. */
static const struct victim_entry *victim_list_at(struct victim_list *list, uint32_t number)
{
    if (number >= list->count) return NULL;
    while (list->sorted <= number) {
        uint32_t last = list->count - ++list->sorted;
        struct victim_entry first = list->at[0];
        list->at[0] = list->at[last];
        list->at[last] = first;
        if (last) sift_down(list->at, sizeof first, last, 0, victim_entry_before, NULL);
    }
    return &list->at[list->count - 1 - number];
}

static void victims_of_type(struct decider *e, uint32_t type)
{
    const struct slot_map *clusters = &e->inventory->cluster_slots;
    uint64_t *made = &e->victim_types[type == SLOT_NONE ? 0 : type + 1];
    uint32_t from = e->victim_lists.count, *by_shape;

    if (*made == e->number) return;
    by_shape = decider_alloc(e, e->inventory->shape_slots.used, sizeof *by_shape);
    if (!by_shape) return;
    for (uint32_t i = 0; i < clusters->used; i++) {
        const struct cohort_cluster *cluster = slot_map_get(clusters, i);
        for (uint32_t k = 0; cluster && k < cluster->configured.count; k++) {
            const struct type_bag *of_type = &cluster->configured.at[k];
            if (of_type->type != type) continue;
            for (uint32_t n = 0; n < of_type->bag.count; n++) {
                const struct bag_item *item = &of_type->bag.at[n];
                struct victim_list *list = victim_list_of(e, type, item->shape, by_shape);
                if (list) victims_add(e, list, item);
            }
        }
    }
    for (uint32_t i = from; i < e->victim_lists.count; i++) {
        struct victim_list *list = e->victim_lists.at[i];
        sift_all(list->at, sizeof *list->at, list->count, victim_entry_before, NULL);
    }
    *made = e->number;
}

static void victims_make(struct decider *e, const struct set_memory *memory)
{
    const struct slot_map *clusters = &e->inventory->cluster_slots;

    if (memory->type_count != TYPES_ANY) {
        for (uint32_t i = 0; i < memory->type_count; i++) victims_of_type(e, memory->types[i]);
        return;
    }
    for (uint32_t i = 0; i < clusters->used; i++) {
        const struct cohort_cluster *cluster = slot_map_get(clusters, i);
        for (uint32_t k = 0; cluster && k < cluster->configured.count; k++) {
            victims_of_type(e, cluster->configured.at[k].type);
        }
    }
}

/* --- for one Need --- */

static void victim_offer(struct decider *e, const struct want *w, struct victim *victim,
                         struct supply_pool *pool)
{
    struct supply_source *run = &victim->run;

    if (run->priority >= w->demand->profile->priority || run->taken == run->count) return;
    pool_add_in_order(e, pool, POOL_OF_VICTIMS, w, run);
}

void victims_of_look(struct decider *e, const struct want *w, const struct look *look,
                     struct supply_pool *pool)
{
    const struct victims_at *same = &e->victims[look->slot];

    victims_of_type(e, e->inventory->look_briefs[look->slot].type);
    if (same->decision != e->number) return;
    for (struct victim *v = same->first; v; v = v->other) {
        if (cohort_fits(v->run.cohort, w->demand->unit)) victim_offer(e, w, v, pool);
    }
}

/* Returns the largest rounding error of a score. */
static double victim_margin(const struct victim_weights *weights, int32_t preemptor)
{
    const double most = 1 / 0.01, few_roundings = 0x1p-47;
    double priorities = fabs((double)preemptor) - (double)INT32_MIN;

    return few_roundings * (priorities * weights->priority + weights->drain +
                            most * weights->interruption + most * weights->reclamation);
}

void victims_open(struct decider *e, const struct want *w, struct supply_pool *pool)
{
    const struct victim_weights *weights = &e->input.weights;
    int32_t preemptor = w->demand->profile->priority;
    struct victim_walk *walk = decider_alloc(e, 1, sizeof *walk);

    if (!walk) return;
    victims_make(e, pool->memory);
    walk->base = (double)preemptor * weights->priority;
    walk->margin = victim_margin(weights, preemptor);
    pool->victims = walk;
    pool->want = w;
    for (uint32_t i = 0; i < e->victim_lists.count; i++) {
        struct victim_list *list = e->victim_lists.at[i];
        if (!set_names_type(pool->memory, list->type)) continue;
        if (!shape_covers(e, list->shape, w->demand->unit)) continue;
        while (list->head < list->sorted) {
            const struct supply_source *run = &victim_list_at(list, list->head)->victim->run;
            if (run->taken < run->count) break;
            list->head++;
        }
        if (!decider_grow(e, &walk->at, walk->count, &walk->cap, sizeof *walk->at)) return;
        walk->at[walk->count++] = (struct victim_cursor){list, list->head};
    }
}

/* Returns an upper bound of the scores that were not read yet. */
static double victim_walk_most(const struct victim_walk *walk, const struct victim_entry *entry)
{
    return walk->base + entry->key + walk->margin;
}

/* Returns the cursor with the largest key; NULL: no further machine may be preempted. The score of
 * a permitted victim is at least the weight of one priority. */
static struct victim_cursor *victim_walk_next(const struct decider *e, struct victim_walk *walk)
{
    struct victim_cursor *best = NULL;
    double most = -INFINITY;

    for (uint32_t i = 0; i < walk->count;) {
        struct victim_cursor *c = &walk->at[i];
        const struct victim_entry *entry = victim_list_at(c->list, c->next);
        if (!entry || victim_walk_most(walk, entry) < e->input.weights.priority) {
            *c = walk->at[--walk->count];
            continue;
        }
        if (!best || entry->key > most) {
            best = c;
            most = entry->key;
        }
        i++;
    }
    return best;
}

void victims_pull(struct decider *e, struct supply_pool *pool)
{
    struct victim_walk *walk = pool->victims;
    struct victim_cursor *c;
    uint32_t from = pool->count;
    double least = INFINITY; /* smallest score that this call read */

    while ((c = victim_walk_next(e, walk))) {
        const struct victim_entry *entry = victim_list_at(c->list, c->next);
        uint32_t count = pool->count;
        if (count > from && victim_walk_most(walk, entry) < least) break;
        c->next++;
        if (entry->priority >= pool->want->demand->profile->priority) continue;
        if (!set_matches(e, pool->memory, entry->look)) continue;
        victim_offer(e, pool->want, entry->victim, pool);
        if (pool->count > count && -pool->at[count].first < least) {
            least = -pool->at[count].first;
        }
    }
    pool_sort(pool, from);
    if (pool->count == from) pool->victims = NULL;
}
