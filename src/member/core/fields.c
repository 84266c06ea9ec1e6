/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes rows by a list of their fields. The encoding is part of the log and of
 * snapshots, so a field changes only with the cluster level. Pure. */
#include "member/core/fields.h"

static_assert(sizeof(enum member_kind) == sizeof(uint32_t), "an enum is read as a number");

void fields_write(struct encoder *out, const struct member_field *fields, size_t count,
                  const void *from)
{
    for (const struct member_field *f = fields; f < fields + count; f++) {
        const void *at = (const char *)from + f->at;

        switch ((enum field_kind)f->kind) {
        case FIELD_ENUM: encode_u8(out, *(const uint32_t *)at); break;
        case FIELD_BOOL: encode_u8(out, *(const bool *)at); break;
        case FIELD_U8: encode_u8(out, *(const uint8_t *)at); break;
        case FIELD_U32: encode_u32(out, *(const uint32_t *)at); break;
        case FIELD_U64: encode_u64(out, *(const uint64_t *)at); break;
        case FIELD_BYTES: encode_bytes(out, at, f->size); break;
        case FIELD_TEXT: encode_text(out, *(const struct str *)at); break;
        }
    }
}

void fields_read(struct decoder *in, const struct member_field *fields, size_t count, void *into)
{
    for (const struct member_field *f = fields; f < fields + count; f++) {
        void *at = (char *)into + f->at;

        switch ((enum field_kind)f->kind) {
        case FIELD_ENUM: *(uint32_t *)at = decode_u8(in); break;
        case FIELD_BOOL: *(bool *)at = decode_bool(in); break;
        case FIELD_U8: *(uint8_t *)at = (uint8_t)decode_u8(in); break;
        case FIELD_U32: *(uint32_t *)at = decode_u32(in); break;
        case FIELD_U64: *(uint64_t *)at = decode_u64(in); break;
        case FIELD_BYTES: decode_copy(in, at, f->size); break;
        case FIELD_TEXT: *(struct str *)at = decode_text(in, f->size); break;
        }
    }
}
