/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and drains that several roles have: their rows of the table in common/chassis.h. They fill
 * in struct role_base; role_close closes what they opened. */
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
}; /* of gRPC, by the role's three files */

chassis_step_fn role_open_ready; /* the check of the hooks, false until the role says otherwise */
chassis_step_fn role_open_tls;   /* what the hooks say, when there are TLS files */
chassis_step_fn role_open_client_metrics;
chassis_drain_fn role_drain_ready; /* not ready any more: "stopping" */
chassis_drain_fn role_drain_server;

void role_log(struct role_base *role, const char *name, const struct log_field *fields);
/* The gRPC server with its meter; it has no methods and does not listen yet. */
enum err role_open_server(struct role_base *role, const struct rpc_server_options *options,
                          struct note *note);
/* grpc.health and reflection; `service` is `first`, the server itself serves. */
enum err role_open_health(struct role_base *role, const char *service, enum rpc_serving first,
                          struct note *note);
enum err role_listen(struct role_base *role, struct note *note); /* at the option `listen` */
void role_warn_of_listener(const struct role_base *role);        /* when it is open without TLS */
void role_close_server(struct role_base *role); /* turns the loop; once, or never */
void role_close(struct role_base *role);        /* last of all, from any half-built state */

/* The certificates that [transport] names, of the workers' listener or (`worker`) of one worker. What
 * needs attention is on stderr and in the log. */
enum err role_open_worker_ca(const struct role_base *role, const struct log_source *log,
                             const struct member_transport *transport, const struct ulid *worker,
                             struct cert_workers **ret_ca, struct note *note);

/* A gRPC listener beside the role's own, with health; zeroed: none. Its owner closes both parts. */
struct role_listener {
    struct rpc_server *server;
    struct rpc_health *health;
};
enum err role_listener_open(struct role_listener *listener,
                            const struct rpc_server_options *options, struct note *note);
/* `option` is what a note begins with. */
enum err role_listener_listen(struct role_listener *listener, const char *option,
                              const char *address, struct tls_context *tls, struct note *note);
const char *role_listener_address(const struct role_listener *listener); /* "": none */
/* The listener's calls end, and with them this drain of the chassis. */
void role_listener_drain(struct role_listener *listener, struct chassis *chassis);
#endif
