/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a script: a process in its own process group, with a timer that ends it. Loop's
 * thread. */
#include "provider/host/script.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "io/process.h"

enum { STDOUT = 1, COMPLAINT_MAX = 200 };

struct script {
    struct script_options options;
    struct process *process;
    struct timer timer;
    struct buf output;
    struct note complaint;
    bool late, flooded;
};

static void script_free(struct script *s)
{
    timer_deinit(&s->timer);
    buf_deinit(&s->output);
    free(s);
}

static void on_line(void *owner, int fd, struct str line)
{
    struct script *s = owner;

    if (fd != STDOUT) {
        line = str_trim(line);
        if (line.len > 0)
            note_set(&s->complaint, "%.*s", (int)min_size(line.len, COMPLAINT_MAX), line.at);
        return;
    }
    if (s->flooded || (!buf_append(&s->output, line) && !buf_append_byte(&s->output, '\n'))) return;
    s->flooded = true;
    (void)process_signal(s->process, SIGKILL);
}

static void describe(const struct script *s, struct process_exit how, struct note *ret_error)
{
    const char *colon = s->complaint.text[0] ? ": " : "";

    if (s->flooded)
        note_set(ret_error, "printed more than %zu bytes, and was killed", s->options.output_max);
    else if (s->late)
        note_set(ret_error, "was not done after %" PRIu64 " ms, and was killed%s%s",
                 s->options.timeout_ms, colon, s->complaint.text);
    else if (how.unknown)
        note_set(ret_error, "ended, and nobody knows how");
    else if (how.signalled)
        note_set(ret_error, "killed by signal %d%s%s", how.code, colon, s->complaint.text);
    else if (how.code != 0)
        note_set(ret_error, "exit status %d%s%s", how.code, colon, s->complaint.text);
}

static void on_exit_of(void *owner, struct process_exit how)
{
    struct script *s = owner;
    struct script_end end = {.output = buf_peek(&s->output)};

    s->process = NULL;
    describe(s, how, &end.error);
    s->options.done(s->options.owner, &end);
    script_free(s);
}

static void on_time(struct timer *timer)
{
    struct script *s = CONTAINER_OF(timer, struct script, timer);

    (void)process_signal(s->process, s->late ? SIGKILL : SIGTERM);
    s->late = true;
    /* again, because the group may be forking */
    timer_start_in(&s->timer, SCRIPT_KILL_AFTER_MS);
}

enum err script_start(const struct script_options *options, struct script **ret_script,
                      struct note *note)
{
    const char *const argv[] = {options->program, options->argument, NULL};
    struct script *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->options = *options;
    s->options.program = s->options.argument = NULL;
    s->options.env = NULL;
    s->options.input = STR_EMPTY;
    buf_init(&s->output, options->output_max);
    err = timer_init(&s->timer, options->loop, on_time);
    const struct process_options run = {
        .argv = argv,
        .env = options->env,
        .input = options->input,
        .output_line_max = options->output_max,
        .die_with_parent = true,
        .own_group = true,
        .on_line = on_line,
        .on_exit = on_exit_of,
        .owner = s,
    };
    if (!err) err = process_start(options->loop, &run, &s->process, note);
    if (err) {
        script_free(s);
        return err;
    }
    timer_start_in(&s->timer, options->timeout_ms);
    *ret_script = s;
    return ERR_OK;
}

void script_abandon(struct script *script)
{
    process_abandon(script->process);
    script_free(script);
}
