/* SPDX-License-Identifier: Apache-2.0 */
#include "model/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "lib/test.h"
#include "model/fingerprint.h"

static const struct str types[] = {{"m5.xlarge", 9}, {"m5.large", 8}, {"c5.large", 8}};
static const struct str zones[] = {{"b", 1}, {"a", 1}};
static struct arena arena;

static struct profile built(const struct profile *given)
{
    struct profile p = {0};
    struct note note = {""};

    arena_deinit(&arena);
    arena_init(&arena, 1 << 20);
    CHECK_OK(note.text, profile_build(&arena, given, &p, &note));
    return p;
}

TEST(the_fingerprint_is_this_text)
{
    struct requirement requirements[] = {{LABEL_ZONE, OPERATOR_NOT_IN, zones, 2},
                                         {LABEL_INSTANCE_TYPE, OPERATOR_IN, types, 3},
                                         {STR("rack"), OPERATOR_SAME, NULL, 0},
                                         {LABEL_ZONE, OPERATOR_EXISTS, NULL, 0}};
    struct spread spreads[] = {{STR("zone"), 2, SPREAD_SCHEDULE_ANYWAY},
                               {STR("rack"), -1, SPREAD_DO_NOT_SCHEDULE}};
    struct profile given = {.requirements = requirements,
                            .requirement_count = 4,
                            .spreads = spreads,
                            .spread_count = 2,
                            .priority = 1000,
                            .interruption_bucket = 15,
                            .reclamation_bucket = 27};
    struct profile p = built(&given);

    CHECK_STR("sorted, numbers, every item closed", p.fingerprint,
              STR("p=1000|ipb=15|rpb=27|reqs=node.kubernetes.io/instance-type:1:"
                  "c5.large,m5.large,m5.xlarge;rack:5:;topology.kubernetes.io/zone:2:a,b;"
                  "topology.kubernetes.io/zone:3:;|spr=rack:-1:1;zone:2:2;"));
    CHECK_STR("the requirements are in that order", p.requirements[1].key, STR("rack"));
    CHECK_STR("so do the values", p.requirements[0].values[0], STR("c5.large"));
    CHECK_STR("and the spread", p.spreads[0].key, STR("rack"));
    CHECK("nothing is shared with the input", p.requirements != requirements &&
                                                  p.requirements[0].values != types &&
                                                  p.spreads != spreads);
    CHECK_STR("the input is as it was", types[0], STR("m5.xlarge"));
    struct profile empty = {.priority = INT32_MIN};
    p = built(&empty);
    CHECK_STR("with nothing in it", p.fingerprint, STR("p=-2147483648|ipb=0|rpb=0|reqs=|spr="));
    arena_deinit(&arena);
}

TEST(order_does_not_show_and_everything_else_does)
{
    struct str values[] = {STR("x"), STR("y")}, swapped[] = {STR("y"), STR("x")},
               other[] = {STR("x"), STR("z")};
    struct requirement first[] = {{STR("k"), OPERATOR_IN, values, 2},
                                  {STR("k"), OPERATOR_IN, other, 2},
                                  {STR("j"), OPERATOR_EXISTS, NULL, 0}};
    struct requirement second[] = {{STR("j"), OPERATOR_EXISTS, NULL, 0},
                                   {STR("k"), OPERATOR_IN, other, 2},
                                   {STR("k"), OPERATOR_IN, swapped, 2}};
    struct spread spreads[] = {{STR("z"), 1, SPREAD_DO_NOT_SCHEDULE},
                               {STR("z"), 2, SPREAD_UNSPECIFIED}};
    struct spread turned[] = {spreads[1], spreads[0]};
    struct profile given = {
        .requirements = first, .requirement_count = 3, .spreads = spreads, .spread_count = 2};
    struct profile same = {
        .requirements = second, .requirement_count = 3, .spreads = turned, .spread_count = 2};
    struct profile changed[8];
    struct profile p = built(&given), q;
    char text[512];

    snprintf(text, sizeof text, "%.*s", STR_ARG(p.fingerprint));
    CHECK_TEXT("equal keys and operators go by their values", text,
               "p=0|ipb=0|rpb=0|reqs=j:3:;k:1:x,y;k:1:x,z;|spr=z:1:1;z:2:0;");
    q = built(&same);
    CHECK_STR("order of values, requirements, spread", q.fingerprint, str_from(text));
    for (size_t i = 0; i < ARRAY_LEN(changed); i++) changed[i] = given;
    struct requirement fewer[] = {first[0], first[1], first[2]};
    fewer[1].value_count = 1;
    struct requirement op[] = {first[0], first[1], {STR("j"), OPERATOR_DOES_NOT_EXIST, NULL, 0}};
    struct spread skew[] = {spreads[0], {STR("z"), 3, SPREAD_UNSPECIFIED}};
    changed[0].priority = 1;
    changed[1].interruption_bucket = 1;
    changed[2].reclamation_bucket = 1;
    changed[3].requirement_count = 2;
    changed[4].requirements = fewer;
    changed[5].requirements = op;
    changed[6].spread_count = 1;
    changed[7].spreads = skew;
    for (size_t i = 0; i < ARRAY_LEN(changed); i++) {
        q = built(&changed[i]);
        CHECK("a change shows", !str_equal(q.fingerprint, str_from(text)));
    }
    arena_deinit(&arena);
}

TEST(queries_of_the_engine_to_a_profile)
{
    static const struct str one[] = {{"m5.large", 8}};
    struct requirement requirements[] = {{STR("rack"), OPERATOR_SAME, NULL, 0},
                                         {STR("block"), OPERATOR_SAME, NULL, 0},
                                         {LABEL_INSTANCE_TYPE, OPERATOR_IN, one, 1},
                                         {LABEL_INSTANCE_TYPE, OPERATOR_EXISTS, NULL, 0}};
    struct spread spreads[] = {{STR("a"), 1, SPREAD_SCHEDULE_ANYWAY},
                               {STR("z"), 1, SPREAD_DO_NOT_SCHEDULE},
                               {STR("b"), 3, SPREAD_DO_NOT_SCHEDULE}};
    struct profile given = {.requirements = requirements,
                            .requirement_count = 4,
                            .spreads = spreads,
                            .spread_count = 3};
    struct profile p = built(&given), plain, none;
    struct label labels[] = {{STR("block"), STR("1")}, {STR("rack"), STR("7")}};
    struct attributes there = {STR("m5.large"), STR_EMPTY, labels, 2},
                      bare = {STR("m5.large"), STR_EMPTY, NULL, 0};
    size_t count = 99;

    CHECK_STR("the first Same in canonical order", profile_same(&p)->key, STR("block"));
    CHECK_STR("the first strict spread", profile_strict_spread(&p)->key, STR("b"));
    CHECK_STR("pinned", profile_pinned_types(&p, &count)[0], STR("m5.large"));
    CHECK_SIZE("to one", count, 1);
    CHECK("matches", profile_matches(&p, &there) && !profile_matches(&p, &bare));

    CHECK_OK("folded", profile_without_same(&arena, &p, &plain));
    CHECK("no Same", profile_same(&plain) == NULL);
    CHECK_STR("a text of its own", plain.fingerprint,
              STR("p=0|ipb=0|rpb=0|reqs=node.kubernetes.io/instance-type:1:m5.large;"
                  "node.kubernetes.io/instance-type:3:;|spr=a:1:2;b:3:1;z:1:1;"));
    CHECK("spread survives", profile_strict_spread(&plain) != NULL);
    CHECK("matches more", profile_matches(&plain, &bare));

    given = (struct profile){0};
    none = built(&given);
    count = 99;
    CHECK("nothing asked", !profile_same(&none) && !profile_strict_spread(&none) &&
                               !profile_pinned_types(&none, &count) && count == 99);
    CHECK("matches all", profile_matches(&none, &bare));
    struct requirement not_in = {LABEL_INSTANCE_TYPE, OPERATOR_NOT_IN, one, 1};
    given = (struct profile){.requirements = &not_in, .requirement_count = 1};
    none = built(&given);
    CHECK("NotIn does not pin", profile_pinned_types(&none, &count) == NULL);
    struct requirement unspecified[] = {{LABEL_INSTANCE_TYPE, OPERATOR_UNSPECIFIED, NULL, 0},
                                        requirements[2]};
    given = (struct profile){.requirements = unspecified, .requirement_count = 2};
    none = built(&given);
    CHECK("only the first requirement on the type is asked",
          profile_pinned_types(&none, &count) == NULL);
    arena_deinit(&arena);
}

TEST(hostile_profiles_are_refused_by_name)
{
    static struct requirement many[REQUIREMENTS_MAX + 1];
    static struct spread spreads[SPREADS_MAX + 1];
    struct requirement bad[] = {{STR("k"), OPERATOR_EXISTS, NULL, 0},
                                {STR_EMPTY, OPERATOR_EXISTS, NULL, 0}};
    struct spread odd = {STR("z"), 1, (enum spread_when)3},
                  nameless = {STR("a;b"), 1, SPREAD_UNSPECIFIED};
    const struct {
        const char *why;
        struct profile given;
        enum err want;
        const char *note;
    } cases[] = {
        {"64 requirements",
         {.requirements = many, .requirement_count = REQUIREMENTS_MAX},
         ERR_OK,
         ""},
        {"65",
         {.requirements = many, .requirement_count = REQUIREMENTS_MAX + 1},
         ERR_TOO_LARGE,
         "requirements: 65 entries, at most 64 are allowed"},
        {"a bad one",
         {.requirements = bad, .requirement_count = 2},
         ERR_INVALID,
         "requirements[1]: key: empty"},
        {"16 spreads", {.spreads = spreads, .spread_count = SPREADS_MAX}, ERR_OK, ""},
        {"17",
         {.spreads = spreads, .spread_count = SPREADS_MAX + 1},
         ERR_TOO_LARGE,
         "spread: 17 entries, at most 16 are allowed"},
        {"unknown when",
         {.spreads = &odd, .spread_count = 1},
         ERR_INVALID,
         "spread[0]: when_unsatisfiable: unknown number 3"},
        {"a key that blurs",
         {.spreads = &nameless, .spread_count = 1},
         ERR_INVALID,
         "spread[0]: topology_key: ';' would blur the fingerprint"},
        {"bucket 28",
         {.interruption_bucket = 28},
         ERR_INVALID,
         "interruption_penalty_bucket: unknown bucket 28"},
        {"bucket 255",
         {.reclamation_bucket = 255},
         ERR_INVALID,
         "reclamation_penalty_bucket: unknown bucket 255"},
    };

    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct requirement){STR("k"), OPERATOR_EXISTS, NULL, 0};
    for (size_t i = 0; i < ARRAY_LEN(spreads); i++)
        spreads[i] = (struct spread){STR("z"), 0, SPREAD_UNSPECIFIED};
    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct profile p = {.priority = 7};
        struct note note = {""};
        CHECK_ERR(cases[i].why, profile_build(&arena, &cases[i].given, &p, &note), cases[i].want);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        CHECK("untouched on failure", cases[i].want == ERR_OK || p.priority == 7);
    }
    arena_deinit(&arena);
}

TEST(an_endless_fingerprint_is_refused_before_it_is_copied)
{
    static char value[LABEL_VALUE_MAX];
    static struct str values[REQUIREMENT_VALUES_MAX];
    struct requirement r = {STR("k"), OPERATOR_IN, values, REQUIREMENT_VALUES_MAX};
    struct profile given = {.requirements = &r, .requirement_count = 1}, p;
    struct note note = {""};

    memset(value, 'v', sizeof value);
    for (size_t i = 0; i < ARRAY_LEN(values); i++) values[i] = str_of(value, sizeof value);
    arena_init(&arena, 1 << 20);
    CHECK_ERR("256 KiB", profile_build(&arena, &given, &p, &note), ERR_TOO_LARGE);
    CHECK_TEXT("why", note.text,
               "requirements: a fingerprint of 260126 bytes, at most 65536 are allowed");
    CHECK_SIZE("no memory was taken", arena.used, 0);
    r.value_count = 250;
    CHECK_OK("60 KiB", profile_build(&arena, &given, &p, NULL));
    arena_deinit(&arena);
}

TEST(an_allocation_failure_is_reported_and_nothing_returned)
{
    struct requirement requirements[] = {{LABEL_INSTANCE_TYPE, OPERATOR_IN, types, 3},
                                         {STR("rack"), OPERATOR_SAME, NULL, 0}};
    struct spread spread = {STR("zone"), 1, SPREAD_DO_NOT_SCHEDULE};
    struct profile given = {.requirements = requirements,
                            .requirement_count = 2,
                            .spreads = &spread,
                            .spread_count = 1};
    struct profile p = {.priority = 7};

    arena_init(&arena, 16);
    CHECK_ERR("no room at all", profile_build(&arena, &given, &p, NULL), ERR_NOMEM);
    CHECK_I64("untouched", p.priority, 7);
    arena_deinit(&arena);
}

static const char *const fingerprints[] = {
    "p=-2147483648|ipb=0|rpb=0|reqs=|spr=",
    "p=1000|ipb=15|rpb=27|reqs=rack:5:;topology.kubernetes.io/zone:2:a,b;"
    "topology.kubernetes.io/zone:3:;|spr=rack:1:1;zone:2:2;",
    "p=0|ipb=1|rpb=2|reqs=empty:1:;mixed:1:,a:b;none:4:;|spr=",
};

TEST(a_profile_is_read_out_of_its_fingerprint)
{
    for (size_t i = 0; i < ARRAY_LEN(fingerprints); i++) {
        struct str text = str_from(fingerprints[i]);
        struct profile p = {0};
        arena_init(&arena, 1 << 20);
        CHECK_OK(fingerprints[i], fingerprint_read(&arena, text, &p));
        CHECK_STR("all of it", p.fingerprint, text);
        if (i == 2) {
            CHECK_SIZE("an empty value is one", p.requirements[0].value_count, 1);
            CHECK_STR("and may be beside another", p.requirements[1].values[1], STR("a:b"));
            CHECK_SIZE("where none may be there is none", p.requirements[2].value_count, 0);
        }
        arena_deinit(&arena);
    }
}

TEST(an_invalid_fingerprint_is_refused)
{
    static const char *const garbage[] = {
        "",
        "p=1",
        "p=1|ipb=0|rpb=0|reqs=",
        "p=1|ipb=0|rpb=0|reqs=|spr=|",
        "p=01|ipb=0|rpb=0|reqs=|spr=",
        "p=1|ipb=256|rpb=0|reqs=|spr=",
        "p=99999999999|ipb=0|rpb=0|reqs=|spr=",
        "p=1|ipb=0|rpb=0|reqs=k:1|spr=",
        "p=1|ipb=0|rpb=0|reqs=k:1;|spr=",
        "p=1|ipb=0|rpb=0|reqs=k:9:a;|spr=",
        "p=1|ipb=0|rpb=0|reqs=k:1:b,a;|spr=",
        "p=1|ipb=0|rpb=0|reqs=b:3:;a:3:;|spr=",
        "p=1|ipb=0|rpb=0|reqs=|spr=k:1;",
        "p=1|ipb=0|rpb=0|reqs=|spr=k:1:1",
    };
    struct prng prng;

    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        struct profile p;
        arena_init(&arena, 1 << 20);
        CHECK_ERR(garbage[i], fingerprint_read(&arena, str_from(garbage[i]), &p), ERR_PARSE);
        arena_deinit(&arena);
    }
    prng_seed(&prng, 7);
    for (int i = 0; i < 20000;
         i++) { /* the text may be refused; an accepted text is written back unchanged */
        static const char bytes[] = "|:;,=pk19-";
        char text[256];
        struct str from = str_from(fingerprints[prng_below(&prng, ARRAY_LEN(fingerprints))]);
        struct profile p;
        memcpy(text, from.at, from.len);
        for (int n = 0; n < 2; n++)
            text[prng_below(&prng, from.len)] = bytes[prng_below(&prng, sizeof bytes)];
        arena_init(&arena, 1 << 20);
        if (!fingerprint_read(&arena, str_of(text, from.len), &p))
            CHECK_STR("as written", p.fingerprint, str_of(text, from.len));
        arena_deinit(&arena);
    }
}
