/* SPDX-License-Identifier: Apache-2.0 */
/* Which request of ours a call is: (client, sequence), so that a repeat is answered by the server
 * and not done again.
 *
 * A client id is drawn once, each logical call gets the next sequence, and the ids of the last
 * calls are kept, so that a caller that repeats an id gets its sequence again. The server keeps
 * the answers of 256 sequences; calls that may still be repeated stay within REQUESTS_WINDOW of the newest.
 * A call that finds no room there (very many at once, or one that waits for long) is a client of
 * its own, with its request id for a name. */
#ifndef PRIM_NATIVE_REQUESTS_H
#define PRIM_NATIVE_REQUESTS_H
#include "prim/backend.h"
#include "prim/thread.h"

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
#endif
