/* SPDX-License-Identifier: Apache-2.0 */
/* Export and import of a lease for another process. */
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/blob.h"
#include "prim/lease.h"

size_t coord_lease_export(const coord_lease *lease, void *blob, size_t cap)
{
    if (coord_check(lease) != COORD_OK) return 0;
    struct held_lease_view view;
    coord_lease *counted = (coord_lease *)lease; /* prim_lease_view() locks and counts references */
    prim_lease_view(counted, &view);
    size_t size = blob_encode(&lease->store->id, &view.claim, blob, cap);
    prim_lease_view_done(&view);
    return size;
}

/* Runs inside a call that has reserved a lease. */
static coord_result import(coord_store *store, struct prim_frame *frame,
                           const struct prim_claim *claim, coord_lease **ret_lease)
{
    struct prim_try try = {.op = PRIM_OP_ADOPT, .in.lease.claim = claim, .left_ms = -1};
    if (store->backend->ops->adopt != NULL) {
        coord_result adopted = prim_attempts(store, frame, &try);
        if (adopted.code != COORD_OK) {
            prim_lease_unreserve(store);
            return adopted;
        }
    }
    if (try.left_ms == 0) {
        prim_lease_unreserve(store);
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "nothing of its time is left");
    }
    /* The time left counts from a moment before the request. An unknown time counts as 0 until a
     * renewal. */
    int64_t left_ms = try.left_ms < 0 ? 0 : try.left_ms;
    if (left_ms > claim->ttl_ms) left_ms = claim->ttl_ms;
    coord_lease *lease =
        prim_lease_make(store, claim, frame->began_ns - (claim->ttl_ms - left_ms) * PRIM_NS_PER_MS);
    if (lease == NULL) {
        prim_lease_unreserve(store);
        return prim_no_memory();
    }
    coord_result result = prim_ok(COORD_R_NONE);
    if (try.left_ms < 0) result = prim_renew_now(lease, frame);
    if (result.code != COORD_OK) {
        coord_lease_unref(lease);
        return result;
    }
    result.reason = COORD_R_NONE;
    result.token = lease->token;
    result.granted_ttl_ms = lease->ttl_ms;
    result.slot = lease->slot == COORD_NO_SLOT ? 0 : lease->slot;
    *ret_lease = lease;
    return result;
}

coord_result coord_lease_import(coord_store *store, const coord_call *call, const void *blob,
                                size_t len, coord_lease **ret_lease)
{
    struct prim_frame frame;
    struct blob decoded;
    coord_result result = prim_usable(store);
    if (result.code != COORD_OK) return result;
    if (ret_lease == NULL)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "ret_lease is needed");
    result = prim_need(store, COORD_CAP_TTL);
    if (result.code != COORD_OK) return result;
    enum err err = blob == NULL ? ERR_CORRUPT : blob_decode(str_of(blob, len), &decoded);
    if (err == ERR_NOMEM) return prim_no_memory();
    if (err != ERR_OK)
        return prim_answer(COORD_INVALID, COORD_R_HANDLE, "not an exported lease, or damaged");
    if (!prim_id_equal(&decoded.store_id, &store->id)) {
        free(decoded.memory);
        return prim_answer(COORD_INVALID, COORD_R_OTHER_STORE, "this lease is of another store");
    }
    result = prim_lease_reserve(store);
    if (result.code == COORD_OK) {
        result = prim_enter(store, call, 0, &frame);
        if (result.code == COORD_OK) {
            result = import(store, &frame, &decoded.claim, ret_lease);
            prim_leave(store);
        } else {
            prim_lease_unreserve(store);
        }
    }
    free(decoded.memory);
    return result;
}
