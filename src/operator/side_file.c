/* SPDX-License-Identifier: Apache-2.0 */
/* One job at a time checks and reads the file, or writes a content. The job and the loop own one
 * buffer each. */
#include "operator/side_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/fs.h"
#include "io/worker.h"

struct side_file {
    struct side_file_options options;
    char path[FS_PATH_CAP];
    struct loop_worker *worker;
    struct timer timer;
    /* While the job runs, it owns the fields below. */
    struct job job;
    struct buf content;
    struct fs_info seen; /* the file's state at the last read */
    bool changed;
    uint64_t unique;
    enum err err;
    /* owned by the loop */
    struct buf other; /* watched: last reported content; written: waiting content */
    bool has_other;
    uint64_t mark, other_mark;
    bool runs, closing;
    enum err trouble; /* last reported error */
};

/* -- on the worker's thread -- */

/* After an error `seen` does not change, so that the next check retries. */
static void side_file_look(struct job *job)
{
    struct side_file *f = CONTAINER_OF(job, struct side_file, job);
    struct fs *fs = f->options.io->fs;
    struct fs_info before, after;

    f->changed = false;
    f->err = fs_stat(fs, f->path, &before);
    if (f->err || fs_same(&before, &f->seen)) return;
    buf_clear(&f->content);
    f->err = fs_read_whole(fs, f->path, f->options.bytes_max, &f->content);
    if (!f->err) f->err = fs_stat(fs, f->path, &after);
    /* The file changed during the read; the next check reads it again. */
    if (f->err || !fs_same(&before, &after)) return;
    f->seen = after;
    f->changed = true;
}

static void side_file_publish(struct job *job)
{
    struct side_file *f = CONTAINER_OF(job, struct side_file, job);

    f->err =
        fs_publish(f->options.io->fs, f->path, buf_peek(&f->content), f->options.mode, f->unique);
}

/* -- on the loop's thread -- */

static void side_file_report(struct side_file *f)
{
    char why[FS_PATH_CAP + 64];

    if (f->err == f->trouble) return;
    f->trouble = f->err;
    f->seen = (struct fs_info){0}; /* a file that reappears is read even if unchanged */
    snprintf(why, sizeof why, "%s: %s", f->path, err_text(f->err));
    f->options.on_trouble(f->options.owner, f->err, why);
}

static void on_looked(struct job *job, enum err err)
{
    struct side_file *f = CONTAINER_OF(job, struct side_file, job);
    struct str content = buf_peek(&f->content);

    if (err || f->closing) return;
    timer_start_in(&f->timer, SIDE_FILE_EVERY_MS);
    if (f->err) side_file_report(f);
    if (f->err || !f->changed) return;
    f->trouble = ERR_OK;
    if (f->has_other && str_equal(content, buf_peek(&f->other))) return;
    buf_clear(&f->other);
    /* Without memory for this copy, the same content may be reported twice. */
    f->has_other = !buf_append(&f->other, content);
    f->options.on_content(f->options.owner, content);
}

static void side_file_swap(struct side_file *f)
{
    struct buf content = f->content;

    f->content = f->other;
    f->other = content;
}

/* Starts a write. No effect while a write runs or during the pause after a failure. */
static void side_file_begin(struct side_file *f)
{
    if (!f->has_other || f->runs || timer_running(&f->timer)) return;
    side_file_swap(f);
    buf_clear(&f->other);
    f->has_other = false;
    f->mark = f->other_mark;
    f->unique = entropy_u64(f->options.io->entropy);
    f->runs = !worker_submit(f->worker, &f->job);
    assert(f->runs); /* the worker's queue has room for one job */
}

static void on_published(struct job *job, enum err err)
{
    struct side_file *f = CONTAINER_OF(job, struct side_file, job);

    f->runs = false;
    if (err || f->closing) return;
    if (f->err) {
        side_file_report(f);
        if (!f->has_other) { /* no newer content came: write the failed content again */
            side_file_swap(f);
            f->other_mark = f->mark;
            f->has_other = true;
        }
        timer_start_in(&f->timer, SIDE_FILE_EVERY_MS);
        return;
    }
    f->trouble = ERR_OK;
    if (f->options.on_written) f->options.on_written(f->options.owner, f->mark);
    side_file_begin(f);
}

static void side_file_on_timer(struct timer *timer)
{
    struct side_file *f = CONTAINER_OF(timer, struct side_file, timer);

    if (!f->options.on_content)
        side_file_begin(f);
    else if (worker_submit(f->worker, &f->job))
        timer_start_in(timer, SIDE_FILE_EVERY_MS);
}

enum err side_file_read(struct side_file *f, struct str *ret_content, struct note *note)
{
    enum err err;

    buf_clear(&f->other);
    err = fs_read_whole(f->options.io->fs, f->path, f->options.bytes_max, &f->other);
    f->has_other = !err && f->options.on_content;
    *ret_content = buf_peek(&f->other);
    if (err) note_set(note, "%s", err_text(err));
    return err;
}

struct buf *side_file_room(struct side_file *f)
{
    buf_clear(&f->other);
    f->has_other = false;
    return &f->other;
}

void side_file_write(struct side_file *f, uint64_t mark)
{
    f->other_mark = mark;
    f->has_other = true;
    side_file_begin(f);
}

bool side_file_busy(const struct side_file *f)
{
    return f->runs || f->has_other;
}

enum err side_file_open(const struct side_file_options *options, struct side_file **ret_file,
                        struct note *note)
{
    struct worker_options worker = {.name = options->thread, .jobs_max = 1};
    bool watched = options->on_content != NULL;
    const char *directory = options->directory ? options->directory : "";
    struct side_file *f = calloc(1, sizeof *f);
    enum err err = ERR_OK;

    if (!f) return ERR_NOMEM;
    f->options = *options;
    buf_init(&f->content, options->bytes_max + 1);
    buf_init(&f->other, options->bytes_max + 1);
    if (watched)
        job_init(&f->job, side_file_look, on_looked);
    else
        job_init(&f->job, side_file_publish, on_published);
    if (snprintf(f->path, sizeof f->path, "%s%s%s", directory, directory[0] ? "/" : "",
                 options->path) >= (int)sizeof f->path) {
        note_set(note, "too long a path");
        err = ERR_INVALID;
    }
    if (!err) err = timer_init(&f->timer, options->io->loop, side_file_on_timer);
    if (!err) err = worker_open(options->io->loop, &worker, &f->worker);
    if (err) {
        side_file_close(f);
        return err;
    }
    if (watched) timer_start_in(&f->timer, SIDE_FILE_EVERY_MS);
    *ret_file = f;
    return ERR_OK;
}

void side_file_close(struct side_file *f)
{
    if (!f) return;
    f->closing = true;
    timer_deinit(&f->timer);
    worker_close(f->worker);
    /* Best effort: after a failure the next start writes the file again. */
    if (f->has_other && !f->options.on_content)
        (void)fs_publish(f->options.io->fs, f->path, buf_peek(&f->other), f->options.mode,
                         entropy_u64(f->options.io->entropy));
    buf_deinit(&f->content);
    buf_deinit(&f->other);
    free(f);
}
