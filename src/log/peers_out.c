/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to other replicas: back-off, the hello, queues. The frames of a turn are gathered
 * in `output` and given to the stream in one piece, without another copy. */
#include <stdlib.h>
#include <string.h>

#include "log/peers_internal.h"

static void dial(struct peer_line *line);

/* -- states of a line, which is one lane to one peer -- */

static struct peers *peers_of(const struct peer_line *line)
{
    return line->peer->peers;
}

/* True if the line must be open. A finished file needs no line. */
static bool is_wanted(const struct peer_line *line)
{
    const struct peers *peers = peers_of(line);

    if (line->peer->gone || peers->closing || peers->cluster_id == 0) return false;
    return line->lane == LANE_CONTROL || (line->peer->sending && !line->peer->sending->over);
}

static void count_dial(struct peers *peers, bool connected)
{
    struct counter *counter = peers->meter.dials[connected ? 0 : 1];

    if (counter) counter_inc(counter);
}

static void set_open(struct peer_line *line, bool open)
{
    struct gauge *connected = peers_of(line)->meter.connected;

    if (line->lane == LANE_CONTROL && connected && !peers_of(line)->closing)
        gauge_add(connected, open ? 1 : -1);
}

static void peers_out_on_timer(struct timer *timer);

enum err peer_line_init(struct peer_line *line, struct peer *peer, enum frame_lane lane)
{
    size_t queue_bytes = lane == LANE_BULK ? BULK_OUTPUT_MAX : peer->peers->queue_bytes;

    line->peer = peer;
    line->lane = lane;
    line->backoff_ms = BACKOFF_MIN_MS;
    list_init(&line->dirty);
    buf_init(&line->input, KEPT_BYTES);
    buf_init(&line->output, queue_bytes + FRAME_BYTES_MAX);
    return timer_init(&line->timer, peer->peers->io->loop, peers_out_on_timer);
}

void peer_line_deinit(struct peer_line *line)
{
    assert(!line->stream);
    if (line->dirty.next) list_remove(&line->dirty); /* next is NULL if never initialised */
    timer_deinit(&line->timer);
    buf_deinit(&line->input);
    buf_deinit(&line->output);
}

static void hang_up(struct peer_line *line)
{
    if (line->state == LINE_OPEN)
        set_open(line, false);
    else
        count_dial(peers_of(line), false);
    line->state = LINE_CLOSING;
    timer_stop(&line->timer);
    list_remove(&line->dirty);
    buf_clear(&line->output);
    stream_close(line->stream);
}

void peer_line_drop(struct peer_line *line, const char *why)
{
    if (line->state == LINE_WAITING) {
        timer_stop(&line->timer);
        line->state = LINE_OFF;
    } else if (line->state == LINE_DIALING || line->state == LINE_OPEN) {
        note_set(&line->why, "%s", why);
        hang_up(line);
    }
}

void peer_line_shut(struct peer_line *line)
{
    timer_deinit(&line->timer);
    list_remove(&line->dirty);
    if (line->stream && line->state != LINE_CLOSING) stream_close(line->stream);
    line->state = LINE_CLOSING;
}

/* -- when to dial -- */

static void back_off(struct peer_line *line)
{
    struct peers *peers = peers_of(line);
    uint64_t pause = prng_between(&peers->prng, line->backoff_ms / 2, line->backoff_ms);

    line->dial_at = mono_after(loop_now(peers->io->loop), pause);
    line->backoff_ms = min_u64(line->backoff_ms * 2, BACKOFF_MAX_MS);
}

void peer_line_look(struct peer_line *line)
{
    if (line->state != LINE_OFF || !is_wanted(line)) return;
    if (mono_due(line->dial_at, loop_now(peers_of(line)->io->loop))) {
        dial(line);
    } else {
        line->state = LINE_WAITING;
        timer_start(&line->timer, line->dial_at);
    }
}

/* Dials at most once per BACKOFF_MIN_MS. Restarts an old dial, because TCP would resend its
 * first packet only after a second. */
void peer_line_hurry(struct peer_line *line)
{
    line->backoff_ms = BACKOFF_MIN_MS;
    if (line->state == LINE_DIALING && !line->connected &&
        mono_elapsed_ms(line->dialed, loop_now(peers_of(line)->io->loop)) >= DIAL_STALE_MS)
        peer_line_drop(line, "it is there: dialing anew");
    if (line->dialed.ms != 0)
        line->dial_at = mono_min(line->dial_at, mono_after(line->dialed, BACKOFF_MIN_MS));
    if (line->state == LINE_WAITING)
        timer_start(&line->timer, line->dial_at);
    else
        peer_line_look(line);
}

/* -- closing -- */

static void report_down(struct peer_line *line, enum err why, const char *note)
{
    struct peers *peers = peers_of(line);

    if (line->reported) return;
    line->reported = true;
    LOG_WARN(&peers->log, "cannot connect to a replica: retrying",
             log_text("replica", line->peer->id_text), log_text("address", line->peer->address),
             log_text("lane", peers_lane_name(line->lane)), log_err("err", why),
             log_text("note", note));
}

static void peers_out_on_closed(void *owner, enum err why, const struct note *note)
{
    struct peer_line *line = owner;
    struct peer *peer = line->peer;
    struct peers *peers = peer->peers;
    bool was_open = line->state == LINE_OPEN, we_did = line->state == LINE_CLOSING;
    /* A quiet line has sent its file: peer->sending is another file. */
    struct sending *sending = line->lane == LANE_BULK && !line->quiet ? peer->sending : NULL;

    line->stream = NULL;
    if (peers->closing) {
        peers_release(peers);
        return;
    }
    if (line->state == LINE_DIALING) count_dial(peers, false);
    if (was_open) set_open(line, false);
    timer_stop(&line->timer);
    list_remove(&line->dirty);
    buf_clear(&line->input);
    buf_clear(&line->output);
    line->state = LINE_OFF;
    if (sending) peer_file_over(sending, why == ERR_CLOSED ? ERR_UNAVAILABLE : why);
    if (!peer->gone && !line->quiet) report_down(line, why, we_did ? line->why.text : note->text);
    back_off(line);
    peer_line_look(line);
    peers_release(peers);
    peer_free_if_over(peer);
}

/* -- received frames: a hello, beats, the acknowledgement of a snapshot -- */

static void on_open(void *owner)
{
    ((struct peer_line *)owner)->connected = true;
}

static bool check_hello(struct peer_line *line, const struct frame_hello *hello, struct note *note)
{
    const struct peers *peers = peers_of(line);

    if (hello->cluster_id != peers->cluster_id) {
        note_set(note, "it belongs to another cluster");
        return false;
    }
    if (hello->from != line->peer->id || hello->to != peers->id || hello->lane != line->lane) {
        note_set(note, "another replica answered");
        return false;
    }
    return peers_identity_ok(peers, line->stream, hello, note);
}

static void peers_out_beat(struct peer_line *line)
{
    const struct peer_frame frame = {.kind = FRAME_BEAT};

    if (!frame_append(&line->out, &frame, &line->output)) peer_line_mark_dirty(line);
}

static void open_line(struct peer_line *line, const struct frame_hello *hello)
{
    struct peers *peers = peers_of(line);

    line->in.session = line->out.session = frame_session(line->nonce, hello->nonce);
    line->state = LINE_OPEN;
    set_open(line, true);
    timer_start_in(&line->timer, peers->idle_ms / BEATS_PER_IDLE);
    count_dial(peers, true);
    peers_out_beat(line); /* proves to the peer that this side read the peer's answer */
    LOG_INFO(&peers->log, "connected to replica", log_text("replica", line->peer->id_text),
             log_text("address", line->peer->address),
             log_text("lane", peers_lane_name(line->lane)));
    if (line->lane == LANE_BULK && line->peer->sending) peer_file_pump(line->peer->sending);
    if (peers->events.on_hello) {
        peers->calling = true;
        /* Ignores the hello's address, because the peer may have moved. The peer announces its
         * new address on the connection that it dials. */
        peers->events.on_hello(peers->events.owner, line->peer->id, hello->level, STR_EMPTY);
        peers->calling = false;
    }
}

/* True for a frame that the dialed peer may send. FRAME_SNAP_END: the peer processed the whole
 * snapshot. */
static bool is_answer(const struct peer_line *line, const struct peer_frame *frame)
{
    const struct sending *sending = line->peer->sending;

    if (frame->kind == FRAME_SNAP_END)
        return line->lane == LANE_BULK && sending && sending->ended && !sending->over &&
               sending->begin.id == frame->u.snap_end.id;
    return frame->kind == FRAME_HELLO || frame->kind == FRAME_BEAT;
}

/* False: the frame is incomplete, or the line is closed. */
static bool take_answer(struct peer_line *line)
{
    struct note note = {""};
    struct peer_frame frame;
    size_t size = 0;
    enum err err = frame_take(&line->in, buf_peek(&line->input), &frame, &size, &note);

    if (err == ERR_NOT_READY) return false;
    if (!err && frame.kind == FRAME_HELLO && !check_hello(line, &frame.u.hello, &note))
        err = ERR_DENIED;
    if (!err && !is_answer(line, &frame)) {
        note_set(&note, "%s on the way back", frame_kind_name(frame.kind));
        err = ERR_PARSE;
    }
    if (err) {
        peer_line_drop(line, note.text[0] ? note.text : err_text(err));
        return false;
    }
    if (frame.kind == FRAME_HELLO) open_line(line, &frame.u.hello);
    if (frame.kind == FRAME_SNAP_END) peer_file_over(line->peer->sending, ERR_OK);
    if (line->state != LINE_OPEN) return false; /* the file ended, or the owner removed the peer */
    buf_consume(&line->input, size);
    return true;
}

static void peers_out_on_bytes(void *owner, struct str bytes)
{
    struct peer_line *line = owner;

    if (line->state != LINE_DIALING && line->state != LINE_OPEN) return;
    line->heard = loop_now(peers_of(line)->io->loop);
    peers_count_bytes(peers_of(line), BYTES_IN, bytes.len);
    if (buf_append(&line->input, bytes)) {
        peer_line_drop(line, "too much came back");
        return;
    }
    while (take_answer(line)) continue;
}

static void on_drained(void *owner)
{
    struct peer_line *line = owner;

    if (line->lane == LANE_BULK && line->state == LINE_OPEN && line->peer->sending)
        peer_file_pump(line->peer->sending);
}

static void peers_out_on_end(void *owner)
{
    struct peer_line *line = owner;

    if (line->state == LINE_DIALING || line->state == LINE_OPEN)
        peer_line_drop(line,
                       line->state == LINE_DIALING ? "it hung up on our hello" : "it hung up");
}

static const struct stream_events line_events = {.on_open = on_open,
                                                 .on_bytes = peers_out_on_bytes,
                                                 .on_drained = on_drained,
                                                 .on_end = peers_out_on_end,
                                                 .on_closed = peers_out_on_closed};

/* -- dialing -- */

static enum err say_hello(struct peer_line *line)
{
    struct peers *peers = peers_of(line);
    struct peer_frame hello;
    struct str bytes;
    enum err err;

    line->nonce = entropy_u64(peers->io->entropy);
    line->in = line->out = (struct frame_link){0};
    hello = peers_hello(peers, line->lane, line->peer->id, line->nonce);
    err = frame_append(&line->out, &hello, &line->output);
    bytes = buf_peek(&line->output);
    if (!err) err = stream_write(line->stream, &bytes, 1);
    buf_clear(&line->output);
    return err;
}

static void dial(struct peer_line *line)
{
    struct peers *peers = peers_of(line);
    const struct dial_options options = {
        .address = line->peer->address,
        .tls = peers->tls_client,
        .timeout_ms = DIAL_MS,
        .output_max = line->lane == LANE_BULK ? BULK_OUTPUT_MAX : line->output.max,
    };
    struct note note = {""};
    enum err err;

    assert(!line->stream && line->output.len == 0 && line->input.len == 0);
    line->dialed = loop_now(peers->io->loop);
    err = net_dial(peers->io->net, &options, &line_events, line, &line->stream, &note);
    if (err) {
        line->stream = NULL;
        report_down(line, err, note.text);
        back_off(line);
        line->state = LINE_WAITING;
        timer_start(&line->timer, line->dial_at);
        return;
    }
    peers->kept++;
    line->state = LINE_DIALING;
    line->connected = line->quiet = false;
    line->heard = line->dialed;
    timer_start_in(&line->timer, DIAL_MS + HELLO_MS);
    err = say_hello(line); /* the stream sends the hello when it opens */
    if (err) peer_line_drop(line, err_text(err));
}

/* -- timers -- */

static void trim(struct buf *b)
{
    if (b->len == 0 && b->cap > KEPT_BYTES) buf_deinit(b);
}

static void on_beat_timer(struct peer_line *line)
{
    struct peers *peers = peers_of(line);
    mono_time now = loop_now(peers->io->loop);

    line->backoff_ms = BACKOFF_MIN_MS; /* only a connection that lasted resets the back-off */
    line->reported = false;
    timer_start_in(&line->timer, peers->idle_ms / BEATS_PER_IDLE);
    if (mono_elapsed_ms(line->heard, now) >= peers->idle_ms) {
        peer_line_drop(line, "it fell silent");
    } else if (line->lane == LANE_BULK && line->peer->sending &&
               mono_elapsed_ms(line->peer->sending->moved, now) >= STALL_MS) {
        peer_file_over(line->peer->sending, ERR_TIMEOUT);
    } else if (peer_line_queued(line) == 0) { /* queued frames make a beat unnecessary */
        trim(&line->output);
        peers_out_beat(line);
    }
}

static void peers_out_on_timer(struct timer *timer)
{
    struct peer_line *line = CONTAINER_OF(timer, struct peer_line, timer);

    if (line->state == LINE_WAITING) {
        line->state = LINE_OFF;
        peer_line_look(line);
    } else if (line->state == LINE_DIALING) {
        peer_line_drop(line, "it did not answer our hello in time");
    } else if (line->state == LINE_OPEN) {
        on_beat_timer(line);
    }
}

/* -- queues -- */

size_t peer_line_queued(const struct peer_line *line)
{
    return line->state == LINE_OPEN ? line->output.len + stream_pending(line->stream) : 0;
}

void peer_line_mark_dirty(struct peer_line *line)
{
    struct peers *peers = peers_of(line);

    if (!list_empty(&line->dirty)) return;
    list_append(&peers->dirty, &line->dirty);
    peers_wake(peers);
}

void peer_line_flush(struct peer_line *line)
{
    struct str bytes = buf_peek(&line->output);
    enum err err;

    if (line->state != LINE_OPEN || bytes.len == 0) return;
    err = stream_write(line->stream, &bytes, 1);
    peers_count_bytes(peers_of(line), BYTES_OUT, bytes.len);
    /* Closes after a lost frame, because frames are numbered. */
    if (err == ERR_NOMEM) peers_count_drop(peers_of(line), DROP_MEMORY);
    if (err) peer_line_drop(line, err_text(err));
    buf_clear(&line->output);
}

static struct peer_line *open_line_to(struct peers *peers, uint64_t to)
{
    struct peer *peer = peers_find(peers, to);

    if (peer && peer->control.state == LINE_OPEN) return &peer->control;
    peers_count_drop(peers, DROP_UNCONNECTED);
    return NULL;
}

static enum err dropped(struct peers *peers, enum err err)
{
    if (err == ERR_FULL) peers_count_drop(peers, DROP_FULL);
    if (err == ERR_NOMEM) peers_count_drop(peers, DROP_MEMORY);
    return err;
}

enum err peers_send(struct peers *peers, uint64_t to, const struct peer_frame *frame)
{
    struct peer_line *line = open_line_to(peers, to);
    enum err err;

    assert(frame->kind > FRAME_HELLO && frame->kind < FRAME_SNAP_BEGIN);
    if (!line) return ERR_UNAVAILABLE;
    if (peer_line_queued(line) >= peers->queue_bytes) return dropped(peers, ERR_FULL);
    err = frame_append(&line->out, frame, &line->output);
    if (err) return dropped(peers, err);
    peer_line_mark_dirty(line);
    return ERR_OK;
}

struct append_run {
    struct peer_line *line;
    struct peer_frame head;
    peers_entry_fn *next;
    void *context;
    uint32_t left;
};

/* One frame, with as many entries as fit. */
static enum err send_part(struct append_run *run, uint32_t *ret_added)
{
    struct peer_line *line = run->line;
    size_t queued = peer_line_queued(line), start;
    uint64_t term = run->head.u.append.prev_term;
    uint32_t added = 0;
    struct entry entry;
    enum err err = frame_begin_append(&run->head, &line->output, &start);

    if (err) return err;
    while (added < run->left) {
        size_t size = line->output.len - start;
        if (!run->next(run->context, run->head.u.append.prev_index + 1 + added, &entry)) {
            err = ERR_NOT_FOUND;
            break;
        }
        /* An empty queue accepts any entry, so that a large entry can be sent. */
        if (queued + added > 0 && queued + size + entry.bytes.len > peers_of(line)->queue_bytes) {
            err = ERR_FULL;
            break;
        }
        if (added > 0 && size + entry.bytes.len > FRAME_APPEND_BYTES) break;
        err = frame_add_entry(&entry, &line->output, start);
        if (err == ERR_TOO_LARGE && added > 0) { /* the frame is full */
            err = ERR_OK;
            break;
        }
        if (err) break;
        term = entry.term;
        added++;
    }
    if (added > 0) {
        frame_seal(&line->out, &line->output, start);
        peer_line_mark_dirty(line);
    } else {
        line->output.len = start;
    }
    run->head.u.append.prev_index += added;
    run->head.u.append.prev_term = term;
    *ret_added = added;
    return err;
}

enum err peers_send_append(struct peers *peers, uint64_t to, const struct peer_frame *frame,
                           uint32_t count, peers_entry_fn *next, void *context, uint32_t *ret_sent)
{
    struct append_run run = {.head = *frame, .next = next, .context = context, .left = count};
    enum err err = ERR_OK;

    assert(frame->kind == FRAME_APPEND);
    *ret_sent = 0;
    run.head.u.append.entry_count = 0;
    run.head.u.append.entries = STR_EMPTY;
    if (count == 0) return peers_send(peers, to, &run.head);
    run.line = open_line_to(peers, to);
    if (!run.line) return ERR_UNAVAILABLE;
    while (run.left > 0 && !err) {
        uint32_t added = 0;
        err = send_part(&run, &added);
        run.left -= added;
    }
    *ret_sent = count - run.left;
    return dropped(peers, err);
}
