/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of observation: a log line, a counter, an event line, a ring entry; and an HTTP page
 * beside a bare loop over poll, in one run on one machine. CPU is that of the process without the
 * load generator. Best of several rounds. */
#include "bench.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/fs.h"
#include "io/http.h"
#include "obs/events.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "obs/ring.h"

enum { ROUNDS = 5, REPEATS = 200000, CONNECTIONS = 16, REQUESTS = 4000 };

/* -- one thread, one operation many times -- */

typedef void work_fn(void *context, int repeats);

static double best_of(work_fn *work, void *context, int repeats)
{
    double best = 1e300;
    for (int i = 0; i < ROUNDS; i++) {
        double start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        work(context, repeats);
        double took = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / repeats;
        if (took < best) best = took;
    }
    return best;
}

static void report(const char *what, double ours, const char *peer, double theirs)
{
    printf("%-44s %8.1f ns   %-34s %8.1f ns   ratio %.2f\n", what, ours, peer, theirs,
           ours / theirs);
}

struct log_pair {
    struct log_source source;
    FILE *plain;
};

static void work_log(void *context, int repeats)
{
    struct log_pair *pair = context;
    for (int i = 0; i < repeats; i++)
        LOG_INFO(&pair->source, "request served", log_text("peer", "10.0.0.7:7001"),
                 log_i64("bytes", i), log_text("method", "ReportShard"));
}

static void work_log_plain(void *context, int repeats)
{
    struct log_pair *pair = context;
    for (int i = 0; i < repeats; i++) {
        struct timespec now;
        struct tm parts;
        char when[32];
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &parts);
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
        fprintf(pair->plain,
                "ts=%s.%03ldZ level=info component=bench msg=\"request served\" peer=%s bytes=%d "
                "method=%s\n",
                when, now.tv_nsec / 1000000, "10.0.0.7:7001", i, "ReportShard");
        fflush(pair->plain);
    }
}

static void work_log_off(void *context, int repeats)
{
    struct log_pair *pair = context;
    for (int i = 0; i < repeats; i++) {
        LOG_TRACE(&pair->source, "not made", log_i64("i", i));
        __asm__ volatile("" ::: "memory");
    }
}

static void work_empty(void *context, int repeats)
{
    (void)context;
    for (int i = 0; i < repeats; i++) __asm__ volatile("" ::: "memory");
}

static void bench_log(void)
{
    struct logger *loud, *limited;
    struct log_pair pair = {.plain = fopen("/dev/null", "w")};
    int fd = open("/dev/null", O_WRONLY);
    struct logger_options options = {
        .clock = clock_real(), .fd = fd, .level = LOG_LEVEL_INFO, .repeats_per_second = 1u << 31};
    MUST(pair.plain && logger_open(&options, &loud) == ERR_OK);
    log_source_init(&pair.source, loud, "bench", NULL);
    double plain = best_of(work_log_plain, &pair, REPEATS);
    report("log line, logfmt, to /dev/null", best_of(work_log, &pair, REPEATS), "fprintf + fflush",
           plain);
    double off = best_of(work_log_off, &pair, REPEATS * 10);
    report("log line below the level", off, "empty loop", best_of(work_empty, NULL, REPEATS * 10));
    logger_close(loud);
    options.format = LOG_FORMAT_JSON;
    MUST(logger_open(&options, &loud) == ERR_OK);
    log_source_init(&pair.source, loud, "bench", NULL);
    report("log line, JSON", best_of(work_log, &pair, REPEATS), "fprintf + fflush", plain);
    options.repeats_per_second = 10;
    MUST(logger_open(&options, &limited) == ERR_OK);
    log_source_init(&pair.source, limited, "bench", NULL);
    report("log line that repeats too often", best_of(work_log, &pair, REPEATS), "fprintf + fflush",
           plain);
    logger_close(limited);
    logger_close(loud);
    fclose(pair.plain);
    close(fd);
}

static void work_counter(void *context, int repeats)
{
    for (int i = 0; i < repeats; i++) counter_inc(context);
}

static void work_atomic(void *context, int repeats)
{
    for (int i = 0; i < repeats; i++)
        atomic_fetch_add_explicit((atomic_uint_fast64_t *)context, 1, memory_order_relaxed);
}

static void work_histogram(void *context, int repeats)
{
    for (int i = 0; i < repeats; i++) histogram_observe(context, (double)(i % 1000) * 0.001);
}

static void work_lookup(void *context, int repeats)
{
    for (int i = 0; i < repeats; i++) counter_inc(metric_counter(context, &STR("Bootstrap")));
}

static void work_ring(void *context, int repeats)
{
    (void)context;
    for (int i = 0; i < repeats; i++) ring_put("applied batch", (uint64_t)i, 7);
}

static void work_clock(void *context, int repeats)
{
    for (int i = 0; i < repeats; i++)
        *(volatile uint64_t *)context = clock_mono_ns(clock_real()).ns;
}

static void bench_metrics(void)
{
    double buckets[14];
    struct metrics *metrics;
    struct metric_family *plain, *labelled, *spread;
    atomic_uint_fast64_t bare = 0;
    uint64_t when;
    for (int i = 0; i < 14; i++) buckets[i] = 0.001 * (1 << i);
    MUST(metrics_open(&metrics) == ERR_OK);
    MUST(metrics_add(metrics, &(struct metric_options){.name = "a_total", .help = "h"}, &plain,
                     NULL) == ERR_OK);
    MUST(metrics_add(metrics,
                     &(struct metric_options){.name = "b_total", .help = "h", .labels = {"kind"}},
                     &labelled, NULL) == ERR_OK);
    MUST(metrics_add(metrics,
                     &(struct metric_options){.name = "c",
                                              .help = "h",
                                              .kind = METRIC_HISTOGRAM,
                                              .buckets = buckets,
                                              .bucket_count = 14},
                     &spread, NULL) == ERR_OK);
    double atomic = best_of(work_atomic, &bare, REPEATS * 10);
    report("counter increment", best_of(work_counter, metric_counter(plain, NULL), REPEATS * 10),
           "bare atomic addition", atomic);
    report("histogram observation, 14 buckets",
           best_of(work_histogram, metric_histogram(spread, NULL), REPEATS * 10),
           "bare atomic addition", atomic);
    report("counter looked up by label each time", best_of(work_lookup, labelled, REPEATS),
           "bare atomic addition", atomic);
    double clock = best_of(work_clock, &when, REPEATS * 10);
    report("ring entry without time", best_of(work_ring, NULL, REPEATS * 10), "reading the clock",
           clock);
    ring_use_clock(clock_real());
    report("ring entry with time", best_of(work_ring, NULL, REPEATS * 10), "reading the clock",
           clock);
    ring_use_clock(NULL);
    metrics_close(metrics);
}

static const char event_line[] = "{\"ts\":{\"secs_since_epoch\":1794727489,\"nanos_since_epoch\":"
                                 "589844156},\"kind\":{\"domain\":{\"topic\":"
                                 "\"worker_heartbeat\"}},\"level\":\"info\",\"run_id\":"
                                 "\"01JFEAVS7C5DE5XEAEAB91EBT5\",\"worker_id\":"
                                 "\"01JFEAVS7C5DE5XEAEAB91EBT6\",\"trace_id\":null,\"span_id\":"
                                 "null,\"plugin_id\":null,\"algorithm\":null,"
                                 "\"message\":null,\"attrs\":null}\n";

static void work_events(void *context, int repeats)
{
    struct str line = str_of(event_line, sizeof event_line - 2);
    for (int i = 0; i < repeats; i++) MUST(events_write(context, EVENT_KEEP, line) == ERR_OK);
}

static void work_write(void *context, int repeats)
{
    int fd = *(int *)context;
    for (int i = 0; i < repeats; i++)
        MUST(write(fd, event_line, sizeof event_line - 1) == sizeof event_line - 1);
}

static void bench_events(void)
{
    char dir[] = "/tmp/muster-bench-XXXXXX", path[64], bare_path[64];
    struct events *events;
    int fd;
    MUST(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/events", dir);
    snprintf(bare_path, sizeof bare_path, "%s/bare", dir);
    struct events_options options = {
        .kind = EVENTS_FILE, .fs = fs_real(), .clock = clock_real(), .path = path};
    MUST(events_open(&options, &events, NULL) == ERR_OK);
    MUST((fd = open(bare_path, O_CREAT | O_WRONLY | O_APPEND, 0600)) >= 0);
    report("event line to a file", best_of(work_events, events, REPEATS / 10),
           "bare write(2), O_APPEND", best_of(work_write, &fd, REPEATS / 10));
    events_close(events);
    close(fd);
    unlink(path);
    unlink(bare_path);
    rmdir(dir);
}

/* -- HTTP: the same page from our server and from a bare loop over poll -- */

static char page[2048];

struct bare {
    int listener, wake[2];
    uint16_t port;
    pthread_t thread;
};

static void *bare_serve(void *argument)
{
    struct bare *bare = argument;
    struct pollfd fds[CONNECTIONS + 2] = {{bare->wake[0], POLLIN, 0}, {bare->listener, POLLIN, 0}};
    char answer[sizeof page + 128], room[4096];
    int head = sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", sizeof page);
    size_t len = (size_t)head + sizeof page;
    nfds_t count = 2;

    memcpy(answer + head, page, sizeof page);
    while (poll(fds, count, -1) > 0 && !fds[0].revents) { /* until bare_close */
        for (nfds_t i = 2; i < count; i++)
            if (fds[i].revents && recv(fds[i].fd, room, sizeof room, 0) > 0)
                MUST(send(fds[i].fd, answer, len, MSG_NOSIGNAL) == (ssize_t)len);
        if (fds[1].revents && count < CONNECTIONS + 2)
            fds[count++] = (struct pollfd){accept(bare->listener, NULL, NULL), POLLIN, 0};
    }
    while (count > 2) close(fds[--count].fd);
    return NULL;
}

static void bare_open(struct bare *bare)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    MUST((bare->listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && pipe(bare->wake) == 0);
    MUST(bind(bare->listener, (struct sockaddr *)&at, sizeof at) == 0);
    MUST(listen(bare->listener, CONNECTIONS) == 0);
    MUST(getsockname(bare->listener, (struct sockaddr *)&at, &len) == 0);
    bare->port = ntohs(at.sin_port);
    MUST(pthread_create(&bare->thread, NULL, bare_serve, bare) == 0);
}

static void bare_close(struct bare *bare)
{
    MUST(write(bare->wake[1], "x", 1) == 1);
    pthread_join(bare->thread, NULL);
    close(bare->listener);
    close(bare->wake[0]);
    close(bare->wake[1]);
}

struct load {
    double requests_per_second, cpu_us;
};

static int dial(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

/* One answer; its length is the same each time, learnt from the first. */
static void receive(int fd, size_t *length)
{
    char room[16 * 1024];
    size_t got = 0;
    while (*length == 0 || got < *length) {
        ssize_t more = recv(fd, room + got, sizeof room - got, 0);
        MUST(more > 0);
        got += (size_t)more;
        char *end = *length ? NULL : memmem(room, got, "\r\n\r\n", 4);
        if (end) *length = (size_t)(end - room) + 4 + sizeof page;
    }
    MUST(got == *length && memcmp(room, "HTTP/1.1 200", 12) == 0);
}

static struct load load_of(uint16_t port)
{
    static const char request[] =
        "GET /page HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
    int fds[CONNECTIONS];
    size_t length = 0;
    struct load best = {0, 1e300};
    for (int i = 0; i < CONNECTIONS; i++) fds[i] = dial(port);
    for (int round = 0; round < ROUNDS; round++) {
        double wall = clock_ns(CLOCK_MONOTONIC), own = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        double all = clock_ns(CLOCK_PROCESS_CPUTIME_ID), count = (double)REQUESTS * CONNECTIONS / 4;
        for (int i = 0; i < REQUESTS / 4; i++) {
            for (int c = 0; c < CONNECTIONS; c++)
                MUST(send(fds[c], request, sizeof request - 1, 0) > 0);
            for (int c = 0; c < CONNECTIONS; c++) receive(fds[c], &length);
        }
        wall = clock_ns(CLOCK_MONOTONIC) - wall;
        own = clock_ns(CLOCK_THREAD_CPUTIME_ID) - own;
        all = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - all;
        if ((all - own) / count / 1e3 < best.cpu_us) best.cpu_us = (all - own) / count / 1e3;
        if (count / wall * 1e9 > best.requests_per_second)
            best.requests_per_second = count / wall * 1e9;
    }
    for (int i = 0; i < CONNECTIONS; i++) close(fds[i]);
    return best;
}

static void copy_page(void *context, const struct http_request *request,
                      struct http_response *response)
{
    (void)request;
    response->err = buf_append(&response->body, str_of(context, sizeof page));
}

static void bench_http(void)
{
    struct http_server *server;
    struct bare server_of_bytes;
    struct load ours, handled, bare;
    memset(page, 'p', sizeof page);
    MUST(http_open(&(struct http_options){.address = "127.0.0.1:0"}, &server, NULL) == ERR_OK);
    MUST(http_publish(server, "/page", "text/plain", str_of(page, sizeof page)) == ERR_OK);
    ours = load_of((uint16_t)atoi(strrchr(http_address(server), ':') + 1));
    MUST(http_unroute(server, "/page") == ERR_OK);
    MUST(http_route(server, "/page", HTTP_GET, copy_page, page) == ERR_OK);
    handled = load_of((uint16_t)atoi(strrchr(http_address(server), ':') + 1));
    http_close(server);

    bare_open(&server_of_bytes);
    bare = load_of(server_of_bytes.port);
    bare_close(&server_of_bytes);
    printf("\nHTTP GET of 2 KiB over %d kept connections     requests/s   server CPU per request\n",
           CONNECTIONS);
    printf("  published page                              %12.0f   %8.2f us   ratio %.2f\n",
           ours.requests_per_second, ours.cpu_us, ours.cpu_us / bare.cpu_us);
    printf("  handler that copies it                      %12.0f   %8.2f us   ratio %.2f\n",
           handled.requests_per_second, handled.cpu_us, handled.cpu_us / bare.cpu_us);
    printf("  bare loop over poll, a constant answer      %12.0f   %8.2f us\n",
           bare.requests_per_second, bare.cpu_us);
}

int main(void)
{
    bench_log();
    bench_metrics();
    bench_events();
    bench_http();
    return 0;
}
