/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of fs.h. They check the arguments and refuse writes to a handle whose sync
 * failed. */
#include "io/fs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/rfc3339.h"

#define OFFSET_MAX ((uint64_t)INT64_MAX)

static bool path_ok(const char *path)
{
    assert(path);
    size_t len = strlen(path);
    return len > 0 && len < FS_PATH_CAP;
}

static bool flags_ok(uint32_t flags)
{
    const uint32_t known = FS_READ | FS_WRITE | FS_CREATE | FS_EXCLUSIVE | FS_TRUNCATE | FS_APPEND;
    if (flags & ~known) return false;
    if (!(flags & (FS_READ | FS_WRITE))) return false;
    if ((flags & (FS_CREATE | FS_TRUNCATE | FS_APPEND)) && !(flags & FS_WRITE)) return false;
    return !(flags & FS_EXCLUSIVE) || (flags & FS_CREATE);
}

static bool range_ok(uint64_t offset, uint64_t len)
{
    return offset <= OFFSET_MAX && len <= OFFSET_MAX - offset;
}

static enum err writable(const struct fs_file *file)
{
    assert(file);
    if (!(file->flags & FS_WRITE)) return ERR_INVALID;
    return file->failed;
}

enum err fs_open(struct fs *fs, const char *path, uint32_t flags, uint32_t mode,
                 struct fs_file **ret_file)
{
    struct fs_file *file;
    assert(fs && ret_file);
    if (!path_ok(path) || !flags_ok(flags) || (mode & ~0777u)) return ERR_INVALID;
    enum err err = fs->open(fs, path, flags, mode, &file);
    if (err) return err;
    file->flags = flags;
    *ret_file = file;
    return ERR_OK;
}

void fs_close(struct fs *fs, struct fs_file *file)
{
    if (file) fs->close(fs, file);
}

enum err fs_read_at(struct fs *fs, struct fs_file *file, uint64_t offset, void *into, size_t len,
                    size_t *ret_got)
{
    assert(file && ret_got && (into || len == 0));
    if (!(file->flags & FS_READ) || !range_ok(offset, len)) return ERR_INVALID;
    return fs->read_at(fs, file, offset, into, len, ret_got);
}

enum err fs_write_at(struct fs *fs, struct fs_file *file, uint64_t offset, struct str bytes)
{
    enum err err = writable(file);
    if (err) return err;
    if (!range_ok(offset, bytes.len)) return ERR_INVALID;
    return bytes.len == 0 ? ERR_OK : fs->write_at(fs, file, offset, bytes);
}

enum err fs_sync(struct fs *fs, struct fs_file *file)
{
    enum err err = writable(file);
    if (err) return err;
    err = fs->sync(fs, file);
    if (err) file->failed = err;
    return err;
}

enum err fs_truncate(struct fs *fs, struct fs_file *file, uint64_t size)
{
    enum err err = writable(file);
    if (err) return err;
    return range_ok(size, 0) ? fs->truncate(fs, file, size) : ERR_INVALID;
}

enum err fs_file_size(struct fs *fs, struct fs_file *file, uint64_t *ret_size)
{
    assert(file && ret_size);
    return fs->file_size(fs, file, ret_size);
}

enum err fs_stat(struct fs *fs, const char *path, struct fs_info *ret_info)
{
    assert(ret_info);
    return path_ok(path) ? fs->stat(fs, path, ret_info) : ERR_INVALID;
}

enum err fs_rename(struct fs *fs, const char *from, const char *to)
{
    return path_ok(from) && path_ok(to) ? fs->rename(fs, from, to) : ERR_INVALID;
}

enum err fs_remove(struct fs *fs, const char *path)
{
    return path_ok(path) ? fs->remove(fs, path) : ERR_INVALID;
}

enum err fs_make_dir(struct fs *fs, const char *path, uint32_t mode)
{
    return path_ok(path) && !(mode & ~0777u) ? fs->make_dir(fs, path, mode) : ERR_INVALID;
}

enum err fs_make_link(struct fs *fs, const char *target, const char *path)
{
    bool beside = path_ok(target) && strlen(target) <= FS_NAME_MAX && !strchr(target, '/') &&
                  strcmp(target, ".") != 0 && strcmp(target, "..") != 0;
    return beside && path_ok(path) ? fs->make_link(fs, target, path) : ERR_INVALID;
}

enum err fs_list(struct fs *fs, const char *path, fs_list_fn *each, void *context)
{
    assert(each);
    return path_ok(path) ? fs->list(fs, path, each, context) : ERR_INVALID;
}

enum err fs_sync_dir(struct fs *fs, const char *path)
{
    return path_ok(path) ? fs->sync_dir(fs, path) : ERR_INVALID;
}

enum err fs_free_bytes(struct fs *fs, const char *path, uint64_t *ret_bytes)
{
    assert(ret_bytes);
    return path_ok(path) ? fs->free_bytes(fs, path, ret_bytes) : ERR_INVALID;
}

enum err fs_lock_dir(struct fs *fs, const char *path, struct fs_lock **ret_lock, struct note *note)
{
    enum err err;
    assert(ret_lock);
    /* room for "<path>/LOCK" */
    if (!path_ok(path) || strlen(path) + sizeof "/" FS_LOCK_NAME > FS_PATH_CAP)
        err = ERR_INVALID;
    else
        err = fs->lock_dir(fs, path, ret_lock, note);
    if (err && err != ERR_BUSY) note_set(note, "lock %s: %s", path, err_text(err));
    return err;
}

void fs_unlock(struct fs *fs, struct fs_lock *lock)
{
    if (lock) fs->unlock(fs, lock);
}

/* -- the text of a LOCK file: "pid 4711 since 2026-11-15T10:54:18.123Z\n" -- */

size_t fs_lock_text(uint64_t pid, wall_time since, char text[FS_LOCK_TEXT_CAP])
{
    char when[RFC3339_CAP];
    wall_text(since, when);
    int len = snprintf(text, FS_LOCK_TEXT_CAP, "pid %" PRIu64 " since %s\n", pid, when);
    assert(len > 0 && len < FS_LOCK_TEXT_CAP);
    return (size_t)len;
}

/* Ignores a malformed `lock_text`, because the LOCK file may be damaged. */
void fs_lock_busy_note(struct note *note, const char *path, struct str lock_text)
{
    struct str rest = str_trim(lock_text), word, pid, since;
    uint64_t number;
    bool ours = str_split(&rest, ' ', &word) && str_equal(word, STR("pid")) &&
                str_split(&rest, ' ', &pid) && str_to_u64(pid, &number) == ERR_OK &&
                str_split(&rest, ' ', &word) && str_equal(word, STR("since")) &&
                str_split(&rest, ' ', &since) && since.len < RFC3339_CAP && str_is_utf8(since);
    if (ours)
        note_set(note, "lock %s: held by pid %" PRIu64 " since %.*s", path, number, STR_ARG(since));
    else
        note_set(note, "lock %s: held by another process that left no pid", path);
}
