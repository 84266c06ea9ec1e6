/* SPDX-License-Identifier: Apache-2.0 */
/* Implements fs.h with the kernel's file system. Any thread may call; each handle has one owner.
 *
 * A directory is locked with flock(2) on its file LOCK. The kernel releases the lock when the
 * process dies, and two opens in one process exclude each other, too. LOCK's content is only for
 * error messages. */
#include "io/real_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

struct real_file {
    struct fs_file base;
    int fd;
};
struct fs_lock {
    struct real_file file; /* the open LOCK file */
};

/* The only map from the kernel's error numbers to enum err. */
enum err real_err(int uv_code)
{
    switch (-uv_code) {
    case 0: return ERR_OK;
    case ENOENT: return ERR_NOT_FOUND;
    case EEXIST: return ERR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS: return ERR_DENIED;
    case ENOSPC:
    case EDQUOT: return ERR_NO_SPACE;
    case ENOMEM:
    case ENOBUFS: return ERR_NOMEM;
    case EMFILE:
    case ENFILE: return ERR_FULL;
    case EFBIG:
    case EOVERFLOW: return ERR_TOO_LARGE;
    case ENOTEMPTY: return ERR_PRECONDITION;
    case EBUSY:
    case ETXTBSY:
    case EADDRINUSE: return ERR_BUSY;
    case EINVAL:
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP: /* also of opening a symbolic link for writing */
    case ENXIO: /* of opening a socket, or a pipe without a reader */
    case EXDEV: return ERR_INVALID;
    case ENOSYS:
    case EOPNOTSUPP: return ERR_UNSUPPORTED;
    case ETIMEDOUT: return ERR_TIMEOUT;
    case ECANCELED: return ERR_CANCELLED;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EAGAIN: return ERR_UNAVAILABLE;
    default: return ERR_IO;
    }
}

static int fd_of(const struct fs_file *file)
{
    return ((const struct real_file *)file)->fd;
}

/* Returns -1 with errno on failure. */
static int open_retrying(const char *path, int flags, uint32_t mode)
{
    int fd;
    do fd = open(path, flags | O_CLOEXEC | O_NOCTTY, (mode_t)mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* -- files -- */

static enum err real_open(struct fs *, const char *path, uint32_t flags, uint32_t mode,
                          struct fs_file **ret_file)
{
    /* Non-blocking: opening a pipe by mistake must fail, not wait. */
    int how = O_NONBLOCK;
    if (flags & FS_WRITE) how |= O_NOFOLLOW | (flags & FS_READ ? O_RDWR : O_WRONLY);
    if (flags & FS_CREATE) how |= O_CREAT;
    if (flags & FS_EXCLUSIVE) how |= O_EXCL;
    if (flags & FS_TRUNCATE) how |= O_TRUNC;
    if (flags & FS_APPEND) how |= O_APPEND; /* pwrite then ignores the offset */
    struct real_file *file = calloc(1, sizeof *file);
    if (!file) return ERR_NOMEM;
    file->fd = open_retrying(path, how, mode);
    struct stat info;
    enum err err = ERR_OK;
    if (file->fd < 0 || fstat(file->fd, &info) != 0)
        err = real_err(-errno);
    else if (!S_ISREG(info.st_mode))
        err = ERR_INVALID;
    if (err) {
        if (file->fd >= 0) close(file->fd);
        free(file);
        return err;
    }
    *ret_file = (struct fs_file *)file;
    return ERR_OK;
}

static void real_close(struct fs *, struct fs_file *file)
{
    close(fd_of(file)); /* durable data was synced before */
    free(file);
}

static enum err real_read_at(struct fs *, struct fs_file *file, uint64_t offset, void *into,
                             size_t len, size_t *ret_got)
{
    size_t done = 0;
    while (done < len) {
        ssize_t got = pread(fd_of(file), (char *)into + done, len - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return real_err(-errno);
        if (got == 0) break;
        done += (size_t)got;
    }
    *ret_got = done;
    return ERR_OK;
}

static enum err real_write_at(struct fs *, struct fs_file *file, uint64_t offset, struct str bytes)
{
    for (size_t done = 0; done < bytes.len;) {
        ssize_t put =
            pwrite(fd_of(file), bytes.at + done, bytes.len - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return real_err(-errno);
        if (put == 0) return ERR_IO; /* no progress: a retry could loop forever */
        done += (size_t)put;
    }
    return ERR_OK;
}

/* Retries only after EINTR: after any other error the kernel may have dropped the data. */
static enum err real_sync(struct fs *, struct fs_file *file)
{
    int bad;
    do bad = fdatasync(fd_of(file));
    while (bad && errno == EINTR);
    return bad ? real_err(-errno) : ERR_OK;
}

static enum err real_truncate(struct fs *, struct fs_file *file, uint64_t size)
{
    int bad;
    do bad = ftruncate(fd_of(file), (off_t)size);
    while (bad && errno == EINTR);
    return bad ? real_err(-errno) : ERR_OK;
}

static enum err real_file_size(struct fs *, struct fs_file *file, uint64_t *ret_size)
{
    struct stat info;
    if (fstat(fd_of(file), &info) != 0) return real_err(-errno);
    *ret_size = (uint64_t)info.st_size;
    return ERR_OK;
}

/* -- names -- */

static enum fs_kind kind_of(mode_t mode)
{
    return S_ISREG(mode) ? FS_REGULAR : S_ISDIR(mode) ? FS_DIRECTORY : FS_OTHER;
}

static enum err real_stat(struct fs *, const char *path, struct fs_info *ret_info)
{
    struct stat info;
    if (stat(path, &info) != 0) return real_err(-errno);
    *ret_info = (struct fs_info){
        .kind = kind_of(info.st_mode),
        .size = (uint64_t)info.st_size,
        .inode = info.st_ino,
        .modified_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
        .mode = info.st_mode & 0777,
    };
    return ERR_OK;
}

static enum err real_rename(struct fs *, const char *from, const char *to)
{
    if (rename(from, to) == 0) return ERR_OK;
    /* POSIX allows both EEXIST and ENOTEMPTY. */
    return errno == EEXIST ? ERR_PRECONDITION : real_err(-errno);
}

static enum err real_remove(struct fs *, const char *path)
{
    if (unlink(path) == 0) return ERR_OK;
    if (errno != EISDIR) return real_err(-errno);
    if (rmdir(path) == 0) return ERR_OK;
    return errno == EEXIST ? ERR_PRECONDITION : real_err(-errno);
}

static enum err real_make_dir(struct fs *, const char *path, uint32_t mode)
{
    return mkdir(path, (mode_t)mode) == 0 ? ERR_OK : real_err(-errno);
}

static enum err real_make_link(struct fs *, const char *target, const char *path)
{
    return symlink(target, path) == 0 ? ERR_OK : real_err(-errno);
}

/* Some file systems leave d_type unset. */
static enum fs_kind entry_kind(int dir_fd, const struct dirent *entry)
{
    struct stat info;
    switch (entry->d_type) {
    case DT_REG: return FS_REGULAR;
    case DT_DIR: return FS_DIRECTORY;
    case DT_UNKNOWN: break;
    default: return FS_OTHER;
    }
    if (fstatat(dir_fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) return FS_OTHER;
    return kind_of(info.st_mode);
}

static enum err real_list(struct fs *, const char *path, fs_list_fn *each, void *context)
{
    DIR *dir = opendir(path);
    if (!dir) return real_err(-errno);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        each(context, entry->d_name, entry_kind(dirfd(dir), entry));
    }
    enum err err = errno ? real_err(-errno) : ERR_OK;
    closedir(dir);
    return err;
}

static enum err real_sync_dir(struct fs *, const char *path)
{
    int bad, fd = open_retrying(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return real_err(-errno);
    do bad = fsync(fd);
    while (bad && errno == EINTR);
    /* EINVAL: the file system cannot sync directories, which muster accepts. */
    enum err err = bad && errno != EINVAL ? real_err(-errno) : ERR_OK;
    close(fd);
    return err;
}

static enum err real_free_bytes(struct fs *, const char *path, uint64_t *ret_bytes)
{
    struct statvfs info;
    int bad;
    do bad = statvfs(path, &info);
    while (bad && errno == EINTR);
    if (bad) return real_err(-errno);
    /* Without root's reserve. */
    *ret_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return ERR_OK;
}

/* -- directory locks -- */

/* A process may have removed the file between open and lock. Later processes would then lock
 * another file. */
static bool still_named(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

static void note_holder(int fd, const char *dir, struct note *note)
{
    char text[FS_LOCK_TEXT_CAP];
    ssize_t got = pread(fd, text, sizeof text, 0);
    fs_lock_busy_note(note, dir, str_of(text, got > 0 ? (size_t)got : 0));
}

/* Errors are ignored: the pid is only for the message of a second process. */
static void write_holder(struct fs_file *file)
{
    char text[FS_LOCK_TEXT_CAP];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    wall_time since = {(uint64_t)now.tv_sec * MS_PER_SECOND + (uint64_t)now.tv_nsec / NS_PER_MS};
    size_t len = fs_lock_text((uint64_t)getpid(), since, text);
    if (!real_truncate(NULL, file, 0)) (void)real_write_at(NULL, file, 0, str_of(text, len));
}

static enum err real_lock_dir(struct fs *, const char *path, struct fs_lock **ret_lock,
                              struct note *note)
{
    enum { TRIES_MAX = 16 }; /* a retry follows only if a process removed LOCK meanwhile */
    char file[FS_PATH_CAP];
    if (fs_path(path, FS_LOCK_NAME, file, NULL)) return ERR_INVALID;
    struct fs_lock *lock = malloc(sizeof *lock);
    if (!lock) return ERR_NOMEM;
    enum err err = ERR_IO;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        int bad;
        /* 0600: any reader of the file could hold the lock. */
        lock->file.fd = open_retrying(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (lock->file.fd < 0) {
            err = real_err(-errno);
            break;
        }
        do bad = flock(lock->file.fd, LOCK_EX | LOCK_NB);
        while (bad && errno == EINTR);
        if (bad) {
            err = errno == EWOULDBLOCK ? ERR_BUSY : real_err(-errno);
            if (err == ERR_BUSY) note_holder(lock->file.fd, path, note);
        } else if (still_named(lock->file.fd, file)) {
            write_holder(&lock->file.base);
            *ret_lock = lock;
            return ERR_OK;
        }
        close(lock->file.fd);
        if (bad) break;
    }
    free(lock);
    return err;
}

static void real_unlock(struct fs *, struct fs_lock *lock)
{
    /* No message may name this process after its unlock. */
    (void)real_truncate(NULL, &lock->file.base, 0);
    close(lock->file.fd);
    free(lock);
}

struct fs *fs_real(void)
{
    static struct fs real = {
        .open = real_open,
        .close = real_close,
        .read_at = real_read_at,
        .write_at = real_write_at,
        .sync = real_sync,
        .truncate = real_truncate,
        .file_size = real_file_size,
        .stat = real_stat,
        .rename = real_rename,
        .remove = real_remove,
        .make_dir = real_make_dir,
        .make_link = real_make_link,
        .list = real_list,
        .sync_dir = real_sync_dir,
        .free_bytes = real_free_bytes,
        .lock_dir = real_lock_dir,
        .unlock = real_unlock,
    };
    return &real;
}
