/* SPDX-License-Identifier: Apache-2.0 */
/* One table of who may call which method. The server checks the table before a handler runs, and
 * `musterctl auth table` prints it.
 *
 * Without TLS every check passes; the listener is then on loopback, or was opened by --insecure.
 * With TLS a name of the scheme bigfleet or muster counts only if it is the certificate's only URI
 * SAN of that scheme. */
#ifndef RPC_ACCESS_H
#define RPC_ACCESS_H
#include "base/err.h"
#include "base/note.h"
#include "io/tls.h"

enum rpc_access_kind {
    ACCESS_UNSET,   /* a method without a rule cannot be registered */
    ACCESS_ANYONE,  /* any peer that passed the TLS handshake: for health and reflection */
    ACCESS_ADMIN,   /* bigfleet://admin */
    ACCESS_READ,    /* bigfleet://readonly or bigfleet://admin */
    ACCESS_REPLICA, /* muster://replica/<any> */
    ACCESS_SHARD,   /* bigfleet://shard/<id>; the handler compares the id with the request */
    ACCESS_CLUSTER, /* bigfleet://cluster/<id>; the handler compares the id with the request */
    ACCESS_WORKER,  /* CN or DNS worker-<ULID>; the handler compares the name with the request */
    ACCESS_STORE,   /* a common name or one URI; the store maps the name to key prefixes */
    ACCESS_KIND_COUNT
};
struct rpc_access {
    enum rpc_access_kind kind;
};
const char *rpc_access_text(struct rpc_access access); /* such as "bigfleet://admin" */
/* ERR_DENIED: the note names the peer's and the required identity */
enum err rpc_access_check(struct rpc_access access, const struct tls_identity *identity,
                          struct note *note);
/* The name for logs: the single bigfleet:// URI, else the common name. "" for NULL. */
struct str rpc_access_name(const struct tls_identity *identity);
/* For handlers: is the identity prefix + id ("bigfleet://shard/" + "s1")? NULL passes. */
enum err rpc_access_is(const struct tls_identity *identity, struct str prefix, struct str id,
                       struct note *note);

/* -- the table: every method of the product, by path -- */
struct rpc_access_row {
    const char *path; /* such as "/bigfleet.v1alpha1.Coordinator/ListShards" */
    struct rpc_access access;
};
size_t rpc_access_table(const struct rpc_access_row **ret_rows);
/* ACCESS_UNSET: the table does not contain the path */
struct rpc_access rpc_access_for(struct str path);
#endif
