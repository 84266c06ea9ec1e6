/* SPDX-License-Identifier: Apache-2.0 */
/* cordon.c: machines that an operator of the shard took out of use. */
#include <stdio.h>

#include "fleet.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

static const struct cordon_rule keep_m0[] = {{.value = {"m-000", 5}, .cordon = CORDON_KEEP}};
static const struct cordon_rule empty_m0[] = {{.value = {"m-000", 5}, .cordon = CORDON_EMPTY}};

static void open_fleet(struct fleet *f, const struct core_options *options)
{
    fleet_open(f, options, 64);
    fleet_session(f, "a", true);
}

static void empties(struct fleet *f)
{
    CHECK_U32("empty", fleet_state(f, "m-000"), MACHINE_IDLE);
    CHECK_U32("another serves", fleet_state(f, "m-001"), MACHINE_CONFIGURED);
    fleet_check(f);
}

TEST(a_cordoned_machine_is_not_taken_until_it_is_uncordoned)
{
    struct fleet f;

    open_fleet(&f, NULL);
    fleet_add(&f, "m", 1, MACHINE_IDLE, NULL);
    fleet_cordon(&f, keep_m0, 1);
    fleet_list(&f);
    CHECK_U32("also one that came later", fleet_record(&f, "m-000").cordon, CORDON_KEEP);
    fleet_demand(&f, "a", 1000, 1);
    fleet_cycles(&f, 100);
    CHECK_U32("kept: neither used nor given back", fleet_state(&f, "m-000"), MACHINE_IDLE);
    CHECK_U32("counted", inventory_counts(f.core->inventory).cordoned[CORDON_KEEP], 1);
    fleet_cordon(&f, NULL, 0);
    CHECK("at once", f.soon);
    fleet_cycles(&f, 3);
    CHECK_U32("used", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_queued_action_of_a_machine_that_is_cordoned_does_not_begin)
{
    struct core_options options = {.concurrency = 1};
    struct fleet f;

    open_fleet(&f, &options);
    f.latency_ms[EFFECT_CREATE] = 5000;
    fleet_add(&f, "l", 1, MACHINE_SPECULATIVE, NULL);
    fleet_add(&f, "m", 1, MACHINE_SPECULATIVE, NULL);
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 2);
    fleet_decide(&f);
    CHECK_U64("one runs", f.seen[EFFECT_CREATE], 1);
    CHECK_U32("one waits", core_counts(f.core)->queued, 1);
    fleet_cordon(&f, keep_m0, 1);
    fleet_run(&f, 20 * 1000);
    CHECK_U64("the other is not begun", f.seen[EFFECT_CREATE], 1);
    CHECK_U32("nothing is bought", fleet_state(&f, "m-000"), MACHINE_SPECULATIVE);
    CHECK_HAS("said", f.logs, "the machine was cordoned");
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_cordoned_machine_serves_on)
{
    struct fleet f;

    open_fleet(&f, NULL);
    fleet_add(&f, "m", 2, MACHINE_IDLE, NULL);
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 1);
    fleet_cycles(&f, 3);
    CHECK_U32("serves", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_cordon(&f, keep_m0, 1);
    fleet_cycles(&f, 3);
    CHECK_U32("serves on", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK_U32("no other is needed", fleet_state(&f, "m-001"), MACHINE_IDLE);
    fleet_session(&f, "b", true);
    fleet_demand(&f, "b", 2000, 2);
    fleet_cycles(&f, 3);
    CHECK_U32("nobody takes it", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    fleet_cycles(&f, 3);
    CHECK_U32("given up as any other", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_machine_that_is_emptied_is_replaced_and_its_operator_goes_first)
{
    struct fleet f;

    fleet_open(&f, NULL, 64);
    f.reports_drains = true;
    fleet_session(&f, "a", true);
    fleet_add(&f, "m", 2, MACHINE_IDLE, NULL);
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 1);
    fleet_cycles(&f, 3);
    fleet_cordon(&f, empty_m0, 1);
    fleet_decide(&f);
    CHECK_U64("the operator is told", f.seen[EFFECT_RECLAIM], 1);
    CHECK_U64("grace", f.last[EFFECT_RECLAIM].drain.grace_ms, RECLAIM_GRACE_MS);
    CHECK_U64("the provider waits", f.seen[EFFECT_DRAIN], 0);
    CHECK_U32("another comes", core_counts(f.core)->actions[ACTION_BOOTSTRAP], 2);
    fleet_cordon(&f, NULL, 0);
    CHECK_U32("too late to take back", fleet_state(&f, "m-000"), MACHINE_DRAINING);
    fleet_cordon(&f, empty_m0, 1);
    fleet_drained(&f, fleet_machine(&f, "m-000"));
    fleet_cycles(&f, 3);
    CHECK_U64("drained", f.seen[EFFECT_DRAIN], 1);
    empties(&f);
    fleet_cycles(&f, 100);
    CHECK_U32("and kept", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_close(&f);
}

TEST(a_machine_that_must_be_emptied_is_not_configured_first)
{
    struct fleet f;

    open_fleet(&f, NULL);
    f.latency_ms[EFFECT_ASK_BLOB] = 5000;
    fleet_add(&f, "m", 2, MACHINE_IDLE, NULL);
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 1);
    fleet_decide(&f);
    CHECK_U32("waits for its blob", fleet_state(&f, "m-000"), MACHINE_CONFIGURING);
    fleet_cordon(&f, empty_m0, 1);
    fleet_decide(&f);
    fleet_run(&f, 20 * 1000);
    CHECK_U64("only the other", f.seen[EFFECT_CONFIGURE], 1);
    CHECK_U64("nothing to drain", f.seen[EFFECT_DRAIN], 0);
    empties(&f);
    fleet_close(&f);
}

TEST(an_order_that_is_taken_back_before_the_drain_begins_has_no_effect)
{
    struct core_options options = {.concurrency = 1};
    struct fleet f;

    open_fleet(&f, &options);
    fleet_add(&f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_add(&f, "s", 1, MACHINE_SPECULATIVE, NULL);
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 2);
    f.latency_ms[EFFECT_CREATE] = 5000;
    fleet_decide(&f); /* its Create holds the only place */
    fleet_cordon(&f, empty_m0, 1);
    fleet_decide(&f);
    CHECK_U32("it waits", core_counts(f.core)->queued, 1);
    fleet_cordon(&f, NULL, 0);
    fleet_run(&f, 30 * 1000);
    CHECK_U64("nothing was drained", f.seen[EFFECT_RECLAIM] + f.seen[EFFECT_DRAIN], 0);
    CHECK_U32("serves", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK_HAS("said", f.logs, "the order to empty the machine was taken back");
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_refused_drain_is_ordered_again)
{
    struct fleet f;

    open_fleet(&f, NULL);
    fleet_add(&f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 1);
    f.fate[EFFECT_DRAIN] = FATE_REFUSED;
    fleet_cordon(&f, empty_m0, 1);
    fleet_cycles(&f, 2);
    CHECK_U64("tried", f.seen[EFFECT_DRAIN], 1);
    f.fate[EFFECT_DRAIN] = FATE_DONE;
    fleet_cycles(&f, 30);
    CHECK_U32("in the end", fleet_state(&f, "m-000"), MACHINE_IDLE);
    CHECK_HAS("reason", f.audit, "reclaim m-000 a success maintenance 600000");
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_restarted_shard_knows_its_cordons_before_it_decides)
{
    struct fleet f;

    open_fleet(&f, NULL);
    fleet_add(&f, "m", 2, MACHINE_IDLE, NULL);
    fleet_list(&f);
    fleet_cordon(&f, keep_m0, 1);
    fleet_restart(&f);
    fleet_session(&f, "a", true);
    fleet_demand(&f, "a", 1000, 2);
    fleet_cycles(&f, 10);
    CHECK_U32("cordoned", fleet_state(&f, "m-000"), MACHINE_IDLE);
    CHECK_U32("the other", fleet_state(&f, "m-001"), MACHINE_CONFIGURED);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(the_reclaim_cap_bounds_drains_of_a_cycle)
{
    static const struct cordon_rule all[] = {{.key = {"node.kubernetes.io/instance-type", 32},
                                              .value = {"t", 1},
                                              .cordon = CORDON_EMPTY}};
    struct core_options options = {.rails.reclaim_fraction = 0.2};
    struct cordon_rule rule = all[0];
    struct machine record;
    uint32_t machines = 0;
    struct fleet f;

    open_fleet(&f, &options);
    fleet_add(&f, "m", 10, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 10);
    record = fleet_record(&f, "m-000");
    rule.value = record.attributes.instance_type;
    CHECK_OK("counted", core_cordon_count(f.core, rule.key, rule.value, &machines));
    CHECK_U32("all", machines, 10);
    CHECK("none", core_cordon_count(f.core, rule.key, STR("no such"), &machines) == ERR_NOT_FOUND);
    CHECK("nor that", core_cordon_count(f.core, STR_EMPTY, STR("m-x"), &machines) == ERR_NOT_FOUND);
    fleet_cordon(&f, &rule, 1);
    fleet_decide(&f);
    CHECK_U64("two of ten", core_counts(f.core)->actions[ACTION_RECLAIM], 2);
    fleet_cycles(&f, 30);
    CHECK_SIZE("in the end all", fleet_count(&f, MACHINE_IDLE), 10);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(rules_for_which_memory_ran_out_are_applied_before_the_next_decision)
{
    bool done = false;

    for (uint64_t n = 1; !done && n < 1000; n++) {
        struct effects out;
        struct fleet f;
        enum err err;

        open_fleet(&f, NULL);
        fleet_add(&f, "m", 2, MACHINE_IDLE, NULL);
        fleet_list(&f);
        effects_init(&out);
        fault_alloc_arm(n);
        err = core_cordon(f.core, keep_m0, 1, fleet_now(&f), &out);
        done = !fault_alloc_fired();
        fault_alloc_arm(0);
        effects_deinit(&out);
        CHECK("or not at all", !err || err == ERR_NOMEM);
        fleet_demand(&f, "a", 1000, 2);
        fleet_cycles(&f, 3);
        CHECK_U32("as ordered", fleet_state(&f, "m-000"), err ? MACHINE_CONFIGURED : MACHINE_IDLE);
        CHECK_U32("and shown", fleet_record(&f, "m-000").cordon, err ? CORDON_NONE : CORDON_KEEP);
        fleet_check(&f);
        fleet_close(&f);
    }
    CHECK("every place was met", done);
}

static enum err each_counts(void *context, const struct listed_machine *listed)
{
    (void)listed;
    ++*(int *)context;
    return ERR_OK;
}

TEST(the_list_has_what_its_filter_passes)
{
    static const struct label none = {{"node.kubernetes.io/instance-type", 32}, {"no such", 7}};
    struct machine_filter filters[] = {{0},
                                       {.state = MACHINE_IDLE},
                                       {.cluster = STR("a")},
                                       {.cordoned = true},
                                       {.labels = &none, .label_count = 1}};
    int wanted[] = {5, 2, 3, 1, 0};
    struct fleet f;

    open_fleet(&f, NULL);
    fleet_add(&f, "m", 2, MACHINE_IDLE, NULL);
    fleet_add(&f, "c", 3, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    fleet_cordon(&f, keep_m0, 1);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        int count = 0;
        CHECK_OK("list", core_machines(f.core, &filters[i], fleet_now(&f), each_counts, &count));
        CHECK_I64("machines", count, wanted[i]);
    }
    fleet_close(&f);
}
