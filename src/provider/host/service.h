/* SPDX-License-Identifier: Apache-2.0 */
/* CapacityProvider on a gRPC server: requests into the host, answers when they are durable, Lists
 * as fast as the reader reads. */
#ifndef PROVIDER_HOST_SERVICE_H
#define PROVIDER_HOST_SERVICE_H
#include "provider/host/host.h"
#include "rpc/server.h"

struct host_service;
/* Registers the six methods. Both outlive the server, and the service is closed after it.
 * ERR_NOMEM, what rpc_server_add says. */
enum err host_service_open(struct host *host, struct rpc_server *server,
                           struct host_service **ret_service, struct note *note);
void host_service_close(struct host_service *service); /* NULL is fine */
/* What a server needs so that a shard's List and its thousands of calls fit. */
void host_server_limits(struct rpc_server_limits *limits);
#endif
