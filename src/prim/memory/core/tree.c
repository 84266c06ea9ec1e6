/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/memory/core/tree.h"

/* Cuts `node`'s tree into what stands before `pivot` and what stands after it. */
static void split(const struct tree *tree, struct tree_node *node, const struct tree_node *pivot,
                  struct tree_node **before, struct tree_node **after)
{
    while (node != NULL) { /* ends: one level down each turn */
        if (tree->compare(node, pivot) < 0) {
            *before = node;
            before = &node->right;
            node = node->right;
        } else {
            *after = node;
            after = &node->left;
            node = node->left;
        }
    }
    *before = *after = NULL;
}

void tree_put(struct tree *tree, struct tree_node *node)
{
    struct tree_node **at = &tree->root;
    while (*at != NULL && (*at)->weight >= node->weight) {
        int order = tree->compare(node, *at);
        assert(order != 0);
        at = order < 0 ? &(*at)->left : &(*at)->right;
    }
    split(tree, *at, node, &node->left, &node->right);
    *at = node;
}

void tree_remove(struct tree *tree, struct tree_node *node)
{
    struct tree_node **at = &tree->root;
    while (*at != node) {
        assert(*at != NULL);
        at = tree->compare(node, *at) < 0 ? &(*at)->left : &(*at)->right;
    }
    struct tree_node *left = node->left, *right = node->right;
    while (left != NULL && right != NULL) { /* ends: one of the two loses a level each turn */
        if (left->weight >= right->weight) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left != NULL ? left : right;
    node->left = node->right = NULL;
}

struct tree_node *tree_first(const struct tree *tree)
{
    struct tree_node *node = tree->root;
    while (node != NULL && node->left != NULL) node = node->left;
    return node;
}

struct tree_node *tree_find(const struct tree *tree, tree_seek_fn *seek, const void *sought)
{
    struct tree_node *node = tree->root;
    while (node != NULL) {
        int where = seek(node, sought);
        if (where == 0) return node;
        node = where > 0 ? node->left : node->right;
    }
    return NULL;
}

struct tree_node *tree_from(const struct tree *tree, tree_seek_fn *seek, const void *sought,
                            bool past)
{
    struct tree_node *node = tree->root, *best = NULL;
    while (node != NULL) {
        int where = seek(node, sought);
        if (where > 0 || (where == 0 && !past)) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}
