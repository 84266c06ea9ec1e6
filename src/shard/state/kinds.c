/* SPDX-License-Identifier: Apache-2.0 */
/* Finds kinds by fingerprint, and requirement sets by the requirements in a fingerprint. Both texts
 * are stored behind their structs. */
#include "shard/state/kinds.h"

#include <stdalign.h>
#include <string.h>

#include "base/memory.h"
#include "shard/state/shared.h"

/* Divides a memory block into pieces. `at` NULL: only computes the block's size. */
struct cutter {
    char *at;
    size_t used;
};

static void *cut(struct cutter *c, size_t size, size_t align)
{
    size_t from = (c->used + align - 1) / align * align;

    c->used = from + size;
    return c->at ? c->at + from : NULL;
}

static struct str cut_text(struct cutter *c, struct str text)
{
    char *copy = cut(c, text.len, 1);

    if (copy && text.len) memcpy(copy, text.at, text.len);
    return copy ? str_of(copy, text.len) : text;
}

/* --- sets --- */

static struct requirement *requirements_lay_out(struct cutter *c, const struct requirement *from,
                                                size_t count)
{
    struct requirement *list = cut(c, count * sizeof *list, alignof(struct requirement));

    for (size_t i = 0; i < count; i++, from++) {
        struct str *values = cut(c, from->value_count * sizeof *values, alignof(struct str));
        struct str key = cut_text(c, from->key);
        for (size_t k = 0; k < from->value_count; k++) {
            struct str value = cut_text(c, from->values[k]);
            if (values) values[k] = value;
        }
        if (list) list[i] = (struct requirement){key, from->op, values, from->value_count};
    }
    return list;
}

static enum err set_born(void *owner, void *object)
{
    struct needs *needs = owner;
    struct requirement_set *set = object;
    struct cutter c = {0};

    set->birth = ++needs->births;
    (void)requirements_lay_out(&c, set->requirements, set->count);
    set->size = c.used;
    if (!c.used) return ERR_OK;
    c = (struct cutter){memory_take(&needs->bytes, c.used), 0};
    if (!c.at) return ERR_NOMEM;
    set->requirements = requirements_lay_out(&c, set->requirements, set->count);
    return ERR_OK;
}

static void set_gone(void *owner, void *object)
{
    struct needs *needs = owner;
    const struct requirement_set *set = object;

    if (set->size) memory_give(&needs->bytes, (void *)set->requirements, set->size);
}

static const struct shared_kind set_kind = {
    SHARED_TEXT(requirement_set, len, text), SHARED_TABLE(needs, sets, requirement_set),
    SHARED_SLOTS(needs, set_slots, requirement_set), .born = set_born, .gone = set_gone};

/* Returns the part of a fingerprint with the requirements. A '|' separates the parts. */
static struct str set_text(struct str fingerprint)
{
    struct str rest = fingerprint, part = STR_EMPTY;

    while (str_split(&rest, '|', &part))
        if (str_starts(part, STR("reqs="))) return part;
    return fingerprint;
}

static enum err set_take(struct needs *needs, const struct profile *p,
                         struct requirement_set **ret_set)
{
    struct requirement_set like = {.requirements = p->requirements, .count = p->requirement_count};

    return shared_take(ERR_OK, needs, &set_kind, &like, set_text(p->fingerprint), ret_set);
}

/* --- kinds --- */

static struct spread *spreads_lay_out(struct cutter *c, const struct profile *p)
{
    struct spread *list = cut(c, p->spread_count * sizeof *list, alignof(struct spread));

    for (size_t i = 0; i < p->spread_count; i++) {
        struct str key = cut_text(c, p->spreads[i].key);
        if (!list) continue;
        list[i] = p->spreads[i];
        list[i].key = key;
    }
    return list;
}

static enum err spreads_copy(struct needs *needs, struct kind *kind)
{
    struct cutter c = {0};

    (void)spreads_lay_out(&c, &kind->profile);
    if (!c.used) return ERR_OK;
    c = (struct cutter){memory_take(&needs->bytes, c.used), 0};
    if (!c.at) return ERR_NOMEM;
    kind->profile.spreads = spreads_lay_out(&c, &kind->profile);
    kind->size = c.used;
    return ERR_OK;
}

static enum err kind_strip(struct needs *needs, struct kind *kind)
{
    struct profile stripped;
    struct arena arena;
    enum err err;

    arena_init(&arena, SIZE_MAX);
    err = profile_without_same(&arena, &kind->profile, &stripped);
    if (!err) err = kind_take(needs, &stripped, &kind->stripped);
    arena_deinit(&arena);
    return err;
}

static void kind_gone(void *owner, void *object)
{
    struct needs *needs = owner;
    struct kind *kind = object;

    shared_give(needs, &kind_kind, kind->stripped);
    shared_give(needs, &set_kind, kind->set);
    if (kind->size) memory_give(&needs->bytes, (void *)kind->profile.spreads, kind->size);
}

static enum err kind_born(void *owner, void *object)
{
    struct needs *needs = owner;
    struct kind *kind = object;
    enum err err;

    kind->profile.fingerprint = str_of(kind->text, kind->len);
    err = set_take(needs, &kind->profile, &kind->set);
    if (!err) err = spreads_copy(needs, kind);
    if (!err) {
        kind->profile.requirements = kind->set->requirements;
        kind->same = profile_same(&kind->profile);
        kind->spread = kind->same ? NULL : profile_strict_spread(&kind->profile);
        kind->birth = ++needs->births;
        if (kind->same) err = kind_strip(needs, kind);
    }
    if (err) kind_gone(needs, kind);
    return err;
}

const struct shared_kind kind_kind = {
    SHARED_TEXT(kind, len, text), SHARED_TABLE(needs, kinds, kind),
    SHARED_SLOTS(needs, kind_slots, kind), .born = kind_born, .gone = kind_gone};

enum err kind_take(struct needs *needs, const struct profile *profile, struct kind **ret_kind)
{
    struct kind like = {.profile = *profile};

    return shared_take(ERR_OK, needs, &kind_kind, &like, profile->fingerprint, ret_kind);
}

const struct kind *kind_find(const struct needs *needs, struct str fingerprint)
{
    return shared_find(needs, &kind_kind, NULL, fingerprint);
}

/* --- held for running actions --- */

enum err kind_hold(struct needs *needs, const struct profile *profile, struct kind **ret_kind)
{
    enum err err = kind_take(needs, profile, ret_kind);

    if (!err) needs->held++;
    return err;
}

void kind_release(struct needs *needs, struct kind *kind)
{
    if (!kind) return;
    assert(needs->held > 0);
    needs->held--;
    shared_give(needs, &kind_kind, kind);
}

/* --- units --- */

static enum err unit_born(void *, void *object)
{
    struct demand_unit *unit = object;

    unit->amounts.milli = unit->milli;
    return ERR_OK;
}

const struct shared_kind unit_kind = {SHARED_KEY(demand_unit, amounts.mask, amounts.formats),
                                      SHARED_TEXT(demand_unit, len, milli),
                                      SHARED_TABLE(needs, units, demand_unit), .born = unit_born};

enum err unit_take(struct needs *needs, const struct resource_sum *sum,
                   struct demand_unit **ret_unit)
{
    int128 milli[DIMENSIONS_MAX];
    struct resource_sum positive;
    struct demand_unit like = {0};
    enum err err;

    amounts_pack(sum, milli, &like.amounts);
    amounts_sum(&like.amounts, &positive);
    err = resource_sum_narrow(&positive, &like.resources);
    return shared_take(err, needs, &unit_kind, &like,
                       str_of(milli, resource_bits(like.amounts.mask) * sizeof *milli), ret_unit);
}
