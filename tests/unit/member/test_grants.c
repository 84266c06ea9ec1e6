/* SPDX-License-Identifier: Apache-2.0 */
/* Epochs, hand-over, fences: which worker owns a partition. Numbers are those of the
 * specification's test cases (workers.md, section 24.9) and of its example of twelve partitions. */
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "rig.h"

static void twelve(struct member_rules *rules, struct member_local_options *options)
{
    (void)options;
    rules->total_partitions = 12;
    rules->move_limit_ppm = 1000000;
}

static void one_by_one(struct member_rules *rules, struct member_local_options *options)
{
    twelve(rules, options);
    rules->rebalance_window_ms = 0;
}

static void check_owner(const struct rig *rig, const char *worker, const char *partitions)
{
    struct str rest = str_from(partitions), one;
    uint32_t count = 0;

    while (rest.len && str_split(&rest, ' ', &one)) {
        uint64_t number = 0;

        CHECK_OK("a number", str_to_u64(one, &number));
        CHECK_STR(partitions, rig_partition(rig, (uint32_t)number).owner, str_from(worker));
        CHECK_U64(partitions, rig_partition(rig, (uint32_t)number).state, MEMBER_OWNED);
        count++;
    }
    CHECK_U32(worker, rig_owned(rig, worker), count);
}

static struct rig *three(void)
{
    struct rig *rig = rig_open(twelve);

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    (void)rig_join(rig, "w2", 3);
    rig_run(rig, 1000);
    check_owner(rig, "w0", "5 6 7 10");
    check_owner(rig, "w1", "0 2 11");
    check_owner(rig, "w2", "1 3 4 8 9");
    rig_forget(rig);
    return rig;
}

/* Other clusters may own these partitions under later tokens: no partition is granted before every
 * fence is over, and then only under unused tokens. */
TEST(after_a_lost_history_every_grant_is_new_and_waits_for_the_fences)
{
    const uint64_t floor = 1ull << 50;
    struct rig *rig = three();
    struct member_status_counts before = member_counts(rig->m), after;
    uint64_t incarnation = rig_worker(rig, "w0").incarnation;
    struct member_beat beat = {.worker = STR("w0"),
                               .phase = MEMBER_RUNNING,
                               .instance = rig_instance(1),
                               .incarnation = incarnation + 3}; /* of the lost history */
    struct member_op op;

    rig_recover(rig, floor);
    after = member_counts(rig->m);
    CHECK("the coordinator epoch", before.coord_epoch < floor && after.coord_epoch == floor + 1);
    CHECK_U64("the assignment epoch", after.assignment_epoch, floor);
    CHECK_U64("checkpoint rounds", after.checkpoint_round, floor);
    CHECK_U64("incarnations", rig_worker(rig, "w0").incarnation, floor);
    CHECK_U64("no process of before counts",
              member_local_beat(rig->local, &beat, rig->now_ns, rig->wall_ms, &op).verdict,
              MEMBER_BEAT_RESET);
    rig_reload(rig);    /* a snapshot contains this state */
    rig_run(rig, 1100); /* two intervals: until then the ids count as in use */
    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    (void)rig_join(rig, "w2", 3);
    CHECK("admitted again", rig_worker(rig, "w0").incarnation > floor);
    for (uint32_t i = 0; i < 12; i++)
        CHECK_U64("fenced first", rig_partition(rig, i).state, MEMBER_FENCING);
    rig_run(rig, 10000);
    check_owner(rig, "w0", "5 6 7 10");
    check_owner(rig, "w1", "0 2 11");
    check_owner(rig, "w2", "1 3 4 8 9");
    for (uint32_t i = 0; i < 12; i++)
        CHECK("under a new token", rig_partition(rig, i).grant_epoch > floor);
    rig_close(rig);
}

TEST(section_12_5_a_failure_of_one_of_three)
{
    struct rig *rig = three();
    uint64_t epoch = rig_epoch(rig);

    rig_stop(rig, "w2");
    rig_run(rig, 5000);
    CHECK_SIZE("suspicion moves nothing", rig_count(rig, MEMBER_EV_PARTITION_GRANTED, NULL), 0);
    CHECK_U32("still its own", rig_owned(rig, "w2"), 5);
    rig_run(rig, 1800);
    check_owner(rig, "w0", "1 4 5 6 7 8 9 10");
    check_owner(rig, "w1", "0 2 3 11");
    CHECK_U64("epoch", rig_epoch(rig), epoch + 1);
    CHECK_U64("the token", rig_partition(rig, 8).grant_epoch, epoch + 1);
    /* case 149: in the same batch as the death; the others untouched */
    CHECK_SIZE("five moved", rig_count(rig, MEMBER_EV_PARTITION_GRANTED, NULL), 5);
    for (size_t i = 0; i < rig->event_count; i++)
        if (rig->events[i].topic == MEMBER_EV_PARTITION_GRANTED)
            CHECK_U64("one entry", rig->events[i].index, rig_last(rig, MEMBER_EV_FAILED)->index);
    rig_close(rig);
}

TEST(case_138_epochs_count_changes)
{
    struct rig *rig = rig_open(twelve);
    struct member_op op;

    CHECK_U64("fresh", rig_epoch(rig), 0);
    for (uint8_t i = 0; i < 3; i++) {
        static const char *const names[] = {"w0", "w1", "w2"};
        (void)rig_join(rig, names[i], (uint8_t)(i + 1));
        rig_run(rig, 1000);
        CHECK_U64("a join", rig_epoch(rig), i + 1u);
    }
    op = rig_of(rig, MEMBER_OP_LEAVE, "w2");
    rig_stop(rig, "w2");
    (void)rig_op(rig, &op);
    CHECK_U64("a removal", rig_epoch(rig), 4);
    rig_close(rig);
}

TEST(case_139_one_window_is_one_change)
{
    struct rig *rig = rig_open(twelve);

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    (void)rig_join(rig, "w2", 3);
    rig_run(rig, 2000);
    CHECK_U64("one", rig_epoch(rig), 1);
    rig_close(rig);
    rig = rig_open(one_by_one);
    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    (void)rig_join(rig, "w2", 3);
    rig_run(rig, 2000);
    CHECK_U64("three", rig_epoch(rig), 3);
    rig_close(rig);
}

TEST(case_140_events_that_do_not_change_the_eligible_workers)
{
    struct rig *rig = three();
    uint64_t epoch = rig_epoch(rig);

    rig_run(rig, 5000);
    rig_stop(rig, "w2");
    rig_run(rig, 2000);
    CHECK_SIZE("suspected", rig_count(rig, MEMBER_EV_SUSPECTED, "w2"), 1);
    (void)rig_beat(rig, "w2", MEMBER_RUNNING, 3);
    (void)rig_join(rig, "w2", 3);
    (void)rig_beat(rig, "legacy", MEMBER_READY, 0);
    (void)rig_register(rig, "init", 9);
    rig_takeover(rig);
    rig_run(rig, 3000);
    CHECK_U64("the same", rig_epoch(rig), epoch);
    CHECK_SIZE("nothing moved", rig_count(rig, MEMBER_EV_PARTITION_GRANTED, NULL), 0);
    rig_close(rig);
}

TEST(case_141_beats_carry_the_epoch)
{
    struct rig *rig = three();
    struct member_beat beat = {.worker = STR("w0"),
                               .phase = MEMBER_READY,
                               .due = {true, rig->wall_ms + 1000},
                               .instance = rig_instance(1)};
    struct member_op op;

    CHECK_U64("reported",
              member_local_beat(rig->local, &beat, rig->now_ns, rig->wall_ms, &op).assignment_epoch,
              rig_epoch(rig));
    rig_close(rig);
}

TEST(case_142_144_148_revoke_before_assign)
{
    struct rig *rig = three();
    uint32_t moving[] = {2, 3, 4, 7, 9, 10};
    struct member_op op;

    for (size_t i = 0; i < rig->beater_count; i++) rig->beaters[i].acks = false;
    (void)rig_join(rig, "w3", 4);
    rig_run(rig, 3000);
    CHECK_U32("nothing before an ack", rig_owned(rig, "w3"), 0);
    for (size_t i = 0; i < ARRAY_LEN(moving); i++) {
        struct member_partition p = rig_partition(rig, moving[i]);
        uint64_t old = p.grant_epoch;

        CHECK_U64("revoking", p.state, MEMBER_REVOKING);
        CHECK_STR("to", p.target, STR("w3"));
        op = rig_of(rig, MEMBER_OP_ACK_REVOKE,
                    p.owner.at[1] == '0'   ? "w0"
                    : p.owner.at[1] == '1' ? "w1"
                                           : "w2");
        op.partition = moving[i];
        op.epoch = old - 1;
        CHECK_U64("of an older grant", rig_op(rig, &op).status, MEMBER_S_STALE_EPOCH);
        CHECK_U64("still", rig_partition(rig, moving[i]).state, MEMBER_REVOKING);
        op.epoch = old;
        op.text = STR("ckpt-7");
        CHECK_U64("released", rig_op(rig, &op).status, MEMBER_S_DONE);
        p = rig_partition(rig, moving[i]);
        CHECK("granted in the same entry",
              p.state == MEMBER_OWNED && str_equal(p.owner, STR("w3")));
        CHECK_STR("with where to begin", p.checkpoint, STR("ckpt-7"));
        CHECK("the token grows", p.grant_epoch > old);
        CHECK_U64("the old owner's", rig_op(rig, &op).status, MEMBER_S_STALE_EPOCH);
    }
    check_owner(rig, "w3", "2 3 4 7 9 10");
    rig_close(rig);
}

TEST(case_145_an_owner_that_falls_silent_while_revoking)
{
    struct rig *rig = three();

    for (size_t i = 0; i < rig->beater_count; i++) rig->beaters[i].acks = false;
    (void)rig_join(rig, "w3", 4);
    rig_run(rig, 1000);
    rig_stop(rig, "w0");
    rig_stop(rig, "w1");
    rig_stop(rig, "w2");
    rig_run(rig, 5000);
    CHECK_U32("not earlier", rig_owned(rig, "w3"), 0);
    rig_run(rig, 1500);
    CHECK_U32("everything", rig_owned(rig, "w3"), 12);
    rig_close(rig);
}

static void evicts(struct member_rules *rules, struct member_local_options *options)
{
    twelve(rules, options);
    rules->evict_on_revoke_timeout = true;
}

TEST(case_146_an_owner_that_beats_and_does_not_let_go)
{
    for (int evict = 0; evict < 2; evict++) {
        struct rig *rig = rig_open(evict ? evicts : twelve);

        rig_join(rig, "w0", 1)->acks = false;
        rig_run(rig, 1000);
        (void)rig_join(rig, "w1", 2);
        rig_run(rig, 29000);
        CHECK_SIZE("not yet", rig_count(rig, MEMBER_EV_REVOKE_TIMEOUT, NULL), 0);
        rig_run(rig, 2000);
        CHECK("reported", rig_count(rig, MEMBER_EV_REVOKE_TIMEOUT, NULL) > 0);
        CHECK_U32("not given away", rig_owned(rig, "w1"), 0);
        if (!evict) {
            CHECK_U64("lives", rig_worker(rig, "w0").standing, MEMBER_ACTIVE);
            rig_run(rig, 30000);
            CHECK_U32("still not", rig_owned(rig, "w1"), 0);
            CHECK_U64("reported again", rig_last(rig, MEMBER_EV_REVOKE_TIMEOUT)->extra / 1000, 60);
        } else {
            CHECK_TEXT("evicted", rig_last(rig, MEMBER_EV_FAILED)->text, "evicted");
            CHECK_U64("and back as another", rig_worker(rig, "w0").incarnation, 2);
            rig_stop(rig, "w0");
            CHECK("fencing", member_counts(rig->m).of_state[MEMBER_FENCING] > 0);
            rig_run(rig, 4300);
            CHECK_U32("then given", rig_owned(rig, "w1"), 12);
        }
        rig_close(rig);
    }
}

TEST(case_147_the_target_is_the_owner_again)
{
    struct rig *rig = three();
    struct member_op op;
    uint64_t old = rig_partition(rig, 2).grant_epoch;

    for (size_t i = 0; i < rig->beater_count; i++) rig->beaters[i].acks = false;
    (void)rig_join(rig, "w3", 4);
    rig_run(rig, 1000);
    CHECK_U64("revoking", rig_partition(rig, 2).state, MEMBER_REVOKING);
    rig_stop(rig, "w3");
    op = rig_of(rig, MEMBER_OP_LEAVE, "w3");
    (void)rig_op(rig, &op);
    CHECK_U64("its own, in the same entry", rig_partition(rig, 2).state, MEMBER_OWNED);
    CHECK_STR("w1", rig_partition(rig, 2).owner, STR("w1"));
    CHECK("under a new token", rig_partition(rig, 2).grant_epoch > old);
    rig_close(rig);
}

TEST(case_150_a_leader_change_at_each_step)
{
    struct rig *rig = three();

    for (size_t i = 0; i < rig->beater_count; i++) rig->beaters[i].acks = false;
    rig_takeover(rig);
    (void)rig_join(rig, "w3", 4);
    rig_reload(rig);
    rig_run(rig, 1300);
    CHECK_U64("revoking", rig_partition(rig, 2).state, MEMBER_REVOKING);
    rig_takeover(rig);
    rig_reload(rig);
    CHECK_U64("still", rig_partition(rig, 2).state, MEMBER_REVOKING);
    for (size_t i = 0; i < rig->beater_count; i++) rig->beaters[i].acks = true;
    rig_run(rig, 300);
    rig_reload(rig);
    rig_run(rig, 1000);
    check_owner(rig, "w3", "2 3 4 7 9 10");
    rig_close(rig);
}

static void many(struct member_rules *rules, struct member_local_options *options)
{
    (void)options;
    rules->total_partitions = 16384;
}

TEST(case_151_no_more_than_a_tenth_at_once)
{
    struct rig *rig = rig_open(many);
    struct member_op emitted = {.kind = MEMBER_OP_EMITTED, .number = UINT64_MAX};
    struct member_status_counts counts;
    uint32_t first = UINT32_MAX, last = 0;
    struct member_op op;

    for (uint8_t i = 0; i < 3; i++) {
        static const char *const names[] = {"w0", "w1", "w2"};
        (void)rig_register(rig, names[i], (uint8_t)(i + 1));
        op = rig_of(rig, MEMBER_OP_READY, names[i]);
        rig->read = UINT64_MAX; /* thousands of events that this test does not read */
        (void)rig_op(rig, &op);
    }
    rig->clock_ns += 500 * RIG_MS;
    op = (struct member_op){.kind = MEMBER_OP_TICK};
    (void)rig_op(rig, &op);
    (void)rig_op(rig, &emitted);
    CHECK_U64("owned", member_counts(rig->m).of_state[MEMBER_OWNED], 16384);
    (void)rig_register(rig, "w3", 4);
    op = rig_of(rig, MEMBER_OP_READY, "w3");
    (void)rig_op(rig, &op);
    rig->clock_ns += 500 * RIG_MS;
    op = (struct member_op){.kind = MEMBER_OP_TICK};
    (void)rig_op(rig, &op);
    counts = member_counts(rig->m);
    CHECK_U64("at most", counts.of_state[MEMBER_REVOKING], 1638);
    for (uint32_t i = 0; i < 16384; i++) {
        struct member_partition p = rig_partition(rig, i);

        if (p.state == MEMBER_REVOKING) last = i;
        if (p.state == MEMBER_OWNED && !str_equal(p.owner, p.target) && i < first) first = i;
    }
    CHECK("the lowest first", last < first);
    rig_close(rig);
}

TEST(case_152_a_worker_outside_the_hand_over_delays_nothing)
{
    struct rig *rig = three();

    (void)rig_join(rig, "w3", 4);
    rig_run(rig, 2000);
    check_owner(rig, "w3", "2 3 4 7 9 10");
    rig_stop(rig, "w1"); /* paused; its partitions do not move */
    rig_run(rig, 2000);
    CHECK_SIZE("suspected", rig_count(rig, MEMBER_EV_SUSPECTED, "w1"), 1);
    (void)rig_beat(rig, "w3", MEMBER_DRAINING, 4);
    for (size_t i = 0; i < rig->beater_count; i++)
        if (!strcmp(rig->beaters[i].id, "w3")) rig->beaters[i].phase = MEMBER_DRAINING;
    rig_run(rig, 2000);
    CHECK_U32("its successors have all partitions except the paused one's", rig_owned(rig, "w3"),
              0);
    CHECK_U64("which waits", member_counts(rig->m).of_state[MEMBER_FREE], 1);
    CHECK_STR("for w1", rig_partition(rig, 2).target, STR("w1"));
    (void)rig_beat(rig, "w1", MEMBER_READY, 2);
    rig_run(rig, 300);
    CHECK_U64("until it is back", member_counts(rig->m).of_state[MEMBER_FREE], 0);
    rig_close(rig);
}

static void legacy(struct member_rules *rules, struct member_local_options *options)
{
    twelve(rules, options);
    rules->grant_to_legacy = true;
}

TEST(case_153_154_who_gets_grants)
{
    struct rig *rig = rig_open(twelve);

    (void)rig_beat(rig, "w0", MEMBER_READY, 0);
    rig_run(rig, 1000);
    CHECK_U32("a worker known from beats only", rig_owned(rig, "w0"), 0);
    (void)rig_register(rig, "w1", 1);
    rig_run(rig, 1000);
    CHECK_U32("INIT", rig_owned(rig, "w1"), 0);
    (void)rig_beat(rig, "w1", MEMBER_READY, 1);
    rig_run(rig, 1000);
    CHECK_U32("READY", rig_owned(rig, "w1"), 12);
    rig_close(rig);
    rig = rig_open(legacy);
    (void)rig_beat(rig, "w0", MEMBER_READY, 0);
    rig_run(rig, 1000);
    CHECK_U32("with grant_to_legacy", rig_owned(rig, "w0"), 12);
    rig_close(rig);
}

TEST(a_restart_fences_what_the_old_process_had)
{
    struct rig *rig = rig_open(twelve);

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 1000);
    CHECK_U64("beats", rig_beat(rig, "w0", MEMBER_READY, 1), MEMBER_BEAT_ACK);
    rig_stop(rig, "w0");
    rig_run(rig, 1050); /* after two intervals the second is accepted */
    (void)rig_join(rig, "w0", 2);
    CHECK_U64("another", rig_worker(rig, "w0").incarnation, 2);
    CHECK_U64("fencing", member_counts(rig->m).of_state[MEMBER_FENCING], 12);
    rig_run(rig, 3150);
    CHECK_U64("for 4.25 s", member_counts(rig->m).of_state[MEMBER_FENCING], 12);
    rig_reload(rig);
    rig_run(rig, 100);
    CHECK_U32("then its own", rig_owned(rig, "w0"), 12);
    CHECK_U64("of the second", rig_partition(rig, 0).owner_incarnation, 2);
    rig_close(rig);
}

static void quick_silence(struct member_rules *rules, struct member_local_options *options)
{
    twelve(rules, options);
    options->detect.kind = DETECT_SILENCE;
    options->detect.heartbeat_timeout_ns = 2000 * RIG_MS;
}

/* Section 8.2: a detector that is faster than the fence releases no partition before the fence. */
TEST(a_verdict_before_the_fence_waits_for_it)
{
    struct rig *rig = rig_open(quick_silence);
    uint32_t had;

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    rig_run(rig, 1000);
    had = rig_owned(rig, "w0");
    CHECK_U32("all", had + rig_owned(rig, "w1"), 12);
    rig_stop(rig, "w1");
    rig_run(rig, 2600);
    CHECK_U64("dead", rig_worker(rig, "w1").standing, MEMBER_DEAD);
    CHECK_U32("which may still run", rig_owned(rig, "w0"), had);
    rig_run(rig, 2500);
    CHECK_U32("and then", rig_owned(rig, "w0"), 12);
    rig_close(rig);
}

/* The worker announces its leave, resumes, and falls silent; its failure verdict and the resumption
 * cross. */
TEST(a_worker_that_seemed_to_have_left_with_partitions_is_fenced)
{
    struct rig *rig = rig_open(one_by_one);
    struct member_beat beat = {.worker = STR("w1"), .phase = MEMBER_READY};
    struct member_op resume, leave;
    struct buf scan;
    size_t ops;
    bool more;

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 1000);
    (void)rig_register(rig, "w1", 2);
    CHECK_U64("drains", rig_beat(rig, "w1", MEMBER_DRAINING, 2), MEMBER_BEAT_PROPOSE);
    beat.instance = rig_instance(2);
    CHECK_U64("resumes",
              member_local_beat(rig->local, &beat, rig->now_ns, rig->wall_ms, &resume).verdict,
              MEMBER_BEAT_PROPOSE);
    leave = rig_of(rig, MEMBER_OP_LEAVE, "w1");
    leave.flag = true;
    buf_init(&scan, 1 << 20);
    CHECK_OK("a batch", member_batch_begin(&scan, rig->wall_ms));
    rig->now_ns += 1600 * RIG_MS;
    CHECK_OK("the verdict is on its way", member_local_scan(rig->local, rig->now_ns, rig->clock_ns,
                                                            rig->wall_ms, &scan, &ops, &more));
    buf_deinit(&scan);
    CHECK_U64("resumed", rig_op(rig, &resume).status, MEMBER_S_DONE);
    {
        struct member_op ready = rig_of(rig, MEMBER_OP_READY, "w1");

        (void)rig_op(rig, &ready);
    }
    rig_run(rig, 200); /* w0 beats, and gives back */
    CHECK("has something", rig_owned(rig, "w1") > 0);
    CHECK_U64("holds", rig_op(rig, &leave).status, MEMBER_S_HOLDS);
    rig_run(rig, 1300);
    CHECK_U64("dead", rig_worker(rig, "w1").standing, MEMBER_DEAD);
    CHECK("fenced", rig_owned(rig, "w0") < 12);
    rig_run(rig, 4000);
    CHECK_U32("and then", rig_owned(rig, "w0"), 12);
    rig_close(rig);
}

TEST(case_128_129_no_worker_and_one)
{
    struct rig *rig = rig_open(twelve);
    uint32_t numbers[12];

    CHECK_SIZE("nothing", member_grants(rig->m, STR("w0"), numbers, 12), 0);
    CHECK_U64("free", member_counts(rig->m).of_state[MEMBER_FREE], 12);
    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 1000);
    CHECK_SIZE("everything", member_grants(rig->m, STR("w0"), numbers, 12), 12);
    for (uint32_t i = 0; i < 12; i++) CHECK_U32("in order", numbers[i], i);
    rig_close(rig);
}

TEST(case_136_rules_that_would_break_grants_are_refused)
{
    struct rig *rig = three();
    struct member_rules rules = *member_rules(rig->m);
    struct member_op op = {.kind = MEMBER_OP_CONFIGURE, .rules = &rules};
    uint64_t hash = member_hash(rig->m);

    rules.total_partitions = 24;
    CHECK_U64("refused", rig_op(rig, &op).status, MEMBER_S_IN_USE);
    CHECK_U64("nothing", member_hash(rig->m), hash);
    rules.total_partitions = 12;
    CHECK_U64("the same", rig_op(rig, &op).status, MEMBER_S_SAME);
    rules.virtual_nodes = 8;
    CHECK_U64("another ring", rig_op(rig, &op).status, MEMBER_S_DONE);
    rig_run(rig, 2000);
    check_owner(rig, "w0", "1 2 4 6 8 10");
    check_owner(rig, "w1", "3");
    check_owner(rig, "w2", "0 5 7 9 11");
    rig_close(rig);
}

TEST(case_217_a_drain_hands_over_without_waiting)
{
    struct rig *rig = three();
    struct member_op op;

    for (size_t i = 0; i < rig->beater_count; i++)
        if (!strcmp(rig->beaters[i].id, "w2")) rig->beaters[i].phase = MEMBER_DRAINING;
    rig_run(rig, 1600);
    check_owner(rig, "w0", "1 4 5 6 7 8 9 10");
    check_owner(rig, "w1", "0 2 3 11");
    rig_stop(rig, "w2");
    op = rig_of(rig, MEMBER_OP_LEAVE, "w2");
    CHECK_U64("left", rig_op(rig, &op).status, MEMBER_S_DONE);
    rig_run(rig, 10000);
    CHECK_SIZE("never failed", rig_count(rig, MEMBER_EV_FAILED, NULL), 0);
    rig_close(rig);
}
