/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are not gRPC: pages for probes, such as /health, and responses to all others.
 *
 * HTTP/1.1 is recognised by the first bytes of a connection: a gRPC client begins with "PRI", a
 * probe with "GET" or "HEAD". An HTTP/1.1 connection gets one response and is closed. The server
 * sends nothing before the first byte, because an HTTP/1.1 peer could not parse its SETTINGS.
 *
 * Any other request that is not gRPC becomes a call without a method. Its response contains a text,
 * because such a peer ignores trailers, and a status for gRPC clients. */
#include <stdio.h>
#include <string.h>

#include "io/http_head.h"
#include "rpc/server_internal.h"

enum {
    HEAD_MAX = 8 << 10,
    ANSWER_HEAD_MAX = 256,
    BODY_PATIENCE = 64 << 10, /* bytes of a request's body that are discarded before the answer */
};

void rpc_server_pages(struct rpc_server *server, rpc_page_fn *page, void *owner)
{
    assert(server->listener_count == 0);
    server->page = page;
    server->page_owner = owner;
}

/* False: no such page. */
static bool page_find(const struct rpc_server *s, struct str path, struct rpc_page *page)
{
    struct str query = path;

    *page = (struct rpc_page){.status = 200, .type = "text/plain"};
    if (!s->page || !str_split(&query, '?', &path)) return false;
    return s->page(s->page_owner, path, page);
}

/* `head`: only the headers */
static void plain_answer_send(struct h2 *h2, int32_t stream, const struct h2_header headers[2],
                              struct str body, const struct h2_header *trailers,
                              size_t trailer_count, bool head)
{
    enum err err = h2_respond(h2, stream, headers, 2, head);

    if (!err && !head) err = h2_send(h2, stream, &body, 1);
    if (!err && !head) err = h2_send_trailers(h2, stream, trailers, trailer_count);
    if (err) h2_reset(h2, stream, H2_INTERNAL_ERROR);
}

bool page_answer(struct connection *c, int32_t stream, struct str path, bool head)
{
    struct rpc_page page;
    char status[4];
    struct h2_header headers[] = {{STR(":status"), {status, 3}}, {STR("content-type"), STR_EMPTY}};
    const struct h2_header trailers[] = {{STR("grpc-status"), STR("0")}};

    if (!page_find(c->server, path, &page)) return false;
    (void)snprintf(status, sizeof status, "%03u", page.status % 1000);
    headers[1].value = str_from(page.type);
    plain_answer_send(c->h2, stream, headers, str_of(page.body, page.len), trailers, 1, head);
    return true;
}

/* -- requests that are not gRPC -- */

void stranger_begin(struct rpc_call *call, const struct plain_answer *answer, bool head)
{
    call->plain = answer;
    call->no_body = head;
    if (call->request == REQUEST_ENDED)
        stranger_answer(call);
    else
        timer_start_in(&call->timer, call->server->limits.header_timeout_ms);
}

void stranger_data(struct rpc_call *call)
{
    if (call->body_came > BODY_PATIENCE) stranger_answer(call);
}

void stranger_answer(struct rpc_call *call)
{
    const struct h2_header headers[] = {{STR(":status"), call->plain->http_status},
                                        {STR("content-type"), STR("text/plain")}};
    const struct h2_header trailers[] = {{STR("grpc-status"), STR("13")}, /* 13 is INTERNAL */
                                         {STR("grpc-message"), call->plain->text}};
    struct note body;

    note_set(&body, "%.*s\n", STR_ARG(call->plain->text));
    plain_answer_send(call->connection->h2, call->stream, headers, str_from(body.text), trailers, 2,
                      call->no_body);
    call_decide(call, GRPC_INTERNAL);
    call_response_to(call, RESPONSE_SENT);
    timer_stop(&call->timer);
    connection_mark_dirty(call->connection);
}

/* -- HTTP/1.1 -- */

enum page_head page_head_read(struct str bytes, struct page_ask *ret_ask)
{
    const char *end = bytes.len ? memmem(bytes.at, bytes.len, "\r\n\r\n", 4) : NULL;
    struct str rest, line, method, query, version;
    struct page_ask ask;

    if (!end) return PAGE_HEAD_MORE;
    rest = str_of(bytes.at, (size_t)(end - bytes.at));
    (void)str_split(&rest, '\r', &line);
    if (!str_split(&line, ' ', &method) || !str_split(&line, ' ', &query) ||
        !str_split(&line, ' ', &version) || !str_starts(version, STR("HTTP/1.")) || line.at)
        return PAGE_HEAD_BROKEN;
    ask.head = str_equal(method, STR("HEAD"));
    if (!ask.head && !str_equal(method, STR("GET"))) return PAGE_HEAD_OTHER;
    (void)str_split(&query, '?', &ask.path);
    *ret_ask = ask;
    return PAGE_HEAD_ASKS;
}

bool page_is_http1(const struct connection *c, struct str bytes)
{
    if (!c->server->page) return false;
    if (c->page_head.len > 0) return true;
    if (h2_pace(c->h2)->begun || bytes.len == 0) return false;
    if (c->identity && !stream_alpn(c->stream)[0]) return true; /* TLS, but without "h2" */
    return bytes.at[0] == 'G' || bytes.at[0] == 'H';
}

static void page_send(struct connection *c, const struct rpc_page *page, bool head)
{
    char top[ANSWER_HEAD_MAX];
    int len = snprintf(top, sizeof top,
                       "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                       "Connection: close\r\n\r\n",
                       page->status, http_reason((int)page->status), page->type, page->len);
    struct str parts[] = {str_of(top, (size_t)len), str_of(page->body, head ? 0 : page->len)};

    assert(len > 0 && len < ANSWER_HEAD_MAX);
    (void)stream_write(c->stream, parts, parts[1].len > 0 ? 2 : 1);
    connection_end(c);
}

static void page_send_status(struct connection *c, unsigned status)
{
    page_send(c, &(struct rpc_page){.status = status, .type = "text/plain"}, false);
}

void page_feed(struct connection *c, struct str bytes)
{
    struct buf *head = &c->page_head;
    struct rpc_page page;
    struct page_ask ask;

    if (!head->max) buf_init(head, HEAD_MAX);
    if (buf_append(head, bytes)) {
        page_send_status(c, 400);
        return;
    }
    switch (page_head_read(buf_peek(head), &ask)) {
    case PAGE_HEAD_MORE: break;
    case PAGE_HEAD_BROKEN: page_send_status(c, 400); break;
    case PAGE_HEAD_OTHER: page_send_status(c, 405); break;
    case PAGE_HEAD_ASKS:
        if (page_find(c->server, ask.path, &page))
            page_send(c, &page, ask.head);
        else
            page_send_status(c, 404);
    }
}
