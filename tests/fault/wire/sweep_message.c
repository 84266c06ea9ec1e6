/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in everything of the message layer that allocates;
 * protobuf-c's own allocations count, too, because they come out of the arena. After each
 * failure the call returns out of memory only, outputs are unchanged, nothing leaks. */
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "wire/message.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"

enum { MEMORY = 8 << 20, CHILDREN = 400 };
#define EVERYTHING (&muster__test__v1__everything__descriptor)

/* Children that each take some memory, unknown fields, and text: the arena grows several times. */
static void make_message(struct buf *bytes)
{
    buf_init(bytes, MEMORY);
    for (int i = 0; i < CHILDREN; i++)
        buf_append(bytes, STR("\xda\x01\x10\x72\x05"
                              "texts\xa0\x06\x07\x90\x01\x05\x90\x01\x06"));
    buf_append(bytes, STR("\x72\x04rest\xa0\x06\x07"));
}

TEST(a_message_is_read_whole_or_reports_that_memory_ran_out)
{
    struct buf bytes;
    uint64_t turns = 0;

    make_message(&bytes);
    FAULT_SWEEP_ALLOC(k)
    {
        struct arena arena;
        struct note note = {""};
        ProtobufCMessage *message = NULL;
        enum err err;

        arena_init(&arena, MEMORY);
        err = message_read(EVERYTHING, buf_peek(&bytes), NULL, &arena, &message, &note);
        CHECK_ERR("the failure is reported, and never as a mistake of the bytes", err,
                  fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        if (err) {
            CHECK("nothing came out", message == NULL);
            CHECK_HAS("a note", note.text, "memory");
        } else {
            CHECK_SIZE("all children", ((Muster__Test__V1__Everything *)message)->n_children,
                       CHILDREN);
        }
        arena_deinit(&arena);
        turns = k;
    }
    CHECK("the arena took several blocks, each was refused once", turns > 5);
    buf_deinit(&bytes);
}

TEST(a_message_is_written_whole_or_not_at_all)
{
    Muster__Test__V1__Everything m = MUSTER__TEST__V1__EVERYTHING__INIT;
    uint64_t turns = 0;

    m.a_string = (char *)(uintptr_t) "some text that is longer than what was there before";
    FAULT_SWEEP_ALLOC(k)
    {
        struct buf out;
        enum err err;

        buf_init(&out, MEMORY);
        err = message_write(&m.base, &out, NULL);
        CHECK_ERR("the failure is reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK("all or nothing", (out.len == 0) == (err != ERR_OK));
        buf_deinit(&out);
        turns = k;
    }
    CHECK("the buffer was refused", turns > 1);
}

struct tally {
    uint64_t count;
};

static enum err count_one(void *owner, struct str bytes, size_t len)
{
    struct tally *t = owner;

    CHECK_SIZE("a whole element", bytes.len, len);
    t->count++;
    return ERR_OK;
}

/* Half an element at a time, so that each is gathered. */
static enum err stream_all(struct str bytes, struct tally *tally, struct arena *arena,
                           ProtobufCMessage **ret_rest, struct note *note)
{
    struct message_stream *stream = NULL;
    enum err err =
        message_stream_open_raw(EVERYTHING, "children", 4096, 4096, count_one, tally, &stream);

    while (!err && bytes.len > 0) {
        size_t len = min_size(bytes.len, 9);
        err = message_stream_feed(stream, str_of(bytes.at, len), note);
        bytes = str_tail(bytes, len);
    }
    if (!err) err = message_stream_end(stream, arena, ret_rest, note);
    message_stream_close(stream);
    return err;
}

TEST(a_stream_ends_well_or_reports_that_memory_ran_out)
{
    struct buf bytes;
    uint64_t turns = 0;

    make_message(&bytes);
    FAULT_SWEEP_ALLOC(k)
    {
        struct arena arena;
        struct note note = {""};
        struct tally tally = {0};
        ProtobufCMessage *rest = NULL;
        enum err err;

        arena_init(&arena, MEMORY);
        err = stream_all(buf_peek(&bytes), &tally, &arena, &rest, &note);
        CHECK_ERR("the failure is reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK("a rest or none", (rest != NULL) == (err == ERR_OK));
        if (!err) CHECK_U64("all elements", tally.count, CHILDREN);
        arena_deinit(&arena);
        turns = k;
    }
    CHECK("stream, buffers and rest were each refused once", turns > 3);
    buf_deinit(&bytes);
}
