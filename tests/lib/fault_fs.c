/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fault_fs.h"

static struct fault_fs *fault_of(struct fs *fs)
{
    return (struct fault_fs *)fs;
}

/* Counts a call; ERR_OK when it may go on. */
static enum err count(struct fs *fs, enum fault_fs_call call)
{
    struct fault_fs *fault = fault_of(fs);
    fault->total++;
    if (!(fault->plan.calls & (uint32_t)call)) return ERR_OK;
    fault->seen++;
    bool fails =
        fault->plan.from_then_on ? fault->seen >= fault->plan.nth : fault->seen == fault->plan.nth;
    if (!fails) return ERR_OK;
    fault->fired = true;
    return fault->plan.err;
}

static struct fs *inner(struct fs *fs)
{
    return fault_of(fs)->inner;
}

static enum err fault_open(struct fs *fs, const char *path, uint32_t flags, uint32_t mode,
                           struct fs_file **ret_file)
{
    enum err err = count(fs, FAULT_FS_OPEN);
    return err ? err : fs_open(inner(fs), path, flags, mode, ret_file);
}

static void fault_close(struct fs *fs, struct fs_file *file)
{
    fs_close(inner(fs), file);
}

static enum err fault_read_at(struct fs *fs, struct fs_file *file, uint64_t offset, void *into,
                              size_t len, size_t *ret_got)
{
    enum err err = count(fs, FAULT_FS_READ);
    return err ? err : fs_read_at(inner(fs), file, offset, into, len, ret_got);
}

static enum err fault_write_at(struct fs *fs, struct fs_file *file, uint64_t offset,
                               struct str bytes)
{
    struct fault_fs *fault = fault_of(fs);
    enum err err = count(fs, FAULT_FS_WRITE);
    if (!err) return fs_write_at(inner(fs), file, offset, bytes);
    size_t part = min_size(fault->plan.partial, bytes.len);
    if (part > 0) (void)fs_write_at(inner(fs), file, offset, str_of(bytes.at, part));
    return err;
}

static enum err fault_sync(struct fs *fs, struct fs_file *file)
{
    enum err err = count(fs, FAULT_FS_SYNC);
    return err ? err : fs_sync(inner(fs), file);
}

static enum err fault_truncate(struct fs *fs, struct fs_file *file, uint64_t size)
{
    enum err err = count(fs, FAULT_FS_WRITE);
    return err ? err : fs_truncate(inner(fs), file, size);
}

static enum err fault_file_size(struct fs *fs, struct fs_file *file, uint64_t *ret_size)
{
    enum err err = count(fs, FAULT_FS_LOOK);
    return err ? err : fs_file_size(inner(fs), file, ret_size);
}

static enum err fault_stat(struct fs *fs, const char *path, struct fs_info *ret_info)
{
    enum err err = count(fs, FAULT_FS_LOOK);
    return err ? err : fs_stat(inner(fs), path, ret_info);
}

static enum err fault_rename(struct fs *fs, const char *from, const char *to)
{
    enum err err = count(fs, FAULT_FS_RENAME);
    return err ? err : fs_rename(inner(fs), from, to);
}

static enum err fault_remove(struct fs *fs, const char *path)
{
    enum err err = count(fs, FAULT_FS_REMOVE);
    return err ? err : fs_remove(inner(fs), path);
}

static enum err fault_make_dir(struct fs *fs, const char *path, uint32_t mode)
{
    enum err err = count(fs, FAULT_FS_MAKE_DIR);
    return err ? err : fs_make_dir(inner(fs), path, mode);
}

static enum err fault_make_link(struct fs *fs, const char *target, const char *path)
{
    enum err err = count(fs, FAULT_FS_MAKE_DIR);
    return err ? err : fs_make_link(inner(fs), target, path);
}

static enum err fault_list(struct fs *fs, const char *path, fs_list_fn *each, void *context)
{
    enum err err = count(fs, FAULT_FS_LOOK);
    return err ? err : fs_list(inner(fs), path, each, context);
}

static enum err fault_sync_dir(struct fs *fs, const char *path)
{
    enum err err = count(fs, FAULT_FS_SYNC_DIR);
    return err ? err : fs_sync_dir(inner(fs), path);
}

static enum err fault_free_bytes(struct fs *fs, const char *path, uint64_t *ret_bytes)
{
    enum err err = count(fs, FAULT_FS_LOOK);
    return err ? err : fs_free_bytes(inner(fs), path, ret_bytes);
}

static enum err fault_lock_dir(struct fs *fs, const char *path, struct fs_lock **ret_lock,
                               struct note *note)
{
    enum err err = count(fs, FAULT_FS_OPEN);
    return err ? err : fs_lock_dir(inner(fs), path, ret_lock, note);
}

static void fault_unlock(struct fs *fs, struct fs_lock *lock)
{
    fs_unlock(inner(fs), lock);
}

void fault_fs_init(struct fault_fs *fault, struct fs *inner_fs)
{
    *fault = (struct fault_fs){
        .fs =
            {
                .open = fault_open,
                .close = fault_close,
                .read_at = fault_read_at,
                .write_at = fault_write_at,
                .sync = fault_sync,
                .truncate = fault_truncate,
                .file_size = fault_file_size,
                .stat = fault_stat,
                .rename = fault_rename,
                .remove = fault_remove,
                .make_dir = fault_make_dir,
                .make_link = fault_make_link,
                .list = fault_list,
                .sync_dir = fault_sync_dir,
                .free_bytes = fault_free_bytes,
                .lock_dir = fault_lock_dir,
                .unlock = fault_unlock,
            },
        .inner = inner_fs,
    };
}

struct fs *fault_fs_fs(struct fault_fs *fault)
{
    return &fault->fs;
}

void fault_fs_arm(struct fault_fs *fault, struct fault_fs_plan plan)
{
    assert(plan.calls == 0 || (plan.nth > 0 && plan.err));
    fault->plan = plan;
    fault->seen = 0;
    fault->fired = false;
}

void fault_fs_disarm(struct fault_fs *fault)
{
    fault->plan.calls = 0; /* keeps whether the fault has fired */
}

bool fault_fs_fired(const struct fault_fs *fault)
{
    return fault->fired;
}

bool fault_fs_sweep_next(struct fault_fs *fault, struct fault_fs_plan plan, uint64_t *k)
{
    bool more = *k == 0 || fault_fs_fired(fault);
    assert(*k < FAULT_FS_SWEEP_MAX);
    plan.nth = ++*k;
    if (more)
        fault_fs_arm(fault, plan);
    else
        fault_fs_arm(fault, (struct fault_fs_plan){0});
    return more;
}
