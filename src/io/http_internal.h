/* SPDX-License-Identifier: Apache-2.0 */
/* Types and functions that the files of the HTTP server share.
 *
 *     http_server.c      open, close, thread, listener, wake-up of the thread
 *     http_connection.c  one connection: limits, time-outs, bytes in, bytes out
 *     http_request.c     one request: its target and route, the response and its head
 *     http_routes.c      the table of paths, published pages
 *     http_channel.c     server-sent events
 *
 * Only the HTTP thread uses connections. Any thread may add routes, publish pages and send events.
 * Handlers run without the lock. */
#ifndef IO_HTTP_INTERNAL_H
#define IO_HTTP_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "io/http.h"
#include "io/http_head.h"
#include "io/real.h"

enum {
    HTTP_CONNECTIONS_MAX = 256,
    HTTP_CONNECTIONS_LIMIT = 65536,
    HTTP_CONNECTIONS_PER_PEER_MAX = 64,
    HTTP_IDLE_TIMEOUT_S = 60,
    HTTP_BODY_MAX = 64 * 1024,
    HTTP_RESPONSE_MAX = 16 << 20,
    HTTP_KEEPALIVE_MS = 15 * 1000,
    HTTP_PATH_MAX = 1024,          /* longest path of a route */
    HTTP_DRAIN_MAX = 1 << 20,      /* bytes of a refused body that are dropped before a 413 */
    HTTP_INPUT_MAX = 256 * 1024,   /* bytes not parsed yet: a head and the bytes behind it */
    HTTP_OUTPUT_MAX = 256 * 1024,  /* bytes written, but not accepted by the kernel */
    HTTP_OUTPUT_PIECE = 64 * 1024, /* bytes of a response body written at a time */
    HTTP_ADDRESS_CAP = 320,        /* a DNS name, a port and brackets */
    HTTP_PEER_CAP = 64,
    HTTP_ETAG_CAP = 40, /* 32 hex digits, quotes, NUL */
};

/* -- pages -- */

/* A published page. The route table and each response in progress hold a reference. */
struct http_page {
    atomic_uint refs;
    int status;
    char etag[HTTP_ETAG_CAP];
    const char *content_type; /* stored behind this struct, like the body */
    struct str body;
};
void http_page_unref(struct http_page *page); /* NULL is fine */

/* ROUTE_NONE: a free entry. */
enum route_kind { ROUTE_NONE, ROUTE_HANDLER, ROUTE_PAGE, ROUTE_CHANNEL };
struct route {
    char *path; /* owned */
    size_t path_len;
    enum route_kind kind;
    uint32_t methods;
    http_handler *handler;
    void *context;
    struct http_page *page;
    struct http_channel *channel;
};

/* -- connections -- */

/* SHAKING -> HEAD -> BODY -> ANSWER -> HEAD ...        last response: -> ENDING
 *                  \________/      \---> EVENTS          reads a channel until it closes */
enum http_connection_state {
    CONNECTION_SHAKING,
    CONNECTION_HEAD,
    CONNECTION_BODY,
    CONNECTION_ANSWER,
    CONNECTION_EVENTS,
    CONNECTION_ENDING,
};
struct event;

/* HTTP thread only. */
struct http_connection {
    struct list link;
    struct http_server *server;
    struct stream *stream;
    enum http_connection_state state;
    bool last; /* read no further request */
    /* The TLS context was reloaded, so the peer's old identity no longer counts. */
    bool expired;
    bool paused;
    char peer[HTTP_PEER_CAP]; /* without port */
    mono_time active_at;      /* time of the last received or sent bytes */
    /* Bytes given to the stream, and bytes that the kernel had accepted at the last check. */
    uint64_t sent, taken;

    struct buf input;
    size_t input_at;      /* consumed bytes of `input` */
    struct buf head_text; /* `head` points into this text */
    struct http_head head;
    struct http_chunks chunks;
    size_t body_left, drained; /* body bytes still to come, and discarded body bytes */
    int refuse;                /* 413 if the body is too large; otherwise 0 */
    enum http_method method;   /* 0: unknown */
    struct str path, query;    /* views into head_text; the path is decoded in place */
    uint32_t methods;          /* of the route, for a 405 response */
    struct http_channel *channel;
    struct buf body;

    /* The response body is the body of `page`, or own_body. */
    struct http_page *page;
    struct buf own_body;
    struct str answer_left;

    struct list in_channel; /* empty: reads no channel */
    uint64_t position;      /* sequence number of the next event to send */
    struct event *event;    /* the event being sent, referenced; may be NULL */
    size_t event_at;
};

struct http_server {
    /* -- constant after opening -- */
    size_t body_max, response_max;
    uint64_t boot_id; /* part of event ids, to recognise ids of an earlier process */
    uint64_t idle_timeout_ms, keepalive_ms;
    uint32_t connections_max, per_peer_max, readers_max;
    struct tls_options tls_options; /* paths are our copies; no cert_file: plaintext */
    char address[HTTP_ADDRESS_CAP];
    pthread_t thread;
    struct real_io *real;

    /* -- for the HTTP thread only, once it runs -- */
    struct listener *listener;
    struct tls_context *tls; /* NULL: plaintext */
    uint64_t tls_loads;      /* load count of `tls` when http_tls_expire last ran */
    struct list connections;
    struct timer sweep;
    mono_time pulse_at;

    /* -- for any thread -- */
    atomic_uint_fast64_t requests, errors, events_sent, events_dropped;
    atomic_uint connection_count, readers;
    pthread_mutex_t lock; /* protects all fields below */
    pthread_cond_t handler_ended;
    struct post wake;
    struct tls_context *tls_next; /* will replace `tls`; may be NULL */
    size_t route_count;
    struct route routes[HTTP_ROUTES_MAX];
    bool thread_runs, stopping, woken, in_handler; /* woken: http_wake has posted `wake` */
};

static inline void http_lock(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
}
static inline void http_unlock(struct http_server *server)
{
    pthread_mutex_unlock(&server->lock);
}

/* -- http_server.c -- */
void http_wake(struct http_server *server); /* the caller holds the lock */
/* For a new connection; NULL: plaintext. HTTP thread. */
struct tls_context *http_tls_now(struct http_server *server);
/* HTTP thread. After a reload of the TLS context, expires connections made with the old one. */
void http_tls_expire(struct http_server *server);
void http_sweep_start(struct http_server *server);

/* -- http_connection.c: HTTP thread -- */
void http_connection_accept(void *server, struct stream *own_stream);
/* Closes an idle connection. With `pulse`, probes an event reader. */
void http_connection_check(struct http_connection *c, mono_time now, bool pulse);
/* Closes now or after the current response. Event readers stay. */
void http_connection_expire(struct http_connection *c);
/* Sends the head now, then `body`, which belongs to the page or is own_body. */
void http_connection_send(struct http_connection *c, struct str head, struct str body);
/* True if HTTP_OUTPUT_MAX / 2 bytes can be written. If not, on_drained is called later. */
bool http_connection_has_room(const struct http_connection *c);
void http_connection_write(struct http_connection *c, const struct str *parts, size_t count);
/* Closes in order after the last write. */
void http_connection_end(struct http_connection *c);
void http_connection_fail(struct http_connection *c); /* counts an error and closes */

/* -- http_request.c: HTTP thread -- */
/* Starts reading the body. */
void http_request_begin(struct http_connection *c);
void http_request_answer(struct http_connection *c); /* call when the body is complete */
void http_request_refuse(struct http_connection *c, int status);
struct http_answer {
    int status;
    const char *content_type, *cache_control; /* NULL also omits the usual headers */
    const char *etag, *allow;                 /* NULL omits the header */
    bool endless;                             /* the body's length is unknown */
};
/* `body` belongs to the page or is own_body. A HEAD request gets no body. */
void http_request_send(struct http_connection *c, const struct http_answer *answer,
                       struct str body);

/* -- http_routes.c: call with the lock held, unless stated otherwise -- */
/* Adds an entry with a copy of `path`. The caller sets the other fields. ERR_INVALID, ERR_EXISTS,
 * ERR_FULL, ERR_NOMEM. */
enum err http_route_add(struct http_server *server, const char *path, struct route **ret_route);
/* NULL: no such route. */
struct route *http_route_find(struct http_server *server, struct str path);
void http_routes_deinit(struct http_server *server);

/* -- http_channel.c -- */
/* Starts an event stream. The connection then reads c->channel. HTTP thread. */
void http_channel_answer(struct http_connection *c);
/* Writes pending events. With `probe` and no pending events, writes a comment line. HTTP thread. */
void http_channel_pump(struct http_connection *c, bool probe);
void http_channel_pump_all(struct http_channel *channel);
void http_channel_finish(struct http_connection *c); /* ends the event stream in an orderly way */
/* No effect if the connection reads no channel. */
void http_channel_leave(struct http_connection *c);
void http_channel_free(struct http_channel *channel); /* call after the thread has ended */
#endif
