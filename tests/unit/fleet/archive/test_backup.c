/* SPDX-License-Identifier: Apache-2.0 */
/* The backup's bytes. */
#include <string.h>

#include "archive_rig.h"
#include "base/bytes.h"

struct seen {
    struct backup_head head;
    struct buf sections[2];
    unsigned heads;
};

static enum err on_head(void *owner, const struct backup_head *head, struct note *note)
{
    struct seen *seen = owner;
    (void)note;
    seen->head = *head;
    seen->heads++;
    return ERR_OK;
}

static enum err on_piece(void *owner, const struct backup_section *section, struct str bytes,
                         struct note *note)
{
    struct seen *seen = owner;
    (void)note;
    return buf_append(&seen->sections[section->id == 2 ? 0 : 1], bytes);
}

/* All of `bytes`, `step` at a time. */
static enum err read_all(struct str bytes, size_t step, struct seen *seen, struct backup_head *head,
                         struct note *note)
{
    struct backup_events events = {.on_head = on_head, .on_piece = on_piece, .owner = seen};
    struct backup_reader *reader;
    enum err err;

    memset(seen, 0, sizeof *seen);
    for (size_t i = 0; i < 2; i++) buf_init(&seen->sections[i], 1 << 20);
    CHECK_OK("reader", backup_read_open(&events, &reader));
    for (err = ERR_OK; !err && bytes.len > 0;) {
        struct str piece = str_of(bytes.at, min_size(bytes.len, step));
        err = backup_read(reader, piece, note);
        bytes = str_tail(bytes, piece.len);
    }
    if (!err) err = backup_read_end(reader, head, note);
    backup_read_close(reader);
    for (size_t i = 0; i < 2; i++) buf_deinit(&seen->sections[i]);
    return err;
}

static void make(struct buf *bytes)
{
    struct backup_head head = {
        .index = 12,
        .term = 2,
        .cluster_id = 0x19d2c07be4aa6f31,
        .replica_id = 7,
        .clock_ns = UINT64_MAX,
        .level = 1,
        .created_ms = 1794764400000,
        .section_count = 2,
        .sections = {{.id = 2, .version = 1, .name = "fleet", .hash = UINT64_MAX},
                     {.id = 3, .version = 4, .name = "roster", .hash = 1}}};
    struct backup_writer writer;

    buf_init(bytes, 1 << 20);
    CHECK_OK("head", backup_write_head(&writer, &head, bytes));
    CHECK_OK("piece", backup_write_piece(&writer, 0, STR("one "), bytes));
    CHECK_OK("piece", backup_write_piece(&writer, 0, STR("two"), bytes));
    CHECK_OK("piece", backup_write_piece(&writer, 1, STR("three"), bytes));
    CHECK_OK("end", backup_write_end(&writer, bytes));
}

TEST(a_backup_is_read_as_it_was_written_however_it_is_cut)
{
    struct buf bytes;
    struct seen seen;
    struct backup_head head;
    struct note note = {""};

    make(&bytes);
    CHECK("by its first bytes", backup_is(buf_peek(&bytes)));
    for (size_t step = 1; step < bytes.len + 7; step += step < 20 ? 1 : 41) {
        enum err err = read_all(buf_peek(&bytes), step, &seen, &head, &note);
        if (err) print_message("%s\n", note.text);
        CHECK_OK("read", err);
        CHECK_U64("one head", seen.heads, 1);
        CHECK_U64("index", head.index, 12);
        CHECK_U64("cluster", head.cluster_id, 0x19d2c07be4aa6f31);
        CHECK_U64("a clock past 63 bits", head.clock_ns, UINT64_MAX);
        CHECK_U64("hash", head.sections[0].hash, UINT64_MAX);
        CHECK_U64("bytes", head.sections[0].bytes, 7);
        CHECK_U64("bytes", head.sections[1].bytes, 5);
        CHECK_U64("version", head.sections[1].version, 4);
        CHECK_TEXT("name", head.sections[1].name, "roster");
    }
    buf_deinit(&bytes);
}

TEST(no_bit_of_a_backup_may_change_and_no_byte_be_missing)
{
    struct buf bytes;
    struct seen seen;
    struct backup_head head;

    make(&bytes);
    for (size_t i = 0; i < bytes.len; i++) {
        struct note note = {""};
        enum err err = read_all(str_of(bytes.data, i), 4096, &seen, &head, &note);
        CHECK_ERR("cut short", err, ERR_CORRUPT);
        CHECK_HAS("says where", note.text, "offset ");
        for (int bit = 0; bit < 8; bit++) {
            note.text[0] = '\0';
            bytes.data[i] = (char)(bytes.data[i] ^ 1 << bit);
            err = read_all(buf_peek(&bytes), 4096, &seen, &head, &note);
            CHECK("is found", err == ERR_CORRUPT);
            CHECK_HAS("says where", note.text, "offset ");
            bytes.data[i] = (char)(bytes.data[i] ^ 1 << bit);
        }
    }
    CHECK_OK("one byte more", buf_append_byte(&bytes, 'x'));
    CHECK_ERR("is found", read_all(buf_peek(&bytes), 4096, &seen, &head, &(struct note){""}),
              ERR_CORRUPT);
    buf_deinit(&bytes);
}

TEST(pieces_cannot_change_places)
{
    struct buf bytes;
    struct seen seen;
    struct backup_head head;
    struct note note = {""};
    char first[16], second[15];
    char *at;

    make(&bytes);
    /* behind the head: pieces of 4, 3 and 5 bytes */
    at = bytes.data + 16 + load_le32(bytes.data + 12) + 4;
    memcpy(first, at, 16);
    memcpy(second, at + 16, 15);
    memcpy(at, second, 15);
    memcpy(at + 15, first, 16);
    CHECK_ERR("swapped", read_all(buf_peek(&bytes), 4096, &seen, &head, &note), ERR_CORRUPT);
    CHECK_HAS("says so", note.text, "checksum of a piece does not match");
    buf_deinit(&bytes);
}
