/* SPDX-License-Identifier: Apache-2.0 */
/* Appends protobuf fields to a buffer by hand, for responses with up to a million rows.
 *
 * `err` keeps the first failure, and later calls do nothing. Zero and empty values are omitted, as
 * protobuf requires. */
#ifndef WIRE_PACK_H
#define WIRE_PACK_H
#include <string.h>

#include "base/buf.h"

struct pack {
    struct buf *into;
    enum err err;
};
enum { PACK_VARINT_MAX = 10 };

static inline struct pack pack_begin(struct buf *into)
{
    buf_clear(into);
    return (struct pack){into, ERR_OK};
}

static inline size_t pack_put_varint(char *at, uint64_t value)
{
    size_t len = 0;

    for (; value > 0x7f; value >>= 7) at[len++] = (char)(value | 0x80);
    at[len++] = (char)value;
    return len;
}
static inline void pack_append(struct pack *pack, struct str bytes)
{
    if (!pack->err) pack->err = buf_append(pack->into, bytes);
}
static inline void pack_varint(struct pack *pack, uint64_t value)
{
    char bytes[PACK_VARINT_MAX];

    pack_append(pack, str_of(bytes, pack_put_varint(bytes, value)));
}
/* Appends both numbers in one step, because appending costs more than encoding. */
static inline void pack_varints(struct pack *pack, uint64_t first, uint64_t second)
{
    char bytes[2 * PACK_VARINT_MAX];
    size_t len = pack_put_varint(bytes, first);

    pack_append(pack, str_of(bytes, len + pack_put_varint(bytes + len, second)));
}
static inline void pack_u64(struct pack *pack, uint32_t field, uint64_t value)
{
    if (value) pack_varints(pack, field << 3, value);
}
static inline void pack_i64(struct pack *pack, uint32_t field, int64_t value)
{
    pack_u64(pack, field, (uint64_t)value);
}
/* A field of type sint64. */
static inline void pack_sint64(struct pack *pack, uint32_t field, int64_t value)
{
    pack_u64(pack, field, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}
static inline void pack_double(struct pack *pack, uint32_t field, double value)
{
    char bytes[sizeof(uint64_t)];
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (!bits) return;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(bits >> (8 * i));
    pack_varint(pack, field << 3 | 1);
    pack_append(pack, str_of(bytes, sizeof bytes));
}
/* Writes the field even if `bytes` is empty. */
static inline void pack_bytes(struct pack *pack, uint32_t field, struct str bytes)
{
    pack_varints(pack, field << 3 | 2, bytes.len);
    pack_append(pack, bytes);
}
static inline void pack_row(struct pack *pack, uint32_t field, const struct pack *row)
{
    if (!pack->err) pack->err = row->err;
    pack_bytes(pack, field, buf_peek(row->into));
}
static inline void pack_text(struct pack *pack, uint32_t field, struct str text)
{
    if (text.len) pack_bytes(pack, field, text);
}
#endif
