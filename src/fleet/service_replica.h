/* SPDX-License-Identifier: Apache-2.0 */
/* The methods about the replicas themselves: of muster.v1.Fleet JoinReplica, ListReplicas,
 * RemoveReplica, TransferLeadership, StateHash, PromiseBootstrap and BootstrapReplica, and
 * bigfleet's JoinRaftCluster.
 *
 * JoinRaftCluster names a node and no identity, which our replicas have: it travels in the request
 * header x-muster-replica (16 hexadecimal digits); without it the roster's identity of that name is
 * meant. StateHash, PromiseBootstrap and BootstrapReplica are answered by any replica about
 * itself, everything else by the leader. */
#ifndef FLEET_SERVICE_REPLICA_H
#define FLEET_SERVICE_REPLICA_H
#include "fleet/journal.h"
#include "fleet/quorum.h"
#include "rpc/server.h"

#define REPLICA_ID_HEADER "x-muster-replica"

struct replica_service;
struct replica_service_options {
    struct io *io;
    const struct log_source *log;  /* may be NULL; copied */
    struct fleet_journal *journal; /* may be NULL; borrowed */
    struct replica *replica;
    const struct roster *roster;
    const char *name;                     /* of this node; this and the next two are borrowed */
    const char *dir;                      /* the replica's data directory: promises */
    const struct state_machine *machines; /* as given to the replica */
    size_t machine_count;
    /* True: a cluster is known that this replica may belong to, so it promises nothing to another
     * bootstrap. NULL: none ever is. */
    bool (*cluster_known)(void *owner);
    void *owner;
};
enum err replica_service_open(
    const struct replica_service_options *options,
    struct replica_service **ret_service); /* ERR_NOMEM, ERR_FULL (timers) */
/* After the server is closed, and after the replica. NULL is fine. */
void replica_service_close(struct replica_service *service);
/* Before the loop turns again after rpc_server_listen: our own entry names the real port. */
void replica_service_attach(struct replica_service *service, struct quorum *quorum);
/* From replica_events.on_change. NULL is fine. */
void replica_service_on_change(struct replica_service *service,
                               const struct replica_status *status);
enum err replica_service_methods(struct replica_service *service, struct rpc_server *server,
                                 struct note *note); /* what rpc_server_add answers */
#endif
