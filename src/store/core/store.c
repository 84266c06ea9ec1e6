/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the store's commands, and opens, closes and reads the store. */
#include "store/core/store.h"

#include <stdlib.h>
#include <string.h>

#include "store/core/internal.h"

static const uint64_t quota_by_default = 2ull << 30;
/* Deletions may exceed the quota by this much, because each deletion adds a version. */
enum { DELETION_ROOM = 64 * 1024 };

struct store_result store_answer(int code, int reason)
{
    return (struct store_result){.code = code, .reason = reason, .hint_ms = -1};
}

static uint64_t bytes_of(const struct store *store)
{
    return store->bytes + keys_bytes(store->keys);
}

bool store_has_room(const struct store *store, uint64_t bytes)
{
    return add_sat_u64(bytes_of(store), bytes) <= store->options.quota_bytes;
}

void store_event(struct store *store, const struct store_event *event)
{
    if (store->event_count == store->event_cap) {
        store->event_cap = store->event_cap ? store->event_cap * 2 : 16;
        store->events =
            store_must(realloc(store->events, store->event_cap * sizeof *store->events));
    }
    store->events[store->event_count++] = *event;
}

bool store_event_next(struct store *store, struct store_event *ret_event)
{
    if (store->event_next == store->event_count) {
        store->event_next = store->event_count = 0;
        return false;
    }
    *ret_event = store->events[store->event_next++];
    return true;
}

/* The hash is the exclusive or of the records, so their order does not matter. */
void store_toggle(struct store *store, enum store_hashed kind, const struct store_id *id,
                  const uint64_t *numbers, size_t count)
{
    uint8_t bytes[sizeof id->b + 8 * 6];
    size_t len = id ? sizeof id->b : 0;

    if (id) memcpy(bytes, id->b, len);
    for (size_t i = 0; i < count; i++, len += 8) store_le64(bytes + len, numbers[i]);
    assert(len <= sizeof bytes);
    store->hash ^= str_hash(str_of(bytes, len), (uint64_t)kind * 0x9e3779b97f4a7c15ull);
}

/* -- life -- */
static struct order_key due_key(const void *row)
{
    const struct lease *lease = row;

    return (struct order_key){str_of(lease->due, sizeof lease->due),
                              str_of(lease->id.b, sizeof lease->id.b)};
}

static struct order_key rest_key(const void *row)
{
    const struct group *group = row;

    return (struct order_key){str_of(group->due, sizeof group->due),
                              str_of(group->key, group->key_len)};
}

struct store *store_open(const struct store_options *options)
{
    static uint64_t uncounted; /* nodes of trees do not count against the quota */
    struct store *store = calloc(1, sizeof *store);

    if (!store) return NULL;
    store->options = *options;
    store->level = UINT32_MAX;
    if (!store->options.quota_bytes) store->options.quota_bytes = quota_by_default;
    store->keys = keys_open();
    store->due_kind = (struct order_kind){due_key, &uncounted};
    store->rest_kind = (struct order_kind){rest_key, &uncounted};
    store->due.kind = &store->due_kind;
    store->rests.kind = &store->rest_kind;
    map_init(&store->leases, MAP_MOST, 11);
    map_init(&store->groups, MAP_MOST, 13);
    map_init(&store->clients, MAP_MOST, 14);
    list_init(&store->clients_by_use);
    section_init(&store->section, store_kinds, store_row_write);
    if (!store->keys) {
        free(store);
        return NULL;
    }
    return store;
}

void store_set_level(struct store *store, uint32_t level)
{
    store->level = level;
}

static void free_lease(struct lease *lease)
{
    for (uint32_t i = 0; i < lease->claim_count; i++) free(lease->claims[i].key);
    free(lease->claims);
    free(lease->waiter);
    free(lease);
}

void store_close(struct store *store)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!store) return;
    section_close(&store->section);
    while ((entry = map_next(&store->leases, &cursor))) free_lease(entry->value);
    for (cursor = 0; (entry = map_next(&store->groups, &cursor));) {
        free(((struct group *)entry->value)->slots);
        free(entry->value);
    }
    for (cursor = 0; (entry = map_next(&store->clients, &cursor));) {
        free(((struct store_client *)entry->value)->answers);
        free(entry->value);
    }
    map_deinit(&store->leases);
    map_deinit(&store->groups);
    map_deinit(&store->clients);
    order_clear(&store->due);
    order_clear(&store->rests);
    keys_close(store->keys);
    free(store->events);
    free(store);
}

/* -- entries -- */
/* If the entry's lease has expired, ends the lease and returns false. */
static bool live_entry(struct store *store, struct str key, struct key_value *ret_value,
                       struct lease **ret_lease)
{
    struct lease *lease;

    *ret_lease = NULL;
    if (!keys_get(store->keys, key, 0, ret_value)) return false;
    lease = lease_by_number(store, ret_value->lease);
    if (lease && lease_is_over(store, lease)) {
        lease_end(store, lease, COORD_R_DEADLINE);
        return false;
    }
    *ret_lease = lease;
    return true;
}

static void result_set_holder(const struct store *store, const struct key_value *value,
                              const struct lease *lease, struct store_result *result)
{
    const struct claim *claim = lease ? lease_claim_of(lease, value->key) : NULL;

    result->revision = value->mod;
    if (!claim) return;
    result->token = claim->token;
    result->hint_ms = (int64_t)((lease->deadline_ns - store->clock_ns) / 1000000);
    memcpy(result->owner, lease->owner, min_size(lease->owner_len, STORE_OWNER_MAX));
}

uint64_t store_put(struct store *store, struct str key, struct str value, uint64_t lease)
{
    keys_begin(store->keys);
    keys_put(store->keys, key, value, lease);
    return keys_commit(store->keys);
}

/* With `lease`, the key becomes a claim of that lease. */
static struct store_result put_claim(struct store *store, const struct store_command *command,
                                     struct lease *lease, int reason)
{
    struct store_result result = store_answer(COORD_OK, reason);

    result.revision = result.create_revision =
        store_put(store, command->key, command->value, lease ? lease->number : 0);
    if (!lease) return result;
    (void)lease_claim_add(store, lease, command->key, result.revision, NULL, STORE_NO_SLOT);
    result.token = result.revision;
    result.granted_ttl_ms = (int64_t)(lease->ttl_ns / 1000000);
    result.lease = lease->id;
    return result;
}

static bool has_room_for(const struct store *store, const struct store_command *command)
{
    return store_has_room(store, keys_cost(command->key.len, command->value.len) + 512 +
                                     command->owner.len);
}

/* returns NULL and sets *result if the lease has ended */
static struct lease *held_lease(struct store *store, const struct store_id *id,
                                struct store_result *result)
{
    struct lease *lease = lease_find(store, id);

    if (lease && lease->lost_reason) {
        *result = store_answer(COORD_EXPIRED, lease->lost_reason);
        result->token = lease->lost_token;
        return NULL;
    }
    if (!lease || lease_is_over(store, lease) || lease->waiter || lease_is_plain(lease)) {
        *result = store_answer(COORD_EXPIRED, COORD_R_DEADLINE);
        return NULL;
    }
    return lease;
}

static struct store_result make_entry(struct store *store, const struct store_command *command)
{
    struct store_result result;
    struct lease *lease = NULL;

    if (!has_room_for(store, command)) return store_answer(COORD_UNAVAILABLE, COORD_R_QUOTA);
    if (!store_id_none(&command->held)) {
        lease = held_lease(store, &command->held, &result);
        if (!lease) return result;
        if (lease->claim_count == STORE_KEYS_PER_LEASE_MAX)
            return store_answer(COORD_INVALID, COORD_R_ARGUMENT);
    } else if (command->ttl_ms > 0) {
        lease = lease_grant(store, &command->lease, command->owner, command->ttl_ms);
        if (!lease) return store_answer(COORD_INVALID, COORD_R_HANDLE);
    }
    return put_claim(store, command, lease, COORD_R_CREATED);
}

static struct store_result apply_create(struct store *store, const struct store_command *command)
{
    struct key_value now;
    struct lease *lease;
    struct store_result result;

    if (!live_entry(store, command->key, &now, &lease)) return make_entry(store, command);
    result = store_answer(COORD_EXISTS, COORD_R_HELD);
    result_set_holder(store, &now, lease, &result);
    return result;
}

static struct store_result entry_conflict(const struct store *store, int reason,
                                          const struct key_value *now, const struct lease *lease)
{
    struct store_result result = store_answer(COORD_CONFLICT, reason);

    if (now) result_set_holder(store, now, lease, &result);
    return result;
}

/* No event follows, because the holder itself released the lease. */
static void end_if_empty(struct store *store, struct lease *lease)
{
    if (keys_of_lease_count(store->keys, lease->number) == 0 && !lease->waiter)
        lease_end(store, lease, COORD_R_RELEASED);
}

static struct store_result entry_update(struct store *store, const struct store_command *command,
                                        const struct key_value *now, struct lease *lease)
{
    struct claim *claim = lease ? lease_claim_of(lease, command->key) : NULL;
    struct lease *next = NULL;
    struct store_result result;

    if (!has_room_for(store, command)) return store_answer(COORD_UNAVAILABLE, COORD_R_QUOTA);
    if (!lease || command->ttl_ms == STORE_TTL_KEEP) {
        result = store_answer(COORD_OK, COORD_R_UPDATED);
        result.token = claim ? claim->token : 0;
        result.create_revision = now->create;
        result.revision = store_put(store, command->key, command->value, lease ? lease->number : 0);
        return result;
    }
    if (command->ttl_ms > 0) {
        next = lease_grant(store, &command->lease, str_of(lease->owner, lease->owner_len),
                           command->ttl_ms);
        if (!next) return store_answer(COORD_INVALID, COORD_R_HANDLE);
    }
    lease_claim_drop(store, lease, claim);
    result = put_claim(store, command, next, COORD_R_UPDATED);
    result.create_revision = now->create;
    end_if_empty(store, lease);
    return result;
}

static bool is_own_claim(const struct store *store, const struct lease *lease,
                         const struct claim *claim, const struct store_command *command)
{
    return lease && store_id_equal(&lease->id, &command->held) &&
           claim_has_token(store, claim, command->token);
}

static struct store_result apply_cas(struct store *store, const struct store_command *command)
{
    struct key_value now;
    struct lease *lease;
    bool live = live_entry(store, command->key, &now, &lease);
    const struct claim *claim = live && lease ? lease_claim_of(lease, command->key) : NULL;
    bool own = is_own_claim(store, lease, claim, command);

    if (command->expected == 0) {
        struct store_command fresh = *command;
        if (live) return entry_conflict(store, COORD_R_PRESENT, &now, lease);
        memset(&fresh.held, 0, sizeof fresh.held);
        return make_entry(store, &fresh);
    }
    if (!live) return entry_conflict(store, COORD_R_ABSENT, NULL, NULL);
    if (claim && claim->group) return store_answer(COORD_INVALID, COORD_R_KEY);
    if (now.mod != command->expected) return entry_conflict(store, COORD_R_REVISION, &now, lease);
    if ((lease || command->ttl_ms > 0) && !own)
        return entry_conflict(store, COORD_R_NOT_OWNER, &now, lease);
    return entry_update(store, command, &now, lease);
}

/* Deletes the key and its claim. `own`: the holder deletes, and a lease without keys ends.
 * Otherwise the lease is marked lost. Returns the revision. */
static uint64_t entry_delete(struct store *store, struct str key, struct lease *lease,
                             struct claim *claim, bool own)
{
    struct group *group = claim ? claim->group : NULL;
    uint32_t slot = claim ? claim->slot : STORE_NO_SLOT;
    uint64_t revision;

    keys_begin(store->keys);
    (void)keys_delete(store->keys, key);
    revision = keys_commit(store->keys);
    if (!claim) return revision;
    lease_claim_drop(store, lease, claim);
    if (!own) lease_lose(store, lease, COORD_R_REVOKED, 0);
    if (group) group_slot_freed(store, group, slot, 0);
    if (own) end_if_empty(store, lease);
    return revision;
}

static struct store_result apply_delete(struct store *store, const struct store_command *command)
{
    struct key_value now;
    struct lease *lease;
    struct claim *claim;
    struct store_result result = store_answer(COORD_OK, COORD_R_DELETED);
    bool force = command->expected == STORE_FORCE;

    if (!live_entry(store, command->key, &now, &lease))
        return store_answer(COORD_NOT_FOUND, COORD_R_NONE);
    if (!force && command->expected != STORE_ANY && command->expected != now.mod)
        return entry_conflict(store, COORD_R_REVISION, &now, lease);
    claim = lease ? lease_claim_of(lease, command->key) : NULL;
    bool own = is_own_claim(store, lease, claim, command);
    if (!force && lease && !own) return entry_conflict(store, COORD_R_NOT_OWNER, &now, lease);
    result.revision = entry_delete(store, command->key, lease, claim, own);
    return result;
}

/* -- leases -- */
static struct store_result apply_release(struct store *store, const struct store_command *command)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_RELEASED);
    struct lease *lease = lease_find(store, &command->lease);
    struct claim *claim;

    if (lease && lease->waiter && !lease_is_over(store, lease)) {
        lease_end(store, lease, COORD_R_RELEASED);
        return result;
    }
    lease = held_lease(store, &command->lease, &result);
    if (!lease) return result;
    if (command->key.len == 0) {
        if (!lease_has_token(store, lease, command->token))
            return store_answer(COORD_EXPIRED, COORD_R_REVOKED);
        lease_end(store, lease, COORD_R_RELEASED);
        result.revision = keys_revision(store->keys);
        return result;
    }
    claim = lease_claim_of(lease, command->key);
    if (!claim) return store_answer(COORD_NOT_FOUND, COORD_R_NONE);
    if (!claim_has_token(store, claim, command->token))
        return store_answer(COORD_EXPIRED, COORD_R_REVOKED);
    result.revision = entry_delete(store, command->key, lease, claim, true);
    return result;
}

/* A slot granted to the waiter is freed. The answer is forgotten, so that a retry does not find the
 * ended grant. */
static struct store_result apply_cancel_wait(struct store *store,
                                             const struct store_command *command)
{
    struct lease *lease = lease_find(store, &command->lease);

    request_forget(store, &command->client, command->sequence);
    if (!lease) return store_answer(COORD_OK, COORD_R_ALREADY);
    lease_end(store, lease, COORD_R_RELEASED);
    return store_answer(COORD_OK, COORD_R_RELEASED);
}

static void apply_renew(struct store *store, const struct store_command *command,
                        struct store_renewal *renewals)
{
    for (size_t i = 0; i < command->renew_count; i++) {
        struct lease *lease = lease_find(store, &command->renew[i]);
        renewals[i] = (struct store_renewal){.code = COORD_EXPIRED, .reason = COORD_R_DEADLINE};
        if (!lease || lease_is_over(store, lease)) continue;
        if (lease->lost_reason) {
            renewals[i].reason = lease->lost_reason;
            renewals[i].token = lease->lost_token;
            continue;
        }
        if (command->renew_tokens && !lease_has_token(store, lease, command->renew_tokens[i])) {
            renewals[i].reason = COORD_R_REVOKED;
            continue;
        }
        lease_extend(store, lease);
        renewals[i] = (struct store_renewal){.code = COORD_OK,
                                             .reason = COORD_R_RENEWED,
                                             .granted_ttl_ms = (int64_t)(lease->ttl_ns / 1000000)};
    }
}

/* -- plain leases -- */
static struct store_result apply_lease_grant(struct store *store,
                                             const struct store_command *command)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_CREATED);
    const struct lease *there = lease_by_number(store, store_lease_number(&command->lease));

    if (!has_room_for(store, command)) return store_answer(COORD_UNAVAILABLE, COORD_R_QUOTA);
    /* Each log entry ends a limited number of leases, so an expired lease may still exist. */
    if (there && lease_is_plain(there) && lease_is_over(store, there)) {
        lease_end_begin(store, lease_find(store, &command->lease), COORD_R_DEADLINE);
        /* not the final answer: the lease ends first */
        if (store->ending.lease) return result;
    }
    result.revision = keys_revision(store->keys);
    if (!lease_grant(store, &command->lease, STR_EMPTY, command->ttl_ms))
        return store_answer(COORD_EXISTS, COORD_R_HELD);
    result.granted_ttl_ms = command->ttl_ms;
    result.lease = command->lease;
    return result;
}

static struct store_result revoked(const struct store *store)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_RELEASED);

    result.revision = keys_revision(store->keys);
    return result;
}

static struct store_result apply_lease_revoke(struct store *store,
                                              const struct store_command *command)
{
    struct lease *lease = lease_plain(store, store_lease_number(&command->lease));

    if (!lease) return store_answer(COORD_NOT_FOUND, COORD_R_NONE);
    lease_end_begin(store, lease, COORD_R_RELEASED);
    return revoked(store);
}

/* -- plain keys -- */
static struct store_result apply_put(struct store *store, const struct store_command *command)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_UPDATED);
    uint64_t under = store_id_none(&command->held) ? 0 : store_lease_number(&command->held);

    if (!has_room_for(store, command)) return store_answer(COORD_UNAVAILABLE, COORD_R_QUOTA);
    if (under && !lease_plain(store, under)) return store_answer(COORD_NOT_FOUND, COORD_R_NONE);
    result.revision = store_put(store, command->key, command->value, under);
    return result;
}

static struct key_range swept(const struct store_command *command)
{
    return command->kind == STORE_TXN ? txn_sweeps(command->txn)->range
                                      : (struct key_range){command->key, command->range_end};
}

/* false: no key of the range is left */
static bool sweep_part(struct store *store, const struct store_command *command)
{
    struct key_range range = swept(command);

    store->sweep.found += (uint32_t)keys_delete_range(store->keys, range, STORE_SWEEP_KEYS);
    store->sweep.on = keys_count_range(store->keys, range, 0) > 0;
    return store->sweep.on;
}

static struct store_result sweep_result(struct store *store, const struct store_command *command)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_DELETED);

    result.revision = keys_commit(store->keys);
    result.live = store->sweep.found;
    if (command->kind == STORE_TXN) {
        txn_sweep_report(command->sink, store->sweep.found, result.revision);
        return result;
    }
    return store->sweep.found ? result : store_answer(COORD_NOT_FOUND, COORD_R_NONE);
}

static struct store_result apply_delete_range(struct store *store,
                                              const struct store_command *command)
{
    const struct txn_delete del = {.range = swept(command)};

    if (txn_sweep_check(store, &del)) return store_answer(COORD_INVALID, COORD_R_KEY);
    store->sweep.found = 0;
    keys_begin(store->keys);
    if (!sweep_part(store, command)) return sweep_result(store, command);
    keys_pause(store->keys, true);
    return store_answer(COORD_OK, COORD_R_NONE); /* not the final answer: the step continues */
}

static struct store_result apply_compact(struct store *store, const struct store_command *command)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_NONE);

    result.revision = keys_revision(store->keys);
    if (command->flags & STORE_COMPACT_ALL) {
        if (command->expected != keys_revision(store->keys))
            return store_answer(COORD_CONFLICT, COORD_R_REVISION); /* another write came first */
        keys_jump(store->keys, 1);
        return result;
    }
    if (command->expected <= keys_compacted(store->keys))
        return store_answer(COORD_CONFLICT, COORD_R_REVISION);
    if (command->expected > keys_revision(store->keys))
        return store_answer(COORD_INVALID, COORD_R_ARGUMENT);
    keys_compact(store->keys, command->expected);
    return result;
}

static struct store_result apply_txn(struct store *store, const struct store_command *command)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_UPDATED);
    const struct txn_delete *del = txn_sweeps(command->txn);

    if (del) {
        result.refusal = txn_sweep_check(store, del);
        result.revision = keys_revision(store->keys);
        if (!result.refusal) return apply_delete_range(store, command);
    } else {
        result.refusal = txn_apply(store, command->txn, command->sink, &result.revision);
    }
    switch (result.refusal) {
    case TXN_TAKEN: break;
    case TXN_NO_SPACE:
        result.code = COORD_UNAVAILABLE;
        result.reason = COORD_R_QUOTA;
        break;
    default: result.code = COORD_INVALID; result.reason = COORD_R_ARGUMENT;
    }
    return result;
}

static struct store_result apply_tick(struct store *store, const struct store_command *command)
{
    if (store_id_none(&store->identity) && !store_id_none(&command->lease))
        store->identity = command->lease;
    return store_answer(COORD_OK, COORD_R_NONE);
}

static struct store_result command_run(struct store *store, const struct store_command *command,
                                       struct store_renewal *renewals)
{
    struct store_result result = store_answer(COORD_OK, COORD_R_NONE);

    switch (command->kind) {
    case STORE_TICK: return apply_tick(store, command);
    case STORE_CREATE: return apply_create(store, command);
    case STORE_CAS: return apply_cas(store, command);
    case STORE_DELETE: return apply_delete(store, command);
    case STORE_ACQUIRE: return group_acquire(store, command);
    case STORE_CANCEL_WAIT: return apply_cancel_wait(store, command);
    case STORE_RELEASE: return apply_release(store, command);
    case STORE_RENEW: apply_renew(store, command, renewals); return result;
    case STORE_RESIZE: return group_resize(store, command);
    case STORE_COMPACT: return apply_compact(store, command);
    case STORE_PUT: return apply_put(store, command);
    case STORE_DELETE_RANGE: return apply_delete_range(store, command);
    case STORE_LEASE_GRANT: return apply_lease_grant(store, command);
    case STORE_LEASE_REVOKE: return apply_lease_revoke(store, command);
    case STORE_TXN: return apply_txn(store, command);
    }
    return store_answer(COORD_INVALID, COORD_R_ARGUMENT);
}

static bool is_remembered(enum store_kind kind)
{
    return kind != STORE_TICK && kind != STORE_RENEW && kind != STORE_COMPACT &&
           kind != STORE_CANCEL_WAIT && kind != STORE_TXN;
}

/* True if the answer is stored. A retry after UNAVAILABLE is decided again. A full store stores no
 * refusals, because refused clients could exceed the quota. */
static bool is_worth(const struct store *store, const struct store_result *result)
{
    if (result->code == COORD_OK || result->waiting) return true;
    return result->code != COORD_UNAVAILABLE && store_has_room(store, request_cost());
}

static void result_remember(struct store *store, const struct store_command *command,
                            const struct store_result *result)
{
    if (is_remembered(command->kind) && is_worth(store, result))
        request_remember(store, command, result);
}

/* bounded upkeep before a command, after leases have ended */
static void store_tidy(struct store *store)
{
    groups_end_rests(store, STORE_EXPIRE_MAX);
    requests_forget_silent(store, STORE_EXPIRE_MAX);
    (void)keys_prune(store->keys, STORE_PRUNE_CHANGES);
    store->part.expired = true;
}

static void command_decide(struct store *store, const struct store_command *command,
                           struct store_result *ret_result)
{
    const struct store_result *known;
    bool other = false;

    known = is_remembered(command->kind) ? request_known(store, command, &other) : NULL;
    if (other) {
        *ret_result = store_answer(COORD_INVALID, COORD_R_HANDLE);
    } else if (known) {
        *ret_result = *known;
        if (known->code == COORD_OK)
            ret_result->reason = command->kind == STORE_RELEASE || command->kind == STORE_DELETE
                                     ? COORD_R_ALREADY
                                     : COORD_R_REPLAYED;
    } else {
        *ret_result = command_run(store, command, store->part.renewals);
        if (!store->sweep.on && !store->ending.lease) result_remember(store, command, ret_result);
    }
}

static void command_decide_after_end(struct store *store, const struct store_command *command,
                                     struct store_result *ret_result)
{
    *ret_result = command->kind == STORE_LEASE_REVOKE
                      ? revoked(store)
                      : command_run(store, command, store->part.renewals);
    result_remember(store, command, ret_result);
}

/* true: the command needs more parts */
static bool go_on(struct store *store, const struct store_command *command,
                  struct store_result *ret_result)
{
    if (store->sweep.on) {
        keys_pause(store->keys, false);
        if (sweep_part(store, command)) {
            keys_pause(store->keys, true);
            return true;
        }
        *ret_result = sweep_result(store, command);
        result_remember(store, command, ret_result);
    } else if (store->ending.lease && lease_end_more(store)) {
        return true;
    } else if (store->part.expired) {
        command_decide_after_end(store, command, ret_result);
    } else {
        store_tidy(store);
        command_decide(store, command, ret_result);
    }
    return store->sweep.on || store->ending.lease;
}

static void store_check(const struct store *store)
{
    assert(keys_revision(store->keys) >= store->part.revision);           /* I1 */
    assert(map_count(&store->leases) == store->due.count);                /* I2 */
    assert(store->waiters <= map_count(&store->leases));                  /* I5 */
    assert(store->part.on || (!store->sweep.on && !store->ending.lease)); /* I6 */
}

static void store_check_result(const struct store *store, const struct store_command *command,
                               const struct store_result *result)
{
    bool slots = command->kind == STORE_ACQUIRE || command->kind == STORE_RESIZE;
    const struct group *group = slots ? group_find(store, command->key) : NULL;

    store_check(store);
    if (store->part.on) return;
    assert(result->revision <= keys_revision(store->keys)); /* I7 */
    assert(!group || !group_keeps_back(group));             /* I8 */
}

bool store_apply_begin(struct store *store, uint64_t clock_ns, const struct store_command *command,
                       struct store_result *ret_result, struct store_renewal *renewals)
{
    assert(clock_ns >= store->clock_ns && !store->part.on); /* I1 */
    store_check(store);
    store->clock_ns = clock_ns;
    store->part.revision = keys_revision(store->keys);
    store->part.renewals = renewals;
    store->part.expired = false;
    store->part.on = !leases_expire(store, STORE_EXPIRE_MAX) || go_on(store, command, ret_result);
    store_check_result(store, command, ret_result);
    return store->part.on;
}

bool store_apply_more(struct store *store, const struct store_command *command,
                      struct store_result *ret_result)
{
    assert(store->part.on);
    store->part.on = go_on(store, command, ret_result);
    store_check_result(store, command, ret_result);
    return store->part.on;
}

uint64_t store_next_due(const struct store *store)
{
    struct order_place place = order_begin(&store->due);
    const struct lease *lease = order_next(&place);
    uint64_t due = lease ? lease->deadline_ns : UINT64_MAX;
    const struct group *group;

    if (keys_prune_left(store->keys)) return 0;
    place = order_begin(&store->rests);
    group = order_next(&place);
    return group ? min_u64(due, due_get(group->due)) : due;
}

uint64_t store_work(const struct store *store)
{
    return store->work + keys_work(store->keys);
}

/* -- reading -- */
const struct keys *store_keys(const struct store *store)
{
    return store->keys;
}

uint64_t store_clock_ns(const struct store *store)
{
    return store->clock_ns;
}

struct store_id store_identity(const struct store *store)
{
    return store->identity;
}

bool store_claim_of(const struct store *store, struct str key, uint64_t clock_ns,
                    struct store_claim *ret_claim)
{
    struct key_value value;
    const struct lease *lease;
    const struct claim *claim;

    if (!keys_get(store->keys, key, 0, &value)) return false;
    lease = lease_by_number(store, value.lease);
    if (!lease || lease->deadline_ns <= clock_ns) return false;
    claim = lease_claim_of(lease, key);
    if (!claim) return false; /* a plain key with a plain lease */
    *ret_claim = (struct store_claim){lease->id, str_of(lease->owner, lease->owner_len),
                                      claim->token, (int64_t)(lease->ttl_ns / 1000000),
                                      (int64_t)((lease->deadline_ns - clock_ns) / 1000000)};
    return true;
}

static bool lease_read(const struct lease *lease, uint64_t clock_ns, struct store_lease *ret_lease)
{
    uint64_t left_ns = lease->deadline_ns > clock_ns ? lease->deadline_ns - clock_ns : 0;

    if (!lease_is_plain(lease)) return false;
    *ret_lease = (struct store_lease){(int64_t)lease->number, (int64_t)(lease->ttl_ns / 1000000),
                                      (int64_t)(left_ns / 1000000)};
    return true;
}

bool store_lease_of(const struct store *store, int64_t number, uint64_t clock_ns,
                    struct store_lease *ret_lease)
{
    const struct lease *lease = lease_by_number(store, (uint64_t)number);

    return lease && lease_read(lease, clock_ns, ret_lease);
}

struct order_place store_leases(const struct store *store)
{
    return order_begin(&store->due);
}

bool store_lease_next(const struct store *, struct order_place *place, uint64_t clock_ns,
                      struct store_lease *ret_lease)
{
    const struct lease *lease;

    while ((lease = order_next(place)))
        if (lease_read(lease, clock_ns, ret_lease)) return true;
    return false;
}

bool store_group_of(const struct store *store, struct str key, struct store_group *ret_group)
{
    const struct group *group = group_find(store, key);

    if (!group) return false;
    *ret_group = (struct store_group){group->slot_count, group->live, group->waiter_count,
                                      group->revision, group->cooldown_ns / 1000000};
    return true;
}

struct store_sizes store_sizes(const struct store *store)
{
    return (struct store_sizes){
        .bytes = bytes_of(store),
        .quota = store->options.quota_bytes,
        .leases = map_count(&store->leases),
        .groups = map_count(&store->groups),
        .waiters = store->waiters,
        .clients = map_count(&store->clients),
        .no_space = !store_has_room(store, DELETION_ROOM),
    };
}
