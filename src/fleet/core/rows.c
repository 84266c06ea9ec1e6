/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as they are kept: one block of memory each, texts behind the fixed part. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "fleet/core/internal.h"

/* Seeds of the rows' hashes: what is in one table never counts for another. */
static const uint64_t seeds[FLEET_TABLES] = {
    [FLEET_SHARDS] = 0x51a2d, [FLEET_CLUSTERS] = 0xc1057e2,   [FLEET_DOMAINS] = 0xd03a12,
    [FLEET_QUOTAS] = 0x907a5, [FLEET_PROVIDERS] = 0x920d1de2, [FLEET_LEAVING] = 0x1ea719,
};

static char *put(char *at, struct str text)
{
    if (text.len > 0) memcpy(at, text.at, text.len);
    return at + text.len;
}

struct str shard_row_id(const struct shard_row *shard)
{
    return str_of(shard->text, shard->id_len);
}

static struct str name_text(const struct name *name)
{
    return str_of(name->text, name->len);
}

/* -- keys -- */
static struct order_key shard_key(const void *row)
{
    return (struct order_key){.first = shard_row_id(row)};
}

static struct order_key cluster_key(const void *row)
{
    const struct cluster_row *cluster = row;
    return (struct order_key){.first = str_of(cluster->text, cluster->id_len)};
}

static struct order_key domain_key(const void *row)
{
    const struct domain_row *domain = row;
    return (struct order_key){name_text(domain->label), str_of(domain->text, domain->value_len)};
}

static struct order_key quota_key(const void *row)
{
    const struct quota_row *quota = row;
    return (struct order_key){str_of(quota->text, quota->provider_len),
                              str_of(quota->text + quota->provider_len, quota->region_len)};
}

static struct order_key provider_key(const void *row)
{
    const struct provider_row *provider = row;
    return (struct order_key){.first = str_of(provider->text, provider->name_len)};
}

static struct order_key name_key(const void *row)
{
    return (struct order_key){.first = name_text(row)};
}

static struct order_key leaving_key(const void *row)
{
    const struct leaving_row *leaving = row;
    size_t len = (size_t)leaving->key_len + leaving->value_len + 2;

    return (struct order_key){str_of(leaving->text, len), name_text(leaving->leaver)};
}

static struct order_key (*const keys[FLEET_TABLES])(const void *row) = {
    [FLEET_SHARDS] = shard_key, [FLEET_CLUSTERS] = cluster_key,   [FLEET_DOMAINS] = domain_key,
    [FLEET_QUOTAS] = quota_key, [FLEET_PROVIDERS] = provider_key, [FLEET_LEAVING] = leaving_key,
};

void fleet_kinds_init(struct fleet *fleet)
{
    for (unsigned t = 0; t < FLEET_TABLES; t++) {
        fleet->kinds[t] = (struct order_kind){keys[t], &fleet->bytes};
        fleet->tables[t] = (struct order){.kind = &fleet->kinds[t]};
    }
    fleet->name_kind = (struct order_kind){name_key, &fleet->bytes};
    fleet->labels = fleet->leavers = (struct order){.kind = &fleet->name_kind};
}

struct order_key row_key(enum fleet_table table, const void *row)
{
    return keys[table](row);
}

/* -- names -- */
struct name *name_find(const struct order *names, struct str text)
{
    return order_find(names, (struct order_key){.first = text});
}

/* By the label's own text, so that comparing it with the rows' is no look at the bytes. */
struct domain_row *domain_find(const struct fleet *fleet, struct str key, struct str value)
{
    const struct name *label = name_find(&fleet->labels, key);

    if (!label) return NULL;
    return order_find(&fleet->tables[FLEET_DOMAINS], (struct order_key){name_text(label), value});
}

static struct name *name_hold(struct fleet *fleet, struct order *names, struct str text)
{
    struct name *name = name_find(names, text);

    if (name) {
        name->holders++;
        return name;
    }
    name = memory_take(&fleet->bytes, sizeof *name + text.len);
    if (!name) return NULL;
    *name = (struct name){.holders = 1,
                          .len = (uint16_t)text.len,
                          .hash = str_hash(text, seeds[FLEET_DOMAINS]),
                          .rows.kind = &fleet->kinds[FLEET_LEAVING]};
    put(name->text, text);
    if (!order_insert(names, name)) return name;
    memory_give(&fleet->bytes, name, sizeof *name + text.len);
    return NULL;
}

static void name_drop(struct fleet *fleet, struct order *names, struct name *name)
{
    if (--name->holders > 0) return;
    assert(name->rows.count == 0);
    order_remove(names, name);
    memory_give(&fleet->bytes, name, sizeof *name + name->len);
}

/* -- making -- */
static struct row row_new(const struct fleet *fleet)
{
    return (struct row){.holders = 1, .born = fleet->view_number};
}

void *row_make_shard(struct fleet *fleet, const struct fleet_shard *shard)
{
    struct shard_row *row =
        memory_take(&fleet->bytes, sizeof *row + shard->id.len + shard->address.len);

    if (!row) return NULL;
    *row = (struct shard_row){.row = row_new(fleet),
                              .id_len = (uint16_t)shard->id.len,
                              .address_len = (uint16_t)shard->address.len,
                              .registered_at = shard->registered_at,
                              .clusters.kind = &fleet->kinds[FLEET_CLUSTERS],
                              .domains.kind = &fleet->kinds[FLEET_DOMAINS]};
    put(put(row->text, shard->id), shard->address);
    return row;
}

void *row_make_cluster(struct fleet *fleet, const struct fleet_cluster *cluster,
                       struct shard_row *shard)
{
    struct cluster_row *row = memory_take(&fleet->bytes, sizeof *row + cluster->id.len);

    if (!row) return NULL;
    *row = (struct cluster_row){
        .row = row_new(fleet), .shard = shard, .id_len = (uint16_t)cluster->id.len};
    put(row->text, cluster->id);
    shard->row.holders++;
    return row;
}

void *row_make_domain(struct fleet *fleet, const struct fleet_domain *domain,
                      struct shard_row *shard)
{
    size_t size = offsetof(struct domain_row, text) + domain->value.len;
    struct domain_row *row = memory_take(&fleet->bytes, size);
    struct name *label;

    if (!row) return NULL;
    label = name_hold(fleet, &fleet->labels, domain->key);
    if (!label) {
        memory_give(&fleet->bytes, row, size);
        return NULL;
    }
    row->row = row_new(fleet); /* member by member: the block may be shorter than the struct */
    row->label = label;
    row->shard = shard;
    row->value_len = (uint16_t)domain->value.len;
    put(row->text, domain->value);
    shard->row.holders++;
    return row;
}

/* By shard; the same shard's in the order they came, which is that of their texts in the row. */
static int slice_compare(const void *a, const void *b)
{
    const struct fleet_slice *left = a, *right = b;
    int sign = str_compare(left->shard, right->shard);

    if (sign) return sign;
    return left->shard.at < right->shard.at ? -1 : left->shard.at > right->shard.at;
}

/* Ascending by shard; of the same shard the one that came last stays. */
static uint32_t slices_settle(struct fleet_slice *slices, size_t count)
{
    uint32_t kept = 0;

    if (count > 1) qsort(slices, count, sizeof slices[0], slice_compare);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && str_equal(slices[kept - 1].shard, slices[i].shard)) kept--;
        slices[kept++] = slices[i];
    }
    return kept;
}

void *row_make_quota(struct fleet *fleet, const struct fleet_quota *quota)
{
    size_t size = sizeof(struct quota_row) + quota->provider.len + quota->region.len;
    struct quota_row *row;
    char *at;

    for (size_t i = 0; i < quota->slice_count; i++)
        size += sizeof row->slices[0] + quota->slices[i].shard.len + 1;
    row = memory_take(&fleet->bytes, size);
    if (!row) return NULL;
    at = (char *)(row->slices + quota->slice_count);
    *row = (struct quota_row){.row = row_new(fleet),
                              .provider_len = (uint16_t)quota->provider.len,
                              .region_len = (uint16_t)quota->region.len,
                              .size = size,
                              .text = at};
    at = put(put(at, quota->provider), quota->region);
    for (size_t i = 0; i < quota->slice_count; i++) {
        row->slices[i] =
            (struct fleet_slice){str_of(at, quota->slices[i].shard.len), quota->slices[i].slice};
        at = put(at, quota->slices[i].shard) + 1; /* no two at one address, empty ones neither */
    }
    row->slice_count = slices_settle(row->slices, quota->slice_count);
    return row;
}

void *row_make_provider(struct fleet *fleet, const struct fleet_provider *provider)
{
    struct provider_row *row =
        memory_take(&fleet->bytes, sizeof *row + provider->name.len + provider->address.len +
                                       provider->region.len);

    if (!row) return NULL;
    *row = (struct provider_row){.row = row_new(fleet),
                                 .name_len = (uint16_t)provider->name.len,
                                 .address_len = (uint16_t)provider->address.len,
                                 .region_len = (uint16_t)provider->region.len};
    put(put(put(row->text, provider->name), provider->address), provider->region);
    return row;
}

/* -- leaving domains -- */
static char *put_leaving_text(char *at, struct str key, struct str value)
{
    at = put(put(at, key), value);
    store_le16(at, (uint16_t)key.len);
    return at + 2;
}

bool leaving_text(struct str key, struct str value, char text[LEAVING_TEXT_MAX],
                  struct str *ret_text)
{
    if (key.len > FLEET_LABEL_KEY_MAX || value.len > FLEET_LABEL_VALUE_MAX) return false;
    *ret_text = str_of(text, (size_t)(put_leaving_text(text, key, value) - text));
    return true;
}

void *row_make_leaving(struct fleet *fleet, const struct fleet_leaving *leaving)
{
    size_t size = sizeof(struct leaving_row) + leaving->key.len + leaving->value.len + 2;
    struct leaving_row *row = memory_take(&fleet->bytes, size);
    struct name *leaver;

    if (!row) return NULL;
    leaver = name_hold(fleet, &fleet->leavers, leaving->shard);
    if (!leaver) {
        memory_give(&fleet->bytes, row, size);
        return NULL;
    }
    *row = (struct leaving_row){.row = row_new(fleet),
                                .leaver = leaver,
                                .since = leaving->since,
                                .key_len = (uint16_t)leaving->key.len,
                                .value_len = (uint16_t)leaving->value.len};
    put_leaving_text(row->text, leaving->key, leaving->value);
    return row;
}

/* -- dropping -- */
static size_t row_size(enum fleet_table table, const void *row)
{
    switch (table) {
    case FLEET_SHARDS: {
        const struct shard_row *shard = row;
        return sizeof *shard + shard->id_len + shard->address_len;
    }
    case FLEET_CLUSTERS: {
        const struct cluster_row *cluster = row;
        return sizeof *cluster + cluster->id_len;
    }
    case FLEET_DOMAINS: {
        const struct domain_row *domain = row;
        return offsetof(struct domain_row, text) + domain->value_len;
    }
    case FLEET_QUOTAS: return ((const struct quota_row *)row)->size;
    case FLEET_PROVIDERS: {
        const struct provider_row *provider = row;
        return sizeof *provider + provider->name_len + provider->address_len + provider->region_len;
    }
    case FLEET_LEAVING: {
        const struct leaving_row *leaving = row;
        return sizeof *leaving + leaving->key_len + leaving->value_len + 2;
    }
    case FLEET_TABLES: break;
    }
    assert(table < FLEET_TABLES);
    return 0;
}

void row_drop(struct fleet *fleet, enum fleet_table table, void *row)
{
    struct row *base = row;
    struct shard_row *shard = NULL;

    assert(base->holders > 0);
    if (--base->holders > 0) return;
    if (table == FLEET_SHARDS) {
        assert(((struct shard_row *)row)->domains.count == 0);
        assert(((struct shard_row *)row)->clusters.count == 0);
    } else if (table == FLEET_CLUSTERS) {
        shard = ((struct cluster_row *)row)->shard;
    } else if (table == FLEET_DOMAINS) {
        shard = ((struct domain_row *)row)->shard;
        name_drop(fleet, &fleet->labels, ((struct domain_row *)row)->label);
    } else if (table == FLEET_LEAVING) {
        name_drop(fleet, &fleet->leavers, ((struct leaving_row *)row)->leaver);
    }
    memory_give(&fleet->bytes, row, row_size(table, row));
    if (shard) row_drop(fleet, FLEET_SHARDS, shard); /* once: a shard points at nothing */
}

void rows_drop(struct fleet *fleet, enum fleet_table table, struct order *order)
{
    struct order_place place = order_begin(order);

    for (void *row; (row = order_next(&place));) row_drop(fleet, table, row);
    order_clear(order);
}

/* -- showing -- */
static void show_shard(const struct shard_row *row, struct fleet_shard *ret_shard)
{
    *ret_shard = (struct fleet_shard){.id = shard_row_id(row),
                                      .address = str_of(row->text + row->id_len, row->address_len),
                                      .registered_at = row->registered_at,
                                      .last_heartbeat = row->last_heartbeat,
                                      .clusters = row->clusters.count,
                                      .domains = row->domains.count};
}

void row_show(enum fleet_table table, const void *row, struct fleet_row *ret_row)
{
    struct order_key key = row_key(table, row);

    ret_row->table = table;
    switch (table) {
    case FLEET_SHARDS: show_shard(row, &ret_row->shard); break;
    case FLEET_CLUSTERS:
        ret_row->cluster = (struct fleet_cluster){
            key.first, shard_row_id(((const struct cluster_row *)row)->shard)};
        break;
    case FLEET_DOMAINS:
        ret_row->domain = (struct fleet_domain){
            key.first, key.second, shard_row_id(((const struct domain_row *)row)->shard)};
        break;
    case FLEET_QUOTAS: {
        const struct quota_row *quota = row;
        ret_row->quota =
            (struct fleet_quota){key.first, key.second, quota->slices, quota->slice_count};
        break;
    }
    case FLEET_PROVIDERS: {
        const struct provider_row *provider = row;
        const char *address = provider->text + provider->name_len;
        ret_row->provider =
            (struct fleet_provider){key.first, str_of(address, provider->address_len),
                                    str_of(address + provider->address_len, provider->region_len)};
        break;
    }
    case FLEET_LEAVING: {
        const struct leaving_row *leaving = row;
        ret_row->leaving =
            (struct fleet_leaving){str_of(leaving->text, leaving->key_len),
                                   str_of(leaving->text + leaving->key_len, leaving->value_len),
                                   name_text(leaving->leaver), leaving->since};
        break;
    }
    case FLEET_TABLES: assert(table < FLEET_TABLES);
    }
}

/* -- hashing: each text on its own under the hash of what stands before it, so that "ab", "c" and
 * "a", "bc" differ -- */
static uint64_t number_hash(uint64_t number, uint64_t seed)
{
    char bytes[8];

    store_le64(bytes, number);
    return str_hash(str_of(bytes, sizeof bytes), seed);
}

uint64_t row_hash(enum fleet_table table, const void *row)
{
    struct fleet_row shown;
    uint64_t hash;

    if (table == FLEET_DOMAINS) { /* the many: half of it is known */
        const struct domain_row *domain = row;
        return str_hash(shard_row_id(domain->shard),
                        str_hash(str_of(domain->text, domain->value_len), domain->label->hash));
    }
    row_show(table, row, &shown);
    hash = seeds[table];
    for (size_t i = 0; i < fleet_row_texts[table]; i++) hash = str_hash(shown.texts[i], hash);
    if (table == FLEET_SHARDS) {
        hash = number_hash((uint64_t)shown.shard.registered_at.seconds, hash);
        hash = number_hash(shown.shard.registered_at.nanos, hash);
    }
    if (table == FLEET_LEAVING) hash = number_hash(shown.leaving.since, hash);
    for (size_t i = 0; table == FLEET_QUOTAS && i < shown.quota.slice_count; i++)
        hash = number_hash((uint64_t)shown.quota.slices[i].slice,
                           str_hash(shown.quota.slices[i].shard, hash));
    return hash;
}
