/* SPDX-License-Identifier: Apache-2.0 */
/* Life of the server: the listening socket, the thread, and what wakes it.
 *
 * The library is driven from outside (epoll descriptor plus MHD_run) on a thread of ours and not by
 * its internal thread: so events, keep-alive probes and the end of an event stream are all decided
 * on the one thread that owns the connections, and suspending and resuming cannot race. */
#include "io/http_internal.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/fs.h"

enum {
    HTTP_BACKLOG = 256,
    HTTP_SWEEP_MS = 1000,     /* between looks for peers that have left */
    HTTP_STOP_ROUNDS = 16,    /* turns given to event streams to say goodbye */
    HTTP_TURN_MS_MAX = 60000, /* the longest sleep; only a guard against a wait for ever */
    HTTP_CONNECTIONS_LIMIT = 65536
};

void http_lock(struct http_server *server)
{
    int failed = pthread_mutex_lock(&server->lock);
    assert(!failed);
    (void)failed;
}

void http_unlock(struct http_server *server)
{
    int failed = pthread_mutex_unlock(&server->lock);
    assert(!failed);
    (void)failed;
}

void http_wake(struct http_server *server)
{
    if (server->woken || server->wake_fd < 0) return;
    server->woken = true;
    /* An eventfd takes this unless its counter is at the top, and then the thread is awake
     * anyway. */
    (void)!write(server->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

mono_time http_now(void)
{
    return clock_mono(clock_real());
}

/* -- connections -- */

struct peer *http_peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void peer_add(struct http_server *server, struct MHD_Connection *connection, void **slot)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct peer *peer = info ? calloc(1, sizeof *peer) : NULL;
    if (!peer) return; /* then only the idle limit ends it */
    list_init(&peer->link);
    peer->fd = info->connect_fd;
    list_append(&server->peers, &peer->link);
    *slot = peer;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    struct peer *peer = *slot;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        atomic_fetch_add(&server->connections, 1);
        peer_add(server, connection, slot);
        return;
    }
    if (peer) {
        list_remove(&peer->link);
        free(peer);
        *slot = NULL;
    }
    if (atomic_fetch_sub(&server->connections, 1) == server->connections_max)
        server->turn_again = true;
}

/* The library waits for edges of the socket, and misses the end of a peer whose last bytes came
 * together with it: such a connection would stay until the idle limit. Found by fuzzing. Ending the
 * socket makes an edge it does see. An answer under way may still be wanted by a peer that only
 * said it has no more to ask, so those are left alone. */
static void end_left_peers(struct http_server *server)
{
    LIST_EACH(&server->peers, node)
    {
        struct peer *peer = CONTAINER_OF(node, struct peer, link);
        char byte;
        if (!peer->answering && recv(peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            shutdown(peer->fd, SHUT_RDWR);
    }
}

/* -- the thread -- */

static void resume_readers(struct http_server *server, enum resume_why why)
{
    size_t count;
    http_lock(server);
    count = server->route_count; /* channels are only ever added */
    http_unlock(server);
    for (size_t i = 0; i < count; i++) {
        struct http_channel *channel;
        http_lock(server); /* a route beside it may be changing its place's kind right now */
        channel = server->routes[i].kind == ROUTE_CHANNEL ? server->routes[i].channel : NULL;
        http_unlock(server);
        if (channel) http_channel_resume(channel, why);
    }
}

static bool take_wakeup(struct http_server *server, bool *ret_woken)
{
    uint64_t ignored;
    bool stopping;
    http_lock(server);
    if (server->woken) (void)!read(server->wake_fd, &ignored, sizeof ignored);
    *ret_woken = server->woken;
    server->woken = false;
    stopping = server->stopping;
    http_unlock(server);
    return stopping;
}

/* An idle server sleeps through: nothing to probe without readers, nobody to miss without peers. */
static mono_time next_due(struct http_server *server, mono_time pulse_at, mono_time sweep_at)
{
    mono_time due = atomic_load(&server->readers) > 0 ? pulse_at : MONO_NEVER;
    return list_empty(&server->peers) ? due : mono_min(due, sweep_at);
}

static int sleep_ms(struct http_server *server, mono_time now, mono_time due)
{
    unsigned long long wanted;
    uint64_t ms = mono_elapsed_ms(now, due);
    /* At its limit the library stops listening, and begins again in the turn after one has left. */
    if (server->turn_again) return 0;
    if (MHD_get_timeout(server->daemon, &wanted) == MHD_YES && wanted < ms) ms = wanted;
    return (int)min_u64(ms, HTTP_TURN_MS_MAX);
}

static int epoll_fd_of(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

static void *http_thread(void *argument)
{
    struct http_server *server = argument;
    struct pollfd fds[] = {{.fd = epoll_fd_of(server->daemon), .events = POLLIN},
                           {.fd = server->wake_fd, .events = POLLIN}};
    const uint64_t sweep_ms = min_u64(server->keepalive_ms, HTTP_SWEEP_MS);
    mono_time pulse_at = mono_after(http_now(), server->keepalive_ms);
    mono_time sweep_at = mono_after(http_now(), sweep_ms);
    bool woken;

    pthread_setname_np(pthread_self(), "http");
    http_pair_thread(server);
    while (!take_wakeup(server, &woken)) { /* until http_close */
        mono_time now = http_now();
        if (woken) resume_readers(server, RESUME_FOR_EVENTS);
        if (mono_due(pulse_at, now)) {
            resume_readers(server, RESUME_FOR_PULSE);
            pulse_at = mono_after(now, server->keepalive_ms);
        }
        if (mono_due(sweep_at, now)) {
            end_left_peers(server);
            if (server->tls && atomic_load(&server->connections) == 0) http_pairs_trim(server);
            sweep_at = mono_after(now, sweep_ms);
        }
        server->turn_again = false;
        MHD_run(server->daemon);
        poll(fds, ARRAY_LEN(fds), sleep_ms(server, now, next_due(server, pulse_at, sweep_at)));
    }
    resume_readers(server, RESUME_FOR_STOP);
    for (int i = 0; i < HTTP_STOP_ROUNDS && atomic_load(&server->readers) > 0; i++)
        MHD_run(server->daemon);
    MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
    return NULL;
}

static enum err thread_start(struct http_server *server)
{
    /* A fault in a handler must reach obs/crash.h: blocked, the kernel would end us unheard. */
    static const int ours[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t all, old;
    int failed;

    sigfillset(&all); /* signals belong to the loop's thread; SIGPIPE then cannot end us either */
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) sigdelset(&all, ours[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&server->thread, NULL, http_thread, server);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) return ERR_UNAVAILABLE;
    server->thread_runs = true;
    return ERR_OK;
}

/* -- the socket -- */

/* "host:port", ":port", "[v6]:port" into two C strings. */
static enum err split_address(const char *address, char host[HTTP_ADDRESS_CAP],
                              const char **ret_port, struct note *note)
{
    struct str text = str_from(address);
    const char *colon = address ? strrchr(address, ':') : NULL;
    struct str name;
    uint64_t port;

    if (!colon || text.len >= HTTP_ADDRESS_CAP) goto invalid;
    name = str_of(address, (size_t)(colon - address));
    if (name.len >= 2 && name.at[0] == '[' && name.at[name.len - 1] == ']')
        name = str_of(name.at + 1, name.len - 2);
    else if (str_has(name, ':'))
        goto invalid; /* an IPv6 address without brackets: which colon is the port's? */
    if (str_to_u64(str_from(colon + 1), &port) != ERR_OK || port > 65535) goto invalid;
    memcpy(host, name.at, name.len);
    host[name.len] = '\0';
    *ret_port = colon + 1;
    return ERR_OK;

invalid:
    note_set(note, "not an address: \"%s\" (want host:port)", address ? address : "");
    return ERR_INVALID;
}

static enum err err_of_bind(int code)
{
    switch (code) {
    case EADDRINUSE: return ERR_BUSY;
    case EACCES:
    case EPERM: return ERR_DENIED;
    case ENOMEM:
    case ENOBUFS: return ERR_NOMEM;
    case EADDRNOTAVAIL:
    case EINVAL: return ERR_INVALID;
    default: return ERR_UNAVAILABLE;
    }
}

static enum err bind_one(const struct addrinfo *at, int *ret_fd)
{
    int yes = 1, code;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return err_of_bind(errno);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, HTTP_BACKLOG) == 0) {
        *ret_fd = fd;
        return ERR_OK;
    }
    code = errno;
    close(fd);
    return err_of_bind(code);
}

static enum err name_socket(struct http_server *server, int fd)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getsockname(fd, (struct sockaddr *)&bound, &len) != 0 ||
        getnameinfo((struct sockaddr *)&bound, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return ERR_UNAVAILABLE;
    snprintf(server->address, sizeof server->address,
             strchr(host, ':') ? "[%.200s]:%s" : "%.200s:%s", host, port);
    return ERR_OK;
}

static enum err socket_open(struct http_server *server, const char *address, int *ret_fd,
                            int *ret_family, struct note *note)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[HTTP_ADDRESS_CAP];
    const char *port;
    int fd = -1, code;
    enum err err = split_address(address, host, &port, note);

    if (err) return err;
    code = getaddrinfo(host[0] ? host : NULL, port, &want, &found);
    if (code == EAI_MEMORY) return ERR_NOMEM;
    if (code != 0) {
        note_set(note, "listen %s: %s", address, gai_strerror(code));
        return ERR_INVALID;
    }
    err = bind_one(found, &fd);
    if (!err) err = name_socket(server, fd);
    if (!err) {
        *ret_fd = fd;
        *ret_family = found->ai_family;
    } else {
        note_set(note, "listen %s: %s", address,
                 err == ERR_BUSY      ? "address is in use"
                 : err == ERR_INVALID ? "address not available on this machine"
                                      : err_text(err));
        if (fd >= 0) close(fd);
    }
    freeaddrinfo(found);
    return err;
}

/* -- open and close -- */

struct pem_pair {
    char *cert, *key; /* NULL without TLS */
    char *ca;         /* NULL: callers are not asked */
};

static enum err pem_read(const char *path, char **ret_text, struct note *note)
{
    struct buf text;
    enum err err;
    buf_init(&text, HTTP_PEM_MAX);
    err = fs_read_whole(fs_real(), path, HTTP_PEM_MAX, &text);
    if (!err) err = buf_detach(&text, ret_text);
    if (err) note_set(note, "read %s: %s", path, err_text(err));
    buf_deinit(&text);
    return err;
}

static void pem_free(struct pem_pair *pem)
{
    if (pem->key) explicit_bzero(pem->key, strlen(pem->key));
    free(pem->key);
    free(pem->cert);
    free(pem->ca);
    *pem = (struct pem_pair){0};
}

static enum err pem_load(const struct http_options *options, struct pem_pair *pem,
                         struct note *note)
{
    enum err err;
    if (!options->cert_file && !options->key_file) return ERR_OK;
    if (!options->cert_file || !options->key_file) {
        note_set(note, "TLS needs both a certificate and a key");
        return ERR_INVALID;
    }
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        note_set(note, "this libmicrohttpd was built without TLS");
        return ERR_UNSUPPORTED;
    }
    err = pem_read(options->cert_file, &pem->cert, note);
    if (!err) err = pem_read(options->key_file, &pem->key, note);
    if (!err && options->ca_file) err = pem_read(options->ca_file, &pem->ca, note);
    if (err) pem_free(pem);
    return err;
}

static uint32_t given_or(uint32_t given, uint32_t usual)
{
    return given ? given : usual;
}

static enum err daemon_start(struct http_server *server, const struct http_options *options,
                             struct note *note)
{
    uint32_t connections = given_or(options->connections_max, HTTP_CONNECTIONS_MAX);
    struct pem_pair pem = {0};
    struct MHD_OptionItem tls[4] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    int fd = -1, family = 0;
    enum err err = pem_load(options, &pem, note);

    if (!err && pem.cert) {
        server->tls = true;
        err = http_replace_pair(server, str_from(pem.cert), str_from(pem.key), note);
        if (err)
            note_prefix(note, "certificate %s and key %s", options->cert_file, options->key_file);
    }
    if (!err && pem.ca) {
        server->ca_pem = pem.ca; /* the library keeps pointing at it */
        pem.ca = NULL;
        err = http_replace_trust(server, str_from(server->ca_pem), note);
        if (err) note_prefix(note, "authorities %s", options->ca_file);
    }
    if (!err) err = socket_open(server, options->address, &fd, &family, note);
    if (err) goto done;
    if (family == AF_INET6) flags |= MHD_USE_IPv6;
    if (pem.cert) {
        static char versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, http_on_handshake()};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, versions};
        tls[2] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
        if (server->ca_pem) { /* asked for, never demanded: probes and most readers have none */
            tls[2] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, server->ca_pem};
            tls[3] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
        }
    }
    server->connections_max = connections;
    server->readers_max = connections > 1 ? connections / 2 : 1;
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_request, server,      /* */
        MHD_OPTION_LISTEN_SOCKET, fd,                       /* */
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)connections, /* */
        MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)given_or(options->connections_per_peer_max, HTTP_CONNECTIONS_PER_PEER_MAX),
        MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)given_or(options->idle_timeout_s, HTTP_IDLE_TIMEOUT_S), /* */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEAD_MAX,        /* */
        MHD_OPTION_STRICT_FOR_CLIENT, 1,                                  /* */
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,                             /* */
        MHD_OPTION_URI_LOG_CALLBACK, http_on_uri, server,                 /* */
        MHD_OPTION_UNESCAPE_CALLBACK, http_no_unescape, NULL,             /* */
        MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, server,           /* */
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,              /* */
        MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (!server->daemon) {
        err = ERR_NOMEM;
        note_set(note, "start http");
        close(fd);
    }
done:
    pem_free(&pem);
    return err;
}

static enum err out_of_memory_make(struct http_server *server)
{
    static char text[] = "503 out of memory\n";
    server->out_of_memory =
        MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
    if (!server->out_of_memory ||
        !http_standard_headers(server->out_of_memory, "text/plain; charset=utf-8", "no-store"))
        return ERR_NOMEM;
    return ERR_OK;
}

enum err http_open(const struct http_options *options, struct http_server **ret_server,
                   struct note *note)
{
    struct http_server *server;
    enum err err = ERR_OK;

    if (!options->address || options->connections_max > HTTP_CONNECTIONS_LIMIT) {
        note_set(note, options->address ? "too many connections: %u" : "no address to listen on",
                 options->connections_max);
        return ERR_INVALID;
    }
    server = calloc(1, sizeof *server);
    if (!server) return ERR_NOMEM;
    pthread_cond_init(&server->handler_ended, NULL);
    pthread_mutex_init(&server->lock, NULL); /* neither can fail on Linux with default attributes */
    list_init(&server->peers);
    server->body_max = options->body_max ? options->body_max : HTTP_BODY_MAX;
    server->response_max = options->response_max ? options->response_max : HTTP_RESPONSE_MAX;
    server->keepalive_ms = given_or(options->keepalive_ms, HTTP_KEEPALIVE_MS);
    entropy_fill(entropy_real(), &server->boot_id, sizeof server->boot_id);
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server->wake_fd < 0) err = ERR_UNAVAILABLE;
    if (!err) err = out_of_memory_make(server);
    if (!err) err = daemon_start(server, options, note);
    if (!err) err = thread_start(server);
    if (err) {
        http_close(server);
        return err;
    }
    *ret_server = server;
    return ERR_OK;
}

void http_close(struct http_server *server)
{
    if (!server) return;
    if (server->thread_runs) {
        http_lock(server);
        server->stopping = true;
        http_wake(server);
        http_unlock(server);
        pthread_join(server->thread, NULL);
    }
    if (server->daemon) MHD_stop_daemon(server->daemon); /* opened, but the thread never began */
    assert(atomic_load(&server->readers) == 0);          /* every stream told us it has ended */
    assert(list_empty(&server->peers));
    http_routes_deinit(server);
    http_pairs_free(server);
    http_trust_free(server);
    free(server->ca_pem);
    if (server->out_of_memory) MHD_destroy_response(server->out_of_memory);
    if (server->wake_fd >= 0) close(server->wake_fd);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->handler_ended);
    free(server);
}

const char *http_address(const struct http_server *server)
{
    return server->address;
}

struct http_stats http_stats(const struct http_server *server)
{
    return (struct http_stats){
        .requests = atomic_load(&server->requests),
        .errors = atomic_load(&server->errors),
        .events_sent = atomic_load(&server->events_sent),
        .events_dropped = atomic_load(&server->events_dropped),
        .connections = atomic_load(&server->connections),
        .readers = atomic_load(&server->readers),
    };
}

static char engine_text[64];
static void engine_text_make(void)
{
    snprintf(engine_text, sizeof engine_text, "libmicrohttpd %s", MHD_get_version());
}

const char *http_engine_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, engine_text_make);
    return engine_text;
}
