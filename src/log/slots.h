/* SPDX-License-Identifier: Apache-2.0 */
/* An array of slots by index that grows at its end and is forgotten from its front, without ever
 * moving one: what entries.c keeps of each entry. Millions of them come and go, and moving them all
 * when the array is full would hold the loop.
 *
 *     blocks: [ block 0 | block 1 | ... ]     slot of index i: number i - base
 *              ^base
 *
 * Pure memory. Which indexes mean something is the owner's. */
#ifndef LOG_SLOTS_H
#define LOG_SLOTS_H
#include "base/err.h"

struct entry_slot {
    char *bytes; /* NULL: not in memory, or there are none */
    uint64_t term;
    uint64_t end;             /* bytes on disk of all entries up to and with this one */
    uint32_t sequence;        /* of the segment; 0 with offset 0: not placed yet */
    uint32_t offset;          /* in the segment: never 0 for a record, its head stands there */
    uint32_t length_and_kind; /* see entries.c */
};
struct slots_block {
    struct entry_slot *slots;
};
struct slots {
    struct slots_block *blocks;
    size_t block_count, block_cap;
    uint64_t base; /* index of the first slot of the first block */
};
void slots_init(struct slots *slots, uint64_t base); /* takes no memory yet */
void slots_deinit(struct slots *slots);              /* frees no bytes */
/* Room for `index`, which is there already or the next one. The slot is not cleared. ERR_NOMEM. */
enum err slots_reserve(struct slots *slots, uint64_t index);
struct entry_slot *slots_at(const struct slots *slots, uint64_t index);
void slots_cut(struct slots *slots, uint64_t end);      /* from `end` on nothing is needed */
void slots_forget(struct slots *slots, uint64_t first); /* before `first` nothing is */
#endif
