/* SPDX-License-Identifier: Apache-2.0 */
/* A client: one operation at a time, over a connection to each node, repeated until a majority
 * agrees.
 *
 * After a restart the client does not know its last value. Its first operation reads its own
 * register, and the client counts on from the result. */
#include <stdlib.h>
#include <string.h>

#include "register.h"

enum {
    INPUT_MAX = 64 * 1024,
    RESEND_MS = 400,
    THINK_MS_MAX = 40,
    BACKOFF_MS_MAX = 500,
    HALF_CLOSE_PERCENT = 8, /* of operations are followed by a half-close */
    HALF_CLOSE_WAIT_MS = 2500,
    DIAL_TIMEOUT_MS = 2000,
    SILENCE_MS = 3000, /* a connection without an answer for so long is closed */
};

enum phase { IDLE, ASKING, STORING_BACK, WRITING };
struct link {
    struct register_client *client;
    size_t number;
    struct stream *stream;
    bool open, ending;
    struct buf input;
    struct timer timer; /* redials, or ends the wait for the node to close */
    mono_time asked;    /* first request without an answer; MONO_NEVER: none */
};
struct register_client {
    struct io *io;
    struct register_client_options options;
    struct link links[REGISTER_NODES];
    struct timer think, resend;
    enum phase phase;
    bool knows_own, closing;
    uint64_t own_stamp, own_value; /* last written or read */
    uint64_t request;
    uint32_t index;
    uint64_t stamp, value, floor; /* of the operation */
    bool answered[REGISTER_NODES];
    unsigned answers;
};

static uint64_t below(struct register_client *c, uint64_t bound)
{
    return entropy_u64(c->io->entropy) % bound;
}

/* -- requests -- */

static void ask(struct link *link)
{
    struct register_client *c = link->client;
    const struct register_frame frame = {
        .kind = c->phase == ASKING ? REGISTER_READ : REGISTER_WRITE,
        .request = c->request,
        .index = c->index,
        .stamp = c->phase == ASKING ? 0 : c->stamp,
        .value = c->phase == ASKING ? 0 : c->value,
    };
    struct buf bytes;
    struct str view;

    if (!link->open || link->ending || c->phase == IDLE) return;
    buf_init(&bytes, REGISTER_FRAME_HEAD + REGISTER_BODY_MAX);
    if (!register_frame_put(&bytes, &frame)) {
        view = buf_peek(&bytes);
        (void)stream_write(link->stream, &view, 1); /* full or closed: asked again later */
        if (link->asked.ms == MONO_NEVER.ms) link->asked = loop_now(c->io->loop);
    }
    buf_deinit(&bytes);
}

static void begin(struct register_client *c, enum phase phase)
{
    c->phase = phase;
    c->request = entropy_u64(c->io->entropy);
    memset(c->answered, 0, sizeof c->answered);
    c->answers = 0;
    for (size_t i = 0; i < REGISTER_NODES; i++) ask(&c->links[i]);
    timer_start_in(&c->resend, RESEND_MS);
}

static void begin_read(struct register_client *c, uint32_t index)
{
    c->index = index;
    c->stamp = c->value = 0;
    c->floor = register_history_begin_read(c->options.history, index);
    begin(c, ASKING);
}

static void begin_write(struct register_client *c)
{
    bool by_wall = c->options.bug == REGISTER_STAMP_BY_WALL_CLOCK;

    c->index = c->options.index;
    c->value = c->own_value + 1;
    c->stamp = by_wall ? clock_wall(c->io->clock).ms : c->own_stamp + 1;
    register_history_issue(c->options.history, c->index, c->value);
    begin(c, WRITING);
}

static void think(struct timer *timer)
{
    struct register_client *c = CONTAINER_OF(timer, struct register_client, think);

    if (!c->knows_own)
        begin_read(c, c->options.index);
    else if (below(c, 2))
        begin_write(c);
    else
        begin_read(c, (uint32_t)below(c, c->options.registers));
}

static void half_close_one(struct register_client *c)
{
    struct link *link = &c->links[below(c, REGISTER_NODES)];

    if (!link->open || link->ending) return;
    link->ending = true;
    stream_end(link->stream);
    timer_start_in(&link->timer, HALF_CLOSE_WAIT_MS);
}

static void finish(struct register_client *c)
{
    struct register_history *history = c->options.history;

    if (c->phase == WRITING)
        register_history_written(history, c->index, c->value);
    else
        register_history_read(history, c->index, c->value, c->floor);
    if (c->index == c->options.index && c->stamp >= c->own_stamp) {
        c->own_stamp = c->stamp;
        c->own_value = c->value;
        c->knows_own = true;
    } else if (c->phase == WRITING) {
        c->own_value = c->value; /* stamps went back: happens with the wall-clock bug only */
        c->own_stamp = c->stamp;
    }
    c->phase = IDLE;
    timer_stop(&c->resend);
    timer_start_in(&c->think, 1 + below(c, THINK_MS_MAX));
    if (below(c, 100) < HALF_CLOSE_PERCENT) half_close_one(c);
}

static void majority(struct register_client *c)
{
    bool back = c->phase == ASKING && c->stamp && c->options.bug != REGISTER_NO_WRITE_BACK;
    if (back)
        begin(c, STORING_BACK);
    else
        finish(c);
}

static void take_answer(struct link *link, const struct register_frame *frame)
{
    struct register_client *c = link->client;

    link->asked = MONO_NEVER;
    if (c->phase == IDLE || frame->request != c->request || frame->kind == REGISTER_REFUSED) return;
    if (c->answered[link->number] && c->options.bug != REGISTER_COUNT_A_NODE_TWICE) return;
    c->answered[link->number] = true;
    c->answers++;
    if (c->phase == ASKING && frame->kind == REGISTER_VALUE && frame->stamp > c->stamp) {
        c->stamp = frame->stamp;
        c->value = frame->value;
    }
    if (c->answers >= REGISTER_MAJORITY) majority(c);
}

static void resend(struct timer *timer)
{
    struct register_client *c = CONTAINER_OF(timer, struct register_client, resend);
    mono_time now = loop_now(c->io->loop);

    for (size_t i = 0; i < REGISTER_NODES; i++) {
        struct link *link = &c->links[i];
        bool silent =
            link->asked.ms != MONO_NEVER.ms && mono_elapsed_ms(link->asked, now) > SILENCE_MS;
        if (link->open && silent)
            stream_close(link->stream);
        else if (!c->answered[i] || c->options.bug == REGISTER_COUNT_A_NODE_TWICE)
            ask(link);
    }
    timer_start_in(timer, RESEND_MS);
}

/* -- connections -- */

static void on_open(void *owner)
{
    struct link *link = owner;

    link->open = true;
    if (!link->client->answered[link->number]) ask(link);
}

static void on_bytes(void *owner, struct str bytes)
{
    struct link *link = owner;
    struct register_frame frame;
    size_t used = 0, len;
    enum err err = buf_append(&link->input, bytes);

    if (link->client->closing) return;
    while (!err) {
        err = register_frame_take(str_tail(buf_peek(&link->input), used), &frame, &len);
        if (err || !len) break;
        take_answer(link, &frame);
        used += len;
    }
    buf_consume(&link->input, used);
    if (err == ERR_CORRUPT)
        register_history_damage(link->client->options.history, "damaged bytes came back");
    if (err) stream_close(link->stream);
}

static void on_end(void *owner)
{
    struct link *link = owner;
    stream_end(link->stream);
}

static void client_free(struct register_client *c)
{
    void (*gone)(void *) = c->options.on_gone;
    void *context = c->options.context;

    for (size_t i = 0; i < REGISTER_NODES; i++) {
        timer_deinit(&c->links[i].timer);
        buf_deinit(&c->links[i].input);
    }
    timer_deinit(&c->think);
    timer_deinit(&c->resend);
    free(c);
    if (gone) gone(context);
}

static void free_if_alone(struct register_client *c)
{
    for (size_t i = 0; i < REGISTER_NODES; i++) {
        if (c->links[i].stream) return;
    }
    client_free(c);
}

static void on_closed(void *owner, enum err why, const struct note *note)
{
    struct link *link = owner;
    struct register_client *c = link->client;

    (void)why, (void)note;
    link->stream = NULL;
    link->open = link->ending = false;
    if (c->closing)
        free_if_alone(c);
    else
        timer_start_in(&link->timer, 1 + below(c, BACKOFF_MS_MAX));
}

static const struct stream_events link_events = {
    .on_open = on_open, .on_bytes = on_bytes, .on_end = on_end, .on_closed = on_closed};

static void dial(struct link *link)
{
    struct register_client *c = link->client;
    const struct dial_options options = {.address = c->options.nodes[link->number],
                                         .timeout_ms = DIAL_TIMEOUT_MS};

    buf_clear(&link->input);
    link->asked = MONO_NEVER;
    if (net_dial(c->io->net, &options, &link_events, link, &link->stream, NULL)) {
        timer_start_in(&link->timer, BACKOFF_MS_MAX);
    }
}

static void link_timer(struct timer *timer)
{
    struct link *link = CONTAINER_OF(timer, struct link, timer);

    if (link->stream)
        stream_close(link->stream); /* the node never closed its side */
    else
        dial(link);
}

enum err register_client_open(struct io *io, const struct register_client_options *options,
                              struct register_client **ret_client)
{
    struct register_client *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    c->io = io;
    c->options = *options;
    err = timer_init(&c->think, io->loop, think);
    if (!err) err = timer_init(&c->resend, io->loop, resend);
    for (size_t i = 0; !err && i < REGISTER_NODES; i++) {
        struct link *link = &c->links[i];
        link->client = c;
        link->number = i;
        buf_init(&link->input, INPUT_MAX * 2);
        err = timer_init(&link->timer, io->loop, link_timer);
    }
    if (err) {
        c->options.on_gone = NULL;
        client_free(c);
        return err;
    }
    for (size_t i = 0; i < REGISTER_NODES; i++) dial(&c->links[i]);
    timer_start_in(&c->think, 1);
    *ret_client = c;
    return ERR_OK;
}

void register_client_close(struct register_client *c)
{
    c->closing = true;
    timer_stop(&c->think);
    timer_stop(&c->resend);
    for (size_t i = 0; i < REGISTER_NODES; i++) {
        timer_stop(&c->links[i].timer);
        if (c->links[i].stream) stream_close(c->links[i].stream);
    }
    free_if_alone(c);
}
