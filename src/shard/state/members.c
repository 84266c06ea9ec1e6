/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a cohort in id order: a single pointer, an array for a few, or a tree for many. */
#include <string.h>

#include "base/memory.h"
#include "shard/state/cohorts.h"

enum { FEW_MOST = 32, MANY_LEAST = 16 }; /* two limits, so that cohorts rarely change their form */
static_assert(FEW_MOST <= UINT8_MAX, "cohort keeps the room of its array in a byte");

struct order_key row_order_key(const void *row)
{
    return (struct order_key){row_id(row), STR_EMPTY};
}

/* --- a few --- */

static uint32_t few_room(uint32_t count)
{
    return (count + 1) / 2 * 2; /* malloc returns room for pairs of pointers */
}

static enum err few_resize(struct inventory *inv, struct cohort *c, uint32_t cap)
{
    struct machine_row **few = memory_take(&inv->bytes, cap * sizeof(struct machine_row *));

    if (!few) return ERR_NOMEM;
    memcpy(few, c->members.few, c->count * sizeof(struct machine_row *));
    memory_give(&inv->bytes, c->members.few, c->few_cap * sizeof(struct machine_row *));
    c->members.few = few;
    c->few_cap = (uint8_t)cap;
    return ERR_OK;
}

/* Returns the index of the id, or where it would be inserted. */
static uint32_t few_place(const struct cohort *c, struct str id)
{
    uint32_t low = 0, high = c->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (str_compare(row_id(c->members.few[middle]), id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void few_put(struct cohort *c, struct machine_row *row)
{
    uint32_t at = few_place(c, row_id(row));

    memmove(c->members.few + at + 1, c->members.few + at,
            (c->count - at) * sizeof(struct machine_row *));
    c->members.few[at] = row;
}

static enum err few_begin(struct inventory *inv, struct cohort *c, struct machine_row *row)
{
    struct machine_row **few = memory_take(&inv->bytes, 2 * sizeof(struct machine_row *));

    if (!few) return ERR_NOMEM;
    few[0] = c->members.one;
    c->members.few = few;
    c->few_cap = 2;
    c->members_form = MEMBERS_FEW;
    few_put(c, row);
    return ERR_OK;
}

/* --- many --- */

static void many_free(struct inventory *inv, struct order *many)
{
    order_clear(many);
    memory_give(&inv->bytes, many, sizeof *many);
}

static enum err many_begin(struct inventory *inv, struct cohort *c, struct machine_row *row)
{
    struct order *many = memory_take(&inv->bytes, sizeof *many);
    enum err err = ERR_OK;

    if (!many) return ERR_NOMEM;
    *many = (struct order){.kind = &inv->members_kind};
    for (uint32_t i = 0; !err && i < c->count; i++) err = order_insert(many, c->members.few[i]);
    if (!err) err = order_insert(many, row);
    if (err) {
        many_free(inv, many);
        return err;
    }
    memory_give(&inv->bytes, c->members.few, c->few_cap * sizeof(struct machine_row *));
    c->members.many = many;
    c->members_form = MEMBERS_MANY;
    return ERR_OK;
}

/* Converts a tree back into an array. If memory runs out, the tree stays. */
static void many_end(struct inventory *inv, struct cohort *c)
{
    uint32_t cap = few_room(c->count), count = 0;
    struct machine_row **few = memory_take(&inv->bytes, cap * sizeof(struct machine_row *));
    struct order_place place = order_begin(c->members.many);
    struct machine_row *row;

    if (!few) return;
    while ((row = order_next(&place))) few[count++] = row;
    many_free(inv, c->members.many);
    c->members.few = few;
    c->few_cap = (uint8_t)cap;
    c->members_form = MEMBERS_FEW;
}

/* --- all forms --- */

/* True if a decision may count the machines for a Need: they belong to a cluster or were bought for
 * a Need. */
static bool is_creditable(const struct cohort *cohort)
{
    const struct traits *t = &cohort->traits;

    if (cohort->own != SLOT_NONE) return true;
    if (traits_hidden(t)) return false;
    return t->cluster && (t->state == MACHINE_CONFIGURED || t->state == MACHINE_CONFIGURING);
}

struct cohort_change cohort_change_of(const struct inventory *inv, const struct cohort *cohort)
{
    const struct key *own = cohort_key(inv, cohort);
    struct keep_rank rank = cohort_keep_rank(cohort);
    uint32_t slot = inv->look_briefs[cohort->traits.look->slot].type;
    const struct posting *type =
        slot == SLOT_NONE ? NULL : slot_map_held(&inv->posting_slots, slot);

    assert(cohort->traits.cluster); /* the machine is bound to the cluster or was bought for it */
    return (struct cohort_change){
        .key = own ? own->slot : SLOT_NONE,
        .family = own ? own->family->slot : SLOT_NONE,
        .cohort = cohort->slot,
        .birth = (uint32_t)cohort->birth,
        .cluster = cohort->traits.cluster->slot,
        .keep_second = (float)rank.second,
        .keep_first = rank.first,
        .type = type ? type_bit(posting_value(type)) : (uint8_t)TYPE_BIT_ANY,
        .state = cohort->traits.state,
    };
}

static void count_changed(struct inventory *inv, const struct cohort *cohort, int8_t by)
{
    uint32_t machines = by > 0 ? 1 : UINT32_MAX; /* adding UINT32_MAX subtracts one */
    struct cohort_cluster *bound = traits_bound(&cohort->traits);
    struct key *own = cohort_key(inv, cohort);

    if (bound)
        bound->machines[traits_hidden(&cohort->traits) ? MACHINE_UNSPECIFIED
                                                       : cohort->traits.state] += machines;
    if (own) {
        own->version++;
        own->family->version++;
    }
    if (is_creditable(cohort)) {
        struct cohort_change *change = &inv->changed[inv->changes++ % CHANGES_KEPT];
        *change = cohort_change_of(inv, cohort);
        change->by = by;
    }
    if (cohort->traits.state == MACHINE_IDLE && cohort->traits.promise) {
        key_changed(inv, cohort->traits.promise->key);
    }
}

enum err cohort_add(struct inventory *inv, struct cohort *cohort, struct machine_row *row)
{
    enum err err = ERR_OK;

    if (cohort->members_form == MEMBERS_MANY) {
        err = order_insert(cohort->members.many, row);
    } else if (cohort->members_form == MEMBERS_FEW && cohort->count == FEW_MOST) {
        err = many_begin(inv, cohort, row);
    } else if (cohort->members_form == MEMBERS_FEW) {
        if (cohort->count == cohort->few_cap)
            err = few_resize(inv, cohort, few_room(cohort->count + 1));
        if (!err) few_put(cohort, row);
    } else if (cohort->count) {
        err = few_begin(inv, cohort, row);
    } else {
        cohort->members.one = row;
    }
    if (err) return err;
    cohort->count++;
    count_changed(inv, cohort, 1);
    return ERR_OK;
}

static void few_remove(struct inventory *inv, struct cohort *c, const struct machine_row *row)
{
    uint32_t at = few_place(c, row_id(row));
    struct machine_row *last;

    assert(at < c->count && c->members.few[at] == row);
    memmove(c->members.few + at, c->members.few + at + 1,
            (c->count - at - 1) * sizeof(struct machine_row *));
    if (--c->count > 1) {
        if (few_room(c->count) + 2 < c->few_cap) (void)few_resize(inv, c, few_room(c->count));
        return;
    }
    last = c->members.few[0];
    memory_give(&inv->bytes, c->members.few, c->few_cap * sizeof(struct machine_row *));
    c->members.one = last;
    c->members_form = MEMBERS_ONE;
}

void cohort_remove(struct inventory *inv, struct cohort *cohort, struct machine_row *row)
{
    if (cohort->members_form == MEMBERS_MANY) {
        order_remove(cohort->members.many, row);
        cohort->count--;
        if (cohort->count < MANY_LEAST) many_end(inv, cohort);
    } else if (cohort->members_form == MEMBERS_FEW) {
        few_remove(inv, cohort, row);
    } else {
        assert(cohort->members.one == row);
        cohort->members.one = NULL;
        cohort->count--;
    }
    count_changed(inv, cohort, -1);
}

void cohort_replace(struct cohort *cohort, struct machine_row *old, struct machine_row *row)
{
    if (cohort->members_form == MEMBERS_MANY)
        order_replace(cohort->members.many, old, row);
    else if (cohort->members_form == MEMBERS_FEW)
        cohort->members.few[few_place(cohort, row_id(old))] = row;
    else
        cohort->members.one = row;
}

struct member_place cohort_begin(const struct cohort *c)
{
    struct member_place place = {0};

    if (c->members_form == MEMBERS_MANY) {
        place.many = order_begin(c->members.many);
    } else {
        place.few = c->members_form == MEMBERS_FEW ? c->members.few : &c->members.one;
        place.few_left = c->count;
    }
    return place;
}

struct machine_row *cohort_next(struct member_place *place)
{
    if (place->few_left) {
        place->few_left--;
        return *place->few++;
    }
    return place->many.leaf ? order_next(&place->many) : NULL;
}
