/* SPDX-License-Identifier: Apache-2.0 */
/* A timer heap: intrusive nodes ordered by due time, and by insertion if due times are equal. So
 * two timers for the same moment fire in the order they were started, in every run. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include "base/err.h"
#include "base/time.h"

/* Embedded in the caller's struct; must be zeroed before its first use. */
struct heap_node {
    uint64_t due, order;
    size_t place; /* 1-based index in the heap; 0 when detached */
};
struct heap {
    struct heap_node **nodes;
    size_t count, cap, max;
    uint64_t next_order;
};

void heap_init(struct heap *h, size_t max); /* allocates nothing */
void heap_deinit(struct heap *h);           /* detaches the remaining nodes */
/* Reserves memory for `count` nodes, so that heap_put() of up to `count` nodes cannot fail. Fails
 * with ERR_FULL or ERR_NOMEM. */
enum err heap_reserve(struct heap *h, size_t count);
/* Inserts the node, or fails with ERR_FULL or ERR_NOMEM and changes nothing. A node that is already
 * in the heap moves behind other nodes of the same due time; such a move cannot fail. */
enum err heap_put(struct heap *h, struct heap_node *node, uint64_t due);
void heap_remove(struct heap *h, struct heap_node *node); /* a detached node is allowed */
struct heap_node *heap_peek(const struct heap *h);        /* the node that is due first, or NULL */
/* Detaches and returns the earliest node with due <= now; NULL if there is none. */
struct heap_node *heap_pop_due(struct heap *h, uint64_t now);
#endif
