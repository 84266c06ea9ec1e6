/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait until their entry of a queue is the first: Lock.Lock and Election.Campaign.
 *
 *     grant a lease, if the request names none -> enter the queue -> first? reply
 *     -> else watch the key before the own one until it is deleted -> no key is left before it
 *     -> this replica has caught up with the leader, and the own key exists: reply
 *
 * The replica that was asked keeps the call and looks at what it has applied. Only the steps go to
 * the leader (leader_call.h), so a change of leaders does not end a call that waits.
 *
 * When the client goes away its key is deleted, as etcd does. A replica that stops leaves the key
 * where it is, unless the lease was granted here: a client that asks another replica with the same
 * lease has its place again. A call whose key is deleted while it waits, because its lease ended, is
 * refused at once and never holds the lock. */
#ifndef STORE_ETCD_QUEUE_WAIT_H
#define STORE_ETCD_QUEUE_WAIT_H
#include "store/etcd/internal.h"

struct queue_place {
    struct str name, key;
    int64_t lease;
    uint64_t create;   /* the key's */
    uint64_t entered;  /* the revision at which the call entered the queue */
    uint64_t revision; /* and at which it was the first */
};
struct queue_wait_kind {
    bool sets;            /* the value is the key's, also when it had another */
    enum etcd_error lost; /* the key was deleted */
    /* Packs the response, with its header. */
    void (*pack)(const struct etcd_api *api, struct pack *pack, const struct queue_place *place);
};
struct queue_request { /* the name and the value live as the call does */
    struct str name, value;
    int64_t lease; /* 0: one of a minute is granted */
};
/* The call's data is the wait's from now on, or NULL when the call is answered. */
void queue_wait_begin(struct etcd_api *api, struct rpc_call *call,
                      const struct queue_wait_kind *kind, const struct queue_request *request);
void queue_wait_drain(void *service,
                      struct rpc_call *call); /* on_drain and on_done of its handler */
void queue_wait_gone(void *service, struct rpc_call *call);
#endif
