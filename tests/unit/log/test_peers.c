/* SPDX-License-Identifier: Apache-2.0 */
/* Connected peers: dialing, back-off, queues, flow control, address changes, silence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers_rig.h"

static const struct peer_frame some_vote = {
    .kind = FRAME_VOTE,
    .u.vote = {
        .version = 2, .term = 7, .candidate_id = 1, .last_log_index = 9, .last_log_term = 6}};

static struct peer_frame hash_frame(uint64_t index)
{
    return (struct peer_frame){.kind = FRAME_HASH,
                               .u.hash = {.index = index, .term = 1, .hash = 5}};
}

static void open_nodes(size_t count)
{
    rig_open(rig.real);
    for (size_t i = 0; i < count; i++) rig_node_open(i, RIG_CLUSTER);
    for (size_t i = 0; i < count; i++) {
        if (count == 2)
            rig_node_set(i, 2, 1, 2);
        else
            rig_node_set(i, 3, 1, 2, 3);
    }
}

static bool joined(size_t i, size_t k)
{
    return peers_connected(rig.nodes[i].peers, k + 1) && peers_connected(rig.nodes[k].peers, i + 1);
}

static void two_nodes(void)
{
    open_nodes(2);
    RIG_UNTIL("they meet", joined(0, 1));
}

TEST_BOTH(two_nodes_connect_and_a_frame_arrives_as_it_was_sent)
{
    struct node *b = &rig.nodes[1];

    two_nodes();
    CHECK_OK("send", peers_send(rig.nodes[0].peers, 2, &some_vote));
    RIG_UNTIL("it arrives", b->frames > 0);
    CHECK_U64("from", b->from, 1);
    CHECK_U64("kind", b->last.kind, FRAME_VOTE);
    CHECK_U64("term", b->last.u.vote.term, 7);
    CHECK_U64("index", b->last.u.vote.last_log_index, 9);
    CHECK_U64("both hellos reported", b->hellos, 2);
    CHECK_U64("level", b->last_level, 3);
    CHECK_U64("the dialer reports its address, the answer does not", b->addresses, 1);
    CHECK_TEXT("address", b->last_address, rig.nodes[0].address);
    rig_close();
}

TEST_BOTH(three_nodes_are_all_connected_and_nobody_dials_itself)
{
    open_nodes(3);
    RIG_UNTIL("all meet", joined(0, 1) && joined(0, 2) && joined(1, 2));
    CHECK("not to oneself", !peers_connected(rig.nodes[0].peers, 1));
    CHECK_ERR("nor sent", peers_send(rig.nodes[0].peers, 1, &some_vote), ERR_UNAVAILABLE);
    rig_close();
}

/* -- appends -- */

enum { ENTRY_LEN_MAX = ENTRY_BYTES_MAX };
struct source {    /* entries for peers_send_append */
    size_t len;    /* of each */
    uint64_t last; /* there are none after it */
    char *room;
};

static bool next_entry(void *context, uint64_t index, struct entry *ret_entry)
{
    struct source *source = context;

    if (index > source->last) return false;
    memcpy(source->room, &index, min_size(sizeof index, source->len));
    *ret_entry = (struct entry){.index = index,
                                .term = 5 + index / 100,
                                .kind = ENTRY_COMMAND,
                                .bytes = str_of(source->room, source->len)};
    return true;
}

static struct source source_of(size_t len, uint64_t last)
{
    struct source source = {.len = len, .last = last, .room = calloc(1, ENTRY_LEN_MAX)};

    CHECK("memory", source.room != NULL);
    return source;
}

static struct peer_frame append_after(uint64_t index)
{
    return (struct peer_frame){.kind = FRAME_APPEND,
                               .u.append = {.term = 1000,
                                            .prev_index = index,
                                            .prev_term = index ? 5 + index / 100 : 0,
                                            .commit = 3}};
}

TEST_BOTH(an_append_is_cut_into_frames_and_no_entry_is_lost)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct source source = source_of(1000, 20000);
    struct peer_frame append = append_after(0);
    uint32_t sent = 0;

    two_nodes();
    CHECK_OK("sent", peers_send_append(a->peers, 2, &append, 20000, next_entry, &source, &sent));
    CHECK_U64("all", sent, 20000);
    RIG_UNTIL("they arrive", b->entries == 20000);
    CHECK_U64("without a gap", b->order_errors, 0);
    CHECK_U64("the last", b->last_index, 20000);
    CHECK_U64("its term", b->last_term, 205);
    CHECK("in frames of about a MiB", b->by_kind[FRAME_APPEND] >= 19);
    CHECK("and not many more", b->by_kind[FRAME_APPEND] <= 25);
    CHECK_U64("the last frame follows the one before", b->last.u.append.prev_term,
              5 + b->last.u.append.prev_index / 100);
    CHECK_U64("commit", b->last.u.append.commit, 3);
    append = append_after(0);
    CHECK_OK("small ones", peers_send_append(a->peers, 2, &append, 0, next_entry, &source, &sent));
    RIG_UNTIL("an empty one arrives", b->last.u.append.entry_count == 0);
    free(source.room);
    rig_close();
}

TEST_BOTH(an_append_is_cut_at_the_most_entries_a_frame_may_have)
{
    struct node *b = &rig.nodes[1];
    struct source source = source_of(1, 20000);
    struct peer_frame append = append_after(0);
    uint32_t sent = 0;

    two_nodes();
    CHECK_OK("sent",
             peers_send_append(rig.nodes[0].peers, 2, &append, 20000, next_entry, &source, &sent));
    RIG_UNTIL("they arrive", b->entries == 20000);
    CHECK_U64("three frames", b->by_kind[FRAME_APPEND], 3);
    CHECK_U64("without a gap", b->order_errors, 0);
    free(source.room);
    rig_close();
}

TEST_BOTH(an_entry_that_is_not_there_ends_the_append)
{
    struct node *b = &rig.nodes[1];
    struct source source = source_of(10, 7);
    struct peer_frame append = append_after(0);
    uint32_t sent = 99;

    two_nodes();
    CHECK_ERR("not there",
              peers_send_append(rig.nodes[0].peers, 2, &append, 10, next_entry, &source, &sent),
              ERR_NOT_FOUND);
    CHECK_U64("seven went", sent, 7);
    RIG_UNTIL("they arrive", b->entries == 7);
    append = append_after(7);
    CHECK_ERR("none",
              peers_send_append(rig.nodes[0].peers, 2, &append, 10, next_entry, &source, &sent),
              ERR_NOT_FOUND);
    CHECK_U64("none went", sent, 0);
    CHECK_OK("and the connection goes on", peers_send(rig.nodes[0].peers, 2, &some_vote));
    RIG_UNTIL("it arrives", b->by_kind[FRAME_VOTE] == 1);
    CHECK_U64("no empty append", b->by_kind[FRAME_APPEND], 1);
    free(source.room);
    rig_close();
}

TEST_BOTH(an_empty_queue_takes_an_entry_larger_than_its_bound)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct source source = source_of(ENTRY_BYTES_MAX, 100);
    struct peer_frame append = append_after(0);
    uint32_t sent = 0;

    rig.queue_bytes = 64 << 10;
    two_nodes();
    CHECK_ERR("one", peers_send_append(a->peers, 2, &append, 3, next_entry, &source, &sent),
              ERR_FULL);
    CHECK_U64("went", sent, 1);
    CHECK_ERR("then it is full", peers_send(a->peers, 2, &some_vote), ERR_FULL);
    CHECK_U64("counted", rig_node_counter(a, "frames_dropped", "reason=\"full\""), 2);
    RIG_UNTIL("it arrives", b->entries == 1);
    RIG_UNTIL("and there is room again", peers_queued(a->peers, 2) == 0);
    append = append_after(1);
    CHECK_OK("the next", peers_send_append(a->peers, 2, &append, 1, next_entry, &source, &sent));
    RIG_UNTIL("it arrives", b->entries == 2);
    CHECK_U64("without a gap", b->order_errors, 0);
    free(source.room);
    rig_close();
}

/* -- queues and flow control -- */

TEST_BOTH(a_peer_that_reads_nothing_costs_at_most_a_full_queue)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct source source = source_of(100000, UINT64_MAX);
    uint64_t index = 0, full = 0;

    rig.queue_bytes = 1 << 20;
    two_nodes();
    b->refuse = true;
    while (full < 100) {
        struct peer_frame append = append_after(index);
        uint32_t sent = 0;
        enum err err = peers_send_append(a->peers, 2, &append, 3, next_entry, &source, &sent);
        index += sent;
        CHECK("the queue is bounded", peers_queued(a->peers, 2) <= rig.queue_bytes + 200);
        if (err) {
            CHECK_ERR("it is full", err, ERR_FULL);
            full++;
            rig_run(1); /* the kernel's buffers make room */
        }
    }
    CHECK_U64("nothing was taken", b->entries, 0);
    CHECK("all is counted", rig_node_counter(a, "frames_dropped", "reason=\"full\"") >= 100);
    b->refuse = false;
    peers_resume(b->peers);
    RIG_UNTIL("the accepted frames arrive", b->entries == index);
    CHECK_U64("without a gap", b->order_errors, 0);
    free(source.room);
    rig_close();
}

TEST_BOTH(a_refused_frame_is_given_again_and_those_after_it_wait)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct source source = source_of(50, 10);
    struct peer_frame append = append_after(0), frame;
    uint32_t sent;

    two_nodes();
    b->refuse = true;
    b->refuse_after = 2;
    for (uint64_t i = 1; i <= 2; i++) {
        frame = hash_frame(i);
        CHECK_OK("send", peers_send(a->peers, 2, &frame));
    }
    CHECK_OK("send", peers_send_append(a->peers, 2, &append, 10, next_entry, &source, &sent));
    frame = hash_frame(3);
    CHECK_OK("send", peers_send(a->peers, 2, &frame));
    RIG_UNTIL("two are taken, one is not", b->frames == 2 && b->refused == 1);
    for (int i = 0; i < 3; i++) {
        peers_resume(b->peers);
        RIG_UNTIL("refused again", b->refused == 2u + (unsigned)i);
    }
    CHECK_U64("nothing passed it", b->frames, 2);
    b->refuse = false;
    peers_resume(b->peers);
    RIG_UNTIL("then all come", b->frames == 4);
    CHECK_U64("every entry, though they were walked before", b->entries, 10);
    CHECK_U64("in order", b->last.u.hash.index, 3);
    if (!rig.real) rig_run(3 * RIG_IDLE_MS);
    CHECK("and the connection held", joined(0, 1));
    free(source.room);
    rig_close();
}

TEST_BOTH(holding_one_connection_back_does_not_hold_another)
{
    struct node *c = &rig.nodes[2];
    struct peer_frame frame = hash_frame(1);

    open_nodes(3);
    RIG_UNTIL("all meet", joined(0, 2) && joined(1, 2));
    c->refuse = true;
    CHECK_OK("send", peers_send(rig.nodes[0].peers, 3, &frame));
    RIG_UNTIL("refused", c->refused == 1);
    c->refuse = false; /* the replica accepts again, but has not reported it yet */
    CHECK_OK("send", peers_send(rig.nodes[1].peers, 3, &frame));
    RIG_UNTIL("the other's comes", c->frames == 1);
    CHECK_U64("from", c->from, 2);
    peers_resume(c->peers);
    RIG_UNTIL("and the held one", c->frames == 2);
    CHECK_U64("from", c->from, 1);
    rig_close();
}

TEST(a_connection_paused_for_long_does_not_count_as_dead)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct peer_frame frame = hash_frame(1);

    two_nodes();
    b->refuse = true;
    CHECK_OK("send", peers_send(a->peers, 2, &frame));
    RIG_UNTIL("refused", b->refused == 1);
    rig_run(4 * RIG_IDLE_MS);
    CHECK("still there", joined(0, 1));
    b->refuse = false;
    peers_resume(b->peers);
    RIG_UNTIL("it comes", b->frames == 1);
    CHECK_U64("over the same connection", rig_node_counter(a, "dials", "result=\"connected\""), 1);
    rig_close();
}

/* -- connecting -- */

TEST(an_absent_peer_is_dialed_with_growing_pauses)
{
    struct node *a = &rig.nodes[0];
    uint64_t first, all;

    rig_open(false);
    rig_node_open(0, RIG_CLUSTER);
    CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, "b:7791"}, 1));
    rig_run(1000);
    first = rig_node_counter(a, "dials", "result=\"failed\"");
    CHECK("quick at first", first >= 5 && first <= 15);
    rig_run(20000);
    all = rig_node_counter(a, "dials", "result=\"failed\"") - first;
    CHECK("then about once a second", all >= 19 && all <= 45);
    CHECK_SIZE("reported once", rig_node_log_count(a, "cannot connect to a replica: retrying"), 1);
    CHECK_ERR("nothing is kept for it", peers_send(a->peers, 2, &some_vote), ERR_UNAVAILABLE);
    CHECK_U64("counted", rig_node_counter(a, "frames_dropped", "reason=\"unconnected\""), 1);
    rig_close();
}

TEST(a_hello_ends_a_long_pause)
{
    struct node *a = &rig.nodes[0];
    uint64_t since, worst = 0;

    for (int round = 0; round < 10; round++) { /* one pause may end by chance */
        rig_open(false);
        rig_node_open(0, RIG_CLUSTER);
        CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, "b:7791"}, 1));
        rig_run(10000 + 91 * (uint64_t)round);
        rig_node_open(1, RIG_CLUSTER);
        rig_node_set(1, 2, 1, 2);
        since = rig_ms();
        RIG_UNTIL("they meet", joined(0, 1));
        worst = max_u64(worst, rig_ms() - since);
        rig_close();
    }
    CHECK("at once, not after up to a second", worst <= 50);
}

TEST(a_peer_that_is_named_again_is_dialed_soon)
{
    struct node *a = &rig.nodes[0];
    uint64_t since, worst = 0;

    for (int round = 0; round < 10; round++) {
        rig_open(false);
        rig_node_open(0, RIG_CLUSTER);
        CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, "b:7791"}, 1));
        rig_run(10000 + 91 * (uint64_t)round);
        rig_node_open(1, RIG_CLUSTER); /* it does not dial */
        CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, "b:7791"}, 1));
        since = rig_ms();
        RIG_UNTIL("connected", peers_connected(a->peers, 2));
        worst = max_u64(worst, rig_ms() - since);
        rig_close();
    }
    CHECK("at once", worst <= 50);
}

TEST_BOTH(a_replica_that_comes_back_is_connected_again)
{
    struct node *a = &rig.nodes[0];
    struct peer_frame frame = hash_frame(1);

    two_nodes();
    for (int i = 0; i < 3; i++) {
        struct peer_where where = {2, rig.nodes[1].address};
        rig_node_close(1);
        RIG_UNTIL("noticed", !peers_connected(a->peers, 2));
        rig_node_open(1, RIG_CLUSTER);
        where.address = rig.nodes[1].address; /* over sockets the node has another port now */
        CHECK_OK("set", peers_set(a->peers, &where, 1));
        rig_node_set(1, 2, 1, 2);
        RIG_UNTIL("they meet again", joined(0, 1));
        CHECK_OK("send", peers_send(a->peers, 2, &frame));
        RIG_UNTIL("it arrives", rig.nodes[1].frames == 1);
    }
    rig_close();
}

TEST_BOTH(a_changed_address_is_dialed_again)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1], *moved = &rig.nodes[2];
    struct peer_frame frame = hash_frame(1);

    two_nodes();
    rig_node_open_as(2, RIG_CLUSTER, 2);
    CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, moved->address}, 1));
    CHECK("not there for the moment", !peers_connected(a->peers, 2));
    RIG_UNTIL("connected", peers_connected(a->peers, 2));
    CHECK_OK("send", peers_send(a->peers, 2, &frame));
    RIG_UNTIL("it arrives at the new place", moved->frames == 1);
    CHECK_U64("and not at the old", b->frames, 0);
    CHECK_OK("the same again", peers_set(a->peers, &(struct peer_where){2, moved->address}, 1));
    CHECK("changes nothing", peers_connected(a->peers, 2));
    rig_close();
}

TEST_BOTH(a_removed_peer_is_disconnected_but_still_heard)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct peer_frame frame = hash_frame(1);

    two_nodes();
    rig_node_set(0, 1, 1);
    CHECK("gone", !peers_connected(a->peers, 2));
    CHECK_ERR("no more sent", peers_send(a->peers, 2, &frame), ERR_UNAVAILABLE);
    RIG_UNTIL("it is notified", rig_node_log_count(b, "a replica closed its connection") == 1);
    CHECK_OK("send a frame", peers_send(b->peers, 1, &frame));
    RIG_UNTIL("its frame arrives", a->frames == 1);
    rig_node_set(0, 2, 1, 2);
    RIG_UNTIL("and back", peers_connected(a->peers, 2));
    rig_close();
}

TEST(what_cannot_be_set_changes_nothing)
{
    struct peer_where many[PEERS_MAX + 1];
    struct node *a = &rig.nodes[0];

    rig_open(false);
    rig_node_open(0, RIG_CLUSTER);
    rig_node_open(1, RIG_CLUSTER);
    rig_node_set(0, 2, 1, 2);
    RIG_UNTIL("connected", peers_connected(a->peers, 2));
    for (size_t i = 0; i < ARRAY_LEN(many); i++) many[i] = (struct peer_where){100 + i, "d:1"};
    CHECK_ERR("too many", peers_set(a->peers, many, ARRAY_LEN(many)), ERR_FULL);
    many[0].address = "no port";
    CHECK_ERR("no address", peers_set(a->peers, many, 1), ERR_INVALID);
    many[0] = (struct peer_where){0, "d:1"};
    CHECK_ERR("no id", peers_set(a->peers, many, 1), ERR_INVALID);
    CHECK("still connected", peers_connected(a->peers, 2));
    many[0].id = 100;
    CHECK_OK("as many as may be", peers_set(a->peers, many, PEERS_MAX));
    CHECK("left out", !peers_connected(a->peers, 2));
    rig_close();
}

TEST_BOTH(another_identity_at_the_same_address_is_not_spoken_to)
{
    struct node *a = &rig.nodes[0], *wiped = &rig.nodes[1];

    rig_open(rig.real);
    rig_node_open(0, RIG_CLUSTER);
    rig_node_open_as(1, RIG_CLUSTER, 77); /* a new data directory in place of 2's */
    CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, wiped->address}, 1));
    RIG_UNTIL("refused, again and again", rig_refused(wiped, "receiver") >= 3);
    CHECK("never connected", !peers_connected(a->peers, 2));
    CHECK("the reason", rig_node_log_count(wiped, "for 0000000000000002") > 0);
    CHECK_SIZE("reported once", rig_node_log_count(a, "cannot connect to a replica: retrying"), 1);
    rig_close();
}

/* -- joining -- */

TEST_BOTH(a_joiner_takes_the_first_cluster_that_knows_its_id)
{
    struct node *a = &rig.nodes[0], *joiner = &rig.nodes[1], *other = &rig.nodes[2];

    rig_open(rig.real);
    rig_node_open(0, RIG_CLUSTER);
    rig_node_open(1, 0);
    rig_node_open(2, 0xbad);
    rig_node_set(1, 2, 1, 2); /* dials no peer before it has a cluster */
    rig_run(100);
    CHECK_U64("no frame was sent", a->hellos, 0);
    joiner->refuse_cluster = true;
    rig_node_set(0, 2, 1, 2);
    RIG_UNTIL("it may refuse", rig_refused(joiner, "cluster") > 0 && joiner->clusters > 0);
    RIG_UNTIL("then nobody is connected", !peers_connected(a->peers, 2));
    CHECK_U64("nor notified of", joiner->hellos, 0);
    joiner->refuse_cluster = false;
    RIG_UNTIL("it joins", joined(0, 1));
    rig_node_set(2, 2, 2, 3);
    RIG_UNTIL("another cluster is refused", rig_node_log_count(joiner, "bad") > 0);
    CHECK("for ever", !peers_connected(other->peers, 2));
    rig_close();
}

/* -- silence -- */

TEST(an_idle_connection_is_kept)
{
    open_nodes(2);
    RIG_UNTIL("they meet", joined(0, 1));
    rig_run(60 * RIG_IDLE_MS);
    CHECK("still", joined(0, 1));
    for (size_t i = 0; i < 2; i++)
        CHECK_U64("the same one", rig_node_counter(&rig.nodes[i], "dials", "result=\"connected\""),
                  1);
    rig_close();
}

static void cut(bool forth, bool back)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct peer_frame frame = hash_frame(1);
    uint64_t since;

    open_nodes(2);
    RIG_UNTIL("they meet", joined(0, 1));
    if (forth) sim_link_block(a->host, b->host, true);
    if (back) sim_link_block(b->host, a->host, true);
    since = rig_ms();
    RIG_UNTIL("both find out", !peers_connected(a->peers, 2) && !peers_connected(b->peers, 1));
    CHECK("soon", rig_ms() - since <= 3 * RIG_IDLE_MS);
    rig_run(100 * 1000); /* TCP's own back-off would be tens of seconds by now */
    CHECK("nobody is connected", !peers_connected(a->peers, 2) && !peers_connected(b->peers, 1));
    sim_link_heal_all(rig.sim);
    since = rig_ms();
    RIG_UNTIL("they meet again", joined(0, 1));
    CHECK("in about the time of a dial", rig_ms() - since <= 3500);
    CHECK_OK("send", peers_send(a->peers, 2, &frame));
    RIG_UNTIL("and exchange frames", b->frames == 1);
    rig_close();
}

TEST(a_partition_is_noticed_and_ends_when_it_ends)
{
    cut(true, true);
}

TEST(a_one_way_partition_is_noticed_by_both)
{
    cut(true, false);
    cut(false, true);
}

TEST(a_process_that_was_stopped_is_connected_again)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct peer_frame frame = hash_frame(1);

    open_nodes(2);
    RIG_UNTIL("they meet", joined(0, 1));
    sim_host_pause(b->host, SIM_PAUSE_PROCESS);
    rig_run(10000);
    CHECK("noticed", !peers_connected(a->peers, 2));
    sim_host_resume(b->host);
    RIG_UNTIL("they meet again", joined(0, 1));
    CHECK_OK("send", peers_send(a->peers, 2, &frame));
    RIG_UNTIL("and exchange frames", b->frames == 1);
    rig_run(5 * RIG_IDLE_MS);
    CHECK("for good", joined(0, 1));
    rig_close();
}

TEST(frames_under_loss_and_delay_arrive_in_order_or_not_at_all)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    uint64_t sent = 0, last = 0;

    rig.idle_ms = 3000;
    open_nodes(2);
    sim_link_set_all(rig.sim, &(struct sim_link_faults){.delay_min_ns = 1000000,
                                                        .delay_spread_ns = 3000000,
                                                        .loss_ppm = 50000,
                                                        .duplicate_ppm = 20000,
                                                        .reorder_ppm = 50000,
                                                        .reorder_ns_max = 20000000});
    for (uint64_t i = 1; i <= 3000; i++) {
        struct peer_frame frame = hash_frame(i);
        if (peers_send(a->peers, 2, &frame) == ERR_OK) sent++;
        rig_run(5);
        if (b->frames == 0) continue;
        CHECK("never back", b->last.u.hash.index >= last);
        last = b->last.u.hash.index;
    }
    CHECK("most were sent", sent > 2900);
    CHECK("and most arrived", b->frames > sent - 100);
    CHECK_U64("nobody was refused for it", rig_refused(b, "frame") + rig_refused(a, "frame"), 0);
    rig_close();
}

/* -- the end -- */

TEST_BOTH(closing_in_any_state_leaves_nothing)
{
    struct source source = source_of(100000, 100);
    struct peer_frame append = append_after(0);
    uint32_t sent;

    bool real = rig.real;

    for (int state = 0; state < 4; state++) {
        rig.real = real;
        open_nodes(2);
        if (state >= 1) RIG_UNTIL("half", peers_connected(rig.nodes[0].peers, 2));
        if (state >= 2) {
            RIG_UNTIL("whole", joined(0, 1));
            rig.nodes[1].refuse = true;
            CHECK_OK("send", peers_send_append(rig.nodes[0].peers, 2, &append, 50, next_entry,
                                               &source, &sent));
        }
        if (state == 3) RIG_UNTIL("held", rig.nodes[1].refused > 0);
        rig_close(); /* under ASan: every stream and buffer is freed */
    }
    free(source.room);
}

TEST(the_same_seed_gives_the_same_world)
{
    uint64_t hashes[2];

    for (int i = 0; i < 2; i++) {
        struct peer_frame frame = hash_frame(1);
        open_nodes(3);
        for (int k = 0; k < 200; k++) {
            (void)peers_send(rig.nodes[0].peers, 2, &frame);
            rig_run(13);
            if (k == 100) rig_node_close(2);
        }
        hashes[i] = sim_hash(rig.sim);
        rig_close();
    }
    CHECK_U64("same", hashes[0], hashes[1]);
}
