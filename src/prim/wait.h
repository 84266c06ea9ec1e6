/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a free slot: a watch of the group shows when one may be free, a random delay and a
 * second look keep the waiters from coming all at once. */
#ifndef PRIM_WAIT_H
#define PRIM_WAIT_H
#include "prim/lease.h"

enum {
    WAIT_SPREAD_MS = 40,   /* the random delay after a slot was seen free */
    WAIT_LOOK_MS = 1000,   /* at the latest: a watch may be late, a resize shows nowhere */
    WAIT_BLIND_MS = 200,   /* while there is no watch */
    WAIT_LOOK_MIN_MS = 20, /* and never more often */
    WAIT_SLICE_MS = 100,   /* how long closing a store may go unnoticed */
};

/* OK, a final refusal, or after wait_ms the last EXISTS/full. Sets frame->began_ns to the start of
 * the round that was granted. */
coord_result prim_acquire_waiting(coord_store *store, struct prim_frame *frame,
                                  struct prim_try *try, int64_t wait_ms);

/* Which slots of a group are held, as a watch shows it. Pure. */
struct wait_view {
    bool known; /* a snapshot is complete */
    bool ended; /* the watch is over */
    uint32_t live;
    uint64_t held[(PRIM_SLOTS_MAX + 63) / 64];
};
void wait_view_event(struct wait_view *view, const coord_event *event);
#endif
