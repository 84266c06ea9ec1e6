/* SPDX-License-Identifier: Apache-2.0 */
/* A real full disk: publishing keeps the old content and leaves no temporary file, a directory
 * can still be locked, and all works again when there is room. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/fs.h"
#include "lib/hosts.h"
#include "lib/test.h"

enum { DISK_BYTES = 1 << 20, CHUNK = 16 * 1024, FILL_MAX = 64 * DISK_BYTES / CHUNK };

static char disk[64], path[96], filler[96];

/* Writes until the disk says that it is full. */
static void fill(struct fs *fs)
{
    static const char bytes[CHUNK] = {'x'};
    struct fs_file *file;
    enum err err = ERR_OK;
    CHECK_OK("filler", fs_open(fs, filler, FS_WRITE | FS_CREATE, 0644, &file));
    for (uint64_t i = 0; !err && i < FILL_MAX; i++)
        err = fs_write_at(fs, file, i * CHUNK, str_of(bytes, CHUNK));
    for (uint64_t size; err == ERR_NO_SPACE;) { /* and the last bytes, one block after another */
        CHECK_OK("size", fs_file_size(fs, file, &size));
        if (fs_write_at(fs, file, size, str_of(bytes, 512))) break;
    }
    CHECK_ERR("the disk is full", err, ERR_NO_SPACE);
    fs_close(fs, file);
}

static void count_entry(void *context, const char *name, enum fs_kind kind)
{
    (void)kind;
    if (strcmp(name, "lost+found") != 0) ++*(size_t *)context;
}

static void check_content(struct fs *fs, struct str want, const char *why)
{
    struct buf buf;
    buf_init(&buf, DISK_BYTES);
    CHECK_OK(why, fs_read_whole(fs, path, DISK_BYTES, &buf));
    CHECK_STR(why, buf_peek(&buf), want);
    buf_deinit(&buf);
}

TEST(a_full_disk_keeps_what_it_has)
{
    static const char large[8 * CHUNK] = {'n'};
    struct fs *fs = fs_real();
    struct fs_lock *lock, *second;
    struct note note;
    char reason[256];
    uint64_t left;
    size_t entries = 0;

    snprintf(disk, sizeof disk, "%s/disk", test_dir());
    snprintf(path, sizeof path, "%s/f", disk);
    snprintf(filler, sizeof filler, "%s/filler", disk);
    CHECK("directory", mkdir(disk, 0755) == 0);
    if (!sandbox_enter(reason, sizeof reason)) SKIP("no sandbox: %s", reason);
    if (!disk_mount(disk, DISK_BYTES, reason, sizeof reason)) SKIP("no small disk: %s", reason);

    CHECK_OK("a first holder", fs_lock_dir(fs, disk, &lock, NULL));
    fs_unlock(fs, lock);
    CHECK_OK("old", fs_publish(fs, path, STR("old"), 0644, 1));
    fill(fs);
    CHECK_OK("free", fs_free_bytes(fs, disk, &left));
    CHECK("next to nothing is free", left < CHUNK);
    for (uint64_t i = 2; i < 10; i++)
        CHECK_ERR("no room", fs_publish(fs, path, str_of(large, sizeof large), 0644, i),
                  ERR_NO_SPACE);
    check_content(fs, STR("old"), "the old content is kept");
    CHECK_OK("list", fs_list(fs, disk, count_entry, &entries));
    CHECK_SIZE("LOCK, the file and the filler", entries, 3);
    CHECK_OK("a lock needs no room", fs_lock_dir(fs, disk, &lock, &note));
    CHECK_ERR("and holds", fs_lock_dir(fs, disk, &second, &note), ERR_BUSY);
    fs_unlock(fs, lock);
    CHECK_OK("make room", fs_remove(fs, filler));
    CHECK_OK("room", fs_publish(fs, path, str_of(large, sizeof large), 0644, 10));
    check_content(fs, str_of(large, sizeof large), "the new content");
    disk_unmount(disk);
}
