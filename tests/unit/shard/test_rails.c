/* SPDX-License-Identifier: Apache-2.0 */
/* rails.c, parking.c, ledger.c over decisions written by hand: the tables and vectors of shard.md
 * §§ 7, 8 and 15. */
#include <stdio.h>

#include "lib/test.h"
#include "shard/decide/ledger.h"
#include "shard/decide/parking.h"
#include "shard/decide/rails.h"

/* ---- the reclaim cap ---- */

TEST(reclaim_cap_is_a_fraction_and_at_least_one)
{
    static const struct {
        double fraction;
        uint64_t configured, cap;
    } table[] = {{0.05, 0, 1},  {0.05, 1, 1},   {0.05, 19, 1},  {0.05, 21, 1},
                 {0.05, 40, 2}, {0.05, 100, 5}, {0.25, 40, 10}, {0.5, 7, 3}};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        CHECK_U64("cap", rails_reclaim_cap(table[i].fraction, table[i].configured), table[i].cap);
}

static void add_configured(struct inventory *inventory, const char *cluster, int count)
{
    for (int i = 0; i < count; i++) {
        char id[16];
        struct machine m = {
            .state = MACHINE_CONFIGURED,
            .host_provider = STR("p"),
            .host_ref = STR("h"),
            .cluster = str_from(cluster),
        };

        snprintf(id, sizeof id, "%s-%d", cluster, i);
        m.id = str_from(id);
        CHECK_OK("insert", inventory_insert(inventory, &m, (mono_time){1}, NULL));
    }
}

static size_t add_actions(struct action *actions, size_t at, enum action_kind kind,
                          const char *cluster, size_t count)
{
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

    for (size_t i = 0; i < count; i++)
        actions[at++] = (struct action){
            .kind = kind, .machine = str_from(names[i]), .cluster = str_from(cluster)};
    return at;
}

TEST(cap_and_limit_keep_the_head_and_touch_nothing_else)
{
    struct inventory_options options = {.machines_max = 100, .seed = 1};
    struct inventory *inventory;
    struct action actions[32];
    struct decision decision = {.actions = actions};
    struct rails_options rails = {.reclaim_fraction = 0.05};
    struct rails_passed passed;
    struct arena arena;
    size_t reclaims = 0;

    arena_init(&arena, 1 << 20);
    CHECK_OK("open", inventory_open(&options, &inventory));
    add_configured(inventory, "a", 40);
    add_configured(inventory, "b", 10);
    decision.action_count = add_actions(actions, 0, ACTION_BOOTSTRAP, "a", 3);
    decision.action_count = add_actions(actions, decision.action_count, ACTION_PREEMPT, "b", 2);
    decision.action_count = add_actions(actions, decision.action_count, ACTION_RECLAIM, "a", 10);
    decision.action_count = add_actions(actions, decision.action_count, ACTION_RECLAIM, "b", 3);
    CHECK_OK("pass", rails_pass(&decision, inventory, &rails, &arena, &passed));
    CHECK_SIZE("held", passed.reclaims_held, 10);
    CHECK_SIZE("kept", passed.action_count, 8);
    for (size_t i = 0; i < passed.action_count; i++)
        reclaims += passed.actions[i]->kind == ACTION_RECLAIM;
    CHECK_SIZE("two of a, one of b", reclaims, 3);
    CHECK_STR("the head of a", passed.actions[6]->machine, STR("1"));
    CHECK_STR("the head of b", passed.actions[7]->cluster, STR("b"));

    rails.actions_max = 4;
    CHECK_OK("pass", rails_pass(&decision, inventory, &rails, &arena, &passed));
    CHECK_SIZE("the first four", passed.action_count, 4);
    CHECK_SIZE("the rest is held", passed.actions_held, 4);

    rails = (struct rails_options){0};
    CHECK_OK("pass", rails_pass(&decision, inventory, &rails, &arena, &passed));
    CHECK_SIZE("no rail, all pass", passed.action_count, decision.action_count);
    inventory_close(inventory);
    arena_deinit(&arena);
}

TEST(preemptions_of_a_cluster_that_has_not_reported_are_capped)
{
    struct inventory_options options = {.machines_max = 100, .seed = 1};
    struct dimensions dimensions;
    struct needs *needs;
    struct inventory *inventory;
    struct action actions[32];
    struct decision decision = {.actions = actions};
    struct rails_options rails = {.reclaim_fraction = 0.05};
    struct rails_passed passed;
    struct arena arena;

    arena_init(&arena, 1 << 20);
    dimensions_init(&dimensions);
    CHECK_OK("open", inventory_open(&options, &inventory));
    CHECK_OK(
        "needs",
        needs_open(&(struct needs_options){.rows_max = 10, .seed = 1, .dimensions = &dimensions},
                   &needs));
    add_configured(inventory, "a", 40);
    add_configured(inventory, "b", 10);
    for (int i = 0; i < 3; i++) { /* preemptions are in the order of the Needs */
        decision.action_count = add_actions(actions, decision.action_count, ACTION_PREEMPT, "b", 2);
        decision.action_count = add_actions(actions, decision.action_count, ACTION_PREEMPT, "a", 2);
    }
    CHECK_OK("pass", rails_pass(&decision, inventory, &rails, &arena, &passed));
    CHECK_SIZE("preemptions are not capped", passed.action_count, 12);
    rails.unreported = needs;
    CHECK_OK("pass", rails_pass(&decision, inventory, &rails, &arena, &passed));
    CHECK_SIZE("one of b, two of a", passed.action_count, 3);
    CHECK_STR("b", passed.actions[0]->cluster, STR("b"));
    CHECK_STR("a", passed.actions[2]->cluster, STR("a"));
    CHECK_SIZE("held", passed.preempts_held, 9);
    CHECK_SIZE("no reclaim", passed.reclaims_held, 0);
    CHECK_OK("a reports", needs_mark_reported(needs, STR("a")));
    CHECK_OK("pass", rails_pass(&decision, inventory, &rails, &arena, &passed));
    CHECK_SIZE("one of b, all of a", passed.action_count, 7);
    rails.reclaim_fraction = 0;
    CHECK_OK("pass", rails_pass(&decision, inventory, &rails, &arena, &passed));
    CHECK_SIZE("no cap", passed.action_count, 12);
    needs_close(needs);
    inventory_close(inventory);
    dimensions_deinit(&dimensions);
    arena_deinit(&arena);
}

/* ---- the quarantine ---- */

struct said {
    uint32_t rows;
    enum quarantine_verdict verdict;
    uint32_t holds;
    uint64_t after_s; /* after the roll-up before it */
    uint32_t serving; /* machines */
};

static void hear(const char *why, const struct said *said, size_t count)
{
    struct quarantine q = {0};
    mono_time now = {1000};

    for (size_t i = 0; i < count; i++) {
        now.ms += said[i].after_s * 1000;
        CHECK_U32(why, quarantine_admit(&q, said[i].rows, said[i].serving, now), said[i].verdict);
        CHECK_U32(why, q.holds, said[i].holds);
    }
}
#define HEAR(why, ...)                                                                             \
    do {                                                                                           \
        const struct said said[] = {__VA_ARGS__};                                                  \
        hear(why, said, sizeof said / sizeof said[0]);                                             \
    } while (0)

TEST(a_sudden_silence_is_believed_the_third_time)
{
    HEAR("held, held, accepted", {20, QUARANTINE_ACCEPTED, 0, 10, 0},
         {0, QUARANTINE_HELD, 1, 10, 0}, {0, QUARANTINE_HELD, 2, 10, 0},
         {0, QUARANTINE_CONFIRMED, 0, 10, 0});
    HEAR("good news resets", {20, QUARANTINE_ACCEPTED, 0, 10, 0}, {0, QUARANTINE_HELD, 1, 10, 0},
         {18, QUARANTINE_ACCEPTED, 0, 10, 0}, {0, QUARANTINE_HELD, 1, 10, 0},
         {0, QUARANTINE_HELD, 2, 10, 0}, {0, QUARANTINE_CONFIRMED, 0, 10, 0});
    HEAR("nine rows are few", {9, QUARANTINE_ACCEPTED, 0, 10, 0},
         {0, QUARANTINE_ACCEPTED, 0, 10, 0});
    HEAR("step by step is fine", {40, QUARANTINE_ACCEPTED, 0, 10, 0},
         {20, QUARANTINE_ACCEPTED, 0, 10, 0}, {8, QUARANTINE_ACCEPTED, 0, 10, 0},
         {0, QUARANTINE_ACCEPTED, 0, 10, 0});
    HEAR("the first word counts", {0, QUARANTINE_ACCEPTED, 0, 10, 0});
    HEAR("a tenth is no silence", {20, QUARANTINE_ACCEPTED, 0, 10, 0},
         {2, QUARANTINE_ACCEPTED, 0, 10, 0});
}

TEST(an_operator_that_repeats_itself_at_once_confirms_nothing)
{
    HEAR("a crash loop", {20, QUARANTINE_ACCEPTED, 0, 10, 0}, {0, QUARANTINE_HELD, 1, 10, 0},
         {0, QUARANTINE_HELD, 1, 1, 0}, {0, QUARANTINE_HELD, 1, 1, 0},
         {0, QUARANTINE_HELD, 2, 7, 0}, {0, QUARANTINE_HELD, 2, 8, 0},
         {0, QUARANTINE_CONFIRMED, 0, 1, 0});
}

TEST(machines_that_serve_a_cluster_make_its_first_silence_suspicious)
{
    HEAR("after a restart of both", {0, QUARANTINE_HELD, 1, 10, 10},
         {0, QUARANTINE_HELD, 2, 10, 10}, {0, QUARANTINE_CONFIRMED, 0, 10, 10},
         {0, QUARANTINE_ACCEPTED, 0, 10, 10});
    HEAR("nine machines are few", {0, QUARANTINE_ACCEPTED, 0, 10, 9});
    HEAR("a row may ask for many machines", {1, QUARANTINE_ACCEPTED, 0, 10, 1000},
         {0, QUARANTINE_ACCEPTED, 0, 10, 1000});
}

/* ---- parking ---- */

static struct demand gang(const char *cluster, const char *fingerprint, const char *group)
{
    return (struct demand){
        .key = {str_from(cluster), str_from(fingerprint), str_from(group)},
        .gang = true,
    };
}

static void cycle(struct parking *parking, const struct demand *need, uint32_t acquired,
                  bool satisfied)
{
    struct need_verdict verdict = {.need = need, .bootstraps = acquired, .satisfied = satisfied};
    struct decision decision = {.verdicts = &verdict, .verdict_count = 1};

    CHECK_OK("note", parking_note(parking, &decision));
}

static bool is_parked(const struct parking *parking)
{
    size_t count;

    parking_parked(parking, &count);
    return count > 0;
}

TEST(a_gang_that_gets_nothing_is_parked_and_probes)
{
    struct demand need = gang("c", "f", "g");
    struct parking *parking;

    CHECK_OK("open", parking_open(&parking));
    for (uint32_t age = 1; age <= 96; age++) {
        cycle(parking, &need, 0, false);
        CHECK_U32("age", parking_age(parking, &need.key), age);
        CHECK("parked from 8 on, but for every 32nd", is_parked(parking) == (age >= 8 && age % 32));
    }
    cycle(parking, &need, 4, false);
    CHECK_U32("progress forgets", parking_age(parking, &need.key), 0);
    for (int i = 0; i < 8; i++) cycle(parking, &need, 0, false);
    CHECK("eight more park it again", is_parked(parking));
    cycle(parking, &need, 0, true);
    CHECK_U32("served once, forgotten", parking_age(parking, &need.key), 0);
    parking_close(parking);
}

TEST(only_gangs_without_a_domain_that_could_hold_them_age)
{
    struct demand a = gang("c", "f", "1"), b = gang("c", "f", "2"), plain = gang("c", "p", ""),
                  lucky = gang("c", "f", "3");
    struct need_verdict verdicts[] = {{.need = &a},
                                      {.need = &b},
                                      {.need = &plain},
                                      {.need = &lucky, .satisfiable = true},
                                      {.need = &a}};
    struct decision decision = {.verdicts = verdicts, .verdict_count = 5};
    struct parking *parking;

    plain.gang = false;
    CHECK_OK("open", parking_open(&parking));
    CHECK_OK("note", parking_note(parking, &decision));
    CHECK_U32("two rows of one gang age as one", parking_age(parking, &a.key), 1);
    CHECK_U32("plain rows never", parking_age(parking, &plain.key), 0);
    CHECK_U32("a lost race is no age", parking_age(parking, &lucky.key), 0);
    decision.verdict_count = 1;
    CHECK_OK("note", parking_note(parking, &decision));
    CHECK_U32("seen twice", parking_age(parking, &a.key), 2);
    CHECK_U32("groups age apart; gone with one cycle", parking_age(parking, &b.key), 0);
    parking_close(parking);
}

/* ---- the ledger ---- */

struct short_row {
    struct demand need;
    struct shortage shortage;
    struct need_verdict verdict;
};

static void fill_row(struct arena *arena, struct short_row *row, int32_t priority,
                     uint32_t dimension, int64_t milli)
{
    struct profile *profile = ARENA_NEW(arena, struct profile);
    struct profile given = {.priority = priority};
    struct resource_sum sum;
    struct resources amount = {0};

    CHECK_OK("profile", profile_build(arena, &given, profile, NULL));
    resource_sum_clear(&sum);
    CHECK_OK("set", resources_set(&amount, dimension, milli, QUANTITY_DECIMAL_SI));
    resource_sum_add(&sum, &amount);
    row->need = (struct demand){.key.fingerprint = profile->fingerprint, .profile = profile};
    row->shortage = (struct shortage){0};
    CHECK_OK("keep", amounts_keep(arena, &sum, &row->shortage.unresolved));
    row->verdict = (struct need_verdict){.need = &row->need, .shortage = &row->shortage};
}

static const struct shortfall *note_rows(struct ledger *ledger, const struct short_row *rows,
                                         size_t count, size_t *ret_count)
{
    struct need_verdict verdicts[8];
    struct decision decision = {.verdicts = verdicts, .verdict_count = count};
    const struct shortfall *const *sorted;

    for (size_t i = 0; i < count; i++) verdicts[i] = rows[i].verdict;
    CHECK_OK("note", ledger_note(ledger, &decision));
    sorted = ledger_shortfalls(ledger, ret_count);
    return *ret_count ? sorted[0] : NULL;
}

TEST(shortfalls_sum_by_profile_and_age_by_cycle)
{
    struct arena arena;
    struct ledger *ledger;
    struct short_row rows[3];
    const struct shortfall *top;
    size_t count;

    arena_init(&arena, 1 << 20);
    CHECK_OK("open", ledger_open(1, &ledger));
    fill_row(&arena, &rows[0], 500, 1, 16000); /* two gangs of one profile, 16 and 8 */
    fill_row(&arena, &rows[1], 500, 1, 8000);
    fill_row(&arena, &rows[2], 5, 0, 4000);
    top = note_rows(ledger, rows, 3, &count);
    CHECK_SIZE("two profiles", count, 2);
    CHECK_I64("24", resource_sum_get(&top->lacking, 1), 24000);
    CHECK_U32("new", top->age, 1);
    top = note_rows(ledger, rows, 3, &count);
    CHECK_U32("again", top->age, 2);
    top = note_rows(ledger, rows, 1, &count);
    CHECK_SIZE("one is gone", count, 1);
    CHECK_I64("what is left of it", resource_sum_get(&top->lacking, 1), 16000);
    CHECK_U32("and it is older", top->age, 3);
    CHECK_U32("asked by name", ledger_age(ledger, rows[0].need.key.fingerprint), 3);
    note_rows(ledger, rows, 0, &count);
    CHECK_SIZE("none", count, 0);
    ledger_close(ledger);
    arena_deinit(&arena);
}

TEST(shortfalls_are_sorted_by_priority_then_age)
{
    struct arena arena;
    struct ledger *ledger;
    struct short_row rows[2];
    const struct shortfall *top;
    size_t count;

    arena_init(&arena, 1 << 20);
    CHECK_OK("open", ledger_open(1, &ledger));
    fill_row(&arena, &rows[0], 5, 0, 1000);
    fill_row(&arena, &rows[1], 50, 0, 1000);
    top = note_rows(ledger, rows, 2, &count);
    CHECK_I64("the higher first", top->profile.priority, 50);
    ledger_close(ledger);
    arena_deinit(&arena);
}

TEST(labels_of_shortfalls)
{
    CHECK_TEXT("1", shortfall_age_names[shortfall_age_index(1)], "1-9");
    CHECK_TEXT("9", shortfall_age_names[shortfall_age_index(9)], "1-9");
    CHECK_TEXT("10", shortfall_age_names[shortfall_age_index(10)], "10-59");
    CHECK_TEXT("59", shortfall_age_names[shortfall_age_index(59)], "10-59");
    CHECK_TEXT("60", shortfall_age_names[shortfall_age_index(60)], "60-299");
    CHECK_TEXT("299", shortfall_age_names[shortfall_age_index(299)], "60-299");
    CHECK_TEXT("300", shortfall_age_names[shortfall_age_index(300)], "300+");
    CHECK_TEXT("critical", shortfall_class_names[shortfall_class_index(1000000)], "critical");
    CHECK_TEXT("service", shortfall_class_names[shortfall_class_index(1000)], "service");
    CHECK_TEXT("batch", shortfall_class_names[shortfall_class_index(100)], "batch");
    CHECK_TEXT("other", shortfall_class_names[shortfall_class_index(99)], "other");
}
