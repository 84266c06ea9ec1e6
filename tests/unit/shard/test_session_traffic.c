/* SPDX-License-Identifier: Apache-2.0 */
/* What flows through a session: roll-ups under one budget, blobs, instructions, states and hints
 * for operators who read, read slowly, do not read, or are away. wire.md § 5.2 to 5.6, shard.md
 * § 11 to 14. */
#include <stdio.h>
#include <stdlib.h>

#include "session_rig.h"

static struct session_rig rig;

/* -- roll-ups -- */

TEST(a_rollup_is_acknowledged_when_it_was_taken_and_not_when_it_was_refused)
{
    struct op *o;

    session_rig_open(&rig, &(struct sessions_options){.epoch = 2}, NULL);
    rig.hold = true;
    o = operator_hello(&rig, 0, "a");
    forget(&rig);
    operator_say_rollup(o, "a", 10);
    session_rig_run(&rig, 50);
    CHECK_TEXT("its bytes are the owner's", owner_log(&rig), "rollup a 17\n");
    CHECK_TEXT("no ack yet", heard(o), "");
    rollup_done(&rig, 0, ROLLUP_ACKNOWLEDGED);
    session_rig_run(&rig, 50);
    CHECK_TEXT("acknowledged", heard(o), "ack rollup 0 2\n");
    operator_say_rollup(o, "a", 20);
    session_rig_run(&rig, 50);
    rollup_done(&rig, 0, ROLLUP_REFUSED);
    session_rig_run(&rig, 50);
    CHECK_TEXT("a refused one is not", heard(o), "ack rollup 0 2\n");
    CHECK_SIZE("nothing is kept", session_stats(&rig).rollup_bytes, 0);
    session_rig_close(&rig);
}

TEST(one_rollup_is_at_work_one_waits_and_the_newest_wins)
{
    struct op *a, *b;

    session_rig_open(&rig, NULL, NULL);
    rig.hold = true;
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    forget(&rig);
    for (size_t i = 1; i <= 5; i++) operator_say_rollup(a, "a", 100 * i);
    session_rig_run(&rig, 50);
    operator_say_rollup(b, "b", 10);
    session_rig_run(&rig, 50);
    CHECK_TEXT("the first of a, and b's beside it", owner_log(&rig), "rollup a 107\nrollup b 17\n");
    CHECK_U64("three were overtaken", session_stats(&rig).rollups_superseded, 3);
    rollup_done(&rig, 0, ROLLUP_ACKNOWLEDGED);
    session_rig_run(&rig, 50);
    CHECK_TEXT("then the newest", owner_log(&rig), "rollup a 107\nrollup b 17\nrollup a 509\n");
    rollup_done(&rig, 1, ROLLUP_ACKNOWLEDGED);
    session_rig_run(&rig, 50);
    CHECK_TEXT("an ack for each that was worked on", heard(a), "ack rollup 0 0\nack rollup 0 0\n");
    session_rig_close(&rig);
}

TEST(a_slow_rollup_does_not_delay_a_blob)
{
    struct op *o;

    session_rig_open(&rig, NULL, NULL);
    rig.hold = true;
    o = operator_hello(&rig, 0, "a");
    for (size_t i = 0; i < 3; i++) operator_say_rollup(o, "a", 1000);
    session_rig_run(&rig, 50);
    CHECK_OK("asked", rig_ask(&rig, "a", 4, 30000));
    session_rig_run(&rig, 50);
    forget(&rig);
    operator_say_blob(o, o->request_id, "data", "");
    session_rig_run(&rig, 50);
    CHECK_TEXT("it overtakes", owner_log(&rig), "blob 4 ready data\n");
    session_rig_close(&rig);
}

TEST(rollups_of_all_sessions_share_one_budget_and_nothing_is_lost_at_its_bound)
{
    struct op *a, *b, *c;

    session_rig_open(
        &rig, &(struct sessions_options){.rollup_max = 1 << 20, .rollup_budget = 1 << 20}, NULL);
    rig.hold = true;
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    c = operator_hello(&rig, 2, "c");
    CHECK_OK("asked", rig_ask(&rig, "c", 4, 30000));
    forget(&rig);
    operator_say_rollup(a, "a", 700000);
    session_rig_run(&rig, 1000);
    CHECK_TEXT("a is at work", owner_log(&rig), "rollup a 700011\n");
    operator_say_rollup(b, "b", 700000);
    session_rig_run(&rig, 1000);
    CHECK_TEXT("b does not fit", owner_log(&rig), "rollup a 700011\n");
    CHECK_U64("b waits at its peer", session_stats(&rig).rollups_paused, 1);
    CHECK("what is kept is in the budget", session_stats(&rig).rollup_bytes <= 1 << 20);
    CHECK("the peer was held", rpc_server_stats(rig.server).buffered < 300000);
    operator_say_rollup(c, "c", 100);
    operator_say_blob(c, c->request_id, "data", "");
    session_rig_run(&rig, 1000);
    CHECK_TEXT("c's are small", owner_log(&rig),
               "rollup a 700011\nrollup c 107\nblob 4 ready data\n");
    operator_say_rollup(c, "c", 300000);
    session_rig_run(&rig, 1000);
    CHECK_U64("c waits behind b though it would fit", session_stats(&rig).rollups_paused, 2);
    forget(&rig);
    rollup_done(&rig, 0, ROLLUP_ACKNOWLEDGED);
    session_rig_run(&rig, 1000);
    CHECK_TEXT("b comes, nothing was lost", owner_log(&rig), "rollup b 700011\n");
    rollup_done(&rig, 0, ROLLUP_ACKNOWLEDGED);
    session_rig_run(&rig, 1000);
    CHECK_TEXT("and c", owner_log(&rig), "rollup b 700011\nrollup c 300011\n");
    CHECK("nobody was closed", !a->ended && !b->ended && !c->ended);
    session_rig_close(&rig);
}

TEST(who_announces_and_does_not_send_makes_way_for_those_who_wait)
{
    struct op *a, *b;

    session_rig_open(&rig,
                     &(struct sessions_options){.rollup_max = 1 << 20,
                                                .rollup_budget = 1 << 20,
                                                .rollup_timeout_ms = 5000},
                     NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    operator_say_rollup(a, "a", 900000);
    CHECK("some of it comes", sim_run_for(rig.sim, 1) == SIM_REACHED);
    sim_link_block(a->host, rig.host, true);
    session_rig_run(&rig, 3000);
    CHECK("it is charged", session_stats(&rig).rollup_bytes > 900000);
    CHECK_U64("and alone it has time", session_stats(&rig).stalled, 0);
    operator_say_rollup(b, "b", 900000);
    session_rig_run(&rig, 12000);
    CHECK_U64("others wait: it goes", session_stats(&rig).stalled, 1);
    CHECK_TEXT("and they come", owner_log(&rig), "open a\nopen b\nclose a\nrollup b 900011\n");
    CHECK("b goes on", !b->ended);
    session_rig_close(&rig);
}

TEST(who_announces_much_has_longer_to_send_it)
{
    enum { LARGE = 10 << 20 };
    struct op *a, *b;

    session_rig_open(&rig,
                     &(struct sessions_options){.rollup_max = LARGE + 1000,
                                                .rollup_budget = LARGE + 1000,
                                                .rollup_timeout_ms = 1000},
                     NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    operator_say_rollup(a, "a", LARGE);
    CHECK("some of it comes", sim_run_for(rig.sim, 1) == SIM_REACHED);
    sim_link_block(a->host, rig.host, true);
    operator_say_rollup(b, "b", 900000);
    session_rig_run(&rig, 9000);
    CHECK_U64("a second for each MiB", session_stats(&rig).stalled, 0);
    session_rig_run(&rig, 6000);
    CHECK_U64("and not for ever", session_stats(&rig).stalled, 1);
    CHECK("b goes on", !b->ended);
    session_rig_close(&rig);
}

TEST(a_rollup_past_the_largest_message_ends_its_stream_only)
{
    struct op *a, *b;

    session_rig_open(&rig, &(struct sessions_options){.rollup_max = 100000}, NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    operator_say_rollup(a, "a", 200000);
    session_rig_run(&rig, 1000);
    check_ended(a, "too large", GRPC_RESOURCE_EXHAUSTED);
    CHECK("b goes on", !b->ended && rig_has(&rig, "b"));
    session_rig_close(&rig);
}

/* -- garbage in the middle -- */

TEST(garbage_ends_the_stream_that_sent_it_and_an_empty_frame_does_not)
{
    struct op *a, *b;
    char many[2 * 70];

    session_rig_open(&rig, NULL, NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    operator_say_bytes(a, STR_EMPTY);
    operator_say_bytes(a, STR("\x7a\x01x"));         /* a field of a newer operator */
    operator_say_bytes(a, STR("\x22\x03\x0a\x01r")); /* ReclaimAck of an unknown instruction */
    session_rig_run(&rig, 50);
    CHECK_U64("warned", session_stats(&rig).unset, 2);
    CHECK_U64("noted", session_stats(&rig).reclaim_acks, 1);
    CHECK("it goes on", !a->ended);
    operator_say_bytes(a, STR("\xff\xff\xff\xff\xff\xff\xff"));
    session_rig_run(&rig, 50);
    check_ended(a, "garbage", GRPC_INVALID_ARGUMENT);
    CHECK("b goes on", !b->ended);
    for (size_t i = 0; i < sizeof many; i += 2) memcpy(many + i, "\x78\x00", 2);
    operator_say_bytes(b, str_of(many, sizeof many));
    session_rig_run(&rig, 50);
    check_ended(b, "a frame of nothing but fields nobody knows", GRPC_INVALID_ARGUMENT);
    session_rig_close(&rig);
}

/* -- blobs -- */

static void ask(const char *cluster, uint64_t action, uint64_t timeout_ms)
{
    CHECK_OK("asked", rig_ask(&rig, cluster, action, timeout_ms));
    session_rig_run(&rig, 50);
}

TEST(a_blob_is_asked_for_once_and_answered_once)
{
    struct op *a, *b;
    char first[32], error[4000] = "";

    session_rig_open(&rig, &(struct sessions_options){.blob_max = 10}, NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    forget(&rig);
    ask("a", 1, 30000);
    CHECK_TEXT("cluster and requirements", heard(a),
               "blob a node.kubernetes.io/instance-type:1:m5.large\n");
    CHECK_SIZE("sixteen digits", strspn(a->request_id, "0123456789abcdef"), 16);
    CHECK_SIZE("and no more", strlen(a->request_id), 16);
    snprintf(first, sizeof first, "%s", a->request_id);
    operator_say_blob(b, first, "stolen", ""); /* it is not b's to answer */
    session_rig_run(&rig, 50);
    CHECK_TEXT("another session's answer does not count", owner_log(&rig), "");
    operator_say_blob(a, first, "data", "");
    operator_say_blob(a, first, "again", "");
    operator_say_blob(a, "0123456789abcdef", "unknown", "");
    operator_say_blob(a, "", "no id", "");
    session_rig_run(&rig, 50);
    CHECK_TEXT("the first counts", owner_log(&rig), "blob 1 ready data\n");
    CHECK_U64("the others were dropped and counted", session_stats(&rig).blobs_stray, 4);
    ask("a", 2, 30000);
    CHECK("another id", strcmp(first, a->request_id) != 0);
    operator_say_blob(a, a->request_id, "ignored", "no such template");
    session_rig_run(&rig, 50);
    CHECK_HAS("an error is an error", owner_log(&rig), "blob 2 error no such template\n");
    ask("a", 5, 30000);
    memset(error, 'x', sizeof error - 1);
    for (size_t i = 1; i + 2 < sizeof error; i += 2) memcpy(error + i, "\xc3\xa9", 2);
    forget(&rig);
    operator_say_blob(a, a->request_id, "", error);
    session_rig_run(&rig, 50);
    CHECK_HAS("a long one is cut", owner_log(&rig), "blob 5 error x");
    CHECK("between letters",
          strlen(owner_log(&rig)) < 2100 && str_is_utf8(str_from(owner_log(&rig))));
    ask("a", 3, 30000);
    operator_say_blob(a, a->request_id, "more than ten bytes", "");
    session_rig_run(&rig, 50);
    CHECK_HAS("bounded", owner_log(&rig), "blob 3 error the blob has 19 bytes, at most 10");
    CHECK_U64("nobody waits", session_stats(&rig).blobs_waiting, 0);
    session_rig_close(&rig);
}

TEST(a_blob_that_does_not_come_ends_by_time_or_with_its_session)
{
    struct op *a;

    session_rig_open(&rig, NULL, NULL);
    a = operator_hello(&rig, 0, "a");
    forget(&rig);
    ask("nobody", 1, 30000);
    CHECK_TEXT("no session", owner_log(&rig), "blob 1 no session \n");
    ask("a", 2, 1000);
    session_rig_run(&rig, 2000);
    CHECK_HAS("by time", owner_log(&rig), "blob 2 timeout \n");
    operator_say_blob(a, a->request_id, "late", "");
    session_rig_run(&rig, 50);
    CHECK_U64("late", session_stats(&rig).blobs_stray, 1);
    ask("a", 3, 30000);
    ask("a", 4, 30000);
    forget(&rig);
    operator_hang_up(a);
    session_rig_run(&rig, 50);
    CHECK_TEXT("with its session, at once", owner_log(&rig),
               "blob 3 no session \nblob 4 no session \nclose a\n");
    session_rig_close(&rig);
}

TEST(requests_for_blobs_are_bounded)
{
    session_rig_open(&rig, &(struct sessions_options){.blobs_max = 2}, NULL);
    operator_hello(&rig, 0, "a");
    ask("a", 1, 30000);
    ask("a", 2, 30000);
    CHECK_ERR("full", rig_ask(&rig, "a", 3, 30000), ERR_FULL);
    session_rig_close(&rig);
}

/* -- instructions and hints -- */

TEST(a_reclaim_names_the_machine_and_its_grace_in_seconds)
{
    struct op *o;

    session_rig_open(&rig, NULL, NULL);
    o = operator_hello(&rig, 0, "a");
    forget(&rig);
    CHECK("sent", sessions_reclaim(rig.sessions, STR("a"), 1, STR("m-1"), 10000, 900001));
    CHECK("sent", sessions_reclaim(rig.sessions, STR("a"), 1, STR("m-2"), 600000, 0));
    CHECK("nobody is there", !sessions_reclaim(rig.sessions, STR("b"), 1, STR("m-3"), 1, 0));
    session_rig_run(&rig, 50);
    CHECK_TEXT("one machine each", heard(o),
               "reclaim 1 m-1 10 900001 id=16\nreclaim 1 m-2 600 0 id=16\n");
    session_rig_close(&rig);
}

TEST(a_drain_report_comes_back_with_the_action_of_its_reclaim)
{
    struct op *o, *plain;

    session_rig_open(&rig, &(struct sessions_options){.epoch = 7}, NULL);
    o = operator_connect(&rig, 0);
    operator_say_hello_as(o, "a", true);
    session_rig_run(&rig, 50);
    CHECK_TEXT("answered", heard(o), "ack hello 0 7 takes drain reports\n");
    CHECK_TEXT("the owner knows", owner_log(&rig), "open a reports drains\n");
    forget(&rig);
    CHECK("sent", sessions_reclaim(rig.sessions, STR("a"), 77, STR("m-1"), 10000, 0));
    session_rig_run(&rig, 50);
    CHECK_TEXT("as ever", heard(o), "reclaim 1 m-1 10 0 id=16\n");
    operator_say_report(o, o->instruction_id, "m-1", true, 0, "");
    operator_say_report(o, o->instruction_id, "m-1", false, 9, "no");
    operator_say_report(o, o->instruction_id, "m-1", false, -1, "");
    session_rig_run(&rig, 50);
    CHECK_TEXT("with its action", owner_log(&rig),
               "drain report a m-1 action 77 drained 1 left 0 error \"\"\n"
               "drain report a m-1 action 77 drained 0 left 9000 error \"no\"\n"
               "drain report a m-1 action 77 drained 0 left 0 error \"\"\n");
    forget(&rig);
    operator_say_report(o, "not ours", "m-1", true, 0, "");
    session_rig_run(&rig, 50);
    CHECK_TEXT("another's has none", owner_log(&rig),
               "drain report a m-1 action 0 drained 1 left 0 error \"\"\n");
    plain = operator_hello(&rig, 1, "b");
    CHECK_TEXT("as ever", heard(plain), "ack hello 0 7\n");
    forget(&rig);
    operator_say_report(plain, "not ours", "m-1", true, 0, "");
    session_rig_run(&rig, 50);
    CHECK_TEXT("one that did not announce it is not heard", owner_log(&rig), "");
    CHECK_U64("counted", session_stats(&rig).drain_reports, 5);
    operator_say_report(o, "x", "", true, 0, "");
    session_rig_run(&rig, 50);
    check_ended(o, "a report names its machine", GRPC_INVALID_ARGUMENT);
    session_rig_close(&rig);
}

TEST(a_hint_carries_count_confidence_and_cost)
{
    struct op *o;

    session_rig_open(&rig, NULL, NULL);
    o = operator_hello(&rig, 0, "a");
    forget(&rig);
    sessions_capacity(rig.sessions, STR("a"),
                      &(struct capacity_offer){&plain_profile, 2, CONFIDENCE_HIGH, 4.5});
    sessions_capacity(rig.sessions, STR("b"),
                      &(struct capacity_offer){&plain_profile, 2, CONFIDENCE_HIGH, 4.5});
    sessions_capacity(rig.sessions, STR("a"),
                      &(struct capacity_offer){&plain_profile, 0, CONFIDENCE_NONE, 0});
    session_rig_run(&rig, 50);
    CHECK_TEXT("as the ladder says", heard(o),
               "capacity available:p=0|fp 2 4 4.5\ncapacity available:p=0|fp 0 1 0\n");
    session_rig_close(&rig);
}

/* -- an operator who reads slowly, or not at all -- */

/* Until the transport takes no more and frames wait here. */
static void fill(const char *cluster)
{
    for (size_t i = 0; session_stats(&rig).outbox_bytes == 0; i++) {
        char machine[32];
        snprintf(machine, sizeof machine, "fill-%zu", i);
        node_state(&rig, cluster, machine, MACHINE_CONFIGURED);
        if (i % 64 == 0) session_rig_run(&rig, 10);
        CHECK("it fills up", i < 100000);
    }
}

TEST(the_status_of_a_need_goes_to_an_operator_that_takes_it)
{
    struct need_status first = {.fingerprint = STR("fp"),
                                .group = STR("g"),
                                .lacking = 1,
                                .reason = REASON_PRIORITY_STARVED};
    struct need_status plain = {
        .fingerprint = STR("fp"), .lacking = 7, .reason = REASON_NO_MATCHING_SUPPLY};
    struct need_status newer = first;
    struct op *o, *old;

    session_rig_open(&rig, NULL, NULL);
    o = operator_connect(&rig, 0);
    operator_say_hello_as(o, "a", true);
    session_rig_run(&rig, 50);
    old = operator_hello(&rig, 1, "b");
    forget(&rig);
    sessions_need_status(rig.sessions, STR("b"), &first);
    session_rig_run(&rig, 50);
    CHECK_TEXT("not to one that did not say so", heard(old), "");
    rpc_call_pause(o->call);
    fill("a");
    newer.lacking = 2;
    sessions_need_status(rig.sessions, STR("a"), &first);
    sessions_need_status(rig.sessions, STR("a"), &plain);
    sessions_need_status(rig.sessions, STR("a"), &newer);
    CHECK_U64("one was superseded", session_stats(&rig).superseded, 1);
    rpc_call_resume(o->call);
    session_rig_run(&rig, 2000);
    CHECK_HAS("the newest of each Need", heard(o),
              "need fp 7 NO_MATCHING_SUPPLY\nneed fp 2 PRIORITY_STARVED\n");
    session_rig_close(&rig);
}

TEST(what_waits_is_superseded_by_key_and_never_swapped)
{
    struct op *o;
    const char *text, *reclaim, *drained;

    session_rig_open(&rig, NULL, NULL);
    o = operator_hello(&rig, 0, "a");
    rpc_call_pause(o->call);
    fill("a");
    node_state(&rig, "a", "m1", MACHINE_CONFIGURING);
    node_state(&rig, "a", "m2", MACHINE_CONFIGURING);
    node_state(&rig, "a", "m1", MACHINE_CONFIGURED);
    CHECK("sent", sessions_reclaim(rig.sessions, STR("a"), 1, STR("m1"), 1000, 0));
    node_state(&rig, "a", "m1", MACHINE_DRAINING);
    sessions_capacity(rig.sessions, STR("a"),
                      &(struct capacity_offer){&plain_profile, 1, CONFIDENCE_HIGH, 1});
    CHECK("sent", sessions_reclaim(rig.sessions, STR("a"), 1, STR("m1"), 1000, 0));
    sessions_capacity(rig.sessions, STR("a"),
                      &(struct capacity_offer){&plain_profile, 2, CONFIDENCE_HIGH, 1});
    operator_say_rollup(o, "a", 1);
    operator_say_rollup(o, "a", 1);
    session_rig_run(&rig, 100);
    CHECK_U64("three were superseded", session_stats(&rig).superseded, 3);
    forget(&rig);
    rpc_call_resume(o->call);
    session_rig_run(&rig, 2000);
    text = heard(o);
    CHECK_HAS("the newest of each, and all that has no key, in order", text,
              "node m2 a 4\n"
              "reclaim 1 m1 1 0 id=16\n"
              "node m1 a 6\n"
              "reclaim 1 m1 1 0 id=16\n"
              "capacity available:p=0|fp 2 4 1\n"
              "ack rollup 0 0\n"
              "ack rollup 0 0\n");
    reclaim = strstr(text, "reclaim");
    drained = strstr(text, "node m1");
    CHECK("no state overtakes the order that led to it", reclaim && drained && reclaim < drained);
    CHECK_SIZE("nothing waits", session_stats(&rig).outbox_bytes, 0);
    session_rig_close(&rig);
}

TEST(who_never_reads_is_closed_at_the_bound_and_others_are_not)
{
    struct op *a, *b;

    session_rig_open(&rig, &(struct sessions_options){.outbox_frames_max = 100}, NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    rpc_call_pause(a->call);
    fill("a");
    for (size_t i = 0; i < 1000; i++) { /* one key: it never fills */
        node_state(&rig, "a", "m1", MACHINE_CONFIGURED);
        node_state(&rig, "a", "m1", MACHINE_DRAINING);
    }
    CHECK("coalesced", rig_has(&rig, "a"));
    for (size_t i = 0; i < 100; i++)
        CHECK("instructions are not",
              sessions_reclaim(rig.sessions, STR("a"), 1, STR("m1"), 1, 0) || i > 90);
    CHECK("closed", !rig_has(&rig, "a"));
    CHECK_U64("counted", session_stats(&rig).unread, 1);
    CHECK_SIZE("and let go of", session_stats(&rig).outbox_bytes, 0);
    node_state(&rig, "b", "m2", MACHINE_CONFIGURED);
    rpc_call_resume(a->call);
    session_rig_run(&rig, 2000);
    check_ended(a, "by name", GRPC_RESOURCE_EXHAUSTED);
    CHECK_HAS("and why", a->text, "does not read");
    CHECK_HAS("b is served", heard(b), "node m2 b 5\n");
    CHECK_HAS("the owner knows", owner_log(&rig), "close a\n");
    session_rig_close(&rig);
}

TEST(the_outboxes_share_one_bound_and_the_longest_goes)
{
    struct op *a, *b;

    session_rig_open(&rig, &(struct sessions_options){.outboxes_bytes_max = 60000}, NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    rpc_call_pause(a->call);
    rpc_call_pause(b->call);
    fill("a");
    while (session_stats(&rig).outbox_bytes < 40000)
        CHECK("a's", sessions_reclaim(rig.sessions, STR("a"), 1, STR("m1"), 1, 0));
    for (size_t i = 0; i < 2000 && rig_has(&rig, "a"); i++)
        CHECK("b's", sessions_reclaim(rig.sessions, STR("b"), 1, STR("m1"), 1, 0));
    CHECK("a held most", !rig_has(&rig, "a"));
    CHECK("b is behind, too, and stays", rig_has(&rig, "b"));
    session_rig_close(&rig);
}

/* -- an operator who is away -- */

TEST(a_machine_that_left_while_the_operator_was_away_is_told_after_the_resync)
{
    struct op *o;

    session_rig_open(&rig, NULL, NULL);
    o = operator_hello(&rig, 0, "a");
    operator_hang_up(o);
    session_rig_run(&rig, 50);
    node_state(&rig, "a", "gone", MACHINE_DRAINING); /* bound: the resync sends it */
    node_state(&rig, "a", "gone", MACHINE_IDLE);
    node_state(&rig, "a", "back", MACHINE_IDLE);
    node_state(&rig, "a", "back", MACHINE_CONFIGURING); /* bound again: the resync sends it */
    node_state(&rig, "never-seen", "other", MACHINE_IDLE);
    CHECK_U64("two are kept", session_stats(&rig).departed, 2);
    forget(&rig);
    o = operator_hello(&rig, 1, "a");
    node_state(&rig, "a", "back", MACHINE_CONFIGURING);
    session_rig_run(&rig, 50);
    CHECK_TEXT("first the resync", heard(o), "ack hello 0 0\nnode back a 4\n");
    sessions_resynced(rig.sessions, STR("a"));
    session_rig_run(&rig, 50);
    CHECK_TEXT("then what it would not send, under the cluster's name", heard(o),
               "ack hello 0 0\nnode back a 4\nnode gone a 3\n");
    CHECK_U64("the other cluster's waits", session_stats(&rig).departed, 1);
    sessions_resynced(rig.sessions, STR("a"));
    session_rig_run(&rig, 50);
    CHECK_TEXT("once", heard(o), "ack hello 0 0\nnode back a 4\nnode gone a 3\n");
    session_rig_close(&rig);
}

TEST(what_was_left_in_the_outbox_follows_in_the_next_session)
{
    struct op *o;

    session_rig_open(&rig, NULL, NULL);
    o = operator_hello(&rig, 0, "a");
    rpc_call_pause(o->call);
    fill("a");
    node_state(&rig, "a", "bound", MACHINE_CONFIGURED);
    node_state(&rig, "a", "gone", MACHINE_DRAINING);
    node_state(&rig, "a", "gone", MACHINE_IDLE);
    CHECK("sent", sessions_reclaim(rig.sessions, STR("a"), 1, STR("gone"), 1, 0));
    operator_hang_up(o);
    session_rig_run(&rig, 50);
    forget(&rig);
    o = operator_hello(&rig, 1, "a");
    sessions_resynced(rig.sessions, STR("a"));
    session_rig_run(&rig, 50);
    CHECK_TEXT("and nothing else of it", heard(o), "ack hello 0 0\nnode gone a 3\n");
    session_rig_close(&rig);
}

TEST(what_is_kept_for_the_absent_is_bounded_and_the_oldest_goes)
{
    struct op *o;

    session_rig_open(&rig, &(struct sessions_options){.departed_frames_max = 2}, NULL);
    node_state(&rig, "a", "m1", MACHINE_IDLE);
    node_state(&rig, "a", "m2", MACHINE_IDLE);
    node_state(&rig, "a", "m3", MACHINE_IDLE);
    CHECK_U64("dropped", session_stats(&rig).departed_dropped, 1);
    o = operator_hello(&rig, 0, "a");
    sessions_resynced(rig.sessions, STR("a"));
    session_rig_run(&rig, 50);
    CHECK_TEXT("the newest two", heard(o), "ack hello 0 0\nnode m2 a 3\nnode m3 a 3\n");
    session_rig_close(&rig);
    session_rig_open(&rig, &(struct sessions_options){.departed_bytes_max = 300}, NULL);
    for (size_t i = 0; i < 100; i++) {
        char cluster[16];
        snprintf(cluster, sizeof cluster, "c%zu", i);
        node_state(&rig, cluster, "m1", MACHINE_IDLE);
    }
    CHECK("over all clusters", session_stats(&rig).departed < 5);
    CHECK_U64("counted", session_stats(&rig).departed_dropped, 100 - session_stats(&rig).departed);
    session_rig_close(&rig);
}
