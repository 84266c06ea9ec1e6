/* SPDX-License-Identifier: Apache-2.0 */
/* Serves connections dialed by other replicas: delivery of frames, back-pressure, silent peers.
 * Frames are decoded from the stream's bytes; only an incomplete frame is copied. The copy's
 * buffer grows with the bytes received, not with the length that the frame announces. */
#include <stdlib.h>
#include <string.h>

#include "log/peers_internal.h"

/* -- closing -- */

static void lose_snap(struct incoming *c)
{
    struct peers *peers = c->peers;

    if (!c->snap) return;
    c->snap = false;
    if (!peers->events.on_snap_lost) return;
    peers->calling = true;
    peers->events.on_snap_lost(peers->events.owner, c->from);
    peers->calling = false;
}

void peer_in_hang_up(struct incoming *c)
{
    if (c->closing) return;
    c->closing = true;
    timer_stop(&c->timer);
    stream_close(c->stream);
    lose_snap(c);
}

void peer_in_refuse(struct incoming *c, enum refusal refusal, const char *note)
{
    struct peers *peers = c->peers;

    if (c->closing) return;
    peers_count_refusal(peers, refusal);
    if (c->known)
        LOG_WARN(&peers->log, "closed the connection of a replica",
                 log_text("reason", peers_refusal_name(refusal)), log_text("replica", c->from_text),
                 log_text("lane", peers_lane_name(c->lane)), log_text("note", note));
    else
        LOG_WARN(&peers->log, "rejected a connection from a peer",
                 log_text("reason", peers_refusal_name(refusal)),
                 log_text("peer", stream_peer_address(c->stream)), log_text("note", note));
    peer_in_hang_up(c);
}

void peer_in_leave_list(struct incoming *c)
{
    if (!c->known) c->peers->stranger_count--;
    list_remove(&c->link);
}

static void incoming_free(struct incoming *c)
{
    timer_deinit(&c->timer);
    buf_deinit(&c->input);
    free(c);
}

static void peers_in_on_closed(void *owner, enum err why, const struct note *note)
{
    struct incoming *c = owner;
    struct peers *peers = c->peers;

    if (!peers->closing) {
        if (c->known && !c->closing)
            LOG_INFO(&peers->log, "a replica closed its connection",
                     log_text("replica", c->from_text), log_text("lane", peers_lane_name(c->lane)),
                     log_err("err", why), log_text("note", note->text));
        lose_snap(c);
    }
    peer_in_leave_list(c);
    incoming_free(c);
    peers_release(peers);
}

/* -- frames -- */

enum err peer_in_answer(struct incoming *c, const struct peer_frame *frame)
{
    struct buf bytes;
    struct str view;
    enum err err;

    buf_init(&bytes, IN_OUTPUT_MAX);
    err = frame_append(&c->out, frame, &bytes);
    view = buf_peek(&bytes);
    if (!err) err = stream_write(c->stream, &view, 1);
    if (!err) peers_count_bytes(c->peers, BYTES_OUT, view.len);
    buf_deinit(&bytes);
    return err;
}

/* Why the frame is not allowed on its lane or at this point. NULL: allowed. */
static const char *misplaced(const struct incoming *c, const struct peer_frame *frame)
{
    if ((frame->kind >= FRAME_SNAP_BEGIN) != (c->lane == LANE_BULK)) return "on the wrong lane";
    switch (frame->kind) {
    case FRAME_VOTE: return frame->u.vote.candidate_id == c->from ? NULL : "for another candidate";
    case FRAME_SNAP_BEGIN: return c->snap ? "before the last one ended" : NULL;
    case FRAME_SNAP_CHUNK:
        if (!c->snap || frame->u.snap_chunk.id != c->snap_id)
            return "of no snapshot that was begun";
        if (frame->u.snap_chunk.offset != c->snap_at) return "out of order";
        return frame->u.snap_chunk.bytes.len <= c->snap_bytes - c->snap_at ? NULL : "past the end";
    case FRAME_SNAP_END:
        if (!c->snap || frame->u.snap_end.id != c->snap_id) return "of no snapshot that was begun";
        return c->snap_at == c->snap_bytes ? NULL : "before the end";
    default: return NULL;
    }
}

static void note_snap(struct incoming *c, const struct peer_frame *frame)
{
    if (frame->kind == FRAME_SNAP_BEGIN) {
        c->snap = true;
        c->snap_id = frame->u.snap_begin.id;
        c->snap_bytes = frame->u.snap_begin.bytes;
        c->snap_at = 0;
    } else if (frame->kind == FRAME_SNAP_CHUNK) {
        c->snap_at += frame->u.snap_chunk.bytes.len;
    } else if (frame->kind == FRAME_SNAP_END) {
        enum err err = peer_in_answer(c, frame);
        c->snap = false;
        if (err) peer_in_refuse(c, REFUSED_MEMORY, err_text(err));
    }
}

/* ERR_BUSY: the owner cannot take the frame now. */
static enum err peers_in_give(struct incoming *c, struct peer_frame *frame)
{
    struct peers *peers = c->peers;
    const char *wrong;
    struct peer_frame given = *frame; /* a copy, because reading the entries changes the frame */
    bool taken;

    if (frame->kind == FRAME_BEAT) return ERR_OK;
    wrong = misplaced(c, frame);
    if (wrong) {
        struct note note;
        note_set(&note, "%s %s", frame_kind_name(frame->kind), wrong);
        peer_in_refuse(c, REFUSED_ORDER, note.text);
        return ERR_PARSE;
    }
    peers->calling = true;
    taken = c->lane == LANE_BULK ? peers->events.on_snap(peers->events.owner, c->from, &given)
                                 : peers->events.on_frame(peers->events.owner, c->from, &given);
    peers->calling = false;
    if (c->unwanted) { /* last, because a hang-up may call the owner */
        peer_in_hang_up(c);
        return ERR_CANCELLED;
    }
    if (!taken) return ERR_BUSY;
    note_snap(c, frame);
    return ERR_OK;
}

static enum refusal refusal_of(enum err err)
{
    return err == ERR_VERSION ? REFUSED_VERSION : REFUSED_FRAME;
}

/* Takes the frame at the start of `bytes`. ERR_NOT_READY: incomplete. ERR_BUSY: the owner cannot
 * take the frame now. Other errors have closed the connection. */
static enum err take_frame(struct incoming *c, struct str bytes, size_t *ret_size)
{
    struct frame_link link = c->in;
    struct note note = {""};
    struct peer_frame frame;
    enum err err = frame_take(&link, bytes, &frame, ret_size, &note);

    if (err == ERR_NOT_READY) return err;
    if (err) {
        peer_in_refuse(c, refusal_of(err), note.text);
        return err;
    }
    if (frame.kind == FRAME_HELLO) {
        c->in = link;
        return peer_greet(c, &frame.u.hello);
    }
    err = c->known ? peers_in_give(c, &frame) : peer_welcome(c, &frame);
    if (!err) c->in = link;
    return err;
}

static bool peers_in_keep(struct incoming *c, struct str bytes)
{
    if (!buf_append(&c->input, bytes)) return true;
    peer_in_refuse(c, REFUSED_MEMORY, "no memory for a frame");
    return false;
}

/* Moves bytes from *rest to the input until its first frame has the bytes that it needs. */
static bool top_up(struct incoming *c, struct str *rest)
{
    size_t have = c->input.len - c->input_at;
    size_t wanted = frame_wanted(str_tail(buf_peek(&c->input), c->input_at));
    size_t more = wanted > have ? min_size(wanted - have, rest->len) : 0;

    if (!peers_in_keep(c, str_of(rest->at, more))) return false;
    *rest = str_tail(*rest, more);
    return true;
}

/* Takes frames until a frame is incomplete or the owner is busy. Keeps the remaining bytes. */
static void take_frames(struct incoming *c, struct str rest)
{
    enum err err = ERR_OK;

    while (!c->closing) {
        bool kept = c->input.len > c->input_at;
        struct str view = rest;
        size_t size = 0;

        if (kept && !top_up(c, &rest)) return;
        if (kept) view = str_tail(buf_peek(&c->input), c->input_at);
        if (view.len == 0) break;
        err = take_frame(c, view, &size);
        if (err == ERR_NOT_READY && kept && rest.len > 0) continue; /* now the length is known */
        if (err) break;
        if (kept)
            c->input_at += size;
        else
            rest = str_tail(rest, size);
    }
    if (c->closing) return;
    buf_consume(&c->input, c->input_at);
    c->input_at = 0;
    if (rest.len > 0 && !peers_in_keep(c, rest)) return;
    c->held = err == ERR_BUSY;
    if (c->held || c->input.len == 0)
        c->frame_since = MONO_NEVER;
    else if (c->frame_since.ms == MONO_NEVER.ms)
        c->frame_since = loop_now(c->peers->io->loop);
}

static void peers_in_on_bytes(void *owner, struct str bytes)
{
    struct incoming *c = owner;

    if (c->closing) return;
    c->heard = loop_now(c->peers->io->loop);
    peers_count_bytes(c->peers, BYTES_IN, bytes.len);
    if (c->held) { /* in transit when reading paused */
        peers_in_keep(c, bytes);
        return;
    }
    take_frames(c, bytes);
    if (c->held && !c->closing) stream_pause(c->stream);
}

void peers_refuse_snap(struct peers *peers, uint64_t from)
{
    LIST_EACH(&peers->incoming, node)
    {
        struct incoming *c = CONTAINER_OF(node, struct incoming, link);
        if (c->from == from && c->lane == LANE_BULK && !c->closing) c->unwanted = true;
    }
}

static void peers_in_on_end(void *owner)
{
    struct incoming *c = owner;

    c->ended = true;
    if (!c->closing && !c->held) stream_end(c->stream);
}

void peer_in_resume_all(struct peers *peers)
{
    LIST_EACH(&peers->incoming, node)
    {
        struct incoming *c = CONTAINER_OF(node, struct incoming, link);
        if (!c->held || c->closing) continue;
        c->held = false;
        c->heard = loop_now(peers->io->loop); /* data waited in the kernel during the pause */
        take_frames(c, STR_EMPTY);
        if (c->held || c->closing) continue;
        if (c->ended) stream_end(c->stream);
        stream_resume(c->stream);
    }
}

static const struct stream_events incoming_events = {
    .on_bytes = peers_in_on_bytes, .on_end = peers_in_on_end, .on_closed = peers_in_on_closed};

/* -- timers -- */

static void peers_in_beat(struct incoming *c)
{
    const struct peer_frame frame = {.kind = FRAME_BEAT};
    enum err err = peer_in_answer(c, &frame);

    if (err == ERR_FULL)
        peer_in_refuse(c, REFUSED_SILENT, "it does not read");
    else if (err)
        peer_in_refuse(c, REFUSED_MEMORY, err_text(err));
}

static void peers_in_on_timer(struct timer *timer)
{
    struct incoming *c = CONTAINER_OF(timer, struct incoming, timer);
    struct peers *peers = c->peers;
    mono_time now = loop_now(peers->io->loop);

    if (c->closing) return;
    if (!c->known) {
        peer_in_refuse(c, REFUSED_LATE,
                       c->greeted ? "no beat after its hello" : "no hello in time");
        return;
    }
    timer_start_in(timer, peers->idle_ms / BEATS_PER_IDLE);
    if (c->held) c->heard = now; /* reading is paused, so the peer is not silent */
    if (mono_elapsed_ms(c->heard, now) >= peers->idle_ms) {
        peer_in_refuse(c, REFUSED_SILENT, "nothing was heard of it");
    } else if (c->frame_since.ms != MONO_NEVER.ms &&
               mono_elapsed_ms(c->frame_since, now) >= peers->idle_ms * SLOW_FACTOR) {
        peer_in_refuse(c, REFUSED_LATE, "half a frame for too long");
    } else {
        if (c->input.len == 0 && c->input.cap > KEPT_BYTES) buf_deinit(&c->input);
        if (!c->ended) peers_in_beat(c);
    }
}

/* -- accepting -- */

static void peers_in_make_room(struct peers *peers)
{
    struct incoming *oldest = NULL;

    if (peers->stranger_count < STRANGERS_MAX) return;
    LIST_EACH(&peers->strangers, node)
    {
        oldest = CONTAINER_OF(node, struct incoming, link);
        if (!oldest->closing) break;
    }
    if (oldest) peer_in_refuse(oldest, REFUSED_FULL, "too many connections without a hello");
}

void peer_in_accept(void *owner, struct stream *own_stream)
{
    struct peers *peers = owner;
    struct incoming *c = calloc(1, sizeof *c);

    if (!c || timer_init(&c->timer, peers->io->loop, peers_in_on_timer)) {
        peers_count_refusal(peers, REFUSED_MEMORY);
        stream_close(own_stream);
        free(c);
        return;
    }
    peers_in_make_room(peers);
    c->peers = peers;
    c->stream = own_stream;
    c->frame_since = MONO_NEVER;
    c->heard = loop_now(peers->io->loop);
    buf_init(&c->input, (size_t)FRAME_BYTES_MAX * 2);
    list_init(&c->link);
    list_append(&peers->strangers, &c->link);
    peers->stranger_count++;
    peers->kept++;
    timer_start_in(&c->timer, HELLO_MS);
    stream_start(own_stream, &incoming_events, c);
}

static void shut_list(struct list *list)
{
    LIST_EACH(list, node)
    {
        struct incoming *c = CONTAINER_OF(node, struct incoming, link);
        timer_deinit(&c->timer);
        if (!c->closing) stream_close(c->stream);
        c->closing = true;
        c->snap = false;
    }
}

void peer_in_shut_all(struct peers *peers)
{
    shut_list(&peers->strangers);
    shut_list(&peers->incoming);
}
