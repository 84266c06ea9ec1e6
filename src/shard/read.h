/* SPDX-License-Identifier: Apache-2.0 */
/* ShardRead.InspectNeeds: what the last cycle decided for each Need, and why.
 *
 * The decide thread copies the rows as encoded frames. The loop sends the copy as fast as the
 * client reads, so a client never delays the shard. Copies are bounded in number and size, and a
 * client that stops reading is disconnected. Only inspection_write() runs off the loop's thread. */
#ifndef SHARD_READ_H
#define SHARD_READ_H
#include "rpc/server.h"
#include "shard/decide_thread.h"

struct inspections;
struct inspection {        /* one request and its answer */
    struct decide_job job; /* zeroed by inspection_new */
    void *owner;           /* the inspections' owner */
    struct rpc_call *call; /* used by the loop only; NULL: the client is gone */
    struct str text;       /* a cluster (empty: all clusters) or a machine */
    uint32_t limit;        /* limit of Needs; 0: no limit */
    bool unary;            /* `answer` is a single message */
    struct buf answer;     /* one message, or frames that begin with their length */
    enum err err;
};

struct inspections_options {
    struct io *io;
    /* Asks the owner for an answer. The owner must call core_inspect() and inspection_write() on
     * the decide thread, then inspection_done() on the loop, also when the shard closes. */
    void (*inspect)(void *owner, struct inspection *inspection);
    void *owner;
    uint32_t readers_max;     /* readers at a time; 0: 16; more get RESOURCE_EXHAUSTED */
    size_t bytes_max;         /* of one answer; 0: 256 MiB */
    uint64_t read_timeout_ms; /* a client that reads nothing for this time is closed; 0: 60 s */
};
enum err inspections_open(const struct inspections_options *options,
                          struct inspections **ret_inspections); /* ERR_NOMEM */
/* Call after the server is closed and every inspection is done. NULL is fine. */
void inspections_close(struct inspections *inspections);
/* Errors as rpc_server_add. */
enum err inspections_serve(struct inspections *inspections, struct rpc_server *server,
                           struct note *note);
/* Copies the view into the answer. Must be called once, on any thread, before inspection_done().
 * `err`: result of core_inspect(); after an error `view` and `dimensions` may be NULL. */
void inspection_write(struct inspection *inspection, enum err err, const struct needs_view *view,
                      const struct dimensions *dimensions);
/* Must be called once. The owner must not use the inspection afterwards. */
void inspection_done(struct inspection *inspection);

/* For another method that a job answers. If memory runs out, ends the call and returns NULL. */
struct inspection *inspection_new(struct inspections *inspections, struct rpc_call *call,
                                  struct str text, size_t bytes_max);
/* on_done handler of such methods */
void inspection_call_done(void *service, struct rpc_call *call);
/* For a stream: inspection_begin() as inspection_new(), with its bounds. inspection_frame() adds a
 * message on the decide thread. on_writable and on_drain are the handlers. */
struct inspection *inspection_begin(struct inspections *inspections, struct rpc_call *call,
                                    struct str text);
enum err inspection_frame(struct inspection *inspection, struct str frame);
void inspection_on_writable(void *service, struct rpc_call *call);
void inspection_on_drain(void *service, struct rpc_call *call);
#endif
