/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of calls, per method.
 *
 *   muster_rpc_server_calls_total{method,code}     ended calls
 *   muster_rpc_server_seconds{method}              from the request's headers to its status
 *   muster_rpc_server_bytes_total{method,direction}    messages, without framing
 *   muster_rpc_server_running                      running calls
 *   muster_rpc_server_connections                  open connections
 *   muster_rpc_server_refused_total{reason}        refused connections and calls
 *
 * Calls of unregistered paths count under the method "unknown". One meter serves all servers of a
 * process and is closed after them. */
#ifndef RPC_METER_H
#define RPC_METER_H
#include "base/note.h"
#include "obs/metrics.h"

struct rpc_meter;
/* ERR_EXISTS (`metrics` has a meter), ERR_FULL, ERR_NOMEM. `metrics` must outlive the meter. */
enum err rpc_meter_open(struct metrics *metrics, struct rpc_meter **ret_meter, struct note *note);
void rpc_meter_close(struct rpc_meter *meter); /* NULL is fine */
#endif
