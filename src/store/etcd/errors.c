/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/errors.h"

const struct etcd_error_text etcd_errors[ETCD_ERROR_COUNT] = {
    [ETCD_OK] = {GRPC_OK, ""},
    [ETCD_EMPTY_KEY] = {GRPC_INVALID_ARGUMENT, "etcdserver: key is not provided"},
    [ETCD_KEY_NOT_FOUND] = {GRPC_INVALID_ARGUMENT, "etcdserver: key not found"},
    [ETCD_VALUE_PROVIDED] = {GRPC_INVALID_ARGUMENT, "etcdserver: value is provided"},
    [ETCD_LEASE_PROVIDED] = {GRPC_INVALID_ARGUMENT, "etcdserver: lease is provided"},
    [ETCD_TOO_MANY_OPS] = {GRPC_INVALID_ARGUMENT, "etcdserver: too many operations in txn request"},
    [ETCD_DUPLICATE_KEY] = {GRPC_INVALID_ARGUMENT,
                            "etcdserver: duplicate key given in txn request"},
    [ETCD_BAD_API_VERSION] = {GRPC_INVALID_ARGUMENT, "etcdserver: invalid client api version"},
    [ETCD_BAD_SORT] = {GRPC_INVALID_ARGUMENT, "etcdserver: invalid sort option"},
    [ETCD_TOO_LARGE] = {GRPC_INVALID_ARGUMENT, "etcdserver: request is too large"},
    [ETCD_COMPACTED] = {GRPC_OUT_OF_RANGE,
                        "etcdserver: mvcc: required revision has been compacted"},
    [ETCD_FUTURE] = {GRPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision"},
    [ETCD_NO_SPACE] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"},
    [ETCD_TOO_MANY_REQUESTS] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests"},
    [ETCD_LEASE_NOT_FOUND] = {GRPC_NOT_FOUND, "etcdserver: requested lease not found"},
    [ETCD_LEASE_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: lease already exists"},
    [ETCD_LEASE_TTL] = {GRPC_OUT_OF_RANGE, "etcdserver: too large lease TTL"},
    [ETCD_WATCH_CANCELED] = {GRPC_CANCELLED, "etcdserver: watch canceled"},
    [ETCD_NO_LEADER] = {GRPC_UNAVAILABLE, "etcdserver: no leader"},
    [ETCD_NOT_LEADER] = {GRPC_FAILED_PRECONDITION, "etcdserver: not leader"},
    [ETCD_LEADER_CHANGED] = {GRPC_UNAVAILABLE, "etcdserver: leader changed"},
    [ETCD_STOPPED] = {GRPC_UNAVAILABLE, "etcdserver: server stopped"},
    [ETCD_REMOVED] = {GRPC_UNAVAILABLE, /* clients go to another member, and come here no more */
                      "etcdserver: server stopped: this replica was removed from the cluster"},
    [ETCD_TIMEOUT] = {GRPC_UNAVAILABLE, "etcdserver: request timed out"},
    [ETCD_TIMEOUT_LEADER_FAIL] = {GRPC_UNAVAILABLE, "etcdserver: request timed out, possibly due "
                                                    "to previous leader failure"},
    [ETCD_TIMEOUT_CONNECTION] = {GRPC_UNAVAILABLE,
                                 "etcdserver: request timed out, possibly due to connection lost"},
    [ETCD_TIMEOUT_APPLIED] = {GRPC_UNAVAILABLE, "etcdserver: request timed out, waiting for the "
                                                "applied index took too long"},
    [ETCD_UNHEALTHY] = {GRPC_UNAVAILABLE, "etcdserver: unhealthy cluster"},
    [ETCD_CORRUPT] = {GRPC_DATA_LOSS, "etcdserver: corrupt cluster"},
    [ETCD_LEARNER] = {GRPC_FAILED_PRECONDITION, "etcdserver: rpc not supported for learner"},
    [ETCD_AUTH_DISABLED] = {GRPC_FAILED_PRECONDITION, "etcdserver: authentication is not enabled"},
    [ETCD_BAD_TOKEN] = {GRPC_UNAUTHENTICATED, "etcdserver: invalid auth token"},
    [ETCD_DENIED] = {GRPC_PERMISSION_DENIED, "etcdserver: permission denied"},
    [ETCD_AUTH_FAILED] = {GRPC_INVALID_ARGUMENT,
                          "etcdserver: authentication failed, invalid user ID or password"},
    [ETCD_NO_USER] = {GRPC_INVALID_ARGUMENT, "etcdserver: user name is empty"},
    [ETCD_MEMBER_NOT_FOUND] = {GRPC_NOT_FOUND, "etcdserver: member not found"},
    [ETCD_MEMBER_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: member ID already exist"},
    [ETCD_PEER_EXISTS] = {GRPC_FAILED_PRECONDITION, "etcdserver: Peer URLs already exists"},
    [ETCD_BAD_URLS] = {GRPC_INVALID_ARGUMENT, "etcdserver: given member URLs are invalid"},
    [ETCD_CLUSTER_MISMATCH] = {GRPC_FAILED_PRECONDITION, "etcdserver: cluster ID mismatch"},
    [ETCD_BAD_TRANSFEREE] = {GRPC_FAILED_PRECONDITION, "etcdserver: bad leader transferee"},
    [ETCD_LEFT_OUT] = {GRPC_UNIMPLEMENTED, "etcdserver: not supported by muster"},
    [ETCD_SESSION_EXPIRED] = {GRPC_UNKNOWN, "mutex: session is expired"},
    [ETCD_ELECTION_NOT_LEADER] = {GRPC_UNKNOWN, "election: not leader"},
    [ETCD_ELECTION_NO_LEADER] = {GRPC_UNKNOWN, "election: no leader"},
    [ETCD_NO_LEADER_KEY] = {GRPC_UNKNOWN, "\"leader\" field must be provided"},
};

enum etcd_error etcd_error_of(enum txn_refusal refusal)
{
    switch (refusal) {
    case TXN_TAKEN: return ETCD_OK;
    case TXN_NO_KEY: return ETCD_EMPTY_KEY;
    case TXN_KEY_TOO_LONG:
    case TXN_TOO_LARGE: return ETCD_TOO_LARGE;
    case TXN_TOO_MANY: return ETCD_TOO_MANY_OPS;
    case TXN_DUPLICATE: return ETCD_DUPLICATE_KEY;
    case TXN_NO_OPERATION:
    case TXN_KEY_MISSING: return ETCD_KEY_NOT_FOUND;
    case TXN_BAD_COMPARE:
    case TXN_BAD_SORT: return ETCD_BAD_SORT;
    case TXN_VALUE_PROVIDED: return ETCD_VALUE_PROVIDED;
    case TXN_LEASE_PROVIDED: return ETCD_LEASE_PROVIDED;
    case TXN_NO_LEASE: return ETCD_LEASE_NOT_FOUND;
    case TXN_COMPACTED: return ETCD_COMPACTED;
    case TXN_FUTURE: return ETCD_FUTURE;
    case TXN_CLAIM: return ETCD_DENIED;
    case TXN_NO_SPACE: return ETCD_NO_SPACE;
    case TXN_NO_MEMORY: return ETCD_TOO_MANY_REQUESTS;
    }
    return ETCD_CORRUPT;
}
