/* SPDX-License-Identifier: Apache-2.0 */
/* A source of demand: the part of an operator that knows one kind of cluster.
 *
 * A source puts the cluster's workloads into the demand table, shows machines in the cluster and
 * drains them. A workload stays in the table even after it got a machine. Otherwise its request
 * would be met, withdrawn and repeated without end.
 *
 *   struct source_ops         what the operator calls. No call may block: a source that must wait
 *                             does so on a thread of its own.
 *   struct operator_around,   what a source may use from start() to close(), but not inside other
 *   operator_*()              source_ops calls.
 *
 * Both run on the loop's thread.
 *
 * The operator sends no demand before the source has ended its first list (demand_list_end). A
 * source that may lack workloads must not end a list. An empty list means "no demand" and costs the
 * cluster its machines. */
#ifndef OPERATOR_SOURCE_H
#define OPERATOR_SOURCE_H
#include "base/note.h"
#include "operator/core/demand.h"
#include "operator/core/nodes.h"
#include "operator/core/occupancy.h"

struct operator_host;
struct demand_source;
struct io;
struct log_source;
struct metrics;

struct operator_around {
    struct io *io;
    const struct log_source *log;
    struct metrics *metrics; /* may be NULL */
    struct str cluster;
    const char *state_dir; /* private to this process */
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
/* The shard's order to drain a machine within the grace period. */
struct reclaim_order {
    struct str instruction_id;
    struct str machine_id;
    struct str node_name, provider_id; /* empty if not known */
    uint64_t grace_ms;                 /* milliseconds left from now on */
    int32_t preemptor_priority;        /* 0: not a preemption */
    bool resumed; /* an earlier process got the order; its progress is unknown */
};
struct available {
    struct str key; /* "available:" and the profile's fingerprint */
    const struct requirement *requirements;
    size_t requirement_count;
    uint32_t count;
    uint32_t confidence; /* 1 NONE, 2 LOW, 3 MEDIUM, 4 HIGH */
    double cost_per_hour;
};

/* Texts and lists in arguments are valid during the call. */
struct source_ops {
    const char *name;
    /* An error ends the process, so temporary problems must not be errors. */
    enum err (*start)(struct demand_source *source, const struct operator_around *around,
                      struct note *note);
    /* The result of nodes_find() changed, because the machine changed or left. */
    void (*node_changed)(struct demand_source *source, struct str machine_id);
    /* The shard has reported all machines. A shown machine that nodes_find() does not return has
     * left. May be NULL. */
    void (*nodes_whole)(struct demand_source *source);
    /* Replaces an earlier hint with the same key. May be NULL. */
    void (*available)(struct demand_source *source, const struct available *hint);
    /* The shard has accepted all requests up to `change`, a number from demand_put(). Before the
     * first call the shard has reported all machines. May be NULL. */
    void (*taken)(struct demand_source *source, uint64_t change);
    /* demand_supply() `changed` for some requests since the last call. Called at most once in a
     * second, and again while the result is true: the source has not looked at all requests. May be
     * NULL; then the shard sends no status. */
    bool (*supplies)(struct demand_source *source, bool changed);
    /* Drains a machine. The source calls operator_reclaim_started() as soon as the machine gets
     * no new work, and operator_reclaim_ended() at the end. An order may be repeated after a
     * restart. */
    void (*reclaim)(struct demand_source *source, const struct reclaim_order *order);
    /* The order expired or was replaced: stop, and report no end. */
    void (*reclaim_over)(struct demand_source *source, struct str instruction_id);
    /* What the cluster's machines run, for a roll-up; valid until the source's next event. False: not
     * known yet. NULL: this source cannot report it. */
    bool (*occupancy)(struct demand_source *source, struct occupancy_rows *ret_rows);
    /* Grows when the result of occupancy() may have changed; 0: not known yet. NULL with
     * occupancy. */
    uint64_t (*occupancy_change)(struct demand_source *source);
    /* If false, /readyz shows `reason`. NULL: always ready. */
    bool (*ready)(struct demand_source *source, struct note *reason);
    /* Frees the source, also if start() failed. Kills running commands. */
    void (*close)(struct demand_source *source);
};
struct demand_source { /* the first member of every source's own struct */
    const struct source_ops *ops;
};

/* -- results of a reclaim -- */
void operator_reclaim_started(struct operator_host *host, struct str instruction_id);
/* `why` is empty if the whole workload has moved away. */
void operator_reclaim_ended(struct operator_host *host, struct str instruction_id, struct str why);
#endif
