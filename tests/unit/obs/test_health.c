/* SPDX-License-Identifier: Apache-2.0 */
/* The health pages over HTTP, with a loop and a clock that the test moves. */
#include "obs/health.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/http.h"
#include "io/real.h"
#include "lib/golden.h"
#include "lib/http_client.h"
#include "lib/test.h"
#include "obs/events.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "obs/ring.h"
#include "prom_parse.h"

/* The HTTP thread reads the clock while the test moves it. */
struct shared_clock {
    struct clock clock;
    atomic_uint_fast64_t ms;
};
static mono_ns shared_mono(struct clock *clock)
{
    return (mono_ns){atomic_load(&CONTAINER_OF(clock, struct shared_clock, clock)->ms) * NS_PER_MS};
}
static wall_time shared_wall(struct clock *clock)
{
    return (wall_time){1767225600000ull +
                       atomic_load(&CONTAINER_OF(clock, struct shared_clock, clock)->ms)};
}
static void ignore(struct loop *loop)
{
    (void)loop;
}
static const struct loop_ops ops = {.wake = ignore};

struct rig {
    struct shared_clock clock;
    struct loop loop;
    struct http_server *server;
    struct metrics *metrics;
    struct logger *logger;
    struct log_source log;
    struct events *events;
    struct health *health;
};

static void drop_line(void *context, enum log_level level, struct str line)
{
    (void)context, (void)level, (void)line;
}

static void rig_open_with(struct rig *r, struct events_options events)
{
    struct note note = {""};
    *r = (struct rig){.clock = {.clock = {.mono = shared_mono, .wall = shared_wall}}};
    atomic_store(&r->clock.ms, 1000);
    loop_core_init(&r->loop, &ops, &r->clock.clock);
    CHECK_OK("http",
             http_open(&(struct http_options){.address = "127.0.0.1:0"}, &r->server, &note));
    CHECK_OK("metrics", metrics_open(&r->metrics));
    CHECK_OK("log",
             logger_open(&(struct logger_options){.clock = &r->clock.clock, .sink = drop_line},
                         &r->logger));
    log_source_init(&r->log, r->logger, "test", NULL);
    CHECK_OK("events", events_open(&events, &r->events, &note));
    struct health_options options = {
        .loop = &r->loop, .metrics = r->metrics, .logger = r->logger, .events = r->events};
    enum err err = health_open(&options, &r->health, &note);
    if (!err) err = health_serve(r->health, r->server, &note);
    if (err) print_error("%s\n", note.text);
    CHECK_OK("health", err);
}

static void rig_open(struct rig *r)
{
    rig_open_with(r, (struct events_options){.kind = EVENTS_NONE});
}

static void rig_close(struct rig *r)
{
    health_close(r->health);
    http_close(r->server);
    loop_core_deinit(&r->loop);
    metrics_close(r->metrics);
    logger_close(r->logger);
    events_close(r->events);
}

static void turn(struct rig *r, uint64_t ms, struct loop_turn cost)
{
    atomic_fetch_add(&r->clock.ms, ms);
    loop_core_begin(&r->loop, clock_mono(&r->clock.clock));
    loop_core_run(&r->loop);
    loop_core_count_turn(&r->loop, cost);
}

static int get(struct rig *r, const char *path, char **ret_body)
{
    char request[128], *text = NULL;
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    int status = client_ask(http_address(r->server), request, &text);
    if (text && ret_body) *ret_body = str_dup(str_from(strstr(text, "\r\n\r\n") + 4));
    free(text);
    return status;
}

static void page_is(struct rig *r, const char *why, const char *path, int status, const char *body)
{
    char *got = NULL;
    CHECK_I64(why, get(r, path, &got), status);
    CHECK_TEXT(why, got, body);
    free(got);
}

TEST(healthz_follows_the_loops_heartbeat)
{
    struct rig r;
    rig_open(&r);
    page_is(&r, "alive from the start", "/healthz", 200, "ok\n");
    page_is(&r, "the workers' path for the same", "/live", 200, "ok\n");
    turn(&r, 1000, (struct loop_turn){1000, 1000});
    atomic_fetch_add(&r.clock.ms, 4999);
    page_is(&r, "just in time", "/healthz", 200, "ok\n");
    atomic_fetch_add(&r.clock.ms, 2215);
    page_is(&r, "the loop hangs, HTTP answers", "/healthz", 503,
            "the loop has been silent for 7214 ms\n");
    page_is(&r, "nor is it ready", "/readyz", 503, "the loop has been silent for 7214 ms\n");
    turn(&r, 1, (struct loop_turn){1000, 1000});
    page_is(&r, "back", "/healthz", 200, "ok\n");
    page_is(&r, "back", "/readyz", 200, "ok\n");
    rig_close(&r);
}

TEST(readyz_names_what_is_missing)
{
    struct rig r;
    struct health_check *provider, *leader, *more;
    char reason[400];
    rig_open(&r);
    page_is(&r, "nothing to wait for", "/readyz", 200, "ok\n");
    CHECK_OK("add", health_check_add(r.health, "provider",
                                     "first provider reconcile not yet complete", &provider));
    CHECK_OK("add", health_check_add(r.health, "leader", "no leader is known", &leader));
    CHECK_ERR("twice", health_check_add(r.health, "leader", "x", &more), ERR_EXISTS);
    page_is(&r, "both", "/readyz", 503,
            "first provider reconcile not yet complete\nno leader is known\n");
    health_check_set(leader, true, NULL);
    page_is(&r, "one: exactly its text", "/readyz", 503,
            "first provider reconcile not yet complete\n");
    page_is(&r, "all, for people", "/readyz?verbose", 503,
            "ok   events\nfail provider: first provider reconcile not yet complete\n"
            "ok   leader\n");
    health_check_set(provider, true, "");
    page_is(&r, "ready", "/readyz", 200, "ok\n");
    health_check_remark(provider, "a newer process runs");
    page_is(&r, "ready, with a remark", "/readyz", 200, "ok\na newer process runs\n");
    page_is(&r, "the same, for people", "/readyz?verbose", 200,
            "ok   events\nok   provider: a newer process runs\nok   leader\n");
    health_check_remark(provider, "");
    page_is(&r, "taken back", "/readyz", 200, "ok\n");
    memset(reason, 'r', sizeof reason);
    reason[sizeof reason - 1] = '\0';
    health_check_set(provider, false, reason);
    char *got = NULL;
    CHECK_I64("again not", get(&r, "/readyz", &got), 503);
    CHECK_SIZE("a long reason is cut", strlen(got), HEALTH_REASON_MAX);
    free(got);
    for (int i = 3; i < HEALTH_CHECKS_MAX; i++) {
        static char names[HEALTH_CHECKS_MAX][8];
        snprintf(names[i], sizeof names[i], "c%d", i);
        CHECK_OK("up to the bound", health_check_add(r.health, names[i], "x", &more));
    }
    CHECK_ERR("no further", health_check_add(r.health, "one more", "x", &more), ERR_FULL);
    rig_close(&r);
}

TEST(a_sink_that_refuses_lines_to_keep_makes_it_not_ready)
{
    static char line[100000], in[300000];
    struct rig r;
    int ends[2];
    CHECK("pipe", pipe(ends) == 0);
    memset(line, 'x', sizeof line);
    rig_open_with(&r,
                  (struct events_options){.kind = EVENTS_STDOUT, .fd = ends[1], .queue_max = 1});
    CHECK_OK("as much as the pipe takes",
             events_write(r.events, EVENT_KEEP, str_of(line, sizeof line)));
    CHECK_OK("queued", events_write(r.events, EVENT_KEEP, STR("{}")));
    turn(&r, 1000, (struct loop_turn){1000, 1000});
    page_is(&r, "waiting is no reason", "/readyz", 200, "ok\n");
    CHECK_ERR("refused", events_write(r.events, EVENT_KEEP, STR("{}")), ERR_FULL);
    turn(&r, 1000, (struct loop_turn){1000, 1000});
    page_is(&r, "refusing is", "/readyz", 503, "event lines that must be kept cannot be written\n");
    CHECK_U64("and counted", events_stats(r.events).refused, 1);
    CHECK("the reader reads", read(ends[0], in, sizeof in) > 0);
    turn(&r, 1000, (struct loop_turn){1000, 1000});
    page_is(&r, "ready again", "/readyz", 200, "ok\n");
    rig_close(&r);
    close(ends[0]);
    close(ends[1]);
}

TEST(debug_loop_reads_as_the_transcript_says)
{
    struct rig r;
    struct buf all;
    char *got = NULL;
    rig_open(&r);
    buf_init(&all, 1 << 20);
    turn(&r, 1000, (struct loop_turn){12345678, 210000});
    turn(&r, 1000, (struct loop_turn){3210000, 3100000});
    turn(&r, 1000, (struct loop_turn){20000, 20000});
    turn(&r, 1000, (struct loop_turn){20000, 20000});
    atomic_fetch_add(&r.clock.ms, 312);
    CHECK_I64("page", get(&r, "/debug/loop", &got), 200);
    buf_append(&all, str_from(got));
    free(got);
    atomic_fetch_add(&r.clock.ms, 60000);
    CHECK_I64("page", get(&r, "/debug/loop", &got), 200);
    buf_append_c(&all, "\n-- a minute later, the loop hangs --\n");
    buf_append(&all, str_from(got));
    free(got);
    golden_check("obs/debug-loop.txt", buf_peek(&all));
    buf_deinit(&all);
    rig_close(&r);
}

TEST(only_the_last_slow_turns_are_kept)
{
    struct rig r;
    char *got = NULL;
    rig_open(&r);
    for (uint64_t i = 0; i < HEALTH_SLOW_TURNS + 36; i++)
        turn(&r, 10, (struct loop_turn){2000000 + i * 1000000, 0});
    CHECK_I64("page", get(&r, "/debug/loop", &got), 200);
    CHECK_HAS("sixty-four", got, "last 64 slow turns");
    CHECK_HAS("the newest", got, " 101.000 ");
    CHECK_HAS("to the sixty-fourth", got, " 38.000 ");
    CHECK("and no older", !strstr(got, " 37.000 "));
    free(got);
    rig_close(&r);
}

TEST(metrics_are_live_even_when_the_loop_hangs)
{
    struct rig r;
    char *got = NULL;
    struct prom parsed;
    rig_open(&r);
    LOG_INFO(&r.log, "hello");
    turn(&r, 1000, (struct loop_turn){2000000, 1500000});
    turn(&r, 1000, (struct loop_turn){20000, 20000});
    atomic_fetch_add(&r.clock.ms, 9500);
    CHECK_I64("page", get(&r, "/metrics", &got), 200);
    bool fine = prom_parse(&parsed, str_from(got));
    if (!fine) print_error("%s\n", parsed.why);
    CHECK("a strict reader takes it", fine);
    static const struct {
        const char *name, *labels;
        double value;
    } want[] = {
        {"muster_loop_silence_seconds", "", 9.5},
        {"muster_loop_turns_total", "", 1},
        {"muster_loop_slow_turns_total", "by=wall;", 1},
        {"muster_loop_busy_seconds_total", "by=cpu;", 0.0015},
        {"muster_loop_turn_longest_seconds", "by=wall;", 0.002},
        {"muster_http_requests_total", "", 1},
        {"muster_http_connections", "", 1},
        {"muster_log_lines_total", "", 1},
        {"muster_events_queued", "", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const struct prom_sample *found = prom_find(&parsed, want[i].name, want[i].labels);
        CHECK(want[i].name, found != NULL);
        if (found->value != want[i].value) print_error("%s: %g\n", want[i].name, found->value);
        CHECK(want[i].name, found->value == want[i].value);
    }
    free(parsed.samples);
    free(got);
    rig_close(&r);
}

TEST(debug_ring_shows_the_ring)
{
    struct rig r;
    char *got = NULL;
    rig_open(&r);
    ring_put("elected term", 7, 0);
    turn(&r, 1000, (struct loop_turn){5000000, 0});
    CHECK_I64("page", get(&r, "/debug/ring", &got), 200);
    CHECK_HAS("an entry", got, " elected term 7 0\n");
    CHECK_HAS("slow turns are in it", got, " loop.slow wall_ns cpu_ns 5000000 0\n");
    free(got);
    rig_close(&r);
}

TEST(it_can_be_closed_and_what_is_taken_is_reported)
{
    struct rig r;
    struct health *again = NULL;
    struct metrics *metrics;
    struct note note = {""};
    rig_open(&r);
    struct health_options options = {.loop = &r.loop, .metrics = r.metrics};
    CHECK_ERR("a second on the same registry", health_open(&options, &again, &note), ERR_EXISTS);
    CHECK_HAS("names the used route", note.text, "muster_loop_turns_total");
    CHECK("untouched", again == NULL);
    CHECK_OK("metrics", metrics_open(&metrics));
    options.metrics = metrics;
    CHECK_OK("a second on another registry", health_open(&options, &again, &note));
    CHECK_ERR("but on the same server", health_serve(again, r.server, &note), ERR_EXISTS);
    CHECK_HAS("names the used route", note.text, "/healthz");
    health_close(again);
    metrics_close(metrics);
    page_is(&r, "the first goes on", "/healthz", 200, "ok\n");
    health_close(r.health);
    r.health = NULL;
    CHECK_I64("its pages are gone", get(&r, "/healthz", NULL), 404);
    rig_close(&r);
}

TEST(a_server_where_one_path_is_taken_serves_no_page)
{
    struct rig r;
    struct http_server *other;
    struct note note = {""};
    rig_open(&r);
    health_unserve(r.health);
    CHECK_I64("gone from the first", get(&r, "/healthz", NULL), 404);
    http_close(r.server);
    CHECK_OK("http", http_open(&(struct http_options){.address = "127.0.0.1:0"}, &other, &note));
    r.server = other;
    CHECK_OK("page", http_publish(other, "/metrics", "a/b", STR("")));
    CHECK_ERR("a path that is taken", health_serve(r.health, other, &note), ERR_EXISTS);
    CHECK_I64("none is there", get(&r, "/healthz", NULL), 404);
    rig_close(&r);
}

/* -- on a real loop -- */

static void on_stop(struct timer *timer);
struct real_rig {
    struct real_io *real;
    struct timer stop;
    struct rig r;
    atomic_bool opened, may_stop, hang;
    sem_t release; /* ends the hang */
};
static void on_stop(struct timer *timer)
{
    struct real_rig *rig = CONTAINER_OF(timer, struct real_rig, stop);
    if (atomic_exchange(&rig->hang, false)) sem_wait(&rig->release);
    if (atomic_load(&rig->may_stop)) real_io_stop(rig->real);
    timer_start_in(timer, 5);
}

static void *loop_thread(void *argument)
{
    struct real_rig *rig = argument;
    struct note note = {""};
    if (real_io_open(&rig->real) != ERR_OK) abort();
    struct loop *loop = real_io_io(rig->real)->loop;
    struct health_options options = {
        .loop = loop, .metrics = rig->r.metrics, .stale_after_ms = 1300};
    if (health_open(&options, &rig->r.health, &note) != ERR_OK) abort();
    if (health_serve(rig->r.health, rig->r.server, &note) != ERR_OK) abort();
    if (timer_init(&rig->stop, loop, on_stop) != ERR_OK) abort();
    timer_start_in(&rig->stop, 1);
    atomic_store(&rig->opened, true);
    real_io_run(rig->real);
    timer_deinit(&rig->stop);
    health_close(rig->r.health);
    real_io_close(rig->real);
    return NULL;
}

static bool becomes(struct rig *r, int status)
{
    for (int i = 0; i < 10000; i++) {
        if (get(r, "/healthz", NULL) == status) return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

TEST(a_real_loop_that_hangs_is_noticed_and_forgiven)
{
    struct real_rig rig = {0};
    pthread_t thread;
    char *got = NULL;
    CHECK("semaphore", sem_init(&rig.release, 0, 0) == 0);
    CHECK_OK("http",
             http_open(&(struct http_options){.address = "127.0.0.1:0"}, &rig.r.server, NULL));
    CHECK_OK("metrics", metrics_open(&rig.r.metrics));
    CHECK("thread", pthread_create(&thread, NULL, loop_thread, &rig) == 0);
    CHECK("alive", becomes(&rig.r, 200));
    atomic_store(&rig.hang, true);
    CHECK("it hangs", becomes(&rig.r, 503));
    sem_post(&rig.release);
    CHECK("it is back", becomes(&rig.r, 200));
    CHECK_I64("page", get(&rig.r, "/debug/loop", &got), 200);
    CHECK_HAS("the turn that hung is there, and did not work", got, "waited");
    free(got);
    atomic_store(&rig.may_stop, true);
    pthread_join(thread, NULL);
    http_close(rig.r.server);
    metrics_close(rig.r.metrics);
    sem_destroy(&rig.release);
}
