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
#include "wire/message.h"

struct native_client;
struct native_call;
enum { STORE_ID_FIELD = 15 }; /* number of `store_id` in every request */

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
struct loop *native_client_loop(struct native_client *client);
int64_t native_client_now(const struct native_client *client); /* the store's clock */
/* Runs fn on the loop's thread and waits for it. Not from that thread. */
void native_client_do(struct native_client *client, void (*fn)(void *owner), void *owner);
/* What answers is of no use: the next address is asked. Not from the loop's thread. */
void native_client_move_on(struct native_client *client);
/* Loop thread. Is there anything open that would hang if its server fell silent? */
bool native_client_listens(const struct native_client *client);
/* Any thread: calls that wait at the server end, and none begins any more. */
void native_client_stop_waiting(struct native_client *client);

/* -- unary calls -- */
enum {
    NATIVE_RESPONSE_MAX = 8 * 1024 * 1024,
    NATIVE_REQUEST_MAX = 4 * 1024 * 1024,
};
void native_op_init(struct courier_op *op, const char *path, int64_t deadline_ns);
void native_op_start(struct native_client *client, struct courier_op *op); /* any thread */
void native_op_run(struct native_client *client, struct courier_op *op);   /* not the loop's */

/* -- streams from the server: loop thread only, but for init -- */
struct native_stream {
    /* the owner's */
    const char *path;
    enum err (*on_ask)(struct native_stream *stream, struct buf *request); /* what to ask for */
    void (*on_message)(struct native_stream *stream, struct str message);
    /* `status`, `text`: what the server said, or GRPC_UNAVAILABLE. It is asked again after a pause
     * unless the owner leaves it. */
    void (*on_broken)(struct native_stream *stream, enum grpc_status status, struct str text);
    /* the client's */
    struct native_client *client;
    struct native_call *call; /* NULL: not open */
    struct list link;
    struct timer again;
    struct courier_pace pace;
    bool wanted;
};
enum err native_stream_init(struct native_stream *stream, struct native_client *client,
                            const char *path);
void native_stream_deinit(struct native_stream *stream); /* leaves it, too */
void native_stream_want(struct native_stream *stream);   /* opens it, and again when it ends */
void native_stream_leave(struct native_stream *stream);  /* ends it; nothing is called any more */
void native_stream_reset(struct native_stream *stream);  /* as if it had broken */
#endif
