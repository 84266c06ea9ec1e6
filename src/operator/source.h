/* SPDX-License-Identifier: Apache-2.0 */
/* A source of demand: the part of an operator that knows one kind of cluster.
 *
 * A source puts the cluster's workloads into the demand table and does what a shard wants done in
 * the cluster: it shows the state of machines and drains them. A workload stays in the table for
 * its whole life, not only while it waits for a machine: a request that disappears when it is met
 * would be met, withdrawn and asked for again without end. A source never sees the shard, its
 * stream or a roll-up. `file.h` is one source, `kube/` another.
 *
 * Two directions, both on the loop's thread:
 *
 *   struct source_ops   what the operator asks of a source. No call waits: a source that must wait
 *                       for a file or an API server does so on a thread of its own.
 *   struct operator_around, operator_*()
 *                       what a source uses of the operator; from a callback of the loop, from
 *                       start() on and until close(), and never from inside another source_ops
 *                       call but start(). The operator notices changes of demand at the end of
 *                       the turn.
 *
 * The surprising rule: the operator sends no demand before the source has ended its first list
 * (demand_list_end). A source that is not sure what there is ends no list, and the earlier demand
 * stays in force. An empty list means "no demand" and costs the cluster its machines. */
#ifndef OPERATOR_SOURCE_H
#define OPERATOR_SOURCE_H
#include "base/note.h"
#include "operator/core/demand.h"
#include "operator/core/nodes.h"

struct operator_host;
struct demand_source;
struct io;
struct log_source;
struct metrics;

/* The parts of the operator that a source may use, as long as the source is open. */
struct operator_around {
    struct io *io;
    const struct log_source *log;
    struct metrics *metrics; /* may be NULL */
    struct str cluster;      /* its id */
    const char *state_dir;   /* private to this process */
    struct operator_host *host;
    struct demand *demand;
    const struct nodes *nodes;
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

/* Strings and lists that a source gets are valid during the call. A member may be NULL where its
 * comment ends with NULL. */
struct source_ops {
    const char *name; /* for the log: "file" */
    /* Begins. Errors here end the process with the note; what may pass later is no error. */
    enum err (*start)(struct demand_source *source, const struct operator_around *around,
                      struct note *note);
    /* nodes_find() returns something else for the machine than before, or nothing any more. */
    void (*node_changed)(struct demand_source *source, struct str machine_id);
    /* The shard has reported all machines of the cluster: a machine that is shown and that
     * nodes_find() does not return has left the cluster. NULL. */
    void (*nodes_whole)(struct demand_source *source);
    /* A hint; the newest of a key counts. NULL. */
    void (*available)(struct demand_source *source, const struct available *hint);
    /* The shard has taken every request up to this change (demand_put), and has reported all its
     * machines before the first such message. NULL. */
    void (*taken)(struct demand_source *source, uint64_t change);
    /* Take it out of use; operator_reclaim_started() as soon as no new work goes there, then move
     * what runs there, then operator_reclaim_ended(). May come again for the same instruction after
     * a restart (`resumed`): doing it twice must do no harm. */
    void (*reclaim)(struct demand_source *source, const struct reclaim_order *order);
    /* Its grace is over, or a newer order replaced it: stop; it is not reported any
     * more. */
    void (*reclaim_over)(struct demand_source *source, struct str instruction_id);
    /* Is it of use now? False: the reason is what /readyz shows. NULL: always. */
    bool (*ready)(struct demand_source *source, struct note *reason);
    /* Frees the source, whether or not start() went well. Commands that run are killed. */
    void (*close)(struct demand_source *source);
};
struct demand_source { /* first in every implementation's own */
    const struct source_ops *ops;
};

/* -- answers -- */
void operator_reclaim_started(struct operator_host *host, struct str instruction_id);
/* `why` is empty when everything has moved away. */
void operator_reclaim_ended(struct operator_host *host, struct str instruction_id, struct str why);
#endif
