/* SPDX-License-Identifier: Apache-2.0 */
/* demand.c and clients.c: shard.md 7.2, 7.4, 11 (resync), 12, 16, 25 and quirks Q2, Q13, Q15;
 * wire.md S2. */
#include <stdio.h>

#include "lib/test.h"
#include "unit/shard/core_case.h"

enum { ROWS = 40 };

static void rows_fill(struct core_case *c, struct need *rows)
{
    for (int i = 0; i < ROWS; i++) rows[i] = case_need(c, "a", i, 1, "");
}

static uint32_t holds(struct core_case *c)
{
    struct cluster_counts *clusters;
    size_t count;

    CHECK_OK("clusters", core_clusters(c->core, &c->arena, &clusters, &count));
    CHECK_SIZE("one", count, 1);
    CHECK_STR("a", clusters[0].cluster, STR("a"));
    return clusters[0].holds;
}

/* --- the quarantine --- */

static const struct {
    const char *why;
    struct {
        size_t rows;
        enum rollup_verdict verdict;
        uint32_t holds; /* the gauge, after it */
    } said[6];
    size_t count;
} quarantines[] = {
    {"three empty ones in a row",
     {{20, ROLLUP_APPLIED, 0}, {0, ROLLUP_HELD, 1}, {0, ROLLUP_HELD, 2}, {0, ROLLUP_APPLIED, 0}},
     4},
    {"a good one begins the count anew",
     {{20, ROLLUP_APPLIED, 0},
      {0, ROLLUP_HELD, 1},
      {18, ROLLUP_APPLIED, 0},
      {0, ROLLUP_HELD, 1},
      {0, ROLLUP_HELD, 2},
      {0, ROLLUP_APPLIED, 0}},
     6},
    {"nine rows are few", {{9, ROLLUP_APPLIED, 0}, {0, ROLLUP_APPLIED, 0}}, 2},
    {"by and by",
     {{40, ROLLUP_APPLIED, 0},
      {20, ROLLUP_APPLIED, 0},
      {8, ROLLUP_APPLIED, 0},
      {0, ROLLUP_APPLIED, 0}},
     4},
    {"the first, though it is empty", {{0, ROLLUP_APPLIED, 0}}, 1},
};
TEST(a_sudden_drop_of_demand_counts_when_it_is_said_three_times)
{
    for (size_t i = 0; i < ARRAY_LEN(quarantines); i++) {
        struct core_case c;
        struct need rows[ROWS];
        struct machine spare;
        size_t accepted = 0;

        case_open(&c, NULL);
        rows_fill(&c, rows);
        spare = case_machine(&c, "spare", MACHINE_IDLE);
        case_list(&c, LIST_FULL, &spare, 1, true);
        for (size_t k = 0; k < quarantines[i].count; k++) {
            size_t count = quarantines[i].said[k].rows;
            enum rollup_verdict verdict;
            case_forget(&c);
            c.now.ms += 10 * 1000;
            verdict = case_rollup(&c, "a", rows, count);
            if (verdict == ROLLUP_APPLIED) accepted = count;
            CHECK_U32(quarantines[i].why, verdict, quarantines[i].said[k].verdict);
            CHECK_U32(quarantines[i].why, holds(&c), quarantines[i].said[k].holds);
            CHECK_U32("the last accepted rows count", needs_stats(c.core->needs).rows, accepted);
            CHECK("held is said",
                  case_said(&c, "rollup quarantined: full-replacement demand drop held") ==
                      (verdict == ROLLUP_HELD));
        }
        case_close(&c);
    }
}

TEST(without_the_guard_every_roll_up_counts)
{
    struct core_options options = {.machines_max = 10, .seed = 1};
    struct need rows[ROWS];
    struct core_case c;

    case_open(&c, &options);
    rows_fill(&c, rows);
    CHECK_U32("many", case_rollup(&c, "a", rows, 20), ROLLUP_APPLIED);
    CHECK_U32("none", case_rollup(&c, "a", rows, 0), ROLLUP_APPLIED);
    case_close(&c);
}

TEST(the_first_contact_is_any_roll_up_also_one_that_is_held)
{
    struct need rows[ROWS];
    struct machine spare;
    struct core_case c;

    case_open(&c, NULL);
    rows_fill(&c, rows);
    spare = case_machine(&c, "spare", MACHINE_IDLE);
    case_list(&c, LIST_FULL, &spare, 1, true);
    CHECK("closed", !needs_reported(c.core->needs, STR("a")));
    case_session(&c, "a", true);
    CHECK("a session is no roll-up", !needs_reported(c.core->needs, STR("a")));
    core_rollup_refused(c.core, STR("a"), "garbage", &c.out);
    CHECK("nor is garbage", !needs_reported(c.core->needs, STR("a")));
    (void)case_rollup(&c, "a", rows, 0);
    CHECK("open", needs_reported(c.core->needs, STR("a")));
    CHECK("of this cluster only", !needs_reported(c.core->needs, STR("b")));
    /* Held before anything was accepted: after a restart of the quarantine alone. */
    needs_forget(c.core->needs, STR("a"));
    client_find(&c.core->clients, STR("a"))->quarantine.accepted_rows = 20;
    CHECK_U32("held", case_rollup(&c, "a", rows, 0), ROLLUP_HELD);
    CHECK("opens it all the same", needs_reported(c.core->needs, STR("a")));
    case_close(&c);
}

/* The shard and the operator were restarted together, and the operator lost its demand. */
TEST(an_empty_first_roll_up_of_a_cluster_that_machines_serve_is_held)
{
    struct machine m[ROWS];
    struct need rows[ROWS];
    char ids[ROWS][8];
    struct core_case c;

    case_open(&c, NULL);
    rows_fill(&c, rows);
    CHECK_U32("before the List", case_rollup(&c, "a", rows, 0), ROLLUP_HELD);
    CHECK("nobody knows what serves it", !needs_reported(c.core->needs, STR("a")));
    CHECK_U32("not counted", holds(&c), 0);
    CHECK("nor said", !case_said(&c, "rollup quarantined: full-replacement demand drop held"));
    for (size_t i = 0; i < 10; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "m%zu", i);
        m[i] = case_machine(&c, ids[i], MACHINE_CONFIGURED);
    }
    case_list(&c, LIST_FULL, m, 10, true);
    for (uint32_t i = 1; i < 3; i++) {
        c.now.ms += 10 * 1000;
        CHECK_U32("held", case_rollup(&c, "a", rows, 0), ROLLUP_HELD);
        CHECK_U32("counted", holds(&c), i);
        CHECK("it loses nothing", !needs_reported(c.core->needs, STR("a")));
    }
    c.now.ms += 10 * 1000;
    CHECK_U32("confirmed", case_rollup(&c, "a", rows, 0), ROLLUP_APPLIED);
    CHECK("reported", needs_reported(c.core->needs, STR("a")));
    CHECK_U32("another cluster", case_rollup(&c, "b", rows, 0), ROLLUP_APPLIED);
    case_close(&c);
}

static uint64_t preempted(struct core_case *c)
{
    uint64_t before = core_counts(c->core)->actions[ACTION_PREEMPT];

    CHECK_OK("cycle", core_cycle(c->core, c->now, (wall_time){1}, NULL, NULL, &c->out));
    return core_counts(c->core)->actions[ACTION_PREEMPT] - before;
}

/* After a restart of the shard, while cluster a's operator is away. */
TEST(a_cluster_that_has_not_reported_is_preempted_within_the_reclaim_cap)
{
    struct core_options options = {.machines_max = 100, .seed = 1, .rails.reclaim_fraction = 0.05};
    struct machine_stamp low = {.priority = 1};
    struct machine m[ROWS];
    struct need rows[1], own;
    char ids[ROWS][8];

    for (int way = 0; way < 3; way++) {
        struct core_case c;
        case_open(&c, &options);
        for (size_t i = 0; i < ROWS; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "m%zu", i);
            m[i] = case_machine(&c, ids[i], MACHINE_CONFIGURED);
            case_put(&c, &m[i], &low);
        }
        case_list(&c, LIST_FULL, m, ROWS, true);
        rows[0] = case_need(&c, "b", 1000000, 4 * 30, "");
        (void)case_rollup(&c, "b", rows, 1);
        CHECK_U64("two of forty", preempted(&c), 2);
        CHECK("said",
              case_said(&c, "preemptions held: the cluster has not reported since the start"));
        CHECK_U64("counted", core_counts(c.core)->capped, 28);
        if (way == 0) {
            c.now.ms += 1000;
            CHECK_U64("one of the others", preempted(&c), 1);
        } else if (way == 1) {
            own = case_need(&c, "a", 1, 4 * 40, "");
            (void)case_rollup(&c, "a", &own, 1);
            CHECK_U64("reported: without a cap", preempted(&c), 28);
        } else {
            c.now.ms += 120 * 1000;
            CHECK_U64("not for ever", preempted(&c), 28);
        }
        case_close(&c);
    }
}

/* --- what is refused --- */

static uint64_t rejected(struct core_case *c)
{
    struct cluster_counts *clusters;
    size_t count;

    CHECK_OK("clusters", core_clusters(c->core, &c->arena, &clusters, &count));
    return count ? clusters[0].rejected : 0;
}

TEST(a_roll_up_that_cannot_be_read_leaves_the_last_good_rows)
{
    struct need row;
    struct core_case c;

    case_open(&c, NULL);
    row = case_need(&c, "a", 1, 1, "");
    (void)case_rollup(&c, "a", &row, 1);
    core_rollup_refused(c.core, STR("a"), "bucket 99", &c.out);
    CHECK_U32("the last good rows stay", needs_stats(c.core->needs).rows, 1);
    CHECK_U64("counted", core_counts(c.core)->rollups_rejected, 1);
    CHECK_U64("of this cluster", rejected(&c), 1);
    CHECK("said", case_said(&c, "rollup rejected at ingest validation"));
    case_close(&c);
}

TEST(rows_and_clusters_have_bounds)
{
    struct core_options options = {.machines_max = 10, .seed = 1, .rows_max = 5, .clusters_max = 2};
    enum rollup_verdict verdict;
    struct need rows[ROWS], other;
    struct core_case c;

    case_open(&c, &options);
    rows_fill(&c, rows);
    (void)case_rollup(&c, "a", rows, 3);
    CHECK_ERR("rows", core_rollup(c.core, STR("a"), rows, 6, c.now, &verdict, &c.out, &c.note),
              ERR_FULL);
    CHECK_U32("the old stay", needs_stats(c.core->needs).rows, 3);
    CHECK_U64("counted", core_counts(c.core)->rollups_rejected, 1);
    case_session(&c, "b", true);
    other = case_need(&c, "c", 1, 1, "");
    CHECK_ERR("clusters", core_rollup(c.core, STR("c"), &other, 1, c.now, &verdict, &c.out, NULL),
              ERR_FULL);
    CHECK_ERR("sessions", core_session(c.core, STR("c"), true, c.now, &c.out), ERR_FULL);
    case_session(&c, "c", false); /* the end of one that never was */
    case_close(&c);
}

/* --- sessions --- */

TEST(a_new_session_hears_of_every_machine_that_is_bound_to_its_cluster) /* wire.md S2 */
{
    static const struct machine_stamp none = {0};
    struct machine m[3];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = case_machine(&c, "ours", MACHINE_CONFIGURED);
    m[1] = case_machine(&c, "elsewhere", MACHINE_CONFIGURED);
    m[1].cluster = STR("b");
    m[2] = case_machine(&c, "idle", MACHINE_IDLE);
    for (int i = 0; i < 3; i++) case_put(&c, &m[i], &none);
    CHECK_SIZE("nobody listens", case_count(&c, EFFECT_NODE_STATE), 0);
    case_session(&c, "a", true);
    CHECK_SIZE("one", case_count(&c, EFFECT_NODE_STATE), 1);
    CHECK_STR("ours", case_effect(&c, EFFECT_NODE_STATE, 0)->machine, STR("ours"));
    CHECK_STR("a", case_effect(&c, EFFECT_NODE_STATE, 0)->cluster, STR("a"));
    case_session(&c, "a", true);
    CHECK_SIZE("one that replaces another too", case_count(&c, EFFECT_NODE_STATE), 2);
    case_session(&c, "a", false);
    CHECK("it ended", !core_has_session(c.core, STR("a")));
    case_forget(&c);
    m[0].state = MACHINE_DRAINING;
    case_list(&c, LIST_DELTA, m, 1, true);
    CHECK_SIZE("nobody listens", case_count(&c, EFFECT_NODE_STATE), 0);
    m[0].state = MACHINE_IDLE;
    m[0].cluster = STR_EMPTY;
    case_list(&c, LIST_DELTA, m, 1, true);
    CHECK_SIZE("what leaves is in no resync: it is said at once", case_count(&c, EFFECT_NODE_STATE),
               1);
    CHECK_STR("to whom it left", case_effect(&c, EFFECT_NODE_STATE, 0)->cluster, STR("a"));
    case_close(&c);
}

TEST(a_departed_cluster_is_forgotten_after_an_hour) /* Q15 */
{
    struct cluster_counts *clusters;
    struct machine m;
    struct core_case c;
    struct need row;
    size_t count;

    case_open(&c, NULL);
    row = case_need(&c, "demands", 1, 1, "");
    (void)case_rollup(&c, "demands", &row, 1);
    case_session(&c, "listens", true);
    m = case_machine(&c, "m", MACHINE_CONFIGURED);
    m.cluster = STR("holds");
    case_list(&c, LIST_FULL, &m, 1, true);
    (void)case_rollup(&c, "holds", NULL, 0);
    (void)case_rollup(&c, "departs", NULL, 0);
    for (int minute = 0; minute <= 60; minute++) {
        CHECK_OK("clusters", core_clusters(c.core, &c.arena, &clusters, &count));
        CHECK_SIZE("nobody is forgotten early", count, 4);
        c.core->now = c.now;
        clients_sweep(c.core);
        c.now.ms += 60 * 1000;
    }
    c.core->now = c.now;
    clients_sweep(c.core);
    CHECK_OK("clusters", core_clusters(c.core, &c.arena, &clusters, &count));
    CHECK_SIZE("three stay", count, 3);
    CHECK_STR("by name", clusters[0].cluster, STR("demands"));
    CHECK("its gate too", !needs_reported(c.core->needs, STR("departs")));
    CHECK("not that of others", needs_reported(c.core->needs, STR("holds")));
    case_close(&c);
}

/* --- provisioning latency --- */

static void configure(struct core_case *c, const char *id, struct str fingerprint)
{
    struct machine_stamp stamp = {.fingerprint = fingerprint};
    struct machine m = case_machine(c, id, MACHINE_CONFIGURING);

    case_put(c, &m, &stamp);
    case_forget(c);
    m = case_machine(c, id, MACHINE_CONFIGURED);
    case_list(c, LIST_DELTA, &m, 1, true);
}

static double seconds(struct core_case *c)
{
    const struct effect *effect = case_effect(c, EFFECT_OBSERVE, 0);

    CHECK_U32("histogram", effect->observe.histogram, OBSERVE_PROVISIONING_LATENCY);
    CHECK_SIZE("once", case_count(c, EFFECT_OBSERVE), 1);
    return effect->observe.seconds;
}

TEST(latency_counts_from_the_first_roll_up_to_the_first_machine)
{
    struct need rows[2];
    struct core_case c;

    case_open(&c, NULL);
    rows[0] = case_need(&c, "a", 1, 1, "");
    rows[1] = case_need(&c, "a", 2, 1, "");
    (void)case_rollup(&c, "a", rows, 2);
    c.now.ms += 10 * 1000;
    rows[0].aggregate.milli[c.cpu] += 1000;
    (void)case_rollup(&c, "a", rows, 2); /* a repeat keeps the time */
    c.now.ms += 5 * 1000;
    configure(&c, "m1", rows[0].profile.fingerprint);
    CHECK("since first seen", seconds(&c) == 15);
    configure(&c, "m2", rows[0].profile.fingerprint);
    CHECK_SIZE("observed once", case_count(&c, EFFECT_OBSERVE), 0);
    configure(&c, "m3", STR("untracked"));
    CHECK_SIZE("nobody waits for it", case_count(&c, EFFECT_OBSERVE), 0);
    (void)case_rollup(&c, "a", rows, 2); /* the same rows: begins anew */
    c.now.ms += 2 * 1000;
    configure(&c, "m4", rows[0].profile.fingerprint);
    CHECK("since that", seconds(&c) == 2);
    configure(&c, "m5", rows[1].profile.fingerprint);
    CHECK("the other waits since the beginning", seconds(&c) == 17);
    case_close(&c);
}

TEST(what_a_roll_up_does_not_name_waits_no_more)
{
    struct need rows[2];
    struct core_case c;

    case_open(&c, NULL);
    rows[0] = case_need(&c, "a", 1, 1, "");
    rows[1] = case_need(&c, "a", 2, 1, "");
    (void)case_rollup(&c, "a", rows, 2);
    (void)case_rollup(&c, "a", rows, 1);
    c.now.ms += 5 * 1000;
    configure(&c, "m1", rows[1].profile.fingerprint);
    CHECK_SIZE("pruned", case_count(&c, EFFECT_OBSERVE), 0);
    (void)case_rollup(&c, "a", rows, 2);
    c.now.ms += 3 * 1000;
    configure(&c, "m2", rows[1].profile.fingerprint);
    CHECK("anew", seconds(&c) == 3);
    case_close(&c);
}

TEST(a_held_roll_up_leaves_the_waits_alone)
{
    struct need rows[ROWS];
    struct core_case c;

    case_open(&c, NULL);
    rows_fill(&c, rows);
    (void)case_rollup(&c, "a", rows, ROWS);
    c.now.ms += 4 * 1000;
    CHECK_U32("held", case_rollup(&c, "a", rows, 1), ROLLUP_HELD);
    configure(&c, "m1", rows[5].profile.fingerprint);
    CHECK("still waits", seconds(&c) == 4);
    case_close(&c);
}

TEST(a_folded_gang_is_observed_by_the_profile_its_operator_wrote) /* Q13 */
{
    struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
    struct profile stripped;
    struct need row;
    struct core_case c;

    case_open(&c, NULL);
    row = case_need(&c, "a", 1, 1, "");
    row.profile = case_profile(
        &c, &(struct profile){.requirements = &same, .requirement_count = 1, .priority = 1});
    row.group = STR("g");
    CHECK_OK("strip", profile_without_same(&c.arena, &row.profile, &stripped));
    (void)case_rollup(&c, "a", &row, 1);
    c.now.ms += 6 * 1000;
    configure(&c, "m1", stripped.fingerprint);
    CHECK("its wait ended", seconds(&c) == 6);
    case_close(&c);
}

TEST(a_machine_that_an_action_brought_is_observed_too)
{
    struct machine m;
    struct need row;
    struct core_case c;
    struct call_answer done = {.end = CALL_DONE, .machine = &m};
    size_t latencies = 0;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    m = case_machine(&c, "m", MACHINE_IDLE);
    case_list(&c, LIST_FULL, &m, 1, true);
    row = case_need(&c, "a", 1, 1, "");
    (void)case_rollup(&c, "a", &row, 1);
    c.now.ms += 7 * 1000;
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    core_blob(c.core, case_effect(&c, EFFECT_ASK_BLOB, 0)->action, BLOB_READY, STR_EMPTY, c.now,
              (wall_time){1}, &c.out);
    m = case_machine(&c, "m", MACHINE_CONFIGURED);
    core_answered(c.core, case_effect(&c, EFFECT_CONFIGURE, 0)->action, &done, c.now,
                  (wall_time){1}, &c.out);
    case_list(&c, LIST_FULL, &m, 1, true); /* and not again when it is listed */
    for (size_t i = 0; i < c.out.count; i++) {
        const struct effect *effect = &c.out.items[i];
        if (effect->kind != EFFECT_OBSERVE ||
            effect->observe.histogram != OBSERVE_PROVISIONING_LATENCY)
            continue;
        latencies++;
        CHECK("since the roll-up", effect->observe.seconds == 7);
    }
    CHECK_SIZE("once", latencies, 1);
    case_close(&c);
}
