/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the domain (value of the topology key) in which a gang takes all its machines. */
#include <string.h>

#include "shard/decide/racks.h"

struct bucket { /* a domain */
    const struct posting *value;
    int64_t count;                /* number of machines; 0: the domain has none */
    int128 *total, *credit, *own; /* amounts, by dimension */
    bool satisfiable;
    double total_score, credit_score, own_score;
};
struct buckets {
    struct bucket *at;
    uint32_t count, cap;
    uint32_t made, made_dimensions; /* kept for reuse: number of buckets, amounts per bucket */
    uint64_t mask;
    const int128 *aggregate;
};

static struct bucket *bucket_of(struct decider *e, struct buckets *b, const struct posting *value)
{
    uint32_t known = e->bucket_of[value->slot]; /* may be an earlier gang's; checked below */
    uint32_t dimensions = resource_bits(b->mask);
    struct bucket *bucket;
    int128 *sums;

    if (known < b->count && b->at[known].value == value) return &b->at[known];
    if (!decider_grow(e, &b->at, b->count, &b->cap, sizeof *b->at)) return NULL;
    bucket = &b->at[b->count];
    if (b->count < b->made) {
        sums = memset(bucket->total, 0, 3 * (size_t)dimensions * sizeof *sums);
    } else {
        sums = decider_alloc(e, 3 * (size_t)b->made_dimensions, sizeof *sums);
        if (!sums) return NULL;
        b->made++;
    }
    *bucket = (struct bucket){.value = value,
                              .total = sums,
                              .credit = sums + dimensions,
                              .own = sums + 2 * (size_t)dimensions};
    e->bucket_of[value->slot] = b->count++;
    return bucket;
}

static void buckets_start(struct buckets *b, const struct want *w)
{
    uint32_t dimensions = resource_bits(w->demand->aggregate.mask);

    b->mask = w->demand->aggregate.mask;
    b->aggregate = w->demand->aggregate.milli;
    b->count = 0;
    if (dimensions <= b->made_dimensions) return;
    b->made = 0;
    b->made_dimensions = dimensions;
}

enum member { MEMBER_ACQUIRABLE, MEMBER_CREDITABLE, MEMBER_OWN, MEMBER_ALL /* claimed or not */ };

static void bucket_add(struct decider *e, const struct want *w, struct buckets *b,
                       const struct supply_source *s, enum member member)
{
    const struct posting *value = look_find(s->cohort->traits.look, w->demand->kind->same->key);
    const struct machine_shape *shape = s->cohort->traits.shape;
    uint32_t left = member == MEMBER_ALL ? s->count : source_left(e, s);
    struct bucket *bucket = value && left ? bucket_of(e, b, value) : NULL;

    if (!bucket) return;
    bucket->count += left;
    rack_amounts_add(b->mask, bucket->total, shape, left);
    if (member >= MEMBER_CREDITABLE) rack_amounts_add(b->mask, bucket->credit, shape, left);
    if (member == MEMBER_OWN) rack_amounts_add(b->mask, bucket->own, shape, left);
}

/* --- ranking of domains --- */

static bool gang_covers(const struct buckets *b, const int128 *have)
{
    for (uint32_t i = 0; i < resource_bits(b->mask); i++)
        if (have[i] < b->aggregate[i]) return false;
    return true;
}

/* Adds in the order of the dimensions' names, because a sum of doubles depends on the order. */
static double gang_score(const struct decider *e, const struct buckets *b, const int128 *have,
                         bool capped)
{
    const struct dimensions *d = e->options.dimensions;
    double sum = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        uint64_t bit = (uint64_t)1 << d->by_name[i];
        if (!(b->mask & bit)) continue;
        uint32_t at = resource_bits(b->mask & (bit - 1));
        double ratio = (double)have[at] / (double)b->aggregate[at];
        sum += capped && ratio > 1 ? 1 : ratio;
    }
    return sum;
}

static void bucket_score(const struct decider *e, const struct buckets *b, struct bucket *bucket)
{
    bucket->satisfiable = gang_covers(b, bucket->total);
    bucket->total_score = gang_score(e, b, bucket->total, !bucket->satisfiable);
    bucket->credit_score = gang_score(e, b, bucket->credit, true);
    bucket->own_score = gang_score(e, b, bucket->own, true);
}

/* Ranks two buckets by the numbered rules in decision.md. Positive: a is better. Negative: b is
 * better. 0: the smaller value wins. */
static int bucket_rank(const struct bucket *a, const struct bucket *b)
{
    if (a->satisfiable != b->satisfiable) return a->satisfiable ? 1 : -1; /* rule 1 */
    if (a->satisfiable) {
        if (a->credit_score != b->credit_score) { /* rule 2 */
            return a->credit_score > b->credit_score ? 1 : -1;
        }
        if (a->own_score != b->own_score) return a->own_score > b->own_score ? 1 : -1; /* rule 2b */
        if (a->total_score != b->total_score) {                                        /* rule 3 */
            return a->total_score < b->total_score ? 1 : -1;
        }
    } else {
        if (a->total_score != b->total_score) { /* rule 4 */
            return a->total_score > b->total_score ? 1 : -1;
        }
        if (a->credit_score != b->credit_score) { /* rule 5 */
            return a->credit_score > b->credit_score ? 1 : -1;
        }
    }
    if (a->count != b->count) return a->count > b->count ? 1 : -1; /* rule 6 */
    return 0;
}

static bool bucket_ranks(const struct bucket *a, const struct bucket *b)
{
    return bucket_rank(a, b) >= 0;
}

static bool bucket_beats(const struct bucket *a, const struct bucket *b)
{
    int rank = bucket_rank(a, b);

    if (rank) return rank > 0;
    return str_compare(posting_value(a->value), posting_value(b->value)) < 0; /* rule 7 */
}

/* --- own machines first --- */

static void gang_add_pool(struct decider *e, const struct want *w, struct buckets *b,
                          const struct supply_pool *pool, enum member member)
{
    for (uint32_t i = 0; i < pool->count; i++) bucket_add(e, w, b, pool->at[i].source, member);
}

static const struct posting *gang_served_by(struct decider *e, const struct want *w,
                                            enum member member)
{
    struct buckets b = {0};
    const struct bucket *best = NULL;
    struct supply_pool *pool;

    if (!w->key) return NULL;
    buckets_start(&b, w);
    pool = own_pool_begin(e);
    for (int i = 0; i < OWN_STATES; i++) own_add(e, w, own_states[i], pool);
    gang_add_pool(e, w, &b, pool, member);
    for (uint32_t i = 0; i < b.count; i++) {
        struct bucket *bucket = &b.at[i];
        bucket_score(e, &b, bucket);
        if (!bucket->satisfiable) continue;
        if (!best || bucket->total_score < best->total_score ||
            (bucket->total_score == best->total_score &&
             str_compare(posting_value(bucket->value), posting_value(best->value)) < 0)) {
            best = bucket;
        }
    }
    return best ? best->value : NULL;
}

const struct posting *gang_served(struct decider *e, const struct want *w)
{
    return gang_served_by(e, w, MEMBER_ALL);
}

void gang_own_first(struct decider *e, struct want *w)
{
    const struct posting *domain = gang_served_by(e, w, MEMBER_OWN);

    if (!domain) return;
    w->has_domain = w->satisfiable = true;
    w->domain = domain;
    own_claim(e, w);
}

/* --- other machines --- */

static void gang_add_bags(struct decider *e, const struct want *w, const struct set_memory *memory,
                          struct buckets *b, const struct type_bags *types)
{
    struct type_walk walk = {types, memory, w->demand->unit, .shape = SLOT_NONE};
    const struct bag_item *item;

    while ((item = type_walk_next(e, &walk))) {
        bool own = w->key && item->key == w->key->slot;
        if (item->key != SLOT_NONE && key_all(e, item->key)) continue;
        bucket_add(e, w, b, source_of(e, item->cohort), own ? MEMBER_OWN : MEMBER_CREDITABLE);
    }
}

static void gang_add_creating(struct decider *e, const struct want *w, struct buckets *b)
{
    struct supply_pool *pool = own_pool_begin(e);

    own_add(e, w, MACHINE_CREATING, pool);
    gang_add_pool(e, w, b, pool, MEMBER_OWN);
    pool = e->inventory->nobodys.count ? pool_of(e, POOL_OF_CREATING, w) : NULL;
    if (pool) gang_add_pool(e, w, b, pool, MEMBER_CREDITABLE);
}

static void gang_subtract_look(struct decider *e, const struct want *w, struct buckets *b,
                               const struct look *look)
{
    const struct posting *value = look_find(look, w->demand->kind->same->key);
    struct bucket *bucket;

    for (uint32_t state = 0; value && state < POOL_COUNT; state++) {
        const struct bag *bag = &look->pools[state];
        for (uint32_t i = 0; i < bag->count; i++) {
            const struct cohort *c = bag->at[i].cohort;
            int64_t left = acquirable_left(e, c);
            if (!left || cohort_kept(e, c) || cohort_sold_out(e, c)) continue;
            if (!shape_covers(e, bag->at[i].shape, w->demand->unit)) continue;
            bucket = bucket_of(e, b, value);
            if (!bucket) return;
            bucket->count -= left;
            rack_amounts_add(b->mask, bucket->total, c->traits.shape, -left);
        }
    }
}

/* Subtracts from the racks the machines that the gang excludes by NotIn. A look with several
 * excluded values is subtracted only once. */
static void gang_subtract_refused(struct decider *e, const struct want *w,
                                  const struct set_memory *memory, struct buckets *b)
{
    for (uint32_t i = memory->base_count; i < memory->term_count; i++) {
        const struct match_term *t = &memory->terms[i];
        for (uint32_t k = 0; k < t->count; k++) {
            const struct posting *value = memory->values[t->from + k];
            for (uint32_t n = 0; n < value->count; n++) {
                const struct look *look;
                if (!set_base_accepts(e, memory, value->looks[n])) continue;
                look = posting_look(e->inventory, value, n);
                if (set_refusal(memory, look) == value) gang_subtract_look(e, w, b, look);
            }
        }
    }
}

/* Fills the buckets of domains that must be read one by one: those with machines of the gang's
 * cluster, machines kept for the gang, or machines that the gang excludes by NotIn. */
static void gang_add_members(struct decider *e, const struct want *w, struct buckets *b,
                             struct racks *racks)
{
    const struct set_memory *memory = set_recall(e, w->demand->kind->set);

    if (w->cluster) gang_add_bags(e, w, memory, b, &w->cluster->configured);
    if (w->cluster) gang_add_bags(e, w, memory, b, &w->cluster->configuring);
    gang_add_creating(e, w, b);
    if (!racks) return;
    for (uint32_t i = 0; i < racks->kept_count; i++) {
        const struct supply_source *s = racks->kept[i];
        bool own = want_has_key(w, s->cohort->traits.promise->key); /* kept for the gang */
        if (!source_open(e, w, s->cohort)) continue;
        if (!set_matches(e, memory, s->cohort->traits.look->slot)) continue;
        bucket_add(e, w, b, s, own ? MEMBER_OWN : MEMBER_ACQUIRABLE);
    }
    gang_subtract_refused(e, w, memory, b);
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t number = racks_find(racks, b->at[i].value);
        if (number == RACK_NONE) continue;
        b->at[i].count += racks->at[number].count;
        for (uint32_t k = 0; k < racks->dimensions; k++) {
            b->at[i].total[k] += racks_total(racks, number)[k];
        }
    }
}

struct elsewhere { /* the domains without a bucket */
    const struct decider *engine;
    const struct buckets *buckets;
};

static bool gang_is_elsewhere(const void *context, const struct rack *rack)
{
    const struct elsewhere *all = context;
    uint32_t known = all->engine->bucket_of[rack->value->slot];

    return known >= all->buckets->count || all->buckets->at[known].value != rack->value;
}

static struct bucket gang_class_bucket(const struct decider *e, const struct buckets *b,
                                       const struct rack_class *c)
{
    struct bucket bucket = {.count = c->machines}; /* the gang has no machine there to credit */

    bucket.satisfiable = gang_covers(b, c->total);
    bucket.total_score = gang_score(e, b, c->total, !bucket.satisfiable);
    return bucket;
}

/* Sets *room to the best domain without a bucket. False: no such domain is better than `best`. */
static bool gang_best_class(struct decider *e, const struct buckets *b, struct racks *racks,
                            const struct bucket *best, struct bucket *room)
{
    struct elsewhere elsewhere = {e, b};
    bool better = false;

    for (uint32_t i = 0; i < racks->class_count; i++) {
        struct bucket bucket;
        uint32_t rack;
        if (!racks->classes[i].count) continue; /* all racks are now in other classes */
        bucket = gang_class_bucket(e, b, &racks->classes[i]);
        if (best && !bucket_ranks(&bucket, best)) continue;
        if (!racks_smallest(e, racks, i, gang_is_elsewhere, &elsewhere, &rack, 1)) continue;
        bucket.value = racks->at[rack].value;
        if (best && !bucket_beats(&bucket, best)) continue;
        *room = bucket;
        best = room;
        better = true;
    }
    return better;
}

static uint32_t gang_per_mille(const struct buckets *b, const int128 *have)
{
    int128 least = 1000;

    for (uint32_t i = 0; i < resource_bits(b->mask); i++) {
        int128 want = b->aggregate[i];
        int128 part = (have[i] < want ? have[i] : want) * 1000 / want;
        if (part < least) least = part;
    }
    return (uint32_t)least;
}

static void gang_name_domain(struct shortage *s, const struct posting *value, uint32_t permille)
{
    struct domain_coverage this = {posting_value(value), permille};
    uint32_t at = s->domain_count;

    while (at > 0 && (this.per_mille > s->domains[at - 1].per_mille ||
                      (this.per_mille == s->domains[at - 1].per_mille &&
                       str_compare(this.value, s->domains[at - 1].value) < 0))) {
        if (at < VERDICT_DOMAINS_MOST) s->domains[at] = s->domains[at - 1];
        at--;
    }
    if (at < VERDICT_DOMAINS_MOST) s->domains[at] = this;
    if (s->domain_count < VERDICT_DOMAINS_MOST) s->domain_count++;
}

/* Lists the best domains. Call before the gang claims machines. */
static void gang_name_domains(struct decider *e, struct shortage *s, const struct buckets *b,
                              struct racks *racks)
{
    struct elsewhere elsewhere = {e, b};

    for (uint32_t i = 0; i < b->count; i++) {
        if (b->at[i].count == 0) continue;
        gang_name_domain(s, b->at[i].value, gang_per_mille(b, b->at[i].total));
    }
    for (uint32_t i = 0; racks && i < racks->class_count; i++) {
        uint32_t permille = gang_per_mille(b, racks->classes[i].total), count;
        uint32_t found[VERDICT_DOMAINS_MOST];
        if (s->domain_count == VERDICT_DOMAINS_MOST &&
            permille < s->domains[VERDICT_DOMAINS_MOST - 1].per_mille) {
            continue;
        }
        count =
            racks_smallest(e, racks, i, gang_is_elsewhere, &elsewhere, found, VERDICT_DOMAINS_MOST);
        for (uint32_t k = 0; k < count; k++)
            gang_name_domain(s, racks->at[found[k]].value, permille);
    }
}

/* Acquires Idle machines first, then Speculative machines. */
static void gang_acquire(struct decider *e, struct want *w, const struct racks *racks)
{
    uint32_t number = racks_find(racks, w->domain);
    const struct set_memory *memory = set_recall(e, w->demand->kind->set);

    for (int kind = POOL_OF_IDLE; kind <= POOL_OF_SPECULATIVE && w->live; kind++) {
        uint32_t state = kind == POOL_OF_IDLE ? MACHINE_IDLE : MACHINE_SPECULATIVE;
        struct supply_pool *pool = own_pool_begin(e);
        for (uint32_t i = number == RACK_NONE ? RACK_NONE : racks->at[number].member;
             i != RACK_NONE; i = racks->members[i].next) {
            const struct cohort *c =
                slot_map_get(&e->inventory->cohort_slots, racks->members[i].cohort);
            if (c->traits.state != state) continue;
            if (!set_matches(e, memory, c->traits.look->slot)) continue;
            pool_add_in_order(e, pool, (enum pool_kind)kind, w, source_of(e, c));
        }
        for (uint32_t i = 0; i < racks->kept_count; i++) {
            const struct traits *t = &racks->kept[i]->cohort->traits;
            if (t->state != state || !set_matches(e, memory, t->look->slot)) continue;
            pool_add_in_order(e, pool, (enum pool_kind)kind, w, racks->kept[i]);
        }
        pool_sort(pool, 0);
        pool_take_all(e, w, pool, want_claim);
    }
}

/* Sets w->secure if the cluster's own machines decide the choice of domain. Domains with equal
 * scores go to w->ties, because acquirable machines decide between them. */
static void gang_find_secure(struct decider *e, struct want *w, const struct buckets *b,
                             const struct bucket *best, const struct racks *racks)
{
    uint32_t count = 0;

    if (!racks || e->inventory->nobodys.count || !gang_covers(b, best->credit)) return;
    if (replay_may_be_kept_for(e, w)) return;
    w->ties = decider_alloc(e, b->count, sizeof *w->ties);
    if (!w->ties) return;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct bucket *bucket = &b->at[i];
        if (!bucket->count || bucket->credit_score != best->credit_score) continue;
        if (bucket->own_score == best->own_score) w->ties[count++] = bucket->value->slot;
    }
    w->secure = true;
    w->tie_count = count > 1 ? count : 0; /* `best` itself is counted */
}

void gang_assign(struct decider *e, struct want *w)
{
    struct buckets *b = e->buckets ? e->buckets : decider_alloc(e, 1, sizeof *b);
    const struct bucket *best = NULL;
    struct racks *racks = w->parked ? NULL : racks_of(e, w);
    struct bucket room;
    bool better;

    if (e->err) return;
    e->buckets = b;
    buckets_start(b, w);
    gang_add_members(e, w, b, racks);
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->at[i].count == 0) continue;
        bucket_score(e, b, &b->at[i]);
        if (!best || bucket_beats(&b->at[i], best)) best = &b->at[i];
    }
    better = racks && gang_best_class(e, b, racks, best, &room);
    if (better) best = &room;
    if (!best) return;
    w->has_domain = true;
    w->domain = best->value;
    w->satisfiable = best->satisfiable;
    if (!best->satisfiable) { /* list the domains before the gang claims machines */
        w->shortage = decider_alloc(e, 1, sizeof *w->shortage);
        if (w->shortage) gang_name_domains(e, w->shortage, b, racks);
    }
    if (!better) gang_find_secure(e, w, b, best, racks);
    own_claim(e, w);
    credit(e, w);
    if (racks) gang_acquire(e, w, racks);
    assert(e->err || !w->live == best->satisfiable); /* a covered gang lacks nothing */
}
