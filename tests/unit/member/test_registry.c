/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: states, incarnations, failures. Numbers are those of the specification's test cases
 * (workers.md, section 24). */
#include <stdio.h>

#include "rig.h"

#define T5 "01JFEAVS7C5DE5XEAEAB91EBT5"
#define T6 "01JFEAVS7C5DE5XEAEAB91EBT6"

TEST(case_31_a_first_beat_registers)
{
    struct rig *rig = rig_open(NULL);

    CHECK_U64("proposed", rig_beat(rig, T5, MEMBER_INIT, 0), MEMBER_BEAT_PROPOSE);
    CHECK_U64("active", rig_worker(rig, T5).standing, MEMBER_ACTIVE);
    CHECK_U64("incarnation", rig_worker(rig, T5).incarnation, 1);
    CHECK_SIZE("reported once", rig_count(rig, MEMBER_EV_REGISTERED, T5), 1);
    CHECK_TEXT("nothing before it", rig_last(rig, MEMBER_EV_REGISTERED)->text, "");
    CHECK_U64("known", rig_beat(rig, T5, MEMBER_READY, 0), MEMBER_BEAT_ACK);
    CHECK_SIZE("still once", rig_count(rig, MEMBER_EV_REGISTERED, T5), 1);
    rig_close(rig);
}

TEST(case_32_a_row_survives_a_restart)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_register(rig, T5, 1);
    rig_reload(rig);
    CHECK_U64("there", rig_worker(rig, T5).incarnation, 1);
    CHECK("as it was", rig_worker(rig, T5).capable && rig_worker(rig, T5).lease_ms == 1000);
    rig_close(rig);
}

TEST(case_33_registering_twice_is_registering)
{
    struct rig *rig = rig_open(NULL);
    uint64_t epoch;

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 1000);
    epoch = rig_epoch(rig);
    CHECK_U64("the same", rig_register(rig, "w0", 1).status, MEMBER_S_SAME);
    CHECK_U64("incarnation", rig_worker(rig, "w0").incarnation, 1);
    CHECK_SIZE("one event", rig_count(rig, MEMBER_EV_REGISTERED, "w0"), 1);
    rig_run(rig, 1000);
    CHECK_U64("epoch", rig_epoch(rig), epoch);
    rig_close(rig);
}

TEST(case_34_a_leaving_worker_is_deregistered)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op;

    (void)rig_register(rig, T5, 1);
    op = rig_of(rig, MEMBER_OP_LEAVE, T5);
    CHECK_U64("left", rig_op(rig, &op).status, MEMBER_S_DONE);
    CHECK_U64("removed", rig_worker(rig, T5).standing, MEMBER_REMOVED);
    CHECK_U64("because", rig_worker(rig, T5).removal, MEMBER_LEFT);
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_DEREGISTERED, T5), 1);
    CHECK_U64("again", rig_op(rig, &op).status, MEMBER_S_DEAD_NOW);
    CHECK_SIZE("reported once", rig_count(rig, MEMBER_EV_DEREGISTERED, T5), 1);
    CHECK_U64("back", rig_register(rig, T5, 1).incarnation, 2);
    rig_close(rig);
}

TEST(case_37_a_last_beat_creates_no_worker)
{
    struct rig *rig = rig_open(NULL);

    CHECK_U64("ignored", rig_beat(rig, T5, MEMBER_DRAINING, 0), MEMBER_BEAT_IGNORE);
    CHECK_U64("no row", rig_worker(rig, T5).incarnation, 0);
    CHECK_SIZE("no event", rig->event_count, 0);
    rig_close(rig);
}

static void ignores(struct member_rules *rules, struct member_local_options *options)
{
    (void)rules;
    options->unknown_beat = MEMBER_UNKNOWN_IGNORE;
}

static void rejects(struct member_rules *rules, struct member_local_options *options)
{
    (void)rules;
    options->unknown_beat = MEMBER_UNKNOWN_REJECT;
}

TEST(case_38_unknown_beats_as_configured)
{
    struct rig *rig = rig_open(ignores);

    CHECK_U64("ignored", rig_beat(rig, T5, MEMBER_INIT, 0), MEMBER_BEAT_IGNORE);
    rig_close(rig);
    rig = rig_open(rejects);
    CHECK_U64("rejected", rig_beat(rig, T5, MEMBER_INIT, 0), MEMBER_BEAT_UNKNOWN);
    CHECK_U64("no row", rig_worker(rig, T5).incarnation, 0);
    rig_close(rig);
}

static bool is_suspected(const struct rig *rig, const char *worker)
{
    struct member_heartbeat heartbeat = {0};

    return member_local_heartbeat(rig->local, str_from(worker), &heartbeat) && heartbeat.suspected;
}

TEST(case_39_40_66_suspected_then_recovered_or_dead)
{
    struct rig *rig = rig_open(NULL);
    uint64_t epoch;

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    rig_run(rig, 1000);
    epoch = rig_epoch(rig);
    rig_stop(rig, "w0");
    CHECK_U64("beats", rig_beat(rig, "w0", MEMBER_READY, 1), MEMBER_BEAT_ACK);
    rig_run(rig, 1250);
    CHECK("late by 250 ms exactly: not yet", !is_suspected(rig, "w0"));
    rig_run(rig, 250);
    CHECK("suspected by 1.5 s", is_suspected(rig, "w0"));
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_SUSPECTED, "w0"), 1);
    CHECK_U64("beats again", rig_beat(rig, "w0", MEMBER_READY, 1), MEMBER_BEAT_ACK);
    CHECK("recovered", !is_suspected(rig, "w0"));
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_RECOVERED, "w0"), 1);
    CHECK_I64("how late it was", rig_last(rig, MEMBER_EV_RECOVERED)->due_ms, 500);
    CHECK_U64("same incarnation", rig_worker(rig, "w0").incarnation, 1);
    CHECK_U64("nothing moved", rig_epoch(rig), epoch);
    rig_run(rig, 6000);
    CHECK_U64("6.0 s: alive", rig_worker(rig, "w0").standing, MEMBER_ACTIVE);
    rig_run(rig, 260);
    CHECK_U64("6.25 s: dead", rig_worker(rig, "w0").standing, MEMBER_DEAD);
    CHECK_SIZE("one failure", rig_count(rig, MEMBER_EV_FAILED, "w0"), 1);
    CHECK_SIZE("and nobody else's", rig_count(rig, MEMBER_EV_FAILED, NULL), 1);
    CHECK_U64("epoch", rig_epoch(rig), epoch + 1);
    rig_close(rig);
}

/* Section 19: a reload's changes apply to workers that are already watched. */
TEST(a_reload_changes_thresholds_and_no_promise)
{
    struct rig *rig = rig_open(NULL);
    struct member_local_options next = rig->options;

    for (int i = 0; i < 2; i++) (void)rig_join(rig, i ? "w1" : "w0", (uint8_t)(i + 1));
    rig_run(rig, 8000); /* arrival times are known from now on */
    next.detect.phi = true;
    next.detect.phi_threshold = 3;
    next.detect.failure_timeout_ns = 100 * RIG_MS;
    next.detect.kind = DETECT_SILENCE;
    CHECK_OK("taken", member_local_reload(rig->local, &next));
    rig_run(rig, 8000);
    rig_stop(rig, "w0");
    CHECK_U64("beats", rig_beat(rig, "w0", MEMBER_READY, 1), MEMBER_BEAT_ACK);
    rig_run(rig, 1240);
    CHECK("75: before the threshold of time", is_suspected(rig, "w0"));
    rig_run(rig, 4700);
    CHECK_U64("dead no sooner", rig_worker(rig, "w0").standing, MEMBER_ACTIVE);
    rig_run(rig, 400);
    CHECK_U64("and no later", rig_worker(rig, "w0").standing, MEMBER_DEAD);
    next.detect.suspect_ratio = 0;
    CHECK_ERR("nothing of it", member_local_reload(rig->local, &next), ERR_INVALID);
    next = rig->options;
    next.checkpoint_interval_ns = 100 * RIG_MS;
    next.checkpoint_ack_timeout_ns = 50 * RIG_MS; /* no worker answers here */
    rig_forget(rig);
    rig_run(rig, 1000);
    CHECK_SIZE("not due", rig_count(rig, MEMBER_EV_CHECKPOINT_TRIGGERED, NULL), 0);
    CHECK_OK("taken", member_local_reload(rig->local, &next));
    rig_run(rig, 3000);
    CHECK("rounds come", rig_count(rig, MEMBER_EV_CHECKPOINT_TRIGGERED, NULL) > 1);
    rig_close(rig);
}

TEST(events_that_nobody_asks_for_are_bounded)
{
    struct rig *rig = rig_open(NULL);
    struct member_beat beat = {.worker = STR("w0"), .phase = MEMBER_INIT};
    struct member_event event;
    struct member_op op;
    struct buf batch;
    size_t ops, count = 0;
    bool more;

    buf_init(&batch, 1 << 20);
    (void)rig_beat(rig, "w0", MEMBER_INIT, 0);
    for (int i = 0; i < 55000; i++) {
        buf_clear(&batch);
        CHECK_OK("a batch", member_batch_begin(&batch, rig->wall_ms));
        rig->now_ns += 1600 * RIG_MS;
        CHECK_OK("scan", member_local_scan(rig->local, rig->now_ns, rig->clock_ns, rig->wall_ms,
                                           &batch, &ops, &more));
        (void)member_local_beat(rig->local, &beat, rig->now_ns, rig->wall_ms, &op);
    }
    CHECK_U64("as many as are kept", member_local_counts(rig->local).events, 100000);
    while (member_local_next_event(rig->local, &event)) {
        CHECK_U64("in order", event.topic, count++ % 2 ? MEMBER_EV_RECOVERED : MEMBER_EV_SUSPECTED);
        CHECK_STR("whole", event.worker, STR("w0"));
    }
    CHECK_SIZE("all of them", count, 100000);
    buf_deinit(&batch);
    rig_close(rig);
}

TEST(case_41_42_43_the_dead_come_back_as_others)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    rig_run(rig, 7000);
    CHECK_U64("dead", rig_worker(rig, T5).standing, MEMBER_DEAD);
    CHECK_U64("the last beat", rig_beat(rig, T5, MEMBER_DRAINING, 0), MEMBER_BEAT_IGNORE);
    CHECK_U64("stays dead", rig_worker(rig, T5).standing, MEMBER_DEAD);
    CHECK_U64("back", rig_beat(rig, T5, MEMBER_READY, 0), MEMBER_BEAT_PROPOSE);
    CHECK_U64("as another", rig_worker(rig, T5).incarnation, 2);
    CHECK_TEXT("after its death", rig_last(rig, MEMBER_EV_REGISTERED)->text, "dead");
    rig_run(rig, 7000);
    CHECK_U64("dead again", rig_worker(rig, T5).standing, MEMBER_DEAD);
    rig_run(rig, 600000);
    CHECK_U64("forgotten", rig_worker(rig, T5).standing, MEMBER_REMOVED);
    CHECK_U64("because", rig_worker(rig, T5).removal, MEMBER_REMOVED_DEAD);
    CHECK_U64("but not its number", rig_beat(rig, T5, MEMBER_READY, 0), MEMBER_BEAT_PROPOSE);
    CHECK_U64("the third", rig_worker(rig, T5).incarnation, 3);
    CHECK_SIZE("two failures", rig_count(rig, MEMBER_EV_FAILED, T5), 2);
    CHECK_SIZE("no departure", rig_count(rig, MEMBER_EV_DEREGISTERED, T5), 0);
    rig_close(rig);
}

TEST(case_44_init_after_ready_is_a_restart)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_INIT, 0);
    (void)rig_beat(rig, T5, MEMBER_INIT, 0);
    CHECK_U64("not yet", rig_worker(rig, T5).incarnation, 1);
    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    (void)rig_beat(rig, T5, MEMBER_INIT, 0);
    CHECK_U64("incarnation", rig_worker(rig, T5).incarnation, 2);
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_RESTARTED, T5), 1);
    rig_close(rig);
}

TEST(a_new_instance_is_a_restart_and_the_old_one_is_over)
{
    struct rig *rig = rig_open(NULL);
    struct member_beat late = {
        .worker = STR("w0"), .phase = MEMBER_READY, .instance = rig_instance(1), .incarnation = 1};
    struct member_op op;

    (void)rig_join(rig, "w0", 1);
    rig_stop(rig, "w0");
    rig_run(rig, 1010); /* after two intervals the old worker may be gone */
    CHECK_U64("another", rig_beat(rig, "w0", MEMBER_INIT, 2), MEMBER_BEAT_PROPOSE);
    CHECK_U64("incarnation", rig_worker(rig, "w0").incarnation, 2);
    CHECK("must register to be given anything", !rig_worker(rig, "w0").capable);
    CHECK_U64("a late beat of the old",
              member_local_beat(rig->local, &late, rig->now_ns, rig->wall_ms, &op).verdict,
              MEMBER_BEAT_RESET);
    CHECK_U64("changes nothing", rig_worker(rig, "w0").incarnation, 2);
    rig_close(rig);
}

/* Without instances a second process looks like a restart, as with rollout workers. */
TEST(case_45_two_processes_under_one_name)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_INIT, 0);
    for (uint8_t i = 0; i < 4; i++) {
        rig_run(rig, 500);
        (void)rig_beat(rig, T5, MEMBER_READY, 0);
        (void)rig_beat(rig, T5, MEMBER_INIT, 0);
    }
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_IDENTITY_CONFLICT, T5), 1);
    CHECK_U64("evicted", rig_worker(rig, T5).standing, MEMBER_DEAD);
    CHECK_SIZE("failed", rig_count(rig, MEMBER_EV_FAILED, T5), 1);
    CHECK_TEXT("why", rig_last(rig, MEMBER_EV_FAILED)->text, "identity_conflict");
    rig_close(rig);
}

TEST(the_second_process_of_one_id_is_refused_while_the_first_beats)
{
    struct rig *rig = rig_open(NULL);
    size_t commands;

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 6000);
    CHECK_U32("the first owns everything", rig_owned(rig, "w0"), 128);
    rig_forget(rig);
    commands = rig->commands;
    for (int i = 0; i < 40; i++) {
        rig_run(rig, 250);
        CHECK_U64("its beat", rig_beat(rig, "w0", MEMBER_INIT, 2), MEMBER_BEAT_IN_USE);
        CHECK("a recent beat", rig->in_use.heard && rig->in_use.silent_ms <= 500);
        CHECK_U64("its registration", rig_register(rig, "w0", 2).status, MEMBER_S_CONFLICTED);
    }
    CHECK_SIZE("nothing was proposed for it", rig->commands - commands,
               rig_count(rig, MEMBER_EV_CHECKPOINT_TRIGGERED, NULL));
    CHECK_U64("counted", member_local_counts(rig->local).in_use, 80);
    CHECK_U64("incarnation", rig_worker(rig, "w0").incarnation, 1);
    CHECK_U32("owns everything", rig_owned(rig, "w0"), 128);
    CHECK_SIZE("no failure", rig_count(rig, MEMBER_EV_FAILED, NULL), 0);
    CHECK_SIZE("no restart", rig_count(rig, MEMBER_EV_RESTARTED, NULL), 0);
    CHECK_SIZE("no conflict", rig_count(rig, MEMBER_EV_IDENTITY_CONFLICT, NULL), 0);
    rig_close(rig);
}

TEST(the_second_process_takes_over_once_the_first_was_silent_for_two_intervals)
{
    struct rig *rig = rig_open(NULL);
    struct rig_beater *first = rig_join(rig, "w0", 1);
    uint64_t silent_ms;

    rig_run(rig, 2000);
    silent_ms = 500 - (first->next_ns - rig->now_ns) / RIG_MS;
    rig_stop(rig, "w0");
    rig_run(rig, 1000 - silent_ms);
    CHECK_U64("after two intervals to the millisecond", rig_beat(rig, "w0", MEMBER_INIT, 2),
              MEMBER_BEAT_IN_USE);
    rig_run(rig, 10);
    CHECK_U64("then it is taken", rig_beat(rig, "w0", MEMBER_INIT, 2), MEMBER_BEAT_PROPOSE);
    CHECK_U64("incarnation", rig_worker(rig, "w0").incarnation, 2);
    CHECK_SIZE("a restart", rig_count(rig, MEMBER_EV_RESTARTED, "w0"), 1);
    CHECK_U64("it may register", rig_register(rig, "w0", 2).status, MEMBER_S_DONE);
    rig_close(rig);
}

TEST(a_new_leader_waits_for_the_first_before_it_takes_the_second)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_join(rig, "w0", 1);
    rig_stop(rig, "w0");
    rig_run(rig, 900);
    rig_takeover(rig);
    rig_run(rig, 900);
    CHECK_U64("this leader has no beat of it yet", rig_beat(rig, "w0", MEMBER_INIT, 2),
              MEMBER_BEAT_IN_USE);
    CHECK("and that is reported", !rig->in_use.heard);
    rig_run(rig, 200);
    CHECK_U64("then it is taken", rig_beat(rig, "w0", MEMBER_INIT, 2), MEMBER_BEAT_PROPOSE);
    rig_close(rig);
}

TEST(slow_restarts_are_no_conflict)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_INIT, 1);
    for (uint8_t i = 0; i < 8; i++) {
        rig_run(rig, 4000);
        (void)rig_beat(rig, T5, MEMBER_INIT, (uint8_t)(2 + i));
    }
    CHECK_SIZE("none", rig_count(rig, MEMBER_EV_IDENTITY_CONFLICT, T5), 0);
    CHECK_U64("each another", rig_worker(rig, T5).incarnation, 9);
    rig_close(rig);
}

TEST(case_46_a_drained_worker_that_falls_silent_has_left)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    CHECK_U64("drains", rig_beat(rig, T5, MEMBER_DRAINING, 0), MEMBER_BEAT_PROPOSE);
    CHECK("so it is", rig_worker(rig, T5).draining);
    rig_run(rig, 1250);
    CHECK_U64("not yet", rig_worker(rig, T5).standing, MEMBER_ACTIVE);
    rig_run(rig, 260);
    CHECK_U64("gone", rig_worker(rig, T5).standing, MEMBER_REMOVED);
    CHECK_U64("left", rig_worker(rig, T5).removal, MEMBER_LEFT);
    CHECK_SIZE("deregistered", rig_count(rig, MEMBER_EV_DEREGISTERED, T5), 1);
    rig_run(rig, 30000);
    CHECK_SIZE("never failed", rig_count(rig, MEMBER_EV_FAILED, T5), 0);
    CHECK_SIZE("never suspected", rig_count(rig, MEMBER_EV_SUSPECTED, T5), 0);
    rig_close(rig);
}

TEST(case_47_a_drained_worker_with_grants_fails)
{
    struct rig *rig = rig_open(NULL);
    struct rig_beater *beater = rig_join(rig, "w0", 1);

    beater->acks = false;
    rig_run(rig, 1000);
    CHECK_U32("owns all", rig_owned(rig, "w0"), 128);
    (void)rig_beat(rig, "w0", MEMBER_DRAINING, 1);
    rig_stop(rig, "w0");
    rig_run(rig, 1600);
    CHECK("suspected", is_suspected(rig, "w0"));
    rig_run(rig, 5000);
    CHECK_U64("dead", rig_worker(rig, "w0").standing, MEMBER_DEAD);
    CHECK_SIZE("failed", rig_count(rig, MEMBER_EV_FAILED, "w0"), 1);
    rig_close(rig);
}

TEST(draining_is_cancelled_by_the_worker_that_announced_it)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op;

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 1000);
    (void)rig_beat(rig, "w0", MEMBER_DRAINING, 1);
    CHECK("draining", rig_worker(rig, "w0").draining);
    CHECK_U64("resumes", rig_beat(rig, "w0", MEMBER_RUNNING, 1), MEMBER_BEAT_PROPOSE);
    CHECK("again", !rig_worker(rig, "w0").draining);
    op = rig_of(rig, MEMBER_OP_DRAIN, "w0");
    op.flag = true;
    CHECK_U64("an operator", rig_op(rig, &op).status, MEMBER_S_DONE);
    CHECK_U64("that it has no beat yet", rig_beat(rig, "w0", MEMBER_RUNNING, 1), MEMBER_BEAT_ACK);
    CHECK("still draining", rig_worker(rig, "w0").draining);
    rig_close(rig);
}

TEST(case_48_leaving_frees_at_once)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op;

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    rig_run(rig, 1000);
    CHECK("both", rig_owned(rig, "w0") > 0 && rig_owned(rig, "w1") > 0);
    rig_stop(rig, "w0");
    op = rig_of(rig, MEMBER_OP_LEAVE, "w0");
    (void)rig_op(rig, &op);
    CHECK_U32("all with the other, in the same entry", rig_owned(rig, "w1"), 128);
    CHECK_SIZE("no failure", rig_count(rig, MEMBER_EV_FAILED, NULL), 0);
    rig_close(rig);
}

TEST(case_49_eviction_fences)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op;
    uint32_t before;

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    rig_run(rig, 1000);
    before = rig_owned(rig, "w0");
    CHECK_U64("beats", rig_beat(rig, "w0", MEMBER_READY, 1), MEMBER_BEAT_ACK);
    CHECK("evict", member_local_evict(rig->local, STR("w0"), rig->now_ns, &op));
    CHECK_U64("no promise from now on", rig_beat(rig, "w0", MEMBER_READY, 1), MEMBER_BEAT_WAIT);
    rig_stop(rig, "w0");
    CHECK_U64("done", rig_op(rig, &op).status, MEMBER_S_DONE);
    CHECK_U64("dead", rig_worker(rig, "w0").standing, MEMBER_DEAD);
    CHECK_TEXT("because", rig_last(rig, MEMBER_EV_FAILED)->text, "evicted");
    CHECK_U64("fencing", member_counts(rig->m).of_state[MEMBER_FENCING], before);
    rig_run(rig, 4240);
    CHECK_U64("still", member_counts(rig->m).of_state[MEMBER_FENCING], before);
    rig_run(rig, 20);
    CHECK_U64("4.25 s", member_counts(rig->m).of_state[MEMBER_FENCING], 0);
    CHECK_U32("all with the other", rig_owned(rig, "w1"), 128);
    rig_close(rig);
}

TEST(case_50_a_transition_outside_the_table_does_nothing)
{
    static const enum member_kind kinds[] = {
        MEMBER_OP_READY,      MEMBER_OP_DRAIN,      MEMBER_OP_DEAD, MEMBER_OP_LEAVE,
        MEMBER_OP_ACK_REVOKE, MEMBER_OP_CHECKPOINT, MEMBER_OP_PULL, MEMBER_OP_STEAL};
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, "dead", MEMBER_READY, 0);
    rig_run(rig, 7000);
    (void)rig_register(rig, "gone", 1);
    struct member_op leave = rig_of(rig, MEMBER_OP_LEAVE, "gone");
    (void)rig_op(rig, &leave);
    (void)rig_register(rig, "active", 1);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        static const char *const whose[] = {"dead", "gone", "nobody", "active"};
        for (size_t j = 0; j < ARRAY_LEN(whose); j++) {
            struct member_op op = rig_of(rig, kinds[i], whose[j]);
            uint64_t hash = member_hash(rig->m);
            size_t events = rig->event_count;

            if (j == 3) op.incarnation++; /* of one that is not */
            CHECK("refused", rig_op(rig, &op).status >= MEMBER_S_INVALID);
            CHECK_U64("nothing changed", member_hash(rig->m), hash);
            CHECK_SIZE("nothing reported", rig->event_count, events);
        }
    }
    rig_close(rig);
}

TEST(case_76_77_a_burst_is_one_deadline)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_INIT, 0);
    for (int i = 0; i < 20; i++)
        CHECK_U64("each", rig_beat(rig, T5, MEMBER_READY, 0), MEMBER_BEAT_ACK);
    CHECK_U64("active", rig_worker(rig, T5).standing, MEMBER_ACTIVE);
    CHECK_U32("one", member_local_counts(rig->local).watched, 1);
    rig_close(rig);
}

TEST(case_68_69_a_wrong_clock_fails_no_worker)
{
    struct rig *rig = rig_open(NULL);
    struct rig_beater *fast = rig_join(rig, "fast", 1), *slow;

    fast->clock_off_ms = 3600000;
    slow = rig_join(rig, "slow", 2);
    slow->clock_off_ms = -10000;
    rig_run(rig, 20000);
    CHECK_SIZE("reported once each", rig_count(rig, MEMBER_EV_CLOCK_SKEW, NULL), 2);
    CHECK_SIZE("nobody", rig_count(rig, MEMBER_EV_FAILED, NULL), 0);
    rig_stop(rig, "fast");
    rig_run(rig, 6800);
    CHECK_SIZE("at the usual time", rig_count(rig, MEMBER_EV_FAILED, "fast"), 1);
    rig_close(rig);
}

TEST(case_71_a_step_of_the_wall_clock_fails_no_worker)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 2000);
    rig->wall_ms += 3600000;
    rig_run(rig, 10000);
    CHECK_SIZE("nobody", rig_count(rig, MEMBER_EV_FAILED, NULL), 0);
    CHECK_SIZE("nor suspected", rig_count(rig, MEMBER_EV_SUSPECTED, NULL), 0);
    rig_close(rig);
}

TEST(case_72_a_leader_that_was_paused_fails_no_worker)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 2000);
    rig->now_ns += 10000 * RIG_MS; /* stopped; beats wait in queues, and the scan may run first */
    rig->clock_ns += 10000 * RIG_MS;
    rig->wall_ms += 10000;
    rig_scan(rig);
    CHECK("seen", member_local_counts(rig->local).scan_late_ns > 9000 * RIG_MS);
    rig_run(rig, 5000);
    CHECK_SIZE("nobody", rig_count(rig, MEMBER_EV_FAILED, NULL), 0);
    rig_close(rig);
}

static char names[100][8];

static void name_all(void)
{
    for (int i = 0; i < 100; i++) (void)snprintf(names[i], sizeof names[i], "w%03d", i);
}

TEST(case_73_too_many_at_once_are_held)
{
    struct rig *rig = rig_open(NULL);
    size_t failed;

    name_all();
    for (uint8_t i = 0; i < 100; i++) (void)rig_join(rig, names[i], (uint8_t)(i + 1));
    rig_run(rig, 1000);
    for (int i = 0; i < 50; i++) rig_stop(rig, names[i]);
    rig_run(rig, 8000);
    failed = rig_count(rig, MEMBER_EV_FAILED, NULL);
    CHECK("a third at most", failed > 0 && failed <= 34);
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_MASS_FAILURE_HOLD, NULL), 1);
    CHECK("holds", member_local_holds(rig->local, rig->now_ns));
    for (int i = 0, back = 0; i < 50 && back < 10; i++)
        if (rig_worker(rig, names[i]).standing == MEMBER_ACTIVE) {
            (void)rig_join(rig, names[i], (uint8_t)(i + 1));
            back++;
        }
    rig_run(rig, 60000);
    CHECK_SIZE("the silent worker", rig_count(rig, MEMBER_EV_FAILED, NULL), 40);
    for (size_t i = 0; i < rig->beater_count; i++)
        CHECK_U64("the worker that came back", rig_worker(rig, rig->beaters[i].id).incarnation, 1);
    rig_close(rig);
}

TEST(case_74_few_are_never_held)
{
    struct rig *rig = rig_open(NULL);

    name_all();
    for (uint8_t i = 0; i < 8; i++) (void)rig_join(rig, names[i], (uint8_t)(i + 1));
    rig_run(rig, 1000);
    for (int i = 0; i < 5; i++) rig_stop(rig, names[i]);
    rig_run(rig, 7000);
    CHECK_SIZE("all of them", rig_count(rig, MEMBER_EV_FAILED, NULL), 5);
    CHECK_SIZE("no hold", rig_count(rig, MEMBER_EV_MASS_FAILURE_HOLD, NULL), 0);
    rig_close(rig);
}

/* -- exactly one failure -- */
TEST(case_78_restarts_repeat_no_failure)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    rig_run(rig, 7000);
    rig_reload(rig);
    rig_run(rig, 20000);
    rig_takeover(rig);
    rig_run(rig, 20000);
    CHECK_SIZE("one in all", rig_count(rig, MEMBER_EV_FAILED, T5), 1);
    rig_close(rig);
}

static void per_worker(struct member_rules *rules, struct member_local_options *options)
{
    (void)options;
    rules->failure_per_worker = true;
}

TEST(case_79_80_each_incarnation_fails_once)
{
    for (int scope = 0; scope < 2; scope++) {
        struct rig *rig = rig_open(scope ? per_worker : NULL);

        (void)rig_beat(rig, T5, MEMBER_READY, 0);
        rig_run(rig, 7000);
        (void)rig_beat(rig, T5, MEMBER_READY, 0);
        rig_run(rig, 7000);
        CHECK_SIZE("failures", rig_count(rig, MEMBER_EV_FAILED, T5), scope ? 1 : 2);
        CHECK_U64("of", rig_last(rig, MEMBER_EV_FAILED)->incarnation, scope ? 1 : 2);
        rig_close(rig);
    }
}

TEST(case_81_82_87_events_not_emitted_are_there_for_the_next_leader)
{
    struct rig *rig = rig_open(NULL);
    struct member_event event;
    struct member_op op = {.kind = MEMBER_OP_EMITTED};
    uint64_t number = 0, index, count = 0;
    uint32_t n;

    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    rig_run(rig, 7000);
    index = rig_last(rig, MEMBER_EV_FAILED)->index;
    n = rig_last(rig, MEMBER_EV_FAILED)->n;
    rig_reload(rig);
    while (member_next_event(rig->m, &number, &event))
        if (event.topic == MEMBER_EV_FAILED) {
            count++;
            CHECK("under the same name", event.index == index && event.n == n);
        }
    CHECK_U64("once", count, 1);
    op.number = number;
    (void)rig_op(rig, &op);
    CHECK_U64("marked", member_emitted(rig->m), number);
    CHECK_U64("and gone", member_counts(rig->m).events, 0);
    rig_reload(rig);
    CHECK_U64("for good", member_emitted(rig->m), number);
    rig_close(rig);
}

TEST(case_83_84_85_a_death_proposed_twice_happens_once)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op;

    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    op = rig_of(rig, MEMBER_OP_DEAD, T5);
    CHECK_U64("dies", rig_op(rig, &op).status, MEMBER_S_DONE);
    CHECK_U64("again", rig_op(rig, &op).status, MEMBER_S_DEAD_NOW);
    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    CHECK_U64("of the first, when it is the second", rig_op(rig, &op).status, MEMBER_S_STALE);
    CHECK_U64("lives", rig_worker(rig, T5).standing, MEMBER_ACTIVE);
    CHECK_SIZE("one event", rig_count(rig, MEMBER_EV_FAILED, T5), 1);
    rig_close(rig);
}

TEST(case_88_a_new_leader_restarts_the_wait)
{
    struct rig *rig = rig_open(NULL);

    (void)rig_beat(rig, T5, MEMBER_READY, 0);
    rig_run(rig, 5900);
    rig_takeover(rig);
    rig_run(rig, 6000);
    CHECK_U64("not before", rig_worker(rig, T5).standing, MEMBER_ACTIVE);
    rig_run(rig, 260);
    CHECK_U64("not much later", rig_worker(rig, T5).standing, MEMBER_DEAD);
    CHECK_U64("another epoch", member_counts(rig->m).coord_epoch, 1);
    rig_close(rig);
}

TEST(case_164_the_four_numbers)
{
    struct rig *rig = rig_open(NULL);
    struct member_status_counts counts = member_counts(rig->m);

    CHECK("empty", counts.active == 0 && counts.dead == 0 && counts.total_partitions == 128 &&
                       counts.assignment_epoch == 0);
    (void)rig_beat(rig, "w3", MEMBER_READY, 0);
    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    (void)rig_join(rig, "w2", 3);
    rig_run(rig, 7000);
    counts = member_counts(rig->m);
    CHECK("three and one", counts.active == 3 && counts.dead == 1);
    rig_close(rig);
}

TEST(advice_stretches_deadlines_and_fences)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op = {.kind = MEMBER_OP_ADVISE, .number = 5000}, evict;

    (void)rig_register(rig, "w0", 1);
    (void)rig_op(rig, &op);
    (void)rig_beat(rig, "w0", MEMBER_READY, 1);
    CHECK("evict", member_local_evict(rig->local, STR("w0"), rig->now_ns, &evict));
    CHECK_U64("it fences 9 s later than usual", evict.fence_ns, (4250 + 9000) * RIG_MS);
    rig_takeover(rig);
    rig_run(rig, 14990);
    CHECK_U64("advised 5 s: alive at 15", rig_worker(rig, "w0").standing, MEMBER_ACTIVE);
    rig_run(rig, 300);
    CHECK_U64("then dead", rig_worker(rig, "w0").standing, MEMBER_DEAD);
    rig_close(rig);
}

TEST(a_register_call_without_a_known_predecessor_replaces_no_worker)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op = {.worker = STR("w0"), .instance = rig_instance(1), .capable = true};
    struct member_in_use in_use;

    /* proposed, and answered late */
    CHECK("nobody has it", member_local_register(rig->local, &op, rig->now_ns, &in_use));
    CHECK_U64("none was there", op.expect, 0);
    (void)rig_op(rig, &op);
    rig_run(rig, 1100);
    (void)rig_join(rig, "w0", 2);
    rig_run(rig, 6000);
    CHECK_U32("owns", rig_owned(rig, "w0"), 128);
    CHECK_U64("proposed again", rig_op(rig, &op).status, MEMBER_S_STALE);
    CHECK_U64("the second", rig_worker(rig, "w0").incarnation, 2);
    CHECK_U32("still owns", rig_owned(rig, "w0"), 128);
    rig_close(rig);
}
