/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server against raw sockets and curl. */
#include "io/http.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cert/cert.h"
#include "io/clock.h"
#include "io/fs.h"
#include "lib/http_client.h"
#include "lib/test.h"

static struct http_server *server_with(struct http_options options)
{
    struct http_server *server = NULL;
    struct note note = {""};
    if (!options.address) options.address = "127.0.0.1:0";
    enum err err = http_open(&options, &server, &note);
    if (err) print_error("%s\n", note.text);
    CHECK_OK("the server opens", err);
    return server;
}

static struct http_server *server_open(void)
{
    return server_with((struct http_options){0});
}

/* Answers with the request. */
static void echo(void *context, const struct http_request *request, struct http_response *response)
{
    (void)context;
    response->err =
        buf_appendf(&response->body, "method=%u path=%.*s query=%.*s type=%.*s body=%.*s",
                    (unsigned)request->method, STR_ARG(request->path), STR_ARG(request->query),
                    STR_ARG(request->content_type), STR_ARG(request->body));
}

static struct http_server *echo_server(void)
{
    struct http_server *server = server_open();
    CHECK_OK("route", http_route(server, "/echo/a b/c", HTTP_GET, echo, NULL));
    CHECK_OK("route", http_route(server, "/echo/x", HTTP_GET | HTTP_POST, echo, NULL));
    CHECK_OK("route", http_route(server, "/echo/..x", HTTP_GET, echo, NULL));
    CHECK_OK("route", http_route(server, "/get", HTTP_GET, echo, NULL));
    CHECK_OK("route", http_route(server, "/post", HTTP_POST, echo, NULL));
    CHECK_OK("page", http_publish(server, "/page", "text/html", STR("<p>hello</p>")));
    return server;
}

static const struct {
    const char *why, *request;
    int status;
    const char *part; /* of head and body */
} request_cases[] = {
    {"a page", "GET /page HTTP/1.1\r\nHost: x\r\n\r\n", 200, "\r\n\r\n<p>hello</p>"},
    {"a handler sees its query raw", "GET /get?a=%20b HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "path=/get query=a=%20b"},
    {"a handler sees its path decoded", "GET /echo/a%20b%2fc HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "path=/echo/a b/c "},
    {"a prefix is not its own parent", "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n", 404,
     "404 Not Found"},
    {"an exact route is exact", "GET /get/ HTTP/1.1\r\nHost: x\r\n\r\n", 404, "404 Not Found"},
    {"a page is exact", "GET /page/x HTTP/1.1\r\nHost: x\r\n\r\n", 404, "404 Not Found"},
    {"absolute form, as proxies send it", "GET http://x/get?q HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "path=/get query=q"},
    {"absolute form without path", "GET http://x?q HTTP/1.1\r\nHost: x\r\n\r\n", 400, "400 Bad"},
    {"a body",
     "POST /post HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\nabc", 200,
     "type=a/b body=abc"},
    {"a chunked body",
     "POST /post HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
     "chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
     200, "body=abc"},
    {"a coding in capitals",
     "POST /post HTTP/1.1\r\nHost: x\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n"
     "3\r\nabc\r\n0\r\n\r\n",
     200, "body=abc"},
    {"every byte a name may have", "GET /page HTTP/1.1\r\nHost: x\r\n!#$%&'*+-.^_`|~aZ9: 1\r\n\r\n",
     200, "hello"},
    {"HEAD of a page has its length and no body", "HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "Content-Length: 12"},
    {"HEAD of a GET handler runs it as GET", "HEAD /get HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "Content-Length: 37"},
    {"the wrong method names the right ones",
     "POST /get HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, "Allow: GET, HEAD\r\n"},
    {"and where only POST is right", "GET /post HTTP/1.1\r\nHost: x\r\n\r\n", 405,
     "Allow: POST\r\n"},
    {"and where both are", "PUT /echo/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405,
     "Allow: GET, HEAD, POST\r\n"},
    {"a method nobody knows", "BREW /page HTTP/1.1\r\nHost: x\r\n\r\n", 405,
     "Allow: GET, HEAD\r\n"},
    {"half a percent sign", "GET /echo/%2 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "400 Bad Request"},
    {"a percent sign with no hex", "GET /echo/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400,
     "400 Bad Request"},
    {"an encoded NUL", "GET /page%00x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "400 Bad Request"},
    {"an encoded line end", "GET /echo/%0d%0aX HTTP/1.1\r\nHost: x\r\n\r\n", 400,
     "400 Bad Request"},
    {"not UTF-8", "GET /echo/%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400, "400 Bad Request"},
    {"going up", "GET /echo/../page HTTP/1.1\r\nHost: x\r\n\r\n", 400, "400 Bad Request"},
    {"going up, encoded", "GET /echo/%2e%2e%2fpage HTTP/1.1\r\nHost: x\r\n\r\n", 400,
     "400 Bad Request"},
    {"a single dot", "GET /echo/./x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "400 Bad Request"},
    {"dots inside a name are a name", "GET /echo/..x HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "path=/echo/..x "},
    {"no host", "GET /page HTTP/1.1\r\n\r\n", 400, "400"},
    {"the old protocol", "GET /page HTTP/1.0\r\n\r\n", 200, "<p>hello</p>"},
    {"browsers may not guess types", "GET /page HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "X-Content-Type-Options: nosniff\r\n"},
    {"nor frame us", "GET /none HTTP/1.1\r\nHost: x\r\n\r\n", 404, "X-Frame-Options: DENY\r\n"},
    {"nor take scripts from elsewhere", "GET /get HTTP/1.1\r\nHost: x\r\n\r\n", 200,
     "Content-Security-Policy: default-src 'self'"},
};

TEST(requests_are_answered_as_the_header_says)
{
    struct http_server *server = echo_server();
    for (size_t i = 0; i < ARRAY_LEN(request_cases); i++) {
        char *text = NULL;
        int status = client_ask(http_address(server), request_cases[i].request, &text);
        CHECK_I64(request_cases[i].why, status, request_cases[i].status);
        CHECK_HAS(request_cases[i].why, text, request_cases[i].part);
        free(text);
    }
    CHECK("refusals are counted", http_stats(server).errors >= 10);
    http_close(server);
}

#define POST_HEAD "POST /post HTTP/1.1\r\nHost: x\r\n"
#define BYTES(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
#define SMUGGLED "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
static const struct {
    const char *why;
    struct str request;
} framing_cases[] = {
    {"two lengths that differ",
     BYTES(POST_HEAD "Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello")},
    {"two lengths that agree",
     BYTES(POST_HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello")},
    {"a list of lengths", BYTES(POST_HEAD "Content-Length: 5, 5\r\n\r\nhello")},
    {"a length with a sign", BYTES(POST_HEAD "Content-Length: +5\r\n\r\nhello")},
    {"an empty length", BYTES(POST_HEAD "Content-Length:\r\n\r\nhello")},
    {"a length and a coding",
     BYTES(POST_HEAD "Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED)},
    {"a coding and a length",
     BYTES(POST_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\n" SMUGGLED)},
    {"a space before the colon of a length",
     BYTES(POST_HEAD "Content-Length : 5\r\n\r\nhello" SMUGGLED)},
    {"a space before the colon of a coding",
     BYTES(POST_HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" SMUGGLED)},
    {"a tab before a colon", BYTES(POST_HEAD "Content-Length\t: 5\r\n\r\nhello")},
    {"a control byte in a name", BYTES(POST_HEAD "Content\x01Length: 5\r\n\r\nhello")},
    {"a byte above ASCII in a name", BYTES(POST_HEAD "\xc3\xa4: 5\r\n\r\n")},
    {"another coding", BYTES(POST_HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n")},
    {"two codings in one", BYTES(POST_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")},
    {"two codings",
     BYTES(POST_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"identity beside chunked",
     BYTES(POST_HEAD "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"identity", BYTES(POST_HEAD "Transfer-Encoding: identity\r\n\r\n")},
    {"a coding in quotes", BYTES(POST_HEAD "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n")},
    {"an empty coding", BYTES(POST_HEAD "Transfer-Encoding:\r\n\r\n0\r\n\r\n")},
    {"a GET with both",
     BYTES(
         "GET /page HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n" SMUGGLED)},
    {"chunks in the old protocol",
     BYTES("POST /post HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"two hosts", BYTES("GET /page HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" SMUGGLED)},
};

TEST(a_request_whose_end_can_be_read_in_two_ways_is_refused_and_the_connection_closed)
{
    struct http_server *server = echo_server();
    for (size_t i = 0; i < ARRAY_LEN(framing_cases); i++) {
        const char *why = framing_cases[i].why;
        struct client c;
        struct reply reply;
        CHECK(why, client_open(&c, http_address(server)));
        CHECK(why, client_send(&c, framing_cases[i].request));
        CHECK(why, client_reply(&c, false, &reply));
        CHECK_I64(why, reply.status, 400);
        CHECK_STR(why, reply_header(&reply, "Connection"), STR("close"));
        CHECK_I64(why, client_receive(&c), 0);
        CHECK_SIZE("nothing after it was served", c.received.len, 0);
        client_close(&c);
    }
    http_close(server);
}

TEST(one_connection_serves_many_requests_and_pipelines_them_in_order)
{
    struct http_server *server = echo_server();
    struct client c;
    struct reply reply;
    char expected[64];

    CHECK("connect", client_open(&c, http_address(server)));
    for (int i = 0; i < 50; i++) {
        char request[128];
        snprintf(request, sizeof request,
                 i % 5 == 3 ? "POST /post?%d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                            : "GET /get?%d HTTP/1.1\r\nHost: x\r\n\r\n",
                 i);
        CHECK("all are sent before any answer is read", client_send_c(&c, request));
    }
    for (int i = 0; i < 50; i++) {
        CHECK("each is answered", client_reply(&c, false, &reply));
        CHECK_I64("with success", reply.status, 200);
        snprintf(expected, sizeof expected, "query=%d ", i);
        CHECK("in the order of asking",
              memmem(reply.body.at, reply.body.len, expected, strlen(expected)) != NULL);
    }
    CHECK_U32("over one connection", http_stats(server).connections, 1);
    client_close(&c);
    http_close(server);
}

TEST(a_page_is_revalidated_by_its_tag_and_replaced_whole)
{
    struct http_server *server = server_open();
    struct client c;
    struct reply reply;
    char tag[64], request[256];

    CHECK_OK("publish", http_publish(server, "/p", "text/plain", STR("one")));
    CHECK("connect", client_open(&c, http_address(server)));
    client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK("answer", client_reply(&c, false, &reply));
    CHECK_STR("the content", reply.body, STR("one"));
    snprintf(tag, sizeof tag, "%.*s", STR_ARG(reply_header(&reply, "ETag")));
    snprintf(request, sizeof request,
             "GET /p HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"no\", W/%s\r\n\r\n", tag);
    client_send_c(&c, request);
    CHECK("answer", client_reply(&c, true, &reply));
    CHECK_I64("unchanged", reply.status, 304);
    CHECK_TEXT("the tag is sent again", tag, tag);
    CHECK_STR("same tag", reply_header(&reply, "ETag"), str_from(tag));

    CHECK_OK("replace", http_publish(server, "/p", "text/plain", STR("two")));
    client_send_c(&c, request);
    CHECK("answer", client_reply(&c, false, &reply));
    CHECK_I64("changed", reply.status, 200);
    CHECK_STR("the new content", reply.body, STR("two"));
    CHECK_OK("the same content again", http_publish(server, "/p", "text/plain", STR("one")));
    client_send_c(&c, request);
    CHECK("answer", client_reply(&c, true, &reply));
    CHECK_I64("has the same tag", reply.status, 304);
    client_close(&c);
    http_close(server);
}

TEST(a_reader_of_a_large_page_finishes_it_while_it_is_replaced)
{
    enum { SIZE = 8 << 20 };
    struct http_server *server = server_open();
    char *page = malloc(SIZE);
    struct client c;
    struct reply reply;

    memset(page, 'a', SIZE);
    CHECK_OK("publish", http_publish(server, "/p", "text/plain", str_of(page, SIZE)));
    CHECK("connect", client_open(&c, http_address(server)));
    client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK("it has begun", client_receive(&c) == 1);
    for (int i = 0; i < 20; i++) {
        memset(page, 'b' + i, SIZE);
        CHECK_OK("replace", http_publish(server, "/p", "text/plain", str_of(page, SIZE)));
    }
    CHECK("the first reader gets all of it", client_reply(&c, false, &reply));
    CHECK_SIZE("in full", reply.body.len, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        if (reply.body.at[i] != 'a') CHECK("and nothing of the next one", false);
    client_close(&c);
    free(page);
    http_close(server);
}

TEST(a_body_over_the_limit_is_413)
{
    struct http_server *server = server_with((struct http_options){.body_max = 1000});
    struct client c;
    struct reply reply;
    char chunk[700];
    CHECK_OK("route", http_route(server, "/post", HTTP_POST, echo, NULL));

    CHECK("connect", client_open(&c, http_address(server)));
    client_send_c(&c, "POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
    CHECK("an announced one is refused without waiting", client_reply(&c, false, &reply));
    CHECK_I64("413", reply.status, 413);
    CHECK("and the connection ends", client_receive(&c) == 0);
    client_close(&c);

    CHECK("connect", client_open(&c, http_address(server)));
    client_send_c(&c, "POST /post HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    memset(chunk, 'x', sizeof chunk);
    for (int i = 0; i < 2; i++) {
        client_send_c(&c, "2bc\r\n");
        client_send(&c, str_of(chunk, sizeof chunk));
        client_send_c(&c, "\r\n");
    }
    client_send_c(&c, "0\r\n\r\nPOST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok");
    CHECK("an unannounced one is read and refused", client_reply(&c, false, &reply));
    CHECK_I64("413", reply.status, 413);
    CHECK("the next request on it is served", client_reply(&c, false, &reply));
    CHECK_HAS("with its own body", reply.body.at, "body=ok");
    client_close(&c);

    CHECK_I64(
        "a huge number is refused too",
        client_ask(http_address(server),
                   "POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n",
                   NULL) /
            100,
        4);

    CHECK("connect", client_open(&c, http_address(server)));
    client_send_c(&c, "POST /post HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (client_send_c(&c, "2bc\r\n") && client_send(&c, str_of(chunk, sizeof chunk)) &&
           client_send_c(&c, "\r\n")) { /* ends: the server closes past HTTP_DRAIN_MAX */
    }
    client_close(&c);

    client_open(&c, http_address(server));
    client_send_c(&c, "GET /post HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n");
    CHECK("a GET that announces too much is refused, too", client_reply(&c, false, &reply));
    CHECK_I64("413", reply.status, 413);
    CHECK("and the connection ends", client_receive(&c) == 0);
    client_close(&c);
    http_close(server);
}

TEST(headers_over_the_limit_are_refused)
{
    struct http_server *server = echo_server();
    static char request[HTTP_HEAD_MAX * 2 + 100];
    int status;

    size_t at = (size_t)sprintf(request, "GET /page HTTP/1.1\r\nHost: x\r\nA: ");
    memset(request + at, 'a', HTTP_HEAD_MAX * 2);
    strcpy(request + at + HTTP_HEAD_MAX * 2, "\r\n\r\n");
    status = client_ask(http_address(server), request, NULL);
    CHECK("a long header", status == 431 || status == 413 || status == 0);

    at = (size_t)sprintf(request, "GET /");
    memset(request + at, 'a', HTTP_HEAD_MAX * 2);
    strcpy(request + at + HTTP_HEAD_MAX * 2, " HTTP/1.1\r\n\r\n");
    status = client_ask(http_address(server), request, NULL);
    CHECK("a long target", status == 414 || status == 431 || status == 413 || status == 0);
    CHECK_I64("others are served",
              client_ask(http_address(server), "GET /page HTTP/1.1\r\nHost: x\r\n\r\n", NULL), 200);
    http_close(server);
}

static void too_much(void *context, const struct http_request *request,
                     struct http_response *response)
{
    (void)context, (void)request;
    while (!response->err) response->err = buf_append(&response->body, STR("0123456789abcdef"));
}

TEST(a_handler_may_fail)
{
    struct http_server *server = server_with((struct http_options){.response_max = 1000});
    char *text = NULL;
    const char *at = http_address(server);
    CHECK_OK("route", http_route(server, "/big", HTTP_GET, too_much, NULL));

    CHECK_I64("more than response_max is 500",
              client_ask(at, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n", &text), 500);
    CHECK("and nothing of the body leaks", !strstr(text, "0123"));
    free(text);
    CHECK_ERR("a page too large", http_publish(server, "/p", "text/plain", str_of("", 1001)),
              ERR_TOO_LARGE);
    http_close(server);
}

TEST(routes_are_bounded_and_unique)
{
    struct http_server *server = server_open();
    struct http_channel *channel;
    char path[64];
    CHECK_ERR("no slash", http_route(server, "x", HTTP_GET, echo, NULL), ERR_INVALID);
    CHECK_ERR("going up", http_route(server, "/../x", HTTP_GET, echo, NULL), ERR_INVALID);
    CHECK_ERR("no method", http_route(server, "/x", 0, echo, NULL), ERR_INVALID);
    CHECK_ERR("no handler", http_route(server, "/x", HTTP_GET, NULL, NULL), ERR_INVALID);
    CHECK_ERR("no events", http_channel_open(server, "/x", 0, &channel), ERR_INVALID);
    CHECK_OK("route", http_route(server, "/x", HTTP_GET, echo, NULL));
    CHECK_ERR("twice", http_route(server, "/x", HTTP_GET, echo, NULL), ERR_EXISTS);
    CHECK_ERR("a page over a handler", http_publish(server, "/x", "a/b", STR("")), ERR_EXISTS);
    CHECK_ERR("a channel over a handler", http_channel_open(server, "/x", 1, &channel), ERR_EXISTS);
    for (int i = 1; i < HTTP_ROUTES_MAX; i++) {
        snprintf(path, sizeof path, "/p%d", i);
        CHECK_OK("up to the bound", http_publish(server, path, "a/b", STR("")));
    }
    CHECK_ERR("and no further", http_publish(server, "/one-more", "a/b", STR("")), ERR_FULL);
    CHECK_ERR("nor a channel", http_channel_open(server, "/one-more", 1, &channel), ERR_FULL);
    CHECK_OK("but a page that is there is replaced", http_publish(server, "/p1", "a/b", STR("x")));
    http_close(server);
}

TEST(addresses_and_files_that_do_not_work_are_named)
{
    struct http_server *server = server_open(), *other;
    struct note note = {""};
    CHECK_ERR("in use",
              http_open(&(struct http_options){.address = http_address(server)}, &other, &note),
              ERR_BUSY);
    CHECK_HAS("names it", note.text, http_address(server));
    static const char *const bad[] = {"",       "127.0.0.1",  "127.0.0.1:65536", "127.0.0.1:x",
                                      "::1:80", "300.0.0.1:0"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_ERR(bad[i], http_open(&(struct http_options){.address = bad[i]}, &other, &note),
                  ERR_INVALID);
    CHECK_ERR("a key is missing",
              http_open(&(struct http_options){.address = "127.0.0.1:0", .cert_file = "/x"}, &other,
                        &note),
              ERR_INVALID);
    CHECK_ERR("no such file",
              http_open(&(struct http_options){.address = "127.0.0.1:0",
                                               .cert_file = "/no/x",
                                               .key_file = "/no/y"},
                        &other, &note),
              ERR_NOT_FOUND);
    CHECK_HAS("names it", note.text, "/no/x");
    http_close(server);
    http_close(NULL);
    CHECK_OK("IPv6", http_open(&(struct http_options){.address = "[::1]:0"}, &server, &note));
    CHECK_HAS("in brackets", http_address(server), "[::1]:");
    http_close(server);
}

/* -- bounds on connections -- */

TEST(connections_past_the_bound_wait_and_past_the_peer_bound_are_closed)
{
    enum { MAX = 8 };
    struct http_server *server =
        server_with((struct http_options){.connections_max = MAX, .connections_per_peer_max = MAX});
    struct client c[MAX], late;
    struct reply reply;
    CHECK_OK("page", http_publish(server, "/p", "text/plain", STR("x")));
    for (int i = 0; i < MAX; i++) {
        CHECK("connect", client_open(&c[i], http_address(server)));
        client_send_c(&c[i], "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK("served", client_reply(&c[i], false, &reply));
    }
    CHECK("the kernel takes one more", client_open(&late, http_address(server)));
    client_send_c(&late, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < MAX; i++) {
        client_send_c(&c[i], "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK("those inside go on", client_reply(&c[i], false, &reply));
    }
    CHECK_U32("never more than the bound", http_stats(server).connections, MAX);
    client_close(&c[0]);
    CHECK("the late one is served when one leaves", client_reply(&late, false, &reply));
    client_close(&late);
    for (int i = 1; i < MAX; i++) client_close(&c[i]);
    http_close(server);

    server =
        server_with((struct http_options){.connections_max = MAX, .connections_per_peer_max = 2});
    CHECK_OK("page", http_publish(server, "/p", "text/plain", STR("x")));
    for (int i = 0; i < 2; i++) {
        CHECK("connect", client_open(&c[i], http_address(server)));
        client_send_c(&c[i], "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK("served", client_reply(&c[i], false, &reply));
    }
    client_open(&late, http_address(server));
    CHECK("the third of one peer is closed", client_receive(&late) == 0);
    client_close(&late);
    for (int i = 0; i < 2; i++) client_close(&c[i]);
    http_close(server);
}

TEST(a_slow_client_delays_no_other_and_is_closed_when_idle)
{
    struct http_server *server = server_with((struct http_options){.idle_timeout_s = 1});
    struct client slow;
    CHECK_OK("page", http_publish(server, "/p", "text/plain", STR("x")));
    CHECK("connect", client_open(&slow, http_address(server)));
    client_send_c(&slow, "GET /p HT");
    CHECK_I64("others are served meanwhile",
              client_ask(http_address(server), "GET /p HTTP/1.1\r\nHost: x\r\n\r\n", NULL), 200);
    while (client_receive(&slow) == 1) { /* ends: the idle limit closes it */
    }
    CHECK("the server ended it", client_receive(&slow) == 0);
    client_close(&slow);
    http_close(server);
}

TEST(a_peer_that_reads_nothing_of_its_answer_is_disconnected)
{
    enum { SIZE = 12 << 20 }; /* more than the socket buffers hold */
    struct http_server *server = server_with((struct http_options){.idle_timeout_s = 1});
    char *page = calloc(1, SIZE);
    struct client c;
    CHECK_OK("publish", http_publish(server, "/p", "text/plain", str_of(page, SIZE)));
    CHECK("connect", client_open(&c, http_address(server)));
    client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
    while (http_stats(server).requests == 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    while (http_stats(server).connections > 0) /* ends: the idle limit closes it */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    client_close(&c);
    free(page);
    http_close(server);
}

TEST(answers_wait_for_a_peer_that_asks_faster_than_it_reads)
{
    enum { SIZE = 256 * 1024, COUNT = 100 }; /* far more than the output's bound */
    struct http_server *server = server_open();
    char *page = calloc(1, SIZE);
    struct client c;
    struct reply reply;
    CHECK_OK("publish", http_publish(server, "/p", "text/plain", str_of(page, SIZE)));
    CHECK("connect", client_open(&c, http_address(server)));
    for (int i = 0; i < COUNT; i++) {
        CHECK("asked", client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n"));
        CHECK("asked", client_send_c(&c, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK("answered", client_reply(&c, false, &reply));
        CHECK_SIZE("whole", reply.body.len, SIZE);
        CHECK("answered", client_reply(&c, false, &reply));
        CHECK_I64("in order", reply.status, 404);
    }
    client_close(&c);
    free(page);
    http_close(server);
}

TEST(a_peer_that_leaves_in_the_middle_is_let_go_before_the_idle_limit)
{
    static const char *const beginnings[] = {
        "GET /p HT",
        "GET /p HTTP/1.1\r\nHost: x\r\n",
        "",
        "POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        "GET /p HTTP/1.1\r\nHost: x\r\n\r\n", /* answered first; no more requests can come then */
    };
    struct http_server *server = server_with((struct http_options){.keepalive_ms = 20});
    CHECK_OK("page", http_publish(server, "/p", "text/plain", STR("x")));
    CHECK_OK("route", http_route(server, "/post", HTTP_POST, echo, NULL));
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
        struct client c;
        struct reply reply;
        CHECK("connect", client_open(&c, http_address(server)));
        CHECK("send", client_send_c(&c, beginnings[i]));
        shutdown(c.fd, SHUT_WR);
        CHECK(beginnings[i], client_reply(&c, false, &reply) == (i == 4));
        CHECK("closed by the server", client_receive(&c) == 0);
        client_close(&c);
    }
    http_close(server);
}

/* -- server-sent events -- */

/* HTTP/1.0, so that no chunk header splits an event. */
static void subscribe(struct client *c, struct http_server *server, const char *extra)
{
    char request[256];
    snprintf(request, sizeof request, "GET /events HTTP/1.0\r\nHost: x\r\n%s\r\n", extra);
    CHECK("connect", client_open(c, http_address(server)));
    CHECK("subscribe", client_send_c(c, request));
    CHECK("it is an event stream", client_await(c, "Content-Type: text/event-stream\r\n"));
    CHECK("and sends the retry time at once", client_await(c, "retry: 2000\n\n"));
}

TEST(events_reach_every_reader_in_order_with_their_lines)
{
    struct http_server *server = server_open();
    struct http_channel *channel;
    struct client a, b;
    char text[64];
    CHECK_OK("channel", http_channel_open(server, "/events", 16, &channel));
    CHECK_OK("nobody listens", http_channel_send(channel, STR("early"), STR("x")));
    subscribe(&a, server, "");
    subscribe(&b, server, "");
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "number %d", i);
        CHECK_OK("send", http_channel_send(channel, STR("tick"), str_from(text)));
        snprintf(text, sizeof text, "event: tick\ndata: number %d\nid: ", i);
        CHECK("first reader", client_await(&a, text));
        CHECK("second reader", client_await(&b, text));
    }
    CHECK_OK("several lines",
             http_channel_send(channel, STR_EMPTY, STR("one\ntwo\r\nthree\rfour")));
    CHECK("become several fields",
          client_await(&a, "data: one\ndata: two\ndata: three\ndata: four\nid: "));
    CHECK_ERR("a name with a line end", http_channel_send(channel, STR("a\nb"), STR("x")),
              ERR_INVALID);
    char *large = calloc(1, HTTP_EVENT_MAX + 1);
    memset(large, 'x', HTTP_EVENT_MAX);
    CHECK_ERR("too large", http_channel_send(channel, STR("l"), str_of(large, HTTP_EVENT_MAX + 1)),
              ERR_TOO_LARGE);
    CHECK_OK("the largest", http_channel_send(channel, STR("l"), str_of(large, HTTP_EVENT_MAX)));
    CHECK("arrives", client_await(&a, "event: l\ndata: xxxx"));
    CHECK("in full", client_await(&a, "xxx\nid: "));
    free(large);
    struct client head;
    struct reply reply;
    CHECK("connect", client_open(&head, http_address(server)));
    client_send_c(&head, "HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n"
                         "HEAD /none HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK("HEAD shows the type", client_reply(&head, true, &reply) && reply.status == 200);
    CHECK_STR("of events", reply_header(&reply, "Content-Type"), STR("text/event-stream"));
    CHECK("and nothing follows it", client_reply(&head, true, &reply) && reply.status == 404);
    client_close(&head);
    client_close(&a);
    http_close(server);               /* b is still connected */
    while (client_receive(&b) == 1) { /* ends: the server is gone */
    }
    CHECK("the stream is ended", client_receive(&b) == 0);
    client_close(&b);
}

TEST(a_reader_that_lags_loses_the_oldest_and_receives_their_number)
{
    enum { KEPT = 8, SENT = 2000 };
    struct http_server *server = server_open();
    struct http_channel *channel;
    struct client slow, quick;
    char *data = malloc(64 * 1024);
    struct http_stats stats;
    uint64_t seen = 0, dropped = 0;

    memset(data, 'd', 64 * 1024);
    CHECK_OK("channel", http_channel_open(server, "/events", KEPT, &channel));
    subscribe(&slow, server, "");
    for (int i = 0; i < SENT; i++) /* 128 MB: more than any socket buffer holds */
        CHECK_OK("the sender never waits",
                 http_channel_send(channel, STR("big"), str_of(data, 64 * 1024)));
    subscribe(&quick, server, "");
    CHECK_OK("last", http_channel_send(channel, STR("last"), STR("x")));
    CHECK("a quick reader is not held up by the slow one", client_await(&quick, "event: last\n"));

    while (
        seen + dropped <
        SENT +
            1) { /* ends: the received and the dropped events of the slow reader add up, or a wait fails */
        CHECK("the slow one goes on", client_await(&slow, "event: "));
        while (slow.received.len < 16) CHECK("more", client_receive(&slow) == 1);
        if (str_starts(buf_peek(&slow.received), STR("dropped\n"))) {
            CHECK("number", client_await(&slow, "data: "));
            while (!str_has(buf_peek(&slow.received), '\n'))
                CHECK("more", client_receive(&slow) == 1);
            dropped += strtoull(slow.received.data, NULL, 10);
        } else {
            seen++;
        }
    }
    CHECK_U64("every event was either seen or reported as dropped", seen + dropped, SENT + 1);
    CHECK("and many were dropped", dropped > 0);
    stats = http_stats(server);
    CHECK_U64("the same number is counted", stats.events_dropped, dropped);
    free(data);
    client_close(&slow);
    client_close(&quick);
    http_close(server);
}

TEST(a_reader_that_comes_back_goes_on_where_it_was)
{
    struct http_server *server = server_open();
    struct http_channel *channel;
    struct client c;
    char header[128], id[64];
    CHECK_OK("channel", http_channel_open(server, "/events", 4, &channel));
    subscribe(&c, server, "");
    CHECK_OK("send", http_channel_send(channel, STR("n"), STR("1")));
    CHECK("read", client_await(&c, "data: 1\nid: "));
    while (!str_has(buf_peek(&c.received), '\n')) CHECK("more", client_receive(&c) == 1);
    snprintf(id, sizeof id, "%.*s", (int)str_find(buf_peek(&c.received), '\n'), c.received.data);
    client_close(&c);
    for (int i = 2; i <= 4; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        CHECK_OK("send", http_channel_send(channel, STR("n"), str_from(text)));
    }
    snprintf(header, sizeof header, "Last-Event-ID: %s\r\n", id);
    subscribe(&c, server, header);
    CHECK("the first it missed", client_await(&c, "event: n\ndata: 2\n"));
    CHECK("to the last", client_await(&c, "data: 4\n"));
    client_close(&c);
    for (int i = 5; i <= 9; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        CHECK_OK("send", http_channel_send(channel, STR("n"), str_from(text)));
    }
    subscribe(&c, server, header);
    CHECK("too long away: 2 to 5 are gone", client_await(&c, "event: dropped\ndata: 4\n\n"));
    CHECK("and the rest follows", client_await(&c, "data: 6\n"));
    client_close(&c);
    subscribe(&c, server, "Last-Event-ID: 0000000000000000-1\r\n");
    CHECK_OK("send", http_channel_send(channel, STR("n"), STR("new")));
    while (!memmem(c.received.data ? c.received.data : "", c.received.len, "data: new\n", 10))
        CHECK("it arrives", client_receive(&c) == 1);
    CHECK("a position of another process means nothing",
          !memmem(c.received.data, c.received.len, "data: 9\n", 8));
    client_close(&c);
    http_close(server);
}

static bool readers_become(struct http_server *server, uint32_t want)
{
    for (int i = 0; i < CLIENT_WAIT_MS; i++) {
        if (http_stats(server).readers == want) return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

TEST(a_silent_reader_is_probed_and_a_dead_one_noticed)
{
    struct http_server *server = server_with((struct http_options){.keepalive_ms = 20});
    struct http_channel *channel;
    struct client c;
    CHECK_OK("channel", http_channel_open(server, "/events", 4, &channel));
    subscribe(&c, server, "");
    for (int i = 0; i < 3; i++) CHECK("a comment comes by itself", client_await(&c, ": alive\n\n"));
    CHECK_U32("one reader", http_stats(server).readers, 1);
    client_close(&c);
    CHECK("nobody sent anything, yet it is gone", readers_become(server, 0));
    http_close(server);
}

TEST(readers_take_at_most_half_of_the_connections)
{
    struct http_server *server =
        server_with((struct http_options){.connections_max = 4, .keepalive_ms = 20});
    struct http_channel *channel;
    struct client c[2];
    CHECK_OK("channel", http_channel_open(server, "/events", 4, &channel));
    subscribe(&c[0], server, "");
    subscribe(&c[1], server, "");
    CHECK_I64("one more",
              client_ask(http_address(server), "GET /events HTTP/1.1\r\nHost: x\r\n\r\n", NULL),
              503);
    client_close(&c[0]);
    CHECK("one leaves", readers_become(server, 1));
    subscribe(&c[0], server, "");
    client_close(&c[0]);
    client_close(&c[1]);
    http_close(server);
}

/* -- threads -- */

struct load {
    struct http_server *server;
    struct http_channel *channel;
    atomic_bool stop;
    atomic_uint served, sent;
};

static void *load_asks(void *argument)
{
    struct load *load = argument;
    while (!atomic_load(&load->stop)) {
        struct client c;
        struct reply reply;
        if (!client_open(&c, http_address(load->server))) break;
        for (int i = 0; i < 20 && client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n"); i++) {
            if (!client_reply(&c, false, &reply)) break;
            /* The whole body is of one version: the same letter throughout. */
            for (size_t k = 1; k < reply.body.len; k++)
                if (reply.body.at[k] != reply.body.at[0]) abort();
            atomic_fetch_add(&load->served, 1);
        }
        client_close(&c);
    }
    return NULL;
}

static void *load_listens(void *argument)
{
    struct load *load = argument;
    while (!atomic_load(&load->stop)) {
        struct client c;
        if (!client_open(&c, http_address(load->server))) break;
        client_send_c(&c, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
        for (int i = 0; i < 50 && client_receive(&c) == 1; i++) buf_clear(&c.received);
        client_close(&c);
    }
    return NULL;
}

static void *load_publishes(void *argument)
{
    struct load *load = argument;
    char page[4096];
    for (unsigned i = 0; !atomic_load(&load->stop); i++) {
        memset(page, 'a' + (int)(i % 26), sizeof page);
        if (http_publish(load->server, "/p", "text/plain", str_of(page, sizeof page)) != ERR_OK)
            abort();
        if (http_channel_send(load->channel, STR("e"), str_of(page, 100)) != ERR_OK) abort();
        atomic_fetch_add(&load->sent, 1);
        if (i % 64 == 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return NULL;
}

TEST(publish_send_read_and_close_at_the_same_time)
{
    struct load load = {.server = server_with((struct http_options){.keepalive_ms = 5})};
    pthread_t threads[8];
    void *(*const work[8])(void *) = {load_asks,    load_asks,    load_asks,      load_listens,
                                      load_listens, load_listens, load_publishes, load_publishes};
    struct client reader;
    CHECK_OK("channel", http_channel_open(load.server, "/events", 8, &load.channel));
    CHECK_OK("page", http_publish(load.server, "/p", "text/plain", STR("")));
    for (int i = 0; i < 8; i++)
        CHECK("thread", pthread_create(&threads[i], NULL, work[i], &load) == 0);
    while (atomic_load(&load.served) < 2000 || atomic_load(&load.sent) < 2000) /* work, not time */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&load.stop, true);
    for (int i = 6; i < 8; i++) pthread_join(threads[i], NULL); /* no call may run during close */
    CHECK("connect", client_open(&reader, http_address(load.server)));
    client_send_c(&reader, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK("listens", client_await(&reader, "retry: 2000\n\n"));
    for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    http_close(load.server); /* with a reader connected */
    CHECK("the reader is notified in order", client_await(&reader, "0\r\n\r\n"));
    client_close(&reader);
}

static void *asks_until_refused(void *argument)
{
    struct client c;
    struct reply reply;
    const char *address = argument;
    while (client_open(&c, address)) { /* ends: the listener is gone */
        while (client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n") &&
               client_reply(&c, false, &reply)) {}
        client_close(&c);
    }
    return NULL;
}

TEST(close_under_load_leaves_nothing)
{
    for (int round = 0; round < 10; round++) {
        struct http_server *server = server_open();
        struct http_channel *channel;
        struct client readers[4];
        pthread_t threads[3];
        char address[64];
        snprintf(address, sizeof address, "%s", http_address(server));
        CHECK_OK("page", http_publish(server, "/p", "text/plain", STR("x")));
        CHECK_OK("channel", http_channel_open(server, "/events", 8, &channel));
        for (int i = 0; i < 4; i++) subscribe(&readers[i], server, "");
        for (int i = 0; i < 3; i++)
            CHECK("thread", pthread_create(&threads[i], NULL, asks_until_refused, address) == 0);
        while (http_stats(server).requests < 200u)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        CHECK_OK("send", http_channel_send(channel, STR("e"), STR("x")));
        http_close(server);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 4; i++) client_close(&readers[i]);
    }
}

static void count_up(void *context, const struct http_request *request,
                     struct http_response *response)
{
    int *alive = context; /* plain on purpose: the sanitizers watch it */
    (void)request;
    *alive += 1;
    response->err = buf_append_c(&response->body, "x");
}

TEST(a_removed_route_never_runs_again)
{
    struct http_server *server = server_open();
    pthread_t thread;
    char address[64];
    struct client c;
    struct reply reply;
    CHECK_OK("page", http_publish(server, "/q", "a/b", STR("x")));
    CHECK("connect", client_open(&c, http_address(server)));
    snprintf(address, sizeof address, "%s", http_address(server));
    CHECK("thread", pthread_create(&thread, NULL, asks_until_refused, address) == 0); /* of /p */
    for (int round = 0; round < 200; round++) {
        int *alive = calloc(1, sizeof *alive);
        CHECK_OK("route", http_route(server, "/p", HTTP_GET, count_up, alive));
        client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK("served", client_reply(&c, false, &reply) && reply.status == 200);
        CHECK_OK("away", http_unroute(server, "/p"));
        free(alive); /* a handler still running would be caught by the sanitizers */
        client_send_c(&c, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK("gone", client_reply(&c, false, &reply) && reply.status == 404);
    }
    CHECK_ERR("twice", http_unroute(server, "/p"), ERR_NOT_FOUND);
    CHECK_OK("a page too", http_unroute(server, "/q"));
    client_send_c(&c, "GET /q HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK("gone", client_reply(&c, false, &reply) && reply.status == 404);
    client_close(&c);
    http_close(server);
    pthread_join(thread, NULL);
}

static atomic_int entered, finished;
static void linger(void *context, const struct http_request *request,
                   struct http_response *response)
{
    (void)context, (void)request, (void)response;
    atomic_store(&entered, 1);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&finished, 1);
}

TEST(taking_a_route_away_waits_for_its_handler)
{
    struct http_server *server = server_open();
    struct client c;
    atomic_store(&entered, 0);
    atomic_store(&finished, 0);
    CHECK_OK("route", http_route(server, "/slow", HTTP_GET, linger, NULL));
    CHECK("connect", client_open(&c, http_address(server)));
    client_send_c(&c, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    while (!atomic_load(&entered)) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    CHECK_OK("away", http_unroute(server, "/slow"));
    CHECK_I64("it had ended", atomic_load(&finished), 1);
    client_close(&c);
    http_close(server);
}

/* -- a foreign client -- */

static bool have_curl(void)
{
    return system("curl --version >/dev/null 2>&1") == 0;
}

static void curl_says(const char *why, const char *address, const char *arguments, const char *want)
{
    char command[4096], got[4096];
    FILE *pipe;
    size_t len;
    snprintf(command, sizeof command, "curl -sS --max-time 20 %s", arguments);
    for (char *at = strstr(command, "ADDRESS"); at; at = strstr(command, "ADDRESS")) {
        char tail[4096];
        snprintf(tail, sizeof tail, "%s", at + 7);
        snprintf(at, sizeof command - (size_t)(at - command), "%s%s", address, tail);
    }
    pipe = popen(command, "r");
    CHECK("curl starts", pipe != NULL);
    len = fread(got, 1, sizeof got - 1, pipe);
    got[len] = '\0';
    pclose(pipe);
    CHECK_TEXT(why, got, want);
}

TEST(curl_agrees)
{
    struct http_server *server = echo_server();
    const char *at = http_address(server);
    if (!have_curl()) {
        http_close(server);
        SKIP("curl is not installed");
    }
    curl_says("a page", at, "http://ADDRESS/page", "<p>hello</p>");
    curl_says("a form", at, "-d a=1 -d b=2 http://ADDRESS/post",
              "method=2 path=/post query= type=application/x-www-form-urlencoded body=a=1&b=2");
    curl_says("a chunked upload", at,
              "-H 'Transfer-Encoding: chunked' -H 'Content-Type: t/t' -d xyz http://ADDRESS/post",
              "method=2 path=/post query= type=t/t body=xyz");
    curl_says("expect 100", at,
              "-H 'Expect: 100-continue' -H 'Content-Type: t/t' -d xyz http://ADDRESS/post",
              "method=2 path=/post query= type=t/t body=xyz");
    curl_says(
        "keep-alive: two pages, one connection", at,
        "-o /dev/null -w '%{num_connects} ' http://ADDRESS/page -o /dev/null http://ADDRESS/page",
        "1 0 ");
    curl_says("head", at, "-o /dev/null -w '%{http_code} %{size_download}' -I http://ADDRESS/page",
              "200 0");
    curl_says("path as is", at,
              "--path-as-is -o /dev/null -w '%{http_code}' http://ADDRESS/echo/../page", "400");
    http_close(server);
}

TEST(curl_agrees_over_tls)
{
    char command[1024], cert[256], key[256], arguments[512];
    struct http_server *server;
    snprintf(cert, sizeof cert, "%s/cert.pem", test_dir());
    snprintf(key, sizeof key, "%s/key.pem", test_dir());
    snprintf(
        command, sizeof command,
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x "
        "-addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s >/dev/null 2>&1",
        key, cert);
    if (!have_curl() || system(command) != 0) SKIP("curl or the openssl program is not installed");
    server = server_with((struct http_options){.cert_file = cert, .key_file = key});
    CHECK_OK("page", http_publish(server, "/page", "text/plain", STR("secret")));
    snprintf(arguments, sizeof arguments, "--cacert %s https://ADDRESS/page", cert);
    curl_says("over TLS", http_address(server), arguments, "secret");
    snprintf(arguments, sizeof arguments,
             "--cacert %s --tls-max 1.1 https://ADDRESS/page 2>/dev/null", cert);
    curl_says("an old version is refused", http_address(server), arguments, "");
    http_close(server);
    struct note note = {""};
    CHECK_ERR(
        "a certificate for a key",
        http_open(
            &(struct http_options){.address = "127.0.0.1:0", .cert_file = cert, .key_file = cert},
            &server, &note),
        ERR_PARSE);
    CHECK_HAS("is named", note.text, "cert.pem");
}

/* -- certificates -- */

enum { PATH_LEN = 256 };
static const uint64_t day_ms = 86400ull * 1000;

static wall_time now(void)
{
    return clock_wall(clock_real());
}

/* A directory with an authority that is a hundred days old, key pair and root file of a listener,
 * and a copy of the root for clients. */
struct site {
    char dir[PATH_LEN], cert[PATH_LEN], key[PATH_LEN], ca[PATH_LEN], trust[PATH_LEN];
    struct http_options options;
};

static void path_in(char path[PATH_LEN], const char *dir, const char *name)
{
    CHECK(name, snprintf(path, PATH_LEN, "%s/%s", dir, name) < PATH_LEN);
}

static void copy(const char *from, const char *to)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    CHECK_OK(from, fs_read_whole(fs_real(), from, 1 << 20, &text));
    CHECK_OK(to, fs_publish(fs_real(), to, buf_peek(&text), 0600, 1));
    buf_deinit(&text);
}

static void leaf(const struct site *site, const char *name, struct cert_request request,
                 wall_time at)
{
    char cert[PATH_LEN], key[PATH_LEN], file[64];
    struct cert_leaf_options options = {.ca_dir = site->dir, .cert_file = cert, .key_file = key};
    struct cert_report report;
    struct note note = {""};

    snprintf(file, sizeof file, "%s.pem", name);
    path_in(cert, site->dir, file);
    snprintf(file, sizeof file, "%s.key.pem", name);
    path_in(key, site->dir, file);
    CHECK_OK(note.text, cert_leaf_ensure(fs_real(), &options, &request, at, &report, &note));
}

static void site_open(struct site *site, const char *name)
{
    struct cert_report report;

    if (!have_curl()) SKIP("curl is not installed");
    path_in(site->dir, test_dir(), name);
    path_in(site->cert, site->dir, "server.pem");
    path_in(site->key, site->dir, "server.key.pem");
    path_in(site->ca, site->dir, "ca.pem");
    path_in(site->trust, site->dir, "trust.txt");
    CHECK_OK(name, cert_ca_ensure(fs_real(), &(struct cert_ca_options){.dir = site->dir},
                                  (wall_time){now().ms - 100 * day_ms}, &report, NULL));
    leaf(site, "server", (struct cert_request){.kind = CERT_SERVER}, now());
    leaf(site, "admin", (struct cert_request){.kind = CERT_ADMIN}, now());
    copy(site->ca, site->trust);
    site->options =
        (struct http_options){.cert_file = site->cert, .key_file = site->key, .ca_file = site->ca};
}

/* Answers with the caller's identity. */
static void who(void *context, const struct http_request *request, struct http_response *response)
{
    const struct tls_identity *identity = request->identity;
    struct str uri;

    (void)context;
    if (!identity || tls_identity_uri(identity, STR("bigfleet"), &uri))
        response->err = buf_append_c(&response->body, "nobody");
    else
        response->err = buf_appendf(&response->body, "%.*s as %.*s", STR_ARG(uri),
                                    STR_ARG(identity->common_name));
}

static struct http_server *who_server(struct http_options options)
{
    struct http_server *server = server_with(options);
    CHECK_OK("route", http_route(server, "/who", HTTP_GET, who, NULL));
    return server;
}

/* Sends a request with the certificate `name` of `caller`; no name: without one. */
static void asked_by(const char *why, struct http_server *server, const struct site *trusting,
                     const struct site *caller, const char *name, const char *want)
{
    char arguments[2048], cert[PATH_LEN * 3] = "";

    if (name)
        snprintf(cert, sizeof cert, "--cert %s/%s.pem --key %s/%s.key.pem", caller->dir, name,
                 caller->dir, name);
    snprintf(arguments, sizeof arguments, "--cacert %s %s https://ADDRESS/who", trusting->trust,
             cert);
    curl_says(why, http_address(server), arguments, want);
}

#define ADMIN "bigfleet://admin as admin"

TEST(a_client_certificate_counts_when_our_authority_signed_it_for_a_client)
{
    struct site ours, theirs;
    struct http_server *server;

    site_open(&ours, "ours");
    site_open(&theirs, "theirs");
    leaf(&ours, "readonly", (struct cert_request){.kind = CERT_READONLY}, now());
    leaf(&ours, "service", (struct cert_request){.kind = CERT_WORKER_SERVICE}, now());
    leaf(&ours, "plain", (struct cert_request){.kind = CERT_STORE, .id = STR("app")}, now());
    leaf(&ours, "old", (struct cert_request){.kind = CERT_ADMIN, .days = 1},
         (wall_time){now().ms - 50 * day_ms});
    server = who_server(ours.options);
    asked_by("none is fine", server, &ours, &ours, NULL, "nobody");
    asked_by("an administrator", server, &ours, &ours, "admin", ADMIN);
    asked_by("a reader", server, &ours, &ours, "readonly", "bigfleet://readonly as readonly");
    asked_by("an authority that calls itself as ours", server, &ours, &theirs, "admin", "nobody");
    asked_by("no longer valid", server, &ours, &ours, "old", "nobody");
    asked_by("not for a client", server, &ours, &ours, "service", "nobody");
    asked_by("without a URI", server, &ours, &ours, "plain", "nobody");
    http_close(server);

    ours.options.ca_file = NULL;
    server = who_server(ours.options);
    asked_by("a listener that knows no authority", server, &ours, &ours, "admin", "nobody");
    http_close(server);
}

TEST(a_renewed_pair_is_shown_without_closing_the_listener)
{
    struct site site, other;
    struct http_server *server;
    struct note note = {""};

    site_open(&site, "renewed");
    site_open(&other, "renewed-other");
    server = who_server(site.options);
    asked_by("the first pair", server, &site, &site, NULL, "nobody");
    copy(other.key, site.key);
    CHECK_ERR("a key that is not the certificate's", http_reload_tls(server, &note), ERR_CONFLICT);
    CHECK_HAS("is named", note.text, "server.key.pem");
    asked_by("the old pair stays", server, &site, &site, NULL, "nobody");
    copy(other.cert, site.cert);
    CHECK_OK("both", http_reload_tls(server, &note));
    asked_by("the new pair", server, &other, &other, NULL, "nobody");
    copy(other.key, site.cert);
    CHECK_ERR("no certificate", http_reload_tls(server, &note), ERR_PARSE);
    asked_by("still the new pair", server, &other, &other, NULL, "nobody");
    http_close(server);
    server = server_open();
    CHECK_ERR("without TLS", http_reload_tls(server, &note), ERR_INVALID);
    http_close(server);
}

TEST(pair_and_authorities_are_renewed_together_or_not_at_all)
{
    struct site site, other;
    struct http_server *server;
    struct note note = {""};

    site_open(&site, "both");
    site_open(&other, "both-other");
    server = who_server(site.options);
    asked_by("ours", server, &site, &site, "admin", ADMIN);
    copy(other.key, site.ca);
    copy(other.cert, site.cert);
    copy(other.key, site.key);
    CHECK_ERR("authorities that cannot be read, beside a pair that can",
              http_reload_tls(server, &note), ERR_PARSE);
    asked_by("the old pair and the old authority", server, &site, &site, "admin", ADMIN);
    copy(other.ca, site.ca);
    CHECK_OK("all good", http_reload_tls(server, &note));
    asked_by("the new authority", server, &other, &other, "admin", ADMIN);
    asked_by("and no longer the old one", server, &other, &site, "admin", "nobody");
    http_close(server);
}

/* Other authorities replace the present ones while a connection is open, and the server is
 * notified. */
struct change {
    struct site *site, *other;
    struct http_server *server;
};

static void reload(void *context, const struct http_request *request,
                   struct http_response *response)
{
    struct change *change = context;
    (void)request;
    copy(change->other->ca, change->site->ca);
    response->err = http_reload_tls(change->server, NULL);
    if (!response->err) response->err = buf_append_c(&response->body, ", ");
}

TEST(after_a_reload_older_authorities_count_no_more_on_open_connections_too)
{
    struct site site, other;
    struct change change = {&site, &other, NULL};
    char arguments[4096];

    site_open(&site, "ended");
    site_open(&other, "ended-other");
    change.server = who_server(site.options);
    CHECK_OK("route", http_route(change.server, "/reload", HTTP_GET, reload, &change));
    snprintf(arguments, sizeof arguments,
             "--cacert %s --cert %s/admin.pem --key %s/admin.key.pem https://ADDRESS/who "
             "https://ADDRESS/reload https://ADDRESS/who",
             site.trust, site.dir, site.dir);
    curl_says("one connection, or two", http_address(change.server), arguments, ADMIN ", nobody");
    http_close(change.server);
}

/* -- queries -- */

static const struct {
    const char *why, *query, *key;
    enum err err;
    const char *value;
} query_cases[] = {
    {"plain", "a=1&b=2", "b", ERR_OK, "2"},
    {"the first counts", "a=1&a=2", "a", ERR_OK, "1"},
    {"no value", "a&b=2", "a", ERR_OK, ""},
    {"empty value", "a=&b=2", "a", ERR_OK, ""},
    {"absent", "a=1", "b", ERR_NOT_FOUND, ""},
    {"empty query", "", "a", ERR_NOT_FOUND, ""},
    {"percent and plus", "a=%41+%2B%26", "a", ERR_OK, "A +&"},
    {"an encoded key", "%61=1", "a", ERR_OK, "1"},
    {"a second equals sign is part of the value", "a=b=c", "a", ERR_OK, "b=c"},
    {"half a percent sign", "a=%4", "a", ERR_PARSE, ""},
    {"no hex", "a=%g0", "a", ERR_PARSE, ""},
    {"a NUL", "a=%00", "a", ERR_PARSE, ""},
    {"too long for the buffer", "a=123456789", "a", ERR_FULL, ""},
};

TEST(query_values_are_decoded_or_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(query_cases); i++) {
        struct buf value;
        buf_init(&value, 8);
        CHECK_ERR(query_cases[i].why,
                  http_query(str_from(query_cases[i].query), str_from(query_cases[i].key), &value),
                  query_cases[i].err);
        CHECK_STR(query_cases[i].why, buf_peek(&value), str_from(query_cases[i].value));
        buf_deinit(&value);
    }
}
