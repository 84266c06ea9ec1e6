/* SPDX-License-Identifier: Apache-2.0 */
/* Orders to workers: the control streams, and the orders that wait for workers without one.
 *
 * An order goes down the worker's stream at once. Without one, or while the stream is full, it
 * waits and rides on the reply of the next beat, one a reply. What waits is bounded: an order takes
 * the place of an older one of its kind. Knows no worker and no state; of the leader alone. */
#ifndef MEMBER_CONTROL_H
#define MEMBER_CONTROL_H
#include "base/buf.h"
#include "base/str.h"
#include "rpc/call.h"

enum directive_kind { ORDER_DRAIN, ORDER_SNAPSHOT, ORDER_KINDS };
enum { ORDER_BYTES_MAX = 512 }; /* of an encoded ControlPush */
struct directive {
    enum directive_kind kind;
    uint64_t deadline_ms; /* DRAIN */
    struct str text;      /* kind of the snapshot; cut at 256 bytes */
};

struct control;
struct member_service;
/* Its streams are call streams of the service. */
enum err control_open(struct member_service *service, uint64_t seed, size_t workers_max,
                      struct control **ret_control);
void control_close(struct control *control); /* no stream is left; NULL is fine */

/* The call is a Subscribe that was admitted. The stream that the worker had ends with OK. ERR_FULL,
 * ERR_NOMEM: it is the caller's to finish. */
enum err control_subscribe(struct control *control, struct str worker, struct rpc_call *call);
/* True: it went down the stream. False: it waits for a beat (or was lost for want of memory). */
bool control_push(struct control *control, struct str worker, const struct directive *order);
/* An encoded ControlPush that waited, appended; false: none. */
bool control_take(struct control *control, struct str worker, struct buf *into);
/* The service lets the worker go: its stream ends, what waits is forgotten. */
void control_release(struct control *control, struct str worker);
/* Every stream ends with UNAVAILABLE: another leads, or the server stops. */
void control_end(struct control *control, const char *why);
size_t control_streams(const struct control *control);

#endif
