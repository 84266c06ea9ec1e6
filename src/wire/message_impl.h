/* What the files of the message layer share: how a field begins on the wire, and the guard with the
 * place of its message in a larger one. Private to src/wire. */
#ifndef WIRE_MESSAGE_IMPL_H
#define WIRE_MESSAGE_IMPL_H
#include <limits.h>

#include "wire/message.h"

/* Text kept as bytes in the generated code because it may hold NUL (proto/text-as-bytes.txt). */
struct text_field {
    const char *message;
    uint32_t number;
};
extern const struct text_field text_as_bytes[]; /* generated; ends with a NULL name */
bool is_text_as_bytes(const ProtobufCMessageDescriptor *type, uint32_t number);
/* For a message that protobuf-c has written. ERR_INTERNAL: a string in it is not UTF-8; the note
 * names it. */
enum err message_check_text(const ProtobufCMessageDescriptor *type, struct str encoded,
                            struct note *note);

/* One field on the wire:
 *     tag      varint of 1..5 bytes: number << 3 | wire type
 *     VARINT   1..10 bytes, the last one below 0x80
 *     I64      8 bytes                        I32      4 bytes
 *     LEN      varint of 1..5 bytes, at most INT32_MAX, then that many bytes
 * The head is all of it but the payload of I64, I32 and LEN. */
enum wire_type {
    WIRE_VARINT = 0,
    WIRE_I64 = 1,
    WIRE_LEN = 2,
    WIRE_GROUP = 3,
    WIRE_GROUP_END = 4,
    WIRE_I32 = 5,
};
enum {
    TAG_BYTES = 5,
    VARINT_BYTES = 10,
    HEAD_BYTES = TAG_BYTES + VARINT_BYTES,
    FIELD_NUMBER_MOST = (1 << 29) - 1,
};
struct head {
    uint32_t number, wire;
    uint32_t len;     /* bytes of the head */
    uint32_t payload; /* bytes that follow it */
};
enum head_state { HEAD_WHOLE, HEAD_MORE, HEAD_BAD };

/* Bytes of the varint at `at`: 0 when it is not whole before `end`, `most` + 1 when it is
 * longer. */
static inline uint32_t varint_len(const uint8_t *at, const uint8_t *end, uint32_t most)
{
    for (uint32_t i = 0; i < most; i++) {
        if (at + i == end) return 0;
        if (at[i] < 0x80) return i + 1;
    }
    return most + 1;
}

static inline uint64_t varint_value(const uint8_t *at, uint32_t len)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < len; i++) value |= (uint64_t)(at[i] & 0x7f) << (7 * i);
    return value;
}

/* Reads the head of a field. HEAD_BAD: *ret_problem says why. HEAD_MORE: it goes on past `end`;
 * then ret_head->number is 0, or the field's when at least the tag was there. */
static inline enum head_state head_read(const uint8_t *at, const uint8_t *end,
                                        struct head *ret_head, const char **ret_problem)
{
    uint32_t len, more;
    uint64_t value;

    /* Nearly every field has a tag of one byte and a number or length of one byte. */
    if (end - at >= 2 && at[0] >= 8 && (at[0] | at[1]) < 0x80 && (at[0] & 5) == 0) {
        bool is_len = (at[0] & 7) == WIRE_LEN; /* else WIRE_VARINT: 2 and 0 share no bit with 5 */
        *ret_head = (struct head){at[0] >> 3, at[0] & 7, 2, is_len ? at[1] : 0};
        return HEAD_WHOLE;
    }
    *ret_head = (struct head){0};
    len = varint_len(at, end, TAG_BYTES);
    if (len == 0) return HEAD_MORE;
    if (len > TAG_BYTES) return *ret_problem = "bad tag", HEAD_BAD;
    value = len == 1 ? *at : varint_value(at, len);
    if (value >> 3 == 0 || value >> 3 > FIELD_NUMBER_MOST)
        return *ret_problem = "bad field number", HEAD_BAD;
    ret_head->number = (uint32_t)(value >> 3);
    ret_head->wire = (uint32_t)(value & 7);
    ret_head->len = len;
    switch (ret_head->wire) {
    case WIRE_VARINT:
        more = varint_len(at + len, end, VARINT_BYTES);
        if (more == 0) return HEAD_MORE;
        if (more > VARINT_BYTES) return *ret_problem = "number longer than ten bytes", HEAD_BAD;
        ret_head->len += more;
        return HEAD_WHOLE;
    case WIRE_I64: ret_head->payload = 8; return HEAD_WHOLE;
    case WIRE_I32: ret_head->payload = 4; return HEAD_WHOLE;
    case WIRE_LEN:
        more = varint_len(at + len, end, TAG_BYTES);
        if (more == 0) return HEAD_MORE;
        value = more > TAG_BYTES ? UINT64_MAX : varint_value(at + len, more);
        if (value > INT32_MAX) return *ret_problem = "length past 2 GiB", HEAD_BAD;
        ret_head->len += more;
        ret_head->payload = (uint32_t)value;
        return HEAD_WHOLE;
    case WIRE_GROUP:
    case WIRE_GROUP_END: return *ret_problem = "groups are not supported", HEAD_BAD;
    default: return *ret_problem = "bad wire type", HEAD_BAD;
    }
}

/* Where a message stands in the one that was asked for: element `index` of `field`. */
struct guard_place {
    const char *field; /* NULL: it is the whole */
    uint64_t index;
};
/* message_guard for a message at `place`; its level counts against depth_max. */
enum err guard_at(const ProtobufCMessageDescriptor *type, struct str bytes,
                  const struct message_limits *limits, struct guard_place place, struct note *note);
/* Decodes what has passed the guard. */
enum err message_unpack(const ProtobufCMessageDescriptor *type, struct str bytes,
                        struct arena *arena, ProtobufCMessage **ret_message, struct note *note);
#endif
