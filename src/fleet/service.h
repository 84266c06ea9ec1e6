/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet coordinator's methods: bigfleet.v1alpha1.Coordinator and muster.v1.Fleet.
 *
 * The service checks requests in the order of wire.md 4.1. It writes through the log, serves
 * linearizable reads (a leader that cannot confirm its leadership answers none), and keeps the
 * leader's soft state (fleet/shard_reports.h), metrics, events and the audit. It owns the fleet's
 * state machine, because it follows applied commands on every replica.
 *
 * Two rules may surprise. The server checks identity before the method runs, so an unknown peer is
 * refused by a follower, too, and never learns the leader's address. Calls to a leader that has not
 * applied its first own entry wait for it, at most `wait_ms`, so that clients need no retry after a
 * failover.
 *
 * Order of calls, all on the loop's thread:
 *     fleet_service_open -> replica_open with fleet_machine_registration(fleet_service_machine())
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

struct fleet_service_limits { /* 0 selects the default given behind each field */
    uint64_t wait_ms;         /* 5,000: how long a write or a read waits for a majority */
    uint64_t silent_after_ms; /* 60,000: silence after which a shard counts as silent */
    uint32_t requests_max;    /* 16,384 calls at once; further calls get RESOURCE_EXHAUSTED */
    uint32_t pending_max;     /* 16,384 pending instructions per shard */
    size_t soft_bytes_max;    /* 1 GiB of reports and instructions */
    uint32_t shards_max;      /* 65,536 shards in the tables; reports register no further shards */
    uint32_t list_rows_max;   /* 8,192 rows of domains or clusters per turn of the loop */
    uint64_t stall_ms;        /* 60,000: timeout of a stream whose reader accepts nothing */
};
struct fleet_exports {
    const char *dir;   /* created if needed; NULL or "": no exports */
    uint64_t every_ms; /* 0: five minutes; the first export follows one interval after the start */
    uint32_t keep;     /* number of exports kept; 0: 48 */
};
struct fleet_service_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; one service per registry */
    struct events *events; /* cluster events and the audit; must outlive the service; may be NULL */
    /* The leader's gRPC address, "" if unknown; valid during the call. NULL: never known. */
    const char *(*leader_address)(void *owner);
    void *owner;
    const struct fleet_seed *seed; /* --bootstrap-state; must outlive the service; NULL: none */
    const struct roster *roster;   /* may be NULL: replicas have no names, and none is admitted */
    const char *name, *dir;        /* this node's name; its data directory, which stores promises */
    /* True if the replica knows a cluster that it may belong to, so it must not promise to another
     * bootstrap. NULL: never. */
    bool (*cluster_known)(void *owner);
    struct fleet_exports exports;
    struct fleet_service_limits limits;
};
/* ERR_NOMEM, ERR_FULL (timers), and errors of metrics_add. */
enum err fleet_service_open(const struct fleet_service_options *options,
                            struct fleet_service **ret_service, struct note *note);
/* Call before the replica is closed. Ends exports, which may wait for the disk, and stops joining
 * and admitting. done() (may be NULL) is called once. */
void fleet_service_stop(struct fleet_service *service, void (*done)(void *owner), void *owner);
/* Call after the server and the replica are closed, which ends admissions. NULL is fine. */
void fleet_service_close(struct fleet_service *service);
struct fleet_machine *fleet_service_machine(struct fleet_service *service);
/* `machines`: the replica's machines by ascending id; must outlive the service. */
void fleet_service_attach(struct fleet_service *service, struct replica *replica,
                          const struct state_machine *machines, size_t machine_count);
/* Registers every method of the two services. Returns the error of rpc_server_add, if any. */
enum err fleet_service_methods(struct fleet_service *service, struct rpc_server *server,
                               struct note *note);
struct fleet_join {
    struct survey_to to;      /* `self` must be the address of the entry */
    struct roster_entry self; /* the replica provides the id */
    const char *raft;         /* this replica's Raft address as other replicas reach it; copied */
};
/* Starts asking to join and, on the leader, admitting others (fleet/join.h, fleet/admit.h). Call in
 * the same turn as rpc_server_listen, because the entry contains the real port. ERR_NOMEM, ERR_FULL
 * (timers), ERR_INVALID (name or address), ERR_TOO_LARGE. */
enum err fleet_service_join(struct fleet_service *service, const struct fleet_join *join,
                            struct note *note);
/* Registers etcdserverpb.Maintenance/Snapshot, which sends a backup in etcd's frames. The `version`
 * of the first frame says so. Under TLS only for administrators. */
enum err fleet_service_etcd(struct fleet_service *service, struct rpc_server *server,
                            struct note *note);
void fleet_service_on_change(struct fleet_service *service, const struct replica_status *status);
#endif
