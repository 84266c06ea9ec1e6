/* SPDX-License-Identifier: Apache-2.0 */
/* A timer heap. Nodes are ordered by due time, then by insertion: timers for the same moment fire
 * in the order of their start. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include "base/err.h"
#include "base/time.h"

/* Part of the caller's struct. Must be zeroed before its first use. */
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
/* Reserves memory for `count` nodes in all: heap_put() cannot fail up to this number. ERR_FULL or
 * ERR_NOMEM. */
enum err heap_reserve(struct heap *h, size_t count);
/* Inserts the node, or changes nothing and returns ERR_FULL or ERR_NOMEM. Moving a node that is
 * already in the heap cannot fail: the node goes behind others of the same due time. */
enum err heap_put(struct heap *h, struct heap_node *node, uint64_t due);
void heap_remove(struct heap *h, struct heap_node *node); /* a detached node is allowed */
struct heap_node *heap_peek(const struct heap *h);        /* NULL if the heap is empty */
/* Detaches and returns the earliest node with due <= now, or NULL. */
struct heap_node *heap_pop_due(struct heap *h, uint64_t now);
#endif
