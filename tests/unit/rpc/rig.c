/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "rpc/server_internal.h"

enum { WAIT_MS = 60000, BODY_MAX = 64 << 20, SETTLE_MS = 5 }; /* until SETTINGS went both ways */

static char tls_stub; /* virtual time never reads TLS contexts */

/* -- events of a client -- */

struct answer *client_answer(struct client *c, int32_t stream)
{
    CHECK("a stream of ours", stream > 0 && stream / 2 < RIG_STREAMS);
    return &c->answers[stream / 2];
}

static void keep_text(char *into, size_t cap, struct str value)
{
    size_t len = min_size(value.len, cap - 1);

    memcpy(into, value.at, len);
    into[len] = 0;
}

static void on_headers(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool trailers, bool end)
{
    struct client *c = owner;
    struct answer *a = client_answer(c, stream);

    (void)end;
    if (trailers)
        a->trailers++;
    else
        a->headers++;
    for (size_t i = 0; i < count; i++) {
        struct str name = headers[i].name, value = headers[i].value;
        if (str_equal(name, STR(":status"))) a->http = atoi(value.at);
        if (str_equal(name, STR("grpc-status"))) a->grpc = atoi(value.at);
        if (str_equal(name, STR("grpc-message"))) keep_text(a->text, sizeof a->text, value);
        if (str_equal(name, STR("x-muster-trace"))) keep_text(a->trace, sizeof a->trace, value);
        if (str_equal(name, STR("grpc-accept-encoding")))
            keep_text(a->accept, sizeof a->accept, value);
        if (str_starts(name, STR("x-echo"))) keep_text(a->echoed, sizeof a->echoed, value);
    }
}

static void on_data(void *owner, int32_t stream, struct str bytes)
{
    struct client *c = owner;
    struct answer *a = client_answer(c, stream);

    a->bytes += bytes.len;
    if (c->keep) CHECK_OK("room for the body", buf_append(&a->body, bytes));
    if (!c->hold) h2_consume(c->h2, stream, bytes.len);
}

static void on_stream_end(void *owner, int32_t stream)
{
    (void)owner, (void)stream;
}

static void on_stream_closed(void *owner, int32_t stream, uint32_t code)
{
    struct answer *a = client_answer(owner, stream);

    a->closed++;
    a->code = code;
}

static void on_goaway(void *owner, int32_t last, uint32_t code)
{
    struct client *c = owner;

    c->goaways++;
    c->goaway_last = last;
    c->goaway_code = code;
}

static void on_ping_ack(void *owner, uint64_t token)
{
    (void)token;
    ((struct client *)owner)->acks++;
}

static const struct h2_events h2_events = {
    .on_headers = on_headers,
    .on_data = on_data,
    .on_end = on_stream_end,
    .on_closed = on_stream_closed,
    .on_goaway = on_goaway,
    .on_ping_ack = on_ping_ack,
};

/* -- bytes -- */

static void on_open(void *owner)
{
    ((struct client *)owner)->open = true;
}

static void on_bytes(void *owner, struct str bytes)
{
    struct client *c = owner;

    c->heard += bytes.len;
    if (!c->h2 && c->keep) CHECK_OK("room for all", buf_append(&c->answers[0].body, bytes));
    if (!c->h2) return;
    (void)h2_feed(c->h2, bytes, loop_now(sim_host_io(c->host)->loop));
    rig_client_flush(c);
}

static void on_drained(void *owner)
{
    rig_client_flush(owner);
}

static void on_end(void *owner)
{
    struct client *c = owner;

    c->ended = true;
    stream_end(c->stream);
}

static void on_closed(void *owner, enum err why, const struct note *note)
{
    struct client *c = owner;

    (void)why, (void)note;
    c->closed = true;
    c->open = false;
    c->stream = NULL;
}

static const struct stream_events stream_events = {on_open, on_bytes, on_drained, on_end,
                                                   on_closed};

void client_bytes(struct client *c, struct str bytes)
{
    if (c->stream) (void)stream_write(c->stream, &bytes, 1);
}

void rig_client_flush(struct client *c)
{
    struct buf out;

    if (!c->stream || !c->h2) return;
    buf_init(&out, BODY_MAX);
    (void)h2_take_output(c->h2, (1 << 20) - stream_pending(c->stream), &out);
    if (out.len > 0) client_bytes(c, buf_peek(&out));
    buf_deinit(&out);
}

static bool is_open(void *context)
{
    struct client *c = context;

    return c->open || c->closed;
}

struct client *client_connect(struct rig *rig, size_t index, bool raw)
{
    struct client *c = &rig->clients[index];
    struct dial_options options = {.address = "server:7000"};

    CHECK("one at a time", !c->stream && !c->h2);
    if (!c->answers) c->answers = calloc(RIG_STREAMS, sizeof *c->answers);
    CHECK("memory", c->answers != NULL);
    for (size_t i = 0; i < RIG_STREAMS; i++) {
        buf_deinit(&c->answers[i].body);
        c->answers[i] = (struct answer){.http = -1, .grpc = -1};
        buf_init(&c->answers[i].body, BODY_MAX);
    }
    *c = (struct client){.rig = rig, .host = rig->others[index], .answers = c->answers};
    if (rig->tls) options.tls = (void *)&tls_stub;
    if (!raw)
        CHECK_OK("h2", h2_open(H2_CLIENT,
                               &(struct h2_limits){.connection_window = 16 << 20,
                                                   .streams_max = 4096,
                                                   .output_max = 64 << 20,
                                                   .stream_output_max = 16 << 20,
                                                   .memory_max = 128 << 20,
                                                   .stream_window = rig->client_window},
                               &h2_events, c, &c->h2));
    CHECK_OK("dial",
             net_dial(sim_host_io(c->host)->net, &options, &stream_events, c, &c->stream, NULL));
    rig_wait(rig, "connected", is_open, c);
    rig_client_flush(c);
    if (!raw) rig_run(rig, SETTLE_MS);
    return c;
}

void client_close(struct client *c)
{
    if (c->stream) stream_close(c->stream);
    if (c->rig && c->stream) client_wait_gone(c);
    h2_close(c->h2);
    c->h2 = NULL;
}

int32_t client_start(struct client *c, const char *path, const struct h2_header *more, size_t count)
{
    struct h2_header headers[32] = {
        {STR(":method"), STR("POST")},  {STR(":scheme"), STR("http")},
        {STR(":path"), str_from(path)}, {STR(":authority"), STR("server")},
        {STR("te"), STR("trailers")},   {STR("content-type"), STR("application/grpc")},
    };
    int32_t stream = 0;

    CHECK("room for headers", count <= 26);
    for (size_t i = 0; i < count; i++) headers[6 + i] = more[i];
    CHECK_OK("a request", h2_request(c->h2, headers, 6 + count, false, &stream));
    rig_client_flush(c);
    return stream;
}

enum err client_send_bytes(struct client *c, int32_t stream, struct str message)
{
    char head[GRPC_FRAME_BYTES];
    struct str parts[2] = {{head, sizeof head}, message};
    enum err err;

    grpc_frame_write((uint32_t)message.len, false, head);
    err = h2_send(c->h2, stream, parts, 2);
    rig_client_flush(c);
    return err;
}

enum err client_send(struct client *c, int32_t stream, const echo_request *request)
{
    struct buf out;
    enum err err;

    buf_init(&out, BODY_MAX);
    CHECK_OK("encode", message_write(&request->base, &out, NULL));
    err = client_send_bytes(c, stream, buf_peek(&out));
    buf_deinit(&out);
    return err;
}

void client_end(struct client *c, int32_t stream)
{
    (void)h2_send_end(c->h2, stream);
    rig_client_flush(c);
}

int32_t client_unary(struct client *c, const char *path, const echo_request *request)
{
    int32_t stream = client_start(c, path, NULL, 0);

    CHECK_OK("the request", client_send(c, stream, request));
    client_end(c, stream);
    return stream;
}

static bool is_answered(void *context)
{
    return ((struct answer *)context)->closed > 0;
}

void client_wait_closed(struct client *c, int32_t stream)
{
    rig_wait(c->rig, "the stream ends", is_answered, client_answer(c, stream));
}

static bool is_gone(void *context)
{
    return ((struct client *)context)->closed;
}

void client_wait_gone(struct client *c)
{
    rig_wait(c->rig, "the connection ends", is_gone, c);
}

/* -- the world -- */

static void on_line(void *context, enum log_level level, struct str line)
{
    struct rig *rig = context;

    (void)level;
    (void)buf_append(&rig->log, line);
}

struct rig_counts rig_counts(const struct rig *rig)
{
    uint64_t refused[REFUSED_COUNT];

    for (size_t i = 0; i < REFUSED_COUNT; i++) refused[i] = counter_value(rig->meter->refused[i]);
    return (struct rig_counts){.connections =
                                   refused[REFUSED_CONNECTIONS] + refused[REFUSED_IDENTITY],
                               .calls = refused[REFUSED_CALLS],
                               .abuse = refused[REFUSED_ABUSE] + refused[REFUSED_MEMORY],
                               .memory = refused[REFUSED_MEMORY],
                               .bodies = refused[REFUSED_BODY],
                               .late_bytes = counter_value(rig->meter->late)};
}

static void open_instruments(struct rig *rig)
{
    buf_init(&rig->log, RIG_LOG_MAX);
    CHECK_OK("log", logger_open(&(struct logger_options){.clock = sim_host_io(rig->host)->clock,
                                                         .level = LOG_LEVEL_INFO,
                                                         .sink = on_line,
                                                         .sink_context = rig},
                                &rig->logger));
    log_source_init(&rig->log_source, rig->logger, "rpc", NULL);
    CHECK_OK("metrics", metrics_open(&rig->metrics));
    CHECK_OK("meter", rpc_meter_open(rig->metrics, &rig->meter, NULL));
}

void rig_open(struct rig *rig, const struct rpc_server_limits *limits,
              const struct tls_identity *const *tls, void (*prepare)(struct rig *rig))
{
    static const char *const names[RIG_CLIENTS] = {"a", "b", "c", "d"};
    struct rpc_server_options options = {0};
    struct note note = {0};

    *rig = (struct rig){.tls = tls != NULL, .client_window = 64 << 10};
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 1}, &rig->sim));
    CHECK_OK("a host",
             sim_host_add(rig->sim, &(struct sim_host_options){.name = "server", .alpn = "h2"},
                          &rig->host));
    for (size_t i = 0; i < RIG_CLIENTS; i++)
        CHECK_OK("a host",
                 sim_host_add(rig->sim,
                              &(struct sim_host_options){
                                  .name = names[i], .alpn = "h2", .identity = tls ? tls[i] : NULL},
                              &rig->others[i]));
    open_instruments(rig);
    options.io = sim_host_io(rig->host);
    options.log = &rig->log_source;
    options.meter = rig->meter;
    if (limits) options.limits = *limits;
    CHECK_OK("a server", rpc_server_open(&options, &rig->server, &note));
    CHECK_OK("echo",
             echo_open(rig->server, &(struct echo_options){.io = options.io}, &rig->echo, &note));
    CHECK_OK("health", rpc_health_open(rig->server, &rig->health, &note));
    if (prepare) prepare(rig);
    CHECK_OK("listen",
             rpc_server_listen(rig->server, "server:7000", tls ? (void *)&tls_stub : NULL, &note));
}

void rig_run(struct rig *rig, uint64_t ms)
{
    sim_run_for(rig->sim, ms);
}

void rig_wait(struct rig *rig, const char *why, bool (*holds)(void *), void *context)
{
    CHECK(why, holds(context) || sim_wait(rig->sim, holds, context, WAIT_MS) == SIM_REACHED);
}

static bool is_true(void *context)
{
    return *(bool *)context;
}

static void set_true(void *owner)
{
    bool *flag = owner;

    CHECK("reported once", !*flag);
    *flag = true;
}

void rig_drain(struct rig *rig, uint64_t within_ms)
{
    rpc_server_drain(rig->server, within_ms, set_true, &rig->drained);
    CHECK("never from inside", !rig->drained);
}

void rig_close_server(struct rig *rig)
{
    if (!rig->server) return;
    rpc_server_close(rig->server, set_true, &rig->closed);
    CHECK("never from inside", !rig->closed);
    rig_wait(rig, "the server is gone", is_true, &rig->closed);
    rig->server = NULL;
}

void rig_close(struct rig *rig)
{
    for (size_t i = 0; i < RIG_CLIENTS; i++) {
        struct client *c = &rig->clients[i];
        if (c->stream) stream_close(c->stream);
        if (c->stream) client_wait_gone(c);
        h2_close(c->h2);
        for (size_t k = 0; c->answers && k < RIG_STREAMS; k++) buf_deinit(&c->answers[k].body);
        free(c->answers);
    }
    rig_close_server(rig);
    echo_close(rig->echo);
    rpc_health_close(rig->health);
    rpc_meter_close(rig->meter);
    metrics_close(rig->metrics);
    logger_close(rig->logger);
    buf_deinit(&rig->log);
    sim_close(rig->sim);
}
