/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl store: the plain keys of the coordinators' store, and how it is. */
#include <inttypes.h>
#include <muster/coord.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "common/program.h"
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "musterctl/store_side.h"
#include "text/ndjson.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { PAGE_KEYS = 1000 };

/* -- what they share -- */

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){text ? strlen(text) : 0, (uint8_t *)ctl_text(text)};
}

static struct str view_of(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* The store knows a repeat by client and sequence: both come of the command's request id. */
static void fill_request(const struct ctl *ctl, Muster__V1__Request *request, uint8_t client[16])
{
    struct str id = str_from(remote_request_id(ctl->remote));

    muster__v1__request__init(request);
    store_le64(client, str_hash(id, 1) | 1);
    store_le64(client + 8, str_hash(id, 2));
    request->client_id = (ProtobufCBinaryData){16, client};
    request->sequence = 1;
}

/* What was decided, as the command's end. */
static enum err outcome_err(struct ctl *ctl, const Muster__V1__Outcome *outcome)
{
    static const enum err errs[] = {[COORD_OK] = ERR_OK,
                                    [COORD_EXISTS] = ERR_EXISTS,
                                    [COORD_CONFLICT] = ERR_CONFLICT,
                                    [COORD_NOT_FOUND] = ERR_NOT_FOUND,
                                    [COORD_EXPIRED] = ERR_FENCED,
                                    [COORD_INVALID] = ERR_INVALID,
                                    [COORD_UNSUPPORTED] = ERR_UNSUPPORTED,
                                    [COORD_UNAVAILABLE] = ERR_UNAVAILABLE};
    enum err err = outcome->code >= 0 && (size_t)outcome->code < ARRAY_LEN(errs)
                       ? errs[outcome->code]
                       : ERR_INTERNAL;

    if (err)
        note_set(&ctl->note, "%s%s%s", coord_code_name(outcome->code), outcome->text[0] ? ": " : "",
                 outcome->text);
    return err;
}

static void entry_json(struct ndjson *json, const Muster__V1__Entry *entry, bool with_value)
{
    struct str value = view_of(entry->value);

    ndjson_string(json, STR("key"), view_of(entry->key));
    ndjson_u64(json, STR("revision"), entry->revision);
    ndjson_u64(json, STR("create_revision"), entry->create_revision);
    if (entry->token) {
        ndjson_u64(json, STR("token"), entry->token);
        ndjson_c_string(json, STR("owner"), entry->owner);
        ndjson_u64(json, STR("ttl_ms"), (uint64_t)entry->ttl_ms);
    }
    if (!with_value) return;
    ndjson_u64(json, STR("bytes"), value.len);
    if (str_is_utf8(value)) ndjson_string(json, STR("value"), value);
}

static const struct remote_method range_method = {
    "/muster.v1.Coordination/Range", &muster__v1__range_response__descriptor, REMOTE_READ, NULL};

/* -- get -- */

static enum err store_get(struct ctl *ctl)
{
    Muster__V1__RangeRequest request = MUSTER__V1__RANGE_REQUEST__INIT;
    const Muster__V1__RangeResponse *found;
    ProtobufCMessage *answer;
    struct ndjson json;
    enum err err;

    request.key = bytes_of(conf_argument(ctl->conf, 0));
    request.revision = conf_number(ctl->conf, "revision");
    err = ctl_call(ctl, &range_method, &request.base, &answer);
    if (err) return err;
    found = (const Muster__V1__RangeResponse *)answer;
    if (found->n_entries == 0) {
        note_set(&ctl->note, "no such key");
        return ERR_NOT_FOUND;
    }
    if (!ctl->json) { /* the value as it is, for a pipe */
        err = buf_append(&ctl->out, view_of(found->entries[0]->value));
        return err ? err : buf_append_byte(&ctl->out, '\n');
    }
    ndjson_begin(&json, &ctl->out, NDJSON_LINE);
    entry_json(&json, found->entries[0], true);
    return ndjson_end(&json);
}

static int run_get(void *context, const struct command_call *call)
{
    return ctl_run(context, call, store_get);
}

static const struct command_example get_examples[] = {
    {"musterctl store get app/config", "its value, and a line end"},
    {"musterctl store get app/config --revision 812 -o json", "as it was"},
    {NULL, NULL},
};
static const struct command get_command = {
    .name = "get",
    .summary = "the value of a key",
    .about = "Prints the value of one key as of now, whoever wrote last, or as of a revision that "
             "is not compacted yet. Claims stand under muster/.",
    .options = &store_get_table,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = get_examples,
    .exits = CTL_EXITS | BIT(5),
    .run = run_get,
};

/* -- put -- */

static enum err store_put(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Coordination/Put",
                                                &muster__v1__outcome__descriptor, REMOTE_WRITE,
                                                "musterctl store get"};
    Muster__V1__PutRequest request = MUSTER__V1__PUT_REQUEST__INIT;
    Muster__V1__Request id;
    uint8_t client[16];
    const Muster__V1__Outcome *outcome;
    ProtobufCMessage *answer;
    enum err err;

    fill_request(ctl, &id, client);
    request.request = &id;
    request.key = bytes_of(conf_argument(ctl->conf, 0));
    request.value = bytes_of(conf_argument(ctl->conf, 1));
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (err) return err;
    outcome = (const Muster__V1__Outcome *)answer;
    err = outcome_err(ctl, outcome);
    if (err) return err;
    return ctl->json ? ctl_json(ctl, answer)
                     : ctl_line(ctl, "revision %" PRIu64, outcome->revision);
}

static int run_put(void *context, const struct command_call *call)
{
    return ctl_run(context, call, store_put);
}

static const struct command_example put_examples[] = {
    {"musterctl store put app/config on", "the new value, whatever was there"},
    {NULL, NULL},
};
static const struct command put_command = {
    .name = "put",
    .summary = "set a plain key",
    .about = "Sets a plain key, whatever stood there. Claims (muster/...) are not set so: "
             "`musterctl coord` does.",
    .options = &store_write_table,
    .arguments = "KEY VALUE",
    .arguments_min = 2,
    .arguments_max = 2,
    .examples = put_examples,
    .exits = CTL_EXITS,
    .run = run_put,
};

/* -- del -- */

static enum err store_del(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Coordination/DeleteRange",
                                                &muster__v1__outcome__descriptor, REMOTE_WRITE,
                                                "musterctl store ls"};
    Muster__V1__DeleteRangeRequest request = MUSTER__V1__DELETE_RANGE_REQUEST__INIT;
    Muster__V1__Request id;
    uint8_t client[16];
    const Muster__V1__Outcome *outcome;
    ProtobufCMessage *answer;
    enum err err = ERR_OK;

    fill_request(ctl, &id, client);
    request.request = &id;
    request.key = bytes_of(conf_argument(ctl->conf, 0));
    if (conf_bool(ctl->conf, "prefix"))
        err = store_prefix_end(ctl, view_of(request.key), &request.range_end);
    if (!err) err = ctl_call(ctl, &method, &request.base, &answer);
    if (err) return err;
    outcome = (const Muster__V1__Outcome *)answer;
    err = outcome_err(ctl, outcome);
    if (err) return err;
    return ctl->json
               ? ctl_json(ctl, answer)
               : ctl_line(ctl, "deleted %u, revision %" PRIu64, outcome->live, outcome->revision);
}

static int run_del(void *context, const struct command_call *call)
{
    return ctl_run(context, call, store_del);
}

static const struct command_example del_examples[] = {
    {"musterctl store del app/config", "one key"},
    {"musterctl store del app/ --prefix", "all that begin so"},
    {NULL, NULL},
};
static const struct command del_command = {
    .name = "del",
    .summary = "delete plain keys",
    .about = "Deletes one plain key, or with --prefix every one that begins with it, in one step. "
             "A range that holds claims (muster/...) is refused.",
    .options = &store_del_table,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = del_examples,
    .exits = CTL_EXITS | BIT(5),
    .run = run_del,
};

/* -- ls -- */

/* A page of them into the table or as lines; the next key to ask for through *from. */
static enum err list_page(struct ctl *ctl, const Muster__V1__RangeResponse *page,
                          struct table *table)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < page->n_entries; i++) {
        const Muster__V1__Entry *entry = page->entries[i];
        struct ndjson json;

        if (ctl->json) {
            ndjson_begin(&json, &ctl->out, NDJSON_LINE);
            entry_json(&json, entry, false);
            err = ndjson_end(&json);
            continue;
        }
        table_text(table, arena_dup(&ctl->memory, view_of(entry->key)));
        table_number(table, (int64_t)entry->revision);
        table_text(table, entry->owner);
    }
    return err;
}

static enum err store_ls(struct ctl *ctl)
{
    static const char *const columns[] = {"KEY", "REVISION", "OWNER", NULL};
    Muster__V1__RangeRequest request = MUSTER__V1__RANGE_REQUEST__INIT;
    const Muster__V1__RangeResponse *page;
    ProtobufCMessage *answer;
    struct table table;
    enum err err;

    request.key = bytes_of(conf_argument(ctl->conf, 0));
    err = store_prefix_end(ctl, view_of(request.key), &request.range_end);
    request.keys_only = true;
    request.limit = PAGE_KEYS;
    request.revision = conf_number(ctl->conf, "revision");
    table_init(&table, columns, &ctl->memory);
    do { /* ends with the keys there were at the first page's revision */
        if (!err) err = ctl_call(ctl, &range_method, &request.base, &answer);
        if (err) return err;
        page = (const Muster__V1__RangeResponse *)answer;
        err = list_page(ctl, page, &table);
        if (!request.revision) request.revision = page->revision;
        if (page->more && page->n_entries) {
            ProtobufCBinaryData last = page->entries[page->n_entries - 1]->key;
            uint8_t *after = arena_alloc(&ctl->memory, last.len + 1);
            if (!after) return ERR_NOMEM;
            memcpy(after, last.data, last.len);
            after[last.len] = '\0';
            request.key = (ProtobufCBinaryData){last.len + 1, after};
        }
    } while (!err && page->more && page->n_entries);
    if (err || ctl->json) return err;
    return table_print(&table, &ctl->out);
}

static int run_ls(void *context, const struct command_call *call)
{
    return ctl_run(context, call, store_ls);
}

static const struct command_example ls_examples[] = {
    {"musterctl store ls", "every key"},
    {"musterctl store ls muster/jobs/", "claims, with their holders"},
    {NULL, NULL},
};
static const struct command ls_command = {
    .name = "ls",
    .summary = "keys that begin with a prefix",
    .about = "Lists keys in order, all of one revision; with -o json one line each. Claims stand "
             "under muster/.",
    .options = &store_get_table,
    .arguments = "[PREFIX]",
    .arguments_min = 0,
    .arguments_max = 1,
    .examples = ls_examples,
    .exits = CTL_EXITS,
    .run = run_ls,
};

/* -- watch -- */

static enum err event_line(struct ctl *ctl, const char *what, const Muster__V1__Entry *entry)
{
    struct ndjson json;

    if (!ctl->json)
        return ctl_line(ctl, "%" PRIu64 " %s %.*s", entry->revision, what,
                        STR_ARG(view_of(entry->key)));
    ndjson_begin(&json, &ctl->out, NDJSON_LINE);
    ndjson_c_string(&json, STR("event"), what);
    entry_json(&json, entry, true);
    return ndjson_end(&json);
}

static enum err on_watch(void *owner, const ProtobufCMessage *message, struct note *note)
{
    static const char *const words[] = {"put", "delete", "expired"};
    const Muster__V1__WatchResponse *told = (const Muster__V1__WatchResponse *)message;
    struct ctl *ctl = owner;
    enum err err = ERR_OK;

    if (told->kind == MUSTER__V1__WATCH_RESPONSE__KIND__COMPACTED) {
        note_set(note, "that revision is gone; the oldest there is: %" PRIu64, told->revision);
        return ERR_NOT_FOUND;
    }
    for (size_t i = 0; !err && i < told->n_events; i++) {
        const Muster__V1__WatchEvent *event = told->events[i];
        bool there = told->kind == MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT;
        size_t type = (size_t)event->type;

        if (event->entry && type < ARRAY_LEN(words))
            err = event_line(ctl, there ? "there" : words[type], event->entry);
    }
    if (told->kind == MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC && !err)
        err = ctl->json ? buf_append_c(&ctl->out, "{\"event\":\"resync\"}\n")
                        : buf_append_c(&ctl->out, "resync: what follows is all there is\n");
    if (!err && ctl->out.len && program_print(buf_peek(&ctl->out))) err = ERR_IO;
    buf_clear(&ctl->out);
    return err;
}

static enum err store_watch(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Coordination/Watch",
                                                &muster__v1__watch_response__descriptor,
                                                REMOTE_READ, NULL};
    Muster__V1__WatchRequest request = MUSTER__V1__WATCH_REQUEST__INIT;

    request.scope = bytes_of(conf_argument(ctl->conf, 0));
    request.raw = true;
    request.start_revision = conf_number(ctl->conf, "revision");
    return remote_stream(ctl->remote, &method, &request.base, on_watch, ctl, &ctl->note);
}

static int run_watch(void *context, const struct command_call *call)
{
    return ctl_run(context, call, store_watch);
}

static const struct command_example watch_examples[] = {
    {"musterctl store watch muster/", "every claim, as it comes and goes"},
    {"musterctl store watch app/ --revision 812", "from there on"},
    {NULL, NULL},
};
static const struct command watch_command = {
    .name = "watch",
    .summary = "changes of keys that begin with a prefix",
    .about = "Prints what is there, then each change as it happens, until it is interrupted; with "
             "--revision every change from that one on. A leader that is gone ends it: go on with "
             "the last revision and one.",
    .options = &store_get_table,
    .arguments = "[PREFIX]",
    .arguments_min = 0,
    .arguments_max = 1,
    .examples = watch_examples,
    .exits = CTL_EXITS | BIT(5),
    .run = run_watch,
};

/* -- compact -- */

static enum err store_compact(struct ctl *ctl)
{
    /* No command number goes with it: a repeat after a lost answer would be told of a conflict. */
    static const struct remote_method method = {"/muster.v1.Coordination/Compact",
                                                &muster__v1__outcome__descriptor, REMOTE_ONCE,
                                                "musterctl store status"};
    Muster__V1__CompactRequest request = MUSTER__V1__COMPACT_REQUEST__INIT;
    const char *text = conf_argument(ctl->conf, 0);
    ProtobufCMessage *answer;
    enum err err;

    if (str_to_u64(str_from(text), &request.revision) || !request.revision) {
        note_set(&ctl->note, "REVISION: needs a whole number from 1, got '%s'", text);
        return ERR_INVALID;
    }
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (!err) err = outcome_err(ctl, (const Muster__V1__Outcome *)answer);
    if (err) return err;
    return ctl->json ? ctl_json(ctl, answer)
                     : ctl_line(ctl, "compacted up to %" PRIu64, request.revision);
}

static int run_compact(void *context, const struct command_call *call)
{
    return ctl_run(context, call, store_compact);
}

static const struct command_example compact_examples[] = {
    {"musterctl store compact 812", "reads and watches of what was before are over"},
    {NULL, NULL},
};
static const struct command compact_command = {
    .name = "compact",
    .summary = "forget history before a revision",
    .about = "Frees what only the past before this revision needs. The leader does so by itself, "
             "five minutes after, or when history takes a quarter of the quota.",
    .options = &ctl_table,
    .arguments = "REVISION",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = compact_examples,
    .exits = CTL_EXITS | BIT(4),
    .run = run_compact,
};

/* -- status -- */

static enum err store_status(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Coordination/Status",
                                                &muster__v1__status_response__descriptor,
                                                REMOTE_READ, NULL};
    Muster__V1__StatusRequest request = MUSTER__V1__STATUS_REQUEST__INIT;
    const Muster__V1__StatusResponse *s;
    ProtobufCMessage *answer;
    struct ndjson json;
    char id[33] = "";
    enum err err = ctl_call(ctl, &method, &request.base, &answer);

    if (err) return err;
    s = (const Muster__V1__StatusResponse *)answer;
    for (size_t i = 0; i < min_size(s->store_id.len, 16); i++)
        snprintf(id + 2 * i, 3, "%02x", s->store_id.data[i]);
    if (ctl->json) {
        const struct {
            struct str name;
            uint64_t value;
        } numbers[] = {{STR("revision"), s->revision}, {STR("compacted"), s->compacted},
                       {STR("keys"), s->keys},         {STR("bytes"), s->bytes},
                       {STR("quota"), s->quota},       {STR("leases"), s->leases},
                       {STR("groups"), s->groups},     {STR("waiters"), s->waiters},
                       {STR("watchers"), s->watchers}, {STR("clients"), s->clients},
                       {STR("clock_ms"), s->clock_ms}};
        ndjson_begin(&json, &ctl->out, NDJSON_LINE);
        ndjson_c_string(&json, STR("store_id"), id);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
            ndjson_u64(&json, numbers[i].name, numbers[i].value);
        ndjson_bool(&json, STR("no_space"), s->no_space);
        ndjson_bool(&json, STR("is_leader"), s->is_leader);
        return ndjson_end(&json);
    }
    err = ctl_line(ctl, "store %s%s", id, s->is_leader ? ", told by the leader" : "");
    if (!err)
        err = ctl_line(ctl, "revision %" PRIu64 ", compacted up to %" PRIu64, s->revision,
                       s->compacted);
    if (!err)
        err = ctl_line(ctl, "%" PRIu64 " keys, %" PRIu64 " of %" PRIu64 " bytes%s", s->keys,
                       s->bytes, s->quota, s->no_space ? ": FULL" : "");
    if (!err)
        err = ctl_line(ctl,
                       "%" PRIu64 " leases, %" PRIu64 " groups, %" PRIu64 " waiters, %" PRIu64
                       " watchers here, %" PRIu64 " clients",
                       s->leases, s->groups, s->waiters, s->watchers, s->clients);
    return err;
}

static int run_status(void *context, const struct command_call *call)
{
    return ctl_run(context, call, store_status);
}

static const struct command_example status_examples[] = {
    {"musterctl store status", "who it is, how far, how full"},
    {NULL, NULL},
};
static const struct command status_command = {
    .name = "status",
    .summary = "how far and how full the store is",
    .about = "Tells what the replica that answers knows: identity, revisions, sizes, and how many "
             "hold, wait and watch.",
    .options = &ctl_table,
    .examples = status_examples,
    .exits = CTL_EXITS,
    .run = run_status,
};

static const struct command *const children[] = {
    &get_command,     &put_command,    &del_command,          &ls_command,           &watch_command,
    &compact_command, &status_command, &store_import_command, &store_export_command, NULL};
const struct command store_command = {
    .name = "store",
    .summary = "the coordinators' own store: keys, how it is, copies from etcd",
    .about = "Plain keys of the store that the coordinators replicate, and how it is. For claims, "
             "slots and leases on it see `musterctl coord`.",
    .children = children,
};
