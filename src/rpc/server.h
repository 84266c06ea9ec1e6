/* A gRPC server on io: listens, checks who may call what, runs handlers, drains.
 *
 * Methods are data: path, kind, message types and limits, who may call. A method without an access
 * rule cannot be registered. */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H
#include "io/io.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/access.h"
#include "rpc/call.h"

struct rpc_server;

struct rpc_method {
    const char *path;                           /* "/bigfleet.v1alpha1.Coordinator/ListShards" */
    enum rpc_kind kind;
    const ProtobufCMessageDescriptor *input;    /* NULL: raw bytes */
    const ProtobufCMessageDescriptor *output;   /* NULL: raw bytes */
    size_t request_max;                         /* checked on the 5-byte header; 0: 4 MiB */
    size_t response_max;                        /* 0: 4 MiB */
    size_t arena_max;                           /* decoded size; 0: 16 MiB or 4 x request_max */
    struct rpc_access access;
    const struct rpc_handler *handler;
    void *service;
};
struct rpc_server_limits {                      /* 0: the default behind it */
    uint32_t connections_max;                   /* 10,000 */
    uint32_t connections_per_identity_max;      /* 1,000; by identity under TLS, by address else */
    uint32_t streams_per_connection_max;        /* 1,024 */
    uint32_t calls_max;                         /* 100,000 in all */
    size_t buffered_max;                        /* 1 GiB in all: half-read requests, unsent answers */
    size_t buffered_per_identity_max;           /* 512 MiB */
    uint64_t handshake_timeout_ms;              /* 10,000 until the first request headers */
    uint64_t header_timeout_ms;                 /* 10,000 for a request's headers: slow loris */
    uint64_t idle_timeout_ms;                   /* 0: never; a connection without streams is closed */
    uint64_t ping_after_ms, ping_timeout_ms;    /* 7,200,000 and 20,000 */
    uint64_t ping_min_interval_ms;              /* 300,000: pings more often draw ENHANCE_YOUR_CALM */
    uint64_t slow_call_ms;                      /* 1,000: goes to the slow-request log; unary only */
};
struct rpc_server_options {
    struct io *io;
    struct log *log;                            /* may be NULL */
    struct metrics *metrics;                    /* may be NULL */
    struct rpc_server_limits limits;
};
enum err rpc_server_open(const struct rpc_server_options *options, struct rpc_server **ret_server,
                         struct note *note);
/* ERR_EXISTS, ERR_INVALID (no access rule, bad path), ERR_FULL. Before rpc_server_listen. */
enum err rpc_server_add(struct rpc_server *server, const struct rpc_method *method);
/* Several listeners are fine. */
enum err rpc_server_listen(struct rpc_server *server, const char *address, struct tls_context *tls,
                           struct note *note);
const char *rpc_server_address(const struct rpc_server *server, size_t listener);
size_t rpc_server_methods(const struct rpc_server *server, const struct rpc_method **ret_methods);
/* GOAWAY everywhere, no new call; done() when the last call ended or `within_ms` passed. */
void rpc_server_drain(struct rpc_server *server, uint64_t within_ms, void (*done)(void *owner),
                      void *owner);
/* Ends every call with UNAVAILABLE and closes; done() once nothing of it is left, also its memory. */
void rpc_server_close(struct rpc_server *server, void (*done)(void *owner), void *owner);
struct rpc_server_stats {
    uint64_t connections_total, connections_refused, calls_total, calls_refused, abuse_closed;
    uint32_t connections, calls;
    size_t buffered;
};
struct rpc_server_stats rpc_server_stats(const struct rpc_server *server);
#endif
