/* SPDX-License-Identifier: Apache-2.0 */
#include "log/envelope.h"

#include <string.h>

#include "lib/test.h"
#include "log/log.h"

static const struct log_envelope sample = {.machine = 0x01020304,
                                           .version = 0x11121314,
                                           .level = 0x21222324,
                                           .advance_ns = 0x3132333435363738,
                                           .actor = {"ann", 3},
                                           .request_id = {"r-9", 3},
                                           .command = {"do\0it", 5}};
static const char sample_bytes[] =
    "\x01\x03\x03\x00\x04\x03\x02\x01\x14\x13\x12\x11\x24\x23\x22\x21"
    "\x38\x37\x36\x35\x34\x33\x32\x31\x05\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00"
    "annr-9do\0it";

TEST(the_bytes_are_those_of_the_format)
{
    struct buf bytes;

    buf_init(&bytes, 1000);
    CHECK_OK("some bytes before it", buf_append_c(&bytes, "<"));
    CHECK_OK("append", envelope_append(&sample, &bytes));
    CHECK_STR("after the earlier content", str_tail(buf_peek(&bytes), 1),
              str_of(sample_bytes, sizeof sample_bytes - 1));
    CHECK_SIZE("size", envelope_size(&sample), sizeof sample_bytes - 1);
    buf_deinit(&bytes);
}

TEST(what_was_written_is_read)
{
    struct log_envelope got;
    struct note note = {""};

    CHECK_OK("parse", envelope_parse(str_of(sample_bytes, sizeof sample_bytes - 1), &got, &note));
    CHECK_U64("machine", got.machine, sample.machine);
    CHECK_U64("version", got.version, sample.version);
    CHECK_U64("level", got.level, sample.level);
    CHECK_U64("advance", got.advance_ns, sample.advance_ns);
    CHECK_STR("actor", got.actor, sample.actor);
    CHECK_STR("request id", got.request_id, sample.request_id);
    CHECK_STR("command", got.command, sample.command);
    CHECK_TEXT("no note", note.text, "");
}

TEST(every_part_may_be_empty_and_may_be_as_long_as_its_limit)
{
    static char text[REPLICA_COMMAND_MAX];
    struct log_envelope given = {.version = 1, .level = 1}, got;
    struct buf bytes;

    memset(text, 'x', sizeof text);
    buf_init(&bytes, 8 << 20);
    CHECK_OK("nothing in it", envelope_append(&given, &bytes));
    CHECK_SIZE("only a head", bytes.len, ENVELOPE_HEAD);
    CHECK_OK("is read", envelope_parse(buf_peek(&bytes), &got, NULL));
    CHECK_SIZE("empty", got.actor.len + got.request_id.len + got.command.len, 0);
    buf_clear(&bytes);
    given.actor = str_of(text, REPLICA_ACTOR_MAX);
    given.request_id = str_of(text, REPLICA_REQUEST_ID_MAX);
    given.command = str_of(text, REPLICA_COMMAND_MAX);
    CHECK_OK("as long as may be", envelope_append(&given, &bytes));
    CHECK_OK("is read", envelope_parse(buf_peek(&bytes), &got, NULL));
    CHECK_SIZE("actor", got.actor.len, REPLICA_ACTOR_MAX);
    CHECK_SIZE("request id", got.request_id.len, REPLICA_REQUEST_ID_MAX);
    CHECK_SIZE("command", got.command.len, REPLICA_COMMAND_MAX);
    buf_deinit(&bytes);
}

TEST(a_full_buffer_is_left_as_it_was)
{
    struct buf bytes;

    buf_init(&bytes, sizeof sample_bytes - 2);
    CHECK_ERR("one byte short", envelope_append(&sample, &bytes), ERR_FULL);
    CHECK_SIZE("nothing of it", bytes.len, 0);
    buf_deinit(&bytes);
}

TEST(what_is_not_known_is_refused)
{
    static const struct {
        const char *why;
        size_t at;
        char byte;
        enum err want;
        const char *note;
    } cases[] = {
        {"a later format", 0, 2, ERR_VERSION, "format 2"},
        {"format zero", 0, 0, ERR_VERSION, "format 0"},
        {"longer actor than there is", 1, 4, ERR_PARSE, "make 52"},
        {"shorter actor", 1, 2, ERR_PARSE, "make 50"},
        {"request id over its limit", 2, 65, ERR_PARSE, "limit"},
        {"request id over its limit, high byte", 3, 1, ERR_PARSE, "limit"},
        {"command over its limit", 27, 1, ERR_PARSE, "limit"},
        {"longer command than there is", 24, 6, ERR_PARSE, "make 52"},
        {"first byte that must be zero", 28, 1, ERR_VERSION, "byte 28"},
        {"last byte that must be zero", 39, 1, ERR_VERSION, "byte 39"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char bytes[sizeof sample_bytes];
        struct log_envelope got = {.machine = 77};
        struct note note = {""};

        memcpy(bytes, sample_bytes, sizeof bytes);
        bytes[cases[i].at] = cases[i].byte;
        CHECK_ERR(cases[i].why, envelope_parse(str_of(bytes, sizeof bytes - 1), &got, &note),
                  cases[i].want);
        CHECK_HAS(cases[i].why, note.text, cases[i].note);
        CHECK_U64("the output is untouched", got.machine, 77);
    }
}

TEST(version_and_level_begin_at_one)
{
    for (size_t at = 8; at <= 12; at += 4) {
        char bytes[sizeof sample_bytes];
        struct log_envelope got;

        memcpy(bytes, sample_bytes, sizeof bytes);
        memset(bytes + at, 0, 4);
        CHECK_ERR("zero", envelope_parse(str_of(bytes, sizeof bytes - 1), &got, NULL), ERR_PARSE);
    }
}

TEST(every_cut_is_refused)
{
    for (size_t len = 0; len < sizeof sample_bytes - 1; len++) {
        struct log_envelope got;
        CHECK_ERR("cut", envelope_parse(str_of(sample_bytes, len), &got, NULL), ERR_PARSE);
    }
}
