/* SPDX-License-Identifier: Apache-2.0 */
/* The error texts of etcd, which clients compare byte for byte (C7). */
#ifndef STORE_ETCD_ERRORS_H
#define STORE_ETCD_ERRORS_H
#include "base/err.h"
#include "store/core/txn.h"

/* ETCD_REMOVED makes a client switch to another member and not return. */
#define ETCD_ERRORS(X)                                                                             \
    X(ETCD_OK, GRPC_OK, "")                                                                        \
    X(ETCD_EMPTY_KEY, GRPC_INVALID_ARGUMENT, "etcdserver: key is not provided")                    \
    X(ETCD_KEY_NOT_FOUND, GRPC_INVALID_ARGUMENT, "etcdserver: key not found")                      \
    X(ETCD_VALUE_PROVIDED, GRPC_INVALID_ARGUMENT, "etcdserver: value is provided")                 \
    X(ETCD_LEASE_PROVIDED, GRPC_INVALID_ARGUMENT, "etcdserver: lease is provided")                 \
    X(ETCD_TOO_MANY_OPS, GRPC_INVALID_ARGUMENT, "etcdserver: too many operations in txn request")  \
    X(ETCD_DUPLICATE_KEY, GRPC_INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request") \
    X(ETCD_BAD_SORT, GRPC_INVALID_ARGUMENT, "etcdserver: invalid sort option")                     \
    X(ETCD_TOO_LARGE, GRPC_INVALID_ARGUMENT, "etcdserver: request is too large")                   \
    X(ETCD_COMPACTED, GRPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted") \
    X(ETCD_FUTURE, GRPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")  \
    X(ETCD_NO_SPACE, GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")         \
    X(ETCD_TOO_MANY_REQUESTS, GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests")            \
    X(ETCD_LEASE_NOT_FOUND, GRPC_NOT_FOUND, "etcdserver: requested lease not found")               \
    X(ETCD_LEASE_EXISTS, GRPC_FAILED_PRECONDITION, "etcdserver: lease already exists")             \
    X(ETCD_LEASE_TTL, GRPC_OUT_OF_RANGE, "etcdserver: too large lease TTL")                        \
    X(ETCD_NO_LEADER, GRPC_UNAVAILABLE, "etcdserver: no leader")                                   \
    X(ETCD_NOT_LEADER, GRPC_FAILED_PRECONDITION, "etcdserver: not leader")                         \
    X(ETCD_LEADER_CHANGED, GRPC_UNAVAILABLE, "etcdserver: leader changed")                         \
    X(ETCD_STOPPED, GRPC_UNAVAILABLE, "etcdserver: server stopped")                                \
    X(ETCD_REMOVED, GRPC_UNAVAILABLE,                                                              \
      "etcdserver: server stopped: this replica was removed from the cluster")                     \
    X(ETCD_TIMEOUT, GRPC_UNAVAILABLE, "etcdserver: request timed out")                             \
    X(ETCD_TIMEOUT_CONNECTION, GRPC_UNAVAILABLE,                                                   \
      "etcdserver: request timed out, possibly due to connection lost")                            \
    X(ETCD_TIMEOUT_APPLIED, GRPC_UNAVAILABLE,                                                      \
      "etcdserver: request timed out, waiting for the applied index took too long")                \
    X(ETCD_UNHEALTHY, GRPC_UNAVAILABLE, "etcdserver: unhealthy cluster")                           \
    X(ETCD_CORRUPT, GRPC_DATA_LOSS, "etcdserver: corrupt cluster")                                 \
    X(ETCD_AUTH_DISABLED, GRPC_FAILED_PRECONDITION, "etcdserver: authentication is not enabled")   \
    X(ETCD_DENIED, GRPC_PERMISSION_DENIED, "etcdserver: permission denied")                        \
    X(ETCD_MEMBER_NOT_FOUND, GRPC_NOT_FOUND, "etcdserver: member not found")                       \
    X(ETCD_PEER_EXISTS, GRPC_FAILED_PRECONDITION, "etcdserver: Peer URLs already exists")          \
    X(ETCD_BAD_URLS, GRPC_INVALID_ARGUMENT, "etcdserver: given member URLs are invalid")           \
    X(ETCD_BAD_TRANSFEREE, GRPC_FAILED_PRECONDITION, "etcdserver: bad leader transferee")          \
    X(ETCD_LEFT_OUT, GRPC_UNIMPLEMENTED, "etcdserver: not supported by muster")                    \
    X(ETCD_SESSION_EXPIRED, GRPC_UNKNOWN, "mutex: session is expired")                             \
    X(ETCD_ELECTION_NOT_LEADER, GRPC_UNKNOWN, "election: not leader")                              \
    X(ETCD_ELECTION_NO_LEADER, GRPC_UNKNOWN, "election: no leader")                                \
    X(ETCD_NO_LEADER_KEY, GRPC_UNKNOWN, "\"leader\" field must be provided")

enum etcd_error {
#define ETCD_NAME(name, status, text) name,
    ETCD_ERRORS(ETCD_NAME)
#undef ETCD_NAME
        ETCD_ERROR_COUNT
};
struct etcd_error_text {
    enum grpc_status status;
    const char *text;
};
extern const struct etcd_error_text etcd_errors[ETCD_ERROR_COUNT];
enum etcd_error etcd_error_of(enum txn_refusal refusal);
#endif
