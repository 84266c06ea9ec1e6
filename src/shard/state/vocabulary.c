/* SPDX-License-Identifier: Apache-2.0 */
/* Words, origins, clusters, keys, stamps, promises and shapes as shared objects (shared.h). */
#include "shard/state/vocabulary.h"

#include <string.h>

#include "base/memory.h"

/* --- words --- */

const struct shared_kind word_kind = {SHARED_TABLE(inventory, words, word),
                                      SHARED_TEXT(word, len, text)};

struct word *word_find(const struct inventory *inv, struct str text)
{
    return shared_find(inv, &word_kind, NULL, text);
}

const struct word *inventory_word(const struct inventory *inventory, struct str text)
{
    return word_find(inventory, text);
}

enum err word_take(struct inventory *inv, struct str text, struct word **ret_word)
{
    struct word like = {0};

    *ret_word = NULL;
    return text.len ? shared_take(ERR_OK, inv, &word_kind, &like, text, ret_word) : ERR_OK;
}

/* --- origins --- */

static const struct shared_kind origin_kind = {
    SHARED_KEY(origin, host_provider, last_error), SHARED_TABLE(inventory, origins, origin),
    SHARED_SLOTS(inventory, origin_slots, origin),
    .parts = {SHARED_PART(word_kind, origin, host_provider),
              SHARED_PART(word_kind, origin, last_error)}};

enum err origin_take(struct inventory *inv, struct str host_provider, struct str last_error,
                     uint32_t *ret_slot)
{
    struct origin like = {0}, *origin;
    enum err err;

    *ret_slot = SLOT_NONE;
    if (!host_provider.len && !last_error.len) return ERR_OK;
    err = word_take(inv, host_provider, &like.host_provider);
    if (!err) err = word_take(inv, last_error, &like.last_error);
    err = shared_take(err, inv, &origin_kind, &like, STR_EMPTY, &origin);
    if (!err) *ret_slot = origin->slot;
    return err;
}

const struct origin *origin_at(const struct inventory *inv, uint32_t slot)
{
    static const struct origin nothing;

    return slot == SLOT_NONE ? &nothing : slot_map_held(&inv->origin_slots, slot);
}

void origin_give(struct inventory *inv, uint32_t slot)
{
    if (slot != SLOT_NONE) shared_give(inv, &origin_kind, slot_map_held(&inv->origin_slots, slot));
}

/* --- clusters --- */

static void bag_free(struct inventory *inv, struct bag *bag)
{
    assert(bag->count == 0);
    array_free(bag->at, bag->cap, sizeof *bag->at, &inv->bytes);
}

static void type_bags_free(struct inventory *inv, struct type_bags *types)
{
    for (uint32_t i = 0; i < types->count; i++) bag_free(inv, &types->at[i].bag);
    array_free(types->at, types->cap, sizeof *types->at, &inv->bytes);
}

static void cluster_gone(void *inv, void *object)
{
    struct cohort_cluster *cluster = object;

    type_bags_free(inv, &cluster->configured);
    type_bags_free(inv, &cluster->configuring);
    bag_free(inv, &cluster->others);
}

const struct shared_kind cluster_kind = {
    SHARED_TABLE(inventory, clusters, cohort_cluster), SHARED_TEXT(cohort_cluster, len, text),
    SHARED_SLOTS(inventory, cluster_slots, cohort_cluster), .gone = cluster_gone};

enum err cluster_take(struct inventory *inv, struct str text, struct cohort_cluster **ret_cluster)
{
    struct cohort_cluster like = {0};

    *ret_cluster = NULL;
    return text.len ? shared_take(ERR_OK, inv, &cluster_kind, &like, text, ret_cluster) : ERR_OK;
}

const struct cohort_cluster *inventory_cluster(const struct inventory *inventory,
                                               struct str cluster)
{
    return shared_find(inventory, &cluster_kind, NULL, cluster);
}

/* --- families and keys --- */

static enum err family_born(void *owner, void *object)
{
    struct inventory *inv = owner;

    ((struct family *)object)->birth = ++inv->births;
    inv->keys_born++;
    return ERR_OK;
}

static void family_gone(void *owner, void *object)
{
    struct inventory *inv = owner;
    struct family *family = object;

    assert(family->count == 0);
    array_free(family->keys, family->cap, sizeof(struct key *), &inv->bytes);
}

static const struct shared_kind family_kind = {
    SHARED_KEY(family, cluster, fingerprint),
    SHARED_TABLE(inventory, families, family),
    SHARED_SLOTS(inventory, family_slots, family),
    .born = family_born,
    .gone = family_gone,
    .parts = {SHARED_PART(cluster_kind, family, cluster),
              SHARED_PART(word_kind, family, fingerprint)}};

static enum err family_take(struct inventory *inv, struct str cluster, struct str fingerprint,
                            struct family **ret_family)
{
    struct family like = {0};
    enum err err = cluster_take(inv, cluster, &like.cluster);

    if (!err) err = word_take(inv, fingerprint, &like.fingerprint);
    return shared_take(err, inv, &family_kind, &like, STR_EMPTY, ret_family);
}

void key_changed(struct inventory *inv, const struct key *key)
{
    inv->changed[inv->changes++ % CHANGES_KEPT] =
        (struct cohort_change){.key = key->slot,
                               .family = key->family->slot,
                               .cohort = SLOT_NONE,
                               .cluster = key->family->cluster->slot};
}

static enum err key_born(void *owner, void *object)
{
    struct inventory *inv = owner;
    struct key *key = object;
    struct family *family = key->family;
    enum err err = array_reserve(&family->keys, family->count, &family->cap, sizeof(struct key *),
                                 &inv->bytes);

    if (err) return err;
    key->birth = ++inv->births;
    key->place = family->count;
    family->keys[family->count++] = key;
    family->version++;
    key_changed(inv, key);
    inv->keys_born++;
    return ERR_OK;
}

static void key_gone(void *inv, void *object)
{
    struct key *key = object;
    struct family *family = key->family;

    family->version++;
    key_changed(inv, key);
    family->keys[key->place] = family->keys[--family->count];
    family->keys[key->place]->place = key->place;
    bag_free(inv, &key->cohorts);
}

const struct shared_kind key_kind = {
    SHARED_KEY(key, family, group),
    SHARED_TABLE(inventory, keys, key),
    SHARED_SLOTS(inventory, key_slots, key),
    .born = key_born,
    .gone = key_gone,
    .parts = {SHARED_PART(word_kind, key, group), SHARED_PART(family_kind, key, family)}};

enum err key_take(struct inventory *inv, struct str cluster, struct str fingerprint,
                  struct str group, struct key **ret_key)
{
    struct key like = {0};
    enum err err = family_take(inv, cluster, fingerprint, &like.family);

    if (!err) err = word_take(inv, group, &like.group);
    return shared_take(err, inv, &key_kind, &like, STR_EMPTY, ret_key);
}

const struct family *inventory_family(const struct inventory *inventory, struct str cluster,
                                      struct str fingerprint)
{
    struct cohort_cluster *c = shared_find(inventory, &cluster_kind, NULL, cluster);
    struct word *f = c ? word_find(inventory, fingerprint) : NULL;
    struct family like = {.cluster = c, .fingerprint = f};

    return f ? shared_find(inventory, &family_kind, &like, STR_EMPTY) : NULL;
}

const struct key *inventory_key(const struct inventory *inventory, struct str cluster,
                                struct str fingerprint, struct str group)
{
    struct key like = {.family =
                           (struct family *)inventory_family(inventory, cluster, fingerprint)};

    if (group.len) like.group = word_find(inventory, group);
    if (!like.family || (group.len && !like.group)) return NULL;
    return shared_find(inventory, &key_kind, &like, STR_EMPTY);
}

/* --- stamps --- */

static double no_minus_zero(double dollars)
{
    return dollars == 0 ? 0 : dollars;
}

const struct shared_kind stamp_kind = {
    SHARED_KEY(stamp, fingerprint, priority), SHARED_TABLE(inventory, stamps, stamp),
    .parts = {SHARED_PART(word_kind, stamp, fingerprint), SHARED_PART(word_kind, stamp, group)}};

enum err stamp_take(struct inventory *inv, const struct machine_stamp *given,
                    struct stamp **ret_stamp)
{
    struct stamp like = {.priority = given->priority,
                         .interruption_dollars = no_minus_zero(given->interruption_dollars),
                         .reclamation_dollars = no_minus_zero(given->reclamation_dollars)};
    enum err err;

    *ret_stamp = NULL;
    if (!given->fingerprint.len && !given->group.len && !given->priority &&
        like.interruption_dollars == 0 && like.reclamation_dollars == 0) {
        return ERR_OK;
    }
    err = word_take(inv, given->fingerprint, &like.fingerprint);
    if (!err) err = word_take(inv, given->group, &like.group);
    return shared_take(err, inv, &stamp_kind, &like, STR_EMPTY, ret_stamp);
}

/* --- promises --- */

const struct shared_kind promise_kind = {SHARED_KEY(promise, key, priority),
                                         SHARED_TABLE(inventory, promises, promise),
                                         .parts = {SHARED_PART(key_kind, promise, key)}};

enum err promise_take(struct inventory *inv, const struct machine_promise *given,
                      uint64_t idle_since_ms, struct promise **ret_promise)
{
    struct promise like = {
        .at = given->at, .idle_since_ms = idle_since_ms, .priority = given->priority};
    enum err err;

    *ret_promise = NULL;
    if (!given->cluster.len) return ERR_OK;
    err = key_take(inv, given->cluster, given->fingerprint, given->group, &like.key);
    return shared_take(err, inv, &promise_kind, &like, STR_EMPTY, ret_promise);
}

/* --- shapes --- */

bool resources_same(const struct resources *a, const struct resources *b)
{
    return a->mask == b->mask && a->formats.binary == b->formats.binary &&
           a->formats.exponent == b->formats.exponent &&
           memcmp(a->milli, b->milli, resource_bits(a->mask) * sizeof a->milli[0]) == 0;
}

/* Copies resources; dimensions outside the mask become zero. */
static void resources_copy(struct resources *to, const struct resources *from)
{
    to->mask = from->mask;
    to->formats = from->formats;
    memcpy(to->milli, from->milli, resource_bits(from->mask) * sizeof from->milli[0]);
}

static enum err shape_born(void *, void *object)
{
    struct machine_shape *shape = object;

    shape->alloc = shape->allocatable.mask ? &shape->allocatable : &shape->resources;
    for (uint64_t left = shape->alloc->mask; left; left &= left - 1) {
        uint32_t dimension = (uint32_t)__builtin_ctzll(left);
        if (resources_get(shape->alloc, dimension)) shape->positive |= (uint64_t)1 << dimension;
    }
    return ERR_OK;
}

const struct shared_kind shape_kind = {SHARED_KEY(machine_shape, resources, allocatable),
                                       .hash_size = offsetof(struct resources, milli[4]),
                                       SHARED_TABLE(inventory, shapes, machine_shape),
                                       SHARED_SLOTS(inventory, shape_slots, machine_shape),
                                       .born = shape_born};

enum err shape_take(struct inventory *inv, const struct machine *machine,
                    struct machine_shape **ret_shape)
{
    struct machine_shape like = {0};

    resources_copy(&like.resources, &machine->resources);
    resources_copy(&like.allocatable, &machine->allocatable);
    return shared_take(ERR_OK, inv, &shape_kind, &like, STR_EMPTY, ret_shape);
}
