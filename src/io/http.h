/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP/1.1 server for metrics, probes and the dashboard, with its own loop and thread.
 *
 * Handlers run on the HTTP thread and must not use data of the main loop. The main loop publishes
 * pages with http_publish instead. Any thread can send server-sent events to a channel. A slow
 * reader loses the oldest events, and other readers are not delayed.
 *
 * Paths are decoded before they are matched. A path that is malformed, not UTF-8, or has a control
 * byte or a "." or ".." segment gets 400. */
#ifndef IO_HTTP_H
#define IO_HTTP_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"
#include "io/tls.h"

struct http_server;
struct http_channel;

enum http_method { HTTP_GET = BIT(0), HTTP_POST = BIT(1), HTTP_HEAD = BIT(2) };
struct http_request {
    enum http_method method;
    struct str path, query; /* the path is decoded, the query is not */
    struct str body;        /* the complete body, at most body_max bytes */
    struct str content_type, authorization;
    struct str host, origin; /* handlers compare these to reject cross-site POSTs */
    /* The URI identity in a client certificate of our authorities, or NULL. Valid while the handler
     * runs. */
    const struct tls_identity *identity;
};
struct http_response {
    int status;               /* default 200 */
    const char *content_type; /* static text; default "text/plain; charset=utf-8" */
    struct buf body;          /* limited to response_max; freed by the server */
    enum err err;             /* an append failed: the client gets 500 without the body */
};
/* A route for GET also accepts HEAD; the handler then sees HTTP_GET. */
typedef void http_handler(void *context, const struct http_request *request,
                          struct http_response *response);
struct http_options {
    const char *address;               /* such as "127.0.0.1:8790"; port 0: a free port */
    const char *cert_file, *key_file;  /* PEM; set both or none; allows TLS 1.2 and 1.3 */
    const char *ca_file;               /* authorities of client certificates; needs cert_file */
    uint32_t connections_max;          /* 0: 256; others wait in the kernel's queue */
    uint32_t connections_per_peer_max; /* 0: 64; more are closed when accepted */
    uint32_t idle_timeout_s;           /* 0: 60 */
    size_t body_max;                   /* 0: 64 KiB; a larger body gets 413 */
    size_t response_max;               /* 0: 16 MiB; a larger response becomes 500 */
    uint32_t keepalive_ms;             /* 0: 15,000; an event reader idle for this long is probed */
};
/* `errors`: responses with status 400 or more, and connections closed because of their input. */
struct http_stats {
    uint64_t requests, errors, events_sent, events_dropped;
    uint32_t connections, readers;
};

/* ERR_INVALID, ERR_BUSY (address in use), ERR_DENIED, ERR_NOMEM, ERR_UNAVAILABLE, or an error of
 * tls_context_open. All paths are 404 until routes are added. */
enum err http_open(const struct http_options *options, struct http_server **ret_server,
                   struct note *note);
/* Ends open responses and event streams, stops the thread, and frees the channels. `server` may be
 * NULL. No other call on the server may run at the same time. */
void http_close(struct http_server *server);
/* Reloads certificate, key and authorities from their files. Open connections close after their
 * current response, except event streams. After an error of tls_context_open, the old files'
 * content stays in use. Any thread. ERR_INVALID without TLS. */
enum err http_reload_tls(struct http_server *server, struct note *note);
const char *http_address(const struct http_server *server); /* has the real port; borrowed */
struct http_stats http_stats(const struct http_server *server);
/* `methods` is HTTP_GET, HTTP_POST or both. `path` is copied. Any thread. ERR_INVALID, ERR_EXISTS,
 * ERR_FULL (HTTP_ROUTES_MAX), ERR_NOMEM. */
enum {
    HTTP_ROUTES_MAX = 128,
    HTTP_HEAD_MAX = 32 * 1024,           /* bytes of request line and headers; beyond: 414 or 431 */
    HTTP_EVENT_MAX = 256 * 1024,         /* data of one server-sent event */
    HTTP_CHANNEL_BYTES_MAX = 8 << 20,    /* bytes of events that a channel keeps */
    HTTP_CHANNEL_EVENTS_MAX = 64 * 1024, /* upper limit of a channel's events_max */
};
enum err http_route(struct http_server *server, const char *path, uint32_t methods,
                    http_handler *handler, void *context);
/* Removes the path of a handler or page, and waits for a running handler, so that its context may
 * be freed. Must not be called from a handler. ERR_NOT_FOUND. */
enum err http_unroute(struct http_server *server, const char *path);
/* Publishes a copy of the content until it is replaced. Polling browsers get 304, by an ETag. Any
 * thread. ERR_TOO_LARGE above response_max; ERR_EXISTS if the path belongs to a handler or channel;
 * ERR_INVALID, ERR_FULL, ERR_NOMEM. */
enum err http_publish(struct http_server *server, const char *path, const char *content_type,
                      struct str content);
/* Like http_publish, with a status other than 200, for a page that reports a problem. */
enum err http_publish_as(struct http_server *server, const char *path, int status,
                         const char *content_type, struct str content);
/* Opens a channel of server-sent events at `path`, until http_close. The newest `events_max` events
 * are kept for slow or reconnecting readers. A reader that missed events gets "event: dropped" with
 * their number. At most half of connections_max may read channels; others get 503. Errors of
 * http_route. */
enum err http_channel_open(struct http_server *server, const char *path, size_t events_max,
                           struct http_channel **ret_channel);
/* Sends a copy of an event. Any thread. `data` may contain newlines. ERR_TOO_LARGE above 256 KiB,
 * ERR_INVALID for a name with a line end, ERR_NOMEM. */
enum err http_channel_send(struct http_channel *channel, struct str name, struct str data);
/* Appends the value of the first `key` in a query string, percent-decoded ('+' is a space). `into`
 * is unchanged after ERR_NOT_FOUND, ERR_PARSE or a full buffer. */
enum err http_query(struct str query, struct str key, struct buf *into);
#endif
