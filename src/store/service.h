/* SPDX-License-Identifier: Apache-2.0 */
/* The store's methods: muster.v1.Coordination (proto/muster/v1/coordination.proto).
 *
 * It checks limits before anything is proposed, and answers: writes through the log,
 * linearizable reads behind rounds that many share, serializable ones from what is applied here;
 * calls that wait for a slot, renewals gathered into one entry, watches (store/watch_engine.h). On
 * the leader it
 * also drives the lease clock and compacts history.
 *
 * The surprising rules. An answer that a limit was passed comes from any replica: it depends on
 * nothing. A call that waits for a slot is answered by another entry's effect; when leadership is
 * lost it ends as UNAVAILABLE, and the same request id takes its place in the queue up again.
 *
 * Order of life, all on the loop's thread:
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
struct store_service_limits {   /* 0: the default behind it */
    uint64_t quota_bytes;       /* 2 GiB; the same on every replica */
    uint64_t wait_ms;           /* 5,000: a write or a read without an answer of a majority */
    uint32_t requests_max;      /* 65,536 calls at once; more get RESOURCE_EXHAUSTED */
    uint32_t watchers_max;      /* 65,536 */
    uint32_t watch_events_max;  /* 16,384 wait for one watcher; then it gets RESYNC */
    uint64_t watch_bytes_max;   /* 64 MiB of their keys and values */
    uint64_t history_ms;        /* 300,000: changes older than that are compacted; the most: none */
    uint64_t history_revisions; /* revisions of the past that are kept at most; 0: any number */
};
struct store_service_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; one service per registry */
    /* The leader's gRPC address, "" without a leader; valid during the call. May be NULL. */
    const char *(*leader_address)(void *owner);
    void *owner;
    struct store_service_limits limits;
};
/* ERR_NOMEM, ERR_FULL (timers), and what metrics_add answers. */
enum err store_service_open(const struct store_service_options *options,
                            struct store_service **ret_service, struct note *note);
/* After the server and the replica are closed. NULL is fine. */
void store_service_close(struct store_service *service);
struct store_machine *store_service_machine(struct store_service *service);
void store_service_attach(struct store_service *service, struct replica *replica);
/* Registers every method; what rpc_server_add answers. */
enum err store_service_methods(struct store_service *service, struct rpc_server *server,
                               struct note *note);
void store_service_on_change(struct store_service *service, const struct replica_status *status);

/* Another API over the same store (store/etcd), called after the service's own parts. One; any of
 * them may be NULL. */
struct store_follower {
    void (*applied)(void *owner);
    void (*restored)(void *owner);
    void (*second)(void *owner); /* once a second */
    void *owner;
};
void store_service_follow(struct store_service *service, const struct store_follower *follower);
#endif
