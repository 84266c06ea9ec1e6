/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool client_open(struct client *c, const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    const char *colon = strrchr(address, ':');
    char host[64];

    *c = (struct client){.fd = -1};
    buf_init(&c->received, CLIENT_RECEIVED_MAX);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1) return false;
    at.sin_port = htons((uint16_t)atoi(colon + 1));
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0 && connect(c->fd, (struct sockaddr *)&at, sizeof at) == 0) return true;
    client_close(c);
    return false;
}

void client_close(struct client *c)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    free(c->kept);
    c->kept = NULL;
    buf_deinit(&c->received);
}

bool client_send(struct client *c, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(c->fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes = str_tail(bytes, (size_t)sent);
    }
    return true;
}

bool client_send_c(struct client *c, const char *text)
{
    return client_send(c, str_from(text));
}

int client_receive(struct client *c)
{
    struct pollfd fd = {.fd = c->fd, .events = POLLIN};
    char *room;
    ssize_t got;

    if (poll(&fd, 1, CLIENT_WAIT_MS) <= 0) return -1;
    if (buf_reserve(&c->received, 64 * 1024, &room) != ERR_OK) return -1;
    got = recv(c->fd, room, 64 * 1024, 0);
    if (got <= 0) return 0; /* an orderly end or a reset */
    buf_commit(&c->received, (size_t)got);
    return 1;
}

static size_t find(struct str text, struct str part)
{
    const char *at = text.len ? memmem(text.at, text.len, part.at, part.len) : NULL;
    return at ? (size_t)(at - text.at) : SIZE_MAX;
}

bool client_await(struct client *c, const char *part)
{
    size_t at;
    while ((at = find(buf_peek(&c->received), str_from(part))) == SIZE_MAX)
        if (client_receive(c) != 1) return false;
    buf_consume(&c->received, at + strlen(part));
    return true;
}

struct str reply_header(const struct reply *reply, const char *name)
{
    struct str rest = reply->head, line;
    while (str_split(&rest, '\n', &line)) {
        size_t colon = str_find(line, ':');
        if (str_equal_nocase(str_of(line.at, colon), str_from(name)))
            return str_trim(str_tail(line, colon + 1));
    }
    return STR_EMPTY;
}

/* Decodes chunks in place. Bytes used, or 0 when the last chunk is not there yet. */
static size_t unchunk(char *at, size_t len, size_t *ret_body)
{
    size_t used = 0, body = 0;
    for (;;) { /* until the last chunk or the end of the input */
        size_t end = find(str_of(at + used, len - used), STR("\r\n"));
        if (end == SIZE_MAX) return 0;
        size_t size = strtoul(at + used, NULL, 16);
        used += end + 2;
        if (len - used < size + 2) return 0;
        memmove(at + body, at + used, size);
        body += size;
        used += size + 2;
        if (size == 0) break;
    }
    *ret_body = body;
    return used;
}

static bool is_chunked(const struct reply *reply)
{
    return str_equal_nocase(reply_header(reply, "Transfer-Encoding"), STR("chunked"));
}

/* The last reply's bytes stay in the buffer until the next request. */
static bool head_read(struct client *c, struct reply *reply, size_t *ret_end)
{
    size_t end;
    while ((end = find(buf_peek(&c->received), STR("\r\n\r\n"))) == SIZE_MAX)
        if (client_receive(c) != 1) return false;
    reply->head = str_of(c->received.data, end);
    uint64_t status = 0; /* received bytes have no NUL behind them */
    if (c->received.len > 12) (void)str_to_u64(str_of(c->received.data + 9, 3), &status);
    reply->status = (int)status;
    *ret_end = end + 4;
    return true;
}

bool client_reply(struct client *c, bool head_only, struct reply *ret_reply)
{
    struct reply reply = {0};
    size_t head_end, used = 0, body_len = 0;
    uint64_t length = 0;
    char *kept;

    if (!head_read(c, &reply, &head_end)) return false;
    while (reply.status == 100) { /* 100 Continue is not the answer */
        buf_consume(&c->received, head_end);
        if (!head_read(c, &reply, &head_end)) return false;
    }
    (void)str_to_u64(reply_header(&reply, "Content-Length"), &length);
    while (!head_only) {
        char *body = c->received.data + head_end;
        size_t have = c->received.len - head_end;
        reply.head = str_of(c->received.data, head_end);
        if (is_chunked(&reply)) {
            char *copy = malloc(have + 1); /* decode a copy until all of it is there */
            if (!copy) return false;       /* a sweep may fail ours as well */
            memcpy(copy, body, have);
            copy[have] = '\0';
            used = unchunk(copy, have, &body_len);
            if (used) memcpy(body, copy, body_len);
            free(copy);
            if (used) break;
        } else if (have >= length) {
            used = body_len = (size_t)length;
            break;
        }
        if (client_receive(c) != 1) return false;
    }
    kept = malloc(head_end + body_len + 1);
    if (!kept) return false;
    memcpy(kept, c->received.data, head_end + body_len);
    kept[head_end + body_len] = '\0';
    buf_consume(&c->received, head_end + used);
    free(c->kept);
    c->kept = kept;
    reply.head = str_of(kept, head_end);
    reply.body = str_of(kept + head_end, body_len);
    *ret_reply = reply;
    return true;
}

int client_ask(const char *address, const char *request, char **ret_text)
{
    struct client c;
    struct reply reply = {0};
    if (!client_open(&c, address)) return 0;
    if (client_send_c(&c, request) && client_reply(&c, strncmp(request, "HEAD ", 5) == 0, &reply) &&
        ret_text)
        *ret_text = str_dup(str_of(reply.head.at, reply.head.len + reply.body.len));
    client_close(&c);
    return reply.status;
}
