/* SPDX-License-Identifier: Apache-2.0 */
/* Capacity pools without stock, and the limit of provider calls at once, in the core. */
#include <stdio.h>
#include <string.h>

#include "fleet.h"
#include "lib/test.h"

/* `cheap` machines in zone z1, where nothing is to be had, and `dear` ones in z2. */
static void two_pools(struct fleet *f, const struct core_options *options, size_t cheap,
                      size_t dear, uint32_t units)
{
    fleet_open(f, options, 512);
    fleet_add(f, "a", cheap, MACHINE_SPECULATIVE, NULL);
    fleet_add(f, "b", dear, MACHINE_SPECULATIVE, NULL);
    for (size_t i = 0; i < f->machine_count; i++) {
        (void)snprintf(f->machines[i].zone, sizeof f->machines[i].zone, i < cheap ? "z1" : "z2");
        f->machines[i].price = i < cheap ? 0.1 : 0.11;
    }
    (void)snprintf(f->no_stock, sizeof f->no_stock, "z1");
    fleet_list(f);
    fleet_session(f, "web", true);
    fleet_demand(f, "web", 1000, units);
}

/* The observed fault: 906 refused Creates in 912 cycles, and nothing bought. */
TEST(the_next_pool_is_used_when_the_cheapest_has_no_stock)
{
    struct fleet f;

    two_pools(&f, NULL, 400, 20, 1);
    fleet_cycles(&f, 2);
    CHECK_U64("one try", f.seen[EFFECT_CREATE], 2);
    CHECK_U64("one purchase", fleet_count(&f, MACHINE_CONFIGURED), 1);
    CHECK_U32("from the next pool", fleet_state(&f, "b-000"), MACHINE_CONFIGURED);
    CHECK_U32("the refused slot is not Failed", fleet_state(&f, "a-000"), MACHINE_SPECULATIVE);
    CHECK("said", strstr(f.logs, "the provider sells no machine of this kind now") != NULL);
    CHECK_U64("counted", core_counts(f.core)->stock_refusals, 1);
    fleet_cycles(&f, 900);
    CHECK_U64("nobody wants more", f.seen[EFFECT_CREATE], 2);
    fleet_close(&f);
}

TEST(a_sold_out_pool_is_tried_by_one_machine_after_growing_pauses)
{
    static const uint64_t pauses[] = {30, 60, 120, 240, 480};
    struct fleet f;
    uint64_t created = 5;

    two_pools(&f, NULL, 100, 0, 5);
    fleet_cycle(&f);
    CHECK_U64("all at first", f.seen[EFFECT_CREATE], created);
    for (size_t i = 0; i < ARRAY_LEN(pauses); i++) {
        uint64_t seconds = 0;
        while (f.seen[EFFECT_CREATE] == created && seconds < 1000) {
            fleet_run(&f, 1000);
            fleet_cycle(&f);
            seconds++;
        }
        CHECK_U64("one probe", f.seen[EFFECT_CREATE], ++created);
        CHECK_U64("after the pause", seconds, pauses[i]);
    }
    f.no_stock[0] = f.logs[0] = 0;
    fleet_cycles(&f, 100);
    CHECK_U64("bought when there is stock", fleet_count(&f, MACHINE_CONFIGURED), 5);
    CHECK("said", strstr(f.logs, "the provider sells machines of this kind again") != NULL);
    CHECK_U32("no pool is sold out", core_counts(f.core)->pools_sold_out, 0);
    fleet_check(&f);
    fleet_close(&f);
}

/* Also in the cycle in which a probe begins, and while it runs. */
TEST(a_need_without_stock_is_a_shortfall_all_the_time)
{
    struct fleet f;

    two_pools(&f, NULL, 50, 0, 2);
    fleet_cycle(&f);
    f.latency_ms[EFFECT_CREATE] = 5000;
    for (int i = 0; i < 300; i++) {
        struct needs_view view;
        fleet_run(&f, 1000);
        fleet_cycle(&f);
        CHECK_U32("a shortfall", core_counts(f.core)->shortfalls, 1);
        CHECK_OK("view", core_inspect(f.core, STR("web"), 0, &f.arena, &view));
        CHECK("not satisfied", !view.needs[0].row->satisfied);
        CHECK_U32("why", view.needs[0].row->shortage->reason, REASON_SOLD_OUT);
        CHECK_STR("where", view.needs[0].row->shortage->sold_out.zone, STR("z1"));
        CHECK_U32("since the first cycle", view.needs[0].unmet_age, (uint32_t)i + 1);
    }
    CHECK("probes began", f.seen[EFFECT_CREATE] > 3);
    fleet_close(&f);
}

TEST(waiting_purchases_of_a_sold_out_pool_are_dropped)
{
    struct core_options options = {.concurrency = 2};
    struct fleet f;

    two_pools(&f, &options, 100, 100, 50);
    f.latency_ms[EFFECT_CREATE] = 1000;
    fleet_cycle(&f);
    CHECK_U64("two begin", f.seen[EFFECT_CREATE], 2);
    fleet_run(&f, 1000);
    CHECK_U32("none waits", core_counts(f.core)->queued, 0);
    CHECK("a cycle is wanted", f.soon);
    for (int i = 0; i < 100; i++) fleet_run(&f, 1000), fleet_cycle(&f);
    CHECK_U64("all from the other pool", fleet_count(&f, MACHINE_CONFIGURED), 50);
    fleet_check(&f);
    fleet_close(&f);
}

/* Somebody took what was left of the pool: older answers change nothing. */
TEST(a_pool_that_sells_out_in_a_burst_pauses_once)
{
    struct fleet f;

    two_pools(&f, NULL, 30, 30, 30);
    f.no_stock[0] = 0;
    f.latency_ms[EFFECT_CREATE] = 2000;
    fleet_cycle(&f);
    (void)snprintf(f.no_stock, sizeof f.no_stock, "z1");
    fleet_run(&f, 3000);
    CHECK_U64("refused", core_counts(f.core)->stock_refusals, 30);
    CHECK_U32("one pool", core_counts(f.core)->pools_sold_out, 0); /* of the last cycle */
    fleet_cycles(&f, 3);
    CHECK_U64("from the other pool", fleet_count(&f, MACHINE_CONFIGURED), 30);
    CHECK_U64("no machine twice", f.seen[EFFECT_CREATE], 60);
    fleet_close(&f);
}

/* A provider that refuses everything for another reason: its slots rest one by one, and from the
 * third refusal on the pool does, so that the next one is used and the Need is a shortfall. */
TEST(a_pool_whose_creates_fail_for_another_reason_is_passed_over_too)
{
    struct fleet f;

    two_pools(&f, NULL, 400, 0, 1);
    f.no_stock[0] = 0;
    f.fate[EFFECT_CREATE] = FATE_REFUSED;
    for (int i = 0; i < 20; i++) fleet_run(&f, 1000), fleet_cycle(&f);
    CHECK_U64("three tries", f.seen[EFFECT_CREATE], 3);
    CHECK_U64("those rest", fleet_count(&f, MACHINE_FAILED), 3);
    CHECK_U32("a shortfall", core_counts(f.core)->shortfalls, 1);
    fleet_close(&f);
}

TEST(machines_that_were_begun_are_finished_before_others_are_bought)
{
    struct core_options options = {.concurrency = 1, .rails = {.reclaim_fraction = 1}};
    struct fleet f;

    two_pools(&f, &options, 0, 50, 20);
    f.latency_ms[EFFECT_CREATE] = f.latency_ms[EFFECT_CONFIGURE] = 1000;
    fleet_cycle(&f);
    fleet_run(&f, 4000);
    CHECK_U64("created", f.seen[EFFECT_CREATE], 3);
    CHECK_U64("and configured", fleet_count(&f, MACHINE_CONFIGURED), 2);
    fleet_close(&f);
}

/* ---- calls at once ---- */

TEST(a_serial_provider_sees_no_call_past_its_deadline)
{
    struct core_options options = {.concurrency = 4096, .concurrency_first = 8};
    struct fleet f;

    two_pools(&f, &options, 0, 500, 450);
    f.serial_ms = 100;
    for (int i = 0; i < 160; i++) fleet_run(&f, 1000), fleet_cycle(&f);
    CHECK_U64("no call is late", f.late, 0);
    CHECK_U64("all bought", fleet_count(&f, MACHINE_CONFIGURED), 450);
    CHECK_U64("no second call for a machine", f.abuses + f.overtakes, 0);
    CHECK("more than at first", core_counts(f.core)->concurrency > 8);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(throttling_is_told_from_a_lack_of_stock)
{
    static const struct {
        const char *text;
        bool throttles;
    } texts[] = {{"Rate exceeded", true},
                 {"Throttling: slow down", true},
                 {"too many requests", true},
                 {"Request limit exceeded.", true},
                 {"quota of pool m5 in z1 is used up", false},
                 {"InsufficientInstanceCapacity", false},
                 {"", false}};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct call_answer answer = {
            .end = CALL_REFUSED, .exhausted = true, .text = str_from(texts[i].text)};
        CHECK_U32(texts[i].text, answer_is_throttling(&answer), texts[i].throttles);
        answer.exhausted = false;
        CHECK("another code", !answer_is_throttling(&answer));
    }
}
