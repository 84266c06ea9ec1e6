/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which looks a requirement set accepts. Texts are looked up once per set, and again only
 * after a look appeared or disappeared. */
#include "shard/decide/decider.h"

/* Finds the instance types that the set names. False: `r` is not about types, or names too many. */
static bool types_recall(const struct decider *e, const struct requirement *r, struct set_memory *m)
{
    if (m->type_count != TYPES_ANY || r->op != OPERATOR_IN ||
        r->value_count > ARRAY_LEN(m->types) || !str_equal(r->key, LABEL_INSTANCE_TYPE)) {
        return false;
    }
    m->type_count = 0;
    m->type_bits = 0;
    for (size_t k = 0; k < r->value_count; k++) {
        const struct posting *p = inventory_posting(e->inventory, r->key, r->values[k]);
        if (p && !set_names_type(m, p->slot)) m->types[m->type_count++] = p->slot;
        m->type_bits |= type_bits(type_bit(r->values[k]));
    }
    return true;
}

static enum match_ask ask_of(const struct requirement *r)
{
    switch (r->op) {
    case OPERATOR_NOT_IN: return ASK_NONE_OF;
    case OPERATOR_EXISTS: return ASK_KEY;
    case OPERATOR_DOES_NOT_EXIST: return ASK_NO_KEY;
    case OPERATOR_SAME: return r->value_count ? ASK_ONE_OF : ASK_KEY;
    /* An unknown operator has no values, so nothing matches. */
    default: return ASK_ONE_OF;
    }
}

static bool term_recall(struct decider *e, const struct requirement *r, struct set_memory *m)
{
    bool known = r->op > OPERATOR_UNSPECIFIED && r->op < OPERATOR_COUNT;
    struct match_term term = {.from = m->value_count, .ask = ask_of(r)};

    if (term.ask == ASK_KEY || term.ask == ASK_NO_KEY) term.marks = UINT64_MAX; /* any value */
    if (!kept_room(e, &m->terms, m->term_count + 1, &m->term_cap, sizeof *m->terms)) return false;
    term.key = inventory_word(e->inventory, r->key);
    for (size_t i = 0; term.key && known && i < r->value_count; i++) {
        const struct posting *p = inventory_posting(e->inventory, r->key, r->values[i]);
        if (!p) continue;
        if (!kept_room(e, &m->values, m->value_count + 1, &m->value_cap,
                       sizeof(struct posting *))) {
            return false;
        }
        m->values[m->value_count++] = p;
        term.marks |= posting_mark(p);
    }
    term.count = m->value_count - term.from;
    m->terms[m->term_count++] = term;
    return true;
}

struct set_memory *set_recall(struct decider *e, const struct requirement_set *set)
{
    struct set_memory *m = &e->sets[set->slot];

    if (m->birth == set->birth && m->looks_version == e->inventory->looks_version) return m;
    m->birth = 0; /* the cache is invalid until it is filled */
    m->term_count = m->value_count = 0;
    m->type_count = TYPES_ANY;
    m->type_bits = UINT64_MAX;
    for (int refusals = 0; refusals < 2; refusals++) { /* NotIn terms come last */
        for (size_t i = 0; i < set->count; i++) {
            const struct requirement *r = &set->requirements[i];
            if ((r->op == OPERATOR_NOT_IN) != refusals || types_recall(e, r, m)) continue;
            if (!term_recall(e, r, m)) return m;
        }
        if (!refusals) m->base_count = m->term_count;
    }
    m->birth = set->birth;
    m->looks_version = e->inventory->looks_version;
    return m;
}

/* --- matching one look --- */

static bool carries_one_of(const struct look *look, const struct posting *const *values,
                           uint32_t count)
{
    for (uint32_t i = 0; i < look->attribute_count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            if (look->postings[i] == values[k] && look_places(look)[i] != LOOK_HIDDEN) return true;
        }
    }
    return false;
}

static bool carries_key(const struct look *look, const struct word *key)
{
    for (uint32_t i = 0; key && i < look->attribute_count; i++) {
        if (look->postings[i] && look->postings[i]->key == key) return true;
    }
    return false;
}

static bool term_holds(const struct set_memory *m, const struct match_term *t,
                       const struct look *look)
{
    switch (t->ask) {
    case ASK_ONE_OF: return t->count && carries_one_of(look, m->values + t->from, t->count);
    case ASK_NONE_OF: return !t->count || !carries_one_of(look, m->values + t->from, t->count);
    case ASK_KEY: return carries_key(look, t->key);
    case ASK_NO_KEY: return !carries_key(look, t->key);
    }
    return false;
}

/* Not inlined, so that most matches need no registers to be saved. */
__attribute__((noinline)) static bool look_holds(const struct set_memory *m,
                                                 const struct look *look, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!term_holds(m, &m->terms[i], look)) return false;
    }
    return true;
}

static bool look_accepted(const struct decider *e, const struct set_memory *m, uint32_t slot,
                          uint32_t count)
{
    uint64_t marks = e->inventory->look_briefs[slot].marks;
    bool unsure = false;

    for (uint32_t i = 0; i < count; i++) {
        const struct match_term *t = &m->terms[i];
        if (marks & t->marks)
            unsure = true;
        else if (t->ask == ASK_ONE_OF || t->ask == ASK_KEY)
            return false; /* the look carries none of the attributes */
    }
    return !unsure || look_holds(m, slot_map_held(&e->inventory->look_slots, slot), count);
}

bool set_accepts(const struct decider *e, const struct set_memory *memory, uint32_t look)
{
    return look_accepted(e, memory, look, memory->term_count);
}

const struct bag_item *type_walk_next(struct decider *e, struct type_walk *walk)
{
    for (; walk->type < walk->types->count; walk->type++, walk->item = 0) {
        const struct type_bag *of_type = &walk->types->at[walk->type];
        if (!set_names_type(walk->memory, of_type->type)) continue;
        while (walk->item < of_type->bag.count) {
            const struct bag_item *item = &of_type->bag.at[walk->item++];
            if (item->shape != walk->shape)
                walk->covers = shape_covers(e, item->shape, walk->wanted);
            walk->shape = item->shape;
            if (walk->covers && set_accepts(e, walk->memory, item->look)) return item;
        }
    }
    return NULL;
}

uint64_t type_bags_count(struct decider *e, const struct type_bags *types,
                         const struct set_memory *memory, const struct resources *wanted,
                         uint64_t most)
{
    struct type_walk walk = {types, memory, wanted, .shape = SLOT_NONE};
    const struct bag_item *item;
    uint64_t machines = 0;

    while (machines < most && (item = type_walk_next(e, &walk))) machines += item->cohort->count;
    return min_u64(machines, most);
}

/* --- bases --- */

bool set_base_accepts(const struct decider *e, const struct set_memory *memory, uint32_t look)
{
    return set_names_type(memory, e->inventory->look_briefs[look].type) &&
           look_accepted(e, memory, look, memory->base_count);
}

const struct posting *set_refusal(const struct set_memory *m, const struct look *look)
{
    for (uint32_t i = m->base_count; i < m->term_count; i++) {
        const struct match_term *t = &m->terms[i];
        for (uint32_t k = 0; k < t->count; k++) {
            if (carries_one_of(look, &m->values[t->from + k], 1)) return m->values[t->from + k];
        }
    }
    return NULL;
}

static bool terms_equal(const struct set_memory *a, const struct match_term *left,
                        const struct set_memory *b, const struct match_term *right)
{
    if (left->ask != right->ask || left->key != right->key || left->count != right->count)
        return false;
    for (uint32_t i = 0; i < left->count; i++) {
        if (a->values[left->from + i] != b->values[right->from + i]) return false;
    }
    return true;
}

/* Both sets have their requirements and values sorted. */
bool set_base_equal(const struct set_memory *a, const struct set_memory *b)
{
    if (a->type_count != b->type_count || a->base_count != b->base_count) return false;
    for (uint32_t n = 0; a->type_count != TYPES_ANY && n < a->type_count; n++) {
        if (a->types[n] != b->types[n]) return false;
    }
    for (uint32_t i = 0; i < a->base_count; i++) {
        if (!terms_equal(a, &a->terms[i], b, &b->terms[i])) return false;
    }
    return true;
}
