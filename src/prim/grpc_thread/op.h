/* SPDX-License-Identifier: Apache-2.0 */
/* A unary call to the servers, and its answer.
 *
 * The call's time is divided into slices. After a slice without an answer the channel switches
 * to the next server, once for all calls of the silent server (`generation`). A call that may be
 * repeated continues there. Otherwise, if a server may have received an attempt, the outcome is
 * ERR_UNKNOWN. */
#ifndef PRIM_GRPC_THREAD_OP_H
#define PRIM_GRPC_THREAD_OP_H
#include "base/buf.h"
#include "prim/grpc_thread/grpc_thread.h"
#include "wire/message.h"

enum { GRPC_REQUEST_ID_CAP = 56, GRPC_ARENA_LEAST = 1024 * 1024, GRPC_ARENA_GROWTH = 16 };
struct grpc_thread_op {
    const char *path;
    struct buf request;
    int64_t deadline_ns;
    /* For a write whose repeats the server recognises. A rejected repeat does not prove that the
     * first attempt was not applied. */
    char request_id[GRPC_REQUEST_ID_CAP];
    bool idempotent; /* safe to repeat: retried while time is left */
    bool hurried;    /* fails when every address has failed, without a wait */
    bool waits;      /* waits at the server, so silence is no failure */
    bool bare;       /* a call of the store itself, without the headers of `prepare` */
    void (*done)(struct grpc_thread_op *op); /* on the loop's thread; NULL: grpc_op_run waits */
    void *owner;
    /* The answer. */
    enum err err;
    enum grpc_status status;
    bool answered, stopped; /* stopped: grpc_stop_waiting() ended the call */
    char text[160];
    struct buf response;
    /* Used by the gRPC thread. */
    struct grpc_thread *grpc_thread;
    struct rpc_client_call *call;
    struct post post;
    struct list link;
    struct latch wait;
    uint32_t generation;
    uint64_t slice_ms;
    bool doubt; /* an attempt was sent and its outcome is unknown */
    bool again;
    bool refused; /* the hook `refused` has begun the call again */
};
void grpc_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns,
                  size_t request_max, size_t response_max);
void grpc_op_deinit(struct grpc_thread_op *op);
/* Decodes a message into `arena`, which is initialised in any case. */
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
int grpc_op_silence(const struct grpc_thread_op *op); /* COORD_R_*: why there is no answer */
void grpc_op_start(struct grpc_thread *grpc_thread, struct grpc_thread_op *op); /* any thread */
/* Does grpc_op_will_wait, grpc_op_start and latch_wait. Must not be called on the loop's thread. */
void grpc_op_run(struct grpc_thread *grpc_thread, struct grpc_thread_op *op);
void grpc_op_will_wait(struct grpc_thread_op *op);
/* Begins a call that `prepare` kept, or the store's own call. Loop's thread only. */
void grpc_op_begin(struct grpc_thread *grpc_thread, struct grpc_thread_op *op);
void grpc_op_fail(struct grpc_thread_op *op, enum err err, const char *text);

/* Pauses briefly while a store is opened. True: a retry may help. Must not be called on the
 * loop's thread. */
bool grpc_worth_another_probe(const coord_result *result);
/* Ends the calls that wait at the server. No further waiting call begins. Any thread. */
void grpc_stop_waiting(struct grpc_thread *grpc_thread);
#endif
