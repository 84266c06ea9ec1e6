/* SPDX-License-Identifier: Apache-2.0 */
/* Cohorts: their traits, their outfits, and the bags that list them. A cohort stays in its bags
 * until its last reference is released. */
#include "shard/state/cohorts.h"

#include <string.h>

#include "base/memory.h"

/* --- traits --- */

void traits_give(struct inventory *inv, struct traits *traits)
{
    shared_give(inv, &cluster_kind, traits->cluster);
    look_give(inv, traits->look);
    shared_give(inv, &shape_kind, traits->shape);
    shared_give(inv, &stamp_kind, traits->stamp);
    shared_give(inv, &promise_kind, traits->promise);
    memset(traits, 0, sizeof *traits);
}

void traits_share(const struct traits *traits)
{
    if (traits->cluster) traits->cluster->link.refs++;
    traits->look->link.refs++;
    traits->shape->link.refs++;
    if (traits->stamp) traits->stamp->link.refs++;
    if (traits->promise) traits->promise->link.refs++;
}

enum err traits_take(struct inventory *inv, const struct machine *machine, mono_time idle_since,
                     struct traits *ret_traits)
{
    enum machine_state state = machine->state;
    struct traits t;
    enum err err;

    memset(&t, 0, sizeof t);
    t.state = (uint8_t)state;
    t.capacity_type = (uint8_t)machine->capacity_type;
    t.cordon = (uint8_t)machine->cordon;
    t.price = machine->price_per_hour == 0 ? 0 : machine->price_per_hour; /* -0 is 0 */
    t.probability = machine->interruption_probability == 0 ? 0 : machine->interruption_probability;
    /* A machine is not bound to a cluster while it is created (machine_invariant). */
    err = cluster_take(inv, state == MACHINE_CREATING ? machine->destination : machine->cluster,
                       &t.cluster);
    if (!err) err = look_take(inv, &machine->attributes, &t.look);
    if (!err) err = shape_take(inv, machine, &t.shape);
    if (!err && (machine_state_keeps_stamp(state) || state == MACHINE_CREATING)) {
        err = stamp_take(inv, &machine->stamp, &t.stamp);
    }
    if (!err && (state == MACHINE_DRAINING || state == MACHINE_IDLE)) {
        err = promise_take(inv, &machine->promised, state == MACHINE_IDLE ? idle_since.ms : 0,
                           &t.promise);
    }
    if (err) {
        traits_give(inv, &t);
        return err;
    }
    *ret_traits = t;
    return ERR_OK;
}

/* --- bags --- */

/* Returns the cluster of the Need that the machines were bought for; NULL: none. */
static struct cohort_cluster *own_cluster(const struct traits *t)
{
    if (!t->stamp || !t->stamp->fingerprint || traits_hidden(t)) return NULL;
    switch (t->state) {
    case MACHINE_CONFIGURED:
    case MACHINE_CONFIGURING:
    case MACHINE_CREATING: return t->cluster;
    default: return NULL;
    }
}

static struct type_bags *cohort_type_bags(const struct cohort *cohort)
{
    const struct traits *t = &cohort->traits;

    if (!t->cluster || traits_hidden(t)) return NULL;
    if (t->state == MACHINE_CONFIGURED) return &t->cluster->configured;
    return t->state == MACHINE_CONFIGURING ? &t->cluster->configuring : NULL;
}

static struct bag *type_bag_find(const struct inventory *inv, const struct cohort *cohort)
{
    struct type_bags *types = cohort_type_bags(cohort);

    for (uint32_t i = 0; types && i < types->count; i++) {
        if (types->at[i].type == inv->look_briefs[cohort->traits.look->slot].type) {
            return &types->at[i].bag;
        }
    }
    return NULL;
}

/* A later failure leaves an empty bag, which is harmless. */
static enum err type_bag_make(struct inventory *inv, const struct cohort *cohort)
{
    struct type_bags *types = cohort_type_bags(cohort);
    enum err err;

    if (!types || type_bag_find(inv, cohort)) return ERR_OK;
    err = array_reserve(&types->at, types->count, &types->cap, sizeof *types->at, &inv->bytes);
    if (err) return err;
    types->at[types->count++] =
        (struct type_bag){.type = inv->look_briefs[cohort->traits.look->slot].type};
    return ERR_OK;
}

struct bag *cohort_bag_of(const struct inventory *inv, const struct cohort *cohort,
                          enum cohort_bag kind)
{
    const struct traits *t = &cohort->traits;

    if (kind != BAG_CLUSTER && traits_hidden(t)) return NULL;
    switch (kind) {
    case BAG_CLUSTER:
        if (cohort_type_bags(cohort)) return type_bag_find(inv, cohort);
        return traits_bound(t) ? &t->cluster->others : NULL;
    case BAG_KEY:
        if (t->state == MACHINE_DRAINING && t->promise) return &t->promise->key->cohorts;
        if (t->state == MACHINE_DRAINING || (t->state == MACHINE_CREATING && !t->cluster)) {
            return (struct bag *)&inv->nobodys;
        }
        return cohort->own == SLOT_NONE ? NULL : &cohort_key(inv, cohort)->cohorts;
    case BAG_LOOK:
        if (t->state == MACHINE_IDLE) return &t->look->pools[POOL_IDLE];
        if (t->state == MACHINE_SPECULATIVE) return &t->look->pools[POOL_SPECULATIVE];
        return NULL;
    default: return NULL;
    }
}

uint32_t *cohort_place(struct cohort *cohort, enum cohort_bag kind)
{
    return &cohort->places[kind == BAG_CLUSTER ? PLACE_CLUSTER : PLACE_LOOK_OR_KEY];
}

static void bag_changed(struct inventory *inv, const struct cohort *cohort, struct bag *bag,
                        int kind)
{
    if (kind != BAG_CLUSTER || !cohort_type_bags(cohort)) return;
    CONTAINER_OF(bag, struct type_bag, bag)->version = ++inv->births;
}

static void bags_leave(struct inventory *inv, struct cohort *cohort, int kinds)
{
    for (int kind = 0; kind < kinds; kind++) {
        struct bag *bag = cohort_bag_of(inv, cohort, (enum cohort_bag)kind);
        uint32_t place = *cohort_place(cohort, (enum cohort_bag)kind);
        if (!bag) continue;
        assert(bag->at[place].cohort == cohort);
        bag->at[place] = bag->at[--bag->count];
        *cohort_place(bag->at[place].cohort, (enum cohort_bag)kind) = place;
        bag_changed(inv, cohort, bag, kind);
    }
}

static enum err bags_enter(struct inventory *inv, struct cohort *cohort)
{
    enum err made = type_bag_make(inv, cohort);

    if (made) return made;
    for (int kind = 0; kind < BAG_COUNT; kind++) {
        struct bag *bag = cohort_bag_of(inv, cohort, (enum cohort_bag)kind);
        enum err err;
        if (!bag) continue;
        err = array_reserve(&bag->at, bag->count, &bag->cap, sizeof *bag->at, &inv->bytes);
        if (err) {
            bags_leave(inv, cohort, kind);
            return err;
        }
        *cohort_place(cohort, (enum cohort_bag)kind) = bag->count;
        bag->at[bag->count++] =
            (struct bag_item){cohort, cohort->traits.look->slot, cohort->traits.shape->slot,
                              cohort->own, cohort->traits.state};
        bag_changed(inv, cohort, bag, kind);
    }
    return ERR_OK;
}

/* --- outfits --- */

static const struct shared_kind outfit_kind = {SHARED_KEY(outfit, shape, type),
                                               SHARED_TABLE(inventory, outfits, outfit),
                                               SHARED_SLOTS(inventory, outfit_slots, outfit)};

static struct outfit outfit_of(const struct inventory *inv, const struct traits *t)
{
    return (struct outfit){.shape = t->shape, .type = inv->look_briefs[t->look->slot].type};
}

static enum err outfit_take(struct inventory *inv, const struct traits *t)
{
    struct outfit like = outfit_of(inv, t), *outfit;

    return shared_take(ERR_OK, inv, &outfit_kind, &like, STR_EMPTY, &outfit);
}

static void outfit_give(struct inventory *inv, const struct traits *t)
{
    struct outfit like = outfit_of(inv, t);

    shared_give(inv, &outfit_kind, shared_find(inv, &outfit_kind, &like, STR_EMPTY));
}

/* --- cohorts --- */

static enum err own_key_take(struct inventory *inv, struct cohort *cohort)
{
    const struct traits *t = &cohort->traits;
    const struct cohort_cluster *own = own_cluster(t);
    struct key *key;
    enum err err;

    cohort->own = SLOT_NONE;
    if (!own) return ERR_OK;
    err = key_take(inv, cluster_text(own), word_text(t->stamp->fingerprint),
                   word_text(t->stamp->group), &key);
    if (!err) cohort->own = key->slot;
    return err;
}

static enum err cohort_born(void *owner, void *object)
{
    struct inventory *inv = owner;
    struct cohort *cohort = object;
    enum err err = own_key_take(inv, cohort);

    if (err) return err;
    err = outfit_take(inv, &cohort->traits);
    if (err) goto give_key;
    err = bags_enter(inv, cohort);
    if (err) goto give_outfit;
    cohort->birth = ++inv->births;
    return ERR_OK;

give_outfit:
    outfit_give(inv, &cohort->traits);
give_key:
    shared_give(inv, &key_kind, cohort_key(inv, cohort));
    return err;
}

static void cohort_gone(void *owner, void *object)
{
    struct inventory *inv = owner;
    struct cohort *cohort = object;

    assert(cohort->count == 0);
    bags_leave(inv, cohort, BAG_COUNT);
    outfit_give(inv, &cohort->traits);
    shared_give(inv, &key_kind, cohort_key(inv, cohort));
}

static void cohort_release(void *inv, void *object)
{
    traits_give(inv, &((struct cohort *)object)->traits);
}

static const struct shared_kind cohort_kind = {SHARED_KEY(cohort, traits.cluster, traits.cordon),
                                               SHARED_TABLE(inventory, cohorts, cohort),
                                               SHARED_SLOTS(inventory, cohort_slots, cohort),
                                               .born = cohort_born,
                                               .gone = cohort_gone,
                                               .release = cohort_release};

enum err cohort_take(struct inventory *inv, const struct traits *own_traits,
                     struct cohort **ret_cohort)
{
    struct cohort like = {.traits = *own_traits};

    return shared_take(ERR_OK, inv, &cohort_kind, &like, STR_EMPTY, ret_cohort);
}

void cohort_give(struct inventory *inv, struct cohort *cohort)
{
    shared_give(inv, &cohort_kind, cohort);
}
