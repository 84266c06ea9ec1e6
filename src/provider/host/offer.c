/* SPDX-License-Identifier: Apache-2.0 */
/* Offers: checked with the shard's rules for machines, written field by field, and read by the
 * generated decoder of a Machine. Pure. */
#include "provider/host/offer.h"

#include "model/ids.h"
#include "model/resource.h"
#include "model/wire/demand_wire.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

enum {
    FIELD_TYPE = 4,
    FIELD_ZONE = 5,
    FIELD_CAPACITY = 6,
    FIELD_PRICE = 7,
    FIELD_INTERRUPTION = 8,
    FIELD_RESOURCES = 9,
    FIELD_LABELS = 10,
    FIELD_ALLOCATABLE = 13,
    ENTRIES = 1,
};

/* --- checking an offer --- */

static enum err offer_check_amounts(const char *field, const struct label *pairs, size_t count,
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

static enum err offer_check_labels(const struct label *labels, size_t count, struct note *note)
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
    if (!err) err = offer_check_amounts("resources", offer->resources, offer->resource_count, note);
    if (!err)
        err =
            offer_check_amounts("allocatable", offer->allocatable, offer->allocatable_count, note);
    if (!err) err = offer_check_labels(offer->labels, offer->label_count, note);
    if (err) return err;
    if (offer->capacity_type <= CAPACITY_UNSPECIFIED || offer->capacity_type >= CAPACITY_TYPE_COUNT)
        return note_fail(note, ERR_INVALID, "capacity_type: none");
    if (!(offer->interruption_probability >= 0 && offer->interruption_probability <= 1))
        return note_fail(note, ERR_INVALID, "interruption_probability: not between 0 and 1");
    if (!(offer->price_per_hour >= 0 && offer->price_per_hour < 1e12))
        return note_fail(note, ERR_INVALID, "price_per_hour: not between 0 and 1e12");
    return ERR_OK;
}

/* --- encoding --- */

static void offer_put_pairs(struct pack *pack, struct buf *scratch, uint32_t number,
                            const struct label *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pack_pair(pack, number, pairs[i].key, pairs[i].value, scratch);
}

static void offer_put_amounts(struct pack *pack, uint32_t number, const struct label *pairs,
                              size_t count)
{
    struct buf entries, scratch;
    struct pack inner = {&entries, ERR_OK};

    if (count == 0) return;
    buf_init(&entries, OFFER_BYTES_MAX);
    buf_init(&scratch, OFFER_BYTES_MAX);
    offer_put_pairs(&inner, &scratch, ENTRIES, pairs, count);
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
    offer_put_amounts(&pack, FIELD_RESOURCES, offer->resources, offer->resource_count);
    offer_put_pairs(&pack, &scratch, FIELD_LABELS, offer->labels, offer->label_count);
    offer_put_amounts(&pack, FIELD_ALLOCATABLE, offer->allocatable, offer->allocatable_count);
    buf_deinit(&scratch);
    if (pack.err) into->len = before;
    return pack.err;
}

/* --- decoding --- */

static enum err offer_read_amounts(const Bigfleet__V1alpha1__Resources *given, struct arena *arena,
                                   const struct label **ret_pairs, size_t *ret_count)
{
    *ret_count = given ? given->n_resources : 0;
    if (!given) return ERR_OK;
    *ret_pairs = read_labels(arena, (ProtobufCMessage *const *)given->resources, *ret_count);
    return *ret_pairs ? ERR_OK : ERR_NOMEM;
}

static enum err offer_read_metadata(const Bigfleet__V1alpha1__Machine *given, struct arena *arena,
                                    struct backend_operation *operation)
{
    struct label *pairs = arena_calloc(arena, given->n_shard_metadata, sizeof *pairs);

    if (!pairs) return ERR_NOMEM;
    for (size_t i = 0; i < given->n_shard_metadata; i++)
        pairs[i] = (struct label){
            str_of(given->shard_metadata[i]->key.data, given->shard_metadata[i]->key.len),
            str_of(given->shard_metadata[i]->value.data, given->shard_metadata[i]->value.len)};
    operation->metadata = pairs;
    operation->metadata_count = given->n_shard_metadata;
    return ERR_OK;
}

enum err offer_read(struct str offer, struct str binding, struct arena *arena,
                    struct backend_operation *operation)
{
    char *bytes = arena_alloc(arena, offer.len + binding.len + 1);
    struct offer *o = ARENA_NEW(arena, struct offer);
    const Bigfleet__V1alpha1__Machine *given;
    ProtobufCMessage *message;
    struct note note;
    enum err err;

    if (!bytes || !o) return ERR_NOMEM;
    memcpy(bytes, offer.at, offer.len);
    if (binding.len > 0) memcpy(bytes + offer.len, binding.at, binding.len);
    err = message_read(&bigfleet__v1alpha1__machine__descriptor,
                       str_of(bytes, offer.len + binding.len), NULL, arena, &message, &note);
    if (err) return err;
    given = (const void *)message;
    *o = (struct offer){.instance_type = str_from(given->instance_type),
                        .zone = str_from(given->zone),
                        .capacity_type = (enum capacity_type)given->capacity_type,
                        .price_per_hour = given->price_per_hour,
                        .interruption_probability = given->interruption_probability,
                        .label_count = given->n_labels};
    operation->machine.offer = o;
    operation->machine.cluster = str_from(given->cluster);
    err = offer_read_amounts(given->resources, arena, &o->resources, &o->resource_count);
    if (!err)
        err = offer_read_amounts(given->allocatable, arena, &o->allocatable, &o->allocatable_count);
    if (err) return err;
    o->labels = read_labels(arena, (ProtobufCMessage *const *)given->labels, o->label_count);
    return !o->labels ? ERR_NOMEM : offer_read_metadata(given, arena, operation);
}
