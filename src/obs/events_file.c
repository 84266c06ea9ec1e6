/* SPDX-License-Identifier: Apache-2.0 */
/* One event file: appends lines, rotates by size, and reopens the file when another program has
 * replaced it. A worker of the loop syncs and closes rotated files. The caller holds a lock. */
#include "obs/events_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/fs.h"
#include "io/worker.h"

enum {
    RETIRE_JOBS_MAX = 64,
    KEEP_DEFAULT = 5,
    MODE_DEFAULT = 0644,
    LOOK_EVERY_MS = 1000,
};

struct events_file {
    struct fs *fs;
    struct clock *clock;
    struct loop_worker *worker;
    char *path;
    char directory[FS_PATH_CAP];
    uint32_t mode, keep;
    uint64_t rotate_bytes;
    bool torn;
    struct fs_file *file; /* NULL after a failed reopen; the next write tries again */
    uint64_t inode, size;
    mono_time look_at;
    mono_time rotate_after; /* delays the next attempt after a failed rotation */
    uint64_t rotations, failed_rotations;
};

/* -- a worker syncs and closes a rotated file -- */

struct retire_job {
    struct job job;
    struct fs *fs;
    struct fs_file *file;
    const char *directory;
};

/* Failures are ignored, because a retry could not help. The renames may then become durable only at
 * the next rotation. */
static void retire_now(struct fs *fs, struct fs_file *own_file, const char *directory)
{
    (void)fs_sync(fs, own_file);
    fs_close(fs, own_file);
    if (directory) (void)fs_sync_dir(fs, directory);
}

static void retire_run(struct job *job)
{
    struct retire_job *retire = CONTAINER_OF(job, struct retire_job, job);
    retire_now(retire->fs, retire->file, retire->directory);
    retire->file = NULL;
}

static void retire_done(struct job *job, enum err err)
{
    struct retire_job *retire = CONTAINER_OF(job, struct retire_job, job);
    /* No job could start: close the file without a sync. */
    if (err) fs_close(retire->fs, retire->file);
    free(retire);
}

static void retire(struct events_file *f, struct fs_file *own_file, const char *directory)
{
    struct retire_job *job = f->worker ? calloc(1, sizeof *job) : NULL;

    if (job) {
        *job = (struct retire_job){.fs = f->fs, .file = own_file, .directory = directory};
        job_init(&job->job, retire_run, retire_done);
        if (worker_submit(f->worker, &job->job) == ERR_OK) return;
        free(job);
    }
    retire_now(f->fs, own_file, directory);
}

/* -- opening -- */

static enum err reopen(struct events_file *f)
{
    struct fs_file *file;
    struct fs_info info;
    enum err err = fs_open(f->fs, f->path, FS_WRITE | FS_CREATE | FS_APPEND, f->mode, &file);
    if (err) return err;
    err = fs_stat(f->fs, f->path, &info);
    if (err) {
        fs_close(f->fs, file);
        return err;
    }
    f->file = file;
    f->inode = info.inode;
    f->size = info.size;
    return ERR_OK;
}

enum err events_file_open(const struct events_options *options, struct events_file **ret_file,
                          struct note *note)
{
    char temp[FS_PATH_CAP];
    struct events_file *f;
    enum err err;

    if (!options->fs || !options->clock || !options->path || !options->path[0] ||
        options->keep > EVENTS_KEEP_MAX)
        return note_fail(note, ERR_INVALID, "an event file needs a path, and keeps at most %d",
                         EVENTS_KEEP_MAX);
    f = calloc(1, sizeof *f);
    if (!f) return ERR_NOMEM;
    f->fs = options->fs;
    f->clock = options->clock;
    f->mode = options->mode ? options->mode : MODE_DEFAULT;
    f->keep = options->keep ? options->keep : KEEP_DEFAULT;
    f->rotate_bytes = options->rotate_bytes;
    f->path = str_dup(str_from(options->path));
    err = f->path ? fs_temp_for(f->path, 0, f->directory, temp) : ERR_NOMEM;
    if (!err && options->loop)
        err = worker_open(options->loop,
                          &(struct worker_options){.name = "events", .jobs_max = RETIRE_JOBS_MAX},
                          &f->worker);
    if (!err) err = reopen(f);
    if (err) {
        note_set(note, "open %s: %s", options->path, err_text(err));
        events_file_close(f);
        return err;
    }
    f->look_at = mono_after(clock_mono(f->clock), LOOK_EVERY_MS);
    *ret_file = f;
    return ERR_OK;
}

void events_file_close(struct events_file *f)
{
    if (!f) return;
    if (f->file) {
        (void)fs_sync(f->fs, f->file);
        fs_close(f->fs, f->file);
    }
    worker_close(f->worker);
    free(f->path);
    free(f);
}

/* -- rotating -- */

/* Renames path.<keep-1> to path.<keep>, ..., path.1 to path.2, then path to path.1. The oldest is
 * first, so a failure loses no file. */
static enum err shift(struct events_file *f)
{
    char target[FS_PATH_CAP + 16], source[FS_PATH_CAP + 16];
    enum err err = ERR_OK;

    for (uint32_t to = f->keep; to >= 1 && !err; to--) {
        snprintf(target, sizeof target, "%s.%u", f->path, to);
        snprintf(source, sizeof source, "%s.%u", f->path, to - 1);
        err = fs_rename(f->fs, to > 1 ? source : f->path, target);
        if (err == ERR_NOT_FOUND && to > 1) err = ERR_OK; /* fewer rotated files exist so far */
    }
    return err;
}

/* True if the path names another file than the open one, or no file. */
static bool moved_away(struct events_file *f)
{
    struct fs_info info;
    enum err err = fs_stat(f->fs, f->path, &info);
    if (err) return err == ERR_NOT_FOUND;
    if (info.inode == f->inode) f->size = info.size;
    return info.inode != f->inode;
}

static void rotate(struct events_file *f)
{
    struct fs_file *old = f->file;
    enum err err = shift(f);

    if (!err) err = reopen(f);
    if (!err) {
        f->rotations++;
        retire(f, old, f->directory);
    } else {
        f->failed_rotations++; /* keep writing to the open file, whatever its name is now */
        f->rotate_after = mono_after(clock_mono(f->clock), LOOK_EVERY_MS);
    }
}

static void look_after(struct events_file *f)
{
    mono_time now = clock_mono(f->clock);
    struct fs_file *old = f->file;

    if (mono_due(f->look_at, now)) {
        f->look_at = mono_after(now, LOOK_EVERY_MS);
        /* If the new file cannot be opened, the open file is kept. */
        if (moved_away(f) && reopen(f) == ERR_OK) retire(f, old, NULL);
    }
    if (f->rotate_bytes > 0 && f->size >= f->rotate_bytes && mono_due(f->rotate_after, now))
        rotate(f);
}

/* -- writing -- */

/* A failed write may leave a part of a line. If truncating fails, too, the next write starts on a
 * new line. */
static void undo_partial(struct events_file *f, uint64_t before)
{
    uint64_t size;
    if (fs_file_size(f->fs, f->file, &size) == ERR_OK && size == before) return;
    f->torn = fs_truncate(f->fs, f->file, before) != ERR_OK;
}

enum err events_file_write(struct events_file *f, struct str line)
{
    uint64_t before;
    enum err err = f->file ? ERR_OK : reopen(f);

    if (err) return err;
    look_after(f);
    before = f->size;
    if (f->torn) {
        err = fs_file_size(f->fs, f->file, &before);
        if (!err) err = fs_write_at(f->fs, f->file, before, STR("\n"));
        if (err) return err;
        f->torn = false;
        before++;
    }
    err = fs_write_at(f->fs, f->file, before, line);
    if (err) {
        undo_partial(f, before);
        return err;
    }
    f->size = before + line.len;
    return ERR_OK;
}

void events_file_count(const struct events_file *f, struct events_stats *stats)
{
    stats->rotations = f->rotations;
    stats->failed_rotations = f->failed_rotations;
}
