/* SPDX-License-Identifier: Apache-2.0 */
/* The run of a command: its calls and its output. One thread.
 *
 * Invariant: `out` holds whole lines only. A line or table that does not fit is left out, and sets
 * print_err. */
#include "ctl/ctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conf/printable.h"
#include "ctl/yaml.h"
#include "wire/json/message_json.h"

/* Bytes for a million domains, decoded and as text. */
static const size_t ctl_memory_max = (size_t)4 << 30;
static const size_t out_max = (size_t)1 << 30;
enum { YAML_MAX = 1 << 30 };

void ctl_init(struct ctl *ctl)
{
    arena_init(&ctl->memory, ctl_memory_max);
    buf_init(&ctl->out, out_max);
}

void ctl_deinit(struct ctl *ctl)
{
    remote_close(ctl->remote);
    buf_deinit(&ctl->out);
    arena_deinit(&ctl->memory);
}

bool ctl_has_option(const struct ctl *ctl, const char *name)
{
    return option_find(command_of(ctl->call)->options, name) != NULL;
}

enum err ctl_confirm(struct ctl *ctl, const char *what)
{
    if (!ctl->confirm || ctl->confirm(what)) return ERR_OK;
    return ctl_fail(ctl, ERR_INVALID, "not confirmed: nothing was changed");
}

enum err ctl_read_input(struct ctl *ctl, struct str *ret_text)
{
    struct buf content;
    char *room;
    size_t got = 1;
    enum err err = ERR_OK;

    buf_init(&content, CTL_INPUT_MAX);
    while (!err && got > 0 && (err = buf_reserve(&content, 4096, &room)) == ERR_OK) {
        got = fread(room, 1, 4096, stdin);
        buf_commit(&content, got);
    }
    if (!err && ferror(stdin)) err = ERR_IO;
    if (err == ERR_FULL) err = ERR_TOO_LARGE;
    *ret_text = str_of(err ? NULL : arena_dup(&ctl->memory, buf_peek(&content)), content.len);
    if (!err && !ret_text->at) err = ERR_NOMEM;
    buf_deinit(&content);
    return err ? ctl_fail(ctl, err, "value from standard input: %s", err_text(err)) : ERR_OK;
}

/* -- calling -- */

void *ctl_ask(struct ctl *ctl, const struct remote_method *method, const ProtobufCMessage *request,
              enum err *ret_err)
{
    ProtobufCMessage *answer = NULL;

    *ret_err = remote_call(ctl->remote, method, request, &ctl->memory, &answer, &ctl->note);
    return *ret_err ? NULL : answer;
}

char *ctl_text(const char *text)
{
    static char none[1];
    return text ? (char *)text : none;
}

ProtobufCBinaryData ctl_bytes(const char *text)
{
    return (ProtobufCBinaryData){text ? strlen(text) : 0, (uint8_t *)ctl_text(text)};
}

struct str ctl_view(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* -- printing -- */

static void ctl_printed(struct ctl *ctl, enum err err)
{
    if (!ctl->print_err) ctl->print_err = err;
}

void ctl_append(struct ctl *ctl, struct str text)
{
    ctl_printed(ctl, buf_append(&ctl->out, text));
}

void ctl_append_shown(struct ctl *ctl, struct str text)
{
    ctl_printed(ctl, printable_append(text, &ctl->out));
}

void ctl_line(struct ctl *ctl, const char *format, ...)
{
    struct buf raw;
    va_list args;
    enum err err;

    buf_init(&raw, CTL_LINE_MAX);
    va_start(args, format);
    err = buf_vappendf(&raw, format, args);
    va_end(args);
    if (!err) err = printable_append(buf_peek(&raw), &ctl->out);
    if (!err) err = buf_append_byte(&ctl->out, '\n');
    ctl_printed(ctl, err);
    buf_deinit(&raw);
}

void ctl_print_table(struct ctl *ctl, const struct text_table *table)
{
    ctl_printed(ctl, table_print(table, ctl->table_flags, &ctl->out));
    if (table->cells == 0 && !table->err && !ctl->call->path[0]->says_name_only)
        ctl->warn(ctl->call, STR("the list is empty"));
}

struct ndjson *ctl_json_begin(struct ctl *ctl)
{
    ctl->json_begin = ctl->out.len;
    ndjson_begin(&ctl->document, &ctl->out, NDJSON_LINE);
    return &ctl->document;
}

static void ctl_make_yaml(struct ctl *ctl)
{
    struct str document = str_tail(buf_peek(&ctl->out), ctl->json_begin);
    struct buf yaml;

    buf_init(&yaml, YAML_MAX);
    ctl_printed(ctl, yaml_from_json(document, &yaml));
    ctl->out.len = ctl->json_begin;
    ctl_append(ctl, buf_peek(&yaml));
    buf_deinit(&yaml);
}

void ctl_json_end(struct ctl *ctl)
{
    ctl_printed(ctl, ndjson_end(&ctl->document));
    if (ctl->yaml && !ctl->print_err) ctl_make_yaml(ctl);
}

void ctl_json(struct ctl *ctl, const ProtobufCMessage *answer)
{
    struct ndjson *json = ctl_json_begin(ctl);

    message_json_fields(json, answer);
    ctl_json_end(ctl);
}

enum err ctl_flush(struct ctl *ctl)
{
    bool failed = ctl->out.len > 0 && ctl->print(buf_peek(&ctl->out)) != 0;

    buf_clear(&ctl->out);
    return ctl->print_err ? ctl->print_err : failed ? ERR_CANCELLED : ERR_OK;
}
