/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/errors.h"

const struct etcd_error_text etcd_errors[ETCD_ERROR_COUNT] = {
#define ETCD_TEXT(name, status, text) [name] = {status, text},
    ETCD_ERRORS(ETCD_TEXT)
#undef ETCD_TEXT
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
