/* SPDX-License-Identifier: Apache-2.0 */
/* The pages an operator and a supervisor look at: /healthz, /readyz, /metrics, /debug/loop and
 * /debug/ring, on an HTTP server that runs beside the loop.
 *
 * The loop copies what it has to say once a second; the HTTP thread answers from the copy and
 * touches nothing of the loop's. So a loop that hangs does not take its probes with it: they
 * answer, and say how long it has been silent. /healthz asks "is the loop alive", /readyz "may it
 * be given work": restart on the first, route around on the second.
 *
 * The second's timer also ticks the log and flushes the events, if they are given; a check named
 * "events" fails while lines that must be kept are refused.
 *
 * Close it before all it was given: server, loop, metrics, log and events. */
#ifndef OBS_HEALTH_H
#define OBS_HEALTH_H
#include "base/note.h"
#include "io/loop.h"

struct events;
struct health;
struct health_check;
struct http_server;
struct logger;
struct metrics;

enum {
    HEALTH_CHECKS_MAX = 32,
    HEALTH_REASON_MAX = 200, /* more is cut */
    HEALTH_SLOW_TURNS = 64,  /* kept for /debug/loop */
    HEALTH_TICK_MS = 1000,
    HEALTH_STALE_MS = 5000,
};
struct health_options {
    struct loop *loop;
    struct metrics *metrics;
    struct logger *logger;   /* or NULL */
    struct events *events;   /* or NULL */
    uint32_t stale_after_ms; /* 0: HEALTH_STALE_MS; silence after which the loop counts as hung */
};
/* On the loop's thread, as all but the checks. Takes the loop's slow-turn hook; serves no page yet.
 * ERR_INVALID, ERR_EXISTS when a metric is taken, ERR_FULL, ERR_NOMEM. Metrics that were added stay
 * in the registry. */
enum err health_open(const struct health_options *options, struct health **ret_health,
                     struct note *note);
void health_close(struct health *health); /* NULL is fine */
/* Serves the pages, once. Errors as http_route; then the server has none of them. */
enum err health_serve(struct health *health, struct http_server *server, struct note *note);
void health_unserve(struct health *health); /* before the server is closed; fine when not served */

/* A named reason not to be ready. It fails with `reason` until it is set. Any thread. `name` is
 * static text. ERR_FULL, ERR_EXISTS. */
enum err health_check_add(struct health *health, const char *name, const char *reason,
                          struct health_check **ret_check);
/* Any thread; seen by the next request. `reason` is copied and not looked at when ready. */
void health_check_set(struct health_check *check, bool ready, const char *reason);
/* What /readyz says of a check that is ready all the same: its status stays as it is. Any thread;
 * copied. "": nothing. The next health_check_set removes it. */
void health_check_remark(struct health_check *check, const char *remark);
#endif
