/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers in bytes of a fixed order, whatever the machine's own order and alignment are. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H
#include <string.h>

#include "base/base.h"

static inline uint64_t load_le64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline void store_le64(void *to, uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(to, &value, sizeof value);
}

static inline uint32_t load_le32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return value;
}

static inline void store_le32(void *to, uint32_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    memcpy(to, &value, sizeof value);
}

static inline uint16_t load_le16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap16(value);
#endif
    return value;
}

static inline void store_le16(void *to, uint16_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap16(value);
#endif
    memcpy(to, &value, sizeof value);
}
#endif
