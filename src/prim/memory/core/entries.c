/* SPDX-License-Identifier: Apache-2.0 */
/* create, compare and set, delete, get. */
#include "prim/memory/core/state.h"

#include <inttypes.h>
#include <stdlib.h>

static coord_result made(int reason, const struct memory_entry *entry)
{
    coord_result result = prim_ok(reason);
    result.revision = entry->revision;
    result.token = entry->token;
    if (entry->lease != NULL) result.granted_ttl_ms = entry->lease->ttl_ms;
    return result;
}

static void grant(const struct memory_entry *entry, struct prim_grant *ret_grant)
{
    ret_grant->token = entry->token;
    ret_grant->create_revision = entry->create_revision;
    ret_grant->slot = COORD_NO_SLOT;
    if (entry->lease != NULL) {
        ret_grant->lease_id = entry->lease->id;
        ret_grant->granted_ttl_ms = entry->lease->ttl_ms;
    }
}

/* I3: this request made the entry that is there now. */
static bool replayed(const struct memory_entry *entry, const struct prim_call *call)
{
    return entry != NULL && prim_id_equal(&entry->request_id, &call->request_id);
}

static coord_result put_new(struct memory_core *core, const struct prim_call *call, struct str key,
                            struct str value, struct memory_lease *lease,
                            struct prim_grant *ret_grant)
{
    struct memory_entry *entry = state_entry_make(core, key, value);
    if (entry == NULL) {
        if (lease != NULL && lease->count == 0) free(lease);
        return prim_no_memory();
    }
    state_put(core, entry, lease, &call->request_id);
    grant(entry, ret_grant);
    return made(COORD_R_CREATED, entry);
}

coord_result memory_core_create(struct memory_core *core, int64_t now_ns,
                                const struct prim_call *call, const struct prim_create *in,
                                struct prim_grant *ret_grant)
{
    state_begin(core, now_ns);
    struct memory_entry *entry = state_entry(core, in->key);
    struct memory_lease *lease = NULL;
    coord_result refusal;
    if (replayed(entry, call)) {
        grant(entry, ret_grant);
        return made(COORD_R_REPLAYED, entry);
    }
    if (in->under != NULL) {
        refusal = state_check_claim(core, in->under);
        if (refusal.code != COORD_OK) return refusal;
        lease = state_lease(core, &in->under->lease_id);
        if (lease->count >= 1024)
            return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "a lease holds at most 1024 keys");
    }
    if (entry != NULL) {
        refusal = prim_answer(COORD_EXISTS, COORD_R_HELD, "a live entry is there, held by %.*s",
                              entry->lease != NULL ? (int)entry->lease->owner.len : 6,
                              entry->lease != NULL ? entry->lease->owner.at : "nobody");
        state_tell_holder(&refusal, entry, now_ns);
        return refusal;
    }
    if (!state_room(core, in->value.len, &refusal)) return refusal;
    if (in->under == NULL && in->ttl_ms > 0) {
        lease = state_lease_make(core, &in->lease_id, in->owner, in->ttl_ms, now_ns);
        if (lease == NULL) return prim_no_memory();
    }
    return put_new(core, call, in->key, in->value, lease, ret_grant);
}

/* Another lease for an entry that stays: a new grant with a new token. */
static void regrant(struct memory_core *core, struct memory_entry *entry,
                    struct memory_lease *lease, const coord_id *request_id)
{
    state_lease_leave(core, entry, COORD_R_SUPERSEDED);
    state_lease_join(core, lease, entry);
    entry->token = core->revision + 1;
    state_changed(core, entry, request_id);
    assert(entry->token == entry->revision);
}

static coord_result update(struct memory_core *core, int64_t now_ns, const struct prim_call *call,
                           const struct prim_cas *in, struct memory_entry *entry,
                           struct prim_grant *ret_grant)
{
    struct memory_lease *lease = NULL;
    size_t grown = in->value.len > entry->value.len ? in->value.len - entry->value.len : 0;
    coord_result refusal;
    if (grown > 0 && core->bytes + grown > core->bytes_max && !state_room(core, grown, &refusal))
        return refusal;
    char *bytes = malloc(in->value.len + 1);
    if (bytes == NULL) return prim_no_memory();
    if (in->ttl_ms > 0) {
        assert(entry->lease != NULL); /* the claim that was shown */
        lease = state_lease_make(core, &in->lease_id, entry->lease->owner, in->ttl_ms, now_ns);
        if (lease == NULL) {
            free(bytes);
            return prim_no_memory();
        }
    }
    if (in->value.len > 0) memcpy(bytes, in->value.at, in->value.len);
    free(entry->value_bytes);
    core->bytes = core->bytes - entry->value.len + in->value.len;
    entry->value_bytes = bytes;
    entry->value = str_of(bytes, in->value.len);
    entry->event.lost_reason = 0;
    if (lease != NULL) {
        regrant(core, entry, lease, &call->request_id);
        grant(entry, ret_grant);
    } else {
        if (in->ttl_ms == 0 && entry->lease != NULL) {
            state_lease_leave(core, entry, COORD_R_RELEASED);
            entry->token = 0;
        }
        state_changed(core, entry, &call->request_id);
        ret_grant->token = entry->token;
        ret_grant->create_revision = entry->create_revision;
        ret_grant->slot = COORD_NO_SLOT;
    }
    return made(COORD_R_UPDATED, entry);
}

static coord_result conflict(const struct memory_entry *entry, int reason, const char *why,
                             int64_t now_ns)
{
    coord_result result = prim_answer(COORD_CONFLICT, reason, "%s", why);
    if (entry != NULL) state_tell_holder(&result, entry, now_ns);
    return result;
}

coord_result memory_core_cas(struct memory_core *core, int64_t now_ns, const struct prim_call *call,
                             const struct prim_cas *in, struct prim_grant *ret_grant)
{
    state_begin(core, now_ns);
    struct memory_entry *entry = state_entry(core, in->key);
    struct memory_lease *lease = NULL;
    coord_result refusal;
    if (replayed(entry, call)) {
        grant(entry, ret_grant);
        if (in->ttl_ms <= 0) { ret_grant->granted_ttl_ms = 0; } /* it made no lease */
        return made(COORD_R_REPLAYED, entry);
    }
    if (in->expected == 0) {
        if (entry != NULL) return conflict(entry, COORD_R_PRESENT, "a live entry is there", now_ns);
        if (!state_room(core, in->value.len, &refusal)) return refusal;
        if (in->ttl_ms > 0) {
            lease = state_lease_make(core, &in->lease_id, in->owner, in->ttl_ms, now_ns);
            if (lease == NULL) return prim_no_memory();
        }
        return put_new(core, call, in->key, in->value, lease, ret_grant);
    }
    if (entry == NULL) return conflict(NULL, COORD_R_ABSENT, "no live entry", now_ns);
    if (entry->group != NULL) {
        return prim_answer(COORD_INVALID, COORD_R_KEY,
                           "a slot changes by acquire and release only");
    }
    if (entry->revision != in->expected)
        return conflict(entry, COORD_R_REVISION, "the entry has another revision", now_ns);
    /* A new lease replaces the one that is shown; without one there is nothing to replace. */
    if ((entry->lease != NULL || in->ttl_ms > 0) && !state_owns(entry, in->claim))
        return conflict(entry, COORD_R_NOT_OWNER, "the entry is held by another lease", now_ns);
    return update(core, now_ns, call, in, entry, ret_grant);
}

coord_result memory_core_remove(struct memory_core *core, int64_t now_ns,
                                const struct prim_call *call, const struct prim_delete *in)
{
    state_begin(core, now_ns);
    struct memory_entry *entry = state_entry(core, in->key);
    if (state_recall(core, &call->request_id) == COORD_R_DELETED) return prim_ok(COORD_R_ALREADY);
    if (entry == NULL) return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry");
    bool force = in->expected == COORD_FORCE;
    if (!force && in->expected != COORD_ANY && in->expected != entry->revision)
        return conflict(entry, COORD_R_REVISION, "the entry has another revision", now_ns);
    bool own = state_owns(entry, in->claim);
    if (!force && entry->lease != NULL && !own)
        return conflict(entry, COORD_R_NOT_OWNER, "the entry is held by another lease", now_ns);
    state_drop(core, entry, COORD_DELETE, own ? COORD_R_RELEASED : COORD_R_REVOKED, !own);
    state_remember(core, &call->request_id, COORD_R_DELETED);
    coord_result result = prim_ok(COORD_R_DELETED);
    result.revision = core->revision;
    return result;
}

coord_result memory_core_get(struct memory_core *core, int64_t now_ns, struct str key,
                             const struct memory_entry **ret_entry)
{
    state_begin(core, now_ns);
    const struct memory_entry *entry = state_entry(core, key);
    if (entry == NULL) return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry");
    *ret_entry = entry;
    coord_result result = made(COORD_R_NONE, entry);
    state_tell_holder(&result, entry, now_ns);
    return result;
}
