/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals: refusals and their reasons, and when the answer is done, not done or unknown. */
#include "replica_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *long_text(size_t len)
{
    char *text = malloc(len + 1);

    CHECK("memory", text);
    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

static struct node *open_lone(void)
{
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader());
    return rig_leader();
}

static enum err answer_of(struct call *call)
{
    RIG_UNTIL("answered", call->done);
    return call->err;
}

/* -- refusals -- */

static struct call *propose_raw(struct node *node, size_t at, uint32_t machine, uint32_t version,
                                struct str command, struct str actor)
{
    struct call *call = rig_set(node, at, "k", "v"); /* a callback that writes down */
    struct proposal *proposal = &call->proposal;

    RIG_UNTIL("out of the way", call->done);
    call->done = false;
    proposal->machine = machine;
    proposal->version = version;
    proposal->command = command;
    proposal->actor = actor;
    replica_propose(node->replica, &proposal, 1);
    return call;
}

TEST(a_proposal_that_cannot_be_is_refused_with_its_reason)
{
    rig.nodes[0].version = 2;
    struct node *node = open_lone();
    char *huge = long_text(REPLICA_COMMAND_MAX + 1), *actor = long_text(REPLICA_ACTOR_MAX + 1);
    uint64_t last;

    RIG_UNTIL("quiet", rig_settled());
    CHECK_ERR("no such machine", answer_of(propose_raw(node, 0, 2, 1, STR("x"), STR_EMPTY)),
              ERR_INVALID);
    CHECK_ERR("machine 0 is the log's own",
              answer_of(propose_raw(node, 0, 0, 1, STR("x"), STR_EMPTY)), ERR_INVALID);
    CHECK_ERR("nor one past all", answer_of(propose_raw(node, 0, 99, 1, STR("x"), STR_EMPTY)),
              ERR_INVALID);
    CHECK_ERR("no version 0", answer_of(propose_raw(node, 0, 1, 0, STR("x"), STR_EMPTY)),
              ERR_INVALID);
    CHECK_ERR("a version above the cluster's level",
              answer_of(propose_raw(node, 0, 1, 2, STR("x"), STR_EMPTY)), ERR_VERSION);
    CHECK_ERR("a command too long",
              answer_of(propose_raw(node, 0, 1, 1, str_from(huge), STR_EMPTY)), ERR_TOO_LARGE);
    last = replica_status(node->replica).last;
    CHECK_ERR("an actor too long", answer_of(propose_raw(node, 0, 1, 1, STR("x"), str_from(actor))),
              ERR_TOO_LARGE);
    CHECK_U64("one entry for the callback, none for the refused proposal",
              replica_status(node->replica).last, last + 1);
    CHECK("counted by result",
          rig_counter(node, "muster_log_proposals_total{result=\"TOO_LARGE\"} ") == 2);
    free(huge);
    free(actor);
    rig_close();
}

TEST(past_the_bytes_in_flight_is_full_and_room_comes_back)
{
    struct node *node = &rig.nodes[0];
    char *value = long_text(1000);
    size_t taken = 0;

    node->limits.in_flight_bytes = 10000;
    node = open_lone();
    for (size_t i = 0; i < 20; i++) rig_set(node, i, "k", value);
    for (size_t i = 0; i < 20; i++)
        if (answer_of(&rig.calls[i]) == ERR_OK)
            taken++;
        else
            CHECK_ERR("full", rig.calls[i].err, ERR_FULL);
    CHECK("as many as fit", taken >= 5 && taken <= 10);
    CHECK_OK("and then again", answer_of(rig_set(node, 0, "k", value)));
    free(value);
    rig_close();
}

TEST(past_the_entries_in_flight_is_full)
{
    rig.nodes[0].limits.in_flight_entries = 4;
    struct node *node = open_lone();

    for (size_t i = 0; i < 5; i++) rig_add(node, i, "n", 1);
    CHECK_OK("four fit", answer_of(&rig.calls[3]));
    CHECK_ERR("the fifth does not", answer_of(&rig.calls[4]), ERR_FULL);
    rig_close();
}

TEST(a_proposal_larger_than_the_limit_in_flight_is_sent_alone)
{
    char *value = long_text(100000);

    rig.nodes[0].limits.in_flight_bytes = 1000;
    struct node *node = open_lone();
    CHECK_OK("alone", answer_of(rig_set(node, 0, "k", value)));
    free(value);
    rig_close();
}

TEST(a_machine_over_its_quota_accepts_only_commands_that_free)
{
    char *value = long_text(4000);
    struct call *call;
    struct proposal *proposal;

    rig.nodes[0].quota = 10000;
    struct node *node = open_lone();
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        call = rig_set(node, 0, key, value);
        if (answer_of(call) != ERR_OK) break;
    }
    CHECK_ERR("full", call->err, ERR_FULL);
    proposal = &call->proposal;
    proposal->flags = PROPOSE_FREES;
    call->done = false;
    replica_propose(node->replica, &proposal, 1);
    CHECK_OK("a command that frees is accepted", answer_of(call));
    CHECK_U64("the caller's flags are the caller's", proposal->flags, PROPOSE_FREES);
    free(value);
    rig_close();
}

TEST(below_the_disk_reserve_proposals_are_refused_and_reads_go_on)
{
    rig.nodes[0].limits.disk_reserve_bytes = 100 << 20;
    struct node *node = open_lone();
    struct sim_fs_options disk = sim_fs_options(sim_host_disk(node->host));
    uint64_t capacity = disk.capacity;

    CHECK_OK("there is room", answer_of(rig_add(node, 0, "n", 1)));
    disk.capacity = 64 << 20;
    CHECK_OK("the disk fills up", sim_fs_set_options(sim_host_disk(node->host), &disk));
    RIG_UNTIL("noticed", replica_status(node->replica).disk_full);
    CHECK_ERR("refused", answer_of(rig_add(node, 0, "n", 1)), ERR_NO_SPACE);
    CHECK_OK("a read is not", answer_of(rig_read(node, 0)));
    CHECK("reported", node->reported.disk_full);
    disk.capacity = capacity;
    CHECK_OK("room again", sim_fs_set_options(sim_host_disk(node->host), &disk));
    RIG_UNTIL("noticed", !replica_status(node->replica).disk_full);
    CHECK_OK("taken", answer_of(rig_add(node, 0, "n", 1)));
    rig_close();
}

/* -- shares -- */

TEST(a_reserved_share_stays_free_for_its_machine)
{
    char *value = long_text(1000);
    struct proposal *batch[20];

    rig.nodes[0].limits.in_flight_bytes = 8000;
    rig.nodes[0].share = 4000;
    rig.nodes[0].wants_second = true;
    struct node *node = open_lone();
    for (size_t i = 0; i < 20; i++) { /* the second machine wants everything */
        struct call *call = rig_set(node, i, "k", value);
        RIG_UNTIL("out of the way", call->done);
        call->done = false;
        call->proposal.machine = TRIAL_MACHINE + 1;
        batch[i] = &call->proposal;
    }
    replica_propose(node->replica, batch, 20);
    rig_set(node, 20, "k", value);
    rig_set(node, 21, "k", value);
    CHECK_OK("it gets the shared part", answer_of(&rig.calls[2]));
    CHECK_ERR("and no more", answer_of(&rig.calls[3]), ERR_FULL);
    CHECK_OK("the first machine has its own", answer_of(&rig.calls[20]));
    CHECK_OK("all of it", answer_of(&rig.calls[21]));
    free(value);
    rig_close();
}

TEST(shares_beyond_everything_in_flight_are_refused_at_open)
{
    rig.nodes[0].limits.in_flight_bytes = 4000;
    rig.nodes[0].share = 4001;
    rig_open(0);
    rig.founders = 1;
    rig_format(0, true);
    CHECK_ERR("more reserved than there is", rig_start(0), ERR_INVALID);
    CHECK_HAS("the note", rig.nodes[0].open_note.text, "reserve");
    rig_close();
}

/* -- giving up -- */

TEST_BOTH(an_abandoned_proposal_reports_unknown_once_and_may_still_apply)
{
    struct node *node = open_lone();
    struct call *call = rig_add(node, 0, "n", 1);

    replica_abandon(node->replica, &call->proposal);
    replica_abandon(node->replica, &call->proposal);
    CHECK("not from inside the call", !call->done);
    RIG_UNTIL("reported", call->done);
    CHECK_ERR("unknown", call->err, ERR_UNKNOWN);
    replica_abandon(node->replica, &call->proposal);
    CHECK_OK("the next one", answer_of(rig_add(node, 1, "n", 1)));
    CHECK_I64("both are there", rig_number(node, "n"), 2);
    rig_close();
}

TEST(a_proposal_abandoned_before_it_has_an_index_has_none)
{
    struct node *node = open_lone();
    struct call *call;

    rig_add(node, 0, "n", 1);
    rig_add(node, 1, "n", 1);
    call = rig_add(node, 2, "n", 1);
    replica_abandon(node->replica, &call->proposal);
    CHECK_ERR("unknown", answer_of(call), ERR_UNKNOWN);
    CHECK_U64("nowhere", call->proposal.index, 0);
    CHECK_U64("in no term", call->proposal.term, 0);
    rig_close();
}

TEST(abandoned_bytes_count_until_their_entry_is_applied)
{
    char *value = long_text(1000);

    for (size_t i = 0; i < 3; i++) rig.nodes[i].limits.in_flight_bytes = 5000;
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    rig_cut(leader->number, true);
    for (size_t i = 0; i < 10; i++) {
        struct call *call = rig_set(leader, i, "k", value);
        replica_abandon(leader->replica, &call->proposal);
    }
    RIG_UNTIL("all reported", rig.calls[9].done);
    CHECK_ERR("the first went into the log", rig.calls[0].err, ERR_UNKNOWN);
    CHECK_ERR("the last found no room, though nobody waits for the others", rig.calls[9].err,
              ERR_FULL);
    free(value);
    rig_close();
}

/* -- leadership lost -- */

TEST(a_leader_that_is_cut_off_answers_unknown_for_open_proposals)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();
    struct call *call;

    CHECK_OK("works", answer_of(rig_add(old, 0, "n", 1)));
    rig_cut(old->number, true);
    call = rig_add(old, 1, "n", 10);
    rig_run(100);
    CHECK("nobody answers too early", !call->done);
    CHECK_ERR("in the end it is unknown", answer_of(call), ERR_UNKNOWN);
    CHECK("it has a place", call->proposal.index > 0);
    RIG_UNTIL("the others have a leader", rig_has_new_leader(old));
    CHECK_OK("and go on", answer_of(rig_add(rig_leader(), 2, "n", 100)));
    rig_cut(old->number, false);
    RIG_UNTIL("all agree again", rig_settled());
    CHECK_I64("the unknown proposal was not applied this time", rig_number(old, "n"), 101);
    rig_close();
}

/* No message passes for a minute, but none is lost: at the end all arrive at once, without
 * back-off. */
static void hold(struct node *node, bool out, bool in)
{
    for (size_t k = 0; k < 3; k++) {
        if (k == node->number) continue;
        if (out) sim_link_clog(node->host, rig.nodes[k].host, 60000);
        if (in) sim_link_clog(rig.nodes[k].host, node->host, 60000);
    }
}

/* Another entry is applied at the index while the proposer still waits: the result is known. */
TEST(a_proposal_replaced_by_another_entry_is_reported_not_done)
{
    /* a long memory: the new leader must overwrite the entry before the proposer gives up */
    rig.timing = (struct replica_timing){.election_ms = 500, .heartbeat_ms = 50};
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();

    CHECK_OK("works", answer_of(rig_add(old, 0, "n", 1)));
    hold(old, true, true);
    struct call *call = rig_add(old, 1, "n", 10);
    RIG_UNTIL("the others have a leader", rig_has_new_leader(old));
    CHECK_OK("which takes other commands", answer_of(rig_add(rig_leader(), 2, "n", 100)));
    CHECK("the old one does not know yet", !call->done);
    sim_link_heal_all(rig.sim);
    CHECK_ERR("surely not applied", answer_of(call), ERR_NOT_LEADER);
    CHECK_U64("it has no place", call->proposal.index, 0);
    RIG_UNTIL("all agree", rig_settled());
    CHECK_I64("indeed", rig_number(old, "n"), 101);
    rig_close();
}

/* The leader lost leadership, but the entry is on a majority, and the next leader commits it. */
TEST(a_proposal_that_the_next_leader_commits_is_done)
{
    rig.timing = (struct replica_timing){.election_ms = 500, .heartbeat_ms = 50};
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();

    CHECK_OK("works", answer_of(rig_add(old, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    /* It sends messages and receives none. */
    hold(old, false, true);
    struct call *call = rig_add(old, 1, "n", 10);
    RIG_UNTIL("the others have a leader, with the entry", rig_has_new_leader(old));
    CHECK_I64("applied there", rig_number(rig_leader(), "n"), 11);
    CHECK("the old one does not know yet", !call->done);
    sim_link_heal_all(rig.sim);
    CHECK_OK("now it does", answer_of(call));
    CHECK_I64("with the machine's answer", call->reply.number, 11);
    rig_close();
}

/* -- closing -- */

TEST_BOTH(closing_answers_everything_that_waits_before_it_returns)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    size_t at = leader->number;

    CHECK_OK("works", answer_of(rig_add(leader, 0, "n", 1)));
    rig_stop((at + 1) % 3);
    rig_stop((at + 2) % 3);
    struct call *submitted = rig_add(leader, 1, "n", 1);
    rig_turn();
    rig_run(20);
    struct call *read = rig_read(leader, 2);
    rig_run(20);
    struct call *gathered = rig_add(leader, 3, "n", 1);
    struct call *change = rig_change(leader, 4, CHANGE_REMOVE, &rig.nodes[(at + 1) % 3]);
    struct call *transfer = rig_transfer(leader, 5, 0);
    rig_stop(at);
    CHECK("all were notified",
          submitted->done && read->done && gathered->done && change->done && transfer->done);
    CHECK_ERR("in the log: unknown", submitted->err, ERR_UNKNOWN);
    CHECK_ERR("never submitted: surely not done", gathered->err, ERR_CLOSED);
    CHECK_ERR("a read", read->err, ERR_CLOSED);
    CHECK_ERR("a change never begun", change->err, ERR_CLOSED);
    rig_close();
}

/* A service that writes after a failed read. */
static void propose_after_read(struct read_ticket *ticket, enum err err)
{
    struct call *call = CONTAINER_OF(ticket, struct call, ticket);
    struct proposal *proposal = &rig.calls[1].proposal;

    CHECK_ERR("closed", err, ERR_CLOSED);
    rig.calls[1].done = false;
    replica_propose(call->node->replica, &proposal, 1);
}

static void transfer_after_change(struct member_change *change, enum err err,
                                  const struct note *note)
{
    struct call *call = CONTAINER_OF(change, struct call, change);

    (void)note;
    CHECK_ERR("closed", err, ERR_CLOSED);
    rig_transfer(call->node, 3, 0);
}

TEST(a_request_from_a_final_callback_is_answered_too)
{
    struct node *node = open_lone();

    CHECK_OK("works", answer_of(rig_add(node, 1, "n", 1)));
    rig_read(node, 0)->ticket.done = propose_after_read;
    rig_change(node, 2, CHANGE_REMOVE, node)->change.done = transfer_after_change;
    rig_stop(0);
    CHECK("the proposal", rig.calls[1].done);
    CHECK_ERR("refused", rig.calls[1].err, ERR_CLOSED);
    CHECK("the transfer", rig.calls[3].done);
    CHECK_ERR("refused", rig.calls[3].err, ERR_CLOSED);
    rig_close();
}

/* -- a busy loop -- */

TEST_BOTH(clients_that_propose_again_from_their_answer_do_not_hold_the_loop)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();

    for (size_t i = 0; i < 64; i++) {
        rig.calls[i].again = true;
        rig_add(leader, i, "n", 1);
    }
    RIG_UNTIL("many rounds", rig.calls[0].rounds > 50);
    for (size_t i = 0; i < 64; i++) rig.calls[i].again = false;
    for (size_t i = 0; i < 64; i++) RIG_UNTIL("all end", rig.calls[i].done);
    RIG_UNTIL("all agree", rig_settled());
    uint64_t sum = 0;
    for (size_t i = 0; i < 64; i++) sum += rig.calls[i].rounds;
    for (size_t i = 0; i < 3; i++) CHECK_I64("each once", rig_number(&rig.nodes[i], "n"), sum);
    CHECK_U64("and no leader was lost", replica_status(leader->replica).role, REPLICA_LEADER);
    rig_close();
}

/* -- the replicated clock -- */

TEST(the_replicated_clock_follows_the_leader_and_never_runs_ahead)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    uint64_t before, after, wall = sim_now(rig.sim).ns;

    CHECK_OK("the first of a term moves nothing", answer_of(rig_add(leader, 0, "n", 1)));
    before = replica_status(leader->replica).clock_ns;
    rig_run(100);
    CHECK_OK("the next one does", answer_of(rig_add(leader, 0, "n", 1)));
    after = replica_status(leader->replica).clock_ns;
    CHECK("by the elapsed time", after - before >= 90 * NS_PER_MS);
    CHECK("and no more", after - before <= sim_now(rig.sim).ns - wall);
    rig_run(5000);
    before = replica_status(leader->replica).clock_ns;
    CHECK_OK("after a long silence", answer_of(rig_add(leader, 0, "n", 1)));
    CHECK_U64("at most two seconds", replica_status(leader->replica).clock_ns - before,
              2000 * NS_PER_MS);
    RIG_UNTIL("quiet", rig_settled());
    for (size_t i = 0; i < 3; i++)
        CHECK_U64("the same everywhere", replica_status(rig.nodes[i].replica).clock_ns,
                  replica_status(leader->replica).clock_ns);
    before = replica_status(leader->replica).clock_ns;
    rig_kill(leader->number);
    RIG_UNTIL("another leads", rig_leader());
    CHECK_U64("it does not move meanwhile", replica_status(rig_leader()->replica).clock_ns, before);
    CHECK_OK("its first", answer_of(rig_add(rig_leader(), 0, "n", 1)));
    CHECK_U64("moves nothing", replica_status(rig_leader()->replica).clock_ns, before);
    rig_close();
}

TEST(the_replicated_clock_leaves_out_a_pause_of_the_leader)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    uint64_t before, wall;

    CHECK_OK("the first of a term", answer_of(rig_add(leader, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    before = replica_status(leader->replica).clock_ns;
    wall = sim_now(rig.sim).ns;
    sim_host_pause(leader->host, SIM_PAUSE_PROCESS); /* shorter than an election timeout */
    rig_run(220);
    sim_host_resume(leader->host);
    rig_run(5); /* its loop runs again */
    CHECK_OK("the next one", answer_of(rig_add(leader, 0, "n", 1)));
    CHECK("the world went on", sim_now(rig.sim).ns - wall >= 220 * NS_PER_MS);
    CHECK("the clock did not count the pause",
          replica_status(leader->replica).clock_ns - before <= 120 * NS_PER_MS);
    rig_close();
}

TEST(planted_bugs_are_found)
{
    if (mutant_is_planted()) SKIP("one of them is in here");
    CHECK("no bug, nothing found", !mutant_fails_test("a_leader_that_is_cut_off", MUTANT_NONE));
    CHECK_FOUND("a_leader_that_is_cut_off", REPLY_BEFORE_COMMIT);
    CHECK_FOUND("a_proposal_that_the_next_leader_commits_is_done", LOST_AS_NOT_APPLIED);
    CHECK_FOUND("a_proposal_that_cannot_be_is_refused", LEVEL_IGNORED);
}
