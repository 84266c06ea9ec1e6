/* SPDX-License-Identifier: Apache-2.0 */
/* etcd as a store: etcd://h1:2379,h2:2379/prefix, coordination.md B3.
 *
 * What stands where: every key is "muster/" + prefix + key, its value an envelope. With ?raw=1 it
 * is prefix + key and the bare value, for keys that other programs read; no slots then.
 *
 *   etcds://, ?tls=1   TLS; ca=, cert=, key= name files; without ca= the system's roots
 *   user:password@     Authenticate; the token is renewed when the server forgets it
 *   prefix=            the same as the path
 *
 * Revision = mod_revision; token = revision of the granting transaction; store id = the cluster's
 * id and the prefix. Restore a backup with a new --initial-cluster-token, so that the id changes
 * (R5): handles from before the restore are refused then. */
#ifndef PRIM_ETCD_ETCD_H
#define PRIM_ETCD_ETCD_H
#include "prim/backend.h"

coord_result prim_etcd_open(const struct prim_open *in, struct prim_backend **ret_backend);
#endif
