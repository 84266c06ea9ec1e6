/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/nats/subject.h"

#include "lib/test.h"

TEST(keys_become_subjects_and_back)
{
    static const struct {
        const char *key, *subject;
    } cases[] = {
        {"a", "$KV.b.a"},
        {"a/b/c", "$KV.b.a.b.c"},
        {"a.b", "$KV.b.a=2Eb"},
        {"a%2Fb", "$KV.b.a=252Fb"},
        {"*", "$KV.b.=2A"},
        {">", "$KV.b.=3E"},
        {"=", "$KV.b.=3D"},
        {"g/.group", "$KV.b.g.=2Egroup"},
        {"g/slot-0007", "$KV.b.g.slot-0007"},
        {"A-z_9", "$KV.b.A-z_9"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char subject[JET_SUBJECT_CAP], key[PRIM_KEY_MAX + 1];
        jet_subject_of(STR("b"), str_from(cases[i].key), subject);
        CHECK_TEXT(cases[i].key, subject, cases[i].subject);
        CHECK("back", jet_key_of(STR("b"), str_from(subject), key));
        CHECK_TEXT("the same", key, cases[i].key);
    }
}

TEST(the_longest_key_fits)
{
    char bucket[JET_BUCKET_MAX], key[PRIM_KEY_MAX], back[PRIM_KEY_MAX + 1];
    char subject[JET_SUBJECT_CAP];
    memset(bucket, 'b', sizeof bucket);
    memset(key, '%', sizeof key);
    jet_subject_of(str_of(bucket, sizeof bucket), str_of(key, sizeof key), subject);
    CHECK_SIZE("length", strlen(subject), 5 + JET_BUCKET_MAX + 3 * PRIM_KEY_MAX);
    CHECK("back", jet_key_of(str_of(bucket, sizeof bucket), str_from(subject), back));
    CHECK_STR("the same", str_from(back), str_of(key, sizeof key));
}

TEST(a_subject_that_names_no_key_is_refused)
{
    static const char *const others[] = {
        "$KV.b.=probe", "$KV.b.",    "$KV.c.a",   "$KV.b",       "",          "a",
        "$KV.b.=2",     "$KV.b.a=",  "$KV.b.=61", "$KV.b.a=00b", "$KV.b.=20", "$KV.b.=7F",
        "$KV.b.=C3=A4", "$KV.b.=2f", "$KV.b.=2F", "$KV.b.a b"};
    char key[PRIM_KEY_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        CHECK(others[i], !jet_key_of(STR("b"), str_from(others[i]), key));
    }
}

TEST(a_bucket_of_keys_is_one_level)
{
    char subject[JET_SUBJECT_CAP];
    jet_subject_below(STR("b"), STR("a/b"), subject);
    CHECK_TEXT("below", subject, "$KV.b.a.b.*");
    jet_subject_below(STR("b"), STR(""), subject);
    CHECK_TEXT("the top", subject, "$KV.b.*");
}

TEST(names_of_buckets)
{
    CHECK("fine", jet_bucket_is_valid(STR("A-b_9")));
    CHECK("empty", !jet_bucket_is_valid(STR("")));
    CHECK("a dot", !jet_bucket_is_valid(STR("a.b")));
    CHECK("a slash", !jet_bucket_is_valid(STR("a/b")));
}
