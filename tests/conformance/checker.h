/* SPDX-License-Identifier: Apache-2.0 */
/* Reads everything that clients did and saw, and checks whether a store that keeps its contract
 * could have answered like this. It does not know the store: only calls, replies and times.
 *
 *   holders   at no instant a group has certainly more live grants than slots, or a slot more than
 *             one. A grant certainly lives from the reply of its acquire to the call of its
 *             release, but no longer than TTL after the call of the last acquire or renewal that
 *             returned OK
 *   tokens    of one key or slot: each used once, larger when granted later
 *   revisions of one key: each used once, larger when changed later; a read never goes back
 *   final     after a handle returned EXPIRED no later call with it returns OK
 *
 * "Later" means: called after the other reply had come. Calls that overlap have no order, so the
 * checker never reports a possible history. All times must be of one clock. */
#ifndef TESTS_CONFORMANCE_CHECKER_H
#define TESTS_CONFORMANCE_CHECKER_H
#include <muster/coord.h>
#include <stdbool.h>

enum { HISTORY_KEY_CAP = 64 };
struct history_op {
    int op;           /* enum coord_op: CREATE, CAS, DELETE, GET, ACQUIRE, RENEW, RELEASE */
    int code, reason; /* of the reply; UNAVAILABLE: result unknown */
    uint32_t client;
    uint32_t slot;      /* ACQUIRE */
    uint32_t slots_max; /* ACQUIRE: most slots of the group; RENEW, RELEASE of a slot, too */
    uint64_t handle;    /* of the lease, unique over all clients; 0: none */
    uint64_t revision, token;
    int64_t called_ns, replied_ns;
    int64_t ttl_ms;            /* granted */
    char key[HISTORY_KEY_CAP]; /* the group, of ACQUIRE */
};
struct history {
    struct history_op *ops;
    size_t count, cap;
};
/* False: no memory. */
bool history_add(struct history *history, const struct history_op *op);
void history_deinit(struct history *history);

enum { CHECKER_TEXT_CAP = 256 };
/* True: no fault. Else `why` names the rule and the calls. Sorts the history. */
bool checker_run(struct history *history, char why[CHECKER_TEXT_CAP]);
#endif
