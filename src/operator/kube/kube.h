/* SPDX-License-Identifier: Apache-2.0 */
/* A Kubernetes cluster as a source of demand.
 *
 * The demand is the CapacityRequests of the cluster. For every pod that needs a machine the source
 * creates a CapacityRequest and keeps it for the pod's whole life; people may write others.
 * Machines are shown as UpcomingNodes, hints as AvailableCapacities. A reclaim cordons the node,
 * evicts its pods within their disruption budgets, and ends when no movable pod is left.
 *
 * Two threads read (pods, requests), eight write; all state belongs to the loop. Progress is read
 * from the server and never stored: a new process continues from the state of the cluster. */
#ifndef OPERATOR_KUBE_KUBE_H
#define OPERATOR_KUBE_KUBE_H
#include "io/io.h"
#include "kube/config.h"
#include "operator/source.h"

struct kube_source_options {
    const struct kube_config *config; /* copied */
    const char *namespace_;           /* copied; NULL: pods of all namespaces */
    bool no_pods; /* create no requests, because another program writes CapacityRequests */
};
/* Opens the source without connecting yet. Returns ERR_INVALID or ERR_NOMEM. */
enum err kube_source_open(const struct kube_source_options *options,
                          struct demand_source **ret_source, struct note *note);
#endif
