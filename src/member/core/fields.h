/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes rows, rules and operations with one table of their fields. Inside member/core
 * only.
 *
 * Numbers are little-endian and as wide as their fields; an enum and a bool are one byte; a text is
 * its length (u32) and its bytes. */
#ifndef MEMBER_CORE_FIELDS_H
#define MEMBER_CORE_FIELDS_H
#include "member/core/member.h"
#include "section/codec.h"

enum field_kind { FIELD_ENUM, FIELD_BOOL, FIELD_U8, FIELD_U32, FIELD_U64, FIELD_BYTES, FIELD_TEXT };
struct member_field {
    uint8_t kind;
    uint16_t at;
    uint32_t size; /* BYTES: exact size; TEXT: maximum (a struct str, borrowed when read) */
};
#define FIELD_KIND(type, member)                                                                   \
    _Generic(((struct type *)0)->member, bool                                                      \
             : FIELD_BOOL, uint8_t                                                                 \
             : FIELD_U8, uint32_t                                                                  \
             : FIELD_U32, uint64_t                                                                 \
             : FIELD_U64, int64_t                                                                  \
             : FIELD_U64, struct member_instance                                                   \
             : FIELD_BYTES, struct member_digest                                                   \
             : FIELD_BYTES)
#define FIELD(type, member)                                                                        \
    {                                                                                              \
        FIELD_KIND(type, member), offsetof(struct type, member),                                   \
            sizeof(((struct type *)0)->member)                                                     \
    }
#define ENUM(type, member)                                                                         \
    {                                                                                              \
        FIELD_ENUM, offsetof(struct type, member), 1                                               \
    }
#define TEXT(type, member, max)                                                                    \
    {                                                                                              \
        FIELD_TEXT, offsetof(struct type, member), max                                             \
    }

void fields_write(struct encoder *out, const struct member_field *fields, size_t count,
                  const void *from);
void fields_read(struct decoder *in, const struct member_field *fields, size_t count, void *into);
#define FIELDS_WRITE(out, fields, from) fields_write(out, fields, ARRAY_LEN(fields), from)
#define FIELDS_READ(in, fields, into)   fields_read(in, fields, ARRAY_LEN(fields), into)
#endif
