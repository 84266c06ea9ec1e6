/* SPDX-License-Identifier: Apache-2.0 */
/* Reads: they see every earlier acknowledged write, and only the leader answers them. */
#include <string.h>

#include "replica_rig.h"

#include <stdlib.h>

static enum err answer_of(struct call *call)
{
    RIG_UNTIL("answered", call->done);
    return call->err;
}

TEST_BOTH(a_read_sees_everything_acknowledged_before_it)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();

    for (int64_t i = 1; i <= 20; i++) {
        CHECK_OK("a write", answer_of(rig_add(leader, 0, "n", 1)));
        CHECK_OK("a read", answer_of(rig_read(leader, 1)));
        CHECK_I64("sees it", rig_number(leader, "n"), i);
    }
    rig_close();
}

TEST_BOTH(one_round_serves_all_that_came_before_it)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    uint64_t rounds = rig_counter(leader, "muster_log_read_rounds_total ");

    for (size_t i = 0; i < 1000; i++) rig_read(leader, i);
    for (size_t i = 0; i < 1000; i++) CHECK_OK("answered", answer_of(&rig.calls[i]));
    CHECK_U64("one round", rig_counter(leader, "muster_log_read_rounds_total ") - rounds, 1);
    rig_close();
}

TEST(a_leader_cut_off_answers_no_read)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();

    CHECK_OK("a write", answer_of(rig_add(old, 0, "n", 1)));
    rig_cut(old->number, true);
    struct call *stale = rig_read(old, 1);
    RIG_UNTIL("the others lead", rig_has_new_leader(old));
    CHECK_OK("and write", answer_of(rig_add(rig_leader(), 2, "n", 1)));
    CHECK_ERR("never answered with old state", answer_of(stale), ERR_NOT_LEADER);
    rig_close();
}

/* A paused leader wakes up and believes it leads. */
TEST(a_leader_that_slept_answers_no_stale_read)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();

    CHECK_OK("a write", answer_of(rig_add(old, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    sim_host_pause(old->host, SIM_PAUSE_PROCESS);
    RIG_UNTIL("the others lead", rig_has_new_leader(old));
    struct node *leader = rig_leader();
    CHECK_OK("and write", answer_of(rig_add(leader, 1, "n", 1)));
    struct call *read = rig_read(old, 2);
    sim_host_resume(old->host);
    enum err err = answer_of(read);
    CHECK("refused, or as new as the write",
          err == ERR_NOT_LEADER || (err == ERR_OK && rig_number(old, "n") == 2));
    CHECK_ERR("here: refused", err, ERR_NOT_LEADER);
    rig_close();
}

/* Answers of an earlier round are in flight when the next round begins. */
TEST(an_answer_to_an_older_round_proves_nothing)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();

    CHECK_OK("a write", answer_of(rig_add(leader, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    /* One follower answers; the other's answers to round 1 are delayed. */
    struct node *quick = &rig.nodes[(leader->number + 1) % 3];
    struct node *slow = &rig.nodes[(leader->number + 2) % 3];
    sim_link_clog(slow->host, leader->host, 100);
    CHECK_OK("the quick one is enough", answer_of(rig_read(leader, 1)));
    rig_run(5); /* round 1 has reached the slow follower, too, and its answer is in flight */
    /* Round 2 reaches no follower, and the slow one's old answer arrives now. */
    sim_link_block(leader->host, quick->host, true);
    sim_link_block(leader->host, slow->host, true);
    sim_link_block(quick->host, leader->host, true);
    rig_read(leader, 2);
    rig_run(150);
    CHECK("the answer is about round 1", !rig.calls[2].done);
    CHECK_ERR("round 2 ends with the leadership", answer_of(&rig.calls[2]), ERR_NOT_LEADER);
    rig_close();
}

/* A slice of apply ends before the commit index: a read that arrived meanwhile must wait. */
static int64_t seen_by_read;

static void on_read_done(struct read_ticket *ticket, enum err err)
{
    struct call *call = CONTAINER_OF(ticket, struct call, ticket);

    call->done = true;
    call->err = err;
    seen_by_read = rig_number(call->node, "n");
}

TEST(a_read_waits_until_what_it_must_see_is_applied)
{
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader());
    struct node *node = rig_leader();
    struct call *read = &rig.calls[4000];

    for (size_t i = 0; i < 3000; i++) rig_add(node, i, "n", 1); /* more than one slice */
    RIG_UNTIL("committed, and not all applied",
              replica_status(node->replica).commit - replica_status(node->replica).applied > 500);
    *read = (struct call){.node = node, .ticket.done = on_read_done};
    replica_read(node->replica, &read->ticket);
    CHECK_OK("answered", answer_of(read));
    CHECK_I64("with all that was committed", seen_by_read, 3000);
    rig_close();
}

TEST(a_cancelled_read_is_never_answered)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();

    rig_cut(leader->number, true);
    struct call *call = rig_read(leader, 0);
    replica_read_cancel(leader->replica, &call->ticket);
    rig_read(leader, 1);
    rig_run(50);
    replica_read_cancel(leader->replica, &rig.calls[1].ticket);
    replica_read_cancel(leader->replica, &rig.calls[1].ticket);
    rig_run(3000);
    CHECK("not notified", !call->done && !rig.calls[1].done);
    rig_close();
}

TEST(too_many_waiting_reads_are_refused)
{
    enum { MANY = 65536 };
    static struct call many[MANY];
    size_t refused = 0;

    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    rig_cut(leader->number, true);
    rig_read(leader, 0);
    for (size_t i = 0; i < MANY; i++) {
        many[i] = (struct call){.node = leader, .ticket.done = rig.calls[0].ticket.done};
        replica_read(leader->replica, &many[i].ticket);
    }
    rig_run(10);
    for (size_t i = 0; i < MANY; i++)
        if (many[i].done && many[i].err == ERR_FULL) refused++;
    CHECK_U64("the one past the bound", refused, 1);
    RIG_UNTIL("the rest ends with the leadership", many[0].done && many[MANY - 2].done);
    CHECK_ERR("not the leader", many[0].err, ERR_NOT_LEADER);
    rig_close();
}

TEST(a_leader_without_an_entry_of_its_term_committed_is_not_ready)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();
    struct node *a = &rig.nodes[(old->number + 1) % 3], *b = &rig.nodes[(old->number + 2) % 3];

    CHECK_OK("a write", answer_of(rig_add(old, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    rig_kill(old->number);
    RIG_UNTIL(
        "one of them is elected and not yet ready",
        (replica_status(a->replica).role == REPLICA_LEADER && !replica_status(a->replica).ready) ||
            (replica_status(b->replica).role == REPLICA_LEADER &&
             !replica_status(b->replica).ready));
    struct node *leader = replica_status(a->replica).role == REPLICA_LEADER ? a : b;
    rig_read(leader, 1);
    rig_add(leader, 2, "n", 1);
    CHECK_ERR("a read waits for nothing", answer_of(&rig.calls[1]), ERR_NOT_READY);
    CHECK_ERR("nor a write", answer_of(&rig.calls[2]), ERR_NOT_READY);
    RIG_UNTIL("soon it is", rig_leader());
    rig_close();
}

TEST(planted_bugs_are_found)
{
    if (mutant_is_planted()) SKIP("one of them is in here");
    CHECK("no bug, nothing found",
          !mutant_fails_test("a_leader_cut_off_answers_no_read", MUTANT_NONE));
    CHECK_FOUND("a_leader_cut_off_answers_no_read", READ_WITHOUT_ROUND);
    CHECK_FOUND("an_answer_to_an_older_round_proves_nothing", READ_OLD_ROUND);
    CHECK_FOUND("a_read_waits_until_what_it_must_see_is_applied", READ_BEFORE_APPLIED);
    CHECK_FOUND("a_leader_without_an_entry_of_its_term", READ_BEFORE_OWN_TERM);
}
