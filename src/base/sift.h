/* SPDX-License-Identifier: Apache-2.0 */
/* Binary heaps in plain arrays: no item comes before the top item. Inlined, so that the compiler
 * knows the item size and the comparison. */
#ifndef BASE_SIFT_H
#define BASE_SIFT_H
#include <stdalign.h>
#include <string.h>

#include "base/base.h"

enum { SIFT_ITEM_MAX = 32 }; /* bytes of an item */
typedef bool sift_before(const void *context, const void *a, const void *b);

__attribute__((always_inline)) static inline void sift_down(void *items, size_t size, size_t count,
                                                            size_t at, sift_before *before,
                                                            const void *context)
{
    alignas(max_align_t) char moved[SIFT_ITEM_MAX];
    char *base = items;

    assert(size <= sizeof moved);
    memcpy(moved, base + at * size, size);
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && before(context, base + (child + 1) * size, base + child * size))
            child++;
        if (!before(context, base + child * size, moved)) break;
        memcpy(base + at * size, base + child * size, size);
        at = child;
    }
    memcpy(base + at * size, moved, size);
}

__attribute__((always_inline)) static inline void sift_up(void *items, size_t size, size_t at,
                                                          sift_before *before, const void *context)
{
    alignas(max_align_t) char moved[SIFT_ITEM_MAX];
    char *base = items;

    assert(size <= sizeof moved);
    memcpy(moved, base + at * size, size);
    for (; at > 0 && before(context, moved, base + (at - 1) / 2 * size); at = (at - 1) / 2)
        memcpy(base + at * size, base + (at - 1) / 2 * size, size);
    memcpy(base + at * size, moved, size);
}

__attribute__((always_inline)) static inline void sift_all(void *items, size_t size, size_t count,
                                                           sift_before *before, const void *context)
{
    for (size_t i = count / 2; i-- > 0;) sift_down(items, size, count, i, before, context);
}
#endif
