/* SPDX-License-Identifier: Apache-2.0 */
/* Writes whole lines to a file, pipe or socket without blocking. Invariant: a line that was begun
 * is completed before the next, or gets a line end if a full disk cut the line. One thread at a
 * time. */
#include "io/line_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static_assert(LINE_OUT_ATOMIC <= PIPE_BUF, "the kernel keeps this much together");

/* A descriptor of our own: O_NONBLOCK would affect other processes that share the caller's. */
static void reopen_without_waiting(struct line_out *out)
{
    char path[40];
    int fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", out->fd);
    fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return; /* no /proc: line_out_write must call poll first */
    out->fd = fd;
    out->owned = true;
}

enum err line_out_init(struct line_out *out, int fd)
{
    struct stat info;
    *out = (struct line_out){.fd = fd};
    buf_init(&out->rest, LINE_OUT_MAX);
    if (fd < 0 || fstat(fd, &info) != 0) return ERR_INVALID;
    if (S_ISSOCK(info.st_mode)) {
        out->kind = LINE_OUT_SOCKET;
    } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
        out->kind = LINE_OUT_PIPE;
        reopen_without_waiting(out);
    }
    return ERR_OK;
}

void line_out_deinit(struct line_out *out)
{
    if (out->owned) close(out->fd);
    buf_deinit(&out->rest);
    *out = (struct line_out){.fd = -1};
}

/* poll reports a pipe as writable if LINE_OUT_ATOMIC bytes fit. */
static bool would_wait(const struct line_out *out)
{
    struct pollfd fd = {.fd = out->fd, .events = POLLOUT};
    return poll(&fd, 1, 0) == 0;
}

static ssize_t put(const struct line_out *out, struct str bytes)
{
    ssize_t sent;
    if (out->kind == LINE_OUT_PIPE && !out->owned) {
        if (would_wait(out)) {
            errno = EAGAIN;
            return -1;
        }
        bytes.len = min_size(bytes.len, LINE_OUT_ATOMIC); /* poll promises no more space */
    }
    do
        sent = out->kind == LINE_OUT_SOCKET
                   ? send(out->fd, bytes.at, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL)
                   : write(out->fd, bytes.at, bytes.len);
    while (sent < 0 && errno == EINTR);
    return sent;
}

static enum err err_of_write(int code)
{
    switch (code) {
    case EAGAIN: return ERR_FULL;
    case ENOSPC:
    case EDQUOT: return ERR_NO_SPACE;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN: return ERR_CLOSED;
    default: return ERR_IO;
    }
}

enum err line_out_flush(struct line_out *out)
{
    while (out->rest.len > 0) {
        ssize_t sent = put(out, buf_peek(&out->rest));
        if (sent < 0) return err_of_write(errno);
        buf_consume(&out->rest, (size_t)sent);
    }
    return ERR_OK;
}

/* Ends a line that a full disk cut. */
static enum err end_torn_line(struct line_out *out)
{
    if (!out->torn) return ERR_OK;
    if (put(out, STR("\n")) != 1) return err_of_write(errno);
    out->torn = false;
    return ERR_OK;
}

enum err line_out_write(struct line_out *out, struct str line)
{
    enum err err;
    ssize_t sent;

    assert(line.len > 0 && line.at[line.len - 1] == '\n');
    if (line.len > LINE_OUT_MAX) return ERR_TOO_LARGE;
    err = line_out_flush(out);
    if (!err) err = end_torn_line(out);
    if (err) return err;
    sent = put(out, line);
    if (sent < 0) return err_of_write(errno);
    if ((size_t)sent == line.len) return ERR_OK;
    line = str_tail(line, (size_t)sent);
    if (out->kind != LINE_OUT_FILE) {
        err = buf_append(&out->rest, line); /* completed before the next line */
        out->torn = err != ERR_OK;
        if (!err) (void)line_out_flush(out); /* as much as fits now */
        return err;
    }
    sent = put(out, line); /* a file takes fewer bytes only at a limit */
    if (sent == (ssize_t)line.len) return ERR_OK;
    err = sent < 0 ? err_of_write(errno) : ERR_NO_SPACE;
    out->torn = true;
    return err;
}
