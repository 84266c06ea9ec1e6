/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns request sequences (internal.h). Any thread; one mutex. A sequence that may be repeated
 * is never below `acked`. */
#include "prim/native/internal.h"

static struct request_place *requests_find(struct native_requests *r, const coord_id *id)
{
    for (size_t i = 0; i < REQUESTS_RING; i++)
        if (r->ring[i].sequence >= r->acked && prim_id_equal(&r->ring[i].id, id))
            return &r->ring[i];
    return NULL;
}

/* Returns the oldest sequence that may still be repeated. */
static uint64_t oldest(const struct native_requests *r, int64_t now_ns)
{
    uint64_t low = r->next;

    for (size_t i = 0; i < REQUESTS_RING; i++) {
        const struct request_place *place = &r->ring[i];
        if (place->sequence && (place->inside > 0 || place->until_ns > now_ns))
            low = min_u64(low, place->sequence);
    }
    return low;
}

void native_request_begin(struct native_requests *r, const struct prim_call *call, bool waits,
                          int64_t now_ns, struct native_request *ret_request)
{
    struct request_place *place;
    uint64_t low;

    *ret_request = (struct native_request){call->request_id, 1, 0, true};
    if (waits) return; /* its answer may take long */
    pthread_mutex_lock(&r->lock);
    place = requests_find(r, &call->request_id);
    if (place) place->inside++; /* before oldest(), so that the server keeps the answer */
    low = oldest(r, now_ns);
    /* A repeat that is not in the ring was a separate client in its first attempt. */
    if (!place && call->attempt == 0 && r->next - low < REQUESTS_WINDOW) {
        place = &r->ring[r->next % REQUESTS_RING];
        *place = (struct request_place){.id = call->request_id, .sequence = r->next++, .inside = 1};
    }
    if (place) {
        if (r->next > REQUESTS_WINDOW)
            r->acked = max_u64(r->acked, min_u64(low, r->next - REQUESTS_WINDOW));
        place->until_ns = call->deadline_ns;
        *ret_request = (struct native_request){r->client, place->sequence, r->acked, false};
    }
    pthread_mutex_unlock(&r->lock);
}

void native_request_end(struct native_requests *r, const struct native_request *request,
                        const coord_result *result)
{
    struct request_place *place = &r->ring[request->sequence % REQUESTS_RING];

    if (request->own) return;
    pthread_mutex_lock(&r->lock);
    assert(place->sequence == request->sequence && place->inside > 0);
    place->inside--;
    if (result->code != COORD_UNAVAILABLE) place->until_ns = 0;
    if (result->code != COORD_OK && !(result->flags & COORD_F_MAYBE_APPLIED) &&
        (result->code != COORD_UNAVAILABLE || result->reason == COORD_R_QUOTA))
        place->id = (coord_id){{0}};
    pthread_mutex_unlock(&r->lock);
}
