/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of one cluster and the rows that they form. No I/O. */
#include "operator/core/demand.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "model/penalty.h"

enum {
    SCRATCH_MAX = 8 << 20, /* bytes; fits 64 requirements of 1,024 values */
    ROW_MAX = 4 << 20,     /* bytes */
    KEY_MAX = FINGERPRINT_MAX + 1 + GROUP_MAX,
};

struct row {
    struct rollup_row view;
    struct arena arena;   /* memory of profile and group */
    struct str key;       /* fingerprint NUL group; the bytes are stored after the row */
    struct list requests; /* struct entry */
    uint64_t named;
    bool stale; /* the sums are out of date */
};
struct entry { /* one request */
    struct list link;
    struct row *row;
    struct resources unit;
    uint32_t count;
    uint64_t list; /* newest full list that has this request */
    size_t id_len;
    char id[];
};
struct demand {
    struct map entries, rows;
    struct map supplies; /* struct supply, by the key of a row */
    struct dimensions dimensions;
    struct arena scratch;
    struct buf key;
    uint64_t change, list, refused;
    bool listing, listed;
};

enum err demand_open(uint64_t seed, struct demand **ret_demand)
{
    struct demand *d = calloc(1, sizeof *d);

    if (!d) return ERR_NOMEM;
    map_init(&d->entries, DEMAND_REQUESTS_MAX, seed);
    map_init(&d->rows, DEMAND_ROWS_MAX, ~seed);
    map_init(&d->supplies, DEMAND_ROWS_MAX, ~seed);
    dimensions_init(&d->dimensions);
    arena_init(&d->scratch, SCRATCH_MAX);
    buf_init(&d->key, KEY_MAX);
    d->change = 1; /* 0 means no change */
    *ret_demand = d;
    return ERR_OK;
}

static void row_free(struct row *row)
{
    arena_deinit(&row->arena);
    free(row);
}

void demand_close(struct demand *d)
{
    struct map_entry *each;
    size_t cursor = 0;

    if (!d) return;
    while ((each = map_next(&d->rows, &cursor))) row_free(each->value);
    map_free(&d->entries);
    map_free(&d->supplies);
    map_deinit(&d->rows);
    dimensions_deinit(&d->dimensions);
    arena_deinit(&d->scratch);
    buf_deinit(&d->key);
    free(d);
}

static void demand_table_check(const struct demand *d)
{
    assert(map_count(&d->rows) <= map_count(&d->entries)); /* invariant I1, I2 */
}

/* -- building and checking a row -- */

static enum err bucket_of(struct request_penalty penalty, const char *field, uint8_t *ret_bucket,
                          struct note *note)
{
    enum err err;

    *ret_bucket = PENALTY_UNSPECIFIED;
    if (!penalty.given) return ERR_OK;
    err = penalty_from_dollars(penalty.dollars, ret_bucket);
    if (err) note_set(note, "%s: not a number of dollars", field);
    return err;
}

static enum err take_requirements(struct demand *d, const struct capacity_request *r,
                                  struct profile *profile, struct note *note)
{
    size_t count = r->requirement_count + (r->same_key.len > 0);
    struct requirement *all = arena_calloc(&d->scratch, count, sizeof *all);

    if (!all) return ERR_NOMEM;
    for (size_t i = 0; i < r->requirement_count; i++) {
        if (r->requirements[i].op == OPERATOR_SAME)
            return note_fail(note, ERR_INVALID,
                             "requirements[%zu]: Same is asked for by a co-location", i);
        all[i] = r->requirements[i];
    }
    if (r->same_key.len > 0)
        all[count - 1] = (struct requirement){.key = r->same_key, .op = OPERATOR_SAME};
    profile->requirements = all;
    profile->requirement_count = count;
    return ERR_OK;
}

static enum err take_spreads(struct demand *d, const struct capacity_request *r,
                             struct profile *profile)
{
    struct spread *strict = arena_calloc(&d->scratch, r->spread_count, sizeof *strict);
    size_t count = 0;

    if (!strict) return ERR_NOMEM;
    for (size_t i = 0; i < r->spread_count; i++)
        if (r->spreads[i].when != SPREAD_SCHEDULE_ANYWAY) strict[count++] = r->spreads[i];
    profile->spreads = strict;
    profile->spread_count = count;
    return ERR_OK;
}

static enum err demand_check_plain(const struct capacity_request *r, struct note *note)
{
    if (r->count == 0 || r->count > REQUEST_COUNT_MAX)
        return note_fail(note, ERR_INVALID, "count: %u, between 1 and %d is allowed", r->count,
                         REQUEST_COUNT_MAX);
    if (r->group.len > 0 && r->same_key.len == 0)
        return note_fail(note, ERR_INVALID, "group: only with a co-location");
    if (r->resource_count == 0) return note_fail(note, ERR_INVALID, "resources: none is named");
    return ERR_OK;
}

/* Works on a copy of the names, so that a refused request adds none. */
static struct dimensions try_names(const struct demand *d)
{
    struct dimensions names = d->dimensions;

    arena_init(&names.arena, d->dimensions.arena.max);
    return names;
}

/* Adds the new resource names in the same order, so that each keeps its number. */
static enum err keep_names(struct demand *d, const struct dimensions *tried, struct note *note)
{
    enum err err = ERR_OK;
    uint32_t index;

    for (uint32_t i = d->dimensions.count; i < tried->count && !err; i++) {
        err = dimensions_index(&d->dimensions, tried->names[i], &index, note);
        assert(err || index == i);
    }
    return err;
}

static enum err build(struct demand *d, const struct capacity_request *r, struct dimensions *names,
                      struct need *ret_need, struct note *note)
{
    struct need_input input = {.cluster = STR("cluster"),
                               .aggregate = r->resources,
                               .aggregate_count = r->resource_count,
                               .min_unit = r->resources,
                               .min_unit_count = r->resource_count,
                               .group = r->group};
    enum err err = demand_check_plain(r, note);

    arena_reset(&d->scratch);
    input.profile.priority = r->priority;
    if (!err)
        err = bucket_of(r->interruption, "interruption_penalty", &input.profile.interruption_bucket,
                        note);
    if (!err)
        err = bucket_of(r->reclamation, "reclamation_penalty", &input.profile.reclamation_bucket,
                        note);
    if (!err) err = take_requirements(d, r, &input.profile, note);
    if (!err) err = take_spreads(d, r, &input.profile);
    return err ? err : need_build(&d->scratch, names, &input, ret_need, note);
}

/* -- rows and their sums -- */

static void row_sum(struct row *row)
{
    struct resource_sum *sum = &row->view.aggregate;
    struct resource_sum some;

    resource_sum_clear(sum);
    row->view.min_unit = (struct resources){0};
    row->view.requests = 0;
    row->named = 0;
    LIST_EACH(&row->requests, link)
    {
        const struct entry *entry = CONTAINER_OF(link, struct entry, link);
        enum err err = resources_max(&row->view.min_unit, &entry->unit);
        assert(!err); /* row_takes() has checked this */
        (void)err;
        resource_sum_scale(&some, &entry->unit, entry->count);
        resource_sum_add_sum(sum, &some);
        row->named |= entry->unit.mask;
        row->view.requests++;
    }
    row->stale = false;
}

static bool row_takes(struct row *row, const struct resources *unit)
{
    if (resource_bits(row->named | unit->mask) <= RESOURCES_MAX) return true;
    row_sum(row);
    return resource_bits(row->named | unit->mask) <= RESOURCES_MAX;
}

static void row_drop_if_empty(struct demand *d, struct row *row)
{
    if (!list_empty(&row->requests)) return;
    map_remove(&d->rows, row->key);
    row_free(row);
}

static enum err row_make(struct demand *d, const struct need *need, struct row **ret_row)
{
    struct row *row = map_make(&d->rows, buf_peek(&d->key), sizeof *row);
    struct note note;
    char *group;
    enum err err;

    if (!row) return map_count(&d->rows) == DEMAND_ROWS_MAX ? ERR_FULL : ERR_NOMEM;
    row->key = str_of(row + 1, d->key.len);
    list_init(&row->requests);
    resource_sum_clear(&row->view.aggregate);
    arena_init(&row->arena, ROW_MAX);
    err = profile_build(&row->arena, &need->profile, &row->view.profile, &note);
    group = arena_dup(&row->arena, need->group);
    row->view.group = str_of(group, need->group.len);
    if (!err && !group) err = ERR_NOMEM;
    if (err)
        row_drop_if_empty(d, row);
    else
        *ret_row = row;
    return err;
}

static enum err row_key(struct demand *d, struct str fingerprint, struct str group)
{
    enum err err;

    buf_clear(&d->key);
    err = buf_append(&d->key, fingerprint);
    if (!err) err = buf_append_byte(&d->key, '\0');
    return err ? err : buf_append(&d->key, group);
}

static enum err row_for(struct demand *d, const struct need *need, struct row **ret_row,
                        struct note *note)
{
    struct row *row = NULL;
    enum err err = row_key(d, need->profile.fingerprint, need->group);

    if (!err) row = map_get(&d->rows, buf_peek(&d->key));
    if (!err && !row) {
        err = row_make(d, need, &row);
        if (err == ERR_FULL) note_set(note, "more than %d different rows", DEMAND_ROWS_MAX);
    }
    if (!err && !row_takes(row, &need->min_unit))
        return note_fail(note, ERR_FULL,
                         "resources: with the others of its profile more than %d names",
                         RESOURCES_MAX);
    if (!err) *ret_row = row;
    return err;
}

/* -- requests -- */

static enum err entry_make(struct demand *d, struct str id, struct entry **ret_entry,
                           struct note *note)
{
    struct entry *entry;
    enum err err = id_check("id", id, ID_MAX, note);

    if (err) return err;
    entry = map_make(&d->entries, id, sizeof *entry);
    if (!entry && map_count(&d->entries) == DEMAND_REQUESTS_MAX)
        return note_fail(note, ERR_FULL, "more than %d requests", DEMAND_REQUESTS_MAX);
    if (!entry) return ERR_NOMEM;
    list_init(&entry->link);
    entry->id_len = id.len;
    *ret_entry = entry;
    return ERR_OK;
}

static bool entry_is(const struct entry *entry, const struct row *row, const struct need *need,
                     uint32_t count)
{
    return entry->row == row && entry->count == count && entry->unit.mask == need->min_unit.mask &&
           resources_equal(&entry->unit, &need->min_unit);
}

static void entry_set(struct demand *d, struct entry *entry, struct row *row,
                      const struct need *need, uint32_t count)
{
    /* Append first: a row that stays the same must not be freed in between. */
    struct row *old = entry->row;

    list_remove(&entry->link);
    list_append(&row->requests, &entry->link);
    entry->row = row;
    entry->unit = need->min_unit;
    entry->count = count;
    row->named |= need->min_unit.mask;
    row->stale = true;
    if (old && old != row) {
        old->stale = true;
        row_drop_if_empty(d, old);
    }
    d->change++;
}

static enum err entry_put(struct demand *d, struct str id, const struct capacity_request *request,
                          struct note *note)
{
    struct entry *entry = map_get(&d->entries, id);
    struct dimensions names = try_names(d);
    struct row *row = NULL;
    struct need need;
    enum err err = build(d, request, &names, &need, note);

    if (!err) err = keep_names(d, &names, note);
    arena_deinit(&names.arena);
    if (!err) err = row_for(d, &need, &row, note);
    if (!err && !entry) {
        err = entry_make(d, id, &entry, note);
        if (err) row_drop_if_empty(d, row);
    }
    if (err) return err;
    if (!entry_is(entry, row, &need, request->count))
        entry_set(d, entry, row, &need, request->count);
    entry->list = d->list;
    return ERR_OK;
}

enum err demand_put(struct demand *d, struct str id, const struct capacity_request *request,
                    uint64_t *ret_change, struct note *note)
{
    enum err err = entry_put(d, id, request, note);

    if (err)
        d->refused++;
    else if (ret_change)
        *ret_change = d->change;
    demand_table_check(d);
    return err;
}

enum err demand_check(struct demand *d, const struct capacity_request *request, struct note *note)
{
    struct dimensions names = try_names(d);
    struct need need;
    enum err err = build(d, request, &names, &need, note);

    arena_deinit(&names.arena);
    return err;
}

static void remove_entry(struct demand *d, struct entry *entry)
{
    map_remove(&d->entries, str_of(entry->id, entry->id_len));
    list_remove(&entry->link);
    entry->row->stale = true;
    row_drop_if_empty(d, entry->row);
    free(entry);
    d->change++;
}

void demand_remove(struct demand *d, struct str id)
{
    struct entry *entry = map_get(&d->entries, id);

    if (entry) remove_entry(d, entry);
}

/* -- reports of the shard -- */

enum err demand_supply_put(struct demand *d, struct str fingerprint, struct str group,
                           const struct supply *supply)
{
    enum err err = row_key(d, fingerprint, group);
    struct supply *kept;

    if (err) return err;
    if (!supply) {
        free(map_remove(&d->supplies, buf_peek(&d->key)));
        return ERR_OK;
    }
    kept = map_make(&d->supplies, buf_peek(&d->key), sizeof *kept);
    if (!kept) return map_count(&d->supplies) == DEMAND_ROWS_MAX ? ERR_FULL : ERR_NOMEM;
    *kept = *supply;
    return ERR_OK;
}

void demand_supplies_forget(struct demand *d)
{
    uint64_t seed = d->supplies.seed;

    map_free(&d->supplies);
    map_init(&d->supplies, DEMAND_ROWS_MAX, seed);
}

const struct supply *demand_supply(const struct demand *d, struct str id)
{
    const struct entry *entry = map_get(&d->entries, id);

    return entry ? map_get(&d->supplies, entry->row->key) : NULL;
}

/* -- lists of a source -- */

void demand_list_begin(struct demand *d)
{
    d->list++;
    d->listing = true;
}

void demand_list_end(struct demand *d)
{
    struct map_entry *each;
    size_t cursor = 0;

    assert(d->listing);
    while ((each = map_next(&d->entries, &cursor))) {
        struct entry *entry = each->value;
        if (entry->list != d->list) remove_entry(d, entry);
    }
    d->listing = false;
    d->listed = true;
}

void demand_list_give_up(struct demand *d)
{
    d->listing = false;
}

/* -- reading the demand -- */

bool demand_whole(const struct demand *d)
{
    return d->listed && !d->listing;
}

uint64_t demand_change(const struct demand *d)
{
    return d->change;
}

uint64_t demand_refused(const struct demand *d)
{
    return d->refused;
}

size_t demand_requests(const struct demand *d)
{
    return map_count(&d->entries);
}

size_t demand_rows(const struct demand *d)
{
    return map_count(&d->rows);
}

const struct dimensions *demand_dimensions(const struct demand *d)
{
    return &d->dimensions;
}

const struct rollup_row *demand_next(struct demand *d, size_t *cursor)
{
    struct map_entry *each = map_next(&d->rows, cursor);
    struct row *row = each ? each->value : NULL;

    if (!row) return NULL;
    if (row->stale) row_sum(row);
    assert(row->view.requests > 0); /* invariant I1 */
    return &row->view;
}
