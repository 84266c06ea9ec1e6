/* SPDX-License-Identifier: Apache-2.0 */
/* Heap memory with a byte counter, exact except for the allocator's own overhead. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
#include <stdlib.h>

#include "base/base.h"

static inline uint64_t memory_cost(size_t size)
{
    return ((uint64_t)size + 8 + 15) / 16 * 16; /* malloc(): a header of 8 bytes, steps of 16 */
}

static inline void *memory_take(uint64_t *bytes, size_t size)
{
    void *memory = malloc(size);

    if (memory) *bytes += memory_cost(size);
    return memory;
}

static inline void memory_give(uint64_t *bytes, void *memory, size_t size)
{
    assert(*bytes >= memory_cost(size));
    *bytes -= memory_cost(size);
    free(memory);
}
#endif
