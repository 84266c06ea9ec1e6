/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for many small objects that are freed together.
 *
 * An allocation beyond `max` bytes (with block headers) returns NULL, and earlier allocations stay
 * valid. An arena has one owner and is used by one thread. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include "base/str.h"

struct arena_block;
struct arena {
    struct arena_block *blocks; /* the first block serves the next allocation */
    size_t used, max;           /* bytes taken from the heap, and their limit */
};

void arena_init(struct arena *a, size_t max); /* allocates nothing */
void arena_deinit(struct arena *a);           /* accepts a zeroed arena; may be called twice */
/* Frees all allocations but keeps one block for the next ones. */
void arena_reset(struct arena *a);
/* Returns memory that is aligned for any type and not zeroed. NULL above the limit, or if memory
 * runs out. A size of 0 is valid. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_calloc(struct arena *a, size_t count, size_t size); /* zeroed; NULL on overflow */
char *arena_dup(struct arena *a, struct str s);                 /* adds a closing NUL */
#define ARENA_NEW(arena, type) ((type *)arena_calloc((arena), 1, sizeof(type)))
#endif
