/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the HTTP server share. Nobody else includes this.
 *
 * Two threads meet here: the HTTP thread, which alone talks to libmicrohttpd about connections, and
 * whoever routes, publishes or sends. `lock` guards everything below it; handlers run without it.
 * Lock order: ours first, then the library's own. */
#ifndef IO_HTTP_INTERNAL_H
#define IO_HTTP_INTERNAL_H
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/time.h"
#include "io/http.h"

enum {
    HTTP_CONNECTIONS_MAX = 256,
    HTTP_CONNECTIONS_PER_PEER_MAX = 64,
    HTTP_IDLE_TIMEOUT_S = 60,
    HTTP_BODY_MAX = 64 * 1024,
    HTTP_RESPONSE_MAX = 16 << 20,
    HTTP_KEEPALIVE_MS = 15 * 1000,
    HTTP_PATH_MAX = 1024,        /* of a route */
    HTTP_DRAIN_MAX = 1 << 20,    /* body bytes read and thrown away to be able to say 413 */
    HTTP_ADDRESS_CAP = 320,      /* a DNS name, a port, brackets */
    HTTP_ETAG_CAP = 40,          /* 32 hex digits, quotes, NUL */
    HTTP_PEM_MAX = 1 << 20,      /* of a certificate or key */
    HTTP_EVENT_BLOCK = 16 * 1024 /* handed to the library at a time */
};

/* An open connection. HTTP thread only. */
struct peer {
    struct list link;
    int fd;
    bool answering; /* from the answer being queued to its last byte */
};

enum route_kind { ROUTE_NONE, ROUTE_HANDLER, ROUTE_PAGE, ROUTE_CHANNEL }; /* none: a free place */
struct route {
    char *path; /* owned */
    size_t path_len;
    enum route_kind kind;
    uint32_t methods;
    http_handler *handler;
    void *context;
    int status;                /* of the page */
    struct MHD_Response *page; /* one reference is ours; each answer under way holds another */
    char etag[HTTP_ETAG_CAP];
    struct http_channel *channel;
};

struct http_server {
    /* -- fixed once open -- */
    struct MHD_Response *out_of_memory; /* made at open, so that it is there when needed */
    size_t body_max, response_max;
    uint64_t boot_id; /* in event ids: a reader's position means nothing to the next process */
    pthread_t thread;
    uint32_t keepalive_ms, connections_max, readers_max;
    int wake_fd;
    bool tls;
    char *ca_pem; /* as it was at open; NULL: callers are not asked who they are */
    char address[HTTP_ADDRESS_CAP];

    /* -- the HTTP thread's, once it runs -- */
    struct MHD_Daemon *daemon;
    struct list peers;

    /* -- any thread's -- */
    atomic_uint_fast64_t requests, errors, events_sent, events_dropped;
    atomic_uint connections, readers;
    pthread_mutex_t lock; /* of what follows, but for the first line of flags */
    pthread_cond_t handler_ended;
    struct http_pair *pair; /* newest first; NULL without TLS */
    void *trust;            /* a gnutls_x509_trust_list_t; NULL with ca_pem */
    size_t route_count;
    struct route routes[HTTP_ROUTES_MAX];
    bool thread_runs,
        turn_again; /* turn_again: the HTTP thread does not sleep before its next turn */
    bool stopping, woken, in_handler; /* woken: wake_fd has been written and not been read */
};

/* -- http_server.c -- */
void http_lock(struct http_server *server);
void http_unlock(struct http_server *server);
void http_wake(struct http_server *server); /* under lock */
mono_time http_now(void);
/* HTTP thread. NULL when there was no memory for it. */
struct peer *http_peer_of(struct MHD_Connection *connection);

/* -- http_routes.c: under lock, except where said -- */
/* An entry for `path`, with `path` copied; fill in the rest. ERR_INVALID, ERR_EXISTS, ERR_FULL,
 * ERR_NOMEM. */
enum err http_route_add(struct http_server *server, const char *path, struct route **ret_route);
const struct route *http_route_match(const struct http_server *server, struct str path);
void http_routes_deinit(struct http_server *server);
/* The headers every answer carries. Not under lock. */
bool http_standard_headers(struct MHD_Response *response, const char *content_type,
                           const char *cache_control);
bool http_etag_matches(struct str if_none_match, struct str etag);

/* -- http_request.c: the library's callbacks, HTTP thread -- */
void *http_on_uri(void *server, const char *uri, struct MHD_Connection *connection);
enum MHD_Result http_on_request(void *server, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_size, void **exchange);
void http_on_completed(void *server, struct MHD_Connection *connection, void **exchange,
                       enum MHD_RequestTerminationCode why);
size_t http_no_unescape(void *unused, struct MHD_Connection *connection, char *text);

/* -- http_channel.c -- */
/* HTTP thread. Queues the answer; the connection is an event reader from then on. */
enum MHD_Result http_channel_answer(struct http_channel *channel, struct MHD_Connection *connection,
                                    struct str last_event_id);
/* HTTP thread, without lock: resumes readers that have something to read, or all of them. */
enum resume_why { RESUME_FOR_EVENTS, RESUME_FOR_PULSE, RESUME_FOR_STOP };
void http_channel_resume(struct http_channel *channel, enum resume_why why);
void http_channel_free(struct http_channel *channel); /* after the thread has ended */

/* -- http_tls.c -- */
void *http_on_handshake(void); /* a function of GnuTLS's own type, for the library's option */
void http_pair_thread(struct http_server *server); /* the HTTP thread says whose it is */
void http_pairs_trim(struct http_server *server);  /* frees replaced ones: no connection is open */
void http_pairs_free(struct http_server *server);  /* after the thread has ended */

/* Who the caller of this connection proved to be, by URIs; NULL: nobody. HTTP thread. */
struct http_caller;
struct http_caller *http_caller_of(struct http_server *server, struct MHD_Connection *connection);
const struct tls_identity *http_caller_identity(const struct http_caller *caller); /* NULL: NULL */
void http_caller_free(struct http_caller *caller);
void http_trust_free(struct http_server *server); /* after the thread has ended */

/* -- http_query.c -- */
/* Percent-decoding in one pass. '+' becomes a space when `plus_is_space`. ERR_PARSE for "%" without
 * two hex digits and for an encoded NUL. `into` must have room for text.len bytes. */
enum err http_decode(struct str text, bool plus_is_space, char *into, size_t *ret_len);
/* What may be handed to a handler: absolute, UTF-8, no control byte, no "." or ".." segment. */
bool http_path_is_safe(struct str path);
#endif
