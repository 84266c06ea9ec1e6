/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.testing.TestService on our server, for the published interop clients of other gRPC stacks;
 * scripts/interop-grpc-go runs them. See proto/grpc/testing/interop.proto.
 *
 *   interop_server --listen 127.0.0.1:0
 *
 * Prints "listening on ADDRESS" and serves until SIGTERM or SIGINT. UnimplementedCall is left out
 * on purpose: that the server says so is one of the cases.
 *
 * Every stream is one machine: requests add to a bounded list of answers that are due; answers go
 * out as their time comes and the peer takes them. A half-duplex call gives none before the
 * requests' end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/real.h"
#include "io/signals.h"
#include "rpc/server.h"
#include "wire/pb/grpc_testing_interop.pb-c.h"

typedef Grpc__Testing__StreamingOutputCallRequest output_request;
typedef Grpc__Testing__EchoStatus status_t;

enum { PAYLOAD_MAX = 3 << 20, ANSWERS_MAX = 1024, DRAIN_MS = 1000, US_PER_MS = 1000 };
static const uint8_t zeros[PAYLOAD_MAX];

struct program {
    struct real_io *real;
    struct io *io;
    struct signals *signals;
    struct rpc_server *server;
    bool stopping;
};
struct answer {
    uint32_t size;
    uint64_t delay_ms;
};
struct exchange {
    struct rpc_call *call;
    struct timer timer;
    struct answer answers[ANSWERS_MAX];
    uint32_t due, given; /* of answers */
    bool waited;         /* the delay before the next answer is over */
    bool ended;          /* no more requests come */
    uint64_t input_bytes;
};

/* -- common to all calls -- */

static void echo_metadata(struct rpc_call *call)
{
    const struct str first = STR("x-grpc-test-echo-initial");
    const struct str last = STR("x-grpc-test-echo-trailing-bin");
    struct str value;
    enum err err = ERR_OK;

    if (rpc_call_metadata(call, first, &value)) err = rpc_add_header(call, first, value);
    if (!err && rpc_call_metadata(call, last, &value)) err = rpc_add_trailer(call, last, value);
    if (err) rpc_fail(call, err, NULL);
}

/* True when the request asked for an end, and it has come. */
static bool end_as_asked(struct rpc_call *call, const status_t *status)
{
    if (!status || status->code == 0) return false;
    rpc_finish(call, (enum grpc_status)status->code, str_from(status->message), STR_EMPTY);
    return true;
}

static bool size_good(struct rpc_call *call, int32_t size, Grpc__Testing__PayloadType type)
{
    if (size >= 0 && size <= PAYLOAD_MAX && type == GRPC__TESTING__PAYLOAD_TYPE__COMPRESSABLE)
        return true;
    rpc_finish(call, GRPC_INVALID_ARGUMENT, STR("no such payload"), STR_EMPTY);
    return false;
}

static Grpc__Testing__Payload payload_of(size_t size)
{
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;

    payload.body = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)zeros};
    return payload;
}

/* -- unary -- */

static void on_empty(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str bytes)
{
    Grpc__Testing__Empty answer = GRPC__TESTING__EMPTY__INIT;

    (void)owner, (void)message, (void)bytes;
    rpc_reply(call, &answer.base);
}

static void on_unary(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str bytes)
{
    const Grpc__Testing__SimpleRequest *q = (const Grpc__Testing__SimpleRequest *)message;
    Grpc__Testing__SimpleResponse answer = GRPC__TESTING__SIMPLE_RESPONSE__INIT;
    Grpc__Testing__Payload payload;

    (void)owner, (void)bytes;
    echo_metadata(call);
    if (end_as_asked(call, q->response_status)) return;
    if (!size_good(call, q->response_size, q->response_type)) return;
    payload = payload_of((size_t)q->response_size);
    answer.payload = &payload;
    rpc_reply(call, &answer.base);
}

/* -- streams -- */

/* Gives as many answers as it can now, and ends the call when there will be no more. */
static void go_on(struct exchange *e)
{
    while (e->given < e->due) {
        const struct answer *a = &e->answers[e->given];
        Grpc__Testing__StreamingOutputCallResponse answer =
            GRPC__TESTING__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
        Grpc__Testing__Payload payload = payload_of(a->size);
        enum err err;
        if (a->delay_ms > 0 && !e->waited) {
            timer_start_in(&e->timer, a->delay_ms);
            return;
        }
        answer.payload = &payload;
        err = rpc_send(e->call, &answer.base);
        if (err == ERR_FULL) return; /* on_writable goes on */
        if (err) {
            rpc_fail(e->call, err, NULL);
            return;
        }
        e->given++;
        e->waited = false;
    }
    if (e->ended) rpc_finish(e->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

static void on_timer(struct timer *timer)
{
    struct exchange *e = CONTAINER_OF(timer, struct exchange, timer);

    e->waited = true;
    go_on(e);
}

static void on_start(void *owner, struct rpc_call *call)
{
    struct program *p = owner;
    struct exchange *e = calloc(1, sizeof *e);

    if (e && timer_init(&e->timer, p->io->loop, on_timer)) {
        free(e);
        e = NULL;
    }
    if (!e) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    e->call = call;
    rpc_call_set_data(call, e);
    echo_metadata(call);
}

/* False: the call is over. */
static bool add_answers(struct exchange *e, const output_request *q)
{
    if (end_as_asked(e->call, q->response_status)) return false;
    if (e->given == e->due) e->given = e->due = 0;
    for (size_t i = 0; i < q->n_response_parameters; i++) {
        const Grpc__Testing__ResponseParameters *wanted = q->response_parameters[i];
        if (!size_good(e->call, wanted->size, q->response_type)) return false;
        if (e->due == ANSWERS_MAX) {
            rpc_finish(e->call, GRPC_RESOURCE_EXHAUSTED, STR("too many answers"), STR_EMPTY);
            return false;
        }
        e->answers[e->due++] = (struct answer){
            .size = (uint32_t)wanted->size,
            .delay_ms = wanted->interval_us > 0 ? (uint64_t)wanted->interval_us / US_PER_MS : 0};
    }
    return true;
}

static void on_output(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str bytes)
{
    struct exchange *e;

    (void)bytes;
    on_start(owner, call); /* a server stream begins with its one request */
    e = rpc_call_data(call);
    if (!e || !add_answers(e, (const output_request *)message)) return;
    e->ended = true;
    go_on(e);
}

static void on_full_duplex(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                           struct str bytes)
{
    struct exchange *e = rpc_call_data(call);

    (void)owner, (void)bytes;
    if (add_answers(e, (const output_request *)message) && !timer_running(&e->timer)) go_on(e);
}

static void on_half_duplex(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                           struct str bytes)
{
    (void)owner, (void)bytes;
    add_answers(rpc_call_data(call), (const output_request *)message);
}

static void on_requests_end(void *owner, struct rpc_call *call)
{
    struct exchange *e = rpc_call_data(call);

    (void)owner;
    e->ended = true;
    if (!timer_running(&e->timer)) go_on(e);
}

static void on_input(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str bytes)
{
    const Grpc__Testing__StreamingInputCallRequest *q =
        (const Grpc__Testing__StreamingInputCallRequest *)message;
    struct exchange *e = rpc_call_data(call);

    (void)owner, (void)bytes;
    if (q->payload) e->input_bytes += q->payload->body.len;
}

static void on_input_end(void *owner, struct rpc_call *call)
{
    const struct exchange *e = rpc_call_data(call);
    Grpc__Testing__StreamingInputCallResponse answer =
        GRPC__TESTING__STREAMING_INPUT_CALL_RESPONSE__INIT;

    (void)owner;
    answer.aggregated_payload_size = (int32_t)(e->input_bytes & INT32_MAX);
    rpc_reply(call, &answer.base);
}

static void on_writable(void *owner, struct rpc_call *call)
{
    (void)owner;
    go_on(rpc_call_data(call));
}

static void on_done(void *owner, struct rpc_call *call)
{
    struct exchange *e = rpc_call_data(call);

    (void)owner;
    if (!e) return;
    timer_deinit(&e->timer);
    free(e);
}

static const struct rpc_handler empty = {.on_message = on_empty};
static const struct rpc_handler unary = {.on_message = on_unary};
static const struct rpc_handler output = {
    .on_message = on_output, .on_writable = on_writable, .on_done = on_done};
static const struct rpc_handler input = {.on_start = on_start,
                                         .on_message = on_input,
                                         .on_half_closed = on_input_end,
                                         .on_done = on_done};
static const struct rpc_handler full_duplex = {.on_start = on_start,
                                               .on_message = on_full_duplex,
                                               .on_half_closed = on_requests_end,
                                               .on_writable = on_writable,
                                               .on_done = on_done};
static const struct rpc_handler half_duplex = {.on_start = on_start,
                                               .on_message = on_half_duplex,
                                               .on_half_closed = on_requests_end,
                                               .on_writable = on_writable,
                                               .on_done = on_done};

/* -- the program -- */

#define TYPE(name) &grpc__testing__##name##__descriptor
static enum err add_methods(struct program *p, struct note *note)
{
    static const struct rpc_method methods[] = {
        {.path = "/grpc.testing.TestService/EmptyCall",
         .kind = RPC_UNARY,
         .input = TYPE(empty),
         .output = TYPE(empty),
         .handler = &empty},
        {.path = "/grpc.testing.TestService/UnaryCall",
         .kind = RPC_UNARY,
         .input = TYPE(simple_request),
         .output = TYPE(simple_response),
         .handler = &unary},
        {.path = "/grpc.testing.TestService/StreamingOutputCall",
         .kind = RPC_SERVER_STREAM,
         .input = TYPE(streaming_output_call_request),
         .output = TYPE(streaming_output_call_response),
         .handler = &output},
        {.path = "/grpc.testing.TestService/StreamingInputCall",
         .kind = RPC_CLIENT_STREAM,
         .input = TYPE(streaming_input_call_request),
         .output = TYPE(streaming_input_call_response),
         .handler = &input},
        {.path = "/grpc.testing.TestService/FullDuplexCall",
         .kind = RPC_BIDI,
         .input = TYPE(streaming_output_call_request),
         .output = TYPE(streaming_output_call_response),
         .handler = &full_duplex},
        {.path = "/grpc.testing.TestService/HalfDuplexCall",
         .kind = RPC_BIDI,
         .input = TYPE(streaming_output_call_request),
         .output = TYPE(streaming_output_call_response),
         .handler = &half_duplex},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; i < ARRAY_LEN(methods) && !err; i++) {
        struct rpc_method method = methods[i];
        method.access = (struct rpc_access){ACCESS_ANYONE};
        method.service = p;
        err = rpc_server_add(p->server, &method, note);
    }
    return err;
}

static void on_closed(void *owner)
{
    struct program *p = owner;

    p->server = NULL;
    real_io_stop(p->real);
}

static void on_drained(void *owner)
{
    struct program *p = owner;

    rpc_server_close(p->server, on_closed, p);
}

static void on_signal(void *owner, int signal)
{
    struct program *p = owner;

    (void)signal;
    if (p->stopping) return;
    p->stopping = true;
    rpc_server_drain(p->server, DRAIN_MS, on_drained, p);
}

int main(int argc, char **argv)
{
    static struct program p;
    struct note note = {0};
    enum err err;

    if (argc != 3 || strcmp(argv[1], "--listen") != 0) {
        fprintf(stderr, "usage: interop_server --listen ADDRESS\n");
        return 2;
    }
    err = real_io_open(&p.real);
    if (!err) p.io = real_io_io(p.real);
    if (!err)
        err =
            signals_open(p.io->loop, (const int[]){SIGTERM, SIGINT, 0}, on_signal, &p, &p.signals);
    if (!err) err = rpc_server_open(&(struct rpc_server_options){.io = p.io}, &p.server, &note);
    if (!err) err = add_methods(&p, &note);
    if (!err) err = rpc_server_listen(p.server, argv[2], NULL, &note);
    if (err) {
        fprintf(stderr, "interop_server: %s: %s\n", err_text(err), note.text);
        return 1;
    }
    printf("listening on %s\n", rpc_server_address(p.server, 0));
    fflush(stdout);
    real_io_run(p.real);
    signals_close(p.signals);
    real_io_close(p.real);
    return 0;
}
