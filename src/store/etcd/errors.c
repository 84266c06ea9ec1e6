/* SPDX-License-Identifier: Apache-2.0 */
/* The statuses and texts of etcd's errors, and the error for each refusal of the store's core. */
#include "store/etcd/errors.h"

const struct etcd_error_text etcd_errors[ETCD_ERROR_COUNT] = {
#define ETCD_TEXT(name, status, text) [name] = {status, text},
    ETCD_ERRORS(ETCD_TEXT)
#undef ETCD_TEXT
};

enum etcd_error etcd_error_of(enum txn_refusal refusal)
{
    static const enum etcd_error errors[] = {
        [TXN_TAKEN] = ETCD_OK,
        [TXN_NO_KEY] = ETCD_EMPTY_KEY,
        [TXN_KEY_TOO_LONG] = ETCD_TOO_LARGE,
        [TXN_TOO_LARGE] = ETCD_TOO_LARGE,
        [TXN_TOO_MANY] = ETCD_TOO_MANY_OPS,
        [TXN_DUPLICATE] = ETCD_DUPLICATE_KEY,
        [TXN_NO_OPERATION] = ETCD_KEY_NOT_FOUND,
        [TXN_KEY_MISSING] = ETCD_KEY_NOT_FOUND,
        [TXN_BAD_COMPARE] = ETCD_BAD_SORT,
        [TXN_BAD_SORT] = ETCD_BAD_SORT,
        [TXN_VALUE_PROVIDED] = ETCD_VALUE_PROVIDED,
        [TXN_LEASE_PROVIDED] = ETCD_LEASE_PROVIDED,
        [TXN_NO_LEASE] = ETCD_LEASE_NOT_FOUND,
        [TXN_COMPACTED] = ETCD_COMPACTED,
        [TXN_FUTURE] = ETCD_FUTURE,
        [TXN_CLAIM] = ETCD_DENIED,
        [TXN_NO_SPACE] = ETCD_NO_SPACE,
        [TXN_NO_MEMORY] = ETCD_TOO_MANY_REQUESTS,
    };

    return refusal < ARRAY_LEN(errors) ? errors[refusal] : ETCD_CORRUPT;
}
