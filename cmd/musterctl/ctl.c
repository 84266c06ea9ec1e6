/* SPDX-License-Identifier: Apache-2.0 */
#include "musterctl/ctl.h"

#include <string.h>

#include "common/program.h"
#include "common/tables_ctl.h"
#include "conf/printable.h"
#include "wire/json/message_json.h"

/* A million domains, decoded, and as text. */
static const size_t memory_max = (size_t)4 << 30;
static const size_t out_max = (size_t)1 << 30;
enum { LINE_MAX_BYTES = 64 * 1024 };

static bool has_option(const struct ctl *ctl, const char *name)
{
    const struct option_table *table = command_of(ctl->call)->options;

    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->options[i].name, name) == 0) return true;
    return false;
}

static const char *request_id_of(const struct ctl *ctl)
{
    return has_option(ctl, "request-id") ? conf_text(ctl->conf, "request-id") : NULL;
}

static bool wants_json(const struct ctl *ctl)
{
    if (has_option(ctl, "json") && conf_bool(ctl->conf, "json")) return true;
    return has_option(ctl, "output") && conf_choice(ctl->conf, "output") == CTL_OUTPUT_JSON;
}

static int run(void *context, const struct command_call *call, ctl_fn *act, const void *errand,
               bool connect)
{
    struct ctl ctl = {.call = call, .errand = errand};
    struct conf *conf;
    int exit_code = 0;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    ctl.conf = conf;
    ctl.json = wants_json(&ctl);
    arena_init(&ctl.memory, memory_max);
    buf_init(&ctl.out, out_max);
    if (connect) err = remote_open(conf, request_id_of(&ctl), &ctl.remote, &ctl.note);
    if (!err) err = act(&ctl);
    if (ctl.out.len > 0) exit_code = program_print(buf_peek(&ctl.out));
    if (err) exit_code = program_fail(call, err, &ctl.note);
    remote_close(ctl.remote);
    buf_deinit(&ctl.out);
    arena_deinit(&ctl.memory);
    conf_close(conf);
    return exit_code;
}

int ctl_run(void *context, const struct command_call *call, ctl_fn *act)
{
    return run(context, call, act, NULL, true);
}

int ctl_run_offline(void *context, const struct command_call *call, ctl_fn *act)
{
    return run(context, call, act, NULL, false);
}

int ctl_run_errand(void *context, const struct command_call *call, ctl_fn *act, const void *errand)
{
    return run(context, call, act, errand, false);
}

enum err ctl_call(struct ctl *ctl, const struct remote_method *method,
                  const ProtobufCMessage *request, ProtobufCMessage **ret_answer)
{
    return remote_call(ctl->remote, method, request, &ctl->memory, ret_answer, &ctl->note);
}

enum err ctl_json(struct ctl *ctl, const ProtobufCMessage *answer)
{
    struct ndjson json;

    ndjson_begin(&json, &ctl->out, NDJSON_LINE);
    message_json_fields(&json, answer);
    return ndjson_end(&json);
}

enum err ctl_list(struct ctl *ctl, const struct remote_method *method,
                  const ProtobufCMessage *request, const char *const *columns, ctl_rows_fn *rows)
{
    ProtobufCMessage *answer;
    struct table table;
    enum err err = ctl_call(ctl, method, request, &answer);

    if (err) return err;
    if (ctl->json) return ctl_json(ctl, answer);
    table_init(&table, columns, &ctl->memory);
    rows(&table, answer);
    return table_print(&table, &ctl->out);
}

static enum err append_line(struct ctl *ctl, const char *format, va_list args)
{
    struct buf raw;
    enum err err;

    buf_init(&raw, LINE_MAX_BYTES);
    err = buf_vappendf(&raw, format, args);
    if (!err) err = printable_append(buf_peek(&raw), &ctl->out);
    if (!err) err = buf_append_byte(&ctl->out, '\n');
    buf_deinit(&raw);
    return err;
}

enum err ctl_line(struct ctl *ctl, const char *format, ...)
{
    va_list args;
    enum err err;

    va_start(args, format);
    err = append_line(ctl, format, args);
    va_end(args);
    return err;
}

static enum err write_json(struct ctl *ctl, const struct remote_method *method,
                           const ProtobufCMessage *request, const ProtobufCMessage *answer)
{
    struct ndjson json;

    ndjson_begin(&json, &ctl->out, NDJSON_LINE);
    ndjson_c_string(&json, STR("result"), "done");
    if (method->kind == REMOTE_WRITE)
        ndjson_c_string(&json, STR("request_id"), remote_request_id(ctl->remote));
    message_json(&json, STR("request"), request);
    message_json(&json, STR("response"), answer);
    return ndjson_end(&json);
}

static enum err say_done(struct ctl *ctl, const struct remote_method *method,
                         const ProtobufCMessage *request, const ProtobufCMessage *answer,
                         const char *format, va_list args)
{
    return ctl->json ? write_json(ctl, method, request, answer) : append_line(ctl, format, args);
}

enum err ctl_done(struct ctl *ctl, const struct remote_method *method,
                  const ProtobufCMessage *request, const ProtobufCMessage *answer,
                  const char *format, ...)
{
    va_list args;
    enum err err;

    va_start(args, format);
    err = say_done(ctl, method, request, answer, format, args);
    va_end(args);
    return err;
}

enum err ctl_write(struct ctl *ctl, const struct remote_method *method,
                   const ProtobufCMessage *request, const char *format, ...)
{
    ProtobufCMessage *answer;
    va_list args;
    enum err err = ctl_call(ctl, method, request, &answer);

    if (err) return err;
    va_start(args, format);
    err = say_done(ctl, method, request, answer, format, args);
    va_end(args);
    return err;
}

char *ctl_text(const char *text)
{
    static char none[1];
    return text ? (char *)text : none;
}
