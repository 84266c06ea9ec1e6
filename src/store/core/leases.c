/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: a deadline on the replicated clock, and the keys that are deleted when the lease ends.
 * Maintains I2 to I5 of store.h. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "store/core/internal.h"

enum { LEASE_COST = 256, CLAIM_COST = 64 };

static struct str number_text(const struct lease *lease)
{
    return str_of(&lease->number, sizeof lease->number);
}

static void lease_toggle(struct store *store, const struct lease *lease)
{
    STORE_TOGGLE(store, HASHED_LEASE, &lease->id, lease->deadline_ns, lease->ttl_ns,
                 (uint64_t)lease->lost_reason, lease->lost_token);
}

struct lease *lease_find(const struct store *store, const struct store_id *id)
{
    struct lease *lease = lease_by_number(store, store_lease_number(id));

    return lease && store_id_equal(&lease->id, id) ? lease : NULL;
}

struct lease *lease_by_number(const struct store *store, uint64_t number)
{
    return number ? map_get(&store->leases, str_of(&number, sizeof number)) : NULL;
}

uint64_t store_lease_number(const struct store_id *id)
{
    uint64_t number = load_le64(id->b);

    return load_le64(id->b + 8) ? number & INT64_MAX : number;
}

struct store_id store_plain_lease(int64_t number)
{
    struct store_id id = {{0}};

    store_le64(id.b, (uint64_t)number);
    return id;
}

bool store_lease_is_plain(const struct store_id *id)
{
    return load_le64(id->b) != 0 && load_le64(id->b + 8) == 0;
}

bool lease_is_plain(const struct lease *lease)
{
    return lease->owner_len == 0 && store_lease_is_plain(&lease->id);
}

struct lease *lease_plain(const struct store *store, uint64_t number)
{
    struct lease *lease = lease_by_number(store, number);

    return lease && lease_is_plain(lease) && !lease_is_over(store, lease) ? lease : NULL;
}

bool lease_is_over(const struct store *store, const struct lease *lease)
{
    return lease->deadline_ns <= store->clock_ns;
}

struct lease *lease_restore(struct store *store, const struct store_id *id, struct str owner,
                            uint64_t ttl_ns, uint64_t deadline_ns, int lost_reason,
                            uint64_t lost_token)
{
    uint64_t number = store_lease_number(id);
    struct lease *lease;

    if (number == 0 || lease_by_number(store, number)) return NULL;
    lease = store_must(calloc(1, sizeof *lease + owner.len));
    lease->id = *id;
    lease->number = number;
    lease->ttl_ns = ttl_ns;
    lease->deadline_ns = deadline_ns;
    lease->lost_reason = lost_reason;
    lease->lost_token = lost_token;
    due_set(lease->due, lease->deadline_ns);
    lease->owner_len = (uint32_t)owner.len;
    if (owner.len) memcpy(lease->owner, owner.at, owner.len);
    if (map_put(&store->leases, number_text(lease), lease) || order_insert(&store->due, lease))
        (void)store_must(NULL);
    section_row_born(&store->section, &lease->row, ROW_LEASE);
    store->bytes += LEASE_COST + owner.len;
    lease_toggle(store, lease);
    return lease;
}

struct lease *lease_grant(struct store *store, const struct store_id *id, struct str owner,
                          int64_t ttl_ms)
{
    uint64_t ttl_ns = (uint64_t)ttl_ms * 1000000;

    return lease_restore(store, id, owner, ttl_ns, add_sat_u64(store->clock_ns, ttl_ns), 0, 0);
}

void lease_extend(struct store *store, struct lease *lease)
{
    section_row_keep(&store->section, &lease->row);
    store->work++;
    lease_toggle(store, lease);
    order_remove(&store->due, lease);
    lease->deadline_ns = add_sat_u64(store->clock_ns, lease->ttl_ns);
    due_set(lease->due, lease->deadline_ns);
    if (order_insert(&store->due, lease)) (void)store_must(NULL);
    lease_toggle(store, lease);
}

struct claim *lease_claim_of(const struct lease *lease, struct str key)
{
    for (uint32_t i = 0; i < lease->claim_count; i++)
        if (str_equal(str_of(lease->claims[i].key, lease->claims[i].key_len), key))
            return &lease->claims[i];
    return NULL;
}

bool claim_has_token(const struct store *store, const struct claim *claim, uint64_t token)
{
    if (store->level < STORE_TOKENS_LEVEL || token == 0) return true;
    return claim && claim->token == token;
}

bool lease_has_token(const struct store *store, const struct lease *lease, uint64_t token)
{
    for (uint32_t i = 0; i < lease->claim_count; i++)
        if (claim_has_token(store, &lease->claims[i], token)) return true;
    return claim_has_token(store, NULL, token);
}

static void claim_toggle(struct store *store, const struct lease *lease, const struct claim *claim)
{
    STORE_TOGGLE(store, HASHED_CLAIM, &lease->id, claim->token,
                 str_hash(str_of(claim->key, claim->key_len), claim->slot));
}

struct claim *lease_claim_add(struct store *store, struct lease *lease, struct str key,
                              uint64_t token, struct group *group, uint32_t slot)
{
    struct claim *claim;

    assert(lease->claim_count < STORE_KEYS_PER_LEASE_MAX && !lease->waiter);
    section_row_keep(&store->section, &lease->row);
    if (lease->claim_count == lease->claim_cap) {
        lease->claim_cap = lease->claim_cap ? lease->claim_cap * 2 : 1;
        lease->claims =
            store_must(realloc(lease->claims, lease->claim_cap * sizeof *lease->claims));
    }
    claim = &lease->claims[lease->claim_count++];
    *claim = (struct claim){store_must(malloc(key.len + 1)), (uint32_t)key.len, token, group, slot};
    memcpy(claim->key, key.at, key.len);
    claim->key[key.len] = '\0';
    store->bytes += CLAIM_COST + key.len;
    claim_toggle(store, lease, claim);
    return claim;
}

void lease_claim_drop(struct store *store, struct lease *lease, struct claim *claim)
{
    size_t place = (size_t)(claim - lease->claims);

    assert(place < lease->claim_count);
    section_row_keep(&store->section, &lease->row);
    claim_toggle(store, lease, claim);
    store->bytes -= CLAIM_COST + claim->key_len;
    free(claim->key);
    memmove(claim, claim + 1, (lease->claim_count - place - 1) * sizeof *claim);
    lease->claim_count--;
}

void lease_lose(struct store *store, struct lease *lease, int reason, uint64_t token)
{
    if (lease->lost_reason) return; /* the holder learns only of the first loss */
    section_row_keep(&store->section, &lease->row);
    lease_toggle(store, lease);
    lease->lost_reason = reason;
    lease->lost_token = token;
    lease_toggle(store, lease);
    store_event(store, &(struct store_event){
                           .kind = STORE_LEASE_ENDED, .lease = lease->id, .reason = reason});
}

static int claims_by_key(const void *a, const void *b)
{
    const struct claim *left = a, *right = b;

    return str_compare(str_of(left->key, left->key_len), str_of(right->key, right->key_len));
}

static void lease_end_done(struct store *store, struct lease *lease, int reason, size_t keys)
{
    uint64_t expired_ns = reason == COORD_R_DEADLINE ? lease->deadline_ns : 0;

    section_row_keep(&store->section, &lease->row);
    store->work += 1u + keys;
    if (!lease->lost_reason && reason != COORD_R_RELEASED)
        store_event(store, &(struct store_event){
                               .kind = STORE_LEASE_ENDED, .lease = lease->id, .reason = reason});
    (void)map_remove(&store->leases, number_text(lease));
    order_remove(&store->due, lease);
    lease_toggle(store, lease);
    store->bytes -= LEASE_COST + lease->owner_len;
    section_row_gone(&lease->row);
    for (uint32_t i = 0; i < lease->claim_count; i++) {
        struct claim *claim = &lease->claims[i];
        claim_toggle(store, lease, claim);
        store->bytes -= CLAIM_COST + claim->key_len;
        free(claim->key);
        /* the slot may go to the next waiter */
        if (claim->group) group_slot_freed(store, claim->group, claim->slot, expired_ns);
    }
    free(lease->claims);
    free(lease);
}

void lease_end(struct store *store, struct lease *lease, int reason)
{
    size_t keys;

    section_row_keep(&store->section, &lease->row);
    if (lease->waiter) group_waiter_drop(store, lease->waiter);
    if (lease->claim_count > 1) /* slots become free in key order */
        qsort(lease->claims, lease->claim_count, sizeof *lease->claims, claims_by_key);
    keys_begin(store->keys);
    keys = keys_delete_of_lease(store->keys, lease->number, reason == COORD_R_DEADLINE, SIZE_MAX);
    (void)keys_commit(store->keys);
    lease_end_done(store, lease, reason, keys);
}

/* -- leases with many keys end in parts: one step deletes the keys and pauses between turns -- */
static bool ends_in_parts(const struct store *store, const struct lease *lease)
{
    return lease_is_plain(lease) &&
           keys_of_lease_count(store->keys, lease->number) > STORE_SWEEP_KEYS;
}

void lease_end_begin(struct store *store, struct lease *lease, int reason)
{
    if (!ends_in_parts(store, lease)) {
        lease_end(store, lease, reason);
        return;
    }
    assert(!store->ending.lease && !lease->waiter && !lease->claim_count);
    store->ending.lease = lease;
    store->ending.reason = reason;
    store->ending.deleted = 0;
    keys_begin(store->keys);
    keys_pause(store->keys, true);
}

bool lease_end_more(struct store *store)
{
    struct lease *lease = store->ending.lease;
    bool expired = store->ending.reason == COORD_R_DEADLINE;

    keys_pause(store->keys, false);
    store->ending.deleted +=
        keys_delete_of_lease(store->keys, lease->number, expired, STORE_SWEEP_KEYS);
    if (keys_of_lease_count(store->keys, lease->number) > 0) {
        keys_pause(store->keys, true);
        return true;
    }
    (void)keys_commit(store->keys);
    store->ending.lease = NULL;
    lease_end_done(store, lease, store->ending.reason, store->ending.deleted);
    return false;
}

/* Reads still return the keys that a paused step has deleted. */
static size_t deleted_of(const struct store *store, int64_t number)
{
    const struct lease *lease = store->ending.lease;

    return lease && lease->number == (uint64_t)number ? store->ending.deleted : 0;
}

size_t store_lease_key_count(const struct store *store, int64_t number)
{
    return deleted_of(store, number) + keys_of_lease_count(store->keys, (uint64_t)number);
}

size_t store_lease_keys_next(const struct store *store, int64_t number,
                             struct store_lease_walk *walk, struct str *out, size_t cap)
{
    uint64_t first = keys_changes(store->keys).end; /* first change of the paused step */
    size_t deleted = deleted_of(store, number), count = 0;
    struct key_value change, before;

    while (count < cap && walk->count < deleted) {
        keys_change_at(store->keys, first + walk->count++, &change, &before);
        out[count++] = change.key;
    }
    return count +
           keys_of_lease(store->keys, (uint64_t)number, &walk->last, out + count, cap - count);
}

bool leases_expire(struct store *store, size_t max)
{
    for (size_t cost, done = 0; done < max; done += cost) {
        struct order_place place = order_begin(&store->due);
        struct lease *first = order_next(&place);
        if (!first || !lease_is_over(store, first)) return true;
        cost = 1u + keys_of_lease_count(store->keys, first->number);
        /* A lease that ends in parts gets an entry of its own: reads between the parts must not
         * show the other leases, which have just ended. */
        if (done > 0 && ends_in_parts(store, first)) return true;
        lease_end_begin(store, first, COORD_R_DEADLINE);
        if (store->ending.lease) return false;
    }
    return true;
}
