/* SPDX-License-Identifier: Apache-2.0 */
/* Serializable reads and watches of one replica and no other: libmuster goes where the leader is, a
 * session that may not go back must stay with one process, and a watch may go on anywhere. Blocks;
 * one thread. */
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
/* True: enough. */
typedef bool direct_told_fn(void *owner, const coord_event *event);
struct direct_place { /* of a watch, over all replicas; zeroed: before its begin */
    uint64_t next;    /* the revision to go on with; 0: a snapshot */
    bool begun, in_snapshot;
};
/* Goes on with the watch of a bucket here, for so long at most. True: told() had enough. */
bool direct_watch(struct direct *d, const char *bucket, uint64_t for_ms, struct direct_place *place,
                  direct_told_fn *told, void *owner);
#endif
