/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for a free slot (wait.h). Caller's thread. Each round is one acquire, and all rounds have
 * the same request id. If the group is full, the store changed nothing, so the lease's time counts
 * from the start of the last round. */
#include "prim/wait.h"

#include "prim/answer.h"

void wait_view_event(struct wait_view *view, const coord_event *event)
{
    uint32_t slot;
    switch (event->type) {
    case COORD_SNAPSHOT_BEGIN:
    case COORD_RESYNC: *view = (struct wait_view){.known = false}; return;
    case COORD_CLOSED: *view = (struct wait_view){.ended = true}; return;
    case COORD_SNAPSHOT_END: view->known = true; return;
    default: break;
    }
    struct str key = str_of(event->key.at, event->key.len);
    if (event->key.len == 0 || !claim_slot_number(prim_leaf_of(key), &slot) ||
        slot >= PRIM_SLOTS_MAX)
        return;
    uint64_t bit = UINT64_C(1) << (slot % 64), *word = &view->held[slot / 64];
    bool live = event->type == COORD_PUT || event->type == COORD_ENTRY;
    bool was = (*word & bit) != 0;
    if (live && !was) view->live++;
    if (!live && was) view->live--;
    *word = live ? *word | bit : *word & ~bit;
}

struct waiter {
    coord_store *store;
    struct prim_feed *feed; /* NULL: the store cannot watch and is polled */
    void *watch;
    struct wait_view view;
};

static void waiter_open(struct waiter *waiter, const struct prim_frame *frame, struct str group)
{
    coord_store *store = waiter->store;
    coord_caps caps = store->backend->ops->capabilities(store->backend);
    if (caps.watch == COORD_WATCH_NONE) return;
    waiter->feed = prim_feed_open((struct prim_scope){group, true});
    if (waiter->feed == NULL) return;
    struct prim_call call = frame->call;
    call.request_id = prim_id_request();
    coord_result opened =
        store->backend->ops->watch(store->backend, &call, waiter->feed, &waiter->watch);
    if (opened.code != COORD_OK) {
        prim_feed_close(waiter->feed);
        waiter->feed = NULL;
    }
}

static void waiter_close(struct waiter *waiter)
{
    if (waiter->feed == NULL) return;
    waiter->store->backend->ops->unwatch(waiter->store->backend, waiter->watch);
    prim_feed_close(waiter->feed);
    waiter->feed = NULL;
    waiter->view = (struct wait_view){.known = false};
}

static void read_events(struct waiter *waiter, int64_t ms)
{
    coord_event event;
    while (prim_feed_next(waiter->feed, ms, &event) == 1) {
        wait_view_event(&waiter->view, &event);
        ms = 0;
    }
}

static bool seems_free(const struct waiter *waiter, uint32_t slot_count)
{
    return waiter->view.known && waiter->view.live < slot_count;
}

/* Waits until a try may succeed, at most `look_ms`. False: the store is closing. */
static bool wait_for_change(struct waiter *waiter, uint32_t slot_count, int64_t look_ms)
{
    int64_t until_ns = prim_boottime_ns(NULL) + look_ms * PRIM_NS_PER_MS;
    if (waiter->feed == NULL) return prim_pause_ms(waiter->store, look_ms);
    for (;;) {
        int64_t left_ms = (until_ns - prim_boottime_ns(NULL)) / PRIM_NS_PER_MS;
        if (left_ms <= 0) return true;
        read_events(waiter, left_ms < WAIT_SLICE_MS ? left_ms : WAIT_SLICE_MS);
        if (!prim_pause_ms(waiter->store, 0)) return false;
        if (waiter->view.ended) {
            /* An ended watch would end every wait immediately. The next round opens a new watch. */
            waiter_close(waiter);
            return prim_pause_ms(waiter->store, left_ms < WAIT_BLIND_MS ? left_ms : WAIT_BLIND_MS);
        }
        if (!seems_free(waiter, slot_count)) continue;
        /* All waiters see the free slot. Each waits a random time, then checks again. */
        if (!prim_pause_ms(waiter->store, prim_random_below(WAIT_SPREAD_MS))) return false;
        read_events(waiter, 0);
        if (seems_free(waiter, slot_count)) return true;
    }
}

/* Returns the time to the next try: shortly after a lease may end, within the limits of wait.h. */
static int64_t look_after_ms(const coord_result *full, bool watching)
{
    int64_t look_ms =
        full->hint_ms >= 0 && full->hint_ms < WAIT_LOOK_MS ? full->hint_ms : WAIT_LOOK_MS;
    if (!watching && look_ms > WAIT_BLIND_MS) look_ms = WAIT_BLIND_MS;
    if (look_ms < WAIT_LOOK_MIN_MS) look_ms = WAIT_LOOK_MIN_MS;
    return look_ms + prim_random_below(look_ms / 2 + 1);
}

coord_result prim_acquire_waiting(coord_store *store, struct prim_frame *frame,
                                  struct prim_try *try, int64_t wait_ms)
{
    struct waiter waiter = {.store = store};
    coord_caps caps = store->backend->ops->capabilities(store->backend);
    int64_t until_ns = frame->began_ns + wait_ms * PRIM_NS_PER_MS;
    int64_t real_until_ns = prim_boottime_ns(NULL) + wait_ms * PRIM_NS_PER_MS;
    int64_t timeout_ns = frame->call.deadline_ns - until_ns;
    if (caps.bits & COORD_CAP_FIFO_WAIT) { /* the store queues waiters itself */
        try->in.acquire.wait_ms = wait_ms;
        return prim_attempts(store, frame, try);
    }
    coord_result result;
    for (;;) { /* ends when wait_ms has passed: a round takes at least WAIT_LOOK_MIN_MS */
        /* The refusal had no effect, so the lease counts from here. */
        frame->began_ns = prim_clock_now(&store->clock);
        frame->call.deadline_ns = frame->began_ns + timeout_ns;
        frame->call.attempt = 0;
        result = prim_attempts(store, frame, try);
        if (result.code != COORD_EXISTS || result.reason != COORD_R_FULL || wait_ms == 0) break;
        int64_t left_ns = until_ns - prim_clock_now(&store->clock);
        int64_t real_left_ns = real_until_ns - prim_boottime_ns(NULL);
        int64_t left_ms = (real_left_ns < left_ns ? real_left_ns : left_ns) / PRIM_NS_PER_MS;
        if (left_ms <= 0) break;
        if (waiter.feed == NULL) waiter_open(&waiter, frame, try->in.acquire.group);
        int64_t look_ms = look_after_ms(&result, waiter.feed != NULL);
        uint32_t slot_count =
            result.slot_count != 0 ? result.slot_count : try->in.acquire.slot_count;
        if (!wait_for_change(&waiter, slot_count, look_ms < left_ms ? look_ms : left_ms)) {
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_CLOSED,
                                 "the store was closed while waiting");
            break;
        }
    }
    waiter_close(&waiter);
    return result;
}
