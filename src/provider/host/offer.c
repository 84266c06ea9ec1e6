/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/offer.h"

#include "model/ids.h"
#include "model/resource.h"
#include "model/wire/demand_wire.h"
#include "wire/field.h"

enum {
    FIELD_TYPE = 4,
    FIELD_ZONE = 5,
    FIELD_CAPACITY = 6,
    FIELD_PRICE = 7,
    FIELD_INTERRUPTION = 8,
    FIELD_RESOURCES = 9,
    FIELD_LABELS = 10,
    FIELD_ALLOCATABLE = 13,
    ENTRIES = 1, /* of Resources */
    KEY = 1,
    VALUE = 2,
};

/* --- checking --- */

static enum err check_amounts(const char *field, const struct label *pairs, size_t count,
                              struct note *note)
{
    struct dimensions dimensions;
    struct resources parsed;
    enum err err;

    if (count > OFFER_RESOURCES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%s: more than %d", field, OFFER_RESOURCES_MAX);
    dimensions_init(&dimensions);
    err = resources_parse(&dimensions, field, pairs, count, &parsed, note);
    dimensions_deinit(&dimensions);
    return err == ERR_PARSE ? ERR_INVALID : err;
}

static enum err check_labels(const struct label *labels, size_t count, struct note *note)
{
    struct label sorted[OFFER_LABELS_MAX];

    if (count > OFFER_LABELS_MAX)
        return note_fail(note, ERR_TOO_LARGE, "labels: more than %d", OFFER_LABELS_MAX);
    for (size_t i = 0; i < count; i++) sorted[i] = labels[i];
    return labels_canonicalise("labels", sorted, count, note);
}

enum err offer_check(const struct offer *offer, struct note *note)
{
    enum err err = id_check("instance_type", offer->instance_type, ID_MAX, note);

    if (!err) err = text_check("zone", offer->zone, ID_MAX, note);
    if (!err) err = check_amounts("resources", offer->resources, offer->resource_count, note);
    if (!err)
        err = check_amounts("allocatable", offer->allocatable, offer->allocatable_count, note);
    if (!err) err = check_labels(offer->labels, offer->label_count, note);
    if (err) return err;
    if (offer->capacity_type <= CAPACITY_UNSPECIFIED || offer->capacity_type >= CAPACITY_TYPE_COUNT)
        return note_fail(note, ERR_INVALID, "capacity_type: none");
    if (!(offer->interruption_probability >= 0 && offer->interruption_probability <= 1))
        return note_fail(note, ERR_INVALID, "interruption_probability: not between 0 and 1");
    if (!(offer->price_per_hour >= 0 && offer->price_per_hour < 1e12))
        return note_fail(note, ERR_INVALID, "price_per_hour: not between 0 and 1e12");
    return ERR_OK;
}

/* --- writing --- */

static void put_pairs(struct pack *pack, struct buf *scratch, uint32_t number,
                      const struct label *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pack_pair(pack, number, pairs[i].key, pairs[i].value, scratch);
}

static void put_resources(struct pack *pack, uint32_t number, const struct label *pairs,
                          size_t count)
{
    struct buf entries, scratch;
    struct pack inner = {&entries, ERR_OK};

    if (count == 0) return;
    buf_init(&entries, OFFER_BYTES_MAX);
    buf_init(&scratch, OFFER_BYTES_MAX);
    put_pairs(&inner, &scratch, ENTRIES, pairs, count);
    pack_row(pack, number, &inner);
    buf_deinit(&scratch);
    buf_deinit(&entries);
}

enum err offer_write(const struct offer *offer, struct buf *into)
{
    struct pack pack = {into, ERR_OK};
    size_t before = into->len;
    struct buf scratch;

    buf_init(&scratch, OFFER_BYTES_MAX);
    pack_text(&pack, FIELD_TYPE, offer->instance_type);
    pack_text(&pack, FIELD_ZONE, offer->zone);
    pack_u64(&pack, FIELD_CAPACITY, offer->capacity_type);
    pack_double(&pack, FIELD_PRICE, offer->price_per_hour);
    pack_double(&pack, FIELD_INTERRUPTION, offer->interruption_probability);
    put_resources(&pack, FIELD_RESOURCES, offer->resources, offer->resource_count);
    put_pairs(&pack, &scratch, FIELD_LABELS, offer->labels, offer->label_count);
    put_resources(&pack, FIELD_ALLOCATABLE, offer->allocatable, offer->allocatable_count);
    buf_deinit(&scratch);
    if (pack.err) into->len = before;
    return pack.err;
}

/* --- reading --- */

static bool read_pair(struct str entry, struct label *ret_pair)
{
    struct fields fields = fields_of(entry);
    struct field field;

    *ret_pair = (struct label){STR_EMPTY, STR_EMPTY};
    while (fields_next(&fields, &field)) {
        if (field.wire != WIRE_LEN) return false;
        if (field.number == KEY) ret_pair->key = field.bytes;
        if (field.number == VALUE) ret_pair->value = field.bytes;
    }
    return !fields.problem;
}

enum err pairs_read(struct str bytes, uint32_t number, size_t max, struct arena *arena,
                    const struct label **ret_pairs, size_t *ret_count)
{
    struct fields fields = fields_of(bytes);
    struct field field;
    struct label *pairs = NULL;
    size_t count = 0;

    while (fields_next(&fields, &field)) count += field.number == number;
    if (fields.problem) return ERR_PARSE;
    if (count > max) return ERR_FULL;
    if (count > 0 && !(pairs = arena_alloc(arena, count * sizeof *pairs))) return ERR_NOMEM;
    count = 0;
    fields = fields_of(bytes);
    while (fields_next(&fields, &field)) {
        if (field.number != number) continue;
        assert(pairs); /* it was counted */
        if (field.wire != WIRE_LEN || !read_pair(field.bytes, &pairs[count++])) return ERR_PARSE;
    }
    *ret_pairs = pairs;
    *ret_count = count;
    return ERR_OK;
}

static double double_of(struct str bytes)
{
    uint64_t bits = 0;
    double value;

    for (size_t i = 0; i < bytes.len; i++) bits |= (uint64_t)(uint8_t)bytes.at[i] << (8 * i);
    memcpy(&value, &bits, sizeof value);
    return value;
}

enum err offer_read(struct str bytes, struct arena *arena, struct offer *ret_offer)
{
    struct offer offer = {.instance_type = STR_EMPTY, .zone = STR_EMPTY};
    struct fields fields = fields_of(bytes);
    struct field field;
    enum err err = ERR_OK;

    while (!err && fields_next(&fields, &field)) switch (field.number << 3 | field.wire) {
        case FIELD_TYPE << 3 | WIRE_LEN: offer.instance_type = field.bytes; break;
        case FIELD_ZONE << 3 | WIRE_LEN: offer.zone = field.bytes; break;
        case FIELD_CAPACITY << 3 | WIRE_VARINT:
            offer.capacity_type = (enum capacity_type)field.value;
            break;
        case FIELD_PRICE << 3 | WIRE_I64: offer.price_per_hour = double_of(field.bytes); break;
        case FIELD_INTERRUPTION << 3 | WIRE_I64:
            offer.interruption_probability = double_of(field.bytes);
            break;
        case FIELD_RESOURCES << 3 | WIRE_LEN:
            err = pairs_read(field.bytes, ENTRIES, OFFER_RESOURCES_MAX, arena, &offer.resources,
                             &offer.resource_count);
            break;
        case FIELD_ALLOCATABLE << 3 | WIRE_LEN:
            err = pairs_read(field.bytes, ENTRIES, OFFER_RESOURCES_MAX, arena, &offer.allocatable,
                             &offer.allocatable_count);
            break;
        case FIELD_LABELS << 3 | WIRE_LEN: break; /* all at once, below */
        default: err = ERR_PARSE;
        }
    if (!err && fields.problem) err = ERR_PARSE;
    if (!err)
        err = pairs_read(bytes, FIELD_LABELS, OFFER_LABELS_MAX, arena, &offer.labels,
                         &offer.label_count);
    if (!err) *ret_offer = offer;
    return err == ERR_FULL ? ERR_PARSE : err;
}
