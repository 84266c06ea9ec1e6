/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that talks to the coordinators: a loop, a channel that follows the leader, unary calls
 * that other threads wait for, and streams that come back by themselves.
 *
 * Every call may be sent again: the server knows writes by their request, and reads and renewals do
 * no harm. So a replica that is cut off, stopped or slow costs a caller a slice of its time, not
 * all of it: after a slice in silence the channel moves on, and so do the streams and the calls
 * that wait for a slot, whose place the server keeps. Only the first of many calls that met the
 * same trouble moves it (`generation`). */
#ifndef PRIM_NATIVE_CLIENT_H
#define PRIM_NATIVE_CLIENT_H
#include "base/buf.h"
#include "prim/courier/op.h"
#include "prim/courier/stream.h"
#include "wire/message.h"

enum { STORE_ID_FIELD = 15 }; /* number of `store_id` in every request */
struct native_client {
    struct courier courier;
    coord_id store_id; /* zero: not known yet */
};

struct native_client_options {
    const struct courier_servers *servers; /* copied */
    struct prim_clock clock;
};
/* ERR_INVALID, ERR_NOMEM, ERR_IO and what reading certificates gives, with a note. */
enum err native_client_open(const struct native_client_options *options,
                            struct native_client **ret_client, struct note *note);
/* Every call and stream ends first (ERR_CANCELLED, ERR_UNKNOWN), then the thread. */
void native_client_close(struct native_client *client);
/* From now on every request says which store it is meant for. Before threads ask. */
void native_client_bind(struct native_client *client, const coord_id *store_id);
/* Encodes it, with that. */
enum err native_client_write(const struct native_client *client, ProtobufCMessage *message,
                             struct buf *into);

/* -- unary calls -- */
enum {
    NATIVE_RESPONSE_MAX = 8 * 1024 * 1024,
    NATIVE_REQUEST_MAX = 4 * 1024 * 1024,
};
void native_op_init(struct courier_op *op, const char *path, int64_t deadline_ns);
#endif
