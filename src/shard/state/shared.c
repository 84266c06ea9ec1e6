/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/state/shared.h"

#include <string.h>

#include "base/memory.h"

static void *shared_at(const void *struct_, size_t offset)
{
    return (char *)struct_ + offset;
}

static uint32_t shared_hash(const void *owner, const struct shared_kind *kind, const void *like,
                            struct str text)
{
    uint64_t hash = *(const uint64_t *)shared_at(owner, kind->seed);

    if (kind->key_size) hash = str_hash(str_of(shared_at(like, kind->key), kind->key_size), hash);
    return (uint32_t)(kind->text ? str_hash(text, hash) : hash);
}

static uint32_t shared_len(const struct shared_kind *kind, const void *thing)
{
    return kind->text ? *(const uint32_t *)shared_at(thing, kind->len) : 0;
}

void *shared_find(const void *owner, const struct shared_kind *kind, const void *like,
                  struct str text)
{
    const struct table *table = shared_at(owner, kind->table);

    TABLE_EACH(table, shared_hash(owner, kind, like, text), link)
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

/* `like` becomes what it is when it is born. */
static enum err shared_make(void *owner, const struct shared_kind *kind, const void *like,
                            struct str text, struct table_link **ret_link)
{
    struct table *table = shared_at(owner, kind->table);
    struct rooms *slots = kind->slots ? shared_at(owner, kind->slots) : NULL;
    uint64_t *bytes = shared_at(owner, kind->bytes);
    enum err err = table_reserve(table, bytes);
    struct table_link *link = err ? NULL : memory_take(bytes, kind->size + text.len);
    uint32_t len = (uint32_t)text.len;

    if (!link) return ERR_NOMEM;
    memcpy(link, like, kind->size);
    link->refs = 0;
    if (kind->text) memcpy(shared_at(link, kind->len), &len, sizeof len);
    if (len) memcpy(shared_at(link, kind->text), text.at, len);
    if (slots) err = rooms_take(slots, link, shared_at(link, kind->slot), bytes);
    if (!err && kind->born) {
        err = kind->born(owner, link);
        if (err && slots) rooms_give(slots, *(uint32_t *)shared_at(link, kind->slot));
    }
    if (err) {
        memory_give(bytes, link, kind->size + len);
        return err;
    }
    table_add(table, link, shared_hash(owner, kind, link, text));
    *ret_link = link;
    return ERR_OK;
}

enum err shared_take(void *owner, const struct shared_kind *kind, void *own_like, struct str text,
                     void **ret_thing)
{
    struct table_link *link = shared_find(owner, kind, own_like, text);
    enum err err = link ? ERR_OK : shared_make(owner, kind, own_like, text, &link);

    if ((err || link->refs) && kind->release) kind->release(owner, own_like); /* not taken over */
    if (err) return err;
    link->refs++;
    *ret_thing = link;
    return ERR_OK;
}

void shared_give(void *owner, const struct shared_kind *kind, void *thing)
{
    struct table_link *link = thing;

    if (!link || --link->refs) return;
    if (kind->gone) kind->gone(owner, thing);
    table_remove(shared_at(owner, kind->table), link);
    if (kind->slots)
        rooms_give(shared_at(owner, kind->slots), *(uint32_t *)shared_at(thing, kind->slot));
    if (kind->release) kind->release(owner, thing);
    memory_give(shared_at(owner, kind->bytes), link, kind->size + shared_len(kind, thing));
}
