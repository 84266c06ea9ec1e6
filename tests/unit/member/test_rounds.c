/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint rounds. Numbers are those of the specification's test cases (section 24.10). */
#include "rig.h"

static size_t asked(struct rig *rig, const char *worker, uint64_t *ret_round)
{
    struct str id;
    size_t count = 0;

    while (member_local_next_ask(rig->local, &id, ret_round))
        count += !worker || str_equal(id, str_from(worker));
    return count;
}

static void answer(struct rig *rig, const char *worker, uint64_t round)
{
    CHECK_U64(
        "answered",
        member_local_checkpoint_done(rig->local, str_from(worker), 1, round, false, rig->now_ns),
        MEMBER_S_DONE);
}

static void quiet(struct rig *rig)
{
    for (size_t i = 0; i < rig->beater_count; i++) rig->beaters[i].next_ns = UINT64_MAX;
}

TEST(case_156_157_158_due_at_the_interval_and_once)
{
    struct rig *rig = rig_open(NULL);
    uint64_t start = rig->now_ns, round = 0;

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 9000);
    (void)rig_beat(rig, "w0", MEMBER_READY, 1);
    quiet(rig);
    rig->now_ns = start + 10000 * RIG_MS - 1;
    rig_scan(rig);
    CHECK_SIZE("a nanosecond early", asked(rig, NULL, &round), 0);
    rig->now_ns++;
    rig_scan(rig);
    CHECK_SIZE("due", asked(rig, "w0", &round), 1);
    CHECK_U64("the first", round, 1);
    rig_scan(rig);
    CHECK_SIZE("not twice", asked(rig, NULL, &round), 0);
    answer(rig, "w0", 1);
    rig->now_ns += 35000 * RIG_MS;
    (void)rig_beat(rig, "w0", MEMBER_READY, 1);
    rig_scan(rig);
    CHECK_SIZE("35 s late: one round", asked(rig, NULL, &round), 1);
    CHECK_U64("the second", round, 2);
    CHECK_U64("the log has it", member_counts(rig->m).checkpoint_round, 2);
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_CHECKPOINT_TRIGGERED, NULL), 2);
    rig_close(rig);
}

TEST(case_159_only_active_holders_are_asked)
{
    struct rig *rig = rig_open(NULL);
    uint64_t round;
    struct str id;

    (void)rig_join(rig, "owner", 1);
    rig_run(rig, 3000);
    (void)rig_join(rig, "silent", 2);
    rig_run(rig, 2000);
    (void)rig_register(rig, "init", 3);
    (void)rig_beat(rig, "empty", MEMBER_READY, 0);
    rig_run(rig, 3000);
    rig_stop(rig, "silent");
    rig_run(rig, 2400);
    CHECK_SIZE("suspected", rig_count(rig, MEMBER_EV_SUSPECTED, "silent"), 1);
    CHECK("one is", member_local_next_ask(rig->local, &id, &round));
    CHECK_STR("the owner", id, STR("owner"));
    CHECK("only", !member_local_next_ask(rig->local, &id, &round));
    rig_close(rig);
}

TEST(case_160_a_worker_that_does_not_answer_is_left_out)
{
    struct rig *rig = rig_open(NULL);
    uint64_t round;

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    for (int i = 0; i < 8; i++) {
        rig_run(rig, 10300);
        CHECK_SIZE("one goes on", asked(rig, "w0", &round), 1);
        answer(rig, "w0", round);
    }
    CHECK_SIZE("one time-out", rig_count(rig, MEMBER_EV_CHECKPOINT_TIMEOUT, "w1"), 1);
    CHECK_SIZE("of nobody else", rig_count(rig, MEMBER_EV_CHECKPOINT_TIMEOUT, NULL), 1);
    CHECK_U64("it stays", rig_worker(rig, "w1").standing, MEMBER_ACTIVE);
    CHECK("counted", member_local_counts(rig->local).missed_rounds >= 5);
    rig_close(rig);
}

static void impatient(struct member_rules *rules, struct member_local_options *options)
{
    (void)rules;
    options->checkpoint_max_failures = 2;
}

TEST(a_worker_that_misses_too_many_rounds_is_drained)
{
    struct rig *rig = rig_open(impatient);

    (void)rig_join(rig, "w0", 1);
    (void)rig_join(rig, "w1", 2);
    rig_run(rig, 31000);
    CHECK("drained", rig_worker(rig, "w1").draining);
    rig_close(rig);
}

TEST(case_161_a_stale_acknowledgement_is_refused)
{
    struct rig *rig = rig_open(NULL);
    uint64_t epoch;

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 1000);
    epoch = rig_partition(rig, 3).grant_epoch;
    CHECK_U64("another grant",
              member_local_checkpoint(rig->local, STR("w0"), 1, 3, epoch - 1, STR("r"), 1),
              MEMBER_S_STALE_EPOCH);
    CHECK_U64("another incarnation",
              member_local_checkpoint(rig->local, STR("w0"), 2, 3, epoch, STR("r"), 1),
              MEMBER_S_STALE);
    CHECK_U64("no partition",
              member_local_checkpoint(rig->local, STR("w0"), 1, 128, epoch, STR("r"), 1),
              MEMBER_S_INVALID);
    CHECK_U64("counted", member_local_counts(rig->local).stale_acks, 1);
    CHECK_U64("its own", member_local_checkpoint(rig->local, STR("w0"), 1, 3, epoch, STR("a"), 1),
              MEMBER_S_DONE);
    CHECK_U64("newer", member_local_checkpoint(rig->local, STR("w0"), 1, 3, epoch, STR("b"), 2),
              MEMBER_S_DONE);
    CHECK_STR("not at once", rig_partition(rig, 3).checkpoint, STR_EMPTY);
    rig_run(rig, 5000);
    CHECK_STR("lazily, the newest", rig_partition(rig, 3).checkpoint, STR("b"));
    CHECK_U64("its token", rig_partition(rig, 3).checkpoint_epoch, epoch);
    rig_reload(rig);
    CHECK_STR("for good", rig_partition(rig, 3).checkpoint, STR("b"));
    rig_close(rig);
}

TEST(case_162_a_new_leader_begins_the_next_round)
{
    struct rig *rig = rig_open(NULL);
    uint64_t round = 0;

    (void)rig_join(rig, "w0", 1);
    rig_run(rig, 10300);
    CHECK_SIZE("asked", asked(rig, NULL, &round), 1);
    rig_takeover(rig);
    rig_run(rig, 9900);
    CHECK_SIZE("forgotten", asked(rig, NULL, &round), 0);
    rig_run(rig, 400);
    CHECK_SIZE("ten seconds after the takeover", asked(rig, NULL, &round), 1);
    CHECK_U64("numbers do not repeat", round, 2);
    rig_close(rig);
}
