/* SPDX-License-Identifier: Apache-2.0 */
/* Memory ends at every place of the core's event handlers: the event did not happen, or
 * sending it again completes it. The half that acts is swept in tests/unit/shard. */
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "unit/shard/core_case.h"

enum { MACHINES = 6, ROWS = 3 };

struct story {
    struct core_case c;
    struct machine before[MACHINES], after[MACHINES];
    struct need rows[ROWS], fewer[1];
    struct label metadata[1];
    unsigned failed; /* events that said so */
};

static void story_open(struct story *s)
{
    static const char *const ids[MACHINES] = {"idle",        "dies",    "goes",
                                              "configuring", "outside", "moves"};
    static const enum machine_state first[MACHINES] = {MACHINE_IDLE,        MACHINE_CONFIGURED,
                                                       MACHINE_CONFIGURED,  MACHINE_CONFIGURING,
                                                       MACHINE_SPECULATIVE, MACHINE_IDLE};
    static const struct label rack = {{"rack", 4}, {"r1", 2}};
    struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
    struct core_options options = {.machines_max = 100,
                                   .seed = 1,
                                   .rollup_guard = true,
                                   .attribution = true,
                                   .paused = true}; /* so that no machine is pending */

    memset(s, 0, sizeof *s);
    case_open(&s->c, &options);
    s->metadata[0] = (struct label){STR("bigfleet.lucy.sh/assigned-need-fingerprint"), STR("fp")};
    for (int i = 0; i < MACHINES; i++) {
        s->before[i] = case_machine(&s->c, ids[i], first[i]);
        s->after[i] = s->before[i];
    }
    s->before[4].attributes.zone = s->after[4].attributes.zone = STR("z2");
    s->after[1] = case_machine(&s->c, "dies", MACHINE_FAILED);
    s->after[2] = case_machine(&s->c, "comes", MACHINE_IDLE);
    s->after[3] = case_machine(&s->c, "configuring", MACHINE_CONFIGURED);
    s->after[5].attributes.labels = &rack;
    s->after[5].attributes.label_count = 1;
    s->after[5].attributes.instance_type = STR("t9");
    s->after[5].attributes.zone = STR("z3");
    s->before[2].attributes.instance_type = STR("t7"); /* the only one, and it goes */
    for (int i = 0; i < ROWS; i++) s->rows[i] = case_need(&s->c, "a", i, 40, i ? "t1" : "none");
    s->rows[2].profile = case_profile(
        &s->c, &(struct profile){.requirements = &same, .requirement_count = 1, .priority = 9});
    s->rows[2].group = STR("g");
    s->fewer[0] = case_need(&s->c, "a", 7, 4, "t1");
}

static bool ok(struct story *s, enum err err)
{
    if (err) CHECK_ERR("only memory ends", err, ERR_NOMEM);
    s->failed += err != ERR_OK;
    return !err;
}

static void list(struct story *s, const struct machine *machines, bool bury)
{
    struct core_case *c = &s->c;
    bool whole = true;

    core_list_begin(c->core, LIST_FULL);
    for (int i = 0; i < MACHINES && whole; i++)
        whole = ok(s, core_list_machine(c->core, &machines[i], s->metadata, 1, c->now, &c->out));
    core_list_refused(c->core, STR("garbled"), "no machine", &c->out);
    core_list_end(c->core, whole, c->now, &c->out);
    if (!bury) return;
    core_list_begin(c->core, LIST_DELTA);
    core_list_gone(c->core, STR("comes"), c->now, &c->out);
    core_list_end(c->core, true, c->now, &c->out);
}

static void roll_up(struct story *s, const struct need *rows, size_t count)
{
    struct core_case *c = &s->c;
    uint32_t before = needs_stats(c->core->needs).rows;
    enum rollup_verdict verdict;

    if (!ok(s, core_rollup(c->core, STR("a"), rows, count, c->now, &verdict, &c->out, NULL)))
        CHECK_U32("it did not happen", needs_stats(c->core->needs).rows, before);
}

static void story_sent(struct story *s)
{
    static const struct label z1 = {{"topology.kubernetes.io/zone", 27}, {"z1", 2}};
    struct core_case *c = &s->c;
    struct cluster_counts *clusters;
    struct core_summary summary;
    struct needs_view view;
    struct arena arena;
    size_t count;
    bool had;

    arena_init(&arena, SIZE_MAX);
    list(s, s->before, false);
    roll_up(s, s->rows, ROWS);
    had = core_has_session(c->core, STR("a"));
    if (!ok(s, core_session(c->core, STR("a"), true, c->now, &c->out)))
        CHECK("it did not happen", core_has_session(c->core, STR("a")) == had);
    c->core->counts.cycles = 19;
    (void)ok(s, core_cycle(c->core, c->now, (wall_time){1}, NULL, NULL, &c->out));
    (void)ok(s, core_scope(c->core, true, &z1, 1, c->now, &c->out));
    list(s, s->after, true);
    roll_up(s, s->fewer, 1);
    (void)ok(s, core_cycle(c->core, c->now, (wall_time){1}, NULL, NULL, &c->out));
    (void)ok(s, core_inspect(c->core, STR_EMPTY, 0, &arena, &view));
    (void)ok(s, core_summary(c->core, &arena, &summary));
    (void)ok(s, core_clusters(c->core, &arena, &clusters, &count));
    (void)ok(s, core_session(c->core, STR("b"), true, c->now, &c->out));
    (void)ok(s, core_session(c->core, STR("b"), false, c->now, &c->out));
    arena_deinit(&arena);
}

/* A free machine outside of the domains is gone after a cycle, also when its zone was not recorded.
 */
static void scoped(struct story *s)
{
    struct core_case *c = &s->c;

    CHECK_OK("cycle", core_cycle(c->core, c->now, (wall_time){1}, NULL, NULL, &c->out));
    CHECK("not ours", !c->core->scope.count || !case_has(c, "moves") ||
                          str_equal(case_get(c, "moves").attributes.zone, STR("z1")));
}

/* The state that must result, however the first event ended. */
static void made_good(struct story *s)
{
    struct core_case *c = &s->c;
    struct needs_view view;

    list(s, s->after, true);
    story_sent(s);
    CHECK_U32("nothing fails any more", s->failed, 0);
    CHECK("a session", core_has_session(c->core, STR("a")));
    CHECK_U32("its rows", needs_stats(c->core->needs).rows, 1);
    CHECK_U32("died", case_get(c, "dies").state, MACHINE_FAILED);
    CHECK("gone", !case_has(c, "goes") && !case_has(c, "comes") && !case_has(c, "outside"));
    CHECK_OK("inspect", core_inspect(c->core, STR("a"), 0, &c->arena, &view));
    CHECK_U64("shown", view.total, 1);
    case_check(c);
}

TEST(an_event_lost_for_lack_of_memory_is_made_good_when_it_is_sent_again)
{
    bool fired = true;
    uint64_t k = 0;

    while (fired) {
        static struct story s;

        story_open(&s);
        fault_alloc_arm(++k);
        story_sent(&s);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        case_check(&s.c);
        scoped(&s);
        s.failed = 0;
        made_good(&s);
        case_close(&s.c);
        CHECK("it ends", k < FAULT_SWEEP_MAX);
    }
    CHECK("after many", k > 200);
}
