/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server on io: listens, checks who may call what, runs handlers, drains.
 *
 * Methods are data: path, kind, message types and limits, who may call. A method in the table of
 * rpc/access.h takes its rule from there; one without a rule cannot be registered.
 *
 * What a peer does wrong costs that peer its call or its connection, never another's. Everything
 * held for a peer is bounded: what it has sent and we have not read by its windows, what we have
 * answered and it has not read by the output limits; past them its requests wait unread. */
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
    const char *path; /* "/bigfleet.v1alpha1.Coordinator/ListShards"; static text */
    enum rpc_kind kind;
    const ProtobufCMessageDescriptor *input;  /* NULL: raw bytes */
    const ProtobufCMessageDescriptor *output; /* NULL: raw bytes */
    size_t request_max;                       /* checked on the 5-byte header; 0: 4 MiB */
    size_t inflated_max;      /* of a compressed request, inflated on the loop; 0: request_max */
    size_t response_max;      /* 0: 4 MiB */
    size_t arena_max;         /* decoded size; 0: 16 MiB or 4 x request_max */
    struct rpc_access access; /* ACCESS_UNSET: as the table says */
    const struct rpc_handler *handler;
    void *service;
};
struct rpc_server_limits {                 /* 0: the default behind it */
    uint32_t connections_max;              /* 10,000 */
    uint32_t connections_per_identity_max; /* 1,000; by identity under TLS, by address else */
    uint32_t streams_per_connection_max;   /* 1,000 */
    uint32_t calls_max;                    /* 100,000 in all; more get RESOURCE_EXHAUSTED */
    size_t buffered_max;                   /* 1 GiB in all: half-read requests, unsent answers */
    size_t buffered_per_identity_max;      /* 512 MiB */
    /* Metadata that open calls keep, and answers without a body that the peer has not read: past
     * the first the connection is closed, past the others the call gets RESOURCE_EXHAUSTED. */
    size_t metadata_per_connection_max; /* 4 MiB */
    size_t metadata_per_identity_max;   /* 64 MiB */
    size_t metadata_max;                /* 256 MiB in all */
    uint32_t header_bytes_max;          /* 64 KiB per request, RFC 9113 accounting */
    uint32_t stream_window;             /* 256 KiB a client may send on a stream unread */
    uint32_t connection_window;         /* 1 MiB, over its streams */
    uint32_t stream_output_max;         /* 32 KiB queued per stream; more waits in the call */
    uint32_t output_max;                /* 1 MiB queued over a connection's streams */
    uint32_t socket_output_max;         /* 256 KiB written and not yet taken by the kernel */
    uint64_t handshake_timeout_ms;      /* 10,000 for TLS; as much again for the HTTP/2 preface */
    uint64_t header_timeout_ms;         /* 10,000 for a request's headers: slow loris */
    /* 30,000 for the rest of a request (a stream: of a message) to arrive, or for each period of
     * that length to bring RPC_BODY_RATE_MIN bytes a second; else DEADLINE_EXCEEDED. Time in which
     * we do not read does not count. */
    uint64_t body_timeout_ms;
    uint64_t write_timeout_ms; /* 60,000 without the peer's kernel taking a byte; without its
                                    * windows letting one go: it is asked by a ping if it reads */
    uint64_t idle_timeout_ms;  /* 0: never; a connection without streams is closed */
    uint64_t ping_after_ms, ping_timeout_ms; /* 7,200,000 and 20,000 */
    uint64_t ping_min_interval_ms; /* 300,000: more often, and no answers sent between: after two
                                    * warnings' worth ENHANCE_YOUR_CALM */
    uint64_t slow_call_ms;         /* 1,000: goes to the slow-request log; unary only */
};
enum { RPC_BODY_RATE_MIN = 16 << 10 };
struct rpc_server_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct rpc_meter *meter;      /* may be NULL; shared by the servers of a process */
    /* Its callers' authority is not the fleet's: a certificate with a name of the fleet's own
     * schemes (bigfleet://, muster://) as URI or common name is refused. */
    bool outsiders;
    struct rpc_server_limits limits;
};
/* ERR_INVALID (limits that contradict each other), ERR_NOMEM. */
enum err rpc_server_open(const struct rpc_server_options *options, struct rpc_server **ret_server,
                         struct note *note);
/* ERR_EXISTS, ERR_INVALID (no access rule or not the table's, bad path, no handler), ERR_FULL,
 * ERR_NOMEM. Before rpc_server_listen. The handler and the service live as long as the server. */
enum err rpc_server_add(struct rpc_server *server, const struct rpc_method *method,
                        struct note *note);
/* Several listeners are fine. `tls` must offer ALPN "h2"; NULL: plaintext with prior knowledge. */
enum err rpc_server_listen(struct rpc_server *server, const char *address, struct tls_context *tls,
                           struct note *note);
/* Pages of plain HTTP on the same listeners, for probes: by HTTP/2, and by HTTP/1.1 on a connection
 * that begins with one (GET and HEAD; one answer a connection). Before rpc_server_listen. */
enum { RPC_PAGE_MAX = 1024 };
struct rpc_page {
    unsigned status;  /* 200 */
    const char *type; /* "text/plain"; static */
    size_t len;
    char body[RPC_PAGE_MAX];
};
typedef bool rpc_page_fn(void *owner, struct str path, struct rpc_page *page); /* false: none */
void rpc_server_pages(struct rpc_server *server, rpc_page_fn *page, void *owner);
const char *rpc_server_address(const struct rpc_server *server,
                               size_t listener); /* "": none such */
size_t rpc_server_methods(const struct rpc_server *server);
const struct rpc_method *rpc_server_method(const struct rpc_server *server, size_t index);
/* Listens no more, sends GOAWAY everywhere, calls on_drain of handlers. done() once, when the last
 * connection is gone or `within_ms` passed; never from inside. Then comes rpc_server_close. */
void rpc_server_drain(struct rpc_server *server, uint64_t within_ms, void (*done)(void *owner),
                      void *owner);
/* Cuts every connection: its calls end without an answer, and their clients know that they do not
 * know. on_done for each, then done() once nothing of it is left, also its memory. Never from
 * inside; done may be NULL. NULL server: done at once. */
void rpc_server_close(struct rpc_server *server, void (*done)(void *owner), void *owner);
struct rpc_server_stats {
    uint64_t connections_total, connections_refused, calls_total, calls_refused, abuse_closed;
    uint64_t late_bytes;     /* of data that came for streams that were gone */
    uint64_t memory_closed;  /* connections closed by metadata_per_connection_max; abuse_closed
                              * counts them too */
    uint64_t bodies_expired; /* calls ended by body_timeout_ms */
    uint64_t unchoked;       /* calls looked at because their connection was not choked any more */
    uint32_t connections, calls;
    size_t buffered, metadata;
};
struct rpc_server_stats rpc_server_stats(const struct rpc_server *server);
#endif
