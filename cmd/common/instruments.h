/* SPDX-License-Identifier: Apache-2.0 */
/* The log, metrics, events and probes of a process, opened from its configuration. */
#ifndef COMMON_INSTRUMENTS_H
#define COMMON_INSTRUMENTS_H
#include "conf/conf.h"
#include "io/http.h"
#include "io/io.h"
#include "io/tls.h"
#include "obs/events.h"
#include "obs/health.h"
#include "obs/log.h"
#include "obs/metrics.h"

struct instruments {
    struct clock *clock;
    char *log_file; /* NULL: stderr */
    int log_fd;     /* the logger's descriptor; owned if log_file is set */
    struct logger *logger;
    struct log_source log;
    struct metrics *metrics;
    struct counter *reloads[2]; /* refused, ok */
    struct gauge *waiting, *tls_not_after;
    struct events *events;
    struct loop *loop;
    struct health *health;
    struct health_check *ready;
};

/* ERR_NOMEM or the error of opening a file, with a note that names the option. */
enum err instruments_open(struct io *io, const struct conf *conf, const char *process_name,
                          struct instruments **ret_instruments, struct note *note);
void instruments_close(struct instruments *instruments); /* NULL is fine */
/* Reopens the log file by its name, so that a file moved by log rotation is released. The event
 * file notices a rotation by itself. */
void instruments_reopen(struct instruments *instruments);
/* Writes to the event file; `what` is "started", "reloaded", "reload-refused" or "stopping". */
void instruments_event(struct instruments *instruments, const char *what);
void instruments_count_reload(struct instruments *instruments, bool ok, size_t waiting);
void instruments_set_tls(struct instruments *instruments, const struct tls_context *tls);

/* Adds /healthz, /readyz, /metrics and the /debug pages to a newly opened server. Call it once. */
enum err instruments_serve(struct instruments *instruments, struct http_server *http,
                           struct note *note);
void instruments_unserve(struct instruments *instruments); /* call before the HTTP server closes */
void instruments_set_ready(struct instruments *instruments, bool ready);
#endif
