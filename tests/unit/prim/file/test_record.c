/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file store, and the names of its files. */
#include "prim/answer.h"
#include "prim/file/record.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "hooks.h"
#include "lib/test.h"

static const struct head sample = {.flags = HEAD_LIVE | HEAD_LEASED | HEAD_SLOT,
                                   .revision = (UINT64_C(3) << 40) + 9,
                                   .token = (UINT64_C(3) << 40) + 7,
                                   .create_revision = (UINT64_C(3) << 40) + 7,
                                   .changes = 2,
                                   .ttl_ms = 30000,
                                   .deadline_ns = 123456789012,
                                   .boot_id = {{1, 2, 3}},
                                   .lease_id = {{4, 5, 6}},
                                   .wall_ms = 1767225600000,
                                   .who = {77, 88, 99},
                                   .request_id = {{7, 8, 9}},
                                   .reason = COORD_R_UPDATED,
                                   .key = {"g/slot-0001", 11},
                                   .owner = {"me", 2},
                                   .value = {"hello", 5}};

/* Offsets as docs/formats/filestore.md has them. */
TEST(a_head_is_written_byte_by_byte_as_documented)
{
    char bytes[512];
    size_t size = head_size(&sample);
    head_encode(&sample, bytes);
    CHECK_SIZE("header and strings", size, 160 + 11 + 2 + 5);
    CHECK_STR("magic", str_of(bytes, 8), STR("CRDHEAD1"));
    CHECK_U32("header length", load_le32(bytes + 8), 160);
    CHECK_U32("flags", load_le32(bytes + 12), 1 | 4 | 8);
    CHECK_U64("revision", load_le64(bytes + 16), sample.revision);
    CHECK_U64("token", load_le64(bytes + 24), sample.token);
    CHECK_U64("create revision", load_le64(bytes + 32), sample.create_revision);
    CHECK_U64("changes", load_le64(bytes + 40), 2);
    CHECK_U64("ttl", load_le64(bytes + 48), 30000);
    CHECK_U64("deadline", load_le64(bytes + 56), 123456789012);
    CHECK_U32("boot id", (unsigned char)bytes[66], 3);
    CHECK_U32("lease id", (unsigned char)bytes[82], 6);
    CHECK_U64("wall time", load_le64(bytes + 96), 1767225600000);
    CHECK_U32("pid", load_le32(bytes + 104), 77);
    CHECK_U32("reserved", load_le32(bytes + 108), 0);
    CHECK_U64("start ticks", load_le64(bytes + 112), 88);
    CHECK_U64("namespace", load_le64(bytes + 120), 99);
    CHECK_U32("request id", (unsigned char)bytes[130], 9);
    CHECK_U32("reason", load_le32(bytes + 144), COORD_R_UPDATED);
    CHECK_U32("key length", load_le16(bytes + 148), 11);
    CHECK_U32("owner length", load_le16(bytes + 150), 2);
    CHECK_U32("value length", load_le32(bytes + 152), 5);
    uint32_t crc = load_le32(bytes + 156);
    store_le32(bytes + 156, 0);
    CHECK_U32("checksum", crc, crc32c(0, bytes, size));
    CHECK_STR("strings", str_of(bytes + 160, 18), STR("g/slot-0001mehello"));
}

TEST(a_decoded_record_encodes_to_the_same_bytes_and_any_flipped_bit_is_noticed)
{
    char bytes[512], again[512];
    struct head head;
    size_t size = head_size(&sample);
    head_encode(&sample, bytes);
    CHECK_OK("decodes", head_decode(str_of(bytes, size), &head));
    head_encode(&head, again);
    CHECK("the same", memcmp(bytes, again, size) == 0);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << (bit % 8)));
        CHECK_ERR("flipped", head_decode(str_of(bytes, size), &head), ERR_CORRUPT);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
    for (size_t cut = 0; cut < size; cut++) {
        CHECK_ERR("cut", head_decode(str_of(bytes, cut), &head), ERR_CORRUPT);
    }
    CHECK_ERR("longer", head_decode(str_of(bytes, size + 1), &head), ERR_CORRUPT);
}

TEST(a_head_that_makes_no_sense_is_damaged_though_its_checksum_is_right)
{
    struct head bad[8];
    char bytes[512];
    struct head head;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) { bad[i] = sample; }
    bad[0].flags = HEAD_LIVE | HEAD_TOMBSTONE;
    bad[1].flags = 0;
    bad[2].flags = HEAD_LIVE | 64;
    bad[3].token = sample.revision + 1;
    bad[4].create_revision = sample.revision + 1;
    bad[5].ttl_ms = 0;
    bad[6].ttl_ms = PRIM_TTL_MAX_MS + 1;
    bad[7].deadline_ns = -1;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        head_encode(&bad[i], bytes);
        CHECK_ERR("no sense", head_decode(str_of(bytes, head_size(&bad[i])), &head), ERR_CORRUPT);
    }
}

TEST(the_small_records_come_back_as_they_were_and_are_sealed)
{
    const struct lease_record lease = {.lease_id = {{1}},
                                       .boot_id = {{2}},
                                       .ttl_ms = 1000,
                                       .deadline_ns = 5,
                                       .granted_ns = 4,
                                       .state = LEASE_RELEASED,
                                       .who = {7, 8, 9},
                                       .renew_count = 10,
                                       .lost_count = 11};
    const struct lock_record lock = {.who = {7, 8, 9}, .boot_id = {{2}}, .locked_ns = 3, .op = 4};
    const struct epoch_record epoch = {
        .epoch = 5, .boot_id = {{1}}, .store_id = {{2}}, .format_inode = 3, .format_change = 4};
    const struct floor_record floor = {.floor = 77, .store_id = {{9}}};
    char bytes[128], again[128];
    struct lease_record lease_back;
    struct lock_record lock_back;
    struct epoch_record epoch_back;
    struct floor_record floor_back;
    record_encode(&lease_shape, &lease, bytes);
    CHECK_STR("magic", str_of(bytes, 8), STR("CRDLEAS1"));
    CHECK_U64("deadline at 48", load_le64(bytes + 48), 5);
    CHECK_U32("state at 64", load_le32(bytes + 64), 2);
    CHECK_U64("lost count at 96", load_le64(bytes + 96), 11);
    CHECK_OK("a lease", record_decode(&lease_shape, str_of(bytes, 128), &lease_back));
    record_encode(&lease_shape, &lease_back, again);
    CHECK("the same", memcmp(bytes, again, sizeof bytes) == 0);
    for (size_t bit = 0; bit < 128 * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << (bit % 8)));
        CHECK_ERR("flipped", record_decode(&lease_shape, str_of(bytes, 128), &lease_back),
                  ERR_CORRUPT);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
    record_encode(&lock_shape, &lock, bytes);
    CHECK_OK("a lock", record_decode(&lock_shape, str_of(bytes, 64), &lock_back));
    CHECK_U32("its pid", lock_back.who.pid, 7);
    bytes[9] = 1;
    CHECK_ERR("sealed", record_decode(&lock_shape, str_of(bytes, 64), &lock_back), ERR_CORRUPT);
    record_encode(&epoch_shape, &epoch, bytes);
    CHECK_OK("an epoch", record_decode(&epoch_shape, str_of(bytes, 64), &epoch_back));
    CHECK_U64("its number", epoch_back.epoch, 5);
    CHECK_U64("its inode", epoch_back.format_inode, 3);
    bytes[50] = 1;
    CHECK_ERR("sealed", record_decode(&epoch_shape, str_of(bytes, 64), &epoch_back), ERR_CORRUPT);
    record_encode(&floor_shape, &floor, bytes);
    CHECK_OK("a floor", record_decode(&floor_shape, str_of(bytes, 64), &floor_back));
    CHECK_U64("its number", floor_back.floor, 77);
    bytes[8] = 1;
    CHECK_ERR("sealed", record_decode(&floor_shape, str_of(bytes, 64), &floor_back), ERR_CORRUPT);
}

TEST(FORMAT_is_text_with_a_checksum)
{
    coord_id id = {{0x12, 0x34}}, back;
    char text[FORMAT_CAP];
    size_t len = format_encode(&id, text);
    CHECK_STR("its first lines", str_of(text, 67),
              STR("musterfs 1\nstore 12340000-0000-0000-0000-000000000000\nencoding pct1"));
    CHECK_OK("read", format_decode(str_of(text, len), &back));
    CHECK("the same", memcmp(&id, &back, sizeof id) == 0);
    for (size_t i = 0; i < len; i++) {
        text[i] ^= 1;
        CHECK("changed", format_decode(str_of(text, len), &back) != ERR_OK);
        text[i] ^= 1;
    }
    CHECK_ERR("a later version", format_decode(STR("musterfs 2\n"), &back), ERR_VERSION);
    CHECK_ERR("something else", format_decode(STR("hello"), &back), ERR_CORRUPT);
    CHECK_ERR("nothing", format_decode(STR_EMPTY, &back), ERR_CORRUPT);
}

TEST(names_are_encoded_and_long_ones_hashed)
{
    static const struct {
        const char *raw, *name;
    } cases[] = {{"plain_Name-9", "plain_Name-9"}, {"a/b", "a%2Fb"}, {"a%2Fb", "a%252Fb"},
                 {".group", "%2Egroup"},           {"~", "%7E"},     {"", "~"},
                 {"slot-0001", "slot-0001"},       {"x.y", "x%2Ey"}};
    char name[LAYOUT_NAME_CAP], raw[600];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        layout_name(str_from(cases[i].raw), name);
        CHECK_TEXT(cases[i].raw, name, cases[i].name);
    }
    memset(raw, 'a', sizeof raw);
    layout_name(str_of(raw, 180), name);
    CHECK_SIZE("180 bytes fit", strlen(name), 180);
    layout_name(str_of(raw, 181), name);
    CHECK_SIZE("181 do not", strlen(name), 41);
    CHECK("a hash", name[0] == '~');
    raw[0] = '/';
    layout_name(str_of(raw, 178), name);
    CHECK_SIZE("the encoded length counts", strlen(name), 180);
    layout_name(str_of(raw, 179), name);
    CHECK("a hash", name[0] == '~' && strlen(name) == 41);
    /* SHA-256 of the raw bytes, its first 40 digits. */
    memset(raw, 'a', 200);
    layout_name(str_of(raw, 200), name);
    CHECK_TEXT("of the raw bytes", name, "~c2a908d98f5df987ade41b5fce213067efbcc21e");
}

TEST(temporary_files_say_whose_they_are)
{
    const struct layout_temp temp = {
        .boot = {0xde, 0xad, 0xbe, 0xef}, .pid = 12, .start_ticks = 345, .number = 6789};
    struct layout_temp back;
    char name[LAYOUT_TEMP_CAP];
    coord_id id = {{0xab, 0xcd}}, id_back;
    static const char *const bad[] = {"",
                                      "deadbeef",
                                      "deadbeef.1.2",
                                      "deadbee.1.2.3",
                                      "deadbeef.1.2.3.4",
                                      "deadbeeg.1.2.3",
                                      "deadbeef.x.2.3",
                                      "deadbeef.4294967296.2.3"};
    layout_temp(&temp, name);
    CHECK_TEXT("its name", name, "deadbeef.12.345.6789");
    CHECK("read back", layout_temp_parse(name, &back) && back.number == 6789 && back.pid == 12);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(bad[i], !layout_temp_parse(bad[i], &back));
    }
    prim_id_text(&id, name);
    CHECK_TEXT("a lease", name, "abcd0000000000000000000000000000");
    CHECK("read back", layout_lease_id(name, &id_back) && memcmp(&id, &id_back, 16) == 0);
    CHECK("not one", !layout_lease_id("abcd", &id_back));
    name[5] = 'G';
    CHECK("not one", !layout_lease_id(name, &id_back));
}

TEST(steps_have_names)
{
    CHECK_TEXT("the first", file_step_name(STEP_S1), "S1");
    CHECK_TEXT("the last", file_step_name(STEP_WATCH_WAIT), "WATCH_WAIT");
    CHECK_TEXT("none", file_step_name(STEP_COUNT), "?");
}
