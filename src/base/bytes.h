/* SPDX-License-Identifier: Apache-2.0 */
/* Integers in bytes of a fixed order, on every machine. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H
#include <string.h>

#include "base/base.h"

/* Converts in both directions. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define AS_LITTLE_ENDIAN(bits, value) __builtin_bswap##bits(value)
#else
#define AS_LITTLE_ENDIAN(bits, value) (value)
#endif

static inline uint64_t load_le64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return AS_LITTLE_ENDIAN(64, value);
}

static inline void store_le64(void *to, uint64_t value)
{
    value = AS_LITTLE_ENDIAN(64, value);
    memcpy(to, &value, sizeof value);
}

static inline uint32_t load_le32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return AS_LITTLE_ENDIAN(32, value);
}

static inline void store_le32(void *to, uint32_t value)
{
    value = AS_LITTLE_ENDIAN(32, value);
    memcpy(to, &value, sizeof value);
}

static inline uint16_t load_le16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return AS_LITTLE_ENDIAN(16, value);
}

static inline void store_le16(void *to, uint16_t value)
{
    value = AS_LITTLE_ENDIAN(16, value);
    memcpy(to, &value, sizeof value);
}
#endif
