/* SPDX-License-Identifier: Apache-2.0 */
/* Applies commands: the rules of the specification's section 5, in its order of checks, and the
 * rules of design.md section 6 for leaving domains. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "fleet/core/internal.h"

/* Limits per table: rows, and the texts of a new row. A text without a name must be the id of an
 * existing shard. */
static const struct {
    const char *name;
    uint32_t rows_max;
    struct {
        const char *field;
        size_t max;
    } texts[FLEET_TEXTS_MAX];
} limits[FLEET_TABLES] = {
    [FLEET_SHARDS] = {"shards",
                      FLEET_SHARDS_MAX,
                      {{"shard id", FLEET_ID_MAX}, {"shard address", FLEET_ADDRESS_MAX}}},
    [FLEET_CLUSTERS] = {"clusters", FLEET_CLUSTERS_MAX, {{"cluster id", FLEET_ID_MAX}}},
    [FLEET_DOMAINS] = {"domains",
                       FLEET_DOMAINS_MAX,
                       {{"label key", FLEET_LABEL_KEY_MAX},
                        {"label value", FLEET_LABEL_VALUE_MAX}}},
    [FLEET_QUOTAS] = {"quotas",
                      FLEET_QUOTAS_MAX,
                      {{"provider", FLEET_ID_MAX}, {"region", FLEET_ID_MAX}}},
    [FLEET_PROVIDERS] = {"providers",
                         FLEET_PROVIDERS_MAX,
                         {{"provider name", FLEET_ID_MAX},
                          {"provider address", FLEET_ADDRESS_MAX},
                          {"region", FLEET_ID_MAX}}},
    [FLEET_LEAVING] = {"leaving domains",
                       FLEET_DOMAINS_MAX,
                       {{"label key", FLEET_LABEL_KEY_MAX},
                        {"label value", FLEET_LABEL_VALUE_MAX},
                        {"shard id", FLEET_ID_MAX}}},
};

/* -- life cycle -- */
enum err fleet_open(struct fleet **ret_fleet)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);

    if (!fleet) return ERR_NOMEM;
    fleet->bytes = memory_cost(sizeof *fleet);
    fleet_kinds_init(fleet);
    *ret_fleet = fleet;
    return ERR_OK;
}

/* Subtracts the row's hash and gives the row to open views. The row stays in its table's order. */
static void row_leave(struct fleet *fleet, enum fleet_table table, void *row)
{
    fleet->sum -= row_hash(table, row);
    views_keep(fleet, table, row);
}

/* Shards, the first table, are freed last, because other rows refer to them. */
void fleet_clear(struct fleet *fleet)
{
    views_cancel(fleet);
    for (unsigned t = FLEET_TABLES; t-- > 0;) {
        struct order_place place = order_begin(&fleet->tables[t]);

        for (void *row; (row = order_next(&place));) {
            struct order *owned = row_owned(t, row);
            if (owned) order_clear(owned);
        }
        rows_drop(fleet, t, &fleet->tables[t]);
    }
    assert(fleet->labels.count == 0 && fleet->leavers.count == 0);
    fleet->sum = 0;
    fleet->changes++;
}

void fleet_close(struct fleet *fleet)
{
    if (!fleet) return;
    for (unsigned i = 0; i < FLEET_VIEWS_MAX; i++) assert(!fleet->views[i]);
    fleet_clear(fleet);
    /* all counted memory was freed */
    assert(fleet->bytes == memory_cost(sizeof *fleet));
    free(fleet);
}

/* -- checks -- */
static bool result_refuse(struct fleet_result *result, enum fleet_status status)
{
    result->status = status;
    return false;
}

static bool result_refuse_field(struct fleet_result *result, enum fleet_status status,
                                const char *field, uint64_t number)
{
    result->field = field;
    result->number = number;
    return result_refuse(result, status);
}

static bool text_fits(struct str text, size_t max, const char *field, struct fleet_result *result)
{
    if (text.len > max) return result_refuse_field(result, FLEET_TOO_LONG, field, max);
    return str_is_utf8(text) || result_refuse_field(result, FLEET_NOT_TEXT, field, 0);
}

static bool texts_fit(const struct fleet_row *row, struct fleet_result *result)
{
    bool fit = true;

    for (size_t i = 0; fit && i < FLEET_TEXTS_MAX && limits[row->table].texts[i].field; i++)
        fit = text_fits(row->texts[i], limits[row->table].texts[i].max,
                        limits[row->table].texts[i].field, result);
    return fit;
}

static bool table_has_room(const struct fleet *fleet, enum fleet_table table,
                           struct fleet_result *result)
{
    uint32_t rows = fleet->tables[table].count;

    /* Every assigned domain may become leaving. */
    if (table == FLEET_DOMAINS) rows += fleet->tables[FLEET_LEAVING].count;
    return rows < limits[table].rows_max ||
           result_refuse_field(result, FLEET_FULL, limits[table].name, limits[table].rows_max);
}

static struct shard_row *shard_find(const struct fleet *fleet, struct str id)
{
    return order_find(&fleet->tables[FLEET_SHARDS], (struct order_key){.first = id});
}

static struct shard_row *shard_need(const struct fleet *fleet, struct str id,
                                    struct fleet_result *result)
{
    struct shard_row *shard = shard_find(fleet, id);

    if (!shard) result->status = FLEET_SHARD_NOT_FOUND;
    return shard;
}

/* -- adding and removing -- */
static void row_enter(struct fleet *fleet, enum fleet_table table, void *row,
                      struct fleet_result *result)
{
    fleet->sum += row_hash(table, row);
    fleet->changes++;
    result->changed = true;
}

/* Adds the row to its table and to its owner's rows. `shard` is NULL for rows without a shard. */
static void row_add(struct fleet *fleet, const struct fleet_row *from, struct shard_row *shard,
                    struct fleet_result *result)
{
    void *row = row_make(fleet, from, shard);
    struct order *table = &fleet->tables[from->table];
    struct order *owned = row ? row_owned(from->table, row) : NULL;
    bool inserted = row && !order_insert(table, row);

    if (inserted && (!owned || !order_insert(owned, row))) {
        row_enter(fleet, from->table, row, result);
        return;
    }
    if (inserted) order_remove(table, row);
    if (row) row_drop(fleet, from->table, row);
    result->status = FLEET_NO_MEMORY;
}

/* Adds the row if the table has room, or replaces `old`. */
static void row_add_or_replace(struct fleet *fleet, const struct fleet_row *from, void *old,
                               struct fleet_result *result)
{
    void *row;

    if (!old) {
        if (table_has_room(fleet, from->table, result)) row_add(fleet, from, NULL, result);
        return;
    }
    row = row_make(fleet, from, NULL);
    if (!row) {
        result->status = FLEET_NO_MEMORY;
        return;
    }
    row_leave(fleet, from->table, old);
    order_replace(&fleet->tables[from->table], old, row);
    row_drop(fleet, from->table, old);
    row_enter(fleet, from->table, row, result);
}

static void row_take_out(struct fleet *fleet, enum fleet_table table, void *row,
                         struct fleet_result *result)
{
    struct order *owned = row_owned(table, row);

    row_leave(fleet, table, row);
    if (owned) order_remove(owned, row);
    order_remove(&fleet->tables[table], row);
    row_drop(fleet, table, row);
    fleet->changes++;
    result->changed = true;
}

/* -- shards and clusters -- */
static void add_shard(struct fleet *fleet, const struct fleet_row *row, struct fleet_result *result)
{
    struct fleet_time at = row->shard.registered_at;

    if (row->shard.id.len == 0) {
        result->status = FLEET_SHARD_ID_EMPTY;
    } else if (!texts_fit(row, result)) {
        return;
    } else if (at.seconds < 0 || at.seconds > FLEET_TIME_SECONDS_MAX || at.nanos >= 1000000000u) {
        result_refuse_field(result, FLEET_BAD_TIME, "registered at", 0);
    } else if (shard_find(fleet, row->shard.id)) {
        result->status = FLEET_SHARD_EXISTS;
    } else if (table_has_room(fleet, FLEET_SHARDS, result)) {
        row_add(fleet, row, NULL, result);
    }
}

static void bind_cluster(struct fleet *fleet, const struct fleet_row *row,
                         struct fleet_result *result)
{
    struct shard_row *shard = shard_need(fleet, row->cluster.shard, result);
    const struct cluster_row *old;

    if (!shard) return;
    old = order_find(&fleet->tables[FLEET_CLUSTERS], (struct order_key){.first = row->cluster.id});
    if (old && old->shard != shard) {
        result->status = FLEET_CLUSTER_BOUND;
        result->holder = shard_row_id(old->shard);
    }
    if (!old && texts_fit(row, result) && table_has_room(fleet, FLEET_CLUSTERS, result))
        row_add(fleet, row, shard, result);
}

/* -- leaving domains -- */
static struct leaving_row *leaving_find(const struct fleet *fleet, struct str key, struct str value,
                                        struct str shard)
{
    char room[LEAVING_TEXT_MAX];
    struct str text;

    if (fleet->tables[FLEET_LEAVING].count == 0) return NULL; /* the usual case */
    if (!leaving_text(key, value, room, &text)) return NULL;
    return order_find(&fleet->tables[FLEET_LEAVING], (struct order_key){text, shard});
}

/* has_own: the domain is leaving its new owner. With `force`, a domain may be leaving
 * FLEET_LEAVERS_MAX shards. */
static bool leaving_allows(const struct fleet *fleet, const struct fleet_domain *domain, bool force,
                           bool has_own, struct fleet_result *result)
{
    struct fleet_leaving leaving;
    uint32_t others =
        fleet_find_leaving(fleet, domain->key, domain->value, domain->shard, &leaving);

    if (!others) return true;
    if (!force) {
        result->holder = leaving.shard;
        return result_refuse(result, FLEET_DOMAIN_LEAVING);
    }
    return others + has_own < FLEET_LEAVERS_MAX ||
           result_refuse_field(result, FLEET_FULL, "shards that a domain is leaving",
                               FLEET_LEAVERS_MAX);
}

static void clear_leaving(struct fleet *fleet, const struct fleet_leaving *leaving,
                          struct fleet_result *result)
{
    struct leaving_row *row = leaving_find(fleet, leaving->key, leaving->value, leaving->shard);

    if (row && row->since == leaving->since) row_take_out(fleet, FLEET_LEAVING, row, result);
}

static void assign_domain(struct fleet *fleet, const struct fleet_row *row, bool force,
                          struct fleet_result *result)
{
    const struct fleet_domain *domain = &row->domain;
    struct shard_row *shard = shard_need(fleet, domain->shard, result);
    const struct domain_row *old;
    struct leaving_row *leaving;

    if (!shard) return;
    old = domain_find(fleet, domain->key, domain->value);
    if (old && old->shard != shard) {
        result->status = FLEET_DOMAIN_ASSIGNED;
        result->holder = shard_row_id(old->shard);
    }
    if (old || !texts_fit(row, result)) return;
    leaving = leaving_find(fleet, domain->key, domain->value, domain->shard);
    if (!leaving_allows(fleet, domain, force, leaving != NULL, result)) return;
    if (!leaving && !table_has_room(fleet, FLEET_DOMAINS, result)) return;
    row_add(fleet, row, shard, result);
    if (leaving && result->status == FLEET_DONE)
        row_take_out(fleet, FLEET_LEAVING, leaving, result);
}

static void set_quota(struct fleet *fleet, const struct fleet_row *row, struct fleet_result *result)
{
    const struct fleet_quota *quota = &row->quota;
    struct order_key key = {quota->provider, quota->region};
    bool fits = texts_fit(row, result);

    if (fits && quota->slice_count > FLEET_SLICES_MAX)
        fits = result_refuse_field(result, FLEET_TOO_LONG, "quota row", FLEET_SLICES_MAX);
    for (size_t i = 0; fits && i < quota->slice_count; i++)
        fits = text_fits(quota->slices[i].shard, FLEET_ID_MAX, "shard id", result);
    if (fits) row_add_or_replace(fleet, row, order_find(&fleet->tables[FLEET_QUOTAS], key), result);
}

static void upsert_provider(struct fleet *fleet, const struct fleet_row *row,
                            struct fleet_result *result)
{
    struct order_key key = {.first = row->provider.name};

    if (row->provider.name.len == 0)
        result->status = FLEET_PROVIDER_NAME_EMPTY;
    else if (texts_fit(row, result))
        row_add_or_replace(fleet, row, order_find(&fleet->tables[FLEET_PROVIDERS], key), result);
}

/* -- removing -- */
static uint32_t owned_remove(struct fleet *fleet, enum fleet_table table, struct order *owned)
{
    struct order_place place = order_begin(owned);
    uint32_t count = owned->count;

    for (void *row; (row = order_next(&place));) {
        row_leave(fleet, table, row);
        order_remove(&fleet->tables[table], row);
    }
    rows_drop(fleet, table, owned);
    return count;
}

static void domain_leaves(struct fleet *fleet, const struct domain_row *row,
                          struct fleet_entry entry, struct fleet_result *result)
{
    struct fleet_row leaving;

    row_show(FLEET_DOMAINS, row, &leaving); /* the texts are the same */
    leaving.table = FLEET_LEAVING;
    leaving.leaving.since = entry.index;
    row_add(fleet, &leaving, NULL, result);
}

/* If memory runs out, the added rows are removed again. */
static void owned_leave(struct fleet *fleet, const struct shard_row *shard,
                        struct fleet_entry entry, struct fleet_result *result)
{
    struct order_place place = order_begin(&shard->domains);
    struct fleet_result undo = {.status = FLEET_DONE};
    uint32_t done = 0;

    for (const void *row; result->status == FLEET_DONE && (row = order_next(&place));) {
        domain_leaves(fleet, row, entry, result);
        if (result->status == FLEET_DONE) done++;
    }
    if (result->status == FLEET_DONE) return;
    result->changed = false;
    place = order_begin(&shard->domains);
    for (const void *row; done > 0 && (row = order_next(&place)); done--) {
        struct order_key key = row_key(FLEET_DOMAINS, row);
        row_take_out(fleet, FLEET_LEAVING,
                     leaving_find(fleet, key.first, key.second, shard_row_id(shard)), &undo);
    }
}

static void remove_shard(struct fleet *fleet, struct str id, struct fleet_entry entry,
                         struct fleet_result *result)
{
    struct shard_row *shard = shard_need(fleet, id, result);

    if (!shard) return;
    if (entry.level >= FLEET_LEAVING_LEVEL) owned_leave(fleet, shard, entry, result);
    if (result->status != FLEET_DONE) return;
    result->clusters_freed = owned_remove(fleet, FLEET_CLUSTERS, &shard->clusters);
    result->domains_freed = owned_remove(fleet, FLEET_DOMAINS, &shard->domains);
    row_take_out(fleet, FLEET_SHARDS, shard, result);
}

static void unassign_domain(struct fleet *fleet, const struct fleet_domain *domain,
                            struct fleet_entry entry, struct fleet_result *result)
{
    struct domain_row *row = domain_find(fleet, domain->key, domain->value);

    if (!row) return;
    if (entry.level >= FLEET_LEAVING_LEVEL) domain_leaves(fleet, row, entry, result);
    if (result->status != FLEET_DONE) return;
    result->holder = shard_row_id(row->shard);
    row_take_out(fleet, FLEET_DOMAINS, row, result);
}

struct fleet_result fleet_apply_entry(struct fleet *fleet, const struct fleet_command *command,
                                      struct fleet_entry entry)
{
    struct fleet_result result = {.status = FLEET_DONE, .holder = STR_EMPTY, .field = ""};
    bool known = command->kind >= FLEET_ADD_SHARD && command->kind <= FLEET_KIND_LAST;
    struct fleet_row row = {.table = known ? fleet_kind_table(command->kind) : FLEET_TABLES,
                            .content = command->content};

    switch (command->kind) {
    case FLEET_ADD_SHARD: add_shard(fleet, &row, &result); break;
    case FLEET_REMOVE_SHARD: remove_shard(fleet, command->remove_shard, entry, &result); break;
    case FLEET_BIND_CLUSTER: bind_cluster(fleet, &row, &result); break;
    case FLEET_ASSIGN_DOMAIN: assign_domain(fleet, &row, command->force, &result); break;
    case FLEET_UNASSIGN_DOMAIN:
        unassign_domain(fleet, &command->unassign_domain, entry, &result);
        break;
    case FLEET_SET_QUOTA: set_quota(fleet, &row, &result); break;
    case FLEET_UPSERT_PROVIDER: upsert_provider(fleet, &row, &result); break;
    case FLEET_CLEAR_LEAVING: clear_leaving(fleet, &command->clear_leaving, &result); break;
    default: result.status = FLEET_UNKNOWN_KIND; result.number = (uint64_t)command->kind;
    }
    assert(result.status == FLEET_DONE || !result.changed);
    return result;
}

struct fleet_result fleet_apply(struct fleet *fleet, const struct fleet_command *command)
{
    return fleet_apply_entry(fleet, command, (struct fleet_entry){.index = 0, .level = 1});
}

struct fleet_result fleet_put(struct fleet *fleet, const struct fleet_row *row)
{
    struct fleet_result result = {.status = FLEET_DONE, .holder = STR_EMPTY, .field = ""};
    const struct fleet_leaving *leaving = &row->leaving;
    const struct domain_row *domain;
    struct fleet_command command;

    if (row->table != FLEET_LEAVING) {
        command = fleet_row_command(row);
        command.force = true; /* an assigned domain may still be leaving */
        return fleet_apply(fleet, &command);
    }
    if (leaving->shard.len == 0) {
        result.status = FLEET_SHARD_ID_EMPTY;
        return result;
    }
    if (!texts_fit(row, &result) ||
        leaving_find(fleet, leaving->key, leaving->value, leaving->shard) ||
        !table_has_room(fleet, FLEET_DOMAINS, &result))
        return result;
    domain = domain_find(fleet, leaving->key, leaving->value);
    if (domain && str_equal(shard_row_id(domain->shard), leaving->shard)) {
        result.status = FLEET_DOMAIN_ASSIGNED;
        result.holder = shard_row_id(domain->shard);
        return result;
    }
    row_add(fleet, row, NULL, &result);
    return result;
}

/* -- heartbeats -- */
bool fleet_heartbeat(struct fleet *fleet, struct str id, struct fleet_time now)
{
    struct shard_row *shard = shard_find(fleet, id);

    if (shard) shard->last_heartbeat = now;
    return shard != NULL;
}

void fleet_heartbeats_clear(struct fleet *fleet)
{
    struct order_place place = order_begin(&fleet->tables[FLEET_SHARDS]);

    for (struct shard_row *shard; (shard = order_next(&place));)
        shard->last_heartbeat = (struct fleet_time){0};
}

/* -- totals -- */
struct fleet_counts fleet_counts(const struct fleet *fleet)
{
    struct fleet_counts counts;

    for (unsigned t = 0; t < FLEET_TABLES; t++) counts.of[t] = fleet->tables[t].count;
    return counts;
}

uint64_t fleet_hash(const struct fleet *fleet)
{
    /* Without leaving domains, the hash must equal the hash of older releases. */
    size_t tables = fleet->tables[FLEET_LEAVING].count > 0 ? FLEET_TABLES : FLEET_LEAVING;
    char bytes[8 * (FLEET_TABLES + 1)];

    store_le64(bytes, fleet->sum);
    for (size_t t = 0; t < tables; t++) store_le64(bytes + 8 * (t + 1), fleet->tables[t].count);
    return str_hash(str_of(bytes, 8 * (tables + 1)), 1);
}

uint64_t fleet_bytes(const struct fleet *fleet)
{
    return fleet->bytes;
}
