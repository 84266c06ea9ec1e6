/* SPDX-License-Identifier: Apache-2.0 */
/* All on the loop's thread. A round is over when every channel it opened is closed. */
#include "fleet/survey.h"

#include <stdlib.h>

enum { REQUEST_MAX = 4096, ANSWER_ARENA_MAX = 1 << 20 };

struct question { /* to one address */
    struct survey *survey;
    struct rpc_channel *channel;
    bool closing;
};
struct survey {
    struct survey_options options;
    struct targets *targets;
    struct question questions[TARGETS_MAX];
    size_t count, open;
    struct buf request;
    bool finding; /* the addresses are being looked up */
    bool closing;
    void (*closed)(void *owner);
    void *closed_owner;
};

static void survey_free(struct survey *s)
{
    if (s->open > 0) return;
    targets_close(s->targets);
    buf_deinit(&s->request);
    if (s->closed) s->closed(s->closed_owner);
    free(s);
}

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

static void on_answer(void *owner, const struct rpc_client_call *call,
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

static void ask(struct survey *s, const char *const *addresses, const char *tls_name)
{
    bool to_leader = s->options.to_leader;
    struct question *question = &s->questions[s->count];
    struct rpc_channel_options channel = {.io = s->options.io,
                                          .addresses = addresses,
                                          .tls = s->options.tls,
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
    if (rpc_channel_open(&channel, &question->channel, NULL)) return; /* counts as silent */
    s->open++;
    if (rpc_unary(question->channel, &call, buf_peek(&s->request), on_answer, question, NULL))
        question_close(question);
}

static void on_targets(void *owner, const char *const *list, const char *tls_name)
{
    struct survey *s = owner;

    s->finding = false;
    s->count = 0;
    if (s->options.to_leader && list[0]) ask(s, list, tls_name);
    for (size_t i = 0; !s->options.to_leader && list[i] && i < TARGETS_MAX; i++)
        ask(s, (const char *const[]){list[i], NULL}, tls_name);
    if (s->open == 0) s->options.over(s->options.owner, s->count);
}

enum err survey_begin(struct survey *survey, struct str request)
{
    enum err err;

    assert(!survey->finding && survey->open == 0 && !survey->closing);
    buf_clear(&survey->request);
    err = buf_append(&survey->request, request);
    if (err) return err;
    survey->finding = true;
    targets_find(survey->targets, on_targets, survey);
    return ERR_OK;
}

enum err survey_open(const struct survey_options *options, struct survey **ret_survey,
                     struct note *note)
{
    struct targets_options targets = {.io = options->io,
                                      .addresses = options->addresses,
                                      .self = options->self,
                                      .look_up = options->look_up};
    struct survey *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->options = *options;
    buf_init(&s->request, REQUEST_MAX);
    err = targets_open(&targets, &s->targets, note);
    if (err) {
        survey_free(s);
        return err;
    }
    *ret_survey = s;
    return ERR_OK;
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
    targets_close(survey->targets); /* a lookup that runs is not answered any more */
    survey->targets = NULL;
    for (size_t i = 0; i < survey->count; i++) question_close(&survey->questions[i]);
    survey_free(survey);
}
