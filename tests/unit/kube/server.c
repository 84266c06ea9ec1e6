/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/kube/server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, REQUEST_MAX = 64 << 10, AWAIT_MS = 20000 };
enum after { STAY, CLOSE, HANG };

/* The server allocates all memory at start, so that allocation sweeps of a client do not hit the
 * server's. */
struct connection {
    struct server *server;
    pthread_t thread;
    int fd;
    char request[REQUEST_MAX + 1];
};

struct server {
    int listener;
    char url[64];
    pthread_t acceptor;
    pthread_mutex_t lock; /* of all below */
    struct {
        char *bytes;
        size_t len;
        enum after after;
    } answers[SERVER_ANSWERS_MAX];
    size_t answer_count, answers_given;
    char requests[SERVER_REQUESTS_MAX][REQUEST_MAX + 1];
    size_t request_count;
    struct connection connections[CONNECTIONS_MAX];
    size_t connection_count;
};

/* Reads one request with its body; false when the peer closed. */
static bool read_request(int fd, char *text)
{
    const char *head_end = NULL;
    size_t len = 0, want = SIZE_MAX;

    while (len < REQUEST_MAX && len < want) {
        ssize_t got = recv(fd, text + len, head_end ? want - len : 1, 0);
        if (got <= 0) return false;
        len += (size_t)got;
        text[len] = '\0';
        if (!head_end && (head_end = strstr(text, "\r\n\r\n"))) {
            const char *length = strcasestr(text, "content-length:");
            want = (size_t)(head_end + 4 - text) + (length ? (size_t)atol(length + 15) : 0);
        }
    }
    return true;
}

static void *converse(void *context)
{
    struct connection *c = context;
    struct server *s = c->server;
    enum after after = STAY;

    while (after == STAY && read_request(c->fd, c->request)) {
        char *bytes = NULL;
        size_t len = 0;
        pthread_mutex_lock(&s->lock);
        if (s->request_count == SERVER_REQUESTS_MAX) abort();
        memcpy(s->requests[s->request_count++], c->request, sizeof c->request);
        after = CLOSE; /* no answer is left */
        if (s->answers_given < s->answer_count) {
            bytes = s->answers[s->answers_given].bytes;
            len = s->answers[s->answers_given].len;
            after = s->answers[s->answers_given++].after;
        }
        pthread_mutex_unlock(&s->lock);
        for (size_t sent = 0; sent < len;) {
            ssize_t n = send(c->fd, bytes + sent, len - sent, MSG_NOSIGNAL);
            if (n <= 0) break;
            sent += (size_t)n;
        }
    }
    if (after == HANG) {
        char byte;
        while (recv(c->fd, &byte, 1, 0) > 0) {}
    }
    shutdown(c->fd, SHUT_RDWR);
    return NULL;
}

static void *accept_all(void *context)
{
    struct server *s = context;
    int fd;

    while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
        pthread_mutex_lock(&s->lock);
        if (s->connection_count == CONNECTIONS_MAX) abort();
        struct connection *c = &s->connections[s->connection_count++];
        c->server = s;
        c->fd = fd;
        if (pthread_create(&c->thread, NULL, converse, c)) abort();
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

struct server *server_start(void)
{
    struct server *s = calloc(1, sizeof *s);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    if (!s) abort();
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&at, sizeof at) ||
        listen(s->listener, 16) || getsockname(s->listener, (struct sockaddr *)&at, &len))
        abort();
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    pthread_mutex_init(&s->lock, NULL);
    if (pthread_create(&s->acceptor, NULL, accept_all, s)) abort();
    return s;
}

void server_stop(struct server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->acceptor, NULL);
    close(s->listener);
    for (size_t i = 0; i < s->connection_count; i++) shutdown(s->connections[i].fd, SHUT_RDWR);
    for (size_t i = 0; i < s->connection_count; i++) {
        pthread_join(s->connections[i].thread, NULL);
        close(s->connections[i].fd);
    }
    for (size_t i = 0; i < s->answer_count; i++) free(s->answers[i].bytes);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *server_url(struct server *s)
{
    return s->url;
}

static void add(struct server *s, struct str bytes, enum after after)
{
    char *copy = malloc(bytes.len + 1);

    if (!copy) abort();
    memcpy(copy, bytes.at, bytes.len);
    pthread_mutex_lock(&s->lock);
    if (s->answer_count == SERVER_ANSWERS_MAX) abort();
    s->answers[s->answer_count].bytes = copy;
    s->answers[s->answer_count].len = bytes.len;
    s->answers[s->answer_count++].after = after;
    pthread_mutex_unlock(&s->lock);
}

void server_answer(struct server *s, const char *bytes)
{
    add(s, str_from(bytes), STAY);
}

void server_answer_bytes(struct server *s, struct str bytes)
{
    add(s, bytes, STAY);
}

void server_answer_and_close(struct server *s, const char *bytes)
{
    add(s, str_from(bytes), CLOSE);
}

void server_answer_and_hang(struct server *s, const char *bytes)
{
    add(s, str_from(bytes), HANG);
}

void server_answer_json(struct server *s, const char *status, const char *headers, const char *body)
{
    char *text = NULL;

    if (asprintf(&text,
                 "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s",
                 status, strlen(body), headers, body) < 0)
        abort();
    add(s, str_from(text), STAY);
    free(text);
}

size_t server_requests(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    size_t count = s->request_count;
    pthread_mutex_unlock(&s->lock);
    return count;
}

const char *server_request(struct server *s, size_t index)
{
    pthread_mutex_lock(&s->lock);
    const char *text = index < s->request_count ? s->requests[index] : "";
    pthread_mutex_unlock(&s->lock);
    return text;
}

size_t server_connections(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    size_t count = s->connection_count;
    pthread_mutex_unlock(&s->lock);
    return count;
}

void server_await(struct server *s, size_t requests)
{
    for (int ms = 0; ms < AWAIT_MS && server_requests(s) < requests; ms++) usleep(1000);
}
