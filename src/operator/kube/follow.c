/* SPDX-License-Identifier: Apache-2.0 */
/* Lists objects page by page, then watches them. The worker's thread runs one call at a time; the
 * loop's thread processes the result and submits the next call. */
#include "operator/kube/follow.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/worker.h"

enum {
    PAGE = 500, /* objects per answer */
    BATCH = 256,
    CALL_MS = 10 * 1000, /* time limit of a page */
    WAIT_MS = 5 * 1000,  /* time to wait for a change */
    FOLLOW_PAUSE_FIRST_MS = 500,
    FOLLOW_PAUSE_MAX_MS = 30 * 1000,
};

struct follow {
    struct follow_options options;
    struct loop_worker *worker;
    struct job job;
    struct timer again;
    struct kube_watch *watch; /* NULL: a list is being read */
    char version[KUBE_VERSION_CAP];
    char *more; /* `continue` token; NULL: the first page */
    /* While the job runs, the worker's thread owns these fields. */
    struct kube_answer page;
    struct kube_event batch[BATCH];
    size_t batch_count;
    enum err err;
    struct note note;
    /* belongs to the loop */
    uint64_t pause_ms;
    bool listing, whole, closing;
};

/* -- on the worker's thread -- */

static void follow_fetch_changes(struct follow *s)
{
    s->err = kube_watch_next(s->watch, WAIT_MS, &s->batch[0], &s->note);
    while (!s->err) {
        if (++s->batch_count == BATCH) return;
        s->err = kube_watch_next(s->watch, 0, &s->batch[s->batch_count], &s->note);
    }
    if (s->err == ERR_TIMEOUT) s->err = ERR_OK;
}

static void follow_run(struct job *job)
{
    struct follow *s = CONTAINER_OF(job, struct follow, job);
    struct kube_list_options list = {.limit = PAGE, .continue_ = str_from(s->more)};

    if (s->watch)
        follow_fetch_changes(s);
    else
        s->err = kube_list(s->options.kube, &s->options.path, &list, CALL_MS, &s->page, &s->note);
}

/* -- on the loop's thread -- */

static void follow_fetch(struct follow *s)
{
    s->note.text[0] = '\0';
    if (worker_submit(s->worker, &s->job)) timer_start_in(&s->again, FOLLOW_PAUSE_FIRST_MS);
}

static void follow_on_again(struct timer *timer)
{
    follow_fetch(CONTAINER_OF(timer, struct follow, again));
}

static void follow_list_again(struct follow *s, const char *why)
{
    const struct follow_options *o = &s->options;

    LOG_WARN(o->log, "watch of the API server ended: listing all objects again",
             log_text("resource", o->path.resource), log_text("why", why), log_err("err", s->err),
             log_text("note", s->note.text));
    if (s->listing && o->events->give_up) o->events->give_up(o->owner);
    s->listing = s->whole = false;
    kube_watch_close(s->watch);
    s->watch = NULL;
    free(s->more);
    s->more = NULL;
    timer_start_in(&s->again, s->pause_ms);
    s->pause_ms = min_u64(s->pause_ms * 2, FOLLOW_PAUSE_MAX_MS);
}

static void follow_begin_watch(struct follow *s)
{
    const struct follow_options *o = &s->options;
    struct kube_watch_options watch = {.resource_version = s->version};

    s->err = kube_watch_open(o->kube, &o->path, &watch, &s->watch, &s->note);
    if (s->err) {
        follow_list_again(s, "the watch failed");
        return;
    }
    s->listing = false;
    s->whole = true;
    o->events->end(o->owner);
    follow_fetch(s);
}

static void follow_take_page(struct follow *s)
{
    const struct follow_options *o = &s->options;
    struct kube_list_head head = {.continue_ = STR_EMPTY};
    char *more = NULL;

    if (!s->err) s->err = kube_list_decode(s->page.object, &head, &s->note);
    if (!s->err) {
        if (!s->listing) o->events->begin(o->owner);
        s->listing = true;
        for (size_t i = 0; i < json_count(head.items); i++)
            o->events->seen(o->owner, json_item(head.items, i));
        (void)snprintf(s->version, sizeof s->version, "%s", head.resource_version);
        more = head.continue_.len ? str_dup(head.continue_) : NULL;
        if (head.continue_.len && !more) s->err = ERR_NOMEM;
    }
    kube_answer_deinit(&s->page);
    free(s->more);
    s->more = more;
    if (s->err)
        follow_list_again(s, "the list failed");
    else if (s->more)
        follow_fetch(s);
    else
        follow_begin_watch(s);
}

static void follow_take_changes(struct follow *s)
{
    const struct follow_options *o = &s->options;

    for (size_t i = 0; i < s->batch_count; i++) {
        if (s->batch[i].kind == KUBE_DELETED)
            o->events->gone(o->owner, s->batch[i].object);
        else if (s->batch[i].kind < KUBE_BOOKMARK)
            o->events->seen(o->owner, s->batch[i].object);
        kube_event_deinit(&s->batch[i]);
    }
    /* the watch works */
    if (s->batch_count) s->pause_ms = FOLLOW_PAUSE_FIRST_MS;
    s->batch_count = 0;
    if (s->err)
        follow_list_again(s, "the watch failed");
    else
        follow_fetch(s);
}

static void on_follow_run(struct job *job, enum err err)
{
    struct follow *s = CONTAINER_OF(job, struct follow, job);

    if (s->closing || err) return;
    if (s->watch)
        follow_take_changes(s);
    else
        follow_take_page(s);
}

enum err follow_open(const struct follow_options *options, struct follow **ret_follow)
{
    struct worker_options worker = {.name = options->thread_name, .jobs_max = 1};
    struct follow *s = calloc(1, sizeof *s);
    enum err err = s ? timer_init(&s->again, options->io->loop, follow_on_again) : ERR_NOMEM;

    if (!err) err = worker_open(options->io->loop, &worker, &s->worker);
    if (err) {
        if (s) timer_deinit(&s->again);
        free(s);
        return err;
    }
    s->options = *options;
    s->pause_ms = FOLLOW_PAUSE_FIRST_MS;
    job_init(&s->job, follow_run, on_follow_run);
    follow_fetch(s);
    *ret_follow = s;
    return ERR_OK;
}

void follow_close(struct follow *s)
{
    if (!s) return;
    s->closing = true;
    if (s->watch) kube_watch_cancel(s->watch);
    worker_close(s->worker);
    for (size_t i = 0; i < s->batch_count; i++) kube_event_deinit(&s->batch[i]);
    kube_answer_deinit(&s->page);
    kube_watch_close(s->watch);
    timer_deinit(&s->again);
    free(s->more);
    free(s);
}

bool follow_whole(const struct follow *s, struct note *reason)
{
    if (s->whole) return true;
    note_set(reason, "%s are not known yet%s%s", s->options.path.resource,
             s->note.text[0] ? ": " : "", s->note.text);
    return false;
}
