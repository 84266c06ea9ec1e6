/* SPDX-License-Identifier: Apache-2.0 */
/* A source of demand: the part of an operator that knows one kind of cluster.
 *
 * A source puts the cluster's workloads into the demand table, shows the state of machines in the
 * cluster and drains machines. A workload stays in the table for its whole life, even after it got
 * a machine. If its request disappeared once it is met, the request would be met, withdrawn and
 * repeated without end. A source never sees the shard, its stream or a roll-up. `file.h` is one
 * source, `kube/` is another.
 *
 * There are two directions, both on the loop's thread:
 *
 *   struct source_ops   what the operator calls in a source. No call may block: a source that must
 *                       wait for a file or an API server does so on a thread of its own.
 *   struct operator_around, operator_*()
 *                       what a source uses of the operator. Allowed in callbacks of the loop and in
 *                       start(), until close(), but not inside other source_ops calls. The operator
 *                       notices changes of demand at the end of the turn.
 *
 * The surprising rule: the operator sends no demand before the source has ended its first list
 * (demand_list_end). A source that may lack workloads must not end a list, so that the earlier
 * demand stays in force. An empty list means "no demand" and costs the cluster its machines. */
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

/* The parts of the operator that a source may use while the source is open. */
struct operator_around {
    struct io *io;
    const struct log_source *log;
    struct metrics *metrics; /* may be NULL */
    struct str cluster;      /* id of the cluster */
    const char *state_dir;   /* private to this process */
    struct operator_host *host;
    struct demand *demand;
    const struct nodes *nodes;
};

/* A request of the shard for the bootstrap data of a new machine. */
struct blob_request {
    struct str request_id; /* 16 hex digits; returned with the answer */
    const struct requirement *requirements;
    size_t requirement_count;
};
/* The shard's order to reclaim a machine: give it no new work, and drain it in the grace period. */
struct reclaim_order {
    struct str instruction_id;
    struct str machine_id;
    struct str node_name, provider_id; /* empty if not known */
    uint64_t grace_ms;                 /* milliseconds left from now on */
    int32_t preemptor_priority;        /* 0: not a preemption; the machine is not needed any more */
    bool resumed; /* an earlier process got the order; its progress is unknown */
};
/* A hint: how much more capacity of one profile is available. */
struct available {
    struct str key; /* "available:" and the fingerprint of the profile */
    const struct requirement *requirements;
    size_t requirement_count;
    uint32_t count;
    uint32_t confidence; /* as on the wire: 1 NONE, 2 LOW, 3 MEDIUM, 4 HIGH */
    double cost_per_hour;
};

/* The operations of a source. Texts and lists passed to a source are valid during the call. Members
 * whose comment says "may be NULL" are optional. */
struct source_ops {
    const char *name; /* name in the log, for example "file" */
    /* Starts the source. An error ends the process, so temporary problems must not be errors. */
    enum err (*start)(struct demand_source *source, const struct operator_around *around,
                      struct note *note);
    /* Called when nodes_find() returns a new result, because the machine changed or left. */
    void (*node_changed)(struct demand_source *source, struct str machine_id);
    /* Called when the shard has reported all machines of the cluster. A shown machine that
     * nodes_find() does not return has then left the cluster. May be NULL. */
    void (*nodes_whole)(struct demand_source *source);
    /* Passes a hint, which replaces an earlier hint with the same key. May be NULL. */
    void (*available)(struct demand_source *source, const struct available *hint);
    /* The shard has accepted all requests up to `change`, a number from demand_put(). The shard has
     * reported all machines before the first such call. May be NULL. */
    void (*taken)(struct demand_source *source, uint64_t change);
    /* Takes the machine out of use. The source calls operator_reclaim_started() as soon as the
     * machine gets no new work, moves the workload, then calls operator_reclaim_ended(). A restart
     * may repeat an instruction (`resumed`), so a repetition must do no harm. */
    void (*reclaim)(struct demand_source *source, const struct reclaim_order *order);
    /* Stops a reclaim that expired or that a newer order replaced. The source reports no end. */
    void (*reclaim_over)(struct demand_source *source, struct str instruction_id);
    /* Returns true if the source works. Otherwise /readyz shows `reason`. NULL: always ready. */
    bool (*ready)(struct demand_source *source, struct note *reason);
    /* Frees the source, also if start() failed. Kills running commands. */
    void (*close)(struct demand_source *source);
};
struct demand_source { /* the first member of every source's own struct */
    const struct source_ops *ops;
};

/* -- results of a reclaim -- */
void operator_reclaim_started(struct operator_host *host, struct str instruction_id);
/* Ends a reclaim; `why` is empty if the whole workload has moved away. */
void operator_reclaim_ended(struct operator_host *host, struct str instruction_id, struct str why);
#endif
