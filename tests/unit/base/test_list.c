/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "dies.h"
#include "lib/test.h"

struct item {
    struct list link;
    int name;
};

static int name_of(struct list *link)
{
    return CONTAINER_OF(link, struct item, link)->name;
}

static void check_names(const char *why, struct list *head, const int *want, size_t count)
{
    size_t i = 0;

    LIST_EACH(head, node)
    {
        CHECK(why, i < count);
        CHECK_I64(why, name_of(node), want[i]);
        CHECK("both directions agree", node->next->prev == node && node->prev->next == node);
        i++;
    }
    CHECK_SIZE(why, i, count);
}

static void items_init(struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list_init(&items[i].link);
        items[i].name = (int)i;
    }
}

TEST(append_prepend_and_insert_before)
{
    struct list head;
    struct item items[4];

    list_init(&head);
    items_init(items, 4);
    CHECK("empty at first", list_empty(&head));
    list_append(&head, &items[1].link);
    list_append(&head, &items[2].link);
    list_prepend(&head, &items[0].link);
    list_insert_before(&items[2].link, &items[3].link);
    check_names("in order", &head, (const int[]){0, 1, 3, 2}, 4);
}

TEST(removing_twice_is_harmless)
{
    struct list head;
    struct item items[3];

    list_init(&head);
    items_init(items, 3);
    for (int i = 0; i < 3; i++) list_append(&head, &items[i].link);
    list_remove(&items[1].link);
    list_remove(&items[1].link);
    check_names("the others stay", &head, (const int[]){0, 2}, 2);
    CHECK("a detached node points at itself", list_empty(&items[1].link));
}

TEST(pop_takes_from_the_front_until_empty)
{
    struct list head;
    struct item items[2];

    list_init(&head);
    items_init(items, 2);
    CHECK("nothing to take", list_pop(&head) == NULL);
    list_append(&head, &items[0].link);
    list_append(&head, &items[1].link);
    CHECK_I64("first", name_of(list_pop(&head)), 0);
    CHECK("detached", list_empty(&items[0].link));
    CHECK_I64("second", name_of(list_pop(&head)), 1);
    CHECK("empty", list_pop(&head) == NULL && list_empty(&head));
}

TEST(splice_moves_all_and_leaves_an_empty_list)
{
    struct list to, from;
    struct item items[4];

    list_init(&to);
    list_init(&from);
    items_init(items, 4);
    list_splice(&to, &from);
    CHECK("nothing to nothing", list_empty(&to) && list_empty(&from));
    list_append(&from, &items[0].link);
    list_append(&from, &items[1].link);
    list_splice(&to, &from);
    check_names("into an empty one", &to, (const int[]){0, 1}, 2);
    CHECK("the source is empty", list_empty(&from));
    list_append(&from, &items[2].link);
    list_append(&from, &items[3].link);
    list_splice(&to, &from);
    check_names("at the end", &to, (const int[]){0, 1, 2, 3}, 4);
}

TEST(the_safe_walk_allows_removing_the_current_node)
{
    struct list head;
    struct item items[5];
    int seen = 0;

    list_init(&head);
    items_init(items, 5);
    for (int i = 0; i < 5; i++) list_append(&head, &items[i].link);
    LIST_EACH_SAFE(&head, node, following)
    {
        CHECK_I64("each once, in order", name_of(node), seen++);
        if (name_of(node) % 2 == 0) list_remove(node);
    }
    CHECK_I64("all seen", seen, 5);
    check_names("the odd ones are left", &head, (const int[]){1, 3}, 2);
}

static void put_into_two_lists(void)
{
    struct list first, second;
    struct item item;

    list_init(&first);
    list_init(&second);
    items_init(&item, 1);
    list_append(&first, &item.link);
    list_append(&second, &item.link);
}

TEST(a_node_in_two_lists_stops_at_an_assertion)
{
    CHECK("caught", dies(put_into_two_lists));
}
