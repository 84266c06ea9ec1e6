/* SPDX-License-Identifier: Apache-2.0 */
/* The timer heap: an array of pointers. Each node contains its index. */
#include "base/heap.h"

#include <stdlib.h>

enum {
    ARITY = 4, /* children per node: half the levels of a binary heap */
    HEAP_CAP_FIRST = 16,
};

static bool earlier(const struct heap_node *a, const struct heap_node *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void place_at(struct heap *h, size_t index, struct heap_node *node)
{
    h->nodes[index] = node;
    node->place = index + 1;
}

static void sift_up(struct heap *h, size_t index, struct heap_node *node)
{
    while (index > 0) {
        size_t parent = (index - 1) / ARITY;
        if (!earlier(node, h->nodes[parent])) break;
        place_at(h, index, h->nodes[parent]);
        index = parent;
    }
    place_at(h, index, node);
}

static void sift_down(struct heap *h, size_t index, struct heap_node *node)
{
    for (;;) { /* ends: index grows in each round */
        size_t child = index * ARITY + 1, end = min_size(child + ARITY, h->count), best = child;
        if (child >= h->count) break;
        for (child++; child < end; child++)
            if (earlier(h->nodes[child], h->nodes[best])) best = child;
        if (!earlier(h->nodes[best], node)) break;
        place_at(h, index, h->nodes[best]);
        index = best;
    }
    place_at(h, index, node);
}

static void settle(struct heap *h, size_t index, struct heap_node *node)
{
    if (index > 0 && earlier(node, h->nodes[(index - 1) / ARITY]))
        sift_up(h, index, node);
    else
        sift_down(h, index, node);
}

static bool holds(const struct heap *h, const struct heap_node *node)
{
    return node->place <= h->count && h->nodes[node->place - 1] == node;
}

void heap_init(struct heap *h, size_t max)
{
    *h = (struct heap){.max = max};
}

void heap_deinit(struct heap *h)
{
    for (size_t i = 0; i < h->count; i++) h->nodes[i]->place = 0;
    free(h->nodes);
    h->nodes = NULL;
    h->count = h->cap = 0;
}

enum err heap_reserve(struct heap *h, size_t count)
{
    struct heap_node **nodes;
    size_t cap;

    if (count > h->max) return ERR_FULL;
    if (count <= h->cap) return ERR_OK;
    /* Doubling keeps the cost of adding nodes one by one low. */
    cap = max_size(count, min_size(max_size(h->cap * 2, HEAP_CAP_FIRST), h->max));
    if (cap > PTRDIFF_MAX / sizeof(void *)) return ERR_NOMEM;
    nodes = realloc(h->nodes, cap * sizeof(void *));
    if (!nodes) return ERR_NOMEM;
    h->nodes = nodes;
    h->cap = cap;
    return ERR_OK;
}

enum err heap_put(struct heap *h, struct heap_node *node, uint64_t due)
{
    if (node->place == 0) {
        if (h->count == h->max) return ERR_FULL;
        if (h->count == h->cap) {
            enum err err = heap_reserve(h, h->count + 1);
            if (err) return err;
        }
        node->place = ++h->count;
        h->nodes[node->place - 1] = node;
    }
    assert(holds(h, node));
    node->due = due;
    node->order = h->next_order++;
    settle(h, node->place - 1, node);
    return ERR_OK;
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    struct heap_node *last;
    size_t index;

    if (node->place == 0) return;
    assert(holds(h, node));
    index = node->place - 1;
    node->place = 0;
    last = h->nodes[--h->count];
    if (last != node) settle(h, index, last);
}

struct heap_node *heap_peek(const struct heap *h)
{
    return h->count > 0 ? h->nodes[0] : NULL;
}

struct heap_node *heap_pop_due(struct heap *h, uint64_t now)
{
    struct heap_node *first = heap_peek(h);

    if (!first || first->due > now) return NULL;
    heap_remove(h, first);
    return first;
}
