/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's API of a coordinator: on its gRPC port, and on a listener of its own. */
#ifndef MUSTER_COORDINATOR_ETCD_H
#define MUSTER_COORDINATOR_ETCD_H
#include "conf/conf.h"
#include "fleet/service_snapshot.h"
#include "muster/role.h"
#include "rpc/meter.h"
#include "store/etcd/etcd.h"

struct coordinator_etcd;
struct coordinator_etcd_options {
    struct etcd_options api;
    const struct conf *conf;
    struct rpc_server *server; /* of the gRPC port; does not listen yet */
    struct rpc_meter *meter;
    struct snapshot_service *snapshots; /* whose Snapshot it is */
};
/* Begins to listen when the options say where. */
enum err coordinator_etcd_open(const struct coordinator_etcd_options *options,
                               struct coordinator_etcd **ret_etcd, struct note *note);
void coordinator_etcd_on_change(struct coordinator_etcd *etcd, const struct replica_status *status);
struct role_listener *coordinator_etcd_listener(struct coordinator_etcd *etcd); /* NULL of NULL */
/* After the gRPC port's server is closed: the listener and the way to the leader go. done() once,
 * maybe at once; NULL is fine. */
void coordinator_etcd_stop(struct coordinator_etcd *etcd, void (*done)(void *owner), void *owner);
void coordinator_etcd_close(struct coordinator_etcd *etcd); /* after the replica; NULL is fine */
#endif
