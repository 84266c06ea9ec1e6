/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of protobuf fields, for code that scans bytes without a decoder:
 *
 *     tag      varint of 1..5 bytes: number << 3 | wire type
 *     VARINT   1..10 bytes, the last one below 0x80
 *     I64      8 bytes                        I32      4 bytes
 *     LEN      varint of 1..5 bytes, at most INT32_MAX, then that many bytes
 *
 * The head is the whole field except the payload of I64, I32 and LEN. */
#ifndef WIRE_FIELD_H
#define WIRE_FIELD_H
#include "base/str.h"

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
struct field_head {
    uint32_t number, wire;
    uint32_t len;     /* bytes of the head */
    uint32_t payload; /* bytes of the payload, which follows the head */
};
enum head_state { HEAD_WHOLE, HEAD_MORE, HEAD_BAD };

/* 0 if `end` cuts the varint, `most` + 1 if the varint is too long. */
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

/* HEAD_MORE: the head continues past `end`; ret_head->number is 0 unless the tag is complete. */
static inline enum head_state head_read(const uint8_t *at, const uint8_t *end,
                                        struct field_head *ret_head, const char **ret_problem)
{
    uint32_t len, more;
    uint64_t value;

    /* Fast path for nearly every field: one byte of tag, one byte of number or length. */
    if (end - at >= 2 && at[0] >= 8 && (at[0] | at[1]) < 0x80 && (at[0] & 5) == 0) {
        bool is_len = (at[0] & 7) == WIRE_LEN; /* `& 5` admits only LEN and VARINT */
        *ret_head = (struct field_head){at[0] >> 3, at[0] & 7, 2, is_len ? at[1] : 0};
        return HEAD_WHOLE;
    }
    *ret_head = (struct field_head){0};
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
/* -- iteration over the fields of one whole message -- */
struct fields {
    const uint8_t *at, *end;
    const char *problem; /* why the message is malformed, or NULL */
};
struct field {
    uint32_t number, wire;
    uint64_t value;   /* for WIRE_VARINT */
    struct str bytes; /* payload of any other type: 8, 4 or a declared number of bytes */
};
static inline struct fields fields_of(struct str message)
{
    const uint8_t *at = (const uint8_t *)message.at;

    return (struct fields){at, at + message.len, NULL};
}
/* False at the end of the message, or at a malformed field (`problem`). */
static inline bool fields_next(struct fields *f, struct field *ret_field)
{
    const uint8_t *value = f->at;
    struct field_head head;
    enum head_state state;

    if (f->at == f->end || f->problem) return false;
    /* Fast path for nearly every field: a low number and a short text. */
    if (f->end - f->at >= 2 && (f->at[0] & 0x87) == WIRE_LEN && f->at[0] >= 8 && f->at[1] < 0x80 &&
        f->at[1] <= f->end - f->at - 2) {
        *ret_field =
            (struct field){f->at[0] >> 3, WIRE_LEN, 0, {(const char *)f->at + 2, f->at[1]}};
        f->at += 2 + f->at[1];
        return true;
    }
    state = head_read(f->at, f->end, &head, &f->problem);
    if (state == HEAD_BAD) return false;
    if (state == HEAD_MORE || head.payload > (size_t)(f->end - f->at) - head.len) {
        f->problem = "cut short";
        return false;
    }
    *ret_field = (struct field){head.number, head.wire, 0, {(const char *)f->at + head.len, 0}};
    if (head.wire == WIRE_VARINT) {
        while (*value++ & 0x80) continue; /* skips the field's tag */
        ret_field->value = varint_value(value, (uint32_t)(f->at + head.len - value));
    }
    ret_field->bytes.len = head.payload;
    f->at += head.len + head.payload;
    return true;
}
#endif
