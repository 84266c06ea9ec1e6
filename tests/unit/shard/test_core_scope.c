/* SPDX-License-Identifier: Apache-2.0 */
/* scope.c: AssignDomain and UnassignDomain (Q10). */
#include <stdio.h>

#include "lib/shard_check.h"
#include "lib/test.h"
#include "shard/state/cohorts.h"
#include "unit/shard/core_case.h"

static const struct label z1[] = {{{"topology.kubernetes.io/zone", 27}, {"z1", 2}}};
static const struct label z1_and_r2[] = {{{"topology.kubernetes.io/zone", 27}, {"z1", 2}},
                                         {{"rack", 4}, {"r2", 2}}};

static struct machine zoned(struct core_case *c, const char *id, enum machine_state state,
                            const char *zone)
{
    struct machine m = case_machine(c, id, state);

    m.attributes.zone = str_from(zone);
    return m;
}

static void scope(struct core_case *c, const struct label *domains, size_t count)
{
    CHECK_OK("scope", core_scope(c->core, domains, domains, count, c->now, &c->out));
    CHECK(c->note.text, inventory_check(c->core->inventory, &c->note));
}

TEST(a_machine_outside_of_the_domains_is_not_taken)
{
    static const struct label rack = {{"rack", 4}, {"r2", 2}};
    struct machine m[4];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = zoned(&c, "inside", MACHINE_IDLE, "z1");
    m[1] = zoned(&c, "outside", MACHINE_IDLE, "z2");
    m[2] = zoned(&c, "by rack", MACHINE_IDLE, "z2");
    m[2].attributes.labels = &rack;
    m[2].attributes.label_count = 1;
    m[3] = zoned(&c, "nowhere", MACHINE_IDLE, "");
    scope(&c, z1, 1);
    case_list(&c, LIST_FULL, m, 4, true);
    CHECK("inside", case_has(&c, "inside"));
    CHECK("outside", !case_has(&c, "outside"));
    CHECK("no zone", !case_has(&c, "nowhere"));
    CHECK_U64("that is no fault of the provider",
              core_counts(c.core)->machines_rejected[MACHINE_FAULT_STRUCTURAL], 0);
    CHECK("nothing more is wanted", !core_wants_full_list(c.core));
    scope(&c, z1_and_r2, 2);
    CHECK("a delta would not show what is ours now", core_wants_full_list(c.core));
    case_list(&c, LIST_FULL, m, 4, true);
    CHECK("any of the domains", case_has(&c, "inside") && case_has(&c, "by rack"));
    CHECK("and no others", !case_has(&c, "outside"));
    scope(&c, NULL, 0);
    case_list(&c, LIST_FULL, m, 4, true);
    CHECK("as if none ever was given: everything",
          case_has(&c, "outside") && case_has(&c, "nowhere"));
    case_close(&c);
}

TEST(a_domain_that_is_taken_away_keeps_what_serves_until_it_is_drained)
{
    static const char *const ids[] = {"speculative", "creating", "idle",     "configuring",
                                      "configured",  "draining", "deleting", "failed"};
    struct machine m[8];
    struct core_case c;

    case_open(&c, NULL);
    for (int i = 0; i < 8; i++) m[i] = zoned(&c, ids[i], (enum machine_state)(i + 1), "z2");
    case_list(&c, LIST_FULL, m, 8, true);
    scope(&c, z1, 1);
    CHECK("free ones go", !case_has(&c, "speculative") && !case_has(&c, "idle"));
    CHECK("so does a broken one", !case_has(&c, "failed"));
    CHECK("who serves, stays", case_has(&c, "configured") && case_has(&c, "configuring"));
    CHECK("who comes or goes, too", case_has(&c, "creating") && case_has(&c, "draining"));
    CHECK("and who is deleted", case_has(&c, "deleting"));
    case_list(&c, LIST_FULL, m, 8, true);
    CHECK("they do not come back", !case_has(&c, "idle"));
    m[5] = zoned(&c, "draining", MACHINE_IDLE, "z2");
    case_list(&c, LIST_FULL, m, 8, true);
    core_begin(c.core, c.now, &c.out);
    scope_sweep(c.core);
    CHECK("drained: goes before the next decision", !case_has(&c, "draining"));
    CHECK("others stay", case_has(&c, "configured"));
    case_close(&c);
}

static uint32_t serving(struct core_case *c, const char *key, const char *value)
{
    struct label domain = {str_from(key), str_from(value)};
    uint32_t count = 0;
    bool more = true;

    CHECK_OK("counts", core_serving(c->core, &domain, &count, &more));
    CHECK("all of them", !more);
    return count;
}

/* The coordinator gives a domain to another shard when nothing serves there. */
TEST(machines_that_serve_in_a_domain_that_was_taken_away_are_counted)
{
    static const char zone[] = "topology.kubernetes.io/zone";
    static const struct label r2 = {{"rack", 4}, {"r2", 2}}, r3 = {{"rack", 4}, {"r3", 2}};
    struct machine m[5];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = zoned(&c, "m0", MACHINE_CONFIGURED, "z2");
    m[1] = zoned(&c, "m1", MACHINE_CREATING, "z2");
    m[2] = zoned(&c, "m2", MACHINE_IDLE, "z2");
    m[3] = zoned(&c, "m3", MACHINE_CONFIGURED, "z2");
    m[4] = zoned(&c, "m4", MACHINE_CONFIGURED, "z3");
    m[0].attributes.labels = &r3;
    m[3].attributes.labels = &r2;
    m[0].attributes.label_count = m[3].attributes.label_count = 1;
    case_list(&c, LIST_FULL, m, 5, true);
    CHECK_U32("all are its own", serving(&c, zone, "z2"), 0);
    scope(&c, z1_and_r2, 2);
    CHECK_U32("not a free one, nor one of another domain", serving(&c, zone, "z2"), 2);
    CHECK_U32("by another label", serving(&c, "rack", "r3"), 1);
    CHECK_U32("in another zone", serving(&c, zone, "z3"), 1);
    CHECK_U32("elsewhere", serving(&c, zone, "z4"), 0);
    m[0] = zoned(&c, "m0", MACHINE_IDLE, "z2");
    m[1] = zoned(&c, "m1", MACHINE_IDLE, "z2");
    case_list(&c, LIST_FULL, m, 5, true);
    core_begin(c.core, c.now, &c.out);
    scope_sweep(c.core);
    CHECK_U32("none is left", serving(&c, zone, "z2"), 0);
    case_close(&c);
}

TEST(a_machine_whose_labels_change_leaves_and_enters)
{
    struct machine m[2];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = zoned(&c, "m0", MACHINE_CONFIGURED, "z1");
    m[1] = zoned(&c, "m1", MACHINE_IDLE, "z1");
    scope(&c, z1, 1);
    case_list(&c, LIST_FULL, m, 2, true);
    m[0].attributes.zone = m[1].attributes.zone = STR("z2");
    case_list(&c, LIST_FULL, m, 2, true);
    core_begin(c.core, c.now, &c.out);
    scope_sweep(c.core);
    CHECK("moved away while free", !case_has(&c, "m1"));
    CHECK("moved away while it serves", case_has(&c, "m0"));
    m[0].attributes.zone = STR("z1");
    case_list(&c, LIST_FULL, m, 2, true);
    m[0] = zoned(&c, "m0", MACHINE_IDLE, "z1");
    case_list(&c, LIST_FULL, m, 2, true);
    core_begin(c.core, c.now, &c.out);
    scope_sweep(c.core);
    CHECK("came back, so it is ours", case_has(&c, "m0"));
    case_close(&c);
}

static void answer(struct core_case *c, enum effect_kind kind, struct machine said)
{
    struct call_answer done = {.end = CALL_DONE, .machine = &said};

    core_answered(c->core, case_effect(c, kind, 0)->action, &done, c->now, (wall_time){1}, &c->out);
}

/* One runs, one waits, and the domain of both goes to another shard. */
TEST(what_waits_is_not_begun_in_a_domain_that_was_taken_away)
{
    struct core_options options = {.concurrency = 1, .machines_max = 100};
    struct machine m[2];
    struct core_case c;
    struct need row;

    case_open(&c, &options);
    case_session(&c, "a", true);
    row = case_need(&c, "a", 1, 8, "");
    m[0] = zoned(&c, "m0", MACHINE_SPECULATIVE, "z2");
    m[1] = zoned(&c, "m1", MACHINE_SPECULATIVE, "z2");
    case_list(&c, LIST_FULL, m, 2, true);
    (void)case_rollup(&c, "a", &row, 1);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("one is being created", case_count(&c, EFFECT_CREATE), 1);
    CHECK_U32("one waits", core_counts(c.core)->queued, 1);
    scope(&c, z1, 1);
    answer(&c, EFFECT_CREATE,
           zoned(&c, case_effect(&c, EFFECT_CREATE, 0)->machine.at, MACHINE_IDLE, "z2"));
    CHECK_SIZE("it is not configured", case_count(&c, EFFECT_ASK_BLOB), 0);
    CHECK_SIZE("and the other one not bought", case_count(&c, EFFECT_CREATE), 1);
    CHECK_U64("both are counted",
              core_counts(c.core)->outcomes[ACTION_PROVISION][OUTCOME_STALE_STATE], 2);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK("both are let go", !case_has(&c, "m0") && !case_has(&c, "m1"));
    case_close(&c);
}

/* The place of a machine may be known only when it is there. */
TEST(what_is_created_elsewhere_is_let_go)
{
    struct core_case c;
    struct machine m;
    struct need row;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    row = case_need(&c, "a", 1, 4, "");
    m = zoned(&c, "m0", MACHINE_SPECULATIVE, "z1");
    scope(&c, z1, 1);
    case_list(&c, LIST_FULL, &m, 1, true);
    (void)case_rollup(&c, "a", &row, 1);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    list_orders_free(c.core->inventory); /* so that a row that moves is freed at once */
    m = zoned(&c, "m0", MACHINE_IDLE, "z2");
    m.host_ref = STR("a reference for which the machine's row must move: a long, long, long one");
    answer(&c, EFFECT_CREATE, m);
    CHECK_SIZE("not configured", case_count(&c, EFFECT_ASK_BLOB), 0);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK("not decided about again and again", !case_has(&c, "m0"));
    case_close(&c);
}

/* It is the other shard's to give back. */
TEST(nothing_is_deleted_in_a_domain_that_was_taken_away)
{
    struct core_options options = {.concurrency = 1, .machines_max = 100};
    struct machine m[2];
    struct core_case c;

    options.idle_hold_ms[CAPACITY_ON_DEMAND] = 1;
    case_open(&c, &options);
    m[0] = zoned(&c, "m0", MACHINE_IDLE, "z2");
    m[1] = zoned(&c, "m1", MACHINE_IDLE, "z2");
    case_list(&c, LIST_FULL, m, 2, true);
    c.now.ms += 1000;
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("one is deleted", case_count(&c, EFFECT_DELETE), 1);
    CHECK_U32("one waits", core_counts(c.core)->queued, 1);
    scope(&c, z1, 1);
    answer(&c, EFFECT_DELETE,
           zoned(&c, case_effect(&c, EFFECT_DELETE, 0)->machine.at, MACHINE_SPECULATIVE, "z2"));
    CHECK_SIZE("the other one is not", case_count(&c, EFFECT_DELETE), 1);
    CHECK_U64("counted", core_counts(c.core)->outcomes[ACTION_DELETE][OUTCOME_STALE_STATE], 1);
    case_close(&c);
}

/* The shard of a data centre: a domain for each rack. */
TEST(thousands_of_domains_are_as_good_as_one)
{
    enum { RACKS = 20000, MACHINES = 80 };
    static struct label domains[RACKS];
    static char names[RACKS][8];
    struct label rack = {STR("rack"), STR_EMPTY};
    struct machine m[MACHINES];
    char ids[MACHINES][8], racks[MACHINES][8];
    struct core_case c;

    for (int i = 0; i < RACKS; i++) { /* in any order */
        (void)snprintf(names[i], sizeof names[i], "r%05d", i * 7919 % RACKS);
        domains[i] = (struct label){rack.key, str_from(names[i])};
    }
    case_open(&c, NULL);
    scope(&c, domains, RACKS);
    for (int i = 0; i < MACHINES; i++) {
        struct label *label = ARENA_NEW(&c.arena, struct label);

        (void)snprintf(ids[i], sizeof ids[i], "m%02d", i);
        (void)snprintf(racks[i], sizeof racks[i], "r%05d", i % 2 ? i : RACKS + i);
        *label = (struct label){rack.key, str_from(racks[i])};
        m[i] = case_machine(&c, ids[i], MACHINE_IDLE);
        m[i].attributes.labels = label;
        m[i].attributes.label_count = 1;
    }
    case_list(&c, LIST_FULL, m, MACHINES, true);
    for (int i = 0; i < MACHINES; i++) CHECK(ids[i], case_has(&c, ids[i]) == (i % 2 == 1));
    scope(&c, domains + 1, RACKS - 1); /* r00000 is nobody's here; all others stay */
    CHECK_U32("known still", inventory_counts(c.core->inventory).machines, MACHINES / 2);
    case_close(&c);
}

TEST(without_its_last_domain_a_shard_buys_nothing)
{
    struct machine m[2];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = zoned(&c, "serves", MACHINE_CONFIGURED, "z1");
    m[1] = zoned(&c, "idle", MACHINE_IDLE, "z1");
    scope(&c, z1, 1);
    case_list(&c, LIST_FULL, m, 2, true);
    case_forget(&c);
    scope(&c, z1, 0);
    CHECK("what serves goes on", case_has(&c, "serves"));
    CHECK("what is free goes", !case_has(&c, "idle"));
    case_list(&c, LIST_FULL, m, 2, true);
    CHECK("and does not come back", !case_has(&c, "idle"));
    CHECK("said", case_said(&c, "this shard has no domain left: it buys nothing"));
    scope(&c, z1, 1);
    case_list(&c, LIST_FULL, m, 2, true);
    CHECK("given again", case_has(&c, "idle"));
    case_close(&c);
}

TEST(the_same_domains_again_are_nothing_new)
{
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    m = case_machine(&c, "m", MACHINE_IDLE);
    scope(&c, z1, 1);
    case_list(&c, LIST_FULL, &m, 1, true);
    case_forget(&c);
    scope(&c, z1, 1);
    CHECK("no List for it", !core_wants_full_list(c.core));
    CHECK_SIZE("nothing is said", c.out.count, 0);
    case_close(&c);
}
