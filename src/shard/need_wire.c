/* SPDX-License-Identifier: Apache-2.0 */
/* Converts roll-ups to rows of Needs, and inspected Needs to frames. A refused roll-up must not add
 * resource names, so a roll-up is read with a copy of the names. Runs on the decide thread. */
#include "shard/need_wire.h"

#include <inttypes.h>
#include <stdio.h>

#include "model/penalty.h"
#include "shard/state/demand.h"
#include "wire/field.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_capacity.pb-c.h"

enum {
    NEED_WIRE_SCRATCH_MAX = 64 * ROLLUP_ROW_BYTES_MAX, /* memory for one decoded row */
    ENTRIES_MAX = 4 * RESOURCES_MAX,                   /* entries of one map; keys may repeat */
    WRITER_MAX = 8 << 20, /* room for 64 KiB of requirements, 256 labels, 3 x 64 resources */
    SHOWN = 80,           /* bytes of an unknown id shown in a note */
};

/* -- a roll-up -- */

struct top { /* a roll-up without its rows */
    struct str cluster;
    int64_t at_unix_ns;
    size_t rows, machines;
    bool pending;
};

/* If a field is repeated, the last value counts, as in protobuf. */
static enum err read_top(struct str bytes, size_t rows_max, struct top *ret_top, struct note *note)
{
    struct fields fields = fields_of(bytes);
    struct top top = {.cluster = STR_EMPTY};
    struct field field;

    while (fields_next(&fields, &field)) {
        bool is_known = field.number >= 1 && field.number <= 3;
        if (is_known && field.wire != (field.number == 2 ? WIRE_VARINT : WIRE_LEN))
            return note_fail(note, ERR_PARSE, "field %u: wrong wire type", field.number);
        if (field.number == 1) top.cluster = field.bytes;
        if (field.number == 2) top.at_unix_ns = (int64_t)field.value;
        if (field.number == 3 && top.rows++ == rows_max)
            return note_fail(note, ERR_TOO_LARGE, "needs: more than %zu rows", rows_max);
        if (field.number == 101) top.pending = field.wire == WIRE_VARINT && field.value;
        if (field.number == 100 && field.wire != WIRE_LEN)
            return note_fail(note, ERR_PARSE, "occupancy: wrong wire type");
        if (field.number == 100 && top.machines++ == ROLLUP_OCCUPANCY_MAX)
            return note_fail(note, ERR_TOO_LARGE, "occupancy: more than %d machines",
                             ROLLUP_OCCUPANCY_MAX);
    }
    if (fields.problem) return note_fail(note, ERR_PARSE, "%s", fields.problem);
    *ret_top = top;
    return ERR_OK;
}

/* A repeated key replaces the earlier one. */
static enum err take_pairs(struct arena *scratch, const char *field,
                           ProtobufCMessage *const *entries, size_t count,
                           const struct label **ret_pairs, size_t *ret_count, struct note *note)
{
    struct label *pairs = arena_calloc(scratch, count, sizeof *pairs);
    size_t kept = 0;

    if (!pairs) return ERR_NOMEM;
    if (count > ENTRIES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%s: %zu names, at most %d are allowed", field, count,
                         RESOURCES_MAX);
    for (size_t i = 0; i < count; i++) {
        /* All map entries from text to text have the same layout. */
        const Bigfleet__V1alpha1__CapacityNeed__MinUnitEntry *entry = (const void *)entries[i];
        struct label pair = {str_from(entry->key), str_from(entry->value)};
        size_t at = 0;
        while (at < kept && !str_equal(pairs[at].key, pair.key)) at++;
        pairs[at] = pair;
        kept = max_size(kept, at + 1);
    }
    *ret_pairs = pairs;
    *ret_count = kept;
    return ERR_OK;
}

static enum err take_spreads(struct arena *scratch, const Bigfleet__V1alpha1__CapacityNeed *row,
                             struct profile *profile, struct note *note)
{
    struct spread *spreads = arena_calloc(scratch, row->n_spread, sizeof *spreads);

    if (!spreads) return ERR_NOMEM;
    for (size_t i = 0; i < row->n_spread; i++) {
        const Bigfleet__V1alpha1__TopologySpread *given = row->spread[i];
        if ((uint32_t)given->when_unsatisfiable >= SPREAD_WHEN_COUNT)
            return note_fail(note, ERR_INVALID, "spread[%zu].when_unsatisfiable: unknown number %d",
                             i, (int)given->when_unsatisfiable);
        spreads[i] = (struct spread){.key = str_from(given->topology_key),
                                     .max_skew = given->max_skew,
                                     .when = (enum spread_when)given->when_unsatisfiable};
    }
    profile->spreads = spreads;
    profile->spread_count = row->n_spread;
    return ERR_OK;
}

static enum err take_profile(struct arena *scratch, const Bigfleet__V1alpha1__CapacityNeed *row,
                             struct profile *profile, struct note *note)
{
    uint32_t interruption = (uint32_t)row->interruption_penalty_bucket;
    uint32_t reclamation = (uint32_t)row->reclamation_penalty_bucket;
    enum err err = penalty_check("interruption_penalty_bucket", interruption, note);

    if (!err) err = penalty_check("reclamation_penalty_bucket", reclamation, note);
    if (!err)
        err = read_requirements(scratch, row->requirements, row->n_requirements,
                                &profile->requirements, note);
    if (!err) err = take_spreads(scratch, row, profile, note);
    if (err) return err;
    profile->requirement_count = row->n_requirements;
    profile->priority = row->priority;
    profile->interruption_bucket = (uint8_t)interruption;
    profile->reclamation_bucket = (uint8_t)reclamation;
    return ERR_OK;
}

struct reading {
    const struct top *top;
    struct arena *arena;
    struct arena scratch;         /* memory of one row */
    struct dimensions dimensions; /* the shard's resource names and the roll-up's new names */
};

static enum err read_row(struct reading *r, struct str bytes, struct need *ret_need,
                         struct note *note)
{
    struct need_input input = {.cluster = r->top->cluster, .arrival_unix_ns = r->top->at_unix_ns};
    const Bigfleet__V1alpha1__CapacityNeed *row;
    ProtobufCMessage *message;
    enum err err;

    if (bytes.len > ROLLUP_ROW_BYTES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%zu bytes, at most %d are allowed", bytes.len,
                         ROLLUP_ROW_BYTES_MAX);
    err = message_read(&bigfleet__v1alpha1__capacity_need__descriptor, bytes, NULL, &r->scratch,
                       &message, note);
    if (err) return err;
    row = (const Bigfleet__V1alpha1__CapacityNeed *)message;
    err = take_profile(&r->scratch, row, &input.profile, note);
    if (!err)
        err = take_pairs(
            &r->scratch, "aggregate_resources", (ProtobufCMessage *const *)row->aggregate_resources,
            row->n_aggregate_resources, &input.aggregate, &input.aggregate_count, note);
    if (!err)
        err = take_pairs(&r->scratch, "min_unit", (ProtobufCMessage *const *)row->min_unit,
                         row->n_min_unit, &input.min_unit, &input.min_unit_count, note);
    if (err) return err;
    input.group = str_of(row->group.data, row->group.len);
    return need_build(r->arena, &r->dimensions, &input, ret_need, note);
}

/* Leaves out rows that no machine can satisfy. */
static enum err read_rows(struct reading *r, struct str bytes, struct need *rows,
                          struct rollup_rows *ret_rows, struct note *note)
{
    struct fields fields = fields_of(bytes);
    struct field field;
    size_t index = 0;

    while (fields_next(&fields, &field)) {
        enum err err;
        if (field.number != 3) continue;
        err = read_row(r, field.bytes, &rows[ret_rows->count], note);
        arena_reset(&r->scratch);
        if (err) note_prefix(note, "needs[%zu]", index);
        if (err && err != ERR_UNSUPPORTED) return err;
        if (!err)
            ret_rows->count++;
        else if (ret_rows->contradictions++ == 0 && note)
            ret_rows->contradiction = *note;
        index++;
    }
    return ERR_OK;
}

/* Reads one vector of a MachineOccupancy. */
static enum err read_vector(struct reading *r, const char *field, ProtobufCMessage *const *entries,
                            size_t count, struct resources *ret_vector, struct note *note)
{
    const struct label *pairs;
    size_t kept;
    enum err err = take_pairs(&r->scratch, field, entries, count, &pairs, &kept, note);

    return err ? err : resources_parse(&r->dimensions, field, pairs, kept, ret_vector, note);
}

static enum err read_machine(struct reading *r, struct str bytes, struct machine_occupancy *row,
                             struct note *note)
{
    const Bigfleet__V1alpha1__MachineOccupancy *given;
    ProtobufCMessage *message;
    enum err err;

    if (bytes.len > ROLLUP_ROW_BYTES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%zu bytes, at most %d are allowed", bytes.len,
                         ROLLUP_ROW_BYTES_MAX);
    err = message_read(&bigfleet__v1alpha1__machine_occupancy__descriptor, bytes, NULL, &r->scratch,
                       &message, note);
    if (err) return err;
    given = (const Bigfleet__V1alpha1__MachineOccupancy *)message;
    *row = (struct machine_occupancy){.evictable = given->evictable_pods,
                                      .held = given->held_pods,
                                      .disruption = given->disruption_cost};
    err = id_check("machine_id", str_from(given->machine_id), ID_MAX, note);
    if (!err) err = text_copy(r->arena, str_from(given->machine_id), &row->machine);
    if (!err && !(row->disruption >= 0))
        err = note_fail(note, ERR_INVALID, "disruption_cost: %g is no cost", row->disruption);
    if (!err)
        err = read_vector(r, "free", (ProtobufCMessage *const *)given->free, given->n_free,
                          &row->free, note);
    if (!err)
        err = read_vector(r, "requested", (ProtobufCMessage *const *)given->requested,
                          given->n_requested, &row->requested, note);
    if (!err)
        err = read_vector(r, "largest", (ProtobufCMessage *const *)given->largest, given->n_largest,
                          &row->largest, note);
    return err;
}

static enum err read_machines(struct reading *r, struct str bytes, struct rollup_rows *ret_rows,
                              struct note *note)
{
    struct fields fields = fields_of(bytes);
    struct machine_occupancy *rows = arena_alloc(r->arena, r->top->machines * sizeof *rows);
    struct field field;
    enum err err = rows ? ERR_OK : ERR_NOMEM;

    while (!err && fields_next(&fields, &field)) {
        if (field.number != 100) continue;
        err = read_machine(r, field.bytes, &rows[ret_rows->occupancy_count], note);
        arena_reset(&r->scratch);
        if (err) note_prefix(note, "occupancy[%zu]", ret_rows->occupancy_count);
        ret_rows->occupancy_count++;
    }
    ret_rows->occupancy = rows;
    return err;
}

/* Adds a roll-up's new resource names in the same order, so that each name gets the same number. */
static enum err keep_names(struct dimensions *into, const struct dimensions *from,
                           struct note *note)
{
    uint32_t index, before = into->count;
    enum err err = ERR_OK;

    if (from->count > before && from->count > DIMENSIONS_MAX - ROLLUP_DIMENSIONS_SPARED)
        return note_fail(note, ERR_FULL,
                         "resource %.*s: the shard knows %u names, demand may add no more",
                         STR_ARG(from->names[before]), before);
    for (uint32_t i = before; i < from->count && !err; i++) {
        err = dimensions_index(into, from->names[i], &index, note);
        assert(err || index == i);
    }
    return err;
}

enum err rollup_read(struct str bytes, struct str cluster, size_t rows_max, struct arena *arena,
                     struct dimensions *dimensions, struct rollup_rows *ret_rows, struct note *note)
{
    struct reading r = {.arena = arena, .dimensions = *dimensions};
    struct rollup_rows rows = {0};
    struct need *room;
    struct top top;
    enum err err = read_top(bytes, rows_max ? rows_max : ROLLUP_ROWS_MAX, &top, note);

    if (err) return err;
    if (!str_equal(top.cluster, cluster))
        return note_fail(note, ERR_INVALID, "cluster_id: \"%.*s\" in a session of \"%.*s\"",
                         (int)min_size(top.cluster.len, SHOWN), top.cluster.at, STR_ARG(cluster));
    room = arena_alloc(arena, top.rows * sizeof *room);
    if (!room) return note_fail(note, ERR_NOMEM, "needs: no memory for the rows");
    r.top = &top;
    arena_init(&r.scratch, NEED_WIRE_SCRATCH_MAX);
    arena_init(&r.dimensions.arena, dimensions->arena.max);
    err = read_rows(&r, bytes, room, &rows, note);
    if (!err && top.machines) err = read_machines(&r, bytes, &rows, note);
    if (!err) err = keep_names(dimensions, &r.dimensions, note);
    arena_deinit(&r.dimensions.arena);
    arena_deinit(&r.scratch);
    if (err) return err;
    rows.rows = room;
    rows.occupancy_pending = top.pending;
    *ret_rows = rows;
    return ERR_OK;
}

enum err rollup_apply(struct core *core, struct str cluster, struct str bytes,
                      struct arena *scratch, mono_time now, enum rollup_verdict *ret_verdict,
                      struct rollup_rows *ret_rows, struct effects *out)
{
    struct note note = {""};
    enum err err = rollup_read(bytes, cluster, 0, scratch, core_dimensions(core), ret_rows, &note);

    if (err) {
        core_rollup_refused(core, cluster, note.text, out);
        return err;
    }
    err = core_rollup(core, cluster, ret_rows->rows, ret_rows->count, now, ret_verdict, out, &note);
    return err ? err
               : core_occupancy(core, cluster, ret_rows->occupancy, ret_rows->occupancy_count,
                                ret_rows->occupancy_pending, now, out);
}

/* -- encoding -- */

void frame_writer_init(struct frame_writer *writer)
{
    buf_init(&writer->frame, WRITER_MAX);
    buf_init(&writer->body, WRITER_MAX);
    buf_init(&writer->part, WRITER_MAX);
    buf_init(&writer->piece, WRITER_MAX);
}

void frame_writer_deinit(struct frame_writer *writer)
{
    buf_deinit(&writer->frame);
    buf_deinit(&writer->body);
    buf_deinit(&writer->part);
    buf_deinit(&writer->piece);
}

/* Limits the count to INT32_MAX, because the wire uses int32. */
static void pack_count(struct pack *pack, uint32_t field, uint64_t count)
{
    pack_u64(pack, field, min_u64(count, INT32_MAX));
}

enum err need_write_header(struct frame_writer *w, const struct needs_view *view)
{
    struct pack header = pack_begin(&w->body), frame = pack_begin(&w->frame);

    pack_u64(&header, 1, view->cycle);
    if (view->cycle > 0) pack_u64(&header, 2, view->at.ms * NS_PER_MS);
    pack_count(&header, 3, view->total);
    pack_row(&frame, 1, &header);
    return frame.err;
}

static uint32_t wire_reason(enum verdict_reason reason)
{
    static const uint8_t numbers[] = {[REASON_PRIORITY_STARVED] = 1,
                                      [REASON_NO_MATCHING_SUPPLY] = 2,
                                      [REASON_SOLD_OUT] = 2, /* sold_out says more */
                                      [REASON_TOPOLOGY_UNSATISFIABLE] = 3,
                                      [REASON_PREEMPTION_EXHAUSTED] = 4};

    return numbers[reason];
}

static void pack_supply(struct pack *pack, uint32_t field, const struct shortage *s,
                        struct buf *scratch)
{
    struct pack supply = pack_begin(scratch);

    pack_count(&supply, 1, s->idle_count);
    pack_count(&supply, 2, s->configured_count);
    pack_count(&supply, 3, s->speculative_count);
    pack_u64(&supply, 4,
             s->idle_count >= VERDICT_COUNT_MOST || s->configured_count >= VERDICT_COUNT_MOST ||
                 s->speculative_count >= VERDICT_COUNT_MOST);
    pack_row(pack, field, &supply);
}

static void pack_preemption(struct pack *pack, uint32_t field, const struct shortage *s,
                            const struct dimensions *dimensions, struct frame_writer *w)
{
    struct pack freed = pack_begin(&w->part); /* a message with only the freed amounts */
    struct pack preemption;
    struct resource_sum sum;

    amounts_sum(&s->freed, &sum);
    pack_amounts(&freed, 1, &sum, dimensions, &w->piece);
    preemption = pack_begin(&w->piece);
    pack_count(&preemption, 1, s->victims);
    if (sum.mask) pack_row(&preemption, 2, &freed);
    pack_row(pack, field, &preemption);
}

static void need_wire_pack_domains(struct pack *pack, uint32_t field, const struct shortage *s,
                                   struct buf *scratch)
{
    for (uint32_t i = 0; i < s->domain_count; i++) {
        const struct domain_coverage *domain = &s->domains[i];
        struct pack row = pack_begin(scratch);
        pack_text(&row, 1, domain->value);
        pack_count(&row, 2, domain->per_mille);
        pack_u64(&row, 3, domain->per_mille >= 1000);
        pack_row(pack, field, &row);
    }
}

static void pack_sold_out(struct pack *pack, uint32_t field, const struct need_view *view)
{
    const struct capacity_pool *pool = &view->row->shortage->sold_out;
    char text[2 * ID_MAX + MACHINE_NAME_CAP + 64], name[MACHINE_NAME_CAP];
    uint64_t seconds = (view->next_try_ms + 999) / 1000;
    int len = snprintf(text, sizeof text, "%.*s %s %.*s: sold out, ", STR_ARG(pool->instance_type),
                       capacity_type_name(pool->capacity_type, name), STR_ARG(pool->zone));

    if (len < 0 || len >= (int)sizeof text) return;
    if (seconds)
        (void)snprintf(text + len, sizeof text - (size_t)len, "next try in %" PRIu64 " s", seconds);
    else
        (void)snprintf(text + len, sizeof text - (size_t)len, "a try is under way or due");
    pack_text(pack, field, str_from(text));
}

enum err need_write_view(struct frame_writer *w, const struct need_view *view,
                         const struct dimensions *dimensions)
{
    const struct need_verdict *row = view->row;
    const struct demand *demand = row->need;
    const struct shortage *s = row->shortage;
    struct pack need = pack_begin(&w->part), out = pack_begin(&w->body);
    struct pack frame = pack_begin(&w->frame);
    struct resource_sum sum;

    amounts_sum(&demand->aggregate, &sum);
    pack_capacity_need(&need, demand->profile, demand->key.group, &sum, demand->unit, dimensions,
                       &w->piece);
    pack_row(&out, 1, &need);
    pack_text(&out, 2, demand->key.cluster);
    pack_i64(&out, 3, demand->arrival_unix_ns);
    pack_text(&out, 4, demand->profile->fingerprint);
    pack_u64(&out, 5, row->satisfied);
    if (s) amounts_sum(&s->deficit, &sum);
    if (s && !resource_sum_is_zero(&sum))
        pack_resources(&out, 6, &sum, dimensions, &w->part, &w->piece);
    pack_count(&out, 7, row->claimed);
    pack_count(&out, 8, row->bootstraps);
    pack_count(&out, 9, row->provisions);
    pack_text(&out, 10, row->domain);
    pack_u64(&out, 11, row->satisfiable);
    pack_u64(&out, 12, row->parked);
    pack_count(&out, 13, view->parked_age);
    pack_count(&out, 14, view->unmet_age);
    if (s) {
        pack_u64(&out, 15, wire_reason(s->reason));
        pack_supply(&out, 16, s, &w->piece);
        if (s->victims > 0) pack_preemption(&out, 17, s, dimensions, w);
        need_wire_pack_domains(&out, 18, s, &w->piece);
        if (s->reason == REASON_SOLD_OUT) pack_sold_out(&out, 100, view);
    }
    pack_row(&frame, 2, &out);
    return frame.err;
}
