/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one file over the bulk lane: reads a chunk on the worker while the stream has room. At
 * most one chunk is in memory beside the stream's output.
 *
 * The file counts as sent when the peer has acknowledged its end. The job opens the file for
 * each chunk, so that no file stays open when a peer is lost. */
#include <stdlib.h>
#include <string.h>

#include "log/peers_internal.h"

static void free_sending(struct sending *s)
{
    free(s->room);
    free(s);
}

/* -- reading, on the worker -- */

static void peers_file_run(struct job *job)
{
    struct sending *s = CONTAINER_OF(job, struct sending, job);
    struct fs_file *file;

    s->got = 0;
    s->read_err = fs_open(s->fs, s->path, FS_READ, 0, &file);
    if (s->read_err) return;
    s->read_err = fs_read_at(s->fs, file, s->at, s->room, s->want, &s->got);
    if (!s->read_err && s->got < s->want) s->read_err = ERR_CORRUPT; /* the file is too short */
    fs_close(s->fs, file);
}

static void peers_file_done(struct job *job, enum err err)
{
    struct sending *s = CONTAINER_OF(job, struct sending, job);
    struct peers *peers = s->peers;

    s->reading = false;
    if (!s->peer) {
        free_sending(s);
    } else if (!s->over && (err || s->read_err)) {
        peer_file_over(s, err ? err : s->read_err);
    } else if (!s->over) {
        s->has_chunk = true;
        peer_file_pump(s);
    }
    peers_release(peers);
}

static void read_next(struct sending *s)
{
    enum err err;

    s->at = s->sent;
    s->want = (size_t)min_u64(s->begin.bytes - s->sent, FRAME_CHUNK_MAX);
    err = worker_submit(s->worker, &s->job);
    if (err) {
        peer_file_over(s, err);
        return;
    }
    s->reading = true;
    s->peers->kept++;
}

/* -- sending -- */

static enum err peers_file_put(struct sending *s, const struct peer_frame *frame)
{
    struct peer_line *line = &s->peer->bulk;
    enum err err = frame_append(&line->out, frame, &line->output);

    if (err) return err;
    s->moved = loop_now(s->peers->io->loop);
    peer_line_flush(line); /* a failure closes the line, which ends the transfer */
    return line->state == LINE_OPEN ? ERR_OK : ERR_UNAVAILABLE;
}

static enum err put_chunk(struct sending *s)
{
    const struct peer_frame chunk = {
        .kind = FRAME_SNAP_CHUNK,
        .u.snap_chunk = {.id = s->begin.id, .offset = s->at, .bytes = str_of(s->room, s->got)}};
    enum err err = peers_file_put(s, &chunk);

    s->has_chunk = false;
    if (!err) s->sent += s->got;
    return err;
}

static enum err put_end(struct sending *s)
{
    const struct peer_frame end = {.kind = FRAME_SNAP_END, .u.snap_end = {.id = s->begin.id}};

    s->ended = true;
    return peers_file_put(s, &end);
}

void peer_file_pump(struct sending *s)
{
    struct peer_line *line = &s->peer->bulk;
    enum err err = ERR_OK;

    if (s->over || s->ended || line->state != LINE_OPEN) return;
    if (!s->begun) {
        const struct peer_frame begin = {.kind = FRAME_SNAP_BEGIN, .u.snap_begin = s->begin};
        s->begun = true;
        err = peers_file_put(s, &begin);
    }
    /* Otherwise on_drained continues the transfer. */
    if (!err && s->has_chunk && stream_pending(line->stream) <= BULK_OUTPUT_MAX / 2)
        err = put_chunk(s);
    if (!err && s->sent == s->begin.bytes)
        err = put_end(s);
    else if (!err && !s->has_chunk && !s->reading)
        read_next(s);
    if (err) peer_file_over(s, err);
}

/* -- life cycle -- */

static void on_report(struct task *task)
{
    struct sending *s = CONTAINER_OF(task, struct sending, report);
    struct peers *peers = s->peers;
    struct peer *peer = s->peer;
    uint64_t to = peer->id, id = s->begin.id;
    enum err result = s->result;

    peer->sending = NULL;
    s->peer = NULL;
    if (!s->reading) free_sending(s); /* otherwise freed in peers_file_done() */
    peer_free_if_over(peer);
    if (!peers->events.on_snap_sent) return;
    peers->calling = true;
    peers->events.on_snap_sent(peers->events.owner, to, id, result);
    peers->calling = false;
}

void peer_file_over(struct sending *s, enum err err)
{
    if (s->over) return;
    s->over = true;
    s->result = err;
    if (!err) s->peer->bulk.backoff_ms = BACKOFF_MIN_MS;
    s->peer->bulk.quiet = true; /* on_snap_sent reports the end */
    peer_line_drop(&s->peer->bulk, err_text(err));
    loop_defer(s->peers->io->loop, &s->report);
}

void peer_file_shut(struct sending *s)
{
    task_cancel(&s->report);
    s->over = true;
    s->peer = NULL;
    if (!s->reading) free_sending(s);
}

enum err peers_send_file(struct peers *peers, uint64_t to, const struct frame_snap_begin *begin,
                         const char *path, struct loop_worker *worker)
{
    struct peer *peer = peers_find(peers, to);
    size_t path_len = strlen(path);
    struct sending *s;

    if (!peer) return ERR_NOT_FOUND;
    if (peer->sending) return ERR_BUSY;
    s = calloc(1, sizeof *s + path_len + 1);
    if (!s) return ERR_NOMEM;
    s->room = malloc(FRAME_CHUNK_MAX);
    if (!s->room) {
        free(s);
        return ERR_NOMEM;
    }
    s->peers = peers;
    s->peer = peer;
    s->worker = worker;
    s->begin = *begin;
    s->fs = peers->io->fs;
    s->moved = loop_now(peers->io->loop);
    memcpy(s->path, path, path_len + 1);
    task_init(&s->report, on_report);
    job_init(&s->job, peers_file_run, peers_file_done);
    peer->sending = s;
    peer_line_look(&peer->bulk);
    return ERR_OK;
}

void peers_stop_file(struct peers *peers, uint64_t to)
{
    struct peer *peer = peers_find(peers, to);

    if (peer && peer->sending) peer_file_over(peer->sending, ERR_CANCELLED);
}
