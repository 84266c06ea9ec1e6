/* SPDX-License-Identifier: Apache-2.0 */
/* What gangs of one base and unit could acquire, by domain ("rack").
 *
 * A fleet has thousands of racks and of gangs; asking every gang about every rack is their
 * product. But racks differ in little: those with the same number of machines and the same amounts
 * left are one *class* to any gang, and the smallest value in it stands for all. So a gang looks
 * at classes, and one by one only at racks where its cluster has machines.
 *
 * What is taken, by whomever, is read from the log when a gang looks next. What is left only
 * shrinks, so a rack never comes back into a class it left: old entries in a class's heap are told
 * by the class the rack is in now. Machines that are kept for somebody stand apart: they count for
 * some and not for others.
 *
 * Where every machine has labels of its own every gang has a set of its own, but most differ only
 * in values they refuse. Those share their racks; which machines a gang refuses is found by the
 * value, and their racks are looked at one by one, without them (gang.c). */
#include "shard/decide/racks.h"

#include <string.h>

#include "shard/decide/shelves.h"

static bool rack_before(const struct racks *r, uint32_t a, uint32_t b)
{
    return str_compare(posting_value(r->at[a].value), posting_value(r->at[b].value)) < 0;
}

/* --- heaps of rack numbers, the smallest value on top --- */

static enum err class_push(struct decider *e, const struct racks *r, struct rack_class *c,
                           uint32_t rack)
{
    uint32_t at = c->count;
    enum err err = decider_grow(e, &c->heap, c->count, &c->cap, sizeof *c->heap);

    if (err) return err;
    c->count++;
    for (; at > 0 && rack_before(r, rack, c->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        c->heap[at] = c->heap[(at - 1) / 2];
    }
    c->heap[at] = rack;
    return ERR_OK;
}

static uint32_t class_pop(const struct racks *r, struct rack_class *c)
{
    uint32_t top = c->heap[0], moved = c->heap[--c->count], at = 0;

    for (uint32_t child = 1; child < c->count; child = 2 * at + 1) {
        if (child + 1 < c->count && rack_before(r, c->heap[child + 1], c->heap[child])) child++;
        if (!rack_before(r, c->heap[child], moved)) break;
        c->heap[at] = c->heap[child];
        at = child;
    }
    c->heap[at] = moved;
    return top;
}

enum err racks_smallest(struct decider *e, struct racks *r, uint32_t class_number,
                        rack_filter *filter, const void *context, uint32_t *found, uint32_t most,
                        uint32_t *ret_count)
{
    struct rack_class *c = &r->classes[class_number];
    uint32_t count = 0, aside = 0, *kept = NULL, kept_cap = 0;
    enum err err = ERR_OK;

    while (!err && c->count > 0 && count < most) {
        uint32_t rack = class_pop(r, c);
        if (r->at[rack].class_number != class_number) continue; /* it has left */
        err = decider_grow(e, &kept, aside, &kept_cap, sizeof *kept);
        if (!err) kept[aside++] = rack;
        if (!filter(context, &r->at[rack])) continue;
        found[count++] = rack;
    }
    for (uint32_t i = 0; !err && i < aside; i++) err = class_push(e, r, c, kept[i]);
    *ret_count = count;
    return err;
}

/* --- classes --- */

static uint32_t class_hash(const struct racks *r, const struct rack *rack, const int128 *total)
{
    uint64_t hash = rack->count;

    for (uint32_t i = 0; i < r->dimensions; i++) {
        hash = (hash ^ (uint64_t)total[i]) * 0x9E3779B97F4A7C15;
    }
    return (uint32_t)(hash >> 32);
}

/* Puts the rack into the class of what it has now. */
static enum err rack_classify(struct decider *e, struct racks *r, uint32_t number)
{
    struct rack *rack = &r->at[number];
    const int128 *total = racks_total(r, number);
    uint32_t hash = class_hash(r, rack, total);
    uint32_t *slot = &r->class_of[hash & (RACK_CLASS_SLOTS - 1)];
    uint32_t found = *slot;
    enum err err;

    rack->class_number = CLASS_NONE;
    if (!rack->count) return ERR_OK;
    while (found != CLASS_NONE &&
           (r->classes[found].machines != rack->count ||
            memcmp(r->classes[found].total, total, r->dimensions * sizeof *total) != 0)) {
        found = r->classes[found].next;
    }
    if (found == CLASS_NONE) {
        int128 *copy;
        err = decider_grow(e, &r->classes, r->class_count, &r->class_cap, sizeof *r->classes);
        if (err) return err;
        copy = arena_alloc(&e->arena, r->dimensions * sizeof *copy);
        if (!copy) return ERR_FULL;
        memcpy(copy, total, r->dimensions * sizeof *copy);
        found = r->class_count++;
        r->classes[found] =
            (struct rack_class){.total = copy, .machines = rack->count, .next = *slot};
        *slot = found;
    }
    rack->class_number = found;
    return class_push(e, r, &r->classes[found], number);
}

/* --- racks by value --- */

uint32_t racks_find(const struct racks *r, const struct posting *value)
{
    for (uint32_t at = value->slot * 2654435761u;; at++) {
        uint32_t number = r->by_value[at & r->by_value_mask];
        if (number == RACK_NONE || r->at[number].value == value) return number;
    }
}

static void by_value_add(struct racks *r, uint32_t number)
{
    uint32_t at = r->at[number].value->slot * 2654435761u;

    while (r->by_value[at & r->by_value_mask] != RACK_NONE) at++;
    r->by_value[at & r->by_value_mask] = number;
}

static void rack_count(struct racks *r, uint32_t number, const struct machine_shape *shape,
                       int64_t machines)
{
    int128 *total = racks_total(r, number);
    uint32_t i = 0;

    r->at[number].count = (uint32_t)(r->at[number].count + machines);
    for (uint64_t left = r->mask; left; left &= left - 1, i++) {
        total[i] += (int128)resources_get(shape->alloc, (uint32_t)__builtin_ctzll(left)) * machines;
    }
}

/* --- making --- */

/* Room for so many at once: an array that doubles leaves as much behind, for every gang. */
static enum err members_room(struct decider *e, struct racks *r, uint32_t more)
{
    uint32_t cap = r->member_count + more;
    struct rack_member *members;

    if (cap <= r->member_cap) return ERR_OK;
    members = arena_alloc(&e->arena, cap * sizeof *members);
    if (!members) return ERR_FULL;
    if (r->member_count) memcpy(members, r->members, r->member_count * sizeof *members);
    r->members = members;
    r->member_cap = cap;
    return ERR_OK;
}

static enum err member_add(struct decider *e, struct racks *r, struct rack_member member, bool kept)
{
    enum err err;

    if (!member.left) return ERR_OK;
    if (kept) {
        const struct cohort *c = rooms_held(&e->inventory->cohort_slots, member.cohort);
        err =
            decider_grow(e, &r->kept, r->kept_count, &r->kept_cap, sizeof(struct supply_source *));
        if (!err) r->kept[r->kept_count++] = source_of(e, c);
        return err;
    }
    err = decider_grow(e, &r->members, r->member_count, &r->member_cap, sizeof *r->members);
    if (!err) r->members[r->member_count++] = member;
    return err;
}

/* Fleets have racks of thousands of machines and gangs by the thousand: nothing of a machine is
 * fetched that the shelf can tell. */
static enum err members_of_shelf(struct decider *e, struct racks *r, struct supply_shelf *shelf)
{
    const struct posting *const *values;
    enum err err = shelf_values(e, shelf, r->key, &values);

    if (!err) err = members_room(e, r, shelf->count);
    for (uint32_t i = 0; !err && i < shelf->count; i++) {
        const struct shelf_item *item = &shelf->items[i];
        if (!values[i] || !set_base_accepts(e, r->memory, item->look)) continue;
        err = member_add(e, r,
                         (struct rack_member){values[i], item->cohort, shelf->shape,
                                              shelf_left(e, item), RACK_NONE},
                         item->kept);
    }
    return err;
}

/* In no order: what is acquired in a rack is put in order then. */
static enum err members_add(struct decider *e, struct racks *r, enum pool_state state)
{
    struct shelf_walk walk;
    struct supply_shelf *shelf;
    enum err err = shelf_walk_begin(e, state, r->memory, r->unit, &walk);

    while (!err && (shelf = shelf_walk_next(e, &walk))) err = members_of_shelf(e, r, shelf);
    return err;
}

/* A rack for every value; its members are chained, and count into it. */
static enum err racks_fill(struct decider *e, struct racks *r)
{
    uint32_t size = 16, cap = 0;
    enum err err = ERR_OK;

    while (size < 2 * r->member_count) size *= 2;
    r->by_value = arena_alloc(&e->arena, size * sizeof *r->by_value);
    if (!r->by_value) return ERR_FULL;
    memset(r->by_value, 0xff, size * sizeof *r->by_value);
    r->by_value_mask = size - 1;
    for (uint32_t i = 0; i < r->member_count; i++) {
        struct rack_member *m = &r->members[i];
        uint32_t number = racks_find(r, m->value);
        if (number == RACK_NONE) {
            err = decider_grow(e, &r->at, r->count, &cap, sizeof *r->at);
            if (err) return err;
            number = r->count++;
            r->at[number] = (struct rack){.value = m->value, .member = RACK_NONE};
            by_value_add(r, number);
        }
        m->next = r->at[number].member;
        r->at[number].member = i;
    }
    r->totals = decider_alloc(e, (size_t)r->count * r->dimensions, sizeof *r->totals);
    if (!r->totals) return ERR_FULL;
    for (uint32_t i = 0; !err && i < r->count; i++) {
        for (uint32_t k = r->at[i].member; k != RACK_NONE; k = r->members[k].next) {
            const struct rack_member *m = &r->members[k];
            rack_count(r, i, rooms_get(&e->inventory->shape_slots, m->shape), m->left);
        }
        err = rack_classify(e, r, i);
    }
    return err;
}

static enum err racks_make(struct decider *e, struct racks *r)
{
    enum err err = members_add(e, r, POOL_IDLE);

    memset(r->class_of, 0xff, sizeof r->class_of);
    if (!err) err = members_add(e, r, POOL_SPECULATIVE);
    if (!err) err = racks_fill(e, r);
    r->log_read = e->acquired_count;
    return err;
}

/* What was taken since. No entry that was read grows any more: only the Need at work adds to its
 * last, and it read before it took. */
static enum err racks_read_log(struct decider *e, struct racks *r)
{
    enum err err = ERR_OK;

    for (; !err && r->log_read < e->acquired_count; r->log_read++) {
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
        err = rack_classify(e, r, number);
    }
    return err;
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

enum err racks_of(struct decider *e, const struct want *w, struct racks **ret_racks)
{
    struct set_memory *memory;
    struct racks *r;
    uint32_t hash;
    enum err err = set_recall(e, w->demand->kind->set, &memory);

    if (err) return err;
    hash = set_base_hash(memory) + (uint32_t)w->demand->aggregate.mask * 7;
    TABLE_EACH(&e->racks, hash, link)
    {
        r = CONTAINER_OF(link, struct racks, link);
        if (!racks_serve(r, w, memory)) continue;
        *ret_racks = r;
        return racks_read_log(e, r);
    }
    err = table_reserve(&e->racks, &e->pools_bytes);
    if (err) return err;
    r = decider_alloc(e, 1, sizeof *r);
    if (!r) return ERR_FULL;
    r->memory = memory;
    r->unit = w->demand->unit;
    r->mask = w->demand->aggregate.mask;
    r->key = w->demand->kind->same->key;
    r->dimensions = resource_bits(r->mask);
    err = racks_make(e, r);
    if (err) return err;
    table_add(&e->racks, &r->link, hash);
    *ret_racks = r;
    return ERR_OK;
}
