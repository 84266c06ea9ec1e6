/* SPDX-License-Identifier: Apache-2.0 */
/* Looks: instance type, zone and labels. Machines with equal attributes share a look. Postings map
 * an attribute to its looks, so that a search is fast even if all machines look different. */
#include <string.h>

#include "base/memory.h"
#include "shard/state/vocabulary.h"

static void posting_gone(void *owner, void *object)
{
    struct inventory *inv = owner;
    struct posting *posting = object;

    assert(posting->count == 0);
    array_free(posting->looks, posting->cap, sizeof *posting->looks, &inv->label_bytes);
}

static const struct shared_kind posting_kind = {SHARED_KEY(posting, key, key),
                                                SHARED_TEXT(posting, value_len, value),
                                                SHARED_SLOTS(inventory, posting_slots, posting),
                                                .size = sizeof(struct posting),
                                                .table = offsetof(struct inventory, postings),
                                                .bytes = offsetof(struct inventory, label_bytes),
                                                .seed = offsetof(struct inventory, options.seed),
                                                .gone = posting_gone,
                                                .parts = {SHARED_PART(word_kind, posting, key)}};

static enum err posting_take(struct inventory *inv, struct str key, struct str value,
                             struct posting **ret_posting)
{
    struct posting like = {0};
    enum err err = word_take(inv, key, &like.key);

    return shared_take(err, inv, &posting_kind, &like, value, ret_posting);
}

const struct posting *inventory_posting(const struct inventory *inventory, struct str key,
                                        struct str value)
{
    struct posting like = {.key = word_find(inventory, key)};

    return like.key ? shared_find(inventory, &posting_kind, &like, value) : NULL;
}

/* --- looks --- */

static size_t look_size(uint32_t attribute_count)
{
    return sizeof(struct look) + attribute_count * (sizeof(struct posting *) + sizeof(uint32_t));
}

static uint32_t attribute_at(const struct look *look, const struct posting *posting, uint32_t place)
{
    uint32_t i = 0;

    while (look->postings[i] != posting || look_places(look)[i] != place) i++;
    return i;
}

static void attribute_unlist(const struct inventory *inv, struct look *look, uint32_t attribute)
{
    struct posting *posting = look->postings[attribute];
    uint32_t place = look_places(look)[attribute], last;
    const struct look *moved;

    if (!posting || place == LOOK_HIDDEN) return;
    last = --posting->count;
    if (place != last) {
        moved = posting_look(inv, posting, last);
        posting->looks[place] = posting->looks[last];
        look_places(moved)[attribute_at(moved, posting, last)] = place;
    }
    look_places(look)[attribute] = LOOK_HIDDEN;
}

static void look_free(struct inventory *inv, struct look *look)
{
    for (uint32_t i = 0; i < look->attribute_count; i++) {
        attribute_unlist(inv, look, i);
        shared_give(inv, &posting_kind, look->postings[i]);
    }
    memory_give(&inv->label_bytes, look, look_size(look->attribute_count));
}

/* A label with the name of type or zone is hidden if the machine's own field is set. */
static bool label_hidden(const struct look *look, struct str key)
{
    return (look->postings[LOOK_TYPE] && str_equal(key, LABEL_INSTANCE_TYPE)) ||
           (look->postings[LOOK_ZONE] && str_equal(key, LABEL_ZONE));
}

static enum err look_fill(struct inventory *inv, const struct attributes *given, struct look *look)
{
    struct str type_and_zone[LOOK_LABELS] = {given->instance_type, given->zone};
    struct str names[LOOK_LABELS] = {LABEL_INSTANCE_TYPE, LABEL_ZONE};
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < look->attribute_count && !err; i++) {
        bool is_label = i >= LOOK_LABELS;
        struct str key = is_label ? given->labels[i - LOOK_LABELS].key : names[i];
        struct str value = is_label ? given->labels[i - LOOK_LABELS].value : type_and_zone[i];
        struct posting *posting = NULL;

        if (!is_label && !value.len) continue;
        err = posting_take(inv, key, value, &posting);
        if (err) break;
        look->postings[i] = posting;
        if (is_label && label_hidden(look, key)) continue;
        err = array_reserve(&posting->looks, posting->count, &posting->cap, sizeof *posting->looks,
                            &inv->label_bytes);
        if (err) break;
        look_places(look)[i] = posting->count;
        posting->looks[posting->count++] = look->slot;
    }
    return err;
}

bool look_is(const struct look *look, const struct attributes *given)
{
    const struct posting *type = look->postings[LOOK_TYPE];
    const struct posting *zone = look->postings[LOOK_ZONE];

    if (look->attribute_count - LOOK_LABELS != given->label_count ||
        !str_equal(type ? posting_value(type) : STR_EMPTY, given->instance_type) ||
        !str_equal(zone ? posting_value(zone) : STR_EMPTY, given->zone)) {
        return false;
    }
    for (size_t i = 0; i < given->label_count; i++) {
        const struct posting *posting = look->postings[LOOK_LABELS + i];
        if (!str_equal(word_text(posting->key), given->labels[i].key) ||
            !str_equal(posting_value(posting), given->labels[i].value)) {
            return false;
        }
    }
    return true;
}

static uint32_t look_hash(const struct inventory *inv, const struct attributes *given)
{
    uint64_t hash = str_hash(given->instance_type, inv->options.seed);

    hash = hash * 31 + str_hash(given->zone, inv->options.seed);
    for (size_t i = 0; i < given->label_count; i++) {
        hash = hash * 31 + str_hash(given->labels[i].key, inv->options.seed);
        hash = hash * 31 + str_hash(given->labels[i].value, inv->options.seed);
    }
    return (uint32_t)(hash ^ hash >> 32);
}

struct look_brief look_brief_of(const struct look *look)
{
    const struct posting *type = look_find(look, LABEL_INSTANCE_TYPE);
    const struct posting *zone = look_find(look, LABEL_ZONE);
    struct look_brief brief = {.type = type ? type->slot : SLOT_NONE,
                               .zone = zone ? zone->slot : SLOT_NONE};

    for (uint32_t i = 0; i < look->attribute_count; i++) {
        if (look->postings[i]) brief.marks |= posting_mark(look->postings[i]);
    }
    return brief;
}

enum err look_take(struct inventory *inv, const struct attributes *attributes,
                   struct look **ret_look)
{
    uint32_t hash = look_hash(inv, attributes);
    uint32_t count = LOOK_LABELS + (uint32_t)attributes->label_count;
    struct look *look;
    enum err err;

    TABLE_EACH(&inv->looks, hash, link)
    {
        look = CONTAINER_OF(link, struct look, link);
        if (look_is(look, attributes)) {
            look->link.refs++;
            *ret_look = look;
            return ERR_OK;
        }
    }
    err = table_reserve(&inv->looks, &inv->label_bytes);
    if (!err) {
        err = array_reserve(&inv->look_briefs, inv->look_slots.used, &inv->look_briefs_cap,
                            sizeof *inv->look_briefs, &inv->label_bytes);
    }
    look = err ? NULL : memory_take(&inv->label_bytes, look_size(count));
    if (!look) return ERR_NOMEM;
    memset(look, 0, look_size(count));
    look->attribute_count = count;
    for (uint32_t i = 0; i < count; i++) look_places(look)[i] = LOOK_HIDDEN;
    err = slot_map_take(&inv->look_slots, look, &look->slot, &inv->label_bytes);
    if (!err) {
        err = look_fill(inv, attributes, look);
        if (err) slot_map_give(&inv->look_slots, look->slot);
    }
    if (err) {
        look_free(inv, look);
        return err;
    }
    inv->looks_version++;
    inv->look_briefs[look->slot] = look_brief_of(look);
    look->link.refs = 1;
    table_add(&inv->looks, &look->link, hash);
    *ret_look = look;
    return ERR_OK;
}

void look_give(struct inventory *inv, struct look *look)
{
    if (!look || --look->link.refs) return;
    table_remove(&inv->looks, &look->link);
    slot_map_give(&inv->look_slots, look->slot);
    inv->looks_version++;
    for (int i = 0; i < POOL_COUNT; i++) {
        assert(look->pools[i].count == 0);
        array_free(look->pools[i].at, look->pools[i].cap, sizeof *look->pools[i].at, &inv->bytes);
    }
    look_free(inv, look);
}

const struct posting *look_find(const struct look *look, struct str key)
{
    uint32_t low = LOOK_LABELS, high = look->attribute_count;
    const struct posting *found;

    found = look->postings[LOOK_TYPE];
    if (found && str_equal(key, LABEL_INSTANCE_TYPE)) return found;
    found = look->postings[LOOK_ZONE];
    if (found && str_equal(key, LABEL_ZONE)) return found;
    while (low < high) { /* labels are sorted by key */
        uint32_t middle = low + (high - low) / 2;
        int order;
        found = look->postings[middle];
        order = str_compare(word_text(found->key), key);
        if (order == 0) return found;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

enum err look_attributes(const struct look *look, struct arena *arena,
                         struct attributes *ret_attributes)
{
    const struct posting *type = look->postings[LOOK_TYPE];
    const struct posting *zone = look->postings[LOOK_ZONE];
    size_t count = look->attribute_count - LOOK_LABELS;
    struct label *labels = arena_alloc(arena, count * sizeof *labels);

    if (!labels) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct posting *posting = look->postings[LOOK_LABELS + i];
        labels[i] = (struct label){word_text(posting->key), posting_value(posting)};
    }
    *ret_attributes = (struct attributes){.instance_type = type ? posting_value(type) : STR_EMPTY,
                                          .zone = zone ? posting_value(zone) : STR_EMPTY,
                                          .labels = labels,
                                          .label_count = count};
    return ERR_OK;
}
