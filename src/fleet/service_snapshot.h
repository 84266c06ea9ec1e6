/* SPDX-License-Identifier: Apache-2.0 */
/* The methods that stream the state out: bigfleet.v1alpha1.Coordinator/SnapshotSave, the fleet
 * tables in the original's format, and muster.v1.Fleet/Backup, every machine of the log with the
 * bytes of a snapshot file (log/snapfile.h; fleet/archive.h).
 *
 * Leader only, after a leadership round: everything acknowledged before the call is in it, at one
 * index, while writes go on. A slice is made only when the last was taken, so a slow reader costs
 * one chunk of memory; one that takes nothing for stall_ms loses its call. One stream at a time,
 * for a view keeps what is removed meanwhile: the second gets RESOURCE_EXHAUSTED. */
#ifndef FLEET_SERVICE_SNAPSHOT_H
#define FLEET_SERVICE_SNAPSHOT_H
#include "fleet/machine.h"
#include "fleet/roster.h"
#include "io/io.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/server.h"

struct snapshot_service;
struct snapshot_service_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; one service per registry */
    struct replica *replica;
    struct fleet_machine *fleet;
    const struct roster *roster;          /* may be NULL */
    const struct state_machine *machines; /* by growing id; borrowed for its life */
    size_t machine_count;
    /* The leader's gRPC address, "" when nobody knows; may be NULL. Valid during the call. */
    const char *(*leader_address)(void *owner);
    void *owner;
    uint64_t stall_ms; /* 0: 60,000 */
};
enum err snapshot_service_open(const struct snapshot_service_options *options,
                               struct snapshot_service **ret_service, struct note *note);
/* After the server is closed. NULL is fine. */
void snapshot_service_close(struct snapshot_service *service);
/* From replica_events.on_change. NULL is fine. */
void snapshot_service_on_change(struct snapshot_service *service,
                                const struct replica_status *status);
enum err snapshot_service_methods(struct snapshot_service *service, struct rpc_server *server,
                                  struct note *note); /* what rpc_server_add answers */
/* etcdserverpb.Maintenance/Snapshot: the backup in etcd's frames, of which the first says so in its
 * `version`. Under TLS for administrators. */
enum err snapshot_service_etcd(struct snapshot_service *service, struct rpc_server *server,
                               struct note *note);
#endif
