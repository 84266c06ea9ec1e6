/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of plain HTTP beside the calls, for probes: /health and the like.
 *
 * By HTTP/2 a GET is a request among others. HTTP/1.1 is recognised by the first bytes of a
 * connection: a gRPC client begins with "PRI", a probe with "GET" or "HEAD". Such a connection gets
 * one answer and ends. The server sends nothing before the first byte, because a peer that speaks
 * HTTP/1.1 could not read its SETTINGS. */
#include <stdio.h>

#include "io/http_head.h"
#include "rpc/page_head.h"
#include "rpc/server_internal.h"

enum { HEAD_MAX = 8 << 10, ANSWER_HEAD_MAX = 256 };

void rpc_server_pages(struct rpc_server *server, rpc_page_fn *page, void *owner)
{
    assert(server->listener_count == 0);
    server->page = page;
    server->page_owner = owner;
}

/* False: there is no such page. */
static bool page_find(const struct rpc_server *s, struct str path, struct rpc_page *page)
{
    struct str query = path;

    *page = (struct rpc_page){.status = 200, .type = "text/plain"};
    if (!s->page || !str_split(&query, '?', &path)) return false;
    return s->page(s->page_owner, path, page);
}

bool page_answer(struct connection *c, int32_t stream, struct str path, bool head)
{
    struct rpc_page page;
    char status[4];
    struct h2_header headers[] = {{STR(":status"), {status, 3}}, {STR("content-type"), STR_EMPTY}};
    const struct h2_header trailers[] = {{STR("grpc-status"), STR("0")}};
    struct str body;
    enum err err;

    if (!page_find(c->server, path, &page)) return false;
    (void)snprintf(status, sizeof status, "%03u", page.status % 1000);
    headers[1].value = str_from(page.type);
    body = str_of(page.body, page.len);
    err = h2_respond(c->h2, stream, headers, ARRAY_LEN(headers), head);
    if (!err && !head) err = h2_send(c->h2, stream, &body, 1);
    if (!err && !head) err = h2_send_trailers(c->h2, stream, trailers, ARRAY_LEN(trailers));
    if (err) h2_reset(c->h2, stream, H2_INTERNAL_ERROR);
    return true;
}

/* -- HTTP/1.1 -- */

bool page_is_http1(const struct connection *c, struct str bytes)
{
    if (!c->server->page) return false;
    if (c->page_head.len > 0) return true;
    if (h2_pace(c->h2)->begun || bytes.len == 0) return false;
    if (c->identity && !stream_alpn(c->stream)[0]) return true; /* TLS without "h2" */
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
