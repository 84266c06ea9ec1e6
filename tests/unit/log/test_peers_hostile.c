/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers that find the port are refused, logged with the reason and counted; the peers are not
 * affected. */
#include <string.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "io/tls.h"
#include "peers_rig.h"

static struct node *const a = &rig.nodes[0], *const b = &rig.nodes[1];

static const struct peer_frame beat = {.kind = FRAME_BEAT};

#define SNAP_BEGIN(number, size)                                                                   \
    {                                                                                              \
        .kind = FRAME_SNAP_BEGIN, .u.snap_begin = {                                                \
            .term = 1,                                                                             \
            .index = 5,                                                                            \
            .bytes = (size),                                                                       \
            .id = (number)                                                                         \
        }                                                                                          \
    }
#define SNAP_CHUNK(number, where, text)                                                            \
    {                                                                                              \
        .kind = FRAME_SNAP_CHUNK, .u.snap_chunk = {                                                \
            .id = (number),                                                                        \
            .offset = (where),                                                                     \
            .bytes = {"" text, sizeof(text) - 1}                                                   \
        }                                                                                          \
    }
#define SNAP_END(number)                                                                           \
    {                                                                                              \
        .kind = FRAME_SNAP_END, .u.snap_end = {.id = (number) }                                    \
    }

static struct peer_frame hash_frame(uint64_t index)
{
    return (struct peer_frame){.kind = FRAME_HASH,
                               .u.hash = {.index = index, .term = 1, .hash = 5}};
}

/* Two good nodes; b is attacked. */
static void begin(void)
{
    rig_open(rig.real);
    rig_node_open(0, RIG_CLUSTER);
    rig_node_open(1, RIG_CLUSTER);
    rig_node_set(0, 2, 1, 2);
    rig_node_set(1, 2, 1, 2);
    RIG_UNTIL("they meet", peers_connected(a->peers, 2) && peers_connected(b->peers, 1));
}

/* The good pair still exchanges frames over the same connection. */
static void finish(void)
{
    struct peer_frame frame = hash_frame(42);
    uint64_t before = b->frames;

    CHECK_OK("send", peers_send(a->peers, 2, &frame));
    RIG_UNTIL("it arrives", b->frames == before + 1 && b->last.u.hash.index == 42);
    CHECK_U64("same connection", rig_node_counter(a, "dials", "result=\"connected\""), 1);
    rig_close();
}

static void expect_refused(struct stranger *s, const char *reason, const char *words)
{
    RIG_UNTIL("hung up on", s->closed || s->ended);
    RIG_UNTIL("counted", rig_refused(b, reason) > 0);
    CHECK_U64("once", rig_refused(b, reason), 1);
    CHECK(words, rig_node_log_count(b, words) > 0);
}

/* -- before the hello -- */

TEST_BOTH(garbage_is_refused)
{
    struct stranger *s;

    begin();
    s = stranger_dial(0, b);
    stranger_write(s, STR("GET / HTTP/1.1\r\nHost: raft\r\n\r\n"));
    expect_refused(s, "frame", "rejected a connection from a peer");
    CHECK_SIZE("it was not answered", s->got.len, 0);
    finish();
}

TEST_BOTH(random_bytes_are_refused)
{
    struct prng prng;
    char junk[4000];

    begin();
    prng_seed(&prng, 5);
    for (size_t i = 0; i < 20; i++) {
        struct stranger *s = stranger_dial(i, b);
        prng_fill(&prng, junk, sizeof junk);
        stranger_write(s, str_of(junk, sizeof junk));
        RIG_UNTIL("hung up on", s->closed || s->ended);
    }
    CHECK_U64("all counted", rig_refused(b, "frame"), 20);
    finish();
}

TEST_BOTH(a_huge_length_is_refused_at_once)
{
    struct stranger *s;
    char head[4];

    begin();
    s = stranger_dial(0, b);
    store_le32(head, 0xfffffff0u);
    stranger_write(s, str_of(head, 4));
    expect_refused(s, "frame", "4294967280 bytes");
    finish();
}

/* -- the hello -- */

static void refused_hello(struct peer_frame hello, const char *reason, const char *words)
{
    struct stranger *s;

    begin();
    s = stranger_dial(0, b);
    stranger_send(s, &hello);
    expect_refused(s, reason, words);
    CHECK_SIZE("it was not answered", s->got.len, 0);
    CHECK_U64("and the owner not notified", b->hellos, 2);
    finish();
}

TEST_BOTH(another_cluster_is_refused)
{
    struct peer_frame hello = stranger_hello(9, 2, LANE_CONTROL);

    hello.u.hello.cluster_id = 0xc2;
    refused_hello(hello, "cluster", "cluster 00000000000000c2");
}

TEST_BOTH(a_hello_for_another_receiver_is_refused)
{
    refused_hello(stranger_hello(9, 3, LANE_CONTROL), "receiver", "for 0000000000000003");
}

TEST_BOTH(a_hello_with_our_own_id_is_refused)
{
    refused_hello(stranger_hello(2, 2, LANE_CONTROL), "receiver", "from 0000000000000002");
}

TEST_BOTH(another_protocol_is_refused_by_name)
{
    struct peer_frame hello = stranger_hello(9, 2, LANE_CONTROL);

    hello.u.hello.protocol = FRAME_PROTOCOL + 1;
    refused_hello(hello, "version", "speaks protocol 2");
}

TEST_BOTH(a_hello_without_an_address_is_refused)
{
    struct peer_frame hello = stranger_hello(9, 2, LANE_CONTROL);

    hello.u.hello.address = STR_EMPTY;
    refused_hello(hello, "frame", "a value that cannot be");
}

TEST_BOTH(a_second_hello_is_refused)
{
    struct peer_frame again = stranger_hello(9, 2, LANE_CONTROL);
    struct stranger *s;

    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    s->out.session = 0; /* as the first: unsalted */
    stranger_send(s, &again);
    expect_refused(s, "frame", "closed the connection of a replica");
    finish();
}

TEST_BOTH(frames_before_a_hello_are_refused)
{
    struct peer_frame frame = hash_frame(7);
    struct stranger *s;

    begin();
    s = stranger_dial(0, b);
    s->out.session = 12345;
    stranger_send(s, &frame);
    expect_refused(s, "frame", "rejected a connection from a peer");
    CHECK_U64("nothing was given", b->frames, 0);
    finish();
}

TEST_BOTH(a_peer_that_sends_no_hello_is_disconnected)
{
    struct peer_frame hello = stranger_hello(9, 2, LANE_CONTROL);
    struct stranger *silent, *slow;
    struct buf bytes;
    size_t at = 0;

    begin();
    silent = stranger_dial(0, b);
    slow = stranger_dial(1, b);
    buf_init(&bytes, 1000);
    CHECK_OK("encode", frame_append(&slow->out, &hello, &bytes));
    while (!slow->closed && !slow->ended && at + 1 < bytes.len) {
        stranger_write(slow, str_of(bytes.data + at++, 1)); /* a byte now and then */
        rig_run(100);
    }
    RIG_UNTIL("both", (slow->closed || slow->ended) && (silent->closed || silent->ended));
    CHECK("before it was whole", at + 1 < bytes.len);
    CHECK_U64("counted", rig_refused(b, "late"), 2);
    buf_deinit(&bytes);
    finish();
}

TEST_BOTH(many_silent_strangers_do_not_keep_a_replica_out)
{
    struct peer_frame frame = hash_frame(1);

    begin();
    for (size_t i = 0; i < RIG_STRANGERS; i++) stranger_dial(i, b);
    RIG_UNTIL("the oldest make room", rig_refused(b, "full") == RIG_STRANGERS - 64);
    CHECK("the first is gone", rig.strangers[0].closed || rig.strangers[0].ended);
    rig_node_open(2, RIG_CLUSTER);
    rig_node_set(2, 1, 2);
    RIG_UNTIL("a good one comes in", peers_connected(rig.nodes[2].peers, 2));
    CHECK_OK("send", peers_send(rig.nodes[2].peers, 2, &frame));
    RIG_UNTIL("and its frame arrives", b->frames == 1);
    finish();
}

TEST_BOTH(senders_nobody_knows_are_few)
{
    struct stranger *last;

    begin();
    for (size_t i = 0; i < 32; i++)
        stranger_meet(stranger_dial(i, b), 100 + i, b, i % 2 ? LANE_BULK : LANE_CONTROL);
    last = stranger_dial(32, b);
    stranger_meet(last, 999, b, LANE_CONTROL);
    expect_refused(last, "full", "no members");
    finish();
}

/* -- after the hello -- */

TEST_BOTH(frames_recorded_on_another_connection_are_refused)
{
    struct peer_frame frame = hash_frame(7);
    struct stranger *first, *second;
    struct buf recorded;
    struct frame_link link;

    begin();
    first = stranger_dial(0, b);
    stranger_meet(first, 9, b, LANE_CONTROL);
    buf_init(&recorded, 1000);
    link = first->out;
    CHECK_OK("record", frame_append(&link, &frame, &recorded));
    stranger_write(first, buf_peek(&recorded));
    RIG_UNTIL("good the first time", b->frames == 1);
    second = stranger_dial(1, b); /* the same id, nonce and connection number */
    stranger_meet(second, 9, b, LANE_CONTROL);
    stranger_write(second, buf_peek(&recorded));
    expect_refused(second, "frame", "not a frame of this connection");
    CHECK_U64("not given again", b->frames, 1);
    buf_deinit(&recorded);
    finish();
}

/* A recorded hello can be replayed, without any further effect. */
TEST_BOTH(a_replayed_hello_has_no_effect)
{
    static const struct peer_frame start = SNAP_BEGIN(1, 10), end = SNAP_CHUNK(1, 0, "0123456789");
    struct stranger *good[2], *bad[2];
    struct peer_frame frame = hash_frame(7);
    uint64_t hellos;

    begin();
    for (size_t i = 0; i < 2; i++) {
        good[i] = stranger_dial(i, b);
        stranger_meet(good[i], 9, b, i ? LANE_BULK : LANE_CONTROL);
    }
    stranger_send(good[1], &start);
    hellos = b->hellos;
    for (size_t i = 0; i < 2; i++) {
        bad[i] = stranger_dial(2 + i, b);
        stranger_greet(bad[i], 9, b, i ? LANE_BULK : LANE_CONTROL);
        bad[i]->out.session ^= 1; /* as if the stranger did not read the hello */
    }
    for (int i = 0; i < 30 && rig_refused(b, "late") == 0; i++) {
        for (size_t k = 0; k < 2; k++) stranger_send(good[k], &beat);
        rig_run(100);
    }
    CHECK_U64("not waited for", rig_refused(b, "late"), 2);
    CHECK_U64("nobody is notified", b->hellos, hellos);
    stranger_send(good[0], &frame);
    RIG_UNTIL("the right one's frame arrives", b->last.u.hash.index == 7);
    stranger_send(good[1], &end);
    RIG_UNTIL("and its snapshot goes on", b->snap_bytes.len == 10);
    CHECK_U64("not lost", b->snaps_lost, 0);
    bad[0] = stranger_dial(4, b);
    stranger_greet(bad[0], 9, b, LANE_CONTROL);
    bad[0]->out.session ^= 1;
    stranger_send(bad[0], &beat);
    expect_refused(bad[0], "frame", "not a frame of this connection");
    bad[0] = stranger_dial(5, b);
    stranger_greet(bad[0], 9, b, LANE_CONTROL);
    stranger_send(bad[0], &frame);
    expect_refused(bad[0], "order", "where a beat was due");
    CHECK("the right one stays", !good[0]->closed && !good[0]->ended);
    finish();
}

TEST_BOTH(a_frame_sent_twice_is_refused)
{
    struct peer_frame frame = hash_frame(7);
    struct stranger *s;
    struct buf bytes;

    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    buf_init(&bytes, 1000);
    CHECK_OK("encode", frame_append(&s->out, &frame, &bytes));
    stranger_write(s, buf_peek(&bytes));
    stranger_write(s, buf_peek(&bytes));
    expect_refused(s, "frame", "where 4 was due");
    CHECK_U64("given once", b->frames, 1);
    buf_deinit(&bytes);
    finish();
}

TEST_BOTH(a_frame_that_was_left_out_is_noticed)
{
    struct peer_frame frame = hash_frame(7);
    struct stranger *s;

    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    s->out.number++;
    stranger_send(s, &frame);
    expect_refused(s, "frame", "where 3 was due");
    CHECK_U64("not given", b->frames, 0);
    finish();
}

TEST_BOTH(a_damaged_payload_is_refused)
{
    struct peer_frame frame = hash_frame(7);
    struct stranger *s;
    struct buf bytes;

    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    buf_init(&bytes, 1000);
    CHECK_OK("encode", frame_append(&s->out, &frame, &bytes));
    bytes.data[bytes.len - 1] ^= 1;
    stranger_write(s, buf_peek(&bytes));
    expect_refused(s, "frame", "payload's checksum");
    buf_deinit(&bytes);
    finish();
}

TEST(half_a_frame_does_not_keep_a_connection_for_ever)
{
    struct peer_frame frame = {.kind = FRAME_APPEND, .u.append = {.term = 1}};
    struct stranger *s;
    struct buf bytes;
    size_t at = 0, start;
    uint64_t since;

    rig.real = false;
    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    buf_init(&bytes, 1 << 20);
    CHECK_OK("begin", frame_begin_append(&frame, &bytes, &start));
    for (int i = 0; i < 100; i++)
        CHECK_OK("entry",
                 frame_add_entry(&(struct entry){.term = 1, .kind = ENTRY_BARRIER}, &bytes, start));
    frame_seal(&s->out, &bytes, start);
    since = rig_ms();
    while (!s->closed && !s->ended && at + 1 < bytes.len) {
        stranger_write(s, str_of(bytes.data + at++, 1)); /* one byte at a time, never complete */
        rig_run(100);
    }
    CHECK("hung up on before", s->closed || s->ended);
    CHECK("not at once", rig_ms() - since >= 9 * RIG_IDLE_MS);
    CHECK_U64("counted", rig_refused(b, "late"), 1);
    buf_deinit(&bytes);
    finish();
}

TEST_BOTH(bytes_in_any_pieces_are_the_same_frames)
{
    struct peer_frame frame;
    struct stranger *s;
    struct buf bytes;
    size_t piece = 1;

    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    buf_init(&bytes, 1 << 20);
    for (uint64_t i = 1; i <= 60; i++) {
        frame = hash_frame(i);
        CHECK_OK("encode", frame_append(&s->out, i % 3 ? &frame : &beat, &bytes));
    }
    for (size_t at = 0; at < bytes.len; at += piece, piece = piece % 61 + 1) {
        stranger_write(s, str_of(bytes.data + at, min_size(piece, bytes.len - at)));
        if (at % 4 == 0) rig_run(1);
    }
    RIG_UNTIL("all", b->frames == 40);
    CHECK_U64("in order", b->last.u.hash.index, 59);
    buf_deinit(&bytes);
    finish();
}

TEST(silence_after_a_hello_is_hung_up_on)
{
    struct stranger *s;

    rig.real = false;
    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    rig_run(3 * RIG_IDLE_MS);
    expect_refused(s, "silent", "nothing was heard of it");
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    for (int i = 0; i < 20; i++) {
        stranger_send(s, &beat);
        rig_run(RIG_IDLE_MS / 2);
    }
    CHECK("a sender of beats may stay", !s->closed && !s->ended);
    finish();
}

TEST(a_peer_that_does_not_read_is_disconnected)
{
    struct stranger *s;

    rig.real = false;
    rig.idle_ms = 15; /* otherwise filling a window with beats would take a day */
    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_CONTROL);
    stream_pause(s->stream);
    for (int i = 0; i < 100000 && (i % 500 != 0 || rig_refused(b, "silent") == 0); i++) {
        if (s->stream) stranger_send(s, &beat);
        rig_run(5);
    }
    CHECK("our beats to it are bounded", rig_node_log_count(b, "it does not read") == 1);
    finish();
}

static void out_of_place(enum frame_lane lane, const struct peer_frame *frames, size_t count,
                         const char *words)
{
    struct stranger *s;

    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, lane);
    for (size_t i = 0; i < count; i++) stranger_send(s, &frames[i]);
    expect_refused(s, "order", words);
    CHECK_U64("a snapshot that had begun is lost", b->snaps_lost, b->by_kind[FRAME_SNAP_BEGIN]);
    CHECK_U64("none is whole", b->snaps_whole, 0);
    CHECK_U64("nothing else was given", b->frames, 0);
    finish();
}

TEST_BOTH(frames_on_the_wrong_lane_are_refused)
{
    static const struct peer_frame on_control[] = {SNAP_BEGIN(1, 10)};
    static const struct peer_frame on_bulk[] = {{.kind = FRAME_HASH, .u.hash = {1, 1, 1}}};
    bool real = rig.real;

    out_of_place(LANE_CONTROL, on_control, 1, "snap_begin on the wrong lane");
    rig.real = real;
    out_of_place(LANE_BULK, on_bulk, 1, "hash on the wrong lane");
}

TEST_BOTH(a_vote_for_another_candidate_is_refused)
{
    static const struct peer_frame vote[] = {
        {.kind = FRAME_VOTE, .u.vote = {.term = 5, .candidate_id = 8}}};

    out_of_place(LANE_CONTROL, vote, 1, "vote for another candidate");
}

TEST_BOTH(snapshots_out_of_order_are_refused)
{
    static const struct {
        struct peer_frame frames[4];
        size_t count;
        const char *words;
    } table[] = {
        {{SNAP_CHUNK(1, 0, "abc")}, 1, "snap_chunk of no snapshot"},
        {{SNAP_END(1)}, 1, "snap_end of no snapshot"},
        {{SNAP_BEGIN(1, 10), SNAP_CHUNK(2, 0, "abc")}, 2, "snap_chunk of no snapshot"},
        {{SNAP_BEGIN(1, 10), SNAP_CHUNK(1, 3, "abc")}, 2, "snap_chunk out of order"},
        {{SNAP_BEGIN(1, 10), SNAP_CHUNK(1, 0, "abc"), SNAP_CHUNK(1, 0, "abc")}, 3, "out of order"},
        {{SNAP_BEGIN(1, 10), SNAP_CHUNK(1, 0, "abc"), SNAP_CHUNK(1, 3, "defghijk")},
         3,
         "snap_chunk past the end"},
        {{SNAP_BEGIN(1, 3), SNAP_CHUNK(1, 0, "abcd")}, 2, "snap_chunk past the end"},
        {{SNAP_BEGIN(1, 10), SNAP_CHUNK(1, 0, "abc"), SNAP_END(1)}, 3, "snap_end before the end"},
        {{SNAP_BEGIN(1, 3), SNAP_CHUNK(1, 0, "abc"), SNAP_END(2)}, 3, "snap_end of no snapshot"},
        {{SNAP_BEGIN(1, 10), SNAP_BEGIN(2, 10)}, 2, "snap_begin before the last one ended"},
        {{SNAP_BEGIN(1, UINT64_MAX), SNAP_CHUNK(1, UINT64_MAX, "abc")}, 2, "out of order"},
    };
    bool real = rig.real;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        rig.real = real;
        out_of_place(LANE_BULK, table[i].frames, table[i].count, table[i].words);
    }
}

TEST_BOTH(a_second_connection_of_a_sender_replaces_the_first)
{
    static const struct peer_frame start = SNAP_BEGIN(1, 10);
    struct stranger *first, *second, *other_lane;

    begin();
    first = stranger_dial(0, b);
    stranger_meet(first, 9, b, LANE_BULK);
    stranger_send(first, &start);
    RIG_UNTIL("begun", b->by_kind[FRAME_SNAP_BEGIN] == 1);
    other_lane = stranger_dial(1, b);
    stranger_meet(other_lane, 9, b, LANE_CONTROL);
    second = stranger_dial(2, b);
    stranger_meet(second, 9, b, LANE_BULK);
    RIG_UNTIL("the first is hung up on", first->closed || first->ended);
    CHECK_U64("and its snapshot lost before a new one can begin", b->snaps_lost, 1);
    stranger_send(second, &start);
    RIG_UNTIL("begun", b->by_kind[FRAME_SNAP_BEGIN] == 2);
    CHECK_U64("and not lost", b->snaps_lost, 1);
    CHECK("the other lane is another connection", !other_lane->closed && !other_lane->ended);
    finish();
}

TEST_BOTH(a_dialer_that_ends_in_the_middle_is_lost)
{
    static const struct peer_frame start = SNAP_BEGIN(1, 10);
    struct stranger *s;

    begin();
    s = stranger_dial(0, b);
    stranger_meet(s, 9, b, LANE_BULK);
    stranger_send(s, &start);
    stream_end(s->stream);
    RIG_UNTIL("lost", b->snaps_lost == 1);
    RIG_UNTIL("closed on both sides", s->closed);
    finish();
}

/* -- answers to a dialer -- */

struct liar { /* a listener that answers hellos as the test chooses */
    struct listener *listener;
    struct stream *streams[8];
    size_t count;
    struct peer_frame hello;
    struct buf extra; /* after the hello */
    bool mute;
    uint64_t got;
};
static struct liar liar;

static void liar_on_bytes(void *owner, struct str bytes)
{
    struct stream *stream = *(struct stream **)owner;
    struct frame_link link = {0};
    struct buf answer;
    struct str view;

    liar.got += bytes.len;
    if (liar.mute) return;
    buf_init(&answer, 1 << 20);
    CHECK_OK("encode", frame_append(&link, &liar.hello, &answer));
    CHECK_OK("encode", buf_append(&answer, buf_peek(&liar.extra)));
    view = buf_peek(&answer);
    (void)stream_write(stream, &view, 1);
    buf_deinit(&answer);
    liar.mute = true;
}

static void liar_on_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    *(struct stream **)owner = NULL;
    liar.mute = false;
}

static void liar_on_accept(void *owner, struct stream *stream)
{
    static const struct stream_events events = {.on_bytes = liar_on_bytes,
                                                .on_closed = liar_on_closed};
    struct stream **place = &liar.streams[liar.count++ % 8];

    (void)owner;
    CHECK("a place", !*place);
    *place = stream;
    stream_start(stream, &events, place);
}

static void lied_to(struct peer_frame hello, struct str extra, const char *words)
{
    rig_open(false);
    rig_node_open(0, RIG_CLUSTER);
    liar = (struct liar){.hello = hello};
    buf_init(&liar.extra, 1 << 20);
    CHECK_OK("extra", buf_append(&liar.extra, extra));
    CHECK_OK("listen", net_listen(sim_host_io(rig.stranger_host)->net,
                                  &(struct listen_options){.address = "stranger:1",
                                                           .on_accept = liar_on_accept},
                                  &liar.listener, NULL));
    CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, "stranger:1"}, 1));
    rig_run(5000);
    CHECK(words, rig_node_log_count(a, words) > 0);
    CHECK("reported once, and not dialed for ever",
          rig_node_log_count(a, words) == 1 && liar.count >= 5 && liar.count <= 25);
    CHECK("not connected", !peers_connected(a->peers, 2));
    listener_close(liar.listener);
    for (size_t i = 0; i < 8; i++)
        if (liar.streams[i]) stream_close(liar.streams[i]);
    rig_run(10);
    buf_deinit(&liar.extra);
    rig_close();
}

TEST(a_dialer_believes_no_wrong_answer)
{
    struct peer_frame hello = stranger_hello(2, 1, LANE_CONTROL), wrong = hello;

    wrong.u.hello.cluster_id = 0xc2;
    lied_to(wrong, STR_EMPTY, "another cluster");
    wrong = hello;
    wrong.u.hello.from = 3;
    lied_to(wrong, STR_EMPTY, "another replica answered");
    wrong = hello;
    wrong.u.hello.to = 3;
    lied_to(wrong, STR_EMPTY, "another replica answered");
    wrong = hello;
    wrong.u.hello.lane = LANE_BULK;
    lied_to(wrong, STR_EMPTY, "another replica answered");
    wrong = hello;
    wrong.u.hello.protocol = 7;
    lied_to(wrong, STR_EMPTY, "speaks protocol 7");
    lied_to(hello, STR("twenty-four or more bytes of garbage"), "a frame of 1852143476 bytes");
}

TEST(a_dialer_waits_for_an_answer_and_then_no_more)
{
    rig_open(false);
    rig_node_open(0, RIG_CLUSTER);
    liar = (struct liar){.mute = true};
    CHECK_OK("listen", net_listen(sim_host_io(rig.stranger_host)->net,
                                  &(struct listen_options){.address = "stranger:1",
                                                           .on_accept = liar_on_accept},
                                  &liar.listener, NULL));
    CHECK_OK("set", peers_set(a->peers, &(struct peer_where){2, "stranger:1"}, 1));
    RIG_UNTIL("given up", rig_node_log_count(a, "did not answer our hello in time") == 1);
    CHECK("a hello was sent", liar.got > 0);
    listener_close(liar.listener);
    for (size_t i = 0; i < 8; i++)
        if (liar.streams[i]) stream_close(liar.streams[i]);
    rig_run(10);
    rig_close();
}

/* -- identities, in virtual time: contexts replace TLS -- */

#define IDENTITY(name, ...)                                                                        \
    static const struct str name##_uris[] = {__VA_ARGS__};                                         \
    static const struct tls_identity name = {.uris = name##_uris,                                  \
                                             .uri_count = ARRAY_LEN(name##_uris)};
#define URI(text)                                                                                  \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
IDENTITY(by_name, URI("bigfleet://admin"), URI("muster://replica/n1"))
IDENTITY(by_id, URI("muster://replica/0000000000000002"))
IDENTITY(for_stranger, URI("muster://replica/s"))
IDENTITY(for_another, URI("muster://replica/n1"))
IDENTITY(for_admin, URI("bigfleet://admin"))
IDENTITY(for_two, URI("muster://replica/s"), URI("muster://replica/t"))
IDENTITY(for_worker, URI("muster://worker/s"))
IDENTITY(for_nobody, URI("muster://replica/"))

static void begin_tls(const struct tls_identity *stranger)
{
    rig.real = false;
    rig.tls = true;
    rig.identities[0] = &by_name;
    rig.identities[1] = &by_id;
    rig.identities[RIG_NODES] = stranger;
    begin();
}

TEST(under_tls_a_replica_is_known_by_its_name_or_id)
{
    begin_tls(&for_stranger); /* the two nodes meet: one by its name, one by its id */
    stranger_meet(stranger_dial(0, b), 9, b, LANE_CONTROL);
    finish();
}

TEST(under_tls_nobody_else_may_speak)
{
    static const struct {
        const struct tls_identity *identity;
        const char *words;
    } table[] = {
        {NULL, "no single replica identity"},         {&for_admin, "no single replica identity"},
        {&for_two, "no single replica identity"},     {&for_worker, "no single replica identity"},
        {&for_another, "is for muster://replica/n1"}, {&for_nobody, "is for muster://replica/"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct peer_frame hello = stranger_hello(9, 2, LANE_CONTROL);
        struct stranger *s;
        begin_tls(table[i].identity);
        s = stranger_dial(0, b);
        if (i + 1 == ARRAY_LEN(table)) hello.u.hello.name = STR_EMPTY;
        stranger_send(s, &hello);
        expect_refused(s, "identity", table[i].words);
        finish();
    }
}

TEST(under_tls_a_dialer_speaks_to_nobody_else)
{
    rig.tls = true;
    rig.identities[0] = &by_name;
    rig.identities[1] = &for_worker;
    rig_open(false);
    rig_node_open(0, RIG_CLUSTER);
    rig_node_open(1, RIG_CLUSTER);
    rig_node_set(0, 2, 1, 2);
    RIG_UNTIL("refused", rig_node_log_count(a, "no single replica identity") > 0);
    CHECK("not connected", !peers_connected(a->peers, 2));
    rig_close();
}
