/* SPDX-License-Identifier: Apache-2.0 */
/* capacity.c and tally.c: shard.md 14, 15.2, and the gauges of machines. */
#include "lib/test.h"
#include "unit/shard/core_case.h"

static struct machine typed(struct core_case *c, const char *id, enum machine_state state,
                            const char *type, double price)
{
    struct machine m = case_machine(c, id, state);

    m.attributes.instance_type = str_from(type);
    m.price_per_hour = price;
    return m;
}

/* The hints of one decision, which must be `count`. */
static const struct effect *hints(struct core_case *c, size_t count)
{
    case_forget(c);
    (void)case_decide(c);
    CHECK_SIZE("hints", case_count(c, EFFECT_CAPACITY), count);
    return count ? case_effect(c, EFFECT_CAPACITY, 0) : NULL;
}

static const struct {
    const char *why;
    struct {
        enum machine_state state; /* 0: no more */
        const char *type;
        double price;
    } machines[4];
    const char *pinned;
    uint32_t count;
    enum confidence confidence;
    double cost;
} vectors[] = {
    {"two idle: the cheaper one's price",
     {{MACHINE_IDLE, "t1", 6.0}, {MACHINE_IDLE, "t1", 4.5}},
     "t1",
     2,
     CONFIDENCE_HIGH,
     4.5},
    {"could be created", {{MACHINE_SPECULATIVE, "t1", 6.0}}, "t1", 1, CONFIDENCE_MEDIUM, 0},
    {"other types", {{MACHINE_IDLE, "t2", 1}}, "t1", 0, CONFIDENCE_NONE, 0},
    {"any type",
     {{MACHINE_IDLE, "t1", 1}, {MACHINE_IDLE, "t2", 2}, {MACHINE_SPECULATIVE, "t3", 1}},
     "",
     3,
     CONFIDENCE_HIGH,
     0},
    {"in use",
     {{MACHINE_CONFIGURED, "t1", 1}, {MACHINE_FAILED, "t1", 1}},
     "t1",
     0,
     CONFIDENCE_NONE,
     0},
};
TEST(a_hint_says_how_many_could_be_had_and_how_sure_that_is)
{
    static const char *const ids[] = {"m0", "m1", "m2", "m3"};

    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        const struct effect *hint;
        struct machine m[4];
        struct core_case c;
        struct need row;
        size_t count = 0;

        case_open(&c, NULL);
        c.now.ms = 1; /* the first hint waits for no interval */
        for (; vectors[i].machines[count].state; count++)
            m[count] = typed(&c, ids[count], vectors[i].machines[count].state,
                             vectors[i].machines[count].type, vectors[i].machines[count].price);
        case_list(&c, LIST_FULL, m, count, true);
        row = case_need(&c, "a", 1, 1, vectors[i].pinned);
        (void)case_rollup(&c, "a", &row, 1);
        (void)hints(&c, 0); /* nobody listens */
        case_session(&c, "a", true);
        hint = hints(&c, 1);
        CHECK_STR(vectors[i].why, hint->cluster, STR("a"));
        CHECK_U32(vectors[i].why, hint->capacity.count, vectors[i].count);
        CHECK_U32(vectors[i].why, hint->capacity.confidence, vectors[i].confidence);
        CHECK(vectors[i].why, hint->capacity.cost_per_hour == vectors[i].cost);
        CHECK_STR("of this profile", hint->capacity.profile->fingerprint, row.profile.fingerprint);
        case_close(&c);
    }
}

TEST(the_same_hint_is_said_once_and_a_changed_one_not_too_soon)
{
    struct need rows[2];
    struct machine m[2];
    struct core_case c;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    case_session(&c, "b", true);
    m[0] = typed(&c, "m0", MACHINE_IDLE, "t1", 2);
    m[1] = typed(&c, "m1", MACHINE_IDLE, "t1", 1);
    rows[0] = case_need(&c, "a", 1, 1, "t1");
    rows[1] = case_need(&c, "b", 1, 1, "t1");
    (void)case_rollup(&c, "a", &rows[0], 1);
    (void)case_rollup(&c, "b", &rows[1], 1);
    (void)hints(&c, 2);
    c.now.ms += 60 * 1000;
    (void)hints(&c, 0); /* nothing changed */
    case_list(&c, LIST_FULL, m, 1, true);
    (void)hints(&c, 2);
    c.now.ms += 100;
    case_list(&c, LIST_FULL, m, 2, true);
    (void)hints(&c, 0); /* changed, but 100 ms after the last */
    c.now.ms += 5 * 1000;
    CHECK_U32("the newest", hints(&c, 2)->capacity.count, 2);
    case_session(&c, "a", false);
    case_session(&c, "a", true);
    CHECK_STR("a new session knows nothing; another's does", hints(&c, 1)->cluster, STR("a"));
    case_close(&c);
}

static const struct need_status *statuses(struct core_case *c, size_t count)
{
    case_forget(c);
    (void)case_decide(c);
    CHECK_SIZE("statuses", case_count(c, EFFECT_NEED_STATUS), count);
    return count ? &case_effect(c, EFFECT_NEED_STATUS, 0)->status : NULL;
}

TEST(an_operator_that_takes_it_gets_the_status_of_each_need_when_it_changed)
{
    const struct need_status *status;
    struct need rows[2];
    struct machine m;
    struct core_case c;

    case_open(&c, NULL);
    rows[0] = case_need(&c, "a", 1, 9, "t1");
    rows[1] = case_need(&c, "a", 1, 3, "t2");
    (void)case_rollup(&c, "a", rows, 2);
    m = typed(&c, "m0", MACHINE_IDLE, "t1", 2);
    case_list(&c, LIST_FULL, &m, 1, true);
    CHECK_OK("an older one",
             core_session(c.core, STR("a"), OPERATOR_REPORTS_DRAINS, c.now, &c.out));
    (void)statuses(&c, 0);
    CHECK_OK("session", core_session(c.core, STR("a"), OPERATOR_TAKES_STATUS, c.now, &c.out));
    status = statuses(&c, 2);
    CHECK_STR("of", status->fingerprint, rows[0].profile.fingerprint);
    CHECK_STR("no group", status->group, STR_EMPTY);
    CHECK("lacks", !status->satisfied && status->reason == REASON_PRIORITY_STARVED);
    CHECK("4 of 9 units", status->coming == 1 && !status->ready && status->lacking == 5);
    CHECK_U64("since this cycle", status->since.ms, 77);
    status = &case_effect(&c, EFFECT_NEED_STATUS, 1)->status;
    CHECK("none of this type", status->reason == REASON_NO_MATCHING_SUPPLY && status->lacking == 3);
    c.now.ms += 60 * 1000;
    (void)statuses(&c, 0); /* nothing changed */
    rows[0] = case_need(&c, "a", 1, 4, "t1");
    (void)case_rollup(&c, "a", rows, 2);
    status = statuses(&c, 1);
    CHECK("met", status->satisfied && !status->lacking && status->reason == REASON_NONE);
    rows[0] = case_need(&c, "a", 1, 9, "t1");
    (void)case_rollup(&c, "a", rows, 2);
    (void)statuses(&c, 0); /* too soon after the last */
    (void)case_rollup(&c, "a", rows, 1);
    c.now.ms += 60 * 1000;
    CHECK_U32("changed", statuses(&c, 1)->lacking, 5);
    status = statuses(&c, 1); /* a whole round did not see the Need */
    CHECK_STR("withdrawn", status->fingerprint, rows[1].profile.fingerprint);
    CHECK("no verdict", !status->satisfied && status->reason == REASON_NONE && !status->lacking);
    (void)statuses(&c, 0);
    case_close(&c);
}

/* What there is changes with every cycle: all six are due each time, two are said. */
TEST(hints_that_changed_all_at_once_are_said_by_turns)
{
    static const char *const names[] = {"a", "b", "c"};
    static const struct {
        const char *why;
        size_t clusters, rows;
    } cases[] = {{"three clusters", 3, 2}, {"one with all of them", 1, 6}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t of[3] = {0}, by_priority[6] = {0};
        struct machine m[8];
        struct need rows[6];
        struct core_case c;
        case_open(&c, &(struct core_options){.machines_max = 100, .hints_most = 2});
        for (size_t k = 0; k < cases[i].clusters; k++) {
            for (size_t n = 0; n < cases[i].rows; n++)
                rows[n] = case_need(&c, names[k], (int32_t)n, 1, "t1");
            case_session(&c, names[k], true);
            (void)case_rollup(&c, names[k], rows, cases[i].rows);
        }
        (void)hints(&c, 6); /* the first word is said at once */
        for (size_t k = 0; k < 3; k++) {
            c.now.ms += 6 * 1000;
            m[k] = typed(&c, names[k], MACHINE_IDLE, "t1", 1);
            case_list(&c, LIST_FULL, m, k + 1, true);
            (void)hints(&c, 2);
            for (size_t n = 0; n < 2; n++) {
                const struct effect *hint = case_effect(&c, EFFECT_CAPACITY, n);
                of[hint->cluster.at[0] - 'a']++;
                by_priority[hint->capacity.profile->priority]++;
            }
        }
        for (size_t k = 0; k < cases[i].clusters; k++)
            CHECK_SIZE(cases[i].why, of[k], cases[i].rows);
        for (size_t n = 0; n < cases[i].rows; n++)
            CHECK_SIZE(cases[i].why, by_priority[n], cases[i].clusters);
        case_close(&c);
    }
}

TEST(a_hint_for_what_nobody_wants_any_more_is_forgotten)
{
    struct need rows[3];
    struct core_case c;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    for (int i = 0; i < 3; i++) rows[i] = case_need(&c, "a", i, 1, "t1");
    (void)case_rollup(&c, "a", rows, 3);
    (void)hints(&c, 3);
    CHECK_SIZE("kept", map_count(&client_find(&c.core->clients, STR("a"))->hints.by_kind), 3);
    CHECK_U64("its Needs are not walked again",
              client_find(&c.core->clients, STR("a"))->hints.version,
              needs_cluster(c.core->needs, STR("a"))->set.version);
    (void)case_rollup(&c, "a", rows, 1);
    (void)hints(&c, 0);
    CHECK_SIZE("one is wanted", map_count(&client_find(&c.core->clients, STR("a"))->hints.by_kind),
               1);
    (void)case_rollup(&c, "a", rows, 3);
    (void)hints(&c, 2); /* the two that were forgotten */
    case_close(&c);
}

TEST(rows_of_one_profile_are_one_hint)
{
    struct need rows[3];
    struct core_case c;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    rows[0] = rows[1] = case_need(&c, "a", 1, 1, "t1");
    CHECK_OK("another unit", resources_set(&rows[1].min_unit, c.cpu, 2000, QUANTITY_DECIMAL_SI));
    rows[2] = case_need(&c, "a", 2, 1, "t1");
    (void)case_rollup(&c, "a", rows, 3);
    (void)hints(&c, 2);
    (void)case_rollup(&c, "a", rows, 2);
    (void)hints(&c, 0);
    CHECK_SIZE("and count once", map_count(&client_find(&c.core->clients, STR("a"))->hints.by_kind),
               1);
    case_close(&c);
}

TEST(the_cheapest_idle_machine_is_known_as_machines_come_and_go)
{
    struct need row;
    struct machine m[3];
    struct core_case c;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    row = case_need(&c, "a", 1, 1, "t1");
    (void)case_rollup(&c, "a", &row, 1);
    m[0] = typed(&c, "m0", MACHINE_IDLE, "t1", 3);
    m[1] = typed(&c, "m1", MACHINE_IDLE, "t1", 1);
    m[2] = typed(&c, "m2", MACHINE_IDLE, "t1", 2);
    case_list(&c, LIST_FULL, m, 3, true);
    CHECK("the second", hints(&c, 1)->capacity.cost_per_hour == 1);
    c.now.ms += 10 * 1000;
    m[1] = typed(&c, "m1", MACHINE_FAILED, "t1", 1);
    case_list(&c, LIST_FULL, m, 3, true);
    CHECK("then the third", hints(&c, 1)->capacity.cost_per_hour == 2);
    c.now.ms += 10 * 1000;
    m[2] = typed(&c, "m2", MACHINE_FAILED, "t1", 2);
    case_list(&c, LIST_FULL, m, 3, true);
    CHECK("then the first", hints(&c, 1)->capacity.cost_per_hour == 3);
    c.now.ms += 10 * 1000;
    m[2] = typed(&c, "m2", MACHINE_IDLE, "t1", 2);
    m[0].price_per_hour = 0.5;
    case_list(&c, LIST_FULL, m, 3, true);
    CHECK("a new price", hints(&c, 1)->capacity.cost_per_hour == 0.5);
    c.now.ms += 10 * 1000;
    case_list(&c, LIST_FULL, m + 1, 2, true);
    CHECK("it is gone", hints(&c, 1)->capacity.cost_per_hour == 2);
    case_close(&c);
}

TEST(machines_are_counted_by_state_kind_and_penalty)
{
    struct machine_stamp stamp = {.interruption_dollars = 2};
    const struct core_counts *counts;
    struct machine m;
    struct core_case c;

    case_open(&c, NULL);
    counts = core_counts(c.core);
    m = case_machine(&c, "m", MACHINE_CONFIGURED);
    case_put(&c, &m, &stamp);
    (void)case_decide(&c);
    CHECK_U32("two dollars", counts->inventory_by_bucket[MACHINE_CONFIGURED][CAPACITY_ON_DEMAND][4],
              1);
    CHECK_U32("state", counts->inventory.by_state[MACHINE_CONFIGURED][CAPACITY_ON_DEMAND], 1);
    m = case_machine(&c, "m", MACHINE_IDLE);
    case_list(&c, LIST_FULL, &m, 1, true);
    (void)case_decide(&c);
    CHECK_U32("a series that is empty is zero",
              counts->inventory_by_bucket[MACHINE_CONFIGURED][CAPACITY_ON_DEMAND][4], 0);
    CHECK_U32("no penalty",
              counts->inventory_by_bucket[MACHINE_IDLE][CAPACITY_ON_DEMAND][PENALTY_ZERO], 1);
    case_close(&c);
}

TEST(the_summary_counts_types_and_zones_without_a_walk)
{
    struct core_summary summary;
    struct machine m[4];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = typed(&c, "m0", MACHINE_IDLE, "t2", 1);
    m[1] = typed(&c, "m1", MACHINE_SPECULATIVE, "t1", 1);
    m[2] = typed(&c, "m2", MACHINE_CONFIGURED, "t1", 1);
    m[3] = typed(&c, "m3", MACHINE_FAILED, "", 1);
    m[2].attributes.zone = STR("z0");
    case_list(&c, LIST_FULL, m, 4, true);
    CHECK_OK("summary", core_summary(c.core, &c.arena, &summary));
    CHECK_U32("all", summary.machines, 4);
    CHECK_U32("idle and speculative", summary.free, 2);
    CHECK_SIZE("types", summary.type_count, 2);
    CHECK_STR("by name", summary.types[0].name, STR("t1"));
    CHECK_U32("two", summary.types[0].count, 2);
    CHECK_STR("by name", summary.types[1].name, STR("t2"));
    CHECK_SIZE("zones", summary.zone_count, 2);
    CHECK_STR("by name", summary.zones[0].name, STR("z0"));
    CHECK_U32("three", summary.zones[1].count, 3);
    m[1].attributes.zone = STR("z9");
    case_list(&c, LIST_FULL, m + 1, 2, true);
    CHECK_OK("summary", core_summary(c.core, &c.arena, &summary));
    CHECK_SIZE("t2 went with its last machine", summary.type_count, 1);
    CHECK_SIZE("a zone went and one came", summary.zone_count, 2);
    CHECK_STR("moved", summary.zones[1].name, STR("z9"));
    case_close(&c);
}

/* Its demand is as it was; machines came, and its gangs are asked for another way. */
TEST(gangs_that_fold_are_hinted_at_within_some_cycles)
{
    static const struct label rack = {{"rack", 4}, {"r1", 2}};
    struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
    struct core_case c;
    struct machine m;
    struct need row;
    size_t cycles = 0, reported = 0;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    row = case_need(&c, "a", 1, 2, "");
    row.profile = case_profile(
        &c, &(struct profile){.requirements = &same, .requirement_count = 1, .priority = 1});
    row.group = STR("g1");
    (void)case_rollup(&c, "a", &row, 1);
    CHECK_SIZE("the gang", hints(&c, 1)->capacity.profile->requirement_count, 1);
    m = case_machine(&c, "m", MACHINE_IDLE);
    m.attributes.labels = &rack;
    m.attributes.label_count = 1;
    case_list(&c, LIST_FULL, &m, 1, true);
    for (; cycles < 17 && !reported; cycles++) {
        case_forget(&c);
        (void)case_decide(&c);
        for (size_t i = 0; i < case_count(&c, EFFECT_CAPACITY); i++)
            reported +=
                case_effect(&c, EFFECT_CAPACITY, i)->capacity.profile->requirement_count == 0;
    }
    CHECK_SIZE("what it folded into", reported, 1);
    CHECK_U32("and nothing is owed", client_find(&c.core->clients, STR("a"))->hints.unsaid, 0);
    case_close(&c);
}
