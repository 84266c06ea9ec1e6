/* SPDX-License-Identifier: Apache-2.0 */
/* N holders of a group: acquire, resize, list. */
#include "prim/memory/core/state.h"

#include <inttypes.h>
#include <stdlib.h>

#include "prim/group.h"

/* When the slot is free again; in the past: it is free. */
static int64_t opens_ns(const struct memory_slot *slot)
{
    return slot->entry != NULL ? slot->entry->lease->deadline_ns : slot->closed_until_ns;
}

static void describe(const struct memory_group *group, int64_t now_ns, struct prim_group *rules)
{
    for (uint32_t i = 0; i < group->room; i++) {
        const struct memory_entry *entry = group->slots[i].entry;
        int64_t left_ms = state_left_ms(opens_ns(&group->slots[i]), now_ns);
        if (entry != NULL)
            prim_group_held(rules, i, &entry->request_id, entry->lease->owner, left_ms);
        else if (left_ms > 0)
            prim_group_taken(rules, i, left_ms);
    }
}

/* Names the holder of the slot that is free first, if it has one. */
static coord_result full(const struct memory_group *group, const struct prim_group *rules,
                         int64_t now_ns)
{
    const struct memory_slot *first = NULL;
    for (uint32_t i = 0; i < group->room; i++) {
        const struct memory_slot *slot = &group->slots[i];
        if (opens_ns(slot) > now_ns && (first == NULL || opens_ns(slot) < opens_ns(first)))
            first = slot;
    }
    coord_result result =
        prim_answer(COORD_EXISTS, COORD_R_FULL, "%" PRIu32 " of %" PRIu32 " slots are held",
                    rules->live, group->slot_count);
    if (first != NULL && first->entry != NULL) state_tell_holder(&result, first->entry, now_ns);
    result.live = rules->live;
    result.slot_count = group->slot_count;
    result.hint_ms = rules->next_ms;
    return result;
}

static coord_result acquired(const struct memory_group *group, const struct memory_entry *entry,
                             int reason, struct prim_grant *ret_grant)
{
    coord_result result = prim_ok(reason);
    result.slot = ret_grant->slot = entry->slot;
    result.revision = entry->revision;
    result.token = ret_grant->token = entry->token;
    result.granted_ttl_ms = ret_grant->granted_ttl_ms = entry->lease->ttl_ms;
    result.slot_count = group->slot_count;
    ret_grant->lease_id = entry->lease->id;
    ret_grant->create_revision = entry->create_revision;
    return result;
}

static struct memory_group *group_make(const struct memory_core *core,
                                       const struct prim_acquire *in)
{
    struct memory_group *group = calloc(1, sizeof *group + in->group.len);
    if (group == NULL) return NULL;
    group->slots = calloc(in->slot_count, sizeof *group->slots);
    if (group->slots == NULL) {
        free(group);
        return NULL;
    }
    memcpy(group->key_bytes, in->group.at, in->group.len);
    group->key = str_of(group->key_bytes, in->group.len);
    group->by_key.weight = str_hash(group->key, core->seed);
    group->slot_count = group->room = in->slot_count;
    group->cooldown_ms = in->cooldown_ms;
    for (uint32_t i = 0; i < group->room; i++) group->slots[i].closed_until_ns = INT64_MIN;
    return group;
}

/* Puts a new entry with a new lease into `slot`; who was there loses it. */
static coord_result enter(struct memory_core *core, int64_t now_ns, const struct prim_call *call,
                          const struct prim_acquire *in, struct memory_group *group, uint32_t slot,
                          struct prim_grant *ret_grant)
{
    char key[PRIM_SLOT_KEY_CAP];
    coord_result refusal;
    assert(slot < group->room);
    prim_slot_key(in->group, slot, key);
    if (!state_room(core, in->value.len, &refusal)) return refusal;
    struct memory_entry *entry = state_entry_make(core, str_from(key), in->value);
    struct memory_lease *lease =
        state_lease_make(core, &in->lease_id, in->owner, in->ttl_ms, now_ns);
    if (entry == NULL || lease == NULL) {
        state_entry_free(entry);
        free(lease);
        return prim_no_memory();
    }
    struct memory_entry *old = group->slots[slot].entry;
    if (old != NULL) {
        /* A takeover is one change: the old entry goes without a revision and an event of its own,
         * the new one's event tells its lease. */
        entry->event.lost_reason = COORD_R_SUPERSEDED;
        entry->event.lost_lease = old->lease->id;
        state_lease_leave(core, old, COORD_R_SUPERSEDED);
        tree_remove(&core->entries, &old->by_key);
        core->bytes -= old->value.len;
        core->count--;
        list_append(&core->dead, &old->in_lease);
    }
    entry->group = group;
    entry->slot = slot;
    group->slots[slot].entry = entry;
    state_put(core, entry, lease, &call->request_id);
    return acquired(group, entry, COORD_R_ACQUIRED, ret_grant);
}

/* The first slot of a group that is made for it. */
static coord_result found(struct memory_core *core, int64_t now_ns, const struct prim_call *call,
                          const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    struct prim_group rules;
    uint32_t slot;
    struct memory_group *group = group_make(core, in);
    if (group == NULL) return prim_no_memory();
    prim_group_begin(&rules, call, in, group->slot_count);
    (void)prim_group_choose(&rules, 0, &slot); /* all are free */
    uint64_t before = core->revision;
    group->revision = ++core->revision; /* before its first slot's */
    coord_result result = enter(core, now_ns, call, in, group, slot, ret_grant);
    if (result.code != COORD_OK) {
        core->revision = before;
        free(group->slots);
        free(group);
        return result;
    }
    core->count++;
    tree_put(&core->groups, &group->by_key);
    return result;
}

static coord_result wrong_count(const struct memory_group *group, const struct prim_acquire *in)
{
    coord_result result = prim_answer(COORD_CONFLICT, COORD_R_SLOT_COUNT,
                                      "the group has %" PRIu32 " slots, not %" PRIu32,
                                      group->slot_count, in->slot_count);
    result.slot_count = group->slot_count;
    result.revision = group->revision;
    return result;
}

static coord_result already(const struct memory_group *group, const struct memory_entry *entry,
                            int64_t now_ns)
{
    coord_result result =
        prim_answer(COORD_EXISTS, COORD_R_ALREADY_HOLDER, "%.*s holds slot %" PRIu32 " already",
                    STR_ARG(entry->lease->owner), entry->slot);
    state_tell_holder(&result, entry, now_ns);
    result.slot = entry->slot;
    result.slot_count = group->slot_count;
    return result;
}

coord_result memory_core_acquire(struct memory_core *core, int64_t now_ns,
                                 const struct prim_call *call, const struct prim_acquire *in,
                                 struct prim_grant *ret_grant)
{
    struct prim_group rules;
    uint32_t slot;
    state_begin(core, now_ns);
    struct memory_group *group = state_group(core, in->group);
    prim_group_begin(&rules, call, in, group != NULL ? group->slot_count : 0);
    if (group != NULL) describe(group, now_ns, &rules);
    enum prim_group_choice choice = prim_group_choose(&rules, 0, &slot);
    if (choice == PRIM_GROUP_CREATE) return found(core, now_ns, call, in, ret_grant);
    if (group == NULL) return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    switch (choice) {
    case PRIM_GROUP_REPLAY:
        return acquired(group, group->slots[slot].entry, COORD_R_REPLAYED, ret_grant);
    case PRIM_GROUP_CONFLICT: return wrong_count(group, in);
    case PRIM_GROUP_ALREADY: return already(group, group->slots[slot].entry, now_ns);
    case PRIM_GROUP_FULL: return full(group, &rules, now_ns);
    case PRIM_GROUP_CREATE:
    case PRIM_GROUP_ABSENT: /* seen to above */
    case PRIM_GROUP_TAKEOVER:
    case PRIM_GROUP_TAKE: break;
    }
    return enter(core, now_ns, call, in, group, slot, ret_grant);
}

coord_result memory_core_resize(struct memory_core *core, int64_t now_ns,
                                const struct prim_call *call, struct str key, uint64_t expected,
                                uint32_t slot_count)
{
    state_begin(core, now_ns);
    struct memory_group *group = state_group(core, key);
    if (group == NULL) return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    coord_result result = prim_ok(COORD_R_REPLAYED);
    if (!prim_id_equal(&group->request_id, &call->request_id)) {
        if (group->revision != expected) {
            result =
                prim_answer(COORD_CONFLICT, COORD_R_REVISION, "the group has another revision");
        } else {
            if (slot_count > group->room) {
                struct memory_slot *slots =
                    realloc(group->slots, slot_count * sizeof *group->slots);
                if (slots == NULL) return prim_no_memory();
                for (uint32_t i = group->room; i < slot_count; i++)
                    slots[i] = (struct memory_slot){NULL, INT64_MIN};
                group->slots = slots;
                group->room = slot_count;
            }
            group->slot_count = slot_count;
            group->revision = ++core->revision;
            group->request_id = call->request_id;
            result.reason = COORD_R_RESIZED;
        }
    }
    result.revision = group->revision;
    result.slot_count = group->slot_count;
    return result;
}

coord_result memory_core_group(struct memory_core *core, int64_t now_ns, struct str key,
                               const struct memory_group **ret_group)
{
    state_begin(core, now_ns);
    const struct memory_group *group = state_group(core, key);
    if (group == NULL) return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    *ret_group = group;
    coord_result result = prim_ok(COORD_R_NONE);
    result.revision = group->revision;
    result.slot_count = group->slot_count;
    return result;
}
