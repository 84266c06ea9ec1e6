/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/nearest.h"

#include <string.h>

#include "lib/test.h"

static const struct {
    const char *why, *a, *b;
    size_t bound, want;
} distances[] = {
    {"the same", "listen", "listen", 3, 0},
    {"both empty", "", "", 3, 0},
    {"a letter lost", "lsten", "listen", 3, 1},
    {"a letter too many", "listten", "listen", 3, 1},
    {"a letter changed", "lissen", "listen", 3, 1},
    {"two neighbours swapped count once", "listne", "listen", 3, 1},
    {"swapped at the front", "ilsten", "listen", 3, 1},
    {"two swaps", "ilstne", "listen", 3, 2},
    {"an empty name is all letters away", "", "abc", 3, 3},
    {"past the bound it stops counting", "abc", "xyz", 2, 3},
    {"far past the bound it says bound + 1", "abcdefgh", "stuvwxyz", 2, 3},
};
TEST(counts_keystrokes)
{
    for (size_t i = 0; i < ARRAY_LEN(distances); i++) {
        struct str a = str_from(distances[i].a), b = str_from(distances[i].b);
        CHECK_SIZE(distances[i].why, nearest_distance(a, b, distances[i].bound), distances[i].want);
        CHECK_SIZE("the other way round", nearest_distance(b, a, distances[i].bound),
                   distances[i].want);
    }
}

TEST(a_name_too_long_is_near_to_nothing)
{
    char name[NEAREST_NAME_MAX + 2];
    memset(name, 'a', sizeof name);
    struct str longest = str_of(name, NEAREST_NAME_MAX),
               longer = str_of(name, NEAREST_NAME_MAX + 1);
    CHECK_SIZE("the longest still counts", nearest_distance(longest, longest, 3), 0);
    CHECK_SIZE("one more does not", nearest_distance(longer, longer, 3), 4);
    CHECK_SIZE("in neither place", nearest_distance(longest, longer, 3), 4);
}

static const char *const names[] = {"listen", "log-level", "id", "data-dir"};
static const struct {
    const char *why, *wanted, *want;
} hints[] = {
    {"a slip", "lsiten", "listen"},
    {"a short name is helped too", "ids", "id"},
    {"three keystrokes of nine", "logg-lvll", "log-level"},
    {"nothing near", "frequency", NULL},
    {"two of two letters is another word", "xy", NULL},
    {"an empty word means nothing", "", NULL},
};
TEST(only_near_names_are_offered)
{
    for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
        struct nearest n;
        nearest_init(&n, str_from(hints[i].wanted));
        for (size_t j = 0; j < ARRAY_LEN(names); j++) nearest_offer(&n, str_from(names[j]), j);
        CHECK(hints[i].why, nearest_found(&n) == (hints[i].want != NULL));
        if (hints[i].want) CHECK_TEXT(hints[i].why, names[n.place], hints[i].want);
    }
}

TEST(the_first_of_two_equally_near_names_wins)
{
    struct nearest n;
    nearest_init(&n, STR("cat"));
    nearest_offer(&n, STR("car"), 7);
    nearest_offer(&n, STR("cap"), 8);
    CHECK_SIZE("the first", n.place, 7);
}
