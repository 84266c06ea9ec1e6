/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the HTTP server share. Nobody else includes this.
 *
 *     http_server.c      life, thread, listener; what wakes the thread
 *     http_connection.c  one connection: limits, time, bytes in, bytes out
 *     http_request.c     one request: its target and route, the answer and its head
 *     http_routes.c      the table of paths, published pages
 *     http_channel.c     server-sent events
 *
 * Two threads meet here: the HTTP thread, which alone touches connections, and any other that routes,
 * publishes or sends. `lock` guards everything below it; handlers run without it. */
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
    HTTP_PATH_MAX = 1024,          /* of a route */
    HTTP_DRAIN_MAX = 1 << 20,      /* body bytes read and thrown away to be able to say 413 */
    HTTP_INPUT_MAX = 256 * 1024,   /* received and not looked at: a head and what came with it */
    HTTP_OUTPUT_MAX = 256 * 1024,  /* written and not yet taken by the kernel */
    HTTP_OUTPUT_PIECE = 64 * 1024, /* of an answer's body, written at a time */
    HTTP_ADDRESS_CAP = 320,        /* a DNS name, a port, brackets */
    HTTP_PEER_CAP = 64,
    HTTP_ETAG_CAP = 40, /* 32 hex digits, quotes, NUL */
};

/* -- pages -- */

/* A published page. The table holds one reference, each answer under way another. */
struct http_page {
    atomic_uint refs;
    int status;
    char etag[HTTP_ETAG_CAP];
    const char *content_type; /* behind this struct, as the body */
    struct str body;
};
void http_page_unref(struct http_page *page); /* NULL is fine */

enum route_kind { ROUTE_NONE, ROUTE_HANDLER, ROUTE_PAGE, ROUTE_CHANNEL }; /* none: a free place */
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

/*   SHAKING -> HEAD -> BODY -> ANSWER -> HEAD ...        the last answer: -> ENDING
 *                  \________/      \---> EVENTS          a reader of a channel, until it leaves */
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
    bool last;                /* no further request is read */
    bool expired;             /* what let it in counts no more: nobody is known by it */
    bool paused;              /* the stream is */
    char peer[HTTP_PEER_CAP]; /* address text, without port */
    mono_time active_at;      /* when bytes last moved */
    uint64_t sent, taken; /* bytes given to the stream; of those the kernel's, at the last look */

    struct buf input;
    size_t input_at;      /* the first `input_at` bytes of the input are used */
    struct buf head_text; /* of the request under way, which `head` points into */
    struct http_head head;
    struct http_chunks chunks;
    size_t body_left, drained; /* drained: body bytes thrown away */
    int refuse;                /* 413 when the body is too large; else 0 */
    enum http_method method;   /* as asked; 0: one we do not know */
    struct str path, query;    /* in head_text; the path is decoded in place */
    uint32_t methods;          /* of the route; for a refusal */
    struct http_channel *channel;
    struct buf body;

    /* the answer's body: of a page, or our own */
    struct http_page *page;
    struct buf own_body;
    struct str answer_left;

    /* a reader of `channel`: where it is */
    struct list in_channel; /* empty: it is none */
    uint64_t position;      /* the next event to take */
    struct event *event;    /* held, or NULL */
    size_t event_at;
};

struct http_server {
    /* -- fixed once open -- */
    size_t body_max, response_max;
    uint64_t boot_id; /* in event ids: a reader's position means nothing to the next process */
    uint64_t idle_timeout_ms, keepalive_ms;
    uint32_t connections_max, per_peer_max, readers_max;
    struct tls_options tls_options; /* its paths are ours; no cert_file: plaintext */
    char address[HTTP_ADDRESS_CAP];
    pthread_t thread;
    struct real_io *real;

    /* -- the HTTP thread's, once it runs -- */
    struct listener *listener;
    struct tls_context *tls; /* NULL: plaintext */
    uint64_t tls_loads;      /* of `tls`, when connections were last expired */
    struct list connections;
    struct timer sweep;
    mono_time pulse_at;

    /* -- any thread's -- */
    atomic_uint_fast64_t requests, errors, events_sent, events_dropped;
    atomic_uint connection_count, readers;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t handler_ended;
    struct post wake;
    struct tls_context *tls_next; /* takes the place of `tls`; NULL: nothing new */
    size_t route_count;
    struct route routes[HTTP_ROUTES_MAX];
    bool thread_runs, stopping, woken, in_handler; /* woken: `wake` is posted */
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
void http_wake(struct http_server *server); /* under lock */
/* HTTP thread: the context for a connection that comes; NULL: plaintext. */
struct tls_context *http_tls_now(struct http_server *server);
/* HTTP thread: when the context was loaded anew, those that it did not let in are asked again. */
void http_tls_expire(struct http_server *server);
void http_sweep_start(struct http_server *server); /* HTTP thread: there are connections */

/* -- http_connection.c: HTTP thread -- */
void http_connection_accept(void *server, struct stream *own_stream);
/* What a timer looks at: silence, and with `pulse` readers to probe. */
void http_connection_check(struct http_connection *c, mono_time now, bool pulse);
/* No further request is read: at once, or after the answer under way. Readers stay. */
void http_connection_expire(struct http_connection *c);
/* Begins an answer: its head now, then `body`, which is the page's or own_body's. */
void http_connection_send(struct http_connection *c, struct str head, struct str body);
/* While this holds, HTTP_OUTPUT_MAX / 2 bytes can be written; when not, on_drained comes. */
bool http_connection_has_room(const struct http_connection *c);
void http_connection_write(struct http_connection *c, const struct str *parts, size_t count);
/* All is written: closes in order, and waits a moment for the peer. */
void http_connection_end(struct http_connection *c);
void http_connection_fail(struct http_connection *c); /* counted as an error, and closed at once */

/* -- http_request.c: HTTP thread -- */
void http_request_begin(struct http_connection *c);  /* the head is there: on to the body */
void http_request_answer(struct http_connection *c); /* the body is there */
void http_request_refuse(struct http_connection *c, int status);
struct http_answer {
    int status;
    const char *content_type, *cache_control; /* no content_type: without the usual headers */
    const char *etag, *allow;                 /* NULL: without */
    bool endless;                             /* no length is known */
};
/* Writes the head, and `body` unless the request was HEAD. The body is the page's or own_body's. */
void http_request_send(struct http_connection *c, const struct http_answer *answer,
                       struct str body);

/* -- http_routes.c: under lock, except where said -- */
/* An entry for `path`, with `path` copied; fill in the rest. ERR_INVALID, ERR_EXISTS, ERR_FULL,
 * ERR_NOMEM. */
enum err http_route_add(struct http_server *server, const char *path, struct route **ret_route);
struct route *http_route_find(struct http_server *server, struct str path); /* NULL: none */
void http_routes_deinit(struct http_server *server);

/* -- http_channel.c -- */
/* HTTP thread. Answers; the connection is a reader of c->channel from then on. */
void http_channel_answer(struct http_connection *c);
/* HTTP thread: writes what there is to read. With `probe` a comment if there is nothing. */
void http_channel_pump(struct http_connection *c, bool probe);
void http_channel_pump_all(struct http_channel *channel); /* if events came since the last time */
void http_channel_finish(struct http_connection *c);      /* ends the stream in order */
void http_channel_leave(struct http_connection *c); /* the connection is gone; fine on no reader */
void http_channel_free(struct http_channel *channel); /* after the thread has ended */
#endif
