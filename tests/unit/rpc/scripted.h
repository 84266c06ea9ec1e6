/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server that does exactly what a test chooses, against the rules or not: h2 and nothing
 * above it. Each request is passed to `on_request` when it is complete (`at_headers`: after its
 * headers). Output is sent at once. Also a world with a client, for the tests of the client. */
#ifndef TESTS_UNIT_RPC_SCRIPTED_H
#define TESTS_UNIT_RPC_SCRIPTED_H
#include "base/buf.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "wire/grpc.h"
#include "wire/h2.h"

enum { SCRIPTED_CONNECTIONS = 16, SCRIPTED_REQUESTS = 64, SCRIPTED_HEADERS = 24 };

struct scripted;
struct scripted_peer {
    struct scripted *server;
    struct stream *stream; /* NULL once closed */
    struct h2 *h2;
    unsigned pings, resets;
    uint32_t reset_code; /* code of the last stream that the client reset */
    bool goaway_seen;
    bool no_consume;
};
struct scripted_request {
    struct scripted_peer *peer;
    int32_t stream;
    struct buf body;
    char names[SCRIPTED_HEADERS][40], values[SCRIPTED_HEADERS][200];
    size_t headers;
    bool ended, closed;
};
typedef void scripted_fn(struct scripted *server, struct scripted_request *request);
struct scripted {
    struct io *io;
    struct listener *listener;
    struct scripted_peer peers[SCRIPTED_CONNECTIONS];
    size_t accepted;
    struct scripted_request requests[SCRIPTED_REQUESTS]; /* in order; more are ignored */
    size_t count;
    scripted_fn *on_request;
    bool at_headers;
    bool mute;          /* accepts connections and never sends */
    struct str garbage; /* sent instead of HTTP/2 */
    bool refuse;        /* closes what it accepts */
    bool hold_data;     /* does not consume request bytes */
    uint32_t streams_max;
    const char *name; /* for scripts that answer with their name */
};
void scripted_open(struct scripted *server, struct io *io, const char *address);
void scripted_close(struct scripted *server); /* the listener and all peers */
void scripted_deinit(struct scripted *server);

const char *scripted_header(const struct scripted_request *request, const char *name); /* or NULL */
void scripted_flush(struct scripted_peer *peer);
/* 200 and application/grpc. */
void scripted_respond(struct scripted_request *request);
void scripted_respond_with(struct scripted_request *request, const struct h2_header *headers,
                           size_t count, bool end);
void scripted_message(struct scripted_request *request, struct str message);
void scripted_bytes(struct scripted_request *request, struct str bytes); /* not framed */
void scripted_trailers(struct scripted_request *request, const char *status, const char *message);
void scripted_trailers_with(struct scripted_request *request, const struct h2_header *trailers,
                            size_t count);
void scripted_only(struct scripted_request *request, const char *status, const char *message);
void scripted_reset(struct scripted_request *request, uint32_t code);
scripted_fn scripted_echo; /* echoes the request's frames with OK */
scripted_fn scripted_say_name;

/* -- a world: one client host, some server hosts s0, s1, ... on port 7000 -- */
enum { WORLD_SERVERS = 3 };
struct world {
    struct sim *sim;
    struct sim_host *client, *hosts[WORLD_SERVERS];
    struct scripted servers[WORLD_SERVERS];
    struct rpc_channel *channel;
    bool closed;
};
extern const char *const world_addresses[WORLD_SERVERS + 1];
void world_open(struct world *world, uint64_t seed);
/* Sets io and, unless given, the address of s0. */
void world_channel(struct world *world, struct rpc_channel_options options);
void world_close_channel(struct world *world); /* and waits */
void world_close(struct world *world);
bool world_wait(struct world *world, bool (*holds)(void *), void *context);
bool world_wait_ready(struct world *world);
void world_run(struct world *world, uint64_t ms);

/* The messages of a call, and its end. */
struct heard {
    struct world *world;
    struct rpc_client_call *call; /* NULL after its end */
    unsigned ends, messages, writables;
    struct buf bytes; /* of all messages, each followed by '|' */
    enum err err;
    enum grpc_status status;
    bool answered;
    uint32_t attempts;
    bool doubted;
    char text[128], details[64], leader[64];
    bool pause_at_message, started_inside;
    struct rpc_outcome outcome;
};
extern const struct rpc_call_events heard_events;
void heard_deinit(struct heard *heard);
/* Starts and ends a unary request; CHECKs that it started. */
void ask(struct world *world, struct heard *heard, struct rpc_call_options options,
         struct str request);
bool wait_end(struct world *world, struct heard *heard);
#endif
