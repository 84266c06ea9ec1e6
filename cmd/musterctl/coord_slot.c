/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord acquire, holders and resize: groups of slots; caps: what a store supports. */
#include <inttypes.h>
#include <stdio.h>

#include "base/hex.h"
#include "musterctl/coord.h"

enum err coord_ctl_acquire(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    const char *group = conf_text(ctl->conf, "group");
    const char *path = conf_text(ctl->conf, "lease");
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_lease *lease = NULL;
    char memory[132];
    enum err err = coord_ctl_value(ctl, 0, &request.value);

    if (err) return err;
    coord_ctl_slot(ctl, &request, memory);
    request.cooldown_ms = (int64_t)conf_number(ctl->conf, "cooldown");
    if (conf_is_set(ctl->conf, "prefer"))
        request.prefer_slot = (uint32_t)conf_number(ctl->conf, "prefer");
    coord_result result = coord_acquire_slot(coord->store, &coord->call, &request, &lease);
    err = coord_ctl_error(ctl, &result);
    if (!err) err = coord_ctl_keep_lease(coord, lease, path);
    if (err && lease != NULL) (void)coord_release(lease, &coord->call);
    coord_lease_unref(lease);
    if (err) return err;
    return coord_ctl_say(coord, &result, group, path,
                         "acquired slot %" PRIu32 " of %s (token %" PRIu64 ") for %" PRId64 " ms",
                         result.slot, group, result.token, result.granted_ttl_ms);
}

static void slot_print_holders_json(struct ctl *ctl, const coord_holders *holders)
{
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_u64(json, STR("slot_count"), holders->slot_count);
    ndjson_u64(json, STR("revision"), holders->revision);
    ndjson_bool(json, STR("atomic"), holders->atomic != 0);
    ndjson_c_string(json, STR("certainty"),
                    holders->certainty == COORD_BY_AUTHORITY ? "authority" : "observed");
    ndjson_open_array(json, STR("holders"));
    for (size_t i = 0; i < holders->count; i++) {
        const coord_holder *row = &holders->rows[i];
        char lease[2 * sizeof row->lease_id_prefix + 1];
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_u64(json, STR("slot"), row->slot);
        ndjson_c_string(json, STR("owner"), row->owner);
        ndjson_u64(json, STR("token"), row->token);
        ndjson_u64(json, STR("revision"), row->revision);
        hex_write(row->lease_id_prefix, sizeof row->lease_id_prefix, lease);
        ndjson_c_string(json, STR("lease_id_prefix"), lease);
        ndjson_i64(json, STR("remaining_ms"), row->remaining_ms);
        ndjson_string(json, STR("value"), str_of(row->value.at, row->value.len));
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
    ctl_json_end(ctl);
}

static void slot_print_holders(struct ctl *ctl, const coord_holders *holders)
{
    struct text_table table;

    table_init(&table, TABLE_COLUMNS("SLOT", "OWNER", "TOKEN", "REMAINING_MS"), &ctl->memory);
    for (size_t i = 0; i < holders->count; i++) {
        table_number(&table, holders->rows[i].slot);
        table_text(&table, holders->rows[i].owner);
        table_number(&table, (int64_t)holders->rows[i].token);
        table_number(&table, holders->rows[i].remaining_ms);
    }
    ctl_print_table(ctl, &table);
    if (!(ctl->table_flags & (TABLE_NAMES | TABLE_NO_HEADERS)))
        ctl_line(ctl, "%zu of %" PRIu32 " slots held", holders->count, holders->slot_count);
}

enum err coord_ctl_holders(struct coord_ctl *coord)
{
    coord_holders *found = NULL;
    coord_result result =
        coord_list_holders(coord->store, &coord->call, coord_ctl_argument(coord->ctl, 0), &found);
    enum err err = coord_ctl_error(coord->ctl, &result);

    if (!err) (coord->ctl->json ? slot_print_holders_json : slot_print_holders)(coord->ctl, found);
    coord_holders_free(found);
    return err;
}

enum err coord_ctl_resize(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_str group = coord_ctl_argument(ctl, 0);
    uint64_t slots, revision = conf_number(ctl->conf, "revision");
    enum err err = str_to_u64(str_from(conf_argument(ctl->conf, 1)), &slots);

    if (err || slots > UINT32_MAX)
        return ctl_fail(ctl, ERR_INVALID, "SLOTS: a number from 1 to 1024");
    if (revision == 0) {
        coord_holders *now = NULL;
        coord_result read = coord_list_holders(coord->store, &coord->call, group, &now);
        err = coord_ctl_error(ctl, &read);
        if (!err) revision = now->revision;
        coord_holders_free(now);
        if (err) return err;
    }
    coord_result result =
        coord_resize_group(coord->store, &coord->call, group, revision, (uint32_t)slots);
    return coord_ctl_say(coord, &result, group.at, NULL, "resized %s to %" PRIu64 " slots",
                         group.at, slots);
}

static const struct {
    uint32_t bit;
    const char *name, *means;
} bits[] = {
    {COORD_CAP_CREATE, "create", "create if absent is one step"},
    {COORD_CAP_CAS, "cas", "compare and set is one step"},
    {COORD_CAP_TTL, "ttl", "claims end unless renewed"},
    {COORD_CAP_SLOTS, "slots", "groups with a bounded number of holders"},
    {COORD_CAP_SHRINK, "shrink", "a group can get fewer slots"},
    {COORD_CAP_STORE_ORDER, "store_order", "revisions of different keys compare"},
    {COORD_CAP_LIST_ATOMIC, "list_atomic", "holders are those of one instant"},
    {COORD_CAP_COOLDOWN, "cooldown", "a slot can rest after an expiry"},
    {COORD_CAP_FIFO_WAIT, "fifo_wait", "waiters are served in order of arrival"},
    {COORD_CAP_MULTI_KEY, "multi_key", "one claim may hold several keys"},
    {COORD_CAP_DURABLE, "durable", "acknowledged entries survive a power cut"},
    {COORD_CAP_DURABLE_LEASED, "durable_leased", "so do claims"},
    {COORD_CAP_HA, "ha", "survives the loss of a machine"},
    {COORD_CAP_OBSERVED_EXPIRY, "observed_expiry", "contenders judge expiry by their own clock"},
    {COORD_CAP_EXACT_OWNER, "exact_owner", "the same-owner check holds under races"},
    {COORD_CAP_FORCE, "force", "delete --force"},
};
static const char *const scopes[] = {"?", "process", "mount", "host", "cluster"};
static const char *const watches[] = {"none", "poll", "coalescing", "ordered", "resumable"};
static const char *const tokens[] = {"none", "process", "store"};

static const char *slot_word(const char *const *words, size_t count, int which)
{
    return which >= 0 && (size_t)which < count ? words[which] : "?";
}
#define WORD(words, which) slot_word(words, ARRAY_LEN(words), which)

static void slot_print_caps_json(struct ctl *ctl, const coord_caps *caps,
                                 const coord_limits *limits)
{
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_c_string(json, STR("server"), caps->server);
    ndjson_c_string(json, STR("scope"), WORD(scopes, caps->scope));
    ndjson_c_string(json, STR("watch"), WORD(watches, caps->watch));
    ndjson_c_string(json, STR("token"), WORD(tokens, caps->token));
    ndjson_bool(json, STR("degraded"), caps->degraded != 0);
    ndjson_i64(json, STR("ttl_min_ms"), limits->ttl_min_ms);
    ndjson_u64(json, STR("value_max"), limits->value_max);
    for (size_t i = 0; i < ARRAY_LEN(bits); i++)
        ndjson_bool(json, str_from(bits[i].name), (caps->bits & bits[i].bit) != 0);
    ndjson_c_string(json, STR("note"), caps->note);
    ctl_json_end(ctl);
}

static void slot_caps_row(struct text_table *table, const char *name, const char *here,
                          const char *means)
{
    table_text(table, name);
    table_text(table, here);
    table_text(table, means);
}

enum err coord_ctl_caps(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_caps found = coord_capabilities(coord->store);
    coord_limits limits = coord_store_limits(coord->store);
    char number[32];
    struct text_table table;

    if (ctl->json) {
        slot_print_caps_json(ctl, &found, &limits);
        return ERR_OK;
    }
    table_init(&table, TABLE_COLUMNS("CAPABILITY", "HERE", "MEANS"), &ctl->memory);
    slot_caps_row(&table, "server", found.server, "what was found there");
    slot_caps_row(&table, "scope", WORD(scopes, found.scope), "\"the only one\" where");
    slot_caps_row(&table, "watch", WORD(watches, found.watch), "how changes are seen");
    slot_caps_row(&table, "token", WORD(tokens, found.token), "how far fencing tokens increase");
    (void)snprintf(number, sizeof number, "%" PRId64, limits.ttl_min_ms);
    slot_caps_row(&table, "ttl_min_ms", number, "the shortest claim");
    for (size_t i = 0; i < ARRAY_LEN(bits); i++)
        slot_caps_row(&table, bits[i].name, found.bits & bits[i].bit ? "yes" : "no", bits[i].means);
    ctl_print_table(ctl, &table);
    if (found.note[0]) ctl_line(ctl, "%s", found.note);
    if (found.degraded) ctl_line(ctl, "degraded: new claims are refused");
    return ERR_OK;
}
