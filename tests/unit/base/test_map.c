/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdio.h>

#include "dies.h"
#include "lib/test.h"

enum { SEED = 42 };
struct item {
    char key[32];
};

static struct str key_of(const struct item *item)
{
    return str_from(item->key);
}

static void name_items(struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) snprintf(items[i].key, sizeof items[i].key, "key-%zu", i);
}

TEST(a_zeroed_or_fresh_map_can_be_read_and_closed_twice)
{
    struct map zeroed = {0}, fresh;
    size_t cursor = 0;

    map_init(&fresh, 10, SEED);
    CHECK("nothing is in", map_get(&fresh, STR("x")) == NULL && map_count(&fresh) == 0);
    CHECK("nothing to remove", map_remove(&fresh, STR("x")) == NULL);
    CHECK("nothing to walk", map_next(&fresh, &cursor) == NULL);
    CHECK("the same for a zeroed one", map_get(&zeroed, STR("x")) == NULL);
    map_deinit(&zeroed);
    map_deinit(&zeroed);
    map_deinit(&fresh);
    map_deinit(&fresh);
}

TEST(what_was_put_is_found_and_what_was_removed_is_not)
{
    enum { COUNT = 1000 };
    static struct item items[COUNT];
    struct map m;

    name_items(items, COUNT);
    map_init(&m, COUNT, SEED);
    for (size_t i = 0; i < COUNT; i++) CHECK_OK("put", map_put(&m, key_of(&items[i]), &items[i]));
    CHECK_SIZE("all in", map_count(&m), COUNT);
    for (size_t i = 0; i < COUNT; i++) CHECK("found", map_get(&m, key_of(&items[i])) == &items[i]);
    CHECK("a prefix is another key", map_get(&m, STR("key-")) == NULL);
    for (size_t i = 0; i < COUNT; i += 2)
        CHECK("removed", map_remove(&m, key_of(&items[i])) == &items[i]);
    for (size_t i = 0; i < COUNT; i++)
        CHECK("only the odd ones", map_get(&m, key_of(&items[i])) == (i % 2 ? &items[i] : NULL));
    CHECK("removing twice finds nothing", map_remove(&m, key_of(&items[0])) == NULL);
    CHECK_SIZE("half are left", map_count(&m), COUNT / 2);
    map_deinit(&m);
}

TEST(keys_are_bytes)
{
    static const struct str keys[] = {{"", 0},  {"\0", 1},  {"\0\0", 2},
                                      {"a", 1}, {"a\0", 2}, {"A", 1}};
    struct map m;
    int values[ARRAY_LEN(keys)];

    map_init(&m, 10, SEED);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) CHECK_OK("put", map_put(&m, keys[i], &values[i]));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        CHECK("each is its own key", map_get(&m, keys[i]) == &values[i]);
    CHECK("a view without address is the empty key", map_get(&m, (struct str){0}) == &values[0]);
    CHECK("removed", map_remove(&m, STR_EMPTY) == &values[0]);
    CHECK_OK("put again: a hole is not an empty key", map_put(&m, STR_EMPTY, &values[0]));
    map_deinit(&m);
}

TEST(a_key_that_exists_keeps_its_value_and_its_place)
{
    int first, second, other;
    struct map m;
    size_t cursor = 0;

    map_init(&m, 2, SEED);
    CHECK_OK("put", map_put(&m, STR("k"), &first));
    CHECK_OK("put", map_put(&m, STR("l"), &other));
    CHECK_ERR("exists, also reported for a full map", map_put(&m, STR("k"), &second), ERR_EXISTS);
    CHECK("the old value stays", map_get(&m, STR("k")) == &first);
    CHECK("in its place", map_next(&m, &cursor)->value == &first);
    map_deinit(&m);
}

TEST(full_is_an_answer_and_room_comes_back)
{
    int value;
    struct map m;

    map_init(&m, 0, SEED);
    CHECK_ERR("a map for nothing", map_put(&m, STR("a"), &value), ERR_FULL);
    map_deinit(&m);
    map_init(&m, 2, SEED);
    CHECK_OK("one", map_put(&m, STR("a"), &value));
    CHECK_OK("two", map_put(&m, STR("b"), &value));
    CHECK_ERR("three", map_put(&m, STR("c"), &value), ERR_FULL);
    CHECK("the refused one is not in", map_get(&m, STR("c")) == NULL);
    map_remove(&m, STR("a"));
    CHECK_OK("now it fits", map_put(&m, STR("c"), &value));
    map_deinit(&m);
}

static void check_walk(struct map *m, const char *const *want, size_t count)
{
    size_t cursor = 0;
    struct map_entry *entry;

    for (size_t i = 0; i < count; i++) {
        entry = map_next(m, &cursor);
        CHECK("not at the end yet", entry != NULL);
        CHECK_STR("in order of insertion", entry->key, str_from(want[i]));
    }
    CHECK("the end", map_next(m, &cursor) == NULL && map_next(m, &cursor) == NULL);
}

TEST(a_walk_follows_insertion_whatever_the_seed)
{
    static const uint64_t seeds[] = {0, 1, 42, UINT64_MAX};
    int value;

    for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
        struct map m;
        map_init(&m, 100, seeds[i]);
        for (const char *key = "zebra\0apple\0mango\0"; *key; key += str_from(key).len + 1)
            CHECK_OK("put", map_put(&m, str_from(key), &value));
        check_walk(&m, (const char *const[]){"zebra", "apple", "mango"}, 3);
        map_remove(&m, STR("zebra"));
        CHECK_OK("put again: at the end now", map_put(&m, STR("zebra"), &value));
        check_walk(&m, (const char *const[]){"apple", "mango", "zebra"}, 3);
        map_deinit(&m);
    }
}

TEST(the_current_entry_may_be_removed_during_a_walk)
{
    enum { COUNT = 100 };
    static struct item items[COUNT];
    struct map m;
    struct map_entry *entry;
    size_t cursor = 0, seen = 0;

    name_items(items, COUNT);
    map_init(&m, COUNT, SEED);
    for (size_t i = 0; i < COUNT; i++) CHECK_OK("put", map_put(&m, key_of(&items[i]), &items[i]));
    while ((entry = map_next(&m, &cursor))) {
        CHECK("each once, in order", entry->value == &items[seen]);
        if (seen++ % 3 != 0) map_remove(&m, entry->key);
    }
    CHECK_SIZE("all seen", seen, COUNT);
    CHECK_SIZE("a third is left", map_count(&m), 34);
    cursor = 0;
    while ((entry = map_next(&m, &cursor))) map_remove(&m, entry->key);
    CHECK_SIZE("emptied", map_count(&m), 0);
    map_deinit(&m);
}

TEST(keys_that_come_and_go_do_not_make_it_grow)
{
    enum { STAY = 128, TURNS = 20000 }; /* a full array of entries, the worst case */
    static struct item items[TURNS];
    struct map m;
    size_t rebuilds = 0;

    name_items(items, TURNS);
    map_init(&m, STAY, SEED);
    for (size_t i = 0; i < TURNS; i++) {
        if (i >= STAY) CHECK("oldest out", map_remove(&m, key_of(&items[i - STAY])) != NULL);
        size_t used = m.used;
        CHECK_OK("newest in", map_put(&m, key_of(&items[i]), &items[i]));
        if (m.used != used + 1) rebuilds++;
    }
    CHECK("holes are squeezed out once in many turns, not in each", rebuilds < TURNS / STAY * 2);
    CHECK_SIZE("at its ceiling", map_count(&m), STAY);
    CHECK("memory stayed in proportion", m.cap <= 4 * STAY);
    for (size_t i = TURNS - STAY; i < TURNS; i++)
        CHECK("found", map_get(&m, key_of(&items[i])) == &items[i]);
    map_deinit(&m);
}

/* No two keys with one hash can be found by search, so the test marks every slot as a match. */
TEST(an_equal_hash_is_not_an_equal_key)
{
    int value;
    struct map m;

    map_init(&m, 10, SEED);
    CHECK_OK("put", map_put(&m, STR("a"), &value));
    m.entries[0].hash = str_hash(STR("b"), SEED);
    for (size_t i = 0; i < m.slot_count; i++) m.slots[i] = 1;
    m.slots[(m.entries[0].hash + 1) & (m.slot_count - 1)] = 0;
    CHECK("another key", map_get(&m, STR("b")) == NULL);
    map_deinit(&m);
}

/* The key is usually a member of the value's struct, which is freed after the removal. */
TEST(a_removed_key_is_not_looked_at_again)
{
    struct item gone = {"key"}, other = {"other"};
    struct map m;

    map_init(&m, 10, SEED);
    CHECK_OK("put", map_put(&m, key_of(&gone), &gone));
    CHECK_OK("put", map_put(&m, key_of(&other), &other));
    map_remove(&m, key_of(&gone));
    gone = (struct item){"other"};
    CHECK("found at the right place", map_get(&m, STR("other")) == &other);
    CHECK("gone", map_get(&m, STR("key")) == NULL);
    map_deinit(&m);
}

TEST(a_limit_beyond_the_largest_slot_number_is_lowered)
{
    struct map m;

    map_init(&m, SIZE_MAX, SEED);
    CHECK_SIZE("lowered", m.max, MAP_MOST);
    map_deinit(&m);
}

static void put_null(void)
{
    struct map m;

    map_init(&m, 10, SEED);
    (void)map_put(&m, STR("k"), NULL);
}

TEST(a_null_value_stops_at_an_assertion)
{
    CHECK("caught", dies(put_null));
}

TEST(a_created_value_is_followed_by_its_key_and_created_once)
{
    struct map m;
    char key[] = "key";

    map_init(&m, 1, SEED);
    uint64_t *made = map_make(&m, str_from(key), sizeof *made);
    CHECK("made, and zero", made != NULL && *made == 0);
    *made = 7;
    key[0] = 'x';
    CHECK("the key is a copy", map_make(&m, STR("key"), sizeof *made) == made && *made == 7);
    CHECK("full", map_make(&m, STR("other"), 1) == NULL);
    map_free(&m);
    CHECK_SIZE("empty", map_count(&m), 0);
}
