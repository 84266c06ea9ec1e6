/* SPDX-License-Identifier: Apache-2.0 */
/* Takes machines for a strict spread one by one: a domain may have at most max_skew machines more
 * than the emptiest domain.
 *
 * The machines of one order in one domain form a *strand*. A heap sorts the strands by their next
 * machine. Strands whose domain must not grow are set aside until the minimum rises.
 *
 * In Phase 1 a strand is a chain of a price order (chains.h). Chains are opened only until the next
 * machine and the emptiest domain are known. */
#include "base/sift.h"
#include "shard/decide/chains.h"

#define DOMAIN_NONE UINT32_MAX

static const struct posting *spread_value(const struct want *w, const struct cohort *c)
{
    return look_find(c->traits.look, w->demand->kind->spread->key);
}

/* --- machines per domain --- */

/* Finds or adds the domain. DOMAIN_NONE: out of memory. */
static uint32_t spread_domain_take(struct decider *e, struct spread_state *state,
                                   const struct posting *value)
{
    uint32_t known = e->bucket_of[value->slot]; /* may be another Need's; checked below */

    if (known < state->count && state->at[known].value == value) return known;
    known = state->count;
    if (!decider_grow(e, &state->at, known, &state->cap, sizeof *state->at)) return DOMAIN_NONE;
    state->at[state->count++] = (struct spread_domain){.value = value};
    e->bucket_of[value->slot] = known;
    return known;
}

static void spread_least_find(struct spread_state *state)
{
    state->least = UINT32_MAX;
    state->at_least = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct spread_domain *d = &state->at[i];
        if (!d->joined || d->held > state->least) continue;
        state->at_least = d->held < state->least ? 1 : state->at_least + 1;
        state->least = d->held;
    }
}

static void spread_domain_join(struct spread_state *state, uint32_t number)
{
    struct spread_domain *d = &state->at[number];

    if (d->joined) return;
    d->joined = true;
    if (d->held > state->least) return;
    state->at_least = d->held < state->least ? 1 : state->at_least + 1;
    state->least = d->held;
}

/* Searches the minimum again only when the last domain with the minimum has grown. */
static void spread_domain_grow(struct spread_state *state, uint32_t number)
{
    struct spread_domain *d = &state->at[number];
    bool was_least = d->joined && d->held == state->least;

    d->held++;
    spread_domain_join(state, number);
    if (was_least && --state->at_least == 0) spread_least_find(state);
}

static bool spread_may_grow(const struct want *w, uint32_t number)
{
    int32_t skew = w->demand->kind->spread->max_skew;

    return (uint64_t)w->spread->at[number].held + w->spread->at[number].coming <=
           (uint64_t)w->spread->least + (uint64_t)(skew < 1 ? 1 : skew) - 1;
}

static void spread_count_entry(struct decider *e, struct want *w, const struct log_entry *entry)
{
    const struct posting *value = spread_value(w, entry->source->cohort);
    uint32_t number = value ? spread_domain_take(e, w->spread, value) : DOMAIN_NONE;

    if (number == DOMAIN_NONE) return;
    w->spread->at[number].held += entry->count;
    w->spread->at[number].joined = true;
}

static void spread_count_claimed(struct decider *e, struct want *w)
{
    for (uint32_t i = w->own_from; i < w->own_to; i++) spread_count_entry(e, w, &e->log.at[i]);
    for (uint32_t i = w->rest_from; i < e->log.count; i++) spread_count_entry(e, w, &e->log.at[i]);
}

/* --- strands --- */

/* In Phase 1, equal strands of different domains are compared by value. Other equal strands are
 * compared by machine id. */
static bool strand_before(const void *context, const void *left, const void *right)
{
    const struct spread_walk *walk = context;
    const struct strand *a = &walk->strands[*(const uint32_t *)left];
    const struct strand *b = &walk->strands[*(const uint32_t *)right];

    if (a->first != b->first) return a->first < b->first;
    if (a->second != b->second) return a->second < b->second;
    if (!walk->pool && a->domain != b->domain) {
        return str_compare(posting_value(walk->state->at[a->domain].value),
                           posting_value(walk->state->at[b->domain].value)) < 0;
    }
    (void)source_next(walk->sources[a->from]);
    (void)source_next(walk->sources[b->from]);
    return source_before(NULL, &walk->sources[a->from], &walk->sources[b->from]);
}

static void strand_sink(struct spread_walk *walk)
{
    sift_down(walk->heap, sizeof *walk->heap, walk->heap_count, 0, strand_before, walk);
}

static void strand_drop(struct spread_walk *walk)
{
    walk->heap[0] = walk->heap[--walk->heap_count];
    if (walk->heap_count) strand_sink(walk);
}

struct strand_entry {
    double first, second;
    struct supply_source *source; /* Phase 1: NULL if the Need can take no machine of the source */
    uint32_t next;
};

static struct strand_entry strand_entry(struct decider *e, const struct want *w,
                                        const struct spread_walk *walk, uint32_t side,
                                        uint32_t number)
{
    const struct spread_side *from;
    const struct price_entry *entry;
    struct strand_entry out = {0};

    if (walk->pool) {
        const struct pool_entry *at = &walk->pool->at[number];
        return (struct strand_entry){at->first, at->second, at->source, walk->next[number]};
    }
    from = &walk->sides[side];
    entry = &from->order->at[number];
    out.first = entry->first;
    out.next = from->chains->next[number];
    if (!entry_used_up(e, entry) && set_matches(e, walk->memory, entry->look)) {
        const struct cohort *c = slot_map_held(&e->inventory->cohort_slots, entry->cohort);
        if (source_open(e, w, c)) out.source = source_of(e, c);
    }
    return out;
}

/* Opens the next class with machines to take, as a heap by next id. At the end of the strand the
 * class is empty. */
static void strand_open(struct decider *e, const struct want *w, struct spread_walk *walk,
                        struct strand *s)
{
    bool acquires = !walk->pool;

    while (!s->count && s->entry != CHAIN_NONE) {
        struct strand_entry entry = strand_entry(e, w, walk, s->side, s->entry);
        s->first = entry.first;
        s->second = entry.second;
        s->from = walk->source_count;
        for (;;) {
            struct supply_source *source = entry.source;
            s->entry = entry.next;
            if (source && source_left(e, source) && want_helped(w, source->cohort->traits.shape) &&
                (acquires || source_open(e, w, source->cohort))) {
                if (!decider_grow(e, &walk->sources, walk->source_count, &walk->source_cap,
                                  sizeof(struct supply_source *))) {
                    s->count = 0;
                    s->entry = CHAIN_NONE;
                    return;
                }
                walk->sources[walk->source_count++] = source;
                s->count++;
                /* This source has the smallest first id of the class and only one machine, so the
                 * class need not be read further. */
                if (acquires && s->count == 1 && source->cohort->count == 1) return;
            }
            if (s->entry == CHAIN_NONE) break;
            entry = strand_entry(e, w, walk, s->side, s->entry);
            if (entry.first != s->first || entry.second != s->second) break;
        }
        if (s->count == 1 && acquires) return; /* with one source, ids decide nothing */
        for (uint32_t i = 0; i < s->count; i++) (void)source_next(walk->sources[s->from + i]);
        for (uint32_t i = s->count / 2; i-- > 0;) {
            source_sink(walk->sources + s->from, s->count, i);
        }
    }
}

/* Adds a strand that starts at this entry, unless it is empty. */
static void strand_add(struct decider *e, const struct want *w, struct spread_walk *walk,
                       struct strand strand)
{
    uint32_t number = walk->strand_count;

    strand_open(e, w, walk, &strand);
    if (!strand.count) return;
    decider_grow(e, &walk->strands, number, &walk->strand_cap, sizeof *walk->strands);
    decider_grow(e, &walk->heap, number, &walk->heap_cap, sizeof *walk->heap);
    decider_grow(e, &walk->aside, number, &walk->aside_cap, sizeof *walk->aside);
    if (e->err) return;
    walk->strands[walk->strand_count++] = strand;
    walk->heap[walk->heap_count] = number;
    sift_up(walk->heap, sizeof *walk->heap, walk->heap_count++, strand_before, walk);
}

static void spread_walk_clear(const struct want *w, struct spread_walk *walk)
{
    walk->state = w->spread;
    walk->side_count = walk->nearest = 0;
    walk->head_count = walk->source_count = walk->strand_count = 0;
    walk->heap_count = walk->aside_count = 0;
}

/* --- Phase 2: the pool's entries become strands --- */

static void spread_walk_hang(struct decider *e, struct want *w, struct spread_walk *walk,
                             const struct posting *value, uint32_t entry)
{
    uint32_t domain = spread_domain_take(e, w->spread, value);

    if (domain == DOMAIN_NONE) return;
    if (!decider_grow(e, &walk->heads, domain, &walk->head_cap, sizeof *walk->heads)) return;
    for (; walk->head_count <= domain; walk->head_count++) {
        walk->heads[walk->head_count] = CHAIN_NONE;
    }
    walk->next[entry] = walk->heads[domain];
    walk->heads[domain] = entry;
}

static void spread_walk_start(struct decider *e, struct want *w, struct spread_walk *walk,
                              const struct supply_pool *pool)
{
    spread_walk_clear(w, walk);
    if (!decider_grow(e, &walk->next, pool->count, &walk->next_cap, sizeof *walk->next)) return;
    walk->pool = pool;
    for (uint32_t i = pool->count; i-- > pool->head;) {
        const struct supply_source *s = pool->at[i].source;
        const struct posting *value = spread_value(w, s->cohort);
        if (!value || !source_left(e, s) || !source_open(e, w, s->cohort)) continue;
        if (want_helped(w, s->cohort->traits.shape)) spread_walk_hang(e, w, walk, value, i);
    }
    for (uint32_t domain = 0; domain < walk->head_count; domain++) {
        strand_add(e, w, walk, (struct strand){.domain = domain, .entry = walk->heads[domain]});
    }
}

/* --- Phase 1: opening chains --- */

static void spread_side_add(struct decider *e, const struct want *w, struct spread_walk *walk,
                            struct price_order *order)
{
    struct chains *chains = order ? chains_of(e, order, w->demand->kind->spread->key) : NULL;

    if (!chains || chains->first == CHAIN_NONE) return;
    if (!decider_grow(e, &walk->sides, walk->side_count, &walk->side_cap, sizeof *walk->sides)) {
        return;
    }
    walk->sides[walk->side_count++] = (struct spread_side){order, chains, &chains->first};
}

static void spread_sides_add(struct decider *e, const struct want *w, struct spread_walk *walk,
                             enum pool_kind kind)
{
    struct price_walk price_lists =
        price_walk_begin(e, pool_state_of(kind), walk->memory, w->demand->unit);
    struct price_list *list;

    while ((list = price_walk_next(e, &price_lists))) {
        spread_side_add(e, w, walk, price_order_of(e, list, pool_bucket(kind, w)));
    }
}

/* A lower bound of the machines in unopened chains. */
struct bound {
    double first;
    const struct posting *value;
};

static struct bound spread_side_bound(const struct spread_side *side)
{
    const struct chain *chain = &side->chains->at[*side->link];

    return (struct bound){chain->start, chain->value};
}

static bool spread_bound_before(struct bound a, struct bound b)
{
    if (a.first != b.first) return a.first < b.first;
    return a.value != b.value && str_compare(posting_value(a.value), posting_value(b.value)) < 0;
}

static void spread_nearest_find(struct spread_walk *walk)
{
    uint32_t nearest = walk->side_count;

    for (uint32_t i = 0; i < walk->side_count; i++) {
        const struct spread_side *side = &walk->sides[i];
        if (*side->link == CHAIN_NONE) continue;
        if (nearest == walk->side_count ||
            spread_bound_before(spread_side_bound(side), spread_side_bound(&walk->sides[nearest])))
            nearest = i;
    }
    walk->nearest = nearest;
}

static void spread_walk_prepare(struct decider *e, const struct want *w, struct spread_walk *walk,
                                enum pool_kind kind)
{
    walk->memory = set_recall(e, w->demand->kind->set);
    spread_walk_clear(w, walk);
    walk->pool = NULL;
    spread_sides_add(e, w, walk, kind);
    spread_nearest_find(walk);
}

static bool spread_walk_unopened(const struct spread_walk *walk)
{
    return walk->nearest < walk->side_count;
}

/* Opens the chain that starts first. */
static void spread_walk_open(struct decider *e, struct want *w, struct spread_walk *walk)
{
    struct spread_side *side = &walk->sides[walk->nearest];
    struct chain *chain = &side->chains->at[*side->link];
    struct strand strand = {.side = walk->nearest};

    while (chain->head != CHAIN_NONE && entry_used_up(e, &side->order->at[chain->head])) {
        chain->head = side->chains->next[chain->head];
    }
    if (chain->head == CHAIN_NONE)
        *side->link = chain->next;
    else
        side->link = &chain->next;
    for (strand.entry = chain->head; strand.entry != CHAIN_NONE;) {
        struct strand_entry entry = strand_entry(e, w, walk, strand.side, strand.entry);
        if (entry.source) break;
        strand.entry = entry.next;
    }
    if (strand.entry != CHAIN_NONE) { /* the domain counts even if its machines do not help */
        strand.domain = spread_domain_take(e, w->spread, chain->value);
        if (strand.domain != DOMAIN_NONE) {
            spread_domain_join(w->spread, strand.domain);
            strand_add(e, w, walk, strand);
        }
    }
    spread_nearest_find(walk);
}

/* --- walking --- */

/* Moves the strand on top of the heap to its next source. */
static void spread_walk_next(struct decider *e, const struct want *w, struct spread_walk *walk)
{
    struct strand *s = &walk->strands[walk->heap[0]];
    struct supply_source **sources = walk->sources + s->from;

    if (!source_left(e, sources[0]) || !want_helped(w, sources[0]->cohort->traits.shape)) {
        sources[0] = sources[--s->count];
    } else if (s->count > 1 || walk->pool) {
        (void)source_next(sources[0]);
    }
    if (s->count > 1) source_sink(sources, s->count, 0);
    if (!s->count) strand_open(e, w, walk, s);
    if (s->count)
        strand_sink(walk);
    else
        strand_drop(walk);
}

/* Returns strands to the heap after the minimum has risen. */
static void spread_walk_return(const struct want *w, struct spread_walk *walk)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < walk->aside_count; i++) {
        uint32_t strand = walk->aside[i];
        if (spread_may_grow(w, walk->strands[strand].domain))
            walk->heap[walk->heap_count++] = strand;
        else
            walk->aside[left++] = strand;
    }
    if (left < walk->aside_count)
        sift_all(walk->heap, sizeof *walk->heap, walk->heap_count, strand_before, walk);
    walk->aside_count = left;
}

static bool spread_strand_is_first(const struct want *w, const struct spread_walk *walk,
                                   const struct strand *s)
{
    return spread_bound_before((struct bound){s->first, w->spread->at[s->domain].value},
                               spread_side_bound(&walk->sides[walk->nearest]));
}

/* Returns the first source from which the Need may take a machine; NULL: none. */
static struct supply_source *spread_walk_first(struct decider *e, struct want *w,
                                               struct spread_walk *walk)
{
    if (walk->least < w->spread->least) spread_walk_return(w, walk);
    walk->least = w->spread->least;
    while (walk->heap_count || spread_walk_unopened(walk)) {
        const struct strand *s = walk->heap_count ? &walk->strands[walk->heap[0]] : NULL;
        if (spread_walk_unopened(walk) && (!s || !spread_strand_is_first(w, walk, s))) {
            spread_walk_open(e, w, walk);
        } else if (!spread_may_grow(w, s->domain)) {
            walk->aside[walk->aside_count++] = walk->heap[0];
            strand_drop(walk);
        } else if (!want_helped(w, walk->sources[s->from]->cohort->traits.shape)) {
            spread_walk_next(e, w, walk);
        } else {
            return walk->sources[s->from];
        }
    }
    return NULL;
}

static void spread_walk_take(struct decider *e, struct want *w, struct spread_walk *walk,
                             struct supply_source *source, pool_take *take)
{
    take(e, w, source, 1);
    spread_domain_grow(w->spread, walk->strands[walk->heap[0]].domain);
    if (w->live) spread_walk_next(e, w, walk);
}

/* --- Phase 1, Phase 2 --- */

/* Opens chains until the emptiest domain is known, several in a step, because finding the minimum
 * walks all domains. */
static void spread_least_settle(struct decider *e, struct want *w, struct spread_walk *walks)
{
    struct spread_state *state = w->spread;

    if (state->least == 0) return;
    for (int i = 0; i < 2; i++) {
        while (spread_walk_unopened(&walks[i]) &&
               (state->least > 0 || state->at_least <= state->count / 4)) {
            spread_walk_open(e, w, &walks[i]);
        }
    }
}

void spread_acquire(struct decider *e, struct want *w)
{
    struct spread_walk *idle = &e->walks[0], *speculative = &e->walks[1];

    w->spread = e->spread_spare ? e->spread_spare : decider_alloc(e, 1, sizeof *w->spread);
    e->spread_spare = NULL;
    if (!w->spread) return;
    spread_walk_prepare(e, w, idle, POOL_OF_IDLE);
    spread_walk_prepare(e, w, speculative, POOL_OF_SPECULATIVE);
    w->spread->count = 0;
    spread_count_claimed(e, w);
    spread_least_find(w->spread);
    spread_least_settle(e, w, e->walks);
    idle->least = speculative->least = w->spread->least;
    while (w->live) {
        struct spread_walk *walk = idle;
        struct supply_source *s = spread_walk_first(e, w, idle);
        if (!s) {
            walk = speculative;
            s = spread_walk_first(e, w, speculative);
        }
        if (!s) break;
        spread_walk_take(e, w, walk, s, want_claim);
        if (w->live) spread_least_settle(e, w, e->walks);
    }
    if (!w->live) { /* a satisfied Need has no turn in Phase 2 */
        e->spread_spare = w->spread;
        w->spread = NULL;
    }
}

void spread_coming_begin(struct want *w)
{
    for (uint32_t i = 0; i < w->spread->count; i++) w->spread->at[i].before = w->spread->at[i].held;
}

void spread_coming_end(struct want *w)
{
    for (uint32_t i = 0; i < w->spread->count; i++) {
        struct spread_domain *d = &w->spread->at[i];
        d->coming = d->held - d->before;
        d->held = d->before;
    }
    spread_least_find(w->spread);
}

void spread_take(struct decider *e, struct want *w, const struct supply_pool *pool)
{
    struct spread_state *state = w->spread;
    struct spread_walk *walk = &e->walks[0];

    for (uint32_t i = 0; i < state->count; i++) e->bucket_of[state->at[i].value->slot] = i;
    spread_walk_start(e, w, walk, pool);
    walk->least = state->least;
    while (w->live) {
        struct supply_source *s = spread_walk_first(e, w, walk);
        if (!s) break;
        spread_walk_take(e, w, walk, s, source_take);
    }
}
