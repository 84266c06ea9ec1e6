/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that etcd's clients know by their text, byte for byte (C7). */
#ifndef STORE_ETCD_ERRORS_H
#define STORE_ETCD_ERRORS_H
#include "base/err.h"
#include "store/core/txn.h"

enum etcd_error {
    ETCD_OK,
    ETCD_EMPTY_KEY,
    ETCD_KEY_NOT_FOUND,
    ETCD_VALUE_PROVIDED,
    ETCD_LEASE_PROVIDED,
    ETCD_TOO_MANY_OPS,
    ETCD_DUPLICATE_KEY,
    ETCD_BAD_API_VERSION,
    ETCD_BAD_SORT,
    ETCD_TOO_LARGE,
    ETCD_COMPACTED,
    ETCD_FUTURE,
    ETCD_NO_SPACE,
    ETCD_TOO_MANY_REQUESTS,
    ETCD_LEASE_NOT_FOUND,
    ETCD_LEASE_EXISTS,
    ETCD_LEASE_TTL,
    ETCD_WATCH_CANCELED,
    ETCD_NO_LEADER,
    ETCD_NOT_LEADER,
    ETCD_LEADER_CHANGED,
    ETCD_STOPPED,
    ETCD_REMOVED,
    ETCD_TIMEOUT,
    ETCD_TIMEOUT_LEADER_FAIL,
    ETCD_TIMEOUT_CONNECTION,
    ETCD_TIMEOUT_APPLIED,
    ETCD_UNHEALTHY,
    ETCD_CORRUPT,
    ETCD_LEARNER,
    ETCD_AUTH_DISABLED,
    ETCD_BAD_TOKEN,
    ETCD_DENIED,
    ETCD_AUTH_FAILED,
    ETCD_NO_USER,
    ETCD_MEMBER_NOT_FOUND,
    ETCD_MEMBER_EXISTS,
    ETCD_PEER_EXISTS,
    ETCD_BAD_URLS,
    ETCD_CLUSTER_MISMATCH,
    ETCD_BAD_TRANSFEREE,
    ETCD_LEFT_OUT,
    ETCD_SESSION_EXPIRED,
    ETCD_ELECTION_NOT_LEADER,
    ETCD_ELECTION_NO_LEADER,
    ETCD_NO_LEADER_KEY,
    ETCD_ERROR_COUNT
};
struct etcd_error_text {
    enum grpc_status status;
    const char *text;
};
extern const struct etcd_error_text etcd_errors[ETCD_ERROR_COUNT];
enum etcd_error etcd_error_of(enum txn_refusal refusal);
#endif
