/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, writes, counts and truncates UTF-8 by code points. Pure. */
#include "text/utf8.h"

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t utf8_read(struct str s, uint32_t *ret_scalar)
{
    size_t len = utf8_step(s.at, s.len);
    uint32_t scalar = (unsigned char)s.at[0];

    if (len > 1) scalar &= 0x7fu >> len;
    for (size_t i = 1; i < len; i++) scalar = scalar << 6 | ((unsigned char)s.at[i] & 0x3f);
    *ret_scalar = scalar;
    return len;
}

bool utf8_is_control(uint32_t scalar)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0x061c, 0x061c}, /* Arabic letter mark */
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff},
    };

    for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
        if (scalar >= ranges[i].first && scalar <= ranges[i].last) return true;
    return false;
}

bool utf8_is_scalar(uint32_t code_point)
{
    return code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff);
}

size_t utf8_write(uint32_t scalar, char out[UTF8_LEN_MAX])
{
    assert(utf8_is_scalar(scalar));
    if (scalar < 0x80) {
        out[0] = (char)scalar;
        return 1;
    }
    if (scalar < 0x800) {
        out[0] = (char)(0xc0 | scalar >> 6);
        out[1] = (char)(0x80 | (scalar & 0x3f));
        return 2;
    }
    if (scalar < 0x10000) {
        out[0] = (char)(0xe0 | scalar >> 12);
        out[1] = (char)(0x80 | (scalar >> 6 & 0x3f));
        out[2] = (char)(0x80 | (scalar & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | scalar >> 18);
    out[1] = (char)(0x80 | (scalar >> 12 & 0x3f));
    out[2] = (char)(0x80 | (scalar >> 6 & 0x3f));
    out[3] = (char)(0x80 | (scalar & 0x3f));
    return 4;
}

size_t utf8_count(struct str s)
{
    size_t count = 0;

    for (size_t i = 0; i < s.len; i++) count += !continues(s.at[i]);
    return count;
}

struct str utf8_clip(struct str s, size_t len_max)
{
    size_t len = s.len;

    if (len > len_max) {
        len = len_max;
        while (len > 0 && continues(s.at[len])) len--;
    }
    return (struct str){s.at, len};
}
