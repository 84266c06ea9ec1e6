/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of the store's service muster.v1.Coordination (proto/muster/v1/coordination.proto).
 *
 * Writes go through the log. Linearizable reads share read index rounds; serializable reads use the
 * state that this replica has applied. On the leader the service drives the lease clock and
 * compacts history.
 *
 * Every replica refuses a request that breaks a limit, because the check needs no state. A later
 * entry answers a call that waits for a slot. When leadership is lost the call ends as UNAVAILABLE,
 * and a retry with the same request id keeps its place in the queue.
 *
 * Order of calls, all on the loop's thread:
 *     store_service_open -> replica_open with store_machine_registration(store_service_machine())
 *     -> store_service_attach -> store_service_methods -> rpc_server_listen
 *     ... store_service_on_change from replica_events.on_change ...
 *     rpc_server_close (wait for its done) -> replica_close -> store_service_close */
#ifndef STORE_SERVICE_H
#define STORE_SERVICE_H
#include "io/io.h"
#include "log/log.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/server.h"
#include "store/machine.h"

struct store_service;
struct store_service_limits {   /* 0: the default in the field's comment */
    uint64_t quota_bytes;       /* 2 GiB; must be the same on every replica */
    uint64_t wait_ms;           /* 5,000: how long a write or a read waits for a majority */
    uint32_t requests_max;      /* 65,536 calls at a time; more get RESOURCE_EXHAUSTED */
    uint32_t watchers_max;      /* 65,536 */
    uint32_t watch_events_max;  /* 16,384 events queued per watch; then the watch gets RESYNC */
    uint64_t watch_bytes_max;   /* 64 MiB of keys and values queued for one watch */
    uint64_t history_ms;        /* 300,000: older changes are compacted; UINT64_MAX: no age limit */
    uint64_t history_revisions; /* kept in the history; 0: no limit */
};
struct store_service_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; the service copies the struct */
    struct metrics *metrics;      /* may be NULL; a registry can have only one service */
    /* The leader's gRPC address, "" without a leader; valid during the call. May be NULL. */
    const char *(*leader_address)(void *owner);
    void *owner;
    struct store_service_limits limits;
};
/* ERR_FULL: no timer is free. Also ERR_NOMEM, and errors of metrics_add(). */
enum err store_service_open(const struct store_service_options *options,
                            struct store_service **ret_service, struct note *note);
/* Call after the server and the replica are closed. NULL is fine. */
void store_service_close(struct store_service *service);
struct store_machine *store_service_machine(struct store_service *service);
void store_service_attach(struct store_service *service, struct replica *replica);
enum err store_service_methods(struct store_service *service, struct rpc_server *server,
                               struct note *note);
void store_service_on_change(struct store_service *service, const struct replica_status *status);

/* For the etcd API (store/etcd), which uses the same store. Called after the service's own work.
 * Each may be NULL. */
struct store_follower {
    void (*applied)(void *owner);
    void (*restored)(void *owner);
    void (*second)(void *owner); /* called once a second */
    void *owner;
};
void store_service_follow(struct store_service *service, const struct store_follower *follower);
#endif
