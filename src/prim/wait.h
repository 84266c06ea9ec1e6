/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a free slot. A watch of the group shows when a slot may be free. A random delay and a
 * second check keep the waiters from trying at the same moment. */
#ifndef PRIM_WAIT_H
#define PRIM_WAIT_H
#include "prim/lease.h"

enum {
    WAIT_SPREAD_MS = 40,   /* random delay after a free slot was seen */
    WAIT_LOOK_MS = 1000,   /* longest time between tries: watches may be late */
    WAIT_BLIND_MS = 200,   /* longest time between tries without a watch */
    WAIT_LOOK_MIN_MS = 20, /* shortest time between tries */
    WAIT_SLICE_MS = 100,   /* longest time until a closing store is noticed */
};

/* OK, a final refusal, or after wait_ms the last EXISTS/full. frame->began_ns: start of the
 * round that was granted. */
coord_result prim_acquire_waiting(coord_store *store, struct prim_frame *frame,
                                  struct prim_try *try, int64_t wait_ms);

/* The held slots of a group according to a watch. Pure. */
struct wait_view {
    bool known;
    bool ended;
    uint32_t live;
    uint64_t held[(PRIM_SLOTS_MAX + 63) / 64];
};
void wait_view_event(struct wait_view *view, const coord_event *event);
#endif
