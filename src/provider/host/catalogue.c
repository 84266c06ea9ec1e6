/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/catalogue.h"

#include <stdio.h>
#include <stdlib.h>

#include "conf/units.h"
#include "model/ids.h"
#include "provider/host/offer.h"
#include "provider/host/operation.h"
#include "text/toml.h"

enum {
    MEMORY_MAX = 16 << 20,
    TOML_MEMORY_MAX = 16 << 20,
    MILLION = 1000000,
    SHARE_MAX = 1000000,
    RACK_MAX = 1000000,
};
#define REPAIR_MS_USUAL (5ull * 60 * 1000)
#define DURATION_MS_MAX (30ull * 24 * 3600 * 1000)

extern const unsigned char usual_catalogue[];
extern const size_t usual_catalogue_len;

struct reading {
    struct catalogue *catalogue;
    struct note *note;
    struct catalogue_behaviour usual;
    const struct str *zones;
    size_t zone_count;
};

/* --- single values --- */

static enum err bad(struct reading *r, const struct toml_value *value, const char *what)
{
    struct toml_position at = toml_position(value);
    char path[TOML_PATH_CAP];

    toml_path(value, path);
    note_set(r->note, "line %u, column %u: '%s' %s", at.line, at.column, path, what);
    return ERR_INVALID;
}

static struct str keep(struct reading *r, struct str text, enum err *err)
{
    char *copy = arena_dup(&r->catalogue->memory, text);

    if (!copy) *err = ERR_NOMEM;
    return copy ? str_of(copy, text.len) : STR_EMPTY;
}

static enum err read_text(struct reading *r, const struct toml_value *value, size_t max,
                          struct str *ret_text)
{
    struct str text;
    struct note why;
    enum err err = toml_string(value, &text, r->note);

    if (err) return err;
    if (id_check("text", text, max, &why)) return bad(r, value, "is empty, too long or no text");
    *ret_text = keep(r, text, &err);
    return err;
}

static enum err read_number(struct reading *r, const struct toml_value *value, uint64_t most,
                            uint64_t *ret_number)
{
    int64_t number;
    enum err err = toml_i64(value, &number, r->note);

    if (err) return err;
    if (number < 0 || (uint64_t)number > most) return bad(r, value, "is out of range");
    *ret_number = (uint64_t)number;
    return ERR_OK;
}

static enum err read_fraction(struct reading *r, const struct toml_value *value,
                              uint32_t *ret_per_million)
{
    double number;
    enum err err = toml_double(value, &number, r->note);

    if (err) return err;
    if (!(number >= 0 && number <= 1)) return bad(r, value, "must be from 0 to 1");
    *ret_per_million = (uint32_t)(number * MILLION + 0.5);
    return ERR_OK;
}

static enum err read_duration(struct reading *r, const struct toml_value *value, struct str text,
                              uint64_t *ret_ms)
{
    struct note why;

    if (units_parse_duration(text, ret_ms, &why) || *ret_ms > DURATION_MS_MAX)
        return bad(r, value, "is no time such as \"20s\" or \"5s..20s\", of 30 days at most");
    return ERR_OK;
}

/* "20s" or "5s..20s". */
static enum err read_span(struct reading *r, const struct toml_value *value,
                          struct catalogue_span *ret_span)
{
    struct catalogue_span span;
    struct str text, least;
    size_t dots = 0;
    enum err err = toml_string(value, &text, r->note);

    if (err) return err;
    while (dots + 1 < text.len && (text.at[dots] != '.' || text.at[dots + 1] != '.')) dots++;
    if (dots + 1 >= text.len) dots = text.len;
    least = str_of(text.at, dots);
    err = read_duration(r, value, least, &span.least_ms);
    span.most_ms = span.least_ms;
    if (!err && dots < text.len)
        err = read_duration(r, value, str_tail(text, dots + 2), &span.most_ms);
    if (!err && span.most_ms < span.least_ms) err = bad(r, value, "ends before it begins");
    if (!err) *ret_span = span;
    return err;
}

/* --- tables --- */

static bool is_table(const struct toml_value *value)
{
    return toml_type(value) == TOML_TABLE;
}

/* Every key of the table is one of these; the list ends with NULL. */
static enum err check_keys(struct reading *r, const struct toml_value *table,
                           const char *const *known)
{
    for (const struct toml_value *v = toml_first(table); v; v = toml_next(v)) {
        size_t i = 0;
        while (known[i] && !str_equal(toml_key(v), str_from(known[i]))) i++;
        if (!known[i]) return bad(r, v, "is no key of a catalogue");
    }
    return ERR_OK;
}

static enum err read_behaviour(struct reading *r, const struct toml_value *table,
                               struct catalogue_behaviour *behaviour)
{
    static const char *const kinds[] = {"create", "configure", "drain", "delete", NULL};
    const struct toml_value *latency = toml_get(table, STR("latency"));
    const struct toml_value *fails = toml_get(table, STR("fails"));
    enum err err = ERR_OK;

    if (latency && !is_table(latency)) return bad(r, latency, "must be a table");
    if (fails && !is_table(fails)) return bad(r, fails, "must be a table");
    if (latency) err = check_keys(r, latency, kinds);
    if (!err && fails) err = check_keys(r, fails, kinds);
    for (int i = 0; !err && i < OPERATION_KINDS; i++) {
        const struct toml_value *value = latency ? toml_get(latency, str_from(kinds[i])) : NULL;
        if (value) err = read_span(r, value, &behaviour->latency[i]);
        value = fails && !err ? toml_get(fails, str_from(kinds[i])) : NULL;
        if (value) err = read_fraction(r, value, &behaviour->fails[i]);
    }
    return err;
}

static enum err read_pairs(struct reading *r, const struct toml_value *table, size_t max,
                           const struct label **ret_pairs, size_t *ret_count)
{
    size_t count = 0;
    struct label *pairs;
    enum err err = ERR_OK;

    if (!table) return ERR_OK;
    if (!is_table(table)) return bad(r, table, "must be a table of texts");
    if (toml_count(table) > max) return bad(r, table, "has too many entries");
    pairs = arena_calloc(&r->catalogue->memory, toml_count(table) + 1, sizeof *pairs);
    if (!pairs) return ERR_NOMEM;
    for (const struct toml_value *v = toml_first(table); v && !err; v = toml_next(v)) {
        struct str text;

        err = toml_string(v, &text, r->note);
        if (err) break;
        pairs[count].key = keep(r, toml_key(v), &err);
        pairs[count++].value = keep(r, text, &err);
    }
    *ret_pairs = pairs;
    *ret_count = count;
    return err;
}

static enum err read_zones(struct reading *r, const struct toml_value *array,
                           const struct str **ret_zones, size_t *ret_count)
{
    struct str *zones;
    size_t count = 0;
    enum err err = ERR_OK;

    if (toml_type(array) != TOML_ARRAY) return bad(r, array, "must be an array of texts");
    if (toml_count(array) == 0 || toml_count(array) > CATALOGUE_ZONES_MAX)
        return bad(r, array, "must name 1 to 64 zones");
    zones = arena_calloc(&r->catalogue->memory, toml_count(array), sizeof *zones);
    if (!zones) return ERR_NOMEM;
    for (const struct toml_value *v = toml_first(array); v && !err; v = toml_next(v)) {
        err = read_text(r, v, CATALOGUE_NAME_MAX, &zones[count]);
        for (size_t i = 0; !err && i < count; i++)
            if (str_equal(zones[i], zones[count])) err = bad(r, v, "is named twice");
        count++;
    }
    *ret_zones = zones;
    *ret_count = count;
    return err;
}

/* --- pools --- */

static enum err read_capacity(struct reading *r, const struct toml_value *pool,
                              enum capacity_type *ret_type)
{
    static const struct {
        const char *word;
        enum capacity_type type;
    } words[] = {
        {"on-demand", CAPACITY_ON_DEMAND},
        {"spot", CAPACITY_SPOT},
        {"reserved", CAPACITY_RESERVED},
        {"bare-metal", CAPACITY_BARE_METAL},
    };
    const struct toml_value *value = toml_get(pool, STR("capacity"));
    struct str word;
    enum err err;

    if (!value) return bad(r, pool, "has no capacity");
    err = toml_string(value, &word, r->note);
    if (err) return err;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!str_equal(word, str_from(words[i].word))) continue;
        *ret_type = words[i].type;
        return ERR_OK;
    }
    return bad(r, value, "must be on-demand, spot, reserved or bare-metal");
}

static enum err read_offer(struct reading *r, const struct toml_value *pool, struct offer *offer)
{
    const struct toml_value *type = toml_get(pool, STR("type"));
    const struct toml_value *price = toml_get(pool, STR("price"));
    const struct toml_value *interruption = toml_get(pool, STR("interruption"));
    struct note why;
    enum err err;

    if (!type) return bad(r, pool, "has no type");
    offer->zone = STR("zone");
    err = read_text(r, type, ID_MAX, &offer->instance_type);
    if (!err) err = read_capacity(r, pool, &offer->capacity_type);
    if (!err && price) err = toml_double(price, &offer->price_per_hour, r->note);
    if (!err && interruption)
        err = toml_double(interruption, &offer->interruption_probability, r->note);
    if (!err)
        err = read_pairs(r, toml_get(pool, STR("resources")), OFFER_RESOURCES_MAX,
                         &offer->resources, &offer->resource_count);
    if (!err)
        err = read_pairs(r, toml_get(pool, STR("allocatable")), OFFER_RESOURCES_MAX,
                         &offer->allocatable, &offer->allocatable_count);
    if (!err) /* room for the rack and the region */
        err = read_pairs(r, toml_get(pool, STR("labels")), OFFER_LABELS_MAX - 2, &offer->labels,
                         &offer->label_count);
    if (err) return err;
    err = offer_check(offer, &why);
    if (err) {
        struct toml_position at = toml_position(pool);
        note_set(r->note, "line %u: %s", at.line, why.text);
        return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err read_pool_numbers(struct reading *r, const struct toml_value *table,
                                  struct catalogue_pool *pool)
{
    const struct toml_value *share = toml_get(table, STR("share"));
    const struct toml_value *count = toml_get(table, STR("count"));
    const struct toml_value *quota = toml_get(table, STR("quota"));
    const struct toml_value *rack = toml_get(table, STR("rack-size"));
    const struct toml_value *deletes = toml_get(table, STR("delete"));
    uint64_t number = 0;
    enum err err = ERR_OK;

    pool->count = UINT64_MAX;
    pool->quota = MILLION;
    pool->deletes = true;
    if (share && count) return bad(r, share, "and 'count' exclude each other");
    if (share) err = read_number(r, share, SHARE_MAX, &pool->share);
    if (!err && count) err = read_number(r, count, CATALOGUE_MACHINES_MAX, &pool->count);
    if (!share && !count) pool->share = 1;
    if (!err && quota) err = read_fraction(r, quota, &pool->quota);
    if (!err && rack) err = read_number(r, rack, RACK_MAX, &number);
    if (!err && deletes) err = toml_bool(deletes, &pool->deletes, r->note);
    pool->rack_size = (uint32_t)number;
    return err;
}

static enum err read_pool(struct reading *r, const struct toml_value *table,
                          struct catalogue_pool *pool)
{
    static const char *const known[] = {
        "name",    "type",  "capacity", "price", "interruption", "resources", "allocatable",
        "labels",  "zones", "share",    "count", "quota",        "rack-size", "delete",
        "latency", "fails", NULL};
    const struct toml_value *name, *zones;
    enum err err;

    if (!is_table(table)) return bad(r, table, "must be a table");
    err = check_keys(r, table, known);
    if (err) return err;
    name = toml_get(table, STR("name"));
    zones = toml_get(table, STR("zones"));
    pool->behaviour = r->usual;
    pool->zones = r->zones;
    pool->zone_count = r->zone_count;
    if (!name) return bad(r, table, "has no name");
    err = read_text(r, name, CATALOGUE_NAME_MAX, &pool->name);
    if (!err && zones) err = read_zones(r, zones, &pool->zones, &pool->zone_count);
    if (!err && pool->zone_count == 0) return bad(r, table, "is in no zone");
    if (!err) err = read_offer(r, table, &pool->offer);
    if (!err) err = read_pool_numbers(r, table, pool);
    return err ? err : read_behaviour(r, table, &pool->behaviour);
}

static enum err read_pools(struct reading *r, const struct toml_value *array)
{
    struct catalogue *c = r->catalogue;
    struct catalogue_pool *pools;
    enum err err = ERR_OK;

    if (!array || toml_type(array) != TOML_ARRAY || toml_count(array) == 0 ||
        toml_count(array) > CATALOGUE_POOLS_MAX) {
        note_set(r->note, "a catalogue has 1 to %d tables [[pool]]", CATALOGUE_POOLS_MAX);
        return ERR_INVALID;
    }
    pools = arena_calloc(&c->memory, toml_count(array), sizeof *pools);
    if (!pools) return ERR_NOMEM;
    c->pools = pools;
    for (const struct toml_value *v = toml_first(array); v && !err; v = toml_next(v)) {
        struct catalogue_pool *pool = &pools[c->pool_count];

        err = read_pool(r, v, pool);
        for (size_t i = 0; !err && i < c->pool_count; i++)
            if (str_equal(pools[i].name, pool->name)) err = bad(r, v, "has the name of another");
        if (!err) c->pool_count++;
    }
    return err;
}

/* --- waves --- */

static enum err read_wave_pools(struct reading *r, const struct toml_value *array,
                                struct catalogue_wave *wave)
{
    const struct catalogue *c = r->catalogue;
    uint32_t *places;
    enum err err = ERR_OK;

    if (!array || toml_type(array) != TOML_ARRAY) {
        note_set(r->note, "a [[wave]] needs an array 'pools'");
        return ERR_INVALID;
    }
    if (toml_count(array) == 0 || toml_count(array) > CATALOGUE_POOLS_MAX)
        return bad(r, array, "must name some pools");
    places = arena_calloc(&r->catalogue->memory, toml_count(array), sizeof *places);
    if (!places) return ERR_NOMEM;
    for (const struct toml_value *v = toml_first(array); v && !err; v = toml_next(v)) {
        struct str name;
        uint32_t place = 0;

        err = toml_string(v, &name, r->note);
        if (err) return err;
        while (place < c->pool_count && !str_equal(c->pools[place].name, name)) place++;
        if (place == c->pool_count) return bad(r, v, "is no pool");
        places[wave->pool_count++] = place;
    }
    wave->pools = places;
    return err;
}

static enum err read_how(struct reading *r, const struct toml_value *value, enum sighting *ret_how)
{
    struct str word;
    enum err err = toml_string(value, &word, r->note);

    if (err) return err;
    if (str_equal(word, STR("failed")))
        *ret_how = SEEN_FAILED;
    else if (str_equal(word, STR("reclaimed")))
        *ret_how = SEEN_RECLAIMED;
    else if (str_equal(word, STR("removed")))
        *ret_how = SEEN_REMOVED;
    else
        return bad(r, value, "must be failed, reclaimed or removed");
    return ERR_OK;
}

static enum err read_wave(struct reading *r, const struct toml_value *table,
                          struct catalogue_wave *wave)
{
    static const char *const known[] = {"pools", "zone", "every", "fraction", "how", NULL};
    const struct toml_value *zone, *every, *fraction, *how;
    struct catalogue_span span;
    enum err err;

    if (!is_table(table)) return bad(r, table, "must be a table");
    err = check_keys(r, table, known);
    if (err) return err;
    zone = toml_get(table, STR("zone"));
    every = toml_get(table, STR("every"));
    fraction = toml_get(table, STR("fraction"));
    how = toml_get(table, STR("how"));
    wave->zone = STR_EMPTY;
    wave->how = SEEN_FAILED;
    if (!every || !fraction) return bad(r, table, "needs 'every' and 'fraction'");
    err = read_wave_pools(r, toml_get(table, STR("pools")), wave);
    if (!err) err = read_span(r, every, &span);
    if (!err && span.least_ms < MS_PER_SECOND) return bad(r, every, "must be a second or more");
    if (!err) err = read_fraction(r, fraction, &wave->fraction);
    if (!err && zone) err = read_text(r, zone, CATALOGUE_NAME_MAX, &wave->zone);
    if (!err && how) err = read_how(r, how, &wave->how);
    if (!err) wave->every_ms = span.least_ms;
    return err;
}

static enum err read_waves(struct reading *r, const struct toml_value *array)
{
    struct catalogue *c = r->catalogue;
    struct catalogue_wave *waves;
    enum err err = ERR_OK;

    if (!array) return ERR_OK;
    if (toml_type(array) != TOML_ARRAY || toml_count(array) > CATALOGUE_WAVES_MAX)
        return bad(r, array, "must be up to 64 tables [[wave]]");
    waves = arena_calloc(&c->memory, toml_count(array) + 1, sizeof *waves);
    if (!waves) return ERR_NOMEM;
    c->waves = waves;
    for (const struct toml_value *v = toml_first(array); v && !err; v = toml_next(v))
        err = read_wave(r, v, &waves[c->wave_count++]);
    return err;
}

/* --- all of it --- */

static enum err read_root(struct reading *r, const struct toml_value *root)
{
    static const char *const known[] = {"seed",  "region", "zones", "repair", "latency",
                                        "fails", "pool",   "wave",  NULL};
    const struct toml_value *seed = toml_get(root, STR("seed"));
    const struct toml_value *region = toml_get(root, STR("region"));
    const struct toml_value *zones = toml_get(root, STR("zones"));
    const struct toml_value *repair = toml_get(root, STR("repair"));
    struct catalogue_span span = {REPAIR_MS_USUAL, REPAIR_MS_USUAL};
    enum err err = check_keys(r, root, known);

    if (!err && seed) err = read_number(r, seed, INT64_MAX, &r->catalogue->seed);
    if (!err && region) err = read_text(r, region, LABEL_VALUE_MAX, &r->catalogue->region);
    if (!err && zones) err = read_zones(r, zones, &r->zones, &r->zone_count);
    if (!err && repair) err = read_span(r, repair, &span);
    if (!err) err = read_behaviour(r, root, &r->usual);
    r->catalogue->repair_ms = span.least_ms;
    if (!err) err = read_pools(r, toml_get(root, STR("pool")));
    return err ? err : read_waves(r, toml_get(root, STR("wave")));
}

enum err catalogue_open(struct str text, struct catalogue **ret_catalogue, struct note *note)
{
    struct catalogue *c = calloc(1, sizeof *c);
    struct reading r = {.catalogue = c, .note = note};
    struct toml *document = NULL;
    enum err err;

    if (!c) return ERR_NOMEM;
    arena_init(&c->memory, MEMORY_MAX);
    c->region = STR_EMPTY;
    err = text.len > CATALOGUE_BYTES_MAX ? ERR_TOO_LARGE
                                         : toml_open(text, TOML_MEMORY_MAX, &document, NULL, note);
    if (!err) err = read_root(&r, toml_root(document));
    toml_close(document);
    if (err) {
        catalogue_close(c);
        return err;
    }
    *ret_catalogue = c;
    return ERR_OK;
}

void catalogue_close(struct catalogue *catalogue)
{
    if (!catalogue) return;
    arena_deinit(&catalogue->memory);
    free(catalogue);
}

struct str catalogue_usual(void)
{
    return str_of(usual_catalogue, usual_catalogue_len);
}

/* Rounding the sums, not the parts, is what makes them add up. */
static uint64_t part_of(uint64_t all, uint64_t before, uint64_t mine, uint64_t total)
{
    if (total == 0) return 0;
    return all * (before + mine) / total - all * before / total;
}

uint64_t catalogue_count(const struct catalogue *c, uint64_t seed_count, size_t pool, size_t zone)
{
    const struct catalogue_pool *p = &c->pools[pool];
    uint64_t before = 0, total = 0, mine;

    seed_count = min_u64(seed_count, CATALOGUE_MACHINES_MAX); /* times all shares: 50 bits */
    for (size_t i = 0; i < c->pool_count; i++) {
        total += c->pools[i].share;
        if (i < pool) before += c->pools[i].share;
    }
    mine = p->count == UINT64_MAX ? part_of(seed_count, before, p->share, total) : p->count;
    return part_of(mine, zone, 1, p->zone_count);
}
