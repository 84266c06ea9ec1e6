/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of this cluster as the shard last reported them, with the phase that users of the
 * cluster see.
 *
 *   state from the shard         phase
 *   SPECULATIVE, CREATING        Provisioning
 *   IDLE                         Launched; after Draining: Drained, and the machine is gone
 *   CONFIGURING                  Registered
 *   CONFIGURED                   Ready
 *   DRAINING                     Draining
 *   FAILED                       Failed
 *   all others                   Provisioning
 *
 * Invariants: I3 A machine that has not left is counted in one phase. I4 A machine that has left
 * stays in the table only until its source has taken that change. A source takes changes one by
 * one. A machine that changed twice in between is taken once, in its newest state. Pure. */
#ifndef OPERATOR_CORE_NODES_H
#define OPERATOR_CORE_NODES_H
#include "base/list.h"
#include "base/map.h"
#include "model/machine.h"

enum {
    NODES_MAX = 1 << 20,  /* machines of one cluster; further machines are counted but not shown */
    NODE_TAINTS_MAX = 64, /* taints of one machine */
};

enum node_phase {
    NODE_PROVISIONING,
    NODE_LAUNCHED,
    NODE_REGISTERED,
    NODE_READY,
    NODE_DRAINING,
    NODE_DRAINED,
    NODE_FAILED,
    NODE_PHASE_COUNT
};
const char *node_phase_name(enum node_phase phase); /* for example "Provisioning" */
enum node_phase node_phase_of(enum machine_state state);

struct taint {
    struct str key, value, effect;
};
/* One machine. Texts and lists from nodes_*() are valid until the table changes. */
struct cluster_node {
    struct str machine_id;
    enum machine_state state; /* MACHINE_UNSPECIFIED: a state that this version does not know */
    enum node_phase phase;
    struct str node_name, provider_id, last_error;
    const struct label *labels; /* sorted by key */
    size_t label_count;
    const struct label *resources; /* name and quantity, as the shard reported them */
    size_t resource_count;
    const struct taint *taints;
    size_t taint_count;
};

struct nodes;
enum err nodes_open(uint64_t seed, struct nodes **ret_nodes); /* ERR_NOMEM */
void nodes_close(struct nodes *nodes);                        /* NULL is allowed */
/* Copies a report of the shard, except given->phase. ERR_FULL (NODES_MAX), ERR_NOMEM. */
enum err nodes_report(struct nodes *nodes, const struct cluster_node *given);
/* Sets the phase of a machine after a step of its reclaim, before the shard reports the step:
 * Draining, Drained or Failed. Ignored for a machine that is not in the table. */
void nodes_reclaim(struct nodes *nodes, struct str machine_id, enum node_phase phase);
/* Begins a new session. Machines that are not reported until nodes_sweep() count as left. */
void nodes_session(struct nodes *nodes);
size_t nodes_sweep(struct nodes *nodes); /* returns the number of machines that left */
size_t nodes_count(const struct nodes *nodes, enum node_phase phase);
const struct cluster_node *nodes_find(const struct nodes *nodes,
                                      struct str machine_id); /* NULL: no such machine */
/* Takes the oldest change: returns the id of a machine that changed or left. Returns false if there
 * is no change. The id is valid until the next call of nodes_take(). */
bool nodes_take(struct nodes *nodes, struct str *ret_id);
/* Returns the next machine in order of first report, or NULL. *cursor must be 0 at first. */
const struct cluster_node *nodes_next(const struct nodes *nodes, size_t *cursor);
#endif
