/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a message: the first byte chooses the type, the second how a stream is cut.
 *
 * A message that the guard accepts must be decoded, and written and read again to the same bytes; a
 * refusal has a note. protobuf-c's own reader must never refuse a message that the guard
 * accepted. A streamed message gives the same elements and rest as the whole. The
 * same bytes are also searched as a set of descriptors. */
#include <stdlib.h>
#include <string.h>

#include "wire/descriptors.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_capacity.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_shard.pb-c.h"
#include "wire/pb/etcd_rpc.pb-c.h"
#include "wire/pb/google_protobuf_struct.pb-c.h"
#include "wire/pb/google_rpc_status.pb-c.h"
#include "wire/pb/grpc_reflection_v1_reflection.pb-c.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 256 << 20, ELEMENT_MAX = 1 << 20 };

static const struct {
    const ProtobufCMessageDescriptor *type;
    const char *streamed; /* a repeated message field with a tag of one or two bytes */
    struct str tag;
} types[] = {
    {&muster__test__v1__everything__descriptor, "children", {"\xda\x01", 2}},
    {&bigfleet__v1alpha1__machine_list__descriptor, "machines", {"\x0a", 1}},
    {&bigfleet__v1alpha1__cluster_capacity_needs__descriptor, "needs", {"\x1a", 1}},
    {&bigfleet__v1alpha1__configure_request__descriptor, "shard_metadata", {"\x3a", 1}},
    {&bigfleet__v1alpha1__shard_report__descriptor, "shortfalls", {"\x32", 1}},
    {&bigfleet__v1alpha1__operator_message__descriptor, NULL, {"", 0}},
    {&etcdserverpb__txn_request__descriptor, "compare", {"\x0a", 1}},
    {&google__protobuf__struct__descriptor, "fields", {"\x0a", 1}},
    {&google__rpc__status__descriptor, "details", {"\x1a", 1}},
    {&grpc__reflection__v1__server_reflection_request__descriptor, NULL, {"", 0}},
    {&rollout__transport__v1__beat_response__descriptor, NULL, {"", 0}},
};

static void must(bool holds)
{
    if (!holds) abort();
}

struct collector {
    const ProtobufCMessageDescriptor *type; /* of an element */
    struct buf bytes;
    struct str tag;
};

static void put_element(struct collector *c, const ProtobufCMessage *element)
{
    struct buf one;
    size_t len;

    buf_init(&one, MEMORY);
    must(message_write(element, &one, NULL) == ERR_OK);
    must(buf_append(&c->bytes, c->tag) == ERR_OK);
    for (len = one.len; len > 0x7f; len >>= 7) buf_append_byte(&c->bytes, (char)(len | 0x80));
    buf_append_byte(&c->bytes, (char)len);
    must(buf_append(&c->bytes, buf_peek(&one)) == ERR_OK);
    buf_deinit(&one);
}

/* One level of depth_max belongs to the message around the element. */
static enum err collect(void *owner, struct str bytes, size_t len)
{
    const struct message_limits limits = {.depth_max = MESSAGE_DEPTH_USUAL - 1};
    struct collector *c = owner;
    ProtobufCMessage *element;
    struct arena arena;
    enum err err;

    must(bytes.len == len);
    arena_init(&arena, MEMORY);
    err = message_read(c->type, bytes, &limits, &arena, &element, NULL);
    if (!err) put_element(c, element);
    arena_deinit(&arena);
    return err;
}

/* The elements first, then the rest of the message, in the order of a stream. */
static void split_whole(size_t chosen, ProtobufCMessage *whole, struct buf *out)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(types[chosen].type, types[chosen].streamed);
    size_t *count = (size_t *)(void *)((char *)whole + field->quantifier_offset), had = *count;
    ProtobufCMessage **elements = *(ProtobufCMessage ***)(void *)((char *)whole + field->offset);
    struct collector c = {.tag = types[chosen].tag};

    buf_init(&c.bytes, MEMORY);
    for (size_t i = 0; i < had; i++) put_element(&c, elements[i]);
    must(buf_append(out, buf_peek(&c.bytes)) == ERR_OK);
    buf_deinit(&c.bytes);
    *count = 0;
    must(message_write(whole, out, NULL) == ERR_OK);
    *count = had;
}

static void check_stream(size_t chosen, struct str bytes, size_t piece, struct buf *want)
{
    struct message_stream *stream = NULL;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(types[chosen].type, types[chosen].streamed);
    struct collector c = {.type = field->descriptor, .tag = types[chosen].tag};
    struct arena arena;
    ProtobufCMessage *rest = NULL;
    struct note note = {""};
    enum err err;

    arena_init(&arena, MEMORY);
    buf_init(&c.bytes, MEMORY);
    must(message_stream_open_raw(types[chosen].type, types[chosen].streamed, ELEMENT_MAX,
                                 ELEMENT_MAX, collect, &c, &stream) == ERR_OK);
    for (err = ERR_OK; !err && bytes.len > 0;) {
        size_t len = min_size(bytes.len, piece);
        char *copy = malloc(len); /* of just that size: a read past its end is seen */
        memcpy(copy, bytes.at, len);
        err = message_stream_feed(stream, str_of(copy, len), &note);
        free(copy);
        bytes = str_tail(bytes, len);
    }
    if (!err) err = message_stream_end(stream, &arena, &rest, &note);
    must(!err == (want != NULL)); /* refused exactly when the whole is */
    if (err) {
        must(note.text[0] != '\0' && !rest);
    } else {
        must(message_write(rest, &c.bytes, NULL) == ERR_OK);
        must(str_equal(buf_peek(&c.bytes), buf_peek(want)));
    }
    message_stream_close(stream);
    buf_deinit(&c.bytes);
    arena_deinit(&arena);
}

static void check_good(size_t chosen, struct str bytes, ProtobufCMessage *message, size_t piece)
{
    struct arena arena;
    struct buf once, twice, split;
    ProtobufCMessage *again = NULL;

    arena_init(&arena, MEMORY);
    buf_init(&once, MEMORY);
    buf_init(&twice, MEMORY);
    buf_init(&split, MEMORY);
    must(message_write(message, &once, NULL) == ERR_OK);
    must(message_read(types[chosen].type, buf_peek(&once), NULL, &arena, &again, NULL) == ERR_OK);
    must(message_write(again, &twice, NULL) == ERR_OK);
    must(str_equal(buf_peek(&once), buf_peek(&twice)));
    if (types[chosen].streamed) {
        split_whole(chosen, message, &split);
        check_stream(chosen, bytes, piece, &split);
    }
    buf_deinit(&split);
    buf_deinit(&twice);
    buf_deinit(&once);
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t chosen, piece;
    struct str bytes, file;
    struct arena arena;
    struct note note = {""};
    ProtobufCMessage *message = NULL;
    enum err err;

    if (size < 2) return 0;
    chosen = data[0] % ARRAY_LEN(types);
    piece = (size_t)data[1] + 1;
    bytes = str_of(data + 2, size - 2);
    arena_init(&arena, MEMORY);
    err = message_read(types[chosen].type, bytes, NULL, &arena, &message, &note);
    must(err == ERR_OK || err == ERR_PARSE);
    must(message_guard(types[chosen].type, bytes, NULL, NULL) == err); /* passed is decoded */
    if (err) {
        must(!message && note.text[0] != '\0');
        if (types[chosen].streamed) check_stream(chosen, bytes, piece, NULL);
    } else {
        check_good(chosen, bytes, message, piece);
    }
    arena_deinit(&arena);
    (void)descriptors_find_symbol(bytes, STR("a.b.c"), &file);
    return 0;
}
