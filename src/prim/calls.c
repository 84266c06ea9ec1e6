/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on entries and groups. Arguments and capabilities are checked before any I/O. */
#include <inttypes.h>
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/lease.h"
#include "prim/wait.h"

#define RETURN_UNLESS_OK(call)                                                                     \
    do {                                                                                           \
        coord_result checked_ = (call);                                                            \
        if (checked_.code != COORD_OK) { return checked_; }                                        \
    } while (0)

/* Only acquire makes slots, because a plain entry would be counted as a holder. */
static coord_result check_plain_key(struct str key)
{
    uint32_t slot;
    RETURN_UNLESS_OK(prim_check_key(key));
    return claim_slot_number(prim_leaf_of(key), &slot)
               ? prim_answer(COORD_INVALID, COORD_R_KEY,
                             "names slot-0000 to slot-9999 are reserved for slots of a group")
               : prim_ok(COORD_R_NONE);
}

/* -- grants ----------------------------------------------------------------------------------- */

struct granted {
    char owner[PRIM_OWNER_MAX + 1], key[PRIM_SLOT_KEY_CAP];
    struct prim_held held;
    struct prim_claim claim;
};
static void granted_init(struct granted *granted, const struct prim_grant *grant, struct str owner,
                         struct str key)
{
    memset(granted, 0, sizeof *granted);
    memcpy(granted->owner, owner.at, owner.len);
    memcpy(granted->key, key.at, key.len);
    granted->held =
        (struct prim_held){granted->key, grant->token, grant->create_revision, grant->slot};
    granted->claim = (struct prim_claim){grant->lease_id, granted->owner, grant->granted_ttl_ms,
                                         &granted->held, 1};
}

/* Releases a grant that gets no handle. If the release fails, the grant expires. With `key`,
 * releases only this key of an existing lease. */
static void give_back(coord_store *store, struct prim_frame *frame, const struct prim_claim *claim,
                      const char *key)
{
    struct prim_call call = {.deadline_ns = frame->call.deadline_ns,
                             .request_id = prim_id_request()};
    (void)store->backend->ops->release(store->backend, &call, claim, key);
}

/* Makes the grant's handle or returns a refusal. Uses or cancels the store's lease reservation. */
static coord_result hand_out(coord_store *store, struct prim_frame *frame, coord_result result,
                             const struct prim_grant *grant, struct str owner, struct str key,
                             coord_lease **ret_lease)
{
    if (result.code != COORD_OK) {
        prim_lease_unreserve(store);
        return result;
    }
    if (grant->granted_ttl_ms <= 0) { /* the request replays a call that made no lease */
        prim_lease_unreserve(store);
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "this request id made an entry without a lease: each call its own id");
    }
    result.granted_ttl_ms = grant->granted_ttl_ms;
    int64_t sent_ns = grant->sent_ns != 0 ? grant->sent_ns : frame->began_ns;
    struct granted granted;
    granted_init(&granted, grant, owner, key);
    coord_lease *lease = prim_lease_make(store, &granted.claim, sent_ns);
    if (lease == NULL) {
        give_back(store, frame, &granted.claim, NULL);
        prim_lease_unreserve(store);
        return prim_no_memory();
    }
    /* A request with the caller's own id may have been granted long ago, so the store is asked
     * for the time left. */
    if (result.reason == COORD_R_REPLAYED && !frame->own_id) {
        coord_result renewed = prim_renew_now(lease, frame);
        if (renewed.code != COORD_OK) {
            coord_lease_unref(lease);
            return renewed;
        }
    }
    *ret_lease = lease;
    return result;
}

static coord_result enter(coord_store *store, const coord_call *call, int64_t extra_ms, bool leased,
                          struct prim_frame *ret_frame)
{
    if (leased) RETURN_UNLESS_OK(prim_lease_reserve(store));
    coord_result result = prim_enter(store, call, extra_ms, ret_frame);
    if (result.code != COORD_OK && leased) prim_lease_unreserve(store);
    return result;
}

/* -- create ----------------------------------------------------------------------------------- */

coord_result coord_create_if_absent(coord_store *store, const coord_call *call, coord_str key,
                                    coord_str value, int64_t ttl_ms, const char *owner,
                                    coord_lease **ret_lease)
{
    struct prim_frame frame;
    struct str name = prim_str(key), bytes = prim_str(value);
    RETURN_UNLESS_OK(prim_usable(store));
    RETURN_UNLESS_OK(check_plain_key(name));
    RETURN_UNLESS_OK(prim_check_value(bytes, &store->backend->limits));
    if (ttl_ms != 0) {
        RETURN_UNLESS_OK(prim_check_ttl(ttl_ms, &store->backend->limits));
        RETURN_UNLESS_OK(prim_check_owner(owner));
        if (ret_lease == NULL)
            return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "a lease needs ret_lease");
    }
    RETURN_UNLESS_OK(prim_need_grant(store, COORD_CAP_CREATE | (ttl_ms != 0 ? COORD_CAP_TTL : 0)));
    RETURN_UNLESS_OK(enter(store, call, 0, ttl_ms != 0, &frame));
    struct prim_try try = {
        .op = COORD_OP_CREATE,
        .in.create = {.key = name,
                      .value = bytes,
                      .owner = ttl_ms != 0 ? str_from(owner) : STR_EMPTY,
                      .ttl_ms = ttl_ms,
                      .lease_id = ttl_ms != 0 ? prim_id_random() : (coord_id){{0}}},
    };
    coord_result result = prim_attempts(store, &frame, &try);
    try.grant.slot = COORD_NO_SLOT;
    if (ttl_ms != 0)
        result = hand_out(store, &frame, result, &try.grant, try.in.create.owner, name, ret_lease);
    prim_leave(store);
    return result;
}

static coord_result create_under(coord_store *store, struct prim_frame *frame, coord_lease *lease,
                                 struct str name, struct str bytes)
{
    struct held_lease_view view;
    RETURN_UNLESS_OK(check_plain_key(name));
    RETURN_UNLESS_OK(prim_check_value(bytes, &store->backend->limits));
    RETURN_UNLESS_OK(
        prim_need_grant(store, COORD_CAP_MULTI_KEY | COORD_CAP_TTL | COORD_CAP_CREATE));
    prim_lease_view(lease, &view);
    if (view.claim.count >= PRIM_KEYS_PER_LEASE_MAX) {
        prim_lease_view_done(&view);
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "a lease holds at most %d keys",
                           PRIM_KEYS_PER_LEASE_MAX);
    }
    struct prim_try try = {
        .op = COORD_OP_CREATE,
        .in.create = {.key = name,
                      .value = bytes,
                      .owner = str_from(lease->owner),
                      .ttl_ms = lease->ttl_ms,
                      .lease_id = lease->id,
                      .under = &view.claim},
    };
    coord_result result = prim_attempts(store, frame, &try);
    if (result.code == COORD_OK) {
        struct granted granted;
        granted_init(&granted, &try.grant, try.in.create.owner, name);
        granted.held.slot = COORD_NO_SLOT;
        (void)pthread_mutex_lock(&store->lock);
        bool added = lease->over != 0 || prim_lease_add_key(lease, &granted.held);
        int over = lease->over;
        (void)pthread_mutex_unlock(&store->lock);
        if (!added) {
            give_back(store, frame, &granted.claim, granted.key);
            result = prim_no_memory();
        } else if (over != 0) { /* the lease and its key were released or lost meanwhile */
            result = prim_lease_expired(over, 0);
        } else {
            result.granted_ttl_ms = lease->ttl_ms;
            prim_keeper_reguard(lease);
        }
    } else if (result.code == COORD_EXPIRED) {
        prim_lease_refused(lease, &result, view.changes);
    }
    prim_lease_view_done(&view);
    return result;
}

coord_result coord_create_under(coord_lease *lease, const coord_call *call, coord_str key,
                                coord_str value)
{
    struct prim_frame frame;
    RETURN_UNLESS_OK(prim_lease_check_use(NULL, lease));
    coord_store *store = lease->store;
    /* prim_enter comes first, because a handle may outlive its store's backend. */
    RETURN_UNLESS_OK(prim_enter(store, call, 0, &frame));
    coord_result result = create_under(store, &frame, lease, prim_str(key), prim_str(value));
    prim_leave(store);
    return result;
}

/* -- compare and set -------------------------------------------------------------------------- */

static coord_result check_cas(coord_store *store, struct str key, uint64_t expected,
                              struct str value, int64_t ttl_ms, const char *owner,
                              coord_lease *lease, coord_lease **ret_lease)
{
    RETURN_UNLESS_OK(prim_usable(store));
    RETURN_UNLESS_OK(check_plain_key(key));
    RETURN_UNLESS_OK(prim_check_value(value, &store->backend->limits));
    if (expected > INT64_MAX) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "expected revision: 0 (absent) to 2^63-1");
    }
    if (lease != NULL) RETURN_UNLESS_OK(prim_lease_check_use(store, lease));
    if (ttl_ms == COORD_TTL_KEEP || ttl_ms == 0) return prim_need_grant(store, COORD_CAP_CAS);
    RETURN_UNLESS_OK(prim_check_ttl(ttl_ms, &store->backend->limits));
    if (lease == NULL && expected != 0) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "a ttl needs expected 0 or the lease of the entry");
    }
    if (lease == NULL) RETURN_UNLESS_OK(prim_check_owner(owner));
    if (ret_lease == NULL)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "a lease needs ret_lease");
    return prim_need_grant(store, COORD_CAP_CAS | COORD_CAP_TTL);
}

coord_result coord_compare_and_set(coord_store *store, const coord_call *call, coord_str key,
                                   uint64_t expected, coord_str value, int64_t ttl_ms,
                                   const char *owner, coord_lease *lease, coord_lease **ret_lease)
{
    struct prim_frame frame;
    struct held_lease_view view = {.set = NULL};
    struct str name = prim_str(key), bytes = prim_str(value);
    bool leased = ttl_ms > 0;
    RETURN_UNLESS_OK(check_cas(store, name, expected, bytes, ttl_ms, owner, lease, ret_lease));
    RETURN_UNLESS_OK(enter(store, call, 0, leased, &frame));
    /* A renewal of the old lease may find the key gone. */
    bool leaves = lease != NULL && expected != 0 && ttl_ms != COORD_TTL_KEEP;
    if (leaves) prim_lease_will_drop(lease);
    if (lease != NULL && expected != 0) prim_lease_view(lease, &view);
    struct prim_try try = {
        .op = COORD_OP_CAS,
        .in.cas = {.key = name,
                   .value = bytes,
                   .expected = expected,
                   .ttl_ms = ttl_ms,
                   .owner = !leased         ? STR_EMPTY
                            : lease != NULL ? str_from(lease->owner)
                                            : str_from(owner),
                   .lease_id = leased ? prim_id_random() : (coord_id){{0}},
                   .claim = view.set != NULL ? &view.claim : NULL},
    };
    coord_result result = prim_attempts(store, &frame, &try);
    try.grant.slot = COORD_NO_SLOT;
    if (result.code == COORD_OK && leaves) prim_lease_dropped(lease, name);
    if (result.code == COORD_EXPIRED && lease != NULL)
        prim_lease_refused(lease, &result, view.changes);
    if (leased)
        result = hand_out(store, &frame, result, &try.grant, try.in.cas.owner, name, ret_lease);
    if (view.set != NULL) prim_lease_view_done(&view);
    prim_leave(store);
    return result;
}

/* -- delete, get ------------------------------------------------------------------------------ */

coord_result coord_delete(coord_store *store, const coord_call *call, coord_str key,
                          uint64_t expected, coord_lease *lease)
{
    struct prim_frame frame;
    struct held_lease_view view = {.set = NULL};
    struct str name = prim_str(key);
    RETURN_UNLESS_OK(prim_usable(store));
    RETURN_UNLESS_OK(expected == COORD_FORCE ? prim_check_key(name) : check_plain_key(name));
    if (expected == 0 ||
        (expected > INT64_MAX && expected != COORD_ANY && expected != COORD_FORCE)) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "expected: a revision of 1 to 2^63-1, COORD_ANY or COORD_FORCE");
    }
    if (lease != NULL) RETURN_UNLESS_OK(prim_lease_check_use(store, lease));
    RETURN_UNLESS_OK(prim_need(store, expected == COORD_FORCE ? COORD_CAP_FORCE
                                      : expected == COORD_ANY ? 0
                                                              : COORD_CAP_CAS));
    RETURN_UNLESS_OK(prim_enter(store, call, 0, &frame));
    if (lease != NULL) {
        prim_lease_will_drop(lease);
        prim_lease_view(lease, &view);
    }
    struct prim_try try = {
        .op = COORD_OP_DELETE,
        .in.remove = {name, expected, view.set != NULL ? &view.claim : NULL},
    };
    coord_result result = prim_attempts(store, &frame, &try);
    if (result.code == COORD_OK && lease != NULL) prim_lease_dropped(lease, name);
    if (view.set != NULL) prim_lease_view_done(&view);
    prim_leave(store);
    return result;
}

coord_result coord_get(coord_store *store, const coord_call *call, coord_str key, int consistency,
                       coord_entry **ret_entry)
{
    struct prim_frame frame;
    RETURN_UNLESS_OK(prim_usable(store));
    RETURN_UNLESS_OK(prim_check_key(prim_str(key)));
    if (consistency != COORD_LATEST && consistency != COORD_STALE_OK) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "consistency %d: COORD_LATEST or COORD_STALE_OK", consistency);
    }
    RETURN_UNLESS_OK(prim_enter(store, call, 0, &frame));
    struct prim_try try = {.op = COORD_OP_GET, .in.get = {prim_str(key), consistency}};
    coord_result result = prim_attempts(store, &frame, &try);
    prim_leave(store);
    if (result.code != COORD_OK) return result;
    result.revision = try.entry->revision;
    result.token = try.entry->token;
    if (ret_entry != NULL)
        *ret_entry = try.entry;
    else
        coord_entry_free(try.entry);
    return result;
}

coord_result coord_assert_token(coord_store *store, const coord_call *call, coord_str key,
                                uint64_t token)
{
    coord_entry *entry = NULL;
    coord_result result = coord_get(store, call, key, COORD_LATEST, &entry);
    if (result.code != COORD_OK) return result;
    assert(entry != NULL);
    if (entry->token != token || entry->ttl_ms == 0) {
        result = prim_answer(COORD_CONFLICT, COORD_R_NOT_OWNER,
                             entry->ttl_ms == 0 ? "the entry is not leased"
                                                : "the present grant has another token");
        result.revision = entry->revision;
        result.token = entry->token;
        prim_answer_owner(&result, str_from(entry->owner));
    }
    coord_entry_free(entry);
    return result;
}

/* -- slots ------------------------------------------------------------------------------------ */

static coord_result check_slot_count(uint32_t slot_count)
{
    return slot_count >= 1 && slot_count <= PRIM_SLOTS_MAX
               ? prim_ok(COORD_R_NONE)
               : prim_answer(COORD_INVALID, COORD_R_GROUP, "slot_count %" PRIu32 ": 1-%d",
                             slot_count, PRIM_SLOTS_MAX);
}

static coord_result check_acquire(coord_store *store, const coord_slot_request *request,
                                  coord_lease **ret_lease)
{
    RETURN_UNLESS_OK(prim_usable(store));
    if (request == NULL || ret_lease == NULL)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "request and ret_lease are needed");
    RETURN_UNLESS_OK(prim_check_group(prim_str(request->group)));
    RETURN_UNLESS_OK(check_slot_count(request->slot_count));
    RETURN_UNLESS_OK(prim_check_owner(request->owner));
    RETURN_UNLESS_OK(prim_check_ttl(request->ttl_ms, &store->backend->limits));
    RETURN_UNLESS_OK(prim_check_value(prim_str(request->value), &store->backend->limits));
    if (request->flags & ~(COORD_TAKEOVER_SAME_OWNER | COORD_NO_CREATE)) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "unknown flags %#" PRIx32,
                           request->flags);
    }
    if (request->wait_ms < 0 || request->wait_ms > PRIM_WAIT_MAX_MS) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "wait_ms %" PRId64 ": 0-%d",
                           request->wait_ms, PRIM_WAIT_MAX_MS);
    }
    if (request->cooldown_ms < 0 || request->cooldown_ms > PRIM_COOLDOWN_MAX_MS) {
        return prim_answer(COORD_INVALID, COORD_R_GROUP, "cooldown_ms %" PRId64 ": 0-%d",
                           request->cooldown_ms, PRIM_COOLDOWN_MAX_MS);
    }
    if (request->prefer_slot != COORD_NO_SLOT && request->prefer_slot >= request->slot_count) {
        return prim_answer(COORD_INVALID, COORD_R_GROUP,
                           "prefer_slot %" PRIu32 ": below slot_count, or COORD_NO_SLOT",
                           request->prefer_slot);
    }
    return prim_need_grant(store, COORD_CAP_SLOTS | COORD_CAP_TTL |
                                      (request->cooldown_ms > 0 ? COORD_CAP_COOLDOWN : 0));
}

coord_result coord_acquire_slot(coord_store *store, const coord_call *call,
                                const coord_slot_request *request, coord_lease **ret_lease)
{
    struct prim_frame frame;
    RETURN_UNLESS_OK(check_acquire(store, request, ret_lease));
    RETURN_UNLESS_OK(enter(store, call, request->wait_ms, true, &frame));
    struct prim_try try = {
        .op = COORD_OP_ACQUIRE,
        .in.acquire = {.group = prim_str(request->group),
                       .owner = str_from(request->owner),
                       .value = prim_str(request->value),
                       .slot_count = request->slot_count,
                       .flags = request->flags,
                       .prefer_slot = request->prefer_slot,
                       .ttl_ms = request->ttl_ms,
                       .cooldown_ms = request->cooldown_ms,
                       .lease_id = prim_id_random()},
    };
    coord_result result = prim_acquire_waiting(store, &frame, &try, request->wait_ms);
    char key[PRIM_SLOT_KEY_CAP] = "";
    if (result.code == COORD_OK) {
        assert(try.grant.slot < PRIM_SLOTS_MAX);
        prim_slot_key(try.in.acquire.group, try.grant.slot, key);
        result.slot = try.grant.slot;
    }
    result =
        hand_out(store, &frame, result, &try.grant, try.in.acquire.owner, str_from(key), ret_lease);
    prim_leave(store);
    return result;
}

coord_result coord_resize_group(coord_store *store, const coord_call *call, coord_str group,
                                uint64_t expected, uint32_t slot_count)
{
    struct prim_frame frame;
    RETURN_UNLESS_OK(prim_usable(store));
    RETURN_UNLESS_OK(prim_check_group(prim_str(group)));
    RETURN_UNLESS_OK(check_slot_count(slot_count));
    if (expected == 0 || expected > INT64_MAX)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "expected: the group's revision");
    RETURN_UNLESS_OK(prim_need_grant(store, COORD_CAP_SLOTS));
    RETURN_UNLESS_OK(prim_enter(store, call, 0, &frame));
    struct prim_try try = {.op = COORD_OP_RESIZE,
                           .in.group = {prim_str(group), expected, slot_count}};
    coord_result result = prim_attempts(store, &frame, &try);
    prim_leave(store);
    return result;
}

coord_result coord_list_holders(coord_store *store, const coord_call *call, coord_str group,
                                coord_holders **ret_holders)
{
    struct prim_frame frame;
    RETURN_UNLESS_OK(prim_usable(store));
    RETURN_UNLESS_OK(prim_check_group(prim_str(group)));
    if (ret_holders == NULL)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "ret_holders is needed");
    RETURN_UNLESS_OK(prim_need(store, COORD_CAP_SLOTS));
    RETURN_UNLESS_OK(prim_enter(store, call, 0, &frame));
    struct prim_try try = {.op = COORD_OP_HOLDERS, .in.group.key = prim_str(group)};
    coord_result result = prim_attempts(store, &frame, &try);
    prim_leave(store);
    if (result.code != COORD_OK) return result;
    prim_holders_done(try.holders);
    result.revision = try.holders->revision;
    result.slot_count = try.holders->slot_count;
    result.live = (uint32_t)try.holders->count;
    *ret_holders = try.holders;
    return result;
}
