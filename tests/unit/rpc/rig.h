/* SPDX-License-Identifier: Apache-2.0 */
/* The server in a virtual world, and clients with h2 and nothing above it: they do exactly what a
 * test chooses, against the rules or not, and record what they receive. */
#ifndef TESTS_UNIT_RPC_RIG_H
#define TESTS_UNIT_RPC_RIG_H
#include "base/buf.h"
#include "echo_service.h"
#include "rpc/health.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "wire/grpc.h"
#include "wire/h2.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"

typedef Muster__Test__V1__EchoRequest echo_request;
typedef Muster__Test__V1__EchoResponse echo_response;
#define ECHO_REQUEST(...)                                                                          \
    (echo_request)                                                                                 \
    {                                                                                              \
        .base = PROTOBUF_C_MESSAGE_INIT(&muster__test__v1__echo_request__descriptor), __VA_ARGS__  \
    }

enum { RIG_STREAMS = 2100, RIG_CLIENTS = 4, RIG_LOG_MAX = 1 << 16 };

struct answer { /* the answer on one stream */
    unsigned headers, trailers, closed, writable;
    uint32_t code;  /* of the close */
    int http, grpc; /* -1: not sent */
    char text[256], trace[64], accept[64];
    char echoed[64]; /* of x-echo-bin or x-echo */
    size_t bytes;    /* of messages, with framing */
    struct buf body; /* kept only when asked */
};
struct rig;
struct client {
    struct rig *rig;
    struct sim_host *host;
    struct stream *stream; /* NULL once closed */
    struct h2 *h2;         /* NULL: bytes by hand */
    struct answer *answers;
    bool open, ended, closed;
    bool hold; /* consumes nothing: its windows stay closed */
    bool keep; /* keeps bodies; a raw client keeps all bytes in answers[0] */
    unsigned goaways, acks;
    int32_t goaway_last;
    uint32_t goaway_code;
    size_t heard; /* bytes */
};
struct rig {
    struct sim *sim;
    struct sim_host *host, *others[RIG_CLIENTS];
    struct logger *logger;
    struct log_source log_source;
    struct buf log;
    struct metrics *metrics;
    struct rpc_meter *meter;
    struct rpc_server *server; /* NULL once closed */
    struct echo *echo;
    struct rpc_health *health;
    struct client clients[RIG_CLIENTS];
    uint32_t client_window; /* per stream; a test may set it before it connects */
    bool tls, drained, closed;
};

/* `tls`: an identity per client host; NULL: plaintext. Echo and health are registered. `prepare`
 * adds more before listening; may be NULL. */
void rig_open(struct rig *rig, const struct rpc_server_limits *limits,
              const struct tls_identity *const *tls, void (*prepare)(struct rig *rig));
struct rig_counts { /* refusals, from the metrics; `memory` is part of `abuse` */
    uint64_t connections, calls, abuse, memory, bodies, late_bytes;
};
struct rig_counts rig_counts(const struct rig *rig);
void rig_close(struct rig *rig);        /* clients, server, world */
void rig_close_server(struct rig *rig); /* and waits for done() */
void rig_drain(struct rig *rig, uint64_t within_ms);
void rig_run(struct rig *rig, uint64_t ms);
/* CHECKs that the condition becomes true within a virtual minute. */
void rig_wait(struct rig *rig, const char *why, bool (*holds)(void *), void *context);

/* Dials from host `index`; waits until connected. `raw`: no h2 on the client's side. */
struct client *client_connect(struct rig *rig, size_t index, bool raw);
void client_close(struct client *c);
void rig_client_flush(struct client *c); /* sends h2's pending output */
void client_bytes(struct client *c, struct str bytes);
struct answer *client_answer(struct client *c, int32_t stream);
/* Opens a call with gRPC's headers and `more`; returns its stream. */
int32_t client_start(struct client *c, const char *path, const struct h2_header *more,
                     size_t count);
/* Sends a framed message; ERR_FULL when the client's queue is full. */
enum err client_send(struct client *c, int32_t stream, const echo_request *request);
enum err client_send_bytes(struct client *c, int32_t stream, struct str message);
void client_end(struct client *c, int32_t stream);
int32_t client_unary(struct client *c, const char *path, const echo_request *request);
void client_wait_closed(struct client *c, int32_t stream); /* the stream */
void client_wait_gone(struct client *c);                   /* the connection */
#endif
