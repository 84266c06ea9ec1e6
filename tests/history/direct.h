/* SPDX-License-Identifier: Apache-2.0 */
/* Serializable reads and watches of one chosen replica. libmuster always asks the leader, but a
 * session that must not go back reads from one process, and a watch may continue anywhere. The
 * calls block; one thread. */
#ifndef TESTS_HISTORY_DIRECT_H
#define TESTS_HISTORY_DIRECT_H
#include <muster/coord.h>

#include "base/err.h"

struct direct;
enum err direct_open(const char *address, struct direct **ret_direct);
void direct_close(struct direct *d);
/* OK with the revision of the entry and its value as a number, NOT_FOUND, UNAVAILABLE. */
coord_result direct_get(struct direct *d, const char *key, uint64_t timeout_ms,
                        uint64_t *ret_value);
/* Returns true when the caller has seen enough. */
typedef bool direct_event_fn(void *owner, const coord_event *event);
struct direct_place { /* position of a watch, over all replicas; zeroed: not begun */
    uint64_t next;    /* the next revision; 0: a snapshot */
    bool begun, in_snapshot;
};
/* Continues the watch of a bucket at this replica, for at most `for_ms`. True: on_event() returned
 * true. */
bool direct_watch(struct direct *d, const char *bucket, uint64_t for_ms, struct direct_place *place,
                  direct_event_fn *on_event, void *owner);
#endif
