/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/resolve.h"
#include "io/worker.h"

static_assert((int)RESOLVE_MAX <= (int)TARGETS_MAX, "every address of a name is a target");

struct targets {
    struct loop *loop;
    struct worker *worker; /* NULL: nothing is looked up */
    char addresses[TARGETS_MAX][TARGET_CAP];
    size_t count;
    char host[TARGET_CAP]; /* of the one name */
    const char *list[TARGETS_MAX + 1];
    struct resolved resolved; /* the job's while it runs */
    struct job job;
    struct task task;
    targets_fn *done;
    void *owner;
    bool closing;
};

static void tell(struct targets *t, const char *tls_name)
{
    targets_fn *done = t->done;

    t->done = NULL;
    done(t->owner, t->list, tls_name);
}

static void on_task(struct task *task)
{
    struct targets *t = CONTAINER_OF(task, struct targets, task);

    for (size_t i = 0; i < t->count; i++) t->list[i] = t->addresses[i];
    t->list[t->count] = NULL;
    tell(t, NULL);
}

static void run_lookup(struct job *job)
{
    struct targets *t = CONTAINER_OF(job, struct targets, job);

    t->resolved.count = 0;
    (void)address_resolve(t->addresses[0], &t->resolved, NULL); /* none: asked again later */
}

static void lookup_done(struct job *job, enum err err)
{
    struct targets *t = CONTAINER_OF(job, struct targets, job);

    if (t->closing) return;
    if (err) t->resolved.count = 0;
    for (size_t i = 0; i < t->resolved.count; i++) t->list[i] = t->resolved.at[i];
    t->list[t->resolved.count] = NULL;
    tell(t, t->host);
}

void targets_find(struct targets *targets, targets_fn *done, void *owner)
{
    assert(!targets->done);
    targets->done = done;
    targets->owner = owner;
    job_init(&targets->job, run_lookup, lookup_done);
    if (!targets->worker || worker_submit(targets->worker, &targets->job))
        loop_defer(targets->loop, &targets->task);
}

static enum err take_addresses(struct targets *t, const struct targets_options *options,
                               struct note *note)
{
    size_t given = 0;

    while (options->addresses && options->addresses[given]) given++;
    for (size_t i = 0; i < given; i++) {
        const char *address = options->addresses[i];
        if (given > 1 && options->self && strcmp(address, options->self) == 0) continue;
        if (t->count == TARGETS_MAX || strlen(address) >= TARGET_CAP) {
            note_set(note, "at most %d join addresses of %d bytes", TARGETS_MAX, TARGET_CAP - 1);
            return ERR_TOO_LARGE;
        }
        snprintf(t->addresses[t->count++], TARGET_CAP, "%s", address);
    }
    return ERR_OK;
}

enum err targets_open(const struct targets_options *options, struct targets **ret_targets,
                      struct note *note)
{
    struct worker_options worker = {.name = "names", .jobs_max = 1};
    struct targets *t = calloc(1, sizeof *t);
    struct address_parts parts;
    enum err err;

    if (!t) return ERR_NOMEM;
    t->loop = options->io->loop;
    task_init(&t->task, on_task);
    err = take_addresses(t, options, note);
    if (!err && t->count == 1 && options->look_up) {
        err = address_split(t->addresses[0], &parts, note);
        if (!err) snprintf(t->host, sizeof t->host, "%.*s", STR_ARG(parts.host));
        if (!err && !parts.is_unix) err = worker_open(t->loop, &worker, &t->worker);
    }
    if (err)
        targets_close(t);
    else
        *ret_targets = t;
    return err;
}

void targets_close(struct targets *targets)
{
    if (!targets) return;
    targets->closing = true;
    task_cancel(&targets->task);
    worker_close(targets->worker);
    free(targets);
}

size_t targets_count(const struct targets *targets)
{
    return targets->count;
}
