/* SPDX-License-Identifier: Apache-2.0 */
/* The health service, grpc.health.v1: reports whether a service is ready.
 *
 * The empty name means the whole server. For a name never set, Check returns NOT_FOUND and Watch
 * SERVICE_UNKNOWN. While the server drains, every name is NOT_SERVING, and watches end. */
#ifndef RPC_HEALTH_H
#define RPC_HEALTH_H
#include "rpc/server.h"

struct rpc_health;
enum { RPC_HEALTH_SERVICES_MAX = 256, RPC_HEALTH_NAME_MAX = 256 };
enum rpc_serving { RPC_SERVING = 1, RPC_NOT_SERVING = 2 }; /* numbers of the gRPC health contract */

/* The name "" is NOT_SERVING until it is set. ERR_NOMEM, and the errors of rpc_server_add. */
enum err rpc_health_open(struct rpc_server *server, struct rpc_health **ret_health,
                         struct note *note);
void rpc_health_close(struct rpc_health *health); /* call after rpc_server_close; NULL is fine */
/* Also sends the state to the watchers. ERR_FULL, ERR_TOO_LARGE (name), ERR_NOMEM. */
enum err rpc_health_set(struct rpc_health *health, struct str service, enum rpc_serving state);
#endif
