/* SPDX-License-Identifier: Apache-2.0 */
/* Files with explicit sync, behind a function table: tests fail the k-th call or simulate a power
 * cut.
 *
 * Calls block: use them on a worker, or for small files at start. Nothing is durable before fs_sync
 * (content) and fs_sync_dir (names) have returned. A file is a regular file, never a pipe, a device
 * or a directory.
 *
 * A failed fs_sync is final for its handle: every later write and sync returns the same error. The
 * kernel may have dropped the dirty pages and would report success the next time. Write the data
 * again, to another file. */
#ifndef IO_FS_H
#define IO_FS_H
#include "base/buf.h"
#include "base/note.h"
#include "base/time.h"

struct fs;
struct fs_file; /* an open file with one owner */
struct fs_lock;

enum {
    FS_PATH_CAP = 4096, /* bytes, including NUL; a longer path is ERR_INVALID */
    FS_NAME_MAX = 255,  /* bytes of one path component */
};
enum fs_flags {
    FS_READ = BIT(0),
    FS_WRITE = BIT(1),     /* ERR_INVALID if the path is a symbolic link */
    FS_CREATE = BIT(2),    /* creates an absent file with `mode`; needs FS_WRITE */
    FS_EXCLUSIVE = BIT(3), /* with FS_CREATE: ERR_EXISTS if the file exists */
    FS_TRUNCATE = BIT(4),  /* needs FS_WRITE */
    /* Each write is appended atomically, also beside other processes' writes, and ignores its
     * offset. Needs FS_WRITE. */
    FS_APPEND = BIT(5),
};
enum fs_kind { FS_REGULAR, FS_DIRECTORY, FS_OTHER };
struct fs_info {
    enum fs_kind kind;
    uint64_t size, inode; /* a directory's size is undefined */
    int64_t modified_ns;  /* nanoseconds since 1970 */
    uint32_t mode;        /* permission bits */
};
/* The callee must not change the listed directory. */
typedef void fs_list_fn(void *context, const char *name, enum fs_kind kind);

/* Errors of all calls: ERR_NOT_FOUND, ERR_EXISTS, ERR_DENIED, ERR_NO_SPACE, ERR_NOMEM, ERR_IO.
 * ERR_INVALID: the call does not accept the path or kind of file. ERR_FULL: too many open files.
 * ERR_CLOSED: the handle's simulated host crashed.
 * Rare: ERR_TOO_LARGE (the disk's limit for a file), ERR_BUSY (a mount point), ERR_UNSUPPORTED. */
enum err fs_open(struct fs *fs, const char *path, uint32_t flags, uint32_t mode,
                 struct fs_file **ret_file);
void fs_close(struct fs *fs, struct fs_file *file); /* NULL is allowed */
/* *ret_got is less than `len` only at the end of the file. */
enum err fs_read_at(struct fs *fs, struct fs_file *file, uint64_t offset, void *into, size_t len,
                    size_t *ret_got);
/* After an error, any part of the bytes may be in the file. A gap before `offset` is filled with
 * zeros. */
enum err fs_write_at(struct fs *fs, struct fs_file *file, uint64_t offset, struct str bytes);
enum err fs_sync(struct fs *fs, struct fs_file *file); /* content and size (fdatasync) */
/* Fills with zeros when growing. */
enum err fs_truncate(struct fs *fs, struct fs_file *file, uint64_t size);
enum err fs_file_size(struct fs *fs, struct fs_file *file, uint64_t *ret_size);
enum err fs_stat(struct fs *fs, const char *path, struct fs_info *ret_info); /* follows links */
/* Replaces an existing file or empty directory `to`. ERR_PRECONDITION if the directory is not
 * empty. */
enum err fs_rename(struct fs *fs, const char *from, const char *to);
/* Removes a file or an empty directory. ERR_PRECONDITION if the directory is not empty. */
enum err fs_remove(struct fs *fs, const char *path);
enum err fs_make_dir(struct fs *fs, const char *path, uint32_t mode); /* ERR_EXISTS */
/* Makes a symbolic link to `target`, a name in the same directory. ERR_EXISTS if `path` exists. To
 * swap a link atomically, rename a new link over the old link. */
enum err fs_make_link(struct fs *fs, const char *target, const char *path);
/* In no particular order. */
enum err fs_list(struct fs *fs, const char *path, fs_list_fn *each, void *context);
enum err fs_sync_dir(struct fs *fs, const char *path);
enum err fs_free_bytes(struct fs *fs, const char *path, uint64_t *ret_bytes);
/* Locks a directory until fs_unlock or the death of the process, by a file LOCK
 * (docs/formats/data-directory.md). ERR_BUSY if any process holds the lock, also this one; the note
 * has the holder's pid. On a full disk, only a directory that already has LOCK can be locked. */
enum err fs_lock_dir(struct fs *fs, const char *path, struct fs_lock **ret_lock, struct note *note);
void fs_unlock(struct fs *fs, struct fs_lock *lock); /* NULL is allowed */

/* -- functions built on the calls above, the same for every file system -- */
/* Appends the whole file to `into`, or nothing. ERR_TOO_LARGE: the file has more than `max` bytes.
 * ERR_FULL: the buffer is too small. */
enum err fs_read_whole(struct fs *fs, const char *path, size_t max, struct buf *into);
/* Reads a small file and passes its content to `judge`, which accepts or refuses the content. A
 * file of more than `max` bytes is ERR_CORRUPT. A single read may return wrong bytes, so the file is
 * read again before damage is reported. */
typedef enum err fs_judge_fn(struct str content, void *context);
enum err fs_read_judged(struct fs *fs, const char *path, size_t max, fs_judge_fn *judge,
                        void *context);
/* Returns "<dir>/<name>" in `path`. ERR_INVALID with a note if the path exceeds FS_PATH_CAP. */
enum err fs_path(const char *dir, const char *name, char path[FS_PATH_CAP], struct note *note);
/* Returns `err`. An error sets the note to "<what> <path>: <text of err>". */
enum err fs_noted(enum err err, const char *what, const char *path, struct note *note);
/* Appends each name that `wants` accepts, with its NUL, in no order. After an error, `names` may
 * contain some names. ERR_FULL with a note if `names` is too small. */
typedef bool fs_name_fn(struct str name, enum fs_kind kind);
enum err fs_names(struct fs *fs, const char *path, fs_name_fn *wants, struct buf *names,
                  struct note *note);
/* The temporary name of fs_publish, "<dir>/.<name>.<8 hex of unique>.tmp", for files that are
 * written in pieces; and the directory of `path`. ERR_INVALID if `path` does not name a file. */
enum err fs_temp_for(const char *path, uint64_t unique, char dir[FS_PATH_CAP],
                     char temp[FS_PATH_CAP]);
/* Replaces `path` atomically: readers see the old or the new content. `unique` must be new for each
 * call (else ERR_EXISTS).
 * ERR_OK: the new content survives a power cut.
 * ERR_UNKNOWN: readers see the new content, but a power cut may restore the old content.
 * Other errors: the old content remains. */
enum err fs_publish(struct fs *fs, const char *path, struct str content, uint32_t mode,
                    uint64_t unique);
/* Removes the temporary files of a dead process's fs_publish. The caller must hold the directory's
 * lock, so that no fs_publish runs in `dir`. */
enum err fs_sweep_temps(struct fs *fs, const char *dir);
/* Makes the directory and its parents; existing ones are accepted. ERR_UNKNOWN: the directories
 * exist, but a power cut may lose them. */
enum err fs_make_dirs(struct fs *fs, const char *path, uint32_t mode);
/* Makes the directory of `path`, with its parents. ERR_INVALID with a note if the path exceeds
 * FS_PATH_CAP. Errors of fs_make_dirs, except ERR_UNKNOWN. */
enum err fs_make_parent(struct fs *fs, const char *path, uint32_t mode, struct note *note);
/* False if the file was written or replaced between the two fs_stat calls. */
static inline bool fs_same(const struct fs_info *a, const struct fs_info *b)
{
    return a->size == b->size && a->inode == b->inode && a->modified_ns == b->modified_ns;
}
/* Writes zeros to [offset, offset + len). A later overwrite needs no disk space, and its fs_sync
 * changes no metadata. */
enum err fs_allocate_zeroed(struct fs *fs, struct fs_file *file, uint64_t offset, uint64_t len);

struct fs *fs_real(void); /* the kernel's file system; any thread */

/* -- for implementations only: each function is fs_<name> above, with checked arguments -- */
struct fs_file {     /* first field of an implementation's struct; starts zeroed */
    uint32_t flags;  /* for fs.c only */
    enum err failed; /* error of the first failed sync; for fs.c only */
};
struct fs {
    enum err (*open)(struct fs *, const char *, uint32_t, uint32_t, struct fs_file **);
    void (*close)(struct fs *, struct fs_file *);
    enum err (*read_at)(struct fs *, struct fs_file *, uint64_t, void *, size_t, size_t *);
    enum err (*write_at)(struct fs *, struct fs_file *, uint64_t, struct str);
    enum err (*sync)(struct fs *, struct fs_file *);
    enum err (*truncate)(struct fs *, struct fs_file *, uint64_t);
    enum err (*file_size)(struct fs *, struct fs_file *, uint64_t *);
    enum err (*stat)(struct fs *, const char *, struct fs_info *);
    enum err (*rename)(struct fs *, const char *, const char *);
    enum err (*remove)(struct fs *, const char *);
    enum err (*make_dir)(struct fs *, const char *, uint32_t);
    enum err (*make_link)(struct fs *, const char *, const char *);
    enum err (*list)(struct fs *, const char *, fs_list_fn *, void *);
    enum err (*sync_dir)(struct fs *, const char *);
    enum err (*free_bytes)(struct fs *, const char *, uint64_t *);
    enum err (*lock_dir)(struct fs *, const char *, struct fs_lock **, struct note *);
    void (*unlock)(struct fs *, struct fs_lock *);
};
/* The content of a LOCK file, and the note for a process that finds the lock taken. */
#define FS_LOCK_NAME "LOCK"
enum { FS_LOCK_TEXT_CAP = 96 };
/* Returns the length. */
size_t fs_lock_text(uint64_t pid, wall_time since, char text[FS_LOCK_TEXT_CAP]);
void fs_lock_busy_note(struct note *note, const char *path, struct str lock_text);
#endif
