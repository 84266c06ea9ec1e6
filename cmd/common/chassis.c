/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, reloads and stops every role, in the order that chassis.h describes. Runs on the loop's
 * thread. A failed start leaves a half-built state, which chassis_close_parts can close. */
#include "common/chassis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/version.h"
#include "io/real.h"
#include "io/signals.h"
#include "obs/events.h"

/* how often the TLS certificate and key are compared with their files */
enum { LOOK_EVERY_MS = 1000, SIGNAL_EXIT = 128 };

struct chassis {
    const struct program *program;
    const struct command_call *call;
    char name[COMMAND_PATH_CAP]; /* "muster dev" */
    struct conf *conf_at_start;  /* lives until exit, because parts may point to its texts */
    struct conf *conf;
    struct real_io *real;
    struct fs_lock *lock;
    struct instruments *instruments;
    struct tls_context *tls;
    uint64_t tls_loads;
    struct note tls_refused; /* last logged error of a TLS reload, or "" */
    struct status_server status;
    struct signals *signals;
    struct timer live_timer, look_timer;
    mono_time started;
    const struct chassis_hooks *hooks;
    struct role_base *state; /* the role's */
    size_t drained;
    bool running; /* all is open */
    bool stopping;
    enum err failed;
    int failed_code;
    struct note failed_note;
};

static struct io *chassis_io(const struct chassis *chassis)
{
    return real_io_io(chassis->real);
}

enum err chassis_tls(const struct chassis *chassis, enum tls_side side, const char *alpn,
                     struct tls_context **ret_context, struct note *note)
{
    const struct conf *conf = chassis->conf_at_start;
    struct tls_options options = {
        .side = side,
        .version_min = TLS_V1_3,
        .cert_file = conf_text(conf, "tls.cert-file"),
        .key_file = conf_text(conf, "tls.key-file"),
        .ca_files = {conf_text(conf, "tls.ca-file")},
        .alpn = {alpn},
    };
    return tls_context_open(chassis_io(chassis)->fs, &options, ret_context, note);
}

void chassis_publish(struct chassis *chassis, const char *path, int status,
                     const char *content_type, struct str content)
{
    struct http_server *http = chassis->status.http;

    if (http) (void)http_publish_as(http, path, status, content_type, content);
}

void chassis_turn(struct chassis *chassis)
{
    real_io_turn(chassis->real, true);
}

void chassis_set_true(void *truth)
{
    *(bool *)truth = true;
}

bool chassis_stopping(const struct chassis *chassis)
{
    return chassis->stopping;
}

void chassis_stop(struct chassis *chassis)
{
    real_io_stop(chassis->real);
}

void chassis_fail(struct chassis *chassis, enum err err, const struct note *note)
{
    chassis_give_up(chassis, 1, err, note);
}

void chassis_give_up(struct chassis *chassis, int exit_code, enum err err, const struct note *note)
{
    if (chassis->failed) return; /* the first reason counts */
    chassis->failed = err;
    chassis->failed_code = exit_code;
    chassis->failed_note = *note;
    LOG_ERROR(&chassis->instruments->log, "stopping: a part of this process failed",
              log_err("err", err), log_text("why", note->text));
    real_io_stop(chassis->real);
}

static const char *chassis_warning_of(const struct conf *conf)
{
    const char *listen = conf_text(conf, "http.listen");
    bool exposed = !conf_is_set(conf, "tls.cert-file") && !option_address_off(listen) &&
                   !address_is_loopback(listen);
    return exposed ? "Insecure: this listener is open to the network without TLS." : NULL;
}

static enum err chassis_lock_data_dir(struct chassis *c, struct note *note)
{
    const char *dir = conf_text(c->conf, "data-dir");
    struct fs *fs = chassis_io(c)->fs;
    enum err err = fs_make_dirs(fs, dir, 0700);

    if (!err && c->hooks->locks_data_dir) return ERR_OK;
    if (err)
        return note_fail(note, err, "data-dir %s: %s", dir,
                         err == ERR_EXISTS ? "a file is in the way" : err_text(err));
    err = fs_lock_dir(fs, dir, &c->lock, note);
    if (err == ERR_BUSY) {
        note_prefix(note, "data-dir %s is in use; give this process its own with --data-dir", dir);
    } else if (err) {
        note_prefix(note, "data-dir %s", dir);
    }
    return err;
}

static enum err chassis_open_tls(struct chassis *c, struct note *note)
{
    struct tls_options options = {
        .side = TLS_SERVER,
        .version_min = TLS_V1_2,
        .cert_file = conf_text(c->conf, "tls.cert-file"),
        .key_file = conf_text(c->conf, "tls.key-file"),
        .peer_optional = true,
    };
    if (!options.cert_file) return ERR_OK;
    enum err err = tls_context_open(chassis_io(c)->fs, &options, &c->tls, note);
    if (!err) c->tls_loads = tls_context_info(c->tls).loads;
    return err;
}

static void chassis_publish_numbers(struct chassis *c)
{
    struct loop *loop = chassis_io(c)->loop;

    status_server_send(&c->status, mono_elapsed_ms(c->started, loop_now(loop)), loop_stats(loop));
}

static void chassis_on_live(struct timer *timer)
{
    struct chassis *c = CONTAINER_OF(timer, struct chassis, live_timer);
    chassis_publish_numbers(c);
    timer_start_in(timer, conf_number(c->conf, "http.live-every"));
}

static enum err chassis_open_status_server(struct chassis *c, struct note *note)
{
    const struct status_facts facts = {.command = c->name,
                                       .version = version_number(),
                                       .commit = version_commit(),
                                       .data_dir = conf_text(c->conf, "data-dir"),
                                       .warning = chassis_warning_of(c->conf)};
    const struct http_options http = {
        .address = conf_text(c->conf, "http.listen"),
        .cert_file = conf_text(c->conf, "tls.cert-file"),
        .key_file = conf_text(c->conf, "tls.key-file"),
        .ca_file = c->hooks->knows_callers ? conf_text(c->conf, "tls.ca-file") : NULL,
    };
    return status_server_open(&c->status, c->instruments, &facts, &http, note);
}

/* Turns an error that a wrong setting causes into ERR_INVALID. An error that another process or the
 * machine causes stays. */
static enum err chassis_as_setting(enum err err)
{
    switch (err) {
    case ERR_NOT_FOUND:
    case ERR_EXISTS:
    case ERR_DENIED:
    case ERR_PARSE:
    case ERR_CONFLICT:
    case ERR_TOO_LARGE:
    case ERR_PRECONDITION:
    case ERR_UNSUPPORTED: return ERR_INVALID;
    default: return err;
    }
}

/* Parts that were never opened are skipped. */
static void chassis_close_parts(struct chassis *c)
{
    signals_close(c->signals);
    if (c->state) c->hooks->close(c->state);
    free(c->state);
    timer_deinit(&c->look_timer);
    timer_deinit(&c->live_timer);
    status_server_close(&c->status);
    tls_context_unref(c->tls);
    instruments_close(c->instruments);
    if (c->lock) fs_unlock(chassis_io(c)->fs, c->lock);
    real_io_close(c->real);
    if (c->conf != c->conf_at_start) conf_close(c->conf);
    conf_close(c->conf_at_start);
}

/* -- reload -- */

static void chassis_say_changes(struct chassis *c, const struct conf *next,
                                const struct conf_changes *changes)
{
    const struct log_source *log = &c->instruments->log;
    struct buf text;

    for (size_t i = 0; i < changes->count; i++) {
        buf_init(&text, PROGRAM_TEXT_MAX);
        if (!conf_change_text(c->conf, next, &changes->each[i], &text) &&
            !buf_append_byte(&text, '\0')) {
            if (changes->each[i].applied)
                LOG_INFO(log, "setting changed", log_text("change", text.data));
            else
                LOG_WARN(log, "setting not applied: it needs a restart",
                         log_text("change", text.data));
        }
        buf_deinit(&text);
    }
    if (changes->count == 0) LOG_INFO(log, "no setting changed");
}

static void chassis_say_refused(struct chassis *c, enum err err, struct str problems)
{
    const struct log_source *log = &c->instruments->log;
    struct str line;

    while (problems.len > 0 && str_split(&problems, '\n', &line)) {
        if (line.len > 0) LOG_ERROR(log, "configuration refused", log_str("problem", line));
    }
    LOG_ERROR(log, "reload failed: the old configuration stays in force", log_err("err", err));
}

/* Reads the configuration again. The reload is counted first, so that a reader of the log line
 * finds the new count in the metrics. */
static bool chassis_reload_conf(struct chassis *c)
{
    struct conf_changes changes;
    struct conf *next = NULL;
    struct buf problems;
    enum err err;

    buf_init(&problems, PROGRAM_TEXT_MAX);
    err = program_read_conf(c->program, c->call, &next, &problems);
    if (!err) err = role_problems(c->hooks->role, next, &problems);
    if (!err) err = conf_reload(c->conf, next, &changes);
    if (err) {
        instruments_count_reload(c->instruments, false, 0);
        chassis_say_refused(c, err, buf_peek(&problems));
        conf_close(next);
    } else {
        instruments_count_reload(c->instruments, true, changes.waiting);
        chassis_say_changes(c, next, &changes);
        if (c->conf != c->conf_at_start) conf_close(c->conf);
        c->conf = next;
        c->state->conf_now = next;
        logger_set_level(c->instruments->logger, (enum log_level)conf_choice(c->conf, "log.level"));
    }
    buf_deinit(&problems);
    return !err;
}

/* Reloads changed TLS files. SIGHUP (`asked`) logs every failure, the timer only a new one. The
 * load count shows whether a new connection has already reloaded the files. */
static void chassis_look_at_tls(struct chassis *c, bool asked)
{
    const struct log_source *log = &c->instruments->log;
    struct note note = {""};
    bool changed;
    enum err err;

    if (!c->tls) return;
    err = tls_context_reload(c->tls, &changed, &note);
    uint64_t loads = tls_context_info(c->tls).loads;
    if (!err && loads != c->tls_loads) {
        err = c->status.http ? http_reload_tls(c->status.http, &note) : ERR_OK;
        if (!err) {
            c->tls_loads = loads;
            instruments_set_tls(c->instruments, c->tls);
            LOG_INFO(log, "TLS files reloaded");
        }
    }
    if (!err) note.text[0] = '\0';
    if (err && (asked || strcmp(note.text, c->tls_refused.text) != 0))
        LOG_ERROR(log, "reload of the TLS files failed: the old certificate stays in use",
                  log_text("why", note.text));
    c->tls_refused = note;
}

static void chassis_on_look(struct timer *timer)
{
    struct chassis *c = CONTAINER_OF(timer, struct chassis, look_timer);

    chassis_look_at_tls(c, false);
    timer_start_in(timer, LOOK_EVERY_MS);
}

void chassis_drained(void *chassis)
{
    struct chassis *c = chassis;
    chassis_drain_fn *drain = c->hooks->drains ? c->hooks->drains[c->drained] : NULL;

    if (!drain) {
        real_io_stop(c->real);
        return;
    }
    c->drained++;
    drain(c->state);
}

static void chassis_begin_stop(struct chassis *c)
{
    instruments_event(c->instruments, "stopping");
    instruments_set_ready(c->instruments, false);
    chassis_drained(c);
}

static void chassis_on_signal(void *owner, int signal)
{
    struct chassis *c = owner;
    const struct log_source *log = &c->instruments->log;

    if (signal != SIGHUP && c->stopping) {
        if (c->hooks->second_signal_ends) _exit(SIGNAL_EXIT + signal);
        return; /* the process is stopping already */
    }
    if (signal != SIGHUP) {
        c->stopping = true;
        LOG_INFO(log, "stopping", log_text("signal", signal == SIGINT ? "SIGINT" : "SIGTERM"));
        if (c->running) chassis_begin_stop(c); /* otherwise chassis_run_role begins the stop */
        return;
    }
    if (!c->running) { /* the start has not ended: old and new settings must not mix */
        LOG_WARN(log, "ignored SIGHUP: start-up is not finished");
        return;
    }
    instruments_reopen(c->instruments); /* first, so that later lines are in the new file */
    LOG_INFO(log, "reloading", log_text("signal", "SIGHUP"));
    bool reloaded = chassis_reload_conf(c);
    chassis_look_at_tls(c, true);
    if (c->hooks->reload) c->hooks->reload(c->state);
    instruments_event(c->instruments, reloaded ? "reloaded" : "reload-refused");
    chassis_publish_numbers(c);
}

static enum err chassis_open_role(struct chassis *c, struct note *note)
{
    chassis_step_fn *const *step = c->hooks->steps;
    enum err err = ERR_OK;

    c->state = calloc(1, c->hooks->state_size);
    if (!c->state) return ERR_NOMEM;
    *c->state = (struct role_base){.chassis = c,
                                   .io = chassis_io(c),
                                   .hooks = c->hooks,
                                   .conf = c->conf_at_start,
                                   .conf_now = c->conf_at_start,
                                   .status = &c->status,
                                   .warning = chassis_warning_of(c->conf_at_start),
                                   .instruments = c->instruments,
                                   .metrics = c->instruments->metrics};
    while (!err && *step) err = (*step++)(c->state, note);
    return err;
}

static enum err chassis_open_parts(struct chassis *c, struct note *note)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, 0};
    enum err err = real_io_open(&c->real);

    if (!err) err = chassis_lock_data_dir(c, note);
    if (!err) err = instruments_open(chassis_io(c), c->conf, c->name, &c->instruments, note);
    if (!err) err = chassis_open_tls(c, note);
    if (!err) instruments_set_tls(c->instruments, c->tls);
    if (!err) err = chassis_open_status_server(c, note);
    if (!err) err = timer_init(&c->live_timer, chassis_io(c)->loop, chassis_on_live);
    if (!err) err = timer_init(&c->look_timer, chassis_io(c)->loop, chassis_on_look);
    if (!err) err = signals_open(chassis_io(c)->loop, numbers, chassis_on_signal, c, &c->signals);
    return err ? err : chassis_open_role(c, note);
}

/* -- the run -- */

static int chassis_print_conf(const struct chassis *c)
{
    struct buf text;
    int exit_code;
    enum err err;

    buf_init(&text, PROGRAM_TEXT_MAX);
    err = conf_print(c->conf, c->name, &text);
    exit_code = err ? program_fail(c->call, err, NULL) : program_print(buf_peek(&text));
    buf_deinit(&text);
    return exit_code;
}

/* Uses stderr when stdout has the events. */
static void chassis_say_started(const struct chassis *c)
{
    bool events = conf_choice(c->conf, "events.sink") == EVENTS_STDOUT;
    const char *scheme = c->tls ? "https" : "http", *trust = c->tls ? "--insecure " : "";
    const char *address = c->status.address;
    bool taken = events || (c->hooks->owns_stdout && c->hooks->owns_stdout(c->state));
    FILE *out = taken ? stderr : stdout;

    if (c->hooks->say_first) c->hooks->say_first(c->state, out);
    fprintf(out, "%s %s is running (pid %d). Ctrl-C stops it.\n", c->name, version_number(),
            (int)getpid());
    if (chassis_warning_of(c->conf))
        fprintf(out, "  warning      %s\n", chassis_warning_of(c->conf));
    if (address[0]) {
        fprintf(out, "  status page  %s://%s/\n", scheme, address);
        fprintf(out, "  try          curl %s%s://%s/readyz\n", trust, scheme, address);
        fprintf(out, "               curl %s%s://%s/metrics\n", trust, scheme, address);
    }
    if (c->hooks->say_started) c->hooks->say_started(c->state, out);
    fflush(out);
}

static void chassis_run_role(struct chassis *c)
{
    const struct log_source *log = &c->instruments->log;
    const char *warning = chassis_warning_of(c->conf);
    bool banner_first = c->hooks->say_first != NULL;

    if (banner_first) chassis_say_started(c);
    LOG_INFO(log, "started", log_text("version", version_number()),
             log_text("commit", version_commit()), log_text("http", c->status.address),
             log_text("data_dir", conf_text(c->conf, "data-dir")));
    if (warning) LOG_WARN(log, "listener is open to the network without TLS");
    instruments_event(c->instruments, "started");
    instruments_set_ready(c->instruments, true);
    if (!banner_first) chassis_say_started(c);
    chassis_publish_numbers(c);
    timer_start_in(&c->live_timer, conf_number(c->conf, "http.live-every"));
    timer_start_in(&c->look_timer, LOOK_EVERY_MS);
    c->running = true;
    if (c->stopping) chassis_begin_stop(c); /* the stop came during the start */
    real_io_run(c->real);
    LOG_INFO(log, "stopped");
}

static enum err chassis_check_role(const struct chassis *c)
{
    struct buf problems;
    enum err err;

    buf_init(&problems, PROGRAM_TEXT_MAX);
    err = role_problems(c->hooks->role, c->conf, &problems);
    if (err) program_say_problems(c->call, buf_peek(&problems));
    buf_deinit(&problems);
    return err;
}

/* Checks the files that the settings name, before a directory is made or a port is bound. */
static enum err chassis_check_files(const struct chassis *c, struct note *note)
{
    enum err err = files_check(c->hooks->role->table, c->conf, fs_real(), note);

    return err || !c->hooks->check ? err : c->hooks->check(c->conf, fs_real(), note);
}

int chassis_run(void *program, const struct command_call *call)
{
    struct chassis c = {.program = program, .call = call, .hooks = command_of(call)->data};
    struct note note = {""};
    int exit_code = 0;
    enum err err = program_load_conf(program, call, &c.conf_at_start);

    if (err) return err_exit_code(err);
    c.conf = c.conf_at_start;
    command_path_text(call, c.name);
    if (conf_bool(c.conf, "print-config")) {
        exit_code = chassis_print_conf(&c);
        conf_close(c.conf_at_start);
        return exit_code;
    }
    err = chassis_check_role(&c);
    if (err) {
        conf_close(c.conf_at_start);
        return err_exit_code(err);
    }
    err = chassis_as_setting(chassis_check_files(&c, &note));
    if (!err) err = chassis_as_setting(chassis_open_parts(&c, &note));
    if (err && c.stopping) {
        LOG_INFO(&c.instruments->log, "stopped during start-up");
    } else if (err) {
        exit_code = program_fail(call, err, &note);
    } else {
        c.started = loop_now(chassis_io(&c)->loop);
        chassis_run_role(&c);
        if (c.failed) {
            (void)program_fail(call, c.failed, &c.failed_note);
            exit_code = c.failed_code;
        }
    }
    chassis_close_parts(&c);
    return exit_code;
}
