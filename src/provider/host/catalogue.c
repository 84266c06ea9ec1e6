/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a catalogue: converts TOML to JSON, then maps keys to members by tables. An error names the
 * line of its pool. Pure. */
#include "provider/host/catalogue.h"

#include <stdio.h>
#include <stdlib.h>

#include "conf/units.h"
#include "model/ids.h"
#include "provider/host/offer.h"
#include "provider/host/operation.h"
#include "text/json_fields.h"
#include "text/toml_json.h"

enum {
    MEMORY_MAX = 16 << 20,
    SHARE_MAX = 1000000,
    RACK_MAX = 1000000,
};
#define REPAIR_MS_USUAL (5ull * 60 * 1000)
#define DURATION_MS_MAX (30ull * 24 * 3600 * 1000)

extern const unsigned char usual_catalogue[];
extern const size_t usual_catalogue_len;

/* --- durations and probabilities --- */

static enum err catalogue_read_duration(struct str text, uint64_t *ret_ms, struct note *note)
{
    struct note why;

    if (units_parse_duration(text, ret_ms, &why) == ERR_OK && *ret_ms <= DURATION_MS_MAX)
        return ERR_OK;
    return json_wrong(note, "is no time such as \"20s\" or \"5s..20s\", of 30 days at most");
}

/* "20s" or "5s..20s". */
static enum err catalogue_read_span(const struct json *value, void *into, struct arena *arena,
                                    struct note *note)
{
    struct catalogue_span *span = into;
    struct str text;
    const char *dots;
    enum err err = json_text(value, &text, arena, note);

    if (err) return err;
    dots = text.len ? memmem(text.at, text.len, "..", 2) : NULL;
    err = catalogue_read_duration(str_of(text.at, dots ? (size_t)(dots - text.at) : text.len),
                                  &span->least_ms, note);
    span->most_ms = span->least_ms;
    if (!err && dots)
        err = catalogue_read_duration(str_tail(text, (size_t)(dots - text.at) + 2), &span->most_ms,
                                      note);
    if (!err && span->most_ms < span->least_ms) err = json_wrong(note, "ends before it begins");
    return err;
}

static enum err catalogue_read_fraction(const struct json *value, void *into, struct arena *,
                                        struct note *note)
{
    double number;

    if (json_get_double(value, "", &number, NULL) || !(number >= 0 && number <= 1))
        return json_wrong(note, "must be a number from 0 to 1");
    *(uint32_t *)into = (uint32_t)(number * CATALOGUE_MILLION + 0.5);
    return ERR_OK;
}

static enum err catalogue_read_name(const struct json *value, void *into, struct arena *arena,
                                    struct note *note)
{
    struct note why;
    enum err err = json_text(value, into, arena, note);

    if (!err && id_check("text", *(struct str *)into, CATALOGUE_NAME_MAX, &why))
        err = json_wrong(note, "is empty, too long or no text");
    return err;
}

/* --- tables of keys --- */

#define SPAN(kind, at)                                                                             \
    {                                                                                              \
        kind, JSON_AS_OWN, JSON_MEMBER(struct catalogue_behaviour, latency[at]),                   \
            .own = catalogue_read_span                                                             \
    }
#define CHANCE(kind, at)                                                                           \
    {                                                                                              \
        kind, JSON_AS_OWN, JSON_MEMBER(struct catalogue_behaviour, fails[at]),                     \
            .own = catalogue_read_fraction                                                         \
    }
static const struct json_field latency_fields[] = {
    SPAN("create", OPERATION_CREATE), SPAN("configure", OPERATION_CONFIGURE),
    SPAN("drain", OPERATION_DRAIN), SPAN("delete", OPERATION_DELETE)};
static const struct json_field fails_fields[] = {
    CHANCE("create", OPERATION_CREATE), CHANCE("configure", OPERATION_CONFIGURE),
    CHANCE("drain", OPERATION_DRAIN), CHANCE("delete", OPERATION_DELETE)};
static const struct json_fields latency_row = {JSON_FIELDS(latency_fields)},
                                fails_row = {JSON_FIELDS(fails_fields)};

static const char *const catalogue_capacities[] = {"",          "bare-metal", "reserved",
                                                   "on-demand", "spot",       NULL};
static_assert(CAPACITY_BARE_METAL == 1 && CAPACITY_RESERVED == 2 && CAPACITY_ON_DEMAND == 3 &&
                  CAPACITY_SPOT == 4,
              "places in the list");
static const struct json_field pool_fields[] = {
    {"name", JSON_AS_OWN, JSON_MEMBER(struct catalogue_pool, name), .own = catalogue_read_name,
     .needed = true},
    {"type", JSON_AS_TEXT, JSON_MEMBER(struct catalogue_pool, offer.instance_type), .needed = true},
    {"capacity", JSON_AS_WORD, JSON_MEMBER(struct catalogue_pool, offer.capacity_type),
     .words = catalogue_capacities, .needed = true},
    {"price", JSON_AS_DOUBLE, JSON_MEMBER(struct catalogue_pool, offer.price_per_hour)},
    {"interruption", JSON_AS_DOUBLE,
     JSON_MEMBER(struct catalogue_pool, offer.interruption_probability)},
    {"resources", JSON_AS_PAIRS, JSON_MEMBER(struct catalogue_pool, offer.resources),
     JSON_COUNT(struct catalogue_pool, offer.resource_count), .most = OFFER_RESOURCES_MAX},
    {"allocatable", JSON_AS_PAIRS, JSON_MEMBER(struct catalogue_pool, offer.allocatable),
     JSON_COUNT(struct catalogue_pool, offer.allocatable_count), .most = OFFER_RESOURCES_MAX},
    {"labels", JSON_AS_PAIRS, JSON_MEMBER(struct catalogue_pool, offer.labels),
     JSON_COUNT(struct catalogue_pool, offer.label_count),
     .most = OFFER_LABELS_MAX - 2}, /* the labels of rack and region need two places */
    {"zones", JSON_AS_TEXTS, JSON_MEMBER(struct catalogue_pool, zones),
     JSON_COUNT(struct catalogue_pool, zone_count), .least = 1, .most = CATALOGUE_ZONES_MAX},
    {"share", JSON_AS_NUMBER, JSON_MEMBER(struct catalogue_pool, share), .most = SHARE_MAX},
    {"count", JSON_AS_NUMBER, JSON_MEMBER(struct catalogue_pool, count),
     .most = CATALOGUE_MACHINES_MAX},
    {"quota", JSON_AS_OWN, JSON_MEMBER(struct catalogue_pool, quota),
     .own = catalogue_read_fraction},
    {"rack-size", JSON_AS_NUMBER, JSON_MEMBER(struct catalogue_pool, rack_size), .most = RACK_MAX},
    {"delete", JSON_AS_BOOL, JSON_MEMBER(struct catalogue_pool, deletes)},
    {"latency", JSON_AS_ROW, JSON_MEMBER(struct catalogue_pool, behaviour), .row = &latency_row},
    {"fails", JSON_AS_ROW, JSON_MEMBER(struct catalogue_pool, behaviour), .row = &fails_row},
};
static const struct json_fields pool_row = {JSON_FIELDS(pool_fields)};

static enum err catalogue_keep_tables(const struct json *value, void *into, struct arena *,
                                      struct note *note)
{
    *(const struct json **)into = value;
    return json_kind(value) == JSON_KIND_ARRAY ? ERR_OK : json_wrong(note, "must be tables");
}
static const struct json_field root_fields[] = {
    {"seed", JSON_AS_NUMBER, JSON_MEMBER(struct catalogue, seed), .most = INT64_MAX},
    {"region", JSON_AS_TEXT, JSON_MEMBER(struct catalogue, region)},
    {"zones", JSON_AS_TEXTS, JSON_MEMBER(struct catalogue, zones),
     JSON_COUNT(struct catalogue, zone_count), .least = 1, .most = CATALOGUE_ZONES_MAX},
    {"repair", JSON_AS_OWN, JSON_MEMBER(struct catalogue, repair), .own = catalogue_read_span},
    {"latency", JSON_AS_ROW, JSON_MEMBER(struct catalogue, usual), .row = &latency_row},
    {"fails", JSON_AS_ROW, JSON_MEMBER(struct catalogue, usual), .row = &fails_row},
    {"pool", JSON_AS_OWN, JSON_MEMBER(struct catalogue, tables), .own = catalogue_keep_tables},
};
static const struct json_fields root_table = {JSON_FIELDS(root_fields)};

/* --- checks that the tables cannot express --- */

static enum err catalogue_check_zones(const struct str *zones, size_t count, struct note *note)
{
    struct note why;

    for (size_t i = 0; i < count; i++) {
        if (id_check("zone", zones[i], CATALOGUE_NAME_MAX, &why))
            return json_wrong(note, "zones: one is empty, too long or no text");
        for (size_t k = 0; k < i; k++)
            if (str_equal(zones[k], zones[i])) return json_wrong(note, "zones: one is named twice");
    }
    return ERR_OK;
}

static enum err catalogue_read_pool(struct catalogue *c, const struct json *table,
                                    struct catalogue_pool *pool, struct note *note)
{
    struct offer offer;
    enum err err;

    *pool = (struct catalogue_pool){.behaviour = c->usual,
                                    .zones = c->zones,
                                    .zone_count = c->zone_count,
                                    .count = UINT64_MAX,
                                    .quota = CATALOGUE_MILLION,
                                    .deletes = true};
    err = json_fields_read(table, &pool_row, pool, &c->memory, note);
    if (err) return err;
    offer = pool->offer;
    offer.zone = STR("zone");
    if (pool->zone_count == 0) return json_wrong(note, "is in no zone");
    if (json_find(table, "share") && json_find(table, "count"))
        return json_wrong(note, "share: and 'count' exclude each other");
    if (!json_find(table, "share") && !json_find(table, "count")) pool->share = 1;
    for (const struct catalogue_pool *other = c->pools; other < pool; other++)
        if (str_equal(other->name, pool->name)) return json_wrong(note, "has the name of another");
    err = catalogue_check_zones(pool->zones, pool->zone_count, note);
    return err || !offer_check(&offer, note) ? err : ERR_INVALID;
}

static enum err catalogue_read_pools(struct catalogue *c, const struct toml_value *list,
                                     struct note *note)
{
    const struct toml_value *where = list ? toml_first(list) : NULL;
    size_t count = c->tables ? json_count(c->tables) : 0;
    struct catalogue_pool *pools = arena_calloc(&c->memory, count, sizeof *pools);
    enum err err = pools ? ERR_OK : ERR_NOMEM;

    if (count == 0 || count > CATALOGUE_POOLS_MAX)
        return note_fail(note, ERR_INVALID, "a catalogue has 1 to %d tables [[pool]]",
                         CATALOGUE_POOLS_MAX);
    c->pools = pools;
    for (size_t i = 0; !err && i < count; i++, where = toml_next(where)) {
        err = catalogue_read_pool(c, json_item(c->tables, i), &pools[i], note);
        if (err == ERR_INVALID) note_prefix(note, "line %u: pool", toml_position(where).line);
        c->pool_count++;
    }
    return err;
}

static enum err catalogue_read(struct catalogue *c, const struct json *json,
                               const struct toml_value *toml, struct note *note)
{
    struct note why;
    enum err err = json_fields_read(json, &root_table, c, &c->memory, note);

    if (!err && c->region.len > 0 && id_check("region", c->region, LABEL_VALUE_MAX, &why))
        err = json_wrong(note, "region: is too long or no text");
    return err ? err : catalogue_read_pools(c, toml_get(toml, STR("pool")), note);
}

enum err catalogue_open(struct str text, struct catalogue **ret_catalogue, struct note *note)
{
    struct catalogue *c = calloc(1, sizeof *c);
    struct toml *toml = NULL;
    struct json *json = NULL;
    struct buf as_json;
    enum err err;

    if (!c) return ERR_NOMEM;
    c->region = STR_EMPTY;
    c->repair.least_ms = REPAIR_MS_USUAL;
    arena_init(&c->memory, MEMORY_MAX);
    buf_init(&as_json, MEMORY_MAX);
    err = text.len > CATALOGUE_BYTES_MAX ? ERR_TOO_LARGE
                                         : toml_open(text, MEMORY_MAX, &toml, NULL, note);
    if (!err) err = toml_as_json(toml, &as_json, note);
    if (!err) err = json_open(buf_peek(&as_json), MEMORY_MAX, &json, note);
    if (!err) err = catalogue_read(c, json, toml_root(toml), note);
    c->tables = NULL;
    json_close(json);
    toml_close(toml);
    buf_deinit(&as_json);
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

/* Rounds cumulative sums, so that all parts add up to `all`. */
static uint64_t catalogue_part(uint64_t all, uint64_t before, uint64_t mine, uint64_t total)
{
    if (total == 0) return 0;
    return all * (before + mine) / total - all * before / total;
}

uint64_t catalogue_count(const struct catalogue *c, uint64_t seed_count, size_t pool, size_t zone)
{
    const struct catalogue_pool *p = &c->pools[pool];
    uint64_t before = 0, total = 0, mine;

    /* Keeps the product of the count and all shares below 51 bits. */
    seed_count = min_u64(seed_count, CATALOGUE_MACHINES_MAX);
    for (size_t i = 0; i < c->pool_count; i++) {
        total += c->pools[i].share;
        if (i < pool) before += c->pools[i].share;
    }
    mine = p->count == UINT64_MAX ? catalogue_part(seed_count, before, p->share, total) : p->count;
    return catalogue_part(mine, zone, 1, p->zone_count);
}
