/* SPDX-License-Identifier: Apache-2.0 */
/* What actions do to machines, by events and effects alone: shard.md §§ 9, 10, 19, 20 and the
 * quirks Q3, Q5, Q6, Q14, Q18, Q19, Q20, Q22, Q23. */
#include <stdio.h>

#include "fleet.h"
#include "lib/test.h"

/* One machine in this state, a cluster with a session that wants `units`, listed and decided, and
 * every answer that comes at once. */
static void one(struct fleet *f, const struct core_options *options, enum machine_state state,
                uint32_t units)
{
    bool bound = state == MACHINE_CONFIGURED || state == MACHINE_DRAINING;

    fleet_open(f, options, 64);
    fleet_add(f, "m", 1, state, bound ? "a" : NULL);
    fleet_list(f);
    fleet_session(f, "a", true);
    fleet_demand(f, "a", 1000, units);
}

static void outcome_is(struct fleet *f, const char *why, const char *audit)
{
    CHECK_HAS(why, f->audit, audit);
}

/* ---- each kind, when all goes well ---- */

TEST(a_provision_creates_and_configures_in_one_action)
{
    struct fleet f;
    struct machine m;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.latency_ms[EFFECT_CREATE] = 1000;
    f.latency_ms[EFFECT_ASK_BLOB] = 2000;
    f.latency_ms[EFFECT_CONFIGURE] = 3000;
    fleet_decide(&f);
    m = fleet_record(&f, "m-000");
    CHECK_U32("Creating at once", m.state, MACHINE_CREATING);
    CHECK_STR("for whom", m.destination, STR("a"));
    CHECK("stamped", m.stamp.fingerprint.len > 0);
    fleet_run(&f, 1000);
    m = fleet_record(&f, "m-000");
    CHECK_U32("created, and on its way", m.state, MACHINE_CONFIGURING);
    CHECK_STR("bound", m.cluster, STR("a"));
    CHECK_STR("the operator hears", f.last[EFFECT_NODE_STATE].node ? STR("a") : STR(""), STR("a"));
    fleet_run(&f, 2000);
    CHECK_U64("the blob's time is observed", f.observed[OBSERVE_BLOB], 1);
    CHECK("two seconds", f.last_seconds[OBSERVE_BLOB] == 2);
    fleet_run(&f, 3000);
    m = fleet_record(&f, "m-000");
    CHECK_U32("done", m.state, MACHINE_CONFIGURED);
    CHECK_I64("priority", m.stamp.priority, 1000);
    CHECK("penalties", m.stamp.interruption_dollars == 128 && m.stamp.reclamation_dollars == 512);
    CHECK("five seconds of configuring", f.last_seconds[OBSERVE_CONFIGURE] == 5);
    outcome_is(&f, "audited", "provision m-000 a success phase1.speculative 0 ");
    CHECK_U64("counted", core_counts(f.core)->outcomes[ACTION_PROVISION][OUTCOME_SUCCESS], 1);
    CHECK_SIZE("five entries of metadata", fleet_machine(&f, "m-000")->label_count, 5);
    CHECK_TEXT("and the group is empty", fleet_machine(&f, "m-000")->values[0], "");
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_drain_tells_the_operator_before_the_provider)
{
    struct fleet f;
    struct machine m;

    one(&f, NULL, MACHINE_CONFIGURED, 0);
    f.latency_ms[EFFECT_DRAIN] = 4000;
    fleet_decide(&f);
    CHECK_HAS("in this order", f.trace, "RECLAIM NODE_STATE DRAIN ");
    CHECK_U64("grace", f.last[EFFECT_RECLAIM].drain.grace_ms, RECLAIM_GRACE_MS);
    CHECK_I64("nobody preempts", f.last[EFFECT_RECLAIM].drain.preemptor_priority, 0);
    CHECK_U64("the provider's grace", f.last[EFFECT_DRAIN].drain.grace_ms, RECLAIM_GRACE_MS);
    CHECK_U32("Draining", fleet_state(&f, "m-000"), MACHINE_DRAINING);
    CHECK_STR("the cluster stays", fleet_record(&f, "m-000").cluster, STR("a"));
    fleet_run(&f, 4000);
    m = fleet_record(&f, "m-000");
    CHECK_U32("Idle", m.state, MACHINE_IDLE);
    CHECK_SIZE("no cluster", m.cluster.len, 0);
    CHECK_SIZE("no stamp", m.stamp.fingerprint.len, 0);
    CHECK("observed", f.last_seconds[OBSERVE_DRAIN] == 4);
    outcome_is(&f, "audited", "reclaim m-000 a success phase3.excess 600000 ");
    fleet_close(&f);
}

TEST(a_reclaim_without_a_session_says_so_and_drains_all_the_same)
{
    struct fleet f;

    one(&f, NULL, MACHINE_CONFIGURED, 0);
    fleet_session(&f, "a", false);
    fleet_cycle(&f);
    CHECK_U64("nobody to ask", f.seen[EFFECT_RECLAIM], 0);
    CHECK_HAS("said", f.logs,
              "WARN reclaim fallback: no operator session; PDB-respecting drain skipped");
    CHECK_U32("Idle", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_close(&f);
}

TEST(a_preemption_names_its_priority_and_keeps_the_machine_for_it)
{
    struct fleet f;
    struct machine m;

    one(&f, NULL, MACHINE_IDLE, 1);
    fleet_cycle(&f);
    CHECK_U32("low has it", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_demand(&f, "b", 2000000, 1);
    f.latency_ms[EFFECT_DRAIN] = 1000;
    fleet_decide(&f);
    CHECK_U64("asked although it is silent for a Preempt", f.seen[EFFECT_RECLAIM], 1);
    CHECK_I64("by whom", f.last[EFFECT_RECLAIM].drain.preemptor_priority, 2000000);
    CHECK_U64("a short grace", f.last[EFFECT_DRAIN].drain.grace_ms, 10 * 1000);
    m = fleet_record(&f, "m-000");
    CHECK_STR("promised", m.promised.cluster, STR("b"));
    CHECK_I64("at that priority", m.promised.priority, 2000000);
    CHECK("when", m.promised.at.ms > 0);
    fleet_run(&f, 1000);
    CHECK_STR("kept for it", fleet_record(&f, "m-000").promised.cluster, STR("b"));
    fleet_session(&f, "b", true);
    fleet_cycle(&f);
    CHECK_STR("and given to it", fleet_record(&f, "m-000").cluster, STR("b"));
    fleet_close(&f);
}

TEST(an_idle_machine_is_released_after_its_hold)
{
    struct fleet f;
    struct machine m;

    one(&f, NULL, MACHINE_IDLE, 0);
    fleet_cycle(&f);
    CHECK_U64("held", f.seen[EFFECT_DELETE], 0);
    fleet_run(&f, 600 * 1000);
    fleet_cycle(&f);
    m = fleet_record(&f, "m-000");
    CHECK_U32("quota again", m.state, MACHINE_SPECULATIVE);
    CHECK_SIZE("no host", m.host_ref.len + m.host_provider.len, 0);
    CHECK_U64("counted", core_counts(f.core)->idle_releases, 1);
    outcome_is(&f, "audited", "delete m-000  success phase3.release 0 ");
    fleet_cycles(&f, 3);
    CHECK_U64("once", f.seen[EFFECT_DELETE], 1);
    CHECK_U32("unchanged", fleet_state(&f, "m-000"), MACHINE_SPECULATIVE);
    fleet_close(&f);
}

/* ---- a provider that only begins ---- */

TEST(an_asynchronous_ack_ends_the_action_and_the_list_finishes_it)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = f.fate[EFFECT_CONFIGURE] = f.fate[EFFECT_DRAIN] =
        f.fate[EFFECT_DELETE] = FATE_ASYNC;
    fleet_cycle(&f);
    CHECK_U32("Creating", fleet_state(&f, "m-000"), MACHINE_CREATING);
    outcome_is(&f, "a success", "provision m-000 a success");
    CHECK_U32("nothing is under way", core_counts(f.core)->inflight, 0);
    fleet_cycles(&f, 4); /* 25 s */
    CHECK_U32("Idle by the List, then bootstrapped", fleet_state(&f, "m-000"), MACHINE_CONFIGURING);
    CHECK_U64("not observed yet", f.observed[OBSERVE_CONFIGURE], 0);
    fleet_cycles(&f, 4);
    CHECK_U32("Configured by the List", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK_U64("observed when it ended", f.observed[OBSERVE_CONFIGURE], 1);
    CHECK("from when it began", f.last_seconds[OBSERVE_CONFIGURE] >= 25);
    CHECK_I64("with its stamp", fleet_record(&f, "m-000").stamp.priority, 1000);
    fleet_demand(&f, "a", 1000, 0);
    fleet_cycle(&f);
    CHECK_U32("Draining", fleet_state(&f, "m-000"), MACHINE_DRAINING);
    fleet_cycles(&f, 4);
    CHECK_U32("Idle by the List", fleet_state(&f, "m-000"), MACHINE_IDLE);
    CHECK_U64("observed", f.observed[OBSERVE_DRAIN], 1);
    CHECK_SIZE("no stamp", fleet_record(&f, "m-000").stamp.fingerprint.len, 0);
    fleet_cycles(&f, 60);
    CHECK_U32("Deleting", fleet_state(&f, "m-000"), MACHINE_DELETING);
    CHECK_U64("counted already", core_counts(f.core)->idle_releases, 1);
    fleet_cycles(&f, 4);
    CHECK_U32("Speculative by the List", fleet_state(&f, "m-000"), MACHINE_SPECULATIVE);
    CHECK_U64("no call twice",
              f.seen[EFFECT_CREATE] + f.seen[EFFECT_CONFIGURE] + f.seen[EFFECT_DRAIN] +
                  f.seen[EFFECT_DELETE],
              4);
    CHECK_U64("and no Get", f.seen[EFFECT_GET], 0);
    fleet_check(&f);
    fleet_close(&f);
}

/* ---- everything that can go wrong with one call ---- */

static const struct {
    const char *why;
    enum machine_state start;
    uint32_t units;
    enum effect_kind kind;
    enum fate fate;
    enum machine_state after; /* once answered */
    const char *audit, *error;
} troubles[] = {
    {"create refused", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_REFUSED, MACHINE_FAILED,
     "provision m-000 a provider_error", "create: the provider says no"},
    {"create not found", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_NOT_FOUND, MACHINE_FAILED,
     "provision m-000 a provider_error", "create: not found"},
    {"create acked with garbage", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_GARBAGE,
     MACHINE_FAILED, "provision m-000 a provider_error",
     "create: ack rejected: price_per_hour: nan is no price"},
    {"create fenced", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_FENCED, MACHINE_CREATING,
     "provision m-000 a fenced", ""},
    {"configure fenced", MACHINE_IDLE, 1, EFFECT_CONFIGURE, FATE_FENCED, MACHINE_CONFIGURING,
     "bootstrap m-000 a fenced", ""},
    {"drain fenced", MACHINE_CONFIGURED, 0, EFFECT_DRAIN, FATE_FENCED, MACHINE_DRAINING,
     "reclaim m-000 a fenced", ""},
    {"delete fenced", MACHINE_IDLE, 0, EFFECT_DELETE, FATE_FENCED, MACHINE_DELETING,
     "delete m-000  fenced", ""},
    {"create timed out", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_LOST_BEFORE, MACHINE_CREATING,
     "provision m-000 a ctx_canceled", ""},
    {"create not sent", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_UNSENT, MACHINE_CREATING,
     "provision m-000 a provider_error", ""},
    {"configure not sent", MACHINE_IDLE, 1, EFFECT_CONFIGURE, FATE_UNSENT, MACHINE_CONFIGURING,
     "bootstrap m-000 a provider_error", ""},
    {"drain not sent", MACHINE_CONFIGURED, 0, EFFECT_DRAIN, FATE_UNSENT, MACHINE_DRAINING,
     "reclaim m-000 a provider_error", ""},
    {"delete not sent", MACHINE_IDLE, 0, EFFECT_DELETE, FATE_UNSENT, MACHINE_DELETING,
     "delete m-000  provider_error", ""},
    {"no session", MACHINE_IDLE, 1, EFFECT_ASK_BLOB, FATE_NO_SESSION, MACHINE_IDLE,
     "bootstrap m-000 a no_session", ""},
    {"blob timed out", MACHINE_IDLE, 1, EFFECT_ASK_BLOB, FATE_BLOB_TIMEOUT, MACHINE_IDLE,
     "bootstrap m-000 a ctx_canceled", ""},
    {"no room for the blob", MACHINE_IDLE, 1, EFFECT_ASK_BLOB, FATE_BLOB_NO_ROOM, MACHINE_IDLE,
     "bootstrap m-000 a blob_error", ""},
    {"blob refused", MACHINE_IDLE, 1, EFFECT_ASK_BLOB, FATE_BLOB_ERROR, MACHINE_IDLE,
     "bootstrap m-000 a blob_error", ""},
    {"configure refused", MACHINE_IDLE, 1, EFFECT_CONFIGURE, FATE_REFUSED, MACHINE_FAILED,
     "bootstrap m-000 a provider_error", "configure: the provider says no"},
    {"configure timed out", MACHINE_IDLE, 1, EFFECT_CONFIGURE, FATE_LOST_BEFORE,
     MACHINE_CONFIGURING, "bootstrap m-000 a ctx_canceled", ""},
    {"configure acked with garbage", MACHINE_IDLE, 1, EFFECT_CONFIGURE, FATE_GARBAGE,
     MACHINE_CONFIGURING, "bootstrap m-000 a provider_error", ""},
    {"drain refused", MACHINE_CONFIGURED, 0, EFFECT_DRAIN, FATE_REFUSED, MACHINE_FAILED,
     "reclaim m-000 a provider_error", "drain: the provider says no"},
    {"drain timed out", MACHINE_CONFIGURED, 0, EFFECT_DRAIN, FATE_LOST_BEFORE, MACHINE_DRAINING,
     "reclaim m-000 a ctx_canceled", ""},
    {"delete refused", MACHINE_IDLE, 0, EFFECT_DELETE, FATE_REFUSED, MACHINE_FAILED,
     "delete m-000  provider_error", "delete: the provider says no"},
    {"delete not supported", MACHINE_IDLE, 0, EFFECT_DELETE, FATE_NOT_SUPPORTED, MACHINE_FAILED,
     "delete m-000  provider_error", "delete: not supported"},
    {"delete timed out", MACHINE_IDLE, 0, EFFECT_DELETE, FATE_LOST_BEFORE, MACHINE_DELETING,
     "delete m-000  ctx_canceled", ""},
};

TEST(no_is_failed_and_rests_and_no_answer_is_not_known)
{
    for (size_t i = 0; i < ARRAY_LEN(troubles); i++) {
        const char *why = troubles[i].why;
        struct machine m;
        struct fleet f;

        one(&f, NULL, troubles[i].start, troubles[i].units);
        f.fate[troubles[i].kind] = troubles[i].fate;
        f.latency_ms[EFFECT_GET] = 60 * 1000; /* so that its answer is not in yet */
        if (troubles[i].kind == EFFECT_DELETE) fleet_run(&f, 600 * 1000);
        fleet_decide(&f);
        fleet_run(&f, 30 * 1000);
        m = fleet_record(&f, "m-000");
        CHECK_U32(why, m.state, troubles[i].after);
        CHECK_STR(why, m.last_error, str_from(troubles[i].error));
        CHECK_HAS(why, f.audit, troubles[i].audit);
        if (troubles[i].after == MACHINE_IDLE) { /* Q6 */
            CHECK_SIZE(why, m.cluster.len + m.stamp.fingerprint.len + m.stamp.group.len, 0);
        }
        CHECK_HAS(why, f.logs,
                  troubles[i].fate == FATE_FENCED ? "ERROR provider fenced this shard's mutation"
                                                  : "WARN action failed");
        CHECK_U32(why, core_counts(f.core)->inflight, 0);
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* What the provider fenced it has not done: the machine is what it was, and none is bought in its
 * place. */
TEST(a_fenced_call_makes_no_machine_failed)
{
    static const enum effect_kind kinds[] = {EFFECT_CONFIGURE, EFFECT_DRAIN};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        bool drains = kinds[i] == EFFECT_DRAIN;
        enum machine_state was = drains ? MACHINE_CONFIGURED : MACHINE_IDLE;
        struct fleet f;

        fleet_open(&f, &(struct core_options){.rails = {.reclaim_fraction = 1}}, 64);
        fleet_add(&f, "i", 4, was, drains ? "a" : NULL);
        fleet_add(&f, "m", 8, MACHINE_SPECULATIVE, NULL);
        fleet_list(&f);
        fleet_demand(&f, "a", 1, drains ? 0 : 4);
        f.fate[kinds[i]] = FATE_FENCED;
        fleet_cycle(&f);
        fleet_run(&f, 30 * 1000);
        CHECK("tried", f.seen[kinds[i]] >= 4);
        CHECK_SIZE("as they were", fleet_count(&f, was), 4);
        CHECK_SIZE("none is Failed", fleet_count(&f, MACHINE_FAILED), 0);
        fleet_cycles(&f, 3);
        CHECK_U64("none is bought", f.seen[EFFECT_CREATE], 0);
        CHECK_SIZE("none is Failed", fleet_count(&f, MACHINE_FAILED), 0);
        fleet_check(&f);
        fleet_close(&f);
    }
}

static void hold(struct fleet *f, enum core_hold why)
{
    fleet_hold(f, why);
    CHECK_U32("nothing waits", core_counts(f->core)->queued, 0);
}

/* Both ways, while two purchases are under way and six wait. */
TEST(a_held_core_finishes_what_is_under_way_and_begins_nothing)
{
    static const struct {
        enum core_hold why;
        const char *text, *cycle;
    } cases[] = {
        {CORE_PAUSED, "why=actuation is paused", "WARN actuation paused: decided actions"},
        {CORE_FENCED, "why=fenced by a newer process", "WARN fenced: decided actions suppressed"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_options options = {.concurrency = 2, .rails = {.reclaim_fraction = 1}};
        const struct core_counts *counts;
        struct fleet f;

        fleet_open(&f, &options, 64);
        fleet_add(&f, "m", 12, MACHINE_SPECULATIVE, NULL);
        fleet_add(&f, "c", 3, MACHINE_CONFIGURED, "b");
        fleet_list(&f);
        fleet_demand(&f, "a", 1, 8);
        fleet_demand(&f, "b", 1, 3);
        f.latency_ms[EFFECT_CREATE] = 5000;
        fleet_cycle(&f);
        counts = core_counts(f.core);
        CHECK_U32("under way", counts->inflight, 2);
        CHECK_U32("waiting", counts->queued, 6);
        hold(&f, cases[i].why);
        CHECK_HAS("said", f.logs, cases[i].text);
        CHECK_U64("suppressed", counts->suppressed[ACTION_PROVISION], 6);
        CHECK_HAS("audited", f.audit, "suppressed");
        fleet_demand(&f, "b", 1, 0);
        fleet_cycles(&f, 4);
        fleet_run(&f, 60 * 1000);
        CHECK_U64("no call but the two", f.seen[EFFECT_CREATE], 2);
        CHECK_U64("none after them", f.seen[EFFECT_CONFIGURE] + f.seen[EFFECT_DRAIN], 0);
        CHECK_U64("no operator is asked", f.seen[EFFECT_ASK_BLOB] + f.seen[EFFECT_RECLAIM], 0);
        CHECK_U32("nothing is under way", counts->inflight, 0);
        CHECK_SIZE("what was bought is Idle", fleet_count(&f, MACHINE_IDLE), 2);
        CHECK_SIZE("the rest is for sale", fleet_count(&f, MACHINE_SPECULATIVE), 10);
        CHECK_HAS("each cycle says so", f.logs, cases[i].cycle);
        CHECK("it goes on deciding", counts->suppressed[ACTION_RECLAIM] >= 3);
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* What waited for a machine that is Failed or stuck leaves somebody who comes back to it. */
TEST(a_held_core_forgets_no_machine_that_somebody_must_look_at)
{
    struct core_options options = {.concurrency = 1, .rest_first_ms = 1000, .stuck_ms = 2000};
    struct fleet f;

    fleet_open(&f, &options, 64);
    fleet_add(&f, "m", 1, MACHINE_SPECULATIVE, NULL);
    fleet_add(&f, "x", 3, MACHINE_FAILED, NULL);
    fleet_add(&f, "d", 2, MACHINE_DELETING, NULL);
    fleet_list(&f);
    fleet_demand(&f, "a", 1, 1);
    f.latency_ms[EFFECT_CREATE] = 600 * 1000;
    fleet_decide(&f);
    fleet_cycles(&f, 3);
    CHECK("some wait behind the purchase", core_counts(f.core)->queued >= 5);
    hold(&f, CORE_PAUSED);
    fleet_check(&f);
    CHECK_U64("nothing was asked of the provider", f.seen[EFFECT_DELETE], 0);
    fleet_cycles(&f, 200);
    CHECK_U64("nor later", f.seen[EFFECT_DELETE], 0);
    CHECK_SIZE("Failed as the provider says", fleet_count(&f, MACHINE_FAILED), 3);
    fleet_check(&f);
    fleet_close(&f);
}

/* The driver does not send them any more: each machine is again what the provider says. */
TEST(calls_that_a_held_core_cannot_send_leave_no_machine_half_made)
{
    static const struct {
        enum effect_kind kind;
        enum machine_state state;
        uint32_t units;
    } cases[] = {
        {EFFECT_CREATE, MACHINE_SPECULATIVE, 1},
        {EFFECT_CONFIGURE, MACHINE_IDLE, 1},
        {EFFECT_DRAIN, MACHINE_CONFIGURED, 0},
        {EFFECT_DELETE, MACHINE_IDLE, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet f;

        one(&f, NULL, cases[i].state, cases[i].units);
        f.fate[cases[i].kind] = FATE_UNSENT;
        f.latency_ms[cases[i].kind] = 1000;
        if (cases[i].kind == EFFECT_DELETE) fleet_run(&f, 600 * 1000);
        fleet_decide(&f);
        fleet_run(&f, 500);
        CHECK_U64("on its way", f.seen[cases[i].kind], 1);
        hold(&f, CORE_FENCED);
        fleet_run(&f, 30 * 1000);
        CHECK_U32("as it was", fleet_state(&f, "m-000"), cases[i].state);
        CHECK_U32("nothing is under way", core_counts(f.core)->inflight, 0);
        fleet_cycles(&f, 100);
        CHECK_U64("never again", f.seen[cases[i].kind], 1);
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* It is not the machine that lacks something. */
TEST(an_operator_without_a_blob_makes_nobody_buy_another_machine)
{
    struct fleet f;

    fleet_open(&f, NULL, 64);
    fleet_add(&f, "m", 8, MACHINE_SPECULATIVE, "");
    f.fate[EFFECT_ASK_BLOB] = FATE_BLOB_ERROR;
    fleet_demand(&f, "a", 1, 2);
    fleet_cycles(&f, 12);
    CHECK_U64("bought", f.executed[EFFECT_CREATE], 2);
    CHECK("asked again and again", f.seen[EFFECT_ASK_BLOB] > 4);
    f.fate[EFFECT_ASK_BLOB] = FATE_DONE;
    fleet_cycles(&f, 16);
    CHECK_SIZE("served", fleet_count(&f, MACHINE_CONFIGURED), 2);
    fleet_check(&f);
    fleet_close(&f);
}

/* A template that cannot be rendered: for this profile, and for as long as nobody edits it. */
TEST(an_error_instead_of_a_blob_is_repeated_with_growing_pauses)
{
    struct fleet f;
    uint64_t asked;

    fleet_open(&f, NULL, 64);
    fleet_add(&f, "m", 8, MACHINE_IDLE, "");
    f.fate[EFFECT_ASK_BLOB] = FATE_BLOB_ERROR;
    fleet_demand(&f, "a", 1, 4);
    fleet_cycles(&f, 600);
    asked = f.seen[EFFECT_ASK_BLOB];
    CHECK("not in every cycle", asked >= 4 * 5 && asked <= 4 * 30);
    CHECK_SIZE("no machine rests or fails", fleet_count(&f, MACHINE_IDLE), 4);
    CHECK_SIZE("the others were not wanted", fleet_count(&f, MACHINE_SPECULATIVE), 4);
    fleet_demand(&f, "b", 1, 1);
    fleet_cycles(&f, 1);
    CHECK_U64("another cluster is asked", f.seen[EFFECT_ASK_BLOB], asked + 1);
    f.fate[EFFECT_ASK_BLOB] = FATE_DONE;
    fleet_session(&f, "a", false);
    fleet_session(&f, "a", true);
    fleet_cycles(&f, 2);
    CHECK("an operator that starts again is asked at once",
          fleet_count(&f, MACHINE_CONFIGURED) >= 4);
    fleet_check(&f);
    fleet_close(&f);
}

/* Whatever happened: when the trouble is over, the machine gets where it should. */
TEST(every_trouble_ends)
{
    for (size_t i = 0; i < ARRAY_LEN(troubles); i++) {
        const char *why = troubles[i].why;
        enum machine_state want = troubles[i].units ? MACHINE_CONFIGURED : MACHINE_SPECULATIVE;
        struct fleet f;

        one(&f, NULL, troubles[i].start, troubles[i].units);
        f.fate[troubles[i].kind] = troubles[i].fate;
        if (troubles[i].kind == EFFECT_DELETE) fleet_run(&f, 600 * 1000);
        fleet_cycles(&f, 4);
        f.fate[troubles[i].kind] = FATE_DONE;
        for (int cycle = 0; cycle < 600 && fleet_state(&f, "m-000") != want; cycle++)
            fleet_cycles(&f, 1);
        CHECK_U32(why, fleet_state(&f, "m-000"), want);
        fleet_run(&f, 1000);
        fleet_check(&f);
        CHECK_U32(why, fleet_machine(&f, "m-000")->state, want);
        fleet_close(&f);
    }
}

TEST(a_lost_answer_is_resolved_by_get_without_acting_again)
{
    static const struct {
        const char *why;
        enum machine_state start, after;
        uint32_t units;
        enum effect_kind kind;
    } cases[] = {
        {"create", MACHINE_SPECULATIVE, MACHINE_IDLE, 1, EFFECT_CREATE},
        {"configure", MACHINE_IDLE, MACHINE_CONFIGURED, 1, EFFECT_CONFIGURE},
        {"drain", MACHINE_CONFIGURED, MACHINE_IDLE, 0, EFFECT_DRAIN},
        {"delete", MACHINE_IDLE, MACHINE_SPECULATIVE, 0, EFFECT_DELETE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet f;

        one(&f, NULL, cases[i].start, cases[i].units);
        f.fate[cases[i].kind] = FATE_LOST_AFTER;
        if (cases[i].kind == EFFECT_DELETE) fleet_run(&f, 600 * 1000);
        fleet_decide(&f);
        fleet_run(&f, 30 * 1000);
        CHECK_U64("asked once, at once", f.seen[EFFECT_GET], 1);
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].after);
        CHECK_U64("it was in doubt", core_counts(f.core)->doubts, 1);
        CHECK_U32("and is no more", core_counts(f.core)->in_doubt, 0);
        CHECK_U64("done once", f.executed[cases[i].kind], 1);
        if (cases[i].kind == EFFECT_CONFIGURE) {
            CHECK_I64("protected", fleet_record(&f, "m-000").stamp.priority, 1000);
            CHECK_U64("observed, too", f.observed[OBSERVE_CONFIGURE], 1);
        }
        fleet_check(&f);
        fleet_close(&f);
    }
}

TEST(get_is_asked_again_with_growing_pauses)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = f.fate[EFFECT_GET] = FATE_LOST_BEFORE;
    fleet_decide(&f);
    for (int i = 0; i < 360; i++) { /* an hour, and no List */
        fleet_run(&f, 10 * 1000);
        fleet_decide(&f);
    }
    CHECK_U32("in doubt all the time", core_counts(f.core)->in_doubt, 1);
    CHECK("not in every cycle", f.seen[EFFECT_GET] > 10 && f.seen[EFFECT_GET] < 30);
    CHECK_U32("it keeps its state", fleet_state(&f, "m-000"), MACHINE_CREATING);
    CHECK_U64("and is not acted on", f.seen[EFFECT_CREATE], 1);
    f.fate[EFFECT_GET] = FATE_DONE;
    f.fate[EFFECT_CREATE] = FATE_DONE;
    for (int i = 0; i < 40; i++) {
        fleet_run(&f, 10 * 1000);
        fleet_decide(&f);
    }
    CHECK_U32("believed, and bought again", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_close(&f);
}

TEST(a_machine_the_provider_does_not_know_goes)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = FATE_LOST_BEFORE;
    f.fate[EFFECT_GET] = FATE_NOT_FOUND;
    fleet_decide(&f);
    fleet_run(&f, 30 * 1000);
    CHECK_U32("gone", inventory_counts(f.core->inventory).machines, 0);
    fleet_check(&f);
    fleet_close(&f);
}

/* ---- acks that say something else ---- */

static void answer_with(struct fleet *f, enum machine_state said)
{
    struct fleet_machine *m = fleet_machine(f, "m-000");
    struct effects out;
    struct machine machine = {.id = STR("m-000"),
                              .state = said,
                              .host_provider = STR("p"),
                              .host_ref = STR("other"),
                              .capacity_type = CAPACITY_SPOT,
                              .price_per_hour = 3,
                              .interruption_probability = 0.5};
    struct call_answer answer = {.end = CALL_DONE, .machine = &machine};
    uint32_t index;

    CHECK_OK("cpu", dimensions_index(core_dimensions(f->core), STR("cpu"), &index, NULL));
    CHECK_OK("cpu", resources_set(&machine.resources, index, 4000, QUANTITY_DECIMAL_SI));
    CHECK_OK("cpu", resources_set(&machine.allocatable, index, 8000, QUANTITY_DECIMAL_SI));
    if (said == MACHINE_CONFIGURED || said == MACHINE_DRAINING) machine.cluster = STR("a");
    if (said == MACHINE_SPECULATIVE || said == MACHINE_CREATING)
        machine.host_provider = machine.host_ref = STR_EMPTY;
    if (said == MACHINE_FAILED) machine.last_error = STR("burnt");
    m->state = said;
    effects_init(&out);
    core_answered(f->core, f->calls[0].action, &answer, fleet_now(f), (wall_time){1}, &out);
    for (size_t i = 0; i < out.count; i++)
        if (out.items[i].kind == EFFECT_AUDIT)
            snprintf(f->audit, sizeof f->audit, "%s",
                     action_outcome_name(out.items[i].audit.outcome));
    effects_deinit(&out);
    f->call_count = 0;
}

TEST(what_an_ack_says_is_believed)
{
    static const struct {
        const char *why;
        enum machine_state start;
        uint32_t units;
        enum effect_kind kind;
        enum machine_state said;
        const char *outcome;
    } cases[] = {
        {"created, and Failed", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, MACHINE_FAILED,
         "provider_error"},
        {"create did nothing", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, MACHINE_SPECULATIVE,
         "transition_error"},
        {"raced to Idle", MACHINE_IDLE, 1, EFFECT_CONFIGURE, MACHINE_IDLE,
         "transition_raced_to_idle"},
        {"configured, and Failed", MACHINE_IDLE, 1, EFFECT_CONFIGURE, MACHINE_FAILED,
         "provider_error"},
        {"configured, and gone to quota", MACHINE_IDLE, 1, EFFECT_CONFIGURE, MACHINE_SPECULATIVE,
         "transition_error"},
        {"drain had no effect", MACHINE_CONFIGURED, 0, EFFECT_DRAIN, MACHINE_CONFIGURED,
         "transition_error"},
        {"drained, and Failed", MACHINE_CONFIGURED, 0, EFFECT_DRAIN, MACHINE_FAILED,
         "provider_error"},
        {"delete had no effect", MACHINE_IDLE, 0, EFFECT_DELETE, MACHINE_IDLE, "transition_error"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet f;

        one(&f, NULL, cases[i].start, cases[i].units);
        f.latency_ms[cases[i].kind] = 20 * 1000;
        if (cases[i].kind == EFFECT_DELETE) fleet_run(&f, 600 * 1000);
        fleet_decide(&f);
        fleet_run(&f, 0);
        CHECK_SIZE(cases[i].why, f.call_count, 1);
        answer_with(&f, cases[i].said);
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].said);
        CHECK_TEXT(cases[i].why, f.audit, cases[i].outcome);
        fleet_check(&f);
        fleet_close(&f);
    }
}

TEST(a_create_ack_brings_everything_the_provider_owns)
{
    struct fleet f;
    struct machine m;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.latency_ms[EFFECT_CREATE] = 20 * 1000;
    fleet_decide(&f);
    answer_with(&f, MACHINE_IDLE);
    m = fleet_record(&f, "m-000");
    CHECK_U32("on its way", m.state, MACHINE_CONFIGURING);
    CHECK_STR("host", m.host_ref, STR("other"));
    CHECK("price and probability", m.price_per_hour == 3 && m.interruption_probability == 0.5);
    CHECK_I64("allocatable (Q5)", m.allocatable.milli[0], 8000);
    CHECK_U32("capacity type", m.capacity_type, CAPACITY_SPOT);
    fleet_close(&f);
}

/* ---- what an executor finds ---- */

/* One action, put into the queue past the guards, and begun; how it ended. */
static const char *run_one(struct fleet *f, enum action_kind kind, const char *machine,
                           bool with_profile)
{
    const struct kind *bought = needs_cluster(f->core->needs, STR("a"))->set.rows[0].kind;
    struct action action = {.kind = kind, .machine = str_from(machine), .cluster = STR("a")};
    const struct core_counts *counts = core_counts(f->core);
    enum action_outcome outcome = 0;
    struct effects out;
    struct machine_task *task;

    effects_init(&out);
    core_begin_at(f->core, fleet_now(f), (wall_time){1}, &out);
    CHECK_OK("open", task_open(f->core, &action, with_profile ? &bought->profile : NULL,
                               CAUSE_DECIDED, &task));
    running_start(f->core);
    for (size_t i = 0; i < out.count; i++)
        CHECK("nothing is asked of anybody, nor reported", out.items[i].kind >= EFFECT_AUDIT);
    effects_deinit(&out);
    while (outcome < OUTCOME_OTHER && !counts->outcomes[kind][outcome]) outcome++;
    return action_outcome_name(outcome);
}

TEST(an_action_that_finds_another_machine_than_it_should_does_nothing)
{
    static const struct {
        const char *why;
        enum action_kind kind;
        enum machine_state found; /* MACHINE_UNSPECIFIED: none */
        bool profile;
        const char *outcome;
    } cases[] = {
        {"a Need must have asked for it", ACTION_BOOTSTRAP, MACHINE_IDLE, false, "missing_profile"},
        {"a Need must have", ACTION_PROVISION, MACHINE_SPECULATIVE, false, "missing_profile"},
        {"not Idle", ACTION_BOOTSTRAP, MACHINE_SPECULATIVE, true, "stale_state"},
        {"not Speculative", ACTION_PROVISION, MACHINE_IDLE, true, "stale_state"},
        {"drained already", ACTION_RECLAIM, MACHINE_IDLE, false, "success"},
        {"drained already", ACTION_PREEMPT, MACHINE_SPECULATIVE, false, "success"},
        {"deleted already", ACTION_DELETE, MACHINE_SPECULATIVE, false, "success"},
        {"taken by somebody", ACTION_DELETE, MACHINE_CONFIGURED, false, "success"},
        {"not there", ACTION_BOOTSTRAP, MACHINE_UNSPECIFIED, true, "inventory_miss"},
        {"not there", ACTION_PROVISION, MACHINE_UNSPECIFIED, true, "inventory_miss"},
        {"not there", ACTION_RECLAIM, MACHINE_UNSPECIFIED, false, "inventory_miss"},
        {"not there", ACTION_PREEMPT, MACHINE_UNSPECIFIED, false, "inventory_miss"},
        {"not there", ACTION_DELETE, MACHINE_UNSPECIFIED, false, "inventory_miss"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum machine_state from = cases[i].found ? cases[i].found : MACHINE_IDLE;
        struct fleet f;

        one(&f, NULL, from, 1);
        CHECK_TEXT(cases[i].why,
                   run_one(&f, cases[i].kind, cases[i].found ? "m-000" : "none", cases[i].profile),
                   cases[i].outcome);
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), from);
        CHECK_U64("nothing was released", core_counts(f.core)->idle_releases, 0);
        fleet_check(&f);
        fleet_close(&f);
    }
}

static void change(struct fleet *f, enum machine_state state, const char *cluster,
                   struct str fingerprint)
{
    struct effects out;
    struct machine m = fleet_record(f, "m-000");

    m.state = state;
    m.host_provider = m.host_ref = STR("h");
    if (state == MACHINE_SPECULATIVE) m.host_provider = m.host_ref = STR_EMPTY;
    m.cluster = str_from(cluster);
    m.stamp = (struct machine_stamp){.fingerprint = fingerprint};
    effects_init(&out);
    CHECK_OK("change",
             inventory_apply(f->core->inventory, &m, INVENTORY_OBSERVED, fleet_now(f), NULL, NULL));
    effects_deinit(&out);
}

TEST(an_executor_has_the_last_word)
{
    static const struct {
        const char *why;
        enum machine_state start, found;
        uint32_t units;
        bool same_need;
        const char *audit;
    } cases[] = {
        {"configured for the same Need already", MACHINE_IDLE, MACHINE_CONFIGURED, 1, true,
         "bootstrap m-000 a success"},
        {"configured for another", MACHINE_IDLE, MACHINE_CONFIGURED, 1, false,
         "bootstrap m-000 a stale_state"},
        {"not Idle any more", MACHINE_IDLE, MACHINE_SPECULATIVE, 1, false,
         "bootstrap m-000 a stale_state"},
        {"not Speculative any more", MACHINE_SPECULATIVE, MACHINE_IDLE, 1, false,
         "provision m-000 a stale_state"},
        {"not Configured any more", MACHINE_CONFIGURED, MACHINE_IDLE, 0, false,
         "reclaim m-000 a success"},
        {"not there any more", MACHINE_IDLE, MACHINE_UNSPECIFIED, 1, false,
         "bootstrap m-000 a inventory_miss"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_options options = {.concurrency = 1};
        struct str fingerprint;
        struct fleet f;

        /* z-000 is drained first, so that m-000 has to wait */
        fleet_open(&f, &options, 8);
        fleet_add(&f, "z", 1, MACHINE_CONFIGURED, "z");
        fleet_add(&f, "m", 1, cases[i].start, cases[i].start == MACHINE_CONFIGURED ? "a" : NULL);
        fleet_list(&f);
        fleet_session(&f, "a", true);
        for (int kind = 0; kind < FLEET_EFFECTS; kind++) f.latency_ms[kind] = 1000;
        fleet_demand(&f, "z", 1000, 0);
        fleet_decide(&f);
        fleet_demand(&f, "a", 1000, cases[i].units);
        fleet_decide(&f);
        CHECK_U32(cases[i].why, core_counts(f.core)->queued, 1);
        CHECK_U32(cases[i].why, core_counts(f.core)->inflight, 1);
        CHECK("one waits", core_is_pending(f.core, STR("m-000")));
        fingerprint = task_find(f.core, STR("m-000"))->key.fingerprint;
        if (cases[i].found == MACHINE_UNSPECIFIED)
            CHECK_OK("gone", inventory_remove(f.core->inventory, STR("m-000")));
        else
            change(&f, cases[i].found, cases[i].found == MACHINE_CONFIGURED ? "a" : "",
                   cases[i].same_need ? fingerprint : STR("p=9"));
        for (int kind = 0; kind < FLEET_EFFECTS; kind++) f.fate[kind] = FATE_REFUSED;
        f.fate[EFFECT_ASK_BLOB] = FATE_NO_SESSION;
        fleet_run(&f, 3000);
        CHECK_HAS(cases[i].why, f.audit, cases[i].audit);
        CHECK_U32("all ended", core_counts(f.core)->inflight + core_counts(f.core)->queued, 0);
        fleet_close(&f);
    }
}
