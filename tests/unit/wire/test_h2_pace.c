/* SPDX-License-Identifier: Apache-2.0 */
/* The pace of a peer's bytes: the verdict is the same at every cut. */
#include "h2_pair.h"
#include "lib/test.h"

enum { INTERVAL = 1000 };

static struct h2_peer server;
static struct buf wire;
static enum err last;

static void start(void)
{
    CHECK_OK("open", h2_peer_open(&server, H2_SERVER,
                                  &(struct h2_limits){.ping_min_interval_ms = INTERVAL}));
    buf_init(&wire, 1 << 16);
    raw_preface(&wire);
    last = ERR_OK;
}

static void stop(void)
{
    h2_peer_close(&server);
    buf_deinit(&wire);
}

static const struct h2_pace *feed(struct str bytes, uint64_t at_ms, size_t piece)
{
    for (size_t at = 0; at < bytes.len; at += piece)
        last = h2_feed(server.h2, str_of(bytes.at + at, min_size(piece, bytes.len - at)),
                       (mono_time){at_ms});
    return h2_pace(server.h2);
}

TEST(a_greeting_is_the_magic_and_one_frame)
{
    for (size_t piece = 1; piece < 40; piece++) {
        const struct h2_pace *p;
        start();
        CHECK("nothing came", !h2_pace(server.h2)->begun);
        p = feed(str_of(wire.data, 24), 1, piece);
        CHECK("not yet", p->begun && !p->greeted);
        p = feed(str_of(wire.data + 24, 8), 1, piece);
        CHECK("not yet", !p->greeted && p->stalls);
        p = feed(str_of(wire.data + 32, 1), 1, piece);
        CHECK("now", p->greeted && !p->stalls);
        stop();
    }
}

TEST(the_clock_of_a_header_block_starts_with_its_first_byte)
{
    struct buf block;
    size_t third;

    start();
    buf_init(&block, 1 << 16);
    raw_field(&block, STR(":method"), STR("POST"));
    raw_field(&block, STR(":scheme"), STR("http"));
    raw_field(&block, STR(":path"), STR("/a.B/C"));
    raw_field(&block, STR(":authority"), STR("x"));
    third = block.len / 3;
    feed(buf_peek(&wire), 5, 7);
    buf_clear(&wire);
    raw_frame(&wire, 1, 0, 1, str_of(block.data, third));
    CHECK("begun", feed(str_of(wire.data, 1), 10, 1)->stalls);
    CHECK_U64("since", h2_pace(server.h2)->since.ms, 10);
    CHECK("its frame is whole, the block is not",
          feed(str_of(wire.data + 1, wire.len - 1), 20, 1)->stalls);
    buf_clear(&wire);
    raw_frame(&wire, 9, 0, 1, str_of(block.data + third, third));
    CHECK_U64("a continuation does not restart the time", feed(buf_peek(&wire), 30, 100)->since.ms,
              10);
    buf_clear(&wire);
    raw_frame(&wire, 9, 4, 1, str_of(block.data + 2 * third, block.len - 2 * third));
    raw_frame(&wire, 0, 0, 1, STR("data"));
    CHECK("whole, and half a DATA frame is no stall",
          !feed(str_of(wire.data, wire.len - 2), 40, 100)->stalls);
    CHECK("nor its end", !feed(str_of(wire.data + wire.len - 2, 2), 50, 1)->stalls);
    buf_clear(&wire);
    raw_request(&wire, 3, true);
    CHECK_U64("the next has its own clock", feed(str_of(wire.data, 4), 60, 4)->since.ms, 60);
    CHECK_OK("all of it was good", last);
    buf_deinit(&block);
    stop();
}

TEST(pings_strike_only_when_quick_and_idle)
{
    static const struct {
        const char *why;
        uint64_t every_ms;
        bool answers, ack;
        unsigned pings;
        bool abuse;
    } cases[] = {
        {"three in a row are forgiven", 1, false, false, 3, false},
        {"the fourth is not", 1, false, false, 4, true},
        {"slowly is fine", INTERVAL, false, false, 50, false},
        {"with answers between is fine", 1, true, false, 50, false},
        {"answers to our own pings are no pings", 1, false, true, 50, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf output;
        start();
        buf_init(&output, 1 << 20);
        feed(buf_peek(&wire), 0, 100);
        for (unsigned k = 0; k < cases[i].pings; k++) {
            int32_t stream = (int32_t)(2 * k + 1);
            buf_clear(&wire);
            if (cases[i].answers) raw_request(&wire, stream, true);
            feed(buf_peek(&wire), k * cases[i].every_ms, 100);
            if (cases[i].answers) CHECK_OK("answer", h2_answer(&server, stream));
            CHECK_OK("output", h2_take_output(server.h2, SIZE_MAX, &output));
            buf_clear(&wire);
            raw_frame(&wire, 6, cases[i].ack, 0, STR("12345678"));
            feed(buf_peek(&wire), k * cases[i].every_ms, 3);
        }
        CHECK_TEXT(cases[i].why, h2_abuse(server.h2), cases[i].abuse ? "pings" : "http/2");
        CHECK_ERR(cases[i].why, last, cases[i].abuse ? ERR_DENIED : ERR_OK);
        buf_deinit(&output);
        stop();
    }
}
