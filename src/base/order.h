/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered set of rows, sorted by a pair of texts: a B+ tree of borrowed pointers.
 *
 * A row contains its key, which must not change while the row is in the set. Only inserting
 * allocates memory. *kind->bytes counts the memory of nodes. */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H
#include "base/err.h"
#include "base/str.h"

struct order_key { /* compared bytewise, `first` before `second` */
    struct str first, second;
};
struct order_kind {
    struct order_key (*key)(const void *row);
    uint64_t *bytes;
};
struct order_node;
struct order { /* empty if only `kind` is set */
    struct order_node *root;
    const struct order_kind *kind;
    uint32_t count;
};
struct order_place { /* position in a set, valid until the set changes */
    const struct order_node *leaf;
    uint32_t slot;
};

int order_key_compare(struct order_key a, struct order_key b);
void *order_find(const struct order *order, struct order_key key); /* NULL if the key is absent */
/* The row's key must be new. ERR_NOMEM leaves the set unchanged. */
enum err order_insert(struct order *order, void *row);
void order_remove(struct order *order, void *row); /* the row must be in the set */
/* Both rows must have the same key. */
void order_replace(struct order *order, void *old, void *row);
void order_clear(struct order *order); /* removes all rows and frees the nodes */

/* order_behind(): before the first row with a key above `key`. */
struct order_place order_begin(const struct order *order);
struct order_place order_behind(const struct order *order, struct order_key key);
void *order_next(struct order_place *place); /* NULL at the end */
/* The number of rows before `key`, in logarithmic time. */
uint32_t order_rank(const struct order *order, struct order_key key);
#endif
