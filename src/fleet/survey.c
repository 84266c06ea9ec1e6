/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on the loop's thread, except name resolution. A round ends when its channels are closed. */
#include "fleet/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/resolve.h"
#include "io/worker.h"

enum { REQUEST_MAX = 4096, ANSWER_ARENA_MAX = 1 << 20 };
static_assert((int)RESOLVE_MAX <= (int)SURVEY_ADDRESSES_MAX, "every address of a name is asked");

struct question { /* a query to one join address, or to the leader */
    struct survey *survey;
    struct rpc_channel *channel;
    bool closing;
};
struct survey {
    struct survey_options options;
    char addresses[SURVEY_ADDRESSES_MAX][SURVEY_ADDRESS_CAP]; /* join addresses as configured */
    size_t address_count;
    char host[SURVEY_ADDRESS_CAP]; /* the name that is resolved */
    struct loop_worker *worker;    /* resolves the join address; NULL: no name is resolved */
    struct job job;
    struct resolved resolved; /* used by the job while it runs */
    struct task task;         /* begins a round if no name is resolved */
    struct question questions[SURVEY_ADDRESSES_MAX];
    size_t count, open;
    struct buf request;
    bool beginning; /* the task or the job has not run yet */
    bool closing;
    void (*closed)(void *owner);
    void *closed_owner;
};

static void survey_free(struct survey *s)
{
    if (s->open > 0) return;
    buf_deinit(&s->request);
    if (s->closed) s->closed(s->closed_owner);
    free(s);
}

/* -- queries -- */

static void question_closed(void *owner)
{
    struct question *question = owner;
    struct survey *s = question->survey;

    question->channel = NULL;
    s->open--;
    if (s->closing)
        survey_free(s);
    else if (s->open == 0)
        s->options.over(s->options.owner, s->count);
}

static void question_close(struct question *question)
{
    if (!question->channel || question->closing) return;
    question->closing = true;
    rpc_channel_close(question->channel, question_closed, question);
}

static void survey_on_answer(void *owner, const struct rpc_client_call *call,
                             const struct rpc_outcome *outcome, struct str bytes)
{
    struct question *question = owner;
    struct survey *s = question->survey;
    ProtobufCMessage *message = NULL;
    struct arena arena;

    arena_init(&arena, ANSWER_ARENA_MAX);
    if (outcome->err || message_read(s->options.answer, bytes, NULL, &arena, &message, NULL))
        message = NULL;
    if (!s->closing)
        s->options.answered(s->options.owner, (size_t)(question - s->questions), call, outcome,
                            message);
    arena_deinit(&arena);
    question_close(question);
}

static void survey_ask(struct survey *s, const char *const *addresses, const char *tls_name)
{
    bool to_leader = s->options.to_leader;
    struct question *question = &s->questions[s->count];
    struct rpc_channel_options channel = {.io = s->options.to.io,
                                          .addresses = addresses,
                                          .tls = s->options.to.tls,
                                          .tls_name = tls_name,
                                          .follow_leader = to_leader,
                                          .dial_timeout_ms = to_leader ? 0 : s->options.timeout_ms};
    struct rpc_call_options call = {.path = s->options.path,
                                    .timeout_ms = s->options.timeout_ms,
                                    .idempotent = true,
                                    .attempts_max = to_leader ? 0 : 1};

    *question = (struct question){.survey = s};
    if (s->options.asked) s->options.asked(s->options.owner, s->count, addresses[0]);
    s->count++;
    if (rpc_channel_open(&channel, &question->channel, NULL)) return; /* no answer */
    s->open++;
    if (rpc_unary(question->channel, &call, buf_peek(&s->request), survey_on_answer, question,
                  NULL))
        question_close(question);
}

/* -- rounds -- */

/* TLS verifies tls_name, or if NULL the address. */
static void survey_ask_all(struct survey *s, const char *const *list, size_t count,
                           const char *tls_name)
{
    s->beginning = false;
    s->count = 0;
    if (s->options.to_leader && count) survey_ask(s, list, tls_name);
    for (size_t i = 0; !s->options.to_leader && i < count; i++)
        survey_ask(s, (const char *const[]){list[i], NULL}, tls_name);
    if (s->open == 0) s->options.over(s->options.owner, s->count);
}

static void survey_ask_given(struct task *task)
{
    struct survey *s = CONTAINER_OF(task, struct survey, task);
    const char *list[SURVEY_ADDRESSES_MAX + 1] = {NULL};

    for (size_t i = 0; i < s->address_count; i++) list[i] = s->addresses[i];
    survey_ask_all(s, list, s->address_count, NULL);
}

static void survey_look_up(struct job *job)
{
    struct survey *s = CONTAINER_OF(job, struct survey, job);

    s->resolved.count = 0;
    /* if no address was found, the next round tries again */
    (void)address_resolve(s->addresses[0], &s->resolved, NULL);
}

static void survey_looked_up(struct job *job, enum err err)
{
    struct survey *s = CONTAINER_OF(job, struct survey, job);
    const char *list[SURVEY_ADDRESSES_MAX + 1] = {NULL};

    if (s->closing) return;
    if (err) s->resolved.count = 0;
    for (size_t i = 0; i < s->resolved.count; i++) list[i] = s->resolved.at[i];
    survey_ask_all(s, list, s->resolved.count, s->host);
}

enum err survey_begin(struct survey *survey, const ProtobufCMessage *request)
{
    enum err err;

    assert(!survey->beginning && survey->open == 0 && !survey->closing);
    buf_clear(&survey->request);
    err = message_write(request, &survey->request, NULL);
    if (err) return err;
    survey->beginning = true;
    job_init(&survey->job, survey_look_up, survey_looked_up);
    if (!survey->worker || worker_submit(survey->worker, &survey->job))
        loop_defer(survey->options.to.io->loop, &survey->task);
    return ERR_OK;
}

/* -- life -- */

static enum err survey_take_addresses(struct survey *s, const struct survey_options *options,
                                      struct note *note)
{
    size_t given = 0;

    while (options->to.addresses && options->to.addresses[given]) given++;
    for (size_t i = 0; i < given; i++) {
        const char *address = options->to.addresses[i];
        if (given > 1 && options->to.self && strcmp(address, options->to.self) == 0) continue;
        if (s->address_count == SURVEY_ADDRESSES_MAX || strlen(address) >= SURVEY_ADDRESS_CAP)
            return note_fail(note, ERR_TOO_LARGE, "at most %d join addresses of %d bytes",
                             SURVEY_ADDRESSES_MAX, SURVEY_ADDRESS_CAP - 1);
        snprintf(s->addresses[s->address_count++], SURVEY_ADDRESS_CAP, "%s", address);
    }
    return ERR_OK;
}

static enum err survey_open_worker(struct survey *s, struct note *note)
{
    struct worker_options worker = {.name = "names", .jobs_max = 1};
    struct address_parts parts;
    enum err err = address_split(s->addresses[0], &parts, note);

    if (err || parts.is_unix) return err;
    snprintf(s->host, sizeof s->host, "%.*s", STR_ARG(parts.host));
    return worker_open(s->options.to.io->loop, &worker, &s->worker);
}

enum err survey_open(const struct survey_options *options, struct survey **ret_survey,
                     struct note *note)
{
    struct survey *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->options = *options;
    buf_init(&s->request, REQUEST_MAX);
    task_init(&s->task, survey_ask_given);
    err = survey_take_addresses(s, options, note);
    if (!err && s->address_count == 1 && options->to.look_up) err = survey_open_worker(s, note);
    if (err)
        survey_free(s);
    else
        *ret_survey = s;
    return err;
}

void survey_close(struct survey *survey, void (*closed)(void *owner), void *owner)
{
    if (!survey) {
        if (closed) closed(owner);
        return;
    }
    survey->closing = true;
    survey->closed = closed;
    survey->closed_owner = owner;
    task_cancel(&survey->task);
    worker_close(survey->worker); /* discards the result of a running job */
    for (size_t i = 0; i < survey->count; i++) question_close(&survey->questions[i]);
    survey_free(survey);
}
