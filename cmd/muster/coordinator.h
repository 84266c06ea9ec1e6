/* SPDX-License-Identifier: Apache-2.0 */
/* The state of `muster coordinator run`. Each part of the process has a file, and its `open` is a
 * step of the start. A step may fail half-way; coordinator_run.c closes the open parts. */
#ifndef MUSTER_COORDINATOR_H
#define MUSTER_COORDINATOR_H
#include <limits.h>

#include "dash/dash.h"
#include "fleet/seed.h"
#include "fleet/service.h"
#include "fleet/survey.h"
#include "log/log.h"
#include "member/config/config.h"
#include "muster/role.h"
#include "rpc/meter.h"
#include "store/etcd/etcd.h"
#include "store/service.h"

enum { ADDRESS_CAP = REPLICA_ADDRESS_MAX + 1, JOIN_ADDRESSES_MAX = OPTION_LIST_MAX };

/* The etcd API, on the gRPC port and optionally on a listener of its own. */
struct coordinator_etcd {
    struct etcd_api *api;
    struct role_listener listener; /* not open: etcd clients use the gRPC port */
    struct tls_context *tls;       /* for the listener; NULL: plaintext */
    struct etcd_rule rules[ETCD_RULES_MAX];
};
/* Worker membership: the third state machine of the log, and rollout's and muster's services on the
 * gRPC port. A [transport] section adds a listener for both services, always with mTLS. */
struct coordinator_workers {
    struct member_config config;
    struct cert_workers *ca;
    struct events *sink;
    struct member_events *events;
    struct member_ledger *ledger;
    struct member_service *service;
    struct role_listener listener;
    struct timer timer;
    uint64_t ticks;
    uint64_t last_index; /* the log's last index at the previous tick */
    bool log_is_slow, led;
    mono_time give_up_at;
    struct buf page;
};
/* The dashboard. If its listener is open to the network without TLS, the dashboard is read-only and
 * has no token, because the token would be sent unencrypted. */
struct coordinator_dash {
    struct dash *dash; /* NULL: the settings disable the dashboard */
    char token[DASH_TOKEN_MAX + 1];
    char token_path[PATH_MAX];
    bool closing, closed;
};

struct coordinator {
    struct role_base role; /* has the TLS contexts of the gRPC port */
    const struct log_source *log;
    const char *join_addresses[JOIN_ADDRESSES_MAX + 1];
    struct tls_context *raft_server, *raft_client;
    struct roster *roster;
    struct fleet_seed seed;
    struct fleet_service *fleet;
    struct store_service *store;
    struct state_machine machines[REPLICA_MACHINES_MAX];
    size_t machine_count;
    struct replica *replica;
    bool join_ordered;       /* the other replicas named a cluster to join */
    bool bootstrapped_alone; /* this start bootstrapped a cluster without join addresses */
    struct task foreign;     /* handles a hello of another cluster */
    mono_time foreign_at;    /* 0: never */
    uint64_t foreign_cluster, foreign_to;
    struct coordinator_etcd etcd;
    struct coordinator_workers workers;
    struct coordinator_dash dash;
    struct transfer transfer;
    char grpc_address[ADDRESS_CAP], http_address[ADDRESS_CAP];
    bool joins, quorum_stopped;
};
const char *coordinator_raft_address(const struct coordinator *c);
struct survey_to coordinator_join(const struct coordinator *c); /* valid as long as `c` */
const char *coordinator_leader_address(void *coordinator);

/* Finds the replica's data directory, or makes one that joins or bootstraps a cluster (rules:
 * fleet/bootstrap_rules.h). Turns the loop while other replicas are asked. ERR_CANCELLED: the
 * process must stop. ERR_PRECONDITION: another cluster lists this replica. */
enum err coordinator_directory(struct coordinator *c, struct note *note);

/* Call before the gRPC server listens. Opens also the listener for etcd, if there is one. */
enum err coordinator_etcd_open(struct coordinator *c, struct note *note);

/* Opens the workers' state machine and the parts that it uses. Call before opening the replica. */
enum err coordinator_workers_open(struct coordinator *c, struct note *note);
/* Adds methods to the gRPC server before it listens, then opens the workers' own listener. */
enum err coordinator_workers_serve(struct coordinator *c, struct note *note);
void coordinator_workers_reload(void *state);
/* Call after closing the replica. Turns the loop. */
void coordinator_workers_close(struct coordinator *c);

chassis_step_fn coordinator_dash_open;
void coordinator_dash_stop(struct coordinator *c);
#endif
