/* SPDX-License-Identifier: Apache-2.0 */
/* Effects of the disk on a replica: errors stop it, old entries are read back, different states are
 * found. */
#include "replica_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/replica_internal.h"

static enum err answer_of(struct call *call)
{
    RIG_UNTIL("answered", call->done);
    return call->err;
}

static void fail_disk(struct node *node, uint32_t writes, uint32_t syncs)
{
    struct sim_fs_options disk = sim_fs_options(sim_host_disk(node->host));

    disk.write_fails_per_million = writes;
    disk.sync_fails_per_million = syncs;
    CHECK_OK("set", sim_fs_set_options(sim_host_disk(node->host), &disk));
}

static void check_fail_stop(uint32_t writes, uint32_t syncs)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();

    CHECK_OK("works", answer_of(rig_add(old, 0, "n", 1)));
    fail_disk(old, writes, syncs);
    struct call *call = rig_add(old, 1, "n", 1);
    rig_run(2000); /* virtual time: a replica that never stops takes no longer */
    CHECK("the leader stops", old->stopped);
    CHECK("because of its disk", old->stopped == ERR_IO);
    CHECK_HAS("names the operation", old->why.text, "log");
    enum err err = answer_of(call);
    CHECK("an open proposal is unknown, or the others applied it",
          err == ERR_UNKNOWN || err == ERR_OK);
    CHECK_ERR("nothing more is taken", answer_of(rig_add(old, 2, "n", 1)), ERR_CLOSED);
    CHECK_ERR("or read", answer_of(rig_read(old, 3)), ERR_CLOSED);
    CHECK_U64("it leads no more", replica_status(old->replica).role, REPLICA_FOLLOWER);
    RIG_UNTIL("the others go on", rig_has_new_leader(old));
    CHECK_OK("with writes", answer_of(rig_add(rig_leader(), 4, "n", 1)));
    rig_kill(old->number);
    fail_disk(old, 0, 0);
    rig_start_ok(old->number);
    RIG_UNTIL("with a repaired disk it comes back", rig_settled());
    CHECK_I64("to the same state", rig_number(old, "n"), rig_number(rig_leader(), "n"));
    rig_close();
}

TEST(a_write_that_fails_stops_the_replica)
{
    check_fail_stop(1000000, 0);
}

TEST(a_sync_that_fails_stops_the_replica)
{
    check_fail_stop(0, 1000000);
}

TEST(a_vote_that_cannot_be_written_is_never_given)
{
    for (uint64_t seed = 1; seed <= 6; seed++) { /* either replica may be the candidate */
        rig.seed = seed;
        rig_open(3);
        RIG_UNTIL("one leads", rig_leader());
        struct node *old = rig_leader();
        struct node *a = &rig.nodes[(old->number + 1) % 3], *b = &rig.nodes[(old->number + 2) % 3];

        RIG_UNTIL("quiet", rig_settled());
        rig_run(5000); /* spares are made and the log is sealed: only a vote needs a sync */
        fail_disk(a, 0, 1000000);
        rig_kill(old->number);
        RIG_UNTIL("it stops at its vote or its candidacy", a->stopped);
        CHECK_HAS("saying so", a->why.text, "vote");
        for (int ms = 0; ms < 2000; ms++) {
            rig_run(1);
            CHECK("and nobody is elected by it, not for a moment",
                  replica_status(b->replica).role != REPLICA_LEADER);
        }
        rig_close();
    }
}

/* The vote and the first entries of its term wait for the disk together. When the write of the vote
 * fails, the entries must not be written: a log must not have a term that was never recorded. */
TEST(entries_of_a_term_that_could_not_be_written_down_are_not_written)
{
    rig_open(1);
    struct node *node = &rig.nodes[0];
    RIG_UNTIL("it leads", rig_leader());
    rig_kill(0);
    rig_start_ok(0); /* alone it leads at once: a vote and an entry are being written */
    fail_disk(node, 1000000, 0);
    while (node->replica->disk.vote.err == ERR_OK) CHECK("goes on", sim_step(rig.sim));
    fail_disk(node, 0, 0);
    RIG_UNTIL("it stops", node->stopped);
    CHECK_HAS("at its vote", node->why.text, "vote");
    rig_kill(0);
    rig_start_ok(0);
    RIG_UNTIL("and with a repaired disk it leads again", rig_leader());
    rig_close();
}

/* -- a disk that fills up -- */

TEST(a_disk_that_fills_within_a_second_is_noticed_in_time)
{
    enum { RESERVE = 4 << 20, CAPACITY = 16 << 20 };
    struct call *call;
    char value[8193];
    size_t taken = 0;

    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    rig.nodes[0].limits.segment_bytes = 1 << 20;
    rig.nodes[0].limits.disk_reserve_bytes = RESERVE;
    rig.nodes[0].limits.snapshot_entries_min = 1 << 30;
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader());
    struct node *node = rig_leader();
    struct sim_fs_options disk = sim_fs_options(sim_host_disk(node->host));
    disk.capacity = CAPACITY;
    disk.sync_ns_min = disk.sync_ns_max = 1000; /* the whole disk in a few milliseconds */
    CHECK_OK("set", sim_fs_set_options(sim_host_disk(node->host), &disk));
    do {
        for (size_t i = 0; i < 16; i++) rig_set(node, i, "k", value);
        for (size_t i = 0; i < 16; i++) {
            call = &rig.calls[i];
            RIG_UNTIL("answered", call->done || node->stopped);
            if (!call->done || call->err) break;
            taken++;
        }
    } while (call->done && !call->err && taken < 10000);
    CHECK_OK("it does not stop", node->stopped);
    CHECK_ERR("it refuses", call->err, ERR_NO_SPACE);
    CHECK("not at once", taken > 100);
    CHECK_OK("and reads", answer_of(rig_read(node, 100)));
    rig_close();
}

/* -- a disk that is slow -- */

static void slow_disk(struct node *node, uint64_t sync_ms)
{
    struct sim_fs_options disk = sim_fs_options(sim_host_disk(node->host));

    disk.sync_ns_min = disk.sync_ns_max = sync_ms * NS_PER_MS;
    CHECK_OK("set", sim_fs_set_options(sim_host_disk(node->host), &disk));
}

TEST(below_the_reserve_nothing_is_zeroed_ahead)
{
    struct node *node = &rig.nodes[0];
    struct sim_fs_options disk;

    rig_open(1);
    disk = sim_fs_options(sim_host_disk(node->host));
    rig_stop(0);
    node->limits.disk_reserve_bytes = disk.capacity ? disk.capacity : UINT64_MAX / 2;
    rig_start_ok(0);
    uint64_t before = replica_status(node->replica).log_bytes;
    rig_run(5000);
    CHECK("it is full", replica_status(node->replica).disk_full);
    CHECK("and did not make it worse",
          replica_status(node->replica).log_bytes < before + (64 << 10));
    rig_stop(0);
    node->limits.disk_reserve_bytes = 1;
    rig_start_ok(0);
    RIG_UNTIL("with space there are spares",
              replica_status(node->replica).log_bytes >= 3 * (UINT64_C(1) << 20));
    rig_close();
}

TEST(proposals_waiting_for_a_slow_disk_are_bounded)
{
    enum { LIMIT = 100 << 10, FRAMES = 2 << 20 };
    char value[1025];
    uint64_t most = 0;

    memset(value, 'v', 1024);
    value[1024] = '\0';
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader(), *slow = &rig.nodes[(leader->number + 1) % 3];
    rig_kill(slow->number);
    slow->limits.in_flight_bytes = LIMIT;
    rig_start_ok(slow->number);
    RIG_UNTIL("quiet", rig_settled());
    slow_disk(slow, 100);
    for (size_t i = 0; i < 4000; i++) rig_set(leader, i, "k", value);
    RIG_UNTIL("the others have it all", rig.calls[3999].done);
    while (!rig_settled() && rig_turn()) {
        struct replica_status status = replica_status(slow->replica);
        most = max_u64(most, status.last - status.durable);
    }
    CHECK("in the end it has everything", rig_settled());
    CHECK("and never held much more than its limit", most * 1100 <= LIMIT + FRAMES);
    CHECK_OK("nobody minded", slow->stopped);
    rig_close();
}

/* The disk reports entries that a new leader replaced during the write. */
TEST(a_report_about_replaced_entries_counts_for_nothing)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();

    CHECK_OK("works", answer_of(rig_add(old, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    rig_run(2000);
    uint64_t before = replica_status(old->replica).last;
    /* Cut off, its own copy of twenty entries takes seconds to sync. */
    rig_cut(old->number, true);
    slow_disk(old, 8000);
    for (size_t i = 1; i <= 20; i++) rig_add(old, i, "n", 1);
    RIG_UNTIL("the others have a leader", rig_has_new_leader(old));
    CHECK_OK("with one entry of its own", answer_of(rig_add(rig_leader(), 30, "n", 100)));
    uint64_t last = replica_status(rig_leader()->replica).last;
    CHECK("fewer than the old one has", last < before + 20);
    rig_cut(old->number, false);
    RIG_UNTIL("they are replaced", replica_status(old->replica).last <= last);
    CHECK("while the disk still writes them", replica_status(old->replica).durable <= before);
    while (!rig_settled() && rig_turn()) {
        struct replica_status status = replica_status(old->replica);
        CHECK("no more durable than there is", status.durable <= status.last);
    }
    CHECK_OK("and it goes on", old->stopped);
    CHECK_I64("with the others' history", rig_number(old, "n"), 101);
    rig_close();
}

/* -- restoring -- */

TEST_BOTH(entries_covered_by_a_snapshot_are_not_applied_again)
{
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader());
    struct node *node = rig_leader();

    for (size_t i = 0; i < 10; i++) rig_add(node, i, "n", 1);
    RIG_UNTIL("written", rig.calls[9].done);
    CHECK_OK("a snapshot", replica_snapshot(node->replica));
    RIG_UNTIL("taken", replica_status(node->replica).snapshot > 0);
    rig_stop(0);
    rig_start_ok(0);
    RIG_UNTIL("it leads again", rig_leader());
    CHECK_I64("ten and no more", rig_number(node, "n"), 10);
    rig_close();
}

/* -- old entries -- */

static void fill(size_t count)
{
    char value[1025];

    memset(value, 'v', 1024);
    value[1024] = '\0';
    for (size_t i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%zu", i % 100);
        rig_set(rig_leader(), 100 + i % 200, key, value);
        if (i % 200 == 199) RIG_UNTIL("written", rig.calls[299].done);
    }
}

TEST_BOTH(a_follower_far_behind_gets_entries_that_left_memory)
{
    for (size_t i = 0; i < 3; i++) {
        rig.nodes[i].limits.cache_bytes = 64 << 10;
        rig.nodes[i].limits.snapshot_entries_min = 1 << 30;
    }
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader(), *late = &rig.nodes[(leader->number + 1) % 3];

    rig_kill(late->number);
    fill(4000);
    CHECK_OK("the last", answer_of(rig_add(leader, 0, "end", 1)));
    rig_start_ok(late->number);
    RIG_UNTIL("it catches up", rig_number(late, "end") == 1);
    CHECK("from the segments", rig_counter(leader, "muster_log_old_reads_total ") > 0);
    CHECK_U64("without a snapshot", rig_counter(leader, "muster_log_snapshots_sent_total "), 0);
    CHECK_U64("to the same state", trial_hash(late->trial), trial_hash(leader->trial));
    rig_close();
}

TEST_BOTH(a_log_larger_than_memory_is_applied_again_after_a_restart)
{
    rig.nodes[0].limits.cache_bytes = 64 << 10;
    rig.nodes[0].limits.snapshot_entries_min = 1 << 30;
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader());
    fill(2000);
    uint64_t hash = trial_hash(rig.nodes[0].trial);
    rig_stop(0);
    rig_start_ok(0);
    RIG_UNTIL("it leads again", rig_leader());
    CHECK_U64("with the same state", trial_hash(rig.nodes[0].trial), hash);
    CHECK("read back", rig_counter(&rig.nodes[0], "muster_log_old_reads_total ") > 0);
    rig_close();
}

TEST(committed_entries_whose_segment_was_taken_away_stop_the_replica)
{
    struct node *node = &rig.nodes[0];

    node->limits.cache_bytes = 64 << 10;
    node->limits.snapshot_entries_min = 1 << 30;
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader());
    fill(2000);
    rig_stop(0);
    rig_start_ok(0);
    CHECK_OK("removed", fs_remove(node->io->fs, "data/log/0000000000000001.seg"));
    for (int turn = 0; turn < 100000 && !node->stopped; turn++) rig_turn();
    CHECK_ERR("damaged", node->stopped, ERR_CORRUPT);
    CHECK_HAS("naming the file", node->why.text, ".seg");
    rig_close();
}

/* -- state hashes -- */

static void spoil(struct node *node)
{
    struct trial_command command = {.op = TRIAL_ADD, .key = STR("n"), .number = 1000};
    struct buf bytes, reply;

    buf_init(&bytes, 4096);
    buf_init(&reply, 4096);
    CHECK_OK("a command", trial_encode(&command, &bytes));
    (void)trial_ops.apply(node->trial,
                          &(struct machine_entry){.index = trial_applied(node->trial),
                                                  .term = 1,
                                                  .version = 1,
                                                  .level = 1,
                                                  .actor = STR_EMPTY,
                                                  .request_id = STR_EMPTY,
                                                  .command = buf_peek(&bytes)},
                          &reply, NULL);
    buf_deinit(&bytes);
    buf_deinit(&reply);
}

static void check_odd_one_out(bool is_leader)
{
    for (size_t i = 0; i < 3; i++) rig.nodes[i].limits.hash_every = 16;
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    struct node *odd = is_leader ? leader : &rig.nodes[(leader->number + 1) % 3];

    for (size_t i = 0; i < 40; i++) rig_add(leader, 20 + i, "n", 1);
    RIG_UNTIL("written", rig.calls[59].done);
    RIG_UNTIL("quiet", rig_settled());
    rig_run(100);
    for (size_t i = 0; i < 3; i++) CHECK_OK("all are the same", rig.nodes[i].stopped);
    spoil(odd);
    for (size_t i = 0; i < 40; i++) rig_add(leader, 20 + i, "n", 1);
    RIG_UNTIL("the odd one stops", odd->stopped);
    CHECK_ERR("as damaged", odd->stopped, ERR_CORRUPT);
    CHECK_HAS("naming the entry", odd->why.text, "after entry ");
    RIG_UNTIL("the others go on", rig_leader());
    CHECK_OK("with writes", answer_of(rig_add(rig_leader(), 0, "n", 1)));
    for (size_t i = 0; i < 3; i++)
        CHECK("and nobody else stopped", &rig.nodes[i] == odd || !rig.nodes[i].stopped);
    rig_close();
}

TEST(a_follower_whose_state_differs_stops_itself)
{
    check_odd_one_out(false);
}

TEST(a_leader_whose_state_differs_stops_itself)
{
    check_odd_one_out(true);
}

/* A read's round is confirmed and waits for the remaining committed entries; the very entry it
 * waits for reveals a wrong state. */
static struct read_ticket waiting;
static enum err waiting_err;
static bool waiting_done;

static void on_waited(struct read_ticket *ticket, enum err err)
{
    (void)ticket;
    waiting_done = true;
    waiting_err = err;
}

static void read_now(struct proposal *proposal, enum err err, struct str reply)
{
    (void)reply;
    CHECK_OK("applied", err);
    waiting = (struct read_ticket){.done = on_waited};
    replica_read(CONTAINER_OF(proposal, struct call, proposal)->node->replica, &waiting);
}

TEST(a_state_known_to_be_wrong_answers_no_request)
{
    enum { AT = 1500 }; /* more than one slice of apply */
    rig.nodes[0].limits.hash_every = AT;
    waiting_done = false;
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader());
    struct node *node = rig_leader();
    size_t count = AT - (size_t)replica_status(node->replica).last;

    for (size_t i = 0; i < count; i++) rig_add(node, i, "n", 1);
    rig.calls[0].proposal.done = read_now;
    replica_apply_hash(node->replica, node->id, &(struct frame_hash){.index = AT, .hash = 1});
    RIG_UNTIL("it stops", node->stopped && waiting_done);
    CHECK_U64("at that entry", replica_status(node->replica).applied, AT);
    CHECK_ERR("damaged", node->stopped, ERR_CORRUPT);
    CHECK_ERR("the entry is in the log, its reply is worth nothing", rig.calls[count - 1].err,
              ERR_UNKNOWN);
    CHECK_ERR("nor is a read", waiting_err, ERR_CLOSED);
    rig_close();
}

/* The next release adds a machine that this one does not have, and the machine is still empty. */
TEST(an_empty_machine_is_no_difference_between_releases)
{
    for (size_t i = 0; i < 3; i++) rig.nodes[i].limits.hash_every = 16;
    rig.nodes[0].wants_second = true;
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    for (size_t i = 0; i < 40; i++) rig_add(rig_leader(), 20 + i, "n", 1);
    RIG_UNTIL("written", rig.calls[59].done);
    RIG_UNTIL("quiet", rig_settled());
    rig_run(100);
    for (size_t i = 0; i < 3; i++) CHECK_OK(rig.nodes[i].why.text, rig.nodes[i].stopped);
    rig_close();
}

/* -- opening -- */

TEST_BOTH(a_directory_in_use_is_refused)
{
    struct node *second = &rig.nodes[1];

    rig_open(1);
    if (rig.real) {
        snprintf(second->dir, sizeof second->dir, "%s", rig.nodes[0].dir);
        CHECK_ERR("busy", rig_start(1), ERR_BUSY);
    }
    CHECK("the first is not disturbed", rig.nodes[0].replica);
    RIG_UNTIL("and leads", rig_leader());
    rig_close();
}

TEST_BOTH(no_directory_is_not_found)
{
    rig_open(0);
    CHECK_ERR("none", rig_start(0), ERR_NOT_FOUND);
    rig_close();
}

TEST(planted_bugs_are_found)
{
    if (mutant_is_planted()) SKIP("one of them is in here");
    CHECK("no bug, nothing found",
          !mutant_fails_test("a_vote_that_cannot_be_written", MUTANT_NONE));
    CHECK_FOUND("a_vote_that_cannot_be_written", VOTE_AFTER_SEND);
    CHECK_FOUND("a_write_that_fails_stops", WRITE_ERROR_IGNORED);
    CHECK_FOUND("entries_covered_by_a_snapshot_are_not_applied_again", APPLY_TWICE_AFTER_RESTORE);
    CHECK_FOUND("a_report_about_replaced_entries", STALE_PERSISTED);
}
