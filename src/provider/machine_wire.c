/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the fields of a Machine. Texts are views into the bytes; labels and metadata are sorted
 * in arrays of the reader; known amounts are found in a cache by their bytes. */
#include "provider/machine_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "model/metadata.h"
#include "text/utf8.h"
#include "wire/field.h"

/* Field numbers of proto/bigfleet/v1alpha1/provider.proto. */
enum {
    ACK_OPERATION = 1,
    ACK_MACHINE = 2,
    FIELD_ID = 1,
    FIELD_STATE = 2,
    FIELD_HOST = 3,
    FIELD_INSTANCE_TYPE = 4,
    FIELD_ZONE = 5,
    FIELD_CAPACITY_TYPE = 6,
    FIELD_PRICE = 7,
    FIELD_PROBABILITY = 8,
    FIELD_RESOURCES = 9,
    FIELD_LABELS = 10,
    FIELD_LAST_ERROR = 12,
    FIELD_ALLOCATABLE = 13,
    FIELD_CLUSTER = 14,
    FIELD_METADATA = 15,
    HOST_PROVIDER = 1,
    HOST_REF = 2,
    RESOURCES_ENTRY = 1,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
};
enum {
    SHAPES = 512,          /* the cache has room for this many */
    SHAPE_BYTES_MAX = 256, /* longer shapes are not cached */
    SORT_BY_HAND_MAX = 32,
};

struct shape { /* encoded resource amounts and their parsed values */
    uint32_t len;
    char bytes[SHAPE_BYTES_MAX];
    struct resources resources;
};
struct machine_reader {
    struct dimensions *dimensions;
    struct label labels[LABELS_MAX], metadata[METADATA_READ_MAX];
    struct shape shapes[SHAPES];
};

enum err machine_reader_open(struct dimensions *dimensions, struct machine_reader **ret_reader)
{
    struct machine_reader *reader = calloc(1, sizeof *reader);

    if (!reader) return ERR_NOMEM;
    reader->dimensions = dimensions;
    *ret_reader = reader;
    return ERR_OK;
}

void machine_reader_close(struct machine_reader *reader)
{
    free(reader);
}

/* --- single fields --- */

static enum err machine_wire_refuse(const char *name, const char *why, struct note *note)
{
    return note_fail(note, ERR_PARSE, "%s: %s", name, why);
}

static enum err take_bytes(const struct field *field, const char *name, struct str *into,
                           struct note *note)
{
    if (field->wire != WIRE_LEN) return machine_wire_refuse(name, "wrong wire type", note);
    *into = field->bytes;
    return ERR_OK;
}

static enum err take_double(const struct field *field, const char *name, double *into,
                            struct note *note)
{
    uint64_t bits;

    if (field->wire != WIRE_I64) return machine_wire_refuse(name, "wrong wire type", note);
    bits = load_le64(field->bytes.at);
    memcpy(into, &bits, sizeof bits);
    return ERR_OK;
}

static enum err take_enum(const struct field *field, const char *name, uint32_t count,
                          uint32_t *into, struct note *note)
{
    if (field->wire != WIRE_VARINT) return machine_wire_refuse(name, "wrong wire type", note);
    if (field->value >= count)
        return note_fail(note, ERR_INVALID, "%s: unknown number %lld", name,
                         (long long)field->value);
    *into = (uint32_t)field->value;
    return ERR_OK;
}

/* Refuses a second sub-message: no encoder writes it, and it would have to be merged. */
static enum err take_message(const struct field *field, const char *name, struct str *into,
                             struct note *note)
{
    if (into->at) return machine_wire_refuse(name, "given twice", note);
    return take_bytes(field, name, into, note);
}

/* --- maps --- */

static enum err take_entry(struct str entry, const char *name, struct label *into,
                           struct note *note)
{
    struct fields fields = fields_of(entry);
    struct field field;
    enum err err = ERR_OK;

    *into = (struct label){STR_EMPTY, STR_EMPTY};
    while (!err && fields_next(&fields, &field)) {
        if (field.number == ENTRY_KEY)
            err = take_bytes(&field, "key", &into->key, note);
        else if (field.number == ENTRY_VALUE)
            err = take_bytes(&field, "value", &into->value, note);
    }
    if (!err && fields.problem) err = machine_wire_refuse("entry", fields.problem, note);
    if (err) note_prefix(note, "%s", name);
    return err;
}

static enum err add_entry(const struct field *field, const char *name, struct label *entries,
                          size_t most, size_t *count, struct note *note)
{
    struct str entry;
    enum err err = take_bytes(field, name, &entry, note);

    if (err) return err;
    if (*count == most)
        return note_fail(note, ERR_TOO_LARGE, "%s: more than %zu entries", name, most);
    err = take_entry(entry, name, &entries[*count], note);
    if (!err) ++*count;
    return err;
}

static int compare_keys(const void *a, const void *b)
{
    return str_compare(((const struct label *)a)->key, ((const struct label *)b)->key);
}

/* Entries are usually few and nearly sorted. */
static void sort_entries(struct label *entries, size_t count)
{
    if (count > SORT_BY_HAND_MAX) {
        qsort(entries, count, sizeof *entries, compare_keys);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct label moved = entries[i];
        size_t at = i;
        for (; at > 0 && str_compare(entries[at - 1].key, moved.key) > 0; at--)
            entries[at] = entries[at - 1];
        entries[at] = moved;
    }
}

/* Any UTF-8 is accepted, including NUL, but no duplicate key. */
static enum err check_metadata(const struct label *entries, size_t count, struct note *note)
{
    for (size_t i = 0; i < count; i++) {
        const char *why = NULL;
        if (!str_is_utf8(entries[i].key) || !str_is_utf8(entries[i].value)) why = "not UTF-8";
        if (i > 0 && str_equal(entries[i - 1].key, entries[i].key)) why = "a key is given twice";
        if (why) return machine_wire_refuse("shard_metadata", why, note);
    }
    return ERR_OK;
}

/* --- resource amounts --- */

static enum err parse_amounts(struct machine_reader *reader, struct str bytes, const char *name,
                              struct resources *ret_resources, struct note *note)
{
    struct label pairs[RESOURCES_MAX];
    struct fields fields = fields_of(bytes);
    struct field field;
    size_t count = 0;
    enum err err = ERR_OK;

    while (!err && fields_next(&fields, &field))
        if (field.number == RESOURCES_ENTRY)
            err = add_entry(&field, name, pairs, RESOURCES_MAX, &count, note);
    if (!err && fields.problem) err = machine_wire_refuse(name, fields.problem, note);
    if (err) return err;
    return resources_parse(reader->dimensions, name, pairs, count, ret_resources, note);
}

static enum err take_amounts(struct machine_reader *reader, struct str bytes, const char *name,
                             struct resources *ret_resources, struct note *note)
{
    struct shape *shape = &reader->shapes[crc32c(0, bytes.at, bytes.len) % SHAPES];
    enum err err;

    if (bytes.len == 0) return ERR_OK;
    if (shape->len == bytes.len && memcmp(shape->bytes, bytes.at, bytes.len) == 0) {
        *ret_resources = shape->resources;
        return ERR_OK;
    }
    err = parse_amounts(reader, bytes, name, ret_resources, note);
    if (err || bytes.len > SHAPE_BYTES_MAX) return err;
    memcpy(shape->bytes, bytes.at, bytes.len);
    shape->len = (uint32_t)bytes.len;
    shape->resources = *ret_resources;
    return ERR_OK;
}

/* --- the record --- */

static enum err take_host(struct str bytes, struct machine *m, struct note *note)
{
    struct fields fields = fields_of(bytes);
    struct field field;
    enum err err = ERR_OK;

    while (!err && fields_next(&fields, &field)) {
        if (field.number == HOST_PROVIDER)
            err = take_bytes(&field, "host.provider", &m->host_provider, note);
        else if (field.number == HOST_REF)
            err = take_bytes(&field, "host.ref", &m->host_ref, note);
    }
    if (!err && fields.problem) err = machine_wire_refuse("host", fields.problem, note);
    return err;
}

/* Parts of a record that are read last. */
struct parts {
    struct str host, resources, allocatable;
    size_t label_count, metadata_count;
    uint32_t state, capacity_type;
};

static enum err take_field(struct machine_reader *reader, const struct field *field,
                           struct machine *m, struct parts *parts, struct note *note)
{
    struct attributes *a = &m->attributes;

    switch (field->number) {
    case FIELD_ID: return take_bytes(field, "id", &m->id, note);
    case FIELD_STATE: return take_enum(field, "state", MACHINE_STATE_COUNT, &parts->state, note);
    case FIELD_HOST: return take_message(field, "host", &parts->host, note);
    case FIELD_INSTANCE_TYPE: return take_bytes(field, "instance_type", &a->instance_type, note);
    case FIELD_ZONE: return take_bytes(field, "zone", &a->zone, note);
    case FIELD_CAPACITY_TYPE:
        return take_enum(field, "capacity_type", CAPACITY_TYPE_COUNT, &parts->capacity_type, note);
    case FIELD_PRICE: return take_double(field, "price_per_hour", &m->price_per_hour, note);
    case FIELD_PROBABILITY:
        return take_double(field, "interruption_probability", &m->interruption_probability, note);
    case FIELD_RESOURCES: return take_message(field, "resources", &parts->resources, note);
    case FIELD_LABELS:
        return add_entry(field, "labels", reader->labels, LABELS_MAX, &parts->label_count, note);
    case FIELD_LAST_ERROR: return take_bytes(field, "last_error", &m->last_error, note);
    case FIELD_ALLOCATABLE: return take_message(field, "allocatable", &parts->allocatable, note);
    case FIELD_CLUSTER: return take_bytes(field, "cluster", &m->cluster, note);
    case FIELD_METADATA:
        return add_entry(field, "shard_metadata", reader->metadata, METADATA_READ_MAX,
                         &parts->metadata_count, note);
    default: return ERR_OK;
    }
}

static enum err take_parts(struct machine_reader *reader, const struct parts *parts,
                           struct machine_record *record, struct note *note)
{
    struct machine *m = &record->machine;
    enum err err = ERR_OK;

    if (parts->host.at) err = take_host(parts->host, m, note);
    if (!err && parts->resources.at)
        err = take_amounts(reader, parts->resources, "resources", &m->resources, note);
    if (!err && parts->allocatable.at)
        err = take_amounts(reader, parts->allocatable, "allocatable", &m->allocatable, note);
    if (err) return err;
    m->state = (enum machine_state)parts->state;
    m->capacity_type = (enum capacity_type)parts->capacity_type;
    sort_entries(reader->labels, parts->label_count);
    m->attributes.labels = reader->labels;
    m->attributes.label_count = parts->label_count;
    sort_entries(reader->metadata, parts->metadata_count);
    record->metadata = reader->metadata;
    record->metadata_count = parts->metadata_count;
    if (!str_is_utf8(m->last_error)) return machine_wire_refuse("last_error", "not UTF-8", note);
    m->last_error = utf8_clip(m->last_error, ERROR_TEXT_MAX);
    return check_metadata(reader->metadata, parts->metadata_count, note);
}

enum err machine_read(struct machine_reader *reader, struct str bytes,
                      struct machine_record *ret_record, struct note *note)
{
    struct fields fields = fields_of(bytes);
    struct parts parts = {0};
    struct field field;
    enum err err = ERR_OK;

    *ret_record = (struct machine_record){0};
    while (!err && fields_next(&fields, &field))
        err = take_field(reader, &field, &ret_record->machine, &parts, note);
    if (!err && fields.problem) err = machine_wire_refuse("machine", fields.problem, note);
    return err ? err : take_parts(reader, &parts, ret_record, note);
}

struct str machine_read_id(struct str bytes)
{
    struct fields fields = fields_of(bytes);
    struct str id = STR_EMPTY;
    struct field field;

    while (fields_next(&fields, &field))
        if (field.number == FIELD_ID && field.wire == WIRE_LEN) id = field.bytes;
    return id_check("id", id, ID_MAX, NULL) ? STR_EMPTY : id;
}

enum err machine_read_ack(struct machine_reader *reader, struct str bytes,
                          struct str *ret_operation, struct machine_record *ret_record,
                          struct note *note)
{
    struct fields fields = fields_of(bytes);
    struct str operation = STR_EMPTY, machine = {NULL, 0};
    struct field field;
    enum err err = ERR_OK;

    while (!err && fields_next(&fields, &field)) {
        if (field.number == ACK_OPERATION)
            err = take_bytes(&field, "operation_id", &operation, note);
        else if (field.number == ACK_MACHINE)
            err = take_message(&field, "machine", &machine, note);
    }
    if (!err && fields.problem) err = machine_wire_refuse("ack", fields.problem, note);
    if (!err && !machine.at) err = machine_wire_refuse("machine", "missing", note);
    if (!err && operation.len == 0) err = machine_wire_refuse("operation_id", "empty", note);
    if (!err && !str_is_utf8(operation))
        err = machine_wire_refuse("operation_id", "not UTF-8", note);
    if (!err) err = machine_read(reader, machine, ret_record, note);
    if (!err) *ret_operation = operation;
    return err;
}
