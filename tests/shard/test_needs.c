/* SPDX-License-Identifier: Apache-2.0 */
/* The needs table's rules (specification, shard.md 2.11; Q7), one by one. */
#include "lib/fault_alloc.h"
#include "lib/shard_check.h"
#include "lib/test.h"
#include "shard/state/kinds.h"
#include "shard/world.h"

static struct need aged(struct world *w, const char *cluster, int32_t priority, int64_t arrival)
{
    struct need need = world_need(w, cluster, priority, 1);

    need.arrival_unix_ns = arrival;
    return need;
}

static size_t snapshot(struct world *w, struct need **rows)
{
    size_t count = 0;

    CHECK_OK("snapshot", needs_snapshot(w->needs, &w->arena, rows, &count));
    CHECK(w->note.text, needs_check(w->needs, &w->note));
    return count;
}

TEST(a_roll_up_replaces_all_rows_of_its_cluster_and_no_others)
{
    struct need rows[2], *got;
    struct world w;

    world_open(&w);
    rows[0] = aged(&w, "a", 1, 5);
    rows[1] = aged(&w, "a", 2, 5);
    CHECK_OK("a", needs_replace(w.needs, STR("a"), rows, 2, &w.note));
    rows[0] = aged(&w, "b", 3, 5);
    CHECK_OK("b", needs_replace(w.needs, STR("b"), rows, 1, &w.note));
    CHECK_SIZE("three rows", snapshot(&w, &got), 3);
    rows[0] = aged(&w, "a", 4, 5);
    CHECK_OK("a again", needs_replace(w.needs, STR("a"), rows, 1, &w.note));
    CHECK_SIZE("one of a, one of b", snapshot(&w, &got), 2);
    CHECK_I64("the new one", got[0].profile.priority, 4);
    CHECK_OK("nothing", needs_replace(w.needs, STR("a"), NULL, 0, &w.note));
    CHECK_SIZE("a is gone", snapshot(&w, &got), 1);
    CHECK_U32("clusters with rows", needs_stats(w.needs).clusters, 1);
    CHECK("an empty roll-up is a report", needs_reported(w.needs, STR("a")));
    needs_forget(w.needs, STR("a"));
    CHECK("forgotten", !needs_reported(w.needs, STR("a")));
    world_close(&w);
}

TEST(a_snapshot_is_by_priority_then_age_then_cluster_then_place)
{
    static const struct {
        const char *cluster;
        int32_t priority;
        int64_t arrival, units;
    } want[] = {{"b", 9, 7, 1}, {"b", 5, 1, 1}, {"a", 5, 3, 1}, {"a", 5, 3, 2}, {"b", 5, 3, 1}};
    struct need a[2], b[3], *got;
    struct world w;

    world_open(&w);
    a[0] = aged(&w, "a", 5, 3);
    a[1] = world_need(&w, "a", 5, 2); /* the same key: the same age */
    b[0] = aged(&w, "b", 9, 7);
    b[1] = aged(&w, "b", 5, 3);
    b[1].group = STR("young");
    b[2] = aged(&w, "b", 5, 1);
    CHECK_OK("b", needs_replace(w.needs, STR("b"), b, 3, &w.note));
    CHECK_OK("a", needs_replace(w.needs, STR("a"), a, 2, &w.note));
    CHECK_SIZE("all", snapshot(&w, &got), ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        CHECK_STR("cluster", got[i].cluster, str_from(want[i].cluster));
        CHECK_I64("priority", got[i].profile.priority, want[i].priority);
        CHECK_I64("age", got[i].arrival_unix_ns, want[i].arrival);
        CHECK_I64("place", (int64_t)(resource_sum_get(&got[i].aggregate, w.cpu) / 1000),
                  want[i].units);
    }
    world_close(&w);
}

static const struct {
    const char *why;
    int64_t first, second, want; /* arrivals of two roll-ups; -1: without the row */
} age_cases[] = {
    {"a row keeps the age it was first seen with", 10, 20, 10},
    {"also when a roll-up claims an older one", 20, 10, 20},
    {"not known stays not known", 0, 10, 0},
};
TEST(age_is_when_a_row_was_first_seen)
{
    for (size_t i = 0; i < ARRAY_LEN(age_cases); i++) {
        struct need row, *got;
        struct world w;
        world_open(&w);
        row = aged(&w, "a", 1, age_cases[i].first);
        CHECK_OK("first", needs_replace(w.needs, STR("a"), &row, 1, &w.note));
        row.arrival_unix_ns = age_cases[i].second;
        CHECK_OK("second", needs_replace(w.needs, STR("a"), &row, 1, &w.note));
        CHECK_SIZE("one", snapshot(&w, &got), 1);
        CHECK_I64(age_cases[i].why, got[0].arrival_unix_ns, age_cases[i].want);
        CHECK_OK("gone", needs_replace(w.needs, STR("a"), NULL, 0, &w.note));
        CHECK_OK("back", needs_replace(w.needs, STR("a"), &row, 1, &w.note));
        CHECK_SIZE("one", snapshot(&w, &got), 1);
        CHECK_I64("who was away is new", got[0].arrival_unix_ns, age_cases[i].second);
        world_close(&w);
    }
}

TEST(a_profile_that_is_held_outlives_its_rows)
{
    struct need row, *got;
    struct kind *kind;
    struct world w;

    world_open(&w);
    row = aged(&w, "a", 7, 5);
    CHECK_OK("a", needs_replace(w.needs, STR("a"), &row, 1, &w.note));
    CHECK_OK("hold", kind_hold(w.needs, &row.profile, &kind));
    CHECK_OK("nothing", needs_replace(w.needs, STR("a"), NULL, 0, &w.note));
    CHECK_SIZE("no row", snapshot(&w, &got), 0);
    CHECK("found", kind_find(w.needs, row.profile.fingerprint) == kind);
    CHECK_I64("whole", kind->profile.priority, 7);
    kind_release(w.needs, kind);
    CHECK_SIZE("no row", snapshot(&w, &got), 0);
    CHECK("gone", !kind_find(w.needs, row.profile.fingerprint));
    world_close(&w);
}

TEST(what_is_refused_leaves_the_old_rows)
{
    struct need rows[2], *got;
    struct need many[101];
    struct world w;

    world_open(&w);
    rows[0] = aged(&w, "a", 1, 5);
    CHECK_OK("a", needs_replace(w.needs, STR("a"), rows, 1, &w.note));
    rows[0] = aged(&w, "b", 7, 5);
    CHECK_ERR("another cluster's row", needs_replace(w.needs, STR("a"), rows, 1, &w.note),
              ERR_INVALID);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) many[i] = aged(&w, "a", 2, 5);
    CHECK_ERR("a row too many", needs_replace(w.needs, STR("a"), many, ARRAY_LEN(many), &w.note),
              ERR_FULL);
    CHECK_SIZE("the old row", snapshot(&w, &got), 1);
    CHECK_I64("the old row", got[0].profile.priority, 1);
    world_close(&w);
}

TEST(running_out_of_memory_leaves_the_old_rows)
{
    bool fired = true;

    for (uint64_t k = 1; fired && k < FAULT_SWEEP_MAX; k++) { /* only the replacement is swept */
        struct requirement same = {STR("rack"), OPERATOR_SAME, NULL, 0};
        struct profile gang = {.requirements = &same, .requirement_count = 1};
        struct need rows[2], *got;
        struct world w;
        enum err err;

        world_open(&w);
        rows[0] = aged(&w, "a", 1, 5);
        rows[1] = aged(&w, "a", 2, 5);
        CHECK_OK("gang", profile_build(&w.arena, &gang, &rows[1].profile, &w.note));
        CHECK_OK("before", needs_replace(w.needs, STR("a"), rows, 1, &w.note));
        fault_alloc_arm(k);
        err = needs_replace(w.needs, STR("a"), rows, 2, &w.note);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        CHECK_ERR("done, or out of memory", err, fired ? ERR_NOMEM : ERR_OK);
        CHECK_SIZE("all of it or nothing", snapshot(&w, &got), err ? 1 : 2);
        world_close(&w);
    }
}

TEST(the_same_rows_again_change_nothing)
{
    struct need rows[2];
    const struct demand_row *kept;
    uint64_t version;
    struct world w;

    world_open(&w);
    rows[0] = world_need(&w, "a", 1, 5);
    rows[1] = world_need(&w, "a", 2, 5);
    CHECK_OK("first", needs_replace(w.needs, STR("a"), rows, 2, &w.note));
    kept = needs_cluster(w.needs, STR("a"))->set.rows;
    version = w.needs->version;
    rows[0].arrival_unix_ns = 77; /* stamped anew, as operators do */
    CHECK_OK("again", needs_replace(w.needs, STR("a"), rows, 2, &w.note));
    CHECK("untouched", needs_cluster(w.needs, STR("a"))->set.rows == kept);
    CHECK_U64("nothing to put in order", w.needs->version, version);
    CHECK_OK("fewer", needs_replace(w.needs, STR("a"), rows, 1, &w.note));
    CHECK("replaced", w.needs->version > version);
    for (int change = 0; change < 4; change++) {
        struct need other = rows[0];
        if (change == 0) other = world_need(&w, "a", 3, 5);
        if (change == 1) other.group = STR("g");
        if (change == 2) other.aggregate.milli[w.cpu]++;
        if (change == 3) other.min_unit.milli[0]++;
        CHECK_OK("as it was", needs_replace(w.needs, STR("a"), rows, 1, &w.note));
        version = w.needs->version;
        CHECK_OK("other", needs_replace(w.needs, STR("a"), &other, 1, &w.note));
        CHECK("every field counts", w.needs->version > version);
    }
    CHECK(w.note.text, needs_check(w.needs, &w.note));
    world_close(&w);
}

TEST(what_somebody_reads_outlives_the_roll_up_that_replaces_it)
{
    const struct demand_cluster *a;
    const struct demand *shown;
    uint64_t bytes = 0;
    struct need row;
    struct world w;

    world_open(&w);
    row = world_need(&w, "a", 1, 5);
    CHECK_OK("first", needs_replace(w.needs, STR("a"), &row, 1, &w.note));
    a = needs_cluster(w.needs, STR("a"));
    shown = &a->set.demands[0];
    needs_keep(w.needs);
    for (int i = 2; i < 20; i++) {
        row = world_need(&w, "a", i, 5);
        CHECK_OK("next", needs_replace(w.needs, STR("a"), &row, 1, &w.note));
        if (i == 3) bytes = needs_stats(w.needs).bytes;
        CHECK(w.note.text, needs_check(w.needs, &w.note));
    }
    CHECK_I64("still there", shown->profile->priority, 1);
    CHECK_STR("whose", shown->key.cluster, STR("a"));
    CHECK("one of each cluster, however many follow",
          needs_stats(w.needs).bytes < bytes + bytes / 10);
    bytes = needs_stats(w.needs).bytes;
    needs_keep(w.needs);
    CHECK("gone when nobody reads it", needs_stats(w.needs).bytes < bytes);
    CHECK_OK("none", needs_replace(w.needs, STR("a"), NULL, 0, &w.note));
    CHECK(w.note.text, needs_check(w.needs, &w.note));
    world_close(&w); /* asserts that nothing is left */
}

TEST(a_row_costs_its_own_amounts_and_nothing_that_others_have_too)
{
    enum { ROWS = 60 };
    struct need rows[ROWS];
    const struct demand_set *set;
    uint64_t bytes;
    struct world w;

    world_open(&w);
    for (int i = 0; i < ROWS; i++) rows[i] = world_need(&w, "a", 1, i + 1);
    CHECK_OK("one", needs_replace(w.needs, STR("a"), rows, 1, &w.note));
    bytes = needs_stats(w.needs).bytes;
    CHECK_OK("all", needs_replace(w.needs, STR("a"), rows, ROWS, &w.note));
    bytes = (needs_stats(w.needs).bytes - bytes) / ROWS;
    set = &needs_cluster(w.needs, STR("a"))->set;
    CHECK("one unit for all", set->rows[0].unit == set->rows[ROWS - 1].unit);
    CHECK_U64("and one copy of it", w.needs->units.count, 1);
    CHECK("some 300 bytes a row", bytes <= 300);
    resources_set(&rows[1].min_unit, w.cpu, 1000, QUANTITY_BINARY_SI); /* as it is shown */
    resources_set(&rows[2].min_unit, w.cpu, 0, QUANTITY_DECIMAL_SI);
    CHECK_OK("other units", needs_replace(w.needs, STR("a"), rows, 3, &w.note));
    CHECK_U64("each has its own", w.needs->units.count, 3);
    CHECK_OK("one less", needs_replace(w.needs, STR("a"), rows, 2, &w.note));
    CHECK_U64("which goes with its last row", w.needs->units.count, 2);
    world_close(&w);
}
