/* SPDX-License-Identifier: Apache-2.0 */
/* Stored rows of all kinds. A table says where the texts of a row are. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "fleet/core/internal.h"

/* Each table has its own seed, so that equal rows of two tables have different hashes. */
static const uint64_t seeds[FLEET_TABLES] = {
    [FLEET_SHARDS] = 0x51a2d, [FLEET_CLUSTERS] = 0xc1057e2,   [FLEET_DOMAINS] = 0xd03a12,
    [FLEET_QUOTAS] = 0x907a5, [FLEET_PROVIDERS] = 0x920d1de2, [FLEET_LEAVING] = 0x1ea719,
};

static char *text_put(char *at, struct str text)
{
    if (text.len > 0) memcpy(at, text.at, text.len);
    return at + text.len;
}

struct str shard_row_id(const struct shard_row *shard)
{
    return str_of(shard->text, shard->lens[0]);
}

static struct str name_text(const struct name *name)
{
    return str_of(name->text, name->len);
}

/* -- the place of each text in a row -- */
/* Where a text is: behind the row's struct (OWN), in its shared name, or in the row's shard. */
enum source { OWN = 1, NAME, SHARD };
static const struct layout {
    uint8_t from[FLEET_TEXTS_MAX];   /* by text: its enum source */
    uint8_t lens, text, name, shard; /* offsets in the row's struct; 0: no such member */
} layouts[FLEET_TABLES] = {
#define AT(type, member) offsetof(struct type##_row, member)
    [FLEET_SHARDS] = {{OWN, OWN}, AT(shard, lens), AT(shard, text), 0, 0},
    [FLEET_CLUSTERS] = {{OWN, SHARD}, AT(cluster, lens), AT(cluster, text), 0, AT(cluster, shard)},
    [FLEET_DOMAINS] = {{NAME, OWN, SHARD},
                       AT(domain, lens),
                       AT(domain, text),
                       AT(domain, label),
                       AT(domain, shard)},
    [FLEET_QUOTAS] = {{OWN, OWN}, AT(quota, lens), AT(quota, text), 0, 0},
    [FLEET_PROVIDERS] = {{OWN, OWN, OWN}, AT(provider, lens), AT(provider, text), 0, 0},
    [FLEET_LEAVING] =
        {{OWN, OWN, NAME}, AT(leaving, lens), AT(leaving, text), AT(leaving, leaver), 0},
#undef AT
};

static uint16_t *lens_of(enum fleet_table table, const void *row)
{
    return (uint16_t *)((uintptr_t)row + layouts[table].lens);
}

static struct name **name_of(enum fleet_table table, const void *row)
{
    return (struct name **)((uintptr_t)row + layouts[table].name);
}

static struct shard_row **shard_of(enum fleet_table table, const void *row)
{
    return (struct shard_row **)((uintptr_t)row + layouts[table].shard);
}

static struct order *names_of(struct fleet *fleet, enum fleet_table table)
{
    return table == FLEET_DOMAINS ? &fleet->labels : &fleet->leavers;
}

struct order *row_owned(enum fleet_table table, void *row)
{
    switch (table) {
    case FLEET_CLUSTERS: return &((struct cluster_row *)row)->shard->clusters;
    case FLEET_DOMAINS: return &((struct domain_row *)row)->shard->domains;
    case FLEET_LEAVING: return &((struct leaving_row *)row)->leaver->rows;
    default: return NULL;
    }
}

/* -- keys -- */
static struct order_key shard_key(const void *row)
{
    return (struct order_key){.first = shard_row_id(row)};
}

static struct order_key cluster_key(const void *row)
{
    const struct cluster_row *cluster = row;
    return (struct order_key){.first = str_of(cluster->text, cluster->lens[0])};
}

static struct order_key domain_key(const void *row)
{
    const struct domain_row *domain = row;
    return (struct order_key){name_text(domain->label), str_of(domain->text, domain->lens[0])};
}

static struct order_key quota_key(const void *row)
{
    const struct quota_row *quota = row;
    return (struct order_key){str_of(quota->text, quota->lens[0]),
                              str_of(quota->text + quota->lens[0], quota->lens[1])};
}

static struct order_key provider_key(const void *row)
{
    const struct provider_row *provider = row;
    return (struct order_key){.first = str_of(provider->text, provider->lens[0])};
}

static struct order_key name_key(const void *row)
{
    return (struct order_key){.first = name_text(row)};
}

static struct order_key leaving_key(const void *row)
{
    const struct leaving_row *leaving = row;
    size_t len = (size_t)leaving->lens[0] + leaving->lens[1] + 2;

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

/* The key points to the stored label, so that comparisons are fast. */
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
    text_put(name->text, text);
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
/* A leaving row has two more bytes for a length. */
static size_t own_bytes(enum fleet_table table, const struct str texts[FLEET_TEXTS_MAX])
{
    size_t bytes = table == FLEET_LEAVING ? 2 : 0;

    for (size_t i = 0; i < fleet_row_texts[table]; i++)
        if (layouts[table].from[i] == OWN) bytes += texts[i].len;
    return bytes;
}

/* Equal shards are compared by address, which is the order of input. */
static int slice_compare(const void *a, const void *b)
{
    const struct fleet_slice *left = a, *right = b;
    int sign = str_compare(left->shard, right->shard);

    if (sign) return sign;
    return left->shard.at < right->shard.at ? -1 : left->shard.at > right->shard.at;
}

/* Sorts the slices by shard and keeps the last of duplicates. Returns the new count. */
static size_t slices_settle(struct fleet_slice *slices, size_t count)
{
    size_t kept = 0;

    if (count > 1) qsort(slices, count, sizeof slices[0], slice_compare);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && str_equal(slices[kept - 1].shard, slices[i].shard)) kept--;
        slices[kept++] = slices[i];
    }
    return kept;
}

static bool slices_make(struct fleet *fleet, const struct fleet_quota *from, struct quota_row *row)
{
    size_t count = from->slice_count;
    char *at;

    row->slice_bytes = 1; /* blocks must not be empty */
    for (size_t i = 0; i < count; i++)
        row->slice_bytes += sizeof row->slices[0] + from->slices[i].shard.len + 1;
    row->slices = memory_take(&fleet->bytes, row->slice_bytes);
    if (!row->slices) return false;
    at = (char *)(row->slices + count);
    for (size_t i = 0; i < count; i++) {
        row->slices[i] =
            (struct fleet_slice){str_of(at, from->slices[i].shard.len), from->slices[i].slice};
        /* the NUL gives empty texts different addresses, for slice_compare() */
        at = text_put(at, from->slices[i].shard) + 1;
    }
    row->slice_count = slices_settle(row->slices, count);
    return true;
}

static bool rest_make(struct fleet *fleet, const struct fleet_row *from, void *row, char *end)
{
    struct shard_row *shard = row;
    struct leaving_row *leaving = row;

    switch (from->table) {
    case FLEET_SHARDS:
        shard->registered_at = from->shard.registered_at;
        shard->last_heartbeat = (struct fleet_time){0};
        shard->clusters = (struct order){.kind = &fleet->kinds[FLEET_CLUSTERS]};
        shard->domains = (struct order){.kind = &fleet->kinds[FLEET_DOMAINS]};
        return true;
    case FLEET_LEAVING:
        leaving->since = from->leaving.since;
        store_le16(end, leaving->lens[0]);
        return true;
    case FLEET_QUOTAS: return slices_make(fleet, &from->quota, row);
    default: return true;
    }
}

void *row_make(struct fleet *fleet, const struct fleet_row *from, struct shard_row *shard)
{
    enum fleet_table table = from->table;
    const struct layout *layout = &layouts[table];
    size_t size = layout->text + own_bytes(table, from->texts), n = 0;
    struct table_row *row = memory_take(&fleet->bytes, size);
    struct name *name = NULL;
    char *at;

    if (!row) return NULL;
    *row = (struct table_row){.holders = 1, .born = fleet->view_number};
    at = (char *)row + layout->text;
    for (size_t i = 0; i < fleet_row_texts[table]; i++) {
        if (layout->from[i] == NAME)
            name = name_hold(fleet, names_of(fleet, table), from->texts[i]);
        if (layout->from[i] != OWN) continue;
        lens_of(table, row)[n++] = (uint16_t)from->texts[i].len;
        at = text_put(at, from->texts[i]);
    }
    if ((layout->name && !name) || !rest_make(fleet, from, row, at)) {
        memory_give(&fleet->bytes, row, size);
        return NULL;
    }
    if (layout->name) *name_of(table, row) = name;
    if (layout->shard) {
        *shard_of(table, row) = shard;
        shard->row.holders++;
    }
    return row;
}

bool leaving_text(struct str key, struct str value, char text[LEAVING_TEXT_MAX],
                  struct str *ret_text)
{
    if (key.len > FLEET_LABEL_KEY_MAX || value.len > FLEET_LABEL_VALUE_MAX) return false;
    store_le16(text_put(text_put(text, key), value), (uint16_t)key.len);
    *ret_text = str_of(text, key.len + value.len + 2);
    return true;
}

/* -- dropping -- */
static size_t row_size(enum fleet_table table, const void *row)
{
    const struct layout *layout = &layouts[table];
    size_t count = (layout->text - layout->lens) / sizeof(uint16_t), size = layout->text;

    for (size_t i = 0; i < count; i++) size += lens_of(table, row)[i];
    return table == FLEET_LEAVING ? size + 2 : size;
}

void row_drop(struct fleet *fleet, enum fleet_table table, void *row)
{
    const struct layout *layout = &layouts[table];
    struct shard_row *shard = layout->shard ? *shard_of(table, row) : NULL;
    struct quota_row *quota = row;
    struct table_row *base = row;

    assert(base->holders > 0);
    if (--base->holders > 0) return;
    if (layout->name) name_drop(fleet, names_of(fleet, table), *name_of(table, row));
    if (table == FLEET_SHARDS) {
        assert(((struct shard_row *)row)->domains.count == 0);
        assert(((struct shard_row *)row)->clusters.count == 0);
    } else if (table == FLEET_QUOTAS) {
        memory_give(&fleet->bytes, quota->slices, quota->slice_bytes);
    }
    memory_give(&fleet->bytes, row, row_size(table, row));
    /* one level of recursion: a shard's row points to no row */
    if (shard) row_drop(fleet, FLEET_SHARDS, shard);
}

void rows_drop(struct fleet *fleet, enum fleet_table table, struct order *order)
{
    struct order_place place = order_begin(order);

    for (void *row; (row = order_next(&place));) row_drop(fleet, table, row);
    order_clear(order);
}

/* -- conversion for readers -- */
void row_show(enum fleet_table table, const void *row, struct fleet_row *ret_row)
{
    const struct layout *layout = &layouts[table];
    const struct shard_row *shard = row;
    const struct quota_row *quota = row;
    const char *at = (const char *)row + layout->text;
    const uint16_t *len = lens_of(table, row);

    *ret_row = (struct fleet_row){.table = table};
    if (table == FLEET_DOMAINS) { /* most rows are domains */
        const struct domain_row *domain = row;
        ret_row->domain = (struct fleet_domain){name_text(domain->label), domain_key(row).second,
                                                shard_row_id(domain->shard)};
        return;
    }
    for (size_t i = 0; i < fleet_row_texts[table]; i++) {
        if (layout->from[i] == NAME) {
            ret_row->texts[i] = name_text(*name_of(table, row));
        } else if (layout->from[i] == SHARD) {
            ret_row->texts[i] = shard_row_id(*shard_of(table, row));
        } else {
            ret_row->texts[i] = str_of(at, *len);
            at += *len++;
        }
    }
    if (table == FLEET_LEAVING) ret_row->leaving.since = ((const struct leaving_row *)row)->since;
    if (table == FLEET_QUOTAS) {
        ret_row->quota.slices = quota->slices;
        ret_row->quota.slice_count = quota->slice_count;
    }
    if (table == FLEET_SHARDS) {
        ret_row->shard.registered_at = shard->registered_at;
        ret_row->shard.last_heartbeat = shard->last_heartbeat;
        ret_row->shard.clusters = shard->clusters.count;
        ret_row->shard.domains = shard->domains.count;
    }
}

/* -- hashing: a text's hash starts from the previous one, so "ab", "c" and "a", "bc" differ -- */
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

    if (table == FLEET_DOMAINS) { /* most rows are domains */
        const struct domain_row *domain = row;
        return str_hash(shard_row_id(domain->shard),
                        str_hash(str_of(domain->text, domain->lens[0]), domain->label->hash));
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
