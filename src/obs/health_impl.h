/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the health pages. Only health*.c include this header. */
#ifndef OBS_HEALTH_IMPL_H
#define OBS_HEALTH_IMPL_H
#include <pthread.h>
#include <stdatomic.h>

#include "io/http.h"
#include "obs/events.h"
#include "obs/health.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "obs/ring.h"

struct health_check {
    struct health *health;
    const char *name;
    bool ready;
    char reason[HEALTH_REASON_MAX];
};
struct slow_turn {
    struct loop_turn turn;
    wall_time at;
};

struct health {
    struct http_server *server; /* NULL: the pages are not served */
    struct loop *loop;          /* used on the loop's thread only */
    struct clock *clock;
    struct metrics *metrics;
    struct logger *logger;
    struct events *events;
    uint64_t stale_after_ms;
    struct timer timer;
    bool hooked;
    size_t page_count;            /* pages routed so far */
    atomic_uint_fast64_t beat_ms; /* monotonic time at which the loop last copied its statistics */

    struct metric_fields *loop_fields, *http_fields, *log_fields, *events_fields;

    pthread_mutex_t lock; /* guards everything below; held only while copying */
    struct loop_stats loop_stats;
    wall_time copied_at; /* when loop_stats was copied */
    struct slow_turn slow[HEALTH_SLOW_TURNS];
    uint64_t slow_count;
    struct health_check checks[HEALTH_CHECKS_MAX];
    size_t check_count;
    struct health_check *events_check; /* NULL without events; does not change after open */
};

uint64_t health_silence_ms(struct health *h);
http_handler health_page_alive, health_page_ready, health_page_loop, health_page_ring,
    health_page_metrics;
enum err health_metrics_add(struct health *h, struct note *note);
metrics_collect_fn health_metrics_collect; /* on the HTTP thread; context: the health object */
#endif
