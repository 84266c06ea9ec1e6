/* SPDX-License-Identifier: Apache-2.0 */
/* A Kubernetes cluster as a source of demand.
 *
 * Demand is what its CapacityRequests say. For every pod that wants a machine's room the source
 * makes one and keeps it for the pod's whole life; people may write others. Machines are shown as
 * UpcomingNodes, hints as AvailableCapacities. A reclaim closes the node, evicts what runs there
 * within its disruption budgets, and ends when nothing is left that moves.
 *
 * Two threads read (pods, requests), eight write; all state is the loop's. What was done is read
 * from the server, never remembered: a new process goes on from the state of the cluster. */
#ifndef OPERATOR_KUBE_KUBE_H
#define OPERATOR_KUBE_KUBE_H
#include "io/io.h"
#include "kube/config.h"
#include "operator/source.h"

struct kube_source_options {
    const struct kube_config *config; /* copied */
    const char *namespace_;           /* copied; NULL: pods of all of them */
    bool no_pods;                     /* make no requests: something else writes CapacityRequests */
};
/* Connects nowhere yet. ERR_INVALID, ERR_NOMEM. */
enum err kube_source_open(const struct kube_source_options *options,
                          struct demand_source **ret_source, struct note *note);
#endif
