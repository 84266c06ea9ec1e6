/* SPDX-License-Identifier: Apache-2.0 */
/* The host: a worker thread writes the changes of a turn together; answers and operations wait for
 * that write. The worker has one job at a time; during compaction a job also writes a piece of the
 * new state file. Everything except write_run() runs on the loop's thread. */
#include "provider/host/host.h"

#include <stdlib.h>

#include "provider/host/host_metrics.h"
#include "provider/host/operation.h"

enum {
    COMPACT_BYTES = 64 << 20,
    COMPACT_FACTOR = 4,      /* a file of this many times its first size is compacted */
    PIECE_BYTES = 256 << 10, /* bytes of a new file per sync; keeps turns short */
    CHANGES_MAX = INT32_MAX,
    OPERATION_BYTES_MAX = 4 << 20,
    SEAL_AFTER_MS = 1000,
};

struct write_job { /* owned by the worker thread while the job runs */
    struct job job;
    struct journal *journal;
    struct clock *clock;
    struct buf changes, piece;
    uint64_t salt; /* salt of a new file that this job begins; 0: none */
    bool has_piece, publish, seal;
    enum err err, next_err;
    uint64_t sync_ns, size;
    struct note note;
};
struct start { /* an accepted operation that is not on disk yet */
    uint64_t until;
    struct operation_ticket ticket;
    bool again;
};
struct host {
    struct backend_host face;
    struct host_options options;
    struct log_source log;
    struct book *book;
    struct backend *backend;
    struct host_metrics metrics;
    struct provider_counts counts;
    struct journal *journal; /* NULL if nothing is stored */
    struct journal_report loaded;
    struct loop_worker *worker;
    struct write_job job;
    struct turn_hook hook;
    struct timer seal_timer;
    struct list waiting; /* in order of `until` */
    struct buf starts;   /* array of struct start, in order of `until` */
    uint64_t written;    /* newest turn whose changes are on disk */
    uint64_t writing;    /* newest turn that a job writes; without a job equal to `written` */
    uint64_t compact_at;
    bool compacting, starting, failed, closing;
    bool busy;
    bool orphaned; /* the host was closed while the job ran; the job's end frees it */
};

static void host_fail(struct host *host, enum err err, const struct note *note)
{
    if (host->failed) return;
    host->failed = true;
    if (host->options.on_failed) host->options.on_failed(host->options.owner, err, note);
}

/* --- ends and starts of operations --- */

static void host_end_operation(struct host *host, struct operation_ticket ticket,
                               const struct operation_end *end)
{
    struct note note;
    enum err err;

    if (!book_end(host->book, ticket, end, &err)) {
        LOG_DEBUG(&host->log, "ignored the end of an operation that is already over",
                  log_u64("operation", ticket.number));
        return;
    }
    host->counts.ended[end->failed]++;
    if (!err) return;
    note_set(&note, "the end of op-%llu cannot be noted", (unsigned long long)ticket.number);
    host_fail(host, err, &note);
}

static void host_start_operation(struct host *host, struct operation_ticket ticket, bool again)
{
    struct operation_end end = {.failed = true};
    struct backend_operation operation;
    struct arena arena;
    struct note note = {""};
    enum err err, refused = ERR_OK;

    arena_init(&arena, OPERATION_BYTES_MAX);
    if (book_operation(host->book, ticket, &arena, &operation, &err)) {
        operation.again = again;
        refused = host->backend->ops->start(host->backend, &operation, &note);
    } else if (err) {
        note_set(&note, "operation op-%llu cannot be started", (unsigned long long)ticket.number);
        host_fail(host, err, &note);
    }
    arena_deinit(&arena);
    if (!refused) return;
    end.error = str_from(note.text[0] ? note.text : err_text(refused));
    LOG_ERROR(&host->log, "operation could not be started", log_u64("operation", ticket.number),
              log_str("why", end.error));
    host_end_operation(host, ticket, &end);
}

/* --- waiting for the disk --- */

/* The write after which the whole book is on disk; 0: it is on disk now. */
static uint64_t host_durable_after(const struct host *host)
{
    if (book_changes(host->book)->len > 0) return host->writing + 1;
    return host->writing > host->written ? host->writing : 0;
}

bool host_wait(struct host *host, struct host_wait *wait, host_wait_fn *fn)
{
    wait->fn = fn;
    wait->until = host_durable_after(host);
    if (wait->until > 0) list_append(&host->waiting, &wait->link);
    return wait->until > 0;
}

static void host_wake(struct host *host)
{
    struct start start;
    size_t at = 0;

    for (; at < host->starts.len; at += sizeof start) {
        memcpy(&start, host->starts.data + at, sizeof start);
        if (start.until > host->written) break;
        host_start_operation(host, start.ticket, start.again);
    }
    buf_consume(&host->starts, at);
    while (!list_empty(&host->waiting)) {
        struct host_wait *wait = CONTAINER_OF(host->waiting.next, struct host_wait, link);

        if (wait->until > host->written) return;
        list_remove(&wait->link);
        wait->fn(wait);
    }
}

/* --- writing the journal --- */

/* Runs on the worker's thread. */
static void write_run(struct job *job)
{
    struct write_job *w = CONTAINER_OF(job, struct write_job, job);
    uint64_t begin = clock_mono_ns(w->clock).ns;

    w->err = w->next_err = ERR_OK;
    if (w->changes.len > 0) w->err = journal_append(w->journal, buf_peek(&w->changes), &w->note);
    if (!w->err && w->seal) w->err = journal_seal(w->journal, &w->note);
    w->sync_ns = clock_mono_ns(w->clock).ns - begin;
    if (!w->err && w->has_piece)
        w->next_err =
            journal_rewrite(w->journal, w->salt, buf_peek(&w->piece), w->publish, &w->note);
    w->size = journal_size(w->journal);
}

static void host_end_rewriting(struct host *host, const struct write_job *w)
{
    bool published = w->publish && !w->next_err;

    if (!w->has_piece || (!w->next_err && !w->publish)) return;
    host->compacting = false;
    host->compact_at = max_u64(host->options.compact_bytes, w->size * COMPACT_FACTOR);
    host->counts.rewritten[published]++;
    if (published)
        LOG_INFO(&host->log, "state file rewritten", log_u64("bytes", w->size));
    else
        LOG_WARN(&host->log, "state file could not be rewritten; it grows",
                 log_err("err", w->next_err), log_text("why", w->note.text));
}

static void host_free(struct host *host)
{
    journal_close(host->journal);
    book_close(host->book);
    buf_deinit(&host->job.changes);
    buf_deinit(&host->job.piece);
    buf_deinit(&host->starts);
    free(host);
}

static void on_written(struct job *job, enum err err)
{
    struct write_job *w = CONTAINER_OF(job, struct write_job, job);
    struct host *host = CONTAINER_OF(w, struct host, job);

    host->busy = false;
    if (host->closing) { /* after host_close nothing is reported */
        if (host->orphaned) host_free(host);
        return;
    }
    assert(!err);
    if (w->err) {
        host_fail(host, w->err, &w->note);
        return;
    }
    host->counts.written_bytes += w->changes.len;
    host->counts.state_bytes = w->size;
    if (w->changes.len > 0 && host->metrics.sync_seconds)
        histogram_observe(host->metrics.sync_seconds, (double)w->sync_ns / 1e9);
    host_end_rewriting(host, w);
    host->written = host->writing;
    buf_clear(&w->changes);
    buf_clear(&w->piece);
    if (w->next_err && journal_failed(host->journal)) host_fail(host, w->next_err, &w->note);
    if (!w->seal) timer_start_in(&host->seal_timer, SEAL_AFTER_MS);
    host_wake(host);
}

/* During a compaction each job writes a piece of the new file. */
static void write_take_piece(struct host *host, struct write_job *w)
{
    bool more = true;
    enum err err = ERR_OK;

    w->has_piece = w->publish = false;
    w->salt = 0;
    if (!host->compacting) {
        if (w->size < host->compact_at) return;
        host->compacting = true;
        book_snapshot_begin(host->book);
        w->salt = entropy_u64(host->options.io->entropy) | 1;
    } else {
        err = buf_append(&w->piece, buf_peek(&w->changes));
    }
    if (!err) err = book_snapshot_next(host->book, PIECE_BYTES, &w->piece, &more);
    if (err) { /* no memory: try again later */
        LOG_WARN(&host->log, "could not compact the state file: trying again later",
                 log_err("err", err));
        host->compacting = false;
        host->compact_at = w->size * 2;
        buf_clear(&w->piece);
        w->salt = 0;
        return;
    }
    w->has_piece = true;
    w->publish = !more;
}

static void host_submit(struct host *host, bool seal)
{
    struct write_job *w = &host->job;
    struct buf *changes = book_changes(host->book), empty = w->changes;
    enum err err;

    assert(host->writing == host->written);
    w->changes = *changes;
    *changes = empty;
    w->seal = seal;
    write_take_piece(host, w);
    host->writing++;
    host->busy = true;
    err = worker_submit(host->worker, &w->job);
    assert(!err); /* the worker has no other job */
}

static void host_show_metrics(struct host *host)
{
    if (!host->metrics.rows) return;
    host->counts.book = book_stats(host->book);
    metrics_set_fields(host->metrics.rows, &host->counts);
}

/* The changes of one turn are written together. */
static void on_turn(struct turn_hook *hook)
{
    struct host *host = CONTAINER_OF(hook, struct host, hook);
    struct buf *changes = book_changes(host->book);

    if (host->failed || host->closing) return;
    host_show_metrics(host);
    if (!host->journal) {
        /* a loop, because an operation that cannot start makes a change */
        while (changes->len > 0) {
            buf_clear(changes);
            host->written = ++host->writing;
            host_wake(host);
        }
        return;
    }
    if (host->writing == host->written && (changes->len > 0 || host->compacting))
        host_submit(host, false);
}

/* There was no change for SEAL_AFTER_MS. */
static void on_seal(struct timer *timer)
{
    struct host *host = CONTAINER_OF(timer, struct host, seal_timer);

    if (host->failed || host->closing || host->writing > host->written) return;
    if (book_changes(host->book)->len == 0 && !host->compacting) host_submit(host, true);
}

/* --- functions for the backend --- */

static void on_done(struct backend_host *face, struct operation_ticket ticket,
                    const struct operation_end *end)
{
    struct host *host = CONTAINER_OF(face, struct host, face);

    assert(!host->starting);
    host_end_operation(host, ticket, end);
}

static enum err on_seen(struct backend_host *face, enum sighting what, struct str id,
                        const struct offer *offer, struct str why, struct note *note)
{
    struct host *host = CONTAINER_OF(face, struct host, face);
    enum err err = book_see(host->book, what, id, offer, why, note);

    if (!err) host->counts.seen[what]++;
    return err;
}

struct book_answer host_ask(struct host *host, const struct book_request *request, struct buf *into,
                            struct note *note)
{
    struct book_answer answer = {BOOK_REFUSED, GRPC_RESOURCE_EXHAUSTED, {0}};
    struct start start;
    char *room;
    enum err err = buf_reserve(&host->starts, sizeof start, &room);

    note->text[0] = '\0';
    if (err) {
        note_set(note, "%s", err_text(err));
        return answer;
    }
    answer = book_ask(host->book, request, host->backend, into, note);
    if (host->metrics.rows) counter_inc(host->metrics.asked[request->kind][answer.outcome]);
    if (answer.outcome != BOOK_ACCEPTED) return answer;
    if (host->backend->ops->accepted)
        host->backend->ops->accepted(host->backend, request->kind, request->machine_id);
    start = (struct start){host_durable_after(host), answer.operation, false};
    assert(start.until > 0); /* an accepted operation always makes a change */
    err = buf_append(&host->starts, str_of(&start, sizeof start));
    assert(!err);
    return answer;
}

/* --- open and close --- */

static enum err host_replay(void *context, struct str payload, struct note *note)
{
    return book_replay(context, payload, note);
}

static enum err host_open_state(struct host *host, struct note *note)
{
    struct io *io = host->options.io;
    const struct journal_options options = {
        .fs = io->fs, .path = host->options.state, .salt = entropy_u64(io->entropy)};
    enum err err = ERR_OK;

    if (host->options.state)
        err = journal_open(&options, host_replay, host->book, &host->journal, &host->loaded, note);
    if (!err) err = book_loaded(host->book);
    if (err || !host->journal) return err;
    host->job.journal = host->journal;
    host->job.size = journal_size(host->journal);
    if (host->loaded.torn_bytes > 0)
        LOG_WARN(&host->log,
                 "state file: removed an incomplete last write that was never acknowledged",
                 log_u64("bytes", host->loaded.torn_bytes));
    return worker_open(io->loop, &(struct worker_options){.name = "state", .jobs_max = 1},
                       &host->worker);
}

enum err host_open(const struct host_options *options, struct host **ret_host, struct note *note)
{
    struct host *host = calloc(1, sizeof *host);
    struct io *io = options->io;
    struct book_options book = {
        .seed = entropy_u64(io->entropy),
        .identity = entropy_u64(io->entropy),
        .boot = entropy_u64(io->entropy),
        .provider = options->name,
        .machines_max = options->machines_max,
        .keeps_blobs = options->own_backend->ops->keeps_blobs,
        .ignores_offers = options->own_backend->ops->ignores_offers,
    };
    enum err err;

    if (!host) {
        options->own_backend->ops->close(options->own_backend);
        return ERR_NOMEM;
    }
    host->options = *options;
    if (host->options.compact_bytes == 0) host->options.compact_bytes = COMPACT_BYTES;
    host->compact_at = host->options.compact_bytes;
    if (options->log) host->log = *options->log;
    host->backend = options->own_backend;
    host->face = (struct backend_host){on_done, on_seen};
    host->backend->host = &host->face;
    list_init(&host->waiting);
    buf_init(&host->starts, CHANGES_MAX);
    job_init(&host->job.job, write_run, on_written);
    host->job.clock = io->clock;
    buf_init(&host->job.changes, CHANGES_MAX);
    buf_init(&host->job.piece, CHANGES_MAX);
    err = timer_init(&host->seal_timer, io->loop, on_seal);
    if (!err) err = book_open(&book, &host->book);
    if (!err) err = host_metrics_open(options->metrics, &host->metrics, note);
    if (!err) err = host_open_state(host, note);
    if (!err) host_show_metrics(host);
    if (err) {
        host_close(host);
        return err;
    }
    turn_hook_add(io->loop, &host->hook, on_turn);
    *ret_host = host;
    return ERR_OK;
}

static enum err host_adopt(void *context, const struct backend_machine *machine,
                           struct operation_ticket operation)
{
    struct host *host = context;
    const struct start start = {.ticket = operation, .again = true};

    if (host->backend->ops->adopt) host->backend->ops->adopt(host->backend, machine);
    return operation.number ? buf_append(&host->starts, str_of(&start, sizeof start)) : ERR_OK;
}

enum err host_start(struct host *host, struct note *note)
{
    enum err err;

    host->starting = true;
    err = book_each(host->book, host_adopt, host);
    if (!err) host_wake(host);
    host->starting = false;
    if (err) note_set(note, "adopting: %s", err_text(err));
    if (!err && host->backend->ops->ready) host->backend->ops->ready(host->backend);
    return err;
}

enum err host_reload(struct host *host, struct note *note)
{
    const struct backend_ops *ops = host->backend->ops;

    return ops->reload ? ops->reload(host->backend, note) : ERR_OK;
}

struct book *host_book(struct host *host)
{
    return host->book;
}

struct io *host_io(struct host *host)
{
    return host->options.io;
}

void host_listed(struct host *host, uint64_t bytes, bool delta)
{
    host->counts.lists[delta]++;
    host->counts.listed_bytes += bytes;
}

const struct journal_report *host_loaded(const struct host *host)
{
    return &host->loaded;
}

/* Unwritten changes may be lost, because they were never answered. */
void host_close(struct host *host)
{
    if (!host) return;
    host->closing = true;
    turn_hook_remove(&host->hook);
    timer_deinit(&host->seal_timer);
    host->backend->ops->close(host->backend);
    assert(list_empty(&host->waiting)); /* the service has ended all calls */
    worker_close(host->worker);
    /* In the simulator a dead host's worker may return the job later. */
    if (host->busy)
        host->orphaned = true;
    else
        host_free(host);
}
