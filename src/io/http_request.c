/* SPDX-License-Identifier: Apache-2.0 */
/* One request from its first byte to its answer, on the HTTP thread.
 *
 * The library calls http_on_uri with the raw request target, then http_on_request once for the
 * headers, once per piece of body, and once at the end; we decide at the first call and answer at
 * the last, so that a body is never left unread in front of the next pipelined request. Two answers
 * are given early, and the connection is closed after them: 413 to a POST that announces too much,
 * and 400 to headers from which two readers could take two different ends of the body. */
#include "io/http_internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { HTTP_PEER_CAP = INET6_ADDRSTRLEN, ALLOW_CAP = 32 };

struct exchange {
    bool started;
    bool last;               /* nothing after it on this connection can be believed */
    int refuse;              /* status of the refusal decided so far; 0: none */
    enum http_method method; /* as asked; 0: one we do not know */
    struct str path, query, last_event_id;
    enum route_kind kind;
    uint32_t methods; /* of the route */
    struct http_channel *channel;
    struct buf body;
    size_t drained; /* body bytes thrown away */
    char *decoded;  /* path, inside `text` after the target */
    char text[];    /* the raw target, then room for the decoded path */
};

size_t http_no_unescape(void *unused, struct MHD_Connection *connection, char *text)
{
    (void)unused, (void)connection;
    return strlen(text); /* we decode ourselves: the library's decoder lets malformed text pass */
}

void *http_on_uri(void *context, const char *uri, struct MHD_Connection *connection)
{
    struct http_server *server = context;
    size_t len = strlen(uri); /* bounded by HTTP_HEAD_MAX */
    struct exchange *exchange = calloc(1, sizeof *exchange + 2 * len + 2);
    (void)connection;
    if (!exchange) return NULL;
    memcpy(exchange->text, uri, len + 1);
    exchange->decoded = exchange->text + len + 1;
    buf_init(&exchange->body, server->body_max);
    return exchange;
}

void http_on_completed(void *context, struct MHD_Connection *connection, void **slot,
                       enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = *slot;
    struct peer *peer = http_peer_of(connection);
    (void)context, (void)why;
    if (peer) peer->answering = false;
    if (!exchange) return;
    buf_deinit(&exchange->body);
    free(exchange);
    *slot = NULL;
}

/* -- what is asked -- */

static enum http_method method_of(const char *name)
{
    if (strcmp(name, "GET") == 0) return HTTP_GET;
    if (strcmp(name, "HEAD") == 0) return HTTP_HEAD;
    if (strcmp(name, "POST") == 0) return HTTP_POST;
    return 0;
}

static struct str header_of(struct MHD_Connection *connection, const char *name)
{
    return str_from(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name));
}

/* Splits the target into path and query and decodes the path. A target in absolute form, as proxies
 * send it, loses its scheme and host. */
static int target_read(struct exchange *exchange)
{
    struct str target = str_from(exchange->text), raw_path;
    size_t question, len;

    for (size_t i = 0; i < 2; i++) {
        struct str scheme = i ? STR("https://") : STR("http://");
        if (!str_starts(target, scheme)) continue;
        target = str_tail(target, scheme.len);
        target = str_tail(target, min_size(str_find(target, '/'), str_find(target, '?')));
        break;
    }
    question = str_find(target, '?');
    raw_path = str_of(target.at, question);
    exchange->query = str_tail(target, question + 1);
    if (http_decode(raw_path, false, exchange->decoded, &len) != ERR_OK) return 400;
    exchange->path = str_of(exchange->decoded, len);
    return http_path_is_safe(exchange->path) ? 0 : 400;
}

static int route_find(struct http_server *server, struct exchange *exchange)
{
    const struct route *route;
    uint32_t allowed;

    http_lock(server);
    route = http_route_match(server, exchange->path);
    if (route) {
        exchange->kind = route->kind;
        exchange->methods = route->methods;
        exchange->channel = route->channel;
    }
    http_unlock(server);
    if (!route) return 404;
    allowed = exchange->methods | (exchange->methods & HTTP_GET ? HTTP_HEAD : 0);
    return exchange->method & allowed ? 0 : 405;
}

/* The announced body is too large to be worth waiting for. */
static bool body_announced_too_large(struct http_server *server, struct MHD_Connection *connection)
{
    struct str text = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t len = 0;
    enum err err;
    if (text.len == 0) return false;
    err = str_to_u64(text, &len);
    return err == ERR_TOO_LARGE || (!err && len > server->body_max);
}

/* -- where the body ends --
 *
 * A proxy in front of us and the library behind it must agree where a request ends, or what one
 * takes for a body is a request to the other. The library takes the first Content-Length of two,
 * ignores it beside Transfer-Encoding, overlooks a header with a space before its colon, and reads
 * for ever under a coding it does not know. So whatever has more than one reading is refused. (A
 * NUL inside a value ends it before we see it: the one thing a proxy must refuse for us.) */

struct framing {
    unsigned lengths, codings, hosts;
    bool bad;
};

static bool is_token(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))) return false;
    }
    return text.len > 0;
}

static bool is_digits(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9') return false;
    return text.len > 0;
}

static enum MHD_Result framing_add(void *context, enum MHD_ValueKind kind, const char *key,
                                   size_t key_len, const char *value, size_t value_len)
{
    struct framing *framing = context;
    struct str name = str_of(key, key_len), text = str_of(value, value ? value_len : 0);
    (void)kind;
    if (!is_token(name)) framing->bad = true;
    if (str_equal_nocase(name, STR("content-length"))) {
        framing->lengths++;
        if (!is_digits(text)) framing->bad = true;
    } else if (str_equal_nocase(name, STR("transfer-encoding"))) {
        framing->codings++;
        if (!str_equal_nocase(text, STR("chunked"))) framing->bad = true;
    } else if (str_equal_nocase(name, STR("host"))) {
        framing->hosts++;
    }
    return MHD_YES;
}

static bool framing_is_plain(struct MHD_Connection *connection, const char *version)
{
    struct framing framing = {0};
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, framing_add, &framing);
    if (framing.codings > 0 && strcmp(version, MHD_HTTP_VERSION_1_1) != 0) return false;
    return !framing.bad && framing.lengths + framing.codings <= 1 && framing.hosts <= 1;
}

/* -- answers -- */

static enum MHD_Result queue(struct http_server *server, struct MHD_Connection *connection,
                             int status, struct MHD_Response *response)
{
    struct peer *peer = http_peer_of(connection);
    if (peer) peer->answering = true;
    if (status >= 400) atomic_fetch_add(&server->errors, 1);
    return MHD_queue_response(connection, (unsigned)status, response);
}

static enum MHD_Result answer_no_memory(struct http_server *server,
                                        struct MHD_Connection *connection)
{
    return queue(server, connection, 503, server->out_of_memory);
}

static const char *status_text(int status)
{
    switch (status) {
    case 400: return "bad request";
    case 404: return "not found";
    case 405: return "method not allowed";
    case 413: return "body too large";
    case 503: return "too many readers";
    default: return "internal error";
    }
}

static void allow_text(uint32_t methods, char text[ALLOW_CAP])
{
    snprintf(text, ALLOW_CAP, "%s%s%s", methods & HTTP_GET ? "GET, HEAD" : "",
             methods & HTTP_GET && methods & HTTP_POST ? ", " : "",
             methods & HTTP_POST ? "POST" : "");
    if (!text[0]) snprintf(text, ALLOW_CAP, "HEAD");
}

static enum MHD_Result answer_refusal(struct http_server *server, struct MHD_Connection *connection,
                                      const struct exchange *exchange, int status)
{
    char text[64], allow[ALLOW_CAP];
    struct MHD_Response *response;
    enum MHD_Result result;
    int len = snprintf(text, sizeof text, "%d %s\n", status, status_text(status));

    response = MHD_create_response_from_buffer((size_t)len, text, MHD_RESPMEM_MUST_COPY);
    if (!response) return exchange->last ? MHD_NO : answer_no_memory(server, connection);
    if (!http_standard_headers(response, "text/plain; charset=utf-8", "no-store")) goto no_memory;
    if (status == 405) {
        allow_text(exchange->methods, allow);
        if (MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow) != MHD_YES)
            goto no_memory;
    }
    if (exchange->last &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") != MHD_YES)
        goto no_memory;
    result = queue(server, connection, status, response);
    MHD_destroy_response(response);
    return result;

no_memory:
    MHD_destroy_response(response);
    return exchange->last ? MHD_NO : answer_no_memory(server, connection);
}

static enum MHD_Result answer_not_modified(struct http_server *server,
                                           struct MHD_Connection *connection, const char *etag)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result;

    if (!response) return answer_no_memory(server, connection);
    if (MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, etag) == MHD_YES &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache") == MHD_YES)
        result = queue(server, connection, 304, response);
    else
        result = answer_no_memory(server, connection);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_page(struct http_server *server, struct MHD_Connection *connection,
                                   const struct exchange *exchange)
{
    struct str seen = header_of(connection, MHD_HTTP_HEADER_IF_NONE_MATCH);
    char etag[HTTP_ETAG_CAP] = "";
    const struct route *route;
    enum MHD_Result result = MHD_NO;
    bool found;

    http_lock(server); /* until queued: then the answer holds its own reference to the page */
    route = http_route_match(server, exchange->path);
    found = route && route->kind == ROUTE_PAGE; /* it may have been taken away meanwhile */
    if (found && route->status == 200 && http_etag_matches(seen, str_from(route->etag)))
        memcpy(etag, route->etag, sizeof etag);
    else if (found)
        result = queue(server, connection, route->status, route->page);
    http_unlock(server);
    if (!found) return answer_refusal(server, connection, exchange, 404);
    return etag[0] ? answer_not_modified(server, connection, etag) : result;
}

static void peer_text(struct MHD_Connection *connection, char text[HTTP_PEER_CAP])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    text[0] = '\0';
    if (!info || !info->client_addr) return;
    if (info->client_addr->sa_family == AF_INET) {
        memcpy(&v4, info->client_addr, sizeof v4);
        inet_ntop(AF_INET, &v4.sin_addr, text, HTTP_PEER_CAP);
    } else if (info->client_addr->sa_family == AF_INET6) {
        memcpy(&v6, info->client_addr, sizeof v6);
        inet_ntop(AF_INET6, &v6.sin6_addr, text, HTTP_PEER_CAP);
    }
}

/* Turns what a handler filled in into an answer. The body's memory goes to the library. */
static enum MHD_Result answer_filled(struct http_server *server, struct MHD_Connection *connection,
                                     struct http_response *filled)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    response =
        MHD_create_response_from_buffer(filled->body.len, filled->body.data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        buf_deinit(&filled->body);
        return answer_no_memory(server, connection);
    }
    filled->body = (struct buf){0};
    if (!http_standard_headers(response, filled->content_type,
                               filled->cache_control ? filled->cache_control : "no-store") ||
        (filled->etag &&
         MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, filled->etag) != MHD_YES) ||
        (filled->location &&
         MHD_add_response_header(response, MHD_HTTP_HEADER_LOCATION, filled->location) != MHD_YES))
        result = answer_no_memory(server, connection);
    else
        result = queue(server, connection, filled->status, response);
    MHD_destroy_response(response);
    return result;
}

/* Runs the handler unless its route was taken away; http_unroute waits for the end of this. */
static bool run_handler(struct http_server *server, struct exchange *exchange,
                        const struct http_request *request, struct http_response *response)
{
    const struct route *route;
    http_handler *handler = NULL;
    void *context = NULL;

    http_lock(server);
    route = http_route_match(server, exchange->path);
    if (route && route->kind == ROUTE_HANDLER) {
        handler = route->handler;
        context = route->context;
        server->in_handler = true;
    }
    http_unlock(server);
    if (!handler) return false;
    handler(context, request, response);
    http_lock(server);
    server->in_handler = false;
    pthread_cond_broadcast(&server->handler_ended);
    http_unlock(server);
    return true;
}

static enum MHD_Result answer_handler(struct http_server *server, struct MHD_Connection *connection,
                                      struct exchange *exchange)
{
    char peer[HTTP_PEER_CAP];
    bool head_as_get = exchange->method == HTTP_HEAD && !(exchange->methods & HTTP_HEAD);
    struct http_request request = {
        .method = head_as_get ? HTTP_GET : exchange->method,
        .path = exchange->path,
        .query = exchange->query,
        .body = buf_peek(&exchange->body),
        .content_type = header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
        .authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION),
        .accept = header_of(connection, MHD_HTTP_HEADER_ACCEPT),
        .if_none_match = header_of(connection, MHD_HTTP_HEADER_IF_NONE_MATCH),
        .host = header_of(connection, MHD_HTTP_HEADER_HOST),
        .origin = header_of(connection, MHD_HTTP_HEADER_ORIGIN),
    };
    struct http_response response = {.status = 200, .content_type = "text/plain; charset=utf-8"};
    struct http_caller *caller = http_caller_of(server, connection);
    bool ran;

    peer_text(connection, peer);
    request.peer = str_from(peer);
    request.identity = http_caller_identity(caller);
    buf_init(&response.body, server->response_max);
    ran = run_handler(server, exchange, &request, &response);
    http_caller_free(caller);
    if (!ran) return answer_refusal(server, connection, exchange, 404);
    assert(response.status >= 200 && response.status <= 599);
    if (response.err == ERR_NOMEM) {
        buf_deinit(&response.body);
        return answer_no_memory(server, connection);
    }
    if (response.err) {
        buf_deinit(&response.body);
        return answer_refusal(server, connection, exchange, 500);
    }
    if (response.status == 200 && response.etag &&
        http_etag_matches(request.if_none_match, str_from(response.etag))) {
        buf_deinit(&response.body);
        return answer_not_modified(server, connection, response.etag);
    }
    return answer_filled(server, connection, &response);
}

static enum MHD_Result answer(struct http_server *server, struct MHD_Connection *connection,
                              struct exchange *exchange)
{
    if (exchange->refuse) return answer_refusal(server, connection, exchange, exchange->refuse);
    switch (exchange->kind) {
    case ROUTE_PAGE: return answer_page(server, connection, exchange);
    case ROUTE_CHANNEL:
        if (atomic_load(&server->readers) >= server->readers_max)
            return answer_refusal(server, connection, exchange, 503);
        return http_channel_answer(exchange->channel, connection,
                                   header_of(connection, "Last-Event-ID"));
    case ROUTE_HANDLER:
    case ROUTE_NONE: break;
    }
    return answer_handler(server, connection, exchange);
}

/* -- the library's calls, in order -- */

static enum MHD_Result begin(struct http_server *server, struct MHD_Connection *connection,
                             struct exchange *exchange, const char *method, const char *version)
{
    atomic_fetch_add(&server->requests, 1);
    exchange->started = true;
    if (!framing_is_plain(connection, version)) {
        exchange->last = true;
        return answer_refusal(server, connection, exchange, 400);
    }
    exchange->method = method_of(method);
    exchange->refuse = target_read(exchange);
    if (!exchange->refuse) exchange->refuse = route_find(server, exchange);
    if (!body_announced_too_large(server, connection)) return MHD_YES;
    exchange->refuse = 413;
    if (exchange->method == HTTP_POST || strcmp(method, "PUT") == 0)
        return answer_refusal(server, connection, exchange, 413);
    /* The library would take the body of any other method for the next request. */
    atomic_fetch_add(&server->errors, 1);
    return MHD_NO;
}

static enum MHD_Result take_body(struct exchange *exchange, struct str piece)
{
    enum err err = exchange->refuse ? ERR_OK : buf_append(&exchange->body, piece);
    if (err == ERR_NOMEM) return MHD_NO;
    if (err) exchange->refuse = 413;
    if (!exchange->refuse) return MHD_YES;
    buf_deinit(&exchange->body);
    exchange->drained += piece.len;
    return exchange->drained <= HTTP_DRAIN_MAX ? MHD_YES : MHD_NO;
}

enum MHD_Result http_on_request(void *context, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_size, void **slot)
{
    struct http_server *server = context;
    struct exchange *exchange = *slot;

    (void)url;
    if (!exchange) { /* there was no memory for it at http_on_uri */
        if (*upload_size > 0) return MHD_NO;
        atomic_fetch_add(&server->requests, 1);
        return answer_no_memory(server, connection);
    }
    if (!exchange->started) return begin(server, connection, exchange, method, version);
    if (*upload_size > 0) {
        enum MHD_Result result = take_body(exchange, str_of(upload_data, *upload_size));
        *upload_size = 0;
        if (result == MHD_NO) atomic_fetch_add(&server->errors, 1);
        return result;
    }
    return answer(server, connection, exchange);
}
