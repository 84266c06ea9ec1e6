/* SPDX-License-Identifier: Apache-2.0 */
/* Rare answers of the kernel: interrupted calls, short reads and writes, a sync
 * that fails once. The linker replaces the system calls of fs_real.c (see meson.build). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fs.h"
#include "lib/test.h"

enum { PATH_CAP = 256 };

/* The next `times` calls answer -1 with `code`; reads and writes move at most `at_most` bytes. */
struct plan {
    int times, code, calls;
};
static struct plan plan_read, plan_write, plan_sync, plan_fsync, plan_truncate, plan_flock;
static size_t at_most;

static bool fails(struct plan *plan)
{
    plan->calls++;
    if (plan->times == 0) return false;
    plan->times--;
    errno = plan->code;
    return true;
}

ssize_t __real_pread64(int fd, void *into, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *into, size_t len, off_t offset);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t len, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t offset);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size);
int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);

ssize_t __wrap_pread64(int fd, void *into, size_t len, off_t offset)
{
    if (fails(&plan_read)) return -1;
    return __real_pread64(fd, into, at_most && len > at_most ? at_most : len, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
    if (fails(&plan_write)) return plan_write.code ? -1 : 0;
    return __real_pwrite64(fd, bytes, at_most && len > at_most ? at_most : len, offset);
}

int __wrap_fdatasync(int fd)
{
    return fails(&plan_sync) ? -1 : __real_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
    return fails(&plan_fsync) ? -1 : __real_fsync(fd);
}

int __wrap_ftruncate64(int fd, off_t size)
{
    return fails(&plan_truncate) ? -1 : __real_ftruncate64(fd, size);
}

int __wrap_flock(int fd, int how)
{
    return fails(&plan_flock) ? -1 : __real_flock(fd, how);
}

static const char *fresh(const char *name)
{
    static char path[PATH_CAP];
    static int number;
    snprintf(path, sizeof path, "%s/%d", test_dir(), number++);
    CHECK("directory", mkdir(path, 0755) == 0);
    size_t len = strlen(path);
    snprintf(path + len, sizeof path - len, "/%s", name);
    at_most = 0;
    plan_read = plan_write = plan_sync = plan_fsync = plan_truncate = plan_flock = (struct plan){0};
    return path;
}

static struct fs_file *opened(const char *path)
{
    struct fs_file *file = NULL;
    CHECK_OK(path, fs_open(fs_real(), path, FS_READ | FS_WRITE | FS_CREATE, 0644, &file));
    return file;
}

TEST(short_reads_and_writes_are_carried_on)
{
    const char *path = fresh("f");
    struct fs *fs = fs_real();
    struct fs_file *file = opened(path);
    char bytes[32];
    size_t got = 0;
    at_most = 3;
    CHECK_OK("write", fs_write_at(fs, file, 0, STR("a write in many parts")));
    CHECK_I64("in parts of three", plan_write.calls, 7);
    CHECK_OK("read", fs_read_at(fs, file, 0, bytes, sizeof bytes, &got));
    CHECK_STR("all of it", str_of(bytes, got), STR("a write in many parts"));
    fs_close(fs, file);
}

TEST(interrupted_calls_are_made_again)
{
    const char *path = fresh("f");
    struct fs *fs = fs_real();
    struct fs_file *file = opened(path);
    struct fs_lock *lock;
    char bytes[32];
    size_t got = 0;
    plan_read = plan_write = plan_sync = plan_fsync = plan_truncate = plan_flock =
        (struct plan){.times = 2, .code = EINTR};
    CHECK_OK("write", fs_write_at(fs, file, 0, STR("interrupted")));
    CHECK_OK("read", fs_read_at(fs, file, 0, bytes, sizeof bytes, &got));
    CHECK_STR("all of it", str_of(bytes, got), STR("interrupted"));
    CHECK_OK("truncate", fs_truncate(fs, file, 5));
    CHECK_OK("sync", fs_sync(fs, file));
    CHECK_OK("sync_dir", fs_sync_dir(fs, test_dir()));
    CHECK_OK("lock", fs_lock_dir(fs, test_dir(), &lock, NULL));
    CHECK_I64("twice and then done", plan_sync.calls + plan_fsync.calls, 6);
    fs_unlock(fs, lock);
    fs_close(fs, file);
}

TEST(a_sync_that_failed_once_never_succeeds_on_that_handle)
{
    const char *path = fresh("f");
    struct fs *fs = fs_real();
    struct fs_file *file = opened(path);
    plan_sync = (struct plan){.times = 1, .code = EIO};
    CHECK_OK("write", fs_write_at(fs, file, 0, STR("x")));
    CHECK_ERR("fails", fs_sync(fs, file), ERR_IO);
    CHECK_ERR("though the kernel would say yes now", fs_sync(fs, file), ERR_IO);
    CHECK_I64("it was not asked again", plan_sync.calls, 1);
    CHECK_ERR("no more writes", fs_write_at(fs, file, 0, STR("y")), ERR_IO);
    fs_close(fs, file);
}

TEST(a_write_that_makes_no_progress_ends_in_an_error)
{
    const char *path = fresh("f");
    struct fs *fs = fs_real();
    struct fs_file *file = opened(path);
    plan_write = (struct plan){.times = 1, .code = 0};
    CHECK_ERR("zero bytes", fs_write_at(fs, file, 0, STR("x")), ERR_IO);
    fs_close(fs, file);
}

static const struct {
    int code;
    enum err want;
} mapped[] = {
    {EIO, ERR_IO},          {ENOSPC, ERR_NO_SPACE}, {EDQUOT, ERR_NO_SPACE}, {EROFS, ERR_DENIED},
    {EFBIG, ERR_TOO_LARGE}, {ENOMEM, ERR_NOMEM},    {EPERM, ERR_DENIED},    {ENOTCONN, ERR_IO},
};

TEST(errno_becomes_ours)
{
    const char *path = fresh("f");
    struct fs *fs = fs_real();
    struct fs_file *file = opened(path);
    for (size_t i = 0; i < ARRAY_LEN(mapped); i++) {
        plan_write = plan_truncate = (struct plan){.times = 1, .code = mapped[i].code};
        CHECK_ERR(strerror(mapped[i].code), fs_write_at(fs, file, 0, STR("x")), mapped[i].want);
        CHECK_ERR(strerror(mapped[i].code), fs_truncate(fs, file, 9), mapped[i].want);
    }
    fs_close(fs, file);
}

TEST(a_publish_whose_directory_cannot_be_synced_is_in_doubt)
{
    const char *path = fresh("f");
    struct fs *fs = fs_real();
    CHECK_OK("old", fs_publish(fs, path, STR("old"), 0644, 1));
    plan_fsync = (struct plan){.times = 1, .code = EIO};
    CHECK_ERR("doubt", fs_publish(fs, path, STR("new"), 0644, 2), ERR_UNKNOWN);
    plan_sync = (struct plan){.times = 1, .code = EIO};
    CHECK_ERR("no doubt", fs_publish(fs, path, STR("newer"), 0644, 3), ERR_IO);
    plan_fsync = (struct plan){.times = 1, .code = EINVAL};
    CHECK_OK("nothing to be had", fs_publish(fs, path, STR("newest"), 0644, 4));
}

TEST(a_lock_holds_though_its_holder_could_not_be_written)
{
    const char *path = fresh("");
    struct fs *fs = fs_real();
    struct fs_lock *lock, *second;
    struct note note;
    struct fs_file *file;
    char lock_path[PATH_CAP + 8];
    snprintf(lock_path, sizeof lock_path, "%sLOCK", path);
    file = opened(lock_path);
    CHECK_OK("a dead one",
             fs_write_at(fs, file, 0, STR("pid 12 since 2026-01-01T00:00:00.000Z\n")));
    fs_close(fs, file);
    plan_write = (struct plan){.times = 1, .code = ENOSPC};
    CHECK_OK("held", fs_lock_dir(fs, path, &lock, NULL));
    CHECK_ERR("refused", fs_lock_dir(fs, path, &second, &note), ERR_BUSY);
    CHECK_HAS("nobody is named wrongly", note.text, "left no pid");
    fs_unlock(fs, lock);
    plan_flock = (struct plan){.times = 1, .code = ENOLCK};
    CHECK_ERR("no locks to be had", fs_lock_dir(fs, path, &lock, &note), ERR_IO);
    CHECK_HAS("said", note.text, "i/o error");
}
