/* SPDX-License-Identifier: Apache-2.0 */
/* The instruments of a process, opened from its configuration: log, metrics, events, probes.
 *
 * Thin on purpose: it knows which options feed which part of obs, and nothing else. */
#ifndef COMMON_INSTRUMENTS_H
#define COMMON_INSTRUMENTS_H
#include "conf/conf.h"
#include "io/http.h"
#include "io/io.h"
#include "io/tls.h"
#include "obs/health.h"
#include "obs/log.h"
#include "obs/metrics.h"

struct instruments;

/* ERR_NOMEM and what opening the files answers, with a note that names the option. */
enum err instruments_open(struct io *io, const struct conf *conf, const char *process_name,
                          struct instruments **ret_instruments, struct note *note);
void instruments_close(struct instruments *instruments); /* NULL is fine */
/* Opens the log file by its name again, so that one that was moved away is let go. The event file
 * looks after itself. */
void instruments_reopen(struct instruments *instruments);
/* Takes over what a reload changed: the log level. */
void instruments_apply(struct instruments *instruments, const struct conf *conf);
const struct log_source *instruments_log(const struct instruments *instruments); /* for LOG_*() */
struct metrics *instruments_metrics(struct instruments *instruments);
struct events *instruments_events(struct instruments *instruments);
/* A line in the event file: "started", "reloaded", "reload-refused", "stopping". */
void instruments_event(struct instruments *instruments, const char *what);
void instruments_count_reload(struct instruments *instruments, bool ok, size_t waiting);
void instruments_set_tls(struct instruments *instruments, const struct tls_context *tls);
void instruments_flush(struct instruments *instruments); /* tries events that wait; from a timer */

/* -- the part that meets HTTP -- */
/* Adds /healthz, /readyz, /metrics and the /debug pages to a server that was just opened; once. */
enum err instruments_serve(struct instruments *instruments, struct http_server *http,
                           struct note *note);
void instruments_unserve(struct instruments *instruments); /* before that server is closed */
void instruments_set_ready(struct instruments *instruments, bool ready);
/* One more reason not to be ready, as health_check_add; after instruments_serve. */
enum err instruments_check(struct instruments *instruments, const char *name, const char *reason,
                           struct health_check **ret_check);
#endif
