/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a coordinator as files and streams: its backup methods and its export loop. */
#ifndef MUSTER_COORDINATOR_STATE_H
#define MUSTER_COORDINATOR_STATE_H
#include "conf/conf.h"
#include "fleet/service_snapshot.h"

struct coordinator_state;
/* `options` for the methods; the loop takes what it needs of them, and its own from `conf`. After
 * the replica and the server are open, before the server listens. */
enum err coordinator_state_open(const struct snapshot_service_options *options,
                                const struct conf *conf, struct rpc_server *server,
                                struct coordinator_state **ret_state, struct note *note);
/* Its part of etcd's API, on any server that does not listen yet. */
enum err coordinator_state_etcd(struct coordinator_state *state, struct rpc_server *server,
                                struct note *note);
/* After the servers are closed and before the replica is. NULL is fine. */
void coordinator_state_close(struct coordinator_state *state);
#endif
