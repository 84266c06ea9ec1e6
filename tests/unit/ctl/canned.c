/* SPDX-License-Identifier: Apache-2.0 */
#include "canned.h"

#include <stdio.h>

#include "wire/json/message_json.h"

enum { ANSWERS_MAX = 32, ASKED_CAP = 4096, PRINTED_MAX = 1 << 20 };

static struct {
    const char *path;
    const ProtobufCMessage *answer; /* NULL: it fails */
    enum err err;
    const char *why;
    bool used;
} answers[ANSWERS_MAX];
static size_t answer_count;
static struct {
    const char *path;
    char request[ASKED_CAP];
} asked[ANSWERS_MAX];
static char warned[ASKED_CAP];
static int at_nobody; /* only compared with NULL */

/* Every option that a command of src/ctl reads. */
static const char *const outputs[] = {"ANY", "ACTIVE", "DEAD", NULL};
static const struct option options[] = {
    {.name = "coordinator", .kind = OPTION_LIST, .fallback = "c1:7790", .help = "x"},
    {.name = "timeout", .kind = OPTION_DURATION, .fallback = "1s", .help = "x"},
    {.name = "json", .kind = OPTION_BOOL, .fallback = "false", .help = "x"},
    {.name = "once", .kind = OPTION_BOOL, .fallback = "true", .help = "x"},
    {.name = "force", .kind = OPTION_BOOL, .fallback = "false", .help = "x"},
    {.name = "key", .kind = OPTION_STRING, .help = "x"},
    {.name = "priority", .kind = OPTION_STRING, .help = "x"},
    {.name = "number", .kind = OPTION_U64, .help = "x"},
    {.name = "standing", .kind = OPTION_ENUM, .choices = outputs, .fallback = "ANY", .help = "x"},
    {.name = "shards", .kind = OPTION_LIST, .help = "x"},
    {.name = "shard", .kind = OPTION_STRING, .help = "x"},
    {.name = "cluster", .kind = OPTION_STRING, .help = "x"},
    {.name = "limit", .kind = OPTION_U64, .fallback = "0", .help = "x"},
    {.name = "prefix", .kind = OPTION_STRING, .fallback = "", .help = "x"},
    {.name = "leased", .kind = OPTION_BOOL, .fallback = "false", .help = "x"},
    {.name = "replace", .kind = OPTION_BOOL, .fallback = "false", .help = "x"},
    {.name = "data-dir", .kind = OPTION_LIST, .help = "x"},
    {.name = "tls.cert-file", .kind = OPTION_STRING, .help = "x"},
    {.name = "tls.key-file", .kind = OPTION_STRING, .help = "x"},
    {.name = "tls.ca-file", .kind = OPTION_STRING, .help = "x"},
};
static const struct command program = {.name = "canned"};
static const struct command_call canned_call = {.path = {&program}, .depth = 1};
static const struct option_table table = {options, ARRAY_LEN(options)};

static int canned_print(struct str text)
{
    (void)text;
    return 0;
}

static void canned_warn(const struct command_call *call, struct str lines)
{
    (void)call;
    snprintf(warned, sizeof warned, "%.*s", STR_ARG(lines));
}

void canned_open(struct canned *canned, const char *const *words)
{
    size_t count = 0;

    answer_count = 0;
    memset(asked, 0, sizeof asked);
    warned[0] = '\0';
    *canned =
        (struct canned){.ctl = {.call = &canned_call, .print = canned_print, .warn = canned_warn}};
    while (words[count]) count++;
    CHECK_OK("options", conf_open(&table, &canned->conf));
    CHECK_OK("flags", conf_add_flags(canned->conf, count, words));
    CHECK_OK("all of it", conf_finish(canned->conf));
    ctl_init(&canned->ctl);
    canned->ctl.conf = canned->conf;
    canned->ctl.json = conf_bool(canned->conf, "json");
    canned->ctl.remote = (struct remote *)&at_nobody;
}

void canned_close(struct canned *canned)
{
    ctl_deinit(&canned->ctl);
    conf_close(canned->conf);
}

void canned_answer(const char *path, const ProtobufCMessage *answer)
{
    CHECK("room for an answer", answer_count < ANSWERS_MAX);
    answers[answer_count].path = path;
    answers[answer_count].answer = answer;
    answers[answer_count].err = ERR_OK;
    answers[answer_count++].used = false;
}

void canned_failure(const char *path, enum err err, const char *why)
{
    canned_answer(path, NULL);
    answers[answer_count - 1].err = err;
    answers[answer_count - 1].why = why;
}

const char *canned_asked(const char *path)
{
    for (size_t i = 0; i < ANSWERS_MAX && asked[i].path; i++)
        if (strcmp(asked[i].path, path) == 0) return asked[i].request;
    return "";
}

const char *canned_printed(struct canned *canned)
{
    CHECK_OK("printed", canned->ctl.print_err);
    CHECK_OK("an end", buf_append_byte(&canned->ctl.out, '\0'));
    return canned->ctl.out.data;
}

const char *canned_warned(void)
{
    return warned;
}

/* -- replaces ctl/remote.c -- */

static void note_asked(const char *path, const ProtobufCMessage *request)
{
    struct ndjson json;
    struct buf text;
    size_t at = 0;

    while (asked[at].path && strcmp(asked[at].path, path) != 0) at++;
    CHECK("room for a question", at < ANSWERS_MAX - 1);
    asked[at].path = path;
    buf_init(&text, ASKED_CAP);
    ndjson_begin(&json, &text, NDJSON_LINE);
    if (request) message_json_fields(&json, request);
    CHECK_OK("as JSON", ndjson_end(&json));
    snprintf(asked[at].request, ASKED_CAP, "%.*s", (int)text.len - 1, text.data);
    buf_deinit(&text);
}

/* The first answer that was not given yet, or the last one again. */
static size_t canned_find(const char *path)
{
    size_t last = ANSWERS_MAX;

    for (size_t i = 0; i < answer_count; i++) {
        if (strcmp(answers[i].path, path) != 0) continue;
        last = i;
        if (!answers[i].used) break;
    }
    return last;
}

enum err remote_call(struct remote *remote, const struct remote_method *method,
                     const ProtobufCMessage *request, struct arena *arena,
                     ProtobufCMessage **ret_answer, struct note *note)
{
    size_t at = canned_find(method->path);

    (void)arena;
    CHECK("there is an answer", remote != NULL);
    note_asked(method->path, request);
    if (at == ANSWERS_MAX) {
        note_set(note, "nobody answers %s", method->path);
        return ERR_UNSUPPORTED;
    }
    answers[at].used = true;
    if (!answers[at].answer) {
        note_set(note, "%s", answers[at].why);
        return answers[at].err;
    }
    CHECK("of its type", answers[at].answer->descriptor == method->answer);
    *ret_answer = (ProtobufCMessage *)(uintptr_t)answers[at].answer;
    return ERR_OK;
}

/* Each answer of the path is one message of the stream. */
enum err remote_stream(struct remote *remote, const struct remote_method *method,
                       const ProtobufCMessage *request, remote_message_fn *each, void *owner,
                       struct note *note)
{
    enum err err = ERR_OK;

    CHECK("there is an answer", remote != NULL);
    note_asked(method->path, request);
    for (size_t i = 0; i < answer_count && !err; i++)
        if (strcmp(answers[i].path, method->path) == 0) err = each(owner, answers[i].answer, note);
    return err;
}

static enum err canned_remote(struct remote **ret_remote)
{
    *ret_remote = (struct remote *)&at_nobody;
    return ERR_OK;
}

enum err remote_open(const struct conf *conf, const char *request_id, struct remote **ret_remote,
                     struct note *note)
{
    (void)conf, (void)request_id, (void)note;
    return canned_remote(ret_remote);
}

enum err remote_open_at(const struct conf *conf, enum remote_callee callee, const char *address,
                        size_t among, struct remote **ret_remote, struct note *note)
{
    (void)conf, (void)callee, (void)address, (void)among, (void)note;
    return canned_remote(ret_remote);
}

uint64_t remote_dial_ms(const struct conf *conf, size_t among)
{
    (void)conf, (void)among;
    return 1;
}

enum err remote_tls_open(const struct conf *conf, struct tls_context **ret_tls, struct note *note)
{
    (void)conf, (void)note;
    *ret_tls = NULL;
    return ERR_OK;
}

void remote_close(struct remote *remote)
{
    (void)remote;
}

const char *remote_request_id(const struct remote *remote)
{
    (void)remote;
    return "id-1";
}
