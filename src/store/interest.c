/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes lookers (watches and similar objects) by the prefix that their keys share. Loop's thread.
 *
 * A scope has the lookers of one prefix or key, at least one. lengths[n] is the number of prefixes
 * of n bytes: a changed key is cut only to lengths that some prefix has. */
#include "store/interest.h"

#include <stdlib.h>
#include <string.h>

void interest_init(struct interest *interest, uint64_t seed)
{
    memset(interest, 0, sizeof *interest);
    map_init(&interest->names, MAP_MOST, seed);
    map_init(&interest->prefixes, MAP_MOST, seed);
    list_init(&interest->all);
}

void interest_deinit(struct interest *interest)
{
    assert(map_count(&interest->names) == 0 && map_count(&interest->prefixes) == 0);
    map_deinit(&interest->names);
    map_deinit(&interest->prefixes);
}

/* -- ranges -- */

static struct str shared_prefix(struct key_range range)
{
    size_t len = 0;

    if (key_range_is_one(range) || key_range_is_prefix(range)) return range.from;
    if (key_range_is_open(range)) return STR_EMPTY;
    while (len < range.from.len && len < range.end.len && range.from.at[len] == range.end.at[len])
        len++;
    return str_of(range.from.at, len);
}

bool interest_exact(struct key_range range)
{
    return key_range_is_prefix(range) ||
           (key_range_is_one(range) && !str_ends(range.from, STR("/")));
}

bool interest_bucket(struct str key, struct str *ret_bucket)
{
    size_t at = key.len;

    if (!str_starts(key, STR(STORE_CLAIMS))) return false;
    while (key.at[at - 1] != '/') at--;
    *ret_bucket = str_of(key.at, at);
    return !str_equal(str_tail(key, at), STR(".group"));
}

/* -- lookers -- */

static struct interest_scope *scope_get(struct interest *interest, struct str text, bool name)
{
    struct map *index = name ? &interest->names : &interest->prefixes;
    struct interest_scope *scope = map_get(index, text);

    if (scope) return scope;
    scope = calloc(1, sizeof *scope + text.len + 1);
    if (!scope) return NULL;
    list_init(&scope->lookers);
    scope->name = name;
    scope->len = text.len;
    if (text.len) memcpy(scope->text, text.at, text.len);
    if (map_put(index, str_of(scope->text, text.len), scope)) {
        free(scope);
        return NULL;
    }
    if (!name) interest->lengths[text.len]++;
    return scope;
}

enum err interest_join(struct interest *interest, struct key_range range, struct looker *looker)
{
    struct str prefix = shared_prefix(range);

    /* A prefix longer than any key never matches; as a name it needs no entry in `lengths`. */
    looker->scope =
        scope_get(interest, prefix, key_range_is_one(range) || prefix.len > STORE_KEY_MAX);
    if (!looker->scope) return ERR_NOMEM;
    list_init(&looker->in_scope);
    list_init(&looker->all);
    list_append(&looker->scope->lookers, &looker->in_scope);
    list_append(&interest->all, &looker->all);
    return ERR_OK;
}

void interest_leave(struct interest *interest, struct looker *looker)
{
    struct interest_scope *scope = looker->scope;

    looker->scope = NULL;
    if (!scope) return;
    list_remove(&looker->in_scope);
    list_remove(&looker->all);
    if (!list_empty(&scope->lookers)) return;
    (void)map_remove(scope->name ? &interest->names : &interest->prefixes,
                     str_of(scope->text, scope->len));
    if (!scope->name) interest->lengths[scope->len]--;
    free(scope);
}

/* -- changes -- */

static void call_back(const struct interest_scope *scope, uint64_t number,
                      const struct key_value *change)
{
    if (!scope) return;
    LIST_EACH(&scope->lookers, node)
    {
        struct looker *looker = CONTAINER_OF(node, struct looker, in_scope);

        looker->seen(looker, number, change);
    }
}

void interest_changed(const struct interest *interest, uint64_t number,
                      const struct key_value *change)
{
    struct str key = change->key, bucket;

    if (list_empty(&interest->all)) return;
    call_back(map_get(&interest->names, key), number, change);
    if (interest_bucket(key, &bucket)) call_back(map_get(&interest->names, bucket), number, change);
    for (size_t len = 0; len <= key.len; len++)
        if (interest->lengths[len])
            call_back(map_get(&interest->prefixes, str_of(key.at, len)), number, change);
}

void interest_changed_all(const struct interest *interest)
{
    LIST_EACH(&interest->all, node)
    {
        struct looker *looker = CONTAINER_OF(node, struct looker, all);

        looker->seen(looker, 0, NULL);
    }
}
