/* SPDX-License-Identifier: Apache-2.0 */
/* Words, origins, clusters, keys, stamps, promises, shapes. Labels: look.c. */
#include "shard/state/vocabulary.h"

#include <string.h>

#include "base/memory.h"

static uint32_t text_hash(const struct inventory *inv, struct str text)
{
    return (uint32_t)str_hash(text, inv->options.seed);
}

/* --- words --- */

struct word *word_find(const struct inventory *inv, struct str text)
{
    uint32_t hash = text_hash(inv, text);

    TABLE_EACH(&inv->words, hash, link)
    {
        struct word *word = CONTAINER_OF(link, struct word, link);
        if (str_equal(word_text(word), text)) return word;
    }
    return NULL;
}

const struct word *inventory_word(const struct inventory *inventory, struct str text)
{
    return word_find(inventory, text);
}

enum err word_take(struct inventory *inv, struct str text, struct word **ret_word)
{
    struct word *word = text.len ? word_find(inv, text) : NULL;
    enum err err;

    if (!word && text.len) {
        err = table_reserve(&inv->words, &inv->bytes);
        if (err) return err;
        word = memory_take(&inv->bytes, sizeof *word + text.len);
        if (!word) return ERR_NOMEM;
        word->link.refs = 0;
        word->len = (uint32_t)text.len;
        memcpy(word->text, text.at, text.len);
        table_add(&inv->words, &word->link, text_hash(inv, text));
    }
    if (word) word->link.refs++;
    *ret_word = word;
    return ERR_OK;
}

void word_give(struct inventory *inv, struct word *word)
{
    if (!word || --word->link.refs) return;
    table_remove(&inv->words, &word->link);
    memory_give(&inv->bytes, word, sizeof *word + word->len);
}

struct pair { /* what pairs of shared things are hashed by: their addresses */
    const void *first, *second;
};

static uint32_t pair_hash(const struct inventory *inv, const void *first, const void *second)
{
    struct pair pair = {first, second};
    return bytes_hash(inv, &pair, sizeof pair);
}

/* --- origins --- */

static struct origin *origin_find(const struct inventory *inv, const struct word *provider,
                                  const struct word *error, uint32_t hash)
{
    TABLE_EACH(&inv->origins, hash, link)
    {
        struct origin *origin = CONTAINER_OF(link, struct origin, link);
        if (origin->host_provider == provider && origin->last_error == error) return origin;
    }
    return NULL;
}

/* Takes over one count of both words, on success only. */
static enum err origin_make(struct inventory *inv, struct word *own_provider,
                            struct word *own_error, uint32_t hash, struct origin **ret_origin)
{
    struct origin *origin;
    enum err err = table_reserve(&inv->origins, &inv->bytes);

    if (err) return err;
    origin = memory_take(&inv->bytes, sizeof *origin);
    if (!origin) return ERR_NOMEM;
    *origin = (struct origin){.host_provider = own_provider, .last_error = own_error};
    err = rooms_take(&inv->origin_slots, origin, &origin->slot, &inv->bytes);
    if (err) {
        memory_give(&inv->bytes, origin, sizeof *origin);
        return err;
    }
    table_add(&inv->origins, &origin->link, hash);
    *ret_origin = origin;
    return ERR_OK;
}

enum err origin_take(struct inventory *inv, struct str host_provider, struct str last_error,
                     uint32_t *ret_slot)
{
    struct word *provider, *error = NULL;
    struct origin *origin = NULL;
    uint32_t hash;
    enum err err;

    *ret_slot = SLOT_NONE;
    if (!host_provider.len && !last_error.len) return ERR_OK;
    err = word_take(inv, host_provider, &provider);
    if (err) return err;
    err = word_take(inv, last_error, &error);
    hash = pair_hash(inv, provider, error);
    if (!err) origin = origin_find(inv, provider, error, hash);
    if (!err && !origin) err = origin_make(inv, provider, error, hash, &origin);
    if (err || origin->link.refs) { /* not handed over */
        word_give(inv, provider);
        word_give(inv, error);
    }
    if (err) return err;
    origin->link.refs++;
    *ret_slot = origin->slot;
    return ERR_OK;
}

void origin_give(struct inventory *inv, uint32_t slot)
{
    struct origin *origin = slot == SLOT_NONE ? NULL : rooms_held(&inv->origin_slots, slot);

    if (!origin || --origin->link.refs) return;
    table_remove(&inv->origins, &origin->link);
    rooms_give(&inv->origin_slots, slot);
    word_give(inv, origin->host_provider);
    word_give(inv, origin->last_error);
    memory_give(&inv->bytes, origin, sizeof *origin);
}

struct str origin_provider(const struct inventory *inv, uint32_t slot)
{
    const struct origin *origin = slot == SLOT_NONE ? NULL : rooms_held(&inv->origin_slots, slot);

    return origin ? word_text(origin->host_provider) : STR_EMPTY;
}

struct str origin_error(const struct inventory *inv, uint32_t slot)
{
    const struct origin *origin = slot == SLOT_NONE ? NULL : rooms_held(&inv->origin_slots, slot);

    return origin ? word_text(origin->last_error) : STR_EMPTY;
}

/* --- clusters --- */

static struct cluster *cluster_find(const struct inventory *inv, struct str text, uint32_t hash)
{
    TABLE_EACH(&inv->clusters, hash, link)
    {
        struct cluster *cluster = CONTAINER_OF(link, struct cluster, link);
        if (str_equal(cluster_text(cluster), text)) return cluster;
    }
    return NULL;
}

static enum err cluster_make(struct inventory *inv, struct str text, uint32_t hash,
                             struct cluster **ret_cluster)
{
    struct cluster *cluster;
    enum err err = table_reserve(&inv->clusters, &inv->bytes);

    if (err) return err;
    cluster = memory_take(&inv->bytes, sizeof *cluster + text.len);
    if (!cluster) return ERR_NOMEM;
    memset(cluster, 0, sizeof *cluster);
    err = rooms_take(&inv->cluster_slots, cluster, &cluster->slot, &inv->bytes);
    if (err) {
        memory_give(&inv->bytes, cluster, sizeof *cluster + text.len);
        return err;
    }
    cluster->len = (uint32_t)text.len;
    memcpy(cluster->text, text.at, text.len);
    table_add(&inv->clusters, &cluster->link, hash);
    *ret_cluster = cluster;
    return ERR_OK;
}

enum err cluster_take(struct inventory *inv, struct str text, struct cluster **ret_cluster)
{
    uint32_t hash = text_hash(inv, text);
    struct cluster *cluster = text.len ? cluster_find(inv, text, hash) : NULL;

    if (!cluster && text.len) {
        enum err err = cluster_make(inv, text, hash, &cluster);
        if (err) return err;
    }
    if (cluster) cluster->link.refs++;
    *ret_cluster = cluster;
    return ERR_OK;
}

static void bag_free(struct inventory *inv, struct bag *bag)
{
    assert(bag->count == 0);
    array_free(bag->at, bag->cap, sizeof *bag->at, &inv->bytes);
}

static void lanes_free(struct inventory *inv, struct lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++) bag_free(inv, &lanes->at[i].bag);
    array_free(lanes->at, lanes->cap, sizeof *lanes->at, &inv->bytes);
}

void cluster_give(struct inventory *inv, struct cluster *cluster)
{
    if (!cluster || --cluster->link.refs) return;
    table_remove(&inv->clusters, &cluster->link);
    rooms_give(&inv->cluster_slots, cluster->slot);
    lanes_free(inv, &cluster->configured);
    lanes_free(inv, &cluster->configuring);
    bag_free(inv, &cluster->others);
    memory_give(&inv->bytes, cluster, sizeof *cluster + cluster->len);
}

const struct cluster *inventory_cluster(const struct inventory *inventory, struct str cluster)
{
    return cluster_find(inventory, cluster, text_hash(inventory, cluster));
}

/* --- families and keys --- */

static struct family *family_find(const struct inventory *inv, const struct cluster *cluster,
                                  const struct word *fingerprint, uint32_t hash)
{
    TABLE_EACH(&inv->families, hash, link)
    {
        struct family *family = CONTAINER_OF(link, struct family, link);
        if (family->cluster == cluster && family->fingerprint == fingerprint) return family;
    }
    return NULL;
}

static void family_give(struct inventory *inv, struct family *family)
{
    if (!family || --family->link.refs) return;
    assert(family->count == 0);
    table_remove(&inv->families, &family->link);
    rooms_give(&inv->family_slots, family->slot);
    cluster_give(inv, family->cluster);
    word_give(inv, family->fingerprint);
    array_free(family->keys, family->cap, sizeof(struct key *), &inv->bytes);
    memory_give(&inv->bytes, family, sizeof *family);
}

/* Takes over one count of `cluster` and `fingerprint`, on success only. */
static enum err family_make(struct inventory *inv, struct cluster *own_cluster,
                            struct word *own_fingerprint, struct family **ret_family)
{
    uint32_t hash = pair_hash(inv, own_cluster, own_fingerprint);
    struct family *family;
    enum err err = table_reserve(&inv->families, &inv->bytes);

    if (err) return err;
    family = memory_take(&inv->bytes, sizeof *family);
    if (!family) return ERR_NOMEM;
    memset(family, 0, sizeof *family);
    err = rooms_take(&inv->family_slots, family, &family->slot, &inv->bytes);
    if (err) {
        memory_give(&inv->bytes, family, sizeof *family);
        return err;
    }
    family->cluster = own_cluster;
    family->fingerprint = own_fingerprint;
    family->birth = ++inv->births;
    inv->keys_born++;
    table_add(&inv->families, &family->link, hash);
    *ret_family = family;
    return ERR_OK;
}

static enum err family_take(struct inventory *inv, struct str cluster_name, struct str fingerprint,
                            struct family **ret_family)
{
    struct family *family = NULL;
    struct cluster *cluster;
    struct word *word;
    enum err err = cluster_take(inv, cluster_name, &cluster);

    if (err) return err;
    err = word_take(inv, fingerprint, &word);
    if (err) {
        cluster_give(inv, cluster);
        return err;
    }
    family = family_find(inv, cluster, word, pair_hash(inv, cluster, word));
    if (!family) err = family_make(inv, cluster, word, &family);
    if (err || family->link.refs) { /* not handed over */
        cluster_give(inv, cluster);
        word_give(inv, word);
    }
    if (err) return err;
    family->link.refs++;
    *ret_family = family;
    return ERR_OK;
}

static struct key *key_find(const struct inventory *inv, const struct family *family,
                            const struct word *group, uint32_t hash)
{
    TABLE_EACH(&inv->keys, hash, link)
    {
        struct key *key = CONTAINER_OF(link, struct key, link);
        if (key->family == family && key->group == group) return key;
    }
    return NULL;
}

void key_tell(struct inventory *inv, const struct key *key)
{
    inv->changed[inv->changes++ % CHANGES_KEPT] =
        (struct change){.key = key->slot,
                        .family = key->family->slot,
                        .cohort = SLOT_NONE,
                        .cluster = key->family->cluster->slot};
}

/* Takes over one count of `family` and `group`, on success only. */
static enum err key_make(struct inventory *inv, struct family *own_family, struct word *own_group,
                         struct key **ret_key)
{
    uint32_t hash = pair_hash(inv, own_family, own_group);
    struct key *key;
    enum err err = table_reserve(&inv->keys, &inv->bytes);

    if (!err) {
        err = array_reserve(&own_family->keys, own_family->count, &own_family->cap,
                            sizeof(struct key *), &inv->bytes);
    }
    if (err) return err;
    key = memory_take(&inv->bytes, sizeof *key);
    if (!key) return ERR_NOMEM;
    memset(key, 0, sizeof *key);
    err = rooms_take(&inv->key_slots, key, &key->slot, &inv->bytes);
    if (err) {
        memory_give(&inv->bytes, key, sizeof *key);
        return err;
    }
    key->family = own_family;
    key->group = own_group;
    key->place = own_family->count;
    key->birth = ++inv->births;
    own_family->keys[own_family->count++] = key;
    own_family->version++;
    key_tell(inv, key);
    inv->keys_born++;
    table_add(&inv->keys, &key->link, hash);
    *ret_key = key;
    return ERR_OK;
}

enum err key_take(struct inventory *inv, struct str cluster, struct str fingerprint,
                  struct str group, struct key **ret_key)
{
    struct family *family;
    struct word *word = NULL;
    struct key *key = NULL;
    enum err err = family_take(inv, cluster, fingerprint, &family);

    if (err) return err;
    err = word_take(inv, group, &word);
    if (!err) key = key_find(inv, family, word, pair_hash(inv, family, word));
    if (!err && !key) err = key_make(inv, family, word, &key);
    if (err || key->link.refs) { /* not handed over */
        word_give(inv, word);
        family_give(inv, family);
    }
    if (err) return err;
    key->link.refs++;
    *ret_key = key;
    return ERR_OK;
}

void key_give(struct inventory *inv, struct key *key)
{
    struct family *family;

    if (!key || --key->link.refs) return;
    family = key->family;
    family->version++;
    key_tell(inv, key);
    table_remove(&inv->keys, &key->link);
    rooms_give(&inv->key_slots, key->slot);
    family->keys[key->place] = family->keys[--family->count];
    family->keys[key->place]->place = key->place;
    bag_free(inv, &key->cohorts);
    word_give(inv, key->group);
    memory_give(&inv->bytes, key, sizeof *key);
    family_give(inv, family);
}

const struct family *inventory_family(const struct inventory *inventory, struct str cluster,
                                      struct str fingerprint)
{
    const struct cluster *c = inventory_cluster(inventory, cluster);
    const struct word *f = c ? word_find(inventory, fingerprint) : NULL;

    return f ? family_find(inventory, c, f, pair_hash(inventory, c, f)) : NULL;
}

const struct key *inventory_key(const struct inventory *inventory, struct str cluster,
                                struct str fingerprint, struct str group)
{
    const struct family *f = inventory_family(inventory, cluster, fingerprint);
    const struct word *g = NULL;

    if (!f) return NULL;
    if (group.len) {
        g = word_find(inventory, group);
        if (!g) return NULL;
    }
    return key_find(inventory, f, g, pair_hash(inventory, f, g));
}

/* --- stamps --- */

static double no_minus_zero(double dollars)
{
    return dollars == 0 ? 0 : dollars;
}

static struct stamp *stamp_find(const struct inventory *inv, const struct stamp *like,
                                uint32_t hash)
{
    TABLE_EACH(&inv->stamps, hash, link)
    {
        struct stamp *stamp = CONTAINER_OF(link, struct stamp, link);
        if (stamp->fingerprint == like->fingerprint && stamp->group == like->group &&
            stamp->priority == like->priority &&
            stamp->interruption_dollars == like->interruption_dollars &&
            stamp->reclamation_dollars == like->reclamation_dollars) {
            return stamp;
        }
    }
    return NULL;
}

enum err stamp_take(struct inventory *inv, const struct machine_stamp *given,
                    struct stamp **ret_stamp)
{
    struct stamp like = {.priority = given->priority,
                         .interruption_dollars = no_minus_zero(given->interruption_dollars),
                         .reclamation_dollars = no_minus_zero(given->reclamation_dollars)};
    struct stamp *stamp;
    uint32_t hash;
    enum err err;

    *ret_stamp = NULL;
    if (!given->fingerprint.len && !given->group.len && !given->priority &&
        like.interruption_dollars == 0 && like.reclamation_dollars == 0) {
        return ERR_OK;
    }
    err = word_take(inv, given->fingerprint, &like.fingerprint);
    if (err) return err;
    err = word_take(inv, given->group, &like.group);
    if (err) goto give_fingerprint;
    hash = pair_hash(inv, like.fingerprint, like.group) * 31 + (uint32_t)like.priority;
    stamp = stamp_find(inv, &like, hash);
    if (stamp) {
        word_give(inv, like.group);
        word_give(inv, like.fingerprint);
    } else {
        err = table_reserve(&inv->stamps, &inv->bytes);
        if (err) goto give_group;
        stamp = memory_take(&inv->bytes, sizeof *stamp);
        if (!stamp) {
            err = ERR_NOMEM;
            goto give_group;
        }
        *stamp = like;
        table_add(&inv->stamps, &stamp->link, hash);
    }
    stamp->link.refs++;
    *ret_stamp = stamp;
    return ERR_OK;

give_group:
    word_give(inv, like.group);
give_fingerprint:
    word_give(inv, like.fingerprint);
    return err;
}

void stamp_give(struct inventory *inv, struct stamp *stamp)
{
    if (!stamp || --stamp->link.refs) return;
    table_remove(&inv->stamps, &stamp->link);
    word_give(inv, stamp->fingerprint);
    word_give(inv, stamp->group);
    memory_give(&inv->bytes, stamp, sizeof *stamp);
}

/* --- promises --- */

enum err promise_take(struct inventory *inv, const struct machine_promise *given,
                      uint64_t idle_since_ms, struct promise **ret_promise)
{
    struct promise *promise = NULL;
    struct key *key;
    uint32_t hash;
    enum err err;

    *ret_promise = NULL;
    if (!given->cluster.len) return ERR_OK;
    err = key_take(inv, given->cluster, given->fingerprint, given->group, &key);
    if (err) return err;
    hash = pair_hash(inv, key, NULL) * 31 + (uint32_t)given->at.ms * 31 + (uint32_t)idle_since_ms;
    TABLE_EACH(&inv->promises, hash, link)
    {
        struct promise *other = CONTAINER_OF(link, struct promise, link);
        if (other->key == key && other->priority == given->priority &&
            other->at.ms == given->at.ms && other->idle_since_ms == idle_since_ms) {
            promise = other;
            break;
        }
    }
    if (promise) {
        key_give(inv, key);
    } else {
        err = table_reserve(&inv->promises, &inv->bytes);
        if (!err) {
            promise = memory_take(&inv->bytes, sizeof *promise);
            if (!promise) err = ERR_NOMEM;
        }
        if (err) {
            key_give(inv, key);
            return err;
        }
        *promise = (struct promise){.key = key,
                                    .priority = given->priority,
                                    .at = given->at,
                                    .idle_since_ms = idle_since_ms};
        table_add(&inv->promises, &promise->link, hash);
    }
    promise->link.refs++;
    *ret_promise = promise;
    return ERR_OK;
}

void promise_give(struct inventory *inv, struct promise *promise)
{
    if (!promise || --promise->link.refs) return;
    table_remove(&inv->promises, &promise->link);
    key_give(inv, promise->key);
    memory_give(&inv->bytes, promise, sizeof *promise);
}

/* --- shapes --- */

bool resources_same(const struct resources *a, const struct resources *b)
{
    return a->mask == b->mask && a->formats.binary == b->formats.binary &&
           a->formats.exponent == b->formats.exponent &&
           memcmp(a->milli, b->milli, resource_bits(a->mask) * sizeof a->milli[0]) == 0;
}

static void resources_copy(struct resources *to, const struct resources *from)
{
    memset(to, 0, sizeof *to);
    to->mask = from->mask;
    to->formats = from->formats;
    memcpy(to->milli, from->milli, resource_bits(from->mask) * sizeof from->milli[0]);
}

static uint32_t resources_hash(const struct inventory *inv, const struct resources *r)
{
    return bytes_hash(inv, r->milli, resource_bits(r->mask) * sizeof r->milli[0]) * 31 +
           (uint32_t)r->mask;
}

enum err shape_take(struct inventory *inv, const struct machine *machine, struct shape **ret_shape)
{
    uint32_t hash =
        resources_hash(inv, &machine->resources) ^ resources_hash(inv, &machine->allocatable) * 17;
    struct shape *shape;
    enum err err;

    TABLE_EACH(&inv->shapes, hash, link)
    {
        shape = CONTAINER_OF(link, struct shape, link);
        if (resources_same(&shape->resources, &machine->resources) &&
            resources_same(&shape->allocatable, &machine->allocatable)) {
            shape->link.refs++;
            *ret_shape = shape;
            return ERR_OK;
        }
    }
    err = table_reserve(&inv->shapes, &inv->bytes);
    if (err) return err;
    shape = memory_take(&inv->bytes, sizeof *shape);
    if (!shape) return ERR_NOMEM;
    resources_copy(&shape->resources, &machine->resources);
    resources_copy(&shape->allocatable, &machine->allocatable);
    shape->alloc = shape->allocatable.mask ? &shape->allocatable : &shape->resources;
    shape->positive = 0;
    for (uint64_t left = shape->alloc->mask; left; left &= left - 1) {
        uint32_t dimension = (uint32_t)__builtin_ctzll(left);
        if (resources_get(shape->alloc, dimension)) shape->positive |= (uint64_t)1 << dimension;
    }
    err = rooms_take(&inv->shape_slots, shape, &shape->slot, &inv->bytes);
    if (err) {
        memory_give(&inv->bytes, shape, sizeof *shape);
        return err;
    }
    table_add(&inv->shapes, &shape->link, hash);
    shape->link.refs = 1;
    *ret_shape = shape;
    return ERR_OK;
}

void shape_give(struct inventory *inv, struct shape *shape)
{
    if (!shape || --shape->link.refs) return;
    table_remove(&inv->shapes, &shape->link);
    rooms_give(&inv->shape_slots, shape->slot);
    memory_give(&inv->bytes, shape, sizeof *shape);
}
