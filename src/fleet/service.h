/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet coordinator's methods: all of bigfleet.v1alpha1.Coordinator and of muster.v1.Fleet.
 *
 * It decides who is answered what: checks in the order of wire.md 4.1, writes through the log,
 * linearizable reads (a leader that cannot prove it still leads answers nothing), the soft state of
 * the leader (fleet/shard_reports.h), metrics, events and the audit. It owns the fleet's state machine,
 * because what is applied must be seen here on every replica.
 *
 * The surprising rules. Identity is checked by the server before the method runs, so a stranger is
 * refused by a follower too and never learns who leads. Calls that reach a leader whose first own
 * entry is not applied yet wait for it, at most `wait_ms`: a failover costs its clients no retry.
 *
 * Order of life, all on the loop's thread:
 *     fleet_service_open -> replica_open with fleet_machine_registration(fleet_service_machine())
 *     -> fleet_service_attach -> fleet_service_methods -> rpc_server_listen
 *     -> fleet_service_join
 *     ... fleet_service_on_change from replica_events.on_change ...
 *     rpc_server_close (wait for its done) -> fleet_service_stop (wait) -> replica_close -> fleet_service_close */
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

struct fleet_service_limits { /* 0: the default behind it */
    uint64_t wait_ms;         /* 5,000: a write or a read without an answer of a majority */
    uint64_t silent_after_ms; /* 60,000: a shard that has not reported is called silent */
    uint32_t requests_max;    /* 16,384 calls at once; more get RESOURCE_EXHAUSTED */
    uint32_t pending_max;     /* 16,384 instructions waiting for one shard */
    size_t soft_bytes_max;    /* 1 GiB of reports and instructions */
    uint32_t shards_max;      /* 65,536 are registered by their reports, which the tables hold */
    uint32_t list_rows_max;   /* 8,192 rows of domains or clusters in one turn of the loop */
    uint64_t stall_ms;        /* 60,000: a stream whose reader takes nothing */
};
struct fleet_exports {
    const char *dir;   /* made when it is not there; NULL or "": no exports */
    uint64_t every_ms; /* 0: five minutes; the first comes one interval after the start */
    uint32_t keep;     /* exports that stay; 0: 48 */
};
struct fleet_service_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; one service per registry */
    struct events *events; /* of the cluster, and the audit; borrowed for its life; may be NULL */
    /* The leader's gRPC address as the roster knows it, "" when nobody does; valid during the call.
     * May be NULL: never known. */
    const char *(*leader_address)(void *owner);
    void *owner;
    const struct fleet_seed *seed; /* of --bootstrap-state; borrowed for its life; may be NULL */
    const struct roster *roster; /* may be NULL: without replicas' names, and nobody is admitted */
    const char *name, *dir;      /* of this node; the replica's data directory, for promises */
    /* True: a cluster is known that this replica may belong to, so it promises nothing to another
     * bootstrap. NULL: none ever is. */
    bool (*cluster_known)(void *owner);
    struct fleet_exports exports;
    struct fleet_service_limits limits;
};
/* ERR_NOMEM, ERR_FULL (timers), and what metrics_add answers. */
enum err fleet_service_open(const struct fleet_service_options *options,
                            struct fleet_service **ret_service, struct note *note);
/* Before the replica is closed: ends exports, waiting for the disk, and asks and admits no more. done()
 * (may be NULL) once. */
void fleet_service_stop(struct fleet_service *service, void (*done)(void *owner), void *owner);
/* After the server and the replica are closed, which ends the last admissions. NULL is fine. */
void fleet_service_close(struct fleet_service *service);
struct fleet_machine *fleet_service_machine(struct fleet_service *service);
/* `machines`: those of the replica, by growing id; borrowed for its life. */
void fleet_service_attach(struct fleet_service *service, struct replica *replica,
                          const struct state_machine *machines, size_t machine_count);
/* Registers every method of this page; what rpc_server_add answers. */
enum err fleet_service_methods(struct fleet_service *service, struct rpc_server *server,
                               struct note *note);
struct fleet_join {
    struct survey_to to;      /* its `self` is that of the entry */
    struct roster_entry self; /* its id is taken from the replica */
    const char *raft;         /* our Raft address as others reach it; copied */
};
/* From now on asks for our place and, on the leader, admits others (fleet/join.h, fleet/admit.h).
 * Before the loop turns again after rpc_server_listen: our own entry names the real port. ERR_NOMEM,
 * ERR_FULL (timers), ERR_INVALID (name or address), ERR_TOO_LARGE. */
enum err fleet_service_join(struct fleet_service *service, const struct fleet_join *join,
                            struct note *note);
/* etcdserverpb.Maintenance/Snapshot: the backup in etcd's frames, of which the first says so in its
 * `version`. Under TLS for administrators. */
enum err fleet_service_etcd(struct fleet_service *service, struct rpc_server *server,
                            struct note *note);
void fleet_service_on_change(struct fleet_service *service, const struct replica_status *status);
#endif
