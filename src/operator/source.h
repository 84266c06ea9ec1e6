/* SPDX-License-Identifier: Apache-2.0 */
/* A source of demand: the part of an operator that knows one kind of cluster.
 *
 * A source puts the cluster's workloads into the demand table and carries out the shard's wishes in
 * the cluster: it shows the state of machines and drains them. A workload stays in the table for
 * its whole life, not only while it waits for a machine. If a request disappeared when it is met,
 * it would be met, withdrawn and requested again without end. A source never sees the shard, its
 * stream or a roll-up. `file.h` is one source, `kube/` another.
 *
 * There are two directions, both on the loop's thread:
 *
 *   struct source_ops   what the operator calls in a source. No call waits: a source that must wait
 *                       for a file or an API server does so on a thread of its own.
 *   struct operator_around, operator_*()
 *                       what a source uses of the operator. Allowed in callbacks of the loop and in
 *                       start(), until close(), but not inside other source_ops calls. The operator
 *                       notices changes of demand at the end of the turn.
 *
 * The surprising rule: the operator sends no demand before the source has ended its first list
 * (demand_list_end). A source that does not know all workloads for certain must not end a list; the
 * earlier demand then stays in force. An empty list means "no demand" and costs the cluster its
 * machines. */
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
    struct str cluster;      /* id of the cluster */
    const char *state_dir;   /* private to this process */
    struct operator_host *host;
    struct demand *demand;
    const struct nodes *nodes;
};

/* The shard requests the bootstrap data of a new machine. */
struct blob_request {
    struct str request_id; /* 16 hex digits; returned with the answer */
    const struct requirement *requirements;
    size_t requirement_count;
};
/* The shard reclaims a machine: put no new work on it, and drain it within the grace period. */
struct reclaim_order {
    struct str instruction_id;
    struct str machine_id;
    struct str node_name, provider_id; /* if known; otherwise empty */
    uint64_t grace_ms;                 /* time left from now on */
    int32_t preemptor_priority;        /* 0: no preemptor; the machine is not needed any more */
    bool resumed; /* the order was given before this process started; its progress is unknown */
};
/* A hint: how much more capacity of one profile is available. */
struct available {
    struct str key; /* "available:" and the fingerprint of the profile */
    const struct requirement *requirements;
    size_t requirement_count;
    uint32_t count;
    uint32_t confidence; /* values of the wire: 1 NONE, 2 LOW, 3 MEDIUM, 4 HIGH */
    double cost_per_hour;
};

/* Strings and lists that a source gets are valid during the call. Members whose comment says "may
 * be NULL" are optional. */
struct source_ops {
    const char *name; /* name in the log, for example "file" */
    /* Begins. An error ends the process with the note, so no temporary condition may be one. */
    enum err (*start)(struct demand_source *source, const struct operator_around *around,
                      struct note *note);
    /* The machine changed in the table or left it: nodes_find() now returns a different result. */
    void (*node_changed)(struct demand_source *source, struct str machine_id);
    /* The shard has reported all machines of the cluster: a shown machine that nodes_find() does
     * not return has left the cluster. May be NULL. */
    void (*nodes_whole)(struct demand_source *source);
    /* A hint; the newest hint of a key replaces earlier ones. May be NULL. */
    void (*available)(struct demand_source *source, const struct available *hint);
    /* The shard has accepted every request up to this change (demand_put), and reported all its
     * machines before the first such message. May be NULL. */
    void (*taken)(struct demand_source *source, uint64_t change);
    /* Take the machine out of use. Call operator_reclaim_started() as soon as the machine gets no
     * new work, then move its workload, then call operator_reclaim_ended(). After a restart the
     * same instruction may come again (`resumed`), so repeating it must do no harm. */
    void (*reclaim)(struct demand_source *source, const struct reclaim_order *order);
    /* The grace period ended or a newer order replaced this: stop. The result is not reported. */
    void (*reclaim_over)(struct demand_source *source, struct str instruction_id);
    /* True if the source works now. False: /readyz shows the reason. May be NULL: always. */
    bool (*ready)(struct demand_source *source, struct note *reason);
    /* Frees the source, also if start() failed. Kills running commands. */
    void (*close)(struct demand_source *source);
};
struct demand_source { /* first member of every source's own struct */
    const struct source_ops *ops;
};

/* -- results of a reclaim -- */
void operator_reclaim_started(struct operator_host *host, struct str instruction_id);
/* Ends a reclaim; `why` is empty if the whole workload has moved away. */
void operator_reclaim_ended(struct operator_host *host, struct str instruction_id, struct str why);
#endif
