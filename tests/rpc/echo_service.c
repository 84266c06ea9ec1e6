/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of call is one machine: requests come in, each asks for a number of answers (one,
 * `count` or none yet), and answers go out as the peer takes them. While a request has answers to
 * give, the call is paused: its message stays valid, and a peer that does not read cannot send
 * either. */
#include "echo_service.h"

#include <stdlib.h>
#include <string.h>

#include "wire/pb/muster_test_v1_echo.pb-c.h"

typedef Muster__Test__V1__EchoRequest request_t;
typedef Muster__Test__V1__EchoResponse response_t;
typedef Muster__Test__V1__EchoResponse__MetadataEntry entry_t;

struct echo {
    struct io *io;
    struct echo_stats stats;
};
struct exchange {
    struct echo *echo;
    struct rpc_call *call;
    enum rpc_kind kind;
    struct timer timer;
    const request_t *request; /* being answered; NULL: none */
    uint32_t wanted, given;   /* answers to `request` */
    bool waited;              /* the delay before the next answer is over */
    uint64_t answers;         /* in this call */
    uint32_t requests;
    uint64_t request_bytes;
    uint32_t last_bytes; /* response_bytes of the last request, for the one answer at the end */
    char *last_text;
};

static const uint8_t zeros[ECHO_RESPONSE_MAX];

/* -- answers -- */

static char *text_of(struct arena *arena, struct str s)
{
    char *copy = arena_dup(arena, s);

    return copy ? copy : (char *)"";
}

static Muster__Test__V1__Peer *report_peer(struct exchange *e, struct arena *arena)
{
    const struct tls_identity *identity = rpc_call_identity(e->call);
    Muster__Test__V1__Peer *peer = ARENA_NEW(arena, Muster__Test__V1__Peer);
    mono_time deadline = rpc_call_deadline(e->call);

    if (!peer) return NULL;
    muster__test__v1__peer__init(peer);
    peer->address = text_of(arena, str_from(rpc_call_peer(e->call)));
    if (deadline.ms != MONO_NEVER.ms)
        peer->deadline_ms = mono_elapsed_ms(loop_now(e->echo->io->loop), deadline);
    if (!identity) return peer;
    if (identity->uri_count > 0) peer->uri = text_of(arena, identity->uris[0]);
    peer->common_name = text_of(arena, identity->common_name);
    peer->dns_names = arena_calloc(arena, identity->dns_count, sizeof *peer->dns_names);
    for (size_t i = 0; peer->dns_names && i < identity->dns_count; i++)
        peer->dns_names[peer->n_dns_names++] = text_of(arena, identity->dns_names[i]);
    return peer;
}

static void echo_metadata(struct exchange *e, const request_t *q, struct arena *arena,
                          response_t *answer)
{
    entry_t *entries = arena_calloc(arena, q->n_echo_metadata, sizeof *entries);

    answer->metadata = arena_calloc(arena, q->n_echo_metadata, sizeof(entry_t *));
    for (size_t i = 0; entries && answer->metadata && i < q->n_echo_metadata; i++) {
        struct str value;
        if (!rpc_call_metadata(e->call, str_from(q->echo_metadata[i]), &value)) continue;
        muster__test__v1__echo_response__metadata_entry__init(&entries[i]);
        entries[i].key = q->echo_metadata[i];
        entries[i].value = (ProtobufCBinaryData){.len = value.len, .data = (uint8_t *)value.at};
        answer->metadata[answer->n_metadata++] = &entries[i];
    }
}

static void add_metadata(struct exchange *e, const request_t *q)
{
    for (size_t i = 0; i < q->n_echo_metadata; i++) {
        struct str name = str_from(q->echo_metadata[i]), value;
        if (!rpc_call_metadata(e->call, name, &value)) continue;
        (void)rpc_add_header(e->call, name, value);
        (void)rpc_add_trailer(e->call, name, value);
    }
}

static void fill(struct exchange *e, const request_t *q, response_t *answer)
{
    struct arena *arena = rpc_call_arena(e->call);

    muster__test__v1__echo_response__init(answer);
    answer->text = q->text;
    answer->payload = q->payload;
    if (q->response_bytes > 0)
        answer->payload = (ProtobufCBinaryData){
            .len = min_size(q->response_bytes, ECHO_RESPONSE_MAX), .data = (uint8_t *)zeros};
    answer->sequence = q->sequence;
    answer->everything = q->everything;
    answer->requests = e->requests;
    answer->request_bytes = e->request_bytes;
    if (q->report_peer) answer->peer = report_peer(e, arena);
    if (q->n_echo_metadata > 0) echo_metadata(e, q, arena, answer);
}

/* True when it did end. */
static bool fail_if_due(struct exchange *e, const request_t *q)
{
    const Muster__Test__V1__Failure *f = q->fail;

    if (!f || e->answers < f->after) return false;
    rpc_finish(e->call, (enum grpc_status)f->code, str_from(f->message),
               str_of(f->details.data, f->details.len));
    return true;
}

/* -- the machine -- */

static void after_request(struct exchange *e)
{
    e->request = NULL;
    if (e->kind == RPC_SERVER_STREAM) rpc_finish(e->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
    if (e->kind == RPC_BIDI) rpc_resume(e->call);
}

/* Gives as many answers as it can now. The call may be over when it returns. */
static void go_on(struct exchange *e)
{
    const request_t *q = e->request;

    while (q && e->given < e->wanted) {
        response_t answer;
        enum err err;
        if (q->delay_ms > 0 && !e->waited) {
            timer_start_in(&e->timer, q->delay_ms);
            return;
        }
        if (fail_if_due(e, q)) return;
        fill(e, q, &answer);
        if (e->kind == RPC_UNARY) {
            e->echo->stats.answers++;
            rpc_reply(e->call, &answer.base);
            return;
        }
        err = rpc_send(e->call, &answer.base);
        if (err == ERR_FULL) {
            e->echo->stats.full++;
            return; /* on_writable goes on */
        }
        if (err) {
            rpc_fail(e->call, err, NULL);
            return;
        }
        e->echo->stats.answers++;
        e->answers++;
        e->given++;
        e->waited = false;
    }
    if (q && !fail_if_due(e, q)) after_request(e);
}

static void on_timer(struct timer *timer)
{
    struct exchange *e = CONTAINER_OF(timer, struct exchange, timer);

    e->waited = true;
    go_on(e);
}

static struct exchange *begin(struct echo *echo, struct rpc_call *call, enum rpc_kind kind)
{
    struct exchange *e = calloc(1, sizeof *e);

    echo->stats.begun++;
    echo->stats.open++;
    if (e && timer_init(&e->timer, echo->io->loop, on_timer)) {
        free(e);
        e = NULL;
    }
    if (!e) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return NULL;
    }
    e->echo = echo;
    e->call = call;
    e->kind = kind;
    rpc_call_set_data(call, e);
    return e;
}

static void take(struct exchange *e, const ProtobufCMessage *message, uint32_t wanted)
{
    const request_t *q = (const request_t *)message;

    e->requests++;
    e->request_bytes += q->payload.len;
    add_metadata(e, q);
    e->request = q;
    e->wanted = wanted;
    e->given = 0;
    e->waited = false;
    go_on(e);
}

/* -- handlers -- */

static void on_unary(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str bytes)
{
    struct exchange *e = begin(owner, call, RPC_UNARY);

    (void)bytes;
    if (e) take(e, message, 1);
}

static void on_server_stream(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                             struct str bytes)
{
    struct exchange *e = begin(owner, call, RPC_SERVER_STREAM);

    (void)bytes;
    if (e) take(e, message, ((const request_t *)message)->count);
}

static void on_bidi_start(void *owner, struct rpc_call *call)
{
    begin(owner, call, RPC_BIDI);
}

static void on_bidi(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str bytes)
{
    struct exchange *e = rpc_call_data(call);

    (void)owner, (void)bytes;
    rpc_pause(call);
    take(e, message, 1);
}

static void on_finish(void *owner, struct rpc_call *call)
{
    (void)owner;
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

static void on_client_stream_start(void *owner, struct rpc_call *call)
{
    begin(owner, call, RPC_CLIENT_STREAM);
}

static void on_client_stream(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                             struct str bytes)
{
    struct exchange *e = rpc_call_data(call);
    const request_t *q = (const request_t *)message;
    char *text = strdup(q->text);

    (void)owner, (void)bytes;
    e->requests++;
    e->request_bytes += q->payload.len;
    add_metadata(e, q);
    if (text) {
        free(e->last_text);
        e->last_text = text;
    }
    e->last_bytes = q->response_bytes;
    fail_if_due(e, q);
}

static void on_client_stream_end(void *owner, struct rpc_call *call)
{
    struct exchange *e = rpc_call_data(call);
    request_t last = MUSTER__TEST__V1__ECHO_REQUEST__INIT;
    response_t answer;

    (void)owner;
    if (e->last_text) last.text = e->last_text;
    last.response_bytes = e->last_bytes;
    fill(e, &last, &answer);
    e->echo->stats.answers++;
    rpc_reply(call, &answer.base);
}

static void on_writable(void *owner, struct rpc_call *call)
{
    (void)owner;
    go_on(rpc_call_data(call));
}

static void on_done(void *owner, struct rpc_call *call)
{
    struct echo *echo = owner;
    struct exchange *e = rpc_call_data(call);

    echo->stats.done++;
    echo->stats.open--;
    if (!e) return;
    timer_deinit(&e->timer);
    free(e->last_text);
    free(e);
}

static const struct rpc_handler unary = {.on_message = on_unary, .on_done = on_done};
static const struct rpc_handler server_stream = {
    .on_message = on_server_stream, .on_writable = on_writable, .on_done = on_done};
static const struct rpc_handler client_stream = {.on_start = on_client_stream_start,
                                                 .on_message = on_client_stream,
                                                 .on_half_closed = on_client_stream_end,
                                                 .on_done = on_done};
static const struct rpc_handler bidi = {.on_start = on_bidi_start,
                                        .on_message = on_bidi,
                                        .on_half_closed = on_finish,
                                        .on_writable = on_writable,
                                        .on_done = on_done};

enum err echo_open(struct rpc_server *server, const struct echo_options *options,
                   struct echo **ret_echo, struct note *note)
{
    static const struct {
        const char *path;
        enum rpc_kind kind;
        const struct rpc_handler *handler;
    } methods[] = {
        {"/muster.test.v1.Echo/Unary", RPC_UNARY, &unary},
        {"/muster.test.v1.Echo/ClientStream", RPC_CLIENT_STREAM, &client_stream},
        {"/muster.test.v1.Echo/ServerStream", RPC_SERVER_STREAM, &server_stream},
        {"/muster.test.v1.Echo/Bidi", RPC_BIDI, &bidi},
    };
    struct echo *echo = calloc(1, sizeof *echo);
    enum err err = echo ? ERR_OK : ERR_NOMEM;

    if (echo) echo->io = options->io;
    for (size_t i = 0; i < ARRAY_LEN(methods) && !err; i++)
        err = rpc_server_add(server,
                             &(struct rpc_method){
                                 .path = methods[i].path,
                                 .kind = methods[i].kind,
                                 .input = &muster__test__v1__echo_request__descriptor,
                                 .output = &muster__test__v1__echo_response__descriptor,
                                 .request_max = options->request_max,
                                 .response_max = options->response_max,
                                 .access = {options->access ? options->access : ACCESS_ANYONE},
                                 .handler = methods[i].handler,
                                 .service = echo,
                             },
                             note);
    if (err) {
        free(echo);
        return err;
    }
    *ret_echo = echo;
    return ERR_OK;
}

void echo_close(struct echo *echo)
{
    if (!echo) return;
    assert(echo->stats.open == 0); /* every call that was begun is done */
    free(echo);
}

struct echo_stats echo_stats(const struct echo *echo)
{
    return echo->stats;
}
