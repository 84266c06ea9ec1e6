/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered set of rows by a pair of texts: a B+ tree of borrowed pointers.
 *
 * The key of a row is in the row and must not change while it is in. Inserting is all or
 * nothing; removing and replacing take no memory. Nodes are counted into *kind->bytes. */
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
struct order { /* zeroed but for `kind`: the empty set, which holds no memory */
    struct order_node *root;
    const struct order_kind *kind;
    uint32_t count;
};
struct order_place { /* of a row in a set, valid until the set changes */
    const struct order_node *leaf;
    uint32_t slot;
};

int order_key_compare(struct order_key a, struct order_key b);
void *order_find(const struct order *order, struct order_key key); /* NULL: absent */
/* No row with its key may be in. ERR_NOMEM. */
enum err order_insert(struct order *order, void *row);
void order_remove(struct order *order, void *row); /* must be in */
/* Puts `row` in the place of `old`, which has an equal key. */
void order_replace(struct order *order, void *old, void *row);
void order_clear(struct order *order); /* forgets all rows, frees the nodes */

/* Before the first row, or before the first one behind `key`. */
struct order_place order_begin(const struct order *order);
struct order_place order_behind(const struct order *order, struct order_key key);
void *order_next(struct order_place *place); /* NULL at the end */
/* How many rows are before `key`; on one way down. */
uint32_t order_rank(const struct order *order, struct order_key key);
#endif
