/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "operator/core/demand.h"

static struct demand *demand;
static struct note note;

static void open_demand(void)
{
    note.text[0] = '\0';
    CHECK_OK("open", demand_open(1, &demand));
}

static const struct label one_cpu[] = {{{"cpu", 3}, {"1", 1}}};
static struct capacity_request request_of(uint32_t count)
{
    return (struct capacity_request){.resources = one_cpu, .resource_count = 1, .count = count};
}

TEST(a_request_is_refused_as_the_shard_would_and_alone)
{
    static const struct label bad[] = {{{"cpu", 3}, {"lots", 4}}};
    static const struct label minus[] = {{{"cpu", 3}, {"-1", 2}}};
    static const struct requirement same = {{"zone", 4}, OPERATOR_SAME, NULL, 0};
    static const struct str a = {"a", 1}, b = {"b", 1};
    const struct requirement clash[] = {{STR("zone"), OPERATOR_IN, &a, 1},
                                        {STR("zone"), OPERATOR_IN, &b, 1}};
    const struct requirement comma = {STR("a,b"), OPERATOR_EXISTS, NULL, 0};
    struct {
        const char *why, *says;
        struct capacity_request request;
        enum err want;
    } cases[] = {
        {"no unit", "count", request_of(0), ERR_INVALID},
        {"too many", "count", request_of(REQUEST_COUNT_MAX + 1), ERR_INVALID},
        {"no resources", "resources", {.count = 1}, ERR_INVALID},
        {"not a quantity", "[cpu]", {.count = 1, .resources = bad, .resource_count = 1}, ERR_PARSE},
        {"less than none",
         "[cpu]",
         {.count = 1, .resources = minus, .resource_count = 1},
         ERR_INVALID},
        {"Same by hand", "co-location", request_of(1), ERR_INVALID},
        {"a group alone", "group", request_of(1), ERR_INVALID},
        {"no machine ever", "zone", request_of(1), ERR_UNSUPPORTED},
        {"a key no label has", "key", request_of(1), ERR_INVALID},
        {"no number", "reclamation_penalty", request_of(1), ERR_INVALID},
    };
    cases[5].request.requirements = &same;
    cases[5].request.requirement_count = 1;
    cases[6].request.group = STR("g");
    cases[7].request.requirements = clash;
    cases[7].request.requirement_count = 2;
    cases[8].request.requirements = &comma;
    cases[8].request.requirement_count = 1;
    cases[9].request.reclamation.given = true;
    cases[9].request.reclamation.dollars = (double)NAN;
    open_demand();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_ERR(cases[i].why, demand_put(demand, STR("id"), &cases[i].request, NULL, &note),
                  cases[i].want);
        CHECK_HAS(cases[i].why, note.text, cases[i].says);
        CHECK_ERR("and checked alike", demand_check(demand, &cases[i].request, &note),
                  cases[i].want);
    }
    CHECK_SIZE("nothing is there", demand_requests(demand) + demand_rows(demand), 0);
    CHECK_ERR("an empty id",
              demand_put(
                  demand, STR_EMPTY,
                  &(struct capacity_request){.count = 1, .resources = one_cpu, .resource_count = 1},
                  NULL, &note),
              ERR_INVALID);
    CHECK_SIZE("and no row without a request", demand_rows(demand), 0);
    demand_close(demand);
}

TEST(a_refused_request_leaves_the_one_before)
{
    struct capacity_request request = request_of(3), bad = request_of(0);
    size_t cursor = 0;

    open_demand();
    CHECK_OK("put", demand_put(demand, STR("web"), &request, NULL, &note));
    CHECK_ERR("refused", demand_put(demand, STR("web"), &bad, NULL, &note), ERR_INVALID);
    CHECK("3 cpus", resource_sum_get(&demand_next(demand, &cursor)->aggregate, 0) == 3000);
    demand_close(demand);
}

/* One workload that invents names must not take those of the others. */
TEST(names_of_refused_requests_are_not_kept)
{
    struct capacity_request good = request_of(1);

    open_demand();
    for (int i = 0; i < 2 * DIMENSIONS_MAX; i++) {
        char name[16];
        struct label pairs[2] = {{STR_EMPTY, STR("1")}, {STR("cpu"), STR("lots")}};
        struct capacity_request request = {.count = 1, .resources = pairs, .resource_count = 2};
        snprintf(name, sizeof name, "name-%d", i);
        pairs[0].key = str_from(name);
        CHECK_ERR("refused", demand_put(demand, STR("id"), &request, NULL, &note), ERR_PARSE);
        pairs[1].value = STR("1");
        CHECK_OK("only looked at", demand_check(demand, &request, &note));
    }
    CHECK_OK("there is room", demand_put(demand, STR("id"), &good, NULL, &note));
    CHECK_SIZE("one name", demand_dimensions(demand)->count, 1);
    demand_close(demand);
}

/* Seen once: after some thousand looks there was no memory for names any more. */
TEST(a_look_or_a_refusal_leaves_nothing_behind)
{
    const struct label half[] = {{STR("cpu"), STR("1")}, {STR("memory"), STR("lots")}};
    struct capacity_request good = request_of(1),
                            bad = {.count = 1, .resources = half, .resource_count = 2};

    open_demand();
    for (int i = 0; i < 20000; i++) {
        if (demand_check(demand, &good, &note)) CHECK("each is good", false);
        if (demand_put(demand, STR("id"), &bad, NULL, &note) != ERR_PARSE) CHECK("each bad", false);
    }
    CHECK_OK("still", demand_put(demand, STR("id"), &good, NULL, &note));
    demand_close(demand);
}

TEST(the_unit_of_a_row_has_room_for_sixteen_names)
{
    enum { EACH = 10 };
    char names[2][EACH][16];
    struct label pairs[2][EACH];
    struct capacity_request request = {.count = 1, .resource_count = EACH};

    open_demand();
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < EACH; i++) {
            snprintf(names[half][i], sizeof names[half][i], "n-%d-%d", half, i);
            pairs[half][i] = (struct label){str_from(names[half][i]), STR("1")};
        }
    request.resources = pairs[0];
    CHECK_OK("ten", demand_put(demand, STR("a"), &request, NULL, &note));
    request.resources = pairs[1];
    CHECK_ERR("ten others", demand_put(demand, STR("b"), &request, NULL, &note), ERR_FULL);
    CHECK_OK("in place of them",
             demand_put(
                 demand, STR("a"),
                 &(struct capacity_request){.count = 1, .resources = one_cpu, .resource_count = 1},
                 NULL, &note));
    CHECK_OK("they fit", demand_put(demand, STR("b"), &request, NULL, &note));
    demand_close(demand);
}

TEST(nothing_is_whole_before_the_first_list_ended)
{
    struct capacity_request request = request_of(1);

    open_demand();
    CHECK_OK("put", demand_put(demand, STR("a"), &request, NULL, &note));
    CHECK("not yet", !demand_whole(demand));
    demand_list_begin(demand);
    demand_list_give_up(demand);
    CHECK("a list that was given up says nothing", !demand_whole(demand));
    demand_list_begin(demand);
    CHECK_OK("put", demand_put(demand, STR("b"), &request, NULL, &note));
    demand_list_end(demand);
    CHECK("now", demand_whole(demand));
    CHECK_SIZE("a was not in it", demand_requests(demand), 1);
    demand_list_begin(demand);
    CHECK("not while a list is half reported", !demand_whole(demand));
    demand_list_give_up(demand);
    CHECK("but then what was there", demand_whole(demand) && demand_requests(demand) == 1);
    demand_close(demand);
}

TEST(a_group_is_written_as_the_original_does)
{
    const struct str values[] = {STR("x"), STR("y")};
    struct label labels[] = {{STR("b"), STR("2")}, {STR("a"), STR("1")}};
    struct selector_term terms[] = {{STR("k"), STR("NotIn"), values, 1},
                                    {STR("k"), STR("In"), values + 1, 1},
                                    {STR("k"), STR("In"), values, 2},
                                    {STR("e"), STR("Exists"), NULL, 0}};
    struct buf out;

    buf_init(&out, 1024);
    CHECK_OK("alone", group_write(STR("zone"), NULL, 0, NULL, 0, &out));
    CHECK_STR("nothing after the NUL", buf_peek(&out), STR("zone\0"));
    buf_clear(&out);
    CHECK_OK("labels", group_write(STR("zone"), labels, 2, NULL, 0, &out));
    CHECK_STR("sorted, then a semicolon", buf_peek(&out), STR("zone\0a=1,b=2,;"));
    buf_clear(&out);
    CHECK_OK("all", group_write(STR("zone"), labels, 1, terms, 4, &out));
    CHECK_STR("by key, operator, values", buf_peek(&out),
              STR("zone\0a=1,;e Exists ;k In x,y;k In y;k NotIn x;"));
    buf_deinit(&out);
}

TEST(what_the_shard_reports_about_a_row_holds_for_each_of_its_requests)
{
    struct capacity_request request = request_of(1);
    struct supply supply = {.lacking = 2, .reason = "NO_MATCHING_SUPPLY"};
    struct str fingerprint;
    size_t cursor = 0;
    char copy[FINGERPRINT_MAX];

    open_demand();
    CHECK_OK("a", demand_put(demand, STR("a"), &request, NULL, &note));
    CHECK_OK("b", demand_put(demand, STR("b"), &request, NULL, &note));
    request.priority = 9;
    CHECK_OK("c", demand_put(demand, STR("c"), &request, NULL, &note));
    fingerprint = demand_next(demand, &cursor)->profile.fingerprint;
    memcpy(copy, fingerprint.at, fingerprint.len);
    fingerprint = str_of(copy, fingerprint.len);
    CHECK("none yet", !demand_supply(demand, STR("a")));
    CHECK_OK("put", demand_supply_put(demand, fingerprint, STR_EMPTY, &supply));
    CHECK("a and b", demand_supply(demand, STR("a"))->lacking == 2 &&
                         demand_supply(demand, STR("b")) == demand_supply(demand, STR("a")));
    CHECK("another row", !demand_supply(demand, STR("c")) && !demand_supply(demand, STR("d")));
    demand_remove(demand, STR("a"));
    demand_remove(demand, STR("b"));
    request.priority = 0;
    CHECK_OK("a", demand_put(demand, STR("a"), &request, NULL, &note));
    CHECK("the shard does not repeat it", demand_supply(demand, STR("a")));
    CHECK_OK("no report", demand_supply_put(demand, fingerprint, STR_EMPTY, NULL));
    CHECK("forgotten", !demand_supply(demand, STR("a")));
    CHECK_OK("put", demand_supply_put(demand, fingerprint, STR_EMPTY, &supply));
    demand_supplies_forget(demand);
    CHECK("by a new session", !demand_supply(demand, STR("a")));
    demand_close(demand);
}
