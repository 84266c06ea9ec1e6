/* SPDX-License-Identifier: Apache-2.0 */
/* The cycle and the queue: shard.md §§ 5, 7.1, 7.3, 9, 19, 20, 25 and the quirks Q14 and Q22. */
#include <math.h>
#include <stdio.h>

#include "fleet.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

static void open_with(struct fleet *f, const struct core_options *options, size_t count,
                      enum machine_state state)
{
    fleet_open(f, options, 512);
    fleet_add(f, "m", count, state, state == MACHINE_CONFIGURED ? "a" : NULL);
    fleet_list(f);
    fleet_session(f, "a", true);
}

static void slowly(struct fleet *f, uint64_t ms)
{
    for (int kind = 0; kind < FLEET_EFFECTS; kind++) f->latency_ms[kind] = ms;
}

/* ---- the queue ---- */

TEST(no_more_than_the_concurrency_is_under_way_and_the_rest_waits_its_turn)
{
    struct core_options options = {.concurrency = 3};
    struct fleet f;

    open_with(&f, &options, 10, MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    slowly(&f, 5000);
    fleet_decide(&f);
    CHECK_U32("under way", core_counts(f.core)->inflight, 3);
    CHECK_U32("waiting", core_counts(f.core)->queued, 7);
    CHECK_SIZE("three began", fleet_count(&f, MACHINE_DRAINING), 3);
    CHECK_U64("counted when queued", core_counts(f.core)->actions[ACTION_RECLAIM], 10);
    CHECK_U32("planned on as begun", inventory_counts(f.core->inventory).planned, 7);
    fleet_check(&f);
    fleet_decide(&f);
    CHECK_U64("nothing is decided twice", core_counts(f.core)->actions[ACTION_RECLAIM], 10);
    CHECK_U64("nor even found moot", core_counts(f.core)->deduped, 0);
    fleet_run(&f, 5 * 1000);
    CHECK_SIZE("three are done", fleet_count(&f, MACHINE_IDLE), 3);
    CHECK_U32("the next three go at once", core_counts(f.core)->inflight, 3);
    CHECK_U32("four wait", core_counts(f.core)->queued, 4);
    fleet_run(&f, 15 * 1000);
    CHECK_SIZE("all", fleet_count(&f, MACHINE_IDLE), 10);
    fleet_check(&f);
    fleet_close(&f);
}

/* 20 machines for the operator of "a", which is silent; one for the operator of "b". */
TEST(an_operator_that_gives_no_blob_delays_no_other_cluster)
{
    struct core_options options = {.concurrency = 2, .bootstrap_timeout_ms = 3600 * 1000};
    struct fleet f;

    open_with(&f, &options, 30, MACHINE_IDLE);
    fleet_add(&f, "c", 1, MACHINE_CONFIGURED, "b");
    fleet_list(&f);
    fleet_demand(&f, "a", 1000, 20);
    f.fate[EFFECT_ASK_BLOB] = FATE_BLOB_TIMEOUT;
    fleet_cycle(&f);
    CHECK_U64("all are asked for", f.seen[EFFECT_ASK_BLOB], 20);
    CHECK_U32("none holds a place", core_counts(f.core)->inflight, 0);
    CHECK_U32("they wait", core_counts(f.core)->blobs_waiting, 20);
    CHECK_U32("nothing is queued", core_counts(f.core)->queued, 0);
    fleet_check(&f);
    f.fate[EFFECT_ASK_BLOB] = FATE_DONE;
    fleet_session(&f, "b", true);
    fleet_demand(&f, "b", 2000, 2);
    fleet_cycle(&f);
    CHECK_SIZE("b is served beside them", fleet_count(&f, MACHINE_CONFIGURED), 2);
    fleet_demand(&f, "b", 2000, 0);
    fleet_cycle(&f);
    CHECK_U64("and drained", f.executed[EFFECT_DRAIN], 2);
    fleet_check(&f);
    fleet_run(&f, 3600 * 1000);
    CHECK_U32("their time is over", core_counts(f.core)->blobs_waiting, 0);
    CHECK_U64("each ended by name",
              core_counts(f.core)->outcomes[ACTION_BOOTSTRAP][OUTCOME_CTX_CANCELED], 20);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(blobs_that_came_wait_for_their_places_in_their_order)
{
    struct core_options options = {.concurrency = 2};
    struct fleet f;

    open_with(&f, &options, 10, MACHINE_IDLE);
    fleet_demand(&f, "a", 1000, 10);
    f.latency_ms[EFFECT_CONFIGURE] = 5000;
    fleet_cycle(&f);
    CHECK_U32("two calls", core_counts(f.core)->inflight, 2);
    CHECK_U32("eight wait with their blob", core_counts(f.core)->queued, 8);
    CHECK("the driver keeps the blob of one that waits",
          core_blob_waits(f.core, task_find(f.core, STR("m-002"))->number));
    CHECK("and not of one that was asked for",
          !core_blob_waits(f.core, task_find(f.core, STR("m-000"))->number));
    fleet_check(&f);
    fleet_add(&f, "z", 1, MACHINE_IDLE, NULL);
    fleet_demand(&f, "a", 1000, 11);
    fleet_cycle(&f);
    for (size_t done = 2; done <= 10; done += 2) {
        fleet_run(&f, 5000);
        CHECK_SIZE("two at a time", fleet_count(&f, MACHINE_CONFIGURED), done);
        CHECK_U32("never more calls", core_counts(f.core)->inflight, done < 10 ? 2 : 1);
        fleet_check(&f);
    }
    CHECK_U32("the first in its turn", fleet_state(&f, "m-009"), MACHINE_CONFIGURED);
    CHECK_U32("the last one last", fleet_state(&f, "z-000"), MACHINE_CONFIGURING);
    fleet_hold(&f, CORE_PAUSED);
    fleet_run(&f, 5000);
    fleet_close(&f);
}

TEST(requests_for_blobs_are_bounded_and_the_rest_is_derived_again)
{
    struct core_options options = {.blobs_max = 3};
    struct fleet f;

    open_with(&f, &options, 5, MACHINE_IDLE);
    fleet_demand(&f, "a", 1000, 5);
    f.latency_ms[EFFECT_ASK_BLOB] = 5000;
    fleet_cycle(&f);
    CHECK_U32("three wait", core_counts(f.core)->blobs_waiting, 3);
    CHECK_HAS("the rest is undone", f.audit,
              "blob_error phase1.idle 0 too many actions wait for a blob");
    CHECK_SIZE("and Idle", fleet_count(&f, MACHINE_IDLE), 2);
    fleet_run(&f, 5000);
    fleet_cycle(&f);
    fleet_run(&f, 5000);
    CHECK_SIZE("all", fleet_count(&f, MACHINE_CONFIGURED), 5);
    fleet_check(&f);
    fleet_close(&f);
}

/* The machine is taken back, and nobody is asked for anything. */
TEST(a_hold_undoes_what_waits_with_its_blob)
{
    struct core_options options = {.concurrency = 1};
    struct fleet f;

    open_with(&f, &options, 3, MACHINE_IDLE);
    fleet_demand(&f, "a", 1000, 3);
    f.latency_ms[EFFECT_CONFIGURE] = 5000;
    fleet_cycle(&f);
    CHECK_U32("two wait with their blob", core_counts(f.core)->queued, 2);
    fleet_hold(&f, CORE_PAUSED);
    CHECK_U32("none waits", core_counts(f.core)->queued, 0);
    CHECK_SIZE("both are Idle", fleet_count(&f, MACHINE_IDLE), 2);
    CHECK_HAS("audited", f.audit, "suppressed");
    fleet_run(&f, 5000);
    CHECK_U64("one Configure", f.seen[EFFECT_CONFIGURE], 1);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(first_in_first_out)
{
    struct core_options options = {.concurrency = 1};
    struct fleet f;
    char id[8];

    open_with(&f, &options, 4, MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    slowly(&f, 1000);
    fleet_decide(&f);
    for (int i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "m-%03d", 3 - i); /* as they were decided */
        CHECK_U32("its turn", fleet_state(&f, id), MACHINE_DRAINING);
        fleet_run(&f, 1000);
        CHECK_U32("done", fleet_state(&f, id), MACHINE_IDLE);
    }
    fleet_close(&f);
}

TEST(a_full_queue_drops_and_a_cycle_follows_when_it_has_drained)
{
    struct core_options options = {.concurrency = 2, .queue_max = 4};
    struct fleet f;

    open_with(&f, &options, 20, MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    slowly(&f, 1000);
    fleet_decide(&f);
    CHECK_U32("two begin, four wait", core_counts(f.core)->queued, 4);
    CHECK_U64("the rest is dropped", core_counts(f.core)->dropped, 14);
    CHECK_U64("and not counted as an action (Q14)", core_counts(f.core)->actions[ACTION_RECLAIM],
              6);
    CHECK("not yet", !f.soon);
    fleet_run(&f, 1000);
    CHECK_U32("two left", core_counts(f.core)->queued, 2);
    CHECK("still not", !f.soon);
    fleet_run(&f, 1000);
    CHECK("now a cycle is wanted", f.soon);
    f.soon = false;
    fleet_run(&f, 10 * 1000);
    CHECK("wanted once", !f.soon);
    CHECK_SIZE("six are done", fleet_count(&f, MACHINE_IDLE), 6);
    for (int i = 0; i < 4; i++) {
        fleet_decide(&f);
        fleet_run(&f, 10 * 1000);
    }
    CHECK_SIZE("in the end all", fleet_count(&f, MACHINE_IDLE), 20);
    fleet_check(&f);
    fleet_close(&f);
}

/* Planned on as begun, nothing is decided twice; should a plan be lost, the guard holds. */
TEST(a_machine_that_is_pending_is_not_queued_again)
{
    struct core_options options = {.concurrency = 1};
    struct fleet f;

    open_with(&f, &options, 2, MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    slowly(&f, 1000);
    fleet_decide(&f);
    CHECK_OK("lost", inventory_unplan(f.core->inventory, STR("m-000")));
    fleet_decide(&f);
    CHECK_U64("found", core_counts(f.core)->deduped, 1);
    CHECK_U64("one action each", core_counts(f.core)->actions[ACTION_RECLAIM], 2);
    fleet_run(&f, 10 * 1000);
    CHECK_SIZE("both", fleet_count(&f, MACHINE_IDLE), 2);
    CHECK_U64("audited in the cycle of its end", f.last[EFFECT_AUDIT].audit.cycle, 2);
    fleet_close(&f);
}

TEST(a_list_does_not_disturb_what_is_under_way)
{
    struct core_options options = {.concurrency = 1};
    struct fleet f;

    open_with(&f, &options, 2, MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    slowly(&f, 8000);
    fleet_decide(&f);
    fleet_list(&f); /* says Configured of both */
    CHECK_U32("one is drained all the same", fleet_state(&f, "m-001"), MACHINE_DRAINING);
    CHECK_U32("the other waits", core_counts(f.core)->queued, 1);
    fleet_machine(&f, "m-000")->state = MACHINE_FAILED;
    snprintf(fleet_machine(&f, "m-000")->error, 64, "broken");
    fleet_list(&f);
    CHECK_U32("queued is pending", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_machine(&f, "m-000")->state = MACHINE_CONFIGURED;
    fleet_machine(&f, "m-000")->error[0] = 0;
    f.machine_count = 1; /* left out of a whole List */
    fleet_list(&f);
    CHECK_U32("pending machines are not removed (Q17)",
              inventory_counts(f.core->inventory).machines, 2);
    f.machine_count = 2;
    fleet_run(&f, 60 * 1000);
    CHECK_SIZE("both", fleet_count(&f, MACHINE_IDLE), 2);
    fleet_close(&f);
}

/* A List that began before the answer was heard knows less than the answer. */
TEST(a_list_that_was_begun_before_an_action_ended_is_not_believed)
{
    struct effects out;
    struct machine old;
    struct fleet f;

    open_with(&f, NULL, 1, MACHINE_IDLE);
    old = fleet_record(&f, "m-000");
    old.host_ref = STR("m-000");
    old.attributes.labels = NULL;
    fleet_demand(&f, "a", 1000, 1);
    effects_init(&out);
    core_list_begin(f.core, LIST_FULL);
    fleet_decide(&f);
    fleet_run(&f, 0);
    CHECK_U32("done while the List is read", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    old.attributes.instance_type = STR("m5");
    old.id = STR("m-000");
    old.host_provider = STR("p");
    old.last_error = old.cluster = STR_EMPTY;
    CHECK_OK("list", core_list_machine(f.core, &old, NULL, 0, fleet_now(&f), &out));
    core_list_end(f.core, true, fleet_now(&f), &out);
    effects_deinit(&out);
    CHECK_U32("it stays what it became", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_machine(&f, "m-000")->state = MACHINE_IDLE;
    fleet_machine(&f, "m-000")->cluster[0] = 0;
    fleet_list(&f);
    CHECK_U32("the next one is believed", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_check(&f);
    fleet_close(&f);
}

/* A delta says something once; what was passed over is asked for. */
TEST(what_a_delta_said_of_a_pending_machine_is_asked_for_afterwards)
{
    struct fleet f;

    open_with(&f, NULL, 1, MACHINE_IDLE);
    fleet_demand(&f, "a", 1000, 1);
    f.fate[EFFECT_CONFIGURE] = FATE_ASYNC;
    f.async_ms = 1000;
    f.latency_ms[EFFECT_CONFIGURE] = 5000;
    fleet_decide(&f);
    fleet_run(&f, 0);
    fleet_machine(&f, "m-000")->state = MACHINE_CONFIGURED; /* faster than its own ack */
    snprintf(fleet_machine(&f, "m-000")->cluster, 24, "a");
    fleet_list_kind(&f, LIST_DELTA);
    CHECK_U32("passed over", fleet_state(&f, "m-000"), MACHINE_CONFIGURING);
    fleet_machine(&f, "m-000")->state = MACHINE_CONFIGURING; /* as its ack will say */
    fleet_machine(&f, "m-000")->end_ms = f.now_ms + 6000;
    fleet_run(&f, 5000);
    CHECK_U32("the ack was asynchronous", fleet_state(&f, "m-000"), MACHINE_CONFIGURING);
    fleet_run(&f, 2000);
    fleet_decide(&f);
    fleet_run(&f, 0);
    CHECK_U64("asked", f.seen[EFFECT_GET], 1);
    CHECK_U32("and known", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_check(&f);
    fleet_close(&f);
}

/* A full List leaves what it says of pending machines to the next full one: if a delta comes
 * instead, a full one is wanted. */
TEST(what_a_full_list_said_of_a_pending_machine_is_not_lost_when_deltas_begin)
{
    struct fleet f;

    open_with(&f, NULL, 1, MACHINE_IDLE);
    fleet_demand(&f, "a", 1000, 1);
    slowly(&f, 5000);
    fleet_decide(&f);
    fleet_machine(&f, "m-000")->state = MACHINE_SPECULATIVE;
    fleet_list_kind(&f, LIST_FULL);
    CHECK("the next may be a full one", !core_wants_full_list(f.core));
    fleet_list_kind(&f, LIST_DELTA);
    CHECK("it was not", core_wants_full_list(f.core));
    fleet_list_kind(&f, LIST_FULL);
    fleet_list_kind(&f, LIST_DELTA);
    CHECK("from now on such machines are asked for", !core_wants_full_list(f.core));
    fleet_run(&f, 60 * 1000); /* refused, and rested */
    fleet_decide(&f);
    CHECK("they are", f.seen[EFFECT_GET] > 0);
    fleet_close(&f);
}

TEST(a_full_list_that_was_cut_is_still_wanted)
{
    struct effects out;
    struct fleet f;

    open_with(&f, NULL, 1, MACHINE_IDLE);
    fleet_scope(&f, "m5");
    CHECK("wanted", core_wants_full_list(f.core));
    effects_init(&out);
    core_list_begin(f.core, LIST_FULL);
    core_list_end(f.core, false, fleet_now(&f), &out);
    CHECK("still", core_wants_full_list(f.core));
    core_list_begin(f.core, LIST_FULL);
    CHECK("not twice", !core_wants_full_list(f.core));
    effects_deinit(&out);
    fleet_scope(&f, NULL); /* while it is read */
    fleet_list_kind(&f, LIST_FULL);
    CHECK("had", !core_wants_full_list(f.core));
    fleet_close(&f);
}

/* ---- the rails ---- */

TEST(reclaims_are_capped_per_cycle_without_asking_for_another)
{
    struct core_options options = {.rails = {.reclaim_fraction = 0.25}};
    struct fleet f;
    uint64_t cycles = 0, before = 0;

    open_with(&f, &options, 40, MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    fleet_decide(&f);
    fleet_run(&f, 0);
    CHECK_U64("ten of forty", core_counts(f.core)->actions[ACTION_RECLAIM], 10);
    CHECK_U64("the rest is held", core_counts(f.core)->capped, 30);
    CHECK_HAS("said", f.logs, "WARN reclaim blast-radius cap engaged deferred=30");
    CHECK("time is to pass", !f.soon);
    for (; fleet_count(&f, MACHINE_CONFIGURED) && cycles < 100; cycles++) {
        uint64_t configured = fleet_count(&f, MACHINE_CONFIGURED);
        before = core_counts(f.core)->actions[ACTION_RECLAIM];
        fleet_run(&f, 10 * 1000);
        fleet_decide(&f);
        fleet_run(&f, 0);
        CHECK("within the cap", core_counts(f.core)->actions[ACTION_RECLAIM] - before <=
                                    rails_reclaim_cap(0.25, configured));
    }
    CHECK_U64("all forty", core_counts(f.core)->actions[ACTION_RECLAIM], 40);
    CHECK_U32("none came or went", inventory_counts(f.core->inventory).machines, 40);
    CHECK_SIZE("forty moved, and no other", fleet_count(&f, MACHINE_IDLE), 40);
    CHECK("over several cycles", cycles >= 2);
    fleet_close(&f);
}

TEST(the_limit_of_actions_asks_for_the_next_cycle_at_once)
{
    struct core_options options = {.rails = {.actions_max = 4}};
    struct fleet f;

    open_with(&f, &options, 10, MACHINE_IDLE);
    fleet_demand(&f, "a", 1000, 10);
    fleet_decide(&f);
    CHECK_U64("four", core_counts(f.core)->actions[ACTION_BOOTSTRAP], 4);
    CHECK_U64("six are deferred", core_counts(f.core)->deferred, 6);
    CHECK("a cycle is wanted", f.soon);
    fleet_decide(&f);
    CHECK("again", f.soon);
    fleet_decide(&f);
    CHECK("no more", !f.soon);
    CHECK_U64("all", core_counts(f.core)->actions[ACTION_BOOTSTRAP], 10);
    fleet_close(&f);
}

TEST(the_shard_may_weigh_victims_otherwise)
{
    static const struct {
        const char *why, *victim;
        struct victim_weights weights;
    } cases[] = {
        {"the rule book: the larger gap", "m-001", {.drain_ms = 0}},
        {"nothing counts: the id", "m-000", {.drain_ms = 1}},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_options options = {.weights = cases[i].weights};
        struct fleet f;

        open_with(&f, &options, 2, MACHINE_IDLE);
        fleet_machine(&f, "m-001")->price = 2; /* the first Need takes the cheap one */
        fleet_list(&f);
        fleet_demand(&f, "a", 2000, 1);
        fleet_cycle(&f);
        fleet_session(&f, "b", true);
        fleet_demand(&f, "b", 10, 1);
        fleet_cycle(&f);
        CHECK_SIZE("both are taken", fleet_count(&f, MACHINE_CONFIGURED), 2);
        fleet_demand(&f, "c", 1000, 0);
        fleet_demand(&f, "c", 1000000, 1);
        slowly(&f, 1000);
        fleet_decide(&f);
        CHECK_U32(cases[i].why, fleet_state(&f, cases[i].victim), MACHINE_DRAINING);
        fleet_close(&f);
    }
}

/* ---- nothing is done ---- */

TEST(paused_or_in_shadow_everything_is_decided_and_nothing_is_done)
{
    static const struct {
        const char *why, *audit, *log;
        bool paused, dry_run;
    } cases[] = {
        {"paused", "suppressed", "WARN actuation paused: decided actions suppressed actions=13",
         true, false},
        {"shadow", "dryrun", "INFO dry-run: would execute action kind=bootstrap machine=i-000",
         false, true},
        {"both: paused counts", "suppressed",
         "WARN actuation paused: decided actions suppressed actions=13", true, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_options options = {.paused = cases[i].paused,
                                       .dry_run = cases[i].dry_run,
                                       .rails = {.reclaim_fraction = 0.05, .actions_max = 1}};
        const struct core_counts *counts;
        struct fleet f;

        fleet_open(&f, &options, 64);
        fleet_add(&f, "c", 10, MACHINE_CONFIGURED, "a");
        fleet_add(&f, "i", 3, MACHINE_IDLE, NULL);
        fleet_add(&f, "x", 1, MACHINE_FAILED, NULL);
        fleet_list(&f);
        fleet_session(&f, "b", true);
        fleet_demand(&f, "a", 1000, 0);
        fleet_demand(&f, "b", 1000, 3);
        counts = core_counts(f.core);
        for (int cycle = 1; cycle <= 3; cycle++) {
            fleet_cycles(&f, 1);
            if (cases[i].paused) {
                CHECK_U64(cases[i].why, counts->suppressed[ACTION_BOOTSTRAP], 3 * cycle);
                CHECK_U64(cases[i].why, counts->suppressed[ACTION_RECLAIM], 10 * cycle);
                CHECK_U64(cases[i].why, counts->dryrun[ACTION_BOOTSTRAP], 0);
            } else {
                CHECK_U64(cases[i].why, counts->dryrun[ACTION_BOOTSTRAP], 3 * cycle);
                CHECK_U64(cases[i].why, counts->dryrun[ACTION_RECLAIM], 10 * cycle);
            }
            CHECK_U64("no rail where nothing is done", counts->capped + counts->deferred, 0);
            CHECK("and no cycle after it", !f.soon);
        }
        CHECK_HAS(cases[i].why, f.audit, cases[i].audit);
        CHECK_HAS(cases[i].why, f.logs, cases[i].log);
        fleet_cycles(&f, 30); /* a Failed machine is not given back either */
        for (int kind = EFFECT_CREATE; kind <= EFFECT_DELETE; kind++)
            CHECK_U64(cases[i].why, f.seen[kind], 0);
        CHECK_U64("nor is anything reported", f.seen[EFFECT_RECLAIM] + f.seen[EFFECT_ASK_BLOB], 0);
        CHECK_SIZE("no machine moved", fleet_count(&f, MACHINE_CONFIGURED), 10);
        CHECK_U64("none is counted as an action",
                  counts->actions[ACTION_BOOTSTRAP] + counts->actions[ACTION_RECLAIM], 0);
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* ---- to people ---- */

TEST(shortfalls_are_said_with_their_fingerprints)
{
    struct fleet f;

    open_with(&f, NULL, 1, MACHINE_IDLE);
    fleet_demand(&f, "a", 1000, 2);
    fleet_demand(&f, "b", 3000, 1);
    fleet_demand(&f, "c", 2000, 1);
    fleet_demand(&f, "d", 4000, 1);
    fleet_decide(&f);
    CHECK_HAS("count and the top three", f.log,
              "WARN shortfalls detected count=3 top=p=3000|ipb=10|rpb=12|reqs=|spr= p=2000|");
    fleet_demand(&f, "a", 1000, 0);
    fleet_demand(&f, "b", 3000, 0);
    fleet_demand(&f, "c", 2000, 0);
    f.log[0] = 0;
    fleet_decide(&f);
    CHECK_TEXT("nothing is short, nothing is said", f.log, "");
    fleet_close(&f);
}

TEST(a_gang_that_nobody_can_serve_is_parked)
{
    size_t parked;
    struct fleet f;

    open_with(&f, NULL, 4, MACHINE_IDLE); /* none of them in a rack */
    fleet_gang(&f, "a", "rack", 2);
    for (int cycle = 1; cycle <= PARK_AFTER; cycle++) {
        (void)parking_parked(f.core->parking, &parked);
        CHECK_SIZE("not yet", parked, 0);
        fleet_decide(&f);
    }
    (void)parking_parked(f.core->parking, &parked);
    CHECK_SIZE("parked", parked, 1);
    fleet_close(&f);
}

static void mark_seen(void *context, enum cycle_phase phase)
{
    unsigned *seen = context;

    CHECK("in order", *seen < 1u << phase);
    *seen |= 1u << phase;
}

TEST(every_part_of_a_cycle_can_be_measured)
{
    struct effects out;
    unsigned seen = 0;
    struct fleet f;

    open_with(&f, NULL, 1, MACHINE_IDLE);
    effects_init(&out);
    CHECK_OK("cycle", core_cycle(f.core, fleet_now(&f), (wall_time){1}, mark_seen, &seen, &out));
    effects_deinit(&out);
    CHECK_U32("all but the driver's", seen, (1u << PHASE_COUNT) - 1 - (1u << PHASE_RECONCILE));
    fleet_close(&f);
}

/* ---- memory ---- */

/* An action that ends where it began takes its plan back; when that finds no memory, the next cycle
 * that looks at the machine does it. */
TEST(a_plan_that_could_not_be_taken_back_is_taken_back_later)
{
    struct plan plan = {.action = PLANNED_DELETE};
    struct fleet f;

    open_with(&f, NULL, 2, MACHINE_IDLE);
    CHECK_OK("plan", inventory_plan(f.core->inventory, STR("m-001"), &plan, NULL));
    f.core->now = fleet_now(&f);
    work_look(f.core, STR("m-001"), MACHINE_FAILED);
    fleet_decide(&f);
    CHECK_U32("taken back", inventory_counts(f.core->inventory).planned, 0);
    CHECK_U64("and looked at", f.seen[EFFECT_GET], 1);
    fleet_check(&f);
    fleet_demand(&f, "a", 1000, 2);
    fleet_run(&f, 0);
    fleet_cycle(&f);
    CHECK_SIZE("of use", fleet_count(&f, MACHINE_CONFIGURED), 2);
    fleet_close(&f);
}

/* The k-th allocation of one cycle and of its answers fails: nothing breaks, and once there is
 * memory again everything gets where it should. */
TEST(without_memory_nothing_is_lost)
{
    bool fired = true;

    for (uint64_t k = 1; fired; k++) {
        struct core_options options = {.concurrency = 3};
        struct fleet f;

        fleet_open(&f, &options, 64);
        fleet_add(&f, "i", 3, MACHINE_IDLE, NULL);
        fleet_add(&f, "s", 2, MACHINE_SPECULATIVE, NULL);
        fleet_add(&f, "c", 2, MACHINE_CONFIGURED, "b");
        fleet_list(&f);
        fleet_session(&f, "a", true);
        fleet_demand(&f, "a", 1000, 5);
        fleet_demand(&f, "b", 10, 0);
        slowly(&f, 100);
        f.fate[EFFECT_DRAIN] = FATE_ASYNC;
        f.fate[EFFECT_CREATE] = FATE_LOST_AFTER;
        f.faulty = true;
        fault_alloc_arm(k);
        fleet_decide(&f);
        fleet_run(&f, 40 * 1000);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        fleet_check(&f);
        f.faulty = false;
        f.fate[EFFECT_DRAIN] = f.fate[EFFECT_CREATE] = FATE_DONE;
        for (int i = 0; i < 60 && fleet_count(&f, MACHINE_CONFIGURED) != 5; i++)
            fleet_cycles(&f, 1);
        fleet_cycles(&f, 1);
        fleet_check(&f);
        CHECK_SIZE("all are served", fleet_count(&f, MACHINE_CONFIGURED), 5);
        CHECK_U32("nothing is left over", inventory_counts(f.core->inventory).planned, 0);
        fleet_close(&f);
        CHECK("it ends", k < 10000);
        if (!fired) CHECK("after many", k > 50);
    }
}
