/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side of the health pages. Once a second the loop copies the data of the pages, ticks
 * the log and flushes the events. Checks may be set from any thread, under the lock. */
#include "obs/health.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/http.h"
#include "obs/health_impl.h"

/* -- the loop's side: once a second -- */

static void snapshot(struct health *h)
{
    struct loop_stats stats = loop_stats(h->loop);
    pthread_mutex_lock(&h->lock);
    h->loop_stats = stats;
    h->copied_at = clock_wall(h->clock);
    pthread_mutex_unlock(&h->lock);
    atomic_store(&h->beat_ms, clock_mono(h->clock).ms);
}

static void on_tick(struct timer *timer)
{
    struct health *h = CONTAINER_OF(timer, struct health, timer);
    snapshot(h);
    if (h->logger) logger_tick(h->logger);
    if (h->events) {
        (void)events_flush(h->events);
        /* A process that cannot write EVENT_KEEP lines must not get work that produces them. */
        health_check_set(h->events_check, !events_stats(h->events).refusing,
                         "event lines that must be kept cannot be written");
    }
    timer_start_in(timer, HEALTH_TICK_MS);
}

static void on_slow(void *context, struct loop_turn turn)
{
    struct health *h = context;
    pthread_mutex_lock(&h->lock);
    h->slow[h->slow_count++ % HEALTH_SLOW_TURNS] = (struct slow_turn){turn, clock_wall(h->clock)};
    pthread_mutex_unlock(&h->lock);
    ring_put("loop.slow wall_ns cpu_ns", turn.wall_ns, turn.cpu_ns);
}

/* -- checks -- */

enum err health_check_add(struct health *h, const char *name, const char *reason,
                          struct health_check **ret_check)
{
    enum err err = ERR_OK;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->check_count; i++)
        if (strcmp(h->checks[i].name, name) == 0) err = ERR_EXISTS;
    if (!err && h->check_count == HEALTH_CHECKS_MAX) err = ERR_FULL;
    if (!err) {
        struct health_check *check = &h->checks[h->check_count++];
        *check = (struct health_check){.health = h, .name = name};
        snprintf(check->reason, sizeof check->reason, "%s", reason);
        *ret_check = check;
    }
    pthread_mutex_unlock(&h->lock);
    return err;
}

void health_check_set(struct health_check *check, bool ready, const char *reason)
{
    pthread_mutex_lock(&check->health->lock);
    check->ready = ready;
    snprintf(check->reason, sizeof check->reason, "%s", ready || !reason ? "" : reason);
    pthread_mutex_unlock(&check->health->lock);
}

void health_check_remark(struct health_check *check, const char *remark)
{
    pthread_mutex_lock(&check->health->lock);
    if (check->ready) snprintf(check->reason, sizeof check->reason, "%s", remark);
    pthread_mutex_unlock(&check->health->lock);
}

uint64_t health_silence_ms(struct health *h)
{
    mono_time beat = {atomic_load(&h->beat_ms)};
    return mono_elapsed_ms(beat, clock_mono(h->clock));
}

/* -- open and close -- */

static const struct {
    const char *path;
    http_handler *handler;
} pages[] = {
    {"/healthz", health_page_alive},   {"/live", health_page_alive},
    {"/readyz", health_page_ready},    {"/debug/loop", health_page_loop},
    {"/debug/ring", health_page_ring}, {"/metrics", health_page_metrics},
};

enum err health_serve(struct health *h, struct http_server *server, struct note *note)
{
    enum err err = ERR_OK;

    assert(!h->server);
    h->server = server; /* no page is served yet, so no other thread reads the field */
    for (; !err && h->page_count < ARRAY_LEN(pages); h->page_count += !err) {
        const char *path = pages[h->page_count].path;
        err = http_route(server, path, HTTP_GET, pages[h->page_count].handler, h);
        if (err) note_set(note, "page %s: %s", path, err_text(err));
    }
    if (err) health_unserve(h);
    return err;
}

void health_unserve(struct health *h)
{
    while (h->page_count > 0) (void)http_unroute(h->server, pages[--h->page_count].path);
    h->server = NULL;
}

enum err health_open(const struct health_options *options, struct health **ret_health,
                     struct note *note)
{
    struct health *h;
    enum err err;

    if (!options->loop || !options->metrics) return ERR_INVALID;
    h = calloc(1, sizeof *h);
    if (!h) return ERR_NOMEM;
    pthread_mutex_init(&h->lock, NULL);
    h->loop = options->loop;
    h->clock = loop_clock(options->loop);
    h->metrics = options->metrics;
    h->logger = options->logger;
    h->events = options->events;
    h->stale_after_ms = options->stale_after_ms ? options->stale_after_ms : HEALTH_STALE_MS;
    err = timer_init(&h->timer, h->loop, on_tick);
    if (!err && h->events) err = health_check_add(h, "events", "", &h->events_check);
    if (!err && h->events) health_check_set(h->events_check, true, NULL);
    if (!err) err = health_metrics_add(h, note);
    if (err) {
        health_close(h);
        return err;
    }
    snapshot(h);
    loop_on_slow(h->loop, on_slow, h);
    h->hooked = true;
    timer_start_in(&h->timer, HEALTH_TICK_MS);
    *ret_health = h;
    return ERR_OK;
}

void health_close(struct health *h)
{
    if (!h) return;
    if (h->hooked) loop_on_slow(h->loop, NULL, NULL);
    health_unserve(h);
    metrics_off_write(h->metrics, health_metrics_collect, h);
    timer_deinit(&h->timer);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
