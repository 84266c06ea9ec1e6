/* SPDX-License-Identifier: Apache-2.0 */
/* Server reflection, v1 and v1alpha, so that tools such as grpcurl need no .proto files. Lists the
 * registered services and returns protoc's descriptors unchanged. */
#ifndef RPC_REFLECTION_H
#define RPC_REFLECTION_H
#include "rpc/server.h"

struct rpc_reflection;
/* `descriptors`: an encoded FileDescriptorSet (wire/descriptors.h) that must outlive the server.
 * ERR_NOMEM, and the errors of rpc_server_add. */
enum err rpc_reflection_open(struct rpc_server *server, struct str descriptors,
                             struct rpc_reflection **ret_reflection, struct note *note);
/* call after the server is closed; NULL is fine */
void rpc_reflection_close(struct rpc_reflection *reflection);
#endif
