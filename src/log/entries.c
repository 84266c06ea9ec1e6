/* SPDX-License-Identifier: Apache-2.0 */
/* The log in memory (entries.h). Invariant: only the newest entries, from `cached_first` on,
 * have bytes in memory. */
#include "log/entries.h"

#include <stdlib.h>
#include <string.h>

enum { KIND_SHIFT = 28 };
static_assert(ENTRY_BYTES_MAX < 1 << KIND_SHIFT, "length and kind share a number");

/* -- the array of slots ------------------------------------------------------------------------
 *
 * A slot never moves, because moving millions of slots would block the loop.
 *
 *     blocks: [ block 0 | block 1 | ... ]     slot of index i: number i - base
 *              ^base */

enum { BLOCK_SLOTS = 1024 };
struct entry_slot {
    char *bytes; /* NULL: not in memory, or empty */
    uint64_t term;
    uint64_t end;             /* bytes on disk of all entries up to this one */
    uint32_t sequence;        /* number of the segment; valid if offset is not 0 */
    uint32_t offset;          /* position in the segment; 0: not on disk yet */
    uint32_t length_and_kind; /* the kind is in the bits from KIND_SHIFT on */
};
struct slots {
    struct entry_slot **blocks;
    size_t block_count, block_cap;
    uint64_t base;
};

/* Frees blocks whose slots are all at `end` or later. */
static void slots_cut(struct slots *slots, uint64_t end)
{
    assert(end >= slots->base);
    while (slots->block_count > 0 && (slots->block_count - 1) * BLOCK_SLOTS >= end - slots->base)
        free(slots->blocks[--slots->block_count]);
}

/* Frees all blocks, but not the bytes of entries. */
static void slots_restart(struct slots *slots, uint64_t base)
{
    slots_cut(slots, slots->base);
    free(slots->blocks);
    *slots = (struct slots){.base = base};
}

static struct entry_slot *slots_at(const struct slots *slots, uint64_t index)
{
    uint64_t number = index - slots->base;

    assert(index >= slots->base && number / BLOCK_SLOTS < slots->block_count);
    return &slots->blocks[number / BLOCK_SLOTS][number % BLOCK_SLOTS];
}

/* `index` exists or is the next index. Does not clear the slot. */
static enum err slots_reserve(struct slots *slots, uint64_t index)
{
    uint64_t block = (index - slots->base) / BLOCK_SLOTS;
    struct entry_slot *more;

    assert(index >= slots->base && block <= slots->block_count);
    if (block < slots->block_count) return ERR_OK;
    if (slots->block_count == slots->block_cap) {
        size_t cap = slots->block_cap ? slots->block_cap * 2 : 8;
        struct entry_slot **blocks = realloc(slots->blocks, cap * sizeof *blocks);
        if (!blocks) return ERR_NOMEM;
        slots->blocks = blocks;
        slots->block_cap = cap;
    }
    more = malloc(BLOCK_SLOTS * sizeof *more);
    if (!more) return ERR_NOMEM;
    slots->blocks[slots->block_count++] = more;
    return ERR_OK;
}

/* Frees blocks whose slots are all before `first`. */
static void slots_forget(struct slots *slots, uint64_t first)
{
    size_t dead = min_size((size_t)((first - slots->base) / BLOCK_SLOTS), slots->block_count);

    assert(first >= slots->base);
    if (dead == 0) return;
    for (size_t i = 0; i < dead; i++) free(slots->blocks[i]);
    slots->block_count -= dead;
    memmove(slots->blocks, slots->blocks + dead, slots->block_count * sizeof slots->blocks[0]);
    slots->base += (uint64_t)dead * BLOCK_SLOTS;
}

/* -- the entries ------------------------------------------------------------------------------- */

struct entries {
    struct slots slots;
    uint64_t first, last;  /* empty log: last + 1 == first */
    uint64_t cached_first; /* entries from here on have bytes in memory; at most last + 1 */
    size_t cached_bytes, cache_bytes;
    uint64_t end_before; /* `end` of the entry before `first` */
    bool fresh;          /* the first entry read sets `first` */
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

static uint64_t end_of(const struct entries *e, uint64_t index)
{
    return index < e->first ? e->end_before : slot_at(e, index)->end;
}

static void uncache(struct entries *e, struct entry_slot *slot)
{
    if (slot->bytes) e->cached_bytes -= slot_length(slot);
    free(slot->bytes);
    slot->bytes = NULL;
}

/* Removes `index` and all later entries. */
static void drop_from(struct entries *e, uint64_t index)
{
    while (e->last >= index && e->last >= e->first) {
        uncache(e, slot_at(e, e->last));
        e->last--;
    }
    if (e->cached_first > e->last + 1) e->cached_first = e->last + 1;
    slots_cut(&e->slots, e->last + 1);
}

/* The emptied log continues after `index`. */
static void restart(struct entries *e, uint64_t index)
{
    drop_from(e, e->first);
    e->end_before = 0;
    slots_restart(&e->slots, index + 1);
    e->first = e->cached_first = index + 1;
    e->last = index;
}

enum err entries_open(size_t cache_bytes, uint64_t first, struct entries **ret_entries)
{
    struct entries *e = calloc(1, sizeof *e);

    assert(first > 0);
    if (!e) return ERR_NOMEM;
    e->cache_bytes = cache_bytes;
    e->first = 1;
    restart(e, first - 1);
    e->fresh = true;
    *ret_entries = e;
    return ERR_OK;
}

void entries_close(struct entries *entries)
{
    if (!entries) return;
    restart(entries, entries->last);
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

/* Allocates all memory before anything changes. */
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

/* Makes `index` the next index to append. If an allocation fails then, the caller stops the
 * replica. */
static void replace_from(struct entries *e, uint64_t index)
{
    if (index <= e->last) drop_from(e, index);
}

enum err entries_append(struct entries *entries, const struct entry *entry)
{
    assert(entry->index >= entries->first && entry->index <= entries->last + 1);
    replace_from(entries, entry->index);
    return push(entries, entry, NULL);
}

enum err entries_found(void *context, const struct wal_found *found)
{
    struct entries *entries = context;
    const struct entry *entry = &found->entry;

    if (found->reset) {
        entries_reset(entries, entry->index);
        return ERR_OK;
    }
    if (entry->index == 0 || found->place.sequence > UINT32_MAX) return ERR_CORRUPT;
    /* An entry with a lower index replaces all entries read before, which the oldest segment may
     * still have. The log then begins at this entry. */
    if (entries->fresh || entry->index < entries->first) {
        restart(entries, entry->index - 1);
    } else if (entry->index > entries->last + 1)
        return ERR_CORRUPT;
    else
        replace_from(entries, entry->index);
    enum err err = push(entries, entry, &found->place);
    if (err) return err;
    entries_trim(entries, entries->last);
    return ERR_OK;
}

void entries_placed(struct entries *entries, uint64_t index, const struct wal_place *place)
{
    struct entry_slot *slot;

    assert(index <= entries->last);
    assert(place->offset != 0);
    assert(place->sequence <= UINT32_MAX); /* 2^32 segments of 1 MiB exceed any disk */
    if (index < entries->first) return;    /* compacted during the write */
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
    *ret_place = slot->offset ? (struct wal_place){.sequence = slot->sequence,
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
    restart(entries, index);
    entries->fresh = false;
}

void entries_trim(struct entries *entries, uint64_t durable_applied)
{
    while (entries->cached_bytes > entries->cache_bytes &&
           entries->cached_first <= min_u64(durable_applied, entries->last)) {
        struct entry_slot *slot = slot_at(entries, entries->cached_first);
        if (!slot->offset) return; /* not on disk yet: memory has the only copy */
        uncache(entries, slot);
        entries->cached_first++;
    }
}

uint64_t entries_log_bytes_since(const struct entries *entries, uint64_t index)
{
    if (index >= entries->last) return 0;
    return end_of(entries, entries->last) - end_of(entries, index);
}
