/* SPDX-License-Identifier: Apache-2.0 */
/* A job looks at the file and reads it if it has changed; then the loop compares the content with the
 * last. The fields of the job belong to the worker while it runs, all others to the loop. */
#include "operator/file_watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/fs.h"
#include "io/worker.h"

struct file_watch {
    struct file_watch_options options;
    char path[FS_PATH_CAP];
    struct loop_worker *worker;
    struct timer timer;
    /* the job's, while it runs */
    struct job job;
    struct fs_info seen; /* of the last reading */
    struct buf content;
    bool changed;
    enum err err;
    /* the loop's */
    struct buf last; /* the content that was reported last */
    bool has_last;
    enum err trouble; /* reported last */
    bool closing;
};

/* On the worker. After an error `seen` is unchanged, so that the next check reads again. */
static void watch_read(struct job *job)
{
    struct file_watch *w = CONTAINER_OF(job, struct file_watch, job);
    struct fs *fs = w->options.io->fs;
    struct fs_info before, after;

    w->changed = false;
    w->err = fs_stat(fs, w->path, &before);
    if (w->err || fs_same(&before, &w->seen)) return;
    buf_clear(&w->content);
    w->err = fs_read_whole(fs, w->path, w->options.bytes_max, &w->content);
    if (!w->err) w->err = fs_stat(fs, w->path, &after);
    if (w->err || !fs_same(&before, &after)) return; /* the file is being written: next time */
    w->seen = after;
    w->changed = true;
}

static void watch_report_trouble(struct file_watch *w)
{
    char why[FS_PATH_CAP + 64];

    if (w->err == w->trouble) return;
    w->trouble = w->err;
    w->seen = (struct fs_info){0}; /* a file that comes back is read, also if it is the old one */
    snprintf(why, sizeof why, "%s: %s", w->path, err_text(w->err));
    w->options.on_trouble(w->options.owner, w->err, why);
}

static void on_watch_read(struct job *job, enum err err)
{
    struct file_watch *w = CONTAINER_OF(job, struct file_watch, job);
    struct str content = buf_peek(&w->content);

    if (err || w->closing) return;
    timer_start_in(&w->timer, FILE_WATCH_EVERY_MS);
    if (w->err) {
        watch_report_trouble(w);
        return;
    }
    if (!w->changed) return;
    w->trouble = ERR_OK;
    if (w->has_last && str_equal(content, buf_peek(&w->last))) return;
    buf_clear(&w->last);
    w->has_last = !buf_append(&w->last, content); /* no memory: reported once too often */
    w->options.on_content(w->options.owner, content);
}

static void file_watch_on_due(struct timer *timer)
{
    struct file_watch *w = CONTAINER_OF(timer, struct file_watch, timer);

    if (worker_submit(w->worker, &w->job)) timer_start_in(&w->timer, FILE_WATCH_EVERY_MS);
}

enum err file_watch_first(struct file_watch *w, struct str *ret_content, struct note *note)
{
    enum err err;

    buf_clear(&w->last);
    err = fs_read_whole(w->options.io->fs, w->path, w->options.bytes_max, &w->last);
    w->has_last = !err;
    *ret_content = buf_peek(&w->last);
    if (err) note_set(note, "%s", err_text(err));
    return err;
}

enum err file_watch_open(const struct file_watch_options *options, struct file_watch **ret_watch,
                         struct note *note)
{
    struct worker_options worker = {.name = options->name, .jobs_max = 1};
    struct file_watch *w = calloc(1, sizeof *w);
    enum err err = ERR_OK;

    if (!w) return ERR_NOMEM;
    w->options = *options;
    buf_init(&w->content, options->bytes_max + 1);
    buf_init(&w->last, options->bytes_max + 1);
    job_init(&w->job, watch_read, on_watch_read);
    if (snprintf(w->path, sizeof w->path, "%s", options->path) >= (int)sizeof w->path) {
        note_set(note, "too long a path");
        err = ERR_INVALID;
    }
    if (!err) err = timer_init(&w->timer, options->io->loop, file_watch_on_due);
    if (!err) err = worker_open(options->io->loop, &worker, &w->worker);
    if (err) {
        file_watch_close(w);
        return err;
    }
    timer_start_in(&w->timer, FILE_WATCH_EVERY_MS);
    *ret_watch = w;
    return ERR_OK;
}

void file_watch_close(struct file_watch *w)
{
    if (!w) return;
    w->closing = true;
    timer_stop(&w->timer);
    worker_close(w->worker);
    timer_deinit(&w->timer);
    buf_deinit(&w->content);
    buf_deinit(&w->last);
    free(w);
}
