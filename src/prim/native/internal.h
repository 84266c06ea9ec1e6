/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share.
 *
 *   backend.c   open, capabilities, pulse, close     requests.c  which request of ours a call is
 *   reply.c     what the store answers               calls.c     entries, leases and slots
 *   feed.c      a watch that resumes: a reader's, and that of prim/guard.c
 *
 * One thread talks to the coordinators (prim/grpc_thread), over a channel that follows the leader.
 * Every call may be sent again: the server knows writes by their request, and reads and renewals do
 * no harm. So a replica that is cut off, stopped or slow costs a caller a slice of its time, not
 * all of it: after a slice in silence the channel moves on, and so do the streams and the calls
 * that wait for a slot, whose place the server keeps. */
#ifndef PRIM_NATIVE_INTERNAL_H
#define PRIM_NATIVE_INTERNAL_H
#include "prim/grpc_thread/stream.h"
#include "prim/names.h"
#include "prim/native/reply.h"

enum {
    NATIVE_TTL_MIN_MS = 500,
    NATIVE_TTL_STEP_MS = 10,
    NATIVE_REQUEST_MAX = 4 * 1024 * 1024,
};
#define NATIVE_PATH(name) "/muster.v1.Coordination/" name

/* -- requests.c -- */
/* Which request of ours a call is: (client, sequence), so that a repeat is answered by the server
 * and not done again.
 *
 * A client id is drawn once, each logical call gets the next sequence, and the ids of the last
 * calls are kept, so that a caller that repeats an id gets its sequence again. The server keeps
 * the answers of 256 sequences; calls that may still be repeated stay within REQUESTS_WINDOW of the
 * newest.
 * A call that finds no room there (very many at once, or one that waits for long) is a client of
 * its own, with its request id for a name. */
enum { REQUESTS_WINDOW = 192, REQUESTS_RING = 256 };

struct native_requests { /* begins with a client id, next 1 and acked 1 */
    pthread_mutex_t lock;
    coord_id client;
    uint64_t next, acked;
    struct request_place {
        coord_id id;
        uint64_t sequence;
        uint32_t inside;  /* calls that are under way with it */
        int64_t until_ns; /* prim may repeat it until then */
    } ring[REQUESTS_RING];
};
struct native_request {
    coord_id client;
    uint64_t sequence, acked;
    bool own; /* a client of its own */
};
void native_request_begin(struct native_requests *requests, const struct prim_call *call,
                          bool waits, int64_t now_ns, struct native_request *ret_request);
/* A refusal that was decided left nothing behind: the same id may be decided anew. */
void native_request_end(struct native_requests *requests, const struct native_request *request,
                        const coord_result *result);

struct native_backend {
    struct prim_backend base;
    struct grpc_thread grpc_thread;
    struct native_requests requests;
    bool bound; /* every request says that it is meant for base.id */
    coord_caps caps;
    /* backend.c: loop thread */
    struct timer pulse;
    struct grpc_thread_op pulse_op;
    bool pulses, pulsing;
};
static inline struct native_backend *native_of(struct prim_backend *base)
{
    return CONTAINER_OF(base, struct native_backend, base);
}

/* -- backend.c: one call -- */
void native_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns);
/* Encodes a request, with the store that it is meant for. */
enum err native_write(const struct native_backend *b, ProtobufCMessage *message, struct buf *into);
struct native_ask {
    const char *path;
    ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *type;  /* of the answer */
    const struct native_request *request_of; /* of a change; NULL: it changes nothing */
    bool waits, hurried;
};
/* OK: *ret_message is in `arena`, which the caller closes in any case; and with
 * COORD_F_MAYBE_APPLIED an earlier attempt may still come, if this answer decides nothing. */
coord_result native_ask(struct native_backend *b, int64_t deadline_ns, const struct native_ask *ask,
                        struct arena *arena, ProtobufCMessage **ret_message);

coord_caps native_capabilities(struct prim_backend *base);
void native_wake(struct prim_backend *base);
void native_close(struct prim_backend *base);

/* R5: every claim is over, and nothing is asked of that store any more. Any thread. */
coord_result native_other_store(struct native_backend *b);

/* -- calls.c -- */
extern const struct prim_backend_ops native_ops;
/* 1 found, 0 absent; not OK: neither. The entry is in `arena`, which the caller closes. */
coord_result native_look(struct native_backend *b, const struct prim_call *call, struct str key,
                         bool stale, struct arena *arena, int *ret_found,
                         struct native_entry *ret_entry);

/* -- feed.c -- */
prim_watch_fn native_watch;
void native_unwatch(struct prim_backend *base, void *watch);
#endif
