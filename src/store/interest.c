/* SPDX-License-Identifier: Apache-2.0 */
#include "store/interest.h"

#include <stdlib.h>
#include <string.h>

void interest_init(struct interest *interest, uint64_t seed)
{
    memset(interest, 0, sizeof *interest);
    map_init(&interest->keys, MAP_MOST, seed);
    map_init(&interest->fronts, MAP_MOST, seed);
}

void interest_deinit(struct interest *interest)
{
    assert(map_count(&interest->keys) == 0 && map_count(&interest->fronts) == 0);
    assert(interest->length_count == 0);
    map_deinit(&interest->keys);
    map_deinit(&interest->fronts);
    free(interest->lengths);
}

static bool is_open(struct str end)
{
    return end.len == 1 && end.at[0] == '\0';
}

struct key_range interest_prefix(struct str front, char *end)
{
    size_t len = front.len;

    if (len) memcpy(end, front.at, len);
    while (len > 0 && (unsigned char)end[len - 1] == 0xff) len--;
    if (len == 0) {
        end[0] = '\0'; /* every key from there on */
        return (struct key_range){front, str_of(end, 1)};
    }
    end[len - 1]++;
    return (struct key_range){front, str_of(end, len)};
}

/* Is `end` the first key behind all that begin with `from`? */
static bool is_prefix(struct key_range range)
{
    size_t len = range.from.len;

    while (len > 0 && (unsigned char)range.from.at[len - 1] == 0xff) len--;
    if (len == 0) return is_open(range.end) && range.from.len == 0;
    return range.end.len == len && memcmp(range.from.at, range.end.at, len - 1) == 0 &&
           (unsigned char)range.end.at[len - 1] == (unsigned char)range.from.at[len - 1] + 1;
}

/* What all keys of the range begin with. */
static struct str front_of(struct key_range range)
{
    size_t len = 0;

    if (range.end.len == 0 || is_prefix(range)) return range.from;
    if (is_open(range.end)) return STR_EMPTY;
    while (len < range.from.len && len < range.end.len && range.from.at[len] == range.end.at[len])
        len++;
    return str_of(range.from.at, len);
}

bool interest_exact(struct key_range range)
{
    return range.end.len == 0 || is_prefix(range);
}

bool interest_in(struct key_range range, struct str key)
{
    if (range.end.len == 0) return str_equal(range.from, key);
    return str_compare(key, range.from) >= 0 &&
           (is_open(range.end) || str_compare(key, range.end) < 0);
}

/* -- lengths -- */

static size_t length_at(const struct interest *interest, size_t len)
{
    size_t low = 0, high = interest->length_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (interest->lengths[middle].len < len)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool length_add(struct interest *interest, size_t len)
{
    size_t at = length_at(interest, len);

    if (at < interest->length_count && interest->lengths[at].len == len) {
        interest->lengths[at].scopes++;
        return true;
    }
    if (interest->length_count == interest->length_cap) {
        size_t cap = interest->length_cap ? interest->length_cap * 2 : 8;
        struct interest_length *more = realloc(interest->lengths, cap * sizeof *more);
        if (!more) return false;
        interest->lengths = more;
        interest->length_cap = cap;
    }
    memmove(interest->lengths + at + 1, interest->lengths + at,
            (interest->length_count - at) * sizeof *interest->lengths);
    interest->lengths[at] = (struct interest_length){len, 1};
    interest->length_count++;
    return true;
}

static void length_drop(struct interest *interest, size_t len)
{
    size_t at = length_at(interest, len);

    assert(at < interest->length_count && interest->lengths[at].len == len);
    if (--interest->lengths[at].scopes > 0) return;
    memmove(interest->lengths + at, interest->lengths + at + 1,
            (interest->length_count - at - 1) * sizeof *interest->lengths);
    interest->length_count--;
}

/* -- scopes -- */

static struct interest_scope *scope_get(struct interest *interest, struct str name, bool key)
{
    struct map *index = key ? &interest->keys : &interest->fronts;
    struct interest_scope *scope = map_get(index, name);

    if (scope) return scope;
    scope = calloc(1, sizeof *scope + name.len + 1);
    if (!scope) return NULL;
    list_init(&scope->lookers);
    scope->key = key;
    scope->len = name.len;
    if (name.len) memcpy(scope->name, name.at, name.len);
    if (map_put(index, str_of(scope->name, name.len), scope)) goto discard;
    if (key || length_add(interest, name.len)) return scope;
    (void)map_remove(index, str_of(scope->name, scope->len));
discard:
    free(scope);
    return NULL;
}

struct interest_scope *interest_join(struct interest *interest, struct key_range range,
                                     struct list *looker)
{
    struct interest_scope *scope = scope_get(interest, front_of(range), range.end.len == 0);

    if (scope) list_append(&scope->lookers, looker);
    return scope;
}

void interest_leave(struct interest *interest, struct interest_scope *scope, struct list *looker)
{
    list_remove(looker);
    if (!list_empty(&scope->lookers)) return;
    (void)map_remove(scope->key ? &interest->keys : &interest->fronts,
                     str_of(scope->name, scope->len));
    if (!scope->key) length_drop(interest, scope->len);
    free(scope);
}

void interest_each(const struct interest *interest, struct str key, interest_fn *each,
                   void *context)
{
    struct interest_scope *scope = map_get(&interest->keys, key);

    if (scope) each(context, scope);
    for (size_t i = 0; i < interest->length_count && interest->lengths[i].len <= key.len; i++) {
        scope = map_get(&interest->fronts, str_of(key.at, interest->lengths[i].len));
        if (scope) each(context, scope);
    }
}
