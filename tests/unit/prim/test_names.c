/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/names.h"

#include "lib/test.h"

static char filler[600];

static struct str of_length(size_t len)
{
    memset(filler, 'k', sizeof filler);
    return str_of(filler, len);
}

TEST(keys_are_checked_before_any_io)
{
    static const struct {
        const char *key;
        const char *says; /* NULL: fine */
    } cases[] = {
        {"a", NULL},
        {"a/b", NULL},
        {"a%2Fb", NULL},
        {"!~", NULL},
        {"a/.group/b", NULL}, /* a bucket may have that name: only the leaf is reserved */
        {"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16", NULL},
        {"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", "16 segments"},
        {"", "is empty"},
        {"/a", "empty segment"},
        {"a/", "empty segment"},
        {"a//b", "empty segment"},
        {".", "starts with '.'"},
        {"a/..", "starts with '.'"},
        {"a/.x/b", "starts with '.'"},
        {"a/.group", "reserved name"},
        {"a b", "outside"},
        {"a\x7f", "outside"},
        {"\xc3\xa4", "outside"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        coord_result result = prim_check_key(str_from(cases[i].key));
        if (cases[i].says == NULL) {
            CHECK_TEXT(cases[i].key, result.text, "");
        } else {
            CHECK_I64(cases[i].key, result.code, COORD_INVALID);
            CHECK_I64(cases[i].key, result.reason, COORD_R_KEY);
            CHECK_HAS(cases[i].key, result.text, cases[i].says);
            CHECK_HAS("the limit is named", result.text, "512");
        }
    }
    CHECK_I64("a NUL inside", prim_check_key(STR("a\0b")).code, COORD_INVALID);
    CHECK_I64("512 bytes", prim_check_key(of_length(512)).code, COORD_OK);
    CHECK_HAS("513 bytes", prim_check_key(of_length(513)).text, "too long");
}

TEST(groups_leave_room_for_the_slot)
{
    CHECK_I64("480 bytes", prim_check_group(of_length(480)).code, COORD_OK);
    coord_result result = prim_check_group(of_length(481));
    CHECK_I64("481 bytes", result.reason, COORD_R_GROUP);
    CHECK_HAS("the limit is named", result.text, "480");
    CHECK_I64("reserved", prim_check_group(STR("g/.group")).code, COORD_INVALID);
}

TEST(owners)
{
    char name[130];
    memset(name, 'o', sizeof name);
    name[128] = '\0';
    CHECK_I64("128 bytes", prim_check_owner(name).code, COORD_OK);
    name[128] = 'o', name[129] = '\0';
    CHECK_HAS("129 bytes", prim_check_owner(name).text, "1-128");
    CHECK_I64("every letter", prim_check_owner("aZ09._:@/-").code, COORD_OK);
    CHECK_I64("none", prim_check_owner(NULL).reason, COORD_R_OWNER);
    CHECK_I64("empty", prim_check_owner("").code, COORD_INVALID);
    CHECK_I64("a blank", prim_check_owner("a b").code, COORD_INVALID);
}

TEST(values_and_ttls_are_held_against_the_stores_limits)
{
    coord_limits limits = prim_limits(100, 1, 8);
    CHECK_I64("8 bytes", prim_check_value(STR("12345678"), &limits).code, COORD_OK);
    CHECK_HAS("9 bytes", prim_check_value(STR("123456789"), &limits).text, "at most 8");
    CHECK_I64("least", prim_check_ttl(100, &limits).code, COORD_OK);
    CHECK_I64("a day", prim_check_ttl(86400000, &limits).code, COORD_OK);
    CHECK_HAS("shorter", prim_check_ttl(99, &limits).text, "100-86400000 ms");
    CHECK_I64("longer", prim_check_ttl(86400001, &limits).reason, COORD_R_TTL_RANGE);
    CHECK_U32("depth", limits.depth_max, 16);
}

TEST(names_of_slots_and_groups)
{
    char key[PRIM_SLOT_KEY_CAP];
    uint32_t slot = 77;
    prim_slot_key(STR("a/g"), 7, key);
    CHECK_TEXT("a slot", key, "a/g/slot-0007");
    prim_slot_key(of_length(480), 1023, key);
    CHECK_SIZE("the longest", strlen(key), 490);
    prim_group_key(STR("a/g"), key);
    CHECK_TEXT("a group", key, "a/g/.group");
    CHECK("a slot's number", claim_slot_number(STR("slot-0012"), &slot) && slot == 12);
    static const char *const others[] = {"slot-12", "slot-00x1", "slot-00012", "slut-0001",
                                         "",        "slot--001", "slot-+001"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        CHECK(others[i], !claim_slot_number(str_from(others[i]), &slot));
    }
    CHECK_U32("untouched", slot, 12);
}

TEST(buckets_leaves_and_scopes)
{
    CHECK_STR("bucket", prim_bucket_of(STR("a/b/c")), STR("a/b"));
    CHECK_STR("leaf", prim_leaf_of(STR("a/b/c")), STR("c"));
    CHECK_STR("at the top", prim_bucket_of(STR("c")), STR(""));
    CHECK_STR("at the top", prim_leaf_of(STR("c")), STR("c"));
    CHECK("a key", prim_in_scope(STR("a/b"), STR("a/b"), false));
    CHECK("another", !prim_in_scope(STR("a/bc"), STR("a/b"), false));
    CHECK("of the bucket", prim_in_scope(STR("a/b/c"), STR("a/b"), true));
    CHECK("deeper", !prim_in_scope(STR("a/b/c/d"), STR("a/b"), true));
    CHECK("longer name", !prim_in_scope(STR("a/bb/c"), STR("a/b"), true));
    CHECK("the top", prim_in_scope(STR("c"), STR(""), true));
    CHECK("never the group record", !prim_in_scope(STR("a/b/.group"), STR("a/b"), true));
}

TEST(the_margin_of_safety)
{
    static const struct {
        int64_t ttl, want;
    } cases[] = {{10, 3},     {150, 50},   {300, 100},   {500, 100},
                 {1000, 100}, {2000, 200}, {60000, 6000}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_I64("max(ttl/10, min(100, ttl/3))", prim_margin_ms(cases[i].ttl), cases[i].want);
    }
}
