/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over a blocking connection, with a deadline for every wait. Processing thread. */
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

static void line_hang_up(struct sidecar_line *line)
{
    if (line->fd >= 0) close(line->fd);
    line->fd = -1;
}

void sidecar_line_deinit(struct sidecar_line *line)
{
    line_hang_up(line);
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
    into->len--;
    len = into->len - start - PREFIX;
    for (int i = 0; i < PREFIX; i++) into->data[start + (size_t)i] = (char)(len >> (24 - 8 * i));
    return ERR_OK;
}

/* -- transfer of bytes with a deadline -- */

static uint64_t line_now_ms(void)
{
    return clock_mono(clock_real()).ms;
}

static enum err line_wait(int fd, short what, uint64_t deadline)
{
    struct pollfd one = {.fd = fd, .events = what};
    uint64_t now = line_now_ms();
    int ready;

    if (now >= deadline) return ERR_TIMEOUT;
    ready = poll(&one, 1, (int)(deadline - now));
    if (ready < 0 && errno == EINTR) return ERR_OK; /* the caller tries again */
    if (ready < 0) return ERR_UNAVAILABLE;
    return ready == 0 ? ERR_TIMEOUT : ERR_OK;
}

static enum err line_move(int fd, bool sends, char *at, size_t len, uint64_t deadline)
{
    enum err err = ERR_OK;

    while (len && !err) {
        ssize_t moved = sends ? send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(fd, at, len, MSG_DONTWAIT);
        if (moved > 0) {
            at += moved;
            len -= (size_t)moved;
        } else if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
            err = line_wait(fd, sends ? POLLOUT : POLLIN, deadline);
        } else {
            err = ERR_UNAVAILABLE;
        }
    }
    return err;
}

static enum err line_connect(struct sidecar_line *line)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (line->fd >= 0) return ERR_OK;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", line->path);
    line->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line->fd < 0) return ERR_UNAVAILABLE;
    if (connect(line->fd, (const struct sockaddr *)&address, sizeof address) == 0) return ERR_OK;
    line_hang_up(line);
    return ERR_UNAVAILABLE;
}

static enum err line_receive_frame(int fd, uint64_t deadline, struct buf *reply)
{
    unsigned char prefix[PREFIX];
    size_t len;
    char *room;
    enum err err = line_move(fd, false, (char *)prefix, PREFIX, deadline);

    if (err) return err;
    len = (size_t)prefix[0] << 24 | (size_t)prefix[1] << 16 | (size_t)prefix[2] << 8 | prefix[3];
    if (len > SIDECAR_FRAME_MAX) return ERR_TOO_LARGE;
    err = buf_reserve(reply, len, &room);
    if (!err) err = line_move(fd, false, room, len, deadline);
    if (!err) buf_commit(reply, len);
    return err;
}

static enum err line_call_once(struct sidecar_line *line, uint64_t deadline, struct buf *reply)
{
    enum err err = line_connect(line);

    if (!err) err = line_move(line->fd, true, line->work.data, line->work.len, deadline);
    if (!err) err = line_receive_frame(line->fd, deadline, reply);
    if (err) line_hang_up(line); /* so that the next call cannot read this call's late answer */
    return err;
}

enum err sidecar_call(struct sidecar_line *line, struct str method, struct str payload,
                      uint64_t timeout_ms, struct buf *reply, struct note *note)
{
    uint64_t deadline = line_now_ms() + timeout_ms;
    bool kept = line->fd >= 0;
    enum err err;

    buf_clear(&line->work);
    err = sidecar_frame(method, &payload, &line->work);
    if (!err) err = line_call_once(line, deadline, reply);
    if (err == ERR_UNAVAILABLE && kept) err = line_call_once(line, deadline, reply);
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
