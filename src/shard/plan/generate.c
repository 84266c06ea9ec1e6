/* SPDX-License-Identifier: Apache-2.0 */
/* Generates machines and rows of demand. Each random draw depends only on the seed, its purpose and
 * one number, so machines can be generated in any order. */
#include "shard/plan/generate.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/prng.h"
#include "model/penalty.h"

struct machine_kind { /* an entry of a catalogue */
    const char *name;
    uint32_t cpu, memory_gib, gpu;
    double price;
};
static const struct machine_kind kinds[] = {
    {"m5.large", 2, 8, 0, 0.096},         {"m5.xlarge", 4, 16, 0, 0.192},
    {"m5.2xlarge", 8, 32, 0, 0.384},      {"m5.4xlarge", 16, 64, 0, 0.768},
    {"c6a.4xlarge", 16, 32, 0, 0.612},    {"c6a.8xlarge", 32, 64, 0, 1.224},
    {"r6i.2xlarge", 8, 64, 0, 0.504},     {"r6i.4xlarge", 16, 128, 0, 1.008},
    {"i4i.4xlarge", 16, 128, 0, 1.373},   {"g5.12xlarge", 48, 192, 4, 5.672},
    {"p4d.24xlarge", 96, 1152, 8, 32.77}, {"a3-highgpu-8g", 208, 1872, 8, 87.9},
};
static const char *const zones[] = {"us-east-1a", "us-east-1b", "us-east-1c",
                                    "us-west-2a", "us-west-2b", "eu-west-1a"};
enum {
    KINDS = sizeof kinds / sizeof kinds[0],
    GPU_KINDS = 3, /* the last kinds are in racks and used by gangs */
    ZONES = sizeof zones / sizeof zones[0],
    RACK_STRETCH = 768, /* machines among which about sixteen are free and of one kind */
    ODD_LABELS = 5,     /* extra labels per machine in an adversarial fleet */
    ODD_KEYS = 24,
    ODD_VALUES = 40,
};

enum purpose { PURPOSE_MACHINE = 1, PURPOSE_NEED };
static void generate_draws(const struct generate_options *options, enum purpose purpose,
                           uint64_t number, struct prng *ret_prng)
{
    prng_seed(ret_prng, options->seed * 0x9E3779B97F4A7C15u + number * 4 + (uint64_t)purpose);
}

/* Returns an empty text if the arena is full. */
static struct str generate_text(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static struct str generate_text(struct arena *arena, const char *format, ...)
{
    char text[96];
    va_list args;
    int len;
    char *copy;

    va_start(args, format);
    len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    copy = arena_dup(arena, str_of(text, (size_t)len));
    return copy ? str_of(copy, (size_t)len) : STR_EMPTY;
}

static enum err set_amount(struct dimensions *dimensions, struct resources *resources,
                           struct str name, int64_t milli, enum quantity_format format)
{
    uint32_t index;
    enum err err = dimensions_index(dimensions, name, &index, NULL);

    return err ? err : resources_set(resources, index, milli, format);
}

static enum err generate_shape(struct dimensions *dimensions, const struct machine_kind *kind,
                               uint32_t parts, struct resources *ret_resources)
{
    const int64_t gib = (int64_t)1 << 30;
    struct resources out = {0};
    enum err err;

    err = set_amount(dimensions, &out, STR("cpu"), (int64_t)kind->cpu * 1000 / parts,
                     QUANTITY_DECIMAL_SI);
    if (!err)
        err = set_amount(dimensions, &out, STR("memory"),
                         (int64_t)kind->memory_gib * gib / parts * 1000, QUANTITY_BINARY_SI);
    if (!err && kind->gpu)
        err = set_amount(dimensions, &out, STR("nvidia.com/gpu"), (int64_t)kind->gpu * 1000,
                         QUANTITY_DECIMAL_SI);
    if (!err) *ret_resources = out;
    return err;
}

/* ---- demand ---- */

/* Properties of a row of demand, from which its machines are generated, too. */
struct row {
    uint32_t cluster, units;
    const struct machine_kind *kind;
    uint32_t kind_count; /* accepted types: `kind` and the smaller ones before it */
    const char *zone;    /* NULL: any zone */
    bool gang, spread, odd;
    const char *home; /* zone (home) and capacity type (spot) of most machines of the row */
    bool spot;
    uint32_t odd_key, odd_value;
    int32_t priority;
    uint8_t interruption_bucket, reclamation_bucket;
    uint32_t parts; /* the unit is the kind's size divided by this number */
    struct prng prng;
};

static uint32_t rows_before(const struct generate_options *options, uint32_t cluster)
{
    return (uint32_t)((uint64_t)options->needs * cluster / options->clusters);
}

/* Machines bound to each row: three quarters of the row's share. */
static uint32_t bound_each(const struct generate_options *options)
{
    return (options->machines / options->needs * 3 + 3) / 4;
}

static struct row draw_row(const struct generate_options *options, uint32_t number)
{
    static const int32_t priorities[] = {0, 100, 1000, 10000, 1000000};
    struct row row = {.cluster = (uint32_t)((uint64_t)number * options->clusters / options->needs)};
    struct prng *p = &row.prng;
    uint32_t index;

    while (number < rows_before(options, row.cluster)) row.cluster--;
    while (number >= rows_before(options, row.cluster + 1)) row.cluster++;
    generate_draws(options, PURPOSE_NEED, number, p);
    row.gang = prng_chance(p, 50 * 1000);
    row.spread = !row.gang && prng_chance(p, 100 * 1000);
    index = (uint32_t)(row.gang ? KINDS - 1 - prng_below(p, GPU_KINDS)
                                : prng_below(p, prng_chance(p, 100 * 1000) ? KINDS : KINDS - 3));
    row.kind = &kinds[index];
    row.kind_count = row.gang ? 1 : (uint32_t)prng_between(p, 1, index < 3 ? index + 1 : 3);
    if (!row.gang && !row.spread && prng_chance(p, 300 * 1000))
        row.zone = zones[prng_below(p, ZONES)];
    row.priority = priorities[prng_below(p, 5)] + (int32_t)prng_below(p, 20);
    row.interruption_bucket = (uint8_t)prng_between(p, PENALTY_ZERO, PENALTY_PINNED);
    row.reclamation_bucket = (uint8_t)prng_between(p, PENALTY_ZERO, PENALTY_PINNED);
    row.parts = row.gang ? 1 : (uint32_t)prng_between(p, 1, 2);
    row.units = bound_each(options) * row.parts;
    if (prng_chance(p, 30 * 1000))
        row.units += (uint32_t)prng_between(p, 1, 3);
    else if (prng_chance(p, 30 * 1000) && row.units > 1)
        row.units--;
    if (row.units == 0) row.units = 1;
    row.home = row.zone ? row.zone : zones[prng_below(p, ZONES)];
    row.spot = row.interruption_bucket < PENALTY_DOLLAR + 4;
    row.odd = options->adversarial;
    row.odd_key = (uint32_t)prng_below(p, ODD_KEYS);
    row.odd_value = (uint32_t)prng_below(p, ODD_VALUES);
    return row;
}

static enum err requirements_of(struct row *row, struct arena *arena, struct profile *profile)
{
    struct requirement *list = arena_calloc(arena, 4, sizeof *list);
    struct str *types = arena_calloc(arena, row->kind_count, sizeof *types);
    struct str *one = arena_calloc(arena, 2, sizeof *one);

    if (!list || !types || !one) return ERR_NOMEM;
    for (uint32_t i = 0; i < row->kind_count; i++) types[i] = str_from((row->kind - i)->name);
    list[profile->requirement_count++] =
        (struct requirement){LABEL_INSTANCE_TYPE, OPERATOR_IN, types, row->kind_count};
    if (row->zone) {
        one[0] = str_from(row->zone);
        list[profile->requirement_count++] = (struct requirement){LABEL_ZONE, OPERATOR_IN, one, 1};
    }
    if (row->gang)
        list[profile->requirement_count++] =
            (struct requirement){STR("example.com/rack"), OPERATOR_SAME, NULL, 0};
    if (row->odd) { /* a value that few machines have */
        one[1] = generate_text(arena, "v%u", row->odd_value);
        list[profile->requirement_count++] = (struct requirement){
            generate_text(arena, "example.com/odd-%u", row->odd_key), OPERATOR_NOT_IN, &one[1], 1};
    }
    profile->requirements = list;
    return ERR_OK;
}

static enum err profile_of(struct row *row, struct arena *arena, struct profile *ret_profile)
{
    struct profile given = {
        .priority = row->priority,
        .interruption_bucket = row->interruption_bucket,
        .reclamation_bucket = row->reclamation_bucket,
    };
    struct spread *spread;
    enum err err = requirements_of(row, arena, &given);

    if (err) return err;
    if (row->spread) {
        spread = ARENA_NEW(arena, struct spread);
        if (!spread) return ERR_NOMEM;
        *spread =
            (struct spread){LABEL_ZONE, 1 + (int32_t)(row->units % 3), SPREAD_DO_NOT_SCHEDULE};
        given.spreads = spread;
        given.spread_count = 1;
    }
    return profile_build(arena, &given, ret_profile, NULL);
}

static struct str cluster_name(struct arena *arena, uint32_t cluster)
{
    return generate_text(arena, "cluster-%03u", cluster);
}

static struct str group_name(struct arena *arena, const struct row *row, uint32_t number)
{
    return row->gang ? generate_text(arena, "job-%u", number) : STR_EMPTY;
}

enum err generate_needs(const struct generate_options *options, uint32_t cluster,
                        struct arena *arena, struct dimensions *dimensions, struct str *ret_cluster,
                        struct need **ret_rows, size_t *ret_count)
{
    uint32_t first = rows_before(options, cluster), end = rows_before(options, cluster + 1);
    struct need *rows = arena_calloc(arena, end - first, sizeof *rows);
    struct str name = cluster_name(arena, cluster);

    assert(cluster < options->clusters);
    if (!rows || !name.len) return ERR_NOMEM;
    for (uint32_t number = first; number < end; number++) {
        struct row row = draw_row(options, number);
        struct need *need = &rows[number - first];
        enum err err;

        need->cluster = name;
        need->group = group_name(arena, &row, number);
        need->arrival_unix_ns = 1 + number % 97;
        err = profile_of(&row, arena, &need->profile);
        if (!err) err = generate_shape(dimensions, row.kind, row.parts, &need->min_unit);
        if (err) return err;
        resource_sum_clear(&need->aggregate);
        resource_sum_scale(&need->aggregate, &need->min_unit, row.units);
    }
    *ret_cluster = name;
    *ret_rows = rows;
    *ret_count = end - first;
    return ERR_OK;
}

/* ---- supply ---- */

static enum machine_state draw_state(struct prng *p, bool bound)
{
    uint64_t draw = prng_below(p, 1000);

    if (bound) {
        if (draw < 990) return MACHINE_CONFIGURED;
        if (draw < 993) return MACHINE_CREATING;
        return draw < 997 ? MACHINE_CONFIGURING : MACHINE_DRAINING;
    }
    if (draw < 250) return MACHINE_IDLE;
    if (draw < 980) return MACHINE_SPECULATIVE;
    return draw < 985 ? MACHINE_DELETING : MACHINE_FAILED;
}

static enum err stamp_machine(struct row *row, uint32_t number, struct arena *arena,
                              struct machine *m)
{
    struct profile profile;
    struct str cluster = cluster_name(arena, row->cluster);
    enum err err;

    if (m->state == MACHINE_CREATING)
        m->destination = cluster;
    else
        m->cluster = cluster;
    err = profile_of(row, arena, &profile);
    if (err) return err;
    m->stamp = (struct machine_stamp){
        .priority = row->priority,
        .interruption_dollars = penalty_dollars(row->interruption_bucket),
        .reclamation_dollars = penalty_dollars(row->reclamation_bucket),
        .fingerprint = profile.fingerprint,
        .group = group_name(arena, row, number),
    };
    return ERR_OK;
}

static enum err label_machine(const struct generate_options *options, struct prng *p,
                              uint32_t number, uint32_t rack, bool racked, struct arena *arena,
                              struct machine *m)
{
    struct label *labels = arena_calloc(arena, ODD_LABELS + 2, sizeof *labels);
    size_t count = 0;

    if (!labels) return ERR_NOMEM;
    if (racked)
        labels[count++] =
            (struct label){STR("example.com/rack"), generate_text(arena, "rack-%u", rack)};
    if (options->adversarial) {
        uint32_t first = (uint32_t)prng_below(p, ODD_KEYS);

        labels[count++] =
            (struct label){STR("example.com/asset"), generate_text(arena, "a%u", number)};
        for (uint32_t i = 0; i < ODD_LABELS; i++)
            labels[count++] = (struct label){
                generate_text(arena, "example.com/odd-%u", (first + i * 5) % ODD_KEYS),
                generate_text(arena, "v%u", (unsigned)prng_below(p, ODD_VALUES))};
    }
    m->attributes.labels = labels;
    m->attributes.label_count = count;
    return labels_canonicalise("labels", labels, count, NULL);
}

enum err generate_machine(const struct generate_options *options, uint32_t number,
                          struct arena *arena, struct dimensions *dimensions,
                          struct machine *ret_machine)
{
    struct machine m = {0};
    struct prng p;
    struct row row = {0};
    const struct machine_kind *kind;
    bool bound, gpu, as_usual;
    uint32_t row_number = 0, rack;
    enum err err = ERR_OK;

    generate_draws(options, PURPOSE_MACHINE, number, &p);
    bound = options->needs > 0 && number / options->needs < bound_each(options);
    m.state = draw_state(&p, bound);
    kind = &kinds[prng_below(&p, KINDS)];
    as_usual = bound && prng_chance(&p, 850 * 1000); /* bought in bulk, in the cheapest place */
    if (bound) {
        row_number = number % options->needs;
        row = draw_row(options, row_number);
        kind = row.kind;
    }
    gpu = kind >= &kinds[KINDS - GPU_KINDS];
    /* The machines of a gang share a rack. Free machines of a kind share racks of about sixteen. */
    rack = bound && row.gang
               ? row_number
               : options->needs + number / RACK_STRETCH * KINDS + (uint32_t)(kind - kinds);
    m.id = generate_text(arena, "i-%08x%06x", (uint32_t)(number * 2654435761u), number);
    m.attributes.instance_type = str_from(kind->name);
    if (bound && row.gang)
        m.attributes.zone = str_from(zones[rack % ZONES]);
    else if (row.zone)
        m.attributes.zone = str_from(row.zone);
    else if (as_usual && !row.spread)
        m.attributes.zone = str_from(row.home);
    else
        m.attributes.zone = str_from(gpu ? zones[rack % ZONES] : zones[prng_below(&p, ZONES)]);
    m.capacity_type =
        (as_usual ? row.spot : prng_chance(&p, 300 * 1000)) ? CAPACITY_SPOT : CAPACITY_ON_DEMAND;
    m.price_per_hour = kind->price;
    if (m.capacity_type == CAPACITY_SPOT) {
        m.price_per_hour *= 0.35;
        m.interruption_probability = 0.05;
    }
    if (options->adversarial) m.price_per_hour += (double)(number % 9973) * 1e-6;
    if (m.state != MACHINE_SPECULATIVE && m.state != MACHINE_CREATING) {
        m.host_provider = STR("example");
        m.host_ref = m.id;
    }
    if (m.state == MACHINE_FAILED) m.last_error = STR("create: no capacity");
    err = generate_shape(dimensions, kind, 1, &m.resources);
    if (!err) err = label_machine(options, &p, number, rack, gpu, arena, &m);
    if (!err && bound) err = stamp_machine(&row, row_number, arena, &m);
    if (!err && (!m.id.len || !m.attributes.labels)) err = ERR_NOMEM;
    if (!err) *ret_machine = m;
    return err;
}
