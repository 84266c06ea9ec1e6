/* SPDX-License-Identifier: Apache-2.0 */
/* One minimal scenario per guard (docs/raft-guards.md). Each runs with the guard, and again without
 * it, where it must break. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cluster.h"
#include "lib/test.h"
#include "log/guards.h"
#include "mutants/mutant.h"

/* The cluster of the running scenario; a scenario that breaks leaves it open. */
static struct cluster *c;

static struct node *node(uint64_t id)
{
    return cluster_node(c, id);
}

static struct engine *engine(uint64_t id)
{
    return cluster_node(c, id)->engine;
}

static bool leads(uint64_t id)
{
    return engine_role(engine(id)) == REPLICA_LEADER;
}

static bool done(bool holds)
{
    bool sound = cluster_sound(c);
    cluster_close(c);
    c = NULL;
    return sound && holds;
}

/* A cluster of `voters` voters, led by 1; everything is delivered. */
static void ready(uint64_t voters)
{
    c = cluster_of(voters, 7);
    if (!cluster_elect(c, 1)) abort();
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
}

static void submit(uint64_t id, int count)
{
    for (int i = 0; i < count; i++) {
        char command[32];
        snprintf(command, sizeof command, "%llu", (unsigned long long)c->submitted);
        if (cluster_submit(c, id, command)) abort();
    }
}

static void submit_and_run(uint64_t id, int count)
{
    for (int i = 0; i < count; i++) {
        submit(id, 1);
        cluster_deliver_all(c);
    }
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
}

/* 1 leads; 3 lags behind 1's snapshot, and the snapshot is being sent to 3. */
static void snapshot_on_the_wire(uint64_t voters)
{
    ready(voters);
    cluster_isolate(c, 3, true);
    submit_and_run(1, 5);
    cluster_snapshot(c, 1, 0);
    cluster_run(c, 2 * CLUSTER_ELECTION_MS); /* 3 is silent: its pipeline is dropped */
    cluster_isolate(c, 3, false);
    node(3)->hold_install = true;
    for (int i = 0; i < 20 && !cluster_find(c, 1, 3, RAFT_INSTALL_SNAPSHOT); i++) {
        cluster_fire(c, 1);
        while (cluster_deliver(c, 1, 3, RAFT_APPEND_ENTRIES) ||
               cluster_deliver(c, 1, 2, RAFT_APPEND_ENTRIES) ||
               cluster_deliver(c, 2, 1, RAFT_APPEND_ENTRIES_RESULT) ||
               cluster_deliver(c, 3, 1, RAFT_APPEND_ENTRIES_RESULT)) {}
    }
    if (!cluster_find(c, 1, 3, RAFT_INSTALL_SNAPSHOT)) abort();
}

static bool elects(uint64_t id)
{
    for (uint64_t other = 1; other <= CLUSTER_NODES; other++)
        if (engine(other)) c->now.ms = max_u64(c->now.ms, engine_due(engine(other)).ms);
    cluster_elapse(c, 2 * CLUSTER_ELECTION_MS);
    return cluster_elect(c, id);
}

/* -- 1 -- */
GUARD_TEST(a_snapshot_of_an_old_term_is_not_answered_with_success, GUARD_1)
{
    struct parcel *late, *answer;
    uint64_t match;

    snapshot_on_the_wire(3);
    late = cluster_take(c, 1, 3, RAFT_INSTALL_SNAPSHOT);
    cluster_drop_all(c);
    HOLDS(elects(2));
    HOLDS(elects(1)); /* leads again in a later term */
    cluster_run(c, CLUSTER_HEARTBEAT_MS);
    cluster_drop_all(c);
    node(3)->hold_install = true;
    match = engine_match(engine(1), 3);
    cluster_give(c, late);
    answer = cluster_find(c, 3, 1, RAFT_APPEND_ENTRIES_RESULT);
    HOLDS(answer);
    HOLDS(answer->message.append_entries_result.rejected != 0);
    cluster_deliver_all(c);
    HOLDS(engine_match(engine(1), 3) <= max_u64(match, node(3)->durable));
    return done(true);
}

GUARD_TEST(the_first_append_of_an_old_term_is_not_answered_with_success, GUARD_1)
{
    struct engine_append append = {.term = 1}; /* prev 0 */
    struct engine_effects effects;

    ready(3);
    HOLDS(!engine_receive_append(engine(2), c->now, 3, &append, &effects));
    HOLDS(effects.message_count == 1);
    HOLDS(effects.messages[0].append_entries_result.rejected != 0);
    HOLDS(effects.messages[0].append_entries_result.term == engine_term(engine(2)));
    return done(true);
}

TEST(the_answer_to_an_old_term_costs_a_leader_nothing)
{
    struct raft_message answer = {
        .type = RAFT_APPEND_ENTRIES_RESULT,
        .server_id = 3,
        .append_entries_result = {.rejected = UINT64_MAX},
    };
    struct engine_effects effects;

    ready(3);
    answer.append_entries_result.term = engine_term(engine(1));
    CHECK_OK("it leads again", engine_receive(engine(1), c->now, &answer, &effects));
    CHECK_U64("nothing follows", effects.flags, 0);
    submit(1, 1);
    CHECK("the pipeline goes on",
          cluster_find(c, 1, 3, RAFT_APPEND_ENTRIES)->message.append_entries.n_entries == 1);
    CHECK("sound", done(true));
}

/* -- 2 -- */
GUARD_TEST(a_repeated_append_below_the_snapshot_replaces_nothing, GUARD_2)
{
    struct members members = cluster_members(3, 1);
    struct parcel *first = NULL;

    ready(3);
    submit_and_run(1, 3);
    cluster_start(c, 4); /* empty */
    HOLDS(!cluster_change(c, 1, &members));
    for (struct parcel *parcel; (parcel = cluster_find(c, 1, 4, RAFT_APPEND_ENTRIES));) {
        if (parcel->message.append_entries.n_entries &&
            parcel->message.append_entries.prev_log_index == 0)
            first = cluster_copy(parcel);
        cluster_deliver(c, 1, 4, RAFT_APPEND_ENTRIES);
        while (!first && cluster_deliver(c, 4, 1, RAFT_APPEND_ENTRIES_RESULT)) {}
    }
    HOLDS(first && first->message.append_entries.n_entries);
    submit_and_run(1, 5);
    HOLDS(node(4)->applied == node(1)->applied);
    cluster_snapshot(c, 4, 0);
    cluster_give(c, first);
    submit_and_run(1, 2);
    HOLDS(node(4)->applied == node(1)->applied);
    return done(true);
}

/* -- 3 -- */
GUARD_TEST(a_change_in_the_middle_of_an_append_becomes_committed, GUARD_3)
{
    struct members members = cluster_members(3, 1);
    struct members seen;
    uint64_t uncommitted;

    ready(3);
    cluster_isolate(c, 3, true);
    submit(1, 1);
    HOLDS(!cluster_change(c, 1, &members));
    submit(1, 1);
    cluster_deliver_all(c);
    cluster_isolate(c, 3, false);
    cluster_run(c, 3 * CLUSTER_HEARTBEAT_MS);
    HOLDS(node(3)->applied == node(1)->applied);
    engine_members(engine(3), &seen, &uncommitted);
    HOLDS(seen.count == 4);
    HOLDS(uncommitted == 0);
    HOLDS(engine_members_committed(engine(3), &seen) != 0 && seen.count == 4);
    return done(true);
}

/* -- 4 -- */
GUARD_TEST(an_old_rejection_does_not_take_the_leader_back, GUARD_4)
{
    struct parcel *old = NULL;
    uint64_t match;

    ready(3);
    cluster_isolate(c, 3, true);
    submit_and_run(1, 4);
    cluster_run(c, 2 * CLUSTER_ELECTION_MS);
    submit(1, 1); /* in the pipeline to 2, not to 3 */
    cluster_deliver_all(c);
    cluster_isolate(c, 3, false);
    for (int i = 0; i < 20 && engine_match(engine(1), 3) < node(1)->last; i++) {
        struct parcel *answer;
        cluster_fire(c, 1);
        while (cluster_deliver(c, 1, 3, RAFT_APPEND_ENTRIES)) {}
        answer = cluster_find(c, 3, 1, RAFT_APPEND_ENTRIES_RESULT);
        if (!old && answer && answer->message.append_entries_result.rejected)
            old = cluster_copy(answer);
        cluster_deliver_all(c);
    }
    match = engine_match(engine(1), 3);
    HOLDS(match == node(1)->last);
    if (!old) { /* rejected at the index that is acknowledged by now */
        struct parcel *answer;
        submit(1, 1);
        cluster_drop(cluster_take(c, 1, 3, RAFT_APPEND_ENTRIES));
        cluster_deliver_all(c);
        cluster_elapse(c, CLUSTER_HEARTBEAT_MS);
        cluster_timeout(c, 1);
        while (cluster_deliver(c, 1, 3, RAFT_APPEND_ENTRIES)) {}
        answer = cluster_find(c, 3, 1, RAFT_APPEND_ENTRIES_RESULT);
        HOLDS(answer && answer->message.append_entries_result.rejected);
        old = cluster_copy(answer);
        cluster_deliver_all(c);
        match = engine_match(engine(1), 3);
    }
    HOLDS(old->message.append_entries_result.rejected <= match);
    cluster_isolate(c, 3, true); /* silent: back to probing from match + 1 */
    cluster_run(c, 3 * CLUSTER_ELECTION_MS);
    HOLDS(leads(1));
    cluster_isolate(c, 3, false);
    cluster_drop_all(c);
    old->message.append_entries_result.term = engine_term(engine(1));
    old->message.append_entries_result.rejected = match;
    cluster_give(c, old);
    for (struct parcel *parcel; (parcel = cluster_take(c, 1, 3, RAFT_APPEND_ENTRIES));) {
        HOLDS(parcel->message.append_entries.prev_log_index >= match);
        cluster_give(c, parcel);
    }
    return done(true);
}

/* -- 5 -- */
GUARD_TEST(higher_term_and_longer_log_find_a_leader, GUARD_5)
{
    ready(3);
    cluster_isolate(c, 2, true);
    submit(1, 3); /* 2 does not have them */
    cluster_deliver_all(c);
    for (uint64_t id = 1; id <= 3; id++) cluster_crash(c, id, 0);
    cluster_isolate(c, 2, false);
    node(2)->term = 9; /* it was an unsuccessful candidate */
    node(2)->vote = 2;
    cluster_start(c, 1);
    cluster_start(c, 2);
    cluster_run(c, 50 * CLUSTER_ELECTION_MS);
    HOLDS(cluster_leader(c) == 1);
    return done(true);
}

/* -- 6, 15: voters 1, 2, 3; 3 is dead; 4 has caught up. 1 writes "promote 4" and loses contact
 * before another node has the entry. 1 has the longest log and needs 2 and 4; 4 does not know that
 * it is a voter. -- */
static bool promoted_without_knowing(void)
{
    struct members members = cluster_members(3, 1);

    ready(3);
    cluster_start(c, 4);
    HOLDS(!cluster_change(c, 1, &members));
    cluster_run(c, 5 * CLUSTER_HEARTBEAT_MS);
    HOLDS(node(4)->applied == node(1)->applied);
    cluster_crash(c, 3, 0);
    members.at[3].role = MEMBER_VOTER;
    HOLDS(!cluster_change(c, 1, &members));
    cluster_drop_all(c);
    cluster_isolate(c, 1, true);
    cluster_run(c, 4 * CLUSTER_ELECTION_MS);
    HOLDS(!leads(1));
    cluster_isolate(c, 1, false);
    cluster_run(c, 100 * CLUSTER_ELECTION_MS);
    HOLDS(cluster_leader(c) == 1);
    HOLDS(node(4)->applied == node(1)->applied);
    return done(true);
}
GUARD_TEST(a_leader_that_is_silent_is_not_known_any_more, GUARD_6)
{
    return promoted_without_knowing();
}
GUARD_TEST(a_non_voter_votes, GUARD_15)
{
    return promoted_without_knowing();
}

TEST(a_non_voter_gives_one_vote_a_term_and_keeps_it_over_a_restart)
{
    struct members members = cluster_members(3, 1);
    struct raft_message ask = {.type = RAFT_REQUEST_VOTE, .server_id = 2};
    struct engine_effects effects;

    ready(3);
    cluster_start(c, 4);
    CHECK_OK("4 is added", cluster_change(c, 1, &members));
    cluster_run(c, 5 * CLUSTER_HEARTBEAT_MS);
    ask.request_vote = (struct raft_request_vote){
        .term = 10, .candidate_id = 2, .last_log_index = node(4)->last, .last_log_term = 2};
    CHECK_OK("contact with a leader", engine_receive(engine(4), c->now, &ask, &effects));
    CHECK("refused", !effects.messages[0].request_vote_result.vote_granted);
    CHECK_U64("and the term stays", engine_term(engine(4)), 2);
    cluster_elapse(c, CLUSTER_ELECTION_MS);
    ask.request_vote.last_log_index--;
    CHECK_OK("its log is shorter", engine_receive(engine(4), c->now, &ask, &effects));
    CHECK("refused", !effects.messages[0].request_vote_result.vote_granted);
    ask.request_vote.last_log_index++;
    CHECK_OK("the leader is silent", engine_receive(engine(4), c->now, &ask, &effects));
    CHECK("granted", effects.messages[0].request_vote_result.vote_granted);
    CHECK("to be made durable first", effects.flags & ENGINE_VOTE);
    CHECK_U64("for 2", effects.vote, 2);
    CHECK_U64("in its term", effects.term, 10);
    CHECK_OK("asked again", engine_receive(engine(4), c->now, &ask, &effects));
    CHECK("the same answer", effects.messages[0].request_vote_result.vote_granted);
    ask.server_id = ask.request_vote.candidate_id = 3;
    CHECK_OK("another asks", engine_receive(engine(4), c->now, &ask, &effects));
    CHECK("gets nothing", effects.message_count == 0);
    node(4)->term = 10;
    node(4)->vote = 2;
    cluster_crash(c, 4, 0);
    cluster_start(c, 4);
    CHECK_OK("after a restart", engine_receive(engine(4), c->now, &ask, &effects));
    CHECK("nothing",
          effects.message_count == 0 || !effects.messages[0].request_vote_result.vote_granted);
    ask.server_id = ask.request_vote.candidate_id = 2;
    CHECK_OK("but the first one", engine_receive(engine(4), c->now, &ask, &effects));
    CHECK("still has it", effects.messages[0].request_vote_result.vote_granted);
    CHECK("sound", done(true));
}

/* -- 7: muster's configurations have no spares, so the test makes the library want a time-out. --
 * */
GUARD_TEST(a_timeout_that_stays_due_is_not_asked_for_at_once, GUARD_7)
{
    static const struct guards_step timeout = {.timeout = true}, plain;
    struct guards guards = {.election_ms = 100, .heartbeat_ms = 20};
    struct raft_message messages[1];
    mono_time now = {5000};
    struct raft raft;
    size_t count = 0;

    memset(&raft, 0, sizeof raft);
    HOLDS(!raft_init(&raft, NULL, NULL, 1, "x"));
    raft_set_election_timeout(&raft, 100); /* counted from time 0: expired long ago */
    guards_after(&guards, &raft, &timeout, now, messages, &count);
    HOLDS(guards_due(&guards, (mono_time){raft_timeout(&raft)}).ms == now.ms + 10);
    guards_after(&guards, &raft, &plain, now, messages,
                 &count); /* another step does not cancel it */
    HOLDS(guards_due(&guards, (mono_time){raft_timeout(&raft)}).ms == now.ms + 10);
    HOLDS(guards_due(&guards, (mono_time){9000}).ms == 9000);
    raft_close(&raft, NULL);
    return true;
}

/* -- 8 -- */
GUARD_TEST(a_late_answer_to_a_pre_vote_deposes_no_leader, GUARD_8)
{
    struct raft_message late = {
        .type = RAFT_REQUEST_VOTE_RESULT,
        .server_id = 2,
        .request_vote_result = {.vote_granted = true, .pre_vote = true},
    };
    struct engine_effects effects;
    uint64_t term;

    ready(3);
    term = engine_term(engine(1));
    late.request_vote_result.term = term + 1;
    HOLDS(!engine_receive(engine(1), c->now, &late, &effects));
    HOLDS(leads(1) && engine_term(engine(1)) == term);
    late.server_id = 1;
    HOLDS(!engine_receive(engine(2), c->now, &late, &effects));
    HOLDS(engine_term(engine(2)) == term);
    return done(true);
}

/* -- 9 -- */
static long outstanding;
static const struct raft_heap *beneath;
static void *counting_malloc(void *data, size_t size)
{
    outstanding++;
    return beneath->malloc(data, size);
}
static void counting_free(void *data, void *memory)
{
    if (memory) outstanding--;
    beneath->free(data, memory);
}
static void *counting_calloc(void *data, size_t count, size_t size)
{
    outstanding++;
    return beneath->calloc(data, count, size);
}
static void *counting_realloc(void *data, void *memory, size_t size)
{
    if (!memory) outstanding++;
    return beneath->realloc(data, memory, size);
}

GUARD_TEST(a_second_snapshot_while_one_is_installed_leaks_nothing, GUARD_9)
{
    struct raft_heap counting = {.malloc = counting_malloc,
                                 .free = counting_free,
                                 .calloc = counting_calloc,
                                 .realloc = counting_realloc};
    struct parcel *first, *second;

    snapshot_on_the_wire(3);
    first = cluster_take(c, 1, 3, RAFT_INSTALL_SNAPSHOT);
    second = cluster_copy(first);
    cluster_give(c, first);
    HOLDS(engine_installing(engine(3)));
    beneath = raft_heap_get();
    outstanding = 0;
    raft_heap_set(&counting);
    cluster_give(c, second);
    raft_heap_set((struct raft_heap *)(uintptr_t)beneath);
    HOLDS(outstanding == 0);
    cluster_finish_install(c, 3);
    submit_and_run(1, 1);
    HOLDS(node(3)->applied == node(1)->applied);
    return done(true);
}

/* -- 10 -- */
GUARD_TEST(nothing_is_applied_while_a_snapshot_is_installed, GUARD_10)
{
    snapshot_on_the_wire(3);
    HOLDS(cluster_deliver(c, 1, 3, RAFT_INSTALL_SNAPSHOT));
    HOLDS(engine_installing(engine(3)));
    for (int i = 0; i < 3; i++) {
        cluster_elapse(c, CLUSTER_HEARTBEAT_MS);
        cluster_timeout(c, 1);
        while (cluster_deliver(c, 1, 3, RAFT_APPEND_ENTRIES)) {}
    }
    HOLDS(engine_commit(engine(3)) < node(3)->install.index);
    cluster_finish_install(c, 3);
    submit_and_run(1, 2);
    HOLDS(node(3)->applied == node(1)->applied);
    return done(true);
}

/* -- 11 -- */
GUARD_TEST(a_refused_change_leaves_no_entries_behind, GUARD_11)
{
    struct members members = cluster_members(3, 1);
    struct entry entries[2] = {{.kind = ENTRY_COMMAND, .bytes = STR("x")}, {.kind = ENTRY_CHANGE}};
    struct engine_effects effects;
    struct buf bytes;
    uint64_t first, last;
    enum err err;

    ready(3);
    HOLDS(!cluster_change(c, 1, &members));
    cluster_drop_all(c);
    last = engine_last(engine(1));
    buf_init(&bytes, 4096);
    HOLDS(!members_encode(&members, &bytes));
    entries[1].bytes = buf_peek(&bytes);
    err = engine_submit(engine(1), c->now, entries, 2, &first, &effects);
    HOLDS(engine_last(engine(1)) == last);
    HOLDS(err == ERR_INVALID);
    HOLDS(engine_submit(engine(1), c->now, &entries[1], 1, &first, &effects) == ERR_BUSY);
    HOLDS(engine_last(engine(1)) == last);
    buf_deinit(&bytes);
    return done(true);
}

/* -- 12: the library's catch-up is never requested. Only a hand-over names a server, and it is
 * checked before the library sees it. -- */
TEST(a_hand_over_to_nobody_is_refused)
{
    struct members members = cluster_members(3, 1);

    ready(3);
    CHECK_ERR("from a follower", cluster_transfer(c, 2, 3), ERR_NOT_LEADER);
    CHECK_ERR("to an unknown id", cluster_transfer(c, 1, 9), ERR_NOT_FOUND);
    CHECK_ERR("to itself", cluster_transfer(c, 1, 1), ERR_INVALID);
    CHECK_OK("a learner is added", cluster_change(c, 1, &members));
    cluster_deliver_all(c);
    CHECK_ERR("to a learner", cluster_transfer(c, 1, 4), ERR_NOT_FOUND);
    CHECK_OK("to a voter", cluster_transfer(c, 1, 2));
    CHECK_ERR("twice", cluster_transfer(c, 1, 3), ERR_BUSY);
    CHECK_U64("under way", engine_transferee(engine(1)), 2);
    CHECK_ERR("proposals wait", cluster_submit(c, 1, "x"), ERR_NOT_READY);
    cluster_deliver_all(c);
    CHECK_U64("2 leads", cluster_leader(c), 2);
    CHECK("sound", done(true));
    c = cluster_of(1, 1);
    CHECK_ERR("a lone voter has no heir", cluster_transfer(c, 1, 0), ERR_NOT_FOUND);
    CHECK("sound", done(true));
}

/* -- 14 -- */
GUARD_TEST(a_hand_over_target_that_lost_its_election_deposes_no_leader, GUARD_14)
{
    uint64_t term;

    ready(3);
    HOLDS(!cluster_transfer(c, 1, 2));
    HOLDS(cluster_deliver(c, 1, 2, RAFT_TIMEOUT_NOW));
    HOLDS(cluster_find(c, 2, 3, RAFT_REQUEST_VOTE)->message.request_vote.disrupt_leader);
    cluster_drop_all(c);
    cluster_isolate(c, 2, true);
    cluster_run(c, 2 * CLUSTER_ELECTION_MS); /* 1 continues with 3; no node answers 2 */
    HOLDS(leads(1));
    term = engine_term(engine(1));
    cluster_fire(c, 2);
    cluster_fire(c, 1);
    cluster_deliver(c, 1, 3, RAFT_APPEND_ENTRIES);
    for (uint64_t id = 1; id <= 3; id += 2) HOLDS(cluster_deliver(c, 2, id, RAFT_REQUEST_VOTE));
    HOLDS(leads(1) && engine_term(engine(1)) == term && engine_term(engine(3)) == term);
    return done(true);
}

/* -- 16: voters 1, 2, 3, learner 4. 2 writes "promote 4", which is only on 2. 3 leads the next
 * term, its entries reach only 4, and 3 dies. -- */
GUARD_TEST(a_non_voter_gets_committed_entries_only, GUARD_16)
{
    struct members members = cluster_members(3, 1);

    ready(3);
    cluster_start(c, 4);
    HOLDS(!cluster_change(c, 1, &members));
    cluster_run(c, 5 * CLUSTER_HEARTBEAT_MS);
    HOLDS(elects(2));
    cluster_run(c, 5 * CLUSTER_HEARTBEAT_MS);
    members.at[3].role = MEMBER_VOTER;
    HOLDS(!cluster_change(c, 2, &members));
    cluster_drop_all(c);
    cluster_isolate(c, 2, true);
    for (int tries = 0; tries < 8 && !leads(3); tries++) { /* 1 votes and receives nothing else */
        cluster_elapse(c, 2 * CLUSTER_ELECTION_MS);
        cluster_fire(c, 3);
        while (cluster_deliver(c, 3, 1, RAFT_REQUEST_VOTE) ||
               cluster_deliver(c, 1, 3, RAFT_REQUEST_VOTE_RESULT)) {}
    }
    HOLDS(leads(3));
    for (int i = 0; i < 4; i++) {
        submit(3, 1);
        while (cluster_deliver(c, 3, 4, RAFT_APPEND_ENTRIES) ||
               cluster_deliver(c, 4, 3, RAFT_APPEND_ENTRIES_RESULT)) {}
        cluster_elapse(c, CLUSTER_HEARTBEAT_MS);
        cluster_timeout(c, 3);
    }
    cluster_drop_all(c);
    cluster_crash(c, 3, 0);
    cluster_isolate(c, 2, false);
    cluster_run(c, 100 * CLUSTER_ELECTION_MS);
    HOLDS(cluster_leader(c) != 0);
    return done(true);
}

TEST(a_non_voter_catches_up_under_load_although_its_appends_are_cut)
{
    struct members members = cluster_members(3, 1);

    ready(3);
    submit_and_run(1, 200);
    cluster_start(c, 4);
    CHECK_OK("4 is added", cluster_change(c, 1, &members));
    for (int i = 0; i < 200; i++) {
        submit(1, 3);
        cluster_run(c, 1);
    }
    CHECK("not far behind", node(4)->applied + 128 > node(1)->applied);
    cluster_run(c, 3 * CLUSTER_HEARTBEAT_MS);
    CHECK_U64("all of it when calm", node(4)->applied, node(1)->applied);
    CHECK("sound", done(true));
}

/* -- 17: voter 1 promotes 2; its entries reach 2 before 1's own disk, and a crash loses them on 1.
 * -- */
GUARD_TEST(a_lone_voter_never_leads_a_term_twice, GUARD_17)
{
    struct members members = cluster_members(1, 1);

    c = cluster_of(1, 7);
    cluster_start(c, 2);
    HOLDS(!cluster_change(c, 1, &members));
    cluster_run(c, 5 * CLUSTER_HEARTBEAT_MS);
    HOLDS(node(2)->applied == node(1)->applied);
    node(1)->hold_sync = true;
    members.at[1].role = MEMBER_VOTER;
    HOLDS(!cluster_change(c, 1, &members));
    HOLDS(!cluster_submit(c, 1, "lost"));
    while (cluster_deliver(c, 1, 2, RAFT_APPEND_ENTRIES)) {}
    cluster_drop_all(c);
    HOLDS(node(2)->last == node(1)->last);
    cluster_crash(c, 1, 0);
    cluster_start(c, 1);
    HOLDS(!cluster_submit(c, 1, "another"));
    HOLDS(!cluster_submit(c, 1, "and one more"));
    HOLDS(!cluster_change(c, 1, &members));
    cluster_run(c, 20 * CLUSTER_HEARTBEAT_MS);
    HOLDS(cluster_sound(c));
    HOLDS(node(2)->applied == node(1)->applied && node(1)->applied == node(1)->last);
    return done(true);
}

/* -- 18: heartbeats to a follower that seems to need a snapshot end at the snapshot, and a late
 * heartbeat may name a higher commit index than the follower has. -- */
GUARD_TEST(the_commit_index_never_goes_back, GUARD_18)
{
    struct engine_append late = {.prev_index = 4};
    struct engine_effects effects;
    uint64_t commit;

    ready(3);
    submit_and_run(1, 5);
    commit = engine_commit(engine(2));
    HOLDS(commit > late.prev_index);
    late.term = late.prev_term = engine_term(engine(1));
    late.commit = commit + 1;
    HOLDS(!engine_receive_append(engine(2), c->now, 1, &late, &effects));
    HOLDS(engine_commit(engine(2)) == commit);
    submit_and_run(1, 1);
    HOLDS(node(2)->applied == node(1)->applied);
    return done(true);
}

/* -- 19 -- */
GUARD_TEST(a_hand_over_under_load_waits_for_the_heir, GUARD_19)
{
    ready(3);
    node(2)->hold_sync = true;
    submit(1, 1);
    HOLDS(cluster_deliver(c, 1, 2, RAFT_APPEND_ENTRIES));
    cluster_sync(c, 2);
    submit(1, 1);
    HOLDS(!cluster_transfer(c, 1, 2));
    HOLDS(cluster_deliver(c, 2, 1, RAFT_APPEND_ENTRIES_RESULT)); /* of the first only */
    cluster_deliver_all(c);
    HOLDS(leads(1));
    cluster_sync(c, 2);
    cluster_deliver_all(c);
    HOLDS(leads(2));
    return done(true);
}

TEST(a_hand_over_that_is_given_up_leaves_nothing_behind)
{
    ready(3);
    node(2)->hold_sync = true;
    submit(1, 1);
    cluster_deliver(c, 1, 2, RAFT_APPEND_ENTRIES);
    cluster_sync(c, 2);
    submit(1, 1);
    CHECK_OK("asked", cluster_transfer(c, 1, 2));
    cluster_deliver_all(c);
    cluster_isolate(c, 2, true);
    cluster_run(c, 2 * CLUSTER_ELECTION_MS);
    CHECK_U64("given up", engine_transferee(engine(1)), 0);
    CHECK("1 still leads", leads(1));
    CHECK_OK("and takes proposals", cluster_submit(c, 1, "x"));
    cluster_isolate(c, 2, false);
    cluster_sync(c, 2);
    node(2)->hold_sync = false;
    cluster_run(c, 3 * CLUSTER_HEARTBEAT_MS);
    CHECK("nobody is notified to take over later", leads(1));
    CHECK("sound", done(true));
}

/* -- 20: five voters. 3 has the first change but has not applied it when the second comes; a new
 * leader truncates the second. -- */
GUARD_TEST(rolling_back_a_change_keeps_the_one_before, GUARD_20)
{
    struct members first = cluster_members(5, 1), second = cluster_members(5, 2), seen;
    uint64_t uncommitted;

    ready(5);
    node(3)->hold_apply = true;
    HOLDS(!cluster_change(c, 1, &first));
    cluster_deliver_all(c);
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    HOLDS(node(1)->applied == node(1)->last && node(3)->applied < node(1)->applied);
    HOLDS(!cluster_change(c, 1, &second));
    HOLDS(cluster_deliver(c, 1, 3, RAFT_APPEND_ENTRIES));
    cluster_drop_all(c);
    HOLDS(node(3)->last == node(1)->last);
    cluster_crash(c, 1, 0);
    cluster_isolate(c, 3, true);
    HOLDS(elects(2));
    cluster_isolate(c, 3, false);
    cluster_run(c, 2 * CLUSTER_ELECTION_MS);
    HOLDS(leads(2));
    cluster_apply(c, 3);
    HOLDS(node(3)->applied == node(2)->applied);
    engine_members(engine(3), &seen, &uncommitted);
    HOLDS(seen.count == 6 && uncommitted == 0);
    HOLDS(engine_members_committed(engine(3), &seen) && seen.count == 6);
    return done(true);
}

/* -- 21 -- */
GUARD_TEST(a_newcomer_gets_something_whatever_was_compacted, GUARD_21)
{
    struct members members = cluster_members(3, 1);

    c = cluster_of(3, 7);
    cluster_snapshot(c, 1, 0); /* only the first configuration is applied */
    HOLDS(cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    cluster_start(c, 4);
    HOLDS(!cluster_change(c, 1, &members));
    cluster_run(c, 5 * CLUSTER_ELECTION_MS);
    HOLDS(node(4)->applied == node(1)->applied);
    cluster_snapshot(c, 1, 0);
    HOLDS(node(1)->snapshot.index > 1);
    return done(true);
}

/* -- 23 -- */
GUARD_TEST(a_snapshot_that_was_lost_is_sent_again_although_there_is_a_newer_one, GUARD_23)
{
    snapshot_on_the_wire(3);
    node(3)->hold_install = false;
    cluster_drop_all(c); /* lost */
    submit(1, 3);
    while (cluster_deliver(c, 1, 2, RAFT_APPEND_ENTRIES) ||
           cluster_deliver(c, 2, 1, RAFT_APPEND_ENTRIES_RESULT)) {}
    cluster_snapshot(c, 1, 0);
    cluster_drop_all(c);
    cluster_run(c, 30 * CLUSTER_ELECTION_MS);
    HOLDS(leads(1) && node(3)->applied == node(1)->applied);
    return done(true);
}
