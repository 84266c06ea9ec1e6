/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on a lease: renew, release. */
#include <inttypes.h>

#include "prim/answer.h"
#include "prim/lease.h"

void prim_lease_refused(coord_lease *lease, const coord_result *result, uint32_t changes)
{
    coord_store *store = lease->store;
    (void)pthread_mutex_lock(&store->lock);
    /* A refusal proves nothing if the request named keys that have left the lease. */
    if (lease->changes == changes) prim_keeper_lost(lease, result->reason, result->token);
    (void)pthread_mutex_unlock(&store->lock);
}

void prim_lease_will_drop(coord_lease *lease)
{
    (void)pthread_mutex_lock(&lease->store->lock);
    lease->changes++;
    (void)pthread_mutex_unlock(&lease->store->lock);
}

void prim_lease_dropped(coord_lease *lease, struct str key)
{
    coord_store *store = lease->store;
    bool guarded = false, ended = false;
    (void)pthread_mutex_lock(&store->lock);
    prim_lease_drop_key(lease, key);
    if (lease->set->count == 0 && prim_lease_end(lease, COORD_R_RELEASED, 0)) {
        ended = lease->release_done = true;
        guarded = prim_keeper_forget(lease);
        prim_keeper_quiet(lease);
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (guarded) prim_guards_drop(store->guards, &lease->guard);
    if (!ended) prim_keeper_reguard(lease);
}

coord_result prim_renew_now(coord_lease *lease, struct prim_frame *frame)
{
    coord_store *store = lease->store;
    coord_result result;
    for (int round = 0;; round++) { /* repeats if keys left the lease meanwhile; at most 3 rounds */
        struct held_lease_view view;
        prim_lease_view(lease, &view);
        struct prim_frame renewal = *frame;
        renewal.began_ns = prim_clock_now(&store->clock);
        renewal.call.request_id = prim_id_request();
        renewal.call.attempt = 0;
        struct prim_try try = {.op = COORD_OP_RENEW, .in.lease.claim = &view.claim};
        result = prim_attempts(store, &renewal, &try);
        (void)pthread_mutex_lock(&store->lock);
        bool same = view.changes == lease->changes;
        if (result.code == COORD_OK) {
            int64_t sent_ns = try.sent_ns != 0 ? try.sent_ns : renewal.began_ns;
            if (lease->kept)
                prim_keeper_hear(lease,
                                 (struct keeper_event){.kind = KEEPER_RENEWED, .sent_ns = sent_ns});
            else
                prim_lease_extend(lease, sent_ns);
            /* The lease was released or expired during the request, and stays over. */
            if (lease->over != 0) result = prim_lease_expired(lease->over, lease->over_token);
        } else if (result.code == COORD_EXPIRED && same) {
            prim_keeper_lost(lease, result.reason, result.token);
            if (lease->over == COORD_R_RELEASED) result = prim_lease_expired(COORD_R_RELEASED, 0);
        }
        (void)pthread_mutex_unlock(&store->lock);
        prim_lease_view_done(&view);
        if (result.code != COORD_EXPIRED || same || round == 2) break;
    }
    if (result.code == COORD_OK) {
        result.granted_ttl_ms = lease->ttl_ms;
        result.token = lease->token;
    }
    return result;
}

coord_result coord_renew(coord_lease *lease, const coord_call *call)
{
    struct prim_frame frame;
    coord_result result = prim_lease_check_use(NULL, lease);
    if (result.code != COORD_OK) return result;
    coord_store *store = lease->store;
    result = prim_enter(store, call, 0, &frame);
    if (result.code != COORD_OK) return result;
    coord_caps caps = store->backend->ops->capabilities(store->backend);
    if (caps.bits & COORD_CAP_LATE_RENEWAL) {
        /* This server would accept a late renewal even after another holder was granted the
         * claim. So a late renewal is never sent. */
        int64_t until_ns = atomic_load_explicit(&lease->safe_until_ns, memory_order_acquire);
        if (frame.began_ns >= until_ns) {
            (void)pthread_mutex_lock(&store->lock);
            prim_keeper_lost(lease, COORD_R_LOCAL, 0);
            result = prim_lease_expired(lease->over, lease->over_token);
            (void)pthread_mutex_unlock(&store->lock);
            prim_leave(store);
            return result;
        }
        if (until_ns < frame.call.deadline_ns) frame.call.deadline_ns = until_ns;
    }
    result = prim_renew_now(lease, &frame);
    prim_leave(store);
    return result;
}

/* The claim counts as given up from now on, whatever the result is. */
static coord_result begin_release(coord_lease *lease, uint32_t *ret_attempt)
{
    coord_store *store = lease->store;
    coord_result result = prim_ok(COORD_R_NONE);
    bool guarded = false;
    (void)pthread_mutex_lock(&store->lock);
    *ret_attempt = 0;
    if (lease->over == 0) {
        (void)prim_lease_end(lease, COORD_R_RELEASED, 0);
        guarded = prim_keeper_forget(lease);
    } else if (lease->over == COORD_R_RELEASED && lease->release_done) {
        result = prim_ok(COORD_R_ALREADY);
    } else if (lease->over == COORD_R_RELEASED) {
        *ret_attempt = 1; /* the server may have received an earlier release */
    } else if (lease->over != COORD_R_LOCAL) {
        result = prim_lease_expired(lease->over, lease->over_token);
    } /* LOCAL: the lease may be alive in the store */
    prim_keeper_quiet(lease);
    (void)pthread_mutex_unlock(&store->lock);
    if (guarded) prim_guards_drop(store->guards, &lease->guard);
    return result;
}

static void end_release(coord_lease *lease, const coord_result *result)
{
    (void)pthread_mutex_lock(&lease->store->lock);
    if (result->code == COORD_OK) {
        lease->over = COORD_R_RELEASED;
        lease->release_done = true;
    } else if (result->code == COORD_EXPIRED && !lease->release_done) {
        lease->over = result->reason;
        lease->over_token = result->token;
    }
    (void)pthread_mutex_unlock(&lease->store->lock);
}

coord_result coord_release(coord_lease *lease, const coord_call *call)
{
    struct prim_frame frame;
    struct held_lease_view view;
    if (lease == NULL)
        return prim_answer(COORD_INVALID, COORD_R_HANDLE, "the lease handle is NULL");
    coord_store *store = lease->store;
    coord_result result = prim_usable(store);
    if (result.code != COORD_OK) return result;
    result = prim_enter(store, call, 0, &frame);
    if (result.code != COORD_OK) return result;
    result = begin_release(lease, &frame.call.attempt);
    if (result.code == COORD_OK && result.reason == COORD_R_NONE) {
        prim_lease_view(lease, &view);
        struct prim_try try = {.op = COORD_OP_RELEASE, .in.lease.claim = &view.claim};
        result = prim_attempts(store, &frame, &try);
        prim_lease_view_done(&view);
        end_release(lease, &result);
    }
    prim_leave(store);
    return result;
}

coord_result coord_release_key(coord_lease *lease, const coord_call *call, coord_str key)
{
    struct prim_frame frame;
    struct held_lease_view view;
    coord_result result = prim_lease_check_use(NULL, lease);
    if (result.code != COORD_OK) return result;
    coord_store *store = lease->store;
    result = prim_check_key(prim_str(key));
    if (result.code != COORD_OK) return result;
    prim_lease_view(lease, &view);
    const struct prim_held *held = prim_held_of(&view.claim, prim_str(key));
    if (held == NULL || view.claim.count == 1) {
        prim_lease_view_done(&view);
        return held != NULL ? coord_release(lease, call)
                            : prim_answer(COORD_NOT_FOUND, COORD_R_NONE,
                                          "this lease does not hold that key");
    }
    result = prim_enter(store, call, 0, &frame);
    if (result.code == COORD_OK) {
        prim_lease_will_drop(lease);
        struct prim_try try = {.op = COORD_OP_RELEASE, .in.lease = {&view.claim, held->key}};
        result = prim_attempts(store, &frame, &try);
        /* EXPIRED also means that the lease no longer has this key. The handle keeps the other keys
         * until the store refuses them. */
        if (result.code == COORD_OK || result.code == COORD_EXPIRED)
            prim_lease_dropped(lease, prim_str(key));
        prim_leave(store);
    }
    prim_lease_view_done(&view);
    return result;
}
