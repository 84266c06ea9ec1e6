/* SPDX-License-Identifier: Apache-2.0 */
/* A follower and a leader with muster's server, and a client that only knows the follower. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "rpc/forward.h"
#include "rpc/server.h"
#include "scripted.h"

enum { NODES = 2, FOLLOWER = 0, LEADER = 1 };

struct node {
    struct rpc_server *server;
    struct rpc_forwarder *forwarder;
    struct rpc_forward_gate gates[4];
    bool leads, server_closed, forwarder_closed;
    unsigned served, done;
    char seen[512];        /* metadata of the last call that the test checks */
    struct rpc_call *held; /* a call without an answer */
    bool hold, sink;
    uint64_t deadline_left_ms;
};
static struct world world;
static struct node nodes[NODES];
static struct heard heard;

static bool stays(void *service, struct rpc_call *call)
{
    (void)call;
    return ((struct node *)service)->leads;
}

static void note_what_came(struct node *node, struct rpc_call *call)
{
    struct str color = STR_EMPTY, raw = STR_EMPTY, hops = STR_EMPTY, id = STR_EMPTY;
    mono_time deadline = rpc_call_deadline(call);

    rpc_call_metadata(call, STR("x-color"), &color);
    rpc_call_metadata(call, STR("x-raw-bin"), &raw);
    rpc_call_metadata(call, STR(RPC_HOPS_HEADER), &hops);
    rpc_call_metadata(call, STR(RPC_REQUEST_ID), &id);
    snprintf(node->seen, sizeof node->seen, "color=%.*s raw=%zu hops=%.*s id=%.*s trace=%.*s",
             STR_ARG(color), raw.len, STR_ARG(hops), STR_ARG(id), STR_ARG(rpc_call_trace(call)));
    node->deadline_left_ms =
        deadline.ms == MONO_NEVER.ms
            ? 0
            : mono_elapsed_ms(loop_now(sim_host_io(world.hosts[LEADER])->loop), deadline);
}

static void unary_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                          struct str bytes)
{
    struct node *node = service;

    (void)message;
    node->served++;
    note_what_came(node, call);
    if (node->hold) {
        node->held = call;
        return;
    }
    if (str_equal(bytes, STR("fail"))) {
        CHECK_OK("trailer", rpc_add_trailer(call, STR("x-why"), STR("because")));
        rpc_finish(call, GRPC_NOT_FOUND, STR("no such key"), STR("details"));
        return;
    }
    CHECK_OK("header", rpc_add_header(call, STR("x-first"), STR("1")));
    CHECK_OK("trailer", rpc_add_trailer(call, STR("x-last"), STR("2")));
    rpc_reply_bytes(call, bytes);
}
static void stream_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                           struct str bytes)
{
    struct node *node = service;

    (void)message;
    node->served++;
    if (node->hold) {
        rpc_pause(call);
        node->held = call;
        return;
    }
    CHECK_OK("echo", rpc_send_bytes(call, node->sink ? STR(".") : bytes));
}
static void stream_end_in(void *service, struct rpc_call *call)
{
    (void)service;
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}
static void many_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                         struct str bytes);
static void many_go_on(void *service, struct rpc_call *call)
{
    static char block[8000];
    uintptr_t left = (uintptr_t)rpc_call_data(call);
    enum err err = ERR_OK;

    (void)service;
    while (left > 0 && !err) {
        snprintf(block, sizeof block, "%06zu", (size_t)left);
        err = rpc_send_bytes(call, str_of(block, sizeof block));
        if (!err) left--;
    }
    rpc_call_set_data(call, (void *)left);
    if (left == 0) rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}
static void many_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                         struct str bytes)
{
    uint64_t count = 0;

    (void)message;
    ((struct node *)service)->served++;
    CHECK_OK("a number", str_to_u64(bytes, &count));
    rpc_call_set_data(call, (void *)(uintptr_t)count);
    many_go_on(service, call);
}
static void node_done(void *service, struct rpc_call *call)
{
    struct node *node = service;
    node->done++;
    if (node->held == call) node->held = NULL;
}

static const struct rpc_handler unary = {.on_message = unary_message, .on_done = node_done};
static const struct rpc_handler stream = {
    .on_message = stream_message, .on_half_closed = stream_end_in, .on_done = node_done};
static const struct rpc_handler many = {
    .on_message = many_message, .on_writable = many_go_on, .on_done = node_done};

static void open_node(size_t i, const char *address, const char *leader)
{
    static const struct {
        const char *path;
        enum rpc_kind kind;
        const struct rpc_handler *handler;
    } methods[] = {{"/t.T/Unary", RPC_UNARY, &unary},
                   {"/t.T/Bidi", RPC_BIDI, &stream},
                   {"/t.T/Many", RPC_SERVER_STREAM, &many},
                   {"/t.T/Collect", RPC_CLIENT_STREAM, &stream}};
    struct node *node = &nodes[i];
    struct io *io = sim_host_io(world.hosts[i]);

    scripted_close(&world.servers[i]);
    *node = (struct node){0};
    CHECK_OK("a server",
             rpc_server_open(&(struct rpc_server_options){.io = io}, &node->server, NULL));
    CHECK_OK("a forwarder", rpc_forwarder_open(
                                &(struct rpc_forwarder_options){
                                    .io = io, .ping_after_ms = 5000, .ping_timeout_ms = 2000},
                                &node->forwarder));
    for (size_t k = 0; k < ARRAY_LEN(methods); k++) {
        node->gates[k] = (struct rpc_forward_gate){.forwarder = node->forwarder,
                                                   .handler = methods[k].handler,
                                                   .service = node,
                                                   .stays = stays};
        CHECK_OK("a method", rpc_server_add(node->server,
                                            &(struct rpc_method){.path = methods[k].path,
                                                                 .kind = methods[k].kind,
                                                                 .access = {ACCESS_ANYONE},
                                                                 .handler = &rpc_forward_handler,
                                                                 .service = &node->gates[k]},
                                            NULL));
    }
    CHECK_OK("listen", rpc_server_listen(node->server, address, NULL, NULL));
    CHECK_OK("leader", rpc_forwarder_set_leader(node->forwarder, leader));
}

static void open_pair(void)
{
    world_open(&world, 31);
    world_run(&world, 1);
    open_node(FOLLOWER, "s0:7100", "s1:7100");
    open_node(LEADER, "s1:7100", "");
    nodes[LEADER].leads = true;
    world_channel(
        &world, (struct rpc_channel_options){.addresses = (const char *const[]){"s0:7100", NULL}});
}

static void mark(void *owner)
{
    *(bool *)owner = true;
}

static void close_pair(void)
{
    if (world.channel) world_close_channel(&world);
    for (size_t i = 0; i < NODES; i++)
        rpc_server_close(nodes[i].server, mark, &nodes[i].server_closed);
    world_run(&world, 2000);
    for (size_t i = 0; i < NODES; i++) {
        CHECK("the server is gone", nodes[i].server_closed);
        rpc_forwarder_close(nodes[i].forwarder, mark, &nodes[i].forwarder_closed);
    }
    world_run(&world, 2000);
    for (size_t i = 0; i < NODES; i++) CHECK("the forwarder is gone", nodes[i].forwarder_closed);
    heard_deinit(&heard);
    world_close(&world);
}

static void start(const char *path)
{
    heard = (struct heard){.world = &world};
    buf_init(&heard.bytes, 64 << 20);
    CHECK_OK("a call", rpc_call_start(world.channel, &(struct rpc_call_options){.path = path},
                                      &heard_events, &heard, &heard.call));
}

TEST(a_unary_call_is_passed_on_with_all_that_belongs_to_it)
{
    const struct h2_header metadata[] = {{STR("x-color"), STR("blue")},
                                         {STR("x-raw-bin"), str_of("\0\1\2", 3)}};

    open_pair();
    ask(&world, &heard,
        (struct rpc_call_options){.path = "/t.T/Unary",
                                  .metadata = metadata,
                                  .metadata_count = 2,
                                  .timeout_ms = 5000,
                                  .request_id = STR("r7"),
                                  .trace = STR("00112233445566778899aabbccddeeff")},
        STR("hello"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_STR("the leader's answer", buf_peek(&heard.bytes), STR("hello"));
    CHECK_U64("served by the leader", nodes[LEADER].served, 1);
    CHECK_U64("not by the follower", nodes[FOLLOWER].served, 0);
    CHECK_TEXT("as it was sent", nodes[LEADER].seen,
               "color=blue raw=3 hops=1 id=r7 trace=00112233445566778899aabbccddeeff");
    CHECK("with the time that is left",
          nodes[LEADER].deadline_left_ms > 4000 && nodes[LEADER].deadline_left_ms < 5010);
    CHECK_SIZE("nothing is left of it", rpc_forwarder_running(nodes[FOLLOWER].forwarder), 0);
    close_pair();
}

TEST(an_error_of_the_leader_comes_back_whole)
{
    open_pair();
    ask(&world, &heard, (struct rpc_call_options){.path = "/t.T/Unary"}, STR("fail"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("its status", heard.err, ERR_NOT_FOUND);
    CHECK_TEXT("its text", heard.text, "no such key");
    CHECK_TEXT("its details", heard.details, "details");
    close_pair();
}

TEST(calls_that_stay_reach_the_handler_itself)
{
    open_pair();
    nodes[FOLLOWER].leads = true;
    ask(&world, &heard, (struct rpc_call_options){.path = "/t.T/Unary"}, STR("here"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("served here", nodes[FOLLOWER].served, 1);
    CHECK_U64("and reported its end", nodes[FOLLOWER].done, 1);
    close_pair();
}

TEST(a_call_is_passed_on_once)
{
    open_pair();
    nodes[LEADER].leads = false; /* each believes that the other leads */
    CHECK_OK("leader", rpc_forwarder_set_leader(nodes[LEADER].forwarder, "s0:7100"));
    ask(&world, &heard, (struct rpc_call_options){.path = "/t.T/Unary"}, STR("x"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done", heard.err, ERR_NOT_LEADER);
    CHECK_TEXT("the leader that the second named", heard.leader, "s0:7100");
    CHECK_U64("nobody served it", nodes[LEADER].served + nodes[FOLLOWER].served, 0);
    CHECK_U64("no handler ran", nodes[LEADER].done + nodes[FOLLOWER].done, 0);
    close_pair();
}

TEST(without_a_leader_the_answer_says_so)
{
    open_pair();
    CHECK_OK("nobody knows", rpc_forwarder_set_leader(nodes[FOLLOWER].forwarder, NULL));
    ask(&world, &heard, (struct rpc_call_options){.path = "/t.T/Unary"}, STR("x"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done", heard.err, ERR_NOT_LEADER);
    CHECK_TEXT("not known", heard.leader, "");
    heard_deinit(&heard);
    start("/t.T/Bidi"); /* streams are refused, too, from their first event on */
    CHECK_OK("send", rpc_call_send(heard.call, STR("x")));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done", heard.err, ERR_NOT_LEADER);
    CHECK_U64("no handler ran", nodes[FOLLOWER].done, 0);
    close_pair();
}

TEST(a_call_lost_at_the_leader_is_reported_as_unknown)
{
    open_pair();
    nodes[LEADER].hold = true;
    ask(&world, &heard, (struct rpc_call_options){.path = "/t.T/Unary"}, STR("x"));
    world_run(&world, 2000);
    CHECK_U64("the leader has it", nodes[LEADER].served, 1);
    sim_link_block(world.hosts[LEADER], world.hosts[FOLLOWER], true);
    sim_link_block(world.hosts[FOLLOWER], world.hosts[LEADER], true);
    CHECK_OK("a new leader", rpc_forwarder_set_leader(nodes[FOLLOWER].forwarder, "s2:7100"));
    world_run(&world, 1000);
    CHECK_U64("it stays with the old one", heard.ends, 0);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("nobody knows", heard.err, ERR_UNKNOWN);
    CHECK("and the follower reported it", heard.answered && heard.status == GRPC_UNKNOWN);
    sim_link_heal_all(world.sim);
    close_pair();
}

/* A leader that loses its first answer, or whose first answer does not say whether the write was
 * applied. A second attempt would apply the write twice. */
static void vanish_once(struct scripted *s, struct scripted_request *r)
{
    if (s->count == 1)
        stream_close(r->peer->stream);
    else
        scripted_echo(s, r);
}

static void unavailable_once(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("grpc-status"), STR("14")}};

    if (s->count == 1)
        scripted_respond_with(r, headers, ARRAY_LEN(headers), true);
    else
        scripted_echo(s, r);
}

TEST(a_request_id_of_the_caller_never_makes_a_call_repeatable)
{
    static const struct {
        const char *why;
        void (*on_request)(struct scripted *s, struct scripted_request *r);
        enum grpc_status status;
    } cases[] = {
        {"the connection was lost", vanish_once, GRPC_UNKNOWN},
        {"the leader answered UNAVAILABLE", unavailable_once, GRPC_UNAVAILABLE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *why = cases[i].why;
        open_pair();
        world.servers[2].on_request = cases[i].on_request;
        CHECK_OK("leader", rpc_forwarder_set_leader(nodes[FOLLOWER].forwarder, "s2:7000"));
        ask(&world, &heard,
            (struct rpc_call_options){
                .path = "/t.T/Unary", .request_id = STR("r7"), .attempts_max = 1},
            STR("x"));
        CHECK("ends", wait_end(&world, &heard));
        CHECK_U64(why, world.servers[2].count, 1);
        CHECK_TEXT("the id is passed on as metadata",
                   scripted_header(&world.servers[2].requests[0], RPC_REQUEST_ID), "r7");
        CHECK_ERR(why, heard.err, ERR_UNKNOWN);
        CHECK_U64(why, heard.status, cases[i].status);
        CHECK("the follower reported it", heard.answered);
        close_pair();
    }
}

TEST(a_leader_that_cannot_be_reached_is_not_applied)
{
    open_pair();
    CHECK_OK("a leader", rpc_forwarder_set_leader(nodes[FOLLOWER].forwarder, "s2:9999"));
    ask(&world, &heard, (struct rpc_call_options){.path = "/t.T/Unary", .attempts_max = 2},
        STR("x"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done, for certain", heard.err, ERR_UNAVAILABLE);
    close_pair();
}

TEST(streams_go_through_in_both_directions)
{
    open_pair();
    start("/t.T/Bidi");
    CHECK_OK("one", rpc_call_send(heard.call, STR("one")));
    world_run(&world, 1000);
    CHECK_U64("answered before the second is sent", heard.messages, 1);
    CHECK_OK("two", rpc_call_send(heard.call, STR("two")));
    rpc_call_end(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_STR("both", buf_peek(&heard.bytes), STR("one|two|"));
    close_pair();
}

TEST(a_caller_that_does_not_read_holds_the_leader_and_loses_nothing)
{
    open_pair();
    start("/t.T/Many");
    CHECK_OK("ask", rpc_call_send(heard.call, STR("400")));
    rpc_call_end(heard.call);
    heard.pause_at_message = true;
    world_run(&world, 5000);
    CHECK_U64("one, then it pauses", heard.messages, 1);
    CHECK_U64("the leader has not finished", nodes[LEADER].done, 0);
    heard.pause_at_message = false;
    rpc_call_resume(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("all of them", heard.messages, 400);
    for (size_t i = 0; i < 400; i++) {
        char want[8];
        snprintf(want, sizeof want, "%06zu", 400 - i);
        CHECK("in order", memcmp(heard.bytes.data + i * 8001, want, 6) == 0);
    }
    close_pair();
}

TEST(a_leader_that_does_not_read_holds_the_caller)
{
    static char block[30000];
    size_t sent = 0;
    enum err err = ERR_OK;

    open_pair();
    nodes[LEADER].hold = nodes[LEADER].sink = true;
    start("/t.T/Collect");
    for (int i = 0; i < 500 && !err; i++) {
        err = rpc_call_send(heard.call, str_of(block, sizeof block));
        if (!err) sent++;
        world_run(&world, 20);
    }
    CHECK_ERR("it reaches through", err, ERR_FULL);
    CHECK("after a bounded amount", sent < 150);
    nodes[LEADER].hold = false;
    rpc_resume(nodes[LEADER].held);
    rpc_call_end(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("all came, the first was taken while it held", heard.messages, sent - 1);
    close_pair();
}

TEST(a_message_larger_than_the_window_goes_on_when_the_leader_reads_again)
{
    static char block[600000];

    open_pair();
    nodes[LEADER].hold = nodes[LEADER].sink = true;
    start("/t.T/Collect");
    CHECK_OK("one", rpc_call_send(heard.call, STR("x")));
    world_run(&world, 1000);
    CHECK_OK("a large one", rpc_call_send(heard.call, str_of(block, sizeof block)));
    rpc_call_end(heard.call);
    world_run(&world, 1000);
    CHECK_U64("it holds", nodes[LEADER].served, 1);
    nodes[LEADER].hold = false;
    rpc_resume(nodes[LEADER].held);
    world_run(&world, 3000); /* before a ping finds the connection dead */
    CHECK_U64("ends", heard.ends, 1);
    CHECK_OK("done", heard.err);
    CHECK_U64("all came", nodes[LEADER].served, 2);
    close_pair();
}

TEST(a_caller_that_goes_away_cancels_the_call_at_the_leader)
{
    open_pair();
    nodes[LEADER].hold = true;
    ask(&world, &heard, (struct rpc_call_options){.path = "/t.T/Unary"}, STR("x"));
    world_run(&world, 2000);
    CHECK("the leader has it", nodes[LEADER].held != NULL);
    rpc_call_cancel(heard.call);
    CHECK("ends", wait_end(&world, &heard));
    world_run(&world, 2000);
    CHECK("the leader was notified", nodes[LEADER].held == NULL);
    CHECK_SIZE("nothing is left of it", rpc_forwarder_running(nodes[FOLLOWER].forwarder), 0);
    close_pair();
}

/* -- the original caller -- */

TEST(only_replicas_may_name_the_caller)
{
    static const struct str replica_uris[] = {{"muster://replica/r1", 19},
                                              {"bigfleet://admin", 16}};
    static const struct str shard_uris[] = {{"bigfleet://shard/s1", 19}};
    static const struct str dns[] = {{"worker-1", 8}, {"worker-2", 8}};
    const struct tls_identity replica = {.uris = replica_uris, .uri_count = 2};
    const struct tls_identity shard = {.uris = shard_uris,
                                       .uri_count = 1,
                                       .dns_names = dns,
                                       .dns_count = 2,
                                       .common_name = STR("a common name"),
                                       .serial_hex = STR("0a0b"),
                                       .not_after = {12345}};
    const struct tls_identity *got = NULL;
    struct arena arena;
    struct buf text, nobody;
    struct note note = {0};

    arena_init(&arena, 1 << 20);
    buf_init(&text, 4096);
    buf_init(&nobody, 4096);
    CHECK_OK("text", rpc_forward_caller_text(&shard, &text));
    CHECK_OK("text", rpc_forward_caller_text(NULL, &nobody));
    CHECK_OK("plaintext: nobody is looked at",
             rpc_forward_identity(NULL, buf_peek(&text), &arena, &got, &note));
    CHECK("nobody", got == NULL);
    CHECK_OK("a replica", rpc_forward_identity(&replica, buf_peek(&text), &arena, &got, &note));
    CHECK_SIZE("one URI", got->uri_count, 1);
    CHECK_STR("the caller's", got->uris[0], STR("bigfleet://shard/s1"));
    CHECK_SIZE("two names", got->dns_count, 2);
    CHECK_STR("the second", got->dns_names[1], STR("worker-2"));
    CHECK_STR("common name", got->common_name, STR("a common name"));
    CHECK_STR("serial", got->serial_hex, STR("0a0b"));
    CHECK_U64("until", got->not_after.ms, 12345);
    CHECK_OK("a replica that names nobody",
             rpc_forward_identity(&replica, buf_peek(&nobody), &arena, &got, &note));
    CHECK("is not taken for the caller itself", got != &replica && got->uri_count == 0);
    CHECK_ERR("anybody else", rpc_forward_identity(&shard, buf_peek(&text), &arena, &got, &note),
              ERR_DENIED);
    CHECK_HAS("the reason", note.text, "replicas only");
    arena_deinit(&arena);
    buf_deinit(&text);
    buf_deinit(&nobody);
}

TEST(a_callers_text_that_is_damaged_is_refused)
{
    static const struct str replica_uri = {"muster://replica/r1", 19};
    const struct tls_identity replica = {.uris = &replica_uri, .uri_count = 1};
    static const struct str bad[] = {
        {"x what\n", 7}, {"u\n", 2},      {"u \n", 3}, {"u a\tb\n", 6},
        {"e 12x\n", 6},  {"u \xff\n", 4}, {"\n", 1},   {"uri\n", 4},
    };
    const struct tls_identity *got = NULL;
    struct arena arena;

    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_ERR(bad[i].at, rpc_forward_identity(&replica, bad[i], &arena, &got, NULL), ERR_PARSE);
        CHECK("untouched", got == NULL);
    }
    arena_deinit(&arena);
}
