/* SPDX-License-Identifier: Apache-2.0 */
/* The known failures of Raft as directed tests, because random seeds rarely find them. */
#include <stdlib.h>

#include "cluster.h"
#include "lib/test.h"

static struct cluster *c;

static struct node *node(uint64_t id)
{
    return cluster_node(c, id);
}

static bool leads(uint64_t id)
{
    return node(id)->engine && engine_role(node(id)->engine) == REPLICA_LEADER;
}

static void only_between(uint64_t a, uint64_t b, uint64_t third)
{
    for (uint64_t from = 1; from <= CLUSTER_NODES; from++)
        for (uint64_t to = 1; to <= CLUSTER_NODES; to++)
            c->cut[from][to] =
                (from != a && from != b && from != third) || (to != a && to != b && to != third);
}

static void all_links(void)
{
    for (uint64_t from = 1; from <= CLUSTER_NODES; from++)
        for (uint64_t to = 1; to <= CLUSTER_NODES; to++) c->cut[from][to] = false;
}

static void close_sound(void)
{
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
    c = NULL;
}

/* Elects `id` with the votes of two others, which receive only its vote requests. */
static void elect_with(uint64_t id, uint64_t a, uint64_t b)
{
    cluster_drop_all(c);
    cluster_elapse(c, 3 * CLUSTER_ELECTION_MS); /* their leaders are silent */
    for (int tries = 0; tries < 8 && !leads(id); tries++) {
        const uint64_t voters[2] = {a, b};
        cluster_fire(c, id);
        for (int round = 0; round < 4; round++)
            for (int i = 0; i < 2; i++) {
                while (cluster_deliver(c, id, voters[i], RAFT_REQUEST_VOTE)) {}
                while (cluster_deliver(c, voters[i], id, RAFT_REQUEST_VOTE_RESULT)) {}
            }
    }
    CHECK("elected", leads(id));
    cluster_drop_all(c);
}

/* Delivers appends of 1 to `id`, cut at `index`, until 1 knows that the old entry arrived; the
 * barrier after the entry does not arrive. */
static void replicate_to(uint64_t id, uint64_t index)
{
    for (int i = 0; i < 20 && engine_match(node(1)->engine, id) < index; i++) {
        struct parcel *parcel;
        cluster_fire(c, 1);
        while ((parcel = cluster_take(c, 1, id, RAFT_APPEND_ENTRIES))) {
            struct raft_append_entries *append = &parcel->message.append_entries;
            while (append->n_entries && append->prev_log_index + append->n_entries > index)
                free((void *)(uintptr_t)parcel->entries[--append->n_entries].bytes.at);
            cluster_give(c, parcel);
            while (cluster_deliver(c, id, 1, RAFT_APPEND_ENTRIES_RESULT)) {}
        }
    }
    CHECK_U64("acknowledged", engine_match(node(1)->engine, id), index);
}

/* The figure up to (c): an entry of term 2 is on 1, 2 and 3, a majority; 1 leads again and knows
 * that; 5 has another entry of a later term at that index. Returns the index. */
static uint64_t figure_8(void)
{
    uint64_t index;

    c = cluster_of(5, 3);
    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    index = node(1)->last + 1;
    CHECK_OK("(a) an entry,", cluster_submit(c, 1, "of term 2"));
    CHECK("on 1 and 2", cluster_deliver(c, 1, 2, RAFT_APPEND_ENTRIES));
    cluster_drop_all(c);
    cluster_crash(c, 1, 0);
    elect_with(5, 3, 4); /* (b): its barrier takes the same index */
    CHECK_U64("another entry", node(5)->last, index);
    cluster_crash(c, 5, 0);
    cluster_start(c, 1);
    elect_with(1, 2, 3); /* (c) */
    replicate_to(2, index);
    replicate_to(3, index);
    cluster_drop_all(c);
    return index;
}

TEST(an_entry_of_an_old_term_is_not_committed_by_counting)
{
    uint64_t index = figure_8();

    CHECK("a majority has it", node(1)->last > index && node(2)->last == index);
    CHECK("and it is not committed", engine_commit(node(1)->engine) < index);
    cluster_crash(c, 1, 0);
    cluster_start(c, 5);
    elect_with(5, 2, 3); /* (d): its log is newer, so it may */
    all_links();
    cluster_start(c, 1);
    cluster_run(c, 5 * CLUSTER_ELECTION_MS);
    for (uint64_t id = 1; id <= 5; id++)
        CHECK_U64("the later entry is there", node(id)->log[index - 1].term, 3);
    close_sound();
}

TEST(an_entry_of_the_own_term_commits_those_before_it)
{
    uint64_t index = figure_8();

    only_between(1, 2, 3);
    cluster_run(c, 3 * CLUSTER_HEARTBEAT_MS); /* (e): the barrier reaches the majority too */
    CHECK("committed", engine_commit(node(1)->engine) > index);
    cluster_crash(c, 1, 0);
    all_links();
    cluster_start(c, 5);
    cluster_run(c, 20 * CLUSTER_ELECTION_MS);
    CHECK("a replica leads", cluster_leader(c) != 0 && !leads(5));
    cluster_run(c, 5 * CLUSTER_ELECTION_MS);
    CHECK_U64("and the entry is everywhere", node(5)->log[index - 1].term, 2);
    close_sound();
}

TEST(a_change_that_was_not_committed_is_rolled_back)
{
    struct members members = cluster_members(3, 1), seen;
    uint64_t uncommitted;

    c = cluster_of(3, 3);
    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    cluster_isolate(c, 1, true);
    CHECK_OK("a change", cluster_change(c, 1, &members));
    engine_members(node(1)->engine, &seen, &uncommitted);
    CHECK_SIZE("is in force at once", seen.count, 4);
    CHECK_U64("and uncommitted", uncommitted, node(1)->last);
    CHECK_ERR("no second one", cluster_change(c, 1, &members), ERR_BUSY);
    cluster_run(c, 10 * CLUSTER_ELECTION_MS);
    CHECK("another leads", cluster_leader(c) > 1);
    cluster_isolate(c, 1, false);
    cluster_run(c, 5 * CLUSTER_ELECTION_MS);
    engine_members(node(1)->engine, &seen, &uncommitted);
    CHECK_SIZE("rolled back", seen.count, 3);
    CHECK_U64("nothing uncommitted", uncommitted, 0);
    CHECK_OK("and again, by the new leader", cluster_change(c, cluster_leader(c), &members));
    cluster_run(c, 5 * CLUSTER_ELECTION_MS);
    CHECK_U64("committed", engine_members_committed(node(1)->engine, &seen), node(1)->last);
    CHECK_SIZE("with four members", seen.count, 4);
    close_sound();
}

TEST(a_change_on_disk_is_uncommitted_after_a_restart_and_can_be_rolled_back)
{
    struct members members = cluster_members(3, 1), seen;
    uint64_t uncommitted;

    c = cluster_of(3, 3);
    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    CHECK_OK("a change", cluster_change(c, 1, &members));
    cluster_drop_all(c);
    cluster_crash(c, 1, 0);
    cluster_start(c, 1);
    engine_members(node(1)->engine, &seen, &uncommitted);
    CHECK_SIZE("still in force", seen.count, 4);
    CHECK_U64("still uncommitted", uncommitted, node(1)->last);
    cluster_isolate(c, 1, true);
    cluster_run(c, 10 * CLUSTER_ELECTION_MS);
    CHECK("another leads", cluster_leader(c) > 1);
    cluster_isolate(c, 1, false);
    cluster_run(c, 5 * CLUSTER_ELECTION_MS);
    engine_members(node(1)->engine, &seen, &uncommitted);
    CHECK_SIZE("rolled back", seen.count, 3);
    close_sound();
}

TEST(a_server_that_was_cut_off_does_not_disturb_the_others)
{
    uint64_t term;

    c = cluster_of(3, 3);
    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    term = engine_term(node(1)->engine);
    cluster_isolate(c, 3, true);
    cluster_run(c, 50 * CLUSTER_ELECTION_MS);
    CHECK_U64("asking in vain raised no term", engine_term(node(3)->engine), term);
    cluster_isolate(c, 3, false);
    cluster_run(c, 5 * CLUSTER_ELECTION_MS);
    CHECK("1 still leads", leads(1));
    CHECK_U64("in its term", engine_term(node(1)->engine), term);
    CHECK_U64("3 is back", engine_leader(node(3)->engine), 1);
    close_sound();
}

TEST(a_leader_without_a_majority_steps_down)
{
    c = cluster_of(3, 3);
    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    cluster_isolate(c, 1, true);
    cluster_run(c, 3 * CLUSTER_ELECTION_MS);
    CHECK("not any more", !leads(1));
    CHECK_U64("and knows none", engine_leader(node(1)->engine), 0);
    CHECK_ERR("takes nothing", cluster_submit(c, 1, "x"), ERR_NOT_LEADER);
    close_sound();
}

TEST(a_leader_that_leads_on_silently_is_forgotten_by_its_followers)
{
    c = cluster_of(3, 3);
    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    CHECK_U64("known", engine_leader(node(2)->engine), 1);
    cluster_elapse(c, CLUSTER_ELECTION_MS);
    cluster_timeout(c, 2);
    CHECK_U64("silent for an election time-out", engine_leader(node(2)->engine), 0);
    close_sound();
}

TEST(a_leader_of_an_older_term_is_no_leader)
{
    struct raft_message ask = {.type = RAFT_REQUEST_VOTE, .server_id = 3};
    struct engine_append old = {.term = 1};
    struct engine_effects effects;
    struct engine *engine;

    c = cluster_of(3, 3);
    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    engine = node(2)->engine;
    ask.request_vote = (struct raft_request_vote){
        .term = engine_term(engine) + 1, .candidate_id = 3, .disrupt_leader = true};
    CHECK_OK("3 may ask, its log is too short", engine_receive(engine, c->now, &ask, &effects));
    CHECK_U64("a new term", engine_term(engine), ask.request_vote.term);
    CHECK_U64("1 does not lead it", engine_leader(engine), 0);
    cluster_elapse(c, CLUSTER_ELECTION_MS); /* and is silent now */
    CHECK_OK("something late", engine_receive_append(engine, c->now, 1, &old, &effects));
    ask.request_vote.term++;
    ask.request_vote.disrupt_leader = false;
    ask.request_vote.last_log_index = engine_last(engine);
    ask.request_vote.last_log_term = 2;
    CHECK_OK("3 asks again", engine_receive(engine, c->now, &ask, &effects));
    CHECK("a late message makes no leader again",
          effects.messages[0].request_vote_result.vote_granted);
    close_sound();
}
