/* SPDX-License-Identifier: Apache-2.0 */
/* Short words for tests of the memory core: a core, a time, one lease a handle. */
#ifndef TESTS_UNIT_PRIM_MEMORY_DESK_H
#define TESTS_UNIT_PRIM_MEMORY_DESK_H
#include <stdio.h>
#include <stdlib.h>

#include "prim/memory/core/core.h"

#define MS ((int64_t)1000000)

struct desk {
    struct memory_core *core;
    int64_t now;
    uint64_t ids; /* request and lease ids are counted, so that runs repeat */
};
/* A handle: what prim would keep. */
struct hand {
    struct prim_held held[4];
    char keys[4][64];
    struct prim_claim claim;
    struct prim_grant grant;
    char owner[64];
};

static inline coord_id desk_id(struct desk *d)
{
    coord_id id = {{0}};
    d->ids++;
    memcpy(id.b, &d->ids, sizeof d->ids);
    return id;
}
static inline struct prim_call desk_call(struct desk *d)
{
    return (struct prim_call){.deadline_ns = INT64_MAX, .request_id = desk_id(d)};
}
static inline void desk_open(struct desk *d)
{
    *d = (struct desk){.now = 1000 * MS};
    d->core = memory_core_open(&(struct memory_core_options){
        .revision_start = 100, .entries_max = 1000, .bytes_max = 100000});
    assert(d->core != NULL);
}
static inline void hand_add(struct hand *h, const char *key, const struct prim_grant *grant)
{
    size_t i = h->claim.count++;
    assert(i < ARRAY_LEN(h->held));
    (void)snprintf(h->keys[i], sizeof h->keys[i], "%s", key);
    h->held[i] = (struct prim_held){h->keys[i], grant->token, grant->create_revision, grant->slot};
    h->claim.held = h->held;
}
static inline void hand_take(struct hand *h, const char *key, const char *owner,
                             const struct prim_grant *grant)
{
    h->claim = (struct prim_claim){.lease_id = grant->lease_id, .ttl_ms = grant->granted_ttl_ms};
    (void)snprintf(h->owner, sizeof h->owner, "%s", owner);
    h->claim.owner = h->owner;
    h->grant = *grant;
    hand_add(h, key, grant);
}
static inline coord_result desk_create_as(struct desk *d, const struct prim_call *call,
                                          const char *key, const char *value, int64_t ttl_ms,
                                          const char *owner, struct hand *h)
{
    struct prim_grant grant = {0};
    struct prim_create in = {.key = str_from(key),
                             .value = str_from(value),
                             .owner = str_from(owner),
                             .ttl_ms = ttl_ms,
                             .lease_id = desk_id(d)};
    coord_result r = memory_core_create(d->core, d->now, call, &in, &grant);
    if (r.code == COORD_OK && h != NULL) { hand_take(h, key, owner, &grant); }
    return r;
}
static inline coord_result desk_create(struct desk *d, const char *key, int64_t ttl_ms,
                                       const char *owner, struct hand *h)
{
    struct prim_call call = desk_call(d);
    return desk_create_as(d, &call, key, "v", ttl_ms, owner, h);
}
static inline coord_result desk_under(struct desk *d, const char *key, struct hand *h)
{
    struct prim_call call = desk_call(d);
    struct prim_grant grant = {0};
    struct prim_create in = {
        .key = str_from(key), .value = STR("v"), .owner = STR_EMPTY, .under = &h->claim};
    coord_result r = memory_core_create(d->core, d->now, &call, &in, &grant);
    if (r.code == COORD_OK) { hand_add(h, key, &grant); }
    return r;
}
static inline coord_result desk_cas(struct desk *d, const char *key, uint64_t expected,
                                    int64_t ttl_ms, const struct hand *h, struct prim_grant *grant)
{
    struct prim_call call = desk_call(d);
    struct prim_cas in = {.key = str_from(key),
                          .value = STR("w"),
                          .expected = expected,
                          .ttl_ms = ttl_ms,
                          .owner = STR("me"),
                          .lease_id = desk_id(d),
                          .claim = h != NULL ? &h->claim : NULL};
    return memory_core_cas(d->core, d->now, &call, &in, grant);
}
static inline coord_result desk_remove(struct desk *d, const char *key, uint64_t expected,
                                       const struct hand *h)
{
    struct prim_call call = desk_call(d);
    struct prim_delete in = {str_from(key), expected, h != NULL ? &h->claim : NULL};
    return memory_core_remove(d->core, d->now, &call, &in);
}
static inline coord_result desk_acquire_as(struct desk *d, const struct prim_call *call,
                                           const char *group, uint32_t count, const char *owner,
                                           int64_t ttl_ms, uint32_t flags, uint32_t prefer,
                                           int64_t cooldown_ms, struct hand *h)
{
    struct prim_grant grant = {0};
    char key[64];
    struct prim_acquire in = {.group = str_from(group),
                              .owner = str_from(owner),
                              .value = STR("v"),
                              .slot_count = count,
                              .flags = flags,
                              .prefer_slot = prefer,
                              .ttl_ms = ttl_ms,
                              .cooldown_ms = cooldown_ms,
                              .lease_id = desk_id(d)};
    coord_result r = memory_core_acquire(d->core, d->now, call, &in, &grant);
    if (r.code == COORD_OK && h != NULL) {
        (void)snprintf(key, sizeof key, "%s/slot-%04u", group, grant.slot);
        hand_take(h, key, owner, &grant);
    }
    return r;
}
static inline coord_result desk_acquire(struct desk *d, const char *group, uint32_t count,
                                        const char *owner, int64_t ttl_ms, uint32_t flags,
                                        struct hand *h)
{
    struct prim_call call = desk_call(d);
    return desk_acquire_as(d, &call, group, count, owner, ttl_ms, flags, COORD_NO_SLOT, 0, h);
}
static inline coord_result desk_release(struct desk *d, const struct hand *h, uint32_t attempt,
                                        const char *key)
{
    struct prim_call call = desk_call(d);
    call.attempt = attempt;
    return memory_core_release(d->core, d->now, &call, &h->claim, key);
}
static inline coord_result desk_renew(struct desk *d, const struct hand *h)
{
    return memory_core_renew(d->core, d->now, &h->claim);
}
static inline coord_result desk_resize(struct desk *d, const char *group, uint64_t expected,
                                       uint32_t count)
{
    struct prim_call call = desk_call(d);
    return memory_core_resize(d->core, d->now, &call, str_from(group), expected, count);
}
static inline const struct memory_entry *desk_get(struct desk *d, const char *key)
{
    const struct memory_entry *entry = NULL;
    return memory_core_get(d->core, d->now, str_from(key), &entry).code == COORD_OK ? entry : NULL;
}
#endif
