/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP/1.1 server for metrics, probes and the dashboard, on a loop and thread of its own.
 *
 * Handlers run on the HTTP thread and see copies only: publish what they may show with http_publish
 * (a named page that is replaced whole), or answer from a handler that touches nothing of the
 * loop's. Server-sent events are pushed to a channel from any thread; a slow reader loses the
 * oldest events and gets their number, nobody else waits for it.
 *
 * The surprising rule: paths are decoded before they are matched, and a path that is malformed, not
 * UTF-8, or holds a control byte or a "." or ".." segment is answered with 400 and reaches no
 * handler. */
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
    struct str path, query; /* decoded path; raw query */
    struct str body;        /* whole, at most body_max */
    struct str content_type, authorization;
    struct str host, origin; /* what a page that accepts POST compares to stop foreign sites */
    /* From a certificate that our authorities signed for a client. NULL: the caller showed none, or
     * one that proves nothing or has no URI. Valid while the handler runs. */
    const struct tls_identity *identity;
};
struct http_response {
    int status;               /* 200 when untouched */
    const char *content_type; /* "text/plain; charset=utf-8" when untouched; static text */
    struct buf body;          /* bounded by response_max; freed by the server */
    enum err err; /* set it when an append failed: answered with 500 instead of the body */
};
/* HEAD is allowed wherever GET is; the handler then sees HTTP_GET. */
typedef void http_handler(void *context, const struct http_request *request,
                          struct http_response *response);
struct http_options {
    const char *address;              /* "127.0.0.1:8790", "[::1]:0"; port 0 takes a free one */
    const char *cert_file, *key_file; /* both or none; PEM; TLS 1.2 and 1.3 */
    const char *ca_file;      /* with those: callers may show a certificate of these authorities */
    uint32_t connections_max; /* 0: 256; more wait in the kernel until one ends */
    uint32_t connections_per_peer_max; /* 0: 64; more are closed at once */
    uint32_t idle_timeout_s;           /* 0: 60 */
    size_t body_max;                   /* 0: 64 KiB; more is answered with 413 */
    size_t response_max;               /* 0: 16 MiB; more is answered with 500 */
    uint32_t keepalive_ms; /* 0: 15,000; silence after which an event reader is probed */
};
/* errors: answers with a status of 400 or more, and connections closed for what they sent. What
 * cannot be read as a request is counted among the errors and not among the requests. */
struct http_stats {
    uint64_t requests, errors, events_sent, events_dropped;
    uint32_t connections, readers;
};

/* ERR_INVALID, ERR_BUSY (address in use), ERR_DENIED, ERR_NOMEM, ERR_UNAVAILABLE, and for the
 * certificate what tls_context_open answers. Serves nothing before routes. */
enum err http_open(const struct http_options *options, struct http_server **ret_server,
                   struct note *note);
/* Ends open responses and event streams, then the thread, then frees the channels too. NULL is
 * fine. No other call may be under way. */
void http_close(struct http_server *server);
/* Shows the pair that the files hold now from the next handshake on, and knows the authorities that
 * they hold: all of it, or what tls_context_open answers and all stays as it was. Connections that
 * are open end after the answer they wait for, event streams and the listener stay. Also done by
 * itself, when a new connection finds the files changed (io/tls.h). Any thread. ERR_INVALID:
 * opened without TLS. */
enum err http_reload_tls(struct http_server *server, struct note *note);
const char *http_address(const struct http_server *server); /* with the real port; borrowed */
struct http_stats http_stats(const struct http_server *server);
/* `methods`: HTTP_GET, HTTP_POST or both. Any time, any thread. `path` is copied. ERR_INVALID,
 * ERR_EXISTS, ERR_FULL (HTTP_ROUTES_MAX), ERR_NOMEM. */
enum {
    HTTP_ROUTES_MAX = 128,
    HTTP_HEAD_MAX = 32 * 1024,        /* request line and headers; more is answered with 414, 431 */
    HTTP_EVENT_MAX = 256 * 1024,      /* data of one server-sent event */
    HTTP_CHANNEL_BYTES_MAX = 8 << 20, /* kept per channel, whatever events_max allows */
    HTTP_CHANNEL_EVENTS_MAX = 64 * 1024, /* the most events_max may be */
};
enum err http_route(struct http_server *server, const char *path, uint32_t methods,
                    http_handler *handler, void *context);
/* Takes a handler's or page's path away; afterwards its handler does not run, so its context may
 * go. Waits for a handler that is running. Not from a handler. ERR_NOT_FOUND. */
enum err http_unroute(struct http_server *server, const char *path);
/* A page that is copied in now and served until it is replaced: readers under way finish the old
 * one. It has an ETag, so that a browser that polls gets 304. Any thread. ERR_TOO_LARGE past
 * response_max; ERR_EXISTS when the path is a handler's or a channel's; ERR_INVALID, ERR_FULL,
 * ERR_NOMEM. */
enum err http_publish(struct http_server *server, const char *path, const char *content_type,
                      struct str content);
/* The same with a status other than 200: a page that says that something is wrong. */
enum err http_publish_as(struct http_server *server, const char *path, int status,
                         const char *content_type, struct str content);
/* Server-sent events at `path`; the newest `events_max` are kept for readers that lag, and for one
 * that comes back with Last-Event-ID. A reader that missed some gets "event: dropped" with their
 * number as data. The channel lives until http_close. At most half of connections_max may read;
 * more are answered with 503. Errors as http_route. */
enum err http_channel_open(struct http_server *server, const char *path, size_t events_max,
                           struct http_channel **ret_channel);
/* Any thread. `name` and `data` are copied; data may hold newlines. ERR_TOO_LARGE past 256 KiB,
 * ERR_INVALID for a name with a line end, ERR_NOMEM. */
enum err http_channel_send(struct http_channel *channel, struct str name, struct str data);
/* The value of `key` in a query string, percent-decoded ('+' is a space) and appended to `into`.
 * The first one counts. ERR_NOT_FOUND, ERR_PARSE, and those of buf_append; `into` is then as
 * before. */
enum err http_query(struct str query, struct str key, struct buf *into);
#endif
