/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: at most N holders at a time; waiters are served in the order of arrival.
 *
 * Invariants:
 * slots[i].lease is set exactly while the key of slot i exists.
 * live <= slot_count, unless a resize reduced slot_count below the slots already held.
 * No waiter waits while a slot is free (I8 of store.h).
 * A group with slots in cool-down is in `rests`, ordered by the end of its first cool-down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "store/core/internal.h"

enum {
    GROUP_COST = 256,
    SLOT_COST = sizeof(struct group_slot),
    WAITER_COST = 160,
    OVERDUE_WORK = 8 * STORE_SLOTS_MAX
};

static struct str group_name(const struct group *group)
{
    return str_of(group->key, group->key_len);
}

struct group *group_find(const struct store *store, struct str key)
{
    return map_get(&store->groups, key);
}

static void group_toggle(struct store *store, const struct group *group)
{
    STORE_TOGGLE(store, HASHED_GROUP, NULL, str_hash(group_name(group), 2), group->revision,
                 group->cooldown_ns, (uint64_t)group->slot_count << 32 | group->waiter_count);
}

static void rest_toggle(struct store *store, const struct group *group, uint32_t slot)
{
    STORE_TOGGLE(store, HASHED_REST, NULL, str_hash(group_name(group), 3), slot,
                 group->slots[slot].rest_until_ns);
}

static size_t slot_key(const struct group *group, uint32_t slot, char key[STORE_KEY_MAX + 1])
{
    return (size_t)snprintf(key, STORE_KEY_MAX + 1, "%.*s/slot-%04u", STR_ARG(group_name(group)),
                            (unsigned)slot);
}

/* -- cool-downs -- */
static void rests_leave(struct store *store, struct group *group)
{
    if (group->rests > 0) order_remove(&store->rests, group);
}

static void rests_join(struct store *store, struct group *group)
{
    uint64_t first = UINT64_MAX;

    if (group->rests == 0) return;
    for (uint32_t i = 0; i < group->slot_cap; i++)
        if (group->slots[i].rest_until_ns) first = min_u64(first, group->slots[i].rest_until_ns);
    due_set(group->due, first);
    if (order_insert(&store->rests, group)) (void)store_must(NULL);
}

void group_rest_begin(struct store *store, struct group *group, uint32_t slot, uint64_t until_ns)
{
    assert(until_ns && !group->slots[slot].rest_until_ns);
    section_row_keep(&store->section, &group->row);
    rests_leave(store, group);
    group->rests++;
    group->slots[slot].rest_until_ns = until_ns;
    rests_join(store, group);
    rest_toggle(store, group, slot);
}

static bool has_rested(const struct store *store, const struct group *group)
{
    return group->rests > 0 && due_get(group->due) <= store->clock_ns;
}

static void end_rests(struct store *store, struct group *group)
{
    if (!has_rested(store, group)) return;
    section_row_keep(&store->section, &group->row);
    rests_leave(store, group);
    for (uint32_t i = 0; i < group->slot_cap; i++) {
        uint64_t until_ns = group->slots[i].rest_until_ns;
        if (!until_ns || until_ns > store->clock_ns) continue;
        rest_toggle(store, group, i);
        group->slots[i].rest_until_ns = 0;
        group->rests--;
    }
    rests_join(store, group);
    group_serve(store, group);
}

void groups_end_rests(struct store *store, size_t max)
{
    for (size_t cost, done = 0; done < max; done += cost) {
        struct order_place place = order_begin(&store->rests);
        struct group *group = order_next(&place);
        if (!group || !has_rested(store, group)) return;
        cost = 1u + group->slot_cap;
        store->work += cost;
        end_rests(store, group);
    }
}

/* -- slots -- */
static void slots_grow(struct store *store, struct group *group, uint32_t count)
{
    if (count <= group->slot_cap) return;
    group->slots = store_must(realloc(group->slots, count * sizeof *group->slots));
    memset(group->slots + group->slot_cap, 0, (count - group->slot_cap) * sizeof *group->slots);
    store->bytes += (uint64_t)(count - group->slot_cap) * SLOT_COST;
    group->slot_cap = count;
}

/* True if a slot above slot_count is still held, after a resize to fewer slots. */
static bool has_left_over(const struct group *group)
{
    for (uint32_t i = group->slot_count; i < group->slot_cap; i++)
        if (group->slots[i].lease) return true;
    return false;
}

static bool slot_is_free(const struct group *group, uint32_t slot)
{
    return slot < group->slot_count && !group->slots[slot].lease &&
           !group->slots[slot].rest_until_ns;
}

static uint32_t free_slot(const struct group *group, uint32_t prefer)
{
    if (has_left_over(group)) return STORE_NO_SLOT;
    if (prefer != STORE_NO_SLOT && slot_is_free(group, prefer)) return prefer;
    for (uint32_t i = 0; i < group->slot_count; i++)
        if (slot_is_free(group, i)) return i;
    return STORE_NO_SLOT;
}

/* ignores leases past their deadline */
static struct lease *holder_named(const struct store *store, const struct group *group,
                                  struct str owner, uint32_t *ret_slot)
{
    for (uint32_t i = 0; i < group->slot_cap; i++) {
        struct lease *lease = group->slots[i].lease;
        if (!lease || !str_equal(str_of(lease->owner, lease->owner_len), owner) ||
            lease_is_over(store, lease))
            continue;
        *ret_slot = i;
        return lease;
    }
    return NULL;
}

static struct store_result slot_give(struct store *store, struct group *group, uint32_t slot,
                                     struct lease *lease, struct str value)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_ACQUIRED);
    char key[STORE_KEY_MAX + 1];
    struct str name = str_of(key, slot_key(group, slot, key));

    section_row_keep(&store->section, &group->row);
    result.revision = store_put(store, name, value, lease->number);
    (void)lease_claim_add(store, lease, name, result.revision, group, slot);
    group->live += group->slots[slot].lease == NULL;
    group->slots[slot].lease = lease;
    result.token = result.create_revision = result.revision;
    result.slot = slot;
    result.slot_count = group->slot_count;
    result.live = group->live;
    result.granted_ttl_ms = (int64_t)(lease->ttl_ns / 1000000);
    result.lease = lease->id;
    return result;
}

/* -- waiting -- */
static void waiter_forget(struct store *store, struct slot_waiter *waiter)
{
    struct group *group = waiter->group;

    section_row_keep(&store->section, &waiter->row);
    section_row_keep(&store->section, &waiter->lease->row);
    group_toggle(store, group);
    list_remove(&waiter->in_group);
    section_row_gone(&waiter->row);
    group->waiter_count--;
    store->waiters--;
    store->bytes -= WAITER_COST + waiter->value_len;
    group_toggle(store, group);
    waiter->lease->waiter = NULL;
    free(waiter);
}

void group_waiter_drop(struct store *store, struct slot_waiter *waiter)
{
    struct store_event event = {.kind = STORE_WAIT_ENDED, .lease = waiter->lease->id};

    event.result = store_answer(COORD_EXPIRED, COORD_R_DEADLINE);
    request_forget(store, &waiter->client, waiter->sequence);
    store_event(store, &event);
    waiter_forget(store, waiter);
}

void group_serve(struct store *store, struct group *group)
{
    while (!list_empty(&group->waiters)) {
        struct slot_waiter *waiter =
            CONTAINER_OF(group->waiters.next, struct slot_waiter, in_group);
        struct lease *lease = waiter->lease;
        struct store_event event = {.kind = STORE_GRANTED, .lease = lease->id};
        uint32_t slot = free_slot(group, waiter->prefer_slot), held;
        if (slot == STORE_NO_SLOT) return;
        if (lease_is_over(store, lease)) {
            lease_end(store, lease, COORD_R_DEADLINE);
            continue;
        }
        /* An owner may hold only one slot, although it may wait twice. */
        if (holder_named(store, group, str_of(lease->owner, lease->owner_len), &held)) {
            lease_end(store, lease, COORD_R_RELEASED);
            continue;
        }
        /* A lease may hold keys only after its waiter is removed. */
        struct store_id client = waiter->client;
        uint64_t sequence = waiter->sequence;
        char *value = store_must(malloc(waiter->value_len + 1u));
        uint32_t value_len = waiter->value_len;
        memcpy(value, waiter->value, value_len);
        waiter_forget(store, waiter);
        lease_extend(store, lease); /* the holder gets its whole TTL, however long it waited */
        event.result = slot_give(store, group, slot, lease, str_of(value, value_len));
        free(value);
        request_update(store, &client, sequence, &event.result);
        store_event(store, &event);
    }
}

bool group_keeps_back(const struct group *group)
{
    return group->waiter_count && free_slot(group, STORE_NO_SLOT) != STORE_NO_SLOT;
}

void group_slot_freed(struct store *store, struct group *group, uint32_t slot, uint64_t expired_ns)
{
    assert(slot < group->slot_cap && group->slots[slot].lease);
    section_row_keep(&store->section, &group->row);
    group->slots[slot].lease = NULL;
    group->live--;
    if (expired_ns && add_sat_u64(expired_ns, group->cooldown_ns) > store->clock_ns)
        group_rest_begin(store, group, slot, expired_ns + group->cooldown_ns);
    group_serve(store, group);
}

void group_waiter_add(struct store *store, struct group *group, struct lease *lease,
                      const struct store_command *command, uint64_t place)
{
    struct slot_waiter *waiter = store_must(malloc(sizeof *waiter + command->value.len));

    section_row_keep(&store->section, &lease->row);
    *waiter = (struct slot_waiter){.group = group,
                                   .lease = lease,
                                   .client = command->client,
                                   .sequence = command->sequence,
                                   .place = place,
                                   .prefer_slot = command->prefer_slot,
                                   .value_len = (uint32_t)command->value.len};
    if (command->value.len) memcpy(waiter->value, command->value.at, command->value.len);
    list_init(&waiter->in_group);
    section_row_born(&store->section, &waiter->row, ROW_WAITER);
    group_toggle(store, group);
    list_append(&group->waiters, &waiter->in_group);
    group->waiter_count++;
    group_toggle(store, group);
    store->waiters++;
    store->bytes += WAITER_COST + command->value.len;
    lease->waiter = waiter;
}

/* -- acquire -- */
struct group *group_make(struct store *store, struct str key, uint32_t slot_count,
                         uint32_t slot_cap, uint64_t cooldown_ns, uint64_t revision)
{
    struct group *group = store_must(calloc(1, sizeof *group + key.len));

    group->key_len = (uint32_t)key.len;
    memcpy(group->key, key.at, key.len);
    group->slot_count = slot_count;
    group->cooldown_ns = cooldown_ns;
    group->revision = revision;
    list_init(&group->waiters);
    slots_grow(store, group, slot_cap);
    section_row_born(&store->section, &group->row, ROW_GROUP);
    if (map_put(&store->groups, group_name(group), group)) (void)store_must(NULL);
    store->bytes += GROUP_COST + group->key_len;
    group_toggle(store, group);
    return group;
}

/* Other programs can read the slot count from the group's key ".group". */
static uint64_t put_count(struct store *store, struct str group, uint32_t slot_count)
{
    char key[STORE_KEY_MAX + 1], value[32];
    int key_len = snprintf(key, sizeof key, "%.*s/.group", STR_ARG(group));
    int value_len = snprintf(value, sizeof value, "%u", (unsigned)slot_count);

    return store_put(store, str_of(key, (size_t)key_len), str_of(value, (size_t)value_len), 0);
}

/* Slots past their deadline count as free. The work is bounded, because a slot's lease may have a
 * thousand other keys. */
static void end_overdue(struct store *store, struct group *group)
{
    uint64_t until = store_work(store) + OVERDUE_WORK;

    for (uint32_t i = 0; i < group->slot_cap && store_work(store) < until; i++)
        if (group->slots[i].lease && lease_is_over(store, group->slots[i].lease))
            lease_end(store, group->slots[i].lease, COORD_R_DEADLINE);
}

static struct store_result slot_take_over(struct store *store, struct group *group, uint32_t slot,
                                          struct lease *old, const struct store_command *command)
{
    struct lease *lease = lease_grant(store, &command->lease, command->owner, command->ttl_ms);
    char key[STORE_KEY_MAX + 1];
    struct str name = str_of(key, slot_key(group, slot, key));
    struct store_result result;

    if (!lease) return store_answer(COORD_INVALID, COORD_R_HANDLE);
    lease_claim_drop(store, old, lease_claim_of(old, name));
    result = slot_give(store, group, slot, lease, command->value);
    lease_lose(store, old, COORD_R_SUPERSEDED, result.token);
    return result;
}

static struct store_result group_refusal(const struct group *group, int reason)
{
    struct store_result result = store_answer(COORD_CONFLICT, reason);

    result.slot_count = group->slot_count;
    result.revision = group->revision;
    return result;
}

static struct store_result refuse_full(const struct store *store, const struct group *group)
{
    struct store_result result = store_answer(COORD_EXISTS, COORD_R_FULL);
    uint64_t first = UINT64_MAX;

    for (uint32_t i = 0; i < group->slot_cap; i++) {
        const struct group_slot *slot = &group->slots[i];
        uint64_t at = slot->lease ? slot->lease->deadline_ns : slot->rest_until_ns;
        if (at) first = min_u64(first, at);
    }
    if (first != UINT64_MAX && first > store->clock_ns)
        result.hint_ms = (int64_t)((first - store->clock_ns) / 1000000);
    result.live = group->live;
    result.slot_count = group->slot_count;
    return result;
}

static struct store_result already_holder(const struct group *group, uint32_t slot,
                                          const struct lease *lease)
{
    struct store_result result = store_answer(COORD_EXISTS, COORD_R_ALREADY_HOLDER);
    char key[STORE_KEY_MAX + 1];

    result.slot = slot;
    result.token = result.revision =
        lease_claim_of(lease, str_of(key, slot_key(group, slot, key)))->token;
    return result;
}

struct store_result group_acquire(struct store *store, const struct store_command *command)
{
    struct group *group = group_find(store, command->key);
    uint64_t cost = keys_cost(command->key.len + 16, command->value.len) + 1024;
    struct store_result result;
    struct lease *lease;
    uint32_t slot = STORE_NO_SLOT;

    if (!group && (command->flags & STORE_NO_CREATE))
        return store_answer(COORD_NOT_FOUND, COORD_R_NONE);
    if (group && group->slot_count != command->slot_count)
        return group_refusal(group, COORD_R_SLOT_COUNT);
    if (!group) cost += keys_cost(command->key.len + 8, 8) + command->slot_count * SLOT_COST;
    if (!store_has_room(store, cost)) return store_answer(COORD_UNAVAILABLE, COORD_R_QUOTA);
    if (!group)
        group = group_make(store, command->key, command->slot_count, command->slot_count,
                           command->cooldown_ms * 1000000,
                           put_count(store, command->key, command->slot_count));
    end_overdue(store, group);
    end_rests(store, group);
    lease = holder_named(store, group, command->owner, &slot);
    if (lease && (command->flags & STORE_TAKEOVER))
        return slot_take_over(store, group, slot, lease, command);
    if (lease) return already_holder(group, slot, lease);
    slot = list_empty(&group->waiters) ? free_slot(group, command->prefer_slot) : STORE_NO_SLOT;
    if (slot == STORE_NO_SLOT && !command->wait) return refuse_full(store, group);
    if (slot == STORE_NO_SLOT && group->waiter_count == STORE_WAITERS_MAX)
        return store_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED);
    lease = lease_grant(store, &command->lease, command->owner, command->ttl_ms);
    if (!lease) return store_answer(COORD_INVALID, COORD_R_HANDLE);
    if (slot != STORE_NO_SLOT) return slot_give(store, group, slot, lease, command->value);
    group_waiter_add(store, group, lease, command, ++store->uses);
    result = refuse_full(store, group);
    result.waiting = true;
    result.lease = lease->id;
    result.granted_ttl_ms = command->ttl_ms;
    return result;
}

struct store_result group_resize(struct store *store, const struct store_command *command)
{
    struct group *group = group_find(store, command->key);
    struct store_result result = store_answer(COORD_OK, COORD_R_RESIZED);

    if (!group) return store_answer(COORD_NOT_FOUND, COORD_R_NONE);
    if (group->revision != command->expected) return group_refusal(group, COORD_R_REVISION);
    if (!store_has_room(store, (uint64_t)command->slot_count * SLOT_COST + 256))
        return store_answer(COORD_UNAVAILABLE, COORD_R_QUOTA);
    section_row_keep(&store->section, &group->row);
    group_toggle(store, group);
    slots_grow(store, group, command->slot_count);
    group->slot_count = command->slot_count;
    group->revision = put_count(store, group_name(group), command->slot_count);
    group_toggle(store, group);
    group_serve(store, group);
    result.revision = group->revision;
    result.slot_count = group->slot_count;
    result.live = group->live;
    return result;
}
