/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, creates and frees shared objects. An object in its table is complete and has at least one
 * reference. */
#include "shard/state/shared.h"

#include <string.h>

#include "base/memory.h"

static void *shared_at(const void *struct_, size_t offset)
{
    return (char *)struct_ + offset;
}

/* Hashes the text. The other key bytes vary the seed. */
static uint32_t shared_hash(const void *owner, const struct shared_kind *kind, const void *like,
                            struct str text)
{
    uint64_t seed = *(const uint64_t *)shared_at(owner, kind->seed), word;

    if (!kind->text) {
        size_t size = kind->hash_size ? kind->hash_size : kind->key_size;
        return (uint32_t)str_hash(str_of(shared_at(like, kind->key), size), seed);
    }
    for (size_t i = 0; i < kind->key_size; i += sizeof word) {
        memcpy(&word, shared_at(like, kind->key + i), sizeof word);
        seed = (seed ^ word) * 0x9E3779B97F4A7C15;
    }
    return (uint32_t)str_hash(text, seed);
}

static uint32_t shared_len(const struct shared_kind *kind, const void *object)
{
    return kind->text ? *(const uint32_t *)shared_at(object, kind->len) : 0;
}

static struct table_link *shared_look_up(const void *owner, const struct shared_kind *kind,
                                         const void *like, struct str text, uint32_t hash)
{
    const struct table *table = shared_at(owner, kind->table);

    TABLE_EACH(table, hash, link)
    {
        if (kind->key_size &&
            memcmp(shared_at(link, kind->key), shared_at(like, kind->key), kind->key_size) != 0) {
            continue;
        }
        if (!kind->text ||
            str_equal(str_of(shared_at(link, kind->text), shared_len(kind, link)), text)) {
            return link;
        }
    }
    return NULL;
}

void *shared_find(const void *owner, const struct shared_kind *kind, const void *like,
                  struct str text)
{
    return shared_look_up(owner, kind, like, text, shared_hash(owner, kind, like, text));
}

static enum err shared_make(void *owner, const struct shared_kind *kind, const void *like,
                            struct str text, uint32_t hash, struct table_link **ret_link)
{
    struct table *table = shared_at(owner, kind->table);
    struct slot_map *slots = kind->slots ? shared_at(owner, kind->slots) : NULL;
    uint64_t *bytes = shared_at(owner, kind->bytes);
    enum err err = table_reserve(table, bytes);
    struct table_link *link = err ? NULL : memory_take(bytes, kind->size + text.len);
    uint32_t len = (uint32_t)text.len;

    if (!link) return ERR_NOMEM;
    memcpy(link, like, kind->size);
    link->refs = 0;
    if (kind->text) memcpy(shared_at(link, kind->len), &len, sizeof len);
    if (len) memcpy(shared_at(link, kind->text), text.at, len);
    if (slots) err = slot_map_take(slots, link, shared_at(link, kind->slot), bytes);
    if (!err && kind->born) {
        err = kind->born(owner, link);
        if (err && slots) slot_map_give(slots, *(uint32_t *)shared_at(link, kind->slot));
    }
    if (err) {
        memory_give(bytes, link, kind->size + len);
        return err;
    }
    table_add(table, link, hash);
    *ret_link = link;
    return ERR_OK;
}

/* Releases what the object holds. */
static void shared_empty(void *owner, const struct shared_kind *kind, void *object)
{
    for (size_t i = 0; i < ARRAY_LEN(kind->parts) && kind->parts[i].kind; i++) {
        shared_give(owner, kind->parts[i].kind, *(void **)shared_at(object, kind->parts[i].offset));
    }
    if (kind->release) kind->release(owner, object);
}

enum err shared_take(enum err err, void *owner, const struct shared_kind *kind, void *own_like,
                     struct str text, void *ret_pointer)
{
    struct table_link *link = NULL;

    if (!err) {
        uint32_t hash = shared_hash(owner, kind, own_like, text);
        link = shared_look_up(owner, kind, own_like, text, hash);
        if (!link) err = shared_make(owner, kind, own_like, text, hash, &link);
    }
    /* release the parts of `own_like`: no new object owns them */
    if (err || link->refs) shared_empty(owner, kind, own_like);
    if (err) return err;
    link->refs++;
    memcpy(ret_pointer, &link, sizeof link);
    return ERR_OK;
}

void shared_give(void *owner, const struct shared_kind *kind, void *object)
{
    struct table_link *link = object;

    if (!link || --link->refs) return;
    if (kind->gone) kind->gone(owner, object);
    table_remove(shared_at(owner, kind->table), link);
    if (kind->slots)
        slot_map_give(shared_at(owner, kind->slots), *(uint32_t *)shared_at(object, kind->slot));
    shared_empty(owner, kind, object);
    memory_give(shared_at(owner, kind->bytes), link, kind->size + shared_len(kind, object));
}
