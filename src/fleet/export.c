/* SPDX-License-Identifier: Apache-2.0 */
/* The export loop: at each interval the leader writes the fleet tables to a directory, in the
 * original program's format (coordinator.md 6.4, fleet/export_dir.h).
 *
 * A tick is skipped on a follower, during an export, and while all tables are empty. An unchanged
 * state is exported again: the age of `latest` is the age of its content. A failed export is
 * retried at the next tick. The event loop reads the tables in slices; a worker thread writes the
 * files.
 *
 *     idle -> asking (confirms leadership) -> copying, a slice per turn -> finishing -> idle
 *               |                       |
 *               +-----------------------+--> idle, counted as failed */
#include <stdlib.h>
#include <string.h>

#include "fleet/export_dir.h"
#include "fleet/service_internal.h"

enum { EXPORT_EVERY_MS = 5 * 60 * 1000, EXPORT_KEEP_DEFAULT = 48 };
enum state { IDLE, ASKING, COPYING, FINISHING };
enum work { WORK_WRITE, WORK_FINISH, WORK_ABANDON };

struct export_loop {
    struct fleet_service *service;
    struct log_source log;
    uint64_t every_ms;
    uint32_t keep;
    char dir[FS_PATH_CAP];
    struct timer timer;
    struct loop_worker *worker;
    struct read_ticket ticket;
    struct fleet_copy copy;
    struct metric_fields *fields; /* describes `numbers`; NULL without a registry */
    struct export_numbers {
        uint64_t done, failed, empty, last_ms, last_index, last_bytes;
    } numbers;
    enum state state;
    bool copied; /* the copy is complete */

    /* for the worker thread while `busy` is true */
    bool busy;
    enum work work;
    enum err err, prune_err;
    uint32_t removed;
    uint64_t bytes;
    struct job job;
    struct export_file *file;
    struct fleet_meta meta;
    wall_time now;
    struct buf slice;
    char name[EXPORT_NAME_CAP];
    struct note note, prune_note;
};

static void export_step(struct export_loop *loop);

/* -- on the worker -- */

static enum err export_write_slice(struct export_loop *loop)
{
    struct fs *fs = loop->service->io->fs;
    enum err err = ERR_OK;

    if (!loop->file) err = export_dir_open(fs, loop->dir, &loop->note);
    if (!err && !loop->file)
        err = export_create(fs, loop->dir, &loop->meta, loop->now, &loop->file, &loop->note);
    if (!err) err = export_write(loop->file, buf_peek(&loop->slice), &loop->note);
    if (!err) loop->bytes += loop->slice.len;
    return err;
}

static void export_run(struct job *job)
{
    struct export_loop *loop = CONTAINER_OF(job, struct export_loop, job);
    struct fs *fs = loop->service->io->fs;

    switch (loop->work) {
    case WORK_WRITE: loop->err = export_write_slice(loop); break;
    case WORK_FINISH:
        loop->err = export_finish(loop->file, loop->name, &loop->note);
        loop->file = NULL;
        loop->removed = 0;
        loop->prune_err = ERR_OK;
        if (!loop->err)
            loop->prune_err = export_prune(fs, loop->dir, loop->keep, loop->name, &loop->removed,
                                           &loop->prune_note);
        break;
    case WORK_ABANDON:
        export_abandon(loop->file);
        loop->file = NULL;
        break;
    }
}

static void export_on_job(struct job *job, enum err err)
{
    struct export_loop *loop = CONTAINER_OF(job, struct export_loop, job);

    loop->busy = false;
    if (!err) export_step(loop); /* otherwise the export loop is being closed */
}

static void export_submit(struct export_loop *loop, enum work work)
{
    enum err err;

    assert(!loop->busy);
    loop->work = work;
    loop->err = ERR_OK;
    loop->note.text[0] = '\0';
    job_init(&loop->job, export_run, export_on_job);
    err = worker_submit(loop->worker, &loop->job); /* never full: there is only one job */
    loop->busy = !err;
}

/* -- on the loop -- */

static void export_end(struct export_loop *loop)
{
    fleet_copy_close(&loop->copy);
    buf_clear(&loop->slice);
    loop->state = IDLE;
    metrics_set_fields(loop->fields, &loop->numbers);
}

static void export_give_up(struct export_loop *loop, enum err err, const char *why)
{
    LOG_WARN(&loop->log, "export failed: retrying at the next interval", log_err("err", err),
             log_text("why", why), log_text("dir", loop->dir));
    loop->numbers.failed++;
    export_end(loop);
    if (loop->file) export_submit(loop, WORK_ABANDON);
}

static void export_settle(struct export_loop *loop)
{
    loop->numbers.done++;
    loop->numbers.last_ms = loop->now.ms;
    loop->numbers.last_index = loop->meta.index;
    loop->numbers.last_bytes = loop->bytes;
    LOG_INFO(&loop->log, "exported the fleet tables", log_text("name", loop->name),
             log_u64("index", loop->meta.index), log_u64("bytes", loop->bytes),
             log_u64("pruned", loop->removed));
    if (loop->prune_err)
        LOG_WARN(&loop->log, "older exports could not be removed", log_err("err", loop->prune_err),
                 log_text("why", loop->prune_note.text));
    export_end(loop);
}

static void export_copy_slice(struct export_loop *loop)
{
    enum err err;

    buf_clear(&loop->slice);
    err = fleet_state_write_next(loop->copy.writer, STATE_SLICE_BYTES, &loop->slice, &loop->copied);
    if (err)
        export_give_up(loop, err, "read the tables");
    else
        export_submit(loop, WORK_WRITE);
}

/* Continues after each job. */
static void export_step(struct export_loop *loop)
{
    if (loop->state == IDLE) return; /* abandoned */
    if (loop->err)
        export_give_up(loop, loop->err, loop->note.text);
    else if (loop->state == FINISHING)
        export_settle(loop);
    else if (!loop->copied)
        export_copy_slice(loop);
    else {
        fleet_copy_close(&loop->copy);
        loop->state = FINISHING;
        export_submit(loop, WORK_FINISH);
    }
}

static void export_begin(struct export_loop *loop)
{
    const struct fleet_service *service = loop->service;
    enum err err;

    if (fleet_copy_is_empty(service->fleet)) {
        loop->numbers.empty++;
        export_end(loop);
        return;
    }
    loop->now = clock_wall(service->io->clock);
    err = fleet_copy_open(&loop->copy, service->fleet, service->leader.replica,
                          service->options.roster, loop->now);
    if (err) {
        export_give_up(loop, err, "begin");
        return;
    }
    loop->meta = loop->copy.meta;
    loop->bytes = 0;
    loop->copied = false;
    loop->state = COPYING;
    export_copy_slice(loop);
}

static void export_on_read(struct read_ticket *ticket, enum err err)
{
    struct export_loop *loop = CONTAINER_OF(ticket, struct export_loop, ticket);

    if (!err)
        export_begin(loop);
    else
        export_end(loop); /* this replica is no longer the leader */
}

static void export_on_timer(struct timer *timer)
{
    struct export_loop *loop = CONTAINER_OF(timer, struct export_loop, timer);

    timer_start_in(timer, loop->every_ms);
    if (loop->state == ASKING) { /* no majority answered within the interval */
        replica_read_cancel(loop->service->leader.replica, &loop->ticket);
        export_give_up(loop, ERR_UNAVAILABLE, "no majority answered");
    }
    if (loop->state != IDLE || loop->busy || !leader_leads(&loop->service->leader)) return;
    loop->state = ASKING;
    loop->ticket = (struct read_ticket){.done = export_on_read};
    replica_read(loop->service->leader.replica, &loop->ticket);
}

/* -- opening and closing -- */

#define EXPORT_NUMBER(kind, member) METRIC_##kind, METRIC_FIELD(struct export_numbers, member)
#define TICKS(outcome)                                                                             \
    {                                                                                              \
        "muster_coordinator_exports_total",                                                        \
            "Export attempts of the leader by outcome: done, failed, empty.",                      \
            EXPORT_NUMBER(COUNTER, outcome), .label = "outcome", .value = #outcome                 \
    }
static const struct metric_field export_number_rows[] = {
    TICKS(done),
    TICKS(failed),
    TICKS(empty),
    {"muster_coordinator_export_last_timestamp_seconds",
     "When this replica last exported, in seconds since 1970; 0: never.",
     EXPORT_NUMBER(GAUGE, last_ms), .per_unit = 1000},
    {"muster_coordinator_export_last_index", "Index of the state this replica last exported.",
     EXPORT_NUMBER(GAUGE, last_index)},
    {"muster_coordinator_export_last_bytes", "Size of the state this replica last exported.",
     EXPORT_NUMBER(GAUGE, last_bytes)},
};

enum err export_loop_open(struct fleet_service *service, struct note *note)
{
    const struct fleet_exports *options = &service->options.exports;
    struct worker_options worker = {.name = "export", .jobs_max = 2};
    struct export_loop *loop;
    enum err err;

    if (!options->dir || !options->dir[0]) return ERR_OK;
    if (strlen(options->dir) >= FS_PATH_CAP - EXPORT_NAME_CAP - 16)
        return note_fail(note, ERR_INVALID, "export directory: too long a path");
    loop = service->exports = calloc(1, sizeof *loop);
    if (!loop) return ERR_NOMEM;
    loop->service = service;
    loop->log = service->log;
    loop->every_ms = options->every_ms ? options->every_ms : EXPORT_EVERY_MS;
    loop->keep = options->keep ? options->keep : EXPORT_KEEP_DEFAULT;
    memcpy(loop->dir, options->dir, strlen(options->dir) + 1);
    buf_init(&loop->slice, STATE_SLICE_MAX);
    err = timer_init(&loop->timer, service->io->loop, export_on_timer);
    if (!err && service->options.metrics)
        err = metrics_add_fields(service->options.metrics, export_number_rows,
                                 ARRAY_LEN(export_number_rows), &loop->fields, note);
    if (!err) err = worker_open(service->io->loop, &worker, &loop->worker);
    if (!err) timer_start_in(&loop->timer, loop->every_ms);
    return err;
}

void export_loop_close(struct export_loop *loop)
{
    if (!loop) return;
    if (loop->state == ASKING) replica_read_cancel(loop->service->leader.replica, &loop->ticket);
    loop->state = IDLE; /* the result of a running job is ignored */
    worker_close(loop->worker);
    export_abandon(loop->file);
    fleet_copy_close(&loop->copy);
    timer_deinit(&loop->timer);
    buf_deinit(&loop->slice);
    free(loop);
}
