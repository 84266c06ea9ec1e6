/* SPDX-License-Identifier: Apache-2.0 */
/* A unary call to the servers, and its answer.
 *
 * The call goes out in slices of its time. When a server is silent for a slice, the channel moves
 * on to the next server, once for all calls that met the same silence (`generation`). A call that
 * may be repeated goes on there. If it may not, or if its first slice may have been heard, its
 * outcome is ERR_UNKNOWN. */
#ifndef PRIM_COURIER_OP_H
#define PRIM_COURIER_OP_H
#include "base/buf.h"
#include "prim/courier/courier.h"

enum { COURIER_REQUEST_ID_CAP = 56 };
struct courier_op {
    /* set by courier_op_init and the caller */
    const char *path;
    struct buf request; /* encoded */
    int64_t deadline_ns;
    /* Not empty: the call changes something, and the server recognises a repeat. A server that
     * rejects a repeat without a check says nothing about the first attempt. */
    char request_id[COURIER_REQUEST_ID_CAP];
    bool idempotent; /* a read, or a repeat does no harm: tried again while there is time */
    bool hurried;    /* fail when every address has failed, instead of waiting for one */
    bool waits;      /* silence is no trouble: it waits for its turn at the server */
    bool bare;       /* of the store's own: without what `prepare` adds */
    void (*done)(struct courier_op *op); /* loop's thread; NULL: somebody is in courier_op_run */
    void *owner;
    /* the answer */
    enum err err; /* as rpc_outcome */
    enum grpc_status status;
    bool answered, stopped; /* stopped: by courier_stop_waiting */
    char text[160];
    struct buf response;
    /* the courier's */
    struct courier *courier;
    struct rpc_client_call *call;
    struct post post;
    struct list link;
    struct latch wait;
    uint32_t generation;
    uint64_t slice_ms;
    bool doubt; /* an attempt was sent, and not heard of again */
    bool again;
    bool refused; /* the store's: `refused` has helped it once */
};
void courier_op_init(struct courier_op *op, const char *path, int64_t deadline_ns,
                     size_t request_max, size_t response_max);
void courier_op_deinit(struct courier_op *op);
int courier_op_silence(const struct courier_op *op); /* COORD_R_*: why it was not answered */
void courier_op_start(struct courier *courier, struct courier_op *op); /* any thread */
void courier_op_run(struct courier *courier, struct courier_op *op);   /* waits; not the loop's */
/* Loop thread: for one that `prepare` kept, and for the store's own. */
void courier_op_begin(struct courier *courier, struct courier_op *op);
void courier_op_fail(struct courier_op *op, enum err err, const char *text);

/* While a store is being opened: true, after a short pause, when asking again may help. Not the
 * loop's thread. */
bool courier_ask_again(const coord_result *result);
/* Any thread: calls that wait at the server end, and none begins any more. */
void courier_stop_waiting(struct courier *courier);
#endif
