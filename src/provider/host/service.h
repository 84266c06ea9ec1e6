/* SPDX-License-Identifier: Apache-2.0 */
/* CapacityProvider on a gRPC server: passes requests to the host, sends answers when they are
 * durable, and streams Lists at the speed of the reader. */
#ifndef PROVIDER_HOST_SERVICE_H
#define PROVIDER_HOST_SERVICE_H
#include "provider/host/host.h"
#include "rpc/server.h"

struct host_service;
/* Registers the six methods. Host and service must outlive the server. ERR_NOMEM and errors of
 * rpc_server_add(). */
enum err host_service_open(struct host *host, struct rpc_server *server,
                           struct host_service **ret_service, struct note *note);
void host_service_close(struct host_service *service); /* NULL is allowed */
/* Raises the server's limits so that a shard's List and its thousands of calls fit. */
void host_server_limits(struct rpc_server_limits *limits);
#endif
