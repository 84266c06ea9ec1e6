/* SPDX-License-Identifier: Apache-2.0 */
/* Loop, HTTP server, log and events as metrics: copied from their own counts when the page is
 * made. */
#include "obs/health_impl.h"

static enum err add(struct health *h, struct metric_options options,
                    struct metric_family **ret_family, struct note *note)
{
    return metrics_add(h->metrics, &options, ret_family, note);
}

static enum err add_by(struct health *h, const char *name, const char *help, double per_unit,
                       struct counter *ret_counters[BY_COUNT], struct note *note)
{
    struct metric_family *family;
    struct metric_options options = {
        .name = name, .help = help, .labels = {"by"}, .series_max = BY_COUNT, .per_unit = per_unit};
    enum err err = add(h, options, &family, note);
    if (err) return err;
    ret_counters[BY_WALL] = metric_counter(family, &STR("wall"));
    ret_counters[BY_CPU] = metric_counter(family, &STR("cpu"));
    return ERR_OK;
}

static enum err add_loop(struct health *h, struct note *note)
{
    struct metric_family *family;
    struct metric_options longest = {.name = "muster_loop_turn_longest_seconds",
                                     .help = "The longest turn of the loop so far.",
                                     .kind = METRIC_GAUGE,
                                     .labels = {"by"},
                                     .series_max = BY_COUNT};
    enum err err = metrics_add_counter(h->metrics, "muster_loop_turns_total", "Turns of the loop.",
                                       &h->metric.turns, note);
    if (!err)
        err = add_by(h, "muster_loop_slow_turns_total", "Turns of the loop over 1 ms.", 1,
                     h->metric.slow, note);
    if (!err)
        err = add_by(h, "muster_loop_busy_seconds_total", "Time spent in turns of the loop.", 1e9,
                     h->metric.busy, note);
    if (!err)
        err =
            metrics_add_gauge(h->metrics, "muster_loop_silence_seconds",
                              "Time since the loop's last sign of life; it gives one each second.",
                              &h->metric.silence, note);
    if (!err) err = add(h, longest, &family, note);
    if (err) return err;
    h->metric.longest[BY_WALL] = metric_gauge(family, &STR("wall"));
    h->metric.longest[BY_CPU] = metric_gauge(family, &STR("cpu"));
    return ERR_OK;
}

static enum err add_http(struct health *h, struct note *note)
{
    enum err err =
        metrics_add_counter(h->metrics, "muster_http_requests_total",
                            "Requests to this HTTP server.", &h->metric.http_requests, note);
    if (!err)
        err = metrics_add_counter(
            h->metrics, "muster_http_errors_total",
            "Answers with a status of 400 or more, but for what is no HTTP at all.",
            &h->metric.http_errors, note);
    if (!err)
        err = metrics_add_gauge(h->metrics, "muster_http_connections",
                                "Open connections to this HTTP server.",
                                &h->metric.http_connections, note);
    if (!err)
        err = metrics_add_gauge(h->metrics, "muster_http_event_readers",
                                "Readers of server-sent events.", &h->metric.sse_readers, note);
    if (!err)
        err = metrics_add_counter(h->metrics, "muster_http_events_sent_total",
                                  "Server-sent events written to readers.", &h->metric.sse_sent,
                                  note);
    if (!err)
        err = metrics_add_counter(h->metrics, "muster_http_events_dropped_total",
                                  "Server-sent events that a slow reader missed.",
                                  &h->metric.sse_dropped, note);
    return err;
}

static enum err add_log(struct health *h, struct note *note)
{
    static const char *const why[LOG_LOSS_COUNT] = {"unread", "no_space", "failed"};
    struct metric_options dropped = {.name = "muster_log_dropped_total",
                                     .help = "Log lines that were not taken, by reason.",
                                     .labels = {"why"},
                                     .series_max = LOG_LOSS_COUNT};
    struct metric_family *family;
    enum err err = metrics_add_counter(h->metrics, "muster_log_lines_total", "Log lines written.",
                                       &h->metric.log_written, note);
    if (!err) err = add(h, dropped, &family, note);
    for (int i = 0; i < LOG_LOSS_COUNT && !err; i++)
        h->metric.log_dropped[i] = metric_counter(family, (const struct str[]){str_from(why[i])});
    if (!err)
        err = metrics_add_counter(h->metrics, "muster_log_repeats_total",
                                  "Log lines counted instead of written.", &h->metric.log_repeats,
                                  note);
    return err;
}

static enum err add_events(struct health *h, struct note *note)
{
    enum err err = metrics_add_counter(h->metrics, "muster_events_written_total",
                                       "Event lines written.", &h->metric.events_written, note);
    if (!err)
        err = metrics_add_counter(h->metrics, "muster_events_lost_total",
                                  "Event lines dropped because the sink was full.",
                                  &h->metric.events_lost, note);
    if (!err)
        err = metrics_add_counter(h->metrics, "muster_events_refused_total",
                                  "Event lines that must be kept and found no room to wait.",
                                  &h->metric.events_refused, note);
    if (!err)
        err = metrics_add_counter(h->metrics, "muster_events_rotations_total",
                                  "Event files rotated away.", &h->metric.events_rotations, note);
    if (!err)
        err =
            metrics_add_gauge(h->metrics, "muster_events_queued",
                              "Event lines waiting for the sink.", &h->metric.events_queued, note);
    return err;
}

static void collect_loop(struct health *h)
{
    struct loop_stats stats;
    pthread_mutex_lock(&h->lock);
    stats = h->loop_stats;
    pthread_mutex_unlock(&h->lock);
    counter_raise_to(h->metric.turns, stats.turns);
    counter_raise_to(h->metric.slow[BY_WALL], stats.slow_wall);
    counter_raise_to(h->metric.slow[BY_CPU], stats.slow_cpu);
    counter_raise_to(h->metric.busy[BY_WALL], stats.wall_ns_total);
    counter_raise_to(h->metric.busy[BY_CPU], stats.cpu_ns_total);
    gauge_set(h->metric.longest[BY_WALL], (double)stats.wall_ns_max / 1e9);
    gauge_set(h->metric.longest[BY_CPU], (double)stats.cpu_ns_max / 1e9);
    gauge_set(h->metric.silence, (double)health_silence_ms(h) / 1e3);
}

/* Counts go on where the server before left off; connections and readers are those of now. */
static struct http_stats http_totals(const struct health *h)
{
    struct http_stats total = {0};
    if (!h->server) return h->http_before;
    total = http_stats(h->server);
    total.requests += h->http_before.requests - h->http_base.requests;
    total.errors += h->http_before.errors - h->http_base.errors;
    total.events_sent += h->http_before.events_sent - h->http_base.events_sent;
    total.events_dropped += h->http_before.events_dropped - h->http_base.events_dropped;
    return total;
}

void health_metrics_keep(struct health *h, const struct http_server *next)
{
    h->http_before = http_totals(h);
    h->http_before.connections = h->http_before.readers = 0;
    h->http_base = next ? http_stats(next) : (struct http_stats){0};
}

static void collect(void *context)
{
    struct health *h = context;
    struct http_stats http = http_totals(h);

    collect_loop(h);
    counter_raise_to(h->metric.http_requests, http.requests);
    counter_raise_to(h->metric.http_errors, http.errors);
    counter_raise_to(h->metric.sse_sent, http.events_sent);
    counter_raise_to(h->metric.sse_dropped, http.events_dropped);
    gauge_set(h->metric.http_connections, http.connections);
    gauge_set(h->metric.sse_readers, http.readers);
    if (h->logger) {
        struct logger_stats log = logger_stats(h->logger);
        counter_raise_to(h->metric.log_written, log.written);
        for (int i = 0; i < LOG_LOSS_COUNT; i++)
            counter_raise_to(h->metric.log_dropped[i], log.dropped[i]);
        counter_raise_to(h->metric.log_repeats, log.repeats);
    }
    if (h->events) {
        struct events_stats events = events_stats(h->events);
        counter_raise_to(h->metric.events_written, events.written);
        counter_raise_to(h->metric.events_lost, events.lost);
        counter_raise_to(h->metric.events_refused, events.refused);
        counter_raise_to(h->metric.events_rotations, events.rotations);
        gauge_set(h->metric.events_queued, (double)events.queued);
    }
}

enum err health_metrics_add(struct health *h, struct note *note)
{
    enum err err = add_loop(h, note);
    if (!err) err = add_http(h, note);
    if (!err && h->logger) err = add_log(h, note);
    if (!err && h->events) err = add_events(h, note);
    if (!err) err = metrics_on_write(h->metrics, collect, h);
    return err;
}

void health_metrics_remove(struct health *h)
{
    metrics_off_write(h->metrics, collect, h);
}
