/* SPDX-License-Identifier: Apache-2.0 */
/* Shared declarations of the muster backend.
 *
 *   backend.c   open, capabilities, pulse, close     requests.c  request ids of calls
 *   reply.c     decoding of answers                  calls.c     entries, leases and slots
 *   feed.c      resumable watches, also for prim/guard.c
 *
 * One thread talks to the coordinators (prim/grpc_thread), over a channel that follows the leader.
 * Every call may be repeated: the server recognises repeated writes by their request, and repeated
 * reads and renewals are harmless. So a replica that is cut off, stopped or slow costs a call only
 * a slice of its time. After a slice without an answer the channel switches to the next server. The
 * streams and the calls that wait for a slot switch, too, and the server keeps their place in the
 * queue. */
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
/* Assigns (client, sequence) to calls, so that the server answers a repeat without applying it
 * again.
 *
 * A client id is generated once, and each logical call gets the next sequence. The request ids of
 * recent calls are kept, so that a caller that repeats an id gets the same sequence. The server
 * keeps the answers of 256 sequences. Calls that may still be repeated stay within REQUESTS_WINDOW
 * of the newest sequence. A call outside this window (very many calls, or a call that waits for
 * long) becomes a separate client, with its request id as client id. */
enum { REQUESTS_WINDOW = 192, REQUESTS_RING = 256 };

struct native_requests { /* at first: a random client id, next = 1, acked = 1 */
    pthread_mutex_t lock;
    coord_id client;
    uint64_t next, acked;
    struct request_place {
        coord_id id;
        uint64_t sequence;
        uint32_t inside;  /* number of calls under way with this sequence */
        int64_t until_ns; /* time until which prim may repeat the request */
    } ring[REQUESTS_RING];
};
struct native_request {
    coord_id client;
    uint64_t sequence, acked;
    bool own; /* the request has its own client id */
};
void native_request_begin(struct native_requests *requests, const struct prim_call *call,
                          bool waits, int64_t now_ns, struct native_request *ret_request);
/* Ends a request. A decided refusal had no effect, so the same id may be decided again. */
void native_request_end(struct native_requests *requests, const struct native_request *request,
                        const coord_result *result);

struct native_backend {
    struct prim_backend base;
    struct grpc_thread grpc_thread;
    struct native_requests requests;
    bool bound; /* every request names base.id as its intended store */
    coord_caps caps;
    /* backend.c: loop thread only */
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
/* Encodes a request and adds the intended store. */
enum err native_write(const struct native_backend *b, ProtobufCMessage *message, struct buf *into);
struct native_ask {
    const char *path;
    ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *type;  /* message type of the answer */
    const struct native_request *request_of; /* the request of a change; NULL: a read */
    bool waits, hurried;
};
/* Makes a call. On OK *ret_message is in `arena`; the caller must close `arena` in any case.
 * COORD_F_MAYBE_APPLIED: the answer decides nothing, and an earlier attempt may still apply. */
coord_result native_ask(struct native_backend *b, int64_t deadline_ns, const struct native_ask *ask,
                        struct arena *arena, ProtobufCMessage **ret_message);

coord_caps native_capabilities(struct prim_backend *base);
void native_wake(struct prim_backend *base);
void native_close(struct prim_backend *base);

/* Ends every claim and stops all requests, because the store is another one (R5). Any thread. */
coord_result native_other_store(struct native_backend *b);

/* -- calls.c -- */
extern const struct prim_backend_ops native_ops;
/* Reads an entry. With OK, *ret_found is 1 (found) or 0 (absent). After any other result *ret_found
 * is unknown. The entry is in `arena`, which the caller must close. */
coord_result native_look(struct native_backend *b, const struct prim_call *call, struct str key,
                         bool stale, struct arena *arena, int *ret_found,
                         struct native_entry *ret_entry);

/* -- feed.c -- */
prim_watch_fn native_watch;
void native_unwatch(struct prim_backend *base, void *watch);
#endif
