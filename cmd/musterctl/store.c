/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl store: reads and writes keys of the coordinators' store, shows its status. One
 * thread. */
#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "common/help.h"
#include "common/tables.h"
#include "ctl/store_side.h"
#include "musterctl/commands.h"
#include "musterctl/coord.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { PAGE_KEYS = 1000 };

/* -- what they share -- */

/* The store recognizes a repeat by client id and sequence, which are made from the request id. */
static enum err store_request_identify(struct ctl *ctl, Muster__V1__Request **ret_request)
{
    struct str id = str_from(remote_request_id(ctl->remote));
    Muster__V1__Request *request = arena_alloc(&ctl->memory, sizeof *request);
    uint8_t *client = arena_alloc(&ctl->memory, 16);

    if (!request || !client) return ERR_NOMEM;
    muster__v1__request__init(request);
    store_le64(client, str_hash(id, 1) | 1);
    store_le64(client + 8, str_hash(id, 2));
    request->client_id = (ProtobufCBinaryData){16, client};
    request->sequence = 1;
    *ret_request = request;
    return ERR_OK;
}

static enum err store_outcome_check(struct ctl *ctl, const ProtobufCMessage *answer)
{
    const Muster__V1__Outcome *outcome = (const void *)answer;
    enum err err = coord_ctl_code(outcome->code);

    return err ? ctl_fail(ctl, err, "%s%s%s", coord_code_name(outcome->code),
                          outcome->text[0] ? ": " : "", outcome->text)
               : ERR_OK;
}

static void store_entry_json(struct ndjson *json, const Muster__V1__Entry *entry, bool with_value)
{
    struct str value = ctl_view(entry->value);

    ndjson_string(json, STR("key"), ctl_view(entry->key));
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

/* -- get -- */

static enum err store_get_show(struct ctl *ctl, const ProtobufCMessage *,
                               const ProtobufCMessage *answer)
{
    const Muster__V1__RangeResponse *found = (const void *)answer;

    if (found->n_entries == 0) return ctl_fail(ctl, ERR_NOT_FOUND, "no such key");
    if (ctl->json) {
        struct ndjson *json = ctl_json_begin(ctl);
        store_entry_json(json, found->entries[0], true);
        ctl_json_end(ctl);
    } else { /* for a pipe: the raw bytes */
        ctl_append(ctl, ctl_view(found->entries[0]->value));
        ctl_append(ctl, STR("\n"));
    }
    return ERR_OK;
}

/* -- put -- */

static enum err store_put_prepare(struct ctl *ctl, ProtobufCMessage *message)
{
    Muster__V1__PutRequest *request = (void *)message;

    struct str value = str_from(conf_argument(ctl->conf, 1));
    bool input = conf_argument_count(ctl->conf) < 2 || str_equal(value, STR("-"));
    enum err err = input ? ctl_read_input(ctl, &value) : ERR_OK;

    request->value = (ProtobufCBinaryData){value.len, (uint8_t *)ctl_text(value.at)};
    return err ? err : store_request_identify(ctl, &request->request);
}

/* -- del -- */

static enum err store_del_prepare(struct ctl *ctl, ProtobufCMessage *message)
{
    Muster__V1__DeleteRangeRequest *request = (void *)message;
    enum err err = store_request_identify(ctl, &request->request);

    if (!err && conf_bool(ctl->conf, "prefix"))
        err = store_prefix_end(ctl, ctl_view(request->key), &request->range_end);
    return err;
}

/* -- ls -- */

static void store_ls_entry(struct ctl *ctl, const Muster__V1__Entry *entry,
                           struct text_table *table)
{
    if (ctl->json) {
        struct ndjson *json = ctl_json_begin(ctl);
        store_entry_json(json, entry, false);
        ctl_json_end(ctl);
    } else {
        table_text(table, arena_dup(&ctl->memory, ctl_view(entry->key)));
        table_number(table, (int64_t)entry->revision);
        table_text(table, entry->owner);
    }
}

static enum err store_ls_act(struct ctl *ctl)
{
    Muster__V1__RangeRequest request = MUSTER__V1__RANGE_REQUEST__INIT;
    const Muster__V1__RangeResponse *page;
    struct text_table table;
    enum err err;

    request.key = ctl_bytes(conf_argument(ctl->conf, 0));
    err = store_prefix_end(ctl, ctl_view(request.key), &request.range_end);
    if (err) return err;
    request.keys_only = true;
    request.limit = PAGE_KEYS;
    request.revision = conf_number(ctl->conf, "revision");
    table_init(&table, TABLE_COLUMNS("KEY", "REVISION", "OWNER"), &ctl->memory);
    do { /* pages up to the last key, all at the first page's revision */
        page = ctl_ask(ctl, REMOTE_READ_OF(STORE_PATH "Range", muster__v1__range), &request.base,
                       &err);
        if (!page) return err;
        for (size_t i = 0; i < page->n_entries; i++) store_ls_entry(ctl, page->entries[i], &table);
        if (!request.revision) request.revision = page->revision;
        if (page->more && page->n_entries) {
            struct str last = ctl_view(page->entries[page->n_entries - 1]->key);
            char *after = arena_dup(&ctl->memory, last);
            if (!after) return ERR_NOMEM;
            request.key = (ProtobufCBinaryData){last.len + 1, (uint8_t *)after};
        }
    } while (page->more && page->n_entries && !ctl->print_err);
    if (!ctl->json) ctl_print_table(ctl, &table);
    return ERR_OK;
}

/* -- watch -- */

static void store_watch_event(struct ctl *ctl, const char *what, const Muster__V1__Entry *entry)
{
    if (!ctl->json) {
        ctl_line(ctl, "%" PRIu64 " %s %.*s", entry->revision, what, STR_ARG(ctl_view(entry->key)));
        return;
    }
    struct ndjson *json = ctl_json_begin(ctl);
    ndjson_c_string(json, STR("event"), what);
    store_entry_json(json, entry, true);
    ctl_json_end(ctl);
}

static enum err store_watch_on_message(void *owner, const ProtobufCMessage *message,
                                       struct note *note)
{
    static const char *const words[] = {"put", "delete", "expired"};
    const Muster__V1__WatchResponse *update = (const void *)message;
    struct ctl *ctl = owner;
    enum err err;

    if (update->kind == MUSTER__V1__WATCH_RESPONSE__KIND__COMPACTED)
        return note_fail(note, ERR_NOT_FOUND,
                         "that revision is gone; the oldest there is: %" PRIu64, update->revision);
    for (size_t i = 0; i < update->n_events; i++) {
        const Muster__V1__WatchEvent *event = update->events[i];
        bool there = update->kind == MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT;
        size_t type = (size_t)event->type;

        if (event->entry && type < ARRAY_LEN(words))
            store_watch_event(ctl, there ? "there" : words[type], event->entry);
    }
    if (update->kind == MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC)
        ctl_append(ctl, ctl->json ? STR("{\"event\":\"resync\"}\n")
                                  : STR("resync: what follows is all there is\n"));
    err = ctl_flush(ctl);
    return err == ERR_CANCELLED ? ERR_IO : err;
}

static enum err store_watch_act(struct ctl *ctl)
{
    Muster__V1__WatchRequest request = MUSTER__V1__WATCH_REQUEST__INIT;

    request.scope = ctl_bytes(conf_argument(ctl->conf, 0));
    request.raw = true;
    request.start_revision = conf_number(ctl->conf, "revision");
    ctl_end_when_interrupted();
    return remote_stream(ctl->remote, REMOTE_READ_OF(STORE_PATH "Watch", muster__v1__watch),
                         &request.base, store_watch_on_message, ctl, &ctl->note);
}

/* -- compact -- */

static enum err store_compact_prepare(struct ctl *ctl, ProtobufCMessage *message)
{
    Muster__V1__CompactRequest *request = (void *)message;
    const char *text = conf_argument(ctl->conf, 0);

    return !str_to_u64(str_from(text), &request->revision) && request->revision
               ? ERR_OK
               : ctl_fail(ctl, ERR_INVALID, "REVISION: needs a whole number from 1, got '%s'",
                          text);
}

static enum err store_compact_check(struct ctl *ctl, const ProtobufCMessage *answer)
{
    const Muster__V1__Outcome *outcome = (const void *)answer;
    const char *what = outcome->code == COORD_CONFLICT  ? "is compacted already"
                       : outcome->code == COORD_INVALID ? "is newer than the store"
                                                        : NULL;

    return what ? ctl_fail(ctl, coord_ctl_code(outcome->code),
                           "revision %s %s; `musterctl store status` shows both ends",
                           conf_argument(ctl->conf, 0), what)
                : store_outcome_check(ctl, answer);
}

/* -- status -- */

static enum err store_status_show(struct ctl *ctl, const ProtobufCMessage *,
                                  const ProtobufCMessage *answer)
{
    const Muster__V1__StatusResponse *s = (const void *)answer;
    char id[33];

    if (ctl->json) {
        ctl_json(ctl, answer);
        return ERR_OK;
    }
    hex_write(s->store_id.data, min_size(s->store_id.len, 16), id);
    ctl_line(ctl, "store %s%s", id, s->is_leader ? ", as the leader has it" : "");
    ctl_line(ctl, "revision %" PRIu64 ", compacted up to %" PRIu64, s->revision, s->compacted);
    ctl_line(ctl, "%" PRIu64 " keys, %" PRIu64 " of %" PRIu64 " bytes%s", s->keys, s->bytes,
             s->quota, s->no_space ? ": FULL" : "");
    ctl_line(ctl,
             "%" PRIu64 " leases, %" PRIu64 " groups, %" PRIu64 " waiters, %" PRIu64
             " watchers here, %" PRIu64 " clients",
             s->leases, s->groups, s->waiters, s->watchers, s->clients);
    return ERR_OK;
}

/* -- import, export -- */

const struct command store_command = COMMAND_TREE(
    HELP_MUSTERCTL_STORE,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_STORE_GET, store_get, "KEY", 1, 1),
            CTL_RPC(BIT(5), CTL_READ(STORE_PATH "Range", muster__v1__range),
                    CTL_FILL({"key", NULL}, {"revision", "revision"}), .show = store_get_show)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_STORE_PUT, store_write, "KEY [VALUE]", 1, 2),
            CTL_RPC(0,
                    .method = {STORE_PATH "Put", &muster__v1__outcome__descriptor, REMOTE_WRITE,
                               "musterctl store get"},
                    .request = &muster__v1__put_request__descriptor, CTL_FILL({"key", NULL}),
                    .prepare = store_put_prepare, .check = store_outcome_check, .answer_only = true,
                    .done = "revision {revision}")),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_STORE_DEL, store_del, "KEY", 1, 1),
            CTL_RPC(BIT(5),
                    .method = {STORE_PATH "DeleteRange", &muster__v1__outcome__descriptor,
                               REMOTE_WRITE, "musterctl store ls"},
                    .request = &muster__v1__delete_range_request__descriptor,
                    CTL_FILL({"key", NULL}), .prepare = store_del_prepare,
                    .asks = "Deletes {key}, with --prefix all keys that begin so.",
                    .check = store_outcome_check, .answer_only = true,
                    .done = "deleted {live}, revision {revision}")),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_STORE_LS, store_ls, "[PREFIX]", 0, 1),
            CTL_ACT(0, store_ls_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_STORE_WATCH, store_get, "[PREFIX]", 0, 1),
            CTL_ACT(BIT(5), store_watch_act)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_STORE_COMPACT, removal, "REVISION", 1, 1),
            /* The request is sent once, without a sequence number: a repeat after a lost answer
             * would conflict. */
            CTL_RPC(BIT(4),
                    .method = {STORE_PATH "Compact", &muster__v1__outcome__descriptor, REMOTE_ONCE,
                               "musterctl store status"},
                    .request = &muster__v1__compact_request__descriptor,
                    .prepare = store_compact_prepare, .check = store_compact_check,
                    .asks = "Nobody can read what was before revision {revision} any more.",
                    .answer_only = true, .done = "compacted up to {revision}")),
    COMMAND(
        COMMAND_ROW(HELP_MUSTERCTL_STORE_STATUS, ctl),
        CTL_RPC(0, CTL_READ(STORE_PATH "Status", muster__v1__status), .show = store_status_show)),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_STORE_IMPORT, store_import),
            CTL_OFFLINE(CTL_EXITS | BIT(4), store_copy_import)),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_STORE_EXPORT, store_export),
            CTL_OFFLINE(CTL_EXITS | BIT(4), store_copy_export)));
