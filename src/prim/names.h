/* SPDX-License-Identifier: Apache-2.0 */
/* Checks keys, owners, groups and TTLs against the limits of the contract before any I/O, and
 * forms the names of slots and group records. */
#ifndef PRIM_NAMES_H
#define PRIM_NAMES_H
#include <muster/coord.h>

#include "base/claim_name.h"

enum {
    PRIM_KEY_MAX = 512,
    PRIM_GROUP_MAX = 480,
    PRIM_OWNER_MAX = 128,
    PRIM_SLOTS_MAX = 1024,
    PRIM_KEYS_PER_LEASE_MAX = 1024,
    PRIM_LEASES_MAX = 4096,
    PRIM_VALUE_MAX = 65536,
    PRIM_VALUE_LARGE_MAX = 1048576,
    PRIM_TTL_MAX_MS = 86400000,
    PRIM_COOLDOWN_MAX_MS = 60000,
};

/* True: no store's key encoding escapes this byte. */
static inline bool prim_is_plain(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* COORD_OK, or COORD_INVALID with a text that names the limit. */
coord_result prim_check_key(struct str key);
coord_result prim_check_group(struct str group);
coord_result prim_check_owner(const char *owner);
coord_result prim_check_value(struct str value, const coord_limits *limits);
coord_result prim_check_ttl(int64_t ttl_ms, const coord_limits *limits);

/* Default limits; the backend passes value_max and the TTL limits. */
coord_limits prim_limits(int64_t ttl_min_ms, int64_t ttl_step_ms, uint64_t value_max);

struct str prim_bucket_of(struct str key); /* the part before the last '/', or "" */
struct str prim_leaf_of(struct str key);
#define PRIM_SLOT_KEY_CAP (PRIM_KEY_MAX + 1)
void prim_slot_key(struct str group, uint32_t slot,
                   char key[PRIM_SLOT_KEY_CAP]); /* "g/slot-0007" */
void prim_group_key(struct str group, char key[PRIM_SLOT_KEY_CAP]);
/* True if `key` is in the scope of a watch. A bucket includes its own keys, not deeper keys, and
 * never ".group". */
bool prim_in_scope(struct str key, struct str scope, bool bucket);

/* Returns how long before the end of its lease a holder must stop (T3). */
int64_t prim_margin_ms(int64_t ttl_ms);
#endif
