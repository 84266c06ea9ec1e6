/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server on io: listens, checks access, runs handlers, drains.
 *
 * Methods are data: path, kind, message types, limits and access rule. A method without a rule in
 * the table of rpc/access.h cannot be registered.
 *
 * A peer's mistakes affect only its own call or connection. Memory held for a peer is bounded:
 * unread requests by the windows, unsent responses by the output limits. Beyond the output limits
 * the peer's requests are not read. */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H
#include "io/io.h"
#include "obs/log.h"
#include "rpc/access.h"
#include "rpc/call.h"
#include "rpc/meter.h"

struct rpc_server;

enum { RPC_METHODS_MAX = 1024, RPC_LISTENERS_MAX = 16 };
struct rpc_method {
    const char *path; /* such as "/bigfleet.v1alpha1.Coordinator/ListShards"; static text */
    enum rpc_kind kind;
    const ProtobufCMessageDescriptor *input;  /* NULL means raw bytes */
    const ProtobufCMessageDescriptor *output; /* NULL: raw bytes */
    size_t request_max;                       /* checked in the message head; 0: 4 MiB */
    size_t inflated_max;                      /* bytes of an inflated request; 0: request_max */
    size_t response_max;                      /* bytes; 0: 4 MiB */
    size_t arena_max;         /* bytes of a decoded message; 0: max(16 MiB, 4 x request_max) */
    struct rpc_access access; /* ACCESS_UNSET: the method's rule in access_table.c */
    const struct rpc_handler *handler;
    void *service;
};
struct rpc_server_limits {                 /* 0: the default in the field's comment */
    uint32_t connections_max;              /* default: 10,000 */
    uint32_t connections_per_identity_max; /* default: 1,000; without TLS, for each address */
    uint32_t streams_per_connection_max;   /* default: 1,000 */
    uint32_t calls_max;                    /* default: 100,000 in all; then RESOURCE_EXHAUSTED */
    size_t buffered_max;                   /* default: 1 GiB: partial requests, unsent responses */
    size_t buffered_per_identity_max;      /* default: 512 MiB */
    /* Metadata kept by open calls, and responses without a body that the peer has not read.
     * Beyond the first limit the connection is closed; beyond the others the call gets
     * RESOURCE_EXHAUSTED. */
    size_t metadata_per_connection_max; /* default: 4 MiB */
    size_t metadata_per_identity_max;   /* default: 64 MiB */
    size_t metadata_max;                /* default: 256 MiB in all */
    uint32_t header_bytes_max;          /* default: 64 KiB per request, as RFC 9113 counts */
    uint32_t stream_window;             /* default: 256 KiB that a client may send ahead */
    uint32_t connection_window;         /* default: 1 MiB for all streams of a connection */
    uint32_t stream_output_max;         /* default: 32 KiB queued in h2; the call has the rest */
    uint32_t output_max;                /* default: 1 MiB queued for all streams of a connection */
    uint32_t socket_output_max;         /* default: 256 KiB that the kernel has not accepted yet */
    uint64_t handshake_timeout_ms;      /* default: 10,000 for TLS, 10,000 for the HTTP/2 preface */
    uint64_t header_timeout_ms;         /* default: 10,000 for request headers (slow loris) */
    /* default: 30,000 for a request, or for a message that a stream has begun; then
     * DEADLINE_EXCEEDED. Not for a peer that sends RPC_BODY_RATE_MIN bytes per second. Time in
     * which the server does not read does not count. */
    uint64_t body_timeout_ms;
    uint64_t write_timeout_ms; /* default: 60,000 without a byte accepted by the kernel */
    uint64_t idle_timeout_ms;  /* closes a connection without streams; 0: never */
    uint64_t ping_after_ms, ping_timeout_ms; /* default: 7,200,000 and 20,000 */
    uint64_t ping_min_interval_ms; /* default: 300,000; faster pings get ENHANCE_YOUR_CALM */
    uint64_t slow_call_ms;         /* default: 1,000; slower unary calls are logged */
};
enum { RPC_BODY_RATE_MIN = 16 << 10 };
struct rpc_server_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct rpc_meter *meter;      /* may be NULL; shared by all servers of a process */
    /* True if the clients' certificate authority is not the fleet's. A certificate whose URI or
     * common name has a scheme of the fleet (bigfleet://, muster://) is then refused. */
    bool outsiders;
    struct rpc_server_limits limits;
};
/* ERR_INVALID (contradictory limits), ERR_NOMEM. */
enum err rpc_server_open(const struct rpc_server_options *options, struct rpc_server **ret_server,
                         struct note *note);
/* Call before rpc_server_listen. Handler and service must outlive the server. ERR_EXISTS,
 * ERR_INVALID (access rule missing or not the table's, bad path, no handler), ERR_FULL,
 * ERR_NOMEM. */
enum err rpc_server_add(struct rpc_server *server, const struct rpc_method *method,
                        struct note *note);
/* `tls` must offer ALPN "h2"; NULL: plaintext HTTP/2 with prior knowledge. */
enum err rpc_server_listen(struct rpc_server *server, const char *address, struct tls_context *tls,
                           struct note *note);
/* Plain HTTP pages on the same listeners, for probes: over HTTP/2, and over HTTP/1.1 (GET and HEAD;
 * one response per connection). Call before rpc_server_listen. */
enum { RPC_PAGE_MAX = 1024 };
struct rpc_page {
    unsigned status;  /* preset to 200 */
    const char *type; /* preset to "text/plain"; static text */
    size_t len;
    char body[RPC_PAGE_MAX];
};
/* false: no such page */
typedef bool rpc_page_fn(void *owner, struct str path, struct rpc_page *page);
void rpc_server_pages(struct rpc_server *server, rpc_page_fn *page, void *owner);
const char *rpc_server_address(const struct rpc_server *server,
                               size_t listener); /* "": there is no such listener */
size_t rpc_server_methods(const struct rpc_server *server);
const struct rpc_method *rpc_server_method(const struct rpc_server *server, size_t index);
/* Stops listening, sends GOAWAY to all connections and calls on_drain of the handlers. done() is
 * called once, when the last connection is gone or after `within_ms`, never inside this function.
 * Call rpc_server_close after done(). */
void rpc_server_drain(struct rpc_server *server, uint64_t within_ms, void (*done)(void *owner),
                      void *owner);
/* Closes every connection. Running calls end without a response: their clients see an unknown
 * outcome. done(), which may be NULL, is called when all memory is freed, never inside this
 * function except with a NULL server. */
void rpc_server_close(struct rpc_server *server, void (*done)(void *owner), void *owner);
struct rpc_server_stats {
    uint64_t calls_total;
    uint64_t unchoked; /* calls read again after their connection was choked */
    uint32_t connections, calls;
    size_t buffered, metadata;
};
struct rpc_server_stats rpc_server_stats(const struct rpc_server *server);
#endif
