/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests of the memory store: a store, a clock, recorded watch events, and one lease per
 * handle. */
#ifndef TESTS_UNIT_PRIM_MEMORY_RIG_H
#define TESTS_UNIT_PRIM_MEMORY_RIG_H
#include <stdio.h>
#include <stdlib.h>

#include "prim/memory/shared.h"
#include "prim/names.h"

#define MS ((int64_t)1000000)

enum { RIG_EVENTS = 64, RIG_WATCHES = 8 };
struct rig_event {
    int type;
    uint64_t revision, token;
    char key[64];
};
struct rig {
    struct prim_backend *b;
    struct memory_shared *shared;
    struct prim_host host;
    _Atomic int64_t now;
    uint64_t ids; /* request and lease ids are counters, so that runs are reproducible */
    /* of the watches; protected by the store's mutex */
    struct rig_event events[RIG_EVENTS];
    size_t event_count;
    struct prim_feed *feeds[RIG_WATCHES];
    void *watches[RIG_WATCHES];
    size_t watch_count;
};
/* A handle as prim keeps it. */
struct hand {
    struct prim_held held[4];
    char keys[4][64];
    struct prim_claim claim;
    struct prim_grant grant;
    char owner[64];
};

static inline coord_id rig_id(struct rig *d)
{
    coord_id id = {{0}};
    d->ids++;
    memcpy(id.b, &d->ids, sizeof d->ids);
    return id;
}
static inline struct prim_call rig_call(struct rig *d)
{
    return (struct prim_call){.deadline_ns = INT64_MAX, .request_id = rig_id(d)};
}
static inline int64_t rig_now(void *arg)
{
    return ((struct rig *)arg)->now;
}
/* False: no memory. */
static inline bool rig_try_open(struct rig *d, size_t entries_max, uint64_t bytes_max)
{
    struct prim_open in = {.options = &(coord_options){0}, .clock = {rig_now, d}, .host = &d->host};
    d->now = 1000 * MS;
    if (memory_open(&in, &(struct memory_limits){entries_max, bytes_max}, &d->b).code != COORD_OK)
        return false;
    d->shared = memory_shared_of(d->b);
    return true;
}
static inline void rig_open(struct rig *d)
{
    memset(d, 0, sizeof *d);
    bool opened = rig_try_open(d, 1000, 100000);
    assert(opened);
}
static inline void rig_close(struct rig *d)
{
    for (size_t i = 0; i < d->watch_count; i++) {
        d->b->ops->unwatch(d->b, d->watches[i]);
        prim_feed_close(d->feeds[i]);
    }
    d->b->ops->close(d->b);
}
static inline void rig_on_event(void *owner, const struct prim_event *event)
{
    struct rig *d = owner;
    if (event->type != COORD_PUT && event->type != COORD_DELETE && event->type != COORD_EXPIRE)
        return;
    assert(d->event_count < RIG_EVENTS);
    struct rig_event *reported = &d->events[d->event_count++];
    *reported = (struct rig_event){event->type, event->revision, event->token, ""};
    (void)snprintf(reported->key, sizeof reported->key, "%.*s", STR_ARG(event->key));
}
/* Records the changes of the bucket's keys from now on. */
static inline void rig_watch(struct rig *d, const char *bucket)
{
    struct prim_call call = rig_call(d);
    size_t i = d->watch_count++;
    assert(i < RIG_WATCHES);
    d->feeds[i] =
        prim_feed_open_direct((struct prim_scope){str_from(bucket), true}, 0, rig_on_event, d);
    coord_result r = d->b->ops->watch(d->b, &call, d->feeds[i], &d->watches[i]);
    assert(r.code == COORD_OK);
}
/* Ends the leases that are due. */
static inline void rig_expire(struct rig *d)
{
    memory_enter(d->shared);
    memory_leave(d->shared);
}
/* Returns the events since the last call; CHECKs that there are at most `max`. */
static inline size_t rig_events_of(struct rig *d, struct rig_event *events, size_t max)
{
    memory_enter(d->shared);
    size_t count = d->event_count;
    assert(count <= max);
    if (count > 0) memcpy(events, d->events, count * sizeof *events);
    d->event_count = 0;
    memory_leave(d->shared);
    return count;
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
static inline coord_result rig_create_as(struct rig *d, const struct prim_call *call,
                                         const char *key, const char *value, int64_t ttl_ms,
                                         const char *owner, struct hand *h)
{
    struct prim_grant grant = {0};
    struct prim_create in = {.key = str_from(key),
                             .value = str_from(value),
                             .owner = str_from(owner),
                             .ttl_ms = ttl_ms,
                             .lease_id = rig_id(d)};
    coord_result r = d->b->ops->create(d->b, call, &in, &grant);
    if (r.code == COORD_OK && h != NULL) { hand_take(h, key, owner, &grant); }
    return r;
}
static inline coord_result rig_create(struct rig *d, const char *key, int64_t ttl_ms,
                                      const char *owner, struct hand *h)
{
    struct prim_call call = rig_call(d);
    return rig_create_as(d, &call, key, "v", ttl_ms, owner, h);
}
static inline coord_result rig_under(struct rig *d, const char *key, struct hand *h)
{
    struct prim_call call = rig_call(d);
    struct prim_grant grant = {0};
    struct prim_create in = {
        .key = str_from(key), .value = STR("v"), .owner = STR_EMPTY, .under = &h->claim};
    coord_result r = d->b->ops->create(d->b, &call, &in, &grant);
    if (r.code == COORD_OK) { hand_add(h, key, &grant); }
    return r;
}
static inline coord_result rig_cas(struct rig *d, const char *key, uint64_t expected,
                                   int64_t ttl_ms, const struct hand *h, struct prim_grant *grant)
{
    struct prim_call call = rig_call(d);
    struct prim_cas in = {.key = str_from(key),
                          .value = STR("w"),
                          .expected = expected,
                          .ttl_ms = ttl_ms,
                          .owner = STR("me"),
                          .lease_id = rig_id(d),
                          .claim = h != NULL ? &h->claim : NULL};
    return d->b->ops->cas(d->b, &call, &in, grant);
}
static inline coord_result rig_remove(struct rig *d, const char *key, uint64_t expected,
                                      const struct hand *h)
{
    struct prim_call call = rig_call(d);
    struct prim_delete in = {str_from(key), expected, h != NULL ? &h->claim : NULL};
    return d->b->ops->remove(d->b, &call, &in);
}
static inline coord_result rig_acquire_as(struct rig *d, const struct prim_call *call,
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
                              .lease_id = rig_id(d)};
    coord_result r = d->b->ops->acquire(d->b, call, &in, &grant);
    if (r.code == COORD_OK && h != NULL) {
        (void)snprintf(key, sizeof key, "%s/slot-%04u", group, grant.slot);
        hand_take(h, key, owner, &grant);
    }
    return r;
}
static inline coord_result rig_acquire(struct rig *d, const char *group, uint32_t count,
                                       const char *owner, int64_t ttl_ms, uint32_t flags,
                                       struct hand *h)
{
    struct prim_call call = rig_call(d);
    return rig_acquire_as(d, &call, group, count, owner, ttl_ms, flags, COORD_NO_SLOT, 0, h);
}
static inline coord_result rig_release(struct rig *d, const struct hand *h, uint32_t attempt,
                                       const char *key)
{
    struct prim_call call = rig_call(d);
    call.attempt = attempt;
    return d->b->ops->release(d->b, &call, &h->claim, key);
}
static inline coord_result rig_renew(struct rig *d, const struct hand *h)
{
    struct prim_call call = rig_call(d);
    int64_t sent_ns;
    return d->b->ops->renew(d->b, &call, &h->claim, &sent_ns);
}
static inline coord_result rig_resize(struct rig *d, const char *group, uint64_t expected,
                                      uint32_t count)
{
    struct prim_call call = rig_call(d);
    return d->b->ops->resize(d->b, &call, str_from(group), expected, count);
}
/* The live entry or NULL; valid until the next call. */
static inline const struct memory_record *rig_get(struct rig *d, const char *key)
{
    memory_enter(d->shared);
    const struct memory_record *record = memory_record_of(d->shared, str_from(key));
    memory_leave(d->shared);
    return record != NULL && record->kind == PRIM_SEEN_LIVE ? record : NULL;
}
/* The group's record; NULL: there is no group. Free it with coord_holders_free. */
static inline coord_holders *rig_group(struct rig *d, const char *group)
{
    struct prim_call call = rig_call(d);
    coord_holders *holders = NULL;
    (void)d->b->ops->holders(d->b, &call, str_from(group), &holders);
    return holders;
}
static inline uint64_t rig_group_revision(struct rig *d, const char *group)
{
    coord_holders *holders = rig_group(d, group);
    uint64_t revision = holders != NULL ? holders->revision : 0;
    coord_holders_free(holders);
    return revision;
}
#endif
