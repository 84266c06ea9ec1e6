/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for many small objects that die together: one bump pointer, one reset.
 *
 * Bounded: past `max` bytes (block headers included) an allocation answers NULL, and what was taken
 * before stays valid. One owner, one thread. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include "base/str.h"

struct arena_block;
struct arena {
    struct arena_block *blocks; /* the one that serves next comes first */
    size_t used, max;           /* bytes taken from the heap; its ceiling */
};

void arena_init(struct arena *a, size_t max); /* takes no memory yet */
void arena_deinit(struct arena *a);           /* fine on a zeroed one, and twice */
/* Forgets everything but keeps one block, so a loop of small jobs does not touch the heap. */
void arena_reset(struct arena *a);
/* Aligned for any type; not cleared. NULL past the ceiling or out of memory. size 0 is valid. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_calloc(struct arena *a, size_t count, size_t size); /* cleared; overflow gives NULL */
char *arena_dup(struct arena *a, struct str s);                 /* with a closing NUL */
#define ARENA_NEW(arena, type) ((type *)arena_calloc((arena), 1, sizeof(type)))
#endif
