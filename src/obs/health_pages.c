/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the health pages, which run on the HTTP thread and use copies only. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "obs/health_impl.h"
#include "text/rfc3339.h"

/* Keeps the first failure of a page; the server then answers 500. */
#define SAY(response, ...)                                                                         \
    do {                                                                                           \
        if (!(response)->err) (response)->err = buf_appendf(&(response)->body, __VA_ARGS__);       \
    } while (0)

static bool say_silence(struct health *h, struct http_response *response)
{
    uint64_t silence = health_silence_ms(h);
    if (silence < h->stale_after_ms) return false;
    response->status = 503;
    SAY(response, "the loop has been silent for %" PRIu64 " ms\n", silence);
    return true;
}

void health_page_alive(void *context, const struct http_request *, struct http_response *response)
{
    struct health *h = context;
    if (!say_silence(h, response)) SAY(response, "ok\n");
}

/* Lists the reasons of failing checks, one per line; with ?verbose every check with its name. */
void health_page_ready(void *context, const struct http_request *request,
                       struct http_response *response)
{
    struct health *h = context;
    struct health_check checks[HEALTH_CHECKS_MAX];
    size_t count;
    bool verbose = str_equal(request->query, STR("verbose"));

    pthread_mutex_lock(&h->lock);
    count = h->check_count;
    memcpy(checks, h->checks, count * sizeof checks[0]);
    pthread_mutex_unlock(&h->lock);
    say_silence(h, response);
    for (size_t i = 0; i < count; i++) {
        if (!checks[i].ready) response->status = 503;
        if (verbose)
            SAY(response, "%s %s%s%s\n", checks[i].ready ? "ok  " : "fail", checks[i].name,
                checks[i].reason[0] ? ": " : "", checks[i].reason);
        else if (!checks[i].ready)
            SAY(response, "%s\n", checks[i].reason);
    }
    if (response->body.len == 0) SAY(response, "ok\n");
    for (size_t i = 0; !verbose && i < count; i++) /* the remarks of ready checks */
        if (checks[i].ready && checks[i].reason[0]) SAY(response, "%s\n", checks[i].reason);
}

void health_page_metrics(void *context, const struct http_request *, struct http_response *response)
{
    struct health *h = context;
    response->content_type = METRICS_CONTENT_TYPE;
    response->err = metrics_write(h->metrics, &response->body);
}

void health_page_ring(void *context, const struct http_request *request,
                      struct http_response *response)
{
    (void)context, (void)request;
    SAY(response, "# %" PRIu64 " entries ever, the newest %d are kept; seconds thread what\n",
        ring_total(), RING_SLOTS);
    if (!response->err) response->err = ring_dump(&response->body);
}

/* -- /debug/loop -- */

static double ms_of(uint64_t ns)
{
    return (double)ns / (double)NS_PER_MS;
}

static void say_stats(struct http_response *response, const struct loop_stats *stats)
{
    uint64_t turns = max_u64(stats->turns, 1);
    SAY(response,
        "turns        %" PRIu64 ", timers fired %" PRIu64 ", tasks %" PRIu64 ", posts %" PRIu64
        "\n",
        stats->turns, stats->timers_fired, stats->tasks_run, stats->posts_run);
    SAY(response, "busy         wall %.3f s, cpu %.3f s; a turn takes %.3f ms wall on average\n",
        (double)stats->wall_ns_total / 1e9, (double)stats->cpu_ns_total / 1e9,
        ms_of(stats->wall_ns_total / turns));
    SAY(response, "longest      wall %.3f ms, cpu %.3f ms\n", ms_of(stats->wall_ns_max),
        ms_of(stats->cpu_ns_max));
    SAY(response, "slow turns   %" PRIu64 " by wall, %" PRIu64 " by cpu (over %.0f ms)\n",
        stats->slow_wall, stats->slow_cpu, ms_of(LOOP_SLOW_NS));
}

static void say_slow_turns(struct http_response *response, const struct slow_turn *slow,
                           uint64_t total)
{
    uint64_t shown = min_u64(total, HEALTH_SLOW_TURNS);
    if (total == 0) return;
    SAY(response, "\nlast %" PRIu64 " slow turns, newest first\n%-26s%12s%12s  why\n", shown,
        "when", "wall ms", "cpu ms");
    for (uint64_t i = 0; i < shown; i++) {
        const struct slow_turn *one = &slow[(total - 1 - i) % HEALTH_SLOW_TURNS];
        char when[RFC3339_CAP];
        wall_text(one->at, when);
        SAY(response, "%-26s%12.3f%12.3f  %s\n", when, ms_of(one->turn.wall_ns),
            ms_of(one->turn.cpu_ns),
            one->turn.cpu_ns > LOOP_SLOW_NS ? "worked: our code took the time"
                                            : "waited: the machine was busy, or a call blocked");
    }
}

void health_page_loop(void *context, const struct http_request *, struct http_response *response)
{
    struct health *h = context;
    struct slow_turn slow[HEALTH_SLOW_TURNS];
    struct loop_stats stats;
    uint64_t slow_count, silence = health_silence_ms(h);
    char copied[RFC3339_CAP];
    wall_time copied_at;

    pthread_mutex_lock(&h->lock);
    stats = h->loop_stats;
    copied_at = h->copied_at;
    slow_count = h->slow_count;
    memcpy(slow, h->slow, sizeof slow);
    pthread_mutex_unlock(&h->lock);
    wall_text(copied_at, copied);
    if (silence >= h->stale_after_ms)
        SAY(response,
            "THE LOOP HAS BEEN SILENT FOR %" PRIu64 " MS; below is what it said before\n\n",
            silence);
    SAY(response, "loop, as of %s, %" PRIu64 " ms ago\n", copied, silence);
    say_stats(response, &stats);
    say_slow_turns(response, slow, slow_count);
}
