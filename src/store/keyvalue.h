/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes a key of the store as the message mvccpb.KeyValue, which etcd's clients read. */
#ifndef STORE_KEYVALUE_H
#define STORE_KEYVALUE_H
#include "store/core/keys.h"
#include "wire/pack.h"

static inline size_t keyvalue_varint(uint64_t value)
{
    return (size_t)(70 - __builtin_clzll(value | 1)) / 7;
}
static inline size_t keyvalue_number(uint64_t value)
{
    return value ? 1 + keyvalue_varint(value) : 0;
}
static inline size_t keyvalue_text(struct str text)
{
    return text.len ? 1 + keyvalue_varint(text.len) + text.len : 0;
}
/* without the field tag and length */
static inline size_t keyvalue_size(const struct key_value *pair)
{
    return keyvalue_text(pair->key) + keyvalue_number(pair->create) + keyvalue_number(pair->mod) +
           keyvalue_number(pair->version) + keyvalue_text(pair->value) +
           keyvalue_number(pair->lease);
}
/* appends the message as a field, without an intermediate copy */
static inline void keyvalue_pack(struct pack *pack, uint32_t field, const struct key_value *pair)
{
    pack_varint(pack, field << 3 | 2);
    pack_varint(pack, keyvalue_size(pair));
    pack_text(pack, 1, pair->key);
    pack_u64(pack, 2, pair->create);
    pack_u64(pack, 3, pair->mod);
    pack_u64(pack, 4, pair->version);
    pack_text(pack, 5, pair->value);
    pack_u64(pack, 6, pair->lease);
}
#endif
