/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP/1.1 server for metrics, probes and the dashboard, with its own loop and thread.
 *
 * Handlers run on the HTTP thread and may only read copies: publish content with http_publish (a
 * named page that is replaced as a whole), or answer from a handler that uses no data of the main
 * loop. Any thread can push server-sent events to a channel. A slow reader loses the oldest events
 * and gets their number; other readers are not delayed.
 *
 * The surprising rule: paths are decoded before they are matched. A path that is malformed, not
 * UTF-8, or has a control byte or a "." or ".." segment gets 400 and reaches no handler. */
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
    struct str path, query; /* decoded path; raw query string */
    struct str body;        /* complete; at most body_max */
    struct str content_type, authorization;
    struct str host, origin; /* the headers that a page compares to reject cross-site POSTs */
    /* The identity in a client certificate signed by our authorities. NULL: no certificate, an
     * unverified certificate, or a certificate without URI. Valid while the handler runs. */
    const struct tls_identity *identity;
};
struct http_response {
    int status;               /* default 200 */
    const char *content_type; /* default "text/plain; charset=utf-8"; static text */
    struct buf body;          /* limited to response_max; freed by the server */
    enum err err; /* set by the handler if an append failed: the client gets 500 without the body */
};
/* HEAD is allowed wherever GET is. The handler then sees HTTP_GET. */
typedef void http_handler(void *context, const struct http_request *request,
                          struct http_response *response);
struct http_options {
    const char *address;              /* "127.0.0.1:8790", "[::1]:0"; port 0 selects a free port */
    const char *cert_file, *key_file; /* both or none; PEM; TLS 1.2 and 1.3 */
    const char *ca_file;      /* with cert_file: authorities of accepted client certificates */
    uint32_t connections_max; /* 0: 256; more connections wait in the kernel */
    uint32_t connections_per_peer_max; /* 0: 64; more connections are closed at once */
    uint32_t idle_timeout_s;           /* 0: 60 */
    size_t body_max;                   /* 0: 64 KiB; a larger body gets 413 */
    size_t response_max;               /* 0: 16 MiB; a larger response becomes 500 */
    uint32_t keepalive_ms; /* 0: 15,000; an event reader that is idle for this long is probed */
};
/* errors: responses with status 400 or more, and connections closed because of what they sent.
 * Input that is no valid request counts as an error and not as a request. */
struct http_stats {
    uint64_t requests, errors, events_sent, events_dropped;
    uint32_t connections, readers;
};

/* ERR_INVALID, ERR_BUSY (address in use), ERR_DENIED, ERR_NOMEM, ERR_UNAVAILABLE, and errors of
 * tls_context_open for the certificate. Every path is 404 until routes are added. */
enum err http_open(const struct http_options *options, struct http_server **ret_server,
                   struct note *note);
/* Ends open responses and event streams, stops the thread, and frees the channels. NULL is fine. No
 * other call may run at the same time. */
void http_close(struct http_server *server);
/* Reloads certificate, key and authorities from the files. New handshakes use them. On error all
 * old ones stay; errors of tls_context_open. Open connections end after their current response;
 * event streams and the listener stay. The server also reloads by itself when a new connection
 * finds changed files (io/tls.h). Any thread. ERR_INVALID: opened without TLS. */
enum err http_reload_tls(struct http_server *server, struct note *note);
const char *http_address(const struct http_server *server); /* has the real port; borrowed */
struct http_stats http_stats(const struct http_server *server);
/* Adds a handler. `methods`: HTTP_GET, HTTP_POST or both. Any time, any thread. `path` is copied.
 * ERR_INVALID, ERR_EXISTS, ERR_FULL (HTTP_ROUTES_MAX), ERR_NOMEM. */
enum {
    HTTP_ROUTES_MAX = 128,
    HTTP_HEAD_MAX = 32 * 1024,           /* request line and headers; larger heads get 414 or 431 */
    HTTP_EVENT_MAX = 256 * 1024,         /* data of one server-sent event */
    HTTP_CHANNEL_BYTES_MAX = 8 << 20,    /* kept per channel, regardless of events_max */
    HTTP_CHANNEL_EVENTS_MAX = 64 * 1024, /* upper limit of events_max */
};
enum err http_route(struct http_server *server, const char *path, uint32_t methods,
                    http_handler *handler, void *context);
/* Removes the path of a handler or page and waits for a running handler, so that the handler's
 * context may be freed. Must not be called from a handler. ERR_NOT_FOUND. */
enum err http_unroute(struct http_server *server, const char *path);
/* Publishes a page: the content is copied and served until replaced; responses in progress finish
 * with the old content. The page has an ETag, so a polling browser gets 304. Any thread.
 * ERR_TOO_LARGE past response_max; ERR_EXISTS if the path belongs to a handler or channel;
 * ERR_INVALID, ERR_FULL, ERR_NOMEM. */
enum err http_publish(struct http_server *server, const char *path, const char *content_type,
                      struct str content);
/* Like http_publish, with a status other than 200, for a page that reports a problem. */
enum err http_publish_as(struct http_server *server, const char *path, int status,
                         const char *content_type, struct str content);
/* Opens a channel of server-sent events at `path`. The newest `events_max` events are kept for slow
 * readers and for readers that reconnect with Last-Event-ID. A reader that missed events gets
 * "event: dropped" with their number as data. The channel exists until http_close. At most half of
 * connections_max may read channels; further readers get 503. Errors of http_route. */
enum err http_channel_open(struct http_server *server, const char *path, size_t events_max,
                           struct http_channel **ret_channel);
/* Sends an event. Any thread. `name` and `data` are copied; data may contain newlines.
 * ERR_TOO_LARGE past 256 KiB, ERR_INVALID for a name with a line end, ERR_NOMEM. */
enum err http_channel_send(struct http_channel *channel, struct str name, struct str data);
/* Appends the value of `key` in a query string to `into`, percent-decoded ('+' is a space). The
 * first occurrence counts. ERR_NOT_FOUND, ERR_PARSE, errors of buf_append: `into` is unchanged. */
enum err http_query(struct str query, struct str key, struct buf *into);
#endif
