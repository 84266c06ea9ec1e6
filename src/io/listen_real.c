/* SPDX-License-Identifier: Apache-2.0 */
/* Listening: bind, accept within limits, and wait for TLS handshakes.
 *
 * libuv only polls the socket, for two reasons. A connection over the limit is closed before
 * anything is allocated. Without descriptors, accepting pauses: otherwise the connection in the
 * kernel's queue would keep waking the loop. */
#include "io/stream_real.h"
#include "io/tls.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    STREAMS_MAX_DEFAULT = 1024,
    ACCEPTS_PER_TURN = 64,
    ACCEPT_RETRY_MS = 100, /* pause after descriptors or memory ran out */
    LISTEN_QUEUE = 4096,   /* connections that the kernel queues, at most */
    LISTEN_ADDRESS_CAP = 128,
};

struct real_listener {
    struct listener listener;
    struct real_io *real;
    struct listen_options options; /* the texts belong to the caller */
    uv_poll_t poll;
    int fd;
    struct timer retry;
    struct list streams; /* accepted streams that are still open */
    struct list handshakes;
    bool is_unix, closed, paused;
    /* Device and inode of our socket file: no other file may be removed. */
    dev_t path_device;
    ino_t path_inode;
    char address[LISTEN_ADDRESS_CAP];
};

static struct real_listener *from_listener(const struct listener *listener)
{
    return CONTAINER_OF(listener, struct real_listener, listener);
}

void listener_forget(struct real_listener *listener, struct real_stream *s)
{
    assert(listener->listener.stats.open > 0);
    listener->listener.stats.open--;
    list_remove(&s->in_listener);
    s->listener = NULL;
}

/* -- accepting -- */

static void on_shaken(void *owner)
{
    struct real_stream *s = owner;
    struct real_listener *l = s->shakes_for;

    s->shakes_for = NULL;
    list_remove(&s->in_handshakes);
    l->options.on_accept(l->options.owner, s->tls);
}

static void on_refused(void *owner, enum err why, const struct note *note)
{
    struct real_stream *s = owner;
    struct real_listener *l = s->shakes_for;

    if (!l) return; /* the listener is closed, or on_accept closed the stream */
    list_remove(&s->in_handshakes);
    l->listener.stats.failed_handshake++;
    if (l->options.on_refused) l->options.on_refused(l->options.owner, s->peer, why, note);
}

static void on_no_bytes(void *, struct str)
{
    assert(false); /* on_accept has set other events, or closed the stream */
}

static const struct stream_events handshake_events = {
    .on_open = on_shaken, .on_bytes = on_no_bytes, .on_closed = on_refused};

static enum err begin_handshake(struct real_listener *l, struct real_stream *s)
{
    enum err err =
        tls_accept(&l->real->loop, &l->options, &s->stream, &handshake_events, s, &s->tls, NULL);

    if (err) return err;
    s->shakes_for = l;
    list_append(&l->handshakes, &s->in_handshakes);
    return ERR_OK;
}

static void hand_over(struct real_listener *l, struct real_stream *s)
{
    l->listener.stats.accepted++;
    if (!l->options.tls) {
        l->options.on_accept(l->options.owner, &s->stream);
    } else if (begin_handshake(l, s)) {
        l->listener.stats.failed_accept++;
        stream_close(&s->stream);
    }
}

static void take_connection(struct real_listener *l, int fd, const struct sockaddr_storage *peer)
{
    size_t output_max = l->options.output_max;
    struct real_stream *s;

    if (l->listener.stats.open >= l->options.streams_max) {
        l->listener.stats.refused_full++;
        close(fd);
        return;
    }
    if (l->options.tls) output_max = tls_plain_output_max(output_max);
    s = stream_new(l->real, output_max);
    if (!s) {
        l->listener.stats.failed_accept++;
        close(fd);
        return;
    }
    if (stream_adopt(s, fd, l->is_unix)) {
        l->listener.stats.failed_accept++;
        close(fd);
        stream_close(&s->stream); /* not started, so no callback runs */
        return;
    }
    stream_address_text(peer, s->peer);
    stream_opened(s);
    s->listener = l;
    list_append(&l->streams, &s->in_listener);
    l->listener.stats.open++;
    hand_over(l, s);
}

static void put_off(struct real_listener *l)
{
    l->listener.stats.failed_accept++;
    uv_poll_stop(&l->poll);
    timer_start_in(&l->retry, ACCEPT_RETRY_MS);
}

/* False if no connection waits. */
static bool accept_one(struct real_listener *l)
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        take_connection(l, fd, &peer);
        return !l->closed && !l->paused;
    }
    switch (errno) {
    case EAGAIN: return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM: put_off(l); return false;
    default: return true; /* only this connection failed */
    }
}

static void on_readable(uv_poll_t *poll, int status, int)
{
    struct real_listener *l = poll->data;

    real_enter(l->real);
    if (status < 0) put_off(l); /* libuv has stopped polling */
    for (int i = 0; status >= 0 && i < ACCEPTS_PER_TURN && accept_one(l); i++) continue;
}

static void watch(struct real_listener *l)
{
    int failed = l->paused ? 0 : uv_poll_start(&l->poll, UV_READABLE, on_readable);
    assert(!failed); /* the handle is open */
}

static void on_retry(struct timer *timer)
{
    watch(CONTAINER_OF(timer, struct real_listener, retry));
}

static void real_listener_pause(struct listener *listener, bool paused)
{
    struct real_listener *l = from_listener(listener);

    l->paused = paused;
    if (paused)
        uv_poll_stop(&l->poll);
    else if (!timer_running(&l->retry))
        watch(l);
}

/* -- binding -- */

static enum err listen_real_refuse(struct note *note, const char *address, int error)
{
    enum err err = real_err(-error);
    char reason[96];

    uv_strerror_r(-error, reason, sizeof reason);
    note_set(note, "listen on %s: %s", address, reason);
    return err == ERR_IO || err == ERR_FULL || err == ERR_NOT_FOUND ? ERR_UNAVAILABLE : err;
}

static int socket_for(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* The listener's process was killed. */
static bool is_stale(const struct sockaddr_un *address, struct stat *ret_info)
{
    int fd, refused = 0;

    if (lstat(address->sun_path, ret_info) || !S_ISSOCK(ret_info->st_mode)) return false;
    fd = socket_for(AF_UNIX);
    if (fd < 0) return false;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address)) refused = errno;
    close(fd);
    return refused == ECONNREFUSED;
}

/* Replaces a stale socket. Two processes could do this at the same time and both succeed; the lock
 * on the data directory prevents that. */
static int bind_unix(int fd, const struct sockaddr_un *address)
{
    struct stat seen, now;

    if (bind(fd, (const struct sockaddr *)address, sizeof *address) == 0) return 0;
    if (errno != EADDRINUSE) return errno;
    if (!is_stale(address, &seen)) return EADDRINUSE;
    if (lstat(address->sun_path, &now) || now.st_ino != seen.st_ino || now.st_dev != seen.st_dev)
        return EADDRINUSE;
    if (unlink(address->sun_path)) return errno;
    return bind(fd, (const struct sockaddr *)address, sizeof *address) ? errno : 0;
}

static int open_unix(struct real_listener *l, struct str path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    int error;

    memcpy(address.sun_path, path.at, path.len); /* address_split checked the length */
    l->fd = socket_for(AF_UNIX);
    if (l->fd < 0) return errno;
    error = bind_unix(l->fd, &address);
    if (error) return error;
    l->is_unix = true;
    if (lstat(address.sun_path, &info) == 0) {
        l->path_device = info.st_dev;
        l->path_inode = info.st_ino;
    }
    snprintf(l->address, sizeof l->address, "unix:%s", address.sun_path);
    return listen(l->fd, LISTEN_QUEUE) ? errno : 0;
}

static int bind_tcp(int fd, const struct addrinfo *target)
{
    int on = 1, off = 0;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)) return errno;
    /* "[::]" means both families, regardless of the system default. */
    if (target->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, target->ai_addr, target->ai_addrlen)) return errno;
    return listen(fd, LISTEN_QUEUE) ? errno : 0;
}

static int open_tcp(struct real_listener *l, const struct addrinfo *target)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    int error;

    l->fd = socket_for(target->ai_family);
    if (l->fd < 0) return errno;
    error = bind_tcp(l->fd, target);
    if (!error && getsockname(l->fd, (struct sockaddr *)&bound, &len)) error = errno;
    if (error) {
        close(l->fd);
        l->fd = -1;
        return error;
    }
    stream_address_text(&bound, l->address);
    return 0;
}

/* Blocks: listeners are opened at start, before there is other work. */
static enum err find_and_open_tcp(struct real_listener *l, const struct address_parts *parts,
                                  struct note *note)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256], port[8];
    int error = 0;

    snprintf(host, sizeof host, "%.*s", STR_ARG(parts->host));
    snprintf(port, sizeof port, "%u", parts->port);
    error = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (error) {
        note_set(note, "listen on %s: %s", l->options.address, gai_strerror(error));
        return error == EAI_MEMORY ? ERR_NOMEM : ERR_UNAVAILABLE;
    }
    error = EADDRNOTAVAIL;
    for (const struct addrinfo *target = found; target && error; target = target->ai_next)
        error = open_tcp(l, target);
    freeaddrinfo(found);
    return error ? listen_real_refuse(note, l->options.address, error) : ERR_OK;
}

static enum err open_socket(struct real_listener *l, struct note *note)
{
    struct address_parts parts;
    enum err err = address_split(l->options.address, &parts, note);
    int error;

    if (err) return err;
    if (!parts.is_unix) return find_and_open_tcp(l, &parts, note);
    error = open_unix(l, parts.host);
    return error ? listen_real_refuse(note, l->options.address, error) : ERR_OK;
}

/* -- closing -- */

static void remove_path(const struct real_listener *l)
{
    const char *path = l->address + strlen("unix:");
    struct stat info;

    if (!l->is_unix || lstat(path, &info)) return;
    if (info.st_ino == l->path_inode && info.st_dev == l->path_device) unlink(path);
}

static void listener_free(struct real_listener *l)
{
    timer_deinit(&l->retry);
    tls_context_unref(l->options.tls);
    free(l);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct real_listener *l = handle->data;

    real_enter(l->real);
    listener_free(l);
}

static void real_listener_close(struct listener *listener)
{
    struct real_listener *l = from_listener(listener);

    assert(!l->closed);
    l->closed = true;
    timer_stop(&l->retry);
    for (struct list *node; (node = list_pop(&l->streams));)
        CONTAINER_OF(node, struct real_stream, in_listener)->listener = NULL;
    for (struct list *node; (node = list_pop(&l->handshakes));) {
        struct real_stream *s = CONTAINER_OF(node, struct real_stream, in_handshakes);
        s->shakes_for = NULL;
        stream_close(s->tls);
    }
    remove_path(l);
    uv_close((uv_handle_t *)&l->poll, on_poll_closed);
    close(l->fd); /* now, so that another process can use the address */
    l->fd = -1;   /* the number may soon belong to another descriptor */
}

static const struct listener_ops real_listener_ops = {
    .pause = real_listener_pause,
    .close = real_listener_close,
};

enum err real_listen(struct net *net, const struct listen_options *options,
                     struct listener **ret_listener, struct note *note)
{
    struct real_listener *l = calloc(1, sizeof *l);
    int failed;
    enum err err;

    if (!l) return ERR_NOMEM;
    l->listener = (struct listener){.ops = &real_listener_ops, .address = l->address};
    l->real = CONTAINER_OF(net, struct real_io, net);
    l->options = *options;
    l->fd = -1;
    if (!l->options.streams_max) l->options.streams_max = STREAMS_MAX_DEFAULT;
    list_init(&l->streams);
    list_init(&l->handshakes);
    if (l->options.tls) tls_context_ref(l->options.tls);
    err = timer_init(&l->retry, &l->real->loop, on_retry);
    if (!err) err = open_socket(l, note);
    if (err) goto failed;
    failed = uv_poll_init_socket(&l->real->uv, &l->poll, l->fd);
    if (failed) {
        err = listen_real_refuse(note, options->address, -failed);
        goto failed;
    }
    l->options.address = NULL; /* belongs to the caller; see l->address */
    l->poll.data = l;
    watch(l);
    *ret_listener = &l->listener;
    return ERR_OK;

failed:
    remove_path(l);
    if (l->fd >= 0) close(l->fd);
    listener_free(l);
    return err;
}
