/* SPDX-License-Identifier: Apache-2.0 */
/* Who may call what: one table, as data, read by the server before a handler runs and printed by
 * `musterctl auth table`.
 *
 * Without TLS there is no identity and every check passes (the listener is on loopback then, or
 * was forced open by --insecure). Under TLS the identity is the single URI SAN of the scheme;
 * none or several is no identity, and every rule but ACCESS_ANYONE refuses it with
 * PERMISSION_DENIED. So does a peer that was let in without a certificate. */
#ifndef RPC_ACCESS_H
#define RPC_ACCESS_H
#include "base/err.h"
#include "base/note.h"
#include "io/tls.h"

enum rpc_access_kind {
    ACCESS_UNSET,   /* a method that forgot its rule cannot be registered */
    ACCESS_ANYONE,  /* who passed the handshake: health, reflection */
    ACCESS_ADMIN,   /* bigfleet://admin */
    ACCESS_READ,    /* bigfleet://readonly or bigfleet://admin */
    ACCESS_REPLICA, /* muster://replica/<any> */
    ACCESS_SHARD,   /* bigfleet://shard/<id>; the handler compares the id with the body */
    ACCESS_CLUSTER, /* bigfleet://cluster/<id>; likewise */
    ACCESS_WORKER,  /* CN or DNS worker-<ULID>; likewise */
    ACCESS_STORE,   /* a common name or one URI; mapped to key prefixes by the store */
    ACCESS_KIND_COUNT
};
struct rpc_access {
    enum rpc_access_kind kind;
};
const char *rpc_access_text(struct rpc_access access); /* "bigfleet://admin", for the table */
/* ERR_OK, or ERR_DENIED with a note that names what was shown and what is needed. */
enum err rpc_access_check(struct rpc_access access, const struct tls_identity *identity,
                          struct note *note);
/* Who it is, for logs and audits: its one bigfleet:// URI, else its common name. NULL: empty. */
struct str rpc_access_name(const struct tls_identity *identity);
/* For handlers: the identity is exactly prefix + id ("bigfleet://shard/" + "s1"). NULL passes. */
enum err rpc_access_is(const struct tls_identity *identity, struct str prefix, struct str id,
                       struct note *note);

/* -- the table: every method of every contract of the product, by path -- */
struct rpc_access_row {
    const char *path; /* "/bigfleet.v1alpha1.Coordinator/ListShards" */
    struct rpc_access access;
};
size_t rpc_access_table(const struct rpc_access_row **ret_rows);
/* ACCESS_UNSET for a path that is not in the table. */
struct rpc_access rpc_access_for(struct str path);
#endif
