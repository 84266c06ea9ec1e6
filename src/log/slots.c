/* SPDX-License-Identifier: Apache-2.0 */
/* The array of entries in blocks. Invariant: a slot never moves while its index is kept. Pure
 * memory. */
#include "log/slots.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_SLOTS = 1024 };

void slots_init(struct slots *slots, uint64_t base)
{
    *slots = (struct slots){.base = base};
}

void slots_deinit(struct slots *slots)
{
    slots_cut(slots, slots->base);
    free(slots->blocks);
    *slots = (struct slots){0};
}

struct entry_slot *slots_at(const struct slots *slots, uint64_t index)
{
    uint64_t number = index - slots->base;

    assert(index >= slots->base && number / BLOCK_SLOTS < slots->block_count);
    return &slots->blocks[number / BLOCK_SLOTS].slots[number % BLOCK_SLOTS];
}

enum err slots_reserve(struct slots *slots, uint64_t index)
{
    uint64_t block = (index - slots->base) / BLOCK_SLOTS;
    struct entry_slot *more;

    assert(index >= slots->base && block <= slots->block_count);
    if (block < slots->block_count) return ERR_OK;
    if (slots->block_count == slots->block_cap) {
        size_t cap = slots->block_cap ? slots->block_cap * 2 : 8;
        struct slots_block *blocks = realloc(slots->blocks, cap * sizeof *blocks);
        if (!blocks) return ERR_NOMEM;
        slots->blocks = blocks;
        slots->block_cap = cap;
    }
    more = malloc(BLOCK_SLOTS * sizeof *more);
    if (!more) return ERR_NOMEM;
    slots->blocks[slots->block_count++].slots = more;
    return ERR_OK;
}

void slots_cut(struct slots *slots, uint64_t end)
{
    assert(end >= slots->base);
    while (slots->block_count > 0 && (slots->block_count - 1) * BLOCK_SLOTS >= end - slots->base)
        free(slots->blocks[--slots->block_count].slots);
}

void slots_forget(struct slots *slots, uint64_t first)
{
    size_t dead = min_size((size_t)((first - slots->base) / BLOCK_SLOTS), slots->block_count);

    assert(first >= slots->base);
    if (dead == 0) return;
    for (size_t i = 0; i < dead; i++) free(slots->blocks[i].slots);
    slots->block_count -= dead;
    memmove(slots->blocks, slots->blocks + dead, slots->block_count * sizeof slots->blocks[0]);
    slots->base += (uint64_t)dead * BLOCK_SLOTS;
}
