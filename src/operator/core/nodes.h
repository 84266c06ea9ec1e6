/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of a cluster as the shard last reported them, with the phase that users see. Pure.
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
 * A report with `left` ends the machine, in every state and even if it was never seen: a shard keeps
 * such a report for the next session.
 *
 * A source takes changes one by one, and each machine in its newest state. Invariants: I3 A machine
 * that has not left is counted in one phase. I4 A machine that has left stays in the table only
 * until its source has taken that change. */
#ifndef OPERATOR_CORE_NODES_H
#define OPERATOR_CORE_NODES_H
#include "base/list.h"
#include "base/map.h"
#include "model/machine.h"

enum {
    NODES_MAX = 1 << 20, /* further machines are counted but not shown */
    NODE_TAINTS_MAX = 64,
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
/* One machine. Texts and lists are valid until the table changes. */
struct cluster_node {
    struct str machine_id;
    enum machine_state state; /* MACHINE_UNSPECIFIED: unknown to this version */
    enum node_phase phase;
    bool left; /* in a report: the machine is no longer the cluster's */
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
/* given->phase is ignored. ERR_FULL (NODES_MAX), ERR_NOMEM. */
enum err nodes_report(struct nodes *nodes, const struct cluster_node *given);
/* Sets the phase to Draining, Drained or Failed before the shard reports this state. Ignores an
 * unknown machine. */
void nodes_reclaim(struct nodes *nodes, struct str machine_id, enum node_phase phase);
/* Begins a session. nodes_sweep() treats machines without a report in this session as left. */
void nodes_session(struct nodes *nodes);
size_t nodes_sweep(struct nodes *nodes);
size_t nodes_count(const struct nodes *nodes, enum node_phase phase);
const struct cluster_node *nodes_find(const struct nodes *nodes,
                                      struct str machine_id); /* NULL: no such machine */
/* Takes the oldest change. The machine's id is valid until the next call. False: there is no
 * change. */
bool nodes_take(struct nodes *nodes, struct str *ret_id);
/* Returns the next machine in order of first report, or NULL. *cursor must be 0 at first. */
const struct cluster_node *nodes_next(const struct nodes *nodes, size_t *cursor);
#endif
