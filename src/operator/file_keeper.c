/* SPDX-License-Identifier: Apache-2.0 */
/* Two buffers: the content that the worker writes, and the newest that waits. The fields of the job
 * belong to the worker while it runs, all others to the loop. */
#include "operator/file_keeper.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/fs.h"
#include "io/worker.h"

struct file_keeper {
    struct file_keeper_options options;
    char path[FS_PATH_CAP];
    struct loop_worker *worker;
    struct timer again;
    /* the loop's */
    struct buf waiting;
    uint64_t waiting_mark;
    bool waits, runs, closing;
    enum err trouble; /* reported last */
    /* the job's, while it runs */
    struct job job;
    struct buf content;
    uint64_t mark, unique;
    enum err err;
};

/* On the worker. */
static void keeper_publish(struct job *job)
{
    struct file_keeper *k = CONTAINER_OF(job, struct file_keeper, job);

    k->err =
        fs_publish(k->options.io->fs, k->path, buf_peek(&k->content), k->options.mode, k->unique);
}

static void keeper_swap(struct file_keeper *k)
{
    struct buf content = k->content;

    k->content = k->waiting;
    k->waiting = content;
    buf_clear(&k->waiting);
}

/* Starts the next write, unless a write runs or a failure is not FILE_KEEPER_AGAIN_MS ago. */
static void keeper_begin(struct file_keeper *k)
{
    if (!k->waits || k->runs || timer_running(&k->again)) return;
    keeper_swap(k);
    k->waits = false;
    k->mark = k->waiting_mark;
    k->unique = entropy_u64(k->options.io->entropy);
    k->runs = !worker_submit(k->worker, &k->job);
    assert(k->runs); /* one job at a time always fits */
}

static void keeper_report_trouble(struct file_keeper *k)
{
    char why[FS_PATH_CAP + 64];

    if (k->err == k->trouble) return;
    k->trouble = k->err;
    snprintf(why, sizeof why, "%s: %s", k->path, err_text(k->err));
    k->options.on_trouble(k->options.owner, k->err, why);
}

static void on_published(struct job *job, enum err err)
{
    struct file_keeper *k = CONTAINER_OF(job, struct file_keeper, job);

    k->runs = false;
    if (err || k->closing) return;
    if (k->err) {
        keeper_report_trouble(k);
        if (!k->waits) { /* nothing newer: the same again */
            keeper_swap(k);
            k->waiting_mark = k->mark;
            k->waits = true;
        }
        timer_start_in(&k->again, FILE_KEEPER_AGAIN_MS);
        return;
    }
    k->trouble = ERR_OK;
    if (k->options.on_written) k->options.on_written(k->options.owner, k->mark);
    keeper_begin(k);
}

static void file_keeper_on_again(struct timer *timer)
{
    keeper_begin(CONTAINER_OF(timer, struct file_keeper, again));
}

struct buf *file_keeper_room(struct file_keeper *k)
{
    buf_clear(&k->waiting);
    k->waits = false;
    return &k->waiting;
}

void file_keeper_write(struct file_keeper *k, uint64_t mark)
{
    k->waiting_mark = mark;
    k->waits = true;
    keeper_begin(k);
}

bool file_keeper_busy(const struct file_keeper *k)
{
    return k->runs || k->waits;
}

enum err file_keeper_open(const struct file_keeper_options *options,
                          struct file_keeper **ret_keeper, struct note *note)
{
    struct worker_options worker = {.name = options->name, .jobs_max = 1};
    struct file_keeper *k = calloc(1, sizeof *k);
    enum err err = ERR_OK;

    if (!k) return ERR_NOMEM;
    k->options = *options;
    buf_init(&k->content, options->bytes_max);
    buf_init(&k->waiting, options->bytes_max);
    job_init(&k->job, keeper_publish, on_published);
    if (snprintf(k->path, sizeof k->path, "%s", options->path) >= (int)sizeof k->path) {
        note_set(note, "too long a path");
        err = ERR_INVALID;
    }
    if (!err) err = timer_init(&k->again, options->io->loop, file_keeper_on_again);
    if (!err) err = worker_open(options->io->loop, &worker, &k->worker);
    if (err) {
        file_keeper_close(k);
        return err;
    }
    *ret_keeper = k;
    return ERR_OK;
}

void file_keeper_close(struct file_keeper *k)
{
    if (!k) return;
    k->closing = true;
    timer_stop(&k->again);
    worker_close(k->worker);
    if (k->waits)
        fs_publish(
            k->options.io->fs, k->path, buf_peek(&k->waiting), k->options.mode,
            entropy_u64(k->options.io->entropy)); /* best effort: the next start writes anew */
    timer_deinit(&k->again);
    buf_deinit(&k->content);
    buf_deinit(&k->waiting);
    free(k);
}
