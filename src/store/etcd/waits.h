/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait for their turn: Lock.Lock and Election.Campaign (store/etcd/turns.h).
 *
 *     a lease, when none is named -> the key -> first? answered
 *     -> else the key before ours is looked at until it goes -> none is left before ours
 *     -> this replica is as new as the leader, and our key still there: answered
 *
 * The replica that was asked keeps the call and looks at what it has applied; only the steps go to
 * the leader (store/etcd/errand.h). So a change of leaders is not noticed by who waits.
 *
 * Whose caller goes away leaves: its key is deleted, as etcd does. A server that stops leaves the
 * key where it is, unless the lease was granted here, and who asks another replica with the same lease
 * has its place again. A caller
 * whose key goes while it waits (its lease ended) is told so at once, and never has its turn. */
#ifndef STORE_ETCD_WAITS_H
#define STORE_ETCD_WAITS_H
#include "store/etcd/internal.h"

struct wait_turn {
    struct str name, key;
    int64_t lease;
    uint64_t create;   /* the key's */
    uint64_t entered;  /* the revision that the call came in at */
    uint64_t revision; /* and that it has its turn at */
};
struct wait_kind {
    bool says;            /* the value is the key's, also when it had another */
    enum etcd_error lost; /* the key is gone */
    /* Packs the answer; the header is the caller's, too. */
    void (*pack)(const struct etcd_api *api, struct pack *pack, const struct wait_turn *turn);
};
struct wait_ask { /* the name and the value live as the call does */
    struct str name, value;
    int64_t lease; /* 0: one of a minute is granted */
};
/* The call's data is the wait's from now on, or NULL when it is answered. */
void waits_begin(struct etcd_api *api, struct rpc_call *call, const struct wait_kind *kind,
                 const struct wait_ask *ask);
void waits_drain(void *service, struct rpc_call *call); /* on_drain and on_done of its handler */
void waits_gone(void *service, struct rpc_call *call);
#endif
