/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the script for each operation, and periodically for the list of machines. At most
 * `running_max` scripts run at a time; other operations wait in order. Runs on the loop's
 * thread. */
#include "provider/host/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "conf/printable.h"
#include "io/environment.h"
#include "provider/host/script.h"
#include "text/base64.h"
#include "text/json_fields.h"

enum {
    RUNNING_MAX = 16,
    TIMEOUT_MS = 10 * 60 * 1000,
    LIST_EVERY_MS = 30 * 1000,
    COMMAND_ANSWER_MAX = 1 << 20,
    COMMAND_LIST_MAX = 64 << 20,
    TASK_MAX = 64 << 20, /* bytes; a blob in base64 must fit */
    HOST_MAX = 253,
    WORDS_MAX = 4096, /* bytes; an error text with every byte escaped must fit */
    SHOWN_MAX = 80,
};

struct operation_run {
    struct list link;
    struct command *command;
    struct operation_ticket ticket;
    enum operation_kind kind;
    uint64_t timeout_ms;
    struct buf task;
    struct environment env; /* the task as environment variables */
    struct script *script;
};
struct command {
    struct backend backend;
    struct io *io;
    struct log_source log;
    char *program;
    uint32_t running_max, running_count;
    uint64_t timeout_ms, list_every_ms;
    struct list waiting, running;
    struct task work; /* starts waiting operations */
    struct timer again;
    struct script *listing;
};

static struct command *command_of(struct backend *backend)
{
    return CONTAINER_OF(backend, struct command, backend);
}

static void run_free(struct operation_run *r)
{
    buf_deinit(&r->task);
    environment_deinit(&r->env);
    free(r);
}

/* --- encoding the task of a script --- */

static void task_put_pairs(struct ndjson *json, struct str key, const struct label *pairs,
                           size_t count)
{
    ndjson_open_object(json, key);
    for (size_t i = 0; i < count; i++) ndjson_string(json, pairs[i].key, pairs[i].value);
    ndjson_close_object(json);
}

static void task_put_machine(struct ndjson *json, const struct backend_machine *machine)
{
    const struct offer *offer = machine->offer;
    char name[MACHINE_NAME_CAP];

    ndjson_open_object(json, STR("machine"));
    ndjson_string(json, STR("id"), machine->id);
    ndjson_string(json, STR("host"), machine->host);
    ndjson_string(json, STR("cluster"), machine->cluster);
    ndjson_string(json, STR("instance_type"), offer->instance_type);
    ndjson_string(json, STR("zone"), offer->zone);
    ndjson_c_string(json, STR("capacity_type"), capacity_type_name(offer->capacity_type, name));
    task_put_pairs(json, STR("resources"), offer->resources, offer->resource_count);
    task_put_pairs(json, STR("labels"), offer->labels, offer->label_count);
    ndjson_close_object(json);
}

static enum err task_write(const struct backend_operation *operation, struct buf *into)
{
    struct ndjson json;
    struct buf blob;
    enum err err;

    buf_init(&blob, TASK_MAX);
    err = base64_encode(operation->blob, &blob);
    ndjson_begin(&json, into, NDJSON_LINE);
    ndjson_c_string(&json, STR("operation"), operation_kind_name(operation->kind));
    ndjson_u64(&json, STR("number"), operation->ticket.number);
    ndjson_bool(&json, STR("again"), operation->again);
    task_put_machine(&json, &operation->machine);
    if (operation->kind == OPERATION_CONFIGURE) {
        ndjson_string(&json, STR("blob_base64"), buf_peek(&blob));
        task_put_pairs(&json, STR("metadata"), operation->metadata, operation->metadata_count);
    }
    if (operation->kind == OPERATION_DRAIN)
        ndjson_double(&json, STR("grace_seconds"), (double)operation->grace_ms / 1000);
    enum err written = ndjson_end(&json);
    buf_deinit(&blob);
    return err ? err : written;
}

static void task_put_environment(const struct backend_operation *operation, struct environment *env)
{
    const struct backend_machine *machine = &operation->machine;
    char grace[24];

    snprintf(grace, sizeof grace, "%" PRIu64, operation->grace_ms / 1000);
    environment_put(env, "MUSTER_OPERATION", str_from(operation_kind_name(operation->kind)));
    environment_put(env, "MUSTER_AGAIN", str_from(operation->again ? "1" : ""));
    environment_put(env, "MUSTER_MACHINE_ID", machine->id);
    environment_put(env, "MUSTER_MACHINE_HOST", machine->host);
    environment_put(env, "MUSTER_MACHINE_TYPE", machine->offer->instance_type);
    environment_put(env, "MUSTER_ZONE", machine->offer->zone);
    environment_put(env, "MUSTER_CLUSTER", machine->cluster);
    environment_put(env, "MUSTER_GRACE_SECONDS", str_from(grace));
}

/* --- decoding the answer of a script --- */

/* Parses a script's output as an object. *ret_json is NULL if the script printed nothing. */
static enum err answer_read(struct str output, size_t max, struct json **ret_json,
                            struct note *note)
{
    struct str text = str_trim(output);
    struct json *json;
    enum err err;

    *ret_json = NULL;
    if (text.len == 0) return ERR_OK;
    err = json_open(text, max, &json, note);
    if (!err && json_kind(json) != JSON_KIND_OBJECT) {
        json_close(json);
        note_set(note, "no object");
        err = ERR_INVALID;
    }
    if (err) {
        note_prefix(note, "printed what is no JSON object ('%.*s')",
                    (int)min_size(text.len, SHOWN_MAX), text.at);
        return err;
    }
    *ret_json = json;
    return ERR_OK;
}

/* An error in the script's answer overrides its exit status. */
static void answer_judge(const struct operation_run *r, const struct script_end *end,
                         const struct json *answer, struct note *error,
                         struct operation_end *ret_end)
{
    struct str text = STR_EMPTY;

    if (answer && json_get_string(answer, "error", &text, NULL) == ERR_OK && text.len > 0)
        note_set(error, "%.*s", (int)min_size(text.len, NOTE_CAP), text.at);
    else if (end->error.text[0])
        *error = end->error;
    text = STR_EMPTY;
    if (!error->text[0] && answer && json_find(answer, "host") &&
        (json_get_string(answer, "host", &text, error) || text.len > HOST_MAX ||
         !str_is_utf8(text)) &&
        !error->text[0])
        note_set(error, "field 'host': more than %d bytes, or no text", HOST_MAX);
    if (error->text[0]) {
        note_prefix(error, "%s", operation_kind_name(r->kind));
        *ret_end = (struct operation_end){.failed = true, .error = str_from(error->text)};
    } else {
        *ret_end = (struct operation_end){.host = text};
    }
}

static void run_report(struct operation_run *r, const struct script_end *end)
{
    struct command *c = r->command;
    struct note error = {""};
    struct operation_end reported;
    struct json *answer = NULL;
    struct buf words;

    if (answer_read(end->output, COMMAND_ANSWER_MAX, &answer, &error) && end->error.text[0])
        error = end->error; /* the exit status explains more than the output */
    answer_judge(r, end, answer, &error, &reported);
    buf_init(&words, WORDS_MAX);
    /* a script may print any bytes */
    if (reported.failed && printable_append(reported.error, &words) == ERR_OK)
        reported.error = buf_peek(&words);
    c->backend.host->done(c->backend.host, r->ticket, &reported);
    buf_deinit(&words);
    json_close(answer);
}

/* --- running scripts --- */

static void on_run_done(void *owner, const struct script_end *end)
{
    struct operation_run *r = owner;
    struct command *c = r->command;

    list_remove(&r->link);
    c->running_count--;
    run_report(r, end);
    run_free(r);
    loop_defer(c->io->loop, &c->work);
}

static enum err run_start(struct operation_run *r, struct note *note)
{
    struct command *c = r->command;
    const struct script_options options = {
        .loop = c->io->loop,
        .program = c->program,
        .argument = operation_kind_name(r->kind),
        .input = buf_peek(&r->task),
        .env = r->env.all,
        .timeout_ms = r->timeout_ms,
        .output_max = COMMAND_ANSWER_MAX,
        .done = on_run_done,
        .owner = r,
    };
    enum err err = script_start(&options, &r->script, note);

    buf_deinit(&r->task);
    if (err && !note->text[0]) note_set(note, "start %s: %s", c->program, err_text(err));
    return err;
}

/* Starts waiting operations up to `running_max`. An operation that cannot be started fails. */
static void command_work(struct task *task)
{
    struct command *c = CONTAINER_OF(task, struct command, work);
    struct list *node;

    while (c->running_count < c->running_max && (node = list_pop(&c->waiting)) != NULL) {
        struct operation_run *r = CONTAINER_OF(node, struct operation_run, link);
        struct script_end end = {.error = {""}, .output = STR_EMPTY};

        if (run_start(r, &end.error)) {
            run_report(r, &end);
            run_free(r);
        } else {
            list_append(&c->running, &r->link);
            c->running_count++;
        }
    }
}

static enum err command_start(struct backend *backend, const struct backend_operation *operation,
                              struct note *)
{
    struct command *c = command_of(backend);
    struct operation_run *r = calloc(1, sizeof *r);
    enum err err;

    if (!r) return ERR_NOMEM;
    r->command = c;
    r->ticket = operation->ticket;
    r->kind = operation->kind;
    r->timeout_ms = c->timeout_ms;
    if (operation->kind == OPERATION_DRAIN) r->timeout_ms += operation->grace_ms;
    buf_init(&r->task, TASK_MAX);
    list_init(&r->link);
    environment_init(&r->env, "MUSTER_");
    task_put_environment(operation, &r->env);
    err = r->env.err;
    if (!err) err = task_write(operation, &r->task);
    if (err) {
        run_free(r);
        return err;
    }
    list_append(&c->waiting, &r->link);
    loop_defer(c->io->loop, &c->work);
    return ERR_OK;
}

static enum err command_check(struct backend *, enum operation_kind kind,
                              const struct backend_machine *machine, struct note *note)
{
    if (kind != OPERATION_DELETE || machine->offer->capacity_type != CAPACITY_BARE_METAL)
        return ERR_OK;
    return note_fail(note, ERR_UNSUPPORTED, "bare metal stays");
}

/* --- the list of machines --- */

struct seen {
    struct str id, failed;
    bool lost;
    struct offer offer;
};
static const char *const command_capacities[] = {"",         "BareMetal", "Reserved",
                                                 "OnDemand", "Spot",      NULL};
static_assert(CAPACITY_BARE_METAL == 1 && CAPACITY_RESERVED == 2 && CAPACITY_ON_DEMAND == 3 &&
                  CAPACITY_SPOT == 4,
              "places in the list");
static const struct json_field seen_fields[] = {
    {"id", JSON_AS_TEXT, JSON_MEMBER(struct seen, id), .needed = true},
    {"failed", JSON_AS_TEXT, JSON_MEMBER(struct seen, failed)},
    {"lost", JSON_AS_BOOL, JSON_MEMBER(struct seen, lost)},
    {"instance_type", JSON_AS_TEXT, JSON_MEMBER(struct seen, offer.instance_type), .needed = true},
    {"zone", JSON_AS_TEXT, JSON_MEMBER(struct seen, offer.zone)},
    {"capacity_type", JSON_AS_WORD, JSON_MEMBER(struct seen, offer.capacity_type),
     .words = command_capacities},
    {"price_per_hour", JSON_AS_DOUBLE, JSON_MEMBER(struct seen, offer.price_per_hour)},
    {"interruption_probability", JSON_AS_DOUBLE,
     JSON_MEMBER(struct seen, offer.interruption_probability)},
    {"resources", JSON_AS_PAIRS, JSON_MEMBER(struct seen, offer.resources),
     JSON_COUNT(struct seen, offer.resource_count), .most = OFFER_RESOURCES_MAX},
    {"allocatable", JSON_AS_PAIRS, JSON_MEMBER(struct seen, offer.allocatable),
     JSON_COUNT(struct seen, offer.allocatable_count), .most = OFFER_RESOURCES_MAX},
    {"labels", JSON_AS_PAIRS, JSON_MEMBER(struct seen, offer.labels),
     JSON_COUNT(struct seen, offer.label_count), .most = OFFER_LABELS_MAX},
};
static const struct json_fields seen_machine = {JSON_FIELDS(seen_fields), .loose = true};

/* Reports a machine of the list as offered, and also if it failed or lost its host. */
static enum err list_see(struct command *c, const struct json *machine, struct arena *arena,
                         struct str *ret_id, struct note *note)
{
    struct backend_host *host = c->backend.host;
    struct seen seen = {.id = STR_EMPTY,
                        .failed = STR_EMPTY,
                        .offer = {.zone = STR_EMPTY, .capacity_type = CAPACITY_ON_DEMAND}};
    enum err err = json_fields_read(machine, &seen_machine, &seen, arena, note);

    *ret_id = seen.id;
    if (!err) err = host->seen(host, SEEN_OFFERED, seen.id, &seen.offer, STR_EMPTY, note);
    if (!err && seen.failed.len > 0)
        err = host->seen(host, SEEN_FAILED, seen.id, NULL, seen.failed, note);
    if (!err && seen.lost)
        err = host->seen(host, SEEN_RECLAIMED, seen.id, NULL, STR("its host is gone"), note);
    return err;
}

static void list_warn(struct command *c, struct str id, enum err err, const struct note *note)
{
    LOG_WARN(&c->log, "script printed an invalid list", log_str("machine", id),
             log_text("why", note->text[0] ? note->text : err_text(err)));
}

static void list_see_all(struct command *c, const struct json *answer)
{
    const struct json *machines = json_find(answer, "machines"),
                      *removed = json_find(answer, "removed");
    struct backend_host *host = c->backend.host;
    struct arena arena;

    arena_init(&arena, COMMAND_ANSWER_MAX);
    for (size_t i = 0; machines && i < json_count(machines); i++) {
        struct str id = STR_EMPTY;
        struct note note = {""};
        enum err err = list_see(c, json_item(machines, i), &arena, &id, &note);
        if (err) list_warn(c, id, err, &note);
        arena_reset(&arena);
    }
    for (size_t i = 0; removed && i < json_count(removed); i++) {
        struct str id = STR_EMPTY;
        struct note note = {""};
        enum err err = json_get_string(json_item(removed, i), "", &id, &note);
        if (!err) err = host->seen(host, SEEN_REMOVED, id, NULL, STR("the script says so"), &note);
        if (err) list_warn(c, id, err, &note);
    }
    arena_deinit(&arena);
}

static void on_listed(void *owner, const struct script_end *end)
{
    struct command *c = owner;
    struct note note = {""};
    struct json *answer = NULL;
    enum err err = ERR_OK;

    c->listing = NULL;
    if (end->error.text[0])
        note = end->error;
    else
        err = answer_read(end->output, COMMAND_LIST_MAX, &answer, &note);
    if (note.text[0])
        list_warn(c, STR_EMPTY, err, &note);
    else if (answer)
        list_see_all(c, answer);
    json_close(answer);
    timer_start_in(&c->again, c->list_every_ms);
}

static void on_list_due(struct timer *timer)
{
    struct command *c = CONTAINER_OF(timer, struct command, again);
    const struct script_options options = {
        .loop = c->io->loop,
        .program = c->program,
        .argument = "list",
        .input = STR("{\"operation\":\"list\"}\n"),
        .timeout_ms = c->timeout_ms,
        .output_max = COMMAND_LIST_MAX,
        .done = on_listed,
        .owner = c,
    };
    struct note note = {""};
    enum err err;

    if (c->listing) return;
    err = script_start(&options, &c->listing, &note);
    if (!err) return;
    c->listing = NULL;
    list_warn(c, STR_EMPTY, err, &note);
    timer_start_in(&c->again, c->list_every_ms);
}

static void command_ready(struct backend *backend)
{
    timer_start_in(&command_of(backend)->again, 0);
}

static enum err command_reload(struct backend *backend, struct note *)
{
    command_ready(backend); /* The script may now list other machines. */
    return ERR_OK;
}

/* --- open and close --- */

static void runs_drop(struct list *runs)
{
    struct list *node;

    while ((node = list_pop(runs)) != NULL) {
        struct operation_run *r = CONTAINER_OF(node, struct operation_run, link);
        if (r->script) script_abandon(r->script);
        run_free(r);
    }
}

static void command_close(struct backend *backend)
{
    struct command *c = command_of(backend);

    task_cancel(&c->work);
    timer_deinit(&c->again);
    if (c->listing) script_abandon(c->listing);
    runs_drop(&c->running);
    runs_drop(&c->waiting);
    free(c->program);
    free(c);
}

static const struct backend_ops command_ops = {
    .name = "command",
    .keeps_blobs = true,
    .check = command_check,
    .start = command_start,
    .ready = command_ready,
    .reload = command_reload,
    .close = command_close,
};

enum err command_backend_open(const struct command_options *options, struct backend **ret_backend,
                              struct note *note)
{
    struct command *c;
    enum err err;

    if (!options->script || !options->script[0])
        return note_fail(note, ERR_INVALID, "the command backend needs a script");
    c = calloc(1, sizeof *c);
    if (!c) return ERR_NOMEM;
    c->backend.ops = &command_ops;
    c->io = options->io;
    if (options->log) c->log = *options->log;
    c->running_max = options->running_max ? options->running_max : RUNNING_MAX;
    c->timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS;
    c->list_every_ms = options->list_every_ms ? options->list_every_ms : LIST_EVERY_MS;
    list_init(&c->waiting);
    list_init(&c->running);
    task_init(&c->work, command_work);
    c->program = str_dup(str_from(options->script));
    err = timer_init(&c->again, c->io->loop, on_list_due);
    if (!err && !c->program) err = ERR_NOMEM;
    if (err)
        command_close(&c->backend);
    else
        *ret_backend = &c->backend;
    return err;
}
