/* SPDX-License-Identifier: Apache-2.0 */
/* The status page of a process: one plain page inside the binary, kept live by server-sent events.
 * Shows what is known, and nothing that is not there yet.
 *
 * The surprising rule: the server forbids inline style and script (Content-Security-Policy), so
 * both are served at paths of their own, and the page holds neither. */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H
#include "base/buf.h"
#include "io/http.h"
#include "io/loop.h"

#define STATUS_PATH        "/"
#define STATUS_CSS_PATH    "/status.css"
#define STATUS_JS_PATH     "/status.js"
#define STATUS_EVENTS_PATH "/status/events"
enum { STATUS_TEXT_MAX = 64 * 1024 };

struct status_facts {
    const char *command; /* "muster dev" */
    const char *version, *commit, *data_dir;
    const char *warning; /* shown on top; NULL: none */
};
/* The page as HTML. ERR_FULL, ERR_NOMEM. */
enum err status_page(const struct status_facts *facts, struct buf *into);
extern const char status_css[], status_js[]; /* what belongs at the two paths */

struct status_numbers {
    uint64_t uptime_ms;
    struct loop_stats loop;
    struct http_stats http;
};
/* One live event as a line of JSON. ERR_FULL, ERR_NOMEM. */
enum err status_event(const struct status_numbers *numbers, struct buf *into);
#endif
