/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes messages into an arena, encodes them to a buffer: protobuf-c behind guards. Pure. */
#include "wire/message.h"

#include <assert.h>

#include "wire/message_impl.h"

/* protobuf-c's allocator on an arena. protobuf-c returns NULL for "no memory" and for "malformed";
 * `refused` means "no memory". */
struct pool {
    struct arena *arena;
    bool refused;
};

static void *pool_alloc(void *data, size_t size)
{
    struct pool *pool = data;
    void *at = arena_alloc(pool->arena, size);

    if (!at) pool->refused = true;
    return at;
}

static void pool_free(void *, void *) {}

enum err message_read(const ProtobufCMessageDescriptor *type, struct str bytes,
                      const struct message_limits *limits, struct arena *arena,
                      ProtobufCMessage **ret_message, struct note *note)
{
    struct pool pool = {arena, false};
    ProtobufCAllocator allocator = {pool_alloc, pool_free, &pool};
    ProtobufCMessage *message;
    enum err err = message_guard(type, bytes, limits, note);

    if (err) return err;
    message = protobuf_c_message_unpack(type, &allocator, bytes.len, (const uint8_t *)bytes.at);
    if (message) {
        *ret_message = message;
        return ERR_OK;
    }
    if (pool.refused)
        return note_fail(note, ERR_NOMEM, "%s: needs more memory than there is for it", type->name);
    /* After the guard only a missing required field can fail, and proto3 has none. */
    return note_fail(note, ERR_PARSE, "%s: a required field is missing", type->name);
}

enum err message_write(const ProtobufCMessage *message, struct buf *into, struct note *note)
{
    size_t size = protobuf_c_message_get_packed_size(message), written;
    char *room;
    enum err err;

    if (size > INT32_MAX) return ERR_TOO_LARGE;
    if (size == 0) return ERR_OK;
    err = buf_reserve(into, size, &room);
    if (err) return err;
    written = protobuf_c_message_pack(message, (uint8_t *)room);
    assert(written == size); /* otherwise bytes overran the space */
    err = message_check_text(message->descriptor, str_of(room, written), note);
    if (!err) buf_commit(into, written);
    return err;
}
