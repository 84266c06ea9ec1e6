/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of a coordinator: the third state machine on its log, rollout's services and ours on the
 * gRPC port, and with a [transport] section a listener of their own, mTLS always. */
#ifndef MUSTER_COORDINATOR_WORKERS_H
#define MUSTER_COORDINATOR_WORKERS_H
#include "log/log.h"
#include "muster/role.h"
#include "rpc/meter.h"

struct coordinator_workers;
struct coordinator_workers_options {
    struct chassis *chassis;
    struct tls_context *tls; /* to the leader's gRPC port; NULL: plaintext */
    const char *(*leader_address)(void *owner);
    void *owner;
};
/* A half-built one is given all the same: its owner closes it. */
enum err coordinator_workers_open(const struct coordinator_workers_options *options,
                                  struct coordinator_workers **ret_workers, struct note *note);
struct machine coordinator_workers_machine(struct coordinator_workers *workers);
void coordinator_workers_attach(struct coordinator_workers *workers, struct replica *replica);
/* Methods on the gRPC port's server, which does not listen yet; then our own listener. */
enum err coordinator_workers_serve(struct coordinator_workers *workers, struct rpc_server *server,
                                   struct rpc_meter *meter, struct note *note);
void coordinator_workers_on_change(struct coordinator_workers *workers,
                                   const struct replica_status *status);
/* SIGHUP: takes what may change, and new certificates. */
void coordinator_workers_reload(struct coordinator_workers *workers);
/* NULL of NULL. */
struct role_listener *coordinator_workers_listener(struct coordinator_workers *workers);
bool coordinator_workers_own_stdout(const struct coordinator_workers *workers);
/* From any half-built state; NULL is fine. The gRPC port's server is closed; turns the loop. */
void coordinator_workers_stop(struct coordinator_workers *workers);
void coordinator_workers_close(struct coordinator_workers *workers); /* after the replica */
#endif
