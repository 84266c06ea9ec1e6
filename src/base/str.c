/* SPDX-License-Identifier: Apache-2.0 */
/* Views of bytes: comparing, cutting, numbers, UTF-8, hashing. Only str_dup() allocates. */
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

struct str str_from(const char *c_string)
{
    return c_string ? (struct str){c_string, strlen(c_string)} : STR_EMPTY;
}

static char to_lower(char c)
{
    if (c >= 'A' && c <= 'Z') c = (char)(c + ('a' - 'A'));
    return c;
}

bool str_equal_nocase(struct str a, struct str b)
{
    if (a.len != b.len) return false;
    for (size_t i = 0; i < a.len; i++)
        if (to_lower(a.at[i]) != to_lower(b.at[i])) return false;
    return true;
}

int str_compare(struct str a, struct str b)
{
    size_t common = min_size(a.len, b.len);
    /* Interned texts have equal addresses and need no memcmp(). */
    int order = common > 0 && a.at != b.at ? memcmp(a.at, b.at, common) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

int str_order(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
    while (s.len > 0 && is_blank(s.at[0])) s = str_tail(s, 1);
    while (s.len > 0 && is_blank(s.at[s.len - 1])) s.len--;
    return s;
}

size_t str_find(struct str s, char c)
{
    const char *found = s.len > 0 ? memchr(s.at, c, s.len) : NULL;

    return found ? (size_t)(found - s.at) : s.len;
}

size_t str_count(struct str s, char c)
{
    size_t count = 0;

    for (size_t i = 0; i < s.len; i++) count += s.at[i] == c;
    return count;
}

bool str_has(struct str s, char c)
{
    return str_find(s, c) < s.len;
}

bool str_split(struct str *rest, char separator, struct str *ret_part)
{
    size_t end;

    if (!rest->at) return false;
    end = str_find(*rest, separator);
    *ret_part = str_of(rest->at, end);
    *rest = end < rest->len ? str_of(rest->at + end + 1, rest->len - end - 1) : (struct str){0};
    return true;
}

enum err str_to_u64(struct str s, uint64_t *ret_value)
{
    uint64_t value = 0;
    bool over = false;

    if (s.len == 0) return ERR_PARSE;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9') return ERR_PARSE;
        over |= __builtin_mul_overflow(value, 10u, &value);
        over |= __builtin_add_overflow(value, (uint64_t)(s.at[i] - '0'), &value);
    }
    if (over) return ERR_TOO_LARGE;
    *ret_value = value;
    return ERR_OK;
}

enum err str_to_i64(struct str s, int64_t *ret_value)
{
    bool negative = s.len > 0 && s.at[0] == '-';
    uint64_t size, most = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    enum err err = str_to_u64(negative ? str_tail(s, 1) : s, &size);

    if (err) return err;
    if (size > most) return ERR_TOO_LARGE;
    /* -(size - 1) - 1, because the magnitude of INT64_MIN does not fit into int64_t. */
    *ret_value = negative && size > 0 ? -(int64_t)(size - 1) - 1 : (int64_t)size;
    return ERR_OK;
}

char *str_dup(struct str s)
{
    char *copy = s.len < SIZE_MAX ? malloc(s.len + 1) : NULL;

    if (!copy) return NULL;
    if (s.len > 0) memcpy(copy, s.at, s.len);
    copy[s.len] = '\0';
    return copy;
}

/* The second byte's range excludes overlong forms, surrogates and values above U+10FFFF (Unicode,
 * table 3-7). */
size_t utf8_step(const char *text, size_t left)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char first = at[0], low = 0x80, high = 0xBF;
    size_t len = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;

    if (first < 0x80) return 1;
    if (first < 0xC2 || first > 0xF4) return 0;
    if (len > left) return 0;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
    if (at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    return len;
}

bool str_is_utf8(struct str s)
{
    const char *at = s.at;

    for (size_t left = s.len; left > 0;) {
        bool ascii = left >= 8 && (load_le64(at) & 0x8080808080808080u) == 0;
        size_t len;
        /* Tests the last bytes as one word, which overlaps bytes already tested. */
        if (left < 8 && s.len >= 8 && (load_le64(at + left - 8) & 0x8080808080808080u) == 0)
            return true;
        len = ascii ? 8 : utf8_step(at, left);
        if (len == 0) return false;
        at += len;
        left -= len;
    }
    return true;
}

/* SipHash-1-3: one compression round, three final rounds. */
static uint64_t str_rotate_left(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = str_rotate_left(v[1], 13) ^ v[0];
    v[3] = str_rotate_left(v[3], 16) ^ v[2];
    v[0] = str_rotate_left(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = str_rotate_left(v[1], 17) ^ v[2];
    v[3] = str_rotate_left(v[3], 21) ^ v[0];
    v[2] = str_rotate_left(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* The last `len` % 8 bytes, with the length in the top byte. */
static inline uint64_t sip_tail(const char *at, size_t len)
{
    size_t rest = len % 8;
    uint64_t word = 0;

    if (rest > 0 && len >= 8)
        word = load_le64(at + len - 8) >> (64 - 8 * rest);
    else
        for (size_t i = 0; i < rest; i++) word |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return word | (uint64_t)len << 56;
}

uint64_t str_hash(struct str s, uint64_t seed)
{
    /* Seed 0 gives the all-zero key. */
    uint64_t second = seed * 0x9E3779B97F4A7C15u;
    uint64_t v[4] = {seed ^ 0x736F6D6570736575u, second ^ 0x646F72616E646F6Du,
                     seed ^ 0x6C7967656E657261u, second ^ 0x7465646279746573u};

    for (size_t i = 0; i + 8 <= s.len; i += 8) sip_word(v, load_le64(s.at + i));
    sip_word(v, sip_tail(s.at, s.len));
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
