/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that somebody must come back to: resting, called Failed, stuck, in doubt (shard.md Q1,
 * Q3, Q19, Q20). */
#include <stdio.h>

#include "fleet.h"
#include "lib/test.h"

static void one(struct fleet *f, const struct core_options *options, enum machine_state state,
                uint32_t units)
{
    fleet_open(f, options, 64);
    fleet_add(f, "m", 1, state, state == MACHINE_CONFIGURED ? "a" : NULL);
    fleet_list(f);
    fleet_session(f, "a", true);
    fleet_demand(f, "a", 1000, units);
}

/* Milliseconds until the provider is asked for this again; in steps of a second. */
static uint64_t until_next(struct fleet *f, enum effect_kind kind, uint64_t most)
{
    uint64_t before = f->seen[kind], ms = 0;

    for (; f->seen[kind] == before && ms < most; ms += 1000) {
        fleet_run(f, 1000);
        fleet_cycle(f);
    }
    return ms;
}

TEST(a_refused_machine_rests_longer_every_time_and_at_most_so_long)
{
    struct core_options options = {.rest_first_ms = 30 * 1000, .rest_most_ms = 300 * 1000};
    static const uint64_t rests[] = {30, 60, 120, 240, 300, 300};
    struct fleet f;

    one(&f, &options, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = FATE_REFUSED;
    fleet_cycle(&f);
    CHECK_U64("refused", f.seen[EFFECT_CREATE], 1);
    for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
        uint64_t ms = until_next(&f, EFFECT_CREATE, 1000 * 1000);
        /* the List says Speculative all the time, and is not believed before the rest is over */
        CHECK("not earlier", ms >= rests[i] * 750);
        CHECK("nor later", ms <= rests[i] * 1000 + 2000);
    }
    f.fate[EFFECT_CREATE] = FATE_DONE;
    (void)until_next(&f, EFFECT_CREATE, 1000 * 1000);
    CHECK_U32("bought at last", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK("and forgotten", !work_find(f.core, STR("m-000")));
    fleet_close(&f);
}

/* Its node serves on meanwhile. */
TEST(a_machine_whose_drain_was_refused_rests_though_it_is_configured)
{
    static const uint64_t rests[] = {30, 60, 120};
    struct fleet f;

    one(&f, NULL, MACHINE_CONFIGURED, 0);
    f.fate[EFFECT_DRAIN] = FATE_REFUSED;
    fleet_cycle(&f);
    CHECK_U32("refused", fleet_state(&f, "m-000"), MACHINE_FAILED);
    for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
        uint64_t ms;
        fleet_run(&f, 1000);
        fleet_list(&f);
        CHECK_U32("it is what it was", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
        ms = 1000 + until_next(&f, EFFECT_DRAIN, 1000 * 1000);
        CHECK("not earlier", ms >= rests[i] * 750);
        CHECK("nor later", ms <= rests[i] * 1000 + 2000);
    }
    f.fate[EFFECT_DRAIN] = FATE_DONE;
    (void)until_next(&f, EFFECT_DRAIN, 1000 * 1000);
    CHECK_U32("drained at last", fleet_state(&f, "m-000"), MACHINE_IDLE);
    CHECK("and forgotten", !work_find(f.core, STR("m-000")));
    fleet_check(&f);
    fleet_close(&f);
}

TEST(rests_are_spread_by_the_id)
{
    struct core_options options = {.rest_first_ms = 100 * 1000};
    uint64_t first = UINT64_MAX, last = 0;
    struct fleet f;

    fleet_open(&f, &options, 64);
    fleet_add(&f, "m", 20, MACHINE_SPECULATIVE, NULL);
    fleet_list(&f);
    fleet_session(&f, "a", true);
    fleet_demand(&f, "a", 1000, 20);
    f.fate[EFFECT_CREATE] = FATE_REFUSED;
    fleet_cycle(&f);
    for (int i = 0; i < 20; i++) {
        char id[8];
        uint64_t until;
        snprintf(id, sizeof id, "m-%03d", i);
        until = work_find(f.core, str_from(id))->until.ms;
        if (until < first) first = until;
        if (until > last) last = until;
    }
    CHECK("not all at once", last - first > 10 * 1000);
    CHECK("within a quarter", last - first <= 25 * 1000);
    fleet_close(&f);
}

TEST(refusals_that_are_long_ago_are_forgotten)
{
    struct core_options options = {.rest_first_ms = 10 * 1000, .rest_most_ms = 60 * 1000};
    struct fleet f;

    one(&f, &options, MACHINE_IDLE, 1);
    f.fate[EFFECT_CONFIGURE] = FATE_REFUSED;
    fleet_cycle(&f);
    fleet_demand(&f, "a", 1000, 0);
    f.fate[EFFECT_CONFIGURE] = FATE_DONE;
    fleet_cycles(&f, 3);
    CHECK_U32("back", fleet_state(&f, "m-000"), MACHINE_IDLE);
    CHECK_U32("remembered", work_find(f.core, STR("m-000"))->refusals, 1);
    fleet_cycles(&f, 8);
    CHECK("forgotten", !work_find(f.core, STR("m-000")));
    fleet_close(&f);
}

TEST(a_refused_drain_keeps_its_protection)
{
    struct machine m;
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    fleet_cycle(&f);
    CHECK_U32("has it", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_demand(&f, "a", 1000, 0);
    f.fate[EFFECT_DRAIN] = FATE_REFUSED;
    fleet_cycle(&f);
    CHECK_U32("refused", fleet_state(&f, "m-000"), MACHINE_FAILED);
    fleet_demand(&f, "a", 1000, 1);
    fleet_cycles(&f, 6);
    m = fleet_record(&f, "m-000");
    CHECK_U32("it is still what it was", m.state, MACHINE_CONFIGURED);
    CHECK_STR("of its cluster", m.cluster, STR("a"));
    CHECK_I64("with its priority", m.stamp.priority, 1000);
    CHECK("and its fingerprint", m.stamp.fingerprint.len > 0);
    CHECK("and its penalty", m.stamp.reclamation_dollars == 512);
    fleet_check(&f);
    fleet_close(&f);
}

/* ---- Failed by the provider's word ---- */

TEST(what_the_provider_calls_failed_is_given_back)
{
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    fleet_cycle(&f);
    fleet_machine(&f, "m-000")->state = MACHINE_FAILED; /* a spot machine is taken away */
    snprintf(fleet_machine(&f, "m-000")->error, 64, "reclaimed");
    fleet_cycle(&f);
    CHECK_U32("the supply is lost at once", fleet_state(&f, "m-000"), MACHINE_FAILED);
    fleet_cycles(&f, 4); /* rests 30 s */
    CHECK_U64("Delete once", f.seen[EFFECT_DELETE], 1);
    CHECK_U64("counted", core_counts(f.core)->given_back, 1);
    CHECK_HAS("said", f.logs, "provider reports a change that this shard did not order");
    fleet_cycles(&f, 2);
    CHECK_U32("and bought again", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK_U64("not counted as a release", core_counts(f.core)->idle_releases, 0);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(giving_back_is_tried_with_growing_pauses)
{
    static const struct {
        const char *why;
        enum fate fate;
        uint64_t rests[3], doubt; /* in seconds */
    } cases[] = {
        {"refused", FATE_REFUSED, {30, 60, 120}, 0},
        {"no answer", FATE_LOST_BEFORE, {30, 60, 120}, 60}, /* twice the timeout of the call */
        {"a provider without Delete", FATE_NOT_SUPPORTED, {30, 3600, 3600}, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet f;

        one(&f, NULL, MACHINE_FAILED, 0);
        f.fate[EFFECT_DELETE] = cases[i].fate;
        for (size_t n = 0; n < 3; n++) {
            uint64_t ms = until_next(&f, EFFECT_DELETE, 5000 * 1000);
            uint64_t doubt_ms = n ? cases[i].doubt * 1000 : 0;

            CHECK(cases[i].why, ms >= cases[i].rests[n] * 750 + doubt_ms);
            CHECK(cases[i].why, ms <= cases[i].rests[n] * 1000 + doubt_ms + 10 * 1000);
        }
        CHECK_U32("as it was", fleet_state(&f, "m-000"), MACHINE_FAILED);
        CHECK_STR("with its own error", fleet_record(&f, "m-000").last_error, STR("broken"));
        CHECK_U64("counted", core_counts(f.core)->delete_unsupported,
                  cases[i].fate == FATE_NOT_SUPPORTED ? 3 : 0);
        fleet_machine(&f, "m-000")->state = MACHINE_IDLE; /* somebody repaired it */
        fleet_cycle(&f);
        fleet_run(&f, 60 * 1000);
        fleet_cycle(&f);
        CHECK_U32("believed at once", fleet_state(&f, "m-000"), MACHINE_IDLE);
        fleet_check(&f);
        fleet_close(&f);
    }
}

TEST(a_failed_machine_that_comes_free_while_it_is_given_back_is_looked_at)
{
    struct fleet f;

    one(&f, NULL, MACHINE_FAILED, 0);
    f.deltas = true;
    f.fate[EFFECT_DELETE] = FATE_REFUSED;
    f.latency_ms[EFFECT_DELETE] = 20 * 1000;
    fleet_cycles(&f, 2);
    (void)until_next(&f, EFFECT_DELETE, 100 * 1000);
    fleet_machine(&f, "m-000")->state = MACHINE_SPECULATIVE; /* the provider took it back itself, */
    fleet_list(&f);                                          /* and says so once */
    CHECK_U32("its Delete is under way", fleet_state(&f, "m-000"), MACHINE_FAILED);
    fleet_cycles(&f, 4);
    CHECK_U32("there to be bought", fleet_state(&f, "m-000"), MACHINE_SPECULATIVE);
    CHECK_U64("nobody deletes it any more", f.seen[EFFECT_DELETE], 1);
    fleet_check(&f);
    fleet_close(&f);
}

/* ---- passing for too long ---- */

TEST(what_passes_too_long_is_asked_for_and_called_again)
{
    static const struct {
        const char *why;
        enum machine_state start, passing, end;
        uint32_t units;
        enum effect_kind kind;
        uint64_t after_s;
    } cases[] = {
        {"creating", MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_CONFIGURED, 1, EFFECT_CREATE,
         600},
        {"configuring", MACHINE_IDLE, MACHINE_CONFIGURING, MACHINE_CONFIGURED, 1, EFFECT_CONFIGURE,
         600},
        {"draining", MACHINE_CONFIGURED, MACHINE_DRAINING, MACHINE_IDLE, 0, EFFECT_DRAIN, 1800},
        {"deleting", MACHINE_IDLE, MACHINE_DELETING, MACHINE_SPECULATIVE, 0, EFFECT_DELETE, 600},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet_machine *m;
        struct fleet f;
        uint64_t ms;

        one(&f, NULL, cases[i].start, cases[i].units);
        f.fate[cases[i].kind] = FATE_ASYNC;
        f.async_ms = UINT64_MAX / 4; /* it never ends by itself */
        if (cases[i].kind == EFFECT_DELETE) fleet_run(&f, 600 * 1000);
        fleet_cycle(&f);
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].passing);
        ms = until_next(&f, EFFECT_GET, 4000 * 1000);
        CHECK("its time", ms / 1000 >= cases[i].after_s && ms / 1000 <= cases[i].after_s + 10);
        CHECK_U64("asked first", f.seen[cases[i].kind], 1);
        CHECK("then called again", until_next(&f, cases[i].kind, 100 * 1000) <= 2000);
        CHECK_U64("counted", core_counts(f.core)->called_again, 1);
        CHECK_HAS("audited", f.audit, "stuck.again");
        CHECK_U32("still passing", fleet_state(&f, "m-000"), cases[i].passing);
        ms = until_next(&f, cases[i].kind, 4000 * 1000);
        CHECK("and again in ten minutes", ms / 1000 >= 600 && ms / 1000 <= 1210);
        m = fleet_machine(&f, "m-000");
        m->end_ms = f.now_ms + 1000;
        f.fate[cases[i].kind] = FATE_DONE;
        fleet_cycles(&f, 3);
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].end);
        CHECK_U64("one release, however often it was asked for", core_counts(f.core)->idle_releases,
                  cases[i].kind == EFFECT_DELETE ? 1 : 0);
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* The provider is away, its List too: nobody has to ask what became of a call that nobody made. */
TEST(a_call_that_was_not_sent_is_made_again_without_asking)
{
    static const struct {
        const char *why;
        enum machine_state start, passing, end;
        uint32_t units;
        enum effect_kind kind;
    } cases[] = {
        {"create", MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_CONFIGURED, 1, EFFECT_CREATE},
        {"configure", MACHINE_IDLE, MACHINE_CONFIGURING, MACHINE_CONFIGURED, 1, EFFECT_CONFIGURE},
        {"drain", MACHINE_CONFIGURED, MACHINE_DRAINING, MACHINE_IDLE, 0, EFFECT_DRAIN},
        {"delete", MACHINE_IDLE, MACHINE_DELETING, MACHINE_SPECULATIVE, 0, EFFECT_DELETE},
        {"give back", MACHINE_FAILED, MACHINE_FAILED, MACHINE_SPECULATIVE, 0, EFFECT_DELETE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet f;
        one(&f, NULL, cases[i].start, cases[i].units);
        f.fate[cases[i].kind] = FATE_UNSENT;
        if (cases[i].kind == EFFECT_DELETE) fleet_run(&f, 600 * 1000);
        for (int second = 0; second < 3600; second++) {
            fleet_decide(&f);
            fleet_run(&f, 1000);
            CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].passing);
        }
        CHECK_U64("nobody asked", f.seen[EFFECT_GET], 0);
        CHECK_U64("nothing is in doubt", core_counts(f.core)->doubts, 0);
        CHECK("tried again", f.seen[cases[i].kind] > 5);
        CHECK("with pauses that grow", f.seen[cases[i].kind] < 130);
        f.fate[cases[i].kind] = FATE_DONE;
        for (int second = 0; second < 320; second++) {
            fleet_decide(&f);
            fleet_run(&f, 1000);
        }
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].end);
        CHECK_U64("once", f.executed[cases[i].kind], 1);
        fleet_check(&f);
        fleet_close(&f);
    }
}

TEST(a_stuck_machine_is_not_taken_back_when_there_is_no_blob_for_it)
{
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    f.fate[EFFECT_CONFIGURE] = FATE_ASYNC;
    f.async_ms = UINT64_MAX / 4;
    fleet_cycle(&f);
    f.fate[EFFECT_ASK_BLOB] = FATE_NO_SESSION;
    (void)until_next(&f, EFFECT_ASK_BLOB, 4000 * 1000);
    CHECK_U32("the provider has heard of it", fleet_state(&f, "m-000"), MACHINE_CONFIGURING);
    CHECK_HAS("audited", f.audit, "bootstrap m-000 a no_session stuck.again");
    f.fate[EFFECT_ASK_BLOB] = FATE_BLOB_ERROR;
    (void)until_next(&f, EFFECT_ASK_BLOB, 4000 * 1000);
    CHECK_U32("nor is it Failed", fleet_state(&f, "m-000"), MACHINE_CONFIGURING);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_restarted_shard_comes_back_to_what_passes)
{
    static const enum machine_state states[] = {MACHINE_CREATING, MACHINE_CONFIGURING,
                                                MACHINE_DRAINING, MACHINE_DELETING};

    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        struct fleet f;
        bool bound = states[i] == MACHINE_CONFIGURING || states[i] == MACHINE_DRAINING;

        fleet_open(&f, NULL, 8);
        fleet_add(&f, "m", 1, states[i], bound ? "a" : NULL);
        fleet_list(&f);
        fleet_session(&f, "a", true);
        fleet_check(&f);
        CHECK("looked at", until_next(&f, EFFECT_GET, 4000 * 1000) < 1900 * 1000);
        fleet_cycles(&f, 2);
        if (states[i] == MACHINE_CONFIGURING) { /* nobody knows for whom: no blob is asked for */
            CHECK_U64("no call", f.seen[EFFECT_CONFIGURE] + f.seen[EFFECT_ASK_BLOB], 0);
            CHECK("but it is looked at again", until_next(&f, EFFECT_GET, 4000 * 1000) < 1900000);
        } else {
            CHECK_U64("called again", core_counts(f.core)->called_again, 1);
        }
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* Nobody rolls up what it was bought for any more; its stamp says what to ask a blob for. */
TEST(a_restarted_shard_knows_what_to_configure_by_the_stamp)
{
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    f.fate[EFFECT_CONFIGURE] = FATE_ASYNC;
    f.async_ms = UINT64_MAX / 4; /* the provider forgot about it */
    fleet_cycle(&f);
    CHECK_U32("under way", fleet_machine(&f, "m-000")->state, MACHINE_CONFIGURING);
    fleet_restart(&f);
    fleet_session(&f, "a", true);
    fleet_list(&f);
    CHECK_U32("found again", fleet_state(&f, "m-000"), MACHINE_CONFIGURING);
    CHECK("after a while", until_next(&f, EFFECT_CONFIGURE, 4000 * 1000) < 1000 * 1000);
    CHECK_U64("with a blob", f.seen[EFFECT_ASK_BLOB], 2);
    fleet_check(&f);
    fleet_close(&f);
}

/* ---- a List that takes long ---- */

/* A record of the machine as it was when the List began. */
static void list_says(struct fleet *f, enum machine_state state, const char *cluster)
{
    struct machine old = fleet_record(f, "m-000");

    old.state = state;
    old.cluster = str_from(cluster);
    old.stamp = (struct machine_stamp){0};
    if (state == MACHINE_CREATING) old.host_ref = old.host_provider = STR_EMPTY;
    fleet_say(f, &old);
}

/* The provider acks at once and creates later; nobody hears of the end but by List, which hangs. */
TEST(while_a_list_hangs_what_passes_is_asked_for)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = FATE_ASYNC;
    f.async_ms = 15 * 1000;
    fleet_cycle(&f);
    CHECK_U32("under way", fleet_state(&f, "m-000"), MACHINE_CREATING);
    core_list_begin(f.core, LIST_FULL);
    for (int cycle = 0; cycle < 8 && fleet_state(&f, "m-000") != MACHINE_CONFIGURED; cycle++) {
        fleet_run(&f, 10 * 1000);
        fleet_decide(&f);
    }
    CHECK_U32("it serves", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK("few were asked for it", f.seen[EFFECT_GET] <= 2);
    list_says(&f, MACHINE_CREATING, "");
    CHECK_U32("what the List says of it is older", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_list_end(&f);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_list_that_is_older_than_what_was_done_or_told_meanwhile_is_not_believed)
{
    struct machine m;
    struct fleet f;

    one(&f, NULL, MACHINE_CONFIGURED, 0);
    core_list_begin(f.core, LIST_FULL);
    fleet_decide(&f);
    fleet_run(&f, 0);
    CHECK_U32("drained", fleet_state(&f, "m-000"), MACHINE_IDLE);
    list_says(&f, MACHINE_CONFIGURED, "a");
    CHECK_U32("older than a drain", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_list_end(&f);
    core_list_begin(f.core, LIST_FULL);
    fleet_session(&f, "b", true);
    fleet_demand(&f, "b", 1000, 1);
    fleet_decide(&f);
    fleet_run(&f, 0);
    CHECK_U32("configured", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    list_says(&f, MACHINE_CONFIGURED, "a");
    m = fleet_record(&f, "m-000");
    CHECK_STR("older than a configure", m.cluster, STR("b"));
    CHECK("its stamp is there", m.stamp.fingerprint.len > 0);
    fleet_list_end(&f);
    /* Without an action of ours: what Get said is newer than the List that is read. */
    f.fate[EFFECT_DRAIN] = FATE_ASYNC;
    f.async_ms = 1000;
    fleet_demand(&f, "b", 1000, 0);
    fleet_decide(&f);
    fleet_run(&f, 0);
    CHECK_U32("drains", fleet_state(&f, "m-000"), MACHINE_DRAINING);
    core_list_begin(f.core, LIST_FULL);
    for (int cycle = 0; cycle < LIST_LATE_CYCLES; cycle++) {
        fleet_run(&f, 10 * 1000);
        fleet_decide(&f);
    }
    fleet_run(&f, 0);
    CHECK_U32("Get said so", fleet_state(&f, "m-000"), MACHINE_IDLE);
    list_says(&f, MACHINE_CONFIGURED, "b");
    CHECK_U32("older than a Get", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_list_end(&f);
    fleet_list(&f);
    CHECK_U32("the next one is believed", fleet_state(&f, "m-000"), MACHINE_IDLE);
    fleet_check(&f);
    fleet_close(&f);
}

/* ---- a driver that says nothing ---- */

TEST(an_answer_that_never_comes_is_not_waited_for_for_ever)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = FATE_NEVER;
    f.fate[EFFECT_GET] = FATE_NEVER;
    fleet_cycle(&f);
    fleet_cycles(&f, 9);
    CHECK_U32("under way", core_counts(f.core)->inflight, 1);
    fleet_cycles(&f, 1);
    CHECK_U32("given up", core_counts(f.core)->inflight, 0);
    CHECK_U64("not known", core_counts(f.core)->outcomes[ACTION_PROVISION][OUTCOME_CTX_CANCELED],
              1);
    CHECK_U32("it keeps its state", fleet_state(&f, "m-000"), MACHINE_CREATING);
    fleet_list(&f);
    CHECK_U32("the call may still be carried out", fleet_state(&f, "m-000"), MACHINE_CREATING);
    fleet_run(&f, 30 * 1000);
    fleet_list(&f);
    CHECK_U32("until a List says so", fleet_state(&f, "m-000"), MACHINE_SPECULATIVE);
    f.fate[EFFECT_CREATE] = f.fate[EFFECT_GET] = FATE_DONE;
    fleet_cycles(&f, 30);
    CHECK_U32("done", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    CHECK_U32("no Get is missed", f.core->running->asking, 0);
    fleet_check(&f);
    fleet_close(&f);
}

/* A provider that carries a call out long after its timeout: nobody calls it a second time before
 * that. `stuck`: the call is one that is made again because a passing state lasted. */
TEST(while_a_call_without_an_answer_may_be_carried_out_no_other_is_made)
{
    enum { TIMEOUT_MS = 300 * 1000 };
    static const struct {
        const char *why;
        enum machine_state start, end;
        uint32_t units;
        enum effect_kind kind;
        bool stuck;
    } cases[] = {
        {"create", MACHINE_SPECULATIVE, MACHINE_CONFIGURED, 1, EFFECT_CREATE, false},
        {"configure", MACHINE_IDLE, MACHINE_CONFIGURED, 1, EFFECT_CONFIGURE, false},
        {"drain", MACHINE_CONFIGURED, MACHINE_IDLE, 0, EFFECT_DRAIN, false},
        {"delete", MACHINE_IDLE, MACHINE_SPECULATIVE, 0, EFFECT_DELETE, false},
        {"give back", MACHINE_FAILED, MACHINE_SPECULATIVE, 0, EFFECT_DELETE, false},
        {"create again", MACHINE_SPECULATIVE, MACHINE_CONFIGURED, 1, EFFECT_CREATE, true},
        {"configure again", MACHINE_IDLE, MACHINE_CONFIGURED, 1, EFFECT_CONFIGURE, true},
        {"drain again", MACHINE_CONFIGURED, MACHINE_IDLE, 0, EFFECT_DRAIN, true},
        {"delete again", MACHINE_IDLE, MACHINE_SPECULATIVE, 0, EFFECT_DELETE, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_options options = {
            .execute_timeout_ms = TIMEOUT_MS, .rest_first_ms = 1000, .stuck_ms = 600 * 1000};
        uint64_t calls;
        struct fleet f;

        one(&f, &options, cases[i].start, cases[i].units);
        f.fate[cases[i].kind] = cases[i].stuck ? FATE_ASYNC : FATE_LATE;
        f.async_ms = UINT64_MAX / 4;
        f.latency_ms[cases[i].kind] = cases[i].stuck ? 0 : TIMEOUT_MS - 30 * 1000;
        if (cases[i].stuck) {
            (void)until_next(&f, cases[i].kind, 4000 * 1000);
            f.fate[cases[i].kind] = FATE_LATE;
            f.latency_ms[cases[i].kind] = TIMEOUT_MS - 30 * 1000;
        }
        (void)until_next(&f, cases[i].kind, 4000 * 1000);
        calls = f.seen[cases[i].kind];
        for (int second = 0; second < 2 * TIMEOUT_MS / 1000 - 2; second++) {
            fleet_run(&f, 1000);
            fleet_cycle(&f);
            CHECK_U64(cases[i].why, f.overtakes, 0);
        }
        CHECK_U64(cases[i].why, f.seen[cases[i].kind], calls);
        f.fate[cases[i].kind] = FATE_DONE;
        f.latency_ms[cases[i].kind] = 0;
        if (cases[i].stuck) fleet_machine(&f, "m-000")->end_ms = f.now_ms + 1000;
        fleet_cycles(&f, 3);
        if (cases[i].kind == EFFECT_CREATE) fleet_cycles(&f, 3);
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].end);
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* The call of a process that was killed goes on: the first List shows the state before it. */
TEST(a_process_that_is_not_the_first_waits_for_the_calls_of_the_one_before)
{
    static const struct {
        const char *why;
        enum machine_state start, end;
        uint32_t units;
        enum effect_kind kind;
    } cases[] = {
        {"create", MACHINE_SPECULATIVE, MACHINE_CONFIGURED, 1, EFFECT_CREATE},
        {"configure", MACHINE_IDLE, MACHINE_CONFIGURED, 1, EFFECT_CONFIGURE},
        {"drain", MACHINE_CONFIGURED, MACHINE_IDLE, 0, EFFECT_DRAIN},
        {"give back", MACHINE_FAILED, MACHINE_SPECULATIVE, 0, EFFECT_DELETE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_options options = {.rest_first_ms = 1000};
        struct fleet f;

        one(&f, &options, cases[i].start, cases[i].units);
        f.latency_ms[cases[i].kind] = 28 * 1000;
        (void)until_next(&f, cases[i].kind, 4000 * 1000);
        CHECK_U64(cases[i].why, f.seen[cases[i].kind], 1);
        fleet_restart(&f);
        f.latency_ms[cases[i].kind] = 0;
        fleet_list(&f);
        CHECK_U32("as before the call", fleet_state(&f, "m-000"), cases[i].start);
        fleet_session(&f, "a", true);
        fleet_demand(&f, "a", 1000, cases[i].units);
        for (int second = 0; second < 30; second++) {
            fleet_cycle(&f);
            CHECK_U64(cases[i].why, f.seen[cases[i].kind], 1);
            fleet_run(&f, 1000);
        }
        fleet_cycles(&f, 3);
        CHECK_U32(cases[i].why, fleet_state(&f, "m-000"), cases[i].end);
        CHECK_U64("once", f.executed[cases[i].kind], 1);
        CHECK_HAS("said", f.logs, "INFO no action starts yet");
        fleet_check(&f);
        fleet_close(&f);
    }
}

/* What a Get saw when it was sent may be older than what is known when it is answered. */
TEST(a_get_that_is_older_than_an_action_is_not_believed)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = FATE_LOST_BEFORE;
    f.latency_ms[EFFECT_GET] = 20 * 1000;
    f.old_gets = true;
    fleet_decide(&f);
    fleet_run(&f, 30 * 1000);
    CHECK_U64("asked", f.seen[EFFECT_GET], 1);
    f.fate[EFFECT_CREATE] = FATE_ASYNC;
    fleet_cycle(&f); /* the List resolves it, and it is bought again */
    CHECK_U32("bought", fleet_state(&f, "m-000"), MACHINE_CREATING);
    fleet_run(&f, 20 * 1000); /* Get says Speculative */
    CHECK_U32("as it was", fleet_state(&f, "m-000"), MACHINE_CREATING);
    CHECK_U32("it was heard", f.core->running->asking, 0);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_get_that_is_older_than_a_list_is_not_believed)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = FATE_LOST_BEFORE;
    f.latency_ms[EFFECT_GET] = 20 * 1000;
    f.old_gets = true;
    fleet_decide(&f);
    fleet_run(&f, 30 * 1000);
    CHECK_U64("asked", f.seen[EFFECT_GET], 1);
    fleet_machine(&f, "m-000")->state = MACHINE_FAILED;
    snprintf(fleet_machine(&f, "m-000")->error, 64, "it broke");
    fleet_list(&f);
    CHECK_U32("the List says so", fleet_state(&f, "m-000"), MACHINE_FAILED);
    fleet_run(&f, 20 * 1000); /* Get says Speculative */
    CHECK_U32("as it was", fleet_state(&f, "m-000"), MACHINE_FAILED);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_get_that_is_older_than_a_delta_is_not_believed)
{
    struct fleet f;

    one(&f, NULL, MACHINE_SPECULATIVE, 1);
    f.fate[EFFECT_CREATE] = FATE_LOST_BEFORE;
    f.latency_ms[EFFECT_GET] = 20 * 1000;
    f.old_gets = true;
    fleet_decide(&f);
    fleet_run(&f, 30 * 1000);
    CHECK_U64("asked", f.seen[EFFECT_GET], 1);
    fleet_machine(&f, "m-000")->state = MACHINE_CREATING; /* it arrived after all */
    fleet_list_kind(&f, LIST_DELTA);                      /* and says what we believe anyway */
    fleet_run(&f, 20 * 1000);                             /* Get says Speculative */
    CHECK_U32("as it is", fleet_state(&f, "m-000"), MACHINE_CREATING);
    fleet_check(&f);
    fleet_close(&f);
}

/* Something said that it is not what we believe. */
TEST(a_machine_in_doubt_is_not_acted_on)
{
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    fleet_machine(&f, "m-000")->state = MACHINE_FAILED;
    snprintf(fleet_machine(&f, "m-000")->error, 64, "it broke");
    f.fate[EFFECT_GET] = FATE_LOST_BEFORE;
    f.core->now = fleet_now(&f);
    work_look(f.core, STR("m-000"), MACHINE_FAILED);
    for (int i = 0; i < 3; i++) {
        fleet_decide(&f);
        fleet_run(&f, 30 * 1000);
    }
    CHECK_U64("not acted on", f.seen[EFFECT_ASK_BLOB], 0);
    CHECK_U64("but counted", core_counts(f.core)->deduped, 3);
    f.fate[EFFECT_GET] = FATE_DONE;
    for (int i = 0; i < 4 && fleet_state(&f, "m-000") == MACHINE_IDLE; i++) {
        fleet_decide(&f);
        fleet_run(&f, 30 * 1000);
    }
    CHECK_U32("known in the end", fleet_state(&f, "m-000"), MACHINE_FAILED);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(a_provider_that_answers_no_get_is_listed_instead)
{
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    f.fate[EFFECT_GET] = FATE_NOT_SUPPORTED;
    f.core->now = fleet_now(&f);
    work_look(f.core, STR("m-000"), MACHINE_FAILED);
    for (int i = 0; i < 60 && !core_wants_full_list(f.core); i++) {
        fleet_decide(&f);
        fleet_run(&f, 10 * 1000);
    }
    CHECK("a full List is wanted", core_wants_full_list(f.core));
    CHECK_U64("after some tries", f.seen[EFFECT_GET], DOUBT_TRIES_MOST);
    fleet_cycle(&f);
    CHECK_U32("and it is acted on again", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_check(&f);
    fleet_close(&f);
}

TEST(what_comes_too_late_is_not_heard)
{
    struct call_answer answer = {.end = CALL_REFUSED, .text = STR("late")};
    struct effects out;
    uint64_t action;
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    fleet_decide(&f);
    action = f.calls[0].action;
    fleet_run(&f, 0);
    effects_init(&out);
    core_answered(f.core, action, &answer, fleet_now(&f), (wall_time){1}, &out);
    core_blob(f.core, action, BLOB_ERROR, STR("late"), fleet_now(&f), (wall_time){1}, &out);
    core_answered(f.core, 0, &answer, fleet_now(&f), (wall_time){1}, &out);
    core_answered(f.core, UINT64_MAX, &answer, fleet_now(&f), (wall_time){1}, &out);
    core_got(f.core, STR("m-000"), &answer, fleet_now(&f), &out);
    core_got(f.core, STR("nobody"), &answer, fleet_now(&f), &out);
    CHECK_SIZE("nothing follows", out.count, 0);
    effects_deinit(&out);
    CHECK_U32("as it was", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_close(&f);
}

TEST(a_blob_that_comes_when_nobody_waits_for_one_is_not_heard)
{
    struct effects out;
    struct fleet f;

    one(&f, NULL, MACHINE_IDLE, 1);
    f.latency_ms[EFFECT_CONFIGURE] = 5000;
    fleet_decide(&f);
    fleet_run(&f, 0);
    effects_init(&out); /* it is in the Configure by now */
    core_blob(f.core, f.calls[0].action, BLOB_ERROR, STR("twice"), fleet_now(&f), (wall_time){1},
              &out);
    CHECK_SIZE("nothing follows", out.count, 0);
    effects_deinit(&out);
    fleet_run(&f, 5000);
    CHECK_U32("done", fleet_state(&f, "m-000"), MACHINE_CONFIGURED);
    fleet_close(&f);
}

/* --- for people --- */

TEST(who_rests_is_told_with_the_reason_and_the_time_that_is_left)
{
    static const struct {
        const char *why_not;
        enum machine_state start;
        uint32_t units;
        enum effect_kind kind;
        enum fate fate;
        enum resting_why why;
        enum machine_state state;
        const char *error;
    } cases[] = {
        {"refused", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_REFUSED, RESTING_REFUSED,
         MACHINE_FAILED, "create: the provider says no"},
        {"serves on, and is not asked to go again", MACHINE_CONFIGURED, 0, EFFECT_DRAIN,
         FATE_REFUSED, RESTING_REFUSED, MACHINE_CONFIGURED, ""},
        {"nobody knows", MACHINE_SPECULATIVE, 1, EFFECT_CREATE, FATE_LOST_BEFORE, RESTING_DOUBT,
         MACHINE_CREATING, ""},
    };
    struct machine_facts facts;
    struct resting_view view;
    struct arena arena;

    arena_init(&arena, SIZE_MAX);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet f;

        one(&f, NULL, cases[i].start, cases[i].units);
        CHECK_OK("none yet", core_resting(f.core, 10, fleet_now(&f), &arena, &view));
        CHECK_SIZE("none yet", view.count, 0);
        CHECK_OK("asked after", core_machine(f.core, STR("m-000"), fleet_now(&f), &facts));
        CHECK("does not rest, and nothing is planned",
              !facts.rests && !facts.pending && facts.planned_state == cases[i].start);
        f.fate[cases[i].kind] = cases[i].fate;
        f.fate[EFFECT_GET] = FATE_LOST_BEFORE;
        fleet_decide(&f);
        fleet_run(&f, 31 * 1000 * (cases[i].fate == FATE_LOST_BEFORE));
        if (cases[i].state == MACHINE_CONFIGURED) fleet_list(&f);
        CHECK_OK(cases[i].why_not, core_resting(f.core, 10, fleet_now(&f), &arena, &view));
        CHECK_SIZE(cases[i].why_not, view.count, 1);
        CHECK_STR("who", view.machines[0].machine, STR("m-000"));
        CHECK_U32("why", view.machines[0].rest.why, cases[i].why);
        CHECK_U32("what it is", view.machines[0].state, cases[i].state);
        CHECK_STR("what was said", view.machines[0].error, str_from(cases[i].error));
        CHECK("how long",
              view.machines[0].rest.left_ms > 0 && view.machines[0].rest.left_ms <= 90 * 1000);
        CHECK("how often", view.machines[0].rest.refusals == (cases[i].fate == FATE_REFUSED));
        CHECK_OK("asked after", core_machine(f.core, STR("m-000"), fleet_now(&f), &facts));
        CHECK("it rests", facts.rests);
        CHECK_U32("why", facts.rest.why, cases[i].why);
        CHECK_U32("what it is", facts.machine.state, cases[i].state);
        CHECK_STR("what was said", facts.machine.last_error, str_from(cases[i].error));
        CHECK_U64("how long", facts.rest.left_ms, view.machines[0].rest.left_ms);
        CHECK_U32("how often", facts.rest.refusals, view.machines[0].rest.refusals);
        CHECK_ERR("another", core_machine(f.core, STR("m-001"), fleet_now(&f), &facts),
                  ERR_NOT_FOUND);
        fleet_close(&f);
    }
    arena_deinit(&arena);
}

TEST(of_very_many_that_rest_some_are_shown_and_their_number_is_told)
{
    struct resting_view view;
    struct arena arena;
    struct fleet f;

    arena_init(&arena, SIZE_MAX);
    fleet_open(&f, NULL, 64);
    fleet_add(&f, "m", 20, MACHINE_FAILED, NULL);
    for (size_t i = 0; i < 20; i++) snprintf(f.machines[i].error, 64, "it broke");
    fleet_list(&f);
    CHECK_OK("look", core_resting(f.core, 7, fleet_now(&f), &arena, &view));
    CHECK_SIZE("shown", view.count, 7);
    CHECK_U64("all of them", view.total, 20);
    CHECK("all were looked at", view.all);
    CHECK_U32("why", view.machines[0].rest.why, RESTING_FAILED);
    for (size_t i = 1; i < view.count; i++)
        CHECK("by id", str_compare(view.machines[i - 1].machine, view.machines[i].machine) < 0);
    arena_deinit(&arena);
    fleet_close(&f);
}
