/* SPDX-License-Identifier: Apache-2.0 */
/* The B+ tree.
 *
 * Leaves contain rows, inner nodes contain children, both in ascending order, up to FANOUT each.
 * Nodes of a level are linked.
 *
 * Invariants:
 * 1. every node except the root has at least one entry, and an inner root has at least two
 * 2. rows[i] of an inner node is the first row under child[i]
 * 3. all leaves are at the same depth, and their links give them in order
 * 4. weight[i] is the number of rows under child[i], for order_rank()
 * 5. the keys of a node's rows have the same first `skip` bytes; hint[i] is the next bytes of row i
 *    (of `second` if `by_second`, because all `first` are equal, otherwise of `first`)
 *
 * Hints avoid reading rows, which mostly waits for memory. Full nodes are split on the way down,
 * and the tree is valid after each split: if memory runs out, only the new row is missing.
 * Appending leaves full nodes full. A node that is at most a quarter full is merged with a
 * neighbour if both fit into one node. */
#include "base/order.h"

#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"

enum {
    FANOUT = 32,
    SPARSE = FANOUT / 4,
    HEIGHT_MAX = 32,
    WALK_AHEAD = 8, /* rows prefetched ahead of a walk; at most FANOUT */
};

struct order_node {
    uint32_t count;
    bool is_leaf, by_second;
    uint16_t skip;
    uint32_t hint[FANOUT];
    struct order_node *next, *before; /* neighbours on the same level */
    void *rows[FANOUT];
    struct order_node *child[FANOUT]; /* only in inner nodes; the memory of a leaf ends here */
    uint32_t weight[FANOUT];
};

static size_t node_size(bool is_leaf)
{
    return is_leaf ? offsetof(struct order_node, child) : sizeof(struct order_node);
}

static struct order_node *node_make(struct order *order, bool is_leaf)
{
    struct order_node *node = memory_take(order->kind->bytes, node_size(is_leaf));

    if (!node) return NULL;
    node->count = 0;
    node->is_leaf = is_leaf;
    node->by_second = false;
    node->skip = 0;
    node->next = node->before = NULL;
    return node;
}

static void node_free(struct order *order, struct order_node *node)
{
    if (node->before) node->before->next = node->next;
    if (node->next) node->next->before = node->before;
    memory_give(order->kind->bytes, node, node_size(node->is_leaf));
}

static uint32_t node_weight(const struct order_node *node)
{
    uint32_t weight = 0;

    if (node->is_leaf) return node->count;
    for (uint32_t i = 0; i < node->count; i++) weight += node->weight[i];
    return weight;
}

int order_key_compare(struct order_key a, struct order_key b)
{
    int first = str_compare(a.first, b.first);

    return first ? first : str_compare(a.second, b.second);
}

/* -- hints -- */
static struct order_key key_at(const struct order *order, const struct order_node *node,
                               uint32_t slot)
{
    return order->kind->key(node->rows[slot]);
}

static struct str hinted(const struct order_node *node, struct order_key key)
{
    return node->by_second ? key.second : key.first;
}

/* Returns a number that compares like the key's text. Equal numbers leave the order open. */
static uint32_t hint_of(const struct order_node *node, struct order_key key)
{
    struct str rest = str_tail(hinted(node, key), node->skip);
    uint32_t hint = 0;

    if (rest.len >= sizeof hint) return __builtin_bswap32(load_le32(rest.at));
    for (size_t i = 0; i < sizeof hint; i++)
        hint = hint << 8 | (i < rest.len ? (unsigned char)rest.at[i] : 0);
    return hint;
}

/* Compares the node's common bytes with the key: negative if all rows are before the key, positive
 * if all are behind, 0 if the hints decide. */
static int common_compare(const struct order_node *node, struct order_key row, struct order_key key)
{
    struct str ours = hinted(node, row), text = hinted(node, key);
    size_t both = min_size(node->skip, text.len);
    int sign = node->by_second ? str_compare(row.first, key.first) : 0;

    if (!sign && both && ours.at != text.at) sign = memcmp(ours.at, text.at, both);
    return sign ? sign : text.len < node->skip;
}

static size_t text_common(struct str a, struct str b)
{
    size_t len = min_size(min_size(a.len, b.len), UINT16_MAX), at = 0;

    if (a.at == b.at) return len;
    while (at < len && a.at[at] == b.at[at]) at++;
    return at;
}

/* Bytes that the first and the last row have in common are common to all rows. */
static void node_hint(const struct order *order, struct order_node *node)
{
    struct order_key first, last;

    if (node->count == 0) return;
    first = key_at(order, node, 0);
    last = key_at(order, node, node->count - 1);
    node->by_second = str_compare(first.first, last.first) == 0;
    node->skip = (uint16_t)text_common(hinted(node, first), hinted(node, last));
    for (uint32_t i = 0; i < node->count; i++)
        node->hint[i] = hint_of(node, key_at(order, node, i));
}

static void slot_hint(const struct order *order, struct order_node *node, uint32_t slot)
{
    struct order_key key = key_at(order, node, slot);

    if (node->count == 1 || common_compare(node, key_at(order, node, slot == 0), key))
        node_hint(order, node);
    else
        node->hint[slot] = hint_of(node, key);
}

/* Returns the number of entries before the key. With `at`, an entry equal to the key counts,
 * too. */
static uint32_t node_rank(const struct order *order, const struct order_node *node,
                          struct order_key key, bool at)
{
    uint32_t hint, low = 0, high, left = node->count;
    int sign = left && (node->skip || node->by_second)
                   ? common_compare(node, key_at(order, node, 0), key)
                   : 0;

    if (sign) return sign < 0 ? node->count : 0;
    hint = hint_of(node, key);
    for (uint32_t half; left > 0; left -= half) { /* no branch that could be mispredicted */
        half = (left + 1) / 2;
        low += node->hint[low + half - 1] < hint ? half : 0;
    }
    for (high = low; high < node->count && node->hint[high] == hint;) high++;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        sign = order_key_compare(key_at(order, node, middle), key);
        if (sign < 0 || (sign == 0 && at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t child_slot(const struct order *order, const struct order_node *node,
                           struct order_key key)
{
    uint32_t rank = node_rank(order, node, key, true);

    return rank ? rank - 1 : 0;
}

/* -- reading -- */
static struct order_place place_of(const struct order *order, struct order_key key, bool behind)
{
    const struct order_node *node = order->root;

    while (node && !node->is_leaf) node = node->child[child_slot(order, node, key)];
    return (struct order_place){node, node ? node_rank(order, node, key, behind) : 0};
}

void *order_find(const struct order *order, struct order_key key)
{
    struct order_place place = place_of(order, key, false);
    void *row;

    if (!place.leaf || place.slot >= place.leaf->count) return NULL;
    row = place.leaf->rows[place.slot];
    return order_key_compare(order->kind->key(row), key) ? NULL : row;
}

struct order_place order_begin(const struct order *order)
{
    const struct order_node *node = order->root;

    while (node && !node->is_leaf) node = node->child[0];
    return (struct order_place){node, 0};
}

struct order_place order_behind(const struct order *order, struct order_key key)
{
    return place_of(order, key, true);
}

uint32_t order_rank(const struct order *order, struct order_key key)
{
    const struct order_node *node = order->root;
    uint32_t rank = 0, slot;

    for (; node && !node->is_leaf; node = node->child[slot]) {
        slot = child_slot(order, node, key);
        for (uint32_t i = 0; i < slot; i++) rank += node->weight[i];
    }
    return node ? rank + node_rank(order, node, key, false) : 0;
}

static const void *row_ahead(const struct order_node *leaf, uint32_t slot)
{
    slot += WALK_AHEAD;
    if (slot < leaf->count) return leaf->rows[slot];
    slot -= leaf->count;
    leaf = leaf->next;
    return leaf && slot < leaf->count ? leaf->rows[slot] : leaf;
}

/* Prefetches, because a long walk mostly waits for the memory of its rows. */
void *order_next(struct order_place *place)
{
    while (place->leaf && place->slot >= place->leaf->count)
        *place = (struct order_place){place->leaf->next, 0};
    if (!place->leaf) return NULL;
    if (place->slot == 0) __builtin_prefetch(place->leaf->next);
    __builtin_prefetch(row_ahead(place->leaf, place->slot));
    return place->leaf->rows[place->slot++];
}

/* -- inserting -- */
static void node_move(struct order_node *into, uint32_t to, const struct order_node *node,
                      uint32_t from, uint32_t count)
{
    assert(to + count <= FANOUT);
    memmove(into->hint + to, node->hint + from, count * sizeof node->hint[0]);
    memmove(into->rows + to, node->rows + from, count * sizeof node->rows[0]);
    if (node->is_leaf) return;
    memmove(into->child + to, node->child + from, count * sizeof node->child[0]);
    memmove(into->weight + to, node->weight + from, count * sizeof node->weight[0]);
}

static void node_open_slot(struct order_node *node, uint32_t slot)
{
    assert(slot <= node->count);
    node_move(node, slot + 1, node, slot, node->count - slot);
    node->count++;
}

static void node_close_slot(struct order_node *node, uint32_t slot)
{
    assert(slot < node->count);
    node_move(node, slot, node, slot + 1, node->count - slot - 1);
    node->count--;
}

/* `to` is the left neighbour or a new node. */
static void node_move_tail(const struct order *order, struct order_node *to,
                           struct order_node *from, uint32_t slot)
{
    node_move(to, to->count, from, slot, from->count - slot);
    to->count += from->count - slot;
    from->count = slot;
    node_hint(order, to);
    node_hint(order, from);
}

/* `parent` must have room. */
static enum err child_split(struct order *order, struct order_node *parent, uint32_t slot,
                            struct order_key key)
{
    struct order_node *left = parent->child[slot];
    struct order_node *right = node_make(order, left->is_leaf);
    bool at_end;

    if (!right) return ERR_NOMEM;
    at_end = order_key_compare(order->kind->key(left->rows[FANOUT - 1]), key) < 0;
    node_move_tail(order, right, left, at_end ? FANOUT - 1 : FANOUT / 2);
    right->before = left;
    right->next = left->next;
    if (right->next) right->next->before = right;
    left->next = right;
    node_open_slot(parent, slot + 1);
    parent->child[slot + 1] = right;
    parent->rows[slot + 1] = right->rows[0];
    slot_hint(order, parent, slot + 1);
    parent->weight[slot + 1] = node_weight(right);
    parent->weight[slot] -= parent->weight[slot + 1];
    return ERR_OK;
}

static enum err root_grow(struct order *order)
{
    struct order_node *root = node_make(order, order->root == NULL);

    if (!root) return ERR_NOMEM;
    if (order->root) {
        root->count = 1;
        root->child[0] = order->root;
        root->rows[0] = order->root->rows[0];
        node_hint(order, root);
        root->weight[0] = node_weight(order->root);
    }
    order->root = root;
    return ERR_OK;
}

static void root_shrink(struct order *order)
{
    while (order->root && !order->root->is_leaf && order->root->count == 1) {
        struct order_node *root = order->root;
        order->root = root->child[0];
        node_free(order, root);
    }
    if (order->root && order->root->count == 0) {
        node_free(order, order->root);
        order->root = NULL;
    }
}

enum err order_insert(struct order *order, void *row)
{
    struct order_key key = order->kind->key(row);
    struct order_node *node, *way[HEIGHT_MAX];
    uint32_t slot, taken[HEIGHT_MAX], depth = 0;
    enum err err = ERR_OK;

    if (!order->root || order->root->count == FANOUT) err = root_grow(order);
    for (node = order->root; !err && !node->is_leaf; node = node->child[slot]) {
        slot = child_slot(order, node, key);
        if (node->child[slot]->count == FANOUT) {
            err = child_split(order, node, slot, key);
            if (!err) slot = child_slot(order, node, key);
        }
        assert(depth < HEIGHT_MAX);
        way[depth] = node;
        taken[depth++] = slot;
    }
    if (err) {
        root_shrink(order);
        return err;
    }
    slot = node_rank(order, node, key, false);
    assert(slot == node->count || order_key_compare(order->kind->key(node->rows[slot]), key));
    node_open_slot(node, slot);
    node->rows[slot] = row;
    slot_hint(order, node, slot);
    order->count++;
    /* If the new row is the first of its subtree, each parent's row for the subtree changes. */
    for (bool first = slot == 0; depth-- > 0;) {
        way[depth]->weight[taken[depth]]++;
        if (first) {
            way[depth]->rows[taken[depth]] = row;
            slot_hint(order, way[depth], taken[depth]);
        }
        first = first && taken[depth] == 0;
    }
    return ERR_OK;
}

/* -- removing -- */
static void child_merge(struct order *order, struct order_node *parent, uint32_t left)
{
    struct order_node *to = parent->child[left];
    struct order_node *from = parent->child[left + 1];

    node_move_tail(order, to, from, 0);
    node_free(order, from);
    parent->weight[left] += parent->weight[left + 1];
    node_close_slot(parent, left + 1);
}

/* After a removal in a child: updates the child's first row in `parent`, and merges sparse
 * nodes. */
static void child_tend(struct order *order, struct order_node *parent, uint32_t slot)
{
    struct order_node *child = parent->child[slot];

    if (child->count > 0 && parent->rows[slot] != child->rows[0]) {
        parent->rows[slot] = child->rows[0];
        slot_hint(order, parent, slot);
    }
    if (child->count > SPARSE) return;
    if (child->count == 0) {
        node_free(order, child);
        node_close_slot(parent, slot);
    } else if (slot > 0 && parent->child[slot - 1]->count + child->count <= FANOUT) {
        child_merge(order, parent, slot - 1);
    } else if (slot + 1 < parent->count &&
               parent->child[slot + 1]->count + child->count <= FANOUT) {
        child_merge(order, parent, slot);
    }
}

static void node_remove(struct order *order, struct order_node *node, void *row,
                        struct order_key key)
{
    uint32_t slot;

    if (!node->is_leaf) {
        slot = child_slot(order, node, key);
        node_remove(order, node->child[slot], row, key);
        node->weight[slot]--;
        child_tend(order, node, slot);
        return;
    }
    slot = node_rank(order, node, key, false);
    assert(slot < node->count && node->rows[slot] == row);
    node_close_slot(node, slot);
}

void order_remove(struct order *order, void *row)
{
    assert(order->root);
    node_remove(order, order->root, row, order->kind->key(row));
    order->count--;
    root_shrink(order);
}

void order_replace(struct order *order, void *old, void *row)
{
    struct order_key key = order->kind->key(old);
    struct order_node *node = order->root;
    uint32_t slot;

    assert(order_key_compare(key, order->kind->key(row)) == 0);
    for (; !node->is_leaf; node = node->child[slot]) {
        slot = child_slot(order, node, key);
        if (node->rows[slot] == old) node->rows[slot] = row;
    }
    slot = node_rank(order, node, key, false);
    assert(slot < node->count && node->rows[slot] == old);
    node->rows[slot] = row;
}

static void node_clear(struct order *order, struct order_node *node)
{
    if (!node->is_leaf)
        for (uint32_t i = 0; i < node->count; i++) node_clear(order, node->child[i]);
    node_free(order, node);
}

void order_clear(struct order *order)
{
    if (order->root) node_clear(order, order->root);
    *order = (struct order){.kind = order->kind};
}
