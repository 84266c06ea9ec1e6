/* SPDX-License-Identifier: Apache-2.0 */
/* Any acts of a stranger at the Raft port, in the virtual world: connections, valid and invalid
 * hellos, frames with right sums and any content, stray bytes, time. The owner refuses frames and
 * accepts them again.
 *
 *   acts: one byte of kind, then its arguments (see act())
 *
 * Invariants: the owner receives frames only in the right lane and order, and one end or loss of
 * each snapshot; and everything can be closed. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/peers.h"
#include "sim/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ACTS_MAX = 300, CONNECTIONS = 4, OUT_MAX = 1 << 20, SENDERS = 3, CLUSTER = 5, SELF = 9 };

struct connection {
    struct stream *stream;
    struct buf got;
    struct frame_link out, in;
    uint64_t nonce;
};
struct sender { /* the owner's view of a sender's bulk lane */
    bool snap;
    uint64_t id, at, bytes;
};
struct world {
    struct sim *sim;
    struct io *io, *client_io;
    struct peers *peers;
    struct connection connections[CONNECTIONS];
    struct sender senders[SENDERS + 1];
    bool refuse;
};
struct input {
    const uint8_t *at;
    size_t left;
};

static void must(bool holds)
{
    if (!holds) abort();
}

static uint8_t take(struct input *in)
{
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

static struct str take_bytes(struct input *in, size_t max)
{
    struct str bytes = str_of(in->at, min_size(min_size(take(in), max), in->left));

    bytes.at = (const char *)in->at; /* after the length */
    in->at += bytes.len;
    in->left -= bytes.len;
    return bytes;
}

/* -- the owner -- */

static bool on_frame(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct world *w = owner;
    struct entry entry;

    must(from >= 1 && from <= SENDERS);
    must(frame->kind > FRAME_HELLO && frame->kind < FRAME_SNAP_BEGIN);
    if (frame->kind == FRAME_VOTE) must(frame->u.vote.candidate_id == from);
    while (frame->kind == FRAME_APPEND && frame_next_entry(frame, &entry)) continue;
    return !w->refuse;
}

static bool on_snap(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct world *w = owner;
    struct sender *s = &w->senders[from];

    must(from >= 1 && from <= SENDERS);
    must(s->snap == (frame->kind != FRAME_SNAP_BEGIN));
    if (frame->kind == FRAME_SNAP_CHUNK)
        must(frame->u.snap_chunk.id == s->id && frame->u.snap_chunk.offset == s->at &&
             frame->u.snap_chunk.bytes.len <= s->bytes - s->at);
    if (frame->kind == FRAME_SNAP_END) must(frame->u.snap_end.id == s->id && s->at == s->bytes);
    if (w->refuse) return false;
    if (frame->kind == FRAME_SNAP_BEGIN)
        *s = (struct sender){true, frame->u.snap_begin.id, 0, frame->u.snap_begin.bytes};
    else if (frame->kind == FRAME_SNAP_CHUNK)
        s->at += frame->u.snap_chunk.bytes.len;
    else
        s->snap = false;
    return true;
}

static void on_snap_lost(void *owner, uint64_t from)
{
    struct world *w = owner;

    must(w->senders[from].snap);
    w->senders[from].snap = false;
}

static void on_hello(void *owner, uint64_t from, uint32_t level, struct str address)
{
    (void)owner, (void)level;
    must(from >= 1 && from <= SENDERS && address.len > 0 && address.len <= REPLICA_ADDRESS_MAX);
}

/* -- the other side -- */

static void on_bytes(void *owner, struct str bytes)
{
    struct connection *c = owner;
    struct peer_frame frame;
    size_t size;

    must(buf_append(&c->got, bytes) == ERR_OK);
    while (!frame_take(&c->in, buf_peek(&c->got), &frame, &size, NULL)) {
        if (frame.kind == FRAME_HELLO)
            c->in.session = c->out.session = frame_session(c->nonce, frame.u.hello.nonce);
        buf_consume(&c->got, size);
    }
}

static void on_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    ((struct connection *)owner)->stream = NULL;
}

static const struct stream_events events = {.on_bytes = on_bytes, .on_closed = on_closed};

static void write_bytes(struct connection *c, struct str bytes)
{
    if (c->stream) (void)stream_write(c->stream, &bytes, 1); /* full: enough was said */
}

static void dial(struct world *w, struct connection *c)
{
    if (c->stream) return;
    buf_clear(&c->got);
    c->in = c->out = (struct frame_link){0};
    must(net_dial(w->client_io->net,
                  &(struct dial_options){.address = "port:1", .output_max = OUT_MAX}, &events, c,
                  &c->stream, NULL) == ERR_OK);
}

static void hello(struct connection *c, struct input *in)
{
    uint8_t how = take(in);
    struct peer_frame frame = {.kind = FRAME_HELLO,
                               .u.hello = {.protocol = FRAME_PROTOCOL + (how == 255),
                                           .lane = how & 1 ? LANE_BULK : LANE_CONTROL,
                                           .cluster_id = how == 254 ? 6 : CLUSTER,
                                           .from = 1 + (how >> 1) % SENDERS,
                                           .to = how == 253 ? 8 : SELF,
                                           .nonce = c->nonce,
                                           .level = 1,
                                           .name = STR("n"),
                                           .address = STR("client:1")}};
    struct buf bytes;

    if (c->out.session != 0) return;
    buf_init(&bytes, OUT_MAX);
    must(frame_append(&c->out, &frame, &bytes) == ERR_OK);
    write_bytes(c, buf_peek(&bytes));
    buf_deinit(&bytes);
}

/* A frame with right sums and number around any payload. */
static void forge(struct connection *c, uint8_t kind, struct str payload)
{
    char bytes[FRAME_HEAD + 300] = {0}, salt[8];
    uint32_t sum;

    store_le32(bytes, (uint32_t)payload.len);
    store_le32(bytes + 4, kind);
    store_le64(bytes + 16, ++c->out.number);
    memcpy(bytes + FRAME_HEAD, payload.at, payload.len);
    store_le64(salt, c->out.session);
    sum = crc32c(crc32c(crc32c(0, salt, 8), bytes, 8), bytes + 16, 8);
    store_le32(bytes + 12, sum);
    store_le32(bytes + 8, crc32c(sum, bytes + FRAME_HEAD, payload.len));
    write_bytes(c, str_of(bytes, FRAME_HEAD + payload.len));
}

static void snap_frame(struct connection *c, struct input *in)
{
    uint8_t what = take(in), size = take(in);
    char payload[16 + 255] = {0};

    store_le64(payload, 1); /* term of a begin, id of the others */
    if (what % 3 == 0) {
        store_le64(payload + 24, size);
        store_le64(payload + 32, 1);
        forge(c, FRAME_SNAP_BEGIN, str_of(payload, 40));
    } else if (what % 3 == 1) {
        store_le64(payload + 8, take(in));
        forge(c, FRAME_SNAP_CHUNK, str_of(payload, 16 + (size_t)size));
    } else {
        forge(c, FRAME_SNAP_END, str_of(payload, 8));
    }
}

static void act(struct world *w, struct input *in)
{
    uint8_t what = take(in);
    struct connection *c = &w->connections[what >> 6];
    struct str bytes;

    switch (what & 15) {
    case 0: dial(w, c); break;
    case 1: hello(c, in); break;
    case 2:
        bytes = take_bytes(in, 255);
        write_bytes(c, bytes);
        break;
    case 3:
        what = take(in);
        bytes = take_bytes(in, 255);
        forge(c, what, bytes);
        break;
    case 4: snap_frame(c, in); break;
    case 5: sim_run_for(w->sim, take(in)); break;
    case 6: sim_run_for(w->sim, (uint64_t)take(in) * 20); break;
    case 7: w->refuse = !w->refuse; break;
    case 8: peers_resume(w->peers); break;
    case 9:
        if (c->stream) stream_end(c->stream);
        break;
    case 10:
        if (c->stream) stream_close(c->stream);
        break;
    case 11: c->out.number += take(in); break;
    case 12:
        dial(w, c);
        sim_run_for(w->sim, 2);
        hello(c, in);
        sim_run_for(w->sim, 2);
        forge(c, FRAME_BEAT, STR_EMPTY);
        break;
    default: forge(c, FRAME_BEAT, STR_EMPTY); break;
    }
}

static void open_world(struct world *w)
{
    struct sim_host *port, *client;
    struct peers_options options = {.listen = "port:1",
                                    .name = "p",
                                    .id = SELF,
                                    .cluster_id = CLUSTER,
                                    .idle_ms = 900,
                                    .events = {.on_frame = on_frame,
                                               .on_snap = on_snap,
                                               .on_snap_lost = on_snap_lost,
                                               .on_hello = on_hello,
                                               .owner = w}};

    must(sim_open(&(struct sim_options){.seed = 1}, &w->sim) == ERR_OK);
    must(sim_host_add(w->sim, &(struct sim_host_options){.name = "port"}, &port) == ERR_OK);
    must(sim_host_add(w->sim, &(struct sim_host_options){.name = "client"}, &client) == ERR_OK);
    options.io = w->io = sim_host_io(port);
    w->client_io = sim_host_io(client);
    must(peers_open(&options, &w->peers, NULL) == ERR_OK);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        buf_init(&w->connections[i].got, OUT_MAX);
        w->connections[i].nonce = i;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct world w = {0};

    open_world(&w);
    for (int i = 0; i < ACTS_MAX && in.left > 0; i++) act(&w, &in);
    w.refuse = false;
    peers_resume(w.peers);
    sim_run_for(w.sim, 10);
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (w.connections[i].stream) stream_close(w.connections[i].stream);
    sim_run_for(w.sim, 2000);
    for (size_t i = 1; i <= SENDERS; i++) must(!w.senders[i].snap); /* each was ended or lost */
    peers_close(w.peers);
    sim_run_for(w.sim, 1);
    sim_close(w.sim);
    for (size_t i = 0; i < CONNECTIONS; i++) buf_deinit(&w.connections[i].got);
    return 0;
}
