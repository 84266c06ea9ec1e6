/* SPDX-License-Identifier: Apache-2.0 */
/* A range of keys in etcd's notation. */
#ifndef STORE_CORE_KEY_RANGE_H
#define STORE_CORE_KEY_RANGE_H
#include <string.h>

#include "base/str.h"

struct key_range {
    struct str from, end; /* end "": only the key `from`; end "\0": every key from `from` on */
};

static inline bool key_range_is_one(struct key_range range)
{
    return range.end.len == 0;
}
static inline bool key_range_is_open(struct key_range range)
{
    return range.end.len == 1 && range.end.at[0] == '\0';
}
static inline bool key_range_has(struct key_range range, struct str key)
{
    if (key_range_is_one(range)) return str_equal(range.from, key);
    return str_compare(key, range.from) >= 0 &&
           (key_range_is_open(range) || str_compare(key, range.end) < 0);
}
/* A prefix cut to this length, with its last byte increased by one, is the first key after all keys
 * with the prefix. 0: there is no such key. */
static inline size_t key_range_end_len(struct str prefix)
{
    size_t len = prefix.len;

    while (len > 0 && (unsigned char)prefix.at[len - 1] == 0xff) len--;
    return len;
}
/* `end` needs max(prefix.len, 1) bytes. */
static inline struct key_range key_range_of_prefix(struct str prefix, char *end)
{
    size_t len = key_range_end_len(prefix);

    if (len) memcpy(end, prefix.at, len);
    if (len)
        end[len - 1]++;
    else
        end[0] = '\0';
    return (struct key_range){prefix, str_of(end, len ? len : 1)};
}
static inline bool key_range_is_prefix(struct key_range range)
{
    size_t len = key_range_end_len(range.from);

    if (len == 0) return key_range_is_open(range) && range.from.len == 0;
    return range.end.len == len && memcmp(range.from.at, range.end.at, len - 1) == 0 &&
           (unsigned char)range.end.at[len - 1] == (unsigned char)range.from.at[len - 1] + 1;
}
#endif
