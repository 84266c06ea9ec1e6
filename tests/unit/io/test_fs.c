/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of io/fs.h, checked on the kernel's file system and on the simulated disk, so that
 * proofs on the simulated disk hold on the kernel's. */
#include "io/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"
#include "sim/sim_fs.h"

enum { PATH_CAP = 256 };

struct bed {
    const char *name;
    struct fs *fs;
    struct sim_fs *disk; /* NULL for the real one */
    char root[64];
};

/* Round 0 is the kernel's, round 1 the simulated one; each begins in an empty directory. */
static bool next_bed(struct bed *bed, int *round)
{
    static int number;
    sim_fs_close(bed->disk);
    bed->disk = NULL;
    if (*round == 2) return false;
    if (*round == 0) {
        umask(022);
        bed->name = "real";
        bed->fs = fs_real();
        snprintf(bed->root, sizeof bed->root, "%s/%d", test_dir(), number++);
    } else {
        const struct sim_fs_options perfect = {0};
        struct prng prng;
        prng_seed(&prng, 1);
        bed->name = "simulated";
        CHECK_OK("a disk opens", sim_fs_open(&perfect, &prng, &bed->disk));
        bed->fs = sim_fs_fs(bed->disk);
        snprintf(bed->root, sizeof bed->root, "/bed");
    }
    CHECK_OK("a place to work in", fs_make_dir(bed->fs, bed->root, 0755));
    ++*round;
    return true;
}
#define EACH_BED(bed)                                                                              \
    struct bed bed = {0};                                                                          \
    for (int round_of_bed = 0; next_bed(&bed, &round_of_bed);)

/* A path in the bed; up to four are valid at a time. */
static const char *in(const struct bed *bed, const char *name)
{
    static char paths[4][PATH_CAP];
    static unsigned next;
    char *path = paths[next++ % ARRAY_LEN(paths)];
    int len = snprintf(path, PATH_CAP, "%s/%s", bed->root, name);
    CHECK("it fits", len > 0 && len < PATH_CAP);
    return path;
}

/* "simulated: why" */
static const char *on(const struct bed *bed, const char *why)
{
    static char text[256];
    snprintf(text, sizeof text, "%s: %s", bed->name, why);
    return text;
}

static void put(const struct bed *bed, const char *name, const char *content)
{
    struct fs_file *file;
    CHECK_OK(name,
             fs_open(bed->fs, in(bed, name), FS_WRITE | FS_CREATE | FS_TRUNCATE, 0644, &file));
    CHECK_OK(name, fs_write_at(bed->fs, file, 0, str_from(content)));
    fs_close(bed->fs, file);
}

static void check_content(const struct bed *bed, const char *name, struct str want, const char *why)
{
    struct buf buf;
    buf_init(&buf, 1 << 20);
    CHECK_OK(on(bed, why), fs_read_whole(bed->fs, in(bed, name), 1 << 20, &buf));
    CHECK_STR(on(bed, why), buf_peek(&buf), want);
    buf_deinit(&buf);
}

/* -- opening -- */

static const struct {
    const char *why, *path;
    uint32_t flags;
    enum err want;
} open_cases[] = {
    {"absent and not to be made", "absent", FS_READ, ERR_NOT_FOUND},
    {"absent, read and write", "absent", FS_READ | FS_WRITE, ERR_NOT_FOUND},
    {"made", "new", FS_WRITE | FS_CREATE, ERR_OK},
    {"there already is fine without exclusive", "file", FS_WRITE | FS_CREATE, ERR_OK},
    {"exclusive and there", "file", FS_WRITE | FS_CREATE | FS_EXCLUSIVE, ERR_EXISTS},
    {"exclusive and a directory", "dir", FS_WRITE | FS_CREATE | FS_EXCLUSIVE, ERR_EXISTS},
    {"a directory is not a file to read", "dir", FS_READ, ERR_INVALID},
    {"a directory is not a file to write", "dir", FS_WRITE, ERR_INVALID},
    {"a directory is not a file to make", "dir", FS_WRITE | FS_CREATE, ERR_INVALID},
    {"a file on the way", "file/x", FS_READ, ERR_INVALID},
    {"a file on the way, to make", "file/x", FS_WRITE | FS_CREATE, ERR_INVALID},
    {"a missing directory on the way", "no/x", FS_WRITE | FS_CREATE, ERR_NOT_FOUND},
    {"a slash after a file", "file/", FS_READ, ERR_INVALID},
    {"a slash after a new file", "new2/", FS_WRITE | FS_CREATE, ERR_INVALID},
    {"slashes and dots are skipped", "dir//./.././file", FS_READ, ERR_OK},
    {"neither read nor write", "file", 0, ERR_INVALID},
    {"making needs writing", "file", FS_READ | FS_CREATE, ERR_INVALID},
    {"truncating needs writing", "file", FS_READ | FS_TRUNCATE, ERR_INVALID},
    {"appending needs writing", "file", FS_READ | FS_APPEND, ERR_INVALID},
    {"exclusive needs making", "file", FS_WRITE | FS_EXCLUSIVE, ERR_INVALID},
    {"an unknown flag", "file", FS_READ | BIT(20), ERR_INVALID},
};

TEST(open_answers_the_same_on_both)
{
    EACH_BED(bed)
    {
        put(&bed, "file", "content");
        CHECK_OK("a directory", fs_make_dir(bed.fs, in(&bed, "dir"), 0755));
        for (size_t i = 0; i < ARRAY_LEN(open_cases); i++) {
            struct fs_file *file = NULL;
            bool dots = strstr(open_cases[i].path, "..");
            if (bed.disk && dots) continue; /* said in sim_fs_names.c: no parents by dots */
            enum err err =
                fs_open(bed.fs, in(&bed, open_cases[i].path), open_cases[i].flags, 0644, &file);
            CHECK_ERR(on(&bed, open_cases[i].why), err, open_cases[i].want);
            CHECK("the output is untouched on failure", (file != NULL) == (err == ERR_OK));
            fs_close(bed.fs, file);
        }
    }
}

TEST(a_path_or_a_name_too_long_is_refused)
{
    static char name[FS_NAME_MAX + 8], path[2 * FS_PATH_CAP];
    EACH_BED(bed)
    {
        struct fs_file *file;
        memset(name, 'n', sizeof name);
        name[FS_NAME_MAX] = '\0';
        snprintf(path, sizeof path, "%s/%s", bed.root, name);
        CHECK_OK(on(&bed, "the longest name"),
                 fs_open(bed.fs, path, FS_WRITE | FS_CREATE, 0644, &file));
        fs_close(bed.fs, file);
        snprintf(path, sizeof path, "%s/%sx", bed.root, name);
        CHECK_ERR(on(&bed, "one more"), fs_open(bed.fs, path, FS_WRITE | FS_CREATE, 0644, &file),
                  ERR_INVALID);
        memset(path, '/', sizeof path);
        path[FS_PATH_CAP] = '\0';
        CHECK_ERR(on(&bed, "a path too long"), fs_open(bed.fs, path, FS_READ, 0, &file),
                  ERR_INVALID);
        CHECK_ERR(on(&bed, "no path"), fs_open(bed.fs, "", FS_READ, 0, &file), ERR_INVALID);
    }
}

TEST(the_mode_is_what_was_asked_for)
{
    EACH_BED(bed)
    {
        struct fs_info info;
        struct fs_file *file;
        CHECK_OK("a key", fs_open(bed.fs, in(&bed, "key"), FS_WRITE | FS_CREATE, 0600, &file));
        fs_close(bed.fs, file);
        CHECK_OK("a directory", fs_make_dir(bed.fs, in(&bed, "private"), 0700));
        CHECK_OK("stat", fs_stat(bed.fs, in(&bed, "key"), &info));
        CHECK_U32(on(&bed, "a file's mode"), info.mode, 0600);
        CHECK_U32(on(&bed, "a file's kind"), info.kind, FS_REGULAR);
        CHECK_OK("stat", fs_stat(bed.fs, in(&bed, "private"), &info));
        CHECK_U32(on(&bed, "a directory's mode"), info.mode, 0700);
        CHECK_U32(on(&bed, "a directory's kind"), info.kind, FS_DIRECTORY);
        CHECK_ERR(on(&bed, "set-user-id bits"), fs_make_dir(bed.fs, in(&bed, "x"), 04755),
                  ERR_INVALID);
    }
}

/* -- content -- */

TEST(a_write_past_the_end_leaves_zeros_between)
{
    EACH_BED(bed)
    {
        struct fs_file *file;
        char bytes[16];
        size_t got = 0;
        uint64_t size = 0;
        CHECK_OK("open",
                 fs_open(bed.fs, in(&bed, "f"), FS_READ | FS_WRITE | FS_CREATE, 0644, &file));
        CHECK_OK("far", fs_write_at(bed.fs, file, 6, STR("ab")));
        CHECK_OK("near", fs_write_at(bed.fs, file, 1, STR("z")));
        CHECK_OK("size", fs_file_size(bed.fs, file, &size));
        CHECK_U64(on(&bed, "the size"), size, 8);
        CHECK_OK("read", fs_read_at(bed.fs, file, 0, bytes, sizeof bytes, &got));
        CHECK_STR(on(&bed, "the bytes"), str_of(bytes, got), str_of("\0z\0\0\0\0ab", 8));
        CHECK_OK("read", fs_read_at(bed.fs, file, 7, bytes, sizeof bytes, &got));
        CHECK_STR(on(&bed, "from inside"), str_of(bytes, got), STR("b"));
        CHECK_OK("read", fs_read_at(bed.fs, file, 8, bytes, sizeof bytes, &got));
        CHECK_SIZE(on(&bed, "at the end there is nothing"), got, 0);
        CHECK_OK("read", fs_read_at(bed.fs, file, 1000, bytes, sizeof bytes, &got));
        CHECK_SIZE(on(&bed, "past the end there is nothing"), got, 0);
        CHECK_OK("nothing to write", fs_write_at(bed.fs, file, 100, STR_EMPTY));
        CHECK_OK("size", fs_file_size(bed.fs, file, &size));
        CHECK_U64(on(&bed, "writing nothing changes nothing"), size, 8);
        fs_close(bed.fs, file);
    }
}

TEST(appending_goes_to_the_end_whatever_the_offset)
{
    EACH_BED(bed)
    {
        struct fs_file *one, *two;
        const uint32_t flags = FS_WRITE | FS_CREATE | FS_APPEND;
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), flags, 0644, &one));
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), flags, 0644, &two));
        CHECK_OK("one", fs_write_at(bed.fs, one, 0, STR("a")));
        CHECK_OK("two", fs_write_at(bed.fs, two, 0, STR("bc")));
        CHECK_OK("one", fs_write_at(bed.fs, one, 1000, STR("d")));
        check_content(&bed, "f", STR("abcd"), "in the order of the calls");
        CHECK_OK("cut", fs_truncate(bed.fs, one, 1));
        CHECK_OK("two", fs_write_at(bed.fs, two, 3, STR("e")));
        check_content(&bed, "f", STR("ae"), "at the end there is now");
        fs_close(bed.fs, one);
        fs_close(bed.fs, two);
    }
}

TEST(truncation_cuts_and_grows_with_zeros)
{
    EACH_BED(bed)
    {
        struct fs_file *file;
        put(&bed, "f", "abcdef");
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), FS_WRITE, 0, &file));
        CHECK_OK("shorter", fs_truncate(bed.fs, file, 2));
        check_content(&bed, "f", STR("ab"), "cut");
        CHECK_OK("longer", fs_truncate(bed.fs, file, 4));
        check_content(&bed, "f", str_of("ab\0\0", 4), "what was cut does not come back");
        CHECK_OK("sync", fs_sync(bed.fs, file));
        fs_close(bed.fs, file);
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), FS_WRITE | FS_TRUNCATE, 0, &file));
        fs_close(bed.fs, file);
        check_content(&bed, "f", STR(""), "opened to be emptied");
    }
}

TEST(a_handle_does_only_what_it_was_opened_for)
{
    EACH_BED(bed)
    {
        struct fs_file *reads, *writes;
        char byte;
        size_t got = 77;
        put(&bed, "f", "x");
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), FS_READ, 0, &reads));
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), FS_WRITE, 0, &writes));
        CHECK_ERR(on(&bed, "write"), fs_write_at(bed.fs, reads, 0, STR("y")), ERR_INVALID);
        CHECK_ERR(on(&bed, "truncate"), fs_truncate(bed.fs, reads, 0), ERR_INVALID);
        CHECK_ERR(on(&bed, "sync"), fs_sync(bed.fs, reads), ERR_INVALID);
        CHECK_ERR(on(&bed, "read"), fs_read_at(bed.fs, writes, 0, &byte, 1, &got), ERR_INVALID);
        CHECK_SIZE(on(&bed, "the output is untouched"), got, 77);
        CHECK_ERR(on(&bed, "an offset no kernel takes"),
                  fs_write_at(bed.fs, writes, (uint64_t)INT64_MAX, STR("y")), ERR_INVALID);
        CHECK_ERR(on(&bed, "a size no kernel takes"), fs_truncate(bed.fs, writes, UINT64_MAX),
                  ERR_INVALID);
        fs_close(bed.fs, reads);
        fs_close(bed.fs, writes);
        fs_close(bed.fs, NULL);
        check_content(&bed, "f", STR("x"), "nothing changed");
    }
}

TEST(a_removed_file_is_read_to_the_end_by_its_open_handle)
{
    EACH_BED(bed)
    {
        struct fs_file *file;
        struct fs_info info;
        char bytes[8];
        size_t got;
        put(&bed, "f", "still");
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), FS_READ, 0, &file));
        CHECK_OK("remove", fs_remove(bed.fs, in(&bed, "f")));
        CHECK_ERR(on(&bed, "gone"), fs_stat(bed.fs, in(&bed, "f"), &info), ERR_NOT_FOUND);
        CHECK_OK("read", fs_read_at(bed.fs, file, 0, bytes, sizeof bytes, &got));
        CHECK_STR(on(&bed, "its content"), str_of(bytes, got), STR("still"));
        fs_close(bed.fs, file);
    }
}

TEST(a_segment_is_zeroed_where_it_was_asked_for)
{
    EACH_BED(bed)
    {
        enum { SIZE = 200000 };
        struct fs_file *file;
        struct buf buf;
        size_t zeros = 0;
        buf_init(&buf, SIZE + 100);
        put(&bed, "f", "abcdef");
        CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), FS_READ | FS_WRITE, 0, &file));
        CHECK_OK("zeroed", fs_allocate_zeroed(bed.fs, file, 3, SIZE - 3));
        CHECK_ERR("wraps", fs_allocate_zeroed(bed.fs, file, 3, UINT64_MAX), ERR_INVALID);
        fs_close(bed.fs, file);
        CHECK_OK("read", fs_read_whole(bed.fs, in(&bed, "f"), SIZE, &buf));
        CHECK_SIZE(on(&bed, "its size"), buf_peek(&buf).len, SIZE);
        CHECK_STR(on(&bed, "what was before"), str_of(buf.data, 3), STR("abc"));
        for (size_t i = 3; i < SIZE; i++) zeros += buf.data[i] == 0;
        CHECK_SIZE(on(&bed, "zeros"), zeros, SIZE - 3);
        buf_deinit(&buf);
    }
}

/* -- names -- */

static const struct {
    const char *why, *from, *to;
    enum err want;
} rename_cases[] = {
    {"to a new name", "a", "b", ERR_OK},
    {"over a file", "b", "file", ERR_OK},
    {"onto itself", "file", "file", ERR_OK},
    {"absent", "absent", "x", ERR_NOT_FOUND},
    {"into a missing directory", "file", "no/x", ERR_NOT_FOUND},
    {"through a file", "file", "other/x", ERR_INVALID},
    {"a file over a directory", "file", "empty", ERR_INVALID},
    {"a directory over a file", "empty", "file", ERR_INVALID},
    {"a directory over one that is not empty", "empty", "full", ERR_PRECONDITION},
    {"a directory over an empty one", "full", "empty", ERR_OK},
    {"a directory into itself", "empty", "empty/sub", ERR_INVALID},
    {"a directory onto its own parent", "empty/inner", "empty", ERR_PRECONDITION},
    {"a file onto its own parent", "empty/inside", "empty", ERR_PRECONDITION},
    {"a file to a name with a slash", "file", "newname/", ERR_INVALID},
    {"a directory to a name with a slash", "empty", "moved/", ERR_OK},
    {"out of a directory", "moved/inside", "inside", ERR_OK},
};

TEST(rename_answers_the_same_on_both)
{
    EACH_BED(bed)
    {
        put(&bed, "a", "from a");
        put(&bed, "file", "old");
        put(&bed, "other", "other");
        CHECK_OK("empty", fs_make_dir(bed.fs, in(&bed, "empty"), 0755));
        CHECK_OK("full", fs_make_dir(bed.fs, in(&bed, "full"), 0755));
        CHECK_OK("inner", fs_make_dir(bed.fs, in(&bed, "full/inner"), 0755));
        put(&bed, "full/inside", "inside");
        for (size_t i = 0; i < ARRAY_LEN(rename_cases); i++)
            CHECK_ERR(
                on(&bed, rename_cases[i].why),
                fs_rename(bed.fs, in(&bed, rename_cases[i].from), in(&bed, rename_cases[i].to)),
                rename_cases[i].want);
        check_content(&bed, "file", STR("from a"), "the content went along");
        check_content(&bed, "inside", STR("inside"), "moved twice");
    }
}

static const struct {
    const char *why, *path;
    enum err want;
} remove_cases[] = {
    {"absent", "absent", ERR_NOT_FOUND},
    {"through a file", "file/x", ERR_INVALID},
    {"a file with a slash", "file/", ERR_INVALID},
    {"a directory that is not empty", "dir", ERR_PRECONDITION},
    {"what is in it", "dir/f", ERR_OK},
    {"now it is empty", "dir/", ERR_OK},
    {"a file", "file", ERR_OK},
    {"once more", "file", ERR_NOT_FOUND},
};

TEST(remove_answers_the_same_on_both)
{
    EACH_BED(bed)
    {
        put(&bed, "file", "x");
        CHECK_OK("dir", fs_make_dir(bed.fs, in(&bed, "dir/"), 0755));
        CHECK_ERR("dir again", fs_make_dir(bed.fs, in(&bed, "dir"), 0755), ERR_EXISTS);
        CHECK_ERR("dir over file", fs_make_dir(bed.fs, in(&bed, "file"), 0755), ERR_EXISTS);
        CHECK_ERR("no parent", fs_make_dir(bed.fs, in(&bed, "no/dir"), 0755), ERR_NOT_FOUND);
        CHECK_ERR("file as parent", fs_make_dir(bed.fs, in(&bed, "file/dir"), 0755), ERR_INVALID);
        put(&bed, "dir/f", "x");
        for (size_t i = 0; i < ARRAY_LEN(remove_cases); i++)
            CHECK_ERR(on(&bed, remove_cases[i].why),
                      fs_remove(bed.fs, in(&bed, remove_cases[i].path)), remove_cases[i].want);
    }
}

static void count_kinds(void *context, const char *name, enum fs_kind kind)
{
    size_t *counts = context;
    CHECK("neither of the dots", strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
    CHECK("files are called f, directories d", (name[0] == 'd') == (kind == FS_DIRECTORY));
    counts[kind]++;
}

TEST(a_list_names_each_entry_once_with_its_kind)
{
    EACH_BED(bed)
    {
        size_t counts[3] = {0};
        char name[16];
        CHECK_OK("empty", fs_list(bed.fs, bed.root, count_kinds, counts));
        CHECK_SIZE(on(&bed, "empty"), counts[FS_REGULAR] + counts[FS_DIRECTORY] + counts[FS_OTHER],
                   0);
        for (int i = 0; i < 100; i++) {
            snprintf(name, sizeof name, "f%d", i);
            put(&bed, name, "");
        }
        for (int i = 0; i < 10; i++) {
            snprintf(name, sizeof name, "d%d", i);
            CHECK_OK(name, fs_make_dir(bed.fs, in(&bed, name), 0755));
        }
        CHECK_OK("list", fs_list(bed.fs, bed.root, count_kinds, counts));
        CHECK_SIZE(on(&bed, "files"), counts[FS_REGULAR], 100);
        CHECK_SIZE(on(&bed, "directories"), counts[FS_DIRECTORY], 10);
        CHECK_ERR(on(&bed, "absent"), fs_list(bed.fs, in(&bed, "x"), count_kinds, counts),
                  ERR_NOT_FOUND);
        CHECK_ERR(on(&bed, "a file"), fs_list(bed.fs, in(&bed, "f1"), count_kinds, counts),
                  ERR_INVALID);
    }
}

TEST(a_change_shows_in_time_size_or_inode)
{
    EACH_BED(bed)
    {
        struct fs_info before, after;
        CHECK_OK("publish", fs_publish(bed.fs, in(&bed, "f"), STR("one"), 0644, 1));
        CHECK_OK("stat", fs_stat(bed.fs, in(&bed, "f"), &before));
        CHECK_OK("publish", fs_publish(bed.fs, in(&bed, "f"), STR("two"), 0644, 2));
        CHECK_OK("stat", fs_stat(bed.fs, in(&bed, "f"), &after));
        CHECK(on(&bed, "a reload would notice"),
              before.inode != after.inode || before.modified_ns != after.modified_ns);
        CHECK_U64(on(&bed, "the size"), after.size, 3);
    }
}

TEST(free_bytes_and_sync_dir_want_something_that_is_there)
{
    EACH_BED(bed)
    {
        uint64_t bytes = 0;
        put(&bed, "f", "x");
        CHECK_OK("free", fs_free_bytes(bed.fs, bed.root, &bytes));
        CHECK(on(&bed, "some room"), bytes > 4096);
        CHECK_ERR(on(&bed, "absent"), fs_free_bytes(bed.fs, in(&bed, "x"), &bytes), ERR_NOT_FOUND);
        CHECK_OK(on(&bed, "a directory"), fs_sync_dir(bed.fs, bed.root));
        CHECK_ERR(on(&bed, "absent"), fs_sync_dir(bed.fs, in(&bed, "x")), ERR_NOT_FOUND);
        CHECK_ERR(on(&bed, "a file"), fs_sync_dir(bed.fs, in(&bed, "f")), ERR_INVALID);
    }
}

/* -- helpers -- */

TEST(a_file_is_read_whole_or_not_at_all)
{
    EACH_BED(bed)
    {
        struct buf buf;
        buf_init(&buf, 12);
        CHECK_OK("before", buf_append(&buf, STR("before")));
        put(&bed, "f", "12345");
        put(&bed, "empty", "");
        CHECK_ERR(on(&bed, "absent"), fs_read_whole(bed.fs, in(&bed, "x"), 99, &buf),
                  ERR_NOT_FOUND);
        CHECK_ERR(on(&bed, "a directory"), fs_read_whole(bed.fs, bed.root, 99, &buf), ERR_INVALID);
        CHECK_ERR(on(&bed, "too large"), fs_read_whole(bed.fs, in(&bed, "f"), 4, &buf),
                  ERR_TOO_LARGE);
        CHECK_STR(on(&bed, "untouched"), buf_peek(&buf), STR("before"));
        CHECK_OK(on(&bed, "exactly"), fs_read_whole(bed.fs, in(&bed, "f"), 5, &buf));
        CHECK_STR(on(&bed, "appended"), buf_peek(&buf), STR("before12345"));
        CHECK_OK(on(&bed, "empty"), fs_read_whole(bed.fs, in(&bed, "empty"), 0, &buf));
        CHECK_ERR(on(&bed, "the buffer's ceiling"), fs_read_whole(bed.fs, in(&bed, "f"), 5, &buf),
                  ERR_FULL);
        CHECK_STR(on(&bed, "untouched"), buf_peek(&buf), STR("before12345"));
        buf_deinit(&buf);
    }
}

/* /proc reports size 0 for every file, like a file that grew after the query. */
TEST(a_file_longer_than_it_says_is_read_whole)
{
    struct buf buf;
    buf_init(&buf, 1 << 20);
    CHECK_OK("read", fs_read_whole(fs_real(), "/proc/self/mountinfo", 1 << 20, &buf));
    CHECK("more than a guess", buf_peek(&buf).len > 0);
    CHECK_STR("to its last line", str_of(buf.data + buf.len - 1, 1), STR("\n"));
    buf_clear(&buf);
    CHECK_ERR("and bounded", fs_read_whole(fs_real(), "/proc/self/mountinfo", 10, &buf),
              ERR_TOO_LARGE);
    CHECK_SIZE("untouched", buf_peek(&buf).len, 0);
    buf_deinit(&buf);
}

static void count_any(void *context, const char *name, enum fs_kind kind)
{
    (void)name, (void)kind;
    ++*(size_t *)context;
}

static size_t count_entries(const struct bed *bed, const char *dir)
{
    size_t count = 0;
    CHECK_OK("list", fs_list(bed->fs, dir, count_any, &count));
    return count;
}

TEST(publishing_replaces_and_leaves_nothing_beside)
{
    EACH_BED(bed)
    {
        struct fs_info info;
        CHECK_OK("new", fs_publish(bed.fs, in(&bed, "f"), STR("one"), 0600, 1));
        CHECK_OK("again", fs_publish(bed.fs, in(&bed, "f"), STR("two, and longer"), 0600, 2));
        check_content(&bed, "f", STR("two, and longer"), "the newest");
        CHECK_OK("empty", fs_publish(bed.fs, in(&bed, "e"), STR_EMPTY, 0644, 3));
        check_content(&bed, "e", STR(""), "nothing is content too");
        CHECK_SIZE(on(&bed, "no temporary"), count_entries(&bed, bed.root), 2);
        CHECK_OK("stat", fs_stat(bed.fs, in(&bed, "f"), &info));
        CHECK_U32(on(&bed, "the mode"), info.mode, 0600);
        put(&bed, ".f.00000004.tmp", "somebody's");
        CHECK_ERR(on(&bed, "a number used before"),
                  fs_publish(bed.fs, in(&bed, "f"), STR("x"), 0644, 4), ERR_EXISTS);
        check_content(&bed, ".f.00000004.tmp", STR("somebody's"), "not ours to touch");
        CHECK_ERR(on(&bed, "no directory"), fs_publish(bed.fs, in(&bed, "no/f"), STR("x"), 0644, 5),
                  ERR_NOT_FOUND);
        CHECK_ERR(on(&bed, "over a directory"), fs_publish(bed.fs, bed.root, STR("x"), 0644, 6),
                  ERR_INVALID);
    }
}

static const char *const bad_publish_names[] = {"", "x/", ".", "..", ".f.00000004.tmp"};

TEST(a_name_that_cannot_be_published_is_refused)
{
    EACH_BED(bed)
    {
        for (size_t i = 0; i < ARRAY_LEN(bad_publish_names); i++)
            CHECK_ERR(on(&bed, bad_publish_names[i]),
                      fs_publish(bed.fs, in(&bed, bad_publish_names[i]), STR("x"), 0644, 9),
                      ERR_INVALID);
        CHECK_SIZE(on(&bed, "nothing was made"), count_entries(&bed, bed.root), 0);
    }
}

static const struct {
    const char *name;
    bool swept;
} sweep_cases[] = {
    {".f.0123abcd.tmp", true},   {"..f.0123abcd.tmp", true}, {".a.b.c.ffffffff.tmp", true},
    {"f.0123abcd.tmp", false},   {".f.0123ABCD.tmp", false}, {".f.0123abc.tmp", false},
    {".f0123abcd.tmp", false},   {".ff0123abcd.tmp", false}, {"..0123abcd.tmp", false},
    {".f.0123abcd.tmp~", false}, {".f.0123abcg.tmp", false}, {"LOCK", false},
};

TEST(a_sweep_removes_only_temporary_files)
{
    EACH_BED(bed)
    {
        for (size_t i = 0; i < ARRAY_LEN(sweep_cases); i++) put(&bed, sweep_cases[i].name, "x");
        CHECK_OK("dir", fs_make_dir(bed.fs, in(&bed, ".d.0123abcd.tmp"), 0755));
        CHECK_OK("sweep", fs_sweep_temps(bed.fs, bed.root));
        for (size_t i = 0; i < ARRAY_LEN(sweep_cases); i++) {
            struct fs_info info;
            CHECK_ERR(on(&bed, sweep_cases[i].name),
                      fs_stat(bed.fs, in(&bed, sweep_cases[i].name), &info),
                      sweep_cases[i].swept ? ERR_NOT_FOUND : ERR_OK);
        }
        CHECK_ERR(on(&bed, "absent"), fs_sweep_temps(bed.fs, in(&bed, "x")), ERR_NOT_FOUND);
    }
}

TEST(a_sweep_ends_however_much_there_is)
{
    EACH_BED(bed)
    {
        enum { MANY = 1500 }; /* the names fill the buffer of one round more than once */
        char name[128];
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, ".%064d.%08x.tmp", i, (unsigned)i);
            put(&bed, name, "");
        }
        put(&bed, "keep", "x");
        CHECK_OK("sweep", fs_sweep_temps(bed.fs, bed.root));
        CHECK_SIZE(on(&bed, "what is left"), count_entries(&bed, bed.root), 1);
    }
}

TEST(directories_are_made_with_their_parents)
{
    EACH_BED(bed)
    {
        struct fs_info info;
        put(&bed, "file", "x");
        CHECK_OK("deep", fs_make_dirs(bed.fs, in(&bed, "a/b//c/"), 0700));
        CHECK_OK("stat", fs_stat(bed.fs, in(&bed, "a/b/c"), &info));
        CHECK_U32(on(&bed, "made"), info.kind, FS_DIRECTORY);
        CHECK_OK(on(&bed, "again"), fs_make_dirs(bed.fs, in(&bed, "a/b/c"), 0700));
        CHECK_OK(on(&bed, "what is always there"), fs_make_dirs(bed.fs, "/", 0700));
        CHECK_ERR(on(&bed, "a file is in the way"), fs_make_dirs(bed.fs, in(&bed, "file"), 0700),
                  ERR_EXISTS);
        CHECK_ERR(on(&bed, "a file is on the way"), fs_make_dirs(bed.fs, in(&bed, "file/x"), 0700),
                  ERR_EXISTS);
        CHECK_ERR(on(&bed, "nothing"), fs_make_dirs(bed.fs, "", 0700), ERR_INVALID);
    }
}

/* -- locks -- */

TEST(a_directory_has_one_holder)
{
    EACH_BED(bed)
    {
        struct fs_lock *lock, *second = NULL;
        struct note note = {""};
        char mine[64];
        CHECK_OK(on(&bed, "free"), fs_lock_dir(bed.fs, bed.root, &lock, &note));
        CHECK_ERR(on(&bed, "held, in this process too"),
                  fs_lock_dir(bed.fs, bed.root, &second, &note), ERR_BUSY);
        CHECK("the output is untouched", second == NULL);
        snprintf(mine, sizeof mine, "held by pid %d since ", bed.disk ? 1 : (int)getpid());
        CHECK_HAS(on(&bed, "who"), note.text, mine);
        CHECK_HAS(on(&bed, "where"), note.text, bed.root);
        CHECK_ERR(on(&bed, "no note wanted"), fs_lock_dir(bed.fs, bed.root, &second, NULL),
                  ERR_BUSY);
        fs_unlock(bed.fs, lock);
        CHECK_OK(on(&bed, "free again"), fs_lock_dir(bed.fs, bed.root, &lock, &note));
        fs_unlock(bed.fs, lock);
        fs_unlock(bed.fs, NULL);
        check_content(&bed, "LOCK", STR(""), "no holder is named when there is none");
    }
}

TEST(a_lock_that_cannot_be_acquired_reports_the_reason)
{
    EACH_BED(bed)
    {
        struct fs_lock *lock = NULL;
        struct note note = {""};
        put(&bed, "file", "x");
        CHECK_ERR(on(&bed, "absent"), fs_lock_dir(bed.fs, in(&bed, "x"), &lock, &note),
                  ERR_NOT_FOUND);
        CHECK_HAS(on(&bed, "why"), note.text, "x: not found");
        CHECK_ERR(on(&bed, "a file"), fs_lock_dir(bed.fs, in(&bed, "file"), &lock, &note),
                  ERR_INVALID);
        CHECK_OK("dir", fs_make_dir(bed.fs, in(&bed, "LOCK"), 0755));
        CHECK_ERR(on(&bed, "taken by a directory"), fs_lock_dir(bed.fs, bed.root, &lock, &note),
                  ERR_INVALID);
    }
}

TEST(content_of_a_damaged_lock_file_is_not_printed)
{
    EACH_BED(bed)
    {
        static const char *const texts[] = {
            "",
            "pid",
            "pid x since y",
            "pid 12",
            "pid 12 until z",
            "pid 12 since \xff",
            "pid 12 since 2026-11-15T10:54:18.123Z and so on and so on",
        };
        struct fs_lock *lock, *second;
        struct note note;
        CHECK_OK("lock", fs_lock_dir(bed.fs, bed.root, &lock, NULL));
        for (size_t i = 0; i + 1 < ARRAY_LEN(texts); i++) {
            put(&bed, "LOCK", texts[i]);
            CHECK_ERR(texts[i], fs_lock_dir(bed.fs, bed.root, &second, &note), ERR_BUSY);
            CHECK_HAS(on(&bed, texts[i]), note.text, "held by another process that left no pid");
        }
        put(&bed, "LOCK", texts[ARRAY_LEN(texts) - 1]);
        CHECK_ERR("long", fs_lock_dir(bed.fs, bed.root, &second, &note), ERR_BUSY);
        CHECK_HAS(on(&bed, "the beginning is ours"), note.text,
                  "pid 12 since 2026-11-15T10:54:18.123Z");
        fs_unlock(bed.fs, lock);
    }
}

/* -- the kernel's only -- */

/* The child takes the lock, reports that, and is killed: no unlock ever runs. */
TEST(a_lock_is_released_when_its_holder_is_killed)
{
    struct bed bed = {0};
    struct fs_lock *lock;
    struct note note;
    int round = 0, ready[2], alive[2];
    char byte, holder[64];
    next_bed(&bed, &round);
    CHECK("pipes", pipe(ready) == 0 && pipe(alive) == 0);
    pid_t child = fork();
    CHECK("fork", child >= 0);
    if (child == 0) {
        bool held = fs_lock_dir(bed.fs, bed.root, &lock, NULL) == ERR_OK;
        close(alive[1]);
        if (write(ready[1], held ? "y" : "n", 1) != 1) _exit(1);
        _exit(read(alive[0], &byte, 1) != 0); /* ends with the test if nothing kills it */
    }
    CHECK("the child answers", read(ready[0], &byte, 1) == 1 && byte == 'y');
    CHECK_ERR("held by the child", fs_lock_dir(bed.fs, bed.root, &lock, &note), ERR_BUSY);
    snprintf(holder, sizeof holder, "held by pid %d since", (int)child);
    CHECK_HAS("the child's pid", note.text, holder);
    CHECK("kill", kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK_OK("free", fs_lock_dir(bed.fs, bed.root, &lock, &note));
    fs_unlock(bed.fs, lock);
    for (int i = 0; i < 2; i++) close(ready[i]), close(alive[i]);
}

TEST(only_regular_files_are_opened_and_links_only_to_read)
{
    struct bed bed = {0};
    struct fs_file *file = NULL;
    struct fs_info info;
    int round = 0;
    next_bed(&bed, &round);
    put(&bed, "file", "content");
    CHECK("pipe", mkfifo(in(&bed, "pipe"), 0600) == 0);
    CHECK("link", symlink("file", in(&bed, "link")) == 0);
    CHECK("link", symlink("nowhere", in(&bed, "dangling")) == 0);
    CHECK_ERR("a pipe must not make us wait", fs_open(bed.fs, in(&bed, "pipe"), FS_READ, 0, &file),
              ERR_INVALID);
    CHECK_ERR("nor to write", fs_open(bed.fs, in(&bed, "pipe"), FS_WRITE, 0, &file), ERR_INVALID);
    CHECK_ERR("a device", fs_open(bed.fs, "/dev/null", FS_READ, 0, &file), ERR_INVALID);
    check_content(&bed, "link", STR("content"), "a mounted secret is often a link");
    CHECK_OK("stat follows", fs_stat(bed.fs, in(&bed, "link"), &info));
    CHECK_U64("the file's size", info.size, 7);
    CHECK_ERR("never written through", fs_open(bed.fs, in(&bed, "link"), FS_WRITE, 0, &file),
              ERR_INVALID);
    CHECK_ERR("nor made through",
              fs_open(bed.fs, in(&bed, "dangling"), FS_WRITE | FS_CREATE, 0644, &file),
              ERR_INVALID);
    CHECK_OK("publishing replaces the link",
             fs_publish(bed.fs, in(&bed, "link"), STR("n"), 0644, 1));
    check_content(&bed, "file", STR("content"), "not what it led to");
}

TEST(a_link_leads_to_its_neighbour_and_is_swapped_in_one_step)
{
    EACH_BED(bed)
    {
        struct fs_info info;
        struct fs_file *file = NULL;
        size_t counts[3] = {0};
        CHECK_OK(on(&bed, "a directory"), fs_make_dir(bed.fs, in(&bed, "d1"), 0700));
        CHECK_OK(on(&bed, "another"), fs_make_dir(bed.fs, in(&bed, "d2"), 0700));
        put(&bed, "d1/file", "first");
        put(&bed, "d2/file", "second");
        CHECK_OK(on(&bed, "made"), fs_make_link(bed.fs, "d1", in(&bed, "latest")));
        check_content(&bed, "latest/file", STR("first"), "led to");
        CHECK_OK(on(&bed, "stat follows"), fs_stat(bed.fs, in(&bed, "latest"), &info));
        CHECK(on(&bed, "to the directory"), info.kind == FS_DIRECTORY);
        CHECK_ERR(on(&bed, "there"), fs_make_link(bed.fs, "d2", in(&bed, "latest")), ERR_EXISTS);
        CHECK_OK(on(&bed, "new"), fs_make_link(bed.fs, "d2", in(&bed, "latest.tmp")));
        CHECK_OK(on(&bed, "swap"), fs_rename(bed.fs, in(&bed, "latest.tmp"), in(&bed, "latest")));
        check_content(&bed, "latest/file", STR("second"), "swapped");
        check_content(&bed, "d1/file", STR("first"), "the old one stays");
        CHECK_OK(on(&bed, "list"), fs_list(bed.fs, bed.root, count_kinds, counts));
        CHECK_SIZE(on(&bed, "listed as it is"), counts[FS_OTHER], 1);
        CHECK_ERR(on(&bed, "never written through"),
                  fs_open(bed.fs, in(&bed, "latest"), FS_WRITE, 0, &file), ERR_INVALID);
        CHECK_OK(on(&bed, "removed"), fs_remove(bed.fs, in(&bed, "latest")));
        check_content(&bed, "d2/file", STR("second"), "only the link goes");
        CHECK_OK(on(&bed, "to nothing"), fs_make_link(bed.fs, "none", in(&bed, "latest")));
        CHECK_ERR(on(&bed, "nothing"), fs_stat(bed.fs, in(&bed, "latest"), &info), ERR_NOT_FOUND);
        CHECK_ERR(on(&bed, "not beside"), fs_make_link(bed.fs, "a/b", in(&bed, "x")), ERR_INVALID);
        CHECK_ERR(on(&bed, "not above"), fs_make_link(bed.fs, "..", in(&bed, "x")), ERR_INVALID);
    }
}

TEST(out_of_descriptors_is_full)
{
    struct bed bed = {0};
    struct fs_file *file = NULL;
    struct rlimit before, none;
    int round = 0;
    next_bed(&bed, &round);
    put(&bed, "f", "x");
    CHECK("limit", getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    CHECK("limit", setrlimit(RLIMIT_NOFILE, &none) == 0);
    enum err err = fs_open(bed.fs, in(&bed, "f"), FS_READ, 0, &file);
    struct fs_lock *lock = NULL;
    enum err lock_err = fs_lock_dir(bed.fs, bed.root, &lock, NULL);
    CHECK("limit", setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_ERR("a limit, not a failing disk", err, ERR_FULL);
    CHECK_ERR("a limit, not a failing disk", lock_err, ERR_FULL);
}

/* Runs as a user other than root, whichever user runs the test. */
TEST(an_unreadable_file_is_denied_and_needs_no_sync)
{
    enum { NOBODY = 65534 };
    struct fs *fs = fs_real();
    struct fs_file *file = NULL;
    char shut[PATH_CAP], inside[PATH_CAP], deeper[PATH_CAP];
    bool root = geteuid() == 0;
    int len = snprintf(shut, sizeof shut, "%s/shut", test_dir());
    CHECK("it fits", len < PATH_CAP - 20);
    snprintf(inside, sizeof inside, "%.200s/own", shut);
    snprintf(deeper, sizeof deeper, "%.200s/own/data", shut);
    CHECK("open to all", chmod(test_dir(), 0777) == 0);
    if (root && seteuid(NOBODY) != 0) SKIP("this root may not become anybody else");
    bool made = mkdir(shut, 0755) == 0 && mkdir(inside, 0755) == 0 && chmod(shut, 0311) == 0;
    enum err sync = fs_sync_dir(fs, shut), there = fs_make_dirs(fs, inside, 0755);
    enum err below = fs_make_dirs(fs, deeper, 0755), secret = ERR_OK, write = ERR_OK;
    made = made && chmod(deeper, 0) == 0;
    struct fs_info info;
    char hidden[PATH_CAP + 8];
    snprintf(hidden, sizeof hidden, "%s/x", deeper);
    secret = fs_stat(fs, hidden, &info);
    write = fs_open(fs, hidden, FS_WRITE | FS_CREATE, 0644, &file);
    chmod(deeper, 0755);
    chmod(shut, 0755);
    if (root) CHECK("root again", seteuid(0) == 0);
    CHECK("the place", made);
    CHECK_ERR("a directory that may be searched and not read", sync, ERR_DENIED);
    CHECK_OK("its parent was not ours to sync", there);
    CHECK_OK("and a file created below is", below);
    CHECK_ERR("behind a shut door", secret, ERR_DENIED);
    CHECK_ERR("behind a shut door", write, ERR_DENIED);
}

TEST(descriptors_do_not_leak_into_children)
{
    struct bed bed = {0};
    struct fs_file *file;
    struct fs_lock *lock;
    int round = 0, open_ones = 0;
    next_bed(&bed, &round);
    put(&bed, "f", "x");
    CHECK_OK("open", fs_open(bed.fs, in(&bed, "f"), FS_READ, 0, &file));
    CHECK_OK("lock", fs_lock_dir(bed.fs, bed.root, &lock, NULL));
    for (int fd = 3; fd < 256; fd++) {
        char link[64], target[PATH_CAP] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) < 0 || !strstr(target, bed.root)) continue;
        open_ones++;
        CHECK(target, fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    CHECK_I64("the file and the lock", open_ones, 2);
    fs_unlock(bed.fs, lock);
    fs_close(bed.fs, file);
}
