/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the user's drain command for each reclaim, at most FILE_DRAINS_MAX at a time. Runs on the
 * loop's thread. */
#include <stdio.h>
#include <stdlib.h>

#include "io/environment.h"
#include "operator/file_internal.h"

enum { OUTPUT_LINE_MAX = 1024 };

enum drain_state { DRAIN_WAITS, DRAIN_RUNS, DRAIN_STOPS /* killed: the exit is not reported */ };
struct drain {
    struct list link;
    struct file_source *source;
    enum drain_state state;
    struct process *process;
    uint64_t grace_ms;
    int32_t preemptor_priority;
    mono_time since;
    char id[ID_MAX + 1], machine[ID_MAX + 1], provider_id[2 * ID_MAX + 100];
};

static void drain_drop(struct drain *d)
{
    list_remove(&d->link);
    free(d);
}

static void on_exit_of(void *owner, struct process_exit exit)
{
    struct drain *d = owner;
    struct file_source *f = d->source;
    char why[80] = "";

    if (exit.signalled)
        snprintf(why, sizeof why, "the drain command was ended by signal %d", exit.code);
    else if (exit.unknown || exit.code != 0)
        snprintf(why, sizeof why, "the drain command ended with status %d", exit.code);
    f->running--;
    if (d->state == DRAIN_RUNS)
        operator_reclaim_ended(f->around->host, str_from(d->id), str_from(why));
    drain_drop(d);
    loop_defer(f->io->loop, &f->drain_step); /* the next waiting drain can start */
}

static void on_line(void *owner, int fd, struct str line)
{
    struct drain *d = owner;

    LOG_INFO(d->source->around->log, "drain command printed a line",
             log_text("machine", d->machine), log_u64("fd", (uint64_t)fd), log_str("line", line));
}

static void drain_put_environment(const struct drain *d, const char *seconds,
                                  struct environment *env)
{
    char priority[16];

    snprintf(priority, sizeof priority, "%d", d->preemptor_priority);
    environment_put(env, "DRAIN_CLUSTER", d->source->around->cluster);
    environment_put(env, "DRAIN_MACHINE", str_from(d->machine));
    environment_put(env, "DRAIN_PROVIDER_ID", str_from(d->provider_id));
    environment_put(env, "DRAIN_INSTRUCTION", str_from(d->id));
    environment_put(env, "DRAIN_GRACE_SECONDS", str_from(seconds));
    environment_put(env, "DRAIN_PREEMPTOR_PRIORITY", str_from(priority));
}

static enum err drain_run_command(struct drain *d, struct note *note)
{
    char seconds[32];
    const char *argv[] = {d->source->drain_command, d->machine, seconds, NULL};
    struct environment env;
    struct process_options options = {
        .argv = argv,
        .output_line_max = OUTPUT_LINE_MAX,
        .die_with_parent = true,
        .own_group = true,
        .on_line = on_line,
        .on_exit = on_exit_of,
        .owner = d,
    };
    uint64_t passed;
    enum err err;

    passed = mono_elapsed_ms(d->since, loop_now(d->source->io->loop));
    snprintf(seconds, sizeof seconds, "%llu",
             (unsigned long long)((d->grace_ms - min_u64(passed, d->grace_ms)) / MS_PER_SECOND));
    environment_init(&env, "DRAIN_");
    drain_put_environment(d, seconds, &env);
    options.env = env.all;
    err = env.err;
    if (!err) err = process_start(d->source->io->loop, &options, &d->process, note);
    environment_deinit(&env);
    return err;
}

static void drain_begin(struct file_source *f, struct drain *d)
{
    struct note note = {""};
    enum err err;

    if (!f->drain_command) {
        operator_reclaim_started(f->around->host, str_from(d->id));
        operator_reclaim_ended(f->around->host, str_from(d->id), STR_EMPTY);
        drain_drop(d);
        return;
    }
    err = drain_run_command(d, &note);
    if (err) {
        operator_reclaim_ended(f->around->host, str_from(d->id),
                               str_from(note.text[0] ? note.text : err_text(err)));
        drain_drop(d);
        return;
    }
    f->running++;
    d->state = DRAIN_RUNS;
    operator_reclaim_started(f->around->host, str_from(d->id));
}

static void on_step(struct task *task)
{
    struct file_source *f = CONTAINER_OF(task, struct file_source, drain_step);

    LIST_EACH_SAFE(&f->drains, link, following)
    {
        struct drain *d = CONTAINER_OF(link, struct drain, link);
        if (f->running == FILE_DRAINS_MAX) return;
        if (d->state == DRAIN_WAITS) drain_begin(f, d);
    }
}

void file_reclaim(struct demand_source *source, const struct reclaim_order *order)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);
    struct drain *d = calloc(1, sizeof *d);

    if (!d) return; /* without memory: the drain fails at the end of its grace period */
    list_init(&d->link);
    d->source = f;
    d->grace_ms = order->grace_ms;
    d->preemptor_priority = order->preemptor_priority;
    d->since = loop_now(f->io->loop);
    snprintf(d->id, sizeof d->id, "%.*s", STR_ARG(order->instruction_id));
    snprintf(d->machine, sizeof d->machine, "%.*s", STR_ARG(order->machine_id));
    snprintf(d->provider_id, sizeof d->provider_id, "%.*s", STR_ARG(order->provider_id));
    list_append(&f->drains, &d->link);
    loop_defer(f->io->loop, &f->drain_step);
}

void file_reclaim_over(struct demand_source *source, struct str instruction_id)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);

    LIST_EACH_SAFE(&f->drains, link, following)
    {
        struct drain *d = CONTAINER_OF(link, struct drain, link);
        if (!str_equal(str_from(d->id), instruction_id)) continue;
        if (d->state == DRAIN_WAITS) {
            drain_drop(d);
        } else {
            d->state = DRAIN_STOPS;
            process_signal(d->process, SIGKILL); /* on_exit follows */
        }
    }
}

void file_drains_open(struct file_source *f)
{
    list_init(&f->drains);
    task_init(&f->drain_step, on_step);
}

void file_drains_close(struct file_source *f)
{
    task_cancel(&f->drain_step);
    LIST_EACH_SAFE(&f->drains, link, following)
    {
        struct drain *d = CONTAINER_OF(link, struct drain, link);
        if (d->process) process_abandon(d->process);
        drain_drop(d);
    }
}
