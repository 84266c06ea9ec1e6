/* SPDX-License-Identifier: Apache-2.0 */
/* Writes each field of a message as JSON by its descriptor. Maps are sorted in place. Pure. */
#include "wire/json/message_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "text/rfc3339.h"

enum { HEX_BYTES_MAX = 64 };

static const struct str time_suffix = {"_unix_ns", 8};

static void put_time(struct ndjson *json, struct str key, int64_t unix_ns)
{
    char text[RFC3339_CAP];

    key.len -= time_suffix.len;
    if (unix_ns <= 0) {
        ndjson_null(json, key);
        return;
    }
    rfc3339_text(unix_ns / 1000000000, (uint32_t)(unix_ns % 1000000000), 9, text);
    ndjson_c_string(json, key, text);
}

static void put_enum(struct ndjson *json, struct str key, const ProtobufCFieldDescriptor *field,
                     int number)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(field->descriptor, number);

    if (value)
        ndjson_c_string(json, key, value->name);
    else
        ndjson_i64(json, key, number); /* unknown value: from a newer contract */
}

/* Ids and digests are never text. */
static void put_bytes(struct ndjson *json, struct str key, const ProtobufCFieldDescriptor *field,
                      const ProtobufCBinaryData *bytes)
{
    struct str name = str_from(field->name);
    bool is_id = str_equal(name, STR("id")) || str_ends(name, STR("_id"));
    char hex[2 * HEX_BYTES_MAX + 1] = "";

    if ((!is_id && !str_ends(name, STR("_digest"))) || bytes->len > HEX_BYTES_MAX) {
        ndjson_string(json, key, str_of(bytes->data, bytes->len));
        return;
    }
    hex_write(bytes->data, bytes->len, hex);
    ndjson_c_string(json, key, hex);
}

static void put_value(struct ndjson *json, struct str key, const ProtobufCFieldDescriptor *field,
                      const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: ndjson_i64(json, key, *(const int32_t *)at); break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        if (str_ends(key, time_suffix))
            put_time(json, key, *(const int64_t *)at);
        else
            ndjson_i64(json, key, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: ndjson_u64(json, key, *(const uint32_t *)at); break;
    case PROTOBUF_C_TYPE_UINT64: ndjson_u64(json, key, *(const uint64_t *)at); break;
    case PROTOBUF_C_TYPE_FIXED64: ndjson_hex(json, key, *(const uint64_t *)at); break;
    case PROTOBUF_C_TYPE_FLOAT: ndjson_double(json, key, (double)*(const float *)at); break;
    case PROTOBUF_C_TYPE_DOUBLE: ndjson_double(json, key, *(const double *)at); break;
    case PROTOBUF_C_TYPE_BOOL: ndjson_bool(json, key, *(const protobuf_c_boolean *)at != 0); break;
    case PROTOBUF_C_TYPE_ENUM: put_enum(json, key, field, *(const int *)at); break;
    case PROTOBUF_C_TYPE_STRING: ndjson_c_string(json, key, *(char *const *)at); break;
    case PROTOBUF_C_TYPE_BYTES: put_bytes(json, key, field, at); break;
    case PROTOBUF_C_TYPE_MESSAGE:
        message_json(json, key, *(const ProtobufCMessage *const *)at);
        break;
    }
}

/* The generated code does not mark maps, so the entry's shape and name decide. */
static bool is_map(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;

    return field->type == PROTOBUF_C_TYPE_MESSAGE && entry->n_fields == 2 &&
           str_ends(str_from(entry->short_name), STR("Entry")) &&
           strcmp(entry->fields[0].name, "key") == 0 &&
           strcmp(entry->fields[1].name, "value") == 0 &&
           entry->fields[0].type == PROTOBUF_C_TYPE_STRING;
}

static const char *entry_key(const ProtobufCMessage *entry)
{
    const ProtobufCFieldDescriptor *field = &entry->descriptor->fields[0];

    return *(char *const *)((const char *)entry + field->offset);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(entry_key(*(const ProtobufCMessage *const *)a),
                  entry_key(*(const ProtobufCMessage *const *)b));
}

static void put_map(struct ndjson *json, struct str key, ProtobufCMessage **entries, size_t count)
{
    if (count > 1) qsort(entries, count, sizeof(void *), by_key);
    ndjson_open_object(json, key);
    for (size_t i = 0; i < count; i++) {
        const ProtobufCFieldDescriptor *value = &entries[i]->descriptor->fields[1];
        put_value(json, str_from(entry_key(entries[i])), value,
                  (const char *)entries[i] + value->offset);
    }
    ndjson_close_object(json);
}

static size_t message_json_size_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 4;
    }
}

static void put_repeated(struct ndjson *json, const ProtobufCFieldDescriptor *field,
                         const ProtobufCMessage *message)
{
    const char *base = (const char *)message;
    size_t count = *(const size_t *)(base + field->quantifier_offset);
    char *list = *(char *const *)(base + field->offset);

    if (is_map(field)) {
        put_map(json, str_from(field->name), (ProtobufCMessage **)list, count);
        return;
    }
    ndjson_open_array(json, str_from(field->name));
    for (size_t i = 0; i < count; i++)
        put_value(json, NDJSON_ITEM, field, list + i * message_json_size_of(field));
    ndjson_close_array(json);
}

void message_json_fields(struct ndjson *json, const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const char *base = (const char *)message;
        bool in_oneof = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;

        if (in_oneof && *(const uint32_t *)(base + field->quantifier_offset) != field->id) continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            put_repeated(json, field, message);
        else
            put_value(json, str_from(field->name), field, base + field->offset);
    }
}

void message_json(struct ndjson *json, struct str key, const ProtobufCMessage *message)
{
    if (!message) {
        ndjson_null(json, key);
        return;
    }
    ndjson_open_object(json, key);
    message_json_fields(json, message);
    ndjson_close_object(json);
}
