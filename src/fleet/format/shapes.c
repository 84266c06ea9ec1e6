/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as JSON. */
#include "fleet/format/shapes.h"

#include "text/rfc3339.h"

static_assert(FLEET_TIME_SECONDS_MAX - FLEET_TIME_UNIX == RFC3339_LAST_S, "every time has a text");

static enum err time_of(struct str text, const char *field, struct fleet_time *ret_time,
                        struct note *note)
{
    int64_t unix_s;
    uint32_t nanos;

    *ret_time = (struct fleet_time){0};
    if (text.len == 0) return ERR_OK; /* was not there */
    if (rfc3339_parse(text, &unix_s, &nanos)) {
        note_set(note, "field '%s': not a time", field);
        return ERR_PARSE;
    }
    *ret_time = (struct fleet_time){FLEET_TIME_UNIX + unix_s, nanos};
    return ERR_OK;
}

enum err shard_of(const struct record *record, size_t at, struct fleet_shard *ret_shard,
                  struct note *note)
{
    struct fleet_shard shard = {.id = record->texts[at], .address = record->texts[at + 1]};
    enum err err = time_of(record->texts[at + 2], "RegisteredAt", &shard.registered_at, note);

    if (!err) err = time_of(record->texts[at + 3], "LastHeartbeat", &shard.last_heartbeat, note);
    if (!err) *ret_shard = shard;
    return err;
}

static enum err time_put(struct buf *into, const char *before, struct fleet_time time)
{
    char text[RFC3339_CAP];

    if (time.seconds < 0 || time.seconds > FLEET_TIME_SECONDS_MAX || time.nanos >= 1000000000u)
        return ERR_INVALID;
    rfc3339_text(time.seconds - FLEET_TIME_UNIX, time.nanos, RFC3339_SHORTEST, text);
    return buf_appendf(into, "%s\"%s\"", before, text);
}

enum err shard_put(struct buf *into, const struct fleet_shard *shard, bool heartbeat)
{
    struct fleet_time unset = {0};
    enum err err = json_field_put(into, "{\"ID\":", shard->id);

    if (!err) err = json_field_put(into, ",\"Address\":", shard->address);
    if (!err) err = time_put(into, ",\"RegisteredAt\":", shard->registered_at);
    if (!err)
        err = time_put(into, ",\"LastHeartbeat\":", heartbeat ? shard->last_heartbeat : unset);
    return err ? err : buf_append_byte(into, '}');
}

enum err domain_put(struct buf *into, const struct fleet_domain *domain)
{
    enum err err = json_field_put(into, "{\"Key\":", domain->key);

    if (!err) err = json_field_put(into, ",\"Value\":", domain->value);
    return err ? err : buf_append_byte(into, '}');
}

enum err leaving_put(struct buf *into, const struct fleet_leaving *leaving)
{
    const struct fleet_domain domain = {leaving->key, leaving->value, STR_EMPTY};
    enum err err = buf_append_c(into, "{\"domain\":");

    if (!err) err = domain_put(into, &domain);
    if (!err) err = json_field_put(into, ",\"shard\":", leaving->shard);
    return err ? err : buf_appendf(into, ",\"since\":%llu}", (unsigned long long)leaving->since);
}

enum err quota_put(struct buf *into, const struct fleet_quota *quota)
{
    enum err err = json_field_put(into, "{\"key\":{\"Provider\":", quota->provider);

    if (!err) err = json_field_put(into, ",\"Region\":", quota->region);
    if (!err) err = buf_append_c(into, "},\"per_shard\":");
    if (!err) err = json_slices_put(into, quota->slices, quota->slice_count);
    return err ? err : buf_append_byte(into, '}');
}

enum err provider_put(struct buf *into, const struct fleet_provider *provider)
{
    enum err err = json_field_put(into, "{\"Name\":", provider->name);

    if (!err) err = json_field_put(into, ",\"Address\":", provider->address);
    if (!err) err = json_field_put(into, ",\"Region\":", provider->region);
    return err ? err : buf_append_byte(into, '}');
}
