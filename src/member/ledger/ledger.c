/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's thread keeps the newest row of each key and builds the file's content. Another thread
 * reads the file once, then replaces it. Keys are `workers/<id>` and `heartbeats/<id>`. */
#include "member/ledger/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "io/fs.h"
#include "member/ledger/file.h"

enum { DIR_MODE = 0700, ASIDE_CAP = FS_PATH_CAP + 16, KEY_CAP = 11 + ROW_ID_MAX };
static const char *const spaces[] = {"workers/", "heartbeats/"};
enum space { WORKERS, HEARTBEATS };

struct row {          /* made by map_make */
    struct buf value; /* empty: the row was removed */
    bool changed;     /* since the content was last built */
};
struct member_ledger {
    struct io *io;
    const struct log_source *log;
    struct loop_worker *worker;
    struct timer timer;
    struct map rows; /* by key */
    struct buf row;  /* scratch */
    bool (*log_is_slow)(void *owner);
    void *owner;
    uint64_t flush_ms, retry_ms;
    struct member_ledger_stats stats;
    bool loaded;
    bool changed; /* rows changed since they were last written */
    bool foreign; /* the file has another format, so there is no ledger in this process */
    bool closing;
    bool writing; /* the ledger's thread runs `job` and owns the fields below */
    struct job job;
    struct buf content;
    struct str old; /* records read from the file; points into `content` */
    size_t content_rows;
    uint64_t unique;
    enum err result;
    struct note why;
    bool set_aside; /* the damaged file was renamed */
    char path[FS_PATH_CAP];
};

/* -- the file: on the ledger's thread -- */

static enum err read_old(struct member_ledger *l)
{
    char aside[ASIDE_CAP];
    enum err err = fs_make_parent(l->io->fs, l->path, DIR_MODE, &l->why);

    l->old = STR_EMPTY;
    if (!err) err = ledger_file_read(l->io->fs, l->path, &l->content, &l->old, &l->why);
    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (err != ERR_CORRUPT) return err;
    snprintf(aside, sizeof aside, "%s.damaged", l->path);
    err = fs_rename(l->io->fs, l->path, aside);
    l->set_aside = !err;
    return err;
}

static void run(struct job *job)
{
    struct member_ledger *l = CONTAINER_OF(job, struct member_ledger, job);

    l->result = l->loaded ? ledger_file_write(l->io->fs, l->path, &l->content, l->unique, &l->why)
                          : read_old(l);
}

/* -- rows in memory -- */

static struct str key_of(enum space space, struct str id, char room[KEY_CAP])
{
    size_t len = strlen(spaces[space]);

    if (id.len == 0 || id.len > ROW_ID_MAX) return STR_EMPTY;
    memcpy(room, spaces[space], len);
    memcpy(room + len, id.at, id.len);
    return str_of(room, len + id.len);
}

static void row_free(struct row *row)
{
    buf_deinit(&row->value);
    free(row);
}

/* NULL: the ledger is full */
static struct row *row_of(struct member_ledger *l, struct str key)
{
    struct row *row =
        key.len > 0 && key.len <= KEY_CAP ? map_make(&l->rows, key, sizeof *row) : NULL;

    if (row && !row->value.max) buf_init(&row->value, ROW_BYTES_MAX);
    return row;
}

/* true: the row now has that value */
static bool put(struct member_ledger *l, struct str key, struct str value)
{
    struct row *row = row_of(l, key);

    if (row) buf_clear(&row->value);
    if (!row || buf_append(&row->value, value)) {
        l->stats.dropped++;
        return false;
    }
    row->changed = true;
    return true;
}

static void ledger_keep(struct member_ledger *l, enum err made, enum space space, struct str id)
{
    char room[KEY_CAP];

    if (made || l->foreign)
        l->stats.dropped++;
    else if (put(l, key_of(space, id, room), buf_peek(&l->row)))
        l->changed = true;
    buf_clear(&l->row);
}

void member_ledger_worker(struct member_ledger *ledger, const struct worker_row *row)
{
    if (ledger) ledger_keep(ledger, worker_row_write(row, &ledger->row), WORKERS, row->worker_id);
}

void member_ledger_beat(struct member_ledger *ledger, const struct heartbeat_row *row)
{
    if (ledger)
        ledger_keep(ledger, heartbeat_row_write(row, &ledger->row), HEARTBEATS, row->worker_id);
}

/* An empty row overrides a row in the file, so empty rows are kept. */
void member_ledger_forget(struct member_ledger *ledger, struct str worker_id)
{
    char room[KEY_CAP];

    for (enum space space = WORKERS; ledger && !ledger->foreign && space <= HEARTBEATS; space++) {
        struct str key = key_of(space, worker_id, room);
        struct row *row = ledger->loaded ? map_get(&ledger->rows, key) : row_of(ledger, key);

        if (row) buf_clear(&row->value);
        ledger->changed |= row != NULL;
    }
}

/* -- rounds of writing the file -- */

/* A newer row in memory overrides a row of the file. */
static void take_old(struct member_ledger *l)
{
    struct str key, value;

    while (ledger_record_next(&l->old, &key, &value))
        if (!map_get(&l->rows, key) && put(l, key, value))
            ((struct row *)map_get(&l->rows, key))->changed = false;
    l->loaded = true;
}

static enum err make_content(struct member_ledger *l)
{
    struct map_entry *entry;
    size_t cursor = 0;
    enum err err = ledger_file_begin(&l->content);

    while (!err && (entry = map_next(&l->rows, &cursor))) {
        struct row *row = entry->value;

        if (row->value.len == 0) {
            (void)map_remove(&l->rows, entry->key);
            row_free(row);
            continue;
        }
        err = ledger_record_add(&l->content, entry->key, buf_peek(&row->value));
        if (!err) l->content_rows += row->changed;
        if (!err) row->changed = false;
    }
    return err;
}

static void say_how(struct member_ledger *l)
{
    bool trouble = l->result != ERR_OK;

    if (l->set_aside)
        LOG_WARN(l->log, "heartbeat ledger was damaged: set aside and replaced by a new one",
                 log_text("path", l->path), log_text("why", l->why.text));
    if (trouble && !l->stats.in_trouble)
        LOG_WARN(l->log, "heartbeat ledger cannot be written", log_text("path", l->path),
                 log_text("why", l->why.text), log_bool("tried_again", !l->foreign));
    if (!trouble && l->stats.in_trouble)
        LOG_INFO(l->log, "heartbeat ledger is writable again", log_text("path", l->path));
    l->set_aside = false;
    l->stats.in_trouble = trouble;
}

static void done(struct job *job, enum err err)
{
    struct member_ledger *l = CONTAINER_OF(job, struct member_ledger, job);
    uint64_t pause = l->content.len * MS_PER_SECOND / MEMBER_LEDGER_BYTES_A_SECOND;

    l->writing = false;
    if (err) l->changed = true; /* the job was cancelled because the ledger is closing */
    if (err) return;
    l->foreign = !l->loaded && l->result == ERR_CONFLICT;
    say_how(l);
    if (l->result) {
        l->stats.failures++;
        l->changed = true;
        pause = l->retry_ms;
    } else if (l->loaded) {
        l->stats.rows += l->content_rows;
        l->stats.batches++;
        l->content_rows = 0;
    } else {
        take_old(l);
    }
    if (!l->foreign && !l->closing) timer_start_in(&l->timer, max_u64(l->flush_ms, pause));
}

static bool to_write(struct member_ledger *l)
{
    bool slow = l->log_is_slow && l->log_is_slow(l->owner);

    if (slow) l->stats.skipped++;
    return !slow && l->changed && !make_content(l);
}

static void on_timer(struct timer *timer)
{
    struct member_ledger *l = CONTAINER_OF(timer, struct member_ledger, timer);

    assert(!l->writing);
    l->unique = entropy_u64(l->io->entropy);
    l->writing = (!l->loaded || to_write(l)) && !worker_submit(l->worker, &l->job);
    if (!l->writing)
        timer_start_in(timer, l->flush_ms);
    else if (l->loaded)
        l->changed = false;
}

/* -- open and close -- */

enum err member_ledger_open(const struct member_ledger_options *options,
                            struct member_ledger **ret_ledger)
{
    struct member_ledger *l;
    size_t rows_max = options->rows_max ? options->rows_max : MEMBER_LEDGER_ROWS_MAX;
    enum err err;

    if (!options->path[0] || strlen(options->path) >= FS_PATH_CAP) return ERR_INVALID;
    l = calloc(1, sizeof *l);
    if (!l) return ERR_NOMEM;
    l->io = options->io;
    l->log = options->log;
    l->log_is_slow = options->log_is_slow;
    l->owner = options->owner;
    l->flush_ms = options->flush_ms ? options->flush_ms : MEMBER_LEDGER_FLUSH_MS;
    l->retry_ms = options->retry_ms ? options->retry_ms : MEMBER_LEDGER_RETRY_MS;
    snprintf(l->path, sizeof l->path, "%s", options->path);
    map_init(&l->rows, rows_max, entropy_u64(l->io->entropy));
    buf_init(&l->row, ROW_BYTES_MAX);
    buf_init(&l->content, LEDGER_FILE_MAX);
    job_init(&l->job, run, done);
    err = timer_init(&l->timer, l->io->loop, on_timer);
    if (!err)
        err = worker_open(l->io->loop, &(struct worker_options){.name = "ledger", .jobs_max = 1},
                          &l->worker);
    if (err) {
        member_ledger_close(l);
        return err;
    }
    timer_start_in(&l->timer, 0);
    *ret_ledger = l;
    return ERR_OK;
}

void member_ledger_close(struct member_ledger *ledger)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!ledger) return;
    ledger->closing = true;
    worker_close(ledger->worker);
    timer_deinit(&ledger->timer);
    if (ledger->loaded && ledger->changed && !ledger->stats.in_trouble && !make_content(ledger))
        (void)ledger_file_write(ledger->io->fs, ledger->path, &ledger->content,
                                entropy_u64(ledger->io->entropy), NULL);
    while ((entry = map_next(&ledger->rows, &cursor))) row_free(entry->value);
    map_deinit(&ledger->rows);
    buf_deinit(&ledger->row);
    buf_deinit(&ledger->content);
    free(ledger);
}

struct member_ledger_stats member_ledger_stats(const struct member_ledger *ledger)
{
    return ledger ? ledger->stats : (struct member_ledger_stats){0};
}
