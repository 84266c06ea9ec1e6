/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of loop, HTTP server, log and events, copied from their counters on each page request. */
#include "obs/health_impl.h"

struct loop_numbers {
    struct loop_stats stats;
    uint64_t silence_ms;
};
#define COUNTER(type, member) METRIC_COUNTER, METRIC_FIELD(type, member)
#define GAUGE(type, member)   METRIC_GAUGE, METRIC_FIELD(type, member)

static const struct metric_field loop_fields[] = {
    {"muster_loop_turns_total", "Turns of the event loop.",
     COUNTER(struct loop_numbers, stats.turns)},
    {"muster_loop_slow_turns_total", "Turns of the event loop that took longer than 1 ms.",
     COUNTER(struct loop_numbers, stats.slow_wall), .label = "by", .value = "wall"},
    {"muster_loop_slow_turns_total", "", COUNTER(struct loop_numbers, stats.slow_cpu),
     .label = "by", .value = "cpu"},
    {"muster_loop_busy_seconds_total", "Time that the event loop spent in turns.",
     COUNTER(struct loop_numbers, stats.wall_ns_total), .per_unit = 1e9, .label = "by",
     .value = "wall"},
    {"muster_loop_busy_seconds_total", "", COUNTER(struct loop_numbers, stats.cpu_ns_total),
     .per_unit = 1e9, .label = "by", .value = "cpu"},
    {"muster_loop_turn_longest_seconds", "Longest turn of the event loop since the start.",
     GAUGE(struct loop_numbers, stats.wall_ns_max), .per_unit = 1e9, .label = "by",
     .value = "wall"},
    {"muster_loop_turn_longest_seconds", "", GAUGE(struct loop_numbers, stats.cpu_ns_max),
     .per_unit = 1e9, .label = "by", .value = "cpu"},
    {"muster_loop_silence_seconds",
     "Time since the event loop last reported. The loop reports once a second.",
     GAUGE(struct loop_numbers, silence_ms), .per_unit = 1e3},
};
static const struct metric_field http_fields[] = {
    {"muster_http_requests_total", "Requests to this HTTP server.",
     COUNTER(struct http_stats, requests)},
    {"muster_http_errors_total",
     "HTTP responses with status 400 or higher. Requests that are not HTTP do not count.",
     COUNTER(struct http_stats, errors)},
    {"muster_http_connections", "Open connections to this HTTP server.",
     GAUGE(struct http_stats, connections)},
    {"muster_http_event_readers", "Connected readers of server-sent events.",
     GAUGE(struct http_stats, readers)},
    {"muster_http_events_sent_total", "Server-sent events written to readers.",
     COUNTER(struct http_stats, events_sent)},
    {"muster_http_events_dropped_total",
     "Server-sent events dropped because the reader was too slow.",
     COUNTER(struct http_stats, events_dropped)},
};
static const struct metric_field log_fields[] = {
    {"muster_log_lines_total", "Log lines written.", COUNTER(struct logger_stats, written)},
    {"muster_log_dropped_total", "Log lines dropped, by reason.",
     COUNTER(struct logger_stats, dropped[LOG_LOSS_UNREAD]), .label = "why", .value = "unread"},
    {"muster_log_dropped_total", "", COUNTER(struct logger_stats, dropped[LOG_LOSS_NO_SPACE]),
     .label = "why", .value = "no_space"},
    {"muster_log_dropped_total", "", COUNTER(struct logger_stats, dropped[LOG_LOSS_FAILED]),
     .label = "why", .value = "failed"},
    {"muster_log_repeats_total", "Repeated log lines that were counted instead of written.",
     COUNTER(struct logger_stats, repeats)},
};
static const struct metric_field events_fields[] = {
    {"muster_events_written_total", "Event lines written.", COUNTER(struct events_stats, written)},
    {"muster_events_lost_total", "Event lines dropped because the sink was full.",
     COUNTER(struct events_stats, lost)},
    {"muster_events_refused_total",
     "Event lines that must not be lost and were refused because the queue was full.",
     COUNTER(struct events_stats, refused)},
    {"muster_events_rotations_total", "Rotations of the event file.",
     COUNTER(struct events_stats, rotations)},
    {"muster_events_queued", "Event lines waiting for the sink.",
     GAUGE(struct events_stats, queued)},
};

void health_metrics_collect(void *context)
{
    struct health *h = context;
    struct http_stats http = h->server ? http_stats(h->server) : (struct http_stats){0};
    struct loop_numbers loop = {.silence_ms = health_silence_ms(h)};

    pthread_mutex_lock(&h->lock);
    loop.stats = h->loop_stats;
    pthread_mutex_unlock(&h->lock);
    metrics_set_fields(h->loop_fields, &loop);
    metrics_set_fields(h->http_fields, &http);
    if (h->logger) {
        struct logger_stats log = logger_stats(h->logger);

        metrics_set_fields(h->log_fields, &log);
    }
    if (h->events) {
        struct events_stats events = events_stats(h->events);

        metrics_set_fields(h->events_fields, &events);
    }
}

#define ADD(rows) metrics_add_fields(h->metrics, rows, ARRAY_LEN(rows), &h->rows, note)
enum err health_metrics_add(struct health *h, struct note *note)
{
    enum err err = ADD(loop_fields);

    if (!err) err = ADD(http_fields);
    if (!err && h->logger) err = ADD(log_fields);
    if (!err && h->events) err = ADD(events_fields);
    return err ? err : metrics_on_write(h->metrics, health_metrics_collect, h);
}
