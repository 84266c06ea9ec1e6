/* SPDX-License-Identifier: Apache-2.0 */
/* A profile is copied into one block, texts behind structs; its requirements stand in the set. */
#include "shard/state/kinds.h"

#include <stdalign.h>
#include <string.h>

#include "base/memory.h"

/* Cuts a block into pieces. With `at` NULL it only counts what would be needed. */
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

static uint32_t text_hash(const struct needs *needs, struct str text)
{
    return (uint32_t)str_hash(text, needs->options.seed);
}

/* --- sets --- */

static struct requirement_set *set_lay_out(struct cutter *c, const struct profile *p,
                                           struct str text)
{
    struct requirement_set *set = cut(c, sizeof *set, alignof(max_align_t));
    struct requirement *list =
        cut(c, p->requirement_count * sizeof *list, alignof(struct requirement));

    for (size_t i = 0; i < p->requirement_count; i++) {
        const struct requirement *from = &p->requirements[i];
        struct str *values = cut(c, from->value_count * sizeof *values, alignof(struct str));
        struct str key = cut_text(c, from->key);
        for (size_t k = 0; k < from->value_count; k++) {
            struct str value = cut_text(c, from->values[k]);
            if (values) values[k] = value;
        }
        if (list) list[i] = (struct requirement){key, from->op, values, from->value_count};
    }
    text = cut_text(c, text);
    if (!set) return NULL;
    memset(set, 0, sizeof *set);
    set->text = text;
    set->requirements = list;
    set->count = p->requirement_count;
    return set;
}

/* The part of a fingerprint that names the requirements; no '|' stands inside a part. */
static struct str set_text(struct str fingerprint)
{
    struct str rest = fingerprint, part = STR_EMPTY;

    while (str_split(&rest, '|', &part))
        if (str_starts(part, STR("reqs="))) return part;
    return fingerprint;
}

static void set_give(struct needs *needs, struct requirement_set *set)
{
    if (!set || --set->link.refs) return;
    table_remove(&needs->sets, &set->link);
    rooms_give(&needs->set_slots, set->slot);
    memory_give(&needs->bytes, set, set->size);
}

static enum err set_take(struct needs *needs, const struct profile *p,
                         struct requirement_set **ret_set)
{
    struct str text = set_text(p->fingerprint);
    uint32_t hash = text_hash(needs, text);
    struct requirement_set *set;
    struct cutter c = {0};
    size_t size;
    enum err err;

    TABLE_EACH(&needs->sets, hash, link)
    {
        set = CONTAINER_OF(link, struct requirement_set, link);
        if (!str_equal(set->text, text)) continue;
        set->link.refs++;
        *ret_set = set;
        return ERR_OK;
    }
    err = table_reserve(&needs->sets, &needs->bytes);
    if (err) return err;
    (void)set_lay_out(&c, p, text);
    size = c.used;
    c = (struct cutter){memory_take(&needs->bytes, size), 0};
    if (!c.at) return ERR_NOMEM;
    set = set_lay_out(&c, p, text);
    set->size = size;
    err = rooms_take(&needs->set_slots, set, &set->slot, &needs->bytes);
    if (err) {
        memory_give(&needs->bytes, set, size);
        return err;
    }
    set->birth = ++needs->births;
    set->link.refs = 1;
    table_add(&needs->sets, &set->link, hash);
    *ret_set = set;
    return ERR_OK;
}

/* --- kinds --- */

static struct kind *kind_lay_out(struct cutter *c, const struct profile *p)
{
    struct kind *kind = cut(c, sizeof *kind, alignof(max_align_t));
    struct spread *spreads = cut(c, p->spread_count * sizeof *spreads, alignof(struct spread));
    struct str fingerprint;

    for (size_t i = 0; i < p->spread_count; i++) {
        struct str key = cut_text(c, p->spreads[i].key);
        if (!spreads) continue;
        spreads[i] = p->spreads[i];
        spreads[i].key = key;
    }
    fingerprint = cut_text(c, p->fingerprint);
    if (!kind) return NULL;
    memset(kind, 0, sizeof *kind);
    kind->profile = *p;
    kind->profile.spreads = spreads;
    kind->profile.fingerprint = fingerprint;
    return kind;
}

static enum err kind_copy(struct needs *needs, const struct profile *p, struct kind **ret_kind)
{
    struct requirement_set *set;
    struct kind *kind;
    struct cutter c = {0};
    size_t size;
    enum err err = set_take(needs, p, &set);

    if (err) return err;
    (void)kind_lay_out(&c, p);
    size = c.used;
    c = (struct cutter){memory_take(&needs->bytes, size), 0};
    if (!c.at) {
        set_give(needs, set);
        return ERR_NOMEM;
    }
    kind = kind_lay_out(&c, p);
    kind->size = size;
    kind->set = set;
    kind->profile.requirements = set->requirements;
    kind->same = profile_same(&kind->profile);
    kind->spread = kind->same ? NULL : profile_strict_spread(&kind->profile);
    *ret_kind = kind;
    return ERR_OK;
}

static void kind_free(struct needs *needs, struct kind *kind)
{
    kind_give(needs, kind->stripped);
    set_give(needs, kind->set);
    memory_give(&needs->bytes, kind, kind->size);
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

static struct kind *kind_known(const struct needs *needs, struct str fingerprint, uint32_t hash)
{
    TABLE_EACH(&needs->kinds, hash, link)
    {
        struct kind *kind = CONTAINER_OF(link, struct kind, link);
        if (str_equal(kind->profile.fingerprint, fingerprint)) return kind;
    }
    return NULL;
}

enum err kind_take(struct needs *needs, const struct profile *profile, struct kind **ret_kind)
{
    uint32_t hash = text_hash(needs, profile->fingerprint);
    struct kind *kind = kind_known(needs, profile->fingerprint, hash);
    enum err err;

    if (kind) {
        kind->link.refs++;
        *ret_kind = kind;
        return ERR_OK;
    }
    err = kind_copy(needs, profile, &kind);
    if (err) return err;
    if (kind->same) err = kind_strip(needs, kind);
    if (!err) err = table_reserve(&needs->kinds, &needs->bytes);
    if (!err) err = rooms_take(&needs->kind_slots, kind, &kind->slot, &needs->bytes);
    if (err) {
        kind_free(needs, kind);
        return err;
    }
    kind->birth = ++needs->births;
    kind->link.refs = 1;
    table_add(&needs->kinds, &kind->link, hash);
    *ret_kind = kind;
    return ERR_OK;
}

void kind_give(struct needs *needs, struct kind *kind)
{
    if (!kind || --kind->link.refs) return;
    table_remove(&needs->kinds, &kind->link);
    rooms_give(&needs->kind_slots, kind->slot);
    kind_free(needs, kind);
}

/* --- for whoever acts --- */

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
    kind_give(needs, kind);
}

const struct kind *kind_find(const struct needs *needs, struct str fingerprint)
{
    return kind_known(needs, fingerprint, text_hash(needs, fingerprint));
}
