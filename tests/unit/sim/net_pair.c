/* SPDX-License-Identifier: Apache-2.0 */
#include "net_pair.h"

#include <string.h>

#include "lib/test.h"

enum { GOT_MAX = 4 * 1024 * 1024 };

static void on_open(void *owner)
{
    struct end *end = owner;
    end->open = true;
    end->opens++;
}

static void on_bytes(void *owner, struct str bytes)
{
    struct end *end = owner;
    CHECK("no bytes after the end or the close", !end->ended && !end->closed);
    if (!end->got.max) buf_init(&end->got, GOT_MAX);
    if (end->close_in_bytes) stream_close(end->stream);
    CHECK_OK("room for received bytes", buf_append(&end->got, bytes));
}

static void on_drained(void *owner)
{
    ((struct end *)owner)->drained++;
}

static void on_end(void *owner)
{
    struct end *end = owner;
    end->ended = true;
    end->ends++;
    if (end->answer_end) stream_end(end->stream);
}

static void on_closed(void *owner, enum err why, const struct note *note)
{
    struct end *end = owner;
    end->closed = true;
    end->open = false;
    end->closes++;
    end->why = why;
    end->note = *note;
    end->stream = NULL;
}

const struct stream_events end_events = {on_open, on_bytes, on_drained, on_end, on_closed};

void end_deinit(struct end *end)
{
    buf_deinit(&end->got);
}

enum err end_dial(struct end *end, struct sim_host *host, const struct dial_options *options)
{
    buf_deinit(&end->got);
    *end = (struct end){.answer_end = end->answer_end};
    buf_init(&end->got, GOT_MAX);
    return net_dial(sim_host_io(host)->net, options, &end_events, end, &end->stream, NULL);
}

enum err end_write(struct end *end, struct str bytes)
{
    return stream_write(end->stream, &bytes, 1);
}

static void on_accept(void *owner, struct stream *stream)
{
    struct server *server = owner;
    struct end *end = &server->ends[server->accepted];

    if (server->accepted == ARRAY_LEN(server->ends)) {
        stream_close(stream);
        return;
    }
    server->accepted++;
    *end = (struct end){.stream = stream, .open = true, .answer_end = server->answer_end};
    stream_start(stream, &end_events, end);
}

enum err server_listen(struct server *server, struct sim_host *host,
                       const struct listen_options *options)
{
    struct listen_options own = *options;

    own.on_accept = on_accept;
    own.owner = server;
    return net_listen(sim_host_io(host)->net, &own, &server->listener, NULL);
}

void pair_open(struct pair *pair, uint64_t seed)
{
    *pair = (struct pair){0};
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = seed}, &pair->sim));
    CHECK_OK("host a", sim_host_add(pair->sim, &(struct sim_host_options){.name = "a"}, &pair->a));
    CHECK_OK("host b", sim_host_add(pair->sim, &(struct sim_host_options){.name = "b"}, &pair->b));
    CHECK_OK("a server",
             server_listen(&pair->server, pair->b, &(struct listen_options){.address = "b:7000"}));
}

static bool connected(void *context)
{
    struct pair *pair = context;
    return pair->client.open && pair->server.accepted > 0;
}

void pair_connect(struct pair *pair)
{
    CHECK_OK("dial", end_dial(&pair->client, pair->a, &(struct dial_options){.address = "b:7000"}));
    CHECK("connected", sim_wait(pair->sim, connected, pair, 60000) == SIM_REACHED);
}

void pair_close(struct pair *pair)
{
    sim_close(pair->sim); /* closes what the test left open */
    end_deinit(&pair->client);
    for (size_t i = 0; i < ARRAY_LEN(pair->server.ends); i++) end_deinit(&pair->server.ends[i]);
}

struct wanted {
    struct end *end;
    size_t len;
};

static bool has_bytes(void *context)
{
    const struct wanted *wanted = context;
    return wanted->end->got.len >= wanted->len;
}

static bool is_closed(void *context)
{
    return ((struct end *)context)->closed;
}

bool pair_wait_bytes(struct pair *pair, struct end *end, size_t len, uint64_t ms)
{
    return sim_wait(pair->sim, has_bytes, &(struct wanted){end, len}, ms) == SIM_REACHED;
}

bool pair_wait_closed(struct pair *pair, struct end *end, uint64_t ms)
{
    return sim_wait(pair->sim, is_closed, end, ms) == SIM_REACHED;
}
