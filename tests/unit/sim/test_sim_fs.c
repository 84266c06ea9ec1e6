/* SPDX-License-Identifier: Apache-2.0 */
/* Effects of a power cut, a full, a slow and a failing disk on the simulated disk's content and
 * names. Tests with a random outcome run many seeds: no seed may show a forbidden outcome, and some
 * seed must show each allowed outcome, or the disk would be kinder than a real one. */
#include "sim/sim_fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "lib/sim_fs_dump.h"
#include "lib/test.h"
#include "sim/sim_fs_int.h"

enum { SEEDS = 400, MILLION = 1000000 };

struct rig {
    struct sim_fs *disk;
    struct fs *fs;
};

static struct rig rig_open(const struct sim_fs_options *options, uint64_t seed)
{
    struct rig rig;
    struct prng prng;
    prng_seed(&prng, seed);
    CHECK_OK("a disk", sim_fs_open(options, &prng, &rig.disk));
    rig.fs = sim_fs_fs(rig.disk);
    return rig;
}

static struct fs_file *opened(struct fs *fs, const char *path)
{
    struct fs_file *file = NULL;
    CHECK_OK(path, fs_open(fs, path, FS_READ | FS_WRITE | FS_CREATE, 0644, &file));
    return file;
}

static void put(struct fs *fs, const char *path, struct str content)
{
    struct fs_file *file = opened(fs, path);
    CHECK_OK(path, fs_write_at(fs, file, 0, content));
    fs_close(fs, file);
}

/* Writes the file and syncs content and name. */
static void put_synced(struct fs *fs, const char *path, struct str content)
{
    struct fs_file *file = opened(fs, path);
    CHECK_OK(path, fs_write_at(fs, file, 0, content));
    CHECK_OK(path, fs_sync(fs, file));
    CHECK_OK(path, fs_sync_dir(fs, "/"));
    fs_close(fs, file);
}

/* The content, or NULL for an absent file; valid until the next call. */
static const char *text_of(struct fs *fs, const char *path)
{
    static char text[8192];
    struct buf buf;
    buf_init(&buf, sizeof text - 1);
    enum err err = fs_read_whole(fs, path, sizeof text - 1, &buf);
    if (!err && buf.len > 0) memcpy(text, buf.data, buf.len);
    text[buf.len] = '\0';
    buf_deinit(&buf);
    if (err == ERR_NOT_FOUND) return NULL;
    CHECK_OK(path, err);
    return text;
}

static bool is_there(struct fs *fs, const char *path)
{
    struct fs_info info;
    enum err err = fs_stat(fs, path, &info);
    CHECK(path, err == ERR_OK || err == ERR_NOT_FOUND);
    return err == ERR_OK;
}

static const struct sim_fs_options half_lost = {
    .write_lost_per_million = 300000,
    .write_torn_per_million = 300000,
    .name_lost_per_million = 400000,
};

/* -- power cut: names -- */

TEST(a_perfect_disk_keeps_everything)
{
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    put(rig.fs, "/never-synced", STR("kept"));
    CHECK_OK("rename", fs_rename(rig.fs, "/never-synced", "/renamed"));
    sim_fs_crash(rig.disk);
    CHECK_TEXT("kept", text_of(rig.fs, "/renamed"), "kept");
    sim_fs_close(rig.disk);
    sim_fs_close(NULL);
}

TEST(synced_data_survives_every_power_cut)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs_options options = half_lost;
        options.reorder_names = seed % 2;
        struct rig rig = rig_open(&options, seed);
        put_synced(rig.fs, "/a", STR("synced"));
        put(rig.fs, "/b", STR("not"));
        sim_fs_crash(rig.disk);
        sim_fs_crash(rig.disk);
        CHECK_TEXT("synced content under a synced name", text_of(rig.fs, "/a"), "synced");
        sim_fs_close(rig.disk);
    }
}

TEST(in_order_a_power_cut_keeps_a_beginning_of_the_names)
{
    unsigned seen[4] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&half_lost, seed);
        for (int i = 0; i < 3; i++) put(rig.fs, (const char *[]){"/a", "/b", "/c"}[i], STR(""));
        sim_fs_crash(rig.disk);
        bool a = is_there(rig.fs, "/a"), b = is_there(rig.fs, "/b"), c = is_there(rig.fs, "/c");
        CHECK("b was made after a", !b || a);
        CHECK("c was made after b", !c || b);
        seen[a + b + c]++;
        sim_fs_close(rig.disk);
    }
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) CHECK("every length comes up", seen[i] > 0);
}

TEST(out_of_order_each_name_is_durable_independently)
{
    unsigned later_alone = 0, earlier_alone = 0;
    struct sim_fs_options options = half_lost;
    options.reorder_names = true;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&options, seed);
        put(rig.fs, "/a", STR(""));
        put(rig.fs, "/b", STR(""));
        sim_fs_crash(rig.disk);
        later_alone += !is_there(rig.fs, "/a") && is_there(rig.fs, "/b");
        earlier_alone += is_there(rig.fs, "/a") && !is_there(rig.fs, "/b");
        sim_fs_close(rig.disk);
    }
    CHECK("the later without the earlier", later_alone > 0);
    CHECK("the earlier without the later", earlier_alone > 0);
}

TEST(a_rename_is_kept_whole_or_lost_whole)
{
    unsigned seen[2] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs_options options = half_lost;
        options.reorder_names = seed % 2;
        struct rig rig = rig_open(&options, seed);
        put_synced(rig.fs, "/f", STR("old"));
        put_synced(rig.fs, "/new", STR("new"));
        CHECK_OK("rename", fs_rename(rig.fs, "/new", "/f"));
        sim_fs_crash(rig.disk);
        const char *text = text_of(rig.fs, "/f");
        CHECK("one of the two", text && (strcmp(text, "old") == 0 || strcmp(text, "new") == 0));
        bool kept = strcmp(text, "new") == 0;
        CHECK("its old name is there as long as its new one is not",
              is_there(rig.fs, "/new") == !kept);
        seen[kept]++;
        sim_fs_close(rig.disk);
    }
    CHECK("both come up", seen[0] > 0 && seen[1] > 0);
}

/* Create x, rename to y, remove y: each of the four states is possible. */
TEST(operations_on_one_name_stay_in_order)
{
    unsigned seen[3] = {0};
    struct sim_fs_options options = half_lost;
    options.reorder_names = true;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&options, seed);
        put(rig.fs, "/x", STR(""));
        CHECK_OK("rename", fs_rename(rig.fs, "/x", "/y"));
        CHECK_OK("remove", fs_remove(rig.fs, "/y"));
        sim_fs_crash(rig.disk);
        bool x = is_there(rig.fs, "/x"), y = is_there(rig.fs, "/y");
        CHECK("never both", !(x && y));
        seen[x ? 1 : y ? 2 : 0]++;
        sim_fs_close(rig.disk);
    }
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) CHECK("every state comes up", seen[i] > 0);
}

TEST(syncing_a_file_says_nothing_about_its_name)
{
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&half_lost, seed);
        struct fs_file *file = opened(rig.fs, "/f");
        CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("synced")));
        CHECK_OK("sync", fs_sync(rig.fs, file));
        sim_fs_crash(rig.disk);
        const char *text = text_of(rig.fs, "/f");
        CHECK("if the name is there, so is the content", !text || strcmp(text, "synced") == 0);
        lost += !text;
        fs_close(rig.fs, file);
        sim_fs_close(rig.disk);
    }
    CHECK("the name is lost", lost > 0);
}

TEST(syncing_a_directory_says_nothing_about_its_own_name)
{
    unsigned lost = 0, kept = 0;
    struct sim_fs_options options = half_lost;
    options.reorder_names = true;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&options, seed);
        CHECK_OK("dir", fs_make_dir(rig.fs, "/d", 0755));
        CHECK_OK("publish", fs_publish(rig.fs, "/d/f", STR("x"), 0644, 1));
        if (seed % 2) CHECK_OK("and above", fs_sync_dir(rig.fs, "/"));
        sim_fs_crash(rig.disk);
        if (seed % 2)
            CHECK_TEXT("now it is durable", text_of(rig.fs, "/d/f"), "x");
        else if (is_there(rig.fs, "/d"))
            kept++;
        else
            lost++;
        sim_fs_close(rig.disk);
    }
    CHECK("lost with all that was in it, or kept", lost > 0 && kept > 0);
}

/* In order, a sync writes the journal up to the directory's last change: earlier changes are
 * durable, later ones are not. */
TEST(syncing_a_directory_in_order_covers_earlier_changes)
{
    const struct sim_fs_options losing = {.name_lost_per_million = MILLION};
    struct rig rig = rig_open(&losing, 1);
    CHECK_OK("d", fs_make_dirs(rig.fs, "/d", 0755));
    put(rig.fs, "/before", STR(""));
    put(rig.fs, "/d/f", STR(""));
    put(rig.fs, "/after", STR(""));
    CHECK_OK("sync", fs_sync_dir(rig.fs, "/d"));
    sim_fs_crash(rig.disk);
    CHECK("in the directory", is_there(rig.fs, "/d/f"));
    CHECK("before it", is_there(rig.fs, "/before"));
    CHECK("after it", !is_there(rig.fs, "/after"));
    sim_fs_close(rig.disk);
}

/* Moves of directories that would create a cycle when reordered. */
TEST(directories_never_end_in_a_ring)
{
    struct sim_fs_options options = half_lost;
    options.reorder_names = true;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&options, seed);
        CHECK_OK("a", fs_make_dir(rig.fs, "/a", 0755));
        CHECK_OK("b", fs_make_dir(rig.fs, "/b", 0755));
        CHECK_OK("sync", fs_sync_dir(rig.fs, "/"));
        CHECK_OK("a into b", fs_rename(rig.fs, "/a", "/b/a"));
        CHECK_OK("out again", fs_rename(rig.fs, "/b/a", "/c"));
        CHECK_OK("b into it", fs_rename(rig.fs, "/b", "/c/b"));
        sim_fs_crash(rig.disk);
        int found = is_there(rig.fs, "/a") + is_there(rig.fs, "/b") + is_there(rig.fs, "/c") +
                    (is_there(rig.fs, "/b") && is_there(rig.fs, "/b/a")) +
                    (is_there(rig.fs, "/c") && is_there(rig.fs, "/c/b"));
        CHECK_I64("both directories are found once", found, 2);
        sim_fs_close(rig.disk);
    }
}

/* A directory's removal becomes durable only after the moves out of it, or a synced file would be
 * lost. */
TEST(a_file_moved_out_of_a_removed_directory_is_somewhere)
{
    unsigned moved = 0, back = 0;
    struct sim_fs_options options = half_lost;
    options.reorder_names = true;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&options, seed);
        CHECK_OK("d", fs_make_dirs(rig.fs, "/d", 0755));
        CHECK_OK("e", fs_make_dirs(rig.fs, "/e", 0755));
        CHECK_OK("f", fs_publish(rig.fs, "/d/f", STR("x"), 0644, 1));
        CHECK_OK("out", fs_rename(rig.fs, "/d/f", "/g"));
        if (seed % 2)
            CHECK_OK("removed", fs_remove(rig.fs, "/d"));
        else
            CHECK_OK("replaced", fs_rename(rig.fs, "/e", "/d"));
        sim_fs_crash(rig.disk);
        bool is_back = is_there(rig.fs, "/d") && is_there(rig.fs, "/d/f");
        CHECK("in one place", is_back != is_there(rig.fs, "/g"));
        back += is_back;
        moved += !is_back;
        sim_fs_close(rig.disk);
    }
    CHECK("both come up", moved > 0 && back > 0);
}

/* -- power cut: content -- */

TEST(an_unsynced_write_is_kept_lost_or_torn)
{
    enum { LEN = 3 * SIM_FS_SECTOR };
    static char old[LEN + 1], new[LEN + 1];
    unsigned kept = 0, lost = 0, torn = 0, whole_sectors = 0, any_byte = 0, holes = 0;
    memset(old, 'o', LEN);
    memset(new, 'n', LEN);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&half_lost, seed);
        put_synced(rig.fs, "/f", str_of(old, LEN));
        put(rig.fs, "/f", str_of(new, LEN));
        sim_fs_crash(rig.disk);
        const char *text = text_of(rig.fs, "/f");
        size_t news = 0, cut = strcspn(text, "o");
        for (size_t i = 0; i < LEN; i++) news += text[i] == 'n';
        CHECK_SIZE("old or new, byte by byte", strspn(text, "on"), LEN);
        if (news == LEN)
            kept++;
        else if (news == 0)
            lost++;
        else
            torn++;
        if (news == cut && cut > 0 && cut < LEN) {
            if (cut % SIM_FS_SECTOR == 0)
                whole_sectors++;
            else
                any_byte++;
        }
        holes += news > cut;
        sim_fs_close(rig.disk);
    }
    CHECK("kept", kept > 0);
    CHECK("lost", lost > 0);
    CHECK("torn", torn > 0);
    CHECK("cut between sectors", whole_sectors > 0);
    CHECK("cut inside one", any_byte > 0);
    CHECK("a sector without the one before it", holes > 0);
}

TEST(each_write_has_its_own_fate)
{
    unsigned seen[4] = {0};
    const struct sim_fs_options options = {.write_lost_per_million = 500000};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig rig = rig_open(&options, seed);
        put_synced(rig.fs, "/f", STR("...."));
        struct fs_file *file = opened(rig.fs, "/f");
        CHECK_OK("first", fs_write_at(rig.fs, file, 0, STR("11")));
        CHECK_OK("second", fs_write_at(rig.fs, file, 2, STR("22")));
        sim_fs_crash(rig.disk);
        const char *text = text_of(rig.fs, "/f");
        CHECK_SIZE("as long as before", strlen(text), 4);
        seen[(text[0] == '1') + 2 * (text[2] == '2')]++;
        fs_close(rig.fs, file);
        sim_fs_close(rig.disk);
    }
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) CHECK("every combination comes up", seen[i] > 0);
}

/* Rewriting in place: truncate, then write. In order, new bytes past the cut need the cut; out of
 * order, they may be durable before the cut. */
TEST(a_truncation_is_durable_before_writes_past_it)
{
    unsigned empty = 0, mixed[2] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs_options options = {.write_lost_per_million = 500000,
                                         .reorder_names = seed % 2};
        struct rig rig = rig_open(&options, seed);
        struct fs_file *file;
        put_synced(rig.fs, "/f", STR("old-old-old"));
        CHECK_OK("open", fs_open(rig.fs, "/f", FS_WRITE | FS_TRUNCATE, 0, &file));
        CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("new")));
        sim_fs_crash(rig.disk);
        const char *text = text_of(rig.fs, "/f");
        empty += text[0] == '\0';
        mixed[seed % 2] += strcmp(text, "new-old-old") == 0;
        fs_close(rig.fs, file);
        sim_fs_close(rig.disk);
    }
    CHECK("the classic empty file comes up", empty > 0);
    CHECK_U32("no mix in order", mixed[0], 0);
    CHECK("a mix out of order", mixed[1] > 0);
}

/* A model of one file. After a power cut every byte must be the synced one, one written since, or
 * zero where the file grew; without a write since, the synced one. */
TEST(no_byte_comes_from_nowhere)
{
    enum { SIZE = 4096, STEPS = 60 };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static char synced[SIZE], live[SIZE];
        static bool allowed[SIZE][256];
        struct prng prng;
        struct sim_fs_options options = half_lost;
        options.reorder_names = seed % 2;
        struct rig rig = rig_open(&options, seed);
        prng_seed(&prng, seed);
        memset(synced, 0, SIZE);
        memset(live, 0, SIZE);
        memset(allowed, 0, sizeof allowed);
        put_synced(rig.fs, "/f", str_of(synced, SIZE));
        struct fs_file *file = opened(rig.fs, "/f");
        for (uint64_t steps = prng_below(&prng, STEPS); steps > 0; steps--) {
            char data[1500];
            size_t len = (size_t)prng_below(&prng, sizeof data);
            size_t offset = (size_t)prng_below(&prng, SIZE - len);
            prng_fill(&prng, data, len);
            CHECK_OK("write", fs_write_at(rig.fs, file, offset, str_of(data, len)));
            memcpy(live + offset, data, len);
            for (size_t i = 0; i < len; i++) allowed[offset + i][(unsigned char)data[i]] = true;
            if (prng_below(&prng, 8)) continue;
            CHECK_OK("sync", fs_sync(rig.fs, file));
            memcpy(synced, live, SIZE);
            memset(allowed, 0, sizeof allowed);
        }
        fs_close(rig.fs, file);
        sim_fs_crash(rig.disk);
        file = opened(rig.fs, "/f");
        char after[SIZE + 1];
        size_t got;
        CHECK_OK("read", fs_read_at(rig.fs, file, 0, after, sizeof after, &got));
        CHECK_SIZE("its size was synced", got, SIZE);
        for (size_t i = 0; i < SIZE; i++)
            CHECK("synced or written since",
                  after[i] == synced[i] || allowed[i][(unsigned char)after[i]]);
        fs_close(rig.fs, file);
        sim_fs_close(rig.disk);
    }
}

TEST(a_file_much_shorter_and_long_again_keeps_its_bytes)
{
    enum { LONG = 300000 };
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    struct fs_file *file = opened(rig.fs, "/f");
    uint64_t size;
    for (int i = 0; i < 3; i++) {
        CHECK_OK("long", fs_allocate_zeroed(rig.fs, file, 0, LONG));
        CHECK_OK("begins", fs_write_at(rig.fs, file, 0, STR("begin")));
        CHECK_OK("sync", fs_sync(rig.fs, file));
        CHECK_OK("short", fs_truncate(rig.fs, file, i == 1 ? 0 : 5));
        if (i != 2) CHECK_OK("sync", fs_sync(rig.fs, file));
        CHECK_TEXT("the rest", text_of(rig.fs, "/f"), i == 1 ? "" : "begin");
    }
    const struct sim_fs_options losing = {.write_lost_per_million = MILLION};
    CHECK_OK("lose the cut", sim_fs_set_options(rig.disk, &losing));
    sim_fs_crash(rig.disk);
    fs_close(rig.fs, file);
    file = opened(rig.fs, "/f");
    CHECK_OK("size", fs_file_size(rig.fs, file, &size));
    CHECK_U64("long as it was synced", size, LONG);
    fs_close(rig.fs, file);
    sim_fs_close(rig.disk);
}

/* -- handles and locks -- */

TEST(handles_and_locks_do_not_outlive_a_power_cut)
{
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    struct fs_lock *lock, *next;
    struct fs_file *file = opened(rig.fs, "/f");
    char byte;
    size_t got = 0;
    uint64_t size;
    CHECK_OK("lock", fs_lock_dir(rig.fs, "/", &lock, NULL));
    sim_fs_crash(rig.disk);
    CHECK_ERR("write", fs_write_at(rig.fs, file, 0, STR("x")), ERR_CLOSED);
    CHECK_ERR("read", fs_read_at(rig.fs, file, 0, &byte, 1, &got), ERR_CLOSED);
    CHECK_ERR("size", fs_file_size(rig.fs, file, &size), ERR_CLOSED);
    CHECK_ERR("truncate", fs_truncate(rig.fs, file, 0), ERR_CLOSED);
    CHECK_ERR("sync", fs_sync(rig.fs, file), ERR_CLOSED);
    CHECK_OK("the lock is free", fs_lock_dir(rig.fs, "/", &next, NULL));
    fs_unlock(rig.fs, lock); /* the dead process's handle must not release the new lock */
    CHECK_ERR("still held", fs_lock_dir(rig.fs, "/", &lock, NULL), ERR_BUSY);
    fs_unlock(rig.fs, next);
    fs_close(rig.fs, file);
    (void)opened(rig.fs, "/left-open"); /* freed with the disk */
    sim_fs_close(rig.disk);
}

TEST(a_killed_process_loses_its_handles_and_no_content)
{
    struct sim_fs_options options = {.write_lost_per_million = MILLION,
                                     .name_lost_per_million = MILLION};
    struct rig rig = rig_open(&options, 1);
    struct fs_file *file = opened(rig.fs, "/f");
    struct fs_lock *lock;
    CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("in the kernel")));
    CHECK_OK("lock", fs_lock_dir(rig.fs, "/", &lock, NULL));
    sim_fs_process_died(rig.disk);
    CHECK_ERR("dead", fs_sync(rig.fs, file), ERR_CLOSED);
    sim_fs_reclaim(rig.disk); /* frees both; nobody closes them */
    CHECK_TEXT("the kernel still has it", text_of(rig.fs, "/f"), "in the kernel");
    CHECK_OK("free", fs_lock_dir(rig.fs, "/", &lock, NULL));
    fs_unlock(rig.fs, lock);
    sim_fs_crash(rig.disk);
    CHECK("and only there", !is_there(rig.fs, "/f"));
    sim_fs_close(rig.disk);
}

/* -- full -- */

TEST(a_full_disk_takes_what_fits_and_says_so)
{
    const struct sim_fs_options small = {.capacity = 10000};
    struct rig rig = rig_open(&small, 1);
    static char bytes[20000];
    uint64_t size, left;
    struct fs_file *file = opened(rig.fs, "/f"), *other;
    CHECK_ERR("more than there is", fs_write_at(rig.fs, file, 0, str_of(bytes, sizeof bytes)),
              ERR_NO_SPACE);
    CHECK_OK("size", fs_file_size(rig.fs, file, &size));
    CHECK_U64("the part that fits", size, 10000 - 2 * SIM_FS_NODE_BYTES);
    CHECK_OK("free", fs_free_bytes(rig.fs, "/", &left));
    CHECK_U64("nothing left", left, 0);
    CHECK_ERR("a byte more", fs_write_at(rig.fs, file, size, STR("x")), ERR_NO_SPACE);
    CHECK_ERR("longer", fs_truncate(rig.fs, file, size + 1), ERR_NO_SPACE);
    CHECK_ERR("a new file", fs_open(rig.fs, "/g", FS_WRITE | FS_CREATE, 0644, &other),
              ERR_NO_SPACE);
    CHECK_ERR("a new directory", fs_make_dir(rig.fs, "/d", 0755), ERR_NO_SPACE);
    CHECK("and left no name", !is_there(rig.fs, "/g") && !is_there(rig.fs, "/d"));
    CHECK_OK("over the existing file", fs_write_at(rig.fs, file, 0, STR("over")));
    CHECK_OK("shorter", fs_truncate(rig.fs, file, 1000));
    CHECK_OK("room again, though nothing was synced",
             fs_write_at(rig.fs, file, 1000, str_of(bytes, 5000)));
    fs_close(rig.fs, file);
    CHECK_OK("remove", fs_remove(rig.fs, "/f"));
    put(rig.fs, "/h", str_of(bytes, 9000));
    sim_fs_close(rig.disk);
}

TEST(a_lock_can_be_had_again_on_a_full_disk)
{
    const struct sim_fs_options small = {.capacity = 4000};
    struct rig rig = rig_open(&small, 1);
    static char bytes[4000];
    struct fs_lock *lock;
    struct note note;
    CHECK_OK("lock", fs_lock_dir(rig.fs, "/", &lock, NULL));
    fs_unlock(rig.fs, lock);
    struct fs_file *file = opened(rig.fs, "/f");
    CHECK_ERR("fill", fs_write_at(rig.fs, file, 0, str_of(bytes, sizeof bytes)), ERR_NO_SPACE);
    fs_close(rig.fs, file);
    CHECK_OK("lock", fs_lock_dir(rig.fs, "/", &lock, NULL));
    CHECK_ERR("held", fs_lock_dir(rig.fs, "/", &lock, &note), ERR_BUSY);
    CHECK_HAS("no room for a pid", note.text, "left no pid");
    sim_fs_close(rig.disk);
}

TEST(options_can_change_under_a_running_disk)
{
    struct sim_fs_options options = {.capacity = 1 << 20};
    struct rig rig = rig_open(&options, 1);
    struct fs_file *file = opened(rig.fs, "/f");
    static char bytes[5000];
    CHECK_OK("write", fs_write_at(rig.fs, file, 0, str_of(bytes, sizeof bytes)));
    options.capacity = 1000;
    CHECK_OK("shrink", sim_fs_set_options(rig.disk, &options));
    CHECK_ERR("full", fs_write_at(rig.fs, file, 5000, STR("x")), ERR_NO_SPACE);
    options.capacity = 0;
    CHECK_OK("heal", sim_fs_set_options(rig.disk, &options));
    CHECK_U64("the default", sim_fs_options(rig.disk).capacity, SIM_FS_CAPACITY_DEFAULT);
    CHECK_OK("room", fs_write_at(rig.fs, file, 5000, STR("x")));
    options.sync_fails_per_million = MILLION + 1;
    CHECK_ERR("more than always", sim_fs_set_options(rig.disk, &options), ERR_INVALID);
    options =
        (struct sim_fs_options){.write_lost_per_million = 600000, .write_torn_per_million = 600000};
    CHECK_ERR("more than all", sim_fs_set_options(rig.disk, &options), ERR_INVALID);
    options = (struct sim_fs_options){.sync_ns_min = 2, .sync_ns_max = 1};
    CHECK_ERR("ends exchanged", sim_fs_set_options(rig.disk, &options), ERR_INVALID);
    CHECK_OK("still the old ones", fs_sync(rig.fs, file));
    fs_close(rig.fs, file);
    sim_fs_close(rig.disk);
}

/* -- failing -- */

TEST(a_planned_failure_happens_once)
{
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    struct fs_file *file = opened(rig.fs, "/f"), *other = NULL;
    char bytes[8];
    size_t got;
    sim_fs_fail_once(rig.disk, SIM_FS_WRITE, 2, ERR_NO_SPACE);
    CHECK_OK("first", fs_write_at(rig.fs, file, 0, STR("1")));
    CHECK_ERR("second", fs_write_at(rig.fs, file, 0, STR("2")), ERR_NO_SPACE);
    CHECK_OK("third", fs_write_at(rig.fs, file, 0, STR("3")));
    sim_fs_fail_once(rig.disk, SIM_FS_READ, 1, ERR_IO);
    CHECK_ERR("read", fs_read_at(rig.fs, file, 0, bytes, 1, &got), ERR_IO);
    CHECK_OK("read", fs_read_at(rig.fs, file, 0, bytes, 1, &got));
    sim_fs_fail_once(rig.disk, SIM_FS_OPEN, 1, ERR_DENIED);
    CHECK_ERR("open", fs_open(rig.fs, "/f", FS_READ, 0, &other), ERR_DENIED);
    sim_fs_fail_once(rig.disk, SIM_FS_NAME, 1, ERR_IO);
    CHECK_ERR("rename", fs_rename(rig.fs, "/f", "/g"), ERR_IO);
    CHECK("not done", is_there(rig.fs, "/f"));
    sim_fs_fail_once(rig.disk, SIM_FS_SYNC, 1, ERR_IO);
    CHECK_ERR("sync", fs_sync_dir(rig.fs, "/"), ERR_IO);
    sim_fs_fail_once(rig.disk, SIM_FS_SYNC, 1, ERR_IO);
    sim_fs_fail_once(rig.disk, SIM_FS_SYNC, 0, ERR_OK);
    CHECK_OK("disarmed", fs_sync(rig.fs, file));
    CHECK_U64("counted", sim_fs_stats(rig.disk).failures, 5);
    fs_close(rig.fs, file);
    sim_fs_close(rig.disk);
}

TEST(a_failed_write_leaves_any_beginning_of_it)
{
    unsigned none = 0, part = 0, all = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct sim_fs_options failing = {.write_fails_per_million = MILLION};
        struct rig rig = rig_open(&failing, seed);
        struct fs_file *file = opened(rig.fs, "/f");
        uint64_t size;
        CHECK_ERR("always", fs_write_at(rig.fs, file, 0, STR("12345678")), ERR_IO);
        CHECK_OK("size", fs_file_size(rig.fs, file, &size));
        if (size == 0)
            none++;
        else if (size < 8)
            part++;
        else
            all++;
        fs_close(rig.fs, file);
        sim_fs_close(rig.disk);
    }
    CHECK("nothing, a part, all", none > 0 && part > 0 && all > 0);
}

TEST(a_failed_sync_is_final_for_its_handle)
{
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    struct fs_file *file = opened(rig.fs, "/f"), *fresh;
    char byte;
    size_t got;
    CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("x")));
    sim_fs_fail_once(rig.disk, SIM_FS_SYNC, 1, ERR_IO);
    CHECK_ERR("fails", fs_sync(rig.fs, file), ERR_IO);
    CHECK_ERR("never succeeds later", fs_sync(rig.fs, file), ERR_IO);
    CHECK_ERR("takes no more", fs_write_at(rig.fs, file, 0, STR("y")), ERR_IO);
    CHECK_ERR("nor less", fs_truncate(rig.fs, file, 0), ERR_IO);
    CHECK_OK("reads", fs_read_at(rig.fs, file, 0, &byte, 1, &got));
    fresh = opened(rig.fs, "/f");
    CHECK_OK("another handle may", fs_write_at(rig.fs, fresh, 0, STR("y")));
    CHECK_OK("another handle may", fs_sync(rig.fs, fresh));
    fs_close(rig.fs, file);
    fs_close(rig.fs, fresh);
    sim_fs_close(rig.disk);
}

/* The second handle's sync succeeds, although the data is not on disk. */
TEST(data_that_a_failed_sync_dropped_is_readable_until_the_power_is_cut)
{
    const struct sim_fs_options dropping = {.failed_sync_drops_per_million = MILLION};
    struct rig rig = rig_open(&dropping, 1);
    put_synced(rig.fs, "/f", STR("old"));
    struct fs_file *file = opened(rig.fs, "/f"), *fresh = opened(rig.fs, "/f");
    CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("new!")));
    sim_fs_fail_once(rig.disk, SIM_FS_SYNC, 1, ERR_IO);
    CHECK_ERR("fails", fs_sync(rig.fs, file), ERR_IO);
    CHECK_TEXT("reads still show it", text_of(rig.fs, "/f"), "new!");
    CHECK_OK("a later sync succeeds", fs_sync(rig.fs, fresh));
    CHECK_TEXT("reads still show it", text_of(rig.fs, "/f"), "new!");
    sim_fs_crash(rig.disk);
    CHECK_TEXT("and it was never written", text_of(rig.fs, "/f"), "old");
    CHECK_U64("counted", sim_fs_stats(rig.disk).writes_dropped, 1);
    fs_close(rig.fs, file);
    fs_close(rig.fs, fresh);
    sim_fs_close(rig.disk);
}

TEST(data_that_a_failed_sync_dropped_is_never_written)
{
    const struct sim_fs_options dropping = {.failed_sync_drops_per_million = MILLION,
                                            .write_torn_per_million = MILLION};
    for (uint64_t seed = 0; seed < SEEDS / 10; seed++) {
        struct rig rig = rig_open(&dropping, seed);
        put_synced(rig.fs, "/f", STR("old"));
        struct fs_file *file = opened(rig.fs, "/f");
        CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("new")));
        sim_fs_fail_once(rig.disk, SIM_FS_SYNC, 1, ERR_IO);
        CHECK_ERR("fails", fs_sync(rig.fs, file), ERR_IO);
        sim_fs_crash(rig.disk);
        CHECK_TEXT("not even in part", text_of(rig.fs, "/f"), "old");
        fs_close(rig.fs, file);
        sim_fs_close(rig.disk);
    }
}

TEST(damage_stays_and_touches_synced_content_only)
{
    const struct sim_fs_options damaged = {.read_flips_per_million = MILLION};
    struct sim_fs_options healed = {0};
    struct rig rig = rig_open(&healed, 3);
    put_synced(rig.fs, "/synced", STR("aaaaaaaa"));
    put(rig.fs, "/not", STR("aaaaaaaa"));
    CHECK_OK("damage", sim_fs_set_options(rig.disk, &damaged));
    CHECK_TEXT("bytes that are not on disk cannot rot there", text_of(rig.fs, "/not"), "aaaaaaaa");
    CHECK_U64("no flip", sim_fs_stats(rig.disk).flips, 0);
    CHECK("a bit is wrong", strcmp(text_of(rig.fs, "/synced"), "aaaaaaaa") != 0);
    CHECK_U64("one", sim_fs_stats(rig.disk).flips, 1);
    CHECK_OK("heal", sim_fs_set_options(rig.disk, &healed));
    CHECK("and stays wrong", strcmp(text_of(rig.fs, "/synced"), "aaaaaaaa") != 0);
    sim_fs_crash(rig.disk);
    CHECK("on disk too", strcmp(text_of(rig.fs, "/synced"), "aaaaaaaa") != 0);
    sim_fs_close(rig.disk);
}

TEST(a_misdirected_read_shows_another_place_once)
{
    const struct sim_fs_options misdirected = {.read_misdirected_per_million = MILLION};
    unsigned wrong = 0;
    for (uint64_t seed = 0; seed < SEEDS / 10; seed++) {
        struct sim_fs_options healed = {0};
        struct rig rig = rig_open(&healed, seed);
        struct fs_file *file = opened(rig.fs, "/f");
        char bytes[2];
        size_t got;
        CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("0123456789")));
        CHECK_OK("damage", sim_fs_set_options(rig.disk, &misdirected));
        CHECK_OK("read", fs_read_at(rig.fs, file, 4, bytes, 2, &got));
        CHECK_SIZE("as much as was asked for", got, 2);
        CHECK("from one place", bytes[1] == bytes[0] + 1);
        wrong += bytes[0] != '4';
        CHECK_OK("heal", sim_fs_set_options(rig.disk, &healed));
        CHECK_OK("read", fs_read_at(rig.fs, file, 4, bytes, 2, &got));
        CHECK_STR("right again", str_of(bytes, got), STR("45"));
        fs_close(rig.fs, file);
        sim_fs_close(rig.disk);
    }
    CHECK("often wrong", wrong > 0);
}

/* -- cost -- */

static void add_cost(void *context, uint64_t ns)
{
    *(uint64_t *)context += ns;
}

TEST(each_call_reports_its_cost)
{
    uint64_t paid = 0;
    struct sim_fs_options options = {
        .cost = add_cost,
        .context = &paid,
        .call_ns = 10,
        .kib_ns = 100,
        .sync_ns_min = 5000,
        .sync_ns_max = 6000,
    };
    struct rig rig = rig_open(&options, 1);
    static char bytes[4096];
    struct fs_file *file = opened(rig.fs, "/f");
    CHECK_U64("open", paid, 10);
    paid = 0;
    CHECK_OK("write", fs_write_at(rig.fs, file, 0, str_of(bytes, sizeof bytes)));
    CHECK_U64("write", paid, 410);
    paid = 0;
    CHECK_OK("sync", fs_sync(rig.fs, file));
    CHECK("sync", paid >= 5010 && paid <= 6010);
    options.stall_per_million = MILLION;
    options.stall_ns = 1000000;
    CHECK_OK("slow", sim_fs_set_options(rig.disk, &options));
    paid = 0;
    CHECK_OK("sync", fs_sync_dir(rig.fs, "/"));
    CHECK("a stall", paid >= 1005010);
    fs_close(rig.fs, file);
    sim_fs_close(rig.disk);
}

/* -- bounds -- */

TEST(what_is_pending_is_bounded)
{
    const struct sim_fs_options lossy = {.name_lost_per_million = MILLION,
                                         .write_lost_per_million = MILLION};
    enum { OVER = 50 };
    struct rig rig = rig_open(&lossy, 1);
    struct fs_file *file = opened(rig.fs, "/f");
    char name[32];
    uint64_t size;
    CHECK_OK("sync", fs_sync_dir(rig.fs, "/"));
    for (uint64_t i = 0; i < SIM_FS_WRITES_PENDING_MAX + OVER; i++)
        CHECK_OK("write", fs_write_at(rig.fs, file, i, STR("x")));
    for (int i = 0; i < SIM_FS_NAMES_PENDING_MAX + OVER; i++) {
        snprintf(name, sizeof name, "/n%d", i % 2);
        if (i % 2)
            CHECK_OK("rename", fs_rename(rig.fs, "/n0", "/n1"));
        else if (i == 0)
            put(rig.fs, name, STR(""));
        else
            CHECK_OK("rename", fs_rename(rig.fs, "/n1", "/n0"));
    }
    fs_close(rig.fs, file);
    sim_fs_crash(rig.disk);
    file = opened(rig.fs, "/f");
    CHECK_OK("size", fs_file_size(rig.fs, file, &size));
    CHECK_U64("the oldest were written back", size, OVER);
    CHECK("the oldest names too", is_there(rig.fs, "/n0") || is_there(rig.fs, "/n1"));
    CHECK_U64("the rest was lost", sim_fs_stats(rig.disk).names_lost, SIM_FS_NAMES_PENDING_MAX);
    fs_close(rig.fs, file);
    sim_fs_close(rig.disk);
}

TEST(open_files_are_bounded)
{
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    struct fs_file *file;
    for (int i = 0; i < SIM_FS_HANDLES_MAX; i++) (void)opened(rig.fs, "/f");
    CHECK_ERR("one more", fs_open(rig.fs, "/f", FS_READ, 0, &file), ERR_FULL);
    sim_fs_crash(rig.disk);
    sim_fs_reclaim(rig.disk);
    CHECK_OK("the dead do not count", fs_open(rig.fs, "/f", FS_READ, 0, &file));
    fs_close(rig.fs, file);
    sim_fs_close(rig.disk);
}

/* -- one seed, one run -- */

static const char *const work_names[] = {"/a", "/b", "/d", "/d/a", "/d/e", "/d/e/a"};

/* Random calls with failures; the answers only have to be reproducible. */
static void work(struct rig *rig, struct prng *prng, int steps)
{
    for (int i = 0; i < steps; i++) {
        const char *name = work_names[prng_below(prng, ARRAY_LEN(work_names))];
        const char *other = work_names[prng_below(prng, ARRAY_LEN(work_names))];
        struct fs_file *file;
        char data[2000];
        size_t got;
        switch (prng_below(prng, 9)) {
        case 0: (void)fs_make_dir(rig->fs, name, 0755); break;
        case 1: (void)fs_remove(rig->fs, name); break;
        case 2: (void)fs_rename(rig->fs, name, other); break;
        case 3: (void)fs_sync_dir(rig->fs, name); break;
        case 4: (void)fs_publish(rig->fs, name, STR("published"), 0644, prng_u64(prng)); break;
        case 5:
            if (prng_below(prng, 10) == 0) sim_fs_crash(rig->disk);
            break;
        default:
            if (fs_open(rig->fs, name, FS_READ | FS_WRITE | FS_CREATE, 0644, &file)) break;
            prng_fill(prng, data, sizeof data);
            (void)fs_write_at(rig->fs, file, prng_below(prng, 3000), str_of(data, sizeof data));
            (void)fs_read_at(rig->fs, file, prng_below(prng, 3000), data, sizeof data, &got);
            if (prng_below(prng, 2)) (void)fs_sync(rig->fs, file);
            if (prng_below(prng, 4) == 0) (void)fs_truncate(rig->fs, file, prng_below(prng, 2000));
            if (prng_below(prng, 8))
                fs_close(rig->fs, file); /* otherwise it stays open until a crash */
            break;
        }
    }
}

/* Hashes everything visible: content, names, pending writes and the generator. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    return str_hash(str_of(bytes, len), hash);
}

static uint64_t mix_u64(uint64_t hash, uint64_t value)
{
    return mix(hash, &value, sizeof value);
}

/* Uses a checksum, because a disk is large and a run hashes it often. */
static uint64_t mix_content(uint64_t hash, const void *bytes, size_t len)
{
    return mix_u64(mix_u64(hash, len), len > 0 ? crc32c(0, bytes, len) : 0);
}

static uint64_t mix_entry(uint64_t hash, const struct sim_entry *entry)
{
    if (!entry) return mix_u64(hash, 0);
    return mix_u64(mix(hash, entry->name, entry->name_len), entry->node->number);
}

static uint64_t mix_node(uint64_t hash, const struct sim_node *node)
{
    hash = mix_u64(mix_u64(mix_u64(hash, node->number), node->kind), node->mode);
    hash = mix_u64(mix_u64(mix_u64(hash, node->refs), node->locked), (uint64_t)node->modified_ns);
    hash = mix_content(hash, node->live.at, node->live.len);
    hash = mix_content(hash, node->durable.at, node->durable.len);
    LIST_EACH(&node->writes, link)
    {
        const struct pending_write *write = CONTAINER_OF(link, struct pending_write, link);
        hash = mix_u64(hash, write->offset);
        hash = mix_u64(hash, (uint64_t)write->truncation * 2 + write->dropped);
        hash = mix_content(hash, write->bytes, write->len);
    }
    LIST_EACH(&node->entries, link)
    hash = mix_entry(hash, CONTAINER_OF(link, struct sim_entry, link));
    return hash;
}

static uint64_t disk_hash(const struct sim_fs *disk)
{
    uint64_t hash = mix(0, disk->prng.s, sizeof disk->prng.s);
    LIST_EACH(&disk->nodes, link) hash = mix_node(hash, CONTAINER_OF(link, struct sim_node, link));
    LIST_EACH(&disk->journal, link)
    {
        const struct name_op *op = CONTAINER_OF(link, struct name_op, link);
        hash = mix_u64(hash, op->from ? op->from->number : 0);
        hash = mix_u64(hash, op->to ? op->to->number : 0);
        hash = mix_entry(mix_entry(mix_entry(hash, op->gone), op->made), op->replaced);
    }
    return mix_u64(mix_u64(hash, disk->used), disk->stats.calls);
}

static uint64_t hash_of_run(uint64_t seed)
{
    struct prng prng;
    struct sim_fs_options options = {.capacity = 30000, .read_flips_per_million = 1000};
    prng_seed(&prng, seed);
    sim_fs_draw_faults(&prng, &options);
    struct rig rig = rig_open(&options, seed);
    work(&rig, &prng, 500);
    uint64_t hash = disk_hash(rig.disk);
    sim_fs_close(rig.disk);
    return hash;
}

TEST(the_same_seed_gives_the_same_disk)
{
    uint64_t seed = test_seed(), last = 0;
    for (uint64_t i = 0; i < 50; i++) {
        uint64_t hash = hash_of_run(seed + i);
        CHECK_U64("twice the same", hash_of_run(seed + i), hash);
        CHECK("and another from another", hash != last);
        last = hash;
    }
}

TEST(the_hash_sees_every_change)
{
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    struct fs_file *file = opened(rig.fs, "/f");
    uint64_t hashes[6] = {disk_hash(rig.disk)};
    CHECK_OK("write", fs_write_at(rig.fs, file, 0, STR("x")));
    hashes[1] = disk_hash(rig.disk);
    CHECK_OK("sync", fs_sync(rig.fs, file));
    hashes[2] = disk_hash(rig.disk);
    CHECK_OK("rename", fs_rename(rig.fs, "/f", "/g"));
    hashes[3] = disk_hash(rig.disk);
    CHECK_OK("sync", fs_sync_dir(rig.fs, "/"));
    hashes[4] = disk_hash(rig.disk);
    fs_close(rig.fs, file);
    hashes[5] = disk_hash(rig.disk);
    for (size_t i = 0; i < ARRAY_LEN(hashes); i++)
        for (size_t k = 0; k < i; k++) CHECK("different", hashes[i] != hashes[k]);
    CHECK_U64("looking changes nothing", disk_hash(rig.disk), hashes[5]);
    sim_fs_close(rig.disk);
}

/* -- the tree stays a tree -- */

struct walk {
    struct fs *fs;
    const char *dir;
    uint64_t bytes;
};

static void walk_entry(void *context, const char *name, enum fs_kind kind)
{
    struct walk *walk = context;
    char path[512];
    struct fs_info info;
    snprintf(path, sizeof path, "%s/%s", walk->dir, name);
    CHECK_OK(path, fs_stat(walk->fs, path, &info));
    walk->bytes += SIM_FS_NODE_BYTES + (kind == FS_REGULAR ? info.size : 0);
    if (kind != FS_DIRECTORY) return;
    struct walk below = {.fs = walk->fs, .dir = path};
    CHECK_OK(path, fs_list(walk->fs, path, walk_entry, &below));
    walk->bytes += below.bytes;
}

/* After a power cut nothing is open or pending, so a walk must find all used bytes. They would
 * differ if a node were lost from the tree without being freed, or freed twice. */
TEST(after_a_power_cut_all_that_is_used_can_be_found)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct prng prng;
        struct sim_fs_options options = {.capacity = 60000}, calm = {.capacity = 60000};
        prng_seed(&prng, seed);
        sim_fs_draw_faults(&prng, &options);
        struct rig rig = rig_open(&options, seed);
        work(&rig, &prng, 200);
        sim_fs_crash(rig.disk);
        CHECK_OK("calm", sim_fs_set_options(rig.disk, &calm));
        struct walk walk = {.fs = rig.fs, .dir = "", .bytes = SIM_FS_NODE_BYTES};
        uint64_t left;
        CHECK_OK("list", fs_list(rig.fs, "/", walk_entry, &walk));
        CHECK_OK("free", fs_free_bytes(rig.fs, "/", &left));
        CHECK_U64("found and charged", walk.bytes, 60000 - left);
        sim_fs_close(rig.disk);
    }
}

TEST(a_dump_shows_durable_and_pending_content)
{
    const struct sim_fs_options options = {.capacity = 10000, .pid = 7};
    struct rig rig = rig_open(&options, 1);
    struct fs_lock *lock;
    struct buf out;
    buf_init(&out, 4096);
    CHECK_OK("dirs", fs_make_dirs(rig.fs, "/d/e", 0700));
    put_synced(rig.fs, "/b", STR("12345"));
    put(rig.fs, "/d/e/a", STR("123"));
    CHECK_OK("lock", fs_lock_dir(rig.fs, "/d", &lock, NULL));
    CHECK_OK("dump", sim_fs_dump(rig.disk, &out));
    CHECK_STR("sorted, with sizes", buf_peek(&out),
              STR("/ mode 755\n"
                  "/b size 5 durable 5 pending 0 mode 644\n"
                  "/d/ mode 700\n"
                  "/d/LOCK size 37 durable 0 pending 1 mode 600 locked\n"
                  "/d/e/ mode 700\n"
                  "/d/e/a size 3 durable 0 pending 1 mode 644\n"
                  "used 1581 of 10000, 2 names not synced\n"));
    fs_unlock(rig.fs, lock);
    buf_deinit(&out);
    buf_init(&out, 10);
    CHECK_ERR("too small", sim_fs_dump(rig.disk, &out), ERR_FULL);
    buf_deinit(&out);
    sim_fs_close(rig.disk);
}

TEST(there_are_no_parents_by_dots)
{
    const struct sim_fs_options perfect = {0};
    struct rig rig = rig_open(&perfect, 1);
    struct fs_info info;
    CHECK_ERR("reported", fs_stat(rig.fs, "/a/../b", &info), ERR_UNSUPPORTED);
    CHECK_ERR("the root stays", fs_remove(rig.fs, "/"), ERR_BUSY);
    CHECK_ERR("the root stays", fs_rename(rig.fs, "/", "/x"), ERR_BUSY);
    CHECK_ERR("the root stays", fs_rename(rig.fs, "/x", "/"), ERR_NOT_FOUND);
    sim_fs_close(rig.disk);
}
