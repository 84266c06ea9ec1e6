/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/sidecar_call.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/clock.h"
#include "text/json.h"

enum { PREFIX = 4 };

void sidecar_line_init(struct sidecar_line *line, const char *path)
{
    *line = (struct sidecar_line){.fd = -1};
    snprintf(line->path, sizeof line->path, "%s", path);
    buf_init(&line->work, SIDECAR_FRAME_MAX + PREFIX);
}

static void hang_up(struct sidecar_line *line)
{
    if (line->fd >= 0) close(line->fd);
    line->fd = -1;
}

void sidecar_line_deinit(struct sidecar_line *line)
{
    hang_up(line);
    buf_deinit(&line->work);
}

enum err sidecar_frame(struct str method, const struct str *payload, struct buf *into)
{
    size_t start = into->len, len;
    struct ndjson body;
    enum err err = buf_append(into, STR("\0\0\0\0"));

    if (err) return err;
    ndjson_begin(&body, into, NDJSON_LINE);
    ndjson_string(&body, STR("method"), method);
    if (payload)
        ndjson_string(&body, STR("payload"), *payload);
    else
        ndjson_null(&body, STR("payload"));
    err = ndjson_end(&body);
    if (err) {
        into->len = start;
        return err;
    }
    into->len--; /* without the line's end */
    len = into->len - start - PREFIX;
    for (int i = 0; i < PREFIX; i++) into->data[start + (size_t)i] = (char)(len >> (24 - 8 * i));
    return ERR_OK;
}

/* -- bytes, with a limit -- */

static uint64_t now_ms(void)
{
    return clock_mono(clock_real()).ms;
}

static enum err wait_for(int fd, short what, uint64_t deadline)
{
    struct pollfd one = {.fd = fd, .events = what};
    uint64_t now = now_ms();
    int ready;

    if (now >= deadline) return ERR_TIMEOUT;
    ready = poll(&one, 1, (int)(deadline - now));
    if (ready < 0 && errno == EINTR) return ERR_OK; /* the caller tries, and waits again */
    if (ready < 0) return ERR_UNAVAILABLE;
    return ready == 0 ? ERR_TIMEOUT : ERR_OK;
}

static enum err send_all(int fd, struct str bytes, uint64_t deadline)
{
    while (bytes.len) {
        ssize_t sent = send(fd, bytes.at, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        enum err err = ERR_OK;
        if (sent > 0) bytes = str_tail(bytes, (size_t)sent);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            err = wait_for(fd, POLLOUT, deadline);
        else if (sent < 0)
            err = ERR_UNAVAILABLE;
        if (err) return err;
    }
    return ERR_OK;
}

static enum err receive(int fd, char *into, size_t len, uint64_t deadline)
{
    while (len) {
        ssize_t got = recv(fd, into, len, MSG_DONTWAIT);
        enum err err = ERR_OK;
        if (got > 0) {
            into += got;
            len -= (size_t)got;
        } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            err = wait_for(fd, POLLIN, deadline);
        } else {
            err = ERR_UNAVAILABLE;
        }
        if (err) return err;
    }
    return ERR_OK;
}

static enum err connect_line(struct sidecar_line *line)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (line->fd >= 0) return ERR_OK;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", line->path);
    line->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line->fd < 0) return ERR_UNAVAILABLE;
    if (connect(line->fd, (const struct sockaddr *)&address, sizeof address) == 0) return ERR_OK;
    hang_up(line);
    return ERR_UNAVAILABLE;
}

static enum err receive_frame(int fd, uint64_t deadline, struct buf *reply)
{
    unsigned char prefix[PREFIX];
    size_t len;
    char *room;
    enum err err = receive(fd, (char *)prefix, PREFIX, deadline);

    if (err) return err;
    len = (size_t)prefix[0] << 24 | (size_t)prefix[1] << 16 | (size_t)prefix[2] << 8 | prefix[3];
    if (len > SIDECAR_FRAME_MAX) return ERR_TOO_LARGE;
    err = buf_reserve(reply, len, &room);
    if (!err) err = receive(fd, room, len, deadline);
    if (!err) buf_commit(reply, len);
    return err;
}

static enum err once(struct sidecar_line *line, uint64_t deadline, struct buf *reply)
{
    enum err err = connect_line(line);

    if (!err) err = send_all(line->fd, buf_peek(&line->work), deadline);
    if (!err) err = receive_frame(line->fd, deadline, reply);
    if (err) hang_up(line); /* what comes late belongs to nobody */
    return err;
}

enum err sidecar_call(struct sidecar_line *line, struct str method, struct str payload,
                      uint64_t timeout_ms, struct buf *reply, struct note *note)
{
    uint64_t deadline = now_ms() + timeout_ms;
    bool kept = line->fd >= 0;
    enum err err;

    buf_clear(&line->work);
    err = sidecar_frame(method, &payload, &line->work);
    if (!err) err = once(line, deadline, reply);
    if (err == ERR_UNAVAILABLE && kept) err = once(line, deadline, reply);
    if (err) note_set(note, "sidecar %s: %s", line->path, err_text(err));
    return err;
}

enum err sidecar_reply_payload(struct str reply, struct buf *into, struct note *note)
{
    const struct json *payload;
    struct json *json;
    struct str text;
    enum err err = json_open(reply, SIDECAR_FRAME_MAX, &json, note);

    if (err) return err == ERR_NOMEM ? err : ERR_PARSE;
    if (!json_get_string(json, "error", &text, NULL) && text.len) {
        note_set(note, "the plugin says: %.*s", STR_ARG(text));
        err = ERR_INVALID;
    } else {
        payload = json_find(json, "payload");
        if (!payload || json_kind(payload) == JSON_KIND_NULL)
            err = ERR_OK;
        else if (!json_get_string(payload, "", &text, NULL))
            err = buf_append(into, text);
        else
            err = json_write(payload, NDJSON_LINE, into);
    }
    json_close(json);
    return err;
}
