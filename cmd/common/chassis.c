#include "common/chassis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/instruments.h"
#include "common/serve.h"
#include "common/tables.h"
#include "common/version.h"
#include "io/real.h"
#include "io/signals.h"

struct chassis {
    const struct program *program;
    const struct command_call *call;
    const struct chassis_role *role;
    char name[COMMAND_PATH_CAP]; /* "muster dev" */
    struct conf *conf_at_start;  /* kept to the end: parts may hold texts of it */
    struct conf *conf;           /* what is in force */
    struct real_io *real;
    struct fs_lock *lock;
    struct instruments *instruments;
    struct tls_context *tls;
    struct serve *serve;
    struct signals *signals;
    struct timer live_timer;
    mono_time started;
    bool role_open;
};

struct io *chassis_io(struct chassis *chassis)
{
    return real_io_io(chassis->real);
}

const struct conf *chassis_conf(const struct chassis *chassis)
{
    return chassis->conf;
}

struct tls_context *chassis_tls(struct chassis *chassis)
{
    return chassis->tls;
}

/* -- what is checked before anything is opened -- */

static enum err check_settings(const struct conf *conf, struct note *note)
{
    const char *cert = conf_text(conf, "tls.cert-file"), *key = conf_text(conf, "tls.key-file");
    const char *listen = conf_text(conf, "http.listen");

    if (!cert != !key) {
        note_set(note, "tls.cert-file and tls.key-file belong together; one of them is missing");
        return ERR_INVALID;
    }
    if (strncmp(listen, "unix:", 5) == 0) {
        note_set(note, "http.listen %s: HTTP needs host:port", listen);
        return ERR_INVALID;
    }
    if (!cert && !address_is_loopback(listen) && !conf_bool(conf, "insecure")) {
        note_set(note,
                 "http.listen %s is not loopback and there is no TLS: set tls.cert-file and "
                 "tls.key-file, or say --insecure",
                 listen);
        return ERR_INVALID;
    }
    return ERR_OK;
}

static const char *warning_of(const struct conf *conf)
{
    bool exposed =
        !conf_is_set(conf, "tls.cert-file") && !address_is_loopback(conf_text(conf, "http.listen"));
    return exposed ? "Insecure: this listener is open to the network without TLS." : NULL;
}

/* -- opening, in this order -- */

static enum err lock_data_dir(struct chassis *c, struct note *note)
{
    const char *dir = conf_text(c->conf, "data-dir");
    struct fs *fs = chassis_io(c)->fs;
    enum err err = fs_make_dirs(fs, dir, 0700);

    if (err) {
        note_set(note, "data-dir %s: %s", dir,
                 err == ERR_EXISTS ? "a file is in the way" : err_text(err));
        return err == ERR_EXISTS ? ERR_INVALID : err;
    }
    err = fs_lock_dir(fs, dir, &c->lock, note);
    if (err == ERR_BUSY) {
        note_prefix(note, "data-dir %s is in use; give this process its own with --data-dir", dir);
    } else if (err) {
        note_prefix(note, "data-dir %s", dir);
    }
    return err;
}

static enum err open_tls(struct chassis *c, struct note *note)
{
    struct tls_options options = {
        .side = TLS_SERVER,
        .version_min = TLS_V1_2,
        .cert_file = conf_text(c->conf, "tls.cert-file"),
        .key_file = conf_text(c->conf, "tls.key-file"),
        .peer_optional = true,
    };
    if (!options.cert_file) return ERR_OK;
    return tls_context_open(chassis_io(c)->fs, &options, &c->tls, note);
}

static void publish_numbers(struct chassis *c)
{
    struct loop *loop = chassis_io(c)->loop;
    struct status_numbers numbers = {
        .uptime_ms = mono_elapsed_ms(c->started, loop_now(loop)),
        .loop = loop_stats(loop),
    };
    serve_publish(c->serve, &numbers);
}

static void on_live_timer(struct timer *timer)
{
    struct chassis *c = CONTAINER_OF(timer, struct chassis, live_timer);
    publish_numbers(c);
    timer_start_in(timer, conf_number(c->conf, "http.live-every"));
}

static enum err open_serve(struct chassis *c, struct note *note)
{
    struct serve_options options = {
        .facts = {.command = c->name,
                  .version = version_number(),
                  .commit = version_commit(),
                  .data_dir = conf_text(c->conf, "data-dir"),
                  .warning = warning_of(c->conf)},
        .address = conf_text(c->conf, "http.listen"),
        .cert_file = conf_text(c->conf, "tls.cert-file"),
        .key_file = conf_text(c->conf, "tls.key-file"),
        .instruments = c->instruments,
    };
    return serve_open(&options, &c->serve, note);
}

static void on_signal(void *owner, int signal);

static enum err open_parts(struct chassis *c, struct note *note)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, 0};
    enum err err = real_io_open(&c->real);

    if (!err) err = lock_data_dir(c, note);
    if (!err) err = instruments_open(chassis_io(c), c->conf, c->name, &c->instruments, note);
    if (!err) err = open_tls(c, note);
    if (!err) instruments_set_tls(c->instruments, c->tls);
    if (!err) err = open_serve(c, note);
    if (!err) err = timer_init(&c->live_timer, chassis_io(c)->loop, on_live_timer);
    if (!err) err = signals_open(chassis_io(c)->loop, numbers, on_signal, c, &c->signals);
    if (!err && c->role->open) err = c->role->open(c->role->self, c, note);
    if (!err) c->role_open = true;
    return err;
}

/* In reverse order, from any half-built state. */
static void close_parts(struct chassis *c)
{
    if (c->role_open && c->role->close) c->role->close(c->role->self);
    signals_close(c->signals);
    timer_deinit(&c->live_timer);
    serve_close(c->serve);
    tls_context_unref(c->tls);
    instruments_close(c->instruments);
    if (c->lock) fs_unlock(chassis_io(c)->fs, c->lock);
    real_io_close(c->real);
    if (c->conf != c->conf_at_start) conf_close(c->conf);
    conf_close(c->conf_at_start);
}

/* -- reload -- */

static void say_changes(struct chassis *c, const struct conf *next,
                        const struct conf_changes *changes)
{
    const struct log_source *log = instruments_log(c->instruments);
    struct buf text;

    for (size_t i = 0; i < changes->count; i++) {
        buf_init(&text, PROGRAM_TEXT_MAX);
        if (!conf_change_text(c->conf, next, &changes->each[i], &text) &&
            !buf_append_byte(&text, '\0')) {
            if (changes->each[i].applied)
                LOG_INFO(log, "setting changed", log_text("change", text.data));
            else
                LOG_WARN(log, "setting needs a restart", log_text("change", text.data));
        }
        buf_deinit(&text);
    }
    if (changes->count == 0) LOG_INFO(log, "no setting changed");
}

/* Wrong in any way: say so, line by line, and change nothing. */
static void say_refused(struct chassis *c, enum err err, struct str problems)
{
    const struct log_source *log = instruments_log(c->instruments);
    struct str line;

    while (problems.len > 0 && str_split(&problems, '\n', &line)) {
        if (line.len > 0) LOG_ERROR(log, "configuration refused", log_str("problem", line));
    }
    LOG_ERROR(log, "nothing was reloaded, the old configuration stays", log_err("err", err));
}

static void reload_conf(struct chassis *c)
{
    struct conf_changes changes;
    struct conf *next = NULL;
    struct note note = {""};
    struct buf problems;
    enum err err;

    buf_init(&problems, PROGRAM_TEXT_MAX);
    err = program_read_conf(c->program, c->call, &next, &problems);
    if (!err) err = check_settings(next, &note); /* what could not start is not taken half */
    if (!err) err = conf_reload(c->conf, next, &changes);
    if (err) {
        if (note.text[0]) (void)buf_append_c(&problems, note.text);
        say_refused(c, err, buf_peek(&problems));
        instruments_count_reload(c->instruments, false, 0);
        conf_close(next);
    } else {
        instruments_count_reload(c->instruments, true, changes.waiting);
        say_changes(c, next, &changes);
        if (c->conf != c->conf_at_start) conf_close(c->conf);
        c->conf = next;
        instruments_apply(c->instruments, c->conf);
        if (c->role->reload) c->role->reload(c->role->self, c->conf);
    }
    buf_deinit(&problems);
}

/* The HTTP engine cannot exchange its pair while it runs, so the listener is opened anew:
 * readers of the live page come back by themselves. */
static void reload_tls(struct chassis *c)
{
    bool changed = false;
    struct note note = {""};
    const struct log_source *log = instruments_log(c->instruments);
    enum err err = c->tls ? tls_context_reload(c->tls, &changed, &note) : ERR_OK;

    if (err) LOG_ERROR(log, "TLS files refused, the old pair stays", log_text("why", note.text));
    if (!changed || err) return;
    instruments_set_tls(c->instruments, c->tls);
    err = serve_reopen(c->serve, &note);
    if (err)
        LOG_ERROR(log, "listener could not be opened anew, trying again",
                  log_text("why", note.text));
    else
        LOG_INFO(log, "TLS files reloaded");
}

static void on_signal(void *owner, int signal)
{
    struct chassis *c = owner;
    const struct log_source *log = instruments_log(c->instruments);

    if (signal != SIGHUP) {
        LOG_INFO(log, "stopping", log_text("signal", signal == SIGINT ? "SIGINT" : "SIGTERM"));
        instruments_event(c->instruments, "stopping");
        instruments_set_ready(c->instruments, false);
        real_io_stop(c->real);
        return;
    }
    instruments_reopen(c->instruments); /* first, so that what follows is in the new file */
    LOG_INFO(log, "reloading", log_text("signal", "SIGHUP"));
    reload_conf(c);
    reload_tls(c);
    instruments_event(c->instruments, "reloaded");
    publish_numbers(c);
}

/* -- the run -- */

static int print_conf(const struct chassis *c)
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

/* On stdout for whoever started it; on stderr when stdout belongs to the events. */
static void say_started(const struct chassis *c)
{
    bool events = conf_choice(c->conf, "events.sink") == EVENTS_CHOICE_STDOUT;
    const char *scheme = c->tls ? "https" : "http", *trust = c->tls ? "--insecure " : "";
    const char *address = serve_address(c->serve);
    FILE *out = events ? stderr : stdout;

    fprintf(out, "%s %s is running (pid %d). Ctrl-C stops it.\n", c->name, version_number(),
            (int)getpid());
    if (warning_of(c->conf)) fprintf(out, "  warning      %s\n", warning_of(c->conf));
    fprintf(out, "  status page  %s://%s/\n", scheme, address);
    fprintf(out, "  try          curl %s%s://%s/readyz\n", trust, scheme, address);
    fprintf(out, "               curl %s%s://%s/metrics\n", trust, scheme, address);
    fflush(out);
}

static void run(struct chassis *c)
{
    const struct log_source *log = instruments_log(c->instruments);
    const char *warning = warning_of(c->conf);

    LOG_INFO(log, "started", log_text("version", version_number()),
             log_text("commit", version_commit()), log_text("http", serve_address(c->serve)),
             log_text("data_dir", conf_text(c->conf, "data-dir")));
    if (warning) LOG_WARN(log, "listener is open to the network without TLS");
    instruments_event(c->instruments, "started");
    instruments_set_ready(c->instruments, true);
    say_started(c);
    publish_numbers(c);
    timer_start_in(&c->live_timer, conf_number(c->conf, "http.live-every"));
    real_io_run(c->real);
    LOG_INFO(log, "stopped");
}

int chassis_run(const struct program *program, const struct command_call *call,
                const struct chassis_role *role)
{
    struct chassis c = {.program = program, .call = call, .role = role};
    struct note note = {""};
    int exit_code = 0;
    enum err err = program_load_conf(program, call, &c.conf_at_start);

    if (err) return err_exit_code(err);
    c.conf = c.conf_at_start;
    command_path_text(call, c.name);
    if (conf_bool(c.conf, "print-config")) {
        exit_code = print_conf(&c);
        conf_close(c.conf_at_start);
        return exit_code;
    }
    err = check_settings(c.conf, &note);
    if (!err) err = open_parts(&c, &note);
    if (err) {
        exit_code = program_fail(call, err, &note);
    } else {
        c.started = loop_now(chassis_io(&c)->loop);
        run(&c);
    }
    close_parts(&c);
    return exit_code;
}
