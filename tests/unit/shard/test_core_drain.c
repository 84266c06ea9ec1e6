/* SPDX-License-Identifier: Apache-2.0 */
/* Drains that wait for their operator: whom the shard waits for, how long, and what ends the wait. */
#include <stdio.h>

#include "fleet.h"
#include "lib/test.h"

enum { RETURN_MS = 120 * 1000 }; /* the default */

/* One machine of cluster "a", whose operator is as `reports` says; nobody needs the machine. */
static void open_one(struct fleet *f, const struct core_options *options, bool reports)
{
    fleet_open(f, options, 64);
    f->reports_drains = reports;
    fleet_add(f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_list(f);
    fleet_session(f, "a", true);
    fleet_demand(f, "a", 1000, 0);
}

static uint64_t waits(const struct fleet *f, enum drain_wait how)
{
    return core_counts(f->core)->drain_waits[how];
}

static void is_waiting(struct fleet *f, const char *why)
{
    CHECK_U64(why, f->seen[EFFECT_DRAIN], 0);
    CHECK_U32(why, fleet_state(f, "m-000"), MACHINE_DRAINING);
    CHECK_U32(why, core_counts(f->core)->drains_waiting, 1);
    CHECK_U32("holds no place", core_counts(f->core)->inflight, 0);
    fleet_check(f);
}

static void is_drained(struct fleet *f, const char *why, enum drain_wait how)
{
    fleet_run(f, 0); /* the answer */
    CHECK_U64(why, f->seen[EFFECT_DRAIN], 1);
    CHECK_U32(why, core_counts(f->core)->drains_waiting, 0);
    CHECK_U64(drain_wait_name(how), waits(f, how), 1);
    fleet_check(f);
}

TEST(the_provider_drains_when_the_operator_has_drained)
{
    struct machine_facts facts;
    struct fleet f;

    open_one(&f, NULL, true);
    fleet_decide(&f);
    CHECK_HAS("the operator first", f.trace, "RECLAIM NODE_STATE ");
    CHECK_U64("grace", f.last[EFFECT_RECLAIM].drain.grace_ms, RECLAIM_GRACE_MS);
    fleet_cycles(&f, 10);
    is_waiting(&f, "a hundred seconds later");
    CHECK_U64("asked once", f.seen[EFFECT_RECLAIM], 1);
    CHECK_OK("facts", core_machine(f.core, STR("m-000"), fleet_now(&f), &facts));
    CHECK("waits", facts.operator_drains && !facts.operator_away && facts.pending);
    CHECK_U64("for so long", facts.operator_left_ms, RECLAIM_GRACE_MS - 100 * 1000);
    fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, false, 1);
    is_waiting(&f, "it is still at it");
    fleet_report(&f, "b", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
    is_waiting(&f, "another cluster's word");
    fleet_report(&f, "a", "m-001", f.last[EFFECT_RECLAIM].action, true, 0);
    is_waiting(&f, "of another machine");
    fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
    is_drained(&f, "drained", DRAIN_WAIT_DRAINED);
    CHECK_U64("what is left of the grace", f.last[EFFECT_DRAIN].drain.grace_ms,
              RECLAIM_GRACE_MS - 100 * 1000);
    CHECK_U32("Idle", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
    CHECK_U64("said again", f.seen[EFFECT_DRAIN], 1);
    CHECK_HAS("one action", f.audit, "reclaim m-000 a success phase3.excess 600000");
    fleet_close(&f);
}

TEST(the_grace_ends_the_wait)
{
    struct fleet f;

    open_one(&f, NULL, true);
    fleet_decide(&f);
    fleet_run(&f, RECLAIM_GRACE_MS - 1);
    fleet_decide(&f);
    is_waiting(&f, "to the last moment");
    fleet_run(&f, 1);
    fleet_decide(&f);
    is_drained(&f, "over", DRAIN_WAIT_GRACE_ENDED);
    CHECK_U64("the provider gets time enough", f.last[EFFECT_DRAIN].drain.grace_ms, 30 * 1000);
    CHECK_HAS("said", f.logs,
              "WARN grace period ended before the operator reported the machine drained");
    fleet_close(&f);
}

TEST(a_preemption_waits_too_and_keeps_its_promise)
{
    struct fleet f;

    open_one(&f, NULL, true);
    fleet_demand(&f, "a", 1000, 1);
    fleet_demand(&f, "b", 2000, 1);
    fleet_decide(&f);
    is_waiting(&f, "preempted");
    CHECK_I64("by whom", f.last[EFFECT_RECLAIM].drain.preemptor_priority, 2000);
    fleet_cycles(&f, 20);
    is_waiting(&f, "nobody takes another or asks twice");
    CHECK_U64("one preemption", core_counts(f.core)->actions[ACTION_PREEMPT], 1);
    CHECK_STR("promised", fleet_record(&f, "m-000").promised.cluster, STR("b"));
    fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
    is_drained(&f, "drained", DRAIN_WAIT_DRAINED);
    CHECK_STR("kept for it", fleet_record(&f, "m-000").promised.cluster, STR("b"));
    fleet_run(&f, 50 * 1000); /* the shield begins when the machine is Idle */
    fleet_demand(&f, "c", 1999, 1);
    fleet_decide(&f);
    CHECK_STR("and given to it", fleet_record(&f, "m-000").cluster, STR("b"));
    fleet_close(&f);
}

TEST(an_operator_that_does_not_report_is_not_waited_for)
{
    struct fleet f;

    open_one(&f, NULL, false);
    fleet_decide(&f);
    CHECK_HAS("asked and drained at once", f.trace, "RECLAIM NODE_STATE DRAIN ");
    CHECK_U64("the whole grace", f.last[EFFECT_DRAIN].drain.grace_ms, RECLAIM_GRACE_MS);
    fleet_session(&f, "a", false);
    fleet_close(&f);
    open_one(&f, NULL, false);
    fleet_session(&f, "a", false);
    fleet_decide(&f);
    is_drained(&f, "nor when it is away", DRAIN_WAIT_NO_OPERATOR);
    fleet_close(&f);
}

TEST(a_cluster_that_never_had_an_operator_is_drained_at_once)
{
    struct fleet f;

    fleet_open(&f, NULL, 64);
    fleet_add(&f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    fleet_demand(&f, "b", 2000, 1);
    fleet_decide(&f);
    is_drained(&f, "at once", DRAIN_WAIT_NO_OPERATOR);
    CHECK_HAS("said", f.logs, "fallback: no operator session; PDB-respecting drain skipped");
    fleet_close(&f);
}

TEST(an_operator_that_is_away_has_time_to_return)
{
    struct fleet f;

    open_one(&f, NULL, true);
    fleet_session(&f, "a", false);
    fleet_run(&f, RETURN_MS / 2);
    fleet_decide(&f);
    is_waiting(&f, "since it left");
    CHECK_U64("nobody to ask", f.seen[EFFECT_RECLAIM], 0);
    CHECK_HAS("said", f.logs, "WARN drain waits for an operator that is disconnected");
    fleet_run(&f, RETURN_MS / 2 - 1);
    fleet_decide(&f);
    is_waiting(&f, "to the last moment");
    fleet_session(&f, "a", true);
    CHECK_U64("asked when it is back", f.seen[EFFECT_RECLAIM], 1);
    CHECK_U64("with what is left", f.last[EFFECT_RECLAIM].drain.grace_ms,
              RECLAIM_GRACE_MS - RETURN_MS / 2 + 1);
    fleet_run(&f, RETURN_MS * 2);
    fleet_decide(&f);
    is_waiting(&f, "and waited for until the grace ends");
    fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
    is_drained(&f, "drained", DRAIN_WAIT_DRAINED);
    fleet_close(&f);
}

TEST(an_operator_that_does_not_return_in_time_is_not_waited_for)
{
    struct fleet f;

    open_one(&f, NULL, true);
    fleet_decide(&f);
    fleet_run(&f, 1000);
    fleet_session(&f, "a", false);
    CHECK_HAS("said", f.logs, "WARN operator disconnected while it drains machines");
    fleet_run(&f, RETURN_MS - 1);
    fleet_decide(&f);
    is_waiting(&f, "to the last moment");
    fleet_run(&f, 1);
    fleet_decide(&f);
    is_drained(&f, "then not", DRAIN_WAIT_AWAY);
    CHECK_HAS("said", f.logs, "WARN operator did not reconnect in time to drain a machine");
    fleet_close(&f);

    open_one(&f, NULL, true);
    fleet_session(&f, "a", false);
    fleet_run(&f, RETURN_MS);
    fleet_decide(&f);
    is_drained(&f, "nor when it was away for longer before", DRAIN_WAIT_NO_OPERATOR);
    fleet_close(&f);
}

TEST(the_time_to_return_ends_with_the_grace)
{
    struct core_options options = {.operator_return_ms = 2 * RECLAIM_GRACE_MS};
    struct fleet f;

    open_one(&f, &options, true);
    fleet_session(&f, "a", false);
    fleet_decide(&f);
    fleet_run(&f, RECLAIM_GRACE_MS);
    fleet_decide(&f);
    is_drained(&f, "over", DRAIN_WAIT_GRACE_ENDED);
    fleet_close(&f);
}

TEST(an_operator_that_returns_without_reports_ends_the_wait)
{
    struct fleet f;

    open_one(&f, NULL, true);
    fleet_decide(&f);
    fleet_session(&f, "a", false);
    f.reports_drains = false;
    fleet_session(&f, "a", true);
    CHECK_U64("asked", f.seen[EFFECT_RECLAIM], 2);
    CHECK("a cycle is asked for", f.soon);
    fleet_decide(&f);
    is_drained(&f, "as ever", DRAIN_WAIT_NO_OPERATOR);
    fleet_close(&f);
}

/* -- the provider does not drain what its operator has drained -- */

/* The node takes no pod any more, so the machine must not be left to its cluster, even if that
 * wants it. */
TEST(a_machine_that_was_drained_and_stays_configured_is_drained_again)
{
    static const struct {
        const char *why;
        enum fate fate;
        bool reports;
    } cases[] = {
        {"refused", FATE_REFUSED, true},
        {"no answer", FATE_LOST_BEFORE, true},
        {"not sent", FATE_UNSENT, true},
        {"an operator that does not report", FATE_REFUSED, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t drains = cases[i].reports ? 1 : 0;
        struct fleet f;

        open_one(&f, NULL, cases[i].reports);
        f.fate[EFFECT_DRAIN] = cases[i].fate;
        fleet_decide(&f);
        if (cases[i].reports)
            fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
        fleet_demand(&f, "a", 1000, 1);
        fleet_cycles(&f, 1);
        CHECK_U64(cases[i].why, f.seen[EFFECT_DRAIN], 1);
        f.fate[EFFECT_DRAIN] = FATE_DONE;
        fleet_cycles(&f, 12);
        CHECK_U64(cases[i].why, f.executed[EFFECT_DRAIN], drains);
        CHECK_U64("its operator is asked once", f.seen[EFFECT_RECLAIM], 1);
        fleet_cycles(&f, 2);
        CHECK_U32("and it serves anew", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
        CHECK_U64("with another Configure", f.executed[EFFECT_CONFIGURE], drains);
        CHECK("forgotten", drains == 0 || !work_find(f.core, STR("m-000")));
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* The answer of such a Get is stale; its deadline is a minute and a half away. */
TEST(an_owed_drain_does_not_wait_for_a_get_that_a_list_overtook)
{
    struct fleet f;

    open_one(&f, NULL, true);
    f.fate[EFFECT_DRAIN] = FATE_LOST_BEFORE;
    f.latency_ms[EFFECT_GET] = 20 * 1000;
    fleet_decide(&f);
    fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
    fleet_demand(&f, "a", 1000, 1);
    fleet_run(&f, 31 * 1000); /* no answer */
    f.fate[EFFECT_DRAIN] = FATE_DONE;
    fleet_run(&f, 31 * 1000); /* the call cannot be carried out any more */
    fleet_decide(&f);
    CHECK_U32("a Get is under way", f.core->running->asking, 1);
    fleet_list(&f);
    CHECK_U32("the List says it first", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_run(&f, 21 * 1000);
    CHECK_U32("the Get's answer came", f.core->running->asking, 0);
    CHECK_U64("nothing yet", f.executed[EFFECT_DRAIN], 0);
    fleet_decide(&f);
    fleet_run(&f, 0);
    CHECK_U64("drained", f.executed[EFFECT_DRAIN], 1);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_drain_that_is_refused_again_rests_longer)
{
    struct fleet f;

    open_one(&f, NULL, true);
    f.fate[EFFECT_DRAIN] = FATE_REFUSED;
    fleet_decide(&f);
    fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
    fleet_demand(&f, "a", 1000, 1);
    fleet_cycles(&f, 60);
    CHECK("30 s, 60 s, 120 s, 240 s", f.seen[EFFECT_DRAIN] >= 4 && f.seen[EFFECT_DRAIN] <= 6);
    fleet_hold(&f, CORE_PAUSED);
    fleet_cycles(&f, 60);
    CHECK("nothing is begun on hold", f.seen[EFFECT_DRAIN] <= 6);
    fleet_check(&f);
    fleet_close(&f);
}

/* -- after a restart -- */

/* Calls of the process before are over. */
static void settle(struct fleet *f)
{
    fleet_decide(f);
    fleet_run(f, 30 * 1000);
    fleet_decide(f);
    fleet_list(f);
}

TEST(a_process_that_is_not_the_first_gives_every_operator_time_to_return)
{
    struct core_options options = {.restarted = true, .operators_reported = true};
    struct fleet f;

    fleet_open(&f, &options, 64);
    fleet_add(&f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    settle(&f);
    fleet_demand(&f, "b", 2000, 1);
    fleet_decide(&f);
    is_waiting(&f, "it may be on its way");
    f.reports_drains = true;
    fleet_session(&f, "a", true);
    CHECK_U64("and is asked", f.seen[EFFECT_RECLAIM], 1);
    fleet_run(&f, RETURN_MS);
    fleet_decide(&f);
    is_waiting(&f, "then until the grace ends");
    fleet_close(&f);

    fleet_open(&f, &options, 64);
    fleet_add(&f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    settle(&f);
    fleet_run(&f, RETURN_MS - 30 * 1000);
    fleet_demand(&f, "b", 2000, 1);
    fleet_decide(&f);
    is_drained(&f, "it had its time", DRAIN_WAIT_NO_OPERATOR);
    fleet_close(&f);
}

TEST(a_process_whose_operators_never_reported_waits_for_none)
{
    struct core_options options = {.restarted = true};
    struct fleet f;

    fleet_open(&f, &options, 64);
    fleet_add(&f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    settle(&f);
    fleet_demand(&f, "b", 2000, 1);
    fleet_decide(&f);
    is_drained(&f, "as before", DRAIN_WAIT_NO_OPERATOR);
    fleet_close(&f);
}

/* The demand that wanted the machine is gone with the process: only the operator knows. */
TEST(a_report_of_an_earlier_process_s_order_is_taken_up)
{
    const struct {
        const char *why;
        bool drained;
        uint64_t left_ms;
    } cases[] = {{"drained", true, 0}, {"still at it", false, 40 * 1000}, {"expired", false, 0}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_options options = {.restarted = true};
        struct fleet f;
        uint64_t foreign = 0x123456789abcdef0;

        open_one(&f, &options, true);
        fleet_demand(&f, "a", 1000, 1);
        settle(&f);
        CHECK_U32("it serves", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
        fleet_report(&f, "b", "m-000", foreign, cases[i].drained, cases[i].left_ms);
        CHECK_U32("not for that cluster", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
        fleet_report(&f, "a", "m-000", foreign, cases[i].drained, cases[i].left_ms);
        fleet_report(&f, "a", "m-000", foreign, cases[i].drained, cases[i].left_ms);
        CHECK_U64("it is not asked again", f.seen[EFFECT_RECLAIM], 0);
        CHECK_HAS(cases[i].why, f.logs, "WARN resumed a drain");
        if (cases[i].left_ms) {
            is_waiting(&f, cases[i].why);
            fleet_report(&f, "a", "m-000", foreign, true, 0);
            is_drained(&f, cases[i].why, DRAIN_WAIT_DRAINED);
        }
        CHECK_U64(cases[i].why, f.seen[EFFECT_DRAIN], 1);
        CHECK_U64("time enough", f.last[EFFECT_DRAIN].drain.grace_ms,
                  cases[i].left_ms ? cases[i].left_ms : 30 * 1000);
        fleet_cycles(&f, 3);
        CHECK_U32("and it serves again", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
        fleet_close(&f);
    }
}

TEST(a_late_report_of_our_own_order_is_no_order)
{
    uint64_t action;
    struct fleet f;

    open_one(&f, NULL, true);
    fleet_decide(&f);
    action = f.last[EFFECT_RECLAIM].action;
    fleet_report(&f, "a", "m-000", action, true, 0);
    fleet_demand(&f, "a", 1000, 1);
    fleet_cycles(&f, 3);
    CHECK_U32("it serves anew", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_report(&f, "a", "m-000", action, true, 0);
    CHECK_U32("and goes on", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK_U64("one drain", f.seen[EFFECT_DRAIN], 1);
    fleet_close(&f);
}

/* Nothing is drained, and nothing is said of it with every report. */
static void is_not_taken_up(struct fleet *f, const char *why)
{
    uint64_t audits = f->seen[EFFECT_AUDIT];

    fleet_demand(f, "a", 1000, 1);
    fleet_report(f, "a", "m-000", 0x123456789abcdef0, true, 0);
    CHECK_U64(why, f->seen[EFFECT_AUDIT], audits);
    CHECK(why, !strstr(f->logs, "resumed a drain"));
    fleet_decide(f);
    CHECK_U64(why, f->seen[EFFECT_DRAIN], 0);
    CHECK_U32(why, fleet_state(f, "m-000"), MACHINE_CONFIGURED);
}

TEST(nothing_is_taken_up_while_nothing_may_begin)
{
    const struct {
        const char *why;
        struct core_options options;
        bool fenced;
    } cases[] = {
        {"the kill switch", {.restarted = true, .paused = true}, false},
        {"shadow mode", {.restarted = true, .dry_run = true}, false},
        {"a newer process", {.restarted = true}, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet f;

        open_one(&f, &cases[i].options, true);
        if (cases[i].fenced) fleet_hold(&f, CORE_FENCED);
        is_not_taken_up(&f, cases[i].why);
        fleet_close(&f);
    }
}

TEST(a_report_of_an_unknown_order_is_taken_up_after_a_restart_and_not_for_ever)
{
    struct core_options options = {.restarted = true};
    struct fleet f;

    open_one(&f, NULL, true);
    is_not_taken_up(&f, "there was no earlier process");
    fleet_close(&f);

    open_one(&f, &options, true);
    fleet_demand(&f, "a", 1000, 1);
    settle(&f);
    fleet_run(&f, RECLAIM_GRACE_MS + RETURN_MS);
    is_not_taken_up(&f, "its order is over");
    fleet_close(&f);
}

/* -- places -- */

TEST(waits_hold_no_places)
{
    struct core_options options = {.concurrency = 1};
    struct fleet f;

    fleet_open(&f, &options, 64);
    f.reports_drains = true;
    fleet_add(&f, "m", 20, MACHINE_CONFIGURED, "a");
    fleet_add(&f, "x", 1, MACHINE_IDLE, NULL);
    fleet_list(&f);
    fleet_session(&f, "a", true);
    fleet_demand(&f, "a", 1000, 0);
    fleet_demand(&f, "b", 1000, 1);
    fleet_cycles(&f, 3);
    CHECK_U32("all wait", core_counts(f.core)->drains_waiting, 20);
    CHECK_U32("b is served beside them", fleet_state(&f, "x-000"), MACHINE_CONFIGURED);
    f.latency_ms[EFFECT_DRAIN] = 1000;
    fleet_run(&f, RECLAIM_GRACE_MS);
    fleet_decide(&f);
    CHECK_U32("then one after the other", core_counts(f.core)->inflight, 1);
    CHECK_U32("the rest is queued", core_counts(f.core)->queued, 19);
    fleet_check(&f);
    fleet_run(&f, 20 * 1000);
    CHECK_SIZE("all of them", fleet_count(&f, MACHINE_IDLE), 20);
    CHECK_U64("no two calls of one machine", f.abuses, 0);
    fleet_close(&f);
}

/* Machines that wait are given away already, so each cycle takes its share of the rest. */
TEST(the_reclaim_cap_counts_what_is_left)
{
    struct core_options options = {.rails = {.reclaim_fraction = 0.25}};
    const uint32_t waiting[] = {5, 8, 11, 13};
    struct fleet f;

    fleet_open(&f, &options, 64);
    f.reports_drains = true;
    fleet_add(&f, "m", 20, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    fleet_session(&f, "a", true);
    fleet_demand(&f, "a", 1000, 0);
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++) {
        fleet_cycle(&f);
        CHECK_U32("a quarter of those that serve", core_counts(f.core)->drains_waiting, waiting[i]);
        CHECK_SIZE("the rest serves", fleet_count(&f, MACHINE_CONFIGURED), 20 - waiting[i]);
    }
    fleet_close(&f);
}

/* -- what the provider says meanwhile -- */

TEST(a_machine_that_changes_or_goes_meanwhile_ends_its_wait)
{
    const enum machine_state states[] = {MACHINE_FAILED, MACHINE_IDLE, MACHINE_SPECULATIVE};
    struct fleet f;

    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        open_one(&f, NULL, true);
        fleet_decide(&f);
        is_waiting(&f, "waits");
        fleet_list(&f);
        is_waiting(&f, "the provider still calls it Configured");
        fleet_machine(&f, "m-000")->state = states[i];
        snprintf(fleet_machine(&f, "m-000")->cluster, 2, "%s",
                 states[i] == MACHINE_FAILED ? "a" : "");
        snprintf(fleet_machine(&f, "m-000")->error, 7, "%s",
                 states[i] == MACHINE_FAILED ? "broken" : "");
        fleet_list(&f);
        CHECK_U32("believed", fleet_state(&f, "m-000"), states[i]);
        CHECK_U32("no wait", core_counts(f.core)->drains_waiting, 0);
        fleet_check(&f);
        fleet_report(&f, "a", "m-000", f.last[EFFECT_RECLAIM].action, true, 0);
        CHECK_U64("no drain", f.seen[EFFECT_DRAIN], 0);
        fleet_close(&f);
    }
    fleet_open(&f, NULL, 64);
    f.reports_drains = true;
    fleet_add(&f, "x", 5, MACHINE_IDLE, NULL);
    fleet_add(&f, "m", 1, MACHINE_CONFIGURED, "a");
    fleet_list(&f);
    fleet_session(&f, "a", true);
    fleet_demand(&f, "a", 1000, 0);
    fleet_decide(&f);
    is_waiting(&f, "waits");
    f.machine_count--;
    fleet_list(&f);
    CHECK_U32("no wait", core_counts(f.core)->drains_waiting, 0);
    CHECK_SIZE("gone", fleet_count(&f, MACHINE_DRAINING), 0);
    fleet_check(&f);
    fleet_close(&f);
}
