/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a cluster run: the pods that a drain would evict, those that it may not evict
 * now, and the free amounts. Pure: objects in, rows of occupancy out.
 *
 *   evictable   a pod with a controller that no PodDisruptionBudget holds
 *   held        a pod without a controller, which nothing would start again; a pod that a budget
 *               without further disruptions selects; a pod whose requests cannot be read
 *
 * Pods of DaemonSets, mirror pods and terminating pods count for neither, but use their node. */
#ifndef OPERATOR_KUBE_LOADS_H
#define OPERATOR_KUBE_LOADS_H
#include "operator/core/occupancy.h"
#include "operator/kube/objects.h"

enum load_kind { LOAD_PODS, LOAD_NODES, LOAD_BUDGETS, LOAD_KINDS };

struct loads;
enum err loads_open(uint64_t seed, struct loads **ret_loads); /* ERR_NOMEM */
void loads_close(struct loads *loads);                        /* NULL is allowed */

/* Call when a list begins. The end of the list removes the objects of the kind that the list did
 * not contain. */
void loads_begin(struct loads *loads, enum load_kind kind);
void loads_end(struct loads *loads, enum load_kind kind);
/* If memory runs out, nothing is known until the next list of the kind. */
void loads_seen(struct loads *loads, enum load_kind kind, const struct json *object);
void loads_gone(struct loads *loads, enum load_kind kind, const struct json *object);

/* Grows with every change that matters. 0: some kind was not listed yet, or memory ran out. */
uint64_t loads_change(const struct loads *loads);
/* Makes a row for each machine that is Ready or Draining and has a node. The rows are valid until
 * the next call. False: not known, or ERR_NOMEM. */
bool loads_rows(struct loads *loads, const struct nodes *machines, struct occupancy_rows *ret_rows);
#endif
