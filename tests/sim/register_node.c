/* SPDX-License-Identifier: Apache-2.0 */
/* A node: a listener, a log, and a worker that syncs the log.
 *
 * On disk: `snapshot` (frames, replaced whole) and `log`, records of
 *   u32 CRC-32C of what follows | u32 length | a REGISTER_WRITE frame
 * Rules: 1. memory shows only what is durable; 2. a write is acknowledged when it, or a higher
 * stamp, is durable; 3. recovery rewrites everything that it read, because after a failed sync the
 * cache can return data that is not on the disk; 4. a failed sync ends the node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "register.h"

enum {
    PATH_CAP = 200,
    RECORD_HEAD = 8,
    RECORD_MAX = RECORD_HEAD + REGISTER_FRAME_HEAD + REGISTER_BODY_MAX,
    WAITING_MAX = 64, /* writes not yet durable; more are refused */
    BATCH_BYTES_MAX = WAITING_MAX * RECORD_MAX,
    LOG_COMPACT_AT = 100000, /* bytes; then the log is folded into the snapshot */
    FILE_MAX = 1024 * 1024,
    STREAMS_MAX = 12,
    INPUT_MAX = 64 * 1024,
    IDLE_MS = 8000, /* a connection without requests for so long is closed */
    SWEEP_EVERY_MS = 1000,
};

struct cell {
    uint64_t stamp, value;
};
struct peer { /* a client's connection */
    struct list link;
    struct register_node *node;
    struct stream *stream;
    struct buf input;
    mono_time heard;
    uint64_t number;
    bool ended;
};
/* A write that waits for the disk; its peer may be gone when the write is done. */
struct pending {
    struct register_frame frame;
    uint64_t peer_number;
};
struct register_node {
    struct io *io;
    struct register_node_options options;
    char directory[PATH_CAP], log_path[PATH_CAP], snapshot_path[PATH_CAP];
    struct listener *listener;
    struct loop_worker *worker;
    struct timer sweep;
    struct list peers;
    uint64_t next_peer;
    struct cell cells[REGISTERS_MAX]; /* durable */
    struct pending waiting[WAITING_MAX], syncing[WAITING_MAX];
    size_t waiting_count, syncing_count;
    bool closing;

    /* The job's, while it runs. */
    struct job job;
    bool busy;
    struct fs_file *log;
    uint64_t log_len; /* durable */
    struct buf batch;
    struct cell batch_cells[REGISTERS_MAX];
    enum err batch_err;
    bool batch_fatal;
    uint64_t batch_unique;
};

static void start_batch(struct register_node *node);

/* -- answering -- */

static void answer(struct peer *peer, const struct register_frame *to, enum register_kind kind,
                   struct cell cell)
{
    const struct register_frame frame = {.kind = kind,
                                         .request = to->request,
                                         .index = to->index,
                                         .stamp = cell.stamp,
                                         .value = cell.value};
    struct buf bytes;
    struct str view;

    buf_init(&bytes, REGISTER_FRAME_HEAD + REGISTER_BODY_MAX);
    if (!register_frame_put(&bytes, &frame)) {
        view = buf_peek(&bytes);
        (void)stream_write(peer->stream, &view, 1); /* full or closed: the client asks again */
    }
    buf_deinit(&bytes);
}

static struct peer *find_peer(struct register_node *node, uint64_t number)
{
    LIST_EACH(&node->peers, link)
    {
        struct peer *peer = CONTAINER_OF(link, struct peer, link);
        if (peer->number == number) return peer;
    }
    return NULL;
}

static void answer_pending(struct register_node *node, const struct pending *pending,
                           enum register_kind kind)
{
    struct peer *peer = find_peer(node, pending->peer_number);
    if (peer) answer(peer, &pending->frame, kind, (struct cell){pending->frame.stamp, 0});
}

/* -- the log -- */

static enum err put_record(struct buf *into, uint32_t index, struct cell cell)
{
    const struct register_frame frame = {
        .kind = REGISTER_WRITE, .index = index, .stamp = cell.stamp, .value = cell.value};
    size_t start = into->len, len;
    char head[RECORD_HEAD] = {0};
    uint32_t sum, frame_len;
    enum err err = buf_append(into, str_of(head, sizeof head));

    if (!err) err = register_frame_put(into, &frame);
    if (err) {
        into->len = start;
        return err;
    }
    len = into->len - start;
    frame_len = (uint32_t)(len - RECORD_HEAD);
    memcpy(into->data + start + 4, &frame_len, 4);
    sum = crc32c(0, into->data + start + 4, len - 4);
    memcpy(into->data + start, &sum, 4);
    return ERR_OK;
}

static void raise_cell(struct cell *cell, uint64_t stamp, uint64_t value)
{
    if (stamp > cell->stamp) *cell = (struct cell){stamp, value};
}

/* Applies records until the first incomplete one. */
static void replay(struct register_node *node, struct str bytes)
{
    while (bytes.len >= RECORD_HEAD) {
        struct register_frame frame;
        uint32_t sum, len;
        size_t taken;
        memcpy(&sum, bytes.at, 4);
        memcpy(&len, bytes.at + 4, 4);
        if (!len || len > bytes.len - RECORD_HEAD) break;
        if (node->options.bug != REGISTER_TRUST_THE_TAIL &&
            sum != crc32c(0, bytes.at + 4, len + 4)) {
            break;
        }
        if (node->options.bug == REGISTER_TRUST_THE_TAIL &&
            len >= REGISTER_FRAME_HEAD + REGISTER_BODY_MIN) {
            /* as a reader without checksums: accept the numbers as they are */
            memcpy(&frame.index, bytes.at + RECORD_HEAD + 13, 4);
            memcpy(&frame.stamp, bytes.at + RECORD_HEAD + 17, 8);
            memcpy(&frame.value,
                   bytes.at + RECORD_HEAD + 25 +
                       (len - REGISTER_FRAME_HEAD - REGISTER_BODY_MIN) / 2,
                   8);
            if (frame.index < REGISTERS_MAX) {
                raise_cell(&node->cells[frame.index], frame.stamp, frame.value);
            }
        } else if (!register_frame_take(str_of(bytes.at + RECORD_HEAD, len), &frame, &taken) &&
                   taken) {
            raise_cell(&node->cells[frame.index], frame.stamp, frame.value);
        }
        bytes = str_tail(bytes, RECORD_HEAD + len);
    }
}

static enum err replay_file(struct register_node *node, const char *path)
{
    struct buf content;
    enum err err;

    buf_init(&content, FILE_MAX + RECORD_MAX);
    err = fs_read_whole(node->io->fs, path, FILE_MAX, &content);
    if (!err && node->options.bug == REGISTER_TRUST_THE_TAIL) {
        static const char zeros[RECORD_MAX];
        err = buf_append(&content, str_of(zeros, sizeof zeros)); /* a missing end reads as zeros */
    }
    if (!err) replay(node, buf_peek(&content));
    buf_deinit(&content);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* Replaces the snapshot by `cells`. */
static enum err publish(struct register_node *node, const struct cell *cells, uint64_t unique)
{
    struct buf content;
    enum err err = ERR_OK;

    buf_init(&content, FILE_MAX);
    for (uint32_t i = 0; !err && i < REGISTERS_MAX; i++) {
        if (cells[i].stamp) err = put_record(&content, i, cells[i]);
    }
    if (!err) err = fs_publish(node->io->fs, node->snapshot_path, buf_peek(&content), 0600, unique);
    buf_deinit(&content);
    return err;
}

static enum err recover(struct register_node *node)
{
    struct fs *fs = node->io->fs;
    enum register_bug bug = node->options.bug;
    bool keep = bug == REGISTER_TRUST_THE_CACHE;
    enum err err = fs_make_dirs(fs, node->directory, 0700);

    if (!err) err = fs_sweep_temps(fs, node->directory);
    if (!err) err = replay_file(node, node->snapshot_path);
    if (!err) err = replay_file(node, node->log_path);
    if (!err && !keep) err = publish(node, node->cells, entropy_u64(node->io->entropy));
    if (err) return err;
    err = fs_open(fs, node->log_path, FS_READ | FS_WRITE | FS_CREATE | (keep ? 0 : FS_TRUNCATE),
                  0600, &node->log);
    if (!err && keep) err = fs_file_size(fs, node->log, &node->log_len);
    if (!err) err = fs_sync(fs, node->log);
    if (!err && bug != REGISTER_NO_DIRECTORY_SYNC) err = fs_sync_dir(fs, node->directory);
    return err;
}

/* -- the worker's job: all waiting writes, in one sync -- */

static void run_batch(struct job *job)
{
    struct register_node *node = CONTAINER_OF(job, struct register_node, job);
    struct fs *fs = node->io->fs;

    if (node->log_len > LOG_COMPACT_AT) {
        node->batch_err = publish(node, node->batch_cells, node->batch_unique);
        if (!node->batch_err) node->batch_err = fs_truncate(fs, node->log, 0);
        if (!node->batch_err) node->batch_err = fs_sync(fs, node->log);
        node->batch_fatal = node->batch_err != ERR_OK && node->batch_err != ERR_NO_SPACE;
        if (!node->batch_err) node->log_len = 0;
        return; /* the snapshot holds the batch */
    }
    node->batch_err = fs_write_at(fs, node->log, node->log_len, buf_peek(&node->batch));
    if (node->batch_err) return; /* the next batch overwrites these bytes */
    node->batch_err = fs_sync(fs, node->log);
    node->batch_fatal = node->batch_err != ERR_OK;
    if (!node->batch_err) node->log_len += node->batch.len;
}

static void batch_done(struct job *job, enum err err)
{
    struct register_node *node = CONTAINER_OF(job, struct register_node, job);
    bool stored = !err && !node->batch_err;

    node->busy = false;
    if (node->closing) return;
    if (node->batch_fatal) {
        node->options.on_fatal(node->options.context);
        return;
    }
    for (size_t i = 0; i < node->syncing_count; i++) {
        const struct pending *pending = &node->syncing[i];
        if (stored) {
            raise_cell(&node->cells[pending->frame.index], pending->frame.stamp,
                       pending->frame.value);
        }
        answer_pending(node, pending, stored ? REGISTER_STORED : REGISTER_REFUSED);
    }
    node->syncing_count = 0;
    start_batch(node);
}

static void start_batch(struct register_node *node)
{
    enum err err = ERR_OK;

    if (node->busy || !node->waiting_count) return;
    buf_clear(&node->batch);
    memcpy(node->syncing, node->waiting, sizeof node->waiting);
    memcpy(node->batch_cells, node->cells, sizeof node->cells);
    node->syncing_count = node->waiting_count;
    node->waiting_count = 0;
    for (size_t i = 0; !err && i < node->syncing_count; i++) {
        const struct register_frame *frame = &node->syncing[i].frame;
        struct cell cell = {frame->stamp, frame->value};
        err = put_record(&node->batch, frame->index, cell);
        raise_cell(&node->batch_cells[frame->index], cell.stamp, cell.value);
    }
    node->batch_err = ERR_OK;
    node->batch_fatal = false;
    node->batch_unique = entropy_u64(node->io->entropy);
    if (!err) err = worker_submit(node->worker, &node->job);
    if (!err) {
        node->busy = true;
        return;
    }
    for (size_t i = 0; i < node->syncing_count; i++) {
        answer_pending(node, &node->syncing[i], REGISTER_REFUSED);
    }
    node->syncing_count = 0;
}

/* -- requests -- */

static bool is_pending(const struct register_node *node, const struct register_frame *frame)
{
    for (size_t i = 0; i < node->waiting_count; i++) {
        if (node->waiting[i].frame.index == frame->index &&
            node->waiting[i].frame.stamp >= frame->stamp) {
            return true;
        }
    }
    for (size_t i = 0; i < node->syncing_count; i++) {
        if (node->syncing[i].frame.index == frame->index &&
            node->syncing[i].frame.stamp >= frame->stamp) {
            return true;
        }
    }
    return false;
}

static void take_write(struct peer *peer, const struct register_frame *frame)
{
    struct register_node *node = peer->node;
    const struct cell own = {frame->stamp, 0};
    bool early = node->options.bug == REGISTER_ACK_BEFORE_SYNC ||
                 (node->options.bug == REGISTER_ACK_A_PENDING_TWIN && is_pending(node, frame));

    if (node->cells[frame->index].stamp >= frame->stamp) {
        answer(peer, frame, REGISTER_STORED, own);
    } else if (node->waiting_count == WAITING_MAX) {
        answer(peer, frame, REGISTER_REFUSED, own);
    } else {
        if (early) answer(peer, frame, REGISTER_STORED, own);
        node->waiting[node->waiting_count++] =
            (struct pending){.frame = *frame, .peer_number = early ? 0 : peer->number};
        start_batch(node);
    }
}

static void take_frame(struct peer *peer, const struct register_frame *frame)
{
    switch (frame->kind) {
    case REGISTER_READ: answer(peer, frame, REGISTER_VALUE, peer->node->cells[frame->index]); break;
    case REGISTER_WRITE: take_write(peer, frame); break;
    case REGISTER_VALUE:
    case REGISTER_STORED:
    case REGISTER_REFUSED:
        stream_close(peer->stream); /* responses: a node receives requests only */
    }
}

static void on_bytes(void *owner, struct str bytes)
{
    struct peer *peer = owner;
    struct register_frame frame;
    size_t used = 0, len;
    enum err err = buf_append(&peer->input, bytes);

    peer->heard = loop_now(peer->node->io->loop);
    while (!err) {
        err = register_frame_take(str_tail(buf_peek(&peer->input), used), &frame, &len);
        if (err || !len) break;
        take_frame(peer, &frame);
        used += len;
    }
    buf_consume(&peer->input, used);
    if (err) stream_close(peer->stream);
}

static void on_end(void *owner)
{
    struct peer *peer = owner;

    peer->ended = true;
    if (peer->node->options.bug == REGISTER_IGNORE_HALF_CLOSE) return;
    stream_end(peer->stream);
}

/* -- life -- */

static void node_free(struct register_node *node)
{
    void (*gone)(void *) = node->options.on_gone;
    void *context = node->options.context;

    fs_close(node->io->fs, node->log);
    buf_deinit(&node->batch);
    timer_deinit(&node->sweep);
    free(node);
    if (gone) gone(context);
}

static void on_closed(void *owner, enum err why, const struct note *note)
{
    struct peer *peer = owner;
    struct register_node *node = peer->node;

    (void)why, (void)note;
    list_remove(&peer->link);
    buf_deinit(&peer->input);
    free(peer);
    if (node->closing && list_empty(&node->peers)) node_free(node);
}

static const struct stream_events peer_events = {
    .on_bytes = on_bytes, .on_end = on_end, .on_closed = on_closed};

static void on_accept(void *owner, struct stream *stream)
{
    struct register_node *node = owner;
    struct peer *peer = calloc(1, sizeof *peer);

    if (!peer) {
        stream_close(stream);
        return;
    }
    peer->node = node;
    peer->stream = stream;
    peer->number = ++node->next_peer;
    peer->heard = loop_now(node->io->loop);
    buf_init(&peer->input, INPUT_MAX * 2);
    list_init(&peer->link);
    list_append(&node->peers, &peer->link);
    stream_start(stream, &peer_events, peer);
}

/* A client that lost its power never closes its connection. */
static void sweep(struct timer *timer)
{
    struct register_node *node = CONTAINER_OF(timer, struct register_node, sweep);
    mono_time now = loop_now(node->io->loop);

    LIST_EACH(&node->peers, link)
    {
        struct peer *peer = CONTAINER_OF(link, struct peer, link);
        bool forgotten = node->options.bug == REGISTER_IGNORE_HALF_CLOSE && peer->ended;
        if (!forgotten && mono_elapsed_ms(peer->heard, now) > IDLE_MS) stream_close(peer->stream);
    }
    timer_start_in(timer, SWEEP_EVERY_MS);
}

enum err register_node_open(struct io *io, const struct register_node_options *options,
                            struct register_node **ret_node)
{
    struct register_node *node = calloc(1, sizeof *node);
    struct listen_options listen = {.address = options->listen,
                                    .streams_max = STREAMS_MAX,
                                    .on_accept = on_accept,
                                    .owner = node};
    enum err err;

    if (!node) return ERR_NOMEM;
    node->io = io;
    node->options = *options;
    list_init(&node->peers);
    buf_init(&node->batch, BATCH_BYTES_MAX);
    job_init(&node->job, run_batch, batch_done);
    snprintf(node->directory, sizeof node->directory, "%s", options->directory);
    snprintf(node->log_path, sizeof node->log_path, "%s/log", options->directory);
    snprintf(node->snapshot_path, sizeof node->snapshot_path, "%s/snapshot", options->directory);
    err = timer_init(&node->sweep, io->loop, sweep);
    if (!err) err = recover(node);
    if (!err) {
        err = worker_open(io->loop, &(struct worker_options){.name = "disk", .jobs_max = 1},
                          &node->worker);
    }
    if (!err) err = net_listen(io->net, &listen, &node->listener, NULL);
    if (err) {
        worker_close(node->worker);
        node->options.on_gone = NULL;
        node_free(node);
        return err;
    }
    timer_start_in(&node->sweep, SWEEP_EVERY_MS);
    *ret_node = node;
    return ERR_OK;
}

void register_node_close(struct register_node *node)
{
    node->closing = true;
    listener_close(node->listener);
    timer_stop(&node->sweep);
    worker_close(node->worker);
    if (list_empty(&node->peers)) {
        node_free(node);
        return;
    }
    LIST_EACH(&node->peers, link) stream_close(CONTAINER_OF(link, struct peer, link)->stream);
}

const char *register_node_address(const struct register_node *node)
{
    return listener_address(node->listener);
}
