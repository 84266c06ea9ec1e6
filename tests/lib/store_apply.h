/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a command of the store in all the turns that it takes. */
#ifndef TESTS_LIB_STORE_APPLY_H
#define TESTS_LIB_STORE_APPLY_H
#include "store/core/store.h"

static inline void store_apply(struct store *store, uint64_t clock_ns,
                               const struct store_command *command, struct store_result *ret_result,
                               struct store_renewal *renewals)
{
    if (!store_apply_begin(store, clock_ns, command, ret_result, renewals)) return;
    while (store_apply_more(store, command, ret_result)) continue;
}
#endif
