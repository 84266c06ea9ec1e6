/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in the verdict of every Need, and the reason why a Need got less than it asked for. */
#include "shard/decide/price_lists.h"

const char *verdict_reason_name(enum verdict_reason reason)
{
    switch (reason) {
    case REASON_TOPOLOGY_UNSATISFIABLE: return "TOPOLOGY_UNSATISFIABLE";
    case REASON_NO_MATCHING_SUPPLY: return "NO_MATCHING_SUPPLY";
    case REASON_PREEMPTION_EXHAUSTED: return "PREEMPTION_EXHAUSTED";
    case REASON_PRIORITY_STARVED: return "PRIORITY_STARVED";
    case REASON_SOLD_OUT: return "SOLD_OUT";
    case REASON_NONE: break;
    }
    return "";
}

void shortage_start(struct decider *e, struct want *w)
{
    if (!w->shortage) w->shortage = decider_alloc(e, 1, sizeof *w->shortage);
    if (w->shortage) w->shortage->deficit = want_rest(e, w);
}

static uint32_t verdict_count_configured(struct decider *e, const struct want *w,
                                         const struct set_memory *memory)
{
    const struct slot_map *clusters = &e->inventory->cluster_slots;
    uint64_t machines = 0;

    for (uint32_t i = 0; i < clusters->used && machines < VERDICT_COUNT_MOST; i++) {
        const struct cohort_cluster *cluster = slot_map_get(clusters, i);
        if (!cluster) continue;
        machines += type_bags_count(e, &cluster->configured, memory, w->demand->unit,
                                    VERDICT_COUNT_MOST - machines);
    }
    return (uint32_t)machines;
}

static enum verdict_reason verdict_reason_of(const struct want *w)
{
    const struct shortage *s = w->shortage;

    if (w->live && s->sold_out_count) return REASON_SOLD_OUT;
    if (w->gang && (w->parked || !w->has_domain || !w->satisfiable)) {
        return REASON_TOPOLOGY_UNSATISFIABLE;
    }
    if (!w->claimed && !s->idle_count && !s->speculative_count && !s->configured_count) {
        return REASON_NO_MATCHING_SUPPLY;
    }
    if (w->live && s->victims) return REASON_PREEMPTION_EXHAUSTED;
    return REASON_PRIORITY_STARVED;
}

static void shortage_name_sold_out(struct decider *e, const struct want *w,
                                   const struct set_memory *memory, struct shortage *s)
{
    struct price_walk walk = price_walk_begin(e, POOL_SOLD_OUT, memory, w->demand->unit);
    const struct price_item *best = NULL;
    const struct price_list *list;
    const struct traits *t;

    while ((list = price_walk_next(e, &walk)))
        for (uint32_t i = 0; i < list->count; i++)
            if ((!best || list->items[i].price < best->price) &&
                set_matches(e, memory, list->items[i].look))
                best = &list->items[i];
    if (!best) return;
    t = &((const struct cohort *)slot_map_held(&e->inventory->cohort_slots, best->cohort))->traits;
    s->sold_out.capacity_type = (enum capacity_type)t->capacity_type;
    if (t->look->postings[LOOK_TYPE])
        s->sold_out.instance_type = posting_value(t->look->postings[LOOK_TYPE]);
    if (t->look->postings[LOOK_ZONE])
        s->sold_out.zone = posting_value(t->look->postings[LOOK_ZONE]);
}

static void shortage_finish(struct decider *e, struct want *w)
{
    const struct set_memory *memory = set_recall(e, w->demand->kind->set);
    struct shortage *s = w->shortage;

    s->idle_count = (uint32_t)price_lists_count(e, POOL_IDLE, memory, w->demand->unit, true,
                                                VERDICT_COUNT_MOST);
    s->speculative_count = (uint32_t)price_lists_count(e, POOL_SPECULATIVE, memory, w->demand->unit,
                                                       true, VERDICT_COUNT_MOST);
    if (e->sold_out_count)
        s->sold_out_count = (uint32_t)price_lists_count(e, POOL_SOLD_OUT, memory, w->demand->unit,
                                                        true, VERDICT_COUNT_MOST);
    if (s->sold_out_count) shortage_name_sold_out(e, w, memory, s);
    s->configured_count = verdict_count_configured(e, w, memory);
    s->unresolved = want_rest(e, w);
    s->reason = verdict_reason_of(w);
}

void verdict_steady(struct decider *e, uint32_t row)
{
    const struct demand *demand = e->rows[row];
    const struct row_memory *m = &e->memories[e->slots[row]];

    e->verdicts[row] =
        (struct need_verdict){.need = demand,
                              .parked = row_at(e, row)->parked,
                              .satisfied = true,
                              .satisfiable = true,
                              .has_domain = demand->gang,
                              .domain = demand->gang ? posting_value(m->domain) : STR_EMPTY,
                              .claimed = m->machines};
    row_at(e, row)->course.has_verdict = true;
}

static void verdict_make(struct decider *e, uint32_t row)
{
    struct want *w = &e->wants[row];

    if (w->shortage) shortage_finish(e, w);
    e->verdicts[row] =
        (struct need_verdict){.need = w->demand,
                              .parked = w->parked,
                              .satisfied = !w->shortage,
                              .satisfiable = !w->shortage || w->satisfiable,
                              .has_domain = w->has_domain,
                              .domain = w->has_domain ? posting_value(w->domain) : STR_EMPTY,
                              .claimed = w->claimed,
                              .bootstraps = w->bootstraps,
                              .provisions = w->provisions,
                              .shortage = w->shortage};
    e->decision.claimed += w->claimed;
    row_at(e, row)->course.has_verdict = row_at(e, row)->course.settled;
}

void verdicts_make(struct decider *e)
{
    for (uint32_t i = 0; !e->err && i < e->restless_count; i++) verdict_make(e, e->restless[i]);
    e->decision.verdicts = e->verdicts;
    e->decision.verdict_count = e->row_count;
}
