/* SPDX-License-Identifier: Apache-2.0 */
/* The pages for operators and supervisors: /healthz, /readyz, /metrics, /debug/loop and
 * /debug/ring, on an HTTP server with its own thread.
 *
 * The loop copies its state once a second. The HTTP thread answers from this copy and never
 * accesses the loop's data. So the pages still work when the loop hangs, and report how long the
 * loop has been silent. /healthz fails if the loop hangs: restart the process. /readyz fails if the
 * process must not get work: route around it.
 *
 * The once-a-second timer also ticks the log and flushes the events, if given. The check "events"
 * fails while EVENT_KEEP lines are refused.
 *
 * Close the health object before its server, loop, metrics, log and events. */
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
    HEALTH_REASON_MAX = 200, /* bytes; longer reasons are truncated */
    HEALTH_SLOW_TURNS = 64,  /* number of slow turns kept for /debug/loop */
    HEALTH_TICK_MS = 1000,
    HEALTH_STALE_MS = 5000,
};
struct health_options {
    struct loop *loop;
    struct metrics *metrics;
    struct logger *logger;   /* or NULL */
    struct events *events;   /* or NULL */
    uint32_t stale_after_ms; /* a longer silence means that the loop hangs; 0: HEALTH_STALE_MS */
};
/* Opens the health object and installs the loop's slow-turn hook. Serves no page yet. All functions
 * but the checks run on the loop's thread. Returns ERR_INVALID, ERR_EXISTS if a metric name is
 * used, ERR_FULL, ERR_NOMEM. After an error, metrics already added stay in the registry. */
enum err health_open(const struct health_options *options, struct health **ret_health,
                     struct note *note);
void health_close(struct health *health); /* NULL is allowed */
/* Serves the pages. Call it once. Returns errors of http_route; then no page is served. */
enum err health_serve(struct health *health, struct http_server *server, struct note *note);
void health_unserve(struct health *health); /* call before the server closes; no-op if unserved */

/* Adds a named readiness check. The check fails with `reason` until health_check_set makes it
 * ready. Any thread. `name` is static text. ERR_FULL, ERR_EXISTS. */
enum err health_check_add(struct health *health, const char *name, const char *reason,
                          struct health_check **ret_check);
/* Sets a check. The next request shows the change. Any thread. `reason` is copied; it is ignored if
 * the check is ready. */
void health_check_set(struct health_check *check, bool ready, const char *reason);
/* Adds a remark that /readyz shows beside a ready check without changing its status. "" removes the
 * remark, and so does the next health_check_set. Any thread; the text is copied. */
void health_check_remark(struct health_check *check, const char *remark);
#endif
