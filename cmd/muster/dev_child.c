/* SPDX-License-Identifier: Apache-2.0 */
/* Restarts a child one second after it died, unless its exit code means an invalid setting or a
 * port that it never had. The last line on stderr becomes the error. Runs on the loop's thread. */
#include "muster/dev_child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "io/process.h"

enum { AGAIN_MS = 1000, ENV_MAX = 1024, LINE_CAP = 256, HELD_MAX = 8 };

struct dev_child {
    struct dev_child_options options; /* name and argv are copies */
    char name[32];
    char *argv[DEV_ARGS_MAX + 1];
    struct process *process; /* NULL: not running */
    struct timer again;
    bool stopping, paused, settled;
    char said[LINE_CAP]; /* last line on stderr */
    /* Lines on stderr before the fleet is ready. They are logged later, because they would split
     * the banner. */
    char held[HELD_MAX][LINE_CAP];
    size_t held_count;
    bool held_all; /* lines are not held any more */
};

/* Copies the environment without the variables of `muster dev`, which are not for its children. */
static void child_make_environment(const char *environment[ENV_MAX])
{
    size_t count = 0;

    for (char **at = environ; *at && count < ENV_MAX - 1; at++)
        if (strncmp(*at, "MUSTER_", 7) != 0) environment[count++] = *at;
    environment[count] = NULL;
}

static void child_log_line(const struct dev_child *child, struct str line)
{
    LOG_WARN(child->options.log, "child process printed a line", log_text("process", child->name),
             log_str("line", line));
}

static void child_log_held(struct dev_child *child)
{
    for (size_t i = 0; i < child->held_count; i++) child_log_line(child, str_from(child->held[i]));
    child->held_count = 0;
}

/* Lines are kept until the fleet is ready. A process with more than HELD_MAX lines has a problem,
 * so its lines are logged as they come. */
static void child_on_line(void *owner, int fd, struct str line)
{
    struct dev_child *child = owner;

    if (fd != STDERR_FILENO || line.len == 0) return;
    snprintf(child->said, sizeof child->said, "%.*s", STR_ARG(line));
    if (!child->held_all && line.len < LINE_CAP && child->held_count < HELD_MAX) {
        memcpy(child->held[child->held_count++], child->said, LINE_CAP);
        return;
    }
    child->held_all = true;
    child_log_held(child);
    child_log_line(child, line);
}

/* True if a restart would not help. Exit code 2: invalid settings. 4: a port or directory is taken,
 * which may pass for a child that ran before. */
static bool child_is_hopeless(const struct dev_child *child, struct process_exit exit)
{
    return !exit.signalled && (exit.code == 2 || (exit.code == 4 && !child->settled));
}

static void child_on_exit(void *owner, struct process_exit exit)
{
    struct dev_child *child = owner;
    struct note note = {""};

    child->process = NULL;
    child->paused = false;
    child_log_held(child); /* why it ended */
    if (child->stopping) {
        child->options.on_ended(child->options.owner);
        return;
    }
    LOG_WARN(child->options.log, "child process ended: restarting it",
             log_text("process", child->name), log_i64("code", exit.code),
             log_bool("signalled", exit.signalled));
    if (child_is_hopeless(child, exit)) {
        note_set(&note, "%s did not start: %s", child->name, child->said);
        child->options.on_failed(child->options.owner, exit.code == 2 ? ERR_INVALID : ERR_BUSY,
                                 &note);
        return;
    }
    timer_start_in(&child->again, AGAIN_MS);
}

static enum err dev_child_start(struct dev_child *child, struct note *note)
{
    const char *environment[ENV_MAX];
    struct process_options options = {.argv = (const char *const *)child->argv,
                                      .env = environment,
                                      .die_with_parent = true,
                                      .on_line = child_on_line,
                                      .on_exit = child_on_exit,
                                      .owner = child};

    child_make_environment(environment);
    child->said[0] = '\0';
    return process_start(child->options.loop, &options, &child->process, note);
}

static void child_on_again(struct timer *timer)
{
    struct dev_child *child = CONTAINER_OF(timer, struct dev_child, again);
    struct note note = {""};
    enum err err = dev_child_start(child, &note);

    if (err) child->options.on_failed(child->options.owner, err, &note);
}

static enum err child_copy_words(struct dev_child *child, const char *const *argv)
{
    for (size_t i = 0; argv[i]; i++) {
        if (i == DEV_ARGS_MAX) return ERR_TOO_LARGE;
        child->argv[i] = str_dup(str_from(argv[i]));
        if (!child->argv[i]) return ERR_NOMEM;
    }
    return ERR_OK;
}

enum err dev_child_open(const struct dev_child_options *options, struct dev_child **ret_child,
                        struct note *note)
{
    struct dev_child *child = calloc(1, sizeof *child);
    enum err err = child ? child_copy_words(child, options->argv) : ERR_NOMEM;

    if (!child) return err;
    child->options = *options;
    snprintf(child->name, sizeof child->name, "%s", options->name);
    if (!err) err = timer_init(&child->again, options->loop, child_on_again);
    if (!err) err = dev_child_start(child, note);
    if (err) {
        note_prefix(note, "%s", options->name);
        dev_child_close(child);
        return err;
    }
    *ret_child = child;
    return ERR_OK;
}

void dev_child_stop(struct dev_child *child)
{
    child->stopping = true;
    timer_stop(&child->again);
    if (child->process) (void)process_signal(child->process, SIGTERM);
    dev_child_resume(child); /* a paused process receives SIGTERM only after SIGCONT */
}

void dev_child_kill(struct dev_child *child)
{
    if (child->process) (void)process_signal(child->process, SIGKILL);
}

bool dev_child_pause(struct dev_child *child)
{
    child->paused = child->process && process_signal(child->process, SIGSTOP) == ERR_OK;
    return child->paused;
}

void dev_child_resume(struct dev_child *child)
{
    if (child->paused && child->process) (void)process_signal(child->process, SIGCONT);
    child->paused = false;
}

void dev_child_settled(struct dev_child *child)
{
    child->settled = child->held_all = true;
    child_log_held(child);
}

int dev_child_pid(const struct dev_child *child)
{
    return child->process ? process_pid(child->process) : 0;
}

const char *dev_child_name(const struct dev_child *child)
{
    return child->name;
}

void dev_child_close(struct dev_child *child)
{
    if (!child) return;
    assert(!child->process);
    timer_deinit(&child->again);
    for (size_t i = 0; child->argv[i]; i++) free(child->argv[i]);
    free(child);
}
