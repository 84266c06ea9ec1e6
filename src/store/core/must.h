/* SPDX-License-Identifier: Apache-2.0 */
/* For allocations during apply. A replica without memory ends the process, because its state would
 * otherwise differ from the other replicas. */
#ifndef STORE_CORE_MUST_H
#define STORE_CORE_MUST_H
#include "base/base.h"

static inline void *store_must(void *memory)
{
    assert(memory && "out of memory while applying: the replica ends rather than differ");
    return memory;
}
#endif
