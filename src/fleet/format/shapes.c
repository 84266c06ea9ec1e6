/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON shapes of commands and rows. Text n of a row is in slot n; a shard's times follow. */
#include "fleet/format/shapes.h"

#include "text/rfc3339.h"

static_assert(FLEET_TIME_SECONDS_MAX - FLEET_TIME_UNIX == RFC3339_LAST_S, "every time has a text");

enum { TEXT_REGISTERED = 2, TEXT_HEARTBEAT = 3 }; /* slots in texts[payload] */

static const struct shape_field shard_fields[] = {
    FIELD("ID", TEXT, 0, NULL),
    FIELD("Address", TEXT, 1, NULL),
    FIELD("RegisteredAt", TIME, TEXT_REGISTERED, NULL),
    FIELD("LastHeartbeat", TIME, TEXT_HEARTBEAT, NULL),
};
static const struct record_shape shard_shape = SHAPE(shard_fields);
static const struct shape_field add_fields[] = {FIELD("entry", OBJECT, 0, &shard_shape)};
static const struct record_shape add_shape = SHAPE(add_fields);
static const struct shape_field remove_fields[] = {FIELD("id", TEXT, 0, NULL)};
static const struct record_shape remove_shape = SHAPE(remove_fields);
static const struct shape_field bind_fields[] = {FIELD("cluster", TEXT, 0, NULL),
                                                 FIELD("shard", TEXT, 1, NULL)};
static const struct record_shape bind_shape = SHAPE(bind_fields);
static const struct shape_field label_fields[] = {FIELD("Key", TEXT, 0, NULL),
                                                  FIELD("Value", TEXT, 1, NULL)};
static const struct record_shape label_shape = SHAPE(label_fields);
static const struct shape_field assign_fields[] = {FIELD("domain", OBJECT, 0, &label_shape),
                                                   FIELD("shard", TEXT, 2, NULL),
                                                   FIELD("force", FLAG, RECORD_FORCE, NULL)};
static const struct record_shape assign_shape = SHAPE(assign_fields),
                                 domain_shape = {assign_fields, 2},
                                 unassign_shape = {assign_fields, 1};
static const struct shape_field place_fields[] = {FIELD("Provider", TEXT, 0, NULL),
                                                  FIELD("Region", TEXT, 1, NULL)};
static const struct record_shape place_shape = SHAPE(place_fields);
static const struct shape_field quota_fields[] = {FIELD("key", OBJECT, 0, &place_shape),
                                                  FIELD("per_shard", SLICES, 0, NULL)};
static const struct record_shape quota_shape = SHAPE(quota_fields);
static const struct shape_field provider_fields[] = {
    FIELD("Name", TEXT, 0, NULL), FIELD("Address", TEXT, 1, NULL), FIELD("Region", TEXT, 2, NULL)};
static const struct record_shape provider_shape = SHAPE(provider_fields);
static const struct shape_field upsert_fields[] = {FIELD("provider", OBJECT, 0, &provider_shape)};
static const struct record_shape upsert_shape = SHAPE(upsert_fields);
static const struct shape_field leaving_fields[] = {FIELD("domain", OBJECT, 0, &label_shape),
                                                    FIELD("shard", TEXT, 2, NULL),
                                                    FIELD("since", NUMBER, RECORD_SINCE, NULL)};
static const struct record_shape leaving_shape = SHAPE(leaving_fields);
static const struct shape_field command_fields[] = {
    FIELD("kind", NUMBER, RECORD_KIND, NULL),
    FIELD("add_shard", PAYLOAD, FLEET_ADD_SHARD, &add_shape),
    FIELD("remove_shard", PAYLOAD, FLEET_REMOVE_SHARD, &remove_shape),
    FIELD("bind_cluster", PAYLOAD, FLEET_BIND_CLUSTER, &bind_shape),
    FIELD("assign_domain", PAYLOAD, FLEET_ASSIGN_DOMAIN, &assign_shape),
    FIELD("unassign_domain", PAYLOAD, FLEET_UNASSIGN_DOMAIN, &unassign_shape),
    FIELD("set_quota", PAYLOAD, FLEET_SET_QUOTA, &quota_shape),
    FIELD("upsert_provider", PAYLOAD, FLEET_UPSERT_PROVIDER, &upsert_shape),
    FIELD("clear_leaving", PAYLOAD, FLEET_CLEAR_LEAVING, &leaving_shape),
};
const struct record_shape fleet_command_shape = SHAPE(command_fields);

static const struct shape_field seal_fields[] = {FIELD("format", NUMBER, 0, NULL),
                                                 FIELD("index", NUMBER, 1, NULL),
                                                 FIELD("hash", TEXT, 0, NULL)};
static const struct record_shape seal_shape = SHAPE(seal_fields);
const struct shape_field fleet_members[FLEET_TABLES + 1] = {
    FIELD("shards", ROWS, FLEET_SHARDS, &shard_shape),
    FIELD("cluster_to_shard", MAP, FLEET_CLUSTERS, NULL),
    FIELD("domain_to_shard", ROWS, FLEET_DOMAINS, &domain_shape),
    FIELD("quotas", ROWS, FLEET_QUOTAS, &quota_shape),
    FIELD("providers", ROWS, FLEET_PROVIDERS, &provider_shape),
    FIELD("domains_leaving", ROWS, FLEET_LEAVING, &leaving_shape),
    FIELD("muster", ROW, FLEET_TABLES, &seal_shape),
};
const struct record_shape fleet_state_shape = SHAPE(fleet_members);

static const struct shape_field seed_quota_fields[] = {
    FIELD("provider", TEXT, 0, NULL), FIELD("region", TEXT, 1, NULL),
    FIELD("key", OBJECT, 0, &place_shape), FIELD("per_shard", SLICES, 0, NULL)};
static const struct record_shape seed_quota_shape = SHAPE(seed_quota_fields);
static const struct shape_field seed_fields[] = {
    FIELD("quotas", ROWS, FLEET_QUOTAS, &seed_quota_shape),
    FIELD("providers", ROWS, FLEET_PROVIDERS, &provider_shape),
    FIELD("shards", IGNORED, 0, NULL),
    FIELD("cluster_to_shard", IGNORED, 0, NULL),
    FIELD("domain_to_shard", IGNORED, 0, NULL),
    FIELD("domains_leaving", IGNORED, 0, NULL),
    FIELD("muster", IGNORED, 0, NULL),
};
const struct record_shape fleet_seed_shape = SHAPE(seed_fields);

/* -- reading -- */
static enum err time_of(struct str text, const char *field, struct fleet_time *ret_time,
                        struct note *note)
{
    int64_t unix_s;
    uint32_t nanos;

    *ret_time = (struct fleet_time){0};
    if (text.len == 0) return ERR_OK; /* the member is missing */
    if (rfc3339_parse(text, &unix_s, &nanos))
        return note_fail(note, ERR_PARSE, "field '%s': not a time", field);
    *ret_time = (struct fleet_time){FLEET_TIME_UNIX + unix_s, nanos};
    return ERR_OK;
}

enum err record_row(const struct format_record *record, size_t payload, enum fleet_table table,
                    struct fleet_row *ret_row, struct note *note)
{
    const struct str *texts = record->texts[payload];
    struct fleet_row row = {.table = table};
    enum err err = ERR_OK;

    for (size_t i = 0; i < fleet_row_texts[table]; i++)
        row.texts[i] = texts[i].at ? texts[i] : STR_EMPTY;
    if (table == FLEET_QUOTAS) {
        row.quota.slices = record->slices;
        row.quota.slice_count = record->slice_count;
    } else if (table == FLEET_LEAVING) {
        row.leaving.since = record->numbers[RECORD_SINCE];
    } else if (table == FLEET_SHARDS) {
        err = time_of(texts[TEXT_REGISTERED], "RegisteredAt", &row.shard.registered_at, note);
        if (!err)
            err = time_of(texts[TEXT_HEARTBEAT], "LastHeartbeat", &row.shard.last_heartbeat, note);
    }
    if (!err) *ret_row = row;
    return err;
}

/* -- writing -- */
static enum err time_put(struct buf *into, struct fleet_time time)
{
    char text[RFC3339_CAP];

    if (time.seconds < 0 || time.seconds > FLEET_TIME_SECONDS_MAX || time.nanos >= 1000000000u)
        return ERR_INVALID;
    rfc3339_text(time.seconds - FLEET_TIME_UNIX, time.nanos, RFC3339_SHORTEST, text);
    return buf_appendf(into, "\"%s\"", text);
}

static enum err value_put(struct buf *into, const struct shape_field *field,
                          const struct fleet_row *row, bool flag)
{
    switch (field->kind) {
    case SHAPE_TEXT: return json_text_put(into, row->texts[field->slot]);
    case SHAPE_TIME:
        return time_put(into, field->slot == TEXT_REGISTERED ? row->shard.registered_at
                                                             : row->shard.last_heartbeat);
    case SHAPE_NUMBER: return buf_appendf(into, "%llu", (unsigned long long)row->leaving.since);
    case SHAPE_FLAG: return buf_append_byte(into, '1');
    case SHAPE_SLICES: return json_slices_put(into, row->quota.slices, row->quota.slice_count);
    case SHAPE_OBJECT: return shape_put(into, field->shape, row, flag);
    case SHAPE_PAYLOAD:
    case SHAPE_ROW:
    case SHAPE_ROWS:
    case SHAPE_MAP:
    case SHAPE_IGNORED: break;
    }
    return ERR_INTERNAL; /* not reached: no row has such a field */
}

enum err shape_put(struct buf *into, const struct record_shape *shape, const struct fleet_row *row,
                   bool flag)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < shape->count; i++) {
        const struct shape_field *field = &shape->fields[i];
        if (field->kind == SHAPE_FLAG && !flag) continue;
        err = json_name_put(into, i ? ',' : '{', field->name);
        if (!err) err = value_put(into, field, row, flag);
    }
    return err ? err : buf_append_byte(into, '}');
}
