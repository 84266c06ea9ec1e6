/* SPDX-License-Identifier: Apache-2.0 */
/* Files with explicit sync, behind a table, so that a test can fail the k-th call or cut the power.
 *
 * Calls block: keep them on a worker, or to small files at start. Nothing is durable before fs_sync
 * (content) and fs_sync_dir (names) have returned. Paths are plain C strings; a file is a regular
 * file, never a pipe, a device or a directory.
 *
 * The surprising rule: a failed fs_sync is final for its handle. The kernel may have thrown the
 * dirty pages away and would report success the next time, so the handle refuses every later write
 * and sync with the same error. Write the data again, to another file. */
#ifndef IO_FS_H
#define IO_FS_H
#include "base/buf.h"
#include "base/note.h"
#include "base/time.h"

struct fs;
struct fs_file; /* an open file; one owner at a time */
struct fs_lock;

enum {
    FS_PATH_CAP = 4096, /* with the closing NUL; longer paths are ERR_INVALID */
    FS_NAME_MAX = 255,  /* bytes of one part of a path */
};
enum fs_flags {
    FS_READ = BIT(0),
    FS_WRITE = BIT(1),     /* never through a symbolic link: ERR_INVALID */
    FS_CREATE = BIT(2),    /* made when absent, with `mode`; needs FS_WRITE */
    FS_EXCLUSIVE = BIT(3), /* with FS_CREATE: ERR_EXISTS when there */
    FS_TRUNCATE = BIT(4),  /* needs FS_WRITE */
    FS_APPEND = BIT(5),    /* each write goes to the end, whole, beside other processes too; its
                              offset is not looked at; needs FS_WRITE */
};
enum fs_kind { FS_REGULAR, FS_DIRECTORY, FS_OTHER };
struct fs_info {
    enum fs_kind kind;
    uint64_t size, inode; /* the size says nothing for a directory */
    int64_t modified_ns;  /* since 1970 */
    uint32_t mode;        /* permission bits */
};
/* Must not change the directory that is being listed. */
typedef void fs_list_fn(void *context, const char *name, enum fs_kind kind);

/* All: ERR_NOT_FOUND, ERR_EXISTS, ERR_DENIED, ERR_NO_SPACE, ERR_NOMEM, ERR_IO; ERR_INVALID for a
 * path or a kind of file that does not fit the call; ERR_FULL when too many files are open; rarely
 * ERR_TOO_LARGE (for one file on this disk), ERR_BUSY (a mount point), ERR_UNSUPPORTED; ERR_CLOSED
 * for a handle that did not outlive a crash of its simulated host. */
enum err fs_open(struct fs *fs, const char *path, uint32_t flags, uint32_t mode,
                 struct fs_file **ret_file);
void fs_close(struct fs *fs, struct fs_file *file); /* NULL is fine */
/* Reads until `len` or the end of the file; *ret_got < len only at the end. */
enum err fs_read_at(struct fs *fs, struct fs_file *file, uint64_t offset, void *into, size_t len,
                    size_t *ret_got);
/* All of it or an error; after an error any part may be there. Past the end leaves zeros
 * between. */
enum err fs_write_at(struct fs *fs, struct fs_file *file, uint64_t offset, struct str bytes);
enum err fs_sync(struct fs *fs, struct fs_file *file); /* content and size: fdatasync */
enum err fs_truncate(struct fs *fs, struct fs_file *file, uint64_t size); /* grows with zeros */
enum err fs_file_size(struct fs *fs, struct fs_file *file, uint64_t *ret_size);
enum err fs_stat(struct fs *fs, const char *path, struct fs_info *ret_info); /* follows links */
/* Replaces `to`: a file by a file, an empty directory by a directory. ERR_PRECONDITION: not
 * empty. */
enum err fs_rename(struct fs *fs, const char *from, const char *to);
/* A file or an empty directory. ERR_PRECONDITION: not empty. */
enum err fs_remove(struct fs *fs, const char *path);
enum err fs_make_dir(struct fs *fs, const char *path, uint32_t mode); /* ERR_EXISTS */
/* A symbolic link to `target`, the name of an entry beside it, there or not. ERR_EXISTS. A rename
 * over an older link swaps it in one step; fs_list gives links as FS_OTHER. */
enum err fs_make_link(struct fs *fs, const char *target, const char *path);
enum err fs_list(struct fs *fs, const char *path, fs_list_fn *each, void *context); /* no order */
enum err fs_sync_dir(struct fs *fs, const char *path);
enum err fs_free_bytes(struct fs *fs, const char *path, uint64_t *ret_bytes);
/* Held until unlocked or the process dies; a second holder is refused, in this process too.
 * ERR_BUSY names the holder's pid in the note. Works on a full disk once the directory was locked
 * before. Leaves a file LOCK in the directory (docs/formats/data-directory.md); nobody ever removes
 * it. */
enum err fs_lock_dir(struct fs *fs, const char *path, struct fs_lock **ret_lock, struct note *note);
void fs_unlock(struct fs *fs, struct fs_lock *lock); /* NULL is fine */

/* -- built on the calls above, the same on every file system -- */
/* Appends the whole file to `into`, or leaves it as it was. ERR_TOO_LARGE past `max` bytes,
 * ERR_FULL past the buffer's own ceiling. */
enum err fs_read_whole(struct fs *fs, const char *path, size_t max, struct buf *into);
/* "<dir>/<name>". ERR_INVALID with a note: longer than FS_PATH_CAP. */
enum err fs_path(const char *dir, const char *name, char path[FS_PATH_CAP], struct note *note);
/* Returns err; of a failure the note says "<what> <path>: <text of err>". */
enum err fs_noted(enum err err, const char *what, const char *path, struct note *note);
/* Appends the names in `path` that `wants` accepts, each with its closing NUL, in no order. After
 * an error `names` holds some of them. ERR_FULL: there are more than fit; with a note. */
typedef bool fs_name_fn(struct str name, enum fs_kind kind);
enum err fs_names(struct fs *fs, const char *path, fs_name_fn *wants, struct buf *names,
                  struct note *note);
/* The name fs_publish writes under before it gives `path` its own, "<dir>/.<name>.<8 hex of
 * unique>.tmp", and the directory of both, for a file that is written piece by piece. ERR_INVALID:
 * names no file. */
enum err fs_temp_for(const char *path, uint64_t unique, char dir[FS_PATH_CAP],
                     char temp[FS_PATH_CAP]);
/* Replaces `path` so that a reader sees the old content or the new, never a mix, and so that the
 * new survives a power cut once this returned ERR_OK. ERR_UNKNOWN: visible, perhaps not durable;
 * every other error: the old content remains. `unique` must be new each time (ERR_EXISTS); what a
 * dead process left is swept with fs_sweep_temps. */
enum err fs_publish(struct fs *fs, const char *path, struct str content, uint32_t mode,
                    uint64_t unique);
/* Removes what a dead process's fs_publish left in `dir`. Only while no fs_publish runs there: hold
 * the directory's lock. */
enum err fs_sweep_temps(struct fs *fs, const char *dir);
/* Parents too; fine when there, also if an earlier call died half-way. ERR_UNKNOWN: there, perhaps
 * not durable. */
enum err fs_make_dirs(struct fs *fs, const char *path, uint32_t mode);
/* The directory that `path` is in, with its parents. ERR_INVALID (longer than FS_PATH_CAP), what
 * fs_make_dirs returns, with a note; a directory that is there and perhaps not durable is ERR_OK. */
enum err fs_make_parent(struct fs *fs, const char *path, uint32_t mode, struct note *note);
/* Nobody has written the file or put another in its place between the two looks. */
static inline bool fs_same(const struct fs_info *a, const struct fs_info *b)
{
    return a->size == b->size && a->inode == b->inode && a->modified_ns == b->modified_ns;
}
/* Writes zeros over [offset, offset + len), so that the blocks are allocated and initialised and a
 * later overwrite and fs_sync touch no metadata. ERR_NO_SPACE now rather than later. */
enum err fs_allocate_zeroed(struct fs *fs, struct fs_file *file, uint64_t offset, uint64_t len);

struct fs *fs_real(void); /* the kernel's; any thread */

/* -- for the implementations only: each is fs_<name> above, called with checked arguments -- */
struct fs_file {     /* first in every implementation's own; zeroed by it */
    uint32_t flags;  /* set and read by fs.c alone */
    enum err failed; /* of the first failed sync; likewise */
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
/* The content of a LOCK file, and the note for a second process. */
#define FS_LOCK_NAME "LOCK"
enum { FS_LOCK_TEXT_CAP = 96 };
size_t fs_lock_text(uint64_t pid, wall_time since, char text[FS_LOCK_TEXT_CAP]); /* its length */
void fs_lock_busy_note(struct note *note, const char *path, struct str lock_text);
#endif
