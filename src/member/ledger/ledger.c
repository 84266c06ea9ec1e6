/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's thread gathers rows and makes batches of them; the thread of its own opens the file,
 * writes one batch, and says how it went. A batch that could not be written is kept and tried
 * again, with what has come meanwhile still gathering behind it.
 *
 * A batch is a row of records: u8 what (enum change), u8 length of the id, id, u16 length, row. */
#include "member/ledger/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "io/fs_path.h"
#include "member/ledger/db.h"

enum { FILE_MAX = 1 << 30, DIR_MODE = 0700, RECORD_HEAD = 2, ASIDE_CAP = FS_PATH_CAP + 16 };
enum change { CHANGE_WORKER, CHANGE_BEAT, CHANGE_FORGET };

/* What waits of one worker; the newest of each kind. */
struct waiting {
    struct list link; /* in order of the first change */
    bool queued, forget;
    struct buf worker, beat; /* empty: nothing new */
    uint8_t id_len;
    char id[];
};
struct member_ledger {
    struct io *io;
    const struct log_source *log;
    struct worker *worker;
    struct timer timer;
    struct map by_id;
    struct list queue;
    struct buf row; /* scratch */
    bool (*log_is_slow)(void *owner);
    void *owner;
    uint64_t flush_ms, retry_ms;
    struct member_ledger_stats stats;
    bool writing; /* the job is with the thread, which then owns what follows */
    struct job job;
    struct ledger_db *db; /* NULL: not open */
    struct buf batch;     /* empty: nothing is being written */
    size_t batch_rows;
    enum err result;
    struct note why;
    bool set_aside, not_ours; /* what opening found */
    bool foreign;             /* as done() learnt it: there is no ledger, and never will be */
    bool closing;
    char path[FS_PATH_CAP];
};
static_assert(ROW_ID_MAX <= UINT8_MAX && ROW_BYTES_MAX <= UINT16_MAX, "a record's lengths fit");

/* -- the file: on the thread of its own -- */

static enum err open_file(struct member_ledger *l)
{
    char aside[ASIDE_CAP];
    enum err err = fs_make_parent(l->io->fs, l->path, DIR_MODE, &l->why);

    if (err) return err;
    err = ledger_db_open(l->io->fs, l->path, FILE_MAX, &l->db, &l->why);
    if (err == ERR_CORRUPT) {
        snprintf(aside, sizeof aside, "%s.damaged", l->path);
        err = fs_rename(l->io->fs, l->path, aside);
        if (!err) l->set_aside = true;
        if (!err) err = ledger_db_open(l->io->fs, l->path, FILE_MAX, &l->db, NULL);
    }
    l->not_ours = err == ERR_CONFLICT;
    return err;
}

static enum err write_record(struct ledger_txn *txn, enum change what, struct str id,
                             struct str row)
{
    struct ledger_key worker = {.space = LEDGER_WORKERS, .parts = {id}, .part_count = 1};
    struct ledger_key beat = {.space = LEDGER_HEARTBEATS, .parts = {id}, .part_count = 1};
    enum err err;

    if (what == CHANGE_WORKER) return ledger_put(txn, &worker, row);
    if (what == CHANGE_BEAT) return ledger_put(txn, &beat, row);
    err = ledger_delete(txn, &worker);
    return err ? err : ledger_delete(txn, &beat);
}

static enum err write_batch(struct member_ledger *l)
{
    struct str rest = buf_peek(&l->batch);
    struct ledger_txn *txn;
    enum err err = ledger_begin(l->db, true, &txn);

    if (err) return err;
    while (rest.len > 0 && !err) {
        enum change what = (enum change)rest.at[0];
        size_t id_len = (uint8_t)rest.at[1], row_len = load_le16(rest.at + RECORD_HEAD + id_len);
        struct str id = str_of(rest.at + RECORD_HEAD, id_len);
        struct str row = str_of(rest.at + RECORD_HEAD + id_len + 2, row_len);

        err = write_record(txn, what, id, row);
        rest = str_tail(rest, RECORD_HEAD + id_len + 2 + row_len);
    }
    if (!err) return ledger_commit(txn);
    ledger_abort(txn);
    return err;
}

static void run(struct job *job)
{
    struct member_ledger *l = CONTAINER_OF(job, struct member_ledger, job);

    l->result = l->db ? ERR_OK : open_file(l);
    if (!l->result) {
        l->result = write_batch(l);
        if (l->result) note_set(&l->why, "%s: %s", l->path, err_text(l->result));
    }
    if (l->result) { /* LMDB may refuse everything after a failed write; a new start does not */
        ledger_db_close(l->db);
        l->db = NULL;
    }
}

/* -- rounds -- */

static void say_how(struct member_ledger *l)
{
    bool trouble = l->result != ERR_OK;

    if (l->set_aside)
        LOG_WARN(l->log, "the heartbeat ledger was damaged; it is set aside and a new one begun",
                 log_text("path", l->path), log_text("why", l->why.text));
    if (trouble && !l->stats.in_trouble)
        LOG_WARN(l->log, "the heartbeat ledger cannot be written; nothing else is affected",
                 log_text("path", l->path), log_text("why", l->why.text),
                 log_bool("tried_again", !l->foreign));
    if (!trouble && l->stats.in_trouble)
        LOG_INFO(l->log, "the heartbeat ledger is written again", log_text("path", l->path));
    l->set_aside = false;
    l->stats.in_trouble = trouble;
}

static void forget_batch(struct member_ledger *l)
{
    buf_clear(&l->batch);
    l->batch_rows = 0;
}

static void done(struct job *job, enum err err)
{
    struct member_ledger *l = CONTAINER_OF(job, struct member_ledger, job);
    uint64_t bytes = l->batch.len, pause;

    l->writing = false;
    if (err) return; /* it never ran: we are closing */
    l->foreign = l->not_ours;
    say_how(l);
    if (l->result) {
        l->stats.failures++;
        if (!l->foreign && !l->closing) timer_start_in(&l->timer, l->retry_ms);
        return;
    }
    l->stats.rows += l->batch_rows;
    l->stats.batches++;
    forget_batch(l);
    pause = max_u64(l->flush_ms, bytes * MS_PER_SECOND / MEMBER_LEDGER_BYTES_A_SECOND);
    if (!l->closing) timer_start_in(&l->timer, pause);
}

static enum err add_record(struct member_ledger *l, enum change what, const struct waiting *w,
                           struct str row)
{
    char head[RECORD_HEAD] = {(char)what, (char)w->id_len}, len[2];
    enum err err = buf_append(&l->batch, str_of(head, sizeof head));

    store_le16(len, (uint16_t)row.len);
    if (!err) err = buf_append(&l->batch, str_of(w->id, w->id_len));
    if (!err) err = buf_append(&l->batch, str_of(len, sizeof len));
    if (!err) err = buf_append(&l->batch, row);
    if (!err) l->batch_rows++;
    return err;
}

static enum err add_waiting(struct member_ledger *l, const struct waiting *w)
{
    size_t before = l->batch.len, rows = l->batch_rows;
    enum err err = ERR_OK;

    if (w->forget) err = add_record(l, CHANGE_FORGET, w, STR_EMPTY);
    if (!err && w->worker.len) err = add_record(l, CHANGE_WORKER, w, buf_peek(&w->worker));
    if (!err && w->beat.len) err = add_record(l, CHANGE_BEAT, w, buf_peek(&w->beat));
    if (err) {
        l->batch.len = before;
        l->batch_rows = rows;
    }
    return err;
}

static void waiting_free(struct waiting *w)
{
    buf_deinit(&w->worker);
    buf_deinit(&w->beat);
    free(w);
}

/* One that came back after it was forgotten stays; else a forgotten one needs no place. */
static void taken(struct member_ledger *l, struct waiting *w)
{
    bool gone = w->forget && !w->worker.len && !w->beat.len;

    list_remove(&w->link);
    w->queued = w->forget = false;
    buf_deinit(&w->worker); /* rare, while the next beat comes soon */
    buf_clear(&w->beat);
    l->stats.waiting--;
    if (!gone) return;
    (void)map_remove(&l->by_id, str_of(w->id, w->id_len));
    waiting_free(w);
}

/* Moves what waits into the batch, as far as memory goes; the rest waits on. */
static void make_batch(struct member_ledger *l)
{
    while (!list_empty(&l->queue)) {
        struct waiting *w = CONTAINER_OF(l->queue.next, struct waiting, link);
        if (add_waiting(l, w)) return;
        taken(l, w);
    }
}

static void on_timer(struct timer *timer)
{
    struct member_ledger *l = CONTAINER_OF(timer, struct member_ledger, timer);
    bool slow = l->log_is_slow && l->log_is_slow(l->owner);

    assert(!l->writing);
    if (slow) l->stats.skipped++;
    if (!slow && l->batch.len == 0) make_batch(l);
    if (slow || l->batch.len == 0 || worker_submit(l->worker, &l->job) != ERR_OK)
        timer_start_in(&l->timer, l->flush_ms);
    else
        l->writing = true;
}

/* -- life -- */

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
    list_init(&l->queue);
    map_init(&l->by_id, rows_max, entropy_u64(l->io->entropy));
    buf_init(&l->row, ROW_BYTES_MAX);
    buf_init(&l->batch, rows_max * 2 * ROW_BYTES_MAX);
    job_init(&l->job, run, done);
    err = timer_init(&l->timer, l->io->loop, on_timer);
    if (!err)
        err = worker_open(l->io->loop, &(struct worker_options){.name = "ledger", .jobs_max = 1},
                          &l->worker);
    if (err) {
        member_ledger_close(l);
        return err;
    }
    timer_start_in(&l->timer, l->flush_ms);
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
    if (ledger->db) { /* it was written a moment ago, so the last rows go the same way */
        if (ledger->batch.len == 0) make_batch(ledger);
        if (ledger->batch.len > 0) (void)write_batch(ledger);
    }
    ledger_db_close(ledger->db);
    while ((entry = map_next(&ledger->by_id, &cursor))) waiting_free(entry->value);
    map_deinit(&ledger->by_id);
    buf_deinit(&ledger->row);
    buf_deinit(&ledger->batch);
    free(ledger);
}

/* -- rows -- */

static struct waiting *waiting_new(struct str id)
{
    struct waiting *w = calloc(1, sizeof *w + id.len);

    if (!w) return NULL;
    w->id_len = (uint8_t)id.len;
    memcpy(w->id, id.at, id.len);
    list_init(&w->link);
    buf_init(&w->worker, ROW_BYTES_MAX);
    buf_init(&w->beat, ROW_BYTES_MAX);
    return w;
}

/* The place of a worker, at the end of what waits; NULL when there is no room. */
static struct waiting *wait_for(struct member_ledger *l, struct str id)
{
    struct waiting *w = id.len <= ROW_ID_MAX ? map_get(&l->by_id, id) : NULL;

    if (!w && id.len > 0 && id.len <= ROW_ID_MAX) {
        w = waiting_new(id);
        if (!w) return NULL;
        if (map_put(&l->by_id, str_of(w->id, w->id_len), w)) {
            waiting_free(w);
            return NULL;
        }
    }
    if (w && !w->queued) {
        list_append(&l->queue, &w->link);
        w->queued = true;
        l->stats.waiting++;
    }
    return w;
}

/* Takes the row that was made in l->row. */
static void keep(struct member_ledger *l, enum err made, struct str id, bool is_beat)
{
    struct waiting *w = made || l->foreign ? NULL : wait_for(l, id);
    struct buf *into = w && is_beat ? &w->beat : w ? &w->worker : NULL;

    if (into) buf_clear(into);
    if (!into || buf_append(into, buf_peek(&l->row))) l->stats.dropped++;
    buf_clear(&l->row);
}

void member_ledger_worker(struct member_ledger *ledger, const struct worker_row *row)
{
    if (!ledger) return;
    keep(ledger, worker_row_write(row, &ledger->row), row->worker_id, false);
}

void member_ledger_beat(struct member_ledger *ledger, const struct heartbeat_row *row)
{
    if (!ledger) return;
    keep(ledger, heartbeat_row_write(row, &ledger->row), row->worker_id, true);
}

void member_ledger_forget(struct member_ledger *ledger, struct str worker_id)
{
    struct waiting *w;

    if (!ledger || ledger->foreign) return;
    w = wait_for(ledger, worker_id);
    if (!w) {
        ledger->stats.dropped++;
        return;
    }
    w->forget = true;
    buf_clear(&w->worker);
    buf_clear(&w->beat);
}

struct member_ledger_stats member_ledger_stats(const struct member_ledger *ledger)
{
    return ledger ? ledger->stats : (struct member_ledger_stats){0};
}
