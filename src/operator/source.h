/* SPDX-License-Identifier: Apache-2.0 */
/* A source of demand: what stands between one cluster and the operator.
 *
 * A source tells which workloads there are (each for its whole life, never only while it waits for
 * a machine: a request that disappears when it is met is met, withdrawn and asked for again without
 * end) and does what a shard wants done in the cluster: shows the state of machines, drains them.
 * It never sees the shard, its stream or a roll-up. `file.h` is one, `kube/` another.
 *
 * Two directions, both on the loop's thread:
 *
 *   struct source_ops   what the operator asks of a source. None waits: a source that has to (a
 *                       file, an API server) does so on a worker or a thread of its own.
 *   operator_*()        what a source tells the operator; from a callback of the loop, from
 *                       start() on and until close(), and never from inside another source_ops
 *                       call but start().
 *
 * The surprising rule: nothing is said to the shard about demand before the source has told all of
 * it once (operator_list_end). A source that is not sure what there is stays silent, and the demand
 * of before stays in force; an empty list means "no demand", and costs the cluster its machines. */
#ifndef OPERATOR_SOURCE_H
#define OPERATOR_SOURCE_H
#include "base/note.h"
#include "operator/core/nodes.h"
#include "operator/core/request.h"

struct operator_host;
struct demand_source;
struct io;
struct log_source;
struct metrics;

/* What a source may use; the operator's, as long as the source is open. */
struct operator_around {
    struct io *io;
    const struct log_source *log;
    struct metrics *metrics; /* may be NULL */
    struct str cluster;      /* its id */
    const char *state_dir;   /* private to this process */
};

/* The shard wants to know with what a new machine is started. */
struct blob_request {
    struct str request_id; /* 16 hex digits; to be given back */
    const struct requirement *requirements;
    size_t requirement_count;
};
/* The shard takes a machine back: no new work there, and what runs moved away within the grace. */
struct reclaim_order {
    struct str instruction_id;
    struct str machine_id;
    struct str node_name, provider_id; /* as far as they are known; empty otherwise */
    uint64_t grace_ms;                 /* from now */
    int32_t preemptor_priority;        /* 0: nobody, the machine is not needed any more */
    bool resumed; /* it was given before this process started; what was done of it is not known */
};
/* How much more of one profile could be had. */
struct available {
    struct str key; /* "available:" and the fingerprint */
    const struct requirement *requirements;
    size_t requirement_count;
    uint32_t count;
    uint32_t confidence; /* the wire's: 1 NONE, 2 LOW, 3 MEDIUM, 4 HIGH */
    double cost_per_hour;
};

/* Strings and lists handed to a source are valid during the call. NULL stands for "does not care"
 * where a line says so. */
struct source_ops {
    const char *name; /* for the log: "file" */
    /* Begins. Errors here end the process with the note; what may pass later is no error. */
    enum err (*start)(struct demand_source *source, struct operator_host *host,
                      const struct operator_around *around, struct note *note);
    /* operator_find_node() says something else of it than before, or nothing any more. */
    void (*node_changed)(struct demand_source *source, struct str machine_id);
    /* The shard has told of all machines of the cluster: whatever is shown and is not known to
     * operator_find_node() has left while nobody looked. NULL. */
    void (*nodes_whole)(struct demand_source *source);
    /* A hint; the newest of a key counts. NULL. */
    void (*available)(struct demand_source *source, const struct available *hint);
    /* The shard has taken every request up to this change (operator_put), and has told of all its
     * machines before the first such word. NULL. */
    void (*taken)(struct demand_source *source, uint64_t change);
    /* Take it out of use; operator_reclaim_started() as soon as no new work goes there, then move
     * what runs there, then operator_reclaim_ended(). May come again for the same instruction after
     * a restart (`resumed`): doing it twice must do no harm. */
    void (*reclaim)(struct demand_source *source, const struct reclaim_order *order);
    /* Its grace is over, or a newer order replaced it: stop; nothing is to be told of it any
     * more. */
    void (*reclaim_over)(struct demand_source *source, struct str instruction_id);
    /* Is it of use now? False: the reason is what /readyz shows. NULL: always. */
    bool (*ready)(struct demand_source *source, struct note *reason);
    /* Nothing is asked of it and nothing told by it from here on; done() once nothing is left,
     * also from inside this call. Comes exactly once, whether or not start() went well. */
    void (*close)(struct demand_source *source, void (*done)(void *owner), void *owner);
};
struct demand_source { /* first in every implementation's own */
    const struct source_ops *ops;
};

/* -- demand -- */
/* One request, new or changed; `id` is the source's own name for it, at most ID_MAX bytes (a
 * Kubernetes UID, say). It is checked as the shard checks it, since one bad row would cost the
 * cluster its whole roll-up. An error names the field and leaves the earlier request under this id
 * as it was:
 *   ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE   malformed
 *   ERR_UNSUPPORTED                         well formed, but no machine can ever satisfy it
 *   ERR_FULL                                too many requests, rows or resource names
 *   ERR_NOMEM
 * *ret_change (may be NULL) is for source_ops.taken. */
enum err operator_put(struct operator_host *host, struct str id,
                      const struct capacity_request *request, uint64_t *ret_change,
                      struct note *note);
void operator_remove(struct operator_host *host, struct str id); /* fine when it is not there */
/* Would operator_put take it? For a source that takes all of an edit or nothing. Changes nothing;
 * ERR_FULL is not foreseen. */
enum err operator_check(struct operator_host *host, const struct capacity_request *request,
                        struct note *note);
/* Everything follows; at the end what was not put since the beginning is removed. The first end
 * lets demand out to the shard. Until the end of a list nothing is sent: a half-told list is no
 * demand. A list that cannot be told to its end is given up: nothing is removed. */
void operator_list_begin(struct operator_host *host);
void operator_list_end(struct operator_host *host);
void operator_list_give_up(struct operator_host *host);

/* -- machines -- */
const struct cluster_node *operator_find_node(const struct operator_host *host,
                                              struct str machine_id);
/* Walks all machines; *cursor begins at 0; NULL at the end. */
const struct cluster_node *operator_each_node(const struct operator_host *host, size_t *cursor);

/* -- answers -- */
void operator_reclaim_started(struct operator_host *host, struct str instruction_id);
/* `why` is empty when everything has moved away. */
void operator_reclaim_ended(struct operator_host *host, struct str instruction_id, struct str why);
#endif
