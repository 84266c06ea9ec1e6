/* SPDX-License-Identifier: Apache-2.0 */
/* A unary call to the servers, and its answer.
 *
 * The call goes out in slices of its time. When a server is silent for a slice, the channel moves
 * on to the next server, once for all calls that met the same silence (`generation`). A call that
 * may be repeated goes on there. If it may not, or if its first slice may have been heard, its
 * outcome is ERR_UNKNOWN. */
#ifndef PRIM_GRPC_THREAD_OP_H
#define PRIM_GRPC_THREAD_OP_H
#include "base/buf.h"
#include "prim/grpc_thread/grpc_thread.h"
#include "wire/message.h"

enum { GRPC_REQUEST_ID_CAP = 56, GRPC_ARENA_LEAST = 1024 * 1024, GRPC_ARENA_GROWTH = 16 };
struct grpc_thread_op {
    /* set by grpc_op_init and the caller */
    const char *path;
    struct buf request; /* encoded */
    int64_t deadline_ns;
    /* Not empty: the call changes something, and the server recognises a repeat. A server that
     * rejects a repeat without a check says nothing about the first attempt. */
    char request_id[GRPC_REQUEST_ID_CAP];
    bool idempotent; /* a read, or a repeat does no harm: tried again while there is time */
    bool hurried;    /* fail when every address has failed, instead of waiting for one */
    bool waits;      /* silence is no trouble: it waits for its turn at the server */
    bool bare;       /* of the store's own: without what `prepare` adds */
    void (*done)(struct grpc_thread_op *op); /* loop's thread; NULL: somebody is in grpc_op_run */
    void *owner;
    /* the answer */
    enum err err; /* as rpc_outcome */
    enum grpc_status status;
    bool answered, stopped; /* stopped: by grpc_stop_waiting */
    char text[160];
    struct buf response;
    /* the gRPC thread */
    struct grpc_thread *grpc_thread;
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
void grpc_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns,
                  size_t request_max, size_t response_max);
void grpc_op_deinit(struct grpc_thread_op *op);
/* Decodes a message into `arena`, whose ceiling follows its size; it is initialised in any case. */
static inline enum err grpc_read(struct str bytes, const ProtobufCMessageDescriptor *type,
                                 struct arena *arena, ProtobufCMessage **ret_message)
{
    arena_init(arena, GRPC_ARENA_GROWTH * bytes.len + GRPC_ARENA_LEAST);
    return message_read(type, bytes, NULL, arena, ret_message, NULL);
}
static inline ProtobufCBinaryData grpc_bytes(struct str s)
{
    return (ProtobufCBinaryData){s.len, (uint8_t *)s.at};
}
static inline struct str grpc_str(ProtobufCBinaryData b)
{
    return b.len ? str_of(b.data, b.len) : STR_EMPTY;
}
int grpc_op_silence(const struct grpc_thread_op *op); /* COORD_R_*: why it was not answered */
void grpc_op_start(struct grpc_thread *grpc_thread, struct grpc_thread_op *op); /* any thread */
/* Waits; not the loop's thread. Or in three steps: will_wait, start, latch_wait(&op->wait). */
void grpc_op_run(struct grpc_thread *grpc_thread, struct grpc_thread_op *op);
void grpc_op_will_wait(struct grpc_thread_op *op);
/* Loop thread: for one that `prepare` kept, and for the store's own. */
void grpc_op_begin(struct grpc_thread *grpc_thread, struct grpc_thread_op *op);
void grpc_op_fail(struct grpc_thread_op *op, enum err err, const char *text);

/* While a store is being opened: true, after a short pause, when asking again may help. Not the
 * loop's thread. */
bool grpc_worth_another_probe(const coord_result *result);
/* Any thread: calls that wait at the server end, and none begins any more. */
void grpc_stop_waiting(struct grpc_thread *grpc_thread);
#endif
