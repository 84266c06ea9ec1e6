/* SPDX-License-Identifier: Apache-2.0 */
/* Opens log, metrics, events and probes in this order and closes them in reverse. Loop's thread. */
#include "common/instruments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/tables.h"
#include "common/version.h"
#include "obs/crash.h"
#include "obs/events.h"
#include "obs/health.h"
#include "obs/ring.h"
#include "text/ndjson.h"
#include "text/rfc3339.h"

enum { LOG_FILE_MODE = 0640, LOG_REPEATS_PER_SECOND = 20 }; /* 20 are enough for a reload */

/* -- the log file: the logger keeps one descriptor; a reopen puts another file behind it -- */

static enum err instruments_open_log_file(const char *path, int *ret_fd, struct note *note)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, LOG_FILE_MODE);

    if (fd < 0) {
        int error = errno; /* the next line may change errno */
        note_set(note, "log.file %s: %s", path, strerror(error));
        switch (error) {
        case ENOENT:
        case ENOTDIR:
        case EISDIR:
        case EACCES:
        case EPERM:
        case EROFS:
        case ELOOP:
        case ENXIO:
        case ENAMETOOLONG: return ERR_INVALID; /* a shorter path would work */
        default: return ERR_IO;
        }
    }
    *ret_fd = fd;
    return ERR_OK;
}

void instruments_reopen(struct instruments *in)
{
    struct note note = {""};
    int fd = -1;

    if (!in->log_file) return;
    if (instruments_open_log_file(in->log_file, &fd, &note)) {
        LOG_ERROR(&in->log, "log file could not be reopened: logging continues to the old file",
                  log_text("why", note.text));
        return;
    }
    if (dup2(fd, in->log_fd) < 0)
        LOG_ERROR(&in->log, "log file could not be switched: logging continues to the old file",
                  log_text("why", strerror(errno)));
    close(fd);
}

static enum err instruments_open_log(struct instruments *in, struct io *io, const struct conf *conf,
                                     struct note *note)
{
    const char *path = conf_text(conf, "log.file");
    struct logger_options options = {
        .clock = io->clock,
        .level = (enum log_level)conf_choice(conf, "log.level"),
        .format = (enum log_format)conf_choice(conf, "log.format"),
        .fd = STDERR_FILENO,
        .repeats_per_second = LOG_REPEATS_PER_SECOND,
    };
    enum err err = ERR_OK;

    if (path) {
        in->log_file = str_dup(str_from(path));
        err = in->log_file ? instruments_open_log_file(path, &in->log_fd, note) : ERR_NOMEM;
        options.fd = in->log_fd;
    }
    if (!err) err = logger_open(&options, &in->logger);
    if (!err) log_source_init(&in->log, in->logger, "process", NULL);
    return err;
}

/* -- events -- */

static enum err instruments_open_events(struct instruments *in, struct io *io,
                                        const struct conf *conf, struct note *note)
{
    char path[FS_PATH_CAP];
    enum err err =
        files_below_data_dir(conf, "events.file", conf_text(conf, "events.file"), path, note);

    if (err) return err;
    struct events_options options = {
        .kind = (enum events_kind)conf_choice(conf, "events.sink"),
        .fs = io->fs,
        .clock = io->clock,
        .path = path,
        .mode = LOG_FILE_MODE,
        .rotate_bytes = conf_number(conf, "events.file-max"),
        .keep = (uint32_t)conf_number(conf, "events.files-kept"),
        .loop = io->loop,
        .log = &in->log,
        .name = "events",
    };
    err = events_open(&options, &in->events, note);
    if (err) note_prefix(note, "events.file %s", path);
    return err;
}

void instruments_event(struct instruments *instruments, const char *what)
{
    enum { EVENT_MAX = 1024 };
    char time[RFC3339_CAP];
    struct ndjson line;
    struct buf out;

    wall_text(clock_wall(instruments->clock), time);
    buf_init(&out, EVENT_MAX);
    ndjson_begin(&line, &out, NDJSON_LINE);
    ndjson_c_string(&line, STR("timestamp"), time);
    ndjson_c_string(&line, STR("event"), what);
    ndjson_u64(&line, STR("pid"), (uint64_t)getpid());
    ndjson_c_string(&line, STR("version"), version_number());
    if (!ndjson_end(&line)) { /* events_write logs a failure itself */
        (void)events_write(instruments->events, EVENT_KEEP, str_of(out.data, out.len - 1));
    }
    buf_deinit(&out);
}

/* -- numbers of the process itself -- */

static enum err instruments_add_metrics(struct instruments *in, struct note *note)
{
    struct metric_options reloads = {
        .name = "muster_config_reloads_total",
        .help = "Configuration reloads by result.",
        .kind = METRIC_COUNTER,
        .labels = {"result"},
    };
    struct metrics_build build = {.version = version_number(), .commit = version_commit()};
    struct metric_family *family;
    enum err err = metrics_open(&in->metrics);

    if (!err) err = metrics_add_process(in->metrics, &build, note);
    if (!err) err = metrics_add(in->metrics, &reloads, &family, note);
    if (err) return err;
    in->reloads[false] = metric_counter(family, &STR("refused"));
    in->reloads[true] = metric_counter(family, &STR("ok"));
    err = metrics_add_gauge(in->metrics, "muster_config_settings_waiting",
                            "Changed settings that take effect at the next restart.", &in->waiting,
                            note);
    return err ? err
               : metrics_add_gauge(
                     in->metrics, "muster_tls_not_after_seconds",
                     "Expiry time of the certificate, in seconds since 1970; 0 without TLS.",
                     &in->tls_not_after, note);
}

void instruments_count_reload(struct instruments *instruments, bool ok, size_t waiting)
{
    counter_inc(instruments->reloads[ok]);
    if (ok) gauge_set(instruments->waiting, (double)waiting);
}

void instruments_set_tls(struct instruments *instruments, const struct tls_context *tls)
{
    double ms = tls ? (double)tls_context_info(tls).not_after.ms : 0;
    gauge_set(instruments->tls_not_after, ms / (double)MS_PER_SECOND);
}

/* -- life -- */

enum err instruments_open(struct io *io, const struct conf *conf, const char *process_name,
                          struct instruments **ret_instruments, struct note *note)
{
    struct crash_options crash = {
        .program = process_name, .version = version_number(), .commit = version_commit()};
    struct instruments *in = calloc(1, sizeof *in);
    enum err err;

    if (!in) return ERR_NOMEM;
    in->log_fd = -1;
    in->clock = io->clock;
    in->loop = io->loop;
    ring_use_clock(io->clock);
    err = crash_install(&crash);
    if (!err) err = instruments_open_log(in, io, conf, note);
    if (!err) err = instruments_add_metrics(in, note);
    if (!err) err = instruments_open_events(in, io, conf, note);
    if (err)
        instruments_close(in);
    else
        *ret_instruments = in;
    return err;
}

void instruments_close(struct instruments *instruments)
{
    if (!instruments) return;
    health_close(instruments->health);
    events_close(instruments->events);
    metrics_close(instruments->metrics);
    logger_close(instruments->logger);
    if (instruments->log_fd >= 0) close(instruments->log_fd);
    free(instruments->log_file);
    free(instruments);
}

/* Adds the pages. Must be the last step of the start, because no request may find the process
 * healthy while its parts are still being opened. */
enum err instruments_serve(struct instruments *instruments, struct http_server *http,
                           struct note *note)
{
    struct health_options options = {
        .loop = instruments->loop,
        .metrics = instruments->metrics,
        .logger = instruments->logger,
        .events = instruments->events,
    };
    enum err err = health_open(&options, &instruments->health, note);

    if (!err)
        err = health_check_add(instruments->health, "process", "starting", &instruments->ready);
    return err || !http ? err : health_serve(instruments->health, http, note);
}

void instruments_unserve(struct instruments *instruments)
{
    if (instruments->health) health_unserve(instruments->health);
}

void instruments_set_ready(struct instruments *instruments, bool ready)
{
    health_check_set(instruments->ready, ready, "stopping");
}
