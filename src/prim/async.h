/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are started and answered later: threads make the blocking call, the caller's own loop
 * gets the answers (coord_fd, coord_dispatch). */
#ifndef PRIM_ASYNC_H
#define PRIM_ASYNC_H
#include "prim/store.h"

enum {
    ASYNC_THREADS_DEFAULT = 8,
    ASYNC_THREADS_MAX = 64,
    ASYNC_DEFAULT = 4096,
    ASYNC_MAX = 1000000,
};
coord_result prim_async_check(const coord_options *options);
coord_result prim_async_open(coord_store *store);
/* Nothing is taken any more; what waits is answered UNAVAILABLE/closed; threads are joined. */
void prim_async_stop(coord_store *store);
/* Runs done() of all that was never dispatched and frees it. */
void prim_async_close(coord_store *store);
#endif
