/* SPDX-License-Identifier: Apache-2.0 */
/* The stores and their URLs. src/libmuster maps each scheme to an opener.
 *
 *   mem:                  a separate store in this process
 *   mem:?name=N           the store N, shared by all users in this process
 *   file:///dir           a directory of this host: sync=always, early_death=0, lock_timeout=10s,
 *                         tombstone_keep=1h, mode=0770, netfs=create-only; docs/filestore.md
 *   etcd://h1:2379,h2/p   an etcd cluster, coordination.md B3. p or prefix=: prefix of all keys.
 *                         raw=1: plain values, for keys that other programs read; no slots.
 *                         user:password@: Authenticate
 *   muster://h1:7790,h2   the coordinators' own store, coordination.md B6
 *   k8s://namespace       Lease objects: kubeconfig=FILE, context=NAME, prefix=WORD of labels
 *   nats://h1:4222/bucket a JetStream key-value bucket: create=1, replicas=N, durable=asserted
 *
 * etcds:// or tls=1 enables TLS. ca=, cert= and key= name files; without ca=, the system's root
 * certificates. */
#ifndef PRIM_STORES_H
#define PRIM_STORES_H
#include "prim/backend.h"

prim_open_fn prim_memory_open, prim_file_open, prim_etcd_open, prim_native_open, prim_kube_open,
    prim_nats_open;
#endif
