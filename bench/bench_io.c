/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of the loop and its streams beside the bare system, in one run on one machine.
 *
 * An echo server three times: ours, plain libuv, and bare epoll; the client is the same blocking
 * code for all. The number that counts is the server thread's CPU per message, because the wall
 * time of a loopback echo is mostly waking threads up. Then: handing a message to a loop from
 * another thread, and starting and stopping timers, both against libuv's own. Best of several
 * rounds. */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "io/real.h"

enum { ROUNDS = 5, CONNECTIONS_MAX = 64, ROOM = 64 * 1024 };

/* -- three echo servers: each says its port, then serves until every connection it saw is closed
 * -- */

struct server {
    void (*main)(struct server *server);
    int connections; /* to expect */
    int closed;
    uint16_t port;
    pthread_barrier_t ready;
    double cpu_ns;
};

static void on_accept(void *owner, struct stream *own_stream);
struct ours {
    struct server *server;
    struct real_io *real;
};
struct our_stream {
    struct ours *ours;
    struct stream *stream;
};

static void our_bytes(void *owner, struct str bytes)
{
    struct our_stream *s = owner;
    MUST(!stream_write(s->stream, &bytes, 1));
}
static void our_closed(void *owner, enum err why, const struct note *note)
{
    struct our_stream *s = owner;
    (void)why, (void)note;
    if (++s->ours->server->closed == s->ours->server->connections) real_io_stop(s->ours->real);
    free(s);
}
static const struct stream_events our_events = {.on_bytes = our_bytes, .on_closed = our_closed};
static void on_accept(void *owner, struct stream *own_stream)
{
    struct our_stream *s = malloc(sizeof *s);
    MUST(s);
    *s = (struct our_stream){owner, own_stream};
    stream_start(own_stream, &our_events, s);
}
static void ours_main(struct server *server)
{
    struct ours ours = {.server = server};
    struct listener *listener;
    struct listen_options options = {
        .address = "127.0.0.1:0", .on_accept = on_accept, .owner = &ours, .output_max = 64 << 20};

    MUST(!real_io_open(&ours.real));
    MUST(!net_listen(real_io_io(ours.real)->net, &options, &listener, NULL));
    server->port = (uint16_t)atoi(strrchr(listener_address(listener), ':') + 1);
    pthread_barrier_wait(&server->ready);
    real_io_run(ours.real);
    listener_close(listener);
    real_io_close(ours.real);
}

struct uv_server {
    struct server *server;
    uv_loop_t loop;
    uv_tcp_t tcp;
    char room[ROOM];
};
struct uv_piece {
    uv_write_t write;
    char bytes[];
};
static void uv_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct uv_server *s = handle->loop->data;
    (void)suggested;
    *buf = uv_buf_init(s->room, ROOM);
}
static void uv_gone(uv_handle_t *handle)
{
    struct uv_server *s = handle->loop->data;
    free(handle);
    if (++s->server->closed == s->server->connections) uv_stop(&s->loop);
}
static void uv_written(uv_write_t *write, int status)
{
    (void)status;
    free(CONTAINER_OF(write, struct uv_piece, write));
}
/* As a careful user of libuv: tries at once, copies only the bytes that were not sent. */
static void uv_bytes(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    uv_buf_t bytes = uv_buf_init(buf->base, (unsigned)(got > 0 ? got : 0));
    int sent;

    if (got < 0) uv_close((uv_handle_t *)stream, uv_gone);
    if (got <= 0) return;
    sent = uv_try_write(stream, &bytes, 1);
    if (sent < 0) sent = 0;
    if (sent == got) return;
    struct uv_piece *piece = malloc(sizeof *piece + (size_t)(got - sent));
    MUST(piece);
    memcpy(piece->bytes, buf->base + sent, (size_t)(got - sent));
    bytes = uv_buf_init(piece->bytes, (unsigned)(got - sent));
    MUST(!uv_write(&piece->write, stream, &bytes, 1, uv_written));
}
static void uv_accepts(uv_stream_t *listening, int status)
{
    uv_tcp_t *tcp = malloc(sizeof *tcp);
    (void)status;
    MUST(tcp && !uv_tcp_init(listening->loop, tcp) && !uv_accept(listening, (uv_stream_t *)tcp));
    uv_tcp_nodelay(tcp, 1);
    MUST(!uv_read_start((uv_stream_t *)tcp, uv_room, uv_bytes));
}
static void uv_main(struct server *server)
{
    struct uv_server *s = calloc(1, sizeof *s);
    struct sockaddr_in address;
    int len = sizeof address;

    MUST(s && !uv_loop_init(&s->loop));
    s->server = server;
    s->loop.data = s;
    uv_ip4_addr("127.0.0.1", 0, &address);
    MUST(!uv_tcp_init(&s->loop, &s->tcp));
    MUST(!uv_tcp_bind(&s->tcp, (struct sockaddr *)&address, 0));
    MUST(!uv_listen((uv_stream_t *)&s->tcp, 128, uv_accepts));
    uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&address, &len);
    server->port = ntohs(address.sin_port);
    pthread_barrier_wait(&server->ready);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&s->tcp, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    MUST(!uv_loop_close(&s->loop));
    free(s);
}

/* Bare: blocking writes are fine because the client always reads. */
static void epoll_main(struct server *server)
{
    static char room[ROOM];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, events[CONNECTIONS_MAX];

    MUST(!bind(listening, (struct sockaddr *)&address, len) && !listen(listening, 128));
    MUST(!getsockname(listening, (struct sockaddr *)&address, &len));
    MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event));
    server->port = ntohs(address.sin_port);
    pthread_barrier_wait(&server->ready);
    while (server->closed < server->connections) {
        int count = epoll_wait(epoll, events, CONNECTIONS_MAX, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listening) {
                fd = accept(listening, NULL, NULL);
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event.data.fd = fd;
                MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
                continue;
            }
            ssize_t got = read(fd, room, sizeof room);
            if (got <= 0) {
                close(fd);
                server->closed++;
            } else {
                MUST(write(fd, room, (size_t)got) == got);
            }
        }
    }
    close(epoll);
    close(listening);
}

static void *server_thread(void *context)
{
    struct server *server = context;
    server->main(server);
    server->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* -- the client -- */

struct load {
    const char *name;
    int connections;
    size_t size;
    int messages;
};

static void read_all(int fd, char *room, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, room, size - at < ROOM ? size - at : ROOM);
        MUST(got > 0);
        at += (size_t)got;
    }
}
struct writer {
    int fd;
    size_t size;
    int messages;
};
static void *writer_thread(void *context)
{
    static const char bytes[ROOM];
    struct writer *w = context;
    for (size_t left = w->size * (size_t)w->messages; left > 0;) {
        ssize_t wrote = write(w->fd, bytes, left < ROOM ? left : ROOM);
        MUST(wrote > 0);
        left -= (size_t)wrote;
    }
    return NULL;
}
/* Small: all connections at once, then wait for all. Large: one thread writes, one reads. */
static void run_client(const struct load *load, const int *fds)
{
    static char room[ROOM];

    if (load->size >= ROOM) {
        struct writer writer = {fds[0], load->size, load->messages};
        pthread_t thread;
        MUST(!pthread_create(&thread, NULL, writer_thread, &writer));
        read_all(fds[0], room, load->size * (size_t)load->messages);
        pthread_join(thread, NULL);
        return;
    }
    for (int m = 0; m < load->messages; m += load->connections) {
        for (int i = 0; i < load->connections; i++)
            MUST(write(fds[i], room, load->size) == (ssize_t)load->size);
        for (int i = 0; i < load->connections; i++) read_all(fds[i], room, load->size);
    }
}

struct result {
    double cpu_ns, wall_ns;
};
static struct result run_echo(const struct load *load, void (*main)(struct server *))
{
    struct server server = {.main = main, .connections = load->connections};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[CONNECTIONS_MAX], on = 1;
    pthread_t thread;
    double start;
    struct result result;

    pthread_barrier_init(&server.ready, NULL, 2);
    MUST(!pthread_create(&thread, NULL, server_thread, &server));
    pthread_barrier_wait(&server.ready);
    address.sin_port = htons(server.port);
    for (int i = 0; i < load->connections; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        MUST(!connect(fds[i], (struct sockaddr *)&address, sizeof address));
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    start = clock_ns(CLOCK_MONOTONIC);
    run_client(load, fds);
    result.wall_ns = (clock_ns(CLOCK_MONOTONIC) - start) / load->messages;
    for (int i = 0; i < load->connections; i++) close(fds[i]);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&server.ready);
    result.cpu_ns = server.cpu_ns / load->messages;
    return result;
}

static void bench_echo(const struct load *load)
{
    static void (*const mains[])(struct server *) = {ours_main, uv_main, epoll_main};
    struct result best[3] = {{1e18, 1e18}, {1e18, 1e18}, {1e18, 1e18}};

    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 3; i++) {
            struct result r = run_echo(load, mains[i]);
            if (r.cpu_ns < best[i].cpu_ns) best[i].cpu_ns = r.cpu_ns;
            if (r.wall_ns < best[i].wall_ns) best[i].wall_ns = r.wall_ns;
        }
    printf("%-34s server CPU us: ours %7.2f, libuv %7.2f, epoll %7.2f; ours/libuv %.2f, ours/epoll "
           "%.2f;"
           " wall us: %.2f, %.2f, %.2f\n",
           load->name, best[0].cpu_ns / 1e3, best[1].cpu_ns / 1e3, best[2].cpu_ns / 1e3,
           best[0].cpu_ns / best[1].cpu_ns, best[0].cpu_ns / best[2].cpu_ns, best[0].wall_ns / 1e3,
           best[1].wall_ns / 1e3, best[2].wall_ns / 1e3);
}

/* -- handing over -- */

enum { HANDOVERS = 5000, BURST = 200000 };
struct partner {
    struct real_io *real;
    struct post post;
    struct partner *other;
    int left;
};

static void on_ball(struct post *post)
{
    struct partner *p = CONTAINER_OF(post, struct partner, post);
    if (p->left-- == 0) real_io_stop(p->real);
    if (p->left >= -1) loop_post(real_io_io(p->other->real)->loop, &p->other->post);
}
static void *partner_thread(void *context)
{
    real_io_run(((struct partner *)context)->real);
    return NULL;
}
static double handover_posts(void)
{
    struct partner a = {.left = HANDOVERS}, b = {.left = HANDOVERS};
    pthread_t thread;
    double start;

    MUST(!real_io_open(&a.real) && !real_io_open(&b.real));
    a.other = &b;
    b.other = &a;
    post_init(&a.post, on_ball);
    post_init(&b.post, on_ball);
    MUST(!pthread_create(&thread, NULL, partner_thread, &b));
    start = clock_ns(CLOCK_MONOTONIC);
    loop_post(real_io_io(a.real)->loop, &a.post);
    real_io_run(a.real);
    pthread_join(thread, NULL);
    start = clock_ns(CLOCK_MONOTONIC) - start;
    real_io_close(a.real);
    real_io_close(b.real);
    return start / (2 * HANDOVERS);
}

/* The same with bare libuv: two loops, one async handle each. */
struct uv_partner {
    uv_loop_t loop;
    uv_async_t async;
    struct uv_partner *other;
    int left;
};

static void on_uv_ball(uv_async_t *async)
{
    struct uv_partner *p = async->data;
    if (p->left-- == 0) uv_stop(&p->loop);
    if (p->left >= -1) uv_async_send(&p->other->async);
}
static void *uv_partner_thread(void *context)
{
    uv_run(&((struct uv_partner *)context)->loop, UV_RUN_DEFAULT);
    return NULL;
}
static double handover_uv(void)
{
    struct uv_partner pair[2];
    pthread_t thread;
    double start;

    for (int i = 0; i < 2; i++) {
        pair[i].left = HANDOVERS;
        pair[i].other = &pair[1 - i];
        MUST(!uv_loop_init(&pair[i].loop) &&
             !uv_async_init(&pair[i].loop, &pair[i].async, on_uv_ball));
        pair[i].async.data = &pair[i];
    }
    MUST(!pthread_create(&thread, NULL, uv_partner_thread, &pair[1]));
    start = clock_ns(CLOCK_MONOTONIC);
    uv_async_send(&pair[0].async);
    uv_run(&pair[0].loop, UV_RUN_DEFAULT);
    pthread_join(thread, NULL);
    start = clock_ns(CLOCK_MONOTONIC) - start;
    for (int i = 0; i < 2; i++) {
        uv_close((uv_handle_t *)&pair[i].async, NULL);
        uv_run(&pair[i].loop, UV_RUN_DEFAULT);
        MUST(!uv_loop_close(&pair[i].loop));
    }
    return start / (2 * HANDOVERS);
}

static int burst_seen;
static void on_burst(struct post *post)
{
    (void)post;
    burst_seen++;
}
static void *burst_thread(void *context)
{
    struct real_io *real = context;
    struct post *posts = calloc(BURST, sizeof *posts);
    MUST(posts);
    for (int i = 0; i < BURST; i++) {
        post_init(&posts[i], on_burst);
        loop_post(real_io_io(real)->loop, &posts[i]);
    }
    return posts;
}
static double handover_burst(void)
{
    struct real_io *real;
    pthread_t thread;
    void *posts;
    double start;

    MUST(!real_io_open(&real));
    burst_seen = 0;
    start = clock_ns(CLOCK_MONOTONIC);
    MUST(!pthread_create(&thread, NULL, burst_thread, real));
    while (burst_seen < BURST) real_io_turn(real, true);
    start = clock_ns(CLOCK_MONOTONIC) - start;
    pthread_join(thread, &posts);
    free(posts);
    real_io_close(real);
    return start / BURST;
}

/* -- timers -- */

enum { TIMERS = 10000, TIMER_PASSES = 20 };
static void on_timer(struct timer *timer)
{
    (void)timer;
}
static void on_uv_timer(uv_timer_t *timer)
{
    (void)timer;
}
static uint64_t delay_of(uint64_t i)
{
    return 100000 + i * 2654435761u % 100000;
}

static double timers_ours(void)
{
    struct timer *timers = calloc(TIMERS, sizeof *timers);
    struct real_io *real;
    double start;

    MUST(timers && !real_io_open(&real));
    for (int i = 0; i < TIMERS; i++)
        MUST(!timer_init(&timers[i], real_io_io(real)->loop, on_timer));
    start = clock_ns(CLOCK_MONOTONIC);
    for (uint64_t pass = 0; pass < TIMER_PASSES; pass++) {
        mono_time now = loop_now(real_io_io(real)->loop);
        for (uint64_t i = 0; i < TIMERS; i++)
            timer_start(&timers[i], mono_after(now, delay_of(i + pass)));
        for (uint64_t i = 0; i < TIMERS; i++) timer_stop(&timers[i]);
    }
    start = clock_ns(CLOCK_MONOTONIC) - start;
    for (int i = 0; i < TIMERS; i++) timer_deinit(&timers[i]);
    real_io_close(real);
    free(timers);
    return start / (TIMERS * TIMER_PASSES);
}
static double timers_uv(void)
{
    uv_timer_t *timers = calloc(TIMERS, sizeof *timers);
    uv_loop_t loop;
    double start;

    MUST(timers && !uv_loop_init(&loop));
    for (int i = 0; i < TIMERS; i++) MUST(!uv_timer_init(&loop, &timers[i]));
    start = clock_ns(CLOCK_MONOTONIC);
    for (uint64_t pass = 0; pass < TIMER_PASSES; pass++) {
        for (uint64_t i = 0; i < TIMERS; i++)
            uv_timer_start(&timers[i], on_uv_timer, delay_of(i + pass), 0);
        for (uint64_t i = 0; i < TIMERS; i++) uv_timer_stop(&timers[i]);
    }
    start = clock_ns(CLOCK_MONOTONIC) - start;
    for (int i = 0; i < TIMERS; i++) uv_close((uv_handle_t *)&timers[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(timers);
    return start / (TIMERS * TIMER_PASSES);
}

static double best_of(double (*run)(void))
{
    double best = 1e18;
    for (int i = 0; i < ROUNDS; i++) {
        double one = run();
        if (one < best) best = one;
    }
    return best;
}

int main(void)
{
    static const struct load loads[] = {
        {"echo 64 B, 1 connection", 1, 64, 10000},
        {"echo 64 B, 64 connections", 64, 64, 64 * 500},
        {"echo 64 KiB stream, 1 connection", 1, ROOM, 2000},
    };
    double ours, peer;

    for (size_t i = 0; i < ARRAY_LEN(loads); i++) bench_echo(&loads[i]);
    ours = best_of(handover_posts);
    peer = best_of(handover_uv);
    printf("hand-over to a sleeping loop       us: ours %.2f, libuv %.2f; ratio %.2f\n", ours / 1e3,
           peer / 1e3, ours / peer);
    printf("posts in a burst, one thread       ns: %.0f\n", best_of(handover_burst));
    ours = best_of(timers_ours);
    peer = best_of(timers_uv);
    printf("timer start and stop, %d running ns: ours %.0f, libuv %.0f; ratio %.2f\n", TIMERS, ours,
           peer, ours / peer);
    return 0;
}
