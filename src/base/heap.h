/* SPDX-License-Identifier: Apache-2.0 */
/* A timer heap: intrusive nodes ordered by due time, and by insertion where times are equal, so
 * that two timers for the same moment fire in the order they were started, in every run. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include "base/err.h"
#include "base/time.h"

/* Embedded in the caller's struct; zeroed before its first use. */
struct heap_node {
    uint64_t due, order;
    size_t place; /* 1-based index in the heap; 0 when detached */
};
struct heap {
    struct heap_node **nodes;
    size_t count, cap, max;
    uint64_t next_order;
};

void heap_init(struct heap *h, size_t max); /* takes no memory yet */
void heap_deinit(struct heap *h);           /* detaches whatever is left */
/* Takes room for `count` nodes now, so that inserting up to it cannot fail. ERR_FULL, ERR_NOMEM. */
enum err heap_reserve(struct heap *h, size_t count);
/* A node that is in already is moved, behind those of the same time. ERR_FULL, ERR_NOMEM: only for
 * a node that was not in; it stays out and nothing else changes. */
enum err heap_put(struct heap *h, struct heap_node *node, uint64_t due);
void heap_remove(struct heap *h, struct heap_node *node); /* fine when detached */
struct heap_node *heap_peek(const struct heap *h);        /* earliest, or NULL */
/* The earliest with due <= now, detached; NULL when there is none. */
struct heap_node *heap_pop_due(struct heap *h, uint64_t now);
#endif
