/* SPDX-License-Identifier: Apache-2.0 */
/* renew, release, adopt: what a holder does with what it has. */
#include "prim/memory/core/state.h"

static coord_result expired(int reason, uint64_t token, const char *why)
{
    coord_result result = prim_answer(COORD_EXPIRED, reason, "%s", why);
    result.token = token;
    return result;
}

/* Why `held` is not the claim's any more; called only when it is not. A newer holder is what the
 * caller needs to know first, whatever ended the old lease. */
static coord_result why_lost(const struct memory_core *core, const struct prim_claim *claim,
                             const struct prim_held *held)
{
    const struct memory_entry *entry = state_entry(core, str_from(held->key));
    if (entry != NULL && entry->lease != NULL)
        return expired(COORD_R_SUPERSEDED, entry->token, "another lease holds the entry now");
    if (entry == NULL && state_lease(core, &claim->lease_id) == NULL) {
        int reason = state_recall(core, &claim->lease_id);
        if (reason == COORD_R_RELEASED) return expired(reason, 0, "the lease was released");
        if (reason == COORD_R_SUPERSEDED)
            return expired(reason, 0, "another lease held the entry since");
        if (reason != COORD_R_REVOKED)
            return expired(COORD_R_DEADLINE, 0, "the deadline of the lease has passed");
    }
    return expired(COORD_R_REVOKED, 0, "the entry was taken away by force");
}

static bool still_own(const struct memory_core *core, const struct prim_claim *claim,
                      const struct prim_held *held)
{
    const struct memory_entry *entry = state_entry(core, str_from(held->key));
    return entry != NULL && state_owns(entry, claim);
}

coord_result state_check_claim(const struct memory_core *core, const struct prim_claim *claim)
{
    for (size_t i = 0; i < claim->count; i++)
        if (!still_own(core, claim, &claim->held[i])) return why_lost(core, claim, &claim->held[i]);
    if (claim->count == 0 || state_lease(core, &claim->lease_id) == NULL)
        return expired(COORD_R_RELEASED, 0, "the lease holds nothing");
    return prim_ok(COORD_R_RENEWED);
}

static void tell_lease(const struct memory_core *core, const struct prim_claim *claim,
                       coord_result *result)
{
    const struct memory_lease *lease = state_lease(core, &claim->lease_id);
    const struct memory_entry *entry = state_entry(core, str_from(claim->held[0].key));
    result->granted_ttl_ms = lease->ttl_ms;
    result->token = entry->token;
    result->revision = entry->revision;
}

coord_result memory_core_renew(struct memory_core *core, int64_t now_ns,
                               const struct prim_claim *claim)
{
    state_begin(core, now_ns);
    coord_result result = state_check_claim(core, claim);
    if (result.code == COORD_OK) {
        state_lease_extend(core, state_lease(core, &claim->lease_id), now_ns);
        tell_lease(core, claim, &result);
    }
    return result;
}

coord_result memory_core_adopt(struct memory_core *core, int64_t now_ns,
                               const struct prim_claim *claim, int64_t *ret_left_ms)
{
    state_begin(core, now_ns);
    coord_result result = state_check_claim(core, claim);
    if (result.code == COORD_OK) {
        /* Rounded down: what is left must not be overstated. */
        *ret_left_ms = (state_lease(core, &claim->lease_id)->deadline_ns - now_ns) / NS_PER_MSEC;
        tell_lease(core, claim, &result);
    }
    return result;
}

static coord_result released(void)
{
    return prim_ok(COORD_R_RELEASED);
}

static coord_result release_key(struct memory_core *core, const struct prim_call *call,
                                const struct prim_claim *claim, const char *key)
{
    const struct prim_held *held = prim_held_of(claim, str_from(key));
    if (held == NULL)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "the lease has no such key");
    if (still_own(core, claim, held)) {
        state_drop(core, state_entry(core, str_from(key)), COORD_DELETE, COORD_R_RELEASED, false);
        return released();
    }
    coord_result result = why_lost(core, claim, held);
    bool gone = state_entry(core, str_from(key)) == NULL;
    if (gone && (call->attempt > 0 || result.reason == COORD_R_RELEASED))
        return prim_ok(COORD_R_ALREADY);
    return result;
}

coord_result memory_core_release(struct memory_core *core, int64_t now_ns,
                                 const struct prim_call *call, const struct prim_claim *claim,
                                 const char *key)
{
    state_begin(core, now_ns);
    if (key != NULL) return release_key(core, call, claim, key);
    struct memory_lease *lease = state_lease(core, &claim->lease_id);
    coord_result result = {0};
    bool own = false;
    for (size_t i = 0; i < claim->count; i++)
        if (still_own(core, claim, &claim->held[i]))
            own = true;
        else if (result.code == COORD_OK)
            result = why_lost(core, claim, &claim->held[i]);
    if (own) {
        for (size_t left = lease->count; left > 0; left--) { /* the last one frees the lease */
            struct memory_entry *entry =
                CONTAINER_OF(lease->entries.next, struct memory_entry, in_lease);
            state_drop(core, entry, COORD_DELETE, COORD_R_RELEASED, false);
        }
        return released();
    }
    if (claim->count == 0 || result.reason == COORD_R_RELEASED ||
        (call->attempt > 0 && result.reason != COORD_R_SUPERSEDED))
        return prim_ok(COORD_R_ALREADY);
    return result;
}
