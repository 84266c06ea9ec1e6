/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits, and numbers and ids written with them. */
#ifndef BASE_HEX_H
#define BASE_HEX_H
#include "base/str.h"

/* -1 if `c` is no digit. */
static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}
/* Lower case only: each number has one text. */
static inline int hex_value_lower(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : hex_value(c);
}
/* Reads 1 to 16 lower-case digits. Returns false for any other text. */
static inline bool hex_read(struct str digits, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (digits.len == 0 || digits.len > 16) return false;
    for (size_t i = 0; i < digits.len; i++) {
        int digit = hex_value_lower(digits.at[i]);
        if (digit < 0) return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret_value = value;
    return true;
}
static inline void hex_write(const void *bytes, size_t len, char *text)
{
    const uint8_t *at = (const uint8_t *)bytes;

    for (size_t i = 0; i < len; i++) {
        *text++ = "0123456789abcdef"[at[i] >> 4];
        *text++ = "0123456789abcdef"[at[i] & 15];
    }
    *text = '\0';
}
/* Reads 16 bytes from 32 lower-case digits. Dashes may be anywhere, as in UUIDs. */
static inline bool hex_read_id(struct str text, uint8_t ret_bytes[16])
{
    uint8_t bytes[16] = {0};
    size_t digits = 0;

    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_value_lower(text.at[i]);
        if (text.at[i] == '-') continue;
        if (digit < 0 || digits == 2 * sizeof bytes) return false;
        bytes[digits / 2] = (uint8_t)(bytes[digits / 2] << 4 | digit);
        digits++;
    }
    if (digits != 2 * sizeof bytes) return false;
    memcpy(ret_bytes, bytes, sizeof bytes);
    return true;
}
#endif
