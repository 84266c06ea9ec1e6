/* SPDX-License-Identifier: Apache-2.0 */
/* The frame for a command that is one call: fills the request from options, prints the answer as a
 * table, a line or JSON. Every field that a command's table names must exist in its message. One
 * thread. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/hex.h"
#include "conf/printable.h"
#include "ctl/ctl.h"
#include "wire/json/message_json.h"

enum { RPC_PAGES_MAX = 10000, HEX_CAP = 2 * 32 + 1, NAME_CAP = 64 };

struct rpc_value {
    const ProtobufCFieldDescriptor *field;
    char *at;
    size_t count; /* of a repeated field */
};

static const ProtobufCFieldDescriptor *rpc_field(const ProtobufCMessageDescriptor *type,
                                                 const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(type, name);
}

static struct rpc_value rpc_value_in(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field = rpc_field(message->descriptor, name);
    char *base = (char *)message;

    assert(field);
    return (struct rpc_value){field, base + field->offset,
                              field->label == PROTOBUF_C_LABEL_REPEATED
                                  ? *(size_t *)(void *)(base + field->quantifier_offset)
                                  : 0};
}

/* The field at "a.b": field b of message a; zero if a is not set. */
static struct rpc_value rpc_value_of(const ProtobufCMessage *message, const char *path)
{
    static char zero[sizeof(ProtobufCBinaryData)];
    const char *dot = strchr(path, '.');
    const ProtobufCMessage *inner;
    struct rpc_value outer;
    char name[NAME_CAP];

    if (!dot) return rpc_value_in(message, path);
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    outer = rpc_value_in(message, name);
    inner = *(ProtobufCMessage **)(void *)outer.at;
    if (inner) return rpc_value_of(inner, dot + 1);
    return (struct rpc_value){rpc_field(outer.field->descriptor, dot + 1), zero, 0};
}

static int64_t rpc_number(struct rpc_value value)
{
    const void *at = value.at;

    if (value.field->label == PROTOBUF_C_LABEL_REPEATED) return (int64_t)value.count;
    switch (value.field->type) {
    case PROTOBUF_C_TYPE_BOOL: return *(const protobuf_c_boolean *)at;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: return *(const int32_t *)at;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_ENUM: return *(const uint32_t *)at;
    default: return *(const int64_t *)at;
    }
}

/* NULL: the value is no text. */
static const char *rpc_text(struct rpc_value value)
{
    if (value.field->type != PROTOBUF_C_TYPE_STRING ||
        value.field->label == PROTOBUF_C_LABEL_REPEATED)
        return NULL;
    return ctl_text(*(char **)(void *)value.at);
}

static enum err rpc_fill_list(struct ctl *ctl, ProtobufCMessage *message, struct rpc_value into,
                              const char *option)
{
    struct option_value value = conf_list(ctl->conf, option);
    char **list = arena_calloc(&ctl->memory, value.item_count + 1, sizeof *list);

    if (!list) return ERR_NOMEM;
    for (size_t i = 0; i < value.item_count; i++) list[i] = ctl_text(value.items[i].at);
    *(char ***)(void *)into.at = list;
    *(size_t *)(void *)((char *)message + into.field->quantifier_offset) = value.item_count;
    return ERR_OK;
}

/* A numeric option cannot be negative, so this option is a text. */
static enum err rpc_fill_i32(struct ctl *ctl, void *at, const char *option)
{
    const char *text = conf_text(ctl->conf, option);
    int64_t number;

    if (str_to_i64(str_from(text), &number) || number < INT32_MIN || number > INT32_MAX)
        return ctl_fail(ctl, ERR_INVALID, "--%s: needs a whole number of 32 bits, got '%s'", option,
                        text);
    *(int32_t *)at = (int32_t)number;
    return ERR_OK;
}

static enum err rpc_fill_field(struct ctl *ctl, ProtobufCMessage *message, const char *name,
                               const char *option)
{
    struct rpc_value into = rpc_value_in(message, name);
    const struct conf *conf = ctl->conf;
    void *at = into.at;

    if (into.field->label == PROTOBUF_C_LABEL_REPEATED)
        return rpc_fill_list(ctl, message, into, option);
    switch (into.field->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = ctl_text(option ? conf_text(conf, option) : conf_argument(conf, 0));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)at =
            ctl_bytes(option ? conf_text(conf, option) : conf_argument(conf, 0));
        break;
    case PROTOBUF_C_TYPE_BOOL: *(protobuf_c_boolean *)at = conf_bool(conf, option); break;
    case PROTOBUF_C_TYPE_ENUM: *(uint32_t *)at = (uint32_t)conf_choice(conf, option); break;
    case PROTOBUF_C_TYPE_INT32: return rpc_fill_i32(ctl, at, option);
    default:
        assert(into.field->type == PROTOBUF_C_TYPE_UINT64);
        *(uint64_t *)at = conf_number(conf, option);
    }
    return ERR_OK;
}

/* The message that the first part of a path names, created if needed. */
static ProtobufCMessage *rpc_inner(struct ctl *ctl, ProtobufCMessage *message, const char *path)
{
    const ProtobufCMessageDescriptor *type;
    struct rpc_value value;
    ProtobufCMessage **inner;
    char name[NAME_CAP];

    snprintf(name, sizeof name, "%.*s", (int)str_find(str_from(path), '.'), path);
    value = rpc_value_in(message, name);
    inner = (void *)value.at;
    if (value.field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)(void *)((char *)message + value.field->quantifier_offset) = value.field->id;
    type = value.field->descriptor;
    if (!*inner && (*inner = arena_alloc(&ctl->memory, type->sizeof_message)))
        protobuf_c_message_init(type, *inner);
    return *inner;
}

static enum err rpc_fill_path(struct ctl *ctl, ProtobufCMessage *message, const char *path,
                              const char *option)
{
    const char *dot = strchr(path, '.');

    if (!dot) return rpc_fill_field(ctl, message, path, option);
    message = rpc_inner(ctl, message, path);
    return message ? rpc_fill_path(ctl, message, dot + 1, option) : ERR_NOMEM;
}

enum err ctl_rpc_fill(struct ctl *ctl, ProtobufCMessage *request, const struct ctl_fill *fill)
{
    enum err err = ERR_OK;

    for (; fill && fill->field && !err; fill++)
        err = rpc_fill_path(ctl, request, fill->field, fill->option);
    return err;
}

static void rpc_bytes_cell(struct text_table *table, const ProtobufCBinaryData *bytes)
{
    char text[HEX_CAP] = "";

    hex_write(bytes->data, min_size(bytes->len, (sizeof text - 1) / 2), text);
    table_format(table, "%s", text[0] ? text : TABLE_DASH);
}

static void rpc_time_cell(struct text_table *table, struct rpc_value value)
{
    int64_t time = rpc_number(value);

    if (str_ends(str_from(value.field->name), STR("_ms")))
        time = time < 0 || time >= INT64_MAX / 1000000 ? 0 : time * 1000000;
    table_time(table, time);
}

static void rpc_words_cell(struct text_table *table, const char *const *words, uint64_t number)
{
    size_t count = 0;

    while (words[count]) count++;
    table_text(table, number < count ? words[number] : "?");
}

static const char *rpc_enum_name(struct rpc_value value)
{
    const ProtobufCEnumValue *found =
        protobuf_c_enum_descriptor_get_value(value.field->descriptor, (int)rpc_number(value));

    return found ? found->name : "?";
}

static void rpc_cell(struct text_table *table, const struct ctl_column *column,
                     const ProtobufCMessage *row)
{
    struct rpc_value value;
    const char *text;

    if (column->put) {
        column->put(table, row);
        return;
    }
    value = rpc_value_of(row, column->field);
    text = rpc_text(value);
    if (column->words)
        rpc_words_cell(table, column->words, (uint64_t)rpc_number(value));
    else if (column->cell == CTL_TIME)
        rpc_time_cell(table, value);
    else if (text)
        table_text(table, text[0] || column->cell == CTL_AS_IS ? text
                          : column->cell == CTL_OR_DASH        ? TABLE_DASH
                                                               : "-");
    else if (column->cell == CTL_COUNT)
        table_number(table, (int64_t)value.count);
    else if (value.field->type == PROTOBUF_C_TYPE_BYTES)
        rpc_bytes_cell(table, (const void *)value.at);
    else if (value.field->type == PROTOBUF_C_TYPE_DOUBLE)
        table_format(table, "%.2f", *(const double *)(const void *)value.at);
    else if (value.field->type == PROTOBUF_C_TYPE_FIXED64)
        table_hex(table, (uint64_t)rpc_number(value));
    else if (value.field->type == PROTOBUF_C_TYPE_ENUM)
        table_text(table, rpc_enum_name(value));
    else
        table_number(table, rpc_number(value));
}

static struct rpc_value rpc_rows(const ProtobufCMessage *answer)
{
    const char *name = answer->descriptor->fields[0].name;

    assert(answer->descriptor->fields[0].label == PROTOBUF_C_LABEL_REPEATED);
    return rpc_value_in(answer, name);
}

static void rpc_put_rows(struct text_table *table, const struct ctl_column *columns,
                         struct rpc_value rows)
{
    for (size_t i = 0; i < rows.count; i++)
        for (const struct ctl_column *column = columns; column->title; column++)
            rpc_cell(table, column, (*(ProtobufCMessage ***)(void *)rows.at)[i]);
}

/* Appends a column for each scalar field without one. */
static void rpc_widen(const struct ctl_column *columns, const ProtobufCMessageDescriptor *row,
                      struct arena *memory, struct ctl_column wide[TABLE_COLUMNS_MAX + 1])
{
    static const char *const no_yes[] = {"no", "yes", NULL};
    size_t own = 0, count;

    for (; columns[own].title; own++) wide[own] = columns[own];
    count = own;
    for (unsigned i = 0; i < row->n_fields && count < TABLE_COLUMNS_MAX; i++) {
        const ProtobufCFieldDescriptor *field = &row->fields[i];
        bool shown = field->label == PROTOBUF_C_LABEL_REPEATED ||
                     field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_BYTES;
        char *title = shown ? NULL : arena_dup(memory, str_from(field->name));

        for (size_t k = 0; k < own && !shown; k++)
            shown = columns[k].field && strcmp(columns[k].field, field->name) == 0;
        if (shown || !title) continue;
        for (char *c = title; *c; c++) *c = (char)toupper((unsigned char)*c);
        wide[count++] =
            (struct ctl_column){.title = title,
                                .field = field->name,
                                .words = field->type == PROTOBUF_C_TYPE_BOOL ? no_yes : NULL,
                                .cell = str_ends(str_from(field->name), STR("_unix_ns")) ||
                                                str_ends(str_from(field->name), STR("_at_ms"))
                                            ? CTL_TIME
                                            : CTL_OR_DASH};
    }
    wide[count] = (struct ctl_column){0};
}

void ctl_rpc_print(struct ctl *ctl, const struct ctl_rpc *rpc, const ProtobufCMessage *answer)
{
    const char *titles[TABLE_COLUMNS_MAX + 1] = {NULL};
    const struct ctl_column *columns = rpc->columns;
    struct ctl_column wide[TABLE_COLUMNS_MAX + 1];
    struct text_table table;

    if (ctl->json) {
        ctl_json(ctl, answer);
        return;
    }
    if (ctl->wide && !rpc->rows) {
        rpc_widen(columns, answer->descriptor->fields[0].descriptor, &ctl->memory, wide);
        columns = wide;
    }
    if (rpc->head && !(ctl->table_flags & (TABLE_NAMES | TABLE_NO_HEADERS))) rpc->head(ctl, answer);
    for (size_t i = 0; columns[i].title; i++) titles[i] = columns[i].title;
    table_init(&table, titles, &ctl->memory);
    if (rpc->rows)
        rpc->rows(&table, answer);
    else
        rpc_put_rows(&table, columns, rpc_rows(answer));
    if (rpc->more_rows) rpc_put_rows(&table, columns, rpc_value_in(answer, rpc->more_rows));
    ctl_print_table(ctl, &table);
}

/* -- pages -- */

static void rpc_set_count(ProtobufCMessage *message, struct rpc_value rows, size_t count)
{
    *(size_t *)(void *)((char *)message + rows.field->quantifier_offset) = count;
}

static enum err rpc_append_rows(struct arena *memory, ProtobufCMessage *to,
                                const ProtobufCMessage *from)
{
    struct rpc_value all = rpc_rows(to), more = rpc_rows(from);
    ProtobufCMessage **list = arena_calloc(memory, all.count + more.count + 1, sizeof *list);

    if (!list) return ERR_NOMEM;
    if (all.count) memcpy(list, *(void **)(void *)all.at, all.count * sizeof *list);
    if (more.count) memcpy(list + all.count, *(void **)(void *)more.at, more.count * sizeof *list);
    *(ProtobufCMessage ***)(void *)all.at = list;
    rpc_set_count(to, all, all.count + more.count);
    return ERR_OK;
}

/* Makes the request ask for the next page. */
static void rpc_next_page(const struct ctl_rpc *rpc, ProtobufCMessage *request,
                          const ProtobufCMessage *last)
{
    struct rpc_value to = rpc_value_in(request, rpc->page_request);
    struct rpc_value from = rpc_value_in(last, rpc->page_row);

    assert(to.field->type == from.field->type);
    switch (to.field->type) {
    case PROTOBUF_C_TYPE_STRING: *(char **)(void *)to.at = *(char **)(void *)from.at; break;
    case PROTOBUF_C_TYPE_BYTES: memcpy(to.at, from.at, sizeof(ProtobufCBinaryData)); break;
    default: *(uint32_t *)(void *)to.at = *(const uint32_t *)(void *)from.at + 1;
    }
}

enum err ctl_rpc_fetch(struct ctl *ctl, const struct ctl_rpc *rpc, ProtobufCMessage *request,
                       ProtobufCMessage **ret_answer)
{
    ProtobufCMessage *first = NULL;
    bool more = true;

    for (size_t page = 0; more && page < RPC_PAGES_MAX; page++) {
        struct rpc_value rows;
        enum err err;
        ProtobufCMessage *answer = ctl_ask(ctl, &rpc->method, request, &err);

        if (!answer) return err;
        more = rpc->page_request && rpc_number(rpc_value_in(answer, "more"));
        rows = more ? rpc_rows(answer) : (struct rpc_value){NULL, NULL, 0};
        more = rows.count > 0;
        if (more)
            rpc_next_page(rpc, request, (*(ProtobufCMessage ***)(void *)rows.at)[rows.count - 1]);
        if (first) err = rpc_append_rows(&ctl->memory, first, answer);
        if (err) return err;
        if (!first) first = answer;
    }
    if (rpc->page_request) *(protobuf_c_boolean *)(void *)rpc_value_in(first, "more").at = more;
    *ret_answer = first;
    return ERR_OK;
}

static enum err rpc_append_value(struct rpc_value value, struct buf *into)
{
    const char *text = rpc_text(value);

    if (text) return buf_append_c(into, text);
    if (value.field->type == PROTOBUF_C_TYPE_BYTES)
        return buf_append(into, ctl_view(*(ProtobufCBinaryData *)(void *)value.at));
    if (value.field->type == PROTOBUF_C_TYPE_FIXED64)
        return buf_appendf(into, "%016" PRIx64, (uint64_t)rpc_number(value));
    return buf_appendf(into, "%" PRIu64, (uint64_t)rpc_number(value));
}

/* The field of the request, or else of the answer. */
static struct rpc_value rpc_value_of_either(const ProtobufCMessage *request,
                                            const ProtobufCMessage *answer, const char *path)
{
    char name[NAME_CAP];

    snprintf(name, sizeof name, "%.*s", (int)str_find(str_from(path), '.'), path);
    return rpc_value_of(rpc_field(request->descriptor, name) ? request : answer, path);
}

static bool rpc_is_set(struct rpc_value value)
{
    const char *text = rpc_text(value);

    return text ? text[0] != '\0' : rpc_number(value) != 0;
}

/* Replaces {field} in a line such as "assigned {topology_key} ..." by the field's value. */
static enum err rpc_render(const char *line, const ProtobufCMessage *request,
                           const ProtobufCMessage *answer, struct buf *into)
{
    struct str rest = str_from(line);
    enum err err = ERR_OK;

    while (rest.len > 0 && !err) {
        size_t open = str_find(rest, '{'), close = str_find(rest, '}');
        char path[NAME_CAP];

        err = buf_append(into, str_of(rest.at, open));
        if (err || open == rest.len) return err;
        snprintf(path, sizeof path, "%.*s", (int)(close - open - 1), rest.at + open + 1);
        err = rpc_append_value(rpc_value_of_either(request, answer, path), into);
        rest = str_tail(rest, close + 1);
    }
    return err;
}

static enum err rpc_confirm(struct ctl *ctl, const struct ctl_rpc *rpc,
                            const ProtobufCMessage *request)
{
    struct buf text;
    enum err err;

    if (!rpc->asks || !ctl->confirm) return ERR_OK;
    buf_init(&text, CTL_LINE_MAX);
    err = rpc_render(rpc->asks, request, request, &text);
    if (!err) err = buf_append_byte(&text, '\0');
    if (!err) err = ctl_confirm(ctl, buf_peek(&text).at);
    buf_deinit(&text);
    return err;
}

static void rpc_done_json(struct ctl *ctl, const struct ctl_rpc *rpc,
                          const ProtobufCMessage *request, const ProtobufCMessage *answer)
{
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_c_string(json, STR("result"), "done");
    if (rpc->method.kind == REMOTE_WRITE)
        ndjson_c_string(json, STR("request_id"), remote_request_id(ctl->remote));
    message_json(json, STR("request"), request);
    message_json(json, STR("response"), answer);
    ctl_json_end(ctl);
}

static enum err rpc_done(struct ctl *ctl, const struct ctl_rpc *rpc,
                         const ProtobufCMessage *request, const ProtobufCMessage *answer)
{
    const char *done = rpc->done;
    struct buf line;
    enum err err;

    err = rpc->check ? rpc->check(ctl, answer) : ERR_OK;
    if (err) return err;
    if (ctl->json) {
        if (rpc->answer_only)
            ctl_json(ctl, answer);
        else
            rpc_done_json(ctl, rpc, request, answer);
        return ERR_OK;
    }
    if (rpc->done_if && !rpc_is_set(rpc_value_of_either(request, answer, rpc->done_if)))
        done = rpc->done_else;
    buf_init(&line, CTL_LINE_MAX);
    err = rpc_render(done, request, answer, &line);
    if (!err) ctl_line(ctl, "%.*s", STR_ARG(buf_peek(&line)));
    buf_deinit(&line);
    return err;
}

static bool rpc_row_has(const ProtobufCMessage *row, const char *name)
{
    for (unsigned i = 0; i < row->descriptor->n_fields; i++) {
        const char *text = rpc_text(rpc_value_in(row, row->descriptor->fields[i].name));
        if (text && strcmp(text, name) == 0) return true;
    }
    return false;
}

/* Keeps the rows that have the argument NAME of a list in one of their fields. */
static enum err rpc_keep_named(struct ctl *ctl, const struct ctl_rpc *rpc, ProtobufCMessage *answer)
{
    const char *name = conf_argument(ctl->conf, 0);
    struct rpc_value all = rpc_rows(answer);
    ProtobufCMessage **rows = *(ProtobufCMessage ***)(void *)all.at;
    size_t kept = 0;

    for (size_t i = 0; i < all.count; i++)
        if (rpc_row_has(rows[i], name)) rows[kept++] = rows[i];
    rpc_set_count(answer, all, kept);
    return kept ? ERR_OK
                : ctl_fail(ctl, ERR_NOT_FOUND, "%s '%s' is not in the list", rpc->columns[0].title,
                           name);
}

enum err ctl_rpc_run(struct ctl *ctl, const struct ctl_rpc *rpc)
{
    ProtobufCMessage *request = arena_alloc(&ctl->memory, rpc->request->sizeof_message), *answer;
    enum err err = request ? ERR_OK : ERR_NOMEM;

    if (request) protobuf_c_message_init(rpc->request, request);
    if (!err) err = ctl_rpc_fill(ctl, request, rpc->fill);
    if (!err && rpc->prepare) err = rpc->prepare(ctl, request);
    if (!err) err = rpc_confirm(ctl, rpc, request);
    if (!err) err = ctl_rpc_fetch(ctl, rpc, request, &answer);
    if (!err && rpc->columns && (!rpc->fill || rpc->fill[0].option) &&
        !command_of(ctl->call)->argument_sets && conf_argument_count(ctl->conf) > 0)
        err = rpc_keep_named(ctl, rpc, answer);
    if (err) return err;
    if (rpc->show) return rpc->show(ctl, request, answer);
    if (!rpc->columns) return rpc_done(ctl, rpc, request, answer);
    ctl_rpc_print(ctl, rpc, answer);
    return ERR_OK;
}
