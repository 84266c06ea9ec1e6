/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that every string of an encoded message is UTF-8, because a receiver would refuse the
 * whole message.
 *
 * Only bytes with the high bit matter. The message is searched for such bytes, and its fields are
 * followed only to find the field of each such byte. Parts without such bytes are skipped as a
 * whole. */
#include <assert.h>
#include <string.h>

#include "wire/message_impl.h"

struct search {
    const uint8_t *high; /* next byte that is not ASCII, or `end` */
    const uint8_t *end;
    struct note *note;
};

static void find_high(struct search *s, const uint8_t *at)
{
    uint64_t word;

    for (; s->end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        if (word & 0x8080808080808080u) break;
    }
    while (at < s->end && *at < 0x80) at++;
    s->high = at;
}

static enum err walk(struct search *s, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                     const uint8_t *end);

static enum err look_into(struct search *s, const ProtobufCMessageDescriptor *type, uint32_t number,
                          const uint8_t *payload, uint32_t len)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, number);

    if (!field) return ERR_OK; /* unknown, but message_guard accepted the field */
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return walk(s, field->descriptor, payload, payload + len);
    if (field->type != PROTOBUF_C_TYPE_STRING && !is_text_as_bytes(type, number)) return ERR_OK;
    if (str_is_utf8(str_of(payload, len))) return ERR_OK;
    return note_fail(s->note, ERR_INTERNAL, "%s.%s: not UTF-8", type->name, field->name);
}

/* Recurses as deeply as protobuf-c did when it encoded the message. */
static enum err walk(struct search *s, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                     const uint8_t *end)
{
    enum err err = ERR_OK;

    while (s->high < end && !err) {
        struct field_head head;
        const char *problem = NULL;
        const uint8_t *payload;
        enum head_state state = head_read(at, end, &head, &problem);
        assert(state == HEAD_WHOLE); /* protobuf-c wrote the message */
        (void)state;
        payload = at + head.len;
        at = payload + head.payload;
        if (s->high < payload) find_high(s, payload);
        if (s->high >= at) continue;
        if (head.wire == WIRE_LEN) err = look_into(s, type, head.number, payload, head.payload);
        if (s->high < at) find_high(s, at);
    }
    return err;
}

enum err message_check_text(const ProtobufCMessageDescriptor *type, struct str encoded,
                            struct note *note)
{
    struct search s = {.end = (const uint8_t *)encoded.at + encoded.len, .note = note};

    find_high(&s, (const uint8_t *)encoded.at);
    return walk(&s, type, (const uint8_t *)encoded.at, s.end);
}
