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

/* --- things of one size, told apart by some of their bytes --- */

static struct table *shared_table(const struct inventory *inv, const struct shared_kind *kind)
{
    return (struct table *)((char *)inv + kind->table);
}

static struct rooms *shared_slots(const struct inventory *inv, const struct shared_kind *kind)
{
    return (struct rooms *)((char *)inv + kind->slots);
}

static uint32_t shared_hash(const struct inventory *inv, const struct shared_kind *kind,
                            const void *like)
{
    return bytes_hash(inv, (const char *)like + kind->key, kind->key_size);
}

void *shared_find(const struct inventory *inv, const struct shared_kind *kind, const void *like)
{
    const char *key = (const char *)like + kind->key;

    TABLE_EACH(shared_table(inv, kind), shared_hash(inv, kind, like), link)
    {
        if (!memcmp((const char *)link + kind->key, key, kind->key_size)) return link;
    }
    return NULL;
}

static enum err shared_make(struct inventory *inv, const struct shared_kind *kind, const void *like,
                            struct table_link **ret_link)
{
    enum err err = table_reserve(shared_table(inv, kind), &inv->bytes);
    struct table_link *link = err ? NULL : memory_take(&inv->bytes, kind->size);

    if (!link) return ERR_NOMEM;
    memcpy(link, like, kind->size);
    if (kind->slots) {
        err = rooms_take(shared_slots(inv, kind), link, (uint32_t *)((char *)link + kind->slot),
                         &inv->bytes);
    }
    if (err) {
        memory_give(&inv->bytes, link, kind->size);
        return err;
    }
    link->refs = 0;
    table_add(shared_table(inv, kind), link, shared_hash(inv, kind, like));
    *ret_link = link;
    return ERR_OK;
}

enum err shared_take(struct inventory *inv, const struct shared_kind *kind, void *own_like,
                     void **ret_thing)
{
    struct table_link *link = shared_find(inv, kind, own_like);
    enum err err = link ? ERR_OK : shared_make(inv, kind, own_like, &link);

    if ((err || link->refs) && kind->release) kind->release(inv, own_like); /* not handed over */
    if (err) return err;
    link->refs++;
    *ret_thing = link;
    return ERR_OK;
}

void shared_give(struct inventory *inv, const struct shared_kind *kind, void *thing)
{
    struct table_link *link = thing;

    if (!link || --link->refs) return;
    if (kind->gone) kind->gone(inv, thing);
    table_remove(shared_table(inv, kind), link);
    if (kind->slots) {
        rooms_give(shared_slots(inv, kind), *(const uint32_t *)((char *)link + kind->slot));
    }
    if (kind->release) kind->release(inv, thing);
    memory_give(&inv->bytes, link, kind->size);
}

/* --- origins --- */

static void origin_release(struct inventory *inv, void *thing)
{
    const struct origin *origin = thing;

    word_give(inv, origin->host_provider);
    word_give(inv, origin->last_error);
}

static const struct shared_kind origin_kind = {SHARED_KEY(origin, host_provider, last_error),
                                               SHARED_SLOTS(origin, origins, origin_slots),
                                               .release = origin_release};

enum err origin_take(struct inventory *inv, struct str host_provider, struct str last_error,
                     uint32_t *ret_slot)
{
    struct origin like = {0};
    void *origin;
    enum err err;

    *ret_slot = SLOT_NONE;
    if (!host_provider.len && !last_error.len) return ERR_OK;
    err = word_take(inv, host_provider, &like.host_provider);
    if (err) return err;
    err = word_take(inv, last_error, &like.last_error);
    if (err) {
        origin_release(inv, &like);
        return err;
    }
    err = shared_take(inv, &origin_kind, &like, &origin);
    if (!err) *ret_slot = ((struct origin *)origin)->slot;
    return err;
}

static struct origin *origin_at(const struct inventory *inv, uint32_t slot)
{
    return slot == SLOT_NONE ? NULL : rooms_held(&inv->origin_slots, slot);
}

void origin_give(struct inventory *inv, uint32_t slot)
{
    shared_give(inv, &origin_kind, origin_at(inv, slot));
}

struct str origin_provider(const struct inventory *inv, uint32_t slot)
{
    const struct origin *origin = origin_at(inv, slot);

    return origin ? word_text(origin->host_provider) : STR_EMPTY;
}

struct str origin_error(const struct inventory *inv, uint32_t slot)
{
    const struct origin *origin = origin_at(inv, slot);

    return origin ? word_text(origin->last_error) : STR_EMPTY;
}

/* --- clusters --- */

static struct cohort_cluster *cluster_find(const struct inventory *inv, struct str text,
                                           uint32_t hash)
{
    TABLE_EACH(&inv->clusters, hash, link)
    {
        struct cohort_cluster *cluster = CONTAINER_OF(link, struct cohort_cluster, link);
        if (str_equal(cluster_text(cluster), text)) return cluster;
    }
    return NULL;
}

static enum err cluster_make(struct inventory *inv, struct str text, uint32_t hash,
                             struct cohort_cluster **ret_cluster)
{
    struct cohort_cluster *cluster;
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

enum err cluster_take(struct inventory *inv, struct str text, struct cohort_cluster **ret_cluster)
{
    uint32_t hash = text_hash(inv, text);
    struct cohort_cluster *cluster = text.len ? cluster_find(inv, text, hash) : NULL;

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

void cluster_give(struct inventory *inv, struct cohort_cluster *cluster)
{
    if (!cluster || --cluster->link.refs) return;
    table_remove(&inv->clusters, &cluster->link);
    rooms_give(&inv->cluster_slots, cluster->slot);
    lanes_free(inv, &cluster->configured);
    lanes_free(inv, &cluster->configuring);
    bag_free(inv, &cluster->others);
    memory_give(&inv->bytes, cluster, sizeof *cluster + cluster->len);
}

const struct cohort_cluster *inventory_cluster(const struct inventory *inventory,
                                               struct str cluster)
{
    return cluster_find(inventory, cluster, text_hash(inventory, cluster));
}

/* --- families and keys --- */

static void family_gone(struct inventory *inv, void *thing)
{
    struct family *family = thing;

    assert(family->count == 0);
    array_free(family->keys, family->cap, sizeof(struct key *), &inv->bytes);
}

static void family_release(struct inventory *inv, void *thing)
{
    const struct family *family = thing;

    cluster_give(inv, family->cluster);
    word_give(inv, family->fingerprint);
}

static const struct shared_kind family_kind = {SHARED_KEY(family, cluster, fingerprint),
                                               SHARED_SLOTS(family, families, family_slots),
                                               .gone = family_gone, .release = family_release};

static enum err family_take(struct inventory *inv, struct str cluster, struct str fingerprint,
                            struct family **ret_family)
{
    struct family like = {0}, *family;
    void *thing;
    enum err err = cluster_take(inv, cluster, &like.cluster);

    if (err) return err;
    err = word_take(inv, fingerprint, &like.fingerprint);
    if (err) {
        family_release(inv, &like);
        return err;
    }
    err = shared_take(inv, &family_kind, &like, &thing);
    if (err) return err;
    family = thing;
    if (!family->birth) {
        family->birth = ++inv->births;
        inv->keys_born++;
    }
    *ret_family = family;
    return ERR_OK;
}

void key_tell(struct inventory *inv, const struct key *key)
{
    inv->changed[inv->changes++ % CHANGES_KEPT] =
        (struct cohort_change){.key = key->slot,
                               .family = key->family->slot,
                               .cohort = SLOT_NONE,
                               .cluster = key->family->cluster->slot};
}

/* In a family that has room for it. */
static void key_born(struct inventory *inv, struct key *key)
{
    struct family *family = key->family;

    key->birth = ++inv->births;
    key->place = family->count;
    family->keys[family->count++] = key;
    family->version++;
    key_tell(inv, key);
    inv->keys_born++;
}

static void key_gone(struct inventory *inv, void *thing)
{
    struct key *key = thing;
    struct family *family = key->family;

    family->version++;
    key_tell(inv, key);
    family->keys[key->place] = family->keys[--family->count];
    family->keys[key->place]->place = key->place;
    bag_free(inv, &key->cohorts);
}

static void key_release(struct inventory *inv, void *thing)
{
    const struct key *key = thing;

    word_give(inv, key->group);
    shared_give(inv, &family_kind, key->family);
}

static const struct shared_kind key_kind = {SHARED_KEY(key, family, group),
                                            SHARED_SLOTS(key, keys, key_slots), .gone = key_gone,
                                            .release = key_release};

enum err key_take(struct inventory *inv, struct str cluster, struct str fingerprint,
                  struct str group, struct key **ret_key)
{
    struct key like = {0};
    void *key;
    enum err err = family_take(inv, cluster, fingerprint, &like.family);

    if (err) return err;
    err = word_take(inv, group, &like.group);
    if (!err) {
        err = array_reserve(&like.family->keys, like.family->count, &like.family->cap,
                            sizeof(struct key *), &inv->bytes);
    }
    if (err) {
        key_release(inv, &like);
        return err;
    }
    err = shared_take(inv, &key_kind, &like, &key);
    if (err) return err;
    *ret_key = key;
    if (!(*ret_key)->birth) key_born(inv, key);
    return ERR_OK;
}

void key_give(struct inventory *inv, struct key *key)
{
    shared_give(inv, &key_kind, key);
}

const struct family *inventory_family(const struct inventory *inventory, struct str cluster,
                                      struct str fingerprint)
{
    struct cohort_cluster *c = cluster_find(inventory, cluster, text_hash(inventory, cluster));
    struct word *f = c ? word_find(inventory, fingerprint) : NULL;

    return f ? shared_find(inventory, &family_kind,
                           &(struct family){.cluster = c, .fingerprint = f})
             : NULL;
}

const struct key *inventory_key(const struct inventory *inventory, struct str cluster,
                                struct str fingerprint, struct str group)
{
    struct key like = {.family =
                           (struct family *)inventory_family(inventory, cluster, fingerprint)};

    if (!like.family) return NULL;
    if (group.len) {
        like.group = word_find(inventory, group);
        if (!like.group) return NULL;
    }
    return shared_find(inventory, &key_kind, &like);
}

/* --- stamps --- */

static double no_minus_zero(double dollars)
{
    return dollars == 0 ? 0 : dollars;
}

static void stamp_release(struct inventory *inv, void *thing)
{
    const struct stamp *stamp = thing;

    word_give(inv, stamp->fingerprint);
    word_give(inv, stamp->group);
}

static const struct shared_kind stamp_kind = {SHARED_KEY(stamp, fingerprint, priority),
                                              SHARED_TABLE(stamp, stamps),
                                              .release = stamp_release};

enum err stamp_take(struct inventory *inv, const struct machine_stamp *given,
                    struct stamp **ret_stamp)
{
    struct stamp like = {.priority = given->priority,
                         .interruption_dollars = no_minus_zero(given->interruption_dollars),
                         .reclamation_dollars = no_minus_zero(given->reclamation_dollars)};
    void *stamp = NULL;
    enum err err;

    *ret_stamp = NULL;
    if (!given->fingerprint.len && !given->group.len && !given->priority &&
        like.interruption_dollars == 0 && like.reclamation_dollars == 0) {
        return ERR_OK;
    }
    err = word_take(inv, given->fingerprint, &like.fingerprint);
    if (err) return err;
    err = word_take(inv, given->group, &like.group);
    if (err) {
        stamp_release(inv, &like);
        return err;
    }
    err = shared_take(inv, &stamp_kind, &like, &stamp);
    *ret_stamp = stamp;
    return err;
}

void stamp_give(struct inventory *inv, struct stamp *stamp)
{
    shared_give(inv, &stamp_kind, stamp);
}

/* --- promises --- */

static void promise_release(struct inventory *inv, void *thing)
{
    key_give(inv, ((const struct promise *)thing)->key);
}

static const struct shared_kind promise_kind = {SHARED_KEY(promise, key, priority),
                                                SHARED_TABLE(promise, promises),
                                                .release = promise_release};

enum err promise_take(struct inventory *inv, const struct machine_promise *given,
                      uint64_t idle_since_ms, struct promise **ret_promise)
{
    struct promise like = {
        .at = given->at, .idle_since_ms = idle_since_ms, .priority = given->priority};
    void *promise = NULL;
    enum err err;

    *ret_promise = NULL;
    if (!given->cluster.len) return ERR_OK;
    err = key_take(inv, given->cluster, given->fingerprint, given->group, &like.key);
    if (!err) err = shared_take(inv, &promise_kind, &like, &promise);
    *ret_promise = promise;
    return err;
}

void promise_give(struct inventory *inv, struct promise *promise)
{
    shared_give(inv, &promise_kind, promise);
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

enum err shape_take(struct inventory *inv, const struct machine *machine,
                    struct machine_shape **ret_shape)
{
    uint32_t hash =
        resources_hash(inv, &machine->resources) ^ resources_hash(inv, &machine->allocatable) * 17;
    struct machine_shape *shape;
    enum err err;

    TABLE_EACH(&inv->shapes, hash, link)
    {
        shape = CONTAINER_OF(link, struct machine_shape, link);
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

void shape_give(struct inventory *inv, struct machine_shape *shape)
{
    if (!shape || --shape->link.refs) return;
    table_remove(&inv->shapes, &shape->link);
    rooms_give(&inv->shape_slots, shape->slot);
    memory_give(&inv->bytes, shape, sizeof *shape);
}
