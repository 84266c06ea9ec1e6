/* SPDX-License-Identifier: Apache-2.0 */
/* A Kubernetes cluster as a source of demand.
 *
 * For every pod that needs a machine the source creates a CapacityRequest. This request exists as
 * long as the pod. People may write further requests. Machines are shown as UpcomingNodes, hints as
 * AvailableCapacities. A reclaim cordons the node and evicts its pods within their disruption
 * budgets.
 *
 * All state belongs to the loop. Other threads call the API server. Nothing is stored outside the
 * cluster: a new process continues from the cluster's objects. */
#ifndef OPERATOR_KUBE_KUBE_H
#define OPERATOR_KUBE_KUBE_H
#include "io/io.h"
#include "kube/config.h"
#include "operator/source.h"

struct kube_source_options {
    const struct kube_config *config; /* copied */
    const char *namespace_;           /* copied; NULL: pods of all namespaces */
    bool no_pods;                     /* another program writes the CapacityRequests */
};
/* Does not connect yet. Returns ERR_INVALID or ERR_NOMEM. */
enum err kube_source_open(const struct kube_source_options *options,
                          struct demand_source **ret_source, struct note *note);
#endif
