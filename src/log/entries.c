/* SPDX-License-Identifier: Apache-2.0 */
/* Entries with bytes in memory are always the newest ones, from `cached_first` on: bytes are
 * dropped from the front only. */
#include "log/entries.h"

#include <stdlib.h>
#include <string.h>

#include "log/slots.h"

enum { KIND_SHIFT = 28 }; /* in slot.length_and_kind the kind stands above it */
static_assert(ENTRY_BYTES_MAX < 1 << KIND_SHIFT, "length and kind share a number");

struct entries {
    struct slots slots;
    uint64_t first, last;  /* last + 1 == first when empty */
    uint64_t cached_first; /* first..last + 1 */
    size_t cached_bytes, cache_bytes;
    uint64_t end_before; /* `end` of the entry before first */
    uint64_t generation;
    bool fresh; /* nothing was ever in it: the first that is found says where it begins */
};

static struct entry_slot *slot_at(const struct entries *e, uint64_t index)
{
    assert(index >= e->first && index <= e->last);
    return slots_at(&e->slots, index);
}

static size_t slot_length(const struct entry_slot *slot)
{
    return slot->length_and_kind & ((1u << KIND_SHIFT) - 1);
}

static bool slot_placed(const struct entry_slot *slot)
{
    return slot->offset != 0;
}

static uint64_t end_of(const struct entries *e, uint64_t index)
{
    return index < e->first ? e->end_before : slot_at(e, index)->end;
}

enum err entries_open(size_t cache_bytes, uint64_t first, struct entries **ret_entries)
{
    struct entries *e = calloc(1, sizeof *e);

    assert(first > 0);
    if (!e) return ERR_NOMEM;
    e->cache_bytes = cache_bytes;
    slots_init(&e->slots, first);
    e->first = e->cached_first = first;
    e->last = first - 1;
    e->fresh = true;
    *ret_entries = e;
    return ERR_OK;
}

static void uncache(struct entries *e, struct entry_slot *slot)
{
    if (slot->bytes) e->cached_bytes -= slot_length(slot);
    free(slot->bytes);
    slot->bytes = NULL;
}

/* Removes the newest entries down to and with `index`. */
static void drop_from(struct entries *e, uint64_t index)
{
    while (e->last >= index && e->last >= e->first) {
        uncache(e, slot_at(e, e->last));
        e->last--;
    }
    if (e->cached_first > e->last + 1) e->cached_first = e->last + 1;
    slots_cut(&e->slots, e->last + 1);
}

/* Goes on after `index`, with nothing in it. */
static void restart(struct entries *e, uint64_t index)
{
    drop_from(e, e->first);
    e->end_before = 0;
    slots_deinit(&e->slots);
    slots_init(&e->slots, index + 1);
    e->first = e->cached_first = index + 1;
    e->last = index;
}

void entries_close(struct entries *entries)
{
    if (!entries) return;
    restart(entries, entries->last);
    slots_deinit(&entries->slots);
    free(entries);
}

uint64_t entries_first(const struct entries *entries)
{
    return entries->first;
}

uint64_t entries_last(const struct entries *entries)
{
    return entries->last;
}

size_t entries_bytes(const struct entries *entries)
{
    return entries->cached_bytes;
}

uint64_t entries_generation(const struct entries *entries)
{
    return entries->generation;
}

/* Puts the entry behind the last. The memory is all taken before anything is changed. */
static enum err push(struct entries *e, const struct entry *entry, const struct wal_place *place)
{
    char *bytes = NULL;
    struct entry_slot *slot;
    enum err err;

    assert(entry->index == e->last + 1);
    assert(entry->bytes.len <= ENTRY_BYTES_MAX);
    if (entry->bytes.len > 0) {
        bytes = malloc(entry->bytes.len);
        if (!bytes) return ERR_NOMEM;
        memcpy(bytes, entry->bytes.at, entry->bytes.len);
    }
    err = slots_reserve(&e->slots, e->last + 1);
    if (err) {
        free(bytes);
        return err;
    }
    uint64_t end = end_of(e, e->last) + record_size(entry->bytes.len);
    e->last++;
    slot = slot_at(e, e->last);
    *slot = (struct entry_slot){.bytes = bytes,
                                .term = entry->term,
                                .end = end,
                                .length_and_kind = (uint32_t)entry->bytes.len |
                                                   (uint32_t)entry->kind << KIND_SHIFT};
    e->cached_bytes += entry->bytes.len;
    e->fresh = false;
    if (place) entries_placed(e, e->last, place);
    return ERR_OK;
}

/* Makes entry `index` the next one to be appended. When memory then fails, what was replaced is
 * gone all the same: the caller stops for good. */
static void replace_from(struct entries *e, uint64_t index)
{
    if (index > e->last) return;
    drop_from(e, index);
    e->generation++;
}

enum err entries_append(struct entries *entries, const struct entry *entry)
{
    assert(entry->index >= entries->first && entry->index <= entries->last + 1);
    replace_from(entries, entry->index);
    return push(entries, entry, NULL);
}

enum err entries_found(struct entries *entries, const struct wal_found *found)
{
    const struct entry *entry = &found->entry;

    if (found->reset) {
        entries_reset(entries, entry->index);
        return ERR_OK;
    }
    if (entry->index == 0 || found->place.sequence > UINT32_MAX) return ERR_CORRUPT;
    /* The oldest segment left may begin with entries that were replaced further on, by ones whose
     * predecessors went with older segments: then the log begins at the replacement. */
    if (entries->fresh || entry->index < entries->first) {
        if (!entries->fresh) entries->generation++;
        restart(entries, entry->index - 1);
    } else if (entry->index > entries->last + 1)
        return ERR_CORRUPT;
    else
        replace_from(entries, entry->index);
    enum err err = push(entries, entry, &found->place);
    if (err) return err;
    entries_trim(entries, entries->last); /* all of it can be read again */
    return ERR_OK;
}

void entries_placed(struct entries *entries, uint64_t index, const struct wal_place *place)
{
    struct entry_slot *slot;

    assert(index <= entries->last);
    assert(place->offset != 0);
    assert(place->sequence <= UINT32_MAX); /* of 1 MiB each: more than any disk holds */
    if (index < entries->first) return;    /* compacted while it was being written */
    slot = slot_at(entries, index);
    assert(place->size == record_size(slot_length(slot)));
    slot->sequence = (uint32_t)place->sequence;
    slot->offset = place->offset;
}

bool entries_get(const struct entries *entries, uint64_t index, struct entry *ret_entry,
                 struct wal_place *ret_place)
{
    const struct entry_slot *slot;
    size_t length;

    if (index < entries->first || index > entries->last) return false;
    slot = slot_at(entries, index);
    length = slot_length(slot);
    *ret_entry = (struct entry){.index = index,
                                .term = slot->term,
                                .kind = (enum entry_kind)(slot->length_and_kind >> KIND_SHIFT),
                                .bytes = length ? (struct str){slot->bytes, length} : STR_EMPTY};
    *ret_place = slot_placed(slot) ? (struct wal_place){.sequence = slot->sequence,
                                                        .offset = slot->offset,
                                                        .size = (uint32_t)record_size(length)}
                                   : (struct wal_place){0};
    return true;
}

uint64_t entries_term(const struct entries *entries, uint64_t index)
{
    if (index < entries->first || index > entries->last) return 0;
    return slot_at(entries, index)->term;
}

void entries_forget_to(struct entries *entries, uint64_t index)
{
    if (index < entries->first) return;
    if (index >= entries->last) {
        uint64_t end = end_of(entries, entries->last);
        restart(entries, entries->last);
        entries->end_before = end;
        return;
    }
    entries->end_before = end_of(entries, index);
    for (uint64_t i = max_u64(entries->first, entries->cached_first); i <= index; i++)
        uncache(entries, slot_at(entries, i));
    entries->first = index + 1;
    entries->cached_first = max_u64(entries->cached_first, entries->first);
    slots_forget(&entries->slots, entries->first);
}

void entries_reset(struct entries *entries, uint64_t index)
{
    entries->generation++;
    restart(entries, index);
    entries->fresh = false;
}

void entries_trim(struct entries *entries, uint64_t durable_applied)
{
    while (entries->cached_bytes > entries->cache_bytes &&
           entries->cached_first <= min_u64(durable_applied, entries->last)) {
        struct entry_slot *slot = slot_at(entries, entries->cached_first);
        if (!slot_placed(slot)) return; /* nowhere else to read it */
        uncache(entries, slot);
        entries->cached_first++;
    }
}

uint64_t entries_log_bytes_since(const struct entries *entries, uint64_t index)
{
    if (index >= entries->last) return 0;
    return end_of(entries, entries->last) - end_of(entries, index);
}
