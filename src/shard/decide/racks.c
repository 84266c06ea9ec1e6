/* SPDX-License-Identifier: Apache-2.0 */
/* The machines that gangs of one base and unit could acquire, by domain ("rack").
 *
 * Comparing thousands of gangs with thousands of racks would be too slow. Racks with equal numbers
 * of machines and equal amounts left form a *class*. A gang compares classes, and reads single
 * racks only where its cluster has machines.
 *
 * Amounts left only shrink during a decision, so a rack never returns to an earlier class. Machines
 * kept for a Need are listed separately, because only some gangs may take them. */
#include "shard/decide/racks.h"

#include <string.h>

#include "base/sift.h"
#include "shard/decide/price_lists.h"

static bool rack_before(const void *context, const void *a, const void *b)
{
    const struct racks *r = context;

    return str_compare(posting_value(r->at[*(const uint32_t *)a].value),
                       posting_value(r->at[*(const uint32_t *)b].value)) < 0;
}

/* --- heaps of rack numbers, the smallest value on top --- */

static void rack_class_push(struct decider *e, const struct racks *r, struct rack_class *c,
                            uint32_t rack)
{
    if (!decider_grow(e, &c->heap, c->count, &c->cap, sizeof *c->heap)) return;
    c->heap[c->count] = rack;
    sift_up(c->heap, sizeof rack, c->count++, rack_before, r);
}

static uint32_t rack_class_pop(const struct racks *r, struct rack_class *c)
{
    uint32_t top = c->heap[0];

    c->heap[0] = c->heap[--c->count];
    if (c->count) sift_down(c->heap, sizeof top, c->count, 0, rack_before, r);
    return top;
}

uint32_t racks_smallest(struct decider *e, struct racks *r, uint32_t class_number,
                        rack_filter *filter, const void *context, uint32_t *found, uint32_t most)
{
    struct rack_class *c = &r->classes[class_number];
    uint32_t count = 0, aside = 0, *kept = NULL, kept_cap = 0;

    while (c->count > 0 && count < most) {
        uint32_t rack = rack_class_pop(r, c);
        if (r->at[rack].class_number != class_number) continue; /* moved to another class */
        if (!decider_grow(e, &kept, aside, &kept_cap, sizeof *kept)) break;
        kept[aside++] = rack;
        if (filter(context, &r->at[rack])) found[count++] = rack;
    }
    for (uint32_t i = 0; i < aside; i++) rack_class_push(e, r, c, kept[i]);
    return count;
}

/* --- classes --- */

static uint32_t rack_class_hash(const struct racks *r, const struct rack *rack, const int128 *total)
{
    uint64_t hash = rack->count;

    for (uint32_t i = 0; i < r->dimensions; i++) {
        hash = (hash ^ (uint64_t)total[i]) * 0x9E3779B97F4A7C15;
    }
    return (uint32_t)(hash >> 32);
}

/* Moves the rack to the class of its present amounts. */
static void rack_classify(struct decider *e, struct racks *r, uint32_t number)
{
    struct rack *rack = &r->at[number];
    const int128 *total = racks_total(r, number);
    uint32_t hash = rack_class_hash(r, rack, total);
    uint32_t *slot = &r->class_of[hash & (RACK_CLASS_SLOTS - 1)];
    uint32_t found = *slot;

    rack->class_number = CLASS_NONE;
    if (!rack->count) return;
    while (found != CLASS_NONE &&
           (r->classes[found].machines != rack->count ||
            memcmp(r->classes[found].total, total, r->dimensions * sizeof *total) != 0)) {
        found = r->classes[found].next;
    }
    if (found == CLASS_NONE) {
        int128 *copy = decider_alloc(e, r->dimensions, sizeof *copy);
        decider_grow(e, &r->classes, r->class_count, &r->class_cap, sizeof *r->classes);
        if (e->err) return;
        memcpy(copy, total, r->dimensions * sizeof *copy);
        found = r->class_count++;
        r->classes[found] =
            (struct rack_class){.total = copy, .machines = rack->count, .next = *slot};
        *slot = found;
    }
    rack->class_number = found;
    rack_class_push(e, r, &r->classes[found], number);
}

/* --- racks by value --- */

static uint32_t *racks_slot(const struct racks *r, const struct posting *value)
{
    for (uint32_t at = value->slot * 2654435761u;; at++) {
        uint32_t *number = &r->by_value[at & r->by_value_mask];
        if (*number == RACK_NONE || r->at[*number].value == value) return number;
    }
}

uint32_t racks_find(const struct racks *r, const struct posting *value)
{
    return *racks_slot(r, value);
}

void rack_amounts_add(uint64_t mask, int128 *sums, const struct machine_shape *shape,
                      int64_t machines)
{
    for (uint64_t left = mask; left; left &= left - 1) {
        *sums++ += (int128)resources_get(shape->alloc, (uint32_t)__builtin_ctzll(left)) * machines;
    }
}

static void rack_count(struct racks *r, uint32_t number, const struct machine_shape *shape,
                       int64_t machines)
{
    r->at[number].count = (uint32_t)(r->at[number].count + machines);
    rack_amounts_add(r->mask, racks_total(r, number), shape, machines);
}

/* --- building --- */

/* Reads only the price list, because fetching every machine would be too slow. */
static void rack_members_of_list(struct decider *e, struct racks *r, struct price_list *list)
{
    const struct posting *const *values = price_values(e, list, r->key);
    uint32_t most = r->member_count + list->count;

    if (!values || !decider_grow(e, &r->members, most, &r->member_cap, sizeof *r->members)) return;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct price_item *item = &list->items[i];
        if (!values[i] || !set_base_accepts(e, r->memory, item->look)) continue;
        uint32_t left = price_item_left(e, item);
        if (left && !item->kept) {
            r->members[r->member_count++] =
                (struct rack_member){values[i], item->cohort, list->shape, left, RACK_NONE};
        } else if (left && decider_grow(e, &r->kept, r->kept_count, &r->kept_cap,
                                        sizeof(struct supply_source *))) {
            r->kept[r->kept_count++] =
                source_of(e, slot_map_held(&e->inventory->cohort_slots, item->cohort));
        }
    }
}

static void rack_members_add(struct decider *e, struct racks *r, enum pool_state state)
{
    struct price_walk walk = price_walk_begin(e, state, r->memory, r->unit);
    struct price_list *list;

    while ((list = price_walk_next(e, &walk))) rack_members_of_list(e, r, list);
}

static void racks_fill(struct decider *e, struct racks *r)
{
    uint32_t size = 16, cap = 0;

    while (size < 2 * r->member_count) size *= 2;
    r->by_value = decider_room(e, size, sizeof *r->by_value);
    if (!r->by_value) return;
    memset(r->by_value, 0xff, size * sizeof *r->by_value);
    r->by_value_mask = size - 1;
    for (uint32_t i = 0; i < r->member_count; i++) {
        struct rack_member *m = &r->members[i];
        uint32_t *slot = racks_slot(r, m->value);
        if (*slot == RACK_NONE) {
            if (!decider_grow(e, &r->at, r->count, &cap, sizeof *r->at)) return;
            *slot = r->count++;
            r->at[*slot] = (struct rack){.value = m->value, .member = RACK_NONE};
        }
        m->next = r->at[*slot].member;
        r->at[*slot].member = i;
    }
    r->totals = decider_alloc(e, (size_t)r->count * r->dimensions, sizeof *r->totals);
    if (!r->totals) return;
    for (uint32_t i = 0; i < r->count; i++) {
        for (uint32_t k = r->at[i].member; k != RACK_NONE; k = r->members[k].next) {
            const struct rack_member *m = &r->members[k];
            rack_count(r, i, slot_map_get(&e->inventory->shape_slots, m->shape), m->left);
        }
        rack_classify(e, r, i);
    }
}

/* Updates the racks with the machines taken since the last call. */
static void racks_read_log(struct decider *e, struct racks *r)
{
    for (; r->log_read < e->acquired_count; r->log_read++) {
        const struct log_entry *entry = &e->log.at[e->acquired[r->log_read]];
        const struct traits *t = &entry->source->cohort->traits;
        const struct posting *value;
        uint32_t number;
        if (!set_base_accepts(e, r->memory, t->look->slot) ||
            !resources_covers(t->shape->alloc, r->unit) || cohort_kept(e, entry->source->cohort)) {
            continue;
        }
        value = look_find(t->look, r->key);
        number = value ? racks_find(r, value) : RACK_NONE;
        if (number == RACK_NONE) continue;
        rack_count(r, number, t->shape, -(int64_t)entry->count);
        rack_classify(e, r, number);
    }
}

/* --- finding --- */

static bool racks_serve(const struct racks *r, const struct want *w,
                        const struct set_memory *memory)
{
    if (r->mask != w->demand->aggregate.mask) return false;
    if (!str_equal(r->key, w->demand->kind->same->key)) return false;
    if (!resources_equal(r->unit, w->demand->unit)) return false;
    return set_base_equal(r->memory, memory);
}

struct racks *racks_of(struct decider *e, const struct want *w)
{
    struct set_memory *memory = set_recall(e, w->demand->kind->set);
    struct racks *r;

    for (r = e->racks; r; r = r->next) {
        if (!racks_serve(r, w, memory)) continue;
        racks_read_log(e, r);
        return r;
    }
    r = decider_alloc(e, 1, sizeof *r);
    if (!r) return NULL;
    *r = (struct racks){.next = e->racks,
                        .memory = memory,
                        .unit = w->demand->unit,
                        .mask = w->demand->aggregate.mask,
                        .key = w->demand->kind->same->key,
                        .dimensions = resource_bits(w->demand->aggregate.mask),
                        .log_read = e->acquired_count};
    memset(r->class_of, 0xff, sizeof r->class_of);
    rack_members_add(e, r, POOL_IDLE);
    rack_members_add(e, r, POOL_SPECULATIVE);
    racks_fill(e, r);
    if (e->err) return NULL;
    e->racks = r;
    return r;
}
