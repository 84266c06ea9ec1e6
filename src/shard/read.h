/* SPDX-License-Identifier: Apache-2.0 */
/* ShardRead.InspectNeeds: what the last cycle decided for each Need, and why.
 *
 * The decide thread copies the rows as encoded frames. The loop then sends the copy as fast as the
 * client reads. Therefore a client never delays the shard, and its only memory is its copy. Copies
 * are bounded in number and size. A client that stops reading is disconnected after a timeout. The
 * access table names the roles that may read. Only inspection_write runs off the loop's thread. */
#ifndef SHARD_READ_H
#define SHARD_READ_H
#include "rpc/server.h"
#include "shard/decide_thread.h"

struct inspections;
struct inspection {        /* one request and its answer */
    struct decide_job job; /* zeroed by inspection_new */
    void *owner;           /* the inspections' owner */
    struct rpc_call *call; /* only the event loop uses the call; NULL: the client is gone */
    struct str text;       /* what is requested: a cluster (empty: all clusters) or a machine */
    uint32_t limit;        /* limit of Needs in the answer; 0: no limit */
    bool unary;            /* true: `answer` is a single message */
    struct buf answer;     /* one message, or (not `unary`) frames that begin with their length */
    enum err err;
};

struct inspections_options {
    struct io *io;
    /* Asks the owner for an answer. The owner calls core_inspect() and inspection_write() on the
     * decide thread, then inspection_done() on the loop, also when the shard is closing. */
    void (*inspect)(void *owner, struct inspection *inspection);
    void *owner;
    uint32_t readers_max;     /* readers at once, 0 means 16; others get RESOURCE_EXHAUSTED */
    size_t bytes_max;         /* limit of one answer, in bytes; 0 means 256 MiB */
    uint64_t read_timeout_ms; /* a client that reads nothing for this time is closed; 0: 60 s */
};
enum err inspections_open(const struct inspections_options *options,
                          struct inspections **ret_inspections); /* ERR_NOMEM */
/* Call after the server is closed and every inspection is done. NULL is fine. */
void inspections_close(struct inspections *inspections);
/* Errors as rpc_server_add. */
enum err inspections_serve(struct inspections *inspections, struct rpc_server *server,
                           struct note *note);
/* Copies the view, with resource names from `dimensions`, into the answer. Must be called once, on
 * any thread, between `inspect` and inspection_done(). `err` is the result of core_inspect(). After
 * an error `view` and `dimensions` may be NULL. */
void inspection_write(struct inspection *inspection, enum err err, const struct needs_view *view,
                      const struct dimensions *dimensions);
/* Ends an inspection. Must be called once; the owner must not use the inspection afterwards. */
void inspection_done(struct inspection *inspection);

/* Creates an inspection for another method that a job answers. If memory is lacking, ends the call
 * with an error and returns NULL. */
struct inspection *inspection_new(struct inspections *inspections, struct rpc_call *call,
                                  struct str text, size_t bytes_max);
/* on_done handler of such methods */
void inspection_call_done(void *service, struct rpc_call *call);
#endif
