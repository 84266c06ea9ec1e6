/* SPDX-License-Identifier: Apache-2.0 */
/* The health service, grpc.health.v1: is a service ready to be called?
 *
 * The empty name means the server as a whole. A name that was never set is NOT_FOUND for Check and
 * SERVICE_UNKNOWN for Watch. When the server drains, everything reads NOT_SERVING and watches
 * end. */
#ifndef RPC_HEALTH_H
#define RPC_HEALTH_H
#include "rpc/server.h"

struct rpc_health;
enum { RPC_HEALTH_SERVICES_MAX = 256, RPC_HEALTH_NAME_MAX = 256 };
enum rpc_serving { RPC_SERVING = 1, RPC_NOT_SERVING = 2 }; /* the numbers of the contract */

/* Adds the service to the server; "" is NOT_SERVING until it is set. ERR_NOMEM, and what
 * rpc_server_add says. */
enum err rpc_health_open(struct rpc_server *server, struct rpc_health **ret_health,
                         struct note *note);
void rpc_health_close(struct rpc_health *health); /* after the server is gone; NULL is fine */
/* Sends it to the watchers. ERR_FULL, ERR_TOO_LARGE (name), ERR_NOMEM. */
enum err rpc_health_set(struct rpc_health *health, struct str service, enum rpc_serving state);
#endif
