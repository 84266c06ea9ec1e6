/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, anywhere, while a call goes from a client through a follower to
 * the leader: one message or many, decoded on the way or not, with a leader that reads or pauses.
 * The client may receive "not done" only when no message of the call reached the leader's handler,
 * because a client repeats a call that was not done. */
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "rpc/forward.h"
#include "rpc/server.h"
#include "sim/sim.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"

enum {
    FOLLOWER,
    LEADER,
    NODES,
    END_MS = 60000,
    STEP_MS = 100,
    STEPS_MAX = 100,
    MESSAGE_MAX = 200000
};

static const struct way {
    const char *why, *path;
    enum rpc_kind kind;
    bool decoded;   /* the follower decodes a message and encodes it again */
    bool holds;     /* the leader pauses after the first message */
    unsigned count; /* messages of the request */
    size_t bytes;   /* of each: past what the follower's scratch keeps, so that each allocates */
} ways[] = {
    {"unary", "/t.T/Unary", RPC_UNARY, true, false, 1, 20000},
    {"unary, as bytes", "/t.T/RawUnary", RPC_UNARY, false, false, 1, 20000},
    {"server stream", "/t.T/Server", RPC_SERVER_STREAM, true, false, 1, 100},
    {"client stream", "/t.T/Client", RPC_CLIENT_STREAM, true, false, 3, 20000},
    {"client stream, as bytes", "/t.T/RawClient", RPC_CLIENT_STREAM, false, false, 3, 20000},
    {"both ways", "/t.T/Bidi", RPC_BIDI, true, false, 3, 20000},
    {"client stream, held", "/t.T/Held", RPC_CLIENT_STREAM, true, true, 4, 200000},
};

struct node {
    struct rpc_server *server;
    struct rpc_forwarder *forwarder;
    struct rpc_forward_gate gates[ARRAY_LEN(ways)];
    bool server_closed, forwarder_closed;
};
static struct sim *sim;
static struct node nodes[NODES];
static struct rpc_channel *channel;
static const struct way *way;
static unsigned applied, ends, answers;
static enum err ended_with;
static struct rpc_call *held;
static bool has_held;

/* -- the leader's handler: applies each message as it comes -- */

static bool stays(void *service, struct rpc_call *call)
{
    (void)call;
    return service == &nodes[LEADER];
}

static void answer(struct rpc_call *call, struct str bytes)
{
    enum err err = rpc_send_bytes(call, bytes);

    if (err && err != ERR_CLOSED) rpc_finish(call, GRPC_INTERNAL, STR("applied"), STR_EMPTY);
}

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    (void)service, (void)message, (void)bytes;
    applied++;
    if (way->kind == RPC_UNARY) {
        rpc_reply_bytes(call, STR("x"));
        return;
    }
    if (way->holds && !has_held) {
        has_held = true;
        held = call;
        rpc_pause(call);
    }
    answer(call, STR("x"));
    if (way->kind == RPC_SERVER_STREAM) rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}
static void on_half_closed(void *service, struct rpc_call *call)
{
    (void)service;
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}
static void on_done(void *service, struct rpc_call *call)
{
    (void)service;
    if (held == call) held = NULL;
}
static const struct rpc_handler handler = {
    .on_message = on_message, .on_half_closed = on_half_closed, .on_done = on_done};

/* -- the world: made and taken down without a fault -- */

static void set_true(void *owner)
{
    *(bool *)owner = true;
}

static void open_node(struct node *node, const char *name, const char *address, const char *leader)
{
    struct sim_host *host;
    struct io *io;

    CHECK_OK("host", sim_host_add(sim, &(struct sim_host_options){.name = name}, &host));
    io = sim_host_io(host);
    CHECK_OK("server",
             rpc_server_open(&(struct rpc_server_options){.io = io, .limits.stream_window = 65535},
                             &node->server, NULL));
    CHECK_OK("forwarder",
             rpc_forwarder_open(&(struct rpc_forwarder_options){.io = io}, &node->forwarder));
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        node->gates[i] = (struct rpc_forward_gate){
            .forwarder = node->forwarder, .handler = &handler, .service = node, .stays = stays};
        CHECK_OK("method",
                 rpc_server_add(
                     node->server,
                     &(struct rpc_method){.path = ways[i].path,
                                          .kind = ways[i].kind,
                                          .access = {ACCESS_ANYONE},
                                          .input = ways[i].decoded
                                                       ? &muster__test__v1__echo_request__descriptor
                                                       : NULL,
                                          .handler = &rpc_forward_handler,
                                          .service = &node->gates[i]},
                     NULL));
    }
    CHECK_OK("listen", rpc_server_listen(node->server, address, NULL, NULL));
    CHECK_OK("leader", rpc_forwarder_set_leader(node->forwarder, leader));
}

static void open_world(void)
{
    const char *const addresses[] = {"f:7100", NULL};
    struct sim_host *client;

    memset(nodes, 0, sizeof nodes);
    applied = ends = answers = 0;
    held = NULL;
    has_held = false;
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 5}, &sim));
    open_node(&nodes[FOLLOWER], "f", "f:7100", "l:7100");
    open_node(&nodes[LEADER], "l", "l:7100", "");
    CHECK_OK("client", sim_host_add(sim, &(struct sim_host_options){.name = "c"}, &client));
    CHECK_OK("channel", rpc_channel_open(&(struct rpc_channel_options){.io = sim_host_io(client),
                                                                       .addresses = addresses},
                                         &channel, NULL));
}

static void close_world(void)
{
    bool gone = false;

    rpc_channel_close(channel, set_true, &gone);
    for (size_t i = 0; i < NODES; i++)
        rpc_server_close(nodes[i].server, set_true, &nodes[i].server_closed);
    (void)sim_run_for(sim, 2000);
    CHECK("the channel is gone", gone);
    for (size_t i = 0; i < NODES; i++) {
        CHECK("the server is gone", nodes[i].server_closed);
        CHECK_SIZE("no call is on its way", rpc_forwarder_running(nodes[i].forwarder), 0);
        rpc_forwarder_close(nodes[i].forwarder, set_true, &nodes[i].forwarder_closed);
    }
    (void)sim_run_for(sim, 2000);
    for (size_t i = 0; i < NODES; i++) CHECK("the forwarder is gone", nodes[i].forwarder_closed);
    sim_close(sim);
}

/* -- the call -- */

static void call_message(void *owner, struct rpc_client_call *call, struct str message)
{
    (void)owner, (void)call, (void)message;
    answers++;
}
static void call_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    (void)owner, (void)call;
    ends++;
    ended_with = outcome->err;
}
static const struct rpc_call_events call_events = {call_message, NULL, call_end};

static bool has_ended(void *context)
{
    (void)context;
    return ends > 0;
}

/* A valid EchoRequest of about way->bytes: its payload. */
static struct str request(void)
{
    static char bytes[MESSAGE_MAX + 4];
    size_t len = way->bytes;

    bytes[0] = 0x12;
    bytes[1] = (char)(0x80 | (len & 0x7f));
    bytes[2] = (char)(0x80 | (len >> 7 & 0x7f));
    bytes[3] = (char)(len >> 14);
    return str_of(bytes, 4 + len);
}

/* One by one, each with time to arrive. With a leader that pauses, the second message fills its
 * window and the follower's queue, the third waits in the follower and the last in the client. */
static enum err send_all(struct rpc_client_call *call)
{
    enum err err = ERR_OK;

    for (unsigned i = 0; i < way->count && !ends && !err; i++) {
        err = rpc_call_send(call, request());
        (void)sim_run_for(sim, STEP_MS);
    }
    return err;
}

/* Whether the call was started. */
static bool make_call(void)
{
    const struct rpc_call_options options = {
        .path = way->path, .timeout_ms = 30000, .wait_for_ready = true, .attempts_max = 1};
    struct rpc_client_call *call;

    if (rpc_call_start(channel, &options, &call_events, NULL, &call)) return false;
    if (send_all(call) && !ends) rpc_call_cancel(call);
    if (!ends) rpc_call_end(call);
    if (held) rpc_resume(held);
    (void)sim_wait(sim, has_ended, NULL, END_MS);
    return true;
}

static void run(uint64_t k)
{
    bool started;

    fault_alloc_arm(0);
    open_world();
    fault_alloc_arm(k);
    started = make_call();
    CHECK_U64("ends once", ends, started);
    CHECK("no message twice", applied <= way->count);
    if (started && !ended_with) {
        CHECK_U64("done: all of it", applied, way->count);
        CHECK_U64("and all answers", answers, way->count);
    } else if (started && ended_with != ERR_UNKNOWN) {
        CHECK_U64("a call answered as not applied was not applied", applied, 0);
    }
    close_world();
}

TEST(without_a_fault_every_way_leads_to_the_leader)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        way = &ways[i];
        run(0);
        CHECK_U64(way->why, ends, 1);
        CHECK_OK(way->why, ended_with);
        CHECK(way->why, has_held == way->holds);
    }
}

TEST(a_no_from_a_follower_without_memory_is_a_no)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        unsigned runs = 0, noes = 0, unknown = 0, partly = 0;
        way = &ways[i];
        FAULT_SWEEP_ALLOC(k)
        {
            run(k);
            runs++;
            noes += ends && ended_with && ended_with != ERR_UNKNOWN;
            unknown += ends && ended_with == ERR_UNKNOWN;
            partly += ends && ended_with == ERR_UNKNOWN && applied > 0 && applied < way->count;
        }
        print_message("# %s: %u runs, %u noes, %u unknown, %u of those in the middle\n", way->why,
                      runs, noes, unknown, partly);
        CHECK(way->why, runs > 100);
        CHECK("before anything was sent it is a no", noes > 0);
        CHECK("after that nobody knows", unknown > 0);
        if (way->count > 1) CHECK("also in the middle", partly > 0);
    }
}
