/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and drains that several roles share, for the table in common/chassis.h. The steps set
 * members of struct role_base; role_close closes the parts that the steps opened. */
#ifndef MUSTER_ROLE_H
#define MUSTER_ROLE_H
#include "cert/workers.h"
#include "common/chassis.h"
#include "member/config/config.h"
#include "rpc/health.h"
#include "rpc/server.h"

enum { ROLE_DRAIN_WITHIN_MS = 5000 };
enum {
    ROLE_TLS_SERVER = BIT(0),
    ROLE_TLS_CLIENT = BIT(1)
}; /* bits: gRPC sides that use the role's three TLS files */

chassis_step_fn role_open_ready; /* adds `ready_check`, at first false */
chassis_step_fn role_open_tls;   /* opens the sides in `tls` */
chassis_step_fn role_open_client_metrics;
chassis_drain_fn role_drain_ready; /* makes the role not ready, with the reason "stopping" */
chassis_drain_fn role_drain_server;

void role_log(struct role_base *role, const char *name, const struct log_field *fields);
/* Opens the gRPC server with its meter. The server has no methods and does not listen yet. */
enum err role_open_server(struct role_base *role, const struct rpc_server_options *options,
                          struct note *note);
/* Adds grpc.health and reflection. `service` begins with status `first`, the server as SERVING. */
enum err role_open_health(struct role_base *role, const char *service, enum rpc_serving first,
                          struct note *note);
enum err role_listen(struct role_base *role, struct note *note);
void role_warn_of_listener(const struct role_base *role); /* warns if it is open without TLS */
void role_close_server(struct role_base *role);           /* turns the loop; once only */
void role_close(struct role_base *role);                  /* last; accepts half-built states */

/* Opens the certificates of [transport]: of the workers' listener, or of one worker if `worker` is
 * set. Prints and logs warnings about the certificates. */
enum err role_open_worker_ca(const struct role_base *role, const struct log_source *log,
                             const struct member_transport *transport, const struct ulid *worker,
                             struct cert_workers **ret_ca, struct note *note);

/* A second gRPC listener with a health service; zeroed: none. The owner closes both members. */
struct role_listener {
    struct rpc_server *server;
    struct rpc_health *health;
};
enum err role_listener_open(struct role_listener *listener,
                            const struct rpc_server_options *options, struct note *note);
/* `option` is the prefix of error notes. */
enum err role_listener_listen(struct role_listener *listener, const char *option,
                              const char *address, struct tls_context *tls, struct note *note);
const char *role_listener_address(const struct role_listener *listener); /* "": none */
/* Ends the calls, then calls chassis_drained. */
void role_listener_drain(struct role_listener *listener, struct chassis *chassis);
#endif
