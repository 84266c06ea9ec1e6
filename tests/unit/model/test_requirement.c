/* SPDX-License-Identifier: Apache-2.0 */
#include "model/requirement.h"

#include <stdlib.h>

#include "lib/test.h"

static const struct str ab[] = {{"a", 1}, {"b", 1}}, bc[] = {{"b", 1}, {"c", 1}}, d[] = {{"d", 1}},
                        nothing[] = {{"", 0}};

#define REQ(key, op, values)                                                                       \
    {                                                                                              \
        STR(key), op, values, sizeof(values) / sizeof((values)[0])                                 \
    }
#define REQ_BARE(key, op)                                                                          \
    {                                                                                              \
        STR(key), op, NULL, 0                                                                      \
    }

TEST(when_an_operator_holds)
{
    const struct {
        const char *why;
        struct requirement r;
        bool absent, a, x;
    } cases[] = {
        {"In", REQ("k", OPERATOR_IN, ab), false, true, false},
        {"NotIn", REQ("k", OPERATOR_NOT_IN, ab), true, false, true},
        {"Exists", REQ_BARE("k", OPERATOR_EXISTS), false, true, true},
        {"DoesNotExist", REQ_BARE("k", OPERATOR_DOES_NOT_EXIST), true, false, false},
        {"Same", REQ_BARE("k", OPERATOR_SAME), false, true, true},
        {"Same of values", REQ("k", OPERATOR_SAME, ab), false, true, false},
        {"Unspecified", REQ("k", OPERATOR_UNSPECIFIED, ab), false, false, false},
        {"unknown", {STR("k"), (enum requirement_operator)9, ab, 2}, false, false, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str a = STR("a"), x = STR("x");
        CHECK(cases[i].why, requirement_holds(&cases[i].r, NULL) == cases[i].absent);
        CHECK(cases[i].why, requirement_holds(&cases[i].r, &a) == cases[i].a);
        CHECK(cases[i].why, requirement_holds(&cases[i].r, &x) == cases[i].x);
    }
    struct requirement r = REQ("k", OPERATOR_IN, ab);
    struct str b = STR("b"), before = STR(""), between = STR("aa"), after = STR("c");
    CHECK("the last value", requirement_holds(&r, &b));
    CHECK("not its neighbours", !requirement_holds(&r, &before) &&
                                    !requirement_holds(&r, &between) &&
                                    !requirement_holds(&r, &after));
}

TEST(attributes_are_type_zone_and_labels)
{
    struct label labels[] = {{LABEL_INSTANCE_TYPE, STR("label-type")},
                             {STR("rack"), STR("r1")},
                             {LABEL_ZONE, STR("label-zone")}};
    struct attributes both = {STR("m5.large"), STR("z1"), labels, 3};
    struct attributes none = {STR_EMPTY, STR_EMPTY, labels, 3};
    struct attributes bare = {STR_EMPTY, STR_EMPTY, NULL, 0};

    CHECK_STR("the type", *attributes_find(&both, LABEL_INSTANCE_TYPE), STR("m5.large"));
    CHECK_STR("the zone", *attributes_find(&both, LABEL_ZONE), STR("z1"));
    CHECK_STR("a label", *attributes_find(&both, STR("rack")), STR("r1"));
    CHECK_STR("without a type, its label", *attributes_find(&none, LABEL_INSTANCE_TYPE),
              STR("label-type"));
    CHECK_STR("without a zone, its label", *attributes_find(&none, LABEL_ZONE), STR("label-zone"));
    CHECK("neither", attributes_find(&bare, LABEL_ZONE) == NULL);
    CHECK("no such label", attributes_find(&both, STR("row")) == NULL);
}

TEST(all_requirements_must_hold)
{
    static const struct str types[] = {{"m5.large", 8}};
    struct requirement both[] = {REQ_BARE("rack", OPERATOR_EXISTS),
                                 {LABEL_INSTANCE_TYPE, OPERATOR_IN, types, 1}};
    struct label rack = {STR("rack"), STR("r1")};
    struct attributes with = {STR("m5.large"), STR("z1"), &rack, 1};
    struct attributes without = {STR("m5.large"), STR("z1"), NULL, 0};
    struct attributes other = {STR("c5.large"), STR("z1"), &rack, 1};

    CHECK("both", requirements_match(both, 2, &with));
    CHECK("one of two",
          !requirements_match(both, 2, &without) && !requirements_match(both, 2, &other));
    CHECK("none asked, all match", requirements_match(NULL, 0, &other));
}

TEST(malformed_requirements_are_refused_by_name)
{
    static char big[LABEL_KEY_MAX + 1];
    static const struct str comma[] = {{"a,b", 3}}, semi[] = {{"x", 1}, {"a;b", 3}},
                            bar[] = {{"a|b", 3}}, colon[] = {{"a:b", 3}}, tab[] = {{"a\tb", 3}},
                            large[] = {{big, 254}};
    const struct {
        const char *why;
        struct requirement r;
        enum err want;
        const char *note;
    } cases[] = {
        {"In", REQ("k", OPERATOR_IN, ab), ERR_OK, ""},
        {"In of the empty value", REQ("k", OPERATOR_IN, nothing), ERR_OK, ""},
        {"a colon in a value", REQ("k", OPERATOR_IN, colon), ERR_OK, ""},
        {"Same", REQ_BARE("k", OPERATOR_SAME), ERR_OK, ""},
        {"unspecified is the wire's own", REQ_BARE("k", OPERATOR_UNSPECIFIED), ERR_OK, ""},
        {"In of nothing", REQ_BARE("k", OPERATOR_IN), ERR_INVALID, "values: In takes at least one"},
        {"NotIn of nothing", REQ_BARE("k", OPERATOR_NOT_IN), ERR_INVALID,
         "values: NotIn takes at least one"},
        {"Exists of values", REQ("k", OPERATOR_EXISTS, ab), ERR_INVALID,
         "values: Exists takes none"},
        {"DoesNotExist of values", REQ("k", OPERATOR_DOES_NOT_EXIST, ab), ERR_INVALID,
         "values: DoesNotExist takes none"},
        {"Same of the empty value", REQ("k", OPERATOR_SAME, nothing), ERR_INVALID,
         "values[0]: value: empty"},
        {"unknown operator", REQ_BARE("k", (enum requirement_operator)6), ERR_INVALID,
         "operator: unknown number 6"},
        {"no key", REQ_BARE("", OPERATOR_EXISTS), ERR_INVALID, "key: empty"},
        {"comma", REQ("k", OPERATOR_IN, comma), ERR_INVALID,
         "values[0]: value: ',' would blur the fingerprint"},
        {"semicolon", REQ("k", OPERATOR_IN, semi), ERR_INVALID,
         "values[1]: value: ';' would blur the fingerprint"},
        {"bar", REQ("k", OPERATOR_IN, bar), ERR_INVALID,
         "values[0]: value: '|' would blur the fingerprint"},
        {"colon in a key", REQ_BARE("k:1", OPERATOR_EXISTS), ERR_INVALID,
         "key: ':' would blur the fingerprint"},
        {"control character", REQ("k", OPERATOR_IN, tab), ERR_INVALID,
         "values[0]: value: control character 0x09 at byte 1"},
        {"long key",
         {{big, sizeof big}, OPERATOR_EXISTS, NULL, 0},
         ERR_TOO_LARGE,
         "key: 318 bytes, at most 317 are allowed"},
        {"long value", REQ("k", OPERATOR_IN, large), ERR_TOO_LARGE,
         "values[0]: value: 254 bytes, at most 253 are allowed"},
    };

    memset(big, 'x', sizeof big);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        CHECK_ERR(cases[i].why, requirement_check(&cases[i].r, &note), cases[i].want);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
    }
    struct str *many = calloc(10000, sizeof *many);
    struct requirement r = {STR("k"), OPERATOR_IN, many, 10000};
    struct note note = {""};
    CHECK_ERR("10,000 values", requirement_check(&r, &note), ERR_TOO_LARGE);
    CHECK_TEXT("why", note.text, "values: 10000 entries, at most 1024 are allowed");
    r.value_count = REQUIREMENT_VALUES_MAX;
    for (size_t i = 0; i < r.value_count; i++) many[i] = STR("v");
    CHECK_OK("1024", requirement_check(&r, NULL));
    free(many);
}

TEST(contradictions_are_found)
{
    const struct {
        const char *why;
        struct requirement r[3]; /* canonical: by key, then operator */
        size_t count;
        const char *note; /* NULL: a machine can satisfy them */
    } cases[] = {
        {"nothing asked", {REQ_BARE("k", OPERATOR_EXISTS)}, 0, NULL},
        {"lists that meet", {REQ("k", OPERATOR_IN, ab), REQ("k", OPERATOR_IN, bc)}, 2, NULL},
        {"lists that do not",
         {REQ("k", OPERATOR_IN, ab), REQ("k", OPERATOR_IN, d)},
         2,
         "requirements on k: no machine can satisfy In and In"},
        {"other keys are other", {REQ("j", OPERATOR_IN, ab), REQ("k", OPERATOR_IN, d)}, 2, NULL},
        {"all but one forbidden",
         {REQ("k", OPERATOR_IN, ab), REQ("k", OPERATOR_NOT_IN, bc)},
         2,
         NULL},
        {"all forbidden",
         {REQ("k", OPERATOR_IN, ab), REQ("k", OPERATOR_NOT_IN, ab)},
         2,
         "requirements on k: no machine can satisfy In and NotIn"},
        {"there and not there",
         {REQ_BARE("k", OPERATOR_EXISTS), REQ_BARE("k", OPERATOR_DOES_NOT_EXIST)},
         2,
         "requirements on k: no machine can satisfy Exists and DoesNotExist"},
        {"In and not there",
         {REQ("k", OPERATOR_IN, ab), REQ_BARE("k", OPERATOR_DOES_NOT_EXIST)},
         2,
         "requirements on k: no machine can satisfy In and DoesNotExist"},
        {"not there and Same",
         {REQ_BARE("k", OPERATOR_DOES_NOT_EXIST), REQ_BARE("k", OPERATOR_SAME)},
         2,
         "requirements on k: no machine can satisfy DoesNotExist and Same"},
        {"not there is not in",
         {REQ("k", OPERATOR_NOT_IN, ab), REQ_BARE("k", OPERATOR_DOES_NOT_EXIST)},
         2,
         NULL},
        {"there, but none of these",
         {REQ("k", OPERATOR_NOT_IN, ab), REQ_BARE("k", OPERATOR_EXISTS)},
         2,
         NULL},
        {"Same of values against In",
         {REQ("k", OPERATOR_IN, d), REQ("k", OPERATOR_SAME, ab)},
         2,
         "requirements on k: no machine can satisfy In and Same"},
        {"unspecified never holds",
         {REQ_BARE("k", OPERATOR_UNSPECIFIED)},
         1,
         "requirements on k: no machine can satisfy Unspecified"},
        {"the second key",
         {REQ_BARE("j", OPERATOR_EXISTS), REQ("k", OPERATOR_IN, ab), REQ("k", OPERATOR_IN, d)},
         3,
         "requirements on k: no machine can satisfy In and In"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        CHECK_ERR(cases[i].why, requirements_contradict(cases[i].r, cases[i].count, &note),
                  cases[i].note ? ERR_UNSUPPORTED : ERR_OK);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note ? cases[i].note : "");
        requirements_contradict(cases[i].r, cases[i].count, NULL);
    }
    CHECK_TEXT("a name", operator_name(OPERATOR_DOES_NOT_EXIST), "DoesNotExist");
}
