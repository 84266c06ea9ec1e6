/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/memory/core/state.h"

#include <stdlib.h>

/* -- orders -- */

static const struct memory_entry *entry_by_key(const struct tree_node *node)
{
    return CONTAINER_OF(node, const struct memory_entry, by_key);
}
static const struct memory_entry *entry_by_deadline(const struct tree_node *node)
{
    return CONTAINER_OF(node, const struct memory_entry, by_deadline);
}
static const struct memory_group *group_of(const struct tree_node *node)
{
    return CONTAINER_OF(node, const struct memory_group, by_key);
}
static const struct memory_lease *lease_of(const struct tree_node *node)
{
    return CONTAINER_OF(node, const struct memory_lease, by_id);
}

static int seek_key(const struct tree_node *node, const void *key)
{
    return str_compare(entry_by_key(node)->key, *(const struct str *)key);
}
static int compare_keys(const struct tree_node *a, const struct tree_node *b)
{
    return str_compare(entry_by_key(a)->key, entry_by_key(b)->key);
}
static int seek_group(const struct tree_node *node, const void *key)
{
    return str_compare(group_of(node)->key, *(const struct str *)key);
}
static int compare_groups(const struct tree_node *a, const struct tree_node *b)
{
    return str_compare(group_of(a)->key, group_of(b)->key);
}
static int seek_lease(const struct tree_node *node, const void *id)
{
    return memcmp(&lease_of(node)->id, id, sizeof(coord_id));
}
static int compare_leases(const struct tree_node *a, const struct tree_node *b)
{
    return memcmp(&lease_of(a)->id, &lease_of(b)->id, sizeof(coord_id));
}
/* The order in which things end: a heap could not settle equal deadlines by key. */
static int compare_deadlines(const struct tree_node *a, const struct tree_node *b)
{
    const struct memory_entry *left = entry_by_deadline(a), *right = entry_by_deadline(b);
    if (left->lease->deadline_ns != right->lease->deadline_ns)
        return left->lease->deadline_ns < right->lease->deadline_ns ? -1 : 1;
    return str_compare(left->key, right->key);
}

struct memory_entry *state_entry(const struct memory_core *core, struct str key)
{
    struct tree_node *node = tree_find(&core->entries, seek_key, &key);
    return node == NULL ? NULL : CONTAINER_OF(node, struct memory_entry, by_key);
}

struct memory_lease *state_lease(const struct memory_core *core, const coord_id *id)
{
    struct tree_node *node = tree_find(&core->leases, seek_lease, id);
    return node == NULL ? NULL : CONTAINER_OF(node, struct memory_lease, by_id);
}

struct memory_group *state_group(const struct memory_core *core, struct str key)
{
    struct tree_node *node = tree_find(&core->groups, seek_group, &key);
    return node == NULL ? NULL : CONTAINER_OF(node, struct memory_group, by_key);
}

const struct memory_entry *memory_core_from(const struct memory_core *core, struct str key,
                                            bool past)
{
    struct tree_node *node = tree_from(&core->entries, seek_key, &key, past);
    return node == NULL ? NULL : entry_by_key(node);
}

/* -- life cycle -- */

struct memory_core *memory_core_open(const struct memory_core_options *options)
{
    struct memory_core *core = calloc(1, sizeof *core);
    if (core == NULL) return NULL;
    core->entries.compare = compare_keys;
    core->deadlines.compare = compare_deadlines;
    core->groups.compare = compare_groups;
    core->leases.compare = compare_leases;
    core->revision = options->revision_start;
    core->seed = options->seed;
    core->entries_max = options->entries_max;
    core->bytes_max = options->bytes_max;
    core->seen_ns = INT64_MIN;
    list_init(&core->events);
    list_init(&core->dead);
    map_init(&core->past_by_id, PAST_MAX, options->seed);
    return core;
}

static void bury(struct memory_core *core)
{
    list_init(&core->events); /* their memory belongs to entries */
    LIST_EACH_SAFE(&core->dead, node, following)
    {
        state_entry_free(CONTAINER_OF(node, struct memory_entry, in_lease));
    }
    list_init(&core->dead);
}

void memory_core_close(struct memory_core *core)
{
    if (core == NULL) return;
    struct tree_node *node;
    while ((node = core->entries.root) != NULL) {
        tree_remove(&core->entries, node);
        state_entry_free(CONTAINER_OF(node, struct memory_entry, by_key));
    }
    while ((node = core->leases.root) != NULL) {
        tree_remove(&core->leases, node);
        free(CONTAINER_OF(node, struct memory_lease, by_id));
    }
    while ((node = core->groups.root) != NULL) {
        struct memory_group *group = CONTAINER_OF(node, struct memory_group, by_key);
        tree_remove(&core->groups, node);
        free(group->slots);
        free(group);
    }
    bury(core);
    map_deinit(&core->past_by_id);
    free(core);
}

const struct list *memory_core_events(const struct memory_core *core)
{
    return &core->events;
}

uint64_t memory_core_revision(const struct memory_core *core)
{
    return core->revision;
}

int64_t memory_core_next_deadline(const struct memory_core *core)
{
    struct tree_node *node = tree_first(&core->deadlines);
    return node == NULL ? INT64_MAX : entry_by_deadline(node)->lease->deadline_ns;
}

void state_begin(struct memory_core *core, int64_t now_ns)
{
    struct tree_node *node;
    assert(now_ns >= core->seen_ns);
    core->seen_ns = now_ns;
    bury(core);
    while ((node = tree_first(&core->deadlines)) != NULL) {
        struct memory_entry *entry = CONTAINER_OF(node, struct memory_entry, by_deadline);
        int64_t deadline_ns = entry->lease->deadline_ns;
        if (deadline_ns > now_ns) break;
        if (entry->group != NULL) {
            entry->group->slots[entry->slot].closed_until_ns =
                deadline_ns + entry->group->cooldown_ms * NS_PER_MSEC;
        }
        state_drop(core, entry, COORD_EXPIRE, COORD_R_DEADLINE, true);
    }
}

void memory_core_expire(struct memory_core *core, int64_t now_ns)
{
    state_begin(core, now_ns);
}

/* -- entries and leases -- */

struct memory_entry *state_entry_make(struct memory_core *core, struct str key, struct str value)
{
    struct memory_entry *entry = calloc(1, sizeof *entry + key.len);
    if (entry == NULL) return NULL;
    entry->value_bytes = malloc(value.len + 1);
    if (entry->value_bytes == NULL) {
        free(entry);
        return NULL;
    }
    memcpy(entry->key_bytes, key.at, key.len);
    if (value.len > 0) memcpy(entry->value_bytes, value.at, value.len);
    entry->key = str_of(entry->key_bytes, key.len);
    entry->value = str_of(entry->value_bytes, value.len);
    entry->by_key.weight = entry->by_deadline.weight = str_hash(entry->key, core->seed);
    list_init(&entry->in_lease);
    list_init(&entry->event.link);
    return entry;
}

void state_entry_free(struct memory_entry *entry)
{
    if (entry == NULL) return;
    free(entry->value_bytes);
    free(entry);
}

struct memory_lease *state_lease_make(struct memory_core *core, const coord_id *id,
                                      struct str owner, int64_t ttl_ms, int64_t now_ns)
{
    struct memory_lease *lease = calloc(1, sizeof *lease + owner.len);
    if (lease == NULL) return NULL;
    lease->id = *id;
    if (owner.len > 0) memcpy(lease->owner_bytes, owner.at, owner.len);
    lease->owner = str_of(lease->owner_bytes, owner.len);
    lease->ttl_ms = ttl_ms;
    lease->deadline_ns = now_ns + ttl_ms * NS_PER_MSEC;
    lease->by_id.weight = str_hash(str_of(id, sizeof *id), core->seed);
    list_init(&lease->entries);
    return lease;
}

void state_lease_join(struct memory_core *core, struct memory_lease *lease,
                      struct memory_entry *entry)
{
    assert(entry->lease == NULL);
    if (lease->count++ == 0) tree_put(&core->leases, &lease->by_id);
    entry->lease = lease;
    list_append(&lease->entries, &entry->in_lease);
    tree_put(&core->deadlines, &entry->by_deadline);
}

void state_lease_leave(struct memory_core *core, struct memory_entry *entry, int reason)
{
    struct memory_lease *lease = entry->lease;
    tree_remove(&core->deadlines, &entry->by_deadline);
    list_remove(&entry->in_lease);
    entry->lease = NULL;
    assert(lease->count > 0);
    if (--lease->count == 0) {
        tree_remove(&core->leases, &lease->by_id);
        state_remember(core, &lease->id, reason);
        free(lease);
    }
}

void state_lease_extend(struct memory_core *core, struct memory_lease *lease, int64_t now_ns)
{
    /* The tree is ordered by what changes: out with all of them first, then in again. */
    LIST_EACH(&lease->entries, node)
    {
        struct memory_entry *entry = CONTAINER_OF(node, struct memory_entry, in_lease);
        tree_remove(&core->deadlines, &entry->by_deadline);
    }
    lease->deadline_ns = now_ns + lease->ttl_ms * NS_PER_MSEC;
    LIST_EACH(&lease->entries, node)
    {
        struct memory_entry *entry = CONTAINER_OF(node, struct memory_entry, in_lease);
        tree_put(&core->deadlines, &entry->by_deadline);
    }
}

static void tell(struct memory_core *core, struct memory_entry *entry, int type)
{
    struct memory_event *event = &entry->event;
    assert(list_empty(&event->link)); /* one event an entry and call: a new life is a new entry */
    event->type = type;
    event->revision = entry->revision;
    event->token = entry->token;
    event->key = entry->key;
    event->value = entry->value;
    event->owner = entry->lease != NULL ? entry->lease->owner : STR_EMPTY;
    list_append(&core->events, &event->link);
}

void state_put(struct memory_core *core, struct memory_entry *entry, struct memory_lease *lease,
               const coord_id *request_id)
{
    entry->revision = entry->create_revision = ++core->revision;
    entry->request_id = *request_id;
    core->bytes += entry->value.len;
    core->count++;
    tree_put(&core->entries, &entry->by_key);
    if (lease != NULL) {
        entry->token = entry->revision; /* F1 */
        state_lease_join(core, lease, entry);
    }
    tell(core, entry, COORD_PUT);
}

void state_changed(struct memory_core *core, struct memory_entry *entry, const coord_id *request_id)
{
    entry->revision = ++core->revision;
    entry->request_id = *request_id;
    list_init(&entry->event.link); /* of an earlier call, whose events are gone */
    tell(core, entry, COORD_PUT);
}

void state_drop(struct memory_core *core, struct memory_entry *entry, int type, int reason,
                bool told)
{
    entry->event.lost_reason = 0;
    if (entry->lease != NULL) {
        if (told) {
            entry->event.lost_reason = reason;
            entry->event.lost_lease = entry->lease->id;
        }
        state_lease_leave(core, entry, reason);
    }
    entry->revision = ++core->revision;
    if (entry->group != NULL) entry->group->slots[entry->slot].entry = NULL;
    tree_remove(&core->entries, &entry->by_key);
    core->bytes -= entry->value.len;
    core->count--;
    list_append(&core->dead, &entry->in_lease);
    list_init(&entry->event.link);
    tell(core, entry, type);
}

/* -- the past -- */

void state_remember(struct memory_core *core, const coord_id *id, int reason)
{
    struct past *past = &core->past[core->past_next];
    struct str key = str_of(&past->id, sizeof past->id);
    if (past->reason != 0 && map_get(&core->past_by_id, key) == past)
        (void)map_remove(&core->past_by_id, key);
    *past = (struct past){*id, reason};
    core->past_next = (core->past_next + 1) % PAST_MAX;
    /* Known already, or no memory: the first word about an id stands, and forgetting is allowed. */
    (void)map_put(&core->past_by_id, key, past);
}

int state_recall(const struct memory_core *core, const coord_id *id)
{
    const struct past *past = map_get(&core->past_by_id, str_of(id, sizeof *id));
    return past == NULL ? 0 : past->reason;
}

/* -- small things -- */

bool state_owns(const struct memory_entry *entry, const struct prim_claim *claim)
{
    if (claim == NULL || entry->lease == NULL ||
        !prim_id_equal(&entry->lease->id, &claim->lease_id))
        return false;
    const struct prim_held *held = prim_held_of(claim, entry->key);
    return held != NULL && held->token == entry->token;
}

int64_t state_left_ms(int64_t deadline_ns, int64_t now_ns)
{
    return deadline_ns <= now_ns ? 0 : (deadline_ns - now_ns + NS_PER_MSEC - 1) / NS_PER_MSEC;
}

bool state_room(const struct memory_core *core, size_t value_len, coord_result *ret_refusal)
{
    if (core->count >= core->entries_max) {
        *ret_refusal = prim_answer(COORD_UNAVAILABLE, COORD_R_QUOTA,
                                   "the store is full: %zu entries", core->entries_max);
        return false;
    }
    if (core->bytes + value_len > core->bytes_max) {
        *ret_refusal =
            prim_answer(COORD_UNAVAILABLE, COORD_R_QUOTA, "the store is full: %zu bytes of values",
                        (size_t)core->bytes_max);
        return false;
    }
    return true;
}

void state_tell_holder(coord_result *result, const struct memory_entry *entry, int64_t now_ns)
{
    result->revision = entry->revision;
    result->token = entry->token;
    if (entry->lease != NULL) {
        prim_answer_owner(result, entry->lease->owner);
        result->hint_ms = state_left_ms(entry->lease->deadline_ns, now_ns);
    }
}
