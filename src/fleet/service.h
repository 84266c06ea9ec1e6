/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC methods of the fleet coordinator: bigfleet.v1alpha1.Coordinator and muster.v1.Fleet.
 *
 * The service checks requests in the order of wire.md 4.1, writes through the log, and serves
 * linearizable reads. The service owns the fleet's state machine, the leader's soft state
 * (fleet/shard_reports.h), metrics, events and the audit.
 *
 * The server checks the caller's identity before the method runs, also on a follower: an unknown
 * caller never learns the leader's address. Calls to a leader that has not applied an entry of its
 * own term wait, at most `wait_ms`, so that clients need no retry after a failover.
 *
 * Order of calls, all on the event loop's thread:
 *     fleet_service_open -> replica_open with fleet_machine_registration()
 *     -> fleet_service_attach -> fleet_service_methods -> rpc_server_listen
 *     -> fleet_service_join
 *     ... fleet_service_on_change from replica_events.on_change ...
 *     rpc_server_close (wait for its done) -> fleet_service_stop (wait) -> replica_close
 *     -> fleet_service_close */
#ifndef FLEET_SERVICE_H
#define FLEET_SERVICE_H
#include "fleet/admit.h"
#include "fleet/machine.h"
#include "fleet/roster.h"
#include "fleet/survey.h"
#include "io/io.h"
#include "log/log.h"
#include "obs/events.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/server.h"

struct fleet_seed; /* fleet/seed.h */
struct fleet_service;

struct fleet_service_limits { /* 0 selects the default */
    uint64_t wait_ms;         /* default 5,000: timeout of a call while no majority answers */
    uint64_t silent_after_ms; /* default 60,000 without a report: the shard is silent */
    uint32_t requests_max;    /* default 16,384 concurrent calls; more: RESOURCE_EXHAUSTED */
    uint32_t pending_max;     /* default 16,384 pending instructions per shard */
    size_t soft_bytes_max;    /* default 1 GiB for reports and instructions */
    uint32_t shards_max;      /* default 65,536; a report cannot add a further shard */
    uint32_t list_rows_max;   /* default 8,192 rows of a list per turn of the event loop */
    uint64_t stall_ms;        /* default 60,000: for a stream whose client does not read */
};
struct fleet_exports {
    const char *dir;   /* created if needed; NULL or "": no exports */
    uint64_t every_ms; /* time before each export, also the first; 0: five minutes */
    uint32_t keep;     /* 0: 48 */
};
struct fleet_service_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; one registry serves one service */
    struct events *events;        /* cluster events and audit; outlives the service; may be NULL */
    /* The leader's gRPC address, "" if unknown, valid during the call. May be NULL. */
    const char *(*leader_address)(void *owner);
    void *owner;
    const struct fleet_seed *seed; /* from --bootstrap-state, or NULL; outlives the service */
    const struct roster *roster;   /* may be NULL: no names, and no joining */
    const char *name, *dir;        /* name and directory of this node; `dir` stores promises */
    /* True if the replica may belong to a known cluster, and must promise to no other bootstrap.
     * NULL: false. */
    bool (*cluster_known)(void *owner);
    /* Called once, if the leader of another cluster lists this replica as a voter. May be NULL. */
    void (*rival_found)(void *owner, const struct note *note);
    struct fleet_exports exports;
    struct fleet_service_limits limits;
};
/* ERR_NOMEM, ERR_FULL (timers), and errors of metrics_add. */
enum err fleet_service_open(const struct fleet_service_options *options,
                            struct fleet_service **ret_service, struct note *note);
/* Stops joining, admitting and exports, which may wait for the disk. Call before the replica is
 * closed. done() is called once, unless NULL. */
void fleet_service_stop(struct fleet_service *service, void (*done)(void *owner), void *owner);
/* Call after the server and the replica are closed, which ends all admissions. NULL is allowed. */
void fleet_service_close(struct fleet_service *service);
struct fleet_machine *fleet_service_machine(struct fleet_service *service);
/* `machines` is sorted by id and outlives the service. */
void fleet_service_attach(struct fleet_service *service, struct replica *replica,
                          const struct state_machine *machines, size_t machine_count);
/* Registers every method of the two gRPC services. Errors of rpc_server_add. */
enum err fleet_service_methods(struct fleet_service *service, struct rpc_server *server,
                               struct note *note);
struct fleet_join {
    struct survey_to to;      /* `to.self` must be the gRPC address in `self` below */
    struct roster_entry self; /* own roster entry; the replica provides the id */
    const char *raft;         /* Raft address for the other replicas; copied */
};
/* Starts to join the cluster and, on the leader, to admit other replicas (fleet/join.h,
 * fleet/admit.h). Call in the same turn as rpc_server_listen, because the entry contains the real
 * port. ERR_NOMEM, ERR_FULL (timers), ERR_INVALID (name or address), ERR_TOO_LARGE. */
enum err fleet_service_join(struct fleet_service *service, const struct fleet_join *join,
                            struct note *note);
/* Call after fleet_service_join, when a replica of another cluster connects. Asks the join
 * addresses whether two clusters claim this replica. */
void fleet_service_greeted(struct fleet_service *service, uint64_t cluster_id);
/* Registers etcdserverpb.Maintenance/Snapshot, which sends a backup of muster in etcd's frames. The
 * first frame names the format in `version`. With TLS, only administrators may call the method. */
enum err fleet_service_etcd(struct fleet_service *service, struct rpc_server *server,
                            struct note *note);
void fleet_service_on_change(struct fleet_service *service, const struct replica_status *status);
#endif
