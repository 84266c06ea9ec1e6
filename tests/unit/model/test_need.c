/* SPDX-License-Identifier: Apache-2.0 */
#include "model/need.h"

#include <stdlib.h>

#include "lib/test.h"

static struct dimensions dims;
static struct arena arena;

static void setup(void)
{
    dimensions_init(&dims);
    arena_init(&arena, 1 << 24);
}

static void teardown(void)
{
    arena_deinit(&arena);
    dimensions_deinit(&dims);
}

/* A row of `cpu` whole units with a unit of `unit`. */
static struct need row(struct str cluster, int32_t priority, const char *cpu, const char *unit,
                       struct str group, int64_t arrival)
{
    struct label aggregate = {STR("cpu"), str_from(cpu)}, min_unit = {STR("cpu"), str_from(unit)};
    struct need_input given = {.cluster = cluster,
                               .profile = {.priority = priority},
                               .aggregate = &aggregate,
                               .aggregate_count = 1,
                               .min_unit = &min_unit,
                               .min_unit_count = 1,
                               .arrival_unix_ns = arrival,
                               .group = group};
    struct need need = {0};
    struct note note = {""};

    CHECK_OK(note.text, need_build(&arena, &dims, &given, &need, &note));
    return need;
}

TEST(a_row_is_copied_and_read)
{
    char cluster[] = "c1", group[] = "ns\0gang";
    struct need need;

    setup();
    need = row(str_from(cluster), 5, "1500m", "500m", str_of(group, 7), 42);
    cluster[0] = group[0] = '!';
    CHECK_STR("cluster", need.cluster, STR("c1"));
    CHECK_STR("a group may hold a NUL", need.group, STR("ns\0gang"));
    CHECK_STR("profile", need.profile.fingerprint, STR("p=5|ipb=0|rpb=0|reqs=|spr="));
    CHECK_I64("aggregate", (int64_t)resource_sum_get(&need.aggregate, 0), 1500);
    CHECK_I64("unit", resources_get(&need.min_unit, 0), 500);
    CHECK_I64("arrival", need.arrival_unix_ns, 42);
    teardown();
}

TEST(demand_may_pass_what_one_machine_can_have)
{
    struct label memory = {STR("memory"), STR("1Ei")};
    struct need_input given = {.cluster = STR("c"), .aggregate = &memory, .aggregate_count = 1};
    struct need need;
    struct note note = {""};

    setup();
    CHECK_OK("an exbibyte in sum", need_build(&arena, &dims, &given, &need, NULL));
    given = (struct need_input){.cluster = STR("c"), .min_unit = &memory, .min_unit_count = 1};
    CHECK_ERR("but not in one unit", need_build(&arena, &dims, &given, &need, &note),
              ERR_TOO_LARGE);
    CHECK_TEXT("named", note.text, "min_unit[memory]: more than 2^63 thousandths");
    teardown();
}

TEST(hostile_rows_are_refused_by_name)
{
    static char big[GROUP_MAX + 1];
    static const struct label bad = {{"cpu", 3}, {"-1", 2}};
    struct requirement bare = {STR("k"), OPERATOR_IN, NULL, 0};
    struct requirement never[] = {{STR("k"), OPERATOR_DOES_NOT_EXIST, NULL, 0},
                                  {STR("k"), OPERATOR_EXISTS, NULL, 0}};
    const struct {
        const char *why;
        struct need_input given;
        enum err want;
        const char *note;
    } cases[] = {
        {"no cluster", {.group = STR("g")}, ERR_INVALID, "cluster_id: empty"},
        {"a long cluster",
         {.cluster = {big, ID_MAX + 1}},
         ERR_TOO_LARGE,
         "cluster_id: 254 bytes, at most 253 are allowed"},
        {"a cluster with a NUL",
         {.cluster = STR("a\0")},
         ERR_INVALID,
         "cluster_id: control character 0x00 at byte 1"},
        {"a long group",
         {.cluster = STR("c"), .group = {big, GROUP_MAX + 1}},
         ERR_TOO_LARGE,
         "group: 1025 bytes, at most 1024 are allowed"},
        {"before 1970",
         {.cluster = STR("c"), .arrival_unix_ns = -1},
         ERR_INVALID,
         "timestamp_unix_nanos: negative"},
        {"negative demand",
         {.cluster = STR("c"), .aggregate = &bad, .aggregate_count = 1},
         ERR_INVALID,
         "aggregate_resources[cpu]: negative"},
        {"a negative unit",
         {.cluster = STR("c"), .min_unit = &bad, .min_unit_count = 1},
         ERR_INVALID,
         "min_unit[cpu]: negative"},
        {"its profile",
         {.cluster = STR("c"), .profile = {.requirements = &bare, .requirement_count = 1}},
         ERR_INVALID,
         "requirements[0]: values: In takes at least one"},
        {"what no machine can be",
         {.cluster = STR("c"), .profile = {.requirements = never, .requirement_count = 2}},
         ERR_UNSUPPORTED,
         "requirements on k: no machine can satisfy Exists and DoesNotExist"},
        {"fine", {.cluster = {big, ID_MAX}, .group = {big, GROUP_MAX}}, ERR_OK, ""},
    };

    memset(big, 'x', sizeof big);
    setup();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct need need = {.arrival_unix_ns = 77};
        struct note note = {""};
        CHECK_ERR(cases[i].why, need_build(&arena, &dims, &cases[i].given, &need, &note),
                  cases[i].want);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        CHECK_I64("untouched on failure", need.arrival_unix_ns, cases[i].want ? 77 : 0);
    }
    teardown();
}
