/* SPDX-License-Identifier: Apache-2.0 */
/* view.c and attribution.c: shard.md 15, 17, 21; wire.md S3, S4. */
#include "lib/test.h"
#include "unit/shard/core_case.h"

static struct needs_view inspect(struct core_case *c, const char *cluster, uint32_t limit)
{
    struct needs_view view = {0};

    CHECK_OK("inspect", core_inspect(c->core, str_from(cluster), limit, &c->arena, &view));
    return view;
}

static int64_t cpu_of(const struct core_case *c, const struct amounts *amounts)
{
    struct resource_sum sum;

    amounts_sum(amounts, &sum);
    return (int64_t)resource_sum_get(&sum, c->cpu);
}

/* The five Needs of the specification's vector. */
static void five(struct core_case *c)
{
    struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
    static const struct machine_stamp cheap = {.priority = 100};
    struct machine_stamp own = {.priority = 1000};
    struct need a[2], b[3];
    struct machine m;

    a[0] = case_need(c, "a", 1000, 4, "t1");   /* satisfied by its own */
    a[1] = case_need(c, "a", 500, 4, "t1");    /* unmet, nobody to take from */
    b[0] = case_need(c, "b", 1000, 4, "none"); /* unmet, no supply */
    b[1] = case_need(c, "b", 2000, 8, "t2");   /* unmet though it takes all there is */
    b[2] = case_need(c, "b", 1500, 4, "");     /* a gang that fits no rack */
    b[2].profile = case_profile(
        c, &(struct profile){.requirements = &same, .requirement_count = 1, .priority = 1500});
    b[2].group = STR("gang");
    own.fingerprint = a[0].profile.fingerprint;
    m = case_machine(c, "own", MACHINE_CONFIGURED);
    case_put(c, &m, &own);
    m = case_machine(c, "victim", MACHINE_CONFIGURED);
    m.cluster = STR("c");
    m.attributes.instance_type = STR("t2");
    case_put(c, &m, &cheap);
    (void)case_rollup(c, "a", a, 2);
    (void)case_rollup(c, "b", b, 3);
}

TEST(every_need_is_shown_with_its_reason_in_order)
{
    static const struct {
        int32_t priority;
        const char *cluster;
        enum verdict_reason reason;
    } want[] = {{2000, "b", REASON_PREEMPTION_EXHAUSTED},
                {1500, "b", REASON_TOPOLOGY_UNSATISFIABLE},
                {1000, "a", REASON_NONE},
                {1000, "b", REASON_NO_MATCHING_SUPPLY},
                {500, "a", REASON_PRIORITY_STARVED}};
    struct needs_view view;
    struct core_case c;

    case_open(&c, NULL);
    five(&c);
    view = inspect(&c, "", 0);
    CHECK_U64("nothing computed yet", view.cycle, 0);
    CHECK_SIZE("nothing shown", view.count, 0);
    c.core->counts.cycles = 6;
    (void)case_decide(&c);
    view = inspect(&c, "", 0);
    CHECK_U64("cycle", view.cycle, 7);
    CHECK_U64("when", view.at.ms, 77);
    CHECK_U64("total", view.total, 5);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const struct need_verdict *row = view.needs[i].row;
        CHECK_I64("priority", row->need->profile->priority, want[i].priority);
        CHECK_STR("cluster", row->need->key.cluster, str_from(want[i].cluster));
        CHECK_U32("reason", row->shortage ? row->shortage->reason : REASON_NONE, want[i].reason);
        CHECK("satisfied", row->satisfied == (want[i].reason == REASON_NONE));
        CHECK("deficit", (row->shortage == NULL) == row->satisfied);
    }
    CHECK_U32("one victim", view.needs[0].row->shortage->victims, 1);
    CHECK_I64("what it frees", cpu_of(&c, &view.needs[0].row->shortage->freed), 4000);
    CHECK_STR("the gang", view.needs[1].row->need->key.group, STR("gang"));
    CHECK_I64("all", cpu_of(&c, &view.needs[2].row->need->aggregate), 4000);
    CHECK_I64("the unit", resources_get(view.needs[2].row->need->unit, c.cpu), 1000);
    CHECK_U32("claimed", view.needs[2].row->claimed, 1);
    CHECK_I64("lacks all", cpu_of(&c, &view.needs[3].row->shortage->deficit), 4000);
    CHECK_U32("cycles unmet", view.needs[3].unmet_age, 1);
    CHECK_U32("configured ones match", view.needs[4].row->shortage->configured_count, 1);
    view = inspect(&c, "", 2);
    CHECK_SIZE("a limit", view.count, 2);
    CHECK_U64("does not hide how many", view.total, 5);
    view = inspect(&c, "a", 0);
    CHECK_U64("one cluster", view.total, 2);
    CHECK_I64("its first", view.needs[0].row->need->profile->priority, 1000);
    view = inspect(&c, "nobody", 0);
    CHECK_U64("none", view.total, 0);
    case_close(&c);
}

static void show(struct core_case *c, struct buf *into)
{
    struct needs_view view = inspect(c, "", 0);

    buf_init(into, 1 << 16);
    for (size_t i = 0; i < view.count; i++) {
        const struct demand *need = view.needs[i].row->need;
        CHECK_OK("shown", buf_appendf(into, "%.*s %.*s %.*s %lld\n", STR_ARG(need->key.cluster),
                                      STR_ARG(need->key.group), STR_ARG(need->profile->fingerprint),
                                      (long long)cpu_of(c, &need->aggregate)));
    }
}

TEST(a_view_stays_as_it_was_while_all_it_shows_changes)
{
    struct buf before, after;
    struct core_case c;

    case_open(&c, NULL);
    five(&c);
    (void)case_decide(&c);
    show(&c, &before);
    for (int i = 0; i < 3; i++) (void)case_rollup(&c, "b", NULL, 0);
    (void)case_rollup(&c, "a", NULL, 0);
    case_list(&c, LIST_FULL, NULL, 0, true);
    show(&c, &after);
    CHECK_STR("all of them", buf_peek(&after), buf_peek(&before));
    buf_deinit(&before);
    buf_deinit(&after);
    (void)case_decide(&c);
    CHECK_U64("until the next cycle", inspect(&c, "", 0).total, 0);
    case_close(&c);
}

TEST(a_folded_gang_is_shown_though_the_engine_made_the_row)
{
    static const struct label rack = {{"rack", 4}, {"r1", 2}};
    struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
    struct needs_view view;
    struct need rows[2];
    struct machine m;
    struct core_case c;

    case_open(&c, NULL);
    m = case_machine(&c, "m", MACHINE_IDLE);
    m.attributes.labels = &rack;
    m.attributes.label_count = 1;
    case_list(&c, LIST_FULL, &m, 1, true);
    rows[0] = case_need(&c, "a", 1, 2, "");
    rows[0].profile = case_profile(
        &c, &(struct profile){.requirements = &same, .requirement_count = 1, .priority = 1});
    rows[1] = rows[0];
    rows[0].group = STR("g1");
    rows[1].group = STR("g2");
    (void)case_rollup(&c, "a", rows, 2);
    (void)case_decide(&c);
    (void)case_decide(&c);
    (void)case_rollup(&c, "a", NULL, 0);
    view = inspect(&c, "", 0);
    CHECK_U64("one row", view.total, 1);
    CHECK_I64("of both", cpu_of(&c, &view.needs[0].row->need->aggregate), 4000);
    CHECK_SIZE("without Same", view.needs[0].row->need->profile->requirement_count, 0);
    case_close(&c);
}

TEST(ages_of_gangs_and_of_shortfalls_are_shown)
{
    struct needs_view view;
    struct core_case c;

    case_open(&c, NULL);
    five(&c);
    for (int i = 0; i < 9; i++) (void)case_decide(&c);
    view = inspect(&c, "b", 0);
    CHECK_U32("the gang aged", view.needs[1].parked_age, 9);
    CHECK("and is parked", view.needs[1].row->parked);
    CHECK_U32("plain Needs do not", view.needs[0].parked_age, 0);
    CHECK_U32("unmet", view.needs[2].unmet_age, 9);
    case_close(&c);
}

TEST(gauges_of_demand_and_shortfalls)
{
    const struct core_counts *counts;
    struct core_case c;
    struct need rows[3];

    case_open(&c, NULL);
    counts = core_counts(c.core);
    rows[0] = case_need(&c, "a", 2000000, 1, "none");
    rows[1] = case_need(&c, "a", 2000, 1, "none");
    rows[2] = case_need(&c, "a", 1, 1, "none");
    rows[2].profile = case_profile(&c, &(struct profile){.interruption_bucket = 5});
    (void)case_rollup(&c, "a", rows, 3);
    for (int i = 0; i < 10; i++) {
        (void)case_decide(&c);
        CHECK_U32("shortfalls", counts->shortfalls, 3);
        CHECK_U32("young", counts->shortfalls_aged[0], i < 9 ? 3 : 0);
        CHECK_U32("older", counts->shortfalls_aged[1], i < 9 ? 0 : 3);
    }
    CHECK_U32("critical", counts->shortfalls_by_class[0], 1);
    CHECK_U32("service", counts->shortfalls_by_class[1], 1);
    CHECK_U32("batch", counts->shortfalls_by_class[2], 0);
    CHECK_U32("other", counts->shortfalls_by_class[3], 1);
    CHECK_U32("rows of a bucket", counts->demand_rows[5], 1);
    CHECK_U32("rows without one", counts->demand_rows[0], 2);
    (void)case_rollup(&c, "a", rows, 1);
    (void)case_decide(&c);
    CHECK_U32("a bucket that is empty is zero", counts->demand_rows[5], 0);
    CHECK_U32("and a class", counts->shortfalls_by_class[1], 0);
    case_close(&c);
}

TEST(the_summary_names_what_is_lacking_worst_first)
{
    struct core_summary summary;
    struct core_case c;

    case_open(&c, NULL);
    five(&c);
    (void)case_decide(&c);
    CHECK_OK("summary", core_summary(c.core, &c.arena, &summary));
    CHECK_SIZE("four", summary.shortfall_count, 4);
    CHECK_I64("worst", summary.shortfalls[0]->profile.priority, 2000);
    CHECK_I64("how much", (int64_t)resource_sum_get(&summary.shortfalls[0]->lacking, c.cpu), 4000);
    CHECK_U32("since when", summary.shortfalls[0]->age, 1);
    case_close(&c);
}

static const char *details(struct core_case *c, const char *text)
{
    for (size_t i = 0; i < c->out.count; i++)
        if (c->out.items[i].kind == EFFECT_LOG &&
            str_equal(str_from(c->out.items[i].log.text), str_from(text)))
            return c->out.items[i].log.details.at;
    return "";
}

TEST(attribution_is_logged_every_twentieth_cycle_when_it_is_wanted)
{
    struct core_options options = {.machines_max = 10, .seed = 1, .attribution = true};
    /* As important as every Need, so that no Need preempts it. */
    static const struct machine_stamp stamp = {.priority = INT32_MAX};
    struct machine m;
    struct core_case c;

    case_open(&c, &options);
    five(&c);
    m = case_machine(&c, "excess", MACHINE_CONFIGURED); /* of no use: 500's is of another cluster */
    m.cluster = STR("b");
    case_put(&c, &m, &stamp);
    case_forget(&c);
    for (int i = 0; i < 19; i++) (void)case_decide(&c);
    CHECK("not yet", !case_said(&c, "phase attribution"));
    (void)case_decide(&c);
    CHECK_HAS("needs", details(&c, "phase attribution"), "needs=5 same=1 unsatisfied=4");
    CHECK_HAS("gangs", details(&c, "phase attribution"), "unsatisfied_same=1 reclaims=1");
    CHECK_HAS("somebody lacks it", details(&c, "phase attribution"),
              "matches=1 matches_covering=1");
    CHECK_HAS("the gang", details(&c, "gang attribution"), "gang=gang cluster=b");
    CHECK_HAS("what it lacks", details(&c, "gang attribution"), "residual=cpu=4");
    CHECK_HAS("the reclaim", details(&c, "reclaim attribution"), "machine=excess");
    c.core->options.attribution = false;
    case_forget(&c);
    for (int i = 0; i < 20; i++) (void)case_decide(&c);
    CHECK("off", !case_said(&c, "phase attribution"));
    case_close(&c);
}

TEST(a_gang_that_is_served_is_logged_with_its_machines)
{
    struct core_options options = {.machines_max = 10, .seed = 1, .attribution = true};
    static const struct label rack = {{"rack", 4}, {"r1", 2}};
    struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
    struct machine_stamp stamp = {.group = STR("g")};
    struct machine m;
    struct core_case c;
    struct need row;

    case_open(&c, &options);
    row = case_need(&c, "a", 1, 8, "");
    row.profile = case_profile(
        &c, &(struct profile){.requirements = &same, .requirement_count = 1, .priority = 1});
    row.group = STR("g");
    stamp.fingerprint = row.profile.fingerprint;
    for (int i = 0; i < 2; i++) {
        m = case_machine(&c, i ? "m1" : "m2", MACHINE_CONFIGURED);
        m.attributes.labels = &rack;
        m.attributes.label_count = 1;
        m.price_per_hour = i; /* by id, however they are kept */
        case_put(&c, &m, &stamp);
    }
    (void)case_rollup(&c, "a", &row, 1);
    c.core->counts.cycles = 19;
    (void)case_decide(&c);
    CHECK_HAS("whose", details(&c, "satisfied gang attribution"),
              "gang=g cluster=a domain=r1 machines=2 own=m1,m2");
    case_close(&c);
}

TEST(machines_that_are_alike_are_one_row)
{
    static const struct {
        const char *id, *type;
        enum machine_state state;
        double price;
    } machines[] = {{"a", "t1", MACHINE_IDLE, 1},
                    {"b", "t1", MACHINE_IDLE, 1},
                    {"c", "t1", MACHINE_IDLE, 2}, /* another price */
                    {"d", "t2", MACHINE_IDLE, 1},
                    {"e", "t1", MACHINE_SPECULATIVE, 1}};
    struct holding *rows = NULL;
    struct core_case c;
    size_t count = 0;

    case_open(&c, NULL);
    for (size_t i = 0; i < ARRAY_LEN(machines); i++) {
        struct machine m = case_machine(&c, machines[i].id, machines[i].state);
        m.attributes.instance_type = str_from(machines[i].type);
        m.price_per_hour = machines[i].price;
        case_put(&c, &m, &(struct machine_stamp){0});
    }
    CHECK_OK("all of them", core_holdings(c.core, 100, &c.arena, &rows, &count));
    CHECK_SIZE("kinds", count, 4);
    CHECK_U64("by state first", rows[0].state, MACHINE_SPECULATIVE);
    CHECK_U64("the same twice", rows[1].count, 2);
    CHECK("its type", str_equal(rows[1].type, STR("t1")));
    CHECK("its zone", str_equal(rows[1].zone, STR("z1")));
    CHECK("then by price", rows[2].price > rows[1].price && rows[2].count == 1);
    CHECK("then by type", str_equal(rows[3].type, STR("t2")));
    CHECK_ERR("too many to look at", core_holdings(c.core, 3, &c.arena, &rows, &count),
              ERR_TOO_LARGE);
    case_close(&c);
}
