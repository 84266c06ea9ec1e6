/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as JSON. */
#include "fleet/format/command.h"

#include "fleet/format/shapes.h"

enum { /* text slots: each payload has its own, so that a stray one does not get in the way */
       AT_ADD = 0,
       AT_REMOVE = 4,
       AT_BIND = 5,
       AT_ASSIGN = 7,
       AT_ASSIGN_SHARD = 9,
       AT_UNASSIGN = 10,
       AT_QUOTA = 12,
       AT_PROVIDER = 14,
       AT_CLEAR = 17,
       AT_CLEAR_SHARD = 19,
       AT_END = 20
};
enum { AT_FORCE = 1, AT_SINCE = 2 }; /* number slots */
_Static_assert((int)AT_END <= (int)RECORD_TEXTS, "every field of a command has a slot");
enum { TEXT_MAX = 64 << 10 }; /* far past every limit of the core, which says which one it is */

static const struct shape_field shard_fields[] = {SHARD_FIELDS(AT_ADD)};
static const struct shape shard_shape = SHAPE(shard_fields);
static const struct shape_field add_fields[] = {{"entry", SHAPE_OBJECT, 0, &shard_shape}};
static const struct shape add_shape = SHAPE(add_fields);
static const struct shape_field remove_fields[] = {{"id", SHAPE_TEXT, AT_REMOVE, NULL}};
static const struct shape remove_shape = SHAPE(remove_fields);
static const struct shape_field bind_fields[] = {TWO_FIELDS("cluster", "shard", AT_BIND)};
static const struct shape bind_shape = SHAPE(bind_fields);
static const struct shape_field assigned_fields[] = {TWO_FIELDS("Key", "Value", AT_ASSIGN)};
static const struct shape assigned_shape = SHAPE(assigned_fields);
static const struct shape_field assign_fields[] = {{"domain", SHAPE_OBJECT, 0, &assigned_shape},
                                                   {"shard", SHAPE_TEXT, AT_ASSIGN_SHARD, NULL},
                                                   {"force", SHAPE_NUMBER, AT_FORCE, NULL}};
static const struct shape assign_shape = SHAPE(assign_fields);
static const struct shape_field unassigned_fields[] = {TWO_FIELDS("Key", "Value", AT_UNASSIGN)};
static const struct shape unassigned_shape = SHAPE(unassigned_fields);
static const struct shape_field unassign_fields[] = {
    {"domain", SHAPE_OBJECT, 0, &unassigned_shape}};
static const struct shape unassign_shape = SHAPE(unassign_fields);
static const struct shape_field quota_key_fields[] = {TWO_FIELDS("Provider", "Region", AT_QUOTA)};
static const struct shape quota_key_shape = SHAPE(quota_key_fields);
static const struct shape_field quota_fields[] = {{"key", SHAPE_OBJECT, 0, &quota_key_shape},
                                                  {"per_shard", SHAPE_SLICES, 0, NULL}};
static const struct shape quota_shape = SHAPE(quota_fields);
static const struct shape_field provider_fields[] = {PROVIDER_FIELDS(AT_PROVIDER)};
static const struct shape provider_shape = SHAPE(provider_fields);
static const struct shape_field upsert_fields[] = {{"provider", SHAPE_OBJECT, 0, &provider_shape}};
static const struct shape upsert_shape = SHAPE(upsert_fields);
static const struct shape_field cleared_fields[] = {TWO_FIELDS("Key", "Value", AT_CLEAR)};
static const struct shape cleared_shape = SHAPE(cleared_fields);
static const struct shape_field clear_fields[] = {{"domain", SHAPE_OBJECT, 0, &cleared_shape},
                                                  {"shard", SHAPE_TEXT, AT_CLEAR_SHARD, NULL},
                                                  {"since", SHAPE_NUMBER, AT_SINCE, NULL}};
static const struct shape clear_shape = SHAPE(clear_fields);
static const struct shape_field command_fields[] = {
    {"kind", SHAPE_NUMBER, 0, NULL},
    {"add_shard", SHAPE_PAYLOAD, FLEET_ADD_SHARD, &add_shape},
    {"remove_shard", SHAPE_PAYLOAD, FLEET_REMOVE_SHARD, &remove_shape},
    {"bind_cluster", SHAPE_PAYLOAD, FLEET_BIND_CLUSTER, &bind_shape},
    {"assign_domain", SHAPE_PAYLOAD, FLEET_ASSIGN_DOMAIN, &assign_shape},
    {"unassign_domain", SHAPE_PAYLOAD, FLEET_UNASSIGN_DOMAIN, &unassign_shape},
    {"set_quota", SHAPE_PAYLOAD, FLEET_SET_QUOTA, &quota_shape},
    {"upsert_provider", SHAPE_PAYLOAD, FLEET_UPSERT_PROVIDER, &upsert_shape},
    {"clear_leaving", SHAPE_PAYLOAD, FLEET_CLEAR_LEAVING, &clear_shape},
};
static const struct shape command_shape = SHAPE(command_fields);

/* -- writing -- */
static enum err payload_put(const struct fleet_command *command, struct buf *into)
{
    enum err err;

    switch (command->kind) {
    case FLEET_ADD_SHARD:
        err = buf_append_c(into, "{\"entry\":");
        return err ? err : shard_put(into, &command->add_shard, false);
    case FLEET_REMOVE_SHARD: return json_field_put(into, "{\"id\":", command->remove_shard);
    case FLEET_BIND_CLUSTER:
        err = json_field_put(into, "{\"cluster\":", command->bind_cluster.id);
        return err ? err : json_field_put(into, ",\"shard\":", command->bind_cluster.shard);
    case FLEET_ASSIGN_DOMAIN:
        err = buf_append_c(into, "{\"domain\":");
        if (!err) err = domain_put(into, &command->assign_domain);
        if (!err) err = json_field_put(into, ",\"shard\":", command->assign_domain.shard);
        return err || !command->force ? err : buf_append_c(into, ",\"force\":1");
    case FLEET_CLEAR_LEAVING: return leaving_put(into, &command->clear_leaving);
    case FLEET_UNASSIGN_DOMAIN:
        err = buf_append_c(into, "{\"domain\":");
        return err ? err : domain_put(into, &command->unassign_domain);
    case FLEET_UPSERT_PROVIDER:
        err = buf_append_c(into, "{\"provider\":");
        return err ? err : provider_put(into, &command->upsert_provider);
    case FLEET_SET_QUOTA: break;
    }
    return ERR_INTERNAL;
}

enum err fleet_command_encode(const struct fleet_command *command, struct buf *into)
{
    size_t start = into->len;
    enum err err;

    if (command->kind < FLEET_ADD_SHARD || command->kind > FLEET_KIND_LAST) return ERR_INVALID;
    err = buf_appendf(into, "{\"kind\":%u,\"%s\":", (unsigned)command->kind,
                      command_fields[command->kind].name);
    if (!err && command->kind == FLEET_SET_QUOTA)
        err = quota_put(into, &command->set_quota); /* the row is the payload, braces and all */
    else if (!err)
        err = payload_put(command, into);
    if (!err)
        err = buf_append_c(
            into,
            command->kind == FLEET_SET_QUOTA || command->kind == FLEET_CLEAR_LEAVING ? "}" : "}}");
    if (err) into->len = start;
    return err;
}

/* -- reading -- */
static enum err command_of(const struct record *record, struct fleet_command *ret_command,
                           struct note *note)
{
    const struct str *texts = record->texts;
    struct fleet_command command = {.kind = (enum fleet_kind)record->numbers[0]};
    enum err err = ERR_OK;

    switch (command.kind) {
    case FLEET_ADD_SHARD: err = shard_of(record, AT_ADD, &command.add_shard, note); break;
    case FLEET_REMOVE_SHARD: command.remove_shard = texts[AT_REMOVE]; break;
    case FLEET_BIND_CLUSTER:
        command.bind_cluster = (struct fleet_cluster){texts[AT_BIND], texts[AT_BIND + 1]};
        break;
    case FLEET_ASSIGN_DOMAIN:
        command.assign_domain =
            (struct fleet_domain){texts[AT_ASSIGN], texts[AT_ASSIGN + 1], texts[AT_ASSIGN_SHARD]};
        command.force = record->numbers[AT_FORCE] != 0;
        break;
    case FLEET_UNASSIGN_DOMAIN:
        command.unassign_domain =
            (struct fleet_domain){texts[AT_UNASSIGN], texts[AT_UNASSIGN + 1], STR_EMPTY};
        break;
    case FLEET_SET_QUOTA:
        command.set_quota = (struct fleet_quota){texts[AT_QUOTA], texts[AT_QUOTA + 1],
                                                 record->slices, record->slice_count};
        break;
    case FLEET_UPSERT_PROVIDER:
        command.upsert_provider = (struct fleet_provider){
            texts[AT_PROVIDER], texts[AT_PROVIDER + 1], texts[AT_PROVIDER + 2]};
        break;
    case FLEET_CLEAR_LEAVING:
        command.clear_leaving = (struct fleet_leaving){
            texts[AT_CLEAR], texts[AT_CLEAR + 1], texts[AT_CLEAR_SHARD], record->numbers[AT_SINCE]};
        break;
    }
    if (!err) *ret_command = command;
    return err;
}

/* The whole text as one record. */
static enum err text_read(struct str bytes, struct record *record, struct note *note)
{
    struct str rest = bytes, text = STR_EMPTY;
    enum json_token token;
    struct json_scan scan;
    bool done = false;
    enum err err;

    json_scan_init(&scan, TEXT_MAX);
    do {
        err = json_scan_next(&scan, &rest, &token, &text, note);
        if (!err && token != JSON_NEED && !done)
            err = record_token(record, token, text, &done, note);
    } while (!err && token != JSON_NEED);
    if (!err && !json_scan_whole(&scan)) {
        note_set(note, "offset %zu: it ends early", bytes.len);
        err = ERR_PARSE;
    }
    json_scan_deinit(&scan);
    return err;
}

static enum err refuse(enum fleet_status status, uint64_t number, struct fleet_result *ret_result)
{
    *ret_result =
        (struct fleet_result){.status = status, .number = number, .holder = STR_EMPTY, .field = ""};
    return ERR_INVALID;
}

enum err fleet_command_decode(struct str bytes, struct arena *arena,
                              struct fleet_command *ret_command, struct fleet_result *ret_result,
                              struct note *note)
{
    struct record record = {.arena = arena, .stable = bytes};
    uint64_t kind;
    enum err err;

    record_begin(&record, &command_shape);
    err = text_read(bytes, &record, note);
    kind = record.numbers[0];
    if (err == ERR_NOMEM) return err;
    if (err) return refuse(FLEET_UNREADABLE, 0, ret_result);
    if (kind < FLEET_ADD_SHARD || kind > FLEET_KIND_LAST)
        return refuse(FLEET_UNKNOWN_KIND, kind, ret_result);
    if (!(record.present & BIT(kind))) return refuse(FLEET_PAYLOAD_MISSING, kind, ret_result);
    if (command_of(&record, ret_command, note)) return refuse(FLEET_UNREADABLE, 0, ret_result);
    return ERR_OK;
}
