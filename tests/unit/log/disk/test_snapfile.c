/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshot files: written, read, damaged, received, cleaned up. Power cuts are in tests/fault/log.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "disk_rig.h"
#include "lib/fault_fs.h"
#include "lib/sim_fs_dump.h"
#include "log/snapfile_internal.h"
#include "snap_rig.h"

static const struct sim_fs_options perfect = {0};

static const char *path_of(uint64_t index)
{
    static char path[128];
    char name[SNAP_NAME_CAP];
    struct snap_head head = snap_rig_head(index);
    snap_name(&head.mark, name);
    snprintf(path, sizeof path, RIG_DIR "/snap/%s", name);
    return path;
}

static bool exists(struct rig *rig, const char *path)
{
    struct fs_info info;
    return fs_stat(rig->fs, path, &info) == ERR_OK;
}

TEST(a_snapshot_is_read_as_it_was_written)
{
    struct rig rig;
    struct note note = {""};
    struct snap_head head, want;
    uint64_t bytes = 0;
    rig_open(&rig, &perfect, 1);
    for (uint64_t index = 1; index < 7; index++) {
        CHECK_OK("write", snap_rig_write(rig.fs, RIG_DIR, index, index, &note));
        CHECK_OK("all of it", snap_rig_compare(rig.fs, path_of(index), index, &note));
        CHECK_OK("verifies", snap_verify(rig.fs, path_of(index), &head, &bytes, &note));
        want = snap_rig_head(index);
        CHECK("head", snap_rig_heads_equal(&head, &want));
        struct fs_info info;
        CHECK_OK("stat", fs_stat(rig.fs, path_of(index), &info));
        CHECK_U64("size", bytes, info.size);
    }
    CHECK_TEXT("its name", path_of(5), RIG_DIR "/snap/0000000000000005-0000000000000001.snap");
    rig_close(&rig);
}

TEST(the_largest_head_and_chunk_fit)
{
    static char big[SNAP_CHUNK_MAX];
    struct rig rig;
    struct note note = {""};
    struct snap_head got, head = snap_rig_head(7);
    struct snap_writer *writer;
    uint64_t bytes, verified;
    rig_open(&rig, &perfect, 2);
    head.mark.members.count = REPLICA_MEMBERS_MAX;
    for (size_t i = 0; i < REPLICA_MEMBERS_MAX; i++)
        memset(head.mark.members.at[i].address, 'x', REPLICA_ADDRESS_MAX);
    CHECK_OK("create", snap_create(rig.fs, RIG_DIR, &head, 1, &writer, &note));
    CHECK_OK("chunk", snap_write(writer, 0, str_of(big, sizeof big), &note));
    CHECK_OK("finish", snap_finish(writer, &bytes, &note));
    CHECK_OK("verifies", snap_verify(rig.fs, path_of(7), &got, &verified, &note));
    CHECK("head", snap_rig_heads_equal(&got, &head));
    CHECK_U64("size", verified, bytes);
    rig_close(&rig);
}

TEST(no_bit_of_a_snapshot_can_change_unnoticed)
{
    struct rig rig;
    struct note note = {""};
    struct snap_head head;
    struct buf whole;
    uint64_t bytes;
    struct fs_file *file;
    rig_open(&rig, &perfect, 3);
    CHECK_OK("write", snap_rig_write(rig.fs, RIG_DIR, 3, 1, &note));
    buf_init(&whole, 1 << 20);
    CHECK_OK("read", fs_read_whole(rig.fs, path_of(3), 1 << 20, &whole));
    CHECK_OK("open", fs_open(rig.fs, path_of(3), FS_READ | FS_WRITE, 0, &file));
    for (size_t at = 0; at < whole.len; at++) {
        char byte = (char)(whole.data[at] ^ 1 << at % 8);
        CHECK_OK("flip", fs_write_at(rig.fs, file, at, str_of(&byte, 1)));
        CHECK_ERR("found", snap_verify(rig.fs, path_of(3), &head, &bytes, &note), ERR_CORRUPT);
        CHECK_HAS("which", note.text, path_of(3));
        CHECK_HAS("where", note.text, ": offset ");
        CHECK_OK("back", fs_write_at(rig.fs, file, at, str_of(whole.data + at, 1)));
    }
    for (size_t len = 0; len < whole.len; len++) {
        CHECK_OK("cut", fs_truncate(rig.fs, file, len));
        CHECK_ERR("found", snap_verify(rig.fs, path_of(3), &head, &bytes, &note), ERR_CORRUPT);
        CHECK_OK("back", fs_write_at(rig.fs, file, 0, buf_peek(&whole)));
    }
    CHECK_OK("longer", fs_write_at(rig.fs, file, whole.len, STR("12345678")));
    CHECK_ERR("found", snap_verify(rig.fs, path_of(3), &head, &bytes, &note), ERR_CORRUPT);
    CHECK_HAS("why", note.text, "behind the end");
    fs_close(rig.fs, file);
    buf_deinit(&whole);
    rig_close(&rig);
}

TEST(a_chunk_of_another_snapshot_is_none)
{
    char room[64], other[64];
    struct snap_chunk got, chunk = {.section = 1, .number = 2, .bytes = STR("hello")};
    size_t size = snap_chunk_size(5), want;
    CHECK_SIZE("size", size, 32);
    snap_chunk_write(&chunk, 1, room);
    CHECK_OK("its own", snap_chunk_read(str_of(room, size), 1, &got, &want));
    CHECK_STR("bytes", got.bytes, chunk.bytes);
    CHECK_ERR("another's", snap_chunk_read(str_of(room, size), 2, &got, &want), ERR_CORRUPT);
    for (size_t len = 0; len < size; len++) {
        memcpy(other, room, len);
        CHECK_ERR("cut", snap_chunk_read(str_of(other, len), 1, &got, &want), ERR_TOO_LARGE);
        CHECK_SIZE("how much", want, len < SNAP_CHUNK_HEAD ? SNAP_CHUNK_HEAD : size);
    }
}

/* The checksums are right, but the content is not consistent. */
TEST(a_snapshot_must_add_up)
{
    static const struct {
        const char *why;
        uint32_t sections[2];
        uint64_t numbers[2], chunks, bytes, end_len;
        enum err err;
    } cases[] = {
        {"as it should be", {1, 2}, {0, 1}, 2, 8, 16, ERR_OK},
        {"one chunk too many", {1, 2}, {0, 1}, 3, 8, 16, ERR_CORRUPT},
        {"one byte too few", {1, 2}, {0, 1}, 2, 7, 16, ERR_CORRUPT},
        {"an end without numbers", {1, 2}, {0, 1}, 2, 8, 8, ERR_CORRUPT},
        {"sections out of order", {2, 1}, {0, 1}, 2, 8, 16, ERR_CORRUPT},
        {"a chunk left out", {1, 2}, {0, 2}, 2, 8, 16, ERR_CORRUPT},
        {"a chunk twice", {1, 2}, {0, 0}, 2, 8, 16, ERR_CORRUPT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        static char file[SNAP_HEAD_MAX + 256];
        struct snap_head got, head = snap_rig_head(3);
        struct rig rig;
        struct note note = {""};
        struct fs_file *handle;
        uint32_t crc;
        uint64_t bytes;
        char end[16];
        size_t len = snap_head_write(&head, file, &crc);
        rig_open(&rig, &perfect, 8);
        for (size_t c = 0; c < 2; c++) {
            struct snap_chunk chunk = {.section = cases[i].sections[c],
                                       .number = cases[i].numbers[c],
                                       .bytes = STR("four")};
            snap_chunk_write(&chunk, crc, file + len);
            len += snap_chunk_size(4);
        }
        store_le64(end, cases[i].chunks);
        store_le64(end + 8, cases[i].bytes);
        struct snap_chunk last = {
            .section = SNAP_SECTION_END, .number = 2, .bytes = str_of(end, cases[i].end_len)};
        snap_chunk_write(&last, crc, file + len);
        len += snap_chunk_size(last.bytes.len);
        CHECK_OK("open", fs_open(rig.fs, "/file", FS_WRITE | FS_CREATE, 0600, &handle));
        CHECK_OK("write", fs_write_at(rig.fs, handle, 0, str_of(file, len)));
        fs_close(rig.fs, handle);
        CHECK_ERR(cases[i].why, snap_verify(rig.fs, "/file", &got, &bytes, &note), cases[i].err);
        rig_close(&rig);
    }
}

/* -- the directory -- */

TEST(the_newest_is_found_and_never_passed_over)
{
    struct rig rig;
    struct note note = {""};
    struct snap_head head;
    char name[SNAP_NAME_CAP];
    struct fs_file *file;
    rig_open(&rig, &perfect, 4);
    CHECK_ERR("none", snap_newest(rig.fs, RIG_DIR, name, &head, &note), ERR_NOT_FOUND);
    for (uint64_t index = 9; index < 12; index++)
        CHECK_OK("write", snap_rig_write(rig.fs, RIG_DIR, index, index, &note));
    CHECK_OK("newest", snap_newest(rig.fs, RIG_DIR, name, &head, &note));
    CHECK_U64("by number, not by text", head.mark.index, 11);
    CHECK_OK("open", fs_open(rig.fs, path_of(11), FS_WRITE, 0, &file));
    CHECK_OK("damage", fs_write_at(rig.fs, file, 20, STR("x")));
    CHECK_ERR("damaged", snap_newest(rig.fs, RIG_DIR, name, &head, &note), ERR_CORRUPT);
    CHECK_HAS("which", note.text, path_of(11));
    CHECK_OK("empty", fs_truncate(rig.fs, file, 0));
    CHECK_ERR("empty", snap_newest(rig.fs, RIG_DIR, name, &head, &note), ERR_CORRUPT);
    fs_close(rig.fs, file);
    CHECK_OK("gone", fs_remove(rig.fs, path_of(11)));
    char other[128];
    snprintf(other, sizeof other, "%s", path_of(12));
    CHECK_OK("misnamed", fs_rename(rig.fs, path_of(10), other));
    CHECK_ERR("misnamed", snap_newest(rig.fs, RIG_DIR, name, &head, &note), ERR_CORRUPT);
    CHECK_HAS("names its real index", note.text, "is of index 10");
    rig_close(&rig);
}

TEST(sweeping_leaves_the_newest_alone)
{
    struct rig rig;
    struct note note = {""};
    struct fs_file *file;
    rig_open(&rig, &perfect, 5);
    for (uint64_t index = 1; index < 5; index++)
        CHECK_OK("write", snap_rig_write(rig.fs, RIG_DIR, index, index, &note));
    const char *temp = RIG_DIR "/snap/.incoming.00000001.tmp";
    CHECK_OK("temp", fs_open(rig.fs, temp, FS_WRITE | FS_CREATE, 0600, &file));
    fs_close(rig.fs, file);
    struct snap_head two = snap_rig_head(2);
    CHECK_OK("older", snap_remove_older(rig.fs, RIG_DIR, &two.mark, &note));
    CHECK("older is gone", !exists(&rig, path_of(1)));
    CHECK("itself and newer stay", exists(&rig, path_of(2)) && exists(&rig, path_of(3)));
    CHECK("the incoming file stays", exists(&rig, temp));
    CHECK_OK("sweep", snap_sweep(rig.fs, RIG_DIR, &note));
    CHECK("gone", !exists(&rig, path_of(2)) && !exists(&rig, path_of(3)) && !exists(&rig, temp));
    CHECK_OK("the newest is whole", snap_rig_compare(rig.fs, path_of(4), 4, &note));
    rig_close(&rig);
}

TEST(an_abandoned_snapshot_leaves_nothing)
{
    struct rig rig;
    struct note note = {""};
    struct snap_head head = snap_rig_head(1);
    struct snap_writer *writer;
    struct buf before, after;
    uint64_t bytes = 77;
    rig_open(&rig, &perfect, 6);
    buf_init(&before, 1 << 16);
    buf_init(&after, 1 << 16);
    CHECK_OK("dump", sim_fs_dump(rig.disk, &before));
    CHECK_OK("create", snap_create(rig.fs, RIG_DIR, &head, 1, &writer, &note));
    CHECK_OK("chunk", snap_write(writer, 0, STR("abc"), &note));
    snap_abandon(writer);
    CHECK_OK("create", snap_create(rig.fs, RIG_DIR, &head, 2, &writer, &note));
    sim_fs_fail_once(rig.disk, SIM_FS_WRITE, 1, ERR_NO_SPACE);
    CHECK_ERR("fails", snap_write(writer, 0, STR("abc"), &note), ERR_NO_SPACE);
    CHECK_ERR("stays failed", snap_write(writer, 0, STR("abc"), &note), ERR_NO_SPACE);
    CHECK_ERR("cannot be finished", snap_finish(writer, &bytes, &note), ERR_NO_SPACE);
    CHECK_U64("untouched", bytes, 77);
    CHECK("no snapshot", !exists(&rig, path_of(1)));
    CHECK_OK("names", fs_sync_dir(rig.fs, RIG_DIR "/snap"));
    CHECK_OK("dump", sim_fs_dump(rig.disk, &after));
    CHECK_STR("as before", buf_peek(&after), buf_peek(&before));
    buf_deinit(&before);
    buf_deinit(&after);
    rig_close(&rig);
}

/* -- from a peer -- */

TEST(a_snapshot_arrives_in_pieces)
{
    struct rig rig;
    struct note note = {""};
    struct snap_head head, want = snap_rig_head(8);
    struct snap_inbox *inbox;
    struct buf whole;
    rig_open(&rig, &perfect, 7);
    CHECK_OK("write", snap_rig_write(rig.fs, RIG_DIR, 8, 1, &note));
    buf_init(&whole, 1 << 20);
    CHECK_OK("read", fs_read_whole(rig.fs, path_of(8), 1 << 20, &whole));
    CHECK_OK("remove", fs_remove(rig.fs, path_of(8)));
    for (int round = 0; round < 3; round++) { /* damaged, cut off, whole */
        CHECK_OK("open", snap_inbox_open(rig.fs, RIG_DIR, (uint64_t)round, &inbox, &note));
        size_t end = round == 1 ? whole.len - 8 : whole.len;
        for (size_t at = 0; at < end; at += 100) {
            char piece[100];
            size_t len = min_size(100, end - at);
            memcpy(piece, whole.data + at, len);
            if (round == 0 && at == 500) piece[3] ^= 1;
            CHECK_OK("piece", snap_inbox_write(inbox, at, str_of(piece, len), &note));
        }
        CHECK_ERR("a gap", snap_inbox_write(inbox, end + 1, STR("x"), &note), ERR_INVALID);
        CHECK_ERR("again", snap_inbox_write(inbox, 0, STR("x"), &note), ERR_INVALID);
        if (round < 2) {
            CHECK_ERR("refused", snap_inbox_check(inbox, &head, &note), ERR_CORRUPT);
            snap_inbox_drop(inbox);
            CHECK("not kept", !exists(&rig, path_of(8)));
            continue;
        }
        CHECK_OK("whole", snap_inbox_check(inbox, &head, &note));
        CHECK("its head", snap_rig_heads_equal(&head, &want));
        CHECK("not kept yet", !exists(&rig, path_of(8)));
        CHECK_OK("keep", snap_inbox_keep(inbox, &note));
    }
    CHECK_OK("it is ours", snap_rig_compare(rig.fs, path_of(8), 8, &note));
    size_t before = whole.len;
    buf_clear(&whole);
    CHECK_OK("read", fs_read_whole(rig.fs, path_of(8), 1 << 20, &whole));
    CHECK_SIZE("the same bytes", whole.len, before);
    buf_deinit(&whole);
    rig_close(&rig);
}

/* A sync of the log must not wait behind a whole snapshot. */
TEST(a_large_one_is_synced_in_pieces)
{
    enum { CHUNKS = 40 }; /* of a quarter of a MiB: 10 MiB */
    static char bytes[256 << 10];
    struct rig rig;
    struct fault_fs fault;
    struct note note = {""};
    struct snap_head head = snap_rig_head(7);
    struct snap_writer *writer = NULL;
    struct snap_inbox *inbox = NULL;

    rig_open(&rig, &perfect, 5);
    fault_fs_init(&fault, rig.fs);
    fault.plan = (struct fault_fs_plan){.calls = FAULT_FS_SYNC, .nth = UINT64_MAX};
    CHECK_OK("create", snap_create(fault_fs_fs(&fault), RIG_DIR, &head, 1, &writer, &note));
    for (int i = 0; i < CHUNKS; i++) {
        CHECK_OK("write", snap_write(writer, 1, str_of(bytes, sizeof bytes), &note));
        CHECK_U64("every 4 MiB", fault.seen, ((uint64_t)i + 1) / 16);
    }
    snap_abandon(writer);

    fault.seen = 0;
    CHECK_OK("open", snap_inbox_open(fault_fs_fs(&fault), RIG_DIR, 2, &inbox, &note));
    for (uint64_t i = 0; i < CHUNKS; i++) {
        CHECK_OK("write",
                 snap_inbox_write(inbox, i * sizeof bytes, str_of(bytes, sizeof bytes), &note));
        CHECK_U64("every 4 MiB", fault.seen, (i + 1) / 16);
    }
    snap_inbox_drop(inbox);
    rig_close(&rig);
}
