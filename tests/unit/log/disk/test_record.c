/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of records and of segment heads. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "lib/test.h"
#include "log/record.h"

static const uint64_t salt = 0x0123456789abcdef;

static char *written(const struct log_record *record, uint64_t with_salt, size_t *ret_size)
{
    *ret_size = record_size(record->bytes.len);
    char *room = malloc(*ret_size);
    assert_non_null(room);
    memset(room, 0xEE, *ret_size);
    record_write(record, with_salt, room);
    return room;
}

TEST(a_record_is_read_as_it_was_written)
{
    static char bytes[ENTRY_BYTES_MAX];
    static const size_t lengths[] = {0, 1, 7, 8, 9, 100, 4096, ENTRY_BYTES_MAX};
    static const enum record_kind kinds[] = {RECORD_COMMAND, RECORD_BARRIER, RECORD_CHANGE,
                                             RECORD_RESET, RECORD_SEAL};
    memset(bytes, 0x5A, sizeof bytes);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
            struct log_record got = {0}, record = {
                                             .kind = kinds[k],
                                             .serial = 8,
                                             .synced = 7,
                                             .index = UINT64_MAX,
                                             .term = 1ull << 40,
                                             .bytes = str_of(bytes, lengths[i]),
                                         };
            size_t size, got_size = 0;
            char *room = written(&record, salt, &size);
            CHECK_SIZE("aligned", size % RECORD_ALIGN, 0);
            CHECK_OK("reads", record_read(str_of(room, size), salt, &got, &got_size));
            CHECK_SIZE("size", got_size, size);
            CHECK_U64("kind", got.kind, record.kind);
            CHECK_U64("serial", got.serial, 8);
            CHECK_U64("synced", got.synced, 7);
            CHECK_U64("index", got.index, record.index);
            CHECK_U64("term", got.term, record.term);
            CHECK_STR("bytes", got.bytes, record.bytes);
            CHECK_OK("its head alone",
                     record_read_head(str_of(room, RECORD_HEAD), salt, &got, &got_size));
            CHECK_SIZE("the head knows the size", got_size, size);
            CHECK_SIZE("and gives no bytes", got.bytes.len, 0);
            free(room);
        }
}

TEST(a_cut_record_reports_its_full_size)
{
    struct log_record got = {.serial = 99}, record = {.kind = RECORD_COMMAND,
                                                      .serial = 1,
                                                      .bytes = STR("nineteen characters")};
    size_t size, want = 0;
    char *room = written(&record, salt, &size);
    for (size_t len = 0; len < size; len++) {
        char *exact = malloc(len + 1); /* so that ASan sees a read past the end */
        assert_non_null(exact);
        memcpy(exact + 1, room, len);
        CHECK_ERR("more is needed", record_read(str_of(exact + 1, len), salt, &got, &want),
                  ERR_TOO_LARGE);
        CHECK_SIZE("how much", want, len < RECORD_HEAD ? RECORD_HEAD : size);
        free(exact);
    }
    CHECK_U64("untouched", got.serial, 99);
    free(room);
}

TEST(no_bit_of_a_record_can_change_unnoticed)
{
    struct log_record got = {.serial = 99}, record = {.kind = RECORD_COMMAND,
                                                      .serial = 5,
                                                      .synced = 2,
                                                      .index = 3,
                                                      .term = 4,
                                                      .bytes = STR("thirteen char")};
    size_t size, want;
    char *room = written(&record, salt, &size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        room[bit / 8] = (char)(room[bit / 8] ^ (1 << bit % 8));
        CHECK_ERR("found", record_read(str_of(room, size), salt, &got, &want), ERR_CORRUPT);
        bool in_head = bit / 8 >= 4 && bit / 8 < RECORD_HEAD;
        CHECK_ERR("the head answers for itself",
                  record_read_head(str_of(room, size), salt, &got, &want),
                  in_head ? ERR_CORRUPT : ERR_OK);
        room[bit / 8] = (char)(room[bit / 8] ^ (1 << bit % 8));
    }
    free(room);
}

TEST(a_record_of_another_segment_is_none)
{
    struct log_record got, record = {.kind = RECORD_COMMAND, .serial = 5, .bytes = STR("x")};
    size_t size, want;
    char *room = written(&record, salt, &size);
    for (int bit = 0; bit < 64; bit++) /* either half alone is enough */
        CHECK_ERR("refused", record_read(str_of(room, size), salt ^ 1ull << bit, &got, &want),
                  ERR_CORRUPT);
    static const char zeros[256];
    CHECK_ERR("zeros are none", record_read(str_of(zeros, sizeof zeros), 0, &got, &want),
              ERR_CORRUPT);
    free(room);
}

/* The checksums are right but the content is not, so no writer made the record: refused. */
TEST(an_impossible_record_with_a_right_checksum_is_refused)
{
    static const struct {
        const char *why;
        size_t at;
        uint64_t value;
        int bytes;
    } cases[] = {
        {"kind 0", 12, 0, 4},         {"kind 4", 12, 4, 4},
        {"kind 18", 12, 18, 4},       {"longer than any entry", 8, ENTRY_BYTES_MAX + 1, 4},
        {"length 2^32-1", 8, ~0u, 4}, {"serial 0", 16, 0, 8},
        {"covers itself", 24, 5, 8},  {"covers what comes", 24, UINT64_MAX, 8},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct log_record got, record = {.kind = RECORD_COMMAND, .serial = 5, .bytes = STR_EMPTY};
        size_t size, want;
        char *room = written(&record, 0, &size);
        if (cases[i].bytes == 4)
            store_le32(room + cases[i].at, (uint32_t)cases[i].value);
        else
            store_le64(room + cases[i].at, cases[i].value);
        const char no_salt[4] = {0};
        store_le32(room + 4, crc32c(crc32c(0, no_salt, 4), room + 8, RECORD_HEAD - 8));
        store_le32(room, crc32c(crc32c(0, no_salt, 4), room + 4, RECORD_HEAD - 4));
        CHECK_ERR(cases[i].why, record_read(str_of(room, size), 0, &got, &want), ERR_CORRUPT);
        free(room);
    }
}

TEST(the_bytes_are_those_of_the_format)
{
    struct log_record record = {.kind = RECORD_CHANGE,
                                .serial = 0x1122,
                                .synced = 0x1121,
                                .index = 0x33,
                                .term = 0x44,
                                .bytes = STR("abc")};
    static const unsigned char want[56] = {
        0, 0, 0,    0, 0, 0, 0, 0, /* checksums, below */
        3, 0, 0,    0, 3, 0, 0, 0, 0x22, 0x11, 0,    0, 0, 0, 0, 0, 0x21, 0x11, 0,   0,   0,   0,
        0, 0, 0x33, 0, 0, 0, 0, 0, 0,    0,    0x44, 0, 0, 0, 0, 0, 0,    0,    'a', 'b', 'c',
    };
    size_t size;
    char *room = written(&record, salt, &size);
    CHECK_SIZE("size", size, sizeof want);
    CHECK("bytes", memcmp(room + 8, want + 8, sizeof want - 8) == 0);
    const unsigned char low[4] = {0xef, 0xcd, 0xab, 0x89}, high[4] = {0x67, 0x45, 0x23, 0x01};
    CHECK_U32("head", load_le32(room + 4),
              crc32c_portable(crc32c_portable(0, low, 4), room + 8, 40));
    CHECK_U32("all", load_le32(room), crc32c_portable(crc32c_portable(0, high, 4), room + 4, 52));
    free(room);
}

/* -- heads of segments -- */

TEST(a_segment_head_is_read_as_it_was_written)
{
    static char room[SEGMENT_HEAD];
    struct segment_head got, head = {.sequence = 7, .salt = salt, .cluster_id = 8, .replica_id = 9};
    segment_head_write(&head, room);
    CHECK_OK("reads", segment_head_read(str_of(room, sizeof room), &got));
    CHECK("equal", memcmp(&got, &head, sizeof head) == 0);
    CHECK_ERR("cut off", segment_head_read(str_of(room, sizeof room - 1), &got), ERR_CORRUPT);
    for (size_t bit = 0; bit < sizeof room * 8; bit++) {
        room[bit / 8] = (char)(room[bit / 8] ^ (1 << bit % 8));
        CHECK_ERR("no bit may change", segment_head_read(str_of(room, sizeof room), &got),
                  ERR_CORRUPT);
        room[bit / 8] = (char)(room[bit / 8] ^ (1 << bit % 8));
    }
    store_le32(room + 8, 2);
    store_le32(room + SEGMENT_HEAD - 8, crc32c(0, room, SEGMENT_HEAD - 8));
    CHECK_ERR("another format", segment_head_read(str_of(room, sizeof room), &got), ERR_VERSION);
}
