/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/envelope.h"

#include "lib/test.h"

static const struct claim_envelope sample = {
    .flags = ENVELOPE_LEASED | ENVELOPE_SLOT,
    .lease_id = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
    .request_id = {{0xf0, 0xf1}},
    .revision = 0x1122334455667788,
    .token = 7,
    .ttl_ms = 5000,
    .wall_ms = 1794764400000,
    .owner = {"host-7", 6},
    .value = {"a\0b", 3},
};

static struct buf encoded(const struct claim_envelope *envelope)
{
    struct buf bytes;
    buf_init(&bytes, 1 << 20);
    CHECK_OK("encoded", envelope_encode(envelope, &bytes));
    return bytes;
}

TEST(what_is_written_is_read_back)
{
    struct buf bytes = encoded(&sample);
    struct claim_envelope got;
    CHECK_SIZE("header, owner, value", bytes.len, ENVELOPE_HEADER + 9);
    CHECK_OK("decoded", envelope_decode(buf_peek(&bytes), &got));
    CHECK_U32("flags", got.flags, sample.flags);
    CHECK("lease", memcmp(&got.lease_id, &sample.lease_id, 16) == 0);
    CHECK("request", memcmp(&got.request_id, &sample.request_id, 16) == 0);
    CHECK_U64("revision", got.revision, sample.revision);
    CHECK_U64("token", got.token, sample.token);
    CHECK_I64("ttl", got.ttl_ms, sample.ttl_ms);
    CHECK_U64("wall time", got.wall_ms, sample.wall_ms);
    CHECK_STR("owner", got.owner, sample.owner);
    CHECK_STR("value, any byte", got.value, sample.value);
    buf_deinit(&bytes);
}

TEST(it_is_appended_to_what_is_there)
{
    struct buf bytes = encoded(&sample);
    size_t one = bytes.len;
    struct claim_envelope got;
    CHECK_OK("a second one", envelope_encode(&(struct claim_envelope){0}, &bytes));
    CHECK_OK("the second reads", envelope_decode(str_tail(buf_peek(&bytes), one), &got));
    CHECK_SIZE("without owner and value", got.owner.len + got.value.len, 0);
    buf_deinit(&bytes);
}

/* The layout of docs/formats/envelope.md, byte by byte, because other programs read it. */
TEST(the_layout_is_the_documented_one)
{
    struct buf bytes = encoded(&sample);
    const char *at = bytes.data;
    CHECK_STR("magic, flags, owner length", str_of(at, 8), STR("CRD1\x05\x00\x06\x00"));
    CHECK_STR("lease id at 8", str_of(at + 8, 4), STR("\x01\x02\x03\x04"));
    CHECK_STR("request id at 24", str_of(at + 24, 3), STR("\xf0\xf1\x00"));
    CHECK_STR("revision at 40", str_of(at + 40, 8), STR("\x88\x77\x66\x55\x44\x33\x22\x11"));
    CHECK_STR("token at 48", str_of(at + 48, 8), STR("\x07\0\0\0\0\0\0\0"));
    CHECK_STR("ttl at 56", str_of(at + 56, 8), STR("\x88\x13\0\0\0\0\0\0"));
    CHECK_STR("value length at 72", str_of(at + 72, 4), STR("\x03\0\0\0"));
    CHECK_STR("checksum at 76", str_of(at + 76, 4), STR("\x7a\x9f\x91\x12"));
    CHECK_STR("owner, value", str_of(at + 80, 9), STR("host-7a\0b"));
    buf_deinit(&bytes);
}

TEST(every_changed_byte_and_every_other_length_is_refused)
{
    struct buf bytes = encoded(&sample);
    struct claim_envelope got = {.token = 99};
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] = (char)(bytes.data[i] ^ 0x10);
        CHECK_ERR("one bit", envelope_decode(buf_peek(&bytes), &got), ERR_CORRUPT);
        bytes.data[i] = (char)(bytes.data[i] ^ 0x10);
        CHECK_ERR("cut", envelope_decode(str_of(bytes.data, i), &got), ERR_CORRUPT);
    }
    CHECK_OK("a byte more", buf_append_byte(&bytes, '\0'));
    CHECK_ERR("is refused", envelope_decode(buf_peek(&bytes), &got), ERR_CORRUPT);
    CHECK_U64("and nothing was written", got.token, 99);
    buf_deinit(&bytes);
}

TEST(the_ceiling_of_the_buffer_is_kept)
{
    struct buf bytes;
    buf_init(&bytes, ENVELOPE_HEADER + 8);
    CHECK_ERR("one byte too many", envelope_encode(&sample, &bytes), ERR_FULL);
    CHECK_SIZE("nothing was written", bytes.len, 0);
    buf_deinit(&bytes);
}

/* Invalid numbers of a server would be added to clocks and multiplied. */
TEST(a_lease_of_no_time_or_of_more_than_there_is_is_refused)
{
    static const int64_t bad[] = {0, 86400001, INT64_MAX};
    struct claim_envelope strange = sample, got;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        strange.ttl_ms = bad[i];
        struct buf bytes = encoded(&strange);
        CHECK_ERR("leased for that long", envelope_decode(buf_peek(&bytes), &got), ERR_CORRUPT);
        buf_deinit(&bytes);
    }
    strange.ttl_ms = 86400000;
    struct buf bytes = encoded(&strange);
    CHECK_OK("the longest", envelope_decode(buf_peek(&bytes), &got));
    buf_deinit(&bytes);
}

static enum err read_group(uint32_t flags, struct str value, struct envelope_group *group)
{
    return envelope_group_read(&(struct claim_envelope){.flags = flags, .value = value}, group);
}

TEST(a_group_record_has_the_size_and_the_cool_down)
{
    static const char many[ENVELOPE_GROUP_VALUE] = {1, 4};
    static const char long_rest[ENVELOPE_GROUP_VALUE] = {1, 0, 0, 0, 0x61, (char)0xea};
    char bytes[ENVELOPE_GROUP_VALUE];
    struct str value = str_of(bytes, sizeof bytes);
    struct envelope_group group = {0};

    envelope_group_value(&(struct envelope_group){1024, 60000}, bytes);
    CHECK_STR("the layout is the documented one", value, STR("\0\4\0\0\x60\xea\0\0\0\0\0\0"));
    CHECK_OK("read", read_group(ENVELOPE_GROUP, value, &group));
    CHECK_U32("slots", group.slot_count, 1024);
    CHECK_I64("rest", group.cooldown_ms, 60000);
    CHECK_ERR("no record", read_group(ENVELOPE_SLOT, value, &group), ERR_CORRUPT);
    CHECK_ERR("cut short", read_group(ENVELOPE_GROUP, str_of(bytes, 11), &group), ERR_CORRUPT);
    CHECK_ERR("1,025", read_group(ENVELOPE_GROUP, str_of(many, sizeof many), &group), ERR_CORRUPT);
    CHECK_ERR("60,001 ms", read_group(ENVELOPE_GROUP, str_of(long_rest, sizeof long_rest), &group),
              ERR_CORRUPT);
    envelope_group_value(&(struct envelope_group){0, 0}, bytes);
    CHECK_ERR("none", read_group(ENVELOPE_GROUP, value, &group), ERR_CORRUPT);
    CHECK_U32("untouched", group.slot_count, 1024);
}
