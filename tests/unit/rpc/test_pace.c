/* SPDX-License-Identifier: Apache-2.0 */
/* How a peer paces its bytes: the same verdict however they are cut. */
#include "../wire/h2_pair.h"
#include "lib/test.h"
#include "rpc/server_internal.h"

enum { INTERVAL = 1000 };

static bool feed(struct pace *p, struct str bytes, uint64_t at_ms, size_t piece)
{
    bool abuse = false;

    for (size_t at = 0; at < bytes.len; at += piece)
        abuse |= pace_feed(p, str_of(bytes.at + at, min_size(piece, bytes.len - at)),
                           (mono_time){at_ms}, INTERVAL, 0);
    return abuse;
}

TEST(a_greeting_is_the_magic_and_one_frame)
{
    for (size_t piece = 1; piece < 40; piece++) {
        struct pace p;
        struct buf bytes;
        buf_init(&bytes, 1000);
        raw_preface(&bytes);
        pace_init(&p);
        feed(&p, str_of(bytes.data, 24), 1, piece);
        CHECK("not yet", !p.greeted);
        feed(&p, str_of(bytes.data + 24, 8), 1, piece);
        CHECK("not yet", !p.greeted && p.stalls);
        feed(&p, str_of(bytes.data + 32, 1), 1, piece);
        CHECK("now", p.greeted && !p.stalls);
        buf_deinit(&bytes);
    }
}

TEST(the_clock_of_a_header_block_starts_with_its_first_byte)
{
    struct pace p;
    struct buf bytes;

    buf_init(&bytes, 100000);
    raw_preface(&bytes);
    pace_init(&p);
    feed(&p, buf_peek(&bytes), 5, 7);
    buf_clear(&bytes);
    raw_frame(&bytes, 1, 0, 1, STR("abc"));
    feed(&p, str_of(bytes.data, 1), 10, 1);
    CHECK("begun", p.stalls);
    CHECK_U64("since", p.since.ms, 10);
    feed(&p, str_of(bytes.data + 1, bytes.len - 1), 20, 1);
    CHECK("its frame is whole, the block is not", p.stalls);
    buf_clear(&bytes);
    raw_frame(&bytes, 9, 0, 1, STR("def"));
    feed(&p, buf_peek(&bytes), 30, 100);
    CHECK_U64("a continuation does not start it anew", p.since.ms, 10);
    buf_clear(&bytes);
    raw_frame(&bytes, 9, 4, 1, STR("ghi"));
    raw_frame(&bytes, 0, 0, 1, STR("data"));
    feed(&p, str_of(bytes.data, bytes.len - 2), 40, 100);
    CHECK("whole, and half a DATA frame is no stall", !p.stalls);
    feed(&p, str_of(bytes.data + bytes.len - 2, 2), 50, 1);
    CHECK("nor its end", !p.stalls);
    buf_clear(&bytes);
    raw_frame(&bytes, 1, 4, 3, STR(""));
    feed(&p, str_of(bytes.data, 4), 60, 4);
    CHECK_U64("the next has its own clock", p.since.ms, 60);
    buf_deinit(&bytes);
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
        struct pace p;
        struct buf bytes;
        bool abuse = false;
        buf_init(&bytes, 1000);
        raw_preface(&bytes);
        pace_init(&p);
        feed(&p, buf_peek(&bytes), 0, 100);
        buf_clear(&bytes);
        raw_frame(&bytes, 6, cases[i].ack, 0, STR("12345678"));
        for (unsigned k = 0; k < cases[i].pings; k++)
            abuse |= pace_feed(&p, buf_peek(&bytes), (mono_time){k * cases[i].every_ms}, INTERVAL,
                               cases[i].answers ? k : 0);
        CHECK_U64(cases[i].why, abuse, cases[i].abuse);
        buf_deinit(&bytes);
    }
}
