/* SPDX-License-Identifier: Apache-2.0 */
/* One request: its target and route, the response and its head. HTTP thread only.
 *
 * A request is processed when its body is complete, so that no unread body precedes the next
 * pipelined request. A body that is announced as too large is refused before it arrives, and the
 * connection closes. */
#include "io/http_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ANSWER_HEAD_CAP = 8 * 1024, ANSWER_HEAD_USUAL = 768 };
#define PLAIN_TEXT "text/plain; charset=utf-8"

/* -- the target -------------------------------------------------------------------------------- */

static enum http_method method_of(struct str name)
{
    if (str_equal(name, STR("GET"))) return HTTP_GET;
    if (str_equal(name, STR("HEAD"))) return HTTP_HEAD;
    if (str_equal(name, STR("POST"))) return HTTP_POST;
    return 0;
}

/* Splits the target into path and query and decodes the path. Proxies also send scheme and host. */
static int target_read(struct http_connection *c)
{
    struct str target = c->head.target, raw_path;
    size_t question, len;
    char *in_place;

    for (size_t i = 0; i < 2; i++) {
        struct str scheme = i ? STR("https://") : STR("http://");
        if (!str_starts(target, scheme)) continue;
        target = str_tail(target, scheme.len);
        target = str_tail(target, min_size(str_find(target, '/'), str_find(target, '?')));
        break;
    }
    question = str_find(target, '?');
    raw_path = str_of(target.at, question);
    c->query = str_tail(target, question + 1);
    in_place = (char *)raw_path.at; /* writable: the path points into head_text */
    if (http_decode(raw_path, false, in_place, &len)) return 400;
    c->path = str_of(in_place, len);
    return http_path_is_safe(c->path) ? 0 : 400;
}

/* Finds the request's route and keeps the route valid: a page by a reference, a handler by
 * `in_handler`, which http_unroute waits for. */
static int route_take(struct http_connection *c, struct route *ret_route)
{
    struct http_server *server = c->server;
    const struct route *route;
    int refuse = 404;

    http_lock(server);
    route = http_route_find(server, c->path);
    if (route) {
        uint32_t allowed = route->methods | (route->methods & HTTP_GET ? HTTP_HEAD : 0);
        refuse = c->method & allowed ? 0 : 405;
        c->methods = route->methods;
        *ret_route = *route;
    }
    if (!refuse && route->page) atomic_fetch_add(&route->page->refs, 1);
    if (!refuse) server->in_handler = route->kind == ROUTE_HANDLER;
    http_unlock(server);
    return refuse;
}

void http_request_begin(struct http_connection *c)
{
    const struct str go_on = STR("HTTP/1.1 100 Continue\r\n\r\n");

    if (c->server->tls && http_tls_now(c->server)) http_tls_expire(c->server);
    atomic_fetch_add(&c->server->requests, 1);
    c->state = CONNECTION_BODY;
    c->chunks = (struct http_chunks){.state = CHUNK_SIZE};
    c->drained = 0;
    c->refuse = 0;
    c->method = method_of(c->head.method);
    if (c->head.body_len > c->server->body_max) {
        c->head.close = true;
        http_request_refuse(c, 413);
        return;
    }
    c->body_left = (size_t)c->head.body_len;
    if (c->head.continues && (c->head.chunked || c->body_left > 0))
        http_connection_write(c, &go_on, 1);
}

/* -- the head of the response ------------------------------------------------------------------ */

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status) return reasons[i].reason;
    return "Unknown";
}

/* Appends a date such as "Thu, 19 Nov 2026 00:24:21 GMT", independent of the locale. */
static enum err answer_put_date(struct buf *head, wall_time now)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(now.ms / MS_PER_SECOND);
    struct tm t;

    gmtime_r(&seconds, &t);
    return buf_appendf(head, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[t.tm_wday],
                       t.tm_mday, months[t.tm_mon], 1900 + t.tm_year, t.tm_hour, t.tm_min,
                       t.tm_sec);
}

/* Appends the parts without printf, which took 0.4 us of the 6 us of a response. */
static enum err answer_put_field(struct buf *head, const char *name, const char *value)
{
    enum err err = value ? buf_append_c(head, name) : ERR_OK;

    if (!err && value) err = buf_append_c(head, value);
    return !err && value ? buf_append(head, STR("\r\n")) : err;
}

/* Forbids scripts, frames and fonts of other origins, which the dashboard does not use. */
static const char usual_fields[] =
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; base-uri 'none'\r\n";

static enum err answer_put_head(struct http_connection *c, const struct http_answer *answer,
                                size_t body_len, struct buf *head)
{
    wall_time now = clock_wall(real_io_io(c->server->real)->clock);
    const char *connection = c->last ? "close" : c->head.old ? "Keep-Alive" : NULL;
    char *room;
    enum err err = buf_reserve(head, ANSWER_HEAD_USUAL, &room); /* the head is allocated once */

    if (!err)
        err = buf_appendf(head, "HTTP/1.1 %d %s\r\n", answer->status, http_reason(answer->status));
    if (!err) err = answer_put_date(head, now);
    if (!err) err = answer_put_field(head, "Connection: ", connection);
    if (!err) err = answer_put_field(head, "Content-Type: ", answer->content_type);
    if (!err) err = answer_put_field(head, "Cache-Control: ", answer->cache_control);
    if (!err && answer->content_type)
        err = buf_append(head, str_of(usual_fields, sizeof usual_fields - 1));
    if (!err) err = answer_put_field(head, "ETag: ", answer->etag);
    if (!err) err = answer_put_field(head, "Allow: ", answer->allow);
    if (!err && !answer->endless) err = buf_appendf(head, "Content-Length: %zu\r\n", body_len);
    if (!err && answer->endless && !c->head.old)
        err = buf_append_c(head, "Transfer-Encoding: chunked\r\n");
    return err ? err : buf_append_c(head, "\r\n");
}

void http_request_send(struct http_connection *c, const struct http_answer *answer, struct str body)
{
    struct buf head;

    if (answer->status >= 400) atomic_fetch_add(&c->server->errors, 1);
    c->last |= c->head.close || (answer->endless && c->head.old);
    buf_init(&head, ANSWER_HEAD_CAP);
    if (answer_put_head(c, answer, body.len, &head))
        http_connection_fail(c); /* no memory even for this response */
    else
        http_connection_send(c, buf_peek(&head), c->method == HTTP_HEAD ? STR_EMPTY : body);
    buf_deinit(&head);
}

/* -- responses --------------------------------------------------------------------------------- */

static void answer_text(struct http_connection *c, int status, const char *text, const char *allow)
{
    struct http_answer answer = {
        .status = status, .content_type = PLAIN_TEXT, .cache_control = "no-store", .allow = allow};
    enum err err;

    buf_deinit(&c->own_body);
    buf_init(&c->own_body, HTTP_RESPONSE_MAX);
    err = buf_appendf(&c->own_body, "%d %s\n", status, text);
    if (err)
        http_connection_fail(c);
    else
        http_request_send(c, &answer, buf_peek(&c->own_body));
}

void http_request_refuse(struct http_connection *c, int status)
{
    const char *allow = c->methods == HTTP_GET    ? "GET, HEAD"
                        : c->methods == HTTP_POST ? "POST"
                                                  : "GET, HEAD, POST";

    answer_text(c, status, http_reason(status), status == 405 ? allow : NULL);
}

static bool etag_matches(struct str if_none_match, struct str etag)
{
    struct str rest = if_none_match, one;

    if (etag.len == 0 || if_none_match.len == 0) return false;
    while (str_split(&rest, ',', &one)) {
        one = str_trim(one);
        if (str_equal(one, STR("*"))) return true;
        if (str_starts(one, STR("W/"))) one = str_tail(one, 2); /* a GET ignores the weak mark W/ */
        if (str_equal(one, etag)) return true;
    }
    return false;
}

static void answer_page(struct http_connection *c, struct http_page *own_page)
{
    struct http_answer answer = {.cache_control = "no-cache",
                                 .status = own_page->status,
                                 .content_type = own_page->content_type,
                                 .etag = own_page->etag};
    struct str body = own_page->body;

    c->page = own_page;
    if (own_page->status == 200 &&
        etag_matches(c->head.fields[FIELD_IF_NONE_MATCH], str_from(own_page->etag))) {
        answer.status = 304;
        answer.content_type = NULL;
        body = STR_EMPTY;
    }
    http_request_send(c, &answer, body);
}

/* The connection takes over the body's memory. */
static void answer_filled(struct http_connection *c, const struct http_response *filled)
{
    struct http_answer answer = {
        .status = filled->status,
        .content_type = filled->content_type,
        .cache_control = "no-store",
    };

    assert(filled->status >= 200 && filled->status <= 599);
    if (filled->err == ERR_NOMEM)
        answer_text(c, 503, "out of memory", NULL);
    else if (filled->err)
        http_request_refuse(c, 500);
    else
        http_request_send(c, &answer, buf_peek(&c->own_body));
}

static void answer_handler(struct http_connection *c, const struct route *route)
{
    const struct tls_identity *identity = c->expired ? NULL : stream_peer_identity(c->stream);
    const struct str *fields = c->head.fields;
    struct http_request request = {
        .method = c->method == HTTP_HEAD ? HTTP_GET : c->method,
        .path = c->path,
        .query = c->query,
        .body = buf_peek(&c->body),
        .content_type = fields[FIELD_CONTENT_TYPE],
        .authorization = fields[FIELD_AUTHORIZATION],
        .host = fields[FIELD_HOST],
        .origin = fields[FIELD_ORIGIN],
        .identity = identity && identity->uri_count > 0 ? identity : NULL,
    };
    struct http_response response = {.status = 200, .content_type = PLAIN_TEXT};

    buf_init(&response.body, c->server->response_max);
    route->handler(route->context, &request, &response);
    http_lock(c->server);
    c->server->in_handler = false;
    pthread_cond_broadcast(&c->server->handler_ended);
    http_unlock(c->server);
    buf_deinit(&c->own_body);
    c->own_body = response.body;
    answer_filled(c, &response);
}

void http_request_answer(struct http_connection *c)
{
    struct route route = {.kind = ROUTE_NONE};
    int refuse = c->refuse;

    if (!refuse) refuse = target_read(c);
    if (!refuse) refuse = route_take(c, &route);
    if (refuse) {
        http_request_refuse(c, refuse);
    } else if (route.kind == ROUTE_PAGE) {
        answer_page(c, route.page);
    } else if (route.kind == ROUTE_HANDLER) {
        answer_handler(c, &route);
    } else if (atomic_load(&c->server->readers) >= c->server->readers_max) {
        answer_text(c, 503, "too many readers", NULL);
    } else {
        c->channel = route.channel;
        http_channel_answer(c);
    }
}
