/* SPDX-License-Identifier: Apache-2.0 */
/* ShardRead.InspectNeeds: what the last cycle decided for each Need, and why.
 *
 * The rows are copied on the thread that decides, as the frames they will be sent as, and sent from
 * there as fast as the reader reads. So a reader never holds up the shard, and holds nothing of it
 * but its own copy. Copies are bounded in number and size, and a reader that stops reading is ended
 * after a while. The table of access names the roles that may ask. On the loop's thread but for
 * inspection_write. */
#ifndef SHARD_READ_H
#define SHARD_READ_H
#include "rpc/server.h"
#include "shard/decide_thread.h"

struct inspections;
struct inspection {        /* one request; the fields are for its answer */
    struct decide_job job; /* zeroed */
    void *owner;           /* of the inspections */
    struct rpc_call *call; /* the loop's; NULL: nobody reads any more */
    struct str text;       /* of the request: the cluster, empty: all; or the machine */
    uint32_t limit;        /* 0: none */
    bool unary;            /* `answer` is the one message */
    struct buf answer;     /* else frames, each behind its length */
    enum err err;
};

struct inspections_options {
    struct io *io;
    /* Asks for an answer: core_inspect() and inspection_write() on the deciding thread, then
     * inspection_done() on the loop, also when the shard is closing. */
    void (*inspect)(void *owner, struct inspection *inspection);
    void *owner;
    uint32_t readers_max;     /* 0: 16; more get RESOURCE_EXHAUSTED */
    size_t bytes_max;         /* 0: 256 MiB, of one answer; more ends it with RESOURCE_EXHAUSTED */
    uint64_t read_timeout_ms; /* 0: 60 s in which a reader takes nothing */
};
enum err inspections_open(const struct inspections_options *options,
                          struct inspections **ret_inspections); /* ERR_NOMEM */
/* After the server is closed and every inspection done. NULL is fine. */
void inspections_close(struct inspections *inspections);
/* Errors as rpc_server_add. */
enum err inspections_serve(struct inspections *inspections, struct rpc_server *server,
                           struct note *note);
/* Once, on any thread, between `inspect` and inspection_done. The view is copied, its texts by
 * `dimensions`; `err`, if there is one, is core_inspect's, and both may be NULL then. */
void inspection_write(struct inspection *inspection, enum err err, const struct needs_view *view,
                      const struct dimensions *dimensions);
/* Once. The inspection is not the owner's any more. */
void inspection_done(struct inspection *inspection);

/* For other methods whose requests a job answers. NULL: no memory, and the call has failed. */
struct inspection *inspection_new(struct inspections *inspections, struct rpc_call *call,
                                  struct str text, size_t bytes_max);
void inspection_call_done(void *service, struct rpc_call *call); /* their on_done */
#endif
