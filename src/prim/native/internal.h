/* SPDX-License-Identifier: Apache-2.0 */
/* Shared declarations of the muster backend.
 *
 *   backend.c   open, capabilities, pulse, close     requests.c  request ids of calls
 *   reply.c     decoding of answers                  calls.c     entries, leases and slots
 *   feed.c      resumable watches, also for prim/guard.c
 *
 * One thread talks to the coordinators (prim/grpc_thread), over a channel that follows the
 * leader. Every call may be repeated, so a silent replica costs a call only a slice of its time.
 * Then the channel switches to the next server, with all streams and waiting calls. */
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
 * again. A client id is random, and each logical call gets the next sequence. Recent request ids
 * are kept, so that a repeated id gets the same sequence.
 *
 * The server keeps the answers of 256 sequences, and repeats stay within REQUESTS_WINDOW of the
 * newest. A call outside this window becomes a separate client, with its request id as client
 * id. */
enum { REQUESTS_WINDOW = 192, REQUESTS_RING = 256 };

struct native_requests { /* at first: a random client id, next = 1, acked = 1 */
    pthread_mutex_t lock;
    coord_id client;
    uint64_t next, acked;
    struct request_place {
        coord_id id;
        uint64_t sequence;
        uint32_t inside;
        int64_t until_ns; /* until then prim may repeat the request */
    } ring[REQUESTS_RING];
};
struct native_request {
    coord_id client;
    uint64_t sequence, acked;
    bool own; /* the request has its own client id */
};
void native_request_begin(struct native_requests *requests, const struct prim_call *call,
                          bool waits, int64_t now_ns, struct native_request *ret_request);
/* A decided refusal had no effect, so the same id may be decided again. */
void native_request_end(struct native_requests *requests, const struct native_request *request,
                        const coord_result *result);

struct native_backend {
    struct prim_backend base;
    struct grpc_thread grpc_thread;
    struct native_requests requests;
    bool bound; /* requests name base.id as their store */
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
/* Adds the intended store. */
enum err native_write(const struct native_backend *b, ProtobufCMessage *message, struct buf *into);
struct native_ask {
    const char *path;
    ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *type;
    const struct native_request *request_of; /* the request of a change; NULL: a read */
    bool waits, hurried;
};
/* OK: *ret_message is in `arena`, which the caller always closes. COORD_F_MAYBE_APPLIED: the
 * answer decides nothing, and an earlier attempt may still apply. */
coord_result native_ask(struct native_backend *b, int64_t deadline_ns, const struct native_ask *ask,
                        struct arena *arena, ProtobufCMessage **ret_message);

coord_caps native_capabilities(struct prim_backend *base);
void native_wake(struct prim_backend *base);
void native_close(struct prim_backend *base);

/* Call if the server is another store (R5). Ends every claim and stops all requests. Any thread. */
coord_result native_other_store(struct native_backend *b);

/* -- calls.c -- */
extern const struct prim_backend_ops native_ops;
/* OK: *ret_found is 1 (found) or 0 (absent), else unknown. The entry is in `arena`, which the
 * caller must close. */
coord_result native_look(struct native_backend *b, const struct prim_call *call, struct str key,
                         bool stale, struct arena *arena, int *ret_found,
                         struct native_entry *ret_entry);

/* -- feed.c -- */
prim_watch_fn native_watch;
void native_unwatch(struct prim_backend *base, void *watch);
#endif
