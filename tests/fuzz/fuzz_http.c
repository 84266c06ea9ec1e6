/* SPDX-License-Identifier: Apache-2.0 */
/* Raw bytes to the real HTTP server over loopback: it always answers or closes, and continues to
 * serve. The same bytes are also parsed as a query string, and as a chunked body in two pieces. */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/http.h"
#include "io/http_head.h"

enum { WAIT_MS = 10000, CHECK_EVERY = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_server *server;
static struct sockaddr_in address;

static void require(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_http: %s\n", what);
    abort();
}

/* A request that reaches a handler has been checked. */
static void echo(void *context, const struct http_request *request, struct http_response *response)
{
    (void)context;
    require(request->path.len > 0 && request->path.at[0] == '/', "path is absolute");
    require(str_is_utf8(request->path), "path is UTF-8");
    require(!str_has(request->path, '\0') && !str_has(request->path, '\n'), "path is clean");
    require(!memmem(request->path.at, request->path.len, "/../", 4), "path does not go up");
    require(request->body.len <= 512, "body is bounded");
    response->err = buf_appendf(&response->body, "%.*s %.*s\n", STR_ARG(request->path),
                                STR_ARG(request->query));
    if (!response->err) response->err = buf_append(&response->body, request->body);
}

static void stop(void)
{
    http_close(server);
}

static void start(void)
{
    struct http_options options = {.address = "127.0.0.1:0",
                                   .body_max = 512,
                                   .response_max = 4096,
                                   .connections_max = 16,
                                   .connections_per_peer_max = 16,
                                   .keepalive_ms = 10};
    struct http_channel *channel;
    struct note note = {""};
    require(http_open(&options, &server, &note) == ERR_OK, note.text);
    require(http_route(server, "/", HTTP_GET | HTTP_POST, echo, NULL) == ERR_OK, "route");
    require(http_publish(server, "/page", "text/plain", STR("page")) == ERR_OK, "page");
    require(http_channel_open(server, "/events", 4, &channel) == ERR_OK, "channel");
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(strrchr(http_address(server), ':') + 1));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    atexit(stop);
}

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    return fd;
}

/* Reads to the end, or to the point where an event stream has begun. */
static void hear_out(int fd, bool must_answer)
{
    char head[16 * 1024];
    size_t len = 0;
    for (;;) { /* ends: the server closes, or require() does */
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        require(poll(&wait, 1, WAIT_MS) == 1, "the server neither answers nor closes");
        if (len == sizeof head) len = 64; /* keep the beginning */
        ssize_t got = recv(fd, head + len, sizeof head - len, 0);
        if (got <= 0) break;
        len += (size_t)got;
        if (memmem(head, len, "text/event-stream", 17)) break;
    }
    if (len >= 9) require(memcmp(head, "HTTP/1.", 7) == 0, "an answer is HTTP");
    if (must_answer) require(len > 12 && memcmp(head + 9, "200", 3) == 0, "it still serves");
}

static void ask_query(struct str text)
{
    struct buf value;
    size_t cut = str_find(text, '\n');
    buf_init(&value, 4096);
    enum err err = http_query(str_tail(text, cut + 1), str_of(text.at, cut), &value);
    if (err) require(value.len == 0, "nothing after an error");
    require(!err || err == ERR_NOT_FOUND || err == ERR_PARSE || err == ERR_FULL, "known errors");
    buf_deinit(&value);
}

/* The body is the same for every cut of the bytes. */
static void ask_chunks(struct str text)
{
    uint64_t sums[2] = {0, 0};
    bool good[2];

    for (size_t round = 0; round < 2; round++) {
        struct http_chunks chunks = {.state = CHUNK_SIZE};
        struct str rest = round ? str_of(text.at, text.len / 2) : text, data;
        size_t used = 0, before = SIZE_MAX;
        good[round] = true;
        for (;;) { /* ends: each turn takes bytes, or there are no more */
            before = rest.len;
            good[round] = http_chunks_take(&chunks, &rest, &data);
            require(data.len <= before, "no byte twice");
            for (size_t i = 0; i < data.len; i++)
                sums[round] = sums[round] * 31 + (unsigned char)data.at[i];
            used += before - rest.len;
            if (!good[round] || chunks.state == CHUNK_DONE) break;
            if (rest.len != before) continue;
            if (used + rest.len == text.len) break;
            rest = str_of(text.at + used, text.len - used);
        }
    }
    require(good[0] == good[1] && (!good[0] || sums[0] == sums[1]), "one body however it is cut");
}

static void talk(const uint8_t *data, size_t size)
{
    static const char good[] = "GET /page HTTP/1.0\r\n\r\n";
    static const char finish[] = "\r\n\r\nGET /page HTTP/1.0\r\n\r\n";
    static uint64_t runs;
    int fd;

    if (!server) start();
    ask_query(str_of(data, size));
    ask_chunks(str_of(data, size));
    fd = dial();
    (void)!send(fd, data, size, MSG_NOSIGNAL);
    /* Ends most requests that were begun, and asks to close. The half-close ends the rest, but only
     * at the server's next look for peers that have left. */
    (void)!send(fd, finish, sizeof finish - 1, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    hear_out(fd, false);
    close(fd);
    if (++runs % CHECK_EVERY != 1) return;
    fd = dial();
    (void)!send(fd, good, sizeof good - 1, MSG_NOSIGNAL);
    hear_out(fd, true);
    close(fd);
}

/* libFuzzer looks at the time by an alarm, which would cut a connect or a poll short and make it
 * look like a server that does not answer. It may come when the talk is over. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sigset_t alarm, before;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &before);
    talk(data, size);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return 0;
}
