/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a sidecar: its start, the test of its socket, restarts with growing pauses, and
 * its stop. Event loop's thread. */
#include "worker/sidecar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/process.h"
#include "rpc/retry.h"
#include "worker/sidecar_call.h"

struct sidecar {
    struct sidecar_options options; /* its texts are the copies below */
    char name[128], path[108], address[128];
    const char *words[SIDECAR_WORDS_MAX + 2];
    struct process *process;
    struct stream *look; /* a connection that tests the socket or sends Shutdown */
    struct timer timer;
    mono_time started, give_up;
    uint32_t failures;
    bool ready, ever_ready, halted, reloading, closing;
    void (*done)(void *owner);
    void *done_owner;
};

static void sidecar_start(struct sidecar *s);

static void sidecar_set_ready(struct sidecar *s, bool ready)
{
    if (ready == s->ready) return;
    s->ready = ready;
    if (ready) s->ever_ready = true;
    if (!s->closing) s->options.on_change(s->options.owner);
}

static void remove_socket(struct sidecar *s)
{
    struct fs_info info;

    if (fs_stat(s->options.io->fs, s->path, &info) == ERR_OK && info.kind == FS_OTHER)
        (void)fs_remove(s->options.io->fs, s->path);
}

static void sidecar_free(struct sidecar *s)
{
    void (*done)(void *) = s->done;
    void *owner = s->done_owner;

    remove_socket(s);
    timer_deinit(&s->timer);
    free(s);
    if (done) done(owner);
}

static void sidecar_settle(struct sidecar *s)
{
    if (s->closing && !s->process && !s->look) sidecar_free(s);
}

/* -- the process -- */

static void sidecar_start_later(struct sidecar *s)
{
    struct backoff backoff = {SIDECAR_PAUSE_FIRST_MS, SIDECAR_PAUSE_MAX_MS};

    s->failures++;
    timer_start_in(&s->timer,
                   backoff_ms(backoff, s->failures, entropy_u64(s->options.io->entropy)));
}

static void on_exit_of(void *owner, struct process_exit exit)
{
    struct sidecar *s = owner;
    struct loop *loop = s->options.io->loop;
    struct note note;

    s->process = NULL;
    timer_stop(&s->timer);
    sidecar_set_ready(s, false);
    if (s->closing) {
        sidecar_settle(s);
        return;
    }
    if (s->halted) return;
    if (!s->ever_ready) {
        s->halted = true;
        note_set(&note, "plugin %s: its sidecar ended with %s%d before it took a connection",
                 s->name, exit.signalled ? "signal " : "", exit.code);
        s->options.on_failed(s->options.owner, ERR_UNAVAILABLE, &note);
        return;
    }
    if (s->reloading) {
        s->reloading = false;
        sidecar_start(s);
        return;
    }
    LOG_WARN(s->options.log, "sidecar process ended: restarting it", log_text("plugin", s->name),
             log_i64("code", exit.code), log_bool("signalled", exit.signalled));
    if (mono_elapsed_ms(s->started, loop_now(loop)) >= SIDECAR_LASTED_MS) s->failures = 0;
    sidecar_start_later(s);
}

static enum err sidecar_spawn(struct sidecar *s, struct note *note)
{
    struct process_options options = {
        .argv = s->words, .die_with_parent = true, .on_exit = on_exit_of, .owner = s};
    enum err err;

    remove_socket(s); /* a killed process leaves the socket */
    err = process_start(s->options.io->loop, &options, &s->process, note);
    if (err) return err;
    s->started = loop_now(s->options.io->loop);
    s->give_up = mono_after(s->started, s->options.bind_ms);
    timer_start_in(&s->timer, SIDECAR_LOOK_MS);
    return ERR_OK;
}

static void sidecar_start(struct sidecar *s)
{
    struct note note = {""};

    if (s->process || s->closing || s->halted) return;
    if (sidecar_spawn(s, &note) == ERR_OK) return;
    LOG_WARN(s->options.log, "sidecar process does not start: retrying",
             log_text("plugin", s->name), log_text("why", note.text));
    sidecar_start_later(s);
}

/* -- testing the socket of a process that is starting -- */

static void on_look_open(void *owner)
{
    struct sidecar *s = owner;

    if (!s->closing) stream_close(s->look);
    timer_stop(&s->timer);
    if (s->process && !s->closing && !s->halted && !s->reloading) sidecar_set_ready(s, true);
}

static void on_look_bytes(void *, struct str) {}

static void on_look_closed(void *owner, enum err, const struct note *)
{
    struct sidecar *s = owner;

    s->look = NULL;
    if (s->closing)
        sidecar_settle(s);
    else if (s->process && !s->ready && !s->reloading && !s->halted)
        timer_start_in(&s->timer, SIDECAR_LOOK_MS);
}

static void sidecar_look(struct sidecar *s)
{
    static const struct stream_events events = {
        .on_open = on_look_open, .on_bytes = on_look_bytes, .on_closed = on_look_closed};
    struct dial_options dial = {.address = s->address, .timeout_ms = s->options.bind_ms};

    if (s->look) return;
    if (net_dial(s->options.io->net, &dial, &events, s, &s->look, NULL))
        timer_start_in(&s->timer, SIDECAR_LOOK_MS);
}

/* Called when the process runs, but never accepted a connection on its socket. */
static void sidecar_never_bound(struct sidecar *s)
{
    struct note note;

    note_set(&note, "plugin %s: its sidecar did not take a connection at %s within %llu ms",
             s->name, s->path, (unsigned long long)s->options.bind_ms);
    if (s->ever_ready) {
        LOG_WARN(s->options.log, "sidecar process killed", log_text("plugin", s->name),
                 log_text("why", note.text));
        (void)process_signal(s->process, SIGKILL);
        return;
    }
    s->halted = true;
    (void)process_signal(s->process, SIGKILL);
    s->options.on_failed(s->options.owner, ERR_TIMEOUT, &note);
}

static void sidecar_on_timer(struct timer *timer)
{
    struct sidecar *s = CONTAINER_OF(timer, struct sidecar, timer);

    if (!s->process)
        sidecar_start(s);
    else if (s->closing || s->reloading)
        (void)process_signal(s->process, SIGKILL);
    else if (mono_due(s->give_up, loop_now(s->options.io->loop)))
        sidecar_never_bound(s);
    else
        sidecar_look(s);
}

/* -- open and close -- */

enum err sidecar_open(const struct sidecar_options *options, struct sidecar **ret_sidecar,
                      struct note *note)
{
    struct sidecar *s = calloc(1, sizeof *s);
    size_t count = 0;
    enum err err;

    if (!s) return ERR_NOMEM;
    s->options = *options;
    if (!s->options.bind_ms) s->options.bind_ms = SIDECAR_BIND_MS;
    snprintf(s->name, sizeof s->name, "%s", options->name);
    if (snprintf(s->path, sizeof s->path, "%s", options->socket_path) >= (int)sizeof s->path) {
        free(s);
        return note_fail(note, ERR_INVALID,
                         "plugin %s: the path of its socket is longer than %zu bytes",
                         options->name, sizeof s->path - 1);
    }
    snprintf(s->address, sizeof s->address, "unix:%s", s->path);
    err = timer_init(&s->timer, options->io->loop, sidecar_on_timer);
    for (; !err && options->command[count]; count++)
        if (count == SIDECAR_WORDS_MAX)
            err = ERR_TOO_LARGE;
        else
            s->words[count] = options->command[count];
    s->words[count] = s->path;
    if (!err) err = sidecar_spawn(s, note);
    if (err) {
        note_prefix(note, "plugin %s", s->name);
        sidecar_free(s);
        return err;
    }
    *ret_sidecar = s;
    return ERR_OK;
}

bool sidecar_ready(const struct sidecar *s)
{
    return s->ready;
}

int sidecar_pid(const struct sidecar *s)
{
    return s->process ? process_pid(s->process) : 0;
}

void sidecar_reload(struct sidecar *s)
{
    if (s->closing || s->halted || s->reloading) return;
    s->failures = 0;
    if (!s->process) {
        timer_start_in(&s->timer, 0);
        return;
    }
    s->reloading = true;
    sidecar_set_ready(s, false);
    (void)process_signal(s->process, SIGTERM);
    timer_start_in(&s->timer, SIDECAR_STOP_MS);
}

void sidecar_halt(struct sidecar *s)
{
    if (s->closing) return;
    s->halted = true;
    timer_stop(&s->timer);
    sidecar_set_ready(s, false);
    if (s->process) (void)process_signal(s->process, SIGKILL);
}

void sidecar_resume(struct sidecar *s)
{
    if (!s->halted || s->closing) return;
    s->halted = s->reloading = false;
    s->failures = 0;
    timer_start_in(&s->timer, 0);
}

static void sidecar_send_shutdown(struct sidecar *s)
{
    static const struct stream_events events = {.on_bytes = on_look_bytes,
                                                .on_closed = on_look_closed};
    struct dial_options dial = {.address = s->address, .timeout_ms = SIDECAR_STOP_MS};
    struct buf frame;
    struct str bytes;

    buf_init(&frame, 256);
    if (!s->look && !sidecar_frame(STR("Shutdown"), NULL, &frame) &&
        !net_dial(s->options.io->net, &dial, &events, s, &s->look, NULL)) {
        bytes = buf_peek(&frame);
        (void)stream_write(s->look, &bytes, 1);
        stream_end(s->look);
    }
    buf_deinit(&frame);
}

void sidecar_close(struct sidecar *s, void (*done)(void *owner), void *owner)
{
    if (!s) {
        if (done) done(owner);
        return;
    }
    s->closing = true;
    s->done = done;
    s->done_owner = owner;
    timer_stop(&s->timer);
    if (s->look) stream_close(s->look);
    if (s->process && s->ready && !s->reloading) {
        sidecar_send_shutdown(s);
        timer_start_in(&s->timer, SIDECAR_STOP_MS);
    } else if (s->process) {
        (void)process_signal(s->process, SIGKILL);
    }
    sidecar_settle(s);
}
