/* SPDX-License-Identifier: Apache-2.0 */
/* A circular list whose nodes are parts of structs. A detached node points to itself and may be
 * removed again. */
#ifndef BASE_LIST_H
#define BASE_LIST_H
#include "base/base.h"

/* The list head and each node. */
struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
static inline void list_insert_before(struct list *position, struct list *node)
{
    assert(node->next == node && node->prev == node);
    node->prev = position->prev;
    node->next = position;
    position->prev->next = node;
    position->prev = node;
}
static inline void list_append(struct list *head, struct list *node)
{
    list_insert_before(head, node);
}
static inline void list_prepend(struct list *head, struct list *node)
{
    list_insert_before(head->next, node);
}
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}
/* NULL if the list is empty. */
static inline struct list *list_pop(struct list *head)
{
    struct list *node = head->next;
    if (node == head) return NULL;
    list_remove(node);
    return node;
}
static inline void list_splice(struct list *to, struct list *from)
{
    if (list_empty(from)) return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}
#define LIST_EACH(head, node)                                                                      \
    for (struct list *node = (head)->next; node != (head); node = node->next)
/* The loop may remove the current node. */
#define LIST_EACH_SAFE(head, node, following)                                                      \
    for (struct list *node = (head)->next, *following = node->next; node != (head);                \
         node = following, following = node->next)
#endif
