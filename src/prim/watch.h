/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of a store: one queue each, filled by the backend. */
#ifndef PRIM_WATCH_H
#define PRIM_WATCH_H
#include "prim/store.h"

/* Every reader gets COORD_CLOSED/closed; its handle stays its own. */
void prim_watch_end_all(coord_store *store);
#endif
