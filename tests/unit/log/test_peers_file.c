/* SPDX-License-Identifier: Apache-2.0 */
/* A file over the bulk lane: complete, paused, interrupted; and the control lane beside it. */
#include <string.h>

#include "peers_rig.h"

enum { CHUNK = FRAME_CHUNK_MAX };

static void two_nodes(void)
{
    rig_open(rig.real);
    rig_node_open(0, RIG_CLUSTER);
    rig_node_open(1, RIG_CLUSTER);
    rig_node_set(0, 2, 1, 2);
    rig_node_set(1, 2, 1, 2);
    RIG_UNTIL("they meet", peers_connected(rig.nodes[0].peers, 2));
}

static struct frame_snap_begin begin_of(uint64_t bytes, uint64_t id)
{
    return (struct frame_snap_begin){
        .term = 9, .index = 1000, .index_term = 8, .bytes = bytes, .id = id};
}

static enum err send_file(uint64_t bytes, uint64_t id)
{
    struct node *a = &rig.nodes[0];
    struct frame_snap_begin begin = begin_of(bytes, id);

    return peers_send_file(a->peers, 2, &begin, rig_path(0, "snap"), a->worker);
}

static void check_content(uint64_t bytes)
{
    const struct buf *got = &rig.nodes[1].snap_bytes;
    size_t wrong = 0;

    CHECK_U64("as many bytes", got->len, bytes);
    for (size_t k = 0; k < got->len; k++)
        if (got->data[k] != (char)(k * 31 + (k >> 10))) wrong++;
    CHECK_SIZE("the same bytes", wrong, 0);
}

TEST_BOTH(files_of_every_size_arrive_whole)
{
    static const uint64_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 20 * CHUNK + 77};
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    two_nodes();
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        rig_write_file(0, rig_path(0, "snap"), sizes[i]);
        CHECK_OK("send", send_file(sizes[i], 100 + i));
        RIG_UNTIL("sent", a->sent_count == i + 1);
        CHECK_OK("well", a->sent_err);
        CHECK_U64("to", a->sent_to, 2);
        CHECK_U64("which", a->sent_id, 100 + i);
        CHECK_U64("and by then it was read", b->snaps_whole, i + 1);
        CHECK_U64("index", b->snap.index, 1000);
        CHECK_U64("its term", b->snap.index_term, 8);
        CHECK_U64("term", b->snap.term, 9);
        check_content(sizes[i]);
    }
    CHECK_U64("nothing was lost", b->snaps_lost, 0);
    CHECK_U64("nor came on the other lane", b->frames, 0);
    rig_close();
}

TEST_BOTH(only_the_announced_size_is_sent)
{
    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 3 * CHUNK);
    CHECK_OK("send", send_file(CHUNK + 5, 1));
    RIG_UNTIL("sent", rig.nodes[0].sent_count == 1);
    CHECK_OK("well", rig.nodes[0].sent_err);
    check_content(CHUNK + 5);
    rig_close();
}

TEST_BOTH(a_receiver_that_holds_back_holds_the_sender)
{
    enum { SIZE = 40 << 20 };
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct peer_frame hash = {.kind = FRAME_HASH, .u.hash = {.index = 1, .term = 1, .hash = 1}};
    uint64_t out;

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), SIZE);
    b->refuse = true;
    b->refuse_after = 5;
    CHECK_OK("send", send_file(SIZE, 1));
    RIG_UNTIL("held", b->refused == 1);
    rig_run(rig.real ? 500 : 3 * RIG_IDLE_MS); /* neither side closes the connection as dead */
    out = rig_node_counter(a, "bytes", "direction=\"out\"");
    CHECK("it reads no further than the kernel takes", out < SIZE / 2);
    CHECK_U64("not sent", a->sent_count, 0);
    b->refuse_after = 1;
    CHECK_OK("the control lane", peers_send(a->peers, 2, &hash));
    RIG_UNTIL("goes on beside it", b->frames == 1);
    b->refuse = false;
    peers_resume(b->peers);
    RIG_UNTIL("and then all comes", a->sent_count == 1);
    CHECK_OK("well", a->sent_err);
    check_content(SIZE);
    rig_close();
}

TEST_BOTH(a_receiver_that_takes_chunks_one_by_one_gets_them_all)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 10 * CHUNK);
    b->refuse = true;
    CHECK_OK("send", send_file(10 * CHUNK, 1));
    for (unsigned i = 1; i <= 12; i++) { /* begin, ten chunks, end; the end can be refused, too */
        RIG_UNTIL("refused", b->refused == i);
        b->refuse_after = 1;
        peers_resume(b->peers);
    }
    RIG_UNTIL("sent", a->sent_count == 1);
    CHECK_OK("well", a->sent_err);
    check_content(10 * CHUNK);
    rig_close();
}

TEST_BOTH(one_at_a_time_and_the_next_after_it)
{
    struct node *a = &rig.nodes[0];

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), CHUNK);
    CHECK_ERR(
        "nobody there",
        peers_send_file(a->peers, 3, &(struct frame_snap_begin){0}, rig_path(0, "snap"), a->worker),
        ERR_NOT_FOUND);
    CHECK_OK("one", send_file(CHUNK, 1));
    CHECK_ERR("not two", send_file(CHUNK, 2), ERR_BUSY);
    RIG_UNTIL("sent", a->sent_count == 1);
    CHECK_OK("the next", send_file(CHUNK, 2));
    RIG_UNTIL("sent", a->sent_count == 2);
    CHECK_U64("which", a->sent_id, 2);
    rig_close();
}

TEST_BOTH(a_file_that_cannot_be_read_ends_the_sending)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    struct frame_snap_begin begin = begin_of(CHUNK, 1);

    two_nodes();
    CHECK_OK("send", peers_send_file(a->peers, 2, &begin, rig_path(0, "none"), a->worker));
    RIG_UNTIL("reported", a->sent_count == 1);
    CHECK_ERR("not there", a->sent_err, ERR_NOT_FOUND);
    RIG_UNTIL("the receiver is notified", b->snaps_lost == 1);
    rig_write_file(0, rig_path(0, "snap"), 3 * CHUNK);
    CHECK_OK("send", send_file(4 * CHUNK, 2));
    RIG_UNTIL("reported", a->sent_count == 2);
    CHECK_ERR("shorter than announced", a->sent_err, ERR_CORRUPT);
    RIG_UNTIL("the receiver is notified", b->snaps_lost == 2);
    CHECK_U64("never whole", b->snaps_whole, 0);
    rig_close();
}

TEST_BOTH(a_sending_can_be_stopped_at_any_time)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];
    bool real = rig.real;

    for (uint64_t stop = 0; stop < 4; stop++) {
        rig.real = real;
        two_nodes();
        rig_write_file(0, rig_path(0, "snap"), 40 * CHUNK);
        b->refuse = true;
        b->refuse_after = 3;
        CHECK_OK("send", send_file(40 * CHUNK, 1));
        if (stop > 0) RIG_UNTIL("so far", b->by_kind[FRAME_SNAP_CHUNK] + 1 >= stop);
        peers_stop_file(a->peers, 2);
        CHECK_U64("not from inside the call", a->sent_count, 0);
        RIG_UNTIL("reported", a->sent_count == 1);
        CHECK_ERR("so", a->sent_err, ERR_CANCELLED);
        peers_stop_file(a->peers, 2); /* there is none any more */
        b->refuse = false;
        peers_resume(b->peers);
        RIG_UNTIL("the receiver is notified", b->snaps_lost == b->by_kind[FRAME_SNAP_BEGIN]);
        CHECK_OK("and then another", send_file(2 * CHUNK, 2));
        RIG_UNTIL("sent", a->sent_count == 2);
        CHECK_OK("well", a->sent_err);
        check_content(2 * CHUNK);
        CHECK_U64("once reported", a->sent_count, 2);
        rig_close();
    }
}

TEST_BOTH(a_receiver_that_does_not_want_it_hangs_up)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 20 * CHUNK);
    b->refuse_snap = true;
    CHECK_OK("send", send_file(20 * CHUNK, 1));
    RIG_UNTIL("reported", a->sent_count == 1);
    CHECK("it broke", a->sent_err);
    CHECK_U64("at the first chunk", b->by_kind[FRAME_SNAP_CHUNK], 1);
    CHECK_U64("it is lost, once", b->snaps_lost, 1);
    CHECK("the other lane stays open", peers_connected(a->peers, 2));
    b->refuse_snap = false;
    CHECK_OK("again", send_file(20 * CHUNK, 2));
    RIG_UNTIL("reported", a->sent_count == 2);
    CHECK_OK("well", a->sent_err);
    check_content(20 * CHUNK);
    rig_close();
}

TEST_BOTH(a_receiver_that_is_lost_ends_the_sending)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 40 * CHUNK);
    b->refuse = true;
    b->refuse_after = 3;
    CHECK_OK("send", send_file(40 * CHUNK, 1));
    RIG_UNTIL("in the middle", b->refused == 1);
    rig_node_close(1);
    RIG_UNTIL("reported", a->sent_count == 1);
    CHECK("an error", a->sent_err != ERR_OK);
    CHECK_OK("another try", send_file(40 * CHUNK, 2));
    RIG_UNTIL("reported", a->sent_count == 2);
    CHECK("an error", a->sent_err != ERR_OK);
    rig_close();
}

TEST_BOTH(a_lost_sender_is_reported_to_the_receiver)
{
    struct node *b = &rig.nodes[1];

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 40 * CHUNK);
    b->refuse = true;
    b->refuse_after = 3;
    CHECK_OK("send", send_file(40 * CHUNK, 1));
    RIG_UNTIL("in the middle", b->refused == 1);
    rig_node_close(0);
    b->refuse = false;
    peers_resume(b->peers);
    RIG_UNTIL("reported", b->snaps_lost == 1);
    CHECK_U64("the sender", b->from, 1);
    rig_close();
}

TEST_BOTH(leaving_a_peer_out_ends_what_is_sent_to_it)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 40 * CHUNK);
    b->refuse = true;
    CHECK_OK("send", send_file(40 * CHUNK, 1));
    RIG_UNTIL("in the middle", b->refused == 1);
    rig_node_set(0, 1, 1);
    RIG_UNTIL("reported", a->sent_count == 1);
    CHECK_ERR("so", a->sent_err, ERR_CANCELLED);
    rig_close();
}

TEST_BOTH(a_new_address_ends_what_is_sent_to_the_old)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 40 * CHUNK);
    b->refuse = true;
    CHECK_OK("send", send_file(40 * CHUNK, 1));
    RIG_UNTIL("in the middle", b->refused == 1);
    rig_node_open_as(2, RIG_CLUSTER, 2);
    CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, rig.nodes[2].address}, 1));
    RIG_UNTIL("reported", a->sent_count == 1);
    CHECK("an error", a->sent_err != ERR_OK);
    CHECK_OK("again", send_file(2 * CHUNK, 2));
    RIG_UNTIL("sent", a->sent_count == 2);
    CHECK_OK("well", a->sent_err);
    CHECK_U64("to the new place", rig.nodes[2].snaps_whole, 1);
    rig_close();
}

TEST_BOTH(closing_in_the_middle_leaves_nothing)
{
    bool real = rig.real;

    for (unsigned at = 0; at < 6; at++) {
        rig.real = real;
        two_nodes();
        rig_write_file(0, rig_path(0, "snap"), 40 * CHUNK);
        rig.nodes[1].refuse = at > 3;
        rig.nodes[1].refuse_after = 2;
        CHECK_OK("send", send_file(40 * CHUNK, 1));
        /* Over sockets an idle turn would wait seconds for the next keepalive. */
        for (unsigned turn = 0; turn < at * 3; turn++) {
            if (rig.real) rig_run(0);
            if (!rig.real) rig_turn();
        }
        if (at == 5) RIG_UNTIL("held", rig.nodes[1].refused > 0);
        rig_close();
    }
}

TEST(sendings_that_fail_are_not_tried_in_a_busy_loop)
{
    struct node *a = &rig.nodes[0];
    uint64_t tries = 0;

    rig.real = false;
    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), CHUNK);
    rig_node_close(1);
    while (rig_ms() < 20000) {
        if (send_file(CHUNK, tries) == ERR_OK) tries++;
        RIG_UNTIL("reported", a->sent_count == tries);
        CHECK("an error", a->sent_err != ERR_OK);
    }
    CHECK("about once a second", tries >= 15 && tries <= 60);
    rig_close();
}

TEST(a_file_without_progress_is_dropped)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    rig.real = false;
    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 40 * CHUNK);
    b->refuse = true;
    CHECK_OK("send", send_file(40 * CHUNK, 1));
    rig_run(50000);
    CHECK_U64("patience", a->sent_count, 0);
    rig_run(20000);
    CHECK_U64("reported", a->sent_count, 1);
    CHECK_ERR("so", a->sent_err, ERR_TIMEOUT);
    rig_close();
}

TEST(a_file_survives_loss_and_reordering)
{
    struct node *a = &rig.nodes[0], *b = &rig.nodes[1];

    rig.real = false;
    rig.idle_ms = 5000;
    two_nodes();
    rig_write_file(0, rig_path(0, "snap"), 10 * CHUNK);
    sim_link_set_all(rig.sim, &(struct sim_link_faults){.delay_min_ns = 100000,
                                                        .delay_spread_ns = 100000,
                                                        .loss_ppm = 1000,
                                                        .duplicate_ppm = 10000,
                                                        .reorder_ppm = 10000,
                                                        .reorder_ns_max = 1000000});
    for (uint64_t id = 1; id <= 20 && b->snaps_whole == 0; id++) {
        CHECK_OK("send", send_file(10 * CHUNK, id));
        RIG_UNTIL("reported", a->sent_count == id);
    }
    CHECK_U64("it came", b->snaps_whole, 1);
    check_content(10 * CHUNK);
    rig_close();
}
