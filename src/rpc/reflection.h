/* SPDX-License-Identifier: Apache-2.0 */
/* Server reflection, v1 and v1alpha: tools such as grpcurl need no .proto files.
 *
 * Lists the services that are registered with the server, and returns descriptors as protoc made
 * them, unchanged. The two versions are the same on the wire and share one handler. */
#ifndef RPC_REFLECTION_H
#define RPC_REFLECTION_H
#include "rpc/server.h"

struct rpc_reflection;
/* `descriptors` is an encoded FileDescriptorSet (wire/descriptors.h) that outlives the server.
 * ERR_NOMEM, and what rpc_server_add says. */
enum err rpc_reflection_open(struct rpc_server *server, struct str descriptors,
                             struct rpc_reflection **ret_reflection, struct note *note);
void rpc_reflection_close(struct rpc_reflection *reflection); /* after the server; NULL is fine */
#endif
