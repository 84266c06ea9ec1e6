/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered set of nodes that the caller embeds; takes no memory of its own, so that putting and
 * taking cannot fail. A treap: the caller gives each node a number that looks random (a hash of its
 * key), so the shape depends on the keys alone and runs repeat exactly. */
#ifndef PRIM_MEMORY_CORE_TREE_H
#define PRIM_MEMORY_CORE_TREE_H
#include "base/base.h"

struct tree_node {
    struct tree_node *left, *right;
    uint64_t weight;
};
/* <0, 0, >0. Two different nodes of one tree never compare equal. */
typedef int tree_compare_fn(const struct tree_node *a, const struct tree_node *b);
/* Where `node` stands to what is looked for: <0 before it, 0 at it, >0 after it. */
typedef int tree_seek_fn(const struct tree_node *node, const void *sought);
struct tree {
    struct tree_node *root;
    tree_compare_fn *compare;
};

void tree_put(struct tree *tree, struct tree_node *node);    /* must not be in; weight is set */
void tree_remove(struct tree *tree, struct tree_node *node); /* must be in */
struct tree_node *tree_first(const struct tree *tree);
struct tree_node *tree_find(const struct tree *tree, tree_seek_fn *seek, const void *sought);
/* The first node at or after what is sought; with `past` the first one after it. */
struct tree_node *tree_from(const struct tree *tree, tree_seek_fn *seek, const void *sought,
                            bool past);
#endif
