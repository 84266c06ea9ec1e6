/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

enum { BODY_MAX = 16 << 20, OUTPUT_MAX = 8 << 20, WAIT_MS = 120000 };

/* -- the server -- */

static struct scripted_request *find(struct scripted_peer *peer, int32_t stream)
{
    struct scripted *s = peer->server;

    for (size_t i = s->count; i > 0; i--)
        if (s->requests[i - 1].peer == peer && s->requests[i - 1].stream == stream)
            return &s->requests[i - 1];
    return NULL;
}

void scripted_flush(struct scripted_peer *peer)
{
    struct buf out;
    struct str bytes;

    if (!peer->stream || !peer->h2) return;
    buf_init(&out, OUTPUT_MAX);
    while (h2_has_output(peer->h2)) {
        CHECK_OK("output", h2_take_output(peer->h2, OUTPUT_MAX, &out));
        bytes = buf_peek(&out);
        if (bytes.len == 0) break;
        if (stream_write(peer->stream, &bytes, 1)) break;
        buf_clear(&out);
    }
    buf_deinit(&out);
}

static void on_headers(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool trailers, bool end)
{
    struct scripted_peer *peer = owner;
    struct scripted *s = peer->server;
    struct scripted_request *r;

    (void)trailers;
    if (s->count == SCRIPTED_REQUESTS) return;
    r = &s->requests[s->count++];
    *r = (struct scripted_request){.peer = peer, .stream = stream, .ended = end};
    buf_init(&r->body, BODY_MAX);
    for (size_t i = 0; i < count && i < SCRIPTED_HEADERS; i++) {
        snprintf(r->names[i], sizeof r->names[i], "%.*s", STR_ARG(headers[i].name));
        snprintf(r->values[i], sizeof r->values[i], "%.*s", STR_ARG(headers[i].value));
        r->headers++;
    }
    if ((end || s->at_headers) && s->on_request) s->on_request(s, r);
}

static void on_data(void *owner, int32_t stream, struct str bytes)
{
    struct scripted_peer *peer = owner;
    struct scripted_request *r = find(peer, stream);

    if (r) CHECK_OK("body", buf_append(&r->body, bytes));
    if (!peer->server->hold_data) h2_consume(peer->h2, stream, bytes.len);
}

static void on_end(void *owner, int32_t stream)
{
    struct scripted_peer *peer = owner;
    struct scripted_request *r = find(peer, stream);

    if (!r) return;
    r->ended = true;
    if (!peer->server->at_headers && peer->server->on_request)
        peer->server->on_request(peer->server, r);
}

static void on_closed(void *owner, int32_t stream, uint32_t code)
{
    struct scripted_peer *peer = owner;
    struct scripted_request *r = find(peer, stream);

    if (r) r->closed = true;
    if (code) peer->resets++, peer->reset_code = code;
}

static void on_goaway(void *owner, int32_t last, uint32_t code)
{
    (void)last, (void)code;
    ((struct scripted_peer *)owner)->goaway_seen = true;
}

static const struct h2_events events = {.on_headers = on_headers,
                                        .on_data = on_data,
                                        .on_end = on_end,
                                        .on_closed = on_closed,
                                        .on_goaway = on_goaway};

static void on_bytes(void *owner, struct str bytes)
{
    struct scripted_peer *peer = owner;

    if (peer->server->garbage.len > 0 || !peer->h2 || peer->server->mute) return;
    (void)h2_feed(peer->h2, bytes, loop_now(peer->server->io->loop));
    scripted_flush(peer);
}

static void on_stream_end(void *owner)
{
    struct scripted_peer *peer = owner;
    stream_end(peer->stream);
}

static void on_stream_closed(void *owner, enum err why, const struct note *note)
{
    struct scripted_peer *peer = owner;

    (void)why, (void)note;
    peer->stream = NULL;
    h2_close(peer->h2);
    peer->h2 = NULL;
}

static const struct stream_events stream_events = {
    .on_bytes = on_bytes, .on_end = on_stream_end, .on_closed = on_stream_closed};

static void on_accept(void *owner, struct stream *own_stream)
{
    struct scripted *s = owner;
    struct scripted_peer *peer = &s->peers[s->accepted];
    const struct h2_limits limits = {.streams_max = s->streams_max};

    if (s->accepted == SCRIPTED_CONNECTIONS || s->refuse) {
        s->accepted += s->refuse && s->accepted < SCRIPTED_CONNECTIONS - 1;
        stream_close(own_stream);
        return;
    }
    s->accepted++;
    *peer = (struct scripted_peer){.server = s, .stream = own_stream};
    stream_start(own_stream, &stream_events, peer);
    if (s->garbage.len > 0) {
        CHECK_OK("garbage", stream_write(own_stream, &s->garbage, 1));
        return;
    }
    CHECK_OK("h2", h2_open(H2_SERVER, &limits, &events, peer, &peer->h2));
    if (!s->mute) scripted_flush(peer);
}

void scripted_open(struct scripted *s, struct io *io, const char *address)
{
    const struct listen_options options = {
        .address = address, .on_accept = on_accept, .owner = s, .output_max = OUTPUT_MAX};

    s->io = io;
    CHECK_OK("listen", net_listen(io->net, &options, &s->listener, NULL));
}

void scripted_close(struct scripted *s)
{
    listener_close(s->listener);
    s->listener = NULL;
    for (size_t i = 0; i < s->accepted; i++)
        if (s->peers[i].stream) stream_close(s->peers[i].stream);
}

void scripted_deinit(struct scripted *s)
{
    for (size_t i = 0; i < s->accepted; i++) h2_close(s->peers[i].h2);
    for (size_t i = 0; i < s->count; i++) buf_deinit(&s->requests[i].body);
}

const char *scripted_header(const struct scripted_request *r, const char *name)
{
    for (size_t i = 0; i < r->headers; i++)
        if (strcmp(r->names[i], name) == 0) return r->values[i];
    return NULL;
}

/* -- output of a script. Inside an event of h2 the flush follows the event; outside, it is
 * immediate. -- */

void scripted_respond_with(struct scripted_request *r, const struct h2_header *headers,
                           size_t count, bool end)
{
    CHECK_OK("respond", h2_respond(r->peer->h2, r->stream, headers, count, end));
}

void scripted_respond(struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")}};
    scripted_respond_with(r, headers, ARRAY_LEN(headers), false);
}

void scripted_bytes(struct scripted_request *r, struct str bytes)
{
    CHECK_OK("send", h2_send(r->peer->h2, r->stream, &bytes, 1));
}

void scripted_message(struct scripted_request *r, struct str message)
{
    char head[GRPC_FRAME_BYTES];
    struct str parts[2] = {{head, sizeof head}, message};

    grpc_frame_write((uint32_t)message.len, false, head);
    CHECK_OK("send", h2_send(r->peer->h2, r->stream, parts, 2));
}

void scripted_trailers_with(struct scripted_request *r, const struct h2_header *trailers,
                            size_t count)
{
    CHECK_OK("trailers", h2_send_trailers(r->peer->h2, r->stream, trailers, count));
}

void scripted_trailers(struct scripted_request *r, const char *status, const char *message)
{
    const struct h2_header trailers[] = {{STR("grpc-status"), str_from(status)},
                                         {STR("grpc-message"), str_from(message)}};
    scripted_trailers_with(r, trailers, message ? 2 : 1);
}

void scripted_only(struct scripted_request *r, const char *status, const char *message)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("grpc-status"), str_from(status)},
                                        {STR("grpc-message"), str_from(message)}};
    scripted_respond_with(r, headers, message ? 4 : 3, true);
}

void scripted_reset(struct scripted_request *r, uint32_t code)
{
    h2_reset(r->peer->h2, r->stream, code);
}

void scripted_echo(struct scripted *s, struct scripted_request *r)
{
    (void)s;
    scripted_respond(r);
    scripted_bytes(r, buf_peek(&r->body));
    scripted_trailers(r, "0", NULL);
}

void scripted_say_name(struct scripted *s, struct scripted_request *r)
{
    scripted_respond(r);
    scripted_message(r, str_from(s->name));
    scripted_trailers(r, "0", NULL);
}

/* -- the world -- */

const char *const world_addresses[WORLD_SERVERS + 1] = {"s0:7000", "s1:7000", "s2:7000", NULL};

void world_open(struct world *w, uint64_t seed)
{
    static const char *const names[WORLD_SERVERS] = {"s0", "s1", "s2"};

    memset(w, 0, sizeof *w);
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = seed}, &w->sim));
    CHECK_OK("client", sim_host_add(w->sim, &(struct sim_host_options){.name = "c"}, &w->client));
    for (size_t i = 0; i < WORLD_SERVERS; i++) {
        CHECK_OK("server",
                 sim_host_add(w->sim, &(struct sim_host_options){.name = names[i]}, &w->hosts[i]));
        w->servers[i].name = names[i];
        w->servers[i].on_request = scripted_echo;
        scripted_open(&w->servers[i], sim_host_io(w->hosts[i]), world_addresses[i]);
    }
}

void world_channel(struct world *w, struct rpc_channel_options options)
{
    const char *const first[] = {world_addresses[0], NULL};
    struct note note = {0};

    options.io = sim_host_io(w->client);
    if (!options.addresses) options.addresses = first;
    CHECK_OK("a channel", rpc_channel_open(&options, &w->channel, &note));
}

bool world_wait(struct world *w, bool (*holds)(void *), void *context)
{
    return sim_wait(w->sim, holds, context, WAIT_MS) == SIM_REACHED;
}

static bool is_ready(void *context)
{
    return rpc_channel_ready(((struct world *)context)->channel);
}

bool world_wait_ready(struct world *w)
{
    return world_wait(w, is_ready, w);
}

void world_run(struct world *w, uint64_t ms)
{
    (void)sim_run_for(w->sim, ms);
}

static void channel_done(void *owner)
{
    ((struct world *)owner)->closed = true;
}

static bool is_closed(void *context)
{
    return ((struct world *)context)->closed;
}

void world_close_channel(struct world *w)
{
    rpc_channel_close(w->channel, channel_done, w);
    w->channel = NULL;
    CHECK("the channel is gone", world_wait(w, is_closed, w));
}

void world_close(struct world *w)
{
    if (w->channel) world_close_channel(w);
    sim_close(w->sim);
    for (size_t i = 0; i < WORLD_SERVERS; i++) scripted_deinit(&w->servers[i]);
}

/* -- calls -- */

static void heard_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct heard *h = owner;

    CHECK("no message after the end", h->ends == 0);
    h->messages++;
    CHECK_OK("room", buf_append(&h->bytes, message));
    CHECK_OK("room", buf_append_byte(&h->bytes, '|'));
    if (h->pause_at_message) rpc_call_pause(call);
}

static void heard_writable(void *owner, struct rpc_client_call *call)
{
    (void)call;
    ((struct heard *)owner)->writables++;
}

static void heard_outcome(struct heard *h, const struct rpc_client_call *call,
                          const struct rpc_outcome *outcome)
{
    struct str leader = STR_EMPTY;

    CHECK("not from inside the call that started it", !h->started_inside);
    h->ends++;
    h->call = NULL;
    h->err = outcome->err;
    h->status = outcome->status;
    h->answered = outcome->answered;
    h->attempts = outcome->attempts;
    h->doubted = outcome->doubted;
    snprintf(h->text, sizeof h->text, "%.*s", STR_ARG(outcome->text));
    if (outcome->details.len < sizeof h->details && outcome->details.len > 0)
        memcpy(h->details, outcome->details.at, outcome->details.len);
    rpc_call_trailer(call, STR(RPC_LEADER_TRAILER), &leader);
    snprintf(h->leader, sizeof h->leader, "%.*s", STR_ARG(leader));
}

static void heard_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    heard_outcome(owner, call, outcome);
}

const struct rpc_call_events heard_events = {heard_message, heard_writable, heard_end};

static void unary_done(void *owner, const struct rpc_client_call *call,
                       const struct rpc_outcome *outcome, struct str message)
{
    struct heard *h = owner;

    if (!outcome->err) {
        h->messages++;
        CHECK_OK("room", buf_append(&h->bytes, message));
    }
    heard_outcome(h, call, outcome);
}

void heard_deinit(struct heard *h)
{
    buf_deinit(&h->bytes);
}

void ask(struct world *w, struct heard *h, struct rpc_call_options options, struct str request)
{
    *h = (struct heard){.world = w, .started_inside = true};
    buf_init(&h->bytes, BODY_MAX);
    if (!options.path) options.path = "/test.Echo/Call";
    CHECK_OK("a call", rpc_unary(w->channel, &options, request, unary_done, h, &h->call));
    h->started_inside = false;
}

static bool has_ended(void *context)
{
    return ((struct heard *)context)->ends > 0;
}

bool wait_end(struct world *w, struct heard *h)
{
    return world_wait(w, has_ended, h) && h->ends == 1;
}
