/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as bytes: each kind encoded and decoded, the exact bytes, and every wrong frame. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/prng.h"
#include "lib/golden.h"
#include "lib/test.h"
#include "log/frame.h"

enum { SESSION = 0x5e55, BYTES_MAX = 64 << 20 };
#define SALTED ((struct frame_link){.session = SESSION})

static const struct entry entries[] = {
    {.index = 42, .term = 5, .kind = ENTRY_BARRIER},
    {.index = 43, .term = 5, .kind = ENTRY_COMMAND, .bytes = {"put", 3}},
    {.index = 44, .term = 6, .kind = ENTRY_CHANGE, .bytes = {"\0\1\2\3", 4}},
};
static const struct peer_frame append_frame = {
    .kind = FRAME_APPEND, .u.append = {.term = 6, .prev_index = 41, .prev_term = 4, .commit = 40}};

static struct peer_frame samples[] = {
    {.kind = FRAME_HELLO,
     .u.hello = {.protocol = FRAME_PROTOCOL,
                 .lane = LANE_BULK,
                 .cluster_id = 0x0102030405060708,
                 .from = 0x1111111111111111,
                 .to = 0x2222222222222222,
                 .nonce = 0x3333333333333333,
                 .level = 9,
                 .name = {"node-1", 6},
                 .address = {"10.0.0.7:7791", 13}}},
    {.kind = FRAME_APPEND,
     .u.append = {.term = 8, .prev_index = 7, .prev_term = 6, .commit = 5, .next_index = 8}},
    {.kind = FRAME_APPEND_RESULT,
     .u.append_result = {.version = 1,
                         .term = 8,
                         .rejected = UINT64_MAX,
                         .last_log_index = 17,
                         .features = 0x0102,
                         .capacity = 0x0304}},
    {.kind = FRAME_VOTE,
     .u.vote = {.version = 2,
                .term = 8,
                .candidate_id = 0x1111111111111111,
                .last_log_index = 17,
                .last_log_term = 7,
                .disrupt_leader = true,
                .pre_vote = false}},
    {.kind = FRAME_VOTE_RESULT,
     .u.vote_result = {.version = 3,
                       .term = 8,
                       .vote_granted = false,
                       .pre_vote = true,
                       .features = 0x0102,
                       .capacity = 0x0304}},
    {.kind = FRAME_TIMEOUT_NOW,
     .u.timeout_now = {.version = 1, .term = 8, .last_log_index = 17, .last_log_term = 7}},
    {.kind = FRAME_READ_ROUND, .u.read = {.term = 8, .round = 99}},
    {.kind = FRAME_READ_ANSWER, .u.read = {.term = 8, .round = 99, .yes = true}},
    {.kind = FRAME_HASH, .u.hash = {.index = 4096, .term = 8, .hash = 0xfedcba9876543210}},
    {.kind = FRAME_SNAP_BEGIN,
     .u.snap_begin = {.term = 8, .index = 4096, .index_term = 7, .bytes = 1u << 30, .id = 5}},
    {.kind = FRAME_SNAP_CHUNK, .u.snap_chunk = {.id = 5, .offset = 262144, .bytes = {"chunk", 5}}},
    {.kind = FRAME_SNAP_END, .u.snap_end = {.id = 5}},
    {.kind = FRAME_BEAT},
};

static struct buf bytes;

static struct frame_link link_of(enum peer_frame_kind kind)
{
    return kind == FRAME_HELLO ? (struct frame_link){0} : SALTED;
}

static void encode(const struct peer_frame *frame)
{
    struct frame_link link = link_of(frame->kind);

    buf_deinit(&bytes);
    buf_init(&bytes, BYTES_MAX);
    CHECK_OK("encode", frame_append(&link, frame, &bytes));
    CHECK_U64("numbered", link.number, 1);
}

static void encode_entries(void)
{
    struct frame_link link = SALTED;
    size_t start;

    buf_deinit(&bytes);
    buf_init(&bytes, BYTES_MAX);
    CHECK_OK("begin", frame_begin_append(&append_frame, &bytes, &start));
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        CHECK_OK("entry", frame_add_entry(&entries[i], &bytes, start));
    frame_seal(&link, &bytes, start);
}

static enum err decode(struct frame_link link, struct str from, struct peer_frame *ret_frame)
{
    struct note note = {""};
    size_t size = 12345;
    uint64_t number = link.number;
    enum err err = frame_take(&link, from, ret_frame, &size, &note);

    if (err) {
        CHECK_U64("the link stays where it was", link.number, number);
        CHECK_U64("nothing is given", size, 12345);
        if (err != ERR_NOT_READY) CHECK("the note has the reason", note.text[0] != '\0');
    } else {
        CHECK_U64("the link moves on", link.number, number + 1);
        CHECK_SIZE("the whole frame", size, from.len);
    }
    return err;
}

/* Replaces payload bytes and fixes all checksums, like a peer that knows the session. */
static void forge(enum peer_frame_kind kind)
{
    char salt[8];
    uint32_t sum;

    store_le64(salt, kind == FRAME_HELLO ? 0 : SESSION);
    store_le32(bytes.data, (uint32_t)(bytes.len - FRAME_HEAD));
    sum = crc32c(crc32c(crc32c(0, salt, 8), bytes.data, 8), bytes.data + 16, 8);
    store_le32(bytes.data + 12, sum);
    store_le32(bytes.data + 8, crc32c(sum, bytes.data + FRAME_HEAD, bytes.len - FRAME_HEAD));
}

TEST(every_kind_comes_back_as_it_was)
{
    struct buf again;

    buf_init(&again, BYTES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        struct frame_link link = link_of(samples[i].kind);
        struct peer_frame got;
        encode(&samples[i]);
        CHECK_OK(frame_kind_name(samples[i].kind), decode(link, buf_peek(&bytes), &got));
        CHECK_U64("kind", got.kind, samples[i].kind);
        buf_clear(&again);
        CHECK_OK("again", frame_append(&link, &got, &again));
        CHECK_STR("the same bytes", buf_peek(&again), buf_peek(&bytes));
    }
    CHECK_SIZE("all kinds are here", ARRAY_LEN(samples), FRAME_KIND_COUNT - 1);
    buf_deinit(&again);
    buf_deinit(&bytes);
}

TEST(fields_are_not_mixed_up)
{
    struct peer_frame f;

    encode(&samples[0]);
    CHECK_OK("hello", decode((struct frame_link){0}, buf_peek(&bytes), &f));
    CHECK_U64("protocol", f.u.hello.protocol, FRAME_PROTOCOL);
    CHECK_U64("lane", f.u.hello.lane, LANE_BULK);
    CHECK_U64("cluster", f.u.hello.cluster_id, 0x0102030405060708);
    CHECK_U64("from", f.u.hello.from, 0x1111111111111111);
    CHECK_U64("to", f.u.hello.to, 0x2222222222222222);
    CHECK_U64("nonce", f.u.hello.nonce, 0x3333333333333333);
    CHECK_U64("level", f.u.hello.level, 9);
    CHECK_STR("name", f.u.hello.name, STR("node-1"));
    CHECK_STR("address", f.u.hello.address, STR("10.0.0.7:7791"));
    encode(&samples[2]);
    CHECK_OK("append result", decode(SALTED, buf_peek(&bytes), &f));
    CHECK_U64("term", f.u.append_result.term, 8);
    CHECK_U64("rejected", f.u.append_result.rejected, UINT64_MAX);
    CHECK_U64("last", f.u.append_result.last_log_index, 17);
    CHECK_U64("features", f.u.append_result.features, 0x0102);
    CHECK_U64("capacity", f.u.append_result.capacity, 0x0304);
    CHECK_U64("version", f.u.append_result.version, 1);
    encode(&samples[3]);
    CHECK_OK("vote", decode(SALTED, buf_peek(&bytes), &f));
    CHECK_U64("candidate", f.u.vote.candidate_id, 0x1111111111111111);
    CHECK_U64("last index", f.u.vote.last_log_index, 17);
    CHECK_U64("last term", f.u.vote.last_log_term, 7);
    CHECK("disrupts", f.u.vote.disrupt_leader && !f.u.vote.pre_vote);
    CHECK_U64("version", f.u.vote.version, 2);
    encode(&samples[4]);
    CHECK_OK("vote result", decode(SALTED, buf_peek(&bytes), &f));
    CHECK("of a pre-vote, not granted", f.u.vote_result.pre_vote && !f.u.vote_result.vote_granted);
    CHECK_U64("version", f.u.vote_result.version, 3);
    encode(&samples[5]);
    CHECK_OK("timeout now", decode(SALTED, buf_peek(&bytes), &f));
    CHECK_U64("last index", f.u.timeout_now.last_log_index, 17);
    CHECK_U64("last term", f.u.timeout_now.last_log_term, 7);
    encode(&samples[7]);
    CHECK_OK("read answer", decode(SALTED, buf_peek(&bytes), &f));
    CHECK("yes in round 99", f.u.read.yes && f.u.read.round == 99 && f.u.read.term == 8);
    encode(&samples[8]);
    CHECK_OK("hash", decode(SALTED, buf_peek(&bytes), &f));
    CHECK_U64("hash", f.u.hash.hash, 0xfedcba9876543210);
    CHECK_U64("index", f.u.hash.index, 4096);
    encode(&samples[9]);
    CHECK_OK("snap begin", decode(SALTED, buf_peek(&bytes), &f));
    CHECK_U64("index", f.u.snap_begin.index, 4096);
    CHECK_U64("its term", f.u.snap_begin.index_term, 7);
    CHECK_U64("bytes", f.u.snap_begin.bytes, 1u << 30);
    CHECK_U64("id", f.u.snap_begin.id, 5);
    encode(&samples[10]);
    CHECK_OK("snap chunk", decode(SALTED, buf_peek(&bytes), &f));
    CHECK_U64("offset", f.u.snap_chunk.offset, 262144);
    CHECK_STR("bytes", f.u.snap_chunk.bytes, STR("chunk"));
    buf_deinit(&bytes);
}

TEST(entries_come_back_in_order_with_their_indexes)
{
    struct peer_frame f;
    struct entry entry;
    size_t count = 0;

    encode_entries();
    CHECK_OK("append", decode(SALTED, buf_peek(&bytes), &f));
    CHECK_U64("term", f.u.append.term, 6);
    CHECK_U64("previous", f.u.append.prev_index, 41);
    CHECK_U64("its term", f.u.append.prev_term, 4);
    CHECK_U64("commit", f.u.append.commit, 40);
    CHECK_U64("how many", f.u.append.entry_count, 3);
    while (frame_next_entry(&f, &entry)) {
        CHECK_U64("index", entry.index, entries[count].index);
        CHECK_U64("term", entry.term, entries[count].term);
        CHECK_U64("kind", entry.kind, entries[count].kind);
        CHECK_STR("bytes", entry.bytes, entries[count].bytes);
        count++;
    }
    CHECK_SIZE("all", count, 3);
    CHECK("and no more", !frame_next_entry(&f, &entry));
    CHECK_U64("earlier content stays", f.u.append.prev_index, 41);
    buf_deinit(&bytes);
}

TEST(the_bytes_are_the_documented_ones)
{
    struct buf text;

    buf_init(&text, BYTES_MAX);
    for (size_t i = 0; i <= ARRAY_LEN(samples); i++) {
        if (i < ARRAY_LEN(samples))
            encode(&samples[i]);
        else
            encode_entries();
        CHECK_OK("line", buf_appendf(&text, "%s\n",
                                     i < ARRAY_LEN(samples) ? frame_kind_name(samples[i].kind)
                                                            : "append with three entries"));
        for (size_t k = 0; k < bytes.len; k++)
            CHECK_OK("byte", buf_appendf(&text, "%s%02x%s", k % 8 == 0 ? "   " : " ",
                                         (unsigned char)bytes.data[k],
                                         k % 8 == 7 && k + 1 < bytes.len ? "\n" : ""));
        CHECK_OK("end", buf_append_c(&text, "\n"));
    }
    golden_check("log/frames.txt", buf_peek(&text));
    buf_deinit(&text);
    buf_deinit(&bytes);
}

TEST(a_frame_that_is_cut_anywhere_is_not_ready)
{
    for (size_t i = 0; i <= ARRAY_LEN(samples); i++) {
        struct frame_link link = link_of(i < ARRAY_LEN(samples) ? samples[i].kind : FRAME_APPEND);
        struct peer_frame f;
        char *exact;
        if (i < ARRAY_LEN(samples))
            encode(&samples[i]);
        else
            encode_entries();
        for (size_t len = 0; len < bytes.len; len++) {
            exact = malloc(len + 1); /* so that ASan sees a read past the end */
            CHECK("memory", exact != NULL);
            exact = realloc(exact, len ? len : 1);
            memcpy(exact, bytes.data, len);
            CHECK_ERR("cut", decode(link, str_of(exact, len), &f), ERR_NOT_READY);
            CHECK_SIZE("wanted", frame_wanted(str_of(exact, len)),
                       len < FRAME_HEAD ? FRAME_HEAD : bytes.len);
            free(exact);
        }
    }
    buf_deinit(&bytes);
}

TEST(any_flipped_bit_is_found)
{
    for (size_t i = 0; i <= ARRAY_LEN(samples); i++) {
        struct frame_link link = link_of(i < ARRAY_LEN(samples) ? samples[i].kind : FRAME_APPEND);
        struct peer_frame f;
        if (i < ARRAY_LEN(samples))
            encode(&samples[i]);
        else
            encode_entries();
        for (size_t bit = 0; bit < bytes.len * 8; bit++) {
            enum err err;
            bytes.data[bit / 8] ^= (char)(1 << bit % 8);
            err = decode(link, buf_peek(&bytes), &f);
            CHECK("refused", err == ERR_CORRUPT || (bit < 32 && err == ERR_TOO_LARGE));
            bytes.data[bit / 8] ^= (char)(1 << bit % 8);
        }
    }
    buf_deinit(&bytes);
}

TEST(a_frame_of_another_connection_is_refused_by_its_head)
{
    struct peer_frame f;

    encode(&samples[3]);
    CHECK_ERR("another session",
              decode((struct frame_link){.session = SESSION + 1}, buf_peek(&bytes), &f),
              ERR_CORRUPT);
    CHECK_ERR(
        "before its payload came",
        decode((struct frame_link){.session = SESSION + 1}, str_of(bytes.data, FRAME_HEAD), &f),
        ERR_CORRUPT);
    CHECK("sessions depend on both nonces and their order",
          frame_session(1, 2) != frame_session(2, 1) &&
              frame_session(1, 2) != frame_session(1, 3) &&
              frame_session(1, 2) != frame_session(3, 2) && frame_session(0, 0) != 0);
    buf_deinit(&bytes);
}

TEST(numbers_go_up_by_one)
{
    struct frame_link out = SALTED, in = SALTED;
    const struct peer_frame beat = {.kind = FRAME_BEAT};
    struct peer_frame f;
    size_t size;

    buf_init(&bytes, BYTES_MAX);
    for (int i = 0; i < 4; i++) CHECK_OK("beat", frame_append(&out, &beat, &bytes));
    for (size_t i = 0; i < 4; i++) {
        struct str rest = str_tail(buf_peek(&bytes), i * FRAME_HEAD);
        if (i == 1) {
            struct frame_link skipped = in;
            CHECK_ERR("one left out",
                      frame_take(&skipped, str_tail(rest, FRAME_HEAD), &f, &size, NULL),
                      ERR_CORRUPT);
            CHECK_ERR("one twice", frame_take(&skipped, buf_peek(&bytes), &f, &size, NULL),
                      ERR_CORRUPT);
        }
        CHECK_OK("in order", frame_take(&in, rest, &f, &size, NULL));
        CHECK_U64("number", in.number, i + 1);
    }
    buf_deinit(&bytes);
}

TEST(a_length_no_frame_has_is_refused_before_anything_is_stored)
{
    static const uint32_t lengths[] = {FRAME_MAX + 1, 1u << 31, UINT32_MAX};
    struct peer_frame f;

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        char head[4];
        store_le32(head, lengths[i]);
        CHECK_ERR("four bytes are enough", decode(SALTED, str_of(head, 4), &f), ERR_TOO_LARGE);
    }
    for (enum peer_frame_kind kind = 1; kind < FRAME_KIND_COUNT;
         kind++) { /* each has its own bounds */
        bool open_end = kind == FRAME_APPEND;
        encode(&samples[kind - 1]);
        CHECK_OK("longer", buf_append(&bytes, str_of((char[300 << 10]){0}, 300 << 10)));
        forge(kind);
        CHECK_ERR(frame_kind_name(kind), decode(link_of(kind), str_of(bytes.data, FRAME_HEAD), &f),
                  open_end ? ERR_NOT_READY : ERR_TOO_LARGE);
        encode(&samples[kind - 1]);
        if (kind == FRAME_BEAT) continue;
        bytes.len = FRAME_HEAD;
        forge(kind);
        CHECK_ERR(frame_kind_name(kind), decode(link_of(kind), buf_peek(&bytes), &f), ERR_PARSE);
    }
    buf_deinit(&bytes);
}

TEST(kinds_that_are_none_and_hellos_out_of_place_are_refused)
{
    struct peer_frame f;

    encode(&samples[12]);
    store_le32(bytes.data + 4, FRAME_KIND_COUNT);
    forge(FRAME_BEAT);
    CHECK_ERR("unknown", decode(SALTED, buf_peek(&bytes), &f), ERR_PARSE);
    store_le32(bytes.data + 4, 0);
    forge(FRAME_BEAT);
    CHECK_ERR("zero", decode(SALTED, buf_peek(&bytes), &f), ERR_PARSE);
    store_le32(bytes.data + 4, FRAME_BEAT | 1u << 8);
    forge(FRAME_BEAT);
    CHECK_ERR("the zeros behind it count", decode(SALTED, buf_peek(&bytes), &f), ERR_PARSE);
    encode(&samples[12]);
    forge(FRAME_HELLO); /* unsalted */
    CHECK_ERR("a beat first", decode((struct frame_link){0}, buf_peek(&bytes), &f), ERR_PARSE);
    encode(&samples[0]);
    forge(FRAME_BEAT); /* salted */
    CHECK_ERR("a second hello", decode(SALTED, buf_peek(&bytes), &f), ERR_PARSE);
    CHECK_TEXT("no name", frame_kind_name(FRAME_KIND_COUNT), "unknown");
    buf_deinit(&bytes);
}

/* One invalid value at a place of the payload, with correct checksums. */
struct wrong {
    size_t sample, at, len;
    uint64_t value;
    enum err err;
};

TEST(values_that_cannot_be_are_refused)
{
    static const struct wrong table[] = {
        {0, 0, 4, FRAME_PROTOCOL + 1, ERR_VERSION},
        {0, 0, 4, 0, ERR_VERSION},
        {0, 4, 4, 0, ERR_PARSE}, /* lane */
        {0, 4, 4, 3, ERR_PARSE},
        {0, 8, 8, 0, ERR_PARSE},  /* cluster */
        {0, 16, 8, 0, ERR_PARSE}, /* from */
        {0, 24, 8, 0, ERR_PARSE}, /* to */
        {0, 44, 2, 7, ERR_PARSE}, /* name longer, address not shorter */
        {0, 44, 2, 65535, ERR_PARSE},
        {0, 46, 2, 65535, ERR_PARSE},
        {0, 48, 1, 0, ERR_PARSE}, /* a NUL in the name */
        {0, 48, 1, '\n', ERR_PARSE},
        {0, 48, 1, 0xff, ERR_PARSE},      /* no UTF-8 */
        {0, 55, 1, 0, ERR_PARSE},         /* a NUL in the address */
        {1, 8, 8, UINT64_MAX, ERR_PARSE}, /* an index that would wrap */
        {1, 16, 8, 9, ERR_PARSE},         /* previous term above the leader's */
        {1, 32, 4, 1, ERR_PARSE},         /* one entry without bytes */
        {1, 32, 4, FRAME_ENTRIES_MAX + 1, ERR_PARSE},
        {1, 36, 4, 1, ERR_PARSE}, /* zeros */
        {2, 28, 4, 256, ERR_PARSE},
        {3, 32, 1, 2, ERR_PARSE}, /* bools */
        {3, 33, 1, 255, ERR_PARSE},
        {3, 34, 2, 1, ERR_PARSE},
        {3, 36, 4, 256, ERR_PARSE},
        {4, 8, 1, 2, ERR_PARSE},
        {4, 9, 1, 2, ERR_PARSE},
        {4, 14, 2, 256, ERR_PARSE},
        {5, 24, 8, 256, ERR_PARSE},
        {7, 16, 1, 2, ERR_PARSE},
        {7, 17, 1, 1, ERR_PARSE},
        {7, 18, 2, 1, ERR_PARSE},
        {7, 20, 4, 1, ERR_PARSE},
        {ARRAY_LEN(samples), 32, 4, 2, ERR_PARSE},               /* bytes after the last */
        {ARRAY_LEN(samples), 32, 4, 4, ERR_PARSE},               /* one too many */
        {ARRAY_LEN(samples), 40, 8, 3, ERR_PARSE},               /* terms fall */
        {ARRAY_LEN(samples), 40, 8, 7, ERR_PARSE},               /* above the leader's */
        {ARRAY_LEN(samples), 48, 4, ENTRY_BYTES_MAX, ERR_PARSE}, /* longer than the frame */
        {ARRAY_LEN(samples), 48, 4, UINT32_MAX, ERR_PARSE},
        {ARRAY_LEN(samples), 52, 4, 0, ERR_PARSE}, /* kinds of entry */
        {ARRAY_LEN(samples), 52, 4, 4, ERR_PARSE},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const struct wrong *w = &table[i];
        enum peer_frame_kind kind =
            w->sample < ARRAY_LEN(samples) ? samples[w->sample].kind : FRAME_APPEND;
        struct peer_frame f;
        char why[64], value[8];
        if (w->sample < ARRAY_LEN(samples))
            encode(&samples[w->sample]);
        else
            encode_entries();
        CHECK_OK("right before", decode(link_of(kind), buf_peek(&bytes), &f));
        store_le64(value, w->value);
        memcpy(bytes.data + FRAME_HEAD + w->at, value, w->len);
        forge(kind);
        snprintf(why, sizeof why, "%s, byte %zu", frame_kind_name(kind), w->at);
        CHECK_ERR(why, decode(link_of(kind), buf_peek(&bytes), &f), w->err);
    }
    buf_deinit(&bytes);
}

TEST(an_append_takes_only_what_a_frame_may_hold)
{
    struct entry big = {.index = 42, .term = 5, .kind = ENTRY_COMMAND};
    struct peer_frame f;
    size_t start, count = 0;
    struct frame_link link = SALTED;
    char *room = calloc(1, ENTRY_BYTES_MAX + 1);

    CHECK("memory", room != NULL);
    buf_init(&bytes, BYTES_MAX);
    CHECK_OK("begin", frame_begin_append(&append_frame, &bytes, &start));
    big.bytes = str_of(room, ENTRY_BYTES_MAX + 1);
    CHECK_ERR("an entry too large", frame_add_entry(&big, &bytes, start), ERR_TOO_LARGE);
    big.bytes.len--;
    while (frame_add_entry(&big, &bytes, start) == ERR_OK) count++;
    CHECK_SIZE("three of the largest", count, 3);
    frame_seal(&link, &bytes, start);
    CHECK_OK("are good", decode(SALTED, buf_peek(&bytes), &f));
    bytes.len = 0;
    CHECK_OK("begin", frame_begin_append(&append_frame, &bytes, &start));
    big.bytes.len = count = 0;
    while (frame_add_entry(&big, &bytes, start) == ERR_OK) count++;
    CHECK_SIZE("and no more than so many", count, FRAME_ENTRIES_MAX);
    free(room);
    buf_deinit(&bytes);
    buf_init(&bytes, 100);
    CHECK_OK("the first fits", frame_append(&link, &samples[3], &bytes));
    CHECK_ERR("the buffer's own bound", frame_append(&link, &samples[3], &bytes), ERR_FULL);
    CHECK_SIZE("as before", bytes.len, FRAME_HEAD + 40);
    buf_deinit(&bytes);
}

TEST(random_bytes_are_never_a_frame)
{
    uint64_t seed = test_seed();
    struct prng prng;
    struct peer_frame f;
    char junk[200];

    prng_seed(&prng, seed);
    for (int i = 0; i < 20000; i++) {
        size_t len = prng_below(&prng, sizeof junk), size = 0;
        struct frame_link link = {.session = i % 2 ? SESSION : 0};
        prng_fill(&prng, junk, len);
        if (len > 8 && i % 3 == 0) { /* a head that is right except for its checksums */
            store_le32(junk, (uint32_t)prng_below(&prng, 200));
            store_le32(junk + 4, (uint32_t)prng_below(&prng, FRAME_KIND_COUNT));
        }
        CHECK("refused or not whole", frame_take(&link, str_of(junk, len), &f, &size, NULL));
    }
}
