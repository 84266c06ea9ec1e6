/* SPDX-License-Identifier: Apache-2.0 */
/* reconcile.c: shard.md 6, 7.5 and quirks Q1, Q4, Q8; wire.md S1. */
#include <math.h>
#include <stdio.h>

#include "lib/test.h"
#include "unit/shard/core_case.h"

static const struct machine_stamp stamp = {.priority = 7,
                                           .interruption_dollars = 2,
                                           .reclamation_dollars = 4,
                                           .fingerprint = {"fp", 2},
                                           .group = {"g", 1}};

static void list_one(struct core_case *c, enum list_kind kind, const struct machine *machine)
{
    case_list(c, kind, machine, 1, true);
}

/* --- unknown machines --- */

TEST(an_unknown_machine_comes_with_what_its_metadata_says)
{
    struct core_case c;
    struct machine m, got;

    case_open(&c, NULL);
    CHECK("nothing was listed", !core_listed(c.core));
    m = case_machine(&c, "m1", MACHINE_CONFIGURED);
    case_session(&c, "a", true);
    case_put(&c, &m, &stamp);
    CHECK("listed", core_listed(c.core));
    got = case_get(&c, "m1");
    CHECK_I64("priority", got.stamp.priority, 7);
    CHECK("penalties", got.stamp.interruption_dollars == 2 && got.stamp.reclamation_dollars == 4);
    CHECK_STR("fingerprint", got.stamp.fingerprint, STR("fp"));
    CHECK_STR("group", got.stamp.group, STR("g"));
    CHECK_SIZE("its operator hears of it", case_count(&c, EFFECT_NODE_STATE), 1);
    CHECK_STR("whose", case_effect(&c, EFFECT_NODE_STATE, 0)->cluster, STR("a"));
    case_close(&c);
}

TEST(metadata_that_cannot_be_read_is_left_out_and_said)
{
    struct label pairs[] = {{STR("bigfleet.lucy.sh/assigned-need-fingerprint"), STR("fp")},
                            {STR("bigfleet.lucy.sh/assigned-priority"), STR("high")}};
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    m = case_machine(&c, "m1", MACHINE_CONFIGURED);
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("record", core_list_machine(c.core, &m, pairs, 2, c.now, &c.out));
    core_list_end(c.core, true, c.now, &c.out);
    CHECK_STR("the rest counts", case_get(&c, "m1").stamp.fingerprint, STR("fp"));
    CHECK_I64("none", case_get(&c, "m1").stamp.priority, 0);
    CHECK("said", case_said(&c, "shard_metadata decode failed at ingest"));
    case_close(&c);
}

TEST(a_full_inventory_ends_the_list_and_nothing_is_removed)
{
    struct core_options options = {.machines_max = 1, .seed = 1};
    struct machine m[2];
    struct core_case c;

    case_open(&c, &options);
    m[0] = case_machine(&c, "m0", MACHINE_IDLE);
    m[1] = case_machine(&c, "m1", MACHINE_IDLE);
    list_one(&c, LIST_FULL, &m[0]);
    core_list_begin(c.core, LIST_FULL);
    CHECK_ERR("no room", core_list_machine(c.core, &m[1], NULL, 0, c.now, &c.out), ERR_FULL);
    core_list_end(c.core, true, c.now, &c.out);
    CHECK("whatever the driver says of it", case_has(&c, "m0"));
    case_close(&c);
}

/* --- known machines: what is believed --- */

static const struct move {
    const char *why;
    enum machine_state from, to;
    bool keeps_stamp;
    unsigned observed, foreign;
    const char *reported; /* cluster that hears of it; "": nobody */
} moves[] = {
    /* Ours, by an asynchronous provider. */
    {"created", MACHINE_CREATING, MACHINE_IDLE, false, 0, 0, ""},
    {"configured", MACHINE_CONFIGURING, MACHINE_CONFIGURED, true, 0, 0, "a"},
    {"drained", MACHINE_DRAINING, MACHINE_IDLE, false, 0, 0, "a"},
    {"deleted", MACHINE_DELETING, MACHINE_SPECULATIVE, false, 0, 0, ""},
    {"creation failed", MACHINE_CREATING, MACHINE_FAILED, false, 0, 0, ""},
    {"configuration failed", MACHINE_CONFIGURING, MACHINE_FAILED, false, 0, 0, "a"},
    {"drain failed", MACHINE_DRAINING, MACHINE_FAILED, false, 0, 0, "a"},
    /* The world's. */
    {"a spot machine dies", MACHINE_CONFIGURED, MACHINE_FAILED, false, 1, 0, "a"},
    {"an idle host breaks", MACHINE_IDLE, MACHINE_FAILED, false, 1, 0, ""},
    {"it lost its cluster", MACHINE_CONFIGURED, MACHINE_IDLE, false, 1, 0, "a"},
    {"a host is repaired", MACHINE_FAILED, MACHINE_IDLE, false, 1, 0, ""},
    {"it was configured after all", MACHINE_FAILED, MACHINE_CONFIGURED, false, 1, 0, "a"},
    /* Nobody of ours gave the order. */
    {"somebody drains", MACHINE_CONFIGURED, MACHINE_DRAINING, true, 0, 1, "a"},
    {"somebody deletes", MACHINE_IDLE, MACHINE_DELETING, false, 0, 1, ""},
    {"somebody configures", MACHINE_IDLE, MACHINE_CONFIGURING, false, 0, 1, "a"},
    {"somebody creates", MACHINE_SPECULATIVE, MACHINE_CREATING, false, 0, 1, ""},
    {"impossible", MACHINE_SPECULATIVE, MACHINE_CONFIGURED, false, 0, 1, "a"},
};
TEST(what_a_provider_says_of_a_machine_without_an_action_is_believed_and_counted)
{
    for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
        const struct move *move = &moves[i];
        struct machine from, to, got;
        struct core_case c;
        size_t reported;

        case_open(&c, NULL);
        case_session(&c, "a", true);
        from = case_machine(&c, "m1", move->from);
        to = case_machine(&c, "m1", move->to);
        case_put(&c, &from, &stamp);
        case_forget(&c);
        list_one(&c, LIST_FULL, &to);
        got = case_get(&c, "m1");
        CHECK_U32(move->why, got.state, move->to);
        CHECK_STR(move->why, got.cluster, to.cluster);
        CHECK_STR(move->why, got.stamp.fingerprint, move->keeps_stamp ? STR("fp") : STR_EMPTY);
        CHECK_U64(move->why, core_counts(c.core)->observed_edges, move->observed);
        CHECK_U64(move->why, core_counts(c.core)->foreign_edges, move->foreign);
        CHECK(move->why, case_said(&c, "provider reports a change that this shard did not order") ==
                             (move->observed > 0));
        CHECK(move->why, case_said(&c, "another program acts on a machine of this shard") ==
                             (move->foreign > 0));
        reported = case_count(&c, EFFECT_NODE_STATE);
        CHECK_SIZE(move->why, reported, move->reported[0] ? 1 : 0);
        if (reported) {
            const struct effect *effect = case_effect(&c, EFFECT_NODE_STATE, 0);
            CHECK_STR(move->why, effect->cluster, str_from(move->reported));
            CHECK_U32(move->why, effect->node->state, move->to);
            CHECK_STR(move->why, effect->machine, STR("m1"));
        }
        case_close(&c);
    }
}

TEST(a_promise_outlives_the_drain)
{
    struct label pairs[] = {{STR("muster/promised-at-unix-ms"), STR("5")},
                            {STR("muster/promised-cluster"), STR("b")},
                            {STR("muster/promised-fingerprint"), STR("fp2")},
                            {STR("muster/promised-priority"), STR("9")}};
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    m = case_machine(&c, "m1", MACHINE_DRAINING);
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("record", core_list_machine(c.core, &m, pairs, 4, c.now, &c.out));
    core_list_end(c.core, true, c.now, &c.out);
    CHECK_STR("promised", case_get(&c, "m1").promised.cluster, STR("b"));
    m = case_machine(&c, "m1", MACHINE_IDLE);
    list_one(&c, LIST_FULL, &m);
    CHECK_U32("drained", case_get(&c, "m1").state, MACHINE_IDLE);
    CHECK_STR("kept for it", case_get(&c, "m1").promised.cluster, STR("b"));
    case_close(&c);
}

TEST(what_was_created_for_a_need_is_kept_for_it)
{
    struct label pairs[] = {{STR("bigfleet.lucy.sh/assigned-group"), STR("g")},
                            {STR("bigfleet.lucy.sh/assigned-need-fingerprint"), STR("fp2")},
                            {STR("bigfleet.lucy.sh/assigned-priority"), STR("9")},
                            {STR("muster/destination-cluster"), STR("b")}};
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    m = case_machine(&c, "m1", MACHINE_CREATING);
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("record", core_list_machine(c.core, &m, pairs, 4, c.now, &c.out));
    core_list_end(c.core, true, c.now, &c.out);
    CHECK_STR("created for", case_get(&c, "m1").destination, STR("b"));
    m = case_machine(&c, "m1", MACHINE_IDLE);
    list_one(&c, LIST_FULL, &m);
    CHECK_STR("kept for it", case_get(&c, "m1").promised.cluster, STR("b"));
    CHECK_STR("its need", case_get(&c, "m1").promised.fingerprint, STR("fp2"));
    CHECK_STR("its gang", case_get(&c, "m1").promised.group, STR("g"));
    CHECK_I64("its priority", case_get(&c, "m1").promised.priority, 9);
    CHECK_SIZE("it is bound to nobody", case_get(&c, "m1").destination.len, 0);
    m = case_machine(&c, "m2", MACHINE_CREATING);
    list_one(&c, LIST_DELTA, &m);
    m = case_machine(&c, "m2", MACHINE_IDLE);
    list_one(&c, LIST_DELTA, &m);
    CHECK_SIZE("nobody's stays nobody's", case_get(&c, "m2").promised.cluster.len, 0);
    case_close(&c);
}

TEST(a_binding_that_is_not_the_one_we_know_is_told_by_its_metadata)
{
    struct label pairs[] = {{STR("bigfleet.lucy.sh/assigned-need-fingerprint"), STR("other")},
                            {STR("bigfleet.lucy.sh/assigned-priority"), STR("3")}};
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    case_session(&c, "b", true);
    m = case_machine(&c, "m1", MACHINE_CONFIGURED);
    case_put(&c, &m, &stamp);
    case_forget(&c);
    m.cluster = STR("b");
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("record", core_list_machine(c.core, &m, pairs, 2, c.now, &c.out));
    core_list_end(c.core, true, c.now, &c.out);
    CHECK_STR("bound to b", case_get(&c, "m1").cluster, STR("b"));
    CHECK_STR("for another", case_get(&c, "m1").stamp.fingerprint, STR("other"));
    CHECK_I64("with its priority", case_get(&c, "m1").stamp.priority, 3);
    CHECK("and nothing of the old", case_get(&c, "m1").stamp.interruption_dollars == 0);
    CHECK_U64("not by us", core_counts(c.core)->foreign_edges, 1);
    CHECK_SIZE("both operators hear of it", case_count(&c, EFFECT_NODE_STATE), 2);
    CHECK_STR("a, that it left", case_effect(&c, EFFECT_NODE_STATE, 0)->cluster, STR("a"));
    CHECK_STR("b hears of it", case_effect(&c, EFFECT_NODE_STATE, 1)->cluster, STR("b"));
    case_close(&c);
}

TEST(metadata_of_a_known_binding_is_not_looked_at)
{
    struct label pairs[] = {{STR("bigfleet.lucy.sh/assigned-need-fingerprint"), STR("older")}};
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    m = case_machine(&c, "m1", MACHINE_CONFIGURED);
    case_put(&c, &m, &stamp);
    m.price_per_hour = 2;
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("record", core_list_machine(c.core, &m, pairs, 1, c.now, &c.out));
    core_list_end(c.core, true, c.now, &c.out);
    CHECK_STR("what we know stays", case_get(&c, "m1").stamp.fingerprint, STR("fp"));
    case_close(&c);
}

TEST(a_provider_that_shows_the_cluster_late_takes_nothing_back)
{
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    m = case_machine(&c, "m1", MACHINE_CONFIGURING);
    case_put(&c, &m, &stamp);
    m.cluster = STR_EMPTY;
    m.price_per_hour = 3;
    list_one(&c, LIST_FULL, &m);
    CHECK_STR("still for a", case_get(&c, "m1").cluster, STR("a"));
    CHECK_STR("still for fp", case_get(&c, "m1").stamp.fingerprint, STR("fp"));
    CHECK("and the new price", case_get(&c, "m1").price_per_hour == 3);
    case_close(&c);
}

TEST(an_idle_machine_has_no_cluster_whatever_is_said)
{
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    m = case_machine(&c, "m1", MACHINE_IDLE);
    m.cluster = STR("a");
    list_one(&c, LIST_FULL, &m);
    CHECK_STR("none", case_get(&c, "m1").cluster, STR_EMPTY);
    CHECK_SIZE("nobody hears of it", case_count(&c, EFFECT_NODE_STATE), 0);
    list_one(&c, LIST_FULL, &m);
    CHECK_STR("none", case_get(&c, "m1").cluster, STR_EMPTY);
    case_close(&c);
}

/* --- known machines: what is refreshed --- */

static void price(struct machine *m)
{
    m->price_per_hour = 2;
}
static void probability(struct machine *m)
{
    m->interruption_probability = 0.5;
}
static void zone(struct machine *m)
{
    m->attributes.zone = STR("z2");
}
static void labels(struct machine *m)
{
    static const struct label rack = {{"rack", 4}, {"r1", 2}};
    m->attributes.labels = &rack;
    m->attributes.label_count = 1;
}
static void allocatable(struct machine *m)
{
    m->allocatable = m->resources;
    m->allocatable.milli[0] = 3000;
}
static const struct {
    const char *why;
    void (*change)(struct machine *m);
    size_t reported;
} refreshes[] = {
    {"price", price, 0},   {"probability", probability, 0}, {"zone", zone, 1},
    {"labels", labels, 1}, {"allocatable", allocatable, 1},
};
TEST(a_machine_in_the_same_state_is_refreshed)
{
    for (size_t i = 0; i < ARRAY_LEN(refreshes); i++) {
        struct core_case c;
        struct machine m, got;

        case_open(&c, NULL);
        case_session(&c, "a", true);
        m = case_machine(&c, "m1", MACHINE_CONFIGURED);
        case_put(&c, &m, &stamp);
        case_forget(&c);
        refreshes[i].change(&m);
        list_one(&c, LIST_FULL, &m);
        got = case_get(&c, "m1");
        CHECK(refreshes[i].why, got.price_per_hour == m.price_per_hour);
        CHECK(refreshes[i].why, got.interruption_probability == m.interruption_probability);
        CHECK_STR(refreshes[i].why, got.attributes.zone, m.attributes.zone);
        CHECK_SIZE(refreshes[i].why, got.attributes.label_count, m.attributes.label_count);
        CHECK_I64(refreshes[i].why, got.allocatable.milli[0], m.allocatable.milli[0]);
        CHECK_STR("what is ours stays", got.stamp.fingerprint, STR("fp"));
        CHECK_SIZE("reported when it shows", case_count(&c, EFFECT_NODE_STATE),
                   refreshes[i].reported);
        CHECK_U64("no surprise", core_counts(c.core)->observed_edges, 0);
        case_forget(&c);
        list_one(&c, LIST_FULL, &m);
        CHECK_SIZE("once", c.out.count, 0);
        case_close(&c);
    }
}

TEST(configuring_that_is_listed_configured_is_one_update) /* wire.md S1 */
{
    struct core_case c;
    struct machine m;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    m = case_machine(&c, "m1", MACHINE_CONFIGURING);
    case_put(&c, &m, &stamp);
    case_forget(&c);
    m = case_machine(&c, "m1", MACHINE_CONFIGURED);
    list_one(&c, LIST_FULL, &m);
    list_one(&c, LIST_FULL, &m);
    CHECK_SIZE("one", case_count(&c, EFFECT_NODE_STATE), 1);
    CHECK_U32("Configured", case_effect(&c, EFFECT_NODE_STATE, 0)->node->state, MACHINE_CONFIGURED);
    case_close(&c);
}

/* --- refused records --- */

static void no_number(struct machine *m)
{
    m->price_per_hour = (double)NAN;
}
static void below_zero(struct machine *m)
{
    m->price_per_hour = -1;
}
static void too_probable(struct machine *m)
{
    m->interruption_probability = 2;
}
static void no_host(struct machine *m)
{
    m->host_provider = m->host_ref = STR_EMPTY;
}
static void no_state(struct machine *m)
{
    m->state = (enum machine_state)77;
}
static void no_type(struct machine *m)
{
    m->capacity_type = (enum capacity_type)77;
}
static const struct {
    const char *why;
    void (*spoil)(struct machine *m);
    enum machine_fault fault;
} faults[] = {
    {"no number", no_number, MACHINE_FAULT_PRICE},
    {"below zero", below_zero, MACHINE_FAULT_PRICE},
    {"probability 2", too_probable, MACHINE_FAULT_PROBABILITY},
    {"Idle without a host", no_host, MACHINE_FAULT_STRUCTURAL},
    {"unknown state", no_state, MACHINE_FAULT_STRUCTURAL},
    {"unknown capacity type", no_type, MACHINE_FAULT_STRUCTURAL},
};
TEST(a_bad_record_is_refused_counted_and_said_and_the_old_one_stays)
{
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct machine old, m[2];
        struct core_case c;

        case_open(&c, NULL);
        old = case_machine(&c, "known", MACHINE_IDLE);
        list_one(&c, LIST_FULL, &old);
        m[0] = case_machine(&c, "known", MACHINE_IDLE);
        m[1] = case_machine(&c, "new", MACHINE_IDLE);
        faults[i].spoil(&m[0]);
        faults[i].spoil(&m[1]);
        case_list(&c, LIST_FULL, m, 2, true);
        CHECK_U64(faults[i].why, core_counts(c.core)->machines_rejected[faults[i].fault], 2);
        CHECK("said", case_said(&c, "provider machine rejected at ingest"));
        CHECK("a refused record is no removal", case_has(&c, "known"));
        CHECK("as it was", case_get(&c, "known").price_per_hour == 1);
        CHECK("not taken", !case_has(&c, "new"));
        case_close(&c);
    }
}

TEST(garbage_is_logged_a_few_times_and_counted_for_ever)
{
    struct core_case c;

    case_open(&c, NULL);
    core_list_begin(c.core, LIST_FULL);
    for (int i = 0; i < 1000; i++) {
        char id[16];
        snprintf(id, sizeof id, "m%d", i);
        core_list_refused(c.core, str_from(id), "no machine", &c.out);
    }
    core_list_end(c.core, true, c.now, &c.out);
    CHECK_U64("counted", core_counts(c.core)->machines_rejected[MACHINE_FAULT_STRUCTURAL], 1000);
    CHECK_SIZE("twenty, and how many", case_count(&c, EFFECT_LOG), 21);
    CHECK("how many", case_said(&c, "provider machines rejected at ingest"));
    case_close(&c);
}

TEST(a_record_that_cannot_be_read_is_there_all_the_same)
{
    struct machine m[3];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = case_machine(&c, "m0", MACHINE_IDLE);
    m[1] = case_machine(&c, "m1", MACHINE_IDLE);
    m[2] = case_machine(&c, "m2", MACHINE_IDLE);
    case_list(&c, LIST_FULL, m, 3, true);
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("m0", core_list_machine(c.core, &m[0], NULL, 0, c.now, &c.out));
    core_list_refused(c.core, STR("m1"), "garbled", &c.out);
    core_list_end(c.core, true, c.now, &c.out);
    CHECK("named", case_has(&c, "m1"));
    CHECK("not named", !case_has(&c, "m2"));
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("m0", core_list_machine(c.core, &m[0], NULL, 0, c.now, &c.out));
    core_list_refused(c.core, STR_EMPTY, "no id", &c.out);
    core_list_end(c.core, true, c.now, &c.out);
    CHECK("it may have been this one", case_has(&c, "m1"));
    case_close(&c);
}

TEST(of_two_records_with_one_id_the_first_counts)
{
    struct machine m[3];
    struct core_case c;

    case_open(&c, NULL);
    m[0] = case_machine(&c, "m", MACHINE_IDLE);
    m[1] = case_machine(&c, "m", MACHINE_IDLE);
    m[1].price_per_hour = 2;
    m[2] = case_machine(&c, "m", MACHINE_FAILED);
    case_list(&c, LIST_FULL, m, 3, true);
    CHECK("the first", case_get(&c, "m").price_per_hour == 1);
    CHECK_U32("the first", case_get(&c, "m").state, MACHINE_IDLE);
    CHECK_U64("counted", core_counts(c.core)->duplicate_records, 2);
    CHECK_U64("refused", core_counts(c.core)->machines_rejected[MACHINE_FAULT_STRUCTURAL], 2);
    case_list(&c, LIST_FULL, &m[1], 1, true);
    CHECK("each List anew", case_get(&c, "m").price_per_hour == 2);
    case_close(&c);
}

/* --- what goes --- */

struct fleet_list {
    struct machine machines[100];
    char ids[100][24];
};

static void fleet_make(struct core_case *c, struct fleet_list *f, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        snprintf(f->ids[i], sizeof f->ids[i], "m%02zu", i);
        f->machines[i] = case_machine(c, f->ids[i], MACHINE_IDLE);
    }
}

static uint32_t machines(struct core_case *c)
{
    return inventory_counts(c->core->inventory).machines;
}

static const struct {
    const char *why;
    double fraction;
    size_t before, listed;
    bool held;
} removals[] = {
    {"one of a hundred", 0, 100, 99, false},
    {"a tenth is not more than a tenth", 0, 100, 90, false},
    {"more than a tenth", 0, 100, 89, true},
    {"nine are few in any fleet", 0, 18, 9, false},
    {"ten of twenty", 0, 20, 10, true},
    {"half is allowed here", 0.5, 20, 10, false},
    {"an empty List", 0, 100, 0, true},
    {"an empty List over a small fleet", 0, 3, 0, true},
};
TEST(what_a_full_list_leaves_out_goes_unless_it_is_suspiciously_much)
{
    for (size_t i = 0; i < ARRAY_LEN(removals); i++) {
        struct core_options options = {
            .machines_max = 100, .seed = 1, .removal_fraction = removals[i].fraction};
        size_t before = removals[i].before, listed = removals[i].listed;
        static struct fleet_list f;
        struct core_case c;

        case_open(&c, &options);
        fleet_make(&c, &f, before);
        case_list(&c, LIST_FULL, f.machines, before, true);
        CHECK_SIZE("all", machines(&c), before);
        for (int said = 1; said <= 3; said++) {
            bool held = removals[i].held && said < 3;
            case_forget(&c);
            case_list(&c, LIST_FULL, f.machines, listed, true);
            CHECK_SIZE(removals[i].why, machines(&c), held ? before : listed);
            CHECK_U64(removals[i].why, core_counts(c.core)->lists_held,
                      removals[i].held ? (said < 3 ? said : 2) : 0);
            CHECK(removals[i].why,
                  case_said(&c, "provider List held back: too many machines are missing from it") ==
                      held);
            CHECK("a delta could not confirm it, nor report a fleet that was never listed",
                  core_wants_full_list(c.core) == (held || !listed));
        }
        case_close(&c);
    }
}

TEST(three_lists_in_a_row_must_agree)
{
    static struct fleet_list f;
    struct core_case c;

    case_open(&c, NULL);
    fleet_make(&c, &f, 100);
    case_list(&c, LIST_FULL, f.machines, 100, true);
    case_list(&c, LIST_FULL, f.machines, 50, true);
    case_list(&c, LIST_FULL, f.machines, 50, true);
    case_list(&c, LIST_FULL, f.machines, 100, true); /* it is well again */
    case_list(&c, LIST_FULL, f.machines, 50, true);
    case_list(&c, LIST_FULL, f.machines, 50, false); /* says nothing */
    case_list(&c, LIST_FULL, f.machines + 40, 60, true);
    CHECK_SIZE("twice since then", machines(&c), 100);
    case_list(&c, LIST_FULL, f.machines, 30, true);
    CHECK_SIZE("only what none of the three named", machines(&c), 100);
    for (int i = 0; i < 3; i++) case_list(&c, LIST_FULL, f.machines, 50, true);
    CHECK_SIZE("all three say so", machines(&c), 50);
    CHECK("those", case_has(&c, "m49") && !case_has(&c, "m50"));
    case_close(&c);
}

TEST(what_only_the_last_of_three_held_lists_leaves_out_is_asked_for_again)
{
    static struct fleet_list f;
    struct core_case c;

    case_open(&c, NULL);
    fleet_make(&c, &f, 100);
    case_list(&c, LIST_FULL, f.machines, 100, true);
    for (int i = 0; i < 2; i++) case_list(&c, LIST_FULL, f.machines, 50, true);
    case_list(&c, LIST_FULL, f.machines, 49, true); /* m49 goes after the second */
    CHECK_SIZE("what all three left out", machines(&c), 50);
    CHECK("m49 is known", case_has(&c, "m49"));
    CHECK("no delta would leave m49 out", core_wants_full_list(c.core));
    case_list(&c, LIST_FULL, f.machines, 49, true);
    CHECK("m49 is gone", !case_has(&c, "m49"));
    CHECK("a delta is enough", !core_wants_full_list(c.core));
    case_close(&c);
}

TEST(a_cut_list_that_names_what_held_lists_left_out_contradicts_them)
{
    static struct fleet_list f;
    struct core_case c;

    case_open(&c, NULL);
    fleet_make(&c, &f, 100);
    case_list(&c, LIST_FULL, f.machines, 100, true);
    case_list(&c, LIST_FULL, f.machines, 0, true);
    case_list(&c, LIST_FULL, f.machines, 20, false);
    case_list(&c, LIST_FULL, f.machines, 0, true);
    case_list(&c, LIST_FULL, f.machines, 20, false);
    case_list(&c, LIST_FULL, f.machines, 0, true);
    CHECK_SIZE("the empty Lists were wrong", machines(&c), 100);
    case_list(&c, LIST_FULL, f.machines, 0, false); /* names nothing, and says nothing */
    case_list(&c, LIST_FULL, f.machines, 0, true);
    CHECK_SIZE("two agree", machines(&c), 100);
    case_list(&c, LIST_FULL, f.machines, 0, true);
    CHECK_SIZE("three agree", machines(&c), 0);
    case_close(&c);
}

TEST(a_list_that_was_cut_removes_nothing)
{
    static struct fleet_list f;
    struct core_case c;

    case_open(&c, NULL);
    fleet_make(&c, &f, 3);
    case_list(&c, LIST_FULL, f.machines, 3, false);
    CHECK("and makes nobody ready", !core_listed(c.core));
    case_list(&c, LIST_FULL, f.machines, 2, false);
    CHECK_SIZE("all there", machines(&c), 3);
    case_list(&c, LIST_FULL, f.machines, 2, true);
    CHECK_SIZE("whole", machines(&c), 2);
    CHECK("ready", core_listed(c.core));
    case_list(&c, LIST_FULL, f.machines, 2, false);
    CHECK("for good", core_listed(c.core));
    case_close(&c);
}

TEST(a_delta_removes_what_it_buries_and_nothing_else)
{
    static struct fleet_list f;
    struct core_case c;

    case_open(&c, NULL);
    fleet_make(&c, &f, 30);
    case_list(&c, LIST_FULL, f.machines, 30, true);
    case_list(&c, LIST_DELTA, f.machines, 1, true);
    CHECK_SIZE("silence is no removal", machines(&c), 30);
    core_list_begin(c.core, LIST_DELTA);
    for (int i = 0; i < 20; i++) core_list_gone(c.core, str_from(f.ids[i]), c.now, &c.out);
    core_list_gone(c.core, STR("nobody"), c.now, &c.out);
    core_list_end(c.core, true, c.now, &c.out);
    CHECK_SIZE("buried by name, so however many", machines(&c), 10);
    CHECK("a delta is enough", !core_wants_full_list(c.core));
    case_close(&c);
}

TEST(an_operator_hears_that_its_machine_is_gone)
{
    struct machine m[2];
    struct core_case c;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    m[0] = case_machine(&c, "m0", MACHINE_CONFIGURED);
    m[1] = case_machine(&c, "m1", MACHINE_CONFIGURED);
    case_put(&c, &m[0], &stamp);
    case_put(&c, &m[1], &stamp);
    case_forget(&c);
    case_list(&c, LIST_FULL, m, 1, true);
    CHECK_SIZE("one", case_count(&c, EFFECT_NODE_STATE), 1);
    CHECK_U32("failed", case_effect(&c, EFFECT_NODE_STATE, 0)->node->state, MACHINE_FAILED);
    CHECK_STR("this one", case_effect(&c, EFFECT_NODE_STATE, 0)->machine, STR("m1"));
    CHECK("why", case_effect(&c, EFFECT_NODE_STATE, 0)->node->last_error.len > 0);
    CHECK_STR("to its operator", case_effect(&c, EFFECT_NODE_STATE, 0)->cluster, STR("a"));
    CHECK("it left", !case_effect(&c, EFFECT_NODE_STATE, 0)->node->cluster.len);
    case_close(&c);
}

/* The machine that serves is in the part that did not come. */
TEST(before_the_first_whole_list_nothing_is_bought)
{
    struct machine m[2];
    struct core_case c;
    struct need row;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    row = case_need(&c, "a", 1, 4, "");
    m[0] = case_machine(&c, "spare", MACHINE_SPECULATIVE);
    m[1] = case_machine(&c, "node", MACHINE_CONFIGURED);
    (void)case_rollup(&c, "a", &row, 1);
    case_list(&c, LIST_FULL, m, 1, false);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("not bought", case_count(&c, EFFECT_CREATE), 0);
    case_list(&c, LIST_FULL, NULL, 0, true);
    CHECK("an empty one is held, and none to begin with", !core_listed(c.core));
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("not bought", case_count(&c, EFFECT_CREATE), 0);
    CHECK_U32("nothing is lacking either", core_counts(c.core)->shortfalls, 0);
    case_list(&c, LIST_FULL, m, 2, true);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("served", case_count(&c, EFFECT_CREATE), 0);
    case_list(&c, LIST_FULL, m, 1, true);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("gone: bought", case_count(&c, EFFECT_CREATE), 1);
    case_close(&c);
}

/* A provider that is not up yet says that it has nothing. */
TEST(an_empty_first_list_is_no_ground_to_stand_on)
{
    struct machine m[2];
    struct core_case c;
    struct need row;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    row = case_need(&c, "a", 1, 4, "");
    m[0] = case_machine(&c, "spare", MACHINE_SPECULATIVE);
    m[1] = case_machine(&c, "node", MACHINE_CONFIGURED);
    (void)case_rollup(&c, "a", &row, 1);
    case_list(&c, LIST_FULL, NULL, 0, true);
    CHECK("ready", core_listed(c.core));
    CHECK("what changed since then would not be all", core_wants_full_list(c.core));
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_U32("it is said what is lacking", core_counts(c.core)->shortfalls, 1);
    core_list_begin(c.core, LIST_FULL);
    CHECK_OK("a part", core_list_machine(c.core, &m[0], NULL, 0, c.now, &c.out));
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("not bought", case_count(&c, EFFECT_CREATE), 0);
    core_list_end(c.core, false, c.now, &c.out);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("nor when the rest never came", case_count(&c, EFFECT_CREATE), 0);
    case_list(&c, LIST_FULL, m, 2, true);
    CHECK("all of it", !core_wants_full_list(c.core));
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("served", case_count(&c, EFFECT_CREATE), 0);
    case_close(&c);
}

/* A delta says it once, and that was garbled. */
TEST(what_was_refused_is_listed_again_and_ever_more_rarely)
{
    static const unsigned deltas[] = {0, 1, 3, 7, 15, 31, 63, 63};
    struct machine good, bad;
    struct core_case c;

    case_open(&c, NULL);
    good = case_machine(&c, "m", MACHINE_IDLE);
    bad = good;
    bad.price_per_hour = -1;
    case_list(&c, LIST_FULL, &good, 1, true);
    CHECK("sound", !core_wants_full_list(c.core));
    case_list(&c, LIST_DELTA, &bad, 1, true);
    for (size_t i = 0; i < ARRAY_LEN(deltas); i++) {
        CHECK("the next one is full", core_wants_full_list(c.core));
        case_list(&c, LIST_FULL, &bad, 1, true);
        for (unsigned n = 0; n < deltas[i]; n++) {
            CHECK("not yet", !core_wants_full_list(c.core));
            case_list(&c, LIST_DELTA, NULL, 0, true);
        }
    }
    CHECK("still", core_wants_full_list(c.core));
    case_list(&c, LIST_FULL, &good, 1, true);
    CHECK("sound again", !core_wants_full_list(c.core));
    case_list(&c, LIST_DELTA, &bad, 1, true);
    CHECK("and forgotten", core_wants_full_list(c.core));
    case_close(&c);
}

/* --- machines with an action of ours --- */

/* "m" is Idle, wanted by a, and its Bootstrap is under way. */
static void begin(struct core_case *c, struct machine *ret_idle)
{
    struct need row = case_need(c, "a", 1, 1, "");

    *ret_idle = case_machine(c, "m", MACHINE_IDLE);
    case_session(c, "a", true);
    case_list(c, LIST_FULL, ret_idle, 1, true);
    (void)case_rollup(c, "a", &row, 1);
    CHECK_OK("cycle", core_cycle(c->core, c->now, (wall_time){1}, NULL, NULL, &c->out));
    CHECK_SIZE("a blob is asked for", case_count(c, EFFECT_ASK_BLOB), 1);
    CHECK("pending", core_is_pending(c->core, STR("m")));
    CHECK_U32("Configuring", case_get(c, "m").state, MACHINE_CONFIGURING);
}

TEST(a_list_that_lags_behind_an_action_takes_nothing_back)
{
    struct machine m, other;
    struct core_case c;

    case_open(&c, NULL);
    begin(&c, &m);
    case_list(&c, LIST_FULL, &m, 1, true);
    CHECK_U32("still Configuring", case_get(&c, "m").state, MACHINE_CONFIGURING);
    CHECK_STR("for a", case_get(&c, "m").cluster, STR("a"));
    CHECK_U64("no surprise", core_counts(c.core)->observed_edges, 0);
    m.price_per_hour = -1;
    case_list(&c, LIST_FULL, &m, 1, true);
    CHECK_U64("not even looked at", core_counts(c.core)->machines_rejected[MACHINE_FAULT_PRICE], 0);
    other = case_machine(&c, "other", MACHINE_IDLE);
    case_list(&c, LIST_FULL, &other, 1, true);
    CHECK("not listed, but pending: it stays", case_has(&c, "m")); /* Q17 */
    case_close(&c);
}

TEST(a_tombstone_of_a_pending_machine_is_asked_for_again)
{
    struct machine m;
    struct core_case c;

    case_open(&c, NULL);
    begin(&c, &m);
    core_list_begin(c.core, LIST_DELTA);
    core_list_gone(c.core, STR("m"), c.now, &c.out);
    core_list_end(c.core, true, c.now, &c.out);
    CHECK("it stays", case_has(&c, "m"));
    CHECK("and a full List will say it again", core_wants_full_list(c.core));
    core_list_begin(c.core, LIST_FULL);
    CHECK("which it does now", !core_wants_full_list(c.core));
    core_list_end(c.core, false, c.now, &c.out);
    case_close(&c);
}

TEST(what_was_refused_is_not_available_again_before_its_rest_is_over)
{
    struct machine m, failed;
    struct core_case c;

    case_open(&c, NULL);
    begin(&c, &m);
    core_blob(c.core, case_effect(&c, EFFECT_ASK_BLOB, 0)->action, BLOB_READY, STR_EMPTY, c.now,
              (wall_time){1}, &c.out);
    core_answered(c.core, case_effect(&c, EFFECT_CONFIGURE, 0)->action,
                  &(struct call_answer){.end = CALL_REFUSED, .text = STR("no")}, c.now,
                  (wall_time){1}, &c.out);
    CHECK_U32("refused", case_get(&c, "m").state, MACHINE_FAILED);
    case_list(&c, LIST_FULL, &m, 1, true);
    CHECK_U32("the provider says Idle, and it rests", case_get(&c, "m").state, MACHINE_FAILED);
    failed = case_machine(&c, "m", MACHINE_FAILED);
    case_list(&c, LIST_FULL, &failed, 1, true);
    CHECK_STR("the provider's own word for it", case_get(&c, "m").last_error, STR("broken"));
    c.now.ms += 2 * 3600 * 1000;
    case_list(&c, LIST_FULL, &m, 1, true);
    CHECK_U32("its time has come", case_get(&c, "m").state, MACHINE_IDLE);
    case_close(&c);
}

TEST(a_node_that_is_lost_while_it_serves_is_bought_again)
{
    struct machine_stamp own = {0};
    struct machine m[2];
    struct core_case c;
    struct need row;

    case_open(&c, NULL);
    case_session(&c, "a", true);
    row = case_need(&c, "a", 1, 4, "");
    own.fingerprint = row.profile.fingerprint;
    m[0] = case_machine(&c, "node", MACHINE_CONFIGURED);
    m[1] = case_machine(&c, "spare", MACHINE_SPECULATIVE);
    case_put(&c, &m[0], &own);
    case_list(&c, LIST_FULL, m, 2, true);
    (void)case_rollup(&c, "a", &row, 1);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("served", case_count(&c, EFFECT_CREATE), 0);
    m[0] = case_machine(&c, "node", MACHINE_FAILED);
    case_list(&c, LIST_FULL, m, 2, true);
    CHECK_OK("cycle", core_cycle(c.core, c.now, (wall_time){1}, NULL, NULL, &c.out));
    CHECK_SIZE("bought at once", case_count(&c, EFFECT_CREATE), 1);
    case_close(&c);
}
