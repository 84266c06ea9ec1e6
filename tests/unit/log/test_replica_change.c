/* SPDX-License-Identifier: Apache-2.0 */
/* Members: joining, promotion, removal, addresses, handing over, and the cluster level. */
#include "replica_rig.h"

#include <stdio.h>
#include <string.h>

#include "log/replica_internal.h"

static enum err answer_of(struct call *call)
{
    RIG_UNTIL("answered", call->done);
    return call->err;
}

/* Repeats a change while a rule refuses it, as users do. */
static enum err change(enum member_change_kind kind, struct node *which)
{
    for (int tries = 0; tries < 200; tries++) {
        RIG_UNTIL("one leads", rig_leader());
        struct call *call = rig_change(rig_leader(), 10, kind, which);
        enum err err = answer_of(call);

        if (err != ERR_NOT_READY && err != ERR_NOT_LEADER && err != ERR_BUSY) return err;
        rig_run(20);
    }
    return ERR_TIMEOUT;
}

static const struct replica_member *find_member(struct node *node, uint64_t id)
{
    static struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(node->replica, members);

    for (size_t i = 0; i < count; i++)
        if (members[i].id == id) return &members[i];
    return NULL;
}

static void join(size_t i)
{
    rig_format(i, false);
    rig_start_ok(i);
    CHECK_OK("added as a learner", change(CHANGE_ADD, &rig.nodes[i]));
}

TEST_BOTH(a_newcomer_joins_catches_up_and_becomes_a_voter)
{
    struct node *newcomer = &rig.nodes[3];

    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    for (size_t i = 0; i < 200; i++) rig_add(rig_leader(), 20 + i, "n", 1);
    RIG_UNTIL("written", rig.calls[219].done);
    join(3);
    CHECK_U64("a learner", find_member(rig_leader(), 4)->role, MEMBER_LEARNER);
    RIG_UNTIL("it has everything", rig_number(newcomer, "n") == 200);
    CHECK_U64("and knows its cluster", replica_status(newcomer->replica).cluster_id, RIG_CLUSTER);
    CHECK("it is a member", newcomer->reported.member && !newcomer->reported.voter);
    CHECK_OK("promoted", change(CHANGE_PROMOTE, newcomer));
    RIG_UNTIL("it knows", newcomer->reported.voter);
    CHECK_OK("the old ones may go", change(CHANGE_REMOVE, &rig.nodes[0]));
    CHECK_OK("one by one", change(CHANGE_REMOVE, &rig.nodes[1]));
    rig_kill(0);
    rig_kill(1);
    RIG_UNTIL("two are left", rig_leader());
    CHECK_OK("and go on", answer_of(rig_add(rig_leader(), 0, "n", 1)));
    CHECK_I64("with everything", rig_number(rig_leader(), "n"), 201);
    rig_close();
}

/* An operator who reads a list of three voters and stops one of them would stop the cluster. */
TEST(a_leader_lists_a_change_once_it_is_committed)
{
    struct members newest;
    uint64_t uncommitted;

    rig_open(2);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    size_t other = 1 - leader->number;
    join(2);
    RIG_UNTIL("quiet", rig_settled());
    rig_cut(other, true);
    rig_cut(2, true);
    struct call *call = rig_change(leader, 0, CHANGE_PROMOTE, &rig.nodes[2]);
    rig_run(20);
    engine_members(leader->replica->engine, &newest, &uncommitted);
    CHECK("it is written", uncommitted && members_find(&newest, 3)->role == MEMBER_VOTER);
    CHECK_U64("and not listed", find_member(leader, 3)->role, MEMBER_LEARNER);
    rig_cut(other, false);
    rig_cut(2, false);
    CHECK_OK("committed", answer_of(call));
    CHECK_U64("listed", find_member(leader, 3)->role, MEMBER_VOTER);
    rig_close();
}

TEST(a_joiner_stays_in_its_cluster_after_a_restart)
{
    rig_open(1);
    join(3);
    RIG_UNTIL("it is there", rig.nodes[3].reported.member);
    rig_kill(3);
    rig_start_ok(3);
    CHECK_U64("written down", replica_status(rig.nodes[3].replica).cluster_id, RIG_CLUSTER);
    CHECK_OK("works", answer_of(rig_add(&rig.nodes[0], 0, "n", 1)));
    RIG_UNTIL("and goes on", rig_number(&rig.nodes[3], "n") == 1);
    rig_close();
}

TEST(a_dead_voter_is_replaced_under_load)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    size_t dead = (leader->number + 1) % 3;

    for (size_t i = 20; i < 52; i++) {
        rig.calls[i].again = true;
        rig_add(leader, i, "n", 1);
    }
    rig_kill(dead);
    join(3);
    CHECK_OK("the dead one goes first", change(CHANGE_REMOVE, &rig.nodes[dead]));
    CHECK_OK("then the newcomer votes", change(CHANGE_PROMOTE, &rig.nodes[3]));
    for (size_t i = 20; i < 52; i++) rig.calls[i].again = false;
    uint64_t sum = 0;
    for (size_t i = 20; i < 52; i++) {
        CHECK_OK("nobody was refused", answer_of(&rig.calls[i]));
        sum += rig.calls[i].rounds;
    }
    RIG_UNTIL("all agree", rig_settled());
    CHECK_I64("nothing was lost", rig_number(&rig.nodes[3], "n"), sum);
    rig_close();
}

TEST(rules_that_are_not_met_are_named)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    struct node *other = &rig.nodes[(leader->number + 1) % 3];
    struct call *call;

    CHECK_ERR("twice", answer_of(rig_change(leader, 0, CHANGE_ADD, other)), ERR_EXISTS);
    CHECK_ERR("nobody", answer_of(rig_change(leader, 0, CHANGE_PROMOTE, &rig.nodes[4])),
              ERR_NOT_FOUND);
    CHECK_ERR("nobody", answer_of(rig_change(leader, 0, CHANGE_REMOVE, &rig.nodes[4])),
              ERR_NOT_FOUND);
    join(3);
    rig_kill(3);
    rig_run(3000);
    call = rig_change(leader, 0, CHANGE_PROMOTE, &rig.nodes[3]);
    CHECK_ERR("not while it does not answer", answer_of(call), ERR_NOT_READY);
    CHECK("and the reason", strlen(call->note.text) > 0);
    rig_close();
}

TEST(two_changes_at_once_are_one_and_busy)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();

    rig_format(3, false);
    rig_format(4, false);
    struct call *first = rig_change(leader, 0, CHANGE_ADD, &rig.nodes[3]);
    struct call *second = rig_change(leader, 1, CHANGE_ADD, &rig.nodes[4]);
    CHECK_OK("the first", answer_of(first));
    enum err err = answer_of(second);
    CHECK("the second must ask again", err == ERR_BUSY || err == ERR_NOT_READY);
    rig_close();
}

TEST_BOTH(leadership_is_handed_over_on_demand)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader(), *heir = &rig.nodes[(old->number + 2) % 3];

    RIG_UNTIL("quiet", rig_settled());
    CHECK_OK("handed over", answer_of(rig_transfer(old, 0, heir->id)));
    RIG_UNTIL("to the one that was named", rig_leader() == heir);
    CHECK_OK("it works", answer_of(rig_add(heir, 1, "n", 1)));
    CHECK_OK("and to the furthest one", answer_of(rig_transfer(heir, 0, 0)));
    RIG_UNTIL("another", rig_has_new_leader(heir));
    rig_close();
}

static void set_room(struct node *node, uint64_t bytes)
{
    struct sim_fs_options disk = sim_fs_options(sim_host_disk(node->host));

    disk.capacity = bytes;
    CHECK_OK("the disk", sim_fs_set_options(sim_host_disk(node->host), &disk));
}

TEST(a_leader_without_room_hands_over_by_itself)
{
    uint64_t term;

    for (size_t i = 0; i < 3; i++) rig.nodes[i].limits.disk_reserve_bytes = 100 << 20;
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader(), *second = &rig.nodes[(old->number + 1) % 3],
                *third = &rig.nodes[(old->number + 2) % 3];
    uint64_t room = sim_fs_options(sim_host_disk(old->host)).capacity;

    RIG_UNTIL("quiet", rig_settled());
    set_room(second, 64 << 20);
    RIG_UNTIL("noticed", replica_status(second->replica).disk_full);
    CHECK("a follower's is nobody's trouble", rig_leader() == old);
    set_room(old, 64 << 20);
    RIG_UNTIL("the one with room leads", rig_leader() == third);
    CHECK_OK("it works", answer_of(rig_add(third, 1, "n", 1)));
    set_room(third, 64 << 20);
    rig_run(10000);
    term = replica_status(old->replica).term;
    rig_run(600000);
    CHECK("none has room: it goes round, and not for ever faster",
          replica_status(old->replica).term < term + 60);
    CHECK("and it does go round", replica_status(old->replica).term > term + 5);
    for (size_t i = 0; i < 3; i++) set_room(&rig.nodes[i], room);
    RIG_UNTIL("room again", rig_leader() && !replica_status(rig_leader()->replica).disk_full);
    RIG_UNTIL("quiet", rig_settled());
    CHECK_OK("it works", answer_of(rig_add(rig_leader(), 2, "n", 1)));
    rig_close();
}

TEST(a_hand_over_to_nobody_is_refused_and_to_a_dead_one_times_out)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    size_t dead = (leader->number + 1) % 3;

    CHECK_ERR("no such voter", answer_of(rig_transfer(leader, 0, 99)), ERR_NOT_FOUND);
    CHECK_ERR("ourselves", answer_of(rig_transfer(leader, 0, leader->id)), ERR_INVALID);
    rig_kill(dead);
    struct call *call = rig_transfer(leader, 0, dead + 1);
    rig_run(10);
    CHECK_ERR("meanwhile nothing is taken", answer_of(rig_add(leader, 1, "n", 1)), ERR_NOT_READY);
    CHECK_ERR("a dead one", answer_of(call), ERR_TIMEOUT);
    CHECK_OK("and it leads on", answer_of(rig_add(leader, 1, "n", 1)));
    rig_close();
}

TEST(removing_the_leader_hands_over_first)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader();

    CHECK_ERR("ask the new one", answer_of(rig_change(old, 0, CHANGE_REMOVE, old)), ERR_NOT_LEADER);
    RIG_UNTIL("another leads", rig_has_new_leader(old));
    CHECK_OK("which removes it", change(CHANGE_REMOVE, old));
    CHECK("gone", !find_member(rig_leader(), old->id));
    rig_close();
}

static void move(struct node *node, unsigned port)
{
    rig_kill(node->number);
    snprintf(node->address, sizeof node->address, "%c:%u", (char)('a' + node->number), port);
    rig_start_ok(node->number);
}

TEST(an_address_changes_in_place)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader(), *moved = &rig.nodes[(leader->number + 1) % 3];

    move(moved, 7999);
    CHECK_OK("written", change(CHANGE_ADDRESS, moved));
    CHECK_OK("works", answer_of(rig_add(rig_leader(), 0, "n", 1)));
    RIG_UNTIL("found at its new address", rig_number(moved, "n") == 1);
    CHECK_TEXT("in the view of every replica", find_member(rig_leader(), moved->id)->address,
               moved->address);
    CHECK_U64("with the vote it had", find_member(rig_leader(), moved->id)->role, MEMBER_VOTER);
    rig_close();
}

TEST(a_member_that_moved_is_met_where_it_is_before_it_is_listed_there)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader(), *moved = &rig.nodes[(leader->number + 1) % 3];

    RIG_UNTIL("met", strcmp(find_member(leader, moved->id)->met_at, moved->address) == 0);
    CHECK_TEXT("ourselves", find_member(leader, leader->id)->met_at, leader->address);
    rig_kill(moved->number);
    RIG_UNTIL("nowhere", !find_member(leader, moved->id)->met_at[0]);
    snprintf(moved->address, sizeof moved->address, "%c:7999", (char)('a' + moved->number));
    rig_start_ok(moved->number);
    RIG_UNTIL("met again", strcmp(find_member(leader, moved->id)->met_at, moved->address) == 0);
    CHECK("not listed there", strcmp(find_member(leader, moved->id)->address, moved->address) != 0);
    CHECK_OK("free, so taken like any other", change(CHANGE_TAKE, moved));
    CHECK_TEXT("listed", find_member(rig_leader(), moved->id)->address, moved->address);
    rig_close();
}

/* The replica's own configuration has the leader's old address; only the leader's hello has the new
 * one. */
TEST(a_replica_that_was_away_answers_a_leader_that_moved)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *first = rig_leader();
    struct node *moved = &rig.nodes[(first->number + 1) % 3];
    struct node *away = &rig.nodes[(first->number + 2) % 3];

    RIG_UNTIL("quiet", rig_settled());
    rig_kill(away->number);
    move(moved, 7999);
    CHECK_OK("written", change(CHANGE_ADDRESS, moved));
    for (size_t i = 0; i < 100; i++) rig_add(first, 20 + i, "n", 1);
    RIG_UNTIL("and more", rig.calls[119].done);
    CHECK_OK("it leads", answer_of(rig_transfer(first, 0, moved->id)));
    RIG_UNTIL("ready", rig_leader() == moved);
    rig_start_ok(away->number);
    RIG_UNTIL("it catches up", rig_number(away, "n") == 100);
    CHECK_TEXT("and knows where the leader is", replica_status(away->replica).leader_address,
               moved->address);
    rig_close();
}

/* Started with an unreachable address; the configuration has the right one. */
TEST(a_replica_that_announces_a_wrong_address_is_found_by_the_configuration)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *wrong = &rig.nodes[(rig_leader()->number + 1) % 3];

    wrong->says = "nowhere:1";
    rig_kill(wrong->number);
    CHECK_OK("a write it misses", answer_of(rig_add(rig_leader(), 0, "n", 1)));
    rig_start_ok(wrong->number);
    RIG_UNTIL("it catches up", rig_number(wrong, "n") == 1);
    CHECK_OK("another", answer_of(rig_add(rig_leader(), 0, "n", 1)));
    RIG_UNTIL("and goes on", rig_number(wrong, "n") == 2);
    rig_close();
}

/* A hello with an invalid address (a wrong --address) must not keep the leader from dialing other
 * peers: one call sets all addresses. */
TEST(a_hello_with_an_invalid_address_does_not_affect_other_peers)
{
    rig_open(2);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();

    replica_dial_hello(leader->replica, 77, 1, STR("no port"));
    rig_format(2, false);
    rig_start_ok(2);
    CHECK_OK("added", change(CHANGE_ADD, &rig.nodes[2]));
    rig_run(5000);
    CHECK("reached", replica_status(rig.nodes[2].replica).member);
    rig_close();
}

TEST(a_replica_with_an_invalid_address_is_refused)
{
    rig.nodes[0].says = "nowhere";
    rig.founders = 1;
    rig_open(0);
    rig.founders = 1;
    rig_format(0, true);
    CHECK_ERR("refused", rig_start(0), ERR_INVALID);
    CHECK_HAS("naming it", rig.nodes[0].open_note.text, "nowhere");
    rig_close();
}

/* -- the cluster level -- */

TEST(the_level_rises_when_every_member_speaks_it_and_by_an_entry)
{
    for (size_t i = 0; i < 3; i++) rig.nodes[i].version = 2;
    rig.nodes[0].level = rig.nodes[1].level = 2;
    rig.nodes[2].level = 1;
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader();
    struct call *call = rig_add(leader, 0, "n", 1);

    CHECK_OK("level 1 works", answer_of(call));
    rig_run(1000);
    for (size_t i = 0; i < 3; i++)
        CHECK_U64("one supports only level 1", replica_status(rig.nodes[i].replica).level, 1);
    rig_kill(2);
    rig_run(1000);
    if (rig_leader())
        CHECK_U64("it is gone, and still a member", replica_status(rig_leader()->replica).level, 1);
    rig.nodes[2].level = 3; /* the new release */
    rig_start_ok(2);
    RIG_UNTIL("all are at 2", replica_status(rig.nodes[0].replica).level == 2 &&
                                  replica_status(rig.nodes[1].replica).level == 2 &&
                                  replica_status(rig.nodes[2].replica).level == 2);
    RIG_UNTIL("one leads", rig_leader());
    struct proposal *proposal = &call->proposal;
    call->done = false;
    proposal->version = 2;
    replica_propose(rig_leader()->replica, &proposal, 1);
    CHECK_OK("and commands of version 2 are taken", answer_of(call));
    rig_close();
}

/* A downgrade below the cluster's level: the replica must not guess the meaning of entries of that
 * level. */
TEST(a_replica_that_reads_an_unsupported_level_stops_and_names_the_entry)
{
    for (size_t i = 0; i < 3; i++) rig.nodes[i].level = 2;
    rig_open(3);
    RIG_UNTIL("all are at 2", replica_status(rig.nodes[0].replica).level == 2 &&
                                  replica_status(rig.nodes[1].replica).level == 2 &&
                                  replica_status(rig.nodes[2].replica).level == 2);
    RIG_UNTIL("one leads", rig_leader());
    struct node *leader = rig_leader(), *old = &rig.nodes[(leader->number + 1) % 3];

    CHECK_OK("an entry of level 2", answer_of(rig_add(leader, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    rig_kill(old->number);
    old->level = 1;
    rig_start_ok(old->number);
    RIG_UNTIL("it stops", old->stopped);
    CHECK_ERR("for its version", old->stopped, ERR_VERSION);
    CHECK_HAS("naming the entry", old->why.text, "entry ");
    CHECK_I64("before applying it", rig_number(old, "n"), -1);
    rig_close();
}

/* The last entry of the log raises the level; no entry of level 2 was ever written. */
TEST(a_replica_that_reads_the_rise_to_an_unsupported_level_stops)
{
    for (size_t i = 0; i < 3; i++) rig.nodes[i].level = 2;
    rig_open(3);
    RIG_UNTIL("all are at 2", replica_status(rig.nodes[0].replica).level == 2 &&
                                  replica_status(rig.nodes[1].replica).level == 2 &&
                                  replica_status(rig.nodes[2].replica).level == 2);
    RIG_UNTIL("quiet", rig_leader() && rig_settled());
    struct node *old = &rig.nodes[(rig_leader()->number + 1) % 3];

    rig_kill(old->number);
    old->level = 1;
    rig_start_ok(old->number);
    rig_run(2000);
    CHECK_ERR("for its version", old->stopped, ERR_VERSION);
    CHECK_HAS("naming the entry", old->why.text, "entry ");
    rig_close();
}

TEST(a_newcomer_with_a_lower_level_than_the_cluster_is_not_added)
{
    struct node *newcomer = &rig.nodes[3], *leader;

    for (size_t i = 0; i < 3; i++) rig.nodes[i].level = 2;
    rig_open(3);
    RIG_UNTIL("the leader is at 2",
              rig_leader() && replica_status(rig_leader()->replica).level == 2);
    leader = rig_leader();
    replica_dial_hello(leader->replica, newcomer->id, 1, str_from(newcomer->address));
    struct call *call = rig_change(leader, 0, CHANGE_ADD, newcomer);
    CHECK_ERR("refused", answer_of(call), ERR_VERSION);
    CHECK_HAS("both are named", call->note.text, "speaks level 1, the cluster is at 2");
    CHECK("not a member", !find_member(leader, newcomer->id));
    /* An entry that raises the level to 3 is being replicated. */
    replica_dial_hello(leader->replica, newcomer->id, 2, str_from(newcomer->address));
    leader->replica->change.level_index = UINT64_MAX;
    leader->replica->change.level_asked = 3;
    call = rig_change(leader, 0, CHANGE_ADD, newcomer);
    CHECK_ERR("nor one that announces a lower level", answer_of(call), ERR_VERSION);
    leader->replica->change.level_index = 0;
    rig_run(500);
    CHECK_OK("one with a sufficient level is accepted", change(CHANGE_ADD, newcomer));
    rig_close();
}
