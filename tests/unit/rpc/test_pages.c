/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of plain HTTP on a gRPC server's listener: HTTP/1.1, HTTP/2, and beside calls. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "rig.h"

static struct rig rig;

static bool page(void *owner, struct str path, struct rpc_page *page)
{
    CHECK("its owner", owner == &rig);
    if (str_equal(path, STR("/ill"))) page->status = 503;
    if (!str_equal(path, STR("/health")) && page->status == 200) return false;
    page->type = "application/json";
    page->len = (size_t)snprintf(page->body, sizeof page->body, "{\"health\":\"true\"}");
    return true;
}

static void with_pages(struct rig *r)
{
    rpc_server_pages(r->server, page, r);
}

static bool has_ended(void *client)
{
    return ((struct client *)client)->ended;
}

/* The answer to this request, sent `step` bytes at a time. */
static struct str reported(const char *request, size_t step)
{
    struct client *c = client_connect(&rig, 0, true);
    struct str rest = str_from(request);

    c->keep = true;
    rig_run(&rig, 10);
    CHECK_SIZE("the server does not send first", c->heard, 0);
    while (rest.len > 0 && !c->ended) {
        size_t len = min_size(step, rest.len);

        client_bytes(c, str_of(rest.at, len));
        rest = str_tail(rest, len);
        rig_run(&rig, 1);
    }
    rig_wait(&rig, "one answer a connection", has_ended, c);
    return buf_peek(&c->answers[0].body);
}

static void check_answer(const char *request, size_t step, const char *expected)
{
    struct str got = reported(request, step);

    CHECK_STR(request, got, str_from(expected));
    client_close(&rig.clients[0]);
    rig_run(&rig, 10);
}

#define ANSWER(status, type, length, body)                                                         \
    "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nContent-Length: " length                     \
    "\r\nConnection: close\r\n\r\n" body
#define GOOD ANSWER("200 OK", "application/json", "17", "{\"health\":\"true\"}")

TEST(a_page_by_http_1_however_its_request_is_cut)
{
    rig_open(&rig, NULL, NULL, with_pages);
    for (size_t step = 1; step < 60; step += 7)
        check_answer("GET /health HTTP/1.1\r\nHost: x\r\n\r\n", step, GOOD);
    check_answer("GET /health?exclude=x HTTP/1.0\r\n\r\n", 99, GOOD);
    check_answer("HEAD /health HTTP/1.1\r\n\r\n", 99,
                 ANSWER("200 OK", "application/json", "17", ""));
    check_answer(
        "GET /ill HTTP/1.1\r\n\r\n", 99,
        ANSWER("503 Service Unavailable", "application/json", "17", "{\"health\":\"true\"}"));
    check_answer("GET / HTTP/1.1\r\n\r\n", 99, ANSWER("404 Not Found", "text/plain", "0", ""));
    check_answer("GETTING /health HTTP/1.1\r\n\r\n", 99,
                 ANSWER("405 Method Not Allowed", "text/plain", "0", ""));
    check_answer("GET /health\r\n\r\n", 99, ANSWER("400 Bad Request", "text/plain", "0", ""));
    check_answer("GET  /health HTTP/1.1\r\n\r\n", 99,
                 ANSWER("400 Bad Request", "text/plain", "0", ""));
    rig_close(&rig);
}

TEST(a_request_without_an_end_is_bounded_in_bytes_and_in_time)
{
    static char long_one[9000];
    struct client *c;

    rig_open(&rig, &(struct rpc_server_limits){.handshake_timeout_ms = 2000}, NULL, with_pages);
    memset(long_one, 'G', sizeof long_one - 1);
    check_answer(long_one, 4000, ANSWER("400 Bad Request", "text/plain", "0", ""));
    c = client_connect(&rig, 1, true);
    client_bytes(c, STR("GET /health HTTP/1.1\r\n"));
    rig_run(&rig, 1900);
    CHECK("patience", c->open && !c->ended);
    client_wait_gone(c);
    rig_close(&rig);
}

static int32_t ask(struct client *c, const char *method, const char *path)
{
    const struct h2_header headers[] = {{STR(":method"), str_from(method)},
                                        {STR(":scheme"), STR("http")},
                                        {STR(":path"), str_from(path)},
                                        {STR(":authority"), STR("server")}};
    int32_t stream = 0;

    CHECK_OK("request", h2_request(c->h2, headers, ARRAY_LEN(headers), true, &stream));
    rig_client_flush(c);
    client_wait_closed(c, stream);
    return stream;
}

TEST(a_page_by_http_2_beside_calls)
{
    struct client *c;
    int32_t stream;

    rig_open(&rig, NULL, NULL, with_pages);
    c = client_connect(&rig, 0, false);
    c->keep = true;
    stream = ask(c, "GET", "/health");
    CHECK_I64("found", client_answer(c, stream)->http, 200);
    CHECK_STR("its body", buf_peek(&client_answer(c, stream)->body), STR("{\"health\":\"true\"}"));
    stream = ask(c, "HEAD", "/health");
    CHECK_I64("its head", client_answer(c, stream)->http, 200);
    CHECK_SIZE("alone", client_answer(c, stream)->bytes, 0);
    CHECK_I64("no such page", client_answer(c, ask(c, "GET", "/"))->http, 405);
    CHECK_I64("not to be written", client_answer(c, ask(c, "DELETE", "/health"))->http, 405);
    stream = client_unary(c, "/muster.test.v1.Echo/Unary", &ECHO_REQUEST());
    client_wait_closed(c, stream);
    CHECK_I64("calls go on", client_answer(c, stream)->grpc, 0);
    rig_close(&rig);
}

TEST(a_server_without_pages_has_none)
{
    struct client *c;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, true);
    c->keep = true;
    client_bytes(c, STR("GET /health HTTP/1.1\r\n\r\n"));
    client_wait_gone(c);
    CHECK("no answer in HTTP/1.1", !str_starts(buf_peek(&c->answers[0].body), STR("HTTP/1.")));
    rig_close(&rig);
}
