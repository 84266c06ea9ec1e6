/* SPDX-License-Identifier: Apache-2.0 */
/* The pages for operators and supervisors: /healthz, /readyz, /metrics, /debug/loop and
 * /debug/ring, on an HTTP server with its own thread.
 *
 * Once a second the loop copies its state, ticks the log and flushes the events. The HTTP thread
 * answers from the copy, so the pages work when the loop hangs. /healthz fails if the loop hangs:
 * restart the process. /readyz fails if the process must not get work: route around it.
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
    HEALTH_REASON_MAX = 200, /* longer reasons are truncated */
    HEALTH_SLOW_TURNS = 64,  /* slow turns kept for /debug/loop */
    HEALTH_TICK_MS = 1000,
    HEALTH_STALE_MS = 5000,
};
struct health_options {
    struct loop *loop;
    struct metrics *metrics;
    struct logger *logger;   /* or NULL */
    struct events *events;   /* may be NULL */
    uint32_t stale_after_ms; /* a longer silence means that the loop hangs; 0: HEALTH_STALE_MS */
};
/* Installs the loop's slow-turn hook. Serves no page yet. All functions but the checks run on the
 * loop's thread. ERR_INVALID, ERR_EXISTS (a metric name), ERR_FULL, ERR_NOMEM. After an error,
 * metrics already added stay in the registry. */
enum err health_open(const struct health_options *options, struct health **ret_health,
                     struct note *note);
void health_close(struct health *health); /* NULL is allowed */
/* Call once. Returns errors of http_route; then no page is served. */
enum err health_serve(struct health *health, struct http_server *server, struct note *note);
void health_unserve(struct health *health); /* call before the server closes */

/* Adds a check that fails with `reason` until health_check_set makes it ready. Any thread. `name`
 * is static text. ERR_FULL, ERR_EXISTS. */
enum err health_check_add(struct health *health, const char *name, const char *reason,
                          struct health_check **ret_check);
/* The next request shows the change. Any thread. `reason` is copied, and ignored if the check is
 * ready. */
void health_check_set(struct health_check *check, bool ready, const char *reason);
/* Adds a remark that /readyz shows beside a ready check. "" or the next health_check_set removes
 * the remark. Any thread; the text is copied. */
void health_check_remark(struct health_check *check, const char *remark);
#endif
