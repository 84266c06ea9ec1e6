/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of keys, owners, groups and TTLs, and the names of slots (names.h). Pure, any thread. */
#include "prim/names.h"

#include <inttypes.h>

#include "prim/answer.h"

static coord_result check_name(struct str name, size_t max, int reason, const char *what)
{
    const char *fault = claim_name_fault(name, max);
    return fault == NULL ? prim_ok(COORD_R_NONE)
                         : prim_answer(COORD_INVALID, reason,
                                       "%s of %zu bytes %s; 1-%zu bytes, at most %d segments", what,
                                       name.len, fault, max, CLAIM_DEPTH_MAX);
}

coord_result prim_check_key(struct str key)
{
    return check_name(key, PRIM_KEY_MAX, COORD_R_KEY, "key");
}

coord_result prim_check_group(struct str group)
{
    return check_name(group, PRIM_GROUP_MAX, COORD_R_GROUP, "group");
}

coord_result prim_check_owner(const char *owner)
{
    struct str name = str_from(owner);
    return claim_owner_is_valid(name, PRIM_OWNER_MAX)
               ? prim_ok(COORD_R_NONE)
               : prim_answer(COORD_INVALID, COORD_R_OWNER,
                             "owner of %zu bytes: 1-%d bytes of A-Z a-z 0-9 . _ : @ / -", name.len,
                             PRIM_OWNER_MAX);
}

coord_result prim_check_value(struct str value, const coord_limits *limits)
{
    return value.len <= limits->value_max
               ? prim_ok(COORD_R_NONE)
               : prim_answer(COORD_INVALID, COORD_R_VALUE_SIZE,
                             "value of %zu bytes: at most %" PRIu64 " here", value.len,
                             limits->value_max);
}

coord_result prim_check_ttl(int64_t ttl_ms, const coord_limits *limits)
{
    return ttl_ms >= limits->ttl_min_ms && ttl_ms <= limits->ttl_max_ms
               ? prim_ok(COORD_R_NONE)
               : prim_answer(COORD_INVALID, COORD_R_TTL_RANGE,
                             "ttl of %" PRId64 " ms: %" PRId64 "-%" PRId64 " ms here", ttl_ms,
                             limits->ttl_min_ms, limits->ttl_max_ms);
}

coord_limits prim_limits(int64_t ttl_min_ms, int64_t ttl_step_ms, uint64_t value_max)
{
    return (coord_limits){
        .key_max = PRIM_KEY_MAX,
        .owner_max = PRIM_OWNER_MAX,
        .group_max = PRIM_GROUP_MAX,
        .depth_max = CLAIM_DEPTH_MAX,
        .slot_count_max = PRIM_SLOTS_MAX,
        .keys_per_lease_max = PRIM_KEYS_PER_LEASE_MAX,
        .leases_max = PRIM_LEASES_MAX,
        .value_max = value_max,
        .ttl_min_ms = ttl_min_ms,
        .ttl_max_ms = PRIM_TTL_MAX_MS,
        .ttl_step_ms = ttl_step_ms,
    };
}

static size_t leaf_start(struct str key)
{
    size_t at = key.len;
    while (at > 0 && key.at[at - 1] != '/') at--;
    return at;
}

struct str prim_leaf_of(struct str key)
{
    return str_tail(key, leaf_start(key));
}

struct str prim_bucket_of(struct str key)
{
    size_t start = leaf_start(key);
    return start == 0 ? STR_EMPTY : str_of(key.at, start - 1);
}

void prim_slot_key(struct str group, uint32_t slot, char key[PRIM_SLOT_KEY_CAP])
{
    static const char leaf[] = "/slot-0000";
    assert(group.len <= PRIM_GROUP_MAX && slot < 10000);
    memcpy(key, group.at, group.len);
    memcpy(key + group.len, leaf, sizeof leaf);
    for (char *digit = key + group.len + sizeof leaf - 2; slot > 0; slot /= 10)
        *digit-- = (char)('0' + slot % 10);
}

void prim_group_key(struct str group, char key[PRIM_SLOT_KEY_CAP])
{
    static const char leaf[] = "/.group";
    assert(group.len <= PRIM_GROUP_MAX);
    memcpy(key, group.at, group.len);
    memcpy(key + group.len, leaf, sizeof leaf);
}

bool prim_in_scope(struct str key, struct str scope, bool bucket)
{
    if (!bucket) return str_equal(key, scope);
    return str_equal(prim_bucket_of(key), scope) && !claim_is_reserved(prim_leaf_of(key));
}

int64_t prim_margin_ms(int64_t ttl_ms)
{
    int64_t tenth = ttl_ms / 10, third = ttl_ms / 3;
    int64_t floor = third < 100 ? third : 100;
    return tenth > floor ? tenth : floor;
}
