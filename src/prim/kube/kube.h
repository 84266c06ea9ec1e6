/* SPDX-License-Identifier: Apache-2.0 */
/* k8s://namespace: entries as Lease objects of one namespace. See README.md.
 *   ?kubeconfig=FILE&context=NAME   instead of looking for credentials as kube/config.h says
 *   ?prefix=WORD                    of labels and annotations; "muster" */
#ifndef PRIM_KUBE_KUBE_H
#define PRIM_KUBE_KUBE_H
#include "prim/backend.h"

prim_open_fn prim_kube_open;
#endif
